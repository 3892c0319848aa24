"""Evidence of every kind about a small made-up pool."""

from __future__ import annotations

import numpy as np


def bundle(rng, n, m, classes=4, d=8, kind=np.float64):
    """Evidence of every kind; the values are rounded to half precision first."""

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float16).astype(kind)

    def positive(*shape):
        return (np.maximum(rng.normal(size=shape), 0) + 0.125).astype(np.float16).astype(kind)

    predictions = rng.integers(0, classes, n)
    log = np.where(rng.random((6, n)) < 0.3, rng.integers(0, classes, (6, n)), predictions)
    log[-1] = predictions
    logits = normal(n, classes)
    return {
        "features": positive(n, d),
        "logits": logits,
        "predictions": logits.argmax(axis=1),
        "checkpoint_predictions": log,
        "sampled_probs": rng.dirichlet(np.ones(classes), (5, n)).astype(np.float16).astype(kind),
        "enhanced": normal(n, d),
        "labelled_features": positive(m, d),
        "labelled_logits": normal(m, classes),
        "labelled_enhanced": normal(m, d),
        "labels": np.arange(m) % classes,
    }
