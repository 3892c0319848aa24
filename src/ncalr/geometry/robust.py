"""Class means that wrong labels cannot drag away.

A class mean is the mean of everything labelled with the class. Wrong labels bring in items of other classes and pull
it towards them, in proportion to their share and without bound. Three remedies, for a class with n labels:

    trimmed    the mean of the items nearest to a centre. Start from the coordinate-wise median; then a few times keep
               the n - floor(trim n) items nearest to the centre, always more than half, and take their mean as the
               centre. Each step lowers the sum of squared distances of those kept: the C-step of Rousseeuw and Van
               Driessen, "A fast algorithm for the minimum covariance determinant estimator" (1999), with a spherical
               covariance. Stands a share of wrong labels up to `trim`.
    median     the geometric median, argmin of the sum of distances; it breaks down at one half (Lopuhaä and Rousseeuw
               1991). Weiszfeld's iteration, with the correction of Vardi and Zhang, "The multivariate L1-median and
               associated data depth" (2000), for centres y that fall on an item: with e items there, and over the rest
               T = sum(x / |x - y|) / sum(1 / |x - y|),   R = sum((x - y) / |x - y|),   g = min(1, e / |R|),
               the next centre is (1 - g) T + g y.
    weighted   sum(w x) / sum(w), w the caller's confidence in each label: the annotators' posterior, an audit's score.

**What the statistics then mean.** They go wherever class statistics go: CMAP, the collapse measures, every strategy
that takes `statistics`.

    trimmed    counts, means and scatter of the items kept
    median     counts of all labels; scatter = count times the median squared distance, which outliers do not move
               either (for a Gaussian class in d dimensions it is short of the mean by about 2 / (3 d))
    weighted   counts = (sum w)^2 / sum w^2, rounded: so many equal weights would fix the mean as well (Kish 1965);
               scatter = count times the weighted mean squared distance. Equal weights give the plain statistics.

**What merges.** Weighted sums do, exactly: `weighted_statistics` of shards can be merged and updated. Which items are
far out, or in the middle, cannot be told shard by shard, so trimmed and median statistics are final: `merge` and
`update` raise. They need all labelled features of a class in one place.

**Which to take.** `trimmed`, mostly. Where classes are as wide as they are apart, as features in many dimensions are
before they collapse, every item is about equally far from any centre and the geometric median moves with the wrong
labels nearly as the mean does. Distance of class means from the truth, 50,000 items, 10 Gaussian classes with spread
sqrt(512) = 22.6 and 18.6 apart, 0 / 30 / 45 % wrong labels: plain 0.3 / 4.2 / 6.2, median 0.3 / 3.6 / 5.7, trimmed
0.5 / 0.5 / 0.5.

**What cannot be had.** Where more than half of a class's labels are wrong in the same way, these estimators find that
majority; the features of the class alone do not tell. Features are read one class at a time, in blocks, whatever their
precision; sums are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ncalr.errors import BadInput, NotFinite, check_known
from ncalr.geometry.statistics import ClassStatistics, Floats, blocks
from ncalr.kernels import to_numpy

Method = Literal["trimmed", "median", "weighted"]
_BLOCK_BYTES = 32 << 20
_CACHED_BYTES = 2 << 20  # blocks of passes that keep only a number an item: they are fastest inside the cache
_TOUCHING = 1e-150  # a distance below cannot be divided by


@dataclass(frozen=True)
class FinalStatistics(ClassStatistics):
    """Class statistics found from all items of a class together: nothing can be added to them."""

    def merge(self, other: ClassStatistics) -> ClassStatistics:  # noqa: ARG002 (the signature of the plain ones)
        """There is no exact merge."""
        raise _final()

    def update(self, features: Any, labels: Any) -> ClassStatistics:  # noqa: ARG002
        """There is no exact update."""
        raise _final()


@dataclass(frozen=True)
class WeightedStatistics(ClassStatistics):
    """Class statistics of weighted items. They merge with their like, and with plain ones as items of weight 1."""

    weights: Floats  # (c,) sum of the weights
    squares: Floats  # (c,) sum of their squares

    def merge(self, other: ClassStatistics) -> WeightedStatistics:
        """The statistics of both groups together."""
        one, two = _sums(self), _sums(other)
        if one.means.shape != two.means.shape:
            raise BadInput(f"statistics of shape {one.means.shape} and {two.means.shape} (classes, d) cannot be merged")
        weights = one.weights + two.weights
        share = two.weights / np.where(weights > 0, weights, 1.0)
        gap = two.means - one.means
        scatter = one.scatter + two.scatter + one.weights * share * np.einsum("cd,cd->c", gap, gap)
        return _weighted(_Sums(weights, one.squares + two.squares, one.means + share[:, None] * gap, scatter))

    def update(self, features: Any, labels: Any, weights: Any = None) -> WeightedStatistics:
        """These statistics with more labelled features, of weight 1 where no weights are given."""
        features, labels = to_numpy(features), to_numpy(labels)
        self.check(features, labels)
        weights = _as_weights(np.ones(len(labels)) if weights is None else weights, len(labels))
        merged = self
        for rows in blocks(features, _BLOCK_BYTES):
            chunk = features[rows].astype(np.float64)
            merged = merged.merge(_of_block(chunk, labels[rows], weights[rows], len(self.counts)))
        return merged


def robust_statistics(
    features: Any,
    labels: Any,
    classes: int,
    method: Method = "trimmed",
    *,
    trim: float = 0.5,
    rounds: int = 10,
    weights: Any = None,
) -> ClassStatistics:
    """Class statistics of labelled features (m, d) whose labels may be wrong.

    `trim` is the share of a class's labels that may be wrong (0 to 0.5) and `rounds` the most steps, both of `trimmed`;
    `weights` (m,) belong to `weighted`. A class without labels has count 0 and mean 0, as always.

    >>> features = np.array([[1.0, 0.0], [1.2, 0.0], [0.8, 0.0], [9.0, 9.0], [0.0, 2.0]])
    >>> robust_statistics(features, [0, 0, 0, 0, 1], 2).means.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    check_known("method for class means", method, get_args(Method))
    if (method == "weighted") != (weights is not None):
        raise BadInput(
            f"weights go with method='weighted' and with no other; got method={method!r}, weights={weights!r}"
        )
    if method == "weighted":
        return weighted_statistics(features, labels, weights, classes)
    if method == "trimmed":
        return trimmed_statistics(features, labels, classes, trim=trim, rounds=rounds)[0]
    return _final_statistics(features, labels, classes, lambda _, own: _median(own))


