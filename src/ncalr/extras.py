"""Packages that are not needed until they are asked for, and the line that installs each."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ncalr.errors import MissingExtra

NAMES = {"PIL": "Pillow", "sklearn": "scikit-learn"}
"""What packages are called that are imported under another name."""


def load(module: str, extra: str, what: str) -> Any:
    """The module; or an error that says what needs it, and the line that installs it."""
    check_installed(module, extra, what)
    try:
        return import_module(module)
    except Exception as error:  # a broken install raises anything; torchvision of another build than torch, for one
        raise MissingExtra(
            f"{module} is installed and does not import ({type(error).__name__}: {error}). Where the error names "
            "torchvision, its build is not torch's: install both from the same index, or remove torchvision if nothing "
            f"else needs it. Otherwise: pip install 'ncalr[{extra}]'"
        ) from error


def check_installed(module: str, extra: str, what: str) -> None:
    """Raise where the package that holds this module is not there."""
    if not installed(module):
        package = module.partition(".")[0]
        raise MissingExtra(f"{what} needs {NAMES.get(package, package)}; install it with: pip install 'ncalr[{extra}]'")


def installed(module: str) -> bool:
    """Whether the package that holds this module is there, without importing it."""
    return find_spec(module.partition(".")[0]) is not None
