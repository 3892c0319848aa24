"""TypiClust given its clusters against the obvious loop, and the clusters themselves."""

from __future__ import annotations

import numpy as np
import pytest
from slow_references import normalised, typicality, typiclust

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.query import query
from ncalr.acquire.select import typical
from ncalr.acquire.select.clusters import kmeans
from ncalr.errors import BadInput

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def clusters_are(monkeypatch):
    """Replace k-means by given clusters of pool and labelled items."""

    def fix(member):
        monkeypatch.setattr("ncalr.acquire.select.typical.kmeans", lambda *_, **__: np.asarray(member))

    return fix


def problem(seed, n=200, m=30, clusters=12):
    """Clusters of very different sizes, five of them tiny."""
    rng = np.random.default_rng(seed)
    share = np.concatenate([rng.uniform(1, 4, clusters - 5), np.full(5, 0.1)])
    return rng.normal(size=(n, 6)), rng.normal(size=(m, 6)), rng.choice(clusters, n + m, p=share / share.sum())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [5, 12, 40, 200])
def test_clusters_are_visited_in_turn_and_give_their_most_typical(seed, k, clusters_are, backend):
    """k = 40 goes round several times, k = 200 takes everything, the tiny clusters last."""
    features, labelled, member = problem(seed)
    clusters_are(member)
    picks = query("typiclust", k, features=features, labelled_features=labelled)
    expected = typiclust(features, labelled, member, k)
    labels, sizes = np.bincount(member[200:], minlength=12), np.bincount(member, minlength=12)
    kinds = [(labels[c], sizes[c]) for c in range(12)]
    assert [kinds[member[i]] for i in picks.ids] == [kinds[member[i]] for i in expected]
    ours, theirs = by_cluster(picks.ids, member), by_cluster(expected, member)
    for c in range(12):
        if kinds.count(kinds[c]) == 1 and sizes[c] > 3:  # else clusters, or two mutual neighbours, may tie
            assert ours[c] == theirs[c]


def test_clusters_and_typicality_of_features_that_have_much_in_common(backend):
    """Four bunches of unit vectors a ten-thousandth apart, in single precision."""
    rng = np.random.default_rng(0)
    member = np.repeat(np.arange(4), 50)
    features = (1000 + 0.3 * np.eye(8)[member] + 0.02 * rng.normal(size=(200, 8))).astype(np.float32)
    picks = query("typiclust(select=typical(clusters=4))", 4, features=features)
    assert sorted(member[picks.ids]) == [0, 1, 2, 3]
    rows = normalised(features.astype(np.float64))
    exact = [typicality(rows[member == member[at]])[at % 50] for at in picks.ids]
    best = [typicality(rows[member == member[at]]).max() for at in picks.ids]
    np.testing.assert_allclose(exact, best, rtol=1e-3)
    np.testing.assert_allclose(picks.scores, exact, rtol=1e-3)


def by_cluster(ids, member):
    """The picks of each cluster in their order."""
    return {c: [int(i) for i in ids if member[i] == c] for c in range(12)}


def test_fewest_labels_first_then_the_largest(clusters_are, backend):
    member = np.repeat([0, 1, 2, 3], [10, 20, 30, 40])
    labelled_member = [3, 3, 2, 1]  # 0 has no label, 1 and 2 have one, 3 has two
    clusters_are(np.concatenate([member, labelled_member]))
    rng = np.random.default_rng(0)
    picks = query("typiclust", 8, features=rng.normal(size=(100, 3)), labelled_features=rng.normal(size=(4, 3)))
    assert member[picks.ids].tolist() == [0, 2, 1, 3, 0, 2, 1, 3]


def test_clusters_of_five_or_fewer_come_last(clusters_are, backend):
    member = np.repeat([0, 1, 2], [5, 6, 1])
    clusters_are(member)
    picks = query("typiclust", 12, features=np.random.default_rng(0).normal(size=(12, 3)))
    assert member[picks.ids].tolist() == [1] * 6 + [0, 2, 0, 0, 0, 0]


