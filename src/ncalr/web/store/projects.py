"""The project: what is labelled, into which classes, by which rules; and its items."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, func, insert, select, update

from ncalr.acquire.lottery import Lottery
from ncalr.errors import BadInput, check_known
from ncalr.web.store import schema
from ncalr.web.store.database import Store
from ncalr.web.store.filling import batches, fill

KINDS = ("image", "text")
BATCH = 5000
CLASS_LIMIT = 1000


@dataclass(frozen=True)
class Settings:
    """Rules that may be changed while people label."""

    strategy: str = "ncal_coverage"
    control: float = 0.1  # share of the items reserved at random, and of the queue that they make up, unmarked
    suggestions: bool = False  # show what the model thinks, on a random half of the items
    lease_seconds: float = 300.0
    seed: int = 0
    first_training: int = 10  # labels before the first training
    step: int = 10  # new labels before the next
    check_share: float = 0.1  # doubtful labels put before a second person, of those trained on
    network: str = ""  # for TorchLearner; chosen from the data where it is empty
    recipe: str = ""
    size: int = 32  # images are brought to this many pixels for the model
    hide_names: bool = False  # do not show what an item is called: its name may give the answer away

    def __post_init__(self) -> None:
        if not 0 <= self.control < 1 or not 0 <= self.check_share <= 1:
            raise BadInput(f"control and check_share are shares, 0 to 1; got {self.control!r}, {self.check_share!r}")
        if self.lease_seconds < 5:
            raise BadInput(f"lease_seconds must be at least 5, got {self.lease_seconds!r}")
        if self.first_training < 2 or self.step < 1 or self.size < 8:
            raise BadInput(
                "first_training must be at least 2, step 1 and size 8; "
                f"got {self.first_training}, {self.step} and {self.size}"
            )


@dataclass(frozen=True)
class Project:
    """What is labelled, and how things stand."""

    name: str
    kind: str
    created: float
    epoch: int
    guideline: int
    votes: int
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class NewItem:
    """Something to be labelled: its permanent name, and its text where it is one."""

    name: str
    text: str | None = None


def create(
    store: Store,
    name: str,
    kind: str,
    classes: Sequence[str],
    items: Iterable[NewItem],
    *,
    votes: int = 1,
    settings: Settings | None = None,
    guideline: str = "",
) -> None:
    """A new project in an empty store; its items get their first order by the lottery of their names."""
    check_known("kind of project", kind, KINDS)
    check_votes(votes)
    check_guideline(guideline)
    names = check_classes(classes)
    rules = settings or Settings()
    now = store.clock.now()

    def begin(conn: Connection) -> None:
        if conn.execute(select(schema.project.c.id)).first():
            raise BadInput("there is a project in this database already; resume it, or choose another folder")
        conn.execute(
            insert(schema.project).values(
                id=1,
                name=name,
                kind=kind,
                created=now,
                epoch=schema.BASE,
                guideline=1,
                votes=votes,
                settings=json.dumps(asdict(rules)),
            )
        )
        conn.execute(insert(schema.guideline).values(version=1, text=guideline, written=now))
        conn.execute(
            insert(schema.label_class), [{"number": at, "name": name, "about": ""} for at, name in enumerate(names)]
        )
        conn.execute(insert(schema.worker).values(id=1, state="waiting", message="", beat=now))
        conn.execute(insert(schema.counter), [{"name": "items", "value": 0}, {"name": "closed", "value": 0}])

    store.write(begin)
    add_items(store, items)


def add_items(store: Store, items: Iterable[NewItem]) -> int:
    """Append items that are not there yet; how many were new. They join the first order behind what is in it."""
    added = 0
    for batch in batches(items, BATCH):
        added += store.write(lambda conn, batch=batch: _insert(conn, batch))  # type: ignore[misc]
    if added:
        _tidy(store)
    return added


def load(conn: Connection) -> Project:
    """The project of this store."""
    row = conn.execute(_PROJECT).first()
    if row is None:
        raise BadInput("this database holds no project yet; start one with: ncalr label FOLDER --classes a,b")
    return as_project(row)


def as_project(row: Any) -> Project:
    """A row of the project's table."""
    return Project(row.name, row.kind, row.created, row.epoch, row.guideline, row.votes, parse_settings(row.settings))


def classes(conn: Connection) -> list[str]:
    """The names of the classes, by number."""
    return list(conn.execute(select(schema.label_class.c.name).order_by(schema.label_class.c.number)).scalars())


def counters(conn: Connection) -> dict[str, int]:
    """How many: `items`, `closed`, `answers`, `status:disputed`, `class:3`, kept up to date with every answer."""
    return {row.name: row.value for row in conn.execute(select(schema.counter))}


