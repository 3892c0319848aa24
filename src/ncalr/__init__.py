"""ncalr: reliable active learning from unreliable labels.

    ncalr.suggest(vectors, labels, k=500)           the next items to label, from vectors and the labels so far
    ncalr.audit(vectors, labels)                  which of those labels to check again
    ncalr.forecast(vectors, labels, 500)            what 500 more labels will bring: when to stop
    ncalr.query("ncal_coverage", 500, features=…)     the next items, from the arrays of your own model
    ncalr.audit(features, labels, logits=…)       the same from the arrays of your own model
    ncalr.Recorder(items, classes)                what your training loop tells `query`
    ncalr.query_pool("ncal", 500, "pool/", …)     the same of a pool on disk
    ncalr.run("digits", "ncal", budgets=…, …)     the whole loop: train, ask, label, again
    ncalr.strategies()                            what can be asked for; `ncalr.strategy` and `ncalr.selector` add to it

Errors that are meant for you are `ncalr.errors.NcalrError`. Experiments are in `ncalr.lab`, suites for what you write
in `ncalr.testing`.

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
    from ncalr.evaluate.forecast import Forecast, forecast
    from ncalr.geometry import ClassStatistics
    from ncalr.learn.suggest import suggest
    from ncalr.loop.whole import run
    from ncalr.types import Picks

_HOME = {
    "ClassStatistics": "ncalr.geometry",
    "Forecast": "ncalr.evaluate.forecast",
    "Picks": "ncalr.types",
    "Recorder": "ncalr.dynamics",
    "Strategy": "ncalr.acquire",
    "audit": "ncalr.evaluate.audit",
    "forecast": "ncalr.evaluate.forecast",
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
    "Forecast",
    "Picks",
    "Recorder",
    "Strategy",
    "__version__",
    "audit",
    "forecast",
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
