"""What every strategy must do. Each check takes a strategy (name, spec or object) and raises AssertionError."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ncalr.acquire.evidence import POOL_AXIS, Evidence, source_of
from ncalr.acquire.example import example_pool
from ncalr.acquire.query import query
from ncalr.acquire.registry import Plan, Strategy, call, resolve
from ncalr.dynamics.scores import softmax
from ncalr.errors import BadInput
from ncalr.kernels import choose
from ncalr.types import Picks


def check_strategy(strategy: str | Strategy) -> None:
    """Every check at once."""
    for check in STRATEGY_CHECKS:
        check(strategy)


def check_shape(strategy: str | Strategy) -> None:
    """k different ids of the pool, with k scores and k of each part."""
    picks = query(strategy, 17, **example_pool())
    assert len(picks) == len(picks.scores) == 17
    assert len(np.unique(picks.ids)) == 17
    assert set(picks.ids.tolist()) <= set(range(240))
    assert all(part.shape == (17,) for part in picks.parts.values())


def check_finite(strategy: str | Strategy) -> None:
    """Scores and parts are finite."""
    picks = query(strategy, 17, **example_pool())
    assert np.isfinite(picks.scores).all()
    assert all(np.isfinite(part).all() for part in picks.parts.values())


def check_pure(strategy: str | Strategy) -> None:
    """Inputs stay as they are, and the same call gives the same answer."""
    pool = example_pool()
    before = {name: array.copy() for name, array in pool.items()}
    first, second = query(strategy, 17, **pool), query(strategy, 17, **pool)
    changed = [name for name in pool if not np.array_equal(pool[name], before[name])]
    assert not changed, f"it wrote into its inputs: {', '.join(changed)}"
    assert _same(first, second), "the same call gave other picks or scores: a score has no random numbers"


def check_declared_needs(strategy: str | Strategy) -> None:
    """It runs on what it declared alone, with the same picks."""
    pool = example_pool()
    plan = resolve(strategy)
    read = {part for name in plan.needs | plan.wants for part in source_of(name, pool) or ()}
    if not read & set(POOL_AXIS):
        read |= {"features"}  # a strategy that looks at nothing still has to be told how large the pool is
    alone = {name: array for name, array in pool.items() if name in read}
    same = _same(query(strategy, 17, classes=4, **alone), query(strategy, 17, **pool))
    assert same, f"on what it declared ({', '.join(sorted(read))}) it picks other items than on everything"


def check_permutation(strategy: str | Strategy) -> None:
    """The order of the pool does not matter: items are known by their ids."""
    pool = example_pool()
    order = np.random.default_rng(5).permutation(240)
    mixed = {name: _reordered(name, array, order) for name, array in pool.items()}
    wanted = query(strategy, 17, ids=np.arange(240), **pool).ids
    found = query(strategy, 17, ids=order, **mixed).ids
    assert found.tolist() == wanted.tolist(), "in a pool in another order it picks other items"


def check_chunks(strategy: str | Strategy) -> None:
    """An item's score does not depend on the chunk it came in; or the strategy says that it needs the whole pool."""
    plan = resolve(strategy)
    if not plan.strategy.rowwise:
        return
    whole = _parts(plan, _evidence())
    for cuts in ([0, 240], [0, 1, 240], [0, 100, 101, 200, 240]):
        pieces = [_parts(plan, _evidence().window(a, b)) for a, b in pairwise(cuts)]
        for name, part in whole.items():
            joined = np.concatenate([piece[name] for piece in pieces])
            assert np.allclose(joined, part, rtol=1e-9, atol=1e-12), f"{name} depends on the chunk"


def check_seed(strategy: str | Strategy) -> None:
    """The seed decides: the same one gives the same picks, whatever random numbers were drawn elsewhere."""
    pool = example_pool()
    first = query(strategy, 17, seed=3, **pool)
    np.random.default_rng().random(10)
    assert _same(first, query(strategy, 17, seed=3, **pool)), "the same seed gave other picks"


def check_ties(strategy: str | Strategy) -> None:
    """Among items that are all alike, every one can be picked."""
    pool = example_pool(24, copies=24)
    seen = {int(query(strategy, 1, seed=seed, **pool).ids[0]) for seed in range(48)}
    assert len(seen) > 12, f"{len(seen)} of 24 equal items were ever picked in 48 draws"


def check_duplicates(strategy: str | Strategy) -> None:
    """No item twice, though each has twins."""
    picks = query(strategy, 60, **example_pool(90, copies=3))
    assert len(np.unique(picks.ids)) == 60


def check_one(strategy: str | Strategy) -> None:
    """k = 1, also from a pool of one."""
    assert len(query(strategy, 1, **example_pool())) == 1
    assert query(strategy, 1, **example_pool(1)).ids.tolist() == [0]


