"""Farthest-first (k-centre greedy): each pick is the item farthest from everything labelled or picked.

Gonzalez (1985); as a core-set for active learning, Sener and Savarese (2018). The k picks are exactly those of k
passes over the pool, but the pool is not passed k times. An item's distance to the chosen set only ever falls, so a
distance that is out of date is an upper bound, and an item whose bound is below the best up-to-date distance cannot
be the next pick. So:

1. take the block of items with the largest bounds, and bring only these up to date (one matrix product with the
   centres they have not seen);
2. pick farthest-first inside the block, by the distances among its own items, for as long as the best of the block
   beats the largest bound outside it;
3. repeat. A block that yields nothing is followed by one twice as large, another by one half as large.

Most items are compared with few centres: the work is a few matrix products instead of k memory passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select import spaces
from ncalr.acquire.select.spaces import Points, Space
from ncalr.types import Scored, Selection

_LARGEST_BLOCK = 4096


@selector(
    "k_center",
    needs=lambda o: spaces.needs(o["space"]),
    wants=lambda o: spaces.wants(o["space"]),
    spreads=True,
    blind=True,
)
def k_center(
    scored: Scored,  # noqa: ARG001 (distance decides alone)
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    space: str = "features",
) -> Selection:
    """Farthest-first from everything labelled or picked, in features, probabilities or gradients."""
    return farthest_first(Space(space, evidence), k, lottery)


def farthest_first(space: Space, k: int, lottery: Lottery) -> Selection:
    """k picks and the distance of each to the set chosen before it. Without labelled items the lottery starts."""
    state = _State(space, lottery)
    size = smallest = space.backend.block_rows
    while len(state.picked) < k:
        found = state.advance(size, k - len(state.picked))
        size = max(size // 2, smallest) if found else min(2 * size, _LARGEST_BLOCK)
    values = np.array(state.values[:k], np.float64)
    return Selection(np.array(state.picked[:k], np.int64), values if space.kind == "probabilities" else np.sqrt(values))


class _State:
    """The bounds of all items, and the centres in the order in which they came."""

    def __init__(self, space: Space, lottery: Lottery) -> None:
        self.space, self.lottery = space, lottery
        self.n = space.evidence.n
        self.picked: list[int] = []
        self.values: list[float] = []
        labelled = space.labelled()
        if labelled is None:
            first = int(np.argmin(lottery.keys()))
            labelled = space.take(np.array([first]))
            self.picked, self.values = [first], [0.0]
        self.centres = [labelled]
        self.total = len(labelled)
        self.seen = np.zeros(self.n, np.int64)  # each item is up to date with its first `seen` centres
        self.bound = self._start(labelled)
        self.bound[np.array(self.picked, np.int64)] = -1

    def advance(self, size: int, most: int) -> int:
        """One block: bring it up to date, pick inside it while that is safe. Returns how many were picked."""
        backend = self.space.backend
        block, outside = self._largest(size)
        points = self.space.take(block)
        weight = self._refreshed(block, points)
        self.bound[block] = weight
        self.seen[block] = self.total
        able = np.flatnonzero(backend.numpy(weight >= max(outside, 0.0)))  # weights only fall: no other can be picked
        if not len(able):
            return 0
        block, points, weight = block[able], points.at(able), weight[able]
        chosen, values = backend.farthest_in_block(weight, self.space.between(points, points), outside, most)
        self.values.extend(values.tolist())
        self.picked.extend(block[chosen].tolist())
        self._add(points.at(chosen))
        self.total += len(chosen)
        self.bound[block] = weight
        self.seen[block] = self.total
        return len(chosen)

    def _add(self, picks: Points) -> None:
        """More centres, kept in few groups: one large matrix product is faster than many small ones."""
        if len(self.centres) > 1 and len(self.centres[-1]) < _LARGEST_BLOCK:
            picks = self.space.join([self.centres.pop(), picks])
        self.centres.append(picks)

    def _start(self, labelled: Points) -> Any:
        """First bounds: the distance to a few of the centres."""
        first = labelled.at(slice(0, self.space.backend.block_rows // 8))
        bounds = [nearest for _, nearest in self.space.sweep(first)]
        self.seen[:] = len(first)
        spaces.check_range(self.space.backend, labelled.own)
        return spaces.check_range(self.space.backend, self.space.backend.xp.concatenate(bounds))

    def _largest(self, size: int) -> tuple[Any, float]:
        """The items with the largest bounds in the order of the lottery, and the largest bound among the rest."""
        backend = self.space.backend
        if size >= self.n:
            everything = np.arange(self.n)
            return everything[np.argsort(self.lottery.keys(), kind="stable")], -np.inf
        above, level = backend.top(self.bound, size)
        level = level[np.argsort(self.lottery.keys(level), kind="stable")]
        cut = float(self.bound[int(level[0])])
        block = np.concatenate([above, level[: size - len(above)]])
        block = block[np.argsort(self.lottery.keys(block), kind="stable")]
        if len(above) + len(level) > size:
            return block, cut
        below = backend.xp.where(self.bound < cut, self.bound, self.bound * 0 - 1)
        return block, float(backend.xp.amax(below))

    def _refreshed(self, block: Any, points: Points) -> Any:
        """The block's distances to all centres.

        Seeing a centre twice changes nothing, so one cut serves a whole group of items: those that have not seen all
        labelled items yet, and those that only miss some picks.
        """
        weight = self.bound[block]
        seen = self.seen[block]
        behind = seen < len(self.centres[0])
        for group in (np.flatnonzero(behind), np.flatnonzero(~behind & (seen < self.total))):
            if len(group):
                weight[group] = self._nearer(weight[group], points.at(group), int(seen[group].min()))
        return weight

    def _nearer(self, weight: Any, points: Points, start: int) -> Any:
        """These distances after looking at all centres from number `start` on; picked items stay at -1."""
        lowest = weight + 0
        for centres in self.centres:
            missed = centres.at(slice(min(start, len(centres)), None))
            for lo in range(0, len(missed), _LARGEST_BLOCK):
                nearest = self.space.nearest(points, missed.at(slice(lo, lo + _LARGEST_BLOCK)))
                lowest = self.space.backend.xp.minimum(lowest, nearest)
            start = max(start - len(centres), 0)
        lowest[weight < 0] = -1
        return lowest
