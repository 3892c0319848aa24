"""The checks at the door: every input is looked at once, before any work."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ncalr.acquire.evidence import POOL_AXIS, SHAPES, SOURCES, Evidence, source_of
from ncalr.acquire.registry import Plan
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, MissingEvidence, NotFinite, whole_number
from ncalr.geometry import ClassStatistics
from ncalr.kernels import OFF, Backend, as_kind, check_tensor, is_torch, to_numpy

LETTERS = {
    "n": "pool items",
    "d": "feature dimensions",
    "c": "classes",
    "m": "labelled items",
    "e": "enhanced dimensions",
    "s": "samples",
    "t": "checkpoints",
}
FLOATS = {"float16", "float32", "float64", "bfloat16"}
UNSIGNED_TENSORS = {"torch.uint16", "torch.uint32", "torch.uint64"}
PROBABILITIES = {"probs", "labelled_probs", "sampled_probs", "mean_probs"}
LOGITS = {"logits", "labelled_logits"}
SAMPLE = 256  # rows that tell what an array holds
WHOLE_NUMBERS = {"predictions", "flips", "checkpoint_predictions", "labels"}


class Positions:
    """Consecutive whole numbers without an array of them: eight bytes an item are worth saving on a large pool."""

    dtype = np.dtype(np.int64)

    def __init__(self, n: int, start: int = 0) -> None:
        self.n, self.start = n, start

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            return self.start + np.arange(*rows.indices(self.n))
        rows = np.asarray(rows)
        return self.start + (np.flatnonzero(rows) if rows.dtype == bool else np.where(rows < 0, rows + self.n, rows))


def as_arrays(given: Mapping[str, Any], others: Iterable[str] = (), named: bool = False) -> dict[str, Any]:
    """What was given, without the Nones, lists made arrays; shapes and kinds of numbers checked together.

    `others` are names that were not taken for evidence: one may be misspelt. `named`: the items have ids, which is all
    that a random sample needs.
    """
    arrays = {name: _as_array(name, value) for name, value in given.items() if value is not None}
    check_kinds({name: array for name, array in arrays.items() if name != "statistics"})
    if "logits" in arrays and "probs" in arrays:
        raise BadInput("logits and probs were both given; pass one of them (logits keep more digits)")
    if not named and not any(name in POOL_AXIS for name in arrays):
        raise BadInput(f"nothing about the pool was given{_misspelt(others)}")
    return arrays


def check_kinds(arrays: Mapping[str, Any]) -> None:
    """Shapes and kinds of numbers of evidence, checked together."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, array in arrays.items():
        _check_numbers(name, array)
        _check_shape(name, tuple(array.shape), sizes)


def _misspelt(others: Iterable[str]) -> str:
    wrong = sorted(others)
    if not wrong:
        return "; pass features=, logits=, probs= or another pool array"
    near = {name: difflib.get_close_matches(name.lower(), POOL_AXIS, n=1, cutoff=0.6) for name in wrong}
    hints = [f"{name} may be meant as {found[0]}" for name, found in near.items() if found]
    hint = f"; {', '.join(hints)}" if hints else ""
    return f": it has the columns {', '.join(wrong)}, and what is read is {', '.join(POOL_AXIS)}{hint}"


def pool_size(arrays: Mapping[str, Any], ids: Any = None) -> int:
    """How many items the pool has, by its arrays, or by its ids where there are no arrays (for a random sample)."""
    name = next((name for name in arrays if name in POOL_AXIS), "ids")
    shape = np.shape(ids) if name == "ids" else tuple(arrays[name].shape)
    n = int(shape[POOL_AXIS.get(name, 0)]) if shape else 0
    if n == 0:
        raise BadInput(f"the pool is empty: {name} has shape {shape}")
    return n


