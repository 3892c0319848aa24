"""A project is begun, or gone on with: everything that was said is looked at before anything is made or changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from ncalr.acquire.rehearsal import rehearsed
from ncalr.data.tables import TEXT_COLUMNS, columns_of
from ncalr.data.words import WIDTH
from ncalr.errors import BadInput
from ncalr.extras import check_installed
from ncalr.web import exchange, sources
from ncalr.web.folder import Folder, Source
from ncalr.web.sources import Stock
from ncalr.web.store import Store, answers, projects, schema
from ncalr.web.store.projects import NewItem, Settings

RULES = {"first": "first_training"}
"""Options whose setting is called otherwise."""

SETTINGS = ("strategy", "control", "suggestions", "first", "step", "network", "recipe", "size", "hide_names")
FIXED = {
    "seed": "it decided the first order when the project was made; start a new project for another",
    "database": "take the project there with: ncalr labels move PROJECT URL",
    "text_column": "the texts were read when the project was made; start a new project for others",
    "id_column": "the items were named when the project was made; start a new project for other names",
}
"""Options that cannot be changed any more, and what to do instead."""


@dataclass(frozen=True)
class Change:
    """What going on with a project comes to, checked and not yet done."""

    source: Source
    settings: dict[str, Any]
    votes: int | None
    words: str | None
    classes: list[str]
    items: list[NewItem]


def begin(
    folder: Folder,
    source: Source,
    classes: list[str],
    rules: Settings,
    *,
    votes: int = 1,
    words: str = "",
    database: str = "",
    unsafe: bool = False,
) -> tuple[Store, Stock]:
    """A new project; one that cannot be made whole leaves nothing behind."""
    names = projects.check_classes(classes)
    projects.check_votes(votes)
    projects.check_guideline(words)
    stock = sources.take_stock(source)
    check_rules(rules, source, len(stock.items), len(names))
    with folder.being_made():
        folder.create(source, database)
        store = folder.open(unsafe)
        try:
            title = Path(source.path).stem
            projects.create(store, title, source.kind, names, stock.items, votes=votes, settings=rules, guideline=words)
        except BaseException:
            store.close()
            raise
    return store, stock


def is_begun(store: Store) -> bool:
    """Whether there is a project in the store; a first start that was cut short leaves none."""
    return store.read(lambda conn: conn.execute(select(schema.project.c.id)).first()) is not None


def go_on(folder: Folder, store: Store, path: Path | None, given: Mapping[str, Any], add: bool = False) -> list[str]:
    """Go on with a project; sentences about what was changed and what was noticed.

    `path` is where its items are said to be, None where nothing was said; `given` are the other options that were
    named. What cannot be changed any more is refused by name, and then nothing is changed.
    """
    project, names = store.read(lambda conn: (projects.load(conn), projects.classes(conn)))
    _refuse_fixed(folder, project.settings, given)
    source = _source(folder, path, given)
    stock, fresh, told = _look(folder, store, source, project.created, add)
    settings = {RULES.get(name, name): given[name] for name in SETTINGS if name in given}
    rules = Settings(**{**asdict(project.settings), **settings})
    classes = _new_classes(names, given.get("classes"))
    count = store.read(projects.counters)["items"] + (len(fresh) if add else 0)
    if settings or source.embeddings:
        check_rules(rules, source, count, len(names) + len(classes))
    votes = given.get("votes")
    if votes is not None:
        projects.check_votes(votes)
    _apply(folder, store, Change(source, settings, votes, given.get("words"), classes, fresh if add else []))
    if add and stock is not None:
        told.append(f"{_many(fresh)} added")
    return told


def about_labels(source: Source, project: Path) -> str:
    """A sentence about labels that a table of texts has already, and that are not read; nothing where it has none."""
    path = Path(source.path)
    columns = [] if source.kind == "image" else columns_of(path)
    found = next((name for name in ("label", "labels") if name in columns and name != source.text_column), "")
    if not found:
        return ""
    named = source.id_column in exchange.NAMES or source.text_column in TEXT_COLUMNS
    text = next((name for name in TEXT_COLUMNS if name in columns), source.text_column)  # as an import reads it
    ready = found == "label" and named and text == source.text_column and exchange.form_of(path) is not None
    file = str(path) if ready else "FILE"
    before = "" if ready else "bring them into a table with the columns id and label, and "
    line = shlex.join(["ncalr", "labels", "import", str(project), file])
    return f"the column {found!r} of {path.name} is not read. To take its labels in: {before}{line}"


def check_rules(rules: Settings, source: Source, items: int, classes: int) -> None:
    """Whether the strategy, the network, the recipe and the embeddings are there and fit the items."""
    rehearsed(rules.strategy)
    shape: tuple[int, ...] = (rules.size, rules.size, 3) if source.kind == "image" else (WIDTH,)
    if source.embeddings:
        shape = (sources.check_embeddings(Path(source.embeddings), items),)
    if not rules.network and not rules.recipe:
        return
    check_installed("torch", "torch", "--network or --recipe")
    from ncalr.learn.nets import network
    from ncalr.learn.nets.external import is_external
    from ncalr.learn.recipes import recipe

    if rules.network and not is_external(rules.network):  # others are fetched when they are trained
        network(rules.network, classes, shape)
    if rules.recipe:
        recipe(rules.recipe)


def _refuse_fixed(folder: Folder, rules: Settings, given: Mapping[str, Any]) -> None:
    source = folder.source()
    there = {
        "seed": rules.seed,
        "database": folder.url(),
        "text_column": source.text_column,
        "id_column": source.id_column,
    }
    for name, why in FIXED.items():
        if name in given and given[name] != there[name]:
            raise BadInput(f"--{name.replace('_', '-')} {given[name]} cannot be changed in {folder.path}: {why}")


def _source(folder: Folder, path: Path | None, given: Mapping[str, Any]) -> Source:
    """Where the items are, by what was said and what is known."""
    known = folder.source()
    embeddings = str(given.get("embeddings", known.embeddings))
    if path is None or str(path.resolve()) == known.path:
        return replace(known, embeddings=embeddings)
    found = sources.find(path, known.text_column, known.id_column, embeddings)
    if found.kind != known.kind:
        raise BadInput(f"{folder.path} labels {known.kind}s of {known.path}, and {path} holds {found.kind}s")
    return found


def _look(
    folder: Folder, store: Store, source: Source, created: float, add: bool
) -> tuple[Stock | None, list[NewItem], list[str]]:
    """What is at the source now, what of it is new, and what there is to say about it."""
    moved = source.path != folder.source().path
    place = Path(source.path)
    if not place.exists():
        if source.kind == "text" and not moved:  # the texts are in the database
            return None, [], []
        raise BadInput(
            f"the pictures of {folder.path} were in {place}, which is not there; say where they are now: "
            f"ncalr label FOLDER --resume --project {folder.path}"
        )
    if source.kind == "text" and not (moved or add) and place.stat().st_mtime <= created:
        return None, [], []
    stock = sources.take_stock(source)
    known = set(store.read(_names))
    there = {item.name for item in stock.items}
    gone = sorted(known - there)
    if moved and 2 * len(gone) > len(known):
        raise BadInput(
            f"{len(gone):,} of the {len(known):,} items of {folder.path} are not in {place}, the first is {gone[0]!r}: "
            f"it is another source. They were in {folder.source().path}"
        )
    fresh = [item for item in stock.items if item.name not in known]
    told = [f"the items are in {place} from now on"] if moved else []
    if gone:
        told.append(f"not in {place} any more: {_many(gone)} of the project, the first is {gone[0]!r}")
    if fresh and not add:
        told.append(
            f"not in the project: {_many(fresh)} in {place}, the first is {fresh[0].name!r}; --add takes them in"
        )
    return stock, fresh, told


def _new_classes(names: list[str], given: Iterable[str] | None) -> list[str]:
    """Classes that were named and are not there yet; numbers never change, so none is taken away."""
    if given is None:
        return []
    wanted = projects.check_classes(list(given))
    left_out = [name for name in names if name not in wanted]
    if left_out:
        raise BadInput(
            f"--classes leaves out {', '.join(left_out)}: classes can be added to a project and not removed. "
            "Name all of them, and the new ones after"
        )
    return [name for name in wanted if name not in names]


def _apply(folder: Folder, store: Store, change: Change) -> None:
    now = store.clock.now()

    def write(conn: Connection) -> None:
        if change.settings:
            projects.change_settings(conn, **change.settings)
        if change.votes is not None and change.votes != projects.load(conn).votes:
            answers.change_votes(conn, change.votes)
        if change.words is not None and change.words != projects.guideline(conn):
            projects.write_guideline(conn, now, change.words)
        for name in change.classes:
            projects.add_class(conn, name)

    store.write(write)
    if change.items:
        projects.add_items(store, change.items)
    if change.source != folder.source():
        folder.create(change.source, folder.url())


def _many(items: Sequence[Any]) -> str:
    return f"{len(items):,} item{'' if len(items) == 1 else 's'}"


def _names(conn: Connection) -> list[str]:
    return list(conn.execute(select(schema.item.c.name)).scalars())
