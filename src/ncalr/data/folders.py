"""What a path may hold: plain arrays, images in class folders or with a list of labels, a table, a set of the Hub."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.door import counted_from_one
from ncalr.data.catalog import Entry, Kind, Labels, Parts
from ncalr.data.embeddings import ID, LABEL, read_embeddings
from ncalr.data.hub import chosen_split, columns_of, read_split, splits_of
from ncalr.data.images import ImagePool
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.received import read_json, read_npy, reading
from ncalr.data.splits import Subset, class_labels, initial
from ncalr.data.tables import (
    FILE_COLUMNS,
    LABEL_COLUMNS,
    TEXT_COLUMNS,
    about_header,
    ids_from,
    open_table,
    read_labels,
    read_table,
)
from ncalr.data.tables import columns_of as columns_of_table
from ncalr.errors import BadInput, Note

_MAPPED_FROM = 64 * 2**20  # bytes; smaller arrays are read at once


def arrays_in(folder: Path, names: Sequence[str] = ()) -> Parts | None:
    """Arrays as they are; None if there are none."""
    if not (folder / "train_images.npy").exists():
        return None
    split = "val" if (folder / "val_images.npy").exists() and not (folder / "test_images.npy").exists() else "test"
    pool, labels = _array_split(folder, "train")
    test, test_labels = _array_split(folder, split)
    count = 1 + int(max(labels.max(), test_labels.max()))
    named = folder / "classes.json"
    if not named.exists():
        for note in counted_from_one(
            np.concatenate([labels, test_labels]), mend="save labels - 1", name=f"write the names of all into {named}"
        ):
            warnings.warn(f"{folder}: {note}", Note, stacklevel=2)
    kinds = read_classes(named) if named.exists() else [Kind(name) for name in _numbered(names, count)]
    return Parts(pool, labels, test, test_labels, [kind.name for kind in kinds], [kind.wnid for kind in kinds])


def _array_split(folder: Path, split: str) -> tuple[ArrayPool, Labels]:
    images = _array(folder / f"{split}_images.npy")
    labels = _array(folder / f"{split}_labels.npy")
    if len(images) != len(labels):
        raise BadInput(f"{folder}: {len(images)} {split} images and {len(labels)} labels")
    return ArrayPool(images), class_labels(labels)


def _array(path: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = read_npy(path, "expected an array as numpy.save writes it", mapped=_is_large(path))
    if not array.ndim:
        raise BadInput(f"{path} holds a single number; expected one row an item")
    return array


def _is_large(path: Path) -> bool:
    return path.exists() and path.stat().st_size > _MAPPED_FROM


def read_classes(path: Path) -> list[Kind]:
    """The classes in a JSON list of names, or of objects with a "name" and perhaps a "wnid"."""
    found = read_json(path)
    with reading(path, "a list of class names", "expected names, or objects with a name"):
        return [_kind(one) for one in found]


def _kind(given: Any) -> Kind:
    return Kind(given) if isinstance(given, str) else Kind(str(given["name"]), str(given.get("wnid", "")))


def _numbered(known: Sequence[str], count: int) -> list[str]:
    """The names that are known, or numbers where they are too few."""
    return list(known) if len(known) >= count else [str(number) for number in range(count)]


def class_folders(
    folder: Path,
    *,
    size: Any,
    channels: int = 3,
    test_share: float = 0.2,
    seed: int = 0,
    skip_broken: bool = False,
    tests: Sequence[str] = ("test", "val"),
) -> Parts | None:
    """Images below train/CLASS and test/CLASS, or below CLASS alone, of which a share is then kept for the test."""
    if not folder.is_dir() or not any(path.is_dir() for path in folder.iterdir()):
        return None

    def images(place: Path) -> ImagePool:
        return images_below(place, size=size, channels=channels, skip_broken=skip_broken, dataset=folder)

    if not (folder / "train").is_dir():
        alone = images(folder)
        kinds, numbers = np.unique(_names_of(alone, folder), return_inverse=True)
        return _divided(alone, numbers.astype(np.int64), kinds.tolist(), folder, test_share, seed)
    split = next((folder / name for name in tests if (folder / name).is_dir()), None)
    if split is None:
        raise BadInput(f"{folder} has train/ but no {' or '.join(name + '/' for name in tests)}")
    pool, test = images(folder / "train"), images(split)
    names, test_names = _names_of(pool, folder / "train"), _names_of(test, split)
    classes = sorted(set(names))
    strange = sorted(set(test_names) - set(classes))
    if strange:
        raise BadInput(f"{split} has a class {strange[0]!r} that {folder / 'train'} has not")
    number = {name: at for at, name in enumerate(classes)}
    return Parts(pool, [number[name] for name in names], test, [number[name] for name in test_names], classes)


def images_below(
    place: Path, *, size: Any, channels: int = 3, skip_broken: bool = False, dataset: Path | None = None
) -> ImagePool:
    """All images below a place; a note says how many were left out. `dataset`: the folder of which it is a part."""
    advice = f"skip_broken=true, in brackets behind the dataset, as in 'folder:{dataset or place}(skip_broken=true)'"
    pool = ImagePool(place, size=size, channels=channels, skip_broken=skip_broken, advice=advice)
    if pool.skipped:
        left_out = f"{len(pool.skipped):,} files cannot be read as images and are left out"
        warnings.warn(f"{place}: {left_out}, the first is {pool.skipped[0]}", Note, stacklevel=2)
    return pool


def _listed_images(
    folder: Path, *, size: Any, channels: int, test_share: float, seed: int, skip_broken: bool
) -> Parts | None:
    """Images whose labels stand in labels.csv, by their paths below the folder; a share is kept for the test."""
    listed = folder / "labels.csv"
    if not listed.is_file() or (folder / "train").is_dir():
        return None
    heads = columns_of_table(listed)
    file, label = (next((name for name in usual if name in heads), "") for usual in (FILE_COLUMNS, LABEL_COLUMNS))
    if not file or not label:
        if any(path.is_dir() for path in folder.iterdir()):
            return None  # class folders, and a list of something else
        raise BadInput(
            f"{listed} has the columns {', '.join(heads)}; expected file, the path of an image as seen from {folder}, "
            "and label"
        )
    pool = images_below(folder, size=size, channels=channels, skip_broken=skip_broken)
    there = {*pool.ids.tolist(), *pool.skipped}
    absent = [name for name in ids_from(open_table(listed), file).tolist() if name not in there]
    if absent:
        raise BadInput(
            f"{listed} names {len(absent):,} files that are no images below {folder}, the first is {absent[0]!r}; "
            "expected paths as seen from there, with their endings"
        )
    labels, classes = read_labels(listed, label, missing=-1, id_column=file, ids=pool.ids)
    return _divided(*_labelled(pool, labels, str(listed)), classes, folder, test_share, seed)


def _labelled(pool: Pool, labels: Labels, where: str) -> tuple[Pool, Labels]:
    """The items that have a label; a note says how many have none and are left out."""
    known = np.flatnonzero(labels >= 0)
    if len(known) == len(labels):
        return pool, labels
    left_out = f"{len(labels) - len(known):,} of {len(labels):,} items have no label and are left out"
    warnings.warn(f"{where}: {left_out}", Note, stacklevel=2)
    return Subset(pool, known), labels[known]


def _divided(pool: Pool, numbers: Labels, classes: list[str], folder: Path, share: float, seed: int) -> Parts:
    """A share of the items of each class is kept for the test."""
    if not 0 < share < 1:
        raise BadInput(f"test_share is a part of the items, between 0 and 1; got {share!r}")
    size = round(share * len(pool))
    if not 1 <= size < len(pool):
        raise BadInput(f"{folder} has {len(pool)} items: too few to keep a share of {share} for the test")
    apart = initial(numbers, size, seed, stratified=True, ids=pool.ids)
    rest = np.setdiff1d(np.arange(len(pool)), apart)
    return Parts(Subset(pool, rest), numbers[rest], Subset(pool, apart), numbers[apart], classes)


def _names_of(pool: ImagePool, folder: Path) -> list[str]:
    """The class of each image: its folder, or what Tiny-ImageNet's list beside the images says."""
    listed = folder / "val_annotations.txt"
    if listed.exists():
        with reading(listed, "UTF-8"):
            rows = [line.split("\t") for line in listed.read_text(encoding="utf-8").splitlines() if line]
        named = {row[0]: row[1] for row in rows if len(row) > 1}
        absent = [path for path in pool.paths if path.name not in named]
        if absent:
            raise BadInput(f"{listed} does not say the class of {len(absent)} images, the first is {absent[0]}")
        return [named[path.name] for path in pool.paths]
    outside = [path for path, name in zip(pool.paths, pool.ids.tolist(), strict=True) if "/" not in name]
    if outside:
        raise BadInput(f"{outside[0]} is in no class folder; expected {folder}/CLASS/IMAGE")
    return [name.partition("/")[0] for name in pool.ids.tolist()]


