"""`ncalr suggest`: vectors and the labels so far in, picks out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncalr.cli.query import Out, Spreadsheet, check_picks_out, hand_out, read_ids

Ids = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the rows of a .npy file: a table with a column id, a text file with one a line, or .npy. "
        "Default 0..n-1."
    ),
]


def run(
    items: Annotated[
        Path,
        typer.Argument(
            help="The vectors: .npy (n, d), or a table (.csv, .tsv, .jsonl, .parquet) with a column a dimension or one "
            "of lists, and perhaps the columns id and label."
        ),
    ],
    labels: Annotated[
        list[Path] | None,
        typer.Argument(
            help="The labels so far, beside those in a column label of the vectors' table: tables with the columns id "
            "and label (an id once in each; of an item that several files label the last one counts), or .npy (n,) "
            "with -1 where there is none."
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="Number of items to pick (default: 100, or all remaining).")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Strategy, with options in brackets: 'ncal(fusion=rank)' (default: ncal_coverage).")
    ] = "ncal_coverage",
    ids: Ids = None,
    exclude: Annotated[Path | None, typer.Option(help="Ids not to pick beside the labelled ones.")] = None,
    control: Annotated[
        float, typer.Option(help="Share of the picks that are drawn at random, for `ncalr forecast` (default: 0).")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Decides ties, draws and how the head begins.")] = 0,
    device: Annotated[str | None, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")] = None,
    out: Out = None,
    spreadsheet: Spreadsheet = False,
) -> None:
    """Say which items to label next, from ready-made vectors and the labels so far; a head is trained on the way.

    The CSV has one row a pick, most wanted first: rank, id, score and the parts of the score. Write the labels into a
    column label of it, and ask again with both files. With --control a column `why` says which picks are control items.

    Examples: ncalr suggest embeddings.npy labels.csv -k 500 --out picks.csv;
    ncalr suggest embeddings.npy labels.csv picks.csv -k 500 --out picks2.csv
    """
    from ncalr.data.embeddings import read_embeddings
    from ncalr.learn.suggest import suggest

    if out is not None:
        check_picks_out(out, items, *(labels or []), ids, exclude)
    found = read_embeddings(items, labels, read_ids(ids))
    others = read_ids(exclude, texts=found.pool.ids.dtype.kind == "U")
    picks = suggest(
        found.pool.items,
        found.labels,
        k,
        strategy,
        ids=found.pool.ids,
        classes=len(found.classes) or None,
        exclude=others,
        control=control,
        seed=seed,
        device=device,
    )
    hand_out(picks, out, (*found.notes, *picks.notes), spreadsheet)
