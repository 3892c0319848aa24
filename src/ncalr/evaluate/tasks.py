"""What can be asked of a model beyond its accuracy: one function a task, each a thin coat over a pure one.

A task takes a `Subject` and the `Wishes` of whoever asks, and gives an `Evaluation`: numbers by name, plain data. The
names of the numbers a person wants to see first stand in `shown`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.pool import positions_of
from ncalr.errors import BadInput
from ncalr.evaluate.strangers import NOVEL, UNNAMED, examples, strangers
from ncalr.evaluate.subjects import Subject
from ncalr.geometry import ClassStatistics, class_distances, cma, measure_collapse, separation_of
from ncalr.lab.evaluations import Limits

GROUPS = ("near", "far")
READ = {
    "ood": ("ood", "scores"),
    "probe": ("probes", "seed"),
    "discovery": ("variant", "inits", "assignment", "estimate", "seed"),
    "transfer": ("network",),
    "audit": ("seed",),
}
"""What a task reads of the wishes; the others read nothing."""
SHARE: Limits = (0.0, 1.0)
POSITIVE: Limits = (0.0, None)
COSINE: Limits = (-1.0, 1.0)


@dataclass(frozen=True)
class Wishes:
    """What the tasks are to look at. What a task reads of it is stored with the results."""

    ood: tuple[str, ...] = ()  # OOD sets, "near:cifar100" or "far:svhn10k(size=32)"; the held-out classes if none
    scores: tuple[str, ...] = ()  # OOD scores; all if none
    probes: tuple[str, ...] = ()  # datasets to probe the frozen features on
    network: str = ""  # another network, for the transfer
    inits: int = 10  # initialisations of the discovery's k-means
    variant: str = "B"  # of the discovery: A, or B
    assignment: str = "v2"  # of its clusters to classes: v2, one for all items, or v1, one for old and one for new
    estimate: int = 0  # whether it estimates the number of classes: up to so many, or not at all
    seed: int = 0
    root: Path | str | None = field(default=None, compare=False)

    def of(self, task: str) -> dict[str, Any]:
        """Those that a task reads, as plain data: evaluations that have them in common are the same."""
        own = asdict(self)
        return {name: list(own[name]) if isinstance(own[name], tuple) else own[name] for name in READ.get(task, ())}


@dataclass(frozen=True)
class Evaluation:
    """What a task found."""

    values: dict[str, float]
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)  # what is not a number: a histogram
    limits: dict[str, Limits] = field(default_factory=dict)  # between what a value can lie


def collapse(subject: Subject, wishes: Wishes) -> Evaluation:  # noqa: ARG001 (a task takes both)
    """NC1 to NC4 and CMA on the labelled set, in float64."""
    seen = subject.labelled
    weights = subject.head[0] if subject.head else None
    found = measure_collapse(
        seen.features, seen.labels, _classes(subject), weights=weights, predictions=seen.logits.argmax(axis=1)
    )
    values = {name: float(value) for name, value in asdict(found).items() if name not in ("items", "classes")}
    limits = dict.fromkeys(values, POSITIVE) | {"nc4": SHARE, "cma": COSINE}
    return Evaluation(values, ("nc1", "nc2_equinorm", "nc2_equiangular", "nc3", "nc4", "cma"), limits=limits)


def separation(subject: Subject, wishes: Wishes) -> Evaluation:  # noqa: ARG001
    """Distances between class means (raw, and over the mean length of the features), cosines, centred and not."""
    seen = subject.labelled
    statistics = ClassStatistics.from_labelled(seen.features, seen.labels, _classes(subject))
    distances = class_distances(statistics)
    if not len(distances):
        raise BadInput("the separation of class means needs labels of at least two classes")
    length = float(np.linalg.norm(seen.features.astype(np.float64), axis=1).mean())
    centred, _ = statistics.centred()
    values = {
        "distance": float(distances.mean()),
        "nearest distance": float(distances.min()),
        "distance over feature norm": float(distances.mean() / length),
        "nearest distance over feature norm": float(distances.min() / length),
        "cosine (CMA)": cma(statistics),
        "cosine, centred": cma(centred),
    }
    shown = ("distance", "distance over feature norm", "nearest distance over feature norm", "cosine (CMA)")
    limits = {name: COSINE if "cosine" in name else POSITIVE for name in values}
    more = {"histogram": separation_of(statistics)}
    return Evaluation(values, (*shown, "cosine, centred"), more=more, limits=limits)


def calibration(subject: Subject, wishes: Wishes) -> Evaluation:  # noqa: ARG001
    """ECE, NLL, Brier score and accuracy against coverage, on the test set."""
    from ncalr.evaluate.calibration import accuracy_coverage, probabilities
    from ncalr.evaluate.calibration import calibration as measure

    probs, labels = probabilities(subject.tested.logits), subject.tested.labels
    values = measure(probs, labels)
    coverage, accuracy = accuracy_coverage(probs, labels)
    drawn = np.ceil(np.linspace(0, 1, 21)[1:] * len(labels)).astype(int) - 1  # every twentieth
    curve = {"coverage": coverage[drawn].tolist(), "accuracy": accuracy[drawn].tolist()}
    limits = dict.fromkeys(values, SHARE) | {"nll": POSITIVE, "brier": (0.0, 2.0)}
    return Evaluation(values, ("ece", "nll", "brier", "aurc"), more={"coverage": curve}, limits=limits)


def tail(subject: Subject, wishes: Wishes) -> Evaluation:  # noqa: ARG001
    """Accuracy in the head, middle and tail of the pool's classes, and how much of each was picked since the start."""
    from ncalr.evaluate.tail import tail_accuracy, tail_picks

    counts = np.bincount(subject.dataset.labels, minlength=_classes(subject))
    picked = subject.dataset.labels[positions_of(subject.dataset.pool, subject.picked)]
    accuracies = tail_accuracy(subject.tested.logits.argmax(axis=1), subject.tested.labels, counts)
    values = {f"accuracy, {name}": value for name, value in accuracies.items()}
    limits = dict.fromkeys(values, SHARE)
    values |= {f"picked over expected, {name}": value for name, value in tail_picks(picked, counts).items()}
    return Evaluation(values, tuple(values), limits=dict.fromkeys(values, POSITIVE) | limits)


