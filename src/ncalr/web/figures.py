"""The numbers of the page and of the team view, all read from one snapshot of the store."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, and_, case, exists, func, select, true

from ncalr.votes import Votes, cohen_pairs, krippendorff, one_coin
from ncalr.web.shares import gap, share
from ncalr.web.store import people, projects, review, schema
from ncalr.web.store.people import Person
from ncalr.web.store.verdict import COUNTED
from ncalr.web.worth import Worth

IDLE = 120.0
"""A pause longer than this is no work."""

RECENT = 3000
POOLED, ENOUGH = 5, 20
"""So many models, and so many control items, are counted together at least: one model alone has too few to go by."""

FEWEST = 10
"""Fewer control items than these show nothing."""

SURE = 0.05
"""The rise of the accuracy that must be out of the question before a stop."""

ALIVE = 30.0
"""A worker that was silent for longer is not there."""


STARTING = 60.0
"""So long a worker may take to be heard of for the first time."""

MANY = 100_000


def progress(conn: Connection) -> dict[str, Any]:
    """How much is done, by class and by what became of it: the counters that every answer keeps up to date.

    `answers` are those that stand, of the `wanted` ones: so many as each open item wants, and none more of an item that
    is closed. `undecided` items are closed to annotators and wait for a reviewer.
    """
    numbers = projects.counters(conn)
    given, partial = numbers.get("answers", 0), numbers.get("partial", 0)
    open_ = numbers["items"] - numbers["closed"]
    usual = (open_ - numbers.get("apart", 0)) * projects.load(conn).votes  # of items that want as many as most
    names = projects.classes(conn)
    status = {name: numbers.get(f"status:{name}", 0) for name in ("labelled", "none", "broken", "disputed", "unclear")}
    return {
        "items": numbers["items"],
        "closed": numbers["closed"],
        "answers": given,
        "wanted": max(given - partial + usual + numbers.get("asked", 0), given),
        "undecided": status["disputed"] + status["unclear"],
        "status": status,
        "classes": [{"name": name, "count": numbers.get(f"class:{at}", 0)} for at, name in enumerate(names)],
        "review": review.precision(conn).open,
    }


@dataclass(frozen=True)
class Training:
    """What is known of the training beside a server: whether it was asked for, and since when the server runs."""

    wanted: bool = True
    since: float = 0.0


def freshness(conn: Connection, now: float, training: Training | None = None) -> dict[str, Any]:
    """How fresh the model behind the queue is, and what the worker does.

    A worker that was not heard of since the server started is `starting`, for a while; where none was asked for, and
    there is none, it is `off`.
    """
    known = training or Training()
    project = projects.load(conn)
    row = conn.execute(select(schema.model).where(schema.model.c.epoch == project.epoch)).first()
    worker = conn.execute(select(schema.worker)).one()
    silent = now - worker.beat
    state = worker.state
    if worker.beat < known.since and now < known.since + STARTING:
        state = "starting"
    elif silent >= ALIVE and state != "stopped":
        state = "gone"
    if not known.wanted and (silent >= ALIVE or worker.beat < known.since or state == "stopped"):
        state = "off"
    return {
        "epoch": project.epoch,
        "labels": row.labels if row else 0,
        "worth": _worthless(json.loads(row.facts).get("worth")) if row else None,
        "age": now - row.ready if row else None,
        "answers_since": _since(conn, row.seq) if row else projects.counters(conn).get("answers", 0),
        "worker": state,
        "message": worker.message,
        "silent": silent,
    }


def _worthless(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """What to say of a model that is no better than its commonest class, and of how many labels; else nothing."""
    worth = Worth(**found) if found else None
    return {"labels": worth.labels, "words": f"{worth.words()}."} if worth and not worth.better else None


def own(conn: Connection, person: Person) -> dict[str, Any]:
    """What a person sees about themselves."""
    rows = _recent(conn, person, 200)
    return {"answers": _count_of(conn, person), **_speed([row.answered for row in rows])}


def team(conn: Connection, now: float, training: Training | None = None) -> dict[str, Any]:
    """Everything the team view shows."""
    said = _said(conn)
    votes = _votes(said, len(projects.classes(conn)))
    found: dict[str, Any] = {
        "progress": progress(conn),
        "model": freshness(conn, now, training),
        "curve": curve(conn),
        "people": _people(conn, said, votes),
        "agreement": _agreement(conn, votes),
        "review": _review(conn),
        "suggestions": suggestions(conn),
    }
    found["control"] = control(found["curve"])
    found["card"] = cards(found["curve"], len(projects.classes(conn)))
    found["notes"] = noted(found["curve"])
    found["advice"] = advice(found)
    return found


def control(curve: list[dict[str, Any]]) -> dict[str, Any]:
    """The accuracy of the latest models on reserved items, each predicted before its answer was known; and whether
    these are a sample of the whole folder (`of`), or of what the strategy had left `open`.
    """
    start, found = _pool(curve, len(curve))
    kept = [point["facts"].get("reserved") for point in curve[start:]]
    return {**found, "of": "folder" if all(each and not each["picked"] for each in kept) else "open"}


def curve(conn: Connection) -> list[dict[str, Any]]:
    """The learning curve: a point a model, with its own control items and those of the latest models together."""
    by_epoch = _control_by_epoch(conn)
    rows = conn.execute(select(schema.model).order_by(schema.model.c.epoch)).all()
    points = [
        {
            "epoch": row.epoch,
            "labels": row.labels,
            "seconds": row.ready - row.began,
            **share(*by_epoch.get(row.epoch, (0, 0))),
            "facts": json.loads(row.facts),
        }
        for row in rows
    ]
    return [{**point, "pooled": _pool(points, at)[1]} for at, point in enumerate(points, 1)]


def _pool(
    points: list[dict[str, Any]], end: int, models: int = POOLED, items: int = ENOUGH
) -> tuple[int, dict[str, Any]]:
    """The control items of the models before `end`, so many models and items at least: where these begin, a share."""
    start, right, total = end, 0, 0
    while start and (end - start < models or total < items):
        start -= 1
        right, total = right + points[start]["right"], total + points[start]["total"]
    return start, share(right, total)


def suggestions(conn: Connection) -> dict[str, Any]:
    """Whether showing the model's guess sways people: agreement with it where it was shown, and where it was hidden.

    Only answers that stand count, and only to items where a lottery decided between the two.
    """
    table, lease = schema.event, schema.lease
    agrees = case((table.c.answer == table.c.predicted, 1), else_=0)
    rows = conn.execute(
        select(table.c.suggested, func.count(), func.sum(agrees))
        .select_from(table.join(lease, lease.c.token == table.c.lease).join(schema.vote, _stands(table)))
        .where(table.c.kind == "label", table.c.arm.in_(("strategy", "control")), lease.c.drawn.is_(true()))
        .group_by(table.c.suggested)
    )
    found = {bool(shown): (int(agreed), int(total)) for shown, total, agreed in rows}
    shown, hidden = share(*found.get(True, (0, 0))), share(*found.get(False, (0, 0)))
    out: dict[str, Any] = {"shown": shown, "hidden": hidden, "shift": None, "low": None, "high": None}
    if shown["total"] and hidden["total"]:
        out |= dict(zip(("shift", "low", "high"), gap(shown, hidden), strict=True))
    return out


def cards(curve: list[dict[str, Any]], classes: int) -> list[dict[str, Any]]:
    """The reliability card of each model, with the facts of `ncalr.lab.card`: labels and the classes they cover, share
    of wrong ones, collapse, how alike the next items are, accuracy on control items (of the latest models together),
    and the word that `advice` goes by.
    """
    return [
        {
            "labels": point["labels"],
            "covered": point["facts"].get("covered"),
            "classes": classes,
            "wrong": _wrong(point),
            "nc1": point["facts"].get("nc1"),
            "rule": point["facts"].get("rule", ""),
            "redundancy": point["facts"].get("redundancy"),
            "control": _pool(curve, at)[1],
            "advice": word(curve[:at])["do"],
        }
        for at, point in enumerate(curve, 1)
    ]


def noted(curve: list[dict[str, Any]]) -> list[str]:
    """What the last training noted about itself, in sentences for people who label."""
    from ncalr.learn.learner import UNCHANGED, UNSETTLED

    plain = {
        UNCHANGED: "No guess changed any more at the end of the training: the model had settled. So a score that "
        "counts such changes (FF) is the same for every item, and the rest of the strategy chooses. No need to act.",
        UNSETTLED: "The model had not settled when its training ended: its guesses may be a little worse than need be.",
    }
    told = curve[-1]["facts"].get("notes", []) if curve else []
    return [
        next((words for sign, words in plain.items() if note.startswith(sign)), f"{note[:1].upper()}{note[1:]}.")
        for note in told
    ]


def advice(found: dict[str, Any]) -> dict[str, str]:
    """What to do next, in a sentence: what waits for a decision first, then the word of the reliability card."""
    status, second = found["progress"]["status"], found["review"]
    if status["disputed"] + status["unclear"]:
        waiting = status["disputed"] + status["unclear"]
        who = "1 item waits" if waiting == 1 else f"{waiting} items wait"
        return {"do": "decide", "why": f"{who} for a decision."}
    if second["doubtful"]["total"] >= 10 and second["doubtful"]["low"] > second["control"]["high"]:
        return {"do": "check labels", "why": "Second looks find wrong labels where the audit doubts: go on checking."}
    if found["progress"]["closed"] == found["progress"]["items"]:
        return {"do": "stop", "why": "Everything is labelled."}
    return word(found["curve"])


def word(curve: list[dict[str, Any]]) -> dict[str, str]:
    """What the last model of a curve says to do, and why.

    Stop needs proof: the control items of the latest models, against as many before them, rule out a rise of `SURE`.
    """
    from ncalr.lab.card import FLAT, WRONG

    wrong = _wrong(curve[-1]) if curve else None
    if wrong and wrong[1] > WRONG:
        why = f"{wrong[0]:.0%} of the labels may be wrong ({wrong[1]:.0%} to {wrong[2]:.0%}): second opinions pay more."
        return {"do": "check labels", "why": why}
    items = max(ENOUGH, sum(point["total"] for point in curve) // 3)
    start, now = _pool(curve, len(curve), 1, items)
    _, before = _pool(curve, start, 1, items)
    if min(now["total"], before["total"]) < FEWEST:
        return {"do": "go on", "why": "There are too few control items yet to tell whether the model still improves."}
    risen, _, most = gap(now, before)
    if risen >= FLAT:
        why = f"More labels are worth having: the accuracy rose by {100 * risen:+.0f} points lately."
        return {"do": "go on", "why": why}
    if most > SURE:
        why = f"The curve looks flat, but {now['total']} control items cannot tell it from a rise of {most:.0%}."
        return {"do": "go on", "why": why}
    return {"do": "stop", "why": f"The accuracy rose by {100 * risen:+.1f} points lately, by {most:.0%} at most."}


def _wrong(point: dict[str, Any]) -> list[float] | None:
    """The share of wrong labels and its interval, where the audit could tell (before it had to, it told anything)."""
    found: list[float] | None = point["facts"].get("audit", {}).get("wrong")
    return found


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


def _said(conn: Connection) -> dict[int, dict[int, Any]]:
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


def _votes(said: dict[int, dict[int, Any]], classes: int) -> Votes | None:
    """The same as `ncalr.votes` reads it, where there is any; none of these and broken are classes of their own."""
    rows = [(item, who, answer) for item, given in said.items() for who, answer in given.items()]
    if not rows:
        return None
    beyond = {kind: classes + at for at, kind in enumerate(COUNTED[1:])}
    items, annotators, answers_ = zip(*rows, strict=True)
    return Votes.from_long(
        items, annotators, [beyond.get(answer, answer) for answer in answers_], classes + len(beyond)
    )


def _people(conn: Connection, said: dict[int, dict[int, Any]], votes: Votes | None) -> list[dict[str, Any]]:
    """Each person: how much, how fast, how often they say what the others say, and how often they may be right."""
    out, estimated = [], _accuracies(votes)
    for person in people.everyone(conn):
        compared = _against_the_others(said, person.id)
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
                "agrees": share(sum(compared), len(compared)),
                "accuracy": estimated.get(person.id),
            }
        )
    return out


def _accuracies(votes: Votes | None) -> dict[int, dict[str, Any]]:
    """How often each person may be right (one coin each, by expectation-maximisation), where three or more can be
    compared: of two who differ nobody knows which is right.
    """
    if votes is None or len(votes.annotators) < 3:
        return {}
    rows = one_coin(votes).rows()
    return {row["annotator"]: {"share": row["accuracy"], "low": row["low"], "high": row["high"]} for row in rows}


def _against_the_others(said: dict[int, dict[int, Any]], person: int) -> list[bool]:
    """For each item that others answered and do not tie on: whether this person says what most of the others say.

    Held against the verdict itself, everybody would look better than they are: their own vote is in it.
    """
    out = []
    for given in said.values():
        others = Counter(answer for who, answer in given.items() if who != person).most_common()
        if person in given and others and (len(others) == 1 or others[0][1] > others[1][1]):
            out.append(bool(given[person] == others[0][0]))
    return out


def _agreement(conn: Connection, votes: Votes | None) -> dict[str, Any]:
    if votes is None:
        return {"items": 0, "alpha": None, "low": None, "high": None, "pairs": []}
    names = {person.id: person.name for person in people.everyone(conn)}
    alpha = krippendorff(votes)
    pairs = [
        {
            "people": [names[a], names[b]],
            "items": found.items,
            "kappa": _number(found.value),
            "low": _number(found.low),
            "high": _number(found.high),
        }
        for (a, b), found in cohen_pairs(votes).items()
    ]
    ends = {"alpha": _number(alpha.value), "low": _number(alpha.low), "high": _number(alpha.high)}
    return {"items": alpha.items, **ends, "pairs": pairs}


def _review(conn: Connection) -> dict[str, Any]:
    found = review.precision(conn)
    return {
        "open": found.open,
        "doubtful": share(found.doubtful_differed, found.doubtful),
        "control": share(found.controls_differed, found.controls),
    }


def _recent(conn: Connection, person: Person, limit: int = RECENT) -> list[Any]:
    """The person's last answers of those that stand, newest first."""
    table = schema.event
    rows = select(table.c.answered, table.c.kind).where(table.c.person_id == person.id)
    rows = rows.where(exists().where(_stands(table)))
    return list(conn.execute(rows.order_by(table.c.seq.desc()).limit(limit)).all())


def _since(conn: Connection, seq: int) -> int:
    """How many answers after this event stand."""
    table = schema.event
    fresh = select(table.c.seq).where(table.c.seq > seq, exists().where(_stands(table))).limit(MANY).subquery()
    return int(conn.execute(select(func.count()).select_from(fresh)).scalar_one())


def _stands(event: Any) -> Any:
    """That an event is what its author says now: neither taken back nor changed since."""
    vote = schema.vote
    same = (vote.c[name] == event.c[name] for name in ("item_id", "person_id", "purpose", "seq"))
    return and_(*same)


def _count_of(conn: Connection, person: Person) -> int:
    return int(conn.execute(select(func.count()).where(schema.vote.c.person_id == person.id)).scalar_one())


def _speed(times: list[float]) -> dict[str, Any]:
    """Answers an hour of work: pauses of more than two minutes are none."""
    gaps = [a - b for a, b in pairwise(times) if 0 <= a - b <= IDLE]
    seconds = sum(gaps)
    return {"an_hour": len(gaps) / seconds * 3600 if seconds else None}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
