"""Tallies: the best k whatever the cuts, and however they are merged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.acquire.lottery import Lottery
from ncalr.engine.tally import GROUPS, Tally, small_whole


def tally_of(values, rows, k, group=None, bars=None):
    """The tally of some rows of a pool."""
    tally = Tally(k, GROUPS if group is not None else 1, np.zeros(0) if bars is None else bars)
    tally.names = ("value",)
    keys = Lottery(3, rows).keys
    tally.add(values[rows], None if group is None else group[rows], keys, rows, [values[rows]])
    return tally


def reference(values, k):
    """By the book: falling value, then the lottery."""
    keys = Lottery(3, np.arange(len(values))).keys()
    return sorted(range(len(values)), key=lambda at: (-values[at], keys[at]))[:k]


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 20), st.integers(1, 7), st.booleans())
def test_any_number_of_shards(numbers, k, shards, hint):
    values = np.array(numbers, np.float32)
    whole = Tally(k)
    for rows in np.array_split(np.arange(len(values)), shards):
        bars = whole.bars if hint and whole.settled else None
        part = tally_of(values, rows, k, bars=bars)
        part.settle()
        whole.merge(part)
        whole.settle()
    assert whole.position[whole.best()].tolist() == reference(values, k)
    assert len(whole.value) == min(k, len(values))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60), st.integers(1, 9))
def test_groups_hold_the_best_of_each(pairs, k):
    values, group = np.array(pairs, np.float32).T
    group = small_whole(group)
    whole = Tally(k, GROUPS)
    for rows in np.array_split(np.arange(len(values)), 3):
        whole.merge(tally_of(values, rows, k, group))
    whole.settle()
    for g in range(4):
        mine = np.flatnonzero(group == g)
        expected = [int(mine[at]) for at in _order(values[mine], mine)[:k]]
        assert whole.position[whole.group == g].tolist() == expected
        full = len(mine) >= k
        assert whole.bars[g] == (values[expected[-1]] if full else -np.inf)


def _order(values, ids):
    keys = Lottery(3, ids).keys()
    return sorted(range(len(values)), key=lambda at: (-values[at], keys[at]))


def test_ten_thousand_shards_are_one():
    """The merge of the page of arithmetic: each shard gives its candidates, and the bars keep most of them at home."""
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=200_000), 3).astype(np.float32)
    whole, sent = Tally(100), 0
    for rows in np.array_split(np.arange(len(values)), 10_000):
        part = tally_of(values, rows, 100, bars=whole.bars.copy())
        part.settle()
        sent += len(part.value)
        whole.merge(part)
        if len(whole.value) - whole.settled > 100:
            whole.settle()
    whole.settle()
    assert whole.position[whole.best()].tolist() == reference(values, 100)
    assert sent < 3_000


@pytest.mark.parametrize(
    ("values", "whole"),
    [([0.0, 3.0], True), ([0.5], False), ([-1.0], False), ([256.0], False), ([], True)],
)
def test_small_whole_numbers(values, whole):
    group = small_whole(np.array(values, np.float32))
    assert (group is not None) == whole


def test_a_tally_that_gave_up_keeps_moments_alone():
    good, bad = tally_of(np.arange(5.0), np.arange(5), 2), Tally(2, ok=False)
    bad.add(np.ones(3), None, None, np.arange(3), [np.ones(3)])
    good.merge(bad)
    assert (good.ok, len(good.value)) == (False, 0)
