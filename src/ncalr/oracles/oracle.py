"""The oracle: whoever says what an item is, by the item's id.

One call is one asking. An id may stand in it several times and then has the same answer at each place. An oracle that
does not know an id says so with `BadInput` and has then not been asked at all. What every oracle must do is written
down in `ncalr.testing.oracles`.

Two more methods are for those who need them. People correct what they said: an oracle that may change, take back or
bring in an answer has `changes` (`Changing`), and is asked about what it answered before every training. And an oracle
whose answers depend on what it was asked before has `remember` (`Remembering`): a run that was killed and is resumed
tells it, so that it goes on as if nothing had happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ncalr.acquire.lottery import Lottery
from ncalr.data.pool import Ids
from ncalr.errors import BadInput, whole_number

Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

REFUSED = -1
"""The answer "cannot tell": the item will not get a label."""

LATER = -2
"""No answer yet: ask again."""


@dataclass(frozen=True)
class Answers:
    """What was said about each id: a class, `REFUSED` or `LATER`; and by whom, one name for all or one an id."""

    ids: Ids
    labels: Labels
    by: Any = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", as_ids(self.ids))
        object.__setattr__(self, "labels", _answered(self.labels, len(self.ids)))
        if not isinstance(self.by, str):
            object.__setattr__(self, "by", np.asarray(self.by))
            if self.by.shape != self.ids.shape:
                raise BadInput(f"`by` is one name, or one for each of {len(self.ids)} ids; got shape {self.by.shape}")

    @property
    def known(self) -> Mask:
        """Which ids have a label now."""
        return np.asarray(self.labels >= 0)

    @property
    def refused(self) -> Mask:
        """Which ids will not get one."""
        return np.asarray(self.labels == REFUSED)

    @property
    def later(self) -> Mask:
        """Which ids to ask about again."""
        return np.asarray(self.labels == LATER)

    def __len__(self) -> int:
        return len(self.ids)


@runtime_checkable
class Oracle(Protocol):
    """Answers for ids."""

    def answer(self, ids: Any) -> Answers:
        """What is said about these ids, in their order."""


@runtime_checkable
class Changing(Oracle, Protocol):
    """An oracle that may say something else of an item afterwards."""

    def changes(self, ids: Any) -> Answers:
        """What is said now about those of these ids, answered before, of which something else may be said now.

        A class takes the place of the answer or of the refusal, `REFUSED` ends it, and `LATER` takes it back: the item
        is asked about again. Asking this changes nothing: a run that was killed before it wrote the changes down asks
        once more. What is as it was may be named too.
        """


@runtime_checkable
class Remembering(Oracle, Protocol):
    """An oracle that counts what it is asked."""

    def remember(self, askings: Sequence[Any]) -> None:
        """Be as one that was asked about these ids, a call each, and about nothing else."""


def changes(oracle: Oracle, ids: Any) -> Answers:
    """What the oracle has changed, if it ever does."""
    return oracle.changes(ids) if isinstance(oracle, Changing) else Answers(as_ids(ids)[:0], np.empty(0, np.int64))


def remind(oracle: Oracle, askings: Sequence[Any]) -> None:
    """Tell the oracle what it was asked, if it wants to know."""
    if isinstance(oracle, Remembering):
        oracle.remember(askings)


class Truth:
    """An oracle that knows every label and is never wrong."""

    def __init__(self, ids: Any, labels: Any, classes: int) -> None:
        self.classes = whole_number("classes", classes, 1)
        self.ids = as_ids(ids)
        self.labels = as_labels(labels, self.classes, items=len(self.ids))
        self._directory = Directory(self.ids)

    def answer(self, ids: Any) -> Answers:
        """The true labels of these ids."""
        asked = as_ids(ids)
        return Answers(asked, self.labels[self._directory.positions(asked)], "truth")


class Directory:
    """Where each of many ids stands; sorted once, asked often."""

    def __init__(self, ids: Ids) -> None:
        order = np.argsort(ids, kind="stable")
        self._order, self._sorted = order, ids[order]
        twice = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        if len(twice):
            raise BadInput(f"ids must not repeat; the first that does is {twice[0].item()!r}")

    def positions(self, asked: Ids) -> npt.NDArray[np.intp]:
        """The position of each id, which may be asked for more than once."""
        if not len(asked):
            return np.empty(0, np.intp)
        if (asked.dtype.kind == "U") != (self._sorted.dtype.kind == "U"):
            raise BadInput(f"ids are {asked.dtype} and the oracle's {self._sorted.dtype}: give the same kind of ids")
        if not len(self._sorted):
            raise BadInput(f"{len(asked)} ids are not known to the oracle, which knows none")
        # NumPy would compare int64 with uint64 as floating-point numbers, in which large ids run together
        found = np.searchsorted(self._sorted, asked.astype(self._sorted.dtype))
        found = np.minimum(found, len(self._sorted) - 1)
        strangers = asked[self._sorted[found] != asked]
        if len(strangers):
            raise BadInput(
                f"{len(strangers)} of {len(asked)} ids are not known to the oracle, the first is "
                f"{strangers[0].item()!r}; ask about ids it was made with"
            )
        return np.asarray(self._order[found], np.intp)


class Tally:
    """How often each id was asked about, and how long ago, for oracles whose answers change."""

    def __init__(self, askings: Sequence[Any] = ()) -> None:
        self._times: Counter[Any] = Counter()
        self._first: dict[Any, int] = {}
        self._calls = 0
        for ids in askings:
            self.count(as_ids(ids))

    def times(self, ids: Ids) -> npt.NDArray[np.int64]:
        """How many calls held each of these ids."""
        return np.array([self._times[key] for key in ids.tolist()], np.int64)

    def count(self, ids: Ids) -> npt.NDArray[np.int64]:
        """How many earlier calls held each of these ids; this call counts from now on."""
        before = self.times(ids)
        keys = np.unique(ids).tolist()
        self._calls += bool(keys)
        self._times.update(keys)
        for key in keys:
            self._first.setdefault(key, self._calls)
        return before

    def since(self, ids: Ids) -> npt.NDArray[np.int64]:
        """How many calls were made after the first that held each of these ids; -1 where there was none."""
        return np.array([self._calls - self._first.get(key, self._calls + 1) for key in ids.tolist()], np.int64)


def as_ids(ids: Any) -> Ids:
    """Ids as an array; an empty list has no kind of its own and becomes whole numbers."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise BadInput(f"ids must be a list, got shape {array.shape}")
    if not len(array):
        return array if array.dtype.kind in "iuU" else np.empty(0, np.int64)
    if array.dtype.kind not in "iuU":
        raise BadInput(f"ids must be whole numbers or texts, got {array.dtype}")
    return array


