"""Every table and figure, from the journals and measurements in results/: `make results`. No GPU, no data needed.

docs/results/*.md       a page an experiment: what the paper says, what we measured, a verdict
docs/results/*.svg      learning curves and differences
README.md, docs/*.md    the parts between marks: summaries of the study, and what the benchmarks measured (measured.py)
results/*.md            the benchmarks' tables
results/PLAN.md         what is done, what is missing, and about how many GPU minutes that takes
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import measured  # noqa: E402
from beyond import (  # noqa: E402
    CLAIMED,
    NEAR,
    alike,
    claims,
    could_show,
    gap,
    joined_by_and,
    part,
    place,
    signed,
    stands,
    table,
    verdict,
)
from marks import fill  # noqa: E402
from measured import with_all  # noqa: E402
from noise_study import FOLDS, STEP, runs_of, tried  # noqa: E402
from noise_study import plan as noise  # noqa: E402
from noise_study import table as audit_table  # noqa: E402
from slices import epochs_of, longest  # noqa: E402
from study import ABLATIONS, EVALUATED, SPREAD, TRAINERS, VARIANTS, evaluations_of, evaluators, lost, plan, small_sets  # noqa: E402
from together import write_together  # noqa: E402

from ncalr.lab import plots  # noqa: E402
from ncalr.lab.comparison import first_gap, passes_of  # noqa: E402
from ncalr.lab.evaluations import TITLES  # noqa: E402
from ncalr.lab.report import curves_of, result_rows  # noqa: E402
from ncalr.lab.runner import Run, pairs, read_runs  # noqa: E402
from ncalr.lab.statistics import Curves, Difference, Estimate, against_each, aubc, estimate, holm, plain, summary  # noqa: E402
from ncalr.lab.tables import counted, p_value  # noqa: E402
from ncalr.learn.learner import needs_of  # noqa: E402
from ncalr.learn.recipes import recipe  # noqa: E402

STUDY, NOISE, PAGES = ROOT / "results" / "study", ROOT / "results" / "noise", ROOT / "docs" / "results"
README = ROOT / "README.md"


@dataclass(frozen=True)
class Page:
    """A page of results: some experiments of the plan on the same data."""

    name: str
    title: str
    experiments: tuple[str, ...]
    paper: str
    figures: Mapping[str, float] = field(default_factory=dict)
    """The paper's accuracies at the end, where it gives any."""
    end: str = ""
    """What its end is."""
    beyond: tuple[str, ...] = ()
    """Parts of the page about the evaluations of its runs."""


SMALL_PAGE = "Not in the paper. A small set, a small network, and more seeds than there is time for with the large ones; on a processor, so that anybody can do it again."

NOISE_CLAIM = "Improved robustness under synthetic label noise"
MISSING = "not measured yet"

PAGES_OF = (
    Page(
        "cifar10",
        "CIFAR-10, 1,000 to 10,000 labels",
        ("cifar10", "cifar10-rest", "cifar10-variants", "cifar10-five"),
        "A figure without numbers, from 2 to 20 % of the labels, and not in the source that we have; 90 % with all of them. Its caption calls NCAL good at lower budgets too; the "
        f"abstract's claim to be above the baselines does not name CIFAR-10. Ours has {with_all('cifar10'):.2f} % with all of them (`strong(epochs=100)`), so our curves lie higher.",
    ),
    Page(
        "cifar100",
        "CIFAR-100, 5,000 to 22,500 labels",
        ("cifar100", "cifar100-five"),
        "A figure without numbers, from 10 to 45 % of the labels, and not in the source that we have. The abstract says that NCAL-R consistently outperforms standard baselines on CIFAR-100 and "
        f"ImageNet-100. 70.75 % with all labels, ours {with_all('cifar100'):.2f} % (`strong(epochs=100)`).",
    ),
    Page(
        "mini_imagenet",
        "mini-ImageNet at 64 pixels, the stand-in for ImageNet-100",
        ("mini_imagenet", "mini_imagenet-spread"),
        "ImageNet-100 at 40 %: NCAL 72.11, Random 69.51, CDAL 69.09, Coreset 68.65; 79.16 with all labels. Ours are 10 to 40 % "
        "of 50,000 images, of other classes and smaller: only the order of the strategies can be compared.",
        {"random": 69.51, "coreset": 68.65, "cdal": 69.09, "ncal": 72.11},
        "accuracy at 40 % of ImageNet-100",
        ("ood", "probe", "separation", "calibration"),
    ),
    Page(
        "discovery",
        "mini-ImageNet, 60 known classes",
        ("mini_imagenet-known",),
        "A table of category discovery, by its text with a split of 60 to 40, without data or budget: what can be reconstructed of it stands in [evaluations](../evaluations.md#category-discovery). Clustering "
        "accuracy of NCAL 23.05 % on novel classes and 51.95 % on known ones, CDAL 20.96 and 49.96, Random 20.35 and 50.34, Coreset 18.92 and 49.98. It shows no learning curves; ours on the known classes come "
        "first, discovery at the end.",
        beyond=("discovery",),
    ),
    Page(
        "mini_imagenet_tail",
        "mini-ImageNet with a long tail, 2,000 to 8,000 labels",
        ("mini_imagenet-tail",),
        "ImageNet-100 with exponential counts (beta = 0.05, 41,454 images), at 16,000 labels: NCAL 45.15, Random 42.30, Coreset 42.06, CDAL 41.94. Ours has 15,907 "
        "images by the same rule, of other classes and smaller: only the order of the strategies can be compared.",
        {"random": 42.30, "coreset": 42.06, "cdal": 41.94, "ncal": 45.15},
        "accuracy at 16,000 labels of ImageNet-100",
        ("tail",),
    ),
    Page(
        "cifar100_tail",
        "CIFAR-100 with a long tail, 2,000 to 8,000 labels",
        ("cifar100-tail",),
        "Not in the paper; the same counts as for mini-ImageNet.",
        beyond=("tail",),
    ),
    Page("digits", "Handwritten digits, 40 to 200 labels", ("digits", "digits-variants"), SMALL_PAGE),
    Page(
        "digits_wrong",
        "Digits, three labels in ten replaced at random",
        ("digits-wrong", "digits-wrong-variants"),
        f"{NOISE_CLAIM}: so says the abstract, and the paper has no experiment. {SMALL_PAGE.removeprefix('Not in the paper. ')}",
    ),
    Page("digits_tail", "Digits with a long tail (beta = 0.1)", ("digits-tail", "digits-tail-variants"), SMALL_PAGE),
    Page("sst2", "Sentences (SST-2), words as vectors, 100 to 1,000 labels", ("sst2", "sst2-variants"), SMALL_PAGE),
)


def begun(experiments: Iterable[str]) -> list[Run]:
    """The runs of some experiments, as far as they went."""
    return [run for name in experiments if (STUDY / name).is_dir() for run in read_runs(STUDY / name)]


