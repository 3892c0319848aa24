"""The collapse measures against closed forms, against naive formulas, and where they have no value."""

from __future__ import annotations

import tracemalloc
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.errors import BadInput
from ncalr.geometry import (
    ClassStatistics,
    cdnv,
    cma,
    collapse,
    measure_collapse,
    nc1,
    nc1_quotient,
    nc2_equiangular,
    nc2_equinorm,
    nc3,
    nc4,
)

steady = settings(deadline=None, derandomize=True, max_examples=60)
MEASURES = ("nc1", "nc1_quotient", "cdnv", "nc2_equinorm", "nc2_equiangular", "nc3", "nc4")


def simplex(classes: int, d: int, length: float, seed: int = 0) -> np.ndarray:
    """Centred means of a simplex, each of this length, in a random position of d dimensions."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, classes)))[0]
    corners = (np.eye(classes) - 1 / classes) @ turn.T
    return length * corners / np.linalg.norm(corners[0])


def draw_labelled(seed: int, n: int = 60, d: int = 5, classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Imbalanced, noisy classes; class 3 has no label."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([0, 1, 2, 4, 5], n, p=[0.5, 0.25, 0.15, 0.05, 0.05])
    return 2 * rng.normal(size=(classes, d))[labels] + rng.normal(1, 1, (n, d)), labels


class Naive:
    """Every measure as section C of the algorithm notes prints it, with d x d matrices and loops."""

    def __init__(self, features: np.ndarray, labels: np.ndarray) -> None:
        self.features, self.labels = features, labels
        self.present = np.unique(labels)
        self.means = np.array([features[labels == c].mean(axis=0) for c in self.present])
        self.centred = self.means - self.means.mean(axis=0)
        own = self.means[np.searchsorted(self.present, labels)]
        self.within = sum(np.outer(h - m, h - m) for h, m in zip(features, own, strict=True)) / len(features)
        self.between = sum(np.outer(m, m) for m in self.centred) / len(self.means)

    def nc1(self) -> float:
        return float(np.trace(self.within @ np.linalg.pinv(self.between, rcond=1e-10)) / len(self.means))

    def nc1_quotient(self) -> float:
        return float(np.trace(self.within) / np.trace(self.between))

    def cdnv(self) -> float:
        pairs = []
        for i, a in enumerate(self.present):
            for b in self.present[i + 1 :]:
                spread = sum(((self.features[self.labels == c] - self.mean(c)) ** 2).sum(axis=1).mean() for c in (a, b))
                pairs.append(spread / (2 * ((self.mean(a) - self.mean(b)) ** 2).sum()))
        return float(np.mean(pairs))

    def mean(self, c: int) -> np.ndarray:
        return self.features[self.labels == c].mean(axis=0)

    def nc2_equinorm(self) -> float:
        lengths = [np.sqrt(m @ m) for m in self.centred]
        return float(np.std(lengths) / np.mean(lengths))

    def nc2_equiangular(self) -> float:
        k = len(self.centred)
        away = [
            abs(a @ b / np.sqrt((a @ a) * (b @ b)) + 1 / (k - 1))
            for i, a in enumerate(self.centred)
            for j, b in enumerate(self.centred)
            if i != j
        ]
        return float(np.mean(away))

    def nc3(self, weights: np.ndarray) -> float:
        rows = weights[self.present]
        return float(np.linalg.norm(rows / np.linalg.norm(rows) - self.centred / np.linalg.norm(self.centred)))

    def nc4(self, predictions: np.ndarray) -> float:
        nearest = [self.present[((self.means - h) ** 2).sum(axis=1).argmin()] for h in self.features]
        return float(np.mean(np.array(nearest) != predictions))


# -- closed forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_perfect_collapse_is_zero_everywhere(classes: int) -> None:
    means = simplex(classes, 12, 3.0)
    labels = np.repeat(np.arange(classes), 4)
    found = measure_collapse(means[labels] + 5.0, labels, classes, weights=0.1 * means, predictions=labels)
    assert (found.items, found.classes, found.smallest_class) == (4 * classes, classes, 4)
    for name in MEASURES:
        assert getattr(found, name) == pytest.approx(0, abs=1e-12), name
    assert found.cma == pytest.approx(cma(ClassStatistics.from_labelled(means + 5.0, np.arange(classes), classes)))


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_isotropic_noise_around_a_simplex(classes: int) -> None:
    """Items at mean +- a e_j: the within-class covariance is v I with v = a^2 / d, exactly.

    Sigma_B has eigenvalue L^2 / (K - 1), K - 1 times, so nc1 = v (K - 1)^2 / (K L^2); tr(Sigma_B) = L^2; two means
    are 2 L^2 K / (K - 1) apart, squared.
    """
    d, length, step = 9, 2.0, 0.5
    v = step**2 / d
    offsets = step * np.vstack([np.eye(d), -np.eye(d)])
    features = (simplex(classes, d, length)[:, None, :] + offsets + 1.0).reshape(-1, d)
    found = measure_collapse(features, np.repeat(np.arange(classes), 2 * d), classes)
    assert found.nc1 == pytest.approx(v * (classes - 1) ** 2 / (classes * length**2), rel=1e-12)
    assert found.nc1_quotient == pytest.approx(v * d / length**2, rel=1e-12)
    assert found.cdnv == pytest.approx(v * d * (classes - 1) / (2 * length**2 * classes), rel=1e-12)
    assert found.nc2_equinorm == pytest.approx(0, abs=1e-12)
    assert found.nc2_equiangular == pytest.approx(0, abs=1e-12)


def test_measures_do_not_see_scale_rotation_or_shift() -> None:
    features, labels = draw_labelled(1)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
    a = measure_collapse(features, labels, 6, predictions=labels)
    b = measure_collapse(7.0 * features @ turn + 3.0, labels, 6, predictions=labels)
    for name in set(MEASURES) - {"nc3"}:
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-9), name


def test_nc2_of_three_means_on_a_line() -> None:
    """At 0, 1 and 5 the centred means are -2, -1, 3: lengths 2, 1, 3 and cosines 1, -1, -1."""
    found = ClassStatistics.from_labelled(np.array([[0.0], [1.0], [5.0]]), [0, 1, 2], 3)
    assert nc2_equinorm(found) == pytest.approx(np.sqrt(2 / 3) / 2)
    assert nc2_equiangular(found) == pytest.approx((1.5 + 0.5 + 0.5) / 3)


@pytest.mark.parametrize(("turned", "expected"), [(1.0, 0.0), (-1.0, 2.0)])
def test_nc3_of_aligned_and_opposite_weights(turned: float, expected: float) -> None:
    means = simplex(4, 6, 1.5)
    found = ClassStatistics.from_labelled(means + 2.0, np.arange(4), 4)
    assert nc3(turned * means, found) == pytest.approx(expected, abs=1e-12)


def test_nc4_counts_disagreement_with_the_nearest_mean() -> None:
    found = ClassStatistics.from_labelled(np.array([[0.0, 0.0], [10.0, 0.0]]), [0, 2], 3)
    features = np.array([[1.0, 50.0], [4.0, 0.0], [6.0, 0.0], [9.0, -3.0]])
    assert nc4(features, [0, 0, 2, 2], found) == 0
    assert nc4(features, [0, 2, 2, 2], found) == 0.25
    assert nc4(features, [1, 1, 1, 1], found) == 1


# -- naive formulas -------------------------------------------------------------------------------------------


@given(st.integers(0, 100_000), st.sampled_from([1, 2, 5, 9]), st.integers(20, 60))
@steady
def test_against_the_naive_formulas(seed: int, d: int, n: int) -> None:
    features, labels = draw_labelled(seed, n, d)
    rng = np.random.default_rng(seed)
    weights, predictions = rng.normal(size=(6, d)), rng.integers(0, 6, n)
    found = measure_collapse(features, labels, 6, weights=weights, predictions=predictions)
    naive = Naive(features, labels)
    assert found.classes == len(naive.present)
    assert found.smallest_class == np.bincount(labels)[naive.present].min()
    assert found.items == n
    for name in ("nc1", "nc1_quotient", "cdnv", "nc2_equinorm", "nc2_equiangular"):
        assert getattr(found, name) == pytest.approx(getattr(naive, name)(), rel=1e-7), name
    assert found.nc3 == pytest.approx(naive.nc3(weights), rel=1e-9)
    assert found.nc4 == naive.nc4(predictions)


def test_more_classes_than_dimensions_use_the_pseudo_inverse() -> None:
    rng = np.random.default_rng(4)
    labels = np.arange(40) % 10
    features = rng.normal(size=(10, 3))[labels] + 0.1 * rng.normal(size=(40, 3))
    found = ClassStatistics.from_labelled(features, labels, 10)
    assert nc1(features, labels, found) == pytest.approx(Naive(features, labels).nc1(), rel=1e-9)


def test_classes_without_labels_change_nothing() -> None:
    features, labels = draw_labelled(5)
    names = np.unique(labels)
    weights = np.random.default_rng(6).normal(size=(6, 5))
    few = measure_collapse(
        features, np.searchsorted(names, labels), len(names), weights=weights[names], predictions=labels * 0
    )
    many = measure_collapse(features, labels, 6, weights=weights, predictions=labels * 0)
    assert len(names) == 5
    assert asdict(few) == pytest.approx(asdict(many), rel=1e-12)


def test_cdnv_leaves_out_pairs_with_the_same_mean() -> None:
    features = np.array([[-1.0], [1.0], [-2.0], [2.0], [9.0], [11.0]])
    found = ClassStatistics.from_labelled(features, [0, 0, 1, 1, 2, 2], 3)
    assert cdnv(found) == pytest.approx(((1 + 1) / 200 + (4 + 1) / 200) / 2)


@pytest.mark.parametrize("wrap", [torch.from_numpy, lambda a: a.astype(np.float32), np.asfortranarray])
def test_other_kinds_of_arrays(wrap) -> None:
    features, labels = draw_labelled(7)
    features = features.astype(np.float32).astype(np.float64)
    expected = measure_collapse(features, labels, 6, weights=np.ones((6, 5)), predictions=labels)
    found = measure_collapse(wrap(features), labels, 6, weights=wrap(np.ones((6, 5))), predictions=labels)
    assert asdict(found) == pytest.approx(asdict(expected), rel=1e-12)


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = draw_labelled(8)
    expected = measure_collapse(features, labels, 6, predictions=labels)
    monkeypatch.setattr(collapse, "_BLOCK", 7)
    found = measure_collapse(features, labels, 6, predictions=labels)
    assert found.nc4 == expected.nc4
    assert found.nc1 == pytest.approx(expected.nc1, rel=1e-12)


def test_no_matrix_of_dimensions_by_dimensions() -> None:
    d = 20_000
    rng = np.random.default_rng(9)
    features, labels = rng.normal(size=(12, d)), np.arange(12) % 4
    tracemalloc.start()
    found = measure_collapse(features, labels, 4, weights=features[:4], predictions=labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < d * d * 8 / 100
    assert found.nc1 > 0


# -- nothing to measure ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[2, 2, 2], []], ids=["one class", "none"])
def test_below_two_classes_everything_is_nan(labels: list[int]) -> None:
    features = np.arange(2.0 * len(labels)).reshape(-1, 2)
    found = measure_collapse(features, labels, 3, weights=np.ones((3, 2)), predictions=labels)
    assert (found.items, found.classes, found.smallest_class) == (len(labels), len(set(labels)), len(labels))
    assert np.isnan([getattr(found, name) for name in (*MEASURES, "cma")]).all()


def test_what_was_not_given_is_nan() -> None:
    features, labels = draw_labelled(10)
    found = measure_collapse(features, labels, 6)
    assert np.isnan([found.nc3, found.nc4]).all()
    assert np.isfinite([getattr(found, name) for name in MEASURES[:-2]]).all()


def test_identical_means_have_nothing_between_them() -> None:
    features = np.array([[1.0, 2.0], [3.0, 2.0]] * 2)
    found = measure_collapse(features, [0, 0, 1, 1], 2, weights=np.eye(2), predictions=[0, 0, 0, 0])
    assert np.isnan([getattr(found, name) for name in MEASURES[:-1]]).all()
    assert found.nc4 == 0
    assert found.cma == pytest.approx(1)


def test_a_mean_at_the_centre_has_no_angle() -> None:
    found = ClassStatistics.from_labelled(np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), [0, 1, 2], 3)
    assert np.isnan(nc2_equiangular(found))
    assert nc2_equinorm(found) == pytest.approx(np.sqrt(0.5))
    assert nc1_quotient(found) == 0


def test_zero_weights_have_no_direction() -> None:
    found = ClassStatistics.from_labelled(np.eye(3), np.arange(3), 3)
    assert np.isnan(nc3(np.zeros((3, 3)), found))


def test_nc4_of_no_items() -> None:
    found = ClassStatistics.from_labelled(np.eye(3), np.arange(3), 3)
    assert np.isnan(nc4(np.zeros((0, 3)), [], found))


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 5), (4, 3), (3,)])
def test_weights_of_another_shape(shape: tuple[int, ...]) -> None:
    found = ClassStatistics.from_labelled(np.ones((3, 4)), np.arange(3), 3)
    with pytest.raises(BadInput, match=r"weights must have shape \(3, 4\) \(classes, d\), got"):
        nc3(np.ones(shape), found)


@pytest.mark.parametrize("predictions", [[1], [[0], [1], [2]], [0, 1, 2, 0]])
def test_nc4_needs_one_prediction_an_item(predictions: list) -> None:
    found = ClassStatistics.from_labelled(np.eye(3), np.arange(3), 3)
    with pytest.raises(BadInput, match="3 features need as many predictions, got shape"):
        nc4(np.eye(3), predictions, found)


@pytest.mark.parametrize("labels", [[1], [0, 1, 7]])
def test_nc1_checks_its_labels(labels: list[int]) -> None:
    found = ClassStatistics.from_labelled(np.eye(3), np.arange(3), 3)
    with pytest.raises(BadInput, match="labels"):
        nc1(np.eye(3), labels, found)
