"""The model as prior: slow definition, planted crowds, what one more answer is worth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from crowds import coins, crowd

from ncalr.errors import BadInput, UnknownName
from ncalr.votes import Votes, aggregate, bayes, crowdlab, fit_temperature, gains, likeliest_temperature, tempered


def model(rng, truth, classes, skill):
    """Calibrated probabilities: unit normals, that of the true class raised by `skill`."""
    logits = rng.normal(size=(len(truth), classes))
    logits[np.arange(len(truth)), truth] += skill
    logits *= skill
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("skill", "least"), [(1.0, 0.79), (2.0, 0.86), (3.5, 0.96)])
def test_one_answer_an_item_is_enough_to_judge_people_and_labels(skill, least):
    rng = np.random.default_rng(0)
    votes, truth = crowd(rng, 4000, coins([0.82, 0.9, 0.7], 10), answers=1)
    probs = model(rng, truth, 10, skill)
    found = bayes(votes, probs)
    right = found.labels == truth
    assert right.mean() > least
    assert right.mean() >= (probs.argmax(axis=1) == truth).mean()
    np.testing.assert_allclose(found.accuracy, [0.82, 0.9, 0.7], atol=0.06)
    assert found.confidence.mean() == pytest.approx(right.mean(), abs=0.03)
    soft = crowdlab(votes, tempered(probs, fit_temperature(votes, probs)))
    assert right.mean() > (soft.labels == truth).mean()
    assert soft.confidence.mean() < (soft.labels == truth).mean() - 0.1


@pytest.mark.parametrize("wrong", [0.4, 2.5])
def test_a_model_too_sure_or_too_modest_is_tempered(wrong):
    rng = np.random.default_rng(1)
    votes, truth = crowd(rng, 4000, coins([0.8, 0.8], 10))
    probs = model(rng, truth, 10, 2.0)
    plain, other = bayes(votes, probs), bayes(votes, tempered(probs, 1 / wrong))
    np.testing.assert_allclose(other.posterior, plain.posterior, atol=0.05)
    assert f"temperature {wrong:.0f}" in other.notes[-1] or float(other.notes[-1].split()[-1]) == pytest.approx(
        wrong, rel=0.25
    )


def guessing(rng, truth, classes, skill, sharpness):
    """A model that knows little and is sure of it."""
    logits = rng.normal(size=(len(truth), classes))
    logits[np.arange(len(truth)), truth] += skill
    rows = np.exp(logits * sharpness)
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("method", ["bayes", "crowdlab"])
@pytest.mark.parametrize(("classes", "items"), [(2, 200), (3, 50), (10, 50), (10, 1000)])
@pytest.mark.parametrize(("skill", "sharpness"), [(0.0, 1.0), (0.0, 5.0), (0.3, 5.0)])
def test_a_model_that_knows_nothing_leaves_single_answers_as_they_are(method, classes, items, skill, sharpness):
    rights, kept = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        votes, truth = crowd(rng, items, coins([0.8, 0.8, 0.8], classes), answers=1)
        found = aggregate(votes, method, probs=guessing(rng, truth, classes, skill, sharpness))
        rights.append((found.labels == truth).mean())
        kept.append((votes.label == truth[votes.item]).mean())
    assert np.mean(rights) > np.mean(kept) - 0.03
    assert np.min(np.array(rights) - kept) > -0.12


def test_a_model_that_says_the_same_of_everything_is_not_heard():
    votes = Votes.from_matrix([[0, -1], [-1, 1], [1, -1]], classes=2)
    for method in ("bayes", "crowdlab"):
        assert aggregate(votes, method, probs=np.full((3, 2), 0.5)).labels.tolist() == [0, 1, 1]
    assert "not heard" in bayes(votes, np.full((3, 2), 0.5)).notes[-1]


def test_the_accuracies_are_at_rest_and_the_posterior_is_theirs():
    rng = np.random.default_rng(4)
    votes, truth = crowd(rng, 300, coins([0.9, 0.6, 0.75], 4), answers=2)
    probs = model(rng, truth, 4, 1.0)
    found, longer = bayes(votes, probs, temperature=1.0), bayes(votes, probs, temperature=1.0, iterations=5000)
    np.testing.assert_allclose(found.accuracy, longer.accuracy, atol=1e-4)
    rows = probs.copy()
    for item, who, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        alpha = found.accuracy[who]
        rows[item] *= np.where(np.arange(4) == label, alpha, (1 - alpha) / 3)
    np.testing.assert_allclose(found.posterior, rows / rows.sum(axis=1, keepdims=True), atol=1e-9)


def test_many_answers_to_one_item_do_not_overflow():
    votes = Votes.from_matrix(np.concatenate([np.zeros((1, 400), int), np.ones((1, 400), int)]), classes=100)
    found = bayes(votes, np.full((2, 100), 0.01))
    assert found.labels.tolist() == [0, 1]
    assert np.isfinite(found.posterior).all()


def test_the_posterior_is_bayes_rule():
    votes = Votes.from_matrix([[0, 1], [1, -1], [2, 2], [-1, -1]], classes=3)
    probs = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    found = bayes(votes, probs, temperature=1.0, iterations=1)
    alpha = 0.8  # to begin with
    for row, labels in enumerate([[0, 1], [1], [2, 2], []]):
        wanted = probs[row].copy()
        for label in labels:
            wanted *= np.where(np.arange(3) == label, alpha, (1 - alpha) / 2)
        np.testing.assert_allclose(found.posterior[row], wanted / wanted.sum(), rtol=1e-12)
    assert found.labels.tolist() == [0, 1, 2, -1]


def test_the_accuracies_make_the_answers_likeliest():
    """Against a grid, where each annotator's prior is worth nothing beside his answers."""
    rng = np.random.default_rng(2)
    votes, truth = crowd(rng, 3000, coins([0.9, 0.6], 4))
    probs = model(rng, truth, 4, 1.0)
    found = bayes(votes, probs, temperature=1.0)

    def likelihood(pair):
        table = np.array([np.where(np.eye(4, dtype=bool), a, (1 - a) / 3) for a in pair])
        rows = probs.copy()
        for item, who, label in zip(votes.item, votes.annotator, votes.label, strict=True):
            rows[item] *= table[who][:, label]
        return np.log(rows.sum(axis=1)).sum()

    steps = (-0.05, 0.0, 0.05)
    around = {(a, b): likelihood(found.accuracy + np.array([a, b])) for a, b in product(steps, steps)}
    assert max(around, key=around.get) == (0.0, 0.0)


