"""Each consensus method against answers by hand and slow definitions."""

from __future__ import annotations

import numpy as np
import pytest
from crowds import coins, crowd, slow_dawid_skene, uneven
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit
from scipy.stats import beta

from ncalr.errors import BadInput, NotFinite, UnknownName
from ncalr.votes import (
    METHODS,
    Votes,
    aggregate,
    crowdlab,
    dawid_skene,
    doubts,
    fit_temperature,
    glad,
    jeffreys,
    majority,
    one_coin,
    tempered,
)
from ncalr.votes import glad as glad_function
from ncalr.votes.consensus import lot
from ncalr.votes.glad import _density

steady = settings(deadline=None, derandomize=True, max_examples=40)


def call(method: str, votes: Votes, **options):
    if method in ("crowdlab", "bayes"):
        options.setdefault("probs", np.full(votes.counts.shape, 1 / votes.classes))
    return METHODS[method](votes, **options)


def softly(labels: np.ndarray, classes: int, confidence: float) -> np.ndarray:
    probs = np.full((len(labels), classes), (1 - confidence) / (classes - 1))
    probs[np.arange(len(labels)), labels] = confidence
    return probs


# -- what every method returns --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_shapes_and_meaning_of_a_result(method: str) -> None:
    votes, truth = crowd(np.random.default_rng(0), 200, coins([0.9, 0.8, 0.6, 0.85], 3), answers=3)
    found = call(method, votes)
    assert found.method == method
    assert (found.posterior.shape, found.labels.shape, found.accuracy.shape) == ((200, 3), (200,), (4,))
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    np.testing.assert_allclose(found.confidence, found.posterior.max(axis=1), rtol=1e-8)
    assert np.array_equal(found.confidence, found.posterior[np.arange(200), found.labels])
    assert (found.labels == truth).mean() > 0.85
    assert found.accuracy.argmin() == 2
    interval = found.interval()
    assert ((interval[:, 0] < found.accuracy) & (found.accuracy < interval[:, 1])).all()
    assert (found.interval(0.5)[:, 0] > interval[:, 0]).all()
    assert found.rows()[2] == {
        "annotator": 2,
        "answers": int(votes.given[2]),
        "accuracy": found.accuracy[2],
        "low": interval[2, 0],
        "high": interval[2, 1],
    }
    one = found.of(2)
    assert (one.id, one.answers, one.accuracy, one.low, one.high) == tuple(found.rows()[2].values())


