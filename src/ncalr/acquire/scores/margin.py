"""Margin: 1 - (p1 - p2), p1 and p2 the two largest probabilities.

Scheffer, Decomain and Wrobel 2001. Computed from the small terms (the classes that are not the top one), so that
rows whose softmax has saturated in float32 keep their order instead of all tying; logits are better than
probabilities for that.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy


@strategy(
    "margin",
    needs={"outputs"},
    rowwise=True,
    spots={"outputs"},
    cites="Scheffer, Decomain and Wrobel 2001",
    cost="one pass over the outputs",
)
def margin(evidence: Evidence) -> Any:
    """Margin: how close the two most probable classes are."""
    outputs = evidence["outputs"]
    return evidence.backend.uncertainty(outputs.values, "margin", outputs.are_logits)
