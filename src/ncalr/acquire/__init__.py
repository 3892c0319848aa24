"""Acquisition: strategies, selectors and the door that runs them (`ncalr.acquire.query.query`)."""

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import Strategy, add, resolve, selector, selectors, strategies, strategy

__all__ = ["Evidence", "Strategy", "add", "resolve", "selector", "selectors", "strategies", "strategy"]
