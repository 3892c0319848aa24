"""BADGE: gradients written out, the lazy race against a plain one, the distribution of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import chisquare
from slow_references import gradients, race, softmax, symmetric_kl

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.query import query
from ncalr.acquire.select.spaces import Space
from ncalr.errors import BadInput, NotFinite


def problem(seed, n, classes=5, d=6, sharpness=2.0, kind=np.float64):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(kind), (sharpness * rng.normal(size=(n, classes))).astype(kind)


# -- (a) the space of gradients --------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["logits", "probs"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_distances_are_those_of_explicit_gradients(given, kind, backend):
    features, logits = problem(0, 40, kind=kind)
    outputs = logits if given == "logits" else softmax(logits).astype(kind)
    pool = Evidence({"features": backend.asarray(features), given: backend.asarray(outputs)}, backend, 40, 5)
    space = Space("gradients", pool)
    here, there = np.array([3, 1, 7, 7]), np.arange(40)
    ours = backend.numpy(space.between(space.take(here), space.take(there)))
    points = gradients(softmax(logits), features)
    np.testing.assert_allclose(
        ours, cdist(points[here], points, "sqeuclidean"), atol=1e-4 if kind == np.float32 else 1e-11
    )


def test_a_gradient_survives_a_saturated_softmax(backend):
    """p of the top class rounds to 1 in float32; the gradient is minus the sum of the others all the same."""
    logits = np.array([[0, -30.0, -31], [0, -28, -33]], np.float32)
    space = Space(
        "gradients",
        Evidence(
            {"features": backend.asarray(np.ones((2, 1), np.float32)), "logits": backend.asarray(logits)}, backend, 2, 3
        ),
    )
    p = np.exp(logits[:, 1:].astype(np.float64))
    expected = p.sum(axis=1) ** 2 + (p**2).sum(axis=1)
    np.testing.assert_allclose(backend.numpy(space.take(np.arange(2)).own), expected, rtol=1e-5)


# -- (b) the lazy race -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_lazy_race_picks_as_the_plain_race_does(seed, backend):
    """150 picks: weights go out of date between refreshes, and there are refreshes."""
    features, logits = problem(seed, 600)
    points = gradients(softmax(logits), features)
    picks = query("badge", 150, features=features, logits=logits, seed=seed)
    longest = int((points**2).sum(axis=1).argmax())
    assert picks.ids.tolist() == race(points, longest, 150, Lottery(seed, np.arange(600)))


def test_picks_do_not_depend_on_how_often_weights_are_refreshed(monkeypatch):
    features, logits = problem(9, 500)
    given = {"features": features, "logits": logits, "seed": 3}
    picks = []
    for limit in (1, 7, 64, 10**6):
        monkeypatch.setattr("ncalr.acquire.select.kmeans_pp._STALE", limit)
        picks.append(query("badge", 130, **given).ids.tolist())
    monkeypatch.setattr("ncalr.kernels.host.Host.held_bytes", 10**9)  # all weights after every pick, as on a GPU
    for drawn in (1, 1500, 10**6):
        monkeypatch.setattr("ncalr.acquire.select.kmeans_pp._DRAWN", drawn)
        picks.append(query("badge", 130, **given).ids.tolist())
    assert all(one == picks[0] for one in picks)


def test_distances_that_overflow_are_an_error_and_not_a_race_without_end(backend):
    features = 4e18 * np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    with pytest.raises(NotFinite, match="squared lengths overflow"):
        query("coreset(select=kmeans_pp)", 20, features=features, seed=2)


@pytest.mark.parametrize("held", [0, 10**9])
def test_when_no_weight_is_left_the_rest_is_drawn_evenly(held, backend, monkeypatch):
    """Four places, each with many items: after four picks every distance is 0."""
    monkeypatch.setattr(type(backend), "held_bytes", held)
    features = np.repeat(np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]), 20, axis=0)
    picks = query("coreset(select=kmeans_pp)", 40, features=features, seed=5)
    assert len(set(picks.ids.tolist())) == 40
    assert set(picks.ids[:4] // 20) == {0, 1, 2, 3}
    assert (picks.scores[1:4] > 0).all()
    assert (picks.scores[4:] == 0).all()
    assert np.bincount(picks.ids[4:] // 20, minlength=4).min() > 3


def test_values_are_squared_distances_at_the_moment_of_the_pick(backend):
    features, logits = problem(5, 300)
    points = gradients(softmax(logits), features)
    picks = query("badge", 100, features=features, logits=logits)
    expected = [(points[picks.ids[0]] ** 2).sum()]
    expected += [
        cdist(points[i : i + 1], points[picks.ids[:j]], "sqeuclidean").min() for j, i in enumerate(picks.ids) if j
    ]
    np.testing.assert_allclose(picks.scores, expected, rtol=1e-9)


def test_string_ids_race_with_their_own_numbers(backend):
    features, logits = problem(6, 200)
    ids = np.array([f"image-{i}" for i in range(200)])
    points = gradients(softmax(logits), features)
    longest = int((points**2).sum(axis=1).argmax())
    picks = query("badge", 90, features=features, logits=logits, ids=ids, seed=1)
    assert picks.ids.tolist() == ids[race(points, longest, 90, Lottery(1, ids))].tolist()


# -- (c) the distribution --------------------------------------------------------------------------------------


def test_the_second_pick_is_drawn_in_proportion_to_squared_distance(one_thread):
    features, logits = problem(7, 8, sharpness=1.0)
    points = gradients(softmax(logits), features)
    first = int((points**2).sum(axis=1).argmax())
    weight = ((points - points[first]) ** 2).sum(axis=1)
    second = [int(query("badge", 2, features=features, logits=logits, seed=seed).ids[1]) for seed in range(3000)]
    counts = np.bincount(second, minlength=8)
    assert counts[first] == 0
    others = np.arange(8) != first
    assert chisquare(counts[others], 3000 * weight[others] / weight.sum()).pvalue > 1e-3


def test_the_third_pick_looks_at_the_nearest_of_two(one_thread):
    """The stale path: the second pick has not been merged into the weights when the third is drawn."""
    features, logits = problem(8, 7, sharpness=1.0)
    points = gradients(softmax(logits), features)
    table = cdist(points, points, "sqeuclidean")
    picks = np.array([query("badge", 3, features=features, logits=logits, seed=seed).ids for seed in range(3000)])
    expected = np.zeros((7, 7))
    first = picks[0, 0]
    for second in range(7):
        nearest = np.minimum(table[first], table[second])
        expected[second] = table[first, second] / table[first].sum() * nearest / nearest.sum() if second != first else 0
    observed = np.bincount(picks[:, 1] * 7 + picks[:, 2], minlength=49).reshape(7, 7)
    possible = expected > 0
    assert observed[~possible].sum() == 0
    assert chisquare(observed[possible], 3000 * expected[possible]).pvalue > 1e-3


# -- degenerate inputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["probs", "logits"])
def test_vanished_gradients_are_drawn_without_repetition(given, backend):
    one_hot = np.eye(4)[np.arange(90) % 4]
    outputs = one_hot if given == "probs" else one_hot * 2000
    features = np.random.default_rng(0).normal(size=(90, 5))
    batches = [query("badge", 70, features=features, seed=seed, **{given: outputs}).ids.tolist() for seed in range(3)]
    assert all(len(set(batch)) == 70 for batch in batches)
    assert batches[0] != batches[1] != batches[2]


def test_vanished_gradients_are_drawn_uniformly(one_thread):
    probs, features = np.eye(2)[[0, 1, 0, 1, 0]], np.ones((5, 2))
    picks = np.array([query("badge", 2, probs=probs, features=features, seed=seed).ids for seed in range(1500)])
    assert chisquare(np.bincount(picks[:, 0], minlength=5)).pvalue > 1e-3
    assert chisquare(np.bincount(picks[:, 1], minlength=5)).pvalue > 1e-3


def test_live_gradients_and_one_at_the_origin_come_before_the_other_vanished_ones(backend):
    probs = np.eye(3)[np.zeros(50, int)]
    probs[[4, 20, 33]] = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.5, 0.5, 0]]
    features = np.eye(50)
    for seed in range(5):
        picks = query("badge", 50, probs=probs, features=features, seed=seed)
        assert {4, 20, 33} < set(picks.ids[:4].tolist())
        assert sorted(picks.ids.tolist()) == list(range(50))


def test_the_whole_pool_can_be_picked(backend):
    features, logits = problem(1, 130)
    picks = query("badge", 130, features=features, logits=logits)
    assert sorted(picks.ids.tolist()) == list(range(130))


def test_duplicates_wait_until_nothing_else_is_left(backend):
    """Small whole numbers: the distance of two twins is 0 exactly."""
    points = np.repeat(np.arange(1.0, 9.0)[:, None] * np.array([[1.0, 2.0]]), 3, axis=0)
    for seed in range(5):
        picks = query("coreset(select=kmeans_pp)", 24, features=points, seed=seed)
        assert len({tuple(points[i]) for i in picks.ids[:8]}) == 8
        assert sorted(picks.ids.tolist()) == list(range(24))
        assert not picks.scores[8:].any()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_nobody_is_drawn_twice_where_only_rounding_is_left(kind, backend):
    """Five points, each twelve times: after five picks all weights are rounding noise, that of the picks too."""
    features, logits = (np.repeat(rows, 12, axis=0) for rows in problem(2, 5, kind=kind))
    for seed in range(6):
        picks = query("badge", 60, features=features, logits=logits, seed=seed)
        assert sorted(picks.ids.tolist()) == list(range(60))


# -- k-means++ in the other spaces -----------------------------------------------------------------------------


def test_first_may_be_uniform_or_largest(one_thread):
    features = np.array([[1.0], [5.0], [2.0], [-7.0]])
    probs = np.full((4, 2), 0.5)
    largest = [int(query("badge", 1, features=features, probs=probs, seed=s).ids[0]) for s in range(9)]
    assert set(largest) == {3}
    uniform = [int(query("coreset(select=kmeans_pp)", 1, features=features, seed=s).ids[0]) for s in range(800)]
    assert chisquare(np.bincount(uniform, minlength=4)).pvalue > 1e-3
    with pytest.raises(BadInput, match="first must be 'uniform' or 'largest', got 'smallest'"):
        query("coreset(select=kmeans_pp(first=smallest))", 1, features=features)


def test_the_longest_of_equals_is_drawn(one_thread):
    given = {"features": np.array([[3.0], [-3.0], [1.0]]), "probs": np.full((3, 2), 0.5)}
    assert {int(query("badge", 1, seed=seed, **given).ids[0]) for seed in range(40)} == {0, 1}


@pytest.mark.parametrize("space", ["features", "probabilities"])
def test_the_longest_is_a_matter_of_gradients(space):
    given = {"features": np.eye(3), "probs": np.full((3, 2), 0.5)}
    with pytest.raises(BadInput, match="first='largest' means the longest gradient"):
        query(f"coreset(select=kmeans_pp(first=largest, space={space}))", 1, **given)


def test_the_race_in_feature_space(backend):
    features = np.random.default_rng(3).normal(size=(300, 4))
    picks = query("coreset(select=kmeans_pp)", 100, features=features, seed=2)
    assert picks.ids.tolist() == race(features, int(picks.ids[0]), 100, Lottery(2, np.arange(300)))


def test_the_race_in_probability_space(backend):
    probs = np.random.default_rng(4).dirichlet(np.ones(5), 200)
    picks = query("margin(select=kmeans_pp(space=probabilities))", 90, probs=probs, seed=2)
    table = np.array([symmetric_kl(probs, p) for p in probs])
    lottery, expected = Lottery(2, np.arange(200)), [int(picks.ids[0])]
    while len(expected) < 90:
        weight = table[:, expected].min(axis=1)
        weight[expected] = 0
        expected.append(int((weight / -np.log(lottery.uniform(1000 + len(expected)))).argmax()))
    assert picks.ids.tolist() == expected
