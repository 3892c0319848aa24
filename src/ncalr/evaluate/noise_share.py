"""How many labels are wrong: the share, overall and class by class, with an interval.

A model that was not trained on an item says what its true class may be; the label says what somebody called it. If the
model's probabilities are right up to a temperature, and whoever labels mistakes class k for class j with a chance
T[k, j] that depends on the class alone, the given labels have the likelihood

    P(label_i) = sum over k of p_i(k) T[k, label_i],        p_i = softmax(logits_i / tau)

and tau and T are what makes it largest: T by expectation-maximisation, tau by a search around it. The chance that label
i is wrong follows by Bayes' rule, and the share of wrong labels is its mean. This is the mixture behind forward
correction (Patrini et al., 2017), fitted after the training instead of in it.

T has one accuracy a class (`one_coin`: a wrong label falls on the other classes in proportion to how often they are
given) or a full row a class (`full`, with a little mass added to every entry). A full table has c (c - 1) chances that
cannot be negative, and finds some noise in clean labels; it is taken where it explains the labels better by Schwarz's
criterion (BIC) and every class has `FULL` labels, as with a hundred classes it rarely has.

**The logits must be out of sample**, because a network in its terminal phase is certain of every label it was trained
on, the wrong ones too, and would find none. **And they should be of the true class**: a network that has learnt from
the same wrong labels, by cross-entropy, is calibrated to the label and not to the truth. Where all mistakes of a class
go one way, sharp logits with noise and soft ones without explain such labels equally well. Take a loss that stands
noise (`crossfit.py` does), and mind the interval.

**The interval is wide where the two cannot be told apart.** It is a bootstrap over items, reflected (an estimate at the
edge of what is possible is off to one side, and so are its resamples), widened to every temperature and confusion
under which the labels are as likely, within `CLOSE` of the log-likelihood of the best of either kind: a full table also
takes in what the model itself mixes up. Its upper end is at least the share by the confident joint (Northcutt, Jiang
and Chuang, "Confident learning: estimating uncertainty in dataset labels", 2021), which counts every label that a model
contradicts as surely as it agrees with others, as if the model were never wrong:

    t_k = mean of p_i(k) over the items labelled k;   i is counted as k, the likeliest of those with p_i(k) >= t_k

With a model that is nearly always right that count is the share; with a weak one it is mostly the model's own mistakes
(docs/log.md has figures for both on human labels). The truth lies between the two, and so does the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ncalr.dynamics.scores import softmax
from ncalr.errors import BadInput

Floats = npt.NDArray[np.float64]
FULL = 50  # labels a class needs for a full row of confusions
SOME = 10  # labels a class needs for a full row to be thought of
TEMPERATURES = np.geomspace(0.25, 8, 11)
CLOSE = 1.92  # half the 95 % quantile of chi-square with one degree: a temperature as good as the best
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
    if not 0 < confidence < 1:
        raise BadInput(f"confidence must lie between 0 and 1, got {confidence!r}; 0.95 for a 95 % interval")
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 0:
        raise BadInput(f"draws must be a whole number of resamples from 0 (no interval) on, got {draws!r}")
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not len(labels):
        raise BadInput(f"expected logits (n, c) and labels (n,), got shapes {logits.shape} and {labels.shape}")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise BadInput(
            f"labels must lie in 0..{logits.shape[1] - 1}, as many classes as the logits have columns, "
            f"got {labels.min()}..{labels.max()}"
        )
    counts = np.bincount(labels, minlength=logits.shape[1])
    kinds = [model] if model != "auto" else ["one_coin", "full"][: 1 + int(counts[counts > 0].min() >= SOME)]
    fits = [fit for kind in kinds for fit in _fits(logits, labels, kind)]
    best = _chosen(fits, counts)
    found = _shares(logits, labels, best)
    tops = {kind: max(fit.likelihood for fit in fits if fit.kind == kind) for kind in kinds}
    alike = np.array([_shares(logits, labels, fit) for fit in fits if fit.likelihood >= tops[fit.kind] - CLOSE])
    posterior = _posterior(softmax(logits / best.tau), best.confusion, labels)
    again = _bootstrap(logits, labels, best, draws, seed)
    low, high = _between(again, found, (1 - confidence) / 2)
    low, high = np.minimum(low, alike.min(axis=0)), np.maximum(high, alike.max(axis=0))
    high = np.maximum(high, _contradicted(softmax(logits), labels, confidence))
    return NoiseShare(
        float(found[0]), float(low[0]), float(high[0]), found[1:], low[1:], high[1:],
        1 - posterior[np.arange(len(labels)), labels], posterior, best.confusion, best.tau, best.kind,
    )  # fmt: skip


class _Fit(NamedTuple):
    kind: str
    tau: float
    confusion: Floats
    likelihood: float


def _chosen(fits: list[_Fit], counts: Any) -> _Fit:
    """The likeliest fit; a full one only where it is so by Schwarz's criterion, and there are labels enough."""
    best = {fit.kind: fit for fit in sorted(fits, key=lambda fit: fit.likelihood)}
    if len(best) == 1:
        return next(iter(best.values()))
    classes = int((counts > 0).sum())
    penalty = (classes * (classes - 1) - classes) * np.log(counts.sum()) / 2
    better = best["full"].likelihood - best["one_coin"].likelihood > penalty and counts[counts > 0].min() >= FULL
    return best["full" if better else "one_coin"]


def _fits(logits: Floats, labels: Any, kind: str) -> list[_Fit]:
    """At a grid of temperatures, finer around the best."""
    found = [_Fit(kind, float(t), *_fit(softmax(logits / t), labels, kind)) for t in TEMPERATURES]
    tau = max(found, key=lambda fit: fit.likelihood).tau
    near = np.geomspace(tau / 1.3, tau * 1.3, 5)
    return found + [_Fit(kind, float(t), *_fit(softmax(logits / t), labels, kind)) for t in near]


