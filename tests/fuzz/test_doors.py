"""A short run of every door; `pytest tests/fuzz --fuzz-examples 20000` is a long one, `long_run.py` a counted one."""

from __future__ import annotations

import doors_arrays  # noqa: F401 (registers its doors)
import doors_files  # noqa: F401
import pytest
from harness import DOORS, Fault, arena, fuzz

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("pyarrow")
pytest.importorskip("PIL")
pytest.importorskip("sqlalchemy")


@pytest.fixture(scope="module")
def here():
    with arena() as made:
        yield made


@pytest.mark.parametrize("name", sorted(DOORS))
def test_no_input_hurts(name, here, request):
    counts = dict.fromkeys(("result", "refusal"), 0)

    def told(ended, seconds):
        if isinstance(ended, Fault):
            raise ended
        counts[ended] += 1

    examples = request.config.getoption("--fuzz-examples")
    fuzz(DOORS[name], examples or DOORS[name].examples, here, told)
    assert all(counts.values()) or sum(counts.values()) < 30, f"the door gives only one kind of end: {counts}"
