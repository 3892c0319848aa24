"""What a pool on disk is made of: `manifest.json`, read and written whole.

    {"checksum": "5f1c...", "format": "ncalr shards 3", "rows": 300000,
     "columns": {"features": {"dtype": "float16", "shape": [256]}, ...},
     "shards": [{"rows": 262144,
                 "files": {"features": {"file": "features-00000.npy", "bytes": 134217856, "dtype": "<f2",
                                        "block": 2048, "checksums": ["03ab...", ...]}, ...}}, ...],
     "puts": 0, "gone": [],
     "made": {"features": {"network": "timm:resnet18(pretrained=true)", "weights": "pretrained", ...}}}

Every file has one checksum for each `block` of its rows, so that what is read is looked at as it is read, and damage is
known by its rows. Ids are a column called `ids` where they were given; without it they are 0..n-1. `dtype` of a column
is what it means (`bfloat16` too), that of a file what NumPy reads (`<u2` then). `puts` counts how often columns were
put or dropped (the files of the third put are `flips.put3-00000.npy`), and `gone` are the files that the last of them
made superfluous. `made` says of columns that a network made what they depend on, so that items that are added are made
alike. `rows` is the number of items in all shards, and `checksum` that of everything else in the manifest: a manifest
that lost an entry is an error. It tells damage, not malice: whoever writes a pool can write its checksum.

A pool may come from somebody else, so every field is checked, and names of files follow from names of columns:
`COLUMN-00000.npy`, `COLUMN.put3-00000.npy`. Pools of format 2 have no checksum. They are read, `ncalr pool verify` says
so, and the next append or put gives them one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.fields import is_count
from ncalr.data.files import write_whole
from ncalr.data.received import inside, read_object
from ncalr.errors import BadInput

MANIFEST = "manifest.json"
FORMAT = "ncalr shards 3"
UNSEALED = "ncalr shards 2"
"""Of the format before this one, which had neither a checksum nor the number of rows."""
IDS = "ids"
_HEADERS = range(10, 1 << 17)  # bytes of the header of a .npy file
_OF_A_FILE = re.compile(r"(\.put\d{1,9})?-\d{5,9}\.npy")  # what comes after the column's name
_ADVICE = "bring it back from a copy, or write the pool again"


@dataclass(frozen=True)
class Kind:
    """What a column holds for each item."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}" if self.shape else self.dtype


@dataclass(frozen=True)
class File:
    """One column of one shard."""

    file: str
    bytes: int
    dtype: str
    block: int  # rows
    checksums: tuple[str, ...]


@dataclass(frozen=True)
class Shard:
    """Some consecutive items."""

    rows: int
    files: dict[str, File]


@dataclass(frozen=True)
class Manifest:
    """The columns and the shards."""

    columns: dict[str, Kind]
    shards: tuple[Shard, ...]
    puts: int = 0
    gone: tuple[str, ...] = ()
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    sealed: bool = True  # whether it was read with a checksum

    @property
    def rows(self) -> int:
        """How many items there are."""
        return sum(shard.rows for shard in self.shards)

    @property
    def names(self) -> set[str]:
        """The names of all files of the pool."""
        return {file.file for shard in self.shards for file in shard.files.values()}

    def write(self, folder: Path) -> None:
        """Put it into the folder: from here on the pool is what it says."""
        facts = {name: value for name, value in asdict(self).items() if name != "sealed"}
        write_whole(folder / MANIFEST, json.dumps(seal(facts), indent=1))


