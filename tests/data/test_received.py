"""Files of others: what their names may not do, and what becomes of damaged ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ncalr.data.exchange import read_columns
from ncalr.data.files import held, write_whole
from ncalr.data.manifest import MANIFEST, UNSEALED, read_manifest, seal
from ncalr.data.received import (
    inside,
)
from ncalr.data.shards import ShardedPool, append_shards, put_columns, write_shards
from ncalr.data.verify import verify
from ncalr.errors import BadInput, NcalrError

N = 40
FEATURES = np.random.default_rng(0).normal(size=(N, 6)).astype(np.float32)
FLIPS = np.arange(N) % 5


@pytest.fixture
def pool(tmp_path):
    write_shards(tmp_path / "pool", {"features": FEATURES, "flips": FLIPS}, shard_items=20)
    return tmp_path / "pool"


def edit(folder, change):
    """Change a manifest, and make its checksum right again: so may anybody who sends a pool."""
    path = folder / MANIFEST
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(seal(facts)))


# -- names ------------------------------------------------------------------------------------------------------------

BAD = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:x",
    "x\0",
    "x\n",
    "nul",
    "COM1.npy",
    "x.",
    "x ",
    "a" * 256,
]
BAD += ["a*", 7, None, b"x", "\ud800"]


@pytest.mark.parametrize("name", BAD)
def test_names_that_are_no_plain_ones(tmp_path, name):
    with pytest.raises(BadInput, match="the name of a file"):
        inside(tmp_path, name)


@pytest.mark.parametrize("name", ["", "/x", "../x", "a/../../x", "a//b", "./a", "a/", "x\0", 7])
def test_paths_that_leave_a_folder(tmp_path, name):
    with pytest.raises(BadInput, match="the name of a file"):
        inside(tmp_path, name, below=True)


def test_names_inside(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    assert inside(tmp_path / "link", "features-00000.npy") == tmp_path / "link" / "features-00000.npy"
    assert inside(tmp_path, "a b/c:d.png", below=True) == tmp_path / "a b" / "c:d.png"
    assert inside(tmp_path, "link") == tmp_path / "link"  # it stays inside


@pytest.mark.parametrize("below", [False, True])
def test_links_that_lead_out(tmp_path, below):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "out").symlink_to(tmp_path / "victim")
    (tmp_path / "folder" / "circle").symlink_to("circle")
    with pytest.raises(BadInput, match="leads out"):
        inside(tmp_path / "folder", "out", below=below)
    if below:
        (tmp_path / "folder" / "up").symlink_to(tmp_path)
        with pytest.raises(BadInput, match="leads out"):
            inside(tmp_path / "folder", "up/victim", below=True)


def test_a_link_is_neither_written_through_nor_locked(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("manifest.json.part", "lock"):
        (tmp_path / name).symlink_to(victim)
    write_whole(tmp_path / "manifest.json", "{}")
    with pytest.raises(BadInput, match="symbolic link"), held(tmp_path / "lock"):
        pass
    assert victim.read_text() == "mine"


# -- pools ------------------------------------------------------------------------------------------------------------


def put(pool):
    put_columns(pool, {"flips": FLIPS}, replace=True)


@pytest.mark.parametrize("use", [ShardedPool, verify, put, lambda pool: put_columns(pool, {}, drop=["flips"])])
@pytest.mark.parametrize("name", ["../victim", "ABSOLUTE", "lock", "manifest.json", "features-00000.npy"])
def test_a_manifest_names_files_of_the_pool_alone(pool, use, name):
    victim = pool.parent / "victim"
    size = (pool / "flips-00000.npy").stat().st_size
    victim.write_bytes(bytes(size))
    name = str(victim) if name == "ABSOLUTE" else name
    edit(pool, lambda facts: facts["shards"][0]["files"]["flips"].update(file=name))
    with pytest.raises(BadInput, match="manifest"):
        use(pool)
    assert victim.read_bytes() == bytes(size)


@pytest.mark.parametrize("name", ["../victim", "lock", "manifest.json"])
def test_gone_files_are_files_of_columns(pool, name):
    edit(pool, lambda facts: facts.update(gone=[name]))
    with pytest.raises(BadInput, match="gone"):
        put(pool)


def test_a_link_in_the_place_of_a_shard(pool):
    (pool / "flips-00000.npy").rename(pool.parent / "elsewhere.npy")
    (pool / "flips-00000.npy").symlink_to(pool.parent / "elsewhere.npy")
    with pytest.raises(BadInput, match="leads out"):
        ShardedPool(pool)


def saved(folder, kind, name):
    """A file with a column of this name."""
    path = folder / f"table.{kind}"
    if kind == "npz":
        np.savez(path, **{name: FEATURES, "features": FEATURES})
    elif kind == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file({name: FEATURES, "features": FEATURES}, path)
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({name: FEATURES[:, 0], "features": FEATURES[:, 1]}), path)
    return path


@pytest.mark.parametrize("kind", ["npz", "parquet", "safetensors"])
@pytest.mark.parametrize("name", ["../evil", "a/b", "nul\0", "x.put1", "Features"])
def test_columns_of_a_file_do_not_choose_where_they_are_written(tmp_path, kind, name):
    if name == "nul\0" and kind == "npz":
        pytest.skip("zip archives cut such names")
    source = saved(tmp_path, kind, name)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadInput, match="column"):
        write_shards(tmp_path / "pool", read_columns(source))
    assert sorted(tmp_path.iterdir()) == before


def test_columns_of_an_append_do_not_either(pool):
    before = sorted(pool.parent.iterdir())
    for facts in (
        lambda facts: facts["columns"].update({"../evil": facts["columns"].pop("flips")}),
        lambda facts: [shard["files"].update({"../evil": shard["files"].pop("flips")}) for shard in facts["shards"]],
    ):
        edit(pool, facts)
    with pytest.raises(BadInput, match="evil"):
        append_shards(pool, {"features": FEATURES, "../evil": FLIPS})
    assert sorted(pool.parent.iterdir()) == before


# -- manifests --------------------------------------------------------------------------------------------------------


def test_a_shard_that_was_taken_out_is_an_error(pool):
    path = pool / MANIFEST
    facts = json.loads(path.read_text())
    assert facts["rows"] == N
    for change in (lambda f: f["shards"].pop(), lambda f: f.update(rows=20), lambda f: f.pop("checksum")):
        other = json.loads(json.dumps(facts))
        change(other)
        path.write_text(json.dumps(other))
        for use in (ShardedPool, verify, put):
            with pytest.raises(BadInput, match="not what was written"):
                use(pool)
    path.write_text(json.dumps(facts, sort_keys=True))  # its layout does not matter
    assert verify(pool) == []


def test_a_pool_of_the_format_before_is_read_and_gets_a_checksum(pool):
    path = pool / MANIFEST
    facts = json.loads(path.read_text())
    old = {name: value for name, value in facts.items() if name not in ("checksum", "rows")}
    path.write_text(json.dumps({**old, "format": UNSEALED}))
    assert not read_manifest(pool).sealed
    assert verify(pool) == []
    put(pool)
    assert read_manifest(pool).sealed


def places(facts, path=()):
    """Every place of nested data."""
    keys = facts if isinstance(facts, dict) else range(len(facts)) if isinstance(facts, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(facts[key], (*path, key))


STRANGE = [None, True, "x", -1, 0, 1.5, 10**30, [], {}, ["a"], "\0", "../x"]


def test_fields_of_a_wrong_type(tmp_path):
    """Whatever stands in a field: an error of ours, or a pool that reads as before."""
    write_shards(tmp_path, {"features": FEATURES[:3], "flips": FLIPS[:3]}, shard_items=2)
    whole = json.loads((tmp_path / MANIFEST).read_text())
    refused = 0
    for place in places(whole):
        for value in STRANGE:
            facts = json.loads(json.dumps(whole))
            at = facts
            for key in place[:-1]:
                at = at[key]
            if at[place[-1]] == value:
                continue
            at[place[-1]] = value
            if place[0] in ("columns", "puts", "gone", "made"):
                facts = seal(facts)
            (tmp_path / MANIFEST).write_text(json.dumps(facts))
            try:
                found = verify(tmp_path)
                rows = ShardedPool(tmp_path)["features"][:]
            except NcalrError:
                refused += 1
            else:
                assert place[0] in ("puts", "made", "gone"), (place, value)
                assert found == []
                np.testing.assert_array_equal(rows, FEATURES[:3])
    assert refused > 300
