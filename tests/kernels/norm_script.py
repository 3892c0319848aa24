"""The fused normalisation under Triton's interpreter, against float64. Run with TRITON_INTERPRET=1."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.nn import functional as F

from ncalr.kernels import triton_norm
from ncalr.learn.nets.norm import NormAct, second

ROUNDING = 2**-8  # of bfloat16, relative


def draw(shape: tuple[int, ...]) -> Any:
    """Numbers around 1, so that a mean is not nothing."""
    return (torch.randn(shape) + 1).bfloat16().contiguous(memory_format=torch.channels_last)


def away(ours: Any, reference: Any) -> float:
    """The relative distance."""
    return float(((ours.double() - reference).norm() / reference.norm()).detach())


def check(shape: tuple[int, ...], with_residual: bool, relu: bool) -> None:
    """Forwards and backwards, twice, and in evaluation mode."""
    torch.manual_seed(shape[0])
    norm = NormAct(shape[1], relu)
    torch.nn.init.uniform_(norm.weight, 0.5, 2)
    torch.nn.init.normal_(norm.bias)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    x, r, slope = draw(shape).requires_grad_(), draw(shape).requires_grad_(), draw(shape)
    x64, r64 = x.detach().double().requires_grad_(), r.detach().double().requires_grad_()
    w64, b64 = (p.detach().double().requires_grad_() for p in (norm.weight, norm.bias))
    mean, var = torch.zeros(shape[1]).double(), torch.ones(shape[1]).double()
    z = F.batch_norm(x64, mean, var, w64, b64, True, 0.1, norm.eps) + (r64 if with_residual else 0)
    z = torch.relu(z) if relu else z
    z.backward(slope.double())
    found = []
    for _ in range(2):
        norm.load_state_dict(before)
        for tensor in (x, r, norm.weight, norm.bias):
            tensor.grad = None
        y = triton_norm.norm_act(x, r if with_residual else None, norm)
        y.backward(slope)
        assert norm.arrived.numel() == shape[1] // 64
        assert not norm.arrived.any()
        found.append([y, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean.clone(), norm.running_var.clone()])
        found[-1] += [r.grad] if with_residual else []
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    for ours, reference in zip(found[0][:2], (z, x64.grad), strict=True):
        assert away(ours, reference) < ROUNDING
    for ours, reference in zip(found[0][2:6], (w64.grad, b64.grad, mean, var), strict=True):
        assert away(ours, reference) < 1e-5
    assert not with_residual or away(r.grad, r64.grad) < ROUNDING
    norm.eval()
    with torch.no_grad():
        fixed = F.batch_norm(x64, mean, var, w64, b64, False, 0.1, norm.eps) + (r64 if with_residual else 0)
        fixed = torch.relu(fixed) if relu else fixed
        assert away(triton_norm.norm_act(x, r if with_residual else None, norm), fixed) < ROUNDING


def check_two_readers(shape: tuple[int, ...], with_residual: bool, relu: bool) -> None:
    """The second reader's slope is added as autograd would add it, to the last bit; either may be missing."""
    torch.manual_seed(shape[0])
    norm = NormAct(shape[1], relu)
    torch.nn.init.normal_(norm.bias)
    x, r = draw(shape).requires_grad_(), draw(shape).requires_grad_()
    one, two = (
        torch.randint(-9, 10, shape).bfloat16() for _ in range(2)
    )  # exact sums: the interpreter cuts, not rounds

    def slopes(readers: Any) -> list[Any]:
        y = triton_norm.norm_act(x, r if with_residual else None, norm)
        wanted = [x, norm.weight, norm.bias, *([r] if with_residual else [])]
        return list(torch.autograd.grad(readers(y, second(y)), wanted))

    pairs = {
        "both": (lambda y, _: (y * one).sum() + (y * two).sum(), lambda y, z: (y * one).sum() + (z * two).sum()),
        "second alone": (lambda y, _: (y * two).sum(), lambda _, z: (z * two).sum()),
    }
    for plain, apart in pairs.values():
        assert all(torch.equal(*both) for both in zip(slopes(plain), slopes(apart), strict=True))
    assert torch.equal(*(t.detach() for t in (lambda y: (y, second(y)))(triton_norm.norm_act(x, None, norm))))


if __name__ == "__main__":
    triton_norm.SPLIT_ROWS = 8  # more splits than are added up at a time
    for case in itertools.product(((3, 64, 5, 5), (5, 128, 7, 8)), (False, True), (False, True)):
        check(*case)
    for case in itertools.product(((3, 64, 5, 5),), (False, True), (False, True)):
        check_two_readers(*case)
    print("as in float64")
