"""`ncalr run`, `ncalr resume`, `ncalr report`: experiments from a dataset to a report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[Path, typer.Option("--out", help="Where the runs and the report go.")]
Root = Annotated[Path | None, typer.Option("--root", help="Where the datasets are (or set NCALR_DATA).")]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda; the GPU if there is one.")]
Engine = Annotated[str, typer.Option("--engine", help="processes or ray: seeds side by side, each in its own worker.")]
Address = Annotated[str | None, typer.Option("--address", help="For --engine ray: a cluster's address, or auto.")]


def run(
    ctx: typer.Context,
    dataset: Annotated[
        str, typer.Argument(help="A dataset by name (digits, cifar10, ...) or the path of a folder or a table.")
    ] = "digits",
    strategy: Annotated[str, typer.Option(help="The strategy to look at.")] = "ncal",
    against: Annotated[str, typer.Option(help="Others to compare it with, separated by commas.")] = "random",
    seeds: Annotated[int, typer.Option(help="How many times, each with its own initial pool.")] = 3,
    start: Annotated[int, typer.Option(help="Labels of the initial pool.")] = 40,
    step: Annotated[int, typer.Option(help="Labels asked for in a round.")] = 20,
    end: Annotated[int, typer.Option(help="Labels at the last training.")] = 140,
    network: Annotated[str, typer.Option(help="A network by name.")] = "resnet8",
    recipe: Annotated[str, typer.Option(help="A recipe by name, values in brackets.")] = "digits",
    noise: Annotated[
        list[str] | None,
        typer.Option(
            help="Noise of the labels, such as 'symmetric(rate=0.2)', or labels of people from a file. May be repeated "
            "(none: clean labels): the same experiment under each, side by side."
        ),
    ] = None,
    answers: Annotated[
        str, typer.Option(help="How often to ask about an item: single, 'votes(n=3)' or doubts.")
    ] = "single",
    stops: Annotated[
        str,
        typer.Option(
            help="When to stop before the last budget: 'target=0.95' (test accuracy), 'plateau=2, gain=0.005' (rounds "
            "without such a gain) or 'uninformative=0.01' (predictions flip in less of the pool)."
        ),
    ] = "",
    control: Annotated[float, typer.Option(help="Share of each batch drawn at random, to estimate accuracy.")] = 0.0,
    stratified: Annotated[
        bool,
        typer.Option(
            "--stratified/--no-stratified", help="Initial pools with the classes in their shares, for studies."
        ),
    ] = False,
    first_seed: Annotated[int, typer.Option(help="The first of the seeds; the others follow it.")] = 0,
    keep: Annotated[str, typer.Option(help="Models to keep for `ncalr evaluate`: last or all.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with the experiment; flags beside it come on top of it.")
    ] = None,
    out: Out = Path("runs/latest"),
    root: Root = None,
    device: Device = None,
    engine: Engine = "",
    address: Address = None,
) -> None:
    """Compare strategies on a dataset and write a report. Killed, it goes on where it was: `ncalr resume OUT`."""
    from ncalr.acquire.spec import split
    from ncalr.lab.experiment import read_toml
    from ncalr.lab.study import members_of, planned

    others = split(against) if against else []
    values: dict[str, Any] = {
        "dataset": dataset,
        "strategies": (strategy, *others),
        "seeds": seeds,
        "start": start,
        "step": step,
        "end": end,
        "network": network,
        "recipe": recipe,
        "noise": noise or [],
        "control": control,
        "stratified": stratified,
        "first_seed": first_seed,
        "keep": keep,
        "answers": answers,
        "stops": stops,
    }
    if config is not None:
        plan = planned(read_toml(config))
        said = {name for name in ctx.params if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"}
        first, *rest = next(iter(members_of(plan).values())).strategies
        strategies = (strategy if "strategy" in said else first, *(others if "against" in said else rest))
        on_top = {name: value for name, value in values.items() if name in said}
        values = {**plan.as_dict(), **on_top, "strategies": strategies}
    wanted = planned({**values, "strategies": tuple(dict.fromkeys(values["strategies"]))})
    _carry_out(wanted, out, root, device, engine, address)


def reproduce(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100, imagenet100 or mini_imagenet.")],
    strategies: Annotated[str, typer.Option(help="Strategies, separated by commas; the paper's if none.")] = "",
    seeds: Annotated[int, typer.Option(help="How many runs of each.")] = 3,
    recipe: Annotated[str, typer.Option(help="strong, or paper for weaker full-data accuracies.")] = "strong",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the budgets and leave.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where the runs and the report go.")] = None,
    root: Root = None,
    device: Device = None,
    engine: Engine = "",
    address: Address = None,
) -> None:
    """Run one of the paper's protocols, with its budgets; near-copies are picked as the strategies pick them."""
    from ncalr.acquire.spec import split, with_defaults
    from ncalr.lab.protocols import STRATEGIES, protocol
    from ncalr.learn.recipes import recipe as known_recipe

    found = protocol(name)
    rules = tuple(str(with_defaults(one, copies="keep")) for one in (split(strategies) if strategies else STRATEGIES))
    experiment = found.experiment(rules, seeds, recipe)
    known_recipe(recipe)
    print(f"{name}: {found.about}; {experiment.network}, recipe {recipe}, {seeds} seeds")
    print("labels: " + ", ".join(f"{budget:,}" for budget in experiment.budgets))
    print("strategies: " + ", ".join(experiment.strategies))
    if not dry_run:
        _carry_out(experiment, out or Path("runs") / name, root, device, engine, address)


