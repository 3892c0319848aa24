"""Train any torch network to the terminal phase, watch the pool on the way, give the evidence a strategy needs.

    learner = TorchLearner("resnet18", "strong")
    model = learner.fit(Job(pool, ids, labels, needs=needs_of("ncal")))
    picks = ncalr.query("ncal", 1000, ids=model.watched, **model.evidence())

A network is a name (`ncalr.learn.nets`) or a function that makes an `nn.Module`; it is trained from scratch for every
job unless `warm` is set. A pool of texts is read by its words, or by tokens where the network is one of `hf:` (see
`ncalr.learn.texts`). Several jobs are trained side by side, each on a stream of its own: a batch of 128 small
images leaves most of a large GPU idle, and four of them do not. `fit_each` takes jobs as they come, so that the others
go on while the next picks of one run are chosen.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ncalr.data.pool import Pool, positions_of
from ncalr.dynamics import Recorder
from ncalr.errors import BadInput, MissingExtra
from ncalr.learn import storage
from ncalr.learn.enhance import Enhancer
from ncalr.learn.feeds import Feed, OnDevice, Streamed, rescaled
from ncalr.learn.gather import Joined, Placed
from ncalr.learn.learner import Job, Record, Task
from ncalr.learn.losses import make_loss
from ncalr.learn.measures import Sums, read
from ncalr.learn.nets import network
from ncalr.learn.nets.external import is_external
from ncalr.learn.phase import Check, Phase
from ncalr.learn.progress import Progress, progress_for
from ncalr.learn.ranks import current
from ncalr.learn.recipes import Recipe, recipe
from ncalr.learn.slot import Build, Slot, TrainingFailed, number
from ncalr.learn.texts import TextReader, TextReaders

STEPS, AHEAD = 16, 12  # steps given to the device between two looks at the other runs, and how many times ahead of it
NAP = 0.0005  # seconds
SAVE_SECONDS = 20.0  # between two checkpoints of a training, at least
SAVE_SHARE = 0.02  # of the time that checkpoints may take, those of all trainings side by side together
FEEDS = 6  # pools that are kept ready, with the slots that read them
LARGEST_HALF = 65504.0


class TorchLearner:
    """Trains networks; see the module's text."""

    def __init__(
        self,
        net: str | Callable[[int, tuple[int, ...]], nn.Module] = "resnet18",
        recipe_: str | Recipe = "strong",
        *,
        layer: str = "",
        device: Any = None,
        precision: str = "auto",
        graphs: bool = True,
        compiled: bool = False,
        together: int = 4,
        data: str = "auto",
        workers: int = 2,
        pools: int = FEEDS,
        warm: bool = False,
        samples: str = "checkpoints",
        draws: int = 10,
        progress: bool | Progress | None = None,
        **changes: Any,
    ) -> None:
        """`changes` are values of the recipe. `layer` names the layer whose input are the features.

        precision: "bfloat16", "float32", or "auto" (bfloat16 on a GPU). graphs: one CUDA graph a training step.
        compiled: torch.compile the network first (half a minute, then a little faster). together: how many jobs
        train side by side on a GPU. data: "device" (the pool is kept there), "stream" (workers read it), or "auto".
        pools: how many are kept ready for what comes next.
        warm: start from the last model of the same seed. samples: what `sampled_probs` are, "checkpoints" of the window
        or `draws` passes with "dropout" active.
        """
        for name, value, known in (
            ("precision", precision, ("auto", "bfloat16", "float32")),
            ("data", data, ("auto", "device", "stream")),
            ("samples", samples, ("checkpoints", "dropout")),
        ):
            if value not in known:
                raise BadInput(f"{name} must be one of {', '.join(known)}, got {value!r}")
        self.net, self.recipe, self.layer = net, recipe(recipe_, **changes), layer
        try:
            self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        except (RuntimeError, TypeError):
            raise BadInput(f"there is no device {device!r}: cpu and cuda are, or name none") from None
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise BadInput("device 'cuda' was asked for and torch sees no GPU; use device='cpu'")
        cuda = self.device.type == "cuda"
        self.half = precision == "bfloat16" or (precision == "auto" and cuda)
        self.ranks = current()
        self.graphs, self.compiled = graphs and cuda and not self.ranks.together, compiled
        self.together = together if cuda and not self.ranks.together else 1  # messages of two runs would mix
        self.data, self.workers, self.pools, self.warm = data, workers, pools, warm
        self.samples, self.draws = samples, draws
        if samples == "dropout" and not self.recipe.dropout:
            raise BadInput(
                "samples='dropout' needs dropout in the network: set dropout=0.3 or so, or samples='checkpoints'"
            )
        self.progress = progress if isinstance(progress, Progress) else progress_for(progress)
        self._readers = TextReaders(net)
        self._feeds: list[tuple[Pool, Feed]] = []
        self._slots: dict[Any, list[Slot]] = {}
        self._last: dict[int, Any] = {}
        self._saving = 0.0  # seconds that the last checkpoint took

    def fit(self, job: Job) -> TorchModel:
        """Train on one job."""
        return self.fit_all([job])[0]

    def fit_all(self, jobs: Sequence[Job]) -> list[TorchModel]:
        """Train on several jobs, `together` of them side by side."""
        tasks = [job.checked() for job in jobs]
        models = dict(self._trained(iter(tasks), len(tasks)))
        return [models[at] for at in range(len(tasks))]

    def fit_each(self, jobs: Iterator[Job | None]) -> Iterator[tuple[int, TorchModel]]:
        """Train on jobs as they come, `together` of them side by side; see `ncalr.learn.learner.fit_each`."""
        return self._trained((None if job is None else job.checked() for job in jobs), 0)

    def _trained(self, tasks: Iterator[Task | None], count: int) -> Iterator[tuple[int, TorchModel]]:
        numbers = itertools.count()
        trainings = (None if task is None else self.training(task, next(numbers)) for task in tasks)
        self.progress.start(count, self.recipe.epochs)
        try:
            for at, model in side_by_side(trainings, self.together):
                self.progress.done(at)
                yield at, model
        finally:
            self.progress.stop()

    def check(self, pool: Pool, classes: int) -> None:
        """Raise what a training on this pool would raise at once: a network or a loss that cannot be made."""
        make_loss(self.recipe.loss, self.recipe.smoothing, self.recipe.mixup)
        reader = self._readers.of(pool)
        if isinstance(self.net, str) and is_external(self.net):
            return  # its weights may have to travel first
        with torch.device("meta"):
            self._maker(classes, tuple(reader(pool).shape))()

    def load(self, folder: Path | str) -> TorchModel:
        """A model that was saved, for predictions; evidence belongs to the training and is not kept."""
        tensors, facts = storage.load_model(Path(folder))
        shape = tuple(facts["shape"])
        state = {name: torch.from_numpy(value) for name, value in tensors.items()}
        record = Record(**facts["record"])
        nobody, reader = np.zeros(0, np.int64), self._readers.saved(folder)
        classes, scales = int(facts["classes"]), facts["scales"]
        return TorchModel(self, self.recipe, state, record, nobody, {}, classes, shape, scales, reader)

    # -- one training, as a generator that stops wherever it would wait for the device ---------------------------

    def training(self, task: Task, at: int = 0) -> Generator[Any, None, TorchModel]:
        """The training of one job. It yields an event of the device wherever the host has to wait for it."""
        began = time.perf_counter()
        reader = self._readers.of(task.job.pool)
        task = replace(task, job=replace(task.job, pool=reader(task.job.pool)))
        job, recipe_ = task.job, self.recipe if task.job.recipe is None else recipe(task.job.recipe)
        if job.recipe is not None:
            self.progress.lasts(at, recipe_.epochs)
        feed = self._feed(job.pool)
        slot = self._borrow(task, feed, recipe_)
        enhance = Enhancer(slot, recipe_.steepness) if job.needs & {"enhanced", "labelled_enhanced"} else None
        seed = number(job.seed, job.round)
        phase, record = Phase(recipe_), Record()
        keep = self._keep(job.needs)
        log: list[Any] = []  # logits of the labelled set at each check, where they are asked for
        recorder = Recorder(max(len(task.watch), 1), task.classes, keep) if keep and len(task.watch) else None
        before = self._last.get(job.seed) if self.warm else None
        slot.start(seed, task.positions, task.labels, task.classes, before, task.soft, recipe_)
        first, saved_at = 1, time.perf_counter()
        belongs = storage.fingerprint(task, recipe_.of_training(), str(self.net))
        store = storage.Checkpoint(job.folder, belongs, job.own)
        found = store.read()
        self.ranks.wait()  # nobody writes before everybody has read
        record.notes += task.notes
        _note_small_classes(task, record)
        if found is not None:
            first = self._restore(slot, phase, record, recorder, log, found) + 1
        marks: deque[Any] = deque()
        ahead = AHEAD if slot.raw is None else 1  # batches that are streamed lie in the host's memory until their step
        for epoch in range(first, recipe_.epochs + 1):
            slot.begin(epoch)
            for place in range(slot.steps):
                slot.step(place, epoch)
                if (slot.steps * epoch + place) % STEPS == 0:
                    marks.append(slot.mark())
                    if len(marks) > ahead:
                        yield marks.popleft()
            record.images += slot.steps * slot.build.batch
            self.progress.step(at, epoch, slot.steps * slot.build.batch)
            if phase.wants_check(epoch):
                yield from self._check(slot, task, phase, record, log, epoch)
                self.progress.check(at, job.round, record.history[-1])
            if epoch in phase.window:
                record.checkpoints.append(epoch)
                if recorder is not None:
                    yield from self._watch(slot, feed, task, recorder, not {"logits", "probs"}.isdisjoint(keep))
            record.epochs = epoch
            if epoch >= phase.last:
                break
            pause = max(SAVE_SECONDS, self._saving * self.together / SAVE_SHARE)
            if job.folder is not None and self.ranks.rank == 0 and time.perf_counter() - saved_at > pause:
                started = time.perf_counter()
                self._save(store, slot, phase, record, recorder, log, epoch)
                saved_at = time.perf_counter()
                self._saving = saved_at - started
        record.rule, record.began = phase.rule, phase.began
        if recorder is not None and recorder.checkpoints > 1:
            record.flipping = float((recorder.flips() > 0).mean())
        evidence = yield from self._evidence(slot, feed, task, recorder, enhance)
        if log:
            evidence["labelled_log"] = np.stack(log)
        state = slot.state()
        yield slot.mark()
        self._slots.setdefault(slot.key, []).append(slot)
        if self.ranks.rank == 0 and not job.own:
            store.clear()
        record.seconds += time.perf_counter() - began
        if self.warm:
            self._last[job.seed] = state
        watched = job.pool.ids[task.watch]
        shape, scales = tuple(job.pool.shape), feed.normalise.scales()
        return TorchModel(self, recipe_, state, record, watched, evidence, task.classes, shape, scales, reader)

    def _check(
        self, slot: Slot, task: Task, phase: Phase, record: Record, log: list[Any], epoch: int
    ) -> Generator[Any, None, None]:
        """The labelled set in evaluation mode: collapse measures, accuracy; may open the window."""
        features, logits = [], []
        ranks = self.ranks
        for _, (f, z) in slot.sweep(slot.feed, ranks.share(task.positions)):
            features.append(f)
            logits.append(z)
        with slot.on(), torch.no_grad(), slot.threads(len(task.positions) * features[0].shape[1] * task.classes):
            labels = slot.labels[ranks.part(len(task.positions))]
            sums = Sums(torch.cat(features), torch.cat(logits), labels, task.classes, ranks.add)
            ranks.least(slot.bad)
            weights = slot.tap.weights
            if weights is not None and weights.shape != (task.classes, features[0].shape[1]):
                weights = None  # an inner layer was named: nc3 compares the last one with the means
            tensors = (*sums.tensors(), slot.bad, *(() if weights is None else (weights.detach().float(),)))
            arrived = tuple(_to_host(t) for t in tensors)
            said = None
            if "labelled_log" in task.job.needs:
                said = _to_host(ranks.join(_halved(torch.cat(logits)), len(task.positions)))
        yield slot.mark()
        slot.check_loss(int(arrived[5]), epoch)
        collapse, accuracy, record.separation = read(arrived[:5], arrived[6] if weights is not None else None)
        if not np.isfinite(collapse.nc4):
            raise TrainingFailed(f"features are not finite after epoch {epoch}; try a lower rate")
        phase.add(Check(epoch, accuracy, collapse.nc1_quotient, 1 - collapse.nc4, len(task.positions)))
        facts = {name: value for name, value in asdict(collapse).items() if name not in ("items", "classes")}
        record.history.append({"epoch": epoch, "accuracy": accuracy, **facts})
        if said is not None:
            log.append(said.numpy())

    def _watch(
        self, slot: Slot, feed: Any, task: Task, recorder: Recorder, with_logits: bool
    ) -> Generator[Any, None, None]:
        """One checkpoint of the pool."""
        parts = []
        for place, (_, logits) in slot.sweep(feed, self.ranks.share(task.watch)):
            with slot.on():
                part = logits if with_logits else _small(logits.argmax(1), task.classes)
                if self._waits(feed):
                    recorder.add(place, part.cpu().numpy())
                else:
                    parts.append(part if self.ranks.size > 1 else _to_host(part))
        if self.ranks.size > 1:
            with slot.on():
                parts = [_to_host(self.ranks.join(torch.cat(parts), len(task.watch)))]
        yield slot.mark()
        if parts:
            recorder.add(slice(None), torch.cat(parts).numpy())
        recorder.close()

    def _evidence(
        self, slot: Slot, feed: Any, task: Task, recorder: Recorder | None, enhance: Enhancer | None
    ) -> Generator[Any, None, dict[str, Any]]:
        """What the job's needs name, in one sweep over the watched items and one over the labelled ones."""
        needs, found = task.job.needs, {}
        draws = self.draws if "sampled_probs" in needs and self.samples == "dropout" else 0
        for prefix, positions in (("", task.watch), ("labelled_", task.positions)):
            wanted = {name for name in ("features", "logits", "probs", "enhanced") if prefix + name in needs}
            if prefix == "" and draws:
                wanted.add("samples")
            if not wanted or not len(positions):
                continue
            gathered = Placed(len(positions)) if self._waits(feed) else Joined(len(positions), self.ranks)
            forward = _forward(slot, wanted, enhance, draws)
            for place, result in slot.sweep(feed, self.ranks.share(positions), forward):
                with slot.on():
                    gathered.add(place, {name: result[name] for name in wanted})
            with slot.on():
                for name, array in gathered.whole().items():
                    found["sampled_probs" if name == "samples" else prefix + name] = array
            yield slot.mark()
        if recorder is not None and "checkpoint_predictions" in needs:
            found["checkpoint_predictions"] = recorder.checkpoint_predictions()
        if recorder is not None and "sampled_probs" in needs and not draws:
            found["sampled_probs"] = recorder.sampled_probs()
        if recorder is not None and "mean_probs" in needs:
            found["mean_probs"] = recorder.mean_probs()
        if "labels" in needs:
            found["labels"] = task.labels
        return found

    # -- resources -------------------------------------------------------------------------------------------------

    def _keep(self, needs: frozenset[str]) -> tuple[str, ...]:
        """What the recorder has to keep of the checkpoints."""
        kept = {
            "probs": "mean_probs" in needs,
            "logits": "sampled_probs" in needs and self.samples == "checkpoints",
            "predictions": "checkpoint_predictions" in needs,
        }
        return tuple(name for name, wanted in kept.items() if wanted)

    def _waits(self, feed: Feed) -> bool:
        """Whether each chunk of a sweep goes to the host before the next: one of a pool that may not fit the device."""
        return bool(feed.streamed) and self.ranks.size == 1

    def _feed(self, pool: Pool) -> Feed:
        """The pool on the device, or a stream from it; kept for the next job on the same pool, the last few of them."""
        for at, (known, feed) in enumerate(self._feeds):
            if known is pool:
                self._feeds.append(self._feeds.pop(at))
                return feed
        size = len(pool) * int(np.prod(pool.shape)) * pool.dtype.itemsize
        fits = self.device.type == "cpu" or size < 0.4 * torch.cuda.mem_get_info(self.device)[0]
        if self.data == "device" and not fits:
            raise BadInput(f"the pool has {size / 1e9:.1f} GB, more than fits {self.device}; use data='stream'")
        made = OnDevice(pool, self.device) if self.data == "device" or (self.data == "auto" and fits) else None
        feed = made or Streamed(pool, self.device, self.workers)
        self._feeds.append((pool, feed))
        while len(self._feeds) > self.pools:
            _, left = self._feeds.pop(0)
            self._slots = {key: slots for key, slots in self._slots.items() if key[-1] != id(left)}
        return feed

    def _borrow(self, task: Task, feed: Any, recipe_: Recipe) -> Slot:
        """A slot for this job: one that is free, or a new one."""
        shape, batch = tuple(task.job.pool.shape), min(recipe_.batch, max(len(task.positions), 2))
        key = (task.classes, shape, recipe_.of_step(), batch, id(feed))
        free = self._slots.setdefault(key, [])
        slot = free.pop() if free else self._new_slot(task.classes, shape, batch, feed, recipe_)
        slot.key = key
        return slot

    def _new_slot(
        self, classes: int, shape: tuple[int, ...], batch: int, feed: Any, recipe_: Recipe | None = None
    ) -> Slot:
        how = (self.layer, self.half, self.graphs, self.compiled)
        return Slot(Build(self._maker(classes, shape), recipe_ or self.recipe, self.device, batch, *how), feed)

    def _maker(self, classes: int, shape: tuple[int, ...]) -> Callable[[], nn.Module]:
        net = self.net
        if isinstance(net, str):
            return lambda: network(net, classes, shape)
        return lambda: net(classes, shape)

    # -- a killed training goes on ------------------------------------------------------------------------------------

    def _save(
        self,
        store: Any,
        slot: Slot,
        phase: Phase,
        record: Record,
        recorder: Recorder | None,
        log: list[Any],
        epoch: int,
    ) -> None:
        tensors = {f"net.{name}": value for name, value in slot.state().items()}
        tensors |= {f"loss.{name}": value for name, value in slot.loss.state(len(slot.labels)).items()}
        tensors |= {f"momentum.{place}": value for place, value in enumerate(slot.momenta())}
        if slot.cuda:
            slot.stream.synchronize()
        arrays = {name: value.cpu().numpy() for name, value in tensors.items()}
        if recorder is not None:
            arrays |= {f"recorder.{name}": value for name, value in recorder.state().items()}
        if log:
            arrays["labelled_log"] = np.stack(log)
        facts = {
            "epoch": epoch,
            "record": record.as_dict(),
            "phase": {
                "checks": [asdict(check) for check in phase.checks],
                "rule": phase.rule,
                "began": phase.began,
                "window": list(phase.window),
            },
        }
        try:
            store.write(arrays, facts)
        except (OSError, MissingExtra):  # a full disk
            if not store.own:
                raise

    def _restore(
        self, slot: Slot, phase: Phase, record: Record, recorder: Recorder | None, log: list[Any], found: Any
    ) -> int:
        arrays, facts = found

        def part(prefix: str) -> dict[str, Any]:
            return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}

        with slot.on():
            slot.load({name: torch.from_numpy(value).to(slot.build.device) for name, value in part("net.").items()})
            with torch.no_grad():
                for place, momentum in enumerate(slot.momenta()):
                    momentum.copy_(torch.from_numpy(arrays[f"momentum.{place}"]))
                slot.loss.restore({name: torch.from_numpy(value) for name, value in part("loss.").items()})
        if recorder is not None:
            recorder.restore(part("recorder."))
        log.extend(arrays.get("labelled_log", ()))
        phase.checks = [Check(**check) for check in facts["phase"]["checks"]]
        phase.rule, phase.began = facts["phase"]["rule"], facts["phase"]["began"]
        phase.window = tuple(facts["phase"]["window"])
        for name, value in facts["record"].items():
            setattr(record, name, value)
        record.notes.append(f"went on after epoch {facts['epoch']}")
        return int(facts["epoch"])


