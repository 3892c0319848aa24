"""Long tails by the paper's figure, initial pools, known and novel classes, parts of a pool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ncalr.data.pool import ArrayPool
from ncalr.data.splits import Subset, initial, known_novel
from ncalr.data.tail import long_tail, long_tail_counts
from ncalr.errors import BadInput


def test_the_papers_figure():
    counts = long_tail_counts(1300, 100, 0.05)
    assert counts.sum() == 41_454
    assert (counts[0], counts[-1]) == (1300, 65)
    assert (np.diff(counts) <= 0).all()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((10, 1, 0.1), [10]),
        ((10, 2, 0.1), [10, 1]),
        ((100, 3, 0.01), [100, 10, 1]),
        ((50, 2, 0.58), [50, 29]),
        ((7, 3, 1), [7, 7, 7]),
        ((5, 2, 0.1), [5, 0]),
    ],
)
def test_counts_by_hand(given, expected):
    assert long_tail_counts(*given).tolist() == expected


@pytest.mark.parametrize("given", [(0, 3, 0.1), (3, 0, 0.1), (3, 3, 0), (3, 3, 1.1), (3, 3, float("nan"))])
def test_tails_that_cannot_be(given):
    with pytest.raises(BadInput):
        long_tail_counts(*given)


def test_a_long_tail_keeps_what_there_is():
    labels = np.repeat([0, 1, 2], [100, 5, 50])
    kept = long_tail(labels, 0.01, seed=3)
    assert np.bincount(labels[kept]).tolist() == [100, 5, 1]
    assert (np.diff(kept) > 0).all()
    assert np.bincount(labels[long_tail(labels, 0.25, 0, largest=40)]).tolist() == [40, 5, 10]
    assert kept.tolist() == long_tail(labels, 0.01, seed=3).tolist()
    assert long_tail(labels, 0.25, 0, 40).tolist() != long_tail(labels, 0.25, 1, 40).tolist()


def test_which_items_stay_belongs_to_their_ids():
    labels, ids = np.arange(60) % 3, np.array([f"i{at}" for at in range(60)])
    kept = ids[long_tail(labels, 0.2, 5, ids=ids)]
    assert kept.tolist() == sorted(kept.tolist(), key=ids.tolist().index)
    assert set(kept) == set(ids[::-1][long_tail(labels[::-1], 0.2, 5, ids=ids[::-1])])


@given(some.lists(some.integers(0, 5), min_size=1, max_size=60), some.data())
def test_stratified_shares(labels, data):
    labels = np.array(labels)
    size = data.draw(some.integers(1, len(labels)))
    found = initial(labels, size, 7, stratified=True)
    assert len(set(found.tolist())) == len(found) == size
    there, taken = np.bincount(labels, minlength=6), np.bincount(labels[found], minlength=6)
    assert (taken <= there).all()
    if size >= (there > 0).sum():
        assert (taken[there > 0] > 0).all()


def test_initial_pools():
    plain = initial(1000, 50, 1)
    assert len(set(plain.tolist())) == 50
    assert (np.diff(plain) > 0).all()
    assert plain.tolist() == initial(np.zeros(1000, int), 50, 1).tolist()
    assert plain.tolist() != initial(1000, 50, 2).tolist()
    assert set(initial(1000, 20, 1)) < set(plain)  # a larger pool begins with the smaller one
    labels = np.repeat(np.arange(10), 100)
    assert np.bincount(labels[initial(labels, 50, 1, stratified=True)]).tolist() == [5] * 10
    extra = [np.bincount(labels[initial(labels, 15, seed, stratified=True)]) for seed in range(8)]
    assert all(sorted(counts) == [1] * 5 + [2] * 5 for counts in extra)
    assert len({tuple(counts) for counts in extra}) > 1  # not always the first classes


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ((10, 11), {}, "between 1 and 10, got size=11"),
        ((10, 0), {}, "size=0"),
        ((10, 5), {"stratified": True}, "needs the labels"),
        (([0.5, 1.0], 1), {"stratified": True}, "whole number an item"),
        (([0, -1], 1), {"stratified": True}, "leave out items without a label"),
        ((3, 1), {"ids": ["a"]}, "3 whole numbers or texts"),
    ],
)
def test_initial_pools_that_cannot_be(given, options, words):
    with pytest.raises(BadInput, match=words):
        initial(*given, **options)


def test_known_and_novel():
    known, novel = known_novel(5, 3)
    assert (known.tolist(), novel.tolist()) == ([0, 1, 2], [3, 4])
    known, novel = known_novel([str(i) for i in range(100)], 60, seed=0)
    assert sorted([*known, *novel]) == list(range(100))
    assert len(known) == 60
    assert known.tolist() != list(range(60))
    for bad in (0, 5):
        with pytest.raises(BadInput, match="between 1 and 4"):
            known_novel(5, bad)


def test_a_subset_keeps_ids():
    pool = ArrayPool(np.arange(12.0).reshape(6, 2), ids=list("abcdef"))
    part = Subset(pool, [4, 0, 2])
    assert part.ids.tolist() == ["e", "a", "c"]
    assert part.read(slice(1, None))[:, 0].tolist() == [0, 4]
    for bad, words in (
        ([6], r"0\.\.5"),
        ([-1], r"0\.\.5"),
        ([1, 1], "repeat"),
        ([], "list of whole"),
        ([0.5], "whole"),
    ):
        with pytest.raises(BadInput, match=words):
            Subset(pool, bad)


def test_draws_never_change():
    """Journals of old runs name these items: a change here is a change of every experiment."""
    assert initial(100, 5, 0).tolist() == INITIAL
    assert known_novel(10, 4, seed=0)[0].tolist() == KNOWN
    assert long_tail(np.arange(30) % 3, 0.1, 0).tolist() == TAIL


INITIAL = [15, 20, 32, 37, 83]
KNOWN = [0, 2, 5, 8]
TAIL = [0, 3, 4, 6, 9, 10, 12, 15, 16, 18, 21, 24, 26, 27]
