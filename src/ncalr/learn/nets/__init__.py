"""Networks by name.

| name                                | for                                                            |
|-------------------------------------|----------------------------------------------------------------|
| `resnet8`                           | tiny images (8 to 28 pixels), 78k parameters                   |
| `resnet18`, `resnet34`, `resnet50`  | images; `stem=cifar` (up to 64 pixels), `strided`, `imagenet`  |
| `wide_resnet`                       | images; `depth=28, widen=10` as its authors have it            |
| `mlp`, `linear`                     | vectors, and texts by their words                              |
| `timm:NAME`, `hf:NAME`              | with the extras timm and hf; `pretrained=true`, `frozen=true`; |
|                                     | texts for hf                                                   |

Options go in brackets: `"resnet18(stem=imagenet)"`. Without a stem, images above 64 pixels get the ImageNet one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ncalr.acquire.options import check_options
from ncalr.acquire.spec import parse
from ncalr.errors import BadInput, check_known
from ncalr.learn.nets.external import external_network, image_shape, is_external
from ncalr.learn.nets.resnet import STEMS, Basic, Bottleneck, ResNet, Wide
from ncalr.learn.nets.vectors import MLP

Factory = Callable[..., nn.Module]


def _resnet(block: Any, blocks: tuple[int, ...], widths: tuple[int, ...] = (64, 128, 256, 512)) -> Factory:
    def make(classes: int, shape: tuple[int, ...], *, stem: str = "", dropout: float = 0.0) -> nn.Module:
        height, _, channels = image_shape("this network", shape)
        stem = stem or ("imagenet" if height > 64 else "cifar")
        check_known("stem", stem, STEMS)
        return ResNet(classes, channels, block=block, blocks=blocks, widths=widths, stem=stem, dropout=dropout)

    return make


def _wide_resnet(
    classes: int, shape: tuple[int, ...], *, depth: int = 28, widen: int = 10, dropout: float = 0.0
) -> nn.Module:
    if depth < 10 or (depth - 4) % 6:
        raise BadInput(f"a wide residual network has 6n + 4 layers (10, 16, 22, 28, 40), got depth={depth}")
    blocks, widths = ((depth - 4) // 6,) * 3, (16 * widen, 32 * widen, 64 * widen)
    return ResNet(
        classes, image_shape("this network", shape)[2], block=Wide, blocks=blocks, widths=widths, dropout=dropout
    )


def _mlp(classes: int, shape: tuple[int, ...], *, widths: Any = (512, 256), dropout: float = 0.0) -> nn.Module:
    return MLP(classes, _vector(shape), tuple(widths) if isinstance(widths, list | tuple) else (widths,), dropout)


def _linear(classes: int, shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(_vector(shape), classes))  # its features are the embeddings themselves


NETS: dict[str, Factory] = {
    "resnet8": _resnet(Basic, (1, 1, 1), (16, 32, 64)),
    "resnet18": _resnet(Basic, (2, 2, 2, 2)),
    "resnet34": _resnet(Basic, (3, 4, 6, 3)),
    "resnet50": _resnet(Bottleneck, (3, 4, 6, 3)),
    "wide_resnet": _wide_resnet,
    "mlp": _mlp,
    "linear": _linear,
}


VECTORS = ("mlp", "linear")


def network(name: str, classes: int, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The network of this name for items of this shape, freshly initialised from torch's random numbers."""
    if is_external(name):
        return external_network(name, classes, shape, **options)
    spec = parse(name)
    check_known("network", spec.name, NETS, "With the extras: 'timm:NAME' and 'hf:NAME'.")
    options = {**spec.options, **options}
    check_options(f"network {spec.name!r}", NETS[spec.name], options, {})
    try:
        return NETS[spec.name](classes, shape, **options)
    except TypeError as error:
        raise BadInput(f"network {spec.name!r}: {error}") from None


def check_reads_texts(name: str) -> None:
    """Raise where the network of this name reads images alone, whatever texts are turned into."""
    known = "timm" if name.strip().startswith("timm:") else "" if is_external(name) else parse(name).name
    if known == "timm" or (known in NETS and known not in VECTORS):
        raise BadInput(
            f"network {name!r} takes images, the pool holds texts; take 'mlp' or 'linear', which read the words of a "
            "text, or a network for texts such as 'hf:distilbert-base-uncased(frozen=true)'"
        )


def _vector(shape: tuple[int, ...]) -> int:
    if len(shape) != 1:
        raise BadInput(f"this network takes vectors (d,), the pool has items of shape {shape}; try 'resnet18'")
    return shape[0]
