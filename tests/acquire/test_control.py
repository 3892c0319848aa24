"""Control items: a random sample of the pool, whatever a strategy does."""

from __future__ import annotations

import numpy as np
import pytest

import ncalr
from ncalr.acquire.control import control_count, control_sample, random_order, with_control
from ncalr.errors import BadInput
from ncalr.types import Picks

N = 200
IDS = {"numbers": np.arange(1000, 1000 + N), "texts": np.array([f"photo {at}" for at in range(N)])}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("seed", [0, 7])
def test_control_items_come_in_the_order_of_strategy_random(ids, seed):
    order = random_order(ids, seed)
    assert ids[order[:9]].tolist() == ncalr.query("random", 9, ids=ids, seed=seed).ids.tolist()
    open_ = np.delete(ids, order[[0, 3]])
    assert ncalr.query("random", 2, ids=open_, seed=seed).ids.tolist() == ids[order[[1, 2]]].tolist()


def test_the_sample_is_the_labelled_start_of_the_order():
    ids = IDS["numbers"]
    order = random_order(ids, 0)
    labelled = np.zeros(N, bool)
    labelled[order[:30]] = labelled[order[100:150]] = True
    assert set(np.flatnonzero(control_sample(ids, labelled, 0))) == set(order[:30])
    labelled[order[5]] = False  # one that cannot be labelled does not end the sample
    assert set(np.flatnonzero(control_sample(ids, labelled, 0))) == set(order[:30]) - {order[5]}
    labelled[order[6:9]] = False
    assert control_sample(ids, labelled, 0).sum() == 5
    assert not control_sample(ids, np.zeros(N, bool), 0).any()


def test_the_sample_is_random_where_a_strategy_picks_the_hardest():
    """Whatever was labelled before the first control item, and whichever of the drawn items a strategy took first."""
    ids, seeds, means = np.arange(2000), range(40), []
    for seed in seeds:
        hard = np.random.default_rng(seed).uniform(size=len(ids))
        labelled = hard > 0.8
        labelled[random_order(ids, seed)[:100]] = True
        means.append(hard[control_sample(ids, labelled, seed)].mean())
    error = np.std(means) / len(seeds) ** 0.5
    assert abs(np.mean(means) - 0.5) < 4 * error < 0.05


@pytest.mark.parametrize(("k", "share", "count"), [(100, 0.1, 10), (100, 0, 0), (5, 0.1, 1), (2, 0.9, 1), (1, 0.5, 0)])
def test_how_many_control_items(k, share, count):
    assert control_count(k, share) == count


@pytest.mark.parametrize("share", [1, -0.1, True, "a tenth", float("nan")])
def test_a_share_that_is_none(share):
    with pytest.raises(BadInput, match="`control`"):
        control_count(10, share)


def test_control_items_are_spread_over_the_picks():
    picks = Picks(np.arange(8), np.linspace(1, 0, 8), {"margin": np.ones(8)}, "margin")
    found = with_control(picks, np.array([100, 101]))
    assert found.ids.tolist() == [0, 1, 100, 2, 3, 4, 5, 101, 6, 7]
    assert np.flatnonzero(found.control).tolist() == [2, 7]
    rows = found.rows()
    assert [row["why"] for row in rows[1:3]] == ["strategy", "control"]
    assert (rows[2]["score"], rows[2]["margin"], rows[1]["margin"]) == (None, None, 1.0)
    assert "why" not in picks.rows()[0]
