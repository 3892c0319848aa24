"""Read files that others wrote: check names before they become paths, sizes before memory is allocated.

    inside(folder, name)                        the only way from a name in a file to a path
    with reading(path, "JSON"): ...             errors of zipfile, numpy, pyarrow, json, ... become `BadInput`
    read_json(path)   parsed_json(text, place)  JSON, however deep it is nested
    read_npy(path)    read_npz(path, names)     arrays; headers are compared with the sizes of the files first
    read_safetensors(path)                      mapped tensors, every offset checked

A file that somebody sent is data: nothing in it may choose where ncalr reads, writes or deletes, and whatever is wrong
with it is an error that names the file. Trusted are paths that the user types, and full paths where a format is meant
to hold them (the dataset and the noise file of an experiment, the source of a labelling project).
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, NcalrError

Array = npt.NDArray[Any]

FORBIDDEN = '\\:*?"<>|'
"""Signs that Windows refuses in names, or reads as a path, a drive or a stream."""
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{at}" for port in ("com", "lpt") for at in range(1, 10))}
"""Names that Windows keeps for devices, with any ending."""
LONGEST = 255  # bytes of a file's name on every file system in use

MOST_UNPACKED = 1 << 30  # bytes: what unpacks to no more is read whatever it was packed to
MOST_RATIO = 100  # of unpacked to packed bytes beyond that; numbers that were measured do not pack so well
MOST_HEADER = 1 << 26  # bytes of a header of a .safetensors file
NPY_HEADER = 1 << 17  # bytes of a .npy header, which NumPy reads up to 64 KiB

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
    "BOOL": "|b1",
}


def inside(folder: Path, name: object, what: str = "file", *, below: bool = False) -> Path:
    """Return the path of a received name in a folder; raise `BadInput` where it could lead anywhere else.

    A name is one part that every system takes as it is: no separators, drives, `..`, NUL or names of devices. With
    `below` it is a relative path, written with `/`, to something in the folder. A symbolic link that leads out of the
    folder is refused; the folder itself may be a link.
    """
    why = _unsafe(name, below)
    if why:
        raise BadInput(f"{folder}: the name of a {what} {why}, got {name!r:.100}; expected a file in this folder")
    path = folder / str(name)
    try:
        leads_out = (below or path.is_symlink()) and not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        leads_out = True
    if leads_out:
        raise BadInput(f"{path} is a link that leads out of {folder}; put the {what} itself there")
    return path


def _unsafe(name: object, below: bool) -> str:
    """Why a name is no safe one; empty where it is."""
    if not isinstance(name, str):
        return "must be a text"
    if not name or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "must not be empty or hold control characters"
    if below:
        parts = name.split("/")
        if "" in parts or "." in parts or ".." in parts or (os.name == "nt" and set(name) & set(FORBIDDEN)):
            return "must be a relative path without '..'"
        return ""
    if name in (".", "..") or "/" in name or set(name) & set(FORBIDDEN):
        return f"must not hold separators or any of {FORBIDDEN}"
    if name[-1] in ". " or name.partition(".")[0].rstrip(" ").casefold() in DEVICES:
        return "must not be a device's, or end with a dot or blank"
    try:
        long = len(name.encode()) > LONGEST
    except UnicodeEncodeError:
        return "must be valid Unicode"
    return f"must have at most {LONGEST} bytes" if long else ""


@contextmanager
def reading(path: Path | str, what: str, advice: str = "is the file whole?") -> Iterator[None]:
    """Turn every error that a library raises on a file's content into `BadInput` with the file and the reason.

    Put nothing but the reading itself below it: an error of ncalr's own code would look like a damaged file.
    """
    try:
        yield
    except (NcalrError, Warning):
        raise
    except Exception as error:  # a library raises what it likes: BadZipFile, zlib.error, TokenError, RecursionError...
        raise BadInput(f"{path} cannot be read as {what} ({_reason(error)}); {advice}") from error


def _reason(error: Exception) -> str:
    """An error of a library in some words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8, byte 0x{error.object[error.start]:02x} at {error.start:,}; save it as UTF-8"
    if isinstance(error, KeyError) and error.args:
        return f"{error.args[0]!r:.80} is missing"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def check_file(path: Path, advice: str = "") -> None:
    """Raise where there is no regular file: opening a named pipe would wait for ever."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        reason = "there is no file" if isinstance(error, FileNotFoundError) else f"cannot read ({error.strerror})"
        raise BadInput(f"{reason} {path}{advice and '; '}{advice}") from None
    except ValueError:
        raise BadInput(f"{str(path)!r} is not the name of a file") from None
    if not stat.S_ISREG(mode):
        raise BadInput(f"{path} is not a regular file")


# Sizes


def check_unpacked(path: Path | str, unpacked: int, packed: int) -> None:
    """Raise where what is packed would fill the memory, or unpacks to far more than measured numbers do."""
    if unpacked > MOST_UNPACKED and unpacked > MOST_RATIO * packed:
        raise BadInput(
            f"{path} has {packed:,} bytes and would unpack to {unpacked:,}; if you trust it, save it without "
            "compression (numpy.savez, or .npy files)"
        )
    check_memory(path, unpacked)


def check_parquet(path: Path, metadata: Any) -> None:
    """Raise where a row group of a Parquet file says that it holds far more than the file's bytes can.

    The metadata of single columns stay unread: where they are damaged, pyarrow ends the process.
    """
    packed = path.stat().st_size
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        check_unpacked(path, max(group.total_byte_size, 8 * group.num_rows * group.num_columns), packed)


def check_memory(path: Path | str, wanted: int) -> None:
    """Raise where a file would need more memory than is free."""
    free = free_memory()
    if free is not None and wanted > free:
        raise BadInput(
            f"{path} needs {wanted:,} bytes of memory, {free:,} are free; save its arrays as .npy files, which are "
            "mapped"
        )


def free_memory() -> int | None:
    """Return the bytes of memory that this process may still take, None where the system does not say.

    A container's limit counts as well as the machine's.
    """
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))) * 1024)
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
            with suppress(OSError, ValueError):  # "max" is no number
                most, now = (int(Path(place, name).read_text(encoding="ascii")) for name in (limit, used))
                found.append(max(most - now, 0))
    return min(found, default=None)


# JSON


def parsed_json(text: str | bytes, place: Path | str) -> Any:
    """Return what a JSON text means; `place` is what errors call it."""
    with reading(place, "JSON"):
        return json.loads(text)


def read_json(path: Path, advice: str = "is the file whole?") -> Any:
    """Return what a JSON file holds."""
    check_file(path, advice)
    with reading(path, "JSON", advice):
        return json.loads(path.read_text(encoding="utf-8"))


def read_object(path: Path, advice: str = "is the file whole?") -> dict[str, Any]:
    """Return the object that a JSON file holds."""
    found = read_json(path, advice)
    if not isinstance(found, dict):
        raise BadInput(f"{path} must hold a JSON object, got {type(found).__name__}; {advice}")
    return found


# Arrays


def read_npy(path: Path, advice: str = "save the array with numpy.save", *, mapped: bool = True) -> Any:
    """Return the array of a .npy file, mapped or in memory; its header must say what the file holds."""
    check_file(path, advice)
    with reading(path, ".npy", advice), path.open("rb") as file:
        shape, by_columns, dtype = _npy_header(path, file)
        start, size = file.tell(), path.stat().st_size
        _check_bytes(path, shape, dtype, size - start)
        order: Any = "F" if by_columns else "C"
        if not mapped:
            check_memory(path, size)
        if size == start:
            return np.empty(shape, dtype, order)
        rows = np.memmap(path, dtype, "r", start, shape, order)
        return rows if mapped else np.array(rows)


def _npy_header(path: Path | str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape of an array, whether it is kept by columns, and its dtype; the file is then at its numbers."""
    major, minor = np.lib.format.read_magic(file)
    if (major, minor) == (1, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=NPY_HEADER)
    elif (major, minor) == (2, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_2_0(file, max_header_size=NPY_HEADER)
    else:
        raise BadInput(f"{path} is a .npy file of version {major}.{minor}; expected plain numbers or texts")
    if dtype.hasobject:
        raise BadInput(
            f"{path} holds objects, which may run code when they are read. "
            "Save numbers, or texts with numpy.save(FILE, ids.astype(str))."
        )
    if any(type(size) is not int or size < 0 for size in shape):
        raise BadInput(f"the header of {path} has the shape {shape!r:.80}; expected whole numbers from 0 on")
    return shape, bool(by_columns), dtype


def _check_bytes(path: Path | str, shape: tuple[int, ...], dtype: np.dtype[Any], there: int) -> None:
    wanted = dtype.itemsize * math.prod(shape)
    if wanted != there:
        raise BadInput(
            f"the header of {path} says {dtype} of shape {shape!r:.80}, {wanted:,} bytes; the file has {there:,}. "
            "It is torn or damaged: save it again"
        )


class Npz:
    """The arrays of an open .npz file: names at once, each array when it is asked for, its size looked at first."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        if len(self._entries) < len(entries):
            raise BadInput(f"{path} names an array twice; save it again with numpy.savez")

    @property
    def names(self) -> list[str]:
        """The arrays' names."""
        return list(self._entries)

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Return some of the arrays, in memory, after a look at what they need together."""
        chosen = {name: self._entries[name] for name in names}
        unpacked = sum(entry.file_size for entry in chosen.values())
        check_unpacked(self.path, unpacked, sum(entry.compress_size for entry in chosen.values()))
        return {name: self._array(name, entry) for name, entry in chosen.items()}

    def _array(self, name: str, entry: zipfile.ZipInfo) -> Array:
        place = f"{self.path}, array {name!r:.60}"
        with reading(place, ".npz"), self._archive.open(entry) as file:
            shape, by_columns, dtype = _npy_header(place, file)
            _check_bytes(place, shape, dtype, entry.file_size - file.tell())
            raw = bytearray(dtype.itemsize * math.prod(shape))
            if _filled(file, raw) < len(raw) or file.read(1):  # at the end, the checksum is compared
                raise BadInput(f"{place} has not the length that the archive says; save it again")
            found: Array = np.ndarray(shape, dtype, raw, order="F" if by_columns else "C")
        return found


def _filled(file: IO[bytes], raw: bytearray) -> int:
    """Read until the buffer is full or the file is at its end; how much was read."""
    view, done = memoryview(raw), 0
    while done < len(raw):
        part = file.read(min(1 << 20, len(raw) - done))
        if not part:
            break
        view[done : done + len(part)] = part
        done += len(part)
    return done


@contextmanager
def opened_npz(path: Path, advice: str = "save it again with numpy.savez") -> Iterator[Npz]:
    """Open a .npz file."""
    check_file(path, advice)
    with reading(path, ".npz", advice):
        archive = zipfile.ZipFile(path)
    with archive:
        with reading(path, ".npz", advice):
            found = Npz(path, archive)
        yield found


def read_npz(path: Path, names: Iterable[str] | None = None, advice: str = "is the file whole?") -> dict[str, Array]:
    """Return the arrays of a .npz file, some or all; a name that is not there is an error."""
    with opened_npz(path, advice) as file:
        wanted = file.names if names is None else list(names)
        missing = [name for name in wanted if name not in file.names]
        if missing:
            raise BadInput(f"{path} has no array {missing[0]!r:.60}; it has {', '.join(file.names)[:200]}")
        return file.read(wanted)


def read_safetensors(path: Path) -> dict[str, Array]:
    """Return the tensors of a .safetensors file, mapped: a length, a JSON header, then the bytes. bfloat16 is bits."""
    header, start = safetensors_header(path)
    with reading(path, ".safetensors"):
        return {
            name: np.memmap(path, np.dtype(_SAFE[facts["dtype"]]), "r", start + facts["data_offsets"][0], shape)
            if math.prod(shape := tuple(facts["shape"]))
            else np.empty(shape, _SAFE[facts["dtype"]])
            for name, facts in header.items()
        }


def safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return what the header of a .safetensors file says of each tensor, checked, and where their bytes begin.

    The tensors must fill the rest of the file, one after the other, as the format wants it.
    """
    check_file(path)
    with reading(path, ".safetensors"), path.open("rb") as file:
        whole = path.stat().st_size
        size = int.from_bytes(file.read(8), "little")
        if whole < 8 or size > min(whole - 8, MOST_HEADER):
            raise BadInput(f"{path} is not a .safetensors file: its header would have {size:,} of {whole:,} bytes")
        header = parsed_json(file.read(size), f"the header of {path}")
    if not isinstance(header, dict):
        raise BadInput(f"the header of {path} must be a JSON object, got {type(header).__name__}")
    header.pop("__metadata__", None)
    spans = sorted(_span(path, name, facts) for name, facts in header.items())
    end = 0
    for begin, stop in spans:
        if begin != end:
            raise BadInput(f"the tensors of {path} overlap or leave gaps at byte {begin:,}; save it again")
        end = stop
    if end != whole - 8 - size:
        raise BadInput(f"{path} has {whole - 8 - size:,} bytes of numbers, its header says {end:,}; it is torn")
    return header, 8 + size


def _span(path: Path, name: str, facts: Any) -> tuple[int, int]:
    """From which byte to which a tensor goes, after a look at all that the header says of it."""
    place = f"tensor {name!r:.60} of {path}"
    facts = facts if isinstance(facts, dict) else {}
    dtype, shape, span = facts.get("dtype"), facts.get("shape"), facts.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _SAFE:
        raise BadInput(f"{place} has the dtype {dtype!r:.40}; ncalr reads {', '.join(_SAFE)}")
    if not _whole_numbers(shape) or not _whole_numbers(span) or len(span) != 2:
        raise BadInput(f"{place} must have a shape and two data_offsets, got {shape!r:.60} and {span!r:.60}")
    if span[1] - span[0] != np.dtype(_SAFE[dtype]).itemsize * math.prod(shape):
        raise BadInput(f"{place}: {dtype} of shape {tuple(shape)!r:.60} does not fill the bytes {span!r:.60}")
    return span[0], span[1]


def _whole_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**62 for value in values)


def limited(source: Any, most: int, path: Path | str) -> bytes:
    """Return all bytes of a packed stream; raise where there are more than `most`."""
    found = io.BytesIO()
    while part := source.read(1 << 20):
        if found.tell() + len(part) > most:
            raise BadInput(f"{path} unpacks to more than {most:,} bytes; fetch it again")
        found.write(part)
    return found.getvalue()
