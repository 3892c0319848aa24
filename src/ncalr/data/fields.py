"""Check the fields of plain data that were read from a file, before anything is computed from them.

check_fields(line, {"round": is_count, "ids": list_of(is_id)}, "line 3 of journal.jsonl")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ncalr.errors import BadInput

Fits = Callable[[Any], bool]

MOST = 2**53
"""Whole numbers below it are the same as floats."""


def check_fields(facts: Any, kinds: Mapping[str, Fits], place: str, needed: Collection[str] = ()) -> None:
    """Raise where data are no object, lack a field that is needed, or have one of another kind. Others may be there."""
    if not isinstance(facts, dict):
        raise BadInput(f"{place} must be a JSON object, got {facts!r:.60}; was it edited?")
    missing = sorted(set(needed) - facts.keys())
    if missing:
        raise BadInput(f"{place} has no {missing[0]!r}; was it edited?")
    for name, fits in kinds.items():
        if name in facts and not fits(facts[name]):
            raise BadInput(f"{place}: {name} cannot be {facts[name]!r:.60}; was it edited?")


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 on, and no truth value."""
    return type(value) is int and 0 <= value < MOST


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and no truth value."""
    return type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)


def is_share(value: Any) -> bool:
    """Whether it is a number from 0 to 1."""
    return is_number(value) and 0 <= value <= 1


def is_text(value: Any) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def is_id(value: Any) -> bool:
    """Whether it can be the id of an item."""
    return isinstance(value, str) or (type(value) is int and -(2**63) <= value < 2**63)


def optional(fits: Fits) -> Fits:
    """Whether it is null, or fits."""
    return lambda value: value is None or fits(value)


def either(*kinds: Fits) -> Fits:
    """Whether it is of one of these kinds."""
    return lambda value: any(fits(value) for fits in kinds)


def list_of(fits: Fits) -> Fits:
    """Whether it is a list of such values."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def dict_of(fits: Fits) -> Fits:
    """Whether it is an object of such values."""
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def record(kinds: Mapping[str, Fits], needed: Collection[str] = ()) -> Fits:
    """Whether it is an object with the needed fields, of these kinds."""

    def fits(value: Any) -> bool:
        known = isinstance(value, dict) and set(needed) <= value.keys()
        return known and all(kind(value[name]) for name, kind in kinds.items() if name in value)

    return fits
