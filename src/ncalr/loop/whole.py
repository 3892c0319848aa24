"""The whole loop as one call: a dataset, a network, a strategy, an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncalr.acquire.rehearsal import rehearsed
from ncalr.data import Dataset, initial, load
from ncalr.data.fingerprint import fingerprint
from ncalr.learn.learner import Learner
from ncalr.loop.run import Plan, Setting
from ncalr.loop.run import run as drive
from ncalr.loop.state import State
from ncalr.loop.stopping import Stops, stops_of
from ncalr.oracles import Oracle, Truth, oracle_of


def run(
    dataset: str | Dataset,
    strategy: str = "ncal",
    *,
    budgets: Sequence[int],
    folder: str | Path,
    learner: Learner | None = None,
    network: Any = "resnet18",
    recipe: str = "strong",
    oracle: Oracle | None = None,
    noise: str = "",
    seed: int = 0,
    control: float = 0.0,
    stops: Stops | str | None = None,
    answers: str = "single",
    device: Any = None,
) -> State:
    """Active learning from the first labels to the last; started again with the same folder and data, it goes on.

    `dataset` is a name (`ncalr.data.DATASETS`) or a `Dataset`; `budgets` says how many answers there are at each
    training, and `answers` how often to ask about an item (`ncalr.loop.answers`). Without an oracle the dataset's own
    labels answer, with `noise` where that is given (`ncalr.oracles.named`); drawn noise is that of as many people as
    an item may be asked about. `control` is the share of each batch that is drawn at random; `stops` are rules that end
    the run before its last budget, such as "target=0.95" (`ncalr.loop.stopping`). The state that comes back has the
    labels, the answers they are made of and, a round each, accuracy, picks and why (`state.rounds`); the same lines are
    in the folder's journal.
    """
    found = load(dataset) if isinstance(dataset, str) else dataset
    classes = len(found.classes)
    rules = stops if isinstance(stops, Stops) else stops_of(stops or "")
    rehearsed(strategy)
    plan = Plan(strategy, tuple(budgets), seed, classes, control, rules, answers=answers)
    if oracle is None:
        truth = Truth(found.pool.ids, found.labels, classes)
        oracle = oracle_of(noise, truth, seed, pool=found.pool, people=plan.policy.cap)
    if learner is None:
        from ncalr.learn import TorchLearner

        learner = TorchLearner(network, recipe, device=device)
    first = found.pool.ids[initial(len(found.pool), plan.budgets[0], seed, ids=found.pool.ids)].tolist()
    setting = Setting(found.pool, oracle, found.test, found.test_labels, first)
    claim = {**plan.as_dict(), "dataset": found.name, "noise": noise}
    return drive(plan, setting, learner, folder, claim, fingerprint(found))
