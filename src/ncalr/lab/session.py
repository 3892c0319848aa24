"""From an experiment to a report: load the data, make the learner and the oracles, run, write."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ncalr.acquire.rehearsal import rehearsed
from ncalr.data.dataset import Dataset, load
from ncalr.data.fingerprint import fingerprint
from ncalr.data.images import ImagePool, pillow
from ncalr.data.splits import Subset, initial
from ncalr.engine import ENGINES, open_engine
from ncalr.errors import BadInput, NcalrError, Note, unknown
from ncalr.lab.across import write_across
from ncalr.lab.alike import groups_of
from ncalr.lab.claims import claim_all
from ncalr.lab.experiment import Experiment
from ncalr.lab.live import Board
from ncalr.lab.noise import truth_of, wrong_answers
from ncalr.lab.overview import write_overview
from ncalr.lab.plots import check_plots
from ncalr.lab.report import write_report
from ncalr.lab.runner import Part, Run, conduct, conduct_together, pairs, read_experiment, read_runs
from ncalr.lab.study import Study, members_of, read_plan
from ncalr.loop.answers import policy
from ncalr.loop.journal import check_data
from ncalr.loop.run import Setting
from ncalr.oracles import Truth, oracle_of


def carry_out(
    plan: Experiment | Study,
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

    Of a study, the experiments of all its noises together, each in a folder of its own, and the overview.

    With an `engine` (processes or ray) the seeds are conducted side by side, each by a worker of its own, which must
    see `out` and the data under the same paths; on Ray each has a GPU where the cluster has any. One that is killed
    goes on from its journals.
    """
    from ncalr.learn import TorchLearner

    check_plots()
    members = members_of(plan)
    experiment = next(iter(members.values()))
    for strategy in experiment.strategies:
        rehearsed(strategy)
    dataset = load(experiment.dataset, root)
    board = Board(experiment, live, parts=[*members], items=len(dataset.pool))
    learner = TorchLearner(experiment.network, experiment.recipe, device=device, progress=board.trainings)
    learner.check(dataset.pool, len(dataset.classes))
    parts = [
        Part(one, settings_of(one, dataset, root), len(dataset.classes), Path(out) / name)
        for name, one in members.items()
    ]
    for part in parts:  # noise and initial pool: what cannot be is said before a folder is claimed
        part.settings(experiment.first_seed)
    if not engine and address is not None:
        raise BadInput(f"an address is for engine='ray', got no engine with address={address!r}")
    if engine and engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    claims = {Path(out): plan.as_claim()} if isinstance(plan, Study) else {}
    claims |= {part.out: part.experiment.as_dict() for part in parts}
    claim_all(Path(out), claims, fingerprint(dataset))
    resized = _resized(dataset.pool, experiment.dataset)
    if resized:
        board.say(f"note: {resized}")
    if short := _short_of(experiment, len(dataset.pool)):
        board.say(f"note: {short}")
    if engine:
        seeds = sorted({seed for _, seed in pairs(experiment)})
        work = [
            (name, part.experiment, str(part.out), s) for name, part in zip(members, parts, strict=True) for s in seeds
        ]
        task = partial(_one_seed, None if root is None else str(root), device, threads())
        with closing(open_engine(engine, workers, address, gpus=device != "cpu")) as workers_:
            for _ in workers_.map(task, work):
                pass
        runs = [run for part in parts for run in read_runs(part.out)]
        return runs, _write(plan, [out], dataset, root)
    with board:
        runs = conduct_together(parts, learner, board.show, began=board.began)
    return runs, _write(plan, [out], dataset, root)


def _short_of(experiment: Experiment, items: int) -> str:
    """A word on a pool that is too small for the last budget; nothing where it is not."""
    last, times = experiment.within(items)[-1], policy(experiment.answers).cap
    if last == experiment.end:
        return ""
    there = "there" if times == 1 else f"at {last:,} answers, {times} an item"
    return f"the pool has {items:,} items: the curves end {there}, not at {experiment.end:,}"


def _resized(pool: Any, dataset: str) -> str:
    """A word on image files that are brought to a size which nobody chose; nothing where somebody did."""
    while isinstance(pool, Subset):
        pool = pool.pool
    if not isinstance(pool, ImagePool) or "size=" in dataset:
        return ""
    height, width, _ = pool.shape
    pool.read(slice(1))  # where the first is no image, this says so in words
    with pillow().open(pool.paths[0]) as first:
        if first.size == (width, height):
            return ""
        return (
            f"images are brought to {width} x {height} pixels, {pool.ids[0]} has {first.width} x {first.height}; "
            "for another size put size=96, say, in brackets behind the dataset"
        )


