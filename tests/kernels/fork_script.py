"""Query and train in a process, then in its forked children and grandchildren; print what each of them chose."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

if sys.argv[1] == "torch first":  # torch's own copy of OpenMP is loaded beside numba's; otherwise they share one
    pass

import ncalr
from ncalr.kernels import openmp

LOGITS = np.random.default_rng(0).normal(size=(5000, 10)).astype(np.float32)


def work(_: Any = None) -> str:
    """Run a compiled loop and a step of torch, both on several threads."""
    import torch

    ids = ncalr.query("margin", 3, logits=LOGITS).ids.tolist()
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(3, 8, 3)
    layer(torch.randn(32, 3, 32, 32)).square().sum().backward()
    return f"{ids} {layer.weight.grad.norm():.4f} {torch.get_num_threads()}"


def descend(depth: int) -> None:
    """Work in a child, which forks a child of its own."""
    number = os.fork()
    if number == 0:
        signal.alarm(300)  # what hangs is ended
        print(work(), flush=True)
        if depth > 1:
            descend(depth - 1)
        os._exit(0)
    assert os.waitpid(number, 0)[1] == 0


def refuse() -> None:
    """Query in the child of a process whose OpenMP cannot give its threads up."""
    openmp._copies = lambda: [object()]
    number = os.fork()
    if number == 0:
        try:
            work()
        except openmp.Forked as error:
            print("refused" if "spawn" in str(error) else error, flush=True)
        os._exit(0)
    assert os.waitpid(number, 0)[1] == 0


if __name__ == "__main__":
    print(work(), flush=True)
    descend(2)
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        print(*pool.map(work, range(2), timeout=300), sep="\n", flush=True)
    refuse()
