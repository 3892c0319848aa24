"""Least confidence: 1 - max p.

Lewis and Gale 1994. Computed from the small terms (the classes that are not the top one), so that rows whose
softmax has saturated in float32 keep their order instead of all tying; logits are better than probabilities for
that.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy


@strategy(
    "least_confidence",
    needs={"outputs"},
    rowwise=True,
    spots={"outputs"},
    cites="Lewis and Gale 1994",
    cost="one pass over the outputs",
)
def least_confidence(evidence: Evidence) -> Any:
    """Least confidence: one minus the probability of the predicted class."""
    outputs = evidence["outputs"]
    return evidence.backend.uncertainty(outputs.values, "least_confidence", outputs.are_logits)
