"""The items by what became of them, for an owner who looks through all that are called the same.

Of a label that looks wrong one more opinion is asked for: the item is open again, and goes to somebody who has not
answered it. Nothing is overwritten, and who looked at it decides nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select, true

from ncalr.errors import BadInput
from ncalr.web.store import again, answers, projects, schema
from ncalr.web.store.answers import NoSuchItem
from ncalr.web.store.people import Person

STATUSES = ("labelled", "none", "broken", "disputed", "unclear")


def page(
    conn: Connection, person: Person, status: str, answer: int | None = None, after: int = 0, limit: int = 60
) -> list[dict[str, Any]]:
    """Items with this verdict in the order of the folder, each with this person's own answer to it, if there is one."""
    if status not in STATUSES:
        raise BadInput(f"items are {', '.join(STATUSES)}; got {status!r}")
    states, items = schema.state, schema.item
    wanted = [states.c.status == status, states.c.item_id > after]
    if answer is not None:
        wanted.append(states.c.answer == answer)
    rows = conn.execute(
        select(states, *again.shown(items))
        .join(items, items.c.id == states.c.item_id)
        .where(*wanted)
        .order_by(states.c.item_id)
        .limit(limit)
    ).all()
    mine = answers.history(conn, person, len(answers.ROLE_FOR) * limit, items=[row.item_id for row in rows])
    own = {entry["item"]: entry for entry in reversed(mine) if entry["kind"] != "skip"}  # the latest
    return [
        {
            "number": row.item_id,
            "item": row.key,
            "name": row.name,
            "text": row.text,
            "purpose": "label",
            "answer": row.answer,
            "confidence": row.confidence,
            "votes": row.votes,
            "own": own.get(row.key),
        }
        for row in rows
    ]


def ask_again(conn: Connection, key: str) -> int:
    """Ask for one more opinion on an item that has a label; how many answers it wants now."""
    states, items, people, votes = schema.state, schema.item, schema.person, schema.vote
    verdict = select(states).join(items, items.c.id == states.c.item_id).where(items.c.key == key)
    found = conn.execute(verdict).first()
    if found is None or found.status not in ("labelled", "none", "broken"):
        raise NoSuchItem("there is no such item with a verdict: somebody may have changed it meanwhile")
    said = votes.c.kind != "skip"
    heard = select(votes.c.person_id).where(votes.c.item_id == found.item_id, said)
    left = select(func.count()).where(people.c.active.is_(true()), people.c.id.not_in(heard))
    if not conn.execute(left).scalar_one():
        raise BadInput("everybody has answered it already: change your own answer, or invite somebody")
    wanted = int(max(found.votes, found.needed or projects.load(conn).votes)) + 1
    answers.need(conn, found.item_id, wanted)
    if conn.execute(verdict).one().status != "open":
        raise BadInput("a reviewer has decided it, which stands")
    return wanted
