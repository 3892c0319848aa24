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

from typing import Any

import numpy as np

from ncalr.evaluate.ood_covariance import Floats
from ncalr.lab.matched import Matched as Matched
from ncalr.lab.matched import at_matched_accuracy as at_matched_accuracy
from ncalr.lab.matched import finite_list

METRICS = ("auroc", "aupr_in", "aupr_out", "fpr95_ood_pos", "fpr95_id_pos")


def auroc(inside: Any, outside: Any) -> float:
    """P(ID > OOD) + P(ID = OOD) / 2."""
    inside, outside = finite_list("ID scores", inside), np.sort(finite_list("OOD scores", outside))
    below = np.searchsorted(outside, inside, "left").sum(dtype=np.int64)
    not_above = np.searchsorted(outside, inside, "right").sum(dtype=np.int64)
    return float((below + not_above) / (2 * len(inside) * len(outside)))


def aupr_in(inside: Any, outside: Any) -> float:
    """Area under precision over recall with ID as the positive class."""
    return _area(finite_list("ID scores", inside), finite_list("OOD scores", outside))


def aupr_out(inside: Any, outside: Any) -> float:
    """Area under precision over recall with OOD as the positive class."""
    return _area(-finite_list("OOD scores", outside), -finite_list("ID scores", inside))


def fpr95_id_pos(inside: Any, outside: Any) -> float:
    """Share of OOD items accepted where 95 % of the ID items are."""
    return _false_positives(finite_list("ID scores", inside), finite_list("OOD scores", outside))


def fpr95_ood_pos(inside: Any, outside: Any) -> float:
    """Share of ID items flagged where 95 % of the OOD items are (OpenOOD v1.5)."""
    return _false_positives(-finite_list("OOD scores", outside), -finite_list("ID scores", inside))


def detection_metrics(inside: Any, outside: Any) -> dict[str, float]:
    """All of `METRICS` by name."""
    measures = (auroc, aupr_in, aupr_out, fpr95_ood_pos, fpr95_id_pos)
    return {name: measure(inside, outside) for name, measure in zip(METRICS, measures, strict=True)}


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
