"""Taking answers: each is appended once, whatever happens on the way.

The client makes the id. The same answer sent again has the same reply; another one under the same id is refused. An
answer that changes an earlier one names it (`based_on`), so that nothing is overwritten unseen; undo is an answer too.
A late one, whose lease had ended, counts and is marked. An item that a person was never handed is answered only while
the queue could hand it to them; what others have in hand is refused (`queue.may_answer`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Integer, String, and_, bindparam, delete, func, insert, select, true, update

from ncalr.errors import BadInput, NcalrError
from ncalr.web.store import again, projects, queue, ranking, schema
from ncalr.web.store.people import Person
from ncalr.web.store.schema import HELD
from ncalr.web.store.upsert import add_up, upsert
from ncalr.web.store.verdict import OPEN, Verdict, Vote, given, judge
from ncalr.web.store.writer import unread

KINDS = ("label", "none", "broken", "unsure", "skip", "undo")
GENESIS = "0" * 64
ROLE_FOR = {"label": "annotator", "review": "annotator", "adjudicate": "reviewer"}


class Conflict(NcalrError):
    """The answer was made in ignorance of another one; both are told."""

    def __init__(self, message: str, facts: dict[str, Any]) -> None:
        super().__init__(message)
        self.facts = facts


class NoSuchItem(NcalrError):
    """There is no such item."""


@dataclass(frozen=True)
class Answer:
    """What a client says."""

    id: str
    item: str
    kind: str
    answered: float
    answer: int | None = None
    based_on: str | None = None
    lease: str | None = None
    shown: float | None = None
    guideline: int | None = None  # the version its author was shown, where the client says so


@dataclass(frozen=True)
class Receipt:
    """What the client is told, word for word the same however often it asks."""

    id: str
    seq: int
    item: str
    kind: str
    answer: int | None
    late: bool


@dataclass(frozen=True)
class Reason:
    """How an imported answer came to be asked for; that of one from the page is in its lease."""

    purpose: str
    epoch: int
    arm: str
    score: float | None = None
    probability: float | None = None
    guideline: int | None = None
    rank: int = 0
    predicted: int | None = None
    suggested: bool = False
    present: bool = True  # whether whoever said so may come in here


def submit(conn: Connection, now: float, person: Person, answer: Answer, imported: Reason | None = None) -> Receipt:
    """Take an answer in."""
    _check_form(answer)
    digest = _digest(person, answer)
    asked = {"id": answer.id, "item": answer.item, "lease": answer.lease, "person": person.id, "class": answer.answer}
    place = conn.execute(_PLACE, asked).first()
    known = place.known if place is not None else conn.execute(_DIGEST, {"id": answer.id}).scalar()
    if known is not None:
        return _told_again(conn, answer, known == digest)
    if place is None:
        raise NoSuchItem("there is no such item")
    if answer.answer is not None and place.class_number is None:
        raise BadInput(f"there is no class number {answer.answer}")
    lease = place if place.token is not None else None
    before = _event(conn, answer.based_on, place.item_id, person)
    reason = next((each for each in (imported, lease, before) if each is not None), None)
    if reason is None and not queue.may_answer(conn, person, place.item_id, place.needed or place.votes_wanted):
        raise Conflict("this item was not handed to you, and needs no further answer now; ask for the next item", {})
    purpose = before.purpose if before is not None else reason.purpose if reason is not None else "label"
    if not person.may(ROLE_FOR[purpose]):
        raise BadInput(f"adjudication is for reviewers, {person.name!r} is {person.role}")
    said = conn.execute(_VOTES, {"item": place.item_id}).all()
    mine = (vote for vote in said if vote.person_id == person.id and vote.purpose == purpose)
    _check_version(answer, next(mine, None))
    late = imported is None and before is None and not _held(now, lease)
    row = _row(now, person, answer, digest, place, purpose, reason, late)
    standing = _standing_after(conn, row, before)
    front = _front(conn, place)
    room = answer.kind == "undo" and queue.room(conn, person) > 0
    with unread(conn):
        conn.execute(_APPEND, row)
        _settle_lease(conn, now, answer, lease, place, room)
        votes = _with_vote(conn, said, row, standing, present=imported is None or imported.present)
        _settle(conn, row, place, [_vote(each) for each in said], votes, front)
    if purpose == "review":
        _settle_review(conn, lease, row)
    return Receipt(answer.id, row["seq"], answer.item, answer.kind, answer.answer, late)


def settle(conn: Connection, item_id: int, row: dict[str, Any]) -> None:
    """Bring the item's verdict, the counters and the orders up to date after something changed."""
    stands = conn.execute(_STANDS, {"item": item_id}).one()
    votes = votes_on(conn, item_id)
    _settle(conn, {**row, "item_id": item_id}, stands, votes, votes, _front(conn, stands))


