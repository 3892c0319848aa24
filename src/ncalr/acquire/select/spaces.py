"""Spaces: what "distance" means to the methods that spread picks out.

A space hands out points and the squared distances between two groups of them, by one matrix product:

    features        |a - b|^2                                     penultimate features
    probabilities   (KL(p|q) + KL(q|p)) / 2                       softmax vectors, log p kept above log 1e-8
    gradients       |g_a - g_b|^2, g = (p - onehot) x z         BADGE's, never built: <g_a, g_b> = <q_a, q_b><z_a, z_b>

The symmetric divergence is a matrix product too: with u = (p, log p) and v = (log p, p),
2 D = sum p log p + sum q log q - <u_p, v_q>.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ncalr.acquire.evidence import Evidence, Outputs, source_of
from ncalr.errors import NotFinite, check_known
from ncalr.kernels import Array, Backend

NEEDS = {
    "features": ({"features"}, {"labelled_features"}),
    "probabilities": ({"outputs"}, {"labelled_outputs"}),
    "gradients": ({"features", "outputs"}, set()),
}
CHUNK = 16384
LOWEST_LOG = -18.420680743952367  # log 1e-8


class Points(NamedTuple):
    """A group of points: the factors of their inner products, and each one's own term."""

    factors: tuple[Array, ...]
    own: Array

    def __len__(self) -> int:
        return len(self.own)

    def at(self, rows: Any) -> Points:
        """Some of the points."""
        return Points(tuple(factor[rows] for factor in self.factors), self.own[rows])


