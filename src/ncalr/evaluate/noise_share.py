"""How many labels are wrong, which ones, and what they should be: one posterior from class scores and given labels.

A model that was not shown a label says what the class of an item may be; the label says what somebody called it. If a
temperature tau makes the model's probabilities right, and class k is labelled j with a chance T[k, j] that depends on
the class alone, the given labels have the likelihood

    P(label_i) = sum over k of p_i(k) T[k, label_i],        p_i = softmax(scores_i / tau)

and the true class has the posterior p_i(k) T[k, label_i] / P(label_i) (the mixture behind forward correction, Patrini
et al., 2017). T has one chance of a wrong label (`one_coin`), or a row a class (`full`), shrunk towards `one_coin`.
`full` is taken where it clearly explains labels better that it was not fitted to.

**The scores must be out of sample**: a network in its terminal phase is certain of every label it was trained on.

**The share of wrong labels cannot be read off this posterior alone.** A model also contradicts labels that are right,
and mistakes that a model finds plausible look like its own errors: with 30 % wrong labels where a model is in doubt the
posterior has a mean of 2 %. The interval therefore spans what is compatible with both explanations:

* low: the mean chance of a wrong label, by the least T that explains labels about as well (with a full T, the mean of
  its own and of one coin's). Less `HEAVY` times the other contradictions, since a model's errors have heavier tails
  than a softmax and a few of them look like wrong labels. Less the sampling error;
* high: that chance, and of the other labels the share that would be wrong if they told nothing beyond the features
  (drawn from p_i, and the true class too: 1 - sum of p_i(k)^2 on average) times `HIDDEN`, since a model that learnt
  such labels is too sure of them, and the sampling error.

Both numbers were chosen on three sets of vectors and measured on others (`benchmarks/yardstick_audit.py`). Where the
low end is 0 nothing but checking labels tells how many are wrong: `recheck` says how many, drawn at random, are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, number_between

Floats = npt.NDArray[np.float64]
HEAVY = 0.1
HIDDEN = 1.15
LEAST = 0.01  # a low end below is 0
CLOSE = 1.92  # half the 95 % quantile of chi-square with one degree
WITHIN = 0.05  # half the width of the interval that re-checked labels must reach
TEMPERATURES = np.geomspace(1e-2, 1e1, 12)
FINER = np.geomspace(0.54, 1.87, 7)  # within a step of these
SHARPER = np.geomspace(0.25, 1.0, 9)  # beyond what is likeliest without wrong labels
STRENGTHS = (100.0, 10.0, 3.0)  # labels a class that the one-coin row counts for in a full one
CLEARLY = 2.0  # standard errors of the gain in log-likelihood
WORTH = 0.05  # least gain a label; mistakes that a model finds plausible gain less, and a full row ranks them worse
_ROUNDS = 40
_STILL = 1e-4


class Calibrated(NamedTuple):
    """Class scores as log-probabilities, at the temperature and the share of wrong labels that explain labels best."""

    likelihood: float  # mean log-likelihood of the given labels
    wrong: float  # chance that a label is any other class
    temperature: float
    least: float  # the smallest such chance under a temperature that explains labels nearly as well
    log_probs: Floats  # (n, c)


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
    probs: Floats  # (n, c) of the model alone, calibrated
    confusion: Floats  # (c, c) T: rows true, columns given
    temperature: float
    model: str  # one_coin, or full
    recheck: int  # labels to check at random to know the share within 5 points; 0 where the interval is that narrow

    @property
    def words(self) -> str:
        """Return the share in words."""
        if self.low > 0:
            found = f"an estimated {self.share:.1%} are wrong ({self.low:.1%} to {self.high:.1%})"
        else:
            found = f"between 0 and {self.high:.1%} are wrong"
        if not self.recheck:
            return found
        return f"{found}; check {self.recheck:,} labels drawn at random to know it within {100 * WITHIN:.0f} points"


def noise_share(logits: Any, labels: Any, *, confidence: float = 0.95) -> NoiseShare:
    """Return the share of wrong labels from out-of-sample logits (n, c) and given labels (n,).

    >>> logits = 5 * np.eye(3)[np.arange(300) % 3]
    >>> labels = np.where(np.arange(300) < 60, (np.arange(300) + 1) % 3, np.arange(300) % 3)
    >>> found = noise_share(logits, labels)
    >>> bool(found.low < 0.2 < found.high), round(found.share, 1)
    (True, 0.2)
    """
    confidence = number_between("confidence", confidence, 0, 1)
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not len(labels):
        raise BadInput(f"Expected `logits` (n, c) and `labels` (n,), got shapes {logits.shape} and {labels.shape}.")
    classes = logits.shape[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise BadInput(
            f"`labels` must lie in 0..{classes - 1}, as many classes as `logits` has columns, "
            f"got {labels.min()}..{labels.max()}."
        )
    fitted = calibrate(logits, labels)
    probs, confusion, temperature, model = _noise(logits, labels, fitted)
    posterior, wrong = _posterior(probs, confusion, labels)
    surely = wrong * min(fitted.least / max(fitted.wrong, 1e-12), 1.0)
    if model == "full":
        surely = (wrong + _posterior(np.exp(fitted.log_probs), _coin(fitted.least, classes), labels)[1]) / 2
    contradicted = (logits.argmax(axis=1) != labels).astype(float)
    hidden = wrong + (1 - wrong.mean()) * HIDDEN * (1 - (probs**2).sum(axis=1))
    found, least, against, most = (_means(one, labels, classes) for one in (wrong, surely, contradicted, hidden))
    low, high = _interval(least, against, most, np.bincount(labels, minlength=classes), confidence)
    return NoiseShare(
        float(found[0]), float(low[0]), float(high[0]), found[1:], low[1:], high[1:],
        wrong, posterior, probs, confusion, temperature, model, _recheck(low[0], high[0], len(labels), confidence),
    )  # fmt: skip


def calibrate(scores: Any, labels: Any) -> Calibrated:
    """Return the scores (n, c) at the temperature under which the given labels are likeliest.

    First as if no label were wrong; then up to four times sharper, where that and wrong labels explain them better.
    """
    coarse = max(TEMPERATURES, key=lambda at: _own(scores, labels, at).mean())
    plain = max(coarse * FINER, key=lambda at: _own(scores, labels, at).mean())
    fits = [(*fit_coin(np.exp(_own(scores, labels, at)), scores.shape[1]), float(at)) for at in plain * SHARPER]
    likelihood, wrong, temperature = max(fits)
    least = min(fit[1] for fit in fits if fit[0] >= likelihood - CLOSE / len(labels))
    return Calibrated(likelihood, wrong, temperature, least, log_softmax(scores / temperature))


def fit_coin(own: Floats, classes: int) -> tuple[float, float]:
    """Return the mean log-likelihood and the chance that a label is any other class, by EM.

    `own` (n,) is the model's probability of the given class; half a wrong label and one and a half right ones count
    beside, so that the chance is never 0.
    """
    others, wrong = (1 - own) / max(classes - 1, 1), 0.1
    for _ in range(100):
        total = np.maximum((1 - wrong) * own + wrong * others, 1e-300)
        better = float(((wrong * others / total).sum() + 0.5) / (len(own) + 2))
        if abs(better - wrong) < _STILL:
            break
        wrong = better
    return float(np.log(total).mean()), wrong


def log_softmax(scores: Any) -> Floats:
    """Return log-probabilities, row by row."""
    wide = np.asarray(scores, np.float64)
    wide = wide - wide.max(axis=1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)), np.float64)


def _own(scores: Any, labels: Any, temperature: float) -> Floats:
    """Return the log-probability of each given label."""
    wide = (scores - scores.max(axis=1, keepdims=True)) / temperature
    return np.asarray(wide[np.arange(len(labels)), labels] - np.log(np.exp(wide).sum(axis=1)), np.float64)


def _noise(logits: Floats, labels: Any, fitted: Calibrated) -> tuple[Floats, Floats, float, str]:
    """Return calibrated probabilities, the confusion, the temperature and the kind of the confusion."""
    probs, classes = np.exp(fitted.log_probs), logits.shape[1]
    half = np.empty(len(labels), np.int64)  # by what the model thinks of the label: no order of the rows counts
    half[np.argsort(probs[np.arange(len(labels)), labels], kind="stable")] = np.arange(len(labels)) % 2
    coin = _held_out(probs, labels, half, 0.0)
    gains = {strength: _held_out(probs, labels, half, strength) - coin for strength in STRENGTHS}
    strength = max(gains, key=lambda one: gains[one].sum())
    gain = gains[strength]
    if gain.mean() < max(WORTH, CLEARLY * gain.std() / np.sqrt(len(gain))):
        return probs, _coin(fitted.wrong, classes), fitted.temperature, "one_coin"
    best = None
    for temperature in fitted.temperature * np.array([0.4, 0.6, 0.8, 1.0]):
        probs = np.exp(log_softmax(logits / temperature))
        confusion = _full(probs, labels, strength)
        likelihood = _likelihoods(probs, confusion, labels).sum()
        if best is None or likelihood > best[0]:
            best = likelihood, probs, confusion, float(temperature)
    assert best is not None  # noqa: S101 (there are temperatures)
    return *best[1:], "full"


def _held_out(probs: Floats, labels: Any, half: Any, strength: float) -> Floats:
    """Return the log-likelihood of each label under the confusion that the other half has."""
    found = np.empty(len(labels))
    for here in (half == 0, half == 1):
        confusion = _full(probs[~here], labels[~here], strength)
        found[here] = _likelihoods(probs[here], confusion, labels[here])
    return found


def _coin(wrong: float, classes: int) -> Floats:
    """Return the confusion with one chance of a wrong label."""
    same = np.eye(classes)
    return np.asarray((1 - wrong) * same + wrong * (1 - same) / max(classes - 1, 1), np.float64)


def _full(probs: Floats, labels: Any, strength: float) -> Floats:
    """Return the likeliest confusion by EM, `strength` labels a class being as with one coin; 0: one coin alone."""
    classes = probs.shape[1]
    confusion = _coin(fit_coin(probs[np.arange(len(labels)), labels], classes)[1], classes)
    prior, given, before = confusion * strength, np.eye(classes)[labels], -np.inf
    for _ in range(_ROUNDS if strength else 0):
        joint = probs * confusion[:, labels].T
        total = np.maximum(joint.sum(axis=1), 1e-300)
        likelihood = float(np.log(total).sum())
        if likelihood - before < _STILL * len(labels):
            break
        before = likelihood
        counts = (joint / total[:, None]).T @ given + prior
        confusion = counts / counts.sum(axis=1, keepdims=True)
    return confusion


def _likelihoods(probs: Floats, confusion: Floats, labels: Any) -> Floats:
    return np.asarray(np.log(np.maximum((probs * confusion[:, labels].T).sum(axis=1), 1e-300)), np.float64)


def _posterior(probs: Floats, confusion: Floats, labels: Any) -> tuple[Floats, Floats]:
    """Return the posterior of the true class (n, c) and the chance that each label is wrong."""
    joint = probs * confusion[:, labels].T
    posterior = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    wrong = posterior.sum(axis=1) - posterior[np.arange(len(labels)), labels]
    return posterior, np.asarray(np.clip(wrong, 0, 1), np.float64)


def _means(values: Floats, labels: Any, classes: int) -> Floats:
    """Return the mean over all labels and class by class (1 + c,); NaN for a class without labels."""
    counts = np.bincount(labels, minlength=classes)
    sums = np.bincount(labels, values, minlength=classes)
    with np.errstate(invalid="ignore"):
        return np.array([values.mean(), *(sums / np.where(counts > 0, counts, np.nan))])


def _interval(least: Floats, against: Floats, most: Floats, counts: Any, confidence: float) -> tuple[Floats, Floats]:
    """Return both ends, over all labels and class by class (1 + c,)."""
    many = np.array([counts.sum(), *np.where(counts > 0, counts, np.nan)], np.float64)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    low = least - HEAVY * np.maximum(against - least, 0) - z * np.sqrt(least * (1 - least) / many)
    most = np.clip(most, 0, 1)
    reach = z * np.sqrt(most * (1 - most) / many + (z / many / 2) ** 2)  # Wilson's: above 0 where `most` is 0
    high = (most + z**2 / many / 2 + reach) / (1 + z**2 / many)
    return np.where(low < LEAST, 0.0, low), np.minimum(high, 1.0)  # a NaN stays


def _recheck(low: float, high: float, labels: int, confidence: float) -> int:
    """Return how many labels, drawn at random and checked, give an interval of 5 points to either side."""
    if high - low <= 2 * WITHIN:
        return 0
    worst = min(max(low, 0.5), high) if low <= 0.5 else low
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    needed = z**2 * worst * (1 - worst) / WITHIN**2
    return min(ceil(needed / (1 + (needed - 1) / labels)), labels)
