"""The report's parts that compare strategies."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ncalr.lab.comparison import (
    apart,
    cost,
    could_have_shown,
    first_gap,
    made_by,
    of_first,
    passes_of,
    power,
    savings,
    unsettled,
)
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run
from ncalr.lab.statistics import Curves, detectable_difference, seeds_for, summary
from ncalr.lab.tables import points, signed
from ncalr.learn.learner import needs_of
from ncalr.loop.journal import Journal


def found_of(seeds=4, **gaps):
    rng = np.random.default_rng(3)
    rise = 0.5 + 0.1 * np.arange(3) + rng.normal(0, 0.05, (seeds, 1))
    curves = {name: rise + gap + rng.normal(0, 0.01, rise.shape) for name, gap in gaps.items()}
    return {**summary(Curves([100, 200, 300], curves)), "unit": "answers"}


def run_of(tmp_path, strategy, seed, accuracy, ids=(1, 2), seconds=None):
    more = {} if seconds is None else {"seconds": seconds}
    lines = [{"round": 0, "ids": list(ids), "labels": [0] * len(ids), "labelled": 2, "accuracy": accuracy, **more}]
    return Run(strategy, seed, Journal(tmp_path / f"{strategy}-{seed}"), lines)


def test_the_first_strategy_stands_against_each_with_what_could_have_been_shown():
    found = found_of(ncal=0.05, random=0.0, margin=0.04)
    page = of_first(found)
    assert "<h2>ncal against each</h2>" in page
    row = found["of_first"]["margin"]
    for cell in (signed(row["aubc"]), f"{100 * detectable_difference(row['aubc']['deviation'], 4):.1f}"):
        assert f"<td>{cell}</td>" in page
    assert "at 300 answers" in page
    assert could_have_shown({"aubc": {"deviation": 0.0}, "seeds": 4}) == ""


def test_random_alone_has_the_main_table_and_one_seed_has_no_differences():
    assert of_first(found_of(ncal=0.05, random=0.0)) == ""
    assert of_first(found_of(seeds=1, ncal=0.05, random=0.0, margin=0.1)) == ""


def test_what_could_be_seen_is_of_all_strategies_together():
    found = found_of(random=0.0, ncal=0.05, margin=0.04)
    spread = [found["to_random"][name]["aubc"]["deviation"] for name in ("ncal", "margin")]
    deviation = np.sqrt(np.mean(np.square(spread)))
    [said] = power(found)
    assert f"about {100 * detectable_difference(deviation, 4):.1f} points" in said
    assert f"about {seeds_for(deviation, 0.01)} seeds" in said
    assert power(found_of(seeds=1, random=0.0, ncal=0.1)) == []


def test_the_unit_of_savings_is_that_of_the_budgets():
    page = savings(found_of(random=0.0, ncal=0.05))
    assert "<h2>Answers random needs for the same accuracy</h2>" in page
    assert "labels" not in page


def test_first_trainings_that_came_out_apart_are_told(tmp_path):
    one, same = run_of(tmp_path, "ncal", 0, 0.5), run_of(tmp_path, "random", 0, 0.5)
    assert apart([one, same]) == []
    other = run_of(tmp_path, "margin", 0, 0.482)
    assert first_gap([one, same, other]) == pytest.approx(0.018)
    assert "up to 1.8 points apart" in apart([one, same, other])[0]
    elsewhere = [run_of(tmp_path, "margin", 1, 0.4), run_of(tmp_path, "margin", 0, 0.4, ids=(1, 3))]
    assert apart([one, *elsewhere]) == [], "another seed, and other labels"


def test_networks_that_had_not_learnt_their_own_labels_are_told(tmp_path):
    one, other = run_of(tmp_path, "ncal", 0, 0.2), run_of(tmp_path, "random", 0, 0.2)
    assert unsettled([one]) == [], "a learner that does not measure it"
    one.lines[0]["collapse"], other.lines[0]["collapse"] = {"nc4": 0.02, "accuracy": 0.9}, None
    assert unsettled([one, other]) == []
    other.lines[0]["collapse"] = {"nc4": 0.35, "accuracy": 0.6}
    assert unsettled([one, other])[0].startswith("1 of 2 trainings ended before the network had settled")
    assert "right on 60% of these labels" in unsettled([one, other])[0]
    one.lines[0]["collapse"] = {"nc4": None, "accuracy": 0.9}  # what is not a number in a journal
    assert unsettled([one, other])[0].startswith("1 of 1 trainings")


def test_the_cost_is_that_of_the_journals(tmp_path):
    runs = [
        run_of(tmp_path, "random", 0, 0.5, seconds={"train": 3.0, "round": 0.5}),
        run_of(tmp_path, "random", 1, 0.5, seconds={"train": 5.0, "round": 0.25}),
        run_of(tmp_path, "ncal, votes(n=3)", 0, 0.5, seconds={"train": 6.0, "round": 0.75}),
    ]
    page = cost(runs, Experiment("digits", strategies=("ncal", "random"), recipe="digits(checkpoints=7)"))
    assert "<tr><td>random</td><td>0</td><td>0.38</td><td>4.0</td></tr>" in page
    assert "<tr><td>ncal, votes(n=3)</td><td>8</td><td>0.75</td><td>6.0</td></tr>" in page
    assert cost([run_of(tmp_path, "random", 0, 0.5)], Experiment("digits")) == ""


@pytest.mark.parametrize(("strategy", "passes"), [("random", 0), ("margin", 1), ("ff", 10), ("ncal", 11)])
def test_passes_over_the_pool(strategy, passes):
    assert passes_of(needs_of(strategy), 10) == passes


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012, "+1.2"), (-0.0003, "-0.03"), (0.0, "+0.0"), (0.0005, "+0.1"), (-0.00001, "-0.001"), (-1e-9, "+0.0")],
)
def test_a_small_difference_shows_its_side(value, text):
    assert points(value) == text


def test_runs_by_different_code_or_libraries_are_told_apart(tmp_path):
    def environment(run, **facts):
        run.journal.folder.mkdir()
        (run.journal.folder / "environment.json").write_text(json.dumps(facts))

    runs = [run_of(tmp_path, name, 0, 0.5) for name in ("ncal", "random", "margin")]
    environment(runs[0], code="aa", versions={"torch": "2.11"}, later=[{"round": 3, "code": "aa", "versions": {}}])
    environment(runs[1], code="aa", versions={"torch": "2.11", "numba": "1"}, threads=3)
    assert not made_by(runs), "what is not said of a run is no difference"
    environment(runs[2], code="aa", versions={"torch": "2.11"}, later=[{"round": 2, "code": "bb", "versions": {}}])
    assert "different code or libraries (code aa, bb)" in made_by(runs)[0]
    on_a_card = run_of(tmp_path, "badge", 0, 0.5)
    environment(on_a_card, code="aa", gpu="H200", versions={}, later=[{"round": 2, "code": "aa", "versions": {}}])
    assert "(gpu H200, none)" in made_by([on_a_card])[0], "it went on without"
