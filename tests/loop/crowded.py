"""Runs with several annotators: Gaussian clouds, a quick learner, people of different quality."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import SGDClassifier

from ncalr.data import ArrayPool
from ncalr.learn import SklearnLearner
from ncalr.loop.run import Plan, Setting
from ncalr.oracles import Annotators, Noisy, Refusing, Slow, Truth

IDS = 1000 + np.arange(600)


def world(seed=3, spread=1.6):
    """The items of a pool and of a test set, and what they are: four clouds that overlap a little."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 900)
    return (rng.normal(size=(4, 6)) * spread)[truth] + rng.normal(size=(900, 6)), truth


def people(truth, rates=(0.3, 0.2, 0.35), seed=0):
    """An oracle a person, wrong at these rates, each in a way of his own."""
    return {f"p{at}": Noisy(truth, f"symmetric(rate={rate})", seed=[seed, at]) for at, rate in enumerate(rates)}


KINDS = {
    "people": lambda truth: Annotators(people(truth)),
    "hesitant": lambda truth: Annotators(
        {
            name: Refusing(Slow(one, 0.2, seed=[9, at]), 0.2, seed=at)
            for at, (name, one) in enumerate(people(truth).items())
        }
    ),
    "late": lambda truth: Slow(Annotators(people(truth, (0.2,) * 5)), 0.3, seed=4),
}


def setting(kind="people", first=40, **changes):
    """600 items of four classes, 300 to test on, and one of the oracles above."""
    items, truth = world(**changes)
    pool = ArrayPool(items[:600], ids=IDS)
    oracle = KINDS[kind] if isinstance(kind, str) else kind
    return Setting(pool, oracle(Truth(IDS, truth[:600], 4)), ArrayPool(items[600:]), truth[600:], IDS[:first].tolist())


def learner():
    """Checkpoints by partial_fit: quick, and not by heart."""
    return SklearnLearner(SGDClassifier(loss="log_loss", alpha=0.02), epochs=6, checkpoints=3)


def plan(**changes):
    """Four trainings."""
    return Plan(**{"strategy": "random", "budgets": (40, 80, 120, 160), "classes": 4, "seed": 1, **changes})
