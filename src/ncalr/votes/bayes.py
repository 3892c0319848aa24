"""The model as what is known before anybody answers: Bayes' rule with one coin an annotator.

    posterior_ik ~ p_M(k | i)^(1/T)  times, for every answer about i,  alpha_j if it is k, else (1 - alpha_j) / (c - 1)

Dawid and Skene's model ("Maximum likelihood estimation of observer error-rates using the EM algorithm", 1979) in its
one-coin form, with the model's probabilities in the place of the class shares. alpha is found by EM, each annotator
held to the common accuracy by a prior worth ten answers.

**How often people are right cannot be read off single answers.** A model that has learnt from answers says what people
say: where they mix two classes up it says 0.7 and 0.3, and so many of the answers are each. That they are all right and
such items are in truth the one or the other explains this as well as that one item has one class and three answers in
ten are wrong; likelihood even prefers the first, since people err where things look alike and not by a coin. So people
are judged by items that several have answered. An answer that nobody checked counts as second opinions do (four fifths
right, `_FIRST`, before there are any), more or less by how its annotator's answers fare with the model beside
everybody's. docs/log.md has what that is worth on CIFAR-10N.

**Nor can how sure the model is.** It has learnt from the first answers, or its doubts chose the items that were asked
about: on what ncal picks from CIFAR-10N a network is right in one case of four where it is right in every second else.
So the temperature T is the one under which answers that it was not *shown* are likeliest, given those that it was: by
default the first about each item (in the order of the table) are taken for shown and all others not. Without such
answers it is the one under which all are likeliest, and the model is taken to be no surer than it says. The price: if
those who give second opinions guess, they silence the model.

Nobody is taken to be worse than chance, and a model is heard only if these answers are likelier with it than with no
model at all, by log(n) / 2 (Schwarz's criterion for the one parameter T): weak models leave answers as they are. By as
much they must be likelier for a model to be taken for surer than it says; and it is never taken for surer than all the
answers together would have it, since a few second opinions can mislead.

CROWDLAB averages opinions; Bayes' rule multiplies them. Ten classes, an answer of somebody who is right in four cases
of five, a model that says 0.3 to it: the average of both is 0.55, the product 0.94. The average is a fine order of
doubts, and too soft to be learnt from. Simulated with ten classes and one answer an item, right in 82 %, and models of
whose guesses 34, 67 and 96 % are right: labels right 0.82, 0.82 and 0.86 by CROWDLAB, at a mean confidence of 0.67,
0.64 and 0.69; by Bayes' rule 0.82, 0.88 and 0.98, at 0.81, 0.88 and 0.98 (tests/votes/test_bayes.py has the like).

The model's probabilities must be out-of-sample, or of an early phase of training (`ncalr.votes.model`).

`gains` says what one more answer is worth: by how much the chance that a label drawn from the posterior is right (the
sum of its squares) is expected to grow.

    gain_i = sum over answers l of  sum over k of (posterior_ik P(l | k))^2 / P(l)   -   sum over k of posterior_ik^2

It stands on one scale for items with answers and without: of a new item the posterior is the model's own. (The chance
that the *best* guess is right does not serve: where one answer cannot overturn it, its gain is 0, doubted or not.)

>>> votes = Votes.from_matrix([[0], [1], [0], [1], [-1]], classes=2)
>>> found = bayes(votes, [[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])
>>> found.labels.tolist(), gains(votes, found).argmax().item()
([0, 1, 0, 1, -1], 4)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ncalr.errors import BadInput
from ncalr.votes.answers import Floats, Ints, Votes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.information import coin_worth
from ncalr.votes.model import as_probs, tempered

_STRENGTH = 10.0  # answers that the common accuracy is worth
_FIRST = 0.8  # the common accuracy before anybody has answered
_TRUST = 20.0  # answers that this is worth
_NEAR = 1e-4  # accuracies stay so far from 1
_STILL = 1e-6  # a smaller change of the accuracies ends the search for them
_COLDEST, _HOTTEST = 0.1, 100.0  # temperatures


def bayes(
    votes: Votes, probs: Any, *, seed: int = 0, temperature: float | None = None, iterations: int = 200
) -> Consensus:
    """The posterior with the model's `probs` (n, c) as prior, a row for each of `votes.items`.

    `temperature` of the probabilities, where it is known; by `likeliest_temperature` if not.
    """
    p_model = as_probs(probs, votes)
    votes = votes.latest()
    answered = votes.answers > 0
    named = _Named(votes.answered, p_model.shape[1])
    if temperature is None:
        temperature = likeliest_temperature(votes, p_model, iterations)
    posterior = tempered(p_model, temperature)
    alpha = np.full(len(votes.annotators), np.nan)
    if answered.any():
        alpha, _ = _fit(named, posterior[answered], iterations)
        posterior[answered] = _posterior(named, posterior[answered], alpha)
    alpha[votes.given == 0] = np.nan
    choice = likeliest(posterior, votes, seed, p_model)
    note = f"the model's probabilities were taken at temperature {temperature:.2f}"
    if np.isinf(temperature):
        note = "the model was not heard: the answers are no likelier with it than without"
    return conclude(votes, "bayes", posterior, choice, alpha, coin_worth(votes, posterior), notes=(note,))


def likeliest_temperature(
    votes: Votes, probs: Any, iterations: int = 200, *, shown: Any = None, usual: float = 1.0
) -> float:
    """The temperature of the model's `probs` (n, c) that the answers speak for; infinite where they speak for none.

    `shown` (n,) says how many of each item's answers, the first ones, the model was trained on; one of each if not
    given. `usual` is the temperature at which the probabilities count as what the model says. Infinite: the model is
    not heard, since the answers are no likelier with it than without. `usual` where nobody answered.
    """
    p_model, many = as_probs(probs, votes), np.ones(len(votes.items), int) if shown is None else np.asarray(shown)
    if many.shape != votes.items.shape:
        raise BadInput(f"shown must be a number of answers for each of {len(votes.items)} items, got {many.shape}")
    kept = votes.latest()
    answered = kept.answers > 0
    rows = p_model[answered]
    if not len(rows):
        return usual
    named = _Named(kept.answered, rows.shape[1])
    old = _places(named.votes.item) < many[answered][named.votes.item]
    new, firsts = int((~old).sum()), _Named(named.votes.at(old), rows.shape[1])
    judged = new >= _TRUST

    def unlikely(temperature: float, given_the_old: bool = judged) -> float:
        prior = tempered(rows, temperature)
        alpha, likelihood = _fit(named, prior, iterations)
        return (_weighed(firsts, prior, alpha)[2] if given_the_old else 0.0) - likelihood

    best = _least(unlikely, usual * (_COLDEST if judged else 1.0), usual * _HOTTEST)
    enough = np.log(new if judged else len(rows)) / 2
    if best < usual:
        best = max(best, _least(partial(unlikely, given_the_old=False), usual * _COLDEST, usual))
        best = best if unlikely(best) < unlikely(usual) - enough else usual
    return best if unlikely(best) < unlikely(np.inf) - enough else float("inf")


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of a temperature is least, looked for between two of them on a logarithmic scale."""
    from scipy.optimize import minimize_scalar

    grid = np.geomspace(low, high, 13)
    values = [function(float(temperature)) for temperature in grid]
    at = int(np.argmin(values))
    around = np.log([grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]])
    found = minimize_scalar(
        lambda log: function(float(np.exp(log))), bounds=around, method="bounded", options={"xatol": 0.01}
    )
    return float(np.exp(found.x) if found.fun < values[at] else grid[at])


