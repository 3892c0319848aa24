"""A Ray cluster: tasks for passes over the pool, actors that hold shares of it for the greedy methods.

    RayEngine(address="auto")            the cluster this machine belongs to (`ray start`)
    RayEngine(address="ray://host:10001")
    RayEngine(workers=4)                 a cluster of this machine's own, for as long as the engine is open

Every worker reads the pool itself, so the folder must be there under the same path on every machine (a network file
system, or a copy). No more tasks are under way than twice the workers (back-pressure: results cannot pile up faster
than they are merged). A worker that dies is replaced by Ray and its task run again, up to `RETRIES` times; an actor
that dies is made again from its share. Tasks change nothing and their results add exactly: the answer is the same.

A cluster of its own has a loopback address (127.0.0.2: Ray rewrites 127.0.0.1 to the machine's own), no dashboard, and
a random token that only this process and its workers know; Ray opens its ports on every interface, and whoever reaches
the ports of a cluster without a token can run code on it. For clusters of several machines see docs/scale.md.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ncalr.engine import Hint, Task
from ncalr.engine.local import WorkersLost, cores, use_one_thread
from ncalr.errors import BadInput
from ncalr.extras import load

RETRIES = 3
LOOPBACK = "127.0.0.2"
_TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")


class RayEngine:
    """Runs tasks and actors on Ray; see the module's text."""

    def __init__(
        self, workers: int | None = None, address: str | None = None, *, retries: int = RETRIES, gpus: bool = False
    ) -> None:
        self.ray, self.retries = load("ray", "ray", "engine='ray'"), retries
        self._mine = not self.ray.is_initialized()
        self._before = {name: os.environ.get(name) for name in _TOKEN}
        if self._mine:
            start(self.ray, address, workers)
        found = self.ray.cluster_resources()
        self.gpus = int(gpus and found.get("GPU", 0) >= 1)
        self.workers = workers or max(1, int(found.get("GPU" if self.gpus else "CPU", 1)))

    def map(self, task: Task, units: Sequence[Any], hint: Hint = lambda: None) -> Iterator[Any]:
        """What the task gives for each unit, as they end."""
        ray = self.ray
        run = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=self.retries)(_run)
        shipped = ray.put(task)
        waiting = list(units)[::-1]
        under_way: list[Any] = []
        try:
            while waiting or under_way:
                while waiting and len(under_way) < 2 * self.workers:
                    under_way.append(run.remote(shipped, waiting.pop(), hint()))
                ended, under_way = ray.wait(under_way)
                yield self._get(ended[0])
        finally:
            for left in under_way:
                ray.cancel(left, force=False)

    def crew(self, make: Callable[[Any], Any], shares: Sequence[Any]) -> RayCrew:
        """One actor a share, wherever there is room."""
        return RayCrew(self, make, shares)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._mine:
            self.ray.shutdown()
            self._mine = False
            for name, value in self._before.items():
                os.environ.pop(name, None)
                os.environ.update({} if value is None else {name: value})
            _forget_token(self.ray)

    def _get(self, result: Any) -> Any:
        try:
            return self.ray.get(result)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None  # what happened, not where Ray was at the time
        except self.ray.exceptions.RayError as error:
            raise WorkersLost(
                f"workers of the Ray cluster were lost more than {self.retries} times ({type(error).__name__}); "
                "is memory short? Look at `ray status`, or use fewer workers"
            ) from error


class RayCrew:
    """Actors that hold a share each."""

    def __init__(self, engine: RayEngine, make: Callable[[Any], Any], shares: Sequence[Any]) -> None:
        self.engine = engine
        place = engine.ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_Place)
        self.actors = [place.remote(make, share) for share in shares]

    def ask(self, method: str, *args: Any) -> Iterator[Any]:
        """What the method gives for every share, in the order of the shares."""
        shipped = [self.engine.ray.put(value) for value in args]
        asked = [actor.ask.remote(method, *shipped) for actor in self.actors]
        for result in asked:
            yield self.engine._get(result)

    def close(self) -> None:
        """Let the actors go."""
        for actor in self.actors:
            self.engine.ray.kill(actor)


def start(ray: Any, address: str | None, workers: int | None) -> None:
    """Join a cluster, or start one that only this machine reaches."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # tasks without GPUs may still look for them
    how: dict[str, Any] = {"address": address}
    if address is None:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would keep one in the home directory
        how = {
            "address": "local",
            "num_cpus": workers or cores(),
            "include_dashboard": False,
            "_node_ip_address": LOOPBACK,
            "object_store_memory": 256 << 20,
        }
    elif not _answers(address):
        raise BadInput(_NOBODY.format(address=address))
    _forget_token(ray)
    try:
        ray.init(**how, log_to_driver=False, logging_level="ERROR")
    except ConnectionError as error:  # "auto" where no cluster runs
        if address is None:
            raise
        raise BadInput(_NOBODY.format(address=address)) from error


_NOBODY = (
    "no Ray cluster was found at address={address!r}; start one there (ray start --head), or leave the address out for "
    "one on this machine"
)


def _answers(address: str) -> bool:
    """Whether somebody listens there: Ray itself would try for a quarter of an hour. Names like auto are left to it."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return True
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10):
            return True
    except (OSError, OverflowError, ValueError):  # nobody there, no such port, no such name
        return False


def _forget_token(ray: Any) -> None:
    """Ray reads its token once a process; whoever starts or joins a second cluster there has another one."""
    loader = getattr(getattr(ray, "_raylet", None), "AuthenticationTokenLoader", None)
    if loader is not None:
        loader.instance().reset_cache()


class _Place:
    """Where an object of a crew lives."""

    def __init__(self, make: Callable[[Any], Any], share: Any) -> None:
        self.held = make(share)

    def ask(self, method: str, *args: Any) -> Any:
        return getattr(self.held, method)(*args)

    def process(self) -> int:
        return os.getpid()


def _run(task: Task, unit: Any, hint: Any) -> Any:
    use_one_thread()
    return task(unit, hint)
