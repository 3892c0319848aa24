"""NCAL-R against a transcription of the paper's Algorithm 1, its options by hand, its degenerate inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from slow_references import algorithm_1, one_at_a_time, printed_cmap, printed_ff, zscore

from ncalr.acquire.query import query
from ncalr.acquire.registry import resolve
from ncalr.acquire.scores.ncal import zscore as standardised
from ncalr.errors import BadInput, MissingEvidence, UnknownName
from ncalr.geometry import ClassStatistics


def problem(seed, n=300, m=80, classes=6, d=24, checkpoints=12, kind=np.float64):
    """A pool with ReLU-like features around class means, some of its predictions wavering."""
    rng = np.random.default_rng(seed)
    means = np.maximum(rng.normal(0.3, 1, (classes, d)), 0)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, m - classes)])
    predictions = rng.integers(0, classes, n)
    wavering = rng.random((checkpoints, n)) < rng.beta(0.3, 2, n)
    log = np.where(wavering, rng.integers(0, classes, (checkpoints, n)), predictions)
    log[-1] = predictions
    return {
        "features": np.maximum(means[predictions] + rng.normal(0, 0.7, (n, d)), 0).astype(kind),
        "predictions": predictions,
        "labelled_features": np.maximum(means[labels] + rng.normal(0, 0.7, (m, d)), 0).astype(kind),
        "labels": labels,
        "checkpoint_predictions": log,
    }


def printed_scores(given):
    return algorithm_1(
        given["features"],
        given["predictions"],
        given["labelled_features"],
        given["labels"],
        given["checkpoint_predictions"],
    )


def cmap_of(given, **changes):
    given = {**given, **changes}
    return printed_cmap(
        given["features"], given["predictions"], given["labelled_features"], given["labels"], given.get("counts")
    )


def by_id(picks):
    """Scores of a whole ranking, in the order of the pool."""
    scores = np.empty(len(picks))
    scores[picks.ids] = picks.scores
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_the_whole_ranking_is_that_of_algorithm_1(seed, backend):
    given = problem(seed)
    expected = printed_scores(given)
    picks = query("ncal", 300, **given)
    assert picks.ids.tolist() == np.argsort(-expected).tolist()
    np.testing.assert_allclose(picks.scores, np.sort(expected)[::-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_narrow_features_give_the_same_scores_to_their_precision(kind, backend):
    given = problem(3, kind=kind)
    wide = {name: a.astype(np.float64) if a.dtype == kind else a for name, a in given.items()}
    np.testing.assert_allclose(by_id(query("ncal", 300, **given)), printed_scores(wide), atol=2e-5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 8), d=st.integers(2, 20), checkpoints=st.integers(2, 9))
def test_scores_are_those_of_algorithm_1_for_any_shape(seed, classes, d, checkpoints):
    given = problem(seed, n=40, m=classes * 3, classes=classes, d=d, checkpoints=checkpoints)
    for name in ("features", "labelled_features"):
        given[name] = given[name] + 0.01  # no row of zeros: the printed formula divides by its length
    np.testing.assert_allclose(by_id(query("ncal", 40, **given)), printed_scores(given), atol=1e-8)


def test_the_best_k_are_the_head_of_the_whole_ranking(backend):
    given = problem(1)
    assert query("ncal", 25, **given).ids.tolist() == query("ncal", 300, **given).ids[:25].tolist()


def test_parts_are_cmap_and_flips_of_the_picks(backend):
    given = problem(2)
    picks = query("ncal", 40, **given)
    assert list(picks.parts) == ["cmap", "ff"]
    np.testing.assert_allclose(picks.parts["cmap"], cmap_of(given)[picks.ids], atol=1e-12)
    assert picks.parts["ff"].tolist() == printed_ff(given["checkpoint_predictions"])[picks.ids].tolist()


def test_rows_tell_rank_id_score_and_parts():
    given = problem(2)
    picks = query("ncal", 2, ids=[f"item {i}" for i in range(300)], **given)
    first, second = picks.rows()
    assert list(first) == ["rank", "id", "score", "cmap", "ff"]
    assert (first["rank"], second["rank"]) == (1, 2)
    assert first["id"] == str(picks.ids[0])
    assert first["score"] == picks.scores[0] >= second["score"]
    assert second["ff"] == picks.parts["ff"][1]


def test_the_name_of_the_method_comes_back_with_the_picks():
    assert query("ncal(fusion=rank, sign=-1)", 1, **problem(0)).strategy == "ncal(fusion=rank, sign=-1)"


# -- where predictions, flips and statistics come from ---------------------------------------------------------


def test_predictions_may_come_from_any_source(backend):
    given = problem(4)
    predictions = given.pop("predictions")
    expected = query("ncal", 300, predictions=predictions, **given).ids.tolist()
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 6))
    logits[np.arange(300), predictions] = logits.max(axis=1) + 1
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert query("ncal", 300, logits=logits, **given).ids.tolist() == expected
    assert query("ncal", 300, probs=probs, **given).ids.tolist() == expected
    assert query("ncal", 300, **given).ids.tolist() == expected  # the last checkpoint


def test_flips_and_statistics_may_be_given_ready_made(backend):
    given = problem(4)
    expected = query("ncal", 300, **given).ids.tolist()
    flips = printed_ff(given.pop("checkpoint_predictions"))
    statistics = ClassStatistics.from_labelled(given.pop("labelled_features"), given.pop("labels"), 6)
    for kind in (np.uint8, np.uint16, np.int64):
        picks = query("ncal", 300, flips=flips.astype(kind), statistics=statistics, **given)
        assert picks.ids.tolist() == expected


def test_what_cannot_be_derived_is_named_with_its_arguments():
    given = problem(0)
    del given["labels"]
    with pytest.raises(
        MissingEvidence, match=r"'ncal' needs statistics.*statistics= or labelled_features= and labels="
    ):
        query("ncal", 3, **given)


# -- options ---------------------------------------------------------------------------------------------------


def test_fusion_by_rank_averages_the_two_ranks(backend):
    given = problem(5)
    ranks = [rankdata(cmap_of(given)), rankdata(printed_ff(given["checkpoint_predictions"]))]
    np.testing.assert_allclose(by_id(query("ncal(fusion=rank)", 300, **given)), np.mean(ranks, axis=0) / 300)


def test_fusion_by_winsor_clips_each_part_at_three(backend):
    given = problem(5)
    flips = np.zeros(300, np.int64)
    flips[:3] = [1, 9, 2]
    del given["checkpoint_predictions"]
    parts = [zscore(cmap_of(given)), zscore(flips)]
    assert max(part.max() for part in parts) > 3
    expected = np.mean([np.clip(part, -3, 3) for part in parts], axis=0)
    np.testing.assert_allclose(by_id(query("ncal(fusion=winsor)", 300, flips=flips, **given)), expected, atol=1e-9)


def test_fusion_by_zscore_is_the_default(backend):
    given = problem(5)
    assert query("ncal(fusion=zscore)", 300, **given).ids.tolist() == query("ncal", 300, **given).ids.tolist()


def test_an_unknown_fusion_is_refused():
    with pytest.raises(BadInput, match="fusion must be 'zscore', 'rank' or 'winsor', got 'mean'"):
        query("ncal", 3, fusion="mean", **problem(0))


def test_sign_turns_cmap_over_and_leaves_ff(backend):
    given = problem(6)
    expected = (zscore(printed_ff(given["checkpoint_predictions"])) - zscore(cmap_of(given))) / 2
    np.testing.assert_allclose(by_id(query("ncal", 300, sign=-1, **given)), expected, atol=1e-9)
    with pytest.raises(BadInput, match=r"sign must be \+1 or -1, got 2"):
        query("ncal", 3, sign=2, **given)


def test_centring_subtracts_the_mean_of_the_class_means(backend):
    given = problem(7)
    labelled, labels = given["labelled_features"], given["labels"]
    centre = np.mean([labelled[labels == c].mean(axis=0) for c in range(6)], axis=0)
    delta = cmap_of(given, features=given["features"] - centre, labelled_features=labelled - centre)
    picks = query("cmap(center=True)", 300, **given)
    np.testing.assert_allclose(by_id(picks), delta, atol=1e-9)
    expected = (zscore(delta) + zscore(printed_ff(given["checkpoint_predictions"]))) / 2
    np.testing.assert_allclose(by_id(query("ncal(center=True)", 300, **given)), expected, atol=1e-9)


def test_neutral_counts_give_every_class_the_mean_count(backend):
    given = problem(8)
    delta = cmap_of(given, counts=dict.fromkeys(range(6), 80 / 6))
    np.testing.assert_allclose(by_id(query("cmap(counts=neutral)", 300, **given)), delta, atol=1e-9)
    expected = (zscore(delta) + zscore(printed_ff(given["checkpoint_predictions"]))) / 2
    np.testing.assert_allclose(by_id(query("ncal(counts=neutral)", 300, **given)), expected, atol=1e-9)
    with pytest.raises(BadInput, match="counts must be 'paper' or 'neutral', got 'equal'"):
        query("ncal(counts=equal)", 3, **given)


def test_an_unknown_option_is_named_with_the_nearest():
    with pytest.raises(UnknownName, match=r"no option of strategy 'ncal' called 'fusoin'. Did you mean 'fusion'"):
        query("ncal", 3, fusoin="rank", **problem(0))


# -- degenerate inputs -----------------------------------------------------------------------------------------


def test_constant_cmap_counts_nothing(backend):
    given = problem(9)
    given["features"] = np.tile(given["features"][:1] + 1, (300, 1))
    given["predictions"] = np.zeros(300, np.int64)
    expected = zscore(printed_ff(given["checkpoint_predictions"])) / 2
    for fusion in ("zscore", "winsor"):
        wanted = np.clip(expected, -1.5, 1.5) if fusion == "winsor" else expected
        np.testing.assert_allclose(by_id(query("ncal", 300, fusion=fusion, **given)), wanted, atol=1e-9)


def test_constant_flips_count_nothing(backend):
    given = problem(9)
    given["checkpoint_predictions"] = np.tile(given["predictions"], (5, 1))
    np.testing.assert_allclose(by_id(query("ncal", 300, **given)), zscore(cmap_of(given)) / 2, atol=1e-9)


def test_standard_scores_of_very_small_numbers(backend):
    """Their squares are 0 in float64; their spread is not."""
    values = np.array([1.0, 2.0, 4.0])
    for scale in (1e-170, 1e-300, 1.0, 1e100):
        ours = backend.numpy(standardised(backend.asarray(values * scale), backend))
        np.testing.assert_allclose(ours, zscore(values), rtol=1e-12)


def test_nothing_to_tell_items_apart_scores_zero_and_draws(backend):
    given = {
        "features": np.ones((8, 3)),
        "predictions": np.zeros(8, np.int64),
        "flips": np.zeros(8, np.int64),
        "labelled_features": np.eye(3),
        "labels": np.arange(3),
    }
    picks = [query("ncal", 8, seed=seed, **given) for seed in range(6)]
    assert all((p.scores == 0).all() for p in picks)
    assert len({tuple(p.ids) for p in picks}) == 6


def test_a_pool_of_one_item_is_picked():
    picks = query(
        "ncal",
        1,
        features=np.ones((1, 2)),
        predictions=[1],
        flips=[3],
        labelled_features=np.eye(2),
        labels=[0, 1],
        ids=["only"],
    )
    assert picks.ids.tolist() == ["only"]
    assert picks.scores.tolist() == [0]


def test_a_single_labelled_class_leaves_ff_alone(backend):
    given = problem(10)
    given["labels"] = np.zeros(80, np.int64)
    picks = query("ncal", 300, **given)
    assert not picks.parts["cmap"].any()
    np.testing.assert_allclose(by_id(picks), zscore(printed_ff(given["checkpoint_predictions"])) / 2, atol=1e-9)


def test_a_predicted_class_without_labels_is_created_by_the_item(backend):
    """The change of CMA over K' to CMA over K' + 1 classes, on the scale K' (K' - 1) / 2 of the others."""
    given = problem(11)
    given["labels"][given["labels"] == 5] = 0
    kept = given["predictions"] == 5
    bars = [given["labelled_features"][given["labels"] == c].mean(axis=0) for c in range(5)]

    def alignment(vectors):
        units = np.array([v / np.linalg.norm(v) for v in vectors])
        table = units @ units.T
        return (table.sum() - np.trace(table)) / (len(units) * (len(units) - 1))

    expected = [10 * (alignment([*bars, z]) - alignment(bars)) for z in given["features"][kept]]
    np.testing.assert_allclose(by_id(query("cmap", 300, **given))[kept], expected, atol=1e-10)


def test_a_feature_of_zeros_moves_nothing(backend):
    given = problem(12)
    given["features"][4] = 0
    given["features"][5] = given["labelled_features"][given["labels"] == given["predictions"][5]].mean(axis=0) * 3
    cmap = by_id(query("cmap", 300, **given))
    np.testing.assert_allclose(cmap[[4, 5]], 0, atol=1e-12)


def test_cmap_keeps_its_digits_when_classes_are_large(backend):
    """The printed formula in float32 is off by a tenth here; see I.2 of the notes."""
    given = problem(13)
    counts = dict.fromkeys(range(6), 100_000)
    means = np.array([given["labelled_features"][given["labels"] == c].mean(axis=0) for c in range(6)])
    statistics = ClassStatistics(np.full(6, 100_000), means, np.zeros(6))
    exact = cmap_of(given, counts=counts)
    features, predictions = given["features"].astype(np.float32), given["predictions"]
    ours = by_id(query("cmap", 300, features=features, predictions=predictions, statistics=statistics))
    np.testing.assert_allclose(ours, exact, atol=2e-6 * np.abs(exact).max())


# -- one pick at a time ----------------------------------------------------------------------------------------


ORDER = ("features", "predictions", "labelled_features", "labels", "checkpoint_predictions")


@pytest.mark.parametrize("seed", range(3))
def test_sequential_is_a_loop_of_queries(seed, backend):
    given = problem(seed, n=120, m=30)
    picks = query("ncal(select=sequential)", 25, **given)
    expected = one_at_a_time(*(given[name] for name in ORDER), 25)
    assert picks.ids.tolist() == expected
    assert picks.ids.tolist() != query("ncal", 25, **given).ids.tolist()


def test_sequential_equals_labelling_by_hand_between_queries(backend):
    """Query one, move it to the labelled set with its predicted label, query again; the pool stays for the z-scores."""
    given = problem(5, n=60, m=20)
    picks = query("ncal(select=sequential)", 6, **given)
    labelled, labels, expected = given["labelled_features"], given["labels"], []
    for _ in range(6):
        whole = query("ncal", 60, **{**given, "labelled_features": labelled, "labels": labels})
        best = next(i for i in whole.ids.tolist() if i not in expected)
        expected.append(best)
        labelled = np.vstack([labelled, given["features"][best]])
        labels = np.append(labels, given["predictions"][best])
    assert picks.ids.tolist() == expected


def test_sequential_reports_the_score_each_item_was_picked_for(backend):
    given = problem(5, n=60, m=20)
    picks = query("ncal(select=sequential)", 3, **given)
    first = query("ncal", 1, **given)
    assert picks.scores[0] == pytest.approx(first.scores[0])
    moved = dict(given)
    moved["labelled_features"] = np.vstack([given["labelled_features"], given["features"][picks.ids[0]]])
    moved["labels"] = np.append(given["labels"], given["predictions"][picks.ids[0]])
    assert picks.scores[1] == pytest.approx(by_id(query("ncal", 60, **moved))[picks.ids[1]])


def test_sequential_keeps_the_options_of_the_strategy(backend):
    given = problem(6, n=60, m=20)
    first = query("ncal(select=sequential, sign=-1, fusion=rank)", 1, **given)
    assert first.ids.tolist() == query("ncal(sign=-1, fusion=rank)", 1, **given).ids.tolist()


def test_sequential_over_cmap_alone(backend):
    given = problem(6, n=60, m=20)
    picks = query("cmap(select=sequential)", 10, **given)
    labelled, labels, expected = given["labelled_features"], given["labels"], []
    for _ in range(10):
        scores = printed_cmap(given["features"], given["predictions"], labelled, labels)
        scores[expected] = -np.inf
        expected.append(int(scores.argmax()))
        labelled = np.vstack([labelled, given["features"][expected[-1]]])
        labels = np.append(labels, given["predictions"][expected[-1]])
    assert picks.ids.tolist() == expected


def test_a_shortlist_runs_the_same_loop_among_the_best(backend):
    given = problem(7, n=120, m=30)
    picks = query("ncal(select=sequential(shortlist=3))", 10, **given)
    assert picks.notes == ("sequential among the best 30 items",)
    best = np.sort(np.argsort(-printed_scores(given))[:30])
    among = one_at_a_time(
        given["features"][best],
        given["predictions"][best],
        given["labelled_features"],
        given["labels"],
        given["checkpoint_predictions"][:, best],
        10,
    )
    assert picks.ids.tolist() == best[among].tolist()


def test_a_shortlist_of_everything_changes_nothing(backend):
    given = problem(7, n=50, m=20)
    whole = query("ncal(select=sequential)", 8, **given)
    assert query("ncal(select=sequential(shortlist=100))", 8, **given).ids.tolist() == whole.ids.tolist()
    assert whole.notes == ()


def test_a_shortlist_below_one_is_refused():
    with pytest.raises(BadInput, match=r"shortlist must be at least 1 \(times k\), got 0.5"):
        query("ncal(select=sequential(shortlist=0.5))", 3, **problem(0))


def test_sequential_reaches_every_item(backend):
    given = problem(7, n=20, m=12)
    assert sorted(query("ncal(select=sequential)", 20, **given).ids.tolist()) == list(range(20))


def test_filtered_then_sequential_is_the_shortlist(backend):
    given = problem(7, n=120, m=30)
    picks = query("ncal(select=filtered(multiple=3, then=sequential))", 10, **given)
    first, *_ = np.argsort(-printed_scores(given))
    assert picks.ids[0] == first
    assert set(picks.ids.tolist()) <= set(np.argsort(-printed_scores(given))[:30].tolist())
    assert len(set(picks.ids.tolist())) == 10


@pytest.mark.parametrize("means", ["trimmed", "median"])
def test_class_means_that_wrong_labels_cannot_drag_away(means):
    """A third of the labels of class 0 are wrong: with robust means the scores are nearly those of clean labels."""
    rng = np.random.default_rng(0)
    centres = np.array([[6.0, 1, 1], [1, 6, 1], [1, 1, 6]])
    truth = rng.integers(0, 3, 240)
    labelled = centres[truth] + rng.normal(size=(240, 3)) * 0.4
    noisy = truth.copy()
    noisy[np.flatnonzero(truth == 1)[:40]] = 0
    pool = centres[rng.integers(0, 3, 300)] + rng.normal(size=(300, 3))
    arrays = {"features": pool, "predictions": (pool @ centres.T).argmax(1), "labelled_features": labelled}

    def scores(labels, spec):
        return query(spec, 300, labels=labels, ids=np.arange(300), **arrays)

    def by_id(picks):
        return picks.scores[np.argsort(picks.ids)]

    clean = by_id(scores(truth, "cmap(counts=neutral)"))
    plain, robust = (
        by_id(scores(noisy, spec)) for spec in ("cmap(counts=neutral)", f"cmap(counts=neutral, means={means})")
    )
    agreement = [np.corrcoef(clean, other)[0, 1] for other in (plain, robust)]
    assert agreement[1] > 0.97 > agreement[0] + 0.05, agreement


def test_means_belong_to_strategies_with_class_means():
    probs = np.full((4, 2), 0.5)
    with pytest.raises(UnknownName, match="means"):
        query("margin(means=trimmed)", 1, probs=probs)
    with pytest.raises(UnknownName, match="Did you mean 'trimmed'"):
        query(
            "cmap(means=trimed)", 1, features=np.ones((4, 2)), probs=probs, labelled_features=np.eye(2), labels=[0, 1]
        )
    for spec in ("ncal(means=median, select=sequential)", "cmap(means=trimmed, select=filtered(then=sequential))"):
        with pytest.raises(BadInput, match="cannot be merged or updated"):
            resolve(spec)  # before anything is trained


# -- what is said about the picks ---------------------------------------------------------------------------------


def test_a_part_that_tells_nothing_is_said(backend):
    given = problem(3)
    assert query("ncal", 10, **given).notes == ()
    still = {**given, "flips": np.zeros(300, int)}
    del still["checkpoint_predictions"]
    note = "ff is the same for all items: the picks go by cmap alone"
    assert query("ncal", 10, **still).notes == (note,)
    assert query("ncal(fusion=rank)", 10, **still).notes == (note,)
    assert query("cmap", 10, **still).notes == ()


@pytest.mark.parametrize("select", ["k_center", "kmeans_pp", "typical"])
def test_scores_that_a_selector_does_not_look_at_are_no_reason(select, backend):
    """These are the picks of the selector alone; the note says so, and no part is shown as the reason."""
    given = problem(5)
    picks = query(f"ncal(select={select})", 10, least=3, **given)
    alone = {name: given[name] for name in ("features", "labelled_features")}
    plain = query(f"coreset(select={select})", 10, **alone)
    assert picks.ids.tolist() == plain.ids.tolist()
    assert picks.scores.tolist() == plain.scores.tolist()
    assert picks.notes == (
        f"select={select} looks at no scores: those of ncal chose nothing among these items; "
        f"select=filtered(then={select}) takes the best by score first",
    )
    assert (picks.parts, picks.least, plain.notes) == ({}, None, ())
    both = query(f"ncal(select=filtered(then={select}))", 10, **given)
    assert set(both.parts) == {"cmap", "ff"}
    assert not any("looks at no scores" in note for note in both.notes)
