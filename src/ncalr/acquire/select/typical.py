"""Typical items of uncovered clusters: the selection of TypiClust.

See `scores/typiclust.py` for the method and its source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select.clusters import kmeans
from ncalr.acquire.select.coverage import to_middle, unit, unit_rows
from ncalr.errors import BadInput
from ncalr.kernels import Array, Backend
from ncalr.types import Scored, Selection

_BLOCK = 2048  # rows whose distances are looked at together,
_BLOCK_BYTES = 64 << 20  # or fewer, where these are more
_SMALLEST = 5


@selector("typical", needs={"features"}, wants={"labelled_features"}, holds_pool=True, blind=True)
def typical(
    scored: Scored,  # noqa: ARG001 (typicality decides alone)
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    clusters: int = 500,
    neighbours: int = 20,
    limit: int = 32768,
) -> Selection:
    """The most typical item of each cluster, clusters with few labels and many items first."""
    if clusters < 1 or neighbours < 1:
        raise BadInput(f"clusters and neighbours must be at least 1, got {clusters} and {neighbours}")
    limit = max(limit, k)
    backend, n = evidence.backend, evidence.n
    rows = unit_rows(backend, evidence)
    labelled = 0
    if "labelled_features" in evidence:
        bank = unit(backend, backend.wide(evidence["labelled_features"]))
        labelled = len(bank)
        rows = backend.xp.concatenate([rows, backend.asarray(bank, str(rows.dtype).removeprefix("torch."))])
    to_middle(backend, rows)
    member = kmeans(rows, min(labelled + k, clusters), evidence, lottery.joined(labelled))
    return _by_cluster(_Typicality(backend, rows, n, lottery.keys(), neighbours, limit), member, k)


def _by_cluster(typicality: _Typicality, member: npt.NDArray[np.int64], k: int) -> Selection:
    """Cycle through the clusters, taking the most typical item that is left in each."""
    groups = np.split(np.argsort(member, kind="stable"), np.cumsum(np.bincount(member))[:-1])
    covered = np.bincount(member[typicality.n :], minlength=len(groups))
    sizes = np.array([len(group) for group in groups])
    by_need = np.lexsort((-sizes, covered))
    tiny = sizes[by_need] <= _SMALLEST
    picked: list[tuple[int, float]] = []
    for order in (by_need[~tiny].tolist(), by_need[tiny].tolist()):  # tiny clusters are outliers: after all others
        queues: dict[int, list[tuple[int, float]]] = {}
        while order and len(picked) < k:
            for c in order:
                if len(picked) == k:
                    break
                if c not in queues:
                    queues[c] = typicality.ranked(groups[c])
                picked += [queues[c].pop()] if queues[c] else []
            order = [c for c in order if queues.get(c, True)]
    positions, values = zip(*picked, strict=True)
    return Selection(np.array(positions, np.int64), np.array(values), typicality.notes())


@dataclass
class _Typicality:
    """How typical items are of their cluster. The rows are those of the n pool items, then of the labelled ones."""

    backend: Backend
    rows: Array
    n: int
    keys: npt.NDArray[np.uint64]
    neighbours: int
    limit: int
    cut: int = 0  # clusters of which a sample was looked at

    def ranked(self, group: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
        """The pool items of a cluster with their typicality, the most typical last."""
        own, labelled = group[group < self.n], group[group >= self.n]
        if not len(own):
            return []
        if len(own) > self.limit:
            own = np.sort(own[np.argsort(self.keys[own], kind="stable")[: self.limit]])
            self.cut += 1
        points = self.rows[np.concatenate([own, labelled])]
        typicality = 1 / (_mean_distance(self.backend, points, self.neighbours)[: len(own)] + 1e-5)
        order = np.lexsort((-self.keys[own].astype(np.float64), typicality))
        return [(int(own[i]), float(typicality[i])) for i in order]

    def notes(self) -> tuple[str, ...]:
        """Where the plain method was not followed."""
        if not self.cut:
            return ()
        which = "a cluster that has" if self.cut == 1 else f"each of {self.cut} clusters that have"
        return (f"typicality computed on a random sample of {self.limit} items of {which} more",)


def _mean_distance(backend: Backend, points: Array, neighbours: int) -> npt.NDArray[np.float64]:
    """Mean squared distance of each point to its nearest neighbours in the same cluster."""
    m = len(points)
    near = min(neighbours, m // 2)
    if near == 0:
        return np.zeros(m)
    squares = (points * points).sum(1)
    size = max(16, min(_BLOCK, _BLOCK_BYTES // (m * points.dtype.itemsize)))
    result = []
    for start in range(0, m, size):
        some = slice(start, start + size)
        inner = points[some] @ points.T
        nearest = backend.nearest_squares(inner, squares[some], squares, near + 1)  # itself included, at distance 0
        result.append(backend.numpy(nearest).sum(axis=1, dtype=np.float64) / near)
    return np.concatenate(result)
