"""An experiment goes on, and is looked at, with the data it began with and with no others."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quick_learner import Quick
from typer.testing import CliRunner

import ncalr
from ncalr.cli.app import app
from ncalr.data import ArrayPool, load
from ncalr.data.fingerprint import fingerprint
from ncalr.errors import BadInput, NcalrError
from ncalr.evaluate.audit_run import audit_run
from ncalr.evaluate.driver import evaluate
from ncalr.lab.claims import claim_all, claim_experiment
from ncalr.lab.experiment import Experiment
from ncalr.lab.report import write_report
from ncalr.lab.runner import read_experiment, read_runs
from ncalr.lab.session import _one_seed, carry_out, report_again
from ncalr.lab.study import Study, read_plan
from ncalr.loop.journal import DATA, Busy, Journal, without_times


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    Quick.install(monkeypatch)


def table(folder, order=None):
    """A folder of arrays, its rows in this order: the same file names, other items behind the numbers."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 280)
    items = ((rng.normal(size=(4, 6)) * 2)[truth] + rng.normal(size=(280, 6))).astype(np.float32)
    order = np.arange(200) if order is None else order
    folder.mkdir(exist_ok=True)
    np.save(folder / "train_images.npy", items[:200][order])
    np.save(folder / "train_labels.npy", truth[:200][order])
    np.save(folder / "test_images.npy", items[200:])
    np.save(folder / "test_labels.npy", truth[200:])
    (folder / "classes.json").write_text(json.dumps(["a", "b", "c", "d"]))
    return folder


def experiment(folder, **values):
    return Experiment(f"folder:{folder}", **{"strategies": ("margin", "random"), "seeds": 1, **SMALL, **values})


def journals(out):
    return {run.journal.folder.name: [without_times(line) for line in run.lines] for run in read_runs(out)}


def stopped(plan, out, limit):
    """Killed after so many trainings."""
    Quick.limit, Quick.trained = limit, 0
    with pytest.raises(KeyboardInterrupt):
        carry_out(plan, out, live=False)
    Quick.limit = None


def files(out):
    return {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file() and path.name != "lock"}


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


RESULTS = Path(__file__).parents[2] / "results"
SMALL = {"start": 12, "step": 8, "end": 28}
SHUFFLED = np.random.default_rng(0).permutation(200)


@pytest.fixture
def data(tmp_path):
    return table(tmp_path / "table")


def test_with_shuffled_rows_nothing_goes_on(data, tmp_path):
    stopped(experiment(data), tmp_path / "out", 3)
    table(data, SHUFFLED)
    before = files(tmp_path / "out")
    refused = invoke("resume", tmp_path / "out")
    assert isinstance(refused.exception, BadInput)
    assert str(refused.exception) == (
        f"the data are not those that {tmp_path / 'out'} was begun with: other labels in the pool; other contents of "
        "items in the pool. Put them back as they were, or begin again in another folder"
    )
    with pytest.raises(BadInput, match="the data are not those"):
        carry_out(experiment(data), tmp_path / "out", live=False)
    assert files(tmp_path / "out") == before
    table(data)
    assert invoke("resume", tmp_path / "out").exit_code == 0
    carry_out(experiment(data), tmp_path / "whole", live=False)
    assert journals(tmp_path / "out") == journals(tmp_path / "whole")


def test_a_worker_that_sees_other_data_does_not_begin(data, tmp_path):
    plan = experiment(data)
    stopped(plan, tmp_path / "out", 3)
    table(data, SHUFFLED)
    with pytest.raises(BadInput, match="other labels in the pool"):
        _one_seed(None, "cpu", 1, ("", plan, str(tmp_path / "out"), 0), None)


def test_every_member_of_a_study_keeps_it(data, tmp_path):
    study = Study(experiment(data), ("none", "symmetric(rate=0.2)"))
    stopped(study, tmp_path / "out", 3)
    for folder in ("", "none", "symmetric-rate=0.2"):
        assert json.loads((tmp_path / "out" / folder / DATA).read_text()) == fingerprint(load(f"folder:{data}"))
    table(data, SHUFFLED)
    with pytest.raises(BadInput, match="other labels in the pool"):
        carry_out(study, tmp_path / "out", live=False)


