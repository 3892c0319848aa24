"""Run an experiment: strategies times seeds, side by side, the first round shared, killed and started again at will.

Every run has a directory of its own with its own journal; the runner holds nothing that is not in one of them. The
first training of a seed is the same for all strategies (same initial pool, same labels, same seed), so it is made once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.data.received import reading
from ncalr.errors import BadInput
from ncalr.lab.claims import MEMBERS, claim_experiment
from ncalr.lab.experiment import Experiment
from ncalr.learn.learner import Job, Learner, Model, fit_each, needs_of
from ncalr.loop.answers import policy
from ncalr.loop.journal import Journal, clear_training, read_claim
from ncalr.loop.run import Plan, Setting, rounds
from ncalr.loop.state import Line, State, replay, spent
from ncalr.loop.stopping import stops_of

Watcher = Callable[["Run"], None]
Beginner = Callable[[int, Sequence["Run"]], None]


@dataclass
class Run:
    """One strategy with one seed."""

    strategy: str
    seed: int
    journal: Journal
    lines: list[Line] = field(default_factory=list)
    training: Generator[Job, Model, State] | None = None
    job: Job | None = None
    part: int = 0  # of several experiments that are conducted together
    data: str = ""  # the name of what it works on
    recipe: str | None = None  # of its trainings, where it is not the learner's

    @property
    def trained(self) -> list[Line]:
        """The lines of the trainings so far; the last one of a budget, where late answers made it two."""
        return [*{spent(line): line for line in self.lines if "accuracy" in line}.values()]

    @property
    def ended(self) -> bool:
        """Whether it has come to its end."""
        return bool(self.lines and self.lines[-1].get("stop"))

    @property
    def accuracies(self) -> list[tuple[int, float]]:
        """Budgets (labels, or answers where an item may get several) and the accuracy of every training so far."""
        return [(spent(line), line["accuracy"]) for line in self.trained]


@dataclass(frozen=True)
class Part:
    """One of several experiments that are conducted together."""

    experiment: Experiment
    settings: Callable[[int], Setting]
    """What a seed works on."""
    classes: int
    out: Path
    recipe: str | None = None
    """How its networks are trained, where it is not as the learner says."""
    strategies: Collection[str] = ()
    """Of its strategies those alone, if any are named: the others may go on another time."""


def conduct(
    experiment: Experiment,
    learner: Learner,
    settings: Callable[[int], Setting],
    classes: int,
    out: Path | str,
    watcher: Watcher | None = None,
    enough: Callable[[Job], bool] | None = None,
    seeds: Collection[int] | None = None,
    began: Beginner | None = None,
) -> list[Run]:
    """All runs of an experiment, from where their journals end. `settings(seed)` gives what a seed works on.

    `enough(job)` is asked before a training begins. One for which it says so is left, a later one may still be let
    through; when none is, those that run are waited for, and the runner leaves and can be started again. With `seeds`,
    the runs of these alone: the others may be conducted elsewhere at the same time. `began(number, runs)` hears whose
    training each is, by the number that the learner's progress knows it by.
    """
    return conduct_together([Part(experiment, settings, classes, Path(out))], learner, watcher, enough, seeds, began)


def conduct_together(
    parts: Sequence[Part],
    learner: Learner,
    watcher: Watcher | None = None,
    enough: Callable[[Job], bool] | None = None,
    seeds: Collection[int] | None = None,
    began: Beginner | None = None,
) -> list[Run]:
    """Several experiments with one learner: their trainings run side by side, equal first ones are made once.

    The first of them comes first, and each seed before the next: what is cut short has whole seeds.
    """
    first_needs = _first_needs(parts)  # a strategy that is not known is found before a folder is claimed
    with ExitStack() as locks:
        runs = [run for place in range(len(parts)) for run in _open_all(parts, place, seeds, locks)]
        for run in runs:
            _tell(watcher, run)
        waiting = [run for run in runs if run.job is not None]
        begun: list[list[Run]] = []  # whose training each is, in the order in which they were begun

        def jobs() -> Generator[Job | None, None, None]:
            while True:
                found = _first(waiting, enough)
                if found is None:  # until a training that is under way brings another
                    yield None
                    continue
                first, job = found
                key = _same(first)
                begun.append([run for run in waiting if _same(run) == key])
                waiting[:] = [run for run in waiting if _same(run) != key]
                if began is not None:
                    began(len(begun) - 1, begun[-1])
                wanted = job.needs | (first_needs[first.data, first.recipe] if job.round == 1 else set())
                with first.journal.threads():
                    yield replace(job, needs=wanted)

        with closing(jobs()) as source:
            for at, model in fit_each(learner, source):
                for run in begun[at]:
                    with run.journal.threads():
                        _advance(run, model)
                    _tell(watcher, run)
                waiting += [run for run in begun[at] if run.job is not None]
    return runs


def read_experiment(out: Path | str) -> Experiment:
    """The experiment of a directory."""
    path = Path(out) / "experiment.json"
    if not path.exists():
        raise BadInput(f"no experiment in {out}: expected {path}")
    claim = read_claim(path)
    if MEMBERS in claim:
        raise BadInput(
            f"{out} holds an experiment under several noises; expected one of them: "
            f"{', '.join(map(str, claim[MEMBERS])) if isinstance(claim[MEMBERS], dict) else 'its folders'}"
        )
    if "budgets" in claim and "strategies" not in claim:
        raise BadInput(
            f"{out} is a single run, of {claim.get('strategy')}; expected the folder of an experiment "
            "(`ncalr run --out`), which holds such runs in its folder runs"
        )
    return Experiment.from_dict(claim)


def read_runs(out: Path | str) -> list[Run]:
    """The runs of a directory as far as they went."""
    experiment = read_experiment(out)
    found = []
    for strategy, seed in pairs(experiment):
        journal = Journal(Path(out) / "runs" / slug(strategy, seed))
        lines = journal.lines()
        with reading(journal.path, "the journal of a run", "was it edited?"):
            replay(lines)
        found.append(Run(strategy, seed, journal, lines))
    return found


def pairs(experiment: Experiment) -> list[tuple[str, int]]:
    """Every strategy with every seed."""
    seeds = range(experiment.first_seed, experiment.first_seed + experiment.seeds)
    return [(strategy, seed) for seed in seeds for strategy in experiment.strategies]


def slug(strategy: str, seed: int) -> str:
    """The name of a run's folder."""
    return f"{file_name(strategy)}-{seed}"


