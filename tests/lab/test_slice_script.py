"""`benchmarks/slice.sh`: what a slice has done comes back, whatever else is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "slice.sh"


@pytest.fixture
def call(tmp_path):
    """The script, in a tree of its own, with a journal to begin from."""
    tree, out = tmp_path / "tree", tmp_path / "out"
    for folder in ("src", "benchmarks", "results/study/one"):
        (tree / folder).mkdir(parents=True)
    (tree / "results" / "study" / "one" / "journal.jsonl").write_text("first\n")
    out.mkdir()
    script = shutil.copy(SCRIPT, tree / "benchmarks")
    where = {**os.environ, "WORK": str(tmp_path / "work"), "OUT": str(out), "SHOW": "0"}

    def run(*words):
        return subprocess.run(["bash", script, *words], env=where, capture_output=True, text=True, check=False)

    return run


def test_what_was_done_comes_back(call, tmp_path):
    assert "nothing was started" in call("wait", "1").stderr
    command = (
        "echo second >>$WORK/study/one/journal.jsonl; mkdir $WORK/study/models; touch $WORK/study/models/large; "
        "echo said; until [ -e $WORK/go ]; do sleep 0.1; done; exit 3"
    )
    assert call("start", command).returncode == 0
    assert "has not ended" in call("start", "true").stderr
    found = call("wait", "1")
    assert (found.returncode, found.stdout.split("\n")[-2]) == (0, "still running"), "no slices.jsonl, perhaps no card"
    (tmp_path / "work" / "go").touch()
    found = call("wait", "60")
    assert "said" in found.stdout
    assert "ended with 3" in found.stdout
    with tarfile.open(tmp_path / "out" / "study.tar.gz") as packed:
        assert packed.extractfile("study/one/journal.jsonl").read() == b"first\nsecond\n"
        assert "study/models" not in packed.getnames()
    assert (tmp_path / "tree" / "results" / "study" / "one" / "journal.jsonl").read_text() == "first\n"


@pytest.mark.parametrize(
    "command", ["echo said; exit 3", "set -e; echo said; (exit 3); echo more", "echo said\nexit 3 #"]
)
def test_a_command_ends_however_it_ends(call, tmp_path, command):
    """Who waits for it pays for the machine."""
    call("start", command)
    assert call("wait", "5").stdout.splitlines()[-1] == "ended with 3"
    assert (tmp_path / "out" / "slice.log").read_text() == "said\n"
