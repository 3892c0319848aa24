"""Control items: a random sample of the pool among the labelled items, which shows how accurate a model is on the pool.

The items of a pool have one random order for each seed: the order in which strategy `random` picks them. The control
items are the labelled ones at its start, up to where items without a label begin. So every item there is in the sample,
also one that a strategy picked, and the sample is random whatever else was labelled. Nothing has to be stored, the
share of control items may change from round to round, and picks of strategy `random` with the same seed count as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.lottery import Lottery
from ncalr.errors import BadInput
from ncalr.types import Picks

COMPLETE = 0.95
"""Share of the items at the start of the order that must have a label: some cannot be labelled at all."""


def random_order(ids: Any, seed: int) -> npt.NDArray[np.intp]:
    """Return positions of the items in the order in which strategy `random` picks them."""
    return np.argsort(Lottery(seed, ids).keys(), kind="stable")


def control_sample(ids: Any, labelled: Any, seed: int) -> npt.NDArray[np.bool_]:
    """Return which items are control items (n,), given which items have a label (n,).

    >>> ids = np.arange(6)
    >>> labelled = np.isin(ids, random_order(ids, 0)[[0, 1, 4]])  # the third in the order has no label
    >>> int(control_sample(ids, labelled, 0).sum())
    2
    """
    order = random_order(ids, seed)
    there = np.asarray(labelled, np.bool_)[order]
    full = np.flatnonzero(np.cumsum(there) >= COMPLETE * np.arange(1, len(order) + 1))
    found = np.zeros(len(order), np.bool_)
    if len(full):
        found[order[: full[-1] + 1]] = there[: full[-1] + 1]
    return found


def control_count(k: int, share: float) -> int:
    """Return how many of k picks are control items: this share, but one at least and not all; 0 for a share of 0."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share < 1:
        raise BadInput(
            f"`control` must be a share of the picks from 0 to below 1, got {share!r}. "
            "For random picks alone use strategy 'random' with the same seed: they are control items, too."
        )
    return min(max(round(k * share), 1), k - 1) if share else 0


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
