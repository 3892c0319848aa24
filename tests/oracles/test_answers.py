"""Truth, refusals and late answers; what an answer may be."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.errors import BadInput
from ncalr.oracles import LATER, REFUSED, Answers, Noisy, Oracle, Refusing, Slow, Truth

IDS = np.random.default_rng(0).permutation(10_000)[:4000]
TRUTH = Truth(IDS, IDS % 7, 7)


def test_truth_by_hand():
    truth = Truth(["b", "a", "c"], [1, 0, 2], 3)
    assert isinstance(truth, Oracle)
    answers = truth.answer(["c", "a", "c"])
    assert (answers.labels.tolist(), answers.ids.tolist(), answers.by, len(answers)) == (
        [2, 0, 2],
        ["c", "a", "c"],
        "truth",
        3,
    )
    assert truth.answer([]).labels.tolist() == []


@pytest.mark.parametrize(
    ("ids", "labels", "classes", "words"),
    [
        ([1, 2], [0], 2, "2, one an item"),
        ([1, 2], [0, 2], 2, "0..1"),
        ([1, 2], [0, -1], 2, "got -1"),
        ([1, 1], [0, 1], 2, "must not repeat; the first that does is 1"),
        ([1.0, 2.0], [0, 1], 2, "whole numbers or texts"),
        ([[1], [2]], [0, 1], 2, "ids must be a list"),
        ([1, 2], [0, 1], 1.5, "classes must be"),
    ],
)
def test_truth_that_cannot_be(ids, labels, classes, words):
    with pytest.raises(BadInput, match=words):
        Truth(ids, labels, classes)


def test_ids_that_are_not_known():
    with pytest.raises(BadInput, match="1 of 2 ids are not known to the oracle, the first is -5"):
        TRUTH.answer([int(IDS[0]), -5])
    with pytest.raises(BadInput, match="same kind of ids"):
        TRUTH.answer(["a"])
    with pytest.raises(BadInput, match="whole numbers or texts"):
        TRUTH.answer([0.5])
    with pytest.raises(BadInput, match="knows none"):
        Truth([], [], 3).answer([1])
    small = Truth(np.array([1, 2], np.int8), [0, 1], 2)
    with pytest.raises(BadInput, match="257"):
        small.answer([257])
    with pytest.raises(BadInput, match="abcd"):
        Truth(["abc"], [0], 1).answer(["abcd"])
    large = 2**63 + np.arange(4, dtype=np.uint64)
    assert Truth(large, [0, 1, 2, 3], 4).answer(large[::-1]).labels.tolist() == [3, 2, 1, 0]


def test_answers_know_what_they_are():
    answers = Answers([5, 6, 7], [1, REFUSED, LATER], ["ann", "bob", "ann"])
    assert answers.known.tolist() == [True, False, False]
    assert answers.refused.tolist() == [False, True, False]
    assert answers.later.tolist() == [False, False, True]
    assert answers.by.tolist() == ["ann", "bob", "ann"]
    for labels, by, words in (
        ([1, 2], "", "3 ids need 3 answers"),
        ([1, 2, -3], "", "got -3"),
        ([1.0, 2.0, 3.0], "", "whole numbers"),
        ([1, 2, 3], ["ann"], "one for each of 3 ids"),
    ):
        with pytest.raises(BadInput, match=words):
            Answers([5, 6, 7], labels, by)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_a_share_is_refused_and_the_rest_is_as_before(rate):
    answers = Refusing(TRUTH, rate, seed=3).answer(IDS)
    assert abs(answers.refused.mean() - rate) <= 4 * np.sqrt(rate * (1 - rate) / 4000)
    assert np.array_equal(answers.labels[answers.known], TRUTH.labels[answers.known])
    assert answers.by == "truth"
    assert not answers.later.any()


def test_who_is_refused_depends_on_the_seed_alone():
    first, other = (Refusing(TRUTH, 0.5, seed).answer(IDS).refused for seed in (0, 1))
    assert abs(np.mean(first & other) - 0.25) < 0.04
    asked = Refusing(TRUTH, 0.5, 0).answer(IDS[100:50:-1]).refused
    assert np.array_equal(asked, first[100:50:-1])


def test_late_answers_come_when_asked_again():
    slow = Slow(TRUTH, rate=0.4, times=2, seed=1)
    said = [slow.answer(IDS) for _ in range(4)]
    assert abs(said[0].later.mean() - 0.4) < 0.04
    assert np.array_equal(said[0].later, said[1].later)
    assert np.array_equal(said[0].labels[~said[0].later], TRUTH.labels[~said[0].later])
    for answers in said[2:]:
        assert np.array_equal(answers.labels, TRUTH.labels)


def test_lateness_is_counted_by_item():
    slow = Slow(TRUTH)
    assert slow.answer(IDS[:2]).later.all()
    assert slow.answer(IDS[:4]).later.tolist() == [False, False, True, True]
    with pytest.raises(BadInput, match="not known"):
        slow.answer([IDS[5], -1])
    assert slow.answer(IDS[5:6]).later.all(), "a question that was refused does not count"
    assert not Slow(TRUTH, times=0).answer(IDS).later.any()


def test_refused_and_late_items_are_not_the_same_ones():
    refused = Refusing(TRUTH, 0.5, 0).answer(IDS).refused
    late = Slow(TRUTH, 0.5, seed=0).answer(IDS).later
    wrong = Noisy(TRUTH, "symmetric(rate=0.5)", 0).answer(IDS).labels != TRUTH.labels
    for a, b in ((refused, late), (refused, wrong), (late, wrong)):
        assert abs(np.mean(a & b) - 0.25) < 0.04


def test_they_stand_before_each_other():
    oracle = Slow(Refusing(Noisy(TRUTH, "pairs(rate=1)"), 0.3), 0.5)
    first, second = oracle.answer(IDS), oracle.answer(IDS)
    assert first.later.any()
    assert first.refused.any()
    assert first.known.any()
    assert not second.later.any()
    assert np.array_equal(second.labels[second.known], (TRUTH.labels[second.known] + 1) % 7)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan, True, "0.5", None])
@pytest.mark.parametrize("wrapper", [Refusing, Slow])
def test_rates_that_are_none(wrapper, rate):
    with pytest.raises(BadInput, match="rate must be a number from 0 to 1"):
        wrapper(TRUTH, rate)


@pytest.mark.parametrize("times", [-1, 1.5, True])
def test_times_that_are_none(times):
    with pytest.raises(BadInput, match="times must be"):
        Slow(TRUTH, times=times)
