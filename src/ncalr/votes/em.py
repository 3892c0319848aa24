"""Expectation and maximisation in turns, until the objective gains no more (Dempster, Laird and Rubin 1977)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ncalr.errors import BadInput
from ncalr.votes.answers import Floats, Votes

Parameters = TypeVar("Parameters")

UNCHECKED = "no item has a second opinion: the answers stand as they are"


class Fit(NamedTuple):
    """Where the turns ended."""

    posterior: Floats
    objective: tuple[float, ...]  # never falls from one turn to the next
    notes: tuple[str, ...]


def climb(
    votes: Votes,
    maximise: Callable[[Floats], tuple[Parameters, float]],
    expect: Callable[[Parameters], tuple[Floats, float]],
    tolerance: float,
    iterations: int,
) -> Fit:
    """Turns from the shares of the answers: `maximise` gives parameters, log prior; `expect` posterior, log likelihood.

    Ends where the sum of both gains less than `tolerance`, or after so many `iterations`, which is then noted. Where no
    item has a second opinion, any accuracy fits as well as any other, and turns would wander: the answers stand.
    """
    check_stopping(tolerance, iterations)
    posterior = votes.shares
    if not votes.checked.any():
        return Fit(posterior, (), (UNCHECKED,))
    objective: list[float] = []
    for _ in range(iterations):
        parameters, prior = maximise(posterior)
        posterior, likelihood = expect(parameters)
        objective.append(likelihood + prior)
        if len(objective) > 1 and objective[-1] - objective[-2] < tolerance:
            return Fit(posterior, tuple(objective), ())
    return Fit(posterior, tuple(objective), (unsettled(iterations),))


def check_stopping(tolerance: float, iterations: int) -> None:
    """Raise where this is no rule for stopping."""
    if not tolerance >= 0 or iterations < 1:
        raise BadInput(f"tolerance must not be negative and iterations at least 1, got {tolerance} and {iterations}")


def unsettled(iterations: int) -> str:
    """The note on a fit that was cut short."""
    return f"stopped after {iterations} iterations, before it had settled; give more iterations or a larger tolerance"


def normalised(logs: Floats) -> tuple[Floats, float]:
    """Each row of log probabilities up to a constant as probabilities, and the sum of the logs of those constants."""
    top = logs.max(axis=1, keepdims=True)
    rows = np.exp(logs - top)
    total = rows.sum(axis=1, keepdims=True)
    rows /= total
    return rows, float((np.log(total) + top).sum())


def class_shares(posterior: Floats) -> tuple[Floats, float]:
    """How frequent each class is, one item spread evenly over the classes added; and the log prior of these shares."""
    extra = 1 / posterior.shape[1]
    shares = (posterior.sum(axis=0) + extra) / (len(posterior) + 1)
    return shares, float(extra * np.log(shares).sum())


def everywhere(votes: Votes, posterior: Floats) -> Floats:
    """The posterior of the answered items among all items; those without answers have the class shares."""
    whole = np.tile(class_shares(posterior)[0], (len(votes.items), 1))
    whole[votes.answers > 0] = posterior
    return whole
