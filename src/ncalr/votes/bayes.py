"""The model as what is known before anybody answers: Bayes' rule with one coin an annotator.

    posterior_ik ~ p_M(k | i)^(1/T)  times, for every answer about i,  alpha_j if it is k, else (1 - alpha_j) / (c - 1)

Dawid and Skene's model ("Maximum likelihood estimation of observer error-rates using the EM algorithm", 1979) in its
one-coin form, with the model's probabilities in the place of the class shares. The accuracies alpha and the temperature
T of the model are those under which the answers are likeliest: T by a search, alpha by EM inside it, each annotator
held to the common accuracy by a prior worth ten answers. So nobody needs a co-annotator to be judged: the model is
everybody's, and where it says 0.98 and the answer is another, either it is too sure of itself (then it is so elsewhere,
and T grows) or the annotator was wrong (then alpha falls).

With one answer an item and a weak model these two cannot be told apart, and likelihood alone would as soon believe the
model. So three things are known beforehand: people are right in four cases of five (a prior worth twenty answers and
one in twenty of those given), nobody is worse than chance, and a model is heard only if the answers are likelier with
it than with no model at all, by log(n) / 2 (Schwarz's criterion for the one parameter T). Simulated with answers right
in 80 % and models right in 10 to 50 % (2, 3 and 10 classes, 20 to 1,000 items): labels right 0.72 to 0.81, as the
answers are; without the three 0.10 to 0.75.

CROWDLAB averages opinions; Bayes' rule multiplies them. Ten classes, an answer of somebody who is right in four cases
of five, a model that says 0.3 to it: the average of both is 0.55, the product 0.94. The average is a fine order of
doubts, and too soft to be learnt from. Simulated with ten classes and one answer an item, right in 82 %, and models of
whose guesses 34, 67 and 96 % are right: labels right 0.82, 0.82 and 0.86 by CROWDLAB, at a mean confidence of 0.67,
0.64 and 0.69; by Bayes' rule 0.82, 0.88 and 0.98, at 0.81, 0.88 and 0.98 (tests/votes/test_bayes.py has the like).

The model's probabilities must be out-of-sample, or of an early phase of training (`ncalr.votes.model`).

`gains` says what one more answer is worth: by how much the chance that the best guess is right is expected to grow.

    gain_i = sum over answers l of  max over k of posterior_ik P(l | k)   -   max over k of posterior_ik

It stands on one scale for items with answers and without: of a new item the best guess is the model's own.

>>> votes = Votes.from_matrix([[0], [1], [0], [1], [-1]], classes=2)
>>> found = bayes(votes, [[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])
>>> found.labels.tolist(), gains(votes, found).argmax().item()
([0, 1, 0, 1, -1], 4)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.errors import BadInput
from ncalr.votes.answers import Floats, Votes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.information import coin_worth
from ncalr.votes.model import as_probs, tempered

_STRENGTH = 10.0  # answers that the common accuracy is worth
_FIRST = 0.8  # the common accuracy before anybody has answered
_TRUST, _SHARE = 20.0, 0.05  # what that is worth: so many answers, and such a share of those given
_NEAR = 1e-4  # accuracies stay so far from 1
_STILL = 1e-6  # a smaller change of the accuracies ends the search for them
_TEMPERATURES = np.geomspace(0.1, 100, 13)


def bayes(
    votes: Votes, probs: Any, *, seed: int = 0, temperature: float | None = None, iterations: int = 200
) -> Consensus:
    """The posterior with the model's `probs` (n, c) as prior, a row for each of `votes.items`.

    `temperature` of the probabilities, where it is known; the likeliest one if not, and infinite (the model is not
    heard) where the answers are no likelier with the model than without.
    """
    p_model = as_probs(probs, votes)
    votes = votes.latest()
    answered = votes.answers > 0
    named, seen = _Named(votes.answered, p_model.shape[1]), p_model[answered]
    if temperature is None:
        temperature = _temperature(named, seen, iterations) if answered.any() else 1.0
    posterior = _heard(p_model, temperature)
    alpha = np.full(len(votes.annotators), np.nan)
    if answered.any():
        alpha, _ = _fit(named, posterior[answered], iterations)
        posterior[answered] = _posterior(named, posterior[answered], alpha)
    alpha[votes.given == 0] = np.nan
    choice = likeliest(posterior, votes, seed, p_model)
    note = f"the model's probabilities were taken at temperature {temperature:.2f}"
    if np.isinf(temperature):
        note = "the model was not heard: the answers are no likelier with it than without"
    everything = np.ones(len(votes), bool)  # the model has read every item
    return conclude(votes, "bayes", posterior, choice, alpha, coin_worth(votes, posterior, everything), notes=(note,))


def gains(votes: Votes, consensus: Consensus) -> Floats:
    """How much the chance of a right label is expected to grow by one more answer about each item (n,)."""
    if consensus.method != "bayes" or not np.array_equal(consensus.items, votes.items):
        raise BadInput(f"gains need the result of bayes on the same votes, got that of {consensus.method!r}")
    known = consensus.accuracy[np.isfinite(consensus.accuracy)]
    alpha = float(np.average(known, weights=consensus.given[np.isfinite(consensus.accuracy)])) if len(known) else _FIRST
    posterior = consensus.posterior
    other = (1 - alpha) / (posterior.shape[1] - 1)
    best, second = np.sort(posterior, axis=1)[:, [-1, -2]].T
    rival = np.where(posterior == best[:, None], second[:, None], best[:, None])  # the best of the other classes
    after = np.maximum(posterior * alpha, rival * other).sum(axis=1)
    return np.asarray(np.maximum(after - best, 0), np.float64)


def _temperature(named: _Named, probs: Floats, iterations: int) -> float:
    """The likeliest temperature of the model; infinite where it says nothing about the answers."""
    from scipy.optimize import minimize_scalar

    def unlikely(log: float) -> float:
        return -_fit(named, _heard(probs, float(np.exp(log))), iterations)[1]

    grid = np.log(_TEMPERATURES)
    best = int(np.argmin([unlikely(log) for log in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(unlikely, bounds=around, method="bounded", options={"xatol": 0.01})
    without = _fit(named, _heard(probs, np.inf), iterations)[1]
    return float(np.exp(found.x)) if -found.fun > without + np.log(len(probs)) / 2 else float("inf")


def _heard(probs: Floats, temperature: float) -> Floats:
    """The model's probabilities at a temperature; all classes alike at an infinite one."""
    return np.full_like(probs, 1 / probs.shape[1]) if np.isinf(temperature) else tempered(probs, temperature)


