"""Variation ratio: the share of an ensemble's votes that miss the most frequent class.

Freeman (1965); for deep ensembles, Beluch, Genewein, Nürnberger and Köhler (2018). Members are late checkpoints,
dropout passes or separate networks. A multiple of 1 / s with many ties, broken by the seed.
"""

from __future__ import annotations

from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.dynamics.scores import label_dispersion


@strategy(
    "variation_ratio",
    needs={"sampled_probs"},
    rowwise=True,
    cites="Beluch et al. 2018",
    cost="one pass over s outputs an item",
)
def variation_ratio(evidence: Evidence) -> Any:
    """Variation ratio: share of the sampled votes that miss the modal class."""
    backend = evidence.backend
    votes = [backend.numpy(backend.argmax(sample)) for sample in evidence.layers("sampled_probs")]
    return backend.asarray(label_dispersion(votes))
