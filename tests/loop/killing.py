"""Fork a run, kill it with SIGKILL at a random moment, resume it, until so many kills are through.

The parent imports everything and computes nothing, so that a child starts at once; and it watches the journal grow, so
that kills are spread over all of the work and not over the beginning of it. A folder's run is resumed until it ends;
then the next folder begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from numba.core.registry import cpu_target
from small import learner, plan, setting

from ncalr.loop.run import run


def child(folder: Path, kind: str) -> int:
    """Start (or resume) the run in a process of its own."""
    number = os.fork()
    if number == 0:
        run(plan(), setting(kind), learner(), folder)
        os._exit(0)
    return number


def written(folder: Path) -> int:
    """How many lines the journal has."""
    path = folder / "journal.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def ended(number: int, folder: Path, lines: int) -> bool:
    """Wait for so many lines; whether the child ended before."""
    while written(folder) < lines:
        if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        time.sleep(0.001)
    return False


def main(root: Path, wanted: int, kind: str) -> None:
    """Kill so many times, none to two lines after the start and a little later; print how often, and how many runs."""
    cpu_target.target_context.refresh()  # numba's tables: filled here once, and not in each child's short life
    start = time.perf_counter()
    os.waitpid(child(root / "whole", kind), 0)
    pause = (time.perf_counter() - start) / 4  # of the order of one round
    moments, kills, cases = random.Random(7), 0, 0
    while kills < wanted:
        done = False
        while not done:
            folder = root / f"killed-{cases}"
            lines = written(folder) + moments.randrange(3)
            number = child(folder, kind)
            if kills < wanted and not ended(number, folder, lines):
                time.sleep(moments.uniform(0, pause))
                os.kill(number, signal.SIGKILL)
            _, status = os.waitpid(number, 0)
            done = os.WIFEXITED(status)
            if done and os.WEXITSTATUS(status):
                sys.exit(f"the run failed with {os.WEXITSTATUS(status)}")
            kills += not done
        cases += 1
    print(kills, cases)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
