"""The best `multiple` * k by score, then k diverse ones among them.

A score says which items matter and knows nothing of the others picked with them; a diverse choice among the best few
times k keeps most of the score and loses the near-duplicates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import Bound, bind, selector
from ncalr.acquire.select.top_k import best, wanted_scores
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection


def _then(options: Any) -> Bound:
    return bind(options["then"])


@selector("filtered", needs=lambda o: _then(o).needs, wants=lambda o: _then(o).wants, spreads=True)
def filtered(
    scored: Scored,
    evidence: Evidence,
    k: int,
    lottery: Lottery,
    *,
    multiple: float = 3.0,
    then: Any = "k_center",
) -> Selection:
    """The best multiple * k by score, then k among them by another selector (k_center)."""
    if multiple < 1:
        raise BadInput(f"multiple must be at least 1, got {multiple}")
    kept = best(wanted_scores(scored, "filtered"), min(round(multiple * k), evidence.n), evidence, lottery)
    kept = np.sort(kept)
    inner = bind(then)(scored.at(kept), evidence.at(kept), k, lottery.at(kept))
    return Selection(kept[inner.positions], None, inner.notes)
