"""From evidence to scores: the parts that a strategy gives, each looked at, and one number an item made of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ncalr.acquire import door
from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import Plan, call
from ncalr.errors import BadInput, NotFinite
from ncalr.kernels import Backend
from ncalr.types import Scored


def score(plan: Plan, evidence: Evidence) -> Scored:
    """The scores of every item of the evidence, in chunks where the strategy allows it."""
    strategy = plan.strategy
    if strategy.score is None:
        return Scored(None, {}, partial(score, plan))
    seen = evidence.only(strategy.needs | strategy.wants)
    parts: Mapping[str, Any]
    if strategy.rowwise:
        pieces = [parts_of(plan, chunk) for chunk in seen.chunks()]
        join = evidence.backend.xp.concatenate
        parts = {name: join([piece[name] for piece in pieces]) for name in pieces[0]}
    else:
        parts = parts_of(plan, seen)
    for name, part in parts.items():
        _check_scores(plan, evidence, name, part)
    return scored_by(plan, parts, evidence.backend)


def scored_by(plan: Plan, parts: Mapping[str, Any], backend: Backend) -> Scored:
    """The scores that these parts, of every item, amount to."""
    fuse = plan.strategy.fuse
    scores = call(fuse, parts, backend, options=plan.options) if fuse else next(iter(parts.values()))
    return Scored(scores, parts, partial(score, plan))


def parts_of(plan: Plan, evidence: Evidence) -> Mapping[str, Any]:
    """The parts of the score by name; one that has a single part is called after its strategy."""
    assert plan.strategy.score is not None  # noqa: S101 (score() returned before)
    result = call(plan.strategy.score, evidence, options=plan.options)
    parts = result if isinstance(result, Mapping) else {plan.strategy.name: result}
    for name, part in parts.items():
        if np.shape(part) != (evidence.n,):
            raise BadInput(
                f"strategy {plan.strategy.name!r} must return one number an item, of shape ({evidence.n},); "
                f"{name} has shape {tuple(np.shape(part))}"
            )
    return parts


def _check_scores(plan: Plan, evidence: Evidence, name: str, part: Any) -> None:
    """A score that is not finite is an error, never patched: either an input was bad, or the strategy is."""
    if evidence.backend.is_finite(part):
        return
    for array in sorted(door.used(plan, evidence.given) - {"statistics"}):
        door.check_array(array, evidence)
    bad = np.flatnonzero(~np.isfinite(evidence.backend.numpy(part)))
    first = bad[0] if isinstance(evidence.rows, slice) else evidence.rows[bad[0]]
    raise NotFinite(
        f"strategy {plan.strategy.name!r} gave {len(bad)} scores ({name}) that are not finite, the first for item "
        f"{int(first)}, though its inputs are; features beyond 1e18 overflow float32: scale them or pass float64"
    )
