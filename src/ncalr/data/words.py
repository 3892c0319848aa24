"""Texts as vectors: words and pairs of words, weighted by rarity, brought to a few dimensions (LSA).

    words, rows = Words.of(pool.texts)     # the words of one pool
    other = words(test.texts)              # other texts by the same words, rarity and directions

Needs scikit-learn (the extra `sklearn`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.files import written_whole
from ncalr.data.pool import Pool
from ncalr.data.received import parsed_json, read_npz, reading
from ncalr.extras import load

WIDTH = 128  # of the vectors, at most
FILE = "words.npz"
_TERMS = 50_000

Rows = npt.NDArray[np.float32]


def holds_texts(pool: Pool) -> bool:
    """Whether the items of a pool are texts, which no network reads as they are."""
    return tuple(pool.shape) == () and pool.dtype == object


class Words:
    """From texts to vectors, by the words of the texts it was made of."""

    def __init__(self, terms: Sequence[str], rarity: Any, directions: Any, letters: bool) -> None:
        """`terms` in the order of `rarity` (t,) and of `directions` (d, t), which is empty where none were needed."""
        self.terms, self.letters = list(terms), letters
        self.rarity, self.directions = np.asarray(rarity), np.asarray(directions, np.float32)

    @classmethod
    def of(cls, texts: Sequence[str]) -> tuple[Words, Rows]:
        """What these texts say of words, and the texts as vectors."""
        counter, letters = _counter(letters=False), False
        try:
            table = counter.fit_transform(texts)
        except ValueError:  # no words at all, numbers or signs only: letters then
            counter, letters = _counter(letters=True), True
            table = counter.fit_transform([text or " " for text in texts])
        terms, directions = counter.get_feature_names_out().tolist(), np.empty((0, 0), np.float32)
        width = min(WIDTH, min(table.shape) - 1)
        if width >= 2:
            from sklearn.decomposition import TruncatedSVD

            directions = TruncatedSVD(width, random_state=0).fit(table).components_
        words = cls(terms, counter.idf_, directions, letters)
        return words, words._turned(table)

    def __call__(self, texts: Sequence[str]) -> Rows:
        """Other texts as vectors; words that are not among the known ones say nothing."""
        counter = _counter(self.letters, vocabulary={term: at for at, term in enumerate(self.terms)})
        counter.idf_ = self.rarity
        return self._turned(counter.transform(texts))

    def save(self, folder: Path) -> None:
        """Write words.npz, beside a model; no pickle."""
        terms = np.frombuffer(json.dumps([self.letters, self.terms]).encode(), np.uint8)
        with written_whole(folder / FILE) as file:
            np.savez_compressed(file, terms=terms, rarity=self.rarity, directions=self.directions)

    @classmethod
    def load(cls, folder: Path) -> Words:
        """What `save` wrote."""
        found = read_npz(folder / FILE, ("terms", "rarity", "directions"), "save the model again")
        said = parsed_json(found["terms"].tobytes(), folder / FILE)
        with reading(folder / FILE, "words", "save the model again"):
            letters, terms = said
            return cls(terms, found["rarity"], found["directions"], bool(letters))

    def _turned(self, table: Any) -> Rows:
        return np.asarray(table @ self.directions.T if self.directions.size else table.toarray(), np.float32)


def _counter(letters: bool, **known: Any) -> Any:
    counter = load("sklearn.feature_extraction.text", "sklearn", "learning from texts").TfidfVectorizer
    if letters:
        return counter(analyzer="char", ngram_range=(1, 3), max_features=_TERMS, **known)
    return counter(ngram_range=(1, 2), sublinear_tf=True, max_features=_TERMS, **known)
