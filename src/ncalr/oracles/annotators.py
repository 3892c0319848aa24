"""Several annotators behind one oracle: the n-th question about an item goes to the n-th of them.

    oracle = Annotators({"ann": ann, "bob": bob})                    any oracles
    oracle = Annotators.of_labels(ids, {"ann": [...], "bob": [...]}, classes=10)

That is how CIFAR-10N's three labels an image are asked for, one at a time. `by` says who answered. An item about which
everybody was asked is refused, and so is one whose annotator cannot tell. An annotator who says "later" is passed over:
the next question goes to the next one, since what was asked, not what was answered, is all a resumed run can tell.

>>> oracle = Annotators.of_labels([7, 8], {"ann": [0, 1], "bob": [1, 1]}, classes=2)
>>> [oracle.answer([7]).labels.item() for _ in range(3)]
[0, 1, -1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncalr.errors import BadInput
from ncalr.oracles.oracle import REFUSED, Answers, Oracle, Tally, Truth, as_ids, remind


class Annotators:
    """Oracles with names, asked one after the other about an item."""

    def __init__(self, oracles: Mapping[str, Oracle]) -> None:
        if not oracles:
            raise BadInput("no annotators were given; name at least one, Annotators({'ann': oracle})")
        self.oracles = dict(oracles)
        self._tally = Tally()

    @classmethod
    def of_labels(cls, ids: Any, labels: Mapping[str, Any], classes: int) -> Annotators:
        """From what each of them says about every item, a list of labels a name, in the order of the ids."""
        return cls({name: Truth(ids, said, classes) for name, said in labels.items()})

    def answer(self, ids: Any) -> Answers:
        """What the annotators say whose turn it is."""
        asked = as_ids(ids)
        turns = self._tally.times(asked)
        labels, by = np.full(len(asked), REFUSED, np.int64), np.full(len(asked), "", object)
        for turn, (name, oracle) in enumerate(self.oracles.items()):
            # the first is asked about everything new, and a stranger is always new: nobody else was asked by then
            here = turns == turn
            if here.any():
                labels[here], by[here] = oracle.answer(asked[here]).labels, name
        self._tally.count(asked)
        return Answers(asked, labels, by.astype(str))

    def remember(self, askings: Sequence[Any]) -> None:
        """Count from here; and remind each annotator of what came to him."""
        self._tally = Tally()
        came: list[list[Any]] = [[] for _ in self.oracles]
        for ids in map(as_ids, askings):
            turns = self._tally.count(ids)
            for turn, mine in enumerate(came):
                if (turns == turn).any():
                    mine.append(ids[turns == turn])
        for oracle, mine in zip(self.oracles.values(), came, strict=True):
            remind(oracle, mine)
