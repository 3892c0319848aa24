"""Top-k with a cap on each predicted class.

The scores of neural-collapse geometry scale with the class, so that a plain top-k can come from one predicted class
almost whole; a cap spreads it. Where the capped classes cannot fill the batch, the best of the rest do.
"""

from __future__ import annotations

import math

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select.top_k import best, wanted_scores
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection


@selector("quota", needs={"predictions"})
def quota(scored: Scored, evidence: Evidence, k: int, lottery: Lottery, *, cap: float = 2.0) -> Selection:
    """The highest scores, at most `cap` times an even share from one predicted class."""
    if cap < 1:
        raise BadInput(f"cap must be at least 1 (an even share of the batch), got {cap}")
    scores = wanted_scores(scored, "quota")
    parts = [evidence.backend.numpy(part["predictions"]) for part in evidence.chunks()]
    classes = np.concatenate(parts).astype(np.int64)
    limit = math.ceil(cap * k / len(np.unique(classes)))
    order = best(scores, len(classes), evidence, lottery)
    by_class = np.argsort(classes[order], kind="stable")  # falling score inside each class
    starts = np.searchsorted(classes[order][by_class], np.arange(classes.max() + 1))
    place = np.empty(len(order), np.int64)
    place[by_class] = np.arange(len(order)) - starts[classes[order][by_class]]
    within = place < limit
    chosen = np.concatenate([order[within], order[~within]])[:k]
    return Selection(chosen)
