"""People as an oracle of the loop: what they decided, by item name.

    oracle = People(store)
    ncalr.run(dataset, oracle=oracle, …)          # asks, and goes on with what is answered
    People(store, wait=3600).answer(ids)          # puts the ids first in the queue and waits, at most so long

An item people called none of these, or broken, is refused; one that is open is answered later.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ncalr.oracles.oracle import LATER, REFUSED, Answers, Directory, as_ids
from ncalr.web.store import Store, ranking, schema
from ncalr.web.store.ranking import Ranked, Trained

REFUSALS = ("none", "broken", "unclear")
POLL = 0.5


class People:
    """The people who label in a store."""

    def __init__(self, store: Store, wait: float = 0.0) -> None:
        self.store, self.wait = store, wait
        rows = store.read(lambda conn: conn.execute(select(schema.item.c.name, schema.item.c.id)).all())
        self._numbers = np.array([row.id for row in rows], np.int64)
        self._directory = Directory(np.array([row.name for row in rows]))

    def answer(self, ids: Any) -> Answers:
        """What people have decided about these items, after waiting for them where that is asked for."""
        asked = as_ids(ids)
        numbers = self._numbers[self._directory.positions(asked)]
        if self.wait and len(numbers):
            self._put_first(numbers)
        until = time.monotonic() + self.wait
        while True:
            labels, by = self.store.read(lambda conn: _decided(conn, numbers.tolist()))
            if not (labels == LATER).any() or time.monotonic() >= until:
                return Answers(asked, labels, np.array(by, dtype=str) if len(by) else "")
            time.sleep(POLL)

    def _put_first(self, numbers: Any) -> None:
        order = dict.fromkeys(int(number) for number in numbers)
        epoch = ranking.prepare(self.store, [Ranked(number, "strategy", 1.0) for number in order])
        ranking.swap(self.store, epoch, Trained(0, 0, self.store.clock.now(), {"by": "the loop"}))


def _decided(conn: Connection, numbers: list[int]) -> tuple[Any, list[str]]:
    state = {row.item_id: row for row in _rows(conn, schema.state, numbers)}
    names = {row.id: row.name for row in conn.execute(select(schema.person))}
    voters: dict[int, list[str]] = {}
    for row in _rows(conn, schema.vote, numbers):
        voters.setdefault(row.item_id, []).append(names[row.person_id])
    labels, by = [], []
    for number in numbers:
        row = state.get(number)
        if row is not None and row.status == "labelled":
            labels.append(row.answer)
        else:
            labels.append(REFUSED if row is not None and row.status in REFUSALS else LATER)
        by.append("+".join(sorted(set(voters.get(number, [])))))
    return np.array(labels, np.int64), by


def _rows(conn: Connection, table: Any, numbers: list[int]) -> list[Any]:
    found: list[Any] = []
    for start in range(0, len(numbers), 500):
        found += conn.execute(select(table).where(table.c.item_id.in_(numbers[start : start + 500]))).all()
    return found