def side_by_side(trainings: Iterator[Generator[Any, None, Any] | None], together: int) -> Iterator[tuple[int, Any]]:
    """Run trainings side by side, `together` at a time; yield the number and the result of each as it ends.

    The next training is asked for as soon as there is room. None means that there is none yet: it is asked again after
    the next result.
    """
    active: deque[tuple[int, Generator[Any, None, Any], Any]] = deque()
    begun = blocked = 0
    more = True
    while True:
        while more and len(active) < together:
            training = next(trainings, None)
            more = training is not None
            if training is not None:
                active.append((begun, training, None))
                begun += 1
        if not active:
            return
        at, training, event = active.popleft()
        if event is not None and not event.query():
            active.append((at, training, event))
            blocked += 1
            if blocked == len(active):  # every run waits for the device: so does the host, until any of them can go on
                time.sleep(NAP)
                blocked = 0
            continue
        blocked = 0
        try:
            active.append((at, training, next(training)))
        except StopIteration as end:
            yield at, end.value
            more = True


class TorchModel:
    """A trained network: its record, its evidence, predictions."""

    def __init__(
        self,
        learner: TorchLearner,
        recipe_: Recipe,
        state: dict[str, Any],
        record: Record,
        watched: Any,
        evidence: dict[str, Any],
        classes: int,
        shape: tuple[int, ...],
        scales: dict[str, Any],
        reader: TextReader,
    ) -> None:
        self.learner, self.recipe, self.state, self.record, self.watched = learner, recipe_, state, record, watched
        self.classes, self.shape, self.scales, self.reader = classes, shape, scales, reader
        self._evidence = evidence

    def evidence(self) -> dict[str, Any]:
        """What the job's needs named; large arrays are tensors, on the device unless the pool is streamed.

        `ncalr.query` computes where they are.
        """
        return dict(self._evidence)

    def predict(self, pool: Pool, ids: Any = None) -> Any:
        """Logits (n, c) of items of a pool, as a NumPy array."""
        return self.outputs(pool, ids)[1]

    def outputs(self, pool: Pool, ids: Any = None) -> tuple[Any, Any]:
        """Features (n, d) and logits (n, c) of items of a pool, as NumPy arrays."""
        pool = self.reader(pool)
        if tuple(pool.shape) != self.shape:
            raise BadInput(f"the model was trained on items of shape {self.shape}, this pool has {tuple(pool.shape)}")
        positions = np.arange(len(pool)) if ids is None else positions_of(pool, ids)
        feed = rescaled(self.learner._feed(pool), self.scales)
        slot = self._slot(feed)
        features, logits = [], []
        for _, (f, z) in slot.sweep(feed, positions):
            with slot.on():
                features.append(_to_host(f))
                logits.append(_to_host(z))
        if slot.cuda:
            slot.stream.synchronize()
        return torch.cat(features).numpy(), torch.cat(logits).numpy()

    def head(self, pool: Pool) -> tuple[Any, Any] | None:
        """Weights (c, d) and bias (c,) of the last layer, where features and logits are tied by a linear one.

        The pool is any whose items have the model's shape: the network is set up for it.
        """
        slot = self._slot(rescaled(self.learner._feed(self.reader(pool)), self.scales))
        weights = slot.tap.weights
        if weights is None or len(weights) != self.classes:
            return None
        bias = slot.tap.layer.bias
        shift = np.zeros(self.classes, np.float32) if bias is None else bias.detach().float().cpu().numpy()
        return weights.detach().float().cpu().numpy(), shift

    def _slot(self, feed: Feed) -> Slot:
        """A network for predictions, with this model's weights in it; shared by all models of the learner."""
        learner = self.learner
        slots = learner._slots.setdefault(("predict", self.classes, self.shape), [])
        if not slots:
            maker = learner._maker(self.classes, self.shape)
            slots.append(Slot(Build(maker, learner.recipe, learner.device, 2, learner.layer, learner.half), feed))
        with slots[0].on():
            slots[0].load(self.state)
        return slots[0]

    def save(self, folder: Path | str) -> None:
        """Write model.safetensors and model.json."""
        arrays = {name: value.cpu().numpy() for name, value in self.state.items()}
        facts = {
            "network": str(self.learner.net),
            "recipe": asdict(self.recipe),
            "classes": self.classes,
            "shape": list(self.shape),
            "scales": self.scales,
            "record": self.record.as_dict(),
        }
        storage.save_model(Path(folder), arrays, facts)
        self.reader.save(folder)


