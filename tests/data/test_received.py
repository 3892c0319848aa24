"""Files of others: what their names may not do, and what becomes of damaged ones."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest

from ncalr.data.arrow_sizes import check_arrow
from ncalr.data.exchange import read_columns, stored_dtypes, to_parquet
from ncalr.data.files import held, write_whole
from ncalr.data.manifest import MANIFEST, UNSEALED, read_manifest, seal
from ncalr.data.received import (
    check_file,
    inside,
    limited,
    parsed_json,
    read_json,
    read_npy,
    read_npz,
    read_object,
    read_safetensors,
    reading,
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
    with pytest.raises(BadInput, match=r"manifest\.json is damaged"):
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


# -- readers ----------------------------------------------------------------------------------------------------------


def test_the_guard_names_the_file_and_the_reason():
    for error, words in (
        (zipfile.BadZipFile("no zip"), "no zip"),
        (RecursionError(), "nested too deeply"),
        (MemoryError(), "more memory"),
        (KeyError("shape"), "'shape' is missing"),
        (struct.error("too short"), "too short"),
        (OverflowError("Python int too large"), "too large"),
        (IsADirectoryError(21, "Is a directory"), "Is a directory"),
    ):
        with pytest.raises(BadInput, match=rf"a\.npz cannot be read as \.npz .*{words}"), reading("a.npz", ".npz"):
            raise error
    with pytest.raises(KeyboardInterrupt), reading("a.npz", ".npz"):
        raise KeyboardInterrupt
    with pytest.raises(NcalrError, match=r"^as it is$"), reading("a.npz", ".npz"):
        raise NcalrError("as it is")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[1, 2", "", "\ufeff\x00", "1" * 10_000])
def test_json_that_is_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput, match=r"a\.json cannot be read as JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(BadInput, match="line 3 cannot be read as JSON"):
        parsed_json(text, "line 3")
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(BadInput, match="must hold a JSON object"):
        read_object(tmp_path / "a.json")


def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for read in (check_file, read_json, read_npy, read_npz, read_safetensors):
        with pytest.raises(BadInput, match="not a regular file"):
            read(tmp_path / "pipe.json")


def npy(header, body=bytes(64)):
    """A .npy file with any header."""
    text = header.encode("latin1")
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 9999999), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "(" * 3000 + ", }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, ",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2, 4), }",
    "{'descr': '|V999999999', 'fortran_order': False, 'shape': (99,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 16), }",
    "{'descr': '\\x00', 'fortran_order': False, 'shape': (4, 4), }",
    "[" * 5000,
]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_arrays_that_lie(tmp_path, header):
    (tmp_path / "a.npy").write_bytes(npy(header))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy(header))
    for read in (read_npy, lambda path: read_npy(path, mapped=False), lambda path: read_npz(path.with_suffix(".npz"))):
        with pytest.raises(BadInput, match=r"a\.np[yz]"):
            read(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "array", [FEATURES, np.asfortranarray(FEATURES), np.zeros((0, 3)), np.array("abc"), np.array(3)]
)
def test_arrays_come_back(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", a=array)
    np.savez_compressed(tmp_path / "b.npz", a=array, b=array)
    for found in (
        read_npy(tmp_path / "a.npy"),
        read_npy(tmp_path / "a.npy", mapped=False),
        read_npz(tmp_path / "a.npz")["a"],
        read_npz(tmp_path / "b.npz", ["b"])["b"],
    ):
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found, array)


def bomb(path, rows):
    """A compressed array of zeros with so many rows of 64 KiB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("features.npy", "w") as file:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (rows, 1 << 14)})
        file.write(head.getvalue())
        for _ in range(rows):
            file.write(bytes(1 << 16))


def test_a_bomb_is_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    bomb(tmp_path / "bomb.npz", 64)
    assert read_npz(tmp_path / "bomb.npz")["features"].shape == (64, 1 << 14)
    monkeypatch.setattr("ncalr.data.received.bytearray", lambda _: pytest.fail("allocated"), raising=False)
    monkeypatch.setattr("ncalr.data.received.MOST_UNPACKED", 1 << 20)
    with pytest.raises(BadInput, match="would unpack to"):
        list(read_columns(tmp_path / "bomb.npz"))
    monkeypatch.setattr("ncalr.data.received.MOST_RATIO", 10**6)
    monkeypatch.setattr("ncalr.data.received.free_memory", lambda: 1 << 20)
    with pytest.raises(BadInput, match="bytes of memory"):
        list(read_columns(tmp_path / "bomb.npz"))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_bomb_of_arrow_is_refused_before_anything_is_unpacked(tmp_path, monkeypatch, compression, kind):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"features": np.zeros(1 << 20), "kind": arrow.array(["a"] * (1 << 20)).dictionary_encode()})
    how = arrow.ipc.IpcWriteOptions(compression=compression)
    path, new = tmp_path / "bomb.arrow", {"file": arrow.ipc.new_file, "stream": arrow.ipc.new_stream}[kind]
    with arrow.OSFile(str(path), "wb") as file, new(file, table.schema, options=how) as writer:
        writer.write_table(table)
    check_arrow(path)
    monkeypatch.setattr("ncalr.data.received.MOST_UNPACKED", 12 << 20)
    check_arrow(path)  # each message alone
    with pytest.raises(BadInput, match="would unpack to 12,5"):
        check_arrow(path, at_once=True)
    monkeypatch.setattr("ncalr.data.received.MOST_UNPACKED", 1 << 20)
    with pytest.raises(BadInput, match="would unpack to 12,5"):
        check_arrow(path)
    if kind == "file":
        with pytest.raises(BadInput, match="would unpack to"):
            list(read_columns(path))


