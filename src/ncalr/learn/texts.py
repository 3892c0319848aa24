"""Pools of texts as learners read them: token ids for a network of transformers, else vectors of words.

The pool that a model is trained on says how its texts are turned (`ncalr.data.words`), and a test set is turned in the
same way: its words have no say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.words import FILE, Words, holds_texts

KEPT = 4  # pools that stay turned


class TextReader:
    """Turns the pools of texts that a model is shown, each once. Without words and `hf:` it turns none."""

    def __init__(self, net: Any = None, words: Words | None = None) -> None:
        self.net, self.words = net, words
        self.tokens = isinstance(net, str) and net.strip().startswith("hf:")
        self._turned: list[tuple[Pool, ArrayPool]] = []

    def __call__(self, pool: Pool) -> Pool:
        """The pool as numbers, under the same ids; one that holds no texts as it is."""
        if not holds_texts(pool) or not (self.tokens or self.words):
            return pool
        for known, turned in self._turned:
            if known is pool:
                return turned
        texts = _texts(pool)
        return self._keep(pool, self.words(texts) if self.words else _tokens(self.net, texts))

    def learn(self, pool: Pool) -> None:
        """Take the words of this pool."""
        self.words, rows = Words.of(_texts(pool))
        self._keep(pool, rows)

    def save(self, folder: Path | str) -> None:
        """Write the words beside a model, if there are any."""
        if self.words is not None:
            self.words.save(Path(folder))

    def _keep(self, pool: Pool, rows: Any) -> ArrayPool:
        turned = ArrayPool(rows, pool.ids)
        self._turned = [*self._turned[1 - KEPT :], (pool, turned)]
        return turned


class TextReaders:
    """The readers of a learner, one for each pool of texts that it is trained on."""

    def __init__(self, net: Any = None) -> None:
        self.net = net
        self._known: list[tuple[Pool, TextReader]] = []

    def of(self, pool: Pool) -> TextReader:
        """The reader of the models that are trained on this pool."""
        for known, reader in self._known:
            if known is pool:
                return reader
        reader = TextReader(self.net)
        if holds_texts(pool):
            if isinstance(self.net, str):
                from ncalr.learn.nets import check_reads_texts

                check_reads_texts(self.net)
            if not reader.tokens:
                reader.learn(pool)
            self._known = [*self._known[1 - KEPT :], (pool, reader)]
        return reader

    def saved(self, folder: Path | str) -> TextReader:
        """The reader of a model that was saved."""
        return TextReader(self.net, Words.load(Path(folder)) if (Path(folder) / FILE).exists() else None)


def _texts(pool: Pool) -> list[str]:
    found: list[str] = pool.read(slice(None)).tolist()
    return found


def _tokens(net: str, texts: list[str]) -> Any:
    from ncalr.learn.nets.external import LENGTH, read_name, tokenise

    _, name, options = read_name(net)
    return tokenise(name, texts, options.get("length") or LENGTH)