def finished(experiments: Iterable[str]) -> list[Run]:
    """The finished runs of some experiments."""
    return [run for run in begun(experiments) if run.ended]


def spent(experiments: Iterable[str]) -> str:
    """What the trainings of some experiments took, from the slices; a whole run by the last one that noted images."""
    mine = {name: one for name, one in plan().items() if name in set(experiments)}
    slices = [one for one in _slices() if one["experiment"] in mine]
    seconds, trainings = sum(one["seconds"] for one in slices), sum(one["trainings"] for one in slices)
    if not trainings:
        return ""
    done = sum(len(run.accuracies) for run in begun(mine))
    which = (
        f"{done} trainings" if trainings == done else f"{trainings} of {done} trainings, those whose time was noted,"
    )
    if not slices[0]["gpu"]:
        return f"{which} took {seconds / 60:.1f} minutes by the clock on one core that had other work too, scoring included."
    text = f"{which} took {seconds / 60:.1f} minutes of one H200, scoring included, several runs side by side."
    first = next(iter(mine.values()))
    whole = longest(first.recipe) * sum(first.budgets)
    noted = [one for one in slices if one.get("images", 0) > whole]  # a few trainings do not fill the card
    if not noted:
        return f"{text} GPU seconds of a run: its scoring, and its training over the number of runs side by side."
    pace = noted[-1]["images"] / noted[-1]["seconds"]
    return (
        f"{text} The last large slice: {pace:,.0f} images a second, so {whole / pace:.0f} s for the {len(first.budgets)} rounds of a run. GPU seconds of a run: its scoring, and "
        "its training over the number of runs side by side."
    )


def write_page(page: Page) -> list[str]:
    """A page, its figures, and its row of the summary."""
    runs = finished(page.experiments)
    head = f"# {page.title}\n\nMade by `make results` from `results/study`; not to be edited by hand.\n\n"
    head += f"**The paper.** {page.paper}\n\n"
    own = OWN_PARTS[page.name]() if page.name in OWN_PARTS else ""
    known = dict.fromkeys(run.strategy for run in begun(page.experiments))
    seeds = {name: sum(run.strategy == name for run in runs) for name in known}
    behind = {name: count for name, count in seeds.items() if count < min(3, max(seeds.values()))}
    if (
        seeds.get("ncal", 0) < 2 or "ncal" in behind
    ):  # nothing is said of the others before they can be compared with it
        some = _so_far(page)
        many = f"{len(runs)} runs have finished, too few of ncal" if runs else "No run has finished yet"
        text = f"{head}**Ours.** {many}; see `results/PLAN.md`.\n{some}{own}"
        (PAGES / f"{page.name}.md").write_text(text)
        for figure in ("curves", "differences", "forest", "separation"):
            (PAGES / f"{page.name}_{figure}.svg").unlink(missing_ok=True)
        return [f"[{page.title}]({page.name}.md)", "begun", "", "", ""] if some else [page.title, MISSING, "", "", ""]
    runs = [run for run in runs if run.strategy not in behind]
    curves, _ = curves_of(runs)
    found = summary(curves)
    (PAGES / f"{page.name}_curves.svg").write_text(plots.learning_curves(found))
    text = f"{head}**Ours.** {_network(page)}, recipe `{_recipe(page)}`{_sizes(page)}, the same initial pools for all strategies of a seed. {_phase(runs)}\n\n"
    if seeds.keys() & {"sisom", "sisome"}:
        text += f"SISOM's sigmoids have the steepness {list(recipe(_recipe(page)).steepness)}, last layer first; its authors' values are in [learning](../learning.md#recipes).\n\n"
    short, gaps = verdict(_areas(runs))
    at_the_end, _ = verdict(_lasts(runs))
    text += f"**Verdict.** By area: {_begun_small(short)} At the end: {_begun_small(at_the_end)}"
    if gaps:
        ends = _at_the_end(runs)
        rows = [
            [name, gap(one), could_show(one), p_value(float(one.aubc.p_holm)), where.rsplit(" ", 1)[0], ends[name]]
            for name, (one, where) in gaps.items()
        ]
        head = ["ncal against", "area: ncal less it", "could show", "p (Holm)", "ncal is, by area", "at the end"]
        text += f"\n\n{table(head, rows)}\n\n{MEANS}"
        (PAGES / f"{page.name}_forest.svg").write_text(_forest(gaps))
        text += f"\n\n![ncal against each](./{page.name}_forest.svg)"
    noted = [one for one in _slices() if one["experiment"] in page.experiments]
    columns = _columns(found, runs, _recipe(page), noted, page.figures, page.end)
    text += f"\n\n{table(*columns)}\n\n{COLUMNS}\n"
    if behind:
        waiting = ", ".join(f"{name} ({count})" for name, count in behind.items())
        text += f"\nNot shown, since too few of their seeds are finished (their number in brackets): {waiting}.\n"
    text += f"\n{spent(page.experiments)}\n"
    text += f"\n![Learning curves](./{page.name}_curves.svg)\n\n{DRAWN}\n"
    if curves.seeds > 1 and found.get("to_random"):
        (PAGES / f"{page.name}_differences.svg").write_text(plots.differences(found))
        text += f"\n![Difference to random, paired by seed](./{page.name}_differences.svg)\n"
    budgets = [int(b) for b in found["budgets"]]
    rows = [[name, *_budget_cells(found, name)] for name in found["strategies"]]
    text += f"\n{AT_EVERY} budget:\n\n" + table(["strategy", *(f"{b:,}" for b in budgets)], rows)
    text += f"\n{_chance(runs)}{own}"
    parts = [part(name, runs, PAGES) or f"## {TITLES[name]}\n\nNot evaluated yet." for name in page.beyond]
    text += "".join(f"\n{text}\n" for text in parts)
    (PAGES / f"{page.name}.md").write_text(text)
    return [
        f"[{page.title}]({page.name}.md)",
        *(_last(found, name, True) for name in ("ncal", "random")),
        short,
        at_the_end,
    ]


def _so_far(page: Page) -> str:
    """Accuracies of runs that have not finished, where there are any."""
    runs = begun(page.experiments)
    seeds = {run.seed for run in runs}
    reached = {(run.strategy, run.seed, labels): 100 * found for run in runs for labels, found in run.accuracies}
    strategies = list(dict.fromkeys(run.strategy for run in runs))
    common = {  # a mean of more seeds in one row than in the next would compare seeds, not strategies
        labels: [seed for seed in seeds if all((name, seed, labels) in reached for name in strategies)]
        for labels in sorted({labels for _, _, labels in reached})
    }
    common = {labels: found for labels, found in common.items() if found}
    if not common:
        return ""
    rows = [
        [name, *(f"{np.mean([reached[name, seed, labels] for seed in found]):.1f}" for labels, found in common.items())]
        for name in strategies
    ]
    head = ["strategy", *(f"{labels:,} ({len(found)})" for labels, found in common.items())]
    text = f"Recipe `{_recipe(page)}`. So far, mean accuracy in percent over the seeds that all have, their number in brackets; no verdict before ncal has finished as many seeds as the others:"
    return f"\n{text}\n\n{table(head, rows)}\n\n{spent(page.experiments)}\n"


