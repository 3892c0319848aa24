"""How many labels are wrong: the share, overall and class by class, with an interval.

A model that was not trained on an item says what its true class may be; the label says what somebody called it. If the
model's probabilities are right up to a temperature, and whoever labels mistakes class k for class j with a chance
T[k, j] that depends on the class alone, the given labels have the likelihood

    P(label_i) = sum over k of p_i(k) T[k, label_i],        p_i = softmax(logits_i / tau)

and tau and T are what makes it largest: T by expectation-maximisation, tau by a search around it. The chance that label
i is wrong follows by Bayes' rule, and the share of wrong labels is its mean. This is the mixture behind forward
correction (Patrini et al., 2017), fitted after the training instead of in it.

T has one accuracy a class (`one_coin`: a wrong label falls on the other classes in proportion to how often they are
given) or a full row a class (`full`, with a little mass added to every entry); the first where a class has fewer than
`FULL` labels, as with a hundred classes it mostly has.

The interval is a percentile bootstrap over items. It covers the luck of the draw, not a wrong model: **the logits must
be out of sample**, because a network in its terminal phase is certain of every label it was trained on, the wrong ones
too, and would find none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput

Floats = npt.NDArray[np.float64]
FULL = 50  # labels a class needs for a full row of confusions
TEMPERATURES = np.geomspace(0.25, 8, 11)
_SMOOTHING = 0.1
_ROUNDS = 100
_STILL = 1e-6


@dataclass(frozen=True, eq=False)
class NoiseShare:
    """The estimated share of wrong labels."""

    share: float
    low: float
    high: float
    by_class: Floats  # (c,) among the items that were given this label; NaN for a class without labels
    low_by_class: Floats
    high_by_class: Floats
    wrong: Floats  # (n,) chance that the label is wrong
    posterior: Floats  # (n, c) of the true class, model and label together
    confusion: Floats  # (c, c) T: rows true, columns given
    temperature: float
    model: str  # one_coin, or full


def noise_share(
    logits: Any, labels: Any, *, model: str = "auto", confidence: float = 0.95, draws: int = 200, seed: int = 0
) -> NoiseShare:
    """The share of wrong labels from out-of-sample logits (n, c) and given labels (n,)."""
    if model not in ("auto", "one_coin", "full"):
        raise BadInput(f"model must be auto, one_coin or full, got {model!r}")
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    counts = np.bincount(labels, minlength=logits.shape[1])
    kind = model if model != "auto" else ("full" if counts[counts > 0].min() >= FULL else "one_coin")
    fitted = {tau: _fit(_softmax(logits / tau), labels, kind) for tau in TEMPERATURES}
    tau = max(fitted, key=lambda t: fitted[t][1])
    near = np.geomspace(tau / 1.3, tau * 1.3, 5)
    fitted |= {t: _fit(_softmax(logits / t), labels, kind) for t in near}
    tau = float(max(fitted, key=lambda t: fitted[t][1]))
    probs, confusion = _softmax(logits / tau), fitted[tau][0]
    posterior = _posterior(probs, confusion, labels)
    wrong = 1 - posterior[np.arange(len(labels)), labels]
    again = _bootstrap(logits, labels, kind, tau, confusion, draws, seed)
    low, high = _between(again, (1 - confidence) / 2)
    by_class = _means(wrong, labels, len(counts))
    return NoiseShare(
        float(wrong.mean()), float(low[0]), float(high[0]), by_class, low[1:], high[1:],
        wrong, posterior, confusion, tau, kind,
    )  # fmt: skip


def _between(again: Floats, edge: float) -> tuple[Floats, Floats]:
    """The middle of each column; NaN for a class that is not there."""
    found = np.full((2, again.shape[1]), np.nan)
    there = np.isfinite(again).any(axis=0)
    found[:, there] = np.nanquantile(again[:, there], [edge, 1 - edge], axis=0) if there.any() else found[:, there]
    return found[0], found[1]


def _bootstrap(logits: Floats, labels: Any, kind: str, tau: float, start: Floats, draws: int, seed: int) -> Floats:
    """Shares (draws, 1 + c) on items drawn with replacement; the temperature moves as well, a step to either side."""
    rng = np.random.default_rng(seed)
    found = np.empty((draws, 1 + logits.shape[1]))
    near = tau * np.array([0.87, 1.0, 1.15])
    probs = {t: _softmax(logits / t) for t in near}
    for draw in range(draws):
        rows = rng.integers(0, len(labels), len(labels))
        fits = [(_fit(probs[t][rows], labels[rows], kind, start, 15), t) for t in near]
        (confusion, _), t = max(fits, key=lambda fit: fit[0][1])
        posterior = _posterior(probs[t][rows], confusion, labels[rows])
        wrong = 1 - posterior[np.arange(len(rows)), labels[rows]]
        found[draw] = [wrong.mean(), *_means(wrong, labels[rows], logits.shape[1])]
    return found


def _fit(
    probs: Floats, labels: Any, kind: str, start: Floats | None = None, rounds: int = _ROUNDS
) -> tuple[Floats, float]:
    """The confusion that explains these labels best, and its log-likelihood."""
    classes = probs.shape[1]
    given = np.bincount(labels, minlength=classes) / len(labels)
    confusion = start if start is not None else 0.8 * np.eye(classes) + 0.2 / classes
    before = -np.inf
    for _ in range(rounds):
        joint = probs * confusion[:, labels].T
        total = joint.sum(axis=1)
        likelihood = float(np.log(np.maximum(total, 1e-300)).sum())
        if likelihood - before < _STILL * len(labels):
            break
        before = likelihood
        joint /= np.maximum(total, 1e-300)[:, None]
        counts = np.zeros((classes, classes))
        np.add.at(counts.T, labels, joint)
        confusion = _one_coin(counts, given) if kind == "one_coin" else _full(counts, given)
    return confusion, likelihood


def _one_coin(counts: Floats, given: Floats) -> Floats:
    """One accuracy a class; the rest falls on the other classes as often as they are given."""
    right = np.diag(counts) + _SMOOTHING
    accuracy = right / (counts.sum(axis=1) + 2 * _SMOOTHING)
    others = np.where(np.eye(len(given), dtype=bool), 0.0, given[None, :] + 1e-9)
    others /= others.sum(axis=1, keepdims=True)
    return np.asarray(others * (1 - accuracy)[:, None] + np.diag(accuracy), np.float64)


def _full(counts: Floats, given: Floats) -> Floats:
    smooth = counts + _SMOOTHING * (given[None, :] + np.eye(len(given)))
    return np.asarray(smooth / smooth.sum(axis=1, keepdims=True), np.float64)


def _posterior(probs: Floats, confusion: Floats, labels: Any) -> Floats:
    joint = probs * confusion[:, labels].T
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300), np.float64)


def _means(values: Floats, groups: Any, count: int) -> Floats:
    sizes = np.bincount(groups, minlength=count)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(groups, values, minlength=count) / np.where(sizes > 0, sizes, np.nan), np.float64)


def _softmax(logits: Floats) -> Floats:
    wide = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(wide / wide.sum(axis=1, keepdims=True), np.float64)
