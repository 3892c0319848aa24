"""The trained model of a project: the latest one is kept in its folder, can be taken out, and says what items are.

photos.ncalr/model/
  current          the name of the folder that holds
  7-1f0c9a3e/      the model of the seventh order: arrays and JSON, no pickle; `about.json` says how it is read

A model is written whole under a name of its own, then `current` is replaced in one step. The one before stays until the
next is kept, for those who are reading it: at any moment there is a whole model. From Python:

    kept = models.load("my-model")                       # what `ncalr labels model` wrote, or a folder of the above
    kept.classes, kept.probabilities(kept.read_pictures("more-photos"))
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, select

from ncalr.data.files import sync_folder, write_whole
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.received import inside, read_object, reading
from ncalr.data.words import FILE as WORDS
from ncalr.data.words import Words
from ncalr.errors import BadInput
from ncalr.evaluate.calibration import probabilities
from ncalr.extras import installed
from ncalr.learn.learner import Learner, Model
from ncalr.learn.recipes import HEAD
from ncalr.learn.sklearn_learner import vectors
from ncalr.web import sources
from ncalr.web.folder import Folder, Source
from ncalr.web.store import Store, projects, schema
from ncalr.web.store.projects import Settings

Found = TypeVar("Found")

BLOCK = 4096  # items that are read and predicted at a time
TRIES = 3  # to read a model while a worker replaces it
OWN = "a learner of your own"
FREEDOM = 100.0
"""Of the linear model, over the mean square distance of its vectors from their middle: so the unit they are measured in
is all the same. Vectors of length 1 (words, most embeddings) at C = 1 are hardly learnt from: docs/log.md."""

SAMPLE = 2000
DECIDED = ("labelled", "none", "broken")
"""What became of items that need no prediction."""


@dataclass(frozen=True)
class Choice:
    """What learns: a network by name with its recipe; or, without a name, a linear model of some freedom."""

    network: str = ""
    recipe: str = ""
    freedom: float = 1.0  # C of the logistic regression

    @classmethod
    def of(cls, rules: Settings, pool: Pool, embedded: bool = False) -> Choice:
        """A network for images and for embeddings, where torch is installed; else a linear model on vectors or pixels.

        A linear model has no terminal phase: it converges at once, so FF is 0, and CMAP alone chose worse than the
        lottery on four of five sets of embeddings (docs/log.md). On words that made no difference that could be told.
        """
        images = len(pool.shape) == 3
        if (images or embedded or rules.network) and installed("torch"):
            usual = ("resnet8", "digits") if images else HEAD
            return cls(rules.network or usual[0], rules.recipe or usual[1])
        return cls(freedom=FREEDOM / max(_spread(pool), 1e-12))

    def learner(self) -> Learner:
        """The learner itself."""
        if self.network == OWN:
            raise BadInput("the model was trained by a learner of your own: load it with that learner's load(FOLDER)")
        if self.network:
            from ncalr.learn import TorchLearner

            return TorchLearner(self.network, self.recipe, progress=False)
        from sklearn.linear_model import LogisticRegression

        from ncalr.learn.sklearn_learner import SklearnLearner

        return SklearnLearner(LogisticRegression(C=self.freedom, max_iter=200))


@dataclass(frozen=True)
class About:
    """What it takes to use a model: its classes, what learnt it, and how items become what it reads."""

    epoch: int
    labels: int
    classes: list[str]
    choice: Choice
    size: int  # pixels a side, for pictures
    embeddings: str = ""  # the file that it reads in the place of pictures or texts


@dataclass(frozen=True)
class Kept:
    """A model that was kept."""

    about: About
    model: Model
    words: Words | None = None

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of the columns."""
        return self.about.classes

    def probabilities(self, pool: Pool) -> Any:
        """How likely each class is (n, c), for items as the model reads them."""
        outputs = self.model.predict(pool)
        return probabilities(outputs) if self.about.choice.network else outputs

    def read_pictures(self, folder: Path | str) -> ArrayPool:
        """The pictures of another folder as the model reads them, by name; those that cannot be read are left out."""
        source = Source(str(folder), "image")
        names = [item.name for item in sources.take_stock(source).items]
        found = sources.vectors(source, range(len(names)), names, [None] * len(names), self.about.size)
        return ArrayPool(found.read(slice(None)), np.array(names)[found.ids])

    def read_texts(self, texts: Sequence[str]) -> ArrayPool:
        """Other texts, by the words that the model knows."""
        if self.words is None:
            raise BadInput("this model reads no texts; give it pictures or embeddings, as it was trained on")
        return ArrayPool(self.words(texts))


def keep(folder: Folder, model: Model, about: About, words: Words | None = None) -> Path:
    """Make this the model of the project; where it is."""
    root = folder.path / "model"
    place = root / f"{about.epoch}-{secrets.token_hex(4)}"
    before = _named(folder)
    try:
        place.mkdir(parents=True)
        model.save(place)
        if words is not None:
            words.save(place)
        write_whole(place / "about.json", json.dumps(asdict(about), indent=1))
        _sync(place)
        write_whole(root / "current", place.name)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    for other in root.iterdir():  # older ones, and what a worker left that was killed while it wrote
        if other.is_dir() and other not in (place, before):
            shutil.rmtree(other, ignore_errors=True)
    return place


