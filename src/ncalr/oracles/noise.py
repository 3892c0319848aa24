"""Label noise: what a pool's labels become when those who give them are partly wrong.

The whole pool is corrupted once, by a seed. So an oracle says the same however often it is asked, and strategies are
compared on the same noise. With true class y, number of classes K and noise rate η, the kinds are

    symmetric            y → any other class, each with η / (K − 1); the share of wrong labels is η.
                         inclusive=true: y → any class, y itself among them, each with η / K; the share is η (1 − 1/K).
                         DivideMix's and ELR's code does the latter, so their "20 %" is 18 % for ten classes.
    asymmetric_cifar10   truck → automobile, bird → airplane, deer → horse, cat ⇄ dog, each with η (Patrini et al.,
                         "Making deep neural networks robust to label noise", CVPR 2017). Five of ten classes: η / 2.
    asymmetric_cifar100  each class → the next of the five classes in its superclass, the last → the first, with η
                         (the same paper). Code that takes five consecutive class numbers for a superclass is
                         common and wrong: CIFAR-100's classes are in alphabetical order, no such five belong together.
    pairs                y → to[y] with η; without `to`, each class → the next (Han et al., "Co-teaching", 2018).
    instance             which class is confused with which depends on the item's features (Xia et al., "Part-dependent
                         label noise", NeurIPS 2020, their generator):
                             q ~ N(η, 0.1²) cut to [0, 1],    a = xᵀ W_y with W_y ~ N(0, 1)^(S × K),    a_y = −∞,
                             P(y) = 1 − q,    P(j) = q · softmax(a)_j.
                         x is the flattened, standardised item (`standardised`), of norm about √S: the softmax is
                         nearly one-hot, each item has one class it is mistaken for. W_y is drawn one class at a time,
                         S × K numbers, where theirs holds K times as many. Cutting moves the mean of q up from a
                         small η (0.1 → 0.129) and down from a large one; rate=0 is no noise here.
    confusion            y → j with the given probability matrix[y, j].
    given                labels that people gave, as they are (CIFAR-10N and the like).

The first four hit exactly ⌊η n⌋ items, n being those of the pool (symmetric) or of each class that has a target, or
throw a coin for each item with exact=false. Which items are hit is a hash of seed and id: it does not depend on the
order of the pool.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from ncalr.acquire.lottery import Lottery
from ncalr.acquire.options import check_options
from ncalr.acquire.registry import options_of
from ncalr.acquire.spec import Spec, parse
from ncalr.errors import BadInput, NotFinite, check_known, whole_number
from ncalr.oracles.oracle import (
    Answers,
    Directory,
    Labels,
    Mask,
    Tally,
    Truth,
    as_ids,
    as_labels,
    lottery_of,
    share,
)

CIFAR10_PAIRS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
"""Patrini's pairs by CIFAR-10's class numbers."""

# fmt: off
CIFAR100_SUPERCLASSES = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10,
    12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16,
    12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14,
    13,
)
# fmt: on
"""The superclass of each of CIFAR-100's classes."""

_SALT = 0x7015E
_WHETHER, _WHERE, _HOW_OFTEN, _WEIGHTS = 0, 1, 2, 1000
_BLOCK = 1024  # items at a time: 12 MB of CIFAR images in single precision
_ROUNDING = 1e-9  # 0.29 * 100 is 28.999999999999996


@dataclass(frozen=True)
class Clean:
    """The labels to corrupt, and what the kinds of noise may need for it."""

    labels: Labels
    classes: int
    lottery: Lottery  # another for each draw
    steady: Lottery  # the same for each draw: for what belongs to the item, such as how hard it is
    features: Any = None
    matrix: Any = None
    given: Any = None

    def need(self, name: str, spec: str) -> Any:
        """One of the things that may have been passed."""
        value = getattr(self, name)
        if value is None:
            written = {
                "matrix": " or write confusion(matrix=[[0.9, 0.1], [0.2, 0.8]]); of an experiment: "
                "confusion(file='matrix.npy')",
                "given": "; of an experiment: given(file='labels.npz', labels=worse_label)",
            }
            raise BadInput(f"noise {spec!r} needs {name}: pass {name}={written.get(name, '')}")
        return value


