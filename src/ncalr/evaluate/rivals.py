"""What other libraries say about labels, beside the audit's own doubts: for a second opinion, and for studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import check_known
from ncalr.extras import load

Floats = npt.NDArray[np.float64]


def doubts_of(rival: str, probs: Any, labels: Any) -> Floats:
    """Doubts (n,) about labels by out-of-sample probabilities (n, c); higher: look sooner."""
    check_known("rival", rival, RIVALS)
    return RIVALS[rival](probs, labels)


def _cleanlab(probs: Any, labels: Any) -> Floats:
    """Confident learning (Northcutt et al. 2021): 1 - cleanlab's label quality, by self-confidence, its default."""
    rank = load("cleanlab.rank", "cleanlab", "the rival cleanlab")
    return np.asarray(1 - rank.get_label_quality_scores(labels, probs, method="self_confidence"), np.float64)


RIVALS: dict[str, Callable[[Any, Any], Floats]] = {"cleanlab": _cleanlab}
"""Rivals by name."""
