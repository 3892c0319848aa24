"""Columns put into a pool that is there: the pool is as it was or as it was to be, whenever the writer is stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from ncalr.data import manifest as manifests
from ncalr.data.manifest import MANIFEST, leftovers, read_manifest, seal
from ncalr.data.shards import ShardedPool, append_shards, put_columns, write_shards
from ncalr.data.verify import verify
from ncalr.errors import BadInput, Damaged, NotFinite, UnknownName

N = 23
FEATURES = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
FLIPS = np.arange(N, dtype=np.uint16)
LATER = FLIPS[::-1].copy()
CLASSES = (np.arange(N) % 4).astype(np.uint8)
NAMES = np.array([f"item-{at:02d}" for at in range(N)])


@pytest.fixture
def folder(tmp_path):
    write_shards(tmp_path / "pool", {"features": FEATURES}, ids=NAMES, shard_items=9)
    return tmp_path / "pool"


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def values_of(folder):
    pool = ShardedPool(folder)
    return {name: column[:].tolist() for name, column in pool.columns.items()}


def test_columns_are_put_beside_the_others(folder):
    before = bytes_of(folder)
    pool = put_columns(folder, {"flips": FLIPS, "predictions": CLASSES})
    assert list(pool.columns) == ["features", "ids", "flips", "predictions"]
    assert (pool.main, pool["flips"].dtype, pool["predictions"].dtype) == ("features", np.uint16, np.uint8)
    np.testing.assert_array_equal(pool["flips"][:], FLIPS)
    np.testing.assert_array_equal(pool["predictions"][:], CLASSES)
    after = bytes_of(folder)
    assert after.keys() - before.keys() == {
        f"{name}.put1-{at:05d}.npy" for name in ("flips", "predictions") for at in range(3)
    }
    assert {name for name in before if after[name] != before[name]} == {MANIFEST}
    assert verify(folder) == []


def test_a_column_is_replaced_when_it_is_said(folder):
    put_columns(folder, {"flips": FLIPS, "predictions": CLASSES})
    before = bytes_of(folder)
    with pytest.raises(BadInput, match=r"has a column flips already \(uint16\); say --replace \(replace=True\)"):
        put_columns(folder, {"flips": LATER})
    assert bytes_of(folder) == before
    pool = put_columns(folder, {"flips": LATER.astype(np.int64)}, replace=True)
    assert list(pool.columns) == ["features", "ids", "flips", "predictions"]
    np.testing.assert_array_equal(pool["flips"][:], LATER)
    np.testing.assert_array_equal(pool["predictions"][:], CLASSES)
    assert sorted(path.name for path in folder.glob("flips*")) == [f"flips.put2-{at:05d}.npy" for at in range(3)]
    assert verify(folder) == []


def test_columns_are_dropped(folder):
    put_columns(folder, {"flips": FLIPS, "predictions": CLASSES})
    pool = put_columns(folder, {"logits": FEATURES}, drop=["flips", "predictions"])
    assert list(pool.columns) == ["features", "ids", "logits"]
    assert put_columns(folder, {}, drop="features").main == "logits"
    assert {path.name.split("-")[0] for path in folder.glob("*.npy")} == {"ids", "logits.put2"}
    assert verify(folder) == []


def test_files_of_a_column_that_was_dropped_are_not_written_again(folder):
    """A reader that holds on to a name never finds other values under it."""
    seen = set()
    for flips in (FLIPS, LATER):
        seen.add(put_columns(folder, {"flips": flips}).files["flips"])
        put_columns(folder, {}, drop=["flips"])
    assert len(seen) == 2


def test_an_append_wants_the_new_columns(folder):
    put_columns(folder, {"flips": FLIPS})
    with pytest.raises(BadInput, match="block 0 has the columns features, ids; the pool has features, flips, ids"):
        append_shards(folder, {"features": FEATURES[:2]}, ids=["a", "b"])
    append_shards(folder, {"features": FEATURES[:2], "flips": FLIPS[:2]}, ids=["a", "b"])
    pool = put_columns(folder, {"flips": np.arange(25)}, replace=True)  # after the append, a number of its own
    assert pool["flips"][:].tolist() == list(range(25))
    assert pool.files["flips"] == "flips.put2-00000.npy"
    assert verify(folder) == []
    assert leftovers(folder, pool.manifest) == []


NAN = FEATURES.copy()
NAN[11, 1] = np.nan
MASKED = np.ma.masked_array(FLIPS, FLIPS == 3)


@pytest.mark.parametrize(
    ("columns", "options", "error", "words"),
    [
        ({"flips": FLIPS[:-1]}, {}, BadInput, "flips has 22 rows, the pool has 23 items: one row an item$"),
        ({"sampled_probs": np.ones((2, N, 1))}, {}, BadInput, "has 2 rows, .* its second axis has as many: turn it"),
        ({"flips": FLIPS, "logits": FEATURES[:5]}, {}, BadInput, "logits has 5 rows"),
        ({"flips": FLIPS[:, None]}, {}, BadInput, r"flips must have shape \(n\), got \(23, 1\)"),
        ({"logits": FEATURES[:, 0]}, {}, BadInput, r"logits must have shape \(n, c\), got \(23,\)"),
        ({"checkpoint_predictions": CLASSES}, {}, BadInput, r"shape \(t, n\), got \(23,\)"),
        ({"flips": FLIPS.astype(float)}, {}, BadInput, "flips must be whole numbers, got float64"),
        ({"logits": np.ones((N, 3), int)}, {}, BadInput, "logits must be floating-point"),
        ({"logits": FEATURES, "sampled_probs": np.ones((N, 2, 4))}, {}, BadInput, "4 classes, logits has 3"),
        ({"flips": np.array(["a"] * N)}, {}, BadInput, "a column holds numbers"),
        ({"flips": MASKED}, {}, BadInput, "flips has 1 masked values"),
        ({"flips": FLIPS, "logits": NAN}, {}, NotFinite, "NaN or infinity: 1 in these .* rows, the first in row 11"),
        ({"logits": FEATURES * 1e6}, {"dtypes": {"logits": "float16"}}, NotFinite, "choose a wider dtype"),
        ({"logits": FEATURES}, {"dtypes": {"logits": "int8"}}, BadInput, "stored as float16"),
        ({"logits": FEATURES}, {"dtypes": {"probs": "float16"}}, BadInput, "a dtype was given for probs"),
        ({"ids": NAMES}, {"replace": True}, BadInput, "the ids of a pool stay as they are"),
        ({"flip": FLIPS}, {}, BadInput, "no strategy reads a column 'flip'. Did you mean 'flips'"),
        ({"Logits": FEATURES}, {}, BadInput, "Did you mean 'logits'"),
        ({"../flips": FLIPS}, {}, BadInput, "give it a plain one"),
        ({"": FLIPS}, {}, BadInput, "give it a plain one"),
        ({"features": FEATURES}, {}, BadInput, "already"),
        ({}, {}, BadInput, "nothing to put"),
        ({"flips": FLIPS}, {"drop": ["flips"]}, BadInput, "both to be put and to be dropped"),
        ({}, {"drop": ["ids"]}, BadInput, "cannot be dropped"),
        ({}, {"drop": ["feature"]}, UnknownName, "no column 'feature'. Did you mean 'features'"),
        ({}, {"drop": ["features"]}, BadInput, "a pool has at least one column"),
        ({"flips": FLIPS}, {"ids": NAMES[:5]}, BadInput, "5 ids were given, the pool has 23 items"),
        ({"flips": FLIPS}, {"ids": [*NAMES[:-1], "x"]}, BadInput, "1 ids are not in the pool, the first is 'x'"),
        ({"flips": FLIPS}, {"ids": [*NAMES[:-1], NAMES[0]]}, BadInput, "must not repeat; .* 'item-00'"),
        ({"flips": FLIPS}, {"ids": range(N)}, BadInput, "give the same kind of ids"),
    ],
)
def test_what_cannot_be_put_changes_nothing(folder, columns, options, error, words):
    before = bytes_of(folder)
    with pytest.raises(error, match=words):
        put_columns(folder, columns, **options)
    assert bytes_of(folder) == before


def test_a_name_of_ones_own_can_be_put_and_replaced(folder):
    put_columns(folder, {"price": FLIPS})
    assert put_columns(folder, {"price": LATER}, replace=True)["price"][:].tolist() == LATER.tolist()


@pytest.mark.parametrize("named", [True, False])
def test_rows_in_another_order(tmp_path, named):
    ids = NAMES if named else None
    write_shards(tmp_path, {"features": FEATURES}, ids=ids, shard_items=9)
    order = np.random.default_rng(1).permutation(N)
    theirs = NAMES[order] if named else order.astype(np.uint64)
    pool = put_columns(tmp_path, {"flips": FLIPS[order], "logits": FEATURES[order]}, theirs)
    np.testing.assert_array_equal(pool["flips"][:], FLIPS)
    np.testing.assert_array_equal(pool["logits"][:], FEATURES)
    with pytest.raises(NotFinite, match=f"the first in row {order.tolist().index(11)};"):
        put_columns(tmp_path, {"probs": NAN[order]}, theirs)


def test_precisions_and_tensors(folder):
    torch = pytest.importorskip("torch")
    pool = put_columns(folder, {"logits": torch.tensor(FEATURES), "probs": FEATURES}, dtypes={"logits": "bfloat16"})
    meant = pool["logits"][:]
    bits = np.concatenate([np.load(folder / f"logits.put1-{at:05d}.npy") for at in range(3)])
    assert (pool["logits"].kind.dtype, bits.dtype) == ("bfloat16", np.uint16)
    again = put_columns(folder, {"logits": bits}, NAMES, replace=True, dtypes={"logits": "bfloat16"})
    np.testing.assert_array_equal(again["logits"][:], meant)
    order = np.arange(N)[::-1].copy()
    turned = put_columns(folder, {"probs": torch.tensor(FEATURES)[order]}, NAMES[order], replace=True)
    np.testing.assert_array_equal(turned["probs"][:], FEATURES)


def test_files_are_what_numpy_writes(folder, tmp_path):
    put_columns(folder, {"flips": FLIPS})
    for name, array in [("flips.put1", FLIPS), ("features", FEATURES), ("ids", NAMES)]:
        np.save(tmp_path / "x.npy", array[:9])
        assert (folder / f"{name}-00000.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()


def test_memory_does_not_grow_with_the_shard(tmp_path):
    """25 MB of mapped logits into one shard."""
    logits = np.lib.format.open_memmap(tmp_path / "logits.npy", "w+", np.float32, (100_000, 64))
    logits[:] = np.arange(64)
    write_shards(tmp_path / "pool", {"flips": np.zeros(100_000, np.uint8)})
    tracemalloc.start()
    pool = put_columns(tmp_path / "pool", {"logits": logits})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pool.manifest.shards) == 1
    assert peak < 8e6
    np.testing.assert_array_equal(pool["logits"][99_990:], logits[99_990:])


# -- writers that are stopped -----------------------------------------------------------------------------------------


STOPPED = """
import os, shutil, sys
import numpy as np
from ncalr.data.shards import put_columns
from ncalr.kernels.checksum import checksum

