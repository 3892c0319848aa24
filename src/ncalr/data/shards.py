"""A pool in a folder: `.npy` files of some thousand items each and a JSON manifest; read where it lies, never whole.

    write_shards("pool", blocks, ids=names)        # blocks: one array, or any iterator of arrays
    pool = ShardedPool("pool")
    pool.read(np.array([7, 100_000, 7]))

The folder holds `shard-00000.npy`, ..., `ids.npy` where ids were given (otherwise they are 0..n-1), and
`manifest.json`, which is written last: without it the folder is no pool, so a writer that was killed leaves nothing
that looks whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ncalr.data.pool import Ids
from ncalr.errors import BadInput, NotFinite

MANIFEST = "manifest.json"
FORMAT = "ncalr shards 1"
Array = npt.NDArray[Any]


class ShardedPool:
    """A folder that `write_shards` wrote, as a pool; see the module's text."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        facts = _manifest(self.folder)
        self.shape: tuple[int, ...] = tuple(facts["shape"])
        self.dtype = np.dtype(facts["dtype"])
        self._files = [self.folder / shard["file"] for shard in facts["shards"]]
        self._ends = np.cumsum([shard["items"] for shard in facts["shards"]])
        self._open: dict[int, Array] = {}
        for path, shard in zip(self._files, facts["shards"], strict=True):
            _check_size(path, shard["bytes"])
        self.ids = self._read_ids(facts["ids"])

    def read(self, positions: npt.NDArray[np.intp] | slice) -> Array:
        """The items at these positions, in this order; each shard is gone through once, from its start to its end."""
        wanted = _places(positions, len(self))
        order = np.argsort(wanted, kind="stable")
        rising = wanted[order]
        cuts = np.searchsorted(rising, self._ends)
        out = np.empty((len(wanted), *self.shape), self.dtype)
        begin = 0
        for at in np.unique(np.searchsorted(self._ends, rising, side="right")):
            first = self._ends[at - 1] if at else 0
            out[order[begin : cuts[at]]] = self._shard(int(at))[rising[begin : cuts[at]] - first]
            begin = cuts[at]
        return out

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _shard(self, at: int) -> Array:
        if at not in self._open:
            items = int(self._ends[at] - (self._ends[at - 1] if at else 0))
            self._open[at] = _mapped(self._files[at], self.dtype, (items, *self.shape))
        return self._open[at]

    def _read_ids(self, file: str | None) -> Ids:
        n = len(self)
        ids = np.arange(n) if file is None else np.array(_mapped(self.folder / file, None, (n,)))
        ids.flags.writeable = False
        return ids


def write_shards(
    folder: str | Path, blocks: Array | Iterable[Any], ids: Any = None, *, shard_items: int = 4096
) -> ShardedPool:
    """Write a pool into a folder and open it.

    blocks: one array (n, ...), in memory or mapped, or an iterator of arrays (b, ...) of any lengths and one kind.
    Images are uint8 (height, width, channels), vectors floating-point (d,), tokens whole numbers (length,). At most one
    shard is held in memory.
    """
    target = Path(folder)
    if shard_items < 1:
        raise BadInput(f"a shard has at least one item, got shard_items={shard_items}")
    if (target / MANIFEST).exists():
        raise BadInput(f"{target} already holds a pool; choose another folder, or remove it first")
    target.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"format": FORMAT, "shards": [], "ids": None}
    for at, shard in enumerate(_regrouped(_checked(blocks), shard_items)):
        path = target / f"shard-{at:05d}.npy"
        _save(path, shard)
        facts |= {"dtype": shard.dtype.str, "shape": list(shard.shape[1:])}
        facts["shards"].append({"file": path.name, "items": len(shard), "bytes": path.stat().st_size})
    n = sum(shard["items"] for shard in facts["shards"])
    if not n:
        raise BadInput(f"a pool needs at least one item, got no blocks to write into {target}")
    if ids is not None:
        names = checked_ids(ids, n)
        _save(target / "ids.npy", names)
        facts["ids"] = "ids.npy"
    _write(target / MANIFEST, lambda file: file.write(json.dumps(facts, indent=1).encode()))
    return ShardedPool(target)


