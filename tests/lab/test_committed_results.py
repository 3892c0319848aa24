"""What stands in README and docs is what `make results` writes from the journals and measurements in results/."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITTEN = ("README.md", "docs", "results")
MEASURED = ("accessibility.md",)
MADE = ("results", "scale.svg", "collapse_digits.svg")


@pytest.fixture(scope="module")
def made_again(tmp_path_factory):
    """A copy of the tree without what is made, which was made again there; what is only read is linked."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "benchmarks", tree / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", tree / "docs", ignore=shutil.ignore_patterns(*MADE))
    shutil.copy(ROOT / "README.md", tree)
    (tree / "results").mkdir()
    for path in (ROOT / "results").iterdir():
        if path.is_dir():
            (tree / "results" / path.name).symlink_to(path)
        elif path.suffix != ".md" or path.name in MEASURED:
            shutil.copy(path, tree / "results")
    (tree / "src").symlink_to(ROOT / "src")
    subprocess.run([sys.executable, "benchmarks/results.py"], cwd=tree, check=True)
    return tree


def texts(tree):
    pages = [path for name in WRITTEN for path in [tree / name, *(tree / name).rglob("*")]]
    return {str(path.relative_to(tree)): path.read_text() for path in pages if path.suffix == ".md"}


def test_tables_and_sentences_are_the_committed_ones(made_again):
    again, committed = texts(made_again), texts(ROOT)
    assert again.keys() == committed.keys()
    changed = [name for name, text in again.items() if text != committed[name]]
    assert not changed, f"`make results` changes {changed}: run it and commit what it writes"


def test_pictures_are_the_committed_ones(made_again):
    def pictures(tree):
        return {str(path.relative_to(tree)) for path in (tree / "docs").rglob("*.svg")}

    assert pictures(made_again) == pictures(ROOT)
