"""Answers that change afterwards, and oracles that are told what they were asked before."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.errors import BadInput
from ncalr.oracles import (
    LATER,
    REFUSED,
    Answers,
    Changing,
    Corrected,
    Noisy,
    Refusing,
    Remembering,
    Slow,
    Truth,
    changes,
    remind,
)
from ncalr.oracles.oracle import Tally
from ncalr.testing import oracles
from ncalr.testing.oracles import ORACLE_CHECKS, OracleCase, check_oracle

IDS = 100 + np.random.default_rng(0).permutation(200)
TRUTH = Truth(IDS, IDS % 10, 10)
NOISY = Noisy(TRUTH, "pairs(rate=1)")


def changed(oracle, ids=IDS):
    """What was changed, by id."""
    found = oracle.changes(ids)
    return dict(zip(found.ids.tolist(), found.labels.tolist(), strict=True))


def test_calls_are_counted_from_what_was_asked():
    tally = Tally([[1, 2], [2], []])
    assert tally.count(np.array([2, 1, 3, 2])).tolist() == [2, 1, 0, 2]
    assert tally.since(np.array([1, 2, 3, 4])).tolist() == [2, 2, 0, -1]
    assert tally.count(np.array([], int)).tolist() == []
    assert tally.since(np.array([3])).tolist() == [0], "a call about nothing is none"


def test_a_review_comes_some_askings_later():
    oracle = Corrected(NOISY, TRUTH, after=2)
    first, second = IDS[:3], IDS[3:5]
    assert oracle.answer(first).labels.tolist() == ((first + 1) % 10).tolist()
    assert changed(oracle) == {}
    oracle.answer(second)
    assert changed(oracle) == {}
    oracle.answer(IDS[5:6])
    assert changed(oracle) == {int(item): int(item) % 10 for item in first}
    assert changed(oracle, second) == {}
    oracle.answer(IDS[5:6])
    assert set(changed(oracle)) == {*first.tolist(), *second.tolist()}
    assert oracle.changes(first).by == "truth"


def test_a_share_is_reviewed_always_the_same_one():
    oracle = Corrected(NOISY, TRUTH, rate=0.5, after=0, seed=3)
    oracle.answer(IDS)
    assert 70 < len(changed(oracle)) < 130
    other = Corrected(NOISY, TRUTH, rate=0.5, after=0, seed=4)
    other.answer(IDS)
    assert set(changed(oracle)) != set(changed(other))
    late = set(IDS[Slow(TRUTH, 0.5, seed=3).answer(IDS).later].tolist())
    assert 25 < len(late & set(changed(oracle))) < 75, "the late ones are not the reviewed ones"


def test_changes_go_through_what_stands_before():
    inner = Corrected(NOISY, TRUTH, after=0)
    oracle = Slow(Refusing(inner, 0.3, seed=1), 0.5)
    oracle.answer(IDS)
    found = changed(oracle)
    refused = IDS[Refusing(TRUTH, 0.3, seed=1).answer(IDS).refused].tolist()
    assert {item for item, label in found.items() if label == REFUSED} == set(refused)
    assert all(label in (REFUSED, item % 10) for item, label in found.items())
    assert len(found) == 200


def test_a_reviewer_takes_back():
    oracle = Corrected(NOISY, Refusing(TRUTH, 1.0), after=0)
    oracle.answer(IDS[:2])
    assert set(changed(oracle).values()) == {REFUSED}


def test_the_two_methods_are_optional():
    assert not isinstance(TRUTH, Changing | Remembering)
    assert isinstance(Corrected(TRUTH, TRUTH), Changing)
    assert isinstance(NOISY, Remembering)
    assert len(changes(TRUTH, IDS)) == len(changes(TRUTH, [])) == 0
    remind(TRUTH, [[1], [2]])


def test_late_answers_go_on_where_they_were():
    slow = Slow(TRUTH, times=2)
    slow.remember([IDS[:2].tolist(), IDS[:1].tolist()])
    assert slow.answer(IDS[:3]).later.tolist() == [False, True, True]
    slow.remember([])
    assert slow.answer(IDS[:3]).later.all()


def test_fresh_noise_goes_on_where_it_was():
    whole = Noisy(TRUTH, "symmetric(rate=0.9)", fresh=True)
    said = [whole.answer(IDS).labels for _ in range(4)]
    again = Noisy(TRUTH, "symmetric(rate=0.9)", fresh=True)
    remind(Slow(Refusing(again, 0.0), 0.0), [IDS.tolist()] * 3)
    assert np.array_equal(again.answer(IDS).labels, said[3])
    assert not np.array_equal(said[0], said[3])


@pytest.mark.parametrize("after", [-1, 0.5, True])
def test_a_time_that_is_none(after):
    with pytest.raises(BadInput, match="after must be a whole number from 0 on"):
        Corrected(TRUTH, TRUTH, after=after)


CASES = {
    "reviewed": OracleCase(lambda: Corrected(NOISY, TRUTH, 0.5), IDS, 10),
    "taken back": OracleCase(lambda: Corrected(NOISY, Refusing(TRUTH, 0.5), after=2), IDS, 10),
    "through others": OracleCase(
        lambda: Slow(Refusing(Corrected(Noisy(TRUTH, "symmetric(rate=0.4)", fresh=True), TRUTH), 0.2), 0.5),
        IDS,
        10,
        steady=False,
    ),
}


@pytest.mark.parametrize("check", ORACLE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_oracles_that_change_conform(name, check):
    check(CASES[name])


class Spoilt:
    """Answers right; what it changes is made by a function of (ids, itself)."""

    def __init__(self, change):
        self.change, self.times = change, 0

    def answer(self, ids):
        answers = TRUTH.answer(ids)
        self.times += 1
        return answers

    def changes(self, ids):
        return self.change(np.asarray(ids), self)


def counting(ids, oracle):
    oracle.times += 1
    return Answers(ids[:0], ids[:0]) if oracle.times < 6 else Answers(ids[:1], [0] * len(ids[:1]))


SPOILT = {
    "a list": (lambda ids, oracle: [(item, 0) for item in ids], "gives Answers"),
    "strangers": (lambda ids, oracle: Answers([7], [0]), "not given"),
    "twice": (lambda ids, oracle: Answers([*ids[:1], *ids[:1]], [0] * 2 * len(ids[:1])), "several changes"),
    "no class": (lambda ids, oracle: Answers(ids, np.full(len(ids), 10)), "not a class"),
    "asked again": (counting, "differ when asked for again"),
    "by company": (lambda ids, oracle: Answers(ids, np.full(len(ids), len(ids) % 9)), "other company"),
    "in memory": (lambda ids, oracle: Answers(ids, np.full(len(ids), oracle.times)), "after a restart"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_the_suite_finds_changes_that_cannot_be(name):
    change, words = SPOILT[name]
    with pytest.raises(AssertionError, match=words):
        oracles.check_changes(OracleCase(lambda: Spoilt(change), IDS, 10))


def test_an_unspoilt_oracle_passes():
    check_oracle(lambda: Spoilt(lambda ids, oracle: Answers(ids, np.full(len(ids), LATER))), IDS, 10)


class Hasty(Corrected):
    """Takes a question about changes for a question about items."""

    def changes(self, ids):
        self.oracle.answer(ids)
        return super().changes(ids)


def test_asking_for_changes_is_not_asking():
    make = lambda: Hasty(Noisy(TRUTH, "symmetric(rate=0.9)", fresh=True), TRUTH)  # noqa: E731
    with pytest.raises(AssertionError, match="counts as asking"):
        oracles.check_changes(OracleCase(make, IDS, 10, steady=False))


class Forgetful:
    """Counts, and cannot be told."""

    def __init__(self):
        self.inner = Slow(TRUTH, times=3)

    def answer(self, ids):
        return self.inner.answer(ids)


class Adding(Slow):
    """Adds what it is told to what it knows."""

    def remember(self, askings):
        for ids in askings:
            self._tally.count(np.asarray(ids))


@pytest.mark.parametrize(
    ("make", "words"),
    [(Forgetful, "needs `remember`"), (lambda: Adding(TRUTH, times=4), "answers differently|not as a new one")],
)
def test_the_suite_finds_oracles_that_forget(make, words):
    with pytest.raises(AssertionError, match=words):
        oracles.check_remembers(OracleCase(make, IDS, 10, steady=False))
