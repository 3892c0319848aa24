"""Items kept for measuring: at random, over the whole folder, whatever a model thinks of them.

An item is reserved where a number drawn from (seed, item) lies below the project's share `control`. That needs nothing
stored and no order, and holds for items that are added later. The strategy never gets a reserved item while there is
another, so those that are still open are a uniform sample of the folder, and the accuracy on them is that on the
folder: had the sample been drawn from what the strategy left open, it would hold the easier items.

The items that came before the first model came at random from the whole folder too, reserved or not, so what they take
away leaves the rest uniform. In a project that was begun before there was a reserve, or whose share was raised, some
of the reserved items were picked by the strategy: `touched` counts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

from ncalr.acquire.control import draws
from ncalr.web.store import schema
from ncalr.web.store.projects import Settings


def reserved(ids: Any, rules: Settings) -> npt.NDArray[np.bool_]:
    """Return which of these items are reserved (n,)."""
    return draws(np.asarray(ids, np.int64), rules.seed) < rules.control


def touched(conn: Connection, ids: Any, rules: Settings) -> dict[str, int]:
    """How many of `ids` are reserved (`items`), and how many the strategy has picked all the same (`picked`)."""
    event = schema.event
    picked = conn.execute(select(event.c.item_id).distinct().where(event.c.arm == "strategy")).scalars().all()
    return {"items": int(reserved(ids, rules).sum()), "picked": int(reserved(picked, rules).sum())}
