"""The server: who may do what, what is refused, and the paths of work."""

from __future__ import annotations

import io
import os
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from browserless import HOME, Server, say, take

from ncalr.data.files import write_whole
from ncalr.errors import BadInput
from ncalr.web import figures
from ncalr.web.app import STATIC, Limits, route_table
from ncalr.web.folder import Folder, Source
from ncalr.web.guard import Address
from ncalr.web.limits import Limit, TooMany
from ncalr.web.media import CannotShow, Decoder, Media
from ncalr.web.store import people, projects, review, schema

ROLES = ("annotator", "reviewer", "owner")

# Every route and who may use it. One that is missing here fails the test: decide who may use it, then write it down.
TABLE = {
    ("GET", "/"): "nobody",
    ("GET", "/static"): "nobody",
    ("GET", "/api/health"): "nobody",
    ("POST", "/api/link"): "nobody",
    ("POST", "/api/enter"): "nobody",
    ("GET", "/api/me"): "annotator",
    ("POST", "/api/leave"): "annotator",
    ("GET", "/api/project"): "annotator",
    ("GET", "/api/state"): "annotator",
    ("POST", "/api/next"): "annotator",
    ("POST", "/api/heartbeat"): "annotator",
    ("POST", "/api/release"): "annotator",
    ("PUT", "/api/answers/{id_}"): "annotator",
    ("GET", "/api/history"): "annotator",
    ("GET", "/api/items/{key}/picture"): "annotator",
    ("GET", "/api/leases/{token}/why"): "annotator",
    ("GET", "/api/team"): "reviewer",
    ("GET", "/api/disputes/{lease}"): "reviewer",
    ("GET", "/api/items"): "owner",
    ("POST", "/api/items/{key}/again"): "owner",
    ("POST", "/api/leases/clear"): "owner",
    ("POST", "/api/invitations"): "owner",
    ("POST", "/api/people/{key}/link"): "owner",
    ("PATCH", "/api/people/{key}"): "owner",
    ("GET", "/api/settings"): "owner",
    ("PATCH", "/api/settings"): "owner",
    ("PUT", "/api/guideline"): "owner",
    ("POST", "/api/classes"): "owner",
    ("GET", "/api/export"): "owner",
    ("GET", "/api/model"): "owner",
}
BODIES = {
    "/api/next": {"tab": "t"},
    "/api/heartbeat": {"tab": "t"},
    "/api/release": {"leases": []},
    "/api/answers/{id_}": {"item": "x", "kind": "none", "answered": 1.0},
    "/api/invitations": {"role": "annotator"},
    "/api/people/{key}": {"active": True},
    "/api/settings": {},
    "/api/guideline": {"text": ""},
    "/api/classes": {"name": "new"},
}


@pytest.fixture
def server(small):
    small.project(items=30)
    small.person("own", "owner")
    return Server(small)


def test_every_route_has_an_entry_and_asks_for_the_role_it_says(server):
    assert route_table(server.app) == TABLE


@pytest.mark.parametrize("route", [key for key, role in TABLE.items() if role != "nobody"], ids=str)
def test_every_route_lets_in_whom_it_should_and_nobody_else(server, route):
    method, path = route
    url = path.replace("{id_}", str(uuid.uuid4())).replace("{key}", "unknown").replace("{token}", "t")
    url = url.replace("{lease}", "t")

    def ask(client):
        return client.request(method, url, json=BODIES.get(path)).status_code

    assert ask(server.visitor()) == 401
    for at, role in enumerate(ROLES):
        status = ask(server.person(f"one {role}", role))
        if at >= ROLES.index(TABLE[route]):
            assert status not in (401, 403, 500), (role, status)
        else:
            assert status == 403, (role, status)


def test_somebody_sent_away_is_out_at_once(server):
    owner, ann = server.person("own", "owner"), server.person("ann")
    key = ann.get("/api/me").json()["key"]
    assert owner.patch(f"/api/people/{key}", json={"active": False}).status_code == 200
    assert ann.get("/api/me").status_code == 401


# -- coming in


def test_an_invitation_by_link(server):
    owner, guest = server.person("own", "owner"), server.visitor()
    url = owner.post("/api/invitations", json={"role": "reviewer"}).json()["url"]
    assert url.startswith(f"{HOME}/#enter=")  # behind the #, so that it is in no log
    token = url.partition("=")[2]
    assert guest.post("/api/link", json={"token": token}).json() == {"kind": "invitation"}
    assert guest.post("/api/enter", json={"token": token, "name": "Rae"}).json() == {"name": "Rae", "role": "reviewer"}
    assert server.visitor().post("/api/enter", json={"token": token, "name": "Eve"}).status_code == 401
    assert guest.get("/api/me").json()["name"] == "Rae"


def test_a_new_link_for_somebody_who_lost_theirs(server):
    owner = server.person("own", "owner")
    key = server.desk.person("ann").key
    url = owner.post(f"/api/people/{key}/link").json()["url"]
    assert server.visitor().post("/api/enter", json={"token": url.partition("=")[2]}).json()["name"] == "ann"


