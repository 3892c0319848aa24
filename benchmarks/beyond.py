"""Parts of the results' pages about what labels are good for beyond accuracy, from the evaluations of the study's runs.

Each part is Markdown: a table with mean and 95 % interval over the seeds that ncal and the paper's rivals have in
common, the paper's numbers beside it where it gives any, and a verdict on its claim about ncal. A part without
evaluations is empty.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from verdicts import (
    CLAIMED,
    FEWEST,
    could_show,
    digits_of,
    gap,
    joined_by_and,
    reach,
    signed,
    table,
    verdict,
)

from ncalr.evaluate.ood_metrics import at_matched_accuracy
from ncalr.lab import plots
from ncalr.lab.evaluations import TITLES, read_evaluations, trained_again
from ncalr.lab.runner import Run
from ncalr.lab.statistics import estimate

Line = dict[str, Any]
Found = dict[str, dict[int, Line]]
"""Evaluations of one task at one budget, by strategy and seed."""
Rounds = dict[int, Found]
"""The same by number of labels."""
ACCURACY = "accuracy"  # of the model itself, among the values

OPENIMAGE = {  # 10, 15, ... 40 % of the labels, as our budgets are
    "random": (77.18, 80.57, 84.13, 85.45, 86.89, 87.82, 88.67),
    "cdal": (77.18, 81.78, 84.28, 85.90, 86.34, 87.98, 88.92),
    "coreset": (77.18, 81.56, 83.73, 85.66, 87.10, 88.29, 88.95),
    "ncal": (77.18, 82.49, 85.55, 87.89, 89.15, 90.53, 91.53),
}
SHARES = tuple(range(5_000, 20_001, 2_500))
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
CLAIMS = {  # what the paper says of a task: its words, by which value, and how that is scaled; of OOD, by which group
    "ood": [
        ("Far-OOD detection is best with NCAL-R: AUROC 91.53 on OpenImage-O, the rivals 88.95 at most", "far", 100)
    ],
    "probe": [
        (
            "Linear probes on its features gain some 2 points on average over eight sets (four of them here)",
            "mean of top1",
            100,
        )
    ],
    "separation": [("Its class means are farther apart: 15.944, the rivals 15.130 at most", "distance", 1)],
    "discovery": [
        ("It gains 2.1 points over the best baseline on novel classes", "new", 100),
        (
            "It gains 1.6 points over the best baseline on known classes (here by clustering; the paper calls it classification)",
            "old",
            100,
        ),
    ],
}


def part(task: str, runs: list[Run], pages: Path) -> str:
    """The part of a page about a task; empty without evaluations. Figures go into `pages`."""
    rounds = _rounds(runs, task)
    if not rounds:
        return ""
    again = trained_again([line for found in rounds.values() for seeds in found.values() for line in seeds.values()])
    whose = " ".join([_of_seeds(rounds, runs), *([f"{again}."] if again else [])])
    return "\n".join([f"## {TITLES[task]}", "", whose, "", *PARTS[task](rounds, pages)])


def claims(task: str, runs: list[Run]) -> list[list[str]]:
    """What the paper says of a task, what was measured, what could have been shown, and a verdict.

    Nothing before seeds can be compared.
    """
    rounds = _rounds(runs, task)
    rows = []
    for words, value, scale in CLAIMS.get(task, []) if rounds else []:
        measured = _best(rounds, value) if task == "ood" else value
        short, gaps = _compared(rounds[max(rounds)], measured, scale)
        rivals = ", ".join(f"{name} {one}" for name, (one, _) in gaps.items() if name in CLAIMED)
        which = ", the score that detects best here," if task == "ood" else ""
        told = f"`{measured}`{which} at {max(rounds):,} labels, ncal against {rivals}"
        rows += [[words, told, _shown_by(gaps), short]] if rivals else []
    return rows


def _best(rounds: Rounds, group: str) -> str:
    """The score that detects a group best at the last budget, on the mean over all strategies."""
    shown = _shown(rounds)
    values = [value for value in _any(shown)["shown"] if value.endswith(f", {group}, auroc")]
    return max(values, key=lambda value: np.mean([np.mean(_numbers(seeds, value)) for seeds in shown.values()]))


def _of_seeds(rounds: Rounds, runs: list[Run]) -> str:
    """Of which seeds the rows of a table are, and of how many models there is something, where not of all."""
    found, shown = rounds[max(rounds)], _shown(rounds)
    wanted = Counter(run.strategy for run in runs)
    counts = {name: len(found.get(name, {})) for name in wanted}
    same = {tuple(seeds) for seeds in shown.values()}
    which = (
        joined_by_and([str(seed) for seed in same.pop()])
        if len(same) == 1
        else "those that each has, so compare no rows"
    )
    text = f"Mean and, from {FEWEST} seeds on, half of the 95 % interval (Student's t), over these seeds: {which}."
    if counts == wanted:
        return text
    told = ", ".join(f"{name} {count} of {wanted[name]}" for name, count in counts.items())
    gone = [name for name in wanted if name not in shown]
    more = f" Not shown, for want of these seeds: {joined_by_and(gone)}." if gone else ""
    return f"{text} Models that were evaluated, one a seed: {told}.{more}"


def ood(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001 (a part takes both)
    """Detection of what is not in-distribution: all scores at the last budget, the best one by budget."""
    last, shown = rounds[max(rounds)], _shown(rounds)
    everybody = list(dict.fromkeys(name for found in rounds.values() for name in found))
    scores = [one.removesuffix(", near, auroc") for one in _any(last)["shown"] if one.endswith(", near, auroc")]
    text = [
        "The paper has far-OOD AUROC on OpenImage-O, which could not be had, at 10 to 40 % of ImageNet-100, and does not say by which score. Ours: near are the classes of "
        "Tiny-ImageNet that mini-ImageNet lacks, far is the mean over DTD (10 classes) and SVHN, both stand-ins. Everything is in percent; below 50 is "
        "worse than chance.",
    ]
    for group in ("near", "far"):
        values = [f"{score}, {group}, auroc" for score in scores]
        head, rows = ["strategy", *scores], _rows(shown, values)
        best = _best(rounds, group)
        common = {b: found for b in sorted(rounds) if (found := _common(rounds[b], everybody))}
        by_budget = [
            [name, *(_cell(_numbers(found.get(name, {}), best)) for found in common.values())] for name in everybody
        ]
        if group == "far":
            head, rows = (
                [*head, "the paper: OpenImage-O"],
                _beside(rows, {name: one[-1:] for name, one in OPENIMAGE.items()}),
            )
            theirs = {name: dict(zip(SHARES, one, strict=True)) for name, one in OPENIMAGE.items()}
            by_budget += [
                [f"the paper, OpenImage-O: {name}", *(f"{one[b]:.2f}" if b in one else "" for b in common)]
                for name, one in theirs.items()
            ]
        which = {b: ", ".join(map(str, next(iter(found.values())))) for b, found in common.items()}
        apart = len(set(which.values())) > 1
        budgets = [f"{b:,} ({which[b]})" if apart else f"{b:,}" for b in common]
        whose = "; in brackets the seeds, so compare inside a column" if apart else ""
        text += [
            "",
            f"AUROC, {group}, at {max(rounds):,} labels:",
            "",
            table(head, rows),
            "",
            f"By budget, with `{best.partition(',')[0]}`, at {max(rounds):,} labels the best of the scores on the mean over all strategies, chosen on these same figures{whose}:",
            "",
            table(["strategy", *budgets], by_budget),
            "",
            *([words, ""] if (words := _course(common, best, OPENIMAGE if group == "far" else {})) else []),
            f"**Verdict ({group}).** {_verdict(last, best)}{_matched(rounds, best)}",
        ]
    return text


def _course(rounds: Rounds, value: str, theirs: Mapping[str, tuple[float, ...]]) -> str:
    """Where a value goes with more labels, on the mean over all strategies, and where the paper's goes."""
    if len(rounds) < 2:
        return ""
    ends = [
        f"{100 * np.mean([np.mean(_numbers(rounds[b][name], value)) for name in rounds[b]]):.1f}"
        for b in (min(rounds), max(rounds))
    ]
    text = f"On the mean over all strategies it goes from {' to '.join(ends)}"
    paper = [f"{np.mean([one[at] for one in theirs.values()]):.1f}" for at in (0, -1)] if theirs else []
    return f"{text}; the paper's, on its set, from {' to '.join(paper)}." if paper else f"{text}."


