"""The first convolution of a network for small images, with the normalisation and the ReLU behind it.

An image has three channels: nine taps of three channels are 27 numbers an output pixel, less than the 64 that come out,
so the work is writing the result. Here the taps of a block of pixels are gathered into a matrix of 32 columns and
multiplied on the tensor cores. In training the sums of the normalisation are taken from the result while it is at hand.
Backwards, the slopes before the normalisation are made where they are used, in the product that is the weights' slope,
and never stored; images have none. In evaluation normalisation and ReLU are part of the convolution.

Weights are read in float32 and rounded as autocast rounds them; their slope comes out in float32, its partial sums
added in the order of the splits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ncalr.kernels import triton_norm
from ncalr.kernels.triton_norm import all_here, move_on, slope_before

TAPS = 32  # columns of the matrix of taps: nine for each of at most three channels, and zeros
STEP, WARPS = 32, 4  # rows, which are output pixels, that a program handles at a time
BACK_SPLITS = 384  # among how many programs the rows are split backwards, at most
MOST_SPLITS = 16_384  # the same in evaluation, where nothing is added up
KIND = tl.bfloat16  # what is multiplied; Triton's interpreter has no products of this kind
ADDED, PLACES = 64, 32  # partial slopes, and places of them, that are added at a time


@triton.jit
def _taps(x, row, m, height: tl.constexpr, width: tl.constexpr, c: tl.constexpr, stride: tl.constexpr, taps):
    """(rows, taps): what the nine taps of each output pixel read, row by row of the kernel, channels innermost."""
    down: tl.constexpr = (height - 1) // stride + 1
    across: tl.constexpr = (width - 1) // stride + 1
    image, pixel = row // (down * across), row % (down * across)
    tap, channel = taps // c, taps % c
    y = (pixel // across)[:, None] * stride + (tap // 3)[None, :] - 1
    x_ = (pixel % across)[:, None] * stride + (tap % 3)[None, :] - 1
    inside = (row < m)[:, None] & (tap < 9)[None, :] & (y >= 0) & (y < height) & (x_ >= 0) & (x_ < width)
    at = ((image[:, None] * height + y) * width + x_) * c + channel[None, :]
    return tl.load(x + at, mask=inside, other=0.0)


@triton.jit
def _forward(
    x,
    filters,
    out,
    partial,
    arrived,
    weight,
    bias,
    running_mean,
    running_var,
    state,
    m,
    outside: tl.constexpr,
    splits,
    momentum,
    eps,
    height: tl.constexpr,
    width: tl.constexpr,
    c: tl.constexpr,
    stride: tl.constexpr,
    fixed: tl.constexpr,
    step: tl.constexpr,
    sum_step: tl.constexpr,
    block: tl.constexpr,
    taps_: tl.constexpr,
    kind: tl.constexpr,
):
    """out: the convolution, and its statistics move on; or (`fixed`) what is behind normalisation and ReLU."""
    channel = tl.program_id(0) * block + tl.arange(0, block)
    split = tl.program_id(1)
    taps = tl.arange(0, taps_)
    used = (taps < 9 * c)[:, None]
    kernel = tl.load(filters + channel[None, :] * (9 * c) + taps[:, None], mask=used, other=0.0).to(tl.bfloat16)
    kernel = kernel.to(kind)
    if fixed:
        scale = tl.load(weight + channel) / tl.sqrt(tl.load(running_var + channel) + eps)
        shift = tl.load(bias + channel) - tl.load(running_mean + channel) * scale
    share = tl.cdiv(tl.cdiv(m, step), splits) * step
    total = tl.zeros([step, block], tl.float32)
    square = tl.zeros([step, block], tl.float32)
    for first in range(split * share, min(split * share + share, m), step):
        row = first + tl.arange(0, step)
        here = (row < m)[:, None]
        value = tl.dot(_taps(x, row, m, height, width, c, stride, taps).to(kind), kernel)
        if fixed:
            value = tl.maximum(value * scale[None, :] + shift[None, :], 0.0)
        rounded = value.to(tl.bfloat16)
        tl.store(out + row.to(tl.int64)[:, None] * outside + channel[None, :], rounded, mask=here)
        if not fixed:  # a row that is not there reads nothing but zeros, and adds nothing
            value = rounded.to(tl.float32)
            total += value
            square += value * value
    if not fixed:
        tl.store(partial + split * 2 * outside + channel, tl.sum(total, 0))
        tl.store(partial + split * 2 * outside + outside + channel, tl.sum(square, 0))
        if all_here(arrived, splits):
            move_on(
                partial,
                arrived,
                weight,
                bias,
                running_mean,
                running_var,
                state,
                channel,
                m,
                outside,
                splits,
                momentum,
                eps,
                sum_step,
                block,
            )


@triton.jit
def _backward(
    slopes,
    z,
    x,
    state,
    sums,
    partial,
    m,
    outside: tl.constexpr,
    splits,
    height: tl.constexpr,
    width: tl.constexpr,
    c: tl.constexpr,
    stride: tl.constexpr,
    masked: tl.constexpr,
    step: tl.constexpr,
    block: tl.constexpr,
    taps_: tl.constexpr,
    kind: tl.constexpr,
):
    """partial: each split's part of the slopes of the weights, (splits, channels, taps)."""
    channel = tl.program_id(0) * block + tl.arange(0, block)
    split = tl.program_id(1)
    taps = tl.arange(0, taps_)
    share = tl.cdiv(tl.cdiv(m, step), splits) * step
    found = tl.zeros([block, taps_], tl.float32)
    for first in range(split * share, min(split * share + share, m), step):
        row = first + tl.arange(0, step)
        at = row.to(tl.int64)[:, None] * outside + channel[None, :]
        slope = slope_before(slopes, z, at, (row < m)[:, None], state, sums, channel, outside, masked)
        seen = _taps(x, row, m, height, width, c, stride, taps)
        found = tl.dot(tl.trans(slope.to(kind)), seen.to(kind), found)
    tl.store(partial + (split * outside + channel)[:, None] * taps_ + taps[None, :], found)


