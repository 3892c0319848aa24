"""ncalr: reliable active learning from unreliable labels.

    import ncalr
    picks = ncalr.query("ncal", 500, features=…, logits=…, labelled_features=…, labels=…, checkpoint_predictions=…)
    picks.ids

Names below load on first use, so that importing ncalr costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ncalr.acquire import Strategy, selector, strategies, strategy
    from ncalr.acquire.query import query
    from ncalr.dynamics import Recorder
    from ncalr.engine.query import query_pool
    from ncalr.evaluate.audit import audit
    from ncalr.geometry import ClassStatistics
    from ncalr.learn.suggest import suggest
    from ncalr.loop.whole import run
    from ncalr.types import Picks

_HOME = {
    "ClassStatistics": "ncalr.geometry",
    "Picks": "ncalr.types",
    "Recorder": "ncalr.dynamics",
    "Strategy": "ncalr.acquire",
    "audit": "ncalr.evaluate.audit",
    "query": "ncalr.acquire.query",
    "query_pool": "ncalr.engine.query",
    "run": "ncalr.loop.whole",
    "selector": "ncalr.acquire",
    "strategies": "ncalr.acquire",
    "strategy": "ncalr.acquire",
    "suggest": "ncalr.learn.suggest",
}

__all__ = [
    "ClassStatistics",
    "Picks",
    "Recorder",
    "Strategy",
    "__version__",
    "audit",
    "query",
    "query_pool",
    "run",
    "selector",
    "strategies",
    "strategy",
    "suggest",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'ncalr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
