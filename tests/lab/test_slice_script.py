"""`benchmarks/slice.sh`: what a slice has done comes back, whatever else is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "slice.sh"


def test_what_was_done_comes_back(tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    (tree / "results" / "study" / "one").mkdir(parents=True)
    (tree / "results" / "study" / "one" / "journal.jsonl").write_text("first\n")
    (tree / "src").mkdir()
    (tree / "benchmarks").mkdir()
    out.mkdir()
    script = shutil.copy(SCRIPT, tree / "benchmarks")
    where = {**os.environ, "WORK": str(tmp_path / "work"), "OUT": str(out), "SHOW": "0"}

    def call(*words):
        return subprocess.run(["bash", script, *words], env=where, capture_output=True, text=True, check=False)

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
    with tarfile.open(out / "study.tar.gz") as packed:
        assert packed.extractfile("study/one/journal.jsonl").read() == b"first\nsecond\n"
        assert "study/models" not in packed.getnames()
    assert (tree / "results" / "study" / "one" / "journal.jsonl").read_text() == "first\n"
