"""Label Studio as another place to answer: our order goes there, its annotations come back as votes.

    remote = LabelStudio("http://localhost:8080", token)
    number = remote.project("photos", ["cat", "dog"], "image")
    push(store, remote, number, count=100, media=media)     # the first 100 open items of the queue, none of them twice
    pull(store, remote, number)                             # annotations since, as votes; the worker trains on them

Only its REST API is used (projects, import, tasks, export, users), through httpx. Tasks carry our permanent name in
`data.ncalr`; that is how one is recognised, whatever Label Studio calls it. The project is set to sequential sampling,
so that people see our order. Pictures travel inside the task as data, so no address of ours has to be reachable.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import quoteattr

from sqlalchemy import Connection, select

from ncalr.errors import BadInput, NcalrError
from ncalr.web import exchange
from ncalr.web.exchange import Opinion, Record
from ncalr.web.media import CannotShow, Media
from ncalr.web.store import Store, projects, schema

PAGE = 500
SECONDS = 60.0


class Unreachable(NcalrError):
    """Label Studio does not answer, or says no."""


class LabelStudio:
    """The parts of its REST API that are needed."""

    def __init__(self, url: str, token: str, transport: Any = None) -> None:
        import httpx

        if not url.startswith(("http://", "https://")):
            raise BadInput(f"--url is Label Studio's address, such as http://localhost:8080; got {url!r}")
        token = token.strip()
        if not (token.isascii() and token.isprintable()):  # and what the client would say of it names it
            raise BadInput("the token of Label Studio has signs in it that no token has; copy it again from its page")
        kind = "Bearer" if token.count(".") == 2 else "Token"  # its newer tokens are JSON web tokens
        headers = {"Authorization": f"{kind} {token}"}
        self._client = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=SECONDS, transport=transport)

    def project(self, title: str, classes: list[str], kind: str) -> int:
        """The project of this title, made where there is none."""
        found = self._ask("GET", "/api/projects", params={"page_size": PAGE})
        for entry in found["results"] if isinstance(found, dict) else found:
            if entry["title"] == title[:50]:
                return int(entry["id"])
        body = {"title": title[:50], "label_config": config(classes, kind), "sampling": "Sequential sampling"}
        return int(self._ask("POST", "/api/projects", json=body)["id"])

    def names(self, number: int) -> set[str]:
        """Our names of the tasks that are there."""
        return {task["data"]["ncalr"] for task in self._tasks(number) if "ncalr" in task.get("data", {})}

    def add(self, number: int, tasks: list[dict[str, Any]]) -> None:
        """Append tasks, in this order."""
        self._ask("POST", f"/api/projects/{number}/import", json=tasks)

    def annotations(self, number: int) -> list[dict[str, Any]]:
        """Every task with its annotations, whose people are named by their e-mail addresses."""
        users = {user["id"]: user["email"] for user in self._ask("GET", "/api/users")}
        tasks: list[dict[str, Any]] = self._ask("GET", f"/api/projects/{number}/export", params={"exportType": "JSON"})
        for task in tasks:
            for annotation in task.get("annotations", []):
                who = annotation.get("completed_by")
                if isinstance(who, int):
                    annotation["completed_by"] = {"email": users.get(who, f"label studio user {who}")}
        return tasks

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _tasks(self, number: int) -> Iterator[dict[str, Any]]:
        page = 1
        while True:
            params = {"project": number, "page": page, "page_size": PAGE, "fields": "all"}
            found = self._ask("GET", "/api/tasks", params=params)
            tasks = found["tasks"] if isinstance(found, dict) else found
            yield from tasks
            if len(tasks) < PAGE:
                return
            page += 1

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        import httpx

        try:
            reply = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise Unreachable(f"Label Studio at {self._client.base_url} does not answer ({error})") from None
        if reply.status_code in (401, 403):
            raise Unreachable(f"Label Studio says {reply.status_code}: is the token right? It is in its account page")
        if reply.status_code >= 400:
            raise Unreachable(f"Label Studio says {reply.status_code} to {method} {path}: {reply.text[:300]}")
        try:
            return reply.json()
        except ValueError:
            place = self._client.base_url
            raise Unreachable(
                f"what answers at {place} is not Label Studio; --url is the address of its page"
            ) from None


def config(classes: list[str], kind: str) -> str:
    """Its labelling interface: the item, and one choice."""
    view = '<Image name="item" value="$image"/>' if kind == "image" else '<Text name="item" value="$text"/>'
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in classes)
    choice = '<Choices name="label" toName="item" choice="single" showInLine="true">'
    return f"<View>{view}{choice}{choices}</Choices></View>"


def push(store: Store, remote: LabelStudio, number: int, count: int, media: Media | None = None) -> int:
    """The first open items of our order, less those that are there already; how many went."""
    there = remote.names(number)
    tasks: list[dict[str, Any]] = []
    for row in store.read(lambda conn: _first(conn, count + len(there))):
        if row.name in there or len(tasks) == count:
            continue
        if row.text is not None:
            tasks.append({"data": {"ncalr": row.name, "text": row.text}})
        elif media is not None:
            try:
                kind, content = media.picture(row.key, row.name, 2560)
            except CannotShow:
                continue
            picture = f"data:{kind};base64,{base64.b64encode(content).decode()}"
            tasks.append({"data": {"ncalr": row.name, "image": picture}})
    for start in range(0, len(tasks), 100):
        remote.add(number, tasks[start : start + 100])
    return len(tasks)


def pull(store: Store, remote: LabelStudio, number: int) -> int:
    """Annotations as votes, each by its person; how many are new or changed."""
    return exchange.take_in(store, _records(remote.annotations(number)), replace=True)


def _records(tasks: list[dict[str, Any]]) -> Iterator[Record]:
    for task in tasks:
        name = task["data"].get("ncalr")
        votes = []
        for annotation in task.get("annotations", []):
            by = annotation["completed_by"]["email"]
            if annotation.get("was_cancelled"):
                votes.append(Opinion(by, "skip"))
            elif annotation.get("result"):
                votes.append(Opinion(by, "label", annotation["result"][0]["value"]["choices"][0]))
        if name is not None and votes:
            yield Record(name, "open", arm="label studio", votes=tuple({vote.by: vote for vote in votes}.values()))


def _first(conn: Connection, count: int) -> list[Any]:
    """Open items in the order in which they would be handed out."""
    ranking, item = schema.ranking, schema.item
    found: dict[int, Any] = {}
    for epoch in dict.fromkeys((projects.load(conn).epoch, schema.BASE)):
        rows = conn.execute(
            select(item)
            .join(ranking, ranking.c.item_id == item.c.id)
            .where(ranking.c.epoch == epoch)
            .order_by(ranking.c.rank)
            .limit(count)
        )
        for row in rows:
            found.setdefault(row.id, row)
    return list(found.values())[:count]
