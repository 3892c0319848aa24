"""One live table of all runs: strategies down, budgets across, the mean accuracy over the seeds so far.

Below it, a line for each training under way: epoch, items a second, and the time that is left at that pace; and one
for all that is still to be trained, as images to be seen over images a second so far. An epoch only writes down where
it is; the table is drawn four times a second, whatever the trainings do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Any

from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run
from ncalr.learn.progress import Progress

QUIET = 60.0  # seconds after which a log hears of a training that is under way
SURE = 10.0  # seconds after which the pace says how long the rest takes


@dataclass
class Training:
    """A training under way."""

    name: str
    began: float = 0.0  # when its first epoch was done
    first: int = 0  # which that was: one that was killed goes on in the middle
    epoch: int = 0
    epochs: int = 0  # of its own, where they are not those of the others
    images: int = 0  # since then


class Trainings(Progress):
    """Hears how far the trainings are."""

    def __init__(self, hear: Callable[[Training], None]) -> None:
        self.epochs, self.hear, self.under_way = 0, hear, dict[int, Training]()
        self.images, self.began = 0, 0.0  # of all trainings of this process, since its first epoch was done

    def start(self, runs: int, epochs: int) -> None:  # noqa: ARG002 (nobody knows how many)
        """Trainings of so many epochs begin."""
        self.epochs = epochs

    def begin(self, run: int, name: str) -> None:
        """Whose training this is."""
        self.under_way[run] = Training(name)

    def lasts(self, run: int, epochs: int) -> None:
        """One of them has another number of epochs."""
        self.under_way.setdefault(run, Training(f"training {run + 1}")).epochs = epochs

    def step(self, run: int, epoch: int, images: int) -> None:
        """An epoch of so many images was given to the device."""
        one = self.under_way.setdefault(run, Training(f"training {run + 1}"))
        if not self.began:
            self.began = time.perf_counter()
        else:
            self.images += images
        if not one.epoch:
            one.began, one.first = time.perf_counter(), epoch
        else:
            one.images += images
        one.epoch = epoch
        self.hear(one)

    def done(self, run: int) -> None:
        """One training ended."""
        self.under_way.pop(run, None)

    def words(self, one: Training) -> str:
        """Where a training is, how fast, and how long it will take at that pace."""
        epochs = one.epochs or self.epochs
        where = f"{one.name}: epoch {one.epoch} of {epochs}"
        spent = time.perf_counter() - one.began
        if one.epoch == one.first or not spent:
            return where
        left = timedelta(seconds=round(spent / (one.epoch - one.first) * (epochs - one.epoch)))
        return f"{where}, {one.images / spent:,.0f} items/s, {left} left"


class Board:
    """Shows what the runner tells it: a table on a terminal, else one line a training for a log (stderr)."""

    def __init__(
        self,
        experiment: Experiment,
        wanted: bool | None = None,
        lines: bool | None = None,
        parts: Sequence[str] = ("",),
        items: int | None = None,
    ) -> None:
        """`wanted`: the table; where there is a terminal, if not said. `lines`: where there is no table to be shown.

        `parts` are the names of experiments that are conducted together, on a pool of so many `items`: no training is
        counted that there are no items for.
        """
        self.experiment, self.parts, self.budgets = experiment, parts, experiment.within(items)
        self.lines = wanted is None and not sys.stdout.isatty() if lines is None else lines
        self.found: dict[tuple[int, str, int], dict[int, float]] = {}
        self.ended: set[tuple[int, str, int]] = set()  # by a rule, perhaps, before the last budget
        self.trainings, self.spoke = Trainings(self.hear), time.perf_counter()
        self.live: Any = None
        if wanted or (wanted is None and sys.stdout.isatty()):
            from rich.live import Live

            self.live = Live(get_renderable=self.picture, refresh_per_second=4)

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
        if run.ended:
            self.ended.add(key)
        if not self.lines or not now or before == dict(now):
            return
        unit = "answers" if any("answers" in line for line in run.lines) else "labels"
        who = f"{self.name(run.part, run.strategy)}, seed {run.seed}"
        where = f"{who}: {now[-1][0]:,} {unit}, {100 * now[-1][1]:.1f} %"
        done, whole = len(now), len(self.budgets)
        why = f"; ended, {run.lines[-1]['stop']}" if run.ended and done < whole else ""
        self.say(f"{where} ({'went on after' if before is None else 'training'} {done} of {whole}{why})")

    def began(self, number: int, runs: Sequence[Run]) -> None:
        """A training begins, for one run or for several that share it."""
        who = self.name(runs[0].part, runs[0].strategy) if len(runs) == 1 else f"{len(runs)} runs together"
        done, whole = len(runs[0].accuracies), len(self.budgets)
        self.trainings.begin(number, f"{who}, seed {runs[0].seed}, training {done + 1} of {whole}")

    def hear(self, one: Training) -> None:
        """An epoch is done: a log hears of it if it has heard nothing for a minute."""
        if self.lines and time.perf_counter() - self.spoke > QUIET:
            self.say(self.trainings.words(one))

    def say(self, words: str) -> None:
        """A line for whoever waits, whatever else is shown."""
        print(words, file=sys.stderr, flush=True)
        self.spoke = time.perf_counter()

    def name(self, part: int, strategy: str) -> str:
        """A strategy, and where there are several experiments of which."""
        return f"{self.parts[part]}, {strategy}" if self.parts[part] else strategy

    def picture(self) -> Any:
        """The table, and below it the trainings under way."""
        from rich.console import Group
        from rich.text import Text

        lines = [self.trainings.words(one) for one in list(self.trainings.under_way.values())]
        if len(lines) and (left := self.left()):
            lines.append(f"all trainings: about {timedelta(seconds=round(left))} left")
        return Group(self.table(), *map(Text, lines))

    def left(self) -> float:
        """How many seconds all that is not trained yet takes at the pace so far; 0 where that is not known yet."""
        trainings, budgets = self.trainings, self.budgets
        spent = time.perf_counter() - trainings.began if trainings.began else 0.0
        if spent < SURE or not trainings.images:
            return 0.0
        runs = [(key, rows) for key, rows in list(self.found.items()) if key not in self.ended]
        wanted = sum(sum(budgets[max(len(rows), 1) :]) for _, rows in runs)
        wanted += budgets[0] * len({(part, seed) for (part, _, seed), rows in runs if not rows})  # shared
        seen = sum(one.images for one in list(trainings.under_way.values()))
        return max(trainings.epochs * wanted - seen, 0) * spent / trainings.images

    def table(self) -> Any:
        """The table as it stands."""
        from rich import box
        from rich.table import Table

        budgets = self.budgets
        shown = budgets if len(budgets) <= 8 else (*budgets[:: -(-len(budgets) // 7)], budgets[-1])
        table = Table(
            box=box.SIMPLE_HEAD, title=f"{self.experiment.dataset}, test accuracy in %, mean of the seeds so far"
        )
        table.add_column("strategy")
        for budget in dict.fromkeys(shown):
            table.add_column(f"{budget:,}", justify="right")
        table.add_column("trainings", justify="right")
        for part, strategy in product(range(len(self.parts)), self.experiment.strategies):
            runs = [rows for (of, name, _), rows in list(self.found.items()) if (of, name) == (part, strategy)]
            cells = []
            for budget in dict.fromkeys(shown):
                values = [rows[budget] for rows in runs if budget in rows]
                cells.append(f"{100 * sum(values) / len(values):.1f}" if values else "·")
            done = sum(len(rows) for rows in runs)
            table.add_row(self.name(part, strategy), *cells, f"{done}/{len(budgets) * self.experiment.seeds}")
        return table
