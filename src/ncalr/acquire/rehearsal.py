"""Values of options are tried on a made-up pool, so that a wrong one is found before a training or a pass over a pool.

Only the strategy and its selector know which values they take, and they say so when they run. So they are run once, on
two dozen items. Not tried are a strategy without options, and one that is not ncalr's own: its values may depend on
what made-up items do not have, as the real number of classes. Errors that made-up items may have caused are ignored:
numbers that are not finite, missing evidence, and whatever ncalr did not raise itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.example import example_pool
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import Plan, resolve
from ncalr.acquire.scoring import score
from ncalr.errors import MissingEvidence, NcalrError, NotFinite
from ncalr.kernels import choose

ITEMS, CLASSES, PICKS = 24, 4, 2

_passed: set[Any] = set()


def rehearsed(strategy: Any, options: dict[str, Any] | None = None) -> Plan:
    """The plan of a strategy with its options, after a try of their values; see `resolve`."""
    plan = resolve(strategy, options)
    key = (plan.strategy.name, plan.strategy.score, plan.strategy.fuse, str(plan.spec))
    if not plan.spec.options or not _ours(plan) or key in _passed:
        return plan
    try:
        _run(plan)
    except Exception as error:
        if isinstance(error, NcalrError) and not isinstance(error, MissingEvidence | NotFinite):
            raise
    _passed.add(key)
    return plan


def _ours(plan: Plan) -> bool:
    functions = (plan.strategy.score, plan.strategy.fuse, plan.select.selector.run)
    return all(one is None or one.__module__.startswith("ncalr.") for one in functions)


def _run(plan: Plan) -> None:
    evidence = Evidence(dict(_pool()), choose("cpu"), ITEMS, CLASSES)
    scored = score(plan, evidence)
    if scored.scores is not None and "then" in plan.select.options:
        scored = replace(scored, scores=scored.scores - scored.scores.min())  # the best of a large pool are above 0
    plan.select(scored, evidence.only(plan.select.needs | plan.select.wants), PICKS, Lottery(0, np.arange(ITEMS)))


@cache
def _pool() -> dict[str, Any]:
    """In single precision, as a network gives it: what is compiled for it is used again."""
    pool = example_pool(ITEMS, classes=CLASSES)
    return {name: array if array.dtype.kind == "i" else array.astype(np.float32) for name, array in pool.items()}