def count_classes(arrays: Mapping[str, Any], classes: int | None) -> int:
    """How many classes there are: said, or read off the outputs, the statistics or the largest label; 0 if unknown."""
    where = next((name for name in arrays if "c" in SHAPES.get(name, ())), "")
    found = int(arrays[where].shape[-1]) if where else 0
    if "statistics" in arrays:
        counted = len(arrays["statistics"].counts)
        if found and counted != found:
            raise BadInput(f"statistics are of {counted} classes, {where} has {found}; they must agree")
        found, where = counted, "statistics"
    if classes is not None:
        classes = whole_number("classes", classes, 1, MOST_CLASSES)
        if found and classes != found:
            raise BadInput(f"classes={classes} was said, but {where} has {found}")
        found, where = classes, "classes"
    top = 0
    for name in ("labels", "predictions", "checkpoint_predictions"):
        if name in arrays and arrays[name].shape[-1]:
            rows = arrays[name] if name == "checkpoint_predictions" else [arrays[name]]
            low, high = min(int(row.min()) for row in rows), max(int(row.max()) for row in rows)
            limit = found or high + 1
            if low < 0 or high >= limit:
                source = f"{where} has {found} classes" if found else "classes count from 0"
                raise BadInput(f"{name} must lie in 0..{limit - 1} ({source}), got {low}..{high}")
            if high >= MOST_CLASSES:
                raise BadInput(
                    f"{name} must be class numbers in 0..{MOST_CLASSES - 1}, got {high}; "
                    "np.unique(labels, return_inverse=True)[1] numbers classes without gaps"
                )
            top = max(top, high + 1)
    return found or top


def says_classes(arrays: Mapping[str, Any], classes: int | None) -> bool:
    """Whether anything but class numbers tells how many classes there are."""
    return classes is not None or "statistics" in arrays or any("c" in SHAPES.get(name, ()) for name in arrays)


def note_labels(plan: Plan, arrays: Mapping[str, Any], classes: int | None) -> tuple[str, ...]:
    """What to say about the labels of a query, if anything: see `counted_from_one`."""
    read = used(plan, arrays)
    if "labels" not in read or says_classes(arrays, classes):
        return ()
    guesses = [arrays[name] for name in ("predictions", "checkpoint_predictions") if name in read]
    last = [rows if rows.ndim == 1 else rows[-1] for rows in guesses]
    return counted_from_one(arrays["labels"], lambda: [(int(row.min()), int(row.max())) for row in last])


def counted_from_one(
    labels: Any,
    predicted: Callable[[], Iterable[tuple[int, int]]] = tuple,
    *,
    mend: str = "pass labels - 1",
    name: str = "",
) -> tuple[str, ...]:
    """A note on labels 1, 2, ... without a 0, where nothing tells how many classes there are: do they count from 1?

    No note where all labels are 1: that may be the second of two classes. Nor where a model predicts class 0 and no
    fewer classes than the labels name; `predicted` gives the ranges of such predictions. `mend` says what to do if the
    labels count from 1, `name` what to do if they do not.
    """
    low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
    if not 1 == low < high or any(first == 0 and last >= high for first, last in predicted()):
        return ()
    return (
        f"the labels lie in 1..{high}, and classes count from 0: class 0 has no label. If the labels count from 1, "
        f"{mend}; if class 0 has none yet, {name or f'say classes={high + 1}'}",
    )


def read_ids(ids: Any, n: int) -> Any:
    """Ids as a NumPy array: whole numbers or texts, each once; positions where none are given."""
    if ids is None:
        return Positions(n)
    given, ids = ids, to_numpy(ids, "ids")
    if ids.dtype.kind == "U" and isinstance(given, list | tuple) and not all(isinstance(name, str) for name in given):
        raise BadInput("ids must be all whole numbers or all texts, got both; write [str(name) for name in ids]")
    if ids.dtype == object and all(isinstance(name, str) for name in ids.ravel()):
        ids = ids.astype(str)
    if ids.shape != (n,):
        raise BadInput(f"ids must have shape ({n},), one for each pool item, got {ids.shape}")
    if ids.dtype.kind not in "iuU":
        raise BadInput(f"ids must be whole numbers or texts, got dtype {ids.dtype}")
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < n:
        twice = values[counts > 1]
        raise BadInput(f"ids must not repeat; {len(twice)} do, the first is {twice[0].item()!r}")
    return ids


def open_positions(ids: Any, exclude: Any) -> tuple[Any, tuple[str, ...]]:
    """Positions of the items that may be picked, a slice where that is all; and what to say about ids of no item."""
    exclude = excluded_ids(exclude, len(ids), ids.dtype.kind == "U")
    if exclude is None:
        return slice(None), ()
    ids, exclude = ids[:], as_kind(exclude, ids.dtype)
    notes = note_strangers(exclude, exclude[np.isin(exclude, ids)], ids)
    return np.flatnonzero(~np.isin(ids, exclude)), notes


