"""The squared distance to the k-th nearest labelled feature, all of length 1. Exact.

Three things make the plain method quick and safe:

* One matrix product a block, never the whole table. A column more on either side carries the squared lengths, so that a
  feature of length 0, which has no direction and stays where it is, gets its true distances (1 to every direction).
* Few candidates. The columns of a block are dealt into w groups and only each group's best is compared: the k best
  items lie in the k best groups, or tie with something there. With w near the square root of k times the columns that
  leaves a few per cent of the table to be partitioned.
* Single precision, except where it cannot tell: |a|^2 + |b|^2 - 2 a.b has an error of some 1e-7, so distances below
  `NEAR` (collapsed features) are computed again in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.evaluate.ood_covariance import Floats

NEAR = 1e-3  # below it the error of single precision would be more than about 1 in 5,000
_BANK_ROWS, _ITEM_ROWS = 32768, 256
_WORTH_GROUPS = 4  # with fewer columns a group, partitioning them all is as quick


class Bank:
    """Labelled features to be near to."""

    def __init__(self, features: Any) -> None:
        self.features = features

    def kth_squared(self, features: Floats, k: int) -> Floats:
        """Squared distance of each row (n, d) to its k-th nearest in the bank, directions only."""
        items = unit(features)
        squared = _kth(items.astype(np.float32), self._single, k)
        near = np.flatnonzero(squared < NEAR)
        if len(near):
            squared[near] = _kth(items[near], self._blocks(np.float64), k)
        return np.maximum(squared, 0.0)

    @cached_property
    def _single(self) -> list[npt.NDArray[Any]]:
        return list(self._blocks(np.float32))

    def _blocks(self, kind: type) -> Iterator[npt.NDArray[Any]]:
        """The bank's directions b in blocks, each row with one number more: -|b|^2 / 2."""
        for start in range(0, len(self.features), _BANK_ROWS):
            rows = unit(self.features[start : start + _BANK_ROWS].astype(np.float64))
            yield np.column_stack([rows, -_squares(rows) / 2]).astype(kind)


def unit(rows: Floats) -> Floats:
    """Each row at length 1; a row of zeros stays one."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


def largest(table: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
    """The k largest entries of each row, in any order; all of them where there are no more than k."""
    rows, columns = table.shape
    if columns <= k:
        return table
    groups = int((k * columns) ** 0.5)
    members = columns // groups
    if members < _WORTH_GROUPS:
        return np.partition(table, columns - k, axis=1)[:, columns - k :]
    dealt = table[:, : members * groups].reshape(rows, members, groups)
    best = np.argpartition(dealt.max(axis=1), groups - k, axis=1)[:, groups - k :]
    candidates = np.take_along_axis(dealt, best[:, None, :], axis=2).reshape(rows, -1)
    candidates = np.concatenate([candidates, table[:, members * groups :]], axis=1)
    candidates.partition(candidates.shape[1] - k, axis=1)
    return candidates[:, -k:]


def _kth(items: npt.NDArray[Any], bank: Iterable[npt.NDArray[Any]], k: int) -> Floats:
    """|a|^2 + the k-th least |b|^2 - 2 a.b, in the precision of the items."""
    best = np.full((len(items), k), -np.inf, items.dtype)
    wide = np.column_stack([items, np.ones(len(items), items.dtype)])
    for block in bank:
        for start in range(0, len(items), _ITEM_ROWS):
            rows = slice(start, start + _ITEM_ROWS)
            found = largest(wide[rows] @ block.T, k)
            best[rows] = largest(np.concatenate([best[rows], found], axis=1), k)
    return np.asarray(_squares(items) - 2 * best.min(axis=1), np.float64)


def _squares(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.einsum("nd,nd->n", rows, rows))
