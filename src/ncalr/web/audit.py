"""Which labels look doubtful, for the second queue: the audit of `ncalr.evaluate`, on what the model reads.

A label is held against those of its nearest neighbours, itself left out, in the space the model reads (pixels, words,
or embeddings). The model's own features will not do: in the terminal phase they have collapsed onto the means of the
labels they were given, right or wrong. The neighbours' votes are probabilities that never saw the label, which is what
`ncalr.evaluate.audit` asks for: it gives the chance that each label is wrong, the class it may be instead, a reason in
words, and the share of wrong labels with its interval. Any function of this signature may take its place
(`ncalr.web.worker.Worker(audit=…)`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

NEIGHBOURS = 8
FEWEST = 20
ROOM = 1 << 22  # distances at a time


@dataclass(frozen=True, eq=False)
class Findings:
    """What an audit says about labels (n,)."""

    suspicion: Floats  # (n,) chance that the label is wrong
    suggestion: Labels  # (n,) the class it may be instead
    reasons: tuple[str, ...]  # (n,)
    share: tuple[float, float, float] | None = None  # of wrong labels: estimate, and the ends of its interval


Audit = Callable[[Any, Labels, int], Findings]
"""(vectors (n, d), labels (n,), classes) → findings."""


def doubts(vectors: Any, labels: Labels, classes: int) -> Findings:
    """The audit on leave-one-out votes of neighbours, and on the vectors themselves.

    >>> x = np.concatenate([np.linspace(0, 1, 15), np.linspace(5, 6, 15), [0.5]])[:, None]
    >>> found = doubts(x, np.repeat([0, 1], [15, 16]), 2)
    >>> int(found.suspicion.argmax()), int(found.suggestion[30])
    (30, 0)
    """
    from ncalr.evaluate.audit import audit

    flat = np.asarray(vectors, np.float32).reshape(len(vectors), -1)
    votes = neighbours(flat, labels, classes)
    found = audit(flat, np.log(votes), labels, classes=classes)
    assert found.share is not None  # noqa: S101 (there are logits)
    share = (found.share.share, found.share.low, found.share.high)
    return Findings(found.share.wrong, found.suggested, found.reasons, share)


def neighbours(flat: npt.NDArray[np.float32], labels: Labels, classes: int) -> Floats:
    """How the nearest neighbours of each item vote (n, c): nearer ones count more, and no class has none."""
    squares = (flat**2).sum(axis=1)
    k = min(NEIGHBOURS, len(flat) - 1)
    weights = 1.0 / np.arange(2, k + 2)
    votes = np.full((len(flat), classes), 0.1 / classes)
    step = max(1, ROOM // len(flat))
    for start in range(0, len(flat), step):
        rows = np.arange(start, min(start + step, len(flat)))
        distances = squares[None, :] - 2 * flat[rows] @ flat.T
        distances[np.arange(len(rows)), rows] = np.inf
        near = np.argsort(distances, axis=1, kind="stable")[:, :k]
        for place in range(k):
            np.add.at(votes, (rows, labels[near[:, place]]), weights[place])
    return np.asarray(votes / votes.sum(axis=1, keepdims=True), np.float64)
