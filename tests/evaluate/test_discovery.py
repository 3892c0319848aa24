"""Category discovery: planted clusters, the assignment against brute force, the paper's arithmetic, what cannot be."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.errors import BadInput, NotFinite, UnknownName
from ncalr.evaluate import discovery
from ncalr.evaluate.discovery import discover, discovery_accuracy, estimate_classes, ss_kmeans

steady = settings(deadline=None, derandomize=True, max_examples=60)


def planted(classes: int, each: int, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Clusters around orthogonal directions, of lengths that differ; items in a random order."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(classes), each))
    turn = np.linalg.qr(rng.normal(size=(classes + 3, classes + 3)))[0]
    features = turn[truth] + rng.normal(0, noise, (len(truth), classes + 3))
    return features * rng.uniform(0.1, 10, (len(truth), 1)), truth


def seen(features: np.ndarray, truth: np.ndarray, known: int, share: float = 0.5) -> tuple[np.ndarray, ...]:
    """The arguments of `discover` with the first classes known and a share of their items labelled."""
    old = np.random.default_rng(0).permutation(np.flatnonzero(truth < known))
    chosen = np.isin(np.arange(len(truth)), old[: round(share * len(old))])
    return features[chosen], truth[chosen], features[~chosen], truth[~chosen]


def test_three_rows_of_the_paper_have_weight_3_7_and_its_own_has_not() -> None:
    """Table 2 of the paper. Its NCAL row prints All 35.07; with the weight of the other rows it would be 35.44."""
    rows = {
        "random": (33.20, 50.34, 20.35),
        "cdal": (33.39, 49.96, 20.96),
        "coreset": (32.23, 49.98, 18.92),
        "ncal": (35.07, 51.95, 23.05),
    }
    for name, (everything, old, new) in rows.items():
        expected = 3 / 7 * old + 4 / 7 * new
        assert (abs(expected - everything) < 0.006) == (name != "ncal")
    assert round(3 / 7 * 51.95 + 4 / 7 * 23.05, 2) == 35.44


# -- accuracy -------------------------------------------------------------------------------------------------


def brute_force(truth: np.ndarray, clusters: np.ndarray, classes: int) -> int:
    """Most items that any relabelling of the clusters can get right."""
    return max(int((np.array(order)[clusters] == truth).sum()) for order in permutations(range(classes)))


@steady
@given(st.integers(1, 7), st.integers(1, 40), st.integers(0, 10**6))
def test_the_assignment_is_the_best_of_all_permutations(classes: int, items: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, clusters = rng.integers(0, classes, items), rng.integers(0, classes, items)
    found = discovery_accuracy(truth, clusters, np.arange(classes // 2))
    assert found.all * items == pytest.approx(brute_force(truth, clusters, classes))


@steady
@given(st.integers(2, 9), st.integers(2, 60), st.integers(0, 10**6), st.sampled_from(["v1", "v2"]))
def test_all_is_the_weighted_mean_of_old_and_new(classes: int, items: int, seed: int, version: str) -> None:
    rng = np.random.default_rng(seed)
    truth, clusters = rng.integers(0, classes, items), rng.integers(0, classes + 2, items)
    found = discovery_accuracy(truth, clusters, np.arange(1, classes // 2 + 1), version)
    old = np.isin(truth, np.arange(1, classes // 2 + 1))
    assert found.weight == old.mean()
    parts = [w * value for w, value in ((found.weight, found.old), (1 - found.weight, found.new)) if w]
    assert found.all == pytest.approx(sum(parts))


@steady
@given(st.integers(2, 8), st.integers(2, 60), st.integers(0, 10**6))
def test_v1_is_never_below_v2(classes: int, items: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, clusters = rng.integers(0, classes, items), rng.integers(0, classes, items)
    by = [discovery_accuracy(truth, clusters, np.arange(classes // 2), version).all for version in ("v1", "v2")]
    assert by[0] >= by[1]


def test_v1_lets_one_cluster_serve_an_old_and_a_new_class() -> None:
    truth, clusters = np.array([0, 0, 0, 1, 1]), np.zeros(5, int)
    one, two = (discovery_accuracy(truth, clusters, [0], version) for version in ("v1", "v2"))
    assert (one.all, one.old, one.new, one.version) == (1, 1, 1, "v1")
    assert (two.all, two.old, two.new, two.version) == (0.6, 1, 0, "v2")


def test_names_of_clusters_do_not_matter_and_spare_ones_are_wrong() -> None:
    truth = np.array([7, 7, 7, 9, 9, 9])
    found = discovery_accuracy(truth, [40, 40, 2, 11, 11, 11], old_classes=[7])
    assert (found.old, found.new, found.all, found.items) == (pytest.approx(2 / 3), 1, pytest.approx(5 / 6), 6)


@pytest.mark.parametrize(("old", "missing"), [([0, 1], "new"), ([], "old")])
def test_without_items_of_a_kind_there_is_no_number(old: list[int], missing: str) -> None:
    found = discovery_accuracy([0, 0, 1], [1, 1, 0], old)
    assert np.isnan(getattr(found, missing))
    assert found.all == 1


@pytest.mark.parametrize(
    ("truth", "clusters", "message"),
    [
        ([0, 1], [0], "clusters must be one whole number for each of 2 items"),
        ([0.5, 1], [0, 1], "truth must be one whole number for each of 2 items, got float64"),
        ([], [], "no items were given"),
    ],
)
def test_accuracy_checks_its_input(truth: list, clusters: list, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        discovery_accuracy(truth, clusters, [0])


def test_an_unknown_version() -> None:
    with pytest.raises(UnknownName, match="no version 'v3'"):
        discovery_accuracy([0], [0], [0], "v3")


# -- semi-supervised k-means ----------------------------------------------------------------------------------


def test_planted_clusters_are_found() -> None:
    features, truth = planted(10, 20)
    labels = np.where((truth < 6) & (np.arange(200) % 2 == 0), truth, -1)
    found = ss_kmeans(features, labels, 10)
    assert found.classes.tolist() == list(range(6))
    assert (found.clusters[truth < 6] == truth[truth < 6]).all()
    assert discovery_accuracy(truth, found.clusters, range(6)).all == 1
    assert found.converged
    assert found.inertia == min(found.inertias)
    assert len(found.inertias) == 10


def naive_inertia(features: np.ndarray, clusters: np.ndarray, centres: np.ndarray) -> float:
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    return float(((unit - centres[clusters]) ** 2).sum())


@pytest.mark.parametrize("iterations", [1, 2, 100])
@pytest.mark.parametrize("labelled", [0, 30])
def test_labels_and_inertia_belong_to_the_centres_returned(iterations: int, labelled: int) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 4))
    labels = np.full(200, -1)
    labels[:labelled] = rng.integers(5, 8, labelled)
    found = ss_kmeans(features, labels, 9, inits=3, iterations=iterations)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    nearest = ((unit[:, None] - found.centres) ** 2).sum(axis=2).argmin(axis=1)
    free = labels < 0
    assert (found.clusters[free] == nearest[free]).all()
    assert (found.classes[found.clusters[~free]] == labels[~free]).all()
    assert found.inertia == pytest.approx(naive_inertia(features, found.clusters, found.centres), rel=1e-5)
    assert found.converged == (iterations == 100)
    if found.converged:
        means = np.array([unit[found.clusters == c].mean(axis=0) for c in range(9)])
        np.testing.assert_allclose(found.centres, means, atol=0.02)
    else:
        assert found.iterations == iterations


def naive_step(unit: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """One iteration as it is written down: labelled items at home, the others at the nearest centre."""
    nearest = ((unit[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    member = np.where(labels >= 0, labels, nearest)
    return np.array([unit[member == c].mean(axis=0) for c in range(len(centres))])


def test_against_iterations_written_out() -> None:
    features, truth = planted(6, 25, seed=3, noise=0.6)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.where((truth < 4) & (np.arange(150) % 3 == 0), truth, -1)
    for iterations in (1, 3):
        found = ss_kmeans(features, labels, 6, inits=1, iterations=iterations, seed=5)
        centres = np.array([unit[labels == c].mean(axis=0) for c in range(4)])
        backend = discovery.choose("cpu")
        free = np.flatnonzero(labels < 0)
        items = discovery._Items(
            backend, unit[free].astype(np.float32), np.ones(len(free)), centres, np.ones(4, int), 4.0
        )
        centres = next(discovery._starts(items, 2, 1, 5))
        for _ in range(iterations):
            centres = naive_step(unit, labels, centres)
        np.testing.assert_allclose(found.centres, centres, atol=1e-5)


def test_plus_plus_draws_by_squared_distance() -> None:
    """One centre at e0; rows at squared distances 0, 2 and 4 from it: the last is drawn twice as often."""
    rows = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    items = discovery._Items(discovery.choose("cpu"), rows, np.ones(3), np.array([[1.0, 0.0]]), np.array([1]), 1.0)
    chance = (np.arange(600) + 0.5)[:, None] / 600
    assert np.bincount(discovery._plus_plus(items, items.sums, chance)[:, 0]).tolist() == [0, 200, 400]
    second = discovery._plus_plus(items, items.sums, np.tile(chance, 2))
    assert (np.sort(second, axis=1) == [1, 2]).all()  # what is a centre already has distance 0


def test_without_labels_the_first_centre_is_any_row() -> None:
    rows = np.eye(4, dtype=np.float32)
    items = discovery._Items(discovery.choose("cpu"), rows, np.ones(4), np.zeros((0, 4)), np.zeros(0, int), 0.0)
    chance = np.array([[0.1, 0.99], [0.3, 0.01], [0.99, 0.5]])
    assert discovery._plus_plus(items, items.sums, chance).tolist() == [[0, 3], [1, 0], [3, 1]]


def test_rows_that_all_sit_on_centres_still_give_picks() -> None:
    found = ss_kmeans(np.ones((6, 2)), np.full(6, -1), 4, inits=2)
    assert len(found.centres) == 4
    assert found.inertia == pytest.approx(0, abs=1e-5)
    blank = ss_kmeans(np.zeros((6, 2)), np.full(6, -1), 3, inits=2)
    assert blank.inertia == 0
    assert np.isfinite(blank.centres).all()


def test_empty_clusters_go_to_the_farthest_rows_but_never_take_an_only_item() -> None:
    member, away = np.array([0, 0, 1, 3]), np.array([0.1, 0.5, 0.9, 0.7])
    discovery._fill(member, away, np.array([0, 0, 0, 1, 0]))
    assert member.tolist() == [0, 4, 1, 2]


def test_an_empty_cluster_is_filled_on_the_way() -> None:
    """Two centres begin at the same place: the second has nobody and is sent to the outlier."""
    angles = np.array([0.0, 0.02, -0.02, 1.5])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    items = discovery._Items(discovery.choose("cpu"), rows, np.ones(4), np.zeros((0, 2)), np.zeros(0, int), 0.0)
    start = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert (items.nearest(start)[0] == 0).all()
    found = discovery._lloyd(items, start, 10)
    assert found.member.tolist() == [0, 0, 0, 1]
    assert found.converged


def test_same_seed_same_clusters_and_an_initialisation_is_its_own() -> None:
    features = np.random.default_rng(2).normal(size=(150, 5))
    labels = np.full(150, -1)
    first, again = (ss_kmeans(features, labels, 12, inits=20, seed=4) for _ in range(2))
    assert (first.clusters == again.clusters).all()
    assert first.inertias == again.inertias
    assert ss_kmeans(features, labels, 12, inits=3, seed=4).inertias == pytest.approx(first.inertias[:3], rel=1e-4)
    assert ss_kmeans(features, labels, 12, inits=3, seed=5).inertias != first.inertias[:3]


def test_torch_gives_the_same_as_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    from ncalr.kernels.device import Device

    features, truth = planted(8, 30, noise=0.3)
    labels = np.where((truth < 5) & (np.arange(240) % 2 == 0), truth, -1)
    ours = ss_kmeans(features, labels, 8, inits=2)
    monkeypatch.setattr(discovery, "choose", lambda *_: Device(torch.device("cpu")))
    theirs = ss_kmeans(torch.from_numpy(features), torch.from_numpy(labels), 8, inits=2)
    assert (ours.clusters == theirs.clusters).all()
    assert ours.inertias == pytest.approx(theirs.inertias, rel=1e-4)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = planted(20, 80, noise=0.4)
    labels = np.where(np.arange(1600) % 4 == 0, truth, -1)
    whole = ss_kmeans(features, labels, 20, inits=1)
    monkeypatch.setattr(discovery, "_CACHE_BYTES", 1)
    monkeypatch.setattr(discovery, "_ROOM_BYTES", 20 * 4 * 100)
    assert (ss_kmeans(features, labels, 20, inits=1).clusters == whole.clusters).all()


def test_everything_labelled() -> None:
    features, truth = planted(3, 4)
    found = ss_kmeans(features, truth, 3)
    assert (found.clusters == truth).all()
    assert found.inertias == (found.inertia,)  # with nothing to draw there is one initialisation


@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [
        (7, [-1] * 6, "6 items cannot be put into 7 clusters"),
        (1, [0, 1, -1, -1, -1, -1], "the labels are of 2 classes already, which is more than classes=1"),
        (6, [0, 0, 0, 0, 0, -1], "1 unlabelled items cannot fill the 5 clusters without labels"),
        (0, [-1] * 6, "classes must be a whole number of at least 1, got 0"),
        (2.0, [-1] * 6, "classes must be a whole number of at least 1, got 2.0"),
        (2, [-1] * 5, "labels must be one whole number for each of 6 items"),
    ],
)
def test_clusters_that_cannot_be(classes: int, labels: list[int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ss_kmeans(np.eye(6), labels, classes)


@pytest.mark.parametrize("option", ["inits", "iterations"])
def test_at_least_one(option: str) -> None:
    with pytest.raises(BadInput, match=f"{option} must be a whole number of at least 1, got 0"):
        ss_kmeans(np.eye(6), [-1] * 6, 2, **{option: 0})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite(bad: float) -> None:
    features = np.eye(6)
    features[4, 1] = bad
    with pytest.raises(NotFinite, match="features hold NaN or infinity, first in row 4"):
        ss_kmeans(features, [-1] * 6, 2)


@pytest.mark.parametrize("features", [np.ones(6), np.ones((6, 0)), np.array([["a"]])])
def test_features_of_another_kind(features: np.ndarray) -> None:
    with pytest.raises(BadInput, match=r"features must be numbers of shape \(items, d\), got"):
        ss_kmeans(features, [-1] * 6, 2)


# -- discovery ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("A", "variant A: 60 items labelled, those of the pool that were asked for; the rest of the pool left aside"),
        ("B", "variant B: 60 items labelled, the whole pool"),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_planted_classes_are_discovered(variant: str, words: str, version: str) -> None:
    features, truth = planted(10, 20)
    found = discover(*seen(features, truth, 6), known=6, classes=10, variant=variant, version=version)
    assert (found.all, found.old, found.new) == (1, 1, 1)
    assert (found.variant, found.protocol, found.version) == (variant, words, version)
    assert found.weight == pytest.approx(3 / 7)
    assert found.items == 140
    assert len(found.kmeans.clusters) == 200


def test_known_classes_may_be_any() -> None:
    features, truth = planted(5, 20)
    names = np.array([40, 3, 17, 8, 25])[truth]
    chosen = np.isin(names, [17, 3]) & (np.arange(100) % 2 == 0)
    found = discover(
        features[chosen], names[chosen], features[~chosen], names[~chosen], known=[17, 3], classes=5, inits=3
    )
    assert (found.all, found.old, found.new) == (1, 1, 1)


def test_a_single_novel_class() -> None:
    features, truth = planted(5, 20)
    found = discover(*seen(features, truth, 4), known=4, classes=5)
    assert (found.all, found.old, found.new) == (1, 1, 1)
    assert found.weight == pytest.approx(2 / 3)


def test_no_novel_class() -> None:
    features, truth = planted(4, 20)
    found = discover(*seen(features, truth, 4), known=4, classes=4)
    assert (found.all, found.old, found.weight) == (1, 1, 1)
    assert np.isnan(found.new)


def test_a_known_class_of_which_nothing_was_labelled_is_found_like_a_new_one() -> None:
    features, truth = planted(6, 20)
    labelled, labels, rest, answers = seen(features, truth, 4)
    kept = labels != 2
    found = discover(labelled[kept], labels[kept], rest, answers, known=4, classes=6, variant="A")
    assert (found.all, found.old, found.new) == (1, 1, 1)


def test_discover_checks_its_input() -> None:
    labelled, labels, rest, answers = seen(*planted(4, 10), 3)
    fine = {"known": 3, "classes": 4}
    with pytest.raises(UnknownName, match="no variant 'C'"):
        discover(labelled, labels, rest, answers, variant="C", **fine)
    with pytest.raises(UnknownName, match="no version 'v0'"):
        discover(labelled, labels, rest, answers, version="v0", **fine)
    with pytest.raises(BadInput, match="labelled_features have 6 columns, features 7; they must come from the same"):
        discover(labelled[:, 1:], labels, rest, answers, **fine)
    with pytest.raises(BadInput, match="an item is labelled 2, which is not among the 2 known classes"):
        discover(labelled, labels, rest, answers, known=2, classes=4)
    with pytest.raises(BadInput, match="no unlabelled features were given"):
        discover(labelled, labels, rest[:0], answers[:0], **fine)
    with pytest.raises(BadInput, match="truth must be one whole number for each of"):
        discover(labelled, labels, rest, answers[1:], **fine)
    spoiled = rest.copy()
    spoiled[3, 0] = np.nan
    with pytest.raises(NotFinite, match=r"^features hold NaN or infinity, first in row 3"):
        discover(labelled, labels, spoiled, answers, **fine)


# -- the number of classes ------------------------------------------------------------------------------------


def test_the_number_of_planted_classes_is_estimated() -> None:
    features, truth = planted(12, 25, noise=0.1)
    labels = np.where((truth < 8) & (np.arange(300) % 2 == 0), truth, -1)
    found = estimate_classes(features, labels, most=30, inits=5)
    assert 11 <= found.classes <= 13
    tried = dict(found.tried)
    assert tried[found.classes] == max(tried.values()) == 1
    assert {8, 30} <= set(tried)
    assert tried[30] < 1
    assert list(tried) == sorted(tried)
    assert len(tried) < 15


@pytest.mark.parametrize(("labels", "most"), [([0, 1, -1], 2), ([-1, -1, -1], 3)])
def test_an_estimate_needs_room(labels: list[int], most: int) -> None:
    with pytest.raises(BadInput, match=f"most={most} must be above the number of labelled classes, which is"):
        estimate_classes(np.eye(3), labels, most=most)
