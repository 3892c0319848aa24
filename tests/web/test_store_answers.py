"""Answers: once, in order, never overwritten unseen, never lost; on both databases."""

from __future__ import annotations

import random
import threading
import uuid

import pytest
from sqlalchemy import delete, text, update

from ncalr.errors import BadInput
from ncalr.web.store import answers, schema
from ncalr.web.store.answers import Conflict, NoSuchItem
from ncalr.web.store.copying import BrokenChain, verify
from ncalr.web.store.database import NoRoom


def test_five_times_at_once_is_once(office):
    office.project(items=1)
    [lease] = office.next("ann")
    id_, replies = str(uuid.uuid4()), []

    def send():
        replies.append(office.say("ann", lease.item, 2, lease=lease.token, id_=id_))

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 5
    assert len(set(replies)) == 1
    assert len(office.rows(schema.event)) == 1


def test_the_same_id_with_another_answer_is_refused(office):
    office.project(items=1)
    lease, receipt = office.label("ann", 1)
    with pytest.raises(Conflict, match="another answer"):
        office.say("ann", lease.item, 2, lease=lease.token, id_=receipt.id)
    with pytest.raises(Conflict):
        office.say("ben", lease.item, 1, lease=lease.token, id_=receipt.id)
    assert office.state(lease.item)["answer"] == 1


def test_a_change_knows_what_it_changes(office):
    office.project(items=1)
    lease, first = office.label("ann", 0)
    second = office.say("ann", lease.item, 1, based_on=first.id)
    with pytest.raises(Conflict, match="changed meanwhile") as error:
        office.say("ann", lease.item, 2, based_on=first.id)
    assert error.value.facts["current"] == {"id": second.id, "kind": "label", "answer": 1}
    assert error.value.facts["yours"]["answer"] == 2
    with pytest.raises(Conflict):
        office.say("ann", lease.item, 2)
    assert [row["answer"] for row in office.rows(schema.event)] == [0, 1]
    assert office.counter("class:1") == 1
    assert office.counter("class:0") == 0


def test_undo_goes_back_step_by_step_through_the_whole_history(office):
    office.project(items=1)
    lease, first = office.label("ann", 0)
    second = office.say("ann", lease.item, 1, based_on=first.id)
    office.say("ann", lease.item, kind="undo", based_on=second.id)
    assert office.state(lease.item)["answer"] == 0
    office.say("ann", lease.item, kind="undo", based_on=first.id, lease=lease.token)
    assert office.state(lease.item)["status"] == "open"
    assert office.counter("closed") == 0
    assert office.next("ben") == []  # it is in ann's hands again
    assert [one.item for one in office.next("ann")] == [lease.item]
    again = office.say("ann", lease.item, 2, lease=lease.token)
    assert not again.late
    assert len(office.rows(schema.event)) == 5
    assert office.empty("ann").done


def test_what_was_undone_comes_first_when_its_lease_has_ended(office, clock):
    office.project(items=5)
    office.rank([4, 3, 2, 1, 5])
    lease, receipt = office.label("ann")
    office.label("ann")
    office.say("ann", lease.item, kind="undo", based_on=receipt.id, lease=lease.token)
    clock.time += 1000
    assert office.names(office.next("ben", 2)) == [4, 2]


@pytest.mark.parametrize("kind", ["none", "broken"])
def test_none_and_broken_close_an_item_without_a_class(office, kind):
    office.project(items=1)
    lease, _ = office.label("ann", kind=kind)
    assert (office.state(lease.item)["status"], office.state(lease.item)["answer"]) == (kind, None)
    assert office.counter(f"status:{kind}") == 1


