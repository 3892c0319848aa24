"""The compiled loops: their plain Python bodies say the same, and their elementary functions are accurate."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from ncalr.kernels import CmapTable, compiled
from ncalr.kernels.host import KINDS, Host

HOST = Host()
logarithm = njit(lambda x: compiled.log_of(x))
exponential = njit(lambda x: compiled.exp_of(x))


def rows(dtype: type) -> np.ndarray:
    """Ordinary rows, ties at the top, and lengths on both sides of a multiple of four."""
    outputs = np.random.default_rng(1).normal(0, 2, (6, 7))
    outputs[1, [2, 5]] = outputs[2, [0, 1, 6]] = 4.0
    return outputs.astype(dtype)


def probs(dtype: type) -> np.ndarray:
    outputs = np.exp(rows(np.float64))
    return (outputs / outputs.sum(axis=1, keepdims=True)).astype(dtype)


def table() -> CmapTable:
    rng = np.random.default_rng(2)
    along = rng.normal(size=(3, 7))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    return CmapTable(np.zeros(7), rng.normal(size=(3, 7)), along, np.array([0.0, 2.0, 5.0]), np.array([1.0, -1.0, 2.0]))


def race() -> tuple[np.ndarray, np.ndarray]:
    keys = np.random.default_rng(3).integers(0, 2**64, 40, dtype=np.uint64)
    return HOST.race(np.arange(40.0) % 7, keys, 12345, 5)


def farthest(bound: float) -> np.ndarray:
    weight, between = np.array([3.0, 5.0, 1.0, 4.0]), np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    return np.concatenate([*HOST.farthest_in_block(weight, between, bound, 4), weight])


def coverage(ball: bool, n: int = 6) -> np.ndarray:
    rng = np.random.default_rng(4)
    points = rng.normal(size=(n, 2)).astype(np.float32)
    norms = (points**2).sum(axis=1)
    kernel = HOST.to_kernel(points[:3] @ points.T, norms[:3], norms, 0.5, ball)
    old, new = rng.random(3, np.float32) / 3, np.full(3, np.inf, np.float32)
    return HOST.coverage_drop(kernel, np.arange(3), old, new, np.ones(3, np.float32))


def pairs() -> np.ndarray:
    points = np.random.default_rng(7).normal(size=(40, 2)).astype(np.float32)
    norms, reach = (points**2).sum(axis=1), np.full(40, 0.3, np.float32)
    i, j, squares = HOST.pairs_within(points[:5] @ points.T, norms[:5], norms, reach[:5], reach, 0)
    return np.concatenate([i, j, squares, HOST.pair_squares(points, i, j)])


def with_types(name: str, run) -> dict[str, object]:
    return {f"{name} {np.dtype(d).name}": lambda d=d: run(d) for d in (np.float16, np.float32, np.float64)}


def sampled(dtype: type) -> np.ndarray:
    probs = np.random.default_rng(6).dirichlet(np.ones(4), 5).astype(dtype)
    wide = np.float64 if dtype == np.float64 else np.float32
    total, doubt = np.zeros((5, 4), wide), np.zeros(5, wide)
    HOST.add_sample(probs, total, doubt)
    return np.concatenate([total.ravel(), doubt])


RUNS = {
    **with_types("sample", sampled),
    **with_types("cmap", lambda d: HOST.cmap(rows(d), np.arange(6) % 3, table())),
    **with_types("finite", lambda d: np.array([HOST.is_finite(rows(d))])),
    **{
        name: run
        for kind in KINDS
        for name, run in {
            **with_types(f"{kind} of logits", lambda d, kind=kind: HOST.uncertainty(rows(d), kind, True)),
            **with_types(f"{kind} of probs", lambda d, kind=kind: HOST.uncertainty(probs(d), kind, False)),
        }.items()
    },
    "farthest": lambda: farthest(0.0),
    "farthest, bounded": lambda: farthest(4.5),
    "least": lambda: HOST.least(np.arange(7.0, dtype=np.float32), rows(np.float32)),
    "race": lambda: np.concatenate(race()),
    "coverage": lambda: coverage(ball=False),
    "pairs": pairs,
    "coverage of balls": lambda: coverage(ball=True),
}


def as_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compiled function of the module, helpers too, replaced by the body it was compiled from."""
    for name, thing in list(vars(compiled).items()):
        if hasattr(thing, "py_func"):
            monkeypatch.setattr(compiled, name, thing.py_func)


