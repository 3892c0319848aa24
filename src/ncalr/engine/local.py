"""This machine: threads (the compiled loops and the reads let go of the interpreter's lock), or processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ncalr.engine import Crew, Hint, Task
from ncalr.errors import NcalrError

TRIES = 3
_TASK: Task | None = None  # in a worker process: what it was started for


class WorkersLost(NcalrError):
    """Worker processes were killed again and again."""


class _Machine:
    """What threads and processes share: workers that end with each `map`."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()

    def crew(self, make: Callable[[Any], Any], shares: Sequence[Any]) -> Crew | None:  # noqa: ARG002
        """None: matrix products use all cores as it is."""
        return None

    def close(self) -> None:
        """Nothing is left to stop."""


class Threads(_Machine):
    """Worker threads that share this process's memory."""

    def map(self, task: Task, units: Sequence[Any], hint: Hint = lambda: None) -> Iterator[Any]:
        """What the task gives for each unit, as they end."""
        with ThreadPoolExecutor(self.workers, initializer=use_one_thread) as pool:
            for _, result in _as_they_end(pool, task, dict(enumerate(units)), hint, self.workers):
                yield result


class Processes(_Machine):
    """Worker processes, started anew (no fork); one that is killed is replaced and its work done again.

    A script that uses them needs Python's `if __name__ == "__main__":` around what it does.
    """

    def map(self, task: Task, units: Sequence[Any], hint: Hint = lambda: None) -> Iterator[Any]:
        """What the task gives for each unit, as they end."""
        left, spawned = dict(enumerate(units)), multiprocessing.get_context("spawn")
        for _ in range(TRIES):
            try:
                with ProcessPoolExecutor(self.workers, spawned, _start, (task,)) as pool:
                    for at, result in _as_they_end(pool, _run, dict(left), hint, self.workers):
                        del left[at]
                        yield result
                return
            except BrokenProcessPool:
                continue  # what ended is kept; the rest is done again by new processes
        raise WorkersLost(
            f"worker processes were killed {TRIES} times ({len(left)} units of work are left); is memory short? "
            "Use fewer workers, or engine='local'"
        )


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_one_thread() -> None:
    """For the compiled loops called from this thread: there is one worker a core."""
    import numba

    numba.set_num_threads(1)


def _start(task: Task) -> None:
    global _TASK
    _TASK = task
    use_one_thread()


def _run(unit: Any, hint: Any) -> Any:
    assert _TASK is not None  # noqa: S101 (`_start` ran first)
    return _TASK(unit, hint)


def _as_they_end(
    pool: Executor, task: Task, units: dict[int, Any], hint: Hint, workers: int
) -> Iterator[tuple[int, Any]]:
    """Number and result of each unit; a few more than the workers are under way, so that none waits."""
    waiting = list(units.items())[::-1]
    under_way: dict[Future[Any], int] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < workers + 2:
                at, unit = waiting.pop()
                under_way[pool.submit(task, unit, hint())] = at
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                yield under_way.pop(future), future.result()
    finally:
        for future in under_way:
            future.cancel()
