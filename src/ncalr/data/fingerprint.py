"""The fingerprint of a dataset: whether a run that goes on, or is looked at later, has the data it began with.

    fingerprint(load("digits"))   # {"version": 1, "classes": {...}, "pool": {"items": 1297, "ids": "c3...", ...}, ...}

Every id, label and class name counts. Of the contents, 256 items of the pool and of the test set do, spread over their
ids, and the sizes of 10,000 image files: a pool may be large. Encoded images are read as they lie and not decoded, so
that another version of a library changes nothing. Nor does the order of the items: an id is permanent. A file that
cannot be read is an empty one here: whoever needs what is in it says what is the matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.dataset import Dataset
from ncalr.data.encoded import EncodedPool
from ncalr.data.fields import check_fields, is_count, is_text, list_of, record
from ncalr.data.files import first_bytes
from ncalr.data.images import ImagePool
from ncalr.data.pool import Pool
from ncalr.data.splits import Subset

VERSION = 1
ITEMS = 256  # of each set, whose contents are read
SIZES = 10_000  # of each set, whose file sizes are looked at
MOST = 2**20  # bytes of a file that are read

Fingerprint = dict[str, Any]


def fingerprint(dataset: Dataset) -> Fingerprint:
    """What tells these data from others, as plain data."""
    return {
        "version": VERSION,
        "classes": {"count": len(dataset.classes), "names": _hash(_text(name) for name in dataset.classes)},
        "pool": _of_set(dataset.pool, dataset.labels),
        "test": _of_set(dataset.test, dataset.test_labels),
    }


def check_fingerprint(found: Fingerprint, place: str) -> None:
    """Raise where a fingerprint that was read from a file lacks what others are compared with."""
    check_fields(found, {"version": is_count}, place)
    if found.get("version") == VERSION:
        digests = dict.fromkeys(("ids", "labels", "contents"), is_text)
        of_a_set = record({"items": is_count, "shape": list_of(is_count), **digests}, ("items", "shape", *digests))
        classes = record({"count": is_count, "names": is_text}, ("count", "names"))
        kinds = {"classes": classes, "pool": of_a_set, "test": of_a_set}
        check_fields(found, kinds, place, needed=tuple(kinds))


def differences(one: Fingerprint, other: Fingerprint, places: tuple[str, str] = ("then", "now")) -> list[str]:
    """In what two fingerprints differ, in words; nothing where they were made by different versions of this file."""
    if one.get("version") != other.get("version"):
        return []
    sets = (("pool", "the pool"), ("test", "the test set"))
    found = [words for name, what in sets for words in _apart(one[name], other[name], what, places)]
    if one["classes"]["count"] != other["classes"]["count"]:
        found.append(_both("classes", one["classes"]["count"], other["classes"]["count"], places))
    elif one["classes"] != other["classes"]:
        found.append("other names of classes, or in another order")
    return found


def _apart(one: Fingerprint, other: Fingerprint, what: str, places: tuple[str, str]) -> list[str]:
    """Of one set; where the items are others, their labels and contents are not spoken of."""
    if one["items"] != other["items"]:
        return [_both(f"items in {what}", one["items"], other["items"], places)]
    if one["ids"] != other["ids"]:
        return [f"other ids in {what}"]
    found = [f"other labels in {what}"] if one["labels"] != other["labels"] else []
    if one["shape"] != other["shape"]:
        return [*found, _both(f"shape of an item in {what}", one["shape"], other["shape"], places)]
    return [*found, f"other contents of items in {what}"] if one["contents"] != other["contents"] else found


def _both(what: str, one: Any, other: Any, places: tuple[str, str]) -> str:
    return f"{what}: {one} {places[0]}, {other} {places[1]}"


def _of_set(pool: Pool, labels: npt.NDArray[np.int64]) -> Fingerprint:
    order, ids = np.argsort(pool.ids, kind="stable"), np.asarray(pool.ids)
    ids = ids.astype("<i8") if ids.dtype.kind in "iu" else ids  # as wide on every system
    sample, more = order[_spread(len(pool), ITEMS)].tolist(), order[_spread(len(pool), SIZES)].tolist()
    files = (_file(pool, at) for at in more)
    sizes = (_size(file) for file in files if file is not None)
    return {
        "items": len(pool),
        "shape": list(pool.shape),
        "ids": _hash(_words(ids[order])),
        "labels": _hash([np.asarray(labels)[order].astype("<i8").tobytes()]),
        "contents": _hash([*(_content(pool, at) for at in sample), *sizes]),
    }


def _spread(n: int, most: int) -> npt.NDArray[np.int64]:
    """So many places among n, from the first to the last; all where there are no more."""
    count = min(n, most)
    return np.arange(count) * (n - 1) // max(count - 1, 1)


def _file(pool: Pool, at: int) -> Path | None:
    if isinstance(pool, Subset):
        return _file(pool.pool, int(pool.positions[at]))
    return pool.paths[at] if isinstance(pool, ImagePool) else None


def _content(pool: Pool, at: int) -> bytes:
    """An item as it lies there."""
    if isinstance(pool, Subset):
        return _content(pool.pool, int(pool.positions[at]))
    if isinstance(pool, EncodedPool):
        return _digest(pool.encoded(at))
    file = _file(pool, at)
    return b"".join(_words(pool.read(np.array([at])))) if file is None else _digest(first_bytes(file, MOST))


def _size(file: Path) -> bytes:
    try:
        return str(file.stat().st_size).encode()
    except OSError:
        return b""


def _words(values: npt.NDArray[Any]) -> Iterable[bytes]:
    """Texts one by one; numbers at once, in one order of bytes."""
    if values.dtype.kind in "OU":
        return [_text(value) for value in values.ravel().tolist()]
    return [np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()]


def _text(value: Any) -> bytes:
    """A text as bytes; names of files may hold what is no UTF-8."""
    return str(value).encode("utf-8", "surrogatepass")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _hash(parts: Iterable[bytes]) -> str:
    """Of the parts, each with its length: moved borders are seen."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()
