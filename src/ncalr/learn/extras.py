"""Packages that are not needed until they are asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ncalr.errors import MissingExtra


def load(module: str, extra: str) -> Any:
    """The module, or the error with the line that installs it."""
    how = f"pip install 'ncalr[{extra}]'"
    if not installed(module):
        raise MissingExtra(f"this needs the package {module.partition('.')[0]}, which is not installed: {how}")
    try:
        return import_module(module)
    except Exception as error:  # a broken install raises anything; torchvision of another build than torch, for one
        raise MissingExtra(
            f"{module} is installed and does not import ({type(error).__name__}: {error}). Where the error names "
            "torchvision, its build is not torch's: install both from the same index, or remove torchvision if nothing "
            f"else needs it. Otherwise: {how}"
        ) from error


def installed(module: str) -> bool:
    """Whether the package that holds this module is there, without importing it."""
    return find_spec(module.partition(".")[0]) is not None