def test_a_folder_that_says_nothing_of_its_data_is_taken_as_it_is(data, tmp_path):
    """As those that were begun by an ncalr that kept none: nothing is added to them either."""
    stopped(experiment(data), tmp_path / "out", 3)
    (tmp_path / "out" / DATA).unlink()
    table(data, SHUFFLED)
    carry_out(experiment(data), tmp_path / "out", live=False)
    assert not (tmp_path / "out" / DATA).exists()


@pytest.mark.parametrize("claim", sorted(RESULTS.glob("*/*/experiment.json")), ids=lambda path: path.parent.name)
def test_the_studies_of_the_repository_go_on_as_they_are(claim, tmp_path):
    shutil.copytree(claim.parent, tmp_path, dirs_exist_ok=True)
    before = files(tmp_path)
    plan = read_experiment(tmp_path)
    claim_experiment(tmp_path, plan.as_dict())
    known = tmp_path / DATA
    own = json.loads(known.read_text()) if known.exists() else fingerprint(load("digits"))
    claim_all(tmp_path, {tmp_path: plan.as_dict()}, own)
    assert files(tmp_path) == before


def test_the_study_of_the_digits_was_made_with_the_digits_that_ship():
    assert json.loads((RESULTS / "study" / "digits" / DATA).read_text()) == fingerprint(load("digits"))


def test_evaluations_and_audits_are_of_the_same_data(data, tmp_path):
    carry_out(experiment(data, keep="last"), tmp_path, live=False)
    table(data, SHUFFLED)
    for look in (evaluate, audit_run):
        with pytest.raises(BadInput, match="the data are not those"):
            look(tmp_path, learner=Quick())


def test_a_report_of_other_data_leaves_out_what_it_cannot_know(data, tmp_path):
    carry_out(experiment(data, noise="symmetric(rate=0.3)"), tmp_path / "out", live=False)
    assert "Answers and wrong labels" in (tmp_path / "out" / "report.html").read_text()
    table(data, SHUFFLED)
    with pytest.warns(ncalr.errors.Note, match=r"wrong labels are left out of the report: the data are not those"):
        page = report_again(tmp_path / "out")
    assert "Answers and wrong labels" not in page.read_text()


def test_experiments_on_different_data_are_not_one(data, tmp_path):
    carry_out(experiment(data), tmp_path / "one", live=False)
    table(data, SHUFFLED)
    carry_out(experiment(data, strategies=("entropy",)), tmp_path / "two", live=False)
    with pytest.raises(
        BadInput, match=r"one and .*two cannot be compared: their data differ \(other labels in the pool"
    ):
        write_report([tmp_path / "one", tmp_path / "two"], out=tmp_path / "both")
    (tmp_path / "one" / DATA).unlink()
    write_report([tmp_path / "one", tmp_path / "two"], out=tmp_path / "both")


def test_one_run_by_itself(data, tmp_path):
    def run(**more):
        return ncalr.run(f"folder:{data}", "margin", budgets=[12, 20], folder=tmp_path / "run", learner=Quick(), **more)

    Quick.limit = 1
    with pytest.raises(KeyboardInterrupt):
        run()
    Quick.limit = None
    table(data, SHUFFLED)
    with pytest.raises(BadInput, match="other labels in the pool; other contents of items in the pool"):
        run()
    table(data)
    assert run().ended


