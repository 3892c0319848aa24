"""A measure of several runs where all of them are equally accurate: most measures follow the accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput, NotFinite
from ncalr.kernels import to_numpy

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Matched:
    """What each run's measure was when the run first had this accuracy; NaN for a run that never passed through it."""

    accuracy: float
    values: dict[str, float]


def at_matched_accuracy(runs: Mapping[str, tuple[Any, Any]], accuracy: float | None = None) -> Matched:
    """A measure of each run where all runs are equally accurate.

    `runs` gives for each name the accuracies of its rounds in order and the measure (an AUROC) at the same rounds. The
    measure is read off the straight line between the two rounds around the first time the run reaches `accuracy`; there
    is no going beyond a run's own range. Without `accuracy` it is the highest that every run reaches.

    >>> at_matched_accuracy({"a": ([0.25, 0.75], [0.5, 0.75]), "b": ([0.25, 0.5], [0.6, 0.7])})
    Matched(accuracy=0.5, values={'a': 0.625, 'b': 0.7})
    """
    if not runs:
        raise BadInput("no runs given: pass {name: (accuracies, values)}, one of each a round")
    curves = {name: _curve(name, *pair) for name, pair in runs.items()}
    if accuracy is None:
        accuracy = min(float(reached.max()) for reached, _ in curves.values())
        late = [name for name, (reached, _) in curves.items() if reached[0] > accuracy]
        if late:
            raise BadInput(
                f"no accuracy that all runs pass through: {late[0]!r} starts at {curves[late[0]][0][0]:g} and another "
                f"run reaches {accuracy:g} at most; compare runs that overlap"
            )
    return Matched(float(accuracy), {name: _first_time(float(accuracy), *curve) for name, curve in curves.items()})


def _first_time(wanted: float, accuracies: Floats, values: Floats) -> float:
    """The value on the line between rounds where the accuracy first gets to the wanted one, coming from below."""
    reached = np.flatnonzero(accuracies >= wanted)
    if not len(reached) or accuracies[0] > wanted:
        return float("nan")
    after = int(reached[0])
    before = max(after - 1, 0)
    return float(np.interp(wanted, accuracies[[before, after]], values[[before, after]]))


def _curve(name: str, accuracies: Any, values: Any) -> tuple[Floats, Floats]:
    curve = finite_list(f"accuracies of {name!r}", accuracies), finite_list(f"values of {name!r}", values)
    if len(curve[0]) != len(curve[1]):
        raise BadInput(f"{name!r} has {len(curve[0])} accuracies and {len(curve[1])} values; give one of each a round")
    return curve


def finite_list(what: str, given: Any) -> Floats:
    """At least one number, all of them finite, in float64."""
    values = np.asarray(to_numpy(given))
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "fiub":
        raise BadInput(f"{what} must be a list of at least one number, got {values.dtype} of shape {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise NotFinite(f"{what} hold {len(bad)} values that are NaN or infinite, the first at {bad[0]}")
    return values.astype(np.float64)