def seal(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a manifest with their format, the number of rows and their checksum."""
    rows = sum(shard["rows"] for shard in facts["shards"])
    plain = {name: value for name, value in facts.items() if name not in ("format", "checksum", "rows")}
    whole = {"format": FORMAT, "rows": rows, **plain}
    return {"checksum": _digest(whole), **whole}


def _digest(facts: Mapping[str, Any]) -> str:
    """The checksum of everything in a manifest but the checksum, whatever the order and the layout."""
    plain = json.dumps({name: value for name, value in facts.items() if name != "checksum"}, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, every field checked; raise where it is not what was written."""
    path = folder / MANIFEST
    if not path.exists():
        raise BadInput(
            f"{folder} has no {MANIFEST}: it is not a pool, or its writing was not finished; "
            "write it again with write_shards or `ncalr pool create`"
        )
    facts = read_object(inside(folder, MANIFEST), _ADVICE)
    if facts.get("format") not in (FORMAT, UNSEALED):
        raise BadInput(f"{path} is not a manifest of the format {FORMAT!r}; write the pool again")
    sealed = facts["format"] == FORMAT
    found = _parsed(folder, facts, sealed)
    if sealed and (facts.get("rows") != found.rows or facts.get("checksum") != _digest(facts)):
        raise BadInput(
            f"{path} is not what was written: its checksum differs, or its shards have not the {facts.get('rows')!r} "
            f"rows it says ({found.rows:,} are listed); {_ADVICE}"
        )
    return found


def leftovers(folder: Path, manifest: Manifest) -> list[Path]:
    """What is left of a put that was killed: files that the pool does not name, of no use and no harm."""
    named, gone = manifest.names, set(manifest.gone)
    made = re.compile(r".+\.put\d+-\d{5,}\.npy(\.part)?")
    return sorted(
        path for path in folder.iterdir() if path.name not in named and (path.name in gone or made.fullmatch(path.name))
    )


def file_of(folder: Path, column: str, shard: int, put: int = 0) -> Path:
    """Return where a shard of a column is written: the first time, or by a put."""
    return inside(folder, f"{column}{f'.put{put}' if put else ''}-{shard:05d}.npy", "column")


def check_columns(folder: Path, names: Iterable[object]) -> None:
    """Raise where a name of a column is not fit to begin the names of its files."""
    seen: dict[str, object] = {}
    for name in names:
        try:
            inside(folder, name, "column")
            file_of(folder, str(name), 0, 10**9)
        except BadInput:
            raise BadInput(
                f"a column's name is part of the names of its files, got {name!r:.80}; give it a plain one of letters, "
                "digits and _ (for tables: --rename OLD=NEW, rename=)"
            ) from None
        text = str(name)
        if re.search(r"\.put\d+$", text):
            raise BadInput(f"the column name {text!r:.80} ends as files of replaced columns do; give it another one")
        if seen.setdefault(text.casefold(), name) != name:
            raise BadInput(f"columns {text!r:.60} and {seen[text.casefold()]!r:.60} differ in capital letters alone")


# What a field of a manifest may be


def _parsed(folder: Path, facts: Mapping[str, Any], sealed: bool) -> Manifest:
    try:
        columns = {name: _kind(name, kind) for name, kind in _object(facts, "columns").items()}
        check_columns(folder, columns)
        shards = tuple(_shard(folder, columns, shard) for shard in _list(facts, "shards"))
        _check(bool(shards) and bool(columns.keys() - {IDS}), "shards and columns", "at least one of each")
        names = [file.file for shard in shards for file in shard.files.values()]
        _check(len({name.casefold() for name in names}) == len(names), "the names of files", "each once")
        gone = facts.get("gone", [])
        _check(isinstance(gone, list) and all(map(_is_file_name, gone)), "gone", "names of files of columns")
        for name in gone:
            inside(folder, name)
        puts, made = facts.get("puts", 0), facts.get("made", {})
        _check(is_count(puts), "puts", "a whole number from 0 on")
        fit = isinstance(made, dict) and all(isinstance(value, dict) for value in made.values())
        _check(fit, "made", "an object of objects")
    except BadInput as error:
        raise BadInput(f"{folder / MANIFEST} is damaged: {error}; {_ADVICE}") from None
    return Manifest(columns, shards, puts, tuple(gone), made, sealed)


def _kind(name: str, facts: Any) -> Kind:
    where = f"column {name!r:.60}"
    found = _object({where: facts}, where)
    dtype: Any = found.get("dtype")
    shape: Any = found.get("shape")
    fit = isinstance(shape, list) and all(is_count(size) for size in shape) and prod(shape) < 2**48
    _check(fit, f"the shape of {where}", "a list of whole numbers")
    known = isinstance(dtype, str) and (dtype in ("bfloat16", "text") or _stored_as(dtype) == dtype)
    _check(known and (dtype == "text") <= (name == IDS and not shape), f"the dtype of {where}", "one of numbers")
    return Kind(str(dtype), tuple(shape))


def _shard(folder: Path, columns: Mapping[str, Kind], facts: Any) -> Shard:
    rows: Any = _object({"a shard": facts}, "a shard").get("rows")
    _check(is_count(rows) and rows > 0, "the rows of a shard", "a whole number from 1 on")
    files = _object(facts, "files")
    _check(files.keys() == columns.keys(), "the files of a shard", "one for each column")
    return Shard(rows, {name: _file(folder, name, kind, rows, files[name]) for name, kind in columns.items()})


def _file(folder: Path, column: str, kind: Kind, rows: int, facts: Any) -> File:
    where = f"a file of column {column!r:.60}"
    fields = ("file", "bytes", "dtype", "block", "checksums")
    _check(_object({where: facts}, where).keys() == set(fields), where, f"{', '.join(fields)}")
    name, size, dtype, block, sums = (facts[field] for field in fields)
    inside(folder, name)
    _check(name.startswith(column) and bool(_OF_A_FILE.fullmatch(name, len(column))), f"the name of {where}", "its own")
    meant = {"bfloat16": "uint16"}.get(kind.dtype, kind.dtype)
    _check(isinstance(dtype, str) and _stored_as(dtype) == meant, f"the dtype of {where}", meant)
    header = size - rows * np.dtype(dtype).itemsize * prod(kind.shape) if is_count(size) else -1
    _check(header in _HEADERS, f"the bytes of {where}", "those of its rows and a header")
    _check(is_count(block) and block > 0, f"the block of {where}", "a whole number from 1 on")
    fit = isinstance(sums, list) and len(sums) == -(-rows // block) and all(map(_is_checksum, sums))
    _check(fit, f"the checksums of {where}", "one of 16 hexadecimal digits for each block of rows")
    return File(name, size, dtype, block, tuple(sums))


def _stored_as(dtype: str) -> str:
    """What a dtype of a file means, `text` or a number's; nothing where a pool stores no such thing."""
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError, OverflowError):
        return ""
    plain = found.names is None and found.subdtype is None and 0 < found.itemsize < 2**20
    return "" if not plain or found.kind not in "iufU" else "text" if found.kind == "U" else str(found.name)


def _object(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = facts.get(name)
    _check(isinstance(found, dict), name, "an object")
    return found  # type: ignore[return-value]


def _list(facts: Mapping[str, Any], name: str) -> list[Any]:
    found = facts.get(name)
    _check(isinstance(found, list), name, "a list")
    return found  # type: ignore[return-value]


def _check(fits: bool, what: str, expected: str) -> None:
    if not fits:
        raise BadInput(f"{what} must be {expected}")


def _is_checksum(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[0-9a-f]{16}", value))


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(rf".+?{_OF_A_FILE.pattern}", name))
