"""Every operation of the two backends against the slow and obvious one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ncalr.kernels import Backend, CmapTable
from ncalr.kernels.device import Device
from ncalr.kernels.host import Host

HOST, DEVICE = Host(), Device(torch.device("cpu"))
steady = settings(deadline=None, derandomize=True, max_examples=60)
each_backend = pytest.mark.parametrize("backend", [HOST, DEVICE], ids=["host", "device"])
each_type = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])


# -- arrays in and out ----------------------------------------------------------------------------------------


def sources() -> dict[str, object]:
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    return {
        "numpy": array,
        "fortran": np.asfortranarray(array),
        "strided": np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3],
        "half": array.astype(np.float16),
        "double": array.astype(np.float64),
        "torch": torch.from_numpy(array),
        "torch transposed": torch.from_numpy(np.ascontiguousarray(array.T)).T,
        "torch half": torch.from_numpy(array).half(),
        "torch bfloat16": torch.from_numpy(array).bfloat16(),
        "torch with gradient": torch.from_numpy(array.copy()).requires_grad_(),
        "read-only": np.frombuffer(array.tobytes(), np.float32).reshape(6, 4),
    }


@each_backend
@pytest.mark.parametrize("source", sources())
@pytest.mark.parametrize("rows", [slice(None), slice(1, 4), slice(0, 0), np.array([5, 0, 0, 2])], ids=str)
def test_block(backend: Backend, source: str, rows: object) -> None:
    expected = sources()["numpy"][rows]
    block = backend.block(sources()[source], rows)
    assert isinstance(block, np.ndarray if backend is HOST else torch.Tensor)
    assert block.flags.c_contiguous if backend is HOST else block.is_contiguous()
    assert np.array_equal(backend.numpy(block), expected)


@pytest.mark.parametrize("source", ["numpy", "torch"])
def test_block_by_positions_that_are_a_tensor(source: str) -> None:
    block = DEVICE.block(sources()[source], torch.tensor([3, 1]))
    assert np.array_equal(block.numpy(), sources()["numpy"][[3, 1]])


@each_backend
def test_block_keeps_the_precision_and_copies_no_contiguous_rows(backend: Backend) -> None:
    half = sources()["half"]
    block = backend.block(half, slice(1, 3))
    assert block.dtype in (np.float16, torch.float16)
    assert np.shares_memory(backend.numpy(block), half)


def test_block_of_a_reversed_array() -> None:
    array = sources()["numpy"]
    for backend in (HOST, DEVICE):
        assert np.array_equal(backend.numpy(backend.block(array[::-1], slice(0, 2))), array[[5, 4]])


@each_backend
def test_asarray(backend: Backend) -> None:
    for source in ("numpy", "torch", "strided", "read-only", "torch bfloat16"):
        as_double = backend.asarray(sources()[source], "float64")
        assert as_double.dtype in (np.float64, torch.float64)
        assert np.array_equal(backend.numpy(as_double), sources()["numpy"])
    assert backend.numpy(backend.asarray([1, 2])).tolist() == [1, 2]
    assert backend.asarray(np.ones(2), "int64").dtype in (np.int64, torch.int64)


def test_asarray_of_a_reversed_array_on_a_device() -> None:
    array = sources()["numpy"]
    assert np.array_equal(DEVICE.asarray(array[::-1]).numpy(), array[::-1])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int32])
def test_whole_numbers_reach_the_device(dtype: type) -> None:
    top = min(np.iinfo(dtype).max, 2**62)
    assert DEVICE.asarray(np.array([0, top], dtype)).tolist() == [0, top]


def test_words_of_64_bits_keep_their_bits_on_the_device() -> None:
    assert DEVICE.asarray(np.array([2**64 - 1, 2**63], np.uint64)).tolist() == [-1, -(2**63)]


@each_backend
def test_hold_and_wide(backend: Backend) -> None:
    held = backend.hold(sources()["half"])
    assert np.array_equal(backend.numpy(backend.block(held, slice(None))), sources()["numpy"])
    for dtype, wide in ((np.float16, "float32"), (np.float32, "float32"), (np.float64, "float64")):
        array = backend.asarray(np.ones(2, dtype))
        assert backend.numpy(backend.wide(array)).dtype == wide
        assert (backend.wide(array) is array) == (dtype != np.float16)


@each_backend
def test_numpy(backend: Backend) -> None:
    assert backend.numpy(np.arange(3)).tolist() == [0, 1, 2]
    assert backend.numpy(backend.asarray(np.arange(3.0))).tolist() == [0, 1, 2]


def test_numpy_of_bfloat16() -> None:
    assert DEVICE.numpy(torch.tensor([1.5, 2.0], dtype=torch.bfloat16)).tolist() == [1.5, 2.0]


@each_backend
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_is_finite(backend: Backend, dtype: type, wrong: float) -> None:
    largest = np.finfo(dtype).max
    for shape in ((1,), (1, 1), (3, 7), (5, 2, 3)):
        array = np.full(shape, largest, dtype)
        array.flat[::2] = -largest
        assert backend.is_finite(backend.asarray(array))
        for place in {0, array.size // 2, array.size - 1}:
            spoilt = array.copy()
            spoilt.flat[place] = wrong
            assert not backend.is_finite(backend.asarray(spoilt))


@each_backend
def test_whole_numbers_and_nothing_are_finite(backend: Backend) -> None:
    assert backend.is_finite(backend.asarray(np.array([2**62])))
    assert backend.is_finite(backend.asarray(np.zeros((0, 3), np.float32)))


# -- CMAP -----------------------------------------------------------------------------------------------------


def draw_table(seed: int = 0, classes: int = 4, d: int = 9) -> CmapTable:
    rng = np.random.default_rng(seed)
    along = rng.normal(size=(classes, d))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    return CmapTable(
        rng.normal(size=d), rng.normal(size=(classes, d)), along, rng.uniform(1, 9, classes), rng.normal(size=classes)
    )


def naive_cmap(features: np.ndarray, predictions: np.ndarray, table: CmapTable) -> np.ndarray:
    scores = []
    for row, c in zip(features.astype(np.float64), predictions, strict=True):
        z = row - table.centre
        p = z @ table.along[c]
        ahead = table.reach[c] + p
        norm = math.sqrt(ahead**2 + z @ z - p**2)
        scores.append((z @ table.across[c] - table.pull[c] * (norm - ahead)) / norm)
    return np.array(scores)


@each_backend
@pytest.mark.parametrize(
    ("dtype", "labels"),
    [(np.float16, np.int64), (np.float32, np.int64), (np.float64, np.int64), (np.float32, np.uint8)],
)
def test_cmap(backend: Backend, dtype: type, labels: type) -> None:
    rng = np.random.default_rng(1)
    features, predictions = (5 * rng.normal(size=(60, 9))).astype(dtype), rng.integers(0, 4, 60)
    table = draw_table()
    expected = naive_cmap(features, predictions, table)
    found = backend.cmap(backend.asarray(features), backend.asarray(predictions.astype(labels)), table)
    assert backend.numpy(found).dtype == (np.float64 if dtype == np.float64 else np.float32)
    tolerance = 1e-13 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(backend.numpy(found), expected, rtol=tolerance, atol=tolerance)


@each_backend
@each_type
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_cmap_of_a_row_that_is_not_finite_shows(backend: Backend, dtype: type, wrong: float) -> None:
    features = np.random.default_rng(2).normal(size=(10, 9)).astype(dtype)
    for place in range(9):
        features[place, place] = wrong
    found = backend.numpy(backend.cmap(backend.asarray(features), backend.asarray(np.zeros(10, int)), draw_table()))
    assert not np.isfinite(found[:9]).any()
    assert np.isfinite(found[9])


@each_backend
@each_type
def test_cmap_without_a_centre(backend: Backend, dtype: type) -> None:
    features, predictions = np.random.default_rng(3).normal(size=(8, 9)).astype(dtype), np.arange(8) % 4
    found, expected = (
        backend.numpy(backend.cmap(backend.asarray(features), backend.asarray(predictions), table))
        for table in (draw_table()._replace(centre=None), draw_table()._replace(centre=np.zeros(9)))
    )
    assert np.array_equal(found, expected)
    assert not np.array_equal(
        found, backend.numpy(backend.cmap(backend.asarray(features), backend.asarray(predictions), draw_table()))
    )


@each_backend
@each_type
def test_cmap_keeps_its_second_term_in_large_classes(backend: Backend, dtype: type) -> None:
    """z across the mean and across G': all that is left is -g t / ((N + A) N), which N - A would lose."""
    table = CmapTable(None, np.zeros((1, 2)), np.array([[1.0, 0.0]]), np.array([1e7]), np.array([5.0]))
    features = backend.asarray(np.array([[0.0, 2.0]], dtype))
    found = backend.numpy(backend.cmap(features, backend.asarray(np.array([0])), table))
    assert found[0] == pytest.approx(-5 * 4 / 2e14, rel=1e-6, abs=0)