@pytest.mark.parametrize("method", METHODS)
def test_order_of_the_answers_and_names_of_the_items_do_not_matter(method: str) -> None:
    rng = np.random.default_rng(1)
    votes, _ = crowd(rng, 60, uneven(rng, 4, 3), answers=3)
    order = rng.permutation(len(votes))
    mixed = Votes.from_long(
        votes.item[order],
        votes.annotator[order],
        votes.label[order],
        3,
        known_items=np.arange(60),
        known_annotators=np.arange(4),
    )
    a, b = call(method, votes), call(method, mixed)
    np.testing.assert_allclose(a.posterior, b.posterior, atol=1e-6)
    assert np.array_equal(a.labels, b.labels)
    np.testing.assert_allclose(a.interval(), b.interval(), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_classes_renamed_are_answers_renamed(method: str) -> None:
    rng = np.random.default_rng(2)
    votes, _ = crowd(rng, 80, uneven(rng, 5, 3))
    name = np.array([2, 0, 1])
    renamed = Votes.from_long(votes.item, votes.annotator, name[votes.label], 3)
    probs = rng.dirichlet(np.ones(3), 80)
    options = ({"probs": probs}, {"probs": probs[:, name.argsort()]}) if method in ("crowdlab", "bayes") else ({}, {})
    a, b = call(method, votes, **options[0]), call(method, renamed, **options[1])
    np.testing.assert_allclose(b.posterior[:, name], a.posterior, atol=1e-6)


def test_aggregate_by_name() -> None:
    votes = Votes.from_matrix([[0, 0, 1], [1, 1, 1]], 2)
    assert aggregate(votes).method == "dawid_skene"
    assert aggregate(votes, "majority", seed=3).labels.tolist() == [0, 1]
    with pytest.raises(UnknownName, match=r"no consensus method 'dawid-skeen'. Did you mean 'dawid_skene'"):
        aggregate(votes, "dawid-skeen")


def test_jeffreys_is_the_beta_quantile() -> None:
    low, high = jeffreys(0.3, 20, 0.9)
    assert low == pytest.approx(beta(6.5, 14.5).ppf(0.05))
    assert high == pytest.approx(beta(6.5, 14.5).ppf(0.95))
    for level in (0, 1, 95):
        with pytest.raises(BadInput, match="level must lie between 0 and 1"):
            jeffreys(0.3, 20, level)


@pytest.mark.parametrize("method", ["majority", "one_coin", "glad", "crowdlab"])
def test_only_dawid_skene_has_confusions(method: str) -> None:
    found = call(method, Votes.from_matrix([[0, 0, 1], [1, 1, 1]], 2))
    assert found.confusion is None
    assert found.of(0).confusion is None
    with pytest.raises(BadInput, match=f"{method} has no confusion matrices; dawid_skene has"):
        found.confusion_interval()


@pytest.mark.parametrize("method", ["one_coin", "dawid_skene", "glad"])
@pytest.mark.parametrize("options", [{"tolerance": -1.0}, {"iterations": 0}, {"tolerance": float("nan")}])
def test_rules_for_stopping_that_are_none(method: str, options: dict) -> None:
    with pytest.raises(BadInput, match="tolerance must not be negative and iterations at least 1"):
        call(method, Votes.from_matrix([[0, 0, 1]], 2), **options)


@pytest.mark.parametrize("method", ["one_coin", "dawid_skene", "glad"])
def test_the_objective_never_falls_and_says_where_it_was_cut_short(method: str) -> None:
    rng = np.random.default_rng(3)
    votes, _ = crowd(rng, 150, uneven(rng, 4, 3, low=0.4), answers=3)
    found = call(method, votes, tolerance=1e-9, iterations=2000)
    assert len(found.objective) > 5
    assert (np.diff(found.objective) > -1e-9).all()
    assert not any("stopped after" in note for note in found.notes)
    short = call(method, votes, iterations=2)
    assert len(short.objective) == 2
    assert "stopped after 2 iterations, before it had settled" in short.notes[0]


@pytest.mark.parametrize("method", ["one_coin", "dawid_skene"])
def test_the_default_rule_stops_at_a_gain_below_1e_5(method: str) -> None:
    rng = np.random.default_rng(4)
    found = call(method, crowd(rng, 150, uneven(rng, 5, 3))[0])
    gains = np.diff(found.objective)
    assert gains[-1] < 1e-5
    assert (gains[:-1] >= 1e-5).all()


# -- majority -------------------------------------------------------------------------------------------------


def test_majority_by_hand() -> None:
    votes = Votes.from_matrix([[0, 0, 1], [2, 2, 2], [1, -1, -1], [-1, 0, 0]], 3, annotators=["a", "b", "c"])
    found = majority(votes)
    assert found.labels.tolist() == [0, 2, 1, 0]
    np.testing.assert_allclose(found.confidence, [2 / 3, 1, 1, 1])
    # the third item has one answer and judges nobody: a is right in 2 of 2, b in 3 of 3, c in 2 of 3
    np.testing.assert_allclose(found.accuracy, [1, 1, 2 / 3])
    assert found.worth.tolist() == [2, 3, 3]
    np.testing.assert_allclose(found.interval()[2], beta(2.5, 1.5).ppf([0.025, 0.975]))


def test_ties_go_to_the_model_and_then_to_the_lot() -> None:
    votes = Votes.from_matrix([[0, 1], [0, 1], [2, 1], [2, 1]], 3)
    probs = [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.9, 0.1, 0.0], [0.2, 0.4, 0.4]]
    found = majority(votes, probs=probs)
    assert found.labels[:3].tolist() == [1, 0, 1]
    assert found.labels[3] in (1, 2)
    assert "1 items are tied between classes; decided at random (seed 0)" in found.notes[0]
    assert "4 items are tied" in majority(votes).notes[0]


def test_a_model_does_not_overrule_a_majority() -> None:
    votes = Votes.from_matrix([[0, 0, 1]], 2)
    assert majority(votes, probs=[[0.0, 1.0]]).labels.tolist() == [0]


