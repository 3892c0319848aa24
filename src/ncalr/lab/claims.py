"""What a folder is for: claimed for an experiment and its data, added to, and claimed anew where nothing was learnt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ncalr.data.dataset import placed
from ncalr.data.files import write_whole
from ncalr.data.fingerprint import Fingerprint, differences
from ncalr.data.received import inside
from ncalr.errors import BadInput
from ncalr.loop.journal import Journal, claim, has_learnt, keep_data, read_claim, read_data

Claim = dict[str, Any]
MEMBERS = "members"
"""Where the claim of several experiments in one folder names them (`study.py`)."""


def claim_all(out: Path, claims: Mapping[Path, Claim], data: Fingerprint) -> None:
    """Claim `out` and the folders below it, each for its experiment, all with the same data.

    Where no training has ended in any of them, what was begun for something else is cleared away: its journals have the
    first labels alone, which the same oracles give again. Nothing changes while a process is in one of the runs.
    """
    claims = {folder: _plain(one) for folder, one in claims.items()}
    fits = all(_fits(folder, claims[folder], data) for folder in claims)
    runs = _runs({*claims, *(inside(out, name, "member") for name in _members(out))})
    with ExitStack() as locks:
        if not all(_is_as_wanted(folder, claims[folder], data) for folder in claims):
            for run in runs:
                locks.enter_context(Journal(run).locked())
        if not fits and "strategies" in _there(out) and not has_learnt(out):
            for run in runs:
                _clear(run)
        for folder, one in claims.items():
            claim_experiment(folder, one, data)


def claim_experiment(folder: Path, wanted: Claim, data: Fingerprint | None = None) -> None:
    """Claim a folder for an experiment, or for the same with more seeds or strategies than it holds.

    The claim is the last that changes, in one step: killed before, the folder is as it was, and killed after, the new
    runs are those that are not begun yet.
    """
    there, wanted = _there(folder), _plain(wanted)
    more = there != wanted and _grown(folder, wanted, data)
    claim(folder, there if more else wanted)
    if data is not None:
        keep_data(folder, data)
    if more:
        write_whole(folder / "experiment.json", json.dumps(wanted, indent=1))


def _grown(folder: Path, wanted: Claim, data: Fingerprint | None) -> bool:
    """Whether nothing is wanted but all that is there, more seeds or strategies, and the same data elsewhere."""
    there = _there(folder)
    try:
        there["dataset"] = placed(there["dataset"])  # older ones have it as it was typed
        grown = there["seeds"] <= wanted["seeds"] and set(there["strategies"]) <= set(wanted["strategies"])
    except (KeyError, TypeError, AttributeError, BadInput):  # it is not the claim of an experiment
        return False
    free = {"seeds": 0, "strategies": 0}
    if data is not None and read_data(folder) == data:
        free["dataset"] = 0
    return grown and {**there, **free} == {**wanted, **free}


def _plain(claim: Claim) -> Claim:
    """As it will be read again."""
    found: Claim = json.loads(json.dumps(claim))
    return found


def _there(folder: Path) -> Claim:
    """What a folder is for; nothing where that is not known."""
    path = folder / "experiment.json"
    try:
        return read_claim(path) if path.exists() else {}
    except BadInput:
        return {}


def _members(folder: Path) -> list[str]:
    """The folders that a study names."""
    found = _there(folder).get(MEMBERS, {})
    return list(found) if isinstance(found, dict) else []


def _is_as_wanted(folder: Path, wanted: Claim, data: Fingerprint) -> bool:
    return _there(folder) == wanted and read_data(folder) in (None, data)


def _fits(folder: Path, wanted: Claim, data: Fingerprint) -> bool:
    known = read_data(folder)
    same = not _there(folder) or _grown(folder, wanted, data)
    return same and not (known is not None and differences(known, data))


def _runs(folders: Iterable[Path]) -> list[Path]:
    """The runs of these experiments: folders that a runner has claimed, and no others."""
    found = [path.parent for folder in sorted(folders) for path in sorted(folder.glob("runs/*/journal.jsonl"))]
    return [run for run in found if {"strategy", "budgets"} <= _there(run).keys()]


def _clear(run: Path) -> None:
    """Take away what a run has, but its lock."""
    for path in run.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
