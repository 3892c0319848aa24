"""The optimiser's step in one pass over memory: gradient descent with momentum, and the half-precision copies.

Of a weight that is computed with in half precision, the slope is read as the convolution wrote it, weight and momentum
are read and written once, and the copy for the next step is written beside them. Apart (slopes to float32, the step,
weights to bfloat16) that is half as many bytes again, in several kernels.

Where everything lies stands in a table on the device, a row a parameter, that is read when the kernel runs: a step that
is recorded as a graph is launched before the addresses of its slopes are written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

BLOCK, WARPS = 2048, 4  # numbers of a parameter that a program handles
ALIGNED = 16  # bytes: where a parameter begins in memory, or numbers cannot be read four at a time


@triton.jit
def _at(address, number, kind: tl.constexpr, width: tl.constexpr):
    """Pointers to these numbers behind an address from the table; told to be aligned, or they are read one by one.

    Four numbers at a time of either kind: with eight half-precision ones a thread would have other numbers of each.
    """
    place = address.to(tl.pointer_type(kind)) + number
    return tl.max_contiguous(tl.multiple_of(place, kind.primitive_bitwidth // 2), width)


@triton.jit
def _update(
    table,
    blocks,
    rate,
    momentum,
    decay,
    nesterov: tl.constexpr,
    half: tl.constexpr,
    even: tl.constexpr,
    width: tl.constexpr,
):
    """One block of one parameter. `even`: parameters whose size is a multiple of 16."""
    block = tl.program_id(0)
    row = table + 5 * tl.load(blocks + 2 * block)
    number = tl.load(blocks + 2 * block + 1) * width + tl.arange(0, width)
    count = tl.load(row + 4)
    if even:
        count = tl.multiple_of(count, 16)
    here = number < count
    weights = _at(tl.load(row), number, tl.float32, width)
    momenta = _at(tl.load(row + 1), number, tl.float32, width)
    slopes = _at(tl.load(row + 2), number, tl.bfloat16 if half else tl.float32, width)
    copies = _at(tl.load(row + 3), number, tl.bfloat16, width)
    weight = tl.load(weights, mask=here, other=0.0)
    slope = tl.load(slopes, mask=here, other=0.0).to(tl.float32) + decay * weight
    moved = momentum * tl.load(momenta, mask=here, other=0.0) + slope
    weight -= tl.load(rate) * (slope + momentum * moved if nesterov else moved)
    tl.store(momenta, moved, mask=here)
    tl.store(weights, weight, mask=here)
    if half:
        tl.store(copies, weight.to(tl.bfloat16), mask=here)


class Update:
    """The step of some parameters. Launch it (`step`), then say where the slopes lie (`settle`): before it runs."""

    def __init__(self, weights: Sequence[Any], momenta: Sequence[Any], copies: Sequence[Any]) -> None:
        """`copies[i]` is the half-precision copy of `weights[i]` that its slope belongs to, or None."""
        self.weights, self.momenta, self.copies = list(weights), list(momenta), list(copies)
        device = self.weights[0].device
        self.table = torch.zeros((len(self.weights), 5), dtype=torch.int64, device=device)
        groups: dict[tuple[bool, bool], list[tuple[int, int]]] = {}
        for row, (weight, copy) in enumerate(zip(self.weights, self.copies, strict=True)):
            key = (copy is not None, weight.numel() % 16 == 0)
            many = triton.cdiv(weight.numel(), BLOCK)
            groups.setdefault(key, []).extend((row, block) for block in range(many))
        self.groups = {key: torch.tensor(blocks, device=device) for key, blocks in groups.items()}

    def step(self, rate: Any, momentum: float, decay: float, nesterov: bool) -> None:
        """Move everything on; the kernels read the table."""
        for (half, even), blocks in self.groups.items():
            given = (self.table, blocks, rate, momentum, decay, nesterov, half, even)
            _update[(len(blocks),)](*given, BLOCK, num_warps=WARPS)

    def settle(self, slopes: Sequence[Any]) -> None:
        """Write the table: weights, momenta, slopes and copies as they lie in memory now, all in the same order."""
        rows = np.zeros(self.table.shape, np.int64)
        for row, (weight, momentum, slope, copy) in enumerate(
            zip(self.weights, self.momenta, slopes, self.copies, strict=True)
        ):
            lie = [weight, momentum, slope, *([] if copy is None else [copy])]
            orders = [None if one is None or one.data_ptr() % ALIGNED else _order(one) for one in lie]
            if not orders[0] or len(set(orders)) > 1:
                raise ValueError(f"a weight {tuple(weight.shape)} and its slope do not lie in memory alike: {orders}")
            rows[row, : len(lie)] = [one.data_ptr() for one in lie]
            rows[row, 4] = weight.numel()
        self.table.copy_(torch.from_numpy(rows))


def _order(tensor: Any) -> tuple[int, ...]:
    """The strides of a tensor that lies in memory without gaps, where they matter; nothing if it has gaps."""
    sizes = [(stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
    filled = 1
    for stride, size in sorted(sizes):
        if stride != filled:
            return ()
        filled *= size
    return tuple(stride for stride, _ in sizes) or (1,)
