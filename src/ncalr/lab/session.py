"""From an experiment to a report: load the data, make the learner and the oracles, run, write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from ncalr.data.dataset import Dataset, load
from ncalr.data.splits import initial
from ncalr.engine import ENGINES, open_engine
from ncalr.errors import BadInput, NcalrError, unknown
from ncalr.lab.experiment import Experiment
from ncalr.lab.live import Board
from ncalr.lab.report import write_report
from ncalr.lab.runner import Run, conduct, pairs, read_experiment, read_runs
from ncalr.loop.answers import policy
from ncalr.loop.journal import claim
from ncalr.loop.run import UNSAID, Setting
from ncalr.oracles import Truth, oracle_of


def carry_out(
    experiment: Experiment,
    out: Path | str,
    *,
    root: Path | str | None = None,
    device: Any = None,
    live: bool | None = None,
    engine: str = "",
    workers: int | None = None,
    address: str | None = None,
) -> tuple[list[Run], Path]:
    """Run an experiment to its end, from wherever it stopped, and write its report.

    With an `engine` (processes or ray) the seeds are conducted side by side, each by a worker of its own, which must
    see `out` and the data under the same paths; on Ray each has a GPU where the cluster has any. One that is killed
    goes on from its journals.
    """
    from ncalr.learn import TorchLearner

    dataset = load(experiment.dataset, root)
    learner = TorchLearner(experiment.network, experiment.recipe, device=device, progress=False)
    learner.check(dataset.pool, len(dataset.classes))
    settings = settings_of(experiment, dataset, root)
    settings(experiment.first_seed)  # noise and initial pool: what cannot be is said before the folder is claimed
    if not engine and address is not None:
        raise BadInput(f"an address is for engine='ray', got no engine with address={address!r}")
    if engine:
        if engine not in ENGINES:
            raise unknown("engine", engine, ENGINES)
        claim(Path(out), experiment.as_dict())
        task = partial(_one_seed, experiment, str(out), None if root is None else str(root), device, threads())
        seeds = sorted({seed for _, seed in pairs(experiment)})
        with closing(open_engine(engine, workers, address, gpus=device != "cpu")) as workers_:
            for _ in workers_.map(task, seeds):
                pass
        return read_runs(out), write_report(out, list(dataset.classes), dataset.pool, truth=dataset.labels)
    with Board(experiment, live) as board:
        if experiment.answers == UNSAID["answers"] and experiment.end > len(dataset.pool):
            board.say(
                f"note: the pool has {len(dataset.pool):,} items: the curves end there, not at {experiment.end:,}"
            )
        runs = conduct(experiment, learner, settings, len(dataset.classes), out, board.show)
    return runs, write_report(out, list(dataset.classes), dataset.pool, truth=dataset.labels)


def threads() -> int:
    """How many threads torch has here: those of a run, wherever it is conducted."""
    import torch

    return int(torch.get_num_threads())


def _one_seed(
    experiment: Experiment, out: str, root: str | None, device: Any, count: int, seed: int, _hint: Any
) -> int:
    """All strategies of one seed: they share the first training. With the threads of whoever asked for it."""
    import torch

    from ncalr.learn import TorchLearner

    torch.set_num_threads(count)
    dataset = load(experiment.dataset, root)
    learner = TorchLearner(experiment.network, experiment.recipe, device=device, progress=False)
    board = Board(experiment, wanted=False, lines=True)
    settings = settings_of(experiment, dataset, root)
    conduct(experiment, learner, settings, len(dataset.classes), out, board.show, seeds=[seed])
    return seed


def report_again(
    folders: Path | str | Sequence[Path | str], root: Path | str | None = None, out: Path | str | None = None
) -> Path:
    """The report of experiments from their journals; with class names and pictures where their data is at hand."""
    folders = [folders] if isinstance(folders, (str, Path)) else list(folders)
    experiment = read_experiment(folders[0])
    try:
        dataset = load(experiment.dataset, root)
    except NcalrError:
        return write_report(folders, out=out)
    return write_report(folders, list(dataset.classes), dataset.pool, out, dataset.labels)


def settings_of(experiment: Experiment, dataset: Dataset, root: Path | str | None = None) -> Callable[[int], Setting]:
    """What each seed works on: the same initial pool and the same noise for all strategies."""

    def setting(seed: int) -> Setting:
        truth = Truth(dataset.pool.ids, dataset.labels, len(dataset.classes))
        oracle = oracle_of(experiment.noise, truth, seed, root, dataset.pool, policy(experiment.answers).cap)
        source = dataset.labels if experiment.stratified else len(dataset.pool)
        first = initial(source, experiment.start, seed, stratified=experiment.stratified, ids=dataset.pool.ids)
        return Setting(dataset.pool, oracle, dataset.test, dataset.test_labels, dataset.pool.ids[first].tolist())

    return setting
