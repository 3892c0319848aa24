"""Files that appear whole or not at all, and arrays in files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ncalr.errors import BadInput


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
        with part.open("wb") as file:
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
    with written_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_npy(path: Path, how: str = "with numpy.save") -> Any:
    """A .npy file as a memory map; `how` to save one that can be read."""
    import numpy as np

    if not path.exists():
        raise BadInput(f"there is no file {path}")
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OSError, EOFError) as error:
        known = {"objects": "objects, not numbers", "magic string": "it does not begin like one"}
        why = next((words for sign, words in known.items() if sign in str(error)), error)
        raise BadInput(f"{path} is not a .npy file that can be read ({why}); save the array {how}") from None