def test_the_lot_is_even_seeded_and_the_items_own() -> None:
    table = np.tile([0, 2], (3000, 1))
    votes = Votes.from_matrix(table, 3)
    first = majority(votes, seed=1).labels
    assert set(first.tolist()) == {0, 2}
    assert abs((first == 0).mean() - 0.5) < 0.04
    assert np.array_equal(first, majority(votes, seed=1).labels)
    assert not np.array_equal(first, majority(votes, seed=2).labels)
    some = np.random.default_rng(0).permutation(3000)[:100]
    assert np.array_equal(majority(Votes.from_matrix(table[some], 3, items=some), seed=1).labels, first[some])
    assert len({lot(0, item, 1000) for item in (1, "1", (1,), 2)}) == 4
    assert lot(0, np.int64(1), 1000) == lot(0, 1, 1000)


# -- one coin -------------------------------------------------------------------------------------------------


def test_one_coin_settles_where_its_two_steps_agree() -> None:
    rng = np.random.default_rng(5)
    votes, _ = crowd(rng, 100, coins([0.9, 0.7, 0.6, 0.8], 4), answers=3)
    found = one_coin(votes, tolerance=0.0, iterations=3000)
    majority_like = votes.counts[votes.item, votes.label] == votes.counts[votes.item].max(axis=1)
    alpha0 = (majority_like.sum() + 0.5) / (len(votes) + 1)
    right = np.bincount(votes.annotator, found.posterior[votes.item, votes.label])
    alpha = (right + alpha0) / (votes.given + 1)
    shares = (found.posterior.sum(axis=0) + 1 / 4) / 101
    expected = np.tile(shares, (100, 1))
    for i, j, said in zip(votes.item, votes.annotator, votes.label, strict=True):
        expected[i] *= np.where(np.arange(4) == said, alpha[j], (1 - alpha[j]) / 3)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.posterior, expected, atol=1e-6)
    np.testing.assert_allclose(found.accuracy, right / votes.given)


def test_a_good_annotator_outvotes_two_poor_ones() -> None:
    rng = np.random.default_rng(6)
    votes, truth = crowd(rng, 2000, coins([0.97, 0.6, 0.6, 0.6], 5))
    found = one_coin(votes)
    assert (found.labels == truth).mean() > 0.96 > (majority(votes).labels == truth).mean() + 0.03


def test_answers_twice_by_the_same_annotator_are_two_readings() -> None:
    """Two for class 0 by one annotator against one for class 1 by another who is as good: class 0."""
    votes = Votes.from_long([0, 0, 0, 1, 1, 2, 2], list("aabbaba"), [0, 0, 1, 0, 0, 1, 1], 2)
    found = one_coin(votes)
    assert found.labels.tolist() == [0, 0, 1]
    assert found.posterior[0, 0] > 0.6
    assert found.given.tolist() == [4, 3]


# -- Dawid and Skene ------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.1, 1.0, 10.0]))
@steady
def test_dawid_skene_against_the_printed_steps(seed: int, turns: int, smoothing: float) -> None:
    rng = np.random.default_rng(seed)
    votes, _ = crowd(rng, 25, uneven(rng, 4, 3), answers=3)
    found = dawid_skene(votes, smoothing=smoothing, towards="uniform", iterations=turns, tolerance=0.0)
    turned = len(found.objective)
    posterior, theta = slow_dawid_skene(votes, np.full((4, 3, 3), smoothing / 3), turned)
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-9)
    # the confusions are those of the posterior at the end: one more M-step
    theta = slow_dawid_skene(votes, np.full((4, 3, 3), smoothing / 3), turned + 1)[1]
    np.testing.assert_allclose(found.confusion, theta, atol=1e-9)


def test_dawid_skene_uses_who_confuses_what() -> None:
    """b and c call every 1 a 2; a alone keeps them apart. Majority and one coin lose class 1; confusions find it."""
    rng = np.random.default_rng(7)
    blind = np.array([[0.9, 0.05, 0.05], [0.05, 0.15, 0.8], [0.05, 0.05, 0.9]])
    good = coins([0.92], 3)[0]
    votes, truth = crowd(rng, 3000, np.stack([good, good, blind, blind, blind]))
    right = {
        method: (METHODS[method](votes).labels == truth)[truth == 1].mean() for method in ("majority", "dawid_skene")
    }
    assert right["majority"] < 0.5
    assert right["dawid_skene"] > 0.9
    found = dawid_skene(votes)
    assert np.abs(found.confusion[2] - blind).max() < 0.06