def test_somebody_let_in_again_comes_back_as_themselves(server):
    owner, ann = server.person("own", "owner"), server.person("ann")
    key = ann.get("/api/me").json()["key"]
    owner.patch(f"/api/people/{key}", json={"active": False})
    refused = owner.post(f"/api/people/{key}/link")
    assert refused.status_code == 400
    assert "let them in again first" in refused.json()["error"]
    owner.patch(f"/api/people/{key}", json={"active": True})
    token = owner.post(f"/api/people/{key}/link").json()["url"].partition("=")[2]
    guest = server.visitor()
    assert guest.post("/api/link", json={"token": token}).json() == {"kind": "link"}
    assert guest.post("/api/enter", json={"token": token}).json()["name"] == "ann"
    assert guest.get("/api/me").json()["key"] == key


def test_the_door_says_what_was_pasted(server):
    owner, guest = server.person("own", "owner"), server.visitor()
    token = owner.post("/api/invitations", json={"role": "annotator"}).json()["url"].partition("=")[2]
    assert guest.post("/api/link", json={"token": token}).json() == {"kind": "invitation"}
    nameless = guest.post("/api/enter", json={"token": token})
    assert (nameless.status_code, "name" in nameless.json()["error"]) == (400, True)
    taken = guest.post("/api/enter", json={"token": token, "name": "own"})
    assert (taken.status_code, "ask for a new link of yours" in taken.json()["error"]) == (400, True)
    assert guest.post("/api/enter", json={"token": token, "name": "Rae"}).status_code == 200
    who = server.desk.person("ann")
    access = server.desk.store.write(lambda conn: people.issue(conn, 1e6, "access", person=who, seconds=None))
    assert "for programs" in guest.post("/api/link", json={"token": access}).json()["error"]


def test_a_good_link_lets_in_whatever_others_guess(small):
    small.project(items=2)
    server = Server(small, limits=Limits())
    guest = server.visitor()
    ann, ben = small.person("ann"), small.person("ben")
    used = small.store.write(lambda conn: people.link(conn, 1e6, ann))
    good = small.store.write(lambda conn: people.link(conn, 1e6, ben))
    assert server.visitor().post("/api/enter", json={"token": used}).status_code == 200
    for _ in range(9):  # a used one opened again is no guess
        assert guest.post("/api/link", json={"token": used}).status_code == 401
    assert [guest.post("/api/enter", json={"token": f"{at}"}).status_code for at in range(6)] == [401] * 5 + [429]
    assert guest.post("/api/link", json={"token": good}).json() == {"kind": "link"}
    assert guest.post("/api/enter", json={"token": good}).status_code == 200
    assert guest.post("/api/enter", json={"token": "x"}).status_code == 429


