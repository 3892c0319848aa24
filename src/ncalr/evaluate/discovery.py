"""Generalized category discovery: some classes have labels, others are to be found among what is unlabelled.

Vaze, Han, Vedaldi and Zisserman, "Generalized category discovery" (2022). Of the classes some are *old*: part of their
training images is labelled. All other images, of old classes and of *new* ones, are clustered together with the
labelled ones, and the clusters are matched to the classes.

**Semi-supervised k-means** (`ss_kmeans`) on features of length 1. Labelled items stay in the cluster of their class;
each other item goes to its nearest centre; a centre is the mean of all its items. It begins from the means of the
labelled classes and, for the rest, k-means++ on the unlabelled items (Arthur and Vassilvitskii 2007); of several such
beginnings the one that ends with the least inertia is kept. It ends when no item moves, or by the authors' rule, when
the square of all that the centres moved is below 1e-4. Their code divides by zero where a cluster becomes empty and
returns labels that belong to the centres before the last; here an empty cluster is moved to the item farthest from its
centre, and every unlabelled item is at the nearest of the centres that are returned.

**Accuracy** (`discovery_accuracy`) on the unlabelled items. In the published numbers since the camera-ready ("v2") one
optimal assignment of clusters to classes (Kuhn 1955) is made over all these items; Old and New are its accuracy among
items of old and of new classes. Before ("v1") each had an assignment of its own, which lets one cluster serve an old
and a new class and is optimistic. In both All = w Old + (1 - w) New, where w is the share of old classes among the
items.

**Two variants**, because "60-40" says neither where the labels come from nor what is counted, and active learning makes
it matter. The pool is the half of the old classes' images that may be labelled; what is counted is the other half and
all images of new classes, in both:

    A    labelled: the pool's items that were in fact labelled; the rest of the pool is left aside
    B    labelled: the whole pool, whatever was asked for; only the features know what was

With 60 old of 100 equal classes and half of their images in the pool, w = 60 (1 - 1/2) / (60 (1 - 1/2) + 40) = 3/7.
The NCAL paper's table agrees for three of its rows, w = (All - New) / (Old - New) = 0.4285 (random), 0.4286 (CDAL),
0.4285 (CoreSet); its own row (All 35.07, Old 51.95, New 23.05) does not: w = 0.416, and with 3/7 All is 35.44. A slip,
or averages over different runs; it is not known which.

    >>> import numpy as np
    >>> from ncalr.evaluate.discovery import discovery_accuracy
    >>> found = discovery_accuracy([0, 0, 1, 1, 2, 2, 2], [5, 5, 3, 3, 4, 4, 3], old_classes=[0, 1])
    >>> round(found.all, 3), found.old, round(found.new, 3)
    (0.857, 1.0, 0.667)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize

from ncalr.errors import BadInput, check_known
from ncalr.kernels import Array, Backend, choose
from ncalr.learn.linear import finite_blocks, matrix, whole_numbers

Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

UNLABELLED = -1
VERSIONS = ("v1", "v2")
VARIANTS = {
    "A": "variant A: {labelled} items labelled, those of the pool that were asked for; the rest of the pool left aside",
    "B": "variant B: {labelled} items labelled, the whole pool",
}

_STILL = 1e-4  # square of the sum of what the centres moved
_TOGETHER = 16  # initialisations that are seeded at the same time
_ROOM_BYTES = 64 << 20  # of inner products at a time
_CACHE_BYTES = 1 << 20  # of which so many stay in the cache of one core
_NAN = float("nan")


@dataclass(frozen=True)
class Clusters:
    """The best of several k-means."""

    clusters: Labels  # (n,) of each item
    centres: Floats  # (k, d)
    classes: Labels  # the labelled classes: cluster i is that of classes[i], later clusters are nobody's
    inertia: float  # sum of squared distances to the own centre
    inertias: tuple[float, ...]  # of each initialisation
    iterations: int  # of the best
    converged: bool  # whether its centres had come to rest


@dataclass(frozen=True)
class DiscoveryAccuracy:
    """Shares of items that are in the cluster of their class. NaN where there are no items of that kind."""

    all: float
    old: float
    new: float
    weight: float  # share of old classes among the items
    items: int
    version: str


@dataclass(frozen=True)
class Discovery:
    """Accuracies of discovered classes, and how they were had."""

    all: float
    old: float
    new: float
    weight: float
    items: int
    version: str
    variant: str
    protocol: str  # the variant in words, with its numbers
    kmeans: Clusters  # labelled items first


@dataclass(frozen=True)
class Estimate:
    """How many classes there seem to be."""

    classes: int
    tried: tuple[tuple[int, float], ...]  # each number of clusters, rising, and the accuracy on the labelled items


def discover(
    labelled_features: Any,
    labels: Any,
    features: Any,
    truth: Any,
    *,
    known: int | Sequence[int],
    classes: int,
    variant: str = "B",
    version: str = "v2",
    inits: int = 10,
    iterations: int = 100,
    seed: int = 0,
    device: Any = None,
) -> Discovery:
    """Cluster labelled and unlabelled features into `classes` clusters and measure the unlabelled ones.

    known: the old classes, or how many they are if they are the first. variant: which items the labelled ones are (see
    above); it is for the record, the numbers come from what is passed.
    """
    check_known("variant", variant, VARIANTS)
    check_known("version", version, VERSIONS)
    labelled_features, features = matrix("labelled_features", labelled_features), matrix("features", features)
    labels, truth = (
        whole_numbers("labels", labels, len(labelled_features)),
        whole_numbers("truth", truth, len(features)),
    )
    if labelled_features.shape[1] != features.shape[1]:
        raise BadInput(
            f"labelled_features have {labelled_features.shape[1]} columns, features {features.shape[1]}; "
            "they must come from the same network"
        )
    if not len(truth):
        raise BadInput("no unlabelled features were given: nothing to discover")
    old = np.arange(known) if isinstance(known, int | np.integer) else np.asarray(known)
    if not np.isin(labels, old).all():
        strange = np.setdiff1d(labels, old)[0]
        raise BadInput(f"an item is labelled {strange}, which is not among the {len(old)} known classes")
    backend = choose(device, [features])
    unit = _unit({"labelled_features": labelled_features, "features": features}, backend)
    given = np.concatenate([labels, np.full(len(truth), UNLABELLED)])
    found = _best(unit, given, classes, inits, iterations, seed, backend)
    result = discovery_accuracy(truth, found.clusters[len(labels) :], old, version)
    return Discovery(
        **vars(result), variant=variant, protocol=VARIANTS[variant].format(labelled=len(labels)), kmeans=found
    )


def discovery_accuracy(truth: Any, clusters: Any, old_classes: Any, version: str = "v2") -> DiscoveryAccuracy:
    """All, Old and New of unlabelled items, given their true class and their cluster."""
    check_known("version", version, VERSIONS)
    truth = whole_numbers("truth", truth, len(truth))
    clusters = whole_numbers("clusters", clusters, len(truth))
    if not len(truth):
        raise BadInput("no items were given: accuracy has no value")
    old = np.isin(truth, np.asarray(old_classes))
    right = _matched(truth, clusters)
    if version == "v1":
        right[old], right[~old] = _matched(truth[old], clusters[old]), _matched(truth[~old], clusters[~old])
    return DiscoveryAccuracy(
        all=float(right.mean()),
        old=float(right[old].mean()) if old.any() else _NAN,
        new=float(right[~old].mean()) if not old.all() else _NAN,
        weight=float(old.mean()),
        items=len(truth),
        version=version,
    )


def ss_kmeans(
    features: Any,
    labels: Any,
    classes: int,
    *,
    inits: int = 10,
    iterations: int = 100,
    seed: int = 0,
    device: Any = None,
) -> Clusters:
    """Semi-supervised k-means into `classes` clusters. labels: one an item, -1 where there is none.

    Items of one label share a cluster; `classes` counts these clusters too. Without any label it is plain k-means. The
    same seed gives the same clusters, and initialisation i is the same however many there are.
    """
    features = matrix("features", features)
    labels = whole_numbers("labels", labels, len(features))
    backend = choose(device, [features])
    return _best(_unit({"features": features}, backend), labels, classes, inits, iterations, seed, backend)


def estimate_classes(
    features: Any,
    labels: Any,
    *,
    most: int,
    inits: int = 3,
    iterations: int = 100,
    seed: int = 0,
    device: Any = None,
) -> Estimate:
    """How many classes there are, between those labelled and `most`, as Vaze et al. estimate it.

    Plain k-means over all items; the number of clusters is best that gives the labelled items (label not -1) the
    highest accuracy under the optimal assignment: too few clusters mix classes, too many cut them up. Brent's search
    (1973) between the two ends; accuracy is not smooth in the number of clusters, so this is an estimate, and what was
    tried is in the result.
    """
    features = matrix("features", features)
    labels = whole_numbers("labels", labels, len(features))
    backend = choose(device, [features])
    has_label = labels >= 0
    least = len(np.unique(labels[has_label]))
    if not 1 <= least < most:
        raise BadInput(f"most={most} must be above the number of labelled classes, which is {least} and at least 1")
    unit, nobody = _unit({"features": features}, backend), np.full(len(labels), UNLABELLED)
    tried: dict[int, float] = {}

    def error(clusters: float) -> float:
        k = round(clusters)
        if k not in tried:
            found = _best(unit, nobody, k, inits, iterations, seed, backend)
            tried[k] = float(_matched(labels[has_label], found.clusters[has_label]).mean())
        return 1 - tried[k]

    for end in (least, most):
        error(end)
    optimize.minimize_scalar(error, bounds=(least, most), method="bounded", options={"xatol": 0.5})
    return Estimate(max(sorted(tried), key=tried.__getitem__), tuple(sorted(tried.items())))


def _matched(truth: Labels, clusters: Labels) -> Mask:
    """Which items are in the cluster that the best assignment gives to their class."""
    kinds, true_at = np.unique(truth, return_inverse=True)
    groups, found_at = np.unique(clusters, return_inverse=True)
    counts = np.bincount(found_at * len(kinds) + true_at, minlength=len(groups) * len(kinds))
    rows, columns = optimize.linear_sum_assignment(counts.reshape(len(groups), len(kinds)), maximize=True)
    match = np.full(len(groups), UNLABELLED)
    match[rows] = columns
    return np.asarray(match[found_at] == true_at)


def _unit(parts: dict[str, Array], backend: Backend) -> Array:
    """All rows in float32 on the backend, each of length 1; rows of zeros stay zeros."""
    n, d = sum(len(part) for part in parts.values()), next(iter(parts.values())).shape[1]
    rows, at = backend.asarray(np.empty((n, d), np.float32)), 0
    for name, part in parts.items():
        for _, block in finite_blocks(name, part, backend):
            length = backend.xp.sqrt((block * block).sum(1))
            length[length == 0] = 1
            rows[at : at + len(block)] = backend.asarray(block / length[:, None], "float32")
            at += len(block)
    return rows


# -- semi-supervised k-means ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Items:
    """What is clustered: unlabelled rows, and of the labelled ones what their cluster needs to know."""

    backend: Backend
    rows: Array  # (u, d) unlabelled
    own: Floats  # (u,) squared length of each, 1 or 0
    sums: Floats  # (classes with labels, d)
    counts: Labels  # (classes with labels,)
    squares: float  # sum of squared lengths of the labelled rows

    @cached_property
    def room(self) -> Array:
        """Where inner products are put: fresh memory for each block costs more than the product."""
        return self.backend.asarray(np.empty(_ROOM_BYTES // 4, np.float32))

    def nearest(self, centres: Floats) -> tuple[Labels, Floats]:
        """The nearest centre of each unlabelled row, and the squared distance to it."""
        backend, k = self.backend, len(centres)
        turned, half = backend.asarray(centres.T, "float32"), backend.asarray((centres**2).sum(1) / 2, "float32")
        size = max(len(self.room) // k, 1)
        piece = max(_CACHE_BYTES // (4 * k), 64) if backend.xp is np else size
        member, close = np.empty(len(self.own), np.int64), np.empty(len(self.own))
        for start in range(0, len(member), size):
            rows = self.rows[start : start + size]
            inner = self.room[: len(rows) * k].reshape(len(rows), k)
            backend.xp.matmul(rows, turned, out=inner)
            for first in range(0, len(rows), piece):
                closeness = inner[first : first + piece]
                closeness -= half
                place = slice(start + first, start + first + len(closeness))
                member[place] = backend.numpy(backend.argmax(closeness))
                close[place] = backend.numpy(backend.xp.amax(closeness, 1))
        return member, np.maximum(self.own - 2 * close, 0)

    def totals(self, member: Labels, places: Labels, k: int) -> Floats:
        """Sum of the unlabelled rows at these places by cluster."""
        return _sums(self.backend.block(self.rows, places), member[places], k, self.backend)


class _Run(NamedTuple):
    """Where one initialisation ended."""

    member: Labels
    centres: Floats
    inertia: float
    iterations: int
    converged: bool


def _sums(rows: Array, groups: Labels, count: int, backend: Backend) -> Floats:
    """Sum of the rows of each group, in float64."""
    if not len(rows):
        return np.zeros((count, rows.shape[1]))
    return np.asarray(backend.numpy(backend.sum_by(rows, groups, count)), np.float64)


def _best(unit: Array, labels: Labels, k: int, inits: int, iterations: int, seed: int, backend: Backend) -> Clusters:
    """The run with the least inertia."""
    has_label = labels >= 0
    kinds, place = np.unique(labels[has_label], return_inverse=True)
    _check(k, len(kinds), len(labels), int((~has_label).sum()), inits, iterations)
    fixed = backend.block(unit, np.flatnonzero(has_label))
    rows = backend.block(unit, np.flatnonzero(~has_label))
    items = _Items(
        backend,
        rows,
        backend.numpy((rows * rows).sum(1)).astype(np.float64),
        _sums(fixed, place, len(kinds), backend),
        np.bincount(place, minlength=len(kinds)),
        float((fixed * fixed).sum()),
    )
    free = k - len(kinds)
    runs = [_lloyd(items, start, iterations) for start in _starts(items, free, inits if free else 1, seed)]
    best = min(runs, key=lambda run: run.inertia)
    clusters = np.empty(len(labels), np.int64)
    clusters[has_label], clusters[~has_label] = place, best.member
    inertias = tuple(run.inertia for run in runs)
    return Clusters(clusters, best.centres, kinds, best.inertia, inertias, best.iterations, best.converged)


def _check(k: int, kinds: int, items: int, unlabelled: int, inits: int, iterations: int) -> None:
    for name, number in (("classes", k), ("inits", inits), ("iterations", iterations)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise BadInput(f"{name} must be a whole number of at least 1, got {number!r}")
    if k < kinds:
        raise BadInput(f"the labels are of {kinds} classes already, which is more than classes={k}")
    if k > items:
        raise BadInput(f"{items} items cannot be put into {k} clusters; pass fewer classes")
    if k - kinds > unlabelled:
        raise BadInput(f"{unlabelled} unlabelled items cannot fill the {k - kinds} clusters without labels")


def _starts(items: _Items, free: int, inits: int, seed: int) -> Iterator[Floats]:
    """First centres: labelled means, then k-means++ on the unlabelled rows, several initialisations at a time."""
    means = items.sums / items.counts[:, None]
    for first in range(0, inits, _TOGETHER):
        group = range(first, min(first + _TOGETHER, inits))
        chance = np.stack([np.random.default_rng([seed, init]).random(free) for init in group])
        picks = _plus_plus(items, means, chance)
        for row in picks:
            yield np.concatenate([means, items.backend.numpy(items.backend.block(items.rows, row))])


def _plus_plus(items: _Items, means: Floats, chance: Floats) -> Labels:
    """Rows picked with probability in proportion to the squared distance to the nearest centre, (inits, free)."""
    backend, (inits, free) = items.backend, chance.shape
    # without any centre yet, all rows are alike
    away = np.tile(items.nearest(means)[1] if len(means) else np.ones(len(items.own)), (inits, 1))
    picks = np.empty((inits, free), np.int64)
    for turn in range(free):
        for init in range(inits):
            ladder = np.cumsum(away[init])
            if ladder[-1] == 0:  # every row sits on a centre: any will do
                ladder = np.arange(1.0, len(ladder) + 1)
            picks[init, turn] = min(np.searchsorted(ladder, chance[init, turn] * ladder[-1], "right"), len(ladder) - 1)
        chosen = backend.block(items.rows, picks[:, turn])
        new = items.own[:, None] + items.own[picks[:, turn]] - 2 * backend.numpy(items.rows @ chosen.T)
        away = np.maximum(new.T, 0) if not (turn or len(means)) else np.minimum(away, np.maximum(new.T, 0))
        away[np.arange(inits), picks[:, turn]] = 0
    return picks


def _lloyd(items: _Items, centres: Floats, iterations: int) -> _Run:
    """From these centres until they stay. Members and inertia are those of the centres returned."""
    k, kinds = len(centres), len(items.counts)
    labelled, sums = np.zeros(k, np.int64), np.zeros_like(centres)
    labelled[:kinds], sums[:kinds] = items.counts, items.sums
    member, away = items.nearest(centres)
    moved, before = np.arange(len(member)), member
    done, settled = 0, False
    while done < iterations and not settled:
        _fill(member, away, labelled)
        if done:
            moved = np.flatnonzero(member != before)
            sums -= items.totals(before, moved, k)
        sums += items.totals(member, moved, k)
        last, centres = centres, sums / (labelled + np.bincount(member, minlength=k))[:, None]
        settled = float(np.sqrt(((centres - last) ** 2).sum(1)).sum()) ** 2 < _STILL
        before = member
        member, away = items.nearest(centres)
        done += 1
    anchored = centres[:kinds]
    fixed = items.squares + float((anchored * (items.counts[:, None] * anchored - 2 * items.sums)).sum())
    return _Run(member, centres, float(away.sum()) + fixed, done, settled)


def _fill(member: Labels, away: Floats, labelled: Labels) -> None:
    """Move the rows farthest from their centre into the clusters that have no items, in place; never an only item."""
    counts = labelled + np.bincount(member, minlength=len(labelled))
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        return
    far = iter(np.argsort(-away, kind="stable"))
    for cluster in empty:
        row = next(row for row in far if counts[member[row]] > 1)
        counts[member[row]] -= 1
        member[row] = cluster
        counts[cluster] = 1