def trimmed_statistics(
    features: Any, labels: Any, classes: int, *, trim: float = 0.5, rounds: int = 10
) -> tuple[ClassStatistics, npt.NDArray[np.bool_]]:
    """The same with `trimmed`, and which items (m,) the means are of."""
    _check_trimming(trim, rounds)
    labels = to_numpy(labels)
    inside = np.zeros(len(labels), bool)

    def trimmed(c: int, own: Any) -> ClassStatistics:
        found, inside[labels == c] = _trimmed(own, trim, rounds)
        return found

    return _final_statistics(features, labels, classes, trimmed), inside


def _final_statistics(
    features: Any, labels: Any, classes: int, of: Callable[[int, Any], ClassStatistics]
) -> FinalStatistics:
    features, labels = to_numpy(features), to_numpy(labels)
    empty = _empty(features, classes)
    empty.check(features, labels)
    counts, means, scatter = empty.counts.copy(), empty.means.copy(), empty.scatter.copy()
    for c, own in _by_class(features, labels, classes):
        one = of(c, own)
        counts[c], means[c], scatter[c] = one.counts[0], one.means[0], one.scatter[0]
    return FinalStatistics(counts, means, scatter)


def weighted_statistics(features: Any, labels: Any, weights: Any, classes: int) -> WeightedStatistics:
    """Class statistics of features (m, d) with a weight, 0 or more, for each label.

    >>> found = weighted_statistics([[0.0], [1.0], [9.0]], [0, 0, 0], [1.0, 1.0, 0.0], 2)
    >>> found.means.tolist(), found.counts.tolist()
    ([[0.5], [0.0]], [2, 0])
    """
    features = to_numpy(features)
    none = np.zeros(classes)
    return _weighted(_Sums(none, none, _empty(features, classes).means, none)).update(features, labels, weights)


