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
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from ncalr.acquire import selectors, strategies

    console = Console()

    def entry(name: str, summary: str, facts: dict[str, str]) -> None:
        console.print(Text.assemble((name, "bold"), f"  {summary}"), highlight=False)
        said = "; ".join(f"{word} {fact}" for word, fact in facts.items() if fact)
        if said:
            console.print(Padding(Text(said, "dim"), (0, 0, 0, 4)), highlight=False)

    console.print(Text("Strategies", "italic"))
    for s in strategies().values():
        wants = f" (uses {', '.join(sorted(s.wants))} if given)" if s.wants else ""
        needs = (", ".join(sorted(s.needs)) or "nothing") + wants
        select = "" if s.select == "top_k" else s.select
        facts = {"needs": needs, "options": _written(s.options), "select": select, "cost:": s.cost, "source:": s.cites}
        entry(s.name, s.summary, facts)
    console.print(Text("\nSelectors (select=…)", "italic"))
    for c in selectors().values():
        entry(c.name, c.summary, {"options": _written(c.options)})
    console.print(
        "\nOptions go in brackets: ncal(fusion=rank), ncal(select=filtered(multiple=3)). An option that a strategy "
        "does not have goes to its selector; those that use class means take means=mean, trimmed or median. Of "
        "near-copies, copies=drop picks at most one (the default of suggest, run and label), copies=keep as many as "
        "come (the default of query).",
        markup=False,
        highlight=False,
    )


def _written(options: dict[str, Any]) -> str:
    from ncalr.acquire.spec import Spec

    return str(Spec("x", options))[2:-1]


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
