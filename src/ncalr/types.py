"""The small frozen values that pass between the rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Scored:
    """One number an item, higher = label first, and the parts it was made of. None where a strategy only selects."""

    scores: Any  # (n,) on the backend, or None
    parts: Mapping[str, Any] = field(default_factory=dict)
    rescore: Callable[[Any], Scored] | None = None

    def at(self, rows: Any) -> Scored:
        """Return the scores of some of the items."""
        scores = None if self.scores is None else self.scores[rows]
        return Scored(scores, {name: part[rows] for name, part in self.parts.items()}, self.rescore)

    def again(self, evidence: Any) -> Scored:
        """The same strategy's scores under other evidence."""
        assert self.rescore is not None, "scored without a strategy"  # noqa: S101 (a bug of ours, not of the caller)
        return self.rescore(evidence)


@dataclass(frozen=True)
class Selection:
    """Positions in the order they were picked, with the value each was picked for."""

    positions: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64] | None = None  # where the selector has a value of its own (a distance, a gain)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picks:
    """What to label next, most wanted first."""

    ids: npt.NDArray[Any]  # (k,)
    scores: npt.NDArray[np.float64]  # (k,)
    parts: dict[str, npt.NDArray[np.float64]]  # each (k,): the parts of the score, so a person can be told why
    strategy: str = ""
    notes: tuple[str, ...] = ()  # what was done differently from the plain method, if anything
    least: Picks | None = None  # the least wanted, lowest score first, where they were asked for and items have scores
    control: npt.NDArray[np.bool_] | None = None  # (k,) which were drawn at random and have no score, if any were

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, places: Any) -> Picks:
        """Return some of the picks, in this order."""
        parts = {name: values[places] for name, values in self.parts.items()}
        control = None if self.control is None else self.control[places]
        return replace(self, ids=self.ids[places], scores=self.scores[places], parts=parts, control=control)

    def __repr__(self) -> str:
        """A few of them, and the notes: all is in `ids`, `scores` and `parts`."""
        first = [f"{name!r} ({score:.4g})" for name, score in zip(self.ids[:5].tolist(), self.scores, strict=False)]
        more = [", ..."] if len(self) > len(first) else []
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return f"Picks: {len(self)} ids by {self.strategy or 'nobody'}, {', '.join(first)}{''.join(more)}{notes}"

    def rows(self) -> list[dict[str, Any]]:
        """Return one plain dictionary a pick: rank, id, score, parts; and `why`, where there are control items."""
        numbers = {"score": self.scores, **self.parts}
        rows: list[dict[str, Any]] = []
        for rank, name in enumerate(self.ids.tolist()):
            drawn = self.control is not None and bool(self.control[rank])
            row = {column: None if drawn else float(values[rank]) for column, values in numbers.items()}
            why = {} if self.control is None else {"why": "control" if drawn else "strategy"}
            rows.append({"rank": rank + 1, "id": name, **row, **why})
        return rows
