"""Pools from tables: CSV, TSV, JSONL and Parquet files with texts or vectors in columns that the caller names.

    pool = read_table("reviews.csv", text="review", id_column="key")                    # a TextPool
    pool = read_table("measurements.csv", vectors=["height", "weight"])          # an ArrayPool, float32
    pool = read_table("embeddings.parquet", vectors="embedding", id_column="name")      # one column of lists
    labels, classes = read_labels("reviews.csv", "stars")                        # apart: a pool never holds labels

A column of lists is written as JSON in a CSV (`"[0.1, 0.2]"`). Between the cells of a CSV are commas, or ; or tabs
where the first line has no comma (as Excel writes it in many countries); blanks around ids, labels and the names of
columns are no part of them, rows of blank cells at the end none of the table. TSV files have no quotes. In a CSV, where
nothing has a type, ids and labels are whole numbers if all of them are written as such, and texts otherwise. Parquet
needs pyarrow (the extra `parquet`).
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.door import counted_from_one
from ncalr.data.pool import ArrayPool, checked_ids
from ncalr.data.received import check_file, check_parquet, parsed_json, reading
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, Note, NotFinite, unknown
from ncalr.extras import load

_OTHER_SIGNS = ";\t"
BLOCK = 4096  # rows that are turned into numbers at a time
TEXT_COLUMNS = ("text", "content", "sentence", "review", "body", "message", "title")
LABEL_COLUMNS = ("label", "labels")
FILE_COLUMNS = ("file", "filename", "path", "image", "name", "id")
"""What columns are called most often, for whoever does not say which."""
FORMULAS = (*"=+-@\t\r\n'", *"\uff1d\uff0b\uff0d\uff20")  # the wide ones are signs of formulas in East Asia
"""How a text begins that a spreadsheet may run as a formula; and ', so that reading an escaped text back is exact."""


def escaped(text: str) -> str:
    """Return a text as a spreadsheet shows it and does not run it: with a ' before what may be a formula."""
    return f"'{text}" if text.startswith(FORMULAS) else text


class TextPool:
    """Texts with permanent ids: each item is one `str`, as it is shown to whoever labels it.

    Learners turn the texts into numbers (`ncalr.learn.texts`): tokens for a network of `hf:`, else vectors of words.
    """

    def __init__(self, texts: Iterable[str], ids: Any = None) -> None:
        items = list(texts)
        strange = next((at for at, text in enumerate(items) if not isinstance(text, str)), None)
        if not items:
            raise BadInput("a pool needs at least one text, got none")
        if strange is not None:
            raise BadInput(f"a pool of texts holds texts, item {strange} is {type(items[strange]).__name__}")
        self._texts = np.array(items, object)
        self.ids = checked_ids(ids, len(items))
        self.shape: tuple[int, ...] = ()
        self.dtype = np.dtype(object)

    @property
    def texts(self) -> list[str]:
        """All texts, in the pool's order."""
        return list(self._texts)

    def read(self, positions: npt.NDArray[np.intp] | slice) -> npt.NDArray[Any]:
        """The texts at these positions, in this order: an array (n,) of `str`."""
        return np.array(self._texts[positions])

    def __len__(self) -> int:
        return len(self._texts)


@dataclass(frozen=True)
class Block:
    """Some rows: their columns, and where in the file each row is."""

    columns: dict[str, Any]  # lists, or arrays where the file has them
    rows: Sequence[int]


@dataclass(frozen=True)
class Format:
    """A way to read a file in blocks: what it calls a row, and whether its values have types."""

    read: Callable[[Any, list[str]], Iterator[Block]]
    row: str
    typed: bool


@dataclass(frozen=True)
class Source:
    """Something with rows and its format; `path` is a file, or how errors call what is more than one."""

    path: Any
    format: Format

    def rows(self, columns: list[str]) -> Iterator[Block]:
        """These columns, in blocks."""
        return self.format.read(self.path, columns)

    def at(self, row: int) -> str:
        """Where in which file."""
        return f"{self.path}, {self.format.row} {row}"


@dataclass(frozen=True)
class _Column:
    """The values of one column, each with its row."""

    name: str
    values: list[Any]
    rows: list[int]