def test_the_cookie_is_out_of_reach_and_leaving_ends_the_session(server):
    who = server.desk.person("ann")
    link = server.desk.store.write(lambda conn: people.issue(conn, 1e6, "link", person=who))
    guest = server.visitor()
    cookie = guest.post("/api/enter", json={"token": link}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    guest.headers["x-csrf"] = guest.get("/api/me").json()["csrf"]
    kept = dict(guest.cookies)
    assert guest.post("/api/leave").json() == {"left": True}
    again = server.visitor()
    again.cookies.update(kept)
    assert again.get("/api/me").status_code == 401  # the old cookie is worthless


def test_over_tls_the_cookie_is_secure_and_bound_to_the_host(small):
    small.project(items=2)
    server = Server(small, address=Address(public_url="https://labels.example.org"))
    who = small.person("ann")
    link = small.store.write(lambda conn: people.issue(conn, 1e6, "link", person=who))
    guest = server.visitor()
    reply = guest.post("/api/enter", json={"token": link})
    assert reply.headers["set-cookie"].startswith("__Host-ncalr=")
    assert "Secure" in reply.headers["set-cookie"]
    assert reply.headers["strict-transport-security"]
    guest.headers["x-csrf"] = guest.get("/api/me").json()["csrf"]
    assert "Secure" in guest.post("/api/leave").headers["set-cookie"]  # else a browser keeps the old one


def test_guessing_links_is_slowed_down(small):
    small.project(items=2)
    server = Server(small, limits=Limits())
    guest = server.visitor()
    statuses = [guest.post("/api/enter", json={"token": f"guess {at}"}).status_code for at in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    assert int(guest.post("/api/enter", json={"token": "x"}).headers["retry-after"]) > 30
    told = guest.post("/api/enter", json={"token": "x"}, headers={"x-forwarded-for": "8.8.8.8"})
    assert told.status_code == 429  # nobody said that there is a proxy
    small.clock.time += 61
    assert guest.post("/api/enter", json={"token": "x"}).status_code == 401


def test_a_whole_team_may_come_in_at_once_and_behind_a_proxy_each_is_counted_alone(small):
    small.project(items=2)
    server = Server(small, limits=Limits(), address=Address(public_url="https://labels.example.org"))
    for at in range(8):
        who = small.person(f"person {at}")
        link = small.store.write(lambda conn, who=who: people.issue(conn, 1e6, "link", person=who))
        assert server.visitor().post("/api/enter", json={"token": link}).status_code == 200
    guest = server.visitor()
    for at in range(6):
        reply = guest.post("/api/enter", json={"token": "x"}, headers={"x-forwarded-for": "1.2.3.4, 9.9.9.9"})
        assert reply.status_code == (401 if at < 5 else 429)
    assert guest.post("/api/enter", json={"token": "x"}, headers={"x-forwarded-for": "8.8.8.8"}).status_code == 401


def test_answers_faster_than_anybody_can_are_slowed_down(small):
    small.project(items=20)
    server = Server(small, limits=Limits(answers=(3, 10.0)))
    ann = server.person("ann")
    statuses = [say(ann, item).status_code for item in take(ann, 5)]
    assert statuses == [200] * 3 + [429] * 2


def test_a_program_with_an_access_token_needs_no_cookie(server):
    who = server.desk.person("bot")
    token = server.desk.store.write(lambda conn: people.issue(conn, 1e6, "access", person=who, seconds=None))
    bot = server.visitor()
    bot.headers["authorization"] = f"Bearer {token}"
    [item] = take(bot)
    assert say(bot, item).status_code == 200
    bot.headers["authorization"] = "Bearer wrong"
    assert bot.get("/api/me").status_code == 401


# -- the guard


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9999", "", "localhost.evil.example:8765"])
def test_another_name_is_refused_and_the_setting_is_named(server, host):
    reply = server.person("ann").get("/api/me", headers={"host": host})
    assert reply.status_code == 421
    assert "--public-url" in reply.json()["error"]


def test_a_change_from_another_site_is_refused_and_the_setting_is_named(server):
    ann = server.person("ann")
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        reply = ann.post("/api/next", json={"tab": "t"}, headers={"origin": origin})
        assert reply.status_code == 403
        assert "--public-url" in reply.json()["error"]
    assert (
        ann.get("/api/me", headers={"origin": "https://evil.example"}).headers.get("access-control-allow-origin")
        is None
    )


def test_a_change_without_the_pages_word_is_refused(server):
    ann = server.person("ann")
    del ann.headers["x-csrf"]
    assert ann.post("/api/next", json={"tab": "t"}).status_code == 403
    ann.headers["x-csrf"] = "0" * 64
    assert ann.post("/api/next", json={"tab": "t"}).status_code == 403


def test_the_headers_of_every_reply(server):
    for reply in (server.visitor().get("/"), server.visitor().get("/api/me"), server.person("ann").get("/api/me")):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"


def test_a_body_that_is_too_large(server):
    ann = server.person("ann")
    assert ann.put("/api/guideline", content=b"x" * (2**20 + 1)).status_code == 413

    def endless():
        for _ in range(40):
            yield b" " * 2**15

    own = server.person("own", "owner")
    assert own.put("/api/guideline", content=endless()).status_code in (400, 413)


@pytest.mark.parametrize("url", ["labels.example.org", "ftp://x", "https://x/path", "https://"])
def test_public_urls_that_are_none(url):
    with pytest.raises(BadInput, match="public-url"):
        Address(public_url=url)


def test_bodies_with_strange_fields_or_numbers_are_refused(server):
    own = server.person("own", "owner")
    for body in ({"user__password": "x"}, {"votes": "many"}, {"control": 2.0}, {"strategy": "nonsense"}, {"votes": 0}):
        reply = own.patch("/api/settings", json=body)
        assert reply.status_code == 400, body
        assert reply.json()["error"]
    assert own.get("/api/export?form=pickle").status_code == 400
    assert own.get("/api/history?limit=0").status_code == 400
    assert own.get("/api/history?before=1;drop").status_code == 400


# -- work


def test_label_undo_and_history_over_the_wire(server):
    ann = server.person("ann")
    [item] = take(ann)
    first = say(ann, item, 1).json()
    assert first["seq"] == 1
    assert not first["late"]
    undo = ann.put(
        f"/api/answers/{uuid.uuid4()}",
        json={"item": item["item"], "lease": item["token"], "kind": "undo", "based_on": first["id"], "answered": 2.0},
    )
    assert undo.status_code == 200
    assert take(ann)[0]["item"] == item["item"]
    say(ann, item, 2)
    assert [entry["answer"] for entry in ann.get("/api/history").json()] == [2]


def test_the_same_answer_five_times_has_byte_equal_replies(server):
    ann = server.person("ann")
    [item] = take(ann)
    id_, replies = str(uuid.uuid4()), []
    threads = [threading.Thread(target=lambda: replies.append(say(ann, item, 1, id_=id_).content)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(replies)) == 1
    assert say(ann, item, 2, id_=id_).status_code == 409


def test_a_stale_change_shows_both_values(server):
    ann = server.person("ann")
    [item] = take(ann)
    first = say(ann, item, 1).json()
    second = say(ann, item, 2, based_on=first["id"]).json()
    stale = say(ann, item, 0, based_on=first["id"])
    assert stale.status_code == 409
    assert stale.json()["current"] == {"id": second["id"], "kind": "label", "answer": 2}
    assert stale.json()["yours"]["answer"] == 0


def test_nothing_left_is_said_honestly(small):
    small.project(items=2)
    server = Server(small)
    ann, ben = server.person("ann"), server.person("ben")
    take(ann, 2)
    rest = ben.post("/api/next", json={"tab": "t"}).json()["rest"]
    assert (rest["open"], rest["elsewhere"], rest["people"], rest["done"]) == (2, 2, 1, False)
    assert rest["until"] > small.clock.time
    for item in take(ann, 2):
        say(ann, item)
    assert ben.post("/api/next", json={"tab": "t"}).json()["rest"]["done"]


def test_what_a_closed_tab_held_before_a_new_start_is_to_be_had_at_once(small):
    small.project(items=4)
    before = Server(small)
    held = take(before.person("ann"), 2, tab="closed")
    take(before.person("ben"), 1)
    small.clock.time += 10
    server = Server(small)
    ann = server.person("ann")
    assert {item["item"] for item in held} < {item["item"] for item in take(ann, 4, tab="new")}  # not what ben has
    assert ann.post("/api/next", json={"tab": "new", "want": 4}).json()["rest"]["elsewhere"] == 1


def test_a_tab_that_is_heard_of_keeps_its_items_and_one_that_is_silent_does_not(small):
    small.project(items=2)
    before = Server(small)
    take(before.person("ann"), 2, tab="open")
    small.clock.time += 10
    server = Server(small)
    ann = server.person("ann")
    ann.post("/api/heartbeat", json={"tab": "open"})  # it came through the new start
    assert take(ann, 2, tab="new") == []
    assert ann.post("/api/next", json={"tab": "new"}).json()["rest"]["own_tabs"] == 2
    small.clock.time += 120  # a tab in the background beats once a minute, or so
    assert take(ann, 2, tab="new") == []
    small.clock.time += 70
    assert len(take(ann, 2, tab="new")) == 2


def test_heartbeat_and_release(server):
    ann = server.person("ann")
    items = take(ann, 3)
    assert sorted(ann.post("/api/heartbeat", json={"tab": "tab"}).json()["held"]) == sorted(i["token"] for i in items)
    assert ann.post("/api/release", json={"leases": [items[0]["token"]]}).json() == {"released": 1}
    assert server.person("own", "owner").post("/api/leases/clear").json() == {"released": 2}


def test_disputes_are_decided_by_a_reviewer_who_sees_what_was_said(small):
    small.project(items=1, votes=2)
    server = Server(small)
    for name, answer in (("ann", 0), ("ben", 1)):
        client = server.person(name)
        say(client, take(client)[0], answer)
    assert server.person("ann").post("/api/next", json={"tab": "t", "purpose": "adjudicate"}).status_code == 403
    rae = server.person("rae", "reviewer")
    [item] = take(rae, purpose="adjudicate")
    said = rae.get(f"/api/disputes/{item['token']}").json()
    assert said == [{"kind": "label", "answer": at, "people": 1} for at in (0, 1)]  # and not by whom
    assert rae.get("/api/disputes/other").status_code == 404
    assert say(rae, item, 1).status_code == 200
    assert rae.get("/api/state").json()["progress"]["status"]["labelled"] == 1


def test_somebody_asked_twice_is_one_of_those_who_said_something(small):
    small.project(items=1)
    server = Server(small)
    own = server.person("own", "owner")
    say(own, take(own)[0], 0)
    small.store.write(lambda conn: review.enqueue(conn, 1, [review.Doubt(1, 1.0, None, "why")], [], 0))
    say(own, take(own, purpose="review")[0], 1)
    [item] = take(own, purpose="adjudicate")
    assert own.get(f"/api/disputes/{item['token']}").json() == [{"kind": "label", "answer": 1, "people": 1}]
    say(own, item, kind="unsure")
    [item] = take(own, purpose="adjudicate")
    assert own.get(f"/api/disputes/{item['token']}").json() == [{"kind": "label", "answer": 1, "people": 1}]


def test_names_can_be_hidden_and_a_blind_look_never_shows_one_that_tells(small):
    made = [projects.NewItem(name, "text") for name in ("cat/1", "photos/2", "scatter/3")]
    projects.create(small.store, "p", "text", ["cat", "dog"], made)
    for _ in made:
        small.label("ann", 0)
    doubts = [review.Doubt(at, 1.0, None, "why") for at in (1, 2, 3)]
    small.store.write(lambda conn: review.enqueue(conn, 1, doubts, [], 0))
    server = Server(small)
    ben, own = server.person("ben"), server.person("own", "owner")
    assert sorted(item["name"] for item in take(ben, 3, purpose="review")) == ["", "photos/2", "scatter/3"]
    assert {entry["name"] for entry in server.person("ann").get("/api/history").json()} == {
        "cat/1",
        "photos/2",
        "scatter/3",
    }
    for item in take(ben, 3, purpose="review"):
        say(ben, item, 0)
    assert {entry["name"] for entry in ben.get("/api/history").json()} == {"", "photos/2", "scatter/3"}
    for entry in ben.get("/api/history").json():
        say(ben, {"item": entry["item"], "token": entry["lease"]}, kind="undo", based_on=entry["id"])
    assert own.patch("/api/settings", json={"hide_names": True}).status_code == 200
    assert {item["name"] for item in take(ben, 3, purpose="review")} == {""}
    assert {entry["name"] for entry in server.person("ann").get("/api/history").json()} == {""}


def test_the_team_view_and_the_state(server):
    ann, own = server.person("ann"), server.person("own", "owner")
    for item in take(ann, 4):
        say(ann, item, 1)
    found = own.get("/api/team").json()
    assert found["progress"]["classes"][1] == {"name": "dog", "count": 4}
    assert found["advice"]["do"] == "go on"
    state = ann.get("/api/state").json()
    assert state["own"]["answers"] == 4
    assert state["model"]["answers_since"] == 4
    assert state["model"]["worker"] == "waiting"
    server.desk.clock.time += 100
    assert ann.get("/api/state").json()["model"]["worker"] == "gone"


def test_somebody_new_is_asked_what_the_others_were_unsure_about(server):
    own = server.person("own", "owner")
    [item] = take(own)
    say(own, item, kind="unsure")
    progress = own.get("/api/state").json()["progress"]
    assert (progress["undecided"], progress["answers"], progress["wanted"]) == (1, 0, 29)
    token = own.post("/api/invitations", json={"role": "annotator"}).json()["url"].partition("=")[2]
    ann = server.visitor()
    key = ann.post("/api/enter", json={"token": token, "name": "Ann"}) and ann.get("/api/me").json()["key"]
    ann.headers["x-csrf"] = ann.get("/api/me").json()["csrf"]
    assert own.get("/api/state").json()["progress"]["undecided"] == 0
    assert take(ann)[0]["item"] == item["item"]
    assert own.patch(f"/api/people/{key}", json={"active": False}).status_code == 200
    assert own.get("/api/state").json()["progress"]["undecided"] == 1


def test_the_page_is_told_where_no_training_is_wanted(small):
    small.project(items=2)
    server = Server(small)
    server.office.training = figures.Training(False, small.clock.time + 1)
    assert server.person("ann").get("/api/state").json()["model"]["worker"] == "off"
    assert server.person("own", "owner").get("/api/team").json()["model"]["worker"] == "off"


def test_settings_guidelines_and_classes(server):
    own, ann = server.person("own", "owner"), server.person("ann")
    assert own.patch("/api/settings", json={"suggestions": True, "votes": 2}).json()["suggestions"]
    assert own.get("/api/settings").json()["votes"] == 2
    assert own.patch("/api/settings", json={"strategy": "margin"}).json()["strategy"] == "margin"
    assert own.put("/api/guideline", json={"text": "<script>alert(1)</script>"}).json() == {"version": 2}
    assert own.post("/api/classes", json={"name": "fish"}).json() == {"number": 3}
    found = ann.get("/api/project").json()
    assert found["classes"] == ["cat", "dog", "bird", "fish"]
    assert found["guideline"]["text"] == "<script>alert(1)</script>"  # as text: the page never makes HTML of it


def test_an_answer_is_stored_under_the_guidelines_its_author_was_shown(server):
    own, ann = server.person("own", "owner"), server.person("ann")
    assert ann.get("/api/state").json()["guideline"] == 1
    own.put("/api/guideline", json={"text": "new rules"})
    assert ann.get("/api/state").json()["guideline"] == 2
    items, ids = take(ann, 6), [str(uuid.uuid4()) for _ in range(6)]
    given = [{"guideline": 1}, {"guideline": 2}, {}, {"guideline": 3}, {"guideline": 0}, {"guideline": None}]
    for item, id_, more in zip(items, ids, given, strict=True):
        assert say(ann, item, id_=id_, **more).status_code == 200
    assert [row["guideline"] for row in server.desk.rows(schema.event)] == [1, 2, 2, 2, 2, 2]
    own.put("/api/guideline", json={"text": "newer rules"})
    for item, id_, more in zip(items, ids, given, strict=True):  # the reply was lost: the same again
        assert say(ann, item, id_=id_, **more).status_code == 200
    assert len(server.desk.rows(schema.event)) == 6


def test_items_come_with_their_names(server):
    ann = server.person("ann")
    items = take(ann, 3)
    names = {row["key"]: row["name"] for row in server.desk.rows(schema.item)}
    assert [item["name"] for item in items] == [names[item["item"]] for item in items]
    assert take(ann, 3) == items  # held, and the same
    say(ann, items[0], kind="skip")
    assert ann.get("/api/history").json()[0]["name"] == items[0]["name"]
    for item in take(ann, 10) + take(ann, 10, tab="b") + take(ann, 10, tab="c"):
        assert item["name"] == names[item["item"]]


def test_a_full_disk_is_507(server, monkeypatch):
    from ncalr.web.store.database import NoRoom

    ann = server.person("ann")
    [item] = take(ann)

    async def full(work):
        raise NoRoom("the database cannot be written")

    monkeypatch.setattr(server.desk.store, "awrite", full)
    assert say(ann, item).status_code == 507


def test_the_reason_over_the_wire(server):
    server.desk.rank([3], why={"cmap": 0.5}, score=1.0)
    ann = server.person("ann")
    [item] = take(ann)
    assert ann.get(f"/api/leases/{item['token']}/why").status_code == 400
    say(ann, item)
    assert ann.get(f"/api/leases/{item['token']}/why").json()["cmap"] == 0.5


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "labelstudio"])
def test_exports_hold_as_many_rows_as_the_page_says(server, form, tmp_path):
    from ncalr.web import exchange

    ann, own = server.person("ann"), server.person("own", "owner")
    for at, item in enumerate(take(ann, 9)):
        say(ann, item, at % 3)
    reply = own.get(f"/api/export?form={form}")
    assert "attachment" in reply.headers["content-disposition"]
    path = tmp_path / f"labels.{exchange.ENDINGS[form]}"
    path.write_bytes(reply.content)
    found = exchange.read(path)
    shown = own.get("/api/state").json()["progress"]
    assert len(found) == shown["status"]["labelled"] == 9
    for entry in shown["classes"]:
        assert sum(record.label == entry["name"] for record in found) == entry["count"]
    assert own.get(f"/api/export?form={form}").content == reply.content
    with server.office.export_alone():
        assert own.get(f"/api/export?form={form}").status_code == 429


# -- pictures


def image(kind="PNG", size=(40, 30), mode="RGB", **more):
    from PIL import Image

    out = io.BytesIO()
    Image.new(mode, size, 128 if mode == "L" else (200, 30, 40, 255)[: len(mode)]).save(out, kind, **more)
    return out.getvalue()


@pytest.fixture
def gallery(small, tmp_path):
    root = tmp_path / "photos"
    root.mkdir()
    (root / "a.png").write_bytes(image())
    (tmp_path / "secret.png").write_bytes(image())
    (tmp_path / "photos-too").mkdir()
    (tmp_path / "photos-too" / "b.png").write_bytes(image())
    media = Media(root, tmp_path / "cache", 1)
    yield small, root, media
    media.close()


def served(desk, root, media, name):
    projects.create(desk.store, "p", "image", ["a", "b"], [projects.NewItem(name)])
    server = Server(desk, media)
    client = server.person("ann")
    [item] = take(client)
    return client, item


def test_a_picture_comes_as_fresh_pixels_and_can_do_nothing(gallery):
    desk, root, media = gallery
    (root / "photo.html").write_bytes(image("JPEG", (900, 600), comment=b"<script>alert(1)</script>"))
    client, item = served(desk, root, media, "photo.html")
    reply = client.get(f"/api/items/{item['item']}/picture")
    assert reply.headers["content-type"] == "image/jpeg"
    assert b"script" not in reply.content
    assert reply.headers["content-security-policy"].startswith("default-src 'none'; sandbox")
    assert reply.headers["x-content-type-options"] == "nosniff"
    small = client.get(f"/api/items/{item['item']}/picture?size=320")
    assert len(small.content) < len(reply.content)
    assert client.get(f"/api/items/{item['item']}/picture").content == reply.content  # from the cache
    assert client.get(f"/api/items/{item['item']}/picture?size=77").status_code == 400


TRAVERSALS = [
    "../secret.png",
    "..\\secret.png",
    "/etc/passwd",
    "link.png",
    "../photos-too/b.png",
    "%2e%2e/secret.png",
    "a.png\x00.jpg",
    "\\\\host\\share",
    "folder",
    "A.PNG",
    "x" * 5000,
]


@pytest.mark.parametrize("name", TRAVERSALS, ids=lambda name: repr(name)[:20])
def test_nothing_outside_the_folder_is_ever_read(gallery, tmp_path, name):
    _, root, media = gallery
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "folder").mkdir()
    with pytest.raises(CannotShow, match="no such picture"):
        media.picture("key", name, 320)


