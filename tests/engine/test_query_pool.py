"""A pool on disk gives the answer of the same arrays in memory: any strategy, any shards, any workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_pool import EVERYTHING, N, assert_same, evidence, split, write

import ncalr
from ncalr.acquire import Strategy, resolve
from ncalr.acquire.evidence import Evidence
from ncalr.acquire.scores.ncal import by_moments, fuse
from ncalr.data.exchange import by_item
from ncalr.data.shards import ShardedPool, append_shards, put_columns, write_shards
from ncalr.engine import open_engine
from ncalr.engine import work as working
from ncalr.engine.hold import Holder, Share
from ncalr.engine.lazy import Layers
from ncalr.errors import BadInput, Damaged, MissingEvidence, NotFinite, UnknownName
from ncalr.geometry import ClassStatistics
from ncalr.kernels import choose

POOL, LABELLED = split(evidence())
NAMES = np.array([f"item {at * 7919 % 10007}" for at in range(N)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same pool in 1, 2 and 7 shards; in 7 with texts for ids, too."""
    root = tmp_path_factory.mktemp("pools")
    for shards in (1, 2, 7):
        write(root / str(shards), POOL, shards)
    write(root / "named", POOL, 7, ids=NAMES)
    return root


@pytest.fixture(scope="module")
def wanted():
    """The answers in memory, found once."""
    kept = {}

    def answer(strategy, named=False, **options):
        key = (strategy, named, str(options))
        if key not in kept:
            ids = NAMES if named else None
            kept[key] = ncalr.query(strategy, 30, **POOL, **LABELLED, ids=ids, seed=5, **options)
        return kept[key]

    return answer


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("strategy", EVERYTHING)
def test_shards_and_workers_change_nothing(folders, wanted, strategy, shards, workers):
    found = ncalr.query_pool(strategy, 30, folders / str(shards), **LABELLED, seed=5, workers=workers)
    assert_same(found, wanted(strategy))


@pytest.mark.parametrize("strategy", EVERYTHING)
def test_ids_and_items_left_out(folders, wanted, strategy):
    """Texts for ids; a third of the pool left out, one shard whole."""
    out = [*NAMES[:130], *NAMES[300:500:2]]
    found = ncalr.query_pool(strategy, 30, folders / "named", **LABELLED, exclude=out, seed=5, workers=2)
    assert_same(found, wanted(strategy, named=True, exclude=out))
    assert not set(found.ids) & set(out)


@pytest.mark.parametrize("strategy", ["ncal", "random", "coreset", "typiclust"])
def test_positions_left_out(folders, wanted, strategy):
    out = np.arange(0, N, 2)
    found = ncalr.query_pool(strategy, 30, folders / "7", **LABELLED, exclude=out, seed=5, workers=2)
    assert_same(found, wanted(strategy, exclude=out))
    assert_same(ncalr.query_pool(strategy, 30, folders / "7", **LABELLED, exclude=[], seed=5), wanted(strategy))


@pytest.mark.parametrize("strategy", ["ncal", "ncal(fusion=winsor)", "margin", "random", "badge"])
def test_many_small_chunks(folders, wanted, strategy, monkeypatch):
    """Buffers used again and again, candidates sorted out again and again."""
    monkeypatch.setattr(working, "UNIT_ROWS", 64)
    monkeypatch.setattr(working.Work, "_cut", lambda self, unit: [(at, at + 1) for at in range(*unit)])
    monkeypatch.setattr(working.Work, "unit_rows", 64)
    monkeypatch.setattr("ncalr.engine.tally.SETTLE", 5)
    found = ncalr.query_pool(strategy, 30, folders / "2", **LABELLED, seed=5, workers=3)
    assert_same(found, wanted(strategy))


def passes(strategy, folder, **options):
    """How often the pool was gone through, and the picks."""
    seen = []
    picks = ncalr.query_pool(
        strategy, 30, folder, **LABELLED, seed=5, progress=lambda done, total: seen.append((done, total)), **options
    )
    assert {total for _, total in seen} == {N}
    return sum(done == N for done, _ in seen), picks


def test_ncal_takes_one_pass(folders, wanted):
    for strategy in ("ncal", "margin", "random"):
        number, picks = passes(strategy, folders / "7", workers=2)
        assert number == 1
        assert_same(picks, wanted(strategy))


