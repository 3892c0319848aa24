"""Selectors: ties, noise, caps, filters and turns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare
from slow_references import coreset

from ncalr.acquire import selectors
from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.query import query
from ncalr.acquire.registry import bind
from ncalr.errors import BadInput, MissingEvidence, UnknownName
from ncalr.kernels.host import Host
from ncalr.types import Scored

pytestmark = pytest.mark.usefixtures("one_thread")


def by_flips(flips, k, select="top_k", **given):
    """Any whole numbers as scores."""
    return query("ff", k, flips=np.asarray(flips), select=select, **given)


def by_scores(scores, k, select, seed=0):
    """Any numbers as scores, straight into a selector: positions."""
    scores = np.asarray(scores, np.float64)
    pool = Evidence({}, Host(), len(scores), 0)
    return bind(select)(Scored(scores), pool, k, Lottery(seed, np.arange(len(scores)))).positions


# -- top_k -----------------------------------------------------------------------------------------------------


def test_ties_are_spread_over_the_seeds(one_thread):
    flips = [1, 5, 3, 3, 3, 3, 0]
    picks = np.array([by_flips(flips, 3, seed=seed).ids for seed in range(1200)])
    assert (picks[:, 0] == 1).all()
    assert set(picks[:, 1:].ravel().tolist()) == {2, 3, 4, 5}
    assert chisquare(np.bincount(picks[:, 1:].ravel(), minlength=6)[2:]).pvalue > 1e-3


def test_ties_inside_the_batch_come_in_any_order(one_thread):
    orders = {tuple(by_flips([2, 2, 2], 3, seed=seed).ids) for seed in range(60)}
    assert len(orders) == 6


def test_one_seed_gives_one_batch(backend):
    flips = np.random.default_rng(0).integers(0, 3, 200)
    assert by_flips(flips, 50, seed=[1, 2]).ids.tolist() == by_flips(flips, 50, seed=[1, 2]).ids.tolist()
    assert by_flips(flips, 50, seed=[1, 2]).ids.tolist() != by_flips(flips, 50, seed=[1, 3]).ids.tolist()


def test_scores_fall_along_the_batch(backend):
    flips = np.random.default_rng(0).integers(0, 9, 100)
    picks = by_flips(flips, 40)
    assert picks.scores.tolist() == np.sort(flips)[::-1][:40].tolist()
    assert flips[picks.ids].tolist() == picks.scores.tolist()


@pytest.mark.parametrize("k", [1, 99, 100])
def test_every_k_is_the_head_of_one_order(k, backend):
    flips = np.random.default_rng(0).integers(0, 9, 100)
    assert by_flips(flips, k).ids.tolist() == by_flips(flips, 100).ids[:k].tolist()


def test_the_place_of_an_item_does_not_decide_ties(backend):
    flips, order = np.random.default_rng(0).integers(0, 3, 100), np.random.default_rng(1).permutation(100)
    ids = np.array([f"item {i}" for i in range(100)])
    assert by_flips(flips, 30, ids=ids).ids.tolist() == by_flips(flips[order], 30, ids=ids[order]).ids.tolist()


def test_a_strategy_without_scores_says_so():
    for name in ("top_k", "quota", "filtered", "stochastic_top_k", "round_robin", "sequential"):
        given = {"features": np.eye(4), "predictions": [0] * 4, "labelled_features": np.eye(4), "labels": [0] * 4}
        with pytest.raises(BadInput, match=f"selector '{name}' needs scores, and this strategy gives none"):
            query("coreset", 1, select=name, **given)


# -- stochastic_top_k ------------------------------------------------------------------------------------------

SCORES = np.array([1.0, 4.0, 2.0, 0.5, 3.0])
RANKS = np.array([4, 1, 3, 5, 2])
KINDS = {
    "power": lambda coldness: SCORES**coldness,
    "softmax": lambda coldness: np.exp(coldness * SCORES),
    "softrank": lambda coldness: RANKS ** -float(coldness),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coldness", [0.5, 1, 2])
def test_the_first_pick_has_the_stated_probability(kind, coldness):
    select = f"stochastic_top_k(kind={kind}, coldness={coldness})"
    first = [by_scores(SCORES, 1, select, seed)[0] for seed in range(2500)]
    share = KINDS[kind](coldness)
    assert chisquare(np.bincount(first, minlength=5), 2500 * share / share.sum()).pvalue > 1e-3


def picked_second(kind, seeds):
    """First and second picks as a set: sampling without replacement gives each pair its own probability."""
    return [tuple(sorted(by_scores(SCORES, 2, f"stochastic_top_k(kind={kind})", seed))) for seed in range(seeds)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_drawn_without_replacement(kind):
    share = KINDS[kind](1)
    share = share / share.sum()
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    chance = [share[i] * share[j] / (1 - share[i]) + share[j] * share[i] / (1 - share[j]) for i, j in pairs]
    seen = picked_second(kind, 2500)
    assert chisquare([seen.count(pair) for pair in pairs], 2500 * np.array(chance)).pvalue > 1e-3


def test_softrank_is_the_default_and_ignores_the_scale(backend):
    flips = np.array([1, 4, 2, 0, 3])
    for seed in range(20):
        plain = by_flips(flips, 3, "stochastic_top_k", seed=seed)
        same = by_flips(flips**2 * 7, 3, "stochastic_top_k(kind=softrank, coldness=1)", seed=seed)
        assert plain.ids.tolist() == same.ids.tolist()


def test_tied_items_share_one_rank(one_thread):
    first = [by_scores([1, 1, 1, 1], 1, "stochastic_top_k", seed)[0] for seed in range(1200)]
    assert chisquare(np.bincount(first, minlength=4)).pvalue > 1e-3


def test_great_coldness_is_top_k(backend):
    flips = np.random.default_rng(0).permutation(60)
    for kind in ("softmax", "softrank", "power"):
        picks = by_flips(flips, 20, f"stochastic_top_k(kind={kind}, coldness=1e9)")
        assert picks.ids.tolist() == by_flips(flips, 20).ids.tolist()


def test_power_never_takes_a_zero_before_a_positive_score(backend):
    flips = np.array([0, 1, 0, 2, 0, 1])
    for seed in range(30):
        picks = by_flips(flips, 6, "stochastic_top_k(kind=power)", seed=seed)
        assert set(picks.ids[:3].tolist()) == {1, 3, 5}
        assert sorted(picks.ids.tolist()) == list(range(6))


def test_zeros_under_power_are_drawn_too():
    last = {tuple(by_scores([0, 5, 0, 0], 4, "stochastic_top_k(kind=power)", seed)[1:]) for seed in range(60)}
    assert len(last) == 6


def test_reported_scores_are_the_plain_ones(backend):
    picks = by_flips([5, 1, 3], 3, "stochastic_top_k(kind=softmax)")
    assert picks.scores.tolist() == np.array([5, 1, 3])[picks.ids].tolist()


def test_bad_noise_is_refused():
    with pytest.raises(BadInput, match="coldness must be positive, got 0"):
        by_flips([1, 2], 1, "stochastic_top_k(coldness=0)")
    with pytest.raises(BadInput, match="kind must be 'power', 'softmax' or 'softrank', got 'gumbel'"):
        by_flips([1, 2], 1, "stochastic_top_k(kind=gumbel)")
    with pytest.raises(BadInput, match="kind='power' needs scores that are not negative; use 'softmax' or 'softrank'"):
        by_scores([1.0, -0.1], 1, "stochastic_top_k(kind=power)")


# -- quota -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [1, 1.5, 2, 3])
def test_no_class_exceeds_its_cap(cap, backend):
    rng = np.random.default_rng(0)
    predictions = rng.integers(0, 5, 400)
    flips = rng.integers(0, 50, 400) + 100 * (predictions == 2)
    picks = by_flips(flips, 30, f"quota(cap={cap})", predictions=predictions)
    assert np.bincount(predictions[picks.ids]).max() == min(30, cap * 30 / 5)


def test_a_cap_keeps_the_best_of_each_class(backend):
    predictions, flips = np.array([0, 0, 0, 1, 1, 2]), np.array([9, 8, 7, 3, 2, 1])
    assert by_flips(flips, 3, "quota(cap=1)", predictions=predictions).ids.tolist() == [0, 3, 5]
    assert by_flips(flips, 4, "quota(cap=1.5)", predictions=predictions).ids.tolist() == [0, 1, 3, 4]


def test_a_cap_that_binds_nobody_is_top_k(backend):
    rng = np.random.default_rng(1)
    predictions, flips = np.arange(90) % 3, rng.permutation(90)
    assert by_flips(flips, 30, "quota(cap=3)", predictions=predictions).ids.tolist() == by_flips(flips, 30).ids.tolist()


def test_caps_that_cannot_fill_the_batch_let_the_best_of_the_rest_in(backend):
    predictions, flips = np.array([0, 0, 0, 0, 0, 1]), np.array([1, 9, 8, 7, 6, 0])
    picks = by_flips(flips, 5, "quota(cap=1)", predictions=predictions)
    assert picks.ids.tolist() == [1, 2, 3, 5, 4]  # three of class 0 and one of class 1, then the best that is left


def test_quotas_reach_the_whole_pool(backend):
    rng = np.random.default_rng(2)
    picks = by_flips(rng.integers(0, 4, 50), 50, "quota", predictions=rng.integers(0, 7, 50))
    assert sorted(picks.ids.tolist()) == list(range(50))


def test_quotas_read_predictions_from_logits(backend):
    predictions = np.random.default_rng(3).integers(0, 4, 80)
    flips = np.random.default_rng(4).permutation(80)
    from_logits = by_flips(flips, 20, "quota(cap=1)", logits=np.eye(4)[predictions])
    assert from_logits.ids.tolist() == by_flips(flips, 20, "quota(cap=1)", predictions=predictions).ids.tolist()


def test_a_cap_below_an_even_share_is_refused():
    with pytest.raises(BadInput, match=r"cap must be at least 1 \(an even share of the batch\), got 0.5"):
        by_flips([1, 2], 1, "quota(cap=0.5)", predictions=[0, 1])


# -- filtered --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("multiple", [1, 2, 3.5])
def test_filtered_spreads_out_among_the_best(multiple, backend):
    rng = np.random.default_rng(0)
    flips, features = rng.permutation(300), rng.normal(size=(300, 4))
    picks = by_flips(flips, 20, f"filtered(multiple={multiple})", features=features)
    best = np.sort(np.argsort(-flips)[: int(20 * multiple)])
    assert set(picks.ids.tolist()) <= set(best.tolist())
    start = int(np.flatnonzero(best == picks.ids[0])[0])
    assert picks.ids.tolist() == best[coreset(features[best], 20, first=start)[0]].tolist()
    assert picks.scores.tolist() == flips[picks.ids].tolist()


def test_filtered_starts_from_the_labelled_items(backend):
    rng = np.random.default_rng(1)
    flips, features, labelled = rng.permutation(200), rng.normal(size=(200, 4)), rng.normal(size=(9, 4))
    picks = by_flips(flips, 15, "filtered", features=features, labelled_features=labelled)
    best = np.sort(np.argsort(-flips)[:45])
    assert picks.ids.tolist() == best[coreset(features[best], 15, labelled)[0]].tolist()


def test_filtered_hands_on_to_any_selector(backend):
    rng = np.random.default_rng(2)
    flips, probs = rng.permutation(100), rng.dirichlet(np.ones(3), 100)
    among = np.sort(np.argsort(-flips)[:20])
    picks = by_flips(flips, 10, "filtered(multiple=2, then=k_center(space=probabilities))", probs=probs)
    alone = query("cdal", 10, probs=probs[among], ids=among)
    assert picks.ids.tolist() == alone.ids.tolist()
    plain = by_flips(flips, 10, "filtered(multiple=2, then=top_k)")
    assert plain.ids.tolist() == by_flips(flips, 10).ids.tolist()


def test_filtered_passes_scores_and_notes_on(backend):
    rng = np.random.default_rng(3)
    picks = by_flips(
        rng.permutation(50) + 1, 5, "filtered(then=coverage(kernel=ball))", features=rng.normal(size=(50, 3))
    )
    assert picks.notes[0].startswith("radius ")


def test_filtered_needs_what_its_second_half_needs():
    with pytest.raises(MissingEvidence, match=r"'ff' needs features: pass features="):
        by_flips([1, 2], 1, "filtered")
    with pytest.raises(MissingEvidence, match=r"outputs: pass logits= or probs="):
        by_flips([1, 2], 1, "filtered(then=k_center(space=gradients))", features=np.eye(2))


def test_filtered_cannot_keep_fewer_than_k():
    with pytest.raises(BadInput, match=r"multiple must be at least 1, got 0.5"):
        by_flips([1, 2], 1, "filtered(multiple=0.5)", features=np.eye(2))


# -- round_robin -----------------------------------------------------------------------------------------------


def bunches(sizes, seed=0):
    """Tight groups far apart on a line, in mixed order, and the group of each item."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return group, (group * 100 + rng.uniform(0, 1, len(group)))[:, None]


