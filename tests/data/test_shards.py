"""Sharded pools: what is written is read, in any order; half-written and torn folders are no pools."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.data.columns import Reader, stream
from ncalr.data.manifest import MANIFEST
from ncalr.data.pool import Pool, checked_ids
from ncalr.data.shards import ShardedPool, append_shards, write_shards
from ncalr.data.verify import verify
from ncalr.errors import BadInput, Damaged, NotFinite
from ncalr.kernels import checksum

ITEMS = np.arange(46, dtype=np.float32).reshape(23, 2)


@pytest.fixture
def folder(tmp_path):
    write_shards(tmp_path / "pool", ITEMS, ids=[f"item-{at}" for at in range(23)], shard_items=5)
    return tmp_path / "pool"


def test_what_is_written_is_read(folder):
    pool = ShardedPool(folder)
    assert isinstance(pool, Pool)
    assert (len(pool), pool.shape, pool.dtype, pool.ids[7]) == (23, (2,), np.float32, "item-7")
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"ids-{at:05d}.npy" for at in range(5)),
        *(f"items-{at:05d}.npy" for at in range(5)),
        "lock",
        "manifest.json",
    ]
    places = np.random.default_rng(0).integers(0, 23, 100)
    np.testing.assert_array_equal(pool.read(places), ITEMS[places])
    np.testing.assert_array_equal(pool.read(places - 23), ITEMS[places])
    np.testing.assert_array_equal(pool.read(slice(20, 3, -4)), ITEMS[20:3:-4])


@pytest.mark.parametrize("sizes", [[23], [5, 5, 13], [1] * 23, [0, 7, 0, 16]])
@pytest.mark.parametrize("shard_items", [1, 5, 23, 100])
def test_blocks_of_any_length(tmp_path, sizes, shard_items):
    blocks = np.split(ITEMS, np.cumsum(sizes)[:-1])
    pool = write_shards(tmp_path, iter(blocks), shard_items=shard_items)
    np.testing.assert_array_equal(pool.read(slice(None)), ITEMS)
    assert pool.ids.tolist() == list(range(23))
    shards = json.loads((tmp_path / MANIFEST).read_text())["shards"]
    assert {shard["rows"] for shard in shards[:-1]} <= {shard_items}


def test_images_are_mapped_and_get_their_channel(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    np.save(tmp_path / "images.npy", images)
    pool = write_shards(tmp_path / "pool", np.load(tmp_path / "images.npy", mmap_mode="r"), shard_items=4)
    assert (pool.shape, pool.dtype) == ((4, 4, 1), np.uint8)
    np.testing.assert_array_equal(pool.read(np.array([5, 0]))[..., 0], images[[5, 0]])
    assert isinstance(pool["items"]._maps[0].base, np.memmap)
    assert list(pool["items"]._maps) == [0, 1]


@pytest.mark.parametrize(
    ("blocks", "options", "error", "words"),
    [
        ([], {}, BadInput, "at least one item"),
        (np.zeros((0, 2)), {}, BadInput, "at least one item"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], {}, BadInput, "block 1 has items of float64 and shape"),
        ([np.zeros((2, 2)), np.zeros((2, 2), np.int32)], {}, BadInput, "block 1 has items of int32"),
        ([np.zeros(3)], {}, BadInput, "block 0 is float64 of shape"),
        (np.array([[1.0, np.inf]]), {}, NotFinite, "NaN or infinity"),
        (ITEMS, {"ids": [1, 2]}, BadInput, "different numbers of rows"),
        (ITEMS, {"ids": range(24)}, BadInput, "ids must be 23 whole numbers"),
        (ITEMS, {"ids": [1] * 23}, BadInput, "1 do, the first is 1"),
        (ITEMS, {"ids": 7}, BadInput, "ids must be"),
        (ITEMS, {"ids": [0.5] * 23}, BadInput, "whole numbers or texts"),
        (ITEMS, {"ids": np.full(23, 2**63, np.uint64)}, BadInput, "below 2"),
        ({"items": ITEMS, "ids": range(23)}, {"ids": range(23)}, BadInput, "given twice"),
        ({"ids": range(23)}, {}, BadInput, "has no column"),
        ({"features": ITEMS, "logits": ITEMS[:3]}, {}, BadInput, "different numbers of rows"),
        ({"features": np.array(["a"])}, {}, BadInput, "a column holds numbers"),
        ([{"features": ITEMS}, {"logits": ITEMS}], {}, BadInput, "block 1 has the columns logits"),
        ({"features": ITEMS}, {"dtypes": {"features": "int8"}}, BadInput, "stored as float16"),
        ({"features": ITEMS}, {"dtypes": {"logits": "float16"}}, BadInput, "a dtype was given for logits"),
        ({"features": ITEMS * 1e4}, {"dtypes": {"features": "float16"}}, NotFinite, "choose a wider dtype"),
        (ITEMS, {"shard_items": 0}, BadInput, "shard_items=0"),
    ],
)
def test_what_cannot_be_written_leaves_no_pool(tmp_path, blocks, options, error, words):
    with pytest.raises(error, match=words):
        write_shards(tmp_path / "pool", blocks, **options)
    with pytest.raises(BadInput, match="has no manifest"):
        ShardedPool(tmp_path / "pool")


def test_a_writer_that_is_killed_leaves_no_pool(tmp_path):
    def killed():
        yield ITEMS[:12]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shards(tmp_path, killed(), shard_items=5)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    with pytest.raises(BadInput, match="writing was not finished"):
        ShardedPool(tmp_path)
    pool = write_shards(tmp_path, ITEMS, shard_items=5)  # and it can be written again
    np.testing.assert_array_equal(pool.read(slice(None)), ITEMS)


def test_a_pool_is_not_written_over(folder):
    with pytest.raises(BadInput, match="already holds a pool"):
        write_shards(folder, ITEMS)


def test_torn_and_missing_shards_are_named(folder):
    path = folder / "items-00002.npy"
    pool, whole = ShardedPool(folder), path.read_bytes()
    path.write_bytes(whole[:-3])
    torn = r"items-00002\.npy, rows 4\.\.4 \(items 14\.\.14 of the pool\): the file is torn: it has 165 bytes, 168"
    with pytest.raises(Damaged, match=torn):
        ShardedPool(folder)
    with pytest.raises(Damaged, match=torn):
        pool.read(slice(None))
    np.testing.assert_array_equal(pool.read(slice(0, 10)), ITEMS[:10])  # the others are read
    path.unlink()
    with pytest.raises(Damaged, match=r"items-00002\.npy, rows 0\.\.4 .*: the file is missing"):
        ShardedPool(folder)
    path.write_bytes(whole)
    (folder / "ids-00001.npy").unlink()
    with pytest.raises(Damaged, match=r"ids-00001\.npy.* missing"):
        ShardedPool(folder)


@pytest.mark.parametrize("text_ids", [True, False])
def test_one_flipped_bit_is_never_handed_out(tmp_path, text_ids):
    """Three blocks of 128 rows in a file: only the one with the bit is refused."""
    items = np.random.default_rng(0).normal(size=(300, 2048)).astype(np.float32)
    pool = write_shards(tmp_path, items, ids=[f"i{at}" for at in range(300)] if text_ids else None)
    path = tmp_path / "items-00000.npy"
    data = bytearray(path.read_bytes())
    data[-2048 * 4 * 100] ^= 16  # in row 200
    path.write_bytes(data)
    words = r"items-00000\.npy, rows 128\.\.255 \(items 128\.\.255 of the pool\): bytes are not those"
    with pytest.raises(Damaged, match=words) as caught:
        pool.read(np.array([299, 130]))
    assert (caught.value.path, caught.value.rows) == (str(path), (128, 256))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.path, again.rows) == (str(caught.value), str(path), (128, 256))
    np.testing.assert_array_equal(pool.read(np.array([299, 100])), items[[299, 100]])
    with pytest.raises(Damaged, match=words):
        list(stream({"items": pool["items"]}, [(0, 100), (100, 300)]))
    assert [str(found) for found in verify(tmp_path)] == [str(caught.value)]


def test_verify_looks_at_everything_and_goes_on(folder):
    assert verify(folder) == []
    (folder / "items-00000.npy").unlink()
    path = folder / "items-00001.npy"
    path.write_bytes(path.read_bytes()[:-9])
    path = folder / "items-00003.npy"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    path = folder / "items-00004.npy"
    np.save(path, ITEMS[-3:].astype(np.int32))
    found = [str(damage) for damage in verify(folder)]
    assert [name for name in ("00000", "00001", "00003", "00004") if any(name in words for words in found)] == [
        "00000",
        "00001",
        "00003",
        "00004",
    ]
    assert "header" in found[2]
    assert sum("00004" in words for words in found) == 2  # its header and its rows


def test_readers_see_the_pool_as_they_opened_it(folder):
    before = ShardedPool(folder)
    after = append_shards(folder, ITEMS[:7] + 100, ids=[f"new-{at}" for at in range(7)], shard_items=4)
    assert (len(before), len(after), after.ids[-1], after.ids[0]) == (23, 30, "new-6", "item-0")
    np.testing.assert_array_equal(after.read(slice(None)), np.concatenate([ITEMS, ITEMS[:7] + 100]))
    np.testing.assert_array_equal(before.read(slice(None)), ITEMS)
    assert verify(folder) == []


@pytest.mark.parametrize(
    ("blocks", "ids", "words"),
    [
        (ITEMS[:2], ["item-3", "x"], "1 of the ids are in the pool already, the first is 'item-3'"),
        (ITEMS[:2], None, "the pool has ids, items"),
        (ITEMS[:2], [1, 2], "ids of int64"),
        (ITEMS[:2, :1], ["x", "y"], r"shape \(1,\)"),
        ([], [], "at least one item"),
    ],
)
def test_what_does_not_fit_is_not_appended(folder, blocks, ids, words):
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(BadInput, match=words):
        append_shards(folder, blocks, ids=ids)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


FULL = """
import resource, signal, sys
import numpy as np
from ncalr.data.shards import append_shards
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    append_shards(sys.argv[1], np.ones((4000, 2), np.float32), ids=[f"new-{at}" for at in range(4000)], shard_items=100)
except OSError as error:
    print("full", error.errno)
