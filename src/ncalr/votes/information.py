"""How surely an annotator's accuracy is known when the truth is not.

With T the posterior over classes, q = T[item, label] is the probability that an answer is right, and an annotator's
accuracy p is the mean of q over what he answered. If the truth were known, N answers would be N observations of right
or wrong; as it is not, they are worth fewer. How many follows from the observed information (Louis, "Finding the
observed information matrix when using the EM algorithm", 1982): that of the complete data less what is missing,

    J = complete - sum over items of Cov(score | answers),      worth of a parameter = (its variance at N = 1) (J^-1)^-1

**One accuracy an annotator** (`coin_worth`). With R = 1 where an answer is right and v = p (1 - p), in units of v,

    J_jk = N_j [j = k] - sum over items of Cov(R_j, R_k) / sqrt(v_j v_k)
    Cov(R_j, R_k) = [j and k gave the same label l] T_l - q_j q_k

**A confusion matrix an annotator** (`confusion_worth`). The parameters are theta_jkl, how often j says l of a true k,
with rows that sum to 1. With theta in units of its root the complete information of row k is N_jk, the answers j is
expected to have given about class k, times the projection onto changes that keep the sum. J then has a row for each
theta; where those are more than 1,500, accuracies take the J above and each theta its own diagonal entry alone, which
is a little too sure.

Everything that is no parameter of J counts as known. Where J has no positive value in a direction, the answers say
nothing about it, and what depends on it is worth nothing.

The interval (`jeffreys`) is that of a share p seen in `worth` observations. Only answers about items that somebody else
answered too are counted: an annotator alone cannot be judged. So two annotators who always contradict each other, or
one annotator only, get the interval of no observations, [0.00, 1.00].

What it covers: the chance that the annotator is right about items like those he answered, if the model that gave T
holds. Planted values found in intervals of 95 %, over 200 simulated crowds of each of five kinds (3 to 40 annotators,
300 to 1,000 items, 3 to 8 classes; `tests/votes/test_coverage.py`): accuracies 94 to 96 % by one_coin and 93 to 97 % by
dawid_skene, entries of confusion matrices 93 to 98 %. Counting expected answers as if they had been seen covers 57 %
for three annotators who are right 70 % of the time between two classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import betaincinv

from ncalr.errors import BadInput
from ncalr.votes.answers import Floats, Ints, Votes

LARGEST = 1500
"""Parameters up to which the whole matrix is inverted; the cost grows with the cube."""

_NOTHING = 1e-9  # observations: what a direction without information is worth


def jeffreys(share: Any, worth: Any, level: float = 0.95) -> Floats:
    """Jeffreys' interval (…, 2) of a share seen in so many observations: quantiles of Beta(right + 1/2, wrong + 1/2).

    >>> jeffreys(0.9, 100).round(3).tolist()
    [0.83, 0.947]
    """
    if not 0 < level < 1:
        raise BadInput(f"level must lie between 0 and 1, got {level!r}; write 95 % as level=0.95")
    right, wrong = np.multiply(share, worth) + 0.5, np.multiply(1 - np.asarray(share), worth) + 0.5
    tail = (1 - level) / 2
    return np.stack([betaincinv(right, wrong, tail), betaincinv(right, wrong, 1 - tail)], axis=-1)


def expected_accuracy(votes: Votes, posterior: Floats) -> Floats:
    """Mean probability that an annotator's answers are right (a,); NaN for one who gave none."""
    right = np.bincount(votes.annotator, posterior[votes.item, votes.label], minlength=len(votes.given))
    return np.where(votes.given > 0, right / np.maximum(votes.given, 1), np.nan)


def coin_worth(votes: Votes, posterior: Floats) -> Floats:
    """As how many observations of right or wrong each annotator's answers count (a,)."""
    seen = votes.at(votes.checked)
    n = seen.given.astype(np.float64)
    variance = _variance(np.bincount(seen.annotator, posterior[seen.item, seen.label], minlength=len(n)), n)
    value = 1 / np.sqrt(variance[seen.annotator])
    joint, alone = _scores(seen, posterior, seen.item, seen.label, seen.annotator, value, len(n))
    if len(n) > LARGEST:
        missing = joint.power(2).sum(axis=0) - alone.power(2).sum(axis=0)
        return np.asarray(np.maximum(n - missing, 0.0), np.float64)
    inverse = _inverse(np.diag(n) - (joint.T @ joint - alone.T @ alone).toarray())
    return np.asarray(1 / np.diag(inverse), np.float64)


