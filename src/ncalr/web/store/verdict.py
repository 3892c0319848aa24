"""What the answers about one item come to. Ties go to a person, never to a coin.

>>> judge([Vote("label", 2), Vote("label", 2), Vote("label", 0)], needed=3)
Verdict(status='labelled', answer=2, confidence=0.6666666666666666, votes=3)
>>> judge([Vote("label", 2), Vote("label", 0)], needed=2).status
'disputed'
>>> judge([Vote("label", 2), Vote("label", 0), Vote("label", 0, "adjudicate")], needed=2).answer
0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

COUNTED = ("label", "none", "broken")
"""Answers that count as a vote. `unsure` sends the item to somebody else, `skip` back to the end of the line."""

UNCLEAR_AFTER = 3
"""So many people who are unsure, and an adjudicator is asked instead of a fourth; fewer where there are no more."""


@dataclass(frozen=True)
class Vote:
    """One person's answer as it stands now."""

    kind: str
    answer: int | None = None
    purpose: str = "label"
    present: bool = True  # whether whoever said so may come in


@dataclass(frozen=True)
class Verdict:
    """Where an item stands: open, labelled, none, broken, disputed or unclear."""

    status: str
    answer: int | None
    confidence: float
    votes: int

    @property
    def is_open(self) -> bool:
        """Whether more votes are wanted from annotators."""
        return self.status == "open"


OPEN = Verdict("open", None, 0.0, 0)


def judge(votes: Iterable[Vote], needed: int, people: int | None = None) -> Verdict:
    """The verdict on an item that `needed` people are to vote on, of so many `people` who may come in.

    >>> judge([Vote("unsure")], needed=1, people=2).status, judge([Vote("unsure")], needed=1, people=1).status
    ('open', 'unclear')
    """
    everyone = list(votes)
    counted = [vote for vote in everyone if vote.kind in COUNTED]
    decided = [vote for vote in counted if vote.purpose == "adjudicate"]
    if decided:
        last = decided[-1]
        same = sum(_says(vote) == _says(last) for vote in counted)
        return Verdict(_status(last), last.answer, same / len(counted), len(counted))
    if len(counted) < needed:
        return Verdict("unclear" if _is_unclear(everyone, people) else "open", None, 0.0, len(counted))
    ranked = Counter(_says(vote) for vote in counted).most_common()
    (best, count), others = ranked[0], ranked[1:]
    if others and others[0][1] == count:
        return Verdict("disputed", None, count / len(counted), len(counted))
    winner = next(vote for vote in counted if _says(vote) == best)
    return Verdict(_status(winner), winner.answer, count / len(counted), len(counted))


def given(votes: Iterable[Vote]) -> int:
    """How many of the answers an item wants from annotators are given."""
    return sum(vote.purpose == "label" and vote.kind in COUNTED for vote in votes)


def _is_unclear(votes: list[Vote], people: int | None) -> bool:
    """Whether enough people are unsure, or some are and nobody is left to ask."""
    unsure = sum(vote.kind == "unsure" for vote in votes)
    asked = sum(vote.present and vote.purpose == "label" and vote.kind != "skip" for vote in votes)
    return unsure >= UNCLEAR_AFTER or (unsure > 0 and bool(people) and asked >= (people or 0))


def _says(vote: Vote) -> tuple[str, int | None]:
    return vote.kind, vote.answer


def _status(vote: Vote) -> str:
    return "labelled" if vote.kind == "label" else vote.kind
