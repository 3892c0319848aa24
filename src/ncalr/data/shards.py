"""A pool in a folder: columns of `.npy` files, some thousand items each, and a JSON manifest.

    write_shards("pool", blocks, ids=names)                        # an array, or an iterator of arrays: column `items`
    write_shards("pool", {"features": f, "logits": l}, dtypes={"features": "float16"})     # several arrays
    append_shards("pool", {"features": more, "logits": of_those})
    put_columns("pool", {"flips": flips, "logits": of_today}, replace=True)     # columns, for the items that are there
    pool = ShardedPool("pool")
    pool.read(np.array([7, 100_000, 7]))      pool["logits"][:10]

The folder holds `features-00000.npy`, ..., `ids-00000.npy` where ids were given (otherwise they are 0..n-1), and
`manifest.json`, which is written last and in one step: a writer that was killed, or found the disk full, leaves the
pool as it was before. Files are never changed, so that readers need no lock; they see the pool as it was when they
opened it. Columns that are put have files of their own, `flips.put1-00000.npy`; those of a column they replace are
removed after the manifest names the new ones, and a reader that comes too late for them is told. One process writes at
a time.

Columns named as evidence (`ncalr.acquire.evidence`) are what `ncalr.query_pool` reads. Every column has one row an
item: `checkpoint_predictions` are (items, checkpoints) here, `sampled_probs` (items, samples, classes).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire import door
from ncalr.acquire.evidence import POOL_AXIS
from ncalr.data.columns import Column, replaced
from ncalr.data.files import Held, held, sync_folder, written_whole
from ncalr.data.manifest import (
    IDS,
    MANIFEST,
    File,
    Kind,
    Manifest,
    Shard,
    check_columns,
    file_of,
    leftovers,
    read_manifest,
)
from ncalr.data.pool import Ids, checked_ids, positions_of
from ncalr.data.received import inside
from ncalr.errors import BadInput, NotFinite, unknown
from ncalr.kernels import is_torch, to_numpy
from ncalr.kernels.checksum import checksum

Array = npt.NDArray[Any]
Block = Mapping[str, Any]
DTYPES = ("float16", "bfloat16", "float32", "float64")
_SHARD_BYTES = 128 << 20
_BLOCK_BYTES = 1 << 20
_BLOCK_ROWS = 16384  # narrow columns are read beside wide ones, a few thousand rows at a time


class ShardedPool:
    """A folder that `write_shards` wrote, as a pool of its first column; see the module's text."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        self.columns = {name: Column(self.folder, name, self.manifest) for name in self.manifest.columns}
        self.main = next(name for name in self.columns if name != IDS)
        self.shape: tuple[int, ...] = self.manifest.columns[self.main].shape
        self.dtype = self.columns[self.main].dtype
        for column in self.columns.values():
            for at in range(len(column.files)):
                column.check_size(at)

    @cached_property
    def ids(self) -> Ids:
        """The id of each item."""
        ids = self.columns[IDS][:] if IDS in self.columns else np.arange(len(self))
        ids.flags.writeable = False
        return ids

    def read(self, positions: npt.NDArray[np.intp] | slice) -> Array:
        """The items at these positions, in this order."""
        return self.columns[self.main][positions]

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise BadInput(f"{self.folder} has no column {name!r}; it has {', '.join(self.columns)}")
        return self.columns[name]

    @property
    def files(self) -> dict[str, str]:
        """The first file of each column, which is another one after the column was replaced."""
        return {name: column.files[0].file for name, column in self.columns.items()}

    def check_files(self, files: Mapping[str, str]) -> None:
        """Raise where these columns have other files than when somebody else opened the pool."""
        now = self.files
        changed = sorted(name for name, file in files.items() if now.get(name) != file)
        if changed:
            raise replaced(self.folder, changed)

    def __len__(self) -> int:
        return self.manifest.rows


