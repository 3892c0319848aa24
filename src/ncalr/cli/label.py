"""`ncalr label`: from a folder of images or a table of texts to labels and a model, with people in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    source: Annotated[
        Path, typer.Argument(help="A folder of images, a table of texts (.csv, .jsonl, ...), or a project.")
    ],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas; or a file with one a line.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the project there is.")] = False,
    project: Annotated[
        Path | None, typer.Option(help="The project's folder. Default: DATA.ncalr beside the data.")
    ] = None,
    guidelines: Annotated[Path | None, typer.Option(help="A Markdown file the page shows.")] = None,
    votes: Annotated[int, typer.Option(help="How many people answer each item.")] = 1,
    suggestions: Annotated[
        bool, typer.Option("--suggestions", help="Show the model's guess, on a random half.")
    ] = False,
    strategy: Annotated[str, typer.Option(help="What chooses the items.")] = "ncal",
    control: Annotated[float, typer.Option(help="Share of items drawn at random, unmarked, for the estimate.")] = 0.1,
    first: Annotated[int, typer.Option(help="Labels before the first training.")] = 10,
    step: Annotated[int, typer.Option(help="Answers between two trainings.")] = 10,
    network: Annotated[str, typer.Option(help="A network by name; chosen from the data if none.")] = "",
    recipe: Annotated[str, typer.Option(help="A recipe by name.")] = "",
    size: Annotated[int, typer.Option(help="Pixels a side, for the model.")] = 32,
    embeddings: Annotated[Path | None, typer.Option(help="A .npy file, a row an item: the model reads these.")] = None,
    text_column: Annotated[str, typer.Option(help="The column of texts.")] = "",
    id_column: Annotated[str, typer.Option(help="The column of permanent ids.")] = "",
    database: Annotated[str, typer.Option(help="A PostgreSQL URL instead of a SQLite file.")] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; the next free one from 8765 if none.")] = 0,
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

    from ncalr.cli.doctor import missing_web
    from ncalr.errors import BadInput

    missing_web()
    from ncalr.web import sources
    from ncalr.web.folder import Folder
    from ncalr.web.guard import Address
    from ncalr.web.serve import check_exposure, entrance, free_port, serve
    from ncalr.web.serve import training as trained
    from ncalr.web.store import projects

    check_exposure(host, public_url, insecure)
    folder = Folder(project) if project else Folder(source) if Folder(source).exists else Folder.beside(source)
    if folder.exists:
        if classes and not resume:
            raise BadInput(f"{folder.path} holds a project already; go on with: ncalr label {source} --resume")
        store = folder.open(unsafe_database)
        print(f"going on with {folder.path}")
    else:
        if resume:
            raise BadInput(f"there is no project {folder.path} to go on with; start one with --classes")
        names = projects.check_classes(read_classes(classes))
        found = sources.find(source, text_column, id_column, str(embeddings.resolve()) if embeddings else "")
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
        )
        items = list(sources.items(found))
        words = guidelines.read_text(encoding="utf-8") if guidelines else ""
        folder.create(found, database)
        store = folder.open(unsafe_database)
        title = source.resolve().stem
        projects.create(store, title, found.kind, names, items, votes=votes, settings=rules, guideline=words)
        kind = "images" if found.kind == "image" else "texts"
        print(f"{len(items):,} {kind}, {len(names)} classes; project {folder.path}")
    address = Address(host, free_port(host, port or 8765, fixed=bool(port)), public_url)
    link = f"{address.url}/#enter={entrance(store, getpass.getuser())}"

    def ready() -> None:
        print(f"\n  {link}\n\nOpen this link; it works once. Stop with Ctrl+C.", flush=True)
        print(f"Go on another day with: ncalr label {source} --resume", flush=True)
        if browser:
            webbrowser.open(link)

    with trained(folder) if training else contextlib.nullcontext():
        serve(folder, store, address, ready)
    store.close()


def read_classes(text: str) -> list[str]:
    """Names separated by commas, or one a line of a file."""
    from ncalr.errors import BadInput

    if not text:
        raise BadInput("which classes? Say --classes cat,dog,bird, or --classes classes.txt with one a line")
    path = Path(text)
    if "," not in text and path.is_file():
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [name.strip() for name in text.split(",") if name.strip()]
