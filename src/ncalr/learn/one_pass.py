"""The optimiser's step of a recorded training step, in one pass over memory: `ncalr.kernels.triton_update`.

Layers that compute in half precision read copies of their weights that stay (`Halves.copies`); the pass moves a weight
on by the slope of its copy, and writes the copy anew. A weight that is also read as it is (a tied embedding, a penalty)
has slopes of both kinds: they meet in its own, and its copy, like one that no layer read, is made anew by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ncalr.learn.recipes import Recipe


class OnePass:
    """Made after a backward pass, which says who has slopes of which kind; then as often as wanted: backward, step."""

    def __init__(self, kernels: Any, params: Sequence[Any], momenta: Sequence[Any], copies: dict[int, Any]) -> None:
        """`copies` by the id of their weights. Those who had no slope are left alone, as torch's optimisers do."""
        self.copies = copies
        self.both: list[tuple[Any, Any]] = []  # weight and copy: slopes of both kinds
        self.apart: list[tuple[Any, Any]] = []  # copy and weight: not written by the pass
        moved: list[tuple[Any, Any, Any]] = []
        for weight, momentum in zip(params, momenta, strict=True):
            copy = copies.get(id(weight))
            if weight.grad is not None:
                self.both += [(weight, copy)] if copy is not None and copy.grad is not None else []
                self.apart += [(copy, weight)] if copy is not None else []
                moved.append((weight, momentum, None))
            elif copy is not None and copy.grad is not None:
                moved.append((weight, momentum, copy))
        weights, momenta, halved = zip(*moved, strict=True)
        self.readers = [weight if copy is None else copy for weight, copy in zip(weights, halved, strict=True)]
        known = {id(one) for one in (*self.readers, *(copy for _, copy in self.both))}
        self.others = [one for one in (*params, *copies.values()) if id(one) not in known]
        self.update = kernels.Update(weights, momenta, halved)

    def step(self, rate: Any, recipe: Recipe) -> None:
        """Move on by the slopes of the last backward pass."""
        with torch.no_grad():
            for weight, copy in self.both:
                if weight.grad is not None and copy.grad is not None:
                    weight.grad += copy.grad
            self.update.step(rate, recipe.momentum, recipe.decay, recipe.nesterov and recipe.momentum > 0)
            if self.apart:
                torch._foreach_copy_([copy for copy, _ in self.apart], [weight for _, weight in self.apart])

    def settle(self) -> None:
        """Say where the slopes lie: before the step runs.

        An error where they lie otherwise than their weights, or where others have slopes now than had the first time.
        """
        if any(one.grad is not None for one in self.others) or any(copy.grad is None for _, copy in self.both):
            raise ValueError("other parameters have slopes than had the first time")
        self.update.settle([reader.grad for reader in self.readers])

    def forget(self) -> None:
        """No slopes of copies any more."""
        for copy in self.copies.values():
            copy.grad = None
