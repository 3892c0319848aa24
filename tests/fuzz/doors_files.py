"""Files and folders of other people: tables, arrays, pools, labels, archives, runs, pictures; commands on them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import VICTIM, Attempt, Draw, as_json, door, mutated, name_of, odd_value, rng_of, with_odd_fields
from hypothesis import strategies as st

import ncalr
import ncalr.errors
from ncalr.cli import main as command_line
from ncalr.cli.query import read_array, read_ids
from ncalr.data import dataset
from ncalr.data.embeddings import read_embeddings
from ncalr.data.exchange import read_columns, stored_dtypes, to_parquet
from ncalr.data.images import ImagePool
from ncalr.data.manifest import MANIFEST, leftovers, read_manifest, seal
from ncalr.data.shards import ShardedPool, append_shards, put_columns, write_shards
from ncalr.data.tables import columns_of, count_labels, read_labels, read_table
from ncalr.data.verify import verify
from ncalr.evaluate.audit_run import audit_file
from ncalr.lab.runner import read_runs
from ncalr.lab.session import report_again
from ncalr.loop.environment import read_environments
from ncalr.loop.state import replay
from ncalr.oracles import Truth, oracle_of
from ncalr.web import exchange, sources
from ncalr.web.folder import Folder
from ncalr.web.media import Decoder
from ncalr.web.store import open_store, projects

N = 6
IDS = [f"item {at}" for at in range(N)]
VECTORS = np.arange(3.0 * N, dtype=np.float32).reshape(N, 3) / 7 + 0.25
LABELS = ["cat", "dog", "", "cat", "dog", ""]

# Files that are whole


@cache
def whole(kind: str) -> bytes:
    """The bytes of a valid file of this ending."""
    out = io.BytesIO()
    match kind:
        case "csv" | "tsv":
            text = io.StringIO()
            write = csv.writer(text, delimiter="\t" if kind == "tsv" else ",")
            write.writerow(["id", "text", "a", "b", "c", "label"])
            write.writerows(
                [name, f"text {name}", *map(str, row), label]
                for name, row, label in zip(IDS, VECTORS.tolist(), LABELS, strict=True)
            )
            return text.getvalue().encode()
        case "jsonl":
            rows = zip(IDS, VECTORS.tolist(), LABELS, strict=True)
            return b"".join(
                json.dumps({"id": i, "text": f"text {i}", "vector": v, "label": k}).encode() + b"\n" for i, v, k in rows
            )
        case "json":
            tasks = [
                {
                    "data": {"id": name, "text": f"text {name}"},
                    "annotations": [
                        {
                            "completed_by": {"email": "ann"},
                            "was_cancelled": False,
                            "result": [{"value": {"choices": [label]}}],
                        }
                    ],
                }
                for name, label in zip(IDS, LABELS, strict=True)
                if label
            ]
            return json.dumps(tasks).encode()
        case "npy":
            np.save(out, VECTORS)
        case "npz":
            np.savez(out, features=VECTORS, ids=np.array(IDS), flips=np.arange(N))
        case "npz packed":
            np.savez_compressed(out, features=VECTORS, ids=np.array(IDS))
        case "safetensors":
            header = {
                "features": {"dtype": "F32", "shape": [N, 3], "data_offsets": [0, 12 * N]},
                "flips": {"dtype": "I64", "shape": [N], "data_offsets": [12 * N, 20 * N]},
                "__metadata__": {"made": "by hand"},
            }
            return _safetensors(json.dumps(header).encode())
        case "parquet" | "arrow" | "feather":
            import pyarrow as pa
            from pyarrow import parquet

            texts = [f"text {name}" for name in IDS]
            made = pa.table({"id": IDS, "text": texts, "vector": VECTORS.tolist(), "label": LABELS})
            if kind == "parquet":
                parquet.write_table(made, out)
            else:
                with pa.ipc.new_file(out, made.schema) as file:
                    file.write_table(made, max_chunksize=4)
    return out.getvalue()


def _safetensors(header: bytes, length: int | None = None) -> bytes:
    body = VECTORS.tobytes() + np.arange(N).tobytes()
    return struct.pack("<Q", (len(header) if length is None else length) % 2**64) + header + body


@cache
def _zeros(mebibytes: int) -> tuple[bytes, int]:
    """A deflate stream of so many mebibytes of zeros: one packed piece, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return piece * mebibytes + zlib.compressobj(9, zlib.DEFLATED, -15).flush(), mebibytes * 2**20


