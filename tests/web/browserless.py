"""A server without a network, and people who talk to it as a browser would."""

from __future__ import annotations

import uuid

from fastapi.testclient import TestClient
from office import Office as Desk

from ncalr.web.app import Limits, Office, create_app
from ncalr.web.guard import Address
from ncalr.web.store import people

HOME = "http://127.0.0.1:8765"
PLENTY = Limits(enter=(1000, 1.0), answers=(100000, 1.0), requests=(100000, 1.0))


class Server:
    def __init__(self, desk: Desk, media=None, limits=PLENTY, address=None, secret=b"s" * 32, folder=None):
        self.desk = desk
        self.address = address or Address()
        self.office = Office(desk.store, self.address, secret, media, limits, folder=folder)
        self.app = create_app(self.office)

    def visitor(self) -> TestClient:
        return TestClient(self.app, base_url=self.address.url, headers={"origin": self.address.url})

    def person(self, name, role="annotator") -> TestClient:
        """Somebody who came in by a link."""
        who = self.desk.person(name, role)
        now = self.desk.clock.now()
        link = self.desk.store.write(lambda conn: people.issue(conn, now, "link", person=who))
        client = self.visitor()
        assert client.post("/api/enter", json={"token": link}).status_code == 200
        client.headers["x-csrf"] = client.get("/api/me").json()["csrf"]
        return client


def take(client, want=1, tab="tab", purpose="label"):
    return client.post("/api/next", json={"tab": tab, "want": want, "purpose": purpose}).json()["items"]


def say(client, item, answer=0, kind="label", id_=None, **more):
    body = {"item": item["item"], "lease": item["token"], "kind": kind, "answered": 1.0, **more}
    if kind == "label":
        body["answer"] = answer
    return client.put(f"/api/answers/{id_ or uuid.uuid4()}", json=body)
