"""Greedy coverage: each pick is the item that adds most to how well the pool is covered.

Coverage of the pool by a set S is sum_j worth_j * max over i in S of kernel(i, j), and the gain of an item is what
it would add (Bae, Oliveira and Sutherland, "Generalized Coverage for More Robust Low-Budget Active Learning",
2024). With kernel exp(-(distance / radius)^2) this is MaxHerding; with kernel 1 inside the radius and 0 outside it
is ProbCover (Yehuda et al. 2022); with worth = uncertainty it is UHerding (Bae et al. 2025).

An item that is worth less than nothing should stay uncovered, and then gains could rise from pick to pick; so worth is
never negative. The scores themselves are the worth where they are such (an uncertainty, a count); for those that go
below 0, as z-scores and CMAP do, `worth=rank` takes the share of the items that score no higher (ties share their
ranks), which is between 0 and 1 and does not hang on the scale of the score.

Each pick lowers only the gains of items that are close to what it covers better: kernel(i, j) matters while it is
above the coverage of j. So after t labelled items and picks about n / t items matter to each item, whatever the data.

- Up to `_WHOLE` items the kernel matrix is kept (half of it is computed, the kernel is symmetric). After each pick the
  rows of the items it covers better say what every gain loses.
- Beyond, only the pairs that still matter are kept, as sparse rows. While they would be too many (few labels), the
  method picks within a random sample of `_WHOLE` items; the result says how many picks came from the sample.
- Where the features are long for so many pairs (more than `_PRODUCTS` products), the leading principal directions and
  the lengths of the rest find the pairs, and only the distances of these are computed in full. `_PROBED` items tell the
  share of the gains that these pairs hold; below `_ENOUGH` the features are used. The result says so.
- Above `limit` items the method runs on a seeded sample of that many, k at the least (as its authors do at 35,000),
  which then serves as candidates and as the pool to be covered, and the result says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from scipy import sparse
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
_WHOLE = 12288  # items whose whole kernel matrix is kept: 600 MB
_PAIRS = 1 << 23  # kept beyond: with 65,536 items 128 an item
_BLOCK_BYTES = 64 << 20
_ROWS, _COLUMNS = 512, 4080  # of a block of products; a power of two of columns would share lines of the cache
_PROBED = 256  # items that tell how many pairs there are
_PRODUCTS = 1 << 38  # of two numbers, for all pairs: beyond, rows are shortened
_SHORTER = ((1, 0.1), (1, 0.15), (2, 0.15))  # by how much, and how much items may have in common in what is left out
_ENOUGH = 0.95  # of the gains
_EXACT = 4  # what a number of an exact distance costs beside one of a product
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
    limit: int = 65536,
    worth: str = "score",
) -> Selection:
    """Greedy kernel coverage of the pool on unit-length features; scores, or their ranks, weigh the items."""
    if kernel not in ("rbf", "ball"):
        raise BadInput(f"kernel must be 'rbf' or 'ball', got {kernel!r}")
    if radius is not None and radius <= 0:
        raise BadInput(f"radius must be positive, got {radius}")
    if not share > 0:
        raise BadInput(f"share must be positive, got {share}")
    if not 0 <= density <= 10:
        raise BadInput(f"density must lie in 0..10, got {density}")
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
    notes += cover.notes
    return Selection(kept[positions], gains, tuple(notes))


class _Coverage:
    """How well each item is covered so far, and the greedy picks."""

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
        middle = to_middle(self.backend, self.features)
        self.norms = (self.features * self.features).sum(1)
        labelled = _labelled(evidence, middle)
        self.radius = radius or _radius(self, 0 if labelled is None else len(labelled), k, share, lottery)
        self.scale = 1 / self.radius**2
        worth = np.asarray(worth) * _density(self) ** density if density else worth
        self.worth = self.backend.asarray(np.ascontiguousarray(worth), "float32")
        self.best = self.backend.asarray(np.zeros(len(self.features), np.float32))
        self.notes: list[str] = []
        if labelled is not None:
            self._cover(labelled)

    def greedy(self, k: int) -> tuple[Any, Any]:
        """Return k picks and the gain of each.

        The items are in the order of the lottery, so the first of equals is drawn.
        """
        n, picks = len(self.features), _Picks()
        if n <= _WHOLE:
            picks.add(_Matrix(self, n), k)
        else:
            self._from_sample(picks, k)
            if len(picks.positions) < k:
                picks.add(_Pairs(self), k)
        return np.array(picks.positions, np.int64), np.array(picks.gains)

    def _from_sample(self, picks: _Picks, k: int) -> None:
        """Pick within a sample until the pairs that matter to later picks are few enough to be kept."""
        n = len(self.features)
        most = _PAIRS / n**2
        if self._share(self.kernel(slice(0, _PROBED)), self.best) <= most:
            return
        sample = _Matrix(self, _WHOLE)
        while True:
            picks.add(sample, min(k, len(picks.positions) + 8))
            if len(picks.positions) == k or self._share(sample.kernel[:_PROBED], sample.best) <= most:
                break
        self._cover(self.features[np.array(picks.positions)])
        self.notes.append(f"first {len(picks.positions)} picks chosen within a random sample of {_WHOLE} of {n} items")

    def shortened(self, reach: Array) -> Array:
        """Return short rows that find the pairs within reach: the features, or some of their principal directions.

        The last number of a short row stands for what two items may have in common in the directions left out.
        """
        xp, n, width = self.backend.xp, len(self.features), self.features.shape[1]
        fewest = max(16, _PRODUCTS // n**2)
        if fewest >= width:
            return self.features
        some = self.features[:_WHOLE]
        axes = np.linalg.eigh(self.backend.numpy(some.T @ some))[1].astype(np.float32)
        gains = xp.clip(self.kernel(slice(0, _PROBED)) - self.best, 0, None) * self.worth
        for times, common in _SHORTER:
            size = times * fewest
            rows = self.features @ self.backend.asarray(np.ascontiguousarray(axes[:, -size:]))
            rest = xp.clip(self.norms - xp.einsum("nd,nd->n", rows, rows), 0, None)
            rows = xp.concatenate([rows, xp.sqrt(common * rest)[:, None]], 1)
            near = self.norms[:_PROBED, None] + self.norms - 2 * (rows[:_PROBED] @ rows.T)
            near = near < xp.maximum(reach[:_PROBED, None], reach)
            xp.einsum("nn->n", near[:, :_PROBED])[:] = True
            kept = float((gains * near).sum() / max(float(gains.sum()), 1e-30))
            if kept >= _ENOUGH and size + _EXACT * width * float(self.backend.numpy(near).mean()) < width:
                self.notes.append(
                    f"pairs found by {size} of {width} principal directions: {kept:.1%} of the gains kept"
                )
                return rows
        return self.features

    def products(self, rows: Array) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the inner products of all pairs of rows, each pair once, in blocks.

        A block is overwritten by the next.
        """
        n = len(rows)
        room = self.backend.asarray(np.empty(_ROWS * _COLUMNS, np.float32))
        for start in range(0, n, _ROWS):
            own = slice(start, min(start + _ROWS, n))
            for left in range(start, n, _COLUMNS):
                others = slice(left, min(left + _COLUMNS, n))
                shape = own.stop - own.start, others.stop - others.start
                dots = room[: shape[0] * shape[1]].reshape(shape)
                yield own, others, self.backend.xp.matmul(rows[own], rows[others].T, out=dots)

    def _share(self, kernel: Array, best: Array) -> float:
        """Return the share of the pairs, of some first items with all others, that matter to one of the two."""
        xp = self.backend.xp
        return float(self.backend.numpy(kernel > xp.minimum(best[: len(kernel), None], best)).mean())

    def kernel(self, rows: slice) -> Array:
        """Return the kernel values of some items with all items."""
        return self._kernel(self.features[rows])

    def _kernel(self, rows: Array) -> Array:
        own = self.backend.xp.einsum("nd,nd->n", rows, rows)
        return self.backend.to_kernel(rows @ self.features.T, own, self.norms, self.scale, self.ball)

    def _cover(self, centres: Array) -> None:
        """Raise the coverage of every item to its best kernel value with these centres."""
        xp, size = self.backend.xp, block_rows(len(self.features))
        for start in range(0, len(centres), size):
            self.best = xp.maximum(self.best, xp.amax(self._kernel(centres[start : start + size]), 0))


