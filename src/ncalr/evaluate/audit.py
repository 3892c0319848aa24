"""Which labels to check: every labelled item with its chance of a wrong label, a suggestion and a reason.

    found = audit(vectors, labels)                           vectors and labels: a model is cross-fitted
    found = audit(features, labels, logits=logits, log=log)  arrays of your own model, out of sample
    found.rows(20)                 id, label, suggested class, chance of being wrong and reason, as plain data
    found.share                    the estimated share of wrong labels, with an interval

All of it comes from one posterior (`noise_share`): of the true class, given what a model that was not shown the label
says of the item, and the label. Three kinds of evidence enter the model's word:

    logits      out of sample: given, or from `out_of_sample` on the features
    geometry    of features beside logits: the cosine to each class mean (centred; class means trimmed, so that wrong
                labels do not drag them along; the own one without the item), as far as it makes the labels likelier
    dynamics    of a log of logits (t, n, c) over checkpoints: their mean, as in the area under the margin (AUM, Pleiss
                et al. 2020)

Dynamics count for nothing where the log agrees with nearly all labels that the logits contradict: that network has
learnt them by heart. As its log was made in training, the share of wrong labels is estimated without it, and its word
changes the order alone.

**Not on what the network has learnt by heart.** In the terminal phase every training label is fitted, the wrong ones
too (Northcutt et al. 2021 ask for out-of-sample probabilities for the same reason). So features and logits must come
from a model that was not trained on the item, and a log of trained items from a loss that does not learn wrong labels
by heart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, logit

from ncalr.acquire.door import counted_from_one, some
from ncalr.data.embeddings import by_index, vector_pool
from ncalr.data.pool import ArrayPool
from ncalr.data.received import free_memory
from ncalr.data.tables import numbers_as_names
from ncalr.dynamics import aum, forgetting_events
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, NotFinite, whole_number
from ncalr.evaluate.noise_share import NoiseShare, calibrate, log_softmax, noise_share
from ncalr.evaluate.out_of_sample import FOLDS, out_of_sample
from ncalr.evaluate.rivals import RIVALS, check_rivals, doubts_of
from ncalr.geometry.robust import trimmed_statistics
from ncalr.kernels import to_numpy
from ncalr.learn.suggest import class_numbers

Floats = npt.NDArray[np.float64]
MANY = 50  # labels, with all of which a model agrees only if it was shown them, or if there is nothing to find
BY_HEART = 0.9  # of the labels that logits contradict, learnt all the same; 0.96 and more, or 0.76 and less, in the log
COSINES = (0.0, 2.0, 5.0, 10.0, 20.0)  # how much they count beside log-probabilities
TINY = 1e-300
PLAUSIBLE = 0.05  # the least probability by the model of a class that is suggested
COLUMNS = ("rank", "id", "label", "suggested", "wrong", "reason")
BY_HEART_LOGITS = (
    "`logits` agree with every label, as those of a network that was trained on them do. An audit needs logits of a "
    "model that was not shown the item."
)
DETAILS = ("confidence", "geometry", "dynamics", "forgotten", "disagreement", *RIVALS)
"""What every row of an audit has, and what it may have beside."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found about n labels."""

    ids: Any  # (n,) of the labelled items
    labels: npt.NDArray[np.int64]  # (n,) as given
    classes: list[str]  # their names; empty where labels are numbers
    wrong: Floats  # (n,) chance that the label is wrong
    suggested: npt.NDArray[np.int64]  # (n,) the likeliest class
    reasons: tuple[str, ...]  # (n,) in words
    share: NoiseShare | None  # None where a log is all there is
    details: dict[str, Floats]  # each (n,): what single signs say, higher is more doubtful; doubts of rivals
    agreement: float  # share of the labels that the model gives, too
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the findings in a line: the rest is in `order`, `wrong`, `suggested`, `reasons` and `rows()`."""
        share = "" if self.share is None else f"; {self.share.words}"
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return f"Audit: {len(self.wrong)} labels{share}; look first at {some(self.ids[self.order])}{notes}"

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """Rows in the order in which their labels should be checked."""
        return np.argsort(-self.wrong, kind="stable")

    @property
    def expected(self) -> int:
        """Number of wrong labels by the posterior: as many rows of the list are worth a look."""
        return round(float(self.wrong.sum()))

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return a plain dictionary for each label, the most doubtful first."""
        name = self.classes.__getitem__ if self.classes else int
        return [
            {
                "rank": rank + 1,
                "id": self.ids[at].item(),
                "label": name(self.labels[at]),
                "suggested": name(self.suggested[at]),
                "wrong": float(self.wrong[at]),
                "reason": self.reasons[at],
                **{sign: float(values[at]) for sign, values in self.details.items()},
            }
            for rank, at in enumerate(self.order[:most])
        ]


