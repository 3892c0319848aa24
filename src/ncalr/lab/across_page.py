"""The comparison across data sets (`across.py`) as a page, with Markdown, CSV and JSON beside it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ncalr.data.files import write_set
from ncalr.lab import plots
from ncalr.lab.ranks import PAIR_TEST, RANK_TEST
from ncalr.lab.report import section, whole_page
from ncalr.lab.tables import counted, csv_text, html_table, markdown_table, p_value, points, signed

UNIT = (
    "Strategies that every experiment has, in each on the seeds that all of them have finished. The unit is the data "
    "set, not the seed: more seeds make one row surer, and only more data sets tell whether an order holds elsewhere."
)
AREAS = (
    "In points of test accuracy, mean over the seeds; below it, where there is random, the difference to it, paired by "
    "seed, with its 95 % t interval. Each interval is for its own cell, not corrected: among many, some leave out 0 by "
    "chance. Areas of different data sets have no scale in common and are not averaged."
)
RANKS = (
    "1 is the largest area, equal ones share their mean. Experiments on the same data (other noise, recipe or budgets) "
    "count once: their areas are averaged before they are ranked."
)


def write_pages(found: dict[str, Any], folders: Sequence[Path], out: Path | str | None = None) -> Path:
    """across.html, across.md, across.csv and across.json, in `out` or in the first of the folders; the page's path."""
    place = Path(out or folders[0])
    place.mkdir(parents=True, exist_ok=True)
    again = shlex.join(["ncalr", "report", *map(str, folders), *(["--out", str(out)] if out else [])])
    page = place / "across.html"
    write_set(
        {
            place / "across.csv": csv_text(_rows(found)),
            place / "across.json": json.dumps({**found, "again": again}, indent=1, allow_nan=False),
            place / "across.md": _markdown(found, again),
            page: _page(found, again, place),
        }
    )
    return page


def area_rows(found: dict[str, Any]) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """One row an experiment: its name with its seeds, then each strategy's area with its difference to random."""
    rows = []
    for one in found["experiments"]:
        gaps = one["to_random"] or {}
        cells = [
            (f"{100 * one['aubc'][name]['mean']:.1f}", signed(gaps[name]) if name in gaps else "")
            for name in found["strategies"]
        ]
        rows.append([(one["name"], counted(len(one["seeds"]), "seed")), *cells])
    return ["experiment", *found["strategies"]], rows


