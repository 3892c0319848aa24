"""Studies in slices of GPU time, each going on where the last stopped: train, note what was spent, keep journals."""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import time
import uuid
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ncalr.data.dataset import Dataset, load
from ncalr.data.files import write_whole
from ncalr.data.fingerprint import fingerprint
from ncalr.errors import BadInput
from ncalr.evaluate.subjects import Place, job_of, keep_again
from ncalr.lab.claims import claim_experiment
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Part, Run, conduct_together, read_runs
from ncalr.lab.session import settings_of
from ncalr.learn.learner import Job, fit_each
from ncalr.learn.phase import Phase
from ncalr.learn.recipes import recipe
from ncalr.loop.journal import Journal

Group = Mapping[str, Experiment]
"""Experiments by name."""
Line = dict[str, Any]
SLICES = "slices.jsonl"
"""Where a folder has what its slices took."""


def train(
    experiments: Group,
    data: Path,
    out: Path,
    minutes: float,
    together: int,
    seeds: Collection[int] | None = None,
    lost: Mapping[str, Sequence[Place]] | None = None,
    strategies: Mapping[str, Collection[str]] | None = None,
) -> None:
    """As many trainings as fit into the slice, in the order of the experiments; DIR/slices.jsonl says what each took.

    It says so after every training, so that a slice that is cut keeps what it has spent. Those with the same network
    are one queue, whatever their data and recipes: when one experiment has no more trainings to begin, the next one's
    fill the card. Models of theirs that are `lost` are trained again where nothing else is left to begin, and lie where
    they lay. Where `strategies` names some of an experiment, those alone.
    """
    from ncalr.learn import TorchLearner, torch_learner

    torch_learner.SAVE_SECONDS = math.inf  # a slice that is cut goes on from its journals, and its seconds are counted
    clock = Clock(minutes)
    lost, some = lost or {}, {name: (strategies or {}).get(name, ()) for name in experiments}
    open_ = {
        name: one
        for name, one in experiments.items()
        if lost.get(name) or not _finished(out / name, seeds, some[name] or one.strategies)
    }
    datasets = {text: _found(text, data) for text in dict.fromkeys(one.dataset for one in open_.values())}
    for network in dict.fromkeys(one.network for one in open_.values()):
        parts = {}
        for name, one in open_.items():
            dataset = datasets[one.dataset]
            if one.network == network and dataset is not None and _fits(one, dataset, out / name):
                settings, classes = settings_of(one, dataset, data), len(dataset.classes)
                parts[name] = Part(one, settings, classes, out / name, one.recipe, some[name])
        learner = TorchLearner(network, together=together, progress=False)
        bill = Bill(out, parts, learner.together)

        def watch(run: Run, bill: Bill = bill) -> None:
            clock.watch(run)
            bill.watch(run)
            say(run)

        again = [
            Lost(name, *place, replace(job_of(*place, datasets[part.experiment.dataset]), recipe=part.recipe))
            for name, part in parts.items()
            for place in lost.get(name, ())
        ]
        both = LostLast(learner, again, clock, bill)
        runs = conduct_together([*parts.values()], both, watch, clock.too_late, seeds)
        if any(one.job is not None for one in runs):
            print("the slice is over", flush=True)
            return


def _found(text: str, data: Path) -> Dataset | None:
    try:
        return load(text, data)
    except BadInput as error:
        print(f"left out: {error}", flush=True)
        return None


def _fits(one: Experiment, dataset: Dataset, folder: Path) -> bool:
    """Whether these are the data that the folder was begun with: they are put together anew for each slice."""
    try:
        claim_experiment(folder, one.as_dict(), fingerprint(dataset))
    except BadInput as error:
        print(f"left out: {error}", flush=True)
        return False
    return True


