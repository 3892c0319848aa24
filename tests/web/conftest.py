"""Stores on both databases, with a clock that stands until it is moved."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra web is not installed")

from chromium import Site, chromium
from office import Office, StoppedClock
from postgres import Cluster

_numbers = itertools.count()
os.environ["NCALR_TRAINING_PRIORITY"] = "low"  # tests run side by side, and no core is ever idle


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    with tempfile.TemporaryDirectory(prefix="ncalr-pg-") as folder:
        found = Cluster(Path(folder))
        yield found
        found.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return request.getfixturevalue("cluster").database(f"test_{next(_numbers)}")


@pytest.fixture
def clock():
    return StoppedClock()


@pytest.fixture
def office(url, clock):
    """An empty store on each database."""
    made = Office(url, clock)
    yield made
    made.store.close()


@pytest.fixture
def small(tmp_path, clock):
    """The same on SQLite alone, for what does not depend on the database."""
    made = Office(str(tmp_path / "store.db"), clock)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def site(tmp_path):
    """A server in this process, for the browser."""
    made = Site(tmp_path)
    yield made
    made.stop()
