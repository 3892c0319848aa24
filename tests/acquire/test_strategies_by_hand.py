"""One tiny input for each strategy, its answer worked out on paper."""

from __future__ import annotations

from math import cos, exp, log, radians, sin, sqrt

import numpy as np
import pytest
from scipy.stats import chisquare

from ncalr.acquire import strategies
from ncalr.acquire.example import example_pool
from ncalr.acquire.query import query
from ncalr.errors import NcalrError

pytestmark = pytest.mark.usefixtures("one_thread")

PROBS = np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [0.4, 0.35, 0.25]])
ROOT_HALF = sqrt(0.5)


def on_circle(*degrees):
    """Unit vectors at these angles."""
    return np.array([[cos(radians(a)), sin(radians(a))] for a in degrees])


def chord(degrees):
    """The distance of two unit vectors that far apart."""
    return 2 * sin(radians(degrees) / 2)


def test_every_strategy_has_a_test_here():
    tested = {name.removeprefix("test_").split("__")[0] for name in globals() if name.startswith("test_")}
    assert set(strategies()) - {"ncal"} <= tested  # ncal has a file of its own


# -- random ----------------------------------------------------------------------------------------------------


def test_random__is_decided_by_the_seed(backend):
    pool = np.zeros((100, 1))
    first = query("random", 10, features=pool, seed=3)
    assert first.ids.tolist() == query("random", 10, features=pool, seed=3).ids.tolist()
    assert first.ids.tolist() != query("random", 10, features=pool, seed=4).ids.tolist()
    assert len(set(first.ids.tolist())) == 10
    assert first.scores.tolist() == [0] * 10


def test_random__is_uniform_over_seeds(one_thread):
    pool = np.zeros((8, 1))
    picks = np.array([query("random", 2, features=pool, seed=seed).ids for seed in range(1600)])
    for place in (0, 1):
        assert chisquare(np.bincount(picks[:, place], minlength=8)).pvalue > 1e-3
    pairs = np.bincount(picks[:, 0] * 8 + picks[:, 1], minlength=64).reshape(8, 8)
    assert chisquare(pairs[~np.eye(8, dtype=bool)]).pvalue > 1e-3


def test_random__differs_between_rounds_of_one_seed():
    pool = np.zeros((50, 1))
    rounds = [tuple(query("random", 5, features=pool, seed=[7, r]).ids) for r in range(20)]
    assert len(set(rounds)) == 20


# -- uncertainty -----------------------------------------------------------------------------------------------

UNCERTAINTY = {
    "least_confidence": [0.5, 0.1, 0.6],
    "margin": [0.8, 0.15, 0.95],
    "entropy": [-sum(p * log(p) for p in row) for row in PROBS],
}


def check_uncertainty(name):
    expected = np.array(UNCERTAINTY[name])
    for given in ({"probs": PROBS}, {"logits": np.log(PROBS)}, {"logits": np.log(PROBS) + 40}):
        picks = query(name, 3, **given)
        assert picks.ids.tolist() == [2, 0, 1]
        np.testing.assert_allclose(picks.scores, expected[[2, 0, 1]], rtol=1e-12)
        narrow = {key: value.astype(np.float32) for key, value in given.items()}
        np.testing.assert_allclose(query(name, 3, **narrow).scores, expected[[2, 0, 1]], rtol=2e-5)


def test_least_confidence(backend):
    check_uncertainty("least_confidence")


def test_margin(backend):
    check_uncertainty("margin")


def test_entropy(backend):
    check_uncertainty("entropy")


@pytest.mark.parametrize("name", UNCERTAINTY)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_saturated_rows_keep_their_order(name, kind, backend):
    logits = np.array([[0, -30, -31], [0, -20, -25], [40, 15, 14], [0, -22, -25], [0, -1, -50]], kind)
    assert query(name, 5, logits=logits).ids.tolist() == [4, 1, 3, 2, 0]


@pytest.mark.parametrize("name", UNCERTAINTY)
def test_certainty_scores_zero_and_doubt_most(name, backend):
    picks = query(name, 2, probs=np.array([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]]))
    most = {"least_confidence": 0.75, "margin": 1, "entropy": log(4)}[name]
    assert picks.ids.tolist() == [1, 0]
    assert picks.scores[0] == pytest.approx(most)
    assert picks.scores[1] == pytest.approx(0, abs=1e-300)


def test_two_classes_rank_alike_under_all_three(backend):
    p = np.random.default_rng(0).random(50)
    orders = [query(name, 50, probs=np.stack([p, 1 - p], 1)).ids.tolist() for name in UNCERTAINTY]
    assert orders[0] == orders[1] == orders[2] == np.argsort(np.abs(p - 0.5)).tolist()


