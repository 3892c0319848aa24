"""Parts of the results' pages about what labels are good for beyond accuracy, from the evaluations of the study's runs.

Each part is Markdown: a table with mean and 95 % interval over the seeds, the paper's numbers beside it where it gives
any, and a verdict on its claim about ncal. A part without evaluations is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.evaluate.ood_metrics import at_matched_accuracy
from ncalr.lab import plots
from ncalr.lab.evaluations import TITLES, read_evaluations
from ncalr.lab.runner import Run
from ncalr.lab.statistics import Curves, Difference, Estimate, against_each, detectable_difference, estimate
from ncalr.lab.tables import markdown_table, points

Line = dict[str, Any]
Found = dict[str, dict[int, Line]]
"""Evaluations of one task at one budget, by strategy and seed."""
Rounds = dict[int, Found]
"""The same by number of labels."""
ACCURACY = "accuracy"  # of the model itself, among the values

OPENIMAGE = {"random": (88.67,), "cdal": (88.92,), "coreset": (88.95,), "ncal": (91.53,)}
PROBED = {  # CIFAR-100, Flowers, CUB, Pets
    "random": (41.64, 58.69, 37.84, 42.34),
    "cdal": (41.98, 58.13, 38.53, 42.65),
    "coreset": (42.02, 57.96, 37.86, 42.22),
    "ncal": (43.78, 60.87, 40.01, 44.70),
}
DISCOVERED = {  # all, old, new, validation
    "random": (33.20, 50.34, 20.35, 36.20),
    "cdal": (33.39, 49.96, 20.96, 36.94),
    "coreset": (32.23, 49.98, 18.92, 36.44),
    "ncal": (35.07, 51.95, 23.05, 37.76),
}
APART = {"random": (15.114,), "cdal": (15.130,), "coreset": (15.070,), "ncal": (15.944,)}


def part(task: str, runs: list[Run], pages: Path) -> str:
    """The part of a page about a task; empty without evaluations. Figures go into `pages`."""
    rounds = _rounds(runs, task)
    if not rounds:
        return ""
    return "\n".join([f"## {TITLES[task]}", "", *PARTS[task](rounds, pages), *_of_seeds(rounds[max(rounds)])])


def _of_seeds(found: Found) -> list[str]:
    """How many seeds the rows of a table are of, where it is not the same for all."""
    counts = {name: len(seeds) for name, seeds in found.items()}
    if len(set(counts.values())) == 1:
        return []
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    return ["", f"Models that were evaluated, one a seed: {told}."]


def ood(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001 (a part takes both)
    """Detection of what is not in-distribution: all scores at the last budget, the best one by budget."""
    last = rounds[max(rounds)]
    shown = _any(last)["shown"]
    scores = [name.removesuffix(", near, auroc") for name in shown if name.endswith(", near, auroc")]
    text = [
        "The paper has far-OOD AUROC on OpenImage-O, which could not be had, at 40 % of ImageNet-100, and does not say by which score. Ours: near are the classes of "
        "Tiny-ImageNet that mini-ImageNet lacks, far is the mean over DTD (10 classes) and SVHN, both stand-ins.",
    ]
    for group in ("near", "far"):
        values = [f"{score}, {group}, auroc" for score in scores]
        head, rows = ["strategy", *scores], _rows(last, values)
        if group == "far":
            head, rows = [*head, "the paper: OpenImage-O"], _beside(rows, OPENIMAGE)
        best = max(values, key=lambda value: np.mean([np.mean(_numbers(seeds, value)) for seeds in last.values()]))
        common = {b: _common(rounds[b], last) for b in sorted(rounds)}
        by_budget = [
            [name, *(_cell(_numbers(found[name], best)) for found in common.values() if found)] for name in last
        ]
        budgets = [f"{b:,} ({len(found[next(iter(last))])})" for b, found in common.items() if found]
        text += [
            "",
            f"AUROC, {group}, at {max(rounds):,} labels:",
            "",
            table(head, rows),
            "",
            f"By budget, with `{best.partition(',')[0]}`, the best of the scores here on the mean over all strategies; of the seeds of which all models were evaluated, their number in brackets:",
            "",
            table(["strategy", *budgets], by_budget),
            "",
            f"**Verdict ({group}).** {_verdict(last, best)}{_matched(rounds, best)}",
        ]
    return text


def probe(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Linear probes at the last budget."""
    last = rounds[max(rounds)]
    values = [name for name in _any(last)["values"] if name.endswith(", top1")]
    head = ["strategy", *(name.partition("(")[0].removesuffix(", top1") for name in values), "mean"]
    rows = _beside(_rows(last, [*values, "mean of top1"]), PROBED)
    return [
        f"Top-1 at {max(rounds):,} labels. The paper's ImageNet-R, NINCO, Aircraft and STL columns could not be had here; its features come from larger images.",
        "",
        table([*head, "the paper: CIFAR-100, Flowers, CUB, Pets"], rows),
        "",
        f"**Verdict.** {_verdict(last, 'mean of top1')}",
    ]


