"""The next items to label from ready-made vectors and the labels so far: a head is trained on the way.

    picks = ncalr.suggest(500, vectors, labels)      labels: a class number an item, -1 where there is none yet

What a strategy needs to know of a model (predictions, checkpoints, the features before the last layer) comes from a
small perceptron on the vectors, trained to the terminal phase; without torch from a logistic regression.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ncalr.acquire.query import query
from ncalr.data.pool import ArrayPool
from ncalr.errors import BadInput, MissingExtra
from ncalr.extras import installed
from ncalr.learn.learner import Job, Learner, Record, needs_of
from ncalr.types import Picks

PLAIN = frozenset({"features", "labelled_features", "labels"})
"""Strategies that need no more look at the vectors themselves."""


def suggest(
    k: int,
    features: Any,
    labels: Any,
    strategy: str = "ncal",
    *,
    ids: Any = None,
    classes: int | None = None,
    exclude: Any = None,
    seed: int = 0,
    device: Any = None,
) -> Picks:
    """The k items to label next, most wanted first, of `features` (n, d) with `labels` (n,), -1 for those without.

    `ids` name the items (positions if none are given), `exclude` lists ids not to pick beside the labelled ones. A note
    says how the head learnt.

    >>> rng = np.random.default_rng(0)
    >>> vectors = rng.normal(size=(300, 8)).astype(np.float32)
    >>> labels = np.where(np.arange(300) < 40, (vectors[:, 0] > 0).astype(int), -1)
    >>> picks = suggest(5, vectors, labels)
    >>> len(picks), bool((picks.ids >= 40).all())
    (5, True)
    """
    pool = ArrayPool(features, ids)
    labels = np.asarray(labels)
    if labels.shape != (len(pool),) or labels.dtype.kind not in "iu":
        raise BadInput(
            f"labels must be a class number for each of the {len(pool)} items, -1 where there is none, got "
            f"{labels.dtype} of shape {labels.shape}"
        )
    known, needs, ids = labels >= 0, needs_of(strategy), pool.ids
    if known.all():
        raise BadInput(f"all {len(pool)} items have a label: there is nothing left to suggest")
    if not known.any() and not needs <= PLAIN:
        raise BadInput(
            f"strategy {strategy} needs a model, and no item has a label: take strategy typiclust or random for the "
            "first items, and label some of each class"
        )
    notes: tuple[str, ...] = ()
    if needs <= PLAIN:
        evidence = _plain(needs, pool, known, labels)
    else:
        learner, name = _head(device)
        model = learner.fit(Job(pool, ids[known], labels[known], classes or 0, seed, needs=needs))
        evidence = {"ids": model.watched, **model.evidence()}
        notes = (_words(name, model.record, labels[known]), *model.record.notes)
    count = classes or int(labels.max()) + 1 or None
    picks = query(strategy, k, **evidence, classes=count, exclude=_others(exclude, ids[known]), seed=seed)
    return replace(picks, notes=(*notes, *picks.notes))


def _plain(needs: frozenset[str], pool: ArrayPool, known: Any, labels: Any) -> dict[str, Any]:
    """For strategies that look at vectors alone: the vectors as they are."""
    found = {"features": pool.read(np.flatnonzero(~known)), "ids": pool.ids[~known]}
    if known.any() and needs & {"labelled_features", "labels"}:
        found |= {"labelled_features": pool.read(np.flatnonzero(known)), "labels": labels[known]}
    return found


def _head(device: Any) -> tuple[Learner, str]:
    """What learns on vectors here, and how a note calls it."""
    if installed("torch"):
        from ncalr.learn.torch_learner import TorchLearner

        return TorchLearner("mlp", "head", device=device, progress=False), "a perceptron"
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
    return f"{name} learnt {len(labels)} labels of {len(np.unique(labels))} classes{right}"


def _others(exclude: Any, labelled: Any) -> Any:
    """The ids to exclude that are not labelled: those are not in question anyway."""
    if exclude is None:
        return None
    given = np.asarray(list(exclude) if isinstance(exclude, set | frozenset) else exclude)
    left = given[~np.isin(given, labelled)]
    return left if len(left) else None