def _trainers() -> str:
    """What faster recipes cost in accuracy, before the study takes one."""
    names = {text: f"cifar100-trainer-{name}" for name, text in TRAINERS.items()} | {
        plan()["cifar100"].recipe: "cifar100"
    }
    found: dict[str, dict[tuple[int, int], float]] = {}
    for text, name in names.items():
        same = 1 if name == "cifar100" else None  # later rounds of other sizes have other labels
        mine = [(run, *one) for run in begun([name]) if run.strategy == "random" for one in run.accuracies[:same]]
        found[text] = {(labels, run.seed): 100 * accuracy for run, labels, accuracy in mine}
    usual, large = found[TRAINERS["usual"]], found[TRAINERS["batch-256"]]
    budgets = sorted({labels for labels, _ in usual})
    if not budgets:
        return ""
    rows = []
    for text, mine in found.items():
        cells = [f"`{text}`", str(longest(text))]
        for labels in budgets:
            seeds = [seed for at, seed in mine if at == labels]
            cells.append(f"{np.mean([mine[labels, seed] for seed in seeds]):.1f} ({len(seeds)})" if seeds else "")
            cells.append(_apart(mine, usual, labels))
        rows.append(cells)
    shorter = found[TRAINERS["stop"]]
    ending = "; ".join(f"{_apart(shorter, large, labels) or 'not measured'} at {labels:,} labels" for labels in budgets)
    head = itertools.chain.from_iterable((f"{labels:,} labels (seeds)", "less the first") for labels in budgets)
    return (
        "\n## The recipe\n\nTwo ways to train faster were tried first, with random labels: batches of 256 at twice the rate, and beside them the end of the training as soon as the checkpoint "
        f"window is full (`stop`: at most {longest(plan()['cifar100'].recipe)} epochs instead of 100). Then the study took `stop` alone, the last row: its figures are of the study's own first "
        "round, in another process than the rows above, and such figures differ by themselves. Paired by seed, in points, with 95 % intervals, each alone and not corrected:\n\n"
        f"{table(['recipe', 'epochs', *head], rows)}\n\nIn one process, what `stop` does with batches of 256: {ending}. Not measured: `stop` with other strategies than random, with more labels, "
        "on other data. It also moves ncal's checkpoints: one an epoch at one rate, where the others are spread over two.\n"
    )


def _apart(mine: Mapping[tuple[int, int], float], other: Mapping[tuple[int, int], float], labels: int) -> str:
    """Accuracies in percent less others at so many labels, paired by seed."""
    both = [seed for at, seed in mine if at == labels and (labels, seed) in other]
    if len(both) < 2 or mine is other:
        return ""
    return signed(estimate(np.array([mine[labels, seed] - other[labels, seed] for seed in both]) / 100))


def _hundred_epochs() -> str:
    """What a run of 100 epochs a round takes of the card."""
    name = "cifar10-epochs-100"
    noted = [one for one in _slices() if one["experiment"] == name]
    runs = finished([name])
    trainings = sum(one["trainings"] for one in noted)
    if not runs or trainings != sum(len(run.accuracies) for run in runs):
        return ""
    seconds = sum(one["seconds"] for one in noted)
    return (
        f"\nWith 100 epochs a round (`{plan()[name].recipe}`, {len(runs)} runs of ncal among others side by side) a run of {len(plan()[name].budgets)} rounds comes to "
        f"{seconds / len(runs):.0f} s of the card, prediction and scoring included: the slice's seconds, shared by the images that each experiment trained on. By the journals (scoring, and "
        f"training over the number of runs side by side) it is {np.mean(_card_seconds(runs, side_by_side(noted))):.0f} s.\n"
    )


OWN_PARTS = {"cifar10": _hundred_epochs, "cifar100": _trainers}
"""What only one page has."""


def _chance(runs: list[Run]) -> str:
    """How far first trainings on the same labels are apart, where they were made in several processes."""
    gap = first_gap(runs)
    if not gap:
        return ""
    return (
        f"\nAt {runs[0].accuracies[0][0]:,} labels the strategies of a seed have learnt the same labels. Where they differ there, they were trained "
        f"in different slices, some by other versions of the trainer: cuDNN finds its algorithms by trying, and the same training came out up to {100 * gap:.1f} points "
        "apart. Differences between strategies of different slices hold that as well; between single runs, differences of that size say nothing.\n"
    )


AT_EVERY = "Mean accuracy, and half of its 95 % interval (Student's t), at every"
COLUMNS = "*p (Holm)*: each strategy of this table against random, corrected for their number. *Against the best rival*: the other strategy of this table with the largest area here, so chosen after looking; not corrected."
MEANS = (
    "Differences of areas under the curve (its mean height) in points, paired by seed, with 95 % intervals for each alone. *Could show*: the true difference that so many "
    "seeds would have found four times out of five. *Above* and *below*: a paired t-test at 5 %, corrected by Holm's method for the rivals of the paper's claim (the "
    f"others each by itself); *level with*: the interval lies within {100 * NEAR:.0f} point either way, where the paper's leads in accuracy are of 2.6 points and more at the end of its curves; *not told apart*: "
    "all else. The claim does not hold where ncal is below a rival or level with all, holds in part where it is above some, and could not be shown where it is neither. *At the end*: the same difference at the "
    "last number of labels, not corrected."
)


DRAWN = "Small multiples: one strategy each in its colour, random dashed, the others grey. Intervals that reach farther than the picture are cut at its edge."


def _forest(gaps: Mapping[str, tuple[Difference, str]]) -> str:
    """ncal against each other strategy, by area."""
    return plots.forest("ncal", {name: plain(one.aubc) for name, (one, _) in gaps.items()})


