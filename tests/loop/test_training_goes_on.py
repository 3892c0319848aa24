"""A run that is killed in the middle of a training goes on from there, and ends as one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import ncalr
from ncalr.lab.experiment import Experiment
from ncalr.lab.session import carry_out
from ncalr.learn import TorchLearner
from ncalr.learn.progress import Progress
from ncalr.loop.journal import Journal, without_times

CHILD = """
import sys, time
sys.path.insert(0, sys.argv[2])
import test_training_goes_on as here
here.often()
class Hanging(here.Steps):
    def step(self, run, epoch, images):
        super().step(run, epoch, images)
        if self.epochs.count(1) == 2 and epoch == 5:
            print("there", flush=True)
            time.sleep(600)
here.go(sys.argv[1], Hanging())
"""


class Steps(Progress):
    """The epochs that were trained."""

    def __init__(self):
        self.epochs = []

    def step(self, run, epoch, images):
        self.epochs.append(epoch)


def often():
    """A checkpoint every epoch."""
    import ncalr.learn.torch_learner as module

    module.SAVE_SECONDS, module.SAVE_SHARE = 0.0, float("inf")


def go(folder, progress):
    torch.set_num_threads(1)
    learner = TorchLearner("resnet8", "digits(epochs=8, checkpoints=3)", device="cpu", progress=progress)
    return ncalr.run("digits", "ncal", budgets=(30, 40, 50), folder=folder, learner=learner)


@pytest.fixture
def frequent(monkeypatch):
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SHARE", float("inf"))


def lines_of(folder):
    return [without_times(line) for line in Journal(folder).lines()]


def test_a_run_killed_in_a_training_goes_on_from_its_checkpoint(tmp_path, frequent):
    command = [sys.executable, "-c", CHILD, str(tmp_path / "killed"), os.path.dirname(__file__)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "there\n"
        child.send_signal(signal.SIGKILL)
    assert len(lines_of(tmp_path / "killed")) == 2
    assert sorted(path.suffix for path in (tmp_path / "killed" / "training").iterdir()) == [".json", ".safetensors"]
    steps, whole = Steps(), Steps()
    go(tmp_path / "killed", steps)
    go(tmp_path / "whole", whole)
    assert steps.epochs == [5, 6, 7, 8, *range(1, 9)], "epoch 5 was not on disk yet"
    assert whole.epochs == [*range(1, 9)] * 3
    assert lines_of(tmp_path / "killed") == lines_of(tmp_path / "whole")
    for name in ("killed", "whole"):
        assert not (tmp_path / name / "training").exists()


def test_runs_side_by_side_keep_their_checkpoints_apart_and_leave_none(tmp_path, frequent, monkeypatch):
    """Killed in a shared first training, then with a strategy more, whose needs make it another training."""
    experiment = Experiment(
        strategies=("margin", "random"), seeds=1, start=30, step=10, end=40, recipe="digits(epochs=6, checkpoints=2)"
    )

    class Killed(Steps):
        def step(self, run, epoch, images):
            super().step(run, epoch, images)
            if epoch == 4:
                raise KeyboardInterrupt

    out, seen = tmp_path / "out", Killed()
    monkeypatch.setattr("ncalr.lab.live.Trainings.step", seen.step)
    with pytest.raises(KeyboardInterrupt):
        carry_out(experiment, out, device="cpu", live=False)
    assert [path.parent.parent.name for path in out.rglob("training.json")] == ["margin-0"]
    seen = Steps()
    monkeypatch.setattr("ncalr.lab.live.Trainings.step", seen.step)
    more = replace(experiment, strategies=("margin", "random", "ncal"))
    carry_out(more, out, device="cpu", live=False)
    assert seen.epochs == [*range(1, 7)] * 4
    assert not list(out.rglob("training*"))
    (out / "runs" / "random-0" / "training").mkdir()
    carry_out(more, out, device="cpu", live=False)
    assert not list(out.rglob("training*")), "what was left of a run that has ended is cleared"
