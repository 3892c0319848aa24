"""The report's parts that compare strategies: one against each, what so few seeds could show, savings, the cost."""

from __future__ import annotations

import json
from collections.abc import Set
from html import escape
from typing import Any

import numpy as np

from ncalr.errors import UnknownName
from ncalr.lab import plots
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run
from ncalr.lab.statistics import detectable_difference, seeds_for
from ncalr.lab.tables import html_table, p_value, signed
from ncalr.loop.environment import read_environments


def of_first(found: dict[str, Any]) -> str:
    """The first strategy against each other one; nothing where random is the only one, as the main table has that."""
    own = found["strategies"][0]
    rows = {name: row for name, row in found["of_first"].items() if row["seeds"] > 1}
    if not rows or [*rows] == ["random"]:
        return ""
    head = [f"{own} against", "area", "p (Holm)", f"at {found['budgets'][-1]:,.0f} {found['unit']}", "could have shown"]
    body = []
    for name, row in rows.items():
        area, last = row["aubc"], {side: row["per_budget"][side][-1] for side in ("mean", "low", "high")}
        body.append([name, signed(area), p_value(area["p_holm"]), signed(last), could_have_shown(row)])
    picture = plots.forest(own, {name: row["aubc"] for name, row in rows.items()})
    return (
        f"<h2>{escape(own)} against each</h2><div class=scroll>{html_table(head, body)}</div>"
        f"<figure>{picture}<figcaption class=soft>In points, paired by seed, with 95 % t intervals; right of 0 "
        f"{escape(own)} is better. The p-values are corrected for all of these comparisons, the intervals are not. The "
        "last column: what true difference of areas would have been found four times out of five, as estimated from "
        "these seeds. No difference found is not no difference.</figcaption></figure>"
    )


def could_have_shown(row: dict[str, Any]) -> str:
    """The true difference of areas, in points, that a paired t-test of these seeds finds four times out of five."""
    least = detectable_difference(row["aubc"]["deviation"] or 0.0, row["seeds"])
    return f"{100 * least:.1f}" if np.isfinite(least) else ""


def power(found: dict[str, Any]) -> list[str]:
    """What this many seeds could have seen, by the spread of all strategies together."""
    rows = [row for row in (found.get("to_random") or {}).values() if row["aubc"]["deviation"]]
    if not rows:
        return []
    seeds = min(row["seeds"] for row in rows)
    deviation = float(np.sqrt(np.mean([row["aubc"]["deviation"] ** 2 for row in rows])))
    size = 100 * detectable_difference(deviation, seeds)
    return [
        f"With {seeds} seeds a true difference to random of about {size:.1f} points of area would have been found four "
        "times out of five by a paired t-test at 5 %, before the correction for several strategies; smaller ones may "
        f"exist unseen. For a difference of 1 point it takes about {seeds_for(deviation, 0.01):,} seeds. Both are "
        "estimates, from the spread of these seeds."
    ]


def apart(runs: list[Run]) -> list[str]:
    """A word where first trainings on the same labels came out apart: these runs are of several processes."""
    gap = first_gap(runs)
    if not gap:
        return []
    return [
        f"First trainings of a seed on the same labels are up to {100 * gap:.1f} points apart: these runs were made in "
        "several processes, or by several versions of the code. Their differences hold that beside what the strategies "
        "do; what is to be compared should be run in one folder, by one command."
    ]


def unanswered(runs: list[Run]) -> list[str]:
    """A word where trainings had fewer or more answers than planned: they count at their planned budget."""
    trained = [line for run in runs for line in run.lines if "accuracy" in line]
    off = [line.get("answers", line["labelled"]) - line["planned"] for line in trained if "planned" in line]
    if not off:
        return []
    least, most = min(off), max(off)
    between = f"{least:+,}" if least == most else f"{least:+,} to {most:+,}"
    return [
        f"{len(off)} of {len(trained)} trainings had another number of answers than planned ({between}): questions "
        "were not answered, or answers were taken back or came late. Each counts at its planned budget."
    ]


SETTLED = 0.1
"""NC4 of a training that came to its end: 0.04 at most in all of results/, with losses that stand noise too."""


def unsettled(runs: list[Run]) -> list[str]:
    """A word where networks had not learnt the labels they were given: what is compared is half trained."""
    said = [line.get("collapse") or {} for run in runs for line in run.lines]
    found = [one for one in said if one.get("nc4") is not None]
    early = [one for one in found if one["nc4"] > SETTLED]
    if not early:
        return []
    right = np.median([one["accuracy"] for one in early])
    return [
        f"{len(early)} of {len(found)} trainings ended before the network had settled on its own labels (NC4 above "
        f"{SETTLED:.0%}; right on {right:.0%} of these labels, in the median). Strategies are compared on half-trained "
        "models there, and NCAL-R presupposes the terminal phase: train longer (epochs= in the recipe), or by another "
        "recipe."
    ]


