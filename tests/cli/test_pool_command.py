"""`ncalr pool`, as a person would type it."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data.shards import ShardedPool

FEATURES = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def pool(*words):
    return CliRunner().invoke(app, ["pool", *map(str, words)])


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "f.npy", FEATURES)
    np.save(tmp_path / "log.npy", np.arange(60).reshape(2, 30) % 5)
    (tmp_path / "names.txt").write_text("\n".join(f"item-{at}" for at in range(30)))
    done = pool(
        *("create", tmp_path / "pool", f"features={tmp_path / 'f.npy'}"),
        *(f"checkpoint_predictions={tmp_path / 'log.npy'}", "--ids", tmp_path / "names.txt"),
        *("--dtype", "features=float16", "--shard-items", 12),
    )
    assert done.exit_code == 0, done.output
    assert "30 items, 3 shards" in done.output
    assert "features                 float16 of shape (4,)" in done.output
    return tmp_path / "pool"


def test_create_append_info(folder, tmp_path):
    found = ShardedPool(folder)
    assert found["checkpoint_predictions"].shape == (30, 2)
    assert found.ids[29] == "item-29"
    (tmp_path / "more.txt").write_text("\n".join(f"more-{at}" for at in range(30)))
    done = pool(
        *("append", folder, f"features={tmp_path / 'f.npy'}", f"checkpoint_predictions={tmp_path / 'log.npy'}"),
        *("--ids", tmp_path / "more.txt"),
    )
    assert "60 items, 4 shards" in done.output
    assert pool("info", folder).output == done.output


def test_verify(folder):
    assert pool("verify", folder).output == f"{folder}: whole\n"
    path = folder / "features-00001.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    done = pool("verify", folder)
    assert done.exit_code == 1
    assert "features-00001.npy, rows 0..11 (items 12..23 of the pool)" in done.output


def test_export_and_tables(folder, tmp_path):
    pytest.importorskip("pyarrow")
    assert "30 items" in pool("export", folder, tmp_path / "out.parquet").output
    done = pool("create", tmp_path / "again", tmp_path / "out.parquet", "--rename", "features=items")
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(ShardedPool(tmp_path / "again").read(slice(None)), FEATURES.astype(np.float16))
    assert "exported as .parquet" in str(pool("export", folder, "out.csv").exception)
    numbered = pool("create", tmp_path / "numbered", f"features={tmp_path / 'f.npy'}")
    assert "ids                      0..29" in numbered.output


def test_images_through_a_network(tmp_path):
    pytest.importorskip("torch")
    images = pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    for at in range(5):
        images.fromarray(np.full((9, 9, 3), 40 * at, np.uint8)).save(tmp_path / "photos" / f"{at}.png")
    done = pool("create", tmp_path / "pool", "--images", tmp_path / "photos", "--network", "resnet8", "--size", 8)
    assert "no trained weights: its vectors would be random features" in str(done.exception)
    assert not (tmp_path / "pool").exists()
    ask = ["--images", tmp_path / "photos", "--network", "resnet8", "--untrained"]
    done = pool("create", tmp_path / "pool", *ask, "--size", 8)
    assert done.exit_code == 0, done.exception
    assert "features were made with network resnet8, weights random, seed 0, shape [8, 8, 3]" in done.output
    found = ShardedPool(tmp_path / "pool")
    assert found.ids.tolist() == [f"{at}.png" for at in range(5)]
    assert found["features"].shape == (5, 64)
    assert len(np.unique(found["features"][:], axis=0)) == 5
    (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
    ask = ["create", tmp_path / "rest", *ask, "--size", 8]
    assert "--skip-broken" in str(pool(*ask).exception)
    done = pool(*ask, "--skip-broken")
    assert "1 files left out, the first is broken.png" in done.stderr
    assert ShardedPool(tmp_path / "rest").ids.tolist() == found.ids.tolist()


def test_images_that_are_added_are_made_like_those_there_are(tmp_path):
    pytest.importorskip("torch")
    images = pytest.importorskip("PIL.Image")
    for folder, at in (("all", 0), ("all", 1), ("first", 0), ("later", 1)):
        (tmp_path / folder).mkdir(exist_ok=True)
        pixels = np.random.default_rng(at).integers(0, 100 * (at + 1), (9, 9, 3)).astype(np.uint8)
        images.fromarray(pixels).save(tmp_path / folder / f"{at}.png")
    ask = ["--network", "resnet8", "--untrained", "--size", 8]
    assert pool("create", tmp_path / "pool", "--images", tmp_path / "first", *ask).exit_code == 0
    later = ["append", tmp_path / "pool", "--images", tmp_path / "later"]
    for other, message in (
        (["--network", "resnet8", "--untrained", "--size", 9], "made with shape [8, 8, 3], these with [9, 9, 3]"),
        (["--network", "resnet18", "--untrained", "--size", 8], "made with network resnet8, these with resnet18"),
    ):
        assert message in str(pool(*later, *other).exception)
    assert pool(*later, *ask).exit_code == 0
    found = ShardedPool(tmp_path / "pool")
    assert found.ids.tolist() == ["0.png", "1.png"]
    before = found.manifest.made["features"]["scales"]  # those of the first items: a picture's vector stays what it is
    one = pool("create", tmp_path / "one", "--images", tmp_path / "later", *ask)
    assert one.exit_code == 0
    assert ShardedPool(tmp_path / "one").manifest.made["features"]["scales"] != before
    assert not np.allclose(ShardedPool(tmp_path / "one")["features"][:], found["features"][1:])
    np.save(tmp_path / "f.npy", np.zeros((2, 3), np.float32))
    assert pool("put", tmp_path / "pool", f"features={tmp_path / 'f.npy'}", "--replace").exit_code == 0
    assert ShardedPool(tmp_path / "pool").manifest.made == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give columns as NAME=FILE"),
        (["a.parquet", "b=c.npy"], "cannot be mixed"),
        (["=x.npy"], "expected NAME=VALUE"),
        (["--images", "photos"], "--images needs --network"),
    ],
)
def test_what_cannot_be_meant(tmp_path, words, message):
    assert message in str(pool("create", tmp_path / "pool", *words).exception)


def test_query_of_a_pool(tmp_path):
    import ncalr
    from ncalr import testing
    from ncalr.acquire.evidence import POOL_AXIS
    from ncalr.data.exchange import by_item
    from ncalr.data.shards import write_shards

    arrays = testing.example_pool()
    mine = {name: array for name, array in arrays.items() if name in POOL_AXIS}
    write_shards(tmp_path / "pool", by_item(mine), shard_items=50)
    words = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        words += [] if name in mine else [f"--{name.replace('_', '-')}", str(tmp_path / f"{name}.npy")]
    ask = ["query", "-k", "9", "--pool", str(tmp_path / "pool"), "--workers", "2", *words]
    done = CliRunner().invoke(app, [*ask, "--out", str(tmp_path / "picks.npy")])
    assert done.exit_code == 0, done.exception
    np.testing.assert_array_equal(np.load(tmp_path / "picks.npy"), ncalr.query("ncal_coverage", 9, **arrays).ids)
    done = CliRunner().invoke(app, [*ask, "--features", str(tmp_path / "features.npy")])
    assert "leave out features" in str(done.exception)


def test_tables_with_texts_say_what_to_do(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = [f"n{at}" for at in range(30)]
    rows = pa.array(list(FEATURES), pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": names, "embedding": rows, "caption": names}), tmp_path / "t.parquet")
    words = ["create", tmp_path / "p", tmp_path / "t.parquet", "--rename", "embedding=features"]
    for more in ([], ["--ids", "id"]):
        refused = pool(*words, *more)
        assert "leave the column out (--columns" in str(refused.exception)
        assert "--ids" in str(refused.exception)
        assert not (tmp_path / "p").exists()
    done = pool(*words, "--ids", "id", "--columns", "embedding")
    assert done.exit_code == 0, done.exception
    made = ShardedPool(tmp_path / "p")
    assert made.ids.tolist() == names
    assert set(made.columns) == {"features", "ids"}


def test_what_is_for_tables_is_not_ignored(tmp_path):
    np.save(tmp_path / "f.npy", FEATURES)
    for more in (["--rename", "a=b"], ["--columns", "a"]):
        refused = pool("create", tmp_path / "p", f"features={tmp_path / 'f.npy'}", *more)
        assert "--rename and --columns are for tables" in str(refused.exception)


def test_a_misspelt_column_is_noticed(tmp_path):
    np.save(tmp_path / "f.npy", FEATURES)
    done = pool("create", tmp_path / "p", f"featurs={tmp_path / 'f.npy'}")
    assert "reads a column 'featurs'. Did you mean 'features'?" in done.stderr
    asked = CliRunner().invoke(app, ["query", "-k", "3", "--strategy", "coreset", "--pool", str(tmp_path / "p")])
    assert "--rename featurs=features" in done.stderr
    assert "it has the columns featurs" in str(asked.exception)
    assert "featurs may be meant as features" in str(asked.exception)


def test_a_column_that_is_missing_is_not_asked_for_as_a_flag(tmp_path):
    np.save(tmp_path / "f.npy", FEATURES)
    pool("create", tmp_path / "p", f"features={tmp_path / 'f.npy'}")
    for strategy, words in [
        ("margin", "the pool has no column logits or probs"),
        ("cmap", "pass --labelled-features and"),
    ]:
        asked = CliRunner().invoke(app, ["query", "-k", "3", "--strategy", strategy, "--pool", str(tmp_path / "p")])
        assert words in str(asked.exception)
        assert "pass --logits" not in str(asked.exception)


def test_put(folder, tmp_path):
    """A round: flips and predictions into a pool with names, in the order of another file, then anew, then out."""
    flips, order = np.arange(30, dtype=np.uint16), np.random.default_rng(0).permutation(30)
    np.save(tmp_path / "flips.npy", flips[order])
    np.save(tmp_path / "sampled.npy", np.full((2, 30, 4), 0.25, np.float32))
    (tmp_path / "order.txt").write_text("\n".join(f"item-{at}" for at in order))
    words = ["put", folder, f"flips={tmp_path / 'flips.npy'}"]
    done = pool(*words, "--ids", tmp_path / "order.txt")
    assert done.exit_code == 0, done.exception
    assert "flips                    uint16" in done.output
    assert done.stderr == ""
    np.testing.assert_array_equal(ShardedPool(folder)["flips"][:], flips)
    assert "say --replace" in str(pool(*words).exception)
    done = pool(*words, f"sampled_probs={tmp_path / 'sampled.npy'}", "--replace", "--dtype", "sampled_probs=float16")
    assert "sampled_probs            float16 of shape (2, 4)" in done.output
    np.testing.assert_array_equal(ShardedPool(folder)["flips"][:], flips[order])
    done = pool("put", folder, "--drop", "flips", "--drop", "sampled_probs")
    assert "flips" not in done.output
    assert pool("verify", folder).output == f"{folder}: whole\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to put"),
        (["flips.npy"], "columns are put as NAME=FILE.npy, got flips.npy"),
        (["flips=nowhere.npy"], "there is no file nowhere.npy"),
        (["flip={log}"], "Did you mean 'flips'?"),
        (["flips={f}"], "must be whole numbers"),
        (["checkpoint_predictions={one}", "--replace"], "must have shape (t, n), got (30,)"),
        (["flips={one}", "flips={log}"], "flips was given twice"),
        (["--drop", "flips"], "no column 'flips'"),
    ],
)
def test_what_cannot_be_put(folder, tmp_path, words, message):
    np.save(tmp_path / "one.npy", np.arange(30))
    files = {name: tmp_path / f"{name}.npy" for name in ("f", "log", "one")}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert message in str(pool("put", folder, *(word.format(**files) for word in words)).exception)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_put_of_a_column_that_nobody_reads_is_noted(folder, tmp_path):
    np.save(tmp_path / "one.npy", np.arange(30))
    done = pool("put", folder, f"price={tmp_path / 'one.npy'}")
    assert "note: no strategy of ncalr's own reads a column 'price'." in done.stderr
    assert ShardedPool(folder)["price"].shape == (30,)


def test_what_is_left_of_a_put_is_no_damage(folder, tmp_path):
    (folder / "flips.put1-00000.npy.part").write_bytes(b"half")
    done = pool("verify", folder)
    assert (done.exit_code, done.stdout) == (0, f"{folder}: whole\n")
    assert "note: 1 files are left of a put" in done.stderr
    np.save(tmp_path / "one.npy", np.arange(30))
    pool("put", folder, f"flips={tmp_path / 'one.npy'}")
    assert pool("verify", folder).output == f"{folder}: whole\n"


def test_a_query_with_columns_that_were_put(tmp_path):
    """Files in, picks out: those of the same files without a pool."""
    rng = np.random.default_rng(0)
    arrays = {
        "features": np.abs(rng.normal(size=(200, 4))).astype(np.float32),
        "flips": rng.integers(0, 6, 200).astype(np.uint16),
        "predictions": rng.integers(0, 3, 200).astype(np.uint8),
        "labelled_features": np.abs(rng.normal(size=(12, 4))).astype(np.float32),
        "labels": np.arange(12) % 3,
    }
    path = {name: str(tmp_path / f"{name}.npy") for name in arrays}
    for name, array in arrays.items():
        np.save(path[name], array)
    folder = str(tmp_path / "pool")
    pool("create", folder, f"features={path['features']}", "--shard-items", 60)
    put = pool("put", folder, f"flips={path['flips']}", f"predictions={path['predictions']}")
    assert put.exit_code == 0, put.exception
    known = ["--labelled-features", path["labelled_features"], "--labels", path["labels"]]
    plain = [word for name in ("features", "flips", "predictions") for word in (f"--{name}", path[name])]
    of_pool = CliRunner().invoke(app, ["query", "-k", "9", "--pool", folder, *known])
    of_files = CliRunner().invoke(app, ["query", "-k", "9", *plain, *known])
    assert of_pool.stdout == of_files.stdout
    assert len(of_pool.stdout.splitlines()) == 10
