"""Pages of learning curves: what the paper says, what we measured on which data, a verdict, tables and pictures."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import journals
import numpy as np
from beyond import part
from journals import begun, card_seconds, finished, on_a_card, slices_of
from measured import with_all
from slices import longest
from study import TRAINERS, plan
from verdicts import NEAR, could_show, gap, signed, table, verdict

from ncalr.lab import plots
from ncalr.lab.comparison import first_gap, passes_of
from ncalr.lab.evaluations import TITLES
from ncalr.lab.report import curves_of, result_rows
from ncalr.lab.runner import Run
from ncalr.lab.statistics import Difference, Estimate, aubc, estimate, plain, summary
from ncalr.lab.tables import p_value
from ncalr.learn.learner import needs_of
from ncalr.learn.recipes import recipe


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
    shown: str = "not in the paper"
    """What the paper has of these curves, where it gives no figures."""

    @property
    def claimed(self) -> str:
        """What the paper has of these curves, in short."""
        if not self.figures:
            return self.shown
        return f"ncal {self.figures['ncal']:.2f} %, rivals {max(v for name, v in self.figures.items() if name != 'ncal'):.2f} % at most"


SMALL = "A small set, a small network, and more seeds than there is time for with the large ones; on a processor, so that anybody can do it again."
NOT_THEIRS = "It has no such experiment."
NO_NUMBERS = "a figure without numbers"
MISSING = "not measured yet"

PAGES_OF = (
    Page(
        "cifar10",
        "CIFAR-10, 1,000 to 10,000 labels",
        ("cifar10", "cifar10-rest", "cifar10-variants", "cifar10-five"),
        "A figure without numbers, from 2 to 20 % of the labels, and not in the source that we have; 90 % with all of them. The caption, of all three sets, calls NCAL good at lower budgets too; the "
        f"abstract's claim to be above the baselines does not name CIFAR-10. Ours has {with_all('cifar10'):.2f} % with all of them (`strong(epochs=100)`), so our curves lie higher.",
        shown=NO_NUMBERS,
    ),
    Page(
        "cifar100",
        "CIFAR-100, 5,000 to 22,500 labels",
        ("cifar100", "cifar100-five"),
        "A figure without numbers, from 10 to 45 % of the labels, and not in the source that we have. The abstract says that NCAL-R consistently outperforms standard baselines on CIFAR-100 and "
        f"ImageNet-100. 70.75 % with all labels, ours {with_all('cifar100'):.2f} % (`strong(epochs=100)`).",
        shown=NO_NUMBERS,
    ),
    Page(
        "mini_imagenet",
        "mini-ImageNet at 64 pixels, the stand-in for ImageNet-100",
        ("mini_imagenet", "mini_imagenet-spread"),
        "ImageNet-100, presumably at 40 %, where its protocol ends: NCAL 72.11, Random 69.51, CDAL 69.09, Coreset 68.65; 79.16 with all labels; 95.2 to 96.6 % on the training set. Ours are "
        "10 to 40 % of 50,000 images, of other classes and smaller: only the order of the strategies can be compared.",
        {"random": 69.51, "coreset": 68.65, "cdal": 69.09, "ncal": 72.11},
        "ImageNet-100, presumably at 40 %",
        ("ood", "probe", "separation", "calibration"),
    ),
    Page(
        "discovery",
        "mini-ImageNet, 60 known classes",
        ("mini_imagenet-known",),
        "A table of category discovery, by its text with a split of 60 to 40, without data or budget: what can be reconstructed of it stands in [evaluations](../evaluations.md#category-discovery). "
        "NCAL has 23.05 % on novel classes and 51.95 % on known ones, CDAL 20.96 and 49.96, Random 20.35 and 50.34, Coreset 18.92 and 49.98. It shows no learning curves; ours on the known classes come "
        "first, discovery at the end.",
        beyond=("discovery",),
        shown="category discovery, no curves",
    ),
    Page(
        "mini_imagenet_tail",
        "mini-ImageNet with a long tail, 2,000 to 8,000 labels",
        ("mini_imagenet-tail",),
        "ImageNet-100 with exponential counts (beta = 0.05, 41,454 images), at 16,000 labels: NCAL 45.15, Random 42.30, Coreset 42.06, CDAL 41.94. Ours has 15,907 "
        "images by the same rule, of other classes and smaller: only the order of the strategies can be compared.",
        {"random": 42.30, "coreset": 42.06, "cdal": 41.94, "ncal": 45.15},
        "ImageNet-100 with a tail, 16,000 labels",
        ("tail",),
    ),
    Page(
        "cifar100_tail",
        "CIFAR-100 with a long tail, 2,000 to 8,000 labels",
        ("cifar100-tail",),
        f"{NOT_THEIRS} The same counts as for mini-ImageNet.",
        beyond=("tail",),
    ),
    Page("digits", "Handwritten digits, 40 to 200 labels", ("digits", "digits-variants"), NOT_THEIRS),
    Page(
        "digits_wrong",
        "Digits, three labels in ten replaced at random",
        ("digits-wrong", "digits-wrong-variants"),
        "Abstract and introduction say that NCAL-R is more robust to synthetic label noise; there is no experiment. Ours shows its lead over others with wrong labels, and not how much less it loses by them.",
        shown="a claim, no experiment",
    ),
    Page("digits_tail", "Digits with a long tail (beta = 0.1)", ("digits-tail", "digits-tail-variants"), NOT_THEIRS),
    Page("sst2", "Sentences (SST-2), words as vectors, 100 to 1,000 labels", ("sst2", "sst2-variants"), NOT_THEIRS),
)


def spent(experiments: Iterable[str]) -> str:
    """What the trainings of some experiments took, from the slices; a whole run by the last one that noted images."""
    mine = {name: one for name, one in plan().items() if name in set(experiments)}
    slices = slices_of(*mine)
    seconds, trainings = sum(one["seconds"] for one in slices), sum(one["trainings"] for one in slices)
    if not trainings:
        return ""
    done = sum(len(run.accuracies) for run in begun(mine))
    which = (
        f"{done} trainings" if trainings == done else f"{trainings} of {done} trainings, those whose time was noted,"
    )
    if not on_a_card(slices):
        return f"{which} took {seconds / 60:.1f} minutes by the clock on one core that had other work too, scoring included."
    text = f"{which} took {seconds / 60:.1f} minutes of one H200, scoring included, several runs side by side."
    first = next(iter(mine.values()))
    whole = longest(first.recipe) * sum(first.budgets)
    noted = [one for one in slices if one.get("images", 0) > whole]  # a few trainings do not fill the card
    if not noted:
        return f"{text} {GPU_SECONDS}"
    pace = noted[-1]["images"] / noted[-1]["seconds"]
    return f"{text} The last large slice: {pace:,.0f} images a second, so {whole / pace:.0f} s for the {len(first.budgets)} rounds of a run. {GPU_SECONDS}"


GPU_SECONDS = (
    "GPU seconds of a run: its scoring, and its training by the clock over the number of runs that usually go side by side. Where fewer did, as at the end of a slice, it comes out too "
    "small: a few seconds between strategies are of the slice, not of the strategy. A first training that several strategies share counts for each."
)


def write_page(page: Page) -> list[str]:
    """A page, its figures, and its row of the summary."""
    runs, link = finished(page.experiments), f"[{page.title}]({page.name}.md)"
    head = f"# {page.title}\n\nMade by `make results` from `results/study`; not to be edited by hand.\n\n"
    head += f"**The paper.** {page.paper}\n\n"
    small = "" if str(plan()[page.experiments[0]].network).startswith("resnet18") else f" {SMALL}"
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
        (journals.PAGES / f"{page.name}.md").write_text(text)
        for figure in ("curves", "differences", "forest", "separation"):
            (journals.PAGES / f"{page.name}_{figure}.svg").unlink(missing_ok=True)
        return [link, page.claimed, "begun", "", "", ""] if some else [page.title, page.claimed, MISSING, "", "", ""]
    runs = [run for run in runs if run.strategy not in behind]
    curves, _ = curves_of(runs)
    found = summary(curves)
    (journals.PAGES / f"{page.name}_curves.svg").write_text(plots.learning_curves(found))
    text = f"{head}**Ours.** {_network(page)}, recipe `{_recipe(page)}`{_sizes(page)}, the same initial pools for all strategies of a seed.{small}{_phase(runs, _recipe(page))}\n\n"
    if seeds.keys() & {"sisom", "sisome"}:
        text += f"SISOM's sigmoids have the steepness {list(recipe(_recipe(page)).steepness)}, last layer first; its authors' values are in [learning](../learning.md#recipes).\n\n"
    short, gaps = verdict(areas_of(runs))
    at_the_end, _ = verdict(lasts_of(runs))
    text += f"**Verdict.** By area: {begun_small(short)} At the end: {begun_small(at_the_end)}"
    if gaps:
        ends = _at_the_end(runs)
        rows = [
            [name, gap(one), could_show(one), p_value(float(one.aubc.p_holm)), where.rsplit(" ", 1)[0], ends[name]]
            for name, (one, where) in gaps.items()
        ]
        head = [
            "ncal against",
            "area: ncal less it",
            "could show",
            "p (Holm)",
            "ncal is, by area",
            "at the end, not corrected",
        ]
        text += f"\n\n{table(head, rows)}\n\n{MEANS}"
        (journals.PAGES / f"{page.name}_forest.svg").write_text(_forest(gaps))
        text += f"\n\n![ncal against each](./{page.name}_forest.svg)"
    columns = columns_of(found, runs, _recipe(page), slices_of(*page.experiments), page.figures, page.end)
    text += f"\n\n{table(*columns)}\n\n{COLUMNS}\n"
    if behind:
        waiting = ", ".join(f"{name} ({count})" for name, count in behind.items())
        text += f"\nNot shown, since too few of their seeds are finished (their number in brackets): {waiting}.\n"
    text += f"\n{spent(page.experiments)}\n"
    text += f"\n![Learning curves](./{page.name}_curves.svg)\n\n{DRAWN}\n"
    if curves.seeds > 1 and found.get("to_random"):
        (journals.PAGES / f"{page.name}_differences.svg").write_text(plots.differences(found))
        text += f"\n![Difference to random, paired by seed](./{page.name}_differences.svg)\n"
    budgets = [int(b) for b in found["budgets"]]
    rows = [[name, *budget_cells(found, name)] for name in found["strategies"]]
    text += f"\n{AT_EVERY} budget:\n\n" + table(["strategy", *(f"{b:,}" for b in budgets)], rows)
    text += f"\n{chance(runs)}{own}"
    parts = [part(name, runs, journals.PAGES) or f"## {TITLES[name]}\n\nNot evaluated yet." for name in page.beyond]
    text += "".join(f"\n{text}\n" for text in parts)
    (journals.PAGES / f"{page.name}.md").write_text(text)
    return [link, page.claimed, *(last_of(found, name, True) for name in ("ncal", "random")), short, at_the_end]


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
    noted = slices_of(name)
    runs = finished([name])
    trainings = sum(one["trainings"] for one in noted)
    if not runs or trainings != sum(len(run.accuracies) for run in runs):
        return ""
    seconds = sum(one["seconds"] for one in noted)
    return (
        f"\nWith 100 epochs a round (`{plan()[name].recipe}`, {len(runs)} runs of ncal among others side by side) a run of {len(plan()[name].budgets)} rounds comes to "
        f"{seconds / len(runs):.0f} s of the card, prediction and scoring included: the slice's seconds, shared by the images that each experiment trained on. By the journals (scoring, and "
        f"training over the number of runs side by side) it is {np.mean(card_seconds(runs, noted)):.0f} s.\n"
    )


OWN_PARTS = {"cifar10": _hundred_epochs, "cifar100": _trainers}
"""What only one page has."""


def chance(runs: list[Run]) -> str:
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
    "seeds would have found four times out of five. *Above* and *below*: a paired t-test at 5 %, corrected by Holm's method for the three rivals of the paper's claim, and for the others among themselves; "
    f"*level with*: the interval lies within {100 * NEAR:.0f} point either way, where the paper's leads in accuracy are of 2.6 and 2.9 points at the end of the two curves that it gives figures of; *not told apart*: "
    "all else. The claim does not hold where ncal is below a rival or level with all, holds in part where it is above some, and could not be shown where it is neither. Two verdicts a page, by area and by the accuracies "
    "*at the end*, each corrected by itself, and nothing is corrected over pages: the one by area counts."
)


DRAWN = "Small multiples: one strategy each in its colour, random dashed, the others grey. Intervals that reach farther than the picture are cut at its edge."


def _forest(gaps: Mapping[str, tuple[Difference, str]]) -> str:
    """ncal against each other strategy, by area."""
    return plots.forest("ncal", {name: plain(one.aubc) for name, (one, _) in gaps.items()})


def columns_of(
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
    gpu = on_a_card(slices)  # other work ran on the processor too
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
            *([f"{np.mean(card_seconds(own, slices)):.0f}"] if gpu else []),
        ]
    return head, rows


def budget_cells(found: dict[str, Any], name: str) -> list[str]:
    """The mean accuracy in percent at every budget, and half of its interval where there is one."""
    sides = (found["accuracy"][name][side] for side in ("mean", "low", "high"))
    return [
        "" if mean is None else f"{100 * mean:.1f}" + ("" if low is None else f" ± {50 * (high - low):.1f}")
        for mean, low, high in zip(*sides, strict=True)
    ]


def last_of(found: dict[str, Any], name: str, between: bool = False) -> str:
    """The last mean accuracy in percent, and its interval if asked for."""
    if name not in found["accuracy"]:
        return ""
    mean, low, high = (found["accuracy"][name][side][-1] for side in ("mean", "low", "high"))
    if mean is None:
        return ""
    more = f" ({100 * low:.1f} to {100 * high:.1f})" if between and low is not None else ""
    return f"{100 * mean:.1f} %{more}"


def areas_of(runs: list[Run]) -> dict[str, dict[int, float]]:
    """The area under the curve of finished runs, by strategy and seed."""
    found: dict[str, dict[int, float]] = {}
    for run in runs:
        budgets, accuracies = zip(*run.accuracies, strict=True)
        found.setdefault(run.strategy, {})[run.seed] = float(aubc(budgets, accuracies))
    return found


def lasts_of(runs: list[Run]) -> dict[str, dict[int, float]]:
    """The last accuracy of finished runs, by strategy and seed."""
    found: dict[str, dict[int, float]] = {}
    for run in runs:
        found.setdefault(run.strategy, {})[run.seed] = run.accuracies[-1][1]
    return found


def _at_the_end(runs: list[Run]) -> dict[str, str]:
    """The last accuracy of ncal less that of each other strategy, paired by seed."""
    last = lasts_of(runs)
    own = last.get("ncal", {})
    both = {name: [seed for seed in own if seed in seeds] for name, seeds in last.items()}
    return {
        name: signed(estimate(np.array([own[seed] - last[name][seed] for seed in seeds]))) if seeds else ""
        for name, seeds in both.items()
    }


def begun_small(words: str) -> str:
    return words[:1].lower() + words[1:]


def _sizes(page: Page) -> str:
    """How many items there are to label and to test on."""
    path = journals.STUDY / page.experiments[0] / "data.json"
    if not path.exists():
        return ""
    facts = json.loads(path.read_text())
    return f", {facts['pool']['items']:,} items in the pool and {facts['test']['items']:,} in the test set"


def _phase(runs: list[Run], trained: str) -> str:
    """How far ncal's networks got into the terminal phase, on which it relies."""
    lines = [line for run in runs if run.strategy == "ncal" for line in run.trained if "rule" in line]
    if not lines:
        return ""
    fits = [100 * line["collapse"]["accuracy"] for line in lines]
    spread: dict[int, list[float]] = {}
    for line in lines:
        spread.setdefault(line["labelled"], []).append(line["collapse"]["nc1_quotient"])
    ends = [f"{np.median(spread[labels]):.2g} at {labels:,} labels" for labels in (min(spread), max(spread))]
    flips = [line["flipping"] for line in lines if line["flipping"] is not None]
    began = Counter(line["began"] for line in lines).most_common()
    rest = (
        f" in {began[0][1]} of them, {min(began)[0]} to {max(began)[0]} in all" if len(began) > 1 else " in all of them"
    )
    return (
        f" NCAL-R relies on features that have collapsed onto their class means. In ncal's {len(lines)} trainings the network came to give at least {np.floor(10 * min(fits)) / 10:.1f} % of its items "
        f"the label that it was taught (median {np.floor(10 * np.median(fits)) / 10:.1f}). The variance of its features inside the classes is that of the class means times {' and '.join(ends)} (tr Σ_W / tr Σ_B, medians; "
        f"0 is full collapse). Its window of checkpoints began after epoch {began[0][0]} of {longest(trained)}{rest}; in it the prediction of {100 * np.median(flips):.0f} % of the unlabelled items changes at least once (median)."
    )


def _network(page: Page) -> str:
    name = str(plan()[page.experiments[0]].network)
    return "ResNet-18" if name.startswith("resnet18") else f"Network `{name}`"


def _recipe(page: Page) -> str:
    return str(plan()[page.experiments[0]].recipe)
