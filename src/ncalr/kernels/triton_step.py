"""What a training step does besides the network, in two kernels: make its batch, and move on.

The tables of an epoch (`ncalr.learn.slot`) lie on the device, and a step reads its own row of them. With torch's
operations that is some thirty kernels of a few microseconds each: too small to fill a large GPU, and each costs the
time it takes to begin.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 1024, 4  # numbers of an image that a program handles
LARGEST = tl.constexpr(3.4028234663852886e38)  # of float32: beyond it is what is not finite


@triton.jit
def _batch(
    items,
    order,
    shift,
    mirror,
    target,
    who,
    row,
    mean,
    scale,
    x,
    y,
    places,
    batch,
    height,
    width,
    c: tl.constexpr,
    gathered: tl.constexpr,
    block: tl.constexpr,
):
    """One block of numbers of one image: fetched from where its shift and its mirror say, and normalised."""
    image = tl.program_id(0)
    place = tl.load(row) * batch + image
    source = tl.load(order + place) if gathered else image.to(tl.int64)
    down, right = tl.load(shift + 2 * place), tl.load(shift + 2 * place + 1)
    mirrored = tl.load(mirror + place) != 0
    at = tl.program_id(1) * block + tl.arange(0, block)
    size = height * width * c
    channel, pixel = at % c, at // c
    across = pixel % width
    across = tl.where(mirrored, width - 1 - across, across) + right
    along = pixel // width + down
    inside = (along >= 0) & (along < height) & (across >= 0) & (across < width) & (at < size)
    value = tl.load(items + source * size + (along * width + across) * c + channel, mask=inside, other=0).to(tl.float32)
    value = (value - tl.load(mean + channel)) * tl.load(scale + channel)
    tl.store(x + image.to(tl.int64) * size + at, value.to(x.dtype.element_ty), mask=at < size)
    if tl.program_id(1) == 0:
        tl.store(y + image, tl.load(target + place))
        tl.store(places + image, tl.load(who + place))


@triton.jit
def _advance(loss, bad, row, done, rates, rate):
    """The rate of this step; the first step whose loss was not finite; on to the next."""
    step = tl.load(done)
    tl.store(rate, tl.load(rates + step))
    first = tl.load(bad)
    finite = tl.abs(tl.load(loss)) <= LARGEST
    tl.store(bad, tl.where(finite, first, tl.minimum(first, step)))
    tl.store(row, tl.load(row) + 1)
    tl.store(done, step + 1)


def batch(slot: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """The images of a slot's step as its network reads them, their classes, their places among the labelled items."""
    items = slot.feed.items if slot.raw is None else slot.raw
    size, (height, width, c) = slot.order.shape[1], items.shape[1:]
    x = torch.empty((size, height, width, c), dtype=dtype, device=items.device)
    y, places = (torch.empty(size, dtype=torch.int64, device=items.device) for _ in range(2))
    mean, scale = slot.feed.normalise.mean, slot.feed.normalise.scale
    tables = (slot.order, slot.shift, slot.mirror.view(torch.uint8), slot.target, slot.who, slot.row)
    grid = (size, triton.cdiv(height * width * c, BLOCK))
    given = (items, *tables, mean, scale, x, y, places, size, height, width, c, slot.raw is None)
    _batch[grid](*given, BLOCK, num_warps=WARPS)
    return x.permute(0, 3, 1, 2), y, places


def advance(slot: Any, loss: Any) -> None:
    """Set the rate of a slot's step, note a loss that is not finite, and go on to the next row of the tables."""
    _advance[(1,)](loss, slot.bad, slot.row, slot.done, slot.rates, slot.rate, num_warps=1)