@pytest.mark.parametrize("key", ["../../secret", "%2e%2e%2fsecret", "..%5csecret", "a%00b", "unknown", "x" * 100])
def test_keys_are_opaque(gallery, key):
    desk, root, media = gallery
    client, _ = served(desk, root, media, "a.png")
    assert client.get(f"/api/items/{key}/picture").status_code in (400, 404)


@pytest.mark.parametrize(
    "content",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<html><script>alert(1)</script></html>",
        b"",
        b"GIF89a/*",
        b"%PDF-1.4",
        image("ICO"),
        image("TIFF")[:60],
        image()[:60],
    ],
    ids=["svg", "html", "empty", "half a gif", "pdf", "ico", "half a tiff", "torn"],
)
def test_what_is_no_picture_is_not_shown(gallery, content):
    desk, root, media = gallery
    (root / "x.png").write_bytes(content)
    client, item = served(desk, root, media, "x.png")
    reply = client.get(f"/api/items/{item['item']}/picture")
    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/json"
    said = reply.json()["error"]
    assert said.startswith("the picture cannot be shown: it is")
    assert "Error" not in said
    assert "0x" not in said


def test_a_picture_that_was_moved_away_is_not_called_broken(gallery):
    desk, root, media = gallery
    client, item = served(desk, root, media, "a.png")
    (root / "a.png").rename(root / "b.png")
    reply = client.get(f"/api/items/{item['item']}/picture")
    assert reply.status_code == 404
    assert "it was moved or removed" in reply.json()["error"]
    root.rename(root.with_name("elsewhere"))
    assert "the folder" in client.get(f"/api/items/{item['item']}/picture").json()["error"]


