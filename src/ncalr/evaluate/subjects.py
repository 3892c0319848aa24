"""The models of finished runs, each with what it was trained on: what the evaluations look at.

A run keeps its journal, and its models only if asked to (`ncalr run --keep last`). Either is enough: training is
reproducible from (seed, round) and the labels of that round, so a model that was not kept can be trained again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.data.dataset import Dataset
from ncalr.data.pool import Pool
from ncalr.errors import BadInput
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run
from ncalr.learn.learner import Job, Learner
from ncalr.loop.run import model_folder
from ncalr.loop.state import replay

TOGETHER = 6  # models trained again side by side, and held at a time


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
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        """On the test set, as the journal has it."""
        return float(self.run.lines[self.round]["accuracy"])

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

    def outputs(self, pool: Pool, ids: Any = None) -> tuple[Any, Any]:
        """Features and logits of items; an error for a model that has no features."""
        if not hasattr(self.model, "outputs"):
            raise BadInput(f"{type(self.model).__name__} gives no features; evaluate runs of a TorchLearner")
        found: tuple[Any, Any] = self.model.outputs(pool, ids)
        return found


def subjects(
    experiment: Experiment,
    runs: list[Run],
    dataset: Dataset,
    learner: Learner,
    *,
    rounds: str = "last",
    retrain: bool = False,
) -> Iterator[Subject]:
    """The models of these runs, run by run: of their last rounds, or of all.

    Kept models are loaded. Others are trained again if `retrain` says so, several at a time, and are an error if not.
    """
    if rounds not in ("last", "all"):
        raise BadInput(f"rounds must be 'last' or 'all', got {rounds!r}")
    wanted = [(run, number) for run in runs for number in _trained(run, rounds)]
    if not wanted:
        raise BadInput("no run has finished a training yet: nothing to evaluate")
    missing = [place for place, (run, number) in enumerate(wanted) if not _kept(run, number)]
    if missing and not retrain:
        raise BadInput(_not_kept([wanted[place] for place in missing], len(wanted)))
    for start in range(0, len(wanted), TOGETHER):
        places = range(start, min(start + TOGETHER, len(wanted)))
        again = [place for place in places if place in missing]
        models = learner.fit_all([_job(*wanted[place], dataset) for place in again]) if again else []
        trained = dict(zip(again, models, strict=True))
        for place in places:
            yield _subject(*wanted[place], trained.get(place), experiment, dataset, learner)


def _trained(run: Run, rounds: str) -> list[int]:
    numbers = [number for number, line in enumerate(run.lines) if "accuracy" in line]
    return numbers[-1:] if rounds == "last" else numbers


def _kept(run: Run, number: int) -> bool:
    return model_folder(run.journal.folder, number).is_dir()


def _not_kept(missing: list[tuple[Run, int]], wanted: int) -> str:
    seconds = sum(run.lines[number].get("seconds", {}).get("train", 0.0) for run, number in missing)
    return (
        f"{len(missing)} of {wanted} models were not kept; run with --keep last (or all), or evaluate with "
        f"--retrain, which trains them again from the journals (the first time they took {seconds:.0f} s in all)"
    )


def _job(run: Run, number: int, dataset: Dataset) -> Job:
    state = replay(run.lines[:number])
    state.change(run.lines[number])
    ids, labels = np.array(list(state.labels)), np.array(list(state.labels.values()), np.int64)
    soft = state.targets(len(dataset.classes))
    return Job(dataset.pool, ids, labels, len(dataset.classes), seed=run.seed, round=number, watch=[], soft=soft)


def _subject(
    run: Run, number: int, trained: Any, experiment: Experiment, dataset: Dataset, learner: Learner
) -> Subject:
    model = learner.load(model_folder(run.journal.folder, number)) if trained is None else trained
    job = _job(run, number, dataset)
    found = Subject(run, number, experiment, dataset, learner, model, job.ids, job.labels)
    return found if trained is None else _compared(found)


def _compared(subject: Subject) -> Subject:
    """A model trained again should be as good as the first was: the same on the same machine, near it elsewhere."""
    now = float((subject.tested.logits.argmax(axis=1) == subject.tested.labels).mean())
    if now == subject.accuracy:
        return subject
    note = f"trained again: accuracy {100 * now:.2f} %, the journal has {100 * subject.accuracy:.2f} %"
    return replace(subject, notes=(*subject.notes, note))