def checked_ids(ids: Any, n: int) -> Ids:
    """Ids for n items: whole numbers or texts, each once; 0..n-1 where none are given. They cannot be written to."""
    names = np.arange(n) if ids is None else np.array(ids)
    if names.shape != (n,) or names.dtype.kind not in "iuU":
        raise BadInput(f"ids must be {n} whole numbers or texts, got {names.dtype} of shape {names.shape}")
    values, counts = np.unique(names, return_counts=True)
    if len(values) < n:
        raise BadInput(f"ids must not repeat; the first that does is {values[counts > 1][0].item()!r}")
    names.flags.writeable = False
    return names


def _checked(blocks: Array | Iterable[Any]) -> Iterator[Array]:
    """The blocks that have items, all of one kind and shape, and finite."""
    kind: tuple[np.dtype[Any], tuple[int, ...]] | None = None
    for at, given in enumerate([blocks] if isinstance(blocks, np.ndarray) else blocks):
        block = given if isinstance(given, np.ndarray) else np.asarray(given)
        images = block.ndim in (3, 4) and block.dtype == np.uint8
        if not images and not (block.ndim == 2 and block.dtype.kind in "fiu"):
            raise BadInput(
                "a pool holds images, uint8 (n, height, width[, channels]), vectors, floating-point (n, d), or tokens, "
                f"whole numbers (n, length); block {at} is {block.dtype} of shape {block.shape}"
            )
        block = block[..., None] if block.ndim == 3 else block
        kind = kind or (block.dtype, block.shape[1:])
        if (block.dtype, block.shape[1:]) != kind:
            raise BadInput(
                f"block {at} has items of {block.dtype} and shape {block.shape[1:]}, "
                f"those before it {kind[0]} and {kind[1]}; a pool holds items of one kind"
            )
        if len(block):
            yield block


def _regrouped(blocks: Iterable[Array], size: int) -> Iterator[Array]:
    """The same items in blocks of this size; the last may be smaller."""
    waiting: list[Array] = []
    held = 0
    for block in blocks:
        start = 0
        while start < len(block):
            piece = block[start : start + size - held]
            waiting.append(piece)
            held, start = held + len(piece), start + len(piece)
            if held == size:
                yield _joined(waiting)
                waiting, held = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Array]) -> Array:
    shard = np.concatenate(pieces)
    if shard.dtype.kind == "f" and not np.isfinite(shard).all():
        raise NotFinite("the vectors to be written hold NaN or infinity; mend or leave out those items")
    return shard


def _save(path: Path, array: Array) -> None:
    _write(path, lambda file: np.save(file, array, allow_pickle=False))


def _write(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(
            f"{folder} has no {MANIFEST}: it is not a folder of shards, or its writing was not finished; "
            "write it again with write_shards"
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); write the pool again with write_shards") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise BadInput(f"{path} is not a manifest of the format {FORMAT!r}")
    missing = {"dtype", "shape", "shards", "ids"} - facts.keys()
    if missing or not facts["shards"]:
        raise BadInput(f"{path} lacks {', '.join(sorted(missing)) or 'shards'}; write the pool again with write_shards")
    return facts


def _check_size(path: Path, expected: int) -> None:
    if not path.is_file():
        raise BadInput(f"the shard {path} is missing; bring it back, or write the pool again")
    found = path.stat().st_size
    if found != expected:
        raise BadInput(f"the shard {path} is torn: it has {found} bytes, {expected} were written; bring it back")


def _mapped(path: Path, dtype: np.dtype[Any] | None, shape: tuple[int, ...]) -> Array:
    """The array in a file, memory-mapped, after a look at its kind and shape."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(
            f"the shard {path} is missing or torn ({error}); bring it back, or write the pool again"
        ) from None
    if array.shape != shape or dtype not in (None, array.dtype):
        raise BadInput(
            f"the shard {path} holds {array.dtype} of shape {array.shape}, "
            f"the manifest says {dtype or 'ids'} of shape {shape}"
        )
    return np.asarray(array)


def _places(positions: npt.NDArray[np.intp] | slice, n: int) -> npt.NDArray[np.intp]:
    """Positions as NumPy understands them, counted from the start."""
    if isinstance(positions, slice):
        return np.arange(*positions.indices(n))
    places = np.asarray(positions)
    if not places.size:
        return np.empty(0, np.intp)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise BadInput(f"positions must be a list of whole numbers or a slice, got {places.dtype} {places.shape}")
    if places.min() < -n or places.max() >= n:
        raise IndexError(f"positions {places.min()}..{places.max()} are not all in a pool of {n} items")
    return np.where(places < 0, places + n, places).astype(np.intp)
