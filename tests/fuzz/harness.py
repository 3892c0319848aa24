"""Carry out one call on hostile input and judge how it ended; doors register themselves here.

A door is a function of (`draw`, `place`): it draws an input, writes what it needs below `place`, and returns an
`Attempt`. `judged` carries the attempt out. It may end in a result, whose properties the attempt checks, or in an
`NcalrError`. Everything else is a `Fault`: another exception or warning, a call that takes too long, memory without
measure, a file outside `place` read, made, changed or removed, and a result that is wrong.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

import ncalr
from ncalr.errors import NcalrError, Note

SECONDS = 10.0  # of processor time, which one call may take; wall time says how busy the machine is
STUCK = 30.0  # of processor time, after which a call is interrupted
MEMORY = 3 * 2**30  # bytes of address space, which one call may ask for beyond what the process has
PACKAGE = os.path.dirname(ncalr.__file__)
VICTIM = "the file of another program\n"

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Fault(AssertionError):
    """An input that hurts: `kind` is crash, wrong, refused, hang, memory or outside; `where` names the place."""

    def __init__(self, kind: str, where: str, words: str) -> None:
        super().__init__(f"{kind} at {where}: {words}")
        self.kind, self.where = kind, where


class Stuck(BaseException):
    """Interrupts a call that takes too long; no `except Exception` may swallow it."""


@dataclass(frozen=True)
class Attempt:
    """A call, what must hold for its result, and whether it must give a result at all."""

    call: Callable[[], Any]
    holds: Callable[[Any], None] = lambda found: None
    must: bool = False


@dataclass(frozen=True)
class Door:
    """A way in; `examples` are those of a short run, `share` its part of a long one."""

    name: str
    attempt: Callable[[Draw, Path], Attempt]
    examples: int
    share: float


DOORS: dict[str, Door] = {}


def door(examples: int, share: float) -> Callable[[Any], Any]:
    """Register a door under its function's name."""

    def register(attempt: Any) -> Any:
        DOORS[attempt.__name__] = Door(attempt.__name__, attempt, examples, share)
        return attempt

    return register


class Arena:
    """A fresh working folder for each input, beside a folder that belongs to another program."""

    def __init__(self, root: Path) -> None:
        self.root, self.outside, self.inside = root, root / "outside", root / "inside"

    @contextmanager
    def entered(self) -> Iterator[Path]:
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for folder in (self.outside, self.inside):
            folder.mkdir()
        for name in ("victim.txt", "victim.npy", "victim-00000.npy"):
            (self.outside / name).write_text(VICTIM)
        before = os.getcwd()
        os.chdir(self.inside)
        try:
            yield self.inside
        finally:
            os.chdir(before)

    def check(self, touched: list[str]) -> None:
        """Raise where anything outside the working folder was touched, also by a library that Python does not see."""
        there = {path.relative_to(self.outside).as_posix(): path for path in self.outside.rglob("*")}
        whole = sorted(there) == ["victim-00000.npy", "victim.npy", "victim.txt"]
        if not whole or any(path.read_text() != VICTIM for path in there.values()):
            raise Fault("outside", "another folder", f"it holds {sorted(there)}, or a file of it was changed")
        names = sorted(path.name for path in self.root.iterdir())
        if names != ["inside", "outside"]:
            raise Fault("outside", "the folder above", f"it holds {names}")
        if touched:
            raise Fault("outside", touched[0].partition(" ")[0], "; ".join(touched))


# What a call touches, as the interpreter reports it

