"""What a run knows: the answers so far, what was refused, what is still awaited. Read off the journal, never stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ncalr.oracles import REFUSED

Line = dict[str, Any]


@dataclass
class State:
    """The labels so far, and the answers that they are made of.

    A line's `ids` are questions about items that have no label, and `again` holds further calls, each about items that
    have one: second opinions. Where the ids were asked about in several calls, `calls` says in order how many each had,
    0 for one of `again`. Where a run collects several answers an item, `consensus` says which labels they come to, as
    far as these are others than before.
    """

    labels: dict[Any, int] = field(default_factory=dict)  # to be learnt, in the order in which the items came
    refused: dict[Any, int] = field(default_factory=dict)  # id -> round in which "cannot tell" was said
    awaited: list[Any] = field(default_factory=list)  # asked, not answered yet
    rounds: list[Line] = field(default_factory=list)  # the lines of the journal
    votes: dict[Any, list[tuple[str, int]]] = field(default_factory=dict)  # id -> who said what, in order
    settled: set[Any] = field(default_factory=set)  # ids about which nobody has more to say
    soft: dict[Any, list[float]] = field(default_factory=dict)  # id -> distribution, where a run learns those

    def __repr__(self) -> str:
        """How far it is: all of it is in `labels` and `rounds`."""
        last = next((line for line in reversed(self.rounds) if line.get("accuracy") is not None), None)
        right = f", {last['accuracy']:.1%} right on the test set" if last else ""
        return f"State: {len(self.labels):,} labels after {len(self.rounds)} rounds{right}"

    def take(self, line: Line) -> None:
        """Take a line of the journal in."""
        self.change(line)
        asked = set(line.get("ids", []))
        self.awaited = [item for item in self.awaited if item not in asked]  # these were asked about again
        self._hear(line, len(self.rounds))
        for call in line.get("again", []):
            self._hear_again(call)
        said = line.get("consensus", {})
        self.labels.update(zip(said.get("ids", []), said.get("labels", []), strict=True))
        if "soft" in said:
            self.soft = dict(zip(self.labels, said["soft"], strict=True))
        self.rounds.append(line)

    def after(self, line: Line) -> State:
        """A state as this one would be after a line; this one stays as it is."""
        votes = {item: list(said) for item, said in self.votes.items()}
        then = State(
            dict(self.labels), dict(self.refused), list(self.awaited), list(self.rounds), votes, set(self.settled)
        )
        then.take(line)
        return then

    def change(self, line: Line) -> None:
        """Take in what the oracle changed before the round of this line; a second time changes nothing more."""
        self._hear(line.get("changes", {}), len(self.rounds))

    @property
    def answers(self) -> int:
        """How many answers the labels are made of."""
        return sum(map(len, self.votes.values()))

    @property
    def answered(self) -> dict[Any, int]:
        """What was said last of each item that has an answer: a label, or `REFUSED`."""
        return {**{item: said[-1][1] for item, said in self.votes.items()}, **dict.fromkeys(self.refused, REFUSED)}

    @property
    def askings(self) -> list[list[Any]]:
        """The ids of every call the oracle was asked in, as far as they are written down."""
        return [ids for line in self.rounds for ids in _calls(line) if ids]

    @property
    def planned(self) -> int:
        """The budget of the last training; 0 before the first."""
        return next((spent(line) for line in reversed(self.rounds) if "accuracy" in line), 0)

    @property
    def news(self) -> bool:
        """Whether something was answered or changed since the last training."""
        for line in reversed(self.rounds):
            said = [label for call in (line, *line.get("again", [])) for label in call.get("labels", [])]
            if any(label >= 0 for label in said):
                return True
            if "accuracy" in line:
                return False
            if "changes" in line:
                return True
        return bool(self.labels)

    @property
    def closed(self) -> list[Any]:
        """Ids that cannot be picked: labelled, refused or asked already."""
        return [*self.labels, *self.refused, *self.awaited]

    @property
    def ended(self) -> str:
        """Why the run ended, or nothing."""
        return str(self.rounds[-1].get("stop", "")) if self.rounds else ""

    def targets(self, classes: int) -> Any:
        """Distributions (m, c) to learn in the place of the labels; None where the run learns labels."""
        if not self.soft:
            return None
        # what changed since they were written down is certain
        rows = np.array([self.soft.get(i) or np.eye(classes)[label].tolist() for i, label in self.labels.items()])
        return rows / rows.sum(axis=1, keepdims=True)  # they were rounded

    def open_again(self, most: int) -> list[Any]:
        """Labelled items about which fewer than so many answers were given, and of which more can be said."""
        return [item for item, said in self.votes.items() if len(said) < most and item not in self.settled]

    def _hear(self, said: Line, number: int) -> None:
        for item, label, by in _rows(said):
            self.soft.pop(item, None)
            if label >= 0:
                self.labels[item] = label
                self.votes[item] = [(by, label)]
                self.refused.pop(item, None)
                continue
            self.labels.pop(item, None)
            self.votes.pop(item, None)
            if label == REFUSED:
                self.refused[item] = number
            elif item not in self.awaited:
                self.refused.pop(item, None)
                self.awaited.append(item)

    def _hear_again(self, said: Line) -> None:
        for item, label, by in _rows(said):
            if label >= 0:
                self.votes[item].append((by, label))
            elif label == REFUSED:
                self.settled.add(item)


def replay(lines: list[Line]) -> State:
    """The state after these lines."""
    state = State()
    for line in lines:
        state.take(line)
    return state


def spent(line: Line) -> int:
    """Which budget a training is of: as many answers as it learnt from, where nothing else was planned."""
    names = ("planned", "answers", "labelled")
    return int(next(line[name] for name in names if name in line))


def names_of(said: Line) -> list[str]:
    """Who answered about each id of a call."""
    by = said.get("by", "")
    return [by] * len(said.get("ids", [])) if isinstance(by, str) else by


def _rows(said: Line) -> Any:
    return zip(said.get("ids", []), said.get("labels", []), names_of(said), strict=True)


def _calls(line: Line) -> list[list[Any]]:
    """The ids of every call of a round, in order."""
    again = [call["ids"] for call in line.get("again", [])]
    new, second = iter(line.get("ids", [])), iter(again)
    order = line.get("calls", [len(line.get("ids", [])), *[0] * len(again)])
    return [list(islice(new, size)) or next(second, []) for size in order]