def votes_on(conn: Connection, item_id: int) -> list[Vote]:
    """The answers about an item as they stand, in the order in which they came."""
    return [_vote(row) for row in conn.execute(_VOTES, {"item": item_id})]


def need(conn: Connection, item_id: int, votes: int) -> None:
    """Ask for so many votes on one item, whatever the project asks for: the seam of policies that ask again."""
    projects.check_votes(votes)
    table = schema.state
    old = conn.execute(select(table).where(table.c.item_id == item_id)).first()
    if old is None or old.status == "open":  # one that is closed is counted when it opens
        before = {} if old is None else _asked(old.needed)
        _add(conn, {name: count - before.get(name, 0) for name, count in _asked(votes).items()})
    seq = last(conn)[0]
    values = {"status": "open", "answer": None, "confidence": 0.0, "votes": 0, "seq": seq} if old is None else {}
    upsert(conn, table, {"item_id": item_id, **(values or _plain(old)), "needed": votes}, ("item_id",))
    facts = {"arm": "again", "score": None, "probability": 1.0, "predicted": None}
    settle(conn, item_id, {"seq": seq, "kind": "need", "rank": 0, "person_id": 0, **facts})


def change_votes(conn: Connection, votes: int) -> None:
    """Another number of votes an item from now on; items are opened and closed accordingly."""
    projects.check_votes(votes)
    if conn.execute(select(schema.project.c.votes)).scalar_one() == votes:
        return
    conn.execute(update(schema.project).values(votes=votes))
    _settle_anew(conn, schema.state.c.needed.is_(None))


def reconsider(conn: Connection) -> int:
    """People came or went: what somebody was unsure about is asked of the others, or decided where there are none.

    How many items stand otherwise now.
    """
    vote, state = schema.vote, schema.state
    doubted = select(vote.c.item_id).where(vote.c.kind == "unsure")
    return _settle_anew(conn, and_(state.c.status.in_(("open", "unclear")), state.c.item_id.in_(doubted)))


def last(conn: Connection) -> tuple[int, str]:
    """Number and hash of the last event."""
    row = conn.execute(_LAST).first()
    return (int(row.seq), str(row.hash)) if row else (0, GENESIS)


