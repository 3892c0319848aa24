"""Majority vote: the class that most answers name.

The posterior is the share of the answers; no annotator counts more than another. Ties go to the class that the model
finds likelier where its probabilities are given, else (and where the model is undecided too) by a lot drawn from seed
and item id, so that no class is favoured and the same item falls the same way in every round.

An annotator's accuracy here is the share of his answers, on items that somebody else answered too, that agree with the
consensus. The interval is Jeffreys' over those answers and covers *agreement with the consensus*: he is one of those
who make it, so with few answers an item this flatters him against the truth. One whom nobody checked agrees with
himself: his accuracy is 1 and its interval that of no observations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.votes.answers import Floats, Ints, Votes
from ncalr.votes.consensus import Consensus, conclude, likeliest
from ncalr.votes.model import as_probs


def majority(votes: Votes, *, probs: Any = None, seed: int = 0) -> Consensus:
    """The class named most often; ties by the model's `probs` (n, c) where given, else at random.

    >>> found = majority(Votes.from_matrix([[0, 0, 1], [1, 1, 1]], classes=2))
    >>> found.labels.tolist(), found.confidence.round(2).tolist()
    ([0, 1], [0.67, 1.0])
    """
    choice = likeliest(votes.shares, votes, seed, None if probs is None else as_probs(probs, votes))
    return conclude(votes, "majority", votes.shares, choice, *agreement_with(votes, choice.labels, votes.checked))


def agreement_with(votes: Votes, labels: Ints, counted: Any) -> tuple[Floats, Floats]:
    """The share of each annotator's counted answers that are these labels, or of all if none counts; and the number."""
    agrees = votes.label == labels[votes.item]
    a = len(votes.annotators)
    seen = np.bincount(votes.annotator[counted], minlength=a)
    right = np.bincount(votes.annotator, agrees & (counted | (seen[votes.annotator] == 0)), minlength=a)
    among = np.where(seen > 0, seen, votes.given)
    return np.where(among > 0, right / np.maximum(among, 1), np.nan), seen.astype(np.float64)
