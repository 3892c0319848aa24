"""Runs: what the journal says, that a killed one goes on, oracles that hesitate, rules to stop by."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small import learner, plan, setting

import ncalr
from ncalr.errors import BadInput, NcalrError
from ncalr.loop.journal import Journal, without_times
from ncalr.loop.run import MORE, Plan, run
from ncalr.loop.state import replay, spent
from ncalr.loop.stopping import Stops, stops_of
from ncalr.oracles import LATER, REFUSED, Refusing

SMALL = Path(__file__).with_name("small.py")


def lines_of(folder):
    """The journal without timings."""
    return [without_times(line) for line in Journal(folder).lines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never killed."""
    folder = tmp_path_factory.mktemp("whole")
    run(plan(), setting(), learner(), folder)
    return folder


def test_the_journal_tells_the_whole_story(whole):
    lines = Journal(whole).lines()
    assert [line.get("labelled") for line in lines] == [None, 12, 20, 28, 36, 44]
    assert [len(line.get("ids", [])) for line in lines] == [12, 8, 8, 8, 8, 0]
    assert lines[-1]["stop"] == "budget"
    asked = [item for line in lines for item in line.get("ids", [])]
    assert len(asked) == len(set(asked)) == 44
    truth = setting().oracle.answer(np.array(asked)).labels.tolist()
    assert [label for line in lines for label in line.get("labels", [])] == truth
    for line in lines[1:]:
        assert 0 <= line["accuracy"] <= 1
        assert line["seconds"]["train"] > 0
    assert set(lines[1]["parts"]) == {"cmap", "ff"}
    assert len(lines[1]["scores"]) == 8
    assert lines[-1]["accuracy"] > 0.5


