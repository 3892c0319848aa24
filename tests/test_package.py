"""The package as a whole: what it offers, what it does not load, what its documents say."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ncalr
from ncalr.acquire import registry

ROOT = Path(__file__).parents[1]
HEAVY = ["torch", "numba", "scipy", "sklearn", "triton", "numpy"]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCKS = [
    pytest.param(code, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]
ELSEWHERE = (".kernels.triton_", ".migrations.env")  # need Triton (torch's CUDA builds); run by Alembic only
MODULES = [
    module.name
    for module in pkgutil.walk_packages(ncalr.__path__, "ncalr.")
    if not any(part in module.name for part in ELSEWHERE)
]


def loaded_by(code: str) -> set[str]:
    """Which heavy packages a fresh Python has loaded after this code."""
    program = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_text_files_are_utf_8_whatever_the_system_takes(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        words = [part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        bare = name in ("read_text", "write_text")
        bare |= name == "open" and any(re.fullmatch("[rwax][+]?", word) for word in words)
        assert not bare, f"line {node.lineno} names no encoding"


def test_import_loads_nothing_heavy():
    assert loaded_by("import ncalr") == set()


def test_help_loads_nothing_heavy():
    code = """
import contextlib, sys, ncalr.cli
sys.argv = ["ncalr", "--help"]
with contextlib.suppress(SystemExit):
    ncalr.cli.main()
"""
    assert loaded_by(code) == set()


def test_a_query_on_the_cpu_does_not_load_torch():
    code = "import numpy as np, ncalr\nncalr.query('coreset', 2, features=np.random.default_rng(0).random((9, 3)))"
    assert "torch" not in loaded_by(code)


def test_every_public_name_is_there():
    for name in ncalr.__all__:
        assert getattr(ncalr, name) is not None
    assert dir(ncalr) == sorted(ncalr.__all__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        ncalr.nothing_like_it  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("code", BLOCKS)
def test_code_blocks_in_documents_run(code, tmp_path, monkeypatch):
    """What they register is forgotten again."""
    ncalr.strategies()  # all that ship are there before the copies are made
    for name in ("_STRATEGIES", "_SELECTORS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "document", "exec"), {"__name__": "document"})


def test_the_example_runs(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    importlib.import_module("01_query").main()
    printed = capsys.readouterr().out
    assert "ncal" in printed
    assert "CMAP" in printed
