"""Datasets by name: a pool, a test set, and the truth about both, for oracles and reports.

    digits = load("digits")                                 # ships with scikit-learn
    cifar = load("cifar10", root="/data")                   # /data/cifar10
    photos = load("folder:/data/photos(size=96)")           # class folders, below train/ and test/ or val/, or alone
    reviews = load("/data/imdb")                            # a path alone: what lies there says what it is
    mails = load("mails.csv(text=body, label=kind)")        # a table of texts, or of vectors, and their labels
    for entry in DATASETS.values(): print(entry.name, entry.items, entry.classes, entry.licence)

The root is the argument, else the environment variable NCALR_DATA, else ~/.cache/ncalr; a set lies in ROOT/NAME, as

* plain arrays: `train_images.npy`, `train_labels.npy`, `test_images.npy`, `test_labels.npy` (or `val_...`), and
  `classes.json`, a list of names or of {"name", "wnid"}, if there is one; large ones are memory-mapped; or
* the official files, where Python reads them by itself: CIFAR's binary version, Fashion-MNIST's idx files, SST-2's TSV.

A path is a folder of such arrays, of class folders with images, of images with their labels in `labels.csv`, or a
dataset of the Hugging Face Hub (`data.hub`); or it is a table, of which a share is kept for the test.

Nothing is ever unpickled. `download` fetches the official files whose checksums are published. A set of one's own is
one function that takes the folder and returns `Parts`, or None if nothing is there, and one decorator, `dataset`.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import os
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt

from ncalr.acquire.door import counted_from_one
from ncalr.acquire.spec import Spec, cut, parse
from ncalr.data.embeddings import ID, LABEL, read_embeddings
from ncalr.data.hub import chosen_split, columns_of, is_hub, read_split, splits_of
from ncalr.data.images import ImagePool
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.splits import Subset, class_labels, drawn, initial
from ncalr.data.tables import (
    FILE_COLUMNS,
    LABEL_COLUMNS,
    TABLES,
    TEXT_COLUMNS,
    TextPool,
    about_header,
    ids_from,
    open_table,
    read_labels,
    read_table,
)
from ncalr.data.tables import columns_of as columns_of_table
from ncalr.data.views import VIEWS, Apart, part, view_of
from ncalr.errors import BadInput, NcalrError, Note, check_known, unknown
from ncalr.extras import load as load_package

Labels = npt.NDArray[np.int64]
_MAPPED_FROM = 64 * 2**20  # bytes; smaller arrays are read at once


@dataclass(frozen=True)
class Facts:
    """What a report says about where its data comes from."""

    licence: str
    source: str
    notes: str = ""


class Kind(NamedTuple):
    """A class: its name, and its WordNet id where one is known."""

    name: str
    wnid: str = ""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A pool to choose from and a test set, with the truth about both.

    `labels` stand in the order of `pool.ids`, `test_labels` in that of `test.ids`. They are for oracles and reports
    only: nothing that chooses or learns may look at them.
    """

    name: str
    pool: Pool = field(repr=False)
    labels: Labels = field(repr=False)
    test: Pool = field(repr=False)
    test_labels: Labels = field(repr=False)
    classes: list[str]
    facts: Facts
    apart: Apart | None = field(default=None, repr=False)  # what a view (`data.views`) holds out
    wnids: Sequence[str] = field(default=(), repr=False)  # WordNet ids of the classes, in their order, if any are known

    def __post_init__(self) -> None:
        for what, pool, labels in (("pool", self.pool, self.labels), ("test set", self.test, self.test_labels)):
            found = class_labels(labels)
            if len(found) != len(pool):
                raise BadInput(f"{self.name}: the {what} has {len(pool)} items and {len(found)} labels")
            if found.max() >= len(self.classes):
                raise BadInput(
                    f"{self.name}: the {what} has a label {found.max()}, there are {len(self.classes)} classes"
                )
        if self.wnids and len(self.wnids) != len(self.classes):
            raise BadInput(f"{self.name}: {len(self.wnids)} WordNet ids, there are {len(self.classes)} classes")
        if self.pool.shape != self.test.shape:
            raise BadInput(f"{self.name}: items of shape {self.pool.shape}, in the test set {self.test.shape}")

    @property
    def kinds(self) -> list[Kind]:
        """The classes with all that is known of them."""
        return [Kind(*both) for both in zip(self.classes, self.wnids or [""] * len(self.classes), strict=True)]


