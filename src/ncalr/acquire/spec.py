"""Strategies written as text: `ncal`, `ncal(fusion=rank)`, `ncal(select=filtered(multiple=3))`.

The text is a Python call with keyword arguments only; a bare word as a value, or in a list of them, is a string, but
for true, false and none, which are what they say. It is parsed, never run.
"""

from __future__ import annotations

import ast
import keyword
import math
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from ncalr.errors import BadInput

DEEPEST = 6
"""How deep specs may be nested. Each level of selectors is resolved several times over: 4 times the work."""

LONGEST = 2**16
"""How many characters a spec may have: room for the names of a thousand classes, and no more than Python can parse."""

WORDS = {"true": True, "false": False, "none": None}
"""Bare words that are no strings."""


@dataclass(frozen=True)
class Spec:
    """A name and its options; an option's value may be a `Spec` again."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if _depth(self) > DEEPEST:
            raise BadInput(f"options of {self.name!r} are nested more than {DEEPEST} deep; expected one or two levels")

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={_text(value)}" for key, value in self.options.items())
        return f"{self.name}({inside})" if inside else self.name


def parse(text: str) -> Spec:
    """The spec a text stands for.

    >>> parse("ncal(fusion=rank, sign=-1)")
    Spec(name='ncal', options={'fusion': 'rank', 'sign': -1})
    """
    if not isinstance(text, str):
        raise BadInput(f"a spec must be a text such as 'ncal(fusion=rank)', got {text!r:.80}")
    shown = f"cannot read {text[:80]!r}{'...' if len(text) > 80 else ''}"
    if len(text) > LONGEST:
        raise BadInput(f"{shown} ({len(text):,} characters); a spec has at most {LONGEST:,}")
    try:
        value = _value(ast.parse(_plain(text.strip()), mode="eval").body)
    except BadInput:
        raise
    except (SyntaxError, ValueError, TypeError) as error:
        raise BadInput(f"{shown} ({error}); write it as name or name(option=value, ...)") from None
    except (RecursionError, MemoryError):
        raise BadInput(f"{shown} (nested too deep); write it as name or name(option=value, ...)") from None
    if isinstance(value, str):
        return Spec(value)
    if isinstance(value, Spec):
        return value
    raise BadInput(f"{shown}; write it as name or name(option=value, ...)")


def with_defaults(strategy: str | Spec, **options: Any) -> Spec:
    """Return the strategy with these options, those that it names itself left as they are.

    >>> str(with_defaults("ncal(fusion=rank)", copies="drop")), str(with_defaults("ncal(copies=keep)", copies="drop"))
    ('ncal(fusion=rank, copies=drop)', 'ncal(copies=keep)')
    """
    if not isinstance(strategy, str | Spec):
        raise BadInput(f"`strategy` must be a name or a spec such as 'ncal(fusion=rank)', got {strategy!r:.80}.")
    found = parse(strategy) if isinstance(strategy, str) else strategy
    return Spec(found.name, {**found.options, **{n: v for n, v in options.items() if n not in found.options}})


def cut(text: str) -> tuple[str, str]:
    """A name that may be no word, as a path or a model of a hub, and the options in the brackets at its end.

    >>> cut("google/vit-base-patch16-224(frozen=true)")
    ('google/vit-base-patch16-224', '(frozen=true)')
    >>> cut("photos(size=(64, 96))")
    ('photos', '(size=(64, 96))')
    """
    depth = 0
    for at in range(len(text), 0, -1) if text.endswith(")") else ():
        depth += (text[at - 1] == ")") - (text[at - 1] == "(")
        if not depth:
            return text[: at - 1], text[at - 1 :]
    return text, ""


def split(text: str) -> list[str]:
    """The specs of a comma-separated list; commas inside brackets and texts do not count.

    >>> split("random, ncal(fusion=rank, sign=-1)")
    ['random', 'ncal(fusion=rank, sign=-1)']
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        if not quote:
            depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _depth(value: Any) -> int:
    """Return how many specs are nested in each other."""
    if isinstance(value, list):
        return max(map(_depth, value), default=0)
    return 1 + max(map(_depth, value.options.values()), default=0) if isinstance(value, Spec) else 0


def _plain(text: str) -> str:
    """A name with dashes is the name with underscores."""
    return text if "(" in text else text.replace("-", "_")


def _text(value: Any) -> str:
    """A value as it is read back: bare words stay bare."""
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, str) and not _stays(value):
        return repr(value)
    return str(value)


def _stays(word: str) -> bool:
    """Whether a bare word is read as itself; Python reads names in their plainest letters, as a for ª."""
    plain = unicodedata.normalize("NFKC", word) == word
    return word.isidentifier() and plain and not keyword.iskeyword(word) and word not in WORDS


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return WORDS.get(node.id, node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        if any(option.arg is None for option in node.keywords):
            raise ValueError("** is not an option")
        if len({option.arg for option in node.keywords}) < len(node.keywords):
            raise ValueError("an option is given twice")
        return Spec(node.func.id, {str(option.arg): _value(option.value) for option in node.keywords})
    if isinstance(node, ast.Call):
        raise ValueError("options need names")
    if isinstance(node, ast.List):
        return [_value(part) for part in node.elts]
    return ast.literal_eval(node)
