"""The first layer under Triton's interpreter, against float64. Run with TRITON_INTERPRET=1."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import nn
from torch.nn import functional as F

from ncalr.kernels import triton_first, triton_norm
from ncalr.learn.nets.norm import NormAct, second

ROUNDING = 2**-7  # of bfloat16, relative: the interpreter cuts


def away(ours: Any, reference: Any) -> float:
    """The relative distance."""
    return float((ours.detach().double() - reference.detach()).norm() / reference.detach().norm())


def check(shape: tuple[int, ...], stride: int, outside: int, readers: int) -> None:
    """Forwards and backwards, twice, and in evaluation mode: the convolution in float64, what follows by its own."""
    torch.manual_seed(shape[0])
    conv = nn.Conv2d(shape[1], outside, 3, stride, 1, bias=False).to(memory_format=torch.channels_last)
    norm = NormAct(outside)
    nn.init.uniform_(norm.weight, 0.5, 2)
    nn.init.normal_(norm.bias)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    x = (torch.randn(shape) + 1).bfloat16().contiguous(memory_format=torch.channels_last)
    rounded = conv.weight.detach().view(torch.int32).bitwise_and(-65536).view(torch.float32)
    inner = F.conv2d(x.double(), rounded.double(), None, stride, 1)
    slopes = [torch.randn(inner.shape).bfloat16() for _ in range(readers)]
    found = []
    for _ in range(2):
        norm.load_state_dict(before)
        for tensor in (conv.weight, norm.weight, norm.bias):
            tensor.grad = None
        y = triton_first.conv_norm_act(x, conv.weight, stride, norm)
        torch.autograd.backward([y, second(y)][:readers], slopes)
        assert not norm.arrived.any()
        found.append([y, norm.weight.grad, norm.bias.grad, norm.running_mean.clone(), norm.running_var.clone()])
        found[-1].append(conv.weight.grad)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    assert conv.weight.grad.stride() == conv.weight.stride()  # or whoever adds slopes up copies it
    norm.load_state_dict(before)
    z, _ = triton_first._convolved(x, conv.weight, norm, stride, fixed=False)
    assert away(z, inner) < ROUNDING
    norm.load_state_dict(before)
    norm.weight.grad = norm.bias.grad = None
    y = triton_norm.norm_act(z.requires_grad_(), None, norm)
    torch.autograd.backward([y, second(y)][:readers], slopes)
    assert torch.equal(found[0][0], y)
    expected = (norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var)
    filters = torch.nn.grad.conv2d_weight(x.double(), conv.weight.shape, z.grad.double(), stride, 1)
    for ours, reference in zip(found[0][1:], (*(e.double() for e in expected), filters), strict=True):
        assert away(ours, reference) < 1e-5
    norm.eval()
    with torch.no_grad():
        mean, var, weight, bias = (t.double() for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias))
        fixed = F.relu(F.batch_norm(inner, mean, var, weight, bias, False, 0.1, norm.eps))
        assert away(triton_first.conv_norm_act(x, conv.weight, stride, norm), fixed) < ROUNDING


if __name__ == "__main__":
    triton_norm.SPLIT_ROWS, triton_first.BACK_SPLITS, triton_first.ADDED = 64, 5, 2
    triton_first.KIND = tl.float32
    check((3, 3, 10, 9), 1, 64, 1)
    check((5, 3, 11, 12), 2, 128, 2)
    check((2, 1, 8, 8), 1, 64, 2)
    print("as in float64")
