"""Linear probes: how well a linear classifier reads the classes of a dataset off frozen features.

The protocol is that of Kornblith, Shlens and Le, "Do better ImageNet models transfer better?" (2019) and of Radford et
al., "Learning transferable visual models from natural language supervision" (2021): multinomial logistic regression by
L-BFGS, its strength C chosen on a part of the training set, then fitted again on all of it. With features standardised
(mean and deviation of the training set; columns that never change become 0) the fit minimises

    F(W, b) = 1/n sum_i -log softmax(W x_i + b)[y_i]  +  |W|^2 / (2 C n)

which is scikit-learn's objective divided by C n: its C multiplies the sum of the losses, and the intercept is free. For
two classes scikit-learn fits one vector w instead of two; with W = (-w/2, w/2) that is F with twice the penalty, and so
it is here.

How C is chosen: a fifth of each class is held out; C goes up the coarse grid 1e-6, 1e-4 .. 1e6, then the gaps beside
the best are halved until they are an eighth of a decade, each fit starting from that of the nearest C. Best is the
highest accuracy on the held-out part, of equals the smallest C. The features are standardised once, by the whole
training set: no label is in that.

Three things make it quick, and none changes the minimum. The penalty does not care how the features are turned, so they
are turned to their principal axes (and cut to as many as there are items, if these are fewer); there the Hessian at
W = 0 is diagonal, a L + 1/(C n) with the variances L and a = mean of p (1 - p), and its inverse, with a kept up to
date, is where L-BFGS begins each step: 3 to 6 times fewer steps than from a multiple of the identity. A step is two
matrix products, and one pass over the logits in the cache. And it ends not at an absolute gradient, which with
separable classes is small long before the minimum, but when the next step promises less than `tolerance` of F (half
the Newton decrement, g^T H g / 2); accuracy is then that of the minimum to about a tenth of a point, for any C.
Products are in float32, parameters and sums in float64.

    >>> import numpy as np
    >>> from ncalr.evaluate.probe import probe
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(300) % 3
    >>> features = np.eye(3)[labels] + rng.normal(0, 0.3, (300, 3))
    >>> found = probe(features[:200], labels[:200], features[200:], labels[200:])
    >>> found.top1 > 0.9, found.at_edge, found.converged
    (True, False, True)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.data.splits import drawn
from ncalr.errors import BadInput, NotFinite
from ncalr.kernels import Array, Backend, choose, is_torch, to_numpy

GRID = (1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
"""Where the search for C begins."""
FINEST = 1 / 8
"""Decades between the C at which it ends."""

_HISTORY = 10
_LOOKS = 20  # points that a line search may try
_NOISE = 1e-6  # of F: what float32 leaves uncertain
_ROOM_BYTES = 64 << 20  # of logits at a time
_CACHE_BYTES = 1 << 20  # of which so many stay in the cache of one core
_WIDEST = 4096  # principal axes of more dimensions cost more than they save

Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Linear:
    """A fitted linear classifier, for features as they are (the standardising is inside the weights)."""

    weights: Floats  # (classes, d)
    intercept: Floats  # (classes,)
    classes: Labels  # the label that each row stands for
    C: float
    objective: float  # F of this file's docstring
    iterations: int
    converged: bool  # whether the next step promised less than the tolerance

    def predict(self, features: Any, device: Any = None) -> Labels:
        """The label of each row of features (n, d)."""
        features = matrix("features", features)
        backend = choose(device, [features])
        if features.shape[1] != self.weights.shape[1]:
            raise BadInput(
                f"features have {features.shape[1]} columns, but the classifier was fitted on {self.weights.shape[1]}"
            )
        weights, intercept = backend.asarray(self.weights), backend.asarray(self.intercept)
        found = [
            backend.numpy(backend.argmax(block @ weights.T + intercept))
            for _, block in finite_blocks("features", features, backend, len(self.classes))
        ]
        return self.classes[np.concatenate(found)] if found else np.zeros(0, np.int64)


@dataclass(frozen=True)
class Probe:
    """What a probe found. Accuracies are shares, not per cent."""

    top1: float
    mean_per_class: float  # mean over the classes of the test set
    C: float
    at_edge: bool  # C is the first or the last of the grid: the best may lie beyond it
    grid: tuple[tuple[float, float], ...]  # each C that was tried, rising, and its accuracy on the held-out part
    iterations: int  # of the fit on the whole training set
    converged: bool
    classes: int  # in the training set
    unseen: tuple[int, ...]  # classes of the test set that the training set lacks: their items count as wrong


def probe(
    train_features: Any,
    train_labels: Any,
    test_features: Any,
    test_labels: Any,
    *,
    C: float | None = None,
    grid: Sequence[float] = GRID,
    held_out: float = 0.2,
    device: Any = None,
    seed: int = 0,
    tolerance: float = 1e-7,
    max_iterations: int = 1000,
) -> Probe:
    """Fit on the training set, measure on the test set. Without `C` it is chosen on a part of the training set.

    device: where to compute; without one, on the GPU if the features are there already, otherwise on the CPU.
    seed: for the part held out. A class with one item is never held out.
    """
    train, test = matrix("train_features", train_features), matrix("test_features", test_features)
    if train.shape[1] != test.shape[1]:
        raise BadInput(
            f"train_features have {train.shape[1]} columns and test_features {test.shape[1]}; "
            "they must come from the same network"
        )
    labels = whole_numbers("train_labels", train_labels, len(train))
    truth = whole_numbers("test_labels", test_labels, len(test))
    if not len(truth):
        raise BadInput("the test set is empty")
    coarse = sorted({_strength(c) for c in ([C] if C is not None else grid)})
    if not coarse:
        raise BadInput("grid is empty; pass the C to try, or none for the default")
    backend = choose(device, [train])
    held = _held_out(labels, held_out, seed) if C is None else None
    for _ in finite_blocks("test_features", test, backend):
        pass  # rather than find a NaN after the fits
    problem = _prepare(train, labels, backend, "train_features")
    with _full_precision(backend):
        path = _Path(coarse[0], problem.zeros())
        if held is not None:
            path = _search(problem, held, coarse, tolerance, max_iterations)
        solution = _minimise(problem, path.start, path.C, tolerance, max_iterations)
        found = problem.classifier(solution, path.C)
    correct = found.predict(test, device) == truth
    kinds, at = np.unique(truth, return_inverse=True)
    return Probe(
        top1=float(correct.mean()),
        mean_per_class=float((np.bincount(at, correct) / np.bincount(at)).mean()),
        C=path.C,
        at_edge=C is None and path.C in (coarse[0], coarse[-1]),
        grid=path.grid,
        iterations=solution.iterations,
        converged=solution.converged,
        classes=len(found.classes),
        unseen=tuple(np.setdiff1d(kinds, found.classes).tolist()),
    )


def fit_linear(
    features: Any,
    labels: Any,
    C: float,
    *,
    standardise: bool = True,
    device: Any = None,
    tolerance: float = 1e-7,
    max_iterations: int = 1000,
) -> Linear:
    """Fit a logistic regression of this strength on standardised features, or on features as they are.

    The classifier is one of the features as they are, in either case.
    """
    features = matrix("features", features)
    labels = whole_numbers("labels", labels, len(features))
    problem = _prepare(features, labels, choose(device, [features]), "features", standardise)
    with _full_precision(problem.backend):
        solution = _minimise(problem, problem.zeros(), _strength(C), tolerance, max_iterations)
        return problem.classifier(solution, C)


def search_grid(scores: Mapping[float, float], finest: float = FINEST) -> list[float]:
    """The C to try next, rising: the middles, by logarithm, of the gaps on either side of the best that are too wide.

    scores: the C tried and what they got, higher is better; of equals the smallest C is best. Empty at the end.

    >>> search_grid({1e-2: 0.5, 1.0: 0.9, 1e2: 0.7})
    [0.1, 10.0]
    """
    tried = sorted(scores)
    best = max(tried, key=scores.__getitem__)
    gaps = [(a, b) for a, b in pairwise(tried) if best in (a, b)]
    logs = [(np.log10(a), np.log10(b)) for a, b in gaps]
    return [float(10 ** ((a + b) / 2)) for a, b in logs if b - a > finest * 1.001]


# -- the door -------------------------------------------------------------------------------------------------


def matrix(name: str, value: Any) -> Array:
    """An array or tensor of shape (items, d), as it is; anything else is an error."""
    array: Array = value if is_torch(value) else np.asarray(value)
    kind = "f" if is_torch(array) else array.dtype.kind
    if array.ndim != 2 or kind not in "fiub" or not array.shape[1]:
        raise BadInput(f"{name} must be numbers of shape (items, d), got {array.dtype} of shape {tuple(array.shape)}")
    return array


def whole_numbers(name: str, value: Any, items: int) -> Labels:
    """One whole number an item; anything else is an error."""
    array = to_numpy(value)
    if array.shape != (items,) or (items and array.dtype.kind not in "iu"):
        raise BadInput(
            f"{name} must be one whole number for each of {items} items, got {array.dtype} of shape {array.shape}"
        )
    return np.asarray(array, np.int64)


def finite_blocks(name: str, features: Array, backend: Backend, width: int = 0) -> Iterator[tuple[slice, Array]]:
    """Slices, and the rows they stand for in float64 (not to be written to); NaN or infinity is an error.

    width: how many numbers will be made of a row, if that is more than it has.
    """
    size = max(1, backend.chunk_bytes // 16 // (8 * max(features.shape[1], width)))
    for start in range(0, len(features), size):
        rows = slice(start, start + size)
        block = backend.asarray(backend.block(features, rows), "float64")
        if not backend.is_finite(block):
            bad = np.argwhere(~np.isfinite(backend.numpy(block)))[0]
            raise NotFinite(f"{name} hold NaN or infinity, first in row {start + bad[0]}, column {bad[1]}")
        yield rows, block


def _strength(C: float) -> float:
    if not (np.isfinite(C) and C > 0):
        raise BadInput(f"C must be a number above 0 (larger = weaker penalty), got {C}")
    return float(C)


# -- the choice of C -------------------------------------------------------------------------------------------


class _Path(NamedTuple):
    """The C that was chosen, parameters to begin its last fit from, and what was tried."""

    C: float
    start: Array
    grid: tuple[tuple[float, float], ...] = ()


def _search(problem: _Problem, held: npt.NDArray[np.bool_], coarse: list[float], tolerance: float, most: int) -> _Path:
    """The C with the highest accuracy on the items held out."""
    fitted, kept = problem.rows(~held), problem.rows(held)
    scores: dict[float, float] = {}
    found: dict[float, Array] = {}
    todo = coarse
    while todo:
        for C in todo:
            near = min(found, key=lambda c: abs(np.log(c / C))) if found else None
            start = problem.zeros() if near is None else found[near]
            found[C] = _minimise(fitted, start, C, tolerance, most).parameters
            scores[C] = kept.accuracy(found[C])
        todo = search_grid(scores)
    best = max(sorted(scores), key=scores.__getitem__)
    return _Path(best, found[best], tuple(sorted(scores.items())))


def _held_out(labels: Labels, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which items are held out: this share of each class, one at least and not the last one."""
    if not 0 < share < 1:
        raise BadInput(f"held_out is a share between 0 and 1, got {share}")
    order = drawn(len(labels), seed, "probe held out")
    by_class = order[np.argsort(labels[order], kind="stable")]
    _, starts, counts = np.unique(labels[by_class], return_index=True, return_counts=True)
    sizes = np.minimum(np.maximum(np.rint(counts * share), 1), counts - 1)
    place = np.arange(len(labels)) - np.repeat(starts, counts)
    held = np.zeros(len(labels), bool)
    held[by_class[place < np.repeat(sizes, counts)]] = True
    if not held.any():
        raise BadInput("no class has two items, so nothing can be held out to choose C on; pass C=")
    return held


