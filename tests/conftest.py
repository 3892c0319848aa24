"""For all tests: torch's threads are left as they were found; the option that makes the fuzzing longer."""

from __future__ import annotations

import sys
from typing import Any

import pytest


def pytest_addoption(parser):
    """Let a run of tests/fuzz be longer."""
    parser.addoption("--fuzz-examples", type=int, help="Number of inputs for each door of tests/fuzz.")


@pytest.fixture(autouse=True)
def _threads_as_before():
    """With more threads than there are cores to have, whatever comes next takes several times as long."""
    before = _threads()
    yield
    if before and _threads() != before:
        sys.modules["torch"].set_num_threads(before)


def _threads() -> Any:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else None
