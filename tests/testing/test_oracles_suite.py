"""The built-in oracles through the oracles' conformance suite; and every check finds what it is there for."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.errors import BadInput
from ncalr.oracles import Answers, Noisy, Refusing, Slow, Truth
from ncalr.testing import oracles
from ncalr.testing.oracles import ORACLE_CHECKS, OracleCase, check_oracle

IDS = 100 + np.random.default_rng(0).permutation(200)
LABELS = np.arange(200) % 10
NAMES = [f"item-{place}" for place in IDS]
FEATURES = np.random.default_rng(1).standard_normal((200, 8))


def truth():
    return Truth(IDS, LABELS, 10)


def noisy(spec, **more):
    return lambda: Noisy(truth(), spec, seed=1, **more)


def case(make, ids=IDS, **facts):
    return OracleCase(make, ids, 10, **facts)


CASES = {
    "truth": case(truth),
    "texts": case(lambda: Truth(NAMES, LABELS, 10), NAMES),
    "symmetric": case(noisy("symmetric(rate=0.4)")),
    "coin": case(noisy("symmetric(rate=0.4, exact=false, inclusive=true)")),
    "cifar10": case(noisy("asymmetric_cifar10(rate=0.4)")),
    "instance": case(noisy("instance(rate=0.4)", features=FEATURES)),
    "confusion": case(noisy("confusion", matrix=np.full((10, 10), 0.1))),
    "given": case(noisy("given", given=LABELS[::-1])),
    "fresh": case(noisy("symmetric(rate=0.4)", fresh=True), steady=False),
    "fresh texts": case(
        lambda: Noisy(Truth(NAMES, LABELS, 10), "pairs(rate=0.5)", fresh=True), ids=NAMES, steady=False
    ),
    "refusing": case(lambda: Refusing(truth(), 0.4)),
    "refusing texts": case(lambda: Refusing(Truth(NAMES, LABELS, 10), 0.4), ids=NAMES),
    "slow": case(lambda: Slow(truth(), 0.5, times=2), steady=False),
    "all of it": case(
        lambda: Slow(Refusing(Noisy(truth(), "symmetric(rate=0.4)", fresh=True), 0.2), 0.5), steady=False
    ),
}


@pytest.mark.parametrize("check", ORACLE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_oracle_conforms(name, check):
    check(CASES[name])


class Spoilt:
    """An oracle that is right but for what a function makes of (ids, labels, itself)."""

    def __init__(self, spoil):
        self.spoil, self.right, self.calls, self.seen = spoil, truth(), 0, []

    def answer(self, ids):
        answers = self.right.answer(ids)
        spoilt = self.spoil(answers, self)
        self.calls += 1
        self.seen += answers.ids.tolist()
        return spoilt


def relabelled(change):
    return lambda answers, oracle: Answers(answers.ids, change(answers, oracle), "me")


def floating(answers, oracle):
    object.__setattr__(answers, "labels", answers.labels.astype(np.int32))
    return answers


def remembered(answers, oracle):
    oracle.memory = getattr(oracle, "memory", {})
    return oracle.memory.setdefault(tuple(answers.ids.tolist()), answers)


def each_place(answers, oracle):
    """Another answer where an id stands in a call for the second time."""
    seen, labels = set(), answers.labels.copy()
    for place, item in enumerate(answers.ids.tolist()):
        labels[place] = (labels[place] + (item in seen)) % 10
        seen.add(item)
    return labels


def by_count(answers, oracle):
    """Another answer for each time an id was seen, each place in a call counting."""
    return (answers.labels + [oracle.seen.count(item) for item in answers.ids.tolist()]) % 10


SPOILT = {
    "tuples": (lambda answers, oracle: (answers.ids, answers.labels), "check_aligned"),
    "sorted": (lambda answers, oracle: oracle.right.answer(np.sort(answers.ids)), "check_aligned"),
    "unique": (lambda answers, oracle: oracle.right.answer(np.unique(answers.ids)), "check_repeated"),
    "int32": (floating, "check_aligned"),
    "other classes": (relabelled(lambda answers, oracle: answers.labels + 1), "check_labels"),
    "new mind": (relabelled(lambda answers, oracle: (answers.labels + oracle.calls) % 10), "check_twice"),
    "unseeded": (
        relabelled(lambda answers, oracle: np.random.default_rng().integers(0, 10, len(answers))),
        "check_twice",
    ),
    "by place": (relabelled(lambda answers, oracle: np.arange(len(answers)) % 10), "check_order"),
    "by call": (relabelled(lambda answers, oracle: (answers.labels + (oracle.calls > 3)) % 10), "check_order"),
    "by company": (relabelled(lambda answers, oracle: (answers.labels + len(answers)) % 10), "check_subset"),
    "each place": (relabelled(each_place), "check_repeated"),
    "kept": (remembered, "check_untouched"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_the_suite_finds_what_is_wrong(name):
    spoil, check = SPOILT[name]
    with pytest.raises(AssertionError):
        getattr(oracles, check)(case(lambda: Spoilt(spoil)))
    with pytest.raises(AssertionError):
        check_oracle(lambda: Spoilt(spoil), IDS, 10)


def test_an_unspoilt_oracle_passes():
    check_oracle(lambda: Spoilt(lambda answers, oracle: answers), IDS, 10)


def test_a_place_is_not_an_asking():
    with pytest.raises(AssertionError, match="several askings"):
        oracles.check_repeated(case(lambda: Spoilt(relabelled(by_count)), steady=False))


def test_an_oracle_that_is_steady_after_all():
    with pytest.raises(AssertionError, match="say so in the case"):
        oracles.check_twice(case(truth, steady=False))


class Lax:
    """Does with unknown ids what it is told to; everything else right."""

    def __init__(self, stranger):
        self.stranger, self.right, self.calls = stranger, truth(), 0

    def answer(self, ids):
        self.calls += 1
        try:
            return self.right.answer(ids)
        except BadInput:
            return self.stranger(ids)


def raises(error):
    def do(ids):
        raise error

    return do


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (lambda ids: Answers(ids, np.zeros(len(ids), int)), "was answered"),
        (raises(KeyError("300")), "expected BadInput, got KeyError"),
        (raises(BadInput("no")), "does not name 300"),
    ],
)
def test_unknown_ids_must_be_refused_by_name(stranger, words):
    with pytest.raises(AssertionError, match=words):
        oracles.check_unknown(case(lambda: Lax(stranger)))


class Hasty(Slow):
    """Counts an asking before it knows whether it can answer."""

    def answer(self, ids):
        self._tally.count(np.asarray(ids))
        return super().answer(ids)


def test_a_refused_question_does_not_count():
    with pytest.raises(AssertionError, match="changed later answers"):
        oracles.check_unknown(case(lambda: Hasty(truth(), times=3), steady=False))


class Picky:
    """Wants arrays, and at least one id; or writes to them."""

    def __init__(self, fault):
        self.fault, self.right = fault, truth()

    def answer(self, ids):
        answers = self.right.answer(ids)
        if self.fault == "lists" and isinstance(ids, list):
            return Answers(ids, 9 - answers.labels)
        if self.fault == "empty" and not len(ids):
            return Answers([100], [0])
        if self.fault == "writes":
            ids[::-1].sort()
        return answers


@pytest.mark.parametrize(
    ("fault", "check"), [("lists", "check_lists"), ("empty", "check_empty"), ("writes", "check_untouched")]
)
def test_lists_nothing_and_writing(fault, check):
    with pytest.raises(AssertionError):
        getattr(oracles, check)(case(lambda: Picky(fault)))
