"""Sharded pools: what is written is read, in any order; half-written and torn folders are no pools."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ncalr.data.pool import Pool
from ncalr.data.shards import MANIFEST, ShardedPool, write_shards
from ncalr.errors import BadInput, NotFinite

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
        "ids.npy",
        "manifest.json",
        *(f"shard-{at:05d}.npy" for at in range(5)),
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
    assert {shard["items"] for shard in shards[:-1]} <= {shard_items}


def test_images_are_mapped_and_get_their_channel(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    np.save(tmp_path / "images.npy", images)
    pool = write_shards(tmp_path / "pool", np.load(tmp_path / "images.npy", mmap_mode="r"), shard_items=4)
    assert (pool.shape, pool.dtype) == ((4, 4, 1), np.uint8)
    np.testing.assert_array_equal(pool.read(np.array([5, 0]))[..., 0], images[[5, 0]])
    assert isinstance(pool._shard(0).base, np.memmap)
    assert list(pool._open) == [0, 1]


@pytest.mark.parametrize(
    ("blocks", "options", "error", "words"),
    [
        ([], {}, BadInput, "at least one item"),
        (np.zeros((0, 2)), {}, BadInput, "at least one item"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], {}, BadInput, "block 1 has items of float64 and shape"),
        ([np.zeros((2, 2)), np.zeros((2, 2), np.float32)], {}, BadInput, "block 1 has items of float32"),
        ([np.zeros(3)], {}, BadInput, "block 0 is float64 of shape"),
        (np.array([[1.0, np.inf]]), {}, NotFinite, "NaN or infinity"),
        (ITEMS, {"ids": [1, 2]}, BadInput, "23 whole numbers or texts"),
        (ITEMS, {"ids": [1] * 23}, BadInput, "the first that does is 1"),
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
    assert (tmp_path / "shard-00001.npy").exists()
    with pytest.raises(BadInput, match="writing was not finished"):
        ShardedPool(tmp_path)
    pool = write_shards(tmp_path, ITEMS, shard_items=5)  # and it can be written again
    np.testing.assert_array_equal(pool.read(slice(None)), ITEMS)


def test_a_pool_is_not_written_over(folder):
    with pytest.raises(BadInput, match="already holds a pool"):
        write_shards(folder, ITEMS)


def test_torn_and_missing_shards_are_named(folder):
    path = folder / "shard-00002.npy"
    pool, whole = ShardedPool(folder), path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(BadInput, match=r"shard-00002\.npy is torn: it has \d+ bytes, 168 were written"):
        ShardedPool(folder)
    with pytest.raises(BadInput, match=r"shard-00002\.npy is missing or torn"):
        pool.read(slice(None))
    np.testing.assert_array_equal(pool.read(slice(0, 10)), ITEMS[:10])  # the others are read
    path.unlink()
    with pytest.raises(BadInput, match=r"shard-00002\.npy is missing"):
        ShardedPool(folder)
    with pytest.raises(BadInput, match=r"shard-00002\.npy is missing or torn"):
        pool.read(np.array([12]))
    path.write_bytes(b"x" * len(whole))
    with pytest.raises(BadInput, match=r"shard-00002\.npy is missing or torn"):
        ShardedPool(folder).read(np.array([12]))
    np.save(path, ITEMS[:5].astype(np.int32))
    with pytest.raises(BadInput, match="holds int32"):
        ShardedPool(folder).read(np.array([12]))
    path.write_bytes(whole)
    (folder / "ids.npy").unlink()
    with pytest.raises(BadInput, match=r"ids\.npy is missing"):
        ShardedPool(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "not a manifest"),
        ('{"format": "other"}', "not a manifest"),
        ('{"format": "ncalr shards 1", "dtype": "<f4", "shape": [2]}', "lacks ids, shards"),
        ('{"format": "ncalr shards 1", "dtype": "<f4", "shape": [2], "shards": [], "ids": null}', "lacks shards"),
    ],
)
def test_manifests_that_are_none(tmp_path, text, words):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(BadInput, match=words):
        ShardedPool(tmp_path)


@pytest.mark.parametrize("positions", [[0.5], [[1, 2]]])
def test_positions_that_are_none(folder, positions):
    with pytest.raises(BadInput, match="list of whole numbers"):
        ShardedPool(folder).read(np.array(positions))
    with pytest.raises(IndexError, match="pool of 23 items"):
        ShardedPool(folder).read(np.array([23]))
