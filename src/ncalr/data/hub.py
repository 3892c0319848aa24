"""Datasets of the Hugging Face Hub, from disk: what `save_to_disk` wrote, and folders of Parquet or Arrow files.

    load("/data/imdb")                                        # one column of texts, one ClassLabel: nothing to say
    load("/data/cifar100(label=fine_label, size=32)")         # several labels: say which
    load("/data/vectors(items=embedding, ids=key)")           # ids from a column; otherwise they are the rows' numbers

pyarrow reads them (the extra `parquet`); the package `datasets` is not needed. Arrow files are mapped into memory,
Parquet files are read into it. Items are the one column of images (bytes or paths, decoded by Pillow when read), of
texts, or of vectors. Labels are the one ClassLabel, whose names are kept, or else the column called label or labels.
Files belong to the split that their name or their folder speaks of, as on the Hub; the others to train.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.arrow_sizes import check_arrow
from ncalr.data.encoded import EncodedPool
from ncalr.data.pool import Pool
from ncalr.data.received import check_parquet, inside, parsed_json, read_object, reading
from ncalr.data.splits import Subset
from ncalr.data.tables import BLOCK, Block, Format, Source, cells, ids_from, labels_from, pool_from
from ncalr.errors import BadInput, Note
from ncalr.extras import load

_SUFFIXES = (".parquet", ".arrow")
_DEPTH = 3  # config/split/file
_SHARD = re.compile(r"-(\d{5})-of-(\d{5}).*$")
_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
}
_NAMES_OF_ROWS = ("id", "ids", "idx", "index", "key", "uuid", "guid")  # columns that are not meant as items
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True)
class Split:
    """The files of a split, in the order of their rows, and what is known of its columns beside them."""

    folder: Path
    name: str
    files: list[Path]
    features: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """Its rows, in blocks; errors count them through all files."""
        where = f"{self.folder} ({self.name})"
        return Source(where, Format(lambda _, columns: _blocks(self, columns), "row", typed=True))

    def called(self, at: int) -> str:
        """How errors call the item at a position."""
        return self.source.at(at + 1)


@dataclass(frozen=True)
class Columns:
    """Which columns hold what."""

    items: Any  # a column; or several, of numbers
    kind: str  # image, text or vectors
    label: str
    ids: str | None
    classes: list[str] | None  # the names that the label's own column gives


def is_hub(folder: Path) -> bool:
    """Whether this looks like a dataset of the Hub."""
    marked = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    return marked or bool(folder.is_dir() and _files(folder))


def splits_of(folder: Path) -> dict[str, Split]:
    """Every split by its name."""
    if (folder / "dataset_dict.json").is_file():
        names = _part(folder / "dataset_dict.json", "splits")
        return {str(name): _saved(inside(folder, name, "split"), str(name)) for name in names}
    if (folder / "state.json").is_file():
        name = str(_json(folder / "state.json").get("_split") or "train")
        return {name: _saved(folder, name)}
    return _grouped(folder)


def chosen_split(folder: Path, splits: Mapping[str, Split], name: str, usual: Sequence[str]) -> Split | None:
    """The split of this name; without one, the first of the usual ones that is there."""
    if name and name not in splits:
        raise BadInput(f"{folder} has no split {name!r}; it has: {', '.join(splits)}")
    return next((splits[each] for each in ([name] if name else usual) if each in splits), None)


def columns_of(split: Split, items: Any = "", label: str = "", ids: str = "") -> Columns:
    """The columns to read: those named, or else those that can be meant."""
    sheet = _sheet(split)
    several = not isinstance(items, str)
    sheet.check([*(items if several else [items]), label, ids])
    label = label or sheet.one("label", sheet.of("class label")) or sheet.one("label", sheet.called("label", "labels"))
    if not label:
        raise BadInput(f"{sheet.where}: no column of labels can be told; say label=COLUMN. It has: {sheet}")
    names = sheet.classes(label)
    if several:
        return Columns(list(items), "vectors", label, ids or None, names)
    images, others = sheet.of("image", but=(label, ids)), sheet.of("text", "vectors", but=(label, ids))
    others = [name for name in others if name.lower() not in _NAMES_OF_ROWS] or others
    items = items or sheet.one("items", images or others)
    if sheet.kinds.get(items) not in ("image", "text", "vectors"):
        raise BadInput(f"{sheet.where}: no images, texts or vectors in {items or 'any column'}. It has: {sheet}")
    return Columns(items, sheet.kinds[items], label, ids or None, names)


def read_split(
    split: Split,
    columns: Columns,
    *,
    size: Any = None,
    channels: int = 3,
    classes: list[str] | None = None,
    skip_unlabelled: bool = False,
) -> tuple[Pool, npt.NDArray[np.int64], list[str]]:
    """The pool of a split, its labels and the names of the classes, which may be those of another split.

    With `skip_unlabelled` rows without a label are left out: whoever knows the truth is asked about every item.
    """
    source = split.source
    _check_labelled(source, columns.label)
    missing = -1 if skip_unlabelled else None
    advice = f"leave those rows out: 'folder:{split.folder}(skip_unlabelled=true)'"
    labels, names = labels_from(source, columns.label, classes or columns.classes, missing, advice)
    pool = _pool(split, columns, size, channels)
    labelled = np.flatnonzero(labels >= 0)
    if len(labelled) == len(labels):
        return pool, labels, names
    left_out = f"{len(labels) - len(labelled):,} of {len(labels):,} rows have no label and are left out"
    warnings.warn(f"{source.path}: {left_out}", Note, stacklevel=2)
    return Subset(pool, labelled), labels[labelled], names


def _pool(split: Split, columns: Columns, size: Any, channels: int) -> Pool:
    if columns.kind != "image":
        text, vectors = (columns.items, None) if columns.kind == "text" else (None, columns.items)
        return pool_from(split.source, text, vectors, columns.ids)
    ids = None if columns.ids is None else ids_from(split.source, columns.ids)
    return EncodedPool(_Images(split, columns.items), ids, size=size, channels=channels, name=split.called)


# Files


def _files(folder: Path) -> list[Path]:
    """The tables in a folder and in those below, but for hidden ones."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth + 1 < _DEPTH)
        found += [Path(place, name) for name in sorted(names) if name.endswith(_SUFFIXES) and name[0] != "."]
    return found


