"""The numbers of the page and of the team view, all read from one snapshot of the store."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, case, func, select

from ncalr.web import agreement
from ncalr.web.store import answers, people, projects, review, schema
from ncalr.web.store.people import Person
from ncalr.web.store.verdict import COUNTED

IDLE = 120.0
"""A pause longer than this is no work."""

RECENT = 3000
ALIVE = 30.0
"""A worker that was silent for longer is not there."""


def progress(conn: Connection) -> dict[str, Any]:
    """How much is done, by class and by what became of it: the counters that every answer keeps up to date."""
    numbers = projects.counters(conn)
    names = projects.classes(conn)
    status = {name: numbers.get(f"status:{name}", 0) for name in ("labelled", "none", "broken", "disputed", "unclear")}
    return {
        "items": numbers["items"],
        "closed": numbers["closed"],
        "status": status,
        "classes": [{"name": name, "count": numbers.get(f"class:{at}", 0)} for at, name in enumerate(names)],
        "review": review.precision(conn).open,
    }


def freshness(conn: Connection, now: float) -> dict[str, Any]:
    """How fresh the model behind the queue is, and what the worker does."""
    project = projects.load(conn)
    row = conn.execute(select(schema.model).where(schema.model.c.epoch == project.epoch)).first()
    worker = conn.execute(select(schema.worker)).one()
    last, _ = answers.last(conn)
    silent = now - worker.beat
    return {
        "epoch": project.epoch,
        "labels": row.labels if row else 0,
        "age": now - row.ready if row else None,
        "answers_since": last - row.seq if row else last,
        "worker": worker.state if silent < ALIVE or worker.state == "stopped" else "gone",
        "message": worker.message,
        "silent": silent,
    }


def own(conn: Connection, person: Person) -> dict[str, Any]:
    """What a person sees about themselves."""
    rows = _recent(conn, person, 200)
    return {"answers": _count_of(conn, person), **_speed([row.answered for row in rows])}


def team(conn: Connection, now: float, seed: int = 0) -> dict[str, Any]:
    """Everything the team view shows."""
    rng = np.random.default_rng(seed)
    votes = _votes(conn)
    found = {
        "progress": progress(conn),
        "model": freshness(conn, now),
        "curve": curve(conn),
        "control": control(conn),
        "people": _people(conn, votes),
        "agreement": _agreement(conn, votes, rng),
        "review": _review(conn),
        "suggestions": suggestions(conn),
    }
    found["advice"] = advice(found)
    return found


def control(conn: Connection, epochs: int = 5) -> dict[str, Any]:
    """The accuracy of the latest models on items drawn at random, each predicted before its answer was known."""
    by_epoch = _control_by_epoch(conn)
    latest = sorted(by_epoch)[-epochs:]
    right, total = (sum(by_epoch[epoch][at] for epoch in latest) for at in (0, 1))
    return _share(right, total)


def curve(conn: Connection) -> list[dict[str, Any]]:
    """The learning curve: a point a model."""
    by_epoch = _control_by_epoch(conn)
    rows = conn.execute(select(schema.model).order_by(schema.model.c.epoch)).all()
    return [
        {
            "epoch": row.epoch,
            "labels": row.labels,
            "seconds": row.ready - row.began,
            **_share(*by_epoch.get(row.epoch, (0, 0))),
            "facts": json.loads(row.facts),
        }
        for row in rows
    ]


def suggestions(conn: Connection) -> dict[str, Any]:
    """Whether showing the model's guess sways people: agreement with it where it was shown, and where it was hidden."""
    table = schema.event
    agrees = case((table.c.answer == table.c.predicted, 1), else_=0)
    rows = conn.execute(
        select(table.c.suggested, func.count(), func.sum(agrees))
        .where(table.c.kind == "label", table.c.arm.in_(("strategy", "control")), table.c.predicted.is_not(None))
        .group_by(table.c.suggested)
    )
    found = {bool(shown): (int(agreed), int(total)) for shown, total, agreed in rows}
    shown, hidden = _share(*found.get(True, (0, 0))), _share(*found.get(False, (0, 0)))
    out: dict[str, Any] = {"shown": shown, "hidden": hidden, "shift": None, "low": None, "high": None}
    if shown["total"] and hidden["total"]:
        gap = shown["share"] - hidden["share"]
        # Newcombe's interval for a difference of two shares, from their Wilson intervals
        low = gap - math.hypot(shown["share"] - shown["low"], hidden["high"] - hidden["share"])
        high = gap + math.hypot(shown["high"] - shown["share"], hidden["share"] - hidden["low"])
        out |= {"shift": gap, "low": low, "high": high}
    return out


def advice(found: dict[str, Any]) -> dict[str, str]:
    """Go on, check labels, or stop, in a sentence. The reliability card of `ncalr.audit` is to take this place."""
    status, second = found["progress"]["status"], found["review"]
    if status["disputed"] + status["unclear"]:
        return {"do": "decide", "why": f"{status['disputed'] + status['unclear']} items wait for a decision."}
    if second["doubtful"]["total"] >= 10 and second["doubtful"]["low"] > second["control"]["high"]:
        return {"do": "check", "why": "Second looks find wrong labels where the model doubts: go on checking."}
    if found["progress"]["closed"] == found["progress"]["items"]:
        return {"do": "stop", "why": "Everything is labelled."}
    points = [point for point in found["curve"] if point["total"] >= 10]
    if len(points) >= 4 and points[-1]["share"] <= points[-4]["high"] and points[-1]["share"] >= points[-4]["share"]:
        why = "The estimate has not left the interval of three models ago: more labels gain little now."
        return {"do": "consider stopping", "why": why}
    return {"do": "go on", "why": "More labels are worth having."}


