"""Seeds side by side in workers: the journals of one process."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import read_runs
from ncalr.lab.session import carry_out
from ncalr.lab.study import Study

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXPERIMENT = Experiment(
    strategies=("margin", "random"),
    seeds=2,
    start=20,
    step=10,
    end=30,
    recipe="digits(epochs=2, checkpoints=2)",
)


def picks(runs):
    """What every run asked for, without times."""
    return {(run.strategy, run.seed): (run.accuracies, [line.get("ids") for line in run.lines]) for run in runs}


def plainly(out, count):
    """Without an engine, with so many threads: another number rounds sums in another way."""
    torch.set_num_threads(count)
    return picks(carry_out(EXPERIMENT, out, device="cpu", live=False)[0])


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """In a fresh process, as workers are: other libraries that a test imported may round sums in another way."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(plainly, tmp_path_factory.mktemp("here"), torch.get_num_threads()).result()


def test_processes_give_the_journals_of_one(here, tmp_path):
    runs, page = carry_out(EXPERIMENT, tmp_path, device="cpu", engine="processes", workers=2)
    assert page.exists()
    assert picks(runs) == here == picks(read_runs(tmp_path))


def test_processes_carry_out_several_noises(here, tmp_path):
    study = Study(replace(EXPERIMENT, seeds=1), ("symmetric(rate=0.3)", "none"))
    runs, page = carry_out(study, tmp_path, device="cpu", engine="processes", workers=2)
    assert len(runs) == 4
    assert page == tmp_path / "report.html"
    first = {(strategy, seed): asked for (strategy, seed), asked in here.items() if seed == 0}
    assert picks(read_runs(tmp_path / "none")) == first != picks(read_runs(tmp_path / "symmetric-rate=0.3"))


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_journals_of_one(here, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'ncalr[ray]')")
    monkeypatch.setenv("HOME", str(tmp_path))
    runs, _ = carry_out(EXPERIMENT, tmp_path / "out", device="cpu", engine="ray", workers=2)
    assert picks(runs) == here