def _grouped(folder: Path) -> dict[str, Split]:
    """The files of a folder by their splits, after looking whether all of them are there and belong together."""
    found: dict[str, list[Path]] = {}
    for path in _files(folder):
        found.setdefault(_split_name(path, folder), []).append(path)
    for name, files in found.items():
        places = sorted({f"{path.parent}/*{path.suffix}" for path in files})
        if len(places) > 1:
            raise BadInput(f"the split {name!r} is in several places: {', '.join(places)}; give one of these folders")
        for path in files:
            shard = _SHARD.search(path.stem)
            if shard and int(shard[2]) != len(files):
                raise BadInput(
                    f"{path.parent} has {len(files)} of the {int(shard[2])} files of {name!r}; fetch the others"
                )
    return {name: Split(folder, name, files, _info(files[0].parent)) for name, files in found.items()}


def _split_name(path: Path, folder: Path) -> str:
    listed = _json(path.parent / "dataset_info.json").get("splits") if _has_info(path.parent) else None
    name, sharded = _SHARD.subn("", path.stem)
    for split in listed or {}:
        if name == split or name.endswith(f"-{split}"):
            return str(split)
    for part in (name, *reversed(path.parent.relative_to(folder).parts)):
        for word in reversed(re.split(r"[^a-z]+", part.lower())):
            if word in _WORDS:
                return _WORDS[word]
    return name.rpartition("-")[2] if sharded and name != "data" else "train"


def _saved(folder: Path, name: str) -> Split:
    """What `save_to_disk` wrote."""
    path = folder / "state.json"
    if _json(path).get("_indices_data_files"):
        raise BadInput(f"{folder} has rows by an index; save it once more after flatten_indices()")
    try:
        files = [inside(folder, each["filename"], "data file") for each in _part(path, "_data_files")]
    except (TypeError, KeyError):
        raise BadInput(f"{path} is not what save_to_disk writes: its _data_files name no files") from None
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        raise BadInput(
            f"{folder} lacks {len(missing) or 'all'} of its data files, the first is {(missing or [path])[0]}"
        )
    return Split(folder, name, files, _info(folder))


def _has_info(folder: Path) -> bool:
    return (folder / "dataset_info.json").is_file()


def _info(folder: Path) -> Mapping[str, Any]:
    """What is said of the columns beside the files."""
    return (_json(folder / "dataset_info.json").get("features") or {}) if _has_info(folder) else {}


def _part(path: Path, key: str) -> Any:
    found = _json(path).get(key)
    if not isinstance(found, list):
        raise BadInput(f"{path} is not what save_to_disk writes: it has no list {key!r}")
    return found


def _json(path: Path) -> dict[str, Any]:
    return read_object(path)


# Columns


@dataclass(frozen=True)
class _Sheet:
    """The columns of a split, what each can be, and what `datasets` said of them."""

    where: str
    kinds: dict[str, str]
    features: Mapping[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self.kinds.items())

    def check(self, names: list[str]) -> None:
        """Each name that is given must be a column."""
        for name in filter(None, names):
            if name not in self.kinds:
                raise BadInput(f"{self.where}: no column {name!r}. It has: {self}")

    def of(self, *kinds: str, but: Sequence[str] = ()) -> list[str]:
        """The columns of some kinds."""
        return [name for name, kind in self.kinds.items() if kind in kinds and name not in but]

    def called(self, *names: str) -> list[str]:
        """Those of these names that are columns."""
        return [name for name in names if name in self.kinds]

    def one(self, option: str, names: list[str]) -> str:
        """The one name, or nothing; several are an error."""
        if len(names) > 1:
            raise BadInput(
                f"{self.where}: several columns can be meant, {' and '.join(names)}; say {option}={names[0]}, or "
                f"another. It has: {self}"
            )
        return names[0] if names else ""

    def classes(self, label: str) -> list[str] | None:
        """The names of the classes, where the column has them."""
        feature = self.features.get(label)
        names = feature.get("names") if isinstance(feature, Mapping) else None
        return [str(name) for name in names] if names else None


