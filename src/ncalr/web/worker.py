"""The training beside the labelling: a process of its own that reads labels, trains, ranks the pool, and may die.

Run as `python -m ncalr.web.worker FOLDER`. It never holds the database: labels are read in one snapshot, a new order is
written in small batches and swapped in one short transaction. Each training is a line in the project's journal, in the
format of every run of ncalr; `ncalr.loop.state.replay` reads the labels back from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, select, update

from ncalr.acquire.query import query
from ncalr.acquire.registry import resolve
from ncalr.acquire.spec import with_defaults
from ncalr.data.pool import ArrayPool, positions_of
from ncalr.data.words import Words
from ncalr.errors import NcalrError
from ncalr.kernels import to_numpy
from ncalr.learn.learner import Job, Learner, Model, needs_of
from ncalr.loop.journal import Busy, Journal
from ncalr.loop.run import redundancy
from ncalr.oracles.oracle import REFUSED
from ncalr.web import sources, worth
from ncalr.web.audit import FEWEST, Audit, Findings, doubts
from ncalr.web.courtesy import step_back
from ncalr.web.folder import Folder
from ncalr.web.models import OWN, About, Choice, keep
from ncalr.web.store import Store, answers, projects, ranking, reserve, review, schema
from ncalr.web.store.projects import Project, Settings
from ncalr.web.store.ranking import Ranked, Trained
from ncalr.web.store.review import Doubt

POLL = 1.0
BEAT = 5.0
POOL = 100_000  # items a model looks at; of more, so many of the first order
EXPLAINED = 1000  # places whose reason is worked out
DOUBTFUL, SOUND = 0.25, 0.1  # chances of being wrong: above, a second person is asked; below, it may be a control
GREEDY = 500  # places where the strategy picks one after the other


@dataclass(frozen=True)
class Labels:
    """What people had decided at one moment."""

    ids: Any
    labels: Any
    seq: int
    closed: frozenset[int]


class Worker:
    """Trains when there is enough new; `audit` says which labels are doubtful."""

    def __init__(self, folder: Folder, store: Store, learner: Learner | None = None, audit: Audit = doubts) -> None:
        self.folder, self.store, self.audit = folder, store, audit
        self._learner = learner
        self._choice = Choice(OWN)
        self._pool: ArrayPool | None = None
        self._words: Words | None = None
        self.state, self.message = "waiting", ""
        self._unkept = ""  # why the last model could not be kept

    def due(self, project: Project, labels: Labels, last_seq: int, epoch: int) -> str:
        """Nothing where it is time to train, else what is missing."""
        rules = project.settings
        classes = len(np.unique(labels.labels)) if len(labels.labels) else 0
        if len(labels.ids) < rules.first_training:
            each = "" if project.votes == 1 else f" by {project.votes} people each"
            first, there = rules.first_training, len(labels.ids)
            return f"the first training is when {first} items are labelled{each}; {there} are"
        if classes < 2:
            return "a model needs labels of two classes"
        if epoch and labels.seq - last_seq < rules.step:
            return f"the next training is {rules.step} answers after the last"
        return ""

    def step(self) -> bool:
        """One look: train if it is time, and nobody else trains this project. Whether it did.

        Two would clear away each other's orders while they are written. That there is another is usual after a server
        was killed: its worker ends the training it is at.
        """
        if not self._is_due():
            return False
        try:
            with Journal(self.folder.path).locked():
                return self._train()
        except Busy as busy:
            self.say("training", str(busy))
            return False

    def _is_due(self) -> bool:
        """Whether there is enough new; the page hears what is missing."""
        project, labels, _, last_seq = self.store.read(self._look)
        missing = self.due(project, labels, last_seq, project.epoch)
        if missing:
            self._rest(missing)
        return not missing

    def _train(self) -> bool:
        project, labels, names, last_seq = self.store.read(self._look)
        if self.due(project, labels, last_seq, project.epoch):  # another has just trained
            return False
        began = self.store.clock.now()
        self.say("training", f"{len(labels.ids)} labels")
        pool = self.pool(project.settings)
        epoch = project.epoch + 1
        known = np.isin(labels.ids, pool.ids)
        open_ids = pool.ids[~np.isin(pool.ids, list(labels.closed))]
        strategy = project.settings.strategy
        job = Job(
            pool,
            labels.ids[known],
            labels.labels[known],
            len(names),
            seed=project.settings.seed,
            round=epoch,
            needs=needs_of(strategy) | {"logits", "features", "labelled_features", "labels"},
            watch=open_ids,
        )
        model = self.learner(project.settings, pool).fit(job)
        self.say("scoring", f"{len(open_ids)} items")
        ranked = order(model, strategy, project.settings, epoch, len(names)) if len(open_ids) else []
        facts = {"learner": type(self._learner).__name__, "strategy": strategy, **_plain(model.record)}
        facts["covered"] = len(np.unique(labels.labels))
        facts["redundancy"] = _redundancy(model, ranked[: project.settings.step])
        facts["reserved"] = self.store.read(lambda conn: reserve.touched(conn, pool.ids, project.settings))
        weighed = self._reading(project.settings)
        last = self.store.read(lambda conn: worth.last_of(conn, weighed))
        facts |= {"worth": asdict(last)} if last else {}
        written = ranking.prepare(self.store, ranked)
        ranking.swap(self.store, written, Trained(len(labels.ids), labels.seq, began, facts))
        self._keep(model, project.settings, names, len(labels.ids), written)
        self._doubt(project.settings, pool, labels, len(names), written)
        self._write_journal(written, len(labels.ids), facts)
        if worth.is_due(int(known.sum()), last):
            self._weigh(job, names, written, weighed)
        self._rest("")
        return True

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Look, train, rest, until told to stop. A training that fails is told, and tried again with more labels."""
        beating = threading.Event()
        threading.Thread(target=self._beat, args=(beating,), daemon=True).start()
        failed_at = -1
        while not stop():
            seq = self.store.read(answers.last)[0]
            if seq != failed_at:
                try:
                    self.step()
                except Exception as error:  # told on the page; labelling goes on
                    failed_at = seq
                    self.say("failed", f"{type(error).__name__}: {error}"[:300])
            time.sleep(POLL)
        beating.set()
        self.say("stopped", "")

    def pool(self, rules: Settings) -> ArrayPool:
        """The items as the model reads them; made once."""
        if self._pool is None:
            rows, source = self.store.read(_first_items), self.folder.source()
            texts = [row.text for row in rows]
            if source.kind == "text" and not source.embeddings:
                self._words = Words.of([text or "" for text in texts])[0]
            ids, names = [row.id for row in rows], [row.name for row in rows]
            self._pool = sources.vectors(source, ids, names, texts, rules.size, self._words)
        return self._pool

    def learner(self, rules: Settings, pool: ArrayPool) -> Learner:
        """What learns: a small network for images and embeddings where torch is there, a linear model for words."""
        if self._learner is None:
            self._choice = Choice.of(rules, pool, bool(self.folder.source().embeddings))
            self._learner = self._choice.learner()
        return self._learner

    def say(self, state: str, message: str) -> None:
        """Tell the page what happens."""
        if (state, message) != (self.state, self.message):
            self.state, self.message = state, message
            self._tell()

    def _rest(self, missing: str) -> None:
        """Nothing to do; a model that could not be kept is told until one is."""
        if self._unkept:
            self.say("failed", self._unkept)
        else:
            self.say("waiting", missing)

    def _tell(self) -> None:
        now, said = self.store.clock.now(), {"state": self.state, "message": self.message}
        self.store.write(lambda conn: conn.execute(update(schema.worker).values(beat=now, **said)))

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            self._tell()

    def _look(self, conn: Connection) -> tuple[Project, Labels, list[str], int]:
        project = projects.load(conn)
        table = schema.state
        rows = conn.execute(select(table).where(table.c.status == "labelled").order_by(table.c.seq)).all()
        closed = conn.execute(select(table.c.item_id).where(table.c.status != "open")).scalars()
        seq = conn.execute(select(schema.model.c.seq).where(schema.model.c.epoch == project.epoch)).scalar()
        labels = Labels(
            np.array([row.item_id for row in rows], np.int64),
            np.array([row.answer for row in rows], np.int64),
            answers.last(conn)[0],
            frozenset(closed),
        )
        return project, labels, projects.classes(conn), int(seq or 0)

    def _keep(self, model: Model, rules: Settings, names: list[str], labelled: int, epoch: int) -> None:
        """Put the model into the project's folder. Where that fails (a full disk) its order is in use all the same."""
        about = About(epoch, labelled, names, self._choice, rules.size, self.folder.source().embeddings)
        try:
            keep(self.folder, model, about, self._words)
            self._unkept = ""
        except (OSError, NcalrError) as error:
            self._unkept = f"its order is in use, but the model cannot be kept: {error}"[:300]

    def _reading(self, rules: Settings) -> str:
        """What is read and what learns from it, as a digest: the page gets it, and paths are not for everybody."""
        parts = [self.folder.source().embeddings, self._choice.network, self._choice.recipe, rules.size]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def _weigh(self, job: Job, names: list[str], epoch: int, of: str) -> None:
        """Whether such a model says more than the commonest class; its order is in use meanwhile."""
        assert self._learner is not None  # noqa: S101 (it has just learnt)
        self.say("scoring", f"on {len(job.ids)} labels it is not shown")
        found = worth.look(self._learner, job.pool, job.ids, job.labels, names, job.seed, of)
        if found is not None:
            self.store.write(lambda conn: ranking.add_facts(conn, epoch, {"worth": asdict(found)}))

    def _doubt(self, rules: Settings, pool: ArrayPool, labels: Labels, classes: int, epoch: int) -> None:
        """Look for wrong labels, and put them in line for a second person; the new order is in use meanwhile."""
        ids, found = self._audit(pool, labels, classes)
        if found is None:
            return
        facts = {"audit": {"wrong": found.share, "agrees": found.agrees, "asked": found.asked}}
        self.store.write(lambda conn: ranking.add_facts(conn, epoch, facts))
        if rules.check_share:
            self._second_look(rules, ids, found, epoch)

    def _audit(self, pool: ArrayPool, labels: Labels, classes: int) -> tuple[Any, Findings | None]:
        """What the audit says about the labels there are; nothing while they are few, or of one class."""
        inside = np.isin(labels.ids, pool.ids)
        ids, said = labels.ids[inside], labels.labels[inside]
        if len(ids) < FEWEST:
            return ids, None
        return ids, self.audit(pool.read(positions_of(pool, ids)), said, classes)

    def _second_look(self, rules: Settings, ids: Any, found: Findings, epoch: int) -> None:
        """Put the most doubtful labels in line for a second person, with their controls."""
        most = max(1, round(rules.check_share * len(ids)))
        worst = [at for at in np.argsort(-found.suspicion, kind="stable")[:most] if found.suspicion[at] > DOUBTFUL]
        lines = [
            Doubt(int(ids[at]), float(found.suspicion[at]), int(found.suggestion[at]), found.reasons[at])
            for at in worst
        ]
        sound = [int(ids[at]) for at in np.flatnonzero(found.suspicion < SOUND)]
        seed = [rules.seed, epoch, 3]
        self.store.write(lambda conn: review.enqueue(conn, epoch, lines, sound, seed))

    def _write_journal(self, epoch: int, labelled: int, facts: dict[str, Any]) -> None:
        """What was decided since the line before, as a round."""
        journal = Journal(self.folder.path)
        lines = journal.lines()
        since = int(lines[-1]["seq"]) if lines else 0
        decided, seq = self.store.read(lambda conn: (_decided(conn, since), answers.last(conn)[0]))
        line = {"round": len(lines), "epoch": epoch, "seq": seq, "labelled": labelled, **decided}
        journal.append({**line, "seconds": {"train": facts.get("seconds", 0.0)}})