def _folder_set(
    folder: Path,
    *,
    size: Any = 64,
    channels: int = 3,
    test_share: float = 0.2,
    seed: int = 0,
    skip_broken: bool = False,
) -> Parts | None:
    """Any folder: plain arrays, images with their labels in a file, or class folders of images."""
    how = {"size": size, "channels": channels, "test_share": test_share, "seed": seed, "skip_broken": skip_broken}
    return arrays_in(folder) or _listed_images(folder, **how) or class_folders(folder, **how)


def _table_set(
    path: Path,
    *,
    text: str = "",
    label: str = "",
    ids: str = "",
    test_share: float = 0.2,
    seed: int = 0,
    skip_unlabelled: bool = False,
) -> Parts:
    """A table of texts and their labels, or of vectors and theirs; a share is kept for the test."""
    heads = columns_of_table(path)
    text = text or next((name for name in TEXT_COLUMNS if name in heads), "")
    label = label or next((name for name in LABEL_COLUMNS if name in heads), "")
    if not label or not (text or label == LABEL):
        what, option = ("texts", "text") if label else ("labels", "label")
        raise BadInput(
            f"which column of {path} holds the {what}? Say '{path}({option}=COLUMN)'; there are {', '.join(heads)}."
            f"{about_header(heads)}"
        )
    if text:
        pool: Pool = read_table(path, text=text, id_column=ids or (ID if ID in heads else None))
        labels, classes = read_labels(path, label, missing=-1)
    else:
        found = read_embeddings(path)
        pool, labels, classes = found.pool, found.labels, found.classes
        for note in found.notes:
            warnings.warn(f"{path}: {note}", Note, stacklevel=2)
    if not skip_unlabelled and (labels < 0).any():
        raise BadInput(
            f"{path}: {(labels < 0).sum():,} of {len(labels):,} rows have no label in {label!r}; fill them, or leave "
            f"those rows out: '{path}(skip_unlabelled=true)'"
        )
    return _divided(*_labelled(pool, labels, str(path)), classes, path, test_share, seed)


