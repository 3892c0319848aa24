"""What the study left in results/: its runs, and what the slices took in which they were trained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ncalr.lab.runner import Run, read_runs

ROOT = Path(__file__).resolve().parents[1]
STUDY, NOISE, PAGES = ROOT / "results" / "study", ROOT / "results" / "noise", ROOT / "docs" / "results"


def begun(experiments: Iterable[str]) -> list[Run]:
    """The runs of some experiments, as far as they went."""
    return [run for name in experiments if (STUDY / name).is_dir() for run in read_runs(STUDY / name)]


def finished(experiments: Iterable[str]) -> list[Run]:
    """The finished runs of some experiments."""
    return [run for run in begun(experiments) if run.ended]


def slices_of(*experiments: str, home: Path | None = None) -> list[dict[str, Any]]:
    """What the slices noted about some experiments, or about all."""
    path = (home or STUDY) / "slices.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [one for one in lines if not experiments or one["experiment"] in experiments]


def on_a_card(slices: list[dict[str, Any]]) -> bool:
    """Whether all of something was trained on a GPU, and noted."""
    return bool(slices) and all(one["gpu"] for one in slices)


def card_seconds(runs: Iterable[Run], slices: list[dict[str, Any]]) -> list[float]:
    """What each run took of the card: its scoring, and its training over the number that usually ran side by side."""
    together: Counter[int] = Counter()
    for one in slices:
        together[one["together"]] += one["trainings"]
    (usual, _), *_ = together.most_common(1)
    took = [[line["seconds"] for line in run.lines if "seconds" in line] for run in runs]
    return [sum(one["round"] + one.get("train", 0) / usual for one in run) for run in took]