def read_table(
    path: str | Path,
    *,
    text: str | None = None,
    vectors: str | Sequence[str] | None = None,
    id_column: str | None = None,
) -> TextPool | ArrayPool:
    """The pool in a file: the texts of one column, or vectors from some columns of numbers or from one column of lists.

    id_column: without it the ids are 0, 1, ... in the file's order, and last as long as nothing is put between.
    """
    if (text is None) == (vectors is None):
        raise BadInput("name the column of texts (text=...) or the columns of numbers (vectors=...), one of the two")
    return pool_from(open_table(path), text, vectors, id_column)


def read_labels(
    path: str | Path,
    column: str,
    *,
    classes: Sequence[str] | None = None,
    missing: int | None = None,
    id_column: str | None = None,
    ids: Any = None,
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The labels in a column, as class numbers, and the names of the classes.

    Texts become classes in alphabetical order, or in that of `classes`; whole numbers are class numbers already, from 0
    on (a warning says where they seem to count from 1). An empty cell is an error, unless `missing` says which number
    stands for it (-1, say); rows at the end of a CSV with several cells, all blank, are none. With `id_column` and
    `ids`, those of a pool, labels come in the pool's order: so a CSV of file names and labels serves an `ImagePool`.
    """
    if (id_column is None) != (ids is None):
        raise BadInput("to bring labels into a pool's order, give both: id_column, and ids, those of the pool")
    source = open_table(path)
    labels, names = labels_from(source, column, classes, missing)
    if id_column is None:
        return labels, names
    return _aligned(source, labels, ids_from(source, id_column), np.asarray(ids), missing), names


# What other files of this room make of blocks


def pool_from(
    source: Source, text: str | None, vectors: str | Sequence[str] | None, id_column: str | None
) -> TextPool | ArrayPool:
    """The pool in a source, as in `read_table`."""
    wanted = [text] if text is not None else [vectors] if isinstance(vectors, str) else list(vectors or [])
    if not wanted:
        raise BadInput("vectors=[] names no column")
    blocks = list(_converted(source, wanted, text, vectors, id_column))
    if not blocks:
        raise BadInput(f"{source.path} has no rows")
    ids = None if id_column is None else _ids(source, _gathered(id_column, (block for block, _ in blocks)))
    if text is not None:
        return TextPool(chain.from_iterable(items for _, items in blocks), ids)
    return ArrayPool(np.concatenate([items for _, items in blocks]), ids)


def labels_from(
    source: Source,
    column: str,
    classes: Sequence[str] | None = None,
    missing: int | None = None,
    advice: str = "pass missing=-1",
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The labels in a column, as in `read_labels`; `advice` is how the caller can be told that some have none."""
    return _labels(source, _column(source, column), classes, missing, advice)


def ids_from(source: Source, column: str) -> npt.NDArray[Any]:
    """The ids in a column: whole numbers or texts, each once."""
    return _ids(source, _column(source, column))


def _column(source: Source, name: str) -> _Column:
    blocks = list(source.rows([name]))
    if not blocks:
        raise BadInput(f"{source.path} has no rows")
    return _gathered(name, blocks)


def open_table(path: str | Path) -> Source:
    """A file as a source of rows."""
    file = Path(path)
    if file.suffix.lower() not in _FORMATS:
        raise BadInput(f"{file} is no table that can be read; expected a file that ends in {endings(file)}")
    if file.is_dir():
        raise BadInput(f"{file} is a folder, expected a table")
    check_file(file)
    return Source(file, _FORMATS[file.suffix.lower()])


def _converted(
    source: Source,
    wanted: list[str],
    text: str | None,
    vectors: str | Sequence[str] | None,
    id_column: str | None,
) -> Iterator[tuple[Block, Any]]:
    """Each block without its items, and its items as texts or as an array."""
    width: int | None = None
    for block in source.rows(wanted if id_column is None else list(dict.fromkeys([*wanted, id_column]))):
        items: Any = _texts(source, block, text) if text is not None else _matrix(source, block, vectors, width)
        width = None if text is not None else items.shape[1]
        yield Block({} if id_column is None else {id_column: block.columns[id_column]}, block.rows), items


def _gathered(name: str, blocks: Iterable[Block]) -> _Column:
    values: list[Any] = []
    rows: list[int] = []
    for block in blocks:
        column = block.columns[name]
        values += column.tolist() if isinstance(column, np.ndarray) else column
        rows += block.rows
    return _Column(name, values, rows)


# Values


def _texts(source: Source, block: Block, name: str) -> list[str]:
    for value, row in zip(block.columns[name], block.rows, strict=True):
        if not isinstance(value, str):
            raise BadInput(f"{source.at(row)}: {name!r} is {value!r}, expected a text")
    return list(block.columns[name])


def _matrix(
    source: Source, block: Block, vectors: str | Sequence[str] | None, width: int | None
) -> npt.NDArray[np.float32]:
    """The block's vectors (n, d); all are as wide as the first."""
    if isinstance(vectors, str):
        cells = block.columns[vectors]
        given = cells if isinstance(cells, np.ndarray) else [_listed(cell) for cell in cells]
    else:
        given = list(zip(*(block.columns[name] for name in vectors or []), strict=True))
    try:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinity, which is found below
            numbers = given if isinstance(given, np.ndarray) else np.array(given, np.float64)
            matrix = numbers.astype(np.float32)
    except (TypeError, ValueError, OverflowError):
        matrix = np.empty(0, np.float32)
    if matrix.ndim != 2 or not matrix.shape[1] or matrix.shape[1] != (width or matrix.shape[1]):
        raise _blame(source, block, given, width, [] if isinstance(vectors, str) else vectors or [])
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise NotFinite(f"{source.at(block.rows[bad[0]])}: a number is missing, NaN or infinite")
    return matrix


def _listed(cell: Any) -> Any:
    """A list written as text, as in a CSV; what is none is left as it is, to be blamed with its row."""
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _blame(source: Source, block: Block, given: Any, width: int | None, columns: Sequence[str]) -> BadInput:
    """The error for the first row that does not fit; `columns` where a dimension is one."""
    for vector, row in zip(given, block.rows, strict=True):
        where = source.at(row)
        if not isinstance(vector, list | tuple | np.ndarray) or not len(vector):
            return BadInput(f"{where}: expected a list of numbers, got {vector!r:.80}")
        for place, value in enumerate(vector):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                column = f" in column {columns[place]!r}" if columns else ""
                return BadInput(f"{where}: expected a number{column}, got {value!r:.80}")
        width = width or len(vector)
        if len(vector) != width:
            return BadInput(f"{where}: the vector has {len(vector)} numbers, those before it {width}")
    return BadInput(f"{source.path}: the vectors cannot be read as numbers")


def _ids(source: Source, column: _Column) -> npt.NDArray[Any]:
    values = [_whole(value) for value in column.values] if source.format.typed else untyped(stripped(column.values))
    seen: dict[Any, int] = {}
    for value, row in zip(values, column.rows, strict=True):
        where = source.at(row)
        if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
            is_empty = value in (None, "")
            what = "is empty in this row; fill it, or take the row out" if is_empty else f"holds {value!r:.80}"
            raise BadInput(f"{where}: the column {column.name!r} {what}; expected an id, a whole number or a text")
        if isinstance(value, int) and not _fits(value):
            raise BadInput(f"{where}: the id {value} does not fit 64 bits with a sign; write all ids as texts")
        if type(value) is not type(values[0]):
            raise BadInput(
                f"{where}: the id {value!r} and {values[0]!r} before it are of two kinds; take texts for all"
            )
        if value in seen:
            raise BadInput(
                f"{where}: the id {value!r} is already in {source.format.row} {seen[value]}; ids must not repeat"
            )
        seen[value] = row
    return np.array(values)


def untyped(values: list[Any]) -> list[Any]:
    """Whole numbers where every value is written as one and as nothing else ("007" is a text), otherwise texts.

    Those that do not fit 64 bits with a sign, as a UUID in digits, are texts.
    """
    if all(is_whole(value) for value in values):
        return [int(value) for value in values]
    return values


def is_whole(value: str) -> bool:
    """Whether a text is a whole number in the only way to write it, and fits an int64."""
    try:
        return str(int(value)) == value and _fits(int(value))
    except ValueError:
        return False


def is_number(value: Any) -> bool:
    """Whether it is a number, or a text that can be read as one."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _fits(value: int) -> bool:
    """Whether it is an int64: NumPy has no other kind for numbers some of which are larger."""
    return -(2**63) <= value < 2**63


def _labels(
    source: Source, column: _Column, classes: Sequence[str] | None, missing: int | None, advice: str
) -> tuple[npt.NDArray[np.int64], list[str]]:
    given = [value.strip() if isinstance(value, str) else value for value in column.values]
    there = [value not in (None, "") and value == value for value in given]  # NaN, as pandas has it
    if missing is None and not all(there):
        row = column.rows[there.index(False)]
        raise BadInput(
            f"{source.at(row)}: no label in {column.name!r} ({there.count(False):,} of {len(there):,} rows have none); "
            f"fill them, or {advice}"
        )
    found = [_class_of(value) for value, full in zip(given, there, strict=True) if full]
    rows = [row for row, full in zip(column.rows, there, strict=True) if full]
    values = found if source.format.typed or classes is not None else untyped(without_fractions(found))
    names = list(classes) if classes is not None else _class_names(values, f"{source.path}, column {column.name!r}")
    number = {name: at for at, name in enumerate(names)}
    labels = np.full(len(there), 0 if missing is None else missing, np.int64)
    known: list[int] = []
    for value, row in zip(values, rows, strict=True):
        label = number.get(value, -1) if isinstance(value, str) else value
        if not isinstance(label, int) or not 0 <= label < len(names):
            listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            wanted = f"one of {listed}, or its number" if names else "texts, or whole numbers from 0 on"
            empty = "; where there is none, leave the cell empty" if missing is not None else ""
            raise BadInput(f"{source.at(row)}: the label {value!r} is no class; expected {wanted}{empty}")
        known.append(label)
    labels[there] = known
    if classes is None:
        mend = "subtract 1, in the file or from what was read"
        for note in counted_from_one(labels[there], mend=mend, name="name the classes"):
            warnings.warn(f"{source.path}, column {column.name!r}: {note}", Note, stacklevel=2)
    return labels, names


def _class_of(value: Any) -> Any:
    """What a cell says of a class: True and False are names."""
    return str(value) if isinstance(value, bool) else _whole(value)


def _whole(value: Any) -> Any:
    """A whole number written as a float: pandas does so where a column has empty cells."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def without_fractions(values: list[str]) -> list[str]:
    """The same in a file without types: 1.0, 2.0, ... where all are so."""
    fractions = [re.fullmatch(r"(-?\d+)\.0+", value) for value in values]
    return [found[1] if found else "" for found in fractions] if all(fractions) else values


def _class_names(values: list[Any], where: str) -> list[str]:
    texts = sorted({value for value in values if isinstance(value, str)})
    return texts or numbers_as_names(max((value for value in values if isinstance(value, int)), default=-1), where)


def numbers_as_names(largest: int, where: str) -> list[str]:
    """The names of classes that are numbers; an error for codes of something, which would be all numbers up to them."""
    if largest >= MOST_CLASSES:
        raise BadInput(
            f"{where}: the label {largest} is too large for a class number, {MOST_CLASSES - 1} at most; where numbers "
            f"are names of classes, write them as names ('n{largest}')"
        )
    return [str(number) for number in range(largest + 1)]


def _aligned(
    source: Source,
    labels: npt.NDArray[np.int64],
    names: npt.NDArray[Any],
    wanted: npt.NDArray[Any],
    missing: int | None,
) -> npt.NDArray[np.int64]:
    """The labels in the order of the ids wanted."""
    place = {name: at for at, name in enumerate(names.tolist())}
    absent = [name for name in wanted.tolist() if name not in place]
    if absent and missing is None:
        raise BadInput(f"{source.path} has no label for {len(absent)} of {len(wanted)} ids, the first is {absent[0]!r}")
    found = [labels[place[name]] if name in place else missing for name in wanted.tolist()]
    return np.array(found, np.int64)


# Files


def columns_of(path: Path) -> list[str]:
    """The names of a table's columns: of its first line, or of the first records of a JSONL file."""
    try:
        return _names_in(path)
    except UnicodeDecodeError:
        raise _not_utf8(path) from None


def _names_in(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        with reading(path, "Parquet"):
            names: list[str] = _pyarrow("parquet").read_schema(path).names
        return names
    if path.suffix.lower() in (".jsonl", ".ndjson"):  # the first may have no label yet
        return list(dict.fromkeys(name for _, record in islice(_records(path), BLOCK) for name in record))
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(2**20)
    with reading(path, "a table"):
        return stripped(next(csv.reader([line], delimiter=separator(path)), []))


def count_labels(path: Path) -> int:
    """How many cells of a table are filled below `label`, in whatever case: what would be lost with it."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):  # a record may have no label yet
        records = (record for _, record in _records(path))
        return sum(_says(value) for record in records for name, value in record.items() if name.casefold() == "label")
    wanted = [name for name in columns_of(path) if name.casefold() == "label"]
    blocks = open_table(path).rows(wanted) if wanted else ()
    return sum(_says(cell) for block in blocks for column in block.columns.values() for cell in column)


def _says(cell: Any) -> bool:
    return cell is not None and bool(str(cell).strip())


def stripped(names: list[str]) -> list[str]:
    """The names of columns or items as they are meant: people write blanks behind commas."""
    return [name.strip() for name in names]


def separator(path: Path, wanted: Sequence[str] = ()) -> str:
    """What stands between the cells of a CSV or TSV file, by its first line.

    Excel writes ; where numbers have a comma: a line with ; or tabs and no comma is split by them, unless it is the
    name of a column that is `wanted`.
    """
    if path.suffix.lower() == ".tsv":
        return "\t"
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        header = file.readline(2**20).strip("\r\n")
    found = next((sign for sign in _OTHER_SIGNS if sign in header), ",")
    return "," if "," in header or header in wanted else found


def endings(path: Path) -> str:
    """How the names of tables end, for whoever gave another file; with a hint if that is a spreadsheet."""
    sheets = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
    hint = "; save the sheet as CSV (in Excel: CSV UTF-8)" if path.suffix.lower() in sheets else ""
    return ", ".join(_FORMATS) + hint


def about_header(columns: Iterable[str]) -> str:
    """A hint where columns look as if other signs than commas stood between them, or as if they had no names."""
    names = [str(name) for name in columns]
    hint = ""
    if any(sign in name for name in names for sign in _OTHER_SIGNS):
        hint += " If ; or tabs stand between the cells, save the file with commas alone."
    if any(is_number(name) for name in names):
        hint += " If the first line has no names of columns, write them above it."
    return hint


def _csv(path: Path, columns: list[str]) -> Iterator[Block]:
    return _separated(path, columns, delimiter=separator(path, columns), strict=True)


def _tsv(path: Path, columns: list[str]) -> Iterator[Block]:
    return _separated(path, columns, delimiter="\t", quoting=csv.QUOTE_NONE)


def _separated(path: Path, columns: list[str], **dialect: Any) -> Iterator[Block]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, **dialect)
        rows = _guarded(path, lines)
        header = next(rows, None)
        if header is None:
            raise BadInput(f"{path} is empty; expected a first line with the names of the columns")
        header = stripped(header)
        _check_columns(path, columns, header)
        places = [header.index(name) for name in columns]
        kept: list[list[str]] = []
        numbers: list[int] = []
        for number, row in _without_blank_end((lines.line_num, row) for row in rows):
            if len(row) != len(header):
                raise BadInput(f"{path}, line {number}: {len(row)} cells, the first line has {len(header)}")
            kept.append([row[place] for place in places])
            numbers.append(number)
            if len(kept) == BLOCK:
                yield _turned(columns, kept, numbers)
                kept, numbers = [], []
        if kept:
            yield _turned(columns, kept, numbers)


def _without_blank_end(rows: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """The rows without empty lines, and without those at the end whose cells are all blank: spreadsheets save such.

    Between others a row of blank cells is a row: where items go by their place, those behind it would move.
    """
    held: list[tuple[int, list[str]]] = []
    for number, row in rows:
        if is_blank(row):
            held.append((number, row))
        elif row:
            yield from held
            held.clear()
            yield number, row


def is_blank(row: Sequence[str]) -> bool:
    """Whether there is nothing in any of several cells; one cell alone, "", is how an empty text is written."""
    return len(row) > 1 and not any(cell.strip() for cell in row)


def _guarded(path: Path, lines: Any) -> Iterator[list[str]]:
    try:
        yield from lines
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        why = 'a quote " is not closed' if "unexpected end" in str(error) else error
        raise BadInput(f"{path}, line {lines.line_num}: cannot be read ({why})") from None


def _not_utf8(path: Path) -> BadInput:
    """The error that names the first line of a file that is no UTF-8."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                where = f"{path}, line {number}, is not UTF-8 (byte 0x{line[error.start]:02x})"
                return BadInput(f"{where}; save the file as UTF-8 (Excel: CSV UTF-8)")
    return BadInput(f"{path} is not UTF-8; save it as UTF-8 (Excel: CSV UTF-8)")


def _jsonl(path: Path, columns: list[str]) -> Iterator[Block]:
    kept: list[list[Any]] = []
    numbers: list[int] = []
    for number, record in _records(path):
        _check_columns(f"{path}, line {number}", columns, list(record))
        kept.append([record[name] for name in columns])
        numbers.append(number)
        if len(kept) == BLOCK:
            yield _turned(columns, kept, numbers)
            kept, numbers = [], []
    if kept:
        yield _turned(columns, kept, numbers)


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file, each with its line."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            record = parsed_json(line, f"{path}, line {number},")
            if not isinstance(record, dict):
                raise BadInput(f"{path}, line {number}: expected an object {{...}}, got {record!r:.80}")
            yield number, record


def _parquet(path: Path, columns: list[str]) -> Iterator[Block]:
    parquet = _pyarrow("parquet")
    with reading(path, "Parquet"), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        check_parquet(path, file.metadata)
        names = file.schema_arrow.names
        _check_columns(path, columns, names)
        start = 1
        for batch in file.iter_batches(BLOCK, columns=columns):
            batch.validate(full=True)
            yield Block({name: cells(batch[name]) for name in columns}, range(start, start + len(batch)))
            start += len(batch)


def cells(column: Any) -> Any:
    """The values of a piece of an Arrow column; vectors of one length as an array: an object a number is slow."""
    if str(column.type).startswith(("list<", "large_list<", "fixed_size_list<")) and not column.null_count:
        flat = column.flatten()
        lengths = np.unique(_pyarrow("compute").list_value_length(column).to_numpy(zero_copy_only=False))
        if len(lengths) == 1 and lengths[0] and not flat.null_count and str(flat.type) in _NUMBERS:
            return flat.to_numpy(zero_copy_only=False).reshape(len(column), -1)
    return column.to_pylist()


_NUMBERS = {"halffloat", "float", "double", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


def _pyarrow(part: str) -> Any:
    return load(f"pyarrow.{part}", "parquet", "reading Parquet")


def _turned(columns: list[str], rows: list[list[Any]], numbers: list[int]) -> Block:
    """Rows as columns."""
    return Block({name: [row[at] for row in rows] for at, name in enumerate(columns)}, numbers)


def _check_columns(where: Path | str, columns: list[str], there: Sequence[str]) -> None:
    for name in columns:
        if name not in there:
            raise BadInput(f"{where}: {unknown('column', name, there)}{about_header(there)}")
        if list(there).count(name) > 1:
            raise BadInput(f"{where}: the column {name!r} is there more than once")


_FORMATS = {
    ".csv": Format(_csv, "line", typed=False),
    ".tsv": Format(_tsv, "line", typed=False),
    ".jsonl": Format(_jsonl, "line", typed=True),
    ".ndjson": Format(_jsonl, "line", typed=True),
    ".parquet": Format(_parquet, "row", typed=True),
}
TABLES = tuple(_FORMATS)
"""How the names of tables end."""