def _columns(
    found: dict[str, Any],
    runs: list[Run],
    trained: str,
    slices: list[dict[str, Any]],
    figures: Mapping[str, float] | None = None,
    end: str = "",
) -> tuple[list[str], list[list[str]]]:
    """The report's table with the best rival, the paper's figures where there are any, seeds and costs beside it."""
    head, rows = result_rows(found)
    best = found.get("to_best_rival") or {}
    together, gpu = side_by_side(slices), all(one["gpu"] for one in slices)
    head = [
        *head,
        "against the best rival",
        *([f"the paper: {end}"] if figures else []),
        "seeds",
        "passes over the pool a round",
        "s of scoring a round",
        *(["GPU s a run"] if gpu else []),
    ]
    for row in rows:
        name = row[0]
        against = best.get(name)
        gap = ""
        if against and against.get("aubc") and against["aubc"]["mean"] is not None:
            mean, low, high = (np.array(against["aubc"][side], np.float64) for side in ("mean", "low", "high"))
            gap = f"{signed(Estimate(mean, low, high, np.array(against['seeds'])))} to {against['rival']}"
        own = [run for run in runs if run.strategy == name]
        scoring = [line["seconds"]["round"] for run in own for line in run.lines if "seconds" in line]
        row += [
            gap,
            *([f"{figures[name]:.2f}" if name in figures else ""] if figures else []),
            str(len(own)),
            str(passes_of(needs_of(name.split(", ")[0]), recipe(trained).checkpoints)),
            f"{np.median(scoring):.2f}",
            *([f"{np.mean(_card_seconds(own, together)):.0f}"] if gpu else []),  # other work ran on the processor too
        ]
    return head, rows


def side_by_side(slices: list[dict[str, Any]]) -> int:
    """How many trainings shared the card, in most of them."""
    found: Counter[int] = Counter()
    for one in slices:
        found[one["together"]] += one["trainings"]
    return found.most_common(1)[0][0] if found else 1


def _card_seconds(runs: Iterable[Run], together: int) -> list[float]:
    """What each run took of the card: its scoring, and its training over the number of runs side by side."""
    took = [[line["seconds"] for line in run.lines if "seconds" in line] for run in runs]
    return [sum(one["round"] + one.get("train", 0) / together for one in run) for run in took]


def _budget_cells(found: dict[str, Any], name: str) -> list[str]:
    """The mean accuracy in percent at every budget, and half of its interval where there is one."""
    sides = (found["accuracy"][name][side] for side in ("mean", "low", "high"))
    return [
        "" if mean is None else f"{100 * mean:.1f}" + ("" if low is None else f" ± {50 * (high - low):.1f}")
        for mean, low, high in zip(*sides, strict=True)
    ]


def _last(found: dict[str, Any], name: str, between: bool = False) -> str:
    """The last mean accuracy in percent, and its interval if asked for."""
    if name not in found["accuracy"]:
        return ""
    mean, low, high = (found["accuracy"][name][side][-1] for side in ("mean", "low", "high"))
    if mean is None:
        return ""
    more = f" ({100 * low:.1f} to {100 * high:.1f})" if between and low is not None else ""
    return f"{100 * mean:.1f} %{more}"


def _areas(runs: list[Run]) -> dict[str, dict[int, float]]:
    """The area under the curve of finished runs, by strategy and seed."""
    found: dict[str, dict[int, float]] = {}
    for run in runs:
        budgets, accuracies = zip(*run.accuracies, strict=True)
        found.setdefault(run.strategy, {})[run.seed] = float(aubc(budgets, accuracies))
    return found


def _lasts(runs: list[Run]) -> dict[str, dict[int, float]]:
    """The last accuracy of finished runs, by strategy and seed."""
    found: dict[str, dict[int, float]] = {}
    for run in runs:
        found.setdefault(run.strategy, {})[run.seed] = run.accuracies[-1][1]
    return found


def _at_the_end(runs: list[Run]) -> dict[str, str]:
    """The last accuracy of ncal less that of each other strategy, paired by seed."""
    last = _lasts(runs)
    own = last.get("ncal", {})
    both = {name: [seed for seed in own if seed in seeds] for name, seeds in last.items()}
    return {
        name: signed(estimate(np.array([own[seed] - last[name][seed] for seed in seeds]))) if seeds else ""
        for name, seeds in both.items()
    }


def _begun_small(words: str) -> str:
    return words[:1].lower() + words[1:]


def _sizes(page: Page) -> str:
    """How many items there are to label and to test on."""
    path = STUDY / page.experiments[0] / "data.json"
    if not path.exists():
        return ""
    facts = json.loads(path.read_text())
    return f", {facts['pool']['items']:,} items in the pool and {facts['test']['items']:,} in the test set"


def _phase(runs: list[Run]) -> str:
    """How far into the terminal phase the networks were from which the strategies chose."""
    lines = [line for run in runs for line in run.lines if "rule" in line]
    if not lines:
        return ""
    rules = Counter(line["rule"] for line in lines)
    opened = ", ".join(f"{OPENED[rule]} in {count} of {len(lines)} trainings" for rule, count in rules.most_common())
    fit = min(line["collapse"]["accuracy"] for line in lines)
    quotient, flipping = (
        np.median([value for value in values if value is not None])
        for values in ([line["collapse"]["nc1_quotient"] for line in lines], [line["flipping"] for line in lines])
    )
    return (
        f"At the end of a training a network is right on {100 * fit:.1f} % of its own labels or more (the paper's: 95.2 to 96.6 %). Its features are spread inside the classes {quotient:.2g} times "
        f"as much as the class means are (median of tr Σ_W / tr Σ_B; 0 is full collapse). The window of checkpoints opened {opened}; in it the predictions of {100 * flipping:.0f} % of the pool flip (median)."
    )


OPENED = {"accuracy": "by accuracy", "plateau": "as NC1 stood still", "fallback": "by the schedule"}


def _network(page: Page) -> str:
    name = str(plan()[page.experiments[0]].network)
    return "ResNet-18" if name.startswith("resnet18") else f"Network `{name}`"


def _recipe(page: Page) -> str:
    return str(plan()[page.experiments[0]].recipe)


ORACLES = {
    "people": (
        "Three annotators",
        "The three annotators of each image; the n-th question about it goes to the n-th of them (17 to 18 % of the answers are wrong).",
    ),
    "fresh": (
        "Three annotators, seeds that nobody had seen",
        "As above, with the policy as it is, beside single answers in one process; `again=0` leaves out the least share of second opinions.",
    ),
    "worst": ("The worst label", "The worst label of each image, 40.2 % of them wrong, one answer an item."),
}
TOLD = {"plain": "cross-entropy", "elr": "early-learning regularisation"}


