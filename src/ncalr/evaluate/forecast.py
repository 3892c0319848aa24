"""Forecast how accurate a model will be with more labels, with intervals: when to stop, and what more labels buy.

    found = ncalr.forecast(vectors, labels, [100, 500])
    found.now, found.ahead          accuracy now and with 100 and 500 more labels, each with its interval and its gain
    found.needed                    labels to an accuracy (`target=0.9`)

The model is a logistic regression on the vectors, its strength chosen by the loss on labels it was not shown. Accuracy
is agreement with labels as people give them, on items like those of the pool; with `wrong=`, the share of wrong labels,
it is accuracy on right labels.

**Control items.** A strategy picks hard items, so agreement with its labels says little about the pool: too low by 15
to 25 points with `margin`. Control items are a random sample of the pool, whose labels had no say in what was picked
(`ncalr.acquire.control`). Models that are trained without them, on all other labels and on a half, a quarter and an
eighth of these, give a learning curve. Where all labelled items were drawn at random, five folds take turns.

**The estimate** is a posterior by sampling. A learning curve is drawn from one of two families, t being the number of
labels over the number now:

    power    error(t) = error(1) (r + (1 - r) t^-a)                        falls to a floor r
    odds     log odds of being right = those at 1 + b (1 - t^-a) / a       rise ever more slowly

with r and b uniform in 0..1 and log a uniform between those of 0.05 and 1.5. The accuracy now is drawn around the mean
probability that the model gives its own predictions over the pool, once these probabilities agree with the labelled
items that were held out; with a scale of `DOUBT`, since these items are not a random sample. Each curve is weighted by
the likelihood of the measured one, whose scatter is the covariance of the control items, a misfit of `MISFIT` that
grows with the distance in labels, and the `LUCK` of a model with its labels. Both are t distributions, so that neither
overrules the other where they disagree. The measured curve is a regression estimate (Cochran 1977, chapter 7): a
control item's being right is compared with its probability, whose mean over the pool is known. One right and one wrong
item are added, so that a few items that are all right prove little.

Without control items there is no likelihood, and the interval is as wide as that. The constants were chosen on
CIFAR-10, Oxford Pets, SST-2 and digits; `benchmarks/yardstick_forecast.py` measures on other sets how often intervals
hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, logit

from ncalr.acquire.control import checked_share, control_sample
from ncalr.acquire.door import open_positions
from ncalr.acquire.lottery import Lottery
from ncalr.data.embeddings import by_index, vector_pool
from ncalr.data.pool import ArrayPool, positions_of
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, number_between, whole_number
from ncalr.kernels import to_numpy
from ncalr.learn.linear import Linear, fit_linear
from ncalr.learn.suggest import class_numbers

FEWEST = 20  # labels to say anything
FEWEST_CONTROL = 5
GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # strengths C of the model
FOLDS = 5
PARTS = ((1.0, 1), (0.5, 2), (0.25, 4), (0.125, 8))  # share of the labels to train on, and how often
WATCHED = 2000  # unlabelled items whose probabilities are averaged
DOUBT = 0.07  # scale of the error of an accuracy that is read off the model's own probabilities
MISFIT = 0.02  # of a family of curves, at the number of labels now
LUCK = 0.15  # over the root of the number of labels: deviation of a model's accuracy over the choice of its labels
TAILS = 4  # degrees of freedom of the t distributions
DRAWS = 20_000  # of each family
LEAST = 1e-3  # probability of a class that a model has not seen
HORIZON = 64  # grid for `needed`

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Expected:
    """Expected accuracy of a model with so many labels, and what it gains over the model of now."""

    labels: int
    accuracy: float
    low: float
    high: float
    gain: float = 0.0
    gain_low: float = 0.0
    gain_high: float = 0.0


@dataclass(frozen=True)
class Needed:
    """How many more labels bring the accuracy to a target: median and interval, None for more than are left."""

    target: float
    labels: int | None
    low: int | None
    high: int | None
    left: int  # items without a label
    reachable: float  # probability that labelling all of them is enough


@dataclass(frozen=True)
class Forecast:
    """What more labels are expected to bring."""

    now: Expected
    ahead: tuple[Expected, ...]
    needed: Needed | None
    control: int  # control items that the forecast rests on
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the forecast in words."""
        notes = (f"note: {note}" for note in self.notes)
        return "\n  ".join(["Forecast:", *self.words(), *notes])

    def words(self) -> list[str]:
        """Return the forecast as sentences."""
        now = self.now
        lines = [
            f"{now.labels:,} labels, {self.control:,} of them of control items: accuracy {_percent(now.accuracy)} "
            f"({_percent(now.low)} to {_percent(now.high)})."
        ]
        lines += [
            f"{line.labels - now.labels:,} more labels: {_percent(line.accuracy)} ({_percent(line.low)} to "
            f"{_percent(line.high)}), a gain of {_points(line.gain)} points ({_points(line.gain_low)} to "
            f"{_points(line.gain_high)})."
            for line in self.ahead
        ]
        if self.needed is not None:
            lines.append(_needed_words(self.needed))
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data."""
        needed = None if self.needed is None else vars(self.needed)
        ahead = [vars(line) for line in self.ahead]
        return {
            "now": vars(self.now),
            "ahead": ahead,
            "needed": needed,
            "control": self.control,
            "notes": list(self.notes),
        }


def forecast(
    features: Any,
    labels: Any,
    k: int | Sequence[int] | None = None,
    *,
    control: Any = 0.1,
    ids: Any = None,
    classes: int | None = None,
    exclude: Any = None,
    target: float | None = None,
    wrong: float = 0.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Forecast:
    """Return the accuracy now and with k more labels, each with an interval, given vectors and the labels so far.

    `features`, `labels`, `ids` and `exclude` are those of `ncalr.suggest`. `k` is a number of further labels or several
    (default: as many as there are, and three times as many).

    `control` says which labelled items are a random sample of the pool: those that `suggest` drew with this share and
    this `seed` (default: 0.1); ids of items whose labels no strategy has read; or "all" where all labelled items were
    drawn at random.

    `target` is an accuracy to reach (`needed` then says with how many labels), `wrong` the share of wrong labels, if
    known: accuracy is then on right labels.

    >>> rng = np.random.default_rng(0)
    >>> vectors = rng.normal(size=(500, 8)).astype(np.float32)
    >>> labels = np.where(np.arange(500) < 100, (vectors[:, 0] + rng.normal(0, 0.5, 500) > 0).astype(int), -1)
    >>> found = forecast(vectors, labels, 100, control="all")
    >>> found.now.low < 0.85 < found.now.high, found.ahead[0].labels
    (True, 200)
    """
    seed = whole_number("seed", seed, 0)
    classes = None if classes is None else whole_number("classes", classes, 1, MOST_CLASSES)
    labels, ids = by_index(features, labels, ids)
    pool = vector_pool(features, ids)
    numbers, names = class_numbers(labels, pool)
    known = numbers >= 0
    inside = np.zeros(len(pool), np.bool_)
    inside[open_positions(pool.ids, exclude)[0]] = True
    known &= inside
    count = max(classes or 0, len(names), int(numbers.max(initial=-1)) + 1)
    _check(numbers[known], count, target, wrong, confidence)
    ahead = _more(k, int(known.sum()), int(inside.sum()))
    drawn = _drawn(control, pool, known, inside, seed)
    data = _read(pool, numbers, known, inside, drawn, count, seed)
    rng = np.random.default_rng([seed, 5])
    model = _Model(data, rng)
    curves = _curves(_centre(data, model), rng)
    weights = np.ones(2 * DRAWS)
    if data.control.any():
        weights = _weights(curves, len(data.y), *_measured(data, model, rng))
    return _told(curves, weights, data, ahead, target, _Scale(wrong, count), confidence)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _needed_words(needed: Needed) -> str:
    def number(labels: int | None) -> str:
        return f"more than {needed.left:,}" if labels is None else f"{labels:,}"

    accuracy = f"An accuracy of {_percent(needed.target)}"
    if needed.low is None:
        return f"{accuracy} is out of reach with the {needed.left:,} items that are left."
    return (
        f"{accuracy} takes {number(needed.labels)} more labels ({number(needed.low)} to {number(needed.high)}); "
        f"labelling all {needed.left:,} items that are left reaches it with a probability of {needed.reachable:.0%}."
    )


# -- the door -------------------------------------------------------------------------------------------------


def _check(labels: Any, classes: int, target: float | None, wrong: Any, confidence: float) -> None:
    """Raise for arguments out of range."""
    if len(labels) < FEWEST or len(np.unique(labels)) < 2:
        raise BadInput(
            f"`labels` must name at least {FEWEST} items of two classes, got {len(labels)} of "
            f"{len(np.unique(labels))}. Label more items first."
        )
    if target is not None:
        number_between("target", target, 0, 1)
    if isinstance(wrong, bool) or not isinstance(wrong, Real) or not 0 <= float(wrong) < 1 - 1 / classes:
        raise BadInput(
            f"`wrong` must be a share from 0 to below {1 - 1 / classes:.2f} for {classes} classes, got {wrong!r}. "
            "With more wrong labels than that, labels carry no information."
        )
    if number_between("confidence", confidence, 0, 1) < 0.5:
        raise BadInput(f"`confidence` must lie in 0.5 to below 1, got {confidence!r}.")


def _more(k: Any, labels: int, items: int) -> list[int]:
    """Return the numbers of further labels that are asked about."""
    left = items - labels
    if k is None:
        return sorted({min(more, left) for more in (labels, 3 * labels)} - {0})
    asked = [whole_number("k", more, 1) for more in np.atleast_1d(np.asarray(k)).tolist()]
    if max(asked, default=0) > left:
        raise BadInput(f"`k` must lie in 1..{left}, the items without a label, got {max(asked)}.")
    return asked


def _drawn(control: Any, pool: ArrayPool, known: Any, inside: Any, seed: int) -> npt.NDArray[np.bool_]:
    """Return which labelled items of the pool are control items (n,); none where they are too few."""
    found = np.zeros(len(pool), np.bool_)
    if isinstance(control, str):
        if control != "all":
            raise BadInput(f"`control` must be a share, ids of control items, or 'all', got {control!r}.")
        return np.asarray(known)
    if np.ndim(control) == 0 and not isinstance(control, set | frozenset):
        here = np.flatnonzero(inside)
        found[here] = control_sample(pool.ids[here], known[here], checked_share(control), seed)
    else:
        given = to_numpy(list(control) if isinstance(control, set | frozenset) else control)
        found[positions_of(pool, given) if len(given) else []] = True
        found &= known
    rest = known & ~found
    few = found.sum() < FEWEST_CONTROL or rest.sum() < FEWEST_CONTROL
    return np.zeros_like(found) if few else found


# -- models ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    """Labelled items, and unlabelled ones to watch."""

    x: npt.NDArray[np.float32]  # (m, d) labelled
    y: npt.NDArray[np.int64]
    control: npt.NDArray[np.bool_]  # (m,)
    others: npt.NDArray[np.float32]  # (u, d) a random part of the unlabelled items
    items: int  # in the pool
    classes: int


def _read(pool: ArrayPool, labels: Any, known: Any, inside: Any, drawn: Any, classes: int, seed: int) -> _Data:
    """Read vectors, moved and scaled so that their mean is 0 and their mean variance 1."""
    rows, rest = np.flatnonzero(known), np.flatnonzero(inside & ~known)
    rest = rest[np.argsort(Lottery([seed, 5], pool.ids[rest]).keys(), kind="stable")[:WATCHED]]
    x = np.asarray(pool.read(np.concatenate([rows, rest])), np.float32)
    mean = x.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(np.mean((x - mean) ** 2, dtype=np.float64)))
    x = np.asarray((x - mean) / (spread or 1.0), np.float32)
    return _Data(x[: len(rows)], labels[rows], drawn[rows], x[len(rows) :], int(inside.sum()), classes)


class _Model:
    """A logistic regression of a chosen strength, and what it says of labelled items that it was not shown."""

    def __init__(self, data: _Data, rng: np.random.Generator) -> None:
        self.data = data
        folds = rng.permutation(len(data.y)) % min(FOLDS, len(data.y))
        losses: list[float] = []
        self.C, self.right, self.sure = GRID[0], np.zeros(0), np.zeros(0)
        for C in GRID:
            chances = np.empty((len(data.y), data.classes), np.float32)
            for number in range(FOLDS):
                here = folds == number
                chances[here] = self.chances(self.fit(~here, C), data.x[here])
            own = chances[np.arange(len(data.y)), data.y]
            losses.append(float(-np.log(LEAST + (1 - LEAST) * own).mean()))
            if losses[-1] == min(losses):
                self.C, self.right, self.sure = C, _right(chances, data.y), _sure(chances)
            elif losses[-1] > 1.02 * min(losses):
                break

    def fit(self, rows: Any, C: float | None = None) -> Linear | int:
        """Fit on some of the labelled items; the class where they are all of one."""
        x, y = self.data.x[rows], self.data.y[rows]
        if (y == y[0]).all():
            return int(y[0])
        return fit_linear(x, y, C or self.C, standardise=False, device="cpu", tolerance=1e-5)

    def chances(self, model: Linear | int, x: Any) -> npt.NDArray[np.float32]:
        """Return the probability of every class (n, c)."""
        found = np.zeros((len(x), self.data.classes), np.float32)
        if isinstance(model, int):
            found[:, model] = 1
            return found
        scores = x @ model.weights.T.astype(np.float32) + model.intercept.astype(np.float32)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        found[:, model.classes] = scores / scores.sum(axis=1, keepdims=True)
        return found


def _right(chances: Any, labels: Any) -> Floats:
    return np.asarray(chances.argmax(axis=1) == labels, np.float64)


def _sure(chances: Any) -> Floats:
    return np.asarray(chances.max(axis=1), np.float64)


def _centre(data: _Data, model: _Model) -> float:
    """Return the accuracy that the model's own probabilities promise over the pool."""
    if not len(data.others):
        return float(model.right.mean())
    fitted = model.fit(np.ones(len(data.y), np.bool_))
    there = _calibrated(model.sure, model.right, _sure(model.chances(fitted, data.others)))
    labelled = len(data.y) / data.items
    return float(labelled * model.right.mean() + (1 - labelled) * there.mean())