def write_shards(
    folder: str | Path,
    blocks: Any,
    ids: Any = None,
    *,
    shard_items: int | None = None,
    dtypes: Mapping[str, str] | None = None,
    made: Mapping[str, dict[str, Any]] | None = None,
) -> ShardedPool:
    """Write a pool into a folder and open it.

    blocks: an array (n, ...), in memory or mapped; several by name; or an iterator of either, of any lengths and one
    kind. Images are uint8 (height, width, channels), vectors floating-point (d,), tokens whole numbers (length,). A
    block may name its `ids`, or all are given at once. `dtypes` says how to store floating-point columns: float16,
    bfloat16 (also from its bits, uint16) or float32. At most one shard is held in memory (`shard_items` items; about
    128 MB if not given). `made` says, by column, what the values depend on (`ncalr.learn.embed.facts`).
    """
    target = Path(folder)
    if (target / MANIFEST).exists():
        raise BadInput(f"{target} already holds a pool; choose another folder, append to it, or remove it first")
    there = target.exists()
    target.mkdir(parents=True, exist_ok=True)
    try:
        with _writing(target):
            _add(target, None, blocks, ids, shard_items, dtypes or {}, made or {})
    except BaseException:
        if not there:
            (target / "lock").unlink(missing_ok=True)
            with suppress(OSError):
                target.rmdir()
        raise
    return ShardedPool(target)


def append_shards(
    folder: str | Path,
    blocks: Any,
    ids: Any = None,
    *,
    shard_items: int | None = None,
    made: Mapping[str, dict[str, Any]] | None = None,
) -> ShardedPool:
    """Add items to a pool: the same columns, new ids where it has ids. The pool is as it was if anything fails.

    What the values depend on (`made`), where it is known of both, must be the same.
    """
    target = Path(folder)
    read_manifest(target)
    with _writing(target):
        old = read_manifest(target)
        _check_made(target, old, made or {})
        _add(target, old, blocks, ids, shard_items, {}, made or {})
    return ShardedPool(target)


def _check_made(folder: Path, old: Manifest, made: Mapping[str, dict[str, Any]]) -> None:
    for column, facts in made.items():
        there = old.made.get(column, facts)
        for name in sorted(facts.keys() | there.keys()):
            if facts.get(name) != there.get(name):
                raise BadInput(
                    f"the {column} of {folder} were made with {name} {there.get(name)}, these with {facts.get(name)}: "
                    "they cannot be compared. Add the items with what made the others, or write a new pool"
                )


def put_columns(
    folder: str | Path,
    columns: Mapping[str, Any],
    ids: Any = None,
    *,
    replace: bool = False,
    drop: Iterable[str] = (),
    dtypes: Mapping[str, str] | None = None,
) -> ShardedPool:
    """Put columns into a pool that is there, and open it.

    columns: arrays by name, in memory or mapped, one row an item in the order of the pool; or in that of `ids`, which
    are all of the pool's ids (then some 50 bytes an item are held in memory, otherwise a few megabytes). Columns that
    the pool has already are written anew with `replace`; those of `drop` are taken out. Numbers are stored as they come
    if `dtypes` does not say otherwise. If anything fails, the pool is as it was; after a kill it is as it was, or as it
    was to be.
    """
    target = Path(folder)
    read_manifest(target)
    with _writing(target):
        old = read_manifest(target)
        out = {drop} if isinstance(drop, str) else set(drop)
        _check_names(target, old, columns, replace, out)
        kinds, ready = _rows_to_put(old, columns, dtypes or {})
        if ids is not None:
            order = _order(target, ids, old.rows)
            ready = {name: rows.at(order) for name, rows in ready.items()}
        for path in leftovers(target, old):
            path.unlink(missing_ok=True)
        _put(target, old, kinds, ready, out)
    return ShardedPool(target)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Hold the folder for writing; a second writer is turned away. The lock dies with the process."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / "lock"))
        except Held:
            raise BadInput(f"another process is writing to {folder}; wait for it") from None
        yield


def _add(
    folder: Path,
    old: Manifest | None,
    blocks: Any,
    ids: Any,
    shard_items: int | None,
    dtypes: Mapping[str, str],
    made_by: Mapping[str, dict[str, Any]],
) -> None:
    """Write the new shards, then the manifest; on any failure remove what was written."""
    made: list[Path] = []
    try:
        columns, shards = _shards(folder, old, blocks, ids, shard_items, dtypes, made)
        old = old or Manifest({}, ())
        Manifest(columns, (*old.shards, *shards), old.puts, old.gone, {**old.made, **made_by}).write(folder)
    except BaseException:
        _undo(folder, made)
        raise


