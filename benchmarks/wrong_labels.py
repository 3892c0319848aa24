"""The page on human wrong labels (CIFAR-10N), and the README's tables of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable
from typing import Any

import journals
import numpy as np
from curves_pages import AT_EVERY, COLUMNS, GPU_SECONDS, budget_cells, columns_of, last_of
from journals import slices_of
from noise_study import FOLDS, STEP, runs_of, tried
from noise_study import plan as noise
from noise_study import table as audit_table
from verdicts import NEAR, gap, place, signed, table

from ncalr.lab import plots
from ncalr.lab.comparison import first_gap
from ncalr.lab.report import curves_of
from ncalr.lab.runner import Run
from ncalr.lab.statistics import Curves, Difference, Estimate, against_each, estimate, summary

ORACLES = {
    "people": (
        "Three annotators",
        "The three annotators of each image; the n-th question about it goes to the n-th of them. Of random answers {people} are wrong.",
    ),
    "fresh": (
        "Three annotators, seeds that nobody had seen",
        "As above, with the policy as it is, beside single answers in one process; `again=0` leaves out the least share of second opinions.",
    ),
    "worst": ("The worst label", "The worst label of each image, {worst} of them wrong, one answer an item."),
}


TOLD = {"plain": "cross-entropy", "elr": "early-learning regularisation"}


MEANS_ALONE = (
    "*Could show*: the true difference of areas that so many seeds would have found four times out of five. *Above* and *below*: a paired t-test at 5 %, each by itself; "
    f"*level*: the interval lies within {100 * NEAR:.0f} point either way; below three seeds nothing is said."
)


def write_noise() -> str:
    """The page on wrong labels, its figures, and its verdicts in short."""
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
            names = named(kind, training)
            old = [name for name in tried() if name.startswith(f"{kind}-") and name.endswith(f"-{training}")]
            runs, earlier = noise_runs(names), noise_runs(old)
            if not runs:
                continue
            curves, _ = curves_of(runs)
            found = {**summary(curves), "unit": "answers"}
            (journals.PAGES / f"noise_{kind}_{training}.svg").write_text(plots.learning_curves(found))
            slices = slices_of(f"{kind} {training}", home=journals.NOISE)
            columns = columns_of(found, runs, noise()[names[0]].recipe, slices)
            text += [
                "",
                f"## {title}, trained with {loss}",
                "",
                about.format(**_shares()),
                "",
                table(*columns),
                "",
                f"{COLUMNS} {GPU_SECONDS}",
                "",
            ]
            text += [f"{AT_EVERY} number of answers:", "", _noise_table(runs, found["strategies"])]
            verdicts.append(_noise_verdict(curves, loss))
            text += ["", f"**Verdict.** {verdicts[-1]}{_asked_again(runs)}{_same_labels(curves, runs)}"]
            text += ["", f"![Accuracy by answers](./noise_{kind}_{training}.svg)"]
            if earlier:
                shown = list(dict.fromkeys(run.strategy for run in earlier))
                before += ["", f"Trained with {loss}:", "", _noise_table([*runs, *earlier], shown)]
    if _audits():
        text += [
            "",
            "## Which labels are wrong? The audit on all 50,000 labels",
            "",
            "AUROC and average precision of finding the wrong labels. *ours*: geometry of networks cross-fitted with the noise-tolerant loss, and what one network",
            "trained with it on all labels refuses to learn; plain *self-confidence* and",
            "*normalised margin*: confident learning's scores on networks cross-fitted with cross-entropy, *cleanlab*: by that library on the same probabilities; AUM and loss: one",
            "network trained on all labels with cross-entropy. 30 epochs each; standard deviation over the seeds.",
            "",
            audit_table(journals.NOISE),
        ]
    if before:
        text += ["", "## Our policy as it was before", "", "`docs/log.md` has how the forms differ.", *before]
    (journals.PAGES / "noise.md").write_text("\n".join([*text, ""]))
    done = " ".join(verdicts[: len(TOLD)])  # the annotators; the page has all
    return f"[Human wrong labels, CIFAR-10N](noise.md): {done}"


def _shares() -> dict[str, str]:
    """How many labels are wrong: of single answers to random items, and of the worst ones."""
    answers = [
        wrong_of(named("people", training), "random", noise()["people-single-plain"].end)[1] for training in TOLD
    ]
    worst = next((one["wrong"] for one in _audits() if one["labels"] == "worst" and "wrong" in one), None)
    return {"people": next(filter(None, answers), "some"), "worst": "many" if worst is None else f"{100 * worst:.1f} %"}


def _audits() -> list[dict[str, Any]]:
    path = journals.NOISE / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def noise_summary() -> str:
    """The README's tables on wrong labels: the annotators at the last budget, and the audit."""
    told = {
        "random": "random, one answer an item",
        "ncal": "ncal, one answer an item",
        "ncal, votes(n=3)": "ncal, three answers an item",
        "ncal, doubts(soft=True)": "ncal, label or ask again (`doubts(soft=True)`)",
    }
    cells: dict[str, list[str]] = {name: [] for name in told}
    whole = []
    for training in TOLD:
        names = named("people", training)
        curves, _ = curves_of(noise_runs(names))
        found = summary(curves)
        whole.append(pair_of(curves, "ncal, doubts(soft=True)", "ncal"))
        for name in told:
            beside = _beside(curves, name)[0]
            wrong = wrong_of(names, name, found["budgets"][-1])[1]
            cells[name] += [last_of(found, name) + (f", {beside}" if beside else ""), wrong]
    people = table(
        ["12,000 answers of three annotators", *(title for loss in TOLD.values() for title in (loss, "wrong"))],
        [[words, *cells[name]] for name, words in told.items()],
    )
    areas = "; ".join(
        f"trained with {loss} {gap(one)}, {place(one).rsplit(' ', 1)[0]}"
        for loss, one in zip(TOLD.values(), whole, strict=True)
    )
    people += (
        "\n\nTest accuracy, the difference to ncal with one answer an item in points (three seeds, 95 %), and how many of the labels learnt are wrong. Over the whole curve, label or ask again "
        f"less one answer an item: {areas}. The policy was changed twice after these seeds were looked at; fresh seeds are in the plan."
    )
    lines = _audits()
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
        "audit of 50,000 labels",
        "networks",
        *(f"{100 * share:.1f} % wrong" for share in wrong.values()),
    ]
    about = "Average precision of finding the wrong labels, mean over three seeds; trained with cross-entropy where nothing is said."
    return f"{people}\n\n{table(head, rows)}\n\n{about}"