def _hub_set(
    folder: Path,
    *,
    items: Any = "",
    label: str = "",
    ids: str = "",
    split: str = "",
    test: str = "",
    size: Any = None,
    channels: int = 3,
    test_share: float = 0.2,
    seed: int = 0,
    skip_unlabelled: bool = False,
) -> Parts:
    """A dataset of the Hub; without a test or a validation split, a share is kept for the test."""
    splits = splits_of(folder)
    pool_split = chosen_split(folder, splits, split, ["train", *(splits if len(splits) == 1 else [])])
    if pool_split is None:
        raise BadInput(f"{folder} has no split 'train'; say split=NAME, one of: {', '.join(splits)}")
    usual = [name for name in ("test", "validation") if name != pool_split.name]
    test_split = chosen_split(folder, splits, test, usual)
    columns = columns_of(pool_split, items, label, ids)
    how = {"size": size, "channels": channels, "skip_unlabelled": skip_unlabelled}
    pool, labels, classes = read_split(pool_split, columns, **how)
    if test_split is None:
        return _divided(pool, labels, classes, folder, test_share, seed)
    held = read_split(test_split, columns, classes=classes, **how)
    return Parts(pool, labels, held[0], held[1], classes)


IMAGE_FOLDERS = "train/CLASS/*.{jpg,png,webp,...} and test/ or val/ likewise"
FOLDER = Entry(
    "folder",
    items=0,
    test_items=0,
    classes=0,
    licence="that of the images",
    source="a folder",
    read=_folder_set,
    files=f"{IMAGE_FOLDERS}; or CLASS/*.{{jpg,png,webp,...}} alone; or images and labels.csv (file,label); or a "
    "dataset of the Hugging Face Hub: what save_to_disk wrote, or *.parquet or *.arrow files",
)
TABLE = Entry(
    "table",
    items=0,
    test_items=0,
    classes=0,
    licence="that of the table",
    source="a table",
    read=_table_set,
)
HUB = Entry(
    "folder",
    items=0,
    test_items=0,
    classes=0,
    licence="that of the dataset",
    source="a folder",
    read=_hub_set,
)
