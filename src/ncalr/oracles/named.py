"""The oracle of an experiment, as text: a kind of noise over the truth, or labels that people gave, from a file.

    symmetric(rate=0.2)                                                      any kind of `ncalr.oracles.noises()`
    confusion(file='matrix.npy')                                             who is taken for whom: rows sum to 1
    given(file='cifar10n_labels.npz', labels=worse_label)                    one label an item, always the same
    annotators(file='cifar10n_labels.npz', labels=[random_label1, random_label2, random_label3])
                                                                             the n-th question gets the n-th label

Where an item may be asked about several times, drawn noise is that of several people, each with mistakes of his own.

A file is an .npz whose arrays have a row for each item of the pool, in its order; it is looked for below the root of
the datasets (`--root`, NCALR_DATA) unless its path is absolute, so that an experiment can be told without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ncalr.acquire.spec import Spec, parse
from ncalr.data.catalog import data_root
from ncalr.data.pool import Pool
from ncalr.data.received import opened_npz, read_npy
from ncalr.data.words import Words, holds_texts
from ncalr.errors import BadInput, check_known, unknown
from ncalr.oracles.annotators import Annotators
from ncalr.oracles.noise import Noisy, noises, standardised
from ncalr.oracles.oracle import Labels, Oracle, Truth, as_labels

_PERSON = 0x9E0B1E


def oracle_of(
    text: str,
    truth: Truth,
    seed: int | Sequence[int] = 0,
    root: Path | str | None = None,
    pool: Pool | None = None,
    people: int = 1,
) -> Oracle:
    """The oracle that a text stands for; the truth itself where it is empty. `instance` needs the pool's items.

    With several `people` drawn noise is drawn for each of them, by a seed of his own. The first has the seed that is
    given: he says what a single one would say. What has only one answer about an item is then refused.
    """
    spec = parse(text) if text else None
    if spec is not None and spec.name == "annotators":
        named = _columns(spec, truth, root)
        _check_several(text, len(named), people)
        return Annotators.of_labels(truth.ids, named, truth.classes)
    known = noises().get(spec.name) if spec is not None else None
    if spec is None or (known is not None and not known.random):
        _check_several(text, 1, people)
    if spec is None:
        return truth
    noisy = _noisy(spec, truth, root, pool)
    if people == 1:
        return noisy(seed)
    parts = list(seed) if isinstance(seed, Sequence) else [seed]
    others = {f"person {number}": noisy([*parts, _PERSON, number]) for number in range(2, people + 1)}
    return Annotators({"person 1": noisy(seed), **others})


def _noisy(spec: Spec, truth: Truth, root: Path | str | None, pool: Pool | None) -> Callable[[Any], Noisy]:
    """The noise that a spec stands for, by a seed; files and items are read once."""
    if spec.name == "given" and spec.options:
        (labels,) = _columns(spec, truth, root, most=1).values()
        return partial(Noisy, truth, "given", given=labels)
    if spec.name == "confusion" and "file" in spec.options:
        return partial(Noisy, truth, "confusion", matrix=_matrix(spec, root))
    if spec.name == "instance" and pool is not None:
        items = pool.read(slice(None))
        numbers = Words.of(items.tolist())[1] if holds_texts(pool) else items
        return partial(Noisy, truth, spec, features=standardised(numbers))
    return partial(Noisy, truth, spec)


def _check_several(text: str, answers: int, people: int) -> None:
    """Answers beyond the first must come from somebody."""
    if answers == 1 < people:
        raise BadInput(
            f"{text or 'the truth (no noise)'} has one answer an item, and the policy asks up to {people} times: a "
            "second opinion would be the first again. Take annotators(file='labels.npz', labels=[ann, bob]), or noise "
            "that is drawn such as symmetric(rate=0.2), or answers=single"
        )


def _matrix(spec: Spec, root: Path | str | None) -> Any:
    """The matrix of a file."""
    for option in spec.options:
        check_known("option of 'confusion' with a file called", option, ("file",))
    path = data_root(root) / Path(str(spec.options["file"])).expanduser()
    advice = "expected a matrix of shape (classes, classes), absolute or below the data's root"
    return read_npy(path, advice, mapped=False)


def _columns(spec: Spec, truth: Truth, root: Path | str | None, most: int | None = None) -> dict[str, Labels]:
    """The arrays that a spec names, in its order."""
    for option in spec.options:
        check_known(f"option of {spec.name!r} called", option, ("file", "labels"))
    example = f"{spec.name}(file='labels.npz', labels={'ann' if most else '[ann, bob]'})"
    file, labels = spec.options.get("file"), spec.options.get("labels")
    names = [labels] if isinstance(labels, str) else labels
    if not isinstance(file, str) or not isinstance(names, list) or not names or len(names) > (most or len(names)):
        raise BadInput(f"{spec} needs a file and the names of {'one array' if most else 'arrays'} in it: {example}")
    path = data_root(root) / Path(file).expanduser()
    if not path.is_file():
        raise BadInput(f"there are no labels in {path}; name a file that is there, absolute or below the data's root")
    with opened_npz(path) as arrays:
        missing = [name for name in names if name not in arrays.names]
        if missing:
            raise unknown(f"labels in {path.name} called", str(missing[0]), arrays.names)
        return {name: _aligned(found, name, path, truth) for name, found in arrays.read(names).items()}


def _aligned(labels: Any, name: str, path: Path, truth: Truth) -> Labels:
    if labels.shape[:1] != (len(truth.ids),):
        rows = len(labels) if labels.ndim else 0
        raise BadInput(
            f"{name} in {path.name} has {rows} rows and the pool {len(truth.ids)} items; they must be the same items "
            "in the same order, so a pool that is only a part of a dataset has no such file"
        )
    return as_labels(labels, truth.classes, len(truth.ids), f"{name} in {path.name}")
