"""A pool of images that lie encoded (PNG, JPEG, ...) in memory or in a table, and are decoded when read.

    pool = EncodedPool([png, jpeg, "photo.webp"], size=64)   # bytes, or the path of a file
    pool = EncodedPool(column)                               # as large as they are; all must have one size

With a size an image is scaled so that it covers it, and cut at the middle. Needs Pillow (the extra `images`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ncalr.data.files import first_bytes
from ncalr.data.images import decoded, image_shape, pillow, readable
from ncalr.data.pool import checked_ids
from ncalr.errors import BadInput


class Cells(Protocol):
    """Images by their position: bytes, a path, or None where there is none. A list is one."""

    def __getitem__(self, at: int, /) -> Any: ...

    def __len__(self) -> int: ...


class EncodedPool:
    """Encoded images as a pool; see the module's text. `name` says what errors call the image at a position."""

    def __init__(
        self,
        images: Cells,
        ids: Any = None,
        *,
        size: int | tuple[int, int] | None = None,
        channels: int = 3,
        workers: int = 4,
        name: Callable[[int], str] = "image {}".format,
    ) -> None:
        if not len(images):
            raise BadInput("a pool needs at least one image, got none")
        self._images, self._name, self.workers = images, name, workers
        self.ids = checked_ids(ids, len(images))
        self.dtype = np.dtype(np.uint8)
        self.shape = image_shape(self._common_size() if size is None else size, channels)

    def read(self, positions: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """The images at these positions, uint8 (n, height, width, channels)."""
        wanted = np.arange(len(self))[positions]
        out = np.empty((len(wanted), *self.shape), np.uint8)
        with ThreadPoolExecutor(self.workers) as threads:
            for place, image in enumerate(threads.map(self._decode, wanted.tolist())):
                out[place] = image
        return out

    def encoded(self, at: int) -> bytes:
        """The image at a position as it lies there, not decoded; nothing where there is none that can be read."""
        image = self._images[at]
        return image if isinstance(image, bytes) else b"" if image is None else first_bytes(Path(image))

    def __len__(self) -> int:
        return len(self._images)

    def _decode(self, at: int) -> npt.NDArray[np.uint8]:
        pixels: npt.NDArray[np.uint8] = self._look(at, lambda file: decoded(file, self.shape))
        return pixels

    def _common_size(self) -> tuple[int, int]:
        """Height and width, which all must have; only the beginning of each image is read for it."""
        with ThreadPoolExecutor(self.workers) as threads:
            sizes = threads.map(lambda at: self._look(at, _size), range(len(self)))
            height, width = first = next(sizes)
            for at, other in enumerate(sizes, 1):
                if other != first:
                    threads.shutdown(cancel_futures=True)
                    raise BadInput(
                        f"{self._name(0)} is an image of {height} x {width} pixels, {self._name(at)} one of "
                        f"{other[0]} x {other[1]}; choose one size for all, for instance size={min(height, width)}"
                    )
        return height, width

    def _look(self, at: int, see: Callable[[Any], Any]) -> Any:
        image = self._images[at]
        if image is None:
            raise BadInput(f"{self._name(at)} has no image; leave it out")
        with readable(image, self._name(at), "mend it or leave it out"):
            return see(io.BytesIO(image) if isinstance(image, bytes) else image)


def _size(source: Any) -> tuple[int, int]:
    with pillow().open(source) as image:
        return int(image.height), int(image.width)
