"""Simulated crowds with planted confusions, and slow definitions to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ncalr.votes import Votes


def coins(accuracies: Any, classes: int) -> np.ndarray:
    """Confusion matrices (a, c, c) of annotators whose mistakes are spread evenly."""
    accuracies = np.asarray(accuracies, float)
    matrices = np.repeat((1 - accuracies) / (classes - 1), classes**2).reshape(-1, classes, classes)
    matrices[:, np.arange(classes), np.arange(classes)] = accuracies[:, None]
    return matrices


def uneven(
    rng: np.random.Generator, annotators: int, classes: int, low: float = 0.55, high: float = 0.95
) -> np.ndarray:
    """Confusion matrices whose recall differs from class to class and whose mistakes have favourites."""
    matrices = rng.dirichlet(np.ones(classes - 1), (annotators, classes))
    full = np.zeros((annotators, classes, classes))
    for c in range(classes):
        recall = rng.uniform(low, high, annotators)
        full[:, c, np.arange(classes) != c] = matrices[:, c] * (1 - recall)[:, None]
        full[:, c, c] = recall
    return full


def crowd(
    rng: np.random.Generator, items: int, confusion: np.ndarray, answers: int | None = None, shares: Any = None
) -> tuple[Votes, np.ndarray]:
    """Votes of annotators with these confusions, all of them or so many an item, and the truth."""
    a, c = confusion.shape[:2]
    truth = rng.choice(c, items, p=shares)
    steps = confusion.cumsum(axis=2)[:, truth]
    table = (rng.random((a, items))[:, :, None] > steps[:, :, :-1]).sum(axis=2).T
    if answers is not None:
        table[rng.random((items, a)).argsort(axis=1) >= answers] = -1
    return Votes.from_matrix(table, c), truth


def slow_dawid_skene(votes: Votes, prior: np.ndarray, turns: int) -> tuple[np.ndarray, np.ndarray]:
    """The two steps as the paper prints them, in loops, without logarithms; start from shares, so many turns."""
    n, a, c = len(votes.items), len(votes.annotators), votes.classes
    answers = list(zip(votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist(), strict=True))
    posterior = np.zeros((n, c))
    for i, _, said in answers:
        posterior[i, said] += 1
    posterior /= posterior.sum(axis=1, keepdims=True)
    for _ in range(turns):
        shares = (posterior.sum(axis=0) + 1 / c) / (n + 1)
        theta = prior.copy()
        for i, j, said in answers:
            theta[j, :, said] += posterior[i]
        for j in range(a):
            for k in range(c):
                theta[j, k] /= theta[j, k].sum()
        posterior = np.tile(shares, (n, 1))
        for i, j, said in answers:
            posterior[i] *= theta[j, :, said]
        posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior, theta
