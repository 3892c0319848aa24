"""Networks of timm and of Hugging Face transformers, under one head.

    network("timm:resnet18", 10, (32, 32, 3))
    network("timm:vit_small_patch14_dinov2.lvd142m(pretrained=true, frozen=true)", 10, (32, 32, 3))
    network("hf:distilbert-base-uncased(frozen=true)", 4, (128,))        # texts; see `tokenise`
    network("hf:/models/mine(pretrained=false)", 10, (224, 224, 3))      # a folder with its config.json

The trunk gives one vector an item, and one linear layer of ours turns it into logits; so the features are what goes
into that layer, whatever the network. Texts are averaged over their tokens; images are pooled as the network itself
pools them, or by its class token.

| option       | meaning                                                                                             |
|--------------|-----------------------------------------------------------------------------------------------------|
| `pretrained` | weights from the hub or the folder; otherwise random ones. Default: false for timm, true for hf     |
| `frozen`     | only the last layer learns: the trunk has no gradients and stays in evaluation mode                 |
| `dropout`    | before the last layer                                                                               |
| `size`       | images are resized to so many pixels (bilinear, on the device). Default: where the network needs it |
| `length`     | hf: a learner cuts the texts of a pool at so many tokens. Default: 128                              |

Images come normalised by the pool's own mean and deviation, not by those of the pretraining.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from ncalr.acquire.options import check_options
from ncalr.acquire.spec import cut, parse
from ncalr.errors import BadInput, check_known, unknown
from ncalr.extras import load

Trunk = tuple[nn.Module, Any, str]
"""What gives a vector an item, one item of zeros to try it on, and advice for where it cannot read that."""

LENGTH = 128  # tokens of a text
_BLOCK = 4096  # texts a call of the tokeniser


class External(nn.Module):
    """A trunk that gives a vector (n, d) an item, dropout, and one linear layer. `reads` is "images" or "tokens"."""

    def __init__(self, trunk: nn.Module, width: int, classes: int, *, reads: str, frozen: bool, dropout: float) -> None:
        super().__init__()
        self.reads, self.frozen = reads, frozen
        self.trunk = trunk.requires_grad_(False) if frozen else trunk
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)
        self.train()

    def train(self, mode: bool = True) -> External:
        """Training or evaluation mode; a frozen trunk stays in evaluation mode, or its statistics would move."""
        super().train(mode)
        if self.frozen:
            self.trunk.eval()
        return self

    def forward(self, x: Any) -> Any:
        """Logits (n, c)."""
        if not self.frozen:
            return self.head(self.dropout(self.trunk(x)))
        with torch.no_grad():
            features = self.trunk(x)
        if torch.is_grad_enabled() and not self.training:  # somebody may ask for gradients of the features
            features = features.detach().requires_grad_()
        return self.head(self.dropout(features))

    def extra_repr(self) -> str:
        """Shown by print."""
        return f"reads={self.reads}, frozen={self.frozen}"


class Images(nn.Module):
    """Images (n, channels, height, width) as a network wants them; `size` is None where it takes any."""

    def __init__(self, net: nn.Module, channels: int, wanted: int, size: tuple[int, int] | None) -> None:
        super().__init__()
        self.net, self.channels, self.wanted, self.size = net, channels, wanted, size

    def forward(self, x: Any) -> Any:
        """Features (n, d)."""
        if x.ndim != 4 or x.shape[1] != self.channels:
            raise BadInput(
                f"this network was made for images (n, {self.channels}, height, width), got shape {tuple(x.shape)}"
            )
        if self.wanted != self.channels:
            x = x.expand(-1, self.wanted, -1, -1)
        if self.size is not None and tuple(x.shape[2:]) != self.size:
            shrinks = x.shape[2] > self.size[0] or x.shape[3] > self.size[1]
            x = F.interpolate(x, self.size, mode="bilinear", align_corners=False, antialias=shrinks)
        return self.net(x)

    def extra_repr(self) -> str:
        """Shown by print."""
        return f"channels={self.channels}, size={self.size or 'any'}"


class Tokens(nn.Module):
    """Token ids (n, length) through a network of transformers, averaged over what is not padding."""

    def __init__(self, net: nn.Module, padding: int) -> None:
        super().__init__()
        self.net, self.padding = net, padding

    def forward(self, x: Any) -> Any:
        """Features (n, d)."""
        if x.ndim != 2 or x.is_floating_point():
            raise BadInput(
                f"this network reads token ids, whole numbers (n, length), got {x.dtype} of shape {tuple(x.shape)}; "
                "make them with ncalr.learn.nets.external.tokenise"
            )
        mask = x != self.padding
        # An empty text is all padding: with nothing to attend to, the softmax would give NaN.
        mask = mask | (torch.arange(x.shape[1], device=x.device) == 0)
        hidden = self.net(input_ids=x.long(), attention_mask=mask.long()).last_hidden_state.float()
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def extra_repr(self) -> str:
        """Shown by print."""
        return f"padding={self.padding}"


class Pooled(nn.Module):
    """One vector an image from a vision network of transformers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        # A pooler with a linear layer is often not among the pretrained weights: random, and useless when frozen.
        pooler = getattr(net, "pooler", None)
        dense = isinstance(pooler, nn.Module) and any(isinstance(module, nn.Linear) for module in pooler.modules())
        self.trusted = not dense
        self.first = any("cls_token" in name for name, _ in net.named_parameters())

    def forward(self, x: Any) -> Any:
        """Features (n, d)."""
        output = self.net(pixel_values=x)
        pooled = getattr(output, "pooler_output", None)
        if self.trusted and pooled is not None:
            return pooled.flatten(1)
        hidden = output.last_hidden_state
        if hidden.ndim == 4:
            return hidden.mean((2, 3))
        return hidden[:, 0] if self.first else hidden.mean(1)


