"""Insert a row, or change the one that is there: the same on both databases, each statement made once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from ncalr.web.store import schema


def upsert(conn: Connection, table: Any, values: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Write these values; where a row with these keys is there, over what it says."""
    conn.execute(_statement(conn.dialect.name, table.name, tuple(values), keys), values)


def add_up(conn: Connection, table: Any, rows: Sequence[dict[str, Any]], key: str, number: str) -> None:
    """Add each row's number to the one that is there, or begin with it."""
    conn.execute(_sum(conn.dialect.name, table.name, key, number), rows)


@cache
def _statement(dialect: str, table: str, names: tuple[str, ...], keys: tuple[str, ...]) -> Any:
    statement = _insert(dialect)(schema.metadata.tables[table])
    changed = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changed)


@cache
def _sum(dialect: str, table: str, key: str, number: str) -> Any:
    made = schema.metadata.tables[table]
    statement = _insert(dialect)(made)
    return statement.on_conflict_do_update(
        index_elements=[key], set_={number: made.c[number] + statement.excluded[number]}
    )


def _insert(dialect: str) -> Any:
    return postgresql.insert if dialect == "postgresql" else sqlite.insert
