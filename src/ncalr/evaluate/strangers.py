"""Items from elsewhere, in the shape a model takes: sets of strangers (OOD), and datasets to probe features on.

    svhn10k(size=32)       the folder ROOT/svhn10k, or a dataset ncalr knows
    folder:PATH(size=32)   class folders, arrays, or a dataset of the Hub; for strangers also images alone
    images.npy             strangers: an array of images, uint8
    novel                  strangers: the classes that a dataset like `digits(known=8)` holds out

Strangers are the test items of a dataset, and everything in a folder that is not divided: all images below it, all rows
of its table. Of arrays, {test,val,all,train}_images.npy, the first that is there.

Images of another size are an error unless `size=` says what to make of them: they are then resized (Pillow, by area).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.acquire.spec import Spec, cut, parse
from ncalr.data.catalog import DATASETS, Kind, data_root
from ncalr.data.dataset import Dataset, load
from ncalr.data.folders import images_below, read_classes
from ncalr.data.hub import is_hub
from ncalr.data.images import image_shape, pillow
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.received import read_npy
from ncalr.data.splits import Subset
from ncalr.errors import BadInput, check_known

NOVEL = "novel"
SPLITS = ("test", "val", "all", "train")
FOLDER = "folder:"
SIZE = 64  # of images that come from files, as in a dataset of class folders
Size = tuple[int, int]  # height and width in pixels
UNNAMED = -1
"""The label of an item whose class is not known."""


class Strangers(NamedTuple):
    """Items, and where they are known their classes."""

    pool: Pool
    labels: npt.NDArray[np.int64]
    kinds: list[Kind]

    @classmethod
    def unnamed(cls, pool: Pool) -> Strangers:
        """Items of which nothing is known."""
        return cls(pool, np.full(len(pool), UNNAMED), [])


def strangers(name: str, dataset: Dataset, root: Path | str | None = None) -> Strangers:
    """The items called `name`, in the shape of the dataset's."""
    found, size = _find(name, dataset, root)
    return found._replace(pool=_fitted(found.pool, name, size, dataset))


def examples(name: str, dataset: Dataset, root: Path | str | None = None) -> Dataset:
    """The dataset called `name`, its images in the shape of the other's."""
    plain, size = _sized(name)
    folder = data_root(root) / plain
    if ":" not in plain and plain not in DATASETS and folder.is_dir():
        found = load(f"folder:{folder}{name[len(plain) :]}")
    else:
        if size is not None and plain in DATASETS and "size" not in DATASETS[plain].options:
            others = {option: value for option, value in parse(name).options.items() if option != "size"}
            found = load(str(Spec(plain, others)), root)
        else:
            found = load(name, root)
    return replace(found, pool=_fitted(found.pool, name, size, dataset), test=_fitted(found.test, name, size, dataset))


def resized(images: Any, size: int | tuple[int, int]) -> Any:
    """Images (n, h, w, c) of uint8 with as many pixels a side, or (height, width) pixels."""
    pictures = pillow()
    if images.ndim != 4 or images.dtype != np.uint8:
        raise BadInput(
            f"only images (n, height, width, channels) of uint8 can be resized, got {images.dtype} {images.shape}"
        )
    height, width, _ = image_shape(size, 1)
    made = np.empty((len(images), height, width, images.shape[3]), np.uint8)
    way = pictures.Resampling.BOX if height < images.shape[1] else pictures.Resampling.BICUBIC
    for at, image in enumerate(images):
        flat = pictures.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        made[at] = np.asarray(flat.resize((width, height), way)).reshape(height, width, -1)
    return made


def _fitted(pool: Pool, name: str, size: Size | None, dataset: Dataset) -> Pool:
    if size is not None and tuple(pool.shape[:2]) != size:
        pool = ArrayPool(resized(pool.read(slice(None)), size))
    theirs, ours = tuple(pool.shape), tuple(dataset.pool.shape)
    if theirs != ours:
        images = len(theirs) == len(ours) == 3 and theirs[2] == ours[2]
        advice = (
            f"write {name.partition('(')[0]}(size={ours[0]}) to have images resized" if images else "take another set"
        )
        raise BadInput(f"{name!r} has items of shape {theirs}, the model takes {ours}; {advice}")
    return pool