def _zip(entries: list[tuple[str, bytes]], rng: Any) -> bytes:
    """A zip whose entries have any names."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that come twice
        with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as made:
            for name, content in entries:
                made.writestr(zipfile.ZipInfo(name.replace("\ud800", "?")[:200] or "x"), content)
    return out.getvalue()


def bomb(name: str, mebibytes: int = 8192) -> bytes:
    """A zip with one small entry that unpacks to gigabytes of zeros, as an array would be."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f4", "fortran_order": False, "shape": (mebibytes * 2**16, 4)}
    )
    stream, size = _zeros(mebibytes)
    stored = head.getvalue()
    first = b"\x00" + struct.pack("<HH", len(stored), len(stored) ^ 0xFFFF) + stored  # a stored block before the zeros
    data, size = first + stream, size + len(stored)
    file = f"{name}.npy".encode()
    local = struct.pack("<4sHHHHHLLLHH", b"PK\3\4", 45, 0, 8, 0, 0x21, 0, len(data), 2**32 - 1, len(file), 20) + file
    local += struct.pack("<HHQQ", 1, 16, size, len(data))
    extra = struct.pack("<HHQ", 1, 8, size)
    central = struct.pack(
        "<4sHHHHHHLLLHHHHHLL",
        b"PK\1\2", 45, 45, 0, 8, 0, 0x21, 0, len(data), 2**32 - 1, len(file), len(extra), 0, 0, 0, 0, 0,
    )  # fmt: skip
    central += file + extra
    end = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + end


SHAPES = (
    *(
        "(2, 3)",
        "(6, 3)",
        "(6, 3)",
        "(6, 3)",
        f"({2**40}, 4)",
        f"({2**62}, {2**62})",
        "(-1, 3)",
        "(True,)",
        "(6.0,)",
        "6",
    ),
    *("()", "(0, 3)", "(6, 0)", "(" * 500, "(6, 3), 'x': 1", "('a',)", "None", "(1,)*9", f"({'1, ' * 70})"),
)
DESCRS = (
    *("'<f4'", "'<f4'", "'|O'", "'<U0'", "'|S0'", "'<f16'", "'>f4'", "'|b1'", "'<M8[s]'", "[('a', '<f4')]", "'|V0'"),
    *("'x'", "3", "None", "'<f4' + 'x'", "__import__('os')", "'\\x00'", "'<U99999999'", "[]", "[('a', '|O')]", "'<c8'"),
)


