"""Forked processes: the compiled loops and torch work there as they do in the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fork_script.py")


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP and the fork of Linux")
@pytest.mark.parametrize("order", ["torch first", "numba first"])
def test_children_of_a_process_that_computed_compute_the_same(order: str) -> None:
    two = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [sys.executable, SCRIPT, order], env=two, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    parent, *children, last = done.stdout.splitlines()
    assert parent.endswith(" 2")
    assert children == [parent] * 4
    assert last == "refused"