def test_smoothing_towards_one_coin_needs_fewer_answers() -> None:
    scores = {}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        votes, truth = crowd(rng, 300, coins(np.linspace(0.5, 0.95, 20), 10), answers=3)
        for towards in ("one_coin", "uniform"):
            scores.setdefault(towards, []).append((dawid_skene(votes, towards=towards).labels == truth).mean())
    assert np.mean(scores["one_coin"]) > np.mean(scores["uniform"]) + 0.05


def test_what_dawid_skene_cannot_smooth_with() -> None:
    votes = Votes.from_matrix([[0, 1]], 2)
    with pytest.raises(BadInput, match=r"smoothing must be above 0 answers a row, got 0"):
        dawid_skene(votes, smoothing=0)
    with pytest.raises(UnknownName, match=r"no prior for confusion matrices 'onecoin'. Did you mean 'one_coin'"):
        dawid_skene(votes, towards="onecoin")  # type: ignore[arg-type]


# -- GLAD -----------------------------------------------------------------------------------------------------


def test_the_gradient_of_glad() -> None:
    rng = np.random.default_rng(8)
    votes, _ = crowd(rng, 12, coins([0.9, 0.7, 0.5], 3))
    point = rng.normal(0.5, 0.7, 15)
    numeric = approx_fprime(point, lambda p: _density(votes, p[:3], p[3:])[0], 1e-6)
    np.testing.assert_allclose(_density(votes, point[:3], point[3:])[1], numeric, atol=1e-4)


def test_the_posterior_of_glad_by_hand() -> None:
    """One item, answers 0, 0, 1; abilities a, log clarity b: odds of 0 to 1 from the two likelihoods."""
    votes = Votes.from_matrix([[0, 0, 1]], 2)
    ability, b = np.array([1.0, 0.5, 2.0]), np.array([0.3])
    right = expit(ability * np.exp(b[0]))
    shares = (np.array([2 / 3, 1 / 3]) + 0.5) / 2
    zero = shares[0] * right[0] * right[1] * (1 - right[2])
    one = shares[1] * (1 - right[0]) * (1 - right[1]) * right[2]
    np.testing.assert_allclose(_density(votes, ability, b)[2], [[zero / (zero + one), one / (zero + one)]])


def test_glad_finds_hard_items_and_able_people() -> None:
    rng = np.random.default_rng(9)
    n, ability = 400, np.array([3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.3, 0.0])
    clarity = np.exp(rng.normal(0, 1, n))
    truth = rng.integers(0, 2, n)
    right = rng.random((n, 8)) < expit(ability * clarity[:, None])
    votes = Votes.from_matrix(np.where(right, truth[:, None], 1 - truth[:, None]), 2)
    found = glad(votes)
    assert np.corrcoef(np.log(found.difficulty), -np.log(clarity))[0, 1] > 0.5
    assert found.accuracy.argsort()[-3:].min() <= 2
    assert (found.labels == truth).mean() > (majority(votes).labels == truth).mean()
    assert abs(found.accuracy[7] - 0.5) < 0.07


def test_glad_of_silent_items_has_the_difficulty_of_the_prior() -> None:
    found = glad(Votes.from_matrix([[0, 0], [-1, -1]], 2))
    assert found.difficulty[1] == pytest.approx(np.exp(-1))
    assert found.difficulty[0] < found.difficulty[1]


def test_the_name_glad_is_the_function() -> None:
    assert glad_function is METHODS["glad"]


# -- CROWDLAB and ActiveLab -----------------------------------------------------------------------------------


def crowdlab_by_hand() -> tuple[Votes, np.ndarray]:
    votes = Votes.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, -1], [1, 1, -1], [1, 0, -1], [0, -1, -1], [-1] * 3], 2)
    return votes, np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.7, 0.3], [0.1, 0.9], [0.9, 0.1], [0.6, 0.4]])


