"""Which labels to check: every labelled item with a doubt, a suggestion and a reason.

    found = audit(features, logits, labels, log=logits_tnc)
    found.order[:100]          the labels to look at first
    found.share                the estimated share of wrong labels, with an interval
    found.rows(20)             item, label, suggested class, doubt and reason, as plain data

Three kinds of sign, whatever of them is given:

    confidence   1 - the probability of the given class
    geometry     how much nearer the feature lies to another class mean than to its own (cosine, centred; class means
                 trimmed, so that wrong labels do not drag them along: `ncalr.geometry.robust`; the own one without the
                 item, which with few labels a class would otherwise vouch for itself)
    dynamics     over checkpoints: how far the given class stays below the best other one, on average (the area under
                 the margin, AUM, Pleiss et al. 2020, turned round)

Each is turned into ranks and then into normal scores, and the doubt is the mean of geometry and dynamics: no scale of
one outweighs another. Confidence takes the place of whichever there is not: of the same networks it says nearly what
geometry says, a little worse (5,000 labels of CIFAR-10N, aggregate, ResNet-8, average precision: geometry 0.367,
confidence 0.338, dynamics 0.379, geometry with dynamics 0.418, all three 0.401).

Dynamics count for nothing where the log agrees with nearly all labels that the signs out of sample contradict: that
network has learnt them by heart, and its margins say how large a vector is and not whether its label is right. Small
networks on vectors do so (docs/log.md has the figures).

How often a label was forgotten (Toneva et al. 2019) and how rarely the later half of the checkpoints agrees with it is
reported beside (`details`) and not mixed in: both are small whole numbers with many ties, and made the list worse.

**Not on what the network has learnt by heart.** In the terminal phase every training label is fitted, the wrong ones
too: confidence is 1, features sit on the mean of the class they were *called*, and neither says anything (Northcutt et
al. 2021 ask for out-of-sample probabilities for the same reason). So features and logits must come from a model that
was not trained on the item (`crossfit.py` trains some), and a log of trained items must come from a loss that does not
learn wrong labels by heart, or reach back to the early phase.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import rankdata

from ncalr.acquire.door import counted_from_one, some
from ncalr.dynamics import aum, forgetting_events
from ncalr.errors import BadInput, NotFinite
from ncalr.evaluate.noise_share import NoiseShare, noise_share
from ncalr.evaluate.rivals import RIVALS, doubts_of
from ncalr.geometry.robust import trimmed_statistics
from ncalr.kernels import to_numpy

Floats = npt.NDArray[np.float64]
MANY = 50  # labels, with all of which a model agrees only if it was shown them, or if there is nothing to find
BY_HEART = 0.9  # of the labels that others contradict, learnt all the same; 0.96 and more, or 0.76 and less, in the log
ALONE = "the only label of its class among those that were judged together"
ALMOST = 0.1  # of a cosine: a class mean that is as near as the own one, or almost
COLUMNS = ("rank", "id", "label", "suggested", "doubt", "wrong", "reason")
DETAILS = ("confidence", "geometry", "dynamics", "forgotten", "disagreement", *RIVALS)
"""What every row of an audit has, and what it may have beside."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found. Higher doubt: look at this label sooner."""

    doubt: Floats  # (n,) mean of normal scores
    signs: dict[str, Floats]  # each (n,), higher = more doubtful, in its own unit
    labels: npt.NDArray[np.int64]  # as given
    suggested: npt.NDArray[np.int64]  # the likeliest class; the given one where nothing speaks against it
    reasons: tuple[str, ...]  # (n,) in words
    share: NoiseShare | None  # where logits were given
    details: dict[str, Floats]  # forgotten (times), disagreement (share of a log's later half), doubts of rivals
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """What was found, in a line: the rest is in `order`, `doubt`, `suggested`, `reasons` and `rows()`."""
        share = self.share
        wrong = "" if share is None else f", an estimated {share.share:.1%} wrong ({share.low:.1%} to {share.high:.1%})"
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return f"Audit: {len(self.doubt)} labels{wrong}; look first at {some(self.order)}{notes}"

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """Items in the order in which their labels should be checked."""
        return np.argsort(-self.doubt, kind="stable")

    def rows(self, most: int | None = None, ids: Any = None, names: Any = None) -> list[dict[str, Any]]:
        """One plain dictionary an item, the most doubtful first."""
        name = (lambda c: names[c]) if names is not None else int
        return [
            {
                "rank": rank + 1,
                "id": int(at) if ids is None else np.asarray(ids)[at].item(),
                "label": name(self.labels[at]),
                "suggested": name(self.suggested[at]),
                "doubt": float(self.doubt[at]),
                "wrong": None if self.share is None else float(self.share.wrong[at]),
                "reason": self.reasons[at] if names is None else _named(self.reasons[at], names),
                **{name: float(values[at]) for name, values in {**self.signs, **self.details}.items()},
            }
            for rank, at in enumerate(self.order[:most])
        ]


