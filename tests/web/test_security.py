"""What somebody who means harm may try: with a folder of data, as one of the team, and after being sent away."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from browserless import HOME, Server, say, take
from fastapi.testclient import TestClient
from office import Office
from PIL import Image
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from ncalr.web import exchange, serve, sources
from ncalr.web.app import Limits
from ncalr.web.folder import Folder
from ncalr.web.limits import TooMany, Turns
from ncalr.web.media import Decoder, Media, NotThere
from ncalr.web.store import copying, people, projects, queue, schema
from ncalr.web.store.database import NoRoom


@pytest.fixture
def server(small):
    small.project(items=100)
    return Server(small)


# -- data from elsewhere


def test_nothing_that_lies_among_the_data_is_run(tmp_path, monkeypatch):
    for name in ("resource", "sqlalchemy", "numpy", "PIL", "ncalr"):  # what the processes beside the server import
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    decoder = Decoder()
    process = decoder.start()
    process.stdin.close()
    assert process.wait(60) == 0
    decoder.stop()
    monkeypatch.setattr(serve, "REST", 3600.0)
    with serve.training(Folder(tmp_path / "none.ncalr")) as supervisor:
        done = subprocess.run(supervisor.command, capture_output=True, text=True, timeout=120, check=False)
    assert "holds no labelling project" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_link_among_the_pictures_takes_nothing_out_of_another_folder(small, tmp_path):
    root, secret = tmp_path / "photos", tmp_path / "secret"
    root.mkdir()
    secret.write_text("nobody's business", encoding="utf-8")
    (root / "a.png").symlink_to(secret)
    (root / "b.png").write_bytes(b"b")
    (root / "c.png").symlink_to(root / "b.png")
    (root / "d.png").symlink_to(root / "d.png")
    names = ("a.png", "b.png", "c.png", "d.png")
    projects.create(small.store, "p", "image", ["cat", "dog"], [projects.NewItem(name) for name in names])
    for _ in names:
        small.label("ann")
    copied = exchange.write_folder(small.store, root, tmp_path / "out")
    assert sorted(copied.missing) == ["a.png", "d.png"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "cat").iterdir()} == {
        "b.png": b"b",
        "c.png": b"b",
    }
    os.mkfifo(root / "pipe.png")
    shown = Media(root, tmp_path / "cache", decoders=0)
    for name in ("pipe.png", "a.png", "d.png", "../secret", str(secret)):
        with pytest.raises(NotThere):
            shown.picture("key", name, 32)


def test_the_training_reads_what_the_page_shows_and_nothing_else(tmp_path, monkeypatch):
    """No file without an end, and none that a link leads to outside the folder."""
    Image.new("RGB", (40, 30)).save(tmp_path / "large.png")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "large.png")
    assert sources._pixels(tmp_path / "photos", "link.png", 32) is None
    assert sources._pixels(tmp_path, "photos/link.png", 32) is not None
    assert sources._pixels(tmp_path, "large.png", 32) is not None
    monkeypatch.setattr("ncalr.web.media.BYTES", 10)
    assert sources._pixels(tmp_path, "large.png", 32) is None
    os.mkfifo(tmp_path / "pipe.png")
    assert sources._pixels(tmp_path, "pipe.png", 32) is None


# -- sessions and links


def token_of(reply):
    return reply.json()["url"].partition("=")[2]


@pytest.mark.parametrize("change", [{"active": False}, {"role": "annotator"}])
def test_an_owner_who_is_one_no_more_has_no_link_left_to_come_back_by(server, change):
    own, bad = server.person("own", "owner"), server.person("bad", "owner")
    invitation = token_of(bad.post("/api/invitations", json={"role": "owner"}))
    disguise = token_of(bad.post(f"/api/people/{server.desk.person('own').key}/link"))
    who = server.desk.person("bot")
    program = server.desk.store.write(lambda conn: people.issue(conn, 1e6, "access", person=who, seconds=None))
    assert own.patch(f"/api/people/{server.desk.person('bad').key}", json=change).status_code == 200
    assert server.visitor().post("/api/enter", json={"token": invitation, "name": "new"}).status_code == 401
    assert server.visitor().post("/api/enter", json={"token": disguise}).status_code == 401
    assert own.get("/api/settings").status_code == 200  # whoever is in stays in, and so do programs of others
    bot = server.visitor()
    assert bot.get("/api/state", headers={"authorization": f"Bearer {program}"}).status_code == 200


def test_an_owner_who_was_sent_away_becomes_something_else(server):
    own, bad = server.person("own", "owner"), server.person("bad", "owner")
    key = f"/api/people/{server.desk.person('bad').key}"
    assert own.patch(key, json={"active": False}).status_code == 200
    assert own.patch(key, json={"role": "annotator"}).status_code == 200  # "own" is an owner all the same
    assert own.patch(key, json={"active": True}).status_code == 200
    assert bad.get("/api/me").status_code == 401
    reply = own.patch(f"/api/people/{server.desk.person('own').key}", json={"role": "annotator"})
    assert "the only owner" in reply.json()["error"]


def test_links_of_others_outlive_an_annotator(server):
    own = server.person("own", "owner")
    invitation = token_of(own.post("/api/invitations", json={"role": "annotator"}))
    own.patch(f"/api/people/{server.desk.person('ann').key}", json={"active": False})
    assert server.visitor().post("/api/enter", json={"token": invitation, "name": "ben"}).status_code == 200


def test_everything_of_one_person_or_of_everybody_can_be_ended(server):
    ann, ben = server.person("ann"), server.person("ben")
    now, store = server.desk.clock.now(), server.desk.store
    assert store.write(lambda conn: people.revoke(conn, now, server.desk.person("ann")))[0] == 1
    assert (ann.get("/api/me").status_code, ben.get("/api/me").status_code) == (401, 200)
    invitation = store.write(lambda conn: people.issue(conn, now, "invitation", role="annotator"))
    assert store.write(lambda conn: people.revoke(conn, now)) == (1, 1)
    assert ben.get("/api/me").status_code == 401
    assert server.visitor().post("/api/enter", json={"token": invitation, "name": "new"}).status_code == 401


def test_what_had_run_out_is_ended_too_and_not_counted(server):
    ann = server.person("ann")
    now, store = server.desk.clock.now(), server.desk.store
    for seconds in (5.0, None):
        store.write(lambda conn, s=seconds: people.issue(conn, now, "invitation", role="annotator", seconds=s))
    later = now + people.IDLE_SECONDS + 1
    assert store.write(lambda conn: people.revoke(conn, later)) == (0, 1)
    assert store.write(lambda conn: people.revoke(conn, now)) == (0, 0)
    assert ann.get("/api/me").status_code == 401


def test_coming_in_again_ends_the_session_before(server):
    ann = server.person("ann")
    old = server.visitor()
    old.cookies.update(dict(ann.cookies))
    link = server.desk.store.write(lambda conn: people.link(conn, 1e6, server.desk.person("ann")))
    assert ann.post("/api/enter", json={"token": link}).status_code == 200
    assert (ann.get("/api/me").status_code, old.get("/api/me").status_code) == (200, 401)


# -- one of the team


def test_nobody_takes_everything_from_the_others(server):
    ann, ben = server.person("ann"), server.person("ben")
    taken = [item for at in range(20) for item in take(ann, 10, tab=f"tab {at}")]
    assert len(taken) == queue.HANDS == 30
    assert len(take(ben, 10)) == 10
    reply = ann.post("/api/next", json={"tab": "another"}).json()
    assert (reply["items"], reply["rest"]["own_tabs"]) == ([], 30)  # she is told where they are
    assert say(ann, taken[0]).status_code == 200
    assert len(take(ann, 10, tab="another")) == 1


def test_nobody_takes_everything_by_taking_it_back(office):
    office.project(items=60)
    server = Server(office)
    ann, ben = server.person("ann"), server.person("ben")
    given = []
    for _ in range(5):
        for item in take(ann, 10):
            given.append((item, str(uuid.uuid4())))
            say(ann, item, kind="skip", id_=given[-1][1])
    for item, id_ in reversed(given):
        assert say(ann, item, kind="undo", based_on=id_).status_code == 200
    assert len(ann.post("/api/heartbeat", json={"tab": "tab"}).json()["held"]) == queue.HANDS
    taken = {item["item"] for tab in "123" for item in take(ben, 10, tab=tab)}
    assert len(taken) == 30  # of 60, she has the others
    assert taken.isdisjoint(item["item"] for item, _ in given[-queue.HANDS :])
    for item, _ in reversed(given):  # and who meant no harm goes on as if nothing had been
        assert say(ann, item).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [("next", {"tab": "t"}), ("heartbeat", {"tab": "t"}), ("release", {"leases": []}), ("leases/clear", None)],
)
def test_changes_are_counted_as_reads_are(small, path, body):
    small.project(items=10)
    server = Server(small, limits=Limits(requests=(5, 10.0)))
    own, ben = server.person("own", "owner"), server.person("ben")  # coming in took one
    statuses = [own.post(f"/api/{path}", json=body).status_code for _ in range(6)]
    assert statuses == [200] * 4 + [429] * 2
    assert ben.get("/api/state").status_code == 200


@pytest.mark.parametrize(("people", "each"), [(1, 100), (25, 4)])
def test_slow_pictures_of_one_or_of_many_leave_threads_for_everything_else(small, tmp_path, monkeypatch, people, each):
    projects.create(small.store, "p", "image", ["a", "b"], [projects.NewItem("a.png")])
    media, free = Media(tmp_path, tmp_path / "cache", 1), threading.Event()
    monkeypatch.setattr(media, "picture", lambda *_: free.wait(30) and ("image/png", b"x"))
    server = Server(small, media)
    [key] = (row["key"] for row in small.rows(schema.item))
    with TestClient(server.app, base_url=HOME) as client, ThreadPoolExecutor(120) as crowd:
        *many, other = (
            {"cookie": "; ".join(f"{name}={value}" for name, value in server.person(f"person {at}").cookies.items())}
            for at in range(people + 1)
        )
        asked = [
            crowd.submit(client.get, f"/api/items/{key}/picture", headers=mine) for mine in many for _ in range(each)
        ]
        began = time.monotonic()
        while len(server.office.pictures) < people * each:
            assert time.monotonic() < began + 20
            time.sleep(0.01)
        state = crowd.submit(client.get, "/api/state", headers=other)
        try:
            assert state.result(10).status_code == 200
        finally:
            free.set()
        assert {one.result().status_code for one in asked} == {200}
    media.close()


def test_too_many_of_ones_own_are_sent_away_and_nothing_is_kept_of_them():
    async def crowd():
        turns, done = Turns("pictures", 1, 1, 9), asyncio.Event()

        async def ask(key):
            async with turns.turn(key):
                await done.wait()

        asked = [asyncio.create_task(ask(key)) for key in (1, 1, 1, 2)]
        await asyncio.sleep(0)
        done.set()
        return await asyncio.gather(*asked, return_exceptions=True), turns._lines

    (first, second, third, other), left = asyncio.run(crowd())
    assert (first, second, other, left) == (None, None, None, {})
    assert isinstance(third, TooMany)


def test_a_picture_many_ask_for_is_decoded_once(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    media = Media(tmp_path, tmp_path / "cache", 1)
    with media._decoder() as decoder, ThreadPoolExecutor(5) as crowd:
        asked = [crowd.submit(media.picture, "key", "a.png", 320) for _ in range(5)]
        time.sleep(0.2)  # all stand in line by now; what follows holds wherever they are
        real, decoder.decode, count = decoder.decode, (lambda *given: count.append(given) or real(*given)), []
        media._decoders.put(decoder)
        assert len({each.result() for each in asked}) == 1
        media._decoders.get()
    assert len(count) == 1
    media.close()


def test_a_full_disk_keeps_nobody_from_reading(server, monkeypatch):
    def full(_work):
        raise NoRoom("the database cannot be written")

    own = server.person("own", "owner")
    server.desk.clock.time += 3600
    monkeypatch.setattr(server.desk.store, "write", full)
    assert own.get("/api/state").status_code == 200
    assert own.get("/api/export").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/history?before=99999999999999999999999", None),
        ("POST", "/api/next", {"tab": "a\0b"}),
        ("POST", "/api/heartbeat", {"tab": "\0"}),
        ("POST", "/api/release", {"leases": ["\0"]}),
        ("PUT", "/api/guideline", {"text": "a\0b"}),
        ("PUT", "/api/answers/{id}", {"item": "\0", "kind": "none", "answered": 1.0}),
        ("PUT", "/api/answers/{id}", {"item": "x", "kind": "none", "answered": 1.0, "lease": "\0"}),
        ("PUT", "/api/answers/{id}", {"item": "x", "kind": "none", "answered": 1.0, "based_on": "\0"}),
        ("PUT", "/api/answers/{id}", {"item": "x", "kind": "label", "answered": 1.0, "answer": 2**80}),
    ],
)
def test_what_a_database_does_not_take_is_refused_at_the_door(office, method, path, body):
    office.project(items=3)
    own = Server(office).person("own", "owner")
    assert own.request(method, path.replace("{id}", str(uuid.uuid4())), json=body).status_code == 400


def test_a_word_of_the_page_in_strange_letters_is_wrong_and_no_error(server):
    ann = server.person("ann")
    assert ann.post("/api/leave", headers={"x-csrf": b"\xe9"}).status_code == 403


def test_a_picture_that_cannot_be_shown_does_not_tell_its_name(small, tmp_path):
    names = ("cat-1.png", "cat-2.png", "cat-3.png")
    (tmp_path / "cat-1.png").write_text("no picture", encoding="utf-8")
    (tmp_path / "cat-2.png").symlink_to("/etc/hostname")
    items = [projects.NewItem(name) for name in names]
    projects.create(small.store, "p", "image", ["cat", "b"], items, settings=projects.Settings(hide_names=True))
    media = Media(tmp_path, tmp_path / "cache", 1)
    ann = Server(small, media).person("ann")
    for item in take(ann, 3):
        reply = ann.get(f"/api/items/{item['item']}/picture")
        assert reply.status_code in (404, 422)
        assert "cat" not in reply.text
    media.close()


# -- what lies on the disk, and in logs


def test_databases_and_backups_are_private_wherever_they_lie(tmp_path):
    desk = Office(str(tmp_path / "labels.db")).project(items=2)
    copying.backup(desk.store, tmp_path / "backup.db")
    desk.store.close()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.db")} == {0o600}
    Media(tmp_path, tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_no_text_of_anybody_is_in_the_words_of_an_error(office):
    with pytest.raises(DBAPIError) as caught:
        office.store.read(
            lambda conn: conn.execute(text("SELECT * FROM nowhere WHERE x = :x"), {"x": "a private word"})
        )
    assert "nowhere" in str(caught.value)
    assert "a private word" not in str(caught.value)
