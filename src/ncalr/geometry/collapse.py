"""How far a network has collapsed: NC1 to NC4 on the labelled features.

Papyan, Han and Donoho, "Prevalence of neural collapse during the terminal phase of deep learning training" (2020).
Measured on the labelled set, evaluation mode, no augmentation, in float64. K' classes with labels, means mu_k,
mu-tilde_k = mu_k - mu_G, where mu_G is the unweighted mean of the class means (the sample mean would favour the
large classes); Sigma_W the within-class covariance over N items, Sigma_B = (1/K') sum of mu-tilde mu-tilde^T.

    nc1             tr(Sigma_W pinv(Sigma_B)) / K'          variability inside classes against that between them
    nc1_quotient    tr(Sigma_W) / tr(Sigma_B)                the cheap one, for watching a training (Tirer 2023)
    cdnv            mean over i < j of (s_i + s_j) / (2 |mu_i - mu_j|^2), s the class variance (Galanti 2021)
    nc2_equinorm    std / mean of |mu-tilde_k|               (population std)
    nc2_equiangular mean over i != j of |cos(mu-tilde_i, mu-tilde_j) + 1 / (K' - 1)|
    nc3             | W / |W| - M / |M| |, Frobenius          classifier rows W against the centred means M
    nc4             share of items whose prediction is not the class of the nearest mean

All are 0 in perfect collapse. Classes without labels are left out of every measure; with fewer than two classes
there is nothing to measure and the value is NaN. No d x d matrix is ever built: nc1 goes through the K' x K'
Gram matrix of the means, tr(Sigma_W pinv(Sigma_B)) = (1/N) sum_i |Lambda^-1 Q^T C^T (h_i - mu_i)|^2 with
C = [mu-tilde_1 ..] / sqrt(K') and C^T C = Q Lambda Q^T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ncalr.errors import BadInput
from ncalr.geometry.alignment import cma
from ncalr.geometry.statistics import ClassStatistics, Floats
from ncalr.kernels import to_numpy

_BLOCK = 8192
_NAN = float("nan")


@dataclass(frozen=True)
class Collapse:
    """The collapse measures of one model at one moment. NaN where a measure was not to be had."""

    items: int
    classes: int
    smallest_class: int  # a class of one item has no variance and flatters nc1 and cdnv
    cma: float
    nc1: float
    nc1_quotient: float
    cdnv: float
    nc2_equinorm: float
    nc2_equiangular: float
    nc3: float
    nc4: float


def measure_collapse(
    features: Any, labels: Any, classes: int, *, weights: Any = None, predictions: Any = None
) -> Collapse:
    """Every measure at once. nc3 needs the classifier's `weights` (c, d), nc4 its `predictions`."""
    statistics = ClassStatistics.from_labelled(features, labels, classes)
    missed = _NAN if predictions is None else nc4(features, predictions, statistics)
    return _collapse(statistics, nc1(features, labels, statistics), weights, missed)


def collapse_of_sums(statistics: ClassStatistics, inner: Any, *, weights: Any = None, nc4: float = _NAN) -> Collapse:
    """Every measure from sums that were taken elsewhere, on a GPU for instance.

    `inner` (c, c) is the sum over the items of the outer square of their c inner products (h - mu) . mu-tilde_k, with
    zeros for classes without labels; `nc4` is handed through. Where the means hardly span their space (eigenvalues
    ten orders apart) the sums carry fewer digits than a second pass over the features.
    """
    labelled = statistics.counts > 0
    inverse = _inverse(_centred_means(statistics))
    value = _NAN
    if inverse is not None:
        k, items = len(inverse), int(statistics.counts.sum())
        value = float(np.einsum("ki,kl,li->", inverse, to_numpy(inner)[labelled][:, labelled], inverse)) / k / k / items
    return _collapse(statistics, value, weights, nc4)


def _collapse(statistics: ClassStatistics, nc1_value: float, weights: Any, nc4_value: float) -> Collapse:
    counts = statistics.counts[statistics.counts > 0]
    return Collapse(
        items=int(counts.sum()),
        classes=len(counts),
        smallest_class=int(counts.min()) if len(counts) else 0,
        cma=cma(statistics),
        nc1=nc1_value,
        nc1_quotient=nc1_quotient(statistics),
        cdnv=cdnv(statistics),
        nc2_equinorm=nc2_equinorm(statistics),
        nc2_equiangular=nc2_equiangular(statistics),
        nc3=_NAN if weights is None else nc3(weights, statistics),
        nc4=nc4_value,
    )


