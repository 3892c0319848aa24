"""A labelling project on disk: a folder with the database, the secret, the journal and the cache.

photos.ncalr/
  project.json     what is labelled and where the database is (0600: a database URL may hold a password)
  secret           256 random bits, this installation's own (0600)
  labels.db        SQLite, unless project.json names a PostgreSQL
  journal.jsonl    the rounds, in the format of every other run of ncalr
  server.lock      held by the server that trains (`ncalr.web.serve.alone`)
  lock             held by whoever trains at this moment, as in every other run
  model/           the last model (`ncalr.web.models`)
  cache/           pictures as they were shown
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncalr.data.fields import check_fields, dict_of, is_text
from ncalr.data.received import read_object, reading
from ncalr.errors import BadInput
from ncalr.web.store import Store, open_store

_ADVICE = "put it back from a copy of the folder"


@dataclass(frozen=True)
class Source:
    """Where the items are: a folder of images, or a table with a column of texts; and embeddings, where there are."""

    path: str
    kind: str
    text_column: str = ""
    id_column: str = ""
    embeddings: str = ""


@dataclass(frozen=True)
class Folder:
    """The folder of a project."""

    path: Path

    @classmethod
    def beside(cls, source: Path) -> Folder:
        """The usual place: next to the data, under its name; with its ending where something else has that place."""
        source = source.resolve()
        usual = cls(source.with_name((source.name if source.is_dir() else source.stem) + ".ncalr"))
        return cls(source.with_name(f"{source.name}.ncalr")) if usual._of_another(source) else usual

    @property
    def exists(self) -> bool:
        """Whether a project is here."""
        return (self.path / "project.json").is_file()

    def create(self, source: Source, database: str = "") -> None:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(
            self.path / "project.json", json.dumps({"source": asdict(source), "database": database}, indent=1)
        )

    @contextmanager
    def being_made(self) -> Iterator[None]:
        """Whatever is made in here is removed again where it fails; what was there before stays."""
        made = [self.path / name for name in ("project.json", "labels.db", "labels.db-wal", "labels.db-shm")]
        fresh = [path for path in made if not path.exists()]
        try:
            yield
        except BaseException:
            for path in fresh:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # it is not empty: it was somebody's
                self.path.rmdir()
            raise

    def source(self) -> Source:
        """Where the items are."""
        facts = self._facts()
        with reading(self.path / "project.json", "a labelling project", _ADVICE):
            return Source(**facts["source"])

    def url(self) -> str:
        """The URL of the database, where it is not the file in this folder."""
        return str(self._facts()["database"])

    def database(self) -> str:
        """The URL or the file of the database."""
        return self.url() or str(self.path / "labels.db")

    def open(self, unsafe: bool = False) -> Store:
        """The store."""
        if not self.exists:
            raise BadInput(f"{self.path} holds no labelling project; start one with: ncalr label DATA --classes a,b")
        return open_store(self.database(), unsafe=unsafe)

    def secret(self) -> bytes:
        """This project's secret, made at the first start; one that others can read is refused."""
        path = self.path / "secret"
        if not path.exists():
            write_private(path, secrets.token_hex(32))
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise BadInput(
                f"{path} can be read by others (mode {mode:o}): it tells a change asked for by our page from one of "
                "another site. Remove it, and a new one is made; pages that are open are then loaded anew"
            )
        with reading(path, "a secret", "remove it, and a new one is made"):
            return bytes.fromhex(path.read_text(encoding="utf-8"))

    def _of_another(self, source: Path) -> bool:
        """Whether the project here labels something else that is still there."""
        if not self.exists:
            return False
        known = Path(self.source().path)
        return known != source and known.exists()

    def _facts(self) -> dict[str, Any]:
        path = self.path / "project.json"
        facts = read_object(path, _ADVICE)
        check_fields(facts, {"source": dict_of(is_text), "database": is_text}, str(path), needed=("source", "database"))
        return facts


def write_private(path: Path, content: str) -> None:
    """A file only its owner can read, from its first moment on."""
    part = path.with_name(path.name + ".new")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    part.write_text(content, encoding="utf-8")
    part.replace(path)
