"""Which labels look doubtful, for the second queue: `ncalr.audit` on the vectors that the model reads.

Each label is judged by models that were not shown it, in the space the project's model reads (pixels, words, or
embeddings). The project's own features will not do: in the terminal phase they have collapsed onto the means of the
labels they were given, right or wrong.

**A poor model says nothing about labels**: what it contradicts are mostly right labels. So no label is suspected and no
share is given until the model is good. Even the low end of the interval of its agreement with the labels must leave at
most `LEFT` (half) of the mistakes that naming the commonest class each time would make. Labels that are wrong at
least, by the low end of their share, are not counted against it.

Any function of this signature may take its place (`ncalr.web.worker.Worker(audit=...)`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.web.shares import wilson

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

FEWEST = 20
LEFT = 0.5
WIDEST = 256  # directions of long vectors that the audit reads


@dataclass(frozen=True, eq=False)
class Findings:
    """Findings of an audit about labels (n,)."""

    suspicion: Floats  # (n,) chance that the label is wrong
    suggestion: Labels  # (n,) the class it may be instead
    reasons: tuple[str, ...]  # (n,)
    share: tuple[float, float, float] | None = None  # of wrong labels: estimate, and the ends of its interval
    agrees: float | None = None  # share of labels that were guessed by a model that was not shown them
    asked: float | None = None  # and how much the low end of its interval must be for the rest to be said


Audit = Callable[[Any, Labels, int], Findings]
"""(vectors (n, d), labels (n,), classes) -> findings."""


def doubts(vectors: Any, labels: Labels, classes: int) -> Findings:
    """Return the audit of labels of vectors; nothing where the model is poor.

    >>> x = np.concatenate([np.linspace(0, 1, 15), np.linspace(5, 6, 15), [0.5]])[:, None]
    >>> found = doubts(x, np.repeat([0, 1], [15, 16]), 2)
    >>> int(found.suspicion.argmax()), int(found.suggestion[30])
    (30, 0)
    """
    from ncalr.evaluate.audit import audit

    found = audit(_narrow(np.asarray(vectors, np.float32).reshape(len(vectors), -1)), labels, classes=classes)
    assert found.share is not None  # noqa: S101 (there are vectors)
    commonest = np.bincount(labels).max() / len(labels)
    asked = float(max((1 - LEFT * (1 - commonest)) * (1 - found.share.low), commonest))
    if wilson(round(found.agreement * len(labels)), len(labels))[0] < asked:
        return Findings(np.zeros(len(labels)), labels, ("",) * len(labels), None, found.agreement, asked)
    share = (found.share.share, found.share.low, found.share.high)
    return Findings(found.wrong, found.suggested, found.reasons, share, found.agreement, asked)


def _narrow(flat: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return long vectors by the directions in which they differ most."""
    if min(flat.shape) <= WIDEST:
        return flat
    from sklearn.utils.extmath import randomized_svd

    along, lengths, _ = randomized_svd(flat - flat.mean(axis=0), WIDEST, random_state=0)
    return np.asarray(along * lengths, np.float32)
