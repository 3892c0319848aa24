"""What a pool on disk is made of: `manifest.json`, read and written whole.

    {"format": "ncalr shards 2",
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
alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ncalr.data.files import write_whole
from ncalr.errors import BadInput

MANIFEST = "manifest.json"
FORMAT = "ncalr shards 2"
IDS = "ids"


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
        write_whole(folder / MANIFEST, json.dumps({"format": FORMAT, **asdict(self)}, indent=1))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, or an error that says what it is instead."""
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(
            f"{folder} has no {MANIFEST}: it is not a pool, or its writing was not finished; "
            "write it again with write_shards or `ncalr pool create`"
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); write the pool again") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise BadInput(f"{path} is not a manifest of the format {FORMAT!r}; write the pool again")
    try:
        return _parsed(facts)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"{path} is not whole ({error!r} is missing or wrong); write the pool again") from None


def leftovers(folder: Path, manifest: Manifest) -> list[Path]:
    """What is left of a put that was killed: files that the pool does not name, of no use and no harm."""
    named, gone = manifest.names, set(manifest.gone)
    made = re.compile(r".+\.put\d+-\d{5,}\.npy(\.part)?")
    return sorted(
        path for path in folder.iterdir() if path.name not in named and (path.name in gone or made.fullmatch(path.name))
    )


def _parsed(facts: Mapping[str, Any]) -> Manifest:
    columns = {name: Kind(str(kind["dtype"]), tuple(kind["shape"])) for name, kind in facts["columns"].items()}
    shards = []
    for shard in facts["shards"]:
        files = {name: File(**{**f, "checksums": tuple(f["checksums"])}) for name, f in shard["files"].items()}
        if files.keys() != columns.keys():
            raise ValueError("files of a shard")
        shards.append(Shard(int(shard["rows"]), files))
    if not shards or not columns.keys() - {IDS}:
        raise ValueError("shards or columns")
    gone = tuple(map(str, facts.get("gone", ())))
    return Manifest(columns, tuple(shards), int(facts.get("puts", 0)), gone, dict(facts.get("made", {})))
