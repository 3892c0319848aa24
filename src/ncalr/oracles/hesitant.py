"""Oracles that do not always answer: `Refusing` never does for some items, `Slow` does so late.

Both stand before another oracle and decide by the item (a hash of seed and id), so it does not matter in which order
or company an item is asked about. Shares are those of a coin thrown for each item, since neither knows the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ncalr.errors import BadInput
from ncalr.oracles.oracle import LATER, REFUSED, Answers, Mask, Oracle, Tally, lottery_of, share

_REFUSES, _WAITS = 0x2EF05E, 0x510D


class Refusing:
    """Cannot tell what a share of the items are, always the same ones."""

    def __init__(self, oracle: Oracle, rate: float, seed: int | Sequence[int] = 0) -> None:
        self.oracle, self.rate, self.seed = oracle, share(rate), seed

    def answer(self, ids: Any) -> Answers:
        """The other oracle's answers, some of them `REFUSED`."""
        answers = self.oracle.answer(ids)
        hit = _hit(answers, self.rate, self.seed, _REFUSES)
        return replace(answers, labels=np.where(hit, REFUSED, answers.labels))


class Slow:
    """Says `LATER` about a share of the items, always the same ones, the first `times` times they are asked about."""

    def __init__(self, oracle: Oracle, rate: float = 1.0, times: int = 1, seed: int | Sequence[int] = 0) -> None:
        if isinstance(times, bool) or not isinstance(times, int | np.integer) or times < 0:
            raise BadInput(f"times must be a whole number from 0 on, got {times!r}")
        self.oracle, self.rate, self.times, self.seed = oracle, share(rate), int(times), seed
        self._tally = Tally()

    def answer(self, ids: Any) -> Answers:
        """The other oracle's answers, some of them `LATER`."""
        answers = self.oracle.answer(ids)  # first: where it knows an id not, nothing was asked
        early = self._tally.count(answers.ids) < self.times
        hit = _hit(answers, self.rate, self.seed, _WAITS) & early
        return replace(answers, labels=np.where(hit, LATER, answers.labels))


def _hit(answers: Answers, rate: float, seed: int | Sequence[int], salt: int) -> Mask:
    return np.asarray(lottery_of(salt, seed, answers.ids).uniform() < rate)