def nc1(features: Any, labels: Any, statistics: ClassStatistics) -> float:
    """tr(Sigma_W pinv(Sigma_B)) / K', by a second pass over the features."""
    features, labels = to_numpy(features), to_numpy(labels)
    statistics.check(features, labels)
    centred = _centred_means(statistics)
    inverse = _inverse(centred)
    if inverse is None:
        return _NAN
    project = centred.T @ inverse / np.sqrt(len(centred))
    total = 0.0
    for start in range(0, len(labels), _BLOCK):
        rows = slice(start, start + _BLOCK)
        away = (features[rows].astype(np.float64) - statistics.means[labels[rows]]) @ project
        total += float(np.einsum("nk,nk->", away, away))
    return total / len(labels) / len(centred)


def nc1_quotient(statistics: ClassStatistics) -> float:
    """tr(Sigma_W) / tr(Sigma_B)."""
    centred = _centred_means(statistics)
    between = float(np.einsum("cd,cd->", centred, centred)) / max(len(centred), 1)
    if len(centred) < 2 or between == 0:
        return _NAN
    return float(statistics.scatter.sum()) / int(statistics.counts.sum()) / between


def cdnv(statistics: ClassStatistics) -> float:
    """Class-distance normalised variance, mean over pairs of classes whose means differ."""
    labelled = statistics.counts > 0
    variance = statistics.scatter[labelled] / statistics.counts[labelled]
    means = statistics.means[labelled]
    values = []
    for i in range(len(means) - 1):
        gap = means[i + 1 :] - means[i]
        squared = np.einsum("cd,cd->c", gap, gap)
        apart = squared > 0
        values.append((variance[i] + variance[i + 1 :])[apart] / (2 * squared[apart]))
    flat = np.concatenate(values) if values else np.zeros(0)
    return float(flat.mean()) if len(flat) else _NAN


def nc2_equinorm(statistics: ClassStatistics) -> float:
    """How unequal the lengths of the centred means are."""
    norms = np.linalg.norm(_centred_means(statistics), axis=1)
    return float(norms.std() / norms.mean()) if len(norms) > 1 and norms.mean() > 0 else _NAN


def nc2_equiangular(statistics: ClassStatistics) -> float:
    """How far the angles between centred means are from those of a simplex."""
    centred = _centred_means(statistics)
    norms = np.linalg.norm(centred, axis=1)
    k = len(centred)
    if k < 2 or (norms == 0).any():
        return _NAN
    unit = centred / norms[:, None]
    cosines = (unit @ unit.T)[~np.eye(k, dtype=bool)]
    return float(np.abs(cosines + 1 / (k - 1)).mean())


def nc3(weights: Any, statistics: ClassStatistics) -> float:
    """Distance between the classifier's rows and the centred means, each scaled to length 1."""
    weights = to_numpy(weights).astype(np.float64)
    if weights.shape != statistics.means.shape:
        raise BadInput(f"weights must have shape {statistics.means.shape} (classes, d), got {weights.shape}")
    rows = weights[statistics.counts > 0]
    centred = _centred_means(statistics)
    lengths = np.linalg.norm(rows), np.linalg.norm(centred)
    if len(centred) < 2 or min(lengths) == 0:
        return _NAN
    return float(np.linalg.norm(rows / lengths[0] - centred / lengths[1]))


def nc4(features: Any, predictions: Any, statistics: ClassStatistics) -> float:
    """Share of items whose predicted class is not the class of the nearest mean."""
    features, predictions = to_numpy(features), to_numpy(predictions)
    if predictions.shape != (len(features),):
        raise BadInput(f"{len(features)} features need as many predictions, got shape {predictions.shape}")
    labelled = np.flatnonzero(statistics.counts)
    if len(labelled) < 2 or not len(features):
        return _NAN
    means = statistics.means[labelled]
    half_norms = np.einsum("cd,cd->c", means, means) / 2
    missed = 0
    for start in range(0, len(features), _BLOCK):
        rows = slice(start, start + _BLOCK)
        nearest = labelled[(features[rows].astype(np.float64) @ means.T - half_norms).argmax(axis=1)]
        missed += int((nearest != predictions[rows]).sum())
    return missed / len(features)


def _inverse(centred: Floats) -> Floats | None:
    """Q / Lambda of C^T C = Q Lambda Q^T, over the dimensions that the centred means span; None if there are none."""
    if len(centred) < 2:
        return None
    eigenvalues, vectors = np.linalg.eigh(centred @ centred.T / len(centred))
    kept = np.flatnonzero(eigenvalues > 1e-10 * eigenvalues[-1])[-(len(centred) - 1) :]
    return np.asarray(vectors[:, kept] / eigenvalues[kept]) if eigenvalues[-1] > 0 else None


def _centred_means(statistics: ClassStatistics) -> Floats:
    """Means of the labelled classes less their unweighted mean."""
    means = statistics.means[statistics.counts > 0]
    return means - means.mean(axis=0) if len(means) else means
