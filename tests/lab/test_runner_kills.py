"""The whole runner, killed with SIGKILL again and again, ends as one that was never killed.

Run as a script, this file forks a runner, kills it at a random moment and starts it again, until so many kills are
through; then the last one may end. The parent imports everything and computes nothing, so that a child starts at once;
and it watches the journals grow, so that kills are spread over all of the work and not over the beginning of it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from numba.core.registry import cpu_target
from sklearn.linear_model import SGDClassifier

from ncalr.data import ArrayPool
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import conduct, read_runs
from ncalr.learn import SklearnLearner
from ncalr.loop.journal import without_times
from ncalr.loop.run import Setting
from ncalr.oracles import Truth

EXPERIMENT = Experiment(strategies=("ncal", "random", "margin"), seeds=2, start=12, step=8, end=28)
KILLS = 30


class Logged:
    """An oracle that writes down what it is asked before it answers, as it happens."""

    def __init__(self, oracle, path):
        self.oracle, self.path = oracle, path

    def answer(self, ids):
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(np.asarray(ids).tolist()).encode() + b"\n")
        return self.oracle.answer(ids)


def truth():
    """280 items of four classes."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, 280)
    return (rng.normal(size=(4, 6)) * 2)[labels] + rng.normal(size=(280, 6)), labels


def carry_out(out):
    """The experiment, from wherever it stopped."""
    items, labels = truth()

    def settings(seed):
        pool = ArrayPool(items[:200], ids=1000 + np.arange(200))
        first = pool.ids[np.random.default_rng([seed, 5]).permutation(200)[:12]].tolist()
        oracle = Logged(Truth(pool.ids, labels[:200], 4), out.with_name(f"{out.name}-asked"))
        return Setting(pool, oracle, ArrayPool(items[200:]), labels[200:], first)

    learner = SklearnLearner(SGDClassifier(loss="log_loss", alpha=0.01), epochs=4, checkpoints=2)
    conduct(EXPERIMENT, learner, settings, 4, out)


def child(out):
    """A runner in a process of its own."""
    number = os.fork()
    if number == 0:
        carry_out(out)
        os._exit(0)
    return number


def written(out):
    """How many lines the journals have."""
    return sum(path.read_bytes().count(b"\n") for path in out.rglob("journal.jsonl"))


def ended(number, out, lines):
    """Wait for so many lines; whether the child ended before."""
    while written(out) < lines:
        if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        time.sleep(0.001)
    return False


def main(root, wanted):
    """Kill so many times, none to three lines after the start and a little later; print how often each was killed."""
    cpu_target.target_context.refresh()  # numba's tables: filled here once, and not in each child's short life
    start = time.perf_counter()
    os.waitpid(child(root / "whole"), 0)
    pause = (time.perf_counter() - start) / 12  # of the order of one round
    moments, kills = random.Random(11), [0]
    while True:
        out = root / f"killed-{len(kills) - 1}"
        lines = written(out) + moments.randrange(4)
        number = child(out)
        if sum(kills) < wanted and not ended(number, out, lines):
            time.sleep(moments.uniform(0, pause))
            os.kill(number, signal.SIGKILL)
        _, status = os.waitpid(number, 0)
        if os.WIFSIGNALED(status):
            kills[-1] += 1
        elif os.WEXITSTATUS(status):
            sys.exit(f"the runner failed with {os.WEXITSTATUS(status)}")
        elif sum(kills) < wanted:
            kills.append(0)
        else:
            break
    print(json.dumps(kills))


def journals(out):
    return {run.journal.folder.name: [without_times(line) for line in run.lines] for run in read_runs(out)}


def asked(out):
    return Counter(out.with_name(f"{out.name}-asked").read_text().splitlines())


def test_killed_many_times_the_runner_ends_the_same(tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path), str(KILLS)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert sum(kills) == KILLS
    whole = journals(tmp_path / "whole")
    assert len(whole) == 6
    _, labels = truth()
    for lines in whole.values():
        ids = [item for line in lines for item in line.get("ids", [])]
        assert len(ids) == len(set(ids)) == 28, "a label was asked twice, or lost"
        assert [label for line in lines for label in line.get("labels", [])] == labels[np.array(ids) - 1000].tolist()
    journalled = Counter(json.dumps(line["ids"]) for lines in whole.values() for line in lines if line.get("ids"))
    assert asked(tmp_path / "whole") == journalled
    for case, times in enumerate(kills):
        out = tmp_path / f"killed-{case}"
        assert journals(out) == whole, out.name
        for run in read_runs(out):
            raw = [json.loads(line) for line in run.journal.path.read_bytes().splitlines()]
            assert [json.dumps(without_times(line)) for line in raw] == [
                json.dumps(line) for line in whole[run.journal.folder.name]
            ], "not byte for byte"
        again = asked(out) - journalled
        assert not journalled - asked(out)
        assert set(again) <= set(journalled), "something else was asked"
        assert again.total() <= times, "a kill repeats at most the question that it cut off"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
