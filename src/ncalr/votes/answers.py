"""Who said what about which item: the one value that every consensus method and agreement measure reads.

Answers are kept in long form, one row an answer, because crowds are sparse: of a thousand annotators three have seen
an item. Ids are permanent and of any kind (whole numbers, texts, hashable objects); inside, positions are used.

* An item may have no answer and an annotator may have given none: name them in `known_items`, `known_annotators`.
  With such a list an id that is not on it is an error, so a mistyped annotator is found here and not in a table.
* The same annotator may answer twice about one item. Both answers count, as two readings, as in Dawid and Skene's
  paper. Where the question is how far people agree *with each other*, a second reading by the same person is no
  second opinion, and only the last is used (`latest`); the methods that do so say it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, whole_number
from ncalr.kernels import to_numpy

Ids = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_ANSWER = -1
"""In a table of answers, and as the consensus of an item that nobody answered."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers of several annotators about several items. Build it with `from_long` or `from_matrix`.

    >>> votes = Votes.from_long(["cat.png", "cat.png", "dog.png"], ["ann", "bob", "ann"], [0, 0, 1], classes=2)
    >>> votes.items.tolist(), votes.annotators.tolist(), votes.counts.tolist()
    (['cat.png', 'dog.png'], ['ann', 'bob'], [[2, 0], [0, 1]])
    """

    items: Ids  # (n,) in the order they were named
    annotators: Ids  # (a,)
    item: Ints  # (v,) position of each answer's item
    annotator: Ints  # (v,) position of who gave it
    label: Ints  # (v,) 0..classes-1
    classes: int

    @classmethod
    def from_long(
        cls,
        items: Any,
        annotators: Any,
        labels: Any,
        classes: int,
        *,
        known_items: Any = None,
        known_annotators: Any = None,
    ) -> Votes:
        """Row r says that `annotators[r]` called `items[r]` a `labels[r]`; a label of -1 is no answer."""
        classes = whole_number("classes", classes, 2, MOST_CLASSES)
        about, by, given = _as_ids(items, "items"), _as_ids(annotators, "annotators"), to_numpy(labels, "labels")
        if given.shape != about.shape or given.shape != by.shape:
            raise BadInput(
                f"items, annotators and labels must be lists of one length, one row an answer; got {len(about)} items, "
                f"{len(by)} annotators and labels of shape {given.shape}"
            )
        given = _as_labels(given, classes)
        all_items, item = _numbered(about, known_items, "item")
        everyone, annotator = _numbered(by, known_annotators, "annotator")
        said = given != NO_ANSWER
        return cls(all_items, everyone, item[said], annotator[said], given[said], classes)

    @classmethod
    def from_matrix(cls, labels: Any, classes: int, *, items: Any = None, annotators: Any = None) -> Votes:
        """From a table (items, annotators) of labels with -1 for no answer; ids are 0, 1, 2, … unless given.

        >>> Votes.from_matrix([[0, 0, 1], [-1, 1, -1], [-1, -1, -1]], classes=2).answers.tolist()
        [3, 1, 0]
        """
        classes = whole_number("classes", classes, 2, MOST_CLASSES)
        table = to_numpy(labels, "labels")
        if table.ndim != 2:
            raise BadInput(f"a table of answers has two dimensions (items, annotators), got shape {table.shape}")
        table = _as_labels(table, classes)
        rows = _names(items, len(table), "item")
        columns = _names(annotators, table.shape[1], "annotator")
        item, annotator = np.nonzero(table != NO_ANSWER)
        return cls(rows, columns, item, annotator, table[item, annotator], classes)

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self.label)

    @cached_property
    def answers(self) -> Ints:
        """Answers about each item (n,)."""
        return np.bincount(self.item, minlength=len(self.items))

    @cached_property
    def given(self) -> Ints:
        """Answers by each annotator (a,)."""
        return np.bincount(self.annotator, minlength=len(self.annotators))

    @cached_property
    def counts(self) -> Ints:
        """How often each item was called each class (n, c)."""
        flat = np.bincount(self.item * self.classes + self.label, minlength=len(self.items) * self.classes)
        return flat.reshape(-1, self.classes)

    @cached_property
    def shares(self) -> Floats:
        """The counts as shares of the item's answers (n, c); equal shares where there are none."""
        shares = self.counts / np.maximum(self.answers, 1)[:, None]
        return np.where(self.answers[:, None] > 0, shares, 1 / self.classes)

    @cached_property
    def readings(self) -> Any:
        """The answers as a sparse matrix (n, a c): how often annotator j called this item l, in column j c + l."""
        column = self.annotator * self.classes + self.label
        shape = (len(self.items), len(self.annotators) * self.classes)
        return sparse.csr_array((np.ones(len(self)), (self.item, column)), shape=shape)

    @cached_property
    def opinions(self) -> Ints:
        """How many different people answered about each item (n,)."""
        return np.bincount(self.latest().item, minlength=len(self.items))

    @cached_property
    def checked(self) -> npt.NDArray[np.bool_]:
        """The answers (v,) about items that somebody else answered too."""
        return np.asarray(self.opinions[self.item] > 1)

    @cached_property
    def answered(self) -> Votes:
        """The same answers over only those items that have any."""
        kept = np.flatnonzero(self.answers)
        place = np.cumsum(self.answers > 0) - 1
        return replace(self, items=self.items[kept], item=place[self.item])

    def latest(self) -> Votes:
        """The same answers, of each annotator only the last about each item."""
        pair = self.item * len(self.annotators) + self.annotator
        last = len(pair) - 1 - np.unique(pair[::-1], return_index=True)[1]
        return self.at(np.sort(last))

    def at(self, rows: Any) -> Votes:
        """Some of the answers, about the same items by the same annotators."""
        return replace(self, item=self.item[rows], annotator=self.annotator[rows], label=self.label[rows])

    def position(self, annotator: Any) -> int:
        """Where this annotator stands in `annotators`."""
        return stand(self.annotators, annotator)