def _undo(folder: Path, made: list[Path]) -> None:
    """Remove what was written. Not where an interruption came so late that the manifest names it already."""
    named = read_manifest(folder).names if (folder / MANIFEST).exists() else set()
    for path in made:
        if path.name not in named:
            path.unlink(missing_ok=True)
    (folder / f"{MANIFEST}.part").unlink(missing_ok=True)


def _put(folder: Path, old: Manifest, kinds: Mapping[str, Kind], ready: Mapping[str, _Later], out: set[str]) -> None:
    """Write the files of the new columns, then the manifest, then remove the files that it no longer names."""
    made: list[Path] = []
    shards: list[Shard] = []
    start = 0
    try:
        for at, shard in enumerate(old.shards):
            files = {name: file for name, file in shard.files.items() if name not in out}
            for name, rows in ready.items():
                path = file_of(folder, name, at, put=old.puts + 1)
                made.append(path)
                files[name] = _save(path, rows.at(slice(start, start + shard.rows)))
            shards.append(Shard(shard.rows, files))
            start += shard.rows
        columns = {name: kind for name, kind in {**old.columns, **kinds}.items() if name not in out}
        gone = old.names - {file.file for shard in shards for file in shard.files.values()}
        made_by = {name: facts for name, facts in old.made.items() if name not in out and name not in ready}
        Manifest(columns, tuple(shards), old.puts + 1, tuple(sorted(gone)), made_by).write(folder)
    except BaseException:
        _undo(folder, made)
        raise
    sync_folder(folder)  # or a power cut could keep the removals and lose the manifest
    for name in gone:
        with suppress(OSError):  # the next put removes it
            inside(folder, name).unlink()


def _check_names(folder: Path, old: Manifest, columns: Mapping[str, Any], replace: bool, out: set[str]) -> None:
    if not columns and not out:
        raise BadInput("nothing to put: give columns by name, such as flips=, or names to drop")
    check_columns(folder, [*old.columns, *columns])
    for name in columns:
        near = difflib.get_close_matches(name.lower(), POOL_AXIS, n=1, cutoff=0.8)
        if name == IDS:
            raise BadInput("the ids of a pool stay as they are; ids= (--ids) says in which order the rows are")
        if near and name not in {*POOL_AXIS, *old.columns}:
            raise BadInput(f"no strategy reads a column {name!r}. Did you mean {near[0]!r}? Nothing was written")
        if name in out:
            raise BadInput(f"{name} is both to be put and to be dropped; one of the two")
        if name in old.columns and not replace:
            raise BadInput(
                f"{folder} has a column {name} already ({old.columns[name]}); say --replace (replace=True) to write it "
                "anew. Nothing was written"
            )
    for name in sorted(out):
        if name == IDS:
            raise BadInput("the ids of a pool cannot be dropped: labels are kept by them")
        if name not in old.columns:
            raise unknown("column", name, old.columns.keys() - {IDS}, f"It was to be dropped from {folder}.")
    if not {*old.columns, *columns} - out - {IDS}:
        raise BadInput(f"a pool has at least one column; {', '.join(sorted(out))} would leave {folder} none")