_watched: list[tuple[str, list[str]]] = []  # the arena's root and what was touched, while a call is under way
_PATHS = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.link": 2, "os.symlink": 2,
    "os.chmod": 1, "os.utime": 1, "shutil.rmtree": 1, "shutil.move": 2, "shutil.copyfile": 2,
}  # fmt: skip
_OWN = (
    "/dev/",
    "ncalr-fuzz-store-",
    "/proc/",
    "__pycache__",
    "/matplotlib",
    ".nbi",
    ".nbc",
    "/torchinductor",
)  # of Python and libraries
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched or (event != "open" and event not in _PATHS):
        return
    root, touched = _watched[-1]
    paths, writes = arguments[: _PATHS.get(event, 1)], True
    if event == "open":
        _, mode, flags = arguments
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITES)
    for path in paths:
        if isinstance(path, int) or path is None:
            continue
        name = os.path.realpath(os.fsdecode(path))
        mine = name == f"{root}/inside" or name.startswith(f"{root}/inside/")
        if mine or any(own in name for own in _OWN):
            continue
        if writes or name.startswith(f"{root}/"):
            touched.append(f"{event} {'writes' if writes else 'reads'} {name}")


sys.addaudithook(_audit)


@contextmanager
def _watching(root: Path) -> Iterator[list[str]]:
    _watched.append((os.path.realpath(root), []))
    try:
        yield _watched[-1][1]
    finally:
        _watched.pop()


@contextmanager
def _limited() -> Iterator[None]:
    """Bound the time and the memory of a call, where the system can."""

    def interrupt(*_: Any) -> None:
        raise Stuck

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    import resource

    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        used = 0
    old, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, STUCK)
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if used:
            resource.setrlimit(resource.RLIMIT_AS, (old, hard))
        signal.signal(signal.SIGPROF, before)


def judged(attempt: Attempt, arena: Arena) -> str:
    """Carry an attempt out; `result` or `refusal`, or the fault that it is."""
    began = time.process_time()
    found: Any = None
    why: BaseException | None = None
    with _watching(arena.root) as touched:
        try:
            with _limited(), warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", Note)
                found = attempt.call()
                attempt.holds(found)
        except Fault:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, RecursionError, Stuck) as error:
            why = error
    arena.check(touched)
    if isinstance(why, Stuck) or time.process_time() - began > SECONDS:
        raise Fault("hang", _place(why), f"{time.process_time() - began:.1f} s of processor time")
    if isinstance(why, NcalrError):
        if attempt.must:
            raise Fault("refused", _place(why), f"a valid input: {_line(why)}")
        str(why), repr(why)
        return "refusal"
    if isinstance(why, MemoryError):
        raise Fault("memory", _place(why), _line(why)) from why
    if isinstance(why, AssertionError) and not _place(why).startswith("ncalr"):
        raise Fault("wrong", _place(why), _line(why)) from why
    if why is not None:
        raise Fault("crash", _place(why), f"{type(why).__name__}: {_line(why)}") from why
    return "result"


def _place(why: BaseException | None) -> str:
    """The innermost line of ours that an error went through."""
    frames = traceback.extract_tb(why.__traceback__) if why is not None else []
    own = [frame for frame in frames if frame.filename.startswith(PACKAGE + os.sep)]
    if not frames:
        return "unknown"
    frame = (own or frames)[-1]
    file = os.path.relpath(frame.filename, os.path.dirname(PACKAGE)) if own else os.path.basename(frame.filename)
    return f"{file}:{frame.lineno} {frame.name}"


def _line(why: BaseException) -> str:
    try:
        return " ".join(str(why).split())[:300]
    except Exception as error:
        return f"(its text fails: {type(error).__name__})"


@contextmanager
def arena() -> Iterator[Arena]:
    """An arena in a temporary folder, in memory where there is such a file system: every pool is synced to its disk."""
    tempfile.gettempdir()  # which it tries by writing, the first time
    for name in ("ncalr.kernels.compiled", "ncalr.learn", "ncalr.lab.session"):
        import_module(name)  # an import that a limit interrupts would stay half done
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="ncalr-fuzz-", dir=memory if memory.is_dir() else None) as root:
        yield Arena(Path(root))


