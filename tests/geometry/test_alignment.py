"""CMA and CMAP against what they are defined as: the mean cosine of the class means, before and after one more item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ncalr.errors import BadInput
from ncalr.geometry import ClassStatistics, cma, cmap, cmap_table
from ncalr.geometry.alignment import score_block
from ncalr.kernels.host import Host

TOLERANCE = 1e-10
steady = settings(deadline=None, derandomize=True, max_examples=100)


class World(NamedTuple):
    """Labelled features and a pool."""

    features: np.ndarray
    labels: np.ndarray
    classes: int
    pool: np.ndarray
    predictions: np.ndarray

    @property
    def statistics(self) -> ClassStatistics:
        return ClassStatistics.from_labelled(self.features, self.labels, self.classes)


def mean_cosine(means: np.ndarray) -> float:
    """CMA by its definition, over the means that have a direction; NaN below two."""
    lengths = np.linalg.norm(means, axis=1)
    unit = means[lengths > 0] / lengths[lengths > 0, None]
    if len(unit) < 2:
        return float("nan")
    return float((unit @ unit.T)[~np.eye(len(unit), dtype=bool)].mean())


def class_means(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.array([features[labels == c].mean(axis=0) for c in np.unique(labels)])


def cma_difference(z: np.ndarray, predicted: int, features: np.ndarray, labels: np.ndarray) -> float:
    """K (K - 1) / 2 times the change of CMA when z is added to its predicted class, K the classes before; else 0."""
    before = class_means(features, labels)
    after = class_means(np.vstack([features, z]), np.append(labels, predicted))
    k = int((np.linalg.norm(before, axis=1) > 0).sum())
    if k < 2 or not z.any():
        return 0.0
    return k * (k - 1) / 2 * (mean_cosine(after) - mean_cosine(before))


def brute_force(world: World) -> np.ndarray:
    rows = zip(world.pool, world.predictions, strict=True)
    return np.array([cma_difference(z, c, world.features, world.labels) for z, c in rows])


def is_steady(world: World) -> np.ndarray:
    """Rows that do not all but cancel their class: there the direction of the new mean hangs on the last bit."""
    statistics = world.statistics
    c = world.predictions
    before = statistics.counts[c, None] * statistics.means[c]
    length = np.linalg.norm(before + world.pool, axis=1)
    reach = np.linalg.norm(before, axis=1) + np.linalg.norm(world.pool, axis=1)
    return (length > 1e-3 * reach) | (reach == 0)


def draw_features(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> np.ndarray:
    if kind == "whole":  # zeros, repeats, parallel and opposite vectors all come up
        return rng.integers(-2, 3, shape).astype(np.float64)
    features = rng.normal(size=shape)
    return np.maximum(features, 0) if kind == "relu" else features


def draw_world(seed: int, kind: str, classes: int, d: int, labelled: int, skew: float = 0.0) -> World:
    rng = np.random.default_rng(seed)
    share = np.exp(-skew * np.arange(classes))
    labels = rng.choice(classes, labelled, p=share / share.sum())
    centres = 2 * draw_features(rng, kind, (classes, d))
    features = centres[labels] + draw_features(rng, kind, (labelled, d))
    pool = draw_features(rng, kind, (12, d)) * rng.choice([0.0, 1.0, 10.0], (12, 1), p=[0.1, 0.6, 0.3])
    return World(features, labels, classes, pool, rng.integers(0, classes, len(pool)))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Random, ReLU-like and whole-number features; few or many labels, balanced or not, classes without any."""
    return draw_world(
        seed=draw(st.integers(0, 2**32 - 1)),
        kind=draw(st.sampled_from(["gauss", "relu", "whole"])),
        classes=draw(st.sampled_from([2, 3, 10, 100])),
        d=draw(st.sampled_from([1, 2, 5, 33])),
        labelled=draw(st.sampled_from([1, 2, 5, 30, 300])),
        skew=draw(st.sampled_from([0.0, 0.5])),
    )


# -- the definition -------------------------------------------------------------------------------------------


@given(worlds())
@steady
def test_cmap_is_the_change_of_cma(world: World) -> None:
    compared = is_steady(world)
    scores = cmap(world.pool, world.predictions, world.statistics)
    np.testing.assert_allclose(scores[compared], brute_force(world)[compared], rtol=0, atol=TOLERANCE)


