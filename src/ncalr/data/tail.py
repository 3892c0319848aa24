"""Long tails: pools whose classes get rarer and rarer, as in the paper's long-tailed ImageNet-100.

Class c of K keeps ⌊largest · β^(c/(K−1))⌋ items: the first class all of them, the last β times as many. This is the
rule of LDAM-DRW (Cao et al. 2019) and the only one of some thirty-five tried that gives the paper's 41,454 items for
100 classes of 1,300 at β = 0.05. Class 0 is the head; the test set stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.splits import class_labels, drawn
from ncalr.errors import BadInput

_ROUNDING = 1e-12  # 50 · 0.58 is 28.999999999999996 to a computer, and 29 to everyone else


def long_tail_counts(largest: int, classes: int, beta: float) -> npt.NDArray[np.int64]:
    """How many items each class keeps, the first class first.

    largest: items of the first class; beta: the last class's share of them, in (0, 1]. A class can be left with none.

    >>> int(long_tail_counts(1300, 100, 0.05).sum())
    41454
    """
    if largest < 1 or classes < 1:
        raise BadInput(f"a long tail needs at least one item and one class, got largest={largest}, classes={classes}")
    if not 0 < beta <= 1:
        raise BadInput(f"beta is the last class's share of the first, above 0 and at most 1; got {beta!r}")
    exponents = np.arange(classes) / max(classes - 1, 1)
    return np.floor(largest * float(beta) ** exponents * (1 + _ROUNDING)).astype(np.int64)


def long_tail(
    labels: Any, beta: float, seed: int = 0, largest: int | None = None, *, ids: Any = None
) -> npt.NDArray[np.intp]:
    """The positions kept, in rising order, for a long tail over these labels.

    A class that has fewer items than the rule gives it keeps all it has. largest: as many as the biggest class has,
    unless given. Which items of a class stay is drawn by (seed, id); the ids are the positions unless given.
    """
    truth = class_labels(labels)
    available = np.bincount(truth)
    counts = long_tail_counts(int(available.max()) if largest is None else largest, len(available), beta)
    order = drawn(len(truth), seed, "long tail", ids)
    kept = [order[truth[order] == kind][:count] for kind, count in enumerate(counts)]
    return np.sort(np.concatenate(kept))
