"""The moments of an estimator's training: how checkpoints are had from scikit-learn's estimators.

They are made by the first of these ways that the estimator has, and the record says by which:

| rule          | the estimator has                                | the training goes over           |
|---------------|--------------------------------------------------|----------------------------------|
| `partial_fit` | `partial_fit`                                    | `epochs` shuffled passes         |
| `staged`      | `staged_predict_proba` (boosting)                | its stages, fitted once          |
| `warm_start`  | `warm_start`, and `n_estimators` or `max_iter`   | its own n_estimators or max_iter |
| (empty)       | none of these                                    | one call of `fit`: no FF         |

The stages come before the warm start because a booster that has both gives the same models by either, and one fit is
cheaper than ten. A pipeline is taken by its last step, which leaves it the warm start.

Where a second pass or a further iteration changes nothing (naive Bayes only counts; a convex problem that was solved
stays solved) nothing flips, FF is 0 everywhere and the record's notes say so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.errors import BadInput
from ncalr.extras import load

Array = npt.NDArray[Any]
Predict = Callable[[Array], Array]
Steps = Iterator[tuple[int, Predict]]

SIZES = ("n_estimators", "max_iter")


@dataclass(frozen=True)
class Training:
    """What it takes to fit a model again."""

    x: Array  # the labelled vectors (m, d)
    y: npt.NDArray[np.int64]
    classes: int
    seeds: tuple[int, int]  # seed and round
    items: tuple[tuple[int, ...], bool]  # the shape of the pool's items, and whether they are images

    @property
    def kinds(self) -> npt.NDArray[np.int64]:
        """The classes among the labels."""
        return np.unique(self.y)


def rule_of(estimator: Any) -> str:
    """How checkpoints are had from an estimator: partial_fit, staged, warm_start, or an empty text where they are not.

    Settings with which scikit-learn's own partial_fit refuses to work (early stopping, balanced class weights) leave
    the other ways, and so does the solver that ignores a warm start (liblinear).
    """
    own = estimator.get_params(deep=False)
    in_passes = not own.get("early_stopping") and own.get("class_weight") != "balanced"
    if hasattr(estimator, "partial_fit") and in_passes:
        return "partial_fit"
    if hasattr(estimator, "staged_predict_proba"):
        return "staged"
    return "warm_start" if _growth(estimator)[1] else ""


@dataclass(frozen=True)
class Schedule:
    """Where in a training the checkpoints lie: evenly behind the share `opens` of it, the last at its end."""

    checkpoints: int = 10
    epochs: int = 100
    opens: float = 0.5

    def __post_init__(self) -> None:
        for name, least in (("checkpoints", 2), ("epochs", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadInput(f"{name} must be a whole number of at least {least}, got {value!r}")
        if not 0 <= self.opens <= 1:
            raise BadInput(f"opens must lie in 0..1, got {self.opens!r}")

    def window(self, total: int, least: int = 1) -> tuple[int, ...]:
        """At which of `total` passes, stages, trees or iterations the checkpoints are taken.

        Fewer than `checkpoints` where there are not so many; an error below `least`.

        >>> Schedule(checkpoints=4).window(100)
        (52, 68, 84, 100)
        """
        count = min(self.checkpoints, total)
        if count < least:
            raise BadInput(
                f"FF compares checkpoints: it needs {least} or more, ten are better, and this training has {total}; "
                "raise the estimator's n_estimators or max_iter"
            )
        first = min(max(math.ceil(self.opens * total), 1), total - count + 1)
        stride = max((total - first) // max(count - 1, 1), 1)
        return tuple(total - stride * back for back in reversed(range(count)))


def steps(estimator: Any, rule: str, schedule: Schedule, training: Training, least: int) -> Steps:
    """Train an estimator; at each checkpoint (`least` or more) give how far it is, and its way to predict."""
    if rule == "partial_fit":
        return _passes(estimator, schedule, training, least)
    if rule == "staged":
        return _stages(estimator, schedule, training, least)
    if rule == "warm_start":
        return _growing(estimator, schedule, training, least)
    return _at_once(estimator, training)


def stopped_short(estimator: Any) -> bool:
    """Whether an iterative estimator that was trained by warm starts had not converged at the end of the last one."""
    prefix, size, counts_all = _growth(estimator)
    reached = getattr(_last_step(estimator), "n_iter_", None)
    return not counts_all and reached is not None and int(np.max(reached)) >= estimator.get_params()[f"{prefix}{size}"]


def seeded(estimator: Any, seeds: tuple[int, int]) -> Any:
    """An unfitted copy with every parameter `random_state`, also those of its parts, set from the seeds."""
    copy = clone(estimator)
    names = sorted(name for name in copy.get_params() if last_word(name) == "random_state")
    return copy.set_params(**{name: _number(*seeds, 0, place) for place, name in enumerate(names)})


def clone(estimator: Any) -> Any:
    """An unfitted copy; an error for what is no classifier with probabilities."""
    if isinstance(estimator, type):
        raise BadInput(f"estimator must be an object, got the class {estimator.__name__}: write {estimator.__name__}()")
    missing = [name for name in ("get_params", "set_params", "fit") if not hasattr(estimator, name)]
    if missing:
        raise BadInput(
            f"estimator must be a classifier with scikit-learn's interface, got {type(estimator).__name__} without "
            f"{', '.join(missing)}"
        )
    if not hasattr(estimator, "predict_proba"):
        raise BadInput(
            f"{type(estimator).__name__} as it is set has no predict_proba, and evidence is made of probabilities; set "
            "it otherwise (SGDClassifier: loss='log_loss'), or wrap it in sklearn.calibration.CalibratedClassifierCV"
        )
    return sklearn_part("base").clone(estimator)


def sklearn_part(part: str) -> Any:
    """A part of scikit-learn, loaded when it is needed."""
    return load(f"sklearn.{part}" if part else "sklearn", "sklearn", "SklearnLearner")


def name_of(estimator: Any) -> str:
    """What to call an estimator in a message: its class, or those of a pipeline's steps."""
    parts = [type(step).__name__ for _, step in estimator.steps] if hasattr(estimator, "steps") else []
    return " + ".join(parts) or type(estimator).__name__