def trimmed_mean(points: Any, trim: float = 0.5, rounds: int = 10) -> Floats:
    """The mean (d,) of the points nearest to their own mean, all but the share `trim`.

    >>> trimmed_mean([[0.0], [1.0], [2.0], [50.0]], trim=0.25).tolist()
    [1.0]
    """
    _check_trimming(trim, rounds)
    return np.asarray(_trimmed(_as_points(points), trim, rounds)[0].means[0], np.float64)


def geometric_median(points: Any, *, tolerance: float = 1e-7, iterations: int = 200) -> Floats:
    """The point (d,) with the least sum of distances to the points (n, d).

    Ends where a step is less than `tolerance` times the (harmonic) mean distance, or after so many iterations.

    >>> geometric_median([[0.0, 0.0], [0.0, 2.0], [0.0, 90.0]]).tolist()
    [0.0, 2.0]
    """
    points = _as_points(points)
    centre = _coordinate_median(points)
    for _ in range(iterations):
        pull, weight, here = _pull(points, centre)
        strength = float(np.linalg.norm(pull))
        if strength <= here:  # the items at the centre hold it there; also where there is no pull at all
            break
        step = (1 - here / strength) * pull / weight
        centre = centre + step
        if np.linalg.norm(step) * weight <= tolerance * len(points):
            break
    return centre


class _Sums(NamedTuple):
    """What weighted statistics add up."""

    weights: Floats
    squares: Floats
    means: Floats
    scatter: Floats  # weighted sum of squared distances


def _sums(statistics: ClassStatistics) -> _Sums:
    if isinstance(statistics, FinalStatistics):
        raise _final()
    counts = statistics.counts.astype(np.float64)
    if not isinstance(statistics, WeightedStatistics):
        return _Sums(counts, counts, statistics.means, statistics.scatter)
    scatter = statistics.scatter * statistics.weights / np.maximum(counts, 1)
    return _Sums(statistics.weights, statistics.squares, statistics.means, scatter)


def _weighted(sums: _Sums) -> WeightedStatistics:
    some = sums.weights > 0
    worth = np.divide(sums.weights**2, sums.squares, out=np.zeros(len(some)), where=some)
    counts = np.where(some, np.maximum(np.rint(worth), 1), 0).astype(np.int64)
    scatter = np.divide(sums.scatter * counts, sums.weights, out=np.zeros(len(some)), where=some)
    return WeightedStatistics(counts, sums.means, scatter, sums.weights, sums.squares)


def _of_block(features: Floats, labels: Any, weights: Floats, classes: int) -> WeightedStatistics:
    """The weighted statistics of one block, in two passes over it."""
    member = sparse.csr_array((weights, (labels, np.arange(len(labels)))), shape=(classes, len(labels)))
    total = member.sum(axis=1)
    means = (member @ features) / np.where(total > 0, total, 1.0)[:, None]
    away = features - means[labels]
    scatter = member @ np.einsum("nd,nd->n", away, away)
    return _weighted(_Sums(total, member.power(2).sum(axis=1), means, scatter))


