"""Calibration and long-tail figures, against hand-made cases and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from ncalr.errors import BadInput
from ncalr.evaluate.calibration import accuracy_coverage, calibration, probabilities
from ncalr.evaluate.tail import tail_accuracy, tail_picks, thirds


def random_probs(n=400, c=5, seed=0):
    rng = np.random.default_rng(seed)
    return probabilities(rng.normal(size=(n, c)) * 2), rng.integers(0, c, n)


def test_softmax_of_large_logits():
    assert probabilities(np.array([[1e4, 0.0], [-1e4, -1e4]])) == pytest.approx(np.array([[1, 0], [0.5, 0.5]]))


def test_ece_by_hand_over_two_bins():
    probs = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.45, 0.55]])
    found = calibration(probs, np.array([0, 1, 1, 1]), bins=4)
    # [0.75, 1]: two items, half right, confidence 0.9; [0.5, 0.75): two, both right, confidence 0.575
    assert found["ece"] == pytest.approx(0.5 * 0.4 + 0.5 * 0.425)
    assert found["accuracy"] == 0.75


def test_nll_and_brier_against_scikit_learn_and_the_definition():
    probs, labels = random_probs()
    found = calibration(probs, labels)
    assert found["nll"] == pytest.approx(log_loss(labels, probs, labels=range(5)))
    assert found["brier"] == pytest.approx(((probs - np.eye(5)[labels]) ** 2).sum(1).mean())


def test_a_certain_and_right_model_is_perfect_and_a_certain_and_wrong_one_stays_finite():
    labels = np.array([0, 1, 1])
    right = calibration(np.eye(2)[labels], labels)
    assert (right["ece"], right["nll"], right["brier"], right["aurc"]) == (0, 0, 0, 0)
    wrong = calibration(np.eye(2)[1 - labels], labels)
    assert wrong["ece"] == 1
    assert wrong["brier"] == 2
    assert np.isfinite(wrong["nll"])


def test_accuracy_against_coverage():
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]])
    coverage, accuracy = accuracy_coverage(probs, np.array([0, 0, 0, 1]))
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert accuracy == pytest.approx([1, 1 / 2, 2 / 3, 3 / 4])


def test_equal_certainty_rises_evenly_whatever_the_order():
    probs = np.array([[0.9, 0.1]] * 4)
    for labels in ([0, 0, 1, 1], [1, 0, 1, 0]):
        _, accuracy = accuracy_coverage(probs, np.array(labels))
        assert accuracy == pytest.approx([0.5] * 4)


@pytest.mark.parametrize(
    ("probs", "labels", "words"),
    [
        (np.ones((2, 2)) / 2, np.array([0, 2]), "labels must lie in 0..1"),
        (np.ones((2, 2)), np.array([0, 1]), "sum to 1"),
        (np.full((2, 2), np.nan), np.array([0, 1]), "finite"),
        (np.ones((2, 2)) / 2, np.array([0]), "n labels"),
        (np.ones((2, 2)) / 2, np.array([0.0, 1.0]), "n labels"),
        (np.ones((0, 2)), np.array([], int), "n labels"),
    ],
)
def test_bad_input(probs, labels, words):
    with pytest.raises(BadInput, match=words):
        calibration(probs, labels)


def test_thirds_take_the_largest_first_and_the_head_what_is_left_over():
    found = thirds(np.array([1, 9, 4, 4, 7]))
    assert {name: members.tolist() for name, members in found.items()} == {
        "head": [1, 4],
        "middle": [2, 3],
        "tail": [0],
    }
    with pytest.raises(BadInput, match="three classes"):
        thirds([1, 2])


def test_accuracy_is_a_mean_over_classes():
    counts = [100, 50, 10]
    labels = np.array([0] * 8 + [1] * 2)
    predictions = np.array([0] * 4 + [1] * 4 + [1, 0])
    assert tail_accuracy(predictions, labels, counts) == {"head": 0.5, "middle": 0.5}
    with pytest.raises(BadInput, match="as many predictions"):
        tail_accuracy(predictions[:3], labels, counts)


def test_picks_against_the_pool():
    counts = [80, 15, 5]
    assert tail_picks([0] * 8 + [1], counts)["tail"] == 0
    assert tail_picks([0, 1, 2, 2], counts) == pytest.approx({"head": 0.25 / 0.8, "middle": 0.25 / 0.15, "tail": 10})
    assert np.isnan(tail_picks([0], [5, 1, 0])["tail"])
    assert np.isnan(list(tail_picks(np.array([], int), counts).values())).all(), "nothing was picked"
