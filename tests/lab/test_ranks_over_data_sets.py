"""Ranks over data sets and their tests, against answers by hand, a published example, SciPy and permutations."""

from __future__ import annotations

from itertools import permutations, product
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from ncalr.errors import BadInput, NotFinite
from ncalr.lab.ranks import added, against_each, critical_difference, friedman, not_apart, ranks
from ncalr.lab.statistics import Penalties

DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],  # 0.975 both in print, ranked 2 and 3
        [0.957, 0.978, 0.946, 0.970],
    ]
)
"""Demšar 2006 (JMLR 7), table 6: AUC of C4.5 in four versions on 14 data sets. He does not correct for ties."""


def demsars(chi_square: float, n: int, k: int) -> float:
    return (n - 1) * chi_square / (n * (k - 1) - chi_square)


def test_demsars_example():
    ranked = ranks(DEMSAR)
    average = ranked.mean(axis=0)
    assert average.round(3).tolist() == [3.143, 2.0, 2.893, 1.964], "his figures"
    assert ranked[9].tolist() == [2.5] * 4
    n, k = ranked.shape
    uncorrected = 12 * n / (k * (k + 1)) * (np.sum(average**2) - k * (k + 1) ** 2 / 4)
    assert round(uncorrected, 2) == 9.28, "his figure"
    assert round(demsars(uncorrected, n, k), 2) == 3.69, "his figure"
    ties = 3 * (2**3 - 2) + (4**3 - 4)  # three pairs, and all four of mushroom
    found = friedman(ranked)
    assert found.chi_square == pytest.approx(uncorrected / (1 - ties / (n * (k**3 - k))))
    assert found.f == pytest.approx(demsars(found.chi_square, n, k))
    assert found.degrees == (3, 39)
    assert found.p == pytest.approx(stats.f.sf(found.f, 3, 39))
    assert round(critical_difference(4, 14), 2) == 1.25, "his figure"


@pytest.mark.parametrize("digits", [1, 8])
def test_friedman_is_that_of_scipy_and_f_that_of_an_analysis_of_variance(digits):
    """With one digit there are many ties. F is the quotient of mean squares of a two-way layout of the ranks."""
    values = np.random.default_rng(digits).random((9, 5)).round(digits)
    ranked = ranks(values)
    found = friedman(ranked)
    assert found.chi_square == pytest.approx(stats.friedmanchisquare(*values.T).statistic)
    columns = 9 * ((ranked.mean(axis=0) - 3) ** 2).sum()
    rest = ((ranked - 3) ** 2).sum() - columns
    assert found.f == pytest.approx((columns / 4) / (rest / 32))


def test_ranks_by_hand():
    values = [[0.5, 0.9, 0.7], [0.7, 0.7, 0.2], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3, 0.4]]
    assert ranks(values).tolist() == [[3, 1, 2], [1.5, 1.5, 3], [2, 2, 2], [2.5, 2.5, 1]]
    with pytest.raises(NotFinite, match="no value in some data set"):
        ranks([[0.5, np.nan]])
    with pytest.raises(BadInput, match=r"a row a data set and a column a strategy, got the shape \(2,\)"):
        ranks([0.5, 0.4])


def test_data_sets_that_agree_promise_no_more_than_their_orders():
    """The F approximation would say p = 0. The chance that five orders of three are the same is known."""
    found = friedman([[1, 2, 3]] * 5)
    orders = list(permutations([1, 2, 3]))
    agreeing = sum(len(set(drawn)) == 1 for drawn in product(orders, repeat=5))
    assert found.f == float("inf")
    assert found.p == pytest.approx(agreeing / len(orders) ** 5)
    assert friedman([[1, 2]] * 5).p == 2**-4, "two strategies: the sign test"
    assert friedman(np.full((5, 3), 2.0)).p == 1
    with pytest.raises(BadInput, match="two data sets and two strategies or more, got 1 and 3"):
        friedman([[1, 2, 3]])


def test_strategies_that_are_alike_are_seldom_told_apart():
    """At the least number of data sets that is tested, in a twentieth of the cases and a little more."""
    orders = np.random.default_rng(0).random((3000, 5, 4))
    shown = np.mean([friedman(ranks(values)).p < 0.05 for values in orders])
    assert 0.04 < shown < 0.08
    assert not any(friedman(ranks(values[:, :2])).p < 0.05 for values in orders), "two of them never, in five data sets"


@pytest.mark.parametrize(("strategies", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_the_table(strategies, q):
    """Demšar 2006, table 5 (a)."""
    reach = critical_difference(strategies, 9)
    assert reach == pytest.approx(q * sqrt(strategies * (strategies + 1) / 54), rel=5e-4)
    assert critical_difference(strategies, 36) == pytest.approx(reach / 2)
    assert critical_difference(strategies, 9, 0.10) < reach


def test_groups_that_are_not_told_apart():
    average = {"d": 4.0, "a": 1.0, "c": 2.2, "b": 1.8, "e": 4.1}
    assert not_apart(average, 1.3) == [["a", "b", "c"], ["d", "e"]]
    assert not_apart(average, 1.0) == [["a", "b"], ["b", "c"], ["d", "e"]]
    assert not_apart(average, 0.05) == []
    assert not_apart(average, 5) == [["a", "b", "c", "d", "e"]]


def test_one_strategy_against_each():
    first = np.array([0.70, 0.60, 0.80, 0.90, 0.50, 0.65, 0.75])
    gaps = {
        "worse": np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07]),
        "mixed": np.array([0.01, -0.02, 0.03, 0.0, -0.05, 0.06, 0.07]),
    }
    areas = {"mine": first, **{name: first - gap for name, gap in gaps.items()}}
    worse, mixed = against_each("mine", {name: list(values) for name, values in areas.items()})
    assert (worse.rival, worse.better, worse.equal, worse.worse) == ("worse", 7, 0, 0)
    assert worse.p == pytest.approx(2 / 2**7), "the two of 2^7 choices of signs that are as far out"
    assert (worse.p_holm, worse.median) == (pytest.approx(2 * worse.p), pytest.approx(0.04))
    assert (mixed.better, mixed.equal, mixed.worse, mixed.strategy) == (4, 1, 2, "mine")
    left = gaps["mixed"][gaps["mixed"] != 0]
    sizes = stats.rankdata(np.abs(left))
    signs = np.array(list(product([0, 1], repeat=6)))
    lower = min(sizes[left > 0].sum(), sizes[left < 0].sum())
    assert mixed.p == pytest.approx(2 * (signs @ sizes <= lower).mean())
    assert mixed.p_holm == pytest.approx(mixed.p)


def test_penalties_are_added():
    names = ("a", "b")
    one = Penalties(names, np.array([[0, 0.5], [0.25, 0]]), np.array([0.25, 0.5]))
    other = Penalties(names, np.array([[0, 1.0], [0.0, 0]]), np.array([0.0, 1.0]))
    total = added([one, other])
    assert total.matrix.tolist() == [[0, 1.5], [0.25, 0]]
    assert total.column_means.tolist() == [0.25, 1.5]
    with pytest.raises(BadInput, match="the same strategies in the same order"):
        added([one, Penalties(("b", "a"), one.matrix, one.column_means)])
