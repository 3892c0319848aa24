"""One array of a pool on disk: rows are read when they are asked for, and looked at as they are read.

    column[100:200]          column[np.array([7, 3])]          NumPy's way of asking; new arrays
    for rows, block in stream({"features": column}, ranges)    from start to end, the next block fetched meanwhile

Whatever is handed out has been compared with the checksums of the manifest: rows that were changed after they were
written are an error that names the file and the rows. Going through from start to end, every byte is read once into a
buffer that is used again and again (`readinto`), while the system fetches what comes next; memory does not grow with
the pool.
Asking for single rows looks at each block of rows the first time it is touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.manifest import File, Manifest, read_manifest
from ncalr.data.received import inside
from ncalr.errors import BadInput, Damaged
from ncalr.kernels.checksum import checksum

Array = npt.NDArray[Any]
Rows = tuple[int, int]
"""The first row, and the one after the last."""


class Column:
    """One array of a pool on disk; see the module's text."""

    on_disk = True

    def __init__(self, folder: Path, name: str, manifest: Manifest) -> None:
        self.folder, self.name, self.kind = folder, name, manifest.columns[name]
        self.files: list[File] = [shard.files[name] for shard in manifest.shards]
        self.ends = np.cumsum([shard.rows for shard in manifest.shards])
        self.starts = self.ends - [shard.rows for shard in manifest.shards]
        self.shape = (manifest.rows, *self.kind.shape)
        wide = max(self.files, key=lambda file: np.dtype(file.dtype).itemsize)
        self.dtype = np.dtype(np.float32 if self.kind.dtype == "bfloat16" else wide.dtype)
        self._maps: dict[int, Array] = {}
        self._seen: dict[int, npt.NDArray[np.bool_]] = {}

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole, as it is read."""
        return self.dtype.itemsize * prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, slice) and rows.step in (None, 1):
            return self._range(*rows.indices(len(self))[:2])
        wanted = _places(rows, len(self))
        out = np.empty((len(wanted), *self.kind.shape), self.dtype)
        order = np.argsort(wanted, kind="stable")
        rising = wanted[order]
        begin = 0
        for at in np.unique(np.searchsorted(self.ends, rising, side="right")).tolist():
            end = int(np.searchsorted(rising, self.ends[at]))
            inside = rising[begin:end] - self.starts[at]
            out[order[begin:end]] = self.meant(self._looked_at(at, inside)[inside])
            begin = end
        return out

    def meant(self, stored: Array) -> Array:
        """Stored numbers as what they mean: the bits of bfloat16 are the upper half of a float32."""
        if self.kind.dtype != "bfloat16":
            return stored
        return np.asarray(stored.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def row_bytes(self, at: int) -> int:
        """Bytes of one row in a file."""
        return int(np.dtype(self.files[at].dtype).itemsize) * prod(self.kind.shape)

    def offset(self, at: int) -> int:
        """Where the rows of a file begin."""
        return self.files[at].bytes - self.rows_of(at) * self.row_bytes(at)

    def rows_of(self, at: int) -> int:
        """How many rows a file has."""
        return int(self.ends[at] - self.starts[at])

    def path(self, at: int) -> Path:
        """Where a file is."""
        return inside(self.folder, self.files[at].file)

    def check_size(self, at: int) -> None:
        """Raise where a file is missing or has another length than it was written with."""
        path, file = self.path(at), self.files[at]
        if not path.is_file():
            self._check_named(at)
            raise self.damage(at, 0, self.rows_of(at), "the file is missing")
        found = path.stat().st_size
        if found != file.bytes:
            left = max(found - self.offset(at), 0) // max(self.row_bytes(at), 1)
            why = f"the file is torn: it has {found} bytes, {file.bytes} were written"
            raise self.damage(at, min(left, self.rows_of(at) - 1), self.rows_of(at), why)

    def check_block(self, at: int, block: int, stored: Array) -> None:
        """Raise where a block of rows is not what was written."""
        file = self.files[at]
        if checksum(stored) != int(file.checksums[block], 16):
            first = block * file.block
            last = min(first + file.block, self.rows_of(at))
            raise self.damage(at, first, last, "bytes are not those that were written (the checksum differs)")

    def damage(self, at: int, first: int, stop: int, why: str) -> Damaged:
        """The error for some rows of a file."""
        start = int(self.starts[at])
        return Damaged(
            f"{self.path(at)}, rows {first}..{stop - 1} (items {start + first}..{start + stop - 1} of the pool): "
            f"{why}; bring the file back from a copy, or write the pool again",
            str(self.path(at)),
            (start + first, start + stop),
        )

    def _check_named(self, at: int) -> None:
        """Raise where a file is missing because the column was replaced or dropped meanwhile: that is no damage."""
        now = None
        with suppress(BadInput):
            now = read_manifest(self.folder)
        if now is not None and self.files[at].file not in now.names:
            raise replaced(self.folder, [self.name])

    def _range(self, start: int, stop: int) -> Array:
        out = np.empty((max(stop - start, 0), *self.kind.shape), self.dtype)
        for at, first, last in self.pieces(start, stop):
            begin = int(self.starts[at]) + first - start
            out[begin : begin + last - first] = self.meant(self._looked_at(at, np.arange(first, last))[first:last])
        return out

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """The files that hold the rows start..stop-1: which, from which of its rows, and up to which."""
        if start >= stop:
            return []
        low = int(np.searchsorted(self.ends, start, side="right"))
        high = int(np.searchsorted(self.ends, stop - 1, side="right"))
        return [
            (at, max(start - int(self.starts[at]), 0), min(stop - int(self.starts[at]), self.rows_of(at)))
            for at in range(low, high + 1)
        ]

    def _looked_at(self, at: int, rows: npt.NDArray[np.intp]) -> Array:
        """A file, mapped, after a look at the blocks with these rows that were not looked at before."""
        if at not in self._maps:
            self._maps[at] = self._mapped(at)
            self._seen[at] = np.zeros(len(self.files[at].checksums), bool)
        array, size, seen = self._maps[at], self.files[at].block, self._seen[at]
        for block in np.unique(rows // size).tolist():
            if not seen[block]:
                self.check_block(at, block, array[block * size : (block + 1) * size])
                seen[block] = True
        return array

    def _mapped(self, at: int) -> Array:
        self.check_size(at)
        shape = (self.rows_of(at), *self.kind.shape)
        mapped = np.memmap(self.path(at), np.dtype(self.files[at].dtype), "r", self.offset(at), shape)
        return np.asarray(mapped)


class Reader:
    """Reads ranges of rows of a column into a buffer of its own; what it returns lasts until the next call."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._buffer = np.empty(0, np.uint8)
        self._open: tuple[int, Any] | None = None

    def read(self, start: int, stop: int) -> Array:
        """The rows start..stop-1."""
        pieces = self.column.pieces(start, stop)
        if len(pieces) == 1:
            return self.column.meant(self._piece(*pieces[0]))
        return self.column.meant(np.concatenate([self._piece(*piece).copy() for piece in pieces]))  # one buffer for all

    def expect(self, start: int, stop: int) -> None:
        """Tell the system which rows will be read next, where it listens: those of the file that is open."""
        if self._open is None or not hasattr(os, "posix_fadvise"):
            return
        for at, first, last in self.column.pieces(start, stop):
            if at == self._open[0]:
                width = self.column.row_bytes(at)
                place = self.column.offset(at) + first * width
                os.posix_fadvise(self._open[1].fileno(), place, (last - first) * width, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the file it has open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _piece(self, at: int, first: int, last: int) -> Array:
        """Some rows of one file, by way of all blocks that hold them."""
        column, size, width = self.column, self.column.files[at].block, self.column.row_bytes(at)
        begin, end = first // size, -(-last // size)
        low, high = begin * size, min(end * size, column.rows_of(at))
        if len(self._buffer) < (high - low) * width:
            self._buffer = np.empty((high - low) * width, np.uint8)
        file = self._file(at)
        file.seek(column.offset(at) + low * width)
        for block in range(begin, end):
            stop = min((block + 1) * size, column.rows_of(at))
            part = self._buffer[(block * size - low) * width : (stop - low) * width]
            if _fill(file, part) < len(part):
                column.check_size(at)
            column.check_block(at, block, part)
        rows = self._buffer[: (high - low) * width].view(column.files[at].dtype)
        return rows.reshape(high - low, *column.kind.shape)[first - low : last - low]

    def _file(self, at: int) -> Any:
        if self._open is None or self._open[0] != at:
            self.close()
            self.column.check_size(at)
            file = open(self.column.path(at), "rb", buffering=0)  # noqa: SIM115 (closed by `close`)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            self._open = (at, file)
        return self._open[1]


def stream(columns: Mapping[str, Column], ranges: Sequence[Rows]) -> Iterator[tuple[Rows, dict[str, Array]]]:
    """The rows of several columns, range after range. Arrays last until the next step.

    The system is asked to fetch the next range while this one is worked on. It does so without a thread of ours: one
    that copies beside the workers takes a core from them, and the interpreter's lock.
    """
    readers = {name: Reader(column) for name, column in columns.items()}
    try:
        for turn, rows in enumerate(ranges):
            block = {name: reader.read(*rows) for name, reader in readers.items()}
            for reader in readers.values():
                reader.expect(*(ranges[turn + 1] if turn + 1 < len(ranges) else (0, 0)))
            yield rows, block
    finally:
        for reader in readers.values():
            reader.close()


def replaced(folder: Path, names: Sequence[str]) -> BadInput:
    """The error for columns that are no longer those of the pool as it was opened."""
    return BadInput(
        f"the columns {', '.join(names)} of {folder} were replaced or dropped after the pool was opened; "
        "open it again and repeat what was asked of it"
    )


def _fill(file: Any, part: Array) -> int:
    """Read until the buffer is full or the file is at its end; how much was read."""
    view = memoryview(part.data)
    done = 0
    while done < len(part):
        got = file.readinto(view[done:])
        if not got:
            break
        done += got
    return done


def _places(rows: Any, n: int) -> npt.NDArray[np.intp]:
    """Positions as NumPy understands them, counted from the start."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(n))
    places = np.asarray(rows)
    if not places.size:
        return np.empty(0, np.intp)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise BadInput(f"positions must be a list of whole numbers or a slice, got {places.dtype} {places.shape}")
    if places.min() < -n or places.max() >= n:
        raise IndexError(f"positions {places.min()}..{places.max()} are not all in a pool of {n} items")
    return np.where(places < 0, places + n, places).astype(np.intp)
