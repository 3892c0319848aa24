"""The first convolution and what follows it as one, on a GPU: `ncalr.kernels.triton_first`.

For images of up to three channels in bfloat16, a 3x3 convolution and a normalisation with its ReLU. Elsewhere, and
wherever somebody looks into one of the two or needs the slopes of images, they stay apart.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ncalr.kernels import triton_module
from ncalr.learn.halves import does_its_own
from ncalr.learn.nets.norm import NormAct
from ncalr.learn.ranks import current


def first_layer(conv: Any, norm: Any, x: Any) -> Any:
    """norm(conv(x)) in one, or None where it has to be done in two."""
    if not (suits(x) and _is_first(conv, norm, x) and does_its_own(conv) and does_its_own(norm)):
        return None
    if norm.training != torch.is_grad_enabled() or norm.is_traced() or (norm.training and current().together):
        return None
    kernels = triton_module("first")
    return None if kernels is None else kernels.conv_norm_act(x, conv.weight, conv.stride[0], norm)


def suits(x: Any) -> bool:
    """Whether these are images in half precision on a GPU."""
    return bool(x.is_cuda and x.dtype == torch.bfloat16 and torch.is_autocast_enabled("cuda"))


def _is_first(conv: Any, norm: Any, x: Any) -> bool:
    return (
        type(conv) is nn.Conv2d
        and type(norm) is NormAct
        and norm.relu
        and not x.requires_grad
        and 9 * conv.in_channels <= 32
        and conv.out_channels % 64 == 0
        and conv.kernel_size == (3, 3)
        and conv.padding == (1, 1)
        and conv.dilation == (1, 1)
        and conv.stride in ((1, 1), (2, 2))
        and conv.groups == 1
        and conv.bias is None
        and conv.padding_mode == "zeros"
        and conv.weight.dtype == torch.float32
    )
