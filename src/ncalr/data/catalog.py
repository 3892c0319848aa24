"""Which datasets are known, and where they lie: the register that `load` reads and `dataset` writes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import Pool
from ncalr.errors import BadInput, unknown

Labels = npt.NDArray[np.int64]


class Kind(NamedTuple):
    """A class: its name, and its WordNet id where one is known."""

    name: str
    wnid: str = ""


class Parts(NamedTuple):
    """What a loader finds in a folder."""

    pool: Pool
    labels: Any
    test: Pool
    test_labels: Any
    classes: list[str]
    wnids: Sequence[str] = ()


@dataclass(frozen=True)
class Archive:
    """An official file: where it is, and the checksum its authors published."""

    url: str
    checksum: str
    algorithm: str = "md5"

    @property
    def file(self) -> str:
        """Its name."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Entry:
    """What is known of a dataset before it is loaded."""

    name: str
    items: int
    test_items: int
    classes: int
    licence: str
    source: str
    read: Callable[..., Parts | None]
    files: str = ""  # the official files that are understood; nothing if the set needs no folder
    archives: tuple[Archive, ...] = ()
    aliases: tuple[str, ...] = ()
    notes: str = ""
    arrays: bool = True  # whether plain arrays are understood

    @property
    def options(self) -> dict[str, Any]:
        """The options of its loader and their defaults."""
        found = inspect.signature(self.read).parameters.values()
        return {option.name: option.default for option in found if option.kind is option.KEYWORD_ONLY}


DATASETS: dict[str, Entry] = {}
"""Every named dataset; nothing is loaded by looking."""


def dataset(name: str, **facts: Any) -> Callable[[Callable[..., Parts | None]], Callable[..., Parts | None]]:
    """Register the decorated loader as dataset `name`; `facts` are those of an `Entry`."""

    def register(read: Callable[..., Parts | None]) -> Callable[..., Parts | None]:
        if name in DATASETS:
            raise BadInput(f"there is a dataset {name!r} already; choose another name")
        DATASETS[name] = Entry(name, read=read, **facts)
        return read

    return register


def data_root(root: str | Path | None = None) -> Path:
    """Where datasets lie: what is given, else NCALR_DATA, else ~/.cache/ncalr."""
    return Path(root or os.environ.get("NCALR_DATA") or "~/.cache/ncalr").expanduser()


def entry_of(name: str) -> Entry:
    """The dataset of this name, or that has it as another one."""
    for entry in DATASETS.values():
        if name == entry.name or name in entry.aliases:
            return entry
    other = "Nor is there such a folder here; a folder of images or a set of the Hub: 'folder:PATH'; a table: its path."
    raise unknown("dataset", name, DATASETS, other)


def is_known(name: str) -> bool:
    """Whether there is a dataset of this name; - stands for _ as well."""
    return any(name.replace("-", "_") in (entry.name, *entry.aliases) for entry in DATASETS.values())


def folder_of(entry: Entry, root: Path) -> Path:
    """Where a dataset lies below the root, by any of its names; by its first where it is not there."""
    there = [root / name for name in (entry.name, *entry.aliases) if (root / name).is_dir()]
    return there[0] if there else root / entry.name


def is_there(entry: Entry, root: Path) -> bool:
    """Whether a dataset ships with a package, or has a folder below the root."""
    return not (entry.files or entry.arrays) or folder_of(entry, root).is_dir()


def how_to_get(entry: Entry, root: Path) -> str:
    """The line that fetches a dataset, or where it comes from and where to put it."""
    if entry.archives:
        return f"To get it: python -c \"from ncalr.data import download; download('{entry.name}', '{root}')\""
    return f"It comes from {entry.source}; put it into {root / entry.name} as {entry.files}"