@pytest.mark.parametrize(
    ("values", "mode", "expected"),
    [
        ([0, 1000, 2000, 4000], "I;16", [0, 64, 128, 255]),
        ([30000] * 4, "I;16", [117] * 4),
        ([0, 65535, 0, 65535], "I;16", [0, 255, 0, 255]),
        ([-5, 0, 5, 95], "I", [0, 13, 26, 255]),
        ([-1.0, 0.0, 0.5, 1.0], "F", [0, 128, 191, 255]),
        ([0, 100, 200, 255], "L", [0, 100, 200, 255]),
    ],
    ids=str,
)
def test_pictures_of_sixteen_bits_are_not_white(values, mode, expected):
    import numpy as np
    from PIL import Image

    from ncalr.pixels import in_eight_bits
    from ncalr.web.decoder import thumbnail

    kinds = {"I;16": np.uint16, "I": np.int32, "F": np.float32, "L": np.uint8}
    picture = Image.fromarray(np.array(values, kinds[mode]).reshape(2, 2))
    assert picture.mode == mode
    found = np.asarray(in_eight_bits(picture)).ravel()
    assert np.abs(found.astype(int) - expected).max() <= 1
    for form in ("PNG", "TIFF") if mode == "I;16" else ():
        out = io.BytesIO()
        picture.resize((32, 32), 0).save(out, form)
        assert np.abs(thumbnail(out.getvalue(), 32)[8, 24, 0].astype(int) - expected[1]) <= 8