def _places(item: Ints) -> Ints:
    """How many answers about the same item come before each one, in the order of the table."""
    order = np.argsort(item, kind="stable")
    counts = np.bincount(item)
    place = np.empty(len(item), np.int64)
    place[order] = np.arange(len(item)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place


def gains(votes: Votes, consensus: Consensus) -> Floats:
    """How much the chance of a right label is expected to grow by one more answer about each item (n,)."""
    if consensus.method != "bayes" or not np.array_equal(consensus.items, votes.items):
        raise BadInput(f"gains need the result of bayes on the same votes, got that of {consensus.method!r}")
    known = consensus.accuracy[np.isfinite(consensus.accuracy)]
    alpha = float(np.average(known, weights=consensus.given[np.isfinite(consensus.accuracy)])) if len(known) else _FIRST
    posterior = consensus.posterior
    other = (1 - alpha) / (posterior.shape[1] - 1)
    squares = (posterior**2).sum(axis=1)
    said = other + (alpha - other) * posterior  # the chance of each answer
    after = (other**2 * squares[:, None] + (alpha**2 - other**2) * posterior**2) / said
    return np.asarray(np.maximum(after.sum(axis=1) - squares, 0), np.float64)


class _Named:
    """The classes that somebody named, item by item. All others of an item are equally likely, so these are enough."""

    def __init__(self, votes: Votes, classes: int) -> None:
        self.votes, self.classes = votes, classes
        self.cells, self.of_answer = np.unique(votes.item * classes + votes.label, return_inverse=True)
        self.item = self.cells // classes
        self.alone = ~votes.checked
        self.later = _places(votes.item) > 0  # whether an answer came after another about its item

    def gains(self, alpha: Floats) -> tuple[Floats, Floats]:
        """By how much each named class gains on the unnamed ones (log), and the most of each item, or 0."""
        wrong = np.log1p(-alpha) - np.log(self.classes - 1)
        pull = (np.log(alpha) - wrong)[self.votes.annotator]
        gain = np.bincount(self.of_answer, pull, minlength=len(self.cells)).astype(np.float64)
        most = np.zeros(len(self.votes.items))
        np.maximum.at(most, self.item, gain)
        return gain, most

    def accuracies(self, right: Floats) -> Floats:
        """Each annotator's, from how surely each answer is right.

        An answer that nobody checked counts as second opinions do, more or less by how this annotator's fare there.
        """
        votes, alone, second = self.votes, self.alone, right[self.later]
        taken = (float(second.sum()) + _TRUST * _FIRST) / (len(second) + _TRUST)
        many = np.bincount(votes.annotator[alone], minlength=len(votes.annotators))
        sure = np.bincount(votes.annotator[alone], right[alone], minlength=len(many))
        checked = np.bincount(votes.annotator[~alone], right[~alone], minlength=len(many))
        usual = float(sure.sum() / max(many.sum(), 1))
        fares = _odds((sure + _STRENGTH * usual) / (many + _STRENGTH)) - _odds(usual)
        found = checked + many * expit(_odds(taken) + fares)
        common = (float(found.sum()) + _TRUST * _FIRST) / (len(right) + _TRUST)
        held = (found + _STRENGTH * common) / (votes.given + _STRENGTH)
        return np.asarray(np.clip(held, 1 / self.classes, 1 - _NEAR), np.float64)


def _odds(share: Any) -> Any:
    return logit(np.clip(share, _NEAR, 1 - _NEAR))


def _fit(named: _Named, prior: Floats, iterations: int) -> tuple[Floats, float]:
    """Accuracies, and how likely the answers are with them (log), over answered items."""
    alpha = np.full(len(named.votes.annotators), _FIRST)
    for turn in range(iterations):
        share, whole, likelihood = _weighed(named, prior, alpha)
        better = named.accuracies((share / whole[named.item])[named.of_answer])
        if np.abs(better - alpha).max() < _STILL or turn == iterations - 1:
            break
        alpha = better
    return alpha, likelihood


def _weighed(named: _Named, prior: Floats, alpha: Floats) -> tuple[Floats, Floats, float]:
    """How likely each item's answers are under each named class, under all classes together; and all answers (log).

    The first two leave out a factor that they share, one an item: only their ratio means something.
    """
    at, (gain, most) = prior.ravel()[named.cells], named.gains(alpha)
    rest = np.maximum(1 - np.bincount(named.item, at, minlength=len(prior)), 0)
    share = at * np.exp(gain - most[named.item])
    whole = np.maximum(rest * np.exp(-most) + np.bincount(named.item, share, minlength=len(prior)), 1e-300)
    wrong = float((np.log1p(-alpha) - np.log(named.classes - 1)) @ named.votes.given)
    return share, whole, float((most + np.log(whole)).sum()) + wrong


def _posterior(named: _Named, prior: Floats, alpha: Floats) -> Floats:
    """Bayes' rule with these accuracies."""
    gain, most = named.gains(alpha)
    raised = prior * np.exp(-most)[:, None]
    raised.ravel()[named.cells] = prior.ravel()[named.cells] * np.exp(gain - most[named.item])
    return np.asarray(raised / np.maximum(raised.sum(axis=1, keepdims=True), 1e-300), np.float64)
