"""One self-contained HTML page from the journals of an experiment, with Markdown and CSV beside it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from ncalr.data.fields import is_count
from ncalr.data.files import write_set
from ncalr.data.pool import Pool
from ncalr.errors import BadInput
from ncalr.lab import plots
from ncalr.lab.alike import why_apart
from ncalr.lab.card import card_section, control_hits
from ncalr.lab.comparison import apart, cost, made_by, of_first, power, savings, unanswered, unsettled
from ncalr.lab.evaluation_report import evaluations, evaluations_as_markdown
from ncalr.lab.evaluations import read_evaluations
from ncalr.lab.experiment import Experiment
from ncalr.lab.gallery import gallery
from ncalr.lab.noise import answers_table, learnt, truth_of
from ncalr.lab.runner import Run, read_experiment, read_runs
from ncalr.lab.statistics import Curves, summary
from ncalr.lab.tables import UNFINISHED, counted, csv_text, html_table, interval, markdown_table, p_value, signed
from ncalr.loop.environment import read_environments
from ncalr.loop.journal import read_data
from ncalr.loop.state import spent

STYLE = """
:root { color-scheme: light; --ink: #1d2329; --soft: #5b6570; --line: #e1e5e9; --accent: #1f5fa8; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 54rem; margin: 0 auto;
  padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
p, li { max-width: 44rem; } .soft { color: var(--soft); }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
@media (min-width: 56rem) { .scroll { width: max-content; min-width: 100%; max-width: calc(100vw - 3rem);
  position: relative; left: 50%; transform: translateX(-50%); } }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; }
