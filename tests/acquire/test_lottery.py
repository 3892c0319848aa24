"""Random numbers that belong to the item: not to its place, its array or its shard."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gumbel_r, kstest

from ncalr.acquire.door import Positions
from ncalr.acquire.lottery import Lottery, mix, mix_all

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=6)
IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20, unique=True).map(
        lambda x: np.array(x, np.int64)
    ),
    st.lists(TEXTS, min_size=1, max_size=20, unique=True).map(np.array),
)


@given(IDS, st.integers(0, 2**64), st.randoms(use_true_random=False))
def test_a_permutation_of_ids_permutes_everything(ids, seed, random):
    order = np.array(random.sample(range(len(ids)), len(ids)))
    plain, moved = Lottery(seed, ids), Lottery(seed, ids[order])
    assert moved.keys().tolist() == plain.keys()[order].tolist()
    assert moved.uniform(3).tolist() == plain.uniform(3)[order].tolist()
    assert moved.gumbel(3).tolist() == plain.gumbel(3)[order].tolist()


@given(IDS, st.integers(0, 100))
def test_an_item_keeps_its_numbers_in_any_part(ids, seed):
    whole = Lottery(seed, ids)
    rows = np.arange(len(ids))[::2]
    assert whole.at(rows).keys().tolist() == whole.keys()[rows].tolist() == whole.keys(rows).tolist()
    assert whole.at(rows).uniform(7).tolist() == whole.uniform(7)[rows].tolist()
    assert whole.at(rows).draw(7) == whole.draw(7)
    assert whole.at(slice(0, 3)).keys().tolist() == whole.keys()[:3].tolist()


def test_a_part_may_be_empty():
    assert Lottery(0, np.arange(3)).at(np.array([], int)).keys().tolist() == []


def test_a_part_of_texts_may_be_empty():
    assert Lottery(0, np.array(["a", "b"])).at(np.array([], int)).keys().tolist() == []


@pytest.mark.parametrize("rows", [np.array([True, False, True]), [-1]])
def test_positions_take_masks_and_negative_rows_like_an_array(rows):
    assert Lottery(0, Positions(3)).at(rows).keys().tolist() == Lottery(0, np.arange(3)).at(rows).keys().tolist()


@given(st.lists(TEXTS, min_size=1, max_size=9, unique=True), st.integers(7, 40))
def test_the_width_of_the_array_is_no_part_of_a_text(texts, width):
    narrow, wide = np.array(texts), np.array(texts, f"U{width}")
    assert Lottery(1, narrow).keys().tolist() == Lottery(1, wide).keys().tolist()
    alone = [Lottery(1, np.array([text])).keys()[0] for text in texts]
    assert Lottery(1, narrow).keys().tolist() == alone


def test_texts_differ_in_order_and_length():
    texts = np.array(["", "a", "b", "ab", "ba", "aa", "aaa", "abc", "acb"])
    assert len(set(Lottery(0, texts).keys().tolist())) == 9
    no_letters = np.ndarray((1,), "U0")
    assert Lottery(0, no_letters).keys().tolist() == Lottery(0, np.array([""])).keys().tolist()


def test_texts_seen_through_a_stride():
    texts = np.array(["a", "b", "c", "d"])
    assert Lottery(0, texts[::2]).keys().tolist() == Lottery(0, np.array(["a", "c"])).keys().tolist()


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.uint64])
def test_the_width_of_a_number_does_not_matter(kind):
    ids = np.arange(100)
    assert Lottery(0, ids.astype(kind)).keys().tolist() == Lottery(0, ids).keys().tolist()


def test_positions_stand_for_their_numbers():
    standing, plain = Lottery(4, Positions(9)), Lottery(4, np.arange(9))
    assert standing.keys().tolist() == plain.keys().tolist()
    for rows in (slice(None), slice(2, 5), slice(None, None, 3), [3, 1], np.array([8, 0])):
        assert standing.at(rows).keys().tolist() == plain.at(rows).keys().tolist()
        assert standing.keys(rows).tolist() == plain.keys(rows).tolist()
    assert standing.joined(3).keys().tolist() == plain.joined(3).keys().tolist()
    assert len(Positions(9)) == 9


def test_joined_items_keep_their_numbers_and_the_others_get_some():
    for ids in (np.arange(20), np.array([f"x{i}" for i in range(20)])):
        plain = Lottery(5, ids)
        longer = plain.joined(30)
        assert longer.keys()[:20].tolist() == plain.keys().tolist()
        assert longer.uniform(2)[:20].tolist() == plain.uniform(2).tolist()
        assert len(set(longer.keys().tolist())) == 50
        assert plain.joined(0).keys().tolist() == plain.keys().tolist()


def test_seeds_and_rounds_and_purposes_are_independent():
    ids = np.arange(4000)
    draws = [Lottery(0, ids).uniform(0), Lottery(1, ids).uniform(0), Lottery([0, 1], ids).uniform(0)]
    draws += [Lottery([1, 0], ids).uniform(0), Lottery(0, ids).uniform(1), Lottery(0, ids).uniform(2)]
    table = np.corrcoef(draws)
    assert np.abs(table[~np.eye(6, dtype=bool)]).max() < 0.06


def test_one_number_and_a_list_of_it_are_one_seed():
    ids = np.arange(5)
    assert Lottery(3, ids).keys().tolist() == Lottery([3], ids).keys().tolist()
    assert Lottery((3, 4), ids).keys().tolist() == Lottery([3, 4], ids).keys().tolist()
    assert Lottery(-1, ids).keys().tolist() != Lottery(1, ids).keys().tolist()


@pytest.mark.parametrize("ids", [np.arange(20_000), np.array([f"item-{i}" for i in range(20_000)])])
@pytest.mark.parametrize("seed", [0, 1, [2, 9]])
def test_uniform_is_uniform(ids, seed):
    lottery = Lottery(seed, ids)
    for purpose in (0, 1, 1000):
        draws = lottery.uniform(purpose)
        assert 0 < draws.min() <= draws.max() < 1
        assert kstest(draws, "uniform").pvalue > 1e-3


def test_uniform_over_seeds_for_one_item():
    draws = [Lottery(seed, np.array([12])).uniform(0)[0] for seed in range(5000)]
    assert kstest(draws, "uniform").pvalue > 1e-3


def test_gumbel_is_gumbel():
    assert kstest(Lottery(0, np.arange(20_000)).gumbel(1), gumbel_r.cdf).pvalue > 1e-3


def test_the_mixing_is_splitmix64():
    """The first outputs of the published generator seeded with 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    state, gamma = 1234567, 0x9E3779B97F4A7C15
    states = [(state + i * gamma) % 2**64 for i in range(4)]
    assert [mix(x) for x in states] == published
    assert mix_all(np.array(states, np.uint64)).tolist() == published


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_both_mixings_agree(words):
    assert mix_all(np.array(words, np.uint64)).tolist() == [mix(word) for word in words]
