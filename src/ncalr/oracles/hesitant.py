"""Oracles that hesitate: `Refusing` never answers for some items, `Slow` does so late, `Corrected` changes its mind.

All stand before another oracle and decide by the item (a hash of seed and id), so it does not matter in which order
or company an item is asked about. Shares are those of a coin thrown for each item, since none knows the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ncalr.data.pool import Ids
from ncalr.errors import whole_number
from ncalr.oracles.oracle import (
    LATER,
    REFUSED,
    Answers,
    Mask,
    Oracle,
    Tally,
    as_ids,
    changes,
    lottery_of,
    remind,
    share,
)

_REFUSES, _WAITS, _CORRECTS = 0x2EF05E, 0x510D, 0xC022EC


class Refusing:
    """Cannot tell what a share of the items are, always the same ones."""

    def __init__(self, oracle: Oracle, rate: float, seed: int | Sequence[int] = 0) -> None:
        self.oracle, self.rate, self.seed = oracle, share(rate), seed

    def answer(self, ids: Any) -> Answers:
        """The other oracle's answers, some of them `REFUSED`."""
        return self._refused(self.oracle.answer(ids))

    def changes(self, ids: Any) -> Answers:
        """What the other oracle changed; what is refused stays so."""
        return self._refused(changes(self.oracle, ids))

    def remember(self, askings: Sequence[Any]) -> None:
        """It is the other oracle that may have to."""
        remind(self.oracle, askings)

    def _refused(self, answers: Answers) -> Answers:
        hit = _hit(answers.ids, self.rate, self.seed, _REFUSES)
        return replace(answers, labels=np.where(hit, REFUSED, answers.labels))


class Slow:
    """Says `LATER` about a share of the items, always the same ones, the first `times` times they are asked about."""

    def __init__(self, oracle: Oracle, rate: float = 1.0, times: int = 1, seed: int | Sequence[int] = 0) -> None:
        self.oracle, self.rate, self.times, self.seed = oracle, share(rate), whole_number("times", times, 0), seed
        self._tally = Tally()

    def answer(self, ids: Any) -> Answers:
        """The other oracle's answers, some of them `LATER`."""
        answers = self.oracle.answer(ids)  # first: where it knows an id not, nothing was asked
        early = self._tally.count(answers.ids) < self.times
        hit = _hit(answers.ids, self.rate, self.seed, _WAITS) & early
        return replace(answers, labels=np.where(hit, LATER, answers.labels))

    def changes(self, ids: Any) -> Answers:
        """What the other oracle changed."""
        return changes(self.oracle, ids)

    def remember(self, askings: Sequence[Any]) -> None:
        """Count from here."""
        self._tally = Tally(askings)
        remind(self.oracle, askings)


class Corrected:
    """Changes a share of its answers, always the same ones, into a reviewer's, some askings later.

    An answer is looked at again when `after` more calls were made. The reviewer is an oracle that says the same
    whenever it is asked: the truth, or `Refusing` before it where some of the answers are to be taken back.
    """

    def __init__(
        self, oracle: Oracle, reviewer: Oracle, rate: float = 1.0, after: int = 1, seed: int | Sequence[int] = 0
    ) -> None:
        self.oracle, self.reviewer = oracle, reviewer
        self.rate, self.after, self.seed = share(rate), whole_number("after", after, 0), seed
        self._tally = Tally()

    def answer(self, ids: Any) -> Answers:
        """The other oracle's answers."""
        answers = self.oracle.answer(ids)
        self._tally.count(answers.ids)
        return answers

    def changes(self, ids: Any) -> Answers:
        """The reviewer's answers, of what was reviewed by now."""
        asked = as_ids(ids)
        old = self._tally.since(asked) >= self.after
        return self.reviewer.answer(asked[old & _hit(asked, self.rate, self.seed, _CORRECTS)])

    def remember(self, askings: Sequence[Any]) -> None:
        """Count from here."""
        self._tally = Tally(askings)
        remind(self.oracle, askings)


def _hit(ids: Ids, rate: float, seed: int | Sequence[int], salt: int) -> Mask:
    return np.asarray(lottery_of(salt, seed, ids).uniform() < rate)