def audit(
    features: Any = None,
    logits: Any = None,
    labels: Any = None,
    log: Any = None,
    *,
    classes: int | None = None,
    confidence: float = 0.95,
    draws: int = 200,
    seed: int = 0,
    folds: Any = None,
    rivals: Sequence[str] = (),
) -> Audit:
    """Doubts about labels (n,), from out-of-sample features (n, d) and logits (n, c) and a log of logits (t, n, c).

    For vectors and labels without a model there is `ncalr.audit_vectors`, which trains what it takes.

    `folds` (n,) says which model each item's features come from, where there are several that were each trained on the
    other items: class means are then taken inside each fold, since features of different networks cannot be compared.
    `rivals` (cleanlab) are heard on the same logits and reported beside, in `details`.
    """
    given, count = _labels(labels, logits, log, classes)
    signs: dict[str, Floats] = {}
    nearest: dict[str, npt.NDArray[np.int64]] = {}
    details: dict[str, Floats] = {}
    counted = classes is not None or logits is not None or log is not None
    notes = [] if counted else [*counted_from_one(given)]
    share = None
    if logits is not None:
        outputs = _array("logits", logits, 2, len(given))
        likely = _log_softmax(outputs)
        if folds is None and len(given) >= MANY and (likely.argmax(axis=1) == given).all():
            notes.append(
                "the logits agree with every label, as those of a network that was trained on them do; an audit needs "
                "logits of a model that was not shown the item"
            )
        signs["confidence"] = -np.expm1(likely[np.arange(len(given)), given])
        nearest["confidence"] = _against(likely, given)[1]
        share = noise_share(outputs, given, confidence=confidence, draws=draws, seed=seed)
    if features is not None:
        rows = _array("features", features, 2, len(given))
        signs["geometry"], nearest["geometry"] = _geometry(rows, given, count, folds)
    if log is not None:
        series = _array("log", log, 3, len(given))
        signs["dynamics"], nearest["dynamics"] = (
            -aum(series, given),
            _against(series.sum(axis=0, dtype=np.float64), given)[1],
        )
        details = _details(series, given)
    if rivals and logits is None:
        raise BadInput(f"{', '.join(rivals)} judges by probabilities: pass logits= (out of sample)")
    details |= {name: doubts_of(name, np.exp(likely), given) for name in rivals}
    if not signs:
        raise BadInput("nothing to judge labels by: pass features=, logits= (both out of sample), log=, or several")
    if log is not None and len(log) < 5:
        notes.append(f"a log of {len(log)} checkpoints is short; margins need the early phase of the training too")
    if log is not None and (logits is not None or features is not None):
        contradicted = likely.argmax(axis=1) != given if logits is not None else signs["geometry"] > 0
        heart = _by_heart(series, given, contradicted)
    else:
        heart = False
    if heart:
        notes.append(
            "the log agrees with nearly all labels that other signs contradict, as that of a network which learnt them "
            "by heart: its margins are left out of the doubt"
        )
    believed = {name: sign for name, sign in signs.items() if not (heart and name == "dynamics")}
    told = [name for name in ("geometry", "dynamics") if name in believed]
    mixed = told if len(told) == 2 or "confidence" not in believed else [*told, "confidence"]
    doubt = np.mean([normal_scores(signs[name]) for name in mixed], axis=0)
    suggested = _suggested(given, believed, nearest, share)
    reasons = _reasons(given, suggested, believed, nearest, logits, log)
    return Audit(doubt, signs, given, suggested, reasons, share, details, tuple(notes))


