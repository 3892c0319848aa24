"""The sums behind the collapse measures, taken on the device in float64.

What leaves the device is as large as the class means, not as the labelled set, so that looking at the collapse costs
a training next to nothing; `ncalr.geometry.collapse` turns the sums into the measures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ncalr.geometry import ClassStatistics
from ncalr.geometry.collapse import Collapse, collapse_of_sums
from ncalr.geometry.separation import separation_of


class Sums:
    """Takes (features, logits, labels) of the labelled set on the device; `read` gives them to the host."""

    def __init__(self, features: Any, logits: Any, labels: Any, classes: int, add: Any = lambda sums: sums) -> None:
        """`add` sums over the processes that have a share of the labelled set each."""
        wide = features.double()
        predictions = logits.argmax(1)
        self.counts = torch.zeros(classes, dtype=torch.float64, device=wide.device)
        self.counts.index_add_(0, labels, torch.ones_like(labels, dtype=torch.float64))
        sums = torch.zeros((classes, wide.shape[1]), dtype=torch.float64, device=wide.device)
        sums.index_add_(0, labels, wide)
        add(self.counts)
        add(sums)
        present = self.counts > 0
        self.means = sums / self.counts.clamp_min(1)[:, None]
        away = wide - self.means[labels]
        self.scatter = add(torch.zeros_like(self.counts).index_add_(0, labels, (away * away).sum(1)))
        centre = (self.means * present[:, None]).sum(0) / present.sum()
        centred = (self.means - centre) * present[:, None]  # for the digits alone: nc1 does not see a common shift
        inner = away @ centred.T
        self.inner = add(inner.T @ inner)
        squared = (self.means * self.means).sum(1) - 2 * (wide @ self.means.T)  # less |h|^2, the same for all classes
        nearest = torch.where(present, squared, torch.inf).argmin(1)
        self.tally = add(torch.stack([(predictions == labels).sum(), (nearest == predictions).sum()]))

    def tensors(self) -> tuple[Any, ...]:
        """What has to travel to the host."""
        return self.counts, self.means, self.scatter, self.inner, self.tally


def read(tensors: Any, weights: Any) -> tuple[Collapse, float, dict[str, Any]]:
    """The measures, the training accuracy and the separation of the means, from sums that arrived on the host."""
    counts, means, scatter, inner, tally = (t.numpy() for t in tensors)
    statistics = ClassStatistics(counts.astype(np.int64), means, scatter)
    items = counts.sum()
    collapse = collapse_of_sums(statistics, inner, weights=weights, nc4=1 - float(tally[1]) / items)
    return collapse, float(tally[0]) / items, separation_of(statistics)
