"""The next items to label from ready-made vectors and the labels so far: a head is trained on the way.

    picks = ncalr.suggest(vectors, labels, 500)             one class per item: its number (-1: unlabelled) or its
                                                            name ("" or None: unlabelled)
    picks = ncalr.suggest(vectors, {"img_7": "cat", ...}, 500, ids=names)      or a dictionary of id and class

A strategy that needs predictions gets them from a logistic regression on the vectors (`LinearHead`). One that needs
checkpoints of a training, as `ncal` does, gets them from a small perceptron trained to the terminal phase, which needs
torch; without torch from the iterations of scikit-learn's logistic regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.control import control_sample, split_picks, with_control
from ncalr.acquire.door import check_k, counted_from_one, open_positions
from ncalr.acquire.lottery import check_seed
from ncalr.acquire.query import query
from ncalr.acquire.registry import resolve
from ncalr.acquire.spec import with_defaults
from ncalr.data.embeddings import UNLABELLED, by_index, vector_pool
from ncalr.data.pool import ArrayPool, Pool, positions_of
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, MissingExtra, whole_number
from ncalr.extras import installed
from ncalr.kernels import as_kind, to_numpy
from ncalr.learn.learner import Job, Learner, Record, needs_of
from ncalr.learn.linear import Linear, fit_linear
from ncalr.learn.recipes import HEAD
from ncalr.types import Picks

USUAL = 100
"""How many items to pick where the caller does not say."""

STRATEGY = "ncal_coverage"
"""The strategy where the caller does not say: the best on the yardstick (docs/results/yardstick.md)."""

PLAIN = frozenset({"features", "labelled_features", "labels"})
"""Strategies that need no more look at the vectors themselves."""

LINEAR = PLAIN | {"logits", "labelled_logits", "mean_probs"}
"""Strategies that need no more get it from a logistic regression."""

STRENGTH = 10.0
"""C of the logistic regression (the inverse of the penalty) on centred vectors of mean squared length 1."""


def suggest(
    features: Any,
    labels: Any = None,
    k: int | None = None,
    strategy: str = STRATEGY,
    *,
    ids: Any = None,
    classes: int | None = None,
    exclude: Any = None,
    control: float = 0.0,
    seed: int = 0,
    device: Any = None,
) -> Picks:
    """Return the k items of `features` (n, d) to label next, most wanted first, given the `labels` so far.

    `k` defaults to 100, or to all unlabelled items where fewer remain.

    `labels` are class numbers (n,), -1 for items without, or names (n,), empty or None for those, or a dictionary of
    ids and either; none at all for the very first items. `ids` name the items (if none are given the index of a
    DataFrame does, or their positions), `exclude` lists ids not to pick beside the
    labelled ones, `classes` is their number where the labels do not show it. The notes of the picks say how the head
    learnt.

    At most one of a group of near-copies is picked, and none of a labelled item; `strategy="ncal(copies=keep)"` keeps
    them.

    `control` is the share of the picks that are drawn at random, as `ncalr.forecast` needs them: `picks.control` says
    which. Neither the strategy nor the head reads their labels. Keep `control` and `seed` the same in every round.

    >>> rng = np.random.default_rng(0)
    >>> vectors = rng.normal(size=(300, 8)).astype(np.float32)
    >>> labels = np.where(np.arange(300) < 40, (vectors[:, 0] > 0).astype(int), -1)
    >>> picks = suggest(vectors, labels, 5)
    >>> len(picks), bool((picks.ids >= 40).all())
    (5, True)
    """
    if isinstance(features, int | np.integer):
        raise BadInput(
            f"`features` must be an array of shape (n, d), got the number {features}. "
            "The order is suggest(features, labels, k)."
        )
    if classes is not None:
        classes = whole_number("classes", classes, 1, MOST_CLASSES)
    check_seed(seed)
    labels, ids = by_index(features, labels, ids)
    pool = vector_pool(features, ids)
    labels, names = class_numbers(labels, pool)
    classes = classes or len(names) or None
    rule = with_defaults(strategy, copies="drop")
    known, needs, ids = labels >= 0, needs_of(rule), pool.ids
    if known.all():
        raise BadInput(
            f"all {len(pool)} items have a label: there is nothing left to suggest; of a table its column label "
            "counts, too: rename it if it holds something else than the labels so far"
        )
    learnt = known & ~control_sample(ids, known, control, seed) if control else known
    others = _others(exclude, ids[known])
    open_ids = ids[~known][open_positions(ids[~known], others)[0]]
    free = len(open_ids)
    k = min(USUAL, free) if k is None else k
    check_k(k, free, int((~known).sum()) - free)  # and not after minutes of training
    drawn, reserved = split_picks(open_ids, k, control, seed)
    if len(drawn) == k:
        return replace(query("random", k, ids=drawn, seed=seed), control=np.ones(k, np.bool_))
    if control:
        kept = np.concatenate([reserved, ids[known & ~learnt]])
        others = kept if others is None else np.concatenate([others, kept])
    evidence, notes = _evidence(strategy, needs, pool, learnt, labels, classes, seed, device)
    if classes is None and "logits" in evidence:
        notes = (*counted_from_one(labels[learnt]), *notes)
    if len(evidence["ids"]) == len(pool) and learnt.any():
        others = ids[learnt] if others is None else np.concatenate([ids[learnt], others])
    count = classes or int(labels.max()) + 1 or None
    picks = query(rule, k - len(drawn), **evidence, classes=count, exclude=others, seed=seed)
    picks = replace(picks, notes=(*notes, *picks.notes))
    return with_control(picks, drawn) if len(drawn) else picks


def _evidence(
    strategy: str,
    needs: frozenset[str],
    pool: ArrayPool,
    known: Any,
    labels: Any,
    classes: int | None,
    seed: int,
    device: Any,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what the strategy needs to know, and notes on the model it comes from."""
    found = len(np.unique(labels[known]))
    if found < 2 and not needs <= PLAIN and resolve(strategy).needs <= PLAIN:
        what = "No item has a label" if not found else "All labels are of one class"
        return _plain(needs, pool, known, labels), (f"{what}: the picks cover the vectors, the most typical first.",)
    if needs <= PLAIN:
        return _plain(needs, pool, known, labels), ()
    if not found:
        raise BadInput(
            f"strategy {strategy} needs a model, and no item has a label. "
            f"Use strategy {STRATEGY}, typiclust or random for the first items, and label some of each class."
        )
    if needs <= LINEAR:
        return _linear(needs, pool, known, labels, classes or int(labels.max()) + 1)
    learner, name = _head(device)
    rows = _by_id(known, pool.ids)
    model = learner.fit(Job(pool, pool.ids[rows], labels[rows], classes or 0, seed, needs=needs))
    notes = (_words(name, model.record, labels[known]), *model.record.notes)
    if "checkpoint_predictions" in needs and not installed("torch"):
        notes = (*notes, SETTLED)
    return {"ids": model.watched, **model.evidence()}, notes