def normal_scores(values: Any) -> Floats:
    """Ranks as quantiles of the normal distribution (Blom's places); ties share a rank.

    >>> normal_scores([3.0, 1.0, 2.0]).round(2).tolist()
    [0.87, -0.87, 0.0]
    """
    ranks = rankdata(values)
    return np.asarray(ndtri((ranks - 0.375) / (len(ranks) + 0.25)), np.float64)


def _against(scores: Floats, given: Any) -> tuple[Floats, npt.NDArray[np.int64]]:
    """How far the best other class is above the given one, and which it is."""
    others = scores.copy()
    rows = np.arange(len(given))
    others[rows, given] = -np.inf
    best = others.argmax(axis=1)
    return np.asarray(others[rows, best] - scores[rows, given], np.float64), best


def _geometry(features: Any, given: Any, classes: int, folds: Any) -> tuple[Floats, npt.NDArray[np.int64]]:
    if folds is None:
        return _one_geometry(features, given, classes)
    folds = to_numpy(folds)
    if folds.shape != given.shape:
        raise BadInput(f"folds must name a model for each of {len(given)} items, got shape {folds.shape}")
    sign, nearest = np.empty(len(given)), np.empty(len(given), np.int64)
    for fold in np.unique(folds):
        here = folds == fold
        sign[here], nearest[here] = _one_geometry(features[here], given[here], classes)
    return sign, nearest


def _one_geometry(features: Any, given: Any, classes: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """How far the best other class mean is nearer than the own one; an item that is alone in its class is as others.

    Of such an item nothing is known: its class has no other mean, so it is named in the place of the nearest one.
    """
    found, inside = trimmed_statistics(features, given, classes)
    centred, centre = found.centred()
    cosines = np.empty((len(given), classes))
    for start in range(0, len(given), 8192):
        here = slice(start, start + 8192)
        block, own = features[here].astype(np.float64), given[here]
        unit = _unit(block - centre)
        cosines[here] = unit @ centred.directions.T
        others = found.counts[own] - inside[here]
        mean = found.counts[own, None] * found.means[own] - inside[here, None] * block
        mean = _unit(mean / np.maximum(others, 1)[:, None] - centre)
        cosines[np.arange(start, start + len(own)), own] = np.where(others > 0, (unit * mean).sum(axis=1), np.nan)
    cosines[:, ~centred.present] = -1.0
    sign, nearest = _against(cosines, given)
    alone = np.isnan(sign)
    sign[alone] = 0.0 if alone.all() else np.median(sign[~alone])
    nearest[alone] = given[alone]
    return sign, nearest


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), np.float64)


def _by_heart(log: Any, given: Any, contradicted: Any) -> bool:
    """Whether the network of the log has learnt the labels that are contradicted out of sample."""
    if not contradicted.any():
        return False
    agrees = np.mean([(step[contradicted].argmax(axis=1) == given[contradicted]).mean() for step in log])
    return bool(agrees >= BY_HEART)


