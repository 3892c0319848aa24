"""Files that appear whole or not at all, and locks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from ncalr.errors import BadInput, NcalrError

NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""What a file system says that knows no locks."""

FAR = 2**30  # Windows lets nobody read what is locked: a place far behind anything that is written


class Held(NcalrError):
    """Somebody else holds a lock; `by` is what they wrote about themselves."""

    def __init__(self, path: Path, by: str) -> None:
        super().__init__(f"{path} is held by {by or 'another process'}")
        self.by = by


@contextmanager
def held(path: Path, about: str = "") -> Iterator[None]:
    """Hold a lock of the operating system, which ends with the process, however that ends; a second one is `Held`.

    `about` is what whoever comes second is told. The file stays: were it removed, a third could hold a new one of the
    same name beside the second. Where there are no locks to be had nothing is held.
    """
    with open_own(path, "a+", encoding="utf-8") as file:
        try:
            _lock(file.fileno(), True)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                file.seek(0)
                raise Held(path, file.read()) from None
        file.truncate(0)
        file.write(about)
        file.flush()
        try:
            yield
        finally:  # not by closing the file: a process that was forked meanwhile has it open, too
            with suppress(OSError):
                _lock(file.fileno(), False)


def open_own(path: Path, mode: str, **how: Any) -> IO[Any]:
    """Open a file of ncalr's own for writing in place; raise where it is a symbolic link, as in a folder of others."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    try:
        return open(path, mode, opener=opener, **how)
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise BadInput(f"{path} is a symbolic link; ncalr writes into its own files alone: remove it") from None
        raise


def wait_for(file: int) -> None:
    """Wait for the lock of an open file, which ends when it is closed; nothing where there are none to be had."""
    try:
        _lock(file, True, wait=True)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _lock(file: int, take: bool, wait: bool = False) -> None:
    """Take a lock on an open file or give it back; `OSError` where another has it (on Windows after ten seconds)."""
    if unix := _module("fcntl"):
        unix.flock(file, unix.LOCK_EX | (0 if wait else unix.LOCK_NB) if take else unix.LOCK_UN)
    elif windows := _module("msvcrt"):
        os.lseek(file, FAR, os.SEEK_SET)
        windows.locking(file, (windows.LK_LOCK if wait else windows.LK_NBLCK) if take else windows.LK_UNLCK, 1)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def _module(name: str) -> Any:
    """A module that not every system has; None where it is not there."""
    try:
        return import_module(name)
    except ImportError:
        return None


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where its file system can."""
    place = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(place)
    finally:
        os.close(place)


def first_bytes(path: Path, most: int = -1) -> bytes:
    """The first bytes of a file, or all of them; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write beside this one; synced, it takes its place in one step. Where that fails, all is as it was."""
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)  # what a killed writer left, or a link that a folder came with
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write all of a file in one step; see `written_whole`."""
    write_set({path: content})


def write_set(files: Mapping[Path, str | bytes]) -> None:
    """Write several files that belong together: all beside the old ones first, then each takes its place.

    Where one cannot be written, as on a full disk, all old ones stay.
    """
    with ExitStack() as stack:
        for path, content in files.items():
            file = stack.enter_context(written_whole(path))
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # what fails does so before the first takes its place
