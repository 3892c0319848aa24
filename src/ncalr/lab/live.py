"""One live table of all runs: strategies down, budgets across, the mean accuracy over the seeds so far."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run


class Board:
    """Shows what the runner tells it: a table on a terminal, else one line a training for a log (stderr)."""

    def __init__(
        self,
        experiment: Experiment,
        wanted: bool | None = None,
        lines: bool | None = None,
        parts: Sequence[str] = ("",),
    ) -> None:
        """`wanted`: the table; where there is a terminal, if not said. `lines`: where there is no table to be shown.

        `parts` are the names of experiments that are conducted together.
        """
        self.experiment, self.parts = experiment, parts
        self.lines = wanted is None and not sys.stdout.isatty() if lines is None else lines
        self.found: dict[tuple[int, str, int], dict[int, float]] = {}
        self.live: Any = None
        if wanted or (wanted is None and sys.stdout.isatty()):
            from rich.live import Live

            self.live = Live(self.table(), refresh_per_second=4)

    def __enter__(self) -> Board:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, run: Run) -> None:
        """A run went on, or is told of for the first time."""
        key = (run.part, run.strategy, run.seed)
        before, now = self.found.get(key), run.accuracies
        self.found[key] = dict(now)
        if self.live is not None:
            self.live.update(self.table())
        if not self.lines or not now or before == dict(now):
            return
        unit = "answers" if any("answers" in line for line in run.lines) else "labels"
        who = f"{self.name(run.part, run.strategy)}, seed {run.seed}"
        where = f"{who}: {now[-1][0]:,} {unit}, {100 * now[-1][1]:.1f} %"
        done, whole = len(now), len(self.experiment.budgets)
        self.say(f"{where} ({'went on after' if before is None else 'training'} {done} of {whole})")

    def say(self, words: str) -> None:
        """A line for whoever waits, whatever else is shown."""
        print(words, file=sys.stderr, flush=True)

    def name(self, part: int, strategy: str) -> str:
        """A strategy, and where there are several experiments of which."""
        return f"{self.parts[part]}, {strategy}" if self.parts[part] else strategy

    def table(self) -> Any:
        """The table as it stands."""
        from rich import box
        from rich.table import Table

        budgets = self.experiment.budgets
        shown = budgets if len(budgets) <= 8 else (*budgets[:: -(-len(budgets) // 7)], budgets[-1])
        table = Table(
            box=box.SIMPLE_HEAD, title=f"{self.experiment.dataset}, test accuracy in %, mean of the seeds so far"
        )
        table.add_column("strategy")
        for budget in dict.fromkeys(shown):
            table.add_column(f"{budget:,}", justify="right")
        table.add_column("trainings", justify="right")
        for part, strategy in product(range(len(self.parts)), self.experiment.strategies):
            runs = [rows for (of, name, _), rows in self.found.items() if (of, name) == (part, strategy)]
            cells = []
            for budget in dict.fromkeys(shown):
                values = [rows[budget] for rows in runs if budget in rows]
                cells.append(f"{100 * sum(values) / len(values):.1f}" if values else "·")
            done = sum(len(rows) for rows in runs)
            table.add_row(self.name(part, strategy), *cells, f"{done}/{len(budgets) * self.experiment.seeds}")
        return table
