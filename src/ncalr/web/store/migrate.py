"""Bringing a database to the schema this code knows, with a copy of it first; a newer one is left alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from ncalr.errors import NcalrError

SCRIPTS = Path(__file__).parent / "migrations"


class NewerDatabase(NcalrError):
    """The database was made by a newer ncalr."""


def upgrade(engine: Engine) -> None:
    """Make the tables, or change those of an older version; a SQLite file is copied before it is changed."""
    from alembic import command

    now, newest, known = versions(engine)
    if now == newest:
        return
    if now is not None and now not in known:
        raise NewerDatabase(
            f"the database has schema {now}, which this ncalr does not know (its newest is {newest}); nothing was "
            "touched. Install the newer ncalr it was made with"
        )
    if now is not None:
        _keep_copy(engine, now)
    with engine.begin() as connection:
        command.upgrade(_config(connection), "head")


def downgrade(engine: Engine, to: str) -> None:
    """Back to an older schema."""
    from alembic import command

    with engine.begin() as connection:
        command.downgrade(_config(connection), to)


def versions(engine: Engine) -> tuple[str | None, str, set[str]]:
    """The schema the database has, the newest there is, and all that are known."""
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(SCRIPTS))
    with engine.connect() as connection:
        now = MigrationContext.configure(connection).get_current_revision()
    return now, str(scripts.get_current_head()), {script.revision for script in scripts.walk_revisions()}


def _config(connection: Any) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _keep_copy(engine: Engine, version: str) -> None:
    if engine.dialect.name != "sqlite":
        return
    from ncalr.web.store.copying import copy_sqlite

    source = Path(str(engine.url.database))
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    copy_sqlite(engine, source.with_name(f"{source.stem}.before-{version}-{stamp}.db"))
