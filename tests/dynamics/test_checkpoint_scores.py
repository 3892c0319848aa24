"""Scores of a log of checkpoints: by hand, and against the slowest obvious reading of the definition."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.dynamics import (
    aum,
    flips,
    forgetting_events,
    label_dispersion,
    scores,
    temporal_discrepancy,
    variance,
)
from ncalr.dynamics.scores import softmax
from ncalr.errors import BadInput

steady = settings(deadline=None, derandomize=True, max_examples=60)
logs = st.tuples(st.integers(0, 10_000), st.integers(1, 9), st.integers(0, 8), st.integers(2, 5))


def draw_predictions(case: tuple[int, int, int, int]) -> np.ndarray:
    seed, t, n, c = case
    return np.random.default_rng(seed).integers(0, c, (t, n))


def draw_logits(case: tuple[int, int, int, int]) -> np.ndarray:
    seed, t, n, c = case
    return np.random.default_rng(seed).normal(0, 4, (t, n, c))


def draw_labels(case: tuple[int, int, int, int]) -> np.ndarray:
    seed, _, n, c = case
    return np.random.default_rng(seed + 1).integers(0, c, n)


# -- flips ----------------------------------------------------------------------------------------------------


def test_flips_count_changes_in_order() -> None:
    log = np.array([[0, 0, 0, 5], [1, 0, 0, 5], [0, 1, 0, 5], [1, 1, 0, 6]])  # ABAB, AABB, AAAA, AAAB
    assert flips(log).tolist() == [3, 1, 0, 1]


@given(logs)
@steady
def test_flips_slowly(case: tuple[int, int, int, int]) -> None:
    log = draw_predictions(case)
    expected = [sum(a != b for a, b in pairwise(item)) for item in log.T.tolist()]
    assert flips(log).tolist() == expected


def test_flips_of_one_checkpoint_are_zero() -> None:
    assert flips([[3, 1]]).tolist() == [0, 0]


def test_flips_may_pass_255() -> None:
    assert flips(np.arange(1001)[:, None] % 2).tolist() == [1000]


# -- label dispersion -----------------------------------------------------------------------------------------


def test_dispersion_is_the_share_outside_the_most_frequent_class() -> None:
    log = np.array([[0, 0, 2], [1, 0, 0], [0, 1, 1], [1, 1, 3]])
    assert label_dispersion(log).tolist() == [0.5, 0.5, 0.75]


@given(logs)
@steady
def test_dispersion_slowly_and_in_any_order_of_checkpoints(case: tuple[int, int, int, int]) -> None:
    log = draw_predictions(case)
    expected = [1 - Counter(item).most_common(1)[0][1] / len(log) for item in log.T.tolist()]
    assert label_dispersion(log).tolist() == expected
    assert label_dispersion(log[::-1]).tolist() == expected


def test_dispersion_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    log = draw_predictions((3, 6, 50, 4))
    expected = label_dispersion(log)
    monkeypatch.setattr(scores, "_BLOCK", 7)
    assert np.array_equal(label_dispersion(log), expected)


# -- variance -------------------------------------------------------------------------------------------------


def test_variance_of_the_softmax_by_hand() -> None:
    """Probabilities (1/2, 1/2), then (3/4, 1/4): variance 1/64 in each class. Adding to all logits is nothing."""
    logits = np.array([[[0.0, 0.0], [1.0, 1.0]], [[np.log(3), 0.0], [9.0, 9.0]]])
    np.testing.assert_allclose(variance(logits), [1 / 64, 0], rtol=0, atol=1e-15)


def test_variance_of_logits_by_hand_sees_direction_only() -> None:
    """Unit rows (1, 0) and (0, 1) have variance 1/4 in each class; growth and a zero row count for nothing."""
    logits = np.array([[[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [[0.0, 7.0], [9.0, 9.0], [0.0, 0.0]]])
    np.testing.assert_allclose(variance(logits, of="logits"), [0.25, 0, 0], rtol=0, atol=1e-15)


@pytest.mark.parametrize("of", ["softmax", "logits"])
@given(case=logs)
@steady
def test_variance_slowly(of: str, case: tuple[int, int, int, int]) -> None:
    logits = draw_logits(case)
    values = softmax(logits) if of == "softmax" else logits / np.linalg.norm(logits, axis=2, keepdims=True)
    np.testing.assert_allclose(variance(logits, of=of), values.var(axis=0).mean(axis=1), rtol=0, atol=1e-15)


def test_variance_of_confident_rows_keeps_its_digits() -> None:
    """p = 1 - e and 1 - 2 e with e = 1e-9: a difference of mean squares would give noise, not e^2 / 4."""
    p = np.array([[1 - 1e-9, 1e-9], [1 - 2e-9, 2e-9]])[:, None, :]
    assert variance(np.log(p))[0] == pytest.approx(0.25e-18, rel=1e-6, abs=0)


def test_variance_of_something_else() -> None:
    with pytest.raises(BadInput, match="of must be 'softmax' or 'logits', got 'probs'"):
        variance(np.zeros((2, 1, 2)), of="probs")


# -- temporal discrepancy -------------------------------------------------------------------------------------


def test_temporal_discrepancy_looks_back_from_the_last_checkpoint() -> None:
    outputs = np.array([[[0.0, 0.0]], [[1.0, 1.0]], [[4.0, 5.0]]], np.float32)
    assert temporal_discrepancy(outputs).tolist() == [5]
    assert temporal_discrepancy(outputs, back=2)[0] == pytest.approx(np.sqrt(41))


def test_temporal_discrepancy_of_half_precision_does_not_overflow() -> None:
    outputs = np.array([[[-60000.0]], [[60000.0]]], np.float16)
    assert temporal_discrepancy(outputs).tolist() == [2 * float(np.float16(60000))]


@pytest.mark.parametrize("back", [0, 3, -1])
def test_temporal_discrepancy_beyond_the_log(back: int) -> None:
    with pytest.raises(BadInput, match=rf"back must lie in 1..2 for 3 checkpoints, got {back}"):
        temporal_discrepancy(np.zeros((3, 2, 2)), back)


# -- forgetting -----------------------------------------------------------------------------------------------


def test_forgetting_goes_from_right_to_wrong() -> None:
    log = np.array([[1, 1, 0, 0], [0, 1, 1, 2], [1, 1, 2, 3], [2, 1, 1, 4]])
    assert forgetting_events(log, [1, 1, 1, 1]).tolist() == [2, 0, 1, 4]  # the last was never right: 4 checkpoints


@given(logs)
@steady
def test_forgetting_slowly(case: tuple[int, int, int, int]) -> None:
    log, labels = draw_predictions(case), draw_labels(case)
    expected = []
    for item, label in zip(log.T.tolist(), labels.tolist(), strict=True):
        right = [p == label for p in item]
        events = sum(a and not b for a, b in pairwise(right))
        expected.append(events if any(right) else len(item))
    assert forgetting_events(log, labels).tolist() == expected


# -- area under the margin ------------------------------------------------------------------------------------


def test_aum_by_hand() -> None:
    logits = np.array([[[3.0, 1.0, 0.0], [0.0, 2.0, 5.0]], [[1.0, 4.0, 0.0], [0.0, 2.0, 1.0]]])
    assert aum(logits, [0, 1]).tolist() == [(2 - 3) / 2, (-3 + 1) / 2]


@given(logs)
@steady
def test_aum_slowly(case: tuple[int, int, int, int]) -> None:
    logits, labels = draw_logits(case), draw_labels(case)
    before = logits.copy()
    expected = [
        np.mean([step[i][y] - max(v for k, v in enumerate(step[i]) if k != y) for step in logits])
        for i, y in enumerate(labels)
    ]
    np.testing.assert_allclose(aum(logits, labels), expected, rtol=0, atol=1e-12)
    assert np.array_equal(logits, before)


def test_aum_of_one_class() -> None:
    with pytest.raises(BadInput, match="a margin needs at least two classes"):
        aum(np.zeros((2, 3, 1)), [0, 0, 0])


@pytest.mark.parametrize("wrong", [-1, 4])
def test_aum_of_labels_out_of_range(wrong: int) -> None:
    with pytest.raises(BadInput, match=r"labels must lie in 0..3, got"):
        aum(np.zeros((2, 2, 4)), [0, wrong])


# -- what all of them share -----------------------------------------------------------------------------------


def test_softmax_of_large_logits() -> None:
    np.testing.assert_allclose(softmax([[1000.0, 1000.0], [0.0, -1000.0]]), [[0.5, 0.5], [1, 0]], rtol=0, atol=0)


def test_tensors_lists_and_small_integers_are_welcome() -> None:
    log = draw_predictions((5, 6, 9, 4))
    for given_log in (torch.from_numpy(log), log.astype(np.uint8), log.tolist()):
        assert np.array_equal(flips(given_log), flips(log))
        assert np.array_equal(label_dispersion(given_log), label_dispersion(log))
        assert np.array_equal(forgetting_events(given_log, np.zeros(9, int)), forgetting_events(log, np.zeros(9, int)))
    logits = draw_logits((5, 6, 9, 4))
    assert np.array_equal(aum(torch.from_numpy(logits), [1] * 9), aum(logits, [1] * 9))
    assert np.array_equal(variance(torch.from_numpy(logits)), variance(logits))


@pytest.mark.parametrize("score", [flips, label_dispersion, lambda log: forgetting_events(log, [0, 0])])
def test_predictions_that_cannot_be_used(score) -> None:
    for shape in [(2,), (0, 2), (2, 2, 2)]:
        with pytest.raises(BadInput, match=r"must have shape \(checkpoints, items\), got"):
            score(np.zeros(shape, int))
    with pytest.raises(BadInput, match=r"must be class numbers \(integers\), got dtype float64"):
        score(np.zeros((2, 2)))


@pytest.mark.parametrize("score", [variance, temporal_discrepancy, lambda log: aum(log, [0, 0])])
def test_outputs_that_cannot_be_used(score) -> None:
    for shape in [(2, 2), (0, 2, 2), (2,)]:
        with pytest.raises(BadInput, match=r"checkpoint outputs .* shape \(checkpoints, items, classes\), got"):
            score(np.zeros(shape))


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0.0, 1.0], [[0, 1]]])
def test_labels_that_cannot_be_used(labels: list) -> None:
    with pytest.raises(BadInput, match="labels must be 2 integers, got shape"):
        forgetting_events(np.zeros((3, 2), int), labels)
    with pytest.raises(BadInput, match="labels must be 2 integers, got shape"):
        aum(np.zeros((3, 2, 2)), labels)
