"""Head, middle and tail: accuracy where labels are plenty and where they are rare, and what was picked of each.

Classes are ranked by how many items the pool has of them and cut into thirds, the largest first (the head gets what
thirds leave over). The mean over classes, not over items, is taken inside each, so that no class hides another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput

GROUPS = ("head", "middle", "tail")


def thirds(counts: Any) -> dict[str, npt.NDArray[np.intp]]:
    """The classes of each third, the largest classes first; ties by class number.

    >>> {name: found.tolist() for name, found in thirds([5, 50, 20, 1]).items()}
    {'head': [1, 2], 'middle': [0], 'tail': [3]}
    """
    counts = np.asarray(counts)
    if counts.ndim != 1 or len(counts) < 3:
        raise BadInput(f"head, middle and tail need at least three classes, got counts of shape {counts.shape}")
    order = np.argsort(-counts, kind="stable")
    return dict(zip(GROUPS, np.array_split(order, 3), strict=True))


def tail_accuracy(predictions: Any, labels: Any, pool_counts: Any) -> dict[str, float]:
    """Mean accuracy over the classes of each third; classes without a test item are left out."""
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape:
        raise BadInput(f"{len(labels)} labels need as many predictions, got shape {predictions.shape}")
    classes = len(np.asarray(pool_counts))
    tested = np.bincount(labels, minlength=classes)
    right = np.bincount(labels[predictions == labels], minlength=classes)
    with np.errstate(invalid="ignore"):
        share = np.where(tested > 0, right / np.maximum(tested, 1), np.nan)
    groups = thirds(pool_counts)
    return {name: float(np.nanmean(share[members])) for name, members in groups.items() if (tested[members] > 0).any()}


def tail_picks(labels: Any, pool_counts: Any) -> dict[str, float]:
    """What share of the labels fell to each third, over what share of the pool it is: 1 is as random would pick.

    NaN where nothing was picked, or the pool has nothing of a third.
    """
    counts = np.asarray(pool_counts, np.float64)
    got = np.bincount(np.asarray(labels), minlength=len(counts))
    share = {}
    for name, members in thirds(counts).items():
        expected = counts[members].sum() / counts.sum()
        some = expected and got.sum()
        share[name] = float(got[members].sum() / got.sum() / expected) if some else float("nan")
    return share
