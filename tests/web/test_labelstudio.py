"""Label Studio, played by a few lines that keep its rules; the real one is met by benchmarks/labelstudio.py."""

from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.errors import BadInput
from ncalr.web.folder import Folder, Source
from ncalr.web.labelstudio import LabelStudio, Unreachable, config, pull, push
from ncalr.web.media import Media
from ncalr.web.store import projects, schema


class Studio:
    """Projects, tasks and annotations in memory, behind the same routes."""

    def __init__(self, token="secret"):
        self.token, self.projects, self.tasks = token, [], []
        self.transport = httpx.MockTransport(self.answer)

    def answer(self, request):
        if request.headers["authorization"] != f"Token {self.token}":
            return httpx.Response(401, json={"detail": "no"})
        path, query = request.url.path, request.url.params
        if path == "/api/projects" and request.method == "GET":
            return httpx.Response(200, json={"results": self.projects})
        if path == "/api/projects":
            self.projects.append({**json.loads(request.content), "id": len(self.projects) + 1})
            return httpx.Response(201, json=self.projects[-1])
        if path.endswith("/import"):
            for task in json.loads(request.content):
                self.tasks.append({"id": len(self.tasks) + 1, "annotations": [], **task})
            return httpx.Response(201, json={})
        if path == "/api/tasks":
            start = (int(query["page"]) - 1) * int(query["page_size"])
            return httpx.Response(200, json={"tasks": self.tasks[start : start + int(query["page_size"])]})
        if path.endswith("/export"):
            return httpx.Response(200, json=[task for task in self.tasks if task["annotations"]])
        if path == "/api/users":
            return httpx.Response(200, json=[{"id": 7, "email": "kim@example.org"}])
        return httpx.Response(404, text="nothing here")

    def annotate(self, at, label, by=7):
        choice = {"value": {"choices": [label]}, "type": "choices"}
        self.tasks[at]["annotations"].append({"completed_by": by, "result": [choice], "was_cancelled": False})


@pytest.fixture
def studio():
    return Studio()


def test_our_order_goes_there_and_answers_come_back_once(office, studio):
    office.project(items=12)
    office.rank([7, 3, 9])
    remote = LabelStudio("http://studio", "secret", studio.transport)
    number = remote.project("p", ["cat", "dog", "bird"], "text")
    assert remote.project("p", ["cat", "dog", "bird"], "text") == number
    assert push(office.store, remote, number, 3) == 3
    assert [task["data"]["ncalr"] for task in studio.tasks] == ["item0000006", "item0000002", "item0000008"]
    assert push(office.store, remote, number, 2) == 2  # the next ones, none twice
    assert len({task["data"]["ncalr"] for task in studio.tasks}) == 5
    studio.annotate(0, "dog")
    studio.annotate(1, "cat", by=99)
    studio.tasks[2]["annotations"].append({"completed_by": 7, "result": [], "was_cancelled": True})
    assert pull(office.store, remote, number) == 3
    assert pull(office.store, remote, number) == 0
    said = {row["id"]: row["name"] for row in office.rows(schema.person)}
    assert sorted(said.values()) == ["kim@example.org", "label studio user 99"]
    assert office.counter("class:1") == office.counter("class:0") == 1
    assert {row["arm"] for row in office.rows(schema.event)} == {"label studio"}
    studio.tasks[0]["annotations"] = []
    studio.annotate(0, "bird")  # kim thinks again
    assert pull(office.store, remote, number) == 1
    assert office.counter("class:2") == 1
    assert len(office.rows(schema.event)) == 4
    remote.close()


def test_more_tasks_than_fit_on_a_page(small, studio, monkeypatch):
    monkeypatch.setattr("ncalr.web.labelstudio.PAGE", 4)
    small.project(items=10)
    remote = LabelStudio("http://studio", "secret", studio.transport)
    number = remote.project("p", ["cat", "dog"], "text")
    assert push(small.store, remote, number, 8) == 8
    assert len(remote.names(number)) == 8
    remote.close()


def test_pictures_travel_inside_the_task(small, studio, tmp_path):
    from PIL import Image

    root = tmp_path / "photos"
    root.mkdir()
    Image.new("L", (8, 8)).save(root / "a.png")
    (root / "torn.png").write_bytes(b"x")
    projects.create(
        small.store, "p", "image", ["cat", "dog"], [projects.NewItem("a.png"), projects.NewItem("torn.png")]
    )
    media = Media(root, tmp_path / "cache", 1)
    remote = LabelStudio("http://studio", "secret", studio.transport)
    assert push(small.store, remote, 1, 5, media) == 1
    assert studio.tasks[0]["data"]["image"].startswith("data:image/png;base64,")
    media.close()
    remote.close()


def test_refusals(studio):
    with pytest.raises(BadInput, match="address"):
        LabelStudio("studio", "x")
    wrong = LabelStudio("http://studio", "wrong", studio.transport)
    with pytest.raises(Unreachable, match="token"):
        wrong.names(1)
    right = LabelStudio("http://studio", "secret", studio.transport)
    with pytest.raises(Unreachable, match="404"):
        right._ask("GET", "/api/nowhere")
    gone = LabelStudio("http://127.0.0.1:9", "secret")
    with pytest.raises(Unreachable, match="does not answer"):
        gone.names(1)
    page = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>another page</html>"))
    other = LabelStudio("http://studio", "secret", page)
    with pytest.raises(Unreachable, match="not Label Studio"):
        other.names(1)
    for client in (wrong, right, gone, other):
        client.close()


@pytest.mark.parametrize("token", ["a secret\r\nhost: elsewhere", "a s\u00e9cret"])
def test_a_token_is_never_told(token):
    with pytest.raises(BadInput, match="copy it again") as caught:
        LabelStudio("http://studio", token)
    assert "cret" not in str(caught.value)


def test_the_end_of_a_line_is_no_part_of_a_token(studio):
    remote = LabelStudio("http://studio", "secret\n", studio.transport)
    assert remote.names(1) == set()
    remote.close()


def test_a_class_cannot_break_out_of_the_configuration():
    assert '<Choice value="&lt;a&gt; &quot;b"/>' in config(['<a> "b', "c"], "text").replace("'", '"') or (
        "&lt;a&gt;" in config(['<a> "b', "c"], "text")
    )
    assert "$image" in config(["a", "b"], "image")


def test_the_commands(small, studio, tmp_path, monkeypatch):
    import ncalr.web.labelstudio as module

    folder = Folder(tmp_path / "p.ncalr")
    folder.create(Source(str(tmp_path / "x.csv"), "text", "text"), small.url)
    small.project(items=30, first_training=4, step=1)
    real = module.LabelStudio
    monkeypatch.setattr(module, "LabelStudio", lambda url, token: real(url, token, studio.transport))

    def run(*words):
        given = ["labelstudio", *words, str(folder.path), "--url", "http://studio", "--token", "secret"]
        return CliRunner().invoke(app, given)

    assert "5 items sent" in run("push", "--count", "5").output
    for at in range(4):
        studio.annotate(at, "cat" if at % 2 else "dog")
    assert "4 answers taken in" in run("pull").output
    result = run("sync", "--count", "5")
    assert "0 answers taken in, trained, 4 items sent" in result.output, result.exception
    assert [row["labels"] for row in small.rows(schema.model)] == [4]
