"""Learning to the terminal phase: the `Learner` seam, learners for torch and scikit-learn, recipes.

Names load on first use: the seam needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ncalr.errors import MissingExtra

if TYPE_CHECKING:
    from ncalr.learn.callbacks import PoolWatcher, lightning_callback, trainer_callback
    from ncalr.learn.learner import Job, Learner, Model, Record, needs_of
    from ncalr.learn.recipes import Recipe, recipe
    from ncalr.learn.sklearn_learner import SklearnLearner
    from ncalr.learn.torch_learner import TorchLearner

_HOME = {
    "Job": "ncalr.learn.learner",
    "PoolWatcher": "ncalr.learn.callbacks",
    "lightning_callback": "ncalr.learn.callbacks",
    "trainer_callback": "ncalr.learn.callbacks",
    "Learner": "ncalr.learn.learner",
    "Model": "ncalr.learn.learner",
    "Recipe": "ncalr.learn.recipes",
    "Record": "ncalr.learn.learner",
    "SklearnLearner": "ncalr.learn.sklearn_learner",
    "TorchLearner": "ncalr.learn.torch_learner",
    "needs_of": "ncalr.learn.learner",
    "recipe": "ncalr.learn.recipes",
}

__all__ = [
    "Job",
    "Learner",
    "Model",
    "PoolWatcher",
    "Recipe",
    "Record",
    "SklearnLearner",
    "TorchLearner",
    "lightning_callback",
    "needs_of",
    "recipe",
    "trainer_callback",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        try:
            return getattr(import_module(_HOME[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra(f"{name} needs torch; install it with: pip install 'ncalr[torch]'") from None
    raise AttributeError(f"module 'ncalr.learn' has no attribute {name!r}")
