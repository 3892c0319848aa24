"""Every table and figure of the study, from the journals in results/study: `make results`. No GPU, no data needed.

docs/results/*.md       a page an experiment: what the paper says, what we measured, a verdict
docs/results/*.svg      learning curves and differences
results/PLAN.md         what is done, what is missing, and about how many GPU minutes that takes
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from noise_study import plan as noise  # noqa: E402
from noise_study import table as audit_table  # noqa: E402
from study import plan  # noqa: E402

from ncalr.lab import plots  # noqa: E402
from ncalr.lab.report import curves_of, named_runs, result_rows  # noqa: E402
from ncalr.lab.runner import Run, read_runs  # noqa: E402
from ncalr.lab.statistics import summary  # noqa: E402
from ncalr.learn.recipes import recipe  # noqa: E402

STUDY, NOISE, PAGES = ROOT / "results" / "study", ROOT / "results" / "noise", ROOT / "docs" / "results"
IMAGES_A_SECOND = 62_000  # measured over whole slices, prediction and scoring included


@dataclass(frozen=True)
class Page:
    """A page of results: some experiments of the plan on the same data."""

    name: str
    title: str
    experiments: tuple[str, ...]
    paper: str


PAGES_OF = (
    Page(
        "cifar10",
        "CIFAR-10, 1,000 to 10,000 labels",
        ("cifar10", "cifar10-rest", "cifar10-variants"),
        "The paper shows CIFAR-10 in a figure only, without numbers: NCAL above Random, Coreset and CDAL from 2 to 20 % of the "
        "labels, 90 % with all of them. Our full-data accuracy with the same recipe is 94.9 %, so our curves lie higher.",
    ),
    Page(
        "cifar100",
        "CIFAR-100, 5,000 to 22,500 labels",
        ("cifar100",),
        "A figure without numbers: NCAL above Random, Coreset and CDAL from 10 to 45 %; 70.75 % with all labels.",
    ),
    Page(
        "mini_imagenet",
        "mini-ImageNet at 64 pixels, the stand-in for ImageNet-100",
        ("mini_imagenet",),
        "ImageNet-100 at 40 %: NCAL 72.11, Random 69.51, CDAL 69.09, Coreset 68.65; 79.16 with all labels. Other classes and "
        "larger images than here: only the order of the strategies can be compared.",
    ),
)


def runs_of(page: Page) -> list[Run]:
    """The finished runs of a page's experiments."""
    found = [run for name in page.experiments if (STUDY / name).is_dir() for run in read_runs(STUDY / name)]
    return [run for run in found if run.lines and run.lines[-1].get("stop")]


def write_page(page: Page) -> str:
    """A page, its figures, and its line in the summary."""
    runs = runs_of(page)
    head = f"# {page.title}\n\nMade by `make results` from `results/study`; not to be edited by hand.\n\n"
    head += f"**The paper.** {page.paper}\n\n"
    if not runs:
        (PAGES / f"{page.name}.md").write_text(head + "**Ours.** No run has finished yet; see `results/PLAN.md`.\n")
        return f"| {page.title} | not measured yet | | |"
    curves, _ = curves_of(runs)
    found = summary(curves, np.random.default_rng(0))
    seeds = {run.strategy: sum(r.strategy == run.strategy for r in runs) for run in runs}
    (PAGES / f"{page.name}_curves.svg").write_text(plots.learning_curves(found))
    few = min(seeds.values())
    text = (
        head
        + f"**Ours.** ResNet-18, recipe `{_recipe(page)}`, the same initial pools for all strategies of a seed.\n\n"
    )
    text += _table(*_columns(found, runs, seeds)) + "\n"
    text += f"\n![Learning curves](./{page.name}_curves.svg)\n"
    if few > 1 and found.get("to_random"):
        (PAGES / f"{page.name}_differences.svg").write_text(plots.differences(found))
        text += f"\n![Difference to random, paired by seed](./{page.name}_differences.svg)\n"
    budgets = [int(b) for b in found["budgets"]]
    rows = [[name, *_budget_cells(found, name)] for name in found["strategies"]]
    text += "\nMean accuracy at every budget:\n\n" + _table(["strategy", *(f"{b:,}" for b in budgets)], rows)
    verdict = _verdict(found, few)
    text += f"\n\n**Verdict.** {verdict}\n"
    (PAGES / f"{page.name}.md").write_text(text)
    return f"| [{page.title}]({page.name}.md) | {_last(found, 'ncal')} | {_last(found, 'random')} | {verdict} |"