def _trimmed(own: Any, trim: float, rounds: int) -> tuple[ClassStatistics, npt.NDArray[np.bool_]]:
    """Statistics of the items kept, and which these are."""
    n = len(own)
    keep = max(n - int(trim * n + 1e-9), n // 2 + 1)
    kept = np.ones(n, bool)
    if keep == n:
        return _plain(own), kept
    centre = _coordinate_median(own)
    for _ in range(rounds):
        squared = _squared_distances(own, centre)
        before, kept = kept, squared <= np.partition(squared, keep - 1)[keep - 1]  # ties at the edge stay, in any order
        if np.array_equal(before, kept):
            break
        centre = _mean_of(own, kept)
    return _plain(own[kept]), kept


def _mean_of(own: Any, kept: npt.NDArray[np.bool_]) -> Floats:
    total = np.zeros(own.shape[1])
    for rows in blocks(own, _CACHED_BYTES):
        total += kept[rows].astype(np.float64) @ own[rows].astype(np.float64)
    return np.asarray(total / kept.sum(), np.float64)


def _median(own: Any) -> ClassStatistics:
    centre = geometric_median(own)
    scatter = len(own) * np.median(_squared_distances(own, centre))
    return ClassStatistics(np.array([len(own)]), centre[None], np.array([scatter]))


def _plain(own: Any) -> ClassStatistics:
    return ClassStatistics.from_labelled(own, np.zeros(len(own), np.int64), 1)


def _by_class(features: Any, labels: Any, classes: int) -> Iterator[tuple[int, Any]]:
    """Each class that has labels, with its features."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(1, classes))
    for c, rows in enumerate(np.split(order, starts)):
        if len(rows):
            yield c, _finite(features[rows], f"features of class {c}")


def _pull(points: Any, centre: Floats) -> tuple[Floats, float, int]:
    """The sum of unit vectors to the points, the sum of their inverse distances, and how many points are right here."""
    pull, weight, here = np.zeros(len(centre)), 0.0, 0
    for rows in blocks(points, _CACHED_BYTES):
        away = points[rows].astype(np.float64) - centre
        distance = np.sqrt(np.einsum("nd,nd->n", away, away))
        apart = distance > _TOUCHING
        inverse = np.divide(1.0, distance, out=np.zeros(len(distance)), where=apart)
        pull += inverse @ away
        weight += float(inverse.sum())
        here += int((~apart).sum())
    return pull, weight, here


def _squared_distances(points: Any, centre: Floats) -> Floats:
    squared = np.empty(len(points))
    for rows in blocks(points, _CACHED_BYTES):
        away = points[rows].astype(np.float64) - centre
        squared[rows] = np.einsum("nd,nd->n", away, away)
    return squared


def _coordinate_median(points: Any) -> Floats:
    """The median of each coordinate, a few columns at a time."""
    n, d = points.shape
    middle = [(n - 1) // 2, n // 2]
    centre = np.empty(d)
    width = max(1, _BLOCK_BYTES // (8 * n))
    for start in range(0, d, width):
        columns = np.ascontiguousarray(points[:, start : start + width].T)
        centre[start : start + width] = np.partition(columns, middle, axis=1)[:, middle].mean(axis=1, dtype=np.float64)
    return centre


def _empty(features: Any, classes: int) -> ClassStatistics:
    if features.ndim != 2:
        raise BadInput(f"features must have two dimensions (items, d), got shape {features.shape}")
    return ClassStatistics.empty(classes, features.shape[1])


def _as_points(points: Any) -> Any:
    array = to_numpy(points)
    if array.ndim != 2 or not array.size:
        raise BadInput(f"points must have shape (n, d) with at least one of each, got {array.shape}")
    return _finite(array, "points")


def _as_weights(weights: Any, items: int) -> Floats:
    array = to_numpy(weights)
    if array.shape != (items,):
        raise BadInput(f"{items} labels need {items} weights, got shape {array.shape}")
    array = _finite(array.astype(np.float64), "weights")
    if (array < 0).any():
        raise BadInput(f"weights must not be negative, the least is {array.min()}; 0 leaves an item out")
    return np.asarray(array, np.float64)


def _finite(array: Any, what: str) -> Any:
    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        raise NotFinite(f"{what} hold {bad} values that are not finite")
    return array


def _check_trimming(trim: float, rounds: int) -> None:
    if not 0 <= trim <= 0.5 or rounds < 1:
        raise BadInput(f"trim must lie in 0..0.5 (30 % is 0.3) and rounds be at least 1, got {trim!r} and {rounds!r}")


def _final() -> BadInput:
    return BadInput(
        "trimmed and median class statistics cannot be merged or updated: which items are far out is known only with "
        "all of a class at hand. Gather the labelled features and call robust_statistics once, or use weights"
    )
