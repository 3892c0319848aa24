"""Pools: ids that last, items by position, clear errors."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr.data import ArrayPool, Pool
from ncalr.data.pool import positions_of
from ncalr.errors import BadInput, NotFinite


def test_images_and_vectors():
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    pool = ArrayPool(images)
    assert isinstance(pool, Pool)
    assert (len(pool), pool.shape, pool.dtype, pool.ids.tolist()) == (2, (4, 4, 1), np.uint8, [0, 1])
    np.testing.assert_array_equal(pool.read(np.array([1, 0]))[..., 0], images[::-1])
    tokens = ArrayPool(np.array([[5, 7, 0]]))
    assert (tokens.shape, tokens.dtype) == ((3,), np.int64)
    vectors = ArrayPool([[1.0, 2.0]], ids=["a"])
    assert (vectors.shape, vectors.dtype, vectors.ids.tolist()) == ((2,), np.float64, ["a"])


def test_a_mapped_file_is_not_read_whole(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 3), np.float32))
    pool = ArrayPool(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert isinstance(pool.items, np.memmap)


@pytest.mark.parametrize(
    ("items", "ids", "words"),
    [
        (np.zeros((0, 3)), None, "at least one item"),
        (np.zeros((2, 3), bool), None, "uint8"),
        (np.zeros((2, 4, 4), np.float32), None, "uint8"),
        (np.zeros(3), None, "got float64 of shape"),
        (np.zeros((2, 3)), [1, 1], "repeat; 1 do, the first is 1;"),
        (np.zeros((2, 3)), [1], "there are 2 items, and ids for 1"),
        (np.zeros((2, 3)), [1.5, 2.5], "whole numbers or texts"),
        (np.zeros((2, 3)), [[1], [2, 3]], "`ids` must be .* different lengths"),
    ],
)
def test_what_is_no_pool(items, ids, words):
    with pytest.raises(BadInput, match=words):
        ArrayPool(items, ids)


def test_vectors_must_be_finite():
    with pytest.raises(NotFinite, match="NaN or infinity"):
        ArrayPool(np.array([[1.0, np.nan]]))


def test_positions_of_ids():
    pool = ArrayPool(np.zeros((4, 2)), ids=["d", "a", "c", "b"])
    assert positions_of(pool, ["b", "d"]).tolist() == [3, 0]
    assert positions_of(pool, []).tolist() == []
    for ids, words in (
        (["x"], "'x'"),
        (["zz", "a"], "'zz'"),
        (["a", "a"], "repeat"),
        ([1], "same kind"),
        ([["a"]], "list"),
        ([0.5], "whole numbers or texts"),
    ):
        with pytest.raises(BadInput, match=words):
            positions_of(pool, ids)


def test_what_is_not_finite_is_located():
    items = np.zeros((70_000, 3), np.float32)
    items[66_000, 2] = np.nan
    with pytest.raises(NotFinite, match=r"the first in row 66000 \(id 'n66000'\), dimension 2"):
        ArrayPool(items, ids=[f"n{i}" for i in range(70_000)])


def test_vectors_that_are_not_finite_are_counted():
    vectors = np.zeros((70_000, 2), np.float16)
    vectors[[7, 69_000], [1, 0]] = np.nan, np.inf
    with pytest.raises(
        NotFinite, match=r"^2 of the pool's 70,000 vectors hold NaN or infinity, the first in row 7 \(id "
    ):
        ArrayPool(vectors)
