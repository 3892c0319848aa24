"""The report's part about evaluations: what `ncalr evaluate` found, by strategy, with intervals over the seeds."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np

from ncalr.lab.runner import Run
from ncalr.lab.statistics import estimate

EVALUATIONS = "evaluations.jsonl"
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


def read_evaluations(run: Run) -> list[Line]:
    """The evaluations of a run; a torn last line is left out, it will be computed again."""
    path = run.journal.folder / EVALUATIONS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def evaluation_tables(runs: list[Run]) -> dict[str, tuple[int, dict[str, dict[str, list[float]]], list[str]]]:
    """For each task: the largest number of labels it was done at, and there value -> strategy -> one number a seed."""
    found: dict[str, tuple[int, dict[str, dict[str, list[float]]], list[str]]] = {}
    everything = [(run, line) for run in runs for line in read_evaluations(run)]
    for task in dict.fromkeys(line["task"] for _, line in everything):
        mine = [(run, line) for run, line in everything if line["task"] == task]
        labels = max(line["labelled"] for _, line in mine)
        values: dict[str, dict[str, dict[int, float]]] = {}
        notes: dict[str, None] = {}
        for run, line in mine:
            if line["labelled"] != labels:
                continue
            for name in line["shown"]:
                values.setdefault(name, {}).setdefault(run.strategy, {})[run.seed] = line["values"][name]
            notes |= dict.fromkeys(line["notes"])
        plain = {name: {s: list(seeds.values()) for s, seeds in rows.items()} for name, rows in values.items()}
        found[task] = (labels, plain, list(notes))
    return found


def evaluations(runs: list[Run]) -> str:
    """The sections, as HTML."""
    parts = []
    for task, (labels, values, notes) in evaluation_tables(runs).items():
        strategies = list(dict.fromkeys(run.strategy for run in runs))
        shown = [name for name in strategies if any(name in rows for rows in values.values())]
        head = "".join(f"<th>{escape(name)}</th>" for name in shown)
        rows = "".join(
            f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{_cell(cells.get(s, []))}</td>" for s in shown) + "</tr>"
            for name, cells in values.items()
        )
        words = f"At {labels:,} labels; mean and 95 % interval over the seeds." + "".join(
            f" {note}." for note in notes[:6]
        )
        parts.append(
            f"<h2>{escape(TITLES.get(task, task))}</h2><div class=scroll><table><thead><tr><th></th>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div><p class=soft>{escape(words)}</p>"
        )
    return "\n".join(parts)


def _cell(numbers: list[float]) -> str:
    if not numbers:
        return ""
    found = estimate(np.array(numbers, np.float64))
    mean = f"{float(found.mean):.4g}"
    if len(numbers) < 2 or not np.isfinite(found.low):
        return mean
    return f"{mean} ({float(found.low):.4g} to {float(found.high):.4g})"