def test_random_interleavings_keep_the_whole_history(office):
    """Three tabs of one person change one answer at random; whoever knew the state wins, nobody is overwritten."""
    office.project(items=1)
    lease, receipt = office.label("ann", 0)
    rng = random.Random(5)
    known = dict.fromkeys("abc", receipt.id)
    current, accepted = receipt.id, 1
    for _ in range(1000):
        tab = rng.choice("abc")
        if rng.random() < 0.5:
            known[tab] = current  # the tab looks
        try:
            done = office.say("ann", lease.item, rng.randrange(3), based_on=known[tab])
        except Conflict:
            assert known[tab] != current
            continue
        assert known[tab] == current
        current = known[tab] = done.id
        accepted += 1
    rows = office.rows(schema.event)
    assert len(rows) == accepted
    assert [row["based_on"] for row in rows] == [None, *[row["id"] for row in rows[:-1]]]
    verify(office.store)


def test_events_cannot_be_changed_or_removed(office):
    office.project(items=1)
    office.label("ann")
    for statement in (update(schema.event).values(answer=2), delete(schema.event)):
        with pytest.raises(Exception, match="append-only"):
            office.store.write(lambda conn, statement=statement: conn.execute(statement))
    assert [row["answer"] for row in office.rows(schema.event)] == [0]


