"""An experiment is one frozen value: from Python, from flags, or from one TOML file. Unknown keys fail."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ncalr.acquire.options import check_options
from ncalr.acquire.spec import parse
from ncalr.data.dataset import placed
from ncalr.errors import BadInput, check_known
from ncalr.loop.answers import policy
from ncalr.loop.run import UNSAID, Plan
from ncalr.loop.stopping import stops_of

MOST = 100_000
"""Seeds, and rounds of a run: each is a folder or a line, and numbers far beyond are a mistake."""


@dataclass(frozen=True)
class Experiment:
    """Strategies compared on one dataset, from the same initial pools."""

    dataset: str = "digits"
    strategies: tuple[str, ...] = ("ncal", "random", "margin", "coreset", "badge")
    seeds: int = 3
    start: int = 40  # labels of the initial pool
    step: int = 20  # labels asked for in a round
    end: int = 140  # labels at the last training
    network: str = "resnet8"
    recipe: str = "digits"
    noise: str = ""  # of the oracle; "symmetric(rate=0.2)" and so on (`ncalr.oracles.named`)
    stratified: bool = False  # initial pool with the classes in their shares: needs the truth, for studies only
    control: float = 0.0
    first_seed: int = 0
    keep: str = ""  # models to keep for `ncalr evaluate`: nothing, "last" or "all"
    answers: str = "single"  # how often to ask about an item; budgets count answers (`ncalr.loop.answers`)
    stops: str = ""  # rules that end a run before its last budget: "target=0.95" (`ncalr.loop.stopping`)

    def __post_init__(self) -> None:
        if not isinstance(self.strategies, list | tuple):
            raise BadInput(f"strategies must be a list of names, got {self.strategies!r:.60}")
        object.__setattr__(self, "strategies", tuple(self.strategies))
        if not self.strategies or len(set(map(str, self.strategies))) < len(self.strategies):
            raise BadInput(f"strategies must be given, each once, got {list(self.strategies)}")
        for strategy in self.strategies:  # whether there is such a one is asked when it runs: a report needs none
            if not isinstance(strategy, str):
                raise BadInput(f"a strategy of an experiment is given by its name or a spec, got {strategy!r}")
            parse(strategy)
        check_options("the experiment", Experiment, {n: v for n, v in vars(self).items() if n != "strategies"}, {})
        policy(self.answers)
        object.__setattr__(self, "dataset", placed(self.dataset))  # it goes on from wherever it is resumed
        if self.seeds < 1 or self.start < 2 or self.step < 1 or self.end < self.start:
            raise BadInput(
                f"an experiment needs seeds >= 1, start >= 2, step >= 1 and end >= start, got seeds={self.seeds}, "
                f"start={self.start}, step={self.step}, end={self.end}"
            )
        if max(self.seeds, (self.end - self.start) // self.step) > MOST:
            raise BadInput(
                f"an experiment has at most {MOST:,} seeds and rounds, got seeds={self.seeds}, start={self.start}, "
                f"step={self.step}, end={self.end}"
            )
        Plan("random", self.budgets, control=self.control, keep=self.keep, answers=self.answers)
        stops_of(self.stops)

    @property
    def budgets(self) -> tuple[int, ...]:
        """Labels at each training."""
        return self.within()

    def within(self, items: int | None = None) -> tuple[int, ...]:
        """The budgets that a pool of so many items has answers for: the last is where nothing is left to ask.

        All budgets, where the size of the pool is not known.

        >>> Experiment(start=300, step=150, end=900).within(480)
        (300, 450, 480)
        """
        last = min(self.end, items * policy(self.answers).cap) if items else self.end
        return (*range(self.start, last, self.step), last)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = {**asdict(self), "strategies": list(self.strategies)}
        return {name: value for name, value in plain.items() if (name, value) not in UNSAID.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Experiment:
        """From plain data; a key that is not known is an error."""
        known = {f.name for f in fields(cls)}
        for key in values:
            check_known("experiment value", key, known)
        return cls(**values)


def read_toml(path: Path | str) -> dict[str, Any]:
    """What stands in a TOML file."""
    from importlib import import_module

    reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: dict[str, Any] = reader.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read the experiment file {path}: {error.strerror}") from None
    except (reader.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not TOML: {error}") from None
    return found