@dataclass(frozen=True)
class Noise:
    """A kind of noise: a function from `Clean` labels to corrupted ones, with its options."""

    name: str
    run: Callable[..., Labels]
    summary: str
    random: bool = True  # whether drawing anew gives something else
    options: Mapping[str, Any] = field(default_factory=dict)


_NOISES: dict[str, Noise] = {}


def noise(name: str, *, random: bool = True) -> Callable[[Callable[..., Labels]], Callable[..., Labels]]:
    """Register the decorated function as the noise `name`; its keyword-only arguments are its options."""

    def register(run: Callable[..., Labels]) -> Callable[..., Labels]:
        if name in _NOISES and _NOISES[name].run is not run:
            raise BadInput(f"there is a noise {name!r} already; choose another name")
        summary = (inspect.getdoc(run) or "").split("\n")[0]
        _NOISES[name] = Noise(name, run, summary, random, options_of(run))
        return run

    return register


def noises() -> dict[str, Noise]:
    """All kinds of noise by name, in alphabetical order."""
    return dict(sorted(_NOISES.items()))


def noisy_labels(
    labels: Any,
    classes: int,
    spec: str | Spec,
    seed: int | Sequence[int],
    features: Any = None,
    *,
    matrix: Any = None,
    given: Any = None,
    ids: Any = None,
    draw: int = 0,
) -> Labels:
    """The labels of a whole pool after noise such as `"symmetric(rate=0.2)"`.

    `features` (n, S) are for `instance`, `matrix` (K, K) for `confusion`, `given` (n,) for `given`; a kind that does
    not need them does not look at them. `ids` are the pool's, by default 0..n - 1: an item keeps its noise wherever it
    stands. Another `draw` is the same noise, drawn anew.

    >>> noisy_labels([0, 1, 2, 3], 4, "pairs(rate=1)", seed=0).tolist()
    [1, 2, 3, 0]
    """
    kind, options = _resolve(spec)
    classes, draw = whole_number("classes", classes, 1), whole_number("draw", draw, 0)
    clean = as_labels(labels, classes)
    names = np.arange(len(clean)) if ids is None else as_ids(ids)
    if len(names) != len(clean):
        raise BadInput(f"{len(clean)} labels need {len(clean)} ids, got {len(names)}")
    Directory(names)
    lottery, steady = lottery_of(_SALT, seed, names, 1, draw), lottery_of(_SALT, seed, names, 0)
    found = kind.run(Clean(clean, classes, lottery, steady, features, matrix, given), **options)
    return as_labels(found, classes, len(clean), f"what noise {kind.name!r} makes of labels")


class Noisy:
    """An oracle whose answers are the truth after noise.

    It says the same however often it is asked; with `fresh`, each asking about an item is a new draw of the same noise.
    That costs one pass over the pool whenever an item is asked about more often than any was before.
    """

    def __init__(
        self,
        truth: Truth,
        spec: str | Spec,
        seed: int | Sequence[int] = 0,
        features: Any = None,
        *,
        matrix: Any = None,
        given: Any = None,
        fresh: bool = False,
    ) -> None:
        kind, _ = _resolve(spec)
        if fresh and not kind.random:
            raise BadInput(f"noise {kind.name!r} is not drawn, so it cannot be drawn anew; leave out fresh=True")
        self.spec = spec if isinstance(spec, Spec) else parse(spec)
        self.truth, self.seed, self.fresh = truth, seed, fresh
        self._extra = {"features": features, "matrix": matrix, "given": given}
        self._draws: list[Labels] = []
        self._tally = Tally()
        self._directory = Directory(truth.ids)
        self.labels = self._draw(0)
        if not fresh:
            self._extra = {}  # a pool's features are large, and nothing is drawn again

    def answer(self, ids: Any) -> Answers:
        """The noisy labels of these ids."""
        asked = as_ids(ids)
        places = self._directory.positions(asked)
        labels = self.labels[places]
        if self.fresh:
            times = self._tally.count(asked)
            for again in np.unique(times):
                now = times == again
                labels[now] = self._draw(int(again))[places[now]]
        return Answers(asked, labels, str(self.spec))

    def remember(self, askings: Sequence[Any]) -> None:
        """Count from here, where askings count."""
        self._tally = Tally(askings)

    def _draw(self, number: int) -> Labels:
        while len(self._draws) <= number:
            truth, draw = self.truth, len(self._draws)
            self._draws.append(
                noisy_labels(truth.labels, truth.classes, self.spec, self.seed, ids=truth.ids, draw=draw, **self._extra)
            )
        return self._draws[number]