def columns_of_features(evidence):
    """Two parts that stand in the features."""
    return {"first": evidence["features"][:, 0], "second": evidence["features"][:, 1]}


PLAIN = Strategy(
    "plain", frozenset({"features"}), columns_of_features, "", fuse=fuse, by_moments=by_moments, rowwise=True
)


@pytest.mark.parametrize(("fusion", "number"), [("zscore", 1), ("winsor", 2)])
def test_a_clipped_score_takes_a_second_pass(tmp_path, fusion, number):
    """Thirty items are clipped to the same score: the lottery decides, not the value that a single pass would keep."""
    rng = np.random.default_rng(0)
    features = np.stack([rng.random(3000), np.zeros(3000)], axis=1).astype(np.float32)
    features[100:130, 0] += 100 + np.arange(30)
    write_shards(tmp_path, {"features": features}, shard_items=1000)
    seen = []
    found = ncalr.query_pool(PLAIN, 5, tmp_path, seed=1, fusion=fusion, progress=lambda done, total: seen.append(done))
    assert_same(found, ncalr.query(PLAIN, 5, features=features, seed=1, fusion=fusion))
    assert seen.count(3000) == number


def two_parts(evidence: Evidence):
    """Two parts that are no small whole numbers."""
    backend = evidence.backend
    outputs = evidence["outputs"]
    return {
        "first": backend.uncertainty(outputs.values, "margin", outputs.are_logits),
        "second": backend.uncertainty(outputs.values, "entropy", outputs.are_logits),
    }


def test_parts_that_are_no_small_numbers_take_two_passes(folders):
    both = Strategy("both", frozenset({"outputs"}), two_parts, "", fuse=fuse, by_moments=by_moments, rowwise=True)
    number, picks = passes(both, folders / "7", workers=2)
    assert number == 2
    assert_same(picks, ncalr.query(both, 30, **POOL, **LABELLED, seed=5))


def test_too_many_candidates_take_two_passes(folders, wanted, monkeypatch):
    monkeypatch.setattr("ncalr.engine.tally.MOST", 50)
    number, picks = passes("ncal", folders / "7", workers=2)
    assert number == 2
    assert_same(picks, wanted("ncal"))


def test_rounding_that_hides_an_order_is_noticed(tmp_path):
    """CMAP values that differ less than the score can show: the proof fails, and a second pass asks the lottery."""
    n = 600
    tiny = np.float32(1e-30) * (1 + np.arange(n, dtype=np.float32) * np.float32(1e-6))
    first = np.where(np.arange(n) % 50 == 0, np.float32(1.0), tiny)
    features = np.stack([first, (np.arange(n) % 2).astype(np.float32)], axis=1)
    write_shards(tmp_path, {"features": features}, shard_items=100)
    seen = []
    found = ncalr.query_pool(PLAIN, 40, tmp_path, seed=1, progress=lambda done, total: seen.append(done))
    assert_same(found, ncalr.query(PLAIN, 40, features=features, seed=1))
    assert seen.count(n) == 2


@pytest.mark.parametrize(
    ("strategy", "note"),
    [
        ("typiclust", "chosen among 100 of 900 items: a random sample"),
        ("cluster_margin", "chosen among 100 of 900 items: those with the highest scores"),
    ],
)
def test_bounded_candidates_say_so(folders, strategy, note):
    one = ncalr.query_pool(strategy, 30, folders / "1", **LABELLED, seed=5, candidates=100)
    seven = ncalr.query_pool(strategy, 30, folders / "7", **LABELLED, seed=5, candidates=100, workers=3)
    assert one.notes[0] == note
    assert_same(seven, one)
    best = ncalr.query("margin" if strategy == "cluster_margin" else "random", 100, **POOL, **LABELLED, seed=5)
    assert set(one.ids) <= set(best.ids)


def test_processes(folders, wanted):
    found = ncalr.query_pool("ncal", 30, folders / "7", **LABELLED, seed=5, engine="processes", workers=2)
    assert_same(found, wanted("ncal"))


def test_an_engine_that_is_open_is_used_and_stays_open(folders, wanted):
    engine = open_engine("local", 2)
    for strategy in ("ncal", "coreset"):
        found = ncalr.query_pool(strategy, 30, folders / "7", **LABELLED, seed=5, engine=engine)
        assert_same(found, wanted(strategy))


