"""The intervals: Louis' information against a numeric one, and how often they cover what was planted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from crowds import coins, crowd, uneven

from ncalr.votes import METHODS, Votes, dawid_skene, one_coin
from ncalr.votes import information as info
from ncalr.votes.information import coin_worth, confusion_worth


def hessian(f: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-4) -> np.ndarray:
    unit = step * np.eye(len(x))
    return np.array(
        [[(f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / (4 * step**2) for b in unit] for a in unit]
    )


def log_likelihood(votes: Votes, theta: np.ndarray, shares: np.ndarray) -> float:
    logs = np.log(theta).transpose(0, 2, 1).reshape(-1, votes.classes)
    return float(np.log(np.exp(votes.readings @ logs + np.log(shares)).sum(axis=1)).sum())


def posterior_of(votes: Votes, theta: np.ndarray, shares: np.ndarray) -> np.ndarray:
    logs = np.log(theta).transpose(0, 2, 1).reshape(-1, votes.classes)
    rows = np.exp(votes.readings @ logs + np.log(shares))
    return rows / rows.sum(axis=1, keepdims=True)


def test_coin_worth_is_the_curvature_of_the_likelihood() -> None:
    votes, _ = crowd(np.random.default_rng(0), 4000, coins([0.8, 0.7, 0.65], 3))
    shares = np.full(3, 1 / 3)
    alpha = np.array([0.8, 0.7, 0.65])
    for _ in range(2000):  # EM to the top, without a prior and with the shares held
        q = posterior_of(votes, coins(alpha, 3), shares)[votes.item, votes.label]
        alpha = np.bincount(votes.annotator, q) / votes.given
    variance = np.linalg.inv(-hessian(lambda a: log_likelihood(votes, coins(a, 3), shares), alpha)).diagonal()
    found = coin_worth(votes, posterior_of(votes, coins(alpha, 3), shares))
    np.testing.assert_allclose(found, alpha * (1 - alpha) / variance, rtol=0.01)
    assert (found < 0.7 * votes.given).all()  # much is missing here, so much was tested


def test_confusion_worth_is_the_curvature_of_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    votes, _ = crowd(
        rng, 20_000, np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.75, 0.25], [0.1, 0.9]], [[0.7, 0.3], [0.2, 0.8]]])
    )
    shares = np.array([0.5, 0.5])

    def matrices(first: np.ndarray) -> np.ndarray:
        return np.stack([first, 1 - first], axis=-1).reshape(3, 2, 2)

    theta = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.75, 0.25], [0.1, 0.9]], [[0.7, 0.3], [0.2, 0.8]]])
    for _ in range(2000):
        said = (votes.readings.T @ posterior_of(votes, theta, shares)).reshape(3, 2, 2).transpose(0, 2, 1)
        theta = said / said.sum(axis=2, keepdims=True)
    free = theta[:, :, 0].ravel()
    covariance = np.linalg.inv(-hessian(lambda x: log_likelihood(votes, matrices(x), shares), free))
    accuracy, entries = confusion_worth(votes, posterior_of(votes, theta, shares), theta)
    expected = (free * (1 - free) / covariance.diagonal()).reshape(3, 2)
    np.testing.assert_allclose(entries[:, :, 0], expected, rtol=0.01)
    np.testing.assert_allclose(entries[:, :, 1], expected, rtol=0.01)
    # accuracy = sum of shares times own entries: by the same covariance, and the sampling of the classes
    posterior = posterior_of(votes, theta, shares)
    mix = posterior.mean(axis=0)
    for j in range(3):
        own = theta[j].diagonal()
        slope = np.zeros(6)
        slope[2 * j : 2 * j + 2] = mix * [1, -1]
        p = mix @ own
        variance = slope @ covariance @ slope + mix @ (own - p) ** 2 / 20_000
        assert accuracy[j] == pytest.approx(p * (1 - p) / variance, rel=0.01)


def test_many_parameters_take_the_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: N less sum q (1 - q) / v; and the same for an entry, in its row."""
    rng = np.random.default_rng(2)
    votes, _ = crowd(rng, 300, uneven(rng, 3, 3))
    found = dawid_skene(votes)
    exact = coin_worth(votes, found.posterior), confusion_worth(votes, found.posterior, found.confusion)[1]
    monkeypatch.setattr(info, "LARGEST", 2)
    alone = coin_worth(votes, found.posterior)
    accuracy, entries = confusion_worth(votes, found.posterior, found.confusion)
    assert np.array_equal(accuracy, alone)
    q = found.posterior[votes.item, votes.label]
    for j in range(3):
        own = votes.annotator == j
        p = (q[own].sum() + 0.5) / 301
        assert alone[j] == pytest.approx(300 - (q[own] * (1 - q[own])).sum() / (p * (1 - p)))
    t, theta = found.posterior[:, 1], found.confusion[0, 1, 2]
    said = votes.label[votes.annotator == 0] == 2
    p = (t[said].sum() + 0.5) / (t.sum() + 1)
    missing = (t * (1 - t) * (said - theta) ** 2).sum() / (p * (1 - p))
    assert entries[0, 1, 2] == pytest.approx(t.sum() - missing)
    assert (alone >= exact[0]).all()
    assert (entries >= exact[1] - 1e-6).mean() > 0.9


