"""Images into vectors: the features of a named network, block after block, for a pool on disk.

    write_shards("pool", embed(ImagePool("photos", size=224), "timm:vit_small_patch14_dinov2(pretrained=true)"))

A network without trained weights gives random features: choose a pretrained one, or one of `TorchModel.save`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ncalr.data.pool import Pool
from ncalr.learn.feeds import Normaliser, readable
from ncalr.learn.nets import network
from ncalr.learn.tap import Tap


def embed(
    pool: Pool, net: str, *, layer: str = "", device: Any = None, batch: int = 256, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Blocks of `features` (float32) and `ids` of every item of a pool, in its order. `seed` is for fresh weights."""
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(net, 2, tuple(pool.shape)).to(where).eval()
    tap, normalise = Tap(model, layer), Normaliser.of(pool, where)
    for start in range(0, len(pool), batch):
        rows = np.arange(start, min(start + batch, len(pool)))
        raw = torch.from_numpy(readable(np.array(pool.read(rows)))).to(where)
        with torch.no_grad():
            features, _ = tap(model, normalise(raw, torch.float32))
        yield {"features": features.cpu().numpy(), "ids": pool.ids[rows]}
