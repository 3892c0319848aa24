"""Engines: every unit once, in any order; errors come out; processes that are killed are replaced."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.select.spaces import Space
from ncalr.data.shards import write_shards
from ncalr.engine import open_engine
from ncalr.engine.hold import Holder, Share
from ncalr.engine.local import Processes, Threads, WorkersLost, cores
from ncalr.errors import BadInput, MissingExtra
from ncalr.kernels import choose


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
    assert sorted(Threads(1).map(lambda _, hint: hint, range(3), lambda: next(asked))) == [0, 1, 2]


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


def test_what_a_worker_process_does(monkeypatch):
    """In this process, where it can be watched."""
    from ncalr.engine import cluster, local

    monkeypatch.setattr(local, "_TASK", None)
    with ThreadPoolExecutor(1) as thread:  # the number of kernel threads belongs to the thread
        thread.submit(local._start, square).result()
        assert thread.submit(local._run, 3, 1).result() == 10
        assert thread.submit(cluster._run, square, 4, None).result() == 16
    place = cluster._Place(str, 7)
    assert (place.ask("upper"), place.process()) == ("7", os.getpid())


def test_a_share_that_is_held_sweeps_as_the_pool_does(tmp_path):
    features = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    write_shards(tmp_path, {"features": features}, shard_items=20)
    holder = Holder(Share(str(tmp_path), "features", None, [slice(0, 30), np.arange(30, 50)]))
    space = Space("features", Evidence({"features": features}, choose(None), 50, 0))
    centres = space.take(np.array([3, 44]))
    parts = holder.sweep(space.centre, centres)
    assert [len(part) for part in parts] == [30, 20]
    np.testing.assert_allclose(np.concatenate(parts), space.swept(slice(None), centres), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        np.concatenate(holder.sweep(space.centre, None)), space.swept(slice(None), None), rtol=1e-6
    )


class FakeRay:
    """Remembers how it was started."""

    class exceptions:
        RayError = RuntimeError
        RayTaskError = KeyError

    def __init__(self):
        self.asked = {}

    def is_initialized(self):
        return False

    def init(self, **asked):
        self.asked = asked

    def cluster_resources(self):
        return {"CPU": 8.0, "GPU": 2.0}

    def shutdown(self):
        self.asked = {"ended": True}


def test_how_clusters_are_started_and_left(monkeypatch):
    from ncalr.engine import cluster

    ray = FakeRay()
    monkeypatch.setattr(cluster, "load", lambda *_: ray)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    engine = open_engine("ray", gpus=True)
    assert (engine.workers, engine.gpus) == (2, 1)
    assert ray.asked["_node_ip_address"] == "127.0.0.2"
    assert not ray.asked["include_dashboard"]
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    engine.close()
    assert ray.asked == {"ended": True}
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert os.environ["RAY_AUTH_MODE"] == "token"
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"ray://127.0.0.1:{head.getsockname()[1]}"
        joined = open_engine("ray", address=address)
    assert (ray.asked["address"], joined.workers, joined.gpus) == (address, 8, 0)


def test_a_cluster_that_is_not_there_is_told_at_once(monkeypatch):
    """Ray would try for a quarter of an hour where nobody listens, and has an error of its own for auto."""
    from ncalr.engine import cluster

    class Alone(FakeRay):
        def init(self, address, **_):
            assert address == "auto", "it would wait for whoever is not there"
            raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(cluster, "load", lambda *_: Alone())
    with socket.create_server(("127.0.0.1", 0)) as head:
        free = head.getsockname()[1]
    for address in ("auto", f"127.0.0.1:{free}", f"ray://127.0.0.1:{free}", "[::1]:99999", "ray://.bad:10001", "h:²"):
        with pytest.raises(
            BadInput, match=re.escape(f"no Ray cluster was found at address={address!r}; start one there")
        ):
            open_engine("ray", address=address)