def _shares(logits: Floats, labels: Any, fit: _Fit) -> Floats:
    """The share of wrong labels, and that of every class (1 + c,)."""
    posterior = _posterior(softmax(logits / fit.tau), fit.confusion, labels)
    wrong = 1 - posterior[np.arange(len(labels)), labels]
    return np.array([wrong.mean(), *_means(wrong, labels, logits.shape[1])])


def _contradicted(probs: Floats, labels: Any, confidence: float) -> Floats:
    """The upper ends (Wilson's) of the share by the confident joint and of that of every class (1 + c,)."""
    classes = probs.shape[1]
    counts = np.bincount(labels, minlength=classes)
    mine = _means(probs[np.arange(len(labels)), labels], labels, classes)
    sure = probs >= np.where(counts > 0, mine, np.inf)
    counted = sure.any(axis=1)
    likeliest = np.where(sure, probs, -1.0).argmax(axis=1)
    other = _means((likeliest != labels)[counted].astype(np.float64), labels[counted], classes)
    other = np.where(np.isnan(other) & (counts > 0), 0.0, other)  # nothing sure: nothing contradicted
    shares = np.array([np.nansum(other * counts) / len(labels), *other])
    many = np.array([len(labels), *counts])
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):  # where nothing was counted, chance may still hide something
        reach = z * np.sqrt(shares * (1 - shares) / many + (z / many / 2) ** 2)
        return np.asarray(np.minimum((shares + z**2 / many / 2 + reach) / (1 + z**2 / many), 1.0), np.float64)


def _between(again: Floats, found: Floats, edge: float) -> tuple[Floats, Floats]:
    """The interval of each column, its resamples reflected at what was found; NaN for a class that is not there."""
    ends = np.full((2, again.shape[1]), np.nan)
    there = np.isfinite(again).any(axis=0) & np.isfinite(found)
    if there.any():
        low, high = np.nanquantile(again[:, there], [edge, 1 - edge], axis=0)
        ends[:, there] = np.clip([2 * found[there] - high, 2 * found[there] - low], 0, 1)
    return ends[0], ends[1]


def _bootstrap(logits: Floats, labels: Any, best: _Fit, draws: int, seed: int) -> Floats:
    """Shares (draws, 1 + c) on items drawn with replacement; the temperature moves as well, a step to either side."""
    rng = np.random.default_rng(seed)
    found = np.empty((draws, 1 + logits.shape[1]))
    near = best.tau * np.array([0.87, 1.0, 1.15])
    probs = {t: softmax(logits / t) for t in near}
    for draw in range(draws):
        rows = rng.integers(0, len(labels), len(labels))
        fits = [(_fit(probs[t][rows], labels[rows], best.kind, best.confusion, 15), t) for t in near]
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
    step = _one_coin(probs, labels, given) if kind == "one_coin" else _full(probs, labels, given)
    before = -np.inf
    for _ in range(rounds):
        likelihood, better = step(confusion)
        if likelihood - before < _STILL * len(labels):
            break
        before, confusion = likelihood, better()
    return confusion, likelihood


_Step = Callable[[Floats], tuple[float, Callable[[], Floats]]]
"""The log-likelihood of a confusion, and a better one."""


def _one_coin(probs: Floats, labels: Any, given: Floats) -> _Step:
    """One accuracy a class; the rest falls on the other classes as often as they are given.

    A label is then explained by its own class or, in proportion to how often it is given, by all others together: two
    products of the probabilities with a vector, where a full table takes a pass over all pairs of item and class.
    """
    own = probs[np.arange(len(labels)), labels]
    often = given + 1e-9
    rest = often.sum() - often

    def step(confusion: Floats) -> tuple[float, Callable[[], Floats]]:
        accuracy = np.diag(confusion)
        spread = (1 - accuracy) / rest
        right = own * accuracy[labels]
        total = right + often[labels] * (probs @ spread - own * spread[labels])
        total = np.maximum(total, 1e-300)

        def better() -> Floats:
            said = np.bincount(labels, right / total, minlength=len(given))
            other = often[labels] / total
            wrong = spread * (other @ probs - np.bincount(labels, other * own, minlength=len(given)))
            coin = (said + _SMOOTHING) / (said + np.maximum(wrong, 0) + 2 * _SMOOTHING)
            return np.asarray(np.outer((1 - coin) / rest, often) * ~np.eye(len(given), dtype=bool) + np.diag(coin))

        return float(np.log(total).sum()), better

    return step


def _full(probs: Floats, labels: Any, given: Floats) -> _Step:
    """A row of chances a class."""
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), (len(given), len(labels)))

    def step(confusion: Floats) -> tuple[float, Callable[[], Floats]]:
        joint = probs * confusion[:, labels].T
        total = np.maximum(joint.sum(axis=1), 1e-300)

        def better() -> Floats:
            smooth = (members @ (joint / total[:, None])).T + _SMOOTHING * (given[None, :] + np.eye(len(given)))
            return np.asarray(smooth / smooth.sum(axis=1, keepdims=True), np.float64)

        return float(np.log(total).sum()), better

    return step


def _posterior(probs: Floats, confusion: Floats, labels: Any) -> Floats:
    joint = probs * confusion[:, labels].T
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300), np.float64)


def _means(values: Floats, groups: Any, count: int) -> Floats:
    sizes = np.bincount(groups, minlength=count)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(groups, values, minlength=count) / np.where(sizes > 0, sizes, np.nan), np.float64)
