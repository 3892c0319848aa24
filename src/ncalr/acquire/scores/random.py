"""Random sampling: the baseline every comparison needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy


@strategy("random", needs=(), rowwise=True, cites="", cost="none")
def random(evidence: Evidence) -> Any:
    """Uniformly at random: all scores are equal, so the lottery decides."""
    return evidence.backend.asarray(np.zeros(evidence.n, np.float32))
