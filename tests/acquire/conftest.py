"""Fixtures of the acquisition tests: both backends, one thread, and a bundle of every kind of evidence."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from ncalr.kernels.device import Device
from ncalr.kernels.host import Host


@pytest.fixture(params=["host", "torch"])
def backend(request, monkeypatch):
    """Run the test twice: queries computed by NumPy and numba, and by torch on the CPU."""
    made = Host() if request.param == "host" else Device(torch.device("cpu"))
    monkeypatch.setattr("ncalr.acquire.query.choose", lambda *_: made)
    return made


@pytest.fixture
def one_thread():
    """Many tiny queries: waking the other threads would cost more than the work."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


@pytest.fixture
def no_work(monkeypatch):
    """Fail if a query gets past its checks."""

    def begin(*_):
        raise AssertionError("the work began before the input was refused")

    monkeypatch.setattr("ncalr.acquire.query.pick", begin)


@pytest.fixture
def everything():
    """Every kind of evidence about 60 pool items and 24 labelled ones, in numbers that half precision holds exactly."""
    return bundle(np.random.default_rng(7), n=60, m=24)


def bundle(rng, n, m, classes=4, d=8, kind=np.float64):
    """Evidence of every kind; the values are rounded to half precision first."""

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float16).astype(kind)

    def positive(*shape):
        return (np.maximum(rng.normal(size=shape), 0) + 0.125).astype(np.float16).astype(kind)

    predictions = rng.integers(0, classes, n)
    log = np.where(rng.random((6, n)) < 0.3, rng.integers(0, classes, (6, n)), predictions)
    log[-1] = predictions
    logits = normal(n, classes)
    return {
        "features": positive(n, d),
        "logits": logits,
        "predictions": logits.argmax(axis=1),
        "checkpoint_predictions": log,
        "sampled_probs": rng.dirichlet(np.ones(classes), (5, n)).astype(np.float16).astype(kind),
        "enhanced": normal(n, d),
        "labelled_features": positive(m, d),
        "labelled_logits": normal(m, classes),
        "labelled_enhanced": normal(m, d),
        "labels": np.arange(m) % classes,
    }