def test_a_cluster_of_labelled_items_alone_is_passed_over(clusters_are, backend):
    member = np.array([0] * 6 + [1] * 7)
    clusters_are(member)
    rng = np.random.default_rng(0)
    picks = query("typiclust", 6, features=rng.normal(size=(6, 3)), labelled_features=rng.normal(size=(7, 3)))
    assert sorted(picks.ids.tolist()) == list(range(6))


@pytest.mark.parametrize("neighbours", [3, 4, 20])
def test_typicality_is_its_formula(neighbours, clusters_are, backend):
    features = np.random.default_rng(1).normal(size=(60, 5))
    clusters_are(np.zeros(60, np.int64))
    picks = query(f"typiclust(select=typical(neighbours={neighbours}))", 60, features=features)
    expected = typicality(normalised(features), neighbours)
    np.testing.assert_allclose(picks.scores, expected[picks.ids], rtol=1e-6)
    assert picks.ids.tolist() == np.argsort(-expected).tolist()


def test_labelled_neighbours_count_towards_typicality(clusters_are, backend):
    """A labelled crowd around item 3 makes it the most typical of its cluster."""
    features = normalised(np.random.default_rng(2).normal(size=(12, 4)))
    crowd = features[3] + 0.01 * np.random.default_rng(3).normal(size=(20, 4))
    clusters_are(np.zeros(32, np.int64))
    assert query("typiclust", 1, features=features, labelled_features=crowd).ids.tolist() == [3]


def test_typicality_in_blocks(clusters_are, monkeypatch, backend):
    features = np.random.default_rng(1).normal(size=(60, 5))
    clusters_are(np.zeros(60, np.int64))
    whole = query("typiclust", 60, features=features)
    monkeypatch.setattr("ncalr.acquire.select.typical._BLOCK", 7)
    parts = query("typiclust", 60, features=features)
    assert parts.ids.tolist() == whole.ids.tolist()
    np.testing.assert_allclose(parts.scores, whole.scores, rtol=1e-6)


def test_blocks_are_cut_by_their_bytes(clusters_are, monkeypatch, backend):
    """A first batch of one is one cluster: rows of distances, as many as fit, and never the whole table."""
    features = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
    clusters_are(np.zeros(60, np.int64))
    whole = query("typiclust", 60, features=features)
    monkeypatch.setattr("ncalr.acquire.select.typical._BLOCK_BYTES", 17 * 60 * 4)
    seen, real = [], type(backend).nearest_squares
    monkeypatch.setattr(
        type(backend), "nearest_squares", lambda s, inner, *a: seen.append(tuple(inner.shape)) or real(s, inner, *a)
    )
    parts = query("typiclust", 60, features=features)
    assert seen == [(17, 60)] * 3 + [(9, 60)]
    assert parts.ids.tolist() == whole.ids.tolist()


def test_clusters_that_are_not_visited_cost_nothing(clusters_are, monkeypatch, backend):
    features = np.random.default_rng(1).normal(size=(90, 5))
    clusters_are(np.repeat([0, 1, 2], [20, 40, 30]))
    seen, real = [], typical._mean_distance
    monkeypatch.setattr(
        typical, "_mean_distance", lambda b, points, *a: seen.append(len(points)) or real(b, points, *a)
    )
    query("typiclust", 2, features=features)
    assert seen == [40, 30]


