"""Fork a run, kill it with SIGKILL at a random moment, resume it, until fifty kills are through.

The parent imports everything and computes nothing, so that a child starts at once. A folder's run is resumed until it
ends; then the next folder begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from small import learner, plan, setting

from ncalr.loop.run import run


def child(folder: Path) -> int:
    """Start (or resume) the run in a process of its own."""
    number = os.fork()
    if number == 0:
        run(plan(), setting(), learner(), folder)
        os._exit(0)
    return number


def main(root: Path, wanted: int) -> None:
    """Kill so many times; print how often, and how many runs it took."""
    start = time.perf_counter()
    os.waitpid(child(root / "whole"), 0)
    longest = time.perf_counter() - start
    moments, kills, cases = random.Random(7), 0, 0
    while kills < wanted:
        ended = False
        while not ended:
            number = child(root / f"killed-{cases}")
            time.sleep(moments.uniform(0, 0.8 * longest))
            if kills < wanted:
                os.kill(number, signal.SIGKILL)
            _, status = os.waitpid(number, 0)
            ended = os.WIFEXITED(status)
            if ended and os.WEXITSTATUS(status):
                sys.exit(f"the run failed with {os.WEXITSTATUS(status)}")
            kills += not ended
        cases += 1
    print(kills, cases)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
