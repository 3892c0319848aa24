"""Residual networks for small and large images.

He, Zhang, Ren and Sun, "Deep residual learning for image recognition" (2016); Zagoruyko and Komodakis, "Wide
residual networks" (2016). The CIFAR stem is one 3x3 convolution at full resolution; the strided stem the same with
stride 2 (64 pixels at the price of 32); the ImageNet stem a 7x7 with stride 2 and a pool. Blocks are post-activation,
so that features are never negative, as in the paper; the wide networks are pre-activation, as their authors have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn import functional as F

from ncalr.learn.nets.fold import joined
from ncalr.learn.nets.norm import NormAct, second


def _conv(inside: int, outside: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)


class Basic(nn.Module):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inside, width, 3, stride), NormAct(width)
        self.conv2, self.norm2 = _conv(width, width, 3), NormAct(width)
        self.short = _shortcut(inside, width, stride)

    def forward(self, x: Any) -> Any:
        """The block."""
        inner = joined(self.conv1, self.norm1, x)
        return joined(self.conv2, self.norm2, inner, second(x), self.short)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, four times as wide outside."""

    expansion = 4

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inside, width, 1), NormAct(width)
        self.conv2, self.norm2 = _conv(width, width, 3, stride), NormAct(width)
        self.conv3, self.norm3 = _conv(width, 4 * width, 1), NormAct(4 * width)
        self.short = _shortcut(inside, 4 * width, stride)

    def forward(self, x: Any) -> Any:
        """The block."""
        inner = joined(self.conv2, self.norm2, joined(self.conv1, self.norm1, x))
        return joined(self.conv3, self.norm3, inner, second(x), self.short)


class Wide(nn.Module):
    """Pre-activation: normalise, then convolve, twice."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = NormAct(inside), _conv(inside, width, 3, stride)
        self.norm2, self.conv2 = NormAct(width), _conv(width, width, 3)
        self.short = _conv(inside, width, 1, stride) if inside != width or stride > 1 else None

    def forward(self, x: Any) -> Any:
        """The block."""
        ready = self.norm1(x)
        short = x if self.short is None else self.short(second(ready))
        return self.conv2(joined(self.conv1, self.norm2, ready)) + short


def _shortcut(inside: int, outside: int, stride: int) -> nn.Sequential | None:
    if inside == outside and stride == 1:
        return None
    return nn.Sequential(_conv(inside, outside, 1, stride), NormAct(outside, relu=False))


STEMS = {"cifar": (3, 1), "strided": (3, 2), "imagenet": (7, 2)}
"""Size and stride of the first convolution."""


class ResNet(nn.Module):
    """A stem, stages of blocks, the mean over space, one linear layer."""

    def __init__(
        self,
        classes: int,
        channels: int,
        *,
        block: Any = Basic,
        blocks: Sequence[int] = (2, 2, 2, 2),
        widths: Sequence[int] = (64, 128, 256, 512),
        stem: str = "cifar",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        wide = block is Wide
        first = 16 if wide else widths[0]
        self.large = stem == "imagenet"
        size, stride = STEMS[stem]
        self.stem = nn.Conv2d(channels, first, size, stride, size // 2, bias=False)
        self.norm = nn.Identity() if wide else NormAct(first)
        stages, inside = [], first
        for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            layers: list[nn.Module] = []
            for place in range(count):
                layers.append(block(inside, width, 2 if stage and not place else 1))
                inside = width * getattr(block, "expansion", 1)
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.last = NormAct(inside) if wide else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(inside, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Any) -> Any:
        """Logits (n, c) of images (n, channels, height, width)."""
        x = joined(self.stem, self.norm, x) if isinstance(self.norm, NormAct) else self.stem(x)
        if self.large:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.last(self.stages(x))
        return self.head(self.dropout(x.mean((2, 3))))
