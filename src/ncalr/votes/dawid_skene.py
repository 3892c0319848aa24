"""Dawid and Skene: a confusion matrix an annotator, estimated together with the truth.

Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (1979). With class
shares pi, theta_jkl = P(annotator j says l | true class k), and n_ijl how often j called item i an l,

    E   log T_ik   = log pi_k + sum over j, l of n_ijl log theta_jkl + constant
    M   pi_k       = (sum over i of T_ik + 1/c) / (items + 1)
        theta_jkl  = (sum over i of T_ik n_ijl + s theta0_jkl) / (sum over i and l of T_ik n_ijl + s)

Both steps are one product of a sparse matrix (items, annotators times classes) with a dense one of c columns. Start:
the shares of the answers, because classes can be renamed without changing the likelihood and this takes the naming in
which most people are mostly right; stop: the log posterior density gains less than 1e-5, or 100 turns.

**Smoothing** is a Dirichlet prior worth s answers in each row. `towards="one_coin"` (default, s = 10) centres it on
the matrix that the one-coin model finds for the annotator, so that with few answers the method falls back to that model
instead of to noise; `towards="uniform"` is the usual one, s / c in every cell, which with few answers pulls every
annotator towards guessing (s = 10 ruins it there; take 1). Items right in simulated crowds of annotators with uneven
confusions (12 draws each):

    items, annotators, classes, answers an item    majority  one_coin  uniform s=1  one_coin s=10
    300, 20, 10, 3                                 0.856     0.884     0.853        0.884
    5000, 50, 10, 3                                0.907     0.928     0.931        0.934
    1000, 3, 10, 3                                 0.923     0.925     0.947        0.947
    1000, 10, 100, 3                               0.908     0.932     0.909        0.923

Accuracy and intervals: `ncalr.votes.information`. The rows of `confusion` are true classes, the columns what is said.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from ncalr.errors import BadInput, check_known
from ncalr.votes.answers import Floats, Votes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.em import Fit, class_shares, climb, everywhere, normalised
from ncalr.votes.information import confusion_worth, expected_accuracy
from ncalr.votes.one_coin import coins, fit_coins

Towards = Literal["one_coin", "uniform"]
_ENOUGH = 5  # answers about a class, on average, below which its row of a confusion matrix is mostly prior


def dawid_skene(
    votes: Votes,
    *,
    smoothing: float = 10.0,
    towards: Towards = "one_coin",
    seed: int = 0,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> Consensus:
    """The posterior under one confusion matrix an annotator.

    >>> found = dawid_skene(Votes.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]], classes=2))
    >>> found.labels.tolist(), found.confusion.shape
    ([0, 1, 0, 1], (3, 2, 2))
    """
    if not smoothing > 0:
        raise BadInput(f"smoothing must be above 0 answers a row, got {smoothing!r}; a small one is 0.01")
    check_known("prior for confusion matrices", towards, get_args(Towards))
    inner = votes.answered
    prior = smoothing * _prior(inner, towards, tolerance, iterations)
    fit = _fit(inner, prior, tolerance, iterations)
    confusion = _confusion(inner, fit.posterior, prior)
    posterior = everywhere(votes, fit.posterior)
    worth, entries = confusion_worth(votes, posterior, confusion)
    confusion[votes.given == 0] = np.nan
    return conclude(
        votes,
        "dawid_skene",
        posterior,
        likeliest(posterior, votes, seed),
        expected_accuracy(votes, posterior),
        worth,
        confusion=confusion,
        confusion_worth=entries,
        objective=fit.objective,
        notes=(*fit.notes, *_advice(votes)),
    )


def _fit(votes: Votes, prior: Floats, tolerance: float, iterations: int) -> Fit:
    readings = votes.readings

    def maximise(posterior: Floats) -> tuple[tuple[Floats, Floats], float]:
        logs = np.log(_confusion(votes, posterior, prior))
        shares, density = class_shares(posterior)
        return (logs, shares), density + float(np.einsum("jkl,jkl->", prior, logs))

    def expect(parameters: tuple[Floats, Floats]) -> tuple[Floats, float]:
        logs, shares = parameters
        by_said = logs.transpose(0, 2, 1).reshape(-1, votes.classes)
        return normalised(readings @ by_said + np.log(shares))

    return climb(votes, maximise, expect, tolerance, iterations)


def _confusion(votes: Votes, posterior: Floats, prior: Floats) -> Floats:
    """theta (a, true, said) under a posterior."""
    said = (votes.readings.T @ posterior).reshape(-1, votes.classes, votes.classes).transpose(0, 2, 1)
    expected = said + prior
    return np.asarray(expected / expected.sum(axis=2, keepdims=True), np.float64)


def _prior(votes: Votes, towards: Towards, tolerance: float, iterations: int) -> Floats:
    """theta0 (a, true, said), each row summing to 1."""
    a, c = len(votes.annotators), votes.classes
    if towards == "uniform":
        return np.full((a, c, c), 1 / c)
    alpha = coins(votes, fit_coins(votes, tolerance, iterations).posterior)
    prior = np.repeat((1 - alpha) / (c - 1), c * c).reshape(a, c, c)
    prior[:, np.arange(c), np.arange(c)] = alpha[:, None]
    return prior


def _advice(votes: Votes) -> tuple[str, ...]:
    typical = float(np.median(votes.given[votes.given > 0])) if len(votes) else 0.0
    if typical >= _ENOUGH * votes.classes:
        return ()
    return (
        f"half of the annotators gave at most {typical:.0f} answers, for a confusion matrix with {votes.classes} rows "
        "each; one_coin needs fewer",
    )
