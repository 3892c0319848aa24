"""Batch normalisation with what follows it: an optional residual, then an optional ReLU.

The three are one pass over the activations on a GPU (`ncalr.kernels.triton_norm`), where a training of small images
is bound by memory, and three plain operations elsewhere. Parameters and what is saved are those of `nn.BatchNorm2d`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ncalr.learn.ranks import AddAll, current


class NormAct(nn.BatchNorm2d):
    """relu(normalise(x) + residual), each of the two optional."""

    def __init__(self, channels: int, relu: bool = True) -> None:
        super().__init__(channels)
        self.relu = relu
        self.register_buffer("arrived", torch.zeros(channels // 64, dtype=torch.int32), persistent=False)

    def forward(self, x: Any, residual: Any = None) -> Any:
        """As the class says."""
        if self.training and current().together:
            return self._over_all_ranks(x, residual)
        slopes = torch.is_grad_enabled() and not self.training  # as for SISOM: the fused pass has none there
        wide = x.is_cuda and x.dtype == torch.bfloat16 and x.shape[1] % 64 == 0
        if wide and not slopes and not self.is_traced() and _fused():
            from ncalr.kernels import triton_norm

            return triton_norm.norm_act(x, residual, self)
        mean, var = self.running_mean, self.running_var
        x = F.batch_norm(x, mean, var, self.weight, self.bias, self.training, self.momentum or 0.1, self.eps)
        if residual is not None:
            x = x + residual
        return F.relu(x, inplace=True) if self.relu else x

    def _over_all_ranks(self, x: Any, residual: Any) -> Any:
        """The same, with the mean and the variance of all ranks' batches."""
        wide = x.float()
        axes = (0, *range(2, x.ndim))
        shape = (1, -1, *[1] * (x.ndim - 2))
        count = AddAll.apply(torch.tensor(float(x.numel() // x.shape[1]), device=x.device))
        mean = AddAll.apply(wide.sum(axes)) / count
        away = wide - mean.view(shape)
        var = AddAll.apply((away * away).sum(axes)) / count
        with torch.no_grad():
            share = self.momentum or 0.1
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(var * (count / (count - 1).clamp_min(1)), share)
        scale = self.weight * torch.rsqrt(var + self.eps)
        out = (away * scale.view(shape) + self.bias.view(shape)).to(x.dtype)
        out = out if residual is None else out + residual
        return F.relu(out) if self.relu else out

    @staticmethod
    def is_traced() -> bool:
        """Whether torch.compile looks on: it makes its own fusion."""
        return bool(torch.compiler.is_compiling())


@cache
def _fused() -> bool:
    try:
        from ncalr.kernels import triton_norm  # noqa: F401
    except ImportError:
        return False
    return True


def second(x: Any) -> Any:
    """The same activations, for the second of two readers: the fused pass adds the slopes of both as it reads them."""
    return getattr(x, "second", x)
