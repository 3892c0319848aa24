"""Near-copies: items so close to another one that a label of either is a label of both.

A batch needs one item of such a group, and none of a group that has a label. How close is close depends on the
encoder, so the radius comes from a random sample of the pool. The number of neighbours within a distance grows as its
m-th power, with m the dimension of the data around an item. The distances to the 24 and the 96 nearest items of the
sample (medians over the sample) give m, and by extrapolation the distance to the nearest of n items that are no copies:

    nearest = d_24 (size s / (24 n))^(1/m)      s items in the sample, groups of `size` near-copies in the pool
    radius  = nearest min(1/2, 0.01^(1/m))

Half of that distance is far from chance in many dimensions; in few, the second term leaves one item in a hundred with a
neighbour by chance. The ranks lie above those of copies, and `size` is the largest that the sample confirms, so the
radius is about the same whether each item is there once or 20 times. Where the radius takes in more items than copies
explain, the items lie in clusters, as the features of a network do that fits its labels perfectly: then only items that
are equal but for rounding are near-copies.

The picks are compared with each other and with the labelled items, not with the pool. A copy among the picks is taken
out of the pool and the selector is asked again, so the picks are those of a pool without it. While many picks are
copies, the selector is asked for twice as many each time, which finds more copies at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.types import Selection

Array = npt.NDArray[Any]
SAMPLE = 1024  # items that the radius is computed from
RANK = 24  # of the neighbour whose distance is measured; the other has four times that rank
CHANCE = 0.01  # share of items with a neighbour within the radius by chance, at most
SIZES = (32, 16, 8, 4, 2, 1)
ROUNDING = 2e-3  # of the root mean square length: distances below are 0 in single precision
COMPARED = 8192  # picks that are compared with each other
UNSEEN = "near-copies were not looked for: no features were given"
_BLOCK = 1024


class Copies:
    """The near-copies among a few items of a pool."""

    def __init__(self, take: Callable[[Any], Array], sample: Array, n: int, labelled: Array | None = None) -> None:
        """`take` returns the features of items by position, `sample` holds the positions of random ones of the n."""
        rows = take(sample).astype(np.float64)
        self._take, self._middle = take, rows.mean(axis=0)
        self._unit = float(np.abs(rows - self._middle).max()) or 1.0
        self._radius = _radius(self._scaled(rows), n)
        self.distance = self._radius * self._unit
        self._labelled = self._scaled(labelled) if labelled is not None and len(labelled) else None

    @classmethod
    def of(cls, evidence: Evidence, lottery: Lottery, labelled: bool) -> Copies:
        """Return those of a pool, `labelled` items counted as picked."""
        backend, keys = evidence.backend, lottery.keys()
        known = backend.numpy(evidence.read("labelled_features")) if labelled else None
        sample = np.sort(first_drawn(keys))
        return cls(lambda rows: backend.numpy(evidence.take("features", rows)), sample, evidence.n, known)

    def among(self, positions: Array, most: int = COMPARED) -> Array:
        """Return which of these items are near-copies of an earlier one or of a labelled one (a mask).

        Items after the first `most` that are not near-copies are not looked at.
        """
        found = np.zeros(len(positions), bool)
        kept: list[Array] = []
        for start in range(0, len(positions), _BLOCK):
            if sum(map(len, kept)) >= min(most, COMPARED):
                break
            rows = self._scaled(self._take(positions[start : start + _BLOCK]))
            near = np.zeros(len(rows), bool)
            for others in (*kept, *([] if self._labelled is None else [self._labelled])):
                near |= self._near(rows, others)
            inside = _squares(rows, rows) <= self._radius**2
            for at in np.flatnonzero(inside.sum(axis=1) > 1):
                if not near[at]:
                    near[at + 1 :] |= inside[at, at + 1 :]
            found[start : start + len(rows)] = near
            kept.append(rows[~near])
        return found

    def _near(self, rows: Array, others: Array) -> Array:
        """Return which rows lie within the radius of one of the others."""
        near = np.zeros(len(rows), bool)
        for start in range(0, len(others), 8 * _BLOCK):
            near |= (_squares(rows, others[start : start + 8 * _BLOCK]) <= self._radius**2).any(axis=1)
        return near

    def _scaled(self, rows: Array) -> Array:
        """Return features from the middle of the pool, about 1 in size: single precision is enough."""
        return np.asarray((rows - self._middle) / self._unit, np.float32)


def first_drawn(keys: Array) -> Array:
    """Return the places of the lowest lottery keys: a random sample of the items."""
    return np.argpartition(keys, SAMPLE)[:SAMPLE] if len(keys) > SAMPLE else np.arange(len(keys))


def distinct(select: Callable[[Array, int], Selection], n: int, k: int, copies: Copies) -> Selection:
    """Select k of n items without near-copies; where too few items are left, near-copies fill the batch.

    `select` chooses a number of items among some positions.
    """
    rest, ahead = np.arange(n), k
    left = rest[:0]
    first, filled = 0, 0
    chosen = select(rest, k)
    while k < n:
        found = chosen.positions[copies.among(chosen.positions, k)]
        if not len(found) and ahead == k:
            break
        first = first or len(found)  # among k, before any was left out
        rest, left = np.setdiff1d(rest, found), np.concatenate([left, found])
        if len(rest) < k:
            chosen, filled = _filled(select(rest, len(rest)) if len(rest) else Selection(rest), left, k, copies)
            break
        ahead = min(2 * ahead, len(rest)) if 8 * len(found) > ahead else k
        chosen = select(rest, ahead)
    return replace(chosen, notes=(*chosen.notes, *note_dropped(copies, k, first, filled)))


def _filled(chosen: Selection, left: Array, k: int, copies: Copies) -> tuple[Selection, int]:
    """Return k items, near-copies behind the others (they add nothing: value 0), and how many near-copies those are."""
    found = copies.among(chosen.positions)
    others = np.flatnonzero(~found)[:k]
    positions = np.concatenate([chosen.positions[others], left, chosen.positions[found]])[:k]
    values = None if chosen.values is None else np.zeros(k)
    if values is not None and chosen.values is not None:
        values[: len(others)] = chosen.values[others]
    return replace(chosen, positions=positions, values=values), k - len(others)


def note_dropped(copies: Copies, k: int, found: int, filled: int) -> tuple[str, ...]:
    """Return notes on the near-copies `found` among the first k, and on those that fill the batch all the same."""
    notes = []
    if found:
        notes.append(
            f"left out {found} of the first {k} picks, near-copies of other picks or of labelled items (distance below "
            f"{copies.distance:.2g}), for the next best; copies=keep keeps them"
        )
    if filled:
        notes.append(f"the last {filled} picks are near-copies all the same: no other items are left")
    return tuple(notes)


def note_kept(copies: Copies, positions: Array) -> tuple[str, ...]:
    """Return a note where picks are near-copies of each other."""
    same = int(copies.among(positions).sum())
    if not same:
        return ()
    verb = "is a near-copy" if same == 1 else "are near-copies"
    return (
        f"{same} of the {len(positions)} picks {verb} of another pick (distance below {copies.distance:.2g}); "
        "copies=drop leaves them out",
    )


def _radius(rows: Array, n: int) -> float:
    """Return the distance below which items are near-copies, from a random sample of n items; see the module's text."""
    count, smallest = len(rows), ROUNDING * math.sqrt(float(np.square(rows).sum(axis=1).mean()))
    rank = min(RANK, count // 10)
    if rank < 2:
        return smallest
    squares = _squares(rows, rows)
    np.fill_diagonal(squares, -np.inf)  # so an item comes before its neighbours
    ranked = np.partition(squares, (rank, 4 * rank), axis=1)
    low, high = np.sqrt(np.maximum(np.median(ranked[:, [rank, 4 * rank]], axis=0), 0)).tolist()
    if not smallest < low < high:
        return smallest
    dimension = math.log(4) / math.log(high / low)
    for size in SIZES:
        nearest = low * (size * count / (rank * n)) ** (1 / dimension)
        radius = nearest * min(0.5, CHANCE ** (1 / dimension))
        neighbours = (squares <= radius**2).sum(axis=1) - 1
        wanted = (size - 1) * count / n
        if np.minimum(neighbours, math.ceil(wanted)).mean() >= 0.6 * wanted:
            break
    crowded = float(np.median(neighbours)) > 2 * max(SIZES) * count / n
    return smallest if crowded else max(radius, smallest)


def _squares(a: Array, b: Array) -> Array:
    """Return squared distances (len(a), len(b)); rounding may leave them a little below 0."""
    return np.asarray((a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2 * (a @ b.T))
