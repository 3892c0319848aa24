"""Columns from Parquet, Arrow, NumPy and safetensors, and back to Parquet."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ncalr.data.exchange import by_item, read_columns, stored_dtypes, to_parquet
from ncalr.data.shards import write_shards
from ncalr.errors import BadInput, MissingExtra

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(20_000, 3)).astype(np.float32)
SAMPLES = RNG.normal(size=(20_000, 2, 2)).astype(np.float16)
NAMES = np.array([f"n{at}" for at in range(20_000)])


def lists(values, kind):
    return pa.array(list(values), kind)


@pytest.fixture
def table():
    return pa.table(
        {
            "embedding": lists(FEATURES, pa.list_(pa.float32())),
            "fixed": lists(FEATURES, pa.list_(pa.float32(), 3)),
            "flips": pa.array(np.arange(20_000) % 7),
            "name": pa.array(NAMES),
        }
    )


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_tables(table, tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=3000)
    pool = write_shards(tmp_path / "pool", read_columns(path, ids="name", rename={"embedding": "features"}))
    np.testing.assert_array_equal(pool["features"][:], FEATURES)
    np.testing.assert_array_equal(pool["fixed"][:], FEATURES)
    np.testing.assert_array_equal(pool["flips"][:], np.arange(20_000) % 7)
    np.testing.assert_array_equal(pool.ids, NAMES)


def test_there_and_back(tmp_path):
    columns = {"features": FEATURES, "sampled_probs": SAMPLES}
    write_shards(tmp_path / "pool", columns, ids=NAMES, shard_items=9000)
    assert to_parquet(tmp_path / "pool", tmp_path / "pool.parquet") == 20_000
    again = write_shards(tmp_path / "again", read_columns(tmp_path / "pool.parquet"))
    np.testing.assert_array_equal(again["features"][:], FEATURES)
    np.testing.assert_array_equal(again["sampled_probs"][:], SAMPLES)
    np.testing.assert_array_equal(again.ids, NAMES)
    numbered = write_shards(tmp_path / "numbered", {"features": FEATURES[:5]})
    to_parquet(numbered, tmp_path / "numbered.parquet")
    assert pq.read_table(tmp_path / "numbered.parquet")["ids"].to_pylist() == [0, 1, 2, 3, 4]


def test_an_export_that_fails_leaves_no_file(tmp_path, monkeypatch):
    write_shards(tmp_path / "pool", {"features": FEATURES[:5]})
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        to_parquet(tmp_path / "pool", tmp_path / "out.parquet")
    assert not list(tmp_path.glob("out*"))


def test_arrays(tmp_path):
    np.save(tmp_path / "features.npy", FEATURES)
    np.savez(tmp_path / "both.npz", features=FEATURES, flips=np.arange(20_000))
    (block,) = read_columns(tmp_path / "features.npy")
    assert isinstance(block["features"], np.memmap)
    (block,) = read_columns(tmp_path / "both.npz", ids="flips")
    np.testing.assert_array_equal(block["ids"], np.arange(20_000))


def test_safetensors_with_bfloat16(tmp_path):
    torch = pytest.importorskip("torch")
    save = pytest.importorskip("safetensors.torch").save_file
    half = torch.from_numpy(FEATURES).bfloat16()
    save({"f": half, "flips": torch.arange(20_000)}, tmp_path / "a.safetensors", metadata={"by": "hand"})
    rename = {"f": "features"}
    assert stored_dtypes(tmp_path / "a.safetensors", rename) == {"features": "bfloat16"}
    assert stored_dtypes("a.parquet") == {}
    pool = write_shards(
        tmp_path / "pool", read_columns(tmp_path / "a.safetensors", rename=rename), dtypes={"features": "bfloat16"}
    )
    np.testing.assert_array_equal(pool["features"][:], half.float().numpy())
    np.testing.assert_array_equal(pool["flips"][:], np.arange(20_000))


def test_what_cannot_be_read(tmp_path, table):
    pq.write_table(table, tmp_path / "a.parquet")
    odd = pa.table({"x": pa.array([[1.0], [1.0, 2.0, 3.0]], pa.list_(pa.float64()))})
    pq.write_table(odd, tmp_path / "odd.parquet")
    pq.write_table(pa.table({"x": pa.array([[1.0], None])}), tmp_path / "empty.parquet")
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [1, None], "z": [1, 2]}), tmp_path / "half.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    (tmp_path / "bad.safetensors").write_bytes(b"nothing to see here")
    for name, words in {
        "a.csv": "read from .parquet",
        "none.npy": "there is no file",
        "odd.parquet": "different lengths",
        "empty.parquet": "1 empty cells; fill them, or leave those rows out$",
        "half.parquet": r"column y has 1 empty cells; .*columns=\['x', 'z'\], on the command line --columns x,z",
        "bad.parquet": "cannot be read as \\.parquet",
        "bad.npy": "cannot be read as \\.npy",
        "bad.safetensors": "not a .safetensors file",
    }.items():
        with pytest.raises(BadInput, match=words):
            list(read_columns(tmp_path / name))
    with pytest.raises(BadInput, match="has no column id; it has embedding"):
        list(read_columns(tmp_path / "a.parquet", ids="id"))


def test_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"ncalr\[parquet\]"):
        list(read_columns(tmp_path / "a.parquet"))


def test_evidence_by_item():
    turned = by_item({"checkpoint_predictions": np.zeros((3, 8)), "sampled_probs": np.zeros((2, 8, 4)), "x": SAMPLES})
    assert [array.shape for array in turned.values()] == [(8, 3), (8, 2, 4), SAMPLES.shape]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "npz"])
def test_some_columns_alone(table, tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    if suffix == "npz":
        np.savez(path, embedding=FEATURES, flips=np.arange(20_000) % 7, name=NAMES)
    elif suffix == "parquet":
        pq.write_table(table.append_column("caption", pa.array(NAMES)), path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    blocks = list(read_columns(path, ids="name", rename={"embedding": "features"}, columns=["embedding"]))
    assert set(blocks[0]) == {"features", "ids"}
    assert np.array_equal(np.concatenate([block["features"] for block in blocks]), FEATURES)
    with pytest.raises(BadInput, match="has no column other; it has "):
        list(read_columns(path, columns=["other"]))
