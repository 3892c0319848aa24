"""Class statistics: right, mergeable in any order, and exact where the features have all but collapsed."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.errors import BadInput
from ncalr.geometry import ClassStatistics, statistics
from ncalr.kernels import to_numpy

steady = settings(deadline=None, derandomize=True, max_examples=60)


def draw_labelled(seed: int, n: int = 200, d: int = 6, classes: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Features far from zero, labels that leave the last class out."""
    rng = np.random.default_rng(seed)
    return rng.normal(3, 2, (n, d)), rng.integers(0, classes - 1, n)


def slowly(features: np.ndarray, labels: np.ndarray, classes: int) -> ClassStatistics:
    counts, means, scatter = np.zeros(classes, np.int64), np.zeros((classes, features.shape[1])), np.zeros(classes)
    for c in range(classes):
        own = features[labels == c]
        counts[c] = len(own)
        if len(own):
            means[c] = own.mean(axis=0)
            scatter[c] = ((own - means[c]) ** 2).sum()
    return ClassStatistics(counts, means, scatter)


def assert_same(a: ClassStatistics, b: ClassStatistics, tolerance: float = 1e-12) -> None:
    assert a.counts.dtype == b.counts.dtype == np.int64
    assert np.array_equal(a.counts, b.counts)
    np.testing.assert_allclose(a.means, b.means, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=tolerance, atol=tolerance)


@given(st.integers(0, 10_000), st.integers(0, 60))
@steady
def test_against_the_slow_definition(seed: int, n: int) -> None:
    features, labels = draw_labelled(seed, n)
    assert_same(ClassStatistics.from_labelled(features, labels, 7), slowly(features, labels, 7))


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_whole_is_chunks_is_merged_shards(pieces: int) -> None:
    features, labels = draw_labelled(1)
    whole = ClassStatistics.from_labelled(features, labels, 7)
    parts = list(zip(np.array_split(features, pieces), np.array_split(labels, pieces), strict=True))
    chunks = ClassStatistics.empty(7, 6)
    for part in parts:
        chunks = chunks.update(*part)
    shards = reduce(ClassStatistics.merge, [ClassStatistics.from_labelled(*part, 7) for part in parts])
    assert_same(chunks, whole)
    assert_same(shards, whole)


def test_a_sorted_set_in_shards_has_classes_in_one_shard_only() -> None:
    features, labels = draw_labelled(2)
    order = np.argsort(labels, kind="stable")
    shards = [ClassStatistics.from_labelled(features[part], labels[part], 7) for part in np.array_split(order, 7)]
    assert_same(reduce(ClassStatistics.merge, shards), slowly(features, labels, 7))


def test_blocks_of_a_few_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = draw_labelled(3)
    monkeypatch.setattr(statistics, "_BLOCK_BYTES", 8 * 6 * 3)
    assert_same(ClassStatistics.from_labelled(features, labels, 7), slowly(features, labels, 7))


@given(st.integers(0, 10_000), st.lists(st.integers(0, 9), min_size=3, max_size=3))
@steady
def test_merge_commutes_and_associates(seed: int, sizes: list[int]) -> None:
    a, b, c = (
        ClassStatistics.from_labelled(*draw_labelled(seed + i, size, classes=4), 4) for i, size in enumerate(sizes)
    )
    assert_same(a.merge(b), b.merge(a))
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))


def test_merge_with_nothing_is_exact() -> None:
    some = ClassStatistics.from_labelled(*draw_labelled(4), 7)
    nothing = ClassStatistics.empty(7, 6)
    assert_same(some.merge(nothing), some, 0)
    assert_same(nothing.merge(some), some, 0)


@pytest.mark.parametrize("labels", [[], np.zeros(0, np.int64), np.zeros(0)])
def test_update_with_nothing_is_exact(labels: object) -> None:
    some = ClassStatistics.from_labelled(*draw_labelled(4), 7)
    assert_same(some.update(np.zeros((0, 6)), labels), some, 0)


def test_merge_leaves_its_inputs_alone() -> None:
    a, b = (ClassStatistics.from_labelled(*draw_labelled(seed), 7) for seed in (5, 6))
    before = a.means.copy(), b.means.copy(), a.scatter.copy()
    a.merge(b)
    assert np.array_equal(a.means, before[0])
    assert np.array_equal(b.means, before[1])
    assert np.array_equal(a.scatter, before[2])