def stand(annotators: Ids, annotator: Any) -> int:
    """The position of one annotator's id among those that are known."""
    for place, known in enumerate(annotators.tolist()):
        if known == annotator:
            return place
    raise BadInput(
        f"annotator {annotator!r} was never seen; there are {len(annotators)}, the first {annotators[:3].tolist()}. "
        "Name one who has not answered yet in known_annotators"
    )


def _as_ids(given: Any, what: str) -> Ids:
    """Ids as a flat array. NumPy would turn [1, "a"] into texts and tuples into rows; they stay what they are."""
    if hasattr(given, "dtype"):
        array = to_numpy(given, what)
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadInput(f"{what} must be a list of ids, got {given!r:.80}")
    else:
        listed = list(given)
        alike = all(isinstance(one, str) for one in listed) or all(type(one) is int for one in listed)
        array = np.asarray(listed, None if listed else np.int64) if alike else np.fromiter(listed, object, len(listed))
    if array.ndim != 1:
        raise BadInput(f"{what} must be a list of ids, got shape {array.shape}")
    return np.asarray(array)


def _names(given: Any, size: int, what: str) -> Ids:
    """The ids of the rows or columns of a table."""
    if given is None:
        return np.arange(size)
    ids = _as_ids(given, f"{what}s")
    if len(ids) != size:
        raise BadInput(f"the table of answers has {size} {what}s, got {len(ids)} {what} ids")
    return _numbered(ids[:0], ids, what)[0]


def _numbered(ids: Ids, known: Any, what: str) -> tuple[Ids, Ints]:
    """The different ids, those known or else in the order they first come, and the position of each among them."""
    if known is None:
        return _factorised(ids, what)
    names = _as_ids(known, f"known_{what}s")
    place = _factorised(_joined(names, ids), what)[1]
    n = len(names)
    if n and place[:n].max() < n - 1:
        raise BadInput(f"{what} ids must not repeat; {n} were named, {place[:n].max() + 1} of them different")
    strangers = ids[place[n:] >= n]
    if len(strangers):
        raise BadInput(
            f"{len(strangers)} answers are of an {what} not among the {n} known, the first is "
            f"{strangers[:1].tolist()[0]!r}; add it to known_{what}s or leave its answers out"
        )
    return names, place[n:]


def _joined(first: Ids, second: Ids) -> Ids:
    """Both lists of ids in one; kinds that NumPy would convert into each other stay apart, as objects."""
    if first.dtype.kind == second.dtype.kind:
        return np.concatenate([first, second])
    return np.concatenate([first.astype(object), second.astype(object)])


def _factorised(ids: Ids, what: str) -> tuple[Ids, Ints]:
    """The different ids in the order they first come, and the position of each among them."""
    if ids.dtype.kind == "O":
        places: dict[Any, int] = {}
        try:
            place = np.array([places.setdefault(one, len(places)) for one in ids.tolist()], np.int64)
        except TypeError as error:
            raise BadInput(f"{what} ids must be whole numbers, texts or hashable objects: {error}") from error
        return np.fromiter(places, object, len(places)), place
    unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return unique[order], rank[inverse.reshape(-1)]


def _as_labels(given: Any, classes: int) -> Any:
    if given.size and given.dtype.kind not in "iu":
        raise BadInput(f"labels must be whole numbers 0..{classes - 1}, or -1 for no answer; got {given.dtype}")
    labels = given.astype(np.int64)
    wrong = labels[(labels < NO_ANSWER) | (labels >= classes)]
    if len(wrong):
        raise BadInput(
            f"labels must lie in 0..{classes - 1} for {classes} classes, or be -1 for no answer; "
            f"{len(wrong)} do not, the first is {wrong[0]}"
        )
    return labels
