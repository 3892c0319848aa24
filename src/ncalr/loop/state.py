"""What a run knows: the labels so far, what was refused, what is still awaited. Read off the journal, never stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ncalr.oracles import LATER, REFUSED

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
        self.rounds.append(line)
        self.awaited = []
        for item, label in zip(line.get("ids", []), line.get("labels", []), strict=True):
            if label == LATER:
                self.awaited.append(item)
            elif label == REFUSED:
                self.refused[item] = line["round"]
                self.labels.pop(item, None)
            else:
                self.labels[item] = label

    @property
    def closed(self) -> list[Any]:
        """Ids that cannot be picked: labelled, refused or asked already."""
        return [*self.labels, *self.refused, *self.awaited]

    @property
    def ended(self) -> str:
        """Why the run ended, or nothing."""
        return str(self.rounds[-1].get("stop", "")) if self.rounds else ""


def replay(lines: list[Line]) -> State:
    """The state after these lines."""
    state = State()
    for line in lines:
        state.take(line)
    return state
