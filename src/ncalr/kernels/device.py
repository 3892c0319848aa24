"""torch, on a GPU (or on the CPU where numba is missing).

Streaming passes that torch can only express with several trips through memory have a Triton kernel
(`triton_kernels.py`), used where Triton is there; the torch lines beside the call are what it computes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from ncalr.kernels import OFF, Array, CmapTable, Rows, to_numpy, triton_module


class Device:
    """The torch backend on one device."""

    xp = torch
    held_bytes = 8 << 30
    block_rows = 4096

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.triton = triton_module("kernels") if device.type == "cuda" else None
        self.chunk_bytes = (4 << 30) if self.triton else (256 << 20)  # plain torch makes copies as large as the chunk

    def block(self, array: Array, rows: Rows) -> Array:
        if isinstance(array, torch.Tensor):
            if isinstance(rows, np.ndarray):
                rows = torch.from_numpy(rows).to(array.device)
            return array.detach()[rows].to(self.device).contiguous()
        return self.asarray(np.ascontiguousarray(array[rows.cpu().numpy() if isinstance(rows, torch.Tensor) else rows]))

    def asarray(self, array: Array, dtype: str | None = None) -> Array:
        if not isinstance(array, torch.Tensor):
            array = np.asarray(array)
            array = array.astype(np.int64) if array.dtype.kind == "u" and array.dtype.itemsize > 1 else array
            plain = array.flags.writeable and min(array.strides, default=0) >= 0
            array = torch.from_numpy(array if plain else array.copy())
        array = array.detach().to(self.device)
        return array if dtype is None else array.to(getattr(torch, dtype))

    def hold(self, array: Array) -> Array:
        return self.asarray(array)

    def wide(self, array: Array) -> Array:
        return array if array.dtype in (torch.float32, torch.float64) else array.float()

    def numpy(self, array: Array) -> Any:
        return to_numpy(array)

    def cmap(self, features: Array, predictions: Array, table: CmapTable) -> Array:
        kind = torch.float64 if features.dtype == torch.float64 else torch.float32
        table = CmapTable(*(t if t is None else self.asarray(t).to(kind) for t in table))
        if self.triton and kind == torch.float32:
            return self.triton.cmap(features, predictions, table)
        centre, across, along, reach, pull = table
        c = predictions.long()
        z = features.to(kind) if centre is None else features.to(kind) - centre
        s = (z * across[c]).sum(1)
        p = (z * along[c]).sum(1)
        q = (z * z).sum(1)
        a = reach[c] + p
        t = (q - p * p).clamp_min(0)
        norm = torch.sqrt(a * a + t)
        shortfall = torch.where(a > 0, t / (norm + a), norm - a)
        return torch.where(norm > 0, (s - pull[c] * shortfall) / norm, 0.0 * q)

    def uncertainty(self, outputs: Array, kind: str, logits: bool) -> Array:
        x = self.wide(outputs)
        spoiled = (x * 0).sum(1) if logits else _no_share(x)  # not finite where the row is not
        top, at = x.max(1, keepdim=True)
        if logits:
            x = torch.exp(x - top)
        if kind == "entropy" and not logits:
            return torch.special.entr(x).sum(1) + spoiled
        rivals = x.scatter(1, at, 0.0)
        rest = rivals.sum(1)
        if kind == "entropy":
            return torch.log1p(rest) - torch.special.xlogy(x, x).sum(1) / (1 + rest) + spoiled
        score = rest + rivals.amax(1) if kind == "margin" else rest
        return (score / (1 + rest) if logits else score) + spoiled

    def top(self, values: Array, m: int) -> tuple[Any, Any]:
        cut = torch.topk(values, m, sorted=True).values[-1]
        return self.numpy(torch.nonzero(values > cut)[:, 0]), self.numpy(torch.nonzero(values == cut)[:, 0])

    def least(self, own: Array, inner: Array) -> Array:
        return torch.amin(own - inner, 1)

    def nearest_squares(self, inner: Array, own: Array, others: Array, count: int) -> Array:
        squares = (own[:, None] + others[None, :]).sub_(inner, alpha=2)
        return squares.topk(count, dim=1, largest=False, sorted=True).values.clamp_min(0)

    def flips(self, log: Array) -> Array:
        if self.triton:
            return self.triton.flips(torch.stack(list(log)))
        count = torch.zeros(len(log[0]), dtype=torch.int16, device=self.device)
        for before, after in pairwise(log):
            count += before != after
        return count

    def sum_by(self, rows: Array, groups: Any, count: int) -> Array:
        total = torch.zeros(count, rows.shape[1], dtype=rows.dtype, device=self.device)
        return total.index_add_(0, self.asarray(groups, "int64"), rows)

    def add_sample(self, probs: Array, total: Array, doubt: Array) -> None:
        total += probs
        x = self.wide(probs)
        doubt += torch.special.entr(x).sum(1) + _no_share(x)

    def argmax(self, outputs: Array) -> Array:
        return outputs.argmax(1)

    def farthest_in_block(self, weight: Array, between: Array, bound: float, most: int) -> tuple[Any, Any]:
        if self.triton:
            found: tuple[Any, Any] = self.triton.farthest_in_block(weight, between, bound, most)
            return found
        picked: list[int] = []
        values: list[float] = []
        while len(picked) < most:
            best = int(weight.argmax())
            if float(weight[best]) < max(bound, 0.0):
                break
            picked.append(best)
            values.append(float(weight[best]))
            torch.minimum(weight, between[best], out=weight)
            weight[best] = -1
        return np.array(picked, np.int64), np.array(values)

    def race(self, weight: Array, keys: Array, draw: int, listed: int) -> tuple[Any, Any]:
        words = self.words(np.array([draw], np.uint64))
        time, at = torch.topk(weight / self.waits(keys, words)[0], min(listed, len(weight)))
        time, at = time.cpu().numpy(), at.cpu().numpy()
        return at[time > 0], time[time > 0]

    def words(self, words: Any) -> Array:
        return self.asarray(words.view(np.int64))

    def waits(self, keys: Array, draws: Array) -> Array:
        return -torch.log((_shift(_mix(keys ^ draws[:, None]), 11).double() + 0.5) * 2.0**-53)

    def to_kernel(self, dots: Array, row_norms: Array, norms: Array, scale: float, ball: bool) -> Array:
        dots *= -2
        dots += row_norms[:, None]
        dots += norms[None, :]
        dots.clamp_(min=0).mul_(scale)
        return dots.copy_(dots < 1) if ball else dots.neg_().exp_()

    def coverage_drop(self, kernel: Array, slots: Any, old: Array, new: Array, worth: Array) -> Array:
        rows = kernel[slots]
        less = (rows - old[:, None]).clamp_min(0) - (rows - new[:, None]).clamp_min(0)
        return (less * worth[:, None]).sum(0, dtype=torch.float64)

    def pairs_within(
        self, dots: Array, row_norms: Array, norms: Array, row_reach: Array, reach: Array, diagonal: int
    ) -> tuple[Any, Any, Any]:
        squares = (dots.mul_(-2).add_(row_norms[:, None]).add_(norms)).clamp_min_(0)
        near = squares < torch.maximum(row_reach[:, None], reach)
        near.diagonal(diagonal).fill_(True)
        rows, columns = torch.nonzero(near.triu_(diagonal), as_tuple=True)
        found = torch.where(columns == rows + diagonal, 0.0, squares[rows, columns])
        return self.numpy(rows.int()), self.numpy(columns.int()), self.numpy(found)

    def pair_squares(self, rows: Array, first: Any, second: Any) -> Array:
        parts = zip(*(self.asarray(which, "int64").split(1 << 18) for which in (first, second)), strict=True)
        return torch.cat([(rows[i] - rows[j]).square().sum(1) for i, j in parts])

    def is_finite(self, array: Array) -> bool:
        return not array.is_floating_point() or bool((array * 0).sum() == 0)


def _signed(word: int) -> int:
    """A 64-bit word as torch's signed integer."""
    return word - 2**64 if word >= 2**63 else word


def _shift(x: Array, by: int) -> Array:
    """Right shift of the unsigned word behind a signed integer."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Array) -> Array:
    """`kernels.compiled.mix` on signed integers."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _no_share(probs: Array) -> Array:
    """0 for each row of probabilities, NaN for a row that is none."""
    good = ((probs.sum(1) - 1).abs() <= OFF) & ((probs.abs().sum(1) - 1).abs() <= OFF)
    return torch.where(good, 0.0, torch.nan).to(probs.dtype)
