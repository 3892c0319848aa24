"""Robust class means: they stand wrong labels up to their breakdown, equal the plain mean where nothing is wrong."""

from __future__ import annotations

import tracemalloc
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ncalr.errors import BadInput, NotFinite, UnknownName
from ncalr.geometry import ClassStatistics, cma, cmap, nc1_quotient, robust
from ncalr.geometry.robust import (
    FinalStatistics,
    WeightedStatistics,
    geometric_median,
    robust_statistics,
    trimmed_mean,
    weighted_statistics,
)

steady = settings(deadline=None, derandomize=True, max_examples=60)
METHODS = ("trimmed", "median", "weighted")
CLASSES = 5


def mislabelled(share: float, seed: int = 0, n: int = 2000, d: int = 8, kind: str = "any"):
    """Tight classes 30 apart in a corner each, and a share of labels, the same in each class, that are wrong."""
    rng = np.random.default_rng(seed)
    means = 5.0 + 30 * np.eye(CLASSES, d)
    truth = np.arange(n) % CLASSES
    features = means[truth] + rng.normal(size=(n, d))
    wrong = np.arange(n) // CLASSES < share * n / CLASSES
    jump = rng.integers(1, CLASSES, n) if kind == "any" else np.ones(n, np.int64)
    return features, np.where(wrong, (truth + jump) % CLASSES, truth), means, truth


def farthest(found: ClassStatistics, means: np.ndarray) -> float:
    return float(np.linalg.norm(found.means - means, axis=1).max())


def assert_same(a: ClassStatistics, b: ClassStatistics, tolerance: float = 1e-12) -> None:
    assert a.counts.dtype == b.counts.dtype == np.int64
    assert np.array_equal(a.counts, b.counts)
    np.testing.assert_allclose(a.means, b.means, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=tolerance, atol=tolerance)


# -- breakdown ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["any", "next"])
@pytest.mark.parametrize("share", [0.3, 0.45])
def test_wrong_labels_drag_the_mean_and_not_the_robust_ones(share: float, kind: str) -> None:
    features, labels, means, _ = mislabelled(share, kind=kind)
    plain = farthest(ClassStatistics.from_labelled(features, labels, CLASSES), means)
    assert plain > 0.4 * share * 30
    assert farthest(robust_statistics(features, labels, CLASSES), means) < 0.4
    # the median's pull is bounded: m / sqrt(m^2 + spread^2) = share / (1 - share), in the worst case of one direction
    ratio = share / (1 - share)
    bound = np.sqrt(8) * ratio / np.sqrt(1 - ratio**2)
    assert farthest(robust_statistics(features, labels, CLASSES, "median"), means) < min(bound * 1.1, plain / 2)


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9])
def test_the_distance_of_outliers_does_not_matter(distance: float) -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(101, 3))
    points[:45] += distance
    assert np.linalg.norm(points.mean(axis=0)) > 0.4 * distance
    assert np.linalg.norm(trimmed_mean(points)) < 0.6
    assert np.linalg.norm(geometric_median(points)) < 3.0


def test_trimming_less_than_the_wrong_share_is_not_enough() -> None:
    features, labels, means, _ = mislabelled(0.45, kind="next")
    assert farthest(robust_statistics(features, labels, CLASSES, trim=0.2), means) > 5
    assert farthest(robust_statistics(features, labels, CLASSES, trim=0.46), means) < 0.4


def test_right_weights_undo_wrong_labels() -> None:
    features, labels, means, truth = mislabelled(0.45, kind="next")
    found = robust_statistics(features, labels, CLASSES, "weighted", weights=labels == truth)
    right = labels == truth
    assert_same(found, ClassStatistics.from_labelled(features[right], labels[right], CLASSES), 1e-11)
    assert farthest(found, means) < 0.4


@pytest.mark.parametrize("method", METHODS)
def test_a_class_whose_labels_are_all_wrong_stays_finite(method: str) -> None:
    """Nothing can know it: the class then sits where its labels are."""
    features, labels, means, truth = mislabelled(0.0)
    labels = np.where(truth == 2, 3, np.where(truth == 3, 2, truth))
    weights = np.ones(len(labels)) if method == "weighted" else None
    found = robust_statistics(features, labels, CLASSES, method, weights=weights)
    assert np.isfinite(found.means).all()
    assert np.isfinite(found.scatter).all()
    assert np.linalg.norm(found.means[2] - means[3]) < 0.5
    assert np.isfinite([cma(found), nc1_quotient(found)]).all()