@dataclass(frozen=True)
class Space:
    """The pool as points."""

    kind: str
    evidence: Evidence
    middle: Array | None = None  # the centre, for a piece of a larger pool

    @property
    def backend(self) -> Backend:
        """Where it lives."""
        return self.evidence.backend

    @cached_property
    def centre(self) -> Array:
        """About the mean feature. Distances do not change, and a large common part would cost them their digits."""
        if self.middle is not None:
            return self.middle
        n = self.evidence.n
        sample = self.backend.wide(self.evidence.take("features", np.arange(0, n, max(1, n // 1024))))
        centre = sample.sum(0) / len(sample)
        return centre if self.backend.is_finite(centre) else sample[0] * 0

    @property
    def size(self) -> int:
        """Bytes that the points of the whole pool would take, in single precision."""
        given = self.evidence.given
        names = [name for need in needs(self.kind) for name in source_of(need, given) or ()]
        return 4 * self.evidence.n * (1 + 2 * sum(int(given[name].shape[1]) for name in names))

    def take(self, rows: Any) -> Points:
        """The points of some pool items."""
        if self.kind == "probabilities":
            return _divergence(self.backend, self.evidence.outputs(positions=rows))
        features = self.backend.wide(self.evidence.take("features", rows))
        if self.kind == "features":
            return _euclidean(self.backend, features - self.centre)
        return _gradient(self.backend, features, self.evidence.outputs(positions=rows))

    def sweep(self, centres: Points | None = None) -> Iterator[tuple[slice, Array]]:
        """Over the whole pool: squared distances to the nearest of `centres`, or the items' own terms without any.

        Chunks are cut at the same places wherever they are computed, so that the last bits are the same, too.
        """
        if self.evidence.sweeper is not None:
            yield from self.evidence.sweeper(self, centres)
            return
        for rows in chunks(self.evidence.n):
            yield rows, self.swept(rows, centres)

    def swept(self, rows: Any, centres: Points | None) -> Array:
        """One chunk of a sweep."""
        points = self.take(rows)
        return points.own if centres is None else self.nearest(points, centres)

    def labelled(self) -> Points | None:
        """The labelled items as points, where they were given and there are any."""
        if self.kind == "features" and "labelled_features" in self.evidence:
            features = self.backend.wide(self.evidence["labelled_features"])
            return _euclidean(self.backend, features - self.centre) if len(features) else None
        if self.kind == "probabilities" and "labelled_outputs" in self.evidence:
            outputs = self.evidence["labelled_outputs"]
            return _divergence(self.backend, outputs) if len(outputs.values) else None
        return None

    def between(self, a: Points, b: Points) -> Array:
        """Squared distances (len(a), len(b)), never negative."""
        inner = self._inner(a, b)
        inner *= -1
        inner += a.own[:, None]
        inner += b.own[None, :]
        return self.backend.xp.clip(inner, 0, None, out=inner)

    def nearest(self, a: Points, b: Points) -> Array:
        """Squared distance of each of `a` to the nearest of `b` (len(a),), never negative."""
        return self.backend.xp.clip(self.backend.least(b.own, self._inner(a, b)) + a.own, 0, None)

    def join(self, groups: Sequence[Points]) -> Points:
        """Several groups as one."""
        cat = self.backend.xp.concatenate
        factors = zip(*(group.factors for group in groups), strict=True)
        return Points(tuple(cat(parts) for parts in factors), cat([group.own for group in groups]))

    def _inner(self, a: Points, b: Points) -> Array:
        """What is taken off the sum of the own terms. `b` is the smaller group: the scaling is done there."""
        if self.kind == "probabilities":
            (joined,) = b.factors
            half = joined.shape[1] // 2
            swapped = self.backend.xp.concatenate([joined[:, half:], joined[:, :half]], 1)
            return a.factors[0] @ (swapped / 2).T
        inner = a.factors[0] @ (2 * b.factors[0]).T
        for left, right in zip(a.factors[1:], b.factors[1:], strict=True):
            inner *= left @ right.T
        return inner


def chunks(n: int) -> list[slice]:
    """A pool of n items in pieces that are worth a matrix product each."""
    return [slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]


def check_range(backend: Backend, squares: Array) -> Array:
    """The squares, or an error where distances, up to four of them, are too large for their precision."""
    most = float(np.finfo(str(squares.dtype).removeprefix("torch.")).max) / 4
    if not (backend.is_finite(squares) and bool((squares <= most).all())):
        raise NotFinite(
            "squared lengths overflow: some features are beyond 1e18 in single precision; scale them or pass float64"
        )
    return squares


def needs(space: str) -> set[str]:
    """Evidence a space cannot do without."""
    return _known(space)[0]


def wants(space: str) -> set[str]:
    """Evidence a space uses where given."""
    return _known(space)[1]


def _known(space: str) -> tuple[set[str], set[str]]:
    check_known("space", space, NEEDS)
    return NEEDS[space]


def _euclidean(backend: Backend, features: Array) -> Points:
    return Points((features,), _squares(backend, features))


def _divergence(backend: Backend, outputs: Outputs) -> Points:
    xp = backend.xp
    log = log_probs(backend, outputs)
    p = xp.exp(log)
    return Points((xp.concatenate([p, log], 1),), xp.einsum("nc,nc->n", p, log) / 2)


def _gradient(backend: Backend, features: Array, outputs: Outputs) -> Points:
    q = residual(backend, outputs)
    return Points((q, features), _squares(backend, q) * _squares(backend, features))


def _squares(backend: Backend, rows: Array) -> Array:
    return backend.xp.einsum("nd,nd->n", rows, rows)


def log_probs(backend: Backend, outputs: Outputs) -> Array:
    """log p, kept above log 1e-8: a class the model rules out is far away, not infinitely far."""
    xp = backend.xp
    values = backend.wide(outputs.values)
    if outputs.are_logits:
        shifted = values - xp.amax(values, 1)[:, None]
        log = shifted - xp.log(xp.exp(shifted).sum(1))[:, None]
    else:
        log = xp.log(xp.clip(values, 1e-38, None))
    return xp.clip(log, LOWEST_LOG, None)


def residual(backend: Backend, outputs: Outputs) -> Array:
    """p - onehot(prediction), the entry of the predicted class as minus the sum of the others (exact when p is 1)."""
    xp = backend.xp
    values = backend.wide(outputs.values)
    top = backend.argmax(values)
    rows = xp.arange(len(values)) if xp.__name__ == "numpy" else xp.arange(len(values), device=values.device)
    if outputs.are_logits:
        values = xp.exp(values - values[rows, top][:, None])
        values[rows, top] = 0
        rest = values.sum(1)
        values /= (1 + rest)[:, None]
        values[rows, top] = -rest / (1 + rest)
        return values
    values = values + 0  # a copy: the probabilities belong to the caller
    values[rows, top] = 0
    values[rows, top] = -values.sum(1)
    return values
