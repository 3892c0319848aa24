"""What may be concluded from runs of several strategies: intervals, paired tests, areas, label savings, power. Pure.

All strategies of an experiment start from the same pools: seed r of one strategy and seed r of another share the
initial labels, the network's initial weights and the noise. So everything that compares two strategies works on the
differences of the same seed; the spread between pools, mostly larger than the gap between strategies, falls out.

Rules that hold everywhere:

* A run that is not finished (NaN at any budget) is left out of every comparison and every area, on both sides of the
  pair; results carry `seeds`, how many remained. Only the mean at one budget uses all runs that got that far.
* No interval without spread. One seed, or several that agree to the last digit, say nothing about the next seed: the
  interval is NaN. The one exception is a difference that is exactly 0 in every seed, as at the shared initial pool:
  there the runs are the same, the interval is [0, 0] and p = 1.
* Accuracies may be shares or per cent; nothing here depends on the unit. Higher is better.

Sources: Holm 1979 (correction); Wilcoxon 1945; Robertson, Wright and Dykstra 1988 (isotonic regression); Fieller 1954
(an interval by inverting a t-test); Ash et al. 2020, section 4 (penalty matrix); Cohen 1988 (detectable effect).
Why these: Kottke et al. 2017, Munjal et al. 2022, Lüth et al. 2023, Werner et al. 2024 on active learning benchmarks
whose differences were smaller than what their number of runs could show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from ncalr.errors import BadInput, NotFinite, check_known

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Test = Literal["t", "wilcoxon"]

RANDOM = "random"
BEST_RIVAL = "best rival"  # with a space, so it is no strategy's name
_ROUNDING = 1e-12  # differences that agree to this share of the accuracies agree: the rest is floating point


@dataclass(frozen=True, eq=False)
class Curves:
    """Accuracies of strategies over budgets; row r of every strategy is the same seed, hence the same initial pool.

    >>> Curves([10, 20], {"random": [[0.5, 0.6]], "margin": [[0.5, 0.7]]}).strategies
    ('random', 'margin')
    """

    budgets: Floats  # (b,), labels bought so far, increasing
    accuracies: Mapping[str, Floats]  # each (seeds, b); NaN where a run has not got there

    def __post_init__(self) -> None:
        budgets = _numbers("budgets", self.budgets)
        if budgets.ndim != 1 or not budgets.size:
            raise BadInput(f"budgets must be a list of at least one number, got the shape {budgets.shape}")
        if not np.isfinite(budgets).all():
            raise NotFinite(f"budgets must be finite, got {budgets.tolist()}")
        if (np.diff(budgets) <= 0).any():
            raise BadInput(
                f"budgets must increase, got {budgets.tolist()}: sort them, with the columns of the accuracies"
            )
        if not self.accuracies:
            raise BadInput("no strategies given: pass {name: accuracies of shape (seeds, budgets)}")
        accuracies = {name: _numbers(f"accuracies of {name!r}", values) for name, values in self.accuracies.items()}
        _check_shapes(accuracies, len(budgets))
        for values in (budgets, *accuracies.values()):
            values.flags.writeable = False
        object.__setattr__(self, "budgets", budgets)
        object.__setattr__(self, "accuracies", MappingProxyType(accuracies))

    @property
    def strategies(self) -> tuple[str, ...]:
        """The names, in the order given."""
        return tuple(self.accuracies)

    @property
    def seeds(self) -> int:
        """How many seeds were planned: the rows of each array, finished or not."""
        return len(next(iter(self.accuracies.values())))

    def complete(self, strategy: str) -> Flags:
        """Which seeds of a strategy are finished: a number at every budget."""
        return np.asarray(np.isfinite(self._of(strategy)).all(axis=1))

    def pair(self, strategy: str, rival: str) -> tuple[Floats, Floats]:
        """The accuracies of two strategies at the seeds that both have finished."""
        both = self.complete(strategy) & self.complete(rival)
        return self._of(strategy)[both], self._of(rival)[both]

    def _of(self, strategy: str) -> Floats:
        check_known("strategy in these curves", strategy, self.accuracies)
        return self.accuracies[strategy]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over seeds with its t interval; arrays over budgets, or of no dimension for an area."""

    mean: Floats
    low: Floats
    high: Floats
    seeds: npt.NDArray[np.int64]  # how many entered the mean


