"""ProbCover, MaxHerding and UHerding against greedy coverage with the whole kernel in memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from slow_references import greedy_coverage, normalised, softmax

from ncalr.acquire.query import query
from ncalr.acquire.select import coverage
from ncalr.errors import BadInput
from ncalr.kernels.host import Host

pytestmark = pytest.mark.usefixtures("one_thread")


def ball(radius):
    return lambda distance: (distance < radius).astype(float)


def rbf(radius):
    return lambda distance: np.exp(-((distance / radius) ** 2))


def pool(seed, n, d=5):
    return np.random.default_rng(seed).normal(size=(n, d))


def gains_of(features, picks, kernel, worth=None, labelled=None):
    """The gain of each pick in turn, and the best gain there was."""
    features = normalised(features)
    table = kernel(cdist(features, features))
    worth = np.ones(len(features)) if worth is None else worth
    covered = np.zeros(len(features)) if labelled is None else kernel(cdist(normalised(labelled), features)).max(axis=0)
    own, best = [], []
    for at in picks:
        gain = (worth * np.maximum(table - covered, 0)).mean(axis=1)
        own.append(gain[at])
        best.append(gain.max())
        covered = np.maximum(covered, table[at])
    return np.array(own), np.array(best)


# -- balls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labelled", [0, 7])
@pytest.mark.parametrize("radius", [0.3, 0.6])
def test_probcover_takes_the_ball_with_most_uncovered_items(radius, labelled, backend):
    """Gains are whole numbers over n with many ties, so each pick is checked to be one of the best."""
    features, bank = pool(0, 400), pool(1, 7) if labelled else None
    given = {"labelled_features": bank} if labelled else {}
    picks = query(f"probcover(select=coverage(kernel=ball, radius={radius}))", 60, features=features, **given)
    own, best = gains_of(features, picks.ids, ball(radius), labelled=bank)
    assert own.tolist() == best.tolist()
    np.testing.assert_allclose(picks.scores, own, rtol=1e-6)
    assert len(set(picks.ids.tolist())) == 60


def test_probcover_equals_the_naive_greedy_where_nothing_ties(backend):
    """Bunches of 9, 7, 5, 4 and 2 identical directions of different lengths: one pick each, largest first."""
    sizes, directions = (9, 7, 5, 4, 2), np.eye(5)
    member = np.repeat(np.arange(5), sizes)
    features = directions[member] * np.random.default_rng(0).uniform(1, 3, (27, 1))
    picks = query("probcover(select=coverage(kernel=ball, radius=0.5))", 5, features=features)
    assert member[picks.ids].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(picks.scores, np.array(sizes) / 27)


def test_covered_pools_are_filled_up_by_lot(backend, one_thread):
    features = np.tile([[1.0, 0.0]], (6, 1))
    seen = {
        tuple(query("probcover(select=coverage(kernel=ball, radius=0.5))", 3, features=features, seed=s).ids)
        for s in range(12)
    }
    assert all(len(set(picks)) == 3 for picks in seen)
    assert len(seen) > 6


def test_what_the_labelled_items_cover_earns_nothing(backend):
    features = np.array([[1.0, 0], [1, 0.01], [1, -0.01], [0, 1]])
    picks = query(
        "probcover(select=coverage(kernel=ball, radius=0.5))",
        1,
        features=features,
        labelled_features=np.array([[2.0, 0]]),
    )
    assert picks.ids.tolist() == [3]


def test_the_rule_for_the_radius(backend):
    """The largest radius at which 95 % of the balls are pure: pseudo-labels are the two bunches, 90 degrees apart."""
    rng = np.random.default_rng(0)
    angles = np.concatenate([rng.uniform(0, 5, 40), rng.uniform(90, 95, 40)])
    features = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], 1)
    picks = query("probcover", 2, features=features, classes=2)
    apart = cdist(features[:40], features[40:])
    nearest_other = np.concatenate([apart.min(axis=1), apart.min(axis=0)])
    (note,) = picks.notes
    chosen = float(note.removeprefix("radius ").removesuffix(" chosen from the data"))
    assert chosen == pytest.approx(np.quantile(nearest_other, 0.05), rel=1e-3)
    pure = (nearest_other >= chosen - 1e-3).mean()
    assert 0.93 <= pure <= 0.97
    assert (picks.ids < 40).sum() == 1


def test_a_pool_of_one_point_gets_some_radius(backend):
    assert query("probcover", 1, features=np.ones((1, 2))).ids.tolist() == [0]
    assert len(query("probcover", 3, features=np.ones((4, 2))).ids) == 3


# -- smooth kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labelled", [0, 7])
@pytest.mark.parametrize("radius", [0.2, 1.0])
def test_maxherding_is_the_naive_greedy(radius, labelled, backend):
    features, bank = pool(2, 500), pool(3, 7) if labelled else None
    given = {"labelled_features": bank} if labelled else {}
    expected, gains = greedy_coverage(features, 60, rbf(radius), labelled=bank)
    picks = query(f"maxherding(select=coverage(radius={radius}))", 60, features=features, **given)
    own, best = gains_of(features, picks.ids, rbf(radius), labelled=bank)
    assert (best - own).max() < 1e-6
    assert picks.ids.tolist()[:10] == expected[:10]
    np.testing.assert_allclose(picks.scores, gains, atol=1e-6)


@pytest.mark.parametrize("labelled", [0, 9])
def test_features_that_have_much_in_common_keep_their_digits(labelled, backend):
    """Unit vectors some thousandths apart: their squares, near 1, would leave two digits to single precision."""
    features, bank = (1000 + pool(seed, size, 8) for seed, size in ((7, 150), (8, 9)))
    given = {"labelled_features": bank.astype(np.float32)} if labelled else {}
    spec = "maxherding(select=coverage(radius=0.002))"
    picks = query(spec, 12, features=features.astype(np.float32), **given)
    own, best = gains_of(
        features.astype(np.float32).astype(np.float64), picks.ids, rbf(0.002), labelled=bank if labelled else None
    )
    np.testing.assert_allclose(own, best, rtol=2e-3)
    np.testing.assert_allclose(picks.scores, own, rtol=2e-3)


def test_uherding_weighs_items_by_their_doubt(backend):
    features, logits = pool(4, 400), np.random.default_rng(5).normal(size=(400, 6)) * 3
    top = np.sort(softmax(logits), axis=1)
    worth = 1 - (top[:, -1] - top[:, -2])
    picks = query(
        "uherding(select=coverage(radius=0.4))", 50, features=features, logits=logits, labelled_features=pool(6, 5)
    )
    own, best = gains_of(features, picks.ids, rbf(0.4), worth, pool(6, 5))
    assert (best - own).max() < 1e-6
    np.testing.assert_allclose(picks.scores, own, atol=1e-6)
    np.testing.assert_allclose(picks.parts["uherding"], worth[picks.ids], rtol=1e-9)


def of_ncal(seed, n=120):
    """Evidence for ncal, whose scores are about half negative, and the scores of all items."""
    rng = np.random.default_rng(seed)
    given = {
        "features": rng.normal(size=(n, 5)),
        "checkpoint_predictions": rng.integers(0, 4, (8, n)),
        "labelled_features": rng.normal(size=(12, 5)),
        "labels": np.arange(12) % 4,
    }
    whole = query("ncal", n, **given)
    scores = np.empty(n)
    scores[whole.ids] = whole.scores
    return given, scores


@pytest.mark.parametrize("seed", range(10))
def test_ranks_weigh_items_whose_scores_go_below_zero(seed, backend):
    given, scores = of_ncal(seed)
    assert scores.min() < 0
    worth, bank = rankdata(scores) / 120, given["labelled_features"]
    picks = query("ncal(select=coverage(radius=0.5, worth=rank))", 20, **given)
    own, best = gains_of(given["features"], picks.ids, rbf(0.5), worth, bank)
    np.testing.assert_allclose(own, best, atol=1e-6)
    np.testing.assert_allclose(picks.scores, own, atol=1e-6)
    assert picks.ids.tolist()[:10] == greedy_coverage(given["features"], 10, rbf(0.5), worth, bank)[0]


@pytest.mark.parametrize("seed", range(10))
def test_scores_that_are_not_negative_are_the_worth(seed, backend):
    given, _ = of_ncal(seed)
    flips = (given["checkpoint_predictions"][1:] != given["checkpoint_predictions"][:-1]).sum(axis=0) % 3
    picks = query("ff(select=coverage(radius=0.5))", 20, features=given["features"], flips=flips)
    own, best = gains_of(given["features"], picks.ids, rbf(0.5), flips)
    np.testing.assert_allclose(own, best, atol=1e-6)
    np.testing.assert_allclose(picks.scores, own, atol=1e-6)


def test_scores_below_zero_are_no_worth(backend):
    given, scores = of_ncal(0)
    words = "must not be negative, and those of this strategy go below 0; give select=coverage\\(worth=rank\\)"
    with pytest.raises(BadInput, match=words):
        query("ncal(select=coverage)", 20, **given)
    best = query("ncal(select=filtered(multiple=2, then=coverage))", 20, **given).ids
    assert scores[best].min() > 0, "the best of them are worth something"


def test_a_hair_below_zero_is_rounding(backend):
    """Probabilities a hair above 1, as single precision gives them, have an entropy a hair below 0."""
    probs = np.tile([[0.5, 0.5], [1 + 1e-7, 0.0]], (20, 1))
    picks = query("entropy(select=coverage(radius=0.5))", 5, features=pool(1, 40), probs=probs)
    assert len(picks.ids) == 5


def test_ranks_need_scores(backend):
    with pytest.raises(BadInput, match=r"'coverage\(worth=rank\)' needs scores"):
        query("maxherding(worth=rank)", 1, features=pool(1, 40))
    with pytest.raises(BadInput, match="worth must be 'score' or 'rank', got 'share'"):
        query("maxherding(worth=share)", 1, features=pool(1, 40))


def test_the_whole_pool_can_be_covered(backend):
    for strategy in ("probcover", "maxherding"):
        picks = query(strategy, 40, features=pool(7, 40))
        assert sorted(picks.ids.tolist()) == list(range(40))


@pytest.mark.parametrize("labelled", [0, 30])
def test_the_smooth_radius_is_a_distance_inside_the_pool(labelled, backend):
    """Each of the labelled and picked items has a ball with `share` times its part of the pool."""
    features, bank = pool(7, 200), pool(9, 30)[:labelled]
    apart = np.sort(cdist(normalised(features), normalised(features)), axis=1)
    nearest = min(199, int(np.ceil(2 * 200 / (labelled + 5))))
    spec = "maxherding(select=coverage(share=2))"
    (note,) = query(spec, 5, features=features, labelled_features=bank).notes
    assert float(note.split()[1]) == pytest.approx(np.median(apart[:, nearest]), rel=1e-3)


def test_collapsed_labelled_features_do_not_shrink_the_radius(backend):
    """Labelled features of a trained network lie on their class means: their distances say nothing of the pool."""
    features, bank = pool(7, 200), pool(9, 30)
    collapsed = np.repeat(bank[:1], 30, axis=0)
    notes = [query("maxherding", 5, features=features, labelled_features=given).notes for given in (bank, collapsed)]
    assert notes[0] == notes[1]


def test_density_prefers_the_tight_cluster(backend):
    """A loose cluster has more room to cover; by density the first picks come from the tight one."""
    rng = np.random.default_rng(0)
    loose, tight = (rng.normal(size=(60, 4)) * spread + [1, at, 0, 0] for at, spread in ((-2, 0.2), (2, 0.05)))
    features = np.concatenate([loose, tight])
    first = [
        int((query(f"maxherding(select=coverage(radius=0.02, density={d}))", 10, features=features).ids >= 60).sum())
        for d in (0, 1)
    ]
    assert first[1] > first[0]
    with pytest.raises(BadInput, match="density"):
        query("maxherding(select=coverage(density=-1))", 1, features=features)


def test_density_is_bounded_for_copies(backend):
    """The same item two hundred times over has no distances: its weight is bounded, so that other items are picked."""
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(300, 8)), np.repeat(rng.normal(size=(1, 8)), 20, axis=0)])
    picks = query("maxherding(select=coverage(radius=0.3, density=1))", 20, features=features)
    assert (picks.ids >= 300).sum() == 1


def test_blocks_of_labelled_items_cover_like_one(backend, monkeypatch):
    """With little memory the pool and the labelled set are gone through in many blocks."""
    features, bank = pool(10, 300), pool(11, 100)
    spec = "probcover(select=coverage(kernel=ball, radius=0.25))"
    whole = query(spec, 30, features=features, labelled_features=bank)
    monkeypatch.setattr("ncalr.acquire.select.coverage._BLOCK_BYTES", 1)
    assert query(spec, 30, features=features, labelled_features=bank).ids.tolist() == whole.ids.tolist()


# -- large pools and options -----------------------------------------------------------------------------------


def test_a_pool_beyond_the_limit_is_sampled_and_says_so(backend):
    features = pool(12, 400)
    picks = query("probcover(select=coverage(kernel=ball, radius=0.4, limit=90))", 20, features=features, seed=5)
    assert picks.notes == ("coverage computed on a random sample of 90 of 400 items",)
    assert len(set(picks.ids.tolist())) == 20
    again = query("probcover(select=coverage(kernel=ball, radius=0.4, limit=90))", 20, features=features, seed=6)
    assert picks.ids.tolist() != again.ids.tolist()


def test_the_sample_is_both_candidates_and_what_is_to_be_covered(backend):
    """All 90 of the sample can be picked, and running on these alone gives the same."""
    features = pool(12, 400)
    spec = "probcover(select=coverage(kernel=ball, radius=0.4, limit=90))"
    sample = np.sort(query(spec, 90, features=features, seed=5).ids)
    picks = query(spec, 20, features=features, seed=5)
    alone = query(spec, 20, features=features[sample], ids=sample, seed=5)
    assert picks.ids.tolist() == alone.ids.tolist()
    np.testing.assert_allclose(picks.scores, alone.scores, rtol=1e-6)


def test_scores_weigh_the_sample_too(backend):
    features, probs = np.tile(np.eye(4), (50, 1)), np.full((200, 2), 0.5)
    probs[:] = [1.0, 0.0]
    probs[np.arange(200) % 4 == 2] = 0.5
    picks = query("uherding(select=coverage(kernel=ball, radius=0.5, limit=100))", 1, features=features, probs=probs)
    assert picks.ids[0] % 4 == 2


def test_bad_options_are_refused():
    features = np.eye(3)
    with pytest.raises(BadInput, match="kernel must be 'rbf' or 'ball', got 'cubic'"):
        query("maxherding(select=coverage(kernel=cubic))", 1, features=features)
    for radius in (0, -1.5):
        with pytest.raises(BadInput, match=f"radius must be positive, got {radius}"):
            query(f"maxherding(select=coverage(radius={radius}))", 1, features=features)
    with pytest.raises(BadInput, match="limit must be at least 1, got 0"):
        query("maxherding(select=coverage(limit=0))", 1, features=features)


def test_the_sample_is_never_smaller_than_the_batch():
    picks = query("maxherding(select=coverage(limit=2))", 3, features=np.eye(5))
    assert len(set(picks.ids.tolist())) == 3
    assert "coverage computed on a random sample of 3 of 5 items" in picks.notes


def test_the_gain_of_the_smooth_kernel_on_the_cpu():
    rng = np.random.default_rng(0)
    rows = normalised(rng.normal(size=(100, 4))).astype(np.float32)
    norms = (rows * rows).sum(axis=1)
    kernel = Host().to_kernel(rows @ rows.T, norms, norms, 4.0, False)
    nothing, all_, one = (np.full(100, value, np.float32) for value in (0, np.inf, 1))
    gain = Host().coverage_drop(kernel, np.arange(100), nothing, all_, one)
    np.testing.assert_allclose(gain, np.exp(-4 * cdist(rows, rows, "sqeuclidean")).sum(axis=1), rtol=1e-5)


def spec_of(strategy):
    return f"{strategy}(select=coverage({'kernel=ball, radius=0.5' if strategy == 'probcover' else 'radius=0.5'}))"


@pytest.mark.parametrize("strategy", ["maxherding", "probcover", "uherding"])
def test_pairs_give_the_picks_of_the_whole_matrix(strategy, backend, monkeypatch):
    """Of 900 items with 30 labels only the pairs that matter are kept, and every pick is the greedy one."""
    features, bank, probs = pool(8, 900, 6), pool(9, 30, 6), softmax(pool(10, 900, 4))
    given = {"features": features, "labelled_features": bank, **({"probs": probs} if strategy == "uherding" else {})}
    whole = query(spec_of(strategy), 60, **given)
    monkeypatch.setattr(coverage, "_WHOLE", 300)
    monkeypatch.setattr(coverage, "_ROWS", 200)
    monkeypatch.setattr(coverage, "_COLUMNS", 190)
    pairs = query(spec_of(strategy), 60, **given)
    assert pairs.notes == whole.notes
    assert pairs.ids.tolist() == whole.ids.tolist()
    np.testing.assert_allclose(pairs.scores, whole.scores, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("strategy", "most"), [("maxherding", 30_000), ("probcover", 8_000)])
def test_with_few_labels_the_first_picks_come_from_a_sample(strategy, most, backend, monkeypatch):
    """Until the pairs that matter are few enough; from then on every pick is the greedy one."""
    features = pool(11, 900, 4)
    kernel = ball(0.5) if strategy == "probcover" else rbf(0.5)
    monkeypatch.setattr(coverage, "_WHOLE", 450)
    monkeypatch.setattr(coverage, "_PAIRS", most)
    picks = query(spec_of(strategy), 60, features=features, seed=3)
    first = int(picks.notes[0].split()[1])
    assert picks.notes == (f"first {first} picks chosen within a random sample of 450 of 900 items",)
    assert 8 <= first < 60
    own, best = gains_of(features, picks.ids, kernel)
    np.testing.assert_allclose(own[first:], best[first:], atol=1e-6)
    assert own[:first].sum() > 0.7 * best[:first].sum()
    assert len(set(picks.ids.tolist())) == 60


def test_small_batches_can_come_from_the_sample_alone(backend, monkeypatch):
    monkeypatch.setattr(coverage, "_WHOLE", 450)
    monkeypatch.setattr(coverage, "_PAIRS", 1)
    picks = query(spec_of("maxherding"), 5, features=pool(11, 900, 4))
    assert len(set(picks.ids.tolist())) == 5
    assert "first 5 picks chosen" in picks.notes[0]


def test_many_items_are_compared_by_principal_directions(backend, monkeypatch):
    """Where these keep nearly all of the gains, they keep nearly all of the coverage."""
    rng = np.random.default_rng(12)
    features = rng.normal(size=(900, 60)) * np.where(np.arange(60) < 12, 1, 0.2)
    bank = rng.normal(size=(30, 60)) * np.where(np.arange(60) < 12, 1, 0.2)
    given = {"features": features, "labelled_features": bank}
    whole = query("maxherding(radius=0.8)", 60, **given)
    monkeypatch.setattr(coverage, "_WHOLE", 300)
    monkeypatch.setattr(coverage, "_PRODUCTS", 16 * 900**2)
    short = query("maxherding(radius=0.8)", 60, **given)
    assert short.notes[0].startswith("pairs found by 16 of 60 principal directions: 9")
    own, _ = gains_of(features, short.ids, rbf(0.8), labelled=bank)
    assert own.sum() > 0.995 * whole.scores.sum()


def test_directions_that_would_lose_the_near_pairs_are_not_left_out(backend, monkeypatch):
    """Groups of close items all over 200 directions: 16 of these tell nothing of who is close to whom."""
    rng = np.random.default_rng(13)
    features = np.repeat(rng.normal(size=(150, 200)), 6, axis=0) + 0.05 * rng.normal(size=(900, 200))
    given = {"features": features, "labelled_features": features[::9]}
    whole = query("maxherding(radius=0.1)", 30, **given)
    monkeypatch.setattr(coverage, "_WHOLE", 300)
    monkeypatch.setattr(coverage, "_PRODUCTS", 16 * 900**2)
    careful = query("maxherding(radius=0.1)", 30, **given)
    assert careful.notes == whole.notes
    np.testing.assert_allclose(careful.scores, whole.scores, rtol=1e-4)
