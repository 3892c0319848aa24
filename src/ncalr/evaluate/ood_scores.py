"""Nine scores of how much an item looks like the labelled set. Higher = more in-distribution, for all of them.

z feature, l logits, p softmax, W and b the last layer, mu_c class means, mu mean of all labelled features, K' classes
that have labels. Everything is fitted on the labelled set alone.

| score                | value                                                    | source                      |
|----------------------|----------------------------------------------------------|-----------------------------|
| msp                  | max p, at a temperature                                  | Hendrycks and Gimpel 2017   |
| max_logit            | max l                                                    | Hendrycks et al. 2022       |
| energy               | T logsumexp(l / T); Liu's energy is the negative         | Liu et al. 2020             |
| mahalanobis          | max_c -(z - mu_c)' S^-1 (z - mu_c), S inside the classes | Lee et al. 2018, one layer  |
| relative_mahalanobis | mahalanobis + (z - mu)' S_0^-1 (z - mu), S_0 of all      | Ren et al. 2021             |
| knn                  | -(distance to the k-th nearest labelled item)^2, |z| = 1 | Sun et al. 2022             |
| vim                  | logsumexp(l) - alpha |R (z - u)|, u = -pinv(W) b         | Wang et al. 2022            |
| neco                 | |P z_s| / |z_s|, z_s standardised; times max l if asked  | Ammar et al. 2024           |
| nci                  | w_y.(z - mu) / |z - mu| + alpha |z|_1, y predicted       | Liu and Qin 2025            |

R projects on the eigenvectors of the uncentred covariance of z - u beyond the first D (the option `dimensions`), and
alpha is the mean max logit over the mean residual of the labelled set; P projects on the first D principal directions.
Where published code does otherwise: OpenOOD's KNN divides by the norm before it adds the constant that should keep it
from dividing by 0, and returns NaN for a feature of zeros (here it has distance 1 to every direction); ViM's
decomposition there is `eig`, which may come back complex or out of order, and its pseudo-inverse inverts rounding: the
rows of a collapsed W sum to 0 but for the last digit, which put u some 20 million away from features of length 36 (here
singular values below single precision are 0); the authors of NECO multiply by the max logit except for ResNets, whose
variant is the default here. A quotient of NECO and NCI is 0 where its divisor is.

Covariances, whitening and ViM's residual are in float64: their matrix products cost a few tenths of a second for 50,000
features, and small directions decide. The one expensive product, that of KNN, is in single precision
(`ood_neighbours.py`).

A score is one function: it takes the `Labelled` set and its options, and returns a `Fitted` one. What it did otherwise
than its defaults say stands in `notes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import special

from ncalr.errors import BadInput, MissingEvidence
from ncalr.evaluate.ood_covariance import (
    RESOLUTION,
    VANISHING,
    Floats,
    Moments,
    blocks,
    moments,
    shrink,
    variance,
    whitening,
)
from ncalr.evaluate.ood_neighbours import Bank
from ncalr.geometry.statistics import ClassStatistics

NEIGHBOURS = 50
LEAST_SHRINKAGE = 1e-6  # Ledoit and Wolf's share can be 0 for a singular covariance: two items a class, mirrored
LEAST_RESIDUAL = 1e-4  # of the features' length: rounding must not be blown up to the size of a logit
Shrinkage = float | Literal["auto"]


@dataclass(frozen=True, eq=False)
class Head:
    """The last layer: logits = features @ weight.T + bias."""

    weight: Floats  # (c, d)
    bias: Floats  # (c,)

    def __call__(self, features: Floats) -> Floats:
        return np.asarray(features @ self.weight.T + self.bias)


@dataclass(frozen=True, eq=False)
class Items:
    """A block of items to be scored."""

    features: Floats  # (n, d)
    head: Head | None = None
    given: Floats | None = None  # logits (n, c), where they were passed

    @cached_property
    def logits(self) -> Floats:
        """As given, or from the head."""
        if self.given is not None:
            return self.given
        if self.head is None:
            raise MissingEvidence(
                "msp, max_logit, energy and neco(max_logit=True) need logits: "
                "pass weight= and bias= when fitting, or give each set as (features, logits)"
            )
        return self.head(self.features)


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled set, as the scores see it."""

    features: Any  # (n, d), in the precision they came in
    labels: Any  # (n,)
    classes: int
    head: Head | None = None

    @cached_property
    def statistics(self) -> ClassStatistics:
        """Counts and means of the classes."""
        return ClassStatistics.from_labelled(self.features, self.labels, self.classes)

    @cached_property
    def moments(self) -> Moments:
        """Mean and covariances."""
        return moments(self.features, self.labels, self.statistics)

    @property
    def dimensions(self) -> int:
        """d."""
        return int(self.features.shape[1])

    @property
    def present(self) -> int:
        """How many classes have labels."""
        return int((self.statistics.counts > 0).sum())

    def items(self) -> Iterator[Items]:
        """The labelled items in blocks, as items to be scored."""
        for rows in blocks(*self.features.shape):
            yield Items(self.features[rows].astype(np.float64), self.head)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A score that knows the labelled set."""

    score: Callable[[Items], Floats]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """A score by name: how to fit it, and what it needs besides features."""

    name: str
    fit: Callable[..., Fitted]
    needs: frozenset[str]  # of "labels", "logits" (given, or from the head) and "head"
    cites: str

    @property
    def summary(self) -> str:
        """One line."""
        return str(self.fit.__doc__).split("\n")[0]


_SCORES: dict[str, Score] = {}


def scores() -> Mapping[str, Score]:
    """All scores by name."""
    return dict(_SCORES)


def _score(name: str, needs: set[str], cites: str) -> Callable[[Callable[..., Fitted]], Callable[..., Fitted]]:
    def register(fit: Callable[..., Fitted]) -> Callable[..., Fitted]:
        _SCORES[name] = Score(name, fit, frozenset(needs), cites)
        return fit

    return register


# -- of the logits --------------------------------------------------------------------------------------------


@_score("msp", {"logits"}, "Hendrycks and Gimpel 2017")
def msp(_labelled: Labelled, *, temperature: float = 1.0) -> Fitted:
    """Largest softmax probability."""
    heat = _positive("temperature", temperature)
    return Fitted(lambda items: np.asarray(special.softmax(items.logits / heat, axis=1).max(axis=1)))


@_score("max_logit", {"logits"}, "Hendrycks et al. 2022")
def max_logit(_labelled: Labelled) -> Fitted:
    """Largest logit."""
    return Fitted(lambda items: np.asarray(items.logits.max(axis=1)))


@_score("energy", {"logits"}, "Liu et al. 2020")
def energy(_labelled: Labelled, *, temperature: float = 1.0) -> Fitted:
    """Log of the sum of the exponentials of the logits, at a temperature."""
    heat = _positive("temperature", temperature)
    return Fitted(lambda items: np.asarray(heat * special.logsumexp(items.logits / heat, axis=1)))


# -- Gaussians ------------------------------------------------------------------------------------------------


@_score("mahalanobis", {"labels"}, "Lee et al. 2018")
def mahalanobis(labelled: Labelled, *, shrinkage: Shrinkage = "auto") -> Fitted:
    """Squared Mahalanobis distance to the nearest class mean, negated; one covariance for all classes.

    `shrinkage` is the share of a sphere in that covariance: by the rule of Ledoit and Wolf, or as given; with 0,
    directions without spread are left out, which is what the published code does.
    """
    covariance, definite, notes = _inside(labelled, shrinkage)
    turn = whitening(covariance, definite)
    left_out = len(turn) - turn.shape[1]
    mean, statistics = labelled.moments.mean, labelled.statistics
    centres = (statistics.means[statistics.counts > 0] - mean) @ turn
    reach = np.einsum("cr,cr->c", centres, centres) / 2

    def score(items: Items) -> Floats:
        rows = (items.features - mean) @ turn
        gap = rows - centres[(rows @ centres.T - reach).argmax(axis=1)]
        return -np.asarray(np.einsum("nr,nr->n", gap, gap))  # from the difference: no cancellation near a mean

    more = (f"{left_out} directions without spread inside the classes left out",) * (left_out > 0)
    return Fitted(score, (*notes, *more))


@_score("relative_mahalanobis", {"labels"}, "Ren et al. 2021")
def relative_mahalanobis(labelled: Labelled, *, shrinkage: Shrinkage = "auto") -> Fitted:
    """Squared Mahalanobis distance to the nearest class mean less that to one Gaussian of all items, negated.

    The covariance of that Gaussian is the one inside the classes, shrunk as there, plus that of the class means. So it
    is nowhere smaller, as the method supposes, and directions in which the means do not spread fall out; shrunk by a
    share of its own it could be smaller there, and an item far out would look familiar.
    """
    near = mahalanobis(labelled, shrinkage=shrinkage)
    covariance, definite, _ = _inside(labelled, shrinkage)
    turn = whitening(covariance + labelled.moments.between, definite)
    mean = labelled.moments.mean

    def score(items: Items) -> Floats:
        rows = (items.features - mean) @ turn
        return np.asarray(near.score(items) + np.einsum("nr,nr->n", rows, rows))

    return Fitted(score, near.notes)


def _inside(labelled: Labelled, shrinkage: Shrinkage) -> tuple[Floats, bool, tuple[str, ...]]:
    """The covariance inside the classes, shrunk; whether it is sure to be definite; and what is to be said about it."""
    found, counts, given = labelled.moments, labelled.statistics.counts, _share(shrinkage)
    if found.collapsed:
        why = "every class has one item" if counts.max() == 1 else "each class's features are equal"
        note = f"no spread inside the classes ({why}): Euclidean distances, in units of the variance of all features"
        return (variance(found.total) or 1.0) * np.eye(labelled.dimensions), True, (note,)
    share = max(found.ledoit_wolf, LEAST_SHRINKAGE) if given is None else given
    note = f"covariance inside the classes shrunk by {share:.3g} ({'Ledoit-Wolf' if given is None else 'as asked'})"
    single = int((counts == 1).sum())
    more = (f"{single} classes have one item and add nothing to the covariance inside the classes",) * (single > 0)
    return shrink(found.within, share), share >= LEAST_SHRINKAGE, (note, *more)


# -- neighbours -----------------------------------------------------------------------------------------------


@_score("knn", set(), "Sun et al. 2022")
def knn(labelled: Labelled, *, k: int | None = None) -> Fitted:
    """Squared distance to the k-th nearest labelled feature, all of length 1, negated.

    k is 50, or the mean number of labels a class where that is less: further out, the k-th neighbour belongs to
    another class, and in a collapsed network its distance says nothing any more.
    """
    n, notes = len(labelled.features), tuple[str, ...]()
    if k is None:
        k = max(1, min(NEIGHBOURS, n // labelled.present))
        if k < NEIGHBOURS:
            notes = (f"k = {k}, the mean number of labels a class, instead of {NEIGHBOURS}",)
    k = _whole("k", k, n, "labelled items")
    bank = Bank(labelled.features)
    return Fitted(lambda items: -bank.kth_squared(items.features, k), notes)


# -- subspaces ------------------------------------------------------------------------------------------------


@_score("vim", {"head"}, "Wang et al. 2022")
def vim(labelled: Labelled, *, dimensions: int | None = None, alpha: float | None = None) -> Fitted:
    """Energy less the virtual logit: the length outside the first `dimensions` principal directions, scaled.

    `dimensions` is 1000 from d = 2048 on, 512 from d = 768 on, and half of d below, as in the authors' code.
    """
    head, d = _head(labelled), labelled.dimensions
    if dimensions is None:
        dimensions = 1000 if d >= 2048 else 512 if d >= 768 else max(1, d // 2)
    dimensions = _below(dimensions, d)
    origin = -np.linalg.pinv(head.weight, rcond=RESOLUTION * max(head.weight.shape)) @ head.bias
    shift = labelled.moments.mean - origin
    around = labelled.moments.total + np.outer(shift, shift)  # the uncentred covariance of z - u
    outside = _principal(around)[:, dimensions:]

    def residual(items: Items) -> Floats:
        return np.asarray(np.linalg.norm((items.features - origin) @ outside, axis=1))

    notes = []
    if alpha is None:
        logits, lengths = _means(labelled, lambda items: items.logits.max(axis=1), residual)
        least = LEAST_RESIDUAL * float(np.trace(around)) ** 0.5
        if lengths <= least:
            notes.append(f"{dimensions} directions hold all labelled features: residual taken as 1e-4 of their length")
        if logits <= 0:
            notes.append(f"the mean largest logit is {logits:.3g}, so that a residual speaks for an item")
        alpha = float(logits / (max(lengths, least) or 1.0))
    scale = _number("alpha", alpha)
    return Fitted(lambda items: special.logsumexp(items.logits, axis=1) - scale * residual(items), tuple(notes))


@_score("neco", set(), "Ammar et al. 2024")
def neco(labelled: Labelled, *, dimensions: int | None = None, max_logit: bool = False) -> Fitted:
    """Share of the standardised feature's length in the first principal directions.

    `dimensions` is that of the simplex of the labelled classes, one less than their number. `max_logit` multiplies by
    the largest logit, as the authors do for transformers and not for ResNets.
    """
    d, notes = labelled.dimensions, tuple[str, ...]()
    if dimensions is None:
        wanted, dimensions = labelled.present - 1, max(1, min(labelled.present - 1, d - 1))
        if dimensions != wanted:
            notes = (f"{dimensions} dimensions instead of {wanted} (classes less 1): {d} are there",)
    dimensions = _below(dimensions, d)
    mean, covariance = labelled.moments.mean, labelled.moments.total
    deviation = np.sqrt(np.diag(covariance))
    moving = deviation > VANISHING * (np.abs(mean) + deviation.max())
    scale = np.where(moving, deviation, 1.0)  # a constant dimension is centred only, as scikit-learn's scaler does
    first = _principal(covariance / np.outer(scale, scale))[:, :dimensions]

    def score(items: Items) -> Floats:
        rows = (items.features - mean) / scale
        share = _ratio(np.linalg.norm(rows @ first, axis=1), np.linalg.norm(rows, axis=1))
        return share * items.logits.max(axis=1) if max_logit else share

    return Fitted(score, notes)


@_score("nci", {"head"}, "Liu and Qin 2025")
def nci(labelled: Labelled, *, alpha: float = 1e-4) -> Fitted:
    """How far the centred feature points along the predicted class's weights, plus its length in the 1-norm."""
    weight, mean = _head(labelled).weight, labelled.moments.mean
    scale = _number("alpha", alpha)

    def score(items: Items) -> Floats:
        rows = items.features - mean
        along = np.einsum("nd,nd->n", rows, weight[items.logits.argmax(axis=1)])
        length = np.abs(items.features).sum(axis=1)
        return np.asarray(_ratio(along, np.linalg.norm(rows, axis=1)) + scale * length)

    return Fitted(score)