# -- trimmed --------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 40))
@steady
def test_nothing_trimmed_is_the_plain_statistics(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(3, 2, (n, 4)), rng.integers(0, 4, n)
    found = robust_statistics(features, labels, 5, trim=0.0)
    assert_same(found, ClassStatistics.from_labelled(features, labels, 5))


def test_trimming_by_hand() -> None:
    """Seven points, trim 0.3: two go. The median 3 keeps 0..4 (nearest five: 3, 2, 4, 1, and 0 against 30)."""
    points = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [30.0], [40.0]])
    found = robust_statistics(points, [0] * 7, 1, trim=0.3)
    assert (found.counts.tolist(), found.means.tolist(), found.scatter.tolist()) == ([5], [[2.0]], [10.0])


def test_the_kept_items_settle_step_by_step() -> None:
    """Four of seven: around the median 5.5 they are 5, 5.5, 6.9, 7, mean 6.1; around that 7.1 comes in for 5."""
    points = np.array([[0.0], [1.0], [5.0], [5.5], [6.9], [7.0], [7.1]])
    assert trimmed_mean(points, rounds=1)[0] == pytest.approx(6.1)
    assert trimmed_mean(points, rounds=2)[0] == pytest.approx(6.625)
    assert trimmed_mean(points)[0] == pytest.approx(6.625)


@pytest.mark.parametrize(("n", "kept"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (100, 51), (101, 51)])
def test_more_than_half_is_always_kept(n: int, kept: int) -> None:
    points = 2.0 ** np.arange(n)[:, None] if n < 50 else np.arange(n)[:, None] ** 2.0
    assert robust_statistics(points, np.zeros(n, np.int64), 1).counts.tolist() == [kept]


def test_a_share_that_floats_cannot_write_is_the_share_meant() -> None:
    points = np.arange(100.0)[:, None] ** 2
    assert robust_statistics(points, [0] * 100, 1, trim=0.29).counts.tolist() == [71]


def test_ties_at_the_edge_stay_whatever_the_order() -> None:
    points = np.array([[0.0], [0.0], [0.0], [1.0], [-1.0], [50.0]])
    for order in (np.arange(6), np.arange(6)[::-1], np.array([3, 5, 0, 1, 4, 2])):
        found = robust_statistics(points[order], [0] * 6, 1, trim=0.4)
        assert (found.counts.tolist(), found.means.tolist()) == ([5], [[0.0]])


# -- geometric median -----------------------------------------------------------------------------------------


def test_fermat_point_of_an_isosceles_triangle() -> None:
    """With no angle above 120 degrees, each side is seen from it under 120 degrees: here from (0, 1 / sqrt(3))."""
    found = geometric_median([[-1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    np.testing.assert_allclose(found, [0, 1 / np.sqrt(3)], atol=1e-5)


def test_a_wide_angle_takes_the_corner_itself() -> None:
    """An angle above 120 degrees: the median is an item, where Weiszfeld without the correction divides by zero."""
    points = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.1]])
    np.testing.assert_allclose(geometric_median(points, iterations=2000), [0, 0.1], atol=1e-4)


def test_a_start_on_an_item_that_is_not_the_median_leaves_it() -> None:
    """The coordinate-wise median of these is the item (0, 0), the geometric median is not."""
    points = np.array([[0.0, 0.0], [-1.0, 3.0], [2.0, 1.0], [-3.0, -1.0], [3.0, -0.5], [1.0, 4.0], [-2.0, -0.2]])
    assert np.median(points, axis=0).tolist() == [0, 0]
    units = points[1:] / np.linalg.norm(points[1:], axis=1, keepdims=True)
    pull, weight = units.sum(axis=0), (1 / np.linalg.norm(points[1:], axis=1)).sum()
    first = (1 - 1 / np.linalg.norm(pull)) * pull / weight
    np.testing.assert_allclose(geometric_median(points, iterations=1), first)
    found = geometric_median(points)
    expected = minimize(lambda y: np.linalg.norm(points - y, axis=1).sum(), [0.3, 0.3], method="Nelder-Mead")
    assert np.linalg.norm(expected.x) > 0.01
    np.testing.assert_allclose(found, expected.x, atol=1e-3)