def _columns(found: dict[str, Any], runs: list[Run], seeds: dict[str, int]) -> tuple[list[str], list[list[str]]]:
    head, rows = result_rows(found)
    best = found.get("to_best_rival") or {}
    head = [*head, "against the best rival", "seeds", "s of scoring a round"]
    for row in rows:
        name = row[0]
        against = best.get(name)
        gap = ""
        if against and against.get("aubc") and against["aubc"]["mean"] is not None:
            gap = f"{100 * against['aubc']['mean']:+.1f} to {against['rival']}"
        scoring = [
            line["seconds"]["round"]
            for run in runs
            if run.strategy == name
            for line in run.lines
            if line.get("seconds")
        ]
        row += [gap, str(seeds[name]), f"{np.median(scoring):.2f}"]
    return head, rows


def _budget_cells(found: dict[str, Any], name: str) -> list[str]:
    return ["" if value is None else f"{100 * value:.1f}" for value in found["accuracy"][name]["mean"]]


def _last(found: dict[str, Any], name: str) -> str:
    if name not in found["accuracy"]:
        return ""
    value = found["accuracy"][name]["mean"][-1]
    return "" if value is None else f"{100 * value:.1f} %"


def _verdict(found: dict[str, Any], seeds: int) -> str:
    """Plain words about the paper's claim that ncal is above its rivals."""
    if seeds < 3 or "ncal" not in found["strategies"]:
        return f"Too early: {seeds} of 3 seeds are finished."
    area = {name: values["mean"] for name, values in found["aubc"].items() if "ncal(" not in name}
    over_random = found["to_random"]["ncal"]["aubc"]
    better = over_random["low"] is not None and over_random["low"] > 0
    above = [name for name, value in area.items() if value > area["ncal"]]
    if not better:
        return "Does not hold: no reliable gain over random."
    if above:
        return f"Holds in part: above random, not above {', '.join(above)}."
    return "Holds: above random and above every rival measured."


def _recipe(page: Page) -> str:
    return str(plan()[page.experiments[0]].recipe)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


ORACLES = {
    "people": "the three annotators of each image; the n-th question about it goes to the n-th of them (17 to 18 % of the answers are wrong)",
    "worst": "the worst label of each image, 40.2 % of them wrong, one answer an item",
}
TOLD = {"plain": "cross-entropy", "elr": "early-learning regularisation"}


def write_noise() -> str:
    """The page on wrong labels, its figures, and its line in the summary."""
    text = [
        "# Human wrong labels (CIFAR-10N)",
        "",
        "Made by `make results` from `results/noise`; not to be edited by hand. The paper's abstract claims reliability under wrong labels; its text shows no experiment.",
        "ResNet-18, `strong(epochs=100)`, accuracy on the clean test set, mean over the seeds that have got so far.",
    ]
    finished = 0
    for kind, about in ORACLES.items():
        for training, loss in TOLD.items():
            names = [name for name in noise() if name.startswith(f"{kind}-") and name.endswith(f"-{training}")]
            begun = [name for name in names if (NOISE / name / "experiment.json").exists()]
            runs = [run for name in begun for run in named_runs(NOISE / name, noise()[name]) if run.accuracies]
            if not runs:
                continue
            finished += sum(bool(run.lines[-1].get("stop")) for run in runs)
            curves, _ = curves_of(runs)
            found = summary(curves, np.random.default_rng(0))
            (PAGES / f"noise_{kind}_{training}.svg").write_text(plots.learning_curves(found))
            ends = {name: int(np.isfinite(rows[:, -1]).sum()) for name, rows in curves.accuracies.items()}
            rows = [[name, *_budget_cells(found, name), str(ends[name])] for name in found["strategies"]]
            head = ["asked", *(f"{int(b):,}" for b in found["budgets"]), "seeds to the end"]
            text += ["", f"## Oracle: {about}; trained with {loss}", "", _table(head, rows)]
            text += ["", f"![Accuracy by answers](./noise_{kind}_{training}.svg)"]
    if (NOISE / "audit.jsonl").exists():
        text += [
            "",
            "## Which labels are wrong? The audit on all 50,000 labels",
            "",
            "AUROC and average precision of finding the wrong labels. *ours*: geometry of networks cross-fitted with the noise-tolerant loss, and what one network",
            "trained with it on all labels refuses to learn; plain *self-confidence* and",
            "*normalised margin*: confident learning's scores on networks cross-fitted with cross-entropy, *cleanlab*: by that library on the same probabilities; AUM and loss: one",
            "network trained on all labels with cross-entropy. 30 epochs each; standard deviation over the seeds.",
            "",
            audit_table(NOISE),
        ]
    wanted = sum(len(one.strategies) * one.seeds for one in noise().values())
    (PAGES / "noise.md").write_text("\n".join([*text, ""]))
    return f"| [Human wrong labels, CIFAR-10N](noise.md) | | | {finished} of {wanted} runs are finished. |"


