"""How often to ask about an item: once, several times at once, or again where one more answer is worth most.

    single                                  one answer an item
    votes(n=3, method=majority)             every item is asked about n times
    doubts(new=0.3, again=0.1, most=3)      a round's answers go to new items and to second opinions, on one scale

A budget counts answers, whichever the policy: three votes an item are a third of the items.

`doubts` is ActiveLab's question (Goh and Mueller 2023; `ncalr.votes.doubts`), label or ask again, over any strategy. It
names the k items that it would buy with the round's k answers. They and the labelled items that may still
be asked about stand on one list, ordered by how much one more answer about each is wanted; the k first of the list
say how many answers go to either side, at least the shares `new` and `again`. The new items are then the strategy's
own, and the second opinions those most doubted. So a strategy that spreads out is not made to pick what a model
doubts, and it pays for new items exactly where they are worth more than what is labelled already.

Labels are what the answers come to by `method` (`ncalr.votes.METHODS`), with the model as one more voter where the
method has one (`voice.py`); with `soft` a network learns the posterior instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.lottery import Lottery
from ncalr.acquire.spec import parse
from ncalr.errors import BadInput, check_known
from ncalr.votes import METHODS

VOICE = frozenset({"logits", "labelled_log"})
"""The evidence that the model's voice is made of."""

WITH_MODEL = frozenset({"crowdlab", "bayes"})
"""Methods in which the model has a voice."""

_TIES = 0xD0BB7


class Policy:
    """What every policy says; as it stands here, of one answer an item."""

    method: str = "majority"
    soft: bool = False

    def __post_init__(self) -> None:
        check_known("consensus method", self.method, METHODS)
        if not isinstance(self.soft, bool):
            raise BadInput(f"soft must be True or False, got {self.soft!r}")

    @property
    def cap(self) -> int:
        """Answers that an item may get."""
        return 1

    @property
    def each(self) -> int:
        """Answers that an item gets at once."""
        return 1

    @property
    def collects(self) -> bool:
        """Whether labels are made of several answers."""
        return self.cap > 1

    @property
    def needs(self) -> frozenset[str]:
        """What is asked of a model beside the strategy's needs."""
        return VOICE if self.collects and self.method in WITH_MODEL else frozenset()

    def fresh(self, k: int, owed: int) -> int:
        """How many new items k answers are for, where so many are owed to items that were begun.

        As many as it takes: the last ones may be left with fewer answers, and the next round owes them the rest.
        """
        return math.ceil(max(k - owed, 0) / self.each)


@dataclass(frozen=True)
class Single(Policy):
    """One answer an item, and that is its label."""


@dataclass(frozen=True)
class Repeated(Policy):
    """Every item is asked about n times at once."""

    n: int = 3
    method: str = "majority"
    soft: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("n", self.n, 1)

    @property
    def cap(self) -> int:
        """Answers that an item may get."""
        return self.n

    @property
    def each(self) -> int:
        """Answers that an item gets at once."""
        return self.n


@dataclass(frozen=True)
class Doubts(Policy):
    """New items and second opinions on one scale."""

    new: float = 0.3  # least share of a round's answers that new items get
    again: float = 0.1  # least share that second opinions get
    method: str = "bayes"
    soft: bool = False
    most: int = 3  # answers an item may get; no more than there are annotators

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("new", "again"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise BadInput(f"{name} is a share of a round's answers, 0 to 1, got {value!r}")
        if self.new + self.again > 1:
            raise BadInput(f"the shares new={self.new} and again={self.again} are more than all answers together")
        _whole("most", self.most, 2)

    @property
    def cap(self) -> int:
        """Answers that an item may get."""
        return self.most

    @property
    def needs(self) -> frozenset[str]:
        """Doubts are the model's, whatever the method."""
        return VOICE

    def share(self, k: int, among_best: int, picked: int, open_again: int) -> int:
        """How many of k answers are second opinions, of which so many are among the k most wanted answers.

        `picked` new items can be had, and `open_again` second opinions. Where both floors cannot be, that of the new
        items holds.

        >>> [Doubts().share(10, among, 10, 50) for among in (0, 4, 10)]
        [1, 4, 7]
        """
        most = min(k - min(_up(self.new * k), picked), open_again)
        least = min(_up(self.again * k), most)
        return max(min(max(among_best, least), most), min(k - picked, open_again))


def _up(share: float) -> int:
    """Rounded up, but for what is whole: 0.07 of 100 is 7.000000000000001 to a computer."""
    return math.ceil(share * (1 - 1e-12))


POLICIES: dict[str, Callable[..., Policy]] = {"single": Single, "votes": Repeated, "doubts": Doubts}
"""Policies by name."""


def policy(text: str) -> Policy:
    """The policy that a text stands for.

    >>> policy("votes(n=5)").cap
    5
    """
    spec = parse(text)
    check_known("policy of answers", spec.name, POLICIES)
    try:
        return POLICIES[spec.name](**spec.options)
    except TypeError as error:
        raise BadInput(f"cannot make the policy {spec}: {error}") from None


def most_wanted(doubts: Any, ids: npt.NDArray[Any], seed: list[int]) -> npt.NDArray[np.intp]:
    """The order of items by how much an answer about each is wanted; ties by the lottery."""
    keys = Lottery([_TIES, *seed], ids).keys()
    return np.lexsort((keys, -np.round(np.asarray(doubts, np.float64), 12)))


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{name} must be a whole number from {least} on, got {value!r}")
