"""A made-up pool with every kind of evidence: for conformance suites, and to try options before any work."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.dynamics.scores import softmax


def example_pool(n: int = 240, *, seed: int = 0, classes: int = 4, copies: int = 1) -> dict[str, Any]:
    """Every kind of evidence for a made-up pool of n items, in float64; `copies` > 1 repeats each item so often."""
    rng = np.random.default_rng(seed)
    m, d = 10 * classes, 12
    centres = rng.standard_normal((classes, d))
    kinds = rng.integers(0, classes, -(-n // copies))
    features = np.maximum(centres[kinds] + rng.standard_normal((len(kinds), d)), 0)
    noise = rng.standard_normal((8, len(kinds), classes))
    features = np.repeat(features, copies, axis=0)[:n]
    noise = np.repeat(noise, copies, axis=1)[:, :n]
    labels = np.arange(m) % classes
    labelled = np.maximum(centres[labels] + rng.standard_normal((m, d)), 0)
    logits = features @ centres.T
    return {
        "features": features,
        "logits": logits,
        "checkpoint_predictions": (logits + 3 * noise).argmax(axis=2),
        "sampled_probs": softmax(logits + noise),
        "mean_probs": softmax(logits + noise).mean(axis=0),
        "enhanced": features,
        "labelled_features": labelled,
        "labels": labels,
        "labelled_logits": labelled @ centres.T,
        "labelled_enhanced": labelled,
    }
