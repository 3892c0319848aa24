"""What several annotators' answers come to, and how far each of them can be trusted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, whole_number
from ncalr.votes.answers import NO_ANSWER, Floats, Ids, Ints, Votes, stand
from ncalr.votes.information import jeffreys

_ROUNDING = 1e-9  # classes whose probabilities agree to this share are tied: the rest is floating point


@dataclass(frozen=True, eq=False)
class Annotator:
    """One annotator as a consensus method sees him."""

    id: Any
    answers: int
    accuracy: float  # NaN without an answer
    low: float
    high: float
    confusion: Floats | None  # (c, c), row: the true class, column: what he says


@dataclass(frozen=True, eq=False)
class Consensus:
    """The result of every method: classes for the items, accuracies for the annotators.

    An item without answers has the label -1; its posterior is what the method assumes of any item (the class shares,
    or the model's probabilities). An annotator without answers has the accuracy NaN and the interval [0, 1].
    """

    method: str
    items: Ids  # (n,)
    annotators: Ids  # (a,)
    posterior: Floats  # (n, c)
    labels: Ints  # (n,) the consensus, -1 where nobody answered
    confidence: Floats  # (n,) the posterior of the label; the largest where there is none
    answers: Ints  # (n,) about each item
    given: Ints  # (a,) by each annotator
    accuracy: Floats  # (a,)
    worth: Floats  # (a,) as how many observations of right or wrong the answers count
    confusion: Floats | None = None  # (a, c, c), [annotator, true class, said], where the model has one
    confusion_worth: Floats | None = None  # (a, c, c)
    difficulty: Floats | None = None  # (n,) where the model has one, higher is harder
    weights: Floats | None = None  # (a,) where annotators are weighed against the model
    model_weight: float = float("nan")
    objective: tuple[float, ...] = ()  # log posterior density after each iteration
    notes: tuple[str, ...] = ()

    def interval(self, level: float = 0.95) -> Floats:
        """Interval (a, 2) of each accuracy; what it covers is said in `ncalr.votes.information` and by the method."""
        bounds = jeffreys(np.nan_to_num(self.accuracy, nan=0.5), self.worth, level)
        return np.where(np.isnan(self.accuracy)[:, None], [0.0, 1.0], bounds)

    def confusion_interval(self, level: float = 0.95) -> Floats:
        """Interval (a, c, c, 2) of each entry of the confusion matrices."""
        if self.confusion is None:
            raise BadInput(f"{self.method} has no confusion matrices; dawid_skene has")
        return jeffreys(self.confusion, self.confusion_worth, level)

    def of(self, annotator: Any) -> Annotator:
        """What is known of one annotator, by id."""
        place = stand(self.annotators, annotator)
        low, high = self.interval()[place]
        confusion = None if self.confusion is None else self.confusion[place]
        return Annotator(annotator, int(self.given[place]), float(self.accuracy[place]), low, high, confusion)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary an annotator: id, answers, accuracy, low, high."""
        return [
            {"annotator": who, "answers": answers, "accuracy": accuracy, "low": low, "high": high}
            for who, answers, accuracy, (low, high) in zip(
                self.annotators.tolist(),
                self.given.tolist(),
                self.accuracy.tolist(),
                self.interval().tolist(),
                strict=True,
            )
        ]


class Choice(NamedTuple):
    """A class for each item, and which of them the lot had to decide."""

    labels: Ints
    by_lot: npt.NDArray[np.bool_]
    seed: int


def likeliest(values: Floats, votes: Votes, seed: int, then: Floats | None = None) -> Choice:
    """The column of the largest value in each row; ties by the largest of `then`, and by the item's lot after that."""
    seed = whole_number("seed", seed, 0)
    candidates = _largest(values)
    if then is not None:
        candidates = _largest(np.where(candidates, then, -np.inf))
    by_lot = candidates.sum(axis=1) > 1
    labels = candidates.argmax(axis=1)
    for row in np.flatnonzero(by_lot):
        among = np.flatnonzero(candidates[row])
        labels[row] = among[lot(seed, votes.items[row : row + 1].tolist()[0], len(among))]
    return Choice(labels, by_lot, seed)


def conclude(
    votes: Votes,
    method: str,
    posterior: Floats,
    choice: Choice,
    accuracy: Floats,
    worth: Floats,
    *,
    notes: tuple[str, ...] = (),
    **more: Any,
) -> Consensus:
    """The result that a posterior and a choice of classes amount to."""
    answered = votes.answers > 0
    return Consensus(
        method,
        votes.items,
        votes.annotators,
        posterior,
        np.where(answered, choice.labels, NO_ANSWER),
        posterior[np.arange(len(posterior)), choice.labels],
        votes.answers,
        votes.given,
        accuracy,
        worth,
        notes=(*_remarks(votes, int((choice.by_lot & answered).sum()), choice.seed), *notes),
        **more,
    )


def lot(seed: int, item: Any, choices: int) -> int:
    """One of 0..choices-1 by seed and id alone: not by the item's place, nor by what else there is."""
    name = item.item() if isinstance(item, np.generic) else item
    word = hashlib.blake2b(f"{seed} {name!r}".encode(), digest_size=8).digest()
    return int.from_bytes(word, "little") % choices


def _largest(values: Floats) -> npt.NDArray[np.bool_]:
    best = values.max(axis=1, keepdims=True)
    return np.asarray(values >= best - _ROUNDING * np.abs(best))


def _remarks(votes: Votes, tied: int, seed: int) -> tuple[str, ...]:
    """What a reader of the result should know."""
    said = []
    if tied:
        said.append(f"{tied} items are tied between classes; decided at random (seed {seed})")
    silent = int((votes.answers == 0).sum())
    if silent:
        said.append(f"{silent} items have no answer and get no label")
    unnamed = np.flatnonzero(votes.counts.sum(axis=0) == 0)
    if len(votes) and len(unnamed):
        named = ", ".join(map(str, unnamed[:10])) + (", …" if len(unnamed) > 10 else "")
        said.append(f"no answer names class {named}: if items belong there, the answers cannot show it")
    alone = int(((votes.given > 0) & (votes.at(votes.checked).given == 0)).sum())
    if alone:
        said.append(f"{alone} annotators answered no item that another answered too: they cannot be judged")
    return tuple(said)