# -- neural collapse -------------------------------------------------------------------------------------------


def test_cmap(backend):
    """Class means (1, 0) and (0, 1), one label each: an item of class 0 moves (1, 0) half-way to itself."""
    features = np.array([[0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    picks = query(
        "cmap", 4, features=features, predictions=[0, 0, 0, 0], labelled_features=np.eye(2), labels=np.arange(2)
    )
    assert picks.ids.tolist() == [2, 3, 1, 0]  # (1, 1) / sqrt 2, then (4, 3) / 5, then no move, then (1, -1) / sqrt 2
    np.testing.assert_allclose(picks.scores, [ROOT_HALF, 0.6, 0, -ROOT_HALF], atol=1e-12)


def test_ff(backend):
    log_tn = np.array([[0, 0, 0, 2], [1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 1, 0]])  # A, B, A, B flips three times
    picks = query("ff", 4, checkpoint_predictions=log_tn)
    assert picks.ids.tolist() == [0, 3, 2, 1]
    assert picks.scores.tolist() == [3, 2, 1, 0]
    assert query("ff", 4, flips=np.array([3, 0, 1, 2], np.uint8)).ids.tolist() == [0, 3, 2, 1]


def test_label_dispersion(backend):
    log_tn = np.array([[0, 5, 1], [1, 5, 1], [0, 5, 2], [1, 5, 3]])  # half, none and half miss the modal class
    picks = query("label_dispersion", 3, checkpoint_predictions=log_tn)
    assert set(picks.ids.tolist()[:2]) == {0, 2}
    assert picks.scores.tolist() == [0.5, 0.5, 0]


def test_label_dispersion__ignores_the_order_of_checkpoints_and_ff_does_not(backend):
    log_tn = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert query("label_dispersion", 2, checkpoint_predictions=log_tn).scores.tolist() == [0.5, 0.5]
    assert query("ff", 2, checkpoint_predictions=log_tn).scores.tolist() == [3, 1]


# -- ensembles -------------------------------------------------------------------------------------------------


def test_bald(backend):
    """Members that contradict each other, members that agree to doubt, and one half-way."""
    members = np.array([[[1.0, 0], [0.5, 0.5], [1.0, 0.0]], [[0.0, 1], [0.5, 0.5], [0.5, 0.5]]])
    picks = query("bald", 3, sampled_probs=members)
    half_way = -0.75 * log(0.75) - 0.25 * log(0.25) - log(2) / 2
    assert picks.ids.tolist() == [0, 2, 1]
    np.testing.assert_allclose(picks.scores, [log(2), half_way, 0], atol=1e-12)


def test_bald__of_one_member_is_zero(backend):
    assert query("bald", 3, sampled_probs=PROBS[None]).scores.tolist() == [0, 0, 0]


def test_variation_ratio(backend):
    """Three votes: unanimous, two to one, all different."""
    vote = np.eye(3)
    members = np.stack([vote[[0, 0, 0]], vote[[0, 0, 1]], vote[[0, 1, 2]]])
    picks = query("variation_ratio", 3, sampled_probs=members)
    assert picks.ids.tolist() == [2, 1, 0]
    np.testing.assert_allclose(picks.scores, [2 / 3, 1 / 3, 0])


# -- diversity -------------------------------------------------------------------------------------------------


def test_coreset(backend):
    """On a line with 0 labelled: 10 is farthest, then 4 (4 away), then 7 (3 away), then 3 and 1."""
    line = np.array([[1.0], [10], [4], [3], [7]])
    picks = query("coreset", 5, features=line, labelled_features=np.zeros((1, 1)))
    assert picks.ids.tolist() == [1, 2, 4, 0, 3] or picks.ids.tolist() == [1, 2, 4, 3, 0]
    assert picks.scores.tolist() == [10, 4, 3, 1, 1]


def test_cdal(backend):
    """Labelled (1/2, 1/2): (0.9, 0.1) is 0.2 log 9 away, (0.2, 0.8) 0.15 log 4, (0.6, 0.4) least."""
    pool = np.array([[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    picks = query("cdal", 3, probs=pool, labelled_probs=np.array([[0.5, 0.5]]))
    assert picks.ids.tolist() == [1, 2, 0]
    assert picks.scores[0] == pytest.approx(0.2 * log(9))


def test_badge(backend):
    """g = (p1 - 1, p2) x z: lengths sqrt 2 * p2 * |z|; the twin of the first pick cannot be drawn second."""
    probs = np.array([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5], [0.75, 0.25]])
    features = np.array([[2.0, 0], [0, 3], [0, 3], [0, 0]])
    for seed in range(10):
        picks = query("badge", 2, probs=probs, features=features, seed=seed)
        assert picks.ids[0] in (1, 2)
        assert picks.ids[1] in (0, 3)
        assert picks.scores[0] == pytest.approx(2 * 0.25 * 9)
        expected = 2 * 0.25 * 9 + (2 * 0.0625 * 4 if picks.ids[1] == 0 else 0)  # the two gradients are orthogonal
        assert picks.scores[1] == pytest.approx(expected)


def test_sisom(backend):
    """Labelled 0 at the origin and 1 at (4, 0), so the way from one class to the other is 4."""
    picks = query(
        "sisom",
        5,
        enhanced=np.array([[1.0, 0], [3, 0], [3, 0], [0, 8], [9, 9]]),
        predictions=[0, 0, 1, 0, 2],
        labelled_enhanced=np.array([[0.0, 0], [4, 0]]),
        labels=[0, 1],
        classes=3,
    )
    assert picks.ids.tolist()[:3] == [3, 4, 1]
    np.testing.assert_allclose(picks.scores, [2, 1, 0.75, 0.25, 0.25])


def test_sisome(backend):
    """Classes at 0, 1 and at 4, 5 on a line: every labelled ratio is 1/3 or 1/4."""
    bank = np.array([[0.0], [1], [4], [5]])
    bank_logits = np.log(np.array([[1.0, 1], [2, 2], [1, 1], [2, 2]]))  # energies -log 2 and -log 4
    pool = np.array([[2.0], [0.0]])
    pool_logits = np.log(np.array([[4.0, 4], [1, 1]]))
    # nearest own neighbour of 0 is 1 (3 away from 4); of 1 it is 0 (4 away); 4 and 5 mirror that
    ratios = np.array([1 / 3, 1 / 4, 1 / 4, 1 / 3])
    energies = -np.log([2, 4, 2, 4])
    r = np.array([1 / 3, 0])
    expected = ratios.mean() * (-np.log([8, 2]) - energies.mean()) / energies.std()
    expected += (1 - ratios.mean()) * (r - ratios.mean()) / ratios.std()
    picks = query(
        "sisome",
        2,
        enhanced=pool,
        predictions=[0, 0],
        labelled_enhanced=bank,
        labels=[0, 0, 1, 1],
        logits=pool_logits,
        labelled_logits=bank_logits,
    )
    assert picks.ids.tolist() == np.argsort(-expected).tolist()
    np.testing.assert_allclose(picks.scores, np.sort(expected)[::-1], rtol=1e-6)


BUNCH = (-21, -15, -10, -6, -3, -1, 0, 1, 3, 6, 10, 15, 21)


def test_typiclust(backend):
    """Two bunches on the circle, dense in the middle: the middle of the larger one, then that of the other."""
    features = on_circle(*(90 + a for a in BUNCH[2:-2]), *BUNCH) * 5
    picks = query("typiclust", 2, features=features)
    assert picks.ids.tolist() == [9 + 6, 4]
    near_large = 2 * (chord(1) ** 2 + chord(3) ** 2 + chord(6) ** 2) / 6  # half of thirteen
    near_small = 2 * (chord(1) ** 2 + chord(3) ** 2) / 4  # half of nine
    np.testing.assert_allclose(picks.scores, [1 / (near_large + 1e-5), 1 / (near_small + 1e-5)], rtol=1e-5)


def test_typiclust__leaves_a_labelled_cluster_for_later(backend):
    features = on_circle(*(90 + a for a in BUNCH[2:-2]), *BUNCH)
    picks = query("typiclust(select=typical(clusters=2))", 2, features=features, labelled_features=on_circle(0))
    assert picks.ids[0] == 4
    assert picks.ids[1] in range(9, 22)


def test_probcover(backend):
    """A ball of 8 degrees: the middle of 0, 5, 10 covers three, then 90 covers itself, then nothing is left."""
    picks = query("probcover(select=coverage(kernel=ball, radius=0.13))", 4, features=on_circle(0, 5, 10, 90) * 3)
    assert picks.ids.tolist()[:2] == [1, 3]
    np.testing.assert_allclose(picks.scores, [3 / 4, 1 / 4, 0, 0])
    assert picks.notes == ()


def test_maxherding(backend):
    features = on_circle(0, 5, 10, 90)
    picks = query("maxherding(select=coverage(kernel=rbf, radius=0.5))", 2, features=features)
    near, far = exp(-((chord(5) / 0.5) ** 2)), [exp(-((chord(a) / 0.5) ** 2)) for a in (85, 80)]
    assert picks.ids.tolist() == [1, 3]
    left = 1 - far[0]
    left += max(0, far[1] - near) + max(0, exp(-((chord(90) / 0.5) ** 2)) - near)
    np.testing.assert_allclose(picks.scores, [(1 + 2 * near + far[0]) / 4, left / 4], rtol=1e-5)


def test_ncal_coverage(backend):
    """The doubtful group is covered first; a class with few labels weighs more; without a model it is coverage."""
    angles = (0, 2, 4, 90, 92, 94)
    features = on_circle(*angles)
    sure, unsure = [0.95, 0.05], [0.45, 0.55]
    spec = "ncal_coverage(select=coverage(radius=0.3))"
    picks = query(spec, 1, features=features, mean_probs=np.array([sure] * 3 + [unsure] * 3))
    assert picks.ids.tolist() == [4]
    labelled = {"labelled_features": on_circle(45, 46, 47, 48), "labels": np.array([0, 0, 0, 1])}
    probs = np.array([[0.6, 0.4]] * 3 + [[0.4, 0.6]] * 3)
    picks = query(spec, 1, features=features, mean_probs=probs, **labelled)
    assert picks.ids.tolist() == [4]
    assert picks.parts["balance"] == pytest.approx(2**-0.5)
    assert picks.parts["dynamics"] == pytest.approx(0.8)
    assert query(spec, 1, features=features, mean_probs=1 - probs, **labelled).ids.tolist() == [1]
    assert sorted(query(spec, 2, features=features).ids.tolist()) == [1, 4]


def test_ncal_coverage_takes_the_mean_over_checkpoints(backend):
    """Sampled probabilities give the same picks as their mean; without them the last outputs are used."""
    pool = example_pool()
    known = {name: pool[name] for name in ("features", "labelled_features", "labels")}
    mean = pool["sampled_probs"].mean(axis=0)
    wanted = query("ncal_coverage", 9, **known, mean_probs=mean)
    assert query("ncal_coverage", 9, **known, sampled_probs=pool["sampled_probs"]).ids.tolist() == wanted.ids.tolist()
    assert query("ncal_coverage", 9, **known, probs=mean).ids.tolist() == wanted.ids.tolist()


def test_ncal_coverage_by_geometry(backend):
    """Halfway between two class means the doubt is 1, on a class mean it is the least."""
    labelled = {"labelled_features": on_circle(0, 0, 90, 90), "labels": np.array([0, 0, 1, 1])}
    features = on_circle(0, 45, 90)
    spec = "ncal_coverage(weights=geometry, select=coverage(radius=0.1))"
    picks = query(spec, 3, features=features, **labelled)
    doubt = dict(zip(picks.ids.tolist(), picks.parts["geometry"].tolist(), strict=True))
    assert doubt[1] == pytest.approx(1)
    assert doubt[0] == pytest.approx(0)
    assert doubt[2] == pytest.approx(0)
    for wrong in ("weights=none", "balance=-1"):
        with pytest.raises(NcalrError, match=wrong.split("=")[0]):
            query(f"ncal_coverage({wrong})", 1, features=features)


def test_uherding(backend):
    """The same bunch, but only the item at 90 degrees is in doubt."""
    sure, torn = [1.0, 0.0], [0.5, 0.5]
    probs = np.array([sure, sure, sure, torn])
    picks = query("uherding(select=coverage(radius=0.5))", 1, features=on_circle(0, 5, 10, 90), probs=probs)
    assert picks.ids.tolist() == [3]
    assert picks.scores[0] == pytest.approx(1 / 4)


def test_cluster_margin_by_k_means_far_from_the_origin(backend):
    """The clusters of six items in one dimension, whose squares leave no digit for them in single precision."""
    features = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]], np.float32) + np.float32(200_000)
    probs = np.array([[0.5, 0.5]] * 4 + [[1.0, 0.0]] * 2)
    spec = "cluster_margin(select=round_robin(multiple=2, clusters=1, linkage_limit=1))"
    assert {int(query(spec, 2, features=features, probs=probs, seed=seed).ids[0]) for seed in range(20)} == {3}


def test_cluster_margin(backend):
    """Two clusters among the torn items: the small one goes first, and the sure item is never a candidate."""
    features = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    torn, sure = [0.5, 0.5], [1.0, 0.0]
    probs = np.array([torn, torn, torn, torn, sure, sure])
    seen = set()
    for seed in range(20):
        picks = query(
            "cluster_margin(select=round_robin(multiple=2, clusters=1))", 2, features=features, probs=probs, seed=seed
        )
        assert picks.ids[0] == 3
        seen.add(int(picks.ids[1]))
    assert seen == {0, 1, 2}
