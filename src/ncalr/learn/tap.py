"""Penultimate features of any network: what goes into its last linear layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ncalr.errors import BadInput


class Tap:
    """Listens at a layer's input. Without a name, at the last linear layer, which must give the network's output."""

    def __init__(self, net: nn.Module, layer: str = "") -> None:
        modules = dict(net.named_modules())
        if layer and layer not in modules:
            raise BadInput(f"the network has no layer {layer!r}; it has {', '.join(n for n in modules if n)}")
        heads = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
        if not layer and not heads:
            raise BadInput(
                f"{type(net).__name__} has no linear layer to take features from; name the layer whose input are the "
                "features with layer='name'"
            )
        self.name = layer or heads[-1]
        self.layer = modules[self.name]
        self.heard: Any = None
        self.listening = False
        self.layer.register_forward_pre_hook(self._hear)

    @property
    def weights(self) -> Any:
        """The weights (c, d) of the layer, where it is linear."""
        return self.layer.weight if isinstance(self.layer, nn.Linear) else None

    def __call__(self, net: nn.Module, x: Any) -> tuple[Any, Any]:
        """Features (n, d) and logits (n, c), both in float32."""
        self.listening = True
        try:
            logits = net(x)
        finally:
            self.listening = False
        features, self.heard = self.heard, None
        if features is None:
            raise BadInput(f"layer {self.name!r} was not used in the forward pass: name another layer")
        return torch.flatten(features, 1).float(), logits.float()

    def _hear(self, _layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.listening:
            self.heard = inputs[0]
