"""`ncalr label`: from a folder of images or a table of texts to labels and a model, with people in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="A folder of images, a table of texts (.csv, .jsonl, ...), or a project.")
    ],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas; or a file with one a line.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the project there is.")] = False,
    add: Annotated[bool, typer.Option("--add", help="Going on: take in what is new in the folder or table.")] = False,
    project: Annotated[
        Path | None, typer.Option(help="The project's folder. Default: DATA.ncalr beside the data.")
    ] = None,
    guidelines: Annotated[Path | None, typer.Option(help="A Markdown file the page shows.")] = None,
    votes: Annotated[int, typer.Option(help="How many people answer each item.")] = 1,
    suggestions: Annotated[bool, typer.Option(help="Show the model's guess, on a random half.")] = False,
    strategy: Annotated[
        str, typer.Option(help="Strategy that chooses the items (default: ncal_coverage).")
    ] = "ncal_coverage",
    control: Annotated[float, typer.Option(help="Share of items set aside at random to measure the accuracy.")] = 0.1,
    first: Annotated[int, typer.Option(help="Labels before the first training.")] = 10,
    step: Annotated[int, typer.Option(help="Answers between two trainings.")] = 10,
    network: Annotated[str, typer.Option(help="A network by name; chosen from the data if none.")] = "",
    recipe: Annotated[str, typer.Option(help="A recipe by name.")] = "",
    size: Annotated[int, typer.Option(help="Pixels a side, for the model.")] = 32,
    hide_names: Annotated[
        bool,
        typer.Option("--hide-names/--show-names", help="Do not show what items are called; it may tell."),
    ] = False,
    embeddings: Annotated[Path | None, typer.Option(help="A .npy file, a row an item: the model reads these.")] = None,
    text_column: Annotated[str, typer.Option(help="The column of texts.")] = "",
    id_column: Annotated[str, typer.Option(help="The column of permanent ids.")] = "",
    database: Annotated[str, typer.Option(help="A PostgreSQL URL instead of a SQLite file.")] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; the next free one from 8765 if none.")] = 0,
    public_url: Annotated[str, typer.Option(help="The address people type, behind a reverse proxy.")] = "",
    insecure: Annotated[bool, typer.Option("--insecure", help="Let other machines in without TLS.")] = False,
    training: Annotated[bool, typer.Option(help="Train beside the labelling.")] = True,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    seed: Annotated[int, typer.Option(help="Decides the first order and the draws.")] = 0,
    unsafe_database: Annotated[bool, typer.Option("--unsafe-database", hidden=True)] = False,
) -> None:
    """Label a folder of images or a table of texts in the browser, NCAL-R choosing what comes next.

    Example: ncalr label photos/ --classes cat,dog,bird
    """
    import contextlib
    import getpass
    import webbrowser

    from ncalr.cli.doctor import check_web
    from ncalr.errors import BadInput

    check_web()
    from ncalr.web import sources, start, worth
    from ncalr.web.folder import Folder
    from ncalr.web.guard import Address
    from ncalr.web.serve import alone, check_exposure, entrance, free_port, serve
    from ncalr.web.serve import training as trained
    from ncalr.web.store import projects

    check_exposure(host, public_url, insecure)
    address = Address(host, free_port(host, port or 8765, fixed=bool(port)), public_url)
    itself = project is None and Folder(source).exists
    folder = Folder(project) if project else Folder(source) if itself else Folder.beside(source)
    again = hint(source, project)
    given = {name: value for name, value in context.params.items() if _was_said(context, name)}
    given |= {"words": read_words(guidelines)} if guidelines else {}
    given |= {"classes": read_classes(classes)} if classes else {}
    given |= {"embeddings": str(embeddings.resolve())} if embeddings else {}
    store = folder.open(unsafe_database) if folder.exists else None
    if store is not None and start.is_begun(store):
        if training:  # before anything is changed
            context.with_resource(alone(folder, store, address))
        if classes and not resume:
            raise BadInput(f"{folder.path} holds a project already; go on with: {again}")
        told = start.go_on(folder, store, None if itself else source, given, add)
        print("\n".join([f"going on with {folder.path}", *told, *store.read(worth.told)]))
    else:
        if resume or not classes:
            raise BadInput(nothing_to_go_on_with(folder.path, store is not None, resume))
        if store is not None:
            store.close()
        rules = projects.Settings(
            strategy,
            control,
            suggestions,
            seed=seed,
            first_training=first,
            step=step,
            network=network,
            recipe=recipe,
            size=size,
            hide_names=hide_names,
        )
        found = sources.find(source, text_column, id_column, given.get("embeddings", ""))
        words = given.get("words", "")
        store, stock = start.begin(
            folder, found, given["classes"], rules, votes=votes, words=words, database=database, unsafe=unsafe_database
        )
        kind = "images" if found.kind == "image" else "texts"
        print(f"{len(stock.items):,} {kind}, {len(given['classes'])} classes; project {folder.path}")
        for note in filter(None, [stock.about_odd_ones(), start.about_labels(found, folder.path)]):
            print(note)
        if training:
            context.with_resource(alone(folder, store, address))
    link = f"{address.url}/#enter={entrance(store, getpass.getuser())}"

    def ready() -> None:
        print(f"\n  {link}\n\nOpen this link; it works once. Stop with Ctrl+C.", flush=True)
        print(f"Go on another day with: {again}", flush=True)
        if browser:
            webbrowser.open(link)

    with trained(folder) if training else contextlib.nullcontext():
        serve(folder, store, address, ready, training=training)
    store.close()


def hint(source: Path, project: Path | None) -> str:
    """The line that goes on with a project, as it can be pasted."""
    import shlex

    return shlex.join(["ncalr", "label", str(source), "--resume", *(["--project", str(project)] if project else [])])


def nothing_to_go_on_with(path: Path, half: bool, resume: bool) -> str:
    """What to say where there is no project, or the folder of one whose first start was cut short."""
    if half:
        return f"{path} holds no project: its first start did not come to an end. Start it again with --classes"
    if resume:
        return f"there is no project {path} to go on with; name it with --project, or start one with --classes"
    return "which classes? Say --classes cat,dog,bird, or --classes classes.txt with one a line"


def _was_said(context: typer.Context, name: str) -> bool:
    """Whether an option was named, whatever its default."""
    found = context.get_parameter_source(name)
    return found is not None and found.name not in ("DEFAULT", "DEFAULT_MAP")


def read_words(path: Path) -> str:
    """The guidelines in a file."""
    from ncalr.errors import BadInput

    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); name a text file") from None


def read_classes(text: str) -> list[str]:
    """Names separated by commas, or one a line of a file."""
    from ncalr.errors import BadInput

    path = Path(text)
    if "," in text:
        return [name.strip() for name in text.split(",") if name.strip()]
    if len(text) < 1000 and path.is_file():
        return [line.strip() for line in read_words(path).splitlines() if line.strip()]
    if path.suffix or len(path.parts) > 1:
        raise BadInput(f"there is no file {text} with the classes; write --classes cat,dog,bird, or name a file")
    return [text.strip()]
