"""`ncalr query`: arrays in files in, picks out."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

_ARRAY = "A .npy file, read as it is needed. "
Out = Annotated[
    Path | None, typer.Option(help="Where to write: .csv, .json, or .npy (ids alone). Default: CSV on the screen.")
]
Spreadsheet = Annotated[
    bool,
    typer.Option(
        "--spreadsheet", help="Escape texts of the CSV that a spreadsheet would run as formulas (default: as they are)."
    ),
]


def run(
    k: Annotated[int, typer.Option("-k", help="How many items to pick.")],
    strategy: Annotated[
        str, typer.Option(help="Strategy, with options in brackets: 'ncal(fusion=rank)' (default: ncal_coverage).")
    ] = "ncal_coverage",
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
    mean_probs: Annotated[
        Path | None, typer.Option(help=_ARRAY + "Mean probabilities over the checkpoints (n, c).")
    ] = None,
    enhanced: Annotated[Path | None, typer.Option(help=_ARRAY + "SISOM's enhanced features (n, e).")] = None,
    labelled_features: Annotated[Path | None, typer.Option(help=_ARRAY + "Labelled features (m, d).")] = None,
    labels: Annotated[Path | None, typer.Option(help=_ARRAY + "Their labels (m,), counted from 0.")] = None,
    labelled_logits: Annotated[Path | None, typer.Option(help=_ARRAY + "Their logits (m, c).")] = None,
    labelled_probs: Annotated[Path | None, typer.Option(help=_ARRAY + "Their probabilities (m, c).")] = None,
    labelled_enhanced: Annotated[Path | None, typer.Option(help=_ARRAY + "Their enhanced features (m, e).")] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Ids of the pool items: .npy, a text file with one a line, or a table (.csv, .tsv, .jsonl, .parquet) "
            "with a column id. Default 0..n-1."
        ),
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="Ids not to pick, in the same form; ids of no pool item are ignored.")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes, where the arrays do not show it.")] = None,
    seed: Annotated[int, typer.Option(help="Decides ties and draws.")] = 0,
    device: Annotated[str | None, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")] = None,
    pool: Annotated[Path | None, typer.Option(help="A pool on disk (`ncalr pool`) instead of pool arrays.")] = None,
    engine: Annotated[str, typer.Option(help="For --pool: local (threads), processes or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(help="For --pool: how many; as many as there are cores.")] = None,
    address: Annotated[
        str | None, typer.Option(help="For --engine ray: a cluster's address, or auto. Without: one of its own.")
    ] = None,
    out: Out = None,
    spreadsheet: Spreadsheet = False,
) -> None:
    """Say which pool items to label next, from arrays on disk or a pool of any size.

    The CSV has one row a pick, most wanted first: rank, id, score and the parts of the score.

    Example: ncalr query -k 500 --features pool.npy --checkpoint-predictions log.npy
    --labelled-features labelled.npy --labels labels.npy --out picks.csv
    """
    from ncalr.acquire.query import query

    arrays = {
        "features": features,
        "logits": logits,
        "probs": probs,
        "predictions": predictions,
        "checkpoint_predictions": checkpoint_predictions,
        "flips": flips,
        "sampled_probs": sampled_probs,
        "mean_probs": mean_probs,
        "enhanced": enhanced,
        "labelled_features": labelled_features,
        "labels": labels,
        "labelled_logits": labelled_logits,
        "labelled_probs": labelled_probs,
        "labelled_enhanced": labelled_enhanced,
    }
    if out is not None:
        check_picks_out(out, *arrays.values(), ids, exclude)
    given = {name: read_array(path) for name, path in arrays.items() if path is not None}
    given |= {"classes": classes, "seed": seed, "device": device}
    if pool is not None:
        given["exclude"] = read_ids(exclude, texts=has_text_ids(pool))
        with _flags_named():
            picks = _of_pool(strategy, k, pool, given, engine, workers, address, ids)
    else:
        _only_with_pool(engine, workers, address)
        names = read_ids(ids)
        given["exclude"] = read_ids(exclude, texts=names is not None and names.dtype.kind == "U")
        with _flags_named():
            picks = query(strategy, k, **given, ids=names)
    hand_out(picks, out, picks.notes, spreadsheet)


@contextmanager
def _flags_named() -> Iterator[None]:
    """Errors about arrays, in the words of the command line: `--labelled-features` for `labelled_features=`."""
    from ncalr.acquire.evidence import SHAPES
    from ncalr.errors import BadInput, MissingEvidence

    def flag(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')}"

    try:
        yield
    except BadInput as error:
        words = str(error).replace("statistics= or ", "")  # no file holds them
        if isinstance(error, MissingEvidence):
            words += ". Where you have vectors and labels and no model, ncalr suggest trains one on the way"
        error.args = (re.sub(rf"\b({'|'.join(SHAPES)})=(?![\w'(\[])", flag, words), *error.args[1:])
        raise


def _only_with_pool(engine: str, workers: int | None, address: str | None) -> None:
    from ncalr.errors import BadInput

    flags = {"--engine": engine != "local", "--workers": workers is not None, "--address": address is not None}
    given = [flag for flag, was_given in flags.items() if was_given]
    if given:
        raise BadInput(f"{', '.join(given)}: for --pool alone; arrays in files are worked on by all cores as it is")


def has_text_ids(pool: Path) -> bool:
    """Whether the ids of a pool on disk are texts."""
    from ncalr.data.manifest import IDS, read_manifest

    columns = read_manifest(pool).columns
    return IDS in columns and columns[IDS].dtype == "text"


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
        raise BadInput(
            f"--pool has columns of its own: leave out {', '.join(own)}, or put them into the pool (ncalr pool put)"
        )
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
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


def read_array(path: Path, how: str = "with numpy.save") -> Any:
    """A .npy file as a memory map; `how` to save one that can be read."""
    from ncalr.data.received import read_npy
    from ncalr.errors import BadInput

    if path.exists() and path.suffix in (".parquet", ".arrow", ".feather", ".npz", ".safetensors"):
        raise BadInput(
            f"{path} is no .npy file but may hold several columns: make a pool of it (ncalr pool create POOL {path}, "
            "with --ids COLUMN where one names the items) and pass --pool POOL; or save the array as .npy"
        )
    if path.is_dir():
        raise BadInput(f"{path} is a folder, expected a .npy file; a pool on disk is passed with --pool")
    return read_npy(path, f"save the array {how}")


def read_ids(path: Path | None, *, texts: bool = False) -> Any:
    """Ids from .npy, from the column `id` of a table (as of picks), or from text: whole numbers if all are, else texts.

    A line is a whole number only where the number is written as the line is: 00090 and 1_090 are names. With `texts`,
    numbers are taken for names too.
    """
    import numpy as np

    from ncalr.data.tables import TABLES, columns_of, is_whole, open_table
    from ncalr.errors import BadInput

    if path is None:
        return None
    if path.suffix == ".npy":
        return read_array(path, "as whole numbers or texts: numpy.save(FILE, ids.astype(str))")
    suffix = path.suffix.lower()
    if suffix in TABLES and path.is_file() and (suffix not in (".csv", ".tsv") or "id" in columns_of(path)):
        table = open_table(path)
        found = [name for block in table.rows(["id"]) for name in block.columns["id"]]
        if table.format.typed:
            return np.array(found if not texts else [str(name) for name in found])
        lines = found
    else:
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read ids from {path} ({error})") from None
    words = [line.strip() for line in lines if line.strip()]
    if not texts and all(is_whole(word) for word in words):
        return np.array([int(word) for word in words], np.int64)
    return np.array(words)


def hand_out(picks: Any, out: Path | None, notes: Iterable[str], spreadsheet: bool) -> None:
    """What there is to say, and the picks where they are wanted."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    write(picks, out, spreadsheet)
    if out is not None:
        print(f"{len(picks)} ids by {picks.strategy} written to {out}", file=sys.stderr)