def test_crowdlab_by_hand() -> None:
    """Five items have several opinions; their majority is 0, 1, 0, 1, and 1 by the model where answers are tied.

    P = (2/3 + 1 + 1 + 1 + 1/2) / 5. Agreement with co-annotators: a: 1 of 2, 2 of 2, 1 of 1, 1 of 1, 0 of 1 = 5/7,
    b the same, c: 0 of 2, 2 of 2 = 2/4. One who always says 1: two of five wrong. The model says 0, 1, 0, 0 where the
    answers decide alone: one of four wrong; one who always says the same there: two of four.
    """
    votes, probs = crowdlab_by_hand()
    found = crowdlab(votes, probs)
    trust = (2 / 3 + 1 + 1 + 1 + 1 / 2) / 5
    w = np.array([1 - (2 / 7) / 0.4, 1 - (2 / 7) / 0.4, 1e-6])
    w_model = (1 - 0.25 / 0.5) * np.sqrt((3 + 3 + 2 + 2 + 2 + 1) / 6)
    np.testing.assert_allclose(found.weights, w)
    assert found.model_weight == pytest.approx(w_model)
    said = np.array([trust, 1 - trust])
    first = (w_model * probs[0] + w[0] * said + w[1] * said + w[2] * said[::-1]) / (w_model + w.sum())
    np.testing.assert_allclose(found.posterior[0], first)
    np.testing.assert_allclose(found.posterior[5], (w_model * probs[5] + w[0] * said) / (w_model + w[0]))
    np.testing.assert_allclose(found.posterior[6], probs[6])
    assert found.labels.tolist()[5:] == [0, -1]
    agree = found.labels[votes.item] == votes.label
    np.testing.assert_allclose(found.accuracy, np.bincount(votes.annotator, agree) / votes.given)
    assert found.worth.tolist() == votes.given.tolist()


def test_doubts_by_hand() -> None:
    votes, probs = crowdlab_by_hand()
    found = crowdlab(votes, probs)
    w, w_model = found.weights, found.model_weight
    next_one = w.mean()
    expected = [
        1 - ((w_model + own) * confidence + next_one / 2) / (w_model + own + next_one)
        for own, confidence in zip([w.sum(), w.sum(), *[w[0] + w[1]] * 3, w[0], 0.0], found.confidence, strict=True)
    ]
    np.testing.assert_allclose(doubts(votes, found), expected)


def test_doubts_put_labelled_and_unlabelled_items_on_one_scale() -> None:
    """Sure and agreed below unsure; contested above sure unlabelled; more agreeing answers mean less doubt."""
    rng = np.random.default_rng(10)
    base, truth = crowd(rng, 300, coins([0.85] * 4, 3), answers=3)
    table = np.full((305, 4), -1)
    table[base.item, base.annotator] = base.label
    table[300] = [0, 0, 0, 0]
    table[301] = [0, 0, -1, -1]
    table[302] = [0, 1, 2, -1]
    probs = np.vstack([softly(truth, 3, 0.8), softly(np.zeros(5, int), 3, 0.8)])
    probs[302] = probs[304] = 1 / 3
    votes = Votes.from_matrix(table, 3)
    found = doubts(votes, crowdlab(votes, probs))
    sure, agreed, contested, sure_unlabelled, unsure_unlabelled = found[300:]
    assert sure < agreed < sure_unlabelled < unsure_unlabelled
    assert contested > sure_unlabelled
    assert ((found > 0) & (found < 1)).all()


def test_a_model_that_knows_helps_and_one_that_guesses_does_not_hurt() -> None:
    rng = np.random.default_rng(11)
    votes, truth = crowd(rng, 1500, coins([0.75] * 6, 4), answers=2)
    alone = (majority(votes).labels == truth).mean()
    guess = np.where(rng.random(1500) < 0.9, truth, rng.integers(0, 4, 1500))
    assert (crowdlab(votes, softly(guess, 4, 0.7)).labels == truth).mean() > alone + 0.08
    noise = softly(rng.integers(0, 4, 1500), 4, 0.9)
    found = crowdlab(votes, noise)
    assert found.model_weight < 1e-3
    assert abs((found.labels == truth).mean() - alone) < 0.06


def test_annotators_without_company_are_weighed_as_the_others_are() -> None:
    """Four answers of five agree, three of five majorities are 0: 1 - 0.2 / 0.4 for those who met and for the third."""
    votes = Votes.from_matrix([[0, 0, -1], [1, 1, -1], [0, 1, -1], [1, 1, -1], [0, 0, -1], [-1, -1, 1]], 2)
    found = crowdlab(votes, softly(np.array([0, 1, 0, 1, 0, 1]), 2, 0.8))
    np.testing.assert_allclose(found.weights, 0.5)


def test_annotators_who_have_not_answered_yet_change_no_doubts() -> None:
    votes, probs = crowdlab_by_hand()
    more = Votes.from_long(
        votes.item, votes.annotator, votes.label, 2, known_items=votes.items, known_annotators=np.arange(9)
    )
    expected = doubts(votes, crowdlab(votes, probs))
    assert crowdlab(more, probs).weights[8] != pytest.approx(crowdlab(votes, probs).weights.mean())
    np.testing.assert_allclose(doubts(more, crowdlab(more, probs)), expected)