def _control_by_epoch(conn: Connection) -> dict[int, tuple[int, int]]:
    """By epoch: how many control items were predicted right, and how many there were, by the verdict that stands."""
    event, state = schema.event, schema.state
    first = (
        select(func.min(event.c.seq).label("seq"))
        .where(event.c.arm == "control", event.c.purpose == "label", event.c.predicted.is_not(None))
        .group_by(event.c.item_id)
        .subquery()
    )
    rows = conn.execute(
        select(event.c.epoch, func.count(), func.sum(case((state.c.answer == event.c.predicted, 1), else_=0)))
        .select_from(
            first.join(event, event.c.seq == first.c.seq).join(
                state, and_(state.c.item_id == event.c.item_id, state.c.status == "labelled")
            )
        )
        .group_by(event.c.epoch)
    )
    return {epoch: (int(right), int(total)) for epoch, total, right in rows}


def _votes(conn: Connection) -> dict[int, dict[int, Any]]:
    """By item: what each person says, for items that two or more answered."""
    vote = schema.vote
    several = (
        select(vote.c.item_id)
        .where(vote.c.kind.in_(COUNTED), vote.c.purpose != "adjudicate")
        .group_by(vote.c.item_id)
        .having(func.count(vote.c.person_id.distinct()) > 1)
    )
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    wanted = select(vote).where(vote.c.item_id.in_(several), vote.c.kind.in_(COUNTED), vote.c.purpose != "adjudicate")
    for row in conn.execute(wanted.order_by(vote.c.seq)):
        found[row.item_id][row.person_id] = row.answer if row.kind == "label" else row.kind
    return found


def _people(conn: Connection, votes: dict[int, dict[int, Any]]) -> list[dict[str, Any]]:
    """Each person: how much, how fast, and how often they say what the others say."""
    out = []
    for person in people.everyone(conn):
        compared = _against_the_others(votes, person.id)
        rows = _recent(conn, person)
        out.append(
            {
                "key": person.key,
                "name": person.name,
                "role": person.role,
                "active": person.active,
                "answers": _count_of(conn, person),
                **_speed([row.answered for row in rows]),
                "unsure": sum(row.kind == "unsure" for row in rows) / len(rows) if rows else None,
                "accuracy": _share(sum(compared), len(compared)),
            }
        )
    return out


def _against_the_others(votes: dict[int, dict[int, Any]], person: int) -> list[bool]:
    """For each item that others answered and do not tie on: whether this person says what most of the others say.

    Held against the verdict itself, everybody would look better than they are: their own vote is in it.
    """
    out = []
    for said in votes.values():
        others = Counter(answer for who, answer in said.items() if who != person).most_common()
        if person in said and others and (len(others) == 1 or others[0][1] > others[1][1]):
            out.append(bool(said[person] == others[0][0]))
    return out


def _agreement(conn: Connection, votes: dict[int, dict[int, Any]], rng: np.random.Generator) -> dict[str, Any]:
    names = {person.id: person.name for person in people.everyone(conn)}
    items = [list(said.values()) for said in votes.values()]
    low, high = agreement.interval(agreement.krippendorff, items, rng)
    pairs = []
    by_pair: dict[tuple[int, int], list[tuple[Any, Any]]] = defaultdict(list)
    for said in votes.values():
        for a, b in combinations(sorted(said), 2):
            by_pair[a, b].append((said[a], said[b]))
    for (a, b), both in sorted(by_pair.items()):
        ends = agreement.interval(agreement.cohen, both, rng)
        pairs.append(
            {
                "people": [names[a], names[b]],
                "items": len(both),
                "kappa": _number(agreement.cohen(both)),
                "low": _number(ends[0]),
                "high": _number(ends[1]),
            }
        )
    alpha = agreement.krippendorff(items)
    return {"items": len(items), "alpha": _number(alpha), "low": _number(low), "high": _number(high), "pairs": pairs}


def _review(conn: Connection) -> dict[str, Any]:
    found = review.precision(conn)
    return {
        "open": found.open,
        "doubtful": _share(found.doubtful_differed, found.doubtful),
        "control": _share(found.controls_differed, found.controls),
    }


def _recent(conn: Connection, person: Person, limit: int = RECENT) -> list[Any]:
    """The person's last answers, newest first."""
    table = schema.event
    rows = select(table.c.answered, table.c.kind).where(table.c.person_id == person.id)
    return list(conn.execute(rows.order_by(table.c.seq.desc()).limit(limit)).all())


def _count_of(conn: Connection, person: Person) -> int:
    return int(conn.execute(select(func.count()).where(schema.vote.c.person_id == person.id)).scalar_one())


def _speed(times: list[float]) -> dict[str, Any]:
    """Answers an hour of work: pauses of more than two minutes are none."""
    gaps = [a - b for a, b in pairwise(times) if 0 <= a - b <= IDLE]
    seconds = sum(gaps)
    return {"an_hour": len(gaps) / seconds * 3600 if seconds else None}


def _share(right: int, total: int) -> dict[str, Any]:
    low, high = agreement.wilson(right, total)
    return {"right": right, "total": total, "share": right / total if total else None, "low": low, "high": high}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
