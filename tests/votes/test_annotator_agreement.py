"""Agreement coefficients: published examples, other implementations, missing answers, intervals over items."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from crowds import coins, crowd
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from ncalr.errors import BadInput
from ncalr.votes import Agreement, Votes, agreement, cohen, cohen_pairs, fleiss, krippendorff

steady = settings(deadline=None, derandomize=True, max_examples=60)
ALL = {"fleiss": fleiss, "krippendorff": krippendorff, "cohen": lambda votes, **more: cohen(votes, 0, 1, **more)}


def of_counts(rows: list[list[int]]) -> Votes:
    """Votes with these counts, answered by nobody in particular."""
    return Votes.from_matrix([np.repeat(np.arange(len(row)), row) for row in rows], len(rows[0]))


def slow_fleiss(table: np.ndarray) -> float:
    seen, shares = [], []
    for row in table:
        said = [c for c in row if c >= 0]
        if len(said) > 1:
            pairs = list(permutations(said, 2))
            seen.append(np.mean([a != b for a, b in pairs]))
            shares.append([said.count(c) / len(said) for c in range(4)])
    return 1 - np.mean(seen) / (1 - (np.mean(shares, axis=0) ** 2).sum())


def slow_krippendorff(table: np.ndarray) -> float:
    """By the coincidence matrix."""
    coincidences = np.zeros((4, 4))
    for row in table:
        said = [c for c in row if c >= 0]
        for a, b in permutations(said, 2):
            coincidences[a, b] += 1 / (len(said) - 1)
    named, n = coincidences.sum(axis=1), coincidences.sum()
    expected = sum(named[a] * named[b] for a in range(4) for b in range(4) if a != b) / (n - 1)
    return 1 - (n - np.trace(coincidences)) / expected


# -- values ---------------------------------------------------------------------------------------------------


def test_the_example_of_krippendorff() -> None:
    """Computing Krippendorff's alpha-reliability (2011), section C: four observers, missing data, alpha = 0.743."""
    gap = -1
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, gap, gap, gap],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, gap, 3],
        [gap, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, gap],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, gap],
    ]
    found = krippendorff(Votes.from_matrix(np.transpose(observers), 6))
    assert found.value == pytest.approx(0.743, abs=5e-4)
    assert found.items == 11
    assert found.low < found.value < found.high


def test_a_worked_example_of_fleiss() -> None:
    """Ten subjects, fourteen raters, five categories: P = 0.378, P_e = 0.213, kappa = 0.210."""
    rows = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    assert fleiss(of_counts(rows)).value == pytest.approx(0.210, abs=5e-4)


def test_cohen_by_hand() -> None:
    """45 both 0, 15 and 25 apart, 15 both 1: seen 0.6, by chance 0.6 x 0.7 + 0.4 x 0.3 = 0.54."""
    first = np.repeat([0, 0, 1, 1], [45, 15, 25, 15])
    second = np.repeat([0, 1, 0, 1], [45, 15, 25, 15])
    found = cohen(Votes.from_matrix(np.stack([first, second], axis=1), 2), 0, 1)
    assert found.value == pytest.approx((0.6 - 0.54) / (1 - 0.54))
    assert found.items == 100


@given(st.integers(0, 10_000), st.integers(2, 30), st.sampled_from([0.0, 0.3, 0.7]))
@steady
def test_against_slow_definitions_with_missing_answers(seed: int, n: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((n, 4)) < missing, -1, rng.integers(0, 4, (n, 4)))
    table[0] = [0, 1, 1, 2]  # something to compare, always
    votes = Votes.from_matrix(table, 4)
    assert fleiss(votes, draws=1).value == pytest.approx(slow_fleiss(table))
    assert krippendorff(votes, draws=1).value == pytest.approx(slow_krippendorff(table))


