"""The first schema."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Integer, String, Text, text

revision = "0001"
down_revision = None

APPEND_ONLY = {
    "sqlite": (
        "CREATE TRIGGER event_no_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END",
        "CREATE TRIGGER event_no_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION event_append_only() RETURNS trigger AS "
        "$$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER event_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON event "
        "FOR EACH STATEMENT EXECUTE FUNCTION event_append_only()",
    ),
}


TABLES = [
    "project",
    "label_class",
    "guideline",
    "item",
    "person",
    "ranking",
    "lease",
    "event",
    "vote",
    "state",
    "counter",
    "cursor",
    "review",
    "model",
    "worker",
    "token",
    "session",
]


def upgrade() -> None:
    op.create_table(
        "project",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("name", Text, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("created", Float(53), nullable=False),
        Column("epoch", Integer, nullable=False),
        Column("guideline", Integer, nullable=False),
        Column("votes", Integer, nullable=False),
        Column("settings", Text, nullable=False),
    )
    op.create_table(
        "label_class",
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("name", Text, nullable=False, unique=True),
        Column("about", Text, nullable=False),
    )
    op.create_table(
        "guideline",
        Column("version", Integer, primary_key=True, autoincrement=False),
        Column("text", Text, nullable=False),
        Column("written", Float(53), nullable=False),
    )
    op.create_table(
        "item",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("key", String(32), nullable=False, unique=True),
        Column("name", Text, nullable=False, unique=True),
        Column("text", Text),
    )
    op.create_table(
        "person",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("key", String(32), nullable=False, unique=True),
        Column("name", Text, nullable=False, unique=True),
        Column("role", String(16), nullable=False),
        Column("created", Float(53), nullable=False),
        Column("active", Boolean, nullable=False),
    )
    op.create_table(
        "ranking",
        Column("epoch", Integer, primary_key=True, autoincrement=False),
        Column("rank", BigInteger, primary_key=True, autoincrement=False),
        Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
        Column("arm", String(16), nullable=False),
        Column("score", Float(53)),
        Column("probability", Float(53), nullable=False),
        Column("predicted", Integer),
        Column("why", Text),
    )
    op.create_index("ranking_item", "ranking", ["item_id"])
    op.create_table(
        "lease",
        Column("token", String(36), primary_key=True),
        Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
        Column("person_id", Integer, ForeignKey("person.id"), nullable=False),
        Column("tab", String(36), nullable=False),
        Column("purpose", String(16), nullable=False),
        Column("status", String(16), nullable=False),
        Column("granted", Float(53), nullable=False),
        Column("expires", Float(53), nullable=False),
        Column("epoch", Integer, nullable=False),
        Column("rank", BigInteger, nullable=False),
        Column("arm", String(16), nullable=False),
        Column("score", Float(53)),
        Column("probability", Float(53), nullable=False),
        Column("predicted", Integer),
        Column("suggested", Boolean, nullable=False),
        Column("why", Text),
        Column("review_id", Integer),
    )
    op.create_index(
        "lease_item",
        "lease",
        ["item_id"],
        sqlite_where=text("status = 'held'"),
        postgresql_where=text("status = 'held'"),
    )
    op.create_index(
        "lease_person",
        "lease",
        ["person_id"],
        sqlite_where=text("status = 'held'"),
        postgresql_where=text("status = 'held'"),
    )
    op.create_index(
        "lease_expires",
        "lease",
        ["expires"],
        sqlite_where=text("status = 'held'"),
        postgresql_where=text("status = 'held'"),
    )
    op.create_table(
        "event",
        Column("seq", Integer, primary_key=True, autoincrement=False),
        Column("id", String(36), nullable=False, unique=True),
        Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
        Column("person_id", Integer, ForeignKey("person.id"), nullable=False),
        Column("purpose", String(16), nullable=False),
        Column("kind", String(16), nullable=False),
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
        Column("digest", String(64), nullable=False),
        Column("hash", String(64), nullable=False),
    )
    op.create_index("event_person", "event", ["person_id", "seq"])
    op.create_index("event_item", "event", ["item_id", "seq"])
    op.create_index("event_arm", "event", ["arm", "seq"])
    op.create_table(
        "vote",
        Column("item_id", Integer, ForeignKey("item.id"), primary_key=True, autoincrement=False),
        Column("person_id", Integer, ForeignKey("person.id"), primary_key=True, autoincrement=False),
        Column("purpose", String(16), primary_key=True),
        Column("kind", String(16), nullable=False),
        Column("answer", Integer),
        Column("event", String(36), nullable=False),
        Column("seq", Integer, nullable=False),
    )
    op.create_index("vote_person", "vote", ["person_id", "kind", "seq"])
    op.create_table(
        "state",
        Column("item_id", Integer, ForeignKey("item.id"), primary_key=True, autoincrement=False),
        Column("status", String(16), nullable=False),
        Column("answer", Integer),
        Column("confidence", Float(53), nullable=False),
        Column("votes", Integer, nullable=False),
        Column("needed", Integer),
        Column("seq", Integer, nullable=False),
    )
    op.create_index("state_status", "state", ["status", "seq"])
    op.create_table(
        "counter",
        Column("name", String(64), primary_key=True),
        Column("value", Integer, nullable=False),
    )
    op.create_table(
        "cursor",
        Column("person_id", Integer, ForeignKey("person.id"), primary_key=True, autoincrement=False),
        Column("epoch", Integer, primary_key=True, autoincrement=False),
        Column("rank", BigInteger, nullable=False),
    )
    op.create_table(
        "review",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("item_id", Integer, ForeignKey("item.id"), nullable=False),
        Column("given", Integer, nullable=False),
        Column("doubtful", Boolean, nullable=False),
        Column("suspicion", Float(53), nullable=False),
        Column("suggestion", Integer),
        Column("reason", Text, nullable=False),
        Column("epoch", Integer, nullable=False),
        Column("status", String(16), nullable=False),
    )
    op.create_index("review_status", "review", ["status", "id"])
    op.create_index("review_item", "review", ["item_id"])
    op.create_table(
        "model",
        Column("epoch", Integer, primary_key=True, autoincrement=False),
        Column("labels", Integer, nullable=False),
        Column("seq", Integer, nullable=False),
        Column("began", Float(53), nullable=False),
        Column("ready", Float(53), nullable=False),
        Column("facts", Text, nullable=False),
    )
    op.create_table(
        "worker",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("state", String(16), nullable=False),
        Column("message", Text, nullable=False),
        Column("beat", Float(53), nullable=False),
    )
    op.create_table(
        "token",
        Column("hash", String(64), primary_key=True),
        Column("kind", String(16), nullable=False),
        Column("person_id", Integer, ForeignKey("person.id")),
        Column("role", String(16)),
        Column("created", Float(53), nullable=False),
        Column("expires", Float(53)),
        Column("used", Float(53)),
    )
    op.create_table(
        "session",
        Column("hash", String(64), primary_key=True),
        Column("person_id", Integer, ForeignKey("person.id"), nullable=False),
        Column("created", Float(53), nullable=False),
        Column("seen", Float(53), nullable=False),
        Column("ended", Float(53)),
    )
    op.create_index("session_person", "session", ["person_id"])
    for statement in APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    for name in reversed(TABLES):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION event_append_only()")
