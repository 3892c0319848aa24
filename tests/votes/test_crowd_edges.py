"""Crowds at the edge: handled by every method, without a warning, and with an honest interval."""

from __future__ import annotations

import numpy as np
import pytest
from crowds import coins, crowd

from ncalr.errors import BadInput
from ncalr.votes import METHODS, Votes, crowdlab, dawid_skene, doubts, fleiss, gains, krippendorff, majority

JUDGING = ("one_coin", "dawid_skene", "glad")  # those whose accuracy is that against the truth


WANTED = {"crowdlab": doubts, "bayes": gains}  # those with a model, and what they say of one more answer


def call(method: str, votes: Votes, **options):
    if method in WANTED:
        options.setdefault("probs", np.full(votes.counts.shape, 1 / votes.classes))
    found = METHODS[method](votes, **options)
    assert np.isfinite(found.posterior).all()
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    assert np.isfinite(found.interval()).all()
    assert np.isfinite(found.accuracy[votes.given > 0]).all()
    if method in WANTED:
        assert np.isfinite(WANTED[method](votes, found)).all()
    return found


@pytest.mark.parametrize("method", METHODS)
def test_two_annotators_who_always_disagree(method: str) -> None:
    """Nobody can say who is right: confidence one half, labels at random, and nothing known of either."""
    first = np.random.default_rng(0).integers(0, 2, 400)
    votes = Votes.from_matrix(np.stack([first, 1 - first], axis=1), 2)
    found = call(method, votes)
    np.testing.assert_allclose(found.confidence, 0.5, atol=1e-6)
    assert 0.4 < (found.labels == first).mean() < 0.6
    assert "400 items are tied between classes" in found.notes[0]
    if method in JUDGING:
        np.testing.assert_allclose(found.accuracy, 0.5, atol=1e-6)
        assert (found.interval()[:, 0] < 0.01).all()
        assert (found.interval()[:, 1] > 0.99).all()


@pytest.mark.parametrize("method", METHODS)
def test_an_annotator_who_answers_one_class_only(method: str) -> None:
    rng = np.random.default_rng(1)
    confusion = coins([0.9, 0.85, 0.9, 0.5], 3)
    confusion[3] = [[1, 0, 0]] * 3
    votes, truth = crowd(rng, 600, confusion)
    found = call(method, votes)
    assert (found.labels == truth).mean() > 0.9
    assert found.accuracy.argmin() == 3
    low, high = found.interval()[3]
    assert low < (1 / 3 if method in JUDGING else found.accuracy[3]) < high
    assert high < 0.45  # a consensus that he has a part in flatters him
    if method == "dawid_skene":
        assert (found.confusion[3, :, 0] > 0.93).all()
        # his answers carry no information, so his column must not move the posterior
        without = dawid_skene(
            Votes.from_long(*(part[votes.annotator < 3] for part in (votes.item, votes.annotator, votes.label)), 3)
        )
        assert np.abs(found.posterior - without.posterior).max() < 0.2


@pytest.mark.parametrize("method", METHODS)
def test_items_with_no_answer(method: str) -> None:
    rng = np.random.default_rng(2)
    votes, _ = crowd(rng, 100, coins([0.9, 0.85, 0.8], 3), shares=[0.6, 0.3, 0.1])
    keep = votes.item % 4 > 0
    votes = votes.at(keep)
    probs = np.tile([0.2, 0.2, 0.6], (100, 1))
    options = {"crowdlab": {"probs": probs}, "bayes": {"probs": probs, "temperature": 1.0}}.get(method, {})
    found = call(method, votes, **options)
    silent = np.arange(100) % 4 == 0
    assert (found.labels[silent] == -1).all()
    assert (found.labels[~silent] >= 0).all()
    assert any("25 items have no answer and get no label" in note for note in found.notes)
    expected = {
        "majority": np.full(3, 1 / 3),
        "crowdlab": probs[0],
        "bayes": probs[0],
    }.get(method, (found.posterior[~silent].sum(axis=0) + 1 / 3) / 76)
    np.testing.assert_allclose(found.posterior[silent], np.tile(expected, (25, 1)), atol=1e-9)
    # and they change nothing for the others
    if method in WANTED:
        options["probs"] = probs[~silent]
    alone = METHODS[method](votes.answered, **options)
    np.testing.assert_allclose(found.posterior[~silent], alone.posterior)
    np.testing.assert_allclose(found.interval(), alone.interval())