def note_strangers(exclude: Any, found: Any, ids: Any) -> tuple[str, ...]:
    """A note where only the `found` ones of the ids to exclude are in the pool; an error where none is.

    Lists of test items or of earlier picks are often of a larger pool. One that has nothing to do with the pool is a
    mistake; `ids` are those of the pool or some of them, to show what they look like.
    """
    if not len(found):
        raise BadInput(
            f"none of the {len(exclude)} ids to exclude is in the pool: they are {some(exclude)}, the pool's are "
            f"{some(ids)}; look whether it is the right list (of a table, the right column)"
        )
    strangers = np.setdiff1d(exclude, found)
    if not len(strangers):
        return ()
    return (f"{len(strangers)} of {len(exclude)} ids to exclude are not in the pool, ignored: {some(strangers)}",)


def some(ids: Any) -> str:
    """The first few of them, for a message."""
    more = ", ..." if len(ids) > 3 else ""
    return ", ".join(repr(name) for name in ids[:3].tolist()) + more


def excluded_ids(exclude: Any, n: int, texts: bool) -> Any:
    """Ids to leave out, each once, as an array of the kind that the pool's are; None where there are none."""
    if exclude is None:
        return None
    exclude = to_numpy(list(exclude) if isinstance(exclude, set | frozenset) else exclude, "exclude")
    if exclude.dtype == object and all(isinstance(name, str) for name in exclude.ravel()):
        exclude = exclude.astype(str)
    if exclude.ndim != 1:
        raise BadInput(f"exclude must be a list of ids, got shape {exclude.shape}")
    if not len(exclude):
        return None
    if exclude.dtype == bool:
        mask = "a mask of the pool" if len(exclude) == n else f"{len(exclude)} truth values"
        raise BadInput(
            f"exclude holds ids, got {mask}: pass ids[mask], or np.flatnonzero(mask) where ids are positions"
        )
    if exclude.dtype.kind not in ("U" if texts else "iu"):
        kinds = "texts" if texts else "whole numbers"
        raise BadInput(f"exclude holds {exclude.dtype} and the pool's ids are {kinds}: give the same kind of ids")
    return np.unique(exclude)


