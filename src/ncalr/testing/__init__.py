"""Conformance suites: what every plug-in must do, as tests anyone can run over their own.

import pytest
from ncalr import testing

@pytest.mark.parametrize("check", testing.STRATEGY_CHECKS, ids=lambda check: check.__name__)
def test_my_strategy(check):
    check("my_strategy")

case = testing.LearnerCase(lambda: MyLearner())

@pytest.mark.parametrize("check", testing.LEARNER_CHECKS, ids=lambda check: check.__name__)
def test_my_learner(check):
    check(case)
"""

from ncalr.acquire.example import example_pool
from ncalr.testing.learners import LEARNER_CHECKS, LearnerCase, check_learner, example_items
from ncalr.testing.oracles import ORACLE_CHECKS, OracleCase, check_oracle
from ncalr.testing.pools import POOL_CHECKS, PoolCase, check_pool
from ncalr.testing.strategies import STRATEGY_CHECKS, check_strategy

__all__ = [
    "LEARNER_CHECKS",
    "ORACLE_CHECKS",
    "POOL_CHECKS",
    "STRATEGY_CHECKS",
    "LearnerCase",
    "OracleCase",
    "PoolCase",
    "check_learner",
    "check_oracle",
    "check_pool",
    "check_strategy",
    "example_items",
    "example_pool",
]