def write(picks: Any, out: Path | None, spreadsheet: bool = False) -> None:
    """Write the picks in the form the file's name asks for."""
    import numpy as np

    from ncalr.data.files import write_whole, written_whole

    if out is None:
        _write_csv(picks.rows(), sys.stdout, spreadsheet)
    elif out.suffix == ".npy":
        with written_whole(out) as file:
            np.save(file, picks.ids)
    elif out.suffix == ".json":
        rows = {"strategy": picks.strategy, "notes": list(picks.notes), "picks": picks.rows()}
        write_whole(out, json.dumps(rows, indent=1) + "\n")
    else:
        save_csv(picks.rows(), out, spreadsheet)


def save_csv(rows: list[dict[str, Any]], out: Path, spreadsheet: bool = False) -> None:
    """Write rows as a table in a file; for a `spreadsheet` with no text that it would run."""
    from ncalr.data.files import write_whole

    text = io.StringIO()
    _write_csv(rows, text, spreadsheet)
    write_whole(out, text.getvalue())


def _write_csv(rows: list[dict[str, Any]], file: Any, spreadsheet: bool) -> None:
    from ncalr.data.tables import escaped

    def cell(value: Any) -> Any:
        return escaped(value) if spreadsheet and isinstance(value, str) else value

    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([cell(value) for value in row] for row in (rows[0], *(row.values() for row in rows)))


def check_picks_out(out: Path, *read: Path | None) -> None:
    """As `check_out`, and raise where people have written labels into what would be replaced."""
    from ncalr.data.tables import count_labels

    check_out(out, ".csv", ".json", ".npy", read=read)
    if out.suffix == ".csv":
        keep_labels(out, lambda: (count_labels(out), ""), "the picks")


def keep_labels(out: Path, lost: Callable[[], tuple[int, str]], what: str) -> None:
    """Raise where `what` would replace a file into which people have written labels: how many, and which."""
    from ncalr.errors import BadInput

    if not out.is_file():
        return
    try:
        count, which = lost()
    except BadInput as error:
        raise BadInput(
            f"{error}. So it is not known whether {out} holds labels, which would be lost; write {what} to another file"
        ) from None
    if count:
        raise BadInput(f"{out} holds {count:,} labels{which}, which would be lost; write {what} to another file")


def check_out(out: Path, *suffixes: str, read: Iterable[Path | None] = ()) -> None:
    """Raise where a file of these kinds cannot be written, before the work whose outcome it is for.

    What is `read` for that work is not replaced by it.
    """
    from ncalr.errors import BadInput

    if out.suffix not in suffixes:
        forms = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise BadInput(f"--out must end in {forms}, got {out.name!r}")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {out.parent} to write {out.name} to; make it first")
    if out.is_dir():
        raise BadInput(f"{out} is a folder, and --out is the file to write; give it another name")
    if out.exists() and any(path is not None and path.exists() and path.samefile(out) for path in read):
        raise BadInput(f"{out} is read here, and --out would replace it; give it another name")
    if not os.access(out.absolute().parent, os.W_OK):
        raise BadInput(f"the folder {out.absolute().parent} may not be written to; choose another place")
