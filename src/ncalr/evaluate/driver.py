"""Evaluate the runs of an experiment, and keep what was found beside their journals.

Each run's folder gets `evaluations.jsonl`, one line a task and round; what is there already, with the same wishes of
those that the task reads, is not computed again, so an evaluation that was killed goes on. A value that is not a number
is null there. The report shows the lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ncalr.data.dataset import Dataset, load
from ncalr.data.files import open_own, wait_for
from ncalr.data.fingerprint import fingerprint
from ncalr.errors import BadInput, check_known
from ncalr.evaluate.subjects import Place, Subject, kept, places, subjects_at
from ncalr.evaluate.tasks import TASKS, Evaluation, Wishes
from ncalr.lab.evaluations import EVALUATIONS, VERSION, read_evaluations
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run, read_experiment, read_runs
from ncalr.lab.statistics import plain
from ncalr.loop.journal import check_data

Line = dict[str, Any]
POOLS = 16  # that a learner keeps ready: the data's own, and those that OOD sets and probes bring


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
    evaluator = Evaluator(folder, wishes, device=device, learner=learner, arithmetic=arithmetic)
    evaluator.run(tasks, rounds=rounds, missing=missing, say=say)
    return [line for run in read_runs(folder) for line in read_evaluations(run)]


class Evaluator:
    """Evaluates an experiment as often as it is asked: data, learner and OOD sets are those of the first time.

    They are read when a model is first looked at: where there is nothing new, journals are all that is read.
    """

    def __init__(
        self,
        folder: Path | str,
        wishes: Wishes | None = None,
        *,
        device: Any = None,
        learner: Any = None,
        arithmetic: Any = None,
    ) -> None:
        self.folder, self.wishes, self.arithmetic = Path(folder), wishes or Wishes(), arithmetic
        self._device, self._learner = device, learner
        self._shelf: dict[Any, Any] = {}

    def run(
        self,
        tasks: Sequence[str],
        *,
        rounds: str = "last",
        missing: str = "error",
        say: Callable[[str], Any] | None = None,
        runs: list[Run] | None = None,
        failed: Callable[[Exception], Any] | None = None,
    ) -> int:
        """Run tasks over the models that are there now; how many lines that makes. `runs` are those of the folder.

        With `failed`, what is raised for a model is told, and the next one is looked at.
        """
        for task in tasks:
            check_known("task", task, TASKS)
        if not tasks:
            raise BadInput(f"no tasks given; choose among {', '.join(TASKS)}")
        runs = read_runs(self.folder) if runs is None else runs
        found = places(runs, rounds=rounds, missing=missing, wanted=self._wanted(tasks, runs))
        single = failed is not None and missing != "retrain"  # what is trained again is trained side by side
        done = 0
        for some in [[place] for place in found] if single else [found]:
            try:
                for _ in self._lines(tasks, some, say):
                    done += 1
            except Exception as error:
                if failed is None:
                    raise
                failed(error)
        return done

    def _lines(self, tasks: Sequence[str], found: list[Place], say: Callable[[str], Any] | None) -> Iterator[Line]:
        for subject in self._subjects(found):
            for task in self._left(tasks, read_evaluations(subject.run), subject.round):
                line = _line(subject, task, self.wishes, TASKS[task](subject, self.wishes))
                _append(subject.run, line)
                if say is not None:
                    say(f"{subject.run.strategy}, seed {subject.run.seed}, {line['labelled']:,} labels: {_brief(line)}")
                yield line

    def lost(self, tasks: Sequence[str], rounds: str = "ended") -> list[Place]:
        """The models of these rounds that these tasks would still look at, and which are not there."""
        runs = [run for run in read_runs(self.folder) if (run.ended if rounds == "ended" else run.accuracies)]
        found = places(runs, rounds=rounds, missing="retrain", wanted=self._wanted(tasks, runs)) if runs else []
        return [place for place in found if not kept(*place)]

    def _wanted(self, tasks: Sequence[str], runs: list[Run]) -> Callable[[Run, int], list[str]]:
        """The tasks that have still to look at a model, by what is there now."""
        known = {run.journal.path: read_evaluations(run) for run in runs}
        return lambda run, number: self._left(tasks, known[run.journal.path], number)

    def _left(self, tasks: Sequence[str], lines: list[Line], number: int) -> list[str]:
        return [task for task in tasks if not _found(lines, number, task, self.wishes)]

    def _subjects(self, found: list[Place]) -> Iterator[Subject]:
        if found:
            yield from subjects_at(found, *self._read, self._shelf, self.arithmetic)

    @cached_property
    def _read(self) -> tuple[Experiment, Dataset, Any]:
        """The experiment, its data, and a learner for its models."""
        experiment = read_experiment(self.folder)
        dataset = load(experiment.dataset, self.wishes.root)
        check_data(self.folder, fingerprint(dataset))
        learner = self._learner
        if learner is None:
            from ncalr.learn import TorchLearner

            how = {"device": self._device, "pools": POOLS, "progress": False}
            learner = TorchLearner(experiment.network, experiment.recipe, **how)
        return experiment, dataset, learner


def _found(lines: list[Line], number: int, task: str, wishes: Wishes) -> bool:
    """Whether this is there already; a wish that a line does not know was not there when it was written."""
    asked, unsaid = wishes.of(task), Wishes().of(task)
    return any(
        line["task"] == task and line["round"] == number and asked == {**unsaid, **_common(line["wishes"], asked)}
        for line in lines
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
        **({} if subject.again is None else {"journal": subject.first_accuracy}),
        "values": found.values,
        "shown": list(found.shown),
        "notes": list(found.notes),
        "limits": found.limits,
        **found.more,
        "wishes": wishes.of(task),
    }


def _append(run: Run, line: Line) -> None:
    """One line more; what a killed evaluation left of its last line is dropped.

    Locked: another evaluation, of other tasks perhaps, may be writing here, and what it wrote is no torn line.
    """
    with open_own(run.journal.folder / EVALUATIONS, "ab+") as file:
        wait_for(file.fileno())
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(plain(line), allow_nan=False).encode() + b"\n")


def _brief(line: Line) -> str:
    known = [name for name in line["shown"] if math.isfinite(line["values"][name])]
    return f"{line['task']} " + ", ".join(f"{name} {line['values'][name]:.4g}" for name in known[:4])
