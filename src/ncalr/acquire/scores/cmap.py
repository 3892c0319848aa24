"""CMAP alone: items that would turn their predicted class's mean towards the other classes.

One half of NCAL-R (Goel et al. 2025); formula and derivation in `ncalr.geometry.alignment`. On features that are
never negative it is largely an uncertainty score: high where a feature points to the global mean rather than to its
class. It scales with 1 / (n_c + 1) and so favours small classes; `counts="neutral"` takes that out. Where labels may be
wrong, `means="trimmed"` (or `"median"`) keeps them from dragging the class means along.
"""

from __future__ import annotations

from typing import Any, cast

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.geometry.alignment import Counts, cmap_table, score_block
from ncalr.kernels import CmapTable


def _table(evidence: Evidence, sign: int, center: bool, counts: str) -> CmapTable:
    table = cmap_table(evidence["statistics"], sign=sign, center=center, counts=cast(Counts, counts))
    kind = "float64" if str(evidence.given["features"].dtype).endswith("float64") else "float32"
    return CmapTable(*(t if t is None else evidence.backend.asarray(t, kind) for t in table))


@strategy(
    "cmap",
    needs={"features", "predictions", "statistics"},
    rowwise=True,
    spots={"features"},
    cites="Goel et al. 2025",
    cost="one pass over the features",
)
def cmap(evidence: Evidence, *, sign: int = 1, center: bool = False, counts: str = "paper") -> Any:
    """Class-mean alignment perturbation: how much the item would move the class means together."""
    table = evidence.once(
        f"cmap {sign} {center} {counts}",
        lambda: _table(evidence, sign, center, counts),
    )
    return score_block(evidence.backend, evidence["features"], evidence["predictions"], table)