@dataclass(frozen=True, eq=False)
class Effect:
    """A mean paired difference, positive where the strategy is better; arrays over budgets, or of no dimension."""

    mean: Floats
    low: Floats
    high: Floats
    deviation: Floats  # standard deviation of the differences, over seeds
    p: Floats  # two-sided, of no difference; NaN where it cannot be tested
    p_holm: Floats  # p corrected for its family


@dataclass(frozen=True, eq=False)
class Difference:
    """One strategy against one rival, over the seeds both have finished."""

    strategy: str
    rival: str
    seeds: int
    per_budget: Effect  # corrected over strategies × budgets
    aubc: Effect  # corrected over strategies


@dataclass(frozen=True, eq=False)
class LabelSavings:
    """How many labels the rival needs for the strategy's mean accuracy at each budget."""

    strategy: str
    rival: str
    seeds: int
    needed: Floats  # (b,); inf where the rival never gets there
    saved: Floats  # needed - budget; below 0 where the rival needs fewer
    low: Floats  # of needed
    high: Floats
    beyond: Flags  # needed is more than the largest budget
    low_beyond: Flags
    high_beyond: Flags
    at_most: Flags  # the rival is better at the smallest budget already: needed is that budget or fewer


@dataclass(frozen=True, eq=False)
class Penalties:
    """Who beats whom how often; see `penalties`."""

    strategies: tuple[str, ...]
    matrix: Floats  # (s, s), row beats column
    column_means: Floats  # (s,), how often the column's strategy is beaten; lower is better


@dataclass(frozen=True, eq=False)
class Detectable:
    """The smallest true differences that these seeds would have shown; NaN below two seeds or without spread."""

    strategy: str
    rival: str
    seeds: int
    aubc: float
    last_budget: float


def aubc(budgets: Any, accuracies: Any) -> Floats:
    """Area under the budget curve by trapezoids, divided by the range of the budgets; the last axis is the budgets.

    It is the mean height of the curve between the first and the last budget: it depends on these two, and hardly on
    how the budgets between them are spaced. With one budget it is the accuracy there. NaN where any accuracy is.

    >>> aubc([0, 1, 4], [0.0, 1.0, 1.0]).tolist()
    0.875
    """
    budgets, accuracies = _numbers("budgets", budgets), _numbers("accuracies", accuracies)
    if accuracies.shape[-1:] != budgets.shape or not budgets.size:
        raise BadInput(f"one accuracy a budget expected: {budgets.shape} budgets, accuracies {accuracies.shape}")
    steps = np.diff(budgets)
    if (steps <= 0).any():
        raise BadInput(f"budgets must increase, got {budgets.tolist()}")
    if not steps.size:
        return np.asarray(accuracies[..., 0])
    middles = (accuracies[..., 1:] + accuracies[..., :-1]) / 2
    return _settled(middles @ (steps / steps.sum()))


def estimate(values: Any, confidence: float = 0.95) -> Estimate:
    """Mean and t interval over the first axis, of what is not NaN there."""
    _check_share("confidence", confidence)
    values = _numbers("values", values)
    there = np.isfinite(values)
    seeds = there.sum(axis=0)
    mean, deviation = _moments(values)
    largest = np.abs(np.where(there, values, 0)).max(axis=0, initial=0)
    low, high = _interval(mean, np.where(deviation > _ROUNDING * largest, deviation, np.nan), seeds, confidence)
    return Estimate(mean, low, high, np.asarray(seeds, np.int64))


def mean_curves(curves: Curves, confidence: float = 0.95) -> dict[str, Estimate]:
    """Mean accuracy of each strategy at each budget, over the runs that got that far, with a t interval."""
    return {name: estimate(values, confidence) for name, values in curves.accuracies.items()}


def mean_aubc(curves: Curves, confidence: float = 0.95) -> dict[str, Estimate]:
    """Mean area under the budget curve of each strategy, over its finished runs, with a t interval."""
    return {name: estimate(aubc(curves.budgets, runs), confidence) for name, runs in curves.accuracies.items()}


