"""Items from elsewhere, in the shape a model takes: sets of strangers (OOD), and datasets to probe features on.

    svhn10k(size=32)       ROOT/svhn10k with {test,val,all,train}_images.npy or class folders, or a dataset ncalr knows
    folder:PATH(size=32)   class folders, or arrays
    images.npy             strangers: an array of images, uint8
    novel                  strangers: the classes that a dataset like `digits(known=8)` holds out

Images of another size are an error unless `size=` says what to make of them: they are then resized (Pillow, by area).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ncalr.acquire.spec import parse
from ncalr.data.dataset import DATASETS, Dataset, data_root, load
from ncalr.data.pool import ArrayPool, Pool
from ncalr.errors import BadInput, MissingExtra

NOVEL = "novel"
SPLITS = ("test", "val", "all", "train")


class Strangers(NamedTuple):
    """Items, and where they are known their classes."""

    pool: Pool
    labels: Any  # or None
    classes: list[str]


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
        fixed = size is not None and plain in DATASETS and "size" not in DATASETS[plain].options
        found = load(plain if fixed else name, root)
    return replace(found, pool=_fitted(found.pool, name, size, dataset), test=_fitted(found.test, name, size, dataset))


def resized(images: Any, size: int) -> Any:
    """Images (n, h, w, c) of uint8 as (n, size, size, c)."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("resizing images needs Pillow; install it with: pip install 'ncalr[images]'") from None
    if images.ndim != 4 or images.dtype != np.uint8:
        raise BadInput(
            f"only images (n, height, width, channels) of uint8 can be resized, got {images.dtype} {images.shape}"
        )
    made = np.empty((len(images), size, size, images.shape[3]), np.uint8)
    way = Image.Resampling.BOX if size < images.shape[1] else Image.Resampling.BICUBIC
    for at, image in enumerate(images):
        flat = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        made[at] = np.asarray(flat.resize((size, size), way)).reshape(size, size, -1)
    return made


def _fitted(pool: Pool, name: str, size: int | None, dataset: Dataset) -> Pool:
    if size is not None and tuple(pool.shape[:2]) != (size, size):
        pool = ArrayPool(resized(pool.read(slice(None)), size))
    if tuple(pool.shape) != tuple(dataset.pool.shape):
        raise BadInput(
            f"{name!r} has items of shape {tuple(pool.shape)}, the model takes {tuple(dataset.pool.shape)}; "
            f"write {name.partition('(')[0]}(size={dataset.pool.shape[0]}) to have images resized"
        )
    return pool


def _find(name: str, dataset: Dataset, root: Path | str | None) -> tuple[Strangers, int | None]:
    if name == NOVEL:
        return _novel(dataset), None
    if name.startswith("folder:"):
        found = load(name, root)
        return Strangers(found.test, found.test_labels, found.classes), None
    path, size = _sized(name)
    if path.endswith(".npy"):
        return Strangers(ArrayPool(_array(Path(path))), None, []), size
    folder = data_root(root) / path
    for split in SPLITS:
        if (folder / f"{split}_images.npy").exists():
            return _arrays(folder, split), size
    found = examples(name, dataset, root)
    return Strangers(found.test, found.test_labels, found.classes), None


def _novel(dataset: Dataset) -> Strangers:
    if dataset.apart is None or dataset.apart.test is None:
        raise BadInput(
            f"{dataset.name} holds no classes out; run on a dataset with known classes, for instance digits(known=8)"
        )
    return Strangers(dataset.apart.test, None, [])


def _sized(name: str) -> tuple[str, int | None]:
    """The name without its brackets, and the size in them."""
    plain, bracket, inside = name.rpartition("(") if name.endswith(")") else (name, "", "")
    size = parse(f"options{bracket}{inside}").options.get("size")
    return plain, None if size is None else int(size)


def _arrays(folder: Path, split: str) -> Strangers:
    import json

    labels = folder / f"{split}_labels.npy"
    names = folder / "classes.json"
    return Strangers(
        ArrayPool(_array(folder / f"{split}_images.npy")),
        np.load(labels) if labels.exists() else None,
        [str(one) for one in json.loads(names.read_text(encoding="utf-8"))] if names.exists() else [],
    )


def _array(path: Path) -> Any:
    try:
        items = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise BadInput(
            f"cannot read {path} ({error}); expected an array of images, (n, height, width, channels)"
        ) from None
    if not len(items):
        raise BadInput(f"{path} is empty: an OOD set needs at least one item")
    return items[..., None] if items.ndim == 3 else items