def order(model: Any, strategy: str, rules: Settings, epoch: int, classes: int) -> list[Ranked]:
    """The strategy's order of the open items, with control items in between: one in each ten places, say.

    Control items are those that the lottery reserved (`ncalr.web.store.reserve`), in random order; the strategy
    picks from the others. When either has run out, the rest of the places are the other's.
    """
    evidence = model.evidence()
    ids = np.asarray(model.watched)
    apart = reserve.reserved(ids, rules)
    plan = resolve(strategy, {})
    whole = plan.strategy.rowwise and plan.select.selector.name == "top_k"
    count = min(len(ids), ranking.LIMIT if whole else GREEDY)
    kept = ids[apart]
    chosen = _chosen(strategy, min(count, len(ids) - len(kept)), ids, kept, evidence, classes, [rules.seed, epoch])
    outputs = to_numpy(evidence["logits"] if "logits" in evidence else evidence["probs"])
    predicted = dict(zip(ids.tolist(), outputs.argmax(axis=1).tolist(), strict=True))
    first = [] if chosen is None else chosen.ids.tolist()
    scores = {} if chosen is None else dict(zip(first, chosen.scores.tolist(), strict=True))
    drawn = np.random.default_rng([rules.seed, epoch, 2]).permutation(kept).tolist()
    placed = _interleave(first, drawn, control_places(count, rules.control, np.random.default_rng([rules.seed, epoch])))
    explained = [item for item, _ in placed[:EXPLAINED]]
    reasons = _reasons(explained, chosen, evidence, ids, whole and len(first) == len(ids) - len(kept))
    return [
        Ranked(
            item,
            "control" if control else "strategy",
            rules.control if control else 1 - rules.control,
            scores.get(item),
            predicted[item],
            reasons.get(item),
        )
        for item, control in placed
    ]