# -- the problem in its principal axes ------------------------------------------------------------------------


class _Loss(NamedTuple):
    """Mean loss, its gradient and the mean of p (1 - p)."""

    value: float
    gradient: Array
    curvature: float


@dataclass(frozen=True)
class _Problem:
    """Items in the principal axes of the standardised training features, on the backend.

    Parameters are (classes, axes + 1) in float64, the intercepts in the last column.
    """

    backend: Backend
    features: Array  # (n, axes) float32
    labels: Array  # (n,) places in `classes`
    spread: Array  # (axes,) variance along each axis
    classes: Labels
    mean: Floats  # (d,)
    scale: Floats  # (d,)
    axes: Array | None  # (d, axes); None: the columns themselves

    def zeros(self) -> Array:
        return self.backend.asarray(np.zeros((len(self.classes), len(self.spread) + 1)))

    def rows(self, chosen: npt.NDArray[np.bool_]) -> _Problem:
        """The same for some of the items."""
        places = np.flatnonzero(chosen)
        return _Problem(
            self.backend,
            self.backend.block(self.features, places),
            self.backend.block(self.labels, places),
            *(self.spread, self.classes, self.mean, self.scale, self.axes),
        )

    def penalty(self, C: float) -> float:
        """What multiplies |W|^2 / 2 beside the mean loss."""
        return (2.0 if len(self.classes) == 2 else 1.0) / (C * len(self.labels))

    def loss(self, parameters: Array) -> _Loss:
        """Two large matrix products a block, with what lies between them in pieces that stay in the cache."""
        xp, n, k = self.backend.xp, len(self.labels), len(self.classes)
        weights = self.backend.asarray(parameters[:, :-1], "float32")
        intercept = self.backend.asarray(parameters[:, -1], "float32")
        gradient = xp.zeros_like(parameters)
        value = curvature = 0.0
        for start in range(0, n, len(self.room)):
            rows = slice(start, min(start + len(self.room), n))
            z = self.room[: rows.stop - start]
            xp.matmul(self.features[rows], weights.T, out=z)
            z += intercept
            for first in range(0, len(z), self.piece):
                places = slice(first, first + self.piece)
                more, curved = _to_residuals(z[places], self.labels[rows][places], xp)
                value, curvature = value + more, curvature + curved
            gradient[:, :-1] += z.T @ self.features[rows]
            gradient[:, -1] += z.sum(0)
        gradient /= n
        return _Loss(float(value) / n, gradient, max(float(curvature) / (n * k), 0.0))

    @cached_property
    def room(self) -> Array:
        """Where the logits of a block are put: fresh memory for each costs more than the products."""
        size = min(len(self.labels), max(_ROOM_BYTES // (4 * len(self.classes)), 512))
        return self.backend.asarray(np.empty((size, len(self.classes)), np.float32))

    @property
    def piece(self) -> int:
        return max(_CACHE_BYTES // (4 * len(self.classes)), 64) if self.backend.xp is np else len(self.room)

    def accuracy(self, parameters: Array) -> float:
        weights = self.backend.asarray(parameters, "float32")
        right = 0
        for start in range(0, len(self.labels), len(self.room)):
            rows = slice(start, start + len(self.room))
            guess = self.backend.argmax(self.features[rows] @ weights[:, :-1].T + weights[:, -1])
            right += int((guess == self.labels[rows]).sum())
        return right / len(self.labels)

    def classifier(self, solution: _Solution, C: float) -> Linear:
        """The solution in the columns of the features as they are."""
        parameters = solution.parameters
        turned = parameters[:, :-1] if self.axes is None else parameters[:, :-1] @ self.axes.T
        weights = self.backend.numpy(turned) / self.scale
        intercept = self.backend.numpy(parameters[:, -1]) - weights @ self.mean
        return Linear(
            weights, intercept, self.classes, float(C), solution.value, solution.iterations, solution.converged
        )


def _to_residuals(z: Array, labels: Array, xp: Any) -> tuple[Any, Any]:
    """Turn logits into p - (1 for the true class) in place; the sum of the losses and that of p (1 - p).

    The residual of the true class is minus the sum of the others, which keeps its digits when p is near 1.
    """
    row = xp.arange(len(z)) if xp is np else xp.arange(len(z), device=z.device)
    z -= xp.amax(z, 1)[:, None]
    own = z[row, labels]
    xp.exp(z, out=z)
    z[row, labels] = 0
    others = z.sum(1)
    more = others + xp.expm1(own)  # the sum of all, less 1
    z /= (1 + more)[:, None]
    wrong = others / (1 + more)
    z[row, labels] = -wrong
    loss = (xp.log1p(more) - own).sum(dtype=xp.float64)
    return loss, 2 * wrong.sum(dtype=xp.float64) - xp.vdot(z.reshape(-1), z.reshape(-1))


def _prepare(features: Array, labels: Labels, backend: Backend, name: str, standardise: bool = True) -> _Problem:
    """Standardise the features, unless told not to, and turn them to their principal axes."""
    classes, places = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(f"a probe needs two classes or more to tell apart, got {len(classes)} in the training labels")
    mean, scale = _moments(features, backend, name)
    if not standardise:
        scale = np.ones_like(scale)
    n, d = len(labels), features.shape[1]
    z = backend.asarray(np.empty((n, d), np.float32))
    centre, unit = backend.asarray(mean), backend.asarray(scale)
    for rows, block in finite_blocks(name, features, backend):
        z[rows] = backend.asarray((block - centre) / unit, "float32")
    with _full_precision(backend):
        z, spread, axes = _turn(z, backend)
    return _Problem(backend, z, backend.asarray(places.astype(np.int64)), spread, classes, mean, scale, axes)


def _turn(z: Array, backend: Backend) -> tuple[Array, Array, Array | None]:
    """The features in their principal axes, the variance along each, and the axes as columns in float64."""
    xp = backend.xp
    n, d = z.shape
    if min(n, d) > _WIDEST:
        return z, backend.asarray(np.ones(d)), None
    span = None
    if d > n:  # all items lie in n dimensions, and so does the best W
        span = xp.linalg.qr(backend.asarray(z, "float64").T)[0]
        z = z @ backend.asarray(span, "float32")
    spread, axes = xp.linalg.eigh(backend.asarray(z.T @ z, "float64") / n)
    z = z @ backend.asarray(axes, "float32")
    return z, xp.clip(spread, 0, None), axes if span is None else span @ axes


def _moments(features: Array, backend: Backend, name: str) -> tuple[Floats, Floats]:
    """Mean and deviation of each column; 1 in place of the deviation of a column that never changes."""
    n = len(features)
    total = squares = 0.0
    for _, block in finite_blocks(name, features, backend):
        total = total + block.sum(0)
    mean = total / n
    for _, block in finite_blocks(name, features, backend):
        squares = squares + ((block - mean) ** 2).sum(0)
    mean, deviation = backend.numpy(mean), np.sqrt(backend.numpy(squares) / n)
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)


@contextmanager
def _full_precision(backend: Backend) -> Iterator[None]:
    """Matrix products in float32 as such: TF32, if the caller has allowed it, is too coarse for a line search."""
    torch = sys.modules.get("torch")
    if backend.xp is np or torch is None:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# -- L-BFGS ---------------------------------------------------------------------------------------------------


class _Solution(NamedTuple):
    parameters: Array
    value: float
    iterations: int
    converged: bool


class _Point(NamedTuple):
    """F and what L-BFGS needs to know of it at one place."""

    parameters: Array
    value: float
    gradient: Array
    inverse: Array  # diagonal of the inverse of the Hessian, roughly


def _minimise(problem: _Problem, start: Array, C: float, tolerance: float, most: int) -> _Solution:
    """L-BFGS (Nocedal 1980) from the inverse diagonal of each point."""
    penalty = problem.penalty(C)
    here = _point(problem, start, penalty)
    steps: list[tuple[Array, Array, float]] = []  # change of place, of gradient, and one over their product
    for iteration in range(most):
        towards = _direction(here, steps)
        slope = float((towards * here.gradient).sum())
        if -slope / 2 <= tolerance * here.value:
            return _Solution(here.parameters, here.value, iteration, True)
        there = _line_search(problem, here, towards, slope, penalty)
        if there is None:  # float32 sees nothing lower in this direction
            return _Solution(here.parameters, here.value, iteration, False)
        moved, turned = there.parameters - here.parameters, there.gradient - here.gradient
        steps = [*steps[1 - _HISTORY :], (moved, turned, 1 / float((moved * turned).sum()))]
        here = there
    return _Solution(here.parameters, here.value, most, False)


def _point(problem: _Problem, parameters: Array, penalty: float) -> _Point:
    loss, gradient, curvature = problem.loss(parameters)
    weights = parameters[:, :-1]
    gradient[:, :-1] += penalty * weights
    inverse = problem.backend.xp.ones_like(parameters[0])
    inverse[:-1] = 1 / (max(curvature, 1e-12) * problem.spread + penalty)
    inverse[-1] = 1 / max(curvature, 1e-12)
    return _Point(parameters, loss + penalty / 2 * float((weights * weights).sum()), gradient, inverse)


def _direction(here: _Point, steps: list[tuple[Array, Array, float]]) -> Array:
    """Minus the inverse Hessian times the gradient, by the two loops."""
    q = here.gradient * 1
    shares = []
    for moved, turned, scale in reversed(steps):
        shares.append(scale * (moved * q).sum())
        q -= shares[-1] * turned
    if steps:
        _, turned, scale = steps[-1]
        q /= scale * (turned * here.inverse * turned).sum()
    q *= here.inverse
    for (moved, turned, scale), share in zip(steps, reversed(shares), strict=True):
        q += (share - scale * (turned * q).sum()) * moved
    return -q


def _line_search(problem: _Problem, here: _Point, towards: Array, slope: float, penalty: float) -> _Point | None:
    """A step that meets the Wolfe conditions, or Hager and Zhang's approximate ones (2005) where values are noise."""
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(_LOOKS):
        there = _point(problem, here.parameters + step * towards, penalty)
        rise = float((there.gradient * towards).sum())
        level = there.value <= here.value * (1 + _NOISE) and rise <= -0.9998 * slope
        if not (there.value <= here.value + 1e-4 * step * slope or level):
            high = step
        elif rise < 0.9 * slope:
            low = step
        else:
            return there
        step = (low + high) / 2 if high < np.inf else 2 * step
    return None