def rank_rows(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """One row a data set, then the average ranks."""
    lines = [(one["name"], one["ranks"]) for one in found["data_sets"]]
    rows = [[name, *(f"{ranks[one]:g}" for one in found["strategies"])] for name, ranks in lines]
    average = [f"{found['average_ranks'][one]:.2f}" for one in found["strategies"]]
    return ["data set", *found["strategies"]], [*rows, ["average rank", *average]]


def pair_rows(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The first strategy against each other one, a row each."""
    head = [
        "against",
        f"{found['strategies'][0]} is better by, points",
        "better, equal, worse",
        "p (Wilcoxon)",
        "p (Holm)",
    ]
    rows = [
        [
            one["rival"],
            points(one["median"]),
            f"{one['better']}, {one['equal']}, {one['worse']}",
            p_value(one["p"]),
            p_value(one["p_holm"]),
        ]
        for one in found["tests"]["wilcoxon"] or []
    ]
    return head, rows


def penalty_rows(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Who beats whom, added over the experiments, and the share of the most that can be; the mean of each column."""
    total = found["penalties"]
    most, names = total["experiments"], total["strategies"]

    def said(value: float) -> str:
        return f"{value:.2f} ({value / most:.0%})"

    rows = [
        [name, *("" if other == name else said(value) for other, value in zip(names, line, strict=True))]
        for name, line in zip(names, total["matrix"], strict=True)
    ]
    return [f"of {most}", *names], [*rows, ["mean of the column", *map(said, total["column_means"])]]


def verdicts(found: dict[str, Any]) -> list[str]:
    """What the ranks allow to be said, in words: on the ranks as a whole, and on the first strategy's pairs."""
    tests, k = found["tests"], len(found["strategies"])
    n, ranked = tests["data_sets"], tests["friedman"]
    if ranked is None:
        return [f"Too few data sets to test: {n} of {RANK_TEST}. The ranks are those of these data sets alone."]
    f = "infinite" if ranked["f"] is None else f"{ranked['f']:.2f}"
    shown = ranked["p"] < tests["alpha"]
    words = [
        f"Friedman's test over {n} data sets, one test of all {k} strategies: χ² = {ranked['chi_square']:.2f}; by Iman "
        f"and Davenport F = {f} with {ranked['degrees'][0]} and {ranked['degrees'][1]} degrees of freedom, "
        f"{_p_is(ranked['p'])}. "
        + (
            "The strategies do not all rank alike."
            if shown
            else "No difference between the strategies is shown, so none is read from pairs of ranks."
        )
    ]
    if tests["wilcoxon"] is None:
        return [*words, f"Too few data sets to test pairs by Wilcoxon's signed ranks: {n} of {PAIR_TEST}."]
    least = 2.0 ** (1 - n)
    if least * (k - 1) >= tests["alpha"]:
        words.append(
            f"Pairs of strategies: with {n} data sets Wilcoxon's test cannot give a p below {p_value(least)}, which is "
            f"{p_value(min(1.0, least * (k - 1)))} once corrected for {k - 1} comparisons: too few to show one."
        )
    return words


def _p_is(p: float) -> str:
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _page(found: dict[str, Any], again: str, place: Path) -> str:
    title = _title(found)
    head, rows = area_rows(found)
    cells = [[_two_lines(*cell) for cell in row] for row in rows]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=soft>{UNIT}</p>",
        *(f"<p>{escape(word)}</p>" for word in found["notes"]),
        f"<h2>Areas under the budget curve</h2>{_area_table(head, cells)}<p class=soft>{AREAS}</p>",
        section("Difference to random", gaps_to_random(found), "The brackets of the table as a picture."),
        f"<h2>Ranks</h2>{_plain_table(*rank_rows(found))}<p class=soft>{RANKS}</p>",
        *(f"<p>{escape(word)}</p>" for word in verdicts(found)),
        _diagram(found),
        _pairs(found),
        _beaten(found),
        "<h2>Experiments</h2>",
        f"<ul>{''.join(_member(one, place) for one in found['experiments'])}</ul>",
        f"<h2>Again</h2><pre>{escape(again)}</pre>",
    ]
    return whole_page(title, parts)


def _title(found: dict[str, Any]) -> str:
    sets, experiments = len(found["data_sets"]), len(found["experiments"])
    more = "" if sets == experiments else f" in {experiments} experiments"
    return f"{len(found['strategies'])} strategies on {counted(sets, 'data set')}{more}"


def gaps_to_random(found: dict[str, Any]) -> str:
    """The differences to random as a picture; nothing where no experiment has random beside another strategy."""
    return plots.by_data_set(found["strategies"], {one["name"]: one["to_random"] or {} for one in found["experiments"]})


def _diagram(found: dict[str, Any]) -> str:
    nemenyi = found["tests"]["nemenyi"]
    if nemenyi is None:
        return ""
    reach, k = nemenyi["critical_difference"], len(found["strategies"])
    return section(
        "Critical difference",
        plots.critical_difference(found["average_ranks"], reach, nemenyi["joined"]),
        "Average ranks, the best on the left. Strategies under one bar are not told apart. Nemenyi's critical "
        f"difference is {reach:.2f} ranks at 5 %, for all {k * (k - 1) // 2} pairs together; it counts only where "
        "Friedman's test finds that the strategies differ, and otherwise one bar joins them all.",
    )


def _pairs(found: dict[str, Any]) -> str:
    if not found["tests"]["wilcoxon"]:
        return ""
    first, k = found["strategies"][0], len(found["strategies"])
    words = (
        f"{first} is the first strategy of the first experiment that all have. The median over the data sets of the "
        f"difference of two areas; in how many of them {first} is better, equal or worse; and Wilcoxon's signed-rank "
        "test, which takes a point on one data set for a point on another. Holm's correction is over these "
        f"{k - 1} comparisons, a family of its own beside Nemenyi's pairs."
    )
    return f"<h2>{escape(first)} against each</h2>{_plain_table(*pair_rows(found))}<p class=soft>{escape(words)}</p>"


def _beaten(found: dict[str, Any]) -> str:
    total = found["penalties"]
    if not total:
        return ""
    picture = plots.penalties({"strategies": total["strategies"], "matrix": total["share"]})
    words = (
        f"The penalty matrices of {counted(total['experiments'], 'experiment')}, added (Ash et al. 2020), as a share "
        "of the most that can be. An experiment adds the share of its budgets at which the row is better than the "
        "column by a paired t-test over its seeds at 5 %, not corrected. The mean of a column says how often a "
        "strategy is beaten: lower is better. Every experiment counts here, those on the same data too."
    )
    return f"{section('Who beats whom', picture, words)}{_plain_table(*penalty_rows(found))}"


def _member(one: dict[str, Any], place: Path) -> str:
    links = ", ".join(_link(Path(folder), place) for folder in one["folders"])
    seeds = ", ".join(map(str, one["seeds"]))
    return f"<li><b>{escape(one['name'])}</b>: {escape(one['about'])} Seeds {seeds}. {links}</li>"


def _link(folder: Path, place: Path) -> str:
    """The folder, leading to its own report where there is one."""
    report = folder / "report.html"
    if not report.exists():
        return escape(str(folder))
    way = os.path.relpath(report.resolve(), place.resolve())
    return f"<a href='{quote(way)}'>{escape(str(folder))}</a>"


def _two_lines(top: str, below: str) -> str:
    return escape(top) + (f"<br><span class=soft>{escape(below)}</span>" if below else "")


def _plain_table(head: list[str], rows: list[list[str]]) -> str:
    return f"<div class=scroll>{html_table(head, rows)}</div>"


def _area_table(head: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are HTML already; names in the first column may break, as that of a noise is long."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr><td style='white-space: normal; min-width: 9rem'>{row[0]}</td>"
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    inside = f"<thead><tr>{top}</tr></thead><tbody style='vertical-align: top'>{body}</tbody>"
    return f"<div class=scroll><table>{inside}</table></div>"


def _markdown(found: dict[str, Any], again: str) -> str:
    head, rows = area_rows(found)
    areas = [
        [", ".join(filter(None, cell)) if not at else " ".join(cell).strip() for at, cell in enumerate(row)]
        for row in rows
    ]
    parts = [f"# {_title(found)}\n", f"{UNIT}\n", *(f"{note}\n" for note in found["notes"])]
    parts += ["## Areas under the budget curve\n", markdown_table(head, areas), f"{AREAS}\n"]
    parts += ["## Ranks\n", markdown_table(*rank_rows(found)), f"{RANKS}\n", *(f"{word}\n" for word in verdicts(found))]
    if found["tests"]["wilcoxon"]:
        parts += [f"## {found['strategies'][0]} against each\n", markdown_table(*pair_rows(found))]
    if found["penalties"]:
        parts += ["## Who beats whom\n", markdown_table(*penalty_rows(found))]
    return "\n".join([*parts, f"    {again}\n"])


def _rows(found: dict[str, Any]) -> Iterator[list[Any]]:
    """One line an experiment and strategy; areas and differences as shares."""
    sides = ("mean", "low", "high")
    head = ["experiment", "data_set", "folders", "strategy", "seeds"]
    head += [name + ("" if side == "mean" else f"_{side}") for name in ("aubc", "to_random") for side in sides]
    of = {name: one for one in found["data_sets"] for name in one["experiments"]}
    yield [*head, "rank_on_data_set", "average_rank"]
    for one in found["experiments"]:
        mine = of[one["name"]]
        for name in found["strategies"]:
            gap = (one["to_random"] or {}).get(name, {})
            place = [one["name"], mine["name"], " ".join(one["folders"]), name, len(one["seeds"])]
            numbers = [group.get(side) for group in (one["aubc"][name], gap) for side in sides]
            yield [*place, *numbers, mine["ranks"][name], found["average_ranks"][name]]