"""


@pytest.mark.parametrize("room", [100, 500, 3000])
def test_a_disk_that_is_full_leaves_the_pool_as_it_was(folder, room):
    """The system refuses bytes beyond a file's `room`: in a shard, in the ids, or only in the manifest."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = subprocess.run([sys.executable, "-c", FULL, folder, str(room)], capture_output=True, text=True)
    assert done.stdout.startswith("full"), done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert verify(folder) == []


def test_no_rows_and_ids_of_objects(folder):
    pool = ShardedPool(folder)
    assert pool.read(slice(5, 5)).shape == pool.read(np.array([], int)).shape == (0, 2)
    assert checked_ids(np.array(["a", "bc"], object), 2).tolist() == ["a", "bc"]
    with pytest.raises(BadInput, match="2 whole numbers or texts"):
        checked_ids([0.5, 1.0], 2)


def test_one_writer_at_a_time(folder):
    def slow():
        with pytest.raises(BadInput, match="another process is writing"):
            append_shards(folder, ITEMS[:1], ids=["a"])
        yield ITEMS[:1]

    assert len(append_shards(folder, slow(), ids=["b"])) == 24


def test_precisions(tmp_path):
    """bfloat16 keeps the upper 16 bits, rounded to the nearest, ties to even."""
    values = np.array([[1.0, 1 + 2**-8, 1 + 3 * 2**-8, -2.5]], np.float32)
    pool = write_shards(tmp_path / "a", {"features": values, "logits": values}, dtypes={"features": "bfloat16"})
    np.testing.assert_array_equal(pool["features"][:], [[1.0, 1.0, 1 + 2**-6, -2.5]])
    assert (pool["features"].dtype, pool["features"].ndim, pool["features"].nbytes) == (np.float32, 2, 16)
    assert np.load(tmp_path / "a" / "features-00000.npy").dtype == np.uint16
    bits = np.load(tmp_path / "a" / "features-00000.npy")
    same = write_shards(tmp_path / "b", {"features": bits}, dtypes={"features": "bfloat16"})
    np.testing.assert_array_equal(same["features"][:], pool["features"][:])
    half = write_shards(tmp_path / "c", {"features": values.astype(">f4")}, dtypes={"features": "float16"})
    assert half["features"].dtype == np.float16
    np.testing.assert_array_equal(half["features"][:], values)
    more = append_shards(tmp_path / "c", {"features": values.astype(np.float64)})
    np.testing.assert_array_equal(more["features"][:], np.concatenate([values, values]))
    with pytest.raises(BadInput, match="has no column 'probs'; it has features"):
        more["probs"]