def test_what_an_answer_is_worth():
    """By the definition, in loops; a certain item gains nothing, an open one most."""
    votes = Votes.from_matrix([[0], [1], [-1], [-1]], classes=3)
    probs = np.array([[0.98, 0.01, 0.01], [0.5, 0.4, 0.1], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])
    found = bayes(votes, probs, temperature=1.0)
    alpha = found.accuracy[0]
    worth = gains(votes, found)
    for row in range(4):
        before, after = found.posterior[row], 0.0
        for said in range(3):
            both = [before[k] * (alpha if k == said else (1 - alpha) / 2) for k in range(3)]
            after += sum(both) * sum((one / sum(both)) ** 2 for one in both)
        assert worth[row] == pytest.approx(after - (before**2).sum(), abs=1e-12)
    assert worth.argmax() == 2
    assert worth[3] == pytest.approx(0, abs=1e-9)


def test_nobody_has_answered():
    votes = Votes.from_matrix([[-1], [-1]], classes=2)
    found = bayes(votes, [[0.9, 0.1], [0.5, 0.5]])
    assert found.labels.tolist() == [-1, -1]
    assert np.isnan(found.accuracy).all()
    np.testing.assert_allclose(found.posterior, [[0.9, 0.1], [0.5, 0.5]])
    assert gains(votes, found)[1] == pytest.approx(0.8**2 + 0.2**2 - 0.5)  # an annotator of whom nothing is known


def test_gains_need_their_own_consensus():
    votes = Votes.from_matrix([[0], [1]], classes=2)
    with pytest.raises(BadInput, match="got that of 'majority'"):
        gains(votes, aggregate(votes, "majority"))


def test_an_annotator_who_says_one_class_only():
    rng = np.random.default_rng(3)
    votes, truth = crowd(rng, 600, coins([0.9, 0.9], 3))
    table = np.stack([votes.label[votes.annotator == 0], votes.label[votes.annotator == 1], np.zeros(600, int)], axis=1)
    found = bayes(Votes.from_matrix(table, 3), model(rng, truth, 3, 1.5))
    assert found.accuracy[2] == pytest.approx(1 / 3, abs=0.08)
    assert (found.labels == truth).mean() > 0.93


