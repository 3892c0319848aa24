"""Class statistics that add: counts, means and scatter of the labelled features.

Whole, in chunks or merged from shards, the result is the same up to the last bits of float64, because the merge
is the exact identity for two groups of sizes n and m with means a and b (Chan, Golub and LeVeque, 1983):

    mean = (n a + m b) / (n + m)        scatter = scatter_1 + scatter_2 + n m / (n + m) * |a - b|^2

The scatter (sum of squared distances to the class mean) is kept instead of the sum of squares because collapsed
features have almost none: a difference of two sums of squares would lose it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ncalr.errors import BadInput
from ncalr.kernels import to_numpy

Floats = npt.NDArray[np.float64]
_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class ClassStatistics:
    """What the labelled set says about each class. Classes without labels have count 0 and mean 0."""

    counts: npt.NDArray[np.int64]  # (c,)
    means: Floats  # (c, d)
    scatter: Floats  # (c,) sum of squared distances to the class mean

    @classmethod
    def empty(cls, classes: int, dimensions: int) -> ClassStatistics:
        """Statistics of nothing: what `update` and `merge` start from."""
        if classes < 1 or dimensions < 1:
            raise BadInput(f"classes and dimensions must be at least 1, got {classes} and {dimensions}")
        return cls(np.zeros(classes, np.int64), np.zeros((classes, dimensions)), np.zeros(classes))

    @classmethod
    def from_labelled(cls, features: Any, labels: Any, classes: int) -> ClassStatistics:
        """Statistics of labelled features (m, d) with labels in 0..classes-1."""
        features = to_numpy(features)
        if features.ndim != 2:
            raise BadInput(f"features must have two dimensions (items, d), got shape {features.shape}")
        return cls.empty(classes, features.shape[1]).update(features, labels)

    def update(self, features: Any, labels: Any) -> ClassStatistics:
        """These statistics with more labelled features."""
        features, labels = to_numpy(features), to_numpy(labels)
        self.check(features, labels)
        merged = self
        for rows in blocks(features, _BLOCK_BYTES):
            merged = merged.merge(_of_block(features[rows].astype(np.float64), labels[rows], len(self.counts)))
        return merged

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """The statistics of both groups together."""
        if type(self) is ClassStatistics and type(other) is not ClassStatistics:
            return other.merge(self)  # weighted ones know how to take plain ones in, and trimmed ones that they cannot
        if self.means.shape != other.means.shape:
            raise BadInput(
                f"statistics of shape {self.means.shape} and {other.means.shape} (classes, d) cannot be merged"
            )
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        gap = other.means - self.means
        means = self.means + share[:, None] * gap
        scatter = self.scatter + other.scatter + self.counts * share * np.einsum("cd,cd->c", gap, gap)
        return ClassStatistics(counts, means, scatter)

    @cached_property
    def norms(self) -> Floats:
        """|mean| of each class (c,)."""
        return np.asarray(np.linalg.norm(self.means, axis=1), np.float64)

    @cached_property
    def present(self) -> npt.NDArray[np.bool_]:
        """Classes that have a direction: some label, and a mean that is not zero."""
        return (self.counts > 0) & (self.norms > 0)

    @cached_property
    def directions(self) -> Floats:
        """Unit class means (c, d), zero for classes without a direction."""
        safe = np.where(self.present, self.norms, 1.0)
        return np.where(self.present[:, None], self.means / safe[:, None], 0.0)

    @cached_property
    def total_direction(self) -> Floats:
        """M, the sum of the unit class means (d,)."""
        return np.asarray(self.directions.sum(axis=0), np.float64)

    def centred(self) -> tuple[ClassStatistics, Floats]:
        """These statistics after subtracting the unweighted mean of the class means, and that mean."""
        labelled = self.counts > 0
        centre = self.means[labelled].mean(axis=0) if labelled.any() else np.zeros(self.means.shape[1])
        means = np.where(labelled[:, None], self.means - centre, 0.0)
        return ClassStatistics(self.counts, means, self.scatter), centre

    def check(self, features: Any, labels: Any) -> None:
        """Raise where these arrays cannot be labelled features of these classes."""
        classes, d = self.means.shape
        if features.ndim != 2 or features.shape[1] != d:
            raise BadInput(f"features must have shape (items, {d}), got {features.shape}")
        if labels.shape != (len(features),):
            raise BadInput(f"{len(features)} features need {len(features)} labels, got labels of shape {labels.shape}")
        if len(labels) and labels.dtype.kind not in "iu":
            raise BadInput(f"labels must be integers 0..{classes - 1}, got dtype {labels.dtype}")
        if len(labels) and (labels.min() < 0 or labels.max() >= classes):
            raise BadInput(f"labels must lie in 0..{classes - 1}, got {labels.min()}..{labels.max()}")


def blocks(features: Any, size: int) -> Iterator[slice]:
    """Slices of as many rows as have this size in float64."""
    step = max(1, size // (8 * features.shape[1]))
    return (slice(start, start + step) for start in range(0, len(features), step))


def _of_block(features: Floats, labels: Any, classes: int) -> ClassStatistics:
    """The statistics of one block, in two passes over it."""
    counts = np.bincount(labels, minlength=classes).astype(np.int64)
    member = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(classes, len(labels)))
    means = (member @ features) / np.maximum(counts, 1)[:, None]
    away = features - means[labels]
    scatter = np.bincount(labels, np.einsum("nd,nd->n", away, away), minlength=classes).astype(np.float64)
    return ClassStatistics(counts, means, scatter)