def test_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)
    pool = write_shards(tmp_path, {"features": values})
    assert pool["features"].kind.dtype == "bfloat16"
    assert write_shards(tmp_path / "b", values)["items"].kind.dtype == "bfloat16"
    np.testing.assert_array_equal(pool["features"][:], [[1.0, 2.0]])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=4), st.lists(st.integers(0, 799), max_size=6))
def test_streams_give_every_row_once(sizes, cuts):
    """Shards and ranges of any length: the same rows, whatever buffers are used again."""
    n = sum(sizes)
    items = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        pool = write_shards(folder, {"features": items[: sizes[0]]})
        for start, size in zip(np.cumsum(sizes), sizes[1:], strict=False):
            pool = append_shards(folder, {"features": items[start : start + size]})
        edges = sorted({0, n, *(cut for cut in cuts if cut < n)})
        ranges = list(pairwise(edges))
        got = [(rows, block["features"].copy()) for rows, block in stream(pool.columns, ranges)]
        assert [rows for rows, _ in got] == ranges
        np.testing.assert_array_equal(np.concatenate([block for _, block in got]), items)
        for start, stop in ranges:
            np.testing.assert_array_equal(pool["features"][start:stop], items[start:stop])
    assert list(stream(pool.columns, [])) == []


def test_a_file_that_shrinks_while_it_is_read(folder):
    pool = ShardedPool(folder)
    reader = Reader(pool["items"])
    reader.read(0, 3)
    path = folder / "items-00000.npy"
    path.write_bytes(path.read_bytes()[:140])
    with pytest.raises(Damaged, match=r"rows 1\.\.4"):
        reader.read(0, 5)
    reader.close()
    reader.close()


