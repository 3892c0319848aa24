"""Top-k with noise, so that a batch is not k copies of one idea.

Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron and Gal, "Stochastic Batch Acquisition" (2021): adding
Gumbel noise of scale 1 / coldness and taking the top k samples without replacement from

    power     p_i ~ s_i ** coldness        noise on log s; scores must not be negative
    softmax   p_i ~ exp(coldness * s_i)    noise on s
    softrank  p_i ~ rank_i ** -coldness    noise on -log rank, whatever the scale of the score
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select.top_k import best, wanted_scores
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection


@selector("stochastic_top_k")
def stochastic_top_k(
    scored: Scored,
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    kind: str = "softrank",
    coldness: float = 1.0,
) -> Selection:
    """A random batch that favours high scores: power, softmax or softrank (Kirsch et al. 2021)."""
    if coldness <= 0:
        raise BadInput(f"coldness must be positive, got {coldness}; very large values approach top_k")
    scores = evidence.backend.numpy(wanted_scores(scored, "stochastic_top_k")).astype(np.float64)
    if kind == "power":
        if (scores < 0).any():
            raise BadInput("kind='power' needs scores that are not negative; use 'softmax' or 'softrank'")
        with np.errstate(divide="ignore"):
            wish = np.log(scores)
    elif kind == "softmax":
        wish = scores
    elif kind == "softrank":
        wish = -np.log(rankdata(-scores))
    else:
        raise BadInput(f"kind must be 'power', 'softmax' or 'softrank', got {kind!r}")
    noisy = np.maximum(wish * coldness + lottery.gumbel(1), -1e308)
    return Selection(best(evidence.backend.asarray(noisy), k, evidence, lottery))
