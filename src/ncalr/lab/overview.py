"""One page over the noises of a study, with Markdown and CSV beside it: what each strategy came to under each of them.

The figures are those of the members' own reports; nothing is computed across noises, and p-values are corrected within
each.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ncalr.data.files import write_set
from ncalr.data.pool import Pool
from ncalr.errors import BadInput
from ncalr.lab import plots
from ncalr.lab.noise import truth_of, wrong_at_last
from ncalr.lab.report import (
    ABOUT,
    command,
    curves_of,
    few,
    items_of,
    result_rows,
    section,
    stopped,
    whole_page,
    words_of,
    write_report,
)
from ncalr.lab.runner import read_runs
from ncalr.lab.study import NONE, Study
from ncalr.lab.tables import counted, csv_text, interval, markdown_table

WRONG = (
    "Wrong labels: the share of the labels learnt at the last budget that are wrong, mean and 95 % interval over the "
    "seeds; beside the noise, the share of all answers about the whole pool that are wrong. A strategy above it finds "
    "wrong labels; one below it avoids them, or has several answers an item. The test set is clean."
)


def write_overview(
    study: Study,
    folder: Path,
    class_names: list[str] | None = None,
    pool: Pool | None = None,
    out: Path | str | None = None,
    truth: Any = None,
    pool_wrong: Mapping[str, float | None] | None = None,
) -> Path:
    """report.html, report.md and noises.csv of a study, and the report of each of its members; the page's path.

    They go to `out`, or to the study's own directory. `pool_wrong` has the share of wrong answers about the whole
    pool by noise, where that is known.
    """
    out = Path(out or folder)
    found: list[dict[str, Any]] = []
    caution, notes, ended = [], [], {}
    known = truth_of(pool, truth)
    for name, member in study.members.items():
        noise = member.noise or NONE
        runs = read_runs(folder / name)
        if not any(run.accuracies for run in runs):
            notes.append(f"{noise}: no training has finished yet.")
            continue
        write_report(folder / name, class_names, pool, out / name, truth)
        summary = json.loads((out / name / "summary.json").read_text(encoding="utf-8"))
        caution += [f"{noise}: {word}" for word in summary["caution"]]
        notes += [f"{noise}: {word}" for word in curves_of(runs)[1]]
        wrong = {"wrong": wrong_at_last(runs, known), "wrong_answers": (pool_wrong or {}).get(member.noise)}
        found.append({"noise": noise, "folder": name, **wrong, "summary": summary})
        ended[noise] = all(stopped(run) for run in runs)
    if not found:
        raise BadInput(f"no training of {folder} has finished yet: nothing to report")
    lasts = [one["summary"]["budgets"][-1] for one in found]
    behind = [(one, last) for one, last in zip(found, lasts, strict=True) if last < max(lasts)]
    for one, last in behind:
        what = "stopped" if ended[one["noise"]] else "not finished"
        notes.append(f"{one['noise']}: {what}, its figures are those up to {last:,.0f}.")
    page = out / "report.html"
    numbers = {"noises": found, "caution": caution, "notes": notes}
    write_set(
        {
            out / "noises.csv": csv_text(_rows(found)),
            out / "summary.json": json.dumps(numbers, indent=1, allow_nan=False),
            out / "report.md": markdown_table(*overview_rows(found)),
            page: _page(study, folder, found, [*caution, *notes]),
        }
    )
    return page


def overview_rows(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The table of the overview: one row a noise and strategy."""
    heads, rows = [], []
    for one in found:
        head, results = result_rows(one["summary"])
        heads.append(head)
        pool = one["wrong_answers"]
        for row in results:
            wrong = one["wrong"].get(row[0])
            shares = ["" if wrong is None else interval(**wrong), "" if pool is None else interval(pool, None, None)]
            rows.append([one["noise"], *row, *shares])
    accuracy = heads[0][1] if len({head[1] for head in heads}) == 1 else "accuracy at the last budget"
    return ["noise", "strategy", accuracy, *heads[0][2:], "wrong labels, %", "wrong answers, %"], rows


def _page(study: Study, folder: Path, found: list[dict[str, Any]], notes: list[str]) -> str:
    experiment = study.experiment
    noises = [one["noise"] for one in found]
    strategies = list(dict.fromkeys(name for one in found for name in one["summary"]["strategies"]))
    again = [command(experiment, folder, study.noises)]
    again += [shlex.join(["ncalr", what, str(folder)]) for what in ("resume", "report")]
    parts = [
        f"<h1>{escape(experiment.dataset)}: {len(strategies)} strategies under {len(study.noises)} noises, "
        f"{counted(experiment.seeds, 'seed')}</h1>",
        f"<p class=soft>{escape(words_of(experiment, 'several noises', items_of(folder)))} Noise that is drawn is "
        "drawn anew for each seed, the same for all strategies.</p>",
        "<h2>Result</h2>",
        f"<div class=scroll>{_table(found)}</div>",
        f"<p class=soft>{ABOUT} Each noise is an experiment of its own, and p-values are corrected within it.</p>",
        f"<p class=soft>{WRONG}</p>",
        *(f"<p>{escape(word)}</p>" for word in few(notes)),
        section(
            "Learning curves",
            plots.curves_by_noise({one["noise"]: one["summary"] for one in found}),
            "Bands are 95 % intervals over the seeds.",
        ),
        section(
            "Wrong labels",
            plots.wrong_by_noise(
                noises,
                strategies,
                {one["noise"]: one["wrong"] for one in found},
                {one["noise"]: one["wrong_answers"] for one in found},
            ),
            "Of the labels at the last budget, mean and 95 % interval over the seeds.",
        ),
        "<h2>Again</h2>",
        f"<pre>{escape(chr(10).join(again))}</pre>",
        f"<pre>{escape(json.dumps(study.as_claim(), indent=1))}</pre>",
    ]
    return whole_page(experiment.dataset, parts)


def _table(found: list[dict[str, Any]]) -> str:
    """The rows of each noise below its name, which leads to its own report, and its share of wrong answers."""
    head, rows = overview_rows(found)
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head[1:-1])
    body = ""
    for one in found:
        link = f"<a href='{quote(one['folder'])}/report.html'>{escape(one['noise'])}</a>"
        mine = [row for row in rows if row[0] == one["noise"]]
        pool = f"pool: {mine[0][-1]}" if mine[0][-1] else ""
        body += f"<tr><th colspan={len(head) - 3} style='white-space: normal'>{link}</th><td>{pool}</td></tr>"
        for row in mine:
            body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:-1]) + "</tr>"
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _rows(found: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Every number of the table, as shares."""
    sides = ("mean", "low", "high")
    names = ("accuracy", "aubc", "to_random", "wrong")
    head = [
        "noise",
        "folder",
        "strategy",
        "budget",
        *(f"{n}{'' if s == 'mean' else '_' + s}" for n in names for s in sides),
    ]
    yield [*head, "p_holm", "wrong_answers"]
    for one in found:
        summary = one["summary"]
        for name in summary["strategies"]:
            accuracy = {side: summary["accuracy"][name][side][-1] for side in sides}
            against = (summary["to_random"] or {}).get(name, {}).get("aubc", {})
            groups = (accuracy, summary["aubc"][name], against, one["wrong"].get(name, {}))
            numbers = [group.get(side) for group in groups for side in sides]
            place = [one["noise"], one["folder"], name, summary["budgets"][-1]]
            yield [*place, *numbers, against.get("p_holm"), one["wrong_answers"]]
