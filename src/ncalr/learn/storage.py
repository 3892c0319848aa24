"""Models and half-finished trainings on disk: safetensors for arrays, JSON for facts, no pickle.

A checkpoint is two files. The arrays are written under a new name and synced first, then `training.json`, which names
them, replaces its predecessor in one step; so at any moment the folder holds one whole checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.files import write_whole
from ncalr.data.received import inside, read_object, reading, safetensors_header
from ncalr.errors import BadInput
from ncalr.extras import load


def _safetensors() -> Any:
    return load("safetensors.numpy", "torch", "saving a model")


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file that appears whole or not at all."""
    ready = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    write_whole(path, _safetensors().save(ready))


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of a file."""
    safetensors_header(path)
    with reading(path, ".safetensors", "save the model again"):
        return dict(_safetensors().load(path.read_bytes()))


def write_facts(path: Path, facts: dict[str, Any]) -> None:
    """Write JSON to a file that appears whole or not at all."""
    write_whole(path, json.dumps(facts, indent=1))


def save_model(folder: Path, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
    """model.safetensors and model.json."""
    folder.mkdir(parents=True, exist_ok=True)
    write_arrays(folder / "model.safetensors", arrays)
    write_facts(folder / "model.json", facts)


def load_model(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `save_model` wrote."""
    if not (folder / "model.json").exists():
        raise BadInput(f"no model in {folder}: expected model.json and model.safetensors there")
    facts = read_object(folder / "model.json", "save the model again")
    return read_arrays(folder / "model.safetensors"), facts


def fingerprint(task: Any, recipe: dict[str, Any], network: str) -> str:
    """What a checkpoint belongs to: the same labels, recipe, network, seed and round."""
    job = task.job
    digest = hashlib.sha256()
    facts = (sorted(recipe.items()), network, job.seed, job.round, sorted(job.needs), task.classes, len(job.pool))
    digest.update(repr(facts).encode())
    for array in (task.positions, task.labels, task.watch):
        digest.update(np.ascontiguousarray(array, np.int64).tobytes())
    if task.soft is not None:
        digest.update(np.ascontiguousarray(task.soft).tobytes())
    return digest.hexdigest()


class Checkpoint:
    """The last state of a training, in a folder; does nothing without one."""

    def __init__(self, folder: Path | None, belongs: str, own: bool = False) -> None:
        self.folder, self.belongs, self.own = None if folder is None else Path(folder), belongs, own

    def write(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
        """Replace the last state by this one."""
        assert self.folder is not None  # noqa: S101 (the caller looked)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"training-{facts['epoch']}.safetensors"
        write_arrays(self.folder / name, arrays)
        write_facts(self.folder / "training.json", {"belongs": self.belongs, "arrays": name, **facts})
        self._drop(but=name)

    def read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The last state, or None where there is none.

        A checkpoint of another training, or one that cannot be read, is an error: nothing is overwritten. In a folder
        of the job's own it is dropped.
        """
        if self.folder is None or not (self.folder / "training.json").exists():
            return None
        try:
            facts = read_object(self.folder / "training.json", "delete that folder to begin the training again")
            if facts.get("belongs") != self.belongs:
                raise BadInput(
                    f"{self.folder} holds the checkpoint of another training (other labels, recipe, network or seed); "
                    "give this one another folder, or delete that one"
                )
            return read_arrays(inside(self.folder, facts.get("arrays"), "checkpoint")), facts
        except Exception:  # or it cannot be read
            if not self.own:
                raise
        self.clear()
        return None

    def clear(self) -> None:
        """The training is over: nothing to go on from."""
        if self.folder is not None:
            (self.folder / "training.json").unlink(missing_ok=True)
            self._drop(but="")

    def _drop(self, but: str) -> None:
        assert self.folder is not None  # noqa: S101 (the callers looked)
        for path in self.folder.glob("training-*.safetensors"):
            if path.name != but:
                path.unlink(missing_ok=True)  # every rank may clear
