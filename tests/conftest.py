"""For all tests: torch's threads are left as they were found."""

from __future__ import annotations

import sys
from typing import Any

import pytest


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