def test_answers_nobody_checked_are_worth_nothing() -> None:
    votes, _ = crowd(np.random.default_rng(3), 100, coins([0.9, 0.8, 0.9], 3))
    alone = Votes.from_long(
        np.r_[votes.item, np.arange(100, 400)],
        np.r_[votes.annotator, np.zeros(300, int)],
        np.r_[votes.label, np.zeros(300, int)],
        3,
    )
    found = one_coin(alone)
    assert found.given[0] == 400
    assert found.worth[0] <= 100


CROWDS = {
    # name: items, annotators, classes, answers an item
    "three annotators, eight classes": (800, 3, 8, None),
    "five annotators, three classes": (300, 5, 3, None),
    "three poor ones, three classes": (500, 3, 3, None),
    "eight annotators, three answers an item": (500, 8, 4, 3),
    "forty annotators, four answers an item": (600, 40, 7, 4),
}


def covered(method: str, name: str, draws: int, planted: Callable) -> tuple[float, float, float]:
    """Shares of accuracies, of confusion entries and of own entries that lie in their 95 % intervals."""
    items, annotators, classes, answers = CROWDS[name]
    hits: list[list[float]] = [[], [], []]
    for seed in range(draws):
        rng = np.random.default_rng([seed, 7])
        confusion = planted(rng, annotators, classes)
        votes, _ = crowd(rng, items, confusion, answers)
        found = METHODS[method](votes)
        truth = np.einsum("jkk->jk", confusion).mean(axis=1)
        low, high = found.interval().T
        hits[0].append(float(((low <= truth) & (truth <= high)).mean()))
        if found.confusion is not None:
            bounds = found.confusion_interval()
            inside = (bounds[..., 0] <= confusion) & (confusion <= bounds[..., 1])
            hits[1].append(float(inside.mean()))
            hits[2].append(float(np.einsum("jkk->jk", inside).mean()))
    return tuple(float(np.mean(part)) if part else 0.95 for part in hits)  # type: ignore[return-value]


@pytest.mark.parametrize("name", CROWDS)
def test_dawid_skene_covers_planted_confusions(name: str) -> None:
    """95 % intervals, 30 crowds each: 200 crowds gave 0.93 to 0.97 and 0.93 to 0.98, with errors of 0.02 at 30."""
    low = 0.5 if "poor" in name else 0.6
    accuracies, entries, own = covered("dawid_skene", name, 30, lambda rng, a, c: uneven(rng, a, c, low, 0.95))
    assert 0.91 <= accuracies <= 1.0
    assert 0.9 <= entries <= 1.0
    assert 0.91 <= own <= 1.0


@pytest.mark.parametrize("name", CROWDS)
def test_one_coin_covers_planted_accuracies(name: str) -> None:
    low = 0.5 if "poor" in name else 0.55
    accuracies = covered("one_coin", name, 40, lambda rng, a, c: coins(rng.uniform(low, 0.95, a), c))[0]
    assert 0.91 <= accuracies <= 0.99


def test_glad_covers_accuracies_of_people_alike_on_all_items() -> None:
    name = "eight annotators, three answers an item"
    assert 0.88 <= covered("glad", name, 6, lambda rng, a, c: coins(rng.uniform(0.6, 0.95, a), c))[0] <= 1.0


def test_counting_expected_answers_as_seen_would_not_cover() -> None:
    """What the information is for: two of three poor annotators agree on much that is wrong."""
    hits = []
    for seed in range(30):
        rng = np.random.default_rng([seed, 8])
        votes, _ = crowd(rng, 300, coins([0.7, 0.7, 0.7], 2))
        found = one_coin(votes)
        low, high = info.jeffreys(found.accuracy, votes.given).T
        hits.append(((low <= 0.7) & (high >= 0.7)).mean())
    assert np.mean(hits) < 0.75