def discovery(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Category discovery at the last budget."""
    last = rounds[max(rounds)]
    head = ["strategy", "all", "old", "new", "validation, known classes", "the paper: all, old, new, validation"]
    return [
        f"60 known classes, half of their images to choose from, {max(rounds):,} labels ({', '.join(_any(last)['notes'][:2])}). The paper names neither data, budget nor "
        "protocol; its validation accuracy is compatible with one over all 100 classes.",
        "",
        table(head, _beside(_rows(last, ["all", "old", "new", ACCURACY]), DISCOVERED)),
        "",
        f"**Verdict.** {_verdict(last, 'all')}",
    ]


def separation(rounds: Rounds, pages: Path) -> list[str]:
    """Distances between class means at the last budget."""
    last = rounds[max(rounds)]
    quantiles = {name: [line["histogram"]["quantiles"] for line in seeds.values()] for name, seeds in last.items()}
    (pages / "mini_imagenet_separation.svg").write_text(plots.separation(quantiles))
    values = ["distance", "distance over feature norm", "nearest distance over feature norm", "cosine, centred"]
    return [
        "The paper's raw mean distance depends on the scale of the features, which the last layer can undo: beside it stands the distance over the features' mean norm.",
        "",
        table(["strategy", *values, "the paper: distance"], _beside(_rows(last, values, 1), APART)),
        "",
        "![Distances between class means](./mini_imagenet_separation.svg)",
        "",
        f"**Verdict (raw distance).** {_verdict(last, values[0], 1)} **(Over the norm.)** {_verdict(last, values[1], 1)}",
    ]


def tail(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Accuracy and picks in the head, the middle and the tail at the last budget."""
    last = rounds[max(rounds)]
    values = list(_any(last)["values"])
    shares = [value for value in values if value.startswith("accuracy")]
    picked = values[len(shares) :]
    rows = [[*left, *right[1:]] for left, right in zip(_rows(last, shares), _rows(last, picked, 1), strict=True)]
    return [
        f"Thirds of the classes by their size in the pool, at {max(rounds):,} labels; how much of each was picked, over its share of the pool.",
        "",
        table(["strategy", *shares, *picked], rows),
    ]


PARTS: dict[str, Callable[[Rounds, Path], list[str]]] = {
    "ood": ood,
    "probe": probe,
    "separation": separation,
    "discovery": discovery,
    "tail": tail,
}
"""Every part by the name of its task."""


CLAIMED = ("random", "coreset", "cdal")
"""Whom the paper has ncal above; it compares with nobody else."""
NEAR = 0.01
"""Differences of areas within one point either way are called level: the paper's leads are of 2.6 points and more."""


def verdict(
    values: Mapping[str, Mapping[int, float]], scale: float = 100
) -> tuple[str, dict[str, tuple[Difference, str]]]:
    """Plain words about the claim that ncal is above the paper's rivals; ncal against each, and where it stands to it.

    `values` by strategy and seed. Above and below: a paired t-test at 5 %, corrected by Holm's method for the rivals of
    the claim. Level: the 95 % interval lies within a point either way. All else could not be told apart by so few
    seeds. Strategies with fewer than three seeds in common are not compared yet, and those of the claim are named.
    """
    shared = _shared(values)
    compared = {name: seeds for name, seeds in shared.items() if len(seeds) >= 3}
    rivals = [name for name in CLAIMED if name in compared]
    waiting = {name: len(shared.get(name, ())) for name in CLAIMED if name not in rivals}
    if not rivals:
        return f"Too early: ncal has {max(waiting.values())} of 3 seeds in common with {_and([*CLAIMED])}.", {}
    claimed = _against(values, {name: compared[name] for name in rivals})
    others = {name: _against(values, {name: compared[name]})[name] for name in compared if name not in CLAIMED}
    near = NEAR if scale == 100 else 0.0
    found = {name: (one, place(one, near)) for name, one in {**claimed, **others}.items()}
    words = {name: found[name][1] for name in rivals}
    kept = sum(word == "above" for word in words.values())
    word = "Holds" if kept == len(rivals) else "Holds in part" if kept else "Does not hold"
    so_far = " so far" if waiting and kept in (0, len(rivals)) else ""  # one more cannot change what holds in part
    order = ("above", "below", "level with", "not told apart from")
    said = [(where, [name for name in rivals if words[name] == where]) for where in order]
    missing = f"; too early for {', '.join(f'{name} ({n} of 3 seeds)' for name, n in waiting.items())}"
    short = f"{word}{so_far}: ncal is {', '.join(f'{where} {_and(names)}' for where, names in said if names)}"
    short += f"{missing if waiting else ''}."
    better = [name for name in others if found[name][1] == "below"]
    return f"{short} It is below {_and(better)}, which the paper has not." if better else short, found


def place(found: Difference, near: float = NEAR) -> str:
    """Where one stands to another: above, below, level with, or not told apart from."""
    effect = found.aubc
    if effect.p_holm < 0.05:
        return "above" if effect.mean > 0 else "below"
    return "level with" if max(-effect.low, effect.high) <= near else "not told apart from"


def _shared(values: Mapping[str, Mapping[int, float]]) -> dict[str, list[int]]:
    """The seeds that each rival has in common with ncal."""
    own = set(values.get("ncal", {}))
    return {name: sorted(own & set(seeds)) for name, seeds in values.items() if name != "ncal" and "ncal(" not in name}


def _against(values: Mapping[str, Mapping[int, float]], shared: Mapping[str, list[int]]) -> dict[str, Difference]:
    """ncal against some, paired by seed; they are the family of Holm's correction."""
    seeds = sorted({seed for some in shared.values() for seed in some})
    rows = {name: [[values[name].get(seed, np.nan)] for seed in seeds] for name in ("ncal", *shared)}
    return against_each(Curves(np.array([1.0]), {name: np.array(row) for name, row in rows.items()}), "ncal")


def could_show(found: Difference, scale: float = 100) -> str:
    """The true difference that so many seeds find four times out of five."""
    size = detectable_difference(float(found.aubc.deviation), found.seeds)
    return f"{scale * size:.{_digits(scale)}f}" if np.isfinite(size) else ""


def gap(found: Difference, scale: float = 100) -> str:
    """A difference of areas and its interval."""
    effect = found.aubc
    return signed(Estimate(effect.mean, effect.low, effect.high, np.array(found.seeds)), scale)


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _verdict(found: Found, value: str, scale: float = 100) -> str:
    """The same by a value of the evaluations, and the differences, too early as they may be."""
    numbers = {name: {seed: _number(line, value) for seed, line in seeds.items()} for name, seeds in found.items()}
    pairs = {name: seeds for name, seeds in _shared(numbers).items() if len(seeds) > 1}
    gaps = {name: _against(numbers, {name: seeds})[name] for name, seeds in pairs.items()}
    figures = ", ".join(
        f"{name} {gap(gaps[name], scale)}" for name in sorted(gaps, key=lambda name: name not in CLAIMED)
    )
    short, _ = verdict(numbers, scale)
    return f"{short} ncal against {figures}." if figures else short


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, without the end of its last line."""
    return markdown_table(head, rows).rstrip("\n")


def _rounds(runs: list[Run], task: str) -> Rounds:
    """The task's evaluations by number of labels."""
    found: dict[int, Found] = {}
    order = list(dict.fromkeys(run.strategy for run in runs))
    for run in sorted(runs, key=lambda run: order.index(run.strategy)):  # a seed that is missing moves no row
        for line in read_evaluations(run):
            if line["task"] == task:
                found.setdefault(line["labelled"], {}).setdefault(run.strategy, {})[run.seed] = line
    return found


def _common(found: Found, names: Iterable[str]) -> Found:
    """Of the seeds that all of these have, or nothing: means over other seeds would compare seeds, not strategies."""
    shared = set.intersection(*({*found.get(name, {})} for name in names))
    return {name: {seed: found[name][seed] for seed in sorted(shared)} for name in names} if shared else {}


def _any(found: Found) -> Line:
    return next(iter(next(iter(found.values())).values()))


def _number(line: Line, value: str) -> float:
    return float(line["accuracy"] if value == ACCURACY else line["values"][value])


def _numbers(seeds: dict[int, Line], value: str) -> list[float]:
    return [_number(line, value) for line in seeds.values()]


def _rows(found: Found, values: list[str], scale: float = 100) -> list[list[str]]:
    """A row a strategy, a cell a value."""
    return [[name, *(_cell(_numbers(seeds, value), scale) for value in values)] for name, seeds in found.items()]


def _beside(rows: list[list[str]], figures: Mapping[str, tuple[float, ...]]) -> list[list[str]]:
    """The paper's figures in a last column."""
    digits = 3 if figures is APART else 2
    return [[*row, ", ".join(f"{value:.{digits}f}" for value in figures.get(row[0], ()))] for row in rows]


def _matched(rounds: Rounds, value: str) -> str:
    """AUROC follows accuracy: the same difference where both are equally accurate."""
    budgets = sorted(rounds)
    differences = []
    for seed in range(3):
        curves = {}
        for name in ("ncal", "random"):
            lines = [rounds[b].get(name, {}).get(seed) for b in budgets]
            if all(lines):
                curves[name] = (
                    [line["accuracy"] for line in lines if line],
                    [_number(line, value) for line in lines if line],
                )
        if len(curves) == 2:
            found = at_matched_accuracy(curves).values
            differences.append(found["ncal"] - found["random"])
    if len(differences) < 2:
        return ""
    return f" At equal accuracy of the classifiers: {signed(estimate(np.array(differences)), 100)}."


def signed(gain: Estimate, scale: float = 100) -> str:
    """A difference with its interval, where there is one."""
    low, mean, high = (
        points(float(one)) if scale == 100 else f"{scale * float(one):+.{_digits(scale)}f}"
        for one in (gain.low, gain.mean, gain.high)
    )
    return f"{mean} ({low} to {high})" if np.isfinite(gain.low) else mean


def _digits(scale: float) -> int:
    return 1 if scale == 100 else 3


def _cell(numbers: list[float], scale: float = 100) -> str:
    if not numbers:
        return ""
    digits = _digits(scale)
    found = estimate(np.array(numbers, np.float64))
    mean = f"{scale * float(found.mean):.{digits}f}"
    if not np.isfinite(found.low):
        return mean
    return f"{mean} ± {scale * (float(found.high) - float(found.low)) / 2:.{digits}f}"
