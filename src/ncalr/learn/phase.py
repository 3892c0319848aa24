"""The terminal phase: when it begins, and which epochs are its checkpoints.

Checks look at the labelled set in evaluation mode, without augmentation. The phase begins, by the first of

    accuracy   training accuracy at least `accuracy` (0.99; Papyan et al. 2020 take 0.999), three checks in a row
    plateau    nothing moves any more: accuracy and nearest-mean agreement within 0.005 (or two standard errors, where
               labels are few) of their best over the last ten epochs, the latter at least 0.95, and log of
               tr(Sigma_W) / tr(Sigma_B) falling by less than 5 % of itself (of 1, where it is nearer to 0) by the
               line through the checks: three in a row; for noisy labels and strong augmentation, where the accuracy
               rule never fires
    fallback   the share `fallback` of the training, or the last epoch from which the window can still be filled

and never before the share `opens`. A learning rate that goes down in steps starts everything moving again, so a plateau
is looked for behind the first step, among the checks since the last one. `strong` has its first step at 0.7 and its
fallback at 0.75, which leaves no room for that, nor do `digits` and `head`: docs/learning.md has a table of which rule
can open the window when, and of what to change where the plateau is to decide.

From there the window's checkpoints are spread evenly over what is left, one an epoch where the training stops by itself
(`stop`); the window then opens behind the first step of the learning rate, if the training is long enough for both. The
last checkpoint is the last epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ncalr.learn.recipes import Recipe

IN_A_ROW = 3
LOOK_BACK = 10
NEAR = 0.005  # of a share, which is then taken for the same
AGREEMENT = 0.95  # of nearest-mean predictions, with less of which features have not collapsed


@dataclass(frozen=True)
class Check:
    """The labelled set after an epoch."""

    epoch: int
    accuracy: float
    quotient: float  # tr(Sigma_W) / tr(Sigma_B)
    agreement: float  # share of predictions that are the class of the nearest mean
    items: int = 0  # labels looked at


@dataclass
class Phase:
    """Which epochs to check, when the window opened, which epochs are checkpoints."""

    recipe: Recipe
    checks: list[Check] = field(default_factory=list)
    rule: str = ""
    began: int = 0
    window: tuple[int, ...] = ()

    @property
    def earliest(self) -> int:
        """The first epoch after which the window may open; behind the rate's first step where that ends a training."""
        return max(self._opens, self._lowered)

    @property
    def latest(self) -> int:
        """The epoch after which it opens in any case."""
        recipe = self.recipe
        room = recipe.epochs - recipe.checkpoints + 1
        return max(min(math.ceil(recipe.fallback * recipe.epochs), room), self._lowered, 1)

    @property
    def _opens(self) -> int:
        """The first epoch after which the recipe lets it open, and from which on the labelled set is watched."""
        return min(math.ceil(self.recipe.opens * self.recipe.epochs), self.latest)

    @property
    def _lowered(self) -> int:
        """The first epoch at a lower rate, or the last that leaves room for the window, where it is waited for."""
        recipe = self.recipe
        if not (recipe.stop and recipe.schedule == "step" and recipe.drops):
            return 0
        return min(math.ceil(min(recipe.drops) * recipe.epochs) + 1, recipe.epochs - recipe.checkpoints + 1)

    @property
    def longest(self) -> int:
        """How many epochs the training has at most: fewer than the recipe says where it stops with a full window."""
        return self.latest + self.recipe.checkpoints - 1 if self.recipe.stop else self.recipe.epochs

    @property
    def last(self) -> int:
        """The last epoch of the training, as far as it is known."""
        return self.window[-1] if self.window else self.recipe.epochs

    def wants_check(self, epoch: int) -> bool:
        """Whether to look at the labelled set after this epoch: sparsely at first, often where the phase may begin."""
        if self.window:
            return epoch in self.window
        before = max(self._opens - IN_A_ROW + 1, 1)
        sparse = max(self.recipe.epochs // 10, 1)
        dense = min(max((self.latest - self._opens) // 6, 1), LOOK_BACK // 3)
        return epoch == self.latest or (epoch >= before and (epoch - before) % dense == 0) or epoch % sparse == 0

    def add(self, check: Check) -> None:
        """Take a check in; this may open the window."""
        self.checks.append(check)
        if self.window or check.epoch < self.earliest:
            return
        recent = self.checks[-IN_A_ROW:]
        if len(recent) == IN_A_ROW and all(c.accuracy >= self.recipe.accuracy for c in recent):
            self._open("accuracy", check.epoch)
        elif len(recent) == IN_A_ROW and all(self._is_flat(c) for c in recent):
            self._open("plateau", check.epoch)
        elif check.epoch >= self.latest:
            self._open("fallback", check.epoch)

    def _is_flat(self, check: Check) -> bool:
        stepped = self._stepped(check.epoch)
        past = [c for c in self.checks if max(check.epoch - LOOK_BACK, stepped + 1) <= c.epoch <= check.epoch]
        if stepped < 0 or past[0].epoch > check.epoch - LOOK_BACK // 2 or check.agreement < AGREEMENT:
            return False
        for of in ("accuracy", "agreement"):
            now, best = getattr(check, of), max(getattr(c, of) for c in past)
            chance = 2 * math.sqrt(now * (1 - now) / check.items) if check.items else 0.0
            if now < best - max(NEAR, chance):
                return False
        if any(c.quotient <= 0 for c in past):
            return True
        logs = np.log([c.quotient for c in past])
        slope = float(np.polyfit([c.epoch for c in past], logs, 1)[0])
        return slope * LOOK_BACK > -0.05 * max(abs(float(logs.mean())), 1.0)

    def _stepped(self, epoch: int) -> int:
        """The last epoch before the learning rate fell for the last time; -1 where it has not fallen yet and will."""
        if self.recipe.schedule != "step" or not self.recipe.drops:
            return 0
        places = [math.ceil(place * self.recipe.epochs) for place in self.recipe.drops]
        return max((place for place in places if place < epoch), default=-1)

    def _open(self, rule: str, epoch: int) -> None:
        self.rule, self.began = rule, epoch
        count, last = self.recipe.checkpoints, self.recipe.epochs
        if self.recipe.stop:
            self.window = tuple(range(epoch, epoch + count))
        else:
            self.window = tuple(epoch + round(place * (last - epoch) / (count - 1)) for place in range(count))
