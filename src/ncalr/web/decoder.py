"""The one place where bytes from outside become pixels: a process of its own, small, limited, easily killed.

Started by `ncalr.web.child`, it reads requests from its standard input and answers on its standard output:
four bytes of length and the message, no pickle. An image comes out as fresh pixels in a fresh file: what was hidden in
the old one (scripts, metadata, a second file behind the first) is gone.
"""

from __future__ import annotations

import io
import struct
import sys
import warnings
from typing import IO, Any

from ncalr.pixels import FORMATS, in_eight_bits, pages_of

PIXELS = 64_000_000
MEMORY = 2 * 2**30
VERSION = 2  # of how a picture comes out; what an older one made is made again
SMALL = 512  # up to here pixels are kept as they are, in PNG; above, JPEG where nothing is transparent


class TooManyPixels(Exception):
    """More than can be shown."""


def reencode(content: bytes, size: int) -> tuple[str, bytes]:
    """The first frame of an image, upright, at most `size` pixels wide and high: its type and its bytes.

    Of several pages (TIFF) the type says how many there are: `image/png;pages=12`.
    """
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(io.BytesIO(content), formats=FORMATS) as file:
            if file.width * file.height > PIXELS:
                raise TooManyPixels
            pages = pages_of(file)
            file.draft("RGB", (size, size))  # a JPEG is decoded no larger than needed
            image: Any = ImageOps.exif_transpose(file)
            image.load()
    image = in_eight_bits(image)
    more = f";pages={pages}" if pages > 1 else ""
    clear = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image = image.convert("RGBA" if clear else "L" if image.mode in ("1", "L") else "RGB")
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    image = Image.frombytes(image.mode, image.size, image.tobytes())  # the pixels alone: comments would travel along
    out = io.BytesIO()
    if clear or max(image.size) <= SMALL:
        image.save(out, "PNG")
        return "image/png" + more, out.getvalue()
    image.save(out, "JPEG", quality=90)
    return "image/jpeg" + more, out.getvalue()


def thumbnail(content: bytes, size: int) -> Any:
    """The middle of an image as pixels (size, size, 3), for a model to read."""
    import numpy as np
    from PIL import Image, ImageOps

    _, fresh = reencode(content, 4 * size)
    with Image.open(io.BytesIO(fresh), formats=("PNG", "JPEG")) as file:
        return np.asarray(ImageOps.fit(file.convert("RGB"), (size, size), Image.Resampling.BILINEAR), np.uint8)


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Answer requests until the source ends."""
    while (request := read_message(source)) is not None:
        (size,) = struct.unpack(">I", request[:4])
        try:
            kind, content = reencode(request[4:], size)
            write_message(target, kind.encode() + b"\n" + content)
        except Exception as error:  # whatever a decoder throws, the image cannot be shown
            write_message(target, b"error\n" + reason(error).encode()[:500])


def reason(error: Exception) -> str:
    """Why a picture cannot be shown, for people."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return f"it is not one of {', '.join(FORMATS)}, whatever its name says"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning | TooManyPixels):
        return f"it has more than {PIXELS:,} pixels"
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    return "it is damaged or cut short"


def read_message(source: IO[bytes]) -> bytes | None:
    """A message, or None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    (length,) = struct.unpack(">I", head)
    body = source.read(length)
    return body if len(body) == length else None


def write_message(target: IO[bytes], body: bytes) -> None:
    """A message."""
    target.write(struct.pack(">I", len(body)) + body)
    target.flush()


def main() -> None:
    """Serve on standard input and output, with a limit on memory."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer)