checksum(np.zeros(8))  # compiled once, not by every child
folder, out, how = sys.argv[1:]
columns = {"flips": np.arange(23, dtype=np.uint16)[::-1], "predictions": (np.arange(23) % 4).astype(np.uint8)}

def put(copy, step):
    left = [step]
    def hook(event, args):
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in ("os.rename", "os.remove"):
            left[0] -= 1
            if left[0] == -1:
                if how == "killed":
                    os._exit(9)
                raise KeyboardInterrupt
    sys.addaudithook(hook)
    put_columns(copy, columns, replace=True, drop=["probs"])

for step in range(1000):
    copy = f"{out}/{step:03d}"
    shutil.copytree(folder, copy)
    child = os.fork()
    if not child:
        try:
            put(copy, step)
        except KeyboardInterrupt:
            os._exit(9)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 9:
        sys.exit(code)
"""


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_a_writer_that_is_stopped_anywhere(tmp_path, how):
    """Before each file that is opened, renamed or removed: one pool or the other, whole, and the next put cleans up."""
    folder = tmp_path / "pool"
    write_shards(folder, {"features": FEATURES, "flips": FLIPS}, ids=NAMES, shard_items=9)
    put_columns(folder, {"probs": FEATURES})
    old, before = values_of(folder), bytes_of(folder)
    new = {name: old[name] for name in ("features", "ids")} | {"flips": LATER.tolist(), "predictions": CLASSES.tolist()}
    (tmp_path / how).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, folder, tmp_path / how, how], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    *copies, last = sorted((tmp_path / how).iterdir())
    assert values_of(last) == new
    outcomes = []
    for copy in copies:
        found = values_of(copy)
        assert found in (old, new)
        assert verify(copy) == []
        outcomes.append(found == new)
        if how == "interrupted" and found == old:
            assert bytes_of(copy) == before
        put_columns(copy, {"predictions": CLASSES}, replace=True)
        assert {path.name for path in copy.iterdir()} == read_manifest(copy).names | {"lock", MANIFEST}
        assert values_of(copy)["predictions"] == CLASSES.tolist()
    assert outcomes == sorted(outcomes)  # first the old pool, then the new one
    assert outcomes.count(False) >= 6 * 2 + 2  # six files, then the manifest: each opened and renamed
    assert outcomes.count(True) >= 6  # the six old files are removed


@pytest.mark.parametrize("write", ["put", "append"])
def test_an_interruption_after_the_manifest_is_too_late(folder, monkeypatch, write):
    """Files that the manifest names by then are not taken away."""
    real = manifests.Manifest.write

    def late(self, place):
        real(self, place)
        raise KeyboardInterrupt

    ways = {
        "put": lambda: put_columns(folder, {"flips": FLIPS}),
        "append": lambda: append_shards(folder, {"features": FEATURES[:2]}, ids=["a", "b"]),
    }
    monkeypatch.setattr(manifests.Manifest, "write", late)
    with pytest.raises(KeyboardInterrupt):
        ways[write]()
    assert verify(folder) == []
    assert len(ShardedPool(folder)) == (N if write == "put" else N + 2)


def test_what_is_not_of_a_put_is_left_alone(folder):
    for name in ("mine-00000.npy", "flips.npy", "putt.put-1.npy"):
        (folder / name).write_bytes(b"x")
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps(seal({**json.loads(manifest.read_text()), "gone": ["features-00000.npy"]})))
    put_columns(folder, {"flips": FLIPS})
    assert {"mine-00000.npy", "flips.npy", "putt.put-1.npy"} <= {path.name for path in folder.iterdir()}
    assert verify(folder) == []


def test_one_writer_at_a_time(folder):
    def slow():
        with pytest.raises(BadInput, match="another process is writing"):
            put_columns(folder, {"flips": FLIPS})
        yield {"features": FEATURES[:1]}

    append_shards(folder, slow(), ids=["b"])


# -- readers and damage -----------------------------------------------------------------------------------------------


def test_readers_that_come_too_late_are_told(folder):
    before = put_columns(folder, {"flips": FLIPS, "predictions": CLASSES})
    np.testing.assert_array_equal(before["flips"][:3], FLIPS[:3])
    put_columns(folder, {"flips": LATER}, replace=True)
    np.testing.assert_array_equal(before["flips"][:9], FLIPS[:9])  # open already
    np.testing.assert_array_equal(before["predictions"][:], CLASSES)
    with pytest.raises(BadInput, match=r"the columns flips of .* were replaced or dropped after") as caught:
        before["flips"][:]
    assert not isinstance(caught.value, Damaged)
    (folder / "flips.put2-00001.npy").unlink()
    with pytest.raises(Damaged, match=r"flips\.put2-00001\.npy.*missing"):
        ShardedPool(folder)


def test_a_flipped_byte_is_found_and_mended_by_another_put(folder):
    put_columns(folder, {"flips": FLIPS})
    path = folder / "flips.put1-00001.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    words = r"flips\.put1-00001\.npy, rows 0\.\.8 \(items 9\.\.17 of the pool\): bytes are not those"
    with pytest.raises(Damaged, match=words):
        ShardedPool(folder)["flips"][:]
    (found,) = verify(folder)
    assert found.rows == (9, 18)
    path.unlink()
    put_columns(folder, {"flips": FLIPS}, replace=True)
    assert verify(folder) == []