def test_one_run_that_learnt_nothing_yet_goes_on_with_a_mended_item(data, tmp_path):
    """The answers it has may be those of people: they stay."""
    images = np.load(data / "train_images.npy")
    Quick.limit = 0
    for value in (7.0, 8.0):
        np.save(data / "train_images.npy", np.concatenate([np.full((1, 6), value, np.float32), images[1:]]))
        with pytest.raises(KeyboardInterrupt):
            ncalr.run(f"folder:{data}", "margin", budgets=[12, 20], folder=tmp_path / "run", learner=Quick())
        checkpoint = tmp_path / "run" / "training" / "training.json"
        assert not checkpoint.exists(), "one of the data before would go on from what it learnt there"
        checkpoint.parent.mkdir(exist_ok=True)
        checkpoint.write_text("{}")
    kept = json.loads((tmp_path / "run" / DATA).read_text())
    assert kept == fingerprint(load(f"folder:{data}"))
    table(data, SHUFFLED)
    with pytest.raises(BadInput, match="other labels in the pool"):
        ncalr.run(f"folder:{data}", "margin", budgets=[12, 20], folder=tmp_path / "run", learner=Quick())


def test_seeds_are_added_with_the_same_data_alone(data, tmp_path):
    words = ["run", f"folder:{data}", "--strategy", "margin", "--start", 12, "--step", 8, "--end", 20]
    words += ["--out", tmp_path / "out"]
    assert invoke(*words, "--seeds", 1).exit_code == 0
    table(data, SHUFFLED)
    before = files(tmp_path / "out")
    assert "other labels in the pool" in str(invoke(*words, "--seeds", 2).exception)
    assert files(tmp_path / "out") == before
    table(data)
    done = invoke(*words, "--seeds", 2)
    assert done.exit_code == 0, done.exception
    assert [len(run.accuracies) for run in read_runs(tmp_path / "out")] == 4 * [2]
    assert "seeds: 2 there, 1 here" in str(invoke(*words, "--seeds", 1).exception)


def test_seeds_are_added_to_every_member_of_a_study(data, tmp_path):
    noises = ("none", "symmetric(rate=0.2)")
    carry_out(Study(experiment(data), noises), tmp_path / "out", live=False)
    runs, _ = carry_out(Study(experiment(data, seeds=2), noises), tmp_path / "out", live=False)
    assert [len(run.accuracies) for run in runs] == 8 * [3]
    assert read_plan(tmp_path / "out") == Study(experiment(data, seeds=2), noises)


# -- where the data lie --------------------------------------------------------------------------------------------


def test_a_relative_path_is_that_of_every_folder(data, tmp_path, monkeypatch):
    (tmp_path / "else" / "where").mkdir(parents=True)
    words = ["--strategy", "margin", "--seeds", 1, "--start", 12, "--step", 8, "--end", 20, "--out", tmp_path / "out"]
    monkeypatch.chdir(tmp_path)
    Quick.limit = 1
    assert invoke("run", "./table", *words).exit_code == 130
    Quick.limit = None
    monkeypatch.chdir(tmp_path / "else" / "where")
    assert invoke("resume", tmp_path / "out").exit_code == 0
    for name in ("../../table", data, f"{data}/"):
        assert invoke("run", name, *words).exit_code == 0
    done = invoke("report", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "")
    assert audit_run(tmp_path / "out", learner=Quick()).rows


def test_one_that_was_begun_with_a_relative_path_goes_on(data, tmp_path, monkeypatch):
    """As an older ncalr wrote it."""
    stopped(experiment(data), tmp_path / "out", 2)
    path = tmp_path / "out" / "experiment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dataset": "folder:table"}))
    (tmp_path / "out" / DATA).unlink()
    monkeypatch.chdir(tmp_path)
    assert invoke("resume", "out").exit_code == 0
    assert json.loads(path.read_text())["dataset"] == f"folder:{data}"


def test_data_that_were_moved_are_the_same_data(data, tmp_path):
    stopped(experiment(data), tmp_path / "out", 2)
    data.rename(tmp_path / "moved")
    with pytest.raises(BadInput, match=f"no folder {data}"):
        carry_out(read_experiment(tmp_path / "out"), tmp_path / "out", live=False)
    moved = experiment(tmp_path / "moved")
    carry_out(moved, tmp_path / "out", live=False)
    assert read_experiment(tmp_path / "out") == moved
    table(data, SHUFFLED)
    with pytest.raises(BadInput, match=r"different: dataset\)"):
        carry_out(experiment(data), tmp_path / "out", live=False)
    assert read_experiment(tmp_path / "out") == moved