def test_small_clusters_go_first_and_each_gives_one_a_turn(backend):
    group, features = bunches((6, 1, 3, 10))
    for seed in range(5):
        picks = by_flips(np.ones(20, int), 10, "round_robin(clusters=0.4)", features=features, seed=seed)
        assert group[picks.ids].tolist() == [1, 2, 0, 3, 2, 0, 3, 2, 0, 3]


def test_only_the_best_take_part_and_their_clusters_are_measured_by_them(backend):
    """Group 3 is the largest of the pool and the smallest among the best eight."""
    group, features = bunches((6, 1, 3, 10))
    flips = np.where(group == 3, 0, 2)
    flips[np.flatnonzero(group == 3)[:2]] = 3
    flips[group == 1] = 0
    flips[np.flatnonzero(group == 0)[:3]] = 0
    picks = by_flips(flips, 4, "round_robin(multiple=2, clusters=1)", features=features)
    assert group[picks.ids].tolist()[0] == 3
    assert sorted(group[picks.ids].tolist()) in ([0, 2, 3, 3], [0, 0, 2, 3], [0, 2, 2, 3])
    assert (flips[picks.ids] > 0).all()


def test_the_item_of_a_cluster_is_drawn(one_thread):
    _, features = bunches((5, 5))
    first = {
        int(by_flips(np.ones(10, int), 1, "round_robin(clusters=2)", features=features, seed=s).ids[0])
        for s in range(120)
    }
    assert first == set(range(10))


