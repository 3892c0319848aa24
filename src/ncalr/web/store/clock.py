"""A clock that does not jump: leases end when they should, whatever somebody does to the machine's time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970."""

    def now(self) -> float:
        """The time."""


class SteadyClock:
    """The machine's time when it was made, and from there on the time that really went by.

    `floor` is the last time that was written down: where the machine's clock was set back in between, ours stands on.
    """

    def __init__(self, floor: float = 0.0) -> None:
        self._start = max(time.time(), floor)
        self._counted = time.monotonic()

    def now(self) -> float:
        """The time, never less than before."""
        return self._start + time.monotonic() - self._counted