@given(st.integers(0, 10_000), st.integers(3, 40))
@steady
def test_cohen_is_that_of_scikit_learn(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(-1, 3, (n, 2))
    table[:2] = [[0, 1], [1, 1]]
    both = table[(table >= 0).all(axis=1)]
    found = cohen(Votes.from_matrix(table, 3, annotators=["a", "b"]), "a", "b", draws=1)
    assert found.value == pytest.approx(cohen_kappa_score(both[:, 0], both[:, 1]))
    assert found.items == len(both)


def test_pairs_are_those_who_met() -> None:
    votes = Votes.from_matrix(
        [[0, 0, -1, -1], [1, 0, -1, -1], [-1, 1, 1, -1], [-1, 0, 1, -1], [-1, -1, -1, 0]], 2, annotators=list("abcd")
    )
    found = cohen_pairs(votes)
    assert set(found) == {("a", "b"), ("b", "c")}
    assert found["a", "b"] == cohen(votes, "a", "b")
    assert cohen_pairs(Votes.from_matrix([[0, -1]], 2)) == {}


def test_a_second_answer_of_the_same_person_is_no_second_opinion() -> None:
    once = Votes.from_long([0, 0, 1, 1], list("abab"), [1, 1, 0, 1], 2)
    twice = Votes.from_long([0, 0, 0, 1, 1, 2, 2], list("aababaa"), [0, 1, 1, 0, 1, 0, 0], 2)
    for measure in (fleiss, krippendorff, lambda votes: cohen(votes, "a", "b")):
        assert measure(twice) == measure(once)
        assert measure(once).items == 2


# -- edges ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ALL)
def test_two_who_always_disagree(measure: str) -> None:
    first = np.arange(40) % 2
    found = ALL[measure](Votes.from_matrix(np.stack([first, 1 - first], axis=1), 2))
    assert found.value == pytest.approx(-1, abs=0.03)
    assert found.low <= found.value <= found.high < -0.7


@pytest.mark.parametrize("measure", ALL)
def test_perfect_agreement_is_one_with_room_below(measure: str) -> None:
    """All replicates would be 1; the end is where 30 items would all agree with probability 2.5 %."""
    first = np.arange(30) % 3
    found = ALL[measure](Votes.from_matrix(np.stack([first, first], axis=1), 3))
    assert (found.value, found.high) == (1, 1)
    chance = {"krippendorff": 3 * 20 * 19 / (60 * 59)}.get(measure, 1 / 3)
    assert found.low == pytest.approx(1 - (1 - 0.025 ** (1 / 30)) / (1 - chance))


@pytest.mark.parametrize("measure", ALL)
@pytest.mark.parametrize(
    ("table", "items"),
    [([[1, 1]] * 5, 5), ([[0, -1], [-1, 1]], 0), ([[-1, -1]], 0)],
    ids=["one class", "alone", "none"],
)
def test_nothing_to_compare_is_nan(measure: str, table: list, items: int) -> None:
    found = ALL[measure](Votes.from_matrix(table, 2))
    assert np.isnan([found.value, found.low, found.high]).all()
    assert found.items == items


def test_one_item_and_one_annotator() -> None:
    assert np.isnan(fleiss(Votes.from_matrix([[0], [1]], 2)).value)
    lone = fleiss(Votes.from_matrix([[0, 1, 1]], 2))
    assert lone.value == pytest.approx(1 - (2 / 3) / (4 / 9))
    assert lone.low == lone.high == lone.value  # a resample of one item is that item


def test_cohen_of_strangers_and_of_oneself() -> None:
    votes = Votes.from_matrix([[0, 1]], 2, annotators=["a", "b"])
    with pytest.raises(BadInput, match="annotator 'c' was never seen"):
        cohen(votes, "a", "c")
    with pytest.raises(BadInput, match="agreement is between two annotators, got 'a' twice"):
        cohen(votes, "a", "a")


@pytest.mark.parametrize("options", [{"level": 1.0}, {"level": 95}, {"draws": 0}])
def test_intervals_that_are_none(options: dict) -> None:
    with pytest.raises(BadInput, match=next(iter(options))):
        fleiss(Votes.from_matrix([[0, 1]], 2), **options)


# -- intervals ------------------------------------------------------------------------------------------------


def test_the_bootstrap_is_that_over_items() -> None:
    """Against resampling the rows of the table one by one."""
    rng = np.random.default_rng(0)
    votes, _ = crowd(rng, 120, coins([0.8, 0.7, 0.9], 4), answers=2)
    table = np.full((120, 3), -1)
    table[votes.item, votes.annotator] = votes.label
    slow = [slow_fleiss(table[rng.integers(0, 120, 120)]) for _ in range(600)]
    found = fleiss(votes, draws=4000)
    np.testing.assert_allclose([found.low, found.high], np.quantile(slow, [0.025, 0.975]), atol=0.03)
    slow = [slow_krippendorff(table[rng.integers(0, 120, 120)]) for _ in range(600)]
    found = krippendorff(votes, draws=4000)
    np.testing.assert_allclose([found.low, found.high], np.quantile(slow, [0.025, 0.975]), atol=0.03)


def test_seeds_levels_and_drawing_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, _ = crowd(np.random.default_rng(1), 80, coins([0.8, 0.7, 0.9], 3))
    found = fleiss(votes, seed=4)
    assert found == fleiss(votes, seed=4)
    assert found != fleiss(votes, seed=5)
    narrow = fleiss(votes, seed=4, level=0.5)
    assert found.low < narrow.low < found.value < narrow.high < found.high
    monkeypatch.setattr(agreement, "_DRAWN_AT_ONCE", 500)
    parts = fleiss(votes, seed=4)
    assert isinstance(parts, Agreement)
    np.testing.assert_allclose([parts.low, parts.high], [found.low, found.high], atol=1e-12)


@pytest.mark.parametrize("measure", ALL)
def test_the_interval_covers_the_value_of_the_population(measure: str) -> None:
    """What 100,000 items have; 100 samples of 150 items."""
    confusion = coins([0.85, 0.75], 3)
    rng = np.random.default_rng(2)
    population = ALL[measure](crowd(rng, 100_000, confusion)[0], draws=1).value
    inside = 0
    for _ in range(100):
        found = ALL[measure](crowd(rng, 150, confusion)[0], draws=300)
        inside += found.low <= population <= found.high
    assert 88 <= inside <= 99


def test_resamples_that_drew_one_class_alone_are_left_out() -> None:
    found = fleiss(Votes.from_matrix([[0, 1], *[[0, 0]] * 4], 2), draws=500)
    assert np.isfinite([found.low, found.high]).all()