@noise("symmetric")
def symmetric(clean: Clean, *, rate: float, inclusive: bool = False, exact: bool = True) -> Labels:
    """Any other class (or any class, if inclusive), all equally likely."""
    hit = _chosen(clean, share(rate), exact)
    where = clean.lottery.uniform(_WHERE)
    if inclusive:
        target = _one_of(clean.classes, where)
    else:
        _check_two_classes(clean, rate)
        target = (clean.labels + 1 + _one_of(max(clean.classes - 1, 1), where)) % clean.classes
    return np.asarray(np.where(hit, target, clean.labels), np.int64)


@noise("pairs")
def pairs(clean: Clean, *, rate: float, to: Any = None, exact: bool = True) -> Labels:
    """Each class for one other: those in `to`, as `[[from, to], ...]`; without it, for the next."""
    if to is None:
        _check_two_classes(clean, rate)
        return _along(clean, np.roll(np.arange(clean.classes), -1), rate, exact)
    return _along(clean, _targets(to, clean.classes), rate, exact)


@noise("asymmetric_cifar10")
def asymmetric_cifar10(clean: Clean, *, rate: float, exact: bool = True) -> Labels:
    """CIFAR-10's look-alikes: truck, bird, deer, cat and dog for automobile, airplane, horse, dog and cat."""
    _check_classes("asymmetric_cifar10", clean, 10)
    return _along(clean, _targets(CIFAR10_PAIRS, 10), rate, exact)


@noise("asymmetric_cifar100")
def asymmetric_cifar100(clean: Clean, *, rate: float, exact: bool = True) -> Labels:
    """CIFAR-100's classes for the next in the same superclass."""
    _check_classes("asymmetric_cifar100", clean, 100)
    return _along(clean, next_in_superclass(), rate, exact)


@noise("instance")
def instance(clean: Clean, *, rate: float, spread: float = 0.1) -> Labels:
    """By the item's features: each item has classes that it is likely to be mistaken for."""
    if share(rate) == 0:
        return clean.labels
    _check_two_classes(clean, rate)
    features = _vectors(clean.need("features", "instance"), len(clean.labels))
    often = _cut_normal(clean.steady.uniform(_HOW_OFTEN), share(rate), spread)
    hit = clean.lottery.uniform(_WHETHER) < often
    where = clean.lottery.uniform(_WHERE)
    found: Labels = clean.labels.copy()
    for kind in range(clean.classes):
        rows = np.flatnonzero(hit & (clean.labels == kind))
        if len(rows):
            found[rows] = _mistaken_for(clean, kind, features, rows, where[rows])
    return found


@noise("confusion")
def confusion(clean: Clean, *, matrix: Any = None) -> Labels:
    """By a matrix: row y holds the probabilities of the answers about an item of class y."""
    matrix = _stochastic(clean.need("matrix", "confusion") if matrix is None else matrix, clean.classes)
    where = clean.lottery.uniform(_WHERE)
    found: Labels = clean.labels.copy()
    for kind in np.unique(clean.labels):
        rows = clean.labels == kind
        steps = np.cumsum(matrix[kind])
        found[rows] = np.searchsorted(steps / steps[-1], _below_one(where[rows]), side="right")
    return found


@noise("given", random=False)
def given_labels(clean: Clean) -> Labels:
    """Labels that people gave, as they are."""
    return as_labels(clean.need("given", "given"), clean.classes, len(clean.labels), "given labels")