def audit(
    features: Any,
    labels: Any,
    *,
    logits: Any = None,
    log: Any = None,
    ids: Any = None,
    classes: int | None = None,
    folds: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
    rivals: Sequence[str] = (),
) -> Audit:
    """Return which `labels` of `features` (n, d) look wrong, with the chance of it, a suggested class and a reason.

    Without `logits` the features are vectors that know no labels (of a pretrained network, say), and models are
    cross-fitted on them. With `logits` (n, c) of your own model, which must be out of sample like the features beside
    them, these are judged by; `features` may then be None. `log` (t, n, c) holds logits over checkpoints of a training.

    `labels` are class numbers (n,), -1 for items without, or names (n,), empty or None for those, or a dictionary of
    ids and either. `ids` name the items (if none are given the index of a DataFrame does, or their positions);
    `classes` is their number where the labels do not show it. `folds` (n,) says which model each item's features come
    from, where several models were each trained on the other items. `rivals` (cleanlab) are reported beside.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 40)
    >>> vectors = rng.normal(size=(80, 5)) + 3 * labels[:, None]
    >>> labels[7] = 1
    >>> found = audit(vectors, labels)
    >>> int(found.ids[found.order[0]]), int(found.suggested[7])
    (7, 0)
    """
    seed = whole_number("seed", seed, 0)
    pool, numbers, names = _items(features, labels, logits, log, ids)
    known = np.flatnonzero(numbers >= 0)
    given = numbers[known]
    outputs = None if logits is None else np.asarray(_array("logits", logits, 2, len(pool))[known], np.float64)
    series = None if log is None else _array("log", log, 3, len(pool))[:, known]
    rows = None if features is None else _array("features", pool.read(known), 2, len(known))
    count = _count(given, names, outputs, series, classes)
    untold = not names and classes is None and outputs is None and series is None
    notes = [*counted_from_one(given)] if untold else []
    check_rivals(rivals)
    details: dict[str, Floats] = {}
    if outputs is None and rows is not None:
        if len(given) < 2 * FOLDS:
            raise BadInput(
                f"`labels` has {len(given)} labels; an audit of vectors needs {2 * FOLDS}. Label more items."
            )
        outputs = out_of_sample(rows, given, count, seed=seed)
    elif outputs is not None:
        if folds is None and len(given) >= MANY and (outputs.argmax(axis=1) == given).all():
            notes.append(BY_HEART_LOGITS)
        if rows is not None:
            parts = None if folds is None else _folds(folds, len(pool))[known]
            outputs, details["geometry"] = _with_geometry(outputs, rows, given, count, parts)
    share = None if outputs is None else noise_share(outputs, given, confidence=confidence)
    if rivals and share is None:
        raise BadInput(f"rivals={list(rivals)} judge by probabilities. Pass `features` or `logits` (out of sample).")
    details |= {rival: doubts_of(rival, np.exp(log_softmax(outputs)), given) for rival in rivals}
    model = share
    if series is not None:
        details |= _dynamics(series, given)
        model = _with_log(share, series, given, confidence, notes)
    assert model is not None  # noqa: S101 (there are features, logits or a log)
    wrong = model.wrong if share is None or model is share else _shifted(model.wrong, share.share)
    suggested = _suggested(model, given)
    details = {"confidence": 1 - model.probs[np.arange(len(given)), given], **details}
    reasons = _reasons(model.probs, suggested, given, names, series)
    agreement = float((model.probs.argmax(axis=1) == given).mean())
    return Audit(pool.ids[known], given, names, wrong, suggested, reasons, share, details, agreement, tuple(notes))


