"""Every table and figure, from the journals and measurements in results/: `make results`. No GPU, no data needed.

docs/results/*.md       a page an experiment: what the paper says, what we measured, a verdict
docs/results/*.svg      learning curves and differences
README.md, docs/*.md    the parts between marks: summaries of the study, and what the benchmarks measured (measured.py)
results/*.md            the benchmarks' tables
results/PLAN.md         what is done, what is missing, and about how many GPU minutes that takes
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]

import journals  # noqa: E402
import measured  # noqa: E402
from ablations import write_ablations  # noqa: E402
from beyond import claims  # noqa: E402
from curves_pages import MEANS, MISSING, PAGES_OF, areas_of, write_page  # noqa: E402
from journals import finished, slices_of  # noqa: E402
from marks import fill  # noqa: E402
from noise_study import plan as noise  # noqa: E402
from slices import epochs_of, longest  # noqa: E402
from study import EVALUATED, evaluations_of, evaluators, lost, plan  # noqa: E402
from together import write_together  # noqa: E402
from verdicts import (  # noqa: E402
    CLAIMED,
    FEWEST,
    corrected,
    could_show,
    gap,
    joined_by_and,
    paired,
    place,
    reach,
    stands,
    table,
    verdict,
    word,
)
from wrong_labels import ORACLES, TOLD, named, noise_runs, noise_summary, write_noise, wrong_picks  # noqa: E402

from ncalr.lab.runner import pairs, read_runs  # noqa: E402
from ncalr.lab.statistics import Difference  # noqa: E402
from ncalr.lab.tables import counted  # noqa: E402
from ncalr.learn.recipes import recipe  # noqa: E402

README = ROOT / "README.md"
HEAD = [
    "experiment",
    "the paper",
    "ncal at the end (95 %)",
    "random at the end (95 %)",
    "is ncal above random, coreset and cdal? By area",
    "at the end",
]
CLAIM_HEAD = ["the paper says", "measured", "could show", "verdict"]


def study_summary(rows: list[list[str]], together: str, beside: list[list[str]]) -> str:
    """The README's tables of what was measured of the paper, from the rows of the index, without the ends and figures."""
    known = [row for row in rows if row[2] != MISSING]
    missing = len(rows) - len(known)
    text = [
        table(["ncal against, by area", *_PLACES.values()], _counts()),
        "*Above* and *below*: a paired t-test at 5 %, corrected for the three; *level*: within a point; *not told apart*: all else."
        + (f" Not measured yet: {missing} of the study's experiments." if missing else ""),
        table([*HEAD[:5], "seeds"], [[*row[:5], _seeds(row[0])] for row in known]),
        together,
        table(["the paper also says", "here", "could have been shown"], [[one[0], one[3], one[2]] for one in beside]),
    ]
    return "\n\n".join(filter(None, text)).replace("](", "](docs/results/")


_PLACES = {
    "above": "above in",
    "level with": "level in",
    "not told apart from": "not told apart in",
    "below": "below in",
}


def _seeds(link: str) -> str:
    """How many seeds of ncal a page has."""
    page = next(page for page in PAGES_OF if page.title in link)
    return str(sum(run.strategy == "ncal" for run in finished(page.experiments)))


def _counts() -> list[list[str]]:
    """Where ncal stands to each rival of the claim, counted over the pages."""
    found = [verdict(areas_of(finished(page.experiments)))[1] for page in PAGES_OF]
    where = {name: Counter(one[name][1] for one in found if name in one) for name in CLAIMED}
    return [[name, *(str(counts[at]) for at in _PLACES)] for name, counts in where.items()]


def write_readme(rows: list[list[str]], together: str, beside: list[list[str]]) -> None:
    """Put the summaries between their marks."""
    fill(README, "study", study_summary(rows, together, beside))
    fill(README, "wrong labels", noise_summary())


