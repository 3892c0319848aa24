"""Ready-made vectors and the labels there are so far, from the files people have.

    read_embeddings("items.csv")                          a column a dimension, or one of lists; perhaps id and label
    read_embeddings("items.npy", "labels.csv")            a row an item; labels by the columns id and label
    read_embeddings("items.npy", ["labels.csv", "round1.csv"])    and those of a later round: the last word counts

Labels may be missing: they come as items are labelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.door import counted_from_one, some
from ncalr.data.pool import ArrayPool, checked_ids
from ncalr.data.received import read_npy
from ncalr.data.tables import (
    TABLES,
    Source,
    columns_of,
    endings,
    ids_from,
    is_number,
    is_whole,
    labels_from,
    numbers_as_names,
    open_table,
    pool_from,
    untyped,
    without_fractions,
)
from ncalr.errors import BadInput
from ncalr.kernels import as_kind, to_numpy

ID, LABEL = "id", "label"
NAME = "name"  # as `ncalr labels export` calls the ids of its items
ROW_NUMBERS = ("", "Unnamed: 0")  # as pandas calls the numbers of the rows
UNLABELLED = -1
KINDS = (np.float16, np.float32, np.float64)  # in the machine's order of bytes
NO_LABEL = {"nan", "na", "n/a", "<na>", "none", "null", "-1", "?"}  # as other programs write an empty cell
MANY = 5  # labels of a class, for a single one to look odd beside it

Labels = tuple[npt.NDArray[np.int64], list[str]]
"""A class number an item, -1 where there is no label yet; the names of the classes."""
Files = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Embeddings:
    """Vectors with ids, a class number each (-1: no label yet), the names of the classes, what there is to say."""

    pool: Any
    labels: npt.NDArray[np.int64]
    classes: list[str]
    notes: tuple[str, ...] = ()


def read_embeddings(path: str | Path, labels: Files | None = None, ids: Any = None) -> Embeddings:
    """The vectors of a .npy file or of a table, and their labels: from a column of the table, and from other files.

    Of an item that several of them label, the last one counts. `ids` name the rows of a .npy file; a table has a
    column for that, or its rows are 0, 1, ...
    """
    path = Path(path)
    files = [labels] if isinstance(labels, str | Path) else [] if labels is None else list(labels)
    if not all(isinstance(file, str | Path) for file in files):
        raise BadInput(
            f"the labels of a file of vectors come from files, got {type(labels).__name__}; to give both as arrays, "
            "read the vectors first (numpy.load)"
        )
    notes: list[str] = []
    found: Labels | None = None
    if path.suffix == ".npy":
        pool: Any = vector_pool(read_npy(path), ids, str(path))
    elif ids is not None:
        raise BadInput(f"ids are for a .npy file; {path} is a table: name its rows in a column {ID!r}")
    else:
        source = _table(path)
        heads = columns_of(path)
        pool = pool_from(source, None, _vectors(source, heads, notes), ID if ID in heads else None)
        if LABEL in heads:
            found = labels_from(source, LABEL, None, UNLABELLED)
    for file in map(Path, files):
        read = _numbers if file.suffix == ".npy" else _by_id
        more = read(file, pool, notes)
        found = more if found is None else _replaced(found, more, file, notes)
    found = found or (np.full(len(pool), UNLABELLED, np.int64), [])
    notes += _odd_classes(*found)
    return Embeddings(pool, *found, tuple(notes))


def _replaced(before: Labels, more: Labels, file: Path, notes: list[str]) -> Labels:
    """Labels with those of a later file on top; classes are told by their names."""
    (old, names), (new, others) = before, more
    if not names or not others:
        return more if not names else before
    if _are_numbers(names) != _are_numbers(others):
        raise BadInput(
            f"{file} has the classes {some(np.array(others))}, the labels before it {some(np.array(names))}: give "
            "names in all files, or numbers in all"
        )
    classes = max(names, others, key=len) if _are_numbers(names) else sorted({*names, *others})
    place = {name: at for at, name in enumerate(classes)}
    old, new = (_renumbered(one, [place[name] for name in of]) for one, of in ((old, names), (new, others)))
    twice = (old >= 0) & (new >= 0)
    if twice.any():
        changed = int((old[twice] != new[twice]).sum())
        notes.append(
            f"{file} labels {int(twice.sum()):,} items again, {changed:,} of them as another class: "
            "the later file counts"
        )
    return np.where(new >= 0, new, old), classes


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether classes are called by their numbers."""
    return list(names) == [str(number) for number in range(len(names))]


