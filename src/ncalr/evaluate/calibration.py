"""Whether a model's confidence can be believed: ECE, NLL, Brier score, and accuracy against coverage.

    ECE   = sum over bins of |bin| / n * |accuracy - mean confidence|     equal-width bins of the top probability
            (Guo et al., "On Calibration of Modern Neural Networks", 2017; 15 bins)
    NLL   = - mean log p(true class)
    Brier = mean over items of sum over classes of (p - onehot)^2         in 0..2 (Brier, 1950; the sum over classes)

A model in the terminal phase is certain of everything it was trained on, so all of these are for items it has not seen.
The accuracy-coverage curve says how accurate the model is on the share of the items it is most certain of; the area
above it is AURC (Geifman and El-Yaniv, 2017), the mean risk over all coverages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.dynamics.scores import softmax
from ncalr.errors import BadInput
from ncalr.kernels import to_numpy

Floats = npt.NDArray[np.float64]


def probabilities(logits: Any) -> Floats:
    """The softmax of logits (n, c), in float64."""
    return softmax(to_numpy(logits))


def calibration(probs: Any, labels: Any, *, bins: int = 15) -> dict[str, float]:
    """ECE, NLL, Brier score, AURC and the accuracy, as one dictionary.

    >>> calibration(np.array([[0.8, 0.2], [0.8, 0.2]]), np.array([0, 1]))["ece"]
    0.3
    """
    probs, labels = _checked(probs, labels)
    top, guess = probs.max(axis=1), probs.argmax(axis=1)
    right = (guess == labels).astype(np.float64)
    inside = np.minimum((top * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(inside, right - top, minlength=bins)
    own = probs[np.arange(len(labels)), labels]
    squares = (probs * probs).sum(axis=1) - 2 * own + 1
    coverage, accuracy = accuracy_coverage(probs, labels)
    return {
        "accuracy": float(right.mean()),
        "ece": round(float(np.abs(gaps).sum() / len(labels)), 12),
        "nll": float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean()),
        "brier": float(squares.mean()),
        "aurc": float((1 - accuracy).mean()),
        "accuracy at 80% coverage": float(accuracy[np.searchsorted(coverage, 0.8 - 1e-12)]),
    }


def accuracy_coverage(probs: Any, labels: Any) -> tuple[Floats, Floats]:
    """Coverage (1/n, 2/n, ..., 1) and the accuracy on that share of the items, the most certain first.

    Items of equal certainty count as if in every order at once: their block rises evenly.
    """
    probs, labels = _checked(probs, labels)
    top = probs.max(axis=1)
    right = (probs.argmax(axis=1) == labels).astype(np.float64)
    values, block = np.unique(-top, return_inverse=True)
    sizes = np.bincount(block, minlength=len(values))
    even = (np.bincount(block, right, minlength=len(values)) / sizes)[np.sort(block)]
    count = np.arange(1, len(labels) + 1)
    return count / len(labels), np.cumsum(even) / count


def _checked(probs: Any, labels: Any) -> tuple[Floats, npt.NDArray[np.int64]]:
    probs, labels = to_numpy(probs), to_numpy(labels)
    if probs.ndim != 2 or not len(probs) or labels.shape != (len(probs),) or labels.dtype.kind not in "iu":
        raise BadInput(
            f"expected probabilities (n, c) and n labels, got {probs.shape} and {labels.dtype} {labels.shape}"
        )
    if labels.min() < 0 or labels.max() >= probs.shape[1]:
        raise BadInput(f"labels must lie in 0..{probs.shape[1] - 1}, got {labels.min()}..{labels.max()}")
    if not np.isfinite(probs).all() or probs.min() < 0 or np.abs(probs.sum(axis=1) - 1).max() > 1e-3:
        raise BadInput("probabilities must be finite, not negative, and sum to 1 in every row; pass softmax outputs")
    return probs.astype(np.float64), labels.astype(np.int64)