def claims_of_curves() -> list[list[str]]:
    """What the paper says beside its main comparison of what accuracies and picks can show, as far as it was measured."""
    rows = []
    areas = areas_of([run for run in finished(("cifar10", "cifar10-rest")) if "ncal(" not in run.strategy])
    told = (*CLAIMED, "ncal")
    if all(len(areas.get(name, {})) >= FEWEST for name in ("sisome", *told)):
        less = paired(areas, {name: sorted({*areas["sisome"]} & {*areas[name]}) for name in told}, "sisome")
        places = [place(one) for one in less.values()]
        held = word([{"above": "below", "below": "above"}.get(one, one) for one in places])
        steep = recipe(plan()["cifar10-rest"].recipe).steepness[0]
        rows.append(
            [
                "SISOMe does significantly worse than both standard baselines and NCAL",
                f"CIFAR-10, sigmoids of steepness {steep:g}, areas of sisome less {_gaps(less)}",
                reach([could_show(one) for one in less.values()]),
                f"{held}: sisome is {_stands(less)}.",
            ]
        )
    page = next(page for page in PAGES_OF if page.name == "digits_wrong")
    short, leads = verdict(areas_of(finished(page.experiments)))
    if leads:
        rivals = {name: leads[name][0] for name in CLAIMED if name in leads}
        rows.append(
            [
                "Improved robustness to synthetic label noise (without an experiment)",
                f"[{page.title}]({page.name}.md): areas of ncal less {_gaps(rivals)}",
                reach([could_show(one) for one in rivals.values()]),
                short,
            ]
        )
    return rows + [row for training in TOLD for row in _claims_of_noise(training)]


HEURISTICS = ("margin", "badge")
"""Uncertainty, and uncertainty with diversity: what was run with the worst labels."""


def _claims_of_noise(training: str) -> list[list[str]]:
    """What the paper says of wrong labels: that others pick more of them, and that NCAL-R mitigates what they do."""
    names = named("worst", training)
    picks = {name: wrong_picks(names, name) for name in ("random", *HEURISTICS, "ncal")}
    areas = areas_of([run for run in noise_runs(names) if run.ended])
    told = ("random", *HEURISTICS)
    if not all(len(found.get(name, {})) >= FEWEST for found in (picks, areas) for name in (*told, "ncal")):
        return []
    which = (*HEURISTICS, "ncal")
    more = [paired(picks, {"random": sorted(picks[name])}, name)["random"] for name in which]
    amplified = dict(zip(which, corrected(more), strict=True))
    held = word([place(amplified[name]) for name in HEURISTICS])
    less = paired(areas, {name: sorted(areas["ncal"]) for name in told})
    where = ORACLES["worst"][0]
    shares = ", ".join(f"{name} {100 * np.mean([*found.values()]):.1f} %" for name, found in picks.items())
    apart = {name: place(one) for name, one in amplified.items()}
    said = "; ".join(
        f"those of {joined_by_and([name for name in which if apart[name] == at])} {words}"
        for at, words in (
            ("above", "are wrong more often than random's"),
            ("below", "are wrong less often than random's"),
            ("level with", "as often as random's"),
            ("not told apart from", "could not be told from random's"),
        )
        if at in apart.values()
    )
    return [
        [
            f"Uncertainty and diversity often amplify wrong labels by picking them ({TOLD[training]})",
            f"{where}, wrong among the picks: {shares}; more than random's, in points: {_gaps(amplified)}",
            reach([could_show(one) for one in more]),
            f"{held}: of the picks {said}.",
        ],
        [
            f"NCAL-R mitigates the effect of wrong labels ({TOLD[training]})",
            f"{where}, areas of ncal less {_gaps(less)}",
            reach([could_show(one) for one in less.values()]),
            f"{word([place(one) for one in less.values()])}: ncal is {_stands(less)}.",
        ],
    ]


def _gaps(found: dict[str, Difference]) -> str:
    return ", ".join(f"{name} {gap(one)}" for name, one in found.items())


def _stands(found: dict[str, Difference]) -> str:
    return stands({name: (one, place(one)) for name, one in found.items()})


def claims_of_evaluations() -> list[list[str]]:
    """Rows on what the paper says of the evaluations, page by page."""
    rows = []
    for page in PAGES_OF:
        found = [row for task in page.beyond for row in claims(task, finished(page.experiments))]
        rows += [[words, f"[{page.title}]({page.name}.md): {told}", *more] for words, told, *more in found]
    return rows


