"""How far annotators agree beyond chance: Cohen, Fleiss, Krippendorff. 1 is agreement, 0 what chance would give.

All are 1 - (disagreement seen) / (disagreement expected), and differ in what they expect. With n_ik how often item i
was called k and n_i its answers, over the items with at least two,

    fleiss         seen: 1 - mean over items of sum_k n_ik (n_ik - 1) / (n_i (n_i - 1))
                   expected: 1 - sum_k p_k^2, p_k the mean over items of n_ik / n_i
                   Fleiss, "Measuring nominal scale agreement among many raters" (1971), there with equal n_i
    krippendorff   alpha for classes: seen: sum over items of sum_{k != l} n_ik n_il / (n_i - 1), over the answers N;
                   expected: sum_{k != l} N_k N_l / (N (N - 1)).   Krippendorff, "Content analysis" (1980)
    cohen          two annotators a, b on the items that both answered: seen: share of items with different answers;
                   expected: 1 - sum_k p_ak p_bk.   Cohen, "A coefficient of agreement for nominal scales" (1960)

Answers may be missing anywhere; an item with one answer says nothing about agreement and is left out. A person who
answers twice about an item is counted with the last answer.

**Interval**: percentile bootstrap over items (Efron and Tibshirani 1993), drawn as multinomial counts over the distinct
rows of answers, which is the same and much smaller. Where no two people disagree anywhere, resampling would say
[1, 1] even for three items; the lower end is then the value at the largest share of disagreeing items that would still
be seen as none with probability 2.5 %, 1 - 0.025^(1 / items). NaN where there is nothing to compare, or where only one
class was ever used: then chance alone explains everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ncalr.errors import BadInput, number_between, whole_number
from ncalr.votes.answers import Floats, Ints, Votes

Totals = Callable[[Floats], tuple[Any, Any]]
_NAN = float("nan")
_DRAWN_AT_ONCE = 1 << 22  # numbers


@dataclass(frozen=True)
class Agreement:
    """One coefficient with its interval over items."""

    value: float
    low: float
    high: float
    items: int  # that were compared


def fleiss(votes: Votes, *, level: float = 0.95, draws: int = 1000, seed: int = 0) -> Agreement:
    """Fleiss' kappa of all annotators.

    >>> round(fleiss(Votes.from_matrix([[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 1]], classes=2)).value, 3)
    0.657
    """
    rows, times = _compared(votes)
    n = rows.sum(axis=1, keepdims=True)
    features = np.hstack([np.ones_like(n), _disagreement(rows), rows / n])

    def totals(sums: Floats) -> tuple[Any, Any]:
        share = sums[..., 2:] / sums[..., :1]
        return sums[..., 1] / sums[..., 0], 1 - (share**2).sum(axis=-1)

    return _judged(features, times, totals, level, draws, seed)


def krippendorff(votes: Votes, *, level: float = 0.95, draws: int = 1000, seed: int = 0) -> Agreement:
    """Krippendorff's alpha of all annotators, for classes (no class is nearer to another).

    >>> round(krippendorff(Votes.from_matrix([[0, 0], [1, 1], [0, 1], [1, -1]], classes=2)).value, 3)
    0.444
    """
    rows, times = _compared(votes)
    n = rows.sum(axis=1, keepdims=True)
    features = np.hstack([n, n * _disagreement(rows), rows])

    def totals(sums: Floats) -> tuple[Any, Any]:
        answers, named = sums[..., :1], sums[..., 2:]
        expected = 1 - (named * (named - 1) / (answers * (answers - 1))).sum(axis=-1)
        return sums[..., 1] / sums[..., 0], expected

    return _judged(features, times, totals, level, draws, seed)


def cohen(votes: Votes, first: Any, second: Any, *, level: float = 0.95, draws: int = 1000, seed: int = 0) -> Agreement:
    """Cohen's kappa of two annotators, by id, over the items that both answered.

    >>> votes = Votes.from_matrix([[0, 0], [1, 1], [0, 1], [1, 1]], classes=2, annotators=["ann", "bob"])
    >>> cohen(votes, "ann", "bob").value
    0.5
    """
    a, b = votes.position(first), votes.position(second)
    if a == b:
        raise BadInput(f"agreement is between two annotators, got {first!r} twice")
    return _cohen(_columns(votes), a, b, votes.classes, level, draws, seed)


def cohen_pairs(
    votes: Votes, *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> dict[tuple[Any, Any], Agreement]:
    """Cohen's kappa of every two annotators who answered a common item, by their ids."""
    columns = _columns(votes)
    met = sparse.triu(columns.T @ columns, k=1).tocoo()
    ids = votes.annotators.tolist()
    return {
        (ids[a], ids[b]): _cohen(columns, a, b, votes.classes, level, draws, seed)
        for a, b in zip(met.row.tolist(), met.col.tolist(), strict=True)
    }


