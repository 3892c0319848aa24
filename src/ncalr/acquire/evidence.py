"""Evidence: named arrays about the pool (row i is item i) and about the labelled set.

| name                     | shape     | meaning                                                               |
|--------------------------|-----------|-----------------------------------------------------------------------|
| `features`               | (n, d)    | penultimate features, evaluation mode, no augmentation                |
| `logits`, `probs`        | (n, c)    | outputs of the last checkpoint; one of the two                        |
| `predictions`            | (n,)      | predicted classes, where neither of the two is at hand                |
| `checkpoint_predictions` | (t, n)    | predicted classes at each checkpoint, oldest first                    |
| `flips`                  | (n,)      | FF, where the checkpoints were counted as they came (`Recorder`)      |
| `sampled_probs`          | (s, n, c) | probabilities of s checkpoints, ensemble members or dropout passes    |
| `mean_probs`             | (n, c)    | mean probabilities over the checkpoints of the window                 |
| `enhanced`               | (n, e)    | SISOM's enhanced features                                             |
| `labelled_features`      | (m, d)    | the same for the labelled items                                       |
| `labelled_logits`, `labelled_probs` | (m, c) |                                                                  |
| `labelled_enhanced`      | (m, e)    |                                                                       |
| `labels`                 | (m,)      | their labels, 0..c-1, as the annotators gave them                     |
| `statistics`             |           | `ClassStatistics`, where the labelled features are not at hand        |

A strategy reads evidence by name. `outputs` and `labelled_outputs` stand for logits or probabilities, whichever
there is; `predictions`, `flips` and `statistics` are derived where they were not given. Arrays stay where and what
they are (memory-mapped, half precision, on a GPU): only the rows of one block are ever touched at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ncalr.errors import MissingEvidence
from ncalr.geometry import ClassStatistics
from ncalr.kernels import Array, Backend

SHAPES = {
    "features": ("n", "d"),
    "logits": ("n", "c"),
    "probs": ("n", "c"),
    "predictions": ("n",),
    "flips": ("n",),
    "enhanced": ("n", "e"),
    "checkpoint_predictions": ("t", "n"),
    "sampled_probs": ("s", "n", "c"),
    "mean_probs": ("n", "c"),
    "labelled_features": ("m", "d"),
    "labelled_logits": ("m", "c"),
    "labelled_probs": ("m", "c"),
    "labelled_enhanced": ("m", "e"),
    "labels": ("m",),
}
"""The axes of each array."""

POOL_AXIS = {name: axes.index("n") for name, axes in SHAPES.items() if "n" in axes}
"""Which axis of a pool array runs over the items."""

SOURCES: dict[str, tuple[tuple[str, ...], ...]] = {
    "outputs": (("logits",), ("probs",)),
    "mean_probs": (("mean_probs",), ("sampled_probs",), ("logits",), ("probs",)),
    "labelled_outputs": (("labelled_logits",), ("labelled_probs",)),
    "predictions": (("predictions",), ("logits",), ("probs",), ("checkpoint_predictions",)),
    "flips": (("flips",), ("checkpoint_predictions",)),
    "statistics": (("statistics",), ("labelled_features", "labels")),
}
"""What each derived piece of evidence can be had from, best first."""

EVIDENCE = {*SHAPES, *SOURCES}
"""Every name that a strategy can ask for."""


class Outputs(NamedTuple):
    """Logits or probabilities (n, c), and which of the two."""

    values: Array
    are_logits: bool


@dataclass(frozen=True)
class Evidence:
    """The arrays given, seen through a window of rows and a list of names that may be read."""

    given: dict[str, Any]
    backend: Backend
    n: int
    classes: int
    rows: Any = field(default_factory=lambda: slice(None))  # a slice, or an array of positions
    allowed: frozenset[str] | None = None
    shared: dict[str, Any] = field(default_factory=dict)  # results computed once for all chunks
    sweeper: Any = None  # makes passes over the whole pool elsewhere; see `select/spaces.py`

    def __getitem__(self, name: str) -> Any:
        """A piece of evidence on the backend; derived where it was not given."""
        if self.allowed is not None and name not in self.allowed:
            raise MissingEvidence(f"a strategy read {name!r}, which it did not declare; add it to its needs or wants")
        if name in _DERIVED:
            return _DERIVED[name](self)
        if name not in self.given:
            raise MissingEvidence(f"no {name} were given; pass {name}=")
        return self.read(name)

    def __contains__(self, name: object) -> bool:
        """Whether it was given or can be derived."""
        return source_of(str(name), self.given) is not None

    def read(self, name: str) -> Any:
        """An array as it was given, cut to the rows of this window."""
        array = self.given[name]
        axis = POOL_AXIS.get(name)
        if axis is None:
            return self.backend.block(array, slice(None))
        if axis == 0:
            return self.backend.block(array, self.rows)
        return self.backend.block(array, (slice(None), self.rows))

    def outputs(self, prefix: str = "", positions: Any = None) -> Outputs:
        """Logits or probabilities, whichever were given: of the whole window, or of some positions within it."""
        logits = f"{prefix}logits"
        name = logits if logits in self.given else f"{prefix}probs"
        return Outputs(self.read(name) if positions is None else self.take(name, positions), name == logits)

    def layers(self, name: str) -> Iterator[Any]:
        """The layers of an array of shape (layers, n, ...) one after the other, without copying them together."""
        for layer in self.given[name]:
            yield self.backend.block(layer, self.rows)

    def take(self, name: str, positions: Any) -> Any:
        """Some rows of a pool array given along its first axis; positions count within this window."""
        return self.backend.block(self.given[name], _compose(self.rows, positions, self.n))

    def only(self, names: Iterable[str]) -> Evidence:
        """The same evidence with just these names readable."""
        return replace(self, allowed=frozenset(names))

    def window(self, start: int, stop: int) -> Evidence:
        """The evidence of items start..stop-1."""
        return replace(self, rows=_compose(self.rows, slice(start, stop), self.n), n=stop - start, sweeper=None)

    def at(self, positions: Any) -> Evidence:
        """The evidence of some items."""
        return replace(self, rows=_compose(self.rows, positions, self.n), n=len(positions), sweeper=None)

    def changed(self, **given: Any) -> Evidence:
        """The same evidence with some pieces replaced."""
        return replace(self, given={**self.given, **given}, shared={})

    def chunks(self) -> Iterator[Evidence]:
        """Consecutive windows of a size the backend handles well."""
        size = max(1024, self.backend.chunk_bytes // max(self.row_bytes(), 1))
        for start in range(0, self.n, size):
            yield self.window(start, min(start + size, self.n))

    def row_bytes(self) -> int:
        """Bytes an item of the largest pool array that may be read."""
        pool = [(array, POOL_AXIS[name]) for name, array in self.given.items() if name in POOL_AXIS]
        return max((int(array.nbytes) // max(int(array.shape[axis]), 1) for array, axis in pool), default=1)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """A value that all chunks share, made by the first that asks."""
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]


def source_of(name: str, given: Iterable[str]) -> tuple[str, ...] | None:
    """The arrays that give a piece of evidence, or None where it cannot be had."""
    for source in SOURCES.get(name, ((name,),)):
        if all(part in given for part in source):
            return source
    return None


def _mean_probs(evidence: Evidence) -> Outputs:
    """Return the mean over the checkpoints, or the last checkpoint's outputs where only those are given."""
    if "mean_probs" in evidence.given:
        return Outputs(evidence.read("mean_probs"), False)
    if "sampled_probs" not in evidence.given:
        return evidence.outputs()
    layers = evidence.layers("sampled_probs")
    total = evidence.backend.wide(next(layers)) + 0
    for layer in layers:
        total += layer
    return Outputs(total / len(evidence.given["sampled_probs"]), False)


