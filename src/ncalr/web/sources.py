"""What is labelled: image files of a folder, or texts of a table; and the same items as a model reads them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import ArrayPool
from ncalr.data.received import check_file, inside, read_npy
from ncalr.data.tables import TABLES, TEXT_COLUMNS, TextPool, about_header, columns_of, endings, read_table
from ncalr.data.words import Words
from ncalr.errors import BadInput
from ncalr.pixels import ENDINGS, about_heic
from ncalr.web.folder import Source
from ncalr.web.store.projects import NewItem

_BLOCK = 65536  # rows of embeddings that are looked at at a time


def find(path: Path, text_column: str = "", id_column: str = "", embeddings: str = "") -> Source:
    """What a path holds, looked at once."""
    if path.is_dir():
        return Source(str(path.resolve()), "image", embeddings=embeddings)
    if path.suffix.lower() in TABLES and path.is_file():
        column = _named(path, text_column, TEXT_COLUMNS, "--text-column")
        return Source(str(path.resolve()), "text", column, _named(path, id_column, ("id",), ""), embeddings)
    if not path.exists():
        raise BadInput(f"there is no {path}; give a folder of images, or a table of texts ({', '.join(TABLES)})")
    raise BadInput(f"{path} is no folder and no table; give a folder of images, or a file ending in {endings(path)}")


@dataclass(frozen=True)
class Stock:
    """What a source holds: its items, and how many files are none, by their endings."""

    items: list[NewItem]
    left_out: dict[str, int] = field(default_factory=dict)

    def about_odd_ones(self) -> str:
        """A sentence about files that are no items and about items without a text; nothing where there are none."""
        kinds, many = sorted(self.left_out.items()), sum(self.left_out.values())
        listed = ", ".join(f"{count:,} {ending}" for ending, count in kinds)
        files = f"{many:,} file{'s' * (many != 1)} left out ({listed})" if kinds else ""
        empty = [item.name for item in self.items if item.text is not None and not item.text.strip()]
        blank = f"no text in {len(empty):,} of {len(self.items):,} rows, the first is {empty[0]!r}" if empty else ""
        return "; ".join(filter(None, [files, about_heic(self.left_out), blank]))


def take_stock(source: Source) -> Stock:
    """Every item, in a fixed order. Image files are named by their path below the folder and not opened yet."""
    if source.kind == "image":
        found, left_out = _pictures(Path(source.path))
        stock = Stock([NewItem(name) for name in found], left_out)
        if not found:
            besides = f"; {stock.about_odd_ones()}" if left_out else ""
            raise BadInput(f"no pictures below {source.path}; looked for {', '.join(ENDINGS)}{besides}")
        return stock
    pool = read_table(source.path, text=source.text_column, id_column=source.id_column or None)
    assert isinstance(pool, TextPool)  # noqa: S101 (a column of texts was named)
    items = [NewItem(str(name), text) for name, text in zip(pool.ids.tolist(), pool.texts, strict=True)]
    strange = next((item.name for item in items if not _is_text(f"{item.name}{item.text}")), None)
    if strange is not None:
        raise BadInput(
            f"{source.path}: {strange!r} has a sign in it that no text has (a NUL, or half of a letter); take it out"
        )
    return Stock(items)


class NothingToRead(BadInput):
    """None of the pictures can be read."""


def vectors(
    source: Source,
    ids: Sequence[int],
    names: Sequence[str],
    texts: Sequence[str | None],
    size: int,
    words: Words | None = None,
) -> ArrayPool:
    """The items as a pool a learner reads: embeddings where there are some, else pixels, else words.

    Texts are read by these `words`, or by their own. A picture that cannot be read is not in the pool.
    """
    if source.embeddings:
        return _embeddings(Path(source.embeddings), ids)
    if source.kind == "text":
        said = [text or "" for text in texts]
        return ArrayPool(words(said) if words else Words.of(said)[1], np.array(ids))
    root = Path(source.path)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda name: _pixels(root, name, size), names))
    whole = [(id_, pixels) for id_, pixels in zip(ids, found, strict=True) if pixels is not None]
    if not whole:
        raise NothingToRead("none of the pictures could be read")
    return ArrayPool(np.stack([pixels for _, pixels in whole]), np.array([id_ for id_, _ in whole]))


def _pictures(root: Path) -> tuple[list[str], dict[str, int]]:
    """Pictures below the folder, and the number of other files by ending; hidden ones are left aside."""
    found: list[str] = []
    left_out: Counter[str] = Counter()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(name for name in files if not name.startswith(".")):
            name = (Path(folder) / file).relative_to(root).as_posix()
            if not file.lower().endswith(ENDINGS):
                left_out[Path(file).suffix.lower() or "without an ending"] += 1
            elif not _is_text(name):
                left_out["whose names are not UTF-8"] += 1
            else:
                found.append(name)
    return found, dict(left_out)


def _is_text(said: str) -> bool:
    """Whether every database takes it."""
    try:
        said.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in said


def _named(path: Path, given: str, usual: Sequence[str], wanted: str) -> str:
    """A column by the name given, or by the usual ones; an error where one is wanted and cannot be guessed."""
    if given:
        return given
    there = columns_of(path)
    found = next((name for name in usual if name in there), "")
    if not found and wanted:
        listed = f"{', '.join(there)}.{about_header(there)}"
        raise BadInput(f"which column of {path.name} holds the texts? Say {wanted} NAME; there are {listed}")
    return found


def _pixels(root: Path, name: str, size: int) -> npt.NDArray[np.uint8] | None:
    """What the model sees of a picture; nothing of one that cannot be shown either."""
    from ncalr.web.decoder import thumbnail
    from ncalr.web.media import BYTES

    try:
        path = inside(root, name, "picture", below=True)
        check_file(path)
        if path.stat().st_size > BYTES:
            return None
        pixels: npt.NDArray[np.uint8] = thumbnail(path.read_bytes(), size)
    except Exception:  # whatever a decoder throws: people can still mark the item as broken
        return None
    return pixels


def check_embeddings(path: Path, count: int) -> int:
    """Whether a file has a row of finite numbers for each of `count` items; how wide they are."""
    rows = _open_embeddings(path)
    if len(rows) != count:
        raise BadInput(
            f"{path} has {len(rows):,} rows and there are {count:,} items; expected one row an item, in the order of "
            "the files or of the table's rows (items that were added later come last)"
        )
    for start in range(0, count, _BLOCK):
        bad = np.flatnonzero(~np.isfinite(_single(rows[start : start + _BLOCK])).all(axis=1))
        if len(bad):
            row = start + int(bad[0])
            raise BadInput(
                f"{path} holds NaN, infinity or a number beyond float32, the first in row {row} (counted from 0); "
                "mend that row, or leave out the item"
            )
    return int(rows.shape[1])


def _embeddings(path: Path, ids: Sequence[int]) -> ArrayPool:
    rows = _open_embeddings(path)
    if len(rows) < max(ids):
        raise BadInput(f"{path} has {len(rows):,} rows, too few for {max(ids):,} items; put the whole file back")
    return ArrayPool(_single(rows[np.asarray(ids) - 1]), np.array(ids))


def _open_embeddings(path: Path) -> npt.NDArray[Any]:
    rows: npt.NDArray[Any] = read_npy(path, "expected a .npy file of embeddings")
    if rows.ndim != 2 or not rows.shape[1] or rows.dtype.kind not in "fiu":
        raise BadInput(f"{path} must hold one row of numbers an item, got {rows.dtype} of shape {rows.shape}")
    return rows


def _single(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large becomes infinity, which is found
        return np.asarray(rows, np.float32)
