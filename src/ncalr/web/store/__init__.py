"""What people said, kept so that nothing acknowledged is ever lost: SQLite by default, PostgreSQL by URL."""

from ncalr.web.store.database import Store, open_store

__all__ = ["Store", "open_store"]