.gallery { display: flex; flex-wrap: wrap; gap: .8rem; }
.card { width: 6.4rem; margin: 0; font-size: .8rem; line-height: 1.35; }
.card img { width: 100%; image-rendering: pixelated; border-radius: 4px; border: 1px solid var(--line); }
pre { background: #f5f7f9; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; border-radius: 6px; }
@media print { body { max-width: none; } .scroll { width: auto; max-width: none; left: 0; transform: none; }
  h2 { break-after: avoid; } figure, table { break-inside: avoid; } }
"""
SAID = ("ids", "labels", "again", "changes", "accuracy")
"""What two runs of a strategy with a seed have in common: questions, answers and what was learnt from them."""
NC_MEASURES = {
    "NC1, spread inside the classes over that between": "nc1",
    "NC2, how unequal the angles between means are": "nc2_equiangular",
    "NC3, means against the last layer": "nc3",
    "NC4, disagreement with the nearest mean": "nc4",
}
ABOUT = (
    "In points of test accuracy, mean and 95 % interval over the seeds, by Student's t. The area under the budget "
    "curve is its mean height between the first and the last budget; “area against random” is a difference of two, "
    "paired by seed. Its interval is for that strategy alone, its p-value (paired t-test) is corrected for all of them "
    "by Holm's method: so an interval may leave out 0 where p is above 0.05."
)


def write_report(
    folders: Path | str | Sequence[Path | str],
    class_names: list[str] | None = None,
    pool: Pool | None = None,
    out: Path | str | None = None,
    truth: Any = None,
) -> Path:
    """report.html, report.md and curves.csv of one experiment, or of several that may be compared; the page's path.

    They go to `out`, or to the (first) experiment's own directory. With the pool at hand and images in it, the page
    shows some of the items that were picked, and why; with the truth about its items, in their order, how many labels
    are wrong.
    """
    places = [Path(folders)] if isinstance(folders, (str, Path)) else [Path(folder) for folder in folders]
    experiment, runs = together(places)
    out = Path(out or places[0])
    out.mkdir(parents=True, exist_ok=True)
    curves, facts = curves_of(runs)
    found = {**summary(curves), "unit": unit_of(runs), "caution": unsettled(runs)}
    if _rules(runs):
        going = {run.strategy for run in runs if not run.ended}
        found["ended"] = [name for name in found["strategies"] if name not in going]
    known = truth_of(pool, truth)
    page = out / "report.html"
    write_set(
        {
            out / "curves.csv": csv_text(_curve_rows(runs, known)),
            out / "summary.json": json.dumps(found, indent=1, allow_nan=False),
            out / "report.md": markdown_table(*result_rows(found)) + evaluations_as_markdown(runs, found["unit"]),
            page: _page(experiment, places, runs, found, facts, class_names or [], pool, known),
        }
    )
    return page


def together(folders: Sequence[Path], named: bool = False) -> tuple[Experiment, list[Run]]:
    """The runs of several directories as one experiment; an error where they cannot be compared.

    Where their policies of answers differ, or with `named`, the policy is a part of a strategy's name.
    """
    experiments = [read_experiment(folder) for folder in folders]
    first = experiments[0]
    for one, other in combinations(folders, 2):
        why = why_apart(one, other)
        if why:
            raise BadInput(
                f"{one} and {other} cannot be compared: {why}; report them apart, or let `ncalr report` compare their "
                "strategies across data sets"
            )
    runs = [run for folder in folders for run in read_runs(folder)]
    if named or len({other.answers for other in experiments}) > 1:
        runs = [run for folder, other in zip(folders, experiments, strict=True) for run in named_runs(folder, other)]
    found: dict[tuple[str, int], Run] = {}
    for run in runs:
        there = found.get((run.strategy, run.seed))
        found[run.strategy, run.seed] = run if there is None else one_of(there, run)
    runs = [*found.values()]
    strategies = tuple(dict.fromkeys(name for other in experiments for name in other.strategies))
    seeds = len({run.seed for run in runs})
    return replace(first, strategies=strategies, seeds=seeds, first_seed=min(run.seed for run in runs)), runs


def one_of(run: Run, other: Run) -> Run:
    """Of two runs of a strategy with a seed, the one that is farther or better evaluated; they must be the same."""
    folders = " and ".join(str(one.journal.folder.parents[1]) for one in (run, other))
    for line, beside in zip(run.lines, other.lines, strict=False):
        key = next((name for name in SAID if line.get(name) != beside.get(name)), None)
        if key is not None:
            values = f": {line.get(key)} and {beside.get(key)}" if key == "accuracy" else ""
            raise BadInput(
                f"{run.strategy} with seed {run.seed} is in {folders}, and is not the same run in both: from round "
                f"{line['round']} on ({key}{values}). Runs come out the same on one machine with one set of libraries "
                "alone. Report the folders apart, or add the strategies of one to the other: its command, with more "
                "in --against"
            )
    return max(run, other, key=lambda one: (len(one.lines), len(read_evaluations(one))))


def named_runs(folder: Path, experiment: Experiment) -> list[Run]:
    """The runs of a directory, their policy of answers a part of the name: so policies can be compared."""
    more = "" if experiment.answers == "single" else f", {experiment.answers}"
    return [replace(run, strategy=run.strategy + more) for run in read_runs(folder)]


def unit_of(runs: list[Run]) -> str:
    """What a budget counts: answers, where an item may get several."""
    return "answers" if any("answers" in line for run in runs for line in run.lines) else "labels"


def curves_of(runs: list[Run]) -> tuple[Curves, list[str]]:
    """Accuracies by strategy, seed and budget; runs that are not finished have gaps, and a word says so."""
    budgets = sorted({budget for run in runs for budget, _ in run.accuracies})
    if not budgets:
        raise BadInput("no training has finished yet: nothing to report")
    seeds = sorted({run.seed for run in runs})
    strategies = list(dict.fromkeys(run.strategy for run in runs))
    table = {name: np.full((len(seeds), len(budgets)), np.nan) for name in strategies}
    for run in runs:
        for budget, accuracy in run.accuracies:
            table[run.strategy][seeds.index(run.seed), budgets.index(budget)] = accuracy
    early = sum(bool(stopped(run)) and run.accuracies[-1][0] < budgets[-1] for run in runs)
    missing = sum(int(np.isnan(rows).any(axis=1).sum()) for rows in table.values()) - early
    notes = [f"{missing} of {len(runs)} runs are not finished: their missing rounds are left out."] if missing else []
    if early:
        notes.append(
            f"{early} of {len(runs)} runs stopped before {budgets[-1]:,} by a rule ({_rules(runs)}): accuracies at a "
            "budget are those of the runs that went so far, areas and differences those of runs with the whole curve."
        )
    return Curves(np.array(budgets), table), [*notes, *unanswered(runs)]


def stopped(run: Run) -> str:
    """Why a run stopped before its budget was spent; nothing where it did not."""
    reason = str(run.lines[-1].get("stop", "")) if run.lines else ""
    return reason if ":" in reason else ""


def _rules(runs: list[Run]) -> str:
    return ", ".join(sorted({reason.partition(":")[0] for run in runs if (reason := stopped(run))}))


def _stops(runs: list[Run], unit: str) -> str:
    """Where a rule stopped the runs of each strategy, and how good they were there; nothing where none did."""
    body = []
    for name in dict.fromkeys(run.strategy for run in runs):
        mine = [run for run in runs if run.strategy == name]
        ends = [run.accuracies[-1] for run in mine if stopped(run)]
        if not ends:
            body.append([name, f"0 of {len(mine)}", "", "", ""])
            continue
        spent_ = [budget for budget, _ in ends]
        between = f" ({min(spent_):,} to {max(spent_):,})" if len(set(spent_)) > 1 else ""
        accuracy = f"{100 * np.mean([accuracy for _, accuracy in ends]):.1f}"
        body.append([name, f"{len(ends)} of {len(mine)}", f"{np.mean(spent_):,.0f}{between}", accuracy, _rules(mine)])
    if not _rules(runs):
        return ""
    table = html_table(["strategy", "stopped", unit, "accuracy", "rule"], body)
    return (
        f"<h2>When they stopped</h2><div class=scroll>{table}</div><p class=soft>Runs that a rule stopped before the "
        "budget was spent: the mean of what they had spent (in brackets the least and the most), and of their accuracy "
        "there. A rule that reads the test set, as target and plateau do, needs one: its labels are not counted.</p>"
    )


def command(experiment: Experiment, out: Path, noises: Sequence[str] = ()) -> str:
    """The line that runs an experiment, or one under several noises."""
    first, *others = experiment.strategies
    given = [f"--strategy {shlex.quote(first)}"] if first != "ncal" else []
    given += [f"--against {shlex.quote(','.join(others))}"] if others != ["random"] else []
    for one in fields(experiment):  # the flags are called after them
        value, flag = getattr(experiment, one.name), f"--{one.name.replace('_', '-')}"
        if one.name not in ("dataset", "strategies") and value != one.default:
            given.append(flag if value is True else f"{flag} {shlex.quote(str(value))}")
    given += [f"--noise {shlex.quote(noise or 'none')}" for noise in noises]
    return " ".join(["ncalr run", shlex.quote(experiment.dataset), *given, f"--out {shlex.quote(str(out))}"])


def result_rows(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The table of the report: one row a strategy."""
    head = [
        "strategy",
        f"accuracy at {found['budgets'][-1]:,.0f} {found.get('unit', 'labels')}",
        "area under the curve",
        "area against random",
        "p (Holm)",
    ]
    rows = []
    for name in found["strategies"]:
        last = {side: found["accuracy"][name][side][-1] for side in ("mean", "low", "high")}
        area = found["aubc"][name]
        against = (found["to_random"] or {}).get(name)
        cells = [
            interval(last["mean"], last["low"], last["high"]),
            interval(area["mean"], area["low"], area["high"]),
            "" if against is None else signed(against["aubc"]),
            "" if against is None else p_value(against["aubc"]["p_holm"]),
        ]
        ended = name in found.get("ended", [])
        rows.append([name, *("stopped" if ended and cell == UNFINISHED else cell for cell in cells)])
    return head, rows


def _page(
    experiment: Experiment,
    folders: list[Path],
    runs: list[Run],
    found: dict[str, Any],
    notes: list[str],
    names: list[str],
    pool: Pool | None,
    truth: dict[Any, int],
) -> str:
    head, rows = result_rows(found)
    table = html_table(head, rows)
    environment = next((known for run in runs if (known := read_environments(run.journal.folder))), None)
    again = [command(experiment, folders[0])] if len(folders) == 1 else []
    again += [shlex.join(["ncalr", "resume", str(folder)]) for folder in folders]
    again.append(shlex.join(["ncalr", "report", *map(str, folders)]))
    words = few([*found["caution"], *notes, *made_by(runs), *apart(runs), *power(found), *found.get("notes", [])])
    parts = [
        f"<h1>{escape(experiment.dataset)}: {len(found['strategies'])} strategies, "
        f"{counted(experiment.seeds, 'seed')}</h1>",
        f"<p class=soft>{escape(words_of(experiment, items=items_of(folders[0])))}</p>",
        "<h2>Result</h2>",
        f"<div class=scroll>{table}</div>",
        f"<p class=soft>{ABOUT}</p>",
        *(f"<p>{escape(word)}</p>" for word in words),
        of_first(found),
        section("Learning curves", plots.learning_curves(found), "Bands are 95 % t intervals over the seeds."),
        section(
            "Difference to random",
            plots.differences(found),
            "Paired by seed, with 95 % t intervals that are not corrected; above zero is better than random.",
        ),
        section(
            "Who beats whom",
            plots.penalties(found["penalties"]) if found.get("penalties") else "",
            "Share of the budgets at which the row is better than the column by a paired t-test at 5 %, not corrected; "
            "the first, where all have learnt the same labels, is nobody's. Below each column its mean: how often that "
            "one is beaten.",
        ),
        _stops(runs, found["unit"]),
        savings(found),
        card_section(runs, len(names) or _class_count(runs)),
        answers_table(runs, truth),
        _control(runs),
        section(
            "Picks in common",
            _overlap(runs),
            "Share of the items picked after the initial pool that two strategies have in common, same seed."
            + _by_chance(runs, folders),
        ),
        section(
            "Which classes were picked", _classes_picked(runs, names), "Labels asked for after the initial pool, a run."
        ),
        section(
            "Collapse",
            plots.collapse(_collapse_rows(runs)),
            "On the labelled set, at the end of each training; lower is nearer.",
        ),
        section(
            "Distances between class means",
            plots.separation(_distances(runs)),
            "Of the last training of every run, over the mean length of the class means; farther right: farther apart.",
        ),
        evaluations(runs, found["unit"]),
        cost(runs, experiment),
        gallery(runs, names, pool),
        "<h2>Again</h2>",
        f"<pre>{escape(chr(10).join(again))}</pre>",
        f"<pre>{escape(json.dumps(experiment.as_dict(), indent=1))}</pre>",
    ]
    if environment is not None:
        facts = {**environment[0], **({"later": environment[1:]} if environment[1:] else {})}
        parts.append(f"<pre>{escape(json.dumps(facts, indent=1))}</pre>")
    return whole_page(experiment.dataset, parts)


def whole_page(title: str, parts: Sequence[str]) -> str:
    """One HTML file with nothing to fetch."""
    body = "\n".join(parts)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>ncalr: {escape(title)}</title><style>{STYLE}</style><body>{body}</body></html>\n"
    )


