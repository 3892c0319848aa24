"""Randomness that belongs to the item, not to its place.

Every random number is a function of (seed, what it is for, the item's id), so ties break and samples fall the same
way whatever the order of the pool, however it is cut into chunks, on the CPU and on a GPU; and a pool scored in
seven shards gives the ids that one shard gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput

Words = npt.NDArray[np.uint64]
_MASK = 2**64 - 1


def mix(x: int) -> int:
    """One round of splitmix64 (Steele, Lea and Flood 2014) on a Python integer."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def mix_all(x: Words) -> Words:
    """The same on an array."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def check_seed(seed: Any) -> list[Any]:
    """Return the numbers of a seed; raise for anything else."""
    parts = list(seed) if isinstance(seed, Iterable) else [seed]
    if not all(isinstance(part, int | np.integer) for part in parts):
        raise BadInput(f"seed must be a whole number or a list of them, got {seed!r}")
    return parts


class Lottery:
    """Seeded random numbers for the items with these ids."""

    def __init__(self, seed: int | Sequence[int], ids: npt.NDArray[Any]) -> None:
        word = 0
        for part in check_seed(seed):
            word = mix(word ^ (int(part) & _MASK))
        self._seed, self._ids = word, ids

    def at(self, rows: Any) -> Lottery:
        """The lottery of some of the items: each keeps its numbers."""
        return self._of(self._ids[rows])

    def joined(self, others: int) -> Lottery:
        """The lottery of these items followed by `others` that have no ids."""
        return self._of(np.concatenate([_words(self._ids[:]), mix_all(np.arange(others, dtype=np.uint64))]))

    def _of(self, ids: npt.NDArray[Any]) -> Lottery:
        other = copy(self)
        other._ids = ids
        return other

    def keys(self, rows: Any = slice(None)) -> Words:
        """One 64-bit word an item."""
        return mix_all(_words(self._ids[rows]) ^ np.uint64(self._seed))

    def draw(self, purpose: int) -> int:
        """A word to mix with the keys for one more independent draw."""
        return mix(self._seed ^ mix(purpose))

    def uniform(self, purpose: int = 0) -> npt.NDArray[np.float64]:
        """One number strictly between 0 and 1 an item."""
        words = mix_all(self.keys() ^ np.uint64(self.draw(purpose)))
        return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53, np.float64)

    def gumbel(self, purpose: int = 0) -> npt.NDArray[np.float64]:
        """One standard Gumbel number an item."""
        return np.asarray(-np.log(-np.log(self.uniform(purpose))), np.float64)


def _words(ids: npt.NDArray[Any]) -> Words:
    """Ids as 64-bit words: whole numbers as they are, texts by FNV-1a over their characters."""
    if ids.dtype.kind in "iu":
        return ids.astype(np.uint64)
    words = np.full(len(ids), 0xCBF29CE484222325, np.uint64)
    if ids.dtype.itemsize == 0 or not len(ids):
        return words
    letters = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)
    for column in letters.T:
        changed = (words ^ column) * np.uint64(0x100000001B3)
        words = np.where(column > 0, changed, words)  # padding leaves no trace: an id has no width
    return words