def _renumbered(labels: npt.NDArray[np.int64], places: list[int]) -> npt.NDArray[np.int64]:
    return np.array([*places, UNLABELLED], np.int64)[labels]  # -1 is the last of these


def _odd_classes(labels: npt.NDArray[np.int64], classes: list[str]) -> list[str]:
    """What looks like no class: a single label among many, another capital letter, a word for an empty cell."""
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    single = [name for name, count in zip(classes, counts, strict=True) if count == 1]
    notes: list[str] = []
    if single and counts.max() >= MANY:
        notes.append(f"classes with a single label: {some(np.array(single))}; look whether they are spelt as meant")
    spelt = Counter(name.casefold() for name in classes)
    twins = [name for name in classes if spelt[name.casefold()] > 1]
    if twins:
        notes.append(f"classes that differ in capital letters alone: {some(np.array(twins))}; write each in one way")
    none = [name for name in classes if name.casefold() in NO_LABEL]
    if none:
        notes.append(f"{some(np.array(none))} counts as a class; where it stands for no label, leave the cell empty")
    return notes


def vector_pool(vectors: Any, ids: Any = None, whose: str = "the array") -> ArrayPool:
    """A pool of vectors; whole numbers would be tokens there, and are none here. torch knows no other `KINDS`."""
    found = to_numpy(vectors, "features")
    if found.ndim != 2 or found.dtype not in KINDS:
        mend = ""
        if found.ndim == 2 and found.dtype.kind in "biuf":
            mend = "; np.asarray(vectors, np.float32) makes them so"
        elif isinstance(vectors, str | Path):
            mend = "; read the file first (numpy.load, or read_embeddings of ncalr.data.embeddings)"
        raise BadInput(
            f"{whose} holds {found.dtype} of shape {found.shape}; expected vectors, a row an item: floating-point "
            f"(n, d), of 16, 32 or 64 bits{mend}"
        )
    return ArrayPool(found, ids)


def by_index(vectors: Any, labels: Any, ids: Any) -> tuple[Any, Any]:
    """Labels and ids of what may be from pandas: the index of a DataFrame names its rows, that of a Series its labels.

    Where ids are given, or only one of the two is from pandas, rows and labels go by their order.
    """
    if ids is not None or not _has_index(vectors):
        return labels, ids
    try:
        ids = checked_ids(vectors.index, len(vectors))
    except BadInput as error:
        raise BadInput(
            f"the index of the vectors names them, and {error}; .reset_index(drop=True) numbers them"
        ) from None
    if not _has_index(labels) or labels.ndim != 1:
        return labels, ids
    whose = checked_ids(labels.index, len(labels))
    strangers = whose[~np.isin(whose, ids)]
    if len(strangers):
        raise BadInput(
            f"{len(strangers):,} of {len(whose):,} labels are of no row of the vectors, by their indices: "
            f"{some(strangers)}; the vectors have {some(ids)}. Where both are in the same order: labels.to_numpy()"
        )
    return dict(zip(whose.tolist(), labels.tolist(), strict=True)), ids


def _has_index(value: Any) -> bool:
    """Whether it is a DataFrame or a Series of pandas."""
    return hasattr(value, "index") and hasattr(value, "iloc")


def _table(path: Path) -> Source:
    """A table, where a .npy file would do as well."""
    if path.suffix.lower() not in TABLES:
        raise BadInput(f"{path} cannot be read; expected a file that ends in .npy, {endings(path)}")
    return open_table(path)


def _numbers(path: Path, pool: ArrayPool, notes: list[str]) -> Labels:
    """The labels of a .npy file, in the order of the items."""
    found, n = read_npy(path), len(pool)
    if found.shape != (n,) or found.dtype.kind not in "iu" or found.min(initial=0) < UNLABELLED:
        raise BadInput(
            f"{path} holds {found.dtype} of shape {found.shape}; expected a class number for each of the {n} items, "
            f"counted from 0, {UNLABELLED} where there is no label yet; or a table with the columns {ID} and {LABEL}"
        )
    notes += counted_from_one(found[found >= 0], mend="subtract 1 from them", name="all is well")
    largest = int(found.max()) if len(found) else UNLABELLED  # an unsigned kind does not hold -1
    return np.array(found, np.int64), numbers_as_names(largest, str(path))