def next_in_superclass() -> Labels:
    """For each of CIFAR-100's classes the next in its superclass, the first after the last."""
    superclass = np.array(CIFAR100_SUPERCLASSES)
    following: Labels = np.empty(len(superclass), np.int64)
    for group in range(superclass.max() + 1):
        members = np.flatnonzero(superclass == group)
        following[members] = np.roll(members, -1)
    return following


def standardised(items: Any) -> npt.NDArray[np.float32]:
    """Items as flat vectors of mean 0 and variance 1: images (n, h, w, c) by channel, vectors (n, d) by column."""
    array = np.asarray(items)
    if array.ndim not in (2, 4) or not len(array) or array.dtype.kind not in "fiu":
        raise BadInput(
            "images (n, height, width, channels) or vectors (n, d) can be standardised, one item or more; "
            f"got {array.dtype} of shape {array.shape}"
        )
    axes = tuple(range(array.ndim - 1))
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(array), _BLOCK)]
    count = array.size // array.shape[-1]
    mean = sum(array[block].sum(axis=axes, dtype=np.float64) for block in blocks) / count
    variance = sum(np.square(array[block] - mean).sum(axis=axes) for block in blocks) / count
    scale = np.where(variance > 0, np.sqrt(variance), 1.0)
    flat = np.empty((len(array), array[0].size), np.float32)
    for block in blocks:
        flat[block] = ((array[block] - mean) / scale).reshape(-1, flat.shape[1])
    return flat


def _resolve(spec: str | Spec) -> tuple[Noise, dict[str, Any]]:
    """The kind of noise a spec stands for and its options, both known."""
    if not isinstance(spec, str | Spec):
        raise BadInput(f"noise is given as text such as 'symmetric(rate=0.2)', got {spec!r}")
    parsed = parse(spec) if isinstance(spec, str) else spec
    check_known("noise", parsed.name, _NOISES)
    kind = _NOISES[parsed.name]
    for name in parsed.options:
        check_known(f"option of noise {kind.name!r} called", name, kind.options)
    for name, default in kind.options.items():
        if default is inspect.Parameter.empty and name not in parsed.options:
            raise BadInput(f"noise {kind.name!r} needs {name}: write {kind.name}({name}=0.2)")
    check_options(f"noise {kind.name!r}", kind.run, parsed.options, kind.options)
    return kind, dict(parsed.options)


def _chosen(clean: Clean, rate: float, exact: bool, among: Mask | None = None) -> Mask:
    """Which items are hit: the ⌊rate n⌋ first of a random order, or those whose coin says so."""
    number = clean.lottery.uniform(_WHETHER)
    rows = np.arange(len(number)) if among is None else np.flatnonzero(among)
    if exact:
        order = np.argsort(number[rows], kind="stable")
        rows = rows[order[: int(np.floor(rate * len(rows) + _ROUNDING))]]
    else:
        rows = rows[number[rows] < rate]
    hit = np.zeros(len(number), np.bool_)
    hit[rows] = True
    return hit


def _along(clean: Clean, target: Labels, rate: float, exact: bool) -> Labels:
    """A share of each class becomes its target; a class that is its own target stays."""
    rate = share(rate)
    found: Labels = clean.labels.copy()
    for kind in np.flatnonzero(target != np.arange(clean.classes)):
        found[_chosen(clean, rate, exact, clean.labels == kind)] = target[kind]
    return found


def _targets(to: Any, classes: int) -> Labels:
    """What each class turns into, from pairs of class numbers."""
    listed = list(to.items()) if isinstance(to, Mapping) else to
    try:
        listed = np.asarray(listed)
    except ValueError:  # rows of different lengths
        listed = np.empty(0)
    if listed.ndim != 2 or listed.shape[1] != 2 or listed.dtype.kind not in "iu":
        raise BadInput(f"`to` must be pairs of class numbers, [[from, to], ...]; got {to!r}")
    if listed.min() < 0 or listed.max() >= classes or (listed[:, 0] == listed[:, 1]).any():
        raise BadInput(f"`to` must pair different classes of 0..{classes - 1}; got {to!r}")
    if len(np.unique(listed[:, 0])) < len(listed):
        raise BadInput(f"`to` must name each class once on the left; got {to!r}")
    target: Labels = np.arange(classes)
    target[listed[:, 0]] = listed[:, 1]
    return target


