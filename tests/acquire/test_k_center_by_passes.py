"""Farthest-first in every space against k plain passes over the pool."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from slow_references import cdal, coreset, coreset_shortfall, gradients, softmax

from ncalr.acquire.query import query
from ncalr.errors import UnknownName


def pool(seed, n, d=16, relu=False, kind=np.float32):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return (np.maximum(rows, 0) if relu else rows).astype(kind)


# -- coreset ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relu", [False, True])
def test_coreset_picks_as_k_passes_do_from_labelled_items(relu, backend):
    features, labelled = pool(0, 900, relu=relu, kind=np.float64), pool(1, 150, relu=relu, kind=np.float64)
    expected, distances = coreset(features, 200, labelled)
    picks = query("coreset", 200, features=features, labelled_features=labelled)
    assert picks.ids.tolist() == expected
    np.testing.assert_allclose(picks.scores, distances, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("relu", [False, True])
def test_coreset_of_narrow_numbers_takes_the_farthest_to_their_precision(relu, kind, backend):
    features, labelled = pool(0, 900, relu=relu, kind=kind), pool(1, 150, relu=relu, kind=kind)
    picks = query("coreset", 200, features=features, labelled_features=labelled)
    assert coreset_shortfall(features, picks.ids, labelled).max() < 1e-6
    assert len(set(picks.ids.tolist())) == 200


@pytest.mark.parametrize("relu", [False, True])
def test_coreset_starts_anywhere_without_labelled_items(relu, backend):
    features = pool(2, 700, relu=relu, kind=np.float64)
    starts = set()
    for seed in range(3):
        picks = query("coreset", 100, features=features, seed=seed)
        expected, distances = coreset(features, 100, first=int(picks.ids[0]))
        assert picks.ids.tolist() == expected
        np.testing.assert_allclose(picks.scores[1:], distances[1:], rtol=1e-9)
        starts.add(int(picks.ids[0]))
    assert len(starts) == 3


def test_coreset_over_an_empty_labelled_set_is_coreset_without_one(backend):
    features = pool(2, 100)
    without = query("coreset", 20, features=features)
    empty = query("coreset", 20, features=features, labelled_features=np.empty((0, 16), np.float32))
    assert without.ids.tolist() == empty.ids.tolist()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("relu", [False, True])
def test_coreset_beyond_the_largest_block(relu, kind):
    features, labelled = pool(3, 6000, d=24, relu=relu, kind=kind), pool(4, 20, d=24, relu=relu, kind=kind)
    picks = query("coreset", 300, features=features, labelled_features=labelled)
    if kind == np.float64:
        assert picks.ids.tolist() == coreset(features, 300, labelled)[0]
    assert coreset_shortfall(features, picks.ids, labelled).max() < (1e-12 if kind == np.float64 else 1e-6)


def test_coreset_when_nothing_stands_out():
    """In few dimensions bounds fall together: blocks must grow, and items must be brought up to date many times."""
    features = pool(5, 6000, d=2, kind=np.float64)
    picks = query("coreset", 1500, features=features, labelled_features=np.zeros((1, 2)))
    assert picks.ids.tolist() == coreset(features, 1500, np.zeros((1, 2)))[0]


@pytest.mark.parametrize("n", [1, 2, 300, 512, 513, 700])
def test_coreset_orders_the_whole_pool(n, backend):
    features = pool(6, n, kind=np.float64)
    picks = query("coreset", n, features=features, labelled_features=np.zeros((1, 16)))
    assert picks.ids.tolist() == coreset(features, n, np.zeros((1, 16)))[0]


def test_more_labelled_items_than_the_first_look_takes(backend):
    features, labelled = pool(7, 600, kind=np.float64), pool(8, 5000, kind=np.float64)
    expected, distances = coreset(features, 50, labelled)
    picks = query("coreset", 50, features=features, labelled_features=labelled)
    assert picks.ids.tolist() == expected
    np.testing.assert_allclose(picks.scores, distances, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_duplicates_are_picked_once_until_nothing_else_is_left(kind, backend):
    base = pool(9, 400, kind=kind)
    order = np.random.default_rng(0).permutation(1200)
    features = np.repeat(base, 3, axis=0)[order]
    source = np.repeat(np.arange(400), 3)[order]
    picks = query("coreset", 1200, features=features, labelled_features=np.zeros((1, 16), kind))
    assert sorted(picks.ids.tolist()) == list(range(1200))
    assert source[picks.ids[:400]].tolist() == coreset(base, 400, np.zeros((1, 16)))[0]
    assert picks.scores[400:].max() < 0.01


def grid(seed, n):
    """Points of a small grid, many of them twice: distances tie everywhere, and are exact."""
    return np.random.default_rng(seed).integers(0, 12, (n, 3)).astype(np.float32)


@pytest.mark.parametrize("n", [300, 1500])
def test_among_ties_every_pick_is_one_of_the_farthest(n, backend):
    features = grid(0, n)
    picks = query("coreset", 250, features=features, labelled_features=np.zeros((1, 3), np.float32))
    assert coreset_shortfall(features, picks.ids, np.zeros((1, 3))).max() == 0
    assert len(set(picks.ids.tolist())) == 250


def test_ties_do_not_depend_on_the_order_of_the_pool(backend):
    features, order = grid(1, 1500), np.random.default_rng(2).permutation(1500)
    given = {"labelled_features": np.zeros((1, 3), np.float32), "seed": 8}
    plain = query("coreset", 250, features=features, **given)
    moved = query("coreset", 250, features=features[order], ids=np.arange(1500)[order], **given)
    assert moved.ids.tolist() == plain.ids.tolist()


def test_identical_items_are_drawn(one_thread):
    features = np.ones((6, 3), np.float32)
    seen = {tuple(query("coreset", 3, features=features, seed=seed).ids) for seed in range(60)}
    assert {first for first, *_ in seen} == set(range(6))
    assert all(len(set(picks)) == 3 for picks in seen)
    assert len(seen) > 30


def test_every_tied_item_is_picked_sometimes(one_thread):
    corners = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    first = [
        int(query("coreset", 1, features=corners, labelled_features=np.zeros((1, 2)), seed=s).ids[0]) for s in range(80)
    ]
    assert set(first) == {0, 1, 2, 3}


# -- cdal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("sharpness", [1, 3])
def test_cdal_picks_as_k_passes_do(kind, sharpness, backend):
    rng = np.random.default_rng(0)
    logits = (sharpness * rng.normal(size=(1500, 10))).astype(kind)
    labelled = (sharpness * rng.normal(size=(60, 10))).astype(kind)
    expected, divergences = cdal(softmax(logits), 120, softmax(labelled))
    from_logits = query("cdal", 120, logits=logits, labelled_logits=labelled)
    assert from_logits.ids.tolist() == expected
    np.testing.assert_allclose(from_logits.scores, divergences, rtol=1e-3)
    from_probs = query("cdal", 120, probs=softmax(logits), labelled_probs=softmax(labelled))
    assert from_probs.ids.tolist() == expected


def test_cdal_without_labelled_items_starts_by_lot(backend):
    probs = np.random.default_rng(1).dirichlet(np.ones(6), 800)
    picks = query("cdal", 60, probs=probs)
    assert picks.ids.tolist() == cdal(probs, 60, first=int(picks.ids[0]))[0]


def test_cdal_over_an_empty_labelled_set(backend):
    probs = np.random.default_rng(1).dirichlet(np.ones(6), 50)
    empty = query("cdal", 10, probs=probs, labelled_probs=np.empty((0, 6)))
    assert empty.ids.tolist() == query("cdal", 10, probs=probs).ids.tolist()


@pytest.mark.parametrize("given", ["probs", "logits"])
def test_saturated_predictions_of_different_classes_are_far_apart(given, backend):
    """One-hot vectors: a batch of as many as there are classes must hold every class."""
    classes = np.random.default_rng(2).integers(0, 8, 200)
    rows = np.eye(8)[classes] * (1 if given == "probs" else 1000)
    picks = query("cdal", 8, **{given: rows})
    assert sorted(classes[picks.ids].tolist()) == list(range(8))
    far = (1 - 1e-8) * np.log(1e8)  # both of the two entries that differ, halved
    np.testing.assert_allclose(picks.scores[1:], far, rtol=1e-4)


# -- the selector in every space -------------------------------------------------------------------------------


def test_k_center_serves_any_strategy_in_any_space(backend):
    rng = np.random.default_rng(3)
    given = {"features": rng.normal(size=(300, 6)), "logits": rng.normal(size=(300, 4))}
    probs = softmax(given["logits"])
    in_features = query("margin(select=k_center)", 40, **given)
    assert in_features.ids.tolist() == coreset(given["features"], 40, first=int(in_features.ids[0]))[0]
    in_probs = query("margin(select=k_center(space=probabilities))", 40, **given)
    assert in_probs.ids.tolist() == cdal(probs, 40, first=int(in_probs.ids[0]))[0]
    in_gradients = query("margin(select=k_center(space=gradients))", 40, **given)
    points = gradients(probs, given["features"])
    expected, distances = coreset(points, 40, first=int(in_gradients.ids[0]))
    assert in_gradients.ids.tolist() == expected
    np.testing.assert_allclose(in_gradients.scores[1:], distances[1:], rtol=1e-6)


def test_the_radius_is_within_twice_the_best():
    """Gonzalez's guarantee, against every pair of centres."""
    features = pool(11, 40, d=2, kind=np.float64)
    table = cdist(features, features)
    best = min(np.minimum(table[i], table[j]).max() for i in range(40) for j in range(i))
    picks = query("coreset", 2, features=features)
    assert table[picks.ids].min(axis=0).max() <= 2 * best + 1e-12


