"""Which labels look doubtful: the simplest rule that is out of sample, and the seam for better ones.

A label is held against those of its nearest neighbours, itself left out, in the space the model reads (pixels, words,
or embeddings). The model's own features will not do: in the terminal phase they have collapsed onto the means of the
labels they were given, right or wrong. Any function of this signature may take its place
(`ncalr.web.worker.Worker(audit=…)`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Audit = Callable[[Any, npt.NDArray[np.int64], int], tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]
"""(vectors (n, d), labels (n,), classes) → suspicion (n,), 0 to 1, and the class that is suggested instead (n,)."""

NEIGHBOURS = 8
FEWEST = 20


def neighbours(
    vectors: Any, labels: npt.NDArray[np.int64], classes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The share of the nearest neighbours that have another label, nearer ones counting more.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2], [0.15]])
    >>> suspicion, suggestion = neighbours(x, np.array([0, 0, 0, 1, 1, 1, 1]), 2)
    >>> int(suspicion.argmax()), int(suggestion[6])
    (6, 0)
    """
    flat = np.asarray(vectors, np.float64).reshape(len(vectors), -1)
    squares = (flat**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * flat @ flat.T
    np.fill_diagonal(distances, np.inf)
    k = min(NEIGHBOURS, len(flat) - 1)
    near = np.argsort(distances, axis=1, kind="stable")[:, :k]
    weights = 1.0 / np.arange(2, k + 2)
    votes = np.zeros((len(flat), classes))
    for place in range(k):
        np.add.at(votes, (np.arange(len(flat)), labels[near[:, place]]), weights[place])
    own = votes[np.arange(len(flat)), labels].copy()
    votes[np.arange(len(flat)), labels] = -1
    return 1 - own / weights.sum(), np.asarray(votes.argmax(axis=1), np.int64)
