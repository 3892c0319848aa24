"""Who may come in: people with roles, links that work once, sessions that can be ended.

There are no passwords, so there is nothing to guess: a person comes in by a link with 256 random bits, once, and has a
session from then on. Programs use access tokens. Only hashes are stored.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, insert, or_, select, true, update

from ncalr.errors import BadInput, NcalrError, check_known
from ncalr.web.store import schema

ROLES = ("annotator", "reviewer", "owner")
"""Each may do what those before it may."""

LINK_SECONDS = 24 * 3600.0
IDLE_SECONDS = 14 * 24 * 3600.0
LONGEST_SECONDS = 90 * 24 * 3600.0
"""A session ends when it was not used for so long, and at the latest so long after it began."""

NAME_LIMIT = 80


class NotAllowed(NcalrError):
    """The token, link or session is not valid, or not any more."""


class Spent(NotAllowed):
    """A link that was real once, or is for something else: whoever has it did not guess it."""


@dataclass(frozen=True)
class Person:
    """Somebody who is known."""

    id: int
    key: str
    name: str
    role: str
    active: bool = True

    def may(self, role: str) -> bool:
        """Whether this person has the rights of the role."""
        return self.active and ROLES.index(self.role) >= ROLES.index(role)


def add(conn: Connection, now: float, name: str, role: str, active: bool = True) -> Person:
    """A new person; a name is taken once."""
    name = check_name(name)
    check_role(role)
    if conn.execute(select(schema.person.c.id).where(schema.person.c.name == name)).first():
        raise BadInput(
            f"there is somebody called {name!r} already; choose another name. If it is you, ask for a new link of yours"
        )
    number = 1 + (conn.execute(select(func.max(schema.person.c.id))).scalar() or 0)
    person = Person(number, secrets.token_urlsafe(12), name, role, active)
    conn.execute(
        insert(schema.person).values(id=number, key=person.key, name=name, role=role, created=now, active=active)
    )
    return person


def everyone(conn: Connection) -> list[Person]:
    """All people, in the order in which they came."""
    return [_person(row) for row in conn.execute(select(schema.person).order_by(schema.person.c.id))]


def by_name(conn: Connection, name: str) -> Person | None:
    """The person of this name."""
    row = conn.execute(select(schema.person).where(schema.person.c.name == name)).first()
    return _person(row) if row else None


def by_key(conn: Connection, key: str) -> Person:
    """The person with this opaque key."""
    row = conn.execute(select(schema.person).where(schema.person.c.key == key)).first()
    if row is None:
        raise BadInput("there is no such person")
    return _person(row)


def change(conn: Connection, now: float, person: Person, role: str | None = None, active: bool | None = None) -> None:
    """Another role, or no entry any more: all sessions and tokens of somebody who may not come in are ended.

    Whoever is an owner no more may have kept links, for new people or in the name of others: all open ones end.
    """
    owners = [p.id for p in everyone(conn) if p.role == "owner" and p.active]
    if owners == [person.id] and (active is False or role not in (None, "owner")):
        raise BadInput("this is the only owner; make somebody else an owner first")
    table = schema.person
    if role is not None:
        check_role(role)
        conn.execute(update(table).where(table.c.id == person.id).values(role=role))
    if active is not None:
        conn.execute(update(table).where(table.c.id == person.id).values(active=active))
    if active is False:
        revoke(conn, now, person)
    if person.role == "owner" and (active is False or role not in (None, "owner")):
        tokens = schema.token
        conn.execute(update(tokens).where(tokens.c.kind != "access", tokens.c.used.is_(None)).values(used=now))


def revoke(conn: Connection, now: float, person: Person | None = None) -> tuple[int, int]:
    """End all sessions and make all links and tokens worthless, somebody's or everybody's; how many still worked."""
    sessions, tokens = schema.session, schema.token
    lives = and_(sessions.c.seen + IDLE_SECONDS >= now, sessions.c.created + LONGEST_SECONDS >= now)
    works = or_(tokens.c.expires.is_(None), tokens.c.expires >= now)
    ended = []
    for table, end, good in ((sessions, "ended", lives), (tokens, "used", works)):
        open_ = and_(table.c[end].is_(None), true() if person is None else table.c.person_id == person.id)
        ended.append(conn.scalar(select(func.count()).select_from(table).where(open_, good)) or 0)
        conn.execute(update(table).where(open_).values({end: now}))
    return ended[0], ended[1]


def issue(
    conn: Connection,
    now: float,
    kind: str,
    *,
    person: Person | None = None,
    role: str | None = None,
    seconds: float | None = LINK_SECONDS,
) -> str:
    """A new token, shown this once: `link` (enters once), `invitation` (makes a person, once), `access` (programs)."""
    if role is not None:
        check_role(role)
    secret = secrets.token_urlsafe(32)
    conn.execute(
        insert(schema.token).values(
            hash=hashed(secret),
            kind=kind,
            person_id=person.id if person else None,
            role=role,
            created=now,
            expires=None if seconds is None else now + seconds,
        )
    )
    return secret


def link(conn: Connection, now: float, person: Person) -> str:
    """A new link for somebody who is known; who was sent away, or came by an import, is let in first."""
    if not person.active:
        raise BadInput(f"{person.name!r} may not come in at present; let them in again first")
    return issue(conn, now, "link", person=person)


def enter(conn: Connection, now: float, secret: str, name: str | None = None) -> tuple[Person, str]:
    """Come in by a link or an invitation: the person, and the secret of the new session."""
    row = _token(conn, now, secret, ("link", "invitation"))
    if row.kind == "invitation":
        if name is None:
            raise BadInput("an invitation needs a name to go by")
        person = add(conn, now, name, row.role)
    else:
        person = _active(conn.execute(select(schema.person).where(schema.person.c.id == row.person_id)).first())
    conn.execute(update(schema.token).where(schema.token.c.hash == row.hash).values(used=now))
    session = secrets.token_urlsafe(32)
    conn.execute(insert(schema.session).values(hash=hashed(session), person_id=person.id, created=now, seen=now))
    return person, session


def token_kind(conn: Connection, now: float, secret: str) -> str:
    """Whether this is a link or an invitation that still works."""
    return str(_token(conn, now, secret, ("link", "invitation")).kind)


def by_access_token(conn: Connection, now: float, secret: str) -> Person:
    """The person a program acts for."""
    row = conn.execute(_BY_TOKEN, {"given": hashed(secret)}).first()
    return _active(_working(row, now, ("access",)))


def by_session(conn: Connection, now: float, secret: str) -> tuple[Person, float]:
    """The person of a session, and when it was last seen; one that was idle for long, or is old, has ended."""
    row = conn.execute(_BY_SESSION, {"given": hashed(secret)}).first()
    if row is None or row.ended is not None or min(row.seen + IDLE_SECONDS, row.began + LONGEST_SECONDS) < now:
        raise NotAllowed("the session has ended; come in again by a new link")
    return _active(row), float(row.seen)


def touch(conn: Connection, now: float, secret: str) -> None:
    """The session is in use."""
    conn.execute(update(schema.session).where(schema.session.c.hash == hashed(secret)).values(seen=now))


def leave(conn: Connection, now: float, secret: str) -> None:
    """End a session."""
    conn.execute(update(schema.session).where(schema.session.c.hash == hashed(secret)).values(ended=now))


def hashed(secret: str) -> str:
    """What is stored of a secret. It is 256 random bits, so one round of a hash is as good as a thousand."""
    return hashlib.sha256(secret.encode()).hexdigest()


def check_role(role: str) -> None:
    """A role there is."""
    check_known("role", role, ROLES)


def check_name(name: str) -> str:
    """A name somebody can go by."""
    name = " ".join(name.split())
    if not 0 < len(name) <= NAME_LIMIT or not name.isprintable():
        raise BadInput(f"a name has 1 to {NAME_LIMIT} visible characters, got {name[:100]!r}")
    return name


def _token(conn: Connection, now: float, secret: str, kinds: tuple[str, ...]) -> Any:
    row = conn.execute(select(schema.token).where(schema.token.c.hash == hashed(secret))).first()
    return _working(row, now, kinds)


def _working(row: Any, now: float, kinds: tuple[str, ...]) -> Any:
    if row is None:
        raise NotAllowed("this link or token is not known; ask for a new one")
    if row.kind not in kinds:
        what = "a token for programs" if row.kind == "access" else "a link for people"
        raise Spent(f"this is {what}, and of no use here; ask for the other kind")
    if row.used is not None:
        raise Spent("this link was used already: each works once; ask for a new one")
    if row.expires is not None and row.expires < now:
        raise Spent("this link has expired; ask for a new one")
    return row


def _active(row: Any) -> Person:
    if row is None or not row.active:
        raise NotAllowed("this person may not come in any more")
    return _person(row)


def _person(row: Any) -> Person:
    return Person(row.id, row.key, row.name, row.role, bool(row.active))


# Asked with every request, so made once


def _with_person(table: Any, *columns: Any) -> Any:
    person = schema.person
    joined = table.join(person, person.c.id == table.c.person_id)
    return select(person, *columns).select_from(joined).where(table.c.hash == bindparam("given"))


_BY_TOKEN = _with_person(schema.token, schema.token.c.kind, schema.token.c.used, schema.token.c.expires)
_BY_SESSION = _with_person(
    schema.session, schema.session.c.seen, schema.session.c.ended, schema.session.c.created.label("began")
)
