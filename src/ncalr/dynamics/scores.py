"""Scores of a log of checkpoints. Letters: t checkpoints (in order of training), n items, c classes.

| function             | labels | from               | value                                                      |
|----------------------|--------|--------------------|------------------------------------------------------------|
| flips                | no     | predictions (t, n) | changes between consecutive checkpoints, 0..t-1            |
| label_dispersion     | no     | predictions (t, n) | 1 - share of the most frequent prediction                  |
| variance             | no     | outputs (t, n, c)  | variance over t, averaged over classes                     |
| temporal_discrepancy | no     | outputs (t, n, c)  | distance between two checkpoints' outputs                  |
| forgetting_events    | yes    | predictions (t, n) | times it went from right to wrong; t if it was never right |
| aum                  | yes    | logits (t, n, c)   | mean margin of the given label over the best other class   |

Sources: flips, the Feature Fluctuation of Goel et al. 2025 (whose text says "variance of logits" and whose formula
counts flips: `variance` is the other reading); dispersion, Zolfaghari Bengar et al. 2021; forgetting, Toneva et al.
2019; AUM, Pleiss et al. 2020; temporal discrepancy, Huang et al. 2021.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput
from ncalr.geometry.statistics import Floats
from ncalr.kernels import to_numpy

_BLOCK = 1 << 16


def flips(predictions_tn: Any) -> npt.NDArray[np.uint16]:
    """Feature Fluctuation: how often the predicted class changed from one checkpoint to the next.

    >>> flips([[0, 0, 1], [1, 0, 1], [0, 0, 2]]).tolist()
    [2, 0, 1]
    """
    log = _predictions(predictions_tn)
    count = np.zeros(log.shape[1], np.uint16)
    for before, after in pairwise(log):
        count += before != after
    return count


def label_dispersion(predictions_tn: Any) -> Floats:
    """1 - (how often the most frequent class was predicted) / t; also the variation ratio of the checkpoints.

    >>> label_dispersion([[0, 3], [1, 3], [0, 3], [2, 3]]).tolist()
    [0.5, 0.0]
    """
    log = _predictions(predictions_tn)
    t, n = log.shape
    score = np.empty(n)
    for start in range(0, n, _BLOCK):
        block = np.sort(log[:, start : start + _BLOCK], axis=0)
        run = np.ones(block.shape[1], np.int64)
        longest = run.copy()
        for before, after in pairwise(block):
            run = np.where(before == after, run + 1, 1)
            np.maximum(longest, run, out=longest)
        score[start : start + _BLOCK] = 1 - longest / t
    return score


def variance(outputs_tnc: Any, of: Literal["softmax", "logits"] = "softmax") -> Floats:
    """Variance over the checkpoints, averaged over the classes, of the softmax or of the L2-normalised logits.

    Logits grow in the terminal phase, so their raw variance measures growth; each row is scaled to length 1.
    """
    if of not in ("softmax", "logits"):
        raise BadInput(f"of must be 'softmax' or 'logits', got {of!r}")
    outputs = _outputs(outputs_tnc)
    total = np.zeros(outputs.shape[1:])
    squares = np.zeros(outputs.shape[1:])
    first = None
    for step in outputs:
        values = softmax(step) if of == "softmax" else _unit(step.astype(np.float64))
        first = values if first is None else first
        total += values - first  # shifted by the first checkpoint: no difference of large numbers below
        squares += (values - first) ** 2
    t = len(outputs)
    return np.asarray(np.maximum(squares / t - (total / t) ** 2, 0).mean(axis=1), np.float64)


def temporal_discrepancy(outputs_tnc: Any, back: int = 1) -> Floats:
    """Euclidean distance between the last checkpoint's outputs and those `back` checkpoints before."""
    outputs = _outputs(outputs_tnc)
    if not 1 <= back < len(outputs):
        raise BadInput(f"back must lie in 1..{len(outputs) - 1} for {len(outputs)} checkpoints, got {back}")
    gap = outputs[-1].astype(np.float64) - outputs[-1 - back]
    return np.asarray(np.linalg.norm(gap, axis=1), np.float64)


def forgetting_events(predictions_tn: Any, labels: Any) -> npt.NDArray[np.int64]:
    """How often an item went from right to wrong; the number of checkpoints for one that was never right."""
    log, labels = _predictions(predictions_tn), _labels(labels, np.shape(predictions_tn)[1])
    right = log[0] == labels
    learnt, events = right.copy(), np.zeros(log.shape[1], np.int64)
    for step in log[1:]:
        now = step == labels
        events += right & ~now
        learnt |= now
        right = now
    return np.where(learnt, events, len(log))


def aum(logits_tnc: Any, labels: Any) -> Floats:
    """Area under the margin: mean over checkpoints of the label's logit less the best other logit."""
    logits = _outputs(logits_tnc)
    labels = _labels(labels, logits.shape[1], logits.shape[2])
    if logits.shape[2] < 2:
        raise BadInput("a margin needs at least two classes, got one")
    total = np.zeros(logits.shape[1])
    rows = np.arange(len(labels))
    for step in logits:
        values = step.astype(np.float64)
        own = values[rows, labels]
        values[rows, labels] = -np.inf
        total += own - values.max(axis=1)
    return np.asarray(total / len(logits), np.float64)


def softmax(logits_nc: Any) -> Floats:
    """Softmax of each row in float64."""
    shifted = np.asarray(logits_nc, np.float64)
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return np.asarray(shifted, np.float64)


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0), np.float64)


def _predictions(given: Any) -> Any:
    log = to_numpy(given, "checkpoint predictions")
    if log.ndim != 2 or not len(log):
        raise BadInput(f"checkpoint predictions must have shape (checkpoints, items), got {log.shape}")
    if log.dtype.kind not in "iu":
        raise BadInput(f"checkpoint predictions must be class numbers (integers), got dtype {log.dtype}")
    return log


def _outputs(given: Any) -> Any:
    log = to_numpy(given, "checkpoint outputs")
    if log.ndim != 3 or not len(log) or log.dtype.kind not in "fiu":
        raise BadInput(
            f"checkpoint outputs must be numbers of shape (checkpoints, items, classes), got {log.dtype} of {log.shape}"
        )
    return log


def _labels(given: Any, n: int, classes: int | None = None) -> Any:
    labels = to_numpy(given, "labels")
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise BadInput(f"labels must be {n} integers, got shape {labels.shape} of {labels.dtype}")
    if classes is not None and n and (labels.min() < 0 or labels.max() >= classes):
        raise BadInput(f"labels must lie in 0..{classes - 1}, got {labels.min()}..{labels.max()}")
    return labels
