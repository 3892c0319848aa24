"""Files that appear whole or not at all, and arrays in files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

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


def write_whole(path: Path, content: str | bytes) -> None:
    """Write beside the file, sync, then take its place in one step; where that fails, the old file is as it was."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def open_npy(path: Path, how: str = "with numpy.save") -> Any:
    """A .npy file as a memory map; `how` to save one that can be read."""
    import numpy as np

    if not path.exists():
        raise BadInput(f"there is no file {path}")
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OSError, EOFError) as error:
        why = "objects, not numbers" if "objects" in str(error) else error
        raise BadInput(f"{path} is not a .npy file that can be read ({why}); save the array {how}") from None
