"""Columns from files of other kinds, and a pool as Parquet.

    write_shards("pool", read_columns("table.parquet", ids="name", rename={"embedding": "features"}))
    write_shards("pool", read_columns("arrays.npz"))        also .npy, .safetensors, .arrow, .feather
    to_parquet("pool", "pool.parquet")

Tables are read a batch at a time, and arrays where they lie, so that files larger than the memory do. A column of lists
of equal lengths becomes a matrix. Parquet and Arrow need pyarrow (the extra `parquet`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import POOL_AXIS, SHAPES
from ncalr.data.columns import stream
from ncalr.data.files import written_whole
from ncalr.data.manifest import IDS
from ncalr.data.shards import ShardedPool
from ncalr.errors import BadInput
from ncalr.extras import load

Array = npt.NDArray[Any]
SUFFIXES = (".parquet", ".arrow", ".feather", ".npy", ".npz", ".safetensors")
_ROWS = 16384
_SAFE = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
}


def read_columns(
    path: str | Path,
    *,
    ids: str | None = None,
    rename: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The columns of a file, block after block, ready for `write_shards`.

    `ids` is the column that names the items; `rename` maps names of the file to names of columns; with `columns`, these
    and the ids alone are read, under the names they have in the file. A `.npy` file is one array, called after the
    file. Arrays have one row an item.
    """
    source, names = Path(path), dict(rename or {})
    if source.suffix not in SUFFIXES:
        raise BadInput(f"columns are read from {', '.join(SUFFIXES)}, got {source.name!r}")
    if not source.is_file():
        raise BadInput(f"there is no file {source}")
    if ids is not None:
        names[ids] = IDS
    wanted = None if columns is None else [*dict.fromkeys([*columns, *([] if ids is None else [ids])])]
    named = {*names, *(wanted or ())}
    table = source.suffix in (".parquet", ".arrow", ".feather")
    for block in _table(source, named, wanted) if table else iter([_arrays(source)]):
        _check_named(source, named, block)
        yield {names.get(name, name): values for name, values in block.items() if wanted is None or name in wanted}


def _check_named(source: Path, named: Iterable[str], there: Iterable[str]) -> None:
    missing, known = set(named) - set(there), list(there)
    if missing:
        raise BadInput(f"{source} has no column {', '.join(sorted(missing))}; it has {', '.join(known)}")


def stored_dtypes(path: str | Path, rename: Mapping[str, str] | None = None) -> dict[str, str]:
    """The columns of a .safetensors file that are bfloat16: their numbers come as bits."""
    if Path(path).suffix != ".safetensors":
        return {}
    header, _ = _safe_header(Path(path))
    return {(rename or {}).get(name, name): "bfloat16" for name, facts in header.items() if facts["dtype"] == "BF16"}


def by_item(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence as `ncalr.query` takes it, with the items along the first axis, as a pool on disk keeps it."""
    for name, array in arrays.items():
        if array.ndim <= POOL_AXIS.get(name, 0):
            raise BadInput(f"{name} must have shape ({', '.join(SHAPES.get(name, 'n'))}), got {array.shape}")
    return {name: np.moveaxis(array, POOL_AXIS.get(name, 0), 0) for name, array in arrays.items()}


def to_parquet(pool: ShardedPool | str | Path, path: str | Path) -> int:
    """Write every column and the ids as one Parquet file, whole or not at all; how many rows."""
    pool = pool if isinstance(pool, ShardedPool) else ShardedPool(pool)
    arrow, parquet = _pyarrow()
    n = len(pool)
    ranges = [(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS)]
    blocks = ({IDS: np.arange(*rows), **block} for rows, block in stream(pool.columns, ranges))
    tables = (arrow.table({name: _arrow_array(arrow, v) for name, v in block.items()}) for block in blocks)
    first = next(tables)
    with written_whole(Path(path)) as file, parquet.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
    return n


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays of a file, mapped where the format allows it."""
    try:
        if path.suffix == ".npy":
            return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False)}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        return _safe_tensors(path)
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise BadInput(f"{path} cannot be read as {path.suffix[1:]} ({error})") from None


def _safe_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a .safetensors file: a length, a JSON header, then the bytes."""
    header, start = _safe_header(path)
    found: dict[str, Any] = {}
    for name, facts in header.items():
        begin = facts["data_offsets"][0]
        found[name] = np.memmap(path, np.dtype(_SAFE[facts["dtype"]]), "r", start + begin, tuple(facts["shape"]))
    return found


def _safe_header(path: Path) -> tuple[dict[str, Any], int]:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > 100_000_000:
            raise BadInput(f"{path} is not a .safetensors file: its header would have {size} bytes")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def _table(path: Path, named: Iterable[str], wanted: list[str] | None) -> Iterator[dict[str, Any]]:
    """The wanted columns of a table, all if None: the others are not even read."""
    arrow, parquet = _pyarrow()
    try:
        if path.suffix == ".parquet":
            file = parquet.ParquetFile(path)
            _check_named(path, named, file.schema_arrow.names)
            batches = file.iter_batches(_ROWS, columns=wanted)
        else:
            file = arrow.ipc.open_file(arrow.memory_map(str(path)))
            _check_named(path, named, file.schema.names)
            batches = (file.get_batch(at) for at in range(file.num_record_batches))
        for batch in batches:
            names = batch.schema.names if wanted is None else wanted
            _check_full(path, batch, names)
            yield {name: _matrix(name, batch.column(name)) for name in names}
    except (OSError, arrow.ArrowException) as error:
        raise BadInput(f"{path} cannot be read as {path.suffix[1:]} ({error})") from None


def _check_full(path: Path, batch: Any, names: Sequence[str]) -> None:
    """A pool has no empty cells: the first column that has some is named, and how to do without it."""
    empty = {name: batch.column(name).null_count for name in names}
    for name in (name for name in names if empty[name]):
        full = [other for other in names if not empty[other]]
        ways = ["fill them", "leave those rows out"]
        if full:
            ways.append(f"read others alone: columns={full!r}, on the command line --columns {','.join(full)}")
        raise BadInput(f"{path}: column {name} has {empty[name]} empty cells; {', or '.join(ways)}")


def _matrix(name: str, column: Any) -> Array:
    """A column of numbers or texts as it is; one of lists of equal lengths as a matrix."""
    shape, values = [len(column)], column
    while str(values.type).startswith(("list", "large_list", "fixed_size_list")):
        rows, values = len(values), values.flatten()
        if not rows or len(values) % rows or not _even(column, rows, len(values)):
            raise BadInput(f"the lists of column {name} have different lengths; a column needs rows of one length")
        shape.append(len(values) // rows)
        column = values
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(shape)


def _even(column: Any, rows: int, total: int) -> bool:
    """Whether every list has the same length."""
    if str(column.type).startswith("fixed_size_list"):
        return True
    offsets = np.asarray(column.offsets)
    return bool((np.diff(offsets) == total // rows).all())


def _arrow_array(arrow: Any, values: Array) -> Any:
    """Rows as nested lists of fixed sizes."""
    array = arrow.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        array = arrow.FixedSizeListArray.from_arrays(array, size)
    return array


def _pyarrow() -> tuple[Any, Any]:
    what = "reading and writing Parquet and Arrow"
    return load("pyarrow", "parquet", what), load("pyarrow.parquet", "parquet", what)
