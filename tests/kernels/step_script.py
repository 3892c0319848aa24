"""A step's batch and its counters under Triton's interpreter, against torch. Run with TRITON_INTERPRET=1."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ncalr.data import ArrayPool
from ncalr.kernels import triton_step
from ncalr.learn import TorchLearner
from ncalr.learn.slot import NEVER, Slot

ITEMS, BATCH = 23, 8


def slot_of(shape: tuple[int, ...], crop: int, flip: bool, streamed: bool) -> Slot:
    """A slot on the CPU, in the second step of an epoch."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, *shape)).astype(np.uint8)
    recipe = f"strong(batch={BATCH}, crop={crop}, flip={str(flip).lower()}, epochs=2, checkpoints=2)"
    learner = TorchLearner("resnet8", recipe, device="cpu", data="stream" if streamed else "device", workers=0)
    pool = ArrayPool(images)
    slot = learner._new_slot(5, shape, BATCH, learner._feed(pool))
    slot.start(3, rng.permutation(40)[:ITEMS], rng.integers(0, 5, ITEMS), 5)
    slot.begin(1)
    slot.row += 1
    if slot.raw is not None:
        next(slot.incoming)
        slot.raw.copy_(next(slot.incoming))
    return slot


def check_batch(shape: tuple[int, ...], crop: int, flip: bool, streamed: bool) -> None:
    """The same numbers, in the same order in memory."""
    slot = slot_of(shape, crop, flip, streamed)
    assert slot.kernels is None, "on the CPU it is torch that is compared with"
    theirs, ours = slot._batch(), triton_step.batch(slot, torch.float32)
    assert ours[0].stride() == theirs[0].stride()
    for one, two in zip(ours, theirs, strict=True):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)
    half = triton_step.batch(slot, torch.bfloat16)[0]
    assert half.dtype == torch.bfloat16
    assert float((half.float() - theirs[0]).abs().max()) <= 2**-7 * float(theirs[0].abs().max())


def check_advance(loss: float, bad: int) -> None:
    """The same counters."""

    def slot() -> Any:
        numbers = {name: torch.tensor([value]) for name, value in (("bad", bad), ("row", 2), ("done", 5))}
        return SimpleNamespace(**numbers, rates=torch.arange(9.0), rate=torch.tensor(0.0), cuda=True, kernels=None)

    ours, theirs = slot(), slot()
    triton_step.advance(ours, torch.tensor(loss))
    Slot._advance(theirs, torch.tensor(loss))
    for name in ("bad", "row", "done", "rate"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), (name, loss, bad)
    assert float(ours.rate) == 5


if __name__ == "__main__":
    yes_and_no = (False, True)
    for case in itertools.product(((9, 7, 3), (20, 20, 4), (6, 6, 1)), (0, 2, 9), yes_and_no, yes_and_no):
        check_batch(*case)
    for case in itertools.product((0.5, -3e38, float("inf"), -float("inf"), float("nan")), (NEVER, 7, 3)):
        check_advance(*case)
    print("as with torch")
