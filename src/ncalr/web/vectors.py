"""Vectors of a source by a trained network, a row an item in the order of the project: what `--embeddings` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import select

from ncalr.data.images import ImagePool
from ncalr.data.pool import Pool
from ncalr.data.received import inside
from ncalr.data.tables import TextPool
from ncalr.web import sources
from ncalr.web.folder import Folder, Source
from ncalr.web.store import schema
from ncalr.web.store.projects import NewItem


def items_of(path: Path, text_column: str = "") -> tuple[Source, list[NewItem]]:
    """The items of a folder or a table as a new project would have them; or those of a project, as it has them."""
    folder = Folder(path)
    if not folder.exists:
        found = sources.find(path, text_column)
        return found, sources.take_stock(found).items
    store = folder.open()
    table = schema.item
    rows = store.read(lambda conn: conn.execute(select(table.c.name, table.c.text).order_by(table.c.id)).all())
    store.close()
    return folder.source(), [NewItem(row.name, row.text) for row in rows]


def embedded(
    source: Source, items: list[NewItem], network: str, *, size: int, untrained: bool = False, device: Any = None
) -> tuple[npt.NDArray[np.float32], list[str]]:
    """A row an item, and the names of pictures that could not be read: theirs is the mean of the others."""
    from ncalr.learn.embed import check_trained, embed

    check_trained(network, untrained)
    pool: Pool
    if source.kind == "text":
        pool, unread = TextPool([item.text or "" for item in items]), []
        places = np.arange(len(items))
    else:
        root = Path(source.path)
        paths = [inside(root, item.name, "picture", below=True) for item in items]
        pool = ImagePool(paths, size=size, skip_broken=True)
        gone = set(pool.skipped)
        unread = [item.name for item, path in zip(items, paths, strict=True) if path.as_posix() in gone]
        places = np.array([at for at, path in enumerate(paths) if path.as_posix() not in gone])
    made = np.concatenate([block["features"] for block in embed(pool, network, device=device, untrained=untrained)])
    rows = np.tile(made.mean(axis=0, dtype=np.float64).astype(np.float32), (len(items), 1))
    rows[places] = made
    return rows, unread
