"""Figures that must be read: many strategies get a panel each, and what is missing breaks nothing."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

from ncalr.errors import Note
from ncalr.lab import plots, report
from ncalr.lab.figures import write_figures
from ncalr.lab.statistics import Curves, summary

BUDGETS = [100, 200, 300]


def summary_of(strategies: int, seeds: int):
    rng = np.random.default_rng(0)
    names = ["random", "ncal", *(f"rival{number}" for number in range(strategies - 2))]
    curves = {name: 0.5 + np.array([0, 0.1, 0.2]) + 0.01 * rng.standard_normal((seeds, 3)) for name in names}
    return summary(Curves(BUDGETS, curves))


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("draw", [plots.learning_curves, plots.differences])
def test_many_strategies_have_a_panel_each(draw, seeds):
    picture = draw(summary_of(11, seeds))
    titles = [name for name in ("ncal", *(f"rival{number}" for number in range(9))) if f">{name}</text>" in picture]
    assert len(titles) == 10
    assert ">random</text>" not in picture, "it is the dashed line of every panel"
    assert picture.count('id="axes_') == 10
    assert "nan" not in picture.lower()


def test_few_strategies_share_one():
    picture = plots.learning_curves(summary_of(7, 3))
    assert picture.count('id="axes_') == 1
    assert ">random</text>" in picture


def test_intervals_fit_their_panels_but_not_at_any_cost():
    means, near, far = np.array([0.0, 2.0]), 1.0, 50.0
    low, high = plots._limits([(means, means - near, means + near)])
    assert low < -1
    assert high > 3
    low, high = plots._limits([(means, means - far, means + far)])
    assert (low, high) == pytest.approx((-2.16, 4.16))  # the means are 2 apart
    gone = np.array([np.nan, np.nan])
    assert np.isfinite(plots._limits([(means, gone, gone)])).all()


def test_a_forest_has_a_line_a_rival():
    found = summary_of(4, 3)
    picture = plots.forest("random", {name: row["aubc"] for name, row in found["of_first"].items()})
    assert all(f">{name}</text>" in picture for name in ("ncal", "rival0", "rival1"))
    assert "nan" not in picture.lower()


COUNTS = {"random": [3, 4, 5], "ncal": [1, 2, 3]}


@pytest.fixture
def fresh_note():
    plots._note_missing.cache_clear()
    yield
    plots._note_missing.cache_clear()


@pytest.mark.usefixtures("fresh_note")
def test_signs_that_the_usual_font_lacks_are_taken_from_another(recwarn):
    """Circled letters: matplotlib brings a font that has them."""
    picture = plots.class_histogram(COUNTS, ["Ⓐ", "Ⓑ", "cat"])
    assert not recwarn.list
    assert ">Ⓐ</text>" in picture
    assert plots._fonts_with(frozenset({ord("Ⓐ"), ord("Ⓑ")}))[0] in picture
    assert "STIX" not in plots.class_histogram(COUNTS, ["ant", "bee", "cat"])


@pytest.mark.usefixtures("fresh_note")
def test_signs_that_no_font_has_are_one_note(monkeypatch, recwarn):
    monkeypatch.setattr(plots, "_fonts_with", lambda signs: ())
    for _ in range(2):
        assert ">猫</text>" in plots.class_histogram(COUNTS, ["猫", "犬", "鳥"])
    assert [(each.category, "Noto Sans CJK" in str(each.message)) for each in recwarn.list] == [(Note, True)]


def test_a_strategy_that_the_first_panel_lacks_is_in_the_legend():
    picture = plots.by_budget({"one": {"random": [(1, 0.5)]}, "two": {"random": [(1, 0.5)], "ncal": [(1, 0.6)]}})
    assert picture.count(">ncal</text>") == 1
    assert plots.by_budget({}) == ""


def test_figures_are_called_after_their_headings(tmp_path):
    """Two under one heading are told apart; what was not drawn for the page is not of it."""
    with plots.kept() as drawn:
        first, second = (plots.overlap(np.full((2, 2), value), ["a", "b"]) for value in (0.25, 0.75))
    plots.overlap(np.eye(2), ["a", "b"])
    assert len(drawn) == 2
    page = tmp_path / "page.html"
    parts = ["<h2>Who &amp; whom</h2><p>x</p>", first, second, "<h2>Else</h2>", "<svg><g/></svg>"]
    page.write_text("\n".join(parts), encoding="utf-8")
    write_figures(page, drawn, tmp_path / "new" / "figures")
    names = ["who-whom-2.pdf", "who-whom-2.svg", "who-whom.pdf", "who-whom.svg"]
    assert sorted(path.name for path in (tmp_path / "new" / "figures").iterdir()) == names


@pytest.mark.parametrize("strategies", [2, 5])
def test_differences_stand_around_their_budget(strategies):
    with plots.kept() as found:
        plots.differences(summary_of(strategies, 3))
    [figure] = found.values()
    places = [bars.lines[0].get_xdata() for bars in figure.axes[0].containers]
    assert len(places) == strategies - 1
    assert np.mean(places, axis=0) == pytest.approx(BUDGETS)


def test_marks_of_the_budgets_are_where_they_say():
    """With 10, 20 and 30 labels there was one at 12.5 that was called 12."""
    few = summary(Curves([10, 20, 30], {name: np.array([[0.5, 0.6, 0.7]]) for name in ("ncal", "random")}))
    for picture in (
        plots.learning_curves(few),
        plots.differences(few),
        plots.savings([10, 20, 30], few["label_savings"]),
    ):
        marks = [int(mark) for mark in re.findall(r">(\d+)</text>", picture) if 10 <= int(mark) <= 30]
        assert {10, 20, 30} <= set(marks)
        assert len({after - before for before, after in itertools.pairwise(sorted(set(marks)))}) == 1, marks


def test_differences_have_a_mark_at_each_budget():
    budgets = [5_000, 7_500, 10_000, 12_500]
    found = summary(Curves(budgets, {name: np.full((3, 4), 0.5) for name in ("ncal", "random")}))
    assert set(re.findall(r">([\d,]+)</text>", plots.differences(found))) >= {"5,000", "7,500", "10,000", "12,500"}


def test_a_strategy_has_one_colour_whoever_stands_beside_it():
    few, many = plots.colours(["ncal", "coreset", "mine"]), plots.colours(["random", "badge", "cdal", "coreset", "x"])
    assert few["coreset"] == many["coreset"]
    assert len(set(few.values())) == 3
    assert len(set(many.values())) == 5
    crowd = plots.colours([f"rival{number}" for number in range(30)])
    assert set(crowd.values()) <= set(plots.COLOURS), "more than there are colours"


def test_nobody_beats_anybody_where_there_is_one_seed():
    assert plots.penalties(summary_of(3, 1)["penalties"]) == ""
    assert ">0%</text>" in plots.penalties(summary_of(3, 3)["penalties"])


def test_differences_by_data_set_have_a_mark_a_strategy_and_row():
    gap = {"mean": 0.01, "low": -0.01, "high": 0.03}
    found = {"digits": {"ncal": gap, "margin": gap}, "sst2": {"ncal": {**gap, "low": None, "high": None}}, "alone": {}}
    with plots.kept() as drawn:
        picture = plots.by_data_set(["ncal", "random", "margin"], found)
        wide = {"mean": 0.05, "low": -0.9, "high": 1.0}  # two seeds
        plots.by_data_set(["ncal"], {"digits": {"ncal": gap}, "sst2": {"ncal": wide}})
    for figure in drawn.values():
        left, right = figure.axes[0].get_xlim()
        assert -20 < left < 0 < right < 20, "on which side of random each lies, whatever intervals there are"
    for name in ("digits", "sst2", "alone", "ncal", "margin"):
        assert f">{name}</text>" in picture
    assert ">random</text>" not in picture, "it is the line at 0"
    assert plots.by_data_set(["ncal", "margin"], {"digits": {}}) == "", "nothing to compare with"


def test_a_journal_without_quantiles_leaves_out_the_distances():
    run = SimpleNamespace(strategy="margin", lines=[{"separation": {"norm": 2.0}}])
    assert report._distances([run]) == {}
