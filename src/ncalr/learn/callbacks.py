"""Watch the pool from your own training: plain PyTorch, Lightning, the Hugging Face Trainer.

    watcher = PoolWatcher(model, pool_loader, classes=10, items=len(pool), start=60)
    for epoch in range(100):
        train_one_epoch()
        watcher.checkpoint()                                  # recorded from the 61st epoch on
    picks = ncalr.query("ncal", 500, **watcher.evidence(labelled_loader))

    recorder = lightning_callback(pool_loader, classes=10, items=len(pool), start=60)
    Trainer(callbacks=[recorder]).fit(module, ...)            # lightning or pytorch_lightning
    picks = ncalr.query("ncal", 500, **recorder.evidence(labelled_loader))

    recorder = trainer_callback(pool_loader, classes=10, items=len(pool), at="step", every=500)
    Trainer(model, args, callbacks=[recorder], ...).train()   # transformers

**Batches of the pool** are gone through once a checkpoint, in order, without augmentation: any iterable that can be
started again (a DataLoader, a list), or a function that gives a fresh iterator. A batch is `inputs`, `(inputs,)` or
`(rows, inputs)`; with rows (positions in the pool) batches may come in any order. Inputs are a tensor, a tuple
(`model(*inputs)`) or a dictionary (`model(**inputs)`, less any labels in it); NumPy arrays become tensors.

**The training does not notice.** The pool is seen in evaluation mode and without gradients; afterwards every module is
in the mode it was in, and torch's random numbers go on where they were, so that a watched training ends with the very
weights of an unwatched one. A pass that fails leaves the recorder as it was.

`start` is how many epochs to let pass first, `every` how many lie between checkpoints after that: `start=60, every=2`
records after epochs 62, 64, ... What to `keep` is said in `ncalr.dynamics.recorder`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from ncalr.dynamics.recorder import Recorder
from ncalr.errors import BadInput, NotFinite, NotRecorded, check_known
from ncalr.extras import installed, load
from ncalr.learn.tap import Tap

Forward = Callable[[Any, Any], Any]
"""From a model and the inputs of a batch to logits (n, c), or to an output that has `logits`."""

LABELS = ("labels", "label", "label_ids")
LIGHTNING = "a callback for Lightning"


class PoolWatcher:
    """Records what a model says about the pool at each checkpoint, for a training loop of one's own.

        watcher = PoolWatcher(model, pool_loader, classes=10, items=len(pool), start=60)
        for epoch in range(100):
            train_one_epoch()
            watcher.checkpoint()
        picks = ncalr.query("ncal", 500, **watcher.evidence(labelled_loader))

    The module's text has the same for Lightning and the Hugging Face Trainer, and says what batches may be.
    """

    def __init__(
        self,
        model: nn.Module | None,  # None: set it before the first checkpoint
        batches: Any,
        classes: int,
        items: int,
        *,
        keep: Iterable[str] = ("predictions",),
        start: int = 0,
        every: int = 1,
        layer: str = "",
        forward: Forward | None = None,
    ) -> None:
        """Watch `model` on the `items` pool items that `batches` hold.

        layer: whose input are the features; the last linear layer if empty. forward: how to get from the model and a
        batch's inputs to logits, where `model(inputs)` is not it: `lambda model, x: model(x)[0]`.
        """
        if start < 0 or every < 1:
            raise BadInput(f"start must be at least 0 and every at least 1, got {start} and {every}")
        if isinstance(batches, Iterator):
            raise BadInput(
                f"the pool's batches are gone through at every checkpoint and {type(batches).__name__} can be gone "
                "through only once: give a list, a DataLoader, or a function that makes the iterator"
            )
        self.model, self.batches = model, batches
        self.recorder = Recorder(items, classes, keep)
        self.start, self.every = start, every
        self.layer, self.forward = layer, forward or apply
        self.done = 0
        self._tap: Tap | None = None

    def checkpoint(self, done: int | None = None) -> bool:
        """An epoch has ended: record the pool if it is time to. True if it was recorded.

        done: how many epochs have ended; if None, one more than the last time.
        """
        self.done = self.done + 1 if done is None else done
        if self.done <= self.start or (self.done - self.start) % self.every:
            return False
        look = self._outputs if self.recorder.keep & {"logits", "probs"} else self._predictions
        self.recorder.record(self._pool(look)[0])
        return True

    def evidence(self, labelled: Any = None) -> dict[str, Any]:
        """The arrays for `ncalr.query`, from the model as it is now and the checkpoints recorded.

        labelled: batches of (inputs, labels), or dictionaries with labels among them, in any order and without
        augmentation; most strategies need them.
        """
        recorder = self.recorder
        if recorder.checkpoints < 2:
            raise NotRecorded(
                f"flips need 2 checkpoints and {recorder.checkpoints} were recorded in {self.done} epochs (or steps), "
                f"with start={self.start} and every={self.every}: record earlier, more often, or train longer"
            )
        features, logits = self._pool(self._features)
        found = {"features": features, "logits": logits}
        if recorder.keep & {"predictions", "logits"}:
            found["checkpoint_predictions"] = recorder.checkpoint_predictions()
        else:
            found["flips"] = recorder.flips()
        return found if labelled is None else {**found, **self._labelled(labelled)}

    def _pool(self, look: Callable[[Any], tuple[Any, ...]]) -> list[npt.NDArray[Any]]:
        """What `look(inputs)` gives for every item of the pool, as arrays in the pool's order."""
        items, tables = self.recorder.items, list[npt.NDArray[Any]]()
        seen, at = np.zeros(items, bool), 0
        with evaluating(self.model) as device:
            for batch in _fresh(self.batches):
                rows, inputs = _split(batch)
                values = look(_moved(inputs, device))
                count = len(values[0])
                if rows is None:
                    _check_order(self.batches)
                    rows = slice(at, at + count)
                positions = _positions(rows, count, items)
                tables = tables or [np.zeros((items, *v.shape[1:]), v.dtype) for v in values]
                for table, value in zip(tables, values, strict=True):
                    table[positions] = value
                seen[positions] = True
                at += count
        if at != items or not seen.all():
            raise BadInput(
                f"the batches must hold each of the {items} pool items exactly once; they held {at} rows, "
                f"{int(seen.sum())} different ones (drop_last=True loses some, samplers that pad repeat some)"
            )
        return tables

    def _labelled(self, batches: Any) -> dict[str, Any]:
        parts: list[tuple[Any, Any, Any]] = []
        with evaluating(self.model) as device:
            for batch in _fresh(batches):
                inputs, labels = _with_labels(batch)
                features, logits = self._features(_moved(inputs, device))
                if labels.shape != (len(logits),) or labels.dtype.kind not in "iu":
                    raise BadInput(
                        f"{len(logits)} labelled items need as many whole-number labels, got {labels.dtype} of shape "
                        f"{labels.shape}"
                    )
                parts.append((features, logits, labels))
        if not parts:
            raise BadInput("the labelled batches are empty: label a few items first, or leave them out")
        features, logits, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
        return {"labelled_features": features, "labelled_logits": logits, "labels": labels}

    def _logits(self, inputs: Any, model: Any) -> Any:
        logits = logits_of(self.forward(model, inputs))
        if logits.ndim != 2 or logits.shape[1] != self.recorder.classes:
            raise BadInput(
                f"the model must give logits (n, {self.recorder.classes}), got {tuple(logits.shape)}; say how to get "
                "them with forward=, for instance forward=lambda model, x: model(x)[0]"
            )
        return logits.float()

    def _outputs(self, inputs: Any) -> tuple[npt.NDArray[Any]]:
        return (_finite(self._logits(inputs, self.model).cpu().numpy()),)

    def _predictions(self, inputs: Any) -> tuple[npt.NDArray[Any]]:
        logits = self._logits(inputs, self.model)
        bad = ~torch.isfinite(logits).all(1)
        # Marked and looked at on the host: predictions have to travel anyway, and so the device is waited for once.
        predictions = torch.where(bad, -1, logits.argmax(1)).cpu().numpy()
        if (predictions < 0).any():
            raise _broken(int((predictions < 0).sum()), len(predictions))
        return (predictions,)

    def _features(self, inputs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        # torch.compile does not see hooks that come later, and the tap is one.
        model = getattr(self.model, "_orig_mod", self.model)
        if self._tap is None:
            self._tap = Tap(model, self.layer)
        features, logits = self._tap(lambda x: self._logits(x, model), inputs)
        return _finite(features.cpu().numpy()), _finite(logits.cpu().numpy())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[torch.device]:
    """The model in evaluation mode, without gradients, on its device; then everything as it was."""
    modes = [(module, module.training) for module in model.modules()]
    device = device_of(model)
    # A DataLoader draws a seed each time it starts: without the fork, watching would change the training.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        try:
            model.eval()
            yield device
        finally:
            for module, mode in modes:  # the flag alone: somebody's own train() may do more
                module.training = mode


def device_of(model: nn.Module) -> torch.device:
    """Where the model's first parameter or buffer is."""
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


def apply(model: Any, inputs: Any) -> Any:
    """The model's output for the inputs of a batch."""
    if isinstance(inputs, Mapping):
        return model(**{name: value for name, value in inputs.items() if name not in LABELS})
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def logits_of(output: Any) -> Any:
    """The logits of a model's output: a tensor, or something that has `logits`."""
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if isinstance(found, torch.Tensor):
        return found
    raise BadInput(
        f"the model gave {type(output).__name__}: expected a tensor of logits, or an output with logits; say how to "
        "get them with forward=, for instance forward=lambda model, x: model(x)[0]"
    )


def lightning_callback(
    batches: Any,
    classes: int,
    items: int,
    *,
    at: str = "training",
    keep: Iterable[str] = ("predictions",),
    start: int = 0,
    every: int = 1,
    layer: str = "",
    forward: Forward | None = None,
) -> Any:
    """A callback for a Lightning trainer on one device that watches the pool.

    at: "training" records when an epoch has ended; "validation" at the end of each validation run in the epochs that
    count, so several times an epoch with a `val_check_interval` below 1, and never in the sanity check. The pool is
    seen in the trainer's precision. What was recorded is kept in Lightning's checkpoints, so that a resumed training
    goes on. The callback has `recorder`, `watcher` and, after the training, `evidence(labelled)`; Lightning moves the
    module to the CPU at the end, so move it back first where the pool is large.

    The other arguments are those of `PoolWatcher`; without `forward` it is the module's own.
    """
    check_known("time to record", at, ("training", "validation"))
    if not (installed("lightning") or installed("pytorch_lightning")):
        load("lightning", "lightning", LIGHTNING)
    made = type("LightningRecorder", (_LightningHooks, *_lightning_bases()), {"__doc__": _LightningHooks.__doc__})
    # Made at once, so that wrong arguments are found before a long training; the model comes with the training.
    watcher = PoolWatcher(
        None, batches, classes, items, keep=keep, start=start, every=every, layer=layer, forward=forward
    )
    return made(at, watcher)


def trainer_callback(
    batches: Any,
    classes: int,
    items: int,
    *,
    at: str = "epoch",
    keep: Iterable[str] = ("predictions",),
    start: int = 0,
    every: int = 1,
    layer: str = "",
    forward: Forward | None = None,
) -> Any:
    """A callback for the Hugging Face Trainer, in one process, that watches the pool.

    at: "epoch" or "step"; `start` and `every` count in it: `at="step", every=500` records after steps 500, 1000, ...
    Batches are the dictionaries a model of transformers takes (the data collator makes them), alone or as
    `(rows, dictionary)`. The callback has `recorder`, `watcher` and, after the training, `evidence(labelled)`. What was
    recorded is not part of the Trainer's checkpoints: a resumed training records from where it resumes.

    The other arguments are those of `PoolWatcher`.
    """
    check_known("time to record", at, ("epoch", "step"))
    base = load("transformers", "hf", "a callback for the Hugging Face Trainer").TrainerCallback
    made = type("TrainerRecorder", (_TrainerHooks, base), {"__doc__": _TrainerHooks.__doc__})
    # Made at once, so that wrong arguments are found before a long training; the model comes with the training.
    watcher = PoolWatcher(
        None, batches, classes, items, keep=keep, start=start, every=every, layer=layer, forward=forward
    )
    return made(at, watcher)


class _Hooks:
    """What both callbacks share: a watcher that gets its model when the training begins."""

    def __init__(self, at: str, watcher: PoolWatcher) -> None:
        self.at, self.watcher, self._forward = at, watcher, watcher.forward

    @property
    def recorder(self) -> Recorder:
        """The log of the checkpoints."""
        return self.watcher.recorder

    def evidence(self, labelled: Any = None) -> dict[str, Any]:
        """See `PoolWatcher.evidence`."""
        if self.watcher.model is None:
            raise NotRecorded("nothing was trained with this callback yet: give it to a trainer and train")
        return self.watcher.evidence(labelled)

    def _begin(self, model: Any, forward: Forward, processes: int) -> None:
        if processes > 1:
            raise BadInput(
                f"the pool is watched in one process and this training runs in {processes}; train on one device, or "
                "record yourself with ncalr.Recorder, which takes the pool in pieces"
            )
        if self.watcher.model not in (None, model):
            raise BadInput("this callback has watched another model: make a new one for each training")
        self.watcher.model, self.watcher.forward = model, forward


class _LightningHooks(_Hooks):
    """A Lightning callback that watches the pool."""

    @property
    def state_key(self) -> str:
        """Tells several recorders of one trainer apart."""
        return f"LightningRecorder({self.at}, items={self.recorder.items}, classes={self.recorder.classes})"

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Take the module to be watched."""
        if stage != "fit":
            return
        plugin = trainer.precision_plugin

        def forward(module: Any, inputs: Any) -> Any:
            with plugin.forward_context():
                return self._forward(module, plugin.convert_input(inputs))

        self._begin(pl_module, forward, trainer.world_size)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Record, if that is the time to."""
        done = trainer.current_epoch + 1
        # A training resumed from a checkpoint of an epoch's very end comes by here a second time.
        if self.at == "training" and done > self.watcher.done:
            self.watcher.checkpoint(done)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Record, if that is the time to."""
        if self.at == "validation" and trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.watcher.checkpoint(trainer.current_epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """For Lightning's checkpoints: tensors, so that they load without pickle."""
        arrays = {name: torch.from_numpy(np.array(array)) for name, array in self.recorder.state().items()}
        return {"done": self.watcher.done, "recorder": arrays}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From Lightning's checkpoints."""
        self.watcher.done = state_dict["done"]
        self.recorder.restore({name: tensor.numpy() for name, tensor in state_dict["recorder"].items()})


class _TrainerHooks(_Hooks):
    """A callback of the Hugging Face Trainer that watches the pool."""

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Take the model to be watched."""
        self._begin(model, self._forward, args.world_size)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Record, if that is the time to."""
        if self.at == "epoch":  # a training that stops inside an epoch ends that epoch
            self.watcher.checkpoint(math.ceil(round(state.epoch, 6)))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Record, if that is the time to."""
        if self.at == "step":
            self.watcher.checkpoint(state.global_step)


def _lightning_bases() -> tuple[Any, ...]:
    """The Callback of the package in use: `lightning` and `pytorch_lightning` each have their own, and both may be."""
    names = ("lightning.pytorch", "pytorch_lightning")
    used = [sys.modules[name].Callback for name in names if name in sys.modules]
    if used:
        return tuple(dict.fromkeys(used))
    return (load(next(name for name in names if installed(name)), "lightning", LIGHTNING).Callback,)


def _fresh(batches: Any) -> Iterator[Any]:
    return iter(batches() if callable(batches) else batches)


def _split(batch: Any) -> tuple[Any, Any]:
    """Rows (or None) and inputs."""
    if not isinstance(batch, list | tuple):
        return None, batch
    if len(batch) == 1:
        return None, batch[0]
    if len(batch) == 2 and _are_rows(batch[0]):
        return batch[0], batch[1]
    raise BadInput(
        f"a batch of the pool is (inputs,) or (rows, inputs), rows being whole numbers (n,); got {len(batch)} things, "
        f"the first {_described(batch[0]) if batch else 'missing'}. Leave labels out: "
        "batches=lambda: ((x,) for x, _ in loader)"
    )


def _are_rows(thing: Any) -> bool:
    if isinstance(thing, slice):
        return True
    if isinstance(thing, torch.Tensor):
        return bool(thing.ndim == 1 and not thing.is_floating_point() and thing.dtype != torch.bool)
    if isinstance(thing, list | tuple | np.ndarray):
        array = np.asarray(thing)
        return array.ndim == 1 and array.dtype.kind in "iu"
    return False


def _described(thing: Any) -> str:
    shape = getattr(thing, "shape", None)
    return type(thing).__name__ if shape is None else f"{thing.dtype} of shape {tuple(shape)}"


def _check_order(batches: Any) -> None:
    """Batches without rows are counted off, so a loader that shuffles would give every item another's prediction."""
    samplers = (getattr(batches, "sampler", None), getattr(getattr(batches, "batch_sampler", None), "sampler", None))
    if any(isinstance(sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler) for sampler in samplers):
        raise BadInput(
            "the pool's loader shuffles and its batches have no rows: make it with shuffle=False, or give batches of "
            "(rows, inputs)"
        )


def _positions(rows: Any, count: int, items: int) -> Any:
    """Rows as a slice or an array, after checking that they are as many as the outputs and lie in the pool."""
    if isinstance(rows, slice):
        if rows.stop is not None and rows.stop > items:
            raise BadInput(f"the batches hold more than the {items} pool items there should be: items={rows.stop}?")
        positions = np.arange(*rows.indices(items))
    else:
        positions = np.asarray(rows.cpu() if isinstance(rows, torch.Tensor) else rows)
    if len(positions) != count:
        raise BadInput(f"a batch has {len(positions)} rows and {count} outputs")
    if count and (positions.min() < 0 or positions.max() >= items):
        raise BadInput(f"rows must lie in 0..{items - 1}, got {positions.min()}..{positions.max()}")
    return positions


def _with_labels(batch: Any) -> tuple[Any, npt.NDArray[Any]]:
    """Inputs and labels of a labelled batch."""
    labels = None
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in LABELS if name in batch), None)
        inputs: Any = batch
    elif isinstance(batch, list | tuple) and len(batch) == 2:
        inputs, labels = batch
    if labels is None:
        raise BadInput(
            "a labelled batch is (inputs, labels), or a dictionary with labels; got "
            + (f"the keys {sorted(batch)}" if isinstance(batch, Mapping) else _described(batch))
        )
    return inputs, labels.cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)


def _moved(inputs: Any, device: torch.device) -> Any:
    """The inputs as tensors on the device."""
    if isinstance(inputs, torch.Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, np.ndarray):
        return torch.as_tensor(inputs, device=device)
    if isinstance(inputs, Mapping):
        return {name: _moved(value, device) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return tuple(_moved(value, device) for value in inputs)
    return inputs


def _finite(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    bad = int((~np.isfinite(values)).any(axis=1).sum())
    if bad:
        raise _broken(bad, len(values))
    return values


def _broken(bad: int, rows: int) -> NotFinite:
    return NotFinite(f"the model gave NaN or infinity for {bad} of {rows} items of a batch: has the training diverged?")
