"""The streaming passes of a GPU, in Triton (which comes with torch's CUDA builds).

**The CMAP pass** reads each feature once; the trouble is the class vectors. Two rows of a float32 table an item are
four times the bytes of a half-precision feature, and past a few dozen classes the tables do not fit the first-level cache,
so that the second level becomes the limit. So the feature dimension is cut into slices: a program keeps to one slice,
whose part of the tables fits the first-level cache, and walks over the rows; partial sums of the three inner products
(12 bytes an item and slice) are put together by a second, small kernel. Features pass the first-level cache by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from ncalr.kernels import Array, CmapTable

TABLE_BYTES = 160 << 10
"""How much of the class tables a program may have in the first-level cache (of 256 KB, less what streams through)."""


@triton.jit
def _cmap_partial(
    features,
    predictions,
    centre,
    across,
    along,
    partial,
    n,
    d: tl.constexpr,
    slices: tl.constexpr,
    width: tl.constexpr,
    rows: tl.constexpr,
    centred: tl.constexpr,
):
    program = tl.program_id(0)
    slice_at = program % slices
    walkers = tl.num_programs(0) // slices
    columns = slice_at * width + tl.arange(0, width)
    inside = columns < d
    if centred:
        middle = tl.load(centre + columns, mask=inside, other=0.0)
    for block in range(program // slices, tl.cdiv(n, rows), walkers):
        items = block * rows + tl.arange(0, rows)
        here = items < n
        mask = here[:, None] & inside[None, :]
        c = tl.load(predictions + items, mask=here, other=0).to(tl.int32)
        z = tl.load(
            features + items.to(tl.int64)[:, None] * d + columns[None, :],
            mask=mask,
            other=0.0,
            cache_modifier=".cg",
        ).to(tl.float32)
        if centred:
            z = tl.where(mask, z - middle[None, :], 0.0)
        place = c[:, None] * d + columns[None, :]
        s = tl.sum(z * tl.load(across + place, mask=mask, other=0.0, eviction_policy="evict_last"), axis=1)
        p = tl.sum(z * tl.load(along + place, mask=mask, other=0.0, eviction_policy="evict_last"), axis=1)
        q = tl.sum(z * z, axis=1)
        out = partial + slice_at.to(tl.int64) * 3 * n + items
        tl.store(out, s, mask=here)
        tl.store(out + n, p, mask=here)
        tl.store(out + 2 * n, q, mask=here)


@triton.jit
def _cmap_join(partial, predictions, reach, pull, result, n, slices: tl.constexpr, rows: tl.constexpr):
    items = tl.program_id(0) * rows + tl.arange(0, rows)
    here = items < n
    items = items.to(tl.int64)
    s = tl.zeros([rows], tl.float32)
    p = tl.zeros([rows], tl.float32)
    q = tl.zeros([rows], tl.float32)
    for at in tl.static_range(slices):
        base = partial + at * 3 * n.to(tl.int64)
        s += tl.load(base + items, mask=here, other=0.0)
        p += tl.load(base + n + items, mask=here, other=0.0)
        q += tl.load(base + 2 * n.to(tl.int64) + items, mask=here, other=0.0)
    c = tl.load(predictions + items, mask=here, other=0).to(tl.int32)
    a = tl.load(reach + c, mask=here, other=0.0) + p
    g = tl.load(pull + c, mask=here, other=0.0)
    t = tl.maximum(q - p * p, 0.0 * q)
    norm = tl.sqrt(a * a + t)
    shortfall = tl.where(a > 0, t / (norm + a), norm - a)
    tl.store(result + items, tl.where(norm > 0, (s - g * shortfall) / norm, q), mask=here)


def cmap(
    features: Array, predictions: Array, table: CmapTable, rows: int = 32, warps: int = 4, width: int = 0, waves: int = 8
) -> Array:
    """CMAP of each row of half- or single-precision features; tables in float32 on the same device.

    The last four arguments are the shape of the launch: rows a step, warps a program, dimensions a slice (0: as many as
    the cache holds), programs a processor.
    """
    n, d = features.shape
    classes = table.across.shape[0]
    if not width:
        width = triton.next_power_of_2(d)
        while width > 64 and 2 * 4 * classes * width > TABLE_BYTES:
            width //= 2
    slices = triton.cdiv(d, width)
    partial = torch.empty((slices, 3, n), dtype=torch.float32, device=features.device)
    result = torch.empty(n, dtype=torch.float32, device=features.device)
    processors = torch.cuda.get_device_properties(features.device).multi_processor_count
    programs = slices * max(1, processors * waves // slices)
    with torch.cuda.device(features.device):
        _cmap_partial[(programs,)](
            features,
            predictions,
            table.centre,
            table.across,
            table.along,
            partial,
            n,
            d,
            slices,
            width,
            rows,
            bool(table.centre.any()),
            num_warps=warps,
        )
        _cmap_join[(triton.cdiv(n, 1024),)](partial, predictions, table.reach, table.pull, result, n, slices, 1024)
    return result


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
def _farthest(weight, between, picked, counted, bound, most, m, size: tl.constexpr):
    items = tl.arange(0, size)
    here = items < m
    w = tl.load(weight + items, mask=here, other=-1.0)
    count = 0
    best, at = tl.max(w, axis=0, return_indices=True)
    while (count < most) & (best >= bound) & (best >= 0):
        tl.store(picked + count, at)
        row = tl.load(between + at.to(tl.int64) * m + items, mask=here, other=0.0)
        w = tl.where(items == at, -1.0, tl.minimum(w, row))
        count += 1
        best, at = tl.max(w, axis=0, return_indices=True)
    tl.store(weight + items, w, mask=here)
    tl.store(counted, count)


def farthest_in_block(weight: Array, between: Array, bound: float, most: int) -> Any:
    """Farthest-first inside a block, all picks in one launch: the block's weights stay in registers."""
    m = len(weight)
    picked = torch.empty(most + 1, dtype=torch.int32, device=weight.device)
    with torch.cuda.device(weight.device):
        _farthest[(1,)](
            weight, between, picked, picked[most:], max(bound, -1.0), most, m, triton.next_power_of_2(m), num_warps=8
        )
    found = picked.cpu().numpy()
    return found[: found[most]].astype(np.int64)
