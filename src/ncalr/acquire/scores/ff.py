"""Feature Fluctuation (FF) alone: how often the predicted class changed over the late checkpoints.

One half of NCAL-R (Goel et al. 2025), close kin of label dispersion (which ignores the order of the checkpoints) and
of forgetting events (which need the label). A whole number with many ties, broken by the seed: take at least ten
checkpoints, from a stretch of training where the learning rate still moves predictions.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy


@strategy(
    "ff",
    needs={"flips"},
    rowwise=True,
    cites="Goel et al. 2025",
    cost="one pass over t predictions an item, or none with a Recorder",
)
def ff(evidence: Evidence) -> Any:
    """Feature fluctuation: flips of the predicted class between checkpoints."""
    return evidence["flips"]