def _by_id(path: Path, pool: ArrayPool, notes: list[str]) -> Labels:
    """The labels of a table with the columns id (or name) and label; none yet, where it has its first line alone."""
    source = _table(path)
    heads = columns_of(path)
    whom = NAME if NAME in heads and ID not in heads else ID
    if next(source.rows([whom, LABEL]), None) is None:
        notes.append(f"{path} has no labels yet")
        return np.full(len(pool), UNLABELLED, np.int64), []
    given, classes = labels_from(source, LABEL, None, UNLABELLED)
    whose, places = _unescaped(ids_from(source, whom), pool.ids), pool.ids
    if whose.dtype.kind == "U" and places.dtype.kind != "U":
        whose = np.array(untyped(without_fractions(whose.tolist())))
    if (whose.dtype.kind == "U") != (places.dtype.kind == "U"):  # one name among numbers makes all of them texts
        whose, places = whose.astype(str), places.astype(str)
    whose = as_kind(whose, places.dtype)
    known = np.isin(whose, places)
    if not known.any():
        raise BadInput(
            f"none of the {len(whose)} ids in {path} is an item's: they are {some(whose)}, the items' are "
            f"{some(pool.ids)}; look whether it is the right file, and whether its column {whom!r} holds their ids"
        )
    if not known.all():
        notes.append(f"{(~known).sum()} of {len(whose)} labels are of no item, ignored: {some(whose[~known])}")
    labels = np.full(len(pool), UNLABELLED, np.int64)
    order = np.argsort(places, kind="stable")
    labels[order[np.searchsorted(places, whose[known], sorter=order)]] = given[known]
    return labels, classes


def _unescaped(whose: npt.NDArray[Any], places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return ids without the ' that `--spreadsheet` put before them: of those that only so are an item's."""
    if whose.dtype.kind != "U" or places.dtype.kind != "U":
        return whose
    plain = np.array([name.removeprefix("'") for name in whose.tolist()])
    return np.where(~np.isin(whose, places) & np.isin(plain, places), plain, whose)


def _vectors(source: Source, heads: list[str], notes: list[str]) -> str | list[str]:
    """The column of vectors, or the columns of numbers, by what the first rows hold."""
    names = [name for name in heads if name not in (ID, LABEL, *ROW_NUMBERS)]
    block = next(source.rows(names), None)
    if block is None:
        raise BadInput(f"{source.path} has no rows")
    first = {name: _first(block.columns[name]) for name in names}
    lists = [name for name, value in first.items() if _is_list(value)]
    numbers = [name for name, value in first.items() if is_number(value)]
    commas = [name for name, value in first.items() if not is_number(value) and is_number(_with_a_point(value))]
    if commas and not lists:
        raise BadInput(
            f"{source.path}: {first[commas[0]]} in column {commas[0]!r} has a comma where numbers have a point; save "
            "the table with points"
        )
    if len(lists) > 1 or not (lists or numbers):
        what = f"several columns hold vectors ({', '.join(lists)})" if lists else "no column holds numbers"
        raise BadInput(
            f"{source.path}: {what}; it has {', '.join(heads)}; expected the vectors, a column a dimension or one of "
            f"lists, and perhaps the columns {ID} and {LABEL}"
        )
    others = [name for name in heads if name not in (*(lists or numbers), ID, LABEL)]
    if others:
        notes.append(f"columns that are no part of the vectors: {', '.join(name or '(no name)' for name in others)}")
    if not lists:
        notes.append(f"the vectors are {len(numbers)} columns, {numbers[0]} to {numbers[-1]}{_about_names(numbers)}")
    return lists[0] if lists else numbers


def _first(column: Any) -> Any:
    """Its first value: what a column holds is not told by an empty cell."""
    return next((value for value in column if value is not None and not _is_blank(value)), "")


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _with_a_point(value: Any) -> str:
    return str(value).replace(",", ".", 1)


def _about_names(columns: list[str]) -> str:
    """A hint where names of columns look like the numbers of an item; pandas calls them 0, 1, ... by itself."""
    odd = any(is_number(name) and not is_whole(name) for name in columns)
    return "; if these are numbers of the first item, write names above them" if odd else ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list | np.ndarray) or (isinstance(value, str) and value.lstrip().startswith("["))