def history(
    conn: Connection,
    person: Person,
    limit: int = 50,
    before: int | None = None,
    items: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """This person's answers as they stand, newest first; to these items only, where some are named."""
    votes, item, events = schema.vote, schema.item, schema.event
    rows = (
        select(votes, *again.shown(item), events.c.lease, events.c.answered, events.c.based_on)
        .select_from(votes.join(item, item.c.id == votes.c.item_id).join(events, events.c.id == votes.c.event))
        .where(votes.c.person_id == person.id)
        .order_by(votes.c.seq.desc())
        .limit(limit)
    )
    if before is not None:
        rows = rows.where(votes.c.seq < before)
    if items is not None:
        rows = rows.where(votes.c.item_id.in_(items))
    return [
        {
            "id": row.event,
            "seq": row.seq,
            "item": row.key,
            "name": row.name,
            "text": row.text,
            "kind": row.kind,
            "answer": row.answer,
            "purpose": row.purpose,
            "lease": row.lease,
            "answered": row.answered,
            "based_on": row.based_on,
        }
        for row in conn.execute(rows)
    ]


def chained(before: str, row: dict[str, Any]) -> str:
    """The hash of an event: of the one before it and of everything it says."""
    said = {name: value for name, value in row.items() if name != "hash"}
    return hashlib.sha256((before + json.dumps(said, sort_keys=True, separators=(",", ":"))).encode()).hexdigest()


def _check_form(answer: Answer) -> None:
    try:
        proper = str(uuid.UUID(answer.id)) == answer.id.lower()
    except ValueError:
        proper = False
    if not proper:
        raise BadInput("the id of an answer is a UUID made by the client")
    if answer.kind not in KINDS:
        raise BadInput(f"an answer is one of {', '.join(KINDS)}; got {answer.kind!r}")
    if (answer.kind == "label") != (answer.answer is not None):
        raise BadInput("a label needs a class, and the other kinds of answer have none")
    if answer.kind == "undo" and answer.based_on is None:
        raise BadInput("undo names the answer it takes back (based_on)")


def _digest(person: Person, answer: Answer) -> str:
    facts = asdict(answer)
    if answer.guideline is None:  # as it was before clients said so: what waits in a browser is told again the same
        del facts["guideline"]
    said = json.dumps([person.id, facts], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _told_again(conn: Connection, answer: Answer, same: bool) -> Receipt:
    """The receipt of an answer that came before, word for word."""
    if not same:
        raise Conflict("this id was used for another answer; make a new one", {"id": answer.id})
    known = conn.execute(_EVENT, {"id": answer.id}).one()
    return Receipt(answer.id, known.seq, answer.item, known.kind, known.answer, bool(known.late))


def _event(conn: Connection, id_: str | None, item_id: int, person: Person) -> Any:
    if id_ is None:
        return None
    row = conn.execute(_EVENT, {"id": id_}).first()
    if row is None or row.item_id != item_id or row.person_id != person.id:
        raise BadInput("based_on names no answer of yours about this item")
    return row


def _check_version(answer: Answer, current: Any) -> None:
    """A change must know what it changes; only what was put off, or left undecided, may be answered without a word."""
    stands = current.event if current is not None else None
    if answer.based_on == stands or (answer.based_on is None and current is not None and _comes_back(current)):
        return
    now = None if current is None else {"id": current.event, "kind": current.kind, "answer": current.answer}
    raise Conflict(
        "your answer to this item was changed meanwhile, perhaps in another tab; look at both and decide",
        {"yours": {"id": answer.id, "kind": answer.kind, "answer": answer.answer}, "current": now},
    )


def _comes_back(vote: Any) -> bool:
    """Whether an item is handed out again to the person who said so."""
    return bool(vote.kind == "skip" or (vote.kind == "unsure" and vote.purpose == "adjudicate"))


def _held(now: float, lease: Any) -> bool:
    return bool(lease is not None and lease.lease_status == HELD and lease.expires > now)


def _row(
    now: float, person: Person, answer: Answer, digest: str, place: Any, purpose: str, reason: Any, late: bool
) -> dict[str, Any]:
    """The event, chained to the last."""
    row: dict[str, Any] = {
        "seq": (place.last_seq or 0) + 1,
        "id": answer.id,
        "item_id": place.item_id,
        "person_id": person.id,
        "purpose": purpose,
        "kind": answer.kind,
        "answer": answer.answer,
        "based_on": answer.based_on,
        "lease": place.token,
        "late": late,
        "epoch": reason.epoch if reason is not None else 0,
        "rank": reason.rank if reason is not None else 0,
        "arm": reason.arm if reason is not None else "unasked",
        "score": reason.score if reason is not None else None,
        "probability": reason.probability if reason is not None else None,
        "predicted": reason.predicted if reason is not None else None,
        "suggested": bool(reason.suggested) if reason is not None else False,
        "guideline": _guideline(answer, place.guideline),
        "shown": answer.shown,
        "answered": answer.answered,
        "received": now,
        "digest": digest,
    }
    if isinstance(reason, Reason) and reason.guideline is not None:
        row["guideline"] = reason.guideline
    row["hash"] = chained(place.last_hash or GENESIS, row)
    return row


def _guideline(answer: Answer, current: int) -> int:
    """The version of the guidelines an answer was given under: what its author was shown, if there is such a one."""
    shown = answer.guideline
    return shown if shown is not None and 1 <= shown <= current else current


def _standing_after(conn: Connection, row: dict[str, Any], before: Any) -> dict[str, Any] | None:
    """What the person says now: the new answer; or, after an undo, what they said before the one taken back, if any."""
    if row["kind"] != "undo":
        return row
    earlier = conn.execute(_EVENT, {"id": before.based_on}).first() if before.based_on is not None else None
    return dict(earlier._mapping) if earlier is not None else None


def _vote(row: Any) -> Vote:
    return Vote(row.kind, row.answer, row.purpose, bool(row.active))


def _with_vote(
    conn: Connection, said: Sequence[Any], row: dict[str, Any], standing: dict[str, Any] | None, present: bool
) -> list[Vote]:
    """Write down what the person says now, and tell how the votes on the item stand with it."""
    mine = {"item_id": row["item_id"], "person_id": row["person_id"], "purpose": row["purpose"]}
    rest = [vote for vote in said if (vote.person_id, vote.purpose) != (mine["person_id"], mine["purpose"])]
    stand = [(vote.seq, _vote(vote)) for vote in rest]
    if standing is None:
        table = schema.vote
        conn.execute(delete(table).where(*(table.c[name] == value for name, value in mine.items())))
    else:
        facts = {name: standing[name] for name in ("kind", "answer", "seq")}
        upsert(conn, schema.vote, {**mine, **facts, "event": standing["id"]}, ("item_id", "person_id", "purpose"))
        stand.append((standing["seq"], Vote(standing["kind"], standing["answer"], mine["purpose"], present)))
    return [vote for _, vote in sorted(stand, key=lambda pair: pair[0])]


def _settle(
    conn: Connection, row: dict[str, Any], stands: Any, before: list[Vote], votes: list[Vote], front: int
) -> None:
    """The verdict on the item, the counters and the orders, after `row`; `stands` and `before` are how it was.

    Where it is open again, it comes to the `front`.
    """
    item_id = row["item_id"]
    verdict = judge(votes, stands.needed or stands.votes_wanted, stands.people)
    values = {"item_id": item_id, **asdict(verdict), "seq": row["seq"], "needed": stands.needed}
    upsert(conn, schema.state, values, ("item_id",))
    was = OPEN
    if stands.status is not None:
        was = Verdict(stands.status, stands.verdict, stands.confidence, stands.counted)
    _count(conn, (was, given(before)), (verdict, given(votes)), stands.needed)
    if was.is_open and not verdict.is_open:
        ranking.take_out(conn, item_id)
    if not was.is_open and verdict.is_open:
        facts = {name: row[name] for name in ("arm", "score", "probability", "predicted")}
        facts["probability"] = facts["probability"] or 0.0
        ranking.put_back(conn, item_id, facts, -front, stands.current)
        queue.look_again(conn, front)
    if row["kind"] == "undo" and verdict.is_open:
        queue.look_again(conn, row["rank"], row["person_id"])


def _settle_anew(conn: Connection, which: Any) -> int:
    """Settle those of the answered items `which` stand otherwise by the rules as they are now; how many.

    What is open again comes back in the order in which it was answered: each goes to the front, so the last is first.
    """
    vote, state, person = schema.vote, schema.state, schema.person
    rows = conn.execute(
        select(vote, person.c.active, state.c.needed, state.c.status)
        .join(state, state.c.item_id == vote.c.item_id)
        .join(person, person.c.id == vote.c.person_id)
        .where(which)
        .order_by(vote.c.item_id, vote.c.seq)
    ).all()
    stands = conn.execute(_STANDS, {"item": -1}).one()
    changed = []
    for item_id, group in groupby(rows, lambda row: row.item_id):
        said = list(group)
        if judge(map(_vote, said), said[0].needed or stands.votes_wanted, stands.people).status != said[0].status:
            changed.append((said[-1].seq, item_id))
    facts = {"arm": "again", "score": None, "probability": 1.0, "predicted": None, "kind": "need", "rank": 0}
    seq = last(conn)[0]
    for _, item_id in sorted(changed, reverse=True):
        settle(conn, item_id, {**facts, "seq": seq, "person_id": 0})
    return len(changed)


def _front(conn: Connection, stands: Any) -> int:
    """The rank before all others, in the order in use and in the first one; asked for closed items alone."""
    if stands.status in (None, "open"):
        return 0
    heads = (conn.execute(_HEAD, {"epoch": epoch}).scalar() for epoch in {stands.current, schema.BASE})
    return min([0, *(int(head) for head in heads if head is not None)]) - 1


def _settle_lease(conn: Connection, now: float, answer: Answer, lease: Any, place: Any, room: bool) -> None:
    """The lease is used up; an undo takes it into the hand again, so that nobody else is shown the item meanwhile.

    Where there is no room in the hand, it is free for the others as well.
    """
    if lease is None:
        return
    if answer.kind == "undo":
        until = now + projects.parse_settings(place.settings).lease_seconds
        conn.execute(_LEASE, {"known": lease.token, "becomes": HELD if room else "released", "until": until})
    elif lease.lease_status in (HELD, "released", "expired"):
        conn.execute(_LEASE, {"known": lease.token, "becomes": "answered", "until": lease.expires})


def _settle_review(conn: Connection, lease: Any, row: dict[str, Any]) -> None:
    """How the second look came out."""
    if lease is None or lease.review_id is None:
        return
    table = schema.review
    given = conn.execute(select(table.c.given).where(table.c.id == lease.review_id)).scalar_one()
    if row["kind"] in ("undo", "skip"):
        status = "open"
    elif row["kind"] == "unsure":
        status = "unsure"
    else:
        status = "agreed" if row["answer"] == given else "differed"
    conn.execute(update(table).where(table.c.id == lease.review_id).values(status=status))


def _count(conn: Connection, was: tuple[Verdict, int], now: tuple[Verdict, int], needed: int | None) -> None:
    """Keep the counters: of verdicts, of the `answers` given, and of those about open items (`partial`)."""
    changes: Counter[str] = Counter()
    for sign, (each, answered) in ((-1, was), (1, now)):
        found = {"answers": answered}
        if each.is_open:
            found |= {"partial": answered, **_asked(needed)}
        else:
            found |= {"closed": 1, f"status:{each.status}": 1}
            if each.status == "labelled":
                found[f"class:{each.answer}"] = 1
        for name, count in found.items():
            changes[name] += sign * count
    _add(conn, changes)


def _asked(needed: int | None) -> dict[str, int]:
    """What an open item adds to the counters that wants a number of votes of its own."""
    return {"apart": 1, "asked": needed} if needed else {}


def _add(conn: Connection, changes: Mapping[str, int]) -> None:
    rows = [{"name": name, "value": change} for name, change in changes.items() if change]
    if rows:
        add_up(conn, schema.counter, rows, "name", "value")


def _plain(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name not in ("item_id", "needed")}


# Statements of the path of an answer, made once: making them costs more than running them


def _standing() -> list[Any]:
    """How an item stands, and what the project asks for; `state` may have no row yet."""
    state, project = schema.state, schema.project
    return [
        state.c.status,
        state.c.answer.label("verdict"),
        state.c.confidence,
        state.c.votes.label("counted"),
        state.c.needed,
        project.c.votes.label("votes_wanted"),
        project.c.epoch.label("current"),
        project.c.guideline,
        project.c.settings,
        select(func.count()).where(schema.person.c.active.is_(true())).scalar_subquery().label("people"),
    ]


def _place() -> Any:
    """All an answer needs to know, in one row: its item, lease and class, the last event, and how the item stands."""
    item, lease, event, project, state = schema.item, schema.lease, schema.event, schema.project, schema.state
    number = schema.label_class.c.number
    known = event.alias("known")
    last, newest = event.alias("last"), select(func.max(event.c.seq)).scalar_subquery()
    names = ("token", "purpose", "expires", "epoch", "rank", "arm", "score", "probability", "predicted", "suggested")
    mine = and_(
        lease.c.token == bindparam("lease", type_=String),
        lease.c.person_id == bindparam("person"),
        lease.c.item_id == item.c.id,
    )
    joined = (
        item.join(project, true())
        .outerjoin(last, last.c.seq == newest)
        .outerjoin(known, known.c.id == bindparam("id", type_=String))
        .outerjoin(lease, mine)
        .outerjoin(state, state.c.item_id == item.c.id)
        .outerjoin(schema.label_class, number == bindparam("class", type_=Integer))
    )
    return (
        select(
            item.c.id.label("item_id"),
            known.c.digest.label("known"),
            number.label("class_number"),
            last.c.seq.label("last_seq"),
            last.c.hash.label("last_hash"),
            *(lease.c[name] for name in names),
            lease.c.status.label("lease_status"),
            lease.c.review_id,
            *_standing(),
        )
        .select_from(joined)
        .where(item.c.key == bindparam("item", type_=String))
    )


_PLACE = _place()
_STANDS = select(*_standing()).select_from(
    schema.project.outerjoin(schema.state, schema.state.c.item_id == bindparam("item", type_=Integer))
)
_APPEND = insert(schema.event)
_DIGEST = select(schema.event.c.digest).where(schema.event.c.id == bindparam("id"))
_EVENT = select(schema.event).where(schema.event.c.id == bindparam("id"))
_LAST = select(schema.event.c.seq, schema.event.c.hash).order_by(schema.event.c.seq.desc()).limit(1)
_HEAD = (
    select(schema.ranking.c.rank)
    .where(schema.ranking.c.epoch == bindparam("epoch"))
    .order_by(schema.ranking.c.rank)
    .limit(1)
)
_VOTES = (
    select(schema.vote, schema.person.c.active)
    .join(schema.person, schema.person.c.id == schema.vote.c.person_id)
    .where(schema.vote.c.item_id == bindparam("item"))
    .order_by(schema.vote.c.seq)
)
_LEASE = (
    update(schema.lease)
    .where(schema.lease.c.token == bindparam("known"))
    .values(status=bindparam("becomes"), expires=bindparam("until"))
)