def write_ablations() -> list[str]:
    """What becomes of ncal when one thing is changed, set by set, and its row of the summary."""
    found = {name: _ablations(name) for name in ABLATIONS}
    compared = [one for changes, _ in found.values() for one in changes if one.found.seeds >= 3]
    for one, p in zip(compared, holm([one.found.aubc.p for one in compared]), strict=True):
        one.found = replace(one.found, aubc=replace(one.found.aubc, p_holm=p))
    wanted = sum(len(VARIANTS) + len(changes) for changes in ABLATIONS.values())
    text = "# Ablations of ncal\n\nMade by `make results` from `results/study`; not to be edited by hand.\n\n"
    text += (
        "One thing is changed at a time. Areas under the curve over the numbers of labels that both have, and accuracies at the largest of them, in points, paired by seed, "
        "with 95 % intervals for each alone. *Could show*: the true difference of areas that so many seeds would have found four times out of five, if it were the only one looked at. "
        f"*Above* and *below*: a paired t-test at 5 %, corrected by Holm's method for all {len(compared)} changes on this page; *level*: the interval lies within "
        f"{100 * NEAR:.0f} point either way; below three seeds nothing is said.\n"
    )
    head = ["changed", "labels", "accuracy", "reference", "area less the reference's", "at the end", "could show"]
    told: dict[str, list[str]] = {"above": [], "below": []}
    for name, (changes, runs) in found.items():
        usual = plan()[name]
        title = next(page.title for page in PAGES_OF if name in page.experiments)
        timed = all(one.cost[1:] for one in changes)  # by a card
        rows = [[*one.row(), *one.cost[: 1 + timed]] for one in changes]
        costs = "".join(f", {cell} {head}" for cell, head in zip(_cost(name, "ncal"), COSTS, strict=False) if rows)
        text += (
            f"\n## {title}\n\nThe reference is `ncal` with `{usual.recipe}`, {usual.step:,} labels a round{costs}.\n\n"
        )
        ends = ["p (Holm)", "seeds", "ncal so changed is", *COSTS[: 1 + timed]]
        text += table([*head, *ends], rows) if rows else "No run has finished yet."
        text += f"\n{_chance(runs) if rows else ''}"
        for where, names in told.items():
            stand = [one.change for one in changes if one.where == where]
            names += [f"{', '.join(stand)} ({name})"] if stand else []
    spread, beside = _spread_out()
    text += _on_fresh_seeds() + spread
    (PAGES / "ablations.md").write_text(text)
    done = "; ".join(f"{where} ncal as it is: {', '.join(names)}" for where, names in told.items() if names)
    done = f"{done[:1].upper()}{done[1:]}." if done else "None can be told from ncal as it is."
    said = f"{len(compared)} of {wanted} changes are measured with three seeds or more. {done}{beside}"
    return ["[Ablations of ncal](ablations.md)", "", "", said, ""]


def _on_fresh_seeds() -> str:
    """A lead of the tables above, on seeds of its own: one comparison, so that nothing is to be corrected for."""
    runs = finished(["digits-fresh"])
    own, usual = ([run for run in runs if (run.strategy == "ncal") == which] for which in (False, True))
    one = _ablation(own[0].strategy, own, usual) if own else None
    if one is None or one.found.seeds < plan()["digits-fresh"].seeds:
        return ""
    effect, both = one.found.aubc, alike({"changed": own, "usual": usual}, 2)[0]
    return (
        f"\n## On seeds that nobody had seen\n\nOn the first ten seeds `{one.change}` looked better than ncal on digits. It was asked again, as the only comparison, with "
        f"{one.found.seeds} other seeds: {gap(one.found)} by area (p: {p_value(float(effect.p))}; {could_show(one.found)} could have been shown), {one.row()[5]} at the end. "
        f"ncal so changed is {one.where}. How alike the picks of a round are (the mean cosine of each to the nearest other one): {both['usual']} with ncal, "
        f"{both['changed']} so changed.\n"
    )


def _spread_out() -> tuple[str, str]:
    """Whether spreading its picks out helps ncal: fresh seeds of the small sets, with cdal beside it; and in short."""
    planned = {name: plan()[f"{name}-spread"] for name in small_sets()}
    found: list[tuple[str, Ablation, list[str]]] = []
    for name, wanted in planned.items():
        by: dict[str, list[Run]] = {}
        for run in finished([f"{name}-spread"]):
            by.setdefault(run.strategy, []).append(run)
        for change in (*SPREAD, "cdal") if "ncal" in by else ():
            one = _ablation(change, by.get(change, []), by["ncal"])
            if one and one.found.seeds == wanted.seeds:  # nothing is read before all have run
                both, rounds = alike({which: by[which] for which in (change, "ncal")})
                found.append((name, one, [*both.values(), rounds]))
    asked = [one for _, one, _ in found if one.change in SPREAD]
    if not asked:
        return "", ""
    family = len(SPREAD) * len(planned)  # whether they have run or not
    corrected = holm([*(one.found.aubc.p for one in asked), *[1.0] * (family - len(asked))])
    for one, p in zip(asked, corrected, strict=False):
        one.found = replace(one.found, aubc=replace(one.found.aubc, p_holm=p))
    rows = [[name, one.change, *one.row()[2:9], *both, one.where] for name, one, both in found]
    ways = [(name, one) for name, one, _ in found if one.change in SPREAD]
    stand = [f"{one.change} ({name}) is {one.where}" for name, one in ways if one.where in ("above", "below")]
    short = f" Picks that are spread out, on fresh seeds: {'; '.join(stand) or 'neither above nor below'}."
    head = ["set", "strategy", "accuracy", "ncal", "area less ncal's", "at the end", "could show", "p", "seeds"]
    text = (
        "\n## Picks that are spread out\n\nThe picks of cdal are spread out in the predictions, and over all data sets it has the better rank ([together](together.md)). Does it help "
        "ncal to spread its picks: of the best three times as many by score those that are farthest from each other, in the features or in the predictions? Asked of seeds that nobody had "
        f"seen, and written down before the first of them ran. *p* is corrected by Holm's method for the {family} comparisons of ncal so changed; those of cdal are beside the question, "
        "each by itself. *Alike*: the mean cosine of each pick to the nearest other one of its round, over the rounds of which both have it (cdal needs no features, so that the journals have it of the first alone).\n\n"
        f"{table([*head, 'alike', 'of ncal alike', 'of rounds', 'it is'], rows)}\n"
    )
    return text, short


@dataclass
class Ablation:
    """A change of ncal against the reference, over the budgets that both have."""

    change: str
    budget: float
    rows: Mapping[str, Any]
    found: Difference
    cost: list[str] = field(default_factory=list)
    """Its cells under `COSTS`."""

    @property
    def where(self) -> str:
        """Where it stands to the reference."""
        return place(self.found).rsplit(" ", 1)[0] if self.found.seeds >= 3 else "too early"

    def row(self) -> list[str]:
        """Its row of the table."""
        last = {name: values[:, -1] for name, values in self.rows.items()}
        cells = [f"{100 * values.mean():.1f}" for values in last.values()]
        apart = signed(estimate(last["changed"] - last["reference"]))
        p = p_value(float(self.found.aubc.p_holm)) if self.found.seeds >= 3 else ""
        told = [gap(self.found), apart, could_show(self.found), p, str(self.found.seeds), self.where]
        return [self.change, f"{self.budget:,.0f}", *cells, *told]


