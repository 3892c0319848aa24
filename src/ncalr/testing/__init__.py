"""Conformance suites: what every plug-in must do, as tests anyone can run over their own.

import pytest
from ncalr import testing

@pytest.mark.parametrize("check", testing.STRATEGY_CHECKS, ids=lambda check: check.__name__)
def test_my_strategy(check):
    check("my_strategy")
"""

from ncalr.testing.strategies import STRATEGY_CHECKS, check_strategy, example_pool

__all__ = ["STRATEGY_CHECKS", "check_strategy", "example_pool"]
