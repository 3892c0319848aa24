"""Opening a store: the right pragmas on every connection, migrations, refusals that say what to do.

SQLite runs in WAL mode with synchronous=FULL: in NORMAL a power cut may take back commits that were acknowledged.
PostgreSQL must not run with synchronous_commit=off, for the same reason.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from ncalr.errors import BadInput, NcalrError
from ncalr.extras import check_installed
from ncalr.web.store import schema
from ncalr.web.store.clock import Clock, SteadyClock
from ncalr.web.store.writer import Writer

T = TypeVar("T")
BUSY_SECONDS = 30.0
_ALIKE: dict[str, Any] = {"pool_size": 10, "max_overflow": 40, "hide_parameters": True}  # no texts of people in a log


class NoRoom(NcalrError):
    """The disk is full or may not be written: nothing was changed."""


class Store:
    """One project's database."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.engine, self.clock = engine, clock
        self._writer = Writer(engine)

    def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` finds in one unchanging view of the database."""
        with self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                return work(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, once its changes are durable."""
        with _told_of_no_room():
            return self._writer.run(work)

    async def awrite(self, work: Callable[[Connection], T], durable: bool = True) -> T:
        """The same for a coroutine: no thread waits."""
        with _told_of_no_room():
            return await asyncio.wrap_future(self._writer.submit(work, durable))

    def start(self) -> None:
        """Start the writer's thread now, with the priority the caller has now."""
        self._writer.start()

    def close(self) -> None:
        """Finish what waits, let go of the connections."""
        self._writer.close()
        self.engine.dispose()


def open_store(url: str | Path, *, clock: Clock | None = None, migrate: bool = True, unsafe: bool = False) -> Store:
    """The store at this URL, or in this SQLite file; made or brought up to date where that is needed.

    `unsafe` allows a PostgreSQL that acknowledges before it has written.
    """
    from ncalr.web.store.migrate import upgrade

    engine = open_engine(url)
    try:
        with _told_of_no_database(engine):
            _check_durable(engine, unsafe)
            if migrate:
                upgrade(engine)
            with engine.connect() as connection:
                last = connection.execute(select(func.max(schema.event.c.received))).scalar()
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, clock or SteadyClock(last or 0.0))


def open_engine(url: str | Path) -> Engine:
    """An engine whose every connection has the settings we rely on."""
    try:
        parsed = make_url(f"sqlite:///{url}") if isinstance(url, Path) or "://" not in url else make_url(url)
    except (ArgumentError, ValueError):
        raise BadInput(
            "the URL of a database looks like postgresql://user:password@host/name; this one does not"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    if parsed.get_backend_name() == "postgresql":
        check_installed("psycopg", "postgres", "PostgreSQL")
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True, **_ALIKE)
    raise BadInput(f"the database must be sqlite or postgresql, got {parsed.get_backend_name()!r}")


def make_private(path: Path) -> None:
    """An empty file that only its owner can read, where there is none; SQLite makes a database of it."""
    with suppress(OSError):  # it is there, or what is wrong with the place is told when it is opened
        path.touch(0o600, exist_ok=False)


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise BadInput("a store needs a file: what is only in memory is lost at the end")
    make_private(Path(url.database))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, **_ALIKE)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=1000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # a transaction that will write asks for the right at once: asked for later, it may be refused
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _check_durable(engine: Engine, unsafe: bool) -> None:
    if engine.dialect.name != "postgresql" or unsafe:
        return
    with engine.connect() as connection:
        setting = connection.execute(text("SHOW synchronous_commit")).scalar()
    if setting == "off":
        raise BadInput(
            "PostgreSQL runs with synchronous_commit=off: it would acknowledge answers that a power cut then takes "
            "away. Set it to on for this database, or start with --unsafe-database"
        )


@contextmanager
def _told_of_no_database(engine: Engine) -> Iterator[None]:
    """What cannot be opened is said in a sentence, without the password in the URL."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        words = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
        if engine.dialect.name == "sqlite":
            raise BadInput(
                f"{engine.url.database} is no database of labels that can be opened ({words}). If it is damaged, move "
                "it away and put a backup back: ncalr labels restore BACKUP PROJECT"
            ) from error
        raise BadInput(
            f"the database {engine.url.render_as_string(hide_password=True)} cannot be opened ({words}); is the server "
            "running, and are the name, the user and the password right?"
        ) from error


@contextmanager
def _told_of_no_room() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if _no_room(error):
            raise NoRoom(
                f"the database cannot be written ({error.orig}); nothing was changed. Make room on the disk, or "
                "make the file writable; what people answer meanwhile waits in their browsers"
            ) from error
        raise


def _no_room(error: DBAPIError) -> bool:
    words = str(error.orig).lower()
    return any(sign in words for sign in ("disk is full", "readonly database", "no space left", "disk i/o error"))
