"""The pool: items with permanent ids and a way to read them.

A pool gives its items as arrays, a block at a time, and never holds labels. Images are uint8 (n, height, width,
channels); vectors (embeddings, tables) are floating-point (n, d); tokens are whole numbers (n, length), as
`ncalr.learn.nets.external.tokenise` makes them of texts. A `TextPool` has the texts themselves: learners turn them.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, NotFinite
from ncalr.kernels import as_kind, to_numpy

Ids = npt.NDArray[Any]


@runtime_checkable
class Pool(Protocol):
    """Items with permanent ids."""

    @property
    def ids(self) -> Ids:
        """The id of each item (n,): whole numbers or texts, each once."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one item: (height, width, channels) for images, (d,) for vectors."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The kind of number an item is made of."""

    def read(self, positions: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """The items at these positions, in this order."""

    def __len__(self) -> int:
        """How many items there are."""


class ArrayPool:
    """A pool whose items are the rows of one array, in memory or memory-mapped."""

    def __init__(self, items: Any, ids: Any = None) -> None:
        array = items if isinstance(items, np.memmap) else to_numpy(items, "items")
        images = array.ndim in (3, 4) and array.dtype == np.uint8
        if not len(array.shape) or not len(array):
            raise BadInput(f"a pool needs at least one item, got an array of shape {array.shape}")
        if not images and not (array.ndim == 2 and array.dtype.kind in "fiu"):
            raise BadInput(
                "a pool holds images, uint8 (n, height, width[, channels]), vectors, floating-point (n, d), or tokens, "
                f"whole numbers (n, length); got {array.dtype} of shape {array.shape}"
            )
        self.items = array[..., None] if array.ndim == 3 else array
        self.ids = checked_ids(ids, len(array))
        if self.items.dtype.kind == "f":
            self._check_finite()

    def _check_finite(self) -> None:
        bad: list[int] = []
        for start in range(0, len(self), 65536):
            fine = np.isfinite(self.items[start : start + 65536]).all(axis=1)
            bad += (start + np.flatnonzero(~fine)).tolist()
        if bad:
            place = int(np.flatnonzero(~np.isfinite(self.items[bad[0]]))[0])
            raise NotFinite(
                f"{len(bad):,} of the pool's {len(self):,} vectors hold NaN or infinity, the first in row {bad[0]} (id "
                f"{self.ids[bad[0]].item()!r}), dimension {place}; mend or leave out those items"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one item."""
        return tuple(self.items.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The kind of number an item is made of."""
        return np.dtype(self.items.dtype)

    def read(self, positions: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """The items at these positions, in this order."""
        return np.array(self.items[positions])  # a copy: nobody changes the pool by changing what was read

    def __len__(self) -> int:
        return len(self.items)


def checked_ids(ids: Any, n: int) -> Ids:
    """Ids for n items: whole numbers or texts, each once; 0..n-1 where none are given. They cannot be written to."""
    names = np.arange(n) if ids is None else np.array(to_numpy(ids, "ids"))
    if names.dtype == object and all(isinstance(name, str) for name in names.flat):  # as pandas has texts
        names = names.astype(str)
    if names.dtype.kind not in "iuU":
        raise BadInput(f"ids must be {n} whole numbers or texts, got {names.dtype} of shape {names.shape}")
    if names.shape != (n,):
        count = f"{len(names):,}" if names.ndim == 1 else f"an array of shape {names.shape}"
        raise BadInput(f"there are {n:,} items, and ids for {count}; give each item one, in the order of the items")
    values, counts = np.unique(names, return_counts=True)
    if len(values) < n:
        twice = values[counts > 1]
        raise BadInput(f"ids must not repeat; {len(twice):,} do, the first is {twice[0].item()!r}; name each once")
    names.flags.writeable = False
    return names


def positions_of(pool: Pool, ids: Any) -> npt.NDArray[np.intp]:
    """Where these ids stand in the pool; each must be there, and be named once."""
    wanted = to_numpy(ids, "ids")
    if wanted.ndim != 1:
        raise BadInput(f"ids must be a list, got shape {wanted.shape}")
    if wanted.size and wanted.dtype.kind not in "iuU":
        raise BadInput(f"ids must be whole numbers or texts, got {wanted.dtype}")
    if wanted.size and (wanted.dtype.kind == "U") != (pool.ids.dtype.kind == "U"):
        kinds = ["whole numbers", "texts"][:: -1 if wanted.dtype.kind == "U" else 1]
        raise BadInput(f"ids are {kinds[0]} and the pool's ids {kinds[1]}: give the same kind of ids")
    wanted = as_kind(wanted, pool.ids.dtype)
    order = np.argsort(pool.ids, kind="stable")
    found = np.searchsorted(pool.ids, wanted, sorter=order)
    positions = order[np.minimum(found, len(order) - 1)]
    strangers = wanted[pool.ids[positions] != wanted]
    if len(strangers):
        raise BadInput(f"{len(strangers)} ids are not in the pool, the first is {strangers[:1].tolist()[0]!r}")
    values, counts = np.unique(wanted, return_counts=True)
    if len(values) < len(wanted):
        raise BadInput(f"ids must not repeat; the first that does is {values[counts > 1][0].item()!r}")
    return np.asarray(positions, np.intp)
