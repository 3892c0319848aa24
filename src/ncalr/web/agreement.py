"""How far people agree beyond chance: Cohen's kappa for pairs, Krippendorff's alpha for everybody, with intervals.

    kappa = (p_observed - p_chance) / (1 - p_chance) Cohen 1960
    alpha = 1 - D_observed / D_expected             Krippendorff 2004, nominal; answers may be missing

Intervals are percentiles of a bootstrap over items. Answers are any hashable values; an item nobody else answered says
nothing and is left out.

>>> round(cohen([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")]), 3)
0.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

DRAWS = 400


def cohen(pairs: Sequence[tuple[Hashable, Hashable]]) -> float:
    """Kappa of two people over the items both answered; NaN where chance alone explains everything."""
    n = len(pairs)
    if not n:
        return float("nan")
    observed = sum(a == b for a, b in pairs) / n
    left, right = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(left[value] * right[value] for value in left) / n**2
    return float("nan") if chance == 1 else (observed - chance) / (1 - chance)


def krippendorff(items: Sequence[Sequence[Hashable]]) -> float:
    """Alpha over items with any number of answers each; those with one are left out."""
    paired = [answers for answers in items if len(answers) > 1]
    total = sum(len(answers) for answers in paired)
    if not total:
        return float("nan")
    observed = 0.0
    everyone: Counter[Hashable] = Counter()
    for answers in paired:
        counts, m = Counter(answers), len(answers)
        observed += sum(count * (m - count) for count in counts.values()) / (m - 1)
        everyone.update(answers)
    expected = sum(count * (total - count) for count in everyone.values()) / (total - 1)
    return float("nan") if expected == 0 else 1 - observed / expected


def interval(
    measure: Callable[[Sequence[Any]], float], items: Sequence[Any], rng: np.random.Generator, confidence: float = 0.95
) -> tuple[float, float]:
    """The middle of the measure over items drawn again with replacement."""
    if not items:
        return float("nan"), float("nan")
    draws = rng.integers(len(items), size=(DRAWS, len(items)))
    values = np.array([measure([items[at] for at in draw]) for draw in draws])
    if np.isnan(values).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def wilson(right: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """An interval for a share that keeps its promise for few and for none (Wilson 1927).

    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.596, 0.982]
    """
    if not total:
        return 0.0, 1.0
    share = right / total
    centre = share + z * z / (2 * total)
    spread = z * (share * (1 - share) / total + z * z / (4 * total**2)) ** 0.5
    scale = 1 + z * z / total
    return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)
