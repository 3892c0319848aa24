"""k-means (Lloyd) on the backend: seeded by the lottery, in blocks, on the CPU or a GPU.

scikit-learn's is not used because it runs on the CPU alone and its seeding depends on the order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.select.kmeans_pp import seed
from ncalr.acquire.select.spaces import Space
from ncalr.kernels import Array

_BLOCK = 8192


def kmeans(
    rows: Array, clusters: int, evidence: Evidence, lottery: Lottery, iterations: int = 20
) -> npt.NDArray[np.int64]:
    """The cluster of each row (n, d). Clusters left empty are moved to the rows farthest from their centre.

    `rows` live on the backend of `evidence`, near the origin (a large common part would cost digits); the lottery has
    one number a row. Stops when less than one row in a thousand changes its cluster.
    """
    backend, n = evidence.backend, len(rows)
    if clusters >= n:
        return np.arange(n)
    as_pool = Evidence({"features": rows}, backend, n, 0)
    centres = rows[seed(Space("features", as_pool), clusters, lottery).positions]
    member = np.full(n, -1)
    for _ in range(iterations):
        before, (member, distance) = member, nearest(backend, rows, centres)
        counts = np.bincount(member, minlength=clusters)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            member[np.argsort(-distance, kind="stable")[: len(empty)]] = empty
            counts = np.bincount(member, minlength=clusters)
        if (member != before).sum() * 1000 < n:
            break
        filled = backend.asarray(np.maximum(counts, 1).astype(np.float32)[:, None])
        centres = backend.sum_by(rows, member, clusters) / filled
    return member


def nearest(backend: Any, rows: Array, centres: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The nearest centre of each row and the squared distance to it."""
    half = (centres * centres).sum(1) / 2
    at, far = [], []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        closeness = block @ centres.T - half
        place = backend.argmax(closeness)
        at.append(backend.numpy(place))
        own = backend.numpy((block * block).sum(1))
        far.append(own - 2 * backend.numpy(backend.xp.amax(closeness, 1)))
    return np.concatenate(at).astype(np.int64), np.concatenate(far)