def fuzz(
    which: Door, examples: int, here: Arena, told: Callable[[str | Fault, float], None], seed: int | None = None
) -> None:
    """Draw so many inputs for a door and tell how each ended; a fault that `told` raises is shrunk and reported.

    Without a `seed` the inputs are the same each time.
    """
    phases = [hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if seed is None else [])]

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=phases,
        print_blob=False,
    )
    @hypothesis.given(data=st.data())
    def one(data: st.DataObject) -> None:
        with here.entered() as place:
            attempt = which.attempt(data.draw, place)
            began = time.process_time()
            try:
                ended: str | Fault = judged(attempt, here)
            except Fault as fault:
                ended = fault
            told(ended, time.process_time() - began)

    (one if seed is None else hypothesis.seed(seed)(one))()


# Mutations


def rng_of(draw: Draw) -> random.Random:
    """Random choices that one drawn number decides."""
    return random.Random(draw(st.integers(0, 2**48)))


INTERESTING = (
    b"\x00",
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
    b"\x00" * 8,
    b"\x80",
    b"\n",
    b'"',
    b"[" * 99,
    b"../",
)


def mutated(content: bytes, rng: random.Random, edits: int) -> bytes:
    """The content with so many edits: bytes changed, cut, doubled, put in or left out."""
    data = bytearray(content)
    for _ in range(edits):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 | 1 if data:
                data[at % len(data)] = rng.randrange(256)
            case 2 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 3:
                data[at:at] = rng.choice(INTERESTING)
            case 4:
                piece = rng.choice(INTERESTING)
                data[at : at + len(piece)] = piece
            case 5:
                del data[at : at + rng.choice((1, 2, 7, 64))]
            case 6:
                del data[at:]
            case _:
                data[at:at] = data[at : at + rng.choice((1, 8, 100))]
    return bytes(data)


NAMES = (
    "../outside/victim", "../outside/victim.txt", "../outside/victim.npy", "../evil", "../../evil",
    "@OUTSIDE@/victim.txt",
    "@OUTSIDE@/new", "a/b", "a\\b", "", ".", "..", "nul\0byte", "x" * 300, "\ud800", "new\nline", "ids", "items",
    "lock",
    "manifest.json", "features", "features.put1", "con", " ", "-x", "=cmd()", "é" * 130, "/", "~", "$HOME", "*",
    "\u202e",
)  # fmt: skip
"""Names of files, columns, classes and items that lead elsewhere or mean something else."""

DEEP = "@DEEP@"


def name_of(rng: random.Random, place: Path) -> str:
    """One of the hostile names."""
    return rng.choice(NAMES).replace("@OUTSIDE@", str(place.parent / "outside"))


def odd_value(rng: random.Random, place: Path) -> Any:
    """A value that no field of a JSON file expects."""
    return rng.choice(
        (
            None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 2**64, -(2**63), 10**30, 1e308, -0.0, 0.5, float("nan"),
            float("inf"), "", "1", "x", "x" * 5000, [], [[]], [1, "a"], {}, {"a": 1}, [None], DEEP, "<f4", "|O",
            ["features"],
            name_of(rng, place), name_of(rng, place), name_of(rng, place),
        )
    )  # fmt: skip


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: a container and a key in it."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    here = [(value, key) for key, _ in inside]
    return here + [spot for container, key in here for spot in _spots(container[key])]


def with_odd_fields(value: Any, rng: random.Random, place: Path, edits: int) -> Any:
    """A JSON value with so many fields replaced, renamed, removed or doubled, in place."""
    for _ in range(edits):
        spots = _spots(value)
        if not spots:
            return odd_value(rng, place)
        container, key = rng.choice(spots)
        match rng.randrange(8):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[name_of(rng, place)] = container.pop(key)
            case 1:
                container.append(container[key])
            case 2:
                other, there = rng.choice(spots)
                container[key] = copy.deepcopy(other[there])
            case 3 if isinstance(container[key], int | float):
                container[key] = rng.choice((-1, 1, 2)) * container[key] + rng.choice((-1, 0, 1))
            case _:
                container[key] = odd_value(rng, place)
    return value


def as_json(value: Any) -> bytes:
    """JSON text, with real depth where the mark of it stands, and lone surrogates as JSON has them."""
    return json.dumps(value).replace(f'"{DEEP}"', "[" * 20_000 + "]" * 20_000).encode()
