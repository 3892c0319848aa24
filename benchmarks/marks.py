"""Parts of README and docs that are made from results/: each stands between two marks, and `make results` writes it."""

from __future__ import annotations

from pathlib import Path

END = "<!-- end -->"


def fill(page: Path, name: str, body: str) -> None:
    """Put a part of a page between its marks."""
    mark = f"<!-- {name}: made by make results -->\n"
    before, found, rest = page.read_text().partition(mark)
    if not found or END not in rest:
        raise SystemExit(f"{page} has no part that begins with '{mark.strip()}' and ends with '{END}'.")
    page.write_text(f"{before}{mark}{body.rstrip()}\n{rest[rest.index(END) :]}")
