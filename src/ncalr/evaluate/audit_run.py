"""Audit the labels of a run, or of vectors in a file: cross-fit networks on them, judge, and say what was found.

Where the experiment knows the truth (a study), how well the audit did is said too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.dataset import load
from ncalr.data.embeddings import Embeddings, by_index, read_embeddings, vector_pool
from ncalr.data.fingerprint import fingerprint
from ncalr.data.pool import positions_of
from ncalr.data.tables import numbers_as_names
from ncalr.errors import BadInput, unknown
from ncalr.evaluate.audit import Audit, audit
from ncalr.evaluate.crossfit import crossfit
from ncalr.evaluate.ood_metrics import aupr_out, auroc
from ncalr.evaluate.rivals import doubts_of
from ncalr.lab.runner import Run, read_experiment, read_runs
from ncalr.learn.recipes import HEAD
from ncalr.learn.suggest import class_numbers
from ncalr.loop.journal import check_data
from ncalr.loop.state import replay

Before = Callable[[dict[Any, str]], object]
"""Is shown the labels by id before anything is trained; what it raises ends the audit."""


@dataclass(frozen=True)
class AuditReport:
    """An audit as plain data."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    words: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """What was found, in words."""
        notes = (f"note: {note}" for note in self.summary.get("notes", []))
        return "\n  ".join(["AuditReport:", *self.words, *notes])


def audit_run(
    folder: Path | str,
    *,
    strategy: str = "",
    seed: int | None = None,
    folds: int = 3,
    recipe: str = "",
    root: Path | str | None = None,
    device: Any = None,
    learner: Any = None,
    rivals: Sequence[str] = (),
    before: Before | None = None,
) -> AuditReport:
    """The labels that a run has so far, judged by networks that were not shown them; `before` sees the labels first."""
    experiment = read_experiment(folder)
    _check_rivals(rivals)
    dataset = load(experiment.dataset, root)
    check_data(Path(folder), fingerprint(dataset))
    run = _chosen(read_runs(folder), strategy, seed)
    labels = replay(run.lines).labels
    if not labels:
        raise BadInput(f"{folder}: the run of {run.strategy} with seed {run.seed} has no labels yet")
    ids, given = np.array(list(labels)), np.array(list(labels.values()), np.int64)
    if learner is None:
        learner = tolerant_learner(experiment.network, recipe or experiment.recipe, device, change=not recipe)
    truth = dataset.labels[positions_of(dataset.pool, ids)]
    whose = {"strategy": run.strategy, "seed": run.seed}
    labelled = _Labels(dataset.pool, ids, given, dataset.classes, truth)
    labelled.show(before)
    return _report(whose, learner, folds, rivals, labelled)


def audit_vectors(
    items: Any,
    labels: Any = None,
    *,
    ids: Any = None,
    seed: int = 0,
    folds: int = 3,
    recipe: str = "",
    device: Any = None,
    rivals: Sequence[str] = (),
    before: Before | None = None,
) -> AuditReport:
    """The labels of vectors, judged by perceptrons that were not shown them: which to check again, the doubtful first.

    Vectors and labels are arrays, as `ncalr.suggest` takes them, or files (`ncalr.data.embeddings`). Of the report,
    `rows` has a dictionary a label, `words` what is to be said of all of them, and `summary` the same as numbers.
    `before` is called with the labels by id before anything is trained.
    """
    _check_rivals(rivals)
    found = read_embeddings(items, labels, ids) if isinstance(items, str | Path) else _given(items, labels, ids)
    known = found.labels >= 0
    whose = str(items) if isinstance(items, str | Path) else "the vectors"
    if known.sum() < 2 * folds:
        raise BadInput(
            f"{whose}: {known.sum()} of {len(known)} items have a label; an audit with {folds} folds needs {2 * folds}"
        )
    learner = tolerant_learner(HEAD[0], recipe or HEAD[1], device, change=not recipe)
    labelled = _Labels(found.pool, found.pool.ids[known], found.labels[known], found.classes)
    labelled.show(before)
    return _report({"items": whose, "seed": seed}, learner, folds, rivals, labelled, found.notes)


def _given(vectors: Any, labels: Any, ids: Any) -> Embeddings:
    """Arrays in the place of files."""
    if isinstance(labels, str | Path):
        raise BadInput(f"labels from a file ({labels}) go with a file of vectors; got the vectors as an array")
    labels, ids = by_index(vectors, labels, ids)
    pool = vector_pool(vectors, ids)
    numbers, names = class_numbers(labels, pool)
    return Embeddings(pool, numbers, names or numbers_as_names(int(numbers.max(initial=-1)), "the labels"))


def _check_rivals(rivals: Sequence[str]) -> None:
    """One that is not there is missed before anything is trained."""
    for rival in rivals:
        doubts_of(rival, np.eye(2), np.arange(2))


@dataclass(frozen=True)
class _Labels:
    """What is audited; the truth where it is known."""

    pool: Any
    ids: Any
    given: Any
    classes: list[str]
    truth: Any = None

    def show(self, before: Before | None) -> None:
        """Give whoever asked for it a look at them."""
        if before is not None:
            before(dict(zip(self.ids.tolist(), (self.classes[number] for number in self.given), strict=True)))


def _report(
    whose: dict[str, Any], learner: Any, folds: int, rivals: Sequence[str], of: _Labels, notes: Sequence[str] = ()
) -> AuditReport:
    ids, given, classes = of.ids, of.given, of.classes
    fitted = crossfit(learner, of.pool, ids, given, len(classes), folds=folds, seed=whose["seed"])
    arrays = (fitted.features, fitted.logits, given, fitted.log)
    found = audit(*arrays, classes=len(classes), folds=fitted.folds, rivals=rivals)
    summary = {**whose, "labels": len(ids), **_shares(found, classes)}
    summary["agreement"] = _agreement(fitted.logits.argmax(axis=1), given)
    wrong = np.zeros(len(ids), bool) if of.truth is None else given != of.truth
    if wrong.any() and not wrong.all():
        judged = {name: _judged(found.details[name], wrong) for name in rivals}
        summary["known"] = {"wrong": float(wrong.mean()), **_judged(found.doubt, wrong), **judged}
    if notes or found.notes:
        summary["notes"] = [*notes, *found.notes]
    return AuditReport(summary, found.rows(None, ids, classes), _words(summary))


def _agreement(said: Any, given: Any) -> dict[str, float]:
    """How often labels are what networks say that were not shown them (Wilson's interval), and the commonest class."""
    from scipy.stats import binomtest

    right = int((said == given).sum())
    between = binomtest(right, len(given)).proportion_ci(method="wilson")
    usual = np.bincount(given).max() / len(given)
    return {
        "share": right / len(given),
        "low": float(between.low),
        "high": float(between.high),
        "commonest class": float(usual),
    }


def _judged(doubt: Any, wrong: Any) -> dict[str, float]:
    """How well a doubt finds the wrong labels."""
    right, other = -doubt[~wrong], -doubt[wrong]
    return {"auroc": auroc(right, other), "average precision": aupr_out(right, other)}


def _chosen(runs: list[Run], strategy: str, seed: int | None) -> Run:
    names = list(dict.fromkeys(run.strategy for run in runs))
    if strategy and strategy not in names:
        raise unknown("strategy in this experiment", strategy, names)
    found = [run for run in runs if run.strategy == (strategy or names[0]) and seed in (None, run.seed)]
    if not found:
        raise BadInput(f"no run with seed {seed}; there are {sorted({run.seed for run in runs})}")
    return found[0]


def tolerant_learner(
    network: str, named: str, device: Any, *, change: bool = True, progress: bool | None = None
) -> Any:
    """A learner for the folds: the run's recipe, with a loss that does not learn wrong labels by heart."""
    from ncalr.learn import TorchLearner
    from ncalr.learn.recipes import recipe

    chosen = recipe(named)
    if change and chosen.loss == "cross_entropy" and not chosen.mixup:
        chosen = replace(chosen, loss="elr")
    return TorchLearner(network, chosen, device=device, progress=progress, together=6)


def _shares(found: Audit, classes: list[str]) -> dict[str, Any]:
    share = found.share
    assert share is not None  # noqa: S101 (cross-fitting gives logits)
    by_class = {
        name: [None if np.isnan(value) else float(value) for value in values]
        for name, *values in zip(classes, share.by_class, share.low_by_class, share.high_by_class, strict=True)
    }
    return {"wrong": share.share, "low": share.low, "high": share.high, "by class": by_class}


def _words(summary: dict[str, Any]) -> list[str]:
    whose = summary.get("items") or summary["strategy"]
    most = ceil(summary["high"] * summary["labels"])
    lines = [
        f"{whose}, seed {summary['seed']}: {summary['labels']:,} labels, of which an estimated {summary['wrong']:.1%} "
        f"are wrong ({summary['low']:.1%} to {summary['high']:.1%})" + (f": look at the first {most:,}" if most else "")
    ]
    known = [(name, values) for name, values in summary["by class"].items() if values[0] is not None]
    worst = sorted(known, key=lambda pair: -pair[1][0])[:3]
    lines.append("most doubtful classes: " + ", ".join(f"{name} {values[0]:.0%}" for name, values in worst))
    agreed = summary["agreement"]
    lines.append(
        f"networks agree with {agreed['share']:.1%} of the labels that they were not shown ({agreed['low']:.1%} to "
        f"{agreed['high']:.1%}); the commonest class has {agreed['commonest class']:.1%}"
    )
    if "known" in summary:
        known_ = summary["known"]
        lines.append(
            f"the truth is known here: {known_['wrong']:.1%} are wrong; the list has an AUROC of {known_['auroc']:.3f} "
            f"and an average precision of {known_['average precision']:.3f}"
        )
        lines += [
            f"{name} on the same networks: {values['auroc']:.3f} and {values['average precision']:.3f}"
            for name, values in known_.items()
            if isinstance(values, dict)
        ]
    return lines
