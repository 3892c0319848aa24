"""Notes on picks: that they were drawn at random, that a score had no part in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def lots(scores: Any, n: int) -> tuple[str, ...]:
    """A note where the scores of the picks say nothing: all alike, and not all items were picked."""
    if 1 < len(scores) < n and (scores == scores[0]).all():
        return (f"all {len(scores)} picks have the same score, {scores[0]:.6g}: they were drawn at random",)
    return ()


def idle(flat: Sequence[str], parts: Iterable[str]) -> tuple[str, ...]:
    """A note where some parts of the score, those in `flat`, are the same for all items."""
    others = [name for name in parts if name not in flat]
    if not flat or not others:
        return ()
    verb = "is" if len(flat) == 1 else "are"
    return (f"{' and '.join(flat)} {verb} the same for all items: the picks go by {' and '.join(others)} alone",)


def unheard(strategy: str, selector: str) -> tuple[str, ...]:
    """A note where a selector chose without a look at the strategy's scores."""
    return (
        f"select={selector} looks at no scores: those of {strategy} chose nothing among these items; "
        f"select=filtered(then={selector}) takes the best by score first",
    )
