"""Items into vectors: the features of a named network, block after block, for a pool on disk or a file.

    pool, net = ImagePool("photos", size=224), "timm:vit_small_patch14_dinov2(pretrained=true)"
    write_shards("pool", embed(pool, net), made={"features": facts(pool, net)})

A network without trained weights gives random features, and is refused unless it is asked for (`untrained`). `facts`
are what the vectors depend on: items that come later are made alike by the same facts. Texts are for networks of `hf:`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ncalr.data.pool import Pool
from ncalr.data.words import holds_texts
from ncalr.errors import BadInput
from ncalr.learn.feeds import Normaliser, readable
from ncalr.learn.nets import network
from ncalr.learn.nets.external import is_trained
from ncalr.learn.tap import Tap
from ncalr.learn.texts import TextReader


def facts(
    pool: Pool, net: str, *, untrained: bool = False, seed: int = 0, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What the vectors of these items depend on: the network, its weights, the items' shape and scales.

    `before` are the facts of earlier items, whose scales are then taken.
    """
    check_trained(net, untrained)
    pool = _readable(pool, net)
    scales = before["scales"] if before else Normaliser.of(pool, torch.device("cpu")).scales()
    weights = "pretrained" if is_trained(net) else f"random, seed {seed}"
    return {"network": net.strip(), "weights": weights, "shape": list(pool.shape), "scales": scales}


def embed(
    pool: Pool,
    net: str,
    *,
    layer: str = "",
    device: Any = None,
    batch: int = 256,
    untrained: bool = False,
    seed: int = 0,
    scales: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Blocks of `features` (float32) and `ids` of every item of a pool, in its order. `seed` is for fresh weights."""
    check_trained(net, untrained)
    return _blocks(_readable(pool, net), net, layer, device, batch, seed, scales)


def check_trained(net: str, untrained: bool) -> None:
    """Refuse a network without trained weights that nobody asked for."""
    if not untrained and not is_trained(net):
        name = net.strip()
        hint = f"'{name}(pretrained=true)'" if name.startswith("timm:") and "(" not in name else "pretrained=true"
        raise BadInput(
            f"the network {name} has no trained weights: its vectors would be random features. Take one that has, such "
            f"as 'timm:resnet18(pretrained=true)' ({hint} where the name is one of timm), or say --untrained "
            "(untrained=True) if random features are what you want"
        )


def _readable(pool: Pool, net: str) -> Pool:
    """The pool as the network reads it: texts as tokens."""
    reader = TextReader(net)
    if holds_texts(pool) and not reader.tokens:
        raise BadInput(f"texts become vectors by a network of hf:, such as 'hf:distilbert-base-uncased', got {net!r}")
    return reader(pool)


def _blocks(
    pool: Pool, net: str, layer: str, device: Any, batch: int, seed: int, scales: Mapping[str, Any] | None
) -> Iterator[dict[str, Any]]:
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(net, 2, tuple(pool.shape)).to(where).eval()
    tap, normalise = Tap(model, layer), Normaliser.of(pool, where, scales)
    for start in range(0, len(pool), batch):
        rows = np.arange(start, min(start + batch, len(pool)))
        raw = torch.from_numpy(readable(np.array(pool.read(rows)))).to(where)
        with torch.no_grad():
            features, _ = tap(model, normalise(raw, torch.float32))
        yield {"features": features.cpu().numpy(), "ids": pool.ids[rows]}
