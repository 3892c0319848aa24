"""Values of options are tried on a made-up pool, so that a wrong one is found before a training or a pass over a pool.

Only the strategy and its selector know which values they take, and they say so when they run: so they are run, on two
dozen items. That holds for everybody's strategies, and for values that do not go together. A strategy that is given no
options is not tried. What made-up items may be to blame for is no error here: numbers that are not finite, scores below
zero, whatever is not ncalr's own complaint.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.example import example_pool
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.query import score
from ncalr.acquire.registry import Plan
from ncalr.errors import MissingEvidence, NcalrError, NotFinite
from ncalr.kernels import choose

ITEMS, CLASSES, PICKS = 24, 4, 2

_passed: set[Any] = set()


def rehearse(plan: Plan) -> None:
    """Raise what the values of these options raise; a plan that passed is not tried again."""
    key = (plan.strategy.name, plan.strategy.score, plan.strategy.fuse, str(plan.spec))
    if key in _passed:
        return
    try:
        _run(plan)
    except Exception as error:
        if isinstance(error, NcalrError) and not isinstance(error, MissingEvidence | NotFinite):
            raise
    _passed.add(key)


def _run(plan: Plan) -> None:
    evidence = Evidence(dict(_pool()), choose("cpu"), ITEMS, CLASSES)
    scored = score(plan, evidence)
    if scored.scores is not None:
        scored = replace(scored, scores=scored.scores - scored.scores.min())
    plan.select(scored, evidence.only(plan.select.needs | plan.select.wants), PICKS, Lottery(0, np.arange(ITEMS)))


@cache
def _pool() -> dict[str, Any]:
    """In single precision, as a network gives it: what is compiled for it is used again."""
    pool = example_pool(ITEMS, classes=CLASSES)
    return {name: array if array.dtype.kind == "i" else array.astype(np.float32) for name, array in pool.items()}
