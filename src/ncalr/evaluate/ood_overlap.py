"""Classes of an OOD set that the training set has too, and the set without them.

An item of a training class is not out of distribution, whatever folder it came from: Tiny-ImageNet holds classes of
CIFAR-100, and the rest of ImageNet is only a rest without those that were trained on. Two classes are the same where
they share a name, with capitals, spaces, underscores and hyphens not counting ("maple_tree", "Maple tree"); names apart
by commas are synonyms, as in ImageNet's list. Where both classes have a WordNet id (n and eight digits), the ids alone
decide, since ImageNet has two cranes. That two words mean the same, or that a beagle is a dog, is not known here: give
such a class the training class's name as a second one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput
from ncalr.kernels import to_numpy

ClassName = str | Sequence[str]
"""A name, a WordNet id, or several of them for the same class."""

_WORDNET_ID = re.compile(r"n\d{8}")
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Disjoint:
    """Which items of an OOD set may stay."""

    keep: npt.NDArray[np.bool_]  # (n,)
    removed: dict[str, str]  # class of the OOD set -> the training class it is
    note: str  # empty where nothing was removed


class _Known(NamedTuple):
    shown: str
    ids: frozenset[str]
    names: frozenset[str]


def without_overlap(labels: Any, names: Sequence[ClassName], training: Iterable[ClassName]) -> Disjoint:
    """The items of an OOD set, given by their labels, whose class is none of the training classes.

    >>> found = without_overlap([0, 1, 1, 2], ["Sea-lion", "oak_tree", ("crane", "n03126707")], ["oak tree", "bus"])
    >>> found.keep.tolist(), found.note
    ([True, False, False, True], "removed 2 of 4 items, of 1 class that is trained on: 'oak_tree' ('oak tree')")
    """
    labels, own = _labels(labels, len(names)), [_known(name) for name in training]
    same = {
        number: twin.shown
        for number, name in enumerate(names)
        if (twin := next((one for one in own if _same(one, _known(name))), None))
    }
    keep = ~np.isin(labels, list(same))
    removed = {_known(names[number]).shown: twin for number, twin in same.items()}
    return Disjoint(keep, removed, _note(removed, int((~keep).sum()), len(labels)))


def _same(one: _Known, other: _Known) -> bool:
    if one.ids and other.ids:
        return bool(one.ids & other.ids)
    return bool(one.names & other.names)


def _known(name: ClassName) -> _Known:
    texts = [name] if isinstance(name, str) else list(name)
    plain = {re.sub(r"[\s_-]+", "", part).casefold() for text in texts for part in text.split(",")} - {""}
    if not plain:
        raise BadInput(f"a class needs a name or a WordNet id, got {name!r}")
    ids = frozenset(part for part in plain if _WORDNET_ID.fullmatch(part))
    return _Known(texts[0], ids, frozenset(plain))


def _note(removed: dict[str, str], items: int, of: int) -> str:
    if not removed:
        return ""
    pairs = [f"{name!r} ({twin!r})" for name, twin in removed.items()]
    shown = ", ".join(pairs[:_SHOWN]) + f" and {len(pairs) - _SHOWN} more" * (len(pairs) > _SHOWN)
    classes = "1 class that is" if len(pairs) == 1 else f"{len(pairs)} classes that are"
    return f"removed {items} of {of} items, of {classes} trained on: {shown}"


def _labels(given: Any, classes: int) -> npt.NDArray[np.int64]:
    labels = to_numpy(given)
    if labels.ndim != 1 or (len(labels) and labels.dtype.kind not in "iu"):
        raise BadInput(f"labels must be a list of class numbers, got {labels.dtype} of shape {labels.shape}")
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise BadInput(f"labels must lie in 0..{classes - 1} for {classes} names, got {labels.min()}..{labels.max()}")
    return np.asarray(labels, np.int64)