@each_backend
@each_type
def test_cmap_where_the_mean_turns_round(backend: Backend, dtype: type) -> None:
    """z = -5 along a class that reaches 2: the new mean is 3 long the other way, t / (N + A) would be 0 / 0."""
    table = CmapTable(np.zeros(2), np.array([[0.0, 3.0]]), np.array([[1.0, 0.0]]), np.array([2.0]), np.array([7.0]))
    features = backend.asarray(np.array([[-5.0, 0.0]], dtype))
    assert backend.numpy(backend.cmap(features, backend.asarray(np.array([0])), table)).tolist() == [-7 * 6 / 3]


@each_backend
def test_cmap_where_the_new_mean_has_no_length(backend: Backend) -> None:
    table = CmapTable(np.zeros(2), np.array([[0.0, 3.0]]), np.array([[1.0, 0.0]]), np.array([2.0]), np.array([5.0]))
    features = backend.asarray(np.array([[-2.0, 0.0]]))
    assert backend.numpy(backend.cmap(features, backend.asarray(np.array([0])), table)).tolist() == [0]


# -- order and sums -------------------------------------------------------------------------------------------


@each_backend
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.data())
@steady
def test_top(backend: Backend, values: list[int], data: st.DataObject) -> None:
    m = data.draw(st.integers(1, len(values)))
    cut = sorted(values, reverse=True)[m - 1]
    above, level = backend.top(backend.asarray(np.array(values, np.float32)), m)
    assert sorted(above.tolist()) == [i for i, v in enumerate(values) if v > cut]
    assert sorted(level.tolist()) == [i for i, v in enumerate(values) if v == cut]
    assert isinstance(above, np.ndarray)
    assert above.dtype.kind == level.dtype.kind == "i"