def few(words: list[str], most: int = 5) -> list[str]:
    """The first words; an experiment that has just begun has a great many, all of one kind."""
    rest = len(words) - most
    return words if rest <= 1 else [*words[:most], f"And {rest} more of this kind, in summary.json."]


def control_estimates(runs: list[Run]) -> dict[str, dict[int, tuple[int, int]]]:
    """For each strategy and number of labels: how many control items were predicted right, and how many there were.

    They are drawn at random from what is not labelled yet and predicted before they are asked about, so their share is
    an unbiased estimate of the accuracy there, whatever the strategy picks beside them.
    """
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for run in runs:
        for line in run.lines:
            if "control" in line:
                rows, hits = found.setdefault(run.strategy, {}), control_hits(line)
                before = rows.get(spent(line), (0, 0))
                rows[spent(line)] = (before[0] + hits[0], before[1] + hits[1])
    return found


def _control(runs: list[Run]) -> str:
    estimates = control_estimates(runs)
    if not estimates:
        return ""
    budgets = sorted({budget for rows in estimates.values() for budget in rows})
    body = []
    for name, rows in estimates.items():
        cells = []
        for budget in budgets:
            hits, count = rows.get(budget, (0, 0))
            between = binomtest(hits, count).proportion_ci(method="wilson") if count else None
            cells.append("" if between is None else interval(hits / count, between.low, between.high))
        body.append([name, *cells])
    table = html_table(["strategy", *(f"{budget:,}" for budget in budgets)], body)
    return (
        f"<h2>Accuracy estimated from the control arm</h2><div class=scroll>{table}</div>"
        "<p class=soft>Items drawn at random and predicted before they were labelled; Wilson's 95 % interval, seeds "
        "together. Answers count as they were given: wrong labels lower it.</p>"
    )