@given(worlds())
@steady
def test_cma_is_the_mean_cosine(world: World) -> None:
    expected = mean_cosine(class_means(world.features, world.labels))
    np.testing.assert_allclose(cma(world.statistics), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("kind", ["gauss", "relu"])
def test_cmap_is_the_change_of_cma_with_every_class_labelled(classes: int, kind: str) -> None:
    world = draw_world(classes, kind, classes, 16, 20 * classes)
    assert world.statistics.present.all()
    expected = brute_force(world)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(cmap(*world[3:], world.statistics), expected, rtol=0, atol=TOLERANCE)


def test_long_tail_of_class_counts() -> None:
    world = draw_world(5, "relu", 10, 8, 3000, skew=0.7)
    counts = world.statistics.counts
    assert counts.max() > 100 * counts[counts > 0].min()
    np.testing.assert_allclose(cmap(*world[3:], world.statistics), brute_force(world), rtol=0, atol=TOLERANCE)


def test_the_printed_example_in_the_plane() -> None:
    """Means along x and y; z = (0, 1) turns a mean of one item by 45 degrees: the cosine goes from 0 to 1/sqrt(2)."""
    statistics = ClassStatistics.from_labelled(np.eye(2), [0, 1], 2)
    assert cmap(np.array([[0.0, 1.0]]), [0], statistics)[0] == pytest.approx(np.sqrt(0.5), abs=1e-15)


# -- degenerate classes and features --------------------------------------------------------------------------


def five_classes() -> World:
    """Classes 0, 1, 3 labelled; 2 has no label; 4 has two that cancel, so its mean is zero."""
    rng = np.random.default_rng(3)
    features = np.vstack([rng.normal(size=(12, 4)), [[1.0, 2.0, 0.0, -1.0], [-1.0, -2.0, 0.0, 1.0]]])
    labels = np.array([0, 1, 3] * 4 + [4, 4])
    return World(features, labels, 5, rng.normal(size=(10, 4)), np.arange(10) % 5)


@pytest.mark.parametrize("predicted", [0, 2, 4], ids=["labelled", "without labels", "with a zero mean"])
def test_predicted_class_is_made_where_it_has_no_mean(predicted: int) -> None:
    world = five_classes()._replace(predictions=np.full(10, predicted))
    expected = brute_force(world)
    assert np.abs(expected).min() > 1e-4
    np.testing.assert_allclose(cmap(*world[3:], world.statistics), expected, rtol=0, atol=TOLERANCE)


def test_made_class_follows_the_closed_form_of_the_notes() -> None:
    world = five_classes()._replace(predictions=np.full(10, 2))
    statistics = world.statistics
    k, total = 3, statistics.total_direction
    surplus = total @ total - k
    cosine = world.pool @ total / np.linalg.norm(world.pool, axis=1)
    change = (surplus + 2 * cosine) / ((k + 1) * k) - surplus / (k * (k - 1))
    np.testing.assert_allclose(cmap(*world[3:], statistics), k * (k - 1) / 2 * change, rtol=0, atol=1e-13)


def test_classes_without_labels_or_with_a_zero_mean_change_nothing_for_others() -> None:
    world = five_classes()
    kept = np.isin(world.labels, [0, 1, 3])
    small = ClassStatistics.from_labelled(world.features[kept], np.array([0, 1, -1, 2, -1])[world.labels[kept]], 3)
    of_five = cmap(world.pool, np.resize([0, 1, 3], 10), world.statistics)
    of_three = cmap(world.pool, np.resize([0, 1, 2], 10), small)
    np.testing.assert_allclose(of_five, of_three, rtol=0, atol=1e-15)
    assert cma(world.statistics) == pytest.approx(cma(small), abs=1e-15)


@pytest.mark.parametrize("predicted", [0, 1])
def test_one_labelled_class_leaves_nothing_to_compare(predicted: int) -> None:
    statistics = ClassStatistics.from_labelled(np.array([[1.0, 2.0], [2.0, 1.0]]), [0, 0], 2)
    assert np.isnan(cma(statistics))
    assert cmap(np.array([[3.0, -1.0], [0.0, 0.0]]), [predicted] * 2, statistics).tolist() == [0, 0]


def test_no_labels_at_all() -> None:
    statistics = ClassStatistics.empty(3, 2)
    assert np.isnan(cma(statistics))
    for counts in ("paper", "neutral"):
        assert cmap(np.ones((3, 2)), [0, 1, 2], statistics, counts=counts).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_zero_feature_scores_exactly_zero(dtype: type) -> None:
    statistics = five_classes().statistics
    assert cmap(np.zeros((5, 4), dtype), np.arange(5), statistics).tolist() == [0] * 5


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
@steady
def test_a_feature_along_its_mean_scores_zero(seed: int, stretch: float) -> None:
    world = draw_world(seed, "relu", 5, 7, 40)
    c = world.predictions
    scores = cmap(stretch * world.statistics.means[c], c, world.statistics)
    made = ~world.statistics.present[c]
    assert np.abs(scores[~made]).max(initial=0) < 1e-12


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_feature_that_cancels_its_class_scores_zero(dtype: type, count: int) -> None:
    """z = -n mu leaves no mean to turn. Lengths are exact here; see `is_steady` for why they must be."""
    features = np.vstack([np.tile([2.0, 0.0, 0.0], (count, 1)), [[1.0, 2.0, 3.0]], [[3.0, 0.5, -1.0]]])
    statistics = ClassStatistics.from_labelled(features, [0] * count + [1, 2], 3)
    z = np.array([[-2.0 * count, 0.0, 0.0]], dtype)
    assert cmap(z, [0], statistics).tolist() == [0]


def test_a_feature_beyond_the_opposite_turns_its_mean_round() -> None:
    world = draw_world(1, "gauss", 4, 6, 60)
    c = world.predictions
    opposite = -3 * world.statistics.counts[c, None] * world.statistics.means[c]
    turned = 2 - 2 * world.statistics.directions[c] @ world.statistics.total_direction
    np.testing.assert_allclose(cmap(opposite, c, world.statistics), turned, rtol=0, atol=1e-12)


# -- single precision -----------------------------------------------------------------------------------------


def large_classes(count: int) -> tuple[ClassStatistics, np.ndarray, np.ndarray]:
    """Ten ReLU-like classes of `count` items each, known by their means, and a pool in float32."""
    rng = np.random.default_rng(7)
    means = np.maximum(rng.normal(size=(10, 256)), 0)
    predictions = rng.integers(0, 10, 400)
    pool = np.maximum(means[predictions] + rng.normal(size=(400, 256)), 0).astype(np.float32)
    return ClassStatistics(np.full(10, count), means, np.zeros(10)), pool, predictions


def printed_formula(statistics: ClassStatistics, pool: np.ndarray, c: np.ndarray, number: type) -> np.ndarray:
    """(new mu-bar - mu-bar) . (M - mu-bar), all of it in one precision."""
    means, z = statistics.means.astype(number), pool.astype(number)
    counts = statistics.counts.astype(number)[c, None]
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    new = (counts * means[c] + z) / (counts + number(1))
    new = new / np.linalg.norm(new, axis=1, keepdims=True)
    return np.asarray(np.sum((new - unit[c]) * (unit.sum(axis=0) - unit[c]), axis=1), np.longdouble)


def reachable(statistics: ClassStatistics, pool: np.ndarray, c: np.ndarray) -> np.ndarray:
    """|z| |G_c| / (n_c |mu_c|): the most that a feature of this length does to a large class."""
    others = np.linalg.norm(statistics.total_direction - statistics.directions, axis=1)
    reach = statistics.counts * statistics.norms
    return np.linalg.norm(pool.astype(np.float64), axis=1) * (others / reach)[c]


@pytest.mark.parametrize("count", [1, 10, 1_000, 100_000, 1_000_000])
def test_float32_keeps_its_digits_at_any_count(count: int) -> None:
    """1e-5 of each item's own score, and 1e-6 of what it could reach (the scale that survives a score near zero)."""
    statistics, pool, c = large_classes(count)
    true = printed_formula(statistics, pool, c, np.longdouble)
    scores = cmap(pool, c, statistics)
    assert scores.dtype == np.float32
    error = np.abs(scores - true)
    assert (error / np.abs(true)).max() < 1e-5
    assert (error / reachable(statistics, pool, c)).max() < 1e-6


def test_the_printed_formula_in_float32_loses_its_digits() -> None:
    """Why the closed form exists: the printed one loses a digit with every tenfold count, and is left with none."""
    error = {}
    for count in (10, 1_000, 100_000, 1_000_000):
        statistics, pool, c = large_classes(count)
        true = printed_formula(statistics, pool, c, np.longdouble)
        printed = np.abs(printed_formula(statistics, pool, c, np.float32) - true)
        error[count] = float(printed.max() / np.median(np.abs(true)))
    assert error[10] < 1e-5 < 1e-4 < error[1_000] < 1e-2 < error[100_000] < 0.1 < error[1_000_000]


def test_half_precision_is_widened_and_nothing_else() -> None:
    statistics, pool, c = large_classes(100)
    half = pool.astype(np.float16)
    scores = cmap(half, c, statistics)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, cmap(half.astype(np.float32), c, statistics), rtol=1e-5, atol=1e-8)
    assert np.abs(scores - cmap(pool, c, statistics)).max() > 1e-6  # the inputs did differ