def ood(subject: Subject, wishes: Wishes) -> Evaluation:
    """OOD detection by scores fitted on the labelled set; near, far and other sets, classes that overlap removed."""
    from ncalr.evaluate.ood import MEAN, detect, fit
    from ncalr.evaluate.ood_overlap import without_overlap

    groups: dict[str, dict[str, Any]] = {}
    notes = []
    for wish in wishes.ood or (NOVEL,):
        group, name = _grouped(wish)
        found = subject.once(strangers, name, wishes.root)
        named = found.labels != UNNAMED
        disjoint = without_overlap(found.labels[named], found.kinds, subject.dataset.kinds)
        notes += [f"{name}: {disjoint.note}"] if disjoint.note else []
        strange = ~named
        strange[named] = disjoint.keep
        if not strange.any():
            raise BadInput(f"every class of {name} is trained on; nothing is left as an OOD set")
        groups.setdefault(group, {})[name] = subject.outputs(found.pool, found.pool.ids[strange])
    seen = subject.labelled
    weight, bias = subject.head or (None, None)
    detectors = fit(
        seen.features, seen.labels, weight=weight, bias=bias, classes=_classes(subject), scores=wishes.scores or None
    )
    result = detect(detectors, (subject.tested.features, subject.tested.logits), groups)
    values = {
        f"{row['score']}, {row['group'] if row['set'] == MEAN else row['set']}, {measure}": row[measure]
        for row in result.rows
        for measure in ("auroc", "aupr_in", "aupr_out", "fpr95_ood_pos", "fpr95_id_pos")
    }
    shown = [f"{row['score']}, {row['group']}, auroc" for row in result.rows if row["set"] == MEAN]
    return Evaluation(values, tuple(shown), (*notes, *result.notes), limits=dict.fromkeys(values, SHARE))


def probe(subject: Subject, wishes: Wishes) -> Evaluation:
    """Linear probes on the frozen features, over the datasets that were named."""
    from ncalr.evaluate.probe import probe as fit_probe

    if not wishes.probes:
        raise BadInput("a probe needs datasets: --probe cifar100,flowers102(size=32)")
    values: dict[str, float] = {}
    notes: list[str] = []
    for name in wishes.probes:
        found = subject.once(examples, name, wishes.root)
        train, _ = subject.outputs(found.pool)
        test, _ = subject.outputs(found.test)
        result = fit_probe(train, found.labels, test, found.test_labels, seed=wishes.seed, device=subject.place)
        values |= {f"{name}, top1": result.top1, f"{name}, mean per class": result.mean_per_class}
        notes += [f"{name}: C = {result.C:g}" + (" (at the edge of the grid)" if result.at_edge else "")]
    values["mean of top1"] = float(np.mean([values[f"{name}, top1"] for name in wishes.probes]))
    shown = tuple(name for name in values if "top1" in name)
    return Evaluation(values, shown, tuple(notes), limits=dict.fromkeys(values, SHARE))


