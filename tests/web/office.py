"""A store with shorthands: people by name, items by number, answers in one line."""

from __future__ import annotations

import uuid

from ncalr.web.store import answers, open_store, people, projects, queue, ranking, schema
from ncalr.web.store.projects import NewItem


class StoppedClock:
    def __init__(self, time: float = 1_000_000.0):
        self.time = time

    def now(self) -> float:
        return self.time


class Office:
    def __init__(self, url, clock=None):
        self.url, self.clock = url, clock or StoppedClock()
        self.store = open_store(url, clock=self.clock)
        self.people: dict[str, people.Person] = {}

    def project(self, items=10, classes=("cat", "dog", "bird"), votes=1, **settings):
        made = (NewItem(f"item{at:07d}", f"text {at}") for at in range(items))
        rules = projects.Settings(**settings)
        projects.create(self.store, "test", "text", list(classes), made, votes=votes, settings=rules)
        return self

    def person(self, name, role="annotator"):
        if name not in self.people:
            self.people[name] = self.store.write(lambda conn: people.add(conn, self.clock.now(), name, role))
        return self.people[name]

    def next(self, name, want=1, tab="tab", purpose="label"):
        who = self.person(name)
        return self.store.write(lambda conn: queue.hand_out(conn, self.clock.now(), who, tab, want, purpose))

    def say(self, name, item, answer=None, kind="label", lease=None, based_on=None, id_=None, answered=1.0):
        who = self.person(name)
        said = answers.Answer(id_ or str(uuid.uuid4()), item, kind, answered, answer, based_on, lease)
        return self.store.write(lambda conn: answers.submit(conn, self.clock.now(), who, said))

    def label(self, name, answer=0, tab="tab", kind="label", purpose="label"):
        """Take the next item and answer it; the lease and the receipt."""
        [lease] = self.next(name, 1, tab, purpose)
        return lease, self.say(name, lease.item, answer if kind == "label" else None, kind, lease.token)

    def empty(self, name, tab="tab"):
        return self.store.read(lambda conn: queue.emptiness(conn, self.clock.now(), self.person(name), tab))

    def rank(self, order, arm="strategy", **facts):
        """Put an order of item numbers in use."""
        epoch = ranking.prepare(self.store, [ranking.Ranked(at, arm, 1.0, **facts) for at in order])
        ranking.swap(self.store, epoch, ranking.Trained(0, 0, self.clock.now(), {}))
        return epoch

    def rows(self, table):
        return self.store.read(lambda conn: conn.execute(table.select()).mappings().all())

    def state(self, key):
        where = schema.item.c.key == key
        joined = schema.state.join(schema.item, schema.item.c.id == schema.state.c.item_id)
        query = schema.state.select().select_from(joined).where(where)
        return self.store.read(lambda conn: conn.execute(query).mappings().first())

    def counter(self, name):
        found = {row["name"]: row["value"] for row in self.rows(schema.counter)}
        return found.get(name, 0)

    def names(self, leases):
        keys = {row["key"]: row["id"] for row in self.rows(schema.item)}
        return [keys[lease.item] for lease in leases]