def _calibrated(sure: Floats, right: Floats, asked: Floats) -> Floats:
    """Return the probability of being right for the probabilities in `asked`, learnt from held-out items.

    A logistic regression on the log odds (Platt 1999), drawn towards leaving probabilities as they are.
    """

    def at(line: Any, values: Floats) -> Floats:
        return np.asarray(expit(line[0] + np.exp(line[1]) * logit(np.clip(values, 1e-4, 1 - 1e-4))), np.float64)

    def loss(line: Any) -> float:
        found = np.clip(at(line, sure), 1e-6, 1 - 1e-6)
        likelihood = np.where(right > 0, np.log(found), np.log1p(-found)).sum()
        return float(-likelihood + line[0] ** 2 / 2 + line[1] ** 2)

    return at(minimize(loss, np.zeros(2)).x, asked)


def _measured(data: _Data, model: _Model, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return the learning curve on control items: shares of the labels now, accuracy there, covariance."""
    places = np.flatnonzero(data.control)
    folds = np.zeros(len(places), np.int64)
    if data.control.all():
        folds = rng.permutation(len(places)) % min(FOLDS, len(places))
    labelled = len(data.y) / data.items
    sizes, means, residuals = [], [], []
    for part, times in PARTS:
        right, sure = np.zeros(len(places)), np.zeros(len(places))
        trained, over = [], []
        for number in [*range(folds.max() + 1)] * times:
            held = places[folds == number]
            rest = ~data.control if not folds.any() else ~np.isin(np.arange(len(data.y)), held)
            rows = rng.permutation(np.flatnonzero(rest))[: max(round(part * rest.sum()), 2)]
            fitted = model.fit(rows)
            chances = model.chances(fitted, data.x[held])
            right[folds == number] += _right(chances, data.y[held]) / times
            sure[folds == number] += _sure(chances) / times
            over += [_sure(model.chances(fitted, data.others)).mean()] if len(data.others) else []
            trained.append(len(rows))
        pool = labelled * model.sure.mean() + (1 - labelled) * np.mean(over) if over else sure.mean()
        mean, residual = _regressed(right, sure, float(pool))
        sizes.append(np.mean(trained) / len(data.y))
        means.append(mean)
        residuals.append(residual)
    return np.array(sizes), np.array(means), _covariance(np.array(residuals))


def _regressed(right: Floats, sure: Floats, pool: float) -> tuple[float, Floats]:
    """Return the share of the pool that is right by regression on probabilities, and what is left of each item."""
    apart = sure - sure.mean()
    slope = float(np.clip(apart @ (right - right.mean()) / (apart @ apart + 0.02), 0, 1.5)) if len(right) > 7 else 0.0
    left = right - slope * apart
    mean = (left.sum() + 1) / (len(left) + 2) + slope * (pool - sure.mean())  # one right and one wrong item more
    return mean, left


def _covariance(residuals: Floats) -> Floats:
    """Return the covariance of the means (s, s) of items (s, n) and one right and one wrong item."""
    items = np.concatenate([residuals, np.zeros((len(residuals), 1)), np.ones((len(residuals), 1))], axis=1)
    apart = items - residuals.mean(axis=1, keepdims=True)
    return np.asarray(apart @ apart.T / items.shape[1] ** 2, np.float64)


# -- the posterior ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curves:
    """Learning curves, drawn from the prior: both families with the same parameters."""

    now: Floats  # (draws,) accuracy now
    floor: Floats
    rate: Floats
    rise: Floats

    def at(self, t: float) -> Floats:
        """Return the accuracy of every curve with t times the labels of now: (2 draws,)."""
        fallen = t**-self.rate
        power = 1 - (1 - self.now) * (self.floor + (1 - self.floor) * fallen)
        odds = expit(logit(self.now) + self.rise * (1 - fallen) / self.rate)
        return np.asarray(np.clip(np.concatenate([power, odds]), 0, 1), np.float64)


def _curves(centre: float, rng: np.random.Generator) -> _Curves:
    return _Curves(
        now=np.clip(centre + DOUBT * rng.standard_t(TAILS, DRAWS), 1e-3, 1 - 1e-3),
        floor=rng.uniform(0, 1, DRAWS),
        rate=np.exp(rng.uniform(np.log(0.05), np.log(1.5), DRAWS)),
        rise=rng.uniform(0, 1, DRAWS),
    )


def _weights(curves: _Curves, labels: int, sizes: Floats, means: Floats, covariance: Floats) -> Floats:
    """Return the likelihood of the measured curve under each drawn one, the highest 1."""
    scatter = MISFIT**2 * (1 + np.log2(sizes) ** 2) + LUCK**2 / (labels * sizes)
    root = np.linalg.cholesky(covariance + np.diag(scatter))
    apart = np.linalg.solve(root, np.stack([curves.at(float(size)) for size in sizes]) - means[:, None])
    likely = -(TAILS + len(sizes)) / 2 * np.log1p((apart**2).sum(axis=0) / TAILS)
    return np.asarray(np.exp(likely - likely.max()), np.float64)


@dataclass(frozen=True)
class _Scale:
    """From agreement with labels, of which a share is wrong at random, to accuracy on right ones."""

    wrong: float
    classes: int

    def __call__(self, agreement: Floats) -> Floats:
        by_chance = self.wrong / (self.classes - 1)
        return np.clip((agreement - by_chance) / (1 - self.wrong - by_chance), 0, 1)


def _told(
    curves: _Curves,
    weights: Floats,
    data: _Data,
    ahead: list[int],
    target: float | None,
    scale: _Scale,
    confidence: float,
) -> Forecast:
    """Return what the weighted curves say."""
    labels, places = len(data.y), ((1 - confidence) / 2, 0.5, (1 + confidence) / 2)
    rng = np.random.default_rng(6)

    def at(more: int, chance: float = LUCK) -> Floats:
        lucky = chance / (labels + more) ** 0.5 * rng.standard_normal(len(weights))
        return scale(np.clip(curves.at((labels + more) / labels) + lucky, 0, 1))

    now = at(0)
    low, middle, high = quantiles(now, weights, places)
    lines = []
    for more in ahead:
        then = at(more)
        ends, gains = quantiles(then, weights, places), quantiles(then - now, weights, places)
        lines.append(Expected(labels + more, ends[1], ends[0], ends[2], gains[1], gains[0], gains[2]))
    needed = None if target is None else _needed(target, lambda more: at(more, 0.0), weights, data, places)
    control, notes = int(data.control.sum()), []
    if not control:
        notes.append(
            "There are no control items, so the intervals rest on the model's own probabilities and are wide. Draw "
            "control items with the next picks (suggest with control=0.1 and the same seed), or name labelled items "
            "that were drawn at random (control=)."
        )
    return Forecast(Expected(labels, middle, low, high), tuple(lines), needed, control, tuple(notes))


def _needed(target: float, at: Any, weights: Floats, data: _Data, places: Sequence[float]) -> Needed:
    """Return how many labels bring the accuracy to the target."""
    left = data.items - len(data.y)
    steps = np.unique(np.concatenate([[0], np.geomspace(1, max(left, 1), HORIZON).astype(np.int64)]))
    steps = steps[steps <= left]
    first = np.full(len(weights), np.inf)
    for more in steps[::-1].tolist():
        first[at(more) >= target] = more
    low, middle, high = (None if not np.isfinite(end) else int(end) for end in quantiles(first, weights, places))
    return Needed(target, middle, low, high, left, float(weights[np.isfinite(first)].sum() / weights.sum()))


def quantiles(values: Floats, weights: Floats, places: Sequence[float]) -> list[float]:
    """Return weighted quantiles.

    >>> quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), [0.1, 0.5, 0.9])
    [1.0, 2.0, 3.0]
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, np.asarray(places) * reached[-1])
    return [float(value) for value in values[order][np.minimum(at, len(values) - 1)]]
