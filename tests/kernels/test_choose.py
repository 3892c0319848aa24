"""Where arithmetic runs: the one place that decides it, and what it says when it cannot."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import torch

from ncalr.errors import BadInput, MissingExtra
from ncalr.kernels import Backend, choose, is_torch
from ncalr.kernels.device import Device
from ncalr.kernels.host import Host

find_spec = importlib.util.find_spec


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if these packages were not installed."""
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name in packages else find_spec(name, *rest)
    )


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
@pytest.mark.parametrize("arrays", [[], [np.ones(2)], [np.ones(2), torch.ones(2)]])
def test_the_cpu_is_the_host(device: object, arrays: list) -> None:
    assert isinstance(choose(device, arrays), Host)


def test_arrays_run_where_the_first_tensor_off_the_cpu_lives() -> None:
    there = torch.ones(2, device="meta")  # the one other device that every machine has
    backend = choose(None, [np.ones(2), torch.ones(2), there])
    assert isinstance(backend, Device)
    assert backend.device.type == "meta"


def test_a_device_that_is_said_comes_before_the_arrays() -> None:
    assert isinstance(choose("cpu", [torch.ones(2, device="meta")]), Host)


@pytest.mark.parametrize("device", ["cuda:99", "nonsense"])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(BadInput, match=rf"device '{device}' cannot be used here \(.+\); choose cpu, or name no device"):
        choose(device)


def test_without_numba_torch_serves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "numba")
    backend = choose("cpu")
    assert isinstance(backend, Device)
    assert backend.device.type == "cpu"


def test_without_numba_and_torch_there_is_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "numba", "torch")
    with pytest.raises(MissingExtra, match=r"device 'cpu' needs numba: pip install"):
        choose()


def test_without_torch_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "torch")
    with pytest.raises(MissingExtra, match=r"device 'cuda' needs torch: pip install 'ncalr\[torch\]'"):
        choose("cuda")
    assert isinstance(choose("cpu"), Host)


def test_is_torch() -> None:
    assert is_torch(torch.ones(1))
    assert not is_torch(np.ones(1))
    assert not is_torch([1.0])


def test_is_torch_where_torch_was_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.ones(1)
    monkeypatch.delitem(sys.modules, "torch")
    assert not is_torch(tensor)


@pytest.mark.parametrize("backend", [Host(), Device(torch.device("cpu"))], ids=["host", "device"])
def test_a_backend_has_all_that_the_protocol_names(backend: Backend) -> None:
    names = [name for name in vars(Backend) if not name.startswith("_")]
    assert "cmap" in names
    assert [name for name in names if not hasattr(backend, name)] == []
