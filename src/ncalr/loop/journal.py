"""The journal: one JSON line a round, on disk before the next round begins.

A run directory holds `journal.jsonl`, `experiment.json` (what the run is, so that another experiment is not written
into it), `environment.json` (versions and machine) and a lock against a second writer. Lines are only ever appended,
and synced; resuming a run is reading them again. A line that was torn by a crash has no newline at its end: it is cut
off with a word, and its round is made again.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from ncalr.errors import BadInput, NcalrError

TIMES = ("seconds", "timing")
"""Keys that differ between two runs of the same experiment."""


class Busy(NcalrError):
    """Another process writes to this run directory."""


class Journal:
    """The journal of one run directory."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "journal.jsonl"
        self.notes: list[str] = []

    def begin(self, experiment: dict[str, Any]) -> None:
        """Claim the directory for this experiment; one that holds another experiment is left alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = self.folder / "experiment.json"
        if known.exists():
            other = json.loads(known.read_text())
            if other != json.loads(json.dumps(experiment)):
                differing = sorted(k for k in {*other, *experiment} if other.get(k) != experiment.get(k))
                raise BadInput(
                    f"{self.folder} holds a run of another experiment (different: {', '.join(differing)}); "
                    "choose another folder, or resume that one"
                )
            return
        write_whole(self.folder / "environment.json", json.dumps(environment(), indent=1))
        write_whole(known, json.dumps(experiment, indent=1))

    def lines(self) -> list[dict[str, Any]]:
        """Every whole line; a torn last one is cut off."""
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            self.notes.append(f"the last line of {self.path} was torn ({len(content) - end} bytes) and is dropped")
            with self.path.open("r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
        found = []
        for number, line in enumerate(content[:end].splitlines(), 1):
            try:
                found.append(json.loads(line))
            except ValueError:
                raise BadInput(
                    f"line {number} of {self.path} is not JSON; the journal was edited or the disk failed. Lines "
                    "before it are whole: keep a copy, remove the rest, and resume"
                ) from None
        return found

    def append(self, line: dict[str, Any]) -> None:
        """One more line; when this returns, it is on disk. Where the disk is full nothing of it is left behind."""
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with self.path.open("r+b") as file:
                file.truncate(size)
            raise NcalrError(
                f"the journal {self.path} could not be written ({error}); nothing is lost: every round before this one "
                "is in it. Make room and resume"
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run directory; a second process is turned away. The lock dies with the process."""
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                raise Busy(
                    f"{self.folder} is in use by process {file.read() or 'unknown'}; wait for it or stop it"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    """A line as it is the same for every run of the experiment."""
    return {key: value for key, value in line.items() if key not in TIMES}


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def environment() -> dict[str, Any]:
    """Versions and machine."""
    versions = {}
    for name in ("ncalr", "numpy", "scipy", "numba", "torch", "scikit-learn"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions,
    }
