"""UHerding: cover the uncertain part of the pool.

Bae, Oliveira and Sutherland, "Uncertainty Herding: One Active Learning Method for All Label Budgets" (2025):
MaxHerding with each item's worth its uncertainty, 1 - (p1 - p2). Like MaxHerding while the model is unsure
everywhere, like margin when it is sure of most. The authors calibrate the temperature of the softmax on held-out
labels first; pass calibrated logits for that.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.acquire.scores.margin import margin


@strategy(
    "uherding",
    needs={"features", "outputs"},
    wants={"labelled_features"},
    select="coverage(kernel=rbf)",
    rowwise=True,
    cites="Bae et al. 2025",
    cost="n^2 kernel values for n up to 65,536 (a sample beyond)",
)
def uherding(evidence: Evidence) -> Any:
    """UHerding: greedy coverage of the pool, each item weighed by the model's uncertainty."""
    return margin(evidence)