@pytest.mark.parametrize("method", METHODS)
def test_an_annotator_who_was_never_seen(method: str) -> None:
    votes = Votes.from_long([0, 0, 1, 1], ["a", "b", "a", "b"], [0, 0, 1, 0], 2, known_annotators=["a", "b", "new"])
    found = call(method, votes)
    with pytest.raises(BadInput, match=r"annotator 'stranger' was never seen; there are 3"):
        found.of("stranger")
    new = found.of("new")
    assert (new.answers, new.low, new.high) == (0, 0.0, 1.0)
    assert np.isnan(new.accuracy)
    if method == "dawid_skene":
        assert np.isnan(new.confusion).all()
        assert np.isfinite(found.confusion[:2]).all()
        assert np.isfinite(found.confusion_interval()[:2]).all()


@pytest.mark.parametrize("method", METHODS)
def test_all_labels_of_a_class_wrong(method: str) -> None:
    """Every 2 is called 0: answers alone cannot bring class 2 back; they say so and stay finite."""
    rng = np.random.default_rng(3)
    confusion = coins([0.9, 0.9, 0.9], 3)
    confusion[:, :2, 2] = 0
    confusion[:, 2] = [1, 0, 0]
    confusion /= confusion.sum(axis=2, keepdims=True)
    votes, truth = crowd(rng, 300, confusion)
    found = call(method, votes)
    assert (found.labels != 2).all()
    assert any("no answer names class 2" in note for note in found.notes)
    assert (found.labels == truth)[truth < 2].mean() > 0.9
    if method == "dawid_skene":
        assert np.isfinite(found.confusion).all()
        assert (found.confusion_worth[:, 2] < 0.5).all()


def test_a_model_can_bring_a_class_back_that_nobody_names() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 3, 300)
    said = np.where(truth == 2, rng.integers(0, 2, 300), truth)
    votes = Votes.from_matrix(np.stack([said, np.where(truth == 2, 1 - said, truth)], axis=1), 3)
    probs = np.full((300, 3), 0.01)
    probs[np.arange(300), truth] = 0.98
    assert (crowdlab(votes, probs).labels == truth)[truth == 2].mean() > 0.9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shares", [[1 / 3] * 3, [0.96, 0.03, 0.01]], ids=["even", "rare"])
def test_one_annotator_only(method: str, shares: list[float]) -> None:
    """His word is the consensus, for rare classes too; how good he is cannot be known."""
    labels = np.random.default_rng(5).choice(3, 300, p=shares)
    assert set(labels.tolist()) == {0, 1, 2}
    votes = Votes.from_matrix(labels[:, None], 3)
    options = {"probs": np.eye(3)[labels]} if method in WANTED else {}
    found = call(method, votes, **options)
    assert np.array_equal(found.labels, labels)
    assert found.accuracy.tolist() == [pytest.approx(0.8) if method == "bayes" else 1]
    if method == "crowdlab":
        assert found.interval()[0, 0] > 0.9  # agreement with the consensus, in which the model has a say
        return
    assert found.interval()[0, 0] < 0.01
    assert any("1 annotators answered no item that another answered too" in note for note in found.notes)
    assert found.objective == ()
    assert any("the answers stand as they are" in note for note in found.notes) == (method in JUDGING)


@pytest.mark.parametrize("method", METHODS)
def test_one_item_only(method: str) -> None:
    found = call(method, Votes.from_matrix([[1, 1, 0]], 2))
    assert found.labels.tolist() == [1]
    assert ((found.interval()[:, 1] - found.interval()[:, 0]) > 0.5).all()