def test_a_crowded_cluster_is_sampled_and_says_so(clusters_are, backend):
    features, labelled = np.random.default_rng(1).normal(size=(100, 5)), np.random.default_rng(2).normal(size=(8, 5))
    clusters_are(np.repeat([0, 1, 0], [70, 30, 8]))
    spec = "typiclust(select=typical(limit=50))"
    picks = query(spec, 50, features=features, labelled_features=labelled, seed=3)
    assert picks.notes == ("typicality computed on a random sample of 50 items of a cluster that has more",)
    assert len(set(picks.ids.tolist())) == 50
    kept = np.sort(np.argsort(Lottery(3, np.arange(100)).keys()[:70], kind="stable")[:50])
    expected = typicality(normalised(np.vstack([features[kept], labelled])))[:50]
    ours = [at for at in picks.ids if at < 70]
    assert ours == kept[np.argsort(-expected)][: len(ours)].tolist(), "the labelled ones are neighbours, too"
    assert query("typiclust(limit=70)", 50, features=features, labelled_features=labelled).notes == ()
    more = query(spec, 51, features=features, labelled_features=labelled, seed=3)
    assert more.notes == ("typicality computed on a random sample of 51 items of a cluster that has more",)
    assert len(set(more.ids.tolist())) == 51, "as many as are wanted, at least"


def test_equal_typicality_is_drawn(clusters_are, one_thread):
    features = np.tile([[1.0, 0.0]], (8, 1))
    clusters_are(np.zeros(8, np.int64))
    first = {int(query("typiclust", 1, features=features, seed=seed).ids[0]) for seed in range(80)}
    assert first == set(range(8))


def test_one_item_a_cluster(backend):
    """As many clusters as items: nobody has a neighbour."""
    picks = query("typiclust", 7, features=np.random.default_rng(0).normal(size=(7, 3)))
    assert sorted(picks.ids.tolist()) == list(range(7))


def test_more_picks_than_clusters(backend):
    features = np.random.default_rng(0).normal(size=(90, 3))
    picks = query("typiclust(select=typical(clusters=4))", 90, features=features)
    assert sorted(picks.ids.tolist()) == list(range(90))


def test_bad_options_are_refused():
    for options in ("clusters=0", "neighbours=0"):
        with pytest.raises(BadInput, match="clusters and neighbours must be at least 1"):
            query(f"typiclust(select=typical({options}))", 1, features=np.eye(3))


# -- the clusters ----------------------------------------------------------------------------------------------


def clusters_of(backend, rows, count, seed=0, **options):
    rows = backend.asarray(rows)
    pool = Evidence({"features": rows}, backend, len(rows), 0)
    return kmeans(rows, count, pool, Lottery(seed, np.arange(len(rows))), **options)


def bunches(seed, sizes, d=4, spread=0.01):
    rng = np.random.default_rng(seed)
    centres = np.eye(len(sizes), max(d, len(sizes))) * 5
    source = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return source, (centres[source] + spread * rng.normal(size=(len(source), centres.shape[1]))).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_k_means_finds_bunches(seed, backend):
    source, rows = bunches(seed, (30, 20, 10))
    member = clusters_of(backend, rows, 3, seed)
    assert len(set(zip(source.tolist(), member.tolist(), strict=True))) == 3


def test_k_means_reaches_a_fixed_point(backend):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    member = clusters_of(backend, rows, 6, iterations=300)
    centres = np.array([rows[member == c].mean(axis=0) for c in range(6)])
    nearest = ((rows[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == member).mean() > 0.995


def test_k_means_with_as_many_clusters_as_rows(backend):
    assert clusters_of(backend, np.eye(4), 4).tolist() == [0, 1, 2, 3]
    assert clusters_of(backend, np.eye(4), 9).tolist() == [0, 1, 2, 3]


def test_k_means_moves_empty_clusters(backend):
    """Three places and five clusters: the seeding must double up, and no cluster may be left empty."""
    rows = np.repeat(np.eye(3), 10, axis=0)
    member = clusters_of(backend, rows, 5)
    assert set(member.tolist()) == set(range(5))


def test_k_means_does_not_depend_on_the_order_of_the_rows(backend):
    rows = np.random.default_rng(0).normal(size=(200, 3))
    order = np.random.default_rng(1).permutation(200)
    member = clusters_of(backend, rows, 8)
    held = backend.asarray(rows[order])
    pool = Evidence({"features": held}, backend, 200, 0)
    shuffled = kmeans(held, 8, pool, Lottery(0, np.arange(200)[order]))
    assert shuffled.tolist() == member[order].tolist()