def best_rival(curves: Curves, strategy: str) -> str | None:
    """The best other strategy by mean area under the budget curve; None where no other shares a finished seed.

    Each other strategy is compared on the seeds it shares with this one: with all runs finished that is the order of
    the mean areas, and with some missing nobody wins by having been lucky with the pools. Ties go to the first given.

    The rival is chosen by the same runs it is then compared on, so its mean is a little too high and the difference
    to it a little too low: the comparison errs against the strategy.
    """
    leads: dict[str, float] = {}
    for rival in curves.strategies:
        own, other = curves.pair(strategy, rival)
        if rival != strategy and len(own):
            leads[rival] = float(np.mean(aubc(curves.budgets, other) - aubc(curves.budgets, own)))
    return max(leads, key=lambda rival: leads[rival]) if leads else None


def differences(
    curves: Curves,
    against: str = RANDOM,
    *,
    strategies: Sequence[str] | None = None,
    budgets: Sequence[float] | None = None,
    test: Test = "t",
    confidence: float = 0.95,
) -> dict[str, Difference]:
    """Paired differences of strategies to one rival, or each to its `BEST_RIVAL`, per budget and for the area.

    `strategies` (all but the rival unless given) × `budgets` (all unless given) is the family of tests that Holm's
    correction covers, so name what was planned to be tested and nothing else. The areas are a family of their own,
    over the strategies. A difference that cannot be tested is no member; one that is exactly 0 is, with p = 1.

    The interval is the t interval of the mean difference, uncorrected, whatever the test. Wilcoxon's signed-rank test
    leaves out differences of 0 and cannot reach p < 0.05 with fewer than 6 seeds.

    A strategy without a rival (`best_rival` is None) has no entry.
    """
    if test not in get_args(Test):
        raise BadInput(f"test must be one of {', '.join(map(repr, get_args(Test)))}, got {test!r}")
    _check_share("confidence", confidence)
    strategies = curves.strategies if strategies is None else strategies
    for name in (*strategies, *([against] if against != BEST_RIVAL else [])):
        curves.complete(name)  # an unknown name is an error, not a missing entry
    rivals = {name: best_rival(curves, name) if against == BEST_RIVAL else against for name in strategies}
    columns = _columns(curves, budgets)
    return _with_holm(
        {
            name: _difference(curves, name, rival, columns, test, confidence)
            for name, rival in rivals.items()
            if rival is not None and rival != name
        }
    )


def against_each(curves: Curves, strategy: str, *, test: Test = "t", confidence: float = 0.95) -> dict[str, Difference]:
    """One strategy against each other one, positive where it is better; Holm's correction covers the others."""
    curves.complete(strategy)
    columns = _columns(curves, None)
    others = [name for name in curves.strategies if name != strategy]
    return _with_holm({name: _difference(curves, strategy, name, columns, test, confidence) for name in others})


