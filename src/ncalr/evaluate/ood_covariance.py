"""Covariances of labelled features, and the map under which they become spheres.

Collapsed features make the covariance inside the classes small and nearly singular, and the Mahalanobis distance
divides by it. So it is mixed with the sphere of the same total variance,

    S' = (1 - s) S + s (tr S / d) I,

with s by the rule of Ledoit and Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices":
the share that minimises the expected squared error of S', estimated from the items x (centred),

    s = min(b, g) / g,    b = (sum of |x|^4 / n - |S|^2) / n,    g = |S - (tr S / d) I|^2     (Frobenius norms)

It has no dial and no randomness, is near 0 where n is much larger than d, and grows as items run out. The spread inside
classes comes from the differences to the class means, never from a difference of two covariances, and the total is that
plus the spread of the means: nothing is lost to rounding however far the features have collapsed. All in float64: small
eigenvalues decide, and single precision would lose those below a ten-millionth of the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ncalr.geometry.statistics import ClassStatistics

Floats = npt.NDArray[np.float64]

BLOCK_BYTES = 32 << 20
RESOLUTION = 1e-7  # of single precision, in which features are made: a relative spread below it is rounding
VANISHING = 1e-12  # of the largest variance; below it a direction counts as one without spread


@dataclass(frozen=True, eq=False)
class Moments:
    """What the Gaussian scores need to know of the labelled features."""

    items: int
    mean: Floats  # (d,) of all items
    within: Floats  # (d, d) covariance around the class means, divided by the number of items
    between: Floats  # (d, d) covariance of the class means, each counted as often as it has items
    fourth: float  # sum over the items of |difference to the class mean|^4

    @property
    def total(self) -> Floats:
        """Covariance of all items around their mean."""
        return self.within + self.between

    @property
    def collapsed(self) -> bool:
        """Whether the spread inside the classes is below what single precision can tell from none."""
        size = float(np.trace(self.total)) + float(self.mean @ self.mean)
        return float(np.trace(self.within)) <= RESOLUTION**2 * size

    @property
    def ledoit_wolf(self) -> float:
        """The share of the sphere in the covariance inside the classes, by the rule of Ledoit and Wolf."""
        size = float(np.einsum("ij,ij->", self.within, self.within))
        doubt = (self.fourth / self.items - size) / self.items
        gap = size - len(self.within) * variance(self.within) ** 2
        return float(np.clip(doubt / gap, 0.0, 1.0)) if gap > 0 else 0.0


def moments(features: Any, labels: Any, statistics: ClassStatistics) -> Moments:
    """The moments of labelled features in one pass over them, given their class means."""
    n, d = features.shape
    within, fourth = np.zeros((d, d)), 0.0
    for rows in blocks(n, d):
        away = features[rows].astype(np.float64) - statistics.means[labels[rows]]
        within += away.T @ away
        squared = np.einsum("nd,nd->n", away, away)
        fourth += float(squared @ squared)
    share = statistics.counts / n
    mean = share @ statistics.means
    spread = statistics.means - mean
    return Moments(n, mean, within / n, (spread * share[:, None]).T @ spread, fourth)


def variance(covariance: Floats) -> float:
    """Mean variance of a dimension, tr S / d."""
    return float(np.trace(covariance)) / len(covariance)


def shrink(covariance: Floats, share: float) -> Floats:
    """The covariance mixed with this share of the sphere of the same total variance."""
    return np.asarray((1 - share) * covariance + share * variance(covariance) * np.eye(len(covariance)))


def whitening(covariance: Floats, definite: bool) -> Floats:
    """The map (d, r) after which distances are Mahalanobis distances: squared lengths of (x - mu) @ map.

    By Cholesky's factor where the covariance is known to be positive definite. Otherwise by its eigenvectors, where
    directions without spread are left out (the pseudo-inverse), so that r may be less than d.
    """
    if definite:
        lower = np.linalg.cholesky(covariance)
        return np.asarray(linalg.solve_triangular(lower, np.eye(len(lower)), lower=True).T)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > VANISHING * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def blocks(n: int, d: int) -> list[slice]:
    """Slices over n rows of d dimensions, each of a size that is worth handling at once in float64."""
    step = max(1, BLOCK_BYTES // (8 * d))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
