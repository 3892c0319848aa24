"""Learning to the terminal phase: the `Learner` seam, learners for torch and scikit-learn, recipes.

Names load on first use: the seam needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncalr.learn.learner import Job, Learner, Model, Record, needs_of
    from ncalr.learn.recipes import Recipe, recipe
    from ncalr.learn.sklearn_learner import SklearnLearner
    from ncalr.learn.torch_learner import TorchLearner

_HOME = {
    "Job": "ncalr.learn.learner",
    "Learner": "ncalr.learn.learner",
    "Model": "ncalr.learn.learner",
    "Recipe": "ncalr.learn.recipes",
    "Record": "ncalr.learn.learner",
    "SklearnLearner": "ncalr.learn.sklearn_learner",
    "TorchLearner": "ncalr.learn.torch_learner",
    "needs_of": "ncalr.learn.learner",
    "recipe": "ncalr.learn.recipes",
}

__all__ = ["Job", "Learner", "Model", "Recipe", "Record", "SklearnLearner", "TorchLearner", "needs_of", "recipe"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'ncalr.learn' has no attribute {name!r}")
