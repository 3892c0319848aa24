"""The journal: one JSON line a round, on disk before the next round begins.

A run directory holds `journal.jsonl`, `experiment.json` (what the run is, so that another experiment is not written
into it), `environment.json` (versions, code, machine, torch's threads) and a lock against a second writer. Lines are
only ever appended, and synced; resuming a run is reading them again. A line that was torn by a crash has no newline at
its end: it is left out with a word, its round is made again, and the new line takes its place. `data.json` is the
fingerprint of the data, where they are known when a folder is begun: with other data nothing goes on.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ncalr.data.files import Held, held, open_own, write_whole
from ncalr.data.fingerprint import Fingerprint, check_fingerprint, differences
from ncalr.data.received import inside, parsed_json, read_object, reading
from ncalr.errors import BadInput, NcalrError, Note
from ncalr.loop.environment import FILE, environment, keep_environment, threads_of
from ncalr.loop.lines import check_line

TIMES = ("seconds", "timing")
"""Keys that differ between two runs of the same experiment."""


DATA = "data.json"
"""Where a folder keeps the fingerprint of its data."""


class Busy(NcalrError):
    """Another process writes to this run directory."""


class Journal:
    """The journal of one run directory."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "journal.jsonl"
        self.writes = False  # whether a line was written by this process

    def begin(self, experiment: dict[str, Any], data: Fingerprint | None = None) -> None:
        """Claim the directory for this experiment; one that holds another, or has other data, is left alone."""
        claim(self.folder, experiment)
        if data is not None:
            keep_data(self.folder, data)
        if not (self.folder / FILE).exists():
            write_whole(self.folder / FILE, json.dumps(environment(), indent=1))

    def lines(self) -> list[dict[str, Any]]:
        """Every whole line; a torn last one is left out.

        To read changes nothing: what looks torn may be a line that another process is writing.
        """
        content, end = self._content()
        found = []
        for number, text in enumerate(content[:end].splitlines()):
            place = f"line {number + 1} of {self.path}"
            try:
                line = parsed_json(text, place)
                check_line(line, number, place)
            except BadInput as error:
                raise BadInput(
                    f"{error}. The journal was edited or the disk failed. Lines before it are whole: keep a copy, "
                    "remove the rest, and resume"
                ) from None
            found.append(line)
        return found

    def append(self, line: dict[str, Any]) -> None:
        """One more line, in the place of a torn one; when this returns, it is on disk.

        Where the disk is full nothing of it is left behind.
        """
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        content, size = self._content()
        try:
            if not self.writes:
                keep_environment(self.folder, line.get("round", 0))
                self.writes = True
            with open_own(self.path, "ab") as file:
                file.truncate(size)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if self.path.exists():
                os.truncate(self.path, size)
            raise NcalrError(
                f"the journal {self.path} could not be written ({error}); nothing is lost: every round before this one "
                "is in it. Make room and resume"
            ) from error
        torn = len(content) - size
        if torn:
            warnings.warn(f"the last line of {self.path} was torn ({torn} bytes): written again", Note, stacklevel=2)

    def _content(self) -> tuple[bytes, int]:
        """What is in the file, and how many bytes of that are whole lines."""
        path = inside(self.folder, self.path.name)
        with reading(path, "a journal"):
            content = path.read_bytes() if path.exists() else b""
        return content, content.rfind(b"\n") + 1

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run directory; a second process is turned away. The lock dies with the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.folder / "lock", str(os.getpid())))
            except Held as other:
                raise Busy(
                    f"{self.folder} is in use by process {other.by or 'unknown'}; wait for it or stop it"
                ) from None
            yield

    @contextmanager
    def threads(self) -> Iterator[None]:
        """torch with the threads the run began with: with another number the sums of a CPU come out otherwise."""
        torch, wanted = sys.modules.get("torch"), threads_of(self.folder)
        if torch is None or not wanted:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(wanted)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    """A line as it is the same for every run of the experiment."""
    return {key: value for key, value in line.items() if key not in TIMES}


