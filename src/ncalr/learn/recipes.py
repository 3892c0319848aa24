"""How to train: every value visible, chosen by name, changed by keyword.

    recipe("strong")                                the strong baseline: nobody can call it weak
    recipe("strong", epochs=200, schedule="cosine")
    recipe("strong(epochs=50)")                     the same as text, for command lines and experiment files

**The schedule and the checkpoint window belong together.** FF counts how often a prediction flips over the window;
where the learning rate has decayed to nothing, nothing flips and FF says nothing. The default schedule therefore
goes down in two steps (to a tenth at 70 % of the training, to a hundredth at 90 %), and the window lies behind the
first of them: where the network fits its labels and still moves. The record of a training says in what share of the
pool FF is above 0.

`steepness` has no part in the training: it says how SISOM's features are made of the trained network, and stands here
so that an experiment can say it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ncalr.acquire.options import check_options
from ncalr.acquire.spec import Spec, parse
from ncalr.errors import BadInput, check_known

SCHEDULES = ("constant", "step", "cosine")
HEAD = ("mlp", "head")
"""Network and recipe for vectors that are ready-made, wherever nobody names others."""


@dataclass(frozen=True)
class Recipe:
    """One way to train a network, and where its checkpoint window lies."""

    epochs: int = 120
    batch: int = 128
    rate: float = 0.1  # learning rate at the start
    momentum: float = 0.9
    nesterov: bool = True
    decay: float = 5e-4  # weight decay
    schedule: str = "step"  # constant, step (down by `drop` at each of `drops`) or cosine (to 0)
    drops: tuple[float, ...] = (0.7, 0.9)  # shares of the training
    drop: float = 0.1
    warm_up: float = 0.1  # share of the training over which the rate rises from 0
    crop: int = 4  # pixels of zeros around an image before it is cropped at random; 0: no crop
    flip: bool = True  # mirror half of the images
    loss: str = "cross_entropy"  # or one that stands wrong labels: gce, elr, small_loss (`losses.py`)
    smoothing: float = 0.0  # label smoothing
    mixup: float = 0.0  # parameter of the Beta distribution; 0: none
    balanced: bool = False  # every class equally often, for long tails
    dropout: float = 0.0  # before the last layer; Monte-Carlo dropout needs it above 0
    checkpoints: int = 10  # how many the window holds at least
    opens: float = 0.5  # share of the training before which the window never opens
    fallback: float = 0.75  # share of the training at which it opens whatever the collapse measures say
    accuracy: float = 0.99  # training accuracy that begins the terminal phase
    stop: bool = False  # end the training once the window is full, at one checkpoint an epoch
    steepness: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)  # of SISOM's sigmoids, last layer first (`enhance.py`)

    def __post_init__(self) -> None:
        whole = {"epochs": 1, "batch": 2, "crop": 0, "checkpoints": 2}
        for name, least in whole.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadInput(f"{name} must be a whole number of at least {least}, got {value!r}")
        check_options("the recipe", Recipe, vars(self), {})
        shares = ("opens", "fallback", "accuracy", "warm_up", "smoothing", "dropout", "momentum", "drop")
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(f"{name} must lie in 0..1, got {getattr(self, name)!r}")
        if not all(0 < place < 1 for place in self.drops):
            raise BadInput(f"drops must be shares of the training such as (0.6, 0.85), got {self.drops!r}")
        if not self.rate > 0 or not math.isfinite(self.rate):
            raise BadInput(f"rate must be a positive number, got {self.rate!r}")
        if self.decay < 0 or self.mixup < 0:
            raise BadInput(f"decay and mixup must not be negative, got {self.decay!r} and {self.mixup!r}")
        if not self.steepness or min(self.steepness) <= 0:
            raise BadInput(f"steepness must be positive numbers, last layer first, got {self.steepness!r}")
        check_known("schedule", self.schedule, SCHEDULES)
        if self.checkpoints > self.epochs:
            raise BadInput(
                f"{self.checkpoints} checkpoints need as many epochs, got epochs={self.epochs}; "
                "train longer or ask for fewer checkpoints"
            )

    def of_training(self) -> dict[str, Any]:
        """The values that the training depends on."""
        return {name: value for name, value in asdict(self).items() if name != "steepness"}

    def of_step(self) -> tuple[Any, ...]:
        """What a step is built from: trainings that agree in this use one captured step, one after the other."""
        made_with = (self.momentum, self.nesterov, self.decay, self.loss, self.smoothing, self.mixup, self.dropout)
        return (self.batch, *made_with, bool(self.crop or self.flip))

    def rate_at(self, done: float) -> float:
        """The learning rate when this share of the training is done."""
        if self.warm_up and done < self.warm_up:
            return self.rate * done / self.warm_up
        if self.schedule == "cosine":
            left = (done - self.warm_up) / max(1 - self.warm_up, 1e-9)
            return self.rate * 0.5 * (1 + math.cos(math.pi * min(left, 1.0)))
        if self.schedule == "step":
            return self.rate * self.drop ** sum(done >= place for place in self.drops)
        return self.rate


RECIPES = {
    "strong": Recipe(),
    "paper": Recipe(
        epochs=100,
        batch=100,
        rate=0.025,
        nesterov=False,
        decay=3e-4,
        schedule="cosine",
        warm_up=0.0,
        crop=0,
        fallback=0.65,
    ),
    "digits": Recipe(
        epochs=40,
        batch=32,
        rate=0.05,
        warm_up=0.0,
        drops=(0.6, 0.85),
        drop=0.3,
        decay=1e-3,
        crop=1,
        flip=False,
        opens=0.3,
        fallback=0.6,
        accuracy=0.999,
    ),
    "head": Recipe(epochs=50, batch=64, rate=0.05, crop=0, flip=False, decay=1e-4),
}
"""Named recipes. `paper` is a bracket: the paper does not print its own (docs/learning.md says on what evidence)."""


def recipe(name: str | Recipe = "strong", **changes: Any) -> Recipe:
    """A recipe by name, as text such as `"strong(epochs=50)"`, or as it is; with some values changed."""
    if not isinstance(name, Recipe):
        spec = parse(name)
        check_known("recipe", spec.name, RECIPES)
        changes = {**spec.options, **changes}
        name = RECIPES[spec.name]
    known = {field.name for field in fields(Recipe)}
    for key in changes:
        check_known("recipe value", key, known)
    if isinstance(changes.get("loss"), Spec):
        changes["loss"] = str(changes["loss"])
    changes = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
    return replace(name, **changes)
