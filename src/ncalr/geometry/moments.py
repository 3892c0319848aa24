"""Mean and spread that add without any rounding: the same whatever the order, the chunks or the shards.

NCAL-R standardises its parts over the whole pool. Sums in floating point depend on their order, so a pool scored in
seven shards would get a mean that differs in its last bits from that of one shard, and two items that all but tie
could change places. Here the sum and the sum of squares are whole numbers, in units of the smallest float64 (2^-1074)
and of its square: every float64 is a whole number of those, so nothing is ever rounded (the idea of Kulisch's long
accumulator). Only the mean and the standard deviation themselves are, once, at the end.

    >>> a, b = Moments.of([1e16, 1.0]), Moments.of([-1e16])
    >>> (a + b).mean * 3
    1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

_UNIT = 1074  # 2^-1074 is the smallest float64
_GUARD = 64  # bits of the square root beyond those of its argument


@dataclass(frozen=True)
class Moments:
    """How many values there are, their sum and the sum of their squares, as whole numbers of the units above."""

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: Any) -> Moments:
        """The moments of some finite numbers."""
        from ncalr.kernels.compiled import exact_sums

        values = np.ascontiguousarray(values, np.float64)
        table = np.zeros((2048, 8), np.int64)
        exact_sums(values, table)
        total = squares = 0
        for e in np.flatnonzero(table.any(axis=1)).tolist():
            low, high, *products = table[e].tolist()
            own, across, upper = (products[i] + (products[i + 1] << 27) for i in (0, 2, 4))
            total += (low + (high << 27)) << (e - 1)
            squares += (own + (across << 28) + (upper << 54)) << 2 * (e - 1)
        return cls(len(values), total, squares)

    @classmethod
    def of_counts(cls, counts: Any) -> Moments:
        """The moments of whole numbers 0, 1, 2, ... of which there are so many each."""
        pairs = list(enumerate(np.asarray(counts).tolist()))
        total, squares = sum(value * count for value, count in pairs), sum(value**2 * count for value, count in pairs)
        return cls(sum(count for _, count in pairs), total << _UNIT, squares << 2 * _UNIT)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @cached_property
    def mean(self) -> float:
        """The mean, rounded once."""
        return self.total / (self.count << _UNIT)

    @cached_property
    def spread(self) -> float:
        """The population standard deviation, rounded once; 0 exactly where all values are equal."""
        variance = self.count * self.squares - self.total**2
        return isqrt(variance << 2 * _GUARD) / (self.count << (_UNIT + _GUARD))
