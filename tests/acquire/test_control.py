"""Control items: a random sample of the pool, whatever a strategy does."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.acquire.control import control_sample, draws, split_picks, with_control
from ncalr.errors import BadInput
from ncalr.types import Picks

N = 600
IDS = {"numbers": np.arange(1000, 1000 + N), "texts": np.array([f"photo {at}" for at in range(N)])}


def in_order(ids, share, seed=0):
    """Positions of the reserved items, those that come first at the start."""
    numbers = draws(ids, seed)
    return np.argsort(numbers)[: int((numbers < share).sum())]


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_draws_belong_to_the_items(ids):
    numbers = draws(ids, 0)
    assert draws(ids[::-1], 0).tolist() == numbers[::-1].tolist()
    assert not np.isclose(draws(ids, 1), numbers).any()
    assert 0.4 < numbers.mean() < 0.6


def test_the_sample_is_the_labelled_start_of_the_order():
    ids = IDS["numbers"]
    order = in_order(ids, 0.2)
    labelled = np.ones(N, bool)
    labelled[order[30:]] = False
    assert set(np.flatnonzero(control_sample(ids, labelled, 0.2, 0))) == set(order[:30])
    labelled[order[60:]] = True  # of which a strategy may have picked the hard ones
    assert set(np.flatnonzero(control_sample(ids, labelled, 0.2, 0))) == set(order[:30])
    labelled[order[5]] = False  # one that cannot be labelled does not end the sample
    assert set(np.flatnonzero(control_sample(ids, labelled, 0.2, 0))) == set(order[:30]) - {order[5]}
    labelled[order[6:9]] = False
    assert control_sample(ids, labelled, 0.2, 0).sum() == 5
    assert not control_sample(ids, np.zeros(N, bool), 0.2, 0).any()


def test_the_sample_is_random_where_the_hardest_items_were_labelled_before():
    ids, seeds, means = np.arange(2000), range(40), []
    for seed in seeds:
        hard = np.random.default_rng(seed).uniform(size=len(ids))
        labelled = hard > 0.8
        labelled[in_order(ids, 0.1, seed)[:100]] = True
        means.append(hard[control_sample(ids, labelled, 0.1, seed)].mean())
    error = np.std(means) / len(seeds) ** 0.5
    assert abs(np.mean(means) - 0.5) < 4 * error < 0.05


@pytest.mark.parametrize(("k", "share", "count"), [(100, 0.1, 10), (100, 0, 0), (5, 0.1, 1), (2, 0.9, 1), (1, 0.5, 0)])
def test_how_many_control_items(k, share, count):
    ids = IDS["numbers"]
    drawn, reserved = split_picks(ids, k, share, 0)
    assert drawn.tolist() == ids[in_order(ids, share)[:count]].tolist()
    assert set(reserved.tolist()) == set(ids[in_order(ids, share)].tolist())


def test_reserved_items_fill_a_batch_where_others_have_run_out():
    ids = IDS["numbers"]
    kept = np.concatenate([ids[in_order(ids, 0.1)], ids[draws(ids, 0) >= 0.1][:3]])
    drawn, _ = split_picks(kept, 10, 0.1, 0)
    assert len(drawn) == 7


@pytest.mark.parametrize("share", [1, -0.1, True, "a tenth", float("nan")])
def test_a_share_out_of_range(share):
    with pytest.raises(BadInput, match="`control`"):
        split_picks(IDS["numbers"], 10, share, 0)


def test_control_items_are_spread_over_the_picks():
    picks = Picks(np.arange(8), np.linspace(1, 0, 8), {"margin": np.ones(8)}, "margin")
    found = with_control(picks, np.array([100, 101]))
    assert found.ids.tolist() == [0, 1, 100, 2, 3, 4, 5, 101, 6, 7]
    assert np.flatnonzero(found.control).tolist() == [2, 7]
    rows = found.rows()
    assert [row["why"] for row in rows[1:3]] == ["strategy", "control"]
    assert (rows[2]["score"], rows[2]["margin"], rows[1]["margin"]) == (None, None, 1.0)
    assert "why" not in picks.rows()[0]
