"""Parts of a pool: some of its items as a pool of their own, the first items to label, known and novel classes.

Every draw is made by the lottery, from (seed, what it is for, id): it does not depend on the order of the pool or on
the version of NumPy, and items that join the pool change nothing between those that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.lottery import Lottery
from ncalr.data.pool import Ids, Pool
from ncalr.errors import BadInput

Positions = npt.NDArray[np.intp]


class Subset:
    """Some items of a pool, in the order given, as a pool of their own; each keeps its id, nothing is copied."""

    def __init__(self, pool: Pool, positions: Any) -> None:
        places = np.asarray(positions)
        if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
            raise BadInput(f"positions must be a list of whole numbers, got {places.dtype} of shape {places.shape}")
        if places.min() < 0 or places.max() >= len(pool):
            raise BadInput(f"positions must lie in 0..{len(pool) - 1}, got {places.min()}..{places.max()}")
        if len(np.unique(places)) < len(places):
            raise BadInput("positions must not repeat: an item is in a pool once")
        self.pool, self.positions = pool, places.astype(np.intp)
        self.ids: Ids = np.asarray(pool.ids[self.positions])
        self.ids.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one item."""
        return self.pool.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The kind of number an item is made of."""
        return self.pool.dtype

    def read(self, positions: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """The items at these positions, in this order."""
        return self.pool.read(self.positions[positions])

    def __len__(self) -> int:
        return len(self.positions)


def initial(labels_or_n: Any, size: int, seed: int = 0, *, stratified: bool = False, ids: Any = None) -> Positions:
    """The positions of the first `size` items to label, in rising order.

    labels_or_n: how many items the pool has, or the labels of all of them. Stratified takes the classes in their
    shares, each at least once where `size` allows; it needs the labels of the whole pool, which nobody has before
    labelling: it is for studies only. ids: the pool's, if the draw is to follow them; otherwise the positions.
    """
    counted = isinstance(labels_or_n, int | np.integer)
    if stratified and counted:
        raise BadInput(
            "a stratified initial pool needs the labels of all items, got only their number; it is for studies"
        )
    n = int(labels_or_n) if counted else len(labels_or_n)
    if not 1 <= size <= n:
        raise BadInput(f"an initial pool of {n} items has between 1 and {n}, got size={size}")
    order = drawn(n, seed, "initial pool", ids)
    if not stratified:
        return np.sort(order[:size])
    truth = class_labels(labels_or_n)
    shares = _shares(np.bincount(truth), size, seed)
    return np.sort(np.concatenate([order[truth[order] == kind][:share] for kind, share in enumerate(shares)]))


def known_novel(
    classes: int | Sequence[str], known: int, seed: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The class numbers that are known and those to be discovered, each in rising order.

    classes: how many there are, or their names. Without a seed the first `known` classes are known, as in the splits of
    Vaze et al. (2022) for CIFAR; with one they are drawn.
    """
    count = int(classes) if isinstance(classes, int | np.integer) else len(classes)
    if not 1 <= known < count:
        raise BadInput(f"of {count} classes between 1 and {count - 1} can be known, got known={known}")
    order = np.arange(count) if seed is None else drawn(count, seed, "known classes")
    return np.sort(order[:known]).astype(np.int64), np.sort(order[known:]).astype(np.int64)


def drawn(n: int, seed: int, purpose: str, ids: Any = None) -> Positions:
    """All n positions in the order in which they are drawn for this purpose."""
    names = np.arange(n) if ids is None else np.asarray(ids)
    if names.shape != (n,) or (n and names.dtype.kind not in "iuU"):
        raise BadInput(f"ids must be {n} whole numbers or texts, got {names.dtype} of shape {names.shape}")
    keys = Lottery([seed, *purpose.encode()], names).keys()
    return np.lexsort((names, keys))


def class_labels(labels: Any) -> npt.NDArray[np.int64]:
    """Labels as class numbers 0, 1, ...; anything else is an error."""
    found = np.asarray(labels)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise BadInput(f"labels must be one whole number an item, got {found.dtype} of shape {found.shape}")
    if found.min() < 0:
        raise BadInput(f"labels must be class numbers from 0, got {int(found.min())}; leave out items without a label")
    return found.astype(np.int64)


def _shares(counts: npt.NDArray[np.int64], size: int, seed: int) -> npt.NDArray[np.int64]:
    """How many of `size` each class gets: its share, by Webster's method, but one at least where that is possible.

    Classes with equal claims take their turn in an order that the seed decides, or class 0 would always be favoured.
    """
    turn = drawn(len(counts), seed, "order of classes")
    given = (counts[turn] > 0).astype(np.int64)
    if given.sum() > size:
        given[:] = 0
    for _ in range(size - int(given.sum())):
        given[np.argmax(np.where(given < counts[turn], counts[turn] / (2 * given + 1), -1))] += 1
    shares = np.empty_like(given)
    shares[turn] = given
    return shares