def test_the_chain_finds_a_change_from_outside(office):
    office.project(items=3)
    for _ in range(3):
        office.label("ann", 1)
    assert verify(office.store) == office.rows(schema.event)[-1]["hash"]
    off = (
        "DROP TRIGGER event_no_update"
        if "sqlite" in str(office.store.engine.url)
        else ("ALTER TABLE event DISABLE TRIGGER event_no_change")
    )
    office.store.write(lambda conn: conn.execute(text(off)))
    office.store.write(lambda conn: conn.execute(text("UPDATE event SET answer = 0 WHERE seq = 2")))
    with pytest.raises(BrokenChain, match="event 2"):
        verify(office.store)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"id_": "7"}, "UUID"),
        ({"kind": "maybe"}, "one of label"),
        ({"answer": None}, "needs a class"),
        ({"answer": 1, "kind": "none"}, "needs a class"),
        ({"answer": 3}, "no class number 3"),
        ({"answer": -1}, "no class number -1"),
        ({"answer": None, "kind": "undo"}, "based_on"),
        ({"answer": 1, "based_on": str(uuid.uuid4())}, "names no answer"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_stored(small, said, message):
    small.project(items=1)
    [lease] = small.next("ann")
    with pytest.raises(BadInput, match=message):
        small.say("ann", lease.item, **{"answer": 1, **said})
    assert small.rows(schema.event) == []


def test_an_item_that_is_not_there(small):
    small.project(items=1)
    with pytest.raises(NoSuchItem):
        small.say("ann", "../../etc/passwd", 1)


def test_an_item_in_another_persons_hands_is_not_answered_by_its_key(office):
    office.project(items=2, votes=2)
    [lease] = office.next("ann")
    receipt = office.say("ben", lease.item, 1)  # one of two votes is free: it could have been handed to ben
    assert receipt.late
    for token in (None, lease.token, str(uuid.uuid4())):  # ann's lease is none of cat's
        with pytest.raises(Conflict, match="not handed to you"):
            office.say("cat", lease.item, 1, lease=token)
    office.say("ann", lease.item, 1, lease=lease.token)
    assert office.state(lease.item)["status"] == "labelled"
    with pytest.raises(Conflict, match="not handed to you"):  # nor one that has its votes
        office.say("cat", lease.item, 2)
    assert [row["person_id"] for row in office.rows(schema.event)] == [office.person("ben").id, office.person("ann").id]
    assert office.rows(schema.event)[0]["arm"] == "unasked"
    office.say("ben", lease.item, 2, based_on=receipt.id)  # one's own answer may always be changed


def test_an_item_that_was_handed_out_is_answered_whatever_became_of_its_lease(office, clock):
    office.project(items=1)
    [first] = office.next("ann")
    clock.time += 10_000
    [second] = office.next("ben")
    assert second.item == first.item
    assert office.say("ann", first.item, 1, lease=first.token).late
    with pytest.raises(Conflict, match="not handed to you"):
        office.say("cat", first.item, 1)
    assert not office.say("ben", first.item, 1, lease=second.token).late


def test_an_item_whose_lease_a_power_cut_took_is_answered(office):
    office.project(items=1)
    [lease] = office.next("ann")
    office.store.write(lambda conn: conn.execute(delete(schema.lease)))
    assert office.say("ann", lease.item, 1, lease=lease.token).late


def test_a_full_disk_is_an_error_of_its_own_and_leaves_no_half_row(small):
    small.project(items=50)
    leases = small.next("ann", 10)
    pages = small.store.read(lambda conn: conn.exec_driver_sql("PRAGMA page_count").scalar())
    from sqlalchemy import event as events

    @events.listens_for(small.store.engine, "begin")
    def no_room(conn):
        conn.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    stored = 0
    with pytest.raises(NoRoom, match="nothing was changed"):  # noqa: PT012 (which of them hits the wall is open)
        for lease in leases * 40:
            based = small.rows(schema.vote)
            known = {row["item_id"]: row["event"] for row in based}
            number = small.names([lease])[0]
            small.say("ann", lease.item, 1, lease=lease.token, based_on=known.get(number))
            stored += 1
    assert len(small.rows(schema.event)) == stored
    verify(small.store)
    events.remove(small.store.engine, "begin", no_room)
    free = small.store.read(lambda conn: conn.exec_driver_sql("PRAGMA max_page_count=100000").scalar())
    assert free == 100000


def test_one_bad_change_among_many_takes_back_itself_alone(office):
    """Changes that wait together are committed together; a failing one must not pull the others down."""
    office.project(items=30)
    leases = [office.next(f"p{at}")[0] for at in range(20)]
    results = {}

    def send(at):
        try:
            wrong = at % 3 == 0
            results[at] = office.say(f"p{at}", leases[at].item, 99 if wrong else 1, lease=leases[at].token)
        except BadInput as error:
            results[at] = error

    threads = [threading.Thread(target=send, args=(at,)) for at in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = [at for at, found in results.items() if not isinstance(found, BadInput)]
    assert all(at % 3 for at in good)
    assert len(good) == 13
    assert len(office.rows(schema.event)) == 13


def test_history_is_newest_first_and_pages(small):
    small.project(items=5)
    for answer in (0, 1, 2):
        small.label("ann", answer)
    small.label("ben", 0)
    ann = small.person("ann")
    found = small.store.read(lambda conn: answers.history(conn, ann, 2))
    assert [entry["answer"] for entry in found] == [2, 1]
    rest = small.store.read(lambda conn: answers.history(conn, ann, 2, found[-1]["seq"]))
    assert [entry["answer"] for entry in rest] == [0]


def test_the_event_keeps_why_it_was_asked_and_under_which_guidelines(small):
    from ncalr.web.store import projects

    small.project(items=2)
    small.store.write(lambda conn: projects.write_guideline(conn, 1.0, "New words"))
    small.rank([2], arm="control", score=0.25, predicted=1)
    small.label("ann")
    row = small.rows(schema.event)[0]
    assert (row["arm"], row["epoch"], row["score"], row["predicted"], row["guideline"]) == ("control", 1, 0.25, 1, 2)


def test_a_change_inside_a_change_is_an_error_and_not_a_wait_without_end(small):
    with pytest.raises(RuntimeError, match="wait for itself"):
        small.store.write(lambda _: small.store.write(lambda conn: conn))


def test_what_an_older_page_sent_has_the_digest_it_had(small):
    """An answer whose reply was lost before the update is sent again after it."""
    import hashlib
    import json

    said = answers.Answer("i", "k", "label", 1.0, 2)
    names = ("id", "item", "kind", "answered", "answer", "based_on", "lease", "shown")
    before = json.dumps(
        [small.project().person("ann").id, {name: getattr(said, name) for name in names}], sort_keys=True
    )
    assert answers._digest(small.person("ann"), said) == hashlib.sha256(before.encode()).hexdigest()
