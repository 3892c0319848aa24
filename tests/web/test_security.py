"""What somebody who means harm may try: with a folder of data, as one of the team, and after being sent away."""

from __future__ import annotations

import subprocess

import pytest
from browserless import Server, say, take

from ncalr.web import serve
from ncalr.web.app import Limits
from ncalr.web.folder import Folder
from ncalr.web.media import Decoder
from ncalr.web.store import people, queue


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


# -- sessions and links


def token_of(reply):
    return reply.json()["url"].partition("=")[2]


@pytest.mark.parametrize("change", [{"active": False}, {"role": "annotator"}])
def test_an_owner_who_is_one_no_more_has_no_link_left_to_come_back_by(server, change):
    own, bad = server.person("own", "owner"), server.person("bad", "owner")
    invitation = token_of(bad.post("/api/invitations", json={"role": "owner"}))
    disguise = token_of(bad.post(f"/api/people/{server.desk.person('own').key}/link"))
    assert own.patch(f"/api/people/{server.desk.person('bad').key}", json=change).status_code == 200
    assert server.visitor().post("/api/enter", json={"token": invitation, "name": "new"}).status_code == 401
    assert server.visitor().post("/api/enter", json={"token": disguise}).status_code == 401
    assert own.get("/api/settings").status_code == 200  # whoever is in stays in


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
