"""The same experiment under several noises: each as if alone, killed, resumed, put side by side."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from quick_learner import Quick
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data import load
from ncalr.errors import BadInput
from ncalr.evaluate.audit_run import audit_run
from ncalr.evaluate.driver import evaluate
from ncalr.lab.experiment import Experiment
from ncalr.lab.live import Board
from ncalr.lab.noise import learnt, truth_of, wrong_answers
from ncalr.lab.overview import overview_rows, write_overview
from ncalr.lab.plots import curves_by_noise, wrong_by_noise
from ncalr.lab.report import command
from ncalr.lab.runner import read_experiment, read_runs
from ncalr.lab.session import carry_out, report_again
from ncalr.lab.study import Study, planned, read_plan
from ncalr.loop.journal import without_times
from ncalr.oracles import Annotators, Truth

NOISES = ("none", "symmetric(rate=0.3)", "pairs(rate=0.4)", "instance(rate=0.3)")
PEOPLE = "annotators(file='people.npz', labels=[ann, bob, cid])"
EXPERIMENT = Experiment(strategies=("margin", "random"), seeds=2, start=40, step=20, end=80)
STUDY = Study(EXPERIMENT, NOISES)
TRAININGS = 4 * 2 * (1 + 2 * 2)  # of each noise and seed: a first one, then two rounds of two strategies


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    Quick.install(monkeypatch)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ncalr.learn.TorchLearner", Quick)
        carry_out(STUDY, out, live=False)
    return out


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def journals(out):
    """By noise and run."""
    return {
        folder: {
            run.journal.folder.name: [without_times(line) for line in run.lines] for run in read_runs(out / folder)
        }
        for folder in read_plan(out).members
    }


# -- the runs ------------------------------------------------------------------------------------------------------


def test_each_member_is_the_experiment_alone(whole, tmp_path):
    assert list(STUDY.members) == ["none", "symmetric-rate=0.3", "pairs-rate=0.4", "instance-rate=0.3"]
    together = journals(whole)
    for folder, member in STUDY.members.items():
        alone = tmp_path / folder
        runs, _ = carry_out(member, alone, live=False)
        assert together[folder] == {r.journal.folder.name: [without_times(line) for line in r.lines] for r in runs}
        assert read_experiment(whole / folder) == member == read_experiment(alone)
        for name in ("curves.csv", "summary.json", "report.md"):
            assert (whole / folder / name).read_text() == (alone / name).read_text()
    labels = {folder: [line.get("labels") for line in runs["random-0"]] for folder, runs in together.items()}
    assert len({json.dumps(said) for said in labels.values()}) == 4, "other noises, other labels"


@pytest.mark.parametrize("limit", [13])
def test_killed_and_resumed_it_ends_the_same(whole, tmp_path, limit):
    Quick.limit = limit
    with pytest.raises(KeyboardInterrupt):
        carry_out(STUDY, tmp_path, live=False)
    Quick.limit, Quick.trained = None, 0
    assert read_plan(tmp_path) == STUDY
    again = invoke("resume", tmp_path)
    assert again.exit_code == 0, again.output
    assert Quick.trained == TRAININGS - limit
    assert journals(tmp_path) == journals(whole)
    for name in ("report.md", "noises.csv", "summary.json"):
        assert (tmp_path / name).read_text() == (whole / name).read_text()


def test_what_is_done_is_not_done_again(whole):
    before = journals(whole)
    carry_out(STUDY, whole, live=False)
    assert Quick.trained == 0
    assert journals(whole) == before


def test_the_board_has_a_row_for_each(whole):
    board = Board(EXPERIMENT, wanted=False, parts=list(STUDY.members))
    for part, folder in enumerate(STUDY.members):
        for run in read_runs(whole / folder):
            board.show(replace(run, part=part))
    cells = [list(column.cells) for column in board.table().columns]
    assert cells[0][:3] == ["none, margin", "none, random", "symmetric-rate=0.3, margin"]
    assert cells[-1] == ["6/6"] * 8


# -- the overview --------------------------------------------------------------------------------------------------


def test_the_overview_says_what_the_members_say(whole, digits):
    truth = truth_of(digits.pool, digits.labels)
    found = json.loads((whole / "summary.json").read_text())["noises"]
    assert [one["noise"] for one in found] == list(NOISES)
    head, rows = overview_rows(found)
    assert head == [
        *("noise", "strategy", "accuracy at 80 labels", "area under the curve", "area against random", "p (Holm)"),
        *("wrong labels, %", "wrong answers, %"),
    ]
    assert [row[:2] for row in rows] == [[noise, name] for noise in NOISES for name in EXPERIMENT.strategies]
    for one, folder in zip(found, STUDY.members, strict=True):
        assert one["summary"] == json.loads((whole / folder / "summary.json").read_text())
        for name in EXPERIMENT.strategies:
            runs = [run for run in read_runs(whole / folder) if run.strategy == name]
            assert one["wrong"][name]["mean"] == pytest.approx(np.mean([learnt(r, truth)[-1].wrong for r in runs]))
            last = np.mean([run.accuracies[-1][1] for run in runs])
            (row,) = (row for row in rows if row[:2] == [one["noise"], name])
            assert row[2].startswith(f"{100 * last:.1f}")
            assert (row[4] == "") == (name == "random")
    shares = {one["noise"]: one["wrong_answers"] for one in found}
    assert shares["none"] == 0
    assert shares["symmetric(rate=0.3)"] == pytest.approx(0.3, abs=0.001)
    assert 0.2 < shares["instance(rate=0.3)"] < 0.4
    assert rows[2][-1] == "30.0"


def test_the_files_of_the_overview(whole):
    page = (whole / "report.html").read_text()
    assert "digits: 2 strategies under 4 noises, 2 seeds" in page
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "src=" not in page
    for folder in STUDY.members:
        assert f"<a href='{folder.replace('=', '%3D')}/report.html'>" in page
        assert (whole / folder / "report.html").exists()
    assert (whole / "report.md").read_text().count("\n") == 2 + 8
    with (whole / "noises.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["noise"], row["strategy"]) for row in rows] == [(n, s) for n in NOISES for s in EXPERIMENT.strategies]
    found = json.loads((whole / "summary.json").read_text())["noises"]
    assert float(rows[2]["accuracy"]) == found[1]["summary"]["accuracy"]["margin"]["mean"][-1]
    assert float(rows[2]["to_random_low"]) == found[1]["summary"]["to_random"]["margin"]["aubc"]["low"]
    assert (rows[3]["to_random"], rows[3]["p_holm"], rows[3]["budget"]) == ("", "", "80.0")
    assert float(rows[2]["wrong"]) == found[1]["wrong"]["margin"]["mean"] > 0.1
    for name in ("experiment.json", "summary.json", "report.md", "noises.csv"):
        assert str(whole) not in (whole / name).read_text(), "no machine's path in a result"


def test_a_report_from_the_journals(whole, tmp_path):
    before = (whole / "report.html").read_text()
    done = invoke("report", whole, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == json.loads((whole / "summary.json").read_text())
    assert (tmp_path / "out" / "report.html").read_text() == before
    assert (tmp_path / "out" / "pairs-rate=0.4" / "report.html").exists()


def test_networks_that_were_not_trained_are_told_of_by_noise(whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    for run in read_runs(out / "pairs-rate=0.4"):
        lines = [
            {**line, "collapse": {"nc4": 0.5, "accuracy": 0.3}} if "accuracy" in line else line for line in run.lines
        ]
        run.journal.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = invoke("resume", out).stderr
    assert "note: pairs(rate=0.4): 12 of 12 trainings ended before the network had settled on its own labels" in said
    assert said.count("had settled") == 1
    assert "pairs(rate=0.4): 12 of 12 trainings ended before" in (out / "report.html").read_text()


def test_without_the_data_wrong_labels_are_not_told(whole, tmp_path):
    page = write_overview(STUDY, whole, out=tmp_path).read_text()
    assert page.count("<svg") == 1
    assert "pool:" not in page
    _, rows = overview_rows(json.loads((tmp_path / "summary.json").read_text())["noises"])
    assert {tuple(row[-2:]) for row in rows} == {("", "")}


def test_an_unfinished_study_can_be_reported(tmp_path):
    Quick.limit = 12
    with pytest.raises(KeyboardInterrupt):
        carry_out(STUDY, tmp_path, live=False)
    page = report_again(tmp_path).read_text()
    assert "symmetric(rate=0.3): 3 of 4 runs are not finished" in page
    assert "symmetric(rate=0.3): not finished, its figures are those up to 60." in page
    assert "pairs(rate=0.4): no training has finished yet." in page
    assert "<th>accuracy at the last budget</th>" in page
    Quick.trained, Quick.limit = 0, 0
    with pytest.raises(KeyboardInterrupt):
        carry_out(STUDY, tmp_path / "other", live=False)
    with pytest.raises(BadInput, match="has finished yet: nothing to report"):
        report_again(tmp_path / "other")


def test_the_line_that_runs_it_again(whole, monkeypatch):
    found = []

    def stop(plan, out, **_):
        found.append((plan, out))
        raise KeyboardInterrupt

    monkeypatch.setattr("ncalr.lab.session.carry_out", stop)
    for study in (STUDY, Study(replace(EXPERIMENT, answers="votes(n=3)"), (PEOPLE, "pairs(rate=0.2)"))):
        line = command(study.experiment, whole, study.noises)
        invoke(*shlex.split(line)[1:])
        assert found.pop() == (study, whole)


def test_lines_to_copy_stand_a_space_in_a_path(whole, tmp_path):
    (tmp_path / "my runs").symlink_to(whole)
    page = unescape(write_overview(STUDY, tmp_path / "my runs", out=tmp_path / "out").read_text())
    assert f"ncalr resume '{tmp_path}/my runs'\nncalr report '{tmp_path}/my runs'" in page


def test_pictures_of_one_seed_and_of_long_names(monkeypatch):
    from ncalr.lab import plots

    kept = []
    monkeypatch.setattr(plots, "_svg", lambda figure: kept.append(figure) or "")
    one = {"mean": [0.2, 0.4], "low": [None, None], "high": [None, None]}
    summary = {"strategies": ["random"], "budgets": [20, 40], "accuracy": {"random": one}}
    other = {**summary, "accuracy": {"random": {**one, "mean": [0.6, 0.9]}}}
    long = f"confusion(matrix={np.eye(10).tolist()})"
    curves_by_noise({"none": summary, long: other, "pairs(rate=0.2)": summary})
    panels = kept[0].axes
    assert [axes.get_title() for axes in panels][::2] == ["none", "pairs(rate=0.2)"]
    assert panels[1].get_title().count("\n") == 2
    assert len({axes.get_ylim() for axes in panels}) == 1, "one scale"
    assert panels[0].get_ylim()[0] < 20 < 90 < panels[0].get_ylim()[1]
    shares = {"none": {}, long: {"random": {"mean": 0.3, "low": None, "high": None}}}
    wrong_by_noise(["none", long], ["random"], shares, {"none": 0.0, long: None})
    assert len(kept) == 2
    assert wrong_by_noise(["none"], ["random"], {"none": {}}, {}) == ""


# -- people --------------------------------------------------------------------------------------------------------


def test_labels_of_people_beside_drawn_noise(tmp_path, digits):
    rng = np.random.default_rng(0)
    said = {}
    for name, rate in (("ann", 0.1), ("bob", 0.2), ("cid", 0.3)):
        wrong = rng.random(len(digits.labels)) < rate
        said[name] = np.where(wrong, (digits.labels + 1) % 10, digits.labels)
    np.savez(tmp_path / "people.npz", **said)
    shares = {name: (labels != digits.labels).mean() for name, labels in said.items()}
    study = Study(replace(EXPERIMENT, end=60, answers="votes(n=3)"), (PEOPLE, "symmetric(rate=0.2)"))
    for answers, wanted in (("single", shares["ann"]), ("votes(n=3)", np.mean(list(shares.values())))):
        one = replace(study, experiment=replace(study.experiment, answers=answers))
        carry_out(one, tmp_path / answers, root=tmp_path, live=False)
        people, drawn = json.loads((tmp_path / answers / "summary.json").read_text())["noises"]
        assert people["wrong_answers"] == pytest.approx(wanted)
        assert drawn["wrong_answers"] == pytest.approx(0.2, abs=0.001)
    assert people["wrong"]["random"]["mean"] < wanted, "three answers are better than one"
    (tmp_path / "people.npz").unlink()
    report_again(tmp_path / "votes(n=3)", root=tmp_path)
    people, drawn = json.loads((tmp_path / "votes(n=3)" / "summary.json").read_text())["noises"]
    assert people["wrong_answers"] is None
    assert drawn["wrong_answers"] is not None


def test_wrong_answers_by_hand():
    truth = {7: 0, 8: 1, 9: 1, 5: 0}
    said = {"ann": [0, 1, 1, 1], "bob": [1, 0, 1, 0]}
    for times, wanted in ((1, 1 / 4), (2, 3 / 8), (3, 3 / 8)):
        oracle = Annotators.of_labels(list(truth), said, 2)
        assert wrong_answers(oracle, truth, times) == wanted, "who refuses is not wrong"
    assert wrong_answers(Truth(list(truth), list(truth.values()), 2), truth) == 0


# -- what cannot be ------------------------------------------------------------------------------------------------


def test_folders_have_names_of_their_own():
    long = f"confusion(matrix={np.eye(10).tolist()})"
    study = Study(EXPERIMENT, ("given(file='a/b.npz', labels=x)", "given(file='a-b.npz', labels=x)", long, ""))
    names = list(study.members)
    assert len(set(names)) == 4
    assert max(map(len, names)) < 80
    assert names[0][:-9] == names[1][:-9] == "given-file=-a-b.npz-labels=x"
    assert names[3] == "none"
    assert planned(study.as_dict()) == study


@pytest.mark.parametrize("noises", [(), ("none",), ("none", ""), ("pairs(rate=0.2)", "pairs(rate = 0.2)")])
def test_a_study_needs_different_noises(noises):
    with pytest.raises(BadInput, match="two noises or more, each once, got"):
        Study(EXPERIMENT, noises)


def test_a_list_of_one_noise_is_an_experiment():
    for noise, wanted in (([], ""), (["none"], ""), ("none", ""), (["pairs(rate=0.2)"], "pairs(rate=0.2)")):
        assert planned({"noise": noise}) == Experiment(noise=wanted)
    for noise in (3, ["none", 3]):
        with pytest.raises(BadInput, match="noise must be a text such as"):
            planned({"noise": noise})


def test_a_folder_of_several_is_told_from_one_of_one(whole, tmp_path):
    for what in (read_experiment, evaluate, audit_run):
        with pytest.raises(BadInput, match=r"under several noises; expected one of them: .*none, .*pairs-rate=0\.4"):
            what(whole)
    with pytest.raises(BadInput, match="under several noises"):
        report_again([whole, whole / "none"])
    with pytest.raises(BadInput, match=r"holds another experiment \(different: members\)"):
        carry_out(replace(STUDY, noises=("none", "pairs(rate=0.1)")), whole, live=False)
    with pytest.raises(BadInput, match=r"holds another experiment \(different: end\)"):
        carry_out(replace(STUDY, experiment=replace(EXPERIMENT, end=60)), whole, live=False)
    with pytest.raises(BadInput, match=r"holds another experiment \(different: members, noise\)"):
        carry_out(EXPERIMENT, whole, live=False)
    carry_out(replace(EXPERIMENT, seeds=1, end=40), tmp_path, live=False)
    with pytest.raises(BadInput, match=r"holds another experiment \(different: .*members, noise"):
        carry_out(STUDY, tmp_path, live=False)
    (tmp_path / "experiment.json").write_text('{"members": 3}')
    with pytest.raises(BadInput, match="damaged: members must be the noise of each folder, got 3"):
        read_plan(tmp_path)


def test_one_of_several_that_cannot_be_leaves_everything_free(tmp_path):
    for answers, noise in (("single", "symmetric(rate=2)"), ("doubts", "none")):
        study = Study(replace(EXPERIMENT, answers=answers), ("pairs(rate=0.2)", noise))
        with pytest.raises(BadInput):
            carry_out(study, tmp_path / "out", live=False)
        assert not (tmp_path / "out").exists()