def _ablations(name: str) -> tuple[list[Ablation], list[Run]]:
    """The changes of ncal on one set, and the runs among them that were trained as the reference is."""
    usual = [run for run in finished([name]) if run.strategy == "ncal"]
    runs = [*usual]
    found = []
    for experiment in (f"{name}-variants", *(f"{name}-{change}" for change in ABLATIONS[name])):
        mine = finished([experiment])
        runs += mine if plan()[experiment].recipe == plan()[name].recipe else []
        for strategy in dict.fromkeys(run.strategy for run in mine):
            change = strategy if strategy != "ncal" else _change(experiment, name)
            one = _ablation(change, [run for run in mine if run.strategy == strategy], usual)
            found += [replace(one, cost=_cost(experiment, strategy))] if one else []
    return found, runs


COSTS = ("passes over the pool a round", "GPU s a run")


def _cost(name: str, strategy: str) -> list[str]:
    """Passes over the pool a round, and what a run took of the card where it was on one."""
    slices = [one for one in _slices() if one["experiment"] == name]
    runs = [run for run in finished([name]) if run.strategy == strategy]
    passes = str(passes_of(needs_of(strategy), recipe(plan()[name].recipe).checkpoints))
    if not runs or not slices or not all(one["gpu"] for one in slices):
        return [passes]
    return [passes, f"{np.mean(_card_seconds(runs, side_by_side(slices))):.0f}"]


MEANS_ALONE = (
    "*Could show*: the true difference of areas that so many seeds would have found four times out of five. *Above* and *below*: a paired t-test at 5 %, each by itself; "
    f"*level*: the interval lies within {100 * NEAR:.0f} point either way; below three seeds nothing is said."
)


def _ablation(change: str, runs: list[Run], usual: list[Run]) -> Ablation | None:
    """A change against the reference, where they have budgets in common."""
    pairs = [(one, other) for one in runs for other in usual if one.seed == other.seed]
    budgets = set.intersection(*({b for b, _ in run.accuracies} for pair in pairs for run in pair)) if pairs else set()
    if not budgets:
        return None
    shared = np.array(sorted(budgets), np.float64)
    rows = {
        name: np.array([[dict(pair[which].accuracies)[budget] for budget in sorted(budgets)] for pair in pairs])
        for which, name in enumerate(("changed", "reference"))
    }
    return Ablation(change, shared[-1], rows, against_each(Curves(shared, rows), "changed")["reference"])


def _change(name: str, reference: str) -> str:
    changed, usual = plan()[name], plan()[reference]
    return f"`{changed.recipe}`" if changed.recipe != usual.recipe else f"{changed.step:,} labels a round"


def write_noise() -> list[str]:
    """The page on wrong labels, its figures, and its row of the summary."""
    text = [
        "# Human wrong labels (CIFAR-10N)",
        "",
        "Made by `make results` from `results/noise`; not to be edited by hand. The paper's abstract claims reliability under wrong labels; its text shows no experiment.",
        "ResNet-18, `strong(epochs=100)`, accuracy on the clean test set, mean over the seeds that have got so far. The last columns: how many labels the last training",
        "learnt, and how many of them are wrong. `doubts(soft=True)` is our policy, label or ask again (`docs/noise.md`). **It was changed twice after its runs on these",
        "seeds were looked at** (the earlier forms stand at the end, the audit was changed likewise; `docs/log.md`): runs on seeds that nobody has seen, beside single answers in one process, are in",
        f"`results/PLAN.md`. {MEANS_ALONE}",
    ]
    verdicts, before = [], []
    for kind, (title, about) in ORACLES.items():
        for training, loss in TOLD.items():
            names = [name for name in noise() if name.startswith(f"{kind}-") and name.endswith(f"-{training}")]
            old = [name for name in tried() if name.startswith(f"{kind}-") and name.endswith(f"-{training}")]
            runs, earlier = _noise_runs(names), _noise_runs(old)
            if not runs:
                continue
            curves, _ = curves_of(runs)
            found = {**summary(curves), "unit": "answers"}
            (PAGES / f"noise_{kind}_{training}.svg").write_text(plots.learning_curves(found))
            slices = [one for one in _slices(NOISE) if one["experiment"] == f"{kind} {training}"]
            columns = _columns(found, runs, noise()[names[0]].recipe, slices)
            text += ["", f"## {title}, trained with {loss}", "", about, "", table(*columns), "", COLUMNS, ""]
            text += [f"{AT_EVERY} number of answers:", "", _noise_table(runs, found["strategies"])]
            verdicts.append(_noise_verdict(curves, loss))
            text += ["", f"**Verdict.** {verdicts[-1]}{_asked_again(runs)}{_same_labels(curves, runs)}"]
            text += ["", f"![Accuracy by answers](./noise_{kind}_{training}.svg)"]
            if earlier:
                shown = list(dict.fromkeys(run.strategy for run in earlier))
                before += ["", f"Trained with {loss}:", "", _noise_table([*runs, *earlier], shown)]
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
    if before:
        text += ["", "## Our policy as it was before", "", "`docs/log.md` has how the forms differ.", *before]
    (PAGES / "noise.md").write_text("\n".join([*text, ""]))
    done = " ".join(verdicts[: len(TOLD)])  # the annotators; the page has all
    return ["[Human wrong labels, CIFAR-10N](noise.md)", "", "", done, ""]


def noise_summary() -> str:
    """The README's tables on wrong labels: the annotators at the last budget, and the audit."""
    told = {
        "random": "random, one answer an item",
        "ncal": "ncal, one answer an item",
        "ncal, votes(n=3)": "ncal, three answers an item",
        "ncal, doubts(soft=True)": "**ncal, label or ask again (`doubts(soft=True)`)**",
    }
    cells: dict[str, list[str]] = {name: [] for name in told}
    whole = []
    for training in TOLD:
        names = [name for name in noise() if name.startswith("people-") and name.endswith(f"-{training}")]
        curves, _ = curves_of(_noise_runs(names))
        found = summary(curves)
        whole.append(_pair(curves, "ncal, doubts(soft=True)", "ncal"))
        for name in told:
            beside = _beside(curves, name)[0]
            wrong = _wrong(names, name, found["budgets"][-1])[1]
            cells[name] += [_last(found, name) + (f", {beside}" if beside else ""), wrong]
    people = table(
        [
            "12,000 answers of three annotators: test accuracy, difference to ncal with one answer an item (three seeds, 95 %)",
            *(title for loss in TOLD.values() for title in (loss, "wrong among the labels learnt")),
        ],
        [[words, *cells[name]] for name, words in told.items()],
    )
    areas = " and ".join(f"{gap(one)}, {place(one).rsplit(' ', 1)[0]}" for one in whole)
    people += f"\n\nOver the whole curve the policy less one answer an item: {areas}. It was changed twice after these seeds were looked at; fresh seeds are in the plan."
    lines = [json.loads(line) for line in (NOISE / "audit.jsonl").read_text().splitlines()]
    wrong = {
        kind: next(one["wrong"] for one in lines if one["labels"] == kind and "wrong" in one)
        for kind in ("worst", "aggregate")
    }
    scores = {
        "ours": (f"**ours**: geometry and dynamics, trained with {TOLD['elr']}", FOLDS + 1),
        "ours, dynamics alone": (f"margins over the last checks (as AUM), trained with {TOLD['elr']}", 1),
        "AUM": ("AUM", 1),
        "loss at the end": ("the loss", 1),
        "self-confidence, on our probabilities": (f"self-confidence, trained with {TOLD['elr']}", FOLDS),
        "cleanlab, self confidence": ("cleanlab (self-confidence)", FOLDS),
    }
    rows = [
        [
            words,
            str(networks),
            *(
                f"{np.mean([one['average precision'] for one in lines if (one['labels'], one.get('score')) == (labels, score)]):.3f}"
                for labels in wrong
            ),
        ]
        for score, (words, networks) in scores.items()
    ]
    head = [
        "audit of 50,000 labels, average precision; cross-entropy where nothing is said",
        "networks",
        *(f"{100 * share:.1f} % wrong" for share in wrong.values()),
    ]
    return f"{people}\n\n{table(head, rows)}"