@pytest.mark.parametrize(
    ("votes", "method", "options", "words"),
    [
        ([[0, 1]], "majority", {}, r"votes must be Votes, got list; make them with Votes\.from_matrix"),
        (None, "crowdlab", {}, r"crowdlab needs the model's out-of-sample probabilities: probs="),
        (None, "majority", {"foo": 1}, r"no option of the consensus method majority.*'foo'"),
    ],
)
def test_bad_input_to_a_consensus_by_name(votes, method, options, words):
    given = Votes.from_matrix([[0, 1]], classes=2) if votes is None else votes
    with pytest.raises((BadInput, UnknownName), match=words):
        aggregate(given, method, **options)
    with pytest.raises(BadInput, match=r"labels.*different lengths"):
        Votes.from_matrix([[0, 1], [1]], classes=2)


def test_nobody_counts_against_what_they_say():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 400)
    table = np.stack([truth, 1 - truth], axis=1)  # one always right, one always wrong
    probs = model(rng, truth, 2, 2.0)
    found = bayes(Votes.from_matrix(table, 2), probs)
    assert found.accuracy.min() >= 0.5
    assert (found.labels == truth).mean() >= (probs.argmax(axis=1) == truth).mean() > 0.9


def echo(rng, labels, classes):
    """A model that says again what it was told, nearly always, and knows nothing else."""
    rows = rng.dirichlet(np.full(classes, 0.05), len(labels)) * 0.2
    rows[np.arange(len(labels)), labels] += 0.8
    return rows


def test_a_model_that_repeats_first_answers_does_not_outvote_second_ones():
    rng = np.random.default_rng(8)
    both, _ = crowd(rng, 3000, coins([0.8, 0.8], 10))
    first = both.label[both.annotator == 0]
    rows = np.flatnonzero((both.annotator == 0) | (both.item < 400))  # second opinions of four hundred
    votes = both.at(rows)
    found = bayes(votes, echo(rng, first, 10))
    torn = [i for i in range(400) if len(set(votes.label[votes.item == i])) == 2]
    named = np.array([[found.posterior[i, k] for k in votes.label[votes.item == i]] for i in torn])
    assert np.median(named[:, 0]) < 0.7, "as likely as the other, or nearly"
    np.testing.assert_allclose(found.accuracy, 0.8, atol=0.06)
    assert found.confidence[400:].mean() < 0.9, "an echo confirms nothing"


def test_a_few_second_opinions_do_not_make_a_weak_model_sure():
    """25 of them, in crowds in which they would have it far surer than it is."""
    for seed in (13, 14, 16):
        rng = np.random.default_rng(seed)
        both, truth = crowd(rng, 1500, coins([0.8, 0.8], 10))
        logits = rng.normal(size=(1500, 10))
        logits[np.arange(1500), truth] += 1.0
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        votes = both.at(np.flatnonzero((both.annotator == 0) | (both.item < 25)))
        answers = both.label[both.annotator == 0] == truth
        assert (bayes(votes, probs).labels == truth).mean() > answers.mean() - 0.02, seed


def test_a_model_is_not_made_a_little_surer_by_a_few_second_opinions():
    rng = np.random.default_rng(9)
    both, truth = crowd(rng, 3000, coins([0.8, 0.8], 10))
    modest = tempered(model(rng, truth, 10, 2.5), 1.3)
    assert likeliest_temperature(both.at((both.annotator == 0) | (both.item < 30)), modest) == 1.0
    assert likeliest_temperature(both, modest) < 0.9


def test_a_model_that_repeats_the_consensus_is_judged_by_answers_that_came_after():
    rng = np.random.default_rng(3)
    votes, _ = crowd(rng, 1500, coins([0.8, 0.8, 0.8], 10))
    known = votes.at(votes.annotator < 2)
    probs = echo(rng, known.label[known.annotator == 1], 10)  # where two differ, it was told the second
    assert likeliest_temperature(known, probs) < 1, "taken for unseen, second opinions confirm their own echo"
    assert likeliest_temperature(votes, probs, shown=np.full(1500, 2)) > 2


