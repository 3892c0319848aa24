"""Limits for each caller, counted in memory: so many in so many seconds, and so many at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ncalr.errors import NcalrError
from ncalr.web.store.clock import Clock

KNOWN = 10_000


class TooMany(NcalrError):
    """Too many requests; `seconds` says when to come again."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"too many {what}; try again in {seconds:.0f} s")
        self.seconds = seconds


class Limit:
    """At most `count` within any `seconds`, for each key."""

    def __init__(self, what: str, count: int, seconds: float, clock: Clock) -> None:
        self.what, self.count, self.seconds, self.clock = what, count, seconds, clock
        self._times: dict[object, deque[float]] = {}
        self._lock = threading.Lock()

    def check(self, key: object) -> None:
        """Count one more, or raise."""
        now = self.clock.now()
        with self._lock:
            if len(self._times) > KNOWN:  # callers that were not seen for a while
                self._times = {k: t for k, t in self._times.items() if t and t[-1] > now - self.seconds}
            times = self._times.setdefault(key, deque())
            while times and times[0] <= now - self.seconds:
                times.popleft()
            if len(times) >= self.count:
                raise TooMany(self.what, times[0] + self.seconds - now)
            times.append(now)


class Turns:
    """At most `count` at the same time for each key, and `together` for all; a few more wait, and hold no thread."""

    def __init__(self, what: str, count: int, waiting: int, together: int) -> None:
        self.what, self.count, self.most = what, count, count + waiting
        self._together = asyncio.Semaphore(together)
        self._lines: dict[object, _Line] = {}

    def __len__(self) -> int:
        return sum(line.length for line in self._lines.values())

    @asynccontextmanager
    async def turn(self, key: object) -> AsyncIterator[None]:
        """Wait for one's turn; raise where too many of one's own wait already."""
        line = self._lines.setdefault(key, _Line(asyncio.Semaphore(self.count)))
        if line.length >= self.most:
            raise TooMany(f"{self.what} at once", 1)
        line.length += 1
        try:
            async with line.free, self._together:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[key]


@dataclass
class _Line:
    free: asyncio.Semaphore
    length: int = 0
