"""The benchmark that compares picks on the CPU and on a GPU leaves no strategy out."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

import ncalr
from ncalr.acquire import strategies
from ncalr.kernels.device import Device
from ncalr.kernels.host import Host

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("acquisition_gpu")


def test_every_strategy_is_compared(benchmark):
    ours = [s for s in strategies().values() if s.score is None or s.score.__module__.startswith("ncalr.")]
    assert {made.name for made in ours} <= set(benchmark.PARITY)


def test_cluster_margin_is_the_same_on_both_backends(benchmark, monkeypatch):
    """On the benchmark's own pool, where k-means stands in for average linkage."""
    pool = {name: array for name, array in benchmark.small_pool().items() if name in ("features", "logits")}
    picks = []
    for made in (Host(), Device(torch.device("cpu"))):
        monkeypatch.setattr("ncalr.acquire.query.choose", lambda *_, made=made: made)
        picks.append(ncalr.query("cluster_margin", 200, **pool))
    assert picks[0].ids.tolist() == picks[1].ids.tolist()
    assert all("k-means stands in" in found.notes[0] for found in picks)
