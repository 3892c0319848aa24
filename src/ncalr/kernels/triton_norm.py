"""Batch normalisation, residual and ReLU in one pass, for half-precision images in channels-last order.

A small-image network on a large GPU is bound by memory: a convolution of 64 channels is over before its result has
been read three times by normalisation, addition and ReLU. Here the sums are taken in one pass (partial sums of many
row blocks, so that the whole GPU works even for one small layer; the last program to arrive adds them up, always in
the same order, and moves the running statistics), and normalisation, residual and ReLU are one more pass; the same two
backwards, with the ReLU's mask recomputed from what is read anyway. Statistics are in float32. What ends a block is
read twice, by the next block's convolution and as its residual; the slopes of the two are added where they are read.

Who is last is told by counters, one for each 64 channels (`NormAct.arrived`), that are zero between calls. They belong
to the module: its calls follow each other on one stream.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

CHANNELS, ROWS, WARPS = 64, 64, 4  # channels and rows a program handles at a time
SUM_ROWS, SUM_WARPS = 32, 4  # the same for the sums
MOST_SPLITS, SPLIT_ROWS = 512, 256  # how the rows are split among programs


@triton.jit
def all_here(arrived, splits):
    """Whether this program is the last of its channels' programs to come here; it can read what all of them stored."""
    tl.debug_barrier()  # one thread reports for all of the program: they must have stored
    return tl.atomic_add(arrived + tl.program_id(0), 1, sem="acq_rel", scope="gpu") == splits - 1


@triton.jit
def _added(partial, arrived, channel, c: tl.constexpr, splits, step: tl.constexpr, width: tl.constexpr):
    """Both sums over all splits, in the order of the splits, whoever was last; and nobody has arrived any more."""
    first = tl.zeros([step, width], tl.float32)
    second = tl.zeros([step, width], tl.float32)
    for start in range(0, splits, step):
        split = start + tl.arange(0, step)
        here = (split < splits)[:, None]
        at = partial + split[:, None] * 2 * c + channel[None, :]
        first += tl.load(at, mask=here, other=0.0, cache_modifier=".cg")  # others wrote it: not from this core's cache
        second += tl.load(at + c, mask=here, other=0.0, cache_modifier=".cg")
    tl.store(arrived + tl.program_id(0), 0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def move_on(
    partial,
    arrived,
    weight,
    bias,
    running_mean,
    running_var,
    state,
    channel,
    m,
    c: tl.constexpr,
    splits,
    momentum,
    eps,
    step: tl.constexpr,
    width: tl.constexpr,
):
    """Of the sums of all splits: scale, shift, mean, inverse deviation; and the running statistics move on."""
    mean, moment = _added(partial, arrived, channel, c, splits, step, width)
    mean = mean / m
    var = tl.maximum(moment / m - mean * mean, 0.0)
    inverse = 1 / tl.sqrt(var + eps)
    scale = tl.load(weight + channel) * inverse
    tl.store(state + channel, scale)
    tl.store(state + c + channel, tl.load(bias + channel) - mean * scale)
    tl.store(state + 2 * c + channel, mean)
    tl.store(state + 3 * c + channel, inverse)
    old_mean, old_var = tl.load(running_mean + channel), tl.load(running_var + channel)
    tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_var + channel, old_var + momentum * (var * (m / (m - 1.0)) - old_var))


@triton.jit
def slope_before(slopes, x, at, here, state, sums, channel, c: tl.constexpr, masked: tl.constexpr):
    """The slope before the normalisation, of the slopes behind it and what was normalised."""
    mean, inverse = tl.load(state + 2 * c + channel)[None, :], tl.load(state + 3 * c + channel)[None, :]
    gain = tl.load(sums + 2 * c + channel)[None, :]
    mean_slope = tl.load(sums + 3 * c + channel)[None, :]
    mean_product = tl.load(sums + 4 * c + channel)[None, :]
    value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    slope = tl.load(slopes + at, mask=here, other=0.0).to(tl.float32)
    if masked:
        scale, shift = tl.load(state + channel)[None, :], tl.load(state + c + channel)[None, :]
        slope = tl.where(value * scale + shift > 0, slope, 0.0)
    return (gain * (slope - mean_slope - (value - mean) * inverse * mean_product)).to(tl.bfloat16)


