"""Control items: a random sample of the pool, labelled to measure how accurate a model is on the pool.

An item is reserved where a number drawn from (seed, item) lies below the share of control items. No strategy picks a
reserved item, and a batch contains the reserved ones with the lowest numbers. So nothing has to be stored, and the
control items are the labelled start of one random order.

The labels of control items have no say in what is picked. Where they had, leaving one out to test a model on it would
show too low an accuracy: a strategy that knows the label finds no doubt nearby and picks nothing there, so without the
item its neighbourhood is empty (with `margin`, 2 to 15 points too low).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.lottery import Lottery
from ncalr.errors import BadInput
from ncalr.types import Picks

PURPOSE = 3
COMPLETE = 0.95
"""Share of the items at the start of the order that must have a label: some cannot be labelled at all."""


def draws(ids: Any, seed: int) -> npt.NDArray[np.float64]:
    """Return the number of every item that decides whether and when it is a control item (n,)."""
    return Lottery([seed, PURPOSE], ids).uniform()


def control_sample(ids: Any, labelled: Any, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return which items are control items with a label (n,), given which items have a label (n,).

    >>> ids = np.arange(60)
    >>> labelled = draws(ids, 0) < 0.1  # all reserved items
    >>> int(labelled.sum()) == int(control_sample(ids, labelled, 0.1, 0).sum())
    True
    """
    numbers = draws(ids, seed)
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] < share]
    there = np.asarray(labelled, np.bool_)[order]
    full = np.flatnonzero(np.cumsum(there) >= COMPLETE * np.arange(1, len(order) + 1))
    found = np.zeros(len(numbers), np.bool_)
    if len(full):
        found[order[: full[-1] + 1]] = there[: full[-1] + 1]
    return found


def split_picks(ids: Any, k: int, share: float, seed: int) -> tuple[Any, Any]:
    """Return the ids of the next control items, and of the reserved ones, among the ids that can be picked.

    The share of k picks are control items, but one at least and not all; and more where other items have run out.
    """
    if not checked_share(share):
        return ids[:0], ids[:0]
    numbers = draws(ids, seed)
    order = np.argsort(numbers, kind="stable")
    reserved = ids[order[numbers[order] < share]]
    count = max(min(max(round(k * share), 1), k - 1), k - (len(ids) - len(reserved)))
    return reserved[:count], reserved


def checked_share(share: Any) -> float:
    """Return the share of control items; raise where it is none."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share < 1:
        raise BadInput(f"`control` must be a share of the picks from 0 to below 1, got {share!r}.")
    return float(share)


def with_control(picks: Picks, control: Any) -> Picks:
    """Return the picks with control items spread evenly among them, so that a part of the list has its share."""
    total = len(picks) + len(control)
    which = np.zeros(total, np.bool_)
    which[((np.arange(len(control)) + 0.5) * total / len(control)).astype(np.intp)] = True

    def merged(values: Any, others: Any) -> Any:
        found = np.empty(total, np.result_type(values, others))
        found[which], found[~which] = others, values
        return found

    blank = np.full(len(control), np.nan)
    parts = {name: merged(values, blank) for name, values in picks.parts.items()}
    note = f"{len(control)} of {total} picks are control items, drawn at random: label all of them"
    return replace(
        picks,
        ids=merged(picks.ids, control),
        scores=merged(picks.scores, blank),
        parts=parts,
        control=which,
        notes=(*picks.notes, note),
    )
