"""A set of images in pieces of a given size, for a machine that has no network and takes so much at a time.

    python3 benchmarks/pieces.py cut  ROOT/cifar10 PIECES --megabytes 48     lossless; PIECES/cifar10.0.bin, ...
    python3 benchmarks/pieces.py join PIECES ROOT                            every set whose pieces are all there

A set is a folder of plain arrays as `ncalr.data.load` reads them. Images travel as strips of lossless WebP, about half
of their size, other arrays as they are; the first piece begins with the checksums. Needs NumPy and Pillow alone.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

TALLEST = 16_000  # pixels of a strip: WebP has no more than 16,383


def cut(folder: Path, pieces: Path, most: int) -> list[Path]:
    """Write the pieces of a set, of about so many bytes; an array that is no images is not divided."""
    arrays = {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}
    if not arrays:
        raise SystemExit(f"{folder} holds no arrays (*.npy): see `ncalr.data.load` for what a set is")
    blobs: list[bytes] = []
    index: list[dict[str, Any]] = []
    with ProcessPoolExecutor() as workers:
        for name, array in arrays.items():
            entry = {"name": name, "shape": array.shape, "dtype": str(array.dtype), "sum": _sum(array)}
            entry["webp"] = array.ndim == 4 and array.shape[3] == 3 and array.dtype == np.uint8
            if entry["webp"]:
                many = max(TALLEST // array.shape[1], 1)
                strips = [array[at : at + many] for at in range(0, len(array), many)]
                found = list(workers.map(_strip, strips, chunksize=8))
            else:
                found = [array.tobytes()]
            index.append({**entry, "blobs": len(found)})
            blobs += found
    classes = (folder / "classes.json").read_text()
    head = json.dumps({"set": folder.name, "classes": classes, "arrays": index}).encode()
    groups, size = [[head]], len(head)
    for blob in blobs:
        if size + len(blob) > most:
            groups.append([])
            size = 0
        groups[-1].append(blob)
        size += len(blob)
    pieces.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, group in enumerate(groups):
        facts = json.dumps({"piece": number, "of": len(groups), "lengths": [len(blob) for blob in group]}).encode()
        paths.append(pieces / f"{folder.name}.{number}.bin")
        paths[-1].write_bytes(facts + b"\n" + b"".join(group))
    return paths


def join(pieces: Path, root: Path) -> list[str]:
    """Put the sets together again whose pieces are all there; says which are."""
    done = []
    for first in sorted(pieces.glob("*.0.bin")):
        name = first.name.removesuffix(".0.bin")
        facts, blobs = _read(first)
        parts = [pieces / f"{name}.{number}.bin" for number in range(1, facts["of"])]
        if not all(part.exists() for part in parts):
            print(f"{name}: waits for {sum(not part.exists() for part in parts)} of {facts['of']} pieces")
            continue
        head, *blobs = [*blobs, *(blob for part in parts for blob in _read(part)[1])]
        index = json.loads(head)
        folder = root / index["set"]
        folder.mkdir(parents=True, exist_ok=True)
        stream = iter(blobs)
        for entry in index["arrays"]:
            mine = [next(stream) for _ in range(entry["blobs"])]
            array = _array(mine, entry)
            if _sum(array) != entry["sum"]:
                raise SystemExit(f"{name}: {entry['name']} is not what was cut; bring the pieces again")
            np.save(folder / f"{entry['name']}.npy", array)
        (folder / "classes.json").write_text(index["classes"])
        done.append(index["set"])
        print(f"{name}: {', '.join(entry['name'] for entry in index['arrays'])}")
    return done


def _read(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    data = path.read_bytes()
    at = data.index(b"\n") + 1
    facts = json.loads(data[:at])
    blobs = []
    for length in facts["lengths"]:
        blobs.append(data[at : at + length])
        at += length
    return facts, blobs


def _strip(images: Any) -> bytes:
    out = io.BytesIO()
    n, height, width, channels = images.shape
    strip = Image.fromarray(images.reshape(n * height, width, channels))
    strip.save(out, "WEBP", lossless=True, quality=90, method=5, exact=True)
    return out.getvalue()


def _array(blobs: list[bytes], entry: dict[str, Any]) -> Any:
    if entry["webp"]:
        strips = [np.asarray(Image.open(io.BytesIO(blob)).convert("RGB")) for blob in blobs]
        return np.concatenate(strips).reshape(entry["shape"])
    return np.frombuffer(blobs[0], entry["dtype"]).reshape(entry["shape"])


def _sum(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cut", "join"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=float, default=40.0)
    arguments = parser.parse_args()
    if arguments.what == "cut":
        for path in cut(arguments.source, arguments.target, int(1e6 * arguments.megabytes)):
            print(f"{path} {path.stat().st_size:,} bytes")
    else:
        join(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
