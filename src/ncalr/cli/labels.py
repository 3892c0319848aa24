"""`ncalr labels`: what belongs to a labelling project besides labelling: exports, imports, backups, people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="Exports, imports, backups and people of a labelling project.")
Project = Annotated[Path, typer.Argument(help="The project's folder (DATA.ncalr).")]


@app.command("export")
def export(
    project: Project,
    out: Annotated[
        Path, typer.Argument(help=".csv, .tsv, .jsonl, .parquet, .json (Label Studio), or a new folder, for images.")
    ],
) -> None:
    """Write the labels: every vote, the verdict, how sure it is, and how the item was chosen."""
    from ncalr.errors import BadInput
    from ncalr.web import exchange

    form, endings = exchange.form_of(out), ", ".join(exchange.forms())
    folder, store = _open(project)
    _check_out(folder, store, out, "the export")
    if form is not None:
        print(f"{_write_table(store, form, out):,} items written to {out}")
    elif folder.source().kind == "text":
        raise BadInput(
            f"the export must end in {endings}, got {out.name!r}; a folder is for images, and these are texts"
        )
    elif any(letter.isalpha() for letter in out.suffix):
        raise BadInput(
            f"labels are not written as {out.suffix}; expected {endings}, or a folder, whose name has no ending"
        )
    else:
        _tell(exchange.write_folder(store, Path(folder.source().path), out), out)
    store.close()


@app.command("model")
def model(project: Project, out: Annotated[Path, typer.Argument(help="A new folder.")]) -> None:
    """Take out the trained model: weights (safetensors or .npy), classes and how items are read, no pickle."""
    from ncalr.web import models, worth

    folder, store = _open(project)
    about = models.take_out(folder, out)
    learnt = about.choice.network or "a linear model"
    print(f"{out}: {learnt}, {len(about.classes)} classes, trained on {about.labels:,} labels")
    for word in store.read(worth.told):
        print(f"note: {word}")
    store.close()


@app.command("predict")
def predict(
    project: Project,
    out: Annotated[Path, typer.Argument(help="A .csv file: name, class, probability.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Every item, with the label where there is one; not only those without.")
    ] = False,
) -> None:
    """Let the trained model say what the items are that nobody has labelled."""
    from ncalr.errors import BadInput
    from ncalr.web import exchange, models, worth

    if out.suffix.lower() != ".csv":
        raise BadInput(f"predictions are written as .csv, got {out.name!r}")
    folder, store = _open(project)
    _check_out(folder, store, out, "the predictions")
    kept = models.latest(folder)
    guesses = models.Guesses(kept, folder, store, everything)
    columns = [name for name in exchange.PREDICTIONS if everything or name != "label"]
    rows = ([getattr(guess, "guess" if name == "class" else name) for name in columns] for guess in guesses)
    count = _written_whole(out, rows, lambda found, file: exchange.write_cells(columns, found, file))
    print(f"{count:,} predictions of a model trained on {kept.about.labels:,} labels written to {out}")
    if guesses.unread:
        print(f"{len(guesses.unread):,} pictures could not be read, the first is {guesses.unread[0]!r}")
    for word in store.read(worth.told):
        print(f"note: {word}")
    store.close()


def _check_out(folder: Any, store: Any, out: Path, what: str) -> None:
    """Raise where `what` would replace what is labelled, the project's own files, or labels that people wrote."""
    from ncalr.cli.query import keep_labels
    from ncalr.errors import BadInput
    from ncalr.web import exchange

    source = Path(folder.source().path)
    if out.exists() and source.exists() and out.samefile(source):
        raise BadInput(f"{out} is what {folder.path} labels, and {what} would replace it; give it another name")
    if out.resolve().is_relative_to(folder.path.resolve()):
        raise BadInput(f"{out} lies in the project's own folder, {folder.path}; write {what} to another place")
    if exchange.form_of(out) is not None:
        keep_labels(out, lambda: store.read(lambda conn: exchange.at_stake(conn, out)), what)


def _write_table(store: Any, form: str, out: Path) -> int:
    """The labels in one file, whole or not at all; how many items."""
    from ncalr.web import exchange

    def write(conn: Any) -> int:
        return _written_whole(out, exchange.records(conn), lambda found, file: exchange.write(found, form, file))

    return int(store.read(write))


def _written_whole(out: Path, rows: Any, write: Any) -> int:
    """`write(rows, file)` into a file that appears whole or not at all; how many rows there were."""
    from ncalr.data.files import written_whole
    from ncalr.errors import BadInput

    if out.is_dir() or not out.absolute().parent.is_dir():
        what = "is a folder" if out.is_dir() else f"cannot be written: there is no folder {out.parent}"
        raise BadInput(f"{out} {what}; name a file in a folder that is there")
    count = 0

    def counted() -> Any:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    try:
        with written_whole(out) as file:
            write(counted(), file)
    except OSError as error:
        raise BadInput(f"{out} cannot be written ({error.strerror}); choose another place") from None
    return count


def _tell(copied: Any, out: Path) -> None:
    """What became of an export as a folder."""
    print(f"{copied.count:,} pictures of {len(copied.classes)} classes written to {out}")
    if copied.missing:
        whole = copied.count + len(copied.missing)
        print(f"not copied: {len(copied.missing):,} of {whole:,} labelled pictures (their labels are in labels.jsonl)")
    for name, why in list(copied.missing.items())[:20]:
        print(f"  {name}: {why}")
    if len(copied.missing) > 20:
        print(f"  and {len(copied.missing) - 20:,} more")


