"""Half-precision copies of a network's weights for one training step, made in one go and not one by one.

Autocast turns every weight of a convolution or a linear layer to bfloat16 where it is used, and every gradient back to
float32: two small kernels a weight and step. Here one kernel makes all copies before the step, each layer reads its own
while it computes, and one kernel turns all gradients back. The numbers are autocast's to the last bit. Only the layers
themselves see the copies: whoever reads a weight in another way (a tied embedding, a penalty) has the float32 one, and
gradients of all readers meet there. Where an optimiser keeps copies up to date itself (`ncalr.kernels.triton_update`),
they are leaves with half-precision gradients of their own (`copies`), and nothing is turned at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

CAST = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
"""Layers that do nothing with their parameters but what autocast does in half precision. Subclasses may do more."""


class _Halve(torch.autograd.Function):
    """bfloat16 copies of float32 tensors; gradients come back in float32."""

    @staticmethod
    def forward(ctx: Any, *weights: Any) -> Any:
        """One kernel for all."""
        copies = tuple(torch.empty_like(weight, dtype=torch.bfloat16) for weight in weights)
        torch._foreach_copy_(copies, weights)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(copies[at] for at, learns in enumerate(ctx.needs_input_grad) if not learns))
        return copies

    @staticmethod
    def backward(_ctx: Any, *slopes: Any) -> Any:
        """One kernel for all that were used."""
        used = [at for at, slope in enumerate(slopes) if slope is not None]
        wide = [torch.empty_like(slopes[at], dtype=torch.float32) for at in used]
        torch._foreach_copy_(wide, [slopes[at] for at in used])
        return tuple(dict(zip(used, wide, strict=True)).get(at) for at in range(len(slopes)))


class Halves:
    """Those of some modules that compute with copies, and the parameters these are made of."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.layers = [module for module in modules if type(module) in CAST and "forward" not in vars(module)]
        every = {id(p): p for layer in self.layers for p in layer.parameters() if p.dtype == torch.float32}
        self.weights = list(every.values())

    def copies(self) -> list[Any]:
        """Copies that stay, for `lent`: whoever changes the weights brings them up to date (`refresh`)."""
        return [weight.detach().to(torch.bfloat16).requires_grad_(weight.requires_grad) for weight in self.weights]

    def refresh(self, copies: Sequence[Any]) -> None:
        """Bring copies that stay up to date with the weights."""
        if self.weights:
            with torch.no_grad():
                torch._foreach_copy_(list(copies), self.weights)

    @contextmanager
    def lent(self, copies: Sequence[Any] | None = None) -> Iterator[None]:
        """Inside, the layers compute with these copies of their weights, or fresh ones, wherever autocast is on."""
        if copies is None:
            copies = _Halve.apply(*self.weights) if self.weights else ()
        by_weight = {id(weight): copy for weight, copy in zip(self.weights, copies, strict=True)}
        for layer in self.layers:
            own = {name: by_weight.get(id(p), p) for name, p in layer._parameters.items()}
            layer.forward = _forward(layer, own)
        try:
            yield
        finally:
            for layer in self.layers:
                del layer.forward


def _forward(layer: nn.Module, copies: dict[str, Any]) -> Callable[..., Any]:
    """The layer's own forward pass with these parameters in place of its own."""

    def forward(*inputs: Any, **named: Any) -> Any:
        kind = layer.weight.device.type
        cast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16
        own = layer._parameters
        layer._parameters = copies if cast else own
        try:
            return type(layer).forward(layer, *inputs, **named)
        finally:
            layer._parameters = own

    forward.copies = copies  # type: ignore[attr-defined]
    return forward


def does_its_own(layer: nn.Module) -> bool:
    """Whether a forward pass of the layer is that of its class, with its weights or with copies of them."""
    put = vars(layer).get("forward")
    listeners = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    return not listeners and (put is None or hasattr(put, "copies"))