@pytest.mark.parametrize("name", RUNS)
def test_plain_body_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To single precision: the plain `widen` narrows float64, and plain sums are in another order."""
    expected = RUNS[name]()
    as_plain_python(monkeypatch)
    assert not hasattr(compiled.cmap, "py_func")
    with np.errstate(over="ignore"):  # the race multiplies words modulo 2**64
        found = RUNS[name]()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_plain_bodies_see_what_is_not_finite(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    as_plain_python(monkeypatch)
    outputs = rows(np.float32)
    outputs[:, 0] = wrong
    with np.errstate(invalid="ignore"):
        assert not HOST.is_finite(outputs)
        assert not np.isfinite(HOST.cmap(outputs, np.zeros(6, int), table())).any()


# -- elementary functions -------------------------------------------------------------------------------------


def test_quick_log() -> None:
    """Within 2e-7 of the true value, relative, from the smallest normal number to the largest and close to 1."""
    tiny, largest = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    near_one = 1 + np.concatenate([-np.geomspace(1e-7, 0.4, 2000), np.geomspace(2e-7, 0.5, 2000)])
    x = np.concatenate([np.geomspace(tiny, largest / 2, 20_000), near_one]).astype(np.float32)
    x = np.append(x, [tiny, largest, np.float32(np.sqrt(0.5)), np.float32(np.sqrt(2))])
    x = x[x != 1].astype(np.float32)
    true = np.log(x.astype(np.float64))
    found = np.array([compiled.quick_log(v) for v in x])
    assert (np.abs(found - true) / np.abs(true)).max() < 2e-7
    plain = np.array([compiled.quick_log.py_func(v) for v in x[::100]])
    assert (
        np.abs(plain - true[::100]) / np.abs(true[::100])
    ).max() < 3e-7  # a multiplication and an addition round twice
    assert compiled.quick_log(np.float32(1)) == 0


@pytest.mark.parametrize("x", [0.0, 1e-45, 1e-40])
def test_quick_log_at_the_bottom(x: float) -> None:
    assert compiled.quick_log(np.float32(x)) == pytest.approx(-88, abs=1)


def test_quick_exp() -> None:
    """2e-7 and, because x / log 2 is rounded, 1e-7 |x| more; standing alone and in a loop that may reorder its sums."""
    x = np.concatenate([-np.geomspace(1e-8, 87, 20_000), -np.linspace(0, 87, 20_001)]).astype(np.float32)
    true = np.exp(x.astype(np.float64))
    bound = 2e-7 + 1e-7 * np.abs(x)
    alone = np.array([compiled.quick_exp(v) for v in x])
    assert (np.abs(alone - true) / true / bound).max() < 1
    inside = np.array([compiled.exp_below(np.array([v, 0], np.float32), np.float32(0))[0] for v in x[x < 0]])
    assert (np.abs(inside - true[x < 0]) / true[x < 0] / bound[x < 0]).max() < 1
    plain = np.array([compiled.quick_exp.py_func(v) for v in x[::400]])
    assert (np.abs(plain - true[::400]) / true[::400] / bound[::400]).max() < 1
    assert compiled.quick_exp(np.float32(0)) == 1


@pytest.mark.parametrize("x", [-87.5, -1000.0, -3e38, -np.inf])
def test_quick_exp_at_the_bottom(x: float) -> None:
    assert compiled.quick_exp(np.float32(x)) == pytest.approx(1.6458e-38, rel=1e-4, abs=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_and_exp_of_either_precision(dtype: type) -> None:
    tolerance = 2e-7 if dtype == np.float32 else 1e-15
    for x in (1e-30, 0.3, 0.999, 2.0):
        assert logarithm(dtype(x)) == pytest.approx(np.log(float(dtype(x))), rel=tolerance)
        assert compiled.log_of(dtype(x)) == pytest.approx(np.log(float(dtype(x))), rel=2e-7)
    for x in (-30.0, -0.7, -1e-3):
        assert exponential(dtype(x)) == pytest.approx(
            np.exp(float(dtype(x))), rel=max(tolerance, 4e-6 * (dtype == np.float32)), abs=0
        )
        assert compiled.exp_of(dtype(x)) == pytest.approx(np.exp(float(dtype(x))), rel=2e-7, abs=0)
    assert logarithm(dtype(0)) == pytest.approx(np.log(np.finfo(dtype).tiny), rel=0.01)
    assert compiled.log_of(dtype(0)) == pytest.approx(np.log(np.finfo(dtype).tiny), rel=1e-6)


def test_bits_and_floats() -> None:
    for x in (1.0, -2.5, 3e-39, 0.0):
        assert compiled.float_bits(x) == np.array(x, np.float32).view(np.int32)
        assert compiled.bits_float(compiled.float_bits(x)) == np.float32(x)


@pytest.mark.parametrize("helper", ["two_largest", "sum_below", "exp_below", "repeats"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_helpers_compile_for_each_precision(helper: str, dtype: type) -> None:
    """Half precision comes as its bits. The helpers are compiled here and not read from the cache."""
    for row in rows(np.float16).astype(dtype):  # numbers that every precision has
        top = row.max() if dtype == np.float64 else np.float32(row.max())
        given = row.view(np.uint16) if dtype == np.float16 else row
        function = getattr(compiled, helper)
        arguments = (given,) if helper == "two_largest" else (given, top)
        np.testing.assert_allclose(function(*arguments), function.py_func(*arguments), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_two_largest(dtype: type) -> None:
    """Short rows and long ones, with ties and signs."""
    for length in (*range(2, 14), 31, 32, 33, 63, 64, 257):
        for seed in range(8):
            rng = np.random.default_rng(seed)
            row = rng.integers(-4, 4, length).astype(dtype)
            row[rng.integers(length)] = (-60000, np.inf, -0.0, 3.5, -7, 0, 3, 60000)[seed]
            given = row.view(np.uint16) if dtype == np.float16 else row
            wanted = tuple(sorted(row.tolist(), reverse=True)[:2])
            for function in (compiled.two_largest, compiled.two_largest.py_func):
                assert function(given) == wanted


def test_every_half_precision_number_is_widened() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    halves = bits.view(np.float16)
    finite = np.isfinite(halves)
    bits, halves = bits[finite], halves[finite]
    found = np.array([compiled.two_largest(bits[i : i + 1])[0] for i in range(0, len(bits), 37)])
    assert np.array_equal(found, halves[::37].astype(np.float32))
    assert all(compiled.widen(b) == h for b, h in zip(bits[::37], halves[::37], strict=True))


def test_mix_is_splitmix64() -> None:
    """The first three words of the published generator seeded with 0."""
    step = 0x9E3779B97F4A7C15
    words = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(compiled.mix(np.uint64(i * step % 2**64))) for i in range(3)] == words
    with np.errstate(over="ignore"):
        assert [int(compiled.mix.py_func(np.uint64(i * step % 2**64))) for i in range(3)] == words


def test_each_kernel_has_a_place_of_its_own_in_the_cache_of_numba() -> None:
    """The cache knows a function by its name, not by its flags: one body compiled twice is loaded as whichever came."""
    bodies = [each.py_func for each in vars(compiled).values() if hasattr(each, "py_func")]
    names = [body.__qualname__ for body in bodies]
    assert len(names) > 30
    assert len(set(names)) == len(names)


def test_threads() -> None:
    assert compiled.threads() >= 1


@pytest.mark.parametrize(
    "work",
    [
        "ncalr.query('margin', 5, logits=np.eye(4000, 4, dtype=np.float32))",
        "Host().coverage_drop(np.eye(2, 50000, dtype='f'), np.arange(2), *np.eye(3, 2, dtype='f'))",
    ],
)
def test_torch_has_its_own_threads_where_it_comes_after_a_kernel(work: str) -> None:
    pytest.importorskip("torch")
    words = (
        f"import sys, numpy as np, ncalr; from ncalr.kernels.host import Host; {work};"
        "assert 'torch' not in sys.modules; import torch; print(torch.get_num_threads())"
    )
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", words], env={**os.environ, **threads}, capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr


def test_torch_keeps_its_threads() -> None:
    """They share one OpenMP, and a training must add up as before whatever was computed in between."""
    torch, numba = pytest.importorskip("torch"), pytest.importorskip("numba")
    before, compiled_ones = torch.get_num_threads(), numba.get_num_threads()
    try:
        numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
        for count in (1, 3):
            torch.set_num_threads(count)
            HOST.uncertainty(rows(np.float32), "margin", logits=True)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
        numba.set_num_threads(compiled_ones)