def _predictions(evidence: Evidence) -> Array:
    if "predictions" in evidence.given:
        return evidence.read("predictions")
    if "outputs" in evidence:
        return evidence.backend.argmax(evidence.outputs().values)
    return evidence.backend.block(evidence.given["checkpoint_predictions"][-1], evidence.rows)


def _flips(evidence: Evidence) -> Array:
    if "flips" in evidence.given:
        return evidence.read("flips")
    return evidence.backend.flips(list(evidence.layers("checkpoint_predictions")))


def _statistics(evidence: Evidence) -> ClassStatistics:
    def build() -> ClassStatistics:
        if "statistics" in evidence.given:
            return evidence.given["statistics"]  # type: ignore[no-any-return]
        features, labels = evidence.given["labelled_features"], evidence.given["labels"]
        return ClassStatistics.from_labelled(features, labels, evidence.classes)

    return evidence.once("statistics", build)  # type: ignore[no-any-return]


_DERIVED: dict[str, Callable[[Evidence], Any]] = {
    "outputs": Evidence.outputs,
    "mean_probs": _mean_probs,
    "labelled_outputs": lambda evidence: evidence.outputs("labelled_"),
    "predictions": _predictions,
    "flips": _flips,
    "statistics": _statistics,
}


def _compose(rows: Any, positions: Any, n: int) -> Any:
    """Positions within a window as positions in the array."""
    if isinstance(rows, slice):
        start = rows.start or 0
        if isinstance(positions, slice):
            first, last, _ = positions.indices(n)
            return slice(start + first, start + last)
        return np.asarray(positions) + start
    return rows[positions]