HEAD = [
    "experiment",
    "ncal at the end (95 %)",
    "random at the end (95 %)",
    "the paper's claim, by area: ncal is above random, coreset and cdal",
    "the same by the accuracies at the end",
]


def study_summary(rows: list[list[str]], claims: list[list[str]]) -> str:
    """The README's tables of what was measured of the paper, from the rows of the index; claims without their figures."""
    known = [row for row in rows if row[1] != MISSING]
    missing = len(rows) - len(known)
    more = f"\n\nNot measured yet: {missing} of the study's experiments." if missing else ""
    beside = [[words, short] for words, _, short in claims]
    text = f"{table(HEAD, known)}{more}\n\n{table(['the paper also says', 'here'], beside)}"
    return text.replace("](", "](docs/results/")


def write_readme(rows: list[list[str]], claims: list[list[str]]) -> None:
    """Put the summaries between their marks."""
    fill(README, "study", study_summary(rows, claims))
    fill(README, "wrong labels", noise_summary())


def _noise_runs(names: Iterable[str]) -> list[Run]:
    """The runs of some experiments under the names of the tables, as far as they went."""
    everything = {**noise(), **tried()}
    begun = [name for name in names if (NOISE / name / "experiment.json").exists()]
    return [run for name in begun for run in runs_of(NOISE / name, everything[name]) if run.accuracies]


def _noise_table(runs: list[Run], shown: list[str]) -> str:
    """Accuracy by answers of the shown ones; the runs hold ncal with single labels as well."""
    curves, _ = curves_of(runs)
    found = summary(curves)
    names = {run.journal.folder.parents[1].name for run in runs}
    rows = [
        [name, *_budget_cells(found, name), *_beside(curves, name), *_wrong(names, name, found["budgets"][-1])]
        for name in shown
    ]
    head = ["asked", *(f"{int(b):,}" for b in found["budgets"]), "against ncal at the end (95 %)", "seeds"]
    return table([*head, "labels", "wrong"], rows)


def _noise_verdict(curves: Curves, loss: str) -> str:
    """Our policy against one answer an item, and ncal against the others, by areas; and where else they differ."""
    if not all(curves.complete(name).sum() >= 3 for name in curves.strategies):
        return "Too early: not every row has three seeds."
    ours = next((name for name in curves.strategies if "doubts" in name), None)
    pairs = [(ours, "ncal")] if ours else []
    pairs += [("ncal", name) for name in curves.strategies if "ncal" not in name]
    return f"With {loss}: " + "; ".join(_stands(curves, *pair) for pair in pairs) + "."


def _stands(curves: Curves, own: str, other: str) -> str:
    """One against another, in words: by area, at the end, and where it is above, each number of answers by itself."""
    found = _pair(curves, own, other)
    effect = found.per_budget
    last = signed(Estimate(effect.mean[-1], effect.low[-1], effect.high[-1], np.array(found.seeds)))
    lead = [f"{budget:,.0f}" for budget, low in zip(curves.budgets, effect.low, strict=True) if low > 0]
    where = f", above at {', '.join(lead)}" if lead else ""
    own_, other_ = ("our policy" if "doubts" in name else f"{name}" for name in (own, other))
    one = f"{other_} with one answer an item" if "doubts" in own else other_
    return f"{own_} is {place(found)} {one} by area, {gap(found)}, at the end {last}{where}"


def _pair(curves: Curves, own: str, other: str) -> Difference:
    return against_each(Curves(curves.budgets, {name: curves.accuracies[name] for name in (own, other)}), own)[other]


def _asked_again(runs: list[Run]) -> str:
    """How many second opinions our policy asked for."""
    counts = []
    for run in runs:
        trained = [line for line in run.lines if "accuracy" in line]
        for before, after in itertools.pairwise(trained) if "doubts" in run.strategy else ():
            counts.append(after["answers"] - before["answers"] - len(before["ids"]))
    if not counts:
        return ""
    least = min(counts)
    return (
        f" Second opinions: {least} of a round's {STEP:,} answers, the least that the policy takes, in {counts.count(least)} of {len(counts)} rounds, and at most {max(counts)}; so "
        "what is measured is a tenth of second opinions and learning the posterior, not a free choice between new items and old."
    )


def _same_labels(curves: Curves, runs: list[Run]) -> str:
    """How far our policy and single answers are apart where both have learnt the same labels."""
    ours = next((run.strategy for run in runs if "doubts" in run.strategy), None)
    if ours is None or not first_gap([run for run in runs if run.strategy in (ours, "ncal")]):
        return ""
    effect = _pair(curves, ours, "ncal").per_budget
    apart = signed(Estimate(effect.mean[0], effect.low[0], effect.high[0], np.array(curves.seeds)))
    return (
        f" **With care:** at {curves.budgets[0]:,.0f} answers both have learnt the same labels, and the policy's runs came out {apart} there. They were made in another process, by a "
        "later version of the trainer; whatever that does is in every difference above."
    )


def _beside(curves: Any, name: str) -> list[str]:
    """The difference to ncal with single labels at the largest budget, paired by seed, and the seeds that got there."""
    mine, usual = curves.accuracies[name][:, -1], curves.accuracies["ncal"][:, -1]
    seeds = str(int(np.isfinite(mine).sum()))
    both = np.isfinite(mine) & np.isfinite(usual)
    if name == "ncal" or not both.any():
        return ["", seeds]
    return [signed(estimate(mine[both] - usual[both])), seeds]