def timm_network(
    name: str,
    classes: int,
    shape: tuple[int, ...],
    *,
    pretrained: bool = False,
    frozen: bool = False,
    dropout: float = 0.0,
    size: int = 0,
) -> nn.Module:
    """The network of this name in timm, for images of this shape (height, width, channels).

    Images go in as they are, unless the network takes one size only (most vision transformers) or `size` says
    otherwise; small images gain from `size` where the network was pretrained on large ones.
    """
    height, width, channels = image_shape(f"timm:{name}", shape)
    timm = load("timm", "timm", f"timm:{name}")
    if ":" not in name and not timm.is_model(name):
        raise unknown("network in timm", name, timm.list_models(), "timm.list_models() lists them.")
    net = _fetched(
        f"timm:{name}",
        lambda: timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=channels),
        "a name that timm.list_models(pretrained=True) lists, and a connection the first time",
    )
    known = net.pretrained_cfg
    usual = tuple(known["input_size"][1:])
    least = tuple(known.get("min_input_size") or (0, 1, 1))[1:]
    small = height < least[0] or width < least[1]
    wanted = _square(size) or (usual if known.get("fixed_input_size") or small else None)
    trunk = Images(net, channels, channels, wanted)
    advice = f"it was made for images of {usual[0]} x {usual[1]}: try size={usual[0]}"
    found = _width(f"timm:{name}", trunk, torch.zeros(1, channels, height, width), advice)
    return External(trunk, found, classes, reads="images", frozen=frozen, dropout=dropout)


