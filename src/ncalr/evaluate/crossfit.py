"""What a network thinks of items it was not trained on, for all labelled items: cross-fitting.

The labelled set is cut into folds, class by class; a network is trained on all folds but one and looks at that one,
at every checkpoint of its window. Under wrong labels the networks are best trained with a loss that does not learn
them by heart (`strong(loss=elr)`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import Pool
from ncalr.data.splits import drawn
from ncalr.errors import BadInput
from ncalr.geometry.statistics import to_numpy
from ncalr.learn.learner import Job, Learner, Model

NEEDS = frozenset({"features", "sampled_probs"})
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Out-of-sample evidence about labelled items."""

    folds: npt.NDArray[np.int64]  # (n,) which network looked at the item
    features: Any  # (n, d)
    logits: Any  # (n, c) log of the mean probability over the checkpoints
    log: Any  # (t, n, c) log of the probability at each checkpoint


def crossfit(
    learner: Learner, pool: Pool, ids: Any, labels: Any, classes: int, *, folds: int = 3, seed: int = 0
) -> CrossFit:
    """Train `folds` networks, side by side where the learner can, and let each look at the items it was not shown."""
    jobs = crossfit_jobs(pool, ids, labels, classes, folds=folds, seed=seed)
    return gather(learner.fit_all(jobs), ids, labels, classes, folds=folds, seed=seed)


def crossfit_jobs(pool: Pool, ids: Any, labels: Any, classes: int, *, folds: int = 3, seed: int = 0) -> list[Job]:
    """The trainings of a cross-fit, for a learner that has others to do beside them."""
    ids, labels = np.asarray(ids), np.asarray(labels)
    fold, jobs = cut(labels, folds, seed, ids), []
    for number in range(folds):
        here = fold == number
        if len(np.unique(labels[~here])) < 2:
            raise BadInput(f"{len(labels)} labels are too few for {folds} folds: label more, or take fewer folds")
        jobs.append(
            Job(pool, ids[~here], labels[~here], classes, seed=seed, round=number, needs=NEEDS, watch=ids[here])
        )
    return jobs


def gather(models: Sequence[Model], ids: Any, labels: Any, classes: int, *, folds: int = 3, seed: int = 0) -> CrossFit:
    """What the models of `crossfit_jobs` say, item by item."""
    fold = cut(np.asarray(labels), folds, seed, np.asarray(ids))
    features: Any = None
    log: Any = None
    for number, model in enumerate(models):
        here, evidence = fold == number, model.evidence()
        seen, probs = to_numpy(evidence["features"]), to_numpy(evidence["sampled_probs"])
        if features is None:
            features = np.empty((len(fold), seen.shape[1]), np.float32)
            log = np.empty((len(probs), len(fold), classes), np.float32)
        features[here] = seen
        log[:, here] = np.log(np.maximum(probs[: len(log)], _LEAST))
    mean = np.log(np.maximum(np.exp(log.astype(np.float64)).mean(axis=0), _LEAST))
    return CrossFit(fold, features, mean, log)


def cut(labels: Any, folds: int, seed: int = 0, ids: Any = None) -> npt.NDArray[np.int64]:
    """A fold for each item, every class spread evenly; drawn by (seed, id)."""
    if not 2 <= folds <= len(labels):
        raise BadInput(f"folds must lie in 2..{len(labels)} for {len(labels)} labels, got {folds}")
    order = drawn(len(labels), seed, "folds", ids)
    order = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    fold = np.empty(len(labels), np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return fold