# -- options --------------------------------------------------------------------------------------------------


def test_sign_turns_the_score_over() -> None:
    world = five_classes()
    scores = cmap(*world[3:], world.statistics)
    assert np.array_equal(cmap(*world[3:], world.statistics, sign=-1), -scores)
    assert scores.any()


def centred(world: World) -> World:
    centre = class_means(world.features, world.labels).mean(axis=0)
    return world._replace(features=world.features - centre, pool=world.pool - centre)


@given(worlds())
@steady
def test_center_is_explicit_centring(world: World) -> None:
    lengths = np.linalg.norm(class_means(*centred(world)[:2]), axis=1)
    assume((lengths > 1e-3).all())  # a mean that is the centre has a direction of rounding errors
    moved = centred(world)
    compared = is_steady(moved) & (np.linalg.norm(moved.pool, axis=1) > 1e-3)
    scores = cmap(*world[3:], world.statistics, center=True)
    np.testing.assert_allclose(scores[compared], brute_force(moved)[compared], rtol=0, atol=TOLERANCE)


def test_centre_is_the_unweighted_mean_of_the_means() -> None:
    features = np.vstack([np.tile([1.0, 0.0], (9, 1)), [[0.0, 3.0]]])
    statistics, centre = ClassStatistics.from_labelled(features, [0] * 9 + [2], 3).centred()
    assert centre.tolist() == [0.5, 1.5]
    assert statistics.means.tolist() == [[0.5, -1.5], [0, 0], [-0.5, 1.5]]
    empty, centre = ClassStatistics.empty(2, 3).centred()
    assert centre.tolist() == [0, 0, 0]
    assert not empty.means.any()


