"""The commands of `ncalr`, gathered."""

from __future__ import annotations

from typing import Annotated

import typer

import ncalr
from ncalr.cli import (
    audit,
    doctor,
    embed,
    evaluate,
    forecast,
    label,
    labels,
    labelstudio,
    pool,
    query,
    strategies,
    suggest,
)
from ncalr.cli import run as experiments

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Reliable active learning from unreliable labels: what to label next, which labels to check, when to stop.",
)
app.command("suggest")(suggest.run)
app.command("query")(query.run)
app.command("strategies")(strategies.run)
app.command("run")(experiments.run)
app.command("resume")(experiments.resume)
app.command("report")(experiments.report)
app.command("reproduce")(experiments.reproduce)
app.command("evaluate")(evaluate.run)
app.command("audit")(audit.run)
app.command("forecast")(forecast.run)
app.command("embed")(embed.run)
app.command("label")(label.run)
app.add_typer(labels.app, name="labels")
app.add_typer(labelstudio.app, name="labelstudio")
app.command("doctor")(doctor.run)
app.add_typer(pool.app, name="pool")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ncalr {ncalr.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    del version