def _with_log(
    share: NoiseShare | None, series: Any, given: Any, confidence: float, notes: list[str]
) -> NoiseShare | None:
    """Return the posterior of the log, or of the log and what is known out of sample."""
    if len(series) < 5:
        notes.append(f"A log of {len(series)} checkpoints is short: margins need the early phase of the training too.")
    over_time = calibrate(np.mean([log_softmax(step) for step in series], axis=0), given).log_probs
    if share is None:
        return noise_share(over_time, given, confidence=confidence)
    contradicted = share.probs.argmax(axis=1) != given
    agrees = series[:, contradicted].argmax(axis=2) == given[contradicted]
    if contradicted.any() and agrees.mean() >= BY_HEART:
        notes.append(
            "The log agrees with nearly all labels that the logits contradict: that network has learnt them by heart. "
            "Its log is left out."
        )
        return share
    return noise_share((np.log(np.maximum(share.probs, TINY)) + over_time) / 2, given, confidence=confidence)


def _shifted(wrong: Floats, share: float) -> Floats:
    """Return chances in the same order with this mean."""
    odds = logit(np.clip(wrong, 1e-15, 1 - 1e-15))
    share = float(np.clip(share, 1e-6, 1 - 1e-6))
    return np.asarray(expit(odds + brentq(lambda by: expit(odds + by).mean() - share, -80, 80)), np.float64)


def _with_geometry(outputs: Floats, rows: Any, given: Any, classes: int, parts: Any) -> tuple[Floats, Floats]:
    """Return log-probabilities with cosines, as much as they help, and how much nearer another class mean is."""
    cosines = np.empty(outputs.shape)
    for part in [slice(None)] if parts is None else [parts == number for number in np.unique(parts)]:
        cosines[part] = _cosines(rows[part], given[part], classes)
    unknown = np.isnan(cosines)
    largest = np.where(unknown, -1.0, cosines).max(axis=1, keepdims=True)
    known = np.where(unknown, largest, cosines)  # unknown: no argument
    plain = calibrate(outputs, given).log_probs
    mixed = max((plain + weight * known for weight in COSINES), key=lambda one: calibrate(one, given).likelihood)
    places = np.arange(len(given))
    own, others = known[places, given], known.copy()
    others[places, given] = -np.inf
    return mixed, np.asarray(others.max(axis=1) - own, np.float64)


def _cosines(features: Any, given: Any, classes: int) -> Floats:
    """Return the cosine to each class mean (n, c), the own one without the item; NaN where no other item is."""
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
    cosines[:, ~centred.present] = np.nan
    return cosines


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), np.float64)


