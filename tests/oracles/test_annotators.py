"""Several annotators behind one oracle, and oracles named in an experiment's text."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.data import ArrayPool
from ncalr.errors import BadInput, UnknownName
from ncalr.oracles import LATER, REFUSED, Annotators, Noisy, Refusing, Slow, Truth, oracle_of
from ncalr.testing.oracles import ORACLE_CHECKS, OracleCase

IDS = 100 + np.random.default_rng(0).permutation(60)
TRUTH = Truth(IDS, IDS % 5, 5)
SAID = {"ann": IDS % 5, "bob": (IDS + 1) % 5, "cid": (IDS + 2) % 5}


class Noting:
    """An oracle that notes what it is asked and told."""

    def __init__(self):
        self.asked, self.told = [], None

    def answer(self, ids):
        self.asked.append(np.asarray(ids).tolist())
        return TRUTH.answer(ids)

    def remember(self, askings):
        self.told = [np.asarray(ids).tolist() for ids in askings]


def several():
    return Annotators.of_labels(IDS, SAID, 5)


def test_the_nth_question_about_an_item_gets_the_nth_annotator():
    oracle = several()
    first = oracle.answer(IDS[:3])
    assert first.labels.tolist() == (IDS[:3] % 5).tolist()
    assert first.by.tolist() == ["ann"] * 3
    mixed = oracle.answer(IDS[1:5])
    assert mixed.by.tolist() == ["bob", "bob", "ann", "ann"]
    assert mixed.labels.tolist() == [*((IDS[1:3] + 1) % 5), *(IDS[3:5] % 5)]


def test_asked_once_more_than_there_are_annotators_it_refuses():
    oracle = several()
    for _ in range(3):
        assert oracle.answer(IDS[:1]).known.all()
    for _ in range(2):
        last = oracle.answer([IDS[0], IDS[1]])
    assert last.labels[0] == REFUSED
    assert last.by.tolist() == ["", "bob"]


def test_an_annotator_may_refuse_and_one_who_is_late_is_passed_over():
    oracle = Annotators({"slow": Slow(TRUTH), "shy": Refusing(TRUTH, 1.0), "ann": TRUTH})
    assert [oracle.answer(IDS[:1]).labels.item() for _ in range(3)] == [LATER, REFUSED, IDS[0] % 5]


def test_each_is_reminded_of_what_came_to_him():
    one, two = Noting(), Noting()
    Annotators({"one": one, "two": two}).remember([[100, 101], [101, 102], [101], [102]])
    assert one.told == [[100, 101], [102]]
    assert two.told == [[101], [102]]


def test_nobody_is_asked_about_a_stranger():
    one, two = Noting(), Noting()
    oracle = Annotators({"one": one, "two": two})
    oracle.answer([100])
    one.asked.clear()
    with pytest.raises(BadInput, match="999"):
        oracle.answer([100, 999])
    assert two.asked == []


def test_no_annotators():
    with pytest.raises(BadInput, match="no annotators"):
        Annotators({})


CASES = {
    "labels": OracleCase(several, IDS, 5, steady=False),
    "texts": OracleCase(
        lambda: Annotators.of_labels([f"i{i}" for i in IDS], SAID, 5), [f"i{i}" for i in IDS], 5, steady=False
    ),
    "oracles": OracleCase(
        lambda: Annotators({"a": Noisy(TRUTH, "symmetric(rate=0.5)", fresh=True), "b": Slow(TRUTH, 0.5)}), IDS, 5, False
    ),
    "refusing": OracleCase(lambda: Refusing(several(), 0.3), IDS, 5, steady=False),
}


@pytest.mark.parametrize("check", ORACLE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_annotators_conform(name, check):
    check(CASES[name])


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "people.npz", short=[0, 1], odd=np.full(60, 7), **{n: np.int8(s) for n, s in SAID.items()})
    return tmp_path


def test_annotators_from_a_file(file, monkeypatch):
    oracle = oracle_of("annotators(file='people.npz', labels=[bob, cid])", TRUTH, root=file)
    said = [oracle.answer(IDS) for _ in range(2)]
    assert [s.by[0] for s in said] == ["bob", "cid"]
    assert np.array_equal(said[0].labels, SAID["bob"])
    assert np.array_equal(said[1].labels, SAID["cid"])
    monkeypatch.setenv("NCALR_DATA", str(file))
    alone = oracle_of("annotators(file='people.npz', labels=ann)", TRUTH)
    assert np.array_equal(alone.answer(IDS).labels, SAID["ann"])


def test_given_labels_from_a_file(file):
    oracle = oracle_of(f"given(file='{file / 'people.npz'}', labels=cid)", TRUTH)
    assert [np.array_equal(oracle.answer(IDS).labels, SAID["cid"]) for _ in range(2)] == [True, True]


def test_other_texts_are_noise_and_none_is_the_truth():
    assert oracle_of("", TRUTH) is TRUTH
    noisy = oracle_of("pairs(rate=1)", TRUTH, 3)
    assert np.array_equal(noisy.answer(IDS).labels, (IDS + 1) % 5)
    assert noisy.seed == 3


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("annotators(file='other.npz', labels=ann)", BadInput, "no labels in .*other.npz"),
        ("annotators(file='people.npz', labels=[ann, bop])", UnknownName, "people.npz called 'bop'.*'bob'"),
        ("annotators(file='people.npz', labels=short)", BadInput, "short in people.npz has 2 rows and the pool 60"),
        ("annotators(file='people.npz', labels=odd)", BadInput, "odd in people.npz must lie in 0..4"),
        ("annotators(file='people.npz', label=ann)", UnknownName, "called 'label'.*'labels'"),
        ("annotators(labels=ann)", BadInput, r"needs a file and the names of arrays .*\[ann, bob\]"),
        ("annotators(file='people.npz', labels=[])", BadInput, "needs a file"),
        ("given(file='people.npz', labels=[ann, bob])", BadInput, "names of one array"),
        ("symetric(rate=0.2)", UnknownName, "'symmetric'"),
    ],
)
def test_texts_that_name_no_oracle(file, text, error, words):
    with pytest.raises(error, match=words):
        oracle_of(text, TRUTH, root=file)


def test_a_confusion_as_text_and_from_a_file(tmp_path):
    truth = Truth(np.arange(500), np.arange(500) % 3, 3)
    matrix = np.eye(3)[[1, 2, 0]]
    wanted = Noisy(truth, "confusion", 4, matrix=matrix).labels
    np.save(tmp_path / "m.npy", matrix)
    for text in ("confusion(matrix=[[0, 1, 0], [0, 0, 1], [1, 0, 0]])", "confusion(file='m.npy')"):
        assert np.array_equal(oracle_of(text, truth, 4, tmp_path).labels, wanted)
    with pytest.raises(BadInput, match=r"write confusion\(matrix=.*confusion\(file='matrix.npy'\)"):
        oracle_of("confusion", truth)
    with pytest.raises(BadInput, match=r"none\.npy; expected a matrix"):
        oracle_of("confusion(file='none.npy')", truth, 0, tmp_path)
    with pytest.raises(BadInput, match="matrix must be 3 rows of 3 probabilities, got 'word'"):
        oracle_of("confusion(matrix=word)", truth)
    with pytest.raises(UnknownName, match="'labels'"):
        oracle_of("confusion(file='m.npy', labels=x)", truth, 0, tmp_path)


def test_noise_by_the_items_takes_them_from_the_pool():
    items = np.random.default_rng(0).normal(size=(300, 4))
    truth = Truth(np.arange(300), np.arange(300) % 3, 3)
    found = oracle_of("instance(rate=0.3)", truth, 1, pool=ArrayPool(items)).labels
    assert 0.15 < (found != truth.labels).mean() < 0.45


DRAWN = [
    "symmetric(rate=0.4)",
    "pairs(rate=0.4)",
    "instance(rate=0.4)",
    "confusion(matrix=[[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])",
    "confusion(file='m.npy')",
]


@pytest.mark.parametrize("text", DRAWN)
def test_drawn_noise_of_several_people(tmp_path, text):
    """The first says what a single one says, the others something else, each as often wrong and by himself."""
    np.save(tmp_path / "m.npy", np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    ids = np.arange(3000)
    truth, pool = Truth(ids, ids % 3, 3), ArrayPool(np.random.default_rng(0).normal(size=(3000, 4)))
    for seed in (7, [7, 1]):
        single = oracle_of(text, truth, seed, tmp_path, pool).labels
        several, again = (oracle_of(text, truth, seed, tmp_path, pool, people=3) for _ in range(2))
        said = [several.answer(ids) for _ in range(4)]
        assert [one.by[0] for one in said[:3]] == ["person 1", "person 2", "person 3"]
        assert np.array_equal(said[0].labels, single)
        assert said[3].refused.all()
        assert all(np.array_equal(one.labels, again.answer(ids).labels) for one in said)
        wrong = np.array([one.labels != truth.labels for one in said[:3]])
        assert wrong.mean(axis=1) == pytest.approx(0.4, abs=0.06)
        for one, other in ((0, 1), (0, 2), (1, 2)):
            both = (wrong[one] & wrong[other]).mean()
            assert both == pytest.approx(wrong[one].mean() * wrong[other].mean(), abs=0.03)
    other = oracle_of(text, truth, 8, tmp_path, pool, people=3)
    assert not any(np.array_equal(other.answer(ids).labels, one.labels) for one in said[:3])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the truth .no noise. has one answer an item, and the policy asks up to 3 times"),
        ("given(file='people.npz', labels=cid)", r"given\(file=.* has one answer an item"),
        ("annotators(file='people.npz', labels=ann)", r"Take annotators\(file='labels.npz', labels=\[ann, bob\]\)"),
    ],
)
def test_one_answer_is_no_second_opinion(file, text, words):
    assert oracle_of(text, TRUTH, root=file)
    with pytest.raises(BadInput, match=words):
        oracle_of(text, TRUTH, root=file, people=3)


def test_people_of_a_file_are_as_many_as_they_are(file):
    oracle = oracle_of("annotators(file='people.npz', labels=[bob, cid])", TRUTH, root=file, people=3)
    assert list(oracle.oracles) == ["bob", "cid"]