def last_word(name: str) -> str:
    """The parameter's own name, without the parts of the estimator it belongs to."""
    return name.split("__")[-1]


def _passes(estimator: Any, schedule: Schedule, training: Training, least: int) -> Steps:
    x, y, window = training.x, training.y, schedule.window(schedule.epochs, least)
    for epoch in range(1, schedule.epochs + 1):
        order = np.random.default_rng(_number(*training.seeds, 1, epoch)).permutation(len(y))
        estimator.partial_fit(x[order], y[order], classes=training.kinds)
        if epoch in window:
            yield epoch, estimator.predict_proba


def _stages(estimator: Any, schedule: Schedule, training: Training, least: int) -> Steps:
    estimator.fit(training.x.copy(), training.y)
    total = sum(1 for _ in estimator.staged_predict_proba(training.x[:1].copy()))  # it may have stopped early
    for stage in schedule.window(total, least):
        yield stage, _stage(estimator, stage)


def _growing(estimator: Any, schedule: Schedule, training: Training, least: int) -> Steps:
    prefix, size, counts_all = _growth(estimator)
    done = 0
    for checkpoint in schedule.window(int(estimator.get_params()[f"{prefix}{size}"]), least):
        amount = checkpoint if counts_all else checkpoint - done
        estimator.set_params(**{f"{prefix}warm_start": True, f"{prefix}{size}": amount})
        with warnings.catch_warnings():
            # A step is cut short on purpose, so "did not converge" is no news; `stopped_short` tells of the last one.
            warnings.simplefilter("ignore", sklearn_part("exceptions").ConvergenceWarning)
            estimator.fit(training.x.copy(), training.y)  # a copy: a step of a pipeline may work in place
        done = checkpoint
        yield checkpoint, estimator.predict_proba


def _at_once(estimator: Any, training: Training) -> Steps:
    estimator.fit(training.x.copy(), training.y)
    yield 1, estimator.predict_proba


def _growth(estimator: Any) -> tuple[str, str, bool]:
    """Where the parameters of the last step are, which one makes it grow, and whether it counts from the beginning."""
    prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    parameters = estimator.get_params()
    size = next((name for name in SIZES if parameters.get(f"{prefix}{name}") is not None), "")
    if f"{prefix}warm_start" not in parameters or parameters.get(f"{prefix}solver") == "liblinear":
        size = ""
    # With a warm start, n_estimators says how many there are to be, max_iter how many iterations to add; but a booster
    # (told by its stages) means all of them by either.
    return prefix, size, size == "n_estimators" or hasattr(_last_step(estimator), "staged_predict_proba")


def _last_step(estimator: Any) -> Any:
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def _stage(estimator: Any, stage: int) -> Predict:
    """What predicts as the first stages alone do."""

    def predict(x: Array) -> Array:
        return next(
            np.asarray(probs) for place, probs in enumerate(estimator.staged_predict_proba(x), 1) if place == stage
        )

    return predict


def _number(*parts: int) -> int:
    """One random number, of the 32 bits a random state may have, from several whole numbers."""
    return int(np.random.SeedSequence([int(part) % 2**64 for part in parts]).generate_state(1)[0])
