"""Many rows at once: by COPY where the database has it, else by one prepared insert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table

T = TypeVar("T")


def batches(given: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time, for transactions that are short."""
    rest = iter(given)
    while batch := list(islice(rest, size)):
        yield batch


def fill(conn: Connection, table: Table, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    """Append rows, within the transaction of `conn`; columns that are not named are empty."""
    quoted = ", ".join(f'"{name}"' for name in names)
    driver: Any = conn.connection.driver_connection
    cursor = driver.cursor()
    try:
        if conn.dialect.name == "postgresql":
            with cursor.copy(f"COPY {table.name} ({quoted}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        else:
            places = ", ".join("?" * len(names))
            cursor.executemany(f"INSERT INTO {table.name} ({quoted}) VALUES ({places})", rows)  # noqa: S608 (our names)
    finally:
        cursor.close()
