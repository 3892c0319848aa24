"""`ncalr labelstudio push|pull|sync`: the queue goes to a Label Studio project, its annotations come back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="Label in Label Studio instead, in the order NCAL-R chooses.")
Project = Annotated[Path, typer.Argument(help="The project's folder (DATA.ncalr).")]
Url = Annotated[str, typer.Option(help="Label Studio's address.")]
Token = Annotated[str, typer.Option(envvar="NCALR_LABELSTUDIO_TOKEN", help="Its access token, from the account page.")]
Count = Annotated[int, typer.Option(help="How many items at a time.")]


@app.command("push")
def push(project: Project, url: Url, token: Token, count: Count = 50) -> None:
    """Send the first items of the queue there; none of them twice."""
    with _Meeting(project, url, token) as both:
        print(f"{both.push(count)} items sent")


@app.command("pull")
def pull(project: Project, url: Url, token: Token) -> None:
    """Take the annotations in, as votes of their people."""
    with _Meeting(project, url, token) as both:
        print(f"{both.pull()} answers taken in")


@app.command("sync")
def sync(
    project: Project,
    url: Url,
    token: Token,
    count: Count = 50,
    every: Annotated[float, typer.Option(help="Seconds between two rounds; 0: once.")] = 0.0,
) -> None:
    """Take answers in, train where there is enough new, send the next items; again and again with --every."""
    import time

    with _Meeting(project, url, token) as both:
        while True:
            taken = both.pull()
            trained = both.train()
            sent = both.push(max(count - both.waiting(), 0))
            print(f"{taken} answers taken in, {'trained, ' if trained else ''}{sent} items sent", flush=True)
            if not every:
                return
            time.sleep(every)


class _Meeting:
    """A project here and its twin there."""

    def __init__(self, project: Path, url: str, token: str) -> None:
        from ncalr.cli.doctor import check_web

        check_web()
        from ncalr.web.folder import Folder
        from ncalr.web.labelstudio import LabelStudio
        from ncalr.web.media import Media
        from ncalr.web.store import projects

        self.folder = Folder(project)
        self.store = self.folder.open()
        source = self.folder.source()
        self.media = Media(Path(source.path), project / "cache", 1) if source.kind == "image" else None
        self.remote = LabelStudio(url, token)
        found = self.store.read(projects.load)
        self.number = self.remote.project(f"ncalr {found.name}", self.store.read(projects.classes), found.kind)
        self._worker: Any = None

    def __enter__(self) -> _Meeting:
        return self

    def __exit__(self, *_: object) -> None:
        self.remote.close()
        if self.media is not None:
            self.media.close()
        self.store.close()

    def push(self, count: int) -> int:
        from ncalr.web import labelstudio

        return labelstudio.push(self.store, self.remote, self.number, count, self.media) if count else 0

    def pull(self) -> int:
        from ncalr.web import labelstudio

        return labelstudio.pull(self.store, self.remote, self.number)

    def waiting(self) -> int:
        """Items that are there and not answered."""
        tasks = self.remote.annotations(self.number)
        return len(self.remote.names(self.number)) - sum(bool(task.get("annotations")) for task in tasks)

    def train(self) -> bool:
        from ncalr.web.worker import Worker

        self._worker = self._worker or Worker(self.folder, self.store)
        return bool(self._worker.step())
