"""BALD: how much the members of an ensemble disagree beyond their own doubt.

Houlsby, Huszár, Ghahramani and Lengyel (2011); with dropout, Gal, Islam and Ghahramani (2017). Over s samples p_s
of the predictive distribution (late checkpoints, dropout passes or ensemble members),

    BALD = H(mean of p_s) - mean of H(p_s)  >= 0
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy


@strategy(
    "bald",
    needs={"sampled_probs"},
    rowwise=True,
    cites="Houlsby et al. 2011; Gal et al. 2017",
    cost="one pass over s outputs an item",
)
def bald(evidence: Evidence) -> Any:
    """BALD: mutual information between the prediction and the model, from sampled probabilities."""
    backend = evidence.backend
    probs = backend.wide(evidence["sampled_probs"])
    inner = sum(backend.uncertainty(sample, "entropy", False) for sample in probs[1:])
    inner = backend.uncertainty(probs[0], "entropy", False) + inner
    total = backend.uncertainty(probs.sum(0) / len(probs), "entropy", False)
    return backend.xp.clip(total - inner / len(probs), 0, None)
