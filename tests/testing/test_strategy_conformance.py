"""Every strategy of the registry, and ncal with its options, through the conformance suite."""

from __future__ import annotations

import numpy as np
import pytest

from ncalr import testing
from ncalr.acquire import Strategy, resolve, strategies

VARIANTS = [
    "ncal(fusion=rank)",
    "ncal(fusion=winsor, sign=-1, center=True, counts=neutral)",
    "ncal(select=sequential)",
    "ncal(select=filtered(then=kmeans_pp))",
    "ncal(select=quota)",
    "ncal(select=stochastic_top_k)",
    "margin(select=filtered(then=k_center(space=gradients)))",
]


@pytest.mark.parametrize("check", testing.STRATEGY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [*strategies(), *VARIANTS])
def test_strategy_conforms(name, check):
    check(name)


def broken(score, **facts):
    """A strategy that is not in the registry."""
    known = resolve("margin").strategy
    return Strategy(name="broken", score=score, **{"needs": known.needs, "summary": "", **facts})


def first_item_always(evidence):
    return -np.arange(evidence.n, dtype=float)


def chunk_mean(evidence):
    values = evidence["outputs"].values[:, 0]
    return values - values.mean()


def undeclared(evidence):
    return evidence["features"][:, 0]


def spoils_its_input(evidence):
    values = evidence["outputs"].values
    values += 1
    return values[:, 0]


@pytest.mark.parametrize(
    ("strategy", "check"),
    [
        (broken(first_item_always), testing.strategies.check_permutation),
        (broken(first_item_always), testing.strategies.check_ties),
        (broken(chunk_mean, rowwise=True), testing.strategies.check_chunks),
        (broken(undeclared), testing.strategies.check_shape),
        (broken(spoils_its_input), testing.strategies.check_pure),
        (broken(lambda e: e["outputs"].values[:, 0] * np.nan), testing.strategies.check_finite),
        (
            broken(lambda e: np.nan_to_num(e["outputs"].values[:, 0]), spots=frozenset({"outputs"})),
            testing.strategies.check_bad_numbers,
        ),
    ],
    ids=["positions", "ties", "chunks", "undeclared", "impure", "nan", "hides nan"],
)
def test_the_suite_finds_what_is_broken(strategy, check):
    with pytest.raises((AssertionError, ValueError)):
        check(strategy)


def test_all_at_once():
    testing.check_strategy("random")


def test_a_check_says_what_is_wrong():
    drawn = broken(lambda evidence: np.random.default_rng().random(evidence.n))
    with pytest.raises(AssertionError, match="the same call gave other picks"):
        testing.check_strategy(drawn)
    with pytest.raises(AssertionError, match="wrote into its inputs: logits"):
        testing.check_strategy(broken(spoils_its_input))
