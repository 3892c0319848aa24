"""Columns from files of other kinds, and a pool as Parquet.

    write_shards("pool", read_columns("table.parquet", ids="name", rename={"embedding": "features"}))
    write_shards("pool", read_columns("arrays.npz"))        also .npy, .safetensors, .arrow, .feather
    to_parquet("pool", "pool.parquet")

Tables are read a batch at a time, and arrays where they lie, so that files larger than the memory do. A column of lists
of equal lengths becomes a matrix. Parquet and Arrow need pyarrow (the extra `parquet`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.evidence import POOL_AXIS, SHAPES
from ncalr.data.arrow_sizes import check_arrow
from ncalr.data.columns import stream
from ncalr.data.files import written_whole
from ncalr.data.manifest import IDS
from ncalr.data.received import (
    check_file,
    check_parquet,
    opened_npz,
    read_npy,
    read_safetensors,
    reading,
    safetensors_header,
)
from ncalr.data.shards import ShardedPool
from ncalr.errors import BadInput
from ncalr.extras import load

Array = npt.NDArray[Any]
SUFFIXES = (".parquet", ".arrow", ".feather", ".npy", ".npz", ".safetensors")
_ROWS = 16384


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
    check_file(source)
    if ids is not None:
        names[ids] = IDS
    wanted = None if columns is None else [*dict.fromkeys([*columns, *([] if ids is None else [ids])])]
    named = {*names, *(wanted or ())}
    table = source.suffix in (".parquet", ".arrow", ".feather")
    for block in _table(source, named, wanted) if table else iter([_arrays(source, wanted)]):
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
    header, _ = safetensors_header(Path(path))
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
    with (
        written_whole(Path(path)) as file,
        parquet.ParquetWriter(file, first.schema, write_page_checksum=True) as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table)
    return n


def _arrays(path: Path, wanted: Sequence[str] | None) -> dict[str, Any]:
    """The arrays of a file, mapped where the format allows it; of a .npz those that are wanted, all if None."""
    if path.suffix == ".npy":
        return {path.stem: read_npy(path)}
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    with opened_npz(path) as file:
        _check_named(path, wanted or (), file.names)
        return file.read(file.names if wanted is None else wanted)


def _table(path: Path, named: Iterable[str], wanted: list[str] | None) -> Iterator[dict[str, Any]]:
    """The wanted columns of a table, all if None: the others are not even read."""
    for batch in _parquet(path, named, wanted) if path.suffix == ".parquet" else _arrow(path, named, wanted):
        _check_full(path, batch, batch.schema.names)
        with reading(path, path.suffix):
            block = {name: _matrix(name, batch.column(name)) for name in batch.schema.names}
        yield block


def _parquet(path: Path, named: Iterable[str], wanted: list[str] | None) -> Iterator[Any]:
    _, parquet = _pyarrow()
    with reading(path, ".parquet"):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        check_parquet(path, file.metadata)
        names = file.schema_arrow.names
        _check_named(path, named, names)
        for batch in file.iter_batches(_ROWS, columns=wanted):
            batch.validate(full=True)
            yield batch.select(names if wanted is None else wanted)


def _arrow(path: Path, named: Iterable[str], wanted: list[str] | None) -> Iterator[Any]:
    """Batches of an Arrow file, read and not mapped: what is damaged, or cut meanwhile, would end the process."""
    arrow, _ = _pyarrow()
    check_arrow(path)
    with reading(path, path.suffix), arrow.OSFile(str(path)) as source:
        file = arrow.ipc.open_file(source)
        names = file.schema.names
        _check_named(path, named, names)
        for at in range(file.num_record_batches):
            batch = file.get_batch(at).select(names if wanted is None else wanted)
            batch.validate(full=True)
            yield batch


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
