"""Packages that some tests need, and that a test run may be without."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch


def needed(module: str, extra: str) -> Any:
    """The module; without it, the test is skipped."""
    mend_torchvision()
    return pytest.importorskip(module, reason=f"needs {module}: pip install 'ncalr[{extra}]'")


@cache
def mend_torchvision() -> None:
    """Let torchvision be imported next to a torch of another build.

    The torchvision of the package index is built for CUDA. Next to a CPU build of torch its compiled part cannot be
    loaded, and it fails as it describes two operators that are then not there, and with it all that import it: timm,
    lightning, transformers. Nothing in our tests calls these operators, so they are declared.
    """
    if find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
        import_module("torchvision")
