"""Pages that are made from the code: one a strategy and one a selector, and the commands from their help.

Pages of results have wide tables: the whole width is theirs, and a figure with its interval stays on one line.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

STRATEGIES, SELECTORS = "strategies/index.md", "selectors/index.md"


def on_config(config: Any) -> Any:
    """Put the generated pages below the entry of their index."""
    for entry in config.nav:
        for title, page in entry.items():
            if page == STRATEGIES:
                entry[title] = [{"Overview": page}, {"One by one": _entries("strategies")}, _selectors_entry()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name, text in (*strategy_pages().items(), *selector_pages().items(), ("commands.md", commands_page())):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give pages of results their width, and keep figures with their intervals together."""
    if page.file.src_uri.startswith("results/"):
        page.meta["hide"] = ["toc"]
    return together(markdown)


NUMBER = r"[+-]?[\d.,]+"
INTERVAL = re.compile(rf"({NUMBER}) \(({NUMBER}) to ({NUMBER})\)")


def together(text: str) -> str:
    """Figures with their intervals without a place to break the line: `+1.0 (-0.6 to +2.5)`."""
    return INTERVAL.sub("\\1\N{NO-BREAK SPACE}(\\2\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}\\3)", text)


def strategy_pages() -> dict[str, str]:
    """An index of the strategies and a page for each: its note, what it needs, where it comes from, what it costs."""
    from ncalr.acquire import strategies

    known = strategies().values()
    head = (
        "# Strategies\n\nMade from the code. `ncalr strategies` prints the same in a terminal. Options go in brackets: "
        "`ncal(fusion=rank)`, `ncal(select=filtered(multiple=3))`. A strategy scores the items, higher first, and a "
        "[selector](../selectors/index.md) chooses among them.\n"
    )
    rows = [
        f"| [{s.name}]({s.name}.md) | {_cell(s.summary)} | {_names(s.needs)} | {_cell(s.cost)} | {s.cites} |"
        for s in known
    ]
    titles = "| strategy | | needs | cost | source |"
    return {STRATEGIES: _index(head, titles, rows)} | {f"strategies/{s.name}.md": _strategy_page(s) for s in known}


def selector_pages() -> dict[str, str]:
    """An index of the selectors and a page for each."""
    from ncalr.acquire import selectors

    known = selectors().values()
    head = (
        "# Selectors\n\nHow k items are chosen among those that a [strategy](../strategies/index.md) has scored: "
        "`select=` of every strategy. An option that a strategy does not have goes to its selector.\n"
    )
    rows = [
        f"| [{s.name}]({s.name}.md) | {_cell(s.summary)} | {'no' if s.blind else 'yes'} | {_users(s.name)} |"
        for s in known
    ]
    titles = "| selector | | looks at scores | used by |"
    return {SELECTORS: _index(head, titles, rows)} | {f"selectors/{s.name}.md": _selector_page(s) for s in known}


def _strategy_page(strategy: Any) -> str:
    from ncalr.acquire.spec import parse

    means = ["`means=mean` (or `trimmed`, `median`)"] if "statistics" in strategy.needs else []
    facts = {
        "needs": _names(strategy.needs) or "nothing",
        "uses if given": _names(strategy.wants),
        "picks by": f"[`{strategy.select}`](../selectors/{parse(strategy.select).name}.md)",
        "options": ", ".join([*_options(strategy), *means, "`copies=keep` (or `drop`)"]),
        "cost": strategy.cost,
        "source": strategy.cites,
    }
    known = sys.modules.get(f"ncalr.acquire.scores.{strategy.name}")
    note = _note(inspect.getmodule(strategy.score) if strategy.score else known, strategy.summary)
    return _page(strategy.name, strategy.summary, facts, note)


def _selector_page(selector: Any) -> str:
    from ncalr.acquire.registry import bind

    bound = bind(selector.name)
    facts = {
        "needs": _names(bound.needs) or "nothing but the scores",
        "uses if given": _names(bound.wants),
        "looks at scores": "no: over a strategy that scores, its picks say so in a note" if selector.blind else "yes",
        "options": ", ".join(_options(selector)),
        "used by": _users(selector.name),
    }
    return _page(selector.name, selector.summary, facts, _note(inspect.getmodule(selector.run), selector.summary))


def _page(name: str, summary: str, facts: dict[str, str], note: str) -> str:
    rows = "".join(f"* **{word}**: {value}\n" for word, value in facts.items() if value)
    return f"# {name}\n\n{summary}\n\n{rows}\n{note}\n"


def _index(head: str, titles: str, rows: list[str]) -> str:
    return "\n".join([head, titles, "| --- " * (titles.count("|") - 1) + "|", *rows, ""])


def _entries(kind: str) -> list[dict[str, str]]:
    from ncalr import acquire

    return [{name: f"{kind}/{name}.md"} for name in getattr(acquire, kind)()]


def _selectors_entry() -> dict[str, Any]:
    return {"Selectors": [{"Overview": SELECTORS}, *_entries("selectors")]}


def _users(selector: str) -> str:
    """The strategies that choose by this selector unless told otherwise."""
    from ncalr.acquire import strategies
    from ncalr.acquire.spec import parse

    names = [s.name for s in strategies().values() if parse(s.select).name == selector]
    return ", ".join(f"[{name}](../strategies/{name}.md)" for name in names)


def _options(thing: Any) -> list[str]:
    return [f"`{key}={value}`" for key, value in thing.options.items()]


def _names(names: Any) -> str:
    return ", ".join(sorted(names))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _note(module: Any, summary: str) -> str:
    """The docstring of a file; its paragraphs are Markdown but for the angle brackets of formulas."""
    text = inspect.cleandoc((module.__doc__ if module else "") or summary)
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