# -- pieces ---------------------------------------------------------------------------------------------------


def _principal(symmetric: Floats) -> Floats:
    """Eigenvectors as columns, that of the largest eigenvalue first."""
    return np.asarray(np.linalg.eigh(symmetric)[1][:, ::-1])


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(above / np.where(below > 0, below, 1.0))


def _means(labelled: Labelled, *of: Callable[[Items], Floats]) -> Floats:
    """The mean over the labelled items of each of these."""
    sums = sum(np.array([one(items).sum() for one in of]) for items in labelled.items())
    return np.asarray(sums / len(labelled.features))


def _head(labelled: Labelled) -> Head:
    if labelled.head is None:
        raise MissingEvidence(
            "vim and nci need the last layer: pass weight= (classes, d) and bias= (classes,), "
            "or leave the two out of scores="
        )
    return labelled.head


# -- options --------------------------------------------------------------------------------------------------


def _number(name: str, value: Any) -> float:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not np.isfinite(value):
        raise BadInput(f"{name} must be a number, got {value!r}")
    return float(value)


def _positive(name: str, value: Any) -> float:
    number = _number(name, value)
    if number <= 0:
        raise BadInput(f"{name} must be more than 0, got {value!r}")
    return number


def _share(shrinkage: Any) -> float | None:
    """The shrinkage, or None for "auto"."""
    if isinstance(shrinkage, str) and shrinkage == "auto":
        return None
    if isinstance(shrinkage, str) or not 0 <= _number("shrinkage", shrinkage) <= 1:
        raise BadInput(f"shrinkage must be 'auto' (Ledoit-Wolf) or a number from 0 to 1, got {shrinkage!r}")
    return float(shrinkage)


def _whole(name: str, value: Any, most: int, of: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
        raise BadInput(f"{name} must be a whole number from 1 to {most}, the number of {of}; got {value!r}")
    return int(value)


def _below(dimensions: Any, d: int) -> int:
    """How many principal directions: fewer than there are, or nothing is left outside them."""
    if d < 2:
        raise BadInput(f"vim and neco need features of 2 dimensions or more, got {d}")
    return _whole("dimensions", dimensions, d - 1, "dimensions less 1")
