"""Greedy coverage: each pick is the item that adds most to how well the pool is covered.

Coverage of the pool by a set S is sum_j worth_j * max over i in S of kernel(i, j), and the gain of an item is what
it would add (Bae, Oliveira and Sutherland, "Generalized Coverage for More Robust Low-Budget Active Learning",
2024). With kernel exp(-(distance / radius)^2) this is MaxHerding; with kernel 1 inside the radius and 0 outside it
is ProbCover (Yehuda et al. 2022); with worth = uncertainty it is UHerding (Bae et al. 2025).

An item that is worth less than nothing should stay uncovered, and then gains could rise from pick to pick; so worth is
never negative. The scores themselves are the worth where they are such (an uncertainty, a count); for those that go
below 0, as z-scores and CMAP do, `worth=rank` takes the share of the items that score no higher (ties share their
ranks), which is between 0 and 1 and does not hang on the scale of the score.

Gains only ever fall as the set grows, so an old gain is an upper bound: the item with the largest bound is brought up
to date, and picked if it still has the largest (lazy greedy, Minoux 1978). Kernel rows are computed from the features
in blocks, and 512 MB of them are kept. Where all gains fall alike, as without clusters, nearly every bound would have
to be brought up to date; then all are lowered at once, by what the last picks took from each: that needs the kernel
rows of the items that are covered better now, and they are fewer from pick to pick. First gains cost n^2 d; above
`limit` items the method runs on a seeded sample of that many, k at the least (as its authors do at 35,000), which then
serves as candidates and as the pool to be covered, and the result says so.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select.clusters import kmeans
from ncalr.acquire.select.spaces import check_range
from ncalr.acquire.select.top_k import wanted_scores
from ncalr.errors import BadInput
from ncalr.kernels import Array
from ncalr.types import Scored, Selection

_NEIGHBOURS = 10
_REFERENCE = 2500
_AHEAD = 256
_BLOCK_BYTES = 64 << 20
_KEPT_BYTES = 512 << 20
_SLACK = 1e-5  # of the largest gain: rounding stays far below
_ROUNDING = 1e-6  # of the largest score: so far below 0 is 0


@selector("coverage", needs={"features"}, wants={"labelled_features"}, spreads=True)
def coverage(
    scored: Scored,
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    kernel: str = "rbf",
    radius: float | None = None,
    share: float = 3.0,
    density: float = 0.0,
    limit: int = 32768,
    worth: str = "score",
) -> Selection:
    """Greedy kernel coverage of the pool on unit-length features; scores, or their ranks, weigh the items."""
    if kernel not in ("rbf", "ball"):
        raise BadInput(f"kernel must be 'rbf' or 'ball', got {kernel!r}")
    if radius is not None and radius <= 0:
        raise BadInput(f"radius must be positive, got {radius}")
    if not share > 0:
        raise BadInput(f"share must be positive, got {share}")
    if density < 0:
        raise BadInput(f"density must be at least 0, got {density}")
    if limit < 1:
        raise BadInput(f"limit must be at least 1, got {limit}")
    limit = max(limit, k)
    kept = np.argsort(lottery.keys(), kind="stable")[:limit]
    notes: list[str] = []
    if evidence.n > limit:
        notes.append(f"coverage computed on a random sample of {limit} of {evidence.n} items")
    weights = _worth(scored, evidence, kept, worth)
    cover = _Coverage(evidence.at(kept), kernel, radius, share, density, k, weights, lottery.at(kept))
    if radius is None:
        notes.append(f"radius {cover.radius:.4g} chosen from the data")
    positions, gains = cover.greedy(k)
    return Selection(kept[positions], gains, tuple(notes))


class _Coverage:
    """How well each item is covered so far, and an upper bound on every item's gain."""

    def __init__(
        self,
        evidence: Evidence,
        kernel: str,
        radius: float | None,
        share: float,
        density: float,
        k: int,
        worth: Any,
        lottery: Lottery,
    ) -> None:
        self.evidence, self.backend, self.ball = evidence, evidence.backend, kernel == "ball"
        self.features = self.backend.asarray(unit_rows(self.backend, evidence), "float32")
        n = len(self.features)
        middle = to_middle(self.backend, self.features)
        self.norms = (self.features * self.features).sum(1)
        labelled = _labelled(evidence, middle)
        self.radius = radius or _radius(self, 0 if labelled is None else len(labelled), k, share, lottery)
        self.scale = 1 / self.radius**2
        worth = np.asarray(worth) * _density(self) ** density if density else worth
        self.worth = self.backend.asarray(np.ascontiguousarray(worth), "float32")
        self.best = self.backend.asarray(np.zeros(n, np.float32))
        self.kept = self.backend.asarray(np.empty((min(n, max(2 * _AHEAD, _KEPT_BYTES // (4 * n))), n), np.float32))
        self.owner = np.full(len(self.kept), -1)
        self.slot_of = np.full(n, -1)
        if labelled is not None:
            for start in range(0, len(labelled), self._rows()):
                self._cover(labelled[start : start + self._rows()])

    def greedy(self, k: int) -> tuple[Any, Any]:
        """k picks and the gain of each. The items are in the order of the lottery, so the first of equals is drawn."""
        bounds = self._all_gains()
        lowered, seen = bounds.copy(), self.best  # bounds of all, and the coverage they know
        slack = _SLACK * bounds.max(initial=0)
        fresh = np.ones(len(bounds), bool)
        picked: list[int] = []
        gains: list[float] = []
        looked = 0  # kernel rows that looking one by one has taken
        while len(picked) < k:
            at = self.backend.lazy_best(bounds, fresh, self.kept, self.slot_of, self.best, self.worth)
            if self.slot_of[at] < 0:
                better = np.flatnonzero(self.backend.numpy(self.best > seen))
                if 0 < len(better) <= looked:
                    lowered -= self._drops(better, seen)
                    bounds = np.where(fresh, bounds, np.minimum(bounds, lowered + slack))
                    seen, looked = self.best, len(better)  # the next time it takes fewer rows
                    continue
                block = self._keep(at, bounds)
                looked += len(block)
                bounds[block] = self.backend.numpy(self._gain(self.kept, self.slot_of[block]))
                fresh[block] = True
                continue
            picked.append(at)
            gains.append(float(bounds[at]))
            bounds[at] = -np.inf
            fresh[:] = False
            self.best = self.backend.xp.maximum(self.best, self.kept[int(self.slot_of[at])])
        return np.array(picked, np.int64), np.array(gains) / len(bounds)

    def _all_gains(self) -> Any:
        n, parts = len(self.features), []
        for start in range(0, n, self._rows()):
            stop = min(start + self._rows(), n)
            fits = stop <= len(self.kept)
            kernel = self._kernel(self.features[start:stop], self.kept[start:stop] if fits else None)
            parts.append(self._gain(kernel, np.arange(stop - start)))
            if fits:
                self.owner[start:stop] = self.slot_of[start:stop] = np.arange(start, stop)
        return np.concatenate([self.backend.numpy(part) for part in parts]).astype(np.float64)

    def _drops(self, better: Any, seen: Array) -> Any:
        """What every gain has lost at least by these items being covered better than `seen`, from their kernel rows.

        kernel(i, j) and kernel(j, i) may be rounded apart. At the edge of a ball that is a whole item, so balls are
        taken a little smaller here; otherwise it is less than the slack.
        """
        lost = np.zeros(len(self.features))
        kept = (self.slot_of[better] >= 0) & (not self.ball)
        scale = self.scale * (1 + 1e-4 * self.ball)
        for rows, here in ((better[kept], True), (better[~kept], False)):
            for start in range(0, len(rows), self._rows()):
                some = rows[start : start + self._rows()]
                kernel = self.kept if here else self._kernel(self.features[some], scale=scale)
                slots = self.slot_of[some] if here else np.arange(len(some))
                part = self.backend.coverage_drop(kernel, slots, seen[some], self.best[some], self.worth[some])
                lost += self.backend.numpy(part)
        return lost

    def _gain(self, kernel: Array, slots: Any) -> Array:
        return self.backend.coverage_gain(kernel, slots, self.best, self.worth)

    def _kernel(self, rows: Array, out: Array | None = None, scale: float | None = None) -> Array:
        """Kernel values of some rows with every item."""
        norms = self.backend.xp.einsum("nd,nd->n", rows, rows)
        dots = self.backend.xp.matmul(rows, self.features.T, out=out)
        return self.backend.to_kernel(dots, norms, self.norms, scale or self.scale, self.ball)

    def _keep(self, at: int, bounds: Any) -> Any:
        """Compute the kernel rows of this item and of those without that will be looked at next, in one product.

        The rows that will be looked at last make room.
        """
        urgency = np.where(self.slot_of < 0, bounds, -np.inf)
        urgency[at] = np.inf
        missing = _largest(urgency, _AHEAD)
        missing = missing[urgency[missing] > -np.inf]
        room = _largest(np.where(self.owner < 0, np.inf, -bounds[self.owner]), len(missing))
        self.slot_of[self.owner[room][self.owner[room] >= 0]] = -1
        self.owner[room], self.slot_of[missing] = missing, room
        self.kept[room] = self._kernel(self.features[missing])
        return missing

    def _cover(self, centres: Array) -> None:
        """Raise the coverage of every item to its best kernel value with these centres."""
        xp = self.backend.xp
        self.best = xp.maximum(self.best, xp.amax(self._kernel(centres), 0))

    def _rows(self) -> int:
        return max(16, _BLOCK_BYTES // (4 * len(self.features)))


def _worth(scored: Scored, evidence: Evidence, kept: Any, worth: str) -> Any:
    """What each item that is kept is worth: the same where there are no scores, and never negative."""
    if worth not in ("score", "rank"):
        raise BadInput(f"worth must be 'score' or 'rank', got {worth!r}")
    if worth == "rank":
        return rankdata(evidence.backend.numpy(wanted_scores(scored, "coverage(worth=rank)"))[kept]) / len(kept)
    if scored.scores is None:
        return np.ones(len(kept))
    scores = evidence.backend.numpy(scored.scores)
    negative = scores < -_ROUNDING * np.abs(scores).max()
    if negative.any():
        raise BadInput(
            "coverage weighs items by their scores, which must not be negative, and those of this strategy go below 0; "
            "give select=coverage(worth=rank), which weighs items by the ranks of their scores"
        )
    return np.maximum(scores[kept], 0)


def _largest(values: Any, count: int) -> Any:
    """Positions of the largest values, in no order."""
    return np.argpartition(values, -count)[-count:] if count < len(values) else np.arange(len(values))


def _radius(cover: _Coverage, labelled: int, k: int, share: float, lottery: Lottery) -> float:
    """Return a radius from the pool, never 0.

    For balls the authors' rule: the largest radius at which 95 % of the balls hold one pseudo-label only. A ball is
    pure up to the nearest item of another pseudo-label, so this is the 5 % quantile of those distances; pseudo-labels
    by k-means into as many clusters as there are classes (20 where that is not known), on up to 2,048 items.
    For the smooth kernel the median over 256 items of the distance to their q-th nearest pool item, where q is `share`
    times the pool items per labelled or picked item: the balls of all of them together hold the pool `share` times.
    (The authors take the smallest distance between labelled features. Those of a trained network have collapsed, so a
    ball of that radius holds a handful of pool items or only its centre.)
    """
    backend = cover.backend
    if cover.ball:
        kept = np.sort(np.argsort(lottery.keys(), kind="stable")[:2048])
        sample = cover.features[kept]
        member = kmeans(sample, cover.evidence.classes or 20, cover.evidence, lottery.at(kept))
        squared = backend.numpy(_squared(backend, sample, sample)).astype(np.float64)
        squared[member[:, None] == member[None, :]] = np.inf
        other = np.sqrt(squared.min(axis=1))
        value = float(np.quantile(other, 0.05)) if np.isfinite(other).all() else 0.0
    else:
        n = len(cover.features)
        sample = cover.features[np.sort(np.argsort(lottery.keys(), kind="stable")[:256])]
        nearest = min(n - 1, ceil(share * n / (labelled + k)))
        squared = backend.numpy(_squared(backend, sample, cover.features))
        value = float(np.sqrt(np.median(np.partition(squared, nearest, axis=1)[:, nearest])))
    return value if value > 0 else 1.0


def _density(cover: _Coverage) -> Any:
    """Return how close each item is to its neighbours: the median over the items has 1, and no item more than 10.

    It is 1 / the mean squared distance to the `_NEIGHBOURS` nearest of `_REFERENCE` random pool items. The bound is for
    groups of copies, whose distances are 0.
    """
    backend, found = cover.backend, []
    reference = cover.features[:_REFERENCE]
    count = min(_NEIGHBOURS, len(reference) - 1)
    if count < 1:
        return np.ones(len(cover.features))
    for start in range(0, len(cover.features), _REFERENCE):
        squared = backend.numpy(_squared(backend, cover.features[start : start + _REFERENCE], reference))
        nearest = np.partition(squared, count, axis=1)[:, : count + 1]
        own = start < _REFERENCE  # the reference items come first, and each is its own nearest
        found.append(nearest.sum(axis=1) / (count + (not own)))
    squares = np.concatenate(found).astype(np.float64)
    middle = np.median(squares)
    return middle / np.maximum(squares, middle / 10) if middle > 0 else np.ones(len(squares))


def _labelled(evidence: Evidence, middle: Array) -> Array | None:
    """The labelled features scaled to length 1, from the middle of the pool's, where there are any."""
    if "labelled_features" not in evidence or not len(evidence["labelled_features"]):
        return None
    backend = evidence.backend
    return backend.asarray(unit(backend, backend.wide(evidence["labelled_features"])), "float32") - middle


def _squared(backend: Any, a: Array, b: Array) -> Array:
    squared = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * (a @ b.T)
    return backend.xp.clip(squared, 0, None)


def unit_rows(backend: Any, evidence: Evidence) -> Array:
    """The pool's features scaled to length 1, in float32 or wider."""
    return backend.xp.concatenate([unit(backend, backend.wide(part["features"])) for part in evidence.chunks()])


def to_middle(backend: Any, rows: Array) -> Array:
    """Move rows to their mean, in place; where that was. Distances keep the digits that a common part would cost.

    The mean is rounded far above what the order of the rows changes, so that equal distances stay equal in any order.
    """
    middle = backend.asarray(backend.xp.sum(rows, 0, dtype=backend.xp.float64) / len(rows), "float32")
    rows -= middle
    return middle


def unit(backend: Any, rows: Array) -> Array:
    """Rows scaled to length 1; a row of zeros stays."""
    norms = backend.xp.sqrt(check_range(backend, backend.xp.einsum("nd,nd->n", rows, rows)))[:, None]
    return rows / backend.xp.where(norms > 0, norms, norms * 0 + 1)
