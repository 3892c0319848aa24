"""Pages that are made from the code: one section a strategy from its docstring, the commands from their help."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from mkdocs.structure.files import File


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    for name, text in (("strategies.md", strategies_page()), ("commands.md", commands_page())):
        files.append(File.generated(config, name, content=text))
    return files


def strategies_page() -> str:
    """Every strategy: its note, what it needs, where it comes from, what it costs."""
    from ncalr.acquire import selectors, strategies

    parts = ["# Strategies\n\nMade from the code. `ncalr strategies` prints the same as a table.\n"]
    for strategy in strategies().values():
        facts = {
            "needs": ", ".join(sorted(strategy.needs)),
            "uses if given": ", ".join(sorted(strategy.wants)),
            "picks by": f"`{strategy.select}`",
            "options": _options(strategy),
            "cost": strategy.cost,
            "source": strategy.cites,
        }
        rows = "".join(f"* **{name}**: {value}\n" for name, value in facts.items() if value)
        parts.append(f"## {strategy.name}\n\n{rows}\n{_note(strategy)}\n")
    parts.append("## Selectors\n")
    parts += [f"* **{s.name}**: {s.summary} {_options(s)}" for s in selectors().values()]
    return "\n".join(parts)


def _options(thing: Any) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in thing.options.items())


def _note(strategy: Any) -> str:
    """The docstring of the strategy's file; its paragraphs are Markdown but for the angle brackets of formulas."""
    known = sys.modules.get(f"ncalr.acquire.scores.{strategy.name}")
    module = inspect.getmodule(strategy.score) if strategy.score else known
    text = inspect.cleandoc((module.__doc__ if module else "") or strategy.summary)
    blocks = text.split("\n\n")
    return "\n\n".join(block if block.startswith("    ") else block.replace("<", "&lt;") for block in blocks)


def commands_page() -> str:
    """The help of every command."""
    import os

    os.environ.update(COLUMNS="78", NO_COLOR="1", TERM="dumb")
    from typer.main import get_command
    from typer.testing import CliRunner

    from ncalr.cli.app import app

    runner = CliRunner()
    parts = ["# Commands\n\nMade from the help of each command.\n"]
    for words in _command_words(get_command(app)):
        told = runner.invoke(app, [*words, "--help"], prog_name="ncalr").output.strip()
        parts.append(f"## ncalr {' '.join(words)}\n\n```text\n{told}\n```\n")
    return "\n".join(parts)


def _command_words(group: Any, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command, those of groups by their words."""
    found = []
    for name, command in group.commands.items():
        words = (*before, name)
        found += _command_words(command, words) if hasattr(command, "commands") else [words]
    return found
