"""Evaluate the runs of an experiment, and keep what was found beside their journals.

Each run's folder gets `evaluations.jsonl`, one line a task and round; what is there already, with the same wishes of
those that the task reads, is not computed again, so an evaluation that was killed goes on. A value that is not a number
is null there. The report shows the lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ncalr.data.dataset import load
from ncalr.data.fingerprint import fingerprint
from ncalr.errors import BadInput, unknown
from ncalr.evaluate.subjects import Subject, subjects
from ncalr.evaluate.tasks import TASKS, Evaluation, Wishes
from ncalr.lab.evaluations import EVALUATIONS, VERSION, read_evaluations
from ncalr.lab.runner import Run, read_experiment, read_runs
from ncalr.lab.statistics import plain
from ncalr.loop.journal import check_data

Line = dict[str, Any]


def evaluate(
    folder: Path | str,
    tasks: Sequence[str] = ("collapse", "separation", "calibration"),
    *,
    rounds: str = "last",
    wishes: Wishes | None = None,
    missing: str = "error",
    device: Any = None,
    learner: Any = None,
    arithmetic: Any = None,
    say: Callable[[str], Any] | None = None,
) -> list[Line]:
    """Run tasks over the models of an experiment; all lines that are there now, the new ones last.

    device: where networks run. arithmetic: where what follows from their features is computed, if not there: "cpu"
    leaves a GPU to others but for the forward passes.
    """
    wishes = wishes or Wishes()
    for task in tasks:
        if task not in TASKS:
            raise unknown("task", task, TASKS)
    if not tasks:
        raise BadInput(f"no tasks given; choose among {', '.join(TASKS)}")
    experiment = read_experiment(folder)
    dataset = load(experiment.dataset, wishes.root)
    check_data(Path(folder), fingerprint(dataset))
    if learner is None:
        from ncalr.learn import TorchLearner

        learner = TorchLearner(experiment.network, experiment.recipe, device=device, progress=False)

    def left(run: Run, number: int) -> list[str]:
        return [task for task in tasks if not _found(run, number, task, wishes)]

    runs = read_runs(folder)
    for subject in subjects(
        experiment, runs, dataset, learner, rounds=rounds, missing=missing, wanted=left, arithmetic=arithmetic
    ):
        for task in left(subject.run, subject.round):
            line = _line(subject, task, wishes, TASKS[task](subject, wishes))
            _append(subject.run, line)
            if say is not None:
                say(f"{subject.run.strategy}, seed {subject.run.seed}, {line['labelled']:,} labels: {_brief(line)}")
    return [line for run in read_runs(folder) for line in read_evaluations(run)]


def _found(run: Run, number: int, task: str, wishes: Wishes) -> bool:
    """Whether this is there already; a wish that a line does not know was not there when it was written."""
    asked, unsaid = wishes.of(task), Wishes().of(task)
    return any(
        line["task"] == task and line["round"] == number and asked == {**unsaid, **_common(line["wishes"], asked)}
        for line in read_evaluations(run)
    )


def _common(wishes: Line, asked: Line) -> Line:
    return {name: value for name, value in wishes.items() if name in asked}


def _line(subject: Subject, task: str, wishes: Wishes, found: Evaluation) -> Line:
    return {
        "version": VERSION,
        "task": task,
        "round": subject.round,
        "labelled": len(subject.ids),
        "accuracy": subject.accuracy,
        "values": found.values,
        "shown": list(found.shown),
        "notes": [*subject.notes, *found.notes],
        "limits": found.limits,
        **found.more,
        "wishes": wishes.of(task),
    }


def _append(run: Run, line: Line) -> None:
    """One line more; what a killed evaluation left of its last line is dropped.

    Locked: another evaluation, of other tasks perhaps, may be writing here, and what it wrote is no torn line.
    """
    import fcntl

    path = run.journal.folder / EVALUATIONS
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(plain(line), allow_nan=False).encode() + b"\n")


def _brief(line: Line) -> str:
    known = [name for name in line["shown"] if math.isfinite(line["values"][name])]
    return f"{line['task']} " + ", ".join(f"{name} {line['values'][name]:.4g}" for name in known[:4])
