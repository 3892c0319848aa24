"""`ncalr audit`: list the labels of a run, or of vectors in a file, that look wrong."""

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
        str, typer.Option(help="Strategy of the run to audit (default: the first of the experiment).")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Seed of the run to audit (default: the first).")] = None,
    top: Annotated[int, typer.Option(min=0, help="Number of labels to print.")] = 20,
    folds: Annotated[
        int | None,
        typer.Option(help="Number of networks to train for a run, each for the labels it was not shown (default: 3)."),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="Training recipe of these networks (default: the run's own, with loss=elr).")
    ] = "",
    rival: Annotated[
        list[str] | None, typer.Option(help="Also run this detector on the same models, for comparison: cleanlab.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file for the whole list.")] = None,
    spreadsheet: Spreadsheet = False,
    root: Annotated[
        Path | None, typer.Option("--root", help="Directory of the datasets (default: the environment's NCALR_DATA).")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Device for these networks: cpu or cuda (default: the GPU, if present)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find labels that look wrong: a ranked list with suggestions and reasons, and the share that is wrong.

    Examples: ncalr audit runs/digits --out doubts.csv; ncalr audit embeddings.npy labels.csv --out doubts.csv
    """
    import json

    from ncalr.cli.query import check_out, read_ids, save_csv
    from ncalr.errors import BadInput
    from ncalr.evaluate.audit_run import audit_file, audit_run

    how: dict[str, Any] = {"rivals": tuple(rival or ())}
    if out is not None:
        check_out(out, ".csv", read=[folder, *(labels or []), ids])
        how["before"] = partial(_keep_labels, out)
    if folder.is_file():
        runs: dict[str, Any] = {
            "--strategy": strategy,
            "--folds": folds,
            "--recipe": recipe,
            "--device": device,
            "--root": root,
        }
        for option, value in runs.items():
            if value:
                raise BadInput(f"{option} is for the runs of an experiment, and {folder} is a file of vectors.")
        report = audit_file(folder, labels, ids=read_ids(ids), seed=seed or 0, **how)
    elif labels or ids is not None:
        what = f"labels ({labels[0]})" if labels else f"--ids ({ids})"
        raise BadInput(f"{what} go with a file of vectors; {folder} is no file")
    else:
        networks: dict[str, Any] = {"folds": folds or 3, "recipe": recipe, "device": device}
        report = audit_run(folder, strategy=strategy, seed=seed, root=root, **networks, **how)
    if as_json:
        print(json.dumps({**report.summary, "rows": report.rows[:top]}, indent=1))
        if out is not None:
            save_csv(report.rows, out, spreadsheet)
        return
    for line in report.words:
        print(line)
    shown = report.rows[:top]
    advice = [_advice(row) for row in shown]
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


def _advice(row: dict[str, Any]) -> str:
    """Return the suggested class, or whether the label is to be kept or checked."""
    if row["suggested"] != row["label"]:
        return str(row["suggested"])
    return "keep" if row["wrong"] < 0.5 else "check"


def _keep_labels(out: Path, audited: dict[Any, str]) -> None:
    """Raise if the list would replace labels that people wrote, also into the list of an earlier audit.

    Such a list may be replaced as long as its labels are those that are `audited`.
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