def _rows_to_put(
    old: Manifest, columns: Mapping[str, Any], dtypes: Mapping[str, str]
) -> tuple[dict[str, Kind], dict[str, _Later]]:
    """What the columns are, and their rows; each is looked at as evidence of its name."""
    strangers = dtypes.keys() - columns.keys()
    if strangers:
        raise BadInput(f"a dtype was given for {', '.join(sorted(strangers))}, the columns are {', '.join(columns)}")
    kinds, ready, seen = {}, {}, {}
    for name, value in columns.items():
        kind, rows = _stored(name, value, 0, _wish(name, {}, dtypes))
        if len(rows) != old.rows:
            turned = "; its second axis has as many: turn it (numpy.moveaxis)" if kind.shape[:1] == (old.rows,) else ""
            raise BadInput(f"{name} has {len(rows)} rows, the pool has {old.rows} items: one row an item{turned}")
        kinds[name], ready[name] = kind, rows
        if name in POOL_AXIS:
            like = np.zeros((), "float32" if kind.dtype == "bfloat16" else kind.dtype)
            whole = np.broadcast_to(like, (len(rows), *kind.shape))
            seen[name] = np.moveaxis(whole, 0, POOL_AXIS[name]) if whole.ndim > POOL_AXIS[name] else whole
    door.check_kinds(seen)
    return kinds, ready


def _order(folder: Path, ids: Any, n: int) -> npt.NDArray[np.intp]:
    """Which of the rows that have these ids belongs to each item of the pool."""
    _, names = _stored(IDS, ids, 0, None)
    if len(names) != n:
        raise BadInput(f"{len(names)} ids were given, the pool has {n} items: give each of its ids once")
    pool = ShardedPool(folder)
    theirs, ours = np.argsort(names), np.argsort(pool.ids)
    if names.dtype.kind != pool.ids.dtype.kind or (names[theirs] != pool.ids[ours]).any():
        positions_of(pool, names)  # says what is wrong with them
    order = np.empty(n, np.intp)
    order[ours] = theirs
    return order


def _shards(
    folder: Path,
    old: Manifest | None,
    blocks: Any,
    ids: Any,
    shard_items: int | None,
    dtypes: Mapping[str, str],
    made: list[Path],
) -> tuple[dict[str, Kind], list[Shard]]:
    if shard_items is not None and shard_items < 1:
        raise BadInput(f"a shard has at least one item, got shard_items={shard_items}")
    columns = dict(old.columns) if old else {}
    ready = _checked(folder, _named(blocks, ids), columns, dtypes)
    shards: list[Shard] = []
    names: list[Array] = []
    for group in _regrouped(ready, shard_items, columns):
        files = {}
        for name, array in group.items():
            path = file_of(folder, name, len(shards) + (len(old.shards) if old else 0))
            made.append(path)
            files[name] = _save(path, array)
        shards.append(Shard(len(next(iter(group.values()))), files))
        if IDS in group:
            names.append(group[IDS])
    if not shards:
        raise BadInput(f"a pool needs at least one item, got no blocks to write into {folder}")
    if names:
        new = checked_ids(np.concatenate(names), sum(shard.rows for shard in shards))
        _check_new(folder, old, new)
    return columns, shards


def _named(blocks: Any, ids: Any) -> Iterator[Block]:
    """The blocks as arrays by name, with their ids."""
    single = isinstance(blocks, np.ndarray | Mapping) or is_torch(blocks)
    names = None if ids is None else np.asarray(ids)
    at = 0
    for given in [blocks] if single else blocks:
        block = dict(given) if isinstance(given, Mapping) else {"items": given}
        if not block.keys() - {IDS}:
            raise BadInput("a block has no column; give arrays by name, such as features=")
        if names is not None:
            if IDS in block:
                raise BadInput("ids were given twice: with the blocks and for all of them")
            n = len(next(iter(block.values())))
            block[IDS] = names[at : at + n] if names.ndim else names
            at += n
        yield block
    if names is not None and (names.ndim != 1 or at != len(names)):
        raise BadInput(f"ids must be {at} whole numbers or texts, got {names.dtype} of shape {names.shape}")


