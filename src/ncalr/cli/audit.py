"""`ncalr audit`: which labels of a run, or of vectors in a file, to look at again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ncalr.cli.query import Spreadsheet
from ncalr.cli.suggest import Ids


def run(
    folder: Annotated[
        Path, typer.Argument(help="The directory of an experiment, or a file of vectors as for `ncalr suggest`.")
    ],
    labels: Annotated[
        list[Path] | None, typer.Argument(help="The labels of the vectors, in files as for `ncalr suggest`.")
    ] = None,
    ids: Ids = None,
    strategy: Annotated[
        str, typer.Option(help="Whose labels, where the experiment has several; the first if none.")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Of which seed; the first if none.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many labels to print.")] = 20,
    folds: Annotated[int, typer.Option(help="Networks to train, each judging the labels it was not shown.")] = 3,
    recipe: Annotated[str, typer.Option(help="How to train them; the run's own recipe, with loss=elr, if none.")] = "",
    rival: Annotated[
        list[str] | None, typer.Option(help="A library to hear beside, on the same networks: cleanlab.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file for the whole list.")] = None,
    spreadsheet: Spreadsheet = False,
    root: Annotated[Path | None, typer.Option("--root", help="Where the datasets are (or set NCALR_DATA).")] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu or cuda; the GPU if there is one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Find labels that look wrong: a ranked list with suggestions and reasons, and the share that is wrong.

    Examples: ncalr audit runs/digits --out doubts.csv; ncalr audit embeddings.npy labels.csv --out doubts.csv
    """
    import json

    from ncalr.cli.query import check_out, read_ids, save_csv
    from ncalr.errors import BadInput
    from ncalr.evaluate.audit_run import audit_run, audit_vectors

    how: dict[str, Any] = {"folds": folds, "recipe": recipe, "device": device, "rivals": tuple(rival or ())}
    if out is not None:
        check_out(out, ".csv", read=[folder, *(labels or []), ids])
        how["before"] = partial(_keep_labels, out)
    if folder.is_file():
        if strategy:
            raise BadInput(f"--strategy chooses among the runs of an experiment; {folder} is a file of vectors")
        report = audit_vectors(folder, labels, ids=read_ids(ids), seed=seed or 0, **how)
    elif labels or ids is not None:
        what = f"labels ({labels[0]})" if labels else f"--ids ({ids})"
        raise BadInput(f"{what} go with a file of vectors; {folder} is no file")
    else:
        report = audit_run(folder, strategy=strategy, seed=seed, root=root, **how)
    if as_json:
        print(json.dumps({**report.summary, "rows": report.rows[:top]}, indent=1))
        if out is not None:
            save_csv(report.rows, out, spreadsheet)
        return
    for line in report.words:
        print(line)
    shown = report.rows[:top]
    advice = ["keep" if row["suggested"] == row["label"] else str(row["suggested"]) for row in shown]
    first, second, third = (
        max(map(len, column), default=0)
        for column in ([str(row["id"]) for row in shown], [str(row["label"]) for row in shown], advice)
    )
    for row, word in zip(shown, advice, strict=True):
        print(
            f"{row['rank']:>4}  {row['id']!s:<{first}}  {row['label']!s:<{second}}  -> {word:<{third}}  {row['reason']}"
        )
    if out is not None:
        save_csv(report.rows, out, spreadsheet)
        print(f"all {len(report.rows):,} labels, the most doubtful first: {out}")
    for note in report.summary.get("notes", []):
        print(f"note: {note}")


def _keep_labels(out: Path, audited: dict[Any, str]) -> None:
    """Raise where the list would replace labels that people wrote, be it into the list of an earlier audit.

    Of such a list everything is written again but labels that are not `audited`.
    """
    from ncalr.cli.query import keep_labels
    from ncalr.data.tables import columns_of, count_labels, escaped, open_table
    from ncalr.evaluate.audit import COLUMNS, DETAILS

    now = {str(name).strip(): label.strip() for name, label in audited.items()}
    now |= {escaped(name): label for name, label in now.items()}

    def lost() -> tuple[int, str]:
        there = columns_of(out)
        if not set(COLUMNS) <= set(there) <= {*COLUMNS, *DETAILS}:
            return count_labels(out), ""
        blocks = (block.columns for block in open_table(out).rows(["id", "label"]))
        rows = (row for columns in blocks for row in zip(columns["id"], columns["label"], strict=True))
        pairs = ((now.get(name.strip(), ""), label.strip()) for name, label in rows)
        return sum(label not in (given, escaped(given)) for given, label in pairs), " that are not those audited"

    keep_labels(out, lost, "the list")
