"""k-means++ seeding: each pick is drawn with probability proportional to its squared distance to the picks so far.

Arthur and Vassilvitskii (2007); in gradient space it is BADGE (Ash et al. 2020). Drawing with probability proportional
to a weight w is an exponential race: with E_i exponential and independent, the item with the largest w_i / E_i wins
with probability w_i / sum w. The race makes a lazy version exact. A weight that is out of date is an upper bound, so
run the race with old weights, bring the few front runners up to date, and the best of them has won as soon as it beats
the next old time. Every `stale_limit` picks all weights are brought up to date by one matrix product, which is
compute-bound where one pass a pick would be memory-bound.

Items that were picked have weight 0 and cannot be drawn again. When every weight is 0 (duplicates, or gradients that
vanish) the rest is drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select import spaces
from ncalr.acquire.select.spaces import Points, Space
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection

_LISTED = 8


@selector("kmeans_pp", needs=lambda o: spaces.needs(o["space"]))
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
    keys = backend.asarray(lottery.keys().view(np.int64) if backend.xp is not np else lottery.keys())
    weight = backend.asarray(np.full(n, np.inf))
    _refresh(pool, weight, pool.one(start))
    weight[start] = 0
    waiting: list[Points] = []
    while len(picked) < k:
        draw = lottery.draw(1000 + len(picked))
        late = space.join(waiting) if waiting else None
        at, value = _winner(space, weight, keys, draw, late)
        if at < 0:
            rest = np.setdiff1d(np.arange(n), picked)
            rest = rest[np.argsort(lottery.keys(rest), kind="stable")][: k - len(picked)]
            return Selection(np.concatenate([picked, rest]), np.array(values + [0.0] * len(rest)))
        picked.append(at)
        values.append(value)
        weight[at] = 0
        waiting.append(pool.one(at))
        if len(waiting) >= backend.stale_limit:
            _refresh(pool, weight, space.join(waiting))
            waiting = []
    return Selection(np.array(picked, np.int64), np.array(values))


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