def _overlap(runs: list[Run]) -> str:
    names = list(dict.fromkeys(run.strategy for run in runs))
    picked = {
        (run.strategy, run.seed): {item for line in run.lines[1:] for item in line.get("ids", [])} for run in runs
    }
    seeds = sorted({run.seed for run in runs})
    matrix = np.full((len(names), len(names)), np.nan)
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            shares = [
                len(picked[one, seed] & picked[other, seed]) / len(picked[one, seed])
                for seed in seeds
                if picked.get((one, seed)) and (other, seed) in picked
            ]
            matrix[i, j] = np.mean(shares) if shares else np.nan
    return plots.overlap(matrix, names)


def _by_chance(runs: list[Run], folders: Sequence[Path]) -> str:
    """What two strategies that draw at random would have in common, where the size of the pool is known."""
    items = items_of(folders[0]) or 0
    left = items - len(runs[0].lines[0].get("ids", [])) if runs[0].lines else 0
    picked = np.mean([sum(len(line.get("ids", [])) for line in run.lines[1:]) for run in runs])
    return f" Two that draw at random have about {picked / left:.0%} in common." if 0 < picked <= left else ""


def items_of(folder: Path) -> int | None:
    """The size of the pool that an experiment was carried out on, where its folder says so."""
    known = (read_data(folder) or {}).get("pool")
    items = known.get("items") if isinstance(known, dict) else None
    return items if is_count(items) else None


