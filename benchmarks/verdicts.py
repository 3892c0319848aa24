"""Words for what was measured: where ncal stands to others, what becomes of a claim, differences and intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ncalr.lab.statistics import Curves, Difference, Estimate, against_each, detectable_difference, holm
from ncalr.lab.tables import markdown_table, points

CLAIMED = ("random", "coreset", "cdal")
"""Whom the paper has ncal above in its main comparison."""
FEWEST = 3
"""Seeds that are compared, or have an interval: that of two is 12.7 standard errors either way."""
NEAR = 0.01
"""Differences of areas within one point either way are called level: the paper's leads are of 2.6 points and more."""


def verdict(
    values: Mapping[str, Mapping[int, float]], scale: float = 100
) -> tuple[str, dict[str, tuple[Difference, str]]]:
    """Plain words about the claim that ncal is above the paper's rivals; ncal against each, and where it stands to it.

    `values` by strategy and seed. Above and below: a paired t-test at 5 %, corrected by Holm's method for the rivals of
    the claim, and for the others among themselves. Level: the 95 % interval lies within a point either way, or within a
    hundredth of ncal's own value where that is no share. All else could not be told apart by so few seeds. The claim
    does not hold where ncal is below a rival or level with all, and holds in part where it is above some. Strategies
    with fewer than three seeds in common are not compared yet, and those of the claim are named.
    """
    shared = seeds_in_common(values)
    compared = {name: seeds for name, seeds in shared.items() if len(seeds) >= FEWEST}
    rivals = [name for name in CLAIMED if name in compared]
    waiting = {name: len(shared.get(name, ())) for name in CLAIMED if name not in rivals}
    early = joined_by_and([f"{name} ({count} of 3 seeds)" for name, count in waiting.items()])
    if not rivals:
        return f"Too early for {early}.", {}
    claimed = paired(values, {name: compared[name] for name in rivals})
    others = {name: seeds for name, seeds in compared.items() if name not in CLAIMED}
    beside = paired(values, others) if others else {}
    near = NEAR if scale == 100 else NEAR * abs(float(np.mean([*values["ncal"].values()])))
    found = {name: (one, place(one, near)) for name, one in {**claimed, **beside}.items()}
    places = {name: found[name][1] for name in rivals}
    said = word([*places.values()])
    so_far = " so far" if waiting and said != "Holds in part" and "below" not in places.values() else ""
    short = f"{said}{so_far}: ncal is {stands({name: found[name] for name in rivals}, scale)}"
    short += f"; too early for {early}." if waiting else "."
    told = {name: found[name] for name in beside if found[name][1] in ("above", "below")}
    return f"{short} Of the others it is {stands(told, scale)}." if told else short, found


def stands(found: Mapping[str, tuple[Difference, str]], scale: float = 100) -> str:
    """Where something stands to each other, in words: above these, level with those; small differences are told."""
    said = []
    for where in ("above", "below", "level with", "not told apart from"):
        names = [name for name, (_, at) in found.items() if at == where]
        small = [name for name in names if abs(found[name][0].aubc.mean) < NEAR]
        told = scale == 100 and where in ("above", "below") and small
        if told and len(small) < len(names):
            names = [f"{name} (by less than a point)" if name in small else name for name in names]
        each = f" ({'each ' * (len(names) > 1)}by less than a point)" if told and len(small) == len(names) else ""
        said += [f"{where} {joined_by_and(names)}{each}"] if names else []
    return ", ".join(said)


def word(places: list[str]) -> str:
    """What becomes of a claim to be above by where one stands to each; nothing found either way is no finding."""
    if "below" in places or set(places) == {"level with"}:
        return "Does not hold"
    return "Holds" if set(places) == {"above"} else "Holds in part" if "above" in places else "Could not be shown here"


def place(found: Difference, near: float = NEAR) -> str:
    """Where one stands to another: above, below, level with, or not told apart from."""
    effect = found.aubc
    if effect.p_holm < 0.05:
        return "above" if effect.mean > 0 else "below"
    return "level with" if max(-effect.low, effect.high) <= near else "not told apart from"


def seeds_in_common(values: Mapping[str, Mapping[int, float]]) -> dict[str, list[int]]:
    """The seeds that each rival has in common with ncal."""
    own = set(values.get("ncal", {}))
    return {name: sorted(own & set(seeds)) for name, seeds in values.items() if name != "ncal" and "ncal(" not in name}


def paired(
    values: Mapping[str, Mapping[int, float]], shared: Mapping[str, list[int]], own: str = "ncal"
) -> dict[str, Difference]:
    """One against some, paired by seed; they are the family of Holm's correction."""
    seeds = sorted({seed for some in shared.values() for seed in some})
    rows = {name: [[values[name].get(seed, np.nan)] for seed in seeds] for name in (own, *shared)}
    return against_each(Curves(np.array([1.0]), {name: np.array(row) for name, row in rows.items()}), own)


def corrected(family: list[Difference], size: int | None = None) -> list[Difference]:
    """Differences with their p-values corrected as one family, of which some may not have been measured yet."""
    p = [one.aubc.p for one in family]
    missing = (size or len(p)) - len(p)
    return [
        replace(one, aubc=replace(one.aubc, p_holm=value))
        for one, value in zip(family, holm([*p, *[1.0] * missing]), strict=False)
    ]


def could_show(found: Difference, scale: float = 100) -> str:
    """The true difference that so many seeds find four times out of five."""
    size = detectable_difference(float(found.aubc.deviation), found.seeds)
    return f"{scale * size:.{digits_of(scale)}f}" if np.isfinite(size) else ""


def reach(sizes: list[str]) -> str:
    """The least and the largest of what could have been shown."""
    known = sorted(filter(None, sizes), key=float)
    return " to ".join(dict.fromkeys([known[0], known[-1]])) if known else ""


def gap(found: Difference, scale: float = 100) -> str:
    """A difference of areas and its interval."""
    effect = found.aubc
    return signed(Estimate(effect.mean, effect.low, effect.high, np.array(found.seeds)), scale)


def joined_by_and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def signed(gain: Estimate, scale: float = 100) -> str:
    """A difference with its interval, where there is one."""
    low, mean, high = (
        points(float(one)) if scale == 100 else f"{scale * float(one):+.{digits_of(scale)}f}"
        for one in (gain.low, gain.mean, gain.high)
    )
    return f"{mean} ({low} to {high})" if np.isfinite(gain.low) else mean


def digits_of(scale: float) -> int:
    """Points have one digit behind the point, other values three."""
    return 1 if scale == 100 else 3


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, without the end of its last line."""
    return markdown_table(head, rows).rstrip("\n")
