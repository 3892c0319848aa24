"""Figures as text: tables, and numbers with their intervals."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

UNFINISHED = "not finished"


def html_table(head: list[str], rows: list[list[str]]) -> str:
    """A table as HTML."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table as Markdown."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def counted(number: int, what: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def interval(mean: float | None, low: float | None, high: float | None) -> str:
    """A share and its interval in points."""
    if mean is None:
        return UNFINISHED
    if low is None or high is None:
        return f"{100 * mean:.1f}"
    return (
        f"{100 * mean:.1f} ({100 * max(low, 0):.1f} to {100 * min(high, 1):.1f})"  # few seeds reach beyond what can be
    )


def signed(effect: Mapping[str, Any]) -> str:
    """A difference of two shares and its interval in points."""
    if effect["mean"] is None:
        return UNFINISHED
    between = "" if effect["low"] is None else f" ({points(effect['low'])} to {points(effect['high'])})"
    return f"{points(effect['mean'])}{between}"


def points(value: float) -> str:
    """A difference in points; with more digits where one would hide on which side of 0 it is."""
    size = 100 * abs(value)
    digits = 1 if size >= 0.05 or size < 0.0005 else 2 if size >= 0.005 else 3
    return f"{100 * value if size >= 0.0005 else 0:+.{digits}f}"


def p_value(value: float | None) -> str:
    """A p-value with three digits."""
    return "" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"
