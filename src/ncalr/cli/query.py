"""`ncalr query`: arrays in files in, picks out."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

_ARRAY = "A .npy file, read as it is needed. "


def run(
    k: Annotated[int, typer.Option("-k", help="How many items to pick.")],
    strategy: Annotated[str, typer.Option(help="A strategy, with options in brackets: 'ncal(fusion=rank)'.")] = "ncal",
    features: Annotated[Path | None, typer.Option(help=_ARRAY + "Pool features (n, d).")] = None,
    logits: Annotated[Path | None, typer.Option(help=_ARRAY + "Pool logits (n, c).")] = None,
    probs: Annotated[Path | None, typer.Option(help=_ARRAY + "Pool probabilities (n, c).")] = None,
    predictions: Annotated[Path | None, typer.Option(help=_ARRAY + "Pool predictions (n,).")] = None,
    checkpoint_predictions: Annotated[
        Path | None, typer.Option(help=_ARRAY + "Pool predictions at each checkpoint (t, n).")
    ] = None,
    flips: Annotated[Path | None, typer.Option(help=_ARRAY + "Flips counted by a Recorder (n,).")] = None,
    sampled_probs: Annotated[
        Path | None, typer.Option(help=_ARRAY + "Probabilities of checkpoints or dropout passes (s, n, c).")
    ] = None,
    enhanced: Annotated[Path | None, typer.Option(help=_ARRAY + "SISOM's enhanced features (n, e).")] = None,
    labelled_features: Annotated[Path | None, typer.Option(help=_ARRAY + "Labelled features (m, d).")] = None,
    labels: Annotated[Path | None, typer.Option(help=_ARRAY + "Their labels (m,), counted from 0.")] = None,
    labelled_logits: Annotated[Path | None, typer.Option(help=_ARRAY + "Their logits (m, c).")] = None,
    labelled_probs: Annotated[Path | None, typer.Option(help=_ARRAY + "Their probabilities (m, c).")] = None,
    labelled_enhanced: Annotated[Path | None, typer.Option(help=_ARRAY + "Their enhanced features (m, e).")] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Ids of the pool items: .npy, or a text file with one a line. Default 0..n-1.")
    ] = None,
    exclude: Annotated[Path | None, typer.Option(help="Ids not to pick, in the same form.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes, where the arrays do not show it.")] = None,
    seed: Annotated[int, typer.Option(help="Decides ties and draws.")] = 0,
    device: Annotated[str | None, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")] = None,
    pool: Annotated[Path | None, typer.Option(help="A pool on disk (`ncalr pool`) instead of pool arrays.")] = None,
    engine: Annotated[str, typer.Option(help="For --pool: local (threads), processes or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(help="For --pool: how many; as many as there are cores.")] = None,
    address: Annotated[
        str | None, typer.Option(help="For --engine ray: a cluster's address, or auto. Without: one of its own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write: .csv, .json, or .npy (ids alone). Default: CSV on the screen.")
    ] = None,
) -> None:
    """Say which pool items to label next, from arrays on disk or a pool of any size.

    The CSV has one row a pick, most wanted first: rank, id, score and the parts of the score.

    Example: ncalr query -k 500 --features pool.npy --checkpoint-predictions log.npy
    --labelled-features labelled.npy --labels labels.npy --out picks.csv
    """
    from ncalr.acquire.query import query

    if out is not None:
        _check_out(out)
    arrays = {
        "features": features,
        "logits": logits,
        "probs": probs,
        "predictions": predictions,
        "checkpoint_predictions": checkpoint_predictions,
        "flips": flips,
        "sampled_probs": sampled_probs,
        "enhanced": enhanced,
        "labelled_features": labelled_features,
        "labels": labels,
        "labelled_logits": labelled_logits,
        "labelled_probs": labelled_probs,
        "labelled_enhanced": labelled_enhanced,
    }
    given = {name: read_array(path) for name, path in arrays.items() if path is not None}
    given |= {"exclude": read_ids(exclude), "classes": classes, "seed": seed, "device": device}
    if pool is not None:
        picks = _of_pool(strategy, k, pool, given, engine, workers, address, ids)
    else:
        picks = query(strategy, k, **given, ids=read_ids(ids))
    for note in picks.notes:
        print(f"note: {note}", file=sys.stderr)
    write(picks, out)
    if out is not None:
        print(f"{len(picks)} ids by {picks.strategy} written to {out}", file=sys.stderr)


def _of_pool(
    strategy: str,
    k: int,
    pool: Path,
    given: dict[str, Any],
    engine: str,
    workers: int | None,
    address: str | None,
    ids: Path | None,
) -> Any:
    """The same question to a pool on disk, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from ncalr.acquire.evidence import POOL_AXIS
    from ncalr.engine.query import query_pool
    from ncalr.errors import BadInput

    own = sorted(given.keys() & POOL_AXIS.keys()) + (["ids"] if ids is not None else [])
    if own:
        raise BadInput(f"--pool has columns of its own: leave out {', '.join(own)}, or put them into the pool")
    with Progress(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(str(pool))
        return query_pool(
            strategy,
            k,
            pool,
            **given,
            engine=engine,
            workers=workers,
            address=address,
            progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )


def read_array(path: Path) -> Any:
    """A .npy file as a memory map."""
    import numpy as np

    from ncalr.errors import BadInput

    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (ValueError, OSError, EOFError) as error:
        raise BadInput(f"{path} is not a .npy file that can be read ({error})") from None


def read_ids(path: Path | None) -> Any:
    """Ids from .npy, or from text: whole numbers if all lines are, else texts."""
    import numpy as np

    from ncalr.errors import BadInput

    if path is None:
        return None
    if path.suffix == ".npy":
        return read_array(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read ids from {path} ({error})") from None
    words = [line.strip() for line in lines if line.strip()]
    try:
        return np.array([int(word) for word in words], np.int64)
    except ValueError:
        return np.array(words)


def write(picks: Any, out: Path | None) -> None:
    """The picks in the form the file's name asks for."""
    import numpy as np

    if out is not None and out.suffix == ".npy":
        np.save(out, picks.ids)
    elif out is not None and out.suffix == ".json":
        rows = {"strategy": picks.strategy, "notes": list(picks.notes), "picks": picks.rows()}
        out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    elif out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            _write_csv(picks, file)
    else:
        _write_csv(picks, sys.stdout)


def _write_csv(picks: Any, file: Any) -> None:
    rows = picks.rows()
    writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _check_out(out: Path) -> None:
    from ncalr.errors import BadInput

    if out.suffix not in (".csv", ".json", ".npy"):
        raise BadInput(f"--out must end in .csv, .json or .npy, got {out.name!r}")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {out.parent} to write {out.name} to")
