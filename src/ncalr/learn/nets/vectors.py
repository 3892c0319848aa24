"""A network for ready-made embeddings: a small perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn


class MLP(nn.Module):
    """Hidden layers with ReLU, then one linear layer."""

    def __init__(self, classes: int, d: int, widths: Sequence[int] = (512, 256), dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            layers += [nn.Linear(d, width), nn.ReLU()]
            d = width
        self.body = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(d, classes)

    def forward(self, x: Any) -> Any:
        """Logits (n, c) of vectors (n, d)."""
        return self.head(self.dropout(self.body(x)))