@given(st.integers(0, 10_000), st.integers(3, 30), st.integers(1, 6))
@steady
def test_no_direction_lowers_the_sum_of_distances(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d)) ** 3
    found = geometric_median(points, tolerance=1e-10, iterations=5000)
    best = np.linalg.norm(points - found, axis=1).sum()
    for step in rng.normal(size=(20, d)):
        assert np.linalg.norm(points - found - 1e-2 * step, axis=1).sum() >= best - 1e-6 * best


def test_identical_points_and_two_points() -> None:
    assert geometric_median(np.full((4, 3), 7.0)).tolist() == [7, 7, 7]
    assert geometric_median([[0.0, 0.0], [2.0, 4.0]]).tolist() == [1, 2]
    assert geometric_median([[3.0, 1.0]]).tolist() == [3, 1]


def test_points_too_near_to_divide_by_count_as_one() -> None:
    points = np.array([[0.0], [1e-200], [0.0], [5.0], [-3.0]])
    assert abs(geometric_median(points)[0]) < 1e-100


def test_scatter_of_the_median_is_not_moved_by_outliers() -> None:
    features, labels, _, _ = mislabelled(0.3, n=20_000)
    found = robust_statistics(features, labels, CLASSES, "median")
    plain = ClassStatistics.from_labelled(features, labels, CLASSES)
    assert found.counts.tolist() == plain.counts.tolist()
    assert (plain.scatter / plain.counts > 100).all()
    assert (found.scatter / found.counts < 25).all()
    clean = robust_statistics(*mislabelled(0.0, n=20_000)[:2], CLASSES, "median")
    np.testing.assert_allclose(clean.scatter / clean.counts, 8 * (1 - 2 / (3 * 8)), rtol=0.03)


