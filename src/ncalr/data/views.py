"""Other protocols on the same data: long tails, and classes that are held out.

    load("cifar100(tail=0.05)")             class 0 keeps all its items, the last a twentieth as many
    load("digits(known=8)")                 eight classes to learn; the other two are strangers, for OOD and discovery
    load("cifar100(known=60, share=0.5)")   category discovery 60-40: half of the known classes' items may be labelled

Every dataset takes these options. What is held out is not lost: `Dataset.apart` has it, with the known classes numbered
0, 1, ... in their old order and the novel ones behind them (Vaze et al., "Generalized Category Discovery", 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import Pool
from ncalr.data.splits import Subset, drawn, known_novel
from ncalr.data.tail import long_tail
from ncalr.errors import BadInput

Labels = npt.NDArray[np.int64]
VIEWS: dict[str, Any] = {"tail": None, "known": None, "share": 1.0, "view_seed": None}
"""The options every dataset takes, and their defaults."""


@dataclass(frozen=True, eq=False)
class Apart:
    """What a view keeps out of the pool and of the test set."""

    pool: Pool | None = field(repr=False)  # training items: the rest of the known classes, and the novel ones
    labels: Labels = field(repr=False)
    test: Pool | None = field(repr=False)  # test items of the novel classes
    test_labels: Labels = field(repr=False)
    classes: list[str]  # names of the novel classes; the first has the number after the last known one


@dataclass(frozen=True)
class View:
    """Positions to keep, and to hold out, of a training set and a test set, and the new numbers of the classes."""

    kept: npt.NDArray[np.intp]
    out: npt.NDArray[np.intp]
    test_kept: npt.NDArray[np.intp]
    test_out: npt.NDArray[np.intp]
    numbers: Labels  # new number of each old class
    known: int


def view_of(labels: Labels, test_labels: Labels, classes: int, ids: Any, options: dict[str, Any]) -> View:
    """What the options make of these labels. A seed draws; without one the first classes are the known ones."""
    chosen = {**VIEWS, **options}
    seed = chosen["view_seed"]
    if not 0 < chosen["share"] <= 1:
        raise BadInput(f"share is how much of the known classes may be labelled, in (0, 1], got {chosen['share']!r}")
    known = np.arange(classes)
    if chosen["known"] is not None:
        known, _ = known_novel(classes, chosen["known"], seed)
    numbers = np.empty(classes, np.int64)
    numbers[np.concatenate([known, np.setdiff1d(np.arange(classes), known)])] = np.arange(classes)
    inside = np.isin(labels, known)
    if chosen["share"] < 1:
        order = drawn(len(labels), seed or 0, "share of the known classes", ids)
        order = order[inside[order]]
        inside[order[round(chosen["share"] * len(order)) :]] = False
    kept = np.flatnonzero(inside)
    if chosen["tail"] is not None:
        kept = kept[long_tail(numbers[labels[kept]], chosen["tail"], seed or 0, ids=np.asarray(ids)[kept])]
    out = np.setdiff1d(np.arange(len(labels)), kept)
    test_inside = np.isin(test_labels, known)
    return View(kept, out, np.flatnonzero(test_inside), np.flatnonzero(~test_inside), numbers, len(known))


def part(pool: Pool, positions: npt.NDArray[np.intp]) -> Pool | None:
    """Some items of a pool; None where there are none, the pool itself where it is all of them."""
    if len(positions) == len(pool):
        return pool
    return Subset(pool, positions) if len(positions) else None