def test_a_finished_run_is_not_run_again(whole):
    before = (whole / "journal.jsonl").read_bytes()
    state = run(plan(), setting(), None, whole)
    right = next(line["accuracy"] for line in reversed(state.rounds) if "accuracy" in line)
    assert repr(state) == f"State: 44 labels after {len(state.rounds)} rounds, {right:.1%} right on the test set"
    assert len(state.labels) == 44
    assert (whole / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(("kind", "wanted"), [("truth", 50), ("reviewed", 8), ("hesitant", 8)])
def test_killed_many_times_it_ends_the_same(tmp_path, kind, wanted):
    """SIGKILL at random moments; every run that was killed on the way ends with the journal of one that was not."""
    done = subprocess.run(
        [sys.executable, str(SMALL.with_name("killing.py")), str(tmp_path), str(wanted), kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    kills, cases = map(int, done.stdout.split())
    assert kills == wanted
    run(plan(), setting(kind), learner(), tmp_path / "here")
    for folder in ["whole", *(f"killed-{case}" for case in range(cases))]:
        assert lines_of(tmp_path / folder) == lines_of(tmp_path / "here"), folder


@pytest.mark.filterwarnings("ignore:the last line")
@pytest.mark.parametrize("seed", range(50))
def test_cut_at_any_byte_it_ends_the_same(whole, tmp_path, seed):
    """What a kill leaves is a prefix of the journal: fifty of them, any byte, each resumed."""
    content = (whole / "journal.jsonl").read_bytes()
    cut = random.Random(seed).randrange(len(content) + 1)
    for name in ("experiment.json", "environment.json"):
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    (tmp_path / "journal.jsonl").write_bytes(content[:cut])
    run(plan(), setting(), learner(), tmp_path)
    assert lines_of(tmp_path) == lines_of(whole)


def test_refused_and_late_answers(tmp_path):
    state = run(plan(budgets=(12, 20, 28)), setting("hesitant"), learner(), tmp_path)
    lines = Journal(tmp_path).lines()
    said = [label for line in lines for label in line.get("labels", [])]
    assert REFUSED in said
    assert LATER in said
    assert len(state.labels) >= 28
    assert not set(state.labels) & set(state.refused)
    late = [
        item
        for line in lines
        for item, label in zip(line.get("ids", []), line.get("labels", []), strict=True)
        if label == LATER
    ]
    answered = set(state.labels) | set(state.refused) | set(state.awaited)
    assert set(late) <= answered
    assert replay(lines).labels == state.labels


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_refused_items_are_replaced_before_the_next_training(tmp_path, rate):
    found = setting()
    work = replace(found, oracle=Refusing(found.oracle, rate, seed=1))
    state = run(plan(control=0.25), work, learner(), tmp_path)
    lines = Journal(tmp_path).lines()
    assert [line["labelled"] for line in lines if "accuracy" in line] == [12, 20, 28, 36, 44], "a training a budget"
    assert not any("planned" in line for line in lines)
    assert state.refused
    asked = [item for ids in state.askings for item in ids]
    assert len(asked) == len(set(asked)) == len(state.labels) + len(state.refused)
    for line in lines[:-1]:
        assert sum(line.get("calls", [len(line["ids"])])) == len(line["ids"])
        if "control" in line:
            assert len(line["scores"]) == len(line["ids"]) - len(line["control"]["ids"])
            assert all(len(part) == len(line["scores"]) for part in line["parts"].values())


def test_replacements_are_what_a_larger_batch_has_more(tmp_path):
    found = setting()
    run(plan(strategy="margin", budgets=(12, 20)), found, learner(), tmp_path / "small")
    run(plan(strategy="margin", budgets=(12, 22)), found, learner(), tmp_path / "large")
    small, large = (Journal(tmp_path / name).lines()[1]["ids"] for name in ("small", "large"))

    class Shy:
        truth = found.oracle

        def answer(self, ids):
            answers = self.truth.answer(ids)
            return replace(answers, labels=np.where(np.isin(ids, small[2:4]), REFUSED, answers.labels))

    run(plan(strategy="margin", budgets=(12, 20)), replace(found, oracle=Shy()), learner(), tmp_path / "shy")
    line = Journal(tmp_path / "shy").lines()[1]
    assert line["calls"] == [8, 2]
    assert line["ids"] == large


class Stopping:
    """The truth about the first so many items it is asked about; then nobody can tell."""

    def __init__(self, truth, most):
        self.truth, self.left = truth, most

    def answer(self, ids):
        answers = self.truth.answer(ids)
        known = np.arange(len(ids)) < self.left
        self.left = max(self.left - len(ids), 0)
        return replace(answers, labels=np.where(known, answers.labels, REFUSED))


def test_where_nobody_can_tell_any_more_trainings_say_which_budget_they_are_of(tmp_path):
    found = setting()
    state = run(plan(), replace(found, oracle=Stopping(found.oracle, 27)), learner(), tmp_path)
    trained = [line for line in Journal(tmp_path).lines() if "accuracy" in line]
    assert [(line["labelled"], line.get("planned")) for line in trained[:3]] == [(12, None), (20, None), (27, 28)]
    assert [spent(line) for line in trained][:3] == [12, 20, 28]
    assert len(trained) <= 5
    assert state.ended
    for line in trained[1:-1]:
        assert len(line.get("calls", [])) <= 1 + MORE
        assert len(line["scores"]) == len(line["ids"]), "a reason for each that was asked about, and for no other"


def test_a_control_arm_is_random_and_predicted_before_it_is_asked(tmp_path):
    run(plan(control=0.25, budgets=(12, 20, 28)), setting(), learner(), tmp_path)
    for line in Journal(tmp_path).lines()[1:-1]:
        control = line["control"]
        assert len(control["ids"]) == len(control["predicted"]) == 2
        assert set(control["ids"]) <= set(line["ids"])
        assert len(line["scores"]) == 6


@pytest.mark.parametrize("strategy", ["random", "margin", "coreset", "badge", "typiclust"])
def test_other_strategies(tmp_path, strategy):
    state = run(plan(strategy=strategy, budgets=(12, 20)), setting(), learner(), tmp_path)
    assert len(state.labels) == 20


def test_the_whole_loop_in_one_call(tmp_path):
    import ncalr
    import ncalr.data

    options = {"network": "resnet8", "recipe": "digits(epochs=3, checkpoints=2)", "device": "cpu"}
    state = ncalr.run("digits", "margin", budgets=(30, 40), folder=tmp_path, noise="symmetric(rate=0.5)", **options)
    assert len(state.labels) == 40
    truth = ncalr.data.load("digits")
    given = np.array([state.labels[item] for item in truth.pool.ids if item in state.labels])
    right = np.array([label for item, label in zip(truth.pool.ids, truth.labels, strict=True) if item in state.labels])
    assert 0.2 < (given != right).mean() < 0.8
    again = ncalr.run("digits", "margin", budgets=(30, 40), folder=tmp_path, noise="symmetric(rate=0.5)", **options)
    assert again.labels == state.labels
    with pytest.raises(BadInput, match="different: noise"):
        ncalr.run("digits", "margin", budgets=(30, 40), folder=tmp_path, **options)


def test_stopping_rules(tmp_path):
    state = run(plan(stops=Stops(target=0.3)), setting(), learner(), tmp_path / "target")
    assert state.ended.startswith("target")
    assert len(state.labels) == 12
    state = run(plan(stops=Stops(plateau=1, gain=0.9)), setting(), learner(), tmp_path / "plateau")
    assert state.ended.startswith("plateau")
    assert len(state.labels) == 20
    state = run(plan(stops=Stops(uninformative=1.0)), setting(), learner(), tmp_path / "flat")
    assert state.ended.startswith("uninformative")
    for options in ({"target": 2.0}, {"plateau": 0}, {"uninformative": -1.0}):
        with pytest.raises(BadInput):
            Stops(**options)


def test_stopping_rules_as_text(tmp_path):
    assert stops_of("") == Stops()
    assert stops_of("target=0.9, uninformative=0.01") == Stops(target=0.9, uninformative=0.01)
    assert stops_of("plateau=3") == Stops(plateau=3)
    for text, words in {
        "targt=0.9": "no stopping rule 'targt'. Did you mean 'target'?",
        "target=high": "the stopping rules: target must be a finite number or none, got 'high'",
        "target=95": "target must lie in 0..1, got 95",
        "plateau=1.5": "plateau must be a whole number or none, got 1.5",
        "gain=0.01": "gain is what a round must gain on a plateau, got 'gain=0.01'; say for how many rounds: plateau=2",
        "target": "cannot read the stopping rules 'target'; write target=0.95, or plateau=2, gain=0.005",
    }.items():
        with pytest.raises(NcalrError) as error:
            stops_of(text)
        assert words in str(error.value)
    options = {"budgets": (30, 40), "network": "resnet8", "recipe": "digits(epochs=2, checkpoints=2)", "device": "cpu"}
    state = ncalr.run("digits", "random", folder=tmp_path / "text", stops="target=0.01", **options)
    assert (state.ended[:6], len(state.labels)) == ("target", 30)
    ncalr.run("digits", "random", folder=tmp_path / "text", stops=Stops(target=0.01), **options)


def test_plans_that_cannot_be(tmp_path):
    for changes in (
        {"budgets": ()},
        {"budgets": (10, 10)},
        {"budgets": (1, 2)},
        {"budgets": (40.5, 60)},
        {"control": 1.0},
    ):
        with pytest.raises(BadInput):
            plan(**changes)
    with pytest.raises(BadInput, match="fusion must be 'zscore', 'rank' or 'winsor', got 'rnk'"):
        run(plan(strategy="ncal(fusion=rnk)"), setting(), learner(), tmp_path / "run")
    assert not (tmp_path / "run" / "journal.jsonl").exists()
    assert Plan("ncal", (10, 20)).as_dict()["budgets"] == [10, 20]


def test_a_run_of_another_plan_is_not_continued(whole):
    with pytest.raises(BadInput, match="another experiment"):
        run(plan(seed=9), setting(), learner(), whole)
    assert json.loads((whole / "experiment.json").read_text())["seed"] == 1