@pytest.mark.parametrize("method", METHODS)
def test_perfectly_agreeing_annotators(method: str) -> None:
    """40 agreements are no proof of being right for ever: the interval is that of 40 right answers."""
    labels = np.arange(40) % 4
    found = call(method, Votes.from_matrix(np.tile(labels[:, None], (1, 3)), 4))
    assert np.array_equal(found.labels, labels)
    assert (found.accuracy > 0.99).all()
    low, high = found.interval().T
    assert ((low > 0.9) & (low < 0.97)).all()
    assert (high > 0.999).all()


@pytest.mark.parametrize("method", METHODS)
def test_no_answers_whatever(method: str) -> None:
    found = call(method, Votes.from_long([], [], [], 3, known_items=["a", "b"], known_annotators=["x"]))
    assert found.labels.tolist() == [-1, -1]
    np.testing.assert_allclose(found.posterior, 1 / 3)
    assert found.rows()[0]["answers"] == 0


@pytest.mark.parametrize("method", METHODS)
def test_nothing_at_all(method: str) -> None:
    found = call(method, Votes.from_long([], [], [], 2))
    assert found.posterior.shape == (0, 2)
    assert found.rows() == []


def test_a_hundred_classes_and_few_answers() -> None:
    """Dawid and Skene advises one coin, and itself does no worse than the majority."""
    rng = np.random.default_rng(6)
    votes, truth = crowd(rng, 500, coins(np.linspace(0.6, 0.95, 12), 100), answers=3)
    found = dawid_skene(votes)
    assert any("one_coin needs fewer" in note for note in found.notes)
    right = {
        method: (METHODS[method](votes).labels == truth).mean() for method in ("majority", "one_coin", "dawid_skene")
    }
    assert right["one_coin"] > right["majority"]
    assert right["dawid_skene"] > right["majority"]
    plenty = dawid_skene(crowd(rng, 500, coins([0.9, 0.8, 0.8], 3))[0])
    assert not any("one_coin" in note for note in plenty.notes)


def test_many_classes_that_nobody_names_are_not_all_listed() -> None:
    found = majority(Votes.from_matrix([[0, 0]], 50))
    assert any("class 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …:" in note for note in found.notes)


def test_a_crowd_that_is_wrong_on_purpose_is_believed_as_a_majority() -> None:
    """Nobody can tell naming from truth: the majority's naming is taken, and stays finite."""
    rng = np.random.default_rng(7)
    votes, truth = crowd(rng, 300, coins([0.2, 0.2, 0.2], 2))
    for method in ("majority", *JUDGING):
        assert (call(method, votes).labels == truth).mean() < 0.2


@pytest.mark.parametrize("method", JUDGING)
def test_one_who_is_wrong_on_purpose_is_found_and_used(method: str) -> None:
    rng = np.random.default_rng(8)
    votes, truth = crowd(rng, 500, coins([0.8, 0.8, 0.8, 0.05], 2))
    found = call(method, votes)
    assert found.interval()[3, 1] < 0.2
    assert (found.labels == truth).mean() > (majority(votes).labels == truth).mean() + 0.05


@pytest.mark.parametrize("ids", [3, "ab", None, 1.5])
def test_ids_that_are_no_list_are_refused(ids) -> None:
    with pytest.raises(BadInput, match="items"):
        Votes.from_long(ids, ["ann", "bob"], [0, 1], classes=2)


def test_more_classes_than_any_table_has_are_refused() -> None:
    with pytest.raises(BadInput, match="classes"):
        Votes.from_matrix([[0, 1]], classes=10**30)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", [1], float("nan"), None])
def test_a_seed_that_is_no_whole_number_is_refused(seed) -> None:
    votes = Votes.from_matrix([[0, 1], [1, 0], [1, 1]], classes=2)
    for judge in (majority, fleiss, krippendorff):
        with pytest.raises(BadInput, match="seed"):
            judge(votes, seed=seed)
    with pytest.raises(BadInput, match="level"):
        fleiss(votes, level="high")  # type: ignore[arg-type]
