"""When to stop: the budget is spent, the target is reached, nothing is gained any more, nothing is left to learn.

As text, for the command line and experiment files, the rules with their values; whichever comes first stops a run:

    target=0.95                   the accuracy on the test set is at least this
    plateau=2, gain=0.005         no gain of 0.005 (0.002, if not said) in two rounds
    uninformative=0.01            predictions flip during a training in less than this share of the pool
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ncalr.acquire.options import check_options
from ncalr.acquire.spec import parse
from ncalr.errors import BadInput, check_known
from ncalr.loop.state import State


@dataclass(frozen=True)
class Stops:
    """Rules beside the budget; each is off where it is None."""

    target: float | None = None  # test accuracy that is enough
    plateau: int | None = None  # rounds without a gain of `gain`
    gain: float = 0.002
    uninformative: float | None = None  # stop when FF is above 0 in less than this share of the pool

    def __post_init__(self) -> None:
        for name in ("target", "uninformative"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise BadInput(f"{name} must lie in 0..1, got {value!r}")
        if self.plateau is not None and self.plateau < 1:
            raise BadInput(f"plateau must be at least one round, got {self.plateau!r}")

    def reason(self, state: State) -> str:
        """Why to stop after the last round, or nothing."""
        trained = [line for line in state.rounds if "accuracy" in line]
        if not trained:
            return ""
        accuracies = [line["accuracy"] for line in trained]
        if self.target is not None and accuracies[-1] >= self.target:
            return f"target: accuracy {accuracies[-1]:.4f} is at least {self.target}"
        if self.plateau is not None and len(accuracies) > self.plateau:
            before = max(accuracies[: -self.plateau])
            if max(accuracies[-self.plateau :]) < before + self.gain:
                return f"plateau: no gain of {self.gain} in {self.plateau} rounds"
        flipping = trained[-1].get("flipping")
        if self.uninformative is not None and flipping is not None and flipping < self.uninformative:
            return f"uninformative: predictions flip in {flipping:.2%} of the pool, less than {self.uninformative:.2%}"
        return ""


def stops_of(text: str) -> Stops:
    """The rules that a text stands for; no text is no rule.

    >>> stops_of("plateau=2, gain=0.005")
    Stops(target=None, plateau=2, gain=0.005, uninformative=None)
    """
    try:
        options = parse(f"stops({text})").options
    except BadInput:
        raise BadInput(
            f"cannot read the stopping rules {text!r}; write target=0.95, or plateau=2, gain=0.005"
        ) from None
    known = [field.name for field in fields(Stops)]
    for name in options:
        check_known("stopping rule", name, known)
    check_options("the stopping rules", Stops, options, {})
    if "gain" in options and options.get("plateau") is None:
        raise BadInput(f"gain is what a round must gain on a plateau, got {text!r}; say for how many rounds: plateau=2")
    return Stops(**options)
