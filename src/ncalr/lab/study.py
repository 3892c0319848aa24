"""The same experiment under several noises, each an experiment of its own in a folder of its own.

    OUT/experiment.json        what they have in common, and the noise of each folder
    OUT/symmetric-rate=0.2/    an experiment as any other, with its runs and its report
    OUT/none/                  clean labels
    OUT/report.html            all of them side by side (`overview.py`)

They are conducted together, in the order given: their trainings share the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from ncalr.acquire.spec import parse
from ncalr.errors import BadInput
from ncalr.lab.claims import MEMBERS
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import file_name, read_experiment
from ncalr.loop.journal import read_claim

NONE = "none"
"""No noise, where a noise must be named."""

LONGEST = 60  # letters of a folder's name; a confusion matrix has more


@dataclass(frozen=True)
class Study:
    """An experiment and the noises under which it is carried out; "none" and an empty text are clean labels.

    >>> list(Study(Experiment(), ("none", "symmetric(rate=0.2)")).members)
    ['none', 'symmetric-rate=0.2']
    """

    experiment: Experiment
    noises: tuple[str, ...]

    def __post_init__(self) -> None:
        given = list(self.noises)
        noises = tuple("" if noise == NONE else noise for noise in given)
        if len(noises) < 2 or len({str(parse(noise)) if noise else "" for noise in noises}) < len(noises):
            raise BadInput(f"a study needs two noises or more, each once, got {given}")
        object.__setattr__(self, "noises", noises)
        object.__setattr__(self, "experiment", replace(self.experiment, noise=""))

    @property
    def members(self) -> dict[str, Experiment]:
        """The experiment of each folder, in the order of the noises."""
        short = [file_name(noise or NONE) for noise in self.noises]
        found = {}
        for name, noise in zip(short, self.noises, strict=True):
            plain = len(name) <= LONGEST and short.count(name) == 1
            folder = name if plain else f"{name[:LONGEST]}-{crc32(noise.encode()):08x}"
            found[folder] = replace(self.experiment, noise=noise)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as in a TOML file: an experiment's, `noise` a list."""
        return {**self.experiment.as_dict(), "noise": [noise or NONE for noise in self.noises]}

    def as_claim(self) -> dict[str, Any]:
        """What is written into the folder of the study: its members by folder."""
        common = {name: value for name, value in self.experiment.as_dict().items() if name != "noise"}
        return {**common, MEMBERS: {folder: member.noise for folder, member in self.members.items()}}


def planned(values: Mapping[str, Any]) -> Experiment | Study:
    """What plain data stand for: an experiment, or a study where `noise` is a list of several."""
    noise = values.get("noise", "")
    noises = [noise] if isinstance(noise, str) else noise
    if not isinstance(noises, list | tuple) or not all(isinstance(one, str) for one in noises):
        raise BadInput(f"noise must be a text such as 'symmetric(rate=0.2)', or a list of such texts, got {noise!r}")
    if len(noises) > 1:
        return Study(Experiment.from_dict({**values, "noise": ""}), tuple(noises))
    one = "".join(noises)
    return Experiment.from_dict({**values, "noise": "" if one == NONE else one})


def read_plan(out: Path | str) -> Experiment | Study:
    """The experiment or the study of a directory."""
    path = Path(out) / "experiment.json"
    claim = read_claim(path) if path.exists() else {}
    if MEMBERS not in claim:
        return read_experiment(out)
    noises = claim.pop(MEMBERS)
    if not isinstance(noises, dict):
        raise BadInput(f"{path} is damaged: {MEMBERS} must be the noise of each folder, got {noises!r}")
    return Study(Experiment.from_dict(claim), tuple(noises.values()))


def members_of(plan: Experiment | Study) -> dict[str, Experiment]:
    """The experiments of a plan by folder; one that stands alone has no folder of its own."""
    return plan.members if isinstance(plan, Study) else {"": plan}
