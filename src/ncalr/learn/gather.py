"""Evidence that comes chunk by chunk, put together: on the device, or on the host where the pool is streamed.

A pool that does not fit the device has features that may not fit it either. Of such a pool each chunk goes to its place
in the host's memory as soon as it is made, and the device holds one chunk at a time; queries then compute on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ncalr.learn.ranks import Ranks

AXIS = {"samples": 1}
"""The axis of the items, where it is not the first."""


class Joined:
    """Chunks stay on the device until all are there; those of several processes are joined."""

    def __init__(self, rows: int, ranks: Ranks) -> None:
        self.rows, self.ranks = rows, ranks
        self.chunks: dict[str, list[Any]] = {}

    def add(self, _place: slice, chunk: Mapping[str, Any]) -> None:
        """The next rows."""
        for name, part in chunk.items():
            self.chunks.setdefault(name, []).append(part)

    def whole(self) -> dict[str, Any]:
        """Everything by name, in the same order on every rank."""
        found = {}
        for name, parts in sorted(self.chunks.items()):
            axis = AXIS.get(name, 0)
            found[name] = self.ranks.join(torch.cat(parts, axis), self.rows, axis)
        return found


class Placed:
    """Chunks go to their place on the host; the host waits for each, so that none has to stay on the device."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.arrays: dict[str, Any] = {}

    def add(self, place: slice, chunk: Mapping[str, Any]) -> None:
        """The rows of this place."""
        for name, part in chunk.items():
            axis = AXIS.get(name, 0)
            if name not in self.arrays:
                shape = [self.rows if at == axis else size for at, size in enumerate(part.shape)]
                self.arrays[name] = torch.empty(shape, dtype=part.dtype)
            self.arrays[name].narrow(axis, place.start, place.stop - place.start).copy_(part)

    def whole(self) -> dict[str, Any]:
        """Everything by name."""
        return self.arrays