def test_statistics_instead_of_labelled_features(folders, wanted):
    statistics = ClassStatistics.from_labelled(LABELLED["labelled_features"], LABELLED["labels"], 4)
    assert_same(ncalr.query_pool("ncal", 30, folders / "2", statistics=statistics, seed=5), wanted("ncal"))


@pytest.mark.parametrize("column", ["predictions", "checkpoint_predictions"])
def test_classes_known_from_predictions_alone(tmp_path, column):
    """A predicted class that no label has: the largest number of the pool counts, wherever it stands."""
    rng = np.random.default_rng(1)
    features = np.abs(rng.normal(size=(50, 3))).astype(np.float32)
    predictions = rng.integers(0, 2, 50)
    predictions[33] = 5
    arrays = {"features": features, "flips": rng.integers(0, 3, 50)}
    arrays[column] = predictions if column == "predictions" else np.stack([predictions, predictions])
    known = {"labelled_features": features[:6], "labels": np.arange(6) % 2}
    turned = {name: array.T if array.shape[0] == 2 else array for name, array in arrays.items()}
    write_shards(tmp_path, turned, shard_items=20)
    assert_same(ncalr.query_pool("ncal", 9, tmp_path, **known, workers=2), ncalr.query("ncal", 9, **arrays, **known))


def test_negative_predictions(tmp_path):
    write_shards(
        tmp_path, {"features": np.ones((3, 2)), "predictions": np.array([0, -1, 1]), "flips": np.zeros(3, int)}
    )
    with pytest.raises(BadInput, match=r"predictions must lie in 0\.\.1 .*got -1\.\.1"):
        ncalr.query_pool("ncal", 1, tmp_path, labelled_features=np.eye(2), labels=[0, 1])
    with pytest.raises(BadInput, match=r"predictions must lie in 0\.\.1 \(classes has 2 classes\), got -1\.\.1"):
        ncalr.query_pool("ncal", 1, tmp_path, labelled_features=np.eye(2), labels=[0, 1], classes=2)


def test_logits_before_probabilities(tmp_path):
    write_shards(tmp_path, {"logits": POOL["logits"], "probs": np.full((N, 4), 0.25)})
    assert_same(ncalr.query_pool("margin", 9, tmp_path), ncalr.query("margin", 9, logits=POOL["logits"]))


def test_strategies_that_need_the_whole_pool_at_once(folders):
    def whole(evidence):
        values = evidence["outputs"].values[:, 0]
        return values - values.mean()

    strategy = Strategy("whole", frozenset({"outputs"}), whole, "")
    found = ncalr.query_pool(strategy, 9, folders / "7", **LABELLED)
    assert_same(found, ncalr.query(strategy, 9, **POOL, **LABELLED))


def test_columns_are_arrays_to_the_door_of_arrays(folders):
    """`ncalr.query` takes a column where it takes an array; the scores are then kept in memory."""
    pool = ShardedPool(folders / "7")
    found = ncalr.query("badge", 9, features=pool["features"], logits=pool["logits"])
    assert_same(found, ncalr.query("badge", 9, features=POOL["features"], logits=POOL["logits"]))


def test_layers_of_a_column(folders):
    column = ShardedPool(folders / "7")["checkpoint_predictions"]
    layers, log = Layers(column), POOL["checkpoint_predictions"]
    assert (layers.shape, layers.ndim, len(layers), layers.nbytes) == (log.shape, 2, 5, log.nbytes)
    np.testing.assert_array_equal(layers[:, np.array([3, 800])], log[:, [3, 800]])
    np.testing.assert_array_equal(layers[-1][10:20], log[-1, 10:20])
    np.testing.assert_array_equal([layer[5:9] for layer in layers], log[:, 5:9])