def _mistaken_for(
    clean: Clean, kind: int, features: npt.NDArray[Any], rows: npt.NDArray[np.intp], where: npt.NDArray[np.float64]
) -> Labels:
    """The classes that these items of one class are taken for, by their features."""
    dice = np.random.default_rng(clean.steady.draw(_WEIGHTS + kind))
    weights = dice.standard_normal((features.shape[1], clean.classes), np.float32)
    target: Labels = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        affinity = (np.asarray(features[rows[block]], np.float32) @ weights).astype(np.float64)
        affinity[:, kind] = -np.inf
        target[block] = _drawn(_exponentials(affinity), where[block])
    return target


def _cut_normal(uniform: npt.NDArray[np.float64], centre: float, spread: Any) -> npt.NDArray[np.float64]:
    """Normal numbers around a centre, given that they lie in 0..1, from uniform ones."""
    if share(spread, "spread") == 0:
        return np.full(len(uniform), centre)
    low, high = ndtr((0 - centre) / spread), ndtr((1 - centre) / spread)
    return np.asarray(np.clip(centre + spread * ndtri(low + uniform * (high - low)), 0, 1), np.float64)


def _exponentials(affinity: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.exp(affinity - affinity.max(axis=1, keepdims=True)), np.float64)


def _drawn(weights: npt.NDArray[np.float64], uniform: npt.NDArray[np.float64]) -> Labels:
    """One class a row, as likely as its weight."""
    steps = np.cumsum(weights, axis=1)
    steps /= steps[:, -1:]
    return np.asarray((steps <= _below_one(uniform)[:, None]).sum(axis=1), np.int64)


def _one_of(count: int, uniform: npt.NDArray[np.float64]) -> Labels:
    """One of 0..count - 1, all equally likely."""
    return np.asarray(np.floor(_below_one(uniform) * count), np.int64)


def _below_one(uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A draw so near to 1 that it was rounded there would point beyond the last class."""
    return np.asarray(np.minimum(uniform, np.nextafter(1.0, 0)), np.float64)


def _stochastic(matrix: Any, classes: int) -> npt.NDArray[np.float64]:
    try:
        table = np.asarray(matrix, np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"matrix must be {classes} rows of {classes} probabilities, got {matrix!r}") from None
    if table.shape != (classes, classes):
        raise BadInput(f"matrix must have shape {(classes, classes)} for {classes} classes, got {table.shape}")
    if not np.isfinite(table).all() or table.min() < 0:
        raise BadInput("matrix holds probabilities, so numbers from 0 to 1; got some below 0 or not finite")
    sums = table.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-6)
    if len(wrong):
        raise BadInput(
            f"each row of matrix (true class) must sum to 1; row {wrong[0]} sums to {sums[wrong[0]]:.6g}. "
            "Divide counts by their row sums; transpose if the true classes are the columns"
        )
    return table


def _vectors(features: Any, items: int) -> npt.NDArray[Any]:
    array = features if isinstance(features, np.ndarray) else np.asarray(features)
    if array.ndim != 2 or len(array) != items or array.dtype.kind != "f":
        raise BadInput(
            f"features must be {items} flat standardised vectors, floating-point (n, S); got {array.dtype} of shape "
            f"{array.shape}. ncalr.oracles.standardised makes them of images"
        )
    for start in range(0, items, _BLOCK):
        if not np.isfinite(array[start : start + _BLOCK]).all():
            raise NotFinite(f"features hold NaN or infinity (rows {start}..{start + _BLOCK - 1})")
    return array


def _check_two_classes(clean: Clean, rate: float) -> None:
    if clean.classes < 2 and share(rate) > 0:
        raise BadInput("noise needs another class to go to, and there is one class; use rate=0")


def _check_classes(name: str, clean: Clean, wanted: int) -> None:
    if clean.classes != wanted:
        raise BadInput(f"noise {name!r} is made for {wanted} classes, got {clean.classes}; see pairs(rate=..., to=...)")
