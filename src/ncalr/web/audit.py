"""Which labels look doubtful, for the second queue: the audit of `ncalr.evaluate`, on what the model reads.

A linear model is trained on all labels but a fifth and guesses that fifth, in the space the project's model reads
(pixels, words, or embeddings); so every label is guessed by a model that was not shown it, which is what
`ncalr.evaluate.audit` asks for. The project's own features will not do: in the terminal phase they have collapsed onto
the means of the labels they were given, right or wrong. The audit gives the chance that each label is wrong, the class
it may be instead, a reason in words, and the share of wrong labels with its interval.

**A poor guesser says nothing about labels.** Where guesses are poor, what they contradict are mostly right labels, and
a share made of them is an invention (cats and dogs at 32 pixels: 26 to 60 % "wrong" of labels that are all right). So
nothing is said until the guesses are good: even the low end of the interval of their agreement with the labels leaves
at most `LEFT` (half) of the mistakes that naming the commonest class each time would make. Before, no label is
suspected and there is no share.

Any function of this signature may take its place (`ncalr.web.worker.Worker(audit=…)`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.evaluate.crossfit import cut
from ncalr.web.shares import wilson

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

FOLDS = 5
FEWEST = 20
LEFT = 0.5
WIDEST = 256  # directions of long vectors that the guesser reads
LEAST = 1e-9  # a chance below counts as this one where its logarithm is taken


@dataclass(frozen=True, eq=False)
class Findings:
    """What an audit says about labels (n,)."""

    suspicion: Floats  # (n,) chance that the label is wrong
    suggestion: Labels  # (n,) the class it may be instead
    reasons: tuple[str, ...]  # (n,)
    share: tuple[float, float, float] | None = None  # of wrong labels: estimate, and the ends of its interval
    agrees: float | None = None  # share of labels that were guessed by a model that was not shown them
    asked: float | None = None  # and how much the low end of its interval must be for the rest to be said


Audit = Callable[[Any, Labels, int], Findings]
"""(vectors (n, d), labels (n,), classes) → findings."""


def doubts(vectors: Any, labels: Labels, classes: int) -> Findings:
    """The audit on guesses of a linear model, and on the vectors themselves; nothing where the guesses are poor.

    >>> x = np.concatenate([np.linspace(0, 1, 15), np.linspace(5, 6, 15), [0.5]])[:, None]
    >>> found = doubts(x, np.repeat([0, 1], [15, 16]), 2)
    >>> int(found.suspicion.argmax()), int(found.suggestion[30])
    (30, 0)
    """
    from ncalr.evaluate.audit import audit

    flat = _scaled(np.asarray(vectors, np.float32).reshape(len(vectors), -1))
    guesses = guessed(flat, labels, classes)
    right = int((guesses.argmax(axis=1) == labels).sum())
    commonest = np.bincount(labels).max() / len(labels)
    agrees, asked = right / len(labels), float(1 - LEFT * (1 - commonest))
    if wilson(right, len(labels))[0] < asked:
        return Findings(np.zeros(len(labels)), labels, ("",) * len(labels), None, agrees, asked)
    found = audit(flat, np.log(guesses), labels, classes=classes)
    assert found.share is not None  # noqa: S101 (there are logits)
    share = (found.share.share, found.share.low, found.share.high)
    return Findings(found.share.wrong, found.suggested, found.reasons, share, agrees, asked)


def guessed(flat: npt.NDArray[np.float32], labels: Labels, classes: int) -> Floats:
    """Chances of every class (n, c), for each item by a linear model that was not shown its label."""
    from sklearn.linear_model import LogisticRegression

    chances = np.full((len(labels), classes), LEAST)
    fold = cut(labels, FOLDS)
    for number in range(FOLDS):
        here = fold == number
        present = np.unique(labels[~here])
        if len(present) == 1:
            chances[here, present[0]] = 1.0
        else:
            model = LogisticRegression(C=10.0, max_iter=200).fit(flat[~here], labels[~here])
            chances[np.ix_(here, present)] = np.maximum(model.predict_proba(flat[here]), LEAST)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True), np.float64)


def _scaled(flat: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Around their centre, of length 1 on average; long vectors by the directions in which they differ most."""
    centred = flat - flat.mean(axis=0)
    if min(centred.shape) > WIDEST:
        from sklearn.utils.extmath import randomized_svd

        along, lengths, _ = randomized_svd(centred, WIDEST, random_state=0)
        centred = along * lengths
    size = np.sqrt((centred**2).sum(axis=1).mean())
    return np.asarray(centred / size if size > 0 else centred, np.float32)
