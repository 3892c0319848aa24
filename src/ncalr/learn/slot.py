"""One network with everything a training step touches, at fixed addresses.

A step is: gather the batch by its positions, move and mirror, forward, loss, backward, optimiser. Which batch, which
learning rate and how far the images move stand in tables on the device, filled once an epoch, and the step reads its
own place in them from a counter there; so a step needs nothing from the host, and on a GPU all of it is one CUDA graph
that is captured once and replayed for epoch after epoch and job after job. The host never waits inside an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ncalr.errors import BadInput, NcalrError
from ncalr.kernels import triton_module
from ncalr.learn.feeds import Feed, cut
from ncalr.learn.halves import Halves
from ncalr.learn.losses import make_loss
from ncalr.learn.nets.fold import Folding
from ncalr.learn.one_pass import OnePass
from ncalr.learn.ranks import current
from ncalr.learn.recipes import Recipe
from ncalr.learn.tap import Tap

NEVER = 2**62
SMALLEST_CHUNK = 8
# room in the tables, from the first job on, in steps of an epoch and of a training: capturing anew stops all other runs
ROWS, RATES = 256, 2**16
LIGHT = 2e8  # floating-point operations that are some milliseconds of one core


class TrainingFailed(NcalrError):
    """A training that cannot go on: where it stopped and what to try."""


@dataclass(frozen=True)
class Build:
    """What a slot is made for: two jobs of the same build can use the same slot one after the other.

    Of the recipe, what a step is made with counts (`Recipe.of_step`); the rest is the job's own.
    """

    make: Callable[[], nn.Module]
    recipe: Recipe
    device: torch.device
    batch: int
    layer: str = ""
    half: bool = False  # bfloat16 where torch's autocast finds it safe
    graphs: bool = False
    compiled: bool = False


class Slot:
    """A network, its optimiser, its tables and, on a GPU, its stream and its graph."""

    def __init__(self, build: Build, feed: Feed) -> None:
        self.build, self.feed, self.recipe = build, feed, build.recipe
        self.ranks = current()
        if self.ranks.size > 1 and build.recipe.mixup:
            raise BadInput("mixup pairs the items of a batch and does not go over several processes; set mixup=0")
        self.loss = make_loss(build.recipe.loss, build.recipe.smoothing, build.recipe.mixup)
        if self.ranks.size > 1 and self.loss.remembers:
            raise BadInput(
                f"the loss {build.recipe.loss} remembers what it saw of each item, and each of several processes sees "
                "another part; take cross_entropy or gce"
            )
        device = build.device
        self.cuda = device.type == "cuda"
        self.kernels = triton_module("step") if self.cuda and not self.ranks.together else None
        self.stream: Any = torch.cuda.Stream(device) if self.cuda else None
        self.net = self._fresh(0)
        for module in self.dropouts():
            module.p = build.recipe.dropout or module.p
        self.tap = Tap(self.net, build.layer)
        self.model = torch.compile(self.net) if build.compiled else self.net
        self.halves = Halves(self.net.modules() if build.half and not build.compiled else ())  # compilers fuse casts
        self.copies: list[Any] | None = None  # of the weights, where the recorded step keeps them up to date itself
        self.last: OnePass | None = None
        self.folding = Folding(self.net.modules() if not build.compiled else ())
        self.dtype = torch.bfloat16 if build.half else torch.float32
        self.vectors = not self.cuda and len(feed.pool.shape) == 1 and feed.pool.dtype.kind == "f"
        self.size = sum(p.numel() for p in self.net.parameters())  # each is used once an item, where items are vectors
        self.chunk = 2048 if self.cuda or self.vectors else 256
        recipe = build.recipe
        self.rate: Any = torch.tensor(recipe.rate, device=device) if self.cuda else recipe.rate
        self.rates: Any = None
        self.optimiser = torch.optim.SGD(
            [p for p in self.net.parameters() if p.requires_grad],
            lr=self.rate,
            momentum=recipe.momentum,
            nesterov=recipe.nesterov and recipe.momentum > 0,
            weight_decay=recipe.decay,
            fused=self.cuda,
            foreach=not self.cuda,
        )
        self.generator = torch.Generator(device)
        self.row = torch.zeros(1, dtype=torch.int64, device=device)
        self.done = torch.zeros(1, dtype=torch.int64, device=device)
        self.bad = torch.full((1,), NEVER, dtype=torch.int64, device=device)
        self.graph: Any = None
        self.key: Any = None
        self.seed = self.steps = 0
        self.raw: Any = None
        if feed.streamed:
            shape = (build.batch, *feed.pool.shape)
            kind = next(iter(feed.read([np.zeros(1, np.intp)]))).dtype
            self.raw = torch.zeros(shape, dtype=kind, device=device)
            self.reader = feed.again()  # an epoch is read while other runs sweep over the pool
        self._tables(1)

    # -- a job ------------------------------------------------------------------------------------------------

    def start(
        self,
        seed: int,
        positions: Any,
        labels: Any,
        classes: int,
        state: Any = None,
        soft: Any = None,
        recipe: Recipe | None = None,
    ) -> None:
        """Make ready for a job: fresh weights (or a state to start from), an optimiser at rest, tables large enough."""
        device, batch = self.build.device, self.build.batch
        recipe = recipe or self.build.recipe
        self.recipe, self.steps = recipe, math.ceil(len(positions) / batch)
        total = self.steps * recipe.epochs
        if self.steps > len(self.order) or (self.cuda and total > len(self.rates)):
            self._tables(max(self.steps, 2 * len(self.order), ROWS))
        self.seed = seed
        self.positions = torch.as_tensor(positions, device=device)
        self.labels = torch.as_tensor(labels, device=device)
        with self.on():
            self.who.zero_()  # a graph is captured by running it, and the last job may have had more items
            if self.loss.start(self.labels, classes, soft):
                self.graph = None
        if self.build.graphs and self.graph is None:
            self._capture()
            with self.on():
                self.loss.start(self.labels, classes, soft)
        self.weights: Any = None
        if recipe.balanced:
            with self.on():
                self.weights = 1.0 / torch.bincount(self.labels, minlength=classes)[self.labels]
        rates = [recipe.rate_at(step / total) for step in range(total)]
        with self.on():
            self.load(self._fresh(seed).state_dict() if state is None else state)
            self.rest()
            if self.cuda:
                self.rates[:total] = torch.tensor(rates, device=device)
            else:
                self.rates = rates
            self.row.zero_()
            self.done.zero_()
            self.bad.fill_(NEVER)

    def begin(self, epoch: int) -> None:
        """Draw the batches of an epoch (1, 2, ...). They depend on the seed and the epoch alone."""
        batch, crop = self.build.batch, self.recipe.crop
        m, room = len(self.positions), self.steps * self.build.batch
        device, generator = self.build.device, self.generator
        generator.manual_seed(number(self.seed, epoch))
        with self.on():
            if self.weights is not None:
                chosen = torch.multinomial(self.weights, room, replacement=True, generator=generator)
            else:
                draws = [torch.randperm(m, generator=generator, device=device) for _ in range(math.ceil(room / m))]
                chosen = torch.cat(draws)[:room]
            self.order[: self.steps] = self.positions[chosen].view(self.steps, batch)
            self.target[: self.steps] = self.labels[chosen].view(self.steps, batch)
            self.who[: self.steps] = chosen.view(self.steps, batch)
            self.loss.begin(self.labels, (epoch - 1) / self.recipe.epochs)
            if self.moves:
                spots = torch.randint(-crop, crop + 1, (self.steps, batch, 2), generator=generator, device=device)
                self.shift[: self.steps] = spots
                flips = torch.rand((self.steps, batch), generator=generator, device=device) < 0.5
                self.mirror[: self.steps] = flips & self.recipe.flip
            self.row.zero_()
            self.done.fill_((epoch - 1) * self.steps)
        if self.recipe.mixup:
            drawn = np.random.default_rng(number(self.seed, epoch, 1)).beta(
                self.recipe.mixup, self.recipe.mixup, self.steps
            )
            with self.on():
                self.lam[: self.steps] = torch.tensor(drawn, dtype=torch.float32, device=device)
        if self.raw is not None:
            with self.on():  # behind the steps that were queued
                rows = self.order[: self.steps].cpu().numpy()
            self.incoming = self.reader.read(list(rows))

    def step(self, place: int, epoch: int) -> None:
        """One step of the epoch that began."""
        with self.on():
            if self.raw is not None:
                self.raw.copy_(next(self.incoming), non_blocking=True)
            if self.graph is not None:
                self.graph.replay()
                return
            if self.cuda:
                self._step()
                return
            self.rate = self.rates[(epoch - 1) * self.steps + place]
            self.optimiser.param_groups[0]["lr"] = self.rate
            # what the network itself draws at random (dropout) is the step's own; torch.manual_seed would see to all
            # devices, and where there is no card keep a stack trace of each call
            with torch.random.fork_rng(devices=[]), self.threads(6 * self.build.batch * self.size):
                torch.default_generator.manual_seed(number(self.seed, epoch, place, 3))
                self._step()

    @contextmanager
    def threads(self, operations: float) -> Iterator[None]:
        """One thread where there is little work, on vectors.

        Several threads meet at every layer, and on a busy machine wait there ten times as long as the work takes.
        """
        before = torch.get_num_threads()
        if self.vectors and operations < LIGHT and before > 1:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)

    def mark(self) -> Any:
        """An event after all that was asked of the device so far; None on the CPU, which has always done it."""
        if not self.cuda:
            return None
        event = torch.cuda.Event()
        event.record(self.stream)
        return event

    def check_loss(self, bad: int, epoch: int) -> None:
        """Raise if the loss was not finite at some step."""
        if bad == NEVER:
            return
        total = self.steps * self.recipe.epochs
        raise TrainingFailed(
            f"the loss was not finite at step {bad + 1} of {total} (epoch {bad // max(self.steps, 1) + 1}, noticed "
            f"after epoch {epoch}), at a learning rate of {self.recipe.rate_at(bad / total):.3g}; try a lower one, "
            f"for instance rate={self.recipe.rate / 10:g}, a warm-up (warm_up=0.05), or look for broken items"
        )

    # -- looking ------------------------------------------------------------------------------------------------

    def sweep(self, feed: Feed, positions: Any, forward: Any = None) -> Iterator[tuple[slice, Any]]:
        """Evaluate items chunk by chunk: where they stand, and what `forward(x)` gives (features and logits).

        The network's weights must stay as they are meanwhile: they are folded once a sweep. cuDNN times its algorithms
        on whole chunks, which come again; the size of the last one does not.
        """
        forward = forward or self.look
        positions = np.asarray(positions)
        folded: dict[Any, Any] = {}
        start = 0
        while start < len(positions):
            chunk = self.chunk
            rows = [positions[at : at + chunk] for at in range(start, len(positions), chunk)]
            with self.on():
                incoming = iter(feed.read(rows))
            while start < len(positions):
                try:
                    with self.on():
                        raw = next(incoming)
                        with (
                            self.folding.lent(folded),
                            self.threads(2 * len(raw) * self.size),
                            timed() if self.cuda and len(raw) == chunk else nullcontext(),
                        ):
                            result = forward(feed.normalise(raw, self.dtype))
                except torch.OutOfMemoryError:
                    if chunk <= SMALLEST_CHUNK:
                        raise TrainingFailed(
                            f"not enough memory on {self.build.device} to evaluate {chunk} items at once; use a "
                            "smaller network, smaller items, or another device"
                        ) from None
                    torch.cuda.empty_cache()
                    self.chunk = chunk // 2
                    break
                yield slice(start, start + len(raw)), result
                start += len(raw)

    def look(self, x: Any) -> tuple[Any, Any]:
        """Features and logits in evaluation mode."""
        self.net.eval()
        try:
            with torch.no_grad(), self.autocast():
                return self.tap(self.net, x)
        finally:
            self.net.train()

    def sample(self, x: Any, draws: int) -> Any:
        """Probabilities (draws, n, c) with dropout active and everything else in evaluation mode."""
        self.net.eval()
        for module in self.dropouts():
            module.train()
        try:
            with torch.random.fork_rng(devices=[self.build.device] if self.cuda else []):
                torch.manual_seed(number(self.seed, 2))  # the same masks for every chunk
                with torch.no_grad(), self.autocast():
                    return torch.stack([self.net(x).float().softmax(1) for _ in range(draws)])
        finally:
            self.net.train()

    def dropouts(self) -> list[Any]:
        """The dropout that the recipe speaks of: the network's own `dropout` before its head, or all it has."""
        own = getattr(self.net, "dropout", None)
        if isinstance(own, nn.Dropout):
            return [own]
        return [module for module in self.net.modules() if isinstance(module, nn.Dropout)]

    def autocast(self) -> AbstractContextManager[Any]:
        """Half precision where it is safe, if the build asks for it."""
        return torch.autocast(self.build.device.type, torch.bfloat16) if self.build.half else nullcontext()

    def on(self) -> AbstractContextManager[Any]:
        """This slot's stream."""
        return torch.cuda.stream(self.stream) if self.cuda else nullcontext()

    # -- state --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """A copy of the weights and running statistics."""
        with self.on():
            return {name: value.detach().clone() for name, value in self.net.state_dict().items()}

    def load(self, state: Any) -> None:
        """Take weights and running statistics over, in place."""
        with torch.no_grad():
            for name, value in self.net.state_dict().items():
                value.copy_(state[name])
        if self.copies is not None:
            self.halves.refresh(self.copies)

    def momenta(self) -> list[Any]:
        """The optimiser's momentum buffers, one a parameter."""
        found = []
        for group in self.optimiser.param_groups:
            for parameter in group["params"]:
                own = self.optimiser.state[parameter]
                if own.get("momentum_buffer") is None:
                    own["momentum_buffer"] = torch.zeros_like(parameter)
                found.append(own["momentum_buffer"])
        return found

    def rest(self) -> None:
        """Momentum back to nothing."""
        for momentum in self.momenta():
            momentum.zero_()

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def moves(self) -> bool:
        """Whether images are moved or mirrored."""
        return bool(self.feed.normalise.images and (self.recipe.crop or self.recipe.flip))

    def _fresh(self, seed: int) -> nn.Module:
        device = self.build.device
        with torch.random.fork_rng(devices=[device] if self.cuda else []), torch.device(device):
            torch.manual_seed(number(seed))
            net = self.build.make()
        net = net.to(device=device, memory_format=torch.channels_last)
        return net.train()

    def _tables(self, rows: int) -> None:
        """Tables for epochs of so many steps. A graph knows their addresses, so it has to be captured anew."""
        device, batch = self.build.device, self.build.batch
        self.order = torch.zeros((rows, batch), dtype=torch.int64, device=device)
        self.target = torch.zeros((rows, batch), dtype=torch.int64, device=device)
        self.who = torch.zeros((rows, batch), dtype=torch.int64, device=device)
        self.shift = torch.zeros((rows, batch, 2), dtype=torch.int64, device=device)
        self.mirror = torch.zeros((rows, batch), dtype=torch.bool, device=device)
        self.lam = torch.ones(rows, device=device)
        self.rates = torch.zeros(max(rows * self.recipe.epochs, RATES), device=device)
        self.graph = None

    def _step(self, last: OnePass | None = None) -> None:
        self._slopes()
        if last is None:
            self.optimiser.step()
        else:
            last.step(self.rate, self.build.recipe)

    def _slopes(self) -> None:
        """The gradients of a batch, and on to the next."""
        x, y, who = self._batch()
        if self.recipe.mixup:
            lam = self.lam.index_select(0, self.row)[0]
            x = lam.to(x.dtype) * x + (1 - lam).to(x.dtype) * x.flip(0)
        with self.autocast(), self.halves.lent(self.copies):
            logits = self.model(x).float()
        loss = self.loss(logits, y, who)
        if self.recipe.mixup:
            loss = lam * loss + (1 - lam) * self.loss(logits, y.flip(0), who.flip(0))
        if self.ranks.together:
            loss = loss * (len(y) / self.build.batch) if len(y) else 0 * logits.sum()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._add_slopes()
        self._advance(loss.detach())

    def _batch(self) -> Any:
        """The items of this step as the network reads them, their classes, their places among the labelled ones."""
        items = self.feed.items if self.raw is None else self.raw
        if self.kernels is not None and self.feed.normalise.images:
            return self.kernels.batch(self, self.dtype)
        at, y, who = (table.index_select(0, self.row)[0] for table in (self.order, self.target, self.who))
        mine = self.ranks.part(len(at))  # everything, where there is one process
        rows = (at if self.raw is None else torch.arange(len(at), device=at.device))[mine]
        if self.moves:
            shift, mirror = self.shift.index_select(0, self.row)[0], self.mirror.index_select(0, self.row)[0]
            raw = cut(items, rows, shift[mine], mirror[mine])
        else:
            raw = items[rows]
        return self.feed.normalise(raw, self.dtype), y[mine], who[mine]

    def _advance(self, loss: Any) -> None:
        """The rate of this step; the first step whose loss was not finite; on to the next row."""
        if self.kernels is not None:
            self.kernels.advance(self, loss)
            return
        if self.cuda:
            self.rate.copy_(self.rates.index_select(0, self.done)[0])
        self.bad.copy_(torch.minimum(self.bad, torch.where(torch.isfinite(loss), NEVER, self.done)))
        self.row += 1
        self.done += 1

    def _add_slopes(self) -> None:
        """The gradient of the whole batch: the sum of those of its parts, in one message."""
        if not self.ranks.together:
            return
        slopes = [p.grad for group in self.optimiser.param_groups for p in group["params"] if p.grad is not None]
        flat = self.ranks.add(torch.cat([slope.reshape(-1) for slope in slopes]))
        for slope, summed in zip(slopes, flat.split([slope.numel() for slope in slopes]), strict=True):
            slope.copy_(summed.view_as(slope))

    def _capture(self) -> None:
        """Run the step a few times (libraries choose their algorithms), then record it as a graph."""
        torch.cuda.synchronize(self.build.device)
        self.copies = None
        try:
            with self.on(), timed():
                for _ in range(3):
                    self.row.zero_()
                    self.done.zero_()
                    self._step()
                self.stream.synchronize()
                graph = self._recorded(self.kernels is not None and bool(self.halves.weights))
        except torch.OutOfMemoryError:
            raise BadInput(
                f"a batch of {self.build.batch} does not fit the memory of {self.build.device}; try batch="
                f"{max(self.build.batch // 2, 2)}, fewer runs side by side (together=1) or a smaller network"
            ) from None
        self.graph = graph

    def _recorded(self, one_pass: bool) -> Any:
        """The step as a graph; `one_pass`: its end is ours, not that of torch's optimiser."""
        graph, last = torch.cuda.CUDAGraph(), None
        self.optimiser.zero_grad(set_to_none=True)
        if one_pass:
            last = self._one_pass()
            self.optimiser.zero_grad(set_to_none=True)
            last.forget()
        self.row.zero_()
        with torch.cuda.graph(graph, stream=self.stream):
            self._step(last)
        if last is not None:
            try:
                last.settle()
            except ValueError:  # slopes that are not where, or of whom, they are expected are for torch's optimiser
                self.copies = None
                return self._recorded(False)
            finally:
                last.forget()
        self.last = last  # what the graph reads must stay
        return graph

    def _one_pass(self) -> OnePass:
        """The end of a step that keeps the copies of the weights up to date itself; they are made for it."""
        self.copies = self.halves.copies()
        self.row.zero_()
        self._slopes()
        by_weight = {id(weight): copy for weight, copy in zip(self.halves.weights, self.copies, strict=True)}
        made = OnePass(triton_module("update"), self.optimiser.param_groups[0]["params"], self.momenta(), by_weight)
        made.step(self.rate, self.build.recipe)  # moves nothing yet, but its kernels are there when it is recorded
        return made


@contextmanager
def timed() -> Iterator[None]:
    """cuDNN times its algorithms for shapes that it has not seen yet, and keeps its choice."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def number(*parts: int) -> int:
    """One random number from several whole numbers."""
    return int(np.random.SeedSequence([abs(int(part)) for part in parts]).generate_state(1, np.uint64)[0] >> 1)
