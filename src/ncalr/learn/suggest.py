"""The next items to label from ready-made vectors and the labels so far: a head is trained on the way.

    picks = ncalr.suggest(vectors, labels, 500)             one class per item: its number (-1: unlabelled) or its
                                                            name ("" or None: unlabelled)
    picks = ncalr.suggest(vectors, {"img_7": "cat", ...}, 500, ids=names)      or a dictionary of id and class

What a strategy needs to know of a model (predictions, checkpoints, the features before the last layer) comes from a
small perceptron on the vectors, trained to the terminal phase; without torch from a logistic regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire.control import control_sample, split_picks, with_control
from ncalr.acquire.door import check_k, open_positions
from ncalr.acquire.query import query
from ncalr.data.embeddings import UNLABELLED, by_index, vector_pool
from ncalr.data.pool import ArrayPool, Pool, positions_of
from ncalr.errors import BadInput, MissingExtra
from ncalr.extras import installed
from ncalr.kernels import to_numpy
from ncalr.learn.learner import Job, Learner, Record, needs_of
from ncalr.learn.recipes import HEAD
from ncalr.types import Picks

USUAL = 100
"""How many items to pick where the caller does not say."""

PLAIN = frozenset({"features", "labelled_features", "labels"})
"""Strategies that need no more look at the vectors themselves."""


def suggest(
    features: Any,
    labels: Any = None,
    k: int | None = None,
    strategy: str = "ncal",
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
    labels, ids = by_index(features, labels, ids)
    pool = vector_pool(features, ids)
    labels, names = class_numbers(labels, pool)
    classes = classes or len(names) or None
    known, needs, ids = labels >= 0, needs_of(strategy), pool.ids
    if known.all():
        raise BadInput(
            f"all {len(pool)} items have a label: there is nothing left to suggest; of a table its column label "
            "counts, too: rename it if it holds something else than the labels so far"
        )
    learnt = known & ~control_sample(ids, known, control, seed) if control else known
    if not learnt.any() and not needs <= PLAIN:
        raise BadInput(
            f"strategy {strategy} needs a model, and no item has a label: take strategy typiclust or random for the "
            "first items, and label some of each class"
        )
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
    notes: tuple[str, ...] = ()
    if needs <= PLAIN:
        evidence = _plain(needs, pool, learnt, labels)
    else:
        learner, name = _head(device)
        model = learner.fit(Job(pool, ids[learnt], labels[learnt], classes or 0, seed, needs=needs))
        evidence = {"ids": model.watched, **model.evidence()}
        notes = (_words(name, model.record, labels[learnt]), *model.record.notes)
        if "checkpoint_predictions" in needs and not installed("torch"):
            notes = (*notes, SETTLED)
    count = classes or int(labels.max()) + 1 or None
    picks = query(strategy, k - len(drawn), **evidence, classes=count, exclude=others, seed=seed)
    picks = replace(picks, notes=(*notes, *picks.notes))
    return with_control(picks, drawn) if len(drawn) else picks


def class_numbers(labels: Any, pool: Pool) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A class number for each item, -1 where there is none, and the names of the classes where names were given."""
    n = len(pool)
    if labels is None:
        return np.full(n, UNLABELLED, np.int64), []
    if isinstance(labels, Mapping):
        places = positions_of(pool, np.array([*labels]))
        numbers, names = _numbered(np.array([*labels.values()], object))
        found = np.full(n, UNLABELLED, np.int64)
        found[places] = numbers
        return found, names
    given = np.array(labels, object) if isinstance(labels, list | tuple) else to_numpy(labels)
    if given.shape != (n,):
        raise BadInput(
            f"labels must be a class for each of the {n} items, -1 (or no name) where there is none, got {given.dtype} "
            f"of shape {given.shape}; labels of some items are given by id: {{id: class, ...}}"
        )
    return _numbered(given)


def _numbered(given: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Numbers as they are; names as their places in the alphabet."""
    if given.dtype.kind in "iu":
        if given.min(initial=0) < -1:
            raise BadInput(f"labels must be class numbers from 0 on, -1 where there is none; got {given.min()}")
        return given.astype(np.int64), []
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
    found[there] = [int(value) for value in known]
    return found, []


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
    found = {"features": pool.read(np.flatnonzero(~known)), "ids": pool.ids[~known]}
    if known.any() and needs & {"labelled_features", "labels"}:
        found |= {"labelled_features": pool.read(np.flatnonzero(known)), "labels": labels[known]}
    return found


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
    given = np.asarray(list(exclude) if isinstance(exclude, set | frozenset) else exclude)
    left = given[~np.isin(given, labelled)]
    return left if len(left) else None
