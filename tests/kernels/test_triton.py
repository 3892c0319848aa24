"""The kernels of training, run by Triton's interpreter: no GPU needed, but Triton."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = [
    ("norm_script.py", "as in float64"),
    ("first_script.py", "as in float64"),
    ("step_script.py", "as with torch"),
    ("update_script.py", "as with torch"),
]


@pytest.mark.parametrize(("script", "said"), SCRIPTS)
def test_kernels_compute_what_they_should(script, said):
    pytest.importorskip("triton", reason="needs triton, which comes with torch's builds for GPUs")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(script)],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "only 0-dimensional arrays" in done.stderr:
        pytest.skip("the interpreter of this Triton needs NumPy below 2.4")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{said}\n"
