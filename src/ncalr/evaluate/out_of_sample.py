"""Out-of-sample class probabilities from feature vectors: what a model that was not shown a label says about its item.

Two models are calibrated and averaged, since each is ahead of the other on some data:

* kernel ridge regression on one-hot labels (Gaussian kernel on centred rows of length 1), whose leave-one-out
  predictions have a closed form: with U, e the eigenvectors and eigenvalues of the centred kernel matrix and
  H = U diag(e / (e + n lambda)) U' + 1/n,  prediction without item i = ((H Y)_i - H_ii Y_i) / (1 - H_ii);
  beyond `LANDMARKS` rows a Nystrom approximation;
* multinomial logistic regression, cross-fitted on `FOLDS` folds.

The regularisation of each is the one with the highest held-out likelihood of the labels, as `noise_share.calibrate`
has it: a temperature, and a chance that a label is any class. Without that chance wrong labels make soft models look
better than they rank.

Rows are drawn into folds by their content: neither ids nor the order of the rows change a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ncalr.evaluate.crossfit import cut
from ncalr.evaluate.noise_share import Calibrated, calibrate, log_softmax

Floats = npt.NDArray[np.float64]
FOLDS = 5
LANDMARKS = 1500
RIDGES = np.geomspace(1e-1, 1e-4, 8)
PENALTIES = np.geomspace(1e-1, 1e-4, 7)
STEPS = 30  # of L-BFGS on the preconditioned problem
BLOCK = 4096
SURE = 1e-12  # of the largest eigenvalue: directions below carry rounding errors alone


def out_of_sample(features: Any, labels: Any, classes: int, *, folds: int = FOLDS, seed: int = 0) -> Floats:
    """Return log-probabilities (n, c) of the classes for each row, by models that were not shown its label.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 30)
    >>> features = rng.normal(size=(60, 4)) + 3 * labels[:, None]
    >>> bool((out_of_sample(features, labels, 2).argmax(axis=1) == labels).mean() > 0.9)
    True
    """
    labels = np.asarray(labels)
    rows = _standard(features)
    names = np.array([int.from_bytes(blake2b(row.tobytes(), digest_size=7).digest(), "big") for row in rows])
    order = np.lexsort((labels, names))
    fold = np.empty(len(labels), np.int64)
    fold[order] = cut(labels[order], folds, seed, names[order])
    ridge = _best(_ridge_path(rows, labels, classes, order), labels)
    logistic = _best(_logistic_path(rows, labels, classes, fold), labels)
    return log_softmax((ridge.log_probs + logistic.log_probs) / 2)


def _best(path: Iterator[Floats], labels: Any) -> Calibrated:
    """Return the likeliest of a path that goes from much regularisation to little, as far as it gets better."""
    best = None
    for worse, scores in enumerate(path):
        found = calibrate(scores, labels)
        if best is None or found.likelihood > best.likelihood:
            best, last = found, worse
        elif worse > last + 1:
            break
    assert best is not None  # noqa: S101 (no path is empty)
    return best


def _standard(features: Any) -> npt.NDArray[np.float32]:
    """Return centred rows, of mean squared length 1."""
    rows = np.asarray(features, np.float64)
    rows = rows - np.sort(rows, axis=0).mean(axis=0)  # sorted: the sum does not depend on the order of the rows
    size = np.sqrt(np.sort((rows**2).sum(axis=1)).mean())
    return np.asarray(rows / (size or 1.0), np.float32)


def _ridge_path(rows: Any, labels: Any, classes: int, order: Any) -> Iterator[Floats]:
    """Yield leave-one-out scores (n, c) of kernel ridge regression."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float64)
    n, answers = len(unit), np.eye(classes)[labels]
    marks = unit[order[: LANDMARKS if n > LANDMARKS else n]]
    if n > LANDMARKS:
        values, vectors = np.linalg.eigh(np.exp(marks @ marks.T - 1))
        there = values > values[-1] * 1e-7
        rooted = vectors[:, there] / np.sqrt(values[there])
        mapped = np.concatenate([np.exp(unit[at : at + BLOCK] @ marks.T - 1) @ rooted for at in range(0, n, BLOCK)])
        mapped -= mapped.mean(axis=0)
        values, vectors = np.linalg.eigh(mapped.T @ mapped)
        there = values > values[-1] * SURE
        values = values[there]
        vectors = mapped @ (vectors[:, there] / np.sqrt(values))
    else:
        kernel = np.exp(unit @ unit.T - 1)
        kernel -= kernel.mean(axis=0)
        kernel -= kernel.mean(axis=1, keepdims=True)
        values, vectors = np.linalg.eigh(kernel)
        there = values > values[-1] * SURE
        values, vectors = values[there], vectors[:, there]
    mean, squares = answers.mean(axis=0), vectors**2
    along = vectors.T @ (answers - mean)
    for ridge in RIDGES:
        kept = values / (values + n * ridge)
        own = (squares @ kept + 1 / n)[:, None]
        yield (vectors @ (kept[:, None] * along) + mean - own * answers) / np.maximum(1 - own, 1e-6)


def _logistic_path(rows: Any, labels: Any, classes: int, fold: Any) -> Iterator[Floats]:
    """Yield out-of-fold scores (n, c) of logistic regressions, each started from the one before."""
    wide = rows.astype(np.float64)
    if wide.shape[1] > len(wide):  # then the main axes come cheaper from the products of rows
        values, vectors = np.linalg.eigh(wide @ wide.T / len(wide))
        turned = vectors * np.sqrt(np.maximum(values, 0) * len(wide))
    else:
        values, vectors = np.linalg.eigh(wide.T @ wide / len(wide))
        turned = wide @ vectors
    there = values > values[-1] * 1e-7
    values, turned = values[there], turned[:, there].astype(np.float32)
    turned = np.hstack([turned, np.ones((len(turned), 1), np.float32)])
    weights: dict[int, Any] = {}
    for penalty in PENALTIES:
        scores = np.empty((len(labels), classes))
        for number in np.unique(fold):
            here = fold == number
            weights[number] = _logistic(turned[~here], labels[~here], classes, penalty, values, weights.get(number))
            scores[here] = turned[here] @ weights[number].astype(np.float32)
        yield scores


def _logistic(rows: Any, labels: Any, classes: int, penalty: float, values: Floats, start: Any) -> Floats:
    """Return weights (d + 1, c): L-BFGS on rows scaled by an upper bound of the Hessian, in the features' main axes."""
    scale = np.append(1 / np.sqrt(values / 4 + penalty), 1.0)
    scaled = rows * scale.astype(np.float32)
    shrink = np.append(penalty * scale[:-1] ** 2, 1e-6)[:, None]
    n, places = len(rows), np.arange(len(rows))

    def cost(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(-1, classes)
        scores = scaled @ weights.astype(np.float32)
        scores -= scores.max(axis=1, keepdims=True)
        own = scores[places, labels].astype(np.float64)
        np.exp(scores, out=scores)
        total = scores.sum(axis=1, keepdims=True)
        scores /= total
        scores[places, labels] -= 1
        loss = float((np.log(total[:, 0].astype(np.float64)) - own).mean() + 0.5 * (shrink * weights**2).sum())
        return loss, ((scaled.T @ scores).astype(np.float64) / n + shrink * weights).ravel()

    first = np.zeros(len(scale) * classes) if start is None else (start / scale[:, None]).ravel()
    found = minimize(cost, first, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "ftol": 1e-7, "gtol": 1e-6})
    return np.asarray(found.x.reshape(-1, classes) * scale[:, None], np.float64)