class _Picks:
    """Positions and gains so far."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.gains: list[float] = []

    def add(self, table: _Matrix | _Pairs, count: int) -> None:
        """Pick greedily until there are `count`."""
        gains = table.gains
        gains[self.positions] = -np.inf
        while len(self.positions) < count:
            at = int(gains.argmax())
            self.positions.append(at)
            self.gains.append(max(float(gains[at]), 0.0) / len(gains))
            gains -= table.cover(at)
            gains[at] = -np.inf


class _Matrix:
    """The kernel matrix of the first items, what each would gain, and how well each is covered."""

    def __init__(self, cover: _Coverage, size: int) -> None:
        self.backend, xp, n = cover.backend, cover.backend.xp, size
        self.best, self.worth = cover.best[:n] + 0, cover.worth[:n]
        self.kernel = self.backend.asarray(np.empty((n, n), np.float32))
        for rows, others, dots in cover.products(cover.features[:n]):
            block = self.backend.to_kernel(dots, cover.norms[rows], cover.norms[others], cover.scale, cover.ball)
            if rows.start == others.start:  # a product may round (i, j) and (j, i) apart
                corner = block[:, : len(block)]
                corner[:] = xp.triu(corner, 0) + xp.triu(corner, 1).T
            self.kernel[rows, others] = block
            self.kernel[others, rows] = block.T
        self.gains = self._lost(np.arange(n), self.best + np.inf)

    def cover(self, at: int) -> Any:
        """Cover all items as well as this one does, and return what every gain loses."""
        row = self.kernel[at]
        lost = self._lost(np.flatnonzero(self.backend.numpy(row > self.best)), row)
        self.best = self.backend.xp.maximum(self.best, row)
        return lost

    def _lost(self, better: Any, best: Array) -> Any:
        """Return what every gain loses when these items are covered as well as `best` says."""
        lost = np.zeros(len(best))
        for start in range(0, len(better), block_rows(len(best))):
            some = better[start : start + block_rows(len(best))]
            part = self.backend.coverage_drop(self.kernel, some, self.best[some], best[some], self.worth[some])
            lost += self.backend.numpy(part)
        return lost


class _Pairs:
    """The same for all items, with the kernel values of only the pairs above the coverage of one of the two."""

    def __init__(self, cover: _Coverage) -> None:
        self.best, self.worth = cover.backend.numpy(cover.best).copy(), cover.backend.numpy(cover.worth)
        self.kernel = self._matrix(cover)
        terms = np.maximum(self.kernel.data - self.best[self.kernel.indices], 0)
        terms *= self.worth[self.kernel.indices]
        self.gains = np.add.reduceat(terms, self.kernel.indptr[:-1], dtype=np.float64)

    def _matrix(self, cover: _Coverage) -> Any:
        n, backend, square = len(self.best), cover.backend, np.float32(cover.radius**2)
        with np.errstate(divide="ignore"):  # an item that is not covered at all: every distance matters
            reach = square * (1 - self.best if cover.ball else -np.log(self.best))
        reach = backend.asarray(reach, "float32")
        short = cover.shortened(reach)
        parts = []
        for rows, others, dots in cover.products(short):
            own = cover.norms[rows], cover.norms[others], reach[rows], reach[others]
            i, j, squares = backend.pairs_within(dots, *own, rows.start - others.start)
            i, j = i + np.int32(rows.start), j + np.int32(others.start)
            if short is not cover.features:
                squares = backend.numpy(backend.pair_squares(cover.features, i, j))
            values = (squares < square).astype(np.float32) if cover.ball else np.exp(-squares / square)
            keep = (values > np.minimum(self.best[i], self.best[j])) | (i == j)
            parts.append((i[keep], j[keep], values[keep]))
        i, j, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        twice = np.flatnonzero(i < j)
        both = np.concatenate([i, j[twice]]), np.concatenate([j, i[twice]])
        return sparse.csr_array((np.concatenate([values, values[twice]]), both), shape=(n, n))

    def cover(self, at: int) -> Any:
        """Cover all items as well as this one does, and return what every gain loses."""
        own = slice(*self.kernel.indptr[at : at + 2])
        items, values = self.kernel.indices[own], self.kernel.data[own]
        better = values > self.best[items]
        items, values = items[better], values[better]
        rows = self.kernel[items]
        old, new, worth = (
            np.repeat(part, np.diff(rows.indptr)) for part in (self.best[items], values, self.worth[items])
        )
        self.best[items] = values
        return np.bincount(rows.indices, worth * np.maximum(np.minimum(rows.data, new) - old, 0), len(self.best))


def block_rows(n: int) -> int:
    """Return how many rows a kernel block with n columns has."""
    return max(16, min(_ROWS, _BLOCK_BYTES // (4 * n)))


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