def class_numbers(labels: Any, pool: Pool) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A class number for each item, -1 where there is none, and the names of the classes where names were given."""
    n = len(pool)
    if labels is None:
        return np.full(n, UNLABELLED, np.int64), []
    if isinstance(labels, Mapping):
        places = positions_of(pool, [*labels])
        numbers, names = _numbered(np.array([*labels.values()], object))
        found = np.full(n, UNLABELLED, np.int64)
        found[places] = numbers
        return found, names
    given = np.array(labels, object) if isinstance(labels, list | tuple) else to_numpy(labels, "labels")
    if given.shape != (n,):
        raise BadInput(
            f"labels must be a class for each of the {n} items, -1 (or no name) where there is none, got {given.dtype} "
            f"of shape {given.shape}; labels of some items are given by id: {{id: class, ...}}"
        )
    return _numbered(given)


def _numbered(given: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Numbers as they are; names as their places in the alphabet."""
    if given.dtype.kind in "iu":
        return _checked(given), []
    values = [value.strip() if isinstance(value, str) else value for value in given.tolist()]
    there = [not _is_missing(value) for value in values]
    known = [value for value, full in zip(values, there, strict=True) if full]
    found = np.full(len(values), -1, np.int64)
    if all(isinstance(value, str) for value in known):
        names = sorted(set(known))
        place = {name: at for at, name in enumerate(names)}
        found[there] = [place[name] for name in known]
        return found, names
    other = next((value for value in known if not _is_whole(value)), None)
    if other is not None:
        kinds = ", ".join(sorted({type(value).__name__ for value in known}))
        raise BadInput(
            "labels must be class numbers, -1 where there is none, or names of classes, no name where there is none; "
            f"got {kinds}, the first that is no class number is {other!r}"
        )
    found[there] = _checked(np.array([int(value) for value in known]))
    return found, []