def _chosen(
    strategy: str, count: int, ids: Any, kept: Any, evidence: dict[str, Any], classes: int, seed: list[int]
) -> Any:
    """What the strategy picks from all that are not kept apart; nothing where there are none.

    Near-copies come behind the first places (`GREEDY`).
    """
    if not count:
        return None
    given = {"ids": ids, "classes": classes, "seed": seed, "exclude": kept if len(kept) else None, **evidence}
    first = query(with_defaults(strategy, copies="drop"), min(count, GREEDY), **given)
    if count <= GREEDY:
        return first
    whole = query(strategy, count, copies="keep", **given)
    place = {item: at for at, item in enumerate(whole.ids.tolist())}
    ahead = np.array([place[item] for item in first.ids.tolist() if item in place], np.intp)
    return whole.at(np.concatenate([ahead, np.setdiff1d(np.arange(len(whole)), ahead)]))


def _interleave(first: list[int], drawn: list[int], places: list[bool]) -> list[tuple[int, bool]]:
    """Items with whether they are control items, place by place: where one kind has run out the other goes on.

    >>> _interleave([1, 2], [7], [False, True, True, False])
    [(1, False), (7, True), (2, False)]
    """
    of = {True: iter(drawn), False: iter(first)}
    out: list[tuple[int, bool]] = []
    for control in places:
        found = ((item, kind) for kind in (control, not control) for item in of[kind])
        out.extend(islice(found, 1))
    return out