WHOLE = '{"format": "ncalr shards 2", "columns": {"items": {"dtype": "float32", "shape": [2]}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "must hold a JSON object"),
        ('{"format": "other"}', "not a manifest"),
        ('{"format": "ncalr shards 2"}', "columns must be an object"),
        (WHOLE + ', "shards": []}', "shards and columns"),
        (WHOLE + ', "shards": [{"rows": 2, "files": {}}]}', "files of a shard"),
    ],
)
def test_manifests_that_are_none(tmp_path, text, words):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(BadInput, match=words):
        ShardedPool(tmp_path)


def test_checksums_by_numpy_and_by_hand():
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 9, 1000):
        data = rng.integers(0, 256, size, np.uint8)
        padded = data.tobytes() + bytes(-size % 8)
        words = np.frombuffer(padded, np.uint64)
        by_hand = sum(int(word) * (2 * i + 1) for i, word in enumerate(words)) + size
        assert checksum.checksum(data) == by_hand % 2**64
        assert checksum.by_numpy(words) == (by_hand - size) % 2**64


def test_checksums_without_numba(monkeypatch):
    monkeypatch.setattr(checksum.importlib.util, "find_spec", lambda name: None)
    assert checksum._kernel.__wrapped__() is checksum.by_numpy


@pytest.mark.parametrize("positions", [[0.5], [[1, 2]]])
def test_positions_that_are_none(folder, positions):
    with pytest.raises(BadInput, match="list of whole numbers"):
        ShardedPool(folder).read(np.array(positions))
    with pytest.raises(IndexError, match="pool of 23 items"):
        ShardedPool(folder).read(np.array([23]))


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system cannot be told what will be read")
def test_the_system_is_told_what_comes_next(tmp_path, monkeypatch):
    from ncalr.data.columns import stream

    write_shards(tmp_path, {"features": np.arange(40, dtype=np.float32).reshape(20, 2)}, shard_items=10)
    column = ShardedPool(tmp_path)["features"]
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _file, place, size, kind: told.append((place, size, kind)))
    seen = [rows for rows, _ in stream({"features": column}, [(0, 4), (4, 8), (8, 10)])]
    assert seen == [(0, 4), (4, 8), (8, 10)]
    first = column.offset(0)
    expected = [(place, size) for place, size, kind in told if kind == os.POSIX_FADV_WILLNEED]
    assert expected == [(first + 4 * 8, 4 * 8), (first + 8 * 8, 2 * 8)]


def test_what_cannot_be_stored_is_located_and_the_advice_fits(tmp_path):
    items = np.zeros((50, 3))
    items[31, 1] = np.nan
    with pytest.raises(NotFinite, match="1 in these 50 rows, the first in row 31; mend or leave out those items"):
        write_shards(tmp_path / "a", {"features": items})
    items[31, 1] = 1e6
    with pytest.raises(NotFinite, match=r"the first in row 31 \(1e\+06, beyond float16\); choose a wider dtype"):
        write_shards(tmp_path / "a", {"features": items}, dtypes={"features": "float16"})
    assert not (tmp_path / "a").exists()
    blocks = iter([{"features": np.zeros((4, 3))}, {"features": np.full((4, 3), np.inf)}])
    with pytest.raises(NotFinite, match="the first in row 0 of block 1"):
        write_shards(tmp_path / "a", blocks)


def test_a_folder_that_was_there_stays(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(BadInput):
        write_shards(tmp_path, {"features": np.array(["a", "b"])})
    assert (tmp_path / "mine.txt").exists()
