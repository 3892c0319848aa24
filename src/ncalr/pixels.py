"""Image files as Pillow opens them: which are read, their pages, and pixels of more than eight bits.

Light on purpose: the process that decodes pictures for the labelling page (`ncalr.web.decoder`) loads little else.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
HEIC = (".heic", ".heif")


def about_heic(endings: Iterable[str]) -> str:
    """What to do about files of these endings where HEIC is among them; Pillow reads it with another package only."""
    if not any(ending.lower() in HEIC for ending in endings):
        return ""
    return "HEIC is not read: save such pictures as JPEG or PNG first, for instance by mogrify -format jpg *.heic"


def pages_of(file: Any) -> int:
    """How many pages an open TIFF has; 1 for all else, and where what comes after the first page is damaged."""
    if file.format != "TIFF":
        return 1
    try:
        return int(file.n_frames)
    except Exception:  # whatever a decoder throws
        return 1
    finally:
        file.seek(0)


def in_eight_bits(image: Any) -> Any:
    """A picture of one wide number a pixel (16 bits and more, or fractions): its own range, from black to white.

    Cut off at 255, as a plain conversion does it, nearly all of such a picture is white.
    """
    if image.mode not in ("I", "F") and not image.mode.startswith("I;16"):
        return image
    wide = image.convert("I") if image.mode.startswith("I;16") else image
    low, high = wide.getextrema()
    if not (isfinite(low) and isfinite(high)):
        raise ValueError("it has pixels that are NaN or infinite")
    if low == high:  # one value everywhere: where it lies within 16 bits
        low, high = 0, max(high, 65535)
    scale = 255 / (high - low)
    return wide.convert("F").point(lambda value: value * scale + (0.5 - low * scale)).convert("L")