def _sheet(split: Split) -> _Sheet:
    schema = _schema(split.files[0])
    written = (schema.metadata or {}).get(b"huggingface")  # by the package `datasets`, into the file itself
    said = parsed_json(written or "{}", f"the metadata of {split.files[0]}")
    with reading(split.files[0], "metadata of a dataset"):
        features = {**(said.get("info", {}).get("features") or {}), **split.features}
    kinds = {column.name: _kind(column.type, features.get(column.name)) for column in schema}
    return _Sheet(split.source.path, kinds, features)


def _kind(kind: Any, feature: Any) -> str:
    """What a column can be: image, text, vectors, class label; or the name of its type."""
    types = _arrow().types
    said = feature.get("_type", "") if isinstance(feature, Mapping) else ""  # a nested column has a list here
    if said == "ClassLabel":
        return "class label"
    if types.is_dictionary(kind):
        kind = kind.value_type
    encoded = types.is_struct(kind) and kind.get_field_index("bytes") >= 0
    if (encoded and said in ("", "Image")) or types.is_binary(kind) or types.is_large_binary(kind):
        return "image"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        if types.is_integer(inner) or types.is_floating(inner):
            return "vectors"
    return said.lower() if encoded else str(kind).partition("<")[0]


def _check_labelled(source: Source, label: str) -> None:
    """Test sets of the Hub often come without their labels."""
    found = {str(value) for block in source.rows([label]) for value in block.columns[label]}
    if found and found <= {"-1", "None"}:
        raise BadInput(
            f"{source.path} has no labels: {label!r} is -1 or empty in every row; choose another split, for instance "
            "test=validation"
        )


# Rows


class _Images:
    """The cells of a column of images, each as bytes, a path, or None."""

    def __init__(self, split: Split, column: str) -> None:
        pieces = [(path.parent, chunk) for path in split.files for chunk in _table(path, [column])[column].chunks]
        self._made_of = split, column
        self._pieces = [(folder, chunk) for folder, chunk in pieces if len(chunk)]
        self._ends = np.cumsum([len(chunk) for _, chunk in self._pieces])

    def __getitem__(self, at: int) -> Any:
        piece = int(np.searchsorted(self._ends, at, side="right"))
        folder, chunk = self._pieces[piece]
        cell = chunk[at - int(self._ends[piece]) + len(chunk)].as_py()
        if not isinstance(cell, dict):
            return cell
        if cell["bytes"] is None and cell.get("path"):
            return inside(folder, cell["path"], "picture", below=True)
        return cell["bytes"]

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __reduce__(self) -> Any:
        return _Images, self._made_of  # a worker process opens the files itself


def _blocks(split: Split, columns: list[str]) -> Iterator[Block]:
    start = 1
    for path in split.files:
        for batch in _table(path, columns).to_batches(max_chunksize=BLOCK):
            yield Block({name: cells(batch[name]) for name in columns}, range(start, start + len(batch)))
            start += len(batch)


def _table(path: Path, columns: list[str]) -> Any:
    """Columns of one file."""
    found = _read(path, lambda file: file.read(columns=columns), lambda reader: reader.read_all())
    absent = [name for name in columns if name not in found.column_names]
    if absent:
        raise BadInput(f"{path} has no column {absent[0]!r}, other files of its split have one")
    with reading(path, path.suffix):
        found = found.select(columns)
        found.validate(full=True)  # a damaged column would end the process
    return found


def _schema(path: Path) -> Any:
    return _read(path, lambda file: file.schema_arrow, lambda reader: reader.schema)


def _read(path: Path, parquet: Any, stream: Any) -> Any:
    """What the one function makes of a Parquet file or the other of an Arrow file, if it is whole."""
    arrow = _arrow()
    kind = "Parquet" if path.suffix == ".parquet" else "Arrow"
    with reading(path, kind):
        if kind == "Parquet":
            with _arrow(".parquet").ParquetFile(path, page_checksum_verification=True) as file:
                check_parquet(path, file.metadata)
                return parquet(file)
        check_arrow(path, at_once=True)
        mapped, ipc = arrow.memory_map(str(path)), _arrow(".ipc")
        if mapped.read_at(6, 0) == b"ARROW1":
            return stream(ipc.open_file(mapped))
        if mapped.read_at(8, max(mapped.size() - 8, 0)) != _END_OF_STREAM:
            raise ValueError("it ends in the middle")  # a reader would take what is there for everything
        return stream(ipc.open_stream(mapped))


def _arrow(part: str = "") -> Any:
    return load(f"pyarrow{part}", "parquet", "reading datasets of the Hub")
