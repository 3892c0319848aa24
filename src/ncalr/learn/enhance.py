"""SISOM's enhanced features: activations weighed by their gradient, through a sigmoid.

Schmidt et al., "A Unified Approach Towards Active Learning and Out-of-Distribution Detection" (2025). For each of some
layers h_j, g_j is the gradient of the cross-entropy between the uniform distribution and the prediction; both are
averaged over space and e_j = sigmoid(alpha_j * h_j * g_j); the layers are put side by side. For our residual networks
the layers are the outputs of the first three stages and the penultimate features, as the authors have them; for any
other network the penultimate features alone. One backward pass an item. The alphas are the recipe's `steepness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from ncalr.errors import BadInput
from ncalr.learn.nets.resnet import ResNet


class Enhancer:
    """Enhanced features of a slot's network. `steepness` counts from the last layer to the first."""

    def __init__(self, slot: Any, steepness: Sequence[float]) -> None:
        self.slot = slot
        self.stages = list(slot.net.stages)[:3] if isinstance(slot.net, ResNet) else []
        layers = len(self.stages) + 1
        if len(steepness) < layers:
            raise BadInput(f"steepness needs {layers} numbers for this network, last layer first, got {len(steepness)}")
        self.steepness = list(steepness)[:layers][::-1]

    def __call__(self, x: Any) -> Any:
        """(n, e) for a chunk of inputs."""
        slot = self.slot
        heard: list[Any] = []
        hooks = [stage.register_forward_hook(lambda _m, _i, out: heard.append(out)) for stage in self.stages]
        hooks.append(slot.tap.layer.register_forward_pre_hook(lambda _m, inputs: heard.append(inputs[0])))
        slot.net.eval()
        try:
            with torch.enable_grad(), slot.autocast():
                logits = slot.net(x.requires_grad_(x.is_floating_point()))
                loss = -F.log_softmax(logits.float(), 1).mean(1).sum()
                slopes = torch.autograd.grad(loss, heard)
        finally:
            slot.net.train()
            for hook in hooks:
                hook.remove()
        parts = []
        for activation, slope, alpha in zip(heard, slopes, self.steepness, strict=True):
            h, g = _over_space(activation.detach()), _over_space(slope)
            parts.append(torch.sigmoid(alpha * h * g))
        return torch.cat(parts, 1)


def _over_space(values: Any) -> Any:
    return values.float().mean((2, 3)) if values.ndim == 4 else values.float()