@app.command("import")
def import_(
    project: Project,
    source: Annotated[Path, typer.Argument(help="An export (.csv, .jsonl, .parquet), or Label Studio's .json.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Where somebody says something else in the project, the file counts.")
    ] = False,
) -> None:
    """Take labels in, each with its annotator. The same file twice changes nothing."""
    from ncalr.web import exchange

    _, store = _open(project)
    count = exchange.take_in(store, exchange.read(source), replace)
    store.close()
    print(f"{count} votes taken in")


@app.command("backup")
def backup(project: Project, out: Annotated[Path, typer.Argument(help="A new file.")]) -> None:
    """Everything in one file, while people go on labelling."""
    from ncalr.web.store import copying

    _, store = _open(project)
    found = copying.backup(store, out)
    store.close()
    print(f"{out}: chain of events ends in {found[:16]}")


@app.command("restore")
def restore(
    backup_file: Annotated[Path, typer.Argument(help="A backup.")],
    project: Annotated[Path | None, typer.Argument(help="A project whose database is empty.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only look whether the backup is whole.")] = False,
) -> None:
    """Put a backup back; into a project whose database was removed, or is new."""
    from ncalr.errors import BadInput
    from ncalr.web.store import copying

    if check:
        print(f"whole; the chain of events ends in {copying.check(backup_file)[:16]}")
        return
    if project is None:
        raise BadInput("where to? Name the project, or say --check")
    _, store = _open(project, empty=True)
    found = copying.restore(backup_file, store)
    store.close()
    print(f"restored; the chain of events ends in {found[:16]}")


@app.command("verify")
def verify(project: Project) -> None:
    """Compute the chain of events again: whether anything was changed from outside."""
    from ncalr.web.store import copying

    _, store = _open(project)
    print(f"every event is as it was written; the chain ends in {copying.verify(store)[:16]}")
    store.close()


@app.command("move")
def move(
    project: Project, to: Annotated[str, typer.Argument(help="A PostgreSQL URL, or a SQLite file; empty.")]
) -> None:
    """Copy the database to another one, and use that from now on. The old one is left as it is."""
    from ncalr.web.store import copying, open_store

    folder, store = _open(project)
    target = open_store(to)
    found = copying.copy(store, target)
    target.close()
    store.close()
    folder.create(folder.source(), to)
    print(f"moved; the chain of events ends in {found[:16]}")


@app.command("invite")
def invite(
    project: Project,
    role: Annotated[str, typer.Option(help="annotator, reviewer or owner; annotator if none.")] = "",
    person: Annotated[str, typer.Option(help="A new link for somebody who is there already, by name.")] = "",
    url: Annotated[str, typer.Option(help="Where the server is reached.")] = "http://127.0.0.1:8765",
    token: Annotated[str, typer.Option(help="Instead: an access token for a program that acts as this person.")] = "",
) -> None:
    """A link that lets one person in, once, within a day.

    With --person it is for somebody who is known: whose session has ended, who was sent away, or who came by an import.
    They come back as themselves (--role gives them another role).
    """
    from ncalr.web.store import answers, people

    _, store = _open(project)
    now = store.clock.now()
    if token:
        program = _somebody(store, token)
        print(store.write(lambda conn: people.issue(conn, now, "access", person=program, seconds=None)))
    elif person:
        known = _somebody(store, person)

        def let_in(conn: Any) -> Any:
            people.change(conn, now, known, role or None, True)
            answers.reconsider(conn)
            return people.link(conn, now, people.by_key(conn, known.key))

        print(f"{url.rstrip('/')}/#enter={store.write(let_in)}")
    else:
        secret = store.write(lambda conn: people.issue(conn, now, "invitation", role=role or "annotator"))
        print(f"{url.rstrip('/')}/#enter={secret}")
    store.close()


@app.command("revoke")
def revoke(
    project: Project,
    person: Annotated[str, typer.Option(help="Only this person, by name; everybody if none.")] = "",
) -> None:
    """End sessions, links and access tokens, at once, as when a laptop or a link was lost; nobody is sent away."""
    from ncalr.web.store import people

    _, store = _open(project)
    known = _somebody(store, person) if person else None
    sessions, tokens = store.write(lambda conn: people.revoke(conn, store.clock.now(), known))
    store.close()
    print(f"{sessions} sessions and {tokens} links and tokens ended; come in again by a new link (ncalr labels invite)")


def _somebody(store: Any, name: str) -> Any:
    """The person of this name."""
    from ncalr.errors import BadInput
    from ncalr.web.store import people

    found = store.read(people.everyone)
    for person in found:
        if person.name == people.check_name(name):
            return person
    raise BadInput(f"there is nobody called {name!r}; there are {', '.join(person.name for person in found) or 'none'}")


def _open(project: Path, empty: bool = False) -> tuple[Any, Any]:
    """The folder and its store; one that holds no project only where it may be `empty`."""
    from ncalr.cli.doctor import check_web

    check_web()
    from ncalr.web.folder import Folder
    from ncalr.web.store import projects

    folder = Folder(project)
    store = folder.open()
    if not empty:
        store.read(projects.load)
    return folder, store
