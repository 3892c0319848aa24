"""k-means++ seeding: each pick is drawn with probability proportional to its squared distance to the picks so far.

Arthur and Vassilvitskii (2007); in gradient space it is BADGE (Ash et al. 2020). Drawing with probability proportional
to a weight w is an exponential race: with E_i exponential and independent, the item with the largest w_i / E_i wins
with probability w_i / sum w. The race makes a lazy version exact. A weight that is out of date is an upper bound, so
run the race with old weights, bring the few front runners up to date, and the best of them has won as soon as it beats
the next old time. Every `_STALE` picks all weights are brought up to date by one matrix product, which is
compute-bound where one pass a pick would be memory-bound. On a GPU that holds the pool a pass is cheaper than to wait
for the front runners: there every pick brings all weights up to date, and only every so many picks are waited for.

Items that were picked have weight 0 and cannot be drawn again. When every weight is 0 (duplicates, or gradients that
vanish) the rest is drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery, Words
from ncalr.acquire.registry import selector
from ncalr.acquire.select import spaces
from ncalr.acquire.select.spaces import Points, Space
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection

_LISTED = 8
_STALE = 64  # picks that may go by before every weight is brought up to date
_DRAWN = 1 << 22  # numbers drawn at once for the races on a GPU


@selector("kmeans_pp", needs=lambda o: spaces.needs(o["space"]), spreads=True, blind=True)
def kmeans_pp(
    scored: Scored,  # noqa: ARG001 (distance decides alone)
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    space: str = "features",
    first: str = "uniform",
) -> Selection:
    """k-means++ seeding in features, probabilities or gradients; first: uniform, or largest (gradients)."""
    if first not in ("uniform", "largest"):
        raise BadInput(f"first must be 'uniform' or 'largest', got {first!r}")
    if first == "largest" and space != "gradients":
        raise BadInput(f"first='largest' means the longest gradient: use it with space='gradients', not {space!r}")
    return seed(Space(space, evidence), k, lottery, first)


def seed(space: Space, k: int, lottery: Lottery, first: str = "uniform") -> Selection:
    """k picks and the squared distance of each at the moment it was picked."""
    backend, n = space.backend, space.evidence.n
    pool = Pool(space)
    own = np.concatenate([backend.numpy(spaces.check_range(backend, own)) for _, own in pool.sweep()])
    start = int(np.argmin(lottery.keys()))
    if first == "largest":
        level = np.flatnonzero(own == own.max())
        start = int(level[np.argmin(lottery.keys(level))])
    picked, values = [start], [max(float(own[start]), 0.0)]
    draws = np.array([lottery.draw(1000 + number) for number in range(1, k)], np.uint64)
    keys = backend.words(lottery.keys())
    weight = backend.asarray(np.full(n, np.inf))
    _refresh(pool, weight, pool.one(start))
    weight[start] = 0
    race = _lazy(pool, weight, keys, draws) if pool.held is None else _at_once(pool.held, space, weight, keys, draws)
    for at, value in race:
        picked.append(at)
        values.append(value)
    if len(picked) < k:
        rest = np.setdiff1d(np.arange(n), picked)
        rest = rest[np.argsort(lottery.keys(rest), kind="stable")][: k - len(picked)]
        picked, values = [*picked, *rest.tolist()], values + [0.0] * len(rest)
    return Selection(np.array(picked, np.int64), np.array(values))


def _lazy(pool: Pool, weight: Any, keys: Any, draws: Words) -> Iterator[tuple[int, float]]:
    """The winner of each race and its weight, until no weight is left; only front runners are brought up to date."""
    waiting: list[Points] = []
    for draw in draws.tolist():
        late = pool.space.join(waiting) if waiting else None
        at, value = _winner(pool.space, weight, keys, draw, late)
        if at < 0:
            return
        yield at, value
        weight[at] = 0
        waiting.append(pool.one(at))
        if len(waiting) >= _STALE:
            _refresh(pool, weight, pool.space.join(waiting))
            waiting = []


def _at_once(points: Points, space: Space, weight: Any, keys: Any, draws: Words) -> Iterator[tuple[int, float]]:
    """The same with every weight brought up to date after each pick; the host waits once for as many as draws fit."""
    backend = space.backend
    xp, block, words = backend.xp, max(1, _DRAWN // len(weight)), backend.words(draws)
    winners, values = [], []
    for begin in range(0, len(draws), block):
        for waits in backend.waits(keys, words[begin : begin + block]):
            at = xp.argmax(weight / waits).reshape(1)
            winners.append(at)
            values.append(weight[at])
            weight = xp.minimum(weight, backend.asarray(space.nearest(points, points.at(at)), "float64"))
            weight[at] = 0
        if float(values[-1][0]) <= 0:  # nothing is left to be drawn
            break
    if winners:
        found = zip(backend.numpy(xp.concatenate(winners)), backend.numpy(xp.concatenate(values)), strict=True)
        yield from ((int(at), float(value)) for at, value in takewhile(lambda pair: pair[1] > 0, found))


def _winner(space: Space, weight: Any, keys: Any, draw: int, late: Points | None) -> tuple[int, float]:
    """The winner of one race under up-to-date weights, and its weight; -1 when no weight is left."""
    backend = space.backend
    while True:
        front, times = backend.race(weight, keys, draw, _LISTED)
        if not len(front):
            return -1, 0.0
        old = backend.numpy(weight[front]).astype(np.float64)
        if late is None:
            return int(front[0]), float(old[0])
        nearest = backend.numpy(space.nearest(space.take(front), late))
        new = np.minimum(old, nearest)
        weight[front] = backend.asarray(new)
        now = times * (new / old)
        best = int(np.argmax(now))
        if len(front) < _LISTED or now[best] >= times[-1]:
            return (int(front[best]), float(new[best])) if new[best] > 0 else (-1, 0.0)


class Pool:
    """The points of the pool; held where every pick looks at all of them and they fit."""

    def __init__(self, space: Space) -> None:
        whole = space.evidence.sweeper is None and space.size <= space.backend.held_bytes
        self.space = space
        self.held = space.take(slice(0, space.evidence.n)) if whole else None

    def sweep(self, centres: Points | None = None) -> Iterator[tuple[slice, Any]]:
        """As `Space.sweep`, cut at the same places."""
        if self.held is None:
            yield from self.space.sweep(centres)
            return
        for rows in spaces.chunks(self.space.evidence.n):
            points = self.held.at(rows)
            yield rows, points.own if centres is None else self.space.nearest(points, centres)

    def one(self, at: int) -> Points:
        """One item's point."""
        return self.space.take(np.array([at])) if self.held is None else self.held.at(slice(at, at + 1))


def _refresh(pool: Pool, weight: Any, centres: Points) -> None:
    """Bring every weight up to date with these centres, in place."""
    backend = pool.space.backend
    for rows, nearest in pool.sweep(centres):
        weight[rows] = backend.xp.minimum(weight[rows], backend.asarray(nearest, "float64"))
