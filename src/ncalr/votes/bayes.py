"""The model as what is known before anybody answers: Bayes' rule with one coin an annotator.

    posterior_ik ~ p_M(k | i)^(1/T)  times, for every answer about i,  alpha_j if it is k, else (1 - alpha_j) / (c - 1)

Dawid and Skene's model ("Maximum likelihood estimation of observer error-rates using the EM algorithm", 1979) in its
one-coin form, with the model's probabilities in the place of the class shares. The accuracies alpha and the temperature
T of the model are those under which the answers are likeliest: T by a bounded search, alpha by EM inside it, each
annotator held to the common accuracy by a prior worth ten answers. So nobody needs a co-annotator to be judged: the
model is everybody's, and where it says 0.98 and the answer is another, either it is too sure of itself (then it is so
elsewhere, and T grows) or the annotator was wrong (then alpha falls).

CROWDLAB averages opinions; Bayes' rule multiplies them. Ten classes, an answer of somebody who is right in four cases
of five, a model that says 0.3 to it: the average of both is 0.55, the product 0.94. The average is a fine order of
doubts, and too soft to be learnt from. Simulated with ten classes and one answer an item, right in 82 %, and models of
whose guesses 34, 67 and 95 % are right: labels right 0.74, 0.86 and 0.88 by CROWDLAB, at a mean confidence of 0.24,
0.46 and 0.67; by Bayes' rule 0.82, 0.89 and 0.98, at 0.83, 0.88 and 0.98 (tests/votes/test_bayes.py has the like).

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
from ncalr.votes.em import normalised
from ncalr.votes.information import coin_worth
from ncalr.votes.model import as_probs, tempered

_STRENGTH = 10.0  # answers that the common accuracy is worth
_FIRST = 0.8  # accuracy to begin with
_NEAR = 1e-4  # accuracies stay so far from 0 and 1
_COLDEST, _HOTTEST = 0.1, 10.0


def bayes(
    votes: Votes, probs: Any, *, seed: int = 0, temperature: float | None = None, iterations: int = 50
) -> Consensus:
    """The posterior with the model's `probs` (n, c) as prior, a row for each of `votes.items`.

    `temperature` of the probabilities, where it is known; the likeliest one if not.
    """
    from scipy.optimize import minimize_scalar

    p_model = as_probs(probs, votes)
    votes = votes.latest()
    answered = votes.answers > 0
    inner, seen = votes.answered, p_model[answered]
    if temperature is None:
        temperature = 1.0
        if answered.any():
            bounds = (np.log(_COLDEST), np.log(_HOTTEST))
            found = minimize_scalar(
                lambda log: -_fit(inner, tempered(seen, float(np.exp(log))), iterations)[2],
                bounds=bounds,
                method="bounded",
            )
            temperature = float(np.exp(found.x))
    posterior = tempered(p_model, temperature)
    alpha = np.full(len(votes.annotators), np.nan)
    if answered.any():
        posterior[answered], alpha, _ = _fit(inner, posterior[answered], iterations)
    alpha[votes.given == 0] = np.nan
    choice = likeliest(posterior, votes, seed, p_model)
    note = f"the model's probabilities were taken at temperature {temperature:.2f}"
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


def _fit(votes: Votes, prior: Floats, iterations: int) -> tuple[Floats, Floats, float]:
    """Posterior, accuracies and the log likelihood of the answers, over answered items."""
    n, c = prior.shape
    cell = votes.item * c + votes.label
    logs = np.log(np.maximum(prior, 1e-300))
    alpha = np.full(len(votes.annotators), _FIRST)
    likelihood = -np.inf
    for _ in range(iterations):
        wrong = np.log1p(-alpha) - np.log(c - 1)
        gain = np.bincount(cell, (np.log(alpha) - wrong)[votes.annotator], minlength=n * c).reshape(n, c)
        posterior, found = normalised(logs + gain)
        before, likelihood = likelihood, found + float(wrong @ votes.given)
        right = np.bincount(votes.annotator, posterior[votes.item, votes.label], minlength=len(alpha))
        common = right.sum() / max(votes.given.sum(), 1)
        alpha = np.clip((right + _STRENGTH * common) / (votes.given + _STRENGTH), _NEAR, 1 - _NEAR)
        if likelihood - before < 1e-6 * n:
            break
    return posterior, alpha, likelihood