def holm(p: Any) -> Floats:
    """Holm's step-down correction of the p-values of one family (an array of any shape); NaN is no member.

    The chance of one false rejection or more in the family stays below the level, whatever the dependence.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = _numbers("p", p)
    tested = np.isfinite(p)
    values = p[tested]
    order = np.argsort(values, kind="stable")
    steps = np.arange(len(values), 0, -1) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    corrected = np.full(p.shape, np.nan)
    corrected[tested] = adjusted
    return corrected


def label_savings(curves: Curves, against: str = RANDOM, *, confidence: float = 0.95) -> dict[str, LabelSavings]:
    """How many labels the rival needs for the mean accuracy that each other strategy has at each budget.

    The rival's mean curve is made non-decreasing by isotonic regression and read backwards by linear interpolation,
    at the first place where it reaches the accuracy: a plateau counts for the rival. Where it never does, the answer
    is inf (`beyond`); where it starts above, its smallest budget (`at_most`).

    The interval holds every number of labels at which a paired t-test of the strategy at its budget against the
    rival there, whose curves are interpolated seed by seed, finds no difference; from the least to the most of them.
    So it is as wide as so few seeds make it (drawing three seeds again with replacement covers 70 %, not 95). It ends
    at inf where the test finds none at the rival's last budget either.
    """
    _check_share("confidence", confidence)
    curves.complete(against)
    names = [name for name in curves.strategies if name != against]
    return {name: _savings(curves, name, against, confidence) for name in names}


def penalties(curves: Curves, alpha: float = 0.05) -> Penalties:
    """The pairwise penalty matrix of Ash et al. 2020, for one experiment.

    matrix[i, j] = (budgets at which i beats j) / (budgets), where i beats j at a budget if the mean over the shared
    finished seeds of (accuracy of i - accuracy of j) is positive and the two-sided paired t-test of those differences,
    not corrected, has p < alpha. A difference without spread cannot be tested and is no win. The diagonal is 0; a
    pair with fewer than two shared seeds is NaN. Matrices of several experiments are added.

    column_means[j] = the mean of matrix[i, j] over the i other than j that are not NaN: how often j is beaten.
    """
    _check_share("alpha", alpha)
    names = curves.strategies
    matrix = np.zeros((len(names), len(names)))
    for i, name in enumerate(names):
        for j, rival in enumerate(names[:i]):
            own, other = curves.pair(name, rival)
            shown = _p_values(own, other, "t") < alpha
            gap = own.mean(axis=0) - other.mean(axis=0) if len(own) > 1 else np.full(len(curves.budgets), np.nan)
            matrix[i, j] = np.mean(shown & (gap > 0)) if len(own) > 1 else np.nan
            matrix[j, i] = np.mean(shown & (gap < 0)) if len(own) > 1 else np.nan
    others = np.where(np.eye(len(names), dtype=bool), np.nan, matrix)
    return Penalties(names, matrix, _moments(others)[0])


def detectable_difference(deviation: float, seeds: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The true difference that a two-sided paired t-test at alpha shows with the given power.

    `deviation` is the standard deviation of the paired differences. Exact, by the noncentral t distribution. NaN
    for fewer than two seeds or without spread.
    """
    _check_share("alpha", alpha)
    if not alpha < power < 1:
        raise BadInput(f"power must lie between alpha ({alpha}) and 1, got {power}")
    if seeds < 2 or not deviation > 0:
        return float("nan")
    freedom = seeds - 1
    critical = stats.t.isf(alpha / 2, freedom)

    def lack(shift: float) -> float:
        # The square of a noncentral t is a noncentral F: both tails at once, and SciPy's nct has holes far out.
        return float(power - stats.ncf.sf(critical**2, 1, freedom, shift**2))

    top = float(critical)
    while lack(top) > 0:
        top *= 2
    return float(optimize.brentq(lack, 0, top)) * float(deviation) / float(np.sqrt(seeds))