class Parts(NamedTuple):
    """What a loader finds in a folder."""

    pool: Pool
    labels: Any
    test: Pool
    test_labels: Any
    classes: list[str]
    wnids: Sequence[str] = ()


@dataclass(frozen=True)
class Archive:
    """An official file: where it is, and the checksum its authors published."""

    url: str
    checksum: str
    algorithm: str = "md5"

    @property
    def file(self) -> str:
        """Its name."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Entry:
    """What is known of a dataset before it is loaded."""

    name: str
    items: int
    test_items: int
    classes: int
    licence: str
    source: str
    read: Callable[..., Parts | None]
    files: str = ""  # the official files that are understood; nothing if the set needs no folder
    archives: tuple[Archive, ...] = ()
    aliases: tuple[str, ...] = ()
    notes: str = ""
    arrays: bool = True  # whether plain arrays are understood

    @property
    def options(self) -> dict[str, Any]:
        """The options of its loader and their defaults."""
        found = inspect.signature(self.read).parameters.values()
        return {option.name: option.default for option in found if option.kind is option.KEYWORD_ONLY}


DATASETS: dict[str, Entry] = {}
"""Every named dataset; nothing is loaded by looking."""


def dataset(name: str, **facts: Any) -> Callable[[Callable[..., Parts | None]], Callable[..., Parts | None]]:
    """Register the decorated loader as dataset `name`; `facts` are those of an `Entry`."""

    def register(read: Callable[..., Parts | None]) -> Callable[..., Parts | None]:
        if name in DATASETS:
            raise BadInput(f"there is a dataset {name!r} already; choose another name")
        DATASETS[name] = Entry(name, read=read, **facts)
        return read

    return register


def load(name: str, root: str | Path | None = None, **options: Any) -> Dataset:
    """The dataset of this name, from ROOT/NAME; options in brackets, `imagenet100(size=96)`, or as arguments."""
    known, inside, written = _read_name(name)
    if inside is not None and not inside.is_dir() and not (_is_table(inside) and inside.is_file()):
        what = " (it is a file)" if inside.exists() else ""
        raise BadInput(
            f"no {'table' if _is_table(inside) else 'folder'} {inside.absolute()}{what}; look at how it is written, or "
            "give the path where the data lie now"
        )
    entry = _entry(known) if inside is None else _folder_kind(inside)
    chosen = {**written, **options}
    for option in chosen:
        check_known(f"option of the dataset {entry.name}", option, entry.options | VIEWS)
    view = {option: chosen.pop(option) for option in VIEWS if option in chosen}
    folder = inside if inside is not None else _folder(entry, data_root(root))
    parts = entry.read(folder, **chosen)
    if parts is None:
        raise BadInput(_missing(entry, folder, data_root(root)))
    facts = Facts(entry.licence, entry.source if inside is None else str(inside), entry.notes)
    labels, test_labels = class_labels(parts.labels), class_labels(parts.test_labels)
    whole = Dataset(name, parts.pool, labels, parts.test, test_labels, parts.classes, facts, wnids=parts.wnids)
    return seen(whole, view) if view else whole


def seen(whole: Dataset, options: dict[str, Any]) -> Dataset:
    """A dataset under a view: with a long tail, or with classes held out."""
    view = view_of(whole.labels, whole.test_labels, len(whole.classes), whole.pool.ids, options)
    labels, test_labels = view.numbers[whole.labels], view.numbers[whole.test_labels]
    kinds = [whole.kinds[old] for old in np.argsort(view.numbers)]
    names, wnids = [kind.name for kind in kinds], [kind.wnid for kind in kinds]
    pool, test = part(whole.pool, view.kept), part(whole.test, view.test_kept)
    if pool is None or test is None:
        raise BadInput(f"{whole.name}: nothing is left in the {'test set' if pool else 'pool'} under {options}")
    apart = Apart(
        part(whole.pool, view.out), labels[view.out], part(whole.test, view.test_out), test_labels[view.test_out],
        names[view.known :],
    )  # fmt: skip
    kept = labels[view.kept], test_labels[view.test_kept]
    known = names[: view.known], wnids[: view.known]
    return Dataset(whole.name, pool, kept[0], test, kept[1], known[0], whole.facts, apart, known[1])


def placed(name: str) -> str:
    """The name of a dataset as it means the same from everywhere: a folder is given by its whole path.

    >>> placed("digits(known=8)"), placed("folder:/data/../photos(size=96)")
    ('digits(known=8)', 'folder:/photos(size=96)')
    """
    parts = _of_folder(name)
    if parts is None:
        return name
    before, path, options = parts
    return f"{before}{os.path.abspath(os.path.expanduser(path))}{options}"


def source_and_options(name: str) -> tuple[str, str]:
    """Where a dataset is from, a name or the path of a folder, and its options in their brackets.

    >>> source_and_options("digits(known=8)"), source_and_options("folder:/data/photos")
    (('digits', '(known=8)'), ('/data/photos', ''))
    """
    return (_of_folder(name) or ("", *cut(name.strip())))[1:]


def data_root(root: str | Path | None = None) -> Path:
    """Where datasets lie: what is given, else NCALR_DATA, else ~/.cache/ncalr."""
    return Path(root or os.environ.get("NCALR_DATA") or "~/.cache/ncalr").expanduser()


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
    entry = _entry(name)
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


# Names and folders


def _read_name(text: str) -> tuple[str, Path | None, dict[str, Any]]:
    """Name, folder (for `folder:PATH`, or a path alone) and options."""
    parts = _of_folder(text)
    if parts is None:
        name = cut(text.strip())[0]
        spec = parse(text) if name.replace("-", "_").isidentifier() or "(" in name else Spec(name)
        return spec.name, None, spec.options
    _, path, options = parts
    return "folder", Path(path).expanduser(), parse(f"options{options}").options


def _of_folder(text: str) -> tuple[str, str, str] | None:
    """What stands before a folder's path, the path, and its options in brackets; None for a set with a name."""
    text = text.strip()
    before = "folder:" if text.startswith("folder:") else ""
    path, options = cut(text.removeprefix(before))
    if not path:
        raise BadInput(f"cannot read {text!r}; write folder:PATH or folder:PATH(size=64)")
    if not before and "/" not in path and (_is_known(path) or not (Path(path).is_dir() or _is_table(Path(path)))):
        return None
    return before, path, options


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in TABLES and not path.is_dir()