def threads() -> int:
    """How many threads torch has here: those of a run, wherever it is conducted."""
    import torch

    return int(torch.get_num_threads())


def _one_seed(root: str | None, device: Any, count: int, work: tuple[str, Experiment, str, int], _hint: Any) -> int:
    """All strategies of one seed: they share the first training. With the threads of whoever asked for it."""
    import torch

    from ncalr.learn import TorchLearner

    name, experiment, out, seed = work
    torch.set_num_threads(count)
    dataset = load(experiment.dataset, root)
    check_data(Path(out), fingerprint(dataset))  # a worker may see another disk
    board = Board(experiment, wanted=False, lines=True, parts=[name], items=len(dataset.pool))
    learner = TorchLearner(experiment.network, experiment.recipe, device=device, progress=board.trainings)
    settings = settings_of(experiment, dataset, root)
    conduct(experiment, learner, settings, len(dataset.classes), out, board.show, seeds=[seed], began=board.began)
    return seed


def report_again(
    folders: Path | str | Sequence[Path | str], root: Path | str | None = None, out: Path | str | None = None
) -> Path:
    """The report of experiments from their journals; with class names and pictures where their data is at hand.

    Those that are not one, on different data or by other protocols, are compared across data sets (`across.py`). A
    study is reported alone: its overview, and the reports of its members.
    """
    folders = [folders] if isinstance(folders, (str, Path)) else list(folders)
    groups = groups_of([Path(folder) for folder in folders])
    if len(groups) > 1:
        return write_across(groups, out)
    plan = read_plan(folders[0]) if len(folders) == 1 else read_experiment(folders[0])
    dataset: Dataset | None = None
    try:
        dataset = load(next(iter(members_of(plan).values())).dataset, root)
        data = fingerprint(dataset)
        for folder in folders:
            check_data(Path(folder), data)
    except NcalrError as error:
        dataset = None
        warnings.warn(
            f"class names, pictures of items and shares of wrong labels are left out of the report: {error}",
            Note,
            stacklevel=2,
        )
    return _write(plan, folders, dataset, root, out)


def _write(
    plan: Experiment | Study,
    folders: Sequence[Path | str],
    dataset: Dataset | None,
    root: Path | str | None,
    out: Path | str | None = None,
) -> Path:
    """The report of experiments, or of one study; what the data are needed for is left out where they are not here."""
    known: dict[str, Any] = {}
    if dataset is not None:
        known = {"class_names": list(dataset.classes), "pool": dataset.pool, "truth": dataset.labels}
    if not isinstance(plan, Study):
        return write_report(folders, out=out, **known)
    if dataset is not None:
        known["pool_wrong"] = {one.noise: _wrong_answers(one, dataset, root) for one in plan.members.values()}
    return write_overview(plan, Path(folders[0]), out=out, **known)


def _wrong_answers(experiment: Experiment, dataset: Dataset, root: Path | str | None) -> float | None:
    """The share of wrong answers about the pool, mean over the seeds; None where people's labels are not here."""
    truth, times = truth_of(dataset.pool, dataset.labels), policy(experiment.answers).cap
    settings, seeds = settings_of(experiment, dataset, root), {seed for _, seed in pairs(experiment)}
    try:
        return float(np.mean([wrong_answers(settings(seed).oracle, truth, times) for seed in sorted(seeds)]))
    except NcalrError:
        return None


def settings_of(experiment: Experiment, dataset: Dataset, root: Path | str | None = None) -> Callable[[int], Setting]:
    """What each seed works on: the same initial pool and the same noise for all strategies."""

    def setting(seed: int) -> Setting:
        truth = Truth(dataset.pool.ids, dataset.labels, len(dataset.classes))
        oracle = oracle_of(experiment.noise, truth, seed, root, dataset.pool, policy(experiment.answers).cap)
        source = dataset.labels if experiment.stratified else len(dataset.pool)
        first = initial(source, experiment.start, seed, stratified=experiment.stratified, ids=dataset.pool.ids)
        return Setting(dataset.pool, oracle, dataset.test, dataset.test_labels, dataset.pool.ids[first].tolist())

    return setting