def test_round_robin_goes_on_until_the_pool_is_empty(backend):
    _, features = bunches((7, 2, 4))
    picks = by_flips(np.arange(13), 13, "round_robin", features=features)
    assert sorted(picks.ids.tolist()) == list(range(13))
    assert by_flips([3], 1, "round_robin", features=np.ones((1, 2))).ids.tolist() == [0]


def test_k_means_stands_in_above_the_limit_and_says_so(backend):
    group, features = bunches((20, 30, 10))
    features = features.astype(np.float32)
    picks = by_flips(np.ones(60, int), 3, "round_robin(linkage_limit=59, clusters=1)", features=features)
    assert picks.notes == ("k-means stands in for average linkage, which would need a table of 60 x 60 distances",)
    assert group[picks.ids].tolist() == [2, 0, 1]
    linked = by_flips(np.ones(60, int), 3, "round_robin(linkage_limit=60, clusters=1)", features=features)
    assert linked.notes == ()
    assert group[linked.ids].tolist() == [2, 0, 1]


def test_bad_turns_are_refused():
    for options in ("multiple=0.5", "clusters=0"):
        with pytest.raises(BadInput, match="multiple must be at least 1 and clusters positive"):
            by_flips([1, 2], 1, f"round_robin({options})", features=np.eye(2))


