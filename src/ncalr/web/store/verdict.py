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
"""So many people who are unsure, and an adjudicator is asked instead of a fourth."""


@dataclass(frozen=True)
class Vote:
    """One person's answer as it stands now."""

    kind: str
    answer: int | None = None
    purpose: str = "label"


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


def judge(votes: Iterable[Vote], needed: int) -> Verdict:
    """The verdict on an item that `needed` people are to vote on."""
    everyone = list(votes)
    counted = [vote for vote in everyone if vote.kind in COUNTED]
    decided = [vote for vote in counted if vote.purpose == "adjudicate"]
    if decided:
        last = decided[-1]
        same = sum(_says(vote) == _says(last) for vote in counted)
        return Verdict(_status(last), last.answer, same / len(counted), len(counted))
    if len(counted) < needed:
        unsure = sum(vote.kind == "unsure" for vote in everyone)
        status = "unclear" if unsure >= UNCLEAR_AFTER else "open"
        return Verdict(status, None, 0.0, len(counted))
    ranked = Counter(_says(vote) for vote in counted).most_common()
    (best, count), others = ranked[0], ranked[1:]
    if others and others[0][1] == count:
        return Verdict("disputed", None, count / len(counted), len(counted))
    winner = next(vote for vote in counted if _says(vote) == best)
    return Verdict(_status(winner), winner.answer, count / len(counted), len(counted))


def _says(vote: Vote) -> tuple[str, int | None]:
    return vote.kind, vote.answer


def _status(vote: Vote) -> str:
    return "labelled" if vote.kind == "label" else vote.kind
