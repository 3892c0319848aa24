"""Prediction with batch normalisation folded into the convolution before it.

In evaluation mode a normalisation is one factor and one shift a channel. Multiplied into the convolution's weights and
added as its bias they cost nothing, and cuDNN adds bias, residual and ReLU while it writes its result: no pass over the
activations is left but the convolutions themselves. A shortcut's bias is part of the bias of what it is added to.

Weights are folded in float32, where a sweep over a pool first needs them, and kept for that sweep; they are lent to the
network for one forward pass at a time and never seen in training, by whoever needs gradients, or by torch.compile. All
of it is for bfloat16 on a GPU: elsewhere, and where cuDNN has no such convolution, everything is as it is without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ncalr.learn.halves import does_its_own
from ncalr.learn.nets.first import first_layer
from ncalr.learn.nets.norm import NormAct


def joined(conv: Any, norm: Any, x: Any, residual: Any = None, short: Any = None) -> Any:
    """norm(conv(x), residual), the residual through the shortcut where there is one."""
    if not norm.is_traced() and norm.folding is not None and not norm.training and not torch.is_grad_enabled():
        result = norm.folding.apply(conv, norm, x, residual, short)
        if result is not None:
            return result
    result = first_layer(conv, norm, x) if residual is None else None
    if result is not None:
        return result
    inner = conv(x)
    return norm(inner, residual if short is None else short(residual))


class Folding:
    """Lends a network folded weights."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.norms = [module for module in modules if isinstance(module, NormAct)]
        self.made: dict[Any, Any] = {}
        self.refused = False

    @contextmanager
    def lent(self, made: dict[Any, Any]) -> Iterator[None]:
        """Inside, `joined` uses the folded weights in `made`, and puts those there that it does not find.

        Whoever sweeps begins with an empty one: the weights of the network must not change while it is used.
        """
        self.made = made
        for norm in self.norms:
            norm.folding = self
        try:
            yield
        finally:
            self.made = {}
            for norm in self.norms:
                norm.folding = None

    def apply(self, conv: Any, norm: Any, x: Any, residual: Any, short: Any) -> Any:
        """What `joined` promises, or None where it has to be done in the plain way."""
        if self.refused or not suits(x):
            return None
        if (conv, norm) not in self.made:
            self.made[conv, norm] = _made(conv, norm, short, x.dtype)
        if self.made[conv, norm] is None:
            return None
        weight, bias, across = self.made[conv, norm]
        if across is not None:
            residual = F.conv2d(residual, across, None, short[0].stride, short[0].padding, short[0].dilation)
        elif short is not None:
            residual = short(residual)
        try:
            return fused(x, weight, bias, residual, conv.stride, conv.padding, conv.dilation)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # cuDNN has no such convolution: the plain way from here on
            self.refused = True
            return None


def suits(x: Any) -> bool:
    """Whether folding pays for these activations."""
    return bool(x.is_cuda and x.dtype == torch.bfloat16 and torch.backends.cudnn.enabled)


def fused(x: Any, weight: Any, bias: Any, residual: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """relu(convolution + bias + residual), one kernel of cuDNN."""
    if residual is None:
        return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, dilation, 1)
    return torch.cudnn_convolution_add_relu(x, weight, residual, 1.0, bias, stride, padding, dilation, 1)


def fold(conv: Any, norm: Any) -> tuple[Any, Any]:
    """Weights and bias of the convolution that is both, in float32."""
    scale = norm.weight.float() / torch.sqrt(norm.running_var.float() + norm.eps)
    weight = conv.weight.float() * scale.view(-1, 1, 1, 1)
    return weight, norm.bias.float() - norm.running_mean.float() * scale


def _made(conv: Any, norm: Any, short: Any, dtype: Any) -> Any:
    """Weights and bias, and the weights of the shortcut (None: it is not folded); None for what cannot be folded."""
    if not _foldable(conv, norm, relu=True):
        return None
    weight, bias = fold(conv, norm)
    across = None
    pair = type(short) is nn.Sequential and len(short) == 2 and does_its_own(short)
    if pair and _foldable(short[0], short[1], relu=False):
        across, more = fold(*short)
        bias = bias + more
    ready = [None if w is None else w.to(dtype, memory_format=torch.channels_last) for w in (weight, across)]
    return ready[0], bias.to(dtype), ready[1]


def _foldable(conv: Any, norm: Any, relu: bool) -> bool:
    """Whether the two do what their classes say and nothing else, in a shape that tensor cores take."""
    return (
        type(conv) is nn.Conv2d
        and type(norm) is NormAct
        and does_its_own(conv)
        and does_its_own(norm)
        and norm.relu == relu
        and conv.bias is None
        and conv.groups == 1
        and conv.padding_mode == "zeros"
        and not isinstance(conv.padding, str)
        and conv.in_channels % 8 == 0
        and conv.out_channels % 8 == 0
    )