@pytest.mark.parametrize(("engine", "workers"), [("local", 1), ("local", 4), ("processes", 1)])
def test_damage_is_named_and_nothing_is_returned(tmp_path, engine, workers):
    write(tmp_path, POOL, 7)
    path = tmp_path / "features-00003.npy"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match=r"features-00003\.npy, rows 0\.\.128 \(items 387\.\.515 of the pool\)") as error:
        ncalr.query_pool("ncal", 30, tmp_path, **LABELLED, engine=engine, workers=workers)
    assert error.value.rows == (387, 516)
    for strategy in ("coreset", "typiclust", "ncal(select=quota)"):
        with pytest.raises(Damaged, match=r"features-00003\.npy"):
            ncalr.query_pool(strategy, 30, tmp_path, **LABELLED)
    ncalr.query_pool("margin", 30, tmp_path, **LABELLED)  # does not read that column
    path.write_bytes(data[:-300])
    with pytest.raises(Damaged, match=r"features-00003\.npy, rows \d+\.\.128 .* torn"):
        ncalr.query_pool("margin", 30, tmp_path, **LABELLED)


def test_scores_that_are_not_finite_are_named(tmp_path):
    features = np.ones((300, 2), np.float32)
    features[222] = 3e38
    write_shards(tmp_path, {"features": features, "predictions": np.zeros(300, int)}, shard_items=100)
    known = {"labelled_features": np.eye(2, dtype=np.float32), "labels": [0, 1]}
    with pytest.raises(NotFinite, match=r"1 scores \(cmap\) .* items 200\.\.299 of the pool, the first for item 222"):
        ncalr.query_pool("cmap", 5, tmp_path, **known)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"k": 901}, BadInput, r"k must lie in 1\.\.900"),
        ({"k": 890, "exclude": np.arange(20)}, BadInput, "20 are excluded"),
        ({"exclude": [900]}, BadInput, "none of the 1 ids to exclude .* 900, the pool's are 0, 1, 2, ..."),
        ({"exclude": ["a"]}, BadInput, "the pool's ids are whole numbers"),
        ({"exclude": [[1]]}, BadInput, "list of ids"),
        ({"labels": None}, MissingEvidence, "needs statistics"),
        ({"labelled_features": np.full((40, 6), np.nan)}, NotFinite, "labelled_features holds 240"),
        ({"labelled_features": np.ones((40, 5))}, BadInput, "feature dimensions"),
        ({"classes": 3}, BadInput, "logits has 4"),
        ({"engine": "spark"}, UnknownName, "no engine 'spark'"),
        ({"workers": 0}, BadInput, "workers must be"),
        ({"address": "auto"}, BadInput, "an address is for engine='ray'"),
        ({"candidates": 10}, BadInput, "candidates must be at least k = 30"),
        ({"strategy": "nclr"}, UnknownName, "Did you mean"),
    ],
)
def test_what_cannot_be_asked(folders, options, error, words):
    given = {"strategy": "ncal", "k": 30, "pool": folders / "7", **LABELLED, **options}
    with pytest.raises(error, match=words):
        ncalr.query_pool(**given)
    with pytest.raises(BadInput, match=f"they are 'nobody', the pool's are '{NAMES[0]}'"):
        ncalr.query_pool("random", 3, folders / "named", exclude=["nobody"])


@pytest.mark.parametrize("strategy", ["ncal", "coreset", "typiclust"])  # each keeps something else in memory
@pytest.mark.parametrize("named", [True, False])
def test_ids_to_exclude_that_are_not_in_the_pool_are_ignored_with_a_note(folders, wanted, strategy, named):
    out = ["nobody", NAMES[3], "no one"] if named else [900, 3, -1]
    found = ncalr.query_pool(strategy, 30, folders / ("named" if named else "7"), **LABELLED, exclude=out, seed=5)
    same = wanted(strategy, named=named, exclude=out)
    assert_same(found, same)
    assert found.notes == same.notes
    assert found.notes[0].startswith("2 of 3 ids to exclude are not in the pool, ignored: ")
    assert found.ids.tolist() == wanted(strategy, named=named, exclude=out[1:2]).ids.tolist()


def test_labels_counted_from_1_are_noticed_as_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    known = {"labelled_features": rng.random((10, 3)), "labels": np.arange(10) % 4 + 1}
    for top, noticed in ((4, True), (5, False)):  # a model that knows 0..3 or 0..4
        pool = {"features": rng.random((40, 3)), "predictions": np.arange(40) % top}
        write_shards(tmp_path / str(top), pool)
        notes = ncalr.query_pool("cmap", 3, tmp_path / str(top), **known).notes
        assert notes == ncalr.query("cmap", 3, **pool, **known).notes
        assert any("the labels lie in 1..4" in note for note in notes) == noticed
    assert ncalr.query_pool("cmap", 3, tmp_path / "4", **known, classes=5).notes == ()
    alone = {"features": rng.random((40, 3))}
    write_shards(tmp_path / "alone", alone)
    asked = ("coreset(select=k_center)", 3)
    assert ncalr.query_pool(*asked, tmp_path / "alone", **known).notes == ncalr.query(*asked, **alone, **known).notes