@pytest.mark.parametrize("form", ["BMP", "TIFF"])
def test_what_browsers_do_not_know_is_shown_as_what_they_know(gallery, form):
    from PIL import Image

    desk, root, media = gallery
    (root / "x.tif").write_bytes(image(form, (700, 300)))
    client, item = served(desk, root, media, "x.tif")
    for size, kind in ((2560, "image/jpeg"), (320, "image/png")):
        reply = client.get(f"/api/items/{item['item']}/picture?size={size}")
        assert (reply.status_code, reply.headers["content-type"]) == (200, kind)
        assert Image.open(io.BytesIO(reply.content)).size == ((700, 300) if size > 700 else (320, 137))


def pages(count):
    """A TIFF whose pages are of different greys."""
    from PIL import Image

    first, *others = (Image.new("L", (8, 8), 40 * (at + 1)) for at in range(count))
    out = io.BytesIO()
    first.save(out, "TIFF", save_all=True, append_images=others)
    return out.getvalue()


def test_the_first_page_is_shown_and_how_many_there_are_is_said(gallery):
    from PIL import Image

    desk, root, media = gallery
    (root / "x.tif").write_bytes(pages(3))
    client, item = served(desk, root, media, "x.tif")
    for _ in range(2):  # decoded, and from the cache
        reply = client.get(f"/api/items/{item['item']}/picture")
        assert reply.headers["content-type"] == "image/png;pages=3"
        assert Image.open(io.BytesIO(reply.content)).getextrema() == (40, 40)
    assert media.picture("k", "a.png", 320)[0] == "image/png"