def _wrong(names: Collection[str], strategy: str, answers: int) -> list[str]:
    """How many labels the training with so many answers learnt, and how many of them are wrong."""
    path = NOISE / "wrong.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    found = [
        (line["items"], line["wrong"])
        for line in lines
        if line["experiment"] in names and (line["strategy"], line["answers"]) == (strategy, answers)
    ]
    if not found:
        return ["", ""]
    items, wrong = np.mean(found, axis=0)
    return [f"{items:,.0f}", f"{100 * wrong:.1f} %"]


CLAIM_HEAD = ["the paper says", "measured", "verdict"]


def claims_of_curves() -> list[list[str]]:
    """What the paper says beside its main comparison of what curves can show, as far as it was measured."""
    rows = []
    runs = [run for run in finished(("cifar10", "cifar10-rest")) if "ncal(" not in run.strategy]
    curves = curves_of(runs)[0] if runs else None
    if curves is not None and all(name in curves.accuracies for name in ("sisome", "ncal", *CLAIMED)):
        less = {name: _pair(curves, "sisome", name) for name in (*CLAIMED, "ncal")}
        below = [place(one) == "below" for one in less.values()]
        held = "Holds" if all(below) else "Holds in part" if any(below) else "Does not hold"
        steep = recipe(plan()["cifar10-rest"].recipe).steepness[0]
        areas = ", ".join(f"{name} {gap(one)}" for name, one in less.items())
        where = stands({name: place(one) for name, one in less.items()})
        rows.append(
            [
                "SISOMe does significantly worse than both standard baselines and NCAL",
                f"CIFAR-10, areas: sisome less {areas}",
                f"{held}, with sigmoids of steepness {steep:g}: sisome is {where}.",
            ]
        )
    page = next(page for page in PAGES_OF if page.name == "digits_wrong")
    short, leads = verdict(_areas(finished(page.experiments)))
    if leads:
        areas = ", ".join(f"{name} {gap(leads[name][0])}" for name in CLAIMED if name in leads)
        at_the_end = _begun_small(verdict(_lasts(finished(page.experiments)))[0])
        measured = f"[{page.title}]({page.name}.md): areas of ncal less {areas}"
        rows.append([f"{NOISE_CLAIM} (in the abstract alone)", measured, f"{short} At the end: {at_the_end}"])
    claim = "Other strategies amplify wrong labels by picking them; NCAL-R mitigates that"
    for kind, rivals in (("people", ("random",)), ("worst", ("random", "margin", "badge", "coreset", "cdal"))):
        for training, loss in TOLD.items():
            names = {name for name in noise() if name.startswith(f"{kind}-") and name.endswith(f"-{training}")}
            curves = curves_of(_noise_runs(names))[0]
            told = [name for name in rivals if name in curves.accuracies]
            shares = {name: _wrong(names, name, curves.budgets[-1])[1] for name in ("ncal", *told)}
            leads = {name: _pair(curves, "ncal", name) for name in told}
            words = ", ".join(f"{name} {share}" for name, share in shares.items())
            areas = ", ".join(f"{name} {gap(one)}" for name, one in leads.items())
            measured = f"{ORACLES[kind][0]}, {loss}, wrong among the labels learnt: {words}; by area ncal less {areas}"
            more = [name for name in told if _percent(shares["ncal"]) > _percent(shares[name])]
            said = (
                f"Does not hold of the picks: ncal's are wrong more often than those of {joined_by_and(more)}."
                if more
                else "Holds of the picks: ncal's are not wrong more often."
            )
            rows.append(
                [
                    claim,
                    measured,
                    f"{said} Of accuracy: ncal is {stands({name: place(one) for name, one in leads.items()})}.",
                ]
            )
    return rows


def claims_of_evaluations() -> list[list[str]]:
    """Rows on what the paper says of the evaluations, page by page."""
    rows = []
    for page in PAGES_OF:
        found = [row for task in page.beyond for row in claims(task, finished(page.experiments))]
        rows += [[words, f"[{page.title}]({page.name}.md): {measured}", short] for words, measured, short in found]
    return rows


def _percent(text: str) -> float:
    return float(text.removesuffix(" %"))


def write_plan() -> None:
    """What is missing, in GPU minutes."""
    noted = [one for one in _slices() if "images" in one and one["gpu"]]
    pace = sum(one["images"] for one in noted) / sum(one["seconds"] for one in noted)
    lines = [
        "# The study's plan",
        "",
        "Made by `make results`. Trainings done and missing, in the order in which they are wanted. Minutes are estimated from the images still to be",
        f"trained on at {pace:,.0f} a second (measured over whole slices on one H200, six runs side by side, prediction and scoring included).",
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
        + ", ".join(f"{task} of {name} {done} of {wanted}" for name, task, done, wanted in evaluations_of(STUDY))
        + f"){_again(pace)}.",
        "",
        "A slice: `python3 benchmarks/study.py run --evaluate --data ROOT --out DIR --minutes 9`, beginning from a copy of `results/study`; then `study.py keep --out DIR` and",
        "`make results`.",
        "",
    ]
    (ROOT / "results" / "PLAN.md").write_text("\n".join(lines))


def _again(pace: float) -> str:
    """A word on models that went with their machine before all evaluations had seen them."""
    gone = lost(STUDY, evaluators(ROOT, STUDY), dict.fromkeys(EVALUATED, ()))
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
    slices = [one for one in _slices() if one["gpu"]]
    seconds = sum(one["seconds"] for one in slices)
    trainings = sum(one["trainings"] for one in slices)
    return f"{trainings} trainings whose time was noted took {seconds / 60:.1f} GPU minutes of one H200."


def _slices(home: Path | None = None) -> list[dict[str, Any]]:
    path = (home or STUDY) / "slices.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Write everything."""
    PAGES.mkdir(parents=True, exist_ok=True)
    studied = [write_page(page) for page in PAGES_OF]
    studied.append(write_together(STUDY, PAGES, {page.experiments[0]: page.name for page in PAGES_OF}))
    rows = [*studied, write_ablations(), write_noise()]
    of_curves, of_evaluations = claims_of_curves(), claims_of_evaluations()
    text = [
        "# Results",
        "",
        "The paper's experiments on real data, and what holds of them. Made by `make results` from the journals in `results/study` and `results/noise`.",
        "",
        MEANS,
        "",
        table(HEAD, rows),
        "",
        "Beside its curves:",
        "",
        table(CLAIM_HEAD, [*of_curves, *of_evaluations]),
        "",
        "What a strategy costs, in passes over the pool and in GPU time, stands in the first table of each page. What is evaluated beyond accuracy are models of the same runs, so it costs the same.",
        "",
        f"{write_speed()} What is missing stands in `results/PLAN.md`.",
        "",
    ]
    (PAGES / "index.md").write_text("\n".join(text))
    write_plan()
    write_readme(studied, of_evaluations)
    measured.write()


if __name__ == "__main__":
    main()