def confusion_worth(votes: Votes, posterior: Floats, confusion: Floats) -> tuple[Floats, Floats]:
    """Observations that each accuracy (a,) and each entry of the confusion matrices (a, true, said) is worth."""
    seen = votes.at(votes.checked)
    a, c = confusion.shape[:2]
    said = (seen.readings.T @ posterior).reshape(a, c, c).transpose(0, 2, 1)
    rows = said.sum(axis=2)
    variance = _variance(said, rows[:, :, None])
    if a * c * c > LARGEST:
        return coin_worth(votes, posterior), _cells_alone(seen, posterior, confusion, rows, variance)
    inverse = _confusion_covariance(seen, posterior, confusion, rows)
    entries = variance / np.maximum(np.diag(inverse).reshape(a, c, c) * confusion, _NOTHING)
    n = np.maximum(seen.given, _NOTHING)
    mix = rows / n[:, None]
    own = np.einsum("jkk->jk", confusion)
    at = (np.arange(a)[:, None] * c + np.arange(c)) * c + np.arange(c)
    slope = mix * np.sqrt(own)
    spread = np.einsum("jk,jkm,jm->j", slope, inverse[at[:, :, None], at[:, None, :]], slope)
    accuracy = np.einsum("jk,jk->j", mix, own)
    # the classes an annotator happened to be shown are a sample too
    spread = spread + np.einsum("jk,jk->j", mix, (own - accuracy[:, None]) ** 2) / n
    worth = _variance(np.einsum("jkk->j", said), seen.given) / np.maximum(spread, _NOTHING)
    return np.minimum(worth, seen.given), np.minimum(entries, rows[:, :, None])


def _variance(right: Any, n: Any) -> Any:
    """p (1 - p), p off its ends by half an observation: right 20 times of 20 is not right for ever."""
    p = (right + 0.5) / (n + 1)
    return p * (1 - p)


def _scores(
    seen: Votes, posterior: Floats, item: Ints, true: Ints, column: Ints, value: Floats, size: int
) -> tuple[Any, Any]:
    """Matrices X (item and true class, parameter) and Y (item, parameter) with X'X - Y'Y the information missing."""
    chance = posterior[item, true]
    n = len(seen.items)
    row = item * seen.classes + true
    joint = sparse.csr_array((np.sqrt(chance) * value, (row, column)), shape=(n * seen.classes, size))
    return joint, sparse.csr_array((chance * value, (item, column)), shape=(n, size))


def _confusion_covariance(seen: Votes, posterior: Floats, confusion: Floats, rows: Floats) -> Floats:
    """The inverse of J over all entries (a c c), each in units of the root of its theta."""
    a, c = confusion.shape[:2]
    true = np.tile(np.arange(c), len(seen))
    item, said, by = (np.repeat(part, c) for part in (seen.item, seen.label, seen.annotator))
    value = 1 / np.sqrt(confusion[by, true, said])
    joint, alone = _scores(seen, posterior, item, true, (by * c + true) * c + said, value, a * c * c)
    keep = np.zeros((a * c * c, a * c * c))
    for row, roots in enumerate(np.sqrt(confusion).reshape(a * c, c)):
        block = slice(row * c, (row + 1) * c)
        keep[block, block] = np.eye(c) - np.outer(roots, roots)
    information = np.diag(np.repeat(rows, c)) - (joint.T @ joint - alone.T @ alone).toarray()
    # changes of a row's sum are impossible: a large value makes their variance 0
    barred = np.eye(len(keep)) - keep
    size = float(rows.max(initial=0.0)) + 1
    return _inverse(keep @ information @ keep + size * barred) - barred / size


def _cells_alone(seen: Votes, posterior: Floats, confusion: Floats, rows: Floats, variance: Floats) -> Floats:
    """What each entry is worth if all others were known (a, c, c)."""
    a, c = confusion.shape[:2]
    open_ = (seen.readings.T @ (posterior * (1 - posterior))).reshape(a, c, c).transpose(0, 2, 1)
    missing = (1 - confusion) ** 2 * open_ + confusion**2 * (open_.sum(axis=2, keepdims=True) - open_)
    return np.asarray(np.maximum(rows[:, :, None] - missing / variance, 0.0), np.float64)


def _inverse(information: Floats) -> Floats:
    values, vectors = np.linalg.eigh(information)
    return np.asarray((vectors / np.maximum(values, _NOTHING)) @ vectors.T, np.float64)
