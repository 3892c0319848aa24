"""How well a score tells in-distribution (ID) from out-of-distribution (OOD) items. Higher scores = more ID.

    auroc           P(ID > OOD) + P(ID = OOD) / 2: the area under the ROC curve with ties averaged. The same number
                    whichever class is called positive.
    aupr_in         area under precision over recall, ID positive
    aupr_out        the same, OOD positive, the score negated
    fpr95_ood_pos   OOD positive: share of the ID items flagged at the threshold that catches 95 % of the OOD items
                    (OpenOOD v1.5)
    fpr95_id_pos    ID positive: share of the OOD items accepted at the threshold that accepts 95 % of the ID items
                    (energy, KNN and ViM papers)

The two FPR95 are different numbers, and papers rarely say which they print. Here "95 %" is the first threshold that
reaches it: with ties or few items more than 95 % may be caught. The areas under precision and recall are by trapezoids,
as in OpenOOD, which joins the points of tied scores by straight lines (average precision, by steps, is a little less);
they depend on how many items of either kind there are, the others do not.

    >>> inside, outside = [0.9, 0.8, 0.8, 0.4], [0.8, 0.1]
    >>> auroc(inside, outside)
    0.75
    >>> fpr95_ood_pos(inside, outside), fpr95_id_pos(inside, outside)
    (0.75, 0.5)

A network that classifies better also detects better, whatever it was trained on; `at_matched_accuracy` compares runs
where they are equally accurate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncalr.errors import BadInput, NotFinite
from ncalr.evaluate.ood_covariance import Floats
from ncalr.geometry.statistics import to_numpy

METRICS = ("auroc", "aupr_in", "aupr_out", "fpr95_ood_pos", "fpr95_id_pos")


def auroc(inside: Any, outside: Any) -> float:
    """P(ID > OOD) + P(ID = OOD) / 2."""
    inside, outside = _values("ID scores", inside), np.sort(_values("OOD scores", outside))
    below = np.searchsorted(outside, inside, "left").sum(dtype=np.int64)
    not_above = np.searchsorted(outside, inside, "right").sum(dtype=np.int64)
    return float((below + not_above) / (2 * len(inside) * len(outside)))


def aupr_in(inside: Any, outside: Any) -> float:
    """Area under precision over recall with ID as the positive class."""
    return _area(_values("ID scores", inside), _values("OOD scores", outside))


def aupr_out(inside: Any, outside: Any) -> float:
    """Area under precision over recall with OOD as the positive class."""
    return _area(-_values("OOD scores", outside), -_values("ID scores", inside))


def fpr95_id_pos(inside: Any, outside: Any) -> float:
    """Share of OOD items accepted where 95 % of the ID items are."""
    return _false_positives(_values("ID scores", inside), _values("OOD scores", outside))


def fpr95_ood_pos(inside: Any, outside: Any) -> float:
    """Share of ID items flagged where 95 % of the OOD items are (OpenOOD v1.5)."""
    return _false_positives(-_values("OOD scores", outside), -_values("ID scores", inside))


def detection_metrics(inside: Any, outside: Any) -> dict[str, float]:
    """All of `METRICS` by name."""
    measures = (auroc, aupr_in, aupr_out, fpr95_ood_pos, fpr95_id_pos)
    return {name: measure(inside, outside) for name, measure in zip(METRICS, measures, strict=True)}


@dataclass(frozen=True)
class Matched:
    """What each run's measure was when the run first had this accuracy; NaN for a run that never passed through it."""

    accuracy: float
    values: dict[str, float]


def at_matched_accuracy(runs: Mapping[str, tuple[Any, Any]], accuracy: float | None = None) -> Matched:
    """A measure of each run where all runs are equally accurate.

    `runs` gives for each name the accuracies of its rounds in order and the measure (an AUROC) at the same rounds. The
    measure is read off the straight line between the two rounds around the first time the run reaches `accuracy`; there
    is no going beyond a run's own range. Without `accuracy` it is the highest that every run reaches.

    >>> at_matched_accuracy({"a": ([0.25, 0.75], [0.5, 0.75]), "b": ([0.25, 0.5], [0.6, 0.7])})
    Matched(accuracy=0.5, values={'a': 0.625, 'b': 0.7})
    """
    if not runs:
        raise BadInput("no runs given: pass {name: (accuracies, values)}, one of each a round")
    curves = {name: _curve(name, *pair) for name, pair in runs.items()}
    if accuracy is None:
        accuracy = min(float(reached.max()) for reached, _ in curves.values())
        late = [name for name, (reached, _) in curves.items() if reached[0] > accuracy]
        if late:
            raise BadInput(
                f"no accuracy that all runs pass through: {late[0]!r} starts at {curves[late[0]][0][0]:g} and another "
                f"run reaches {accuracy:g} at most; compare runs that overlap"
            )
    return Matched(float(accuracy), {name: _first_time(float(accuracy), *curve) for name, curve in curves.items()})


def _first_time(wanted: float, accuracies: Floats, values: Floats) -> float:
    """The value on the line between rounds where the accuracy first gets to the wanted one, coming from below."""
    reached = np.flatnonzero(accuracies >= wanted)
    if not len(reached) or accuracies[0] > wanted:
        return float("nan")
    after = int(reached[0])
    before = max(after - 1, 0)
    return float(np.interp(wanted, accuracies[[before, after]], values[[before, after]]))


def _curve(name: str, accuracies: Any, values: Any) -> tuple[Floats, Floats]:
    curve = _values(f"accuracies of {name!r}", accuracies), _values(f"values of {name!r}", values)
    if len(curve[0]) != len(curve[1]):
        raise BadInput(f"{name!r} has {len(curve[0])} accuracies and {len(curve[1])} values; give one of each a round")
    return curve


def _area(positive: Floats, negative: Floats) -> float:
    """Area under precision over recall by trapezoids, from recall 0 with precision 1."""
    thresholds = np.unique(np.concatenate([positive, negative]))[::-1]
    caught = _at_least(positive, thresholds)
    precision = np.concatenate([[1.0], caught / (caught + _at_least(negative, thresholds))])
    recall = np.concatenate([[0.0], caught / len(positive)])
    return float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1]) / 2))


def _false_positives(positive: Floats, negative: Floats) -> float:
    """Share of the negatives at or above the highest threshold that has 95 % of the positives at or above it."""
    enough = -(-95 * len(positive) // 100)  # in whole numbers: 0.95 is not one that floats know
    threshold = np.partition(positive, len(positive) - enough)[len(positive) - enough]
    return float((negative >= threshold).mean())


def _at_least(values: Floats, thresholds: Floats) -> Floats:
    return np.asarray(len(values) - np.searchsorted(np.sort(values), thresholds, "left"), np.float64)


def _values(what: str, given: Any) -> Floats:
    values = np.asarray(to_numpy(given))
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "fiub":
        raise BadInput(f"{what} must be a list of at least one number, got {values.dtype} of shape {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise NotFinite(f"{what} hold {len(bad)} values that are NaN or infinite, the first at {bad[0]}")
    return values.astype(np.float64)
