"""Handing items out: to each the first in order that still wants a vote and that nobody else is looking at.

A lease says who has an item on the screen, in which tab, until when. An item may be out as often as it still needs
votes, to different people; to one person once, also over two tabs. A lease that is not renewed ends, and its item is
free again. Whatever arrives for it later is kept all the same (`answers`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import (
    Connection,
    Integer,
    and_,
    bindparam,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    update,
)

from ncalr.acquire.lottery import Lottery
from ncalr.errors import BadInput
from ncalr.web.store import again, projects, schema
from ncalr.web.store.people import Person
from ncalr.web.store.schema import HELD
from ncalr.web.store.upsert import upsert

AHEAD = 10
"""The most items one tab may hold."""

HANDS = 30
"""The most items one person may hold, in however many tabs: nobody takes everything from the others."""

BEGINNING = -(2**62)
STRIDE = 8
SILENT = 0.6
"""The share of a lease after which a tab that does not beat is taken for closed, by whoever had it open."""


@dataclass(frozen=True)
class Lease:
    """An item in somebody's hands."""

    token: str
    item: str  # the opaque key
    purpose: str
    expires: float
    name: str  # its permanent name: of the file, or of the row
    text: str | None
    suggestion: int | None  # only where it is to be shown


@dataclass(frozen=True)
class Emptiness:
    """Why there is nothing to hand out, honestly."""

    open: int  # items that still want votes
    elsewhere: int  # of those: on somebody else's screen
    people: int  # on how many people's
    until: float | None  # when the first of these is free again, at the latest
    own_tabs: int  # on the screen of this person's other tabs
    for_others: int  # answered by this person, waiting for somebody else

    @property
    def done(self) -> bool:
        """Whether nothing at all is left."""
        return self.open == 0


def hand_out(conn: Connection, now: float, person: Person, tab: str, want: int, purpose: str = "label") -> list[Lease]:
    """Up to `want` items for this tab, those it holds already first; each for as long as the project's leases last."""
    if not 1 <= want <= AHEAD:
        raise BadInput(f"a tab may hold 1 to {AHEAD} items, asked for {want}")
    expire(conn, now)
    project = projects.load(conn)
    held = _held(conn, person, tab, purpose)
    until = now + project.settings.lease_seconds
    if held:
        mine = {"person": person.id, "own_tab": tab, "aim": purpose, "until": until}
        conn.execute(_LAST_ON, mine)
        held = [replace(lease, expires=until) for lease in held]
    missing = min(want - len(held), room(conn, person))
    if missing <= 0:
        return held
    if purpose == "review":
        chosen = again.doubtful(conn, now, person, missing)
    elif purpose == "adjudicate":
        chosen = again.disputed(conn, now, person, missing)
    else:
        chosen = _next(conn, project, person, missing)
    if chosen:
        rows = [_terms(now, project, person, tab, purpose, facts) for facts in chosen]
        conn.execute(_GRANT, rows)
        held += [_lease(row, facts) for row, facts in zip(rows, chosen, strict=True)]
    return held


def room(conn: Connection, person: Person) -> int:
    """How many more items this person may hold."""
    return HANDS - int(conn.execute(_IN_HANDS, {"person": person.id}).scalar_one())


def renew(conn: Connection, now: float, person: Person, tab: str) -> list[str]:
    """The tab is alive: its leases last on. The tokens it still holds."""
    expire(conn, now)
    table = schema.lease
    mine = and_(table.c.person_id == person.id, table.c.tab == tab, table.c.status == HELD)
    conn.execute(update(table).where(mine).values(expires=now + projects.load(conn).settings.lease_seconds))
    return list(conn.execute(select(table.c.token).where(mine)).scalars())


def release(conn: Connection, person: Person, tokens: Sequence[str]) -> int:
    """Give items back unanswered; how many."""
    table = schema.lease
    mine = and_(table.c.person_id == person.id, table.c.token.in_(list(tokens)), table.c.status == HELD)
    return conn.execute(update(table).where(mine).values(status="released")).rowcount


def clear(conn: Connection) -> int:
    """Take all items back from everybody; how many."""
    table = schema.lease
    return conn.execute(update(table).where(table.c.status == HELD).values(status="released")).rowcount


def take_over(conn: Connection, now: float, person: Person, tab: str, started: float) -> int:
    """Take back what this person holds in tabs that are gone; how many items.

    A tab is gone that was not heard of since the server `started`, or for most of a lease: it beats five times in one.
    """
    table = schema.lease
    lasts = projects.load(conn).settings.lease_seconds
    heard = max(started, now - SILENT * lasts)
    gone = and_(table.c.person_id == person.id, table.c.tab != tab, table.c.expires < heard + lasts)
    return conn.execute(update(table).where(_is_held(table), gone).values(status="released")).rowcount


def may_answer(conn: Connection, person: Person, item_id: int, votes: int) -> bool:
    """Return whether this person was ever handed this item, or could be now.

    Nobody answers an item by its key alone that is on another person's screen or has its votes: that would be a vote
    that the order did not ask for. A lease can be lost in a power cut, so that a free item is answered without one.
    """
    return bool(conn.execute(_MAY_ANSWER, {"person": person.id, "item": item_id, "votes": votes}).scalar_one())


