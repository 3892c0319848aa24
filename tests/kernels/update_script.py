"""The optimiser's step in one pass under Triton's interpreter, against torch's. Run with TRITON_INTERPRET=1."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from ncalr.data import ArrayPool
from ncalr.kernels import triton_update
from ncalr.learn import TorchLearner
from ncalr.learn.halves import Halves
from ncalr.learn.one_pass import OnePass
from ncalr.learn.recipes import Recipe

SHAPES = {"conv": (64, 16, 3, 3), "point": (32, 16, 1, 1), "head": (100, 48), "bias": (100,), "few": (3,)}
NEAR = 2e-6  # of float32: torch adds in another order
CUT = 2**-7  # of bfloat16: the interpreter cuts where a GPU rounds


def check_kernel(momentum: float, nesterov: bool, halved: tuple[str, ...]) -> None:
    """Weights, momenta and copies after three steps; what lies behind a weight in memory is left alone."""
    torch.manual_seed(0)

    def drawn(shape: tuple[int, ...]) -> Any:
        beside = torch.randn(int(np.prod(shape)) + 64)
        inside = beside[: int(np.prod(shape))]
        one = inside.view(shape[0], *shape[2:], shape[1]).permute(0, 3, 1, 2) if len(shape) == 4 else inside.view(shape)
        return one, beside

    weights, stores = zip(*(drawn(shape) for shape in SHAPES.values()), strict=True)
    behind = [store[-64:].clone() for store in stores]
    theirs = [nn.Parameter(weight.clone()) for weight in weights]
    copies = [w.bfloat16() if n in halved else None for n, w in zip(SHAPES, weights, strict=True)]
    momenta = [torch.zeros_like(weight) for weight in weights]
    optimiser = torch.optim.SGD(theirs, lr=0.1, momentum=momentum, nesterov=nesterov, weight_decay=0.01)
    update = triton_update.Update(weights, momenta, copies)
    before = [weight.clone() for weight in weights]
    update.step(torch.tensor(0.1), momentum, 0.01, nesterov)
    assert all(torch.equal(*pair) for pair in zip(weights, before, strict=True)), "nothing moves before it is settled"
    for rate in (0.1, 0.03, 0.2):
        kinds = [torch.float32 if copy is None else torch.bfloat16 for copy in copies]
        slopes = [torch.randn_like(weight).to(kind) for weight, kind in zip(weights, kinds, strict=True)]
        for parameter, slope in zip(theirs, slopes, strict=True):
            parameter.grad = slope.float()
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        update.settle(slopes)
        update.step(torch.tensor(rate), momentum, 0.01, nesterov)
    for weight, parameter, copy in zip(weights, theirs, copies, strict=True):
        assert torch.allclose(weight, parameter, rtol=NEAR, atol=NEAR)
        assert copy is None or torch.allclose(copy.float(), weight, rtol=CUT, atol=0)
    if momentum:
        for mine, parameter in zip(momenta, theirs, strict=True):
            assert torch.allclose(mine, optimiser.state[parameter]["momentum_buffer"], rtol=NEAR, atol=NEAR)
    assert all(torch.equal(store[-64:], one) for store, one in zip(stores, behind, strict=True))


def check_order() -> None:
    """Slopes that lie otherwise than their weights are refused; how dimensions of one element lie is all the same."""
    weight = torch.randn(4, 6, 3, 3).contiguous(memory_format=torch.channels_last)
    update = triton_update.Update([weight], [torch.zeros_like(weight)], [None])
    gaps = torch.randn(4, 6, 3, 6)[..., ::2]
    gappy = triton_update.Update([gaps], [gaps], [None])
    beside = (
        torch.randn(4 * 6 * 3 * 3 + 1)[1:].view(4, 3, 3, 6).permute(0, 3, 1, 2)
    )  # where four are not read at a time
    for one, slope in (
        (update, torch.randn(4, 6, 3, 3)),
        (update, gaps),
        (gappy, gaps),
        (update, beside),
        (update, None),
    ):
        try:
            one.settle([slope])
        except ValueError:
            continue
        raise AssertionError("it was taken")
    point = torch.randn(4, 6, 1, 1).contiguous(memory_format=torch.channels_last)
    triton_update.Update([point], [torch.zeros_like(point)], [None]).settle([torch.randn(4, 6, 1, 1)])


class Tied(nn.Module):
    """A weight that is read as it is and by a layer, a layer that nobody uses, one that learns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(12, 16), nn.Linear(16, 12)
        self.out.weight = self.embed.weight
        self.norm, self.unused, self.fixed = nn.LayerNorm(12), nn.Linear(6, 6), nn.Linear(12, 12)
        self.fixed.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        """Logits."""
        return self.fixed(self.norm(self.out(self.embed(x).mean(1))))


