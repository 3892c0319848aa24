"""A set of images in pieces of a given size, for a machine that has no network and takes so much at a time.

    python3 benchmarks/pieces.py cut  ROOT/cifar10 PIECES --megabytes 48     lossless; PIECES/cifar10.0.bin, ...
    python3 benchmarks/pieces.py join PIECES ROOT                            every set whose pieces are all there
    python3 benchmarks/pieces.py share ROOT build/slice NAME...              packed sets, in folders that travel singly

A set is a folder of plain arrays as `ncalr.data.load` reads them. Images travel as strips of lossless WebP, about half
of their size, other arrays as they are; the first piece begins with the checksums. A set that is packed already, images
encoded one behind the other, travels as it is: PIECES/NAME with images.part0.bin and more, classes.json and index.npz
(`length` of each encoded image or strip in bytes, `images_per_blob`, and `labels`, `split` and `size` of the images).
A set appears in ROOT when it is whole, and stays as it is then. Needs NumPy and Pillow alone.

`share` fills build/slice/1, build/slice/2 and so on with packed sets, in the order in which they are named: each folder
as large as may travel beside the repository as it is now (`LIMIT`), or as `--megabytes` says.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

LIMIT = 64 << 20  # bytes of a tree that travels
MARGIN = 2 << 20  # of them are left for what is written meanwhile
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
    """Put the sets together again whose pieces are all there, and that are not there yet; says which those are."""
    done = [name for name in _packed(pieces) if not (root / name).exists() and _unpack(pieces / name, root)]
    for first in sorted(pieces.glob("*.0.bin")):
        name = first.name.removesuffix(".0.bin")
        facts, blobs = _read(first)
        if (root / name).exists():
            continue
        parts = [pieces / f"{name}.{number}.bin" for number in range(1, facts["of"])]
        if not all(part.exists() for part in parts):
            print(f"{name}: waits for {sum(not part.exists() for part in parts)} of {facts['of']} pieces")
            continue
        head, *blobs = [*blobs, *(blob for part in parts for blob in _read(part)[1])]
        index = json.loads(head)
        stream = iter(blobs)
        arrays = {}
        for entry in index["arrays"]:
            arrays[entry["name"]] = _array([next(stream) for _ in range(entry["blobs"])], entry)
            if _sum(arrays[entry["name"]]) != entry["sum"]:
                raise SystemExit(f"{name}: {entry['name']} is not what was cut; bring the pieces again")
        _write(root / name, arrays, index["classes"])
        done.append(name)
    return done


def share(root: Path, target: Path, names: list[str], most: int) -> list[Path]:
    """Packed sets in folders of at most so many bytes, the first named in the first of them."""
    if missing := [name for name in names if not (root / name / "index.npz").exists()]:
        raise SystemExit(f"{root} holds no packed set {', '.join(missing)}: a folder with index.npz")
    if target.exists():
        raise SystemExit(f"{target} is there already; remove it, or name another folder")
    used, number = most, 0
    for name in names:
        blobs = b"".join(part.read_bytes() for part in _parts(root / name))
        small = [root / name / "index.npz", root / name / "classes.json"]
        least, at, part = sum(path.stat().st_size for path in small) + 1, 0, 0
        while at < len(blobs):
            if most - used < least:
                used, number = 0, number + 1
            folder = target / str(number) / name
            folder.mkdir(parents=True)
            for path in small:
                shutil.copy(path, folder)
                used += path.stat().st_size
            piece = blobs[at : at + most - used]
            (folder / f"images.part{part}.bin").write_bytes(piece)
            used, at, part, small, least = used + len(piece), at + len(piece), part + 1, [], 1
    return [target / str(number) for number in range(1, number + 1)]


def room(tree: Path) -> int:
    """How much may travel beside what git has of this tree, or would take."""
    listed = ["git", "-C", str(tree), "ls-files", "-zco", "--exclude-standard"]
    paths = [tree / name for name in subprocess.check_output(listed, text=True).split("\0") if name]
    found = LIMIT - MARGIN - sum(path.stat().st_size for path in paths if path.is_file())
    if found <= 0:
        raise SystemExit(f"{tree} is larger than {LIMIT - MARGIN:,} bytes: nothing can travel beside it")
    return found


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("images.part*.bin"), key=lambda path: int(path.stem.removeprefix("images.part")))


def _packed(pieces: Path) -> list[str]:
    return sorted(path.parent.name for path in pieces.glob("*/index.npz"))


def _unpack(folder: Path, root: Path) -> bool:
    """Arrays of a packed set, decoded by all cores; nothing where parts are missing."""
    index = np.load(folder / "index.npz")
    parts = _parts(folder)
    lengths, counts = index["length"], index["images_per_blob"]
    there = sum(part.stat().st_size for part in parts)
    if there != lengths.sum() or not (folder / "classes.json").exists():
        print(f"{folder.name}: waits for {lengths.sum() - there:,} of {lengths.sum():,} bytes")
        return False
    data = b"".join(part.read_bytes() for part in parts)
    ends = np.cumsum(lengths)
    shares = np.array_split(np.arange(len(lengths)), 64)
    rows = [[data[ends[at] - lengths[at] : ends[at]] for at in share] for share in shares]
    with ProcessPoolExecutor() as workers:
        images = np.concatenate(list(workers.map(_decoded, rows, [tuple(map(int, index["size"]))] * len(rows))))
    if len(images) != counts.sum() or len(images) != len(index["labels"]):
        raise SystemExit(f"{folder.name}: {len(images)} images, {len(index['labels'])} expected; bring it again")
    arrays = {}
    for split in dict.fromkeys(index["split"].tolist()):
        mine = index["split"] == split
        arrays |= {f"{split}_images": images[mine], f"{split}_labels": index["labels"][mine]}
    _write(root / folder.name, arrays, (folder / "classes.json").read_text())
    return True


def _decoded(blobs: list[bytes], size: tuple[int, int]) -> Any:
    strips = [np.asarray(Image.open(io.BytesIO(blob)).convert("RGB")).reshape(-1, *size, 3) for blob in blobs]
    return np.concatenate([np.zeros((0, *size, 3), np.uint8), *strips])


def _write(folder: Path, arrays: dict[str, Any], classes: str) -> None:
    """A set, which appears whole: somebody may be waiting for it."""
    half = folder.with_name(f".{folder.name}.half")
    half.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(half / f"{name}.npy", array)
    (half / "classes.json").write_text(classes)
    half.rename(folder)
    print(f"{folder.name}: {', '.join(arrays)}", flush=True)


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
    parser.add_argument("what", choices=["cut", "join", "share"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--megabytes", type=float, help="of a piece (40) or of what is shared out (what may travel)")
    arguments = parser.parse_args()
    most = None if arguments.megabytes is None else int(1e6 * arguments.megabytes)
    if arguments.what == "cut":
        for path in cut(arguments.source, arguments.target, most or 40_000_000):
            print(f"{path} {path.stat().st_size:,} bytes")
    elif arguments.what == "share":
        for folder in share(arguments.source, arguments.target, arguments.names, most or room(Path.cwd())):
            print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    else:
        join(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
