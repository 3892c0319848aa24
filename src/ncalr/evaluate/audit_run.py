"""Audit the labels of a run, or of vectors in a file, and report the findings as plain data and in words.

Where the experiment knows the truth (a study), the report says how well the audit did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.dataset import load
from ncalr.data.embeddings import read_embeddings
from ncalr.data.fingerprint import fingerprint
from ncalr.data.pool import positions_of
from ncalr.errors import BadInput, unknown
from ncalr.evaluate.audit import Audit, audit
from ncalr.evaluate.crossfit import crossfit
from ncalr.evaluate.ood_metrics import aupr_out, auroc
from ncalr.evaluate.rivals import RIVALS, check_rivals
from ncalr.lab.runner import Run, read_experiment, read_runs
from ncalr.loop.journal import check_data
from ncalr.loop.state import replay

Before = Callable[[dict[Any, str]], object]
"""Called with the labels by id before anything is trained; an error that it raises ends the audit."""


@dataclass(frozen=True)
class AuditReport:
    """An audit as plain data."""

    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    words: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """Return the findings in words."""
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
    """Return an audit of the labels that a run has so far, by networks that were not shown them."""
    check_rivals(rivals)
    experiment = read_experiment(folder)
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
    classes = list(dataset.classes)
    _show(before, ids, given, classes)
    fitted = crossfit(learner, dataset.pool, ids, given, len(classes), folds=folds, seed=run.seed)
    found = audit(
        fitted.features, given, logits=fitted.logits, log=fitted.log, ids=ids, folds=fitted.folds, rivals=rivals
    )
    return _report(whose, replace(found, classes=classes), truth)


def audit_file(
    path: Path | str,
    labels: Any = None,
    *,
    ids: Any = None,
    seed: int = 0,
    rivals: Sequence[str] = (),
    before: Before | None = None,
) -> AuditReport:
    """Return an audit of the labels of vectors in files, as `ncalr.data.embeddings` reads them."""
    items = read_embeddings(path, labels, ids)
    known = items.labels >= 0
    if not known.any():
        raise BadInput(f"{path}: 0 of {len(known)} items have a label. Pass files with labels.")
    _show(before, items.pool.ids[known], items.labels[known], items.classes)
    found = audit(
        items.pool.read(np.arange(len(known))), items.labels, ids=items.pool.ids, classes=len(items.classes),
        seed=seed, rivals=rivals,
    )  # fmt: skip
    found = replace(found, classes=items.classes, notes=(*items.notes, *found.notes))
    return _report({"items": str(path), "seed": seed}, found)


def _show(before: Before | None, ids: Any, given: Any, classes: list[str]) -> None:
    if before is not None:
        before(dict(zip(ids.tolist(), (classes[number] for number in given), strict=True)))


def _report(whose: dict[str, Any], found: Audit, truth: Any = None) -> AuditReport:
    summary = {**whose, "labels": len(found.labels), **_shares(found)}
    summary["agreement"] = _agreement(found)
    wrong = np.zeros(len(found.labels), bool) if truth is None else found.labels != truth
    if wrong.any() and not wrong.all():
        judged = {name: _judged(found.details[name], wrong) for name in RIVALS if name in found.details}
        summary["known"] = {"wrong": float(wrong.mean()), **_judged(found.wrong, wrong), **judged}
    if found.notes:
        summary["notes"] = [*found.notes]
    return AuditReport(summary, found.rows(), _words(summary, found))


def _agreement(found: Audit) -> dict[str, float]:
    """Return how often the model gives the label, with Wilson's interval, and the share of the commonest class."""
    from scipy.stats import binomtest

    count = len(found.labels)
    between = binomtest(round(found.agreement * count), count).proportion_ci(method="wilson")
    usual = np.bincount(found.labels).max() / count
    return {
        "share": found.agreement,
        "low": float(between.low),
        "high": float(between.high),
        "commonest class": float(usual),
    }


def _judged(doubt: Any, wrong: Any) -> dict[str, float]:
    """Return how well a doubt finds the wrong labels."""
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
    """Return a learner for the folds: the run's recipe, with a loss that does not learn wrong labels by heart."""
    from ncalr.learn import TorchLearner
    from ncalr.learn.recipes import recipe

    chosen = recipe(named)
    if change and chosen.loss == "cross_entropy" and not chosen.mixup:
        chosen = replace(chosen, loss="elr")
    return TorchLearner(network, chosen, device=device, progress=progress, together=6)


def _shares(found: Audit) -> dict[str, Any]:
    share = found.share
    assert share is not None  # noqa: S101 (there are logits)
    by_class = {
        name: [None if np.isnan(value) else float(value) for value in values]
        for name, *values in zip(found.classes, share.by_class, share.low_by_class, share.high_by_class, strict=True)
    }
    shares = {"wrong": share.share, "low": share.low, "high": share.high, "recheck": share.recheck}
    return {**shares, "expected": found.expected, "by class": by_class}


def _words(summary: dict[str, Any], found: Audit) -> list[str]:
    assert found.share is not None  # noqa: S101 (there are logits)
    whose = summary.get("items") or summary["strategy"]
    lines = [f"{whose}, seed {summary['seed']}: {summary['labels']:,} labels; {found.share.words}"]
    if found.expected:
        lines.append(f"look at the first {found.expected:,}: so many wrong labels are expected in the list")
    known = [(name, values) for name, values in summary["by class"].items() if values[0] is not None]
    worst = sorted(known, key=lambda pair: -pair[1][0])[:3]
    lines.append("most doubtful classes: " + ", ".join(f"{name} {values[0]:.0%}" for name, values in worst))
    agreed = summary["agreement"]
    lines.append(
        f"models that were not shown a label agree with {agreed['share']:.1%} of the labels ({agreed['low']:.1%} to "
        f"{agreed['high']:.1%}); the commonest class has {agreed['commonest class']:.1%}"
    )
    if "known" in summary:
        truth = summary["known"]
        lines.append(
            f"the truth is known here: {truth['wrong']:.1%} are wrong; the list has an AUROC of {truth['auroc']:.3f} "
            f"and an average precision of {truth['average precision']:.3f}"
        )
        lines += [
            f"{name} on the same models: {values['auroc']:.3f} and {values['average precision']:.3f}"
            for name, values in truth.items()
            if isinstance(values, dict)
        ]
    return lines