def hf_network(
    name: str,
    classes: int,
    shape: tuple[int, ...],
    *,
    pretrained: bool = True,
    frozen: bool = False,
    dropout: float = 0.0,
    size: int = 0,
    length: int = 0,
) -> nn.Module:
    """The network of this name on the Hugging Face hub, or in this folder.

    For images, shape (height, width, channels), a vision network; for texts, shape (length,), one that reads token ids.
    Networks that read both (CLIP) are in timm, as `timm:vit_base_patch16_clip_224.openai`.
    """
    if length and tuple(shape) != (length,):
        raise BadInput(f"hf:{name}: length={length} is for pools of texts, the pool has items of shape {shape}")
    if len(shape) not in (1, 3):
        raise BadInput(
            f"hf:{name} takes images (height, width, channels) or token ids (length,), the pool has items of shape "
            f"{shape}"
        )
    transformers = load("transformers", "hf", f"hf:{name}")
    config = _config(transformers, name)
    if hasattr(config, "vision_config") and hasattr(config, "text_config"):
        raise BadInput(
            f"hf:{name} reads images together with texts; take a network that reads one of the two, for instance "
            "timm:vit_base_patch16_clip_224.openai(pretrained=true)"
        )
    if len(shape) == 3 and not pretrained:
        config.num_channels = shape[2]
    if hasattr(config, "use_cache"):
        config.use_cache = False  # a cache of keys and values is for writing texts
    net = _fetched(
        f"hf:{name}",
        lambda: (
            transformers.AutoModel.from_pretrained(name, config=config, trust_remote_code=False)
            if pretrained
            else transformers.AutoModel.from_config(config, trust_remote_code=False)
        ),
        "weights there (pretrained=false starts from random ones)",
    ).float()  # weights may be stored in half precision, in which training would stall
    if len(shape) == 1:
        reads, parts = "tokens", _text_trunk(name, net, config, shape[0])
    else:
        reads, parts = "images", _vision_trunk(name, net, config, shape, size)
    return External(parts[0], _width(f"hf:{name}", *parts), classes, reads=reads, frozen=frozen, dropout=dropout)


def tokenise(name: str, texts: Sequence[str], length: int = LENGTH) -> npt.NDArray[np.int32]:
    """Token ids (n, length) of texts, for the network `hf:name`: cut, or filled up with the network's padding.

    name: as for `hf_network`, on the hub or a folder, with or without the `hf:`.
    """
    if isinstance(texts, str) or any(not isinstance(text, str) for text in texts):
        odd = texts if isinstance(texts, str) else next(text for text in texts if not isinstance(text, str))
        raise BadInput(f"texts must be a list of str, got {type(texts).__name__} with {odd!r:.60}")
    if length < 1:
        raise BadInput(f"length must be at least 1 token, got {length}")
    name = name.removeprefix("hf:")
    transformers = load("transformers", "hf", f"hf:{name}")
    padding = _padding(_config(transformers, name), name)
    tokeniser = _fetched(
        f"the tokeniser of hf:{name}",
        lambda: transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False),
        "a tokeniser there",
    )
    tokens = np.full((len(texts), length), padding, np.int32)
    for start in range(0, len(texts), _BLOCK):
        block = list(texts[start : start + _BLOCK])
        for row, ids in enumerate(tokeniser(block, truncation=True, max_length=length)["input_ids"], start):
            tokens[row, : len(ids)] = ids
    return tokens


EXTERNAL: dict[str, Callable[..., nn.Module]] = {"timm": timm_network, "hf": hf_network}


def is_external(text: str) -> bool:
    """Whether a network's name is one of timm or of the hub: `timm:NAME`, `hf:NAME`."""
    return text.strip().partition(":")[0] in EXTERNAL


def is_trained(text: str) -> bool:
    """Whether a network of this name comes with weights that were trained.

    >>> is_trained("timm:resnet18"), is_trained("timm:resnet18(pretrained=true)"), is_trained("resnet18")
    (False, True, False)
    """
    if not is_external(text):
        return False
    kind, _, options = read_name(text)
    return bool(options.get("pretrained", inspect.signature(EXTERNAL[kind]).parameters["pretrained"].default))