def test_a_good_model_is_heard_by_second_opinions_alone():
    """Told what people said first, and right for all that: the second opinions say so."""
    rng = np.random.default_rng(9)
    both, truth = crowd(rng, 3000, coins([0.8, 0.8], 10))
    votes = both.at(np.flatnonzero((both.annotator == 0) | (both.item < 400)))
    probs = model(rng, truth, 10, 2.5)
    assert likeliest_temperature(votes, probs) == pytest.approx(1, abs=0.3)
    assert likeliest_temperature(votes, tempered(probs, 3.0)) == pytest.approx(1 / 3, abs=0.1)
    assert (bayes(votes, probs).labels == truth).mean() > 0.9
    few = both.at(np.flatnonzero((both.annotator == 0) | (both.item < 15)))
    assert likeliest_temperature(few, tempered(probs, 3.0)) == 1.0, "no surer than it says"
    assert likeliest_temperature(few, probs, usual=2.0) == 2.0, "nor than at its usual temperature"
    both_shown = np.full(3000, 2)
    assert likeliest_temperature(votes, tempered(probs, 3.0), shown=both_shown) == 1.0, "it knew them all"
    with pytest.raises(BadInput, match=r"shown must be a number of answers for each of 3000 items, got \(2,\)"):
        likeliest_temperature(votes, probs, shown=[1, 1])
    nobody = Votes.from_matrix([[-1], [-1]], classes=2)
    assert likeliest_temperature(nobody, [[0.9, 0.1], [0.5, 0.5]]) == 1.0


@pytest.mark.parametrize("classes", [3, 10])
def test_a_model_that_has_learnt_what_people_say_does_not_make_them_all_right(classes):
    """Items look like one or more other classes, people err there, and the model says how often they say what."""
    rng = np.random.default_rng(0)
    truth, sure = rng.integers(0, classes, 4000), rng.uniform(0.5, 1, 4000)
    said = rng.dirichlet(np.full(classes, 0.3), 4000)
    said[np.arange(4000), truth] = 0
    said *= ((1 - sure) / said.sum(axis=1))[:, None]
    said[np.arange(4000), truth] = sure
    answers = np.array([rng.choice(classes, p=row) for row in said])
    votes = Votes.from_matrix(answers[:, None], classes=classes)
    found = bayes(votes, said)
    assert found.accuracy[0] == pytest.approx(0.8, abs=1e-6)
    assert (found.labels == truth).mean() > (answers == truth).mean() + 0.02
    assert gains(votes, found)[answers != truth].mean() > 2 * gains(votes, found)[answers == truth].mean()


def test_answers_that_others_checked_say_how_often_people_are_right():
    """Two who answer about everything are judged by each other, far from four in five; those alone keep to that."""
    rng = np.random.default_rng(5)
    votes, truth = crowd(rng, 2000, coins([0.95, 0.95], 10))
    np.testing.assert_allclose(bayes(votes, np.full((2000, 10), 0.1)).accuracy, 0.95, atol=0.02)
    alone = Votes.from_long(votes.items, ["ann"] * 2000, truth, 10)
    assert bayes(alone, np.full((2000, 10), 0.1)).accuracy[0] == pytest.approx(0.8, abs=1e-6)


def test_among_single_answers_those_who_fare_worse_with_the_model_are_trusted_less():
    rng = np.random.default_rng(6)
    votes, truth = crowd(rng, 3000, coins([0.85, 0.85, 0.2], 10), answers=1)
    found = bayes(votes, model(rng, truth, 10, 2.5))
    assert found.accuracy[2] < 0.5
    assert found.accuracy[:2].min() > 0.85


def test_unchecked_answers_count_as_second_opinions_do():
    """Ann answers alone; Bob and Cid agree with each other, and so she is taken to be as good."""
    rng = np.random.default_rng(7)
    both, _ = crowd(rng, 300, coins([0.97, 0.97], 10))
    alone = rng.integers(0, 10, 1000)
    items = [*both.item.tolist(), *range(300, 1300)]
    who = [*(("bob", "cid")[at] for at in both.annotator), *["ann"] * 1000]
    votes = Votes.from_long(items, who, [*both.label.tolist(), *alone.tolist()], 10)
    assert bayes(votes, np.full((len(votes.items), 10), 0.1)).of("ann").accuracy > 0.93


def test_without_second_opinions_a_middling_model_hardly_overrules_people_who_are_right():
    rng = np.random.default_rng(0)
    votes, truth = crowd(rng, 3000, coins([0.99], 10), answers=1)
    probs = model(rng, truth, 10, 2.0)
    assert (probs.argmax(axis=1) == truth).mean() < 0.75
    assert (bayes(votes, probs).labels == truth).mean() > 0.955
