"""Round-robin over clusters of the highest-scoring items: the selection of Cluster-Margin.

See `scores/cluster_margin.py` for the method and its source.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select.clusters import kmeans
from ncalr.acquire.select.spaces import Space
from ncalr.acquire.select.top_k import best, wanted_scores
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection


@selector("round_robin", needs={"features"}, holds_pool=True, spreads=True)
def round_robin(
    scored: Scored,
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    multiple: float = 10.0,
    clusters: float = 1.25,
    linkage_limit: int = 5000,
) -> Selection:
    """Among the best multiple * k, one from each cluster in turn, small clusters first."""
    if multiple < 1 or clusters <= 0:
        raise BadInput(f"multiple must be at least 1 and clusters positive, got {multiple} and {clusters}")
    backend, n = evidence.backend, evidence.n
    wanted = min(n, max(1, round(clusters * k)))
    rows = backend.xp.concatenate([backend.wide(part["features"]) for part in evidence.chunks()])
    notes: tuple[str, ...] = ()
    if n <= linkage_limit:
        member = _linked(backend.numpy(rows), wanted)
    else:
        rows -= Space("features", evidence).centre
        member = kmeans(rows, wanted, evidence, lottery)
        notes = (f"k-means stands in for average linkage, which would need a table of {n} x {n} distances",)
    kept = best(wanted_scores(scored, "round_robin"), min(n, round(multiple * k)), evidence, lottery)
    order = _turns(member[kept], lottery.keys(kept))
    return Selection(kept[order[:k]], None, notes)


def _linked(rows: npt.NDArray[np.float64], wanted: int) -> npt.NDArray[np.int64]:
    """Average-linkage clusters, cut where `wanted` are left."""
    if len(rows) == 1:
        return np.zeros(1, np.int64)
    return np.asarray(fcluster(linkage(rows, "average"), wanted, "maxclust") - 1, np.int64)


def _turns(member: npt.NDArray[np.int64], keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Everybody's place in the round-robin: by turn, then by size of cluster; the order inside a cluster is drawn."""
    _, member, sizes = np.unique(member, return_inverse=True, return_counts=True)
    lots = np.full(len(sizes), np.iinfo(np.uint64).max, np.uint64)  # clusters of one size: the lowest key goes first
    np.minimum.at(lots, member, keys)
    inside = np.lexsort((keys, member))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    turn = np.empty(len(member), np.int64)
    turn[inside] = np.arange(len(member)) - starts[member[inside]]
    return np.lexsort((lots[member], sizes[member], turn))
