"""Experiments with several answers an item: run, killed, compared, reported."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from ncalr.data import load
from ncalr.errors import UnknownName
from ncalr.lab.experiment import Experiment
from ncalr.lab.noise import answers_table, learnt, truth_of
from ncalr.lab.report import write_report
from ncalr.lab.runner import conduct, read_experiment, read_runs
from ncalr.lab.session import settings_of
from ncalr.learn import SklearnLearner
from ncalr.loop.journal import without_times
from ncalr.loop.state import replay

LABELS = "annotators(file='people.npz', labels=[ann, bob, cid])"
SMALL = {"strategies": ("random", "margin"), "seeds": 2, "start": 40, "step": 20, "end": 80, "noise": LABELS}


class Learner(SklearnLearner):
    """Dies after so many trainings."""

    def __init__(self, limit=None):
        super().__init__(SGDClassifier(loss="log_loss", alpha=0.01), epochs=4, checkpoints=2)
        self.limit = limit

    def fit(self, job):
        if self.limit is not None:
            self.limit -= 1
            if self.limit < 0:
                raise KeyboardInterrupt
        return super().fit(job)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def root(tmp_path_factory, digits):
    """Three people, each wrong about a fifth of the digits."""
    folder = tmp_path_factory.mktemp("root")
    rng = np.random.default_rng(0)
    said = {}
    for at, name in enumerate(("ann", "bob", "cid"), 1):
        wrong = rng.random(len(digits.labels)) < 0.2
        said[name] = np.where(wrong, (digits.labels + at) % 10, digits.labels)
    np.savez(folder / "people.npz", **said)
    return folder


def carry_out(out, digits, root, learner=None, **changes):
    experiment = Experiment(**{**SMALL, **changes})
    return conduct(experiment, learner or Learner(), settings_of(experiment, digits, root), 10, out)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, digits, root):
    out = tmp_path_factory.mktemp("answers")
    for name, answers in (("single", "single"), ("votes", "votes(n=3)"), ("doubts", "doubts")):
        carry_out(out / name, digits, root, answers=answers)
    return out


def journals(out):
    return {run.journal.folder.name: [without_times(line) for line in run.lines] for run in read_runs(out)}


def test_budgets_are_answers(runs):
    for name in ("single", "votes", "doubts"):
        for run in read_runs(runs / name):
            assert [budget for budget, _ in run.accuracies] == [40, 60, 80]
    assert read_experiment(runs / "doubts").answers == "doubts"
    assert "answers" not in read_experiment(runs / "single").as_dict()


@pytest.mark.parametrize(("name", "answers"), [("votes", "votes(n=3)"), ("doubts", "doubts")])
@pytest.mark.parametrize("limit", [1, 4, 6])
def test_killed_and_started_again_it_ends_the_same(runs, tmp_path, digits, root, name, answers, limit):
    with pytest.raises(KeyboardInterrupt):
        carry_out(tmp_path, digits, root, Learner(limit), answers=answers)
    carry_out(tmp_path, digits, root, answers=answers)
    assert journals(tmp_path) == journals(runs / name)


def test_drawn_noise_is_that_of_several_people(digits, tmp_path):
    """A second answer is somebody else's; the first is what one answer an item would be."""
    for name, answers in (("single", "single"), ("votes", "votes(n=3)"), ("doubts", "doubts")):
        carry_out(tmp_path / name, digits, None, answers=answers, noise="symmetric(rate=0.4)", seeds=1)
    said = {}
    for name in ("single", "votes", "doubts"):
        for run in read_runs(tmp_path / name):
            lines = [call for line in run.lines for call in (line, *line.get("again", [])) if call.get("ids")]
            for call in lines:
                names = [call["by"]] * len(call["ids"]) if isinstance(call["by"], str) else call["by"]
                for item, who, label in zip(call["ids"], names, call["labels"], strict=True):
                    who = "person 1" if name == "single" else who
                    assert said.setdefault((item, who), label) == label, "the same for every strategy and policy"
    assert {who for _, who in said} == {"person 1", "person 2", "person 3"}
    pairs = [(said[item, "person 1"], label) for (item, who), label in said.items() if who != "person 1"]
    assert np.mean([one != other for one, other in pairs]) > 0.3


def test_wrong_labels_are_counted_against_the_truth(runs, digits):
    truth = truth_of(digits.pool, digits.labels)
    for name in ("single", "votes", "doubts"):
        for run in read_runs(runs / name):
            for row, number in zip(learnt(run, truth), (1, 2, 3), strict=True):
                labels = replay(run.lines[:number]).labels
                assert row.items == len(labels)
                assert row.wrong == pytest.approx(np.mean([truth[i] != label for i, label in labels.items()]))
                assert row.answers == (40, 60, 80)[number - 1]
            assert all(row.wrong is None for row in learnt(run, {}))
    shares = {n: np.mean([learnt(r, truth)[-1].wrong for r in read_runs(runs / n)]) for n in ("single", "votes")}
    assert shares["single"] > 0.12
    assert shares["votes"] < shares["single"]


def test_the_report_of_one_policy(runs, digits):
    page = write_report(runs / "doubts", digits.classes, digits.pool, truth=digits.labels).read_text()
    assert "Answers and wrong labels" in page
    assert "accuracy at 80 answers" in page
    assert "answers doubts (budgets count answers)" in page
    assert "Difference to random" in page
    with (runs / "doubts" / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["strategy"] for row in rows} == {"random", "margin"}
    assert [int(row["labels"]) for row in rows[:3]] == [40, 60, 80]
    assert int(rows[0]["items"]) == 40 > 0
    assert int(rows[2]["items"]) < 80
    assert 0 < float(rows[0]["wrong"]) < 0.5
    write_report(runs / "doubts")
    with (runs / "doubts" / "curves.csv").open() as file:
        assert {row["wrong"] for row in csv.DictReader(file)} == {""}


def test_policies_are_compared_in_one_report(runs, digits, tmp_path):
    folders = [runs / name for name in ("single", "votes", "doubts")]
    page = write_report(folders, digits.classes, digits.pool, tmp_path, digits.labels).read_text()
    for name in ("random", "margin", "margin, votes(n=3)", "margin, doubts"):
        assert f"<td>{name}</td>" in page
    assert "6 strategies, 2 seeds" in page


def test_clean_single_labels_need_no_table(digits, tmp_path):
    runs = carry_out(tmp_path, digits, None, noise="")
    assert answers_table(runs, truth_of(digits.pool, digits.labels)) == ""
    assert answers_table(runs, {}) == ""


def test_second_opinions_are_shown_where_the_truth_is_not_known(runs):
    table = answers_table(read_runs(runs / "votes"), {})
    assert "14 items" in table
    assert "%" not in table.split("<p")[0]


def test_an_unfinished_run_leaves_a_gap(digits, root, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        carry_out(tmp_path, digits, root, Learner(2), answers="doubts")
    assert "<td></td>" in answers_table(read_runs(tmp_path), truth_of(digits.pool, digits.labels))


def test_an_unknown_policy_is_found_before_anything_runs():
    with pytest.raises(UnknownName, match="'doubts'"):
        Experiment(answers="dubts")
