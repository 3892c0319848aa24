"""The CPU: NumPy for matrix products, compiled loops for everything that streams."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ncalr.kernels import Array, CmapTable, Rows, is_torch, to_numpy

KINDS = ("least_confidence", "margin", "entropy")


class Host:
    """The CPU backend. It has no state."""

    xp = np
    held_bytes = 0
    chunk_bytes = 64 << 20
    block_rows = 512

    def block(self, array: Array, rows: Rows) -> Array:
        return np.ascontiguousarray(to_numpy(array[rows]))

    def asarray(self, array: Array, dtype: str | None = None) -> Array:
        return np.asarray(self.block(array, slice(None)) if is_torch(array) else array, dtype=dtype)

    def hold(self, array: Array) -> Array:
        return array

    def wide(self, array: Array) -> Array:
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)

    def numpy(self, array: Array) -> Any:
        return np.asarray(array)

    def cmap(self, features: Array, predictions: Array, table: CmapTable) -> Array:
        kind = np.float64 if features.dtype == np.float64 else np.float32
        out = np.empty(len(features), kind)
        centre = np.zeros(0) if table.centre is None else table.centre
        ready = [np.ascontiguousarray(t, kind) for t in (centre, *table[1:])]
        _loops().cmap(_bits(features), np.ascontiguousarray(predictions), *ready, out)
        return out

    def uncertainty(self, outputs: Array, kind: str, logits: bool) -> Array:
        out = np.empty(len(outputs), np.float64 if outputs.dtype == np.float64 else np.float32)
        kernel = _loops().uncertainty_of_logits if logits else _loops().uncertainty_of_probs
        kernel(_bits(outputs), KINDS.index(kind), out)
        return out

    def top(self, values: Array, m: int) -> tuple[Any, Any]:
        cut = np.partition(values, len(values) - m)[len(values) - m]
        return np.flatnonzero(values > cut), np.flatnonzero(values == cut)

    def least(self, own: Array, inner: Array) -> Array:
        out = np.empty(len(inner), inner.dtype)
        _loops().least(own, inner, out)
        return out

    def nearest_squares(self, inner: Array, own: Array, others: Array, count: int) -> Array:
        out = np.full((len(inner), count), np.inf, inner.dtype)
        _loops().nearest_squares(inner, own, others, out)
        return out

    def flips(self, log: Array) -> Array:
        count = np.zeros(len(log[0]), np.uint8 if len(log) <= 256 else np.int16)
        for before, after in pairwise(log):
            count += (before != after).view(np.uint8)
        return count.astype(np.int16)

    def sum_by(self, rows: Array, groups: Any, count: int) -> Array:
        n = len(rows)
        member = sparse.csr_array((np.ones(n, rows.dtype), (groups, np.arange(n))), shape=(count, n))
        return member @ rows

    def add_sample(self, probs: Array, total: Array, doubt: Array) -> None:
        _loops().add_sample(_bits(probs), total, doubt)

    def argmax(self, outputs: Array) -> Array:
        out = np.empty(len(outputs), np.intp)
        for start in range(0, len(out), 8192):  # NumPy copies what it may not write to, such as a mapped file
            outputs[start : start + 8192].argmax(axis=1, out=out[start : start + 8192])
        return out

    def farthest_in_block(self, weight: Array, between: Array, bound: float, most: int) -> tuple[Any, Any]:
        picked, values = np.empty(most, np.int64), np.empty(most)
        count = _loops().farthest_in_block(weight, between, bound, most, picked, values)
        return picked[:count], values[:count]

    def race(self, weight: Array, keys: Array, draw: int, listed: int) -> tuple[Any, Any]:
        at, time = np.empty(listed, np.int64), np.empty(listed)
        _loops().race(weight, keys, np.uint64(draw), at, time)
        return at[at >= 0], time[at >= 0]

    def words(self, words: Any) -> Array:
        return words

    def waits(self, keys: Array, draws: Array) -> Array:
        out = np.empty((len(draws), len(keys)))
        _loops().waits(keys, draws, out)
        return out

    def to_kernel(self, dots: Array, row_norms: Array, norms: Array, scale: float, ball: bool) -> Array:
        _loops().to_kernel(dots, row_norms, norms, np.float32(scale), ball)
        return dots

    def coverage_drop(self, kernel: Array, slots: Any, old: Array, new: Array, worth: Array) -> Array:
        out = np.empty(kernel.shape[1])
        _loops().coverage_drop(kernel, slots, old, new, worth, out)
        return out

    def pairs_within(
        self, dots: Array, row_norms: Array, norms: Array, row_reach: Array, reach: Array, diagonal: int
    ) -> tuple[Any, Any, Any]:
        counts = np.empty(len(dots), np.int64)
        _loops().count_within(dots, row_norms, norms, row_reach, reach, diagonal, counts)
        ends = np.cumsum(counts)
        rows, columns, squares = (np.empty(ends[-1], kind) for kind in (np.int32, np.int32, np.float32))
        _loops().list_within(dots, row_reach, reach, ends, rows, columns, squares)
        return rows, columns, squares

    def pair_squares(self, rows: Array, first: Any, second: Any) -> Array:
        out = np.empty(len(first), np.float32)
        _loops().pair_squares(rows, first, second, out)
        return out

    def is_finite(self, array: Array) -> bool:
        if array.dtype.kind != "f":
            return True
        if array.size < 1 << 16:  # below this, waking the threads takes longer than the work
            return bool(np.isfinite(array).all())
        flags = np.zeros(_loops().threads())
        _loops().all_finite(_bits(array.reshape(-1)), flags)
        return bool((flags == 0).all())


@cache
def _loops() -> Any:
    """The compiled loops, imported by the first who needs one: numba takes a second."""
    from ncalr.kernels import compiled

    return compiled


def _bits(array: Array) -> Array:
    """Half precision as its bits: the compiled loops widen it in registers."""
    return array.view(np.uint16) if array.dtype == np.float16 else array
