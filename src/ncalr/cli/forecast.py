"""`ncalr forecast`: vectors and the labels so far in, what more labels will bring out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ncalr.cli.suggest import Ids


def run(
    items: Annotated[Path, typer.Argument(help="The vectors, in a file as for `ncalr suggest`.")],
    labels: Annotated[list[Path] | None, typer.Argument(help="The labels so far, as for `ncalr suggest`.")] = None,
    k: Annotated[
        str,
        typer.Option(
            "-k", help="Numbers of further labels: 100,500 (default: as many as now, and three times as many)."
        ),
    ] = "",
    target: Annotated[float | None, typer.Option(help="Accuracy to reach: how many labels does it take?")] = None,
    control: Annotated[
        str,
        typer.Option(
            help="Which labelled items are a random sample: the share that `ncalr suggest --control` had (default: "
            "0.1), a file of ids, or `all`."
        ),
    ] = "0.1",
    wrong: Annotated[
        float, typer.Option(help="Share of wrong labels, to forecast accuracy on right labels (default: 0).")
    ] = 0.0,
    ids: Ids = None,
    exclude: Annotated[Path | None, typer.Option(help="Ids that do not belong to the pool.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of `ncalr suggest` (default: 0).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Forecast the accuracy with more labels, with intervals: when to stop, and what more labels buy.

    Accuracy is that of a logistic regression on the vectors, on items like those of the pool. It is measured on
    control items: draw them with `ncalr suggest --control 0.1` in every round, with the same seed.

    Examples: ncalr forecast embeddings.npy labels.csv -k 100,500;
    ncalr forecast embeddings.npy labels.csv --target 0.9
    """
    import json

    from ncalr.cli.query import read_ids
    from ncalr.data.embeddings import read_embeddings
    from ncalr.evaluate.forecast import forecast

    found = read_embeddings(items, labels, read_ids(ids))
    texts = found.pool.ids.dtype.kind == "U"
    told = forecast(
        found.pool.items,
        found.labels,
        _numbers(k),
        control=_control(control, texts),
        ids=found.pool.ids,
        classes=len(found.classes) or None,
        exclude=read_ids(exclude, texts=texts),
        target=target,
        wrong=wrong,
        seed=seed,
    )
    if as_json:
        print(json.dumps({**told.as_dict(), "notes": [*found.notes, *told.notes]}, indent=1))
        return
    for line in told.words():
        print(line)
    for note in (*found.notes, *told.notes):
        print(f"note: {note}")


def _numbers(text: str) -> list[int] | None:
    """Return the numbers of a list such as 100,500; None for no text."""
    from ncalr.data.tables import is_whole
    from ncalr.errors import BadInput

    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if not is_whole(word)]
    if wrong:
        raise BadInput(f"`-k` must be whole numbers such as 100,500, got {wrong[0]!r}.")
    return [int(word) for word in words] or None


def _control(text: str, texts: bool) -> Any:
    """Return a share, "all", or the ids in a file."""
    from ncalr.cli.query import read_ids

    try:
        return float(text)
    except ValueError:
        return text if text == "all" else read_ids(Path(text), texts=texts)
