"""What is measured: the cases, their data and their floors. NumPy alone, so that every environment can read it.

Pool features are the ReLU of a Gaussian mixture with one component a class; logits are noise with a bonus for the
component's class; predictions flip between checkpoints for one item in ten. All from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20261101
DIMENSIONS = 512
LABELLED = 2000
CHECKPOINTS = 20
BLOCK = 50_000
"""Rows made at a time: a pool of two gigabytes is written without being held."""

SPREAD_CLUSTERS = "typical(clusters=1000)"
COVER_RADIUS = 0.85
"""Ball radius on unit-length features; a constant, so that both libraries solve the same problem."""
PROBCOVER = f"ProbCover, radius {COVER_RADIUS}"
MAXHERDING = "MaxHerding = facility location, Gaussian kernel"


@dataclass(frozen=True)
class Floor:
    """What the method must at least read, or multiply."""

    arrays: tuple[str, ...] = ("features",)
    passes: int = 1
    flops: float = 0.0  # where matrix products, not memory, are the limit
    words: str = "one pass"


@dataclass(frozen=True)
class Case:
    """One problem and who solves it."""

    name: str
    title: str
    method: str  # which function of `acquisition_contenders` solves it
    items: int
    classes: int
    k: int
    arrays: tuple[str, ...]
    floor: Floor | None
    libraries: dict[str, int | None] = field(default_factory=dict)  # a number: picks it is asked for, when not k
    spec: str = ""  # our strategy
    samples: int = 20
    half: bool = False
    compare: bool = True  # whether all should pick the same items


def _pass_floor(k: int, *arrays: str) -> Floor:
    return Floor(arrays, k, words=f"{k} passes")


def _centre_case(name: str, items: int, libraries: dict[str, int | None]) -> Case:
    return Case(
        name,
        f"CoreSet, {items // 1000}k × 512, k = 1000",
        "coreset",
        items,
        100,
        1000,
        ("features", "labelled_features", "labels"),
        _pass_floor(1000, "features"),
        libraries,
        spec="coreset",
    )


def _badge_case(classes: int, slow_k: int) -> Case:
    return Case(
        f"badge_{classes}",
        f"BADGE, 50k × 512, {classes} classes, k = 1000",
        "badge",
        50_000,
        classes,
        1000,
        ("features", "probs"),
        _pass_floor(1000, "features", "probs"),
        {"ncalr": None, "numpy": None, "scikit-activeml": slow_k, "small-text": slow_k},
        spec="badge",
        compare=False,
    )


def _row_case(method: str, libraries: tuple[str, ...]) -> Case:
    return Case(
        method,
        f"{method}, 1M × 100 probabilities, k = 1000",
        method,
        1_000_000,
        100,
        1000,
        ("probs",),
        Floor(("probs",)),
        dict.fromkeys(libraries),
        spec=method,
    )


def _ncal_case(half: bool) -> Case:
    kind = "float16" if half else "float32"
    return Case(
        f"ncal_{kind}",
        f"NCAL end to end, 1M × 512 {kind}, 100 classes, 20 checkpoints, k = 1000",
        "ncal",
        1_000_000,
        100,
        1000,
        ("features", "checkpoint_predictions", "labelled_features", "labels"),
        Floor(("features", "checkpoint_predictions")),
        {"ncalr": None, "numpy": None},
        spec="ncal",
        half=half,
    )


def _cluster_case(items: int, libraries: dict[str, int | None]) -> Case:
    return Case(
        f"typiclust_{items // 1000}k",
        f"TypiClust, {items // 1000}k × 512, no labels yet, k = 1000",
        "typiclust",
        items,
        100,
        1000,
        ("features",),
        Floor(flops=2.0 * items * 1000 * DIMENSIONS, words="the products of one clustering round"),
        libraries,
        spec="typiclust",
        compare=False,
    )


def _cover_case(name: str, items: int, title: str, k: int, libraries: tuple[str, ...], compare: bool) -> Case:
    return Case(
        name if items == 10_000 else f"{name}_{items // 1000}k",
        f"{title}, {items // 1000}k × 512, no labels yet, k = {k}",
        name,
        items,
        100,
        k,
        ("features",),
        Floor(flops=2.0 * items * items * DIMENSIONS, words="the products of all pairs"),
        dict.fromkeys(libraries),
        spec=name,
        compare=compare,
    )


CASES = [
    _centre_case(
        "coreset_50k", 50_000, {"ncalr": None, "numpy": None, "scikit-activeml": None, "small-text": 5, "modAL": 5}
    ),
    _centre_case("coreset_200k", 200_000, {"ncalr": None, "numpy": None, "scikit-activeml": None}),
    _badge_case(10, 50),
    _badge_case(100, 10),
    Case(
        "cdal",
        "CDAL, 50k × 100 probabilities, k = 1000",
        "cdal",
        50_000,
        100,
        1000,
        ("probs", "labelled_probs"),
        _pass_floor(1000, "probs"),
        {"ncalr": None, "numpy": None},
        spec="cdal",
    ),
    _row_case("margin", ("ncalr", "numpy", "scikit-activeml", "small-text", "modAL", "baal")),
    _row_case("entropy", ("ncalr", "numpy", "scikit-activeml", "small-text", "modAL", "baal")),
    Case(
        "bald",
        "BALD, 50k × 10, 20 samples, k = 1000",
        "bald",
        50_000,
        10,
        1000,
        ("sampled_probs",),
        Floor(("sampled_probs",)),
        dict.fromkeys(("ncalr", "numpy", "scikit-activeml", "small-text", "baal")),
        spec="bald",
    ),
    _cluster_case(10_000, {"ncalr": None, "ncalr, 1000 clusters": None, "scikit-activeml": None}),
    _cluster_case(50_000, {"ncalr": None, "ncalr, 1000 clusters": None}),
    _cover_case("probcover", 10_000, PROBCOVER, 100, ("ncalr", "numpy", "scikit-activeml"), False),
    _cover_case("probcover", 50_000, PROBCOVER, 100, ("ncalr", "numpy"), False),
    _cover_case("maxherding", 10_000, MAXHERDING, 1000, ("ncalr", "numpy", "scikit-activeml", "apricot"), True),
    _cover_case("maxherding", 50_000, MAXHERDING, 1000, ("ncalr", "numpy"), True),
    _ncal_case(half=False),
    _ncal_case(half=True),
]

REGISTRY = Case(
    "registry",
    "every strategy, 200k × 512, 100 classes, 2,000 labelled, k = 1000",
    "strategy",
    200_000,
    100,
    1000,
    (
        "features",
        "logits",
        "labelled_features",
        "labels",
        "labelled_logits",
        "checkpoint_predictions",
        "sampled_probs",
    ),
    None,
    samples=5,
    compare=False,
)


def smaller(case: Case, share: int = 10) -> Case:
    """The same case at a fraction of its size, to check that everything runs."""
    floor = case.floor
    k = case.k // share
    if floor is not None:
        passes = max(1, floor.passes // share)
        floor = replace(floor, passes=passes, flops=floor.flops / share**2)
    libraries = {name: asked and max(2, asked // share) for name, asked in case.libraries.items()}
    title = f"1/{share} of: {case.title}"
    return replace(case, title=title, items=case.items // share, k=k, floor=floor, libraries=libraries)


# -- data -----------------------------------------------------------------------------------------------------


def write_data(case: Case, folder: Path) -> None:
    """Every array of the case as a `.npy` file."""
    for name in case.arrays:
        rows = LABELLED if name.startswith("label") else case.items
        _WRITERS[name.removeprefix("labelled_")](case, folder / f"{name}.npy", rows, name)


def read_data(case: Case, folder: Path) -> dict[str, Any]:
    """The arrays of the case, in memory."""
    return {name: np.load(folder / f"{name}.npy") for name in case.arrays}


def first_rows(data: dict[str, Any], items: int) -> dict[str, Any]:
    """The same data cut to a few pool items, for the warm-up; the labelled set stays."""
    axes = {"checkpoint_predictions": 1, "sampled_probs": 1}
    return {
        name: array
        if name.startswith("label")
        else np.ascontiguousarray(array[:, :items] if axes.get(name) else array[:items])
        for name, array in data.items()
    }


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BLOCK):
        yield slice(start, min(start + BLOCK, rows))


def _generator(name: str, start: int) -> np.random.Generator:
    return np.random.default_rng([SEED, start, *name.encode()])


def _component(case: Case, rows: slice, name: str) -> Any:
    """The mixture component of each item: the same for every array about the same items."""
    whose = "labelled" if name.startswith("label") else "pool"
    return _generator(f"{whose} components", rows.start).integers(0, case.classes, rows.stop - rows.start)


def _open(path: Path, shape: tuple[int, ...], kind: Any) -> Any:
    return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)


def _write_features(case: Case, path: Path, rows: int, name: str) -> None:
    centres = _generator("centres", 0).standard_normal((case.classes, DIMENSIONS), np.float32)
    out = _open(path, (rows, DIMENSIONS), np.float16 if case.half and name == "features" else np.float32)
    for part in _blocks(rows):
        noise = _generator(name, part.start).standard_normal((part.stop - part.start, DIMENSIONS), np.float32)
        noise += centres[_component(case, part, name)]
        out[part] = np.maximum(noise, 0)


def _logits(case: Case, part: slice, name: str) -> Any:
    size = part.stop - part.start
    logits = 2 * _generator(name, part.start).standard_normal((size, case.classes), np.float32)
    logits[np.arange(size), _component(case, part, name)] += 4
    return logits


def _probs(logits: Any) -> Any:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _write_logits(case: Case, path: Path, rows: int, name: str) -> None:
    out = _open(path, (rows, case.classes), np.float32)
    for part in _blocks(rows):
        out[part] = _logits(case, part, name)


def _write_probs(case: Case, path: Path, rows: int, name: str) -> None:
    out = _open(path, (rows, case.classes), np.float32)
    for part in _blocks(rows):
        out[part] = _probs(_logits(case, part, name))


def _write_sampled_probs(case: Case, path: Path, rows: int, name: str) -> None:
    out = _open(path, (case.samples, rows, case.classes), np.float32)
    for sample in range(case.samples):
        for part in _blocks(rows):
            out[sample, part] = _probs(_logits(case, part, f"{name} {sample}"))


def _write_labels(case: Case, path: Path, rows: int, name: str) -> None:
    np.save(path, _component(case, slice(0, rows), name))


def _write_checkpoints(case: Case, path: Path, rows: int, name: str) -> None:
    out = _open(path, (CHECKPOINTS, rows), np.uint8)
    for part in _blocks(rows):
        random = _generator(name, part.start)
        size = part.stop - part.start
        unsettled = random.random(size) < 0.1
        for checkpoint in range(CHECKPOINTS):
            predicted = _component(case, part, name)
            moved = unsettled & (random.random(size) < 0.3)
            predicted[moved] = random.integers(0, case.classes, int(moved.sum()))
            out[checkpoint, part] = predicted


_WRITERS: dict[str, Callable[[Case, Path, int, str], None]] = {
    "features": _write_features,
    "logits": _write_logits,
    "probs": _write_probs,
    "sampled_probs": _write_sampled_probs,
    "labels": _write_labels,
    "checkpoint_predictions": _write_checkpoints,
}