def write_plan() -> None:
    """What is missing, in GPU minutes."""
    noted = [one for one in slices_of() if "images" in one and one["gpu"]]
    pace = sum(one["images"] for one in noted) / sum(one["seconds"] for one in noted)
    lines = [
        "# The study's plan",
        "",
        "Made by `make results`. Trainings done and missing, in the order in which they are wanted. Minutes are estimated from the images still to be",
        f"trained on at {pace:,.0f} a second (measured over whole slices on one H200, six runs side by side, prediction and scoring included). A",
        "first training that several strategies share is counted for each; its minutes are once.",
        "",
        "| experiment | strategies | seeds | trainings done | missing | GPU minutes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    total = 0.0
    everything = [(journals.STUDY, name, one) for name, one in plan().items()]
    everything += [(journals.NOISE, name, one) for name, one in noise().items()]
    for home, name, experiment in everything:
        budgets = experiment.budgets
        runs = read_runs(home / name) if (home / name / "experiment.json").exists() else []
        done = sum(len(run.accuracies) for run in runs)
        wanted = len(experiment.strategies) * experiment.seeds
        reached = {(run.strategy, run.seed, budget) for run in runs for budget, _ in run.accuracies}
        left = {  # the first training of a seed is shared
            (strategy if budget > experiment.start else "", seed, budget)
            for strategy, seed in pairs(experiment)
            for budget in budgets
            if (strategy, seed, budget) not in reached
        }
        minutes = longest(experiment.recipe) * sum(budget for _, _, budget in left) / pace / 60
        total += minutes
        cells = [name, str(len(experiment.strategies)), str(experiment.seeds), str(done)]
        lines.append("| " + " | ".join([*cells, str(wanted * len(budgets) - done), f"{minutes:.0f}"]) + " |")
    lines += [
        "",
        f"About {total:.0f} minutes in all. Not in the table: evaluations of the models, beside and behind the training that makes them (models evaluated, of those that there will be: "
        + ", ".join(
            f"{task} of {name} {done} of {wanted}" for name, task, done, wanted in evaluations_of(journals.STUDY)
        )
        + f"){_again(pace)}.",
        "",
        "A slice: `python3 benchmarks/study.py run --evaluate --data ROOT --out DIR --minutes 9`, beginning from a copy of `results/study`; then `study.py keep --out DIR` and",
        "`make results`.",
        "",
    ]
    (ROOT / "results" / "PLAN.md").write_text("\n".join(lines))


def _again(pace: float) -> str:
    """A word on models that went with their machine before all evaluations had seen them."""
    gone = lost(journals.STUDY, evaluators(ROOT, journals.STUDY), dict.fromkeys(EVALUATED, ()))
    counts = ", ".join(f"{len(places)} of {name}" for name, places in gone.items() if places)
    lines = [(plan()[name].recipe, run.lines[number]) for name, places in gone.items() for run, number in places]
    images = sum(epochs_of(recipe, line) * line["labelled"] for recipe, line in lines)
    return (
        f", and models that are trained again for them ({counts}: {counted(max(round(images / pace / 60), 1), 'minute')})"
        if lines
        else ""
    )


def write_speed() -> str:
    """GPU time of what was measured, from the slices."""
    slices = [one for one in slices_of() if one["gpu"]]
    seconds = sum(one["seconds"] for one in slices)
    trainings = sum(one["trainings"] for one in slices)
    return f"{trainings} trainings whose time was noted took {seconds / 60:.1f} GPU minutes of one H200."


def main() -> None:
    """Write everything."""
    journals.PAGES.mkdir(parents=True, exist_ok=True)
    rows = [write_page(page) for page in PAGES_OF]
    pages_of = {page.experiments[0]: page.name for page in PAGES_OF}
    together = write_together(journals.STUDY, journals.PAGES, pages_of)
    beside = [*claims_of_curves(), *claims_of_evaluations()]
    text = [
        "# Results",
        "The paper's experiments on real data, and what holds of them. Made by `make results` from the journals in `results/study` and `results/noise`.",
        MEANS,
        table(HEAD, rows),
        "The intervals are of each strategy alone; verdicts compare them paired by seed, which sees smaller differences.",
        *(f"* {one}" for one in (together, write_ablations(), write_noise()) if one),
        "What the paper says beside its main comparison; differences in points and corrected where several are compared, as above:",
        table(CLAIM_HEAD, beside),
        "What a strategy costs, in passes over the pool and in GPU time, stands in the first table of each page. What is evaluated beyond accuracy are models of the same runs, so it costs the same.",
        f"{write_speed()} One that several strategies share counts for each. What is missing stands in `results/PLAN.md`.",
    ]
    (journals.PAGES / "index.md").write_text("\n\n".join(text) + "\n")
    write_plan()
    write_readme(rows, together, beside)
    measured.write()


if __name__ == "__main__":
    main()
