"""The k highest scores; ties by the lottery."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import selector
from ncalr.acquire.remarks import lots
from ncalr.errors import BadInput
from ncalr.types import Scored, Selection


@selector("top_k", best_only=True)
def top_k(scored: Scored, evidence: Evidence, k: int, lottery: Lottery) -> Selection:
    """The k highest scores, ties broken at random."""
    scores = wanted_scores(scored, "top_k")
    chosen = best(scores, k, evidence, lottery)
    return Selection(chosen, notes=lots(evidence.backend.numpy(scores[chosen]), evidence.n))


def best(scores: Any, k: int, evidence: Evidence, lottery: Lottery) -> npt.NDArray[np.int64]:
    """Positions of the k highest, in falling order, ties in the order of the lottery."""
    above, level = evidence.backend.top(scores, k)
    level = level[np.argsort(lottery.keys(level), kind="stable")][: k - len(above)]
    chosen = np.concatenate([above, level])
    values = evidence.backend.numpy(scores[chosen])
    return np.asarray(chosen[np.lexsort((lottery.keys(chosen), -values.astype(np.float64)))], np.int64)


def wanted_scores(scored: Scored, name: str) -> Any:
    """The scores, or an error for a strategy that has none."""
    if scored.scores is None:
        raise BadInput(f"selector {name!r} needs scores, and this strategy gives none; choose a scoring strategy")
    return scored.scores
