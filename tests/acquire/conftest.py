"""Fixtures of the acquisition tests: both backends, one thread, and a bundle of every kind of evidence."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from acquire_bundle import bundle

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
