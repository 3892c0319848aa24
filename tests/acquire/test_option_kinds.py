"""Options are of the kind that they were declared as, or an error that names them."""

from __future__ import annotations

import numpy as np
import pytest
from acquire_bundle import bundle

from ncalr.acquire.query import query
from ncalr.acquire.registry import Strategy, bind, resolve, selectors, strategies
from ncalr.acquire.rehearsal import rehearsed
from ncalr.acquire.spec import Spec
from ncalr.errors import BadInput, NcalrError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("flag", [False, True])
def test_flags_mean_what_they_say_in_lower_case_too(flag):
    given = bundle(np.random.default_rng(1), 60, 20)
    picks = [query(f"ncal(center={text})", 5, **given).ids.tolist() for text in (str(flag), str(flag).lower())]
    assert picks[0] == picks[1]
    assert resolve(f"ncal(center={str(flag).lower()})", {}).options["center"] is flag
    other = query(f"ncal(center={not flag})", 5, **given).ids.tolist()
    assert other != picks[0]


WRONG = {
    "ncal(center=no)": "strategy 'ncal': center must be true or false, got 'no'",
    "ncal(center=1)": "center must be true or false, got 1",
    "ncal(sign=1.5)": "sign must be a whole number, got 1.5",
    "ncal(fusion=3)": "fusion must be a word, got 3",
    "margin(select=filtered(multiple=abc))": "selector 'filtered': multiple must be a finite number, got 'abc'",
    "margin(select=filtered(multiple=true))": "multiple must be a finite number, got True",
    "margin(select=filtered(multiple=1e999))": "multiple must be a finite number, got inf",
    "margin(select=filtered(then=filtered(multiple=x)))": "multiple must be a finite number, got 'x'",
    "margin(select=filtered(then=3))": "a selector is given by its name or a spec .*, got 3",
    "margin(select=quota(cap=abc))": "selector 'quota': cap must be a finite number, got 'abc'",
    "margin(select=3)": "a selector is given by its name or a spec .*, got 3",
    "probcover(radius=abc)": "radius must be a finite number or none, got 'abc'",
    "margin(select=k_center(space=[1]))": "space must be a word",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_value_of_another_kind_is_refused_before_any_work(text):
    with pytest.raises(BadInput, match=WRONG[text]):
        resolve(text, {})


def test_nan_is_refused():
    with pytest.raises(BadInput, match="coldness must be a finite number, got nan"):
        bind(Spec("stochastic_top_k", {"coldness": float("nan")}))


def test_numbers_of_numpy_are_numbers():
    options = {"multiple": np.float32(2), "then": "k_center"}
    assert bind(Spec("filtered", options)).options == options
    assert resolve("ncal", {"sign": np.int64(-1), "center": np.bool_(True)}).options["sign"] == -1


BAD = ["abc", -1, 0, None, [1], 1e9, float("nan"), float("inf"), True, 2.5, {}]


def test_no_option_of_any_strategy_or_selector_fails_otherwise_than_on_purpose():
    given, tried = bundle(np.random.default_rng(1), 60, 20), 0
    for kinds, spec in (
        (strategies(), lambda n, o: Spec(n, o)),
        (selectors(), lambda n, o: Spec("margin", {"select": Spec(n, o)})),
    ):
        for name, kind in kinds.items():
            for option in kind.options:
                for value in BAD:
                    tried += 1
                    try:
                        picks = query(spec(name, {option: value}), 5, **given)
                    except NcalrError:
                        continue
                    assert len(set(picks.ids.tolist())) == 5, (name, option, value)
                    assert np.isfinite(picks.scores).all(), (name, option, value)
    assert tried > 100


@pytest.mark.parametrize("least", [-2, 1.5, True, "3"])
def test_least_is_a_number_of_items(least):
    with pytest.raises(BadInput, match="least must be a whole number from 0 on"):
        query("margin", 3, **bundle(np.random.default_rng(1), 30, 12), least=least)


def test_a_stranger_s_option_is_held_to_its_default():
    from ncalr.acquire.options import check_options

    def score(evidence, *, power=1.0, mode="a", anything=None):
        return evidence, power, mode, anything

    check_options("strategy 'x'", score, {"power": 2, "mode": "b", "anything": [1]}, {"power": 1.0, "mode": "a"})
    with pytest.raises(BadInput, match="strategy 'x': power must be a finite number, got 'high'"):
        check_options("strategy 'x'", score, {"power": "high"}, {"power": 1.0, "mode": "a"})


VALUES = {
    "ncal(fusion=rnk)": "fusion must be 'zscore', 'rank' or 'winsor', got 'rnk'",
    "ncal(sign=2)": "sign must be .1 or -1, got 2",
    "cmap(counts=none_of_them)": "counts must be 'paper' or 'neutral'",
    "probcover(radius=-1)": "radius must be positive, got -1",
    "margin(select=filtered(multiple=0.5))": "multiple must be at least 1, got 0.5",
    "margin(select=filtered(then=quota(cap=0)))": "cap must be at least 1",
    "coreset(select=kmeans_pp(first=largest))": "first='largest' means the longest gradient",
    "entropy(select=stochastic_top_k(kind=powr))": "kind must be 'power', 'softmax' or 'softrank', got 'powr'",
    "typiclust(select=quota)": "selector 'quota' needs scores",
    "ncal(select=coverage)": "must not be negative",
}


@pytest.mark.parametrize("text", VALUES)
def test_a_value_that_is_not_taken_is_refused_before_any_work(text):
    with pytest.raises(BadInput, match=VALUES[text]):
        rehearsed(text)
    assert resolve(text, {}), "whoever only reads what was run before is not refused"


def test_the_best_of_a_large_pool_may_be_above_zero_where_made_up_items_are_not():
    assert rehearsed("ncal(select=filtered(multiple=9, then=coverage))")


def test_every_default_may_be_said_aloud():
    for name, kind in strategies().items():
        rehearsed(Spec(name, dict(kind.options)))
    for name, kind in selectors().items():
        rehearsed(Spec("margin", {"select": Spec(name, dict(kind.options))}))


def test_scores_of_made_up_items_are_no_reason_to_refuse():
    given = bundle(np.random.default_rng(1), 60, 20)
    plan = resolve("margin(select=stochastic_top_k(kind=power))", {})
    assert plan.select.options == {"kind": "power"}
    assert len(query("entropy(select=stochastic_top_k(kind=power))", 5, **given)) == 5


def test_a_stranger_s_values_are_its_own_affair():
    """They may go with a number of classes, or of features, that made-up items do not have."""

    def score(evidence, *, weights=()):
        if len(weights) != evidence.classes:
            raise BadInput(f"weights needs one number a class, {evidence.classes}, got {len(weights)}")
        return evidence["features"][:, 0]

    stranger = Strategy("stranger", frozenset({"features"}), score, "")
    assert rehearsed(stranger, {"weights": (1.0, 2.0)}).options == {"weights": (1.0, 2.0)}