def as_labels(labels: Any, classes: int, items: int | None = None, what: str = "labels") -> Labels:
    """Labels as an array of whole numbers 0..classes - 1, one an item."""
    array = np.asarray(labels)
    if array.ndim != 1 or (items is not None and len(array) != items):
        wanted = "a list" if items is None else f"{items}, one an item"
        raise BadInput(f"{what} must be {wanted}; got shape {array.shape}")
    if len(array) and array.dtype.kind not in "iu":
        raise BadInput(f"{what} must be whole numbers, got {array.dtype}")
    wrong = array[(array < 0) | (array >= classes)]
    if len(wrong):
        raise BadInput(f"{what} must lie in 0..{classes - 1} for {classes} classes; got {wrong[0].item()}")
    return array.astype(np.int64)


def share(rate: Any, name: str = "rate") -> float:
    """A share between 0 and 1, looked at."""
    number = isinstance(rate, int | float | np.integer | np.floating) and not isinstance(rate, bool)
    if not number or not 0 <= rate <= 1:
        raise BadInput(f"{name} must be a number from 0 to 1, got {rate!r}; write 20 % as {name}=0.2")
    return float(rate)


def lottery_of(salt: int, seed: int | Sequence[int], ids: Ids, *more: int) -> Lottery:
    """The draws of the items with these ids for one purpose, the salt.

    Things that run under one seed must not share their draws: the late items would be the refused ones, and the
    strategy `random` would pick the wrong labels.
    """
    parts = list(seed) if isinstance(seed, Sequence | np.ndarray) else [seed]
    return Lottery([salt, *parts, *more], ids)


def _answered(labels: Any, items: int) -> Labels:
    array = np.asarray(labels)
    if array.shape != (items,):
        raise BadInput(f"{items} ids need {items} answers; got shape {array.shape}")
    if len(array) and array.dtype.kind not in "iu":
        raise BadInput(f"answers must be whole numbers: a class, REFUSED or LATER; got {array.dtype}")
    if len(array) and array.min() < LATER:
        raise BadInput(f"answers are a class, REFUSED ({REFUSED}) or LATER ({LATER}); got {array.min()}")
    return array.astype(np.int64)
