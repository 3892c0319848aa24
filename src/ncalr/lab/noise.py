"""The report's part about answers: what they were spent on, and how many labels are wrong where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ncalr.data.pool import Pool
from ncalr.lab.runner import Run
from ncalr.lab.statistics import estimate, plain
from ncalr.lab.tables import html_table
from ncalr.loop.state import State, spent
from ncalr.oracles import Oracle


class Learnt(NamedTuple):
    """The labels of one training."""

    answers: int  # the budget
    items: int  # they are about; the other answers are second opinions
    wrong: float | None  # share of the labels, None where the truth is not known
    accuracy: float


def truth_of(pool: Pool | None, labels: Any) -> dict[Any, int]:
    """The true label by id; nothing where it is not known."""
    if pool is None or labels is None:
        return {}
    return dict(zip(pool.ids.tolist(), np.asarray(labels).tolist(), strict=True))


def learnt(run: Run, truth: Mapping[Any, int]) -> list[Learnt]:
    """What each training of a run learnt from; the last one of a budget, where late answers made it two."""
    state, found = State(), {}
    for line in run.lines:
        if "accuracy" in line:
            state.change(line)
            known = [label != truth[item] for item, label in state.labels.items()] if truth else []
            wrong = float(np.mean(known)) if known else None
            found[spent(line)] = Learnt(spent(line), len(state.labels), wrong, line["accuracy"])
        state.take(line)
    return [*found.values()]


def by_budget(runs: list[Run], truth: Mapping[Any, int]) -> dict[str, dict[int, list[Learnt]]]:
    """What the trainings of each strategy learnt from by what was spent, one of a seed."""
    rows: dict[str, dict[int, list[Learnt]]] = {}
    for run in runs:
        for row in learnt(run, truth):
            rows.setdefault(run.strategy, {}).setdefault(row.answers, []).append(row)
    return rows


def wrong_at_last(runs: list[Run], truth: Mapping[Any, int]) -> dict[str, dict[str, float | None]]:
    """The share of each strategy's labels that are wrong at the last budget, with a t interval over the seeds."""
    rows = by_budget(runs, truth)
    last = max(budget for found in rows.values() for budget in found)
    shares = {name: [row.wrong for row in found.get(last, [])] for name, found in rows.items()}
    found = {name: estimate(np.array(values, np.float64)) for name, values in shares.items() if values and truth}
    return {name: {side: plain(getattr(one, side)) for side in ("mean", "low", "high")} for name, one in found.items()}


def wrong_answers(oracle: Oracle, truth: Mapping[Any, int], times: int = 1) -> float:
    """The share of an oracle's answers that are wrong where it is asked about the whole pool, each item so often."""
    ids, labels = np.array(list(truth)), np.array(list(truth.values()))
    said = [oracle.answer(ids) for _ in range(times)]
    return float(np.concatenate([(one.labels != labels)[one.known] for one in said]).mean())


def answers_table(runs: list[Run], truth: Mapping[Any, int]) -> str:
    """Labels by strategy and budget, as HTML; nothing where there is one right answer an item."""
    rows = by_budget(runs, truth)
    everything = [row for budgets in rows.values() for found in budgets.values() for row in found]
    if not any(row.wrong or row.items != row.answers for row in everything):
        return ""
    budgets = sorted({row.answers for row in everything})
    head = ["strategy", *(f"{budget:,}" for budget in budgets)]
    table = html_table(head, [[name, *(_cell(found.get(b, [])) for b in budgets)] for name, found in rows.items()])
    return (
        f"<h2>Answers and wrong labels</h2><div class=scroll>{table}</div><p class=soft>By the number of answers: the "
        "share of the labels learnt that are wrong, where the truth is known, and how many items they are about; the "
        "other answers are second opinions, or were not given. Means over the seeds.</p>"
    )


def _cell(found: list[Learnt]) -> str:
    if not found:
        return ""
    items = f"{np.mean([row.items for row in found]):,.0f}"
    known = [row.wrong for row in found if row.wrong is not None]
    return f"{100 * np.mean(known):.1f} % of {items}" if known else f"{items} items"
