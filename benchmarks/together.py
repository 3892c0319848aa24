"""The page on all data sets together: which strategy is better where, as ranks, tests and a picture.

A data set is the unit here, as a seed is on the other pages. What counts are the experiments in which every strategy of
the main comparison has finished three seeds; the arithmetic is that of `ncalr report FOLDER FOLDER ...`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from beyond import alike
from study import MAIN, plan
from verdicts import CLAIMED, FEWEST, joined_by_and, table, word

from ncalr.data.dataset import source_and_options
from ncalr.lab import plots
from ncalr.lab.across import Row, compare, read_rows
from ncalr.lab.across_page import area_rows, gaps_to_random, pair_rows, penalty_rows, rank_rows, verdicts
from ncalr.lab.comparison import passes_of
from ncalr.lab.ranks import PAIR_TEST, RANK_TEST, Signed, against_each
from ncalr.lab.runner import read_runs
from ncalr.lab.statistics import plain
from ncalr.lab.tables import p_value, points
from ncalr.learn.learner import needs_of
from ncalr.learn.recipes import recipe

TITLE = "All data sets together"


def write_together(study: Path, pages: Path, page_of: Mapping[str, str]) -> str:
    """The page and its pictures, and what it says in short; `page_of` an experiment is where its own figures stand."""
    rows = [_own_first(row) for row in read_rows([[study / name] for name in page_of if _is_whole(study / name)])]
    found = compare(rows) if rows else {"data_sets": []}
    files = {name: pages / f"together{name}" for name in (".md", "_gaps.svg", "_ranks.svg")}
    if len(found["data_sets"]) < RANK_TEST:
        for path in files.values():
            path.unlink(missing_ok=True)
        return ""
    nemenyi = found["tests"]["nemenyi"]
    ranks = plots.critical_difference(found["average_ranks"], nemenyi["critical_difference"], nemenyi["joined"])
    pairs = against_each("ncal", {name: _areas(found)[name] for name in ("ncal", *CLAIMED)})
    sources = _by_source(found)
    short = f"{_of_the_claim(pairs, len(found['data_sets']), sources)} {_of_the_ranks(found)}"
    links = [f"[{row.name}]({page_of[row.folders[0].name]}.md)" for row in rows]
    files["_gaps.svg"].write_text(gaps_to_random(found))
    files["_ranks.svg"].write_text(ranks)
    files[".md"].write_text("\n\n".join([*_parts(found, pairs, short, links), *_alike(rows, found, links)]) + "\n")
    return f"[{TITLE}](together.md): {short[:1].lower()}{short[1:]}"


def _is_whole(folder: Path) -> bool:
    """Whether every strategy of the main comparison has finished three seeds here."""
    runs = read_runs(folder) if (folder / "experiment.json").exists() else []
    return all(sum(run.ended for run in runs if run.strategy == name) >= FEWEST for name in MAIN)


def _own_first(row: Row) -> Row:
    """ncal as the first of the strategies: the others are compared with that one."""
    return replace(row, runs=tuple(sorted(row.runs, key=lambda run: run.strategy != "ncal")))


def _areas(found: dict[str, Any]) -> dict[str, list[float]]:
    """The area of each strategy on each data set."""
    return {name: [one["areas"][name] for one in found["data_sets"]] for name in found["strategies"]}


def _by_source(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The mean areas over the data sets that are views of one source: with a long tail, with all classes."""
    views: dict[str, list[dict[str, float]]] = {}
    for one in found["data_sets"]:
        views.setdefault(source_and_options(one["dataset"])[0], []).append(one["areas"])
    return {
        source: {name: float(np.mean([one[name] for one in areas])) for name in areas[0]}
        for source, areas in views.items()
    }


def _of_the_sources(sources: Mapping[str, Mapping[str, float]]) -> list[Signed]:
    """ncal against the rivals of the claim with every source once."""
    return against_each("ncal", {name: [one[name] for one in sources.values()] for name in ("ncal", *CLAIMED)})


def _once_a_source(found: dict[str, Any]) -> str:
    """The same test with every source once: as independent as data sets can be, and fewer."""
    sources = _by_source(found)
    told = ", ".join(
        f"{one.rival} {points(one.median)}, better on {one.better} of {len(sources)}, p {p_value(one.p)}"
        for one in _of_the_sources(sources)
    )
    return (
        f"Some of these data sets are views of one source, and not independent. With each of the {len(sources)} sources once (mean of its areas), ncal less {told}, not corrected; the least p that "
        f"{len(sources)} can give is {2 / 2 ** len(sources):.3f}."
    )