@triton.jit
def _add(partial, out, splits, places, used, taps: tl.constexpr, step: tl.constexpr, width: tl.constexpr):
    """The sums over all splits, in their order; of the taps only those that are `used`."""
    place = tl.program_id(0) * width + tl.arange(0, width)
    total = tl.zeros([step, width], tl.float32)
    for first in range(0, splits, step):
        split = first + tl.arange(0, step)
        total += tl.load(partial + split[:, None] * places + place[None, :], mask=(split < splits)[:, None], other=0.0)
    tap = place % taps
    tl.store(out + place // taps * used + tap, tl.sum(total, 0), mask=tap < used)


class _ConvNormAct(torch.autograd.Function):
    """Training: statistics of the batch; the result twice, as `triton_norm` gives it."""

    @staticmethod
    def forward(ctx: Any, x: Any, filters: Any, weight: Any, _bias: Any, norm: Any, stride: int) -> Any:
        z, state = _convolved(x, filters, norm, stride, fixed=False)
        y = triton_norm.apply(z, None, state, norm, fixed=False)
        ctx.save_for_backward(x, z, weight, state)
        ctx.has_residual, ctx.relu, ctx.arrived, ctx.stride = False, True, norm.arrived, stride
        ctx.set_materialize_grads(False)
        return y, y.detach()

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        x, z, weight, state = ctx.saved_tensors
        kept, sums, masked = triton_norm.back_sums(slopes, z, z, weight, state, ctx)
        (_, c, height, width), (m, outside) = x.shape, triton_norm.size(z)
        splits = min(BACK_SPLITS, triton.cdiv(m, STEP))
        partial = torch.empty((splits, outside, TAPS), device=x.device)
        block = triton_norm.CHANNELS
        shape = (height, width, c, ctx.stride)
        given = (kept, z, x, state, sums, partial, m, outside, splits, *shape, masked, STEP, block, TAPS, KIND)
        _backward[(outside // block, splits)](*given, num_warps=WARPS)
        filters, places = torch.empty((outside, 3, 3, c), device=x.device), outside * TAPS
        _add[(places // PLACES,)](partial, filters, splits, places, 9 * c, TAPS, ADDED, PLACES, num_warps=WARPS)
        return None, filters.permute(0, 3, 1, 2), sums[0], sums[1], None, None


def conv_norm_act(x: Any, filters: Any, stride: int, norm: Any) -> Any:
    """relu(normalise(convolve(x))): 3x3, padded by one, images (n, c, h, w) of at most three channels in bfloat16.

    `filters` are in float32. In training the result has an attribute `second`, as that of `triton_norm.norm_act`.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    if norm.training:
        y, y.second = _ConvNormAct.apply(x, filters, norm.weight, norm.bias, norm, stride)
        return y
    return _convolved(x, filters, norm, stride, fixed=True)[0]


def _convolved(x: Any, filters: Any, norm: Any, stride: int, fixed: bool) -> tuple[Any, Any]:
    """The convolution and the state of its normalisation; or, `fixed`, what is behind both and the ReLU."""
    (n, c, height, width), outside = x.shape, len(filters)
    down, across = ((side - 1) // stride + 1 for side in (height, width))
    out = torch.empty((n, down, across, outside), dtype=x.dtype, device=x.device).permute(0, 3, 1, 2)
    splits, partial = triton_norm.split_up(out)
    state = torch.empty((4, outside), device=x.device)
    m, block = n * down * across, triton_norm.CHANNELS
    if fixed:
        splits = min(MOST_SPLITS, triton.cdiv(m, STEP))
    given = (norm.arrived, norm.weight, norm.bias, norm.running_mean, norm.running_var, state)
    shape = (height, width, c, stride)
    rest = (norm.momentum, norm.eps, *shape, fixed, STEP, triton_norm.SUM_ROWS, block, TAPS, KIND)
    taps = filters.permute(0, 2, 3, 1).contiguous()  # as it lies in memory, in channels-last order
    _forward[(outside // block, splits)](x, taps, out, partial, *given, m, outside, splits, *rest, num_warps=WARPS)
    return out, state