def test_neutral_counts_are_the_mean_count_of_the_classes_present() -> None:
    world = five_classes()
    skewed = world._replace(
        features=np.vstack([world.features, world.features[[0]], world.features[[0]]]),
        labels=np.append(world.labels, [0, 0]),
    )
    statistics = skewed.statistics
    mean_count = statistics.counts[[0, 1, 3]].mean()
    assert mean_count == 14 / 3
    same = ClassStatistics(np.where(statistics.present, mean_count, 0), statistics.means, statistics.scatter)
    neutral = cmap(*skewed[3:], statistics, counts="neutral")
    np.testing.assert_allclose(neutral, cmap(*skewed[3:], same), rtol=0, atol=1e-15)
    assert np.abs(neutral - cmap(*skewed[3:], statistics)).max() > 1e-3


def test_neutral_counts_by_brute_force() -> None:
    """Classes of 2 and 6 items whose means are kept, each written out with the mean count of 4 items."""
    rng = np.random.default_rng(11)
    means = rng.normal(size=(2, 5))
    statistics = ClassStatistics(np.array([2, 6]), means, np.zeros(2))
    world = World(np.repeat(means, 4, axis=0), np.repeat([0, 1], 4), 2, rng.normal(size=(8, 5)), np.arange(8) % 2)
    scores = cmap(*world[3:], statistics, counts="neutral")
    np.testing.assert_allclose(scores, brute_force(world), rtol=0, atol=TOLERANCE)


