"""`ncalr evaluate`: what the labels of a run are good for beyond accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[Path, typer.Argument(help="The directory of an experiment.")],
    tasks: Annotated[
        str,
        typer.Option(help="collapse, separation, calibration, tail, ood, probe, discovery, transfer, audit."),
    ] = "collapse,separation,calibration",
    rounds: Annotated[
        str,
        typer.Option("--round", help="last; ended, of the runs that have; or all: curves, and OOD at equal accuracy."),
    ] = "last",
    ood: Annotated[
        str,
        typer.Option(
            help="OOD sets: near:cifar100,far:svhn10k(size=32),folder:PATH,novel. The held-out classes if none."
        ),
    ] = "",
    scores: Annotated[str, typer.Option(help="OOD scores, such as energy,knn(k=10); all nine if none.")] = "",
    probe: Annotated[str, typer.Option(help="Datasets for the linear probes, by commas.")] = "",
    network: Annotated[str, typer.Option(help="The other network of the transfer.")] = "",
    variant: Annotated[str, typer.Option(help="Of the discovery: A (what was asked for) or B (the whole pool).")] = "B",
    inits: Annotated[int, typer.Option(help="Initialisations of the discovery's k-means.")] = 10,
    assignment: Annotated[
        str, typer.Option(help="Of the discovery's clusters: v2 (one for all items) or v1 (old and new apart).")
    ] = "v2",
    estimate: Annotated[
        int, typer.Option(help="The discovery estimates the number of classes, up to so many; 0: it does not.")
    ] = 0,
    missing: Annotated[
        str, typer.Option(help="Models that were not kept: error, retrain (from the journals) or skip.")
    ] = "error",
    root: Annotated[Path | None, typer.Option("--root", help="Where the datasets are (or set NCALR_DATA).")] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu or cuda; the GPU if there is one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON, for programs.")] = False,
) -> None:
    """Evaluate the models of an experiment, and put what is found into its report."""
    import json

    from ncalr.acquire.spec import split
    from ncalr.evaluate.driver import evaluate
    from ncalr.evaluate.tasks import Wishes
    from ncalr.lab.session import report_again
    from ncalr.lab.statistics import plain

    def several(text: str) -> tuple[str, ...]:
        return tuple(split(text)) if text else ()

    wishes = Wishes(
        several(ood), several(scores), several(probe), network, inits, variant, assignment, estimate, root=root
    )
    say = None if as_json else print
    lines = evaluate(folder, several(tasks), rounds=rounds, wishes=wishes, missing=missing, device=device, say=say)
    page = report_again(folder, root)
    print(json.dumps(plain(lines), indent=1, allow_nan=False) if as_json else f"report: {page}")
