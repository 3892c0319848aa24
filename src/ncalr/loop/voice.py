"""What the model says of items, as one more voter: of labelled ones what it said before it knew them by heart.

A network in its terminal phase gives every training label probability 1, the wrong ones too. Its opinion about a
labelled item is therefore taken from the checks (`labelled_log`) at which it contradicted at least one label in twenty
(`HEART`): the mean probability over the last third of those, since what it said when it had hardly learnt
anything is noise. With a loss that stands wrong labels these are the last checks of the training; with cross-entropy
those before the learning rate falls. Where it knew everything from the first check on, the first one counts. Of an item
that is not labelled it was told nothing, and its last word counts.

The two are not equally sure of themselves, the first because it had not learnt much, the second because it has learnt
everything. Each is tempered (`ncalr.votes.fit_temperature`) so that it foretells answers as well as it can: the first
those of the labelled items, the last word those that came after it in the round before, as far as there were `FEW`;
with fewer the first temperature serves both. Of labelled items, second opinions that came after the training then tell
whether to believe the model more or less than that (`ncalr.votes.likeliest_temperature`); before there are any, what
those of the round before told holds. Of new items they do not: those were picked because the model is unsure or wrong
about them, and nobody has checked them yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.dynamics.scores import softmax
from ncalr.kernels import to_numpy
from ncalr.learn.learner import Model
from ncalr.loop.state import State
from ncalr.votes import Votes, fit_temperature, likeliest_temperature, tempered

Floats = npt.NDArray[np.float64]

FEW = 20  # answers, from which on a temperature can be fitted
HEART = 0.95  # training accuracy above which labels are known by heart
DEAF = 1e5  # how much hotter a model that is not heard is taken: all alike, but in the same order


@dataclass(frozen=True, eq=False)
class Voice:
    """Probabilities of labelled items and of watched ones, as the model gives them."""

    labelled: dict[Any, Floats]
    watched: dict[Any, Floats]
    classes: int
    shown: dict[Any, int] = field(default_factory=dict)  # how many answers about a labelled item it was trained on
    temperatures: tuple[float, float] = (1.0, 1.0)
    heard: float = 1.0  # how far it is believed about labelled items: 0 not at all, 1 as it foretells answers

    def of(self, ids: list[Any]) -> Floats:
        """Tempered probabilities (n, c) of these items; equal ones for an item of which the model said nothing."""
        found = np.full((len(ids), self.classes), 1 / self.classes)
        for kind, temperature in zip((self.labelled, self.watched), self.temperatures, strict=True):
            rows = [row for row, item in enumerate(ids) if item in kind]
            if rows:
                found[rows] = tempered(np.stack([kind[ids[row]] for row in rows]), temperature)
        return found

    def at(self, state: State, last: float | None, before: float | None = None) -> Voice:
        """The voice tempered on the answers so far.

        `last` is the temperature of its last word, where it is known; `before` how far it was believed, which holds as
        long as there are no second opinions that it was not shown.
        """
        votes, said = votes_of(state, list(self.labelled), self.classes), np.stack([*self.labelled.values()])
        foretells = fit_temperature(votes, said)
        shown = np.array([self.shown.get(item, 1) for item in self.labelled])
        if before is None or (votes.latest().answers - shown).clip(0).sum() >= FEW:
            first = likeliest_temperature(votes, said, shown=shown, usual=foretells)
            before = foretells / first
        temperatures = (foretells / max(before, 1 / DEAF), foretells if last is None else last)
        return replace(self, temperatures=temperatures, heard=before)

    def last_word(self, state: State) -> float | None:
        """The temperature of the last word by what was answered since; None where that is too little."""
        new = [item for item in self.watched if item in state.votes]
        if len(new) < FEW:
            return None
        return fit_temperature(votes_of(state, new, self.classes), np.stack([self.watched[item] for item in new]))


def voice_of(model: Model, state: State) -> Voice:
    """What a model says that was trained on the labels of this state."""
    labelled = list(state.labels)
    evidence, record = model.evidence(), model.record
    log = to_numpy(evidence["labelled_log"])
    open_ = [at for at, check in enumerate(record.history) if check.get("accuracy", 0.0) <= HEART] or [0]
    heard = open_[-math.ceil(len(open_) / 3) :]
    first = np.mean([softmax(log[at].astype(np.float64)) for at in heard], axis=0)
    if "logits" in evidence:
        last = softmax(to_numpy(evidence["logits"]).astype(np.float64))
    else:
        last = to_numpy(evidence["probs"]).astype(np.float64)
    watched = to_numpy(model.watched).tolist()
    shown = {item: len(state.votes.get(item, ())) for item in labelled}
    said = dict(zip(labelled, first, strict=True)), dict(zip(watched, last, strict=True))
    return Voice(*said, int(first.shape[1]), shown)


def votes_of(state: State, items: list[Any], classes: int) -> Votes:
    """The answers about these items."""
    rows = [(item, by, label) for item in items for by, label in state.votes.get(item, ())]
    about, by, labels = zip(*rows, strict=True) if rows else ((), (), ())
    return Votes.from_long(about, by, np.array(labels, np.int64), classes, known_items=items)
