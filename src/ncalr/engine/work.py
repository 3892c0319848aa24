"""One unit of work: some rows of a pool on disk, read, scored and summed up.

A `Work` says all that a worker must know and travels to it; rows are read where the worker is. Its methods are the
tasks that engines run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire import door
from ncalr.acquire.copies import first_drawn
from ncalr.acquire.evidence import POOL_AXIS, Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import Plan, call, resolve
from ncalr.acquire.scoring import parts_of
from ncalr.data.columns import Rows, stream
from ncalr.data.manifest import IDS
from ncalr.data.shards import ShardedPool
from ncalr.engine.tally import GROUPS, Tally, small_whole
from ncalr.errors import NotFinite
from ncalr.geometry.moments import Moments
from ncalr.kernels import choose
from ncalr.kernels.host import Host

Array = npt.NDArray[Any]
UNIT_ROWS = 1 << 18
CHUNK_BYTES = 16 << 20
GUESSES = ("predictions", "checkpoint_predictions")


@dataclass(frozen=True)
class Chunk:
    """Some items with their evidence: the open ones, without those that are excluded."""

    evidence: Evidence
    positions: Any  # an array, or consecutive `Positions`
    ids: Any


@dataclass(frozen=True)
class Work:
    """A strategy on a pool: what to read, what is known besides, what to leave out."""

    folder: str
    strategy: Any
    options: dict[str, Any]
    columns: tuple[str, ...]  # what is read
    given: dict[str, Any]  # what is known of the labelled set
    classes: int
    seed: Any
    exclude: Any = None  # an array of ids
    device: Any = None
    k: int = 0
    moments: Mapping[str, Moments] | None = None  # of the whole pool, for a second pass
    unit_rows: int = UNIT_ROWS
    files: dict[str, str] = field(default_factory=dict)  # of the pool as the query opened it; see `ShardedPool.files`
    shared: dict[str, Any] = field(default_factory=dict)  # made once a process

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("pool", "plan")}
        return {**state, "shared": {}}

    @cached_property
    def pool(self) -> ShardedPool:
        """The pool, opened once a process; with the columns that the query saw."""
        pool = ShardedPool(self.folder)
        pool.check_files({name: self.files[name] for name in self.columns if name in self.files})
        return pool

    @cached_property
    def plan(self) -> Plan:
        """The strategy with its options."""
        return resolve(self.strategy, self.options)

    def units(self) -> list[Rows]:
        """The pool in pieces: never across two shards, so that files are read from start to end."""
        found: list[Rows] = []
        start = 0
        for shard in self.pool.manifest.shards:
            cuts = range(0, shard.rows, self.unit_rows)
            found += [(start + first, start + min(first + self.unit_rows, shard.rows)) for first in cuts]
            start += shard.rows
        return found

    # -- tasks ----------------------------------------------------------------------------------------------------

    def span(self, unit: Rows, _hint: Any = None) -> tuple[int, int]:
        """The least and the largest predicted class of some rows."""
        low, high = np.iinfo(np.int64).max, -1
        for chunk in self.chunks(unit):
            for name in self.columns if chunk.evidence.n else ():
                found = chunk.evidence.given[name]
                last = found[-1] if found.ndim > 1 else found
                low, high = min(low, int(last.min())), max(high, int(last.max()))
        return low, high

    def known(self, unit: Rows, _hint: Any = None) -> Array:
        """Which of the excluded ids are among these rows."""
        blocks = stream({IDS: self.pool[IDS]}, self._cut(unit))
        return np.concatenate([block[IDS][np.isin(block[IDS], self.exclude)] for _, block in blocks])

    def tally(self, unit: Rows, bars: Array | None = None) -> Tally:
        """The candidates of some rows. Values below the bars are known to be too low."""
        fused = self.plan.strategy.fuse is not None
        grouped = fused and self.moments is None
        tally = Tally(self.k, GROUPS if grouped else 1, np.zeros(0) if bars is None else bars.copy())
        for chunk in self.chunks(unit):
            if not chunk.evidence.n:
                continue
            parts = self.score(chunk)
            columns = list(parts.values())
            tally.names, tally.kind = tuple(parts), columns[0].dtype.str
            value, group = columns[0], None
            if grouped:
                group = small_whole(columns[1]) if len(columns) == 2 else None
                tally.ok &= group is not None
                for name, part in parts.items():
                    counts = np.bincount(group) if group is not None and part is columns[1] else None
                    more = Moments.of(part) if counts is None else Moments.of_counts(counts)
                    tally.moments[name] = tally.moments.get(name, Moments()) + more
            elif fused:
                value = self.fuse(parts)
            tally.add(value, group, Lottery(self.seed, chunk.ids).keys, chunk.positions, columns)
        tally.settle()
        return tally

    def drawn(self, unit: Rows, _hint: Any = None) -> tuple[Array, Array]:
        """Return the lottery keys and the positions of the open items among some rows that a random sample may hold."""
        chunks = [chunk for chunk in self.chunks(unit) if chunk.evidence.n]
        keys = np.concatenate([np.zeros(0, np.uint64), *(Lottery(self.seed, chunk.ids).keys() for chunk in chunks)])
        positions = np.concatenate([np.zeros(0, np.int64), *(chunk.positions[:] for chunk in chunks)])
        first = first_drawn(keys)
        return keys[first], positions[first]

    def gather(self, unit: Rows, _hint: Any = None) -> tuple[Rows, dict[str, Array]]:
        """The parts of the scores of every open item of some rows."""
        pieces = [self.score(chunk) for chunk in self.chunks(unit) if chunk.evidence.n]
        names = pieces[0] if pieces else {}
        return unit, {name: np.concatenate([piece[name] for piece in pieces]) for name in names}

    # -- inside -----------------------------------------------------------------------------------------------------

    def chunks(self, unit: Rows) -> Iterator[Chunk]:
        """The evidence of some rows, a few megabytes at a time. Arrays last until the next chunk."""
        names = [*self.columns, *([IDS] if IDS in self.pool.columns else [])]
        backend = choose(self.device)
        for (start, stop), block in stream({name: self.pool[name] for name in names}, self._cut(unit)):
            positions: Any = door.Positions(stop - start, start)
            ids = block.get(IDS, positions)
            given = {name: np.moveaxis(block[name], 0, POOL_AXIS[name]) for name in self.columns}
            if self.exclude is not None:
                kept = np.flatnonzero(~np.isin(ids[:], self.exclude))
                positions, ids = positions[kept], ids[kept]
                given = {name: np.take(array, kept, POOL_AXIS[name]) for name, array in given.items()}
            evidence = Evidence({**self.given, **given}, backend, len(ids), self.classes, shared=self.shared)
            if len(ids):
                self._check(given)
            yield Chunk(evidence, positions, ids)

    def score(self, chunk: Chunk) -> dict[str, Array]:
        """The parts of the score of each item of a chunk, as NumPy arrays of their own."""
        strategy, backend = self.plan.strategy, chunk.evidence.backend
        seen = chunk.evidence.only(strategy.needs | strategy.wants)
        parts = {name: np.array(backend.numpy(part)) for name, part in parts_of(self.plan, seen).items()}
        for name, part in parts.items():
            bad = np.flatnonzero(~np.isfinite(part)) if part.dtype.kind == "f" else part[:0]
            if len(bad):
                raise NotFinite(
                    f"strategy {strategy.name!r} gave {len(bad)} scores ({name}) that are not finite among the items "
                    f"{chunk.positions[:][0]}..{chunk.positions[:][-1]} of the pool, the first for item "
                    f"{chunk.positions[bad[0]]}; features beyond 1e18 overflow float32: scale them; "
                    "rows of probabilities must sum to 1"
                )
        return parts

    def fuse(self, parts: Mapping[str, Array]) -> Array:
        """One number an item, with the moments of the whole pool."""
        made: Array = call(self.plan.strategy.fuse, parts, Host(), self.moments, options=self.plan.options)  # type: ignore[arg-type]
        return made

    def _check(self, given: Mapping[str, Array]) -> None:
        """The values of a block; that they are finite was checked when they were written."""
        for name, array in given.items():
            door.check_values(name, array)
        if self.classes:
            door.count_classes({name: given[name] for name in GUESSES if name in given}, self.classes)

    def _cut(self, unit: Rows) -> list[Rows]:
        """Ranges of a few megabytes, on the edges of the blocks that have checksums."""
        widths = [self.pool[name].row_bytes(0) for name in self.columns]
        size = 65536
        while size > 1024 and size * max(widths, default=1) > CHUNK_BYTES:
            size //= 2
        return [(start, min(start + size, unit[1])) for start in range(unit[0], unit[1], size)]
