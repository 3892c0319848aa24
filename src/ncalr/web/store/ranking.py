"""Who comes next: orders by epoch, made ready beside the one in use and swapped in one transaction.

An epoch is written in small batches that nobody sees; `swap` then moves one number in the project's row. A request sees
the old order or the new one, never a mix. Rows of items that are closed are taken out as they close, so the head of
an order is always work that is open, however much was done before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from ncalr.web.store import schema
from ncalr.web.store.database import Store
from ncalr.web.store.filling import batches

BATCH = 2000
LIMIT = 20_000
"""Ranks a model gives; behind them the first order goes on. A queue is ranked anew long before so many are answered."""


@dataclass(frozen=True)
class Ranked:
    """One place of a new order."""

    item_id: int
    arm: str  # strategy or control
    probability: float
    score: float | None = None
    predicted: int | None = None
    why: dict[str, Any] | None = None


@dataclass(frozen=True)
class Trained:
    """What is known of the model behind an order."""

    labels: int
    seq: int
    began: float
    facts: dict[str, Any]


def prepare(store: Store, ranked: Iterable[Ranked]) -> int:
    """Write an order that is not in use yet; its epoch. What an earlier attempt left behind is removed first."""
    for left in store.read(_left_behind):
        clear(store, left)
    epoch = store.write(_fresh_epoch)
    rank = 0
    for batch in batches(ranked, BATCH):
        rows = [
            {**asdict(entry), "epoch": epoch, "rank": rank + at, "why": json.dumps(entry.why) if entry.why else None}
            for at, entry in enumerate(batch)
        ]
        store.write(lambda conn, rows=rows: conn.execute(insert(schema.ranking), rows))  # type: ignore[misc]
        rank += len(batch)
    return epoch


def swap(store: Store, epoch: int, trained: Trained) -> None:
    """Put a prepared order in use, in one transaction; then clear the old one away in small steps."""
    now = store.clock.now()

    def change(conn: Connection) -> int:
        before = int(conn.execute(select(schema.project.c.epoch)).scalar_one())
        closed = select(schema.state.c.item_id).where(schema.state.c.status != "open")
        conn.execute(
            delete(schema.ranking).where(schema.ranking.c.epoch == epoch, schema.ranking.c.item_id.in_(closed))
        )
        conn.execute(update(schema.project).values(epoch=epoch))
        conn.execute(
            insert(schema.model).values(
                epoch=epoch,
                labels=trained.labels,
                seq=trained.seq,
                began=trained.began,
                ready=now,
                facts=json.dumps(trained.facts),
            )
        )
        return before

    before = store.write(change)
    if before != schema.BASE:
        clear(store, before)


def add_facts(conn: Connection, epoch: int, facts: dict[str, Any]) -> None:
    """Put more with what is known of the model behind an order."""
    mine = schema.model.c.epoch == epoch
    known = json.loads(conn.execute(select(schema.model.c.facts).where(mine)).scalar_one())
    conn.execute(update(schema.model).where(mine).values(facts=json.dumps({**known, **facts})))


def clear(store: Store, epoch: int) -> None:
    """Remove an order that is not in use."""
    table = schema.ranking
    while True:
        ranks = select(table.c.rank).where(table.c.epoch == epoch).order_by(table.c.rank).limit(BATCH)
        gone = store.write(
            lambda conn, ranks=ranks: (
                conn.execute(  # type: ignore[misc]
                    delete(table).where(table.c.epoch == epoch, table.c.rank.in_(ranks.scalar_subquery()))
                ).rowcount
            )
        )
        if gone < BATCH:
            return


def take_out(conn: Connection, item_id: int) -> None:
    """The item is closed."""
    conn.execute(_TAKE_OUT, {"item": item_id})


def put_back(conn: Connection, item_id: int, facts: dict[str, Any], seq: int, current: int) -> None:
    """The item is open again: ahead of all others, for it was somebody's turn already."""
    for epoch in {current, schema.BASE}:
        conn.execute(insert(schema.ranking).values(epoch=epoch, rank=-seq, item_id=item_id, **facts))


def _left_behind(conn: Connection) -> list[int]:
    """Orders that are neither the first one nor in use: somebody was stopped while they wrote or cleared them."""
    in_use = select(schema.project.c.epoch).scalar_subquery()
    epoch = schema.ranking.c.epoch
    return list(conn.execute(select(epoch).where(epoch > schema.BASE, epoch != in_use).distinct()).scalars())


def _fresh_epoch(conn: Connection) -> int:
    known = conn.execute(select(func.max(schema.model.c.epoch))).scalar() or schema.BASE
    written = conn.execute(select(func.max(schema.ranking.c.epoch))).scalar() or schema.BASE
    return max(int(known), int(written)) + 1


_TAKE_OUT = delete(schema.ranking).where(schema.ranking.c.item_id == bindparam("item"))
