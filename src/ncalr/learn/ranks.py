"""Several processes, one training: data-parallel through torch's own distributed package.

    torchrun --nproc-per-node 2 train.py        # train.py calls `ncalr.learn.ranks.start()` first, then fits as ever

Every process (rank) holds the whole network and takes its share of each batch and of each look at the labelled set and
the pool. What makes the result that of one process: the gradient is the sum over all ranks of their shares of the same
loss; batch normalisation takes its mean and variance over the batches of all ranks (`NormAct`); sums of class
statistics and of the collapse measures add; predictions of the pool are put together in order, so every rank has the
whole record. Sums run in another order than on one process: the last bits differ, and a training amplifies them.

Under torchrun the addresses come from the environment; gloo on the CPU, nccl on GPUs. Without `start`, and on one
process, nothing here is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import distributed


@dataclass(frozen=True)
class Ranks:
    """This process among its peers; alone, every method gives back what it was given."""

    rank: int = 0
    size: int = 1
    together: bool = False  # whether a process group is open

    def share(self, rows: Any) -> Any:
        """This rank's part of some rows, which are split into consecutive runs."""
        return np.array_split(rows, self.size)[self.rank] if self.size > 1 else rows

    def part(self, count: int) -> slice:
        """The same as places in a batch of so many."""
        mine = self.share(np.arange(count))
        return slice(int(mine[0]), int(mine[-1]) + 1) if len(mine) else slice(0, 0)

    def add(self, tensor: Any) -> Any:
        """The sum over all ranks, in place."""
        if self.together:
            distributed.all_reduce(tensor)
        return tensor

    def least(self, tensor: Any) -> Any:
        """The least over all ranks, in place."""
        if self.together:
            distributed.all_reduce(tensor, distributed.ReduceOp.MIN)
        return tensor

    def join(self, part: Any, rows: int, dim: int = 0) -> Any:
        """The parts of all ranks, one after the other: `rows` in all along `dim`."""
        if self.size == 1:
            return part
        sizes = [len(run) for run in np.array_split(np.arange(rows), self.size)]
        part = part.movedim(dim, 0).contiguous()
        padded = part.new_zeros((max(sizes), *part.shape[1:]))
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        return torch.cat([one[:size] for one, size in zip(parts, sizes, strict=True)]).movedim(0, dim)

    def wait(self) -> None:
        """Until every rank is here."""
        if self.together:
            distributed.barrier()


def start(device: str | None = None) -> Ranks:
    """Join the processes that torchrun started. Alone, where it started none."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        cuda = torch.cuda.is_available() and device != "cpu"
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        distributed.init_process_group("nccl" if cuda else "gloo")
    return current()


def current() -> Ranks:
    """This process among its peers."""
    if distributed.is_available() and distributed.is_initialized():
        return Ranks(distributed.get_rank(), distributed.get_world_size(), True)
    return Ranks()


def stop() -> None:
    """Leave the others."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
