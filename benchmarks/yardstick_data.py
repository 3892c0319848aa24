"""Load the yardstick's data: vectors of pretrained networks, scikit-learn's own sets, and wrong labels for them.

    features, labels, train, classes = load("oxford_pets")
    given = noisy(labels, "uniform", 0.2, seed=0)

The environment variable NCALR_YARDSTICK names the folder with `embeddings/NAME.npz` (`features`, `labels`, `train`) and
the human labels (`cifar10n_labels.npz`, `cifar100n_partial.npz`).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SETS = ("cifar10", "cifar100", "cub200", "flowers102", "mini_imagenet64", "oxford_pets", "sst2_minilm")
SMALL = ("digits", "wine", "breast_cancer", "iris")
KINDS = ("none", "uniform", "next", "instance")
HUMAN = {"cifar10": ("aggre", "random1", "random2", "random3", "worse"), "cifar100": ("noisy",)}
MOST = 0.9  # chance of a wrong label for one item, where it depends on the item


def folder() -> Path:
    """Return the folder with the data."""
    if "NCALR_YARDSTICK" not in os.environ:
        raise SystemExit("Set NCALR_YARDSTICK to the folder that holds embeddings/*.npz.")
    return Path(os.environ["NCALR_YARDSTICK"])


@cache
def load(name: str) -> tuple[Any, Any, Any, int]:
    """Return features (n, d) float32, labels (n,), the training mask (n,) and the number of classes."""
    if name in SMALL:
        import sklearn.datasets

        features, labels = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        features = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-6)
        train = np.random.default_rng(0).permutation(len(labels)) < 0.7 * len(labels)
    else:
        with np.load(folder() / "embeddings" / f"{name}.npz") as found:
            features, labels, train = found["features"], found["labels"], found["train"]
    labels = labels.astype(np.int64)
    return np.asarray(features, np.float32), labels, train, int(labels.max()) + 1


def noisy(labels: Any, kind: str, share: float = 0.2, seed: int = 0, features: Any = None) -> Any:
    """Return the labels with wrong ones among them.

    none      as they are
    uniform   a share is replaced by one of the other classes
    next      a share is replaced by the class after it
    instance  an item's chance is in proportion to the doubt of a model, which also draws the wrong class; `share` in
              the mean (needs `features`)
    """
    labels, classes = np.asarray(labels), int(labels.max()) + 1
    rng = np.random.default_rng([seed, 7])
    if kind == "none":
        return labels.copy()
    if kind == "instance":
        chances = _judged(features, labels, classes)
        doubt = 1 - chances[np.arange(len(labels)), labels]
        chances[np.arange(len(labels)), labels] = 0
        chances += 1e-6 * (chances.sum(axis=1, keepdims=True) <= 0)
        chances /= chances.sum(axis=1, keepdims=True)
        others = (chances.cumsum(axis=1) > rng.random((len(labels), 1))).argmax(axis=1)
        return np.where(rng.random(len(labels)) < _scaled(doubt, share), others, labels)
    step = rng.integers(1, classes, len(labels)) if kind == "uniform" else 1
    return np.where(rng.random(len(labels)) < share, (labels + step) % classes, labels)


def human(name: str, which: str) -> tuple[Any, Any]:
    """Return rows of `load(name)` and the labels that people gave them (CIFAR-10N, CIFAR-100N).

    The sets of vectors are random rows of the original training set, in its order; which rows is known by drawing them
    again, and checked against the true labels.
    """
    rng = np.random.default_rng(0)
    rows = rng.permutation(50_000)
    if name == "cifar100":  # drawn after CIFAR-10's training and test rows
        rng.permutation(10_000)
        rows = rng.permutation(50_000)
    rows = np.sort(rows[:20_000])
    labels = load(name)[1][:20_000]
    if name == "cifar100":
        with np.load(folder() / "cifar100n_partial.npz") as found:
            given = found["noisy_label"][rows].astype(np.int64)
        agreement = (given == labels)[given >= 0].mean()
        assert abs(agreement - 0.647) < 0.02, f"{name}: {agreement:.3f} of the human labels agree, expected 0.647"
    else:
        with np.load(folder() / "cifar10n_labels.npz") as found:
            assert (found["clean_label"][rows] == labels).all(), f"{name}: the rows do not match the human labels"
            given = found[{"aggre": "aggre_label", "worse": "worse_label"}.get(which, f"random_label{which[-1]}")]
            given = given[rows].astype(np.int64)
    known = np.flatnonzero(given >= 0)
    return known, given[known]


def _judged(features: Any, labels: Any, classes: int) -> Any:
    """Return chances of every class (n, c) by discriminant analysis, each half of the items judged by the other."""
    features = np.asarray(features, np.float64)
    half = np.random.default_rng(0).permutation(len(labels)) % 2
    chances = np.empty((len(labels), classes))
    for here in (half == 0, half == 1):
        rest = ~here
        own = np.eye(classes)[labels[rest]]
        counts = own.sum(axis=0)
        means = own.T @ features[rest] / np.maximum(counts, 1)[:, None]
        inside = features[rest] - means[labels[rest]]
        spread = inside.T @ inside / rest.sum()
        spread += 0.1 * np.trace(spread) / len(spread) * np.eye(len(spread))
        weights = np.linalg.solve(spread, means.T)
        scores = features[here] @ weights - 0.5 * (means.T * weights).sum(axis=0)
        scores[:, counts == 0] = -np.inf
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances[here] = scores / scores.sum(axis=1, keepdims=True)
    return chances


def _scaled(doubt: Any, share: float) -> Any:
    """Return chances in proportion to the doubt, at most `MOST`, with this mean."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        if np.minimum(middle * (doubt + 0.01), MOST).mean() < share:
            low = middle
        else:
            high = middle
    return np.minimum(high * (doubt + 0.01), MOST)
