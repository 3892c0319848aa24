"""The checksum of blocks of rows on disk: quick enough to look at every byte that is read.

Sum of (2 i + 1) * word i modulo 2^64 over the 64-bit words of a block (zeros fill the last), to which the number of
bytes is added. One changed word always shows; other damage is missed once in 2^64 times. It is no protection against
somebody who means harm. Where numba is missing, NumPy computes the same.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def checksum(array: Any) -> int:
    """The checksum of a contiguous array's bytes.

    >>> checksum(np.array([1, 2], np.uint64))  # 1 * 1 + 3 * 2, and 16 bytes
    23
    """
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = len(data) // 8 * 8
    total = int(_kernel()(data[:whole].view(np.uint64)))
    if whole < len(data):
        last = np.zeros(8, np.uint8)
        last[: len(data) - whole] = data[whole:]
        total += int(last.view(np.uint64)[0]) * (2 * (whole // 8) + 1)
    return (total + len(data)) % 2**64


def by_numpy(words: Any) -> int:
    """The sum without compiled loops."""
    return int((words * (2 * np.arange(len(words), dtype=np.uint64) + 1)).sum(dtype=np.uint64))


@cache
def _kernel() -> Callable[[Any], Any]:
    if importlib.util.find_spec("numba") is None:
        return by_numpy
    from ncalr.kernels import compiled

    return compiled.checksum  # type: ignore[no-any-return]
