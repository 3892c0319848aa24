"""What may be concluded from several data sets: ranks, the tests of them, penalties of all of them added. Pure.

Here a data set is the unit, as a seed is in `statistics.py`: accuracies of different data sets have no scale in common,
so each data set ranks the strategies, and the question is whether the ranks agree. Seeds make a data set's areas surer;
they do not make it two.

Sources: Friedman 1937; Iman and Davenport 1980 (its F statistic); Conover 1999, section 5.8 (ties); Nemenyi 1963;
Demšar 2006 (all of them for comparing learners over data sets, and the least numbers of data sets below); Wilcoxon
1945; Holm 1979; Ash et al. 2020, section 4 (penalties).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial, sqrt
from typing import Any

import numpy as np
from scipy import stats

from ncalr.errors import BadInput, NotFinite
from ncalr.lab.statistics import Curves, Floats, Penalties, differences

RANK_TEST = 5
"""Data sets from which on ranks are tested (Friedman, Nemenyi)."""
PAIR_TEST = 6
"""Data sets from which on two strategies are (Wilcoxon): with fewer its p-value cannot be below 0.05."""


@dataclass(frozen=True)
class Friedman:
    """Whether the strategies' ranks differ by more than chance."""

    chi_square: float
    f: float  # Iman and Davenport's; inf where all data sets rank alike
    degrees: tuple[int, int]
    p: float  # of f


@dataclass(frozen=True)
class Signed:
    """One strategy against another over data sets."""

    strategy: str
    rival: str
    median: float  # of the differences, positive where the strategy is better
    better: int  # data sets
    equal: int
    worse: int
    p: float  # Wilcoxon's signed-rank test, two-sided
    p_holm: float


def ranks(values: Any) -> Floats:
    """The rank of each strategy (column) in each data set (row): 1 is the highest value, equal ones share their mean.

    >>> ranks([[0.7, 0.9, 0.7]]).tolist()
    [[2.5, 1.0, 2.5]]
    """
    table = _table(values)
    return np.asarray(stats.rankdata(-np.round(table, 12), axis=1), np.float64)  # the rest is floating point


def friedman(ranked: Any) -> Friedman:
    """Friedman's test of ranks (data sets, strategies), with Iman and Davenport's F statistic.

    With R_j the sum of the ranks of strategy j of k over N data sets,

        χ² = (k − 1) Σ_j (R_j − N (k+1)/2)² / Σ_ij (r_ij − (k+1)/2)²,    F = (N − 1) χ² / (N (k − 1) − χ²),

    the second with k − 1 and (k − 1)(N − 1) degrees of freedom. Without ties χ² is the usual 12 / (N k (k+1)) Σ_j
    (R_j − N (k+1)/2)²; with ties this form (Conover) corrects for them.

    F is an approximation: where the data sets agree it would promise what no permutation of so few ranks can. So p is
    never below (k!)^(1 − N), the chance that N orders of k strategies are all the same.
    """
    table = _table(ranked)
    n, k = table.shape
    if n < 2 or k < 2:
        raise BadInput(f"Friedman's test needs two data sets and two strategies or more, got {n} and {k}")
    middle = (k + 1) / 2
    spread = float(((table - middle) ** 2).sum())
    degrees = (k - 1, (k - 1) * (n - 1))
    if spread == 0:  # every data set ties all strategies
        return Friedman(0.0, 0.0, degrees, 1.0)
    chi_square = (k - 1) * float(((table.sum(axis=0) - n * middle) ** 2).sum()) / spread
    rest = n * (k - 1) - chi_square
    f = (n - 1) * chi_square / rest if rest > 1e-9 * n * k else float("inf")
    p = max(float(stats.f.sf(f, *degrees)), float(factorial(k)) ** (1 - n))
    return Friedman(chi_square, f, degrees, p)


def critical_difference(strategies: int, data_sets: int, alpha: float = 0.05) -> float:
    """Nemenyi's: how far apart the average ranks of any two strategies must be, all pairs tested at once.

    q √(k (k+1) / (6 N)), with q the quantile of the studentized range for k groups and infinite degrees of freedom,
    divided by √2 (Demšar 2006, section 3.2.2).
    """
    quantile = float(stats.studentized_range.ppf(1 - alpha, strategies, np.inf)) / sqrt(2)
    return quantile * sqrt(strategies * (strategies + 1) / (6 * data_sets))


def not_apart(average: Mapping[str, float], reach: float) -> list[list[str]]:
    """The largest groups of strategies whose average ranks all lie less than `reach` apart, the best first.

    >>> not_apart({"a": 1.0, "b": 1.8, "c": 2.2, "d": 4.0}, 1.0)
    [['a', 'b'], ['b', 'c']]
    """
    names = sorted(average, key=lambda name: average[name])
    found: list[list[str]] = []
    for at, first in enumerate(names):
        group = [name for name in names[at:] if average[name] - average[first] < reach]
        if len(group) > 1 and not (found and set(group) <= set(found[-1])):
            found.append(group)
    return found


def against_each(strategy: str, areas: Mapping[str, Sequence[float]]) -> list[Signed]:
    """Wilcoxon's signed-rank test of one strategy against each other one over data sets, Holm's correction over them.

    Data sets in which two are equal are left out of their test. It takes a point on one data set for one on another,
    as ranks do not.
    """
    curves = Curves(np.ones(1), {name: np.reshape(values, (-1, 1)) for name, values in areas.items()})
    found = []
    for rival, gap in differences(curves, strategy, test="wilcoxon").items():
        lead = np.round(np.subtract(areas[strategy], areas[rival]), 12)
        counts = (int((lead > 0).sum()), int((lead == 0).sum()), int((lead < 0).sum()))
        found.append(
            Signed(strategy, rival, float(np.median(lead)), *counts, float(gap.aubc.p), float(gap.aubc.p_holm))
        )
    return found


def added(found: Sequence[Penalties]) -> Penalties:
    """The penalty matrices of several experiments with the same strategies, added (Ash et al. 2020).

    An entry is at most the number of experiments: the row is better at every budget of every one.
    """
    if not found or any(one.strategies != found[0].strategies for one in found):
        raise BadInput(
            "penalties are added where all experiments have the same strategies in the same order, got "
            f"{[list(one.strategies) for one in found]}"
        )
    return Penalties(
        found[0].strategies,
        np.sum([one.matrix for one in found], axis=0),
        np.sum([one.column_means for one in found], axis=0),
    )


def _table(values: Any) -> Floats:
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or not table.size:
        raise BadInput(f"expected a row a data set and a column a strategy, got the shape {table.shape}")
    if not np.isfinite(table).all():
        raise NotFinite("a strategy has no value in some data set: compare those that all data sets have")
    return table
