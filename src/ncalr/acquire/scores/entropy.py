"""Entropy: -sum p log p.

Shannon 1948; Settles and Craven 2008. Computed from the small terms (the classes that are not the top one), so that
rows whose softmax has saturated in float32 keep their order instead of all tying; logits are better than
probabilities for that.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy


@strategy(
    "entropy",
    needs={"outputs"},
    rowwise=True,
    spots={"outputs"},
    cites="Shannon 1948; Settles and Craven 2008",
    cost="one pass over the outputs",
)
def entropy(evidence: Evidence) -> Any:
    """Entropy of the predicted probabilities."""
    outputs = evidence["outputs"]
    return evidence.backend.uncertainty(outputs.values, "entropy", outputs.are_logits)
