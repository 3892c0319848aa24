"""What a run knows: the labels so far, what was refused, what is still awaited. Read off the journal, never stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ncalr.oracles import REFUSED

Line = dict[str, Any]


@dataclass
class State:
    """The labels so far."""

    labels: dict[Any, int] = field(default_factory=dict)  # in the order in which they came
    refused: dict[Any, int] = field(default_factory=dict)  # id -> round in which "cannot tell" was said
    awaited: list[Any] = field(default_factory=list)  # asked, not answered yet
    rounds: list[Line] = field(default_factory=list)  # the lines of the journal

    def take(self, line: Line) -> None:
        """Take a line of the journal in."""
        self.change(line)
        if "ids" in line:
            self.awaited = []  # all of them were asked about again
        self._hear(line, len(self.rounds))
        self.rounds.append(line)

    def change(self, line: Line) -> None:
        """Take in what the oracle changed before the round of this line; a second time changes nothing more."""
        self._hear(line.get("changes", {}), len(self.rounds))

    @property
    def answered(self) -> dict[Any, int]:
        """What was said of each item that has an answer: a label, or `REFUSED`."""
        return {**self.labels, **dict.fromkeys(self.refused, REFUSED)}

    @property
    def askings(self) -> list[list[Any]]:
        """The ids of every call the oracle was asked in, as far as they are written down."""
        return [line["ids"] for line in self.rounds if line.get("ids")]

    @property
    def closed(self) -> list[Any]:
        """Ids that cannot be picked: labelled, refused or asked already."""
        return [*self.labels, *self.refused, *self.awaited]

    @property
    def ended(self) -> str:
        """Why the run ended, or nothing."""
        return str(self.rounds[-1].get("stop", "")) if self.rounds else ""

    def _hear(self, said: Line, number: int) -> None:
        for item, label in zip(said.get("ids", []), said.get("labels", []), strict=True):
            if label >= 0:
                self.labels[item] = label
                self.refused.pop(item, None)
                continue
            self.labels.pop(item, None)
            if label == REFUSED:
                self.refused[item] = number
            elif item not in self.awaited:
                self.refused.pop(item, None)
                self.awaited.append(item)


def replay(lines: list[Line]) -> State:
    """The state after these lines."""
    state = State()
    for line in lines:
        state.take(line)
    return state
