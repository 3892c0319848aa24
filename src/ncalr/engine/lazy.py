"""Columns on disk in the shape that evidence has: checkpoints and samples come first, and items second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ncalr.acquire.evidence import POOL_AXIS
from ncalr.data.columns import Column


class Layers:
    """A column (items, layers, ...) as an array (layers, items, ...) of which rows are read when asked for."""

    on_disk = True

    def __init__(self, column: Column) -> None:
        self.column = column
        self.shape = (column.shape[1], column.shape[0], *column.shape[2:])
        self.dtype, self.ndim, self.nbytes = column.dtype, column.ndim, column.nbytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, tuple):
            layers, rows = place
            return np.moveaxis(self.column[rows], 1, 0)[layers]
        return Layer(self.column, range(len(self))[place])

    def __iter__(self) -> Iterator[Layer]:
        return (Layer(self.column, at) for at in range(len(self)))


class Layer:
    """One layer of such a column."""

    on_disk = True

    def __init__(self, column: Column, at: int) -> None:
        self.column, self.at = column, at

    def __getitem__(self, rows: Any) -> Any:
        return self.column[rows][:, self.at]


def as_evidence(name: str, column: Column) -> Any:
    """A column as the evidence of its name."""
    return Layers(column) if POOL_AXIS[name] == 1 else column
