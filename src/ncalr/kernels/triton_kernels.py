"""The streaming passes of a GPU, in Triton (which comes with torch's CUDA builds).

**The CMAP pass** reads each feature once; the trouble is the class vectors. Two rows of a float32 table an item are
four times the bytes of a half-precision feature, and fetching them for items in pool order keeps the load units
busier than the memory (measured: half of the copy bandwidth, whatever the number of classes). So the items are first
sorted by predicted class, which costs a tenth of the pass; a program then takes a run of items of one class, with the
class's two vectors in registers, and memory carries the features alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from ncalr.kernels import Array, CmapTable

MOST_RUNS = 4096
"""How many runs (classes times windows) the pool is cut into, unless there are more classes."""


@triton.jit
def _cmap(
    features,
    order,
    bounds,
    blocks,
    block_run,
    centre,
    across,
    along,
    reach,
    pull,
    result,
    classes,
    d: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
    rows: tl.constexpr,
    centred: tl.constexpr,
    stages: tl.constexpr,
):
    block = tl.program_id(0)
    run = tl.load(block_run + block)
    before = tl.load(blocks + run - 1, mask=run > 0, other=0)
    start = tl.load(bounds + run - 1, mask=run > 0, other=0).to(tl.int32) + (block - before) * rows
    stop = tl.minimum(start + rows, tl.load(bounds + run).to(tl.int32))  # before start for blocks beyond the last
    c = run % classes
    n_r = tl.load(reach + c)
    g = tl.load(pull + c)
    for first in tl.range(start, stop, step, num_stages=stages):
        spots = first + tl.arange(0, step)
        here = spots < stop
        items = tl.load(order + spots, mask=here, other=0).to(tl.int64)
        s = tl.zeros([step, width], tl.float32)
        p = tl.zeros([step, width], tl.float32)
        q = tl.zeros([step, width], tl.float32)
        for left in tl.static_range(0, d, width):
            columns = left + tl.arange(0, width)
            inside = columns < d
            mask = here[:, None] & inside[None, :]
            z = tl.load(features + items[:, None] * d + columns[None, :], mask=mask, other=0.0).to(tl.float32)
            if centred:
                middle = tl.load(centre + columns, mask=inside, other=0.0)
                z = tl.where(mask, z - middle[None, :], 0.0)
            s += z * tl.load(across + c * d + columns, mask=inside, other=0.0)[None, :]
            p += z * tl.load(along + c * d + columns, mask=inside, other=0.0)[None, :]
            q += z * z
        turned = tl.sum(s, axis=1)
        length = tl.sum(p, axis=1)
        square = tl.sum(q, axis=1)
        a = n_r + length
        t = tl.maximum(square - length * length, 0.0 * square)
        norm = tl.sqrt(a * a + t)
        shortfall = tl.where(a > 0, t / (norm + a), norm - a)
        tl.store(result + items, tl.where(norm > 0, (turned - g * shortfall) / norm, 0.0 * square), mask=here)


@triton.jit
def _keys(predictions, keys, n, classes, window, size: tl.constexpr):
    items = tl.program_id(0) * size + tl.arange(0, size)
    here = items < n
    c = tl.load(predictions + items, mask=here, other=0).to(tl.int32)
    tl.store(keys + items, (items // window * classes + c).to(keys.dtype.element_ty), mask=here)


def cmap(
    features: Array,
    predictions: Array,
    table: CmapTable,
    rows: int = 128,
    step: int = 8,
    warps: int = 1,
    stages: int = 2,
) -> Array:
    """CMAP of each row of half- or single-precision features; tables in float32 on the same device.

    `rows` (items a program), `step` (items a turn), `warps` and `stages` (turns in flight) are the shape of the launch.
    Items are sorted inside windows, so that neighbours in memory are read at about the same time. Nothing waits for the
    device: the number of blocks is an upper bound, and those beyond the last find nothing to do.
    """
    n, d = features.shape
    classes, device = len(table.reach), features.device
    window = max(8192, triton.cdiv(n, max(1, MOST_RUNS // classes)))
    runs = triton.cdiv(n, window) * classes
    kind = torch.uint8 if runs <= 256 else torch.int16 if runs <= 32768 else torch.int32
    most = n // rows + runs
    keys = torch.empty(n, dtype=kind, device=device)
    result = torch.empty(n, dtype=torch.float32, device=device)
    width = min(triton.next_power_of_2(d), 32 * 16 // features.element_size())  # a row stays inside one warp
    with torch.cuda.device(device):
        _keys[(triton.cdiv(n, 4096),)](predictions, keys, n, classes, window, 4096)
        keys, order = torch.sort(keys, stable=True)
        bounds = torch.searchsorted(keys, _numbers(runs, kind, device), right=True)
        counts = torch.diff(bounds, prepend=bounds.new_zeros(1))
        blocks = torch.cumsum((counts + (rows - 1)) // rows, 0, dtype=torch.int32)
        block_run = torch.searchsorted(blocks, _numbers(most, torch.int32, device), right=True, out_int32=True)
        _cmap[(most,)](
            features,
            order,
            bounds,
            blocks,
            block_run.clamp_max_(runs - 1),
            table.along if table.centre is None else table.centre,
            table.across,
            table.along,
            table.reach,
            table.pull,
            result,
            classes,
            d,
            width,
            step,
            rows,
            table.centre is not None,
            stages,
            num_warps=warps,
        )
    return result


@cache
def _numbers(count: int, kind: torch.dtype, device: torch.device) -> Array:
    return torch.arange(count, device=device).to(kind)


@triton.jit
def _flips(log, count, n, checkpoints, rows: tl.constexpr):
    items = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)
    here = items < n
    before = tl.load(log + items, mask=here, other=0)
    total = tl.zeros([rows], tl.int16)
    for t in range(1, checkpoints):
        after = tl.load(log + t * n.to(tl.int64) + items, mask=here, other=0)
        total += (after != before).to(tl.int16)
        before = after
    tl.store(count + items, total, mask=here)


def flips(log: Array) -> Array:
    """Changes between consecutive rows of predictions (t, n), in one pass."""
    checkpoints, n = log.shape
    count = torch.empty(n, dtype=torch.int16, device=log.device)
    with torch.cuda.device(log.device):
        _flips[(triton.cdiv(n, 2048),)](log, count, n, checkpoints, 2048)
    return count


@triton.jit
def _farthest(weight, between, picked, values, counted, bound, most, m, size: tl.constexpr):
    items = tl.arange(0, size)
    here = items < m
    w = tl.load(weight + items, mask=here, other=-1.0)
    count = 0
    best, at = tl.max(w, axis=0, return_indices=True)
    while (count < most) & (best >= bound) & (best >= 0):
        tl.store(picked + count, at)
        tl.store(values + count, best)
        row = tl.load(between + at.to(tl.int64) * m + items, mask=here, other=0.0)
        w = tl.where(items == at, -1.0, tl.minimum(w, row))
        count += 1
        best, at = tl.max(w, axis=0, return_indices=True)
    tl.store(weight + items, w, mask=here)
    tl.store(counted, count)


def farthest_in_block(weight: Array, between: Array, bound: float, most: int) -> tuple[Any, Any]:
    """Farthest-first inside a block, all picks in one launch: the block's weights stay in registers."""
    m = len(weight)
    picked = torch.empty(most + 1, dtype=torch.int32, device=weight.device)
    values = torch.empty(most, dtype=weight.dtype, device=weight.device)
    with torch.cuda.device(weight.device):
        _farthest[(1,)](
            weight,
            between,
            picked,
            values,
            picked[most:],
            max(bound, -1.0),
            most,
            m,
            triton.next_power_of_2(m),
            num_warps=8,
        )
    found = picked.cpu().numpy()
    count = int(found[most])
    return found[:count].astype(np.int64), values[:count].double().cpu().numpy()
