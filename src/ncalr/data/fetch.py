"""Official files of a dataset, fetched and held against the checksums that their authors published."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from ncalr.data.catalog import Archive, data_root, entry_of
from ncalr.errors import BadInput, NcalrError


def download(
    name: str,
    root: str | Path | None = None,
    *,
    opener: Callable[[str], Any] | None = None,
    say: Callable[[str], Any] = print,
) -> Path:
    """Fetch the official files of a dataset into ROOT/NAME and check them; what is there and right is left alone.

    A file appears under its name only when it is whole and its checksum is the published one.
    """
    entry = entry_of(name)
    if not entry.archives:
        raise BadInput(f"{name} cannot be downloaded: {entry.notes or 'no official file with a checksum is known'}")
    folder = data_root(root) / entry.name
    folder.mkdir(parents=True, exist_ok=True)
    for archive in entry.archives:
        path = folder / archive.file
        if path.exists() and _checksum(path, archive.algorithm) == archive.checksum:
            say(f"{path} is there already")
            continue
        say(f"{archive.url} -> {path}")
        _fetch(archive, path, opener or _open_url)
    return folder


def _open_url(url: str) -> Any:
    if not url.startswith(("https://", "http://", "file://")):
        raise BadInput(f"cannot fetch {url}; expected http, https or file")
    return urlopen(url, timeout=60)  # noqa: S310 (the scheme was looked at)


def _fetch(archive: Archive, path: Path, opener: Callable[[str], Any]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with opener(archive.url) as source, open(part, "wb") as file:
            while block := source.read(2**20):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        found = _checksum(part, archive.algorithm)
        if found != archive.checksum:
            raise BadInput(
                f"{archive.url} came with the {archive.algorithm} {found}, expected {archive.checksum}; "
                "it was not kept. Try again, or fetch it by hand from its authors"
            )
        os.replace(part, path)
    except OSError as error:  # URLError is one
        raise NcalrError(f"cannot fetch {archive.url} into {path.parent} ({error}); or put the file there") from error
    finally:
        part.unlink(missing_ok=True)


def _checksum(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