def write_plan() -> None:
    """What is missing, in GPU minutes."""
    lines = [
        "# The study's plan",
        "",
        "Made by `make results`. Trainings done and missing, in the order in which they are wanted. Minutes are estimated from the images still to be",
        f"trained on at {IMAGES_A_SECOND:,} a second (measured over whole slices on one H200, six runs side by side).",
        "",
        "| experiment | strategies | seeds | trainings done | missing | GPU minutes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    total = 0.0
    everything = [(STUDY, name, one) for name, one in plan().items()] + [
        (NOISE, name, one) for name, one in noise().items()
    ]
    for home, name, experiment in everything:
        budgets = experiment.budgets
        runs = read_runs(home / name) if (home / name / "experiment.json").exists() else []
        done = sum(len(run.accuracies) for run in runs)
        wanted = len(experiment.strategies) * experiment.seeds
        images = recipe(experiment.recipe).epochs * (
            wanted * sum(budgets) - sum(labels for run in runs for labels, _ in run.accuracies)
        )
        minutes = images / IMAGES_A_SECOND / 60
        total += minutes
        cells = [name, str(len(experiment.strategies)), str(experiment.seeds), str(done)]
        lines.append("| " + " | ".join([*cells, str(wanted * len(budgets) - done), f"{minutes:.0f}"]) + " |")
    lines += [
        "",
        f"About {total:.0f} minutes in all. Not in the table: OOD, probe, discovery and separation on the models of mini-ImageNet (`ncalr evaluate`, some 10",
        "minutes), and the audit's missing parts (`noise_study.py status`, some 3 minutes a seed).",
        "",
        "A slice: `python3 benchmarks/study.py run --data ROOT --out DIR --minutes 9`, beginning from a copy of `results/study`; then `study.py keep --out DIR` and",
        "`make results`.",
        "",
    ]
    (ROOT / "results" / "PLAN.md").write_text("\n".join(lines))


def write_speed() -> str:
    """GPU time of what was measured, from the slices."""
    lines = (STUDY / "slices.jsonl").read_text().splitlines() if (STUDY / "slices.jsonl").exists() else []
    slices = [json.loads(line) for line in lines]
    seconds = sum(one["seconds"] for one in slices)
    trainings = sum(one["trainings"] for one in slices)
    return f"{trainings} trainings in {seconds / 60:.1f} GPU minutes so far ({len(slices)} slices on one H200)."


def main() -> None:
    """Write everything."""
    PAGES.mkdir(parents=True, exist_ok=True)
    rows = [*(write_page(page) for page in PAGES_OF), write_noise()]
    text = [
        "# Results",
        "",
        "The paper's experiments on real data, and what holds of them. Made by `make results` from the journals in `results/study` and `results/noise`.",
        "",
        "| experiment | ncal | random | the paper's claim |",
        "| --- | --- | --- | --- |",
        *rows,
        "",
        f"{write_speed()} What is missing stands in `results/PLAN.md`.",
        "",
    ]
    (PAGES / "index.md").write_text("\n".join(text))
    write_plan()


if __name__ == "__main__":
    main()