def add_class(conn: Connection, name: str) -> int:
    """One more class; numbers never change."""
    known = classes(conn)
    *_, cleaned = check_classes([*known, name])
    conn.execute(insert(schema.label_class).values(number=len(known), name=cleaned, about=""))
    return len(known)


def change_settings(conn: Connection, **changes: Any) -> Settings:
    """Other rules from now on."""
    known = {entry.name for entry in fields(Settings)}
    for name in changes:
        check_known("setting", name, known)
    settings = Settings(**{**asdict(load(conn).settings), **changes})
    conn.execute(update(schema.project).values(settings=json.dumps(asdict(settings))))
    return settings


def write_guideline(conn: Connection, now: float, text: str) -> int:
    """A new version of the guidelines; every answer is stored with the version it was given under."""
    check_guideline(text)
    version = int(conn.execute(select(func.max(schema.guideline.c.version))).scalar() or 0) + 1
    conn.execute(insert(schema.guideline).values(version=version, text=text, written=now))
    conn.execute(update(schema.project).values(guideline=version))
    return version


def guideline(conn: Connection) -> str:
    """The guidelines as they are now."""
    newest = select(schema.guideline.c.text).order_by(schema.guideline.c.version.desc()).limit(1)
    return str(conn.execute(newest).scalar() or "")


def check_classes(names: Sequence[str]) -> list[str]:
    """Two classes or more, each named once."""
    cleaned = [" ".join(str(name).split()) for name in names]
    if not 2 <= len(cleaned) <= CLASS_LIMIT:
        raise BadInput(f"a project has 2 to {CLASS_LIMIT} classes, got {len(cleaned)}; write --classes cat,dog,bird")
    strange = [name for name in cleaned if not name or len(name) > 200 or not name.isprintable()]
    if strange:
        raise BadInput(f"a class has a name of 1 to 200 visible characters, got {strange[0]!r}")
    twice = [name for at, name in enumerate(cleaned) if name.casefold() in {n.casefold() for n in cleaned[:at]}]
    if twice:
        raise BadInput(f"the class {twice[0]!r} is there twice")
    return cleaned


def check_guideline(text: str) -> None:
    """Guidelines that can be shown."""
    if len(text) > 100_000:
        raise BadInput(f"guidelines have at most 100,000 characters, got {len(text):,}")
    if "\0" in text:
        raise BadInput("guidelines are text, and these have a NUL in them; is it another kind of file?")


def check_votes(votes: int) -> None:
    """How many people may be asked about one item."""
    if not 1 <= votes <= 50:
        raise BadInput(f"votes must be 1 to 50, got {votes!r}")


def _tidy(store: Store) -> None:
    """PostgreSQL plans by what it last counted, and tidies up after many new rows while people work: both now."""
    if store.engine.dialect.name == "postgresql":
        with store.engine.connect() as conn:
            conn.execution_options(isolation_level="AUTOCOMMIT")
            for table in (schema.item, schema.ranking):
                conn.exec_driver_sql(f"VACUUM (ANALYZE) {table.name}")


def _insert(conn: Connection, batch: list[NewItem]) -> int:
    there = set(conn.execute(_THERE, {"names": [entry.name for entry in batch]}).scalars())
    fresh = list({entry.name: entry for entry in batch if entry.name not in there}.values())
    if not fresh:
        return 0
    start = 1 + int(conn.execute(select(func.max(schema.item.c.id))).scalar() or 0)
    items = [(start + at, secrets.token_urlsafe(16), entry.name, entry.text) for at, entry in enumerate(fresh)]
    fill(conn, schema.item, ("id", "key", "name", "text"), items)
    draws = Lottery([load(conn).settings.seed, 1], np.array([entry.name for entry in fresh])).uniform()
    # the rank is the draw itself, so that batches that come later are shuffled among those before
    ranks = [
        (schema.BASE, (int(draw * 2**40) << 22) + start + at, start + at, "random", 0.0)
        for at, draw in enumerate(draws.tolist())
    ]
    fill(conn, schema.ranking, ("epoch", "rank", "item_id", "arm", "probability"), ranks)
    table = schema.counter
    conn.execute(update(table).where(table.c.name == "items").values(value=table.c.value + len(fresh)))
    return len(fresh)


@lru_cache(maxsize=16)
def parse_settings(text: str) -> Settings:
    """Settings as they are stored; those of another version are left out."""
    known = {entry.name for entry in fields(Settings)}
    return Settings(**{name: value for name, value in json.loads(text).items() if name in known})


_THERE = select(schema.item.c.name).where(schema.item.c.name.in_(bindparam("names", expanding=True)))
_PROJECT = select(schema.project)
