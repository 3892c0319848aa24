"""Batch normalisation with what follows it: an optional residual, then an optional ReLU.

The three are one pass over the activations on a GPU (`ncalr.kernels.triton_norm`), where a training of small images
is bound by memory, and three plain operations elsewhere. Parameters and what is saved are those of `nn.BatchNorm2d`.
Predictions on a GPU do without the pass: `ncalr.learn.nets.fold`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ncalr.kernels import triton_module
from ncalr.learn.ranks import current


class NormAct(nn.BatchNorm2d):
    """relu(normalise(x) + residual), each of the two optional."""

    folding: Any = None  # who lends folded weights, for the time of one prediction

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
        kernels = triton_module("norm") if wide and not slopes and not self.is_traced() else None
        if kernels is not None:
            return kernels.norm_act(x, residual, self)
        mean, var = self.running_mean, self.running_var
        x = F.batch_norm(x, mean, var, self.weight, self.bias, self.training, self.momentum or 0.1, self.eps)
        if residual is not None:
            x = x + residual
        return F.relu(x, inplace=True) if self.relu else x

    def _over_all_ranks(self, x: Any, residual: Any) -> Any:
        """The same, with the mean and the variance of all ranks' batches."""
        out = _OverRanks.apply(x, self.weight, self.bias, self)
        out = out if residual is None else out + residual
        return F.relu(out) if self.relu else out

    @staticmethod
    def is_traced() -> bool:
        """Whether torch.compile looks on: it makes its own fusion."""
        return bool(torch.compiler.is_compiling())


class _OverRanks(torch.autograd.Function):
    """Batch normalisation over the batches of all ranks, one message forwards and one backwards.

    Each rank sends the number, the sum and the sum of squares of its values, the last put together in double precision
    from those about its own mean; and backwards the sums of the slopes and of their products with the normalised values
    (Ioffe and Szegedy, "Batch normalization", 2015, with the sums over all ranks). Slopes of weight and bias are this
    rank's own: the learner adds them with all others.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, norm: Any) -> Any:
        wide, axes, shape = x.float(), (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
        number = x.numel() // x.shape[1]
        total = wide.sum(axes).double()
        middle = total / max(number, 1)
        about = (wide - middle.float().view(shape)).square().sum(axes).double()
        message = torch.cat([torch.full_like(total[:1], number), total, about + total * middle])
        current().add(message)
        count, mean = message[0], message[1 : 1 + len(total)] / message[0]
        var = (message[1 + len(total) :] / count - mean * mean).clamp_min(0)
        share = norm.momentum or 0.1
        norm.running_mean.lerp_(mean.float(), share)
        norm.running_var.lerp_((var * (count / (count - 1).clamp_min(1))).float(), share)
        inverse = torch.rsqrt(var + norm.eps).float()
        mean = mean.float()
        ctx.save_for_backward(x, weight, mean, inverse, count.float())
        normal = (wide - mean.view(shape)) * inverse.view(shape)
        return (normal * weight.view(shape) + bias.view(shape)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        x, weight, mean, inverse, count = ctx.saved_tensors
        axes, shape = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
        wide, normal = slope.float(), (x.float() - mean.view(shape)) * inverse.view(shape)
        own = torch.stack([wide.sum(axes), (wide * normal).sum(axes)])
        over = current().add(own.clone()) / count
        dx = (weight * inverse).view(shape) * (wide - over[0].view(shape) - normal * over[1].view(shape))
        return dx.to(x.dtype), own[1], own[0], None


def second(x: Any) -> Any:
    """The same activations, for the second of two readers: the fused pass adds the slopes of both as it reads them."""
    return getattr(x, "second", x)