def test_without_second_opinions_annotators_are_weighed_against_the_model() -> None:
    votes = Votes.from_matrix([[0, -1], [1, -1], [-1, 0], [-1, 1], [-1, 1], [0, -1]] * 5, 2)
    found = crowdlab(votes, softly(np.array([0, 1, 1, 0, 1, 0] * 5), 2, 0.9))
    assert found.weights[0] > found.weights[1]
    assert any("no item has a second opinion" in note for note in found.notes)
    assert np.isfinite(doubts(votes, found)).all()


def test_crowdlab_takes_the_last_answer_of_a_person() -> None:
    rows = [(0, "a", 0), (0, "b", 1), (0, "a", 1), (1, "a", 0), (1, "b", 0), (2, "a", 1), (2, "b", 1)]
    items, who, labels = (list(column) for column in zip(*rows, strict=True))
    probs = np.full((3, 2), 0.5)
    whole = crowdlab(Votes.from_long(items, who, labels, 2), probs)
    last = crowdlab(Votes.from_long(items[1:], who[1:], labels[1:], 2), probs)
    np.testing.assert_allclose(whole.posterior, last.posterior)
    np.testing.assert_allclose(
        doubts(Votes.from_long(items, who, labels, 2), whole),
        doubts(Votes.from_long(items[1:], who[1:], labels[1:], 2), last),
    )


def test_doubts_need_crowdlab_on_the_same_votes() -> None:
    votes, probs = crowdlab_by_hand()
    with pytest.raises(BadInput, match="doubts need the result of crowdlab on the same votes, got that of 'majority'"):
        doubts(votes, majority(votes))
    with pytest.raises(BadInput, match="on the same votes"):
        doubts(Votes.from_matrix([[0, 1]], 2), crowdlab(votes, probs))


# -- the model's probabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probs", "error", "message"),
    [
        ([[0.5, 0.5]], BadInput, r"probs must have shape \(2, 2\) \(items, classes\).*got \(1, 2\)"),
        ([[0.5, 0.5], [2.0, -1.0]], BadInput, "were logits passed"),
        ([[0.5, 0.5], [0.5, 0.6]], BadInput, "each row summing to 1"),
        ([[0.5, 0.5], [np.nan, 0.6]], NotFinite, "probs hold 1 values that are not finite"),
    ],
)
def test_probabilities_are_looked_at(probs: list, error: type, message: str) -> None:
    votes = Votes.from_matrix([[0, 1], [1, 1]], 2)
    for look in (
        lambda: crowdlab(votes, probs),
        lambda: majority(votes, probs=probs),
        lambda: fit_temperature(votes, probs),
    ):
        with pytest.raises(error, match=message):
            look()


def test_probabilities_in_half_precision() -> None:
    votes = Votes.from_matrix([[0, 0], [1, 1]], 2)
    found = crowdlab(votes, np.array([[0.7, 0.3], [0.1, 0.9]], np.float16))
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1, rtol=1e-15)


def test_tempering_is_dividing_logits() -> None:
    logits = np.array([[1.0, 2.0, -1.0], [0.0, 5.0, 0.5]])
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    half = np.exp(logits / 2) / np.exp(logits / 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tempered(probs, 2.0), half)
    np.testing.assert_allclose(tempered(probs, 1.0), probs)
    assert np.isfinite(tempered([[1.0, 0.0]], 3.0)).all()
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(BadInput, match="temperature must be above 0"):
            tempered(probs, wrong)


def test_the_fitted_temperature_undoes_overconfidence() -> None:
    rng = np.random.default_rng(12)
    honest = rng.dirichlet(np.full(4, 0.5), 4000)
    truth = (rng.random((4000, 1)) > honest.cumsum(axis=1)[:, :-1]).sum(axis=1)
    votes = Votes.from_matrix(truth[:, None], 4)
    assert fit_temperature(votes, tempered(honest, 1 / 3)) == pytest.approx(3, rel=0.1)
    assert fit_temperature(votes, honest) == pytest.approx(1, rel=0.1)


def test_the_temperature_without_answers() -> None:
    assert fit_temperature(Votes.from_matrix([[-1]], 2), [[0.5, 0.5]]) == 1.0
