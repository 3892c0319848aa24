"""Out-of-distribution detection: fit scores on the labelled set, compare an ID test set with OOD sets.

    detectors = fit(features, labels, weight=head.weight, bias=head.bias)
    found = detect(detectors, test_features, {"near": {"cifar100": near}, "far": {"svhn": far, "textures": more}})
    found.rows        one dictionary a score and set, and the unweighted mean of each group
    found.notes       what was done otherwise than the defaults say

The scores and their options are in `ood_scores.py`, what the measures mean in `ood_metrics.py`, and how classes that
are trained on are taken out of an OOD set in `ood_overlap.py`. Near and far are the caller's words: OpenOOD v1.5 calls
CIFAR-100 and Tiny-ImageNet near to CIFAR-10, and MNIST, SVHN, textures and places far from it; the figure of a group
is the mean of its sets, whatever their sizes (Zhang et al. 2023).

    >>> import numpy as np
    >>> labelled, outside = np.array([[2.0, 0], [3, 0], [0, 2], [0, 3]]), np.array([[-1.0, -1], [1, 1]])
    >>> detectors = fit(labelled, [0, 0, 1, 1], scores=["knn(k=1)"])
    >>> [round(row["auroc"], 2) for row in detect(detectors, labelled, {"near": {"away": outside}}).rows]
    [1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncalr.acquire.door import counted_from_one
from ncalr.acquire.registry import options_of
from ncalr.acquire.spec import Spec, parse
from ncalr.errors import BadInput, NotFinite, check_known, whole_number
from ncalr.evaluate.ood_covariance import Floats, blocks
from ncalr.evaluate.ood_metrics import METRICS, detection_metrics
from ncalr.evaluate.ood_scores import Fitted, Head, Items, Labelled, Score
from ncalr.evaluate.ood_scores import scores as known_scores
from ncalr.kernels import to_numpy

MEAN = "(mean)"
"""What stands for the set in the row of a group's mean."""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Detectors:
    """Scores fitted on one labelled set."""

    fitted: dict[str, Fitted]
    dimensions: int
    head: Head | None
    notes: tuple[str, ...]

    def score(self, features: Any, logits: Any = None, what: str = "items") -> dict[str, Floats]:
        """Each score of each item (n,), higher = more in-distribution; `what` names the items in errors."""
        rows = _features(f"features of {what}", features)
        if not len(rows):
            raise BadInput(f"{what}: no items; a set needs at least one")
        if rows.shape[1] != self.dimensions:
            raise BadInput(
                f"features of {what} have {rows.shape[1]} dimensions, those of the labelled set {self.dimensions}; "
                "take both from the same layer of the same network"
            )
        given = None if logits is None else self._logits(f"logits of {what}", logits, len(rows))
        found: dict[str, list[Floats]] = {name: [] for name in self.fitted}
        for part in blocks(*rows.shape):
            items = Items(rows[part].astype(np.float64), self.head, None if given is None else given[part])
            with np.errstate(over="ignore", invalid="ignore"):  # seen below, where it can be explained
                for name, fitted in self.fitted.items():
                    found[name].append(fitted.score(items))
        return {name: _finite_scores(name, what, np.concatenate(parts)) for name, parts in found.items()}

    def _logits(self, name: str, given: Any, n: int) -> Floats:
        logits = _numbers(name, given)
        fits = logits.ndim == 2 and len(logits) == n and logits.shape[1] > 0
        if not fits or (self.head is not None and logits.shape[1] != len(self.head.bias)):
            classes = "classes" if self.head is None else len(self.head.bias)
            raise BadInput(f"{name} must have shape ({n}, {classes}), a row an item; got {logits.shape}")
        return np.asarray(logits, np.float64)


@dataclass(frozen=True)
class Detection:
    """What `detect` found."""

    rows: list[Row]  # score, set, group, items, and the measures of `METRICS`
    notes: tuple[str, ...]


def fit(
    features: Any,
    labels: Any,
    *,
    weight: Any = None,
    bias: Any = None,
    classes: int | None = None,
    scores: Iterable[str | Spec] | None = None,
) -> Detectors:
    """Fit scores on labelled features (n, d) with labels 0..classes-1; all nine unless `scores` names some.

    `weight` (classes, d) and `bias` (classes,) are the network's last layer; without a bias it is 0. Without a last
    layer "all" are those that need none, and a note says so. A score may have options, `knn(k=10)`, and may stand in
    the list several times with different ones.
    """
    labelled = _labelled(features, labels, weight, bias, classes)
    possible = [name for name, one in known_scores().items() if labelled.head is not None or "head" not in one.needs]
    chosen = _chosen(possible if scores is None else scores)
    fitted = {str(spec): known.fit(labelled, **spec.options) for spec, known in chosen}
    notes = [] if weight is not None or classes is not None else [*counted_from_one(labelled.labels)]
    notes += [f"{name}: {note}" for name, one in fitted.items() for note in one.notes]
    if scores is None and len(possible) < len(known_scores()):
        notes.append(f"{', '.join(sorted(set(known_scores()) - set(possible)))}: left out, no last layer was passed")
    return Detectors(fitted, labelled.dimensions, labelled.head, tuple(notes))