class _Named:
    """The classes that somebody named, item by item: the others of an item all fare alike, so a turn is in these."""

    def __init__(self, votes: Votes, classes: int) -> None:
        self.votes, self.classes = votes, classes
        self.cells, self.of_answer = np.unique(votes.item * classes + votes.label, return_inverse=True)
        self.item = self.cells // classes

    def gains(self, alpha: Floats) -> tuple[Floats, Floats]:
        """By how much each named class gains on the unnamed ones (log), and the most of each item, or 0."""
        wrong = np.log1p(-alpha) - np.log(self.classes - 1)
        pull = (np.log(alpha) - wrong)[self.votes.annotator]
        gain = np.bincount(self.of_answer, pull, minlength=len(self.cells)).astype(np.float64)
        most = np.zeros(len(self.votes.items))
        np.maximum.at(most, self.item, gain)
        return gain, most


def _fit(named: _Named, prior: Floats, iterations: int) -> tuple[Floats, float]:
    """Accuracies, and how likely the answers and the common accuracy are (log), over answered items."""
    votes, n = named.votes, len(prior)
    given = float(votes.given.sum())
    trust = _TRUST + _SHARE * given
    at = prior.ravel()[named.cells]
    rest = np.maximum(1 - np.bincount(named.item, at, minlength=n), 0)
    alpha, common = np.full(len(votes.annotators), _FIRST), _FIRST
    for turn in range(iterations):
        gain, most = named.gains(alpha)
        share = at * np.exp(gain - most[named.item])
        whole = np.maximum(rest * np.exp(-most) + np.bincount(named.item, share, minlength=n), 1e-300)
        likelihood = float((most + np.log(whole)).sum())
        likelihood += float((np.log1p(-alpha) - np.log(named.classes - 1)) @ votes.given)
        likelihood += trust * float(_FIRST * np.log(common) + (1 - _FIRST) * np.log1p(-common))
        right = np.bincount(votes.annotator, (share / whole[named.item])[named.of_answer], minlength=len(alpha))
        common = (float(right.sum()) + trust * _FIRST) / (given + trust)
        better = np.clip((right + _STRENGTH * common) / (votes.given + _STRENGTH), 1 / named.classes, 1 - _NEAR)
        if np.abs(better - alpha).max() < _STILL or turn == iterations - 1:
            break
        alpha = better
    return alpha, likelihood


def _posterior(named: _Named, prior: Floats, alpha: Floats) -> Floats:
    """Bayes' rule with these accuracies."""
    gain, most = named.gains(alpha)
    raised = prior * np.exp(-most)[:, None]
    raised.ravel()[named.cells] = prior.ravel()[named.cells] * np.exp(gain - most[named.item])
    return np.asarray(raised / np.maximum(raised.sum(axis=1, keepdims=True), 1e-300), np.float64)