def _folder_kind(folder: Path) -> Entry:
    if _is_table(folder):
        return _TABLE
    return _HUB if not (folder / "train_images.npy").exists() and is_hub(folder) else _FOLDER


def _entry(name: str) -> Entry:
    for entry in DATASETS.values():
        if name == entry.name or name in entry.aliases:
            return entry
    other = "Nor is there such a folder here; a folder of images or a set of the Hub: 'folder:PATH'; a table: its path."
    raise unknown("dataset", name, DATASETS, other)


def _is_known(name: str) -> bool:
    return any(name.replace("-", "_") in (entry.name, *entry.aliases) for entry in DATASETS.values())


def _folder(entry: Entry, root: Path) -> Path:
    there = [root / name for name in (entry.name, *entry.aliases) if (root / name).is_dir()]
    return there[0] if there else root / entry.name


def _missing(entry: Entry, folder: Path, root: Path) -> str:
    """Where it was looked for, what was expected there, how to get it."""
    arrays = "{train,test or val}_{images,labels}.npy and classes.json" if entry.arrays else ""
    expected = "; or ".join(part for part in (arrays, entry.files) if part)
    what = "a dataset" if entry is _FOLDER else entry.name
    absent = "" if entry is _FOLDER or root.is_dir() else f" (there is no folder {root}: give the root that there is)"
    text = f"{what} is not in {folder}{absent}; expected there: {expected}. "
    if entry is _FOLDER:
        return text.strip()
    urls = f" ({', '.join(archive.url for archive in entry.archives)})" if entry.archives else ""
    return f"{text}{how_to_get(entry, root)}{urls}. Another place: the argument root, or NCALR_DATA"


def is_there(entry: Entry, root: Path) -> bool:
    """Whether a dataset ships with a package, or has a folder below the root."""
    return not (entry.files or entry.arrays) or _folder(entry, root).is_dir()


