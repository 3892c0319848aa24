"""CROWDLAB-like weighting: the model as one more voter, everyone weighed by how often others agree with them.

After Goh, Tkachenko and Mueller, "CROWDLAB: supervised learning to infer consensus labels and quality scores for data
with multiple annotators" (2022); written from the formulas. Over the items with several opinions, with Y-hat the
majority (ties by the model), e a rate of error and tiny = 1e-6,

    P      mean over items of the share of answers that are Y-hat
    e_j    share of the answers of j's co-annotators that differ from his
    e_M    share of items where the model's likeliest class is not Y-hat
    e_0    share of items whose Y-hat is not the most frequent Y-hat: the error of one who always says the same
    w_j    max(1 - e_j / e_0, tiny)          w_M = max(1 - e_M / e_0, tiny) sqrt(mean number of answers an item)

    posterior_ik = ( w_M p_M(k | i) + sum over j who answered of w_j (P if j says k, else (1 - P) / (c - 1)) )
                   / ( w_M + sum of w_j )

Not EM: two passes over the answers, nothing to converge, no confusion matrices. Its strength is the model, whose
probabilities must be out-of-sample (`ncalr.votes.model`). Differences from the paper:

* e_M and its e_0 are taken over the items whose answers decide without the model. Where the model breaks the ties, it
  is sure to agree with the outcome: with two answers an item one that guesses would get half an annotator's weight.
* An annotator without co-annotators has the mean of the others' e_j. Where no item has a second opinion, P and e_j are
  what `bayes` makes of the answers and the model: agreement with the model alone would count an answer against its own
  class wherever the model is no better than chance.
* The last answer of a person about an item is the one that counts.

Accuracy is the share of answers that agree with the consensus; the interval covers that, not agreement with the truth.
An item without answers has the model's probabilities as posterior, and no label.

>>> votes = Votes.from_matrix([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0], [-1, -1, -1]], classes=2)
>>> found = crowdlab(votes, [[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])
>>> found.labels.tolist(), doubts(votes, found).argmax().item()
([0, 1, 0, 1, -1], 4)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.errors import BadInput
from ncalr.votes.answers import Floats, Ints, Votes
from ncalr.votes.bayes import bayes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.majority import agreement_with
from ncalr.votes.model import as_probs

_TINY = 1e-6


def crowdlab(votes: Votes, probs: Any, *, seed: int = 0) -> Consensus:
    """The posterior with the model's out-of-sample `probs` (n, c), a row for each of `votes.items`, as one voter."""
    p_model = as_probs(probs, votes)
    votes = votes.latest()
    guess = likeliest(p_model, votes, seed).labels
    first = likeliest(votes.shares, votes, seed, p_model).labels
    trust, weights, model_weight, note = _weigh(votes, first, guess, p_model)
    pull = weights[votes.annotator]
    n, c = votes.shares.shape
    named = np.bincount(votes.item * c + votes.label, pull, minlength=n * c).reshape(n, c)
    total = named.sum(axis=1, keepdims=True)
    other = (1 - trust) / (c - 1)
    posterior = (model_weight * p_model + (trust - other) * named + other * total) / (model_weight + total)
    choice = likeliest(posterior, votes, seed, p_model)
    everything = np.ones(len(votes), bool)  # the model has read every item
    return conclude(
        votes,
        "crowdlab",
        posterior,
        choice,
        *agreement_with(votes, choice.labels, everything),
        weights=weights,
        model_weight=model_weight,
        notes=note,
    )


def doubts(votes: Votes, consensus: Consensus) -> Floats:
    """How much one more answer about each item is wanted (n,): 1 less the score of ActiveLab; higher = ask first.

    Goh and Mueller, "ActiveLab: active learning with re-labeling by multiple annotators" (2023). The confidence in the
    consensus is averaged, by weight, with the ignorance 1 / c of an answer that is not yet given:

        1 - ( (w_M + sum of w_j) confidence + mean(w) / c ) / ( w_M + sum of w_j + mean(w) )

    with the mean over the annotators who answered, each once. An item without answers is the same formula without w_j,
    so labelled and unlabelled items stand on one scale: the largest value says whether to label or to ask again. Temper
    the model's probabilities first (`fit_temperature`): a model too sure of itself sees nothing to label.
    """
    if consensus.weights is None or not np.array_equal(consensus.items, votes.items):
        raise BadInput(f"doubts need the result of crowdlab on the same votes, got that of {consensus.method!r}")
    votes = votes.latest()
    weights = consensus.weights
    someone = votes.given > 0
    next_one = float(weights[someone].mean()) if someone.any() else 1.0
    known = consensus.model_weight + np.bincount(votes.item, weights[votes.annotator], minlength=len(votes.items))
    score = (known * consensus.confidence + next_one / votes.classes) / (known + next_one)
    return np.asarray(1 - score, np.float64)


def _weigh(votes: Votes, first: Ints, guess: Ints, p_model: Floats) -> tuple[float, Floats, float, tuple[str, ...]]:
    """P, the weights of the annotators, that of the model, and what to say about them."""
    several = votes.answers > 1
    note: tuple[str, ...] = ()
    a = len(votes.annotators)
    if several.any():
        trust = float(votes.shares[several, first[several]].mean())
        agree = votes.counts[votes.item, votes.label] - 1.0
        others = votes.answers[votes.item] - 1.0
        agreed, met = (np.bincount(votes.annotator, part, minlength=a) for part in (agree, others))
        error = 1 - np.where(met > 0, agreed / np.maximum(met, 1), agreed.sum() / met.sum())
    else:
        several = votes.answers > 0
        found, known = bayes(votes, p_model).accuracy, votes.given > 0
        trust = float(np.average(found[known], weights=votes.given[known])) if known.any() else 1 / votes.classes
        error = 1 - np.where(known, found, trust)
        note = ("no item has a second opinion: annotators are weighed against the model alone",)
    constant = max(_share_of_others(first[several], votes.classes), _TINY)
    decided = several & ((votes.counts == votes.counts.max(axis=1, keepdims=True)).sum(axis=1) == 1)
    against = first[decided if decided.any() else several]
    model_error = float((guess[decided if decided.any() else several] != against).mean()) if len(against) else 1.0
    model_constant = max(_share_of_others(against, votes.classes), _TINY)
    answers = float(votes.answers[votes.answers > 0].mean()) if len(votes) else 1.0
    model_weight = max(1 - model_error / model_constant, _TINY) * float(np.sqrt(answers))
    return trust, np.maximum(1 - error / constant, _TINY), model_weight, note


def _share_of_others(labels: Ints, classes: int) -> float:
    """How often one is wrong who always says the most frequent class."""
    return 1 - float(np.bincount(labels, minlength=classes).max()) / max(len(labels), 1)