class Clock:
    """Whether another training would not end inside the slice, by what the last ones took for an image."""

    def __init__(self, minutes: float) -> None:
        self.deadline = time.perf_counter() + 60 * minutes
        self.paces: deque[float] = deque(maxlen=6)

    def watch(self, run: Run) -> None:
        """Hear of a training."""
        last = run.lines[-1] if run.lines else {}
        if "seconds" in last:
            self.took(last["seconds"]["train"], last["labelled"] * epochs_of(run.recipe or "strong", last))

    def took(self, seconds: float, images: int) -> None:
        """Hear what a training took."""
        self.paces.append(seconds / images)

    def too_late(self, job: Job) -> bool:
        """Whether this one, a tenth slower than the slowest of the last, would come too late."""
        return self.after(1.1 * max(self.paces, default=0.0) * len(job.ids) * longest(job.recipe or "strong"))

    def after(self, seconds: float) -> bool:
        """Whether the slice is over in so many seconds."""
        return time.perf_counter() + seconds > self.deadline


class Lost(NamedTuple):
    """A model that is to be trained again."""

    experiment: str
    run: Run
    round: int
    job: Job


class LostLast:
    """A learner that trains models that are lost, side by side with what it is asked for, where that leaves room."""

    def __init__(self, learner: Any, lost: Sequence[Lost], clock: Clock, bill: Bill) -> None:
        self.learner, self.lost, self.clock, self.bill = learner, lost, clock, bill

    def fit_each(self, jobs: Iterator[Job | None]) -> Iterator[tuple[int, Any]]:
        """Train on jobs as they come; only who gave them hears of their models."""
        left, asked = deque(self.lost), itertools.count()
        begun: list[Lost | int] = []  # what is lost, or the number of a job that was asked for

        def both() -> Iterator[Job | None]:
            for job in jobs:
                if job is not None:
                    begun.append(next(asked))
                    yield job
                    continue
                while left and self.clock.too_late(left[0].job):
                    left.popleft()
                if not left:
                    yield None
                    continue
                begun.append(one := left.popleft())
                with one.run.journal.threads():
                    yield one.job

        for at, model in fit_each(self.learner, both()):
            what = begun[at]
            if isinstance(what, Lost):
                self._keep(what, model)
            else:
                yield what, model

    def _keep(self, one: Lost, model: Any) -> None:
        keep_again(model, one.run, one.round)
        seen = epochs_of(one.job.recipe, {"began": model.record.began}) * len(one.job.ids)
        self.clock.took(model.record.seconds, seen)
        self.bill.add(f"{one.experiment} again", 1, seen)
        print(f"{one.experiment:<24}{one.run.strategy:<26}{one.run.seed}{len(one.job.ids):>8,}   again", flush=True)


def trainings(out: Path, names: Collection[str]) -> int:
    """How many there are so far."""
    runs = [run for name in names if (out / name / "experiment.json").exists() for run in read_runs(out / name)]
    return sum(len(run.accuracies) for run in runs)


def longest(text: str) -> int:
    """The epochs of a training by this recipe, at most."""
    return Phase(recipe(text)).longest


def epochs_of(text: str, line: Mapping[str, Any]) -> int:
    """The epochs that the training of this line of a journal had."""
    how = recipe(text)
    return int(line["began"]) + how.checkpoints - 1 if how.stop else how.epochs


class Bill:
    """What a slice has spent so far: a line of slices.jsonl for each experiment, written again after every training."""

    def __init__(self, out: Path, parts: Mapping[str, Part], together: int) -> None:
        self.out, self.parts, self.began = out, parts, time.perf_counter()
        self.how = {"together": together, "slice": uuid.uuid4().hex[:12]}
        self.trainings, self.images = Counter(dict.fromkeys(parts, 0)), Counter[str]()
        self.known: dict[Path, int] = {}  # trainings of each run that were seen here
        self.shared: set[Any] = set()  # first trainings

    def watch(self, run: Run) -> None:
        """Hear of a run: for the first time before anything is trained, then after each of its trainings."""
        trained = [line for line in run.lines if "accuracy" in line]
        before = self.known.setdefault(run.journal.path, len(trained))
        self.known[run.journal.path] = len(trained)
        if len(trained) > before:
            name = [*self.parts][run.part]
            images = self._images(self.parts[name].experiment, run, trained[before:])
            self.add(name, len(trained) - before, images)

    def add(self, title: str, trainings: int, images: int) -> None:
        """Put something on the bill."""
        self.trainings[title] += trainings
        self.images[title] += images
        self.write()

    def write(self) -> None:
        """Its lines, in the place of those that it wrote before; seconds are shared out by images."""
        each = (time.perf_counter() - self.began) / max(self.images.total(), 1)
        note(
            self.out,
            *(
                spent(title, done, each * self.images[title], self.how, self.images[title])
                for title, done in self.trainings.items()
                if done
            ),
        )

    def _images(self, one: Experiment, run: Run, trained: Sequence[Line]) -> int:
        """Those of new trainings; a first one that runs of a seed share is the first one's."""
        found = 0
        for line in trained:
            key = (one.dataset, one.noise, one.recipe, run.seed, line["labelled"]) if line["round"] == 1 else None
            found += 0 if key in self.shared else epochs_of(one.recipe, line) * line["labelled"]
            self.shared |= {key} - {None}
        return found


