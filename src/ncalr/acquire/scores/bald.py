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
    spots={"sampled_probs"},
    cites="Houlsby et al. 2011; Gal et al. 2017",
    cost="one pass over s outputs an item",
)
def bald(evidence: Evidence) -> Any:
    """BALD: mutual information between the prediction and the model, from sampled probabilities."""
    backend, samples = evidence.backend, len(evidence.given["sampled_probs"])
    layers = evidence.layers("sampled_probs")
    first = backend.wide(next(layers))
    total = first + 0  # a copy: sums are made in place
    doubt = backend.uncertainty(first, "entropy", False)
    for layer in layers:
        backend.add_sample(layer, total, doubt)
    total /= samples
    return backend.xp.clip(backend.uncertainty(total, "entropy", False) - doubt / samples, 0, None)