def file_name(text: str) -> str:
    """A text as it can stand in a folder's name."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", text).strip("-")


def _open_all(parts: Sequence[Part], place: int, seeds: Collection[int] | None, locks: ExitStack) -> list[Run]:
    part = parts[place]
    claim_experiment(part.out, part.experiment.as_dict())
    named = part.strategies or part.experiment.strategies
    wanted = [pair for pair in pairs(part.experiment) if pair[0] in named and (seeds is None or pair[1] in seeds)]
    return [_open(part, place, strategy, seed, locks) for strategy, seed in wanted]


def _open(part: Part, place: int, strategy: str, seed: int, locks: ExitStack) -> Run:
    experiment = part.experiment
    plan = Plan(
        strategy,
        experiment.budgets,
        seed,
        part.classes,
        experiment.control,
        stops_of(experiment.stops),
        keep=experiment.keep,
        answers=experiment.answers,
    )
    journal = Journal(part.out / "runs" / slug(strategy, seed))
    locks.enter_context(journal.locked())
    journal.begin(plan.as_dict())
    run = Run(strategy, seed, journal, journal.lines(), part=place, data=experiment.dataset, recipe=part.recipe)
    if replay(run.lines).ended:
        clear_training(journal.folder)  # killed between its last line and this
        return run
    run.training = rounds(plan, part.settings(seed), journal)
    run.job = replace(next(run.training), recipe=run.recipe)
    run.lines = journal.lines()
    return run


def _same(run: Run) -> Any:
    """Equal for trainings that come to the same model: a first one on the same labels; any other is a run's own."""
    job = run.job
    if job is None or job.round != 1:
        return str(run.journal.path)
    learnt = [None if one is None else np.asarray(one).tobytes() for one in (job.ids, job.labels, job.soft)]
    return (run.seed, run.data, run.recipe, *learnt)


def _first_needs(parts: Sequence[Part]) -> dict[tuple[str, str | None], frozenset[str]]:
    """What first trainings are asked for, by data and recipe: all that the experiments need that may share them.

    Not what those need that wait: after a kill they are others, and the record says what was looked at.
    """
    found: dict[tuple[str, str | None], frozenset[str]] = {}
    for part in parts:
        one, key = part.experiment, (part.experiment.dataset, part.recipe)
        rules = [Plan(strategy, one.budgets).rule for strategy in one.strategies]
        found[key] = found.get(key, frozenset()) | needs_of(*rules) | policy(one.answers).needs
    return found


def _advance(run: Run, model: Model) -> None:
    assert run.training is not None  # noqa: S101 (it has a job)
    try:
        run.job = replace(run.training.send(model), recipe=run.recipe)
    except StopIteration:
        run.job = None
    run.lines = run.journal.lines()


def _tell(watcher: Watcher | None, run: Run) -> None:
    if watcher is not None:
        watcher(run)


def _first(waiting: list[Run], enough: Callable[[Job], bool] | None) -> tuple[Run, Job] | None:
    """The first run in order whose training may begin."""
    for run in sorted(waiting, key=_order):
        if run.job is not None and not (enough and enough(run.job)):
            return run, run.job
    return None


def _order(run: Run) -> tuple[int, int, int]:
    """Part by part and seed by seed; all strategies of a seed in step."""
    return (run.part, run.seed, run.job.round if run.job else 0)
