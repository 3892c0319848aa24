"""Detectors of wrong labels in other libraries, for comparison with the audit on the same probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, check_known
from ncalr.extras import load

Floats = npt.NDArray[np.float64]


def check_rivals(rivals: Sequence[str]) -> None:
    """Raise if a detector is unknown or its library is missing, before anything is trained."""
    if not isinstance(rivals, list | tuple) or not all(isinstance(rival, str) for rival in rivals):
        raise BadInput(f"`rivals` must be a list of {', '.join(RIVALS)}, got {rivals!r:.80}.")
    for rival in rivals:
        doubts_of(rival, np.eye(2), np.arange(2))


def doubts_of(rival: str, probs: Any, labels: Any) -> Floats:
    """Return doubts (n,) about labels by out-of-sample probabilities (n, c); higher: look sooner."""
    check_known("rival", rival, RIVALS)
    return RIVALS[rival](probs, labels)


def _cleanlab(probs: Any, labels: Any) -> Floats:
    """Return 1 - cleanlab's label quality by self-confidence, its default (Northcutt et al. 2021)."""
    rank = load("cleanlab.rank", "cleanlab", "the rival cleanlab")
    return np.asarray(1 - rank.get_label_quality_scores(labels, probs, method="self_confidence"), np.float64)


RIVALS: dict[str, Callable[[Any, Any], Floats]] = {"cleanlab": _cleanlab}
"""Rivals by name."""