def noise_runs(names: Iterable[str]) -> list[Run]:
    """The runs of some experiments under the names of the tables, as far as they went."""
    everything = {**noise(), **tried()}
    begun = [name for name in names if (journals.NOISE / name / "experiment.json").exists()]
    return [run for name in begun for run in runs_of(journals.NOISE / name, everything[name]) if run.accuracies]


def _noise_table(runs: list[Run], shown: list[str]) -> str:
    """Accuracy by answers of the shown ones; the runs hold ncal with single labels as well."""
    curves, _ = curves_of(runs)
    found = summary(curves)
    names = {run.journal.folder.parents[1].name for run in runs}
    rows = [
        [name, *budget_cells(found, name), *_beside(curves, name), *wrong_of(names, name, found["budgets"][-1])]
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
    found = pair_of(curves, own, other)
    effect = found.per_budget
    last = signed(Estimate(effect.mean[-1], effect.low[-1], effect.high[-1], np.array(found.seeds)))
    lead = [f"{budget:,.0f}" for budget, low in zip(curves.budgets, effect.low, strict=True) if low > 0]
    where = f", above at {', '.join(lead)}" if lead else ""
    own_, other_ = ("our policy" if "doubts" in name else f"{name}" for name in (own, other))
    one = f"{other_} with one answer an item" if "doubts" in own else other_
    return f"{own_} is {place(found)} {one} by area, {gap(found)}, at the end {last}{where}"


def pair_of(curves: Curves, own: str, other: str) -> Difference:
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
    effect = pair_of(curves, ours, "ncal").per_budget
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


def wrong_of(names: Collection[str], strategy: str, answers: int) -> list[str]:
    """How many labels the training with so many answers learnt, and how many of them are wrong."""
    found = [one[answers] for one in learnt(names, strategy).values() if answers in one]
    if not found:
        return ["", ""]
    items, wrong = np.mean(found, axis=0)
    return [f"{items:,.0f}", f"{100 * wrong:.1f} %"]


def wrong_picks(names: Collection[str], strategy: str) -> dict[int, float]:
    """The share of wrong labels among a strategy's own picks, by finished seed: without those that all began with."""
    found, last = {}, noise()[next(iter(names))].end
    for seed, budgets in learnt(names, strategy).items():
        if last in budgets:
            (began, wrong_first), (all_, wrong_last) = budgets[min(budgets)], budgets[last]
            found[seed] = (all_ * wrong_last - began * wrong_first) / (all_ - began)
    return found


def learnt(names: Collection[str], strategy: str) -> dict[int, dict[int, tuple[int, float]]]:
    """By seed and number of answers: how many labels were learnt, and which share of them is wrong."""
    path = journals.NOISE / "wrong.jsonl"
    found: dict[int, dict[int, tuple[int, float]]] = {}
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        if line["experiment"] in names and line["strategy"] == strategy:
            found.setdefault(line["seed"], {})[line["answers"]] = (line["items"], line["wrong"])
    return found


def named(kind: str, training: str) -> list[str]:
    """The experiments with some labels and a way to train on them."""
    return [name for name in noise() if name.startswith(f"{kind}-") and name.endswith(f"-{training}")]
