"""Strategies compared across data sets: what each came to in every experiment, and whether the order holds.

Experiments that may be one (`alike.py`) are one row; rows that differ in their data or their protocol stand side by
side, and the strategies that all of them have are compared on the seeds that all of these have finished. Rows on the
same data are averaged before strategies are ranked: a data set counts once, however often it was looked at.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.dataset import source_and_options
from ncalr.errors import BadInput
from ncalr.lab.across_page import write_pages
from ncalr.lab.alike import PROTOCOL, data_apart, grouped
from ncalr.lab.experiment import Experiment
from ncalr.lab.ranks import (
    PAIR_TEST,
    RANK_TEST,
    added,
    against_each,
    critical_difference,
    friedman,
    not_apart,
    ranks,
)
from ncalr.lab.report import curves_of, items_of, protocol_of, stopped, together, unit_of
from ncalr.lab.runner import Run, read_experiment
from ncalr.lab.statistics import RANDOM, Curves, Penalties, aubc, differences, estimate, penalties, plain
from ncalr.loop.state import spent

ALPHA = 0.05


@dataclass(frozen=True)
class Row:
    """One experiment of the comparison, from one folder or from several that are one."""

    name: str
    experiment: Experiment
    folders: tuple[Path, ...]
    runs: tuple[Run, ...]

    @property
    def strategies(self) -> list[str]:
        """The names, in the order in which they were given."""
        return list(dict.fromkeys(run.strategy for run in self.runs))


def write_across(groups: Sequence[Sequence[Path]], out: Path | str | None = None) -> Path:
    """across.html, across.md, across.csv and across.json of experiments that are not one; the page's path.

    `groups` are folders that are one experiment each (`groups_of`). The files go to `out`, or to the first folder.
    """
    rows = read_rows(groups)
    return write_pages(compare(rows), [folder for row in rows for folder in row.folders], out)


def read_rows(groups: Sequence[Sequence[Path]]) -> list[Row]:
    """The experiments of these folders. Where policies of answers differ anywhere, they are a part of the names."""
    policies = {read_experiment(folder).answers for group in groups for folder in group}
    found = [together(group, named=len(policies) > 1) for group in groups]
    names = names_of([experiment for experiment, _ in found], [group[0] for group in groups])
    return [
        Row(name, experiment, tuple(group), tuple(runs))
        for name, (experiment, runs), group in zip(names, found, groups, strict=True)
    ]


def names_of(experiments: Sequence[Experiment], folders: Sequence[Path]) -> list[str]:
    """What each experiment is called: its data set, with what differs where several have one of that name."""
    short = [_short(one.dataset) for one in experiments]
    names = []
    for one, name in zip(experiments, short, strict=True):
        alike = [other for other, its in zip(experiments, short, strict=True) if its == name]
        differing = [key for key in PROTOCOL if len({getattr(other, key) for other in alike}) > 1]
        base = name if len({other.dataset for other in alike}) == 1 else one.dataset
        names.append(", ".join([base, *(f"{key} {getattr(one, key) or 'none'}" for key in differing)]))
    count = Counter(names)
    return [name if count[name] == 1 else f"{name}, in {folder}" for name, folder in zip(names, folders, strict=True)]


def compare(rows: Sequence[Row]) -> dict[str, Any]:
    """Every figure of the comparison as plain data; see `across_page.py` for what they mean."""
    common = in_common(rows)
    experiments, matrices = [], []
    for row in rows:
        curves, seeds = shared_curves(row, common)
        experiments.append(_figures(row, curves, seeds, common))
        if len(seeds) > 1:
            matrices.append(penalties(Curves(curves.budgets, {name: curves.accuracies[name] for name in common})))
    sets = _data_sets(rows, experiments, common)
    ranked = ranks([list(one["areas"].values()) for one in sets])
    for one, line in zip(sets, ranked, strict=True):
        one["ranks"] = dict(zip(common, line, strict=True))
    average = dict(zip(common, ranked.mean(axis=0).tolist(), strict=True))
    figures: dict[str, Any] = plain(
        {
            "strategies": common,
            "experiments": experiments,
            "data_sets": sets,
            "average_ranks": average,
            "tests": _tests(average, ranked, {name: [one["areas"][name] for one in sets] for name in common}),
            "penalties": _penalties(matrices),
            "notes": [*_left_out(rows, common), *_few_seeds(rows, experiments), *_one_source(sets)],
        }
    )
    return figures


def in_common(rows: Sequence[Row]) -> list[str]:
    """The strategies that all have, in the order of the first; an error below two."""
    common = [name for name in rows[0].strategies if all(name in row.strategies for row in rows)]
    if len(common) < 2:
        there = "; ".join(f"{row.name} has {', '.join(row.strategies)}" for row in rows)
        raise BadInput(
            f"across data sets, strategies are compared that every experiment has: expected two or more, got "
            f"{', '.join(common) or 'none'} ({there}). Add the missing ones to a folder by its command with more in "
            "--against, or report the folders apart"
        )
    return common


def shared_curves(row: Row, common: Sequence[str]) -> tuple[Curves, list[int]]:
    """The curves of these strategies (and of random) over the seeds that all of them have finished, and those seeds."""
    last = row.experiment.within(items_of(row.folders[0]))[-1]
    runs = [run for run in row.runs if run.strategy in {*common, RANDOM} and _is_whole(run, last)]
    whole = {name: {run.seed for run in runs if run.strategy == name} for name in common}
    if set.intersection(*whole.values()):
        curves, _ = curves_of(runs)
        seeds = np.array(sorted({run.seed for run in runs}))
        kept = np.all([curves.complete(name) for name in common], axis=0)
        if kept.any():
            shared = {name: accuracies[kept] for name, accuracies in curves.accuracies.items()}
            return Curves(curves.budgets, shared), seeds[kept].tolist()
    counts = ", ".join(f"{name} {len(done)}" for name, done in whole.items())
    lines = " and ".join(f"`{shlex.join(['ncalr', 'resume', str(folder)])}`" for folder in row.folders)
    raise BadInput(
        f"{row.name}: no seed is finished by all strategies that are compared (finished seeds: {counts}). Go on with "
        f"{lines}, or leave it out. Runs that a rule stopped early have no whole curve"
    )


def _is_whole(run: Run, last: int) -> bool:
    """Whether a run went to its last budget, or to where nothing was left to ask."""
    return run.ended and (not stopped(run) or spent(run.lines[-1]) >= last)


def _figures(row: Row, curves: Curves, seeds: list[int], common: Sequence[str]) -> dict[str, Any]:
    """What the strategies came to in one experiment, and their differences to random where it has that."""
    areas = {name: estimate(aubc(curves.budgets, curves.accuracies[name])) for name in common}
    found: dict[str, Any] | None = None
    if RANDOM in curves.accuracies:
        gaps = differences(curves, strategies=common)
        found = {
            name: {"mean": gap.aubc.mean, "low": gap.aubc.low, "high": gap.aubc.high, "seeds": gap.seeds}
            for name, gap in gaps.items()
        }
    return {
        "name": row.name,
        "folders": [str(folder) for folder in row.folders],
        "about": protocol_of(row.experiment, items=items_of(row.folders[0])),
        "experiment": row.experiment.as_dict(),
        "seeds": seeds,
        "budgets": curves.budgets,
        "unit": unit_of([*row.runs]),
        "aubc": areas,
        "to_random": found,
    }


def _data_sets(
    rows: Sequence[Row], experiments: Sequence[dict[str, Any]], common: Sequence[str]
) -> list[dict[str, Any]]:
    """The data sets, each with the mean area of every strategy over the experiments on it."""
    blocks = grouped(range(len(rows)), lambda one, other: _same_data(rows[one], rows[other]))
    firsts = [rows[block[0]] for block in blocks]
    names = names_of([row.experiment for row in firsts], [row.folders[0] for row in firsts])
    found = []
    for block, name in zip(blocks, names, strict=True):
        here = [experiments[at] for at in block]
        areas = {one: float(np.mean([float(each["aubc"][one].mean) for each in here])) for one in common}
        title = here[0]["name"] if len(here) == 1 else f"{name} ({len(here)} experiments)"
        dataset, members = rows[block[0]].experiment.dataset, [each["name"] for each in here]
        found.append({"name": title, "dataset": dataset, "experiments": members, "areas": areas})
    return found


def _same_data(one: Row, other: Row) -> bool:
    return any(not data_apart(mine, its) for mine in one.folders for its in other.folders)


def _tests(average: dict[str, float], ranked: Any, areas: dict[str, list[float]]) -> dict[str, Any]:
    """What the number of data sets allows: nothing, a test of the ranks, and one of the first against each other."""
    n, k = ranked.shape
    found: dict[str, Any] = {"data_sets": n, "alpha": ALPHA, "friedman": None, "nemenyi": None, "wilcoxon": None}
    if n >= RANK_TEST:
        found["friedman"] = friedman(ranked)
        reach = critical_difference(k, n, ALPHA)
        shown = found["friedman"].p < ALPHA  # pairs are looked at where the ranks as a whole differ
        joined = not_apart(average, reach) if shown else [sorted(average, key=lambda name: average[name])]
        found["nemenyi"] = {"critical_difference": reach, "joined": joined}
    if n >= PAIR_TEST:
        found["wilcoxon"] = against_each(next(iter(average)), areas)
    return found


def _penalties(matrices: list[Penalties]) -> dict[str, Any] | None:
    if not matrices:
        return None
    total = added(matrices)
    return {
        "strategies": total.strategies,
        "experiments": len(matrices),
        "matrix": total.matrix,
        "column_means": total.column_means,
        "share": total.matrix / len(matrices),
    }


def _left_out(rows: Sequence[Row], common: Sequence[str]) -> list[str]:
    """Strategies that only some of the experiments have."""
    others = dict.fromkeys(name for row in rows for name in row.strategies if name not in common)
    counts = {name: sum(name in row.strategies for row in rows) for name in others}
    said = ", ".join(f"{name} ({count} of {len(rows)})" for name, count in counts.items())
    return [f"Left out, as not every experiment has them: {said}."] if said else []


def _few_seeds(rows: Sequence[Row], experiments: Sequence[dict[str, Any]]) -> list[str]:
    """Where not all seeds count, and where one seed is all there is."""
    counts = [
        (row.name, len(one["seeds"]), len({r.seed for r in row.runs}))
        for row, one in zip(rows, experiments, strict=True)
    ]
    behind = "; ".join(f"{name} {count} of {planned}" for name, count, planned in counts if count < planned)
    alone = "; ".join(name for name, count, _ in counts if count == 1)
    notes = [f"Not all seeds are finished by all of these strategies: {behind}."] if behind else []
    return [*notes, f"One seed, so no interval, and no part in who beats whom: {alone}."] if alone else notes


def _one_source(sets: Sequence[dict[str, Any]]) -> list[str]:
    """A word on data sets that are views of one source."""
    sources: dict[str, list[str]] = {}
    for one in sets:
        sources.setdefault(source_and_options(one["dataset"])[0], []).append(one["name"])
    return [
        f"From one source, and yet counted as {len(names)} data sets: {'; '.join(names)}. Tests take data sets for "
        "independent."
        for names in sources.values()
        if len(names) > 1
    ]


def _short(dataset: str) -> str:
    """The name of a dataset without the path that leads to it."""
    source, options = source_and_options(dataset)
    return Path(source).name + options