@each_backend
def test_least(backend: Backend) -> None:
    rng = np.random.default_rng(3)
    for m in (1, 2, 7, 33):
        own, inner = rng.normal(size=m).astype(np.float32), rng.normal(size=(11, m)).astype(np.float32)
        found = backend.numpy(backend.least(backend.asarray(own), backend.asarray(inner)))
        assert np.array_equal(found, (own - inner).min(axis=1))


@each_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "count"), [(1, 1), (2, 1), (7, 7), (33, 5), (200, 21)])
def test_nearest_squares(backend: Backend, dtype: type, m: int, count: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.integers(-3, 4, (11, 4)).astype(dtype), rng.integers(-3, 4, (m, 4)).astype(dtype)
    given = (a @ b.T, (a * a).sum(1), (b * b).sum(1))
    found = backend.numpy(backend.nearest_squares(*map(backend.asarray, given), count))
    exact = np.sort(((a[:, None] - b[None]) ** 2).sum(2), axis=1)[:, :count]
    assert np.array_equal(found, exact)
    below = backend.nearest_squares(*(backend.asarray(array) for array in (given[0], given[1] - 99, given[2])), count)
    assert not backend.numpy(below).any(), "never negative"


@each_backend
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64])
def test_flips(backend: Backend, dtype: type) -> None:
    log = np.random.default_rng(4).integers(0, 3, (9, 20)).astype(dtype)
    assert np.array_equal(
        backend.numpy(backend.flips(backend.asarray(log))), (np.diff(log.astype(int), axis=0) != 0).sum(0)
    )
    assert not backend.numpy(backend.flips(backend.asarray(log[:1]))).any()


