"""Watch a pool of any size over the checkpoints, keeping only what will be asked for.

    recorder = Recorder(items=len(pool), classes=10)         # three bytes an item: enough for FF
    for epoch in range(epochs):
        train_one_epoch()
        if epoch >= start_of_window:
            recorder.record(model(pool))                      # logits (n, c), or predictions (n,)

A pool that does not fit is given in pieces, in any order:

            for rows, images in pool_batches:
                recorder.add(rows, model(images))
            recorder.close()                                  # the checkpoint is complete: every item, once

| keep          | bytes an item        | what it adds                                                         |
|---------------|----------------------|----------------------------------------------------------------------|
| `flips`       | 3                    | `flips`, `predictions` (of the last checkpoint)                      |
| `predictions` | 1 or 2 a checkpoint  | `checkpoint_predictions`, `label_dispersion`, `forgetting_events`    |
| `probs`       | 4 c                  | `mean_probs`                                                         |
| `logits`      | 2 c + 2 a checkpoint | all that, `variance`, `aum`, `temporal_discrepancy`, `sampled_probs` |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.dynamics import scores
from ncalr.errors import BadInput, NotRecorded, check_known, whole_number
from ncalr.kernels import to_numpy

_BLOCK = 1 << 20
_LARGEST_HALF = float(np.finfo(np.float16).max)
MOST_CLASSES = 65536  # a prediction is two bytes
KEEPS = ("flips", "predictions", "probs", "logits")


def _kept(name: Any) -> str:
    """Return the name of something to keep."""
    if not isinstance(name, str):
        raise BadInput(f"keep must hold names of {', '.join(KEEPS)}, got {name!r:.80}")
    check_known("thing to keep", name, KEEPS)
    return name


class Recorder:
    """A log of checkpoints over `items` pool items; see the module's text."""

    def __init__(self, items: int, classes: int, keep: Iterable[str] = ("flips",)) -> None:
        items, classes = whole_number("items", items, 1), whole_number("classes", classes, 1, MOST_CLASSES)
        self.items, self.classes = items, classes
        self.keep = frozenset(map(_kept, [keep] if isinstance(keep, str) or not isinstance(keep, Iterable) else keep))
        self.checkpoints = 0
        small = classes <= 256
        # Three bytes an item: one for the class and two for the count, or, past 256 classes, the other way round.
        self._label = np.dtype(np.uint8 if small else np.uint16)
        # Half-precision logits can tie where the model's own did not: predictions are kept as they were made.
        self._keeps_predictions = bool(self.keep & {"predictions", "logits"})
        _check_memory(items * (3 + (4 * classes if "probs" in self.keep else 0)), f"{items=} and {classes=}")
        self._last = np.zeros(items, self._label)
        self._count = np.zeros(items, np.uint16 if small else np.uint8)
        self._predictions: list[Any] = []
        self._logits: list[Any] = []
        self._probs = np.zeros((items, classes), np.float32) if "probs" in self.keep else None
        self._open_rows = 0
        self._open_sum = 0

    def __repr__(self) -> str:
        """What it has heard."""
        return f"Recorder: {self.checkpoints} checkpoints of {self.items:,} items, {self.classes} classes"

    def record(self, outputs: Any) -> None:
        """One whole checkpoint: logits (n, c), or predictions (n,) where no output needs to be kept."""
        self.add(slice(None), outputs)
        self.close()

    def add(self, rows: Any, outputs: Any) -> None:
        """A piece of the current checkpoint: positions (or a slice of them) and their logits or predictions."""
        positions = self._positions(rows)
        predictions, logits = self._read(outputs, len(positions))
        if not len(positions):
            return
        if not self._open_rows:
            self._start()
        if self.checkpoints:
            changed = self._last[positions] != predictions
            full = np.iinfo(self._count.dtype).max
            self._count[positions] += changed & (self._count[positions] < full)
        self._last[positions] = predictions
        if self._keeps_predictions:
            self._predictions[-1][positions] = predictions
        if "logits" in self.keep:
            self._logits[-1][positions] = logits
        if self._probs is not None:
            size = max(1, _BLOCK // self.classes)
            for start in range(0, len(positions), size):
                some = slice(start, start + size)
                self._probs[positions[some]] += scores.softmax(logits[some])
        self._open_rows += len(positions)
        self._open_sum += _fingerprint(positions)

    def close(self) -> None:
        """End the checkpoint whose pieces were added, after checking that each item came exactly once."""
        if self._open_rows != self.items or (self._open_sum - self._whole_sum) % 2**64:
            what = f"a checkpoint holds each of the {self.items} items exactly once; {self._open_rows} rows were added"
            if self._open_rows < self.items:
                raise BadInput(f"{what}: add the rest, then close it")
            raise BadInput(f"{what}, some twice: drop the repeats (samplers pad with them) and start a new recorder")
        self._open_rows, self._open_sum = 0, 0
        self.checkpoints += 1

    @cached_property
    def _whole_sum(self) -> int:
        """The sum over all positions, each once."""
        blocks = range(0, self.items, _BLOCK)
        return sum(_fingerprint(np.arange(start, min(start + _BLOCK, self.items))) for start in blocks)

    @property
    def predictions(self) -> npt.NDArray[Any]:
        """Predictions of the last checkpoint (n,)."""
        self._ready(1)
        return np.array(self._last)

    def flips(self) -> npt.NDArray[Any]:
        """FF (n,). With more than 256 classes the count stops at 255."""
        self._ready(2)
        return np.array(self._count)

    def checkpoint_predictions(self) -> npt.NDArray[Any]:
        """Predictions of every checkpoint (t, n)."""
        self._ready(1)
        self._need("checkpoint predictions", "predictions", "logits")
        return np.stack(self._predictions)

    def label_dispersion(self) -> npt.NDArray[np.float64]:
        """See `ncalr.dynamics.label_dispersion`."""
        return scores.label_dispersion(self.checkpoint_predictions())

    def forgetting_events(self, labels: Any) -> npt.NDArray[np.int64]:
        """See `ncalr.dynamics.forgetting_events`."""
        return scores.forgetting_events(self.checkpoint_predictions(), labels)

    def mean_probs(self) -> npt.NDArray[np.float32]:
        """Mean over the checkpoints of the softmax (n, c)."""
        self._ready(1)
        self._need("mean probabilities", "probs", "logits")
        if self._probs is not None:
            return np.asarray(self._probs / np.float32(self.checkpoints), np.float32)
        return np.asarray(self.sampled_probs().mean(axis=0), np.float32)

    def checkpoint_logits(self) -> npt.NDArray[np.float16]:
        """Logits of every checkpoint (t, n, c), in half precision."""
        self._ready(1)
        self._need("checkpoint logits", "logits")
        return np.stack(self._logits)

    def sampled_probs(self) -> npt.NDArray[np.float32]:
        """Softmax of every checkpoint (t, n, c): the checkpoints as an ensemble, for BALD."""
        return np.stack([scores.softmax(step).astype(np.float32) for step in self.checkpoint_logits()])

    def variance(self) -> npt.NDArray[np.float64]:
        """See `ncalr.dynamics.variance`."""
        return scores.variance(self.checkpoint_logits())

    def temporal_discrepancy(self, back: int = 1) -> npt.NDArray[np.float64]:
        """See `ncalr.dynamics.temporal_discrepancy`."""
        return scores.temporal_discrepancy(self.checkpoint_logits(), back)

    def aum(self, labels: Any) -> npt.NDArray[np.float64]:
        """See `ncalr.dynamics.aum`."""
        return scores.aum(self.checkpoint_logits(), labels)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Everything recorded, as arrays to be stored; `restore` takes them back."""
        self._ready(0)
        arrays = {"checkpoints": np.array(self.checkpoints), "last": self._last, "count": self._count}
        if self._predictions:
            arrays["predictions"] = np.stack(self._predictions)
        if self._logits:
            arrays["logits"] = np.stack(self._logits)
        if self._probs is not None:
            arrays["probs"] = self._probs
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what another recorder of the same items, classes and keep gave as its `state`."""
        last = arrays["last"]
        if last.shape != (self.items,) or last.dtype != self._label or ("probs" in arrays) != (self._probs is not None):
            raise BadInput(f"this state belongs to a recorder of other items, classes or keep ({last.shape[0]} items)")
        self.checkpoints = int(arrays["checkpoints"])
        self._last, self._count = np.array(last), np.array(arrays["count"])
        self._predictions = [np.array(row) for row in arrays.get("predictions", ())]
        self._logits = [np.array(row) for row in arrays.get("logits", ())]
        if self._probs is not None:
            self._probs = np.array(arrays["probs"])

    def _start(self) -> None:
        if self._keeps_predictions:
            self._predictions.append(np.zeros(self.items, self._label))
        if "logits" in self.keep:
            self._logits.append(np.zeros((self.items, self.classes), np.float16))

    def _positions(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(self.items))
        positions = to_numpy(rows, "rows")
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise BadInput(f"rows must be a slice or a list of positions, got {positions.dtype} {positions.shape}")
        if len(positions) and (positions.min() < 0 or positions.max() >= self.items):
            raise BadInput(f"rows must lie in 0..{self.items - 1}, got {positions.min()}..{positions.max()}")
        return np.asarray(positions)

    def _read(self, outputs: Any, rows: int) -> tuple[Any, Any]:
        outputs = to_numpy(outputs, "outputs")
        if outputs.shape == (rows,) and outputs.dtype.kind in "iu":
            wanted = sorted(self.keep & {"probs", "logits"})
            if wanted:
                raise BadInput(f"this recorder keeps {' and '.join(wanted)}: give it logits, not predictions")
            if rows and (outputs.min() < 0 or outputs.max() >= self.classes):
                raise BadInput(f"predictions must lie in 0..{self.classes - 1}, got {outputs.min()}..{outputs.max()}")
            return outputs, None
        if outputs.shape != (rows, self.classes) or outputs.dtype.kind not in "fiu":
            raise BadInput(
                f"expected logits of shape ({rows}, {self.classes}) or integer predictions of shape ({rows},), "
                f"got {outputs.dtype} of shape {outputs.shape}"
            )
        bad = int((~np.isfinite(outputs)).any(axis=1).sum())
        if bad:
            raise BadInput(f"{bad} of {rows} rows of logits hold NaN or infinity")
        if "logits" in self.keep and rows and max(float(outputs.max()), -float(outputs.min())) > _LARGEST_HALF:
            raise BadInput(f"logits beyond {_LARGEST_HALF:.0f} cannot be kept in half precision: scale them down")
        return outputs.argmax(axis=1), outputs

    def _ready(self, least: int) -> None:
        if self._open_rows:
            raise NotRecorded(f"a checkpoint is open ({self._open_rows} of {self.items} rows): call close() first")
        if self.checkpoints < least:
            raise NotRecorded(f"{least} checkpoint(s) are needed, {self.checkpoints} recorded so far")

    def _need(self, what: str, *keeps: str) -> None:
        if not self.keep.intersection(keeps):
            how = " or ".join(f"keep={[k]}" for k in keeps)
            raise NotRecorded(f"{what} were not kept: make the recorder with {how} (it has {sorted(self.keep)})")


def _check_memory(needed: int, what: str) -> None:
    """Raise where arrays of so many bytes are more than the memory of this machine: a mistyped number asks for them."""
    if not hasattr(os, "sysconf"):
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise BadInput(
            f"a recorder of {what} needs {needed / 1e9:,.0f} GB, and this machine has {there / 1e9:,.0f} GB. "
            "Check both numbers."
        )


def _fingerprint(positions: npt.NDArray[Any]) -> int:
    """A sum (modulo 2**64) over scrambled positions: equal for equal sets, whatever their order."""
    x = positions.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.sum(x ^ (x >> np.uint64(31)), dtype=np.uint64))