# -- names -----------------------------------------------------------------------------------------------------


def test_unknown_selectors_and_options_are_named_with_the_nearest():
    with pytest.raises(UnknownName, match=r"no selector 'k_centre'. Did you mean 'k_center'"):
        by_flips([1, 2], 1, "k_centre")
    with pytest.raises(UnknownName, match=r"no option of selector 'quota' called 'cups'. Did you mean 'cap'"):
        by_flips([1, 2], 1, "quota(cups=2)")
    with pytest.raises(UnknownName, match=r"no selector 'topk'. Did you mean 'top_k'"):
        by_flips([1, 2], 1, "filtered(then=topk)")


def test_every_selector_says_what_it_does():
    for name, made in selectors().items():
        assert made.name == name
        assert made.summary.endswith(".")


@pytest.mark.parametrize("name", [*sorted(set(selectors()) - {"coverage"}), "coverage(worth=rank)"])
def test_every_selector_gives_k_distinct_items_whatever_their_order(name, everything, backend):
    shuffled = np.random.default_rng(0).permutation(60)
    given = {key: value for key, value in everything.items() if key != "sampled_probs"}
    first = query("ncal", 12, select=name, seed=4, **given)
    assert len(set(first.ids.tolist())) == 12
    moved = dict(given)
    for key in ("features", "logits", "predictions", "enhanced"):
        moved[key] = given[key][shuffled]
    moved["checkpoint_predictions"] = given["checkpoint_predictions"][:, shuffled]
    again = query("ncal", 12, select=name, seed=4, ids=np.arange(60)[shuffled], **moved)
    assert again.ids.tolist() == first.ids.tolist()