def check_network() -> None:
    """Three steps of a network with weights of all kinds, as with copies made anew and torch's optimiser."""
    torch.manual_seed(1)
    ours, theirs = Tied(), Tied()
    theirs.load_state_dict(ours.state_dict())
    x, y = torch.randint(0, 12, (8, 5)), torch.randint(0, 12, (8,))
    recipe = Recipe(momentum=0.9, decay=0.01)

    def slopes(net: nn.Module, halves: Halves, copies: Any = None) -> None:
        net.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16), halves.lent(copies):
            logits = net(x).float()
        nn.functional.cross_entropy(logits, y).backward()

    usual, halves = Halves(theirs.modules()), Halves(ours.modules())
    optimiser = torch.optim.SGD(
        [p for p in theirs.parameters() if p.requires_grad], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    )
    copies = halves.copies()
    slopes(ours, halves, copies)
    learns = [p for p in ours.parameters() if p.requires_grad]
    by_weight = {id(weight): copy for weight, copy in zip(halves.weights, copies, strict=True)}
    last = OnePass(triton_update, learns, [torch.zeros_like(p) for p in learns], by_weight)
    assert len(last.both) == 1
    assert len(last.readers) == 4, "the tied weight, the bias behind it, the norm's two; nobody who had no slope"
    for reader, slope in ((ours.unused.weight, ours.unused.weight), (last.readers[1], None), (last.both[0][1], None)):
        before, reader.grad = reader.grad, slope if slope is None else slope.detach()
        try:
            last.settle()
        except ValueError:
            reader.grad = before
            continue
        raise AssertionError("others than the first time, and it was not noticed")
    for _ in range(3):
        last.forget()
        slopes(ours, halves, copies)
        last.settle()
        last.step(torch.tensor(0.1), recipe)
        slopes(theirs, usual)
        optimiser.step()
        for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(one, two, rtol=1e-5, atol=1e-5)
        for weight, copy in zip(halves.weights, copies, strict=True):
            assert torch.allclose(copy.float(), weight, rtol=CUT, atol=0)
        halves.refresh(copies)  # rounded, as a GPU would have done
        assert all(torch.equal(c, w.bfloat16()) for w, c in zip(halves.weights, copies, strict=True))


def check_slot() -> None:
    """A slot's recorded step, imitated: no graph, but the same calls. A new job begins with copies of its weights."""
    rng = np.random.default_rng(0)
    pool, labels = ArrayPool(rng.integers(0, 256, (40, 8, 8, 1)).astype(np.uint8)), rng.integers(0, 5, 40)

    def slot_of() -> Any:
        learner = TorchLearner(
            "resnet8", "strong(batch=8, epochs=2, checkpoints=2)", device="cpu", precision="bfloat16"
        )
        slot = learner._new_slot(5, (8, 8, 1), 8, learner._feed(pool))
        slot.start(3, np.arange(40), labels, 5)
        slot.begin(1)
        return slot

    ours, theirs = slot_of(), slot_of()
    fake = {"CUDAGraph": object, "graph": lambda *_, **__: nullcontext()}
    with patch.multiple(torch.cuda, **fake):
        ours.rate = torch.tensor(0.05)
        before = ours.state()
        ours.row.fill_(len(ours.order))  # a rehearsal begins with the first row: there may be no other
        ours._recorded(True)
    assert all(torch.equal(before[n], v) for n, v in ours.state().items() if "running" not in n and "tracked" not in n)
    for slot in (ours, theirs):  # as for the next job: statistics of the rehearsal are forgotten
        slot.start(4, np.arange(40), labels, 5)
        slot.begin(1)
        slot.optimiser.param_groups[0]["lr"] = 0.05
    assert all(torch.equal(c, w.bfloat16()) for w, c in zip(ours.halves.weights, ours.copies, strict=True))
    for _ in range(3):
        ours.last.forget()
        ours._slopes()
        ours.last.settle()
        ours.last.step(torch.tensor(0.05), ours.build.recipe)
        ours.halves.refresh(ours.copies)
        theirs._step()
    for (name, one), two in zip(ours.state().items(), theirs.state().values(), strict=True):
        assert torch.allclose(one.float(), two.float(), rtol=1e-4, atol=1e-4), name

    def refuse(_self: Any, _slopes: Any) -> None:
        raise ValueError

    with patch.multiple(torch.cuda, **fake), patch.object(triton_update.Update, "settle", refuse):
        ours._recorded(True)
    assert ours.copies is None
    assert ours.last is None, "torch's optimiser, where slopes lie otherwise than weights"


if __name__ == "__main__":
    for (momentum, nesterov), halved in itertools.product(
        ((0.9, True), (0.9, False), (0.0, False)), (("conv", "head", "bias"), tuple(SHAPES), ())
    ):
        check_kernel(momentum, nesterov, halved)
    check_order()
    check_network()
    check_slot()
    print("as with torch")
