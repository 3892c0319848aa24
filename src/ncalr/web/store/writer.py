"""One writer: every change waits in one line, and what waits together is made durable together.

SQLite has one writer at a time in any case; waiting in our own line is fair and quick where its busy loop is neither.
PostgreSQL gets the same order from one advisory lock, so that both databases behave alike: the chain of hashes, the
leases and the votes need no reasoning about isolation levels. One commit (and one sync of the disk) serves everybody
who waited, which is what keeps 50 clients below the time of a few syncs. The writer keeps its connection: taking one
from the pool, asking whether it is alive and cleaning it up afterwards cost as much as an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, RootTransaction
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")
TOGETHER = 64
LOCK = 0x6E63616C72
_LOCK = f"SELECT pg_advisory_xact_lock({LOCK})"
_LOCK_UNSYNCED = f"{_LOCK}, set_config('synchronous_commit', 'off', true)"


class Writer:
    """Carries out changes one after the other; `run` returns when the change is on disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(immediate=True)
        self._line: SimpleQueue[_Change | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._connection: Connection | None = None

    def start(self) -> None:
        """Begin to serve; the first change does it too."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="ncalr writer", daemon=True)
                self._thread.start()

    def submit(self, work: Callable[[Connection], T], durable: bool = True) -> Future[T]:
        """Stand in line: what comes of it is what `work` returns or raises, after it was committed or taken back.

        What need not be `durable` may be lost in a power cut, where PostgreSQL saves the sync of the disk; never so
        without whatever was committed after it.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a change asked for another change and would wait for itself; pass its connection on")
        self.start()
        change = _Change(work, durable)
        self._line.put(change)
        return change.done

    def run(self, work: Callable[[Connection], T]) -> T:
        """Stand in line and wait."""
        return self.submit(work).result()

    def close(self) -> None:
        """Finish what waits and end."""
        with self._starting:
            if self._thread is not None:
                self._line.put(None)
                self._thread.join()
                self._thread = None

    def _serve(self) -> None:
        try:
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
        finally:
            self._let_go()

    def _commit(self, waited: list[_Change]) -> None:
        # whoever gave up while waiting is left out; from here on giving up is too late
        changes = [change for change in waited if change.done.set_running_or_notify_cancel()]
        if not changes:
            return
        try:
            connection, transaction = self._begin(any(change.durable for change in changes))
            with transaction:
                for change in changes:
                    change.attempt(connection, alone=len(changes) == 1)
        except BaseException as error:  # the commit itself failed: nobody's change is there
            if isinstance(error, DBAPIError):
                self._let_go()
            for change in changes:
                change.done.set_exception(change.error or error)
            return
        for change in changes:
            change.answer()

    def _begin(self, durable: bool) -> tuple[Connection, RootTransaction]:
        """Our connection, as the one writer; a new one where the database was gone in between."""
        if self._connection is not None:
            try:
                return self._connection, _locked(self._connection, durable)
            except DBAPIError:
                self._let_go()
        self._connection = self._engine.connect()
        return self._connection, _locked(self._connection, durable)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken, which is why it goes
                connection.invalidate()
            with suppress(Exception):
                connection.close()


def lock(connection: Connection, durable: bool = True) -> None:
    """Become the one writer of the database until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_LOCK if durable else _LOCK_UNSYNCED)


def _locked(connection: Connection, durable: bool) -> RootTransaction:
    transaction = connection.begin()
    lock(connection, durable)
    return transaction


@contextmanager
def unread(connection: Connection) -> Iterator[None]:
    """Changes whose results nobody reads: PostgreSQL gets them together, and is waited for once, not each time."""
    if connection.dialect.name != "postgresql":
        yield
        return
    from psycopg import Error

    driver: Any = connection.connection.driver_connection
    try:
        with driver.pipeline():
            yield
    except Error as error:  # it did not come by SQLAlchemy, which would have called it so
        raise DBAPIError(None, None, error) from error


class _Change:
    def __init__(self, work: Callable[[Connection], Any], durable: bool) -> None:
        self.work, self.durable = work, durable
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