def odd_npy(rng: Any, place: Path) -> bytes:
    """A .npy file whose header says something else than what follows."""
    shape = rng.choice(SHAPES)
    descr = rng.choice(DESCRS)
    order = rng.choice(("False", "True", "3", "'x'"))
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    version = rng.choice((b"\1\0", b"\2\0", b"\3\0", b"\0\0", b"\xff\xff"))
    length = rng.choice((len(header), len(header), len(header), 0, 65535, len(header) // 2))
    size = struct.pack("<H", length % 65536) if version == b"\1\0" else struct.pack("<I", length)
    return b"\x93NUMPY" + version + size + header + VECTORS.tobytes()[: rng.choice((0, 5, 72, 72, 72))]


def odd_file(kind: str, rng: Any, place: Path, edits: int) -> bytes:
    """A file of this ending that is damaged, or that somebody wrote to hurt; whole without edits."""
    if not edits:
        return whole(kind)
    way = rng.randrange(4)
    if kind == "npy" and way:
        return odd_npy(rng, place)
    if kind == "npz" and way == 1:
        inside = [(name_of(rng, place) + rng.choice((".npy", "")), rng.choice((whole("npy"), odd_npy(rng, place))))]
        return mutated(_zip([("features.npy", whole("npy")), *inside], rng), rng, rng.choice((0, 0, 1)))
    if kind == "npz" and way == 2:
        return bomb("features") if rng.random() < 0.03 else mutated(whole("npz packed"), rng, edits)
    if kind == "safetensors" and way:
        header = json.loads(
            whole("safetensors")[8:].split(b"\0")[0][: struct.unpack("<Q", whole("safetensors")[:8])[0]]
        )
        made = as_json(with_odd_fields(header, rng, place, edits))
        return _safetensors(made, rng.choice((None, None, None, 2**63, 99_999_999, 0, 5)))
    if kind == "jsonl" and way:
        lines = [json.loads(line) for line in whole("jsonl").splitlines()]
        lines[0] = with_odd_fields(lines[0], rng, place, edits)
        if way == 2:
            lines[rng.randrange(N)] = odd_value(rng, place)
        return b"".join(as_json(line) + b"\n" for line in lines)
    if kind == "json" and way:
        return as_json(with_odd_fields(json.loads(whole("json")), rng, place, edits))
    if kind in ("csv", "tsv") and way:
        rows = list(csv.reader(io.StringIO(whole("csv").decode())))
        for _ in range(edits):
            row = rng.choice(rows)
            row[rng.randrange(6)] = rng.choice(
                (str(odd_value(rng, place)), name_of(rng, place), "nan", "1e999", "[1, 2]", '"', "[" * 9999)
            )
            if rng.random() < 0.2:
                row.append("more")
        text = io.StringIO()
        csv.writer(text, delimiter=rng.choice(",;\t" if kind == "csv" else "\t")).writerows(rows)
        return text.getvalue().encode(rng.choice(("utf-8", "utf-8", "utf-16")), errors="surrogatepass")
    if kind in ("parquet", "arrow", "feather") and way == 1:
        return _odd_arrow(kind, rng, place)
    return mutated(whole(kind), rng, edits)


def _odd_arrow(kind: str, rng: Any, place: Path) -> bytes:
    """A whole table of unusual types and names."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "lists": pa.array([[1.0], [2.0, 3.0], None]),
        "nested": pa.array([[[1]], [[2]], [[3]]]),
        "structs": pa.array([{"a": 1}, {"a": 2}, None]),
        "none": pa.nulls(3),
        "text": pa.array(["a", None, "c"]),
        "binary": pa.array([b"a", b"\xff", b""]),
        "when": pa.array([1, 2, 3], pa.timestamp("us")),
        "decimal": pa.array([1, 2, 3]).cast(pa.decimal128(25, 2)),
        "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
        "unsigned": pa.array([2**64 - 1, 0, 1], pa.uint64()),
        "half": pa.array(np.array([1, np.nan, 3], np.float16)),
        "empty": pa.array([[], [], []], pa.list_(pa.float32())),
        "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)),
        "bools": pa.array([True, False, None]),
    }
    chosen = rng.sample(sorted(columns), rng.randrange(1, 4))
    names = [
        rng.choice(("id", "label", "vector", "text", "features", name, name_of(rng, place).replace("\ud800", "?")))
        for name in chosen
    ]
    made = pa.Table.from_arrays([columns[name] for name in chosen], names=names).slice(0, rng.choice((3, 3, 3, 0)))
    out = io.BytesIO()
    try:
        if kind == "parquet":
            parquet.write_table(made, out)
        else:
            with pa.ipc.new_file(out, made.schema) as file:
                file.write_table(made)
    except pa.ArrowException:
        return whole(kind)
    return out.getvalue()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# Tables and arrays in files


@door(examples=120, share=0.21)
def tables(draw: Draw, place: Path) -> Attempt:
    kind = draw(st.sampled_from(("csv", "tsv", "jsonl", "parquet")))
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    path = write(place / f"table.{kind}", odd_file(kind, rng, place, edits))
    vectors: Any = ["a", "b", "c"] if kind in ("csv", "tsv") else "vector"
    write(place / "features.npy", whole("npy"))
    reads: dict[str, Callable[[], Any]] = {
        "embeddings": lambda: read_embeddings(path).pool.items,
        "labels": lambda: read_embeddings(place / "features.npy", path, np.array(IDS)).labels,
        "vectors": lambda: read_table(path, vectors=vectors, id_column="id").items,  # type: ignore[union-attr]
        "texts": lambda: read_table(path, text="text", id_column="id").texts,  # type: ignore[union-attr]
        "classes": lambda: read_labels(path, "label", missing=-1, id_column="id", ids=np.array(IDS)),
        "columns": lambda: columns_of(path),
        "count": lambda: count_labels(path),
        "ids": lambda: read_ids(path).tolist(),
        "votes": lambda: exchange.read(path),
        "stock": lambda: sources.take_stock(sources.find(path)).about_odd_ones(),
        "audit": lambda: audit_file(path).words,
    }
    which = draw(st.sampled_from([name for name in reads if name != "audit" or draw(st.integers(0, 100)) == 0]))

    def holds(found: Any) -> None:
        if edits:
            return
        match which:
            case "embeddings" | "vectors":
                np.testing.assert_array_equal(found, VECTORS)
            case "labels":
                assert found.tolist() == [0, 1, -1, 0, 1, -1]
            case "texts":
                assert found == [f"text {name}" for name in IDS]
            case "ids":
                assert found == IDS
            case "count":
                assert found == 4

    return Attempt(reads[which], holds, must=not edits and which not in ("audit", "votes"))


@door(examples=150, share=0.21)
def arrays(draw: Draw, place: Path) -> Attempt:
    kind = draw(st.sampled_from(("npy", "npz", "safetensors", "parquet", "arrow", "feather")))
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    path = write(place / f"features.{kind}", odd_file(kind, rng, place, edits))
    names = {"npz": "ids", "parquet": "id", "arrow": "id", "feather": "id"}.get(kind)

    def made() -> Any:
        numbers = ["features"] if kind in ("npz", "safetensors") else ["vector"] if names else None
        chosen = numbers if not edits or rng.random() < 0.3 else None
        blocks = read_columns(path, ids=names if rng.random() < 0.9 else None, columns=chosen)
        pool = write_shards(place / "pool", blocks, dtypes=stored_dtypes(path))
        assert verify(place / "pool") == [], "a pool was written that is not whole"
        return pool

    reads: dict[str, Callable[[], Any]] = {
        "pool": made,
        "array": lambda: np.asarray(read_array(path)),
        "embeddings": lambda: read_embeddings(path).pool.items,
        "ids": lambda: read_ids(path),
        "labels": lambda: read_embeddings(write(place / "x.npy", whole("npy")), path).labels,
    }
    which = draw(st.sampled_from([name for name in reads if name == "pool" or kind == "npy"]))

    def holds(found: Any) -> None:
        if not edits and which == "pool":
            np.testing.assert_array_equal(found["features" if kind[0] in "ns" else "vector"][:], VECTORS)
        if not edits and which in ("array", "embeddings"):
            np.testing.assert_array_equal(found, VECTORS)

    return Attempt(reads[which], holds, must=not edits and which not in ("ids", "labels"))


# Pools on disk


@cache
def _pool_files() -> dict[str, bytes]:
    """A pool with ids, as bytes by file names."""
    numbers = np.random.default_rng(0)
    columns = {
        "features": numbers.normal(size=(12, 3)).astype(np.float32),
        "logits": numbers.normal(size=(12, 2)).astype(np.float32),
        "flips": numbers.integers(0, 5, 12),
    }
    with tempfile.TemporaryDirectory() as folder:
        write_shards(Path(folder) / "p", columns, ids=np.array([f"item {at}" for at in range(12)]), shard_items=5)
        return {path.name: path.read_bytes() for path in (Path(folder) / "p").iterdir()}


def _pool_values() -> Any:
    numbers = np.random.default_rng(0)
    return numbers.normal(size=(12, 3)).astype(np.float32)


def sealed_again(facts: Any) -> bytes:
    """A manifest with a checksum that fits what somebody changed in it, as far as there is one."""
    with suppress(Exception):
        facts = seal(facts)
    return as_json(facts)


def _odd_pool(folder: Path, rng: Any, place: Path, edits: int) -> bool:
    """A copy of the pool with some damage; whether its manifest was sealed again after a change."""
    files = dict(_pool_files())
    folder.mkdir()
    sealed = False
    for _ in range(edits):
        way, name = rng.randrange(7), rng.choice(sorted(files))
        if way < 4:
            name = MANIFEST
        content = files.get(name, b"")
        if way == 3:  # a file of somebody else as one of the pool, with its true size
            facts = json.loads(_pool_files()[MANIFEST])
            entry = rng.choice(facts["shards"])["files"][rng.choice(("flips", "features", "ids"))]
            lead = rng.choice(
                (name_of(rng, place), str(place.parent / "outside" / "victim.txt"), "../../outside/victim.txt")
            )
            entry |= {"file": lead, "bytes": rng.choice((len(VICTIM), entry["bytes"]))}
            facts["gone"] = [name_of(rng, place)] if rng.random() < 0.5 else []
            files[name], sealed = sealed_again(facts), True
        elif way < 3:
            try:
                facts = json.loads(content)
            except ValueError:
                continue
            facts = with_odd_fields(facts, rng, place, rng.choice((1, 1, 2)))
            if rng.random() < 0.7:
                files[name], sealed = sealed_again(facts), True
            else:
                files[name] = as_json(facts)
        elif way < 5:
            files[name] = mutated(content, rng, 1)
        elif way == 5:
            files.pop(name, None)
        else:
            files[rng.choice(sorted(files))] = content
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if edits and rng.random() < 0.1:
        name = rng.choice(sorted(files))
        (folder / name).unlink()
        (folder / name).symlink_to(rng.choice((place.parent / "outside" / "victim.npy", folder, folder / name, place)))
    return sealed


@door(examples=100, share=0.12)
def pools(draw: Draw, place: Path) -> Attempt:
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    folder = place / "pool"
    sealed = _odd_pool(folder, rng, place, edits)
    new = np.arange(12, 0, -1)
    more = {"features": VECTORS, "logits": VECTORS[:, :2], "flips": np.arange(N)}
    odd_name = name_of(rng, place)
    labelled = {"labelled_features": VECTORS, "labels": np.arange(N) % 2}

    def query() -> Any:
        found = ncalr.query_pool(
            "ncal(select=top_k)" if rng.random() < 0.5 else "margin", 3, folder, **labelled, workers=1
        )
        assert len(set(found.ids.tolist())) == 3
        return ShardedPool(folder)

    uses: dict[str, Callable[[], Any]] = {
        "open": lambda: ShardedPool(folder),
        "read": lambda: (ShardedPool(folder).read(np.array([0, 11, 5])), ShardedPool(folder))[1],
        "verify": lambda: None if verify(folder) else ShardedPool(folder),
        "leftovers": lambda: [leftovers(folder, read_manifest(folder)), ShardedPool(folder)][1],
        "put": lambda: put_columns(folder, {"flips": new}, replace=True),
        "put two": lambda: (
            put_columns(folder, {"flips": new}, replace=True),
            put_columns(folder, {}, drop=["logits"]),
        )[1],
        "put odd": lambda: put_columns(folder, {odd_name: new}, replace=rng.random() < 0.5),
        "put by id": lambda: put_columns(
            folder, {"flips": new}, np.array([f"item {at}" for at in new - 1]), replace=True
        ),
        "drop": lambda: put_columns(folder, {}, drop=["flips"]),
        "append": lambda: append_shards(folder, more, [f"more {at}" for at in range(N)]),
        "export": lambda: (to_parquet(folder, place / "out.parquet"), ShardedPool(folder))[1],
        "query": query,
    }
    which = draw(st.sampled_from(sorted(uses)))

    def holds(pool: Any) -> None:
        if pool is None:
            assert edits, "a whole pool is called damaged"
            return
        found = pool["features"][:12] if "features" in pool.columns else None
        if sealed:  # whoever wrote it may say anything in it
            return
        assert len(pool) == 12 + N * (which == "append"), f"a pool of {len(pool)} items"
        np.testing.assert_array_equal(found, _pool_values())
        assert pool.ids[:12].tolist() == [f"item {at}" for at in range(12)], "other ids"

    return Attempt(uses[which], holds, must=not edits and which != "put odd")


# Labels of other people


@cache
def _office() -> Any:
    folder = tempfile.TemporaryDirectory(prefix="ncalr-fuzz-store-")
    store = open_store(str(Path(folder.name) / "labels.db"))
    items = [projects.NewItem(name, f"text {name}") for name in IDS]
    projects.create(store, "fuzz", "text", ["cat", "dog"], items)
    return store, folder


class _Undo(Exception):
    """Ends a transaction without a trace."""


def _taken(path: Path) -> Any:
    """Import labels into a project, and export what it has then."""
    store, _ = _office()
    given = exchange.read(path)
    now = store.clock.now()
    counts: list[int] = []

    def inside(conn: Any) -> None:
        counts.append(exchange._take_all(conn, now, given, False, {}, {}))
        for form in ("csv", "jsonl"):
            exchange.write(exchange.records(conn), form, io.BytesIO())
        raise _Undo

    with suppress(_Undo):
        store.write(inside)
    return counts[0], given


@door(examples=80, share=0.06)
def label_imports(draw: Draw, place: Path) -> Attempt:
    kind = draw(st.sampled_from(("csv", "tsv", "jsonl", "json", "parquet")))
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    way = draw(st.sampled_from(("taken", "written", "ours")))
    path = place / f"labels.{kind}"
    if way == "ours":
        form = {"json": "labelstudio"}.get(kind, kind)
        said = exchange.Opinion("ann", "label", "cat", 1.5)
        made = [
            exchange.Record(name, "labelled", "cat", 0.5, "control", 1, 0.5, 0.1, None, (said,), f"text {name}")
            for name in IDS
        ]
        with path.open("wb") as file:
            exchange.write(made, form, file)
        content = path.read_bytes()
        if kind in ("json", "jsonl") and rng.random() < 0.7:
            parts = [json.loads(content)] if kind == "json" else [json.loads(line) for line in content.splitlines()]
            parts[0] = with_odd_fields(parts[0], rng, place, edits)
            write(path, b"\n".join(map(as_json, parts)))
        else:
            write(path, mutated(content, rng, edits))
    else:
        write(path, odd_file(kind, rng, place, edits))

    def written() -> Any:
        """The folder of pictures that such names and classes come to."""
        given = exchange.read(path)
        names = exchange.file_names([record.name for record in given])
        for name in names.values():
            (place / "out").mkdir(exist_ok=True)
            (place / "out" / name).write_bytes(b"")
        assert len({*names.values()}) == len({record.name for record in given}), "two names of files are the same"
        return len(given), given

    def holds(found: Any) -> None:
        count, _ = found
        if not edits and way == "taken":
            assert count == sum(map(bool, LABELS)), f"{count} labels were taken in"

    return Attempt(written if way == "written" else lambda: _taken(path), holds, must=not edits)


@cache
def _cifar() -> bytes:
    """An archive as CIFAR-10's, with two items each."""
    record = bytes([1]) + bytes(3072)
    names = [*(f"data_batch_{at}.bin" for at in range(1, 6)), "test_batch.bin"]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, content in [
            ("batches.meta.txt", b"\n".join(b"class %d" % at for at in range(10))),
            *((name, 2 * record) for name in names),
        ]:
            facts = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            facts.size = len(content)
            file.addfile(facts, io.BytesIO(content))
    return out.getvalue()


TEXTS = b"sentence\tlabel\nso good\t1\nso bad\t0\n"


def _archive(kind: str, rng: Any, place: Path, edits: int) -> tuple[str, bytes, str]:
    """A file of a dataset or of people's labels that others host: its name, its bytes, what reads it."""
    if kind == "sst2":
        inside = [("SST-2/train.tsv", TEXTS), ("SST-2/dev.tsv", TEXTS)]
        if edits:
            inside.insert(rng.randrange(3), (name_of(rng, place), TEXTS))
        content = _zip(inside, rng)
        if edits > 1:
            content = bomb("SST-2/train", 4096) if rng.random() < 0.02 else mutated(content, rng, edits - 1)
        return "SST-2.zip", content, "sst2"
    if kind == "cifar10":
        content = _cifar()
        if edits:
            body = bytearray(content)
            at = 512 * rng.randrange(len(body) // 512) + rng.choice((0, 124, 136, 148, 156, 157, 257))
            body[at : at + 8] = rng.choice(
                (b"../../ev", b"77777777", b"\xff" * 8, b"\x80" + b"\xff" * 7, b"2\0\0\0\0\0\0\0", b"-0000001")
            )
            content = mutated(bytes(body), rng, edits - 1)
        return "cifar-10-binary.tar.gz", gzip.compress(content, 1), "cifar10"
    out = io.BytesIO()
    np.savez(out, ann=np.arange(N) % 2, bob=np.zeros(N, np.int64))
    content = (
        odd_file("npz", rng, place, edits) if edits and rng.random() < 0.5 else mutated(out.getvalue(), rng, edits)
    )
    return "labels.npz", content, "annotators(file='labels.npz', labels=[ann, bob])"


@door(examples=60, share=0.06)
def archives(draw: Draw, place: Path) -> Attempt:
    kind = draw(st.sampled_from(("sst2", "cifar10", "noise", "confusion", "plain")))
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    truth = Truth(np.arange(N), np.arange(N) % 2, 2)
    if kind == "confusion":
        out = io.BytesIO()
        np.save(out, np.array([[0.9, 0.1], [0.2, 0.8]]))
        write(place / "matrix.npy", odd_npy(rng, place) if edits > 1 else mutated(out.getvalue(), rng, edits))
        return Attempt(lambda: oracle_of("confusion(file='matrix.npy')", truth, 0, place), must=not edits)
    if kind == "plain":
        for name, values in (("images", VECTORS), ("labels", np.arange(N) % 2)):
            for split in ("train", "test"):
                out = io.BytesIO()
                np.save(out, values)
                write(place / f"{split}_{name}.npy", out.getvalue())
        write(place / "classes.json", b'["cat", "dog"]')
        if edits:
            path = rng.choice(sorted(place.iterdir()))
            odd = as_json(with_odd_fields(["cat", {"name": "dog", "wnid": "n1"}], rng, place, edits))
            path.write_bytes(odd if path.suffix == ".json" else odd_file("npy", rng, place, edits))
        return Attempt(lambda: dataset.load(str(place)), must=not edits)
    name, content, what = _archive(kind, rng, place, edits)
    if kind == "noise":
        write(place / name, content)
        return Attempt(lambda: oracle_of(what, truth, 0, place), must=not edits)
    write(place / what / name, content)
    return Attempt(lambda: dataset.load(what, place), must=not edits)


# Folders of runs and of projects


def _line(number: int, labelled: int, seed: int) -> dict[str, Any]:
    """A line of a journal: a training, and what was asked after it."""
    known = dataset.load("digits").pool.ids.tolist()
    ids = known[20 * number + seed :][: 10 if number else 20]
    told = {"round": number, "ids": ids, "labels": [one % 10 for one in ids], "by": "truth"}
    if number == 0:
        return told
    ended = {} if labelled < 40 else {"stop": "budget"}
    return {
        **(told if not ended else {}),
        "round": number,
        "labelled": labelled,
        "accuracy": 0.5 + 0.01 * number + 0.001 * seed,
        "began": 2,
        "flipping": 0.1,
        "collapse": {"accuracy": 1.0, "nc1": 0.5, "nc2_equiangular": 0.1, "nc3": 0.2, "nc4": 0.01},
        "separation": {"quantiles": [0.5, 1.0, 1.5], "norm": 2.0},
        "stop": "",
        "seconds": {"train": 0.5, "round": 1.5},
        **(ended or {"scores": [0.5] * 10, "parts": {"cmap": [0.1] * 10, "ff": [0.2] * 10}, "redundancy": 0.3}),
    }


@cache
def _run_files(strategies: tuple[str, ...] = ("margin", "random"), seeds: int = 2) -> dict[str, bytes]:
    """The folder of an experiment as bytes by paths."""
    from ncalr.lab.experiment import Experiment
    from ncalr.lab.runner import pairs, slug

    made = Experiment(strategies=strategies, seeds=seeds, start=20, step=10, end=40, dataset="digits")
    files = {"experiment.json": json.dumps(made.as_dict()).encode()}
    for strategy, seed in pairs(made):
        lines = [_line(0, 0, seed), *(_line(at, 10 + 10 * at, seed) for at in (1, 2, 3))]
        run = f"runs/{slug(strategy, seed)}"
        files[f"{run}/journal.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        files[f"{run}/experiment.json"] = json.dumps({"strategy": strategy, "budgets": [20, 30, 40]}).encode()
        files[f"{run}/environment.json"] = (
            b'{"python": "3.11", "threads": 1, "versions": {"numpy": "2.0"}, "later": []}'
        )
        values = {"auroc": 0.9, "fpr95": None}
        evaluated = {
            "version": _evaluation_version(), "task": "ood", "wishes": {}, "round": 3, "accuracy": 0.5,
            "values": values,
            "shown": ["auroc"], "notes": [], "limits": {"auroc": [0, 1]},
        }  # fmt: skip
        files[f"{run}/evaluations.jsonl"] = json.dumps(evaluated).encode() + b"\n"
    return files


def _evaluation_version() -> Any:
    from ncalr.lab import evaluations

    return evaluations.VERSION


@door(examples=25, share=0.008)
def run_folders(draw: Draw, place: Path) -> Attempt:
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    files = dict(_run_files())
    for _ in range(edits):
        name = rng.choice(sorted(files))
        way = rng.randrange(6)
        if way == 0:
            files[name] = mutated(files[name], rng, 1)
        elif way == 1:
            del files[name]
            files["experiment.json"] = files.get("experiment.json", b"{}")
        else:
            try:
                lines = [json.loads(line) for line in files[name].splitlines()]
                at = rng.randrange(len(lines))
                lines[at] = with_odd_fields(lines[at], rng, place, 1)
            except (ValueError, RecursionError):
                continue
            files[name] = b"".join(as_json(line) + b"\n" for line in lines)
    folder = place / "run"
    for name, content in files.items():
        write(folder / name, content)
    if edits and rng.random() < 0.05:
        (folder / "report.html").symlink_to(place.parent / "outside" / "victim.txt")
    uses: dict[str, Callable[[], Any]] = {
        "report": lambda: report_again(folder),
        "two": lambda: report_again([folder, folder], out=place / "both"),
        "read": lambda: [
            (run.accuracies, run.ended, read_environments(run.journal.folder)) for run in read_runs(folder)
        ],
        "replay": lambda: [(replay(run.lines).labels, repr(replay(run.lines))) for run in read_runs(folder)],
    }
    which = draw(st.sampled_from(("report", "two", "read", "read", "replay", "replay")))

    def holds(found: Any) -> None:
        if not edits and which == "report":
            numbers = json.loads((folder / "summary.json").read_text())
            assert set(numbers["strategies"]) == {"margin", "random"}

    return Attempt(uses[which], holds, must=not edits)


@door(examples=50, share=0.03)
def projects_on_disk(draw: Draw, place: Path) -> Attempt:
    edits = draw(st.integers(0, 3))
    rng = rng_of(draw)
    write(place / "texts.csv", whole("csv"))
    source = {
        "path": str(place / "texts.csv"),
        "kind": "text",
        "text_column": "text",
        "id_column": "id",
        "embeddings": "",
    }
    facts = with_odd_fields({"source": source, "database": ""}, rng, place, edits)
    content = as_json(facts) if rng.random() < 0.8 else mutated(as_json(facts), rng, edits)
    folder = Folder(place / "p.ncalr")
    write(folder.path / "project.json", content)
    odd_about = as_json(with_odd_fields({"choice": {"strategy": "margin"}, "labels": 3}, rng, place, edits))
    write(folder.path / "model" / "1" / "about.json", odd_about)
    (folder.path / "secret").write_text("ab" * 32 if not edits else rng.choice(("ab" * 32, "", "zz", "é", "abc")))
    (folder.path / "secret").chmod(0o600)

    def call() -> Any:
        folder.secret()
        found = folder.source()
        folder.database()
        again = sources.find(Path(found.path), found.text_column, found.id_column, found.embeddings)
        return sources.take_stock(again)

    return Attempt(call, must=not edits)


# Pictures


@cache
def _picture(form: str, mode: str = "RGB") -> bytes:
    from PIL import Image

    numbers = np.random.default_rng(0)
    out = io.BytesIO()
    picture = Image.fromarray(numbers.integers(0, 256, (12, 16, 3), np.uint8)).convert(mode)
    more: dict[str, Any] = {"save_all": True, "append_images": [picture] * 2} if form in ("TIFF", "GIF") else {}
    picture.save(out, form, **more)
    return out.getvalue()


SHOWN = (
    *((form, "RGB") for form in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP")),
    ("PNG", "P"), ("PNG", "RGBA"), ("PNG", "1"), ("PNG", "I;16"), ("TIFF", "F"), ("TIFF", "CMYK"), ("JPEG", "L"),
    ("PNG", "LA"),
)  # fmt: skip
FORMS = (*SHOWN, ("PPM", "RGB"), ("TGA", "RGB"), ("ICO", "RGB"))


def _odd_picture(rng: Any, edits: int) -> bytes:
    form, mode = rng.choice(FORMS if edits else SHOWN)
    content = _picture(form, mode)
    if edits and form == "PNG" and rng.random() < 0.4:
        wide, high = (rng.choice((1, 0, 65_000, 2**31 - 1, 12, 8000)) for _ in range(2))
        head = struct.pack(
            ">IIBBBBB", wide, high, rng.choice((1, 8, 16, 3)), rng.choice((0, 2, 3, 6, 9)), 0, 0, rng.choice((0, 1))
        )
        chunk = b"IHDR" + head
        content = content[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + content[33:]
    if edits and rng.random() < 0.05:
        content = rng.choice(
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.4", b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"RIFF")
        )
    return mutated(content, rng, edits)


_decoder: list[Decoder] = []


@door(examples=100, share=0.12)
def pictures(draw: Draw, place: Path) -> Attempt:
    edits = draw(st.integers(0, 4))
    rng = rng_of(draw)
    content = _odd_picture(rng, edits)
    way = draw(st.sampled_from(("server", "server", "pool")))
    if way == "pool":
        write(place / "photos" / "a.png", content)
        write(place / "photos" / "deep" / "b.jpg", _picture("JPEG"))
        skip = draw(st.booleans())
        return Attempt(
            lambda: ImagePool(place / "photos", size=8, skip_broken=skip).read(slice(None)), _pixels, must=not edits
        )
    if not _decoder:
        _decoder.append(Decoder())
    size = draw(st.sampled_from((8, 320, 2560)))
    return Attempt(lambda: _decoder[0].decode(content, size), _shown, must=not edits)


def _pixels(found: Any) -> None:
    assert found.shape[1:] == (8, 8, 3)


def _shown(found: Any) -> None:
    from PIL import Image

    kind, content = found
    assert kind.partition(";")[0] in ("image/png", "image/jpeg")
    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as fresh:
        fresh.load()
        assert not {"exif", "comment", "icc_profile"} & {str(name).lower() for name in fresh.info}, (
            "more than pixels came out"
        )


# The commands on such files


@door(examples=20, share=0.006)
def commands(draw: Draw, place: Path) -> Attempt:
    edits = draw(st.integers(0, 2))
    rng = rng_of(draw)
    kind = draw(st.sampled_from(("csv", "jsonl", "parquet", "npy", "npz", "safetensors", "arrow")))
    write(place / f"x.{kind}", odd_file(kind, rng, place, edits))
    write(place / "features.npy", whole("npy"))
    write(place / "logits.npy", whole("npy"))
    np.save(place / "labels.npy", np.arange(N) % 3)
    write(place / "labels.csv", b"id,label\n0,cat\n1,dog\n2,cat\n")
    _odd_pool(place / "pool", rng, place, edits)
    odd = name_of(rng, place).replace("\0", "").replace("\ud800", "x")
    words = draw(
        st.sampled_from(
            (
                f"pool create new x.{kind}",
                f"pool create new x.{kind} --ids id",
                f"pool create new @={place}/features.npy",
                f"pool append pool x.{kind}",
                "pool put pool flips=labels.npy --replace",
                f"pool put pool flips=x.{kind} --replace",
                "pool put pool --drop flips",
                "pool put pool --drop @",
                "pool info pool",
                "pool verify pool",
                "pool export pool out.parquet",
                "query -k 2 --strategy margin --pool pool",
                "query -k 2 --strategy margin --logits logits.npy --ids x.csv --out picks.csv",
                f"query -k 2 --strategy coreset --features x.{kind}",
                f"query -k 2 --strategy margin --logits logits.npy --exclude x.{kind}",
                "query -k 2 --strategy @ --logits logits.npy",
                f"suggest x.{kind} -k 2 --strategy coreset",
                f"suggest features.npy labels.csv x.{kind} -k 2 --strategy coreset --out picks.json",
                f"suggest features.npy labels.csv --ids x.{kind} -k 2 --strategy coreset",
                f"audit x.{kind}",
                f"report x.{kind}",
                "strategies @",
            )
        )
    )
    arguments = [odd if word == "@" else word.replace("@=", f"{odd}=") for word in words.split(" ")]

    def call() -> Any:
        said = io.StringIO()
        before, sys.argv = sys.argv, ["ncalr", *arguments]
        showing = warnings.showwarning
        try:
            with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
                command_line()
        except SystemExit as end:
            if end.code in (1, 2) and edits:
                raise ncalr.errors.NcalrError(said.getvalue()) from None
            if end.code not in (0, 1, 2, None):
                raise AssertionError(f"exit code {end.code}") from None
        finally:
            sys.argv, warnings.showwarning = before, showing
        assert "Traceback" not in said.getvalue()
        return said.getvalue()

    return Attempt(call)