def seeds_for(deviation: float, difference: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """The fewest seeds with which a paired t-test shows a true difference of this size with the given power."""
    if not (deviation > 0 and difference > 0):
        raise BadInput(f"deviation and difference must be above 0, got {deviation} and {difference}")
    few, many = 1, 2
    while detectable_difference(deviation, many, alpha, power) > difference:
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        shown = detectable_difference(deviation, middle, alpha, power) <= difference
        few, many = (few, middle) if shown else (middle, many)
    return many


def detectable(
    curves: Curves, against: str = RANDOM, *, alpha: float = 0.05, power: float = 0.8
) -> dict[str, Detectable]:
    """For each strategy, the smallest difference to the rival that these seeds could have shown.

    From the observed standard deviation of the differences, for the area and at the last budget. A gap below it that
    is not significant is no evidence of no gap: there were too few seeds to tell.
    """
    found = {}
    for name, difference in differences(curves, against).items():
        deviations = difference.aubc.deviation, difference.per_budget.deviation[-1]
        sizes = [detectable_difference(float(d), difference.seeds, alpha, power) for d in deviations]
        found[name] = Detectable(name, difference.rival, difference.seeds, *sizes)
    return found


def summary(
    curves: Curves,
    *,
    test: Test = "t",
    confidence: float = 0.95,
    alpha: float = 0.05,
    power: float = 0.8,
) -> dict[str, Any]:
    """Everything above as plain data for a report: dictionaries, lists, numbers, text; None instead of NaN and inf.

    `of_first` is the first strategy against each other one. What compares with `random` is None where there is no such
    strategy, and a note says so. Where a number of labels
    is None because it is infinite, its flag (`beyond`, `low_beyond`, `high_beyond`) is true.
    """
    has_random = RANDOM in curves.accuracies
    to_random = differences(curves, test=test, confidence=confidence) if has_random else None
    to_best = differences(curves, BEST_RIVAL, test=test, confidence=confidence) or None
    saved = label_savings(curves, confidence=confidence) if has_random else None
    parts = {
        "budgets": curves.budgets,
        "strategies": curves.strategies,
        "seeds": curves.seeds,
        "settings": {
            "test": test,
            "confidence": confidence,
            "alpha": alpha,
            "power": power,
            "correction": "Holm; strategies × budgets, and strategies for the AUBC",
        },
        "accuracy": mean_curves(curves, confidence),
        "aubc": mean_aubc(curves, confidence),
        "to_random": to_random,
        "to_best_rival": to_best,
        "of_first": against_each(curves, curves.strategies[0], test=test, confidence=confidence),
        "label_savings": saved,
        "penalties": penalties(curves, alpha),
        "detectable": detectable(curves, alpha=alpha, power=power) if has_random else None,
        "notes": _notes(curves, [*(to_random or {}).values(), *(to_best or {}).values()], test),
    }
    figures: dict[str, Any] = plain(parts)
    return figures


# one array of differences


def _difference(
    curves: Curves, strategy: str, rival: str, columns: list[int], test: Test, confidence: float
) -> Difference:
    own, other = curves.pair(strategy, rival)
    per_budget = _effect(own[:, columns], other[:, columns], test, confidence)
    area = _effect(aubc(curves.budgets, own), aubc(curves.budgets, other), test, confidence)
    return Difference(strategy, rival, len(own), per_budget, area)


def _effect(own: Floats, other: Floats, test: Test, confidence: float) -> Effect:
    gaps = own - other
    mean, deviation = _moments(gaps)
    same, steady = _agreement(own, other)
    seeds = np.full(mean.shape, len(own))
    low, high = _interval(mean, np.where(steady, np.nan, deviation), seeds, confidence)
    low, high = np.where(same, 0.0, low), np.where(same, 0.0, high)
    deviation = np.where(steady & (seeds > 1), 0.0, deviation)
    p = _p_values(own, other, test)
    return Effect(mean, low, high, deviation, p, p_holm=np.full_like(p, np.nan))


def _agreement(own: Floats, other: Floats) -> tuple[Flags, Flags]:
    """Where two or more seeds have no difference at all, and where their differences are equal but for rounding."""
    gaps = own - other
    if len(gaps) < 2:
        nowhere = np.zeros(gaps.shape[1:], bool)
        return nowhere, nowhere
    largest = np.maximum(np.abs(own), np.abs(other)).max(axis=0)
    return np.asarray((gaps == 0).all(axis=0)), np.asarray(np.ptp(gaps, axis=0) <= _ROUNDING * largest)


def _p_values(own: Floats, other: Floats, test: Test) -> Floats:
    """Two-sided p-values over the first axis; 1 where nothing differs, NaN where there is nothing to go by."""
    p = np.full(own.shape[1:], np.nan)
    if len(own) < 2:
        return p
    same, steady = _agreement(own, other)
    p[same] = 1.0
    # A t statistic divides by the spread. Two runs on a small test set agree by chance now and then, so "no spread"
    # must not be taken for certainty. Ranks need no spread.
    ready = ~same if test == "wilcoxon" else ~steady
    if ready.any():
        p[ready] = _wilcoxon((own - other)[:, ready]) if test == "wilcoxon" else _t_test(own[:, ready], other[:, ready])
    return p


def _t_test(own: Floats, other: Floats) -> Floats:
    return np.asarray(stats.ttest_rel(own, other, axis=0).pvalue, np.float64)


def _wilcoxon(gaps: Floats) -> Floats:
    """Per column; rounded first, so that differences equal but for floating point are ties."""
    columns = np.round(gaps, 12).T
    return np.array([stats.wilcoxon(column[column != 0]).pvalue if column.any() else 1.0 for column in columns])


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation over the first axis of what is not NaN; NaN for none, and below two."""
    there = np.isfinite(values)
    count = there.sum(axis=0)
    mean = np.where(there, values, 0).sum(axis=0) / np.where(count > 0, count, np.nan)
    squares = (np.where(there, values - mean, 0) ** 2).sum(axis=0)
    return _settled(mean), np.asarray(np.sqrt(squares / np.where(count > 1, count - 1, np.nan)))


def _interval(mean: Floats, deviation: Floats, seeds: Any, confidence: float) -> tuple[Floats, Floats]:
    """The t interval of a mean; NaN where the deviation is."""
    reach = stats.t.isf((1 - confidence) / 2, np.maximum(seeds - 1, 1)) * deviation / np.sqrt(np.maximum(seeds, 1))
    return _settled(mean - reach), _settled(mean + reach)


def _settled(values: Any) -> Floats:
    """Without the last digits, in which processors differ: a mean of 0.2735 is printed alike by all of them."""
    return np.asarray(np.round(values, 12))


def _with_holm(found: dict[str, Difference]) -> dict[str, Difference]:
    if not found:
        return found
    budgets = holm([difference.per_budget.p for difference in found.values()])
    areas = holm([difference.aubc.p for difference in found.values()])
    return {
        name: replace(
            difference,
            per_budget=replace(difference.per_budget, p_holm=budgets[row]),
            aubc=replace(difference.aubc, p_holm=np.asarray(areas[row])),
        )
        for row, (name, difference) in enumerate(found.items())
    }


# label savings


def _savings(curves: Curves, name: str, against: str, confidence: float) -> LabelSavings:
    own, other = curves.pair(name, against)
    seeds, budgets = len(own), curves.budgets
    needed = low = high = np.full(len(budgets), np.nan)
    at_most = np.zeros(len(budgets), bool)
    if seeds:
        rival = _non_decreasing(other.mean(axis=0)[None])
        needed = _first_reached(own.mean(axis=0)[None], rival, budgets)[0]
        at_most = own.mean(axis=0) < rival[0, 0]
    if seeds > 1:
        ends = [_not_told_apart(wanted, other, budgets, confidence) for wanted in own.T]
        low, high = np.minimum([low for low, _ in ends], needed), np.maximum([high for _, high in ends], needed)
    return LabelSavings(
        name,
        against,
        seeds,
        needed=needed,
        saved=needed - budgets,
        low=low,
        high=high,
        beyond=np.isposinf(needed),
        low_beyond=np.isposinf(low),
        high_beyond=np.isposinf(high),
        at_most=at_most,
    )


def _not_told_apart(wanted: Floats, rival: Floats, budgets: Floats, confidence: float) -> tuple[float, float]:
    """The least and the most labels at which a paired t-test finds no difference of `wanted` (seeds,) to the rival.

    Between two budgets every seed's difference is a straight line, so the squared mean difference less the squared
    reach of its interval is a parabola: below 0 the test finds nothing, and the ends are its roots.
    """
    gaps = wanted[:, None] - rival
    if _agreement(np.broadcast_to(wanted[:, None], rival.shape), rival)[1].all():
        return np.nan, np.nan  # no spread at all
    seeds = len(gaps)
    mean, loose = gaps.mean(axis=0), gaps - gaps.mean(axis=0)
    share = stats.t.isf((1 - confidence) / 2, seeds - 1) ** 2 / (seeds * (seeds - 1))
    at = mean**2 - share * (loose**2).sum(axis=0)
    along = mean[:-1] * mean[1:] - share * (loose[:, :-1] * loose[:, 1:]).sum(axis=0)
    places = budgets[at <= 0].tolist()
    for left in range(len(budgets) - 1):
        start, middle, end = at[left], along[left], at[left + 1]
        for root in np.roots([start - 2 * middle + end, 2 * (middle - start), start]):
            if abs(root.imag) < 1e-6 and 0 <= root.real <= 1:  # a double root where the seeds agree
                places.append(float(budgets[left] + root.real * (budgets[left + 1] - budgets[left])))
    if not places:
        end = np.inf if mean[-1] > 0 else float(budgets[0])
        return end, end
    return min(places), np.inf if at[-1] <= 0 else max(places)


def _first_reached(wanted: Floats, curve: Floats, budgets: Floats) -> Floats:
    """The smallest budget at which each row's non-decreasing curve reaches each of the row's wanted values; or inf."""
    after = (curve[:, None, :] < wanted[:, :, None]).sum(axis=2)  # the first budget that is enough
    right = np.clip(after, 1, len(budgets) - 1) if len(budgets) > 1 else np.zeros_like(after)
    left = np.maximum(right - 1, 0)
    below, above = np.take_along_axis(curve, left, axis=1), np.take_along_axis(curve, right, axis=1)
    rise = np.where(above > below, above - below, 1)  # 1 only where the answer is replaced below
    between = budgets[left] + (wanted - below) / rise * (budgets[right] - budgets[left])
    return np.asarray(np.select([after == 0, after == len(budgets)], [budgets[0], np.inf], between))


def _non_decreasing(curves: Floats) -> Floats:
    """Isotonic regression of each row."""
    fitted = np.array(curves)
    for row in np.flatnonzero((np.diff(curves, axis=1) < 0).any(axis=1)):  # the others are their own regression
        fitted[row] = _isotonic(curves[row])
    return fitted


def _isotonic(values: Floats) -> Floats:
    if hasattr(optimize, "isotonic_regression"):  # SciPy 1.12
        return np.asarray(optimize.isotonic_regression(values).x)
    return _pool_adjacent_violators(values)


def _pool_adjacent_violators(values: Floats) -> Floats:
    """Isotonic regression: neighbours in the wrong order are replaced by their mean until none are left."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        total, size = float(value), 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / size:
            before = blocks.pop()
            total, size = total + before[0], size + before[1]
        blocks.append((total, size))
    return np.repeat([total / size for total, size in blocks], [size for _, size in blocks])


# what a report should say


def _notes(curves: Curves, found: list[Difference], test: Test) -> list[str]:
    notes = []
    if RANDOM not in curves.accuracies:
        notes.append("no strategy 'random': no differences to it, no label savings, no detectable differences")
    if len(curves.strategies) == 1:
        notes.append("one strategy only: nothing to compare it with")
    if curves.seeds == 1:
        notes.append("one seed: no intervals and no tests")
    for name in curves.strategies:
        finished = int(curves.complete(name).sum())
        if finished < curves.seeds:
            notes.append(f"{name}: {finished} of {curves.seeds} seeds finished; only those are compared")
    if curves.seeds > 1:
        notes += [note for difference in found for note in _pair_notes(difference, test)]
    return list(dict.fromkeys(notes))


def _pair_notes(difference: Difference, test: Test) -> list[str]:
    pair = f"{difference.strategy} and {difference.rival}"
    if difference.seeds < 2:
        return [f"{pair}: {difference.seeds} seeds finished by both, two are needed for a test"]
    effect = difference.per_budget
    untested = int(np.isnan(effect.p).sum())
    notes = [f"{pair}: the same difference in all seeds at {untested} budgets, which no t-test can judge"]
    low_power = [f"Wilcoxon's test cannot reach p < 0.05 with the {difference.seeds} seeds of {pair}"]
    return notes * (untested > 0) + low_power * (test == "wilcoxon" and difference.seeds < 6)


def plain(value: Any) -> Any:
    """Figures as JSON takes them: lists and dictionaries, None for what is not finite."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


# looking at what came in


def _numbers(what: str, values: Any) -> Floats:
    try:
        return np.array(values, np.float64)  # a copy: what the caller changes later does not reach us
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} must be numbers in a regular array, got {type(values).__name__}: {error}") from error


def _check_shapes(accuracies: Mapping[str, Floats], budgets: int) -> None:
    first = next(iter(accuracies))
    for name, values in accuracies.items():
        if values.ndim != 2 or values.shape[1] != budgets or not len(values):
            raise BadInput(
                f"accuracies of {name!r} must have the shape (seeds, {budgets}), a row a seed and a column a budget, "
                f"got {values.shape}"
            )
        if len(values) != len(accuracies[first]):
            raise BadInput(
                f"all strategies must have the same seeds: {first!r} has {len(accuracies[first])}, {name!r} has "
                f"{len(values)}. Fill runs that are not finished with NaN"
            )
        if np.isinf(values).any():
            raise NotFinite(f"accuracies of {name!r} hold infinity. Use NaN for runs that are not finished")


def _columns(curves: Curves, budgets: Sequence[float] | None) -> list[int]:
    if budgets is None:
        return list(range(len(curves.budgets)))
    known = {budget: column for column, budget in enumerate(curves.budgets.tolist())}
    missing = [budget for budget in budgets if budget not in known]
    if missing or not len(budgets):
        raise BadInput(f"budgets must be some of {list(known)}, got {list(budgets)}")
    return [known[budget] for budget in budgets]


def _check_share(what: str, value: float) -> None:
    if not 0 < value < 1:
        raise BadInput(f"{what} must lie between 0 and 1, got {value}")
