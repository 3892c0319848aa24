"""What a folder is for: claimed for an experiment and its data, and anew where nothing was learnt yet."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ncalr.data.fingerprint import Fingerprint, differences
from ncalr.errors import BadInput
from ncalr.loop.journal import DATA, Journal, claim, has_learnt, keep_data, read_claim

Claim = dict[str, Any]


def claim_all(out: Path, claims: Mapping[Path, Claim], data: Fingerprint) -> None:
    """Claim `out` and the folders below it, each for its experiment, all with the same data.

    Where no training has ended in any of them, what was begun for something else is cleared away: its journals have the
    first labels alone, which the same oracles give again.
    """
    there = _there(out)
    if (
        "strategies" in there
        and not has_learnt(out)
        and not all(_fits(folder, claims[folder], data) for folder in claims)
    ):
        _clear(out)
    for folder, one in claims.items():
        claim(folder, one)
        keep_data(folder, data)


def _there(folder: Path) -> Claim:
    """What a folder is for; nothing where that is not known."""
    path = folder / "experiment.json"
    try:
        return read_claim(path) if path.exists() else {}
    except BadInput:
        return {}


def _fits(folder: Path, wanted: Claim, data: Fingerprint) -> bool:
    there, path = _there(folder), folder / DATA
    return there in ({}, json.loads(json.dumps(wanted))) and not (path.exists() and differences(read_claim(path), data))


def _clear(out: Path) -> None:
    """Take away the runs below a folder, and no others: a process that is in one of them is left alone."""
    with ExitStack() as locks:
        runs = [journal.parent for journal in sorted(out.rglob("journal.jsonl"))]
        for run in runs:
            locks.enter_context(Journal(run).locked())
        for path in (path for run in runs for path in run.iterdir() if path.name != "lock"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