def spent(title: str, done: int, seconds: float, how: Mapping[str, Any], seen: int = 0) -> Line:
    """What a piece of work took, as a line of slices.jsonl."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    what = {"experiment": title, "trainings": done, "seconds": round(seconds, 1)}
    return {**what, **({"images": seen} if seen else {}), **how, "gpu": gpu}


def note(out: Path, *lines: Line) -> None:
    """Write down what was spent, in the place of what the same slice has noted of the same work before."""
    if not lines:
        return
    with _alone(out):
        path = out / SLICES
        known = path.read_text() if path.exists() else ""
        write_whole(path, merged(known, "".join(json.dumps(line) + "\n" for line in lines)))


def merged(known: str, new: str) -> str:
    """Lines of slices.jsonl and later ones; what a slice has noted again takes the place of what it noted before."""
    found: dict[Any, str] = {}
    for text in (*known.splitlines(), *new.splitlines()):
        line = json.loads(text)
        found[(line["slice"], line["experiment"]) if "slice" in line else text] = text
    return "".join(text + "\n" for text in found.values())


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Nobody else is inside meanwhile: another process may note what it has spent on other seeds."""
    place = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def status(out: Path, plan: Group) -> None:
    """How far each experiment is."""
    for name, experiment in plan.items():
        wanted = len(experiment.strategies) * experiment.seeds * len(experiment.budgets)
        print(f"{name:<24}{trainings(out, [name]):>6} of {wanted} trainings")


def keep(out: Path, target: Path) -> None:
    """Copy every JSON file below `out`, without models and checkpoints, scores of single picks and a kernel's name.

    Posteriors that were learnt go too, where a run has ended: they are most of its journal, and nothing needs them.
    """
    for source in sorted((*out.rglob("*.json"), *out.rglob("*.jsonl"))):
        if {"models", "training"} & set(source.relative_to(out).parts):
            continue
        place = target / source.relative_to(out)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        if source.name == "journal.jsonl":
            lines = [_compact(line) for line in Journal(source.parent).lines()]  # a copy may have a torn last one
            if lines and lines[-1].get("stop"):
                for line in lines:
                    line.get("consensus", {}).pop("soft", None)
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        elif source.name == SLICES and place.exists():  # one that did not begin from a copy of it, or has grown
            text = merged(place.read_text(), text)
        elif source.name == "environment.json":
            facts = _without_system(json.loads(text))
            if "later" in facts:
                facts["later"] = [_without_system(one) for one in facts["later"]]
            text = json.dumps(facts, indent=1) + "\n"
        place.write_text(text)


def _without_system(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if name != "system"}


def _compact(line: dict[str, Any]) -> dict[str, Any]:
    line = {name: value for name, value in line.items() if name not in ("scores", "parts")}
    by = line.get("by")
    if isinstance(by, list) and len(set(by)) == 1:
        line["by"] = by[0]
    return line


def _finished(folder: Path, seeds: Collection[int] | None, strategies: Collection[str]) -> bool:
    runs = read_runs(folder) if (folder / "experiment.json").exists() else []
    asked = [run for run in runs if run.strategy in strategies and (seeds is None or run.seed in seeds)]
    return bool(asked) and all(run.ended for run in asked)


def say(one: Run) -> None:
    """A line about the last training of a run."""
    if one.accuracies:
        labels, accuracy = one.accuracies[-1]
        name = one.journal.folder.parents[1].name
        print(f"{name:<24}{one.strategy:<26}{one.seed}{labels:>8,}{100 * accuracy:>8.2f}", flush=True)
