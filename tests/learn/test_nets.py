"""Networks by name: sizes, shapes, errors; normalisation as torch has it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ncalr.errors import BadInput, UnknownName
from ncalr.learn.nets import NETS, network
from ncalr.learn.nets.norm import NormAct, second
from ncalr.learn.nets.resnet import ResNet
from ncalr.learn.tap import Tap

# Parameters of the published networks: 11,173,962 for the CIFAR ResNet-18 with ten classes, 11,689,512 for the ImageNet
# one with a thousand, 21,797,672 and 25,557,032 for ResNet-34 and -50, 36.5 million for WRN-28-10.
SIZES = [
    ("resnet18", 10, (32, 32, 3), 11_173_962),
    ("resnet18(stem=imagenet)", 1000, (224, 224, 3), 11_689_512),
    ("resnet34", 1000, (224, 224, 3), 21_797_672),
    ("resnet50", 1000, (224, 224, 3), 25_557_032),
    ("wide_resnet", 10, (32, 32, 3), 36_479_194),
    ("linear", 3, (7,), 24),
]


@pytest.mark.parametrize(("name", "classes", "shape", "size"), SIZES)
def test_as_many_parameters_as_published(name, classes, shape, size):
    with torch.device("meta"):
        net = network(name, classes, shape)
    assert sum(p.numel() for p in net.parameters()) == size


def test_the_tiny_network_is_tiny():
    net = network("resnet8", 10, (8, 8, 1))
    assert 70_000 < sum(p.numel() for p in net.parameters()) < 90_000


@pytest.mark.parametrize("name", sorted(NETS))
def test_logits_and_features(name):
    images = name not in ("mlp", "linear")
    shape = (16, 16, 3) if images else (12,)
    options = "(depth=10, widen=1)" if name == "wide_resnet" else ""
    net = network(name + options, 5, shape).eval()
    x = torch.randn(4, 3, 16, 16) if images else torch.randn(4, 12)
    features, logits = Tap(net)(net, x)
    head = [m for m in net.modules() if isinstance(m, nn.Linear)][-1]
    assert logits.shape == (4, 5)
    torch.testing.assert_close(logits, F.linear(features, head.weight, head.bias))
    if isinstance(net, ResNet):
        assert (features >= 0).all()


def test_large_images_get_the_large_stem():
    assert network("resnet18", 2, (128, 128, 3)).large
    assert not network("resnet18", 2, (64, 64, 3)).large
    assert not network("resnet18(stem=cifar)", 2, (128, 128, 3)).large


def test_a_strided_stem_sees_64_pixels_as_32():
    net, small = network("resnet18(stem=strided)", 2, (64, 64, 3)), network("resnet18", 2, (32, 32, 3))
    x = torch.zeros(1, 3, 64, 64)
    assert net.stem(x).shape == small.stem(x[:, :, :32, :32]).shape == (1, 64, 32, 32)
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in small.parameters())


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
def test_normalisation_is_torchs(relu, with_residual):
    torch.manual_seed(0)
    ours, torchs = NormAct(6, relu), nn.BatchNorm2d(6)
    torchs.weight.data.uniform_(0.5, 2)
    torchs.bias.data.normal_()
    ours.load_state_dict(torchs.state_dict())
    for training in (True, False):
        ours.train(training)
        torchs.train(training)
        x, residual = torch.randn(5, 6, 4, 4), torch.randn(5, 6, 4, 4)
        expected = torchs(x) + (residual if with_residual else 0)
        torch.testing.assert_close(ours(x, residual if with_residual else None), expected.relu() if relu else expected)
    torch.testing.assert_close(ours.running_var, torchs.running_var)


def test_a_second_reader_has_what_was_handed_out_for_it():
    x = torch.ones(2)
    assert second(x) is x
    x.second = x.detach()
    assert second(x) is x.second


def test_errors():
    with pytest.raises(UnknownName, match="Did you mean 'resnet18'"):
        network("resnt18", 2, (8, 8, 3))
    with pytest.raises(UnknownName, match="cifar"):
        network("resnet18(stem=cifr)", 2, (8, 8, 3))
    with pytest.raises(BadInput, match="takes images"):
        network("resnet18", 2, (8,))
    with pytest.raises(BadInput, match="takes vectors"):
        network("mlp", 2, (8, 8, 3))
    with pytest.raises(BadInput, match="6n"):
        network("wide_resnet(depth=11)", 2, (8, 8, 3))
    with pytest.raises(BadInput, match="colour"):
        network("resnet8(colour=1)", 2, (8, 8, 3))


def test_a_tap_needs_a_linear_layer():
    net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(BadInput, match="no linear layer"):
        Tap(net)
    with pytest.raises(BadInput, match="no layer 'body'"):
        Tap(net, "body")
    features, logits = Tap(net, "2")(net, torch.randn(2, 3, 4, 4))
    assert features.shape == (2, 2)
    assert logits.shape == (2, 2)


def test_a_tap_that_hears_nothing_says_so():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    net = Unused()
    with pytest.raises(BadInput, match="was not used"):
        Tap(net)(net, torch.randn(1, 2))
    assert Tap(net, "used")(net, torch.randn(1, 2))[0].shape == (1, 2)