def expire(conn: Connection, now: float) -> None:
    """End the leases nobody renewed."""
    conn.execute(_EXPIRE, {"now": now})


def emptiness(conn: Connection, now: float, person: Person, tab: str) -> Emptiness:
    """What is left, and where it is."""
    numbers = projects.counters(conn)
    table = schema.lease
    held = and_(table.c.status == HELD, table.c.expires > now)
    labels = table.c.purpose == "label"
    others = and_(held, labels, table.c.person_id != person.id)
    elsewhere, people, until = conn.execute(
        select(
            func.count(table.c.item_id.distinct()), func.count(table.c.person_id.distinct()), func.min(table.c.expires)
        ).where(others)
    ).one()
    full = room(conn, person) <= 0  # then second looks in another tab are in the way too
    mine = and_(held, true() if full else labels, table.c.person_id == person.id, table.c.tab != tab)
    own_tabs = conn.execute(select(func.count()).where(mine)).scalar_one()
    open_ = numbers["items"] - numbers["closed"]
    votes, states = schema.vote, schema.state
    answered = (
        select(func.count())
        .select_from(votes.join(states, states.c.item_id == votes.c.item_id))
        .where(votes.c.person_id == person.id, votes.c.kind != "skip", states.c.status == "open")
    )
    return Emptiness(open_, elsewhere, people, until, own_tabs, conn.execute(answered).scalar_one())


def _next(conn: Connection, project: projects.Project, person: Person, count: int) -> list[dict[str, Any]]:
    """The first `count` items of the order that this person may have."""
    found: list[dict[str, Any]] = []
    for epoch in dict.fromkeys((project.epoch, schema.BASE)):
        given = {"epoch": epoch, "person": person.id, "votes": project.votes}
        taken = {facts["item_id"] for facts in found}
        rows = conn.execute(_FREE, {**given, "limit": count + len(taken)})
        fresh = [dict(row._mapping) for row in rows if row.item_id not in taken]
        found += fresh[: count - len(found)]
        if not fresh or fresh[0]["item_id"] % STRIDE == 0:
            _move_mark(conn, person, epoch)
        if len(found) == count:
            return found
    return found + _skipped(conn, project, person, count - len(found))


def _own_vote(item_id: Any) -> Any:
    votes = schema.vote
    return exists().where(
        votes.c.item_id == item_id, votes.c.person_id == bindparam("person"), votes.c.purpose == "label"
    )


def _is_held(leases: Any) -> Any:
    """Written out, not as a parameter: only so does a prepared statement use the index of what is held."""
    return leases.c.status == literal_column(f"'{HELD}'")


def _wanted(item_id: Any) -> Any:
    """Votes and leases together are fewer than the votes needed, and none of the leases is this person's."""
    leases, states = schema.lease.alias("out"), schema.state.alias("stands")
    out = (
        select(func.count()).where(leases.c.item_id == item_id, _is_held(leases), leases.c.purpose == "label")
    ).scalar_subquery()
    votes = select(states.c.votes).where(states.c.item_id == item_id).scalar_subquery()
    needed = select(states.c.needed).where(states.c.item_id == item_id).scalar_subquery()
    mine = exists().where(leases.c.item_id == item_id, _is_held(leases), leases.c.person_id == bindparam("person"))
    return and_(out + func.coalesce(votes, 0) < func.coalesce(needed, bindparam("votes", type_=Integer)), ~mine)


def _move_mark(conn: Connection, person: Person, epoch: int) -> None:
    """Remember the rank of the first item this person has not answered, so that the search never starts over.

    It is moved at every eighth item or so: what lies between is soon passed over, and writing the mark is not.
    """
    first = conn.execute(_FIRST, {"epoch": epoch, "person": person.id}).scalar()
    if first is not None:
        upsert(conn, schema.cursor, {"person_id": person.id, "epoch": epoch, "rank": first}, ("person_id", "epoch"))


def look_again(conn: Connection, rank: int, person_id: int | None = None) -> None:
    """An item at this rank is to be had again: the marks behind it go back to it."""
    marks = schema.cursor
    behind = marks.c.rank > rank
    conn.execute(
        update(marks)
        .where(behind if person_id is None else and_(behind, marks.c.person_id == person_id))
        .values(rank=rank)
    )


def _skipped(conn: Connection, project: projects.Project, person: Person, count: int) -> list[dict[str, Any]]:
    """What this person put off, the longest ago first."""
    rows = conn.execute(_SKIPPED, {"person": person.id, "votes": project.votes, "limit": count})
    names = ("item_id", "epoch", "rank", "arm", "score", "probability", "predicted", "key", "name", "text")
    return [{name: row._mapping[name] for name in names} for row in rows]