def words_of(experiment: Experiment, noise: str = "", items: int | None = None) -> str:
    """An experiment in two sentences."""
    return f"{protocol_of(experiment, noise, items)} All strategies of a seed begin with the same labels."


def protocol_of(experiment: Experiment, noise: str = "", items: int | None = None) -> str:
    """What was done with the data of an experiment, in a sentence; `items` is the size of the pool, where known."""
    last = experiment.within(items)[-1]
    short = "" if last == experiment.end else f" (all of the pool; the plan went to {experiment.end:,})"
    noise = noise or (f"noise {experiment.noise}" if experiment.noise else "clean labels")
    drawn = ", stratified initial pools" if experiment.stratified else ""
    asked = "" if experiment.answers == "single" else f", answers {experiment.answers} (budgets count answers)"
    asked += f", stopped by {experiment.stops}" if experiment.stops else ""
    return (
        f"{experiment.start} to {last} labels by {experiment.step}{short}, {experiment.network}, recipe "
        f"{experiment.recipe}, {noise}{drawn}{asked}."
    )


def section(title: str, picture: str, words: str) -> str:
    """A picture with its heading; nothing where there is none."""
    return f"<h2>{title}</h2><figure>{picture}<figcaption class=soft>{words}</figcaption></figure>" if picture else ""


def _classes_picked(runs: list[Run], names: list[str]) -> str:
    counts: dict[str, Any] = {}
    seeds: dict[str, int] = {}
    top = _class_count(runs)
    for run in runs:
        labels = [label for line in run.lines[1:] for label in line.get("labels", []) if label >= 0]
        counts[run.strategy] = counts.get(run.strategy, np.zeros(top)) + np.bincount(labels, minlength=top)
        seeds[run.strategy] = seeds.get(run.strategy, 0) + 1
    if top > 30:
        return ""
    return plots.class_histogram({n: c / seeds[n] for n, c in counts.items()}, names or [str(c) for c in range(top)])


def _class_count(runs: list[Run]) -> int:
    return 1 + max((label for run in runs for line in run.lines for label in line.get("labels", [])), default=0)


def _collapse_rows(runs: list[Run]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Measure -> strategy -> (labels, mean over the seeds)."""
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    for title, key in NC_MEASURES.items():
        for run in runs:
            for line in run.trained:
                value = line.get("collapse", {}).get(key)
                if value is not None:
                    rows = found.setdefault(title, {}).setdefault(run.strategy, {})
                    rows.setdefault(spent(line), []).append(value)
    return {
        title: {name: [(b, float(np.mean(v))) for b, v in sorted(rows.items())] for name, rows in by.items()}
        for title, by in found.items()
    }


def _distances(runs: list[Run]) -> dict[str, Any]:
    """Quantiles of the distances between class means in the last training of each run, over their mean length."""
    found: dict[str, list[Any]] = {}
    for run in runs:
        last = next((line["separation"] for line in reversed(run.lines) if line.get("separation")), None)
        if last and last.get("quantiles") and last.get("norm"):
            found.setdefault(run.strategy, []).append(np.array(last["quantiles"]) / last["norm"])
    return found


def _curve_rows(runs: list[Run], truth: dict[Any, int]) -> Iterator[list[Any]]:
    yield ["strategy", "seed", "labels", "accuracy", "items", "wrong"]
    for run in runs:
        for row in learnt(run, truth):
            yield [run.strategy, run.seed, row.answers, row.accuracy, row.items, row.wrong]
