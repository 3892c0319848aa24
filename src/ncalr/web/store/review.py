"""The second queue: labels that look doubtful, asked again blind, with matched controls between them.

For every doubtful label a control is drawn at random among the labels of the same class that look sound. Whoever is
asked cannot tell them apart and is not told what was said before. So the queue knows its own precision: how often the
second answer differs for doubtful labels, against how often it differs for controls.

The audit that says which labels are doubtful is any function from labels to `Doubt`s; `ncalr.web.worker` has one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from sqlalchemy import Connection, func, insert, select

from ncalr.web.store import schema


@dataclass(frozen=True)
class Doubt:
    """A label that looks wrong: how much (higher is worse), what it might be, and why, in words."""

    item_id: int
    suspicion: float
    suggestion: int | None
    reason: str


@dataclass(frozen=True)
class Precision:
    """What the second looks found."""

    doubtful: int
    doubtful_differed: int
    controls: int
    controls_differed: int
    open: int


def enqueue(
    conn: Connection, epoch: int, doubts: Iterable[Doubt], sound: Sequence[int], seed: int | Sequence[int]
) -> int:
    """Put doubtful labels and their controls in line, shuffled; how many places. Each item is asked about once.

    `sound` are the items a control may be drawn from.
    """
    given = _labels(conn)
    asked = set(conn.execute(select(schema.review.c.item_id)).scalars())
    rng = np.random.default_rng(seed)
    fresh = [doubt for doubt in doubts if doubt.item_id in given and doubt.item_id not in asked]
    taken = asked | {doubt.item_id for doubt in fresh}
    alike: dict[int, list[int]] = defaultdict(list)  # items that may be a control, by their label
    for item in sound:
        if item in given and item not in taken:
            alike[given[item]].append(item)
    lines: list[tuple[Doubt, bool]] = []  # with whether it is doubtful
    for doubt in fresh:
        lines.append((doubt, True))
        matching = alike[given[doubt.item_id]]
        if matching:
            control = matching.pop(int(rng.integers(len(matching))))
            lines.append((Doubt(control, 0.0, None, "control"), False))
    start = 1 + int(conn.execute(select(func.max(schema.review.c.id))).scalar() or 0)
    shuffled = (lines[at] for at in rng.permutation(len(lines)))
    rows = [
        {**asdict(line), "id": place, "given": given[line.item_id], "doubtful": kind, "epoch": epoch, "status": "open"}
        for place, (line, kind) in enumerate(shuffled, start)
    ]
    if rows:
        conn.execute(insert(schema.review), rows)
    return len(rows)


def precision(conn: Connection) -> Precision:
    """How often the second answer differed, for doubtful labels and for controls."""
    table = schema.review
    counts = {
        (bool(doubtful), status): count
        for doubtful, status, count in conn.execute(
            select(table.c.doubtful, table.c.status, func.count()).group_by(table.c.doubtful, table.c.status)
        )
    }

    def both(kind: bool) -> tuple[int, int]:
        differed = counts.get((kind, "differed"), 0)
        return differed + counts.get((kind, "agreed"), 0), differed

    doubtful, controls = both(True), both(False)
    waiting = sum(count for (_, status), count in counts.items() if status == "open")
    return Precision(*doubtful, *controls, waiting)


def _labels(conn: Connection) -> dict[int, int]:
    table = schema.state
    rows = conn.execute(select(table.c.item_id, table.c.answer).where(table.c.status == "labelled"))
    return {row.item_id: row.answer for row in rows}