# -- where the arrays come from -------------------------------------------------------------------------------


def strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]


ARRANGEMENTS = {
    "fortran order": np.asfortranarray,
    "every other row and column": strided,
    "turned round twice": lambda array: np.ascontiguousarray(array[::-1])[::-1],
    "torch": torch.from_numpy,
    "torch, transposed": lambda array: torch.from_numpy(np.ascontiguousarray(array.T)).T,
    "torch, with gradient": lambda array: torch.from_numpy(array).requires_grad_(),
    "lists": lambda array: array.tolist(),
}


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_values_do_not_hang_on_the_arrangement(arrangement: str, dtype: type) -> None:
    world = draw_world(2, "relu", 5, 9, 50)
    pool = world.pool.astype(np.float64 if arrangement == "lists" else dtype)
    expected = cmap(pool, world.predictions, world.statistics)
    scores = cmap(ARRANGEMENTS[arrangement](pool), world.predictions, world.statistics)
    assert isinstance(scores, np.ndarray)
    assert scores.dtype == expected.dtype
    assert np.array_equal(scores, expected)


def test_memory_mapped_features(tmp_path) -> None:
    world = draw_world(2, "relu", 5, 9, 50)
    np.save(tmp_path / "pool.npy", world.pool.astype(np.float16))
    np.save(tmp_path / "predictions.npy", world.predictions)
    pool = np.load(tmp_path / "pool.npy", mmap_mode="r")
    predictions = np.load(tmp_path / "predictions.npy", mmap_mode="r")
    expected = cmap(world.pool.astype(np.float16), world.predictions, world.statistics)
    assert np.array_equal(cmap(pool, predictions, world.statistics), expected)


def test_bfloat16_tensors() -> None:
    world = draw_world(2, "relu", 5, 9, 50)
    pool = torch.from_numpy(world.pool).to(torch.bfloat16)
    scores = cmap(pool, torch.from_numpy(world.predictions), world.statistics)
    assert np.array_equal(scores, cmap(pool.float().numpy(), world.predictions, world.statistics))


def test_score_block_takes_a_table_that_is_ready() -> None:
    world = five_classes()
    scores = score_block(Host(), world.pool, world.predictions, cmap_table(world.statistics))
    assert np.array_equal(scores, cmap(*world[3:], world.statistics))


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [0, 2, -1.5])
def test_wrong_sign(sign: float) -> None:
    world = five_classes()
    with pytest.raises(BadInput, match=r"sign must be \+1 or -1, got"):
        cmap(*world[3:], world.statistics, sign=sign)


def test_wrong_counts() -> None:
    world = five_classes()
    with pytest.raises(BadInput, match="counts must be 'paper' or 'neutral', got 'equal'"):
        cmap(*world[3:], world.statistics, counts="equal")


@pytest.mark.parametrize("shape", [(10, 3), (10, 5), (10,), (10, 4, 1)])
def test_features_of_another_shape(shape: tuple[int, ...]) -> None:
    world = five_classes()
    with pytest.raises(BadInput, match=r"features must have shape \(items, 4\)"):
        cmap(np.ones(shape), world.predictions, world.statistics)


@pytest.mark.parametrize("predictions", [[0], [0, 1, 2, 3], [[0], [1], [2]], [0.0, 1.0, 2.0]])
def test_predictions_that_are_not_one_whole_number_an_item(predictions: list) -> None:
    with pytest.raises(BadInput, match="predictions must be 3 integers, got"):
        cmap(np.ones((3, 4)), predictions, five_classes().statistics)


@pytest.mark.parametrize("wrong", [-1, 5, 7000])
def test_predictions_out_of_range_are_never_looked_up(wrong: int) -> None:
    with pytest.raises(BadInput, match=r"predictions must lie in 0..4, got"):
        cmap(np.ones((3, 4)), [0, 1, wrong], five_classes().statistics)


def test_no_items_give_no_scores() -> None:
    assert cmap(np.ones((0, 4)), np.zeros(0, np.int64), five_classes().statistics).shape == (0,)