def test_a_pool_without_evidence(tmp_path):
    write_shards(tmp_path, np.ones((5, 2)))
    with pytest.raises(BadInput, match="nothing about the pool"):
        ncalr.query_pool("margin", 2, tmp_path)


def test_appended_items_are_asked_about(tmp_path):
    write_shards(tmp_path, {"logits": POOL["logits"][:500]})
    append_shards(tmp_path, {"logits": POOL["logits"][500:]})
    assert_same(ncalr.query_pool("margin", 30, tmp_path), ncalr.query("margin", 30, logits=POOL["logits"]))


def test_bfloat16_and_half_precision(tmp_path):
    for dtype in ("bfloat16", "float16"):
        pool = write_shards(tmp_path / dtype, {"logits": POOL["logits"]}, dtypes={"logits": dtype})
        found = ncalr.query_pool("entropy", 30, pool)
        assert_same(found, ncalr.query("entropy", 30, logits=pool["logits"][:]))


def test_work_travels_without_what_it_has_open(folders):
    import pickle

    work = working.Work(str(folders / "7"), "random", {}, (), {}, 0, 0, k=3)
    assert (len(work.pool), work.plan.strategy.name) == (N, "random")
    work.shared["large"] = 1
    again = pickle.loads(pickle.dumps(work))
    assert again == replace(work, shared={})
    assert not {"pool", "plan"} & again.__dict__.keys()
    assert resolve("random").strategy.name == again.plan.strategy.name
    assert choose(None).xp is np


def test_wide_rows_are_read_in_smaller_chunks(tmp_path):
    write_shards(tmp_path, {"features": np.ones((3, 128), np.float32)})
    work = working.Work(str(tmp_path), "coreset", {}, ("features",), {}, 0, 0)
    assert work._cut((0, 70_000)) == [(0, 32768), (32768, 65536), (65536, 70_000)]


def test_what_is_known_of_the_items_are_columns(tmp_path):
    write_shards(tmp_path / "pool", {"features": np.eye(4)})
    with pytest.raises(BadInput, match="has columns of its own: leave out flips, or put them into it"):
        ncalr.query_pool("ncal", 1, tmp_path / "pool", flips=np.zeros(4, int))


RECORDED = {
    "flips": np.random.default_rng(3).integers(0, 6, N).astype(np.uint16),
    "predictions": np.random.default_rng(4).integers(0, 4, N).astype(np.uint8),
}


@pytest.mark.parametrize(("engine", "named"), [("local", False), ("local", True), ("processes", True)])
def test_columns_that_were_put_are_asked(tmp_path, engine, named):
    """A round: what a recorder counted, over features that stay; then the round after."""
    ids, workers = NAMES if named else None, 2
    write_shards(tmp_path, {"features": POOL["features"]}, ids=ids, shard_items=200)
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(N)
        recorded = {name: array[order] for name, array in RECORDED.items()}
        put_columns(tmp_path, recorded, replace=True)
        found = ncalr.query_pool("ncal", 30, tmp_path, **LABELLED, seed=5, engine=engine, workers=workers)
        wanted = ncalr.query("ncal", 30, features=POOL["features"], **recorded, **LABELLED, ids=ids, seed=5)
        assert_same(found, wanted)


def test_rows_that_were_put_in_another_order(tmp_path):
    write_shards(tmp_path, {"features": POOL["features"]}, ids=NAMES, shard_items=200)
    order = np.random.default_rng(7).permutation(N)
    put_columns(tmp_path, {name: array[order] for name, array in RECORDED.items()}, NAMES[order])
    found = ncalr.query_pool("ncal", 30, tmp_path, **LABELLED, seed=5, workers=2)
    assert_same(found, ncalr.query("ncal", 30, features=POOL["features"], **RECORDED, **LABELLED, ids=NAMES, seed=5))


