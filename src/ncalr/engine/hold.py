"""A share of a pool in a worker's memory, for the methods that pass over it again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ncalr.acquire.evidence import Evidence, source_of
from ncalr.acquire.select.spaces import Points, Space, needs
from ncalr.data.shards import ShardedPool
from ncalr.kernels import choose


@dataclass(frozen=True)
class Share:
    """Some chunks of a pool: slices, or positions where items are left out."""

    folder: str
    kind: str  # of the space
    device: Any
    chunks: list[Any]
    files: dict[str, str] = field(default_factory=dict)  # of the pool as the query opened it


class Holder:
    """Reads its share once and keeps it. It has no other state: one that is lost is made again, and is the same."""

    def __init__(self, share: Share) -> None:
        pool = ShardedPool(share.folder)
        seen = share.files or pool.files
        names = {part for name in needs(share.kind) for part in source_of(name, seen) or ()}
        pool.check_files({name: seen[name] for name in names})
        backend = choose(share.device)
        self.kind = share.kind
        self.chunks = []
        for rows in share.chunks:
            given = {name: backend.hold(pool[name][rows]) for name in names}
            self.chunks.append(Evidence(given, backend, len(next(iter(given.values()))), 0))

    def sweep(self, middle: Any, centres: Points | None) -> list[Any]:
        """See `Space.sweep`: one array a chunk."""
        return [Space(self.kind, chunk, middle).swept(slice(None), centres) for chunk in self.chunks]
