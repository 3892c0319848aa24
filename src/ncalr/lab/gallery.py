"""Pictures of what a strategy wanted most and least, with the parts of the scores beside them."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

import numpy as np

from ncalr.data.pool import Pool, positions_of
from ncalr.lab.runner import Run

MOST = 12


def gallery(runs: list[Run], names: list[str], pool: Pool | None) -> str:
    """The last batch of the first strategy that has scores: its best picks, and what it wanted least."""
    if pool is None or len(pool.shape) != 3:
        return ""
    run, line = next(
        ((run, line) for run in runs for line in reversed(run.lines) if line.get("scores") and line["parts"]),
        (None, None),
    )
    if run is None or line is None:
        return ""
    drawn = set(line.get("control", {}).get("ids", []))
    asked = [row for row in zip(line["ids"], line["labels"], strict=True) if row[0] not in drawn]
    first = len(asked) - len(line["scores"])  # items awaited from earlier rounds are asked first
    shown = [item for item, _ in asked[first:][:MOST]]
    answers = [_name(label, names) for _, label in asked[first:][:MOST]]
    place = f"at {line['labelled']:,} labels, seed {run.seed}"
    parts = [
        f"<h2>What {escape(run.strategy)} wanted most</h2>"
        f"<p class=soft>Its last batch, {place}: the item, the answer it got, and the parts of its score.</p>"
        f"{_cards(pool, shown, line['parts'], answers)}"
    ]
    if line.get("least"):
        least = line["least"]
        parts.append(
            f"<h2>What {escape(run.strategy)} wanted least</h2>"
            f"<p class=soft>The lowest scores of the same round, {place}; nobody was asked about these.</p>"
            f"{_cards(pool, least['ids'], least['parts'])}"
        )
    return "\n".join(parts)


def _cards(pool: Pool, items: list[Any], parts: dict[str, list[float]], answers: list[str] | None = None) -> str:
    cards = []
    for at, (item, image) in enumerate(zip(items, pool.read(positions_of(pool, items)), strict=True)):
        why = ", ".join(f"{name} {values[at]:.3g}" for name, values in parts.items())
        answer = f"<br>{escape(answers[at])}" if answers else ""
        caption = f"{escape(str(item))}{answer}<br><span class=soft>{escape(why)}</span>"
        cards.append(f"<figure class=card><img alt='item {escape(str(item))}' src='{_data(image)}'>{caption}</figure>")
    return f"<div class=gallery>{''.join(cards)}</div>"


def _name(label: int, names: list[str]) -> str:
    if label < 0:
        return "no answer"
    return names[label] if label < len(names) else str(label)


def _data(image: Any) -> str:
    """An image as the text of a data address: PNG, written by matplotlib, which a report needs anyway."""
    from matplotlib.image import imsave

    out = io.BytesIO()
    pixels = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    imsave(out, np.ascontiguousarray(pixels), format="png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