def _terms(
    now: float,
    project: projects.Project,
    person: Person,
    tab: str,
    purpose: str,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """The lease on an item: a row."""
    probability = facts["probability"]
    if facts["arm"] == "random":  # at random from the whole folder, and nothing is kept back
        probability = 1.0
    drawn = project.settings.suggestions and facts["predicted"] is not None and purpose == "label"
    suggested = False
    if drawn:
        draw = Lottery([project.settings.seed, 2, person.id], np.array([facts["item_id"]])).uniform()[0]
        suggested = bool(draw < 0.5)
    return {
        "token": str(uuid.uuid4()),
        "item_id": facts["item_id"],
        "person_id": person.id,
        "tab": tab,
        "purpose": purpose,
        "status": HELD,
        "granted": now,
        "expires": now + project.settings.lease_seconds,
        "epoch": facts["epoch"],
        "rank": facts["rank"],
        "arm": facts["arm"],
        "score": facts["score"],
        "probability": probability or 0.0,
        "predicted": facts["predicted"],
        "suggested": suggested,
        "drawn": drawn,
        "why": facts.get("why"),
        "review_id": facts.get("review_id"),
    }


def _held(conn: Connection, person: Person, tab: str, purpose: str) -> list[Lease]:
    rows = conn.execute(_HELD, {"person": person.id, "own_tab": tab, "aim": purpose})
    return [_lease(row._mapping, row._mapping) for row in rows]


def _lease(row: Mapping[Any, Any], item: Mapping[Any, Any]) -> Lease:
    suggestion = row["predicted"] if row["suggested"] else None
    return Lease(row["token"], item["key"], row["purpose"], row["expires"], item["name"], item["text"], suggestion)


def why(conn: Connection, token: str, person: Person) -> dict[str, Any]:
    """Why an item was chosen: only for whoever held the lease, and only once it is answered."""
    table = schema.lease
    row = conn.execute(select(table).where(table.c.token == token, table.c.person_id == person.id)).first()
    if row is None:
        raise BadInput("there is no such item of yours")
    if row.status == HELD:
        raise BadInput("the reason is told after the answer, so that it does not sway it")
    rules = projects.load(conn).settings
    model = conn.execute(select(schema.model.c.facts).where(schema.model.c.epoch == row.epoch)).scalar()
    strategy = json.loads(model).get("strategy", rules.strategy) if model else rules.strategy
    facts = {"arm": row.arm, "epoch": row.epoch, "score": row.score, "strategy": strategy, "control": rules.control}
    return {**facts, "predicted": row.predicted, **(json.loads(row.why) if row.why else {})}


# Statements of the path from one item to the next, made once: making them costs more than running them


def _mark() -> Any:
    marks = schema.cursor
    mine = (marks.c.person_id == bindparam("person"), marks.c.epoch == bindparam("epoch"))
    return func.coalesce(select(marks.c.rank).where(*mine).scalar_subquery(), literal_column(str(BEGINNING)))


def _in_order(*columns: Any) -> Any:
    table = schema.ranking
    open_ = (table.c.epoch == bindparam("epoch"), table.c.rank >= _mark(), ~_own_vote(table.c.item_id))
    return select(*columns).where(*open_).order_by(table.c.rank)


def _put_off() -> Any:
    votes, states, events, items = schema.vote, schema.state, schema.event, schema.item
    joined = votes.join(states, states.c.item_id == votes.c.item_id).join(events, events.c.id == votes.c.event)
    return (
        select(events, *again.shown(items))
        .select_from(joined.join(items, items.c.id == votes.c.item_id))
        .where(votes.c.person_id == bindparam("person"), votes.c.kind == "skip", states.c.status == "open")
        .where(_wanted(votes.c.item_id))
        .order_by(votes.c.seq)
        .limit(bindparam("limit", type_=Integer))
    )


def _in_hand(table: Any) -> Any:
    own = and_(table.c.person_id == bindparam("person"), table.c.tab == bindparam("own_tab"))
    return and_(own, table.c.purpose == bindparam("aim"), _is_held(table))


_HELD = (
    select(schema.lease, *again.shown(schema.item))
    .join(schema.item, schema.item.c.id == schema.lease.c.item_id)
    .where(_in_hand(schema.lease))
    .order_by(schema.lease.c.granted, schema.lease.c.epoch.desc(), schema.lease.c.rank)
)
_IN_HANDS = (
    select(func.count())
    .select_from(schema.lease)
    .where(schema.lease.c.person_id == bindparam("person"), _is_held(schema.lease))
)
_LAST_ON = update(schema.lease).where(_in_hand(schema.lease)).values(expires=bindparam("until"))
_EXPIRE = (
    update(schema.lease)
    .where(_is_held(schema.lease), schema.lease.c.expires <= bindparam("now"))
    .values(status="expired")
)
_GRANT = insert(schema.lease)
_FIRST = _in_order(schema.ranking.c.rank).limit(1)
_FREE = (
    _in_order(schema.ranking, *again.shown(schema.item))
    .join(schema.item, schema.item.c.id == schema.ranking.c.item_id)
    .where(_wanted(schema.ranking.c.item_id))
    .limit(bindparam("limit", type_=Integer))
)
_SKIPPED = _put_off()
_MAY_ANSWER = select(
    or_(
        exists().where(schema.lease.c.item_id == bindparam("item"), schema.lease.c.person_id == bindparam("person")),
        _wanted(bindparam("item", type_=Integer)),
    )
)
