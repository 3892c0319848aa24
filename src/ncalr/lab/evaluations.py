"""What `ncalr evaluate` found, read from beside the journals: one group for each task and way of asking.

Lines of one task that were asked for in the same way belong together: detection of one OOD set is not detection of
another. `ncalr.lab.evaluation_report` shows the groups.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ncalr.data.fields import check_fields, dict_of, is_count, is_number, is_share, is_text, list_of, optional, record
from ncalr.data.received import inside, parsed_json, reading
from ncalr.lab.runner import Run
from ncalr.lab.tables import points
from ncalr.loop.state import spent

EVALUATIONS = "evaluations.jsonl"
VERSION = 2
"""Of what the lines mean. 2: the initial pool counts as no pick, trained classes leave OOD sets by their ids."""
TITLES = {
    "collapse": "Neural collapse on the labelled set",
    "separation": "Separation of the class means",
    "calibration": "Calibration on the test set",
    "tail": "Head, middle and tail",
    "ood": "Out-of-distribution detection",
    "probe": "Linear probes on the frozen features",
    "discovery": "Category discovery",
    "transfer": "Transfer to another network",
    "audit": "Audit of the labels",
}
Line = dict[str, Any]
Limits = tuple[float | None, float | None]


class Point(NamedTuple):
    """One model that was evaluated."""

    spent: int  # labels or answers before its training
    last: bool  # whether its run has trained none after it
    line: Line


@dataclass(frozen=True)
class Group:
    """The evaluations of one task that were asked for in the same way."""

    task: str
    wishes: dict[str, Any]
    points: dict[str, dict[int, list[Point]]]  # by strategy and seed, in the order of the rounds

    @property
    def every(self) -> list[Point]:
        """All of them."""
        return [point for seeds in self.points.values() for rounds in seeds.values() for point in rounds]

    @property
    def final(self) -> dict[str, dict[int, Point]]:
        """The last model of each run that was evaluated."""
        return {name: {seed: rounds[-1] for seed, rounds in seeds.items()} for name, seeds in self.points.items()}

    @property
    def shown(self) -> list[str]:
        """The names of the values to show."""
        return list(dict.fromkeys(name for point in self.every for name in point.line["shown"]))

    @property
    def budgets(self) -> list[int]:
        """What was spent before each of the models."""
        return sorted({point.spent for point in self.every})

    def limits(self, value: str) -> Limits:
        """Between what a value lies, whatever an interval says; None where there is no end, or none is known."""
        known = (point.line.get("limits", {}).get(value) for point in self.every)
        low, high = next((limits for limits in known if limits), (None, None))
        return low, high


def read_evaluations(run: Run) -> list[Line]:
    """The evaluations of a run. What has no value is NaN.

    A torn last line is left out, and lines of an older version, whose figures mean something else, or of rounds that
    the journal has no training of any more: they are computed again when they are asked for.
    """
    path = inside(run.journal.folder, EVALUATIONS)
    if not path.exists():
        return []
    with reading(path, "evaluations"):
        text = path.read_text(encoding="utf-8")
    places = ((f"line {number} of {path}", line) for number, line in enumerate(text.splitlines(keepends=True), 1))
    whole = [(place, parsed_json(line, place)) for place, line in places if line.endswith("\n")]
    for place, line in whole:
        check_fields(line, {}, place)
        if line.get("version") == VERSION:
            _check(line, place)
    trained = {number for number, line in enumerate(run.lines) if "accuracy" in line}
    lines: list[Line] = [line for _, line in whole if line.get("version") == VERSION and line["round"] in trained]
    for line in lines:
        for name, empty in (("shown", []), ("notes", []), ("wishes", {})):
            line.setdefault(name, empty)
        line["values"] = {name: float("nan") if value is None else value for name, value in line["values"].items()}
    return lines


_LIMITS = list_of(optional(is_number))
_KINDS = {
    "task": is_text,
    "round": is_count,
    "labelled": is_count,
    **dict.fromkeys(("accuracy", "journal"), is_share),
    "values": dict_of(lambda value: value is None or value != value or is_number(value)),
    **dict.fromkeys(("shown", "notes"), list_of(is_text)),
    "limits": dict_of(lambda value: _LIMITS(value) and len(value) == 2),
    "wishes": dict_of(lambda _: True),
}
_NEEDED = ("task", "round", "values")
_CURVE = record({name: list_of(is_number) for name in ("coverage", "accuracy")}, ("coverage", "accuracy"))
_OF_TASK = {"audit": ("estimated share wrong", "low", "high")}
"""Values of a task that the reliability card reads."""


def _check(line: Line, place: str) -> None:
    """Raise where an evaluation is not what an evaluator writes."""
    check_fields(line, {**_KINDS, "coverage": _CURVE}, place, needed=_NEEDED)
    check_fields(line["values"], {}, place, needed=_OF_TASK.get(line["task"], ()))


def trained_again(lines: Sequence[Line]) -> str:
    """How many of these models were trained again, and how good they are beside the first ones; empty if none was."""
    apart = [line["accuracy"] - line["journal"] for line in lines if "journal" in line]
    if not apart:
        return ""
    if not any(apart):
        return f"{len(apart)} of {len(lines)} models were trained again, and are as accurate as the first ones"
    return (
        f"{len(apart)} of {len(lines)} models were trained again; in accuracy they are {points(min(apart))} to "
        f"{points(max(apart))} points from the first ones, {points(float(np.mean(apart)))} on average"
    )


def evaluation_groups(runs: list[Run]) -> list[Group]:
    """What was evaluated, task by task, in the order in which it was first asked for."""
    found: dict[tuple[str, str], Group] = {}
    for run in runs:
        trained = [number for number, line in enumerate(run.lines) if "accuracy" in line]
        for line in read_evaluations(run):
            key = line["task"], json.dumps(line["wishes"], sort_keys=True)
            group = found.setdefault(key, Group(line["task"], line["wishes"], {}))
            point = Point(spent(run.lines[line["round"]]), line["round"] == trained[-1], line)
            group.points.setdefault(run.strategy, {}).setdefault(run.seed, []).append(point)
    for group in found.values():
        for seeds in group.points.values():
            for rounds in seeds.values():
                rounds.sort(key=lambda point: int(point.line["round"]))
                rounds[:] = {point.spent: point for point in rounds}.values()  # the last model of a budget
    tasks = list(dict.fromkeys(task for task, _ in found))
    return sorted(found.values(), key=lambda group: tasks.index(group.task))