def _checked(numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return class numbers as they are; raise for what cannot be any."""
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (-1, -1)
    if low < -1 or high >= MOST_CLASSES:
        raise BadInput(
            f"labels must be class numbers in 0..{MOST_CLASSES - 1}, -1 where there is none, got {low}..{high}; where "
            "numbers are names of classes, pass them as texts"
        )
    return numbers.astype(np.int64)


def _is_missing(value: Any) -> bool:
    """No label, as people have it in lists (None, "") and pandas in its columns (NaN, NA)."""
    if isinstance(value, str):
        return not value
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _is_whole(value: Any) -> bool:
    """Whether it is a whole number; 2.0 is one, as pandas has them beside empty cells."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _plain(needs: frozenset[str], pool: ArrayPool, known: Any, labels: Any) -> dict[str, Any]:
    """For strategies that look at vectors alone: the vectors as they are."""
    found = {"features": pool.items, "ids": pool.ids}
    if known.any() and needs & {"labelled_features", "labels"}:
        rows = _by_id(known, pool.ids)
        found |= {"labelled_features": pool.read(rows), "labels": labels[rows]}
    return found


def _by_id(known: Any, ids: Any) -> npt.NDArray[np.intp]:
    """Return the rows that have a label in the order of their ids, so that the order of the rows changes no pick."""
    rows = np.flatnonzero(known)
    return rows[np.argsort(ids[rows], kind="stable")]


def _linear(
    needs: frozenset[str], pool: ArrayPool, known: Any, labels: Any, classes: int
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return predictions of a logistic regression on the labelled vectors, beside the vectors themselves."""
    places = _by_id(known, pool.ids)
    rows, given = np.asarray(pool.read(places), np.float32), labels[places]
    head = LinearHead.fit(rows, given, classes)
    found = _plain(needs, pool, known, labels)
    found["logits"] = np.empty((len(pool), classes), np.float32)
    for start in range(0, len(pool), BLOCK):
        found["logits"][start : start + BLOCK] = head.logits(pool.items[start : start + BLOCK])
    of_labelled = head.logits(rows)
    if "labelled_logits" in needs:
        found["labelled_logits"] = of_labelled
    right = (of_labelled.argmax(axis=1) == given).mean()
    return found, (
        f"Trained a logistic regression on {len(given)} labels of {len(np.unique(given))} classes "
        f"(training accuracy {right:.1%}).",
    )


@dataclass(frozen=True)
class LinearHead:
    """A logistic regression on vectors: classes without labels have no probability."""

    linear: Linear
    classes: int

    @classmethod
    def fit(cls, rows: Any, labels: Any, classes: int) -> LinearHead:
        """Fit on labelled vectors (m, d), by `STRENGTH`."""
        spread = float(np.square(rows - rows.mean(axis=0)).sum(axis=1).mean())
        return cls(fit_linear(rows, labels, STRENGTH / (spread or 1.0), standardise=False, tolerance=1e-4), classes)

    def logits(self, rows: Any) -> Any:
        """Return logits (n, c) in single precision."""
        found = np.full((len(rows), self.classes), UNSEEN, np.float32)
        weights = self.linear.weights.astype(np.float32)
        found[:, self.linear.classes] = np.asarray(rows, np.float32) @ weights.T + self.linear.intercept
        return found


UNSEEN = np.float32(-1e4)
"""The logit of a class that no label names: its probability is 0."""

BLOCK = 16384
"""Rows of the pool that are predicted at a time."""

SETTLED = (
    "a model that settles at once shows no fluctuation, and what is left of NCAL-R chose worse than the lottery on "
    "most vectors that were tried: install torch (pip install 'ncalr[torch]'), or take strategy margin"
)


def _head(device: Any) -> tuple[Learner, str]:
    """What learns on vectors here, and how a note calls it."""
    if installed("torch"):
        from ncalr.learn.torch_learner import TorchLearner

        return TorchLearner(*HEAD, device=device), "a perceptron"
    if installed("sklearn"):
        from sklearn.linear_model import LogisticRegression

        from ncalr.learn.sklearn_learner import SklearnLearner

        return SklearnLearner(LogisticRegression(max_iter=200)), "a logistic regression"
    raise MissingExtra(
        "a head on vectors needs torch or scikit-learn: pip install 'ncalr[torch]' or pip install 'ncalr[sklearn]'"
    )


def _words(name: str, record: Record, labels: Any) -> str:
    last = record.history[-1] if record.history else {}
    right = f", right on {last['accuracy']:.1%} of them" if "accuracy" in last else ""
    words = f"{name} learnt {len(labels)} labels of {len(np.unique(labels))} classes{right}"
    if record.flipping is None:
        return words
    return f"{words}; late in the training its word on {record.flipping:.1%} of the other items still changed"


def _others(exclude: Any, labelled: Any) -> Any:
    """The ids to exclude without the labelled ones, which are never picked."""
    if exclude is None:
        return None
    given = to_numpy(list(exclude) if isinstance(exclude, set | frozenset) else exclude, "exclude")
    if given.ndim != 1 or given.dtype.kind not in "iuUO":
        return given  # `open_positions` says what is wrong
    given = as_kind(given, labelled.dtype)
    left = given[~np.isin(given, labelled)]
    return left if len(left) else None
