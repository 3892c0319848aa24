"""The best k of a pool that is never in one place: what a stream keeps, and how two streams are one.

A tally holds candidates, each with its value, its lottery key and its position; anything that cannot be among the best
k of the whole is let go, so it never grows with the pool. Two tallies merge by the same rule, and the order (highest
value, then lowest key, then first position) is that of `select/top_k.py`: the result of 10,000 shards is that of one.

**Fused scores in one pass.** NCAL-R's score is (z(CMAP) + z(FF)) / 2, and z needs the pool's mean and deviation, which
are known only at the end. But whatever they are, among items with the same FF a higher CMAP is a higher score: the
best k of each FF value (a small whole number) hold the best k of all. `Moments` add up meanwhile, and at the end the
few candidates are fused. Rounding could make two different CMAP values one score, so the answer carries a proof: the
next lower value below each group's cut must score less than the k-th pick. Where that fails (a clipped score, for
instance), or the second part is not a small whole number, a second pass with known moments decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.geometry.moments import Moments

Array = npt.NDArray[Any]
GROUPS = 256
SETTLE = 32768  # candidates that are looked through together
MOST = 1 << 22  # candidates of all groups together; beyond, two passes hold less


@dataclass
class Tally:
    """Candidates for the best k, in groups; see the module's text."""

    k: int
    groups: int = 1
    bars: Array = field(default_factory=lambda: np.zeros(0))  # (groups,) values below are of no interest
    moments: dict[str, Moments] = field(default_factory=dict)
    group: Array = field(default_factory=lambda: np.zeros(0, np.int16))
    value: Array = field(default_factory=lambda: np.zeros(0))
    key: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    position: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    parts: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (candidates, parts)
    names: tuple[str, ...] = ()  # of the parts
    kind: str = ""  # the dtype of the values as they were computed
    ok: bool = True  # whether the groups hold what they must
    settled: int = 0  # candidates that were sorted already

    def __post_init__(self) -> None:
        if not len(self.bars):
            self.bars = np.full(self.groups, -np.inf)

    def add(self, value: Array, group: Array | None, keys: Any, position: Any, parts: list[Array]) -> None:
        """Look at some items: those that may count are kept. `keys(rows)` gives lottery keys where they are needed."""
        if not self.ok:
            self.let_go()
            return
        rows = self._above(value, group)
        if len(rows) > 2 * self.k:
            self._raise_bars(value[rows], np.zeros(len(rows), np.int16) if group is None else group[rows])
            rows = self._above(value, group)
        if not len(rows):
            return
        key = keys(rows)
        rows, key = self._before_the_last(rows, key, value, group)
        self.group = np.concatenate([self.group, np.zeros(len(rows), np.int16) if group is None else group[rows]])
        self.value = np.concatenate([self.value, value[rows].astype(np.float64)])
        self.key = np.concatenate([self.key, key])
        self.position = np.concatenate([self.position, position[rows]])
        columns = np.stack([part[rows].astype(np.float64) for part in parts], axis=1)
        self.parts = np.concatenate([self.parts.reshape(-1, len(parts)), columns])
        if len(self.value) - self.settled > max(2 * self.k, SETTLE):
            self.settle()

    def merge(self, other: Tally) -> None:
        """Take another tally's candidates in."""
        self.ok &= other.ok
        self.names, self.kind = self.names or other.names, self.kind or other.kind
        for name, moments in other.moments.items():
            self.moments[name] = self.moments.get(name, Moments()) + moments
        if not self.ok:
            self.let_go()
            return
        self.group = np.concatenate([self.group, other.group])
        self.value = np.concatenate([self.value, other.value])
        self.key = np.concatenate([self.key, other.key])
        self.position = np.concatenate([self.position, other.position])
        self.parts = np.concatenate([self.parts.reshape(-1, len(self.names)), other.parts.reshape(-1, len(self.names))])
        if len(self.value) - self.settled > max(self.k, SETTLE // 8):
            self.settle()

    def settle(self) -> None:
        """Keep the best k of each group, in order, and raise the bars to them."""
        if len(self.value) > 4 * self.k:  # find the bars first, sort what is above them
            self._raise_bars(self.value, self.group)
            self._take(self._above(self.value, self.group))
        order = np.lexsort((self.position, self.key, -self.value, self.group))
        group = self.group[order]
        starts = np.searchsorted(group, np.arange(self.groups))
        place = np.arange(len(order)) - starts[group]
        self._take(order[place < self.k])
        sizes = np.bincount(self.group, minlength=self.groups)
        full = np.flatnonzero(sizes >= self.k)
        last = np.cumsum(sizes)[full] - 1
        self.bars = self.bars.copy()  # what came from another process may not be written to
        self.bars[full] = np.maximum(self.bars[full], self.value[last])
        self.settled = len(self.value)
        if self.groups > 1 and len(self.value) > MOST:
            self.ok = False
            self.let_go()

    def let_go(self) -> None:
        """Drop the candidates: moments alone count from here on."""
        self._take(np.zeros(0, np.int64))

    def best(self, values: Array | None = None) -> Array:
        """The candidates from best to worst, at most k, by their values or by these."""
        values = self.value if values is None else values
        return np.lexsort((self.position, self.key, -values))[: self.k]

    def _above(self, value: Array, group: Array | None) -> Array:
        return np.flatnonzero(value >= (self.bars[0] if group is None else self.bars[group]))

    def _raise_bars(self, value: Array, group: Array) -> None:
        """To the k-th value of each group that has more than k here: quicker than to sort them all later."""
        self.bars = self.bars.copy()
        for g in np.flatnonzero(np.bincount(group) > self.k).tolist():
            own = value[group == g]
            self.bars[g] = max(self.bars[g], np.partition(own, len(own) - self.k)[len(own) - self.k])

    def _take(self, rows: Array) -> None:
        self.group, self.value, self.key = self.group[rows], self.value[rows], self.key[rows]
        self.position, self.parts = self.position[rows], self.parts[rows]

    def _before_the_last(self, rows: Array, key: Array, value: Array, group: Array | None) -> tuple[Array, Array]:
        """Without the items that tie with the k-th of a single full group and come after it in the lottery."""
        if group is not None or self.settled < self.k or self.value[self.k - 1] != self.bars[0]:
            return rows, key
        good = (value[rows] > self.bars[0]) | (key <= self.key[self.k - 1])
        return rows[good], key[good]


def small_whole(values: Array) -> Array | None:
    """These numbers as groups, where all of them are whole and small."""
    if len(values) and (values.min() < 0 or values.max() >= GROUPS):
        return None
    group = values.astype(np.int16)
    return group if (group == values).all() else None