def test_an_unknown_space_is_named_with_the_nearest():
    with pytest.raises(UnknownName, match=r"no space 'probability'. Did you mean 'probabilities'"):
        query("coreset(select=k_center(space=probability))", 1, features=np.eye(2))
    with pytest.raises(UnknownName, match="Known: features, gradients, probabilities"):
        query("coreset(select=kmeans_pp(space=zzz))", 1, features=np.eye(2))


def test_a_large_common_part_costs_no_digits(backend):
    """Distances do not change when all features move together; squares of large numbers would lose them."""
    rows = np.random.default_rng(3).normal(size=(2000, 16))
    moved = (rows + 1000).astype(np.float32)
    exact = query("coreset", 50, features=moved.astype(np.float64) - 1000).ids.tolist()
    assert query("coreset", 50, features=moved).ids.tolist() == exact


def test_blocks_that_yield_nothing_change_nothing(backend, monkeypatch):
    """One pick in a far cluster makes all of it near: small blocks of its other items then have nothing to give."""
    monkeypatch.setattr(backend, "block_rows", 8, raising=False)
    rng = np.random.default_rng(4)
    features = np.concatenate([rng.normal(size=(200, 3)) + 100, rng.normal(size=(200, 3)) - 30])
    labelled = np.zeros((1, 3))
    expected, near = [], cdist(features, labelled).min(axis=1)
    for _ in range(5):
        expected.append(int(near.argmax()))
        near = np.minimum(near, cdist(features, features[expected[-1:]])[:, 0])
    assert query("coreset", 5, features=features, labelled_features=labelled).ids.tolist() == expected
