"""What a line of a journal may hold: checked when it is read, so that an edited one is an error with its place."""

from __future__ import annotations

from typing import Any

from ncalr.data.fields import (
    check_fields,
    dict_of,
    either,
    is_count,
    is_id,
    is_number,
    is_share,
    is_text,
    list_of,
    optional,
    record,
)
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput


def _is_label(value: Any) -> bool:
    """A class, or one of the signs for no answer."""
    return type(value) is int and -9 <= value < MOST_CLASSES


def _is_call(value: Any) -> bool:
    """Ids, as many labels, and who said so."""
    return _ANSWERS(value) and len(value.get("ids", ())) == len(value.get("labels", ())) and _by_all(value)


def _by_all(value: Any) -> bool:
    by = value.get("by", "")
    return isinstance(by, str) or len(by) == len(value.get("ids", ()))


_NUMBERS = list_of(is_number)
_OF_A_CALL = {"ids": list_of(is_id), "labels": list_of(_is_label), "by": either(is_text, list_of(is_text))}
_ANSWERS = record(_OF_A_CALL)
KINDS = {
    **_OF_A_CALL,
    **dict.fromkeys(("round", "labelled", "answers", "planned", "seq", "epoch"), is_count),
    "accuracy": is_share,
    **dict.fromkeys(("rule", "stop"), is_text),
    **dict.fromkeys(("began", "flipping", "redundancy", "temperature", "heard"), optional(is_number)),
    "collapse": dict_of(optional(is_number)),
    "separation": record({"quantiles": _NUMBERS, "norm": is_number}),
    "seconds": dict_of(is_number),
    "control": record({"ids": list_of(is_id), "predicted": list_of(_is_label)}, ("ids", "predicted")),
    "scores": _NUMBERS,
    "parts": dict_of(_NUMBERS),
    "least": record({"ids": list_of(is_id), "parts": dict_of(_NUMBERS)}, ("ids", "parts")),
    "notes": list_of(is_text),
    "calls": list_of(is_count),
    "again": list_of(_is_call),
    "changes": _is_call,
    "consensus": record({"ids": list_of(is_id), "labels": list_of(_is_label), "soft": list_of(_NUMBERS)}),
}
"""The fields that are read again, and what each may be."""


def check_line(line: Any, number: int, place: str) -> None:
    """Raise where a line is none of a journal's, or not the one of this number."""
    check_fields(line, KINDS, place)
    if line.get("round", number) != number:
        raise BadInput(f"{place} is of round {line['round']}, expected {number}: a line was taken out or added")
    if not _is_call(line):
        raise BadInput(f"{place}: ids, labels and by must be as many")
    if "accuracy" in line:
        check_fields(line, {}, place, needed=("labelled",))
    _check_lengths(line, place)


def _check_lengths(line: Any, place: str) -> None:
    """Raise where what stands beside ids is of another number."""
    ids, scores = line.get("ids", []), line.get("scores", [])
    least, control = line.get("least", {"ids": [], "parts": {}}), line.get("control", {"ids": [], "predicted": []})
    pairs = [(control["predicted"], control["ids"])]
    pairs += [(values, scores) for values in line.get("parts", {}).values()]
    pairs += [(values, least["ids"]) for values in least["parts"].values()]
    if len(scores) > len(ids) or any(len(one) != len(other) for one, other in pairs):
        raise BadInput(f"{place}: scores, parts and predictions must be as many as their ids")
    if not {*control["ids"]} <= {*ids}:
        raise BadInput(f"{place}: the ids of control must be among those of the round")
