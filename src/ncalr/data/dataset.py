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

Nothing is ever unpickled. `data.fetch.download` fetches the official files whose checksums are published. A named
set of one's own is a function that takes the folder and returns `Parts`, or None if nothing is there, under the
decorator `data.catalog.dataset`; those that ship with ncalr are in `data.named`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.acquire.spec import Spec, cut, parse
from ncalr.data import named  # noqa: F401 (fills the catalogue)
from ncalr.data.catalog import Entry, Kind, Labels, data_root, entry_of, folder_of, how_to_get, is_known
from ncalr.data.folders import FOLDER, HUB, TABLE
from ncalr.data.hub import is_hub
from ncalr.data.pool import Pool
from ncalr.data.splits import class_labels
from ncalr.data.tables import TABLES, endings
from ncalr.data.views import VIEWS, Apart, part, view_of
from ncalr.errors import BadInput, check_known

ARRAYS = "train_images.npy, train_labels.npy, test_images.npy and test_labels.npy"


@dataclass(frozen=True)
class Facts:
    """What a report says about where its data comes from."""

    licence: str
    source: str
    notes: str = ""


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


def load(name: str, root: str | Path | None = None, **options: Any) -> Dataset:
    """The dataset of this name, from ROOT/NAME; options in brackets, `imagenet100(size=96)`, or as arguments."""
    known, inside, written = _read_name(name)
    if inside is not None and not inside.is_dir() and not (_is_table(inside) and inside.is_file()):
        if inside.exists():
            raise BadInput(
                f"{inside} is a file that no dataset is read from; expected a folder, or a table, which ends in "
                f"{endings(inside)}. Arrays: save them as {ARRAYS} (images; or vectors, for network mlp or linear) and "
                "give their folder; in Python, ncalr.run takes a ncalr.data.Dataset of ArrayPools too"
            )
        raise BadInput(
            f"no {'table' if _is_table(inside) else 'folder'} {inside.absolute()}; look at how it is written, or give "
            "the path where the data lie now"
        )
    entry = entry_of(known) if inside is None else _folder_kind(inside)
    chosen = {**written, **options}
    for option in chosen:
        check_known(f"option of the dataset {entry.name}", option, entry.options | VIEWS)
    view = {option: chosen.pop(option) for option in VIEWS if option in chosen}
    folder = inside if inside is not None else folder_of(entry, data_root(root))
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
    if not before and "/" not in path and (is_known(path) or not (Path(path).exists() or _is_table(Path(path)))):
        return None
    return before, path, options


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in TABLES and not path.is_dir()


def _folder_kind(folder: Path) -> Entry:
    if _is_table(folder):
        return TABLE
    return HUB if not (folder / "train_images.npy").exists() and is_hub(folder) else FOLDER


def _missing(entry: Entry, folder: Path, root: Path) -> str:
    """Where it was looked for, what was expected there, how to get it."""
    arrays = "{train,test or val}_{images,labels}.npy and classes.json" if entry.arrays else ""
    expected = "; or ".join(part for part in (arrays, entry.files) if part)
    what = "a dataset" if entry is FOLDER else entry.name
    absent = "" if entry is FOLDER or root.is_dir() else f" (there is no folder {root}: give the root that there is)"
    text = f"{what} is not in {folder}{absent}; expected there: {expected}. "
    if entry is FOLDER:
        return text.strip()
    urls = f" ({', '.join(archive.url for archive in entry.archives)})" if entry.archives else ""
    return f"{text}{how_to_get(entry, root)}{urls}. Another place: the argument root, or NCALR_DATA"
