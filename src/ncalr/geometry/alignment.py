"""Class-mean alignment (CMA) and how much one more item would change it (CMAP).

Goel, Agarwal, Anand and Arora, "Reliable Active Learning from Unreliable Labels via Neural Collapse Geometry"
(2025). With class means mu_c over K classes and unit vectors written with a bar,

    CMA     = 1 / (K (K - 1)) * sum over i != j of cos(mu_i, mu_j) = (|M|^2 - K) / (K (K - 1)),   M = sum of mu-bar_c
    CMAP(z) = (new mu-bar_c - mu-bar_c) . (M - mu-bar_c)            c the predicted class of z, its mean moved by z
            = K (K - 1) / 2 * (CMA with z - CMA without)

**The form computed.** The printed formula is a difference of two nearly equal unit vectors and loses all its digits
as the class count n grows. With G = M - mu-bar_c split into its part g along mu-bar_c and its part G' across it, and
p = z . mu-bar_c, q = |z|^2, r = |mu_c|,

    A = n r + p      t = q - p^2      N = sqrt(A^2 + t)  (the length of n mu_c + z)
    CMAP = ( z . G' - g * t / (N + A) ) / N

Both terms are small when z moves the mean little, so nothing cancels; three inner products an item. (When A < 0,
t / (N + A) is computed as N - A.) This is the closed form of the library's algorithm notes with its last
cancellation, that of z . G against its own part along the mean, taken out as well.

**Degenerate classes.** M sums over the K' classes that have labels and a mean that is not zero. A class that has
none would be created by z: CMA then runs over K' + 1 classes, and the change, on the same scale of K' (K' - 1) / 2,
is (z-bar . M) (K' - 1) / (K' + 1) - S / (K' + 1) with S = |M|^2 - K'. That is the same expression with n = 0,
G' = M (K' - 1) / (K' + 1), g = S / (K' + 1). Where there is nothing to compare (K' < 2, z = 0, z = -n mu) CMAP is 0.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ncalr.errors import BadInput
from ncalr.geometry.statistics import ClassStatistics
from ncalr.kernels import Array, Backend, CmapTable, choose, to_numpy

Counts = Literal["paper", "neutral"]


def cma(statistics: ClassStatistics) -> float:
    """Mean cosine between the means of different classes, over the classes that have one; NaN below two.

    >>> import numpy as np
    >>> cma(ClassStatistics.from_labelled(np.eye(3), np.arange(3), 3))
    0.0
    """
    k = int(statistics.present.sum())
    if k < 2:
        return float("nan")
    total = statistics.total_direction
    return float((total @ total - k) / (k * (k - 1)))


def cmap(
    features: Any,
    predictions: Any,
    statistics: ClassStatistics,
    *,
    sign: int = +1,
    center: bool = False,
    counts: Counts = "paper",
    device: Any = None,
) -> Array:
    """CMAP of each row of `features` (n, d) under its predicted class.

    `sign=-1` turns the score over. `center=True` first subtracts the unweighted mean of the class means from means
    and features, which changes the method (`center=False` is the paper's). `counts="neutral"` gives every class the
    mean count, taking out the factor 1 / (n_c + 1) that favours small classes.

    The result is a NumPy array, or a tensor on the GPU when the features are one.
    """
    backend = choose(device, [features])
    table = cmap_table(statistics, sign=sign, center=center, counts=counts)
    _check_predictions(to_numpy(predictions), len(features), len(statistics.counts))
    return score_block(backend, features, predictions, table)


def _check_predictions(predictions: Any, n: int, classes: int) -> None:
    if predictions.shape != (n,) or predictions.dtype.kind not in "iu":
        raise BadInput(f"predictions must be {n} integers, got {predictions.dtype} of shape {predictions.shape}")
    if n and (predictions.min() < 0 or predictions.max() >= classes):
        raise BadInput(f"predictions must lie in 0..{classes - 1}, got {predictions.min()}..{predictions.max()}")


def score_block(backend: Backend, features: Any, predictions: Any, table: CmapTable) -> Array:
    """CMAP of one block of features with a table that is ready."""
    d = table.across.shape[1]
    block = backend.block(features, slice(None))
    if block.ndim != 2 or block.shape[1] != d:
        raise BadInput(f"features must have shape (items, {d}), as the labelled ones have, got {tuple(block.shape)}")
    return backend.cmap(block, backend.block(predictions, slice(None)), table)


def cmap_table(
    statistics: ClassStatistics, *, sign: int = +1, center: bool = False, counts: Counts = "paper"
) -> CmapTable:
    """The per-class vectors and numbers of the formula above, in float64."""
    if sign not in (-1, 1):
        raise BadInput(f"sign must be +1 or -1, got {sign!r}")
    if counts not in ("paper", "neutral"):
        raise BadInput(f"counts must be 'paper' or 'neutral', got {counts!r}")
    centre = None
    if center:
        statistics, centre = statistics.centred()
    present, unit, total = statistics.present, statistics.directions, statistics.total_direction
    k = int(present.sum())
    n = statistics.counts.astype(np.float64)
    if counts == "neutral":
        n = np.full(len(n), n[present].mean() if k else 0.0)
    others = total - unit
    pull = np.einsum("cd,cd->c", others, unit)
    across = others - pull[:, None] * unit
    surplus = total @ total - k
    across = np.where(present[:, None], across, total * ((k - 1) / (k + 1)))
    pull = np.where(present, pull, surplus / (k + 1))
    usable = 1.0 if k > 1 else 0.0
    reach = np.where(present, n * statistics.norms, 0.0)
    return CmapTable(centre, sign * usable * across, unit, reach, sign * usable * pull)
