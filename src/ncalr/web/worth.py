"""Is the model worth anything yet? Held against always saying the commonest class, on labels it was not shown.

The labels are cut into folds, class by class; each is predicted by a model of the others. That costs a few trainings,
so it is done at 30 labels and whenever they have doubled. On photographs of cats and dogs a small network that starts
from nothing needs hundreds of labels before it says more than "dog": then people are told, and told what helps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ncalr.data.pool import Pool
from ncalr.errors import BadInput
from ncalr.evaluate.crossfit import cut
from ncalr.learn.learner import Job, Learner
from ncalr.web.store import projects, schema

FIRST = 30
FOLDS = 3
CLEARLY = 1.645  # standard deviations (McNemar)


@dataclass(frozen=True)
class Worth:
    """Of so many labels that it was not shown, how many a model gets right, and how many the commonest class."""

    labels: int
    right: int
    commonest: int
    always: str  # that class
    better: bool  # clearly
    of: str = ""  # a digest of what was read and what learnt; of another, this says nothing

    def words(self) -> str:
        """A sentence where it is no better; nothing where it is."""
        if self.better:
            return ""
        right, usual = (f"{share / self.labels:.0%}" for share in (self.right, self.commonest))
        return (
            f"The model is not clearly better than always saying {self.always!r}: right on {right} of {self.labels} "
            f"labels it was not shown, against {usual}. {ADVICE}"
        )


ADVICE = (
    "More labels help, and ready-made vectors of a trained network (ncalr embed, then ncalr label ... --resume "
    "--embeddings) help most"
)


def is_due(labelled: int, last: Worth | None) -> bool:
    """Whether it is time to look; `last` is what was found of the same reading and learner."""
    return labelled >= (2 * last.labels if last else FIRST)


def look(
    learner: Learner, pool: Pool, ids: Any, labels: Any, names: list[str], seed: int, of: str = ""
) -> Worth | None:
    """Train on all folds but one, and look at that one; nothing where the labels are too few of a class."""
    fold = cut(labels, FOLDS, seed, ids)
    jobs = [Job(pool, ids[fold != at], labels[fold != at], len(names), seed, at, watch=ids[:0]) for at in range(FOLDS)]
    try:
        models = learner.fit_all(jobs)
    except BadInput:
        return None
    said = np.empty(len(ids), np.int64)
    for at, model in enumerate(models):
        said[fold == at] = np.asarray(model.predict(pool, ids[fold == at])).argmax(axis=1)
    return replace(compare(said, labels, names), of=of)


def compare(said: Any, labels: Any, names: list[str]) -> Worth:
    """What was said against always saying the commonest class.

    >>> compare(np.array([1, 1, 0, 1]), np.array([1, 1, 1, 0]), ["cat", "dog"])
    Worth(labels=4, right=2, commonest=3, always='dog', better=False, of='')
    """
    commonest = int(np.bincount(labels).argmax())
    right, usual = said == labels, labels == commonest
    gains, losses = int((right & ~usual).sum()), int((~right & usual).sum())
    better = gains - losses > CLEARLY * (gains + losses) ** 0.5
    return Worth(len(labels), int(right.sum()), int(usual.sum()), names[commonest], bool(better))


def told(conn: Connection) -> list[str]:
    """What there is to say about the project's model, on a terminal."""
    found = latest(conn)
    return [found.words()] if found and not found.better else []


def last_of(conn: Connection, of: str) -> Worth | None:
    """What was found last, if that was of the same reading and learner."""
    found = latest(conn)
    return found if found and found.of == of else None


def latest(conn: Connection) -> Worth | None:
    """What was found last."""
    table = schema.model
    row = conn.execute(select(table.c.facts).where(table.c.epoch == projects.load(conn).epoch)).scalar()
    found = json.loads(row).get("worth") if row else None
    return Worth(**found) if found else None