@triton.jit
def _sums(
    x,
    partial,
    arrived,
    weight,
    bias,
    running_mean,
    running_var,
    state,
    m,
    c: tl.constexpr,
    splits,
    momentum,
    eps,
    step: tl.constexpr,
    width: tl.constexpr,
):
    """state: scale, shift, mean, inverse deviation; the running statistics move on."""
    channel = tl.program_id(0) * width + tl.arange(0, width)
    split = tl.program_id(1)
    share = tl.cdiv(tl.cdiv(m, step), splits) * step
    total = tl.zeros([step, width], tl.float32)
    square = tl.zeros([step, width], tl.float32)
    for first in range(split * share, min(split * share + share, m), step):
        row = first + tl.arange(0, step)
        v = tl.load(x + row[:, None] * c + channel[None, :], mask=(row < m)[:, None], other=0.0).to(tl.float32)
        total += v
        square += v * v
    tl.store(partial + split * 2 * c + channel, tl.sum(total, 0))
    tl.store(partial + split * 2 * c + c + channel, tl.sum(square, 0))
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
            c,
            splits,
            momentum,
            eps,
            step,
            width,
        )


@triton.jit
def _apply(
    x,
    residual,
    y,
    state,
    weight,
    bias,
    running_mean,
    running_var,
    m,
    eps,
    c: tl.constexpr,
    fixed: tl.constexpr,
    has_residual: tl.constexpr,
    relu: tl.constexpr,
    step: tl.constexpr,
    width: tl.constexpr,
):
    channel = tl.program_id(1) * width + tl.arange(0, width)
    if fixed:
        scale = tl.load(weight + channel) / tl.sqrt(tl.load(running_var + channel) + eps)
        shift = tl.load(bias + channel) - tl.load(running_mean + channel) * scale
    else:
        scale = tl.load(state + channel)
        shift = tl.load(state + c + channel)
    row = tl.program_id(0).to(tl.int64) * step + tl.arange(0, step)
    here = (row < m)[:, None]
    at = row[:, None] * c + channel[None, :]
    v = tl.load(x + at, mask=here, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    if has_residual:
        v += tl.load(residual + at, mask=here, other=0.0).to(tl.float32)
    if relu:
        v = tl.maximum(v, 0.0)
    tl.store(y + at, v.to(tl.bfloat16), mask=here)


@triton.jit
def _back_sums(
    dy,
    again,
    x,
    y,
    kept,
    partial,
    arrived,
    weight,
    state,
    out,
    m,
    c: tl.constexpr,
    splits,
    has_residual: tl.constexpr,
    has_again: tl.constexpr,
    relu: tl.constexpr,
    step: tl.constexpr,
    width: tl.constexpr,
):
    """out: d weight, d bias, then what the last pass needs: gain, mean slope, mean product.

    kept: the slope before the ReLU, where it is the residual's too or the sum of those of two readers. The ReLU's mask
    is read where there was a residual, else recomputed.
    """
    channel = tl.program_id(0) * width + tl.arange(0, width)
    split = tl.program_id(1)
    share = tl.cdiv(tl.cdiv(m, step), splits) * step
    scale, shift = tl.load(state + channel)[None, :], tl.load(state + c + channel)[None, :]
    mean, inverse = tl.load(state + 2 * c + channel)[None, :], tl.load(state + 3 * c + channel)[None, :]
    total = tl.zeros([step, width], tl.float32)
    product = tl.zeros([step, width], tl.float32)
    for first in range(split * share, min(split * share + share, m), step):
        row = first + tl.arange(0, step)
        here = (row < m)[:, None]
        at = row[:, None] * c + channel[None, :]
        value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        slope = tl.load(dy + at, mask=here, other=0.0).to(tl.float32)
        if has_again:  # rounded, as it is kept
            slope += tl.load(again + at, mask=here, other=0.0).to(tl.float32)
            slope = slope.to(tl.bfloat16).to(tl.float32)
        if relu:
            if has_residual:
                slope = tl.where(tl.load(y + at, mask=here, other=0.0).to(tl.float32) > 0, slope, 0.0)
            else:
                slope = tl.where(value * scale + shift > 0, slope, 0.0)
        if has_residual or has_again:
            tl.store(kept + at, slope.to(tl.bfloat16), mask=here)
        total += slope
        product += slope * (value - mean) * inverse
    tl.store(partial + split * 2 * c + channel, tl.sum(total, 0))
    tl.store(partial + split * 2 * c + c + channel, tl.sum(product, 0))
    if all_here(arrived, splits):
        whole, both = _added(partial, arrived, channel, c, splits, step, width)
        tl.store(out + channel, both)
        tl.store(out + c + channel, whole)
        tl.store(out + 2 * c + channel, tl.load(weight + channel) * tl.load(state + 3 * c + channel))
        tl.store(out + 3 * c + channel, whole / m)
        tl.store(out + 4 * c + channel, both / m)


@triton.jit
def _back_apply(
    slopes,
    x,
    dx,
    state,
    sums,
    m,
    c: tl.constexpr,
    masked: tl.constexpr,
    step: tl.constexpr,
    width: tl.constexpr,
):
    channel = tl.program_id(1) * width + tl.arange(0, width)
    row = tl.program_id(0).to(tl.int64) * step + tl.arange(0, step)
    here = (row < m)[:, None]
    at = row[:, None] * c + channel[None, :]
    result = slope_before(slopes, x, at, here, state, sums, channel, c, masked)
    tl.store(dx + at, result, mask=here)


class _NormAct(torch.autograd.Function):
    """Training: statistics of the batch. The result is given out twice: the slopes of two readers come in apart."""

    @staticmethod
    def forward(ctx: Any, x: Any, residual: Any, weight: Any, bias: Any, norm: Any) -> Any:
        m, c = size(x)
        splits, partial = split_up(x)
        state = torch.empty((4, c), device=x.device)
        given = (norm.arrived, weight, bias, norm.running_mean, norm.running_var)
        grid = (c // CHANNELS, splits)
        _sums[grid](
            x, partial, *given, state, m, c, splits, norm.momentum, norm.eps, SUM_ROWS, CHANNELS, num_warps=SUM_WARPS
        )
        y = apply(x, residual, state, norm, fixed=False)
        ctx.save_for_backward(x, x if residual is None else y, weight, state)
        ctx.has_residual, ctx.relu, ctx.arrived = residual is not None, norm.relu, norm.arrived
        ctx.set_materialize_grads(False)
        return y, y.detach()

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        x, y, weight, state = ctx.saved_tensors
        kept, sums, masked = back_sums(slopes, x, y, weight, state, ctx)
        m, c = size(x)
        dx = torch.empty_like(x)
        grid = (triton.cdiv(m, ROWS), c // CHANNELS)
        _back_apply[grid](kept, x, dx, state, sums, m, c, masked, ROWS, CHANNELS, num_warps=WARPS)
        return dx, kept if ctx.has_residual else None, sums[0], sums[1], None


def back_sums(slopes: Any, x: Any, y: Any, weight: Any, state: Any, ctx: Any) -> tuple[Any, Any, bool]:
    """The slopes of all readers in one, the sums over them, and whether the ReLU's mask is still to be put on them."""
    m, c = size(x)
    found = [slope.contiguous(memory_format=torch.channels_last) for slope in slopes if slope is not None]
    splits, partial = split_up(x)
    sums = torch.empty((5, c), device=x.device)
    keeps = ctx.has_residual or len(found) > 1
    kept = torch.empty_like(x) if keeps else found[0]
    given = (found[0], found[-1], x, y, kept, partial, ctx.arrived, weight, state, sums)
    flags = (ctx.has_residual, len(found) > 1, ctx.relu)
    _back_sums[(c // CHANNELS, splits)](*given, m, c, splits, *flags, SUM_ROWS, CHANNELS, num_warps=SUM_WARPS)
    return kept, sums, ctx.relu and not keeps


def norm_act(x: Any, residual: Any, norm: Any) -> Any:
    """relu(normalise(x) + residual) for a `NormAct` module: bfloat16, a multiple of 64 channels.

    In training the result has an attribute `second`: itself, for a second reader.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    if norm.training:
        y, y.second = _NormAct.apply(x, residual, norm.weight, norm.bias, norm)
        return y
    if torch.is_grad_enabled() and (x.requires_grad or norm.weight.requires_grad):
        raise RuntimeError("the fused normalisation has no gradient in evaluation mode")
    return apply(x, residual, x, norm, fixed=True)


def apply(x: Any, residual: Any, state: Any, norm: Any, fixed: bool) -> Any:
    """The last pass forwards, by the statistics of the batch or by the running ones."""
    m, c = size(x)
    y = torch.empty_like(x)
    _apply[(triton.cdiv(m, ROWS), c // CHANNELS)](
        x,
        x if residual is None else residual,
        y,
        state,
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        m,
        norm.eps,
        c,
        fixed,
        residual is not None,
        norm.relu,
        ROWS,
        CHANNELS,
        num_warps=WARPS,
    )
    return y


def split_up(x: Any) -> tuple[int, Any]:
    """Among how many programs the rows of a channel are split, and room for their two sums."""
    m, c = size(x)
    splits = min(MOST_SPLITS, max(1, m // SPLIT_ROWS))
    return splits, torch.empty((splits, 2, c), device=x.device)


def size(x: Any) -> tuple[int, int]:
    """Rows and channels."""
    n, c, height, width = x.shape
    return n * height * width, c