def check_all(strategy: str | Strategy) -> None:
    """k = n gives every item once; k = n + 1 is refused."""
    pool = example_pool(60)
    assert sorted(query(strategy, 60, **pool).ids.tolist()) == list(range(60))
    try:
        query(strategy, 61, **pool)
    except BadInput as error:
        assert "60" in str(error), "the error says how many there are"
    else:
        raise AssertionError("k > n was accepted")


def check_one_class(strategy: str | Strategy) -> None:
    """One class only, in the labels and in the predictions."""
    pool = example_pool(classes=1)
    picks = query(strategy, 17, **pool)
    assert np.isfinite(picks.scores).all()
    assert len(np.unique(picks.ids)) == 17


def check_missing_classes(strategy: str | Strategy) -> None:
    """Classes that are predicted and have no label."""
    pool = example_pool()
    pool["labels"] = np.zeros_like(pool["labels"])
    picks = query(strategy, 17, **pool)
    assert np.isfinite(picks.scores).all()
    pool["labels"] = np.arange(len(pool["labels"])) % 2 * 3
    assert np.isfinite(query(strategy, 17, **pool).scores).all()


def check_constant(strategy: str | Strategy) -> None:
    """A pool of zeros: every score is the same, and none is NaN."""
    pool = {name: array if array.dtype.kind == "i" else array * 0 for name, array in example_pool().items()}
    for probs in ("sampled_probs", "mean_probs"):
        pool[probs] = pool[probs] + 0.25
    pool["checkpoint_predictions"] = pool["checkpoint_predictions"] * 0
    picks = query(strategy, 17, **pool)
    assert np.isfinite(picks.scores).all()
    assert len(np.unique(picks.ids)) == 17


def check_saturated(strategy: str | Strategy) -> None:
    """A model that is sure of everything: probabilities of exactly 0 and 1, in single precision."""
    pool = {
        name: array if array.dtype.kind == "i" else array.astype(np.float32) for name, array in example_pool().items()
    }
    pool["logits"] = pool["logits"] * 1000
    pool["labelled_logits"] = pool["labelled_logits"] * 1000
    for probs in ("sampled_probs", "mean_probs"):
        pool[probs] = softmax(1000 * np.log(pool[probs].astype(np.float64))).astype(np.float32)
    picks = query(strategy, 17, **pool)
    assert np.isfinite(picks.scores).all()
    assert len(np.unique(picks.ids)) == 17
    if not {"logits", "labelled_logits"} & resolve(strategy).needs:
        pool["probs"] = softmax(pool.pop("logits").astype(np.float64)).astype(np.float32)
        pool["labelled_probs"] = softmax(pool.pop("labelled_logits").astype(np.float64)).astype(np.float32)
        assert np.isfinite(query(strategy, 17, **pool).scores).all()


def check_bad_numbers(strategy: str | Strategy) -> None:
    """NaN or infinity in anything that is read is an error that names the array."""
    plan = resolve(strategy)
    pool = example_pool()
    read = {part for name in plan.needs | plan.wants for part in source_of(name, pool) or ()}
    for name in sorted(read):
        for bad in (np.nan, np.inf, -np.inf):
            if pool[name].dtype.kind != "f":
                continue
            spoiled = {**pool, name: pool[name].copy()}
            spoiled[name].flat[5] = bad
            try:
                query(strategy, 17, **spoiled)
            except BadInput as error:
                assert name in str(error), f"the error does not name {name}: {error}"
            else:
                raise AssertionError(f"{bad} in {name} was accepted")


STRATEGY_CHECKS: list[Callable[[str | Strategy], None]] = [
    check_shape,
    check_finite,
    check_pure,
    check_declared_needs,
    check_permutation,
    check_chunks,
    check_seed,
    check_ties,
    check_duplicates,
    check_one,
    check_all,
    check_one_class,
    check_missing_classes,
    check_constant,
    check_saturated,
    check_bad_numbers,
]


def _evidence() -> Evidence:
    return Evidence(example_pool(), choose(), 240, 4)


def _parts(plan: Plan, evidence: Evidence) -> dict[str, Any]:
    result = call(plan.strategy.score, evidence, options=plan.options) if plan.strategy.score else {}
    return dict(result) if isinstance(result, dict) else {plan.strategy.name: result}


def _reordered(name: str, array: Any, order: Any) -> Any:
    if name not in POOL_AXIS:
        return array
    return array[order] if POOL_AXIS[name] == 0 else array[:, order]


def _same(a: Picks, b: Picks) -> bool:
    return bool(np.array_equal(a.ids, b.ids) and np.array_equal(a.scores, b.scores))