@pytest.mark.parametrize("strategy", ["margin", "badge", "bald", "ncal(select=quota)"])
def test_every_kind_of_column_can_be_put(tmp_path, wanted, strategy):
    """All but the features put one after the other, with older ones of the same names in their places before."""
    stale = {name: array[::-1] if name == "logits" else array for name, array in POOL.items()}
    write_shards(tmp_path, by_item({name: stale[name] for name in ("features", "logits")}), shard_items=129)
    for name, array in by_item(POOL).items():
        put_columns(tmp_path, {name: array}, replace=True)
    assert_same(ncalr.query_pool(strategy, 30, tmp_path, **LABELLED, seed=5, workers=2), wanted(strategy))


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_a_query_never_mixes_two_versions_of_a_column(tmp_path, engine):
    """The pool is open, then a column is replaced: no answer. Another column that is put changes nothing."""
    pool = write_shards(tmp_path, {"features": POOL["features"], **RECORDED}, shard_items=200)
    ask = {**LABELLED, "seed": 5, "engine": engine, "workers": 2}
    put_columns(tmp_path, {"logits": POOL["logits"]})
    wanted = ncalr.query("ncal", 30, features=POOL["features"], **RECORDED, **LABELLED, seed=5)
    assert_same(ncalr.query_pool("ncal", 30, pool, **ask), wanted)
    put_columns(tmp_path, {"flips": RECORDED["flips"][::-1]}, replace=True)
    with pytest.raises(BadInput, match=r"the columns flips of .* were replaced or dropped after the pool was opened"):
        ncalr.query_pool("ncal", 30, pool, **ask)
    put_columns(tmp_path, {}, drop=["flips"])
    with pytest.raises(BadInput, match=r"the columns flips of .* were replaced or dropped"):
        ncalr.query_pool("ncal", 30, pool, **ask)


def test_a_share_is_held_of_the_columns_that_the_query_saw(tmp_path):
    pool = write_shards(tmp_path, {"features": POOL["features"]})
    share = Share(str(tmp_path), "features", None, [slice(0, 9)], pool.files)
    assert Holder(share).chunks[0].n == 9
    put_columns(tmp_path, {"features": POOL["features"]}, replace=True)
    with pytest.raises(BadInput, match="the columns features"):
        Holder(share)


def test_a_flipped_byte_of_a_column_that_was_put(tmp_path):
    write_shards(tmp_path, {"features": POOL["features"]}, shard_items=200)
    put_columns(tmp_path, RECORDED)
    path = tmp_path / "flips.put1-00002.npy"
    data = bytearray(path.read_bytes())
    data[-7] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match=r"flips\.put1-00002\.npy, rows 0\.\.199 \(items 400\.\.599 of the pool\)"):
        ncalr.query_pool("ncal", 30, tmp_path, **LABELLED)


# -- what is said about the picks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["ncal", "ncal(fusion=rank)", "ncal(select=sequential)", "cmap"])
def test_idle_parts_and_copies_are_said_as_in_memory(tmp_path, strategy):
    """Rows of the pool are there three times or so; nothing flips."""
    still = {"features": POOL["features"], "logits": POOL["logits"], "flips": np.zeros(N, np.uint16)}
    known = {name: LABELLED[name] for name in ("labelled_features", "labels")}
    write_shards(tmp_path / "pool", still)
    wanted = ncalr.query(strategy, 8, **still, **known)
    assert ncalr.query_pool(strategy, 8, tmp_path / "pool", **known).notes == wanted.notes
    assert any("of another pick" in note for note in wanted.notes)
    assert any("go by cmap alone" in note for note in wanted.notes) == (strategy != "cmap")


@pytest.mark.parametrize("strategy", ["entropy", "cdal", "uherding"])
def test_probabilities_in_the_column_of_logits_are_noticed_once(tmp_path, strategy):
    pool = {**POOL, "logits": np.random.default_rng(0).dirichlet(np.ones(POOL["logits"].shape[1]), N)}
    write(tmp_path / "pool", pool, 3)
    told = ncalr.query_pool(strategy, 5, tmp_path / "pool", **LABELLED).notes
    assert told == ncalr.query(strategy, 5, **pool, **LABELLED).notes
    assert ["the rows of logits look like probabilities" in note for note in told].count(True) == 1
