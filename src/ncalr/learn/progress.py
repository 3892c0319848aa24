"""What a training shows while it runs: one line a run on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progress:
    """Hears what happens. This one says nothing; a program may listen with its own."""

    def start(self, runs: int, epochs: int) -> None:
        """Trainings of so many epochs begin; 0 runs: nobody knows yet how many."""

    def lasts(self, run: int, epochs: int) -> None:
        """One of them has another number of epochs."""

    def step(self, run: int, epoch: int, images: int) -> None:
        """An epoch of so many images was given to the device."""

    def check(self, run: int, round_: int, facts: dict[str, float]) -> None:
        """The labelled set was looked at."""

    def done(self, run: int) -> None:
        """One training ended."""

    def stop(self) -> None:
        """All trainings ended."""


class Terminal(Progress):
    """A live line a training: epoch, accuracy, NC1, items a second, time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("epoch {task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            transient=True,
            console=Console(stderr=True),  # what is asked for goes to the other one
        )
        self.tasks: dict[int, Any] = {}
        self.facts: dict[int, str] = {}

    def start(self, runs: int, epochs: int) -> None:
        """Trainings of so many epochs begin; 0 runs: nobody knows yet how many."""
        self.runs, self.epochs, self.images, self.began = runs, epochs, 0, time.perf_counter()
        self.tasks, self.facts, self.own = {}, {}, dict[int, int]()
        self.bars.start()

    def lasts(self, run: int, epochs: int) -> None:
        """One of them has another number of epochs."""
        self.own[run] = epochs

    def step(self, run: int, epoch: int, images: int) -> None:
        """An epoch of so many images was given to the device."""
        self.images += images
        rate = self.images / max(time.perf_counter() - self.began, 1e-9)
        if run not in self.tasks:
            of = f" of {self.runs}" if self.runs else ""
            name = "training" if self.runs == 1 else f"training {run + 1}{of}"
            self.tasks[run] = self.bars.add_task(name, total=self.own.get(run, self.epochs), facts="")
        facts = f"{self.facts.get(run, '')}{rate:,.0f} items/s"
        self.bars.update(self.tasks[run], completed=epoch, facts=facts)

    def check(self, run: int, round_: int, facts: dict[str, float]) -> None:  # noqa: ARG002 (some count folds by it)
        """The labelled set was looked at."""
        self.facts[run] = f"right on {facts['accuracy']:.1%}, NC1 {facts['nc1']:.3g}, "

    def done(self, run: int) -> None:
        """One training ended."""
        if run in self.tasks:
            self.bars.remove_task(self.tasks.pop(run))

    def stop(self) -> None:
        """All trainings ended."""
        self.bars.stop()
        for task in self.tasks.values():
            self.bars.remove_task(task)


def progress_for(wanted: bool | None) -> Progress:
    """A live display where it is wanted, or, if nobody said, where there is a terminal to show it."""
    return Terminal() if wanted or (wanted is None and sys.stderr.isatty()) else Progress()
