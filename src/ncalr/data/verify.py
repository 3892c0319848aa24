"""Is a pool on disk what was written? Every file, every header, every block of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.columns import Column, Reader
from ncalr.data.manifest import read_manifest
from ncalr.data.received import read_npy
from ncalr.errors import BadInput, Damaged


def verify(folder: str | Path) -> list[Damaged]:
    """What is wrong, in the order of the files: empty for a pool that is whole. Reads all of it, a block at a time."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    found: list[Damaged] = []
    for name in manifest.columns:
        column = Column(folder, name, manifest)
        reader = Reader(column)
        for at in range(len(column.files)):
            try:
                column.check_size(at)
            except Damaged as damage:
                found.append(damage)
                continue
            found += _header(column, at)
            found += _rows(column, reader, at)
        reader.close()
    return found


def _header(column: Column, at: int) -> list[Damaged]:
    """NumPy must read the same file as the manifest says."""
    expected: tuple[Any, ...] = ((column.rows_of(at), *column.kind.shape), np.dtype(column.files[at].dtype))
    try:
        array = read_npy(column.path(at))
    except BadInput as error:
        return [column.damage(at, 0, column.rows_of(at), f"the header is not one of a .npy file ({error})")]
    if (array.shape, array.dtype) == expected:
        return []
    why = f"the header says {array.dtype} of shape {array.shape}, the manifest {expected[1]} of shape {expected[0]}"
    return [column.damage(at, 0, column.rows_of(at), why)]


def _rows(column: Column, reader: Reader, at: int) -> list[Damaged]:
    found = []
    start, size = int(column.starts[at]), column.files[at].block
    for first in range(0, column.rows_of(at), size):
        try:
            reader.read(start + first, start + min(first + size, column.rows_of(at)))
        except Damaged as damage:
            found.append(damage)
    return found
