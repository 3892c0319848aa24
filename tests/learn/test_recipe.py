"""Recipes: by name, as text, changed by keyword; bad values are errors."""

from __future__ import annotations

import pytest

from ncalr.errors import BadInput, UnknownName
from ncalr.learn import Recipe, recipe
from ncalr.learn.recipes import RECIPES


def test_by_name_as_text_and_changed():
    assert recipe("strong") == Recipe()
    assert recipe("strong(epochs=50, schedule=cosine)", rate=0.2) == Recipe(epochs=50, schedule="cosine", rate=0.2)
    assert recipe(Recipe(epochs=20), checkpoints=5).checkpoints == 5


def test_the_steepness_of_sisoms_sigmoids_is_no_part_of_the_training():
    steep = recipe("strong(steepness=[100, 1000, 0.001, 0.001])")
    assert steep == Recipe(steepness=(100, 1000, 0.001, 0.001))
    assert RECIPES["strong"].steepness == (1.0,) * 4
    assert steep.of_training() == Recipe().of_training()
    assert recipe("strong(rate=0.2)").of_training() != Recipe().of_training()


def test_the_strong_recipe_is_what_the_field_calls_strong():
    strong = RECIPES["strong"]
    assert (strong.rate, strong.momentum, strong.nesterov, strong.decay, strong.batch) == (0.1, 0.9, True, 5e-4, 128)
    assert (strong.crop, strong.flip) == (4, True)


def test_schedules():
    step = recipe("strong(drops=[0.6, 0.85])", schedule="step", warm_up=0.0)
    assert [step.rate_at(x) for x in (0, 0.59, 0.6, 0.84, 0.85, 1)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    )
    cosine = recipe("strong", schedule="cosine", warm_up=0.1)
    assert [cosine.rate_at(x) for x in (0, 0.05, 0.1, 0.55, 1)] == pytest.approx([0, 0.05, 0.1, 0.05, 0], abs=1e-12)
    assert recipe("strong", schedule="constant").rate_at(0.99) == 0.1
    assert recipe("strong").rate_at(0.05) == pytest.approx(0.05)
    assert [recipe("strong").rate_at(x) for x in (0.69, 0.71, 0.91)] == pytest.approx([0.1, 0.01, 0.001])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"batch": 1}, "batch"),
        ({"batch": True}, "batch"),
        ({"rate": 0}, "positive"),
        ({"rate": float("nan")}, "rate must be a finite number, got nan"),
        ({"momentum": "abc"}, "momentum must be a finite number, got 'abc'"),
        ({"warm_up": "abc"}, "warm_up must be a finite number"),
        ({"flip": "no"}, "flip must be true or false, got 'no'"),
        ({"stop": 1}, "stop must be true or false, got 1"),
        ({"drops": 3}, "drops must be a list, each of it a finite number, got 3"),
        ({"drops": ["a"]}, "drops must be a list"),
        ({"drops": (0.6, 1.2)}, "drops must be shares"),
        ({"opens": 1.5}, "opens must lie in 0..1"),
        ({"steepness": [100, "a"]}, "steepness must be a list, each of it a finite number"),
        ({"steepness": [100, 0]}, "steepness must be positive numbers, last layer first, got \\(100, 0\\)"),
        ({"steepness": []}, "steepness must be positive numbers"),
        ({"decay": -1}, "negative"),
        ({"checkpoints": 200}, "200 checkpoints need as many epochs"),
    ],
)
def test_values_that_cannot_be(changes, words):
    with pytest.raises(BadInput, match=words):
        recipe("strong", **changes)


def test_names_that_are_not_known():
    with pytest.raises(UnknownName, match="Did you mean 'strong'"):
        recipe("storng")
    with pytest.raises(UnknownName, match="Did you mean 'epochs'"):
        recipe("strong", epoch=3)
    with pytest.raises(UnknownName, match="Did you mean 'cosine'"):
        recipe("strong", schedule="cosin")