@pytest.mark.filterwarnings("ignore")  # Pillow's own
def test_a_first_page_is_shown_whatever_became_of_the_others():
    from ncalr.web.decoder import reencode

    whole = pages(2)
    kind, _ = reencode(whole[: whole.rindex(b"\x28" * 64) + 90], 320)  # cut behind the pixels of the first page
    assert kind == "image/png"


def test_a_bomb_is_refused_before_it_goes_off(gallery):
    import struct
    import zlib

    desk, root, media = gallery

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\x00" * 65536)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 65000, 65000, 8, 2, 0, 0, 0))
    (root / "bomb.png").write_bytes(bomb + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    client, item = served(desk, root, media, "bomb.png")
    assert client.get(f"/api/items/{item['item']}/picture").status_code == 422
    assert media.picture("k", "a.png", 320)[0] == "image/png"  # the decoder lives


def test_a_decoder_that_hangs_is_killed_and_the_next_picture_is_shown():
    decoder = Decoder(seconds=0.0)
    with pytest.raises(CannotShow, match="too long or"):
        decoder.decode(image("PNG", (3000, 3000)), 2560)
    decoder.seconds = 20.0
    assert decoder.decode(image(), 320)[0] == "image/png"
    decoder.stop()


def test_a_file_that_is_too_large(gallery, monkeypatch):
    from ncalr.web import media as module

    _, _, media = gallery
    monkeypatch.setattr(module, "BYTES", 10)
    with pytest.raises(CannotShow, match="limit"):
        media.picture("key", "a.png", 320)


def test_a_picture_that_two_ask_for_at_once_is_shown_to_both(gallery, monkeypatch):
    _, root, _ = gallery
    both = threading.Barrier(2, timeout=20)
    media = Media(root, root.parent / "shared", 2)
    decode, writing, most = Decoder.decode, [], []

    def together(*given):
        both.wait()
        return decode(*given)

    def slowly(path, content):
        writing.append(path)
        time.sleep(0.05)
        most.append(len(writing))
        write_whole(path, content)
        writing.remove(path)

    monkeypatch.setattr(Decoder, "decode", together)
    monkeypatch.setattr("ncalr.web.media.write_whole", slowly)
    with ThreadPoolExecutor(2) as people:
        found = list(people.map(lambda _: media.picture("key", "a.png", 320), range(2)))
    media.close()
    assert found[0] == found[1]
    assert most == [1, 1]  # one after the other: nobody reads half of it


def test_a_picture_is_shown_where_the_disk_is_full(gallery, monkeypatch):
    _, _, media = gallery

    def full(_number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert media.picture("key", "a.png", 320)[0] == "image/png"
    assert not list(media.cache.iterdir())


def test_pixels_of_small_images_are_kept_exactly():
    import numpy as np
    from PIL import Image

    from ncalr.web.decoder import reencode

    pixels = np.random.default_rng(0).integers(0, 255, (8, 8), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    kind, content = reencode(out.getvalue(), 2560)
    assert kind == "image/png"
    assert (np.asarray(Image.open(io.BytesIO(content))) == pixels).all()
    clear = image("PNG", (800, 800), "RGBA")
    assert reencode(clear, 320)[0] == "image/png"


# -- the folder, the limits, the page's files


def test_the_secret_is_random_and_private(tmp_path):
    secrets = []
    for name in ("one", "two"):
        folder = Folder(tmp_path / name)
        folder.create(Source("x", "text"))
        secrets.append(folder.secret())
        assert folder.secret() == secrets[-1]
        for file in ("secret", "project.json"):
            assert (folder.path / file).stat().st_mode & 0o777 == 0o600
    assert secrets[0] != secrets[1]
    (tmp_path / "one" / "secret").chmod(0o644)
    with pytest.raises(BadInput, match="read by others"):
        Folder(tmp_path / "one").secret()


def test_a_folder_without_a_project(tmp_path):
    with pytest.raises(BadInput, match="no labelling project"):
        Folder(tmp_path).open()
    assert Folder.beside(tmp_path / "photos.csv").path.name == "photos.ncalr"


def test_limits_forget_those_who_are_gone(clock, monkeypatch):
    from ncalr.web import limits

    monkeypatch.setattr(limits, "KNOWN", 3)
    limit = Limit("tries", 1, 10.0, clock)
    for key in range(4):
        limit.check(key)
    with pytest.raises(TooMany):
        limit.check(0)
    clock.time += 11
    limit.check(9)
    assert len(limit._times) == 1


def test_the_page_never_makes_html_of_text():
    for path in STATIC.rglob("*.js"):
        text = path.read_text()
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert danger not in text, f"{path.name}: {danger}"
    page = (STATIC / "index.html").read_text()
    assert "<style" not in page
    assert " style=" not in page
    assert " onclick" not in page
    assert page.count("<script") == page.count('<script type="module" src=')


def test_no_pickle_anywhere_in_the_app():
    from pathlib import Path

    import ncalr.web

    for path in Path(ncalr.web.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for danger in ("import pickle", "pickle.load", "joblib", "yaml.load", "torch.load", "shell=True"):
            assert danger not in text, f"{path.name}: {danger}"


def test_the_events_of_the_server_are_those_of_the_store(server):
    ann = server.person("ann")
    say(ann, take(ann)[0], 1)
    assert [row["answer"] for row in server.desk.rows(schema.event)] == [1]
