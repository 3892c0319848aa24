"""Options are of the kind that their declaration says: checked in one place, before anything is computed.

The kind of an option is its annotation, or else that of its default. `true`, `false` and `none` in a spec's text are
read as such (`spec.py`), so a flag is a truth value and never a word.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Integral, Real
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ncalr.errors import BadInput

_WORDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a word", type(None): "none"}


def check_options(owner: str, declared: Any, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise for a value that is not of its option's kind. `declared` is the function or the class with the options."""
    hints = _hints(declared)
    for name, value in given.items():
        default = defaults.get(name)
        kind = hints.get(name, type(default) if type(default) in _WORDS and default is not None else Any)
        if not _fits(value, kind):
            raise BadInput(f"{owner}: {name} must be {_words(kind)}, got {value!r}")


@cache
def _hints(declared: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(declared)
    except (NameError, TypeError):  # somebody else's annotations, of names that only a type checker sees
        return {}


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(_fits(part, get_args(kind)[0]) for part in value)
    flag = isinstance(value, bool | np.bool_)
    if kind is bool:
        return flag
    if kind is int:
        return isinstance(value, Integral) and not flag
    if kind is float:
        return isinstance(value, Real) and not flag and math.isfinite(value)
    return isinstance(value, kind) if kind in (str, type(None)) else True


def _words(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_words, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"a list, each of it {_words(get_args(kind)[0])}"
    return _WORDS[kind]