def how_to_get(entry: Entry, root: Path) -> str:
    """The line that fetches a dataset, or where it comes from and where to put it."""
    if entry.archives:
        return f"To get it: python -c \"from ncalr.data.dataset import download; download('{entry.name}', '{root}')\""
    return f"It comes from {entry.source}; put it into {root / entry.name} as {entry.files}"


# Downloads


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


# Plain arrays


def _arrays(folder: Path, names: Sequence[str] = ()) -> Parts | None:
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
    try:
        mode: Any = "r" if path.stat().st_size > _MAPPED_FROM else None
        array: npt.NDArray[Any] = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path} is missing or torn ({error}); expected an array as numpy.save writes it") from None
    return array


def read_classes(path: Path) -> list[Kind]:
    """The classes in a JSON list of names, or of objects with a "name" and perhaps a "wnid"."""
    try:
        return [_kind(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path} cannot be read as a list of class names ({error!r})") from None


def _kind(given: Any) -> Kind:
    return Kind(given) if isinstance(given, str) else Kind(str(given["name"]), str(given.get("wnid", "")))


def _numbered(known: Sequence[str], count: int) -> list[str]:
    """The names that are known, or numbers where they are too few."""
    return list(known) if len(known) >= count else [str(number) for number in range(count)]


# Class folders


def _class_folders(
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
    return _arrays(folder) or _listed_images(folder, **how) or _class_folders(folder, **how)


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


_FOLDERS = "train/CLASS/*.{jpg,png,webp,...} and test/ or val/ likewise"
_FOLDER = Entry(
    "folder",
    items=0,
    test_items=0,
    classes=0,
    licence="that of the images",
    source="a folder",
    read=_folder_set,
    files=f"{_FOLDERS}; or CLASS/*.{{jpg,png,webp,...}} alone; or images and labels.csv (file,label); or a dataset of "
    "the Hugging Face Hub: what save_to_disk wrote, or *.parquet or *.arrow files",
)
_TABLE = Entry(
    "table",
    items=0,
    test_items=0,
    classes=0,
    licence="that of the table",
    source="a table",
    read=_table_set,
)
_HUB = Entry(
    "folder",
    items=0,
    test_items=0,
    classes=0,
    licence="that of the dataset",
    source="a folder",
    read=_hub_set,
)


# The sets


@dataset(
    "digits",
    items=1297,
    test_items=500,
    classes=10,
    licence="CC BY 4.0",
    source="scikit-learn's load_digits, from Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998, UCI)",
    notes="8 x 8 pixels; which 500 are for the test is fixed; ids are scikit-learn's rows",
    arrays=False,
)
def _digits(folder: Path) -> Parts:  # noqa: ARG001 (it ships with scikit-learn)
    found = load_package("sklearn.datasets", "sklearn", "the dataset digits").load_digits()
    images, truth = (found.images * 15).astype(np.uint8), found.target.astype(np.int64)
    order = drawn(len(truth), 0, "digits")
    test, pool = np.sort(order[:500]), np.sort(order[500:])
    return Parts(
        ArrayPool(images[pool], pool),
        truth[pool],
        ArrayPool(images[test], test),
        truth[test],
        [str(i) for i in range(10)],
    )


_CIFAR = {
    "licence": "none stated; cite Krizhevsky 2009",
    "source": "https://www.cs.toronto.edu/~kriz/cifar.html",
    "items": 50_000,
    "test_items": 10_000,
}


@dataset(
    "cifar10",
    classes=10,
    files="cifar-10-binary.tar.gz, or cifar-10-batches-bin/ unpacked from it",
    archives=(Archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
    notes="32 x 32 pixels, colour",
    **_CIFAR,
)
def _cifar10(folder: Path) -> Parts | None:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    train = [f"data_batch_{i}.bin" for i in range(1, 6)]
    return _arrays(folder, names) or _cifar(
        folder, "cifar-10-binary.tar.gz", train, "test_batch.bin", "batches.meta.txt"
    )


@dataset(
    "cifar100",
    classes=100,
    files="cifar-100-binary.tar.gz, or cifar-100-binary/ unpacked from it",
    archives=(Archive("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
    notes="32 x 32 pixels, colour; the 100 fine classes",
    **_CIFAR,
)
def _cifar100(folder: Path) -> Parts | None:
    found = _arrays(folder)
    return found or _cifar(folder, "cifar-100-binary.tar.gz", ["train.bin"], "test.bin", "fine_label_names.txt")


def _cifar(folder: Path, archive: str, train: list[str], test: str, names: str) -> Parts | None:
    """CIFAR's binary version: records of one or two label bytes, of which the last counts, and 3 x 32 x 32 bytes."""
    wanted = [*train, test, names]
    files = _unpacked(folder, wanted) or _packed(folder / archive, wanted)
    if files is None:
        return None
    classes = files[names].decode().split()
    label_bytes = 1 if len(train) > 1 else 2
    images, labels = zip(*(_records(folder, name, files[name], label_bytes) for name in train), strict=True)
    test_images, test_labels = _records(folder, test, files[test], label_bytes)
    return Parts(
        ArrayPool(np.concatenate(images)), np.concatenate(labels), ArrayPool(test_images), test_labels, classes
    )


def _records(folder: Path, name: str, data: bytes, label_bytes: int) -> tuple[npt.NDArray[np.uint8], Labels]:
    record = label_bytes + 3072
    if not data or len(data) % record:
        raise BadInput(f"{folder}: {name} has {len(data)} bytes, expected records of {record}; fetch it again")
    rows = np.frombuffer(data, np.uint8).reshape(-1, record)
    planes = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, label_bytes - 1].astype(np.int64)


def _unpacked(folder: Path, wanted: list[str]) -> dict[str, bytes] | None:
    """The wanted files, if all of them lie in the folder or in one folder below."""
    for place in [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]:
        if all((place / name).is_file() for name in wanted):
            return {name: (place / name).read_bytes() for name in wanted}
    return None


def _packed(path: Path, wanted: list[str]) -> dict[str, bytes] | None:
    """The wanted files of an archive, in one pass; None if there is no archive."""
    if not path.exists():
        return None
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if name in wanted else None
                if file is not None:
                    found[name] = file.read()
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} is torn ({error}); fetch it again") from None
    absent = [name for name in wanted if name not in found]
    if absent:
        raise BadInput(f"{path} holds no {absent[0]}; expected the official binary version")
    return found


_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


@dataset(
    "fashion_mnist",
    items=60_000,
    test_items=10_000,
    classes=10,
    licence="MIT",
    source="https://github.com/zalandoresearch/fashion-mnist (Xiao et al. 2017)",
    files="{train,t10k}-images-idx3-ubyte.gz, {train,t10k}-labels-idx1-ubyte.gz",
    archives=(
        Archive(_FASHION + "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        Archive(_FASHION + "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        Archive(_FASHION + "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        Archive(_FASHION + "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    notes="28 x 28 pixels, grey",
)
def _fashion_mnist(folder: Path) -> Parts | None:
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    arrays = _arrays(folder, names)
    if arrays or not (folder / "train-images-idx3-ubyte.gz").exists():
        return arrays
    train, test = (
        (_idx(folder / f"{split}-images-idx3-ubyte.gz", 3), _idx(folder / f"{split}-labels-idx1-ubyte.gz", 1))
        for split in ("train", "t10k")
    )
    return Parts(ArrayPool(train[0]), train[1], ArrayPool(test[0]), test[1], names)


def _idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """An array of bytes in the idx format: two zeros, 8, the number of dimensions, their sizes, the bytes."""
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} is missing or torn ({error}); fetch it again") from None
    start = 4 + 4 * dimensions
    shape = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4")) if len(data) >= start else ()
    if data[:4] != bytes([0, 0, 8, dimensions]) or len(data) - start != np.prod(shape, dtype=np.int64):
        raise BadInput(f"{path} is not an idx file of bytes in {dimensions} dimensions, or is torn; fetch it again")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


_IMAGENET = {
    "licence": "ImageNet's terms of access: non-commercial research and education",
    "files": _FOLDERS,
}


@dataset(
    "imagenet100",
    items=126_689,
    test_items=5_000,
    classes=100,
    source="https://image-net.org, 100 of its classes (Tian et al. 2020)",
    notes="the paper's has 1,300 images in every class, which is another selection; class folders, sorted by name",
    **_IMAGENET,
)
@dataset(
    "mini_imagenet",
    items=50_000,
    test_items=10_000,
    classes=100,
    source="https://image-net.org, 100 of its classes (Vinyals et al. 2016; Ravi and Larochelle 2017)",
    aliases=("mini_imagenet64",),
    notes="100 classes of ImageNet, 500 images each and 100 for the test; not the class list of ImageNet-100",
    **_IMAGENET,
)
def _imagenet(folder: Path, *, size: Any = 64, skip_broken: bool = False) -> Parts | None:
    return _arrays(folder) or _class_folders(folder, size=size, skip_broken=skip_broken)


@dataset(
    "tiny_imagenet",
    items=100_000,
    test_items=10_000,
    classes=200,
    source="http://cs231n.stanford.edu/tiny-imagenet-200.zip (Le and Yang 2015)",
    archives=(Archive("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"),),
    notes="64 x 64 pixels; the test set is the official val, as the official test has no labels",
    licence=_IMAGENET["licence"],
    files="tiny-imagenet-200/ unpacked from tiny-imagenet-200.zip",
)
def _tiny_imagenet(folder: Path, *, size: Any = 64, skip_broken: bool = False) -> Parts | None:
    arrays = _arrays(folder)
    if arrays:
        return arrays
    packed, inside = folder / "tiny-imagenet-200.zip", folder / "tiny-imagenet-200"
    if packed.exists() and not inside.is_dir():
        raise BadInput(f"{packed} is still packed; unpack it: python -m zipfile -e {packed} {folder}")
    base = inside if inside.is_dir() else folder
    found = _class_folders(base, size=size, skip_broken=skip_broken, tests=("val",))
    return found and found._replace(classes=_words(base / "words.txt", found.classes), wnids=found.classes)


def _words(path: Path, classes: list[str]) -> list[str]:
    """WordNet's words for its numbers, where the list is there."""
    if not path.exists():
        return classes
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    words = {row[0]: row[1] for row in rows if len(row) == 2}
    return [words.get(name, name) for name in classes]


@dataset(
    "sst2",
    items=67_349,
    test_items=872,
    classes=2,
    licence="none stated; cite Socher et al. 2013",
    source="https://nlp.stanford.edu/sentiment, as packed for GLUE",
    files="{train,dev}.tsv of GLUE, or SST-2.zip; or {train,test}.json with the lists text and label",
    archives=(Archive("https://dl.fbaipublicfiles.com/glue/data/SST-2.zip", "9f81648d4199384278b86e315dac217c"),),
    notes="texts. GLUE: phrases, its dev is the test set here; the JSON: 6,920 whole sentences, 1,821 for the test",
    arrays=False,
)
def _sst2(folder: Path) -> Parts | None:
    classes = ["negative", "positive"]
    if (folder / "train.json").exists():
        train, test = _texts_json(folder / "train.json"), _texts_json(folder / "test.json")
        named = folder / "classes.json"
        return Parts(*train, *test, [kind.name for kind in read_classes(named)] if named.exists() else classes)
    _unzip_tables(folder)
    places = [place for place in (folder, folder / "SST-2") if (place / "train.tsv").exists()]
    if not places:
        return None
    train, test = (_texts_tsv(places[0] / f"{split}.tsv") for split in ("train", "dev"))
    return Parts(*train, *test, classes)


def _unzip_tables(folder: Path) -> None:
    """The two tables of SST-2.zip, written beside it once."""
    packed = folder / "SST-2.zip"
    if not packed.exists() or (folder / "SST-2" / "dev.tsv").exists():
        return
    try:
        with zipfile.ZipFile(packed) as archive:
            for name in ("SST-2/train.tsv", "SST-2/dev.tsv"):  # dev last: it says that both are there
                archive.extract(name, folder)
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{packed} is torn or not GLUE's ({error}); fetch it again") from None


def _texts_tsv(path: Path) -> tuple[Pool, Labels]:
    pool = read_table(path, text="sentence")
    return pool, read_labels(path, "label", classes=["0", "1"])[0]


def _texts_json(path: Path) -> tuple[Pool, Labels]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        texts, labels = found["text"], found["label"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{path} cannot be read ({error!r}); expected the lists text and label") from None
    if len(texts) != len(labels):
        raise BadInput(f"{path}: {len(texts)} texts and {len(labels)} labels")
    return TextPool(texts), class_labels(labels)
