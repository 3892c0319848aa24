"""The seam between a model and everything else.

A `Learner` is fitted on some ids of a pool and their labels, and gives a `Model`; a model gives evidence: the named
arrays a strategy asks for (`ncalr.acquire.evidence` lists them), and nothing else.

    model = learner.fit(Job(pool, ids, labels, needs=needs_of("ncal")))
    picks = ncalr.query("ncal", 100, ids=model.watched, **model.evidence())

Several jobs (seeds, strategies) may be given at once, and a learner that can trains them side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ncalr.acquire.door import counted_from_one
from ncalr.acquire.evidence import SHAPES, source_of
from ncalr.acquire.registry import resolve
from ncalr.data.pool import Pool, positions_of
from ncalr.errors import BadInput

EVIDENCE = frozenset(SHAPES) - {"predictions", "flips"} | {"labelled_log"}
"""What a learner can be asked for: what a strategy reads and cannot derive, and one more.

`labelled_log` are logits (t, m, c) of the labelled items at each check of the training, an entry of the record's
history each. What a network says of an item in its terminal phase is what it was told about it; what it said on the way
there is an opinion (`ncalr.loop.voice`)."""

SUBSTITUTES = {"logits": "probs", "labelled_logits": "labelled_probs"}
"""What a learner that knows no logits gives in their place; `query` takes either."""


UNCHANGED, UNSETTLED = "no prediction changed", "not converged"
"""How notes of a training begin that advise whoever sets the learner: who cannot is told in other words."""


@dataclass(frozen=True)
class Job:
    """One training: which ids of the pool, with which labels, and what will be asked of the model."""

    pool: Pool
    ids: Any
    labels: Any
    classes: int = 0  # 0: as many as the largest label says
    seed: int = 0
    round: int = 0
    needs: frozenset[str] = frozenset()  # names of EVIDENCE; see `needs_of`
    watch: Any = None  # ids to give evidence about; all that are not labelled, if None
    soft: Any = None  # distributions (m, c) to learn in place of the labels, where several annotators answered
    recipe: Any = None  # how to train this one, where it is not as the learner's others: a name or a `Recipe`
    folder: Path | None = None  # where to keep checkpoints, so that a killed training goes on
    own: bool = False  # the folder is this job's alone: its giver clears it, and a checkpoint of another job is dropped

    def checked(self) -> Task:
        """The job with ids as positions, after all checks."""
        positions = positions_of(self.pool, self.ids)
        labels = np.asarray(self.labels)
        if not len(positions):
            raise BadInput("the labelled set is empty; label a few items first (strategy random needs no model)")
        if labels.shape != positions.shape or labels.dtype.kind not in "iu":
            raise BadInput(f"{len(positions)} ids need as many whole-number labels, got {labels.dtype} {labels.shape}")
        classes = self.classes or int(labels.max()) + 1
        if labels.min() < 0 or labels.max() >= classes:
            raise BadInput(f"labels must lie in 0..{classes - 1}, got {labels.min()}..{labels.max()}")
        if classes < 2 or len(np.unique(labels)) < 2:
            raise BadInput(
                f"all {len(labels)} labels are of one class: a classifier needs two; label more items, or pick the "
                "next ones with a strategy that needs no model (random, typiclust, probcover)"
            )
        notes = () if self.classes else counted_from_one(labels)
        strangers = frozenset(self.needs) - EVIDENCE
        if strangers:
            raise BadInput(
                f"no learner gives {', '.join(sorted(strangers))}; it can give {', '.join(sorted(EVIDENCE))}"
            )
        if self.watch is None:
            open_ = np.ones(len(self.pool), bool)
            open_[positions] = False
            watch = np.flatnonzero(open_)
        else:
            watch = positions_of(self.pool, self.watch)
        soft = self._soft(len(positions), classes)
        return Task(self, positions, labels.astype(np.int64), classes, watch, soft, notes)

    def _soft(self, items: int, classes: int) -> Any:
        if self.soft is None:
            return None
        soft = np.asarray(self.soft, np.float32)
        if soft.shape != (items, classes) or not np.isfinite(soft).all() or soft.min() < 0:
            raise BadInput(f"soft targets must be distributions of shape ({items}, {classes}), got {soft.shape}")
        if np.abs(soft.sum(axis=1) - 1).max() > 1e-3:
            raise BadInput("soft targets must sum to 1 in every row")
        return soft


@dataclass(frozen=True)
class Task:
    """A job that was checked: positions in the pool instead of ids."""

    job: Job
    positions: npt.NDArray[np.intp]
    labels: npt.NDArray[np.int64]
    classes: int
    watch: npt.NDArray[np.intp]
    soft: Any = None
    notes: tuple[str, ...] = ()  # for the record


@dataclass
class Record:
    """What happened in a training: plain data, ready for JSON."""

    history: list[dict[str, float]] = field(default_factory=list)  # one entry a check: epoch, accuracy, nc1, ...
    rule: str = ""  # what began the terminal phase (accuracy, plateau, fallback), or how checkpoints were made
    began: int = 0  # after which epoch
    checkpoints: list[int] = field(default_factory=list)  # the epochs of the window
    epochs: int = 0
    images: int = 0  # seen in training
    seconds: float = 0.0
    flipping: float | None = None  # share of the watched items with FF above 0, where checkpoints were watched
    separation: dict[str, Any] = field(default_factory=dict)  # of the class means, at the last check
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Model(Protocol):
    """A fitted model."""

    record: Record
    watched: Any  # the ids its evidence is about, in order

    def evidence(self) -> dict[str, Any]:
        """What the job's needs named, about the watched ids and the labelled ones, ready for `ncalr.query`."""

    def predict(self, pool: Pool, ids: Any = None) -> Any:
        """Outputs (n, c) for items of a pool: logits, or probabilities where the model knows no logits."""

    def save(self, folder: Path | str) -> None:
        """Write the model: safetensors, NumPy arrays and JSON, no pickle."""


class Learner(Protocol):
    """Something that learns."""

    def fit(self, job: Job) -> Model:
        """Train on one job."""

    def fit_all(self, jobs: Sequence[Job]) -> Sequence[Model]:
        """Train on several jobs, side by side where the learner can."""

    def load(self, folder: Path | str) -> Model:
        """A model that was saved, for predictions: evidence belongs to the training and is not kept."""


def fit_each(learner: Learner, jobs: Iterator[Job | None]) -> Iterator[tuple[int, Model]]:
    """Models of jobs that come one by one, each with the number of its job, as soon as it is ready.

    `jobs` is asked for the next one whenever there is room. None means that there is none yet: it is asked again after
    the next model, which may bring another job. A learner that trains side by side has a `fit_each(jobs)` of its own;
    any other takes one job after the other.
    """
    own = getattr(learner, "fit_each", None)
    if own is not None:
        yield from own(jobs)
        return
    for at in itertools.count():
        job = next(jobs, None)
        if job is None:
            return
        yield at, learner.fit(job)


def needs_of(*strategies: Any) -> frozenset[str]:
    """The evidence that these strategies need from a learner.

    >>> sorted(needs_of("margin"))
    ['logits']
    """
    wanted: set[str] = set()
    for strategy in strategies:
        plan = resolve(strategy, {})
        for name in plan.needs | plan.wants:
            wanted.update(source_of(name, EVIDENCE) or ())
    return frozenset(wanted)
