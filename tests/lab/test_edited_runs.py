"""Folders of runs that somebody edited, or that came from somebody else: errors with their place, and no more."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from ncalr.errors import BadInput, NcalrError
from ncalr.lab.card import cards
from ncalr.lab.claims import claim_all
from ncalr.lab.comparison import made_by
from ncalr.lab.evaluation_report import evaluations_as_markdown
from ncalr.lab.evaluations import EVALUATIONS, VERSION
from ncalr.lab.experiment import Experiment
from ncalr.lab.noise import learnt
from ncalr.lab.report import curves_of, items_of, result_rows, together, write_report
from ncalr.lab.runner import pairs, slug
from ncalr.lab.statistics import summary
from ncalr.lab.study import read_plan
from ncalr.loop.journal import DATA, Journal

EXPERIMENT = Experiment(strategies=("margin", "random"), seeds=2, start=4, step=2, end=8)
SET = {"items": 30, "shape": [3], "ids": "a", "labels": "b", "contents": "c"}
FINGERPRINT = {"version": 1, "classes": {"count": 2, "names": "d"}, "pool": SET, "test": SET}
ENVIRONMENT = {"python": "3", "versions": {"ncalr": "0", "numpy": "2"}, "threads": 1, "later": [{"round": 1}]}


def lines_of(seed):
    """The journal of a run, with all that a line may have."""
    lines = [{"round": 0, "ids": [1, 2, 3, 4], "labels": [0, 1, 0, 1], "by": ""}]
    for number in (1, 2, 3):
        ids = [10 * number, 10 * number + 1]
        lines.append(
            {
                "round": number,
                "labelled": 2 + 2 * number,
                "accuracy": 0.5 + 0.1 * number + 0.01 * seed,
                "rule": "accuracy",
                "began": 3,
                "flipping": 0.1,
                "collapse": {"nc1": 0.1, "nc4": 0.0, "accuracy": 1.0},
                "separation": {"quantiles": [0.1, 0.5, 0.9], "norm": 1.0},
                "stop": "" if number < 3 else "budget",
                **({} if number == 3 else {"ids": ids, "labels": [0, 1], "by": ["ann", "bob"], "scores": [0.5]}),
                **({} if number == 3 else {"parts": {"ff": [0.5]}, "least": {"ids": [7], "parts": {"ff": [0.1]}}}),
                **({} if number == 3 else {"control": {"ids": ids[1:], "predicted": [1]}, "redundancy": 0.5}),
                "seconds": {"train": 0.1, "round": 0.2},
            }
        )
    return lines


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.as_dict()))
    (tmp_path / DATA).write_text(json.dumps(FINGERPRINT))
    line = {"version": VERSION, "task": "audit", "round": 3, "labelled": 8, "accuracy": 0.8, "journal": 0.8}
    values = {"estimated share wrong": 0.1, "low": 0.0, "high": 0.2}
    limits = {"low": [0.0, 1.0]}
    line |= {"values": values, "shown": ["low"], "notes": ["a"], "limits": limits, "wishes": {"seed": 1}}
    for strategy, seed in pairs(EXPERIMENT):
        run = tmp_path / "runs" / slug(strategy, seed)
        run.mkdir(parents=True)
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_of(seed)))
        (run / "environment.json").write_text(json.dumps(ENVIRONMENT))
        (run / EVALUATIONS).write_text(json.dumps(line) + "\n")
    return tmp_path


def looked_at(folder):
    """All that a report computes, without its pictures, which take seconds."""
    experiment, runs = together([folder])
    curves, _ = curves_of(runs)
    found = {**summary(curves), "unit": "labels"}
    words = [result_rows(found), made_by(runs), evaluations_as_markdown(runs), items_of(folder)]
    return [*words, [learnt(run, {}) for run in runs], [cards(run, 2) for run in runs], experiment.as_dict()]


def places(facts, path=()):
    """Every place of nested data."""
    for key in facts if isinstance(facts, dict) else range(len(facts)) if isinstance(facts, list) else ():
        yield (*path, key)
        yield from places(facts[key], (*path, key))


STRANGE = [None, True, "x", -1, 10**30, [], {}, ["a"], [[1]], {"a": 1}, float("nan"), 1e308]
FILES = ["experiment.json", DATA, "runs/margin-0/journal.jsonl", "runs/margin-0/environment.json"]
FILES += [f"runs/margin-0/{EVALUATIONS}"]


@pytest.mark.parametrize("name", FILES)
def test_fields_of_a_wrong_kind(folder, name):
    """In any place of any file: an error of ours, or a report as before."""
    path = folder / name
    text = path.read_text()
    whole = [json.loads(line) for line in (text.splitlines() if name.endswith("l") else [text])]
    rng = np.random.default_rng(0)
    every = [(at, place, value) for at, facts in enumerate(whole) for place in places(facts) for value in STRANGE]
    refused = 0
    for turn in rng.permutation(len(every))[:60].tolist():
        at, place, value = every[turn]
        facts = json.loads(json.dumps(whole))
        inner = facts[at]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path.write_text("".join(json.dumps(one) + "\n" for one in facts))
        try:
            looked_at(folder)
        except NcalrError:
            refused += 1
    assert refused > 5


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", ["[" * 100_000 + "\n", "{}\n", "[]\n", "\xff\n", '{"round": 7}\n'])
def test_files_that_are_not_what_they_were(folder, name, text):
    (folder / name).write_bytes(text.encode("latin1"))
    try:
        looked_at(folder)
    except NcalrError:
        return
    assert text in ("{}\n", '{"round": 7}\n')


@pytest.mark.parametrize(
    ("at", "change"),
    [
        (1, {"labels": [0]}),
        (1, {"labels": [0, 10**9]}),
        (1, {"by": ["ann"]}),
        (1, {"accuracy": 1.5}),
        (1, {"round": 2}),
        (1, {"control": {"ids": [99], "predicted": [1]}}),
        (1, {"control": {"ids": [11], "predicted": []}}),
        (1, {"scores": [0.1] * 9}),
        (1, {"parts": {"ff": []}}),
        (1, {"least": {"ids": [7], "parts": {"ff": []}}}),
        (1, {"again": [{"ids": [99], "labels": [0], "by": ""}]}),
        (1, {"again": [{"ids": [10], "labels": [], "by": ""}]}),
        (1, {"consensus": {"ids": [1], "labels": []}}),
    ],
)
def test_lines_that_contradict_themselves(folder, at, change):
    path = folder / "runs" / "margin-0" / "journal.jsonl"
    lines = lines_of(0)
    lines[at] |= change
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadInput, match=r"journal\.jsonl"):
        looked_at(folder)


@pytest.mark.parametrize(
    "values", [{"seeds": 10**9}, {"end": 10**12, "step": 1}, {"strategies": 5}, {"strategies": [["a"]]}, {"dataset": 5}]
)
def test_an_experiment_of_no_sense_is_refused_at_once(folder, values):
    (folder / "experiment.json").write_text(json.dumps({**EXPERIMENT.as_dict(), **values}))
    with pytest.raises(BadInput):
        read_plan(folder)


def test_a_study_clears_no_runs_elsewhere(folder, tmp_path_factory):
    """Its members are folders in it: those of another experiment, named by `..`, stay as they are."""
    study = tmp_path_factory.mktemp("study")
    victim = study.parent / "victim"
    run = victim / "runs" / "margin-0"
    run.mkdir(parents=True)
    (run / "experiment.json").write_text(json.dumps({"strategy": "margin", "budgets": [4]}))
    (run / "journal.jsonl").write_text(json.dumps(lines_of(0)[0]) + "\n")
    claim = {**EXPERIMENT.as_dict(), "members": {"../victim": "none"}}
    (study / "experiment.json").write_text(json.dumps(claim))
    with pytest.raises(BadInput, match="member"):
        claim_all(study, {study: {**EXPERIMENT.as_dict(), "seeds": 1}}, FINGERPRINT)
    assert (run / "journal.jsonl").exists()


@pytest.mark.parametrize("name", ["journal.jsonl", "environment.json", EVALUATIONS])
def test_a_link_in_a_run_shows_and_changes_nothing_outside(folder, tmp_path_factory, name):
    secret = tmp_path_factory.mktemp("home") / "secret"
    secret.write_text('{"token": "secret"}\n')
    path = folder / "runs" / "margin-0" / name
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(BadInput, match="leads out"):
        looked_at(folder)
    with pytest.raises(NcalrError):
        Journal(path.parent).append({"round": 4}) if name == "journal.jsonl" else looked_at(folder)
    assert secret.read_text() == '{"token": "secret"}\n'


def test_a_report_on_a_full_disk_leaves_the_old_one_whole(folder, monkeypatch):
    """Whichever of its files finds no room: all are those of the report before, and nothing is left beside them."""
    page = write_report(folder)
    names = ("curves.csv", "summary.json", "report.md", "report.html")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert page.name in before
    assert set(names) <= before.keys()
    (folder / "runs" / "margin-1" / EVALUATIONS).unlink()
    real = os.fsync
    monkeypatch.setattr("ncalr.lab.report._page", lambda *_: "another page")
    for room in range(len(names)):
        left = [room]

        def full(file, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            real(file)

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_report(folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    monkeypatch.setattr("os.fsync", real)
    write_report(folder)
    assert (folder / "report.html").read_text() == "another page"
