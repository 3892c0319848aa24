"""A run small enough to be killed fifty times: Gaussian clouds, a scikit-learn model, a few rounds."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import SGDClassifier

from ncalr.data import ArrayPool
from ncalr.learn import SklearnLearner
from ncalr.loop.run import Plan, Setting
from ncalr.oracles import Corrected, Noisy, Refusing, Slow, Truth

ORACLES = {
    "truth": lambda truth: truth,
    "hesitant": lambda truth: Slow(Refusing(truth, 0.2, seed=1), 0.3, seed=2),
    "slow": lambda truth: Slow(Noisy(truth, "symmetric(rate=0.5)", fresh=True), 0.6, times=2, seed=2),
    "reviewed": lambda truth: Slow(
        Corrected(Noisy(truth, "symmetric(rate=0.5)"), Refusing(truth, 0.2, seed=1), 0.7, after=1, seed=5), 0.3, seed=2
    ),
}


def setting(kind: str = "truth") -> Setting:
    """200 items of four classes, 80 to test on; and one of the oracles above."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 280)
    items = (rng.normal(size=(4, 6)) * 2)[truth] + rng.normal(size=(280, 6))
    pool = ArrayPool(items[:200], ids=1000 + np.arange(200))
    oracle = ORACLES[kind](Truth(pool.ids, truth[:200], 4))
    return Setting(pool, oracle, ArrayPool(items[200:]), truth[200:], pool.ids[:12].tolist())


def learner() -> SklearnLearner:
    """Checkpoints by partial_fit, so that FF can be had."""
    return SklearnLearner(SGDClassifier(loss="log_loss", alpha=0.01), epochs=6, checkpoints=3)


def plan(**changes) -> Plan:
    """Five trainings."""
    return Plan(**{"strategy": "ncal", "budgets": (12, 20, 28, 36, 44), "classes": 4, "seed": 1, **changes})
