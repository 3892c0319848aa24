"""The tables. One database is one project.

    project, label_class, guideline      what is labelled, and how
    item                                 what there is: a permanent name, an opaque key, a place in the first order
    ranking                              who comes next: (epoch, rank) → item; rows of closed items are taken out
    lease                                who has what on the screen, and why it was chosen
    event                                every answer ever given, appended only, each with the hash of the one before
    vote, state, counter, cursor         what follows from the events, kept up to date in the same transaction
    review                               the second queue: doubtful labels and their matched controls
    model, worker                        what was trained, and how the training process is
    person, token, session               who may come in

Payloads (texts) are in `item` and never in `ranking`: the queue stays narrow at a million items.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)

metadata = MetaData()

BASE = 0
"""The epoch of the first order, drawn at random when the project was made; what no model has ranked comes from it."""

HELD = "held"

project = Table(
    "project",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("kind", String(16), nullable=False),  # image or text
    Column("created", Float(53), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("guideline", Integer, nullable=False),
    Column("votes", Integer, nullable=False),
    Column("settings", Text, nullable=False),  # JSON
)

label_class = Table(
    "label_class",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("about", Text, nullable=False),
)

guideline = Table(
    "guideline",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("written", Float(53), nullable=False),
)

item = Table(
    "item",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("key", String(32), nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
    Column("text", Text),
)

ranking = Table(
    "ranking",
    metadata,
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("rank", BigInteger, primary_key=True, autoincrement=False),
    Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
    Column("arm", String(16), nullable=False),  # random, strategy or control
    Column("score", Float(53)),
    Column("probability", Float(53), nullable=False),
    Column("predicted", Integer),
    Column("why", Text),  # JSON
    Index("ranking_item", "item_id"),
)

lease = Table(
    "lease",
    metadata,
    Column("token", String(36), primary_key=True),
    Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
    Column("person_id", Integer, ForeignKey("person.id"), nullable=False),
    Column("tab", String(36), nullable=False),
    Column("purpose", String(16), nullable=False),
    Column("status", String(16), nullable=False),  # held, answered, released, expired
    Column("granted", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("rank", BigInteger, nullable=False),
    Column("arm", String(16), nullable=False),
    Column("score", Float(53)),
    Column("probability", Float(53), nullable=False),
    Column("predicted", Integer),
    Column("suggested", Boolean, nullable=False),  # whether the prediction was shown
    Column("why", Text),
    Column("review_id", Integer),
    Column("drawn", Boolean, nullable=False, server_default=false()),  # whether a lottery decided that
    Index("lease_item", "item_id", sqlite_where=text("status = 'held'"), postgresql_where=text("status = 'held'")),
    Index("lease_person", "person_id", sqlite_where=text("status = 'held'"), postgresql_where=text("status = 'held'")),
    Index("lease_expires", "expires", sqlite_where=text("status = 'held'"), postgresql_where=text("status = 'held'")),
)

event = Table(
    "event",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("id", String(36), nullable=False, unique=True),
    Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
    Column("person_id", Integer, ForeignKey("person.id"), nullable=False),
    Column("purpose", String(16), nullable=False),  # label, review, adjudicate
    Column("kind", String(16), nullable=False),  # label, none, broken, unsure, skip, undo
    Column("answer", Integer),
    Column("based_on", String(36)),
    Column("lease", String(36)),
    Column("late", Boolean, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("rank", BigInteger, nullable=False),
    Column("arm", String(16), nullable=False),
    Column("score", Float(53)),
    Column("probability", Float(53)),
    Column("predicted", Integer),
    Column("suggested", Boolean, nullable=False),
    Column("guideline", Integer, nullable=False),
    Column("shown", Float(53)),
    Column("answered", Float(53), nullable=False),
    Column("received", Float(53), nullable=False),
    Column("digest", String(64), nullable=False),  # of what the client sent
    Column("hash", String(64), nullable=False),  # of this row and the hash before it
    Index("event_person", "person_id", "seq"),
    Index("event_item", "item_id", "seq"),
    Index("event_arm", "arm", "seq"),
)

vote = Table(
    "vote",
    metadata,
    Column("item_id", Integer, ForeignKey("item.id"), primary_key=True, autoincrement=False),
    Column("person_id", Integer, ForeignKey("person.id"), primary_key=True, autoincrement=False),
    Column("purpose", String(16), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("answer", Integer),
    Column("event", String(36), nullable=False),
    Column("seq", Integer, nullable=False),
    Index("vote_person", "person_id", "kind", "seq"),
)

state = Table(
    "state",
    metadata,
    Column("item_id", Integer, ForeignKey("item.id"), primary_key=True, autoincrement=False),
    Column("status", String(16), nullable=False),  # open, labelled, none, broken, disputed, unclear
    Column("answer", Integer),
    Column("confidence", Float(53), nullable=False),
    Column("votes", Integer, nullable=False),
    Column("needed", Integer),  # where it is not the project's number of votes
    Column("seq", Integer, nullable=False),
    Index("state_status", "status", "seq"),
)

counter = Table(
    "counter",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Integer, nullable=False),
)

cursor = Table(
    "cursor",
    metadata,
    Column("person_id", Integer, ForeignKey("person.id"), primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("rank", BigInteger, nullable=False),
)

review = Table(
    "review",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
    Column("given", Integer, nullable=False),
    Column("doubtful", Boolean, nullable=False),  # else a matched control
    Column("suspicion", Float(53), nullable=False),
    Column("suggestion", Integer),
    Column("reason", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("status", String(16), nullable=False),  # open, agreed, differed, unsure
    Index("review_status", "status", "id"),
    Index("review_item", "item_id"),
)

model = Table(
    "model",
    metadata,
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("labels", Integer, nullable=False),
    Column("seq", Integer, nullable=False),  # the last event it knows
    Column("began", Float(53), nullable=False),
    Column("ready", Float(53), nullable=False),
    Column("facts", Text, nullable=False),  # JSON
)

worker = Table(
    "worker",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("state", String(16), nullable=False),  # waiting, training, scoring, failed, stopped
    Column("message", Text, nullable=False),
    Column("beat", Float(53), nullable=False),
)

person = Table(
    "person",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("key", String(32), nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", String(16), nullable=False),  # annotator, reviewer, owner
    Column("created", Float(53), nullable=False),
    Column("active", Boolean, nullable=False),
)

token = Table(
    "token",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column(
        "kind", String(16), nullable=False
    ),  # access (for programs), link (enter once), invitation (once, makes a person)
    Column("person_id", Integer, ForeignKey("person.id")),
    Column("role", String(16)),
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53)),
    Column("used", Float(53)),
)

session = Table(
    "session",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("person_id", Integer, ForeignKey("person.id"), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("seen", Float(53), nullable=False),
    Column("ended", Float(53)),
    Index("session_person", "person_id"),
)
