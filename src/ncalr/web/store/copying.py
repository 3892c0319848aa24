"""Copies of a whole store: backup, restore, and the move between SQLite and PostgreSQL.

A copy is taken from one unchanging view while people go on labelling, table by table, and what matters is proven: the
chain of hashes is computed again over the copied events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, insert, select

from ncalr.errors import BadInput, NcalrError
from ncalr.web.store import answers, schema
from ncalr.web.store.database import Store, make_private, open_store

BATCH = 2000
PASSING = {"session"}
"""Tables that are not copied: a session is for one server."""


class BrokenChain(NcalrError):
    """Events were changed, removed or put in by something that is not ncalr."""


def backup(store: Store, target: Path) -> str:
    """Everything in one new SQLite file, as of now, while the store is in use; the hash of its last event."""
    if target.exists():
        raise BadInput(f"{target} exists already; a backup never overwrites")
    if not target.absolute().parent.is_dir():
        raise BadInput(f"{target} cannot be written: there is no folder {target.parent}; make it, or choose another")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    if store.engine.dialect.name == "sqlite":
        copy_sqlite(store.engine, part)
    else:
        copied = open_store(part)
        copy(store, copied)
        copied.close()
    found = check(part)
    part.replace(target)
    for rest in (part.with_name(part.name + "-wal"), part.with_name(part.name + "-shm")):
        rest.unlink(missing_ok=True)
    return found


def restore(source: Path, target: Store) -> str:
    """A backup into an empty store; the hash of its last event."""
    check(source)
    saved = open_store(source)
    try:
        return copy(saved, target)
    finally:
        saved.close()


def check(source: Path) -> str:
    """Whether a backup is whole: the file's own check, and the chain of events; the hash of the last one."""
    if not source.is_file():
        raise BadInput(f"there is no backup {source}")
    store = open_store(source, migrate=False)
    try:
        with store.engine.connect() as connection:
            verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        if verdict != "ok":
            raise BadInput(f"{source} is damaged: {verdict}")
        return verify(store)
    finally:
        store.close()


def verify(store: Store) -> str:
    """Compute the chain of hashes again; the hash of the last event. An event that does not fit is named."""

    def walk(conn: Any) -> str:
        before, expected = answers.GENESIS, 1
        events = select(schema.event).order_by(schema.event.c.seq)
        with conn.execution_options(yield_per=BATCH).execute(events) as rows:
            for row in rows:
                said = dict(row._mapping)
                if said["seq"] != expected or answers.chained(before, said) != said["hash"]:
                    raise BrokenChain(
                        f"event {expected} is not what was written, or is missing: the database was changed from "
                        "outside. Events before it are as they were; restore a backup"
                    )
                before, expected = said["hash"], expected + 1
        return before

    return store.read(walk)


def copy(source: Store, target: Store) -> str:
    """Every table into an empty store of either kind; the hash of the last event, which is the same in both."""
    if target.read(lambda conn: conn.execute(select(func.count()).select_from(schema.project)).scalar_one()):
        raise BadInput("the target holds a project already; copy into an empty database")

    def send(conn: Any) -> None:
        for table in schema.metadata.sorted_tables:
            if table.name not in PASSING:
                for rows in _batches(conn, table):
                    target.write(partial(_put, table=table, rows=rows))

    source.read(send)
    return verify(target)


def copy_sqlite(engine: Engine, target: Path) -> None:
    """SQLite's own online backup."""
    make_private(target)
    to = sqlite3.connect(target)
    try:
        with engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.backup(to)
        to.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    finally:
        to.close()


def _put(conn: Any, table: Any, rows: list[dict[str, Any]]) -> None:
    conn.execute(insert(table), rows)


def _batches(conn: Any, table: Any) -> Iterator[list[dict[str, Any]]]:
    with conn.execution_options(yield_per=BATCH).execute(select(table).order_by(*table.primary_key.columns)) as rows:
        for part in rows.mappings().partitions(BATCH):
            yield [dict(row) for row in part]
