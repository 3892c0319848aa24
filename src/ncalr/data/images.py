"""A pool of image files: decoded when read, brought to one size, named by their paths.

    pool = ImagePool("photos", size=64)                    # every image below the folder; ids are relative paths
    pool = ImagePool(paths, size=(96, 128), channels=1)    # a list of files, grey
    pool = ImagePool("photos", size=64, skip_broken=True)  # looks at every file first; `pool.skipped` names the rest

An image is scaled so that it covers the size, and cut at the middle. Of a TIFF with several pages the first is read
(a warning says so), and a grey image of 16 bits is read from its own darkest to its own lightest value. Needs Pillow
(the extra `images`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, NcalrError, Note
from ncalr.extras import load
from ncalr.pixels import ENDINGS, about_heic, in_eight_bits


class ImagePool:
    """Image files as a pool; see the module's text."""

    def __init__(
        self,
        source: str | Path | Sequence[str | Path],
        *,
        size: int | tuple[int, int],
        channels: int = 3,
        skip_broken: bool = False,
        workers: int = 4,
        advice: str = "skip_broken=True",
    ) -> None:
        """`advice` is how errors say that broken files can be left out: what can be written where the pool is made."""
        self.shape = image_shape(size, channels)
        self.dtype = np.dtype(np.uint8)
        self.workers, self.advice = workers, advice
        names, self.paths = _files(source)
        self.skipped: list[str] = []
        if skip_broken:
            with ThreadPoolExecutor(workers) as threads:
                whole = list(threads.map(self._is_whole, self.paths))
            self.skipped = [name for name, good in zip(names, whole, strict=True) if not good]
            names = [name for name, good in zip(names, whole, strict=True) if good]
            self.paths = [path for path, good in zip(self.paths, whole, strict=True) if good]
            if not names:
                raise BadInput(
                    f"none of the {len(whole)} files could be read as an image, the first is {self.skipped[0]}"
                )
        self.ids = np.array(names)

    def read(self, positions: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """The images at these positions, uint8 (n, height, width, channels)."""
        wanted = np.arange(len(self))[positions]
        out = np.empty((len(wanted), *self.shape), np.uint8)
        with ThreadPoolExecutor(self.workers) as threads:
            for at, image in enumerate(threads.map(self._decode, [self.paths[i] for i in wanted])):
                out[at] = image
        return out

    def __len__(self) -> int:
        return len(self.paths)

    def _decode(self, path: Path) -> npt.NDArray[np.uint8]:
        advice = f"mend or remove it, or leave out such files: {self.advice}"
        with readable(path, path, advice):
            return decoded(path, self.shape)

    def _is_whole(self, path: Path) -> bool:
        try:
            self._decode(path)
        except BadInput:
            return False
        return True


def image_shape(size: int | tuple[int, int], channels: int) -> tuple[int, int, int]:
    """The shape of one image, after looking at what was asked for."""
    if channels not in (1, 3):
        raise BadInput(f"channels must be 1 (grey) or 3 (colour), got {channels!r}")
    try:
        height, width = (index(side) for side in ((size, size) if isinstance(size, int) else size))
    except (TypeError, ValueError):
        height = width = 0
    if min(height, width) < 1:
        raise BadInput(f"size must be pixels, or (height, width), got {size!r}")
    return height, width, channels


def decoded(source: Any, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """The image in a file, by its path or open: scaled so that it covers the shape, and cut at the middle."""
    images = pillow()
    height, width, channels = shape
    with images.open(source) as file:
        if file.format == "TIFF" and getattr(file, "is_animated", False):  # counting the pages would read them all
            warnings.warn("there are image files of several pages (TIFF): their first page is read", Note, stacklevel=2)
        image = in_eight_bits(file).convert("RGB" if channels == 3 else "L")
        scale = max(height / image.height, width / image.width)
        larger = (max(round(image.width * scale), width), max(round(image.height * scale), height))
        image = image.resize(larger, images.Resampling.BILINEAR)
        left, top = (larger[0] - width) // 2, (larger[1] - height) // 2
        pixels = np.asarray(image.crop((left, top, left + width, top + height)), np.uint8)
    return pixels.reshape(shape)


@contextmanager
def readable(source: Any, name: Path | str, advice: str) -> Iterator[None]:
    """Turn every error of a decoder, or its refusal of an image with far too many pixels, into `BadInput`."""
    try:
        yield
    except (Note, NcalrError):
        raise
    except Exception as error:  # a decoder raises what it likes
        raise BadInput(f"{name} cannot be read as an image ({why(error, source)}); {advice}") from None


def why(error: Exception, source: Any) -> str:
    """Why an image cannot be read: what Pillow says, without the object that bytes were put into; a word on HEIC."""
    named = about_heic([Path(source).suffix] if isinstance(source, str | Path) else [])
    return "; ".join(filter(None, [str(error).partition(" <_io")[0], named]))


def pillow() -> Any:
    """Pillow's images, or the line that installs them."""
    return load("PIL.Image", "images", "reading images")


def _files(source: str | Path | Sequence[str | Path]) -> tuple[list[str], list[Path]]:
    """Names and paths of the image files."""
    if isinstance(source, str | Path):
        root = Path(source)
        if not root.is_dir():
            raise BadInput(f"{root} is not a folder; give a folder of images or a list of files")
        paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in ENDINGS)
        if not paths:
            heic = about_heic({path.suffix for path in root.rglob("*")})
            besides = f". {heic}" if heic else ""
            raise BadInput(f"no images below {root}; looked for {', '.join(ENDINGS)}{besides}")
        return [path.relative_to(root).as_posix() for path in paths], paths
    paths = [Path(path) for path in source]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise BadInput(f"{len(missing)} of {len(paths)} image files do not exist, the first is {missing[0]}")
    names = [path.as_posix() for path in paths]
    if not names or len(set(names)) < len(names):
        raise BadInput("a pool needs at least one image file, and each of them once")
    return names, paths