@each_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_by(backend: Backend, dtype: type) -> None:
    rng = np.random.default_rng(5)
    rows, groups = rng.normal(size=(30, 4)).astype(dtype), rng.choice([0, 1, 3], 30)
    expected = np.array([rows[groups == g].sum(axis=0) for g in range(5)])
    found = backend.numpy(backend.sum_by(backend.asarray(rows), groups, 5))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-13)


@each_backend
def test_argmax_takes_the_first_of_equals(backend: Backend) -> None:
    outputs = np.random.default_rng(6).integers(0, 3, (50, 6)).astype(np.float32)
    assert np.array_equal(backend.numpy(backend.argmax(backend.asarray(outputs))), outputs.argmax(axis=1))


# -- farthest first -------------------------------------------------------------------------------------------


def naive_farthest(
    weight: np.ndarray, between: np.ndarray, bound: float, most: int
) -> tuple[dict[int, float], np.ndarray]:
    """Picks in order with the distance each had when it was picked, and the weights that are left."""
    weight, picked = weight.copy(), {}
    while len(picked) < most:
        best = int(np.flatnonzero(weight == weight.max())[0])
        if weight[best] < 0 or weight[best] < bound:
            break
        picked[best] = float(weight[best])
        weight = np.minimum(weight, between[best])
        weight[best] = -1
    return picked, weight


@each_backend
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 12), st.sampled_from([-1.0, 0.0, 2.0, 5.0]))
@steady
def test_farthest_in_block(backend: Backend, seed: int, m: int, most: int, bound: float) -> None:
    """Distances of few different values, so that ties are common; some items are picked already (-1)."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-1, 6, m).astype(np.float32)
    between = rng.integers(0, 6, (m, m)).astype(np.float32)
    picked, left = naive_farthest(weight, between, bound, most)
    on_backend = backend.asarray(weight.copy())
    found, values = backend.farthest_in_block(on_backend, backend.asarray(between), bound, most)
    assert found.tolist() == list(picked)
    assert values.tolist() == list(picked.values())
    assert found.dtype == np.int64
    assert backend.numpy(on_backend).tolist() == left.tolist()


# -- the exponential race -------------------------------------------------------------------------------------


def splitmix(word: int) -> int:
    """One round of splitmix64 on Python's integers."""
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def naive_race(weight: np.ndarray, keys: np.ndarray, draw: int) -> dict[int, float]:
    """Times of all that take part, the winner first."""
    times = {
        i: float(w) / -math.log(((splitmix(int(key) ^ draw) >> 11) + 0.5) / 2**53)
        for i, (w, key) in enumerate(zip(weight, keys, strict=True))
        if w > 0
    }
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def race(backend: Backend, weight: np.ndarray, keys: np.ndarray, draw: int, listed: int):
    return backend.race(backend.asarray(weight), backend.asarray(keys), draw, listed)