def probe(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Linear probes at the last budget."""
    last = rounds[max(rounds)]
    values = [name for name in _any(last)["values"] if name.endswith(", top1")]
    head = ["strategy", *(name.partition("(")[0].removesuffix(", top1") for name in values), "mean"]
    theirs = {name: (*figures, float(np.mean(figures))) for name, figures in PROBED.items()}
    rows = _beside(_rows(_shown(rounds), [*values, "mean of top1"]), theirs)
    return [
        f"Top-1 in percent, of models with {max(rounds):,} labels. The paper's ImageNet-R, NINCO, Aircraft and STL columns could not be had here; its features come from larger images.",
        "",
        table([*head, "the paper: CIFAR-100, Flowers, CUB, Pets, mean of these"], rows),
        "",
        f"**Verdict (mean).** {_verdict(last, 'mean of top1')}",
    ]


def discovery(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Category discovery at the last budget."""
    last = rounds[max(rounds)]
    head = ["strategy", "all", "old", "new", "validation, known classes", "the paper: all, old, new, validation"]
    text = [
        f"The models have {max(rounds):,} labels of the 60 known classes, from half of their images; the other half and all images of 40 new classes are clustered "
        f"({'; '.join(_any(last)['notes'][:2])}), in percent. The clustering is given the true labels of all images of the pool, also of those that no strategy asked for, so strategies differ by their features "
        "alone. The paper names the protocol (GCD) and the split, neither data nor budget; its validation accuracy is compatible with one over all 100 classes, and its NCAL row contradicts itself: by "
        "the weights of the other three rows its Old and New make 35.44. Its text calls what it measures on known classes classification, on novel ones GCD accuracy; ours are both of the clustering.",
        "",
        table(head, _beside(_rows(_shown(rounds), ["all", "old", "new", ACCURACY]), DISCOVERED)),
    ]
    for value in ("all", "old", "new"):
        text += ["", f"**Verdict ({value}).** {_verdict(last, value)}"]
    return text


def separation(rounds: Rounds, pages: Path) -> list[str]:
    """Distances between class means at the last budget."""
    last, shown = rounds[max(rounds)], _shown(rounds)
    quantiles = {name: [line["quantiles"] for line in seeds.values()] for name, seeds in shown.items()}
    (pages / "mini_imagenet_separation.svg").write_text(plots.separation(quantiles))
    values = [*_any(last)["values"]]
    return [
        f"Class means of each strategy's own labelled items at {max(rounds):,} labels, from the journals, which keep their twentieths; the paper does not say of which items. Strategies pick items of other difficulty, so this is of the picks as well as of the features. Its raw mean distance depends on the scale of the features, which the last layer can undo: beside it "
        "stands the distance over the mean length of the class means. *Level* is within a hundredth of ncal's value. CMA is the mean cosine of two class means.",
        "",
        table(["strategy", *values, "the paper: distance"], _beside(_rows(shown, values, 1), APART)),
        "",
        "![Distances between class means](./mini_imagenet_separation.svg)",
        "",
        f"**Verdict (raw distance).** {_verdict(last, values[0], 1)}",
        "",
        f"**Verdict (over their length).** {_verdict(last, values[1], 1)}",
    ]


def calibration(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Calibration at the last budget; the paper has nothing on it."""
    names = {"ece": "ECE", "nll": "NLL", "brier": "Brier score", "aurc": "area under risk over coverage"}
    return [
        f"Not in the paper. On the test set at {max(rounds):,} labels; lower is better in all columns, and a more accurate model is better in all but the first by that alone.",
        "",
        table(["strategy", *names.values()], _rows(_shown(rounds), [*names], 1)),
    ]


def tail(rounds: Rounds, pages: Path) -> list[str]:  # noqa: ARG001
    """Accuracy and picks in the head, the middle and the tail at the last budget."""
    shown = _shown(rounds)
    values = list(_any(shown)["values"])
    shares = [value for value in values if value.startswith("accuracy")]
    picked = values[len(shares) :]
    rows = [[*left, *right[1:]] for left, right in zip(_rows(shown, shares), _rows(shown, picked, 1), strict=True)]
    return [
        f"Thirds of the classes by their size in the pool, at {max(rounds):,} labels; how much of each was picked, over its share of the pool. Accuracies in percent.",
        "",
        table(["strategy", *shares, *picked], rows),
    ]


PARTS: dict[str, Callable[[Rounds, Path], list[str]]] = {
    "ood": ood,
    "probe": probe,
    "separation": separation,
    "calibration": calibration,
    "discovery": discovery,
    "tail": tail,
}
"""Every part by the name of its task."""


def _compared(found: Found, value: str, scale: float = 100) -> tuple[str, dict[str, tuple[str, str]]]:
    """The same by a value of the evaluations; differences, and what could have been shown, the claim's rivals first."""
    numbers = {name: {seed: _number(line, value) for seed, line in seeds.items()} for name, seeds in found.items()}
    short, gaps = verdict(numbers, scale)
    return short, {name: (gap(one, scale), could_show(one, scale)) for name, (one, _) in gaps.items()}


def _shown_by(gaps: Mapping[str, tuple[str, str]]) -> str:
    """What so many seeds could have shown against the rivals of the claim."""
    return reach([size for name, (_, size) in gaps.items() if name in CLAIMED])


def _verdict(found: Found, value: str, scale: float = 100) -> str:
    """Both in a line."""
    short, gaps = _compared(found, value, scale)
    figures = ", ".join(f"{name} {one}" for name, (one, _) in gaps.items())
    sizes = _shown_by(gaps)
    could = f" So many seeds could have shown {sizes} against {joined_by_and([*CLAIMED])}." if sizes else ""
    return f"{short} ncal against {figures}.{could}" if figures else short


def alike(rows: Mapping[str, Iterable[Run]], digits: int = 3) -> tuple[dict[str, str], str]:
    """How alike the picks of a round are, by row of a table, over the rounds that all rows have; and which these are.

    Picks of later rounds are less alike or more, so only the same rounds of the same seeds are compared. A row has
    nothing where its strategy never had features.
    """
    found = {
        name: {
            (run.seed, line["round"]): line["redundancy"] for run in runs for line in run.lines if "redundancy" in line
        }
        for name, runs in rows.items()
    }
    both = set.intersection(*map(set, filter(None, found.values()))) if any(found.values()) else set()
    cells = {
        name: f"{np.mean([one[key] for key in sorted(both)]):.{digits}f}" if one and both else ""
        for name, one in found.items()
    }
    rounds = sorted({number for _, number in both})
    return cells, (f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else str(*rounds))


def _rounds(runs: list[Run], task: str) -> Rounds:
    """The task's evaluations by number of labels."""
    found: dict[int, Found] = {}
    order = list(dict.fromkeys(run.strategy for run in runs))
    for run in sorted(runs, key=lambda run: order.index(run.strategy)):  # a seed that is missing moves no row
        for line in _distances(run) if task == "separation" else read_evaluations(run):
            if line["task"] == task:
                found.setdefault(line["labelled"], {}).setdefault(run.strategy, {})[run.seed] = line
    return found


def _distances(run: Run) -> Iterable[Line]:
    """What the journal has on the class means of each training, as if it were evaluated: no model need be kept."""
    for line in run.trained:
        found = line.get("separation") or {}
        if not found.get("quantiles"):
            continue
        steps, norm = np.array(found["quantiles"]), found["norm"]
        distance = float(np.mean(steps[1:] + steps[:-1])) / 2  # between its twentieths taken as even
        values = {
            "distance": distance,
            "distance over length": distance / norm,
            "nearest distance over length": float(steps[0]) / norm,
            "cosine (CMA)": line["collapse"]["cma"],
        }
        yield {"task": "separation", "labelled": line["labelled"], "values": values, "quantiles": found["quantiles"]}


def _shown(rounds: Rounds) -> Found:
    """What the tables show of the last budget."""
    last = rounds[max(rounds)]
    return _common(last, last) or last


def _common(found: Found, names: Collection[str]) -> Found:
    """Of the seeds that ncal and the paper's rivals have, as far as they are among the names; of others who has all.

    Nothing, where there are no such seeds: means over other seeds would compare seeds, not strategies.
    """
    core = [set(found.get(name, ())) for name in ("ncal", *CLAIMED) if name in names]
    shared = sorted(set.intersection(*core)) if core else []
    whole = [name for name in names if shared and {*shared} <= {*found.get(name, ())}]
    return {name: {seed: found[name][seed] for seed in shared} for name in whole}


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
    differences = []
    for seed in sorted({seed for found in rounds.values() for seed in found.get("ncal", {})}):
        both = [b for b, found in rounds.items() if all(seed in found.get(name, {}) for name in ("ncal", "random"))]
        if both:
            curves = {name: _until(max(both), rounds, name, seed, value) for name in ("ncal", "random")}
            reached = min(max(accuracies) for accuracies, _ in curves.values())
            found = at_matched_accuracy(curves, reached).values
            differences.append(found["ncal"] - found["random"])
    known = [one for one in differences if np.isfinite(one)]
    if len(known) < FEWEST:
        return ""
    return f" At equal accuracy of the classifiers, ncal against random: {signed(estimate(np.array(known)), 100)}, {len(known)} seeds."


def _until(last: int, rounds: Rounds, name: str, seed: int, value: str) -> tuple[list[float], list[float]]:
    """Accuracy and a value of a run's rounds up to one, from where on every round was evaluated."""
    back = (rounds[b].get(name, {}).get(seed) for b in sorted(rounds, reverse=True) if b <= last)
    lines = [line for line in itertools.takewhile(bool, back) if line][::-1]
    return [line["accuracy"] for line in lines], [_number(line, value) for line in lines]


def _cell(numbers: list[float], scale: float = 100) -> str:
    if not numbers:
        return ""
    digits = digits_of(scale)
    found = estimate(np.array(numbers, np.float64))
    mean = f"{scale * float(found.mean):.{digits}f}"
    if len(numbers) < FEWEST or not np.isfinite(found.low):
        return mean
    return f"{mean} ± {scale * (float(found.high) - float(found.low)) / 2:.{digits}f}"