def _columns(votes: Votes) -> Any:
    """What each annotator last said about each item, plus 1, as a sparse matrix (n, a)."""
    last = votes.latest()
    shape = (len(votes.items), len(votes.annotators))
    return sparse.csc_array((last.label + 1, (last.item, last.annotator)), shape=shape)


def _cohen(columns: Any, a: int, b: int, c: int, level: float, draws: int, seed: int) -> Agreement:
    """Cohen's kappa of two columns: each distinct pair of answers is one row of features."""
    (items, labels), (other_items, other_labels) = _answers(columns, a), _answers(columns, b)
    _, mine, yours = np.intersect1d(items, other_items, assume_unique=True, return_indices=True)
    pairs = labels[mine] * c + other_labels[yours]
    cells, times = np.unique(pairs, return_counts=True)
    first, second = cells // c, cells % c
    differ = (first != second)[:, None]
    features = np.hstack([np.ones((len(cells), 1)), differ, np.eye(c)[first], np.eye(c)[second]])

    def totals(sums: Floats) -> tuple[Any, Any]:
        share = sums / sums[..., :1]
        return share[..., 1], 1 - (share[..., 2 : 2 + c] * share[..., 2 + c :]).sum(axis=-1)

    return _judged(features, times, totals, level, draws, seed)


def _answers(columns: Any, column: int) -> tuple[Ints, Ints]:
    """The items of a column, and the class that each was called."""
    rows = slice(columns.indptr[column], columns.indptr[column + 1])
    return columns.indices[rows], columns.data[rows] - 1


def _compared(votes: Votes) -> tuple[Ints, Ints]:
    """The distinct rows of counts with at least two answers, and how many items have each."""
    counts = votes.latest().counts
    rows, times = np.unique(counts[counts.sum(axis=1) > 1], axis=0, return_counts=True)
    return rows, times


def _disagreement(rows: Ints) -> Floats:
    """The share of pairs of answers in each row that differ (u, 1)."""
    n = rows.sum(axis=1, keepdims=True)
    return np.asarray(1 - (rows * (rows - 1)).sum(axis=1, keepdims=True) / (n * (n - 1)), np.float64)


def _judged(features: Floats, times: Ints, totals: Totals, level: Any, draws: int, seed: int) -> Agreement:
    """The coefficient over items that have these features so many times each, and its interval."""
    level = number_between("level", level, 0, 1)
    draws, seed = whole_number("draws", draws, 1), whole_number("seed", seed, 0)
    items, tail = int(times.sum()), (1 - level) / 2
    if not items:
        return Agreement(_NAN, _NAN, _NAN, 0)
    seen, expected = totals(times @ features)
    if expected <= 0:
        return Agreement(_NAN, _NAN, _NAN, items)
    value = float(1 - seen / expected)
    if seen == 0:
        return Agreement(value, float(1 - (1 - tail ** (1 / items)) / expected), value, items)
    low, high = np.nanquantile(_resampled(features, times, totals, draws, seed), [tail, 1 - tail])
    return Agreement(value, float(low), float(high), items)


def _resampled(features: Floats, times: Ints, totals: Totals, draws: int, seed: int) -> Floats:
    """The coefficient of so many resamples of the items; NaN where one class alone was drawn."""
    rng = np.random.default_rng(seed)
    at_once = max(1, _DRAWN_AT_ONCE // len(times))
    values = []
    for start in range(0, draws, at_once):
        size = min(at_once, draws - start)
        seen, expected = totals(rng.multinomial(times.sum(), times / times.sum(), size) @ features)
        values.append(np.where(expected > 0, 1 - seen / np.where(expected > 0, expected, 1), _NAN))
    return np.concatenate(values)
