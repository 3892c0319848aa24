"""Each room imports only those above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ncalr"
ROOMS = [
    "errors",
    "extras",
    "types",
    "pixels",
    "kernels",
    "geometry",
    "dynamics",
    "votes",
    "acquire",
    "data",
    "oracles",
    "engine",
    "learn",
    "loop",
    "lab",
    "evaluate",
    "web",
    "testing",
    "cli",
]


def imported_rooms(path: Path) -> set[str]:
    """The rooms a file imports, wherever in the file it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "ncalr" and len(part) > 1} & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_those_above_it(room):
    files = [SOURCE / f"{room}.py"] if (SOURCE / f"{room}.py").exists() else list((SOURCE / room).rglob("*.py"))
    assert files
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    for path in files:
        assert imported_rooms(path) <= allowed, path


def test_every_room_is_listed():
    found = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert found - {"__init__", "__main__", "__pycache__"} == set(ROOMS)
