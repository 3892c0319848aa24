"""Linear probes: how well a linear classifier reads the classes of a dataset off frozen features.

The protocol is that of Kornblith, Shlens and Le, "Do better ImageNet models transfer better?" (2019) and of Radford et
al., "Learning transferable visual models from natural language supervision" (2021): multinomial logistic regression by
L-BFGS, its strength C chosen on a part of the training set, then fitted again on all of it. `ncalr.learn.linear` has
the fit, on standardised features (mean and deviation of the training set).

How C is chosen: a fifth of each class is held out; C goes up the coarse grid 1e-6, 1e-4 .. 1e6, then the gaps beside
the best are halved until they are an eighth of a decade, each fit starting from that of the nearest C. Best is the
highest accuracy on the held-out part, of equals the smallest C. The features are standardised once, by the whole
training set: no label is in that.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.data.splits import drawn
from ncalr.errors import BadInput
from ncalr.kernels import Array, choose
from ncalr.learn.linear import (
    Labels,
    LinearProblem,
    finite_blocks,
    full_precision,
    matrix,
    minimise,
    prepare,
    strength,
    whole_numbers,
)

GRID = (1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
"""Where the search for C begins."""
FINEST = 1 / 8
"""Decades between the C at which it ends."""


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
    coarse = sorted({strength(c) for c in ([C] if C is not None else grid)})
    if not coarse:
        raise BadInput("grid is empty; pass the C to try, or none for the default")
    backend = choose(device, [train])
    held = _held_out(labels, held_out, seed) if C is None else None
    for _ in finite_blocks("test_features", test, backend):
        pass  # rather than find a NaN after the fits
    problem = prepare(train, labels, backend, "train_features")
    with full_precision(backend):
        path = _Path(coarse[0], problem.zeros())
        if held is not None:
            path = _search(problem, held, coarse, tolerance, max_iterations)
        solution = minimise(problem, path.start, path.C, tolerance, max_iterations)
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


# -- the choice of C -------------------------------------------------------------------------------------------


class _Path(NamedTuple):
    """The C that was chosen, parameters to begin its last fit from, and what was tried."""

    C: float
    start: Array
    grid: tuple[tuple[float, float], ...] = ()


def _search(
    problem: LinearProblem, held: npt.NDArray[np.bool_], coarse: list[float], tolerance: float, most: int
) -> _Path:
    """The C with the highest accuracy on the items held out."""
    fitted, kept = problem.rows(~held), problem.rows(held)
    scores: dict[float, float] = {}
    found: dict[float, Array] = {}
    todo = coarse
    while todo:
        for C in todo:
            near = min(found, key=lambda c: abs(np.log(c / C))) if found else None
            start = problem.zeros() if near is None else found[near]
            found[C] = minimise(fitted, start, C, tolerance, most).parameters
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
