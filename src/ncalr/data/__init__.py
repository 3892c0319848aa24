"""Pools: items with permanent ids. A pool never holds labels."""

from ncalr.data.images import ImagePool
from ncalr.data.pool import ArrayPool, Pool

__all__ = ["ArrayPool", "ImagePool", "Pool"]