@each_backend
@pytest.mark.parametrize("draw", [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_race_lists_the_front(backend: Backend, draw: int, dtype: type) -> None:
    rng = np.random.default_rng(7)
    weight = (rng.exponential(size=300) * (rng.random(300) > 0.2)).astype(dtype)
    keys = rng.integers(0, 2**64, 300, dtype=np.uint64)
    expected = naive_race(weight, keys, draw)
    for listed in (1, 5, 300):
        at, times = race(backend, weight, keys, draw, listed)
        assert at.tolist() == list(expected)[:listed]
        np.testing.assert_allclose(times, list(expected.values())[:listed], rtol=1e-6 if dtype == np.float32 else 1e-12)


@each_backend
def test_race_leaves_out_items_without_weight(backend: Backend) -> None:
    weight, keys = np.array([0.0, 2.0, 0.0, 1.0]), np.arange(4, dtype=np.uint64)
    at, times = race(backend, weight, keys, 5, 3)
    assert sorted(at.tolist()) == [1, 3]
    assert (times > 0).all()
    at, times = race(backend, 0 * weight, keys, 5, 3)
    assert len(at) == len(times) == 0


def test_race_is_the_same_race_on_both() -> None:
    rng = np.random.default_rng(8)
    weight, keys = rng.exponential(size=5000), rng.integers(0, 2**64, 5000, dtype=np.uint64)
    for draw in rng.integers(0, 2**64, 20, dtype=np.uint64).tolist():
        here, there = race(HOST, weight, keys, draw, 16), race(DEVICE, weight, keys, draw, 16)
        assert here[0].tolist() == there[0].tolist()
        np.testing.assert_allclose(here[1], there[1], rtol=1e-12)


def test_race_is_won_in_proportion_to_the_weight() -> None:
    weight = np.array([1.0, 2.0, 3.0, 4.0, 0.0, 10.0])
    rng = np.random.default_rng(9)
    keys = rng.integers(0, 2**64, len(weight), dtype=np.uint64)
    draws = rng.integers(0, 2**64, 6000, dtype=np.uint64).tolist()
    front = np.array([race(HOST, weight, keys, draw, 2)[0] for draw in draws])
    runs = weight > 0
    share = weight[runs] / weight.sum()
    first = np.bincount(front[:, 0], minlength=6)
    assert first[4] == 0
    assert chisquare(first[runs], share * len(draws)).pvalue > 0.01
    after_the_favourite = front[front[:, 0] == 5, 1]  # without it, the others race among themselves
    second = np.bincount(after_the_favourite, minlength=6)[[0, 1, 2, 3]]
    assert chisquare(second, weight[:4] / 10 * len(after_the_favourite)).pvalue > 0.01
    equal = np.bincount([race(HOST, np.ones(6), keys, draw, 1)[0][0] for draw in draws], minlength=6)
    assert chisquare(first[runs], np.full(5, len(draws) / 5)).pvalue < 1e-6  # the test can tell
    assert chisquare(equal).pvalue > 0.01


# -- coverage -------------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize(("rows", "n"), [(1, 1), (5, 7), (3, 9000), (64, 7000)])
def test_kernel_values_and_gains(backend: Backend, ball: bool, rows: int, n: int) -> None:
    """The gain of an item is what it loses where all others are covered without end."""
    rng = np.random.default_rng(10)
    points = rng.normal(size=(n, 3)).astype(np.float32)
    some, norms = points[rng.integers(0, n, rows)], (points**2).sum(axis=1)
    best, worth = rng.random(rows, dtype=np.float32) / 2, rng.random(rows, dtype=np.float32)
    squared = ((some.astype(np.float64)[:, None] - points) ** 2).sum(2) * 0.4
    values = (squared < 1).astype(np.float64) if ball else np.exp(-squared)
    given = [backend.asarray(array) for array in (some @ points.T, (some**2).sum(axis=1), norms)]
    kernel = backend.to_kernel(*given, 0.4, ball)
    np.testing.assert_allclose(backend.numpy(kernel), values, atol=1e-5)
    old, new, share = (backend.asarray(array) for array in (best, np.full(rows, np.inf, np.float32), worth))
    found = backend.numpy(backend.coverage_drop(kernel, np.arange(rows), old, new, share))
    gains = (worth[:, None] * np.maximum(values - best[:, None], 0)).sum(0)
    np.testing.assert_allclose(found, gains, rtol=1e-4, atol=1e-5)


@each_backend
@pytest.mark.parametrize(("rows", "n"), [(1, 1), (5, 7), (3, 9000)])
def test_coverage_drop_is_the_difference_of_two_gains(backend: Backend, rows: int, n: int) -> None:
    """What some items lose for all others, by a symmetric kernel, when they are covered better."""
    rng = np.random.default_rng(n)
    kernel, old, worth = rng.random((rows, n)), rng.random(rows) / 2, rng.random(rows)
    new = old + rng.random(rows) / 2
    given = [backend.asarray(array.astype(np.float32)) for array in (kernel, old, new, worth)]
    slots = np.arange(rows)[::-1].copy()
    found = backend.coverage_drop(given[0], slots, *(array[slots] for array in given[1:]))
    gains = [(worth[:, None] * np.maximum(kernel - best[:, None], 0)).sum(0) for best in (old, new)]
    np.testing.assert_allclose(backend.numpy(found), gains[0] - gains[1], rtol=2e-5, atol=1e-6)
    assert backend.numpy(found).dtype == np.float64


@each_backend
def test_the_kernel_of_far_points_is_nothing(backend: Backend) -> None:
    dots, norms = np.zeros((2, 3), np.float32), np.full(3, 1e6, np.float32)
    kernel = backend.to_kernel(*(backend.asarray(a) for a in (dots, norms[:2], norms)), 1.0, False)
    assert (backend.numpy(kernel) < 1e-30).all()


@each_backend
@pytest.mark.parametrize("diagonal", [0, -40, 100, -500])
def test_pairs_within_reach(backend: Backend, diagonal: int) -> None:
    """Columns after the diagonal, nearer than the reach of the row or of the column; the diagonal in any case."""
    rng = np.random.default_rng(14)
    a, b = rng.normal(size=(70, 5)), rng.normal(size=(333, 5))
    reach_a, reach_b = rng.random(70) * 4, rng.random(333) * 4
    reach_a[3] = np.inf
    squares = ((a[:, None] - b) ** 2).sum(2)
    after = np.arange(333) - np.arange(70)[:, None] - diagonal
    wanted = (after > 0) & (squares < np.maximum(reach_a[:, None], reach_b)) | (after == 0)
    given = (a @ b.T, (a * a).sum(1), (b * b).sum(1), reach_a, reach_b)
    i, j, found = backend.pairs_within(*(backend.asarray(x.astype(np.float32)) for x in given), diagonal)
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [tuple(pair) for pair in np.argwhere(wanted).tolist()]
    np.testing.assert_allclose(found, np.where(j - i == diagonal, 0, squares[i, j]), rtol=1e-4, atol=1e-5)


@each_backend
def test_squared_distances_of_pairs(backend: Backend) -> None:
    rows = np.random.default_rng(15).normal(size=(50, 7)).astype(np.float32)
    i, j = np.arange(50, dtype=np.int32), np.arange(50, dtype=np.int32)[::-1].copy()
    found = backend.numpy(backend.pair_squares(backend.asarray(rows), i, j))
    np.testing.assert_allclose(found, ((rows[i] - rows[j]) ** 2).sum(1), rtol=1e-5)
    assert len(backend.numpy(backend.pair_squares(backend.asarray(rows), i[:0], j[:0]))) == 0


# -- BALD -----------------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_sample_is_added_to_both_sums(backend: Backend, dtype: type) -> None:
    rng = np.random.default_rng(12)
    probs = rng.dirichlet(np.ones(5), 40).astype(dtype)
    wide = np.float64 if dtype == np.float64 else np.float32
    total, doubt = backend.asarray(np.ones((40, 5), wide)), backend.asarray(np.ones(40, wide))
    backend.add_sample(backend.asarray(probs), total, doubt)
    exact = probs.astype(np.float64)
    np.testing.assert_allclose(backend.numpy(total), 1 + exact, rtol=1e-6)
    np.testing.assert_allclose(backend.numpy(doubt), 1 - (exact * np.log(exact)).sum(axis=1), rtol=1e-5)
