"""The models of finished runs, each with what it was trained on: what the evaluations look at.

A run keeps its journal, and its models only if asked to (`ncalr run --keep last`). Either is enough: training is
reproducible from (seed, round) and the labels of that round, so a model that was not kept can be trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.data.dataset import Dataset
from ncalr.data.pool import Pool
from ncalr.errors import BadInput, check_known
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run
from ncalr.learn.learner import Job, Learner, Model
from ncalr.loop.run import model_folder
from ncalr.loop.state import replay

TOGETHER = 6  # models trained again side by side, and held at a time
AGAIN = "trained again"
"""What the record of a model says that is not the one of the journal."""
MISSING = ("error", "retrain", "skip")
"""What to do about models that were not kept."""
ROUNDS = ("last", "ended", "all")
"""Which rounds to look at: the last of each run, as far as it went; the last of the runs that have ended; every one."""


Place = tuple[Run, int]
"""A run, and the number of a line of its journal that is about a training."""


class Seen(NamedTuple):
    """What a model makes of some items."""

    features: Any  # (n, d)
    logits: Any  # (n, c)
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Subject:
    """The model of one round of one run."""

    run: Run
    round: int
    experiment: Experiment
    dataset: Dataset
    learner: Learner
    model: Any
    ids: Any  # of the labelled items, in the order in which they were labelled
    labels: npt.NDArray[np.int64]  # as they were given: wrong ones are wrong here too
    shelf: dict[Any, Any] = field(default_factory=dict)
    """Datasets that were read for one model, for the next one."""
    arithmetic: Any = None
    """Where to compute from features; None: where the learner trains."""
    again: float | None = None
    """The accuracy of a model that was trained again, which need not be that of the first one."""

    @property
    def accuracy(self) -> float:
        """On the test set; of a model that was trained again its own."""
        return self.first_accuracy if self.again is None else self.again

    @property
    def first_accuracy(self) -> float:
        """What the journal has."""
        return float(self.run.lines[self.round]["accuracy"])

    @property
    def device(self) -> Any:
        """Where the learner trains; None where it has no say in that."""
        return getattr(self.learner, "device", None)

    @property
    def place(self) -> Any:
        """Where what is computed from features is computed."""
        return self.device if self.arithmetic is None else self.arithmetic

    @property
    def picked(self) -> Any:
        """The ids that a strategy picked: all that are labelled but the initial pool, which is drawn at random."""
        initial = set(self.run.lines[0].get("ids", []))
        return self.ids[[item not in initial for item in self.ids.tolist()]]

    @cached_property
    def labelled(self) -> Seen:
        """The labelled set under the model."""
        return Seen(*self.outputs(self.dataset.pool, self.ids), self.labels)

    @cached_property
    def tested(self) -> Seen:
        """The test set under the model."""
        return Seen(*self.outputs(self.dataset.test), self.dataset.test_labels)

    @cached_property
    def head(self) -> tuple[Any, Any] | None:
        """Weights and bias of the last layer."""
        found: tuple[Any, Any] | None = self.model.head(self.dataset.test)
        return found

    def once(self, read: Callable[..., Any], name: str, root: Any) -> Any:
        """What `read(name, dataset, root)` gives, read for the first model alone."""
        if (read, name) not in self.shelf:
            self.shelf[read, name] = read(name, self.dataset, root)
        return self.shelf[read, name]

    def outputs(self, pool: Pool, ids: Any = None) -> tuple[Any, Any]:
        """Features and logits of items; an error for a model that has no features."""
        if not hasattr(self.model, "outputs"):
            raise BadInput(f"{type(self.model).__name__} gives no features; evaluate runs of a TorchLearner")
        found: tuple[Any, Any] = self.model.outputs(pool, ids)
        return found


def places(
    runs: list[Run],
    *,
    rounds: str = "last",
    missing: str = "error",
    wanted: Callable[[Run, int], Any] = lambda _run, _number: True,
) -> list[Place]:
    """Where the models of these runs are, by their journals: of the rounds that `ROUNDS` says, those that are `wanted`.

    A model that was not kept is an error, or is among them to be trained again (`missing="retrain"`), or left out
    ("skip").
    """
    check_known("way with missing models", missing, MISSING)
    check_known("rounds", rounds, ROUNDS)
    every = [(run, number) for run in runs for number in _trained(run, rounds)]
    if not every:
        what = "ended" if rounds == "ended" else "finished a training"
        raise BadInput(f"no run has {what} yet: nothing to evaluate")
    found = [(run, number) for run, number in every if wanted(run, number)]
    unkept = [(run, number) for run, number in found if not kept(run, number)]
    if unkept and missing == "error":
        raise BadInput(_not_kept(unkept, len(found)))
    if missing == "skip":
        found = [(run, number) for run, number in found if kept(run, number)]
    return found


def subjects_at(
    found: Sequence[Place],
    experiment: Experiment,
    dataset: Dataset,
    learner: Learner,
    shelf: dict[Any, Any] | None = None,
    arithmetic: Any = None,
) -> Iterator[Subject]:
    """The models at these places, loaded or trained again. The shelf may be one that others have filled."""
    shelf = {} if shelf is None else shelf
    for start in range(0, len(found), TOGETHER):
        some = found[start : start + TOGETHER]
        again = [at for at, (run, number) in enumerate(some) if not kept(run, number)]
        models: Sequence[Model] = []
        if again:
            with some[again[0]][0].journal.threads():  # the models that the run had, not some like them
                models = learner.fit_all([job_of(*some[at], dataset) for at in again])
        trained = dict(zip(again, models, strict=True))
        for at, (run, number) in enumerate(some):
            subject = _subject(run, number, trained.get(at), experiment, dataset, learner)
            yield replace(subject, shelf=shelf, arithmetic=arithmetic)


def _trained(run: Run, rounds: str) -> list[int]:
    numbers = [number for number, line in enumerate(run.lines) if "accuracy" in line]
    if rounds == "ended" and not run.ended:
        return []
    return numbers if rounds == "all" else numbers[-1:]


def kept(run: Run, number: int) -> bool:
    """Whether the model of a round is there."""
    return model_folder(run.journal.folder, number).is_dir()


def _not_kept(missing: list[Place], wanted: int) -> str:
    seconds = sum(run.lines[number].get("seconds", {}).get("train", 0.0) for run, number in missing)
    return (
        f"{len(missing)} of {wanted} models were not kept; run with --keep last (or all), or evaluate with --missing "
        f"retrain, which trains them again from the journals (the first time they took {seconds:.0f} s in all)"
    )


def keep_again(model: Model, run: Run, number: int) -> None:
    """Keep a model that was trained again where its run had it. It says so itself, to whoever loads it."""
    model.record.notes.append(AGAIN)
    folder = model_folder(run.journal.folder, number)
    part = folder.with_name(f"{folder.name}.part")
    model.save(part)
    part.rename(folder)  # whole at once: others may look for it meanwhile


def job_of(run: Run, number: int, dataset: Dataset) -> Job:
    """What the model of a round was trained on."""
    state = replay(run.lines[:number])
    state.change(run.lines[number])
    ids, labels = np.array(list(state.labels)), np.array(list(state.labels.values()), np.int64)
    soft = state.targets(len(dataset.classes))
    return Job(dataset.pool, ids, labels, len(dataset.classes), seed=run.seed, round=number, watch=[], soft=soft)


def _subject(
    run: Run, number: int, trained: Any, experiment: Experiment, dataset: Dataset, learner: Learner
) -> Subject:
    model = learner.load(model_folder(run.journal.folder, number)) if trained is None else trained
    job = job_of(run, number, dataset)
    found = Subject(run, number, experiment, dataset, learner, model, job.ids, job.labels)
    return found if trained is None and AGAIN not in model.record.notes else _compared(found)


def _compared(subject: Subject) -> Subject:
    """A model trained again should be as good as the first was: the same on the same machine, near it elsewhere."""
    return replace(subject, again=float((subject.tested.logits.argmax(axis=1) == subject.tested.labels).mean()))
