"""How far apart the class means are: the distances behind the paper's histogram.

Collapse pulls the features of a class together; what a strategy is judged by is also how well its labels push the
classes apart. The raw distance between two means grows with the length of the features, so it is given beside the
mean length of the class means, and a histogram of one network can be laid beside that of another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.geometry.statistics import ClassStatistics, Floats

QUANTILES = 21


def class_distances(statistics: ClassStatistics) -> Floats:
    """The distance of every two class means, of the classes that have labels (pairs,).

    >>> means = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> class_distances(ClassStatistics(np.array([1, 1, 0]), means, np.zeros(3))).tolist()
    [5.0]
    """
    means = statistics.means[statistics.counts > 0]
    away = means - means.mean(axis=0)  # distances stay, and digits are not lost to a common shift
    gram = away @ away.T
    squared = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2 * gram
    return np.asarray(np.sqrt(np.maximum(squared, 0.0))[np.triu_indices(len(means), 1)], np.float64)


def separation_of(statistics: ClassStatistics) -> dict[str, Any]:
    """The distribution of the distances between class means, small enough to be kept for every round.

    `quantiles` are evenly spaced from the smallest to the largest distance; `norm` is the mean length of the means.
    """
    distances = class_distances(statistics)
    if not len(distances):
        return {"quantiles": [], "norm": 0.0}
    steps = np.quantile(distances, np.linspace(0, 1, QUANTILES))
    norm = float(statistics.norms[statistics.counts > 0].mean())
    return {"quantiles": [float(f"{step:.5g}") for step in steps], "norm": float(f"{norm:.5g}")}