def control_places(count: int, share: float, rng: np.random.Generator) -> list[bool]:
    """Which places belong to the control arm: each equally likely, and one in every stretch of 1 / share places.

    >>> sum(control_places(100, 0.1, np.random.default_rng(0)))
    10
    """
    if not share:
        return [False] * count
    starts = (np.arange(int(count * share) + 1) + rng.random(int(count * share) + 1)) / share
    places = np.zeros(count, bool)
    places[starts[starts < count].astype(int)] = True
    return places.tolist()  # type: ignore[no-any-return]


def _reasons(
    first: list[int], picks: Any, evidence: dict[str, Any], ids: Any, whole: bool
) -> dict[int, dict[str, Any]]:
    """Why each of the first places: its parts, as shares of the pool below it, and the nearest class means."""
    from scipy.stats import rankdata

    reasons: dict[int, dict[str, Any]] = {item: {} for item in first}
    for name, values in ({} if picks is None else picks.parts).items():
        below = (rankdata(values, "min") - 1) / max(len(values) - 1, 1)
        for at, item in enumerate(picks.ids.tolist()):
            if item in reasons:
                reasons[item][name] = float(f"{values[at]:.4g}")
                if whole:
                    reasons[item][f"{name}_rank"] = round(float(below[at]), 4)
    features, labelled = to_numpy(evidence["features"]), to_numpy(evidence["labelled_features"])
    labels = to_numpy(evidence["labels"])
    centre = features.mean(axis=0)
    present = np.unique(labels)
    means = np.stack([labelled[labels == label].mean(axis=0) for label in present]) - centre
    places = {item: at for at, item in enumerate(ids.tolist())}
    rows = features[[places[item] for item in first]] - centre
    cosines = _unit(rows) @ _unit(means).T
    for item, row in zip(first, cosines, strict=True):
        nearest = np.argsort(-row)[:4]
        reasons[item]["near"] = [[int(present[at]), round(float(row[at]), 3)] for at in nearest]
    return reasons


