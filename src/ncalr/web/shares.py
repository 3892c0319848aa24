"""Shares of few with intervals that keep their promise: one (Wilson 1927), and the gap of two (Newcombe 1998)."""

from __future__ import annotations

import math
from typing import Any


def wilson(right: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """An interval for a share, also where it is none or all of few.

    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.596, 0.982]
    """
    if not total:
        return 0.0, 1.0
    share = right / total
    centre = share + z * z / (2 * total)
    spread = z * (share * (1 - share) / total + z * z / (4 * total**2)) ** 0.5
    scale = 1 + z * z / total
    return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)


def share(right: int, total: int) -> dict[str, Any]:
    """A share as the page reads it; without a value where there is nothing to go by."""
    low, high = wilson(right, total)
    return {"right": right, "total": total, "share": right / total if total else None, "low": low, "high": high}


def gap(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float, float]:
    """How much larger the first share is, and the ends of the interval, from the intervals of both.

    >>> [round(each, 2) for each in gap(share(18, 20), share(10, 20))]
    [0.4, 0.12, 0.61]
    """
    found = one["share"] - other["share"]
    low = found - math.hypot(one["share"] - one["low"], other["high"] - other["share"])
    high = found + math.hypot(one["high"] - one["share"], other["share"] - other["low"])
    return found, low, high