# -- weighted -------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from([0.25, 1.0, 7.0]))
@steady
def test_equal_weights_are_the_plain_statistics(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(3, 2, (30, 4)), rng.integers(0, 4, 30)
    found = weighted_statistics(features, labels, np.full(30, weight), 5)
    assert_same(found, ClassStatistics.from_labelled(features, labels, 5))


def test_whole_weights_are_repeated_items() -> None:
    rng = np.random.default_rng(2)
    features, labels, weights = rng.normal(3, 2, (60, 4)), rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    found = weighted_statistics(features, labels, weights, 4)
    repeated = ClassStatistics.from_labelled(np.repeat(features, weights, axis=0), np.repeat(labels, weights), 4)
    np.testing.assert_allclose(found.means, repeated.means, rtol=1e-12)
    np.testing.assert_allclose(
        found.scatter / np.maximum(found.counts, 1), repeated.scatter / np.maximum(repeated.counts, 1), rtol=1e-12
    )
    kish = [weights[labels == c].sum() ** 2 / (weights[labels == c] ** 2).sum() for c in range(3)]
    assert found.counts.tolist() == [*np.rint(kish).astype(int).tolist(), 0]


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_weighted_shards_merge_and_update(pieces: int) -> None:
    rng = np.random.default_rng(3)
    features, labels, weights = rng.normal(3, 2, (200, 6)), rng.integers(0, 6, 200), rng.random(200)
    whole = weighted_statistics(features, labels, weights, 7)
    parts = [(features[rows], labels[rows], weights[rows], 7) for rows in np.array_split(rng.permutation(200), pieces)]
    merged = reduce(WeightedStatistics.merge, [weighted_statistics(*part) for part in parts])
    updated = weighted_statistics(features[:0], labels[:0], weights[:0], 7)
    for part in parts:
        updated = updated.update(*part[:3])
    assert_same(merged, whole)
    assert_same(updated, whole)
    np.testing.assert_allclose(merged.weights, whole.weights)
    np.testing.assert_allclose(merged.squares, whole.squares)


def test_plain_statistics_merge_as_items_of_weight_one() -> None:
    rng = np.random.default_rng(4)
    features, labels = rng.normal(3, 2, (40, 3)), rng.integers(0, 3, 40)
    weights = np.r_[rng.random(20), np.ones(20)]
    merged = weighted_statistics(features[:20], labels[:20], weights[:20], 3).merge(
        ClassStatistics.from_labelled(features[20:], labels[20:], 3)
    )
    updated = weighted_statistics(features[:20], labels[:20], weights[:20], 3).update(features[20:], labels[20:])
    whole = weighted_statistics(features, labels, weights, 3)
    assert_same(merged, whole)
    assert_same(updated, whole)


def test_weights_of_zero_leave_a_class_without_a_mean() -> None:
    found = weighted_statistics([[1.0], [2.0], [5.0]], [0, 0, 1], [0.0, 0.0, 1e-9], 2)
    assert (found.counts.tolist(), found.means.tolist(), found.scatter.tolist()) == ([0, 1], [[0.0], [5.0]], [0, 0])
    assert found.present.tolist() == [False, True]


# -- any method -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_classes_with_no_label_and_with_one(method: str) -> None:
    features = np.array([[1.0, 2.0], [3.0, 4.0], [3.0, 6.0]])
    found = robust_statistics(features, [0, 2, 2], 4, method, weights=np.ones(3) if method == "weighted" else None)
    assert_same(found, ClassStatistics.from_labelled(features, [0, 2, 2], 4))


@pytest.mark.parametrize("method", METHODS)
def test_no_labels_at_all(method: str) -> None:
    found = robust_statistics(np.zeros((0, 3)), [], 2, method, weights=np.zeros(0) if method == "weighted" else None)
    assert_same(found, ClassStatistics.empty(2, 3))


@pytest.mark.parametrize("method", METHODS)
def test_order_and_blocks_change_nothing(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels, _, _ = mislabelled(0.3, n=300)
    weights = np.random.default_rng(5).random(300)
    order = np.random.default_rng(6).permutation(300)
    given = weights if method == "weighted" else None
    expected = robust_statistics(features, labels, CLASSES, method, weights=given)
    monkeypatch.setattr(robust, "_BLOCK_BYTES", 8 * 8 * 7)
    monkeypatch.setattr(robust, "_CACHED_BYTES", 8 * 8 * 3)
    given = weights[order] if method == "weighted" else None
    assert_same(robust_statistics(features[order], labels[order], CLASSES, method, weights=given), expected, 1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_half_precision_and_tensors_are_their_values(method: str) -> None:
    features, labels, _, _ = mislabelled(0.3, n=200)
    half = features.astype(np.float16)
    weights = np.linspace(0, 1, 200) if method == "weighted" else None
    expected = robust_statistics(half.astype(np.float64), labels, CLASSES, method, weights=weights)
    assert_same(robust_statistics(half, labels, CLASSES, method, weights=weights), expected, 1e-9)
    tensor = robust_statistics(torch.from_numpy(half), torch.from_numpy(labels), CLASSES, method, weights=weights)
    assert_same(tensor, expected, 1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_cmap_takes_robust_statistics(method: str) -> None:
    features, labels, _, truth = mislabelled(0.45, n=600, kind="next")
    weights = (labels == truth) * 1.0 if method == "weighted" else None
    clean = ClassStatistics.from_labelled(features, truth, CLASSES)
    found = robust_statistics(features, labels, CLASSES, method, weights=weights)
    scores = [cmap(features, truth, s, counts="neutral") for s in (clean, found)]
    plain = cmap(features, truth, ClassStatistics.from_labelled(features, labels, CLASSES), counts="neutral")
    right = np.corrcoef(scores[0], scores[1])[0, 1]
    assert right > np.corrcoef(scores[0], plain)[0, 1]
    assert right > 0.9


def test_memory_stays_near_that_of_one_class() -> None:
    features = np.zeros((20_000, 200), np.float32)
    features[:, 0] = np.arange(20_000)
    labels = np.arange(20_000) % 20
    tracemalloc.start()
    robust_statistics(features, labels, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < features.nbytes / 2


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["trimmed", "median"])
def test_trimmed_and_median_are_final(method: str) -> None:
    features, labels, _, _ = mislabelled(0.1, n=50)
    found = robust_statistics(features, labels, CLASSES, method)
    assert isinstance(found, FinalStatistics)
    for add in (
        lambda: found.merge(found),
        lambda: found.update(features, labels),
        lambda: weighted_statistics(features, labels, np.ones(50), CLASSES).merge(found),
    ):
        with pytest.raises(BadInput, match=r"cannot be merged or updated.*call robust_statistics once"):
            add()


def test_weighted_statistics_of_other_shapes() -> None:
    one = weighted_statistics(np.ones((2, 3)), [0, 1], [1, 1], 2)
    with pytest.raises(BadInput, match=r"\(2, 3\) and \(2, 4\) \(classes, d\) cannot be merged"):
        one.merge(ClassStatistics.empty(2, 4))


def test_an_unknown_method() -> None:
    with pytest.raises(UnknownName, match=r"no method for class means 'medain'. Did you mean 'median'"):
        robust_statistics(np.ones((1, 1)), [0], 1, "medain")  # type: ignore[arg-type]


@pytest.mark.parametrize(("method", "weights"), [("weighted", None), ("trimmed", [1.0]), ("median", [1.0])])
def test_weights_go_with_weighted(method: str, weights: object) -> None:
    with pytest.raises(BadInput, match="weights go with method='weighted' and with no other"):
        robust_statistics(np.ones((1, 1)), [0], 1, method, weights=weights)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"trim": 0.6}, {"trim": -0.1}, {"rounds": 0}, {"trim": float("nan")}])
def test_trimming_that_cannot_be(options: dict) -> None:
    with pytest.raises(BadInput, match=r"trim must lie in 0..0.5 \(30 % is 0.3\) and rounds be at least 1"):
        robust_statistics(np.ones((1, 1)), [0], 1, **options)
    with pytest.raises(BadInput, match="trim must lie"):
        trimmed_mean(np.ones((1, 1)), **options)


@pytest.mark.parametrize("weights", [[1.0], [[1.0], [1.0]], 1.0])
def test_one_weight_a_label(weights: object) -> None:
    with pytest.raises(BadInput, match="2 labels need 2 weights, got shape"):
        weighted_statistics(np.ones((2, 1)), [0, 0], weights, 1)


def test_weights_below_zero() -> None:
    with pytest.raises(BadInput, match=r"weights must not be negative, the least is -0.5"):
        weighted_statistics(np.ones((2, 1)), [0, 0], [1.0, -0.5], 1)


def test_values_that_are_not_finite() -> None:
    features = np.array([[1.0], [np.nan], [np.inf]])
    for method in ("trimmed", "median"):
        with pytest.raises(NotFinite, match="features of class 1 hold 2 values that are not finite"):
            robust_statistics(features, [0, 1, 1], 2, method)
    with pytest.raises(NotFinite, match="weights hold 1 values"):
        weighted_statistics(np.ones((2, 1)), [0, 0], [1.0, np.nan], 1)
    with pytest.raises(NotFinite, match="points hold 2 values"):
        geometric_median(features)


@pytest.mark.parametrize("shape", [(3,), (0, 2), (2, 0)])
def test_points_need_a_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"points must have shape \(n, d\)"):
        geometric_median(np.ones(shape))


@pytest.mark.parametrize("method", METHODS)
def test_labels_are_checked(method: str) -> None:
    weights = np.ones(2) if method == "weighted" else None
    with pytest.raises(BadInput, match=r"labels must lie in 0..1, got 0..7"):
        robust_statistics(np.ones((2, 1)), [0, 7], 2, method, weights=weights)
    with pytest.raises(BadInput, match="features must have two dimensions"):
        robust_statistics(np.ones(2), [0, 1], 2, method, weights=weights)


def test_plain_statistics_do_not_swallow_trimmed_ones():
    features, labels = np.eye(3), np.arange(3)
    plain = ClassStatistics.from_labelled(features, labels, 3)
    with pytest.raises(BadInput, match="cannot be merged or updated"):
        plain.merge(robust_statistics(features, labels, 3))
    weighted = weighted_statistics(features, labels, np.full(3, 2.0), 3)
    assert plain.merge(weighted).means == pytest.approx(weighted.merge(plain).means)
