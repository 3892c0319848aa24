"""A small pool with every kind of evidence, in memory and on disk in so many shards."""

from __future__ import annotations

import numpy as np

from ncalr.acquire import strategies
from ncalr.data.exchange import by_item
from ncalr.data.shards import write_shards

N, LABELLED, CLASSES, D = 900, 40, 4, 6
ON_DISK = ("features", "logits", "checkpoint_predictions", "sampled_probs", "enhanced")
VARIANTS = [
    "ncal(fusion=winsor)",
    "ncal(fusion=rank)",
    "ncal(sign=-1, center=True, counts=neutral)",
    "ncal(means=trimmed)",
    "ncal(select=quota)",
    "ncal(select=stochastic_top_k)",
    "ncal(select=filtered(then=kmeans_pp))",
    "ncal(select=sequential(shortlist=2))",
    "coreset(select=kmeans_pp)",
]
EVERYTHING = [*strategies(), *VARIANTS]


def evidence():
    """Evidence of every kind, with ties: every row is there three times or so."""
    rng = np.random.default_rng(0)
    twins = rng.integers(0, N // 3, N)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float16).astype(np.float32)

    log = rng.integers(0, CLASSES, (5, N // 3))
    return {
        "features": np.abs(normal(N // 3, D))[twins] + 0.125,
        "logits": normal(N // 3, CLASSES)[twins],
        "checkpoint_predictions": log[:, twins],
        "sampled_probs": rng.dirichlet(np.ones(CLASSES), (3, N // 3)).astype(np.float32)[:, twins],
        "enhanced": normal(N // 3, D)[twins],
        "labelled_features": np.abs(normal(LABELLED, D)) + 0.125,
        "labelled_logits": normal(LABELLED, CLASSES),
        "labelled_enhanced": normal(LABELLED, D),
        "labels": np.arange(LABELLED) % CLASSES,
    }


def split(arrays):
    """What goes into the pool, and what is known of the labelled set."""
    return (
        {name: array for name, array in arrays.items() if name in ON_DISK},
        {name: array for name, array in arrays.items() if name not in ON_DISK},
    )


def write(folder, pool, shards, ids=None):
    """The pool on disk."""
    return write_shards(folder, by_item(pool), ids=ids, shard_items=-(-N // shards))


def assert_same(found, wanted):
    """The same ids in the same order, with the same scores and the same parts, to the last bit."""
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    assert list(found.parts) == list(wanted.parts)
    for name, part in wanted.parts.items():
        np.testing.assert_array_equal(found.parts[name], part)
    assert (found.strategy, found.notes) == (wanted.strategy, wanted.notes)
