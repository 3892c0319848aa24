"""SISOM and SISOMe: distance to the own class against the distance of that place to the other classes.

Schmidt, Hölzl, Gutsch, Erickson, Ho, Günnemann et al., "A Unified Approach Towards Active Learning and
Out-of-Distribution Detection" (2025). On enhanced features e (made by the learner), with a the nearest labelled item of
the predicted class,

    r = |e - a| / (distance of a to the nearest labelled item of another class)             SISOM = r
    SISOMe = min(R, 1) * (E - mean E) / std E + max(1 - R, 0) * (r - R) / std r             E = -logsumexp(logits)

where R, mean and std are taken on the labelled set (each item with its nearest *other* item). The released code divides
both terms by the standard deviation of E; here each has its own. A predicted class without labels has r = 1: every
labelled item is another class's. Where the denominator is 0, r is 1e-6, as in the released code.

The enhanced features are sigmoids, as steep as the learner's recipe says: 1 at every layer unless that is changed, as
in `strong(steepness=[100, 1000, 0.001, 0.001])`, the authors' values for CIFAR-10 (last layer first).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.acquire.select.spaces import check_range
from ncalr.kernels import Array

_NEEDS = {"enhanced", "labelled_enhanced", "labels", "predictions"}
_BLOCK = 4096  # rows whose distances are looked at together,
_BLOCK_BYTES = 256 << 20  # or fewer, where these are more, or more than the backend handles well


class Bank(NamedTuple):
    """The labelled items as SISOM sees them."""

    rows: Array  # (m, e)
    labels: npt.NDArray[np.int64]
    outside: npt.NDArray[np.float64]  # (m,) distance to the nearest item of another class
    ratios: npt.NDArray[np.float64]  # (m,) r of each labelled item


@strategy(
    "sisom",
    needs=_NEEDS,
    rowwise=True,
    cites="Schmidt et al. 2025",
    cost="n * m / c distances",
)
def sisom(evidence: Evidence) -> Any:
    """SISOM: distance to the predicted class over that class's distance to the others, on enhanced features."""
    return evidence.backend.asarray(_ratios(evidence, _bank(evidence)))


@strategy(
    "sisome",
    needs=_NEEDS | {"logits", "labelled_logits"},
    rowwise=True,
    cites="Schmidt et al. 2025",
    cost="n * m / c distances",
)
def sisome(evidence: Evidence) -> Any:
    """SISOMe: SISOM balanced with the energy score by how much the classes overlap."""
    backend = evidence.backend
    bank = _bank(evidence)
    at_home = evidence.once("energy", lambda: backend.numpy(_energy(evidence, evidence["labelled_logits"])))
    centre, spread = float(at_home.mean()), float(at_home.std())
    energy = (backend.numpy(_energy(evidence, evidence["logits"])) - centre) / (spread or 1.0)
    overlap, width = float(bank.ratios.mean()), float(bank.ratios.std())
    ratio = (_ratios(evidence, bank) - overlap) / (width or 1.0)
    return backend.asarray(min(overlap, 1.0) * energy + max(1 - overlap, 0.0) * ratio)


def _energy(evidence: Evidence, logits: Array) -> Array:
    xp = evidence.backend.xp
    logits = evidence.backend.wide(logits)
    top = xp.amax(logits, 1)
    return -(top + xp.log(xp.exp(logits - top[:, None]).sum(1)))


def _bank(evidence: Evidence) -> Bank:
    def build() -> Bank:
        rows = evidence.backend.wide(evidence["labelled_enhanced"])
        labels = evidence.backend.numpy(evidence["labels"]).astype(np.int64)
        other, stranger = np.empty((2, len(labels)), np.int64)
        for block, squared in _squared(evidence, rows, rows):
            same = labels[block, None] == labels[None, :]
            stranger[block] = np.where(same, np.inf, squared).argmin(axis=1)
            squared[~same] = np.inf
            np.fill_diagonal(squared[:, block], np.inf)  # an item is not its own neighbour
            other[block] = squared.argmin(axis=1)
        single = np.bincount(labels) == len(labels)
        outside = np.where(single[labels], np.inf, _distance(evidence, rows, rows, stranger))
        alone = np.bincount(labels)[labels] == 1
        ratios = np.where(alone, 1.0, _divide(_distance(evidence, rows, rows, other), outside[other]))
        return Bank(rows, labels, outside, ratios)

    return evidence.once("sisom bank", build)  # type: ignore[no-any-return]


def _ratios(evidence: Evidence, bank: Bank) -> npt.NDArray[np.float64]:
    """r of each pool item of this window."""
    backend = evidence.backend
    rows = backend.wide(evidence["enhanced"])
    predictions = backend.numpy(evidence["predictions"])
    ratios = np.ones(len(rows))
    for c in np.unique(predictions):
        group = np.flatnonzero(bank.labels == c)
        if not len(group):
            continue
        items = np.flatnonzero(predictions == c)
        blocks = _squared(evidence, rows[items], bank.rows[group])
        nearest = group[np.concatenate([squared.argmin(axis=1) for _, squared in blocks])]
        ratios[items] = _divide(_distance(evidence, rows[items], bank.rows, nearest), bank.outside[nearest])
    return ratios


def _divide(inside: npt.NDArray[np.float64], outside: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ratio; 1e-6 where nothing lies between the classes, 1 where there is no other class."""
    ratio = np.where(outside > 0, inside / np.where(outside > 0, outside, 1.0), 1e-6)
    return np.where(np.isfinite(outside), ratio, 1.0)


def _squared(evidence: Evidence, a: Array, b: Array) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Squared distances by matrix products, about the mean of b, for some rows of `a` after the other.

    They are good enough to say which is nearest, and the caller may write into them.
    """
    backend = evidence.backend
    centre = b.sum(0) / len(b)  # a large common part would cost them their digits
    b = b - centre
    theirs = (b * b).sum(1)
    for block in _blocks(evidence, len(a), len(b) * b.dtype.itemsize):
        some = a[block] - centre
        squared = (some * some).sum(1)[:, None] + theirs[None, :]
        inner = some @ b.T
        inner *= 2
        squared -= inner
        yield block, backend.numpy(check_range(backend, squared))


def _distance(evidence: Evidence, a: Array, b: Array, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The distance of each row of `a` to row `at` of `b`, from their difference: 0 for twins."""
    found = np.empty(len(a))
    for block in _blocks(evidence, len(a), 8 * a.shape[1]):
        gap = evidence.backend.numpy(a[block] - b[at[block]]).astype(np.float64)
        found[block] = np.linalg.norm(gap, axis=1)
    return found


def _blocks(evidence: Evidence, rows: int, row_bytes: int) -> Iterator[slice]:
    """So many rows at a time that what is made of them stays small, however many there are."""
    size = max(1, min(_BLOCK, min(_BLOCK_BYTES, evidence.backend.chunk_bytes) // row_bytes))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))
