"""What is labelled: image files of a folder, or texts of a table; and the same items as a model reads them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import ArrayPool
from ncalr.data.tables import TextPool, read_table
from ncalr.errors import BadInput, MissingExtra
from ncalr.web.folder import Source
from ncalr.web.store.projects import NewItem

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
TEXT_COLUMNS = ("text", "content", "sentence", "review", "body", "message", "title")
WIDTH = 128  # of the vectors made of texts


def find(path: Path, text_column: str = "", id_column: str = "", embeddings: str = "") -> Source:
    """What a path holds, looked at once."""
    if path.is_dir():
        return Source(str(path.resolve()), "image", embeddings=embeddings)
    if path.suffix.lower() in TABLES and path.is_file():
        column = _named(path, text_column, TEXT_COLUMNS, "--text-column")
        return Source(str(path.resolve()), "text", column, _named(path, id_column, ("id",), ""), embeddings)
    if not path.exists():
        raise BadInput(f"there is no {path}; give a folder of images, or a table of texts ({', '.join(TABLES)})")
    raise BadInput(
        f"{path} is no folder and no table; give a folder of images, or a file ending in {', '.join(TABLES)}"
    )


def items(source: Source) -> Iterator[NewItem]:
    """Every item, in a fixed order. Image files are named by their path below the folder and not opened yet."""
    if source.kind == "image":
        found = _pictures(Path(source.path))
        if not found:
            raise BadInput(f"no pictures below {source.path}; looked for {', '.join(PICTURES)}")
        yield from (NewItem(name) for name in found)
        return
    pool = read_table(source.path, text=source.text_column, id_column=source.id_column or None)
    assert isinstance(pool, TextPool)  # noqa: S101 (a column of texts was named)
    yield from (NewItem(str(name), text) for name, text in zip(pool.ids.tolist(), pool.texts, strict=True))


def vectors(
    source: Source, ids: Sequence[int], names: Sequence[str], texts: Sequence[str | None], size: int
) -> ArrayPool:
    """The items as a pool a learner reads: embeddings where there are some, else pixels, else words.

    A picture that cannot be read is not in the pool.
    """
    if source.embeddings:
        return _embeddings(Path(source.embeddings), ids)
    if source.kind == "text":
        return ArrayPool(_words([text or "" for text in texts]), np.array(ids))
    root = Path(source.path)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda name: _pixels(root / name, size), names))
    whole = [(id_, pixels) for id_, pixels in zip(ids, found, strict=True) if pixels is not None]
    if not whole:
        raise BadInput("none of the pictures could be read")
    return ArrayPool(np.stack([pixels for _, pixels in whole]), np.array([id_ for id_, _ in whole]))


def _pictures(root: Path) -> list[str]:
    """Files below the folder, hidden ones and links that lead out left aside."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        place = Path(folder)
        found += [
            (place / name).relative_to(root).as_posix()
            for name in sorted(files)
            if name.lower().endswith(PICTURES) and not name.startswith(".")
        ]
    return found


def _named(path: Path, given: str, usual: Sequence[str], wanted: str) -> str:
    """A column by the name given, or by the usual ones; an error where one is wanted and cannot be guessed."""
    if given:
        return given
    there = _columns(path)
    found = next((name for name in usual if name in there), "")
    if not found and wanted:
        raise BadInput(f"which column of {path.name} holds the texts? Say {wanted} NAME; there are {', '.join(there)}")
    return found


def _columns(path: Path) -> list[str]:
    """The names of a table's columns, from its first line."""
    if path.suffix.lower() == ".parquet":
        from importlib import import_module

        names: list[str] = import_module("pyarrow.parquet").read_schema(path).names
        return names
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(2**20)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        first = json.loads(line or "{}")
        return list(first) if isinstance(first, dict) else []
    return next(csv.reader([line], delimiter="\t" if path.suffix.lower() == ".tsv" else ","), [])


def _pixels(path: Path, size: int) -> npt.NDArray[np.uint8] | None:
    from ncalr.web.decoder import thumbnail

    try:
        pixels: npt.NDArray[np.uint8] = thumbnail(path.read_bytes(), size)
    except Exception:  # whatever a decoder throws: people can still mark the item as broken
        return None
    return pixels


def _words(texts: list[str]) -> npt.NDArray[np.float32]:
    """Texts as vectors: words and pairs of words, weighted by rarity, brought to a few dimensions (LSA)."""
    try:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        raise MissingExtra(
            "learning from texts needs scikit-learn; install it with: pip install 'ncalr[web]'"
        ) from None
    counted: Any = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=1, max_features=50_000)
    try:
        table = counted.fit_transform(texts)
    except ValueError:  # no words at all, numbers or signs only: letters then
        counted = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), max_features=50_000)
        table = counted.fit_transform([text or " " for text in texts])
    width = min(WIDTH, min(table.shape) - 1)
    if width < 2:
        return np.asarray(table.toarray(), np.float32)
    return np.asarray(TruncatedSVD(width, random_state=0).fit_transform(table), np.float32)


def _embeddings(path: Path, ids: Sequence[int]) -> ArrayPool:
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path} is no .npy file of embeddings that can be read ({error})") from None
    if rows.ndim != 2 or len(rows) < max(ids):
        raise BadInput(
            f"{path} must hold one row an item, in the order of the files or of the table's rows: at least {max(ids)}, "
            f"got shape {rows.shape}"
        )
    return ArrayPool(np.asarray(rows[np.asarray(ids) - 1], np.float32), np.array(ids))
