"""Near-copies are found by distance in pools of any scale, and left out of a batch whatever the strategy."""

from __future__ import annotations

import numpy as np
import pytest

import ncalr
from ncalr.acquire.copies import SAMPLE, UNSEEN, Copies
from ncalr.acquire.evidence import POOL_AXIS
from ncalr.acquire.example import example_pool
from ncalr.acquire.query import query
from ncalr.acquire.registry import resolve, strategies
from ncalr.data.shards import write_shards
from ncalr.errors import UnknownName
from ncalr.loop.run import Plan


def vectors(seed, n, d=48, inner=12, classes=5):
    """Vectors as an encoder gives them: classes, and fewer dimensions inside than outside."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(inner, d))
    centres = rng.normal(size=(classes, inner))
    return ((centres[rng.integers(0, classes, n)] + rng.normal(size=(n, inner))) @ mixing).astype(np.float32)


def copied(rows, times, noise, seed=0):
    """Return each row so many times, moved by a share of its length, and which row each is of."""
    rng = np.random.default_rng(seed)
    more = np.repeat(rows, times, axis=0)
    moved = rng.normal(size=more.shape)
    moved *= noise * np.linalg.norm(more, axis=1, keepdims=True) / np.linalg.norm(moved, axis=1, keepdims=True)
    return (more + moved).astype(np.float32), np.repeat(np.arange(len(rows)), times)


def copies_of(features, labelled=None):
    sample = np.sort(np.random.default_rng(1).permutation(len(features))[:SAMPLE])
    return Copies(lambda at: features[at], sample, len(features), labelled)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize(("items", "times"), [(2000, 5), (400, 20), (60, 5), (2000, 1)])
def test_copies_are_found_whatever_their_number_and_the_scale(items, times, noise, scale):
    features, item = copied(vectors(0, items), times, noise)
    features = scale * (features + 5)
    order = np.random.default_rng(2).permutation(len(features))
    found = copies_of(features).among(order)
    _, first = np.unique(item[order], return_index=True)
    wanted = np.ones(len(order), bool)
    wanted[first] = False
    assert (found != wanted).mean() < 0.005


@pytest.mark.parametrize("kind", ["plane", "clusters", "ten"])
def test_items_that_lie_close_by_nature_are_no_copies(kind):
    rng = np.random.default_rng(3)
    features = {
        "plane": rng.normal(size=(3000, 2)),
        "clusters": 10 * rng.normal(size=(20, 32))[rng.integers(0, 20, 3000)] + 0.1 * rng.normal(size=(3000, 32)),
        "ten": rng.normal(size=(10, 3)),
    }[kind]
    assert copies_of(features).among(np.arange(len(features))).mean() < 0.02


def test_equal_items_are_copies_in_a_pool_of_any_size():
    for n in (2, 30, 3000):
        assert copies_of(np.full((n, 4), 1e5)).among(np.arange(n)).sum() == n - 1


def test_items_near_a_labelled_one_are_copies_of_it():
    rows = vectors(4, 500)
    copies = copies_of(rows, rows[:3] + 1e-3)
    assert np.flatnonzero(copies.among(np.arange(500))).tolist() == [0, 1, 2]


def pool(times, noise=0.01):
    """Return every kind of evidence, each item of the pool so many times, and which item each is."""
    rows = vectors(7, 340)
    labelled = {"labelled_features": rows[300:], "labelled_enhanced": rows[300:]}
    given, axis = {**example_pool(300), **labelled}, POOL_AXIS
    found = {name: np.repeat(array, times, axis[name]) if name in axis else array for name, array in given.items()}
    found["features"], item = copied(rows[:300], times, noise if times > 1 else 0)
    return {**found, "enhanced": found["features"]}, item


@pytest.mark.parametrize(
    "strategy", [*strategies(), "ncal(select=quota)", "ncal(select=filtered)", "margin(select=typical)"]
)
def test_a_batch_holds_one_of_a_group(strategy):
    given, item = pool(4)
    picks = query(strategy, 30, copies="drop", **given)
    assert len(set(item[picks.ids].tolist())) == len(picks.scores) == 30


@pytest.mark.parametrize(
    "strategy", ["ncal", "margin", "random", "badge", "coreset", "ncal_coverage", "ncal(select=quota)"]
)
def test_without_copies_nothing_changes(strategy):
    given, _ = pool(1)
    assert query(strategy, 30, copies="drop", **given).ids.tolist() == query(strategy, 30, **given).ids.tolist()


def test_the_note_counts_copies_by_distance_and_the_option_leaves_them_out():
    given, item = pool(5)
    plain = query("margin", 30, **given)
    assert not any("near-cop" in note for note in plain.notes), "margin was not given the features"
    kept = query("ncal", 30, **given)
    same = 30 - len(set(item[kept.ids].tolist()))
    assert same > 10
    (note,) = [note for note in kept.notes if "near-cop" in note]
    assert note.startswith(f"{same} of the 30 picks are near-copies of another pick (distance below ")
    assert note.endswith("copies=drop leaves them out")
    dropped = query("ncal(copies=drop)", 30, **given)
    assert dropped.strategy == "ncal(copies=drop)"
    assert any(f"left out {same} of the first 30 picks" in note for note in dropped.notes)
    for first, other in zip(kept.ids, dropped.ids, strict=True):
        assert first == other, "the best stay as they are"
        if item[first] in item[kept.ids[1:]]:
            break


def test_copies_of_labelled_items_are_left_out():
    given, _ = pool(1)
    given = {name: given[name] for name in ("features", "checkpoint_predictions", "labelled_features", "labels")}
    best = query("ncal", 20, **given).ids[:8]
    given["labelled_features"] = np.concatenate([given["labelled_features"], given["features"][best]])
    given["labels"] = np.concatenate([given["labels"], np.arange(8) % 4])
    assert not set(best.tolist()) & set(query("ncal", 20, copies="drop", **given).ids.tolist())
    assert set(best.tolist()) & set(query("ncal", 20, **given).ids.tolist())


def test_the_order_of_the_pool_does_not_matter():
    given, _ = pool(4)
    order = np.random.default_rng(5).permutation(1200)
    mixed = {
        name: np.take(array, order, POOL_AXIS[name]) if name in POOL_AXIS else array for name, array in given.items()
    }
    ids = query("ncal", 30, copies="drop", **given).ids
    assert query("ncal", 30, copies="drop", ids=order, **mixed).ids.tolist() == ids.tolist()


@pytest.mark.parametrize("strategy", ["cluster_margin", "entropy", "coreset", "random"])
def test_too_few_different_items_are_filled_up(strategy):
    given, item = pool(4)
    few = {name: given[name][:80] for name in ("features", "logits")}
    for k in (30, 79, 80):
        picks = query(strategy, k, copies="drop", **few)
        assert len(set(picks.ids.tolist())) == len(picks.scores) == k
        assert len(set(item[picks.ids[:20]].tolist())) == 20 or k == 80
        assert any("near-copies all the same" in note for note in picks.notes) == (k < 80)


def test_what_is_needed_and_what_may_be_said():
    probs = np.full((4, 2), 0.5)
    assert UNSEEN in query("margin(copies=drop)", 1, probs=probs).notes
    assert query("margin(copies=keep)", 1, probs=probs).notes == ()
    with pytest.raises(UnknownName, match="Did you mean 'drop'"):
        query("margin(copies=drp)", 1, probs=probs)
    assert {"features", "labelled_features"} <= resolve("margin(copies=drop)").wants
    assert "features" not in resolve("margin").wants


@pytest.mark.parametrize("strategy", ["ncal", "margin", "ncal(fusion=rank)", "coreset", "ncal_coverage"])
@pytest.mark.parametrize("copies", ["keep", "drop"])
def test_a_pool_on_disk_gives_the_same(tmp_path, strategy, copies):
    given, _ = pool(4)
    log = given["checkpoint_predictions"]
    on_disk = {"features": given["features"], "logits": given["logits"], "flips": (log[1:] != log[:-1]).sum(0)}
    write_shards(tmp_path, on_disk, shard_items=500)
    known = {name: given[name] for name in ("labelled_features", "labels")}
    wanted = query(strategy, 30, copies=copies, **on_disk, **known, exclude=np.arange(5))
    found = ncalr.query_pool(strategy, 30, tmp_path, copies=copies, **known, exclude=np.arange(5))
    assert (found.ids.tolist(), found.notes) == (wanted.ids.tolist(), wanted.notes)
    assert np.array_equal(found.scores, wanted.scores)


@pytest.mark.parametrize("strategy", ["ncal_coverage", "margin", "random"])
def test_suggest_leaves_copies_out_unless_told_otherwise(strategy):
    features, item = copied(vectors(6, 60), 10, 0.01)
    labels = np.full(600, -1)
    labels[::50] = np.arange(12) % 3
    picks = ncalr.suggest(features, labels, 30, strategy)
    assert len(set(item[picks.ids].tolist()) - set(item[labels >= 0].tolist())) == 30
    if strategy != "ncal_coverage":
        kept = ncalr.suggest(features, labels, 30, f"{strategy}(copies=keep)")
        assert len(set(item[kept.ids].tolist())) < 30


def test_a_run_leaves_copies_out_unless_told_otherwise():
    assert str(Plan("ncal(fusion=rank)", (2,)).rule) == "ncal(fusion=rank, copies=drop)"
    assert str(Plan("ncal(copies=keep)", (2,)).rule) == "ncal(copies=keep)"
