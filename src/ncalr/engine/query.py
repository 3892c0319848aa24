"""The door for pools on disk: the same question as `ncalr.query`, the same answer, whatever the size of the pool.

    ncalr.query_pool("ncal", 500, "pool", labelled_features=..., labels=...)
    ncalr.query_pool("ncal", 500, "pool", engine="ray", address="auto", ...)

Columns of the pool that are named as evidence take the place of the arrays. The ids, their order and their scores are
those that `ncalr.query` gives for the same arrays in memory, for any number of shards and workers:

| strategies                                         | how                                           | memory        |
|----------------------------------------------------|-----------------------------------------------|---------------|
| ncal, cmap, ff, margin, entropy, bald, sisom, ...  | one pass, a bounded list of candidates        | does not grow |
| other fusions (rank) and selectors over scores     | one pass, the scores are kept                 | 8-24 B each   |
| coreset, cdal, badge                               | distances are kept, rows are read when needed | 20-32 B each  |
| probcover, the herdings, typiclust, cluster_margin | on `candidates` items; the notes say so       | those items   |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire import door
from ncalr.acquire.copies import UNSEEN, Copies, first_drawn, note_dropped, note_kept
from ncalr.acquire.evidence import POOL_AXIS, Evidence, source_of
from ncalr.acquire.query import picks_of, query, statistics_of
from ncalr.acquire.registry import Plan, Strategy, call
from ncalr.acquire.rehearsal import rehearsed
from ncalr.acquire.remarks import idle, lots
from ncalr.acquire.scoring import score, scored_by
from ncalr.acquire.select.spaces import Points, Space, chunks
from ncalr.acquire.spec import Spec
from ncalr.data.manifest import IDS
from ncalr.data.shards import ShardedPool
from ncalr.engine import Crew, Engine, open_engine
from ncalr.engine.hold import Holder, Share
from ncalr.engine.lazy import as_evidence
from ncalr.engine.tally import Tally
from ncalr.engine.work import GUESSES, Work
from ncalr.errors import BadInput
from ncalr.kernels import as_kind, choose, to_numpy
from ncalr.types import Picks

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]
"""Called with the rows done and all rows of a pass."""


def query_pool(
    strategy: str | Spec | Strategy,
    k: int,
    pool: ShardedPool | str | Path,
    *,
    labelled_features: Any = None,
    labels: Any = None,
    labelled_logits: Any = None,
    labelled_probs: Any = None,
    labelled_enhanced: Any = None,
    statistics: Any = None,
    classes: int | None = None,
    exclude: Any = None,
    seed: int | Sequence[int] = 0,
    device: Any = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    candidates: int = 32768,
    progress: Progress | None = None,
    **options: Any,
) -> Picks:
    """The k items of a pool on disk to label next, most wanted first; see the module's text.

    Arguments are those of `ncalr.query`, except that what is known of the pool are its columns. `engine` is "local"
    (threads), "processes", "ray" (with an `address`, or a cluster on this machine), or one that is open already;
    `workers` says how many. `candidates` bounds the items that the methods which need all rows at once are run on.
    """
    store = pool if isinstance(pool, ShardedPool) else ShardedPool(pool)
    labelled = {
        "labelled_features": labelled_features,
        "labels": labels,
        "labelled_logits": labelled_logits,
        "labelled_probs": labelled_probs,
        "labelled_enhanced": labelled_enhanced,
        "statistics": statistics,
    }
    own = sorted(options.keys() & POOL_AXIS.keys())
    if own:
        raise BadInput(
            f"a pool on disk has columns of its own: leave out {', '.join(own)}, or put them into it (put_columns)"
        )
    plan = rehearsed(strategy, options)
    held: Any = closing(open_engine(engine, workers, address)) if isinstance(engine, str) else nullcontext(engine)
    with held as ready:
        asked = _Query(plan, k, store, labelled, classes, exclude, seed, device, ready, candidates, progress)
        return asked.answer(strategy, options)


class _Query:
    """One question to one pool, after a look at everything that was given."""

    def __init__(
        self,
        plan: Plan,
        k: int,
        store: ShardedPool,
        labelled: Mapping[str, Any],
        classes: int | None,
        exclude: Any,
        seed: int | Sequence[int],
        device: Any,
        engine: Engine,
        candidates: int,
        progress: Progress | None,
    ) -> None:
        self.plan, self.store, self.seed, self.device = plan, store, seed, device
        self.engine, self.candidates, self.progress = engine, candidates, progress
        columns = {name: as_evidence(name, store[name]) for name in _evidence_columns(store)}
        self.arrays = door.as_arrays({**columns, **labelled}, store.columns.keys() - {IDS})
        self.n, self.k, self.classes = len(store), 0, 0
        door.check_needs(plan, self.arrays, on_disk=True)
        door.check_labelled(self.arrays, plan.needs)
        self.used = door.used(plan, self.arrays)
        self.exclude = door.excluded_ids(exclude, self.n, IDS in store.columns and store[IDS].dtype.kind == "U")
        if self.exclude is not None and IDS in store.columns:
            self.exclude = as_kind(self.exclude, store[IDS].dtype)
        self.notes: tuple[str, ...] = ()
        self.flat: list[str] = []  # parts of the score that are the same for all items
        self._known_labels()
        self.notes += door.note_logits({name: self.arrays[name] for name in self.used})
        self.classes = self._count_classes(classes)
        if "statistics" in self.used or {"labelled_features", "labels"} <= self.used:
            self._make_statistics()
        self.left_out = self._count_excluded()
        self.k = door.check_k(k, self.n - self.left_out, self.left_out)
        if candidates < self.k:
            raise BadInput(f"candidates must be at least k = {k}, got {candidates}")

    def answer(self, strategy: Any, options: dict[str, Any]) -> Picks:
        """The picks, by whichever way keeps least in memory."""
        work = self._work(strategy, options)
        chooser = self.plan.select.selector
        if chooser.holds_pool:
            picks = self._among_candidates(work)
        elif self._streams() and chooser.best_only:
            picks = self._best(work)
        else:
            picks = self._over_scores(work)
        return replace(picks, notes=tuple(dict.fromkeys((*self.notes, *picks.notes))))  # some are of `query` too

    # -- one pass, a bounded list -----------------------------------------------------------------------------------

    def _streams(self) -> bool:
        made = self.plan.strategy
        if made.score is None or not made.rowwise:
            return False
        return made.fuse is None or (
            made.by_moments is not None and call(made.by_moments, options=self.plan.options) is True
        )

    def _best(self, work: Work) -> Picks:
        tally, order, scores = self._ranked(work)
        copies, drops, n = self._copies(work), self.plan.copies == "drop", self.n - self.left_out
        notes: tuple[str, ...] = (UNSEEN,) if drops and copies is None else ()
        if copies is not None and not drops:
            notes = note_kept(copies, tally.position[order])
        elif copies is not None and self.k < n and (first := int(copies.among(tally.position[order]).sum())):
            tally, order, scores = self._ranked(replace(work, k=min(self.candidates, n), shared={}))
            found = copies.among(tally.position[order], self.k)
            others = np.flatnonzero(~found)[: self.k]
            filling = np.flatnonzero(found)[: self.k - len(others)]
            order = order[np.concatenate([others, filling])]
            notes = note_dropped(copies, self.k, first, len(filling))
        positions = tally.position[order]
        parts = {name: tally.parts[order, at] for at, name in enumerate(tally.names)}
        notes = (*lots(scores[order], n), *notes, *idle(self.flat, tally.names))
        return Picks(self._ids(positions), scores[order], parts, str(self.plan.spec), notes)

    def _copies(self, work: Work) -> Copies | None:
        """The near-copies of the pool, by the random sample that `ncalr.query` takes; None without features."""
        if "features" not in self.used:
            return None
        features = self.store["features"]
        ids_only = replace(work, columns=(), given={})
        keys, positions = map(np.concatenate, zip(*self.engine.map(ids_only.drawn, work.units()), strict=True))
        sample = np.sort(positions[first_drawn(keys)])
        drops = self.plan.copies == "drop" and "labelled_features" in self.arrays
        known = to_numpy(self.arrays["labelled_features"]) if drops else None
        return Copies(lambda rows: features[rows], sample, self.n - self.left_out, known)

    def _ranked(self, work: Work) -> tuple[Tally, Array, Array]:
        """The tally of the pool, its best candidates in order, and the scores of all its candidates."""
        tally = self._tally(work)
        if work.plan.strategy.fuse is None:
            return tally, tally.best(), tally.value
        fused = replace(work, moments=tally.moments)
        self.flat = [name for name, moments in tally.moments.items() if moments.count > 1 and not moments.spread]
        if tally.ok:
            scores = fused.fuse(dict(zip(tally.names, tally.parts.T, strict=True)))
            order = tally.best(scores)
            if _proven(tally, fused, scores[order]):
                return tally, order, scores
        tally = self._tally(fused)
        return tally, tally.best(), tally.value

    def _tally(self, work: Work) -> Tally:
        whole: Tally | None = None

        def bars() -> Array | None:
            return whole.bars if whole is not None and whole.settled else None

        for made in self._map(work, "tally", bars):
            if whole is None:
                whole = made
            else:
                whole.merge(made)
        assert whole is not None  # noqa: S101 (a pool has at least one unit)
        whole.settle()
        return whole

    # -- the scores are kept ------------------------------------------------------------------------------------------

    def _over_scores(self, work: Work) -> Picks:
        ids, rows = self._open()
        backend = choose(self.device)
        kept = {name: self.arrays[name] for name in self.used}
        evidence = Evidence(kept, backend, self.n - self.left_out, self.classes, rows)
        made = self.plan.strategy
        if made.score is None or not made.rowwise:
            scored = score(self.plan, evidence)
        else:
            pieces = dict(self._map(work, "gather"))
            whole = [pieces[unit] for unit in sorted(pieces) if pieces[unit]]
            parts = {name: backend.asarray(np.concatenate([piece[name] for piece in whole])) for name in whole[0]}
            scored = scored_by(self.plan, parts, backend)
        sweeper = _Sweeper(self.engine, work, rows, evidence.n)
        with closing(sweeper):
            return picks_of(self.plan, replace(evidence, sweeper=sweeper.hook()), scored, self.k, ids, self.seed)

    # -- on some candidates -------------------------------------------------------------------------------------------

    def _among_candidates(self, work: Work) -> Picks:
        among = self.n - self.left_out
        notes: tuple[str, ...] = ()
        if among <= self.candidates:
            _, rows = self._open()
            positions = np.arange(self.n)[rows]
        else:
            fits = self._streams()
            narrow = replace(work, k=self.candidates, shared={})
            if not fits:
                narrow = replace(narrow, strategy="random", options={}, columns=(), given={})
            tally, order, _ = self._ranked(narrow)
            positions = np.sort(tally.position[order])
            which = "those with the highest scores" if fits else "a random sample"
            notes = (f"chosen among {self.candidates} of {among} items: {which}",)
        rest = {name: array for name, array in self.arrays.items() if name in self.used and name not in POOL_AXIS}
        here: dict[str, Any] = {
            name: np.moveaxis(self.store[name][positions], 0, POOL_AXIS[name])
            for name in self.used
            if name in POOL_AXIS
        }
        picks = query(
            self.plan.strategy,
            self.k,
            **here,
            **rest,
            classes=self.classes or None,
            ids=self._ids(positions),
            seed=self.seed,
            device=self.device,
            **self.plan.spec.options,
        )
        return replace(picks, notes=(*notes, *picks.notes))

    # -- small things -------------------------------------------------------------------------------------------------

    def _work(self, strategy: Any, options: dict[str, Any]) -> Work:
        read = tuple(name for name in sorted(self._scored_from()) if name in POOL_AXIS)
        given = {name: self.arrays[name] for name in self._scored_from() if name not in POOL_AXIS}
        return Work(
            str(self.store.folder),
            strategy,
            options,
            read,
            given,
            self.classes,
            self.seed,
            self.exclude,
            self.device,
            self.k,
            files=self.store.files,
        )

    def _scored_from(self) -> set[str]:
        """The arrays that the scores are made of; selectors read theirs on their own."""
        needs = self.plan.strategy.needs | self.plan.strategy.wants
        if self.plan.strategy.score is None:
            return set()
        return {part for name in needs for part in source_of(name, self.arrays) or ()}

    def _map(self, work: Work, task: str, hint: Any = lambda: None) -> Iterator[Any]:
        units = work.units()
        for done, result in enumerate(self.engine.map(getattr(work, task), units, hint), 1):
            if self.progress is not None:
                self.progress(done * self.n // len(units), self.n)
            yield result

    def _open(self) -> tuple[Any, Any]:
        """The ids of the open items, and their positions."""
        names = self.store.ids if IDS in self.store.columns else door.Positions(self.n)
        rows, _ = door.open_positions(names, self.exclude)
        return names if isinstance(rows, slice) else names[rows], rows

    def _ids(self, positions: Array) -> Array:
        return self.store[IDS][positions] if IDS in self.store.columns else positions

    def _count_excluded(self) -> int:
        """How many items are left out; ids of no item are dropped, and the notes say so."""
        if self.exclude is None:
            return 0
        if IDS in self.store.columns:
            work = replace(self._work("random", {}), columns=(), given={})
            found = np.unique(np.concatenate(list(self.engine.map(work.known, work.units()))))
        else:
            found = self.exclude[(self.exclude >= 0) & (self.exclude < self.n)]
        self.notes += door.note_strangers(self.exclude, found, self._ids(np.arange(min(self.n, 4))))
        self.exclude = found
        return len(found)

    def _known_labels(self) -> None:
        """What is known of the labelled set: looked at here, once."""
        about = {name: self.arrays[name] for name in self.used if name not in POOL_AXIS}
        evidence = Evidence(about, choose(None), 0, 0)
        for name in sorted(about.keys() - {"statistics"}):
            door.check_values(name, about[name])
            door.check_array(name, evidence)

    def _count_classes(self, classes: int | None) -> int:
        plain = {name: array for name, array in self.arrays.items() if name not in GUESSES}
        found = door.count_classes(plain, classes)
        read = tuple(name for name in GUESSES if name in self.used)
        if door.says_classes(plain, classes):
            return found
        if not read:
            self.notes += door.note_labels(self.plan, plain, classes)
            return found
        work = replace(self._work("random", {}), columns=read, given={})
        spans = list(self._map(work, "span"))
        low, high = int(min(span[0] for span in spans)), int(max(span[1] for span in spans))
        if low < 0:
            raise BadInput(f"{read[0]} must lie in 0..{high} (classes count from 0), got {low}..{high}")
        if "labels" in self.used:
            self.notes += door.counted_from_one(plain["labels"], lambda: [(low, high)])
        return max(found, high + 1)

    def _make_statistics(self) -> None:
        """The class statistics, once and here: what travels to the workers is as large as the class means."""
        if "statistics" not in self.arrays and "statistics" in self.plan.needs | self.plan.wants:
            features, labels = self.arrays["labelled_features"], self.arrays["labels"]
            self.arrays["statistics"] = statistics_of(self.plan, features, labels, self.classes)
            self.used = door.used(self.plan, self.arrays)


class _Sweeper:
    """Passes over the pool by a crew that holds its rows, where the engine has one."""

    def __init__(self, engine: Engine, work: Work, rows: Any, n: int) -> None:
        self.engine, self.work, self.rows, self.n = engine, work, rows, n
        self.crews: dict[str, Crew | None] = {}

    def hook(self) -> Any:
        """What evidence calls; None where passes are best made here."""
        return self if self.engine.crew(Holder, []) is not None else None

    def __call__(self, space: Space, centres: Points | None) -> Iterator[tuple[slice, Array]]:
        if space.kind not in self.crews:
            shares = _shares(self.work, self.rows, self.n, space.kind, self.engine.workers)
            self.crews[space.kind] = self.engine.crew(Holder, shares)
        crew = self.crews[space.kind]
        assert crew is not None  # noqa: S101 (`hook` asked)
        middle = space.centre if space.kind == "features" else None
        swept = (part for share in crew.ask("sweep", middle, centres) for part in share)
        yield from zip(chunks(self.n), swept, strict=True)

    def close(self) -> None:
        """Let the crews go."""
        for crew in self.crews.values():
            if crew is not None:
                crew.close()


def _shares(work: Work, rows: Any, n: int, kind: str, workers: int) -> list[Share]:
    """The chunks of a sweep in as many runs as there are workers."""
    pieces = chunks(n)
    cuts = np.linspace(0, len(pieces), min(workers, len(pieces)) + 1).astype(int)
    shares = []
    for first, last in pairwise(cuts):
        part = [p if isinstance(rows, slice) else rows[p] for p in pieces[first:last]]
        shares.append(Share(work.folder, kind, work.device, part, work.files))
    return shares


def _proven(tally: Tally, work: Work, best: Array) -> bool:
    """Whether nothing that was let go could have been among the best: see `ncalr.engine.tally`."""
    full = np.flatnonzero(tally.bars > -np.inf)
    if not len(full):
        return True
    bars = tally.bars[full].astype(tally.kind)
    below = np.nextafter(bars, bars.dtype.type(-np.inf)).astype(np.float64)
    probe = work.fuse(dict(zip(tally.names, (below, full.astype(np.float64)), strict=True)))
    return bool((probe < best[-1]).all())


def _evidence_columns(store: ShardedPool) -> list[str]:
    """The columns that are evidence; of logits and probabilities the logits, which keep more digits."""
    names = [name for name in store.columns if name in POOL_AXIS]
    return [name for name in names if name != "probs" or "logits" not in names]
