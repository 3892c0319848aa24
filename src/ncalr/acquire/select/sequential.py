"""One pick at a time, each scored with the class statistics that the picks before it would leave.

The paper scores all items against the same means and takes the top k; an item is not discounted because its twin was
just picked. Here each pick is added to its predicted class (count, mean and with them M), and the pool is scored
again, so k picks cost k passes over the features. `shortlist` limits that to the best `shortlist` * k items of the
first scoring. It works over every strategy that reads the statistics, with plain or weighted class means: trimmed ones
and medians cannot be updated.
"""

from __future__ import annotations

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.select.top_k import best, wanted_scores
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection


@selector("sequential", needs={"features", "predictions", "statistics"})
def sequential(
    scored: Scored, evidence: Evidence, k: int, lottery: Lottery, *, shortlist: float | None = None
) -> Selection:
    """One pick at a time, counts, means and M updated after each; k passes over the features."""
    kept = np.arange(evidence.n)
    notes: tuple[str, ...] = ()
    if shortlist is not None:
        if shortlist < 1:
            raise BadInput(f"shortlist must be at least 1 (times k), got {shortlist}")
        size = min(round(shortlist * k), evidence.n)
        kept = np.sort(best(wanted_scores(scored, "sequential"), size, evidence, lottery))
        notes = (f"sequential among the best {size} items",)
        evidence, lottery = evidence.at(kept), lottery.at(kept)
        scored = scored.again(evidence)
    statistics = evidence["statistics"]
    positions: list[int] = []
    values: list[float] = []
    while True:
        scores = evidence.backend.numpy(wanted_scores(scored, "sequential")).astype(np.float64)
        scores[positions] = -np.inf
        at = int(best(evidence.backend.asarray(scores), 1, evidence, lottery)[0])
        positions.append(at)
        values.append(float(scores[at]))
        if len(positions) == k:
            return Selection(kept[positions], np.array(values), notes)
        feature = evidence.backend.numpy(evidence.take("features", slice(at, at + 1)))
        label = evidence.backend.numpy(evidence.window(at, at + 1)["predictions"])
        statistics = statistics.update(feature, label.astype(np.int64))
        scored = scored.again(evidence.changed(statistics=statistics))
