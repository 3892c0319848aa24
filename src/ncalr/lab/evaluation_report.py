"""The report's part about evaluations: tables by strategy with intervals over the seeds, differences, curves.

Of each run the last model that was evaluated counts, with as many labels or answers as it had. Where several rounds
were evaluated, there are curves too. Differences to random are taken seed by seed; where what is measured follows the
accuracy, also at equal accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ncalr.errors import BadInput
from ncalr.lab import plots
from ncalr.lab.evaluations import TITLES, Group, Limits, Point, evaluation_groups, trained_again
from ncalr.lab.matched import at_matched_accuracy
from ncalr.lab.runner import Run
from ncalr.lab.statistics import RANDOM, estimate
from ncalr.lab.tables import html_table, markdown_table

ASKED = {
    "ood": "OOD sets",
    "probes": "datasets",
    "inits": "initialisations",
    "estimate": "estimate of the classes up to",
}
"""What headings call a wish, where that is not its own name."""
MATCHED = ("ood",)
"""Tasks whose figures follow the accuracy."""
PANELS = 6  # of a figure over budgets
NOTES = 6  # below a table
Numbers = dict[str, dict[int, float]]
"""By strategy and seed."""


class Table(NamedTuple):
    """A table and a word on it; the first of a group has no title."""

    title: str
    head: list[str]
    rows: list[list[str]]
    words: str


def evaluations(runs: list[Run], unit: str = "labels") -> str:
    """The sections, as HTML."""

    def shown(group: Group) -> str:
        tables = [
            f"{f'<h4>{escape(one.title)}</h4>' if one.title else ''}<div class=scroll>{html_table(one.head, one.rows)}"
            f"</div><p class=soft>{escape(one.words)}</p>"
            for one in group_tables(group, unit)
        ]
        figures = [
            f"<figure>{picture}<figcaption class=soft>{escape(words)}</figcaption></figure>"
            for picture, words in _figures(group, unit)
        ]
        return "\n".join([*tables, *figures])

    return "\n".join(_sections(runs, lambda t: f"<h2>{escape(t)}</h2>", lambda t: f"<h3>{escape(t)}</h3>", shown))


def evaluations_as_markdown(runs: list[Run], unit: str = "labels") -> str:
    """The same tables as Markdown, with the means by budget in the place of curves."""

    def shown(group: Group) -> str:
        tables = [*group_tables(group, unit), *_by_budget_table(group, unit)]
        titles = [f"**{one.title}**\n\n" if one.title else "" for one in tables]
        return "\n".join(
            f"{title}{markdown_table(one.head, one.rows)}\n{one.words}\n"
            for title, one in zip(titles, tables, strict=True)
        )

    return "".join(f"\n{part}" for part in _sections(runs, lambda t: f"## {t}\n", lambda t: f"### {t}\n", shown))


def _sections(
    runs: list[Run], title: Callable[[str], str], heading: Callable[[str], str], shown: Callable[[Group], str]
) -> list[str]:
    """A title for each task, and where it was asked for in several ways a heading for each."""
    groups = evaluation_groups(runs)
    parts = []
    for task in dict.fromkeys(group.task for group in groups):
        mine = [group for group in groups if group.task == task]
        parts.append(title(TITLES.get(task, task)))
        for group in mine:
            differing = _asked(group, [name for name in group.wishes if not _same(name, mine)])
            parts += [*([heading(differing)] if differing else []), shown(group)]
    return parts


def _same(wish: str, groups: list[Group]) -> bool:
    return len({json.dumps(group.wishes.get(wish)) for group in groups}) == 1


def _asked(group: Group, wishes: list[str]) -> str:
    return "; ".join(f"{ASKED.get(name, name)}: {_wish(group.wishes[name])}" for name in wishes)


def _wish(value: Any) -> str:
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value)) if value else "none given"


# Tables


def group_tables(group: Group, unit: str = "labels") -> list[Table]:
    """The values by strategy, and the differences to random: as they are, and where both are equally accurate."""
    strategies = list(group.points)
    rows = [
        [value, *_cells(_values(group.final, value), strategies, group.limits(value), ".4g", _seeds(group))]
        for value in group.shown
    ]
    tables = [Table("", ["", *strategies], [*_spent_row(group, unit), *rows], _words(group, unit))]
    words = "Each strategy less random with the same seed: mean and 95 % t interval, not corrected for their number."
    tables += _differences(group, "Less random, paired by seed", _less_random, words)
    if group.task in MATCHED:
        words = (
            "The same at the highest accuracy that both reach, read off between the evaluated rounds: a better "
            "classifier nearly always detects better."
        )
        tables += _differences(group, "Less random at equal accuracy", _less_random_matched, words)
    return tables


def _differences(group: Group, title: str, of: Callable[[Group, str], Numbers], words: str) -> list[Table]:
    """A table of differences to random; none where there are none."""
    others = [name for name in group.points if name != RANDOM]
    rows = []
    for value in group.shown:
        low, high = group.limits(value)
        reach = None if low is None or high is None else high - low
        limits = (None if reach is None else -reach, reach)
        cells = _cells(of(group, value), others, limits, "+.3g", _seeds(group))
        rows += [[value, *cells]] if any(cells) else []
    return [Table(title, ["", *others], rows, words)] if rows else []


def _values(points: dict[str, dict[int, Point]], value: str) -> Numbers:
    return {name: {seed: _value(point, value) for seed, point in seeds.items()} for name, seeds in points.items()}


def _value(point: Point, value: str) -> float:
    return float(point.line["values"].get(value, np.nan))


def _less_random(group: Group, value: str) -> Numbers:
    """Of the last models: with as much spent, or both at the end of their runs, wherever that came."""
    rivals = group.final.get(RANDOM, {})
    return {
        name: {
            seed: _value(point, value) - _value(rivals[seed], value)
            for seed, point in seeds.items()
            if seed in rivals and (point.spent == rivals[seed].spent or (point.last and rivals[seed].last))
        }
        for name, seeds in group.final.items()
    }


def _less_random_matched(group: Group, value: str) -> Numbers:
    """Where both runs of a seed are equally accurate; not where that never happens."""
    rivals = group.points.get(RANDOM, {})
    found: Numbers = {}
    for name, seeds in group.points.items():
        for seed, points in seeds.items():
            if min(len(points), len(rivals.get(seed, []))) < 2:
                continue
            curves = {"own": _curve(points, value), RANDOM: _curve(rivals[seed], value)}
            try:
                matched = at_matched_accuracy(curves).values
            except BadInput:
                continue
            found.setdefault(name, {})[seed] = matched["own"] - matched[RANDOM]
    return found


def _curve(points: list[Point], value: str) -> tuple[list[float], list[float]]:
    return [point.line["accuracy"] for point in points], [_value(point, value) for point in points]


def _seeds(group: Group) -> int:
    return max(map(len, group.points.values()))


def _cells(found: Numbers, strategies: list[str], limits: Limits, form: str, seeds: int) -> list[str]:
    """Means with their intervals; how many seeds they are of, where these are not all."""
    numbers = [[number for number in found.get(name, {}).values() if np.isfinite(number)] for name in strategies]
    return [
        _cell(each, limits, form) + (f", {len(each)} of {seeds} seeds" if 0 < len(each) < seeds else "")
        for each in numbers
    ]


def _cell(numbers: list[float], limits: Limits, form: str) -> str:
    """A mean and its interval, as far as that is possible: few seeds reach beyond what can be."""
    if not numbers:
        return ""
    found = estimate(np.array(numbers, np.float64))
    least, most = (end if limit is None else limit for end, limit in zip((-np.inf, np.inf), limits, strict=True))
    low, high = max(float(found.low), least), min(float(found.high), most)
    between = f" ({low:{form}} to {high:{form}})" if np.isfinite(found.low) else ""
    return f"{float(found.mean):{form}}{between}"


def _spent_row(group: Group, unit: str) -> list[list[str]]:
    """How much each strategy had spent; nothing where that is the same for all."""
    spent = [[point.spent for point in seeds.values()] for seeds in group.final.values()]
    if len({budget for each in spent for budget in each}) == 1:
        return []
    between = [f" ({min(each):,} to {max(each):,})" if len(set(each)) > 1 else "" for each in spent]
    return [[unit, *(f"{np.mean(each):,.0f}{more}" for each, more in zip(spent, between, strict=True))]]


def _words(group: Group, unit: str) -> str:
    last = [point for seeds in group.final.values() for point in seeds.values()]
    spent = {point.spent for point in last}
    where = f"At {spent.pop():,} {unit}" if len(spent) == 1 else "The last evaluated model of each run"
    asked = _asked(group, [name for name, value in group.wishes.items() if value])
    notes = list(dict.fromkeys(note for point in last for note in point.line["notes"]))
    more = [f"And {len(notes) - NOTES} more notes in evaluations.jsonl"] if len(notes) > NOTES else []
    again = trained_again([point.line for point in group.every])
    said = [f"{where}; mean and 95 % interval over the seeds", asked, again, *notes[:NOTES], *more]
    return " ".join(f"{one}." for one in said if one)


# Over the budgets


def _by_budget(group: Group, value: str) -> dict[str, list[tuple[int, float]]]:
    """The mean over the seeds at each budget, by strategy."""
    found = {}
    for name, seeds in group.points.items():
        rows: dict[int, list[float]] = {}
        for point in (point for points in seeds.values() for point in points):
            if np.isfinite(_value(point, value)):
                rows.setdefault(point.spent, []).append(_value(point, value))
        found[name] = [(budget, float(np.mean(numbers))) for budget, numbers in sorted(rows.items())]
    return {name: rows for name, rows in found.items() if rows}


def _several_rounds(group: Group) -> bool:
    return any(len(points) > 1 for seeds in group.points.values() for points in seeds.values())


def _by_budget_table(group: Group, unit: str) -> list[Table]:
    if not _several_rounds(group):
        return []
    rows = [
        [value, name, *(f"{dict(means)[b]:.4g}" if b in dict(means) else "" for b in group.budgets)]
        for value in group.shown
        for name, means in _by_budget(group, value).items()
    ]
    return [Table(f"By {unit}", ["", "", *(f"{b:,}" for b in group.budgets)], rows, "Means over the seeds.")]


def _figures(group: Group, unit: str) -> list[tuple[str, str]]:
    """Pictures and what is said below them."""
    found = []
    if _several_rounds(group):
        curves = {value: means for value in group.shown[:PANELS] if (means := _by_budget(group, value))}
        more = f" The first {PANELS} of {len(group.shown)}; all are in report.md." if len(group.shown) > PANELS else ""
        found.append((plots.by_budget(curves, unit), f"Means over the seeds of every round that was evaluated.{more}"))
    coverage = {
        name: [point.line["coverage"] for point in seeds.values() if "coverage" in point.line]
        for name, seeds in group.final.items()
    }
    if any(coverage.values()):
        words = "Accuracy on the share of the test items that the model is most certain of, mean over the seeds."
        found.append((plots.coverage(coverage), words))
    return found