def resume(
    folder: Annotated[Path, typer.Argument(help="The directory of an experiment.")],
    root: Root = None,
    device: Device = None,
    engine: Engine = "",
    address: Address = None,
) -> None:
    """Go on with an experiment that was stopped, or with one under several noises."""
    from ncalr.lab.study import read_plan

    _carry_out(read_plan(folder), folder, root, device, engine, address)


def report(
    folders: Annotated[list[Path], typer.Argument(help="The directories of one or more experiments.")],
    out: Annotated[Path | None, typer.Option(help="Where the report goes; the first directory if none.")] = None,
    figures: Annotated[Path | None, typer.Option(help="A folder for its pictures as SVG and PDF, for a paper.")] = None,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON, for programs.")] = False,
) -> None:
    """Write a report again, from journals; unfinished ones too. Several experiments on the same data become one.

    Experiments on different data, or by other protocols, are compared across data sets: areas, ranks, tests, who beats
    whom, in across.html, .md, .csv and .json. Of an experiment under several noises: the overview, and the report of
    each.
    """
    from ncalr.lab.figures import write_figures
    from ncalr.lab.plots import kept
    from ncalr.lab.session import report_again

    with kept() as drawn:
        page = report_again(folders, root, out)
    numbers = page.with_name("across.json" if page.name == "across.html" else "summary.json")
    print(numbers.read_text(encoding="utf-8") if as_json else f"report: {page}")
    if figures is not None:
        written = write_figures(page, drawn, figures)
        print(f"{len(written)} figures, as SVG and PDF: {figures}", file=sys.stderr if as_json else sys.stdout)


def _carry_out(plan: Any, out: Path, root: Path | None, device: str | None, engine: str, address: str | None) -> None:
    import json
    import shlex

    from ncalr.lab.report import result_rows
    from ncalr.lab.session import carry_out

    try:
        _, page = carry_out(plan, out, root=root, device=device, engine=engine, address=address)
    except KeyboardInterrupt:
        begun = (out / "experiment.json").exists()
        more = f"nothing is lost. Go on with: {shlex.join(['ncalr', 'resume', str(out)])}"
        print(f"\nstopped; {more if begun else 'nothing was begun yet'}")
        raise typer.Exit(130) from None
    found = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    if "noises" in found:
        _print_noises(found["noises"])
    else:
        _print_table(*result_rows(found))
    for note in found["caution"]:
        print(f"note: {note}", file=sys.stderr)
    print(f"report: {page}")


def _print_noises(found: list[dict[str, Any]]) -> None:
    """A table for each, without the areas under the curves: 80 columns have no room for them."""
    from ncalr.lab.overview import overview_rows

    head, rows = overview_rows(found)
    area = head.index("area under the curve")
    for one in found:
        mine = [row for row in rows if row[0] == one["noise"]]
        pool = f", {mine[0][-1]} % of the answers wrong" if mine[0][-1] else ""
        shown = [[cell for at, cell in enumerate(row[1:-1], 1) if at != area] for row in (head, *mine)]
        _print_table(shown[0], shown[1:], f"{one['noise']}{pool}")


def _print_table(head: list[str], rows: list[list[str]], title: str | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