def _forward(slot: Slot, wanted: set[str], enhance: Enhancer | None, draws: int) -> Callable[[Any], dict[str, Any]]:
    """All that is wanted of a chunk, from as few passes of the network as that takes."""

    def forward(x: Any) -> dict[str, Any]:
        features, logits = slot.look(x)
        result = {"features": features, "logits": logits}
        if "probs" in wanted:
            result["probs"] = logits.softmax(1)
        if "samples" in wanted:
            result["samples"] = slot.sample(x, draws)
        if "enhanced" in wanted and enhance is not None:
            result["enhanced"] = enhance(x)
        return result

    return forward


def _to_host(tensor: Any) -> Any:
    """On its way to the host; there once the stream has come so far."""
    if tensor.device.type == "cpu":
        return tensor
    room = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return room.copy_(tensor, non_blocking=True)


def _halved(logits: Any) -> Any:
    """Logits in half precision, which knows no number beyond 65,504."""
    return logits.float().clamp(-LARGEST_HALF, LARGEST_HALF).half()


def _small(predictions: Any, classes: int) -> Any:
    return predictions.to(torch.uint8 if classes <= 256 else torch.int32)


def _note_small_classes(task: Task, record: Record) -> None:
    counts = np.bincount(task.labels, minlength=task.classes)
    if (counts == 0).any():
        record.notes.append(f"{int((counts == 0).sum())} of {task.classes} classes have no label yet")
    if (counts == 1).any():
        few = f"{int((counts == 1).sum())} of {task.classes} classes have a single label"
        record.notes.append(f"{few}: it is its own mean, so that the collapse (nc1, cdnv) looks further than it is")
