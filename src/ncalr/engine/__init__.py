"""Where work runs: in threads or processes of this machine, or on a Ray cluster.

An engine does two things. `map` runs one task over many units of work and hands back what each gave, in whatever order
they end, with no more of them under way than the workers can chew. `crew` places objects that hold a share of the data
each (on Ray; on one machine the pages of the operating system hold it). What tasks give back adds up exactly
(`ncalr.engine.tally`), so the answer does not depend on the engine, on the number of workers, or on who came first.

    open_engine("local", workers=2)            threads
    open_engine("processes", workers=2)
    open_engine("ray", address="auto")         the extra `ray`; a cluster that runs, or one of this machine's own
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ncalr.errors import BadInput, unknown

Task = Callable[[Any, Any], Any]
"""Called with a unit of work and a hint (see `Engine.map`)."""
Hint = Callable[[], Any]
ENGINES = ("local", "processes", "ray")


class Crew(Protocol):
    """Objects that hold a share of the data each."""

    def ask(self, method: str, *args: Any) -> Iterator[Any]:
        """What the method gives for every share, in the order of the shares."""

    def close(self) -> None:
        """Let go of them."""


class Engine(Protocol):
    """Somewhere to run."""

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    def map(self, task: Task, units: Sequence[Any], hint: Hint = lambda: None) -> Iterator[Any]:
        """What `task(unit, hint())` gives for each unit, as they end. The hint is asked for when a unit is started.

        A task may be run again where a worker was lost, so it must not change anything. An error of a task is raised
        here, and what is under way is stopped.
        """

    def crew(self, make: Callable[[Any], Any], shares: Sequence[Any]) -> Crew | None:
        """Objects made of the shares, spread over the workers; None where there is nothing to be won by it."""

    def close(self) -> None:
        """Stop the workers."""


def open_engine(
    name: str = "local", workers: int | None = None, address: str | None = None, *, gpus: bool = False
) -> Engine:
    """An engine by name. `workers` are as many as there are cores if not said.

    For Ray: the `address` of a cluster, and whether a task has a GPU to itself where the cluster has any.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise BadInput(f"workers must be a whole number of at least 1, got {workers!r}")
    if address is not None and name != "ray":
        raise BadInput(f"an address is for engine='ray', got engine={name!r} with address={address!r}")
    if name == "local":
        from ncalr.engine.local import Threads

        return Threads(workers)
    if name == "processes":
        from ncalr.engine.local import Processes

        return Processes(workers)
    if name == "ray":
        from ncalr.engine.cluster import RayEngine

        return RayEngine(workers, address, gpus=gpus)
    raise unknown("engine", name, ENGINES)
