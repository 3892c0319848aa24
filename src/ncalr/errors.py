"""Every error ncalr raises on purpose.

    NcalrError
    ├── BadInput            an argument cannot be used: what was given, what was expected, what to do
    │   ├── Damaged         rows of a pool on disk are not what was written: which file, which rows
    │   ├── MissingEvidence a strategy needs something that was not passed
    │   └── NotFinite       NaN or infinity: how many, and where the first one is
    ├── UnknownName         no strategy, selector or option of that name (with the nearest one)
    ├── NotRecorded         a recorder was not asked to keep what is wanted from it
    └── MissingExtra        an optional package is not installed (with the line that installs it)

`BadInput` is also a `ValueError` and `UnknownName` also a `KeyError`, so code that knows nothing of
ncalr still catches them. What may be wrong and may be right is a `Note`, a warning, where a function has no notes to
return.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from typing import Any


class NcalrError(Exception):
    """The root of all errors raised on purpose."""


class BadInput(NcalrError, ValueError):
    """An argument cannot be used."""


class MissingEvidence(BadInput):
    """A strategy needs evidence that was not passed."""


class Damaged(BadInput):
    """Rows of a pool on disk are missing or not what was written."""

    def __init__(self, words: str, path: str = "", rows: tuple[int, int] = (0, 0)) -> None:
        super().__init__(words)
        self.path, self.rows = path, rows

    def __reduce__(self) -> tuple[type[Damaged], tuple[str, str, tuple[int, int]]]:  # it travels between processes
        return Damaged, (str(self), self.path, self.rows)


class NotFinite(BadInput):
    """An input holds NaN or infinity."""


class UnknownName(NcalrError, KeyError):
    """A name is not in its registry."""

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])


class NotRecorded(NcalrError):
    """A recorder did not keep what is asked of it."""


class MissingExtra(NcalrError, ImportError):
    """An optional package is not installed."""


class Note(UserWarning):
    """Something to look at; the command line prints it as it prints other notes."""


def check_known(kind: str, given: Any, known: Collection[str], more: str = "") -> None:
    """Raise where a name is none of those that are known."""
    if given not in known:
        raise unknown(kind, str(given), known, more)


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return the value, which must be a whole number of at least `least`; NumPy's count too, truth values do not."""
    fits = isinstance(value, Integral) and int(value) >= least and (most is None or int(value) <= most)
    if isinstance(value, bool) or not fits:
        bounds = f"from {least} on" if most is None else f"in {least}..{most}"
        raise BadInput(f"{name} must be a whole number {bounds}, got {value!r}")
    return int(value)


def number_between(name: str, value: Any, low: float, high: float) -> float:
    """Return the value, which must be a number between two others, these left out; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low < float(value) < high:
        raise BadInput(f"`{name}` must be a number between {low:g} and {high:g}, got {value!r:.80}.")
    return float(value)


def unknown(kind: str, given: str, known: Iterable[str], more: str = "", also: Iterable[str] = ()) -> UnknownName:
    """The error for a name that is not known, with the nearest one that is, or that `also` may have been meant."""
    names = sorted(known)
    meant = {name.lower(): name for name in [*also, *names]}
    near = difflib.get_close_matches(given.replace("-", "_").lower(), meant, n=1, cutoff=0.5)
    hint = f" Did you mean {meant[near[0]]!r}?" if near else f" Known: {', '.join(names) or 'none'}."
    return UnknownName(f"no {kind} {given!r}.{hint}{' ' + more if more else ''}")