def _checked(
    folder: Path, blocks: Iterable[Block], columns: dict[str, Kind], dtypes: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The blocks that have items, in the form they are stored in, all of one kind. Fills `columns` from the first."""
    for at, given in enumerate(blocks):
        kinds, block = {}, {}
        for name, value in given.items():
            kinds[name], block[name] = _stored(name, value, at, _wish(name, columns, dtypes))
        lengths = {name: len(array) for name, array in block.items()}
        if len(set(lengths.values())) > 1:
            raise BadInput(f"columns of block {at} have different numbers of rows: {lengths}")
        if not columns:
            check_columns(folder, kinds)
            strangers = dtypes.keys() - kinds.keys()
            if strangers:
                raise BadInput(f"a dtype was given for {', '.join(strangers)}, the columns are {', '.join(kinds)}")
            columns.update(kinds)
        if columns.keys() != kinds.keys():
            raise BadInput(
                f"block {at} has the columns {', '.join(sorted(kinds))}; the pool has {', '.join(sorted(columns))}"
            )
        for name, kind in kinds.items():
            if kind != columns[name]:
                raise BadInput(
                    f"block {at} has {name} of {kind.dtype} and shape {kind.shape}, the pool has "
                    f"{columns[name].dtype} and {columns[name].shape}; a column holds items of one kind"
                )
        if next(iter(lengths.values())):
            yield block


def _wish(name: str, columns: Mapping[str, Kind], dtypes: Mapping[str, str]) -> str | None:
    """The precision a floating-point column is to be stored in, if anybody said."""
    wish = columns[name].dtype if name in columns else dtypes.get(name)
    if name in dtypes and wish not in DTYPES:
        raise BadInput(f"columns are stored as {', '.join(DTYPES)}; got {wish!r} for {name}")
    return wish


class _Later:
    """An array that is brought into its stored form a piece at a time, so that a mapped one is never held whole."""

    def __init__(self, array: Any, kind: Kind, name: str, block: int, places: Any = None) -> None:
        self.array, self.kind, self.name, self.block = array, kind, name, block
        self.places = range(len(array)) if places is None else places  # the rows of the array that are meant

    def __len__(self) -> int:
        return len(self.places)

    def at(self, rows: Any) -> _Later:
        """Some of the rows: a slice, or places in any order where all were meant."""
        places = self.places[rows] if isinstance(rows, slice) else rows
        return _Later(self.array, self.kind, self.name, self.block, places)

    def __getitem__(self, rows: slice) -> Array:
        places = self.places[rows]
        wanted = slice(places.start, places.stop) if isinstance(places, range) else places
        part = given = to_numpy(self.array[wanted])
        with np.errstate(over="ignore"):
            if self.kind.dtype != "bfloat16":
                part = part.astype(self.kind.dtype, copy=False)
            elif part.dtype.kind == "f":
                part = _bfloat_bits(part)
        values = part if self.kind.dtype != "bfloat16" else (part.astype(np.uint32) << 16).view(np.float32)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            bad = np.argwhere(~np.isfinite(values))
            row = places[int(bad[0][0])]
            lost = given.dtype.kind == "f" and np.isfinite(given[tuple(bad[0])])
            advice = "choose a wider dtype" if lost else "mend or leave out those items"
            raise NotFinite(
                f"{self.name} to be written as {self.kind.dtype} hold NaN or infinity: {len(bad)} in these "
                f"{len(values):,} rows, the first in row {row}{f' of block {self.block}' if self.block else ''}"
                f"{f' ({given[tuple(bad[0])]:.4g}, beyond {self.kind.dtype})' if lost else ''}; {advice}"
            )
        return np.ascontiguousarray(part)


def _stored(name: str, value: Any, at: int, wish: str | None) -> tuple[Kind, Any]:
    """What a column is, and its rows in the form they are stored in."""
    if np.ma.is_masked(value):
        raise BadInput(f"{name} has {np.ma.getmaskarray(value).sum()} masked values; fill them, or drop those items")
    array = value if isinstance(value, np.ndarray) or is_torch(value) else np.asarray(value)
    dtype = _dtype(array)
    if name == IDS:
        names = to_numpy(array)
        if names.dtype == object and all(isinstance(text, str) for text in names.ravel()):
            names = names.astype(str)
        if names.ndim != 1 or names.dtype.kind not in "iuU":
            raise BadInput(f"ids must be whole numbers or texts, got {names.dtype} of shape {names.shape}")
        return Kind("text" if names.dtype.kind == "U" else "int64", ()), _as_ids(names)
    if name == "items":
        array = _as_items(array, at)
    if array.ndim < 1 or not dtype.startswith(("float", "bfloat", "int", "uint")):
        what = f"{dtype} {tuple(array.shape)}"
        if array.dtype == object or array.dtype.kind in "US":
            what = "texts: if they name the items, say so (--ids, ids=), or leave the column out (--columns, columns=)"
        raise BadInput(f"a column holds numbers, one row an item; {name} of block {at} is {what}")
    if wish in DTYPES and (dtype in DTYPES or (wish == "bfloat16" and dtype == "uint16")):
        dtype = wish
    kind = Kind(dtype, tuple(int(size) for size in array.shape[1:]))
    return kind, _Later(array, kind, "the vectors" if name == "items" else name, at)


def _as_items(array: Any, at: int) -> Any:
    dtype = _dtype(array)
    images = array.ndim in (3, 4) and dtype == "uint8"
    if not images and not (array.ndim == 2 and dtype.startswith(("float", "bfloat", "int", "uint"))):
        raise BadInput(
            "a pool holds images, uint8 (n, height, width[, channels]), vectors, floating-point (n, d), or tokens, "
            f"whole numbers (n, length); block {at} is {array.dtype} of shape {tuple(array.shape)}"
        )
    return array[..., None] if array.ndim == 3 else array


def _dtype(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.") if is_torch(array) else str(array.dtype.name)


def _as_ids(names: Array) -> Array:
    if names.dtype.kind == "u" and len(names) and int(names.max()) > np.iinfo(np.int64).max:
        raise BadInput(f"ids must be below 2^63, got {int(names.max())}")
    return names if names.dtype.kind == "U" else names.astype(np.int64)


def _bfloat_bits(values: Array) -> Array:
    """The nearest bfloat16 of each number, ties to even, as bits."""
    words = values.astype(np.float32).view(np.uint32)
    words = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
    return np.asarray(words >> np.uint32(16), np.uint16)


def _regrouped(
    blocks: Iterable[dict[str, Any]], size: int | None, columns: Mapping[str, Kind]
) -> Iterator[dict[str, Array]]:
    """The same items in groups of this size; the last may be smaller."""
    waiting: list[dict[str, Array]] = []
    held = 0
    for block in blocks:
        size = size or max(1, _SHARD_BYTES // max(_bytes(kind) for kind in columns.values()))
        n = len(next(iter(block.values())))
        start = 0
        while start < n:
            stop = min(start + size - held, n)
            waiting.append({name: array[start:stop] for name, array in block.items()})
            held, start = held + stop - start, stop
            if held == size:
                yield _joined(waiting)
                waiting, held = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _bytes(kind: Kind) -> int:
    size = {"bfloat16": 2, "text": 64}.get(kind.dtype) or np.dtype(kind.dtype).itemsize
    return size * max(prod(kind.shape), 1)


def _save(path: Path, rows: Any) -> File:
    """Write one file from rows that can be sliced, a block at a time; whole or not at all, also after a power cut."""
    first = rows[:1]
    width = max(first.dtype.itemsize * prod(first.shape[1:]), 1)
    block = 64  # a power of two of rows: every block begins at a multiple of 64 bytes
    while block < _BLOCK_ROWS and block * width * 2 <= _BLOCK_BYTES:
        block *= 2
    sums = []
    with written_whole(path) as file:
        facts = {"descr": first.dtype.str, "fortran_order": False, "shape": (len(rows), *first.shape[1:])}
        np.lib.format.write_array_header_1_0(file, facts)
        for start in range(0, len(rows), block):
            piece = rows[start : start + block]
            sums.append(f"{checksum(piece):016x}")
            file.write(piece.data)
    return File(path.name, path.stat().st_size, first.dtype.str, block, tuple(sums))


def _check_new(folder: Path, old: Manifest | None, new: Array) -> None:
    """No id that the pool already has; one shard of ids is held at a time."""
    if old is None:
        return
    column = Column(folder, IDS, old)
    for start, stop in zip(column.starts.tolist(), column.ends.tolist(), strict=True):
        known = column[start:stop]
        twice = known[np.isin(known, new)]
        if len(twice):
            raise BadInput(f"{len(twice)} of the ids are in the pool already, the first is {twice[0].item()!r}")
