"""One rank of a data-parallel training on digits; started by torchrun, or alone. Rank 0 writes what came out."""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from sklearn.datasets import load_digits

import ncalr
from ncalr.data import ArrayPool
from ncalr.learn import Job, TorchLearner, needs_of
from ncalr.learn.ranks import start, stop


def main(out: str, net: str) -> None:
    """Fit, query, write."""
    torch.set_num_threads(1)
    ranks = start("cpu")
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))[:500]
    pool, labels = ArrayPool((found.images[order] * 15).astype(np.uint8)), found.target[order]
    learner = TorchLearner(net, "digits(epochs=12, checkpoints=4)", device="cpu", progress=False)
    soft = np.eye(10)[labels[:101]]  # a row an item: each rank must take those of its own items
    needs = needs_of("ncal") | {"labelled_log"}
    model = learner.fit(Job(pool, np.arange(101), labels[:101], classes=10, needs=needs, soft=soft))
    evidence = {name: array for name, array in model.evidence().items() if name != "labelled_log"}
    picks = ncalr.query("ncal", 40, ids=model.watched, **evidence)
    log = np.asarray(model.evidence()["checkpoint_predictions"])
    labelled = np.asarray(model.evidence()["labelled_log"], np.float64)
    if ranks.rank == 0:
        facts = {
            "size": ranks.size,
            "ids": picks.ids.tolist(),
            "history": model.record.history,
            "log": log.tolist(),
            "labelled": labelled[0].tolist(),
            "weight": float(sum(value.double().abs().sum() for value in model.state.values())),
        }
        with open(out, "w", encoding="utf-8") as file:
            json.dump(facts, file)
    stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
