"""Items by what became of them, and one more opinion on one that looks wrong."""

from __future__ import annotations

import pytest

from ncalr.errors import BadInput
from ncalr.web.store import listing, schema
from ncalr.web.store.answers import NoSuchItem


def shown(office, name, status="labelled", answer=None, after=0, limit=60):
    who = office.person(name)
    return office.store.read(lambda conn: listing.page(conn, who, status, answer, after, limit))


def again(office, key):
    return office.store.write(lambda conn: listing.ask_again(conn, key))


def test_items_of_a_class_come_in_pages_with_ones_own_answers(office):
    office.project(items=10)
    for answer in (0, 1, 0, 1, 0):
        office.label("ann", answer)
    lease, first = office.label("own", 0)
    office.label("own", kind="none")
    cats = shown(office, "own", answer=0)
    assert len(cats) == 4
    assert [item["number"] for item in cats] == sorted(item["number"] for item in cats)
    assert {item["item"]: item["own"]["id"] for item in cats if item["own"]} == {lease.item: first.id}
    assert [item["answer"] for item in shown(office, "own", answer=1)] == [1, 1]
    assert len(shown(office, "own", "none")) == 1
    assert shown(office, "own", "broken") == []
    start = shown(office, "own", limit=4)
    rest = shown(office, "own", after=start[-1]["number"], limit=4)
    assert [item["item"] for item in start + rest] == [item["item"] for item in shown(office, "own")]
    assert len(start + rest) == 6
    with pytest.raises(BadInput, match="items are labelled, none"):
        shown(office, "own", "open")


def test_the_own_answer_is_the_one_that_stands(small):
    small.project(items=3)
    lease, first = small.label("own", 0)
    second = small.say("own", lease.item, 1, based_on=first.id, lease=lease.token)
    [item] = shown(small, "own", answer=1)
    assert (item["own"]["id"], item["own"]["answer"]) == (second.id, 1)
    assert shown(small, "own", answer=0) == []


def test_one_more_is_asked_who_has_not_answered(office):
    office.project(items=1)
    lease, _ = office.label("ann", 0)
    office.person("ben")
    assert again(office, lease.item) == 2
    assert office.state(lease.item)["status"] == "open"
    assert office.next("ann") == []
    [asked] = office.next("ben")
    assert asked.item == lease.item
    assert [row["arm"] for row in office.rows(schema.lease) if row["token"] == asked.token] == ["again"]
    office.say("ben", asked.item, 0, lease=asked.token)
    assert office.state(lease.item)["status"] == "labelled"
    assert office.counter("closed") == 1
    with pytest.raises(BadInput, match="everybody has answered it already"):
        again(office, lease.item)


def test_what_is_open_decided_or_unknown_is_not_asked_again(small):
    small.project(items=3, votes=2)
    small.person("cat")
    lease, _ = small.label("ann", 0)
    for key in (lease.item, "unknown"):
        with pytest.raises(NoSuchItem, match="with a verdict"):
            again(small, key)
    small.say("ben", lease.item, 1)
    assert small.state(lease.item)["status"] == "disputed"
    small.person("own", "owner")
    [held] = small.next("own", purpose="adjudicate")
    small.say("own", held.item, 1, lease=held.token)
    before = small.rows(schema.state)
    with pytest.raises(BadInput, match="a reviewer has decided it"):
        again(small, lease.item)
    assert small.rows(schema.state) == before


def test_hidden_names_are_hidden_in_the_list_too(site):
    import httpx

    desk = site.desk
    desk.project(items=3, hide_names=True)
    desk.person("own", "owner")
    desk.label("own", 0)
    desk.label("ann", 0)
    with httpx.Client(base_url=site.address.url, headers={"origin": site.address.url}) as client:
        client.post("/api/enter", json={"token": site.link("own", "owner").partition("enter=")[2]}).raise_for_status()
        found = client.get("/api/items").json()
    assert len(found) == 2
    assert {item["name"] for item in found} == {""}
    assert [item["own"]["name"] for item in found if item["own"]] == [""]
