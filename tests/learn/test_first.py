"""The first layer as one: where it is taken, where not, and that a network gives the same with it.

Its kernels are replaced by plain operations in float32; they themselves are in tests/kernels.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ncalr.learn.halves import Halves
from ncalr.learn.nets import first
from ncalr.learn.nets.norm import NormAct
from ncalr.learn.nets.resnet import ResNet


@pytest.fixture
def taken(monkeypatch):
    """As on a GPU; a list with the stride of every first layer that is taken as one."""
    seen = []

    def plain(x, filters, stride, norm):
        seen.append(stride)
        inner = F.conv2d(x, filters, None, stride, 1)
        return F.relu(
            F.batch_norm(inner, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.training, 0.1)
        )

    monkeypatch.setattr(first, "suits", lambda _: True)
    monkeypatch.setattr(first, "triton_module", lambda _: SimpleNamespace(conv_norm_act=plain))
    return seen


def make(stem="cifar", channels=3, width=64):
    """A small network."""
    torch.manual_seed(1)
    return ResNet(5, channels, blocks=(1, 1), widths=(width, 8), stem=stem)


def slopes(net, x):
    """Logits, the slopes of all weights, and running statistics after one step of training."""
    net.train()
    logits = net(x)
    found = torch.autograd.grad(logits.square().sum(), list(net.parameters()))
    return [logits.detach(), *found, *(b.clone() for b in net.buffers())]


@pytest.mark.parametrize(("stem", "channels"), [("cifar", 3), ("strided", 3), ("cifar", 1), ("strided", 2)])
def test_a_network_gives_and_learns_the_same(taken, stem, channels, monkeypatch):
    x = torch.randn(6, channels, 12, 12)
    ours = slopes(make(stem, channels), x)
    assert taken == [1 if stem == "cifar" else 2]
    monkeypatch.setattr(first, "suits", lambda _: False)
    for one, two in zip(ours, slopes(make(stem, channels), x), strict=True):
        torch.testing.assert_close(one, two)
    assert len(taken) == 1


def test_in_evaluation_by_the_running_statistics(taken, monkeypatch):
    net, x = make(), torch.randn(6, 3, 12, 12)
    slopes(net, x)
    net.eval()
    with torch.no_grad():
        ours = net(x)
        assert len(taken) == 2
        monkeypatch.setattr(first, "suits", lambda _: False)
        torch.testing.assert_close(ours, net(x))


def test_also_where_weights_are_lent_in_half_precision(taken):
    net = make()
    with Halves(net.modules()).lent():
        net(torch.randn(2, 3, 12, 12))
    assert taken == [1]


@pytest.mark.parametrize(("stem", "channels", "width"), [("cifar", 4, 64), ("imagenet", 3, 64), ("cifar", 3, 48)])
def test_other_shapes_stay_apart(taken, stem, channels, width):
    make(stem, channels, width)(torch.randn(2, channels, 12, 12))
    assert not taken


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.stem.register_forward_hook(lambda *_: None),
        lambda net: net.stem.register_forward_pre_hook(lambda *_: None),
        lambda net: net.stem.register_full_backward_hook(lambda *_: None),
        lambda net: net.norm.register_forward_hook(lambda *_: None),
        lambda net: setattr(net.stem, "forward", net.stem.forward),
        lambda net: setattr(net, "stem", type("Own", (nn.Conv2d,), {})(3, 64, 3, padding=1, bias=False)),
        lambda net: setattr(net, "stem", nn.Conv2d(3, 64, 3, padding=1)),
        lambda net: setattr(net, "stem", nn.Conv2d(3, 64, 3, padding=1, bias=False, padding_mode="reflect")),
        lambda net: setattr(net, "stem", nn.Conv2d(3, 64, 3, padding=2, dilation=2, bias=False)),
        lambda net: setattr(net, "stem", nn.Conv2d(3, 64, 3, padding=1, bias=False, stride=(1, 2))),
        lambda net: setattr(net, "norm", NormAct(64, relu=False)),
        lambda net: net.eval(),  # slopes in evaluation mode are asked for
    ],
)
def test_where_somebody_looks_or_does_otherwise_the_two_stay_apart(taken, change):
    net = make()
    change(net)
    net(torch.randn(2, 3, 12, 12))
    assert not taken


def test_slopes_of_images_need_the_two_apart(taken):
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    make()(x).sum().backward()
    assert not taken
    assert x.grad.abs().sum() > 0


def test_training_without_slopes_stays_apart(taken):
    with torch.no_grad():
        make().train()(torch.randn(2, 3, 12, 12))
    assert not taken
