"""Engines: every unit once, in any order; errors come out; processes that are killed are replaced."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from ncalr.engine import open_engine
from ncalr.engine.local import Processes, Threads, WorkersLost, cores
from ncalr.errors import MissingExtra


def square(unit, hint):
    return unit * unit + (hint or 0)


def fail_at_three(unit, _hint):
    if unit == 3:
        raise ZeroDivisionError("at three")
    return unit


class KilledOnce:
    """Kills its process the first time, and leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, unit, _hint):
        if unit == 5 and not self.mark.exists():
            self.mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return unit


def killed_always(_unit, _hint):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("engine", [Threads(1), Threads(4), Processes(2)])
def test_every_unit_once(engine):
    assert sorted(engine.map(square, range(20))) == [unit * unit for unit in range(20)]
    assert sorted(engine.map(square, range(3), lambda: 10)) == [10, 11, 14]
    assert list(engine.map(square, [])) == []
    with pytest.raises(ZeroDivisionError, match="at three"):
        list(engine.map(fail_at_three, range(50)))
    assert engine.crew(square, [1]) is None
    engine.close()


def test_hints_are_asked_for_when_a_unit_starts():
    asked = iter(range(100))
    assert list(Threads(1).map(lambda _, hint: hint, range(3), lambda: next(asked))) == [0, 1, 2]


def test_no_more_under_way_than_the_workers_can_chew():
    under_way, most, lock = 0, 0, threading.Lock()

    def hint():
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)

    for _ in Threads(2).map(square, range(50), hint):
        with lock:
            under_way -= 1
    assert most <= 5


def test_a_process_that_is_killed_is_replaced(tmp_path):
    assert sorted(Processes(2).map(KilledOnce(tmp_path / "mark"), range(12))) == list(range(12))
    assert (tmp_path / "mark").exists()


def test_processes_that_are_killed_always_are_an_error():
    with pytest.raises(WorkersLost, match="killed 3 times"):
        list(Processes(1).map(killed_always, range(2)))


def test_as_many_workers_as_cores():
    assert open_engine("local").workers == open_engine("processes").workers == cores() >= 1


def test_cores_without_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == os.cpu_count()


def test_ray_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"ncalr\[ray\]"):
        open_engine("ray")