def external_network(text: str, classes: int, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The network that a text such as `timm:resnet18(pretrained=true)` stands for."""
    kind, name, written = read_name(text)
    make = EXTERNAL[kind]
    options = {**written, **options}
    known = [key for key, value in inspect.signature(make).parameters.items() if value.kind is value.KEYWORD_ONLY]
    for key in options:
        check_known(f"option of network '{kind}:{name}'", key, known)
    check_options(f"network '{kind}:{name}'", make, options, {})
    return make(name, classes, shape, **options)


def read_name(text: str) -> tuple[str, str, dict[str, Any]]:
    """The package, the name there and the options.

    Names hold slashes, dots and dashes, so only what stands in the last pair of brackets is read as options.

    >>> read_name("hf:google/vit-base-patch16-224(frozen=true)")
    ('hf', 'google/vit-base-patch16-224', {'frozen': True})
    """
    kind, _, rest = text.strip().partition(":")
    name, options = cut(rest)
    name = name.strip()
    if not name:
        raise BadInput(f"cannot read {text!r}; write it as {kind}:NAME or {kind}:NAME(option=value, ...)")
    return kind, name, parse(f"options{options}").options


def _vision_trunk(name: str, net: nn.Module, config: Any, shape: tuple[int, ...], size: int) -> Trunk:
    height, width, channels = shape
    expected = getattr(config, "num_channels", 3)
    if channels not in (1, expected):  # one channel is shown as many times as the network has channels
        raise BadInput(f"hf:{name} takes images with {expected} channels, the pool's have {channels}")
    usual = getattr(config, "image_size", None)
    wanted = _square(size) or _square(usual)
    advice = f"it was made for images of size {usual}" if usual else "try size=224"
    return Images(Pooled(net), channels, expected, wanted), torch.zeros(1, channels, height, width), advice


def _text_trunk(name: str, net: nn.Module, config: Any, length: int) -> Trunk:
    padding = _padding(config, name)
    longest = _longest(net, config)
    if longest is not None and length > longest:
        raise BadInput(
            f"hf:{name} reads at most {longest} tokens, the pool's texts have {length}: tokenise them anew, or where "
            f"the pool holds the texts themselves write hf:{name}(length={longest})"
        )
    probe = torch.full((1, length), padding, dtype=torch.int64)
    return Tokens(net, padding), probe, "it must be an encoder of texts"


def _longest(net: nn.Module, config: Any) -> int | None:
    """How many tokens fit. A table of positions with a place for padding (RoBERTa's) does not use its first rows."""
    for name, module in net.named_modules():
        if isinstance(module, nn.Embedding) and "position_embeddings" in name:
            return int(module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    longest = getattr(config, "max_position_embeddings", None)
    return None if longest is None else int(longest)


def _padding(config: Any, name: str) -> int:
    """The id of padding; networks that know none were trained with the end of the text."""
    for key in ("pad_token_id", "eos_token_id"):
        value = getattr(config, key, None)
        if isinstance(value, list | tuple) and value:
            value = value[0]
        if isinstance(value, int) and value >= 0:
            return value
    raise BadInput(f"the config of hf:{name} names no padding: set pad_token_id in its config.json")


def _config(transformers: Any, name: str) -> Any:
    return _fetched(
        f"hf:{name}",
        lambda: transformers.AutoConfig.from_pretrained(name, trust_remote_code=False),
        "a folder with a config.json, or a name on huggingface.co/models and a connection the first time",
    )


def _fetched(what: str, fetch: Callable[[], Any], expected: str) -> Any:
    try:
        return fetch()
    except Exception as error:  # the hubs raise errors of every kind
        reason = " ".join(str(error).split())
        raise BadInput(
            f"{what} cannot be loaded; expected {expected} ({type(error).__name__}: {reason:.300})"
        ) from error


def _width(name: str, trunk: nn.Module, probe: Any, advice: str) -> int:
    """How wide the trunk's features are, by one item of zeros: a network that cannot read the pool is found here."""
    device = next(trunk.parameters()).device
    trunk.eval()
    try:
        with torch.no_grad():
            features = trunk(probe.to(device))
    except BadInput:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise BadInput(
            f"{name} cannot read items of shape {tuple(probe.shape[1:])}; {advice} ({type(error).__name__}: "
            f"{reason:.300})"
        ) from error
    if features.ndim != 2:
        raise BadInput(f"{name} must give one vector an item, got shape {tuple(features.shape)}; {advice}")
    return int(features.shape[1])


def _square(size: Any) -> tuple[int, int] | None:
    """Height and width from one number, a pair, or nothing."""
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[1])
    if size is None or size == 0:
        return None
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise BadInput(f"size must be a number of pixels, got {size!r}")
    return size, size


def image_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of a pool's images; an error for other items."""
    if len(shape) != 3:
        raise BadInput(f"{name} takes images (height, width, channels), the pool has items of shape {shape}; try 'mlp'")
    return shape[0], shape[1], shape[2]
