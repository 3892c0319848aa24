"""Pictures for the page: found by opaque key, read from inside one folder only, decoded by a child process.

What goes wrong is told without the name of the file: it may be hidden from whoever asks.
"""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import LifoQueue
from typing import IO

from ncalr.data.files import write_whole
from ncalr.data.received import check_file, inside
from ncalr.errors import BadInput, NcalrError
from ncalr.web.child import command
from ncalr.web.decoder import VERSION, read_message, write_message

BYTES = 128 * 2**20  # as a TIFF or a BMP has them that is not compressed
SECONDS = 10.0
SIZES = (320, 2560)
"""Widths and heights the page may ask for: a thumbnail, and one to zoom into."""


class CannotShow(NcalrError):
    """The file is no picture that can be shown."""


class NotThere(CannotShow):
    """The file is not where it was: nothing is known about the picture."""


class Media:
    """The pictures of a project; `cache` keeps what was decoded."""

    def __init__(self, root: Path, cache: Path, decoders: int = 2) -> None:
        self.root, self.cache = root.resolve(), cache
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._keeping = threading.Lock()  # two decoders may have the same picture
        self._decoders: LifoQueue[Decoder] = LifoQueue()
        for _ in range(decoders):
            self._decoders.put(Decoder())

    def picture(self, key: str, name: str, size: int) -> tuple[str, bytes]:
        """The type and the bytes of a picture that is safe to show."""
        file, stamp = self._open(name)
        with file:
            kept = self.cache / f"{key}-{size}-{stamp}-{VERSION}"
            if kept.is_file():
                return _read(kept)
            with self._decoder() as decoder:  # many megabytes are in memory only while there is one
                if kept.is_file():  # whoever was before us in the line asked for the same
                    return _read(kept)
                try:
                    kind_, picture = decoder.decode(file.read(BYTES), size)
                except CannotShow as why:
                    raise CannotShow(f"the picture cannot be shown: {why}") from None
                except OSError:
                    raise NotThere(f"there is no such picture: {self._where()}") from None
                with self._keeping, suppress(OSError):  # a full disk: it is decoded again the next time
                    write_whole(kept, kind_.encode() + b"\n" + picture)
        return kind_, picture

    def warm_up(self) -> None:
        """Start the decoders before the first picture is asked for."""
        for _ in range(self._decoders.qsize()):
            with self._decoder() as decoder:
                decoder.start()

    def close(self) -> None:
        """End the child processes."""
        while not self._decoders.empty():
            self._decoders.get().stop()

    def _open(self, name: str) -> tuple[IO[bytes], int]:
        """A file inside the root, whatever the name tries, and its age; links that lead out lead nowhere."""
        try:
            path = inside(self.root, name, "picture", below=True)
            check_file(path)
            file = path.open("rb")
        except (OSError, BadInput):
            raise NotThere(f"there is no such picture: {self._where()}") from None
        facts = os.fstat(file.fileno())
        if facts.st_size > BYTES:
            file.close()
            raise CannotShow(f"the picture cannot be shown: it has {facts.st_size:,} bytes, the limit is {BYTES:,}")
        return file, facts.st_mtime_ns

    def _where(self) -> str:
        """What is not there: the one picture, or all of them."""
        what = "it" if self.root.is_dir() else "the folder of the pictures"
        return f"{what} was moved or removed; tell whoever runs the server"

    @contextmanager
    def _decoder(self) -> Iterator[Decoder]:
        decoder = self._decoders.get()
        try:
            yield decoder
        finally:
            self._decoders.put(decoder)


def _read(kept: Path) -> tuple[str, bytes]:
    """A picture as it was kept."""
    kind, _, picture = kept.read_bytes().partition(b"\n")
    return kind.decode(), picture


class Decoder:
    """A child process that decodes; killed when it takes too long, started again for the next picture."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> subprocess.Popen[bytes]:
        """The process, running."""
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(  # noqa: S603 (the command is ours)
                command("ncalr.web.decoder"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def decode(self, content: bytes, size: int) -> tuple[str, bytes]:
        """The type and the bytes of a fresh picture."""
        with self._lock:
            process = self.start()
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 (pipes were asked for)
            watch = threading.Timer(self.seconds, process.kill)
            watch.start()
            try:
                write_message(process.stdin, struct.pack(">I", size) + content)
                reply = read_message(process.stdout)
            except OSError:
                reply = None
            finally:
                watch.cancel()
            if reply is None:
                self.stop()
                raise CannotShow("it takes too long or too much memory")
        kind, _, rest = reply.partition(b"\n")
        if kind == b"error":
            raise CannotShow(rest.decode(errors="replace"))
        return kind.decode(), rest

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was not sent to a process that died
                        pipe.close()
            self._process.wait()
            self._process = None
