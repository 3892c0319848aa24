"""Typical items of uncovered clusters: the selection of TypiClust.

See `scores/typiclust.py` for the method and its source.
"""

from __future__ import annotations

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

_BLOCK = 2048
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
) -> Selection:
    """The most typical item of each cluster, clusters with few labels and many items first."""
    if clusters < 1 or neighbours < 1:
        raise BadInput(f"clusters and neighbours must be at least 1, got {clusters} and {neighbours}")
    backend, n = evidence.backend, evidence.n
    rows = unit_rows(backend, evidence)
    labelled = 0
    if "labelled_features" in evidence:
        bank = unit(backend, backend.wide(evidence["labelled_features"]))
        labelled = len(bank)
        rows = backend.xp.concatenate([rows, backend.asarray(bank, str(rows.dtype).removeprefix("torch."))])
    to_middle(backend, rows)
    member = kmeans(rows, min(labelled + k, clusters), evidence, lottery.joined(labelled))
    return _by_cluster(backend, rows, member, n, k, lottery, neighbours)


def _by_cluster(
    backend: Backend,
    rows: Array,
    member: npt.NDArray[np.int64],
    n: int,
    k: int,
    lottery: Lottery,
    neighbours: int,
) -> Selection:
    """Cycle through the clusters, taking the most typical item that is left in each."""
    groups = _groups(member)
    covered = np.bincount(member[n:], minlength=len(groups))
    sizes = np.array([len(group) for group in groups])
    large = [c for c in np.lexsort((-sizes, covered)) if sizes[c] > _SMALLEST]
    small = [c for c in np.lexsort((-sizes, covered)) if sizes[c] <= _SMALLEST]
    keys = lottery.keys()
    picked: list[int] = []
    values: list[float] = []
    for order in (large, small):  # tiny clusters are outliers: they are used only when the others are used up
        queues = {c: _ranked(backend, rows, groups[c], n, keys, neighbours) for c in order}
        while len(picked) < k and queues:
            for c in [c for c in order if c in queues]:
                if not queues[c]:
                    del queues[c]
                elif len(picked) < k:
                    position, value = queues[c].pop()
                    picked.append(position)
                    values.append(value)
    return Selection(np.array(picked, np.int64), np.array(values))


def _groups(member: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    order = np.argsort(member, kind="stable")
    return np.split(order, np.cumsum(np.bincount(member))[:-1])


def _ranked(
    backend: Backend,
    rows: Array,
    group: npt.NDArray[np.int64],
    n: int,
    keys: npt.NDArray[np.uint64],
    neighbours: int,
) -> list[tuple[int, float]]:
    """The pool items of a cluster with their typicality, the most typical last."""
    own = group[group < n]
    if not len(own):
        return []
    typicality = 1 / (_mean_distance(backend, rows[group], neighbours)[group < n] + 1e-5)
    order = np.lexsort((-keys[own].astype(np.float64), typicality))
    return [(int(own[i]), float(typicality[i])) for i in order]


def _mean_distance(backend: Backend, points: Array, neighbours: int) -> npt.NDArray[np.float64]:
    """Mean squared distance of each point to its nearest neighbours in the same cluster."""
    m = len(points)
    near = min(neighbours, m // 2)
    if near == 0:
        return np.zeros(m)
    squares = (points * points).sum(1)
    result = []
    for start in range(0, m, _BLOCK):
        block = points[start : start + _BLOCK]
        squared = backend.numpy(squares[start : start + _BLOCK, None] + squares[None, :] - 2 * (block @ points.T))
        nearest = np.partition(squared, min(near, m - 1), axis=1)[:, : near + 1]  # itself included, at distance 0
        result.append(np.maximum(nearest, 0).sum(axis=1) / near)
    return np.concatenate(result).astype(np.float64)
