"""`ncalr strategies`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def run(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List the strategies: what each needs, where it comes from, what it costs."""
    import json

    from ncalr.acquire import selectors, strategies

    if as_json:
        facts = {
            "strategies": [_facts(s) for s in strategies().values()],
            "selectors": [
                {"name": s.name, "summary": s.summary, "options": _plain(s.options)} for s in selectors().values()
            ],
        }
        print(json.dumps(facts, indent=2))
        return
    _print_tables()


def _print_tables() -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from ncalr.acquire import selectors, strategies

    table = Table(box=box.SIMPLE_HEAD, title="Strategies", title_justify="left", pad_edge=False)
    for column in ("name", "what it prefers", "needs (uses if given)", "cost", "source"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for s in strategies().values():
        wants = f" ({', '.join(sorted(s.wants))})" if s.wants else ""
        table.add_row(s.name, s.summary, ", ".join(sorted(s.needs)) + wants, s.cost, s.cites)
    choices = Table(box=box.SIMPLE_HEAD, title="Selectors (select=…)", title_justify="left", pad_edge=False)
    for column in ("name", "what it does", "options"):
        choices.add_column(column, overflow="fold", no_wrap=column == "name")
    for c in selectors().values():
        choices.add_row(c.name, c.summary, ", ".join(f"{k}={v}" for k, v in c.options.items()))
    console = Console()
    console.print(table)
    console.print(choices)
    console.print("Options go in brackets: ncal(fusion=rank), ncal(select=filtered(multiple=3)).", markup=False)


def _facts(strategy: Any) -> dict[str, Any]:
    return {
        "name": strategy.name,
        "summary": strategy.summary,
        "needs": sorted(strategy.needs),
        "wants": sorted(strategy.wants),
        "select": strategy.select,
        "rowwise": strategy.rowwise,
        "options": _plain(strategy.options),
        "cites": strategy.cites,
        "cost": strategy.cost,
    }


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else str(value)
        for name, value in options.items()
    }
