"""What is asked again, and of whom: the second look at labels, and the decision where people disagree.

*A second look* goes to somebody who has not said anything about the item. Where everybody who may come in has, nobody
fresh is left: then it goes, blind as ever, to whoever answered it longest ago, or to a reviewer.

*A decision* goes to a reviewer or owner who took no part in the dispute. Where all of them did, any of them decides.

Neither waits for somebody who was not seen for some days; what nobody decided for as long, an owner may.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, exists, func, or_, select

from ncalr.web.store import schema
from ncalr.web.store.people import Person
from ncalr.web.store.schema import HELD

DECIDERS = ("reviewer", "owner")
UNDECIDED = ("disputed", "unclear")

LATELY = 3 * 24 * 3600.0
"""Whoever was not seen for longer is not waited for."""

MOST = 1000
"""So many are counted at most; the page shows "999+" then."""


def doubtful(conn: Connection, now: float, person: Person, count: int) -> list[dict[str, Any]]:
    """Open places of the second queue for this person that are on nobody's screen; what they put off comes last."""
    table, leases, items, votes = schema.review, schema.lease, schema.item, schema.vote.alias("put_off")
    taken = exists().where(leases.c.review_id == table.c.id, leases.c.status == HELD)
    skipped = (votes.c.person_id == person.id, votes.c.kind == "skip", votes.c.purpose == "review")
    free = (
        select(table, *shown(items))
        .join(items, items.c.id == table.c.item_id)
        .where(_may_look(person, _seen_lately(conn, now)), ~taken)
        .limit(count)
    )
    rows = conn.execute(
        free.where(~_among(votes, votes.c.item_id == table.c.item_id, *skipped)).order_by(table.c.id)
    ).all()
    if len(rows) < count:
        late = free.join(votes, votes.c.item_id == table.c.item_id).where(*skipped)
        rows = [*rows, *conn.execute(late.order_by(votes.c.seq).limit(count - len(rows)))]
    return [{**_facts(row, "review"), "epoch": row.epoch, "rank": row.id, "review_id": row.id} for row in rows]


def disputed(conn: Connection, now: float, person: Person, count: int) -> list[dict[str, Any]]:
    """Items this person may decide that are on nobody's screen."""
    states, leases, items = schema.state, schema.lease, schema.item
    taken = exists().where(
        leases.c.item_id == states.c.item_id, leases.c.status == HELD, leases.c.purpose == "adjudicate"
    )
    rows = conn.execute(
        select(states.c.item_id, *shown(items))
        .join(items, items.c.id == states.c.item_id)
        .where(_may_decide(person, now, _seen_lately(conn, now)), ~taken)
        .order_by(states.c.seq)
        .limit(count)
    )
    return [_facts(row, "adjudicate") for row in rows]


def waiting(conn: Connection, now: float, person: Person) -> dict[str, int]:
    """How many second looks and decisions this person can do something about; no more than MOST are counted."""
    lately = _seen_lately(conn, now)

    def count(table: Any, may: Any) -> int:
        some = select(table.c[0]).where(may).limit(MOST).subquery()
        return int(conn.execute(select(func.count()).select_from(some)).scalar_one())

    return {
        "review": count(schema.review, _may_look(person, lately)),
        "decide": count(schema.state, _may_decide(person, now, lately)) if person.may("reviewer") else 0,
    }


def tells(name: str, classes: Sequence[str]) -> bool:
    """Whether an item's name, which may be a path, has the name of a class in it as a word, or several of it.

    >>> tells("Cats/001.png", ["cat", "dog"]), tells("scatter/001.png", ["cat", "dog"])
    (True, False)
    """
    return any(re.search(rf"(?<![^\W_]){re.escape(each)}(e?s)?(?![^\W_])", name, re.IGNORECASE) for each in classes)


def shown(items: Any) -> tuple[Any, ...]:
    """What a tab is told of an item."""
    return items.c.key, items.c.name, items.c.text


def _may_look(person: Person, lately: Sequence[int]) -> Any:
    table, votes, people = schema.review, schema.vote, schema.person
    fresh = _among(people, people.c.id.in_(lately), ~_spoke(table.c.item_id, people.c.id))
    mine, other = votes.alias("mine"), votes.alias("other")
    own = select(func.min(mine.c.seq)).where(mine.c.item_id == table.c.item_id, mine.c.person_id == person.id)
    before = _among(
        other,
        other.c.item_id == table.c.item_id,
        other.c.kind != "skip",
        other.c.seq < own.correlate_except(mine).scalar_subquery(),
        other.c.person_id.in_(lately),
    )
    again = ~fresh if person.may("reviewer") else and_(~fresh, ~before)
    return and_(table.c.status == "open", or_(~_spoke(table.c.item_id, person.id), again))


def _may_decide(person: Person, now: float, lately: Sequence[int]) -> Any:
    states, people, events = schema.state, schema.person, schema.event
    impartial = _among(
        people, people.c.id.in_(lately), people.c.role.in_(DECIDERS), ~_spoke(states.c.item_id, people.c.id)
    )
    may = [~_spoke(states.c.item_id, person.id), ~impartial]
    if person.may("owner"):
        may.append(_among(events, events.c.seq == states.c.seq, events.c.received < now - LATELY))
    return and_(states.c.status.in_(UNDECIDED), or_(*may))


def _seen_lately(conn: Connection, now: float) -> list[int]:
    """Those who may come in and were new, here or answering within LATELY."""
    people, sessions, events = schema.person, schema.session, schema.event
    since = now - LATELY
    newest = select(events.c.received).where(events.c.person_id == people.c.id).order_by(events.c.seq.desc()).limit(1)
    lately = or_(
        people.c.created > since,
        _among(sessions, sessions.c.person_id == people.c.id, sessions.c.seen > since),
        newest.correlate_except(events).scalar_subquery() > since,
    )
    return list(conn.execute(select(people.c.id).where(people.c.active.is_(True), lately)).scalars())


def _spoke(item_id: Any, person_id: Any) -> Any:
    """That somebody said something about an item."""
    votes = schema.vote.alias("said")
    return _among(votes, votes.c.item_id == item_id, votes.c.person_id == person_id, votes.c.kind != "skip")


def _among(table: Any, *conditions: Any) -> Any:
    """That there is such a row; whatever else the conditions name belongs to the statements around this one."""
    return select(table.c[0]).where(*conditions).correlate_except(table).exists()


def _facts(row: Any, arm: str) -> dict[str, Any]:
    unknown = {"score": None, "probability": None, "predicted": None}
    item = {"item_id": row.item_id, "key": row.key, "name": row.name, "text": row.text}
    return {**item, **unknown, "epoch": 0, "rank": 0, "arm": arm}