def _dynamics(log: Any, given: Any) -> dict[str, Floats]:
    """Return what the log says beside: margin, times forgotten, share of its later half that disagrees."""
    predictions = np.stack([step.argmax(axis=1) for step in log])
    late = predictions[len(predictions) // 2 :]
    forgotten = np.asarray(forgetting_events(predictions, given), np.float64)
    return {"dynamics": -aum(log, given), "forgotten": forgotten, "disagreement": (late != given).mean(axis=0)}


def _suggested(model: NoiseShare, given: Any) -> npt.NDArray[np.int64]:
    """Return the likeliest class by model and label together, if it is plausible by the model alone."""
    places = np.arange(len(given))
    likeliest = model.posterior.argmax(axis=1)
    return np.asarray(np.where(model.probs[places, likeliest] >= PLAUSIBLE, likeliest, given), np.int64)


def _reasons(probs: Floats, suggested: Any, given: Any, names: list[str], series: Any) -> tuple[str, ...]:
    """Return what the model says of the suggested class (or of the next best one) and of the label."""
    places = np.arange(len(given))
    others = probs.copy()
    others[places, given] = -1.0
    other = np.where(suggested == given, others.argmax(axis=1), suggested)
    late = None if series is None else [step.argmax(axis=1) == given for step in series[len(series) // 2 :]]
    words = []
    for at in places:
        name = names[other[at]] if names else other[at]
        word = f"Out of sample, class {name} has {probs[at, other[at]]:.0%}, the label {probs[at, given[at]]:.0%}"
        if late is not None:
            word += f"; {sum(bool(step[at]) for step in late)} of {len(late)} late checkpoints agree with the label"
        words.append(f"{word}.")
    return tuple(words)


def _items(
    features: Any, labels: Any, logits: Any, log: Any, ids: Any
) -> tuple[ArrayPool, npt.NDArray[np.int64], list[str]]:
    """Return the items, a class number each (-1: no label), and the names of the classes if they have names."""
    if labels is None:
        raise BadInput("`labels` is None, expected one class for each item. The order is audit(features, labels).")
    if features is None:
        if logits is None and log is None:
            raise BadInput("`features`, `logits` and `log` are None: an audit needs one of them.")
        name, given, axis = ("logits", logits, 0) if logits is not None else ("log", log, 1)
        shape = to_numpy(given, name).shape
        if len(shape) != axis + 2:
            raise BadInput(
                f"`{name}` must have shape {'(n, classes)' if axis == 0 else '(t, n, classes)'}, got {shape}."
            )
        features = np.zeros((shape[axis], 1), np.float32)
    if _turned(features, labels):
        raise BadInput(
            f"`features` must be an array of shape (n, d) and `labels` one class for each item, got shapes "
            f"{np.shape(features)} and {np.shape(labels)}. The order is audit(features, labels)."
        )
    labels, ids = by_index(features, labels, ids)
    pool = vector_pool(features, ids)
    numbers, names = class_numbers(labels, pool)
    if len(np.unique(numbers[numbers >= 0])) < 2:
        raise BadInput("`labels` must hold at least two classes, since an audit compares classes.")
    return pool, numbers, names


def _turned(features: Any, labels: Any) -> bool:
    """Whether features and labels look as if each stood in the other's place."""
    if isinstance(features, str | Path):
        return False  # it is no array at all
    rows = to_numpy(features, "features").ndim
    return rows < 2 or (not isinstance(labels, Mapping) and to_numpy(labels, "labels").ndim > 1)


def _count(given: Any, names: list[str], outputs: Any, series: Any, classes: int | None) -> int:
    """Return the number of classes, on which all arguments must agree."""
    classes = None if classes is None else whole_number("classes", classes, 1, MOST_CLASSES)
    told = {
        "classes": classes,
        "logits": None if outputs is None else outputs.shape[1],
        "log": None if series is None else series.shape[2],
    }
    widths = {name: width for name, width in told.items() if width is not None}
    if len(set(widths.values())) > 1:
        raise BadInput(f"The number of classes differs: {widths}. `logits` and `log` need one column for each class.")
    if not widths and not names:
        numbers_as_names(int(given.max()), "`labels`")  # a code of a product is no class number
    count = next(iter(widths.values()), max(len(names), int(given.max()) + 1))
    if given.max() >= count or len(names) > count:
        raise BadInput(f"`labels` must lie in 0..{count - 1}, got {given.max()}. Leave other items out.")
    return count


def _folds(folds: Any, items: int) -> Any:
    folds = to_numpy(folds, "folds")
    if folds.shape != (items,) or folds.dtype.kind not in "iuU":
        raise BadInput(
            f"`folds` must name a model for each of {items} items by a number or a text, got {folds.dtype} of shape "
            f"{folds.shape}."
        )
    return folds


def _array(name: str, given: Any, dimensions: int, items: int) -> Any:
    array = to_numpy(given, name)
    if array.dtype.kind not in "fiub":
        raise BadInput(f"`{name}` must be numbers, got {array.dtype} of shape {array.shape}.")
    if array.ndim != dimensions or array.shape[-2] != items or not array.size:
        shape = {2: f"({items}, ...)", 3: f"(checkpoints, {items}, classes)"}[dimensions]
        raise BadInput(f"`{name}` must have shape {shape} for {items} items, got {array.shape}.")
    free = free_memory()
    if free is not None and array.size * 8 > free:
        raise BadInput(f"`{name}` of shape {array.shape} needs {array.size * 8:,} bytes of memory, {free:,} are free.")
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise NotFinite(f"{name}: {len(bad)} values are NaN or infinite, the first at {bad[0].tolist()}")
    return array
