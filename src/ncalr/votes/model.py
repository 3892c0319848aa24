"""The model as one more voter: its probabilities, looked at and made less sure of themselves.

They must be *out-of-sample*: of a model that was not trained on the item's label, by k folds, or of an early phase
of training. A network trained to the terminal phase gives every training label probability 1, wrong or right; such a
voter agrees with whatever was said and outweighs everybody.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.errors import BadInput, NotFinite
from ncalr.kernels import to_numpy
from ncalr.votes.answers import Floats, Votes

_SUM = 1e-3  # how far a row of probabilities in half precision may be from 1
_FLOOR = 1e-12  # probabilities below count as this one: a certain model could not be tempered
_COLDEST, _HOTTEST = 0.05, 20.0


def as_probs(probs: Any, votes: Votes) -> Floats:
    """Probabilities (n, c), a row for each of `votes.items` in their order, in float64 with sums of 1."""
    given = to_numpy(probs)
    if given.shape != votes.counts.shape:
        raise BadInput(
            f"probs must have shape {votes.counts.shape} (items, classes), a row for each of votes.items in that "
            f"order; got {given.shape}"
        )
    rows = given.astype(np.float64)
    if not np.isfinite(rows).all():
        raise NotFinite(f"probs hold {int((~np.isfinite(rows)).sum())} values that are not finite")
    total = rows.sum(axis=1, keepdims=True)
    if (rows < 0).any() or (np.abs(total - 1) > _SUM).any():
        raise BadInput("probs must be probabilities: none below 0, each row summing to 1; were logits passed?")
    return np.asarray(rows / total, np.float64)


def tempered(probs: Any, temperature: float) -> Floats:
    """Probabilities of logits divided by the temperature: above 1 less sure, below 1 surer.

    >>> tempered([[0.8, 0.2]], 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    if not temperature > 0:
        raise BadInput(f"temperature must be above 0, got {temperature!r}")
    logs = np.log(np.maximum(to_numpy(probs).astype(np.float64), _FLOOR)) / temperature
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    return np.asarray(logs / logs.sum(axis=1, keepdims=True), np.float64)


def fit_temperature(votes: Votes, probs: Any) -> float:
    """The temperature, 0.05 to 20, at which probabilities best foretell the shares of the answers (Guo et al. 2017).

    1.0 where there are no answers.
    """
    from scipy.optimize import minimize_scalar

    answered = votes.answers > 0
    rows, shares = as_probs(probs, votes)[answered], votes.shares[answered]
    if not len(rows):
        return 1.0

    def surprise(log_temperature: float) -> float:
        softened = tempered(rows, float(np.exp(log_temperature)))
        return -float(np.einsum("nc,nc->", shares, np.log(np.maximum(softened, _FLOOR))))

    found = minimize_scalar(surprise, bounds=(np.log(_COLDEST), np.log(_HOTTEST)), method="bounded")
    return float(np.exp(found.x))
