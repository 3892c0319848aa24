"""Label dispersion: the share of checkpoints that do not predict the most frequent class.

Zolfaghari Bengar, Raducanu and van de Weijer, "When Deep Learners Change Their Mind" (2021). The order of the
checkpoints does not matter, which is the difference from FF.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.dynamics import scores


@strategy(
    "label_dispersion",
    needs={"checkpoint_predictions"},
    rowwise=True,
    cites="Zolfaghari Bengar et al. 2021",
    cost="one pass over t predictions an item",
)
def label_dispersion(evidence: Evidence) -> Any:
    """Label dispersion: how seldom the checkpoints agree on one class."""
    backend = evidence.backend
    return backend.asarray(scores.label_dispersion(backend.numpy(evidence["checkpoint_predictions"])))