def _of_the_claim(pairs: list[Signed], data_sets: int, sources: Mapping[str, Mapping[str, float]]) -> str:
    """What the data sets say of the paper's claim that ncal is above these rivals."""
    if data_sets < PAIR_TEST:
        return f"Too few data sets to test the claim: {data_sets} of {PAIR_TEST}."
    where: dict[str, list[str]] = {"above": [], "below": [], "not told apart from": []}
    for one in pairs:
        shown = one.p_holm < 0.05
        where["not told apart from" if not shown else "above" if one.median > 0 else "below"].append(one.rival)
    held = word([place for place, names in where.items() for _ in names])
    said = ", ".join(f"{words} {joined_by_and(names)}" for words, names in where.items() if names)
    once = {one.rival: one.p for one in _of_the_sources(sources)}
    unsure = [f"{p_value(once[name])} for {name}" for name in where["above"] if once[name] >= 0.05]
    least = f"; {len(sources)} sources can give no less than {2 / 2 ** len(sources):.3f}"
    more = f" With each source once p is {joined_by_and(unsure)}{least}." if unsure else ""
    return f"{held}: over {data_sets} data sets (from {len(sources)} sources) ncal is {said}.{more}"


def _of_the_ranks(found: dict[str, Any]) -> str:
    """Who has the best average rank, and whether that can be told from ncal's."""
    average, tests = found["average_ranks"], found["tests"]
    best = _best(found)
    if best == "ncal":
        return f"It has the best average rank, {average['ncal']:.2f}."
    told = not any({best, "ncal"} <= {*group} for group in tests["nemenyi"]["joined"])
    return (
        f"{best} has the best average rank, {average[best]:.2f}; ncal has {average['ncal']:.2f}, {'' if told else 'not '}told "
        "apart from it by Nemenyi's test."
    )


def _best(found: dict[str, Any]) -> str:
    return min(found["average_ranks"], key=lambda name: found["average_ranks"][name])


def _parts(found: dict[str, Any], pairs: list[Signed], short: str, links: list[str]) -> list[str]:
    """The page from its heading to who beats whom."""
    head, cells = area_rows(found)
    areas = [
        [f"{link}, {row[0][1]}", *(" ".join(cell).strip() for cell in row[1:])]
        for link, row in zip(links, cells, strict=True)
    ]
    reach = found["tests"]["nemenyi"]["critical_difference"]
    return [
        f"# {TITLE}",
        "Made by `make results` from `results/study`; not to be edited by hand.",
        "**The paper.** It compares on each data set by itself and has no test over data sets.",
        f"**Ours.** {len(found['strategies'])} strategies on {len(found['data_sets'])} data sets in {len(links)} experiments, those in which each of these strategies has finished three seeds or more. A data "
        "set is the unit: more seeds make its row surer, and only more data sets tell whether an order holds elsewhere.",
        f"**Verdict.** {short}",
        _leads(found),
        "![Difference to random on each data set](./together_gaps.svg)",
        "## Areas under the curve",
        table(head, areas),
        "In points of test accuracy, mean over the seeds, then the difference to random, paired by seed, with its 95 % interval. Each interval is for its own cell, not corrected.",
        *found["notes"],
        "## Ranks",
        table(*rank_rows(found)),
        "1 is the largest area. Experiments on the same data count once, with the mean of their areas. Ranks know no sizes: a hundredth of a point makes a rank as ten points do.",
        verdicts(found)[0],
        "![Average ranks and the critical difference](./together_ranks.svg)",
        f"Strategies under one bar are not told apart. Nemenyi's critical difference is {reach:.2f} ranks at 5 %, for all pairs together.",
        "## ncal against the rivals of the paper's claim",
        table(*pair_rows({"strategies": ["ncal"], "tests": {"wilcoxon": plain(pairs)}})),
        f"The median over the data sets of the difference of two areas; on how many of them ncal is better, equal or worse; Wilcoxon's signed-rank test, corrected for these {len(pairs)}.",
        _once_a_source(found),
        "## Who beats whom",
        table(*penalty_rows(found)),
        "After Ash et al. (2020): an experiment adds the share of its budgets at which the row is better than the column by a paired t-test over its seeds at 5 %, not corrected. The mean "
        "of a column says how often that strategy is beaten. At the first number of labels all have learnt the same, so that no cell can reach the number of experiments.",
    ]


def _leads(found: dict[str, Any]) -> str:
    """What somebody asks who has to choose one: the usual lead over random, and what it costs."""
    areas = _areas(found)
    leads = {name: np.median(np.subtract(areas[name], areas["random"])) for name in areas if name != "random"}
    checkpoints = recipe(plan()["cifar10"].recipe).checkpoints
    costs = [
        [name, points(float(lead)), str(passes_of(needs_of(name), checkpoints))]
        for name, lead in sorted(leads.items(), key=lambda one: -one[1])
    ]
    head = [
        "for whoever has to choose",
        "median lead over random on these data sets, points of area",
        "passes over the pool a round",
    ]
    return table(head, costs)


def _alike(rows: list[Row], found: dict[str, Any], links: list[str]) -> list[str]:
    """How alike the picks of a round are, where the journals say."""
    names = found["strategies"]
    body = []
    for row, link in zip(rows, links, strict=True):
        cells, rounds = alike({name: [run for run in row.runs if run.strategy == name] for name in names})
        body.append([link, *cells.values(), rounds])
    return [
        "## How alike the picks of a round are",
        table(["experiment", *names, "of rounds"], body),
        "The cosine of each pick to the nearest other one of its round, in the features of the network that chose them; mean over the seeds and the rounds of which every strategy of the row has it. Strategies "
        "that need no features have it of the first choice alone, which all made with one network, or not at all. Lower is more spread out.",
    ]