def test_a_report_without_the_data_says_so(data, tmp_path):
    carry_out(experiment(data), tmp_path / "out", live=False)
    data.rename(tmp_path / "moved")
    with pytest.warns(ncalr.errors.Note) as said:
        report_again(tmp_path / "out")
    (note,) = (str(one.message) for one in said)
    assert note.startswith(
        "class names, pictures of items and shares of wrong labels are left out of the report: no folder "
        f"{data}; look at how it is written"
    )


# -- a folder in which nothing was learnt --------------------------------------------------------------------------


def test_a_folder_in_which_nothing_was_learnt_may_be_claimed_anew(data, tmp_path):
    stopped(experiment(data, seeds=2), tmp_path / "out", 0)
    assert all(len(run.lines) == 1 for run in read_runs(tmp_path / "out")), "the first labels are in the journals"
    other = experiment(data, start=20, strategies=("random",))
    carry_out(other, tmp_path / "out", live=False)
    assert read_experiment(tmp_path / "out") == other
    carry_out(other, tmp_path / "alone", live=False)
    assert journals(tmp_path / "out") == journals(tmp_path / "alone")
    with pytest.raises(BadInput, match="holds another experiment"):
        carry_out(experiment(data), tmp_path / "out", live=False)


def test_it_may_have_other_data_too(data, tmp_path):
    stopped(experiment(data), tmp_path / "out", 0)
    table(data, SHUFFLED)
    carry_out(experiment(data), tmp_path / "out", live=False)
    carry_out(experiment(data), tmp_path / "alone", live=False)
    assert journals(tmp_path / "out") == journals(tmp_path / "alone")
    assert (tmp_path / "out" / DATA).read_text() == (tmp_path / "alone" / DATA).read_text()


def test_of_several_noises_too(data, tmp_path):
    stopped(Study(experiment(data), ("none", "symmetric(rate=0.2)")), tmp_path / "out", 0)
    study = Study(experiment(data, end=20), ("pairs(rate=0.2)", "none"))
    carry_out(study, tmp_path / "out", live=False)
    carry_out(study, tmp_path / "alone", live=False)
    for folder in study.members:
        assert journals(tmp_path / "out" / folder) == journals(tmp_path / "alone" / folder)


def test_one_that_goes_on_with_the_same_keeps_its_first_labels(data, tmp_path):
    stopped(experiment(data), tmp_path / "out", 0)
    before = {path: path.stat().st_ino for path in (tmp_path / "out").rglob("journal.jsonl")}
    stopped(experiment(data), tmp_path / "out", 0)
    assert {path: path.stat().st_ino for path in (tmp_path / "out").rglob("journal.jsonl")} == before


def test_the_first_answers_of_a_single_run_are_never_cleared_away(data, tmp_path):
    Quick.limit = 0
    with pytest.raises(KeyboardInterrupt):
        ncalr.run(f"folder:{data}", "margin", budgets=[12, 20], folder=tmp_path / "run", learner=Quick())
    before = files(tmp_path / "run")
    with pytest.raises(BadInput, match="holds another experiment"):
        carry_out(experiment(data), tmp_path / "run", live=False)
    assert files(tmp_path / "run") == before


def test_a_process_that_is_in_it_is_left_alone(data, tmp_path):
    stopped(experiment(data), tmp_path / "out", 0)
    before = files(tmp_path / "out")
    with Journal(tmp_path / "out" / "runs" / "random-0").locked(), pytest.raises(NcalrError, match="in use by process"):
        carry_out(experiment(data, start=20), tmp_path / "out", live=False)
    assert files(tmp_path / "out") == before