def check_k(k: Any, n: int, excluded: int) -> int:
    """k as an integer that the pool can serve."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise BadInput(f"k must be a whole number, got {k!r}")
    if not n:
        raise BadInput(f"all {excluded} items are excluded: none is left to pick")
    if not 1 <= k <= n:
        less = f" ({excluded} are excluded)" if excluded else ""
        raise BadInput(f"k must lie in 1..{n}, the items that can be picked{less}; got {k}")
    return int(k)


def check_needs(plan: Plan, arrays: Mapping[str, Any], *, on_disk: bool = False) -> None:
    """Everything the plan needs can be had, and its labelled set is not empty where it needs one.

    What is known of the items of a pool `on_disk` are its columns: they cannot be passed.
    """
    missing = [name for name in sorted(plan.needs) if source_of(name, arrays) is None]
    if missing:
        raise MissingEvidence(
            f"strategy {plan.strategy.name!r} needs {', '.join(missing)}: "
            + "; ".join(_how(name, on_disk) for name in missing)
        )
    for name in sorted(used(plan, arrays)):
        needed = any(name in (source_of(need, arrays) or ()) for need in plan.needs)
        if needed and name in SHAPES and SHAPES[name][0] == "m" and not len(arrays[name]):
            raise BadInput(
                f"the labelled set is empty ({name} has no rows) and strategy {plan.strategy.name!r} needs one; "
                "label a few items first (strategies typiclust, probcover, maxherding and random need none)"
            )
    log = arrays.get("checkpoint_predictions")
    if "flips" in plan.needs and "flips" not in arrays and log is not None and len(log) < 2:
        raise BadInput("flips need at least two checkpoints, checkpoint_predictions has one; ten or more are better")
    statistics = arrays.get("statistics")
    if statistics is not None and "statistics" in plan.needs and not statistics.counts.any():
        raise BadInput(f"the statistics hold no labelled item and strategy {plan.strategy.name!r} needs some")


def used(plan: Plan, arrays: Mapping[str, Any]) -> set[str]:
    """The arrays that the plan reads."""
    return {part for name in plan.needs | plan.wants for part in source_of(name, arrays) or ()}


def note_logits(arrays: Mapping[str, Any]) -> tuple[str, ...]:
    """A note for each array called logits whose rows are probabilities: by their softmax other items are picked.

    A sample is enough: rows of logits are not all free of negative numbers with a sum of 1.
    """
    return tuple(
        f"the rows of {name} look like probabilities, none negative and their sum 1; if they are, pass them as "
        f"{name.replace('logits', 'probs')}"
        for name in sorted(LOGITS & arrays.keys())
        if _are_shares(arrays[name])
    )


def _are_shares(rows: Any) -> bool:
    """Whether rows (n, c) of several columns are probabilities; of those on disk the first are looked at."""
    if 0 in rows.shape or rows.shape[1] < 2:
        return False
    on_disk = getattr(rows, "on_disk", False)
    found = rows[:SAMPLE] if on_disk else rows[:: max(1, len(rows) // SAMPLE)]
    sample = to_numpy(found).astype(np.float64)
    return bool(np.isfinite(sample).all()) and not len(no_shares(sample))


def check_values(name: str, array: Any) -> None:
    """Counts are not negative, probabilities look like some: a sample of rows is enough to catch logits.

    The rest of the rows are looked at where they are read: by the strategy's own pass, or by `check_finite`.
    """
    if name == "flips" and int(array.min()) < 0:
        raise BadInput(f"flips count changes and cannot be negative, got {int(array.min())}")
    if name in PROBABILITIES and 0 not in array.shape:
        rows = array if array.ndim == 2 else array[0]
        sample = to_numpy(rows[:: max(1, len(rows) // SAMPLE)]).astype(np.float64)
        wrong = no_shares(sample)
        if len(wrong):
            row = sample[wrong[0]]
            raise BadInput(
                f"rows of {name} must be probabilities, none negative and their sum 1; one has least "
                f"{row.min():.3g} and sum {row.sum():.3g}; if they are logits, pass them as logits"
            )


def check_finite(plan: Plan, evidence: Evidence) -> None:
    """No NaN and no infinity in what is read; what a strategy spots in its own pass is spared this one."""
    spotted = {part for name in plan.strategy.spots for part in source_of(name, evidence.given) or ()}
    for name in sorted(used(plan, evidence.given) - spotted - {"statistics"}):
        check_array(name, evidence)


def check_array(name: str, evidence: Evidence) -> None:
    """Raise with the number of bad values, or of rows that are no shares, and the place of the first."""
    if name in WHOLE_NUMBERS:
        return
    array = evidence.given[name]
    layers = range(len(array)) if POOL_AXIS.get(name) == 1 else [None]
    rows = evidence.rows if name in POOL_AXIS else slice(None)
    bad, first, off, example = 0, "", 0, ""
    those: set[int] = set()
    for layer in layers:
        part = array if layer is None else array[layer]
        for positions, block in _bad_blocks(name, part, rows, evidence.backend):
            within = "" if layer is None else f"{layer}, "
            where = np.argwhere(~np.isfinite(block))
            bad += len(where)
            those |= set(positions[where[:, 0]].tolist())
            if len(where) and not first:
                first = f"{name}[{within}{', '.join(map(str, [positions[where[0][0]], *where[0][1:]]))}]"
            wrong = no_shares(block) if name in PROBABILITIES else []
            off += len(wrong)
            if len(wrong) and not example:
                row = block[wrong[0]].astype(np.float64)
                example = f"{name}[{within}{positions[wrong[0]]}] has least {row.min():.3g} and sum {row.sum():.3g}"
    if bad:
        raise NotFinite(
            f"{name} holds {bad} values that are NaN or infinite, the first at {first}; check the model's outputs, or "
            f"drop those items: {len(those)}, at {some(np.array(sorted(those)))}"
        )
    if off:
        raise BadInput(
            f"rows of {name} must be probabilities, none negative and their sum 1; {off} are not: {example}; if they "
            "are logits, pass them as logits"
        )


def no_shares(rows: Any) -> Any:
    """Which rows are no probabilities; rows that are not finite are another matter."""
    wide = rows.astype(np.float64)
    off = np.maximum(np.abs(wide.sum(axis=1) - 1), np.abs(np.abs(wide).sum(axis=1) - 1))
    return np.flatnonzero((off > OFF) & np.isfinite(wide).all(axis=1))


def _bad_blocks(name: str, array: Any, rows: Any, backend: Backend) -> Iterator[tuple[Any, Any]]:
    """Each block with values that are not finite or rows that are no shares, and its positions in the array."""
    n = len(range(*rows.indices(len(array)))) if isinstance(rows, slice) else len(rows)
    step = max(1, (32 << 20) // max(int(array.nbytes) // max(len(array), 1), 1))
    for start in range(0, n, step):
        stop = min(start + step, n)
        part = slice(start, stop) if isinstance(rows, slice) else rows[start:stop]
        block = backend.block(array, part)
        said = backend.uncertainty(block, "least_confidence", False) if name in PROBABILITIES else block
        if not backend.is_finite(said):
            yield np.arange(start, stop) if isinstance(rows, slice) else part, backend.numpy(block)


def check_labelled(arrays: Mapping[str, Any], names: Iterable[str]) -> None:
    """Statistics and pool features must have the same number of dimensions."""
    statistics = arrays.get("statistics")
    if statistics is not None and "features" in arrays and "statistics" in names:
        d = statistics.means.shape[1]
        if arrays["features"].shape[1] != d:
            raise BadInput(f"features have {arrays['features'].shape[1]} dimensions, the statistics {d}")


def _as_array(name: str, value: Any) -> Any:
    """A tensor as it is (unsigned ones as signed: torch can do little with them), all else as a NumPy array.

    A column on disk stays one: it is read a block at a time. So do class statistics.
    """
    if name == "statistics":
        return _checked_statistics(value)
    if getattr(value, "on_disk", False):
        return value
    if is_torch(value):
        check_tensor(value, name)
        return value.long() if str(value.dtype) in UNSIGNED_TENSORS else value
    return to_numpy(value, name)


def _checked_statistics(value: Any) -> ClassStatistics:
    if not isinstance(value, ClassStatistics):
        raise BadInput(f"statistics must be a ncalr.geometry.ClassStatistics, got {type(value).__name__}")
    bad = np.flatnonzero(~(np.isfinite(value.means).all(axis=1) & np.isfinite(value.scatter)))
    if len(bad):
        raise NotFinite(f"statistics hold NaN or infinity for {len(bad)} classes, the first is {bad[0]}")
    return value


def _check_numbers(name: str, array: Any) -> None:
    kind = str(array.dtype).removeprefix("torch.")
    native = is_torch(array) or array.dtype.isnative
    if name in WHOLE_NUMBERS and not (kind.startswith(("int", "uint")) and native):
        remedy = "; np.unique(labels, return_inverse=True)[1] numbers them" if kind.startswith(("<U", "object")) else ""
        raise BadInput(f"{name} must be whole numbers, got {array.dtype}{remedy}")
    if name not in WHOLE_NUMBERS and not (kind in FLOATS and native):
        made = f"{name}.float()" if is_torch(array) else f"{name}.astype(np.float32)"
        remedy = "" if kind.startswith(("<U", "object")) else f"; write {made}"
        raise BadInput(
            f"{name} must be floating-point numbers (float16, float32 or float64), got {array.dtype}{remedy}"
        )


def _check_shape(name: str, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    letters = SHAPES[name]
    if len(shape) != len(letters):
        raise BadInput(f"{name} must have shape ({', '.join(letters)}), got {shape}")
    for letter, size in zip(letters, shape, strict=True):
        known, by = sizes.setdefault(letter, (size, name))
        if size != known:
            turned = letter == "n" and len(shape) == 2 and shape[::-1][letters.index(letter)] == known
            hint = f": expected ({', '.join(letters)}), got {shape}, so transpose it" if turned else "; they must agree"
            raise BadInput(f"{name} has {size} {LETTERS[letter]}, {by} has {known}{hint}")
        if size == 0 and letter not in "nm":
            raise BadInput(f"{name} has shape {shape}: no {LETTERS[letter]}")


def _how(name: str, on_disk: bool) -> str:
    ways = SOURCES.get(name, ((name,),))
    if on_disk and ways[0][0] in POOL_AXIS:
        names = " or ".join(part for way in ways for part in way)
        return f"the pool has no column {names}; put one into it (ncalr pool put)"
    return "pass " + " or ".join(" and ".join(f"{part}=" for part in way) for way in ways)
