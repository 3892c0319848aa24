"""How many bytes an Arrow file unpacks to, read from its metadata: pyarrow itself would allocate them to find out.

A file begins and ends with ARROW1, and its footer lists where each message is; a stream is messages, one after the
other. A message is metadata, a flatbuffer, and a body of buffers. In a compressed body each buffer begins with its
unpacked size. https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ncalr.data.received import check_unpacked, reading

_MAGIC = b"ARROW1"
_DICTIONARY, _BATCH = 2, 3
_MOST = 1 << 28  # bytes of metadata


class _Message(NamedTuple):
    """Where a message is in the file."""

    start: int
    metadata: int  # bytes
    body: int


class _Table:
    """A table of a flatbuffer: fields by their numbers."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]

    @classmethod
    def root(cls, data: bytes) -> _Table:
        """The outermost table."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, form: str) -> int:
        """A number, 0 where there is none."""
        place = self._place(field)
        return int(struct.unpack_from(form, self.data, place)[0]) if place else 0

    def table(self, field: int) -> _Table | None:
        """A table inside this one."""
        place = self._place(field)
        return _Table(self.data, place + struct.unpack_from("<I", self.data, place)[0]) if place else None

    def structs(self, field: int, form: str) -> Iterator[tuple[int, ...]]:
        """The parts of a vector."""
        place = self._place(field)
        if not place:
            return iter(())
        begin = place + struct.unpack_from("<I", self.data, place)[0]
        (count,), size = struct.unpack_from("<I", self.data, begin), struct.calcsize(form)
        return struct.iter_unpack(form, self.data[begin + 4 : begin + 4 + count * size])

    def _place(self, field: int) -> int:
        (size,) = struct.unpack_from("<H", self.data, self._fields)
        at = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, self._fields + at)[0] if at < size else 0
        return self.at + int(offset) if offset else 0


def check_arrow(path: Path, at_once: bool = False) -> None:
    """Raise where a compressed message of an Arrow file or stream, or all at once, unpacks to more than it should."""
    with reading(path, path.suffix), path.open("rb") as file:
        size = path.stat().st_size
        messages = _of_a_file(file, size) if file.read(6) == _MAGIC else _of_a_stream(file, size)
        unpacked = packed = 0
        for message in messages:
            more = _unpacked(file, message)
            if more is None:
                continue
            unpacked, packed = (unpacked + more, packed + message.body) if at_once else (more, message.body)
            check_unpacked(path, unpacked, packed)


def _of_a_file(file: IO[bytes], size: int) -> Iterator[_Message]:
    file.seek(size - 10)
    (length,) = struct.unpack("<i", file.read(4))
    file.seek(max(size - 10 - length, 0))
    footer = _Table.root(file.read(min(length, _MOST)))
    for field in (2, 3):
        for start, metadata, _, body in footer.structs(field, "<qiiq"):
            yield _Message(start, metadata, body)


def _of_a_stream(file: IO[bytes], size: int) -> Iterator[_Message]:
    start = 0
    while start + 8 <= size:
        file.seek(start)
        mark, length = struct.unpack("<Ii", file.read(8))
        prefix = 8 if mark == 0xFFFFFFFF else 4
        length = length if prefix == 8 else mark
        if not 0 < length <= _MOST:
            return
        file.seek(start + prefix)
        body = _Table.root(file.read(length)).number(3, "<q")
        yield _Message(start, prefix + length, body)
        start += prefix + length + max(body, 0)


def _unpacked(file: IO[bytes], message: _Message) -> int | None:
    """Bytes of a message's buffers, unpacked; None where they are not packed, and are mapped or read as they are."""
    file.seek(message.start)
    metadata = file.read(min(max(message.metadata, 0), _MOST))
    header = _Table.root(metadata[8 if metadata[:4] == b"\xff\xff\xff\xff" else 4 :])
    kind, batch = header.number(1, "<B"), header.table(2)
    if kind == _DICTIONARY and batch is not None:
        batch = batch.table(1)
    if kind not in (_DICTIONARY, _BATCH) or batch is None or batch.table(3) is None:
        return None
    whole, total = file.seek(0, os.SEEK_END), 0
    for offset, length in batch.structs(2, "<qq"):
        place = message.start + message.metadata + offset
        if length >= 8 and 0 <= place <= whole - 8:
            file.seek(place)
            (size,) = struct.unpack("<q", file.read(8))
            total += length - 8 if size < 0 else size
    return total
