"""One writer: every change waits in one line, and what waits together is made durable together.

SQLite has one writer at a time in any case; waiting in our own line is fair and quick where its busy loop is neither.
PostgreSQL gets the same order from one advisory lock, so that both databases behave alike: the chain of hashes, the
leases and the votes need no reasoning about isolation levels. One commit (and one sync of the disk) serves everybody
who waited, which is what keeps 50 clients below the time of a few syncs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, text

T = TypeVar("T")
TOGETHER = 64
LOCK = 0x6E63616C72


class Writer:
    """Carries out changes one after the other; `run` returns when the change is on disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(immediate=True)
        self._line: SimpleQueue[_Change | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, after it was committed; what it raises, after it was taken back."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a change asked for another change and would wait for itself; pass its connection on")
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="ncalr writer", daemon=True)
                self._thread.start()
        change = _Change(work)
        self._line.put(change)
        return change.done.result()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Finish what waits and end."""
        with self._starting:
            if self._thread is not None:
                self._line.put(None)
                self._thread.join()
                self._thread = None

    def _serve(self) -> None:
        while (first := self._line.get()) is not None:
            together, last = [first], False
            while len(together) < TOGETHER and not self._line.empty():
                more = self._line.get()
                if more is None:
                    last = True
                    break
                together.append(more)
            self._commit(together)
            if last:
                return

    def _commit(self, changes: list[_Change]) -> None:
        try:
            with self._engine.begin() as connection:
                lock(connection)
                for change in changes:
                    change.attempt(connection, alone=len(changes) == 1)
        except BaseException as error:  # the commit itself failed: nobody's change is there
            for change in changes:
                change.done.set_exception(change.error or error)
            return
        for change in changes:
            change.answer()


def lock(connection: Connection) -> None:
    """Become the one writer of the database until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


class _Change:
    def __init__(self, work: Callable[[Connection], Any]) -> None:
        self.work = work
        self.done: Future[Any] = Future()
        self.result: Any = None
        self.error: BaseException | None = None

    def attempt(self, connection: Connection, alone: bool) -> None:
        """Try it; one that fails takes back its own traces and no others."""
        try:
            if alone:
                self.result = self.work(connection)
                return
            with connection.begin_nested():
                self.result = self.work(connection)
        except BaseException as error:
            self.error = error
            if alone:
                raise

    def answer(self) -> None:
        """Tell whoever waits."""
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.result)
