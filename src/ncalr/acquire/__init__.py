"""Acquisition: strategies, selectors and the door that runs them."""

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.query import query
from ncalr.acquire.registry import Strategy, add, resolve, selector, selectors, strategies, strategy

__all__ = [
    "Evidence",
    "Strategy",
    "add",
    "query",
    "resolve",
    "selector",
    "selectors",
    "strategies",
    "strategy",
]