@pytest.mark.parametrize("pieces", [1, 7])
def test_scatter_of_collapsed_features_far_from_zero(pieces: int) -> None:
    """Mean 1e6, variance 1e-6: a difference of two sums of squares would have no digit left."""
    rng = np.random.default_rng(8)
    noise = np.round(rng.normal(0, 1e-3, (4000, 3)) * 2.0**30) / 2.0**30  # of few bits, so 1e6 + noise is exact
    labels = rng.integers(0, 2, 4000)
    features = 1e6 * (1 + labels[:, None]) + noise
    shards = [
        ClassStatistics.from_labelled(features[part], labels[part], 2)
        for part in np.array_split(np.arange(4000), pieces)
    ]
    found = reduce(ClassStatistics.merge, shards)
    expected = slowly(noise, labels, 2).scatter
    np.testing.assert_allclose(found.scatter, expected, rtol=1e-6)
    naive = (features**2).sum() - (found.counts[:, None] * found.means**2).sum()
    assert abs(naive - expected.sum()) > expected.sum()  # what the test is about


def test_of_float16_and_tensors_is_of_their_values() -> None:
    features, labels = draw_labelled(9)
    half = features.astype(np.float16)
    expected = slowly(half.astype(np.float64), labels, 7)
    assert_same(ClassStatistics.from_labelled(half, labels, 7), expected)
    assert_same(ClassStatistics.from_labelled(torch.from_numpy(half), torch.from_numpy(labels), 7), expected)
    tensor = torch.from_numpy(features).to(torch.bfloat16).requires_grad_()
    expected = slowly(tensor.detach().double().numpy(), labels, 7)
    assert_same(ClassStatistics.from_labelled(tensor, labels.astype(np.uint8), 7), expected)


def test_to_numpy_copies_nothing_it_need_not() -> None:
    array = np.arange(6.0)
    assert to_numpy(array) is array
    assert np.shares_memory(to_numpy(torch.from_numpy(array)), array)
    assert to_numpy([1, 2]).tolist() == [1, 2]


def test_directions_of_classes_without_labels_or_length_are_zero() -> None:
    features = np.array([[3.0, 4.0], [1.0, 1.0], [-1.0, -1.0], [0.0, -2.0]])
    found = ClassStatistics.from_labelled(features, [0, 1, 1, 3], 4)
    assert found.norms.tolist() == [5, 0, 0, 2]
    assert found.present.tolist() == [True, False, False, True]
    np.testing.assert_allclose(found.directions, [[0.6, 0.8], [0, 0], [0, 0], [0, -1]], rtol=1e-15)
    np.testing.assert_allclose(found.total_direction, [0.6, -0.2], rtol=1e-15)


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "d"), [(0, 3), (3, 0), (-1, 3)])
def test_empty_needs_a_class_and_a_dimension(classes: int, d: int) -> None:
    with pytest.raises(BadInput, match=rf"classes and dimensions must be at least 1, got {classes} and {d}"):
        ClassStatistics.empty(classes, d)


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (0, 3), (0, 99)])
def test_labels_out_of_range(low: int, high: int) -> None:
    with pytest.raises(BadInput, match=rf"labels must lie in 0..2, got {low}..{high}"):
        ClassStatistics.from_labelled(np.ones((2, 4)), [low, high], 3)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [True, False], ["a", "b"]])
def test_labels_that_are_not_integers(labels: list) -> None:
    with pytest.raises(BadInput, match=r"labels must be integers 0..2, got dtype"):
        ClassStatistics.from_labelled(np.ones((2, 4)), labels, 3)


@pytest.mark.parametrize("labels", [[0], [0, 1, 2], [[0], [1]], 0])
def test_labels_that_are_not_one_an_item(labels: object) -> None:
    with pytest.raises(BadInput, match="2 features need 2 labels, got labels of shape"):
        ClassStatistics.from_labelled(np.ones((2, 4)), labels, 3)


@pytest.mark.parametrize("shape", [(4,), (2, 4, 1)])
def test_features_need_two_dimensions(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"features must have two dimensions \(items, d\), got shape"):
        ClassStatistics.from_labelled(np.ones(shape), [0, 1], 3)


@pytest.mark.parametrize("shape", [(2, 5), (4,), (2, 4, 1)])
def test_update_with_features_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"features must have shape \(items, 4\), got"):
        ClassStatistics.empty(3, 4).update(np.ones(shape), [0, 1])


@pytest.mark.parametrize("other", [(3, 5), (2, 4)])
def test_merge_of_different_shapes(other: tuple[int, int]) -> None:
    with pytest.raises(BadInput, match=r"\(3, 4\) and .* \(classes, d\) cannot be merged"):
        ClassStatistics.empty(3, 4).merge(ClassStatistics.empty(*other))