MACHINE = {"python": "not noted", "code": "not noted", "gpu": "none", "cuda": "none", "cudnn": "none"}
"""What a report compares of environments beside versions, and what it calls one that does not say."""


def made_by(runs: list[Run]) -> list[str]:
    """A word where the runs were made by different code or libraries, as far as their environments say so."""
    seen: dict[str, set[str]] = {}
    for run in runs:
        for facts in read_environments(run.journal.folder):
            versions = {name: str(version) for name, version in facts.get("versions", {}).items()}
            machine = {name: str(facts.get(name, absent)) for name, absent in MACHINE.items()}
            for name, value in (versions | machine).items():
                seen.setdefault(name, set()).add(value)
    several = {name: sorted(values) for name, values in seen.items() if len(values) > 1}
    if not several:
        return []
    words = "; ".join(f"{name} {', '.join(values)}" for name, values in several.items())
    return [
        f"These runs were made by different code or libraries ({words}): their differences hold that beside what the "
        "strategies do. The file environment.json of each run says which rounds were made by what."
    ]


def first_gap(runs: list[Run]) -> float:
    """How far first trainings of a seed on the same labels are apart, at most."""
    first: dict[tuple[int, str], list[float]] = {}
    for run in runs:
        if run.accuracies:
            learnt = json.dumps([run.lines[0].get("ids"), run.lines[0].get("labels")])
            first.setdefault((run.seed, learnt), []).append(run.accuracies[0][1])
    return max((max(found) - min(found) for found in first.values()), default=0.0)


def savings(found: dict[str, Any]) -> str:
    """Labels that random needs for the same accuracy, at the last budget and half way."""
    rows = found.get("label_savings")
    if not rows:
        return ""
    budgets, unit = found["budgets"], found["unit"]
    places = sorted({len(budgets) // 2, len(budgets) - 1})
    head = ["strategy", *(f"at {budgets[place]:,.0f} {unit}" for place in places)]
    body = [[name, *(_needed(saving, place, budgets[-1]) for place in places)] for name, saving in rows.items()]
    return (
        f"<h2>{unit.capitalize()} random needs for the same accuracy</h2><div class=scroll>{html_table(head, body)}"
        f"</div><figure>{plots.savings(budgets, rows, unit)}<figcaption class=soft>Read off random's mean curve; a "
        f"line ends where random never gets that far. In brackets the numbers of {unit}, from the least to the most, "
        "at which random cannot be told from the strategy by a paired t-test at 5 %.</figcaption></figure>"
    )


def _needed(saving: dict[str, Any], place: int, most: float) -> str:
    """How many labels random needs, and between which numbers that lies."""

    def said(name: str, beyond: str) -> str:
        value = saving[name][place]
        return f"more than {most:,.0f}" if saving[beyond][place] else "" if value is None else f"{value:,.0f}"

    needed = said("needed", "beyond")
    low, high = said("low", "low_beyond"), said("high", "high_beyond")
    between = f" ({low} to {high})" if low and high and low != high else ""
    return f"{'at most ' if needed and saving['at_most'][place] else ''}{needed}{between}"


def cost(runs: list[Run], experiment: Experiment) -> str:
    """Time and passes over the pool, by strategy."""
    from ncalr.learn.recipes import recipe

    body = []
    for name in dict.fromkeys(run.strategy for run in runs):
        took = [[line["seconds"] for line in run.lines if "seconds" in line] for run in runs if run.strategy == name]
        choosing = [one["round"] for run in took for one in run]
        if choosing:
            bare = next(one for one in experiment.strategies if f"{name}, ".startswith(f"{one}, "))  # less its policy
            passes = _passes(bare, recipe(experiment.recipe).checkpoints)
            training = np.mean([sum(one["train"] for one in run) for run in took])
            body.append([name, passes, f"{np.median(choosing):.2g}", f"{training:,.1f}"])
    if not body:
        return ""
    head = ["strategy", "passes over the pool a round", "s of choosing a round", "s of training a run"]
    return (
        f"<h2>What it cost</h2><div class=scroll>{html_table(head, body)}</div><p class=soft>Choosing: the median over "
        "all rounds. Training: from the beginning to the end of each, predictions included; where several runs share a "
        "device, the time of each holds its waiting for the others.</p>"
    )


def _passes(strategy: str, checkpoints: int) -> str:
    """Those of a strategy that is known here; somebody's own may not be, and its runs are reported all the same."""
    from ncalr.learn.learner import needs_of

    try:
        return str(passes_of(needs_of(strategy), checkpoints))
    except UnknownName:
        return ""


def passes_of(needs: Set[str], checkpoints: int) -> int:
    """How often a round reads the pool: once for features or logits, and once a checkpoint of the window."""
    watched = {"checkpoint_predictions", "sampled_probs", "mean_probs"}
    return bool(needs - watched) + checkpoints * bool(needs & watched)
