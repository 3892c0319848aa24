"""Out-of-sample class probabilities from feature vectors: what a model that was not shown a label says about its item.

Two models are calibrated and averaged, since each is ahead of the other on some data:

* kernel ridge regression on one-hot labels (Gaussian kernel on centred rows of length 1), whose leave-one-out
  predictions have a closed form: with U, e the eigenvectors and eigenvalues of the centred kernel matrix and
  H = U diag(e / (e + n lambda)) U' + 1/n,  prediction without item i = ((H Y)_i - H_ii Y_i) / (1 - H_ii);
  beyond `LANDMARKS` rows a Nystrom approximation;
* multinomial logistic regression (`ncalr.learn.linear`), cross-fitted on `FOLDS` folds.

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

from ncalr.evaluate.crossfit import cut
from ncalr.evaluate.noise_share import Calibrated, calibrate, log_softmax
from ncalr.kernels import choose
from ncalr.learn.linear import minimise, prepare

Floats = npt.NDArray[np.float64]
FOLDS = 5
LANDMARKS = 1500
RIDGES = np.geomspace(1e-1, 1e-4, 8)
PENALTIES = np.geomspace(1e-1, 1e-4, 7)
STEPS, TOLERANCE = 50, 1e-5  # of each fit, which starts from a stronger penalty's
BLOCK = 4096
LEAST = -700.0  # log-probability of a class without labels
SURE = 1e-12  # of the largest eigenvalue: directions below carry rounding errors alone


def out_of_sample(features: Any, labels: Any, classes: int, *, folds: int = FOLDS, seed: int = 0) -> Floats:
    """Return log-probabilities (n, c) of the classes for each row, by models that were not shown its label.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 30)
    >>> features = rng.normal(size=(60, 4)) + 3 * labels[:, None]
    >>> bool((out_of_sample(features, labels, 2).argmax(axis=1) == labels).mean() > 0.9)
    True
    """
    present, labels = np.unique(np.asarray(labels), return_inverse=True)
    rows = _standard(features)
    names = np.array([int.from_bytes(blake2b(row.tobytes(), digest_size=7).digest(), "big") for row in rows])
    order = np.lexsort((labels, names))
    fold = np.empty(len(labels), np.int64)
    fold[order] = cut(labels[order], folds, seed, names[order])
    ridge = _best(_ridge_path(rows, labels, order), labels)
    logistic = _best(_logistic_path(rows, labels, fold), labels)
    found = np.full((len(labels), classes), LEAST)
    found[:, present] = log_softmax((ridge.log_probs + logistic.log_probs) / 2)
    return found


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


def _ridge_path(rows: Any, labels: Any, order: Any) -> Iterator[Floats]:
    """Yield leave-one-out scores (n, c) of kernel ridge regression."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float64)
    n, answers = len(unit), np.eye(labels.max() + 1)[labels]
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


def _logistic_path(rows: Any, labels: Any, fold: Any) -> Iterator[Floats]:
    """Yield out-of-fold scores (n, c) of logistic regressions, each started from the one before."""
    problem = prepare(rows, labels, choose("cpu", [rows]), "features", standardise=False)
    parts = {number: problem.rows(fold != number) for number in np.unique(fold)}
    found: dict[Any, Any] = dict.fromkeys(parts, problem.zeros())
    for penalty in PENALTIES:
        scores = np.empty((len(labels), len(problem.classes)))
        for number, part in parts.items():
            strength = 1 / (penalty * len(part.labels))
            found[number] = minimise(part, found[number], strength, TOLERANCE, STEPS).parameters
            here = fold == number
            scores[here] = problem.features[here] @ found[number][:, :-1].T + found[number][:, -1]
        yield scores
