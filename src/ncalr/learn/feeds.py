"""Batches of a pool on the device: gathered there where the pool fits, streamed to it where it does not.

Images stay uint8 until the batch is made; cropping, mirroring and normalising happen on the device, after the
gather. Means and deviations of the channels are those of the pool (up to 8,192 items of it, evenly spread): the pool
is known before any label is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ncalr.data.pool import ArrayPool, Pool

SAMPLE = 8192


class Normaliser:
    """From raw items to what a network reads: (n, c, h, w) in channels-last order, (n, d), or tokens as they are."""

    def __init__(self, images: bool, tokens: bool, mean: Any, deviation: Any, device: torch.device) -> None:
        self.images, self.tokens = images, tokens
        self.mean = torch.as_tensor(mean, dtype=torch.float32, device=device)
        self.scale = (1 / torch.as_tensor(deviation, dtype=torch.float32)).to(device)  # there when this returns

    @classmethod
    def of(cls, pool: Pool, device: torch.device, scales: Mapping[str, Any] | None = None) -> Normaliser:
        """By the `scales` of another pool, or the pool's own: one a channel for images, one in all for vectors."""
        images, tokens = len(pool.shape) == 3, len(pool.shape) == 1 and pool.dtype.kind != "f"
        if scales is not None:
            return cls(images, tokens, scales["mean"], scales["deviation"], device)
        rows = np.unique(np.linspace(0, len(pool) - 1, min(SAMPLE, len(pool))).astype(np.intp))
        sample = pool.read(rows)
        if tokens:
            return cls(images, tokens, [0.0], [1.0], device)
        mean = sample.mean(axis=tuple(range(sample.ndim - 1)), dtype=np.float64)
        if images:
            deviation = sample.std(axis=(0, 1, 2), dtype=np.float64)
        else:  # one scale for all dimensions: embeddings keep their shape
            deviation = np.full_like(mean, float((sample - mean).std(dtype=np.float64)))
        return cls(images, tokens, mean, np.where(deviation > 0, deviation, 1.0), device)

    def scales(self) -> dict[str, list[float]]:
        """Plain numbers; see `rescaled`."""
        return {"mean": self.mean.tolist(), "deviation": (1 / self.scale).tolist()}

    def __call__(self, raw: Any, dtype: Any) -> Any:
        """Normalised, in this precision."""
        if self.tokens:
            return raw.long()
        ready = ((raw.float() - self.mean) * self.scale).to(dtype)
        return ready.permute(0, 3, 1, 2) if self.images else ready


def cut(items: Any, rows: Any, shift: Any = None, mirror: Any = None) -> Any:
    """These rows of `items`; where asked, each image moved by its shift (zeros come in) and mirrored."""
    if shift is None:
        return items[rows]
    height, width = items.shape[1:3]
    down = torch.arange(height, device=items.device) + shift[:, :1]
    across = torch.arange(width, device=items.device)
    across = torch.where(mirror[:, None], width - 1 - across, across) + shift[:, 1:]
    inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None, :]
    down, across = down.clamp(0, height - 1), across.clamp(0, width - 1)
    return items[rows[:, None, None], down[:, :, None], across[:, None, :]] * inside[..., None]


def readable(items: Any) -> Any:
    """The same numbers in a kind that torch has: it knows no unsigned ones but bytes."""
    return items.astype(np.int64) if items.dtype.kind == "u" and items.dtype != np.uint8 else items


class OnDevice:
    """The whole pool on the device (or, on the CPU, the pool's own memory)."""

    streamed = False

    def __init__(self, pool: Pool, device: torch.device) -> None:
        items = readable(pool.items if isinstance(pool, ArrayPool) else pool.read(slice(None)))
        if not items.flags.writeable:
            items = np.array(items)  # torch cannot share memory that may not be written
        self.items = torch.from_numpy(np.ascontiguousarray(items)).to(device)
        self.pool, self.device = pool, device

    @cached_property
    def normalise(self) -> Normaliser:
        """By the pool's own scales. They are computed when first asked for: a test set has those of another pool."""
        return Normaliser.of(self.pool, self.device)

    def read(self, rows: list[Any]) -> Iterator[Any]:
        """Raw batches for these lists of positions, on the device, in order."""
        for part in rows:
            yield self.items[torch.as_tensor(part, device=self.items.device)]


Feed = Any  # OnDevice or Streamed


def rescaled(feed: Feed, scales: dict[str, list[float]]) -> Feed:
    """The same items with the scales of another pool: a model must see test images as it saw its own."""
    other = copy(feed)
    other.normalise = Normaliser.of(feed.pool, feed.device, scales)
    return other


class _Rows(torch.utils.data.Sampler[Any]):
    """Lists of positions, one a batch; replaced before each epoch, so that the workers may live on."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class _Reader(torch.utils.data.Dataset[Any]):
    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def __getitem__(self, positions: Any) -> Any:
        return torch.from_numpy(readable(np.array(self.pool.read(np.asarray(positions)))))


class Streamed:
    """A pool that stays where it is: worker processes read batches ahead, through pinned memory."""

    streamed = True

    def __init__(self, pool: Pool, device: torch.device, workers: int) -> None:
        self.pool, self.device, self.workers = pool, device, workers
        self._open()

    def _open(self) -> None:
        self.sampler = _Rows()
        self.loader = torch.utils.data.DataLoader(
            _Reader(self.pool),
            sampler=self.sampler,
            batch_size=None,
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            persistent_workers=self.workers > 0,
            prefetch_factor=4 if self.workers else None,
        )

    @cached_property
    def normalise(self) -> Normaliser:
        """By the pool's own scales."""
        return Normaliser.of(self.pool, self.device)

    def again(self) -> Streamed:
        """The same pool with workers of its own: whoever reads by turns with others must not share theirs."""
        other = copy(self)
        other._open()
        return other

    def read(self, rows: list[Any]) -> Iterator[Any]:
        """Raw batches for these lists of positions, on the device, in order."""
        self.sampler.rows = rows
        for raw in self.loader:
            yield raw.to(self.device, non_blocking=True)
