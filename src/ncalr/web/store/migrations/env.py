"""How alembic runs our migrations: on the connection it is given, inside its transaction."""

from alembic import context

from ncalr.web.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
