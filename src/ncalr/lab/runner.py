"""Run an experiment: strategies times seeds, side by side, the first round shared, killed and started again at will.

Every run has a directory of its own with its own journal; the runner holds nothing that is not in one of them. The
first training of a seed is the same for all strategies (same initial pool, same labels, same seed), so it is made once.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ncalr.errors import BadInput
from ncalr.lab.experiment import Experiment
from ncalr.learn.learner import Job, Learner, Model, needs_of
from ncalr.loop.journal import Journal, claim
from ncalr.loop.run import Plan, Setting, rounds
from ncalr.loop.state import Line, State, replay

Watcher = Callable[["Run"], None]


@dataclass
class Run:
    """One strategy with one seed."""

    strategy: str
    seed: int
    journal: Journal
    lines: list[Line] = field(default_factory=list)
    training: Generator[Job, Model, State] | None = None
    job: Job | None = None

    @property
    def accuracies(self) -> list[tuple[int, float]]:
        """Labels and accuracy of every training so far."""
        return [(line["labelled"], line["accuracy"]) for line in self.lines if "accuracy" in line]


def conduct(
    experiment: Experiment,
    learner: Learner,
    settings: Callable[[int], Setting],
    classes: int,
    out: Path | str,
    watcher: Watcher | None = None,
    seeds: Collection[int] | None = None,
) -> list[Run]:
    """All runs of an experiment, from where their journals end. `settings(seed)` gives what a seed works on.

    With `seeds`, the runs of these alone: the others may be conducted elsewhere at the same time.
    """
    out = Path(out)
    claim(out, experiment.as_dict())
    with ExitStack() as locks:
        runs = [
            _open(experiment, strategy, seed, out, settings, classes, locks)
            for strategy, seed in pairs(experiment)
            if seeds is None or seed in seeds
        ]
        first_needs = needs_of(*experiment.strategies)
        shared: dict[int, Model] = {}
        waiting = deque(sorted((run for run in runs if run.job is not None), key=_order))
        for run in runs:
            _tell(watcher, run)
        together = max(int(getattr(learner, "together", 1)), 1)
        while waiting:
            batch: list[Run] = []
            jobs: dict[Any, Job] = {}
            while waiting and len(jobs) < together:
                run = waiting.popleft()
                job = run.job
                assert job is not None  # noqa: S101 (only runs with a job wait)
                batch.append(run)
                key = run.seed if job.round == 1 else (run.strategy, run.seed)
                if key not in shared:
                    jobs[key] = replace(job, needs=job.needs | first_needs) if job.round == 1 else job
            models = dict(zip(jobs, learner.fit_all(list(jobs.values())), strict=True))
            shared.update({key: model for key, model in models.items() if isinstance(key, int)})
            for run in batch:
                assert run.job is not None  # noqa: S101
                first = run.job.round == 1
                _advance(run, shared[run.seed] if first else models[(run.strategy, run.seed)])
                _tell(watcher, run)
                if run.job is not None:
                    waiting.append(run)
            waiting = deque(sorted(waiting, key=_order))
            still = {run.seed for run in waiting if run.job is not None and run.job.round == 1}
            shared = {seed: model for seed, model in shared.items() if seed in still}
    return runs


def read_experiment(out: Path | str) -> Experiment:
    """The experiment of a directory."""
    path = Path(out) / "experiment.json"
    if not path.exists():
        raise BadInput(f"no experiment in {out}: expected {path}")
    return Experiment.from_dict(json.loads(path.read_text()))


def read_runs(out: Path | str) -> list[Run]:
    """The runs of a directory as far as they went."""
    experiment = read_experiment(out)
    found = []
    for strategy, seed in pairs(experiment):
        journal = Journal(Path(out) / "runs" / slug(strategy, seed))
        found.append(Run(strategy, seed, journal, journal.lines()))
    return found


def pairs(experiment: Experiment) -> list[tuple[str, int]]:
    """Every strategy with every seed."""
    seeds = range(experiment.first_seed, experiment.first_seed + experiment.seeds)
    return [(strategy, seed) for seed in seeds for strategy in experiment.strategies]


def slug(strategy: str, seed: int) -> str:
    """A folder's name."""
    return f"{re.sub(r'[^A-Za-z0-9_.=-]+', '-', strategy).strip('-')}-{seed}"


def _open(
    experiment: Experiment,
    strategy: str,
    seed: int,
    out: Path,
    settings: Callable[[int], Setting],
    classes: int,
    locks: ExitStack,
) -> Run:
    plan = Plan(strategy, experiment.budgets, seed, classes, experiment.control)
    journal = Journal(out / "runs" / slug(strategy, seed))
    locks.enter_context(journal.locked())
    journal.begin(plan.as_dict())
    run = Run(strategy, seed, journal, journal.lines())
    if replay(run.lines).ended:
        return run
    run.training = rounds(plan, settings(seed), journal)
    run.job = next(run.training)
    run.lines = journal.lines()
    return run


def _advance(run: Run, model: Model) -> None:
    assert run.training is not None  # noqa: S101 (it has a job)
    try:
        run.job = run.training.send(model)
    except StopIteration:
        run.job = None
    run.lines = run.journal.lines()


def _tell(watcher: Watcher | None, run: Run) -> None:
    if watcher is not None:
        watcher(run)


def _order(run: Run) -> tuple[int, int]:
    return (run.job.round if run.job else 0, run.seed)
