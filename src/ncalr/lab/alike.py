"""Which experiments are one between them, and which are on the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ncalr.data.fingerprint import differences
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import read_experiment
from ncalr.loop.journal import read_data

PROTOCOL = ("start", "step", "end", "network", "recipe", "noise", "stratified", "control", "stops")
"""What experiments have in common, beside their data, where their runs may be compared one by one."""


T = TypeVar("T")


def groups_of(folders: Sequence[Path]) -> list[list[Path]]:
    """The folders in groups that are one experiment each, in the order given."""
    return grouped(folders, lambda one, other: not why_apart(one, other))


def grouped(members: Sequence[T], alike: Callable[[T, T], bool]) -> list[list[T]]:
    """Each member in the first group whose members are all like it.

    >>> grouped([1, 2, 4, 5, 7], lambda one, other: one % 3 == other % 3)
    [[1, 4, 7], [2, 5]]
    """
    groups: list[list[T]] = []
    for member in members:
        mine = next((group for group in groups if all(alike(one, member) for one in group)), None)
        if mine is None:
            groups.append([member])
        else:
            mine.append(member)
    return groups


def why_apart(one: Path, other: Path) -> str:
    """Why the experiments of two folders are not one, in words; nothing where they are.

    They may differ in strategies, seeds and answers.
    """
    first, second = read_experiment(one), read_experiment(other)
    unlike = (_unlike(name, first, second) for name in PROTOCOL)
    return data_apart(one, other) or next((words for words in unlike if words), "")


def data_apart(one: Path, other: Path) -> str:
    """In what the data of two experiments differ, in words: by their fingerprints, or by name where one has none."""
    names = _unlike("dataset", read_experiment(one), read_experiment(other))
    known = [data for data in map(read_data, (one, other)) if data is not None]
    if len(known) < 2 or known[0].get("version") != known[1].get("version"):
        return names
    found = differences(known[0], known[1], (f"in {one}", f"in {other}"))
    return (names or f"their data differ ({'; '.join(found)})") if found else ""


def _unlike(name: str, one: Experiment, other: Experiment) -> str:
    values = getattr(one, name), getattr(other, name)
    return "" if values[0] == values[1] else f"{name} is {values[0]!r} in one and {values[1]!r} in the other"