def detect(detectors: Detectors, inside: Any, outside: Mapping[str, Mapping[str, Any]]) -> Detection:
    """Every measure of every score: the ID test set `inside` against each OOD set, `outside[group][name]`.

    A set is its features (n, d), or a pair (features, logits).
    """
    if not any(outside.values()):
        raise BadInput("no OOD sets given: pass {'near': {name: features}, 'far': {...}}")
    at_home = detectors.score(*_pair(inside), what="the ID test set")
    away = {
        group: {name: detectors.score(*_pair(given), what=f"OOD set {name!r}") for name, given in sets.items()}
        for group, sets in outside.items()
        if sets
    }
    rows: list[Row] = []
    for score, home in at_home.items():
        for group, sets in away.items():
            found = [_row(score, name, group, home, scored[score]) for name, scored in sets.items()]
            rows += [*found, _mean(found)]
    return Detection(rows, detectors.notes)


def _row(score: str, name: str, group: str, inside: Floats, outside: Floats) -> Row:
    facts = {"score": score, "set": name, "group": group, "items": len(outside)}
    return {**facts, **detection_metrics(inside, outside)}


def _mean(rows: list[Row]) -> Row:
    """The mean of a group: every set counts the same."""
    items = sum(row["items"] for row in rows)
    measures = {name: float(np.mean([row[name] for row in rows])) for name in METRICS}
    return {**rows[0], "set": MEAN, "items": items, **measures}


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, tuple):
        return given, None
    if len(given) != 2:
        raise BadInput(f"a set is its features or a pair (features, logits), got {len(given)} things")
    return given


# -- the door -------------------------------------------------------------------------------------------------


def _chosen(given: Iterable[str | Spec]) -> list[tuple[Spec, Score]]:
    specs = [parse(one) if isinstance(one, str) else one for one in ([given] if isinstance(given, str) else given)]
    if not specs:
        raise BadInput(f"no scores given; choose among {', '.join(known_scores())}")
    return [(spec, _known(spec)) for spec in specs]


def _known(spec: Spec) -> Score:
    known = known_scores()
    check_known("OOD score", spec.name, known)
    options = options_of(known[spec.name].fit)
    for name in spec.options:
        check_known(f"option of OOD score {spec.name!r} called", name, options)
    return known[spec.name]


def _labelled(features: Any, labels: Any, weight: Any, bias: Any, classes: int | None) -> Labelled:
    rows, labels = _features("labelled features", features), to_numpy(labels)
    if not len(rows):
        raise BadInput("no labelled items; scores are fitted on the labelled set")
    if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
        raise BadInput(
            f"{len(rows)} labelled features need as many labels, whole numbers; got {labels.dtype} of {labels.shape}"
        )
    head = _head(weight, bias, rows.shape[1])
    known = len(head.bias) if head is not None else int(labels.max()) + 1
    if head is not None and classes not in (None, known):
        raise BadInput(f"weight has {known} rows, one a class, but classes = {classes}")
    count = known if classes is None else whole_number("classes", classes, 1)
    if labels.min() < 0 or labels.max() >= count:
        wrong = int(((labels < 0) | (labels >= count)).sum())
        raise BadInput(
            f"labels must lie in 0..{count - 1}, got {labels.min()}..{labels.max()} ({wrong} outside); "
            "leave out items without a label"
        )
    return Labelled(rows, labels, count, head)


def _head(weight: Any, bias: Any, d: int) -> Head | None:
    if weight is None:
        if bias is not None:
            raise BadInput("a bias without weights: pass weight= (classes, d) as well")
        return None
    rows = _numbers("weight", weight)
    if rows.ndim != 2 or rows.shape[1] != d or not len(rows):
        raise BadInput(f"weight must have shape (classes, {d}), a row a class and a column a feature; got {rows.shape}")
    shift = np.zeros(len(rows)) if bias is None else _numbers("bias", bias)
    if shift.shape != (len(rows),):
        raise BadInput(f"bias must have shape ({len(rows)},), one number a class; got {shift.shape}")
    return Head(rows.astype(np.float64), shift.astype(np.float64))


def _features(name: str, given: Any) -> Any:
    array = _numbers(name, given)
    if array.ndim != 2 or not array.shape[1]:
        raise BadInput(f"{name} must have shape (items, d), got {array.shape}; flatten feature maps or take their mean")
    return array


def _numbers(name: str, given: Any) -> Any:
    """An array of finite numbers, looked at in blocks."""
    try:
        array = to_numpy(given)
    except ValueError as error:
        raise BadInput(f"{name} cannot be made an array ({error}); rows must have the same length") from None
    if array.dtype.kind not in "fiu" or not array.ndim:
        raise BadInput(f"{name} must be an array of numbers, got {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "f" and array.size:
        _check_finite(name, array)
    return array


def _check_finite(name: str, array: Any) -> None:
    bad, first = 0, None
    for rows in blocks(len(array), array[:1].size):
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(array[rows].sum()):  # one bad value spoils the sum, and a sum is one quick pass
                continue
        places = np.argwhere(~np.isfinite(array[rows]))
        if len(places) and first is None:
            first = [int(places[0][0]) + rows.start, *places[0][1:].tolist()]
        bad += len(places)
    if first is not None:
        raise NotFinite(
            f"{name}: {bad} values are NaN or infinite, the first at [{', '.join(map(str, first))}]; "
            "check the network's outputs, or drop those items"
        )


def _finite_scores(name: str, what: str, values: Floats) -> Floats:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise NotFinite(
            f"{name} of {what}: {len(bad)} scores are NaN or infinite, the first of item {bad[0]}; "
            "its features or logits are too large to be squared"
        )
    return values