def _find(name: str, dataset: Dataset, root: Path | str | None) -> tuple[Strangers, Size | None]:
    if name == NOVEL:
        return _novel(dataset), None
    plain, size = _sized(name)
    if plain.endswith(".npy"):
        return Strangers.unnamed(ArrayPool(_array(Path(plain)))), size
    folder = _folder(plain, root)
    if folder is not None:
        for split in SPLITS:
            if (folder / f"{split}_images.npy").exists():
                return _arrays(folder, split), size
        if plain not in DATASETS:
            return _in_folder(folder, name[len(plain) :], dataset), None
    return _tested(examples(name, dataset, root)), None


def _folder(plain: str, root: Path | str | None) -> Path | None:
    """The folder that a name without its brackets means, if there is one."""
    path = plain.removeprefix(FOLDER)
    below_root = [data_root(root) / path] if path == plain else []
    as_it_is = [Path(path).expanduser()] if plain not in DATASETS else []
    return next((place for place in [*below_root, *as_it_is] if place.is_dir()), None)


def _in_folder(folder: Path, options: str, dataset: Dataset) -> Strangers:
    """Everything in a folder; of one that somebody has divided into train and test, the test items."""
    if is_hub(folder) or (folder / "train").is_dir():
        return _undivided(load(f"{FOLDER}{folder}{options}"))
    usual = {"size": SIZE, "channels": dataset.pool.shape[-1], "skip_broken": False}
    chosen = parse(f"options{options}").options
    for option in chosen:
        check_known("option of a folder of images", option, usual)
    pool = images_below(folder, **{**usual, **chosen})
    inside = [name.partition("/")[0] if "/" in name else "" for name in pool.ids.tolist()]
    names = sorted({*inside} - {""})
    number = {name: at for at, name in enumerate(names)} | {"": UNNAMED}
    return Strangers(pool, np.array([number[name] for name in inside]), [Kind(name) for name in names])


def _undivided(found: Dataset) -> Strangers:
    """The test items; all of them where a share was drawn for the test because the folder names none."""
    pool, test = found.pool, found.test
    if not (isinstance(pool, Subset) and isinstance(test, Subset) and pool.pool is test.pool):
        return _tested(found)
    labels = np.empty(len(pool.pool), np.int64)
    labels[pool.positions], labels[test.positions] = found.labels, found.test_labels
    return Strangers(pool.pool, labels, found.kinds)


def _tested(found: Dataset) -> Strangers:
    return Strangers(found.test, found.test_labels, found.kinds)


def _novel(dataset: Dataset) -> Strangers:
    if dataset.apart is None or dataset.apart.test is None:
        raise BadInput(
            f"{dataset.name} holds no classes out; run on a dataset with known classes, for instance digits(known=8)"
        )
    return Strangers.unnamed(dataset.apart.test)


def _sized(name: str) -> tuple[str, Size | None]:
    """The name without its brackets, and the size in them."""
    plain, options = cut(name)
    size = parse(f"options{options}").options.get("size")
    return plain, None if size is None else image_shape(size, 1)[:2]


def _arrays(folder: Path, split: str) -> Strangers:
    pool = ArrayPool(_array(folder / f"{split}_images.npy"))
    labels, names = folder / f"{split}_labels.npy", folder / "classes.json"
    if not (labels.exists() and names.exists()):
        return Strangers.unnamed(pool)
    found = np.asarray(read_npy(labels))
    if len(found) != len(pool):
        raise BadInput(f"{folder}: {len(pool)} {split} images and {len(found)} labels; save one label an image")
    return Strangers(pool, found, read_classes(names))


def _array(path: Path) -> Any:
    items = read_npy(path, "expected an array of images, (n, height, width, channels)")
    if not items.ndim or not len(items):
        raise BadInput(f"{path} is empty: an OOD set needs at least one item")
    return items[..., None] if items.ndim == 3 else items