def _redundancy(model: Any, ranked: Sequence[Ranked]) -> float | None:
    """How alike the items are that the strategy puts first, up to the next training."""
    batch = np.array([place.item_id for place in ranked if place.arm == "strategy"], np.int64)
    return redundancy(model.evidence()["features"], np.asarray(model.watched), batch) if len(batch) > 1 else None


def _unit(rows: Any) -> Any:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def _decided(conn: Connection, since: int) -> dict[str, Any]:
    """Items whose verdict changed after an event: their names, their labels (or REFUSED), and who answered."""
    state, item, vote, person = schema.state, schema.item, schema.vote, schema.person
    rows = conn.execute(
        select(state, item.c.name)
        .join(item, item.c.id == state.c.item_id)
        .where(state.c.seq > since)
        .order_by(state.c.seq)
    ).all()
    people: dict[int, list[str]] = {}
    for start in range(0, len(rows), 500):
        part = [row.item_id for row in rows[start : start + 500]]
        said = select(vote.c.item_id, person.c.name).join(person, person.c.id == vote.c.person_id)
        for row in conn.execute(said.where(vote.c.item_id.in_(part)).order_by(vote.c.seq)):
            people.setdefault(row.item_id, []).append(row.name)
    return {
        "ids": [row.name for row in rows],
        "labels": [row.answer if row.status == "labelled" else REFUSED for row in rows],
        "by": ["+".join(dict.fromkeys(people.get(row.item_id, []))) for row in rows],
    }


def _first_items(conn: Connection) -> Sequence[Any]:
    """The items a model looks at: all, or so many of the first order."""
    item = schema.item
    rows = conn.execute(select(item).order_by(item.c.id).limit(POOL + 1)).all()
    if len(rows) <= POOL:
        return rows
    first = select(schema.ranking.c.item_id).where(schema.ranking.c.epoch == schema.BASE)
    answered = select(schema.state.c.item_id)
    wanted = select(item).where(
        item.c.id.in_(first.order_by(schema.ranking.c.rank).limit(POOL)) | item.c.id.in_(answered)
    )
    return conn.execute(wanted.order_by(item.c.id)).all()


def _plain(record: Any) -> dict[str, Any]:
    names = ("rule", "began", "epochs", "seconds", "flipping", "notes")
    last = record.history[-1] if record.history else {}
    return {**{name: getattr(record, name) for name in names}, "nc1": last.get("nc1")}


def main(path: str, server: str = "") -> None:
    """Work until the server that started this is gone; it says its own number, as it may be gone by now."""
    direct = server and os.name == "posix"  # on Windows a virtual environment's launcher may stand between the two
    parent = int(server) if direct else os.getppid()
    folder = Folder(Path(path))
    store = folder.open()
    store.start()  # what writes keeps its priority: people wait for the database while it is held
    step_back()
    Worker(folder, store).run(lambda: os.getppid() != parent)
    store.close()