def discovery(subject: Subject, wishes: Wishes) -> Evaluation:
    """Generalized category discovery: known classes with labels, the others to be found among what is unlabelled."""
    from ncalr.evaluate.discovery import UNLABELLED, discover, estimate_classes

    apart = subject.dataset.apart
    if apart is None or apart.pool is None or not apart.classes:
        raise BadInput(
            f"{subject.dataset.name} holds no classes out; discovery needs a run on known classes, for instance "
            "cifar100(known=60, share=0.5)"
        )
    known = _classes(subject)
    features, _ = subject.outputs(apart.pool)
    if wishes.variant == "A":
        labelled, labels = subject.labelled.features, subject.labels
    elif wishes.variant == "B":
        labelled, labels = subject.outputs(subject.dataset.pool)[0], subject.dataset.labels
    else:
        raise BadInput(
            f"variant must be A (labelled: what the run asked for) or B (the whole pool), got {wishes.variant!r}"
        )
    found = discover(
        labelled, labels, features, apart.labels, known=known, classes=known + len(apart.classes),
        variant=wishes.variant, version=wishes.assignment, inits=wishes.inits, seed=wishes.seed, device=subject.place,
    )  # fmt: skip
    values = {"all": found.all, "old": found.old, "new": found.new}
    limits = dict.fromkeys(values, SHARE)
    if wishes.estimate:
        everything = np.concatenate([labelled, features])
        given = np.concatenate([labels, np.full(len(features), UNLABELLED)])
        number = estimate_classes(everything, given, most=wishes.estimate, seed=wishes.seed, device=subject.place)
        values["estimated classes"] = float(number.classes)
        limits["estimated classes"] = POSITIVE
    return Evaluation(values, tuple(values), (found.protocol, f"{wishes.inits} initialisations"), limits=limits)


def transfer(subject: Subject, wishes: Wishes) -> Evaluation:
    """Another network trained on the same labels, tested on the same items."""
    from ncalr.learn import Job, TorchLearner

    if not wishes.network:
        raise BadInput("a transfer needs another network: --network wide_resnet, or any that `ncalr run` takes")
    learner = TorchLearner(wishes.network, subject.experiment.recipe, device=subject.device, progress=False)
    job = Job(
        subject.dataset.pool, subject.ids, subject.labels, _classes(subject),
        seed=subject.run.seed, round=subject.round, watch=[],
    )  # fmt: skip
    predicted = np.asarray(learner.fit(job).predict(subject.dataset.test)).argmax(axis=1)
    accuracy = float((predicted == subject.dataset.test_labels).mean())
    values = {f"accuracy of {wishes.network}": accuracy, "its own accuracy": subject.accuracy}
    return Evaluation(values, tuple(values), limits=dict.fromkeys(values, SHARE))


def audit(subject: Subject, wishes: Wishes) -> Evaluation:
    """Return the estimated share of wrong labels, by networks that were not shown them, and how well they are found."""
    from ncalr.evaluate.audit import audit as judge
    from ncalr.evaluate.audit_run import tolerant_learner
    from ncalr.evaluate.crossfit import crossfit
    from ncalr.evaluate.ood_metrics import aupr_out, auroc

    dataset, classes = subject.dataset, _classes(subject)
    own = subject.experiment
    learner = tolerant_learner(own.network, own.recipe, subject.device, progress=False)
    fitted = crossfit(learner, dataset.pool, subject.ids, subject.labels, classes, seed=wishes.seed)
    found = judge(fitted.features, subject.labels, logits=fitted.logits, log=fitted.log, folds=fitted.folds)
    assert found.share is not None  # noqa: S101 (cross-fitting gives logits)
    values = {"estimated share wrong": found.share.share, "low": found.share.low, "high": found.share.high}
    wrong = subject.labels != dataset.labels[positions_of(dataset.pool, subject.ids)]
    values["known share wrong"] = float(wrong.mean())
    if wrong.any() and not wrong.all():
        values["AUROC of the doubts"] = auroc(-found.wrong[~wrong], -found.wrong[wrong])
        values["average precision of the doubts"] = aupr_out(-found.wrong[~wrong], -found.wrong[wrong])
    shown = tuple(name for name in values if name not in ("low", "high"))
    return Evaluation(values, shown, limits=dict.fromkeys(values, SHARE))


TASKS: dict[str, Callable[[Subject, Wishes], Evaluation]] = {
    "collapse": collapse,
    "separation": separation,
    "calibration": calibration,
    "tail": tail,
    "ood": ood,
    "probe": probe,
    "discovery": discovery,
    "transfer": transfer,
    "audit": audit,
}
"""Every task by name."""


def _classes(subject: Subject) -> int:
    return len(subject.dataset.classes)


def _grouped(wish: str) -> tuple[str, str]:
    group, colon, name = wish.partition(":")
    return (group, name) if colon and group in GROUPS else ("other", wish)