def read_claim(path: Path) -> dict[str, Any]:
    """What a folder is for."""
    return read_object(
        inside(path.parent, path.name),
        "it is damaged; the journals beside it are whole: put it back from a copy, or start the same experiment in "
        "another folder",
    )


def read_data(folder: Path) -> Fingerprint | None:
    """The fingerprint that a folder keeps of its data; None where it keeps none."""
    path = folder / DATA
    if not path.exists():
        return None
    found = read_claim(path)
    check_fingerprint(found, str(path))
    return found


def claim(folder: Path, experiment: dict[str, Any]) -> None:
    """Write what the folder is for; one that is for something else is left alone, unless nothing was written there."""
    folder.mkdir(parents=True, exist_ok=True)
    path, plain = folder / "experiment.json", json.loads(json.dumps(experiment))
    if not path.exists():
        write_whole(path, json.dumps(plain, indent=1))
        return
    began = has_begun(folder)
    try:
        other = read_claim(path)
    except BadInput:
        if began:
            raise
        other = {}
    differing = sorted(key for key in {*other, *plain} if other.get(key) != plain.get(key))
    if differing and began:
        values = "; ".join(f"{key}: {other.get(key)} there, {plain.get(key)} here" for key in differing)
        raise BadInput(
            f"{folder} holds another experiment (different: {', '.join(differing)}); choose another folder, or resume "
            f"that one. {values}"
        )
    if differing:
        write_whole(path, json.dumps(plain, indent=1))


def journals(folder: Path) -> list[Path]:
    """Those of a single run, of an experiment's runs, and of the runs of its members; a folder may be a link."""
    places = ("journal.jsonl", "runs/*/journal.jsonl", "*/runs/*/journal.jsonl")
    return [path for place in places for path in sorted(folder.glob(place))]


def has_begun(folder: Path) -> bool:
    """Whether a journal of the folder has a line."""
    return any(journal.stat().st_size for journal in journals(folder))


def has_learnt(folder: Path) -> bool:
    """Whether a training of a run of the folder has ended: before that, its journal has the first labels alone."""
    return any(b'"accuracy":' in journal.read_bytes() for journal in journals(folder))


def training_folder(run: Path) -> Path:
    """Where the training that is under way keeps its checkpoint, so that a killed one goes on from there."""
    return run / "training"


def clear_training(run: Path) -> None:
    """Nothing is left to go on from, as its line is in the journal. What is not a training's own stays where it is."""
    from ncalr.learn.storage import Checkpoint

    folder = training_folder(run)
    Checkpoint(folder, "").clear()
    with suppress(OSError):  # it is not there, or not empty
        folder.rmdir()


def keep_data(folder: Path, data: Fingerprint) -> None:
    """Keep the fingerprint of the data where nothing was begun; where something was, they must be the same.

    One that was begun by an ncalr that kept none is taken as it is. Where nothing was learnt yet, an item may have
    other contents, as one has that could not be read and was mended.
    """
    path, known = folder / DATA, read_data(folder)
    if known == data:
        return
    mended = known is not None and not has_learnt(folder) and not differences(_but_contents(known), _but_contents(data))
    if mended or not has_begun(folder):
        clear_training(folder)  # a first one that was killed: it learnt from other data
        write_whole(path, json.dumps(data, indent=1))
    else:
        check_data(folder, data)


def check_data(folder: Path, data: Fingerprint) -> None:
    """An error where the folder was begun with other data; one that says nothing of its data is taken as it is."""
    known = read_data(folder)
    found = [] if known is None else differences(known, data)
    if found:
        raise BadInput(
            f"the data are not those that {folder} was begun with: {'; '.join(found)}. Put them back as they were, or "
            "begin again in another folder"
        )


def _but_contents(data: Fingerprint) -> Fingerprint:
    return {**data, **{name: {**data[name], "contents": ""} for name in ("pool", "test")}}
