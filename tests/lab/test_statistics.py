"""The statistics against answers by hand, against SciPy, and against simulated experiments whose truth is known."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats

from ncalr.errors import BadInput, NotFinite, UnknownName
from ncalr.lab import statistics as lab
from ncalr.lab.statistics import BEST_RIVAL, Curves

NAN = float("nan")
EXPERIMENTS, SEEDS = 2000, 5


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def noisy(strategies: dict[str, float], seeds: int = 6, budgets: int = 4, seed: int = 0) -> Curves:
    """Curves that rise with the budget, share a pool effect a seed, and lie apart by the gaps given."""
    rng = generator(seed)
    rise = 0.5 + 0.1 * np.arange(budgets) + rng.normal(0, 0.05, (seeds, 1))
    return Curves(
        100 * np.arange(1, budgets + 1),
        {name: rise + gap + rng.normal(0, 0.01, rise.shape) for name, gap in strategies.items()},
    )


# areas


def test_area_by_hand_with_unequal_steps():
    # trapezoids 10 × 0.5, 30 × 0.9, 60 × 0.9 over a range of 100
    assert lab.aubc([100, 110, 140, 200], [0.2, 0.8, 1.0, 0.8]) == pytest.approx((5 + 27 + 54) / 100)


def test_area_of_a_straight_line_does_not_depend_on_the_spacing():
    for budgets in ([0, 10], [0, 1, 10], [0, 9, 9.5, 10]):
        assert lab.aubc(budgets, 0.3 + 0.05 * np.array(budgets)) == pytest.approx(0.55)


def test_area_at_one_budget_is_the_accuracy_and_an_unfinished_run_has_none():
    assert lab.aubc([50], [[0.7], [0.8]]).tolist() == [0.7, 0.8]
    areas = lab.aubc([1, 2], [[0.5, NAN], [0.5, 0.7]])
    assert np.isnan(areas[0])
    assert areas[1] == pytest.approx(0.6)


# means and intervals


def test_mean_and_interval_are_those_of_scipy():
    curves = noisy({"random": 0, "margin": 0.02})
    for name, found in lab.mean_curves(curves, 0.9).items():
        expected = stats.ttest_1samp(curves.accuracies[name], 0).confidence_interval(0.9)
        np.testing.assert_allclose(found.mean, curves.accuracies[name].mean(axis=0))
        np.testing.assert_allclose([found.low, found.high], expected)
        assert found.seeds.tolist() == [6] * 4


def test_interval_of_three_seeds_by_hand():
    found = lab.mean_curves(Curves([1], {"a": [[0.5], [0.6], [0.7]]}))["a"]
    reach = 4.302652729911275 * 0.1 / np.sqrt(3)  # the 97.5 % point of t with two degrees of freedom
    assert [found.mean[0], found.low[0], found.high[0]] == pytest.approx([0.6, 0.6 - reach, 0.6 + reach])


def test_one_seed_has_a_mean_and_no_interval():
    curves = Curves([1, 2], {"random": [[0.5, 0.6]], "a": [[0.5, 0.8]]})
    found = lab.mean_curves(curves)["a"]
    assert found.mean.tolist() == [0.5, 0.8]
    assert np.isnan([found.low, found.high]).all()
    gap = lab.differences(curves)["a"]
    assert gap.per_budget.mean.tolist() == pytest.approx([0, 0.2])
    assert np.isnan([gap.per_budget.low, gap.per_budget.p, gap.per_budget.p_holm]).all()
    assert np.isnan([gap.aubc.p, gap.aubc.high]).all()


def test_two_seeds_are_enough_for_an_interval():
    found = lab.differences(Curves([1], {"random": [[0.5], [0.6]], "a": [[0.6], [0.9]]}))["a"].per_budget
    reach = 12.706204736174694 * 0.1  # deviation 0.2 / √2, over √2
    assert [found.mean[0], found.low[0], found.high[0]] == pytest.approx([0.2, 0.2 - reach, 0.2 + reach])
    assert found.p[0] == pytest.approx(1 - 2 * np.arctan(2.0) / np.pi)  # t = 2, one degree of freedom: Cauchy


def test_seeds_that_agree_give_no_interval():
    found = lab.mean_curves(Curves([1], {"a": [[0.1], [0.1], [0.1]]}))["a"]
    assert found.mean[0] == pytest.approx(0.1)
    assert np.isnan([found.low[0], found.high[0]]).all()


def test_a_mean_uses_the_runs_that_got_that_far_and_says_how_many():
    found = lab.mean_curves(Curves([1, 2, 3], {"a": [[0.4, 0.5, NAN], [0.6, NAN, NAN]]}))["a"]
    assert found.seeds.tolist() == [2, 1, 0]
    np.testing.assert_allclose(found.mean, [0.5, 0.5, NAN])


# differences


def test_differences_are_those_of_scipy():
    curves = noisy({"random": 0, "margin": 0.02, "ncal": 0.03})
    found = lab.differences(curves)
    assert list(found) == ["margin", "ncal"]
    for name, difference in found.items():
        own, random = curves.accuracies[name], curves.accuracies["random"]
        expected = stats.ttest_rel(own, random)
        np.testing.assert_allclose(difference.per_budget.p, expected.pvalue)
        interval = expected.confidence_interval(0.95)
        np.testing.assert_allclose([difference.per_budget.low, difference.per_budget.high], interval)
        areas = stats.ttest_rel(lab.aubc(curves.budgets, own), lab.aubc(curves.budgets, random))
        assert difference.aubc.p == pytest.approx(areas.pvalue)
        assert [difference.aubc.low, difference.aubc.high] == pytest.approx(list(areas.confidence_interval(0.95)))
        assert (difference.rival, difference.seeds) == ("random", 6)


def test_pairing_removes_the_spread_between_pools():
    curves = noisy({"random": 0, "margin": 0.02})
    paired = lab.differences(curves)["margin"].aubc
    areas = {name: lab.aubc(curves.budgets, runs) for name, runs in curves.accuracies.items()}
    unpaired = stats.ttest_ind(areas["margin"], areas["random"]).confidence_interval(0.95)
    assert paired.high - paired.low < 0.5 * (unpaired.high - unpaired.low)


def test_the_family_of_holm_is_what_was_asked_for():
    curves = noisy({"random": 0, "a": 0.01, "b": 0.005, "c": 0})
    everything = lab.differences(curves)
    expected = lab.holm([difference.per_budget.p for difference in everything.values()])
    np.testing.assert_array_equal([d.per_budget.p_holm for d in everything.values()], expected)
    areas = lab.holm([float(difference.aubc.p) for difference in everything.values()])
    np.testing.assert_array_equal([d.aubc.p_holm for d in everything.values()], areas)
    few = lab.differences(curves, strategies=["a", "b"], budgets=[400, 200])
    assert list(few) == ["a", "b"]
    for name in few:
        np.testing.assert_array_equal(few[name].per_budget.p, everything[name].per_budget.p[[3, 1]])
        assert few[name].aubc.p == everything[name].aubc.p
    smallest = min(difference.per_budget.p.min() for difference in few.values())
    assert min(difference.per_budget.p_holm.min() for difference in few.values()) == pytest.approx(4 * smallest)


def test_holm_by_hand():
    assert lab.holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert lab.holm([0.6, 0.5]).tolist() == [1, 1]
    np.testing.assert_allclose(lab.holm([[0.02, NAN], [0.3, 0.01]]), [[0.04, NAN], [0.3, 0.03]])


def test_identical_curves_differ_by_nothing():
    same = noisy({"random": 0}).accuracies["random"]
    for test in ("t", "wilcoxon"):
        found = lab.differences(Curves([1, 2, 3, 4], {"random": same, "a": same}), test=test)["a"]
        for effect in (found.per_budget, found.aubc):
            for values in (effect.mean, effect.low, effect.high, effect.deviation):
                assert not np.any(values)
            assert np.all(effect.p == 1)
            assert np.all(effect.p_holm == 1)


def test_equal_differences_are_no_certainty():
    # 0.1 + 0.2 and 0.3 and the like: equal but for rounding
    curves = Curves([1, 2], {"random": [[0.1, 0.2], [0.7, 0.5], [0.3, 0.6]], "a": [[0.3, 0.3], [0.9, 0.9], [0.5, 0.8]]})
    effect = lab.differences(curves)["a"].per_budget
    assert effect.mean[0] == pytest.approx(0.2)
    assert np.isnan([effect.p[0], effect.p_holm[0], effect.low[0], effect.high[0]]).all()
    assert effect.deviation[0] == 0
    assert effect.p_holm[1] == effect.p[1]  # what cannot be tested is no member of the family
    ranks = lab.differences(curves, test="wilcoxon")["a"].per_budget
    assert ranks.p[0] == pytest.approx(0.25)  # 2 of the 8 signs


def test_wilcoxon_by_counting_all_signs():
    gaps = np.array([0.03, -0.01, 0.02, 0.05, 0.04, 0.06, -0.015])
    curves = Curves([1], {"random": np.full((7, 1), 0.5), "a": (0.5 + gaps)[:, None]})
    ranks = stats.rankdata(np.abs(gaps))
    sums = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product([0, 1], repeat=7)]
    negative = ranks[gaps < 0].sum()
    expected = 2 * np.mean([total <= negative for total in sums])
    assert lab.differences(curves, test="wilcoxon")["a"].per_budget.p[0] == pytest.approx(expected)


def test_wilcoxon_leaves_out_zeros_and_sees_ties_through_rounding():
    gaps = [0.0, 0.1, 0.2, -0.1, 0.3, 0.3, 0.4]  # added to numbers that blur the last digit
    start = np.array([0.5, 0.3, 0.1, 0.8, 0.4, 0.6, 0.2])
    curves = Curves([1], {"random": start[:, None], "a": (start + gaps)[:, None]})
    expected = stats.wilcoxon([1, 2, -1, 3, 3, 4]).pvalue
    assert lab.differences(curves, test="wilcoxon")["a"].per_budget.p[0] == pytest.approx(expected)


def test_only_seeds_finished_by_both_enter_a_pair():
    curves = noisy({"random": 0, "a": 0.01, "b": 0.02})
    values = {name: np.array(runs) for name, runs in curves.accuracies.items()}
    values["a"][1, 2:] = NAN
    values["random"][4, 3] = NAN
    found = lab.differences(Curves(curves.budgets, values))
    assert (found["a"].seeds, found["b"].seeds) == (4, 5)
    keep = [0, 2, 3, 5]
    expected = stats.ttest_rel(values["a"][keep], values["random"][keep])
    np.testing.assert_allclose(found["a"].per_budget.p, expected.pvalue)


def test_best_rival_is_the_best_other_by_area():
    curves = noisy({"random": 0, "good": 0.1, "best": 0.2})
    found = lab.differences(curves, BEST_RIVAL)
    assert {name: difference.rival for name, difference in found.items()} == {
        "random": "best",
        "good": "best",
        "best": "good",
    }
    assert found["best"].aubc.mean == pytest.approx(0.1, abs=0.02)
    assert found["good"].aubc.mean == pytest.approx(-0.1, abs=0.02)


def test_best_rival_is_not_the_one_with_the_lucky_pools():
    easy, hard = [0.9, 0.95], [0.3, 0.35]
    lucky = [[0.91, 0.96], [NAN, NAN]]  # finished on the easy pool alone, by little better there
    curves = Curves([1, 2], {"a": [easy, hard], "lucky": lucky, "steady": [[0.95, 0.99], [0.4, 0.45]]})
    assert np.nanmean(lab.aubc([1, 2], lucky)) > np.mean(lab.aubc([1, 2], curves.accuracies["steady"]))
    assert lab.best_rival(curves, "a") == "steady"


def test_one_against_each_is_every_other_one_against_it_turned_round():
    curves = noisy({"a": 0.03, "b": 0.01, "random": 0})
    each, others = lab.against_each(curves, "a"), lab.differences(curves, "a")
    assert list(each) == ["b", "random"]
    for name, found in each.items():
        assert (found.strategy, found.rival, found.seeds) == ("a", name, 6)
        np.testing.assert_allclose(found.aubc.mean, -others[name].aubc.mean)
        np.testing.assert_allclose([found.aubc.low, found.aubc.high], [-others[name].aubc.high, -others[name].aubc.low])
        np.testing.assert_allclose(found.aubc.p_holm, others[name].aubc.p_holm)
    assert each["random"].aubc.mean > 0
    with pytest.raises(UnknownName, match="'c'"):
        lab.against_each(curves, "c")


# label savings


def test_label_savings_by_hand():
    curves = Curves(
        [100, 200, 400],
        {"random": [[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]], "a": [[0.5, 0.64, 0.71], [0.5, 0.66, 0.73]]},
    )
    found = lab.label_savings(curves, confidence=0.5)["a"]
    assert found.needed.tolist() == pytest.approx([100, 300, np.inf])
    assert found.saved.tolist() == pytest.approx([0, 100, np.inf])
    assert found.beyond.tolist() == [False, False, True]
    assert found.at_most.tolist() == [False, False, False]
    # half of a t with one degree of freedom lies within 1: the mean 0.65 less and more 0.01, read off random
    assert [found.low[1], found.high[1]] == pytest.approx([280, 320])
    assert found.low_beyond.tolist() == found.high_beyond.tolist() == [False, False, True]
    wide = lab.label_savings(curves)["a"]  # t = 12.706: 0.65 less and more 0.127
    assert wide.low[1] == pytest.approx(100 + 100 * (0.65 - 0.12706 - 0.5) / 0.1, abs=0.1)
    assert wide.high_beyond[1]
    assert not wide.beyond[1]


def test_a_plateau_counts_for_the_rival_and_a_dip_is_smoothed():
    budgets = [10, 20, 30, 40]
    flat = lab.label_savings(Curves(budgets, {"random": [[0.5, 0.6, 0.6, 0.7]], "a": [[0.6] * 4]}))["a"]
    assert flat.needed.tolist() == pytest.approx([20] * 4)
    dip = lab.label_savings(Curves(budgets, {"random": [[0.4, 0.6, 0.5, 0.7]], "a": [[0.55, 0.625, 0.7, 0.3]]}))
    assert dip["a"].needed.tolist() == pytest.approx([20, 35, 40, 10])  # the rival's fit: 0.4, 0.55, 0.55, 0.7
    assert dip["a"].at_most.tolist() == [False, False, False, True]
    assert np.isnan([dip["a"].low, dip["a"].high]).all()  # one seed


def test_label_savings_with_one_budget():
    curves = Curves([10], {"random": [[0.5]], "worse": [[0.4]], "same": [[0.5]], "better": [[0.6]]})
    found = lab.label_savings(curves)
    assert [float(found[name].needed[0]) for name in ("worse", "same", "better")] == [10, 10, np.inf]
    assert [bool(found[name].at_most[0]) for name in ("worse", "same", "better")] == [True, False, False]


def test_label_savings_are_paired():
    # pools differ by much, the gap hardly: only pairs of a seed leave the savings where they are
    pools, rise = np.linspace(0, 0.3, 8)[:, None], np.array([0.3, 0.4, 0.5, 0.6])
    gaps = 0.05 + 0.001 * np.array([1, -1] * 4)[:, None]
    found = lab.label_savings(Curves([10, 20, 30, 40], {"random": rise + pools, "a": rise + pools + gaps}))["a"]
    np.testing.assert_allclose(found.needed[:3], [15, 25, 35])
    assert (found.low[:3] > [14.8, 24.8, 34.8]).all()
    assert (found.high[:3] < [15.2, 25.2, 35.2]).all()


def test_seeds_that_agree_to_the_last_digit_have_no_interval_of_savings():
    same = Curves([10, 20], {"random": [[0.3, 0.5]] * 3, "a": [[0.3, 0.4]] * 3})
    found = lab.label_savings(same)["a"]
    assert found.needed.tolist() == pytest.approx([10, 15])
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_interval_of_savings_is_where_a_paired_test_finds_nothing(seed):
    curves = noisy({"random": 0, "a": 0.03}, seeds=4, seed=seed)
    found = lab.label_savings(curves, confidence=0.9)["a"]
    own, rival = curves.accuracies["a"], curves.accuracies["random"]
    grid = np.linspace(100, 400, 3001)
    there = np.array([np.interp(grid, curves.budgets, row) for row in rival])
    for place, needed in enumerate(found.needed):
        p = stats.ttest_rel(np.repeat(own[:, [place]], len(grid), axis=1), there, axis=0).pvalue
        level = grid[p >= 0.1].tolist() or [np.inf]  # beyond
        assert found.low[place] == pytest.approx(min(*level, needed), abs=0.11)
        high = np.inf if p[-1] >= 0.1 else max(*level, needed)
        assert found.high[place] == pytest.approx(high, abs=0.11)


def test_who_is_out_of_the_rival_s_reach_has_no_interval_inside():
    rng = generator(2)
    rise = 0.5 + 0.1 * np.arange(3) + rng.normal(0, 0.05, (5, 1))
    curves = Curves(
        [1, 2, 3],
        {
            name: rise + gap + rng.normal(0, 0.002, rise.shape)
            for name, gap in (("random", 0), ("up", 0.5), ("down", -0.5))
        },
    )
    found = lab.label_savings(curves)
    assert found["up"].low_beyond.all()
    assert found["up"].high_beyond.all()
    assert found["down"].at_most.all()
    assert found["down"].high.tolist() == [1, 1, 1]


def test_isotonic_regression_of_old_scipy_is_that_of_new_scipy(monkeypatch):
    rows = generator().normal(size=(200, 9)).round(1)
    expected = np.array([optimize.isotonic_regression(row).x for row in rows])
    np.testing.assert_allclose(lab._non_decreasing(rows), expected, atol=1e-12)
    monkeypatch.delattr(optimize, "isotonic_regression")
    np.testing.assert_allclose(lab._non_decreasing(rows), expected, atol=1e-12)


# penalties


def test_penalties_by_hand():
    base = np.array([[0.50], [0.52], [0.48], [0.51]])
    wiggle = np.array([[0.001], [-0.001], [0.002], [-0.002]])
    low = np.hstack([base, base, base, base])
    high = low + wiggle + np.array([0.1, 0.1, 0.1, 0.0])  # wins at three budgets, a draw at the last
    mixed = low - wiggle + np.array([-0.1, 0.1, 0.0, 0.0])  # beaten at the first, wins at the second
    found = lab.penalties(Curves([1, 2, 3, 4], {"low": low, "high": high, "mixed": mixed}))
    np.testing.assert_allclose(found.matrix, [[0, 0, 0.25], [0.75, 0, 0.5], [0.25, 0, 0]])
    np.testing.assert_allclose(found.column_means, [0.5, 0, 0.375])


def test_penalty_threshold_is_the_two_sided_t_of_ash_et_al():
    # five seeds: |t| > 2.776; differences 1 + c·(-2, -1, 0, 1, 2) have t = √5 / (c √2.5)
    for statistic, share in ((2.70, 0.0), (2.85, 1.0)):
        spread = np.sqrt(2) / statistic * np.arange(-2, 3)
        curves = Curves([1], {"random": np.zeros((5, 1)), "a": (1 + spread)[:, None]})
        assert lab.penalties(curves).matrix[1, 0] == share


def test_penalties_without_a_pair_are_unknown():
    found = lab.penalties(Curves([1], {"a": [[0.5], [NAN]], "b": [[0.6], [0.7]], "c": [[0.6], [0.8]]}))
    np.testing.assert_array_equal(
        np.isnan(found.matrix), [[False, True, True], [True, False, False], [True, False, False]]
    )
    np.testing.assert_array_equal(np.isnan(found.column_means), [True, False, False])


# power


def test_detectable_difference_against_the_sample_sizes_of_textbooks():
    # pairs needed for an effect of so many deviations: two-sided 0.05, power 0.8
    for size, pairs in ((0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)):
        assert lab.detectable_difference(1.0, pairs) <= size < lab.detectable_difference(1.0, pairs - 1)
        assert lab.detectable_difference(0.02, pairs) == pytest.approx(0.02 * lab.detectable_difference(1.0, pairs))


def test_detectable_difference_by_the_noncentral_t_itself():
    for seeds, alpha, power in ((2, 0.05, 0.8), (3, 0.01, 0.9), (8, 0.1, 0.5)):
        shift = lab.detectable_difference(1.0, seeds, alpha, power) * np.sqrt(seeds)
        critical = stats.t.isf(alpha / 2, seeds - 1)
        # T = (Z + shift) / S: given S, the chance is that of a normal; then the mean over S by quantiles
        scale = np.sqrt(stats.chi2.ppf((np.arange(20_000) + 0.5) / 20_000, seeds - 1) / (seeds - 1))
        shown = stats.norm.sf(critical * scale - shift) + stats.norm.cdf(-critical * scale - shift)
        assert shown.mean() == pytest.approx(power, abs=1e-3)


def test_detectable_uses_the_deviation_of_the_differences():
    curves = noisy({"random": 0, "a": 0.02})
    found = lab.detectable(curves, alpha=0.1, power=0.9)["a"]
    gaps = curves.accuracies["a"] - curves.accuracies["random"]
    at_last = lab.detectable_difference(gaps[:, -1].std(ddof=1), 6, 0.1, 0.9)
    area = lab.detectable_difference(lab.aubc(curves.budgets, gaps).std(ddof=1), 6, 0.1, 0.9)
    assert [found.last_budget, found.aubc, found.seeds] == pytest.approx([at_last, area, 6])


def test_nothing_is_detectable_without_spread_or_with_one_seed():
    assert np.isnan(lab.detectable_difference(0.0, 5))
    assert np.isnan(lab.detectable_difference(NAN, 5))
    assert np.isnan(lab.detectable_difference(0.1, 1))


# simulated experiments: each budget of one big array is an experiment of its own


def simulated(gap: float, deviation: float, strategies: int, budgets: int, seed: int) -> Curves:
    """`strategies` rivals of random, all ahead by the gap; differences of the given deviation; large pool effects."""
    rng = generator(seed)
    columns = EXPERIMENTS * budgets
    pools = rng.normal(0.6, 0.05, (SEEDS, columns))
    random = pools + rng.normal(0, deviation / np.sqrt(2), pools.shape)
    rivals = {
        f"s{number}": pools + gap + rng.normal(0, deviation / np.sqrt(2), pools.shape) for number in range(strategies)
    }
    return Curves(np.arange(1, columns + 1), {"random": random, **rivals})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_interval_of_a_difference_covers_the_truth(seed):
    found = lab.differences(simulated(0.01, 0.008, 1, 1, seed))["s0"].per_budget
    covered = np.mean((found.low <= 0.01) & (found.high >= 0.01))
    assert 0.935 <= covered <= 0.965


def test_the_interval_of_an_area_covers_the_truth():
    gaps, budgets, covered, rng = np.array([0, 0.02, 0.01]), [100, 150, 400], [], generator(4)
    truth = (50 * 0.01 + 250 * 0.015) / 300
    for _ in range(EXPERIMENTS):
        random = rng.normal(0.6, 0.05, (SEEDS, 1)) + rng.normal(0, 0.01, (SEEDS, 3))
        curves = Curves(budgets, {"random": random, "a": random + gaps + rng.normal(0, 0.01, (SEEDS, 3))})
        area = lab.differences(curves)["a"].aubc
        covered.append(area.low <= truth <= area.high)
    assert 0.935 <= np.mean(covered) <= 0.965


def test_the_interval_of_a_mean_covers_the_truth():
    found = lab.mean_curves(simulated(0.0, 0.008, 1, 1, 5))["random"]
    assert 0.935 <= np.mean((found.low <= 0.6) & (found.high >= 0.6)) <= 0.965


def test_the_familywise_error_is_kept_by_holm_and_only_by_holm():
    strategies, budgets = 4, 5
    found = lab.differences(simulated(0.0, 0.008, strategies, budgets, 6))
    p = np.array([difference.per_budget.p for difference in found.values()])
    families = p.reshape(strategies, EXPERIMENTS, budgets).swapaxes(0, 1)
    corrected = np.array([lab.holm(family) for family in families])
    errors = np.mean((corrected < 0.05).any(axis=(1, 2)))
    assert 0.02 <= errors <= 0.06  # below 0.02 the correction would be too harsh
    assert np.mean((families < 0.05).any(axis=(1, 2))) > 0.3


def test_the_detectable_difference_is_detected_four_times_in_five():
    gap = lab.detectable_difference(0.008, SEEDS)
    found = lab.differences(simulated(gap, 0.008, 1, 1, 7))["s0"].per_budget
    assert 0.75 <= np.mean((found.p < 0.05) & (found.mean > 0)) <= 0.85
    half = lab.differences(simulated(gap / 2, 0.008, 1, 1, 7))["s0"].per_budget
    assert np.mean(half.p < 0.05) < 0.5


def test_the_fewest_seeds_that_show_a_difference():
    for deviation, difference in ((0.008, 0.01), (0.02, 0.01), (0.001, 0.01), (0.1, 0.01)):
        seeds = lab.seeds_for(deviation, difference)
        assert lab.detectable_difference(deviation, seeds) <= difference
        assert seeds == 2 or lab.detectable_difference(deviation, seeds - 1) > difference
    with pytest.raises(BadInput, match=r"deviation and difference must be above 0, got 0 and 0\.01"):
        lab.seeds_for(0, 0.01)


@pytest.mark.parametrize("seeds", [3, 10])
def test_the_interval_of_label_savings_covers_the_truth(seeds):
    # random gains 0.1 in 100 labels and a is ahead by 0.03: the truth is 30 labels more
    covered, rise, rng = [], 0.5 + 0.1 * np.arange(4), generator(8)
    for _ in range(600):
        pools = rng.normal(0, 0.05, (seeds, 1))
        random, ahead = (pools + rise + gap + rng.normal(0, 0.01, (seeds, 4)) for gap in (0, 0.03))
        found = lab.label_savings(Curves([100, 200, 300, 400], {"random": random, "a": ahead}))["a"]
        covered.append((found.low[1] <= 230) & (found.high[1] >= 230))
    assert 0.92 <= np.mean(covered) <= 0.98


# the summary


def only_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and only_plain(entry) for key, entry in value.items())
    if isinstance(value, list):
        return all(map(only_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def test_summary_is_plain_and_agrees_with_its_parts():
    curves = noisy({"random": 0, "a": 0.02, "b": 0.2})
    found = lab.summary(curves)
    assert only_plain(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["budgets"] == [100, 200, 300, 400]
    assert (found["strategies"], found["seeds"], found["notes"]) == (["random", "a", "b"], 6, [])
    assert found["accuracy"]["a"]["mean"] == lab.mean_curves(curves)["a"].mean.tolist()
    assert found["aubc"]["a"]["low"] == float(lab.mean_aubc(curves)["a"].low)
    assert found["to_random"]["a"]["per_budget"]["p_holm"] == lab.differences(curves)["a"].per_budget.p_holm.tolist()
    assert found["to_best_rival"]["random"]["rival"] == "b"
    assert found["detectable"]["a"]["aubc"] == lab.detectable(curves)["a"].aubc
    assert found["penalties"]["matrix"] == lab.penalties(curves).matrix.tolist()
    savings = found["label_savings"]["b"]
    assert savings["needed"][-1] is None
    assert savings["beyond"][-1] is savings["high_beyond"][-1] is True


def test_summary_without_random_says_so():
    found = lab.summary(noisy({"a": 0, "b": 0.1}))
    assert found["to_random"] is found["label_savings"] is found["detectable"] is None
    assert found["to_best_rival"]["b"]["rival"] == "a"
    assert any("no strategy 'random'" in note for note in found["notes"])


def test_summary_of_one_strategy():
    found = lab.summary(noisy({"random": 0}))
    assert found["to_best_rival"] is None
    assert found["to_random"] == found["label_savings"] == {}
    assert found["penalties"] == {"strategies": ["random"], "matrix": [[0.0]], "column_means": [None]}
    assert found["notes"] == ["one strategy only: nothing to compare it with"]


def test_summary_of_one_seed_has_no_intervals():
    found = lab.summary(Curves([1, 2], {"random": [[0.5, 0.6]], "a": [[0.5, 0.7]]}))
    assert found["accuracy"]["a"] == {"mean": [0.5, 0.7], "low": [None] * 2, "high": [None] * 2, "seeds": [1, 1]}
    assert found["to_random"]["a"]["aubc"]["p"] is None
    assert found["label_savings"]["a"]["low"] == [None, None]
    assert found["label_savings"]["a"]["high_beyond"] == [False, False]
    assert found["detectable"]["a"]["aubc"] is None
    assert found["notes"] == ["one seed: no intervals and no tests"]


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_summary_of_nothing_finished(test):
    nothing = np.full((3, 2), NAN)
    found = lab.summary(Curves([1, 2], {"random": nothing, "a": nothing}), test=test)
    assert json.dumps(found, allow_nan=False)
    assert found["accuracy"]["a"]["mean"] == [None, None]
    assert found["to_random"]["a"]["seeds"] == 0
    assert found["to_best_rival"] is None
    assert found["label_savings"]["a"]["needed"] == [None, None]
    assert found["penalties"]["column_means"] == [None, None]
    assert "a: 0 of 3 seeds finished; only those are compared" in found["notes"]


def test_notes_name_what_could_not_be_tested():
    runs = [[0.5, 0.625], [0.5, 0.75], [0.25, 0.5]]
    shifted = [[0.5, 0.75], [0.5, 0.875], [0.25, 0.625]]
    found = lab.summary(Curves([1, 2], {"random": runs, "a": shifted}))
    assert any(
        note.startswith("a and random: the same difference in all seeds at 1 budgets") for note in found["notes"]
    )
    assert found["to_random"]["a"]["per_budget"]["p"] == [1.0, None]
    ranks = lab.summary(Curves([1, 2], {"random": runs, "a": shifted}), test="wilcoxon")
    assert any("cannot reach p < 0.05 with the 3 seeds of a and random" in note for note in ranks["notes"])


# what cannot be used


@pytest.mark.parametrize(
    ("budgets", "accuracies", "text"),
    [
        ([2, 1], {"a": [[0.5, 0.6]]}, r"budgets must increase, got \[2.0, 1.0\]: sort them"),
        ([1, 1], {"a": [[0.5, 0.6]]}, "budgets must increase"),
        ([1, NAN], {"a": [[0.5, 0.6]]}, "budgets must be finite"),
        ([], {"a": [[]]}, "at least one number"),
        ([1, 2], {}, "no strategies given"),
        ([1, 2], {"a": [[0.5, 0.6, 0.7]]}, r"'a' must have the shape \(seeds, 2\).*got \(1, 3\)"),
        ([1, 2], {"a": [0.5, 0.6]}, r"got \(2,\)"),
        ([1, 2], {"a": np.empty((0, 2))}, r"got \(0, 2\)"),
        ([1], {"a": [[0.5]], "b": [[0.5], [0.6]]}, "'a' has 1, 'b' has 2. Fill runs"),
        ([1], {"a": [["high"]]}, "accuracies of 'a' must be numbers"),
        ([1, 2], {"a": [[0.5], [0.5, 0.6]]}, "accuracies of 'a' must be numbers in a regular array"),
    ],
)
def test_curves_that_cannot_be_used(budgets, accuracies, text):
    with pytest.raises(BadInput, match=text):
        Curves(budgets, accuracies)


def test_infinite_accuracies_are_refused():
    with pytest.raises(NotFinite, match="accuracies of 'a' hold infinity"):
        Curves([1], {"a": [[np.inf]]})


def test_curves_do_not_change_under_our_hands():
    runs = np.array([[0.5, 0.6]])
    curves = Curves([1, 2], {"a": runs})
    runs[:] = 0
    assert curves.accuracies["a"].tolist() == [[0.5, 0.6]]
    with pytest.raises(ValueError, match="read-only"):
        curves.accuracies["a"][0, 0] = 1


def test_options_that_cannot_be_used():
    curves = noisy({"random": 0, "a": 0.1})
    with pytest.raises(UnknownName, match=r"no strategy in these curves 'randon'. Did you mean 'random'"):
        lab.differences(curves, "randon")
    with pytest.raises(UnknownName, match="'b'"):
        lab.differences(curves, strategies=["b"])
    with pytest.raises(UnknownName, match="'b'"):
        lab.label_savings(curves, "b")
    with pytest.raises(BadInput, match=r"budgets must be some of \[100.0, 200.0, 300.0, 400.0\], got \[150\]"):
        lab.differences(curves, budgets=[150])
    with pytest.raises(BadInput, match="test must be one of 't', 'wilcoxon', got 'z'"):
        lab.differences(curves, test="z")
    with pytest.raises(BadInput, match="confidence must lie between 0 and 1, got 95"):
        lab.mean_curves(curves, 95)
    with pytest.raises(BadInput, match="alpha must lie between 0 and 1, got 5"):
        lab.penalties(curves, 5)
    with pytest.raises(BadInput, match=r"power must lie between alpha \(0.05\) and 1, got 0.01"):
        lab.detectable(curves, power=0.01)
    with pytest.raises(BadInput, match="one accuracy a budget expected"):
        lab.aubc([1, 2], [0.5])
    with pytest.raises(BadInput, match="budgets must increase"):
        lab.aubc([2, 1], [0.5, 0.6])


def test_figures_do_not_depend_on_how_a_processor_adds_up():
    """0.1 + 0.2 + 0.3 is 0.6000000000000001; a mean that lies between two tenths is printed as the one or the other."""
    assert float(lab.estimate([0.1, 0.2, 0.3]).mean) == 0.2
    assert float(lab.aubc([0, 1, 2, 3], [0.1, 0.1, 0.1, 0.1])) == 0.1
    found = lab.differences(Curves(np.array([1.0]), {"random": [[0.1], [0.2], [0.3]], "ncal": [[0.2], [0.4], [0.6]]}))
    assert float(found["ncal"].aubc.mean) == 0.2
    assert float(found["ncal"].aubc.low) == round(float(found["ncal"].aubc.low), 12)