def test_a_bomb_of_parquet_is_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"features": np.zeros(1 << 20)}), tmp_path / "bomb.parquet")
    assert len(list(read_columns(tmp_path / "bomb.parquet"))) == 64
    monkeypatch.setattr("ncalr.data.received.MOST_UNPACKED", 1 << 20)
    with pytest.raises(BadInput, match="would unpack to"):
        list(read_columns(tmp_path / "bomb.parquet"))


def test_an_entry_longer_or_shorter_than_the_archive_says(tmp_path):
    np.savez(tmp_path / "a.npz", a=FEATURES)
    whole = (tmp_path / "a.npz").read_bytes()
    size = len(npy("x", b"")) - 64  # any size but the true one
    for wrong in (size, 10**9):
        broken = whole.replace(struct.pack("<I", FEATURES.nbytes + 128), struct.pack("<I", wrong))
        assert broken != whole
        (tmp_path / "a.npz").write_bytes(broken)
        with pytest.raises(BadInput, match=r"a\.npz"):
            read_npz(tmp_path / "a.npz")


def test_streams_have_an_end():
    assert limited(io.BytesIO(bytes(100)), 100, "a.gz") == bytes(100)
    with pytest.raises(BadInput, match=r"a\.gz unpacks to more than 99 bytes"):
        limited(io.BytesIO(bytes(100)), 99, "a.gz")


def safetensors(path, header, body=bytes(64)):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


WHOLE = {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        "[]",
        "{",
        {"a": 5},
        {"a": {**WHOLE, "dtype": "F31"}},
        {"a": {**WHOLE, "dtype": ["F32"]}},
        {"a": {**WHOLE, "shape": [4, -4]}},
        {"a": {**WHOLE, "shape": [10**18, 10**18]}},
        {"a": {**WHOLE, "shape": "44"}},
        {"a": {**WHOLE, "data_offsets": [0, 640]}},
        {"a": {**WHOLE, "data_offsets": [64, 128]}},
        {"a": {**WHOLE, "data_offsets": [-64, 0]}},
        {"a": WHOLE, "b": WHOLE},
        {"a": {**WHOLE, "shape": [2, 4], "data_offsets": [0, 32]}},
        {},
    ],
)
def test_headers_of_tensors_that_lie(tmp_path, header):
    path = safetensors(tmp_path / "a.safetensors", header)
    for read in (read_safetensors, stored_dtypes, lambda path: list(read_columns(path))):
        with pytest.raises(BadInput, match=r"a\.safetensors"):
            read(path)
    np.testing.assert_array_equal(read_safetensors(safetensors(path, {"a": WHOLE}))["a"], np.zeros((4, 4)))


def damaged(whole, rng, turn):
    """A file cut, or with other bytes in it."""
    broken = bytearray(whole)
    if turn % 3 == 0:
        return bytes(broken[: rng.integers(len(broken))])
    for at in rng.integers(len(broken), size=3 if turn % 3 == 1 else 40):
        broken[at] = rng.integers(256)
    return bytes(broken)


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "parquet", "arrow", "feather"])
def test_damaged_files_are_errors_of_ours(tmp_path, kind):
    """None ends in a library's error, and none ends the process."""
    path = tmp_path / f"whole.{kind}"
    if kind == "npy":
        np.save(path, FEATURES)
    elif kind in ("npz", "safetensors"):
        saved(tmp_path, kind, "a").rename(path)
    else:
        arrow = pytest.importorskip("pyarrow")
        lists = arrow.array(FEATURES.tolist(), arrow.list_(arrow.float32()))
        table = arrow.table({"features": lists, "flips": FLIPS, "name": [f"n{at}" for at in range(N)]})
        if kind == "parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, path)
        elif kind == "feather":
            pytest.importorskip("pyarrow.feather").write_feather(table, path)
        else:
            with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    assert list(read_columns(path))
    for turn in range(120):
        path.write_bytes(damaged(whole, rng, turn))
        try:
            list(read_columns(path))
        except NcalrError:
            refused += 1
    assert refused > 40


def test_parquet_of_ours_has_checksums_of_its_pages(pool, tmp_path):
    pytest.importorskip("pyarrow")
    to_parquet(pool, tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    at = whole.index(FEATURES[:2].tobytes()[:8]) if FEATURES[:2].tobytes()[:8] in whole else len(whole) // 4
    (tmp_path / "a.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(BadInput, match=r"a\.parquet"):
        list(read_columns(tmp_path / "a.parquet"))
