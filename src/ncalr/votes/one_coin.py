"""One coin an annotator: right with probability alpha, otherwise any other class alike.

    P(j says l | true class k) = alpha_j if l = k, else (1 - alpha_j) / (c - 1)
    log T_ik = log pi_k + sum over the answers that say k of log( alpha_j (c - 1) / (1 - alpha_j) ) + constant
    alpha_j  = (sum of T[item, label] over j's answers + alpha_0) / (N_j + 1)

The homogeneous case of Dawid and Skene's model ("Maximum likelihood estimation of observer error-rates using the EM
algorithm", 1979): one number an annotator instead of c (c - 1), so it is the one to take with many classes and few
answers. alpha_0, the share of answers that agree with the majority of their item, stands in for one answer and keeps
alpha off 0 and 1. Start: shares of the answers; stop: the log posterior density gains less than 1e-5, or 100 turns.

Classes can be renamed without changing the likelihood; starting from the majority takes the naming in which most people
are right most of the time. Where most are wrong, no method can know; where no item has a second opinion, the answers
stand as they are.
"""

from __future__ import annotations

import numpy as np

from ncalr.votes.answers import Floats, Votes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.em import Fit, class_shares, climb, everywhere, normalised
from ncalr.votes.information import coin_worth, expected_accuracy


def one_coin(votes: Votes, *, seed: int = 0, tolerance: float = 1e-5, iterations: int = 100) -> Consensus:
    """The posterior under one accuracy an annotator.

    >>> found = one_coin(Votes.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]], classes=2))
    >>> found.labels.tolist(), found.accuracy.argsort()[0].item()
    ([0, 1, 0, 1], 2)
    """
    fit = fit_coins(votes.answered, tolerance, iterations)
    posterior = everywhere(votes, fit.posterior)
    return conclude(
        votes,
        "one_coin",
        posterior,
        likeliest(posterior, votes, seed),
        expected_accuracy(votes, posterior),
        coin_worth(votes, posterior),
        objective=fit.objective,
        notes=fit.notes,
    )


def fit_coins(votes: Votes, tolerance: float, iterations: int) -> Fit:
    """EM over answered items."""
    n, c = votes.shares.shape
    cell = votes.item * c + votes.label
    typical = _typical(votes)

    def maximise(posterior: Floats) -> tuple[tuple[Floats, Floats], float]:
        alpha = coins(votes, posterior, typical)
        shares, prior = class_shares(posterior)
        prior += float((typical * np.log(alpha) + (1 - typical) * np.log1p(-alpha)).sum())
        return (alpha, shares), prior

    def expect(parameters: tuple[Floats, Floats]) -> tuple[Floats, float]:
        alpha, shares = parameters
        wrong = np.log1p(-alpha) - np.log(c - 1)
        gain = np.bincount(cell, (np.log(alpha) - wrong)[votes.annotator], minlength=n * c).reshape(n, c)
        posterior, likelihood = normalised(np.log(shares) + gain)
        return posterior, likelihood + float(wrong @ votes.given)

    return climb(votes, maximise, expect, tolerance, iterations)


def coins(votes: Votes, posterior: Floats, typical: float | None = None) -> Floats:
    """alpha of each annotator under a posterior, strictly between 0 and 1; that of a typical one without answers."""
    right = np.bincount(votes.annotator, posterior[votes.item, votes.label], minlength=len(votes.annotators))
    return np.asarray((right + (_typical(votes) if typical is None else typical)) / (votes.given + 1), np.float64)


def _typical(votes: Votes) -> float:
    """The share of answers, where there are several about an item, that are the item's most frequent one."""
    seen = votes.at(votes.checked)
    agree = votes.counts[seen.item, seen.label] == votes.counts[seen.item].max(axis=1)
    return float((agree.sum() + 0.5) / (len(seen) + 1))
