"""What networks think of labels: of those they were not shown, and of those they were, for all labelled items.

*Out of sample.* The labelled set is cut into folds, class by class; a network is trained on all folds but one and looks
at that one, at every checkpoint of its window.

*In sample.* One more network is trained on all labels, with a loss that does not learn wrong ones by heart
(`strong(loss=elr)`): a label that it refuses to learn is seldom right. Only what it says while the window is open
counts; at the high learning rate before, opinions are mostly noise.

All of them are trained side by side where the learner can.
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
from ncalr.kernels import to_numpy
from ncalr.learn.learner import Job, Learner, Model

NEEDS = frozenset({"features", "sampled_probs"})
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Evidence about labelled items."""

    folds: npt.NDArray[np.int64]  # (n,) which network looked at the item
    features: Any  # (n, d) out of sample
    logits: Any  # (n, c) out of sample, log of the mean probability over the checkpoints
    log: Any  # (t, n, c) in sample, logits at the late checks


def crossfit(
    learner: Learner, pool: Pool, ids: Any, labels: Any, classes: int, *, folds: int = 3, seed: int = 0
) -> CrossFit:
    """Train `folds` networks and one more, and let them look at the labelled items."""
    jobs = crossfit_jobs(pool, ids, labels, classes, folds=folds, seed=seed)
    return gather(learner.fit_all(jobs), ids, labels, classes, folds=folds, seed=seed)


def crossfit_jobs(pool: Pool, ids: Any, labels: Any, classes: int, *, folds: int = 3, seed: int = 0) -> list[Job]:
    """The trainings of a cross-fit, for a learner that has others to do beside them."""
    ids, labels = np.asarray(ids), np.asarray(labels)
    fold, jobs = cut(labels, folds, seed, ids), []
    if len(np.unique(labels)) < 2:
        raise BadInput(f"all {len(labels)} labels are of one class: there is nothing that they could be taken for")
    for number in range(folds):
        here = fold == number
        if len(np.unique(labels[~here])) < 2:
            raise BadInput(f"{len(labels)} labels are too few for {folds} folds: label more, or take fewer folds")
        jobs.append(
            Job(pool, ids[~here], labels[~here], classes, seed=seed, round=number, needs=NEEDS, watch=ids[here])
        )
    whole = Job(pool, ids, labels, classes, seed=seed, round=folds, needs=frozenset({"labelled_log"}), watch=ids[:0])
    return [*jobs, whole]


def gather(models: Sequence[Model], ids: Any, labels: Any, classes: int, *, folds: int = 3, seed: int = 0) -> CrossFit:
    """What the models of `crossfit_jobs` say, item by item."""
    fold = cut(np.asarray(labels), folds, seed, np.asarray(ids))
    *apart, whole = models
    features, probs = np.empty(0), np.empty(0)
    for number, model in enumerate(apart):
        here, evidence = fold == number, model.evidence()
        seen, said = to_numpy(evidence["features"]), to_numpy(evidence["sampled_probs"]).astype(np.float64).mean(axis=0)
        if not number:
            features, probs = np.empty((len(fold), seen.shape[1]), np.float32), np.empty((len(fold), classes))
        features[here], probs[here] = seen, said
    log, record = to_numpy(whole.evidence()["labelled_log"]), whole.record
    late = [at for at, check in enumerate(record.history) if check["epoch"] >= record.began]
    return CrossFit(fold, features, np.log(np.maximum(probs, _LEAST)), log[late] if late else log)


def cut(labels: Any, folds: int, seed: int = 0, ids: Any = None) -> npt.NDArray[np.int64]:
    """A fold for each item, every class spread evenly; drawn by (seed, id)."""
    if not 2 <= folds <= len(labels):
        raise BadInput(f"folds must lie in 2..{len(labels)} for {len(labels)} labels, got {folds}")
    order = drawn(len(labels), seed, "folds", ids)
    order = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    fold = np.empty(len(labels), np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return fold