def current(folder: Folder) -> Path:
    """Where the project's model is."""
    place = _named(folder)
    if place is not None:
        return place
    raise BadInput(
        f"{folder.path} has no trained model yet: the first is made when there are labels enough of two classes (the "
        "foot of the page says how many are missing), by a server that is not started with --no-training"
    )


def load(place: Path | str) -> Kept:
    """The model in a folder: one that was taken out, or the one of a project."""
    place = Path(place)
    about = _about(place)
    return Kept(about, about.choice.learner().load(place), Words.load(place) if (place / WORDS).exists() else None)


def latest(folder: Folder) -> Kept:
    """The project's model, also while a worker puts another in its place."""
    return _steadily(folder, load)


def take_out(folder: Folder, out: Path) -> About:
    """Copy the project's model into a new folder."""
    if out.exists():
        raise BadInput(f"{out} is there already; name a folder that is not")
    part = out.with_name(out.name + ".part")

    def copy(place: Path) -> None:
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(place, part)

    try:
        _steadily(folder, copy)
        part.rename(out)
    except OSError as error:
        raise BadInput(f"{out} cannot be written ({_why(error)}); name a folder that can be made") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return _about(out)


def pack(folder: Folder, target: Any) -> None:
    """The project's model as a zip file, into a binary file."""

    def write(place: Path) -> None:
        target.seek(0)
        target.truncate()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(place.iterdir()):
                out.write(path, f"model/{path.name}")

    _steadily(folder, write)


@dataclass(frozen=True)
class Guess:
    """What the model says of an item, and what people said."""

    name: str
    label: str | None
    guess: str
    probability: float


@dataclass
class Guesses:
    """The model's word on the items of a project, block after block; `unread` are those that could not be read."""

    kept: Kept
    folder: Folder
    store: Store
    everything: bool = False
    unread: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Guess]:
        source, names = self._source(), self.kept.classes
        last = 0
        while rows := self.store.read(lambda conn, last=last: _items(conn, last, self.everything)):  # type: ignore[misc]
            last = rows[-1].id
            known = self.store.read(projects.classes)  # read after the rows: there may be more than the model knows
            try:
                pool = sources.vectors(
                    source,
                    [row.id for row in rows],
                    [row.name for row in rows],
                    [row.text for row in rows],
                    self.kept.about.size,
                    self.kept.words,
                )
            except sources.NothingToRead:
                self.unread += [row.name for row in rows]
                continue
            sure = dict(zip(pool.ids.tolist(), self.kept.probabilities(pool), strict=True))
            for row in rows:
                if row.id not in sure:
                    self.unread.append(row.name)
                    continue
                best = int(sure[row.id].argmax())
                label = known[row.answer] if row.status == "labelled" else None
                yield Guess(row.name, label, names[best], float(sure[row.id][best]))

    def _source(self) -> Source:
        """Where the items are, read in the way the model was trained on."""
        source, read = self.folder.source(), self.kept.about.embeddings
        if source.embeddings != read:
            now, then = source.embeddings or "the items themselves", read or "the items themselves"
            raise BadInput(
                f"the model was trained on {then}, and the project now reads {now}: label on until it is trained anew"
            )
        return source


def _spread(pool: Pool) -> float:
    """The mean square distance of vectors from their middle, over some of them."""
    some = np.unique(np.linspace(0, len(pool) - 1, min(SAMPLE, len(pool))).astype(np.intp))
    rows = vectors(pool, some).astype(np.float64)
    return float(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


def _named(folder: Folder) -> Path | None:
    """The folder that `current` names; None where there is none yet."""
    pointer = folder.path / "model" / "current"
    with suppress(OSError):
        return inside(pointer.parent, pointer.read_text(encoding="utf-8").strip(), "model")
    return None


def _steadily(folder: Folder, read: Callable[[Path], Found]) -> Found:
    """What `read` makes of the project's model; started over where another has taken its place meanwhile."""
    for _ in range(TRIES):
        place = current(folder)
        try:
            found = read(place)
        except (OSError, BadInput):
            if current(folder) == place:
                raise
            continue
        if current(folder) == place:
            return found
    raise BadInput(f"the model of {folder.path} was replaced {TRIES} times while it was read; try again")


def _sync(place: Path) -> None:
    """Wait until the files of a folder, and their names, are on the disk."""
    for path in place.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(place)
    sync_folder(place.parent)


def _why(error: OSError) -> str:
    """What went wrong; of a folder that was being copied, with the first of its files."""
    return error.args[0][0][2] if isinstance(error, shutil.Error) else str(error.strerror)


def _about(place: Path) -> About:
    path = place / "about.json"
    facts = read_object(path, "expected the model of a labelling project")
    with reading(path, "a model of a labelling project", "train it again"):
        return About(**{**facts, "choice": Choice(**facts["choice"])})


def _items(conn: Connection, after: int, everything: bool) -> Sequence[Any]:
    """The next items, in the order of their rows: those that people have not decided, or all."""
    item, state = schema.item, schema.state
    rows = select(item.c.id, item.c.name, item.c.text, state.c.status, state.c.answer).select_from(
        item.join(state, state.c.item_id == item.c.id, isouter=True)
    )
    if not everything:
        rows = rows.where(state.c.status.is_(None) | state.c.status.not_in(DECIDED))
    return conn.execute(rows.where(item.c.id > after).order_by(item.c.id).limit(BLOCK)).all()