def test_one_broken_image_and_the_command_again(tmp_path, monkeypatch):
    """What an audit met: the first training fails, the corrected command comes to the same folder."""
    from PIL import Image

    monkeypatch.undo()
    rng = np.random.default_rng(1)
    for at in range(40):
        place = tmp_path / "photos" / ("cat", "dog")[at % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(place / f"{at:02}.png")
    broken = tmp_path / "photos" / "cat" / "00.png"
    broken.write_bytes(broken.read_bytes()[:40])
    words = ["run", f"folder:{tmp_path / 'photos'}(size=8)", "--seeds", 1, "--start", 8, "--step", 4, "--device", "cpu"]
    words += ["--recipe", "digits(epochs=2, checkpoints=2)", "--out", tmp_path / "out", "--against", ""]
    failed = invoke(*words, "--strategy", "margin", "--end", 16)
    assert "00.png cannot be read as an image" in str(failed.exception)
    broken.unlink()
    done = invoke(*words, "--strategy", "random", "--end", 12)
    assert done.exit_code == 0, done.exception
    assert [run.strategy for run in read_runs(tmp_path / "out")] == ["random"]


# -- what is not the runner's stays ----------------------------------------------------------------------------------


def begun(out, **changes):
    """A folder of an experiment whose runs have their first labels and no training."""
    plan = Experiment(strategies=("random",), seeds=1, start=12, step=8, end=20, **changes)
    claim_all(out, {out: plan.as_dict()}, fingerprint(load("digits")))
    journal = Journal(out / "runs" / "random-0")
    journal.begin({"strategy": "random", "budgets": [12, 20], "seed": 0})
    journal.append({"ids": [1], "labels": [1]})
    return journal


def again(out, data="digits", **changes):
    plan = Experiment(strategies=("random",), seeds=1, start=12, step=8, end=20, **changes)
    claim_all(out, {out: plan.as_dict()}, fingerprint(load(data)))


def test_projects_and_other_experiments_below_are_left_alone(tmp_path):
    begun(tmp_path)
    begun(tmp_path / "other")
    for place in ("photos.ncalr", "runs/texts.ncalr", "runs/random-0 copy"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "journal.jsonl").write_text('{"label": 1}\n')
        (tmp_path / place / "labels.db").write_text("labels of people")
    before = files(tmp_path / "other")
    with pytest.raises(BadInput, match="holds another experiment"):
        again(tmp_path, network="mlp")
    assert files(tmp_path / "other") == before
    assert len(list(tmp_path.rglob("labels.db"))) == 3
    assert len(list(tmp_path.rglob("texts.ncalr/journal.jsonl"))) == 1


def test_what_was_begun_for_something_else_makes_room(tmp_path):
    journal = begun(tmp_path)
    (journal.folder / "models").symlink_to(tmp_path)
    again(tmp_path, network="mlp")
    assert not journal.lines()
    assert json.loads((tmp_path / "experiment.json").read_text())["network"] == "mlp"


def test_runs_behind_a_link_count(tmp_path):
    begun(tmp_path / "elsewhere")
    with (tmp_path / "elsewhere" / "runs" / "random-0" / "journal.jsonl").open("a") as file:
        file.write('{"accuracy":0.5}\n')
    begun(tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "runs")
    (tmp_path / "out" / "runs").symlink_to(tmp_path / "elsewhere" / "runs")
    with pytest.raises(BadInput, match="holds another experiment"):
        again(tmp_path / "out", network="mlp")


@pytest.mark.parametrize("changes", [{"network": "mlp"}, {}])
def test_nothing_changes_while_somebody_is_inside(tmp_path, changes):
    journal = begun(tmp_path)
    before = files(tmp_path)
    with journal.locked():
        if changes:
            with pytest.raises(Busy):
                again(tmp_path, **changes)
        else:
            again(tmp_path)
    assert {name: text for name, text in files(tmp_path).items() if "lock" not in str(name)} == {
        name: text for name, text in before.items() if "lock" not in str(name)
    }


def test_names_that_are_no_utf_8_and_classes_that_are_numbers(tmp_path):
    one = replace(load("digits"), classes=list(range(10)))
    assert fingerprint(one) == fingerprint(replace(one, classes=[str(number) for number in range(10)]))
    names = np.array(["caf\udce9", "b"])
    odd = replace(one, pool=ArrayPool(np.zeros((2, 8, 8), np.uint8), names), labels=np.zeros(2, int))
    assert fingerprint(odd)["pool"]["items"] == 2