def _details(log: Any, given: Any) -> dict[str, Floats]:
    predictions = np.stack([step.argmax(axis=1) for step in log])
    late = predictions[len(predictions) // 2 :]
    forgotten = np.asarray(forgetting_events(predictions, given), np.float64)
    return {"forgotten": forgotten, "disagreement": (late != given).mean(axis=0)}


def _suggested(
    given: Any, signs: dict[str, Floats], nearest: dict[str, Any], share: NoiseShare | None
) -> npt.NDArray[np.int64]:
    """The likeliest class by model and label together; without logits another one where every sign speaks for it."""
    if share is not None:
        return np.asarray(share.posterior.argmax(axis=1), np.int64)
    votes = np.stack([nearest[name] for name in signs])
    against = np.stack([sign > 0 for sign in signs.values()])
    agreed = (votes == votes[0]).all(axis=0) & against.all(axis=0)
    return np.asarray(np.where(agreed, votes[0], given), np.int64)


def _reasons(
    given: Any, suggested: Any, signs: dict[str, Floats], nearest: dict[str, Any], logits: Any, log: Any
) -> tuple[str, ...]:
    """The sign that speaks loudest against each label, of those that speak for the suggested class if any does."""
    names = list(signs)
    loud = np.stack([normal_scores(sign) for sign in signs.values()])
    loud += 100.0 * np.stack([(nearest[name] == suggested) & (signs[name] > 0) for name in names])  # these first
    late = None
    if log is not None:
        half = [step.argmax(axis=1) == given for step in to_numpy(log)[len(log) // 2 :]]
        late = np.sum(half, axis=0), len(half)
    probs = np.exp(_log_softmax(to_numpy(logits))) if logits is not None else None
    words = []
    for at, place in enumerate(loud.argmax(axis=0)):
        name, other = names[place], nearest[names[place]][at]
        if suggested[at] not in (given[at], other):  # what the label itself makes likely, by the confusion
            name, other = "confidence", suggested[at]
        if name == "confidence" and probs is not None:
            words.append(
                f"out of sample class {other} has {probs[at, other]:.0%}, the label {probs[at, given[at]]:.0%}"
            )
        elif name == "geometry":
            words.append(_nearness(signs[name][at], other) if other != given[at] else ALONE)
        else:
            assert late is not None  # noqa: S101 (dynamics come from a log)
            rank = "is seen more" if signs[name][at] > 0 else "comes second"
            words.append(f"{late[0][at]} of {late[1]} late checkpoints agree with the label; class {other} {rank}")
    return tuple(words)


def _named(reason: str, names: Any) -> str:
    return re.sub(r"\bclass (\d+)", lambda found: str(names[int(found[1])]), reason)


def _nearness(far: float, other: int) -> str:
    if far > 0:
        return f"nearer to the mean of class {other} ({far:+.2f} in cosine)"
    if far > -ALMOST:
        return f"almost as near to the mean of class {other} ({far:+.2f} in cosine)"
    return f"nearest to the mean of its own class; class {other} comes next ({far:+.2f} in cosine)"


def _labels(labels: Any, logits: Any, log: Any, classes: int | None) -> tuple[npt.NDArray[np.int64], int]:
    if labels is None:
        raise BadInput("no labels were given: pass labels=, one class number an item")
    given = to_numpy(labels)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise BadInput(f"labels must be one class number an item, got {given.dtype} of shape {given.shape}")
    outputs = logits if logits is not None else log
    wide = int(to_numpy(outputs).shape[-1]) if outputs is not None else int(given.max()) + 1
    over_time: tuple[int, ...] = to_numpy(log).shape if log is not None else ()
    if logits is not None and len(over_time) == 3 and over_time[2] != wide:
        raise BadInput(f"logits have {wide} columns and log {over_time[2]}; both must have one a class, in one order")
    if classes is not None and outputs is not None and classes != wide:
        raise BadInput(f"classes={classes}, but logits or log have {wide} columns; they must have one a class")
    count = classes or wide
    if given.min() < 0 or given.max() >= count:
        raise BadInput(
            f"labels must lie in 0..{count - 1}, got {given.min()}..{given.max()}; leave unlabelled items out"
        )
    if len(np.unique(given)) < 2:
        raise BadInput(f"all labels are class {given[0]}: an audit compares classes and needs at least two")
    return given.astype(np.int64), count


def _array(name: str, given: Any, dimensions: int, items: int) -> Any:
    array = to_numpy(given)
    if array.ndim != dimensions or array.shape[-2] != items:
        shape = {2: f"({items}, ...)", 3: f"(checkpoints, {items}, classes)"}[dimensions]
        raise BadInput(f"{name} must have shape {shape} for {items} labels, got {array.shape}")
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise NotFinite(f"{name}: {len(bad)} values are NaN or infinite, the first at {bad[0].tolist()}")
    return array


def _log_softmax(logits: Any) -> Floats:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(axis=1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)), np.float64)
