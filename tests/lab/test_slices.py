"""Slices of a study: several data sets and recipes in one queue, what is missing is left out, time is shared out."""

from __future__ import annotations

import importlib.util
import itertools
import json
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ncalr.evaluate.tasks import TASKS
from ncalr.lab.evaluations import read_evaluations
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run, read_runs
from ncalr.learn.learner import Record

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def slices():
    return benchmark("slices")


def benchmark(name):
    spec = importlib.util.spec_from_file_location(f"{name}_of_a_study", BENCHMARKS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def experiment(dataset, recipe="digits(epochs=2, checkpoints=2)", **changes):
    small = {"start": 30, "step": 15, "end": 45, "seeds": 1, "network": "resnet8"}
    return Experiment(dataset, ("random",), recipe=recipe, **{**small, **changes})


def test_experiments_on_several_data_sets_are_one_queue(slices, tmp_path, capsys):
    experiments = {
        "whole": experiment("digits"),
        "longer": experiment("digits", "digits(epochs=4, checkpoints=2)"),
        "missing": experiment("cifar10"),
        "tail": experiment("digits(tail=0.3)"),
        "shorter": experiment("digits", "digits(epochs=10, checkpoints=2, stop=true)"),
        "deeper": experiment("digits", network="resnet8(stem=strided)"),
    }
    slices.train(experiments, tmp_path, tmp_path / "out", 5.0, 2)
    said = capsys.readouterr().out
    assert "left out: " in said
    assert "the slice is over" not in said
    assert not (tmp_path / "out" / "missing").exists()
    done = [name for name in experiments if name != "missing"]
    for name in done:
        (run,) = read_runs(tmp_path / "out" / name)
        assert [labels for labels, _ in run.accuracies] == [30, 45]
        assert run.lines[-1]["stop"]
    noted = [json.loads(line) for line in (tmp_path / "out" / "slices.jsonl").read_text().splitlines()]
    assert {one["experiment"]: (one["trainings"], one["images"]) for one in noted} == {
        "whole": (2, 2 * 75),
        "longer": (2, 4 * 75),
        "tail": (2, 2 * 75),
        "shorter": (2, 8 * 75),
        "deeper": (2, 2 * 75),
    }
    assert [one["experiment"] for one in noted] == ["whole", "longer", "tail", "shorter", "deeper"]
    by_name = {one["experiment"]: one["seconds"] for one in noted}
    assert by_name["longer"] == pytest.approx(2 * by_name["whole"], abs=0.11), "seconds by images"


def test_a_slice_that_is_cut_keeps_what_it_has_spent(slices, tmp_path, monkeypatch):
    """After every training it notes what was done so far, in the place of what it had noted before."""
    group, out = {"whole": experiment("digits"), "longer": experiment("digits(tail=0.3)")}, tmp_path / "out"
    out.mkdir()
    before = json.dumps({"experiment": "whole", "trainings": 7, "seconds": 1.0, "together": 6, "gpu": "H200"}) + "\n"
    (out / "slices.jsonl").write_text(before)
    heard = []

    def dies(run):
        heard.append(len(run.accuracies))
        if len(heard) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(slices, "say", dies)
    with pytest.raises(KeyboardInterrupt):
        slices.train(group, tmp_path, out, 5.0, 1)
    assert heard == [0, 0, 1, 2, 1]
    text = (out / "slices.jsonl").read_text()
    assert text.startswith(before)
    cut = [json.loads(line) for line in text.splitlines()[1:]]
    assert [(line["experiment"], line["trainings"], line["images"]) for line in cut] == [
        ("whole", 2, 150),
        ("longer", 1, 60),
    ]
    assert cut[0]["seconds"] == pytest.approx(2.5 * cut[1]["seconds"], abs=0.2)
    monkeypatch.setattr(slices, "say", lambda run: None)
    slices.train(group, tmp_path, out, 5.0, 1)
    assert (out / "slices.jsonl").read_text().startswith(text)
    (rest,) = [json.loads(line) for line in (out / "slices.jsonl").read_text().splitlines()[3:]]
    assert (rest["experiment"], rest["trainings"], rest["images"]) == ("longer", 1, 90), "45 labels"
    assert cut[0]["slice"] == cut[1]["slice"] != rest["slice"]


def test_a_slice_without_time_trains_nothing_and_says_so(slices, tmp_path, capsys):
    slices.train({"whole": experiment("digits")}, tmp_path, tmp_path / "out", 0.0, 2)
    assert "the slice is over" in capsys.readouterr().out
    assert not (tmp_path / "out" / "slices.jsonl").exists()


def test_an_experiment_whose_data_are_others_now_is_left_out(slices, tmp_path, capsys):
    """Ids are rows of arrays: with rows in another order a run would go on with the labels of other images."""
    folder, rng = tmp_path / "cifar10", np.random.default_rng(0)
    folder.mkdir()
    for part in ("train", "test"):
        np.save(folder / f"{part}_images.npy", rng.integers(0, 256, (60, 8, 8, 3), np.uint8))
        np.save(folder / f"{part}_labels.npy", np.arange(60) % 10)
    both = {"same": experiment("digits"), "other": experiment("cifar10")}
    slices.train(both, tmp_path, tmp_path / "out", 0.0, 2)
    assert "left out" not in capsys.readouterr().out
    np.save(folder / "train_labels.npy", np.arange(60) // 6)
    slices.train(both, tmp_path, tmp_path / "out", 0.0, 2)
    said = capsys.readouterr().out
    assert "left out: " in said
    assert "other labels in the pool" in said
    assert "the slice is over" in said, "and the other one goes on"


def test_a_long_training_is_not_begun_where_a_short_one_still_fits(slices):
    clock = slices.Clock(1.0)
    clock.paces.append(0.01)  # seconds an image

    class Job:
        ids, recipe = range(30), "digits(epochs=40)"

    assert not clock.too_late(Job()), "30 x 40 images: 13 s"
    Job.recipe = "digits(epochs=400)"
    assert clock.too_late(Job()), "132 s of 60"
    Job.recipe = "digits(epochs=200)"
    assert clock.too_late(Job()), "66 s of 60"
    Job.recipe = "digits(epochs=200, stop=true)"
    assert not clock.too_late(Job()), "130 epochs of them: 43 s"


def test_models_that_are_lost_are_trained_again_until_the_slice_ends(slices, tmp_path, monkeypatch):
    """Where nothing else is trained, what they take themselves says whether another one fits."""
    monkeypatch.setattr(slices, "keep_again", lambda *_: None)

    class Learner:
        def fit(self, job):
            return SimpleNamespace(record=Record(began=3, seconds=30.0))

    run = SimpleNamespace(strategy="ncal", seed=0, journal=SimpleNamespace(threads=nullcontext))
    job = SimpleNamespace(ids=range(30), recipe="digits(epochs=4, checkpoints=2)")
    bill = slices.Bill(tmp_path, {}, 6)
    lost = [slices.Lost("one", run, number, job) for number in range(3)]
    assert not [*slices.LostLast(Learner(), lost, slices.Clock(0.5), bill).fit_each(itertools.repeat(None))]
    assert bill.trainings["one again"] == 1, "another one would take 33 s of the 30"


def test_the_epochs_of_a_training_that_stopped_by_itself_are_in_its_line(slices):
    assert slices.epochs_of("strong(epochs=100)", {"began": 60}) == 100
    assert slices.epochs_of("strong(epochs=100, stop=true)", {"began": 73}) == 82


def test_models_are_evaluated_while_others_are_trained(slices, tmp_path, monkeypatch, capsys):
    """Tasks of every round at once, those of the last one where a run has ended; without its data one is left out."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    study = benchmark("study")
    asked = study.Evaluated(("separation",), ("calibration",))
    monkeypatch.setattr(study, "EVALUATED", {"elsewhere": asked, "here": asked, "later": asked})
    out = tmp_path / "out"
    slices.train({"here": replace(experiment("digits"), keep=asked.keep, seeds=2)}, tmp_path, out, 5.0, 2)
    first, other = read_runs(out / "here")
    (out / "elsewhere").mkdir()
    (out / "elsewhere" / "experiment.json").write_text(json.dumps(experiment("cifar10").as_dict()))
    shutil.copytree(first.journal.folder, out / "elsewhere" / "runs" / "random-0")
    journal = other.journal.folder / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:2]))
    shutil.copytree(out / "here", out / "later")
    for run in read_runs(out / "later"):  # no run of it has ended
        path = run.journal.folder / "journal.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    of = study.evaluators(tmp_path, out, "cpu")
    (failed, other_failed) = study.evaluate_all(out, of, "skip", [])
    assert failed.startswith("left out: calibration of elsewhere: ")
    assert other_failed.startswith("left out: separation of elsewhere: ")
    said = capsys.readouterr().out
    assert [line.partition(" in ")[0] for line in said.splitlines() if " models in " in line] == [
        "calibration of here: 3 models",
        "calibration of later: 2 models",
        "separation of here: 1 models",
    ], "what is quick first"
    done = {run.seed: [(line["task"], line["round"]) for line in read_evaluations(run)] for run in (first, other)}
    assert done == {0: [("calibration", 1), ("calibration", 2), ("separation", 2)], 1: [("calibration", 1)]}
    assert study.evaluate_all(out, of, "skip", ["here"]) == []
    assert capsys.readouterr().out == ""
    assert study.lost(out, of, {"later": ()}) == {"later": []}, "of which no run has ended"
    shutil.rmtree(other.journal.folder / "models")
    shutil.rmtree(first.journal.folder / "models")
    (other.journal.folder / "evaluations.jsonl").unlink()
    assert study.evaluate_all(out, of, "skip", ["here"]) == []
    (failed,) = study.evaluate_all(out, of, "error", ["here"])
    assert "1 of 1 models were not kept" in failed
    broken = type("Broken", (), {"run": lambda *_, **__: 1 / 0})()
    assert [failed.splitlines()[-1] for failed in study.evaluate_all(out, lambda _: broken, "skip", ["here"])] == [
        "ZeroDivisionError: division by zero"
    ] * 2, "the second task is tried all the same"


def test_what_fails_for_one_model_fails_for_no_other(slices, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    study = benchmark("study")
    asked = study.Evaluated(("separation",), ("calibration",))
    monkeypatch.setattr(study, "EVALUATED", {"here": asked})
    out = tmp_path / "out"
    slices.train({"here": replace(experiment("digits"), keep=asked.keep, seeds=3)}, tmp_path, out, 5.0, 2)
    runs, right = read_runs(out / "here"), TASKS["calibration"]

    def spoiled(subject, wishes):
        return 1 / 0 if subject.run.seed == 0 else right(subject, wishes)

    monkeypatch.setitem(TASKS, "calibration", spoiled)
    (runs[1].journal.folder / "models" / "round-02" / "model.json").write_text("{")
    failed = study.evaluate_all(out, study.evaluators(tmp_path, out), "skip", [])
    assert [": ".join(one.splitlines()[0].split(": ")[:2]) for one in failed] == [
        "left out: calibration of here",
        "left out: calibration of here",
        "left out: separation of here",
    ], "told once for two rounds"
    done = [[(line["task"], line["round"]) for line in read_evaluations(run)] for run in runs]
    assert done == [
        [("separation", 2)],
        [("calibration", 1)],
        [("calibration", 1), ("calibration", 2), ("separation", 2)],
    ]


def test_lost_models_come_in_the_order_in_which_tables_wait_for_them(monkeypatch):
    """ncal and the paper's rivals before others, budgets and seeds whole, what lacks the least first."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    study = benchmark("study")
    lines = [{"labelled": 0}, {"labelled": 5}, {"labelled": 9}]
    models = [("margin", 0, 1), ("ncal", 0, 2), ("random", 0, 2), ("ncal", 1, 2), ("badge", 1, 2), ("cdal", 0, 1)]
    places = [(Run(strategy, seed, None, lines), number) for strategy, seed, number in models]
    ordered = [(run.strategy, run.seed, number) for run, number in study.by_worth(places)]
    assert ordered == [
        ("cdal", 0, 1),
        ("ncal", 1, 2),
        ("ncal", 0, 2),
        ("random", 0, 2),
        ("margin", 0, 1),
        ("badge", 1, 2),
    ]


def test_models_that_went_unevaluated_are_trained_again_beside_the_others(slices, tmp_path, monkeypatch, capsys):
    """Those of last rounds before others, all behind what is new; what is found says that they are not the first."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    study = benchmark("study")
    asked = study.Evaluated(("separation",), ("calibration",))
    monkeypatch.setattr(study, "EVALUATED", {"here": asked, "nowhere": asked})
    out, one = tmp_path / "out", replace(experiment("digits"), keep=asked.keep, seeds=2)
    slices.train({"here": one, "other": experiment("digits")}, tmp_path, out, 5.0, 2)
    study.evaluate_all(out, study.evaluators(tmp_path, out), "error", [], ["all"])
    first, second = read_runs(out / "here")
    models = [run.journal.folder / "models" / f"round-0{number}" for run in (first, second) for number in (2, 1)]
    record = json.loads((models[0] / "model.json").read_text())["record"]
    for run in (first, second):
        shutil.rmtree(run.journal.folder / "models")
    study.evaluate_all(out, study.evaluators(tmp_path, out), "retrain", [], ["ended"])
    assert study.lost(out, study.evaluators(tmp_path, out), dict.fromkeys(("here", "nowhere", "other"), ())) == {
        "here": []
    }
    journal, found = first.journal.folder / "journal.jsonl", first.journal.folder / "evaluations.jsonl"
    found.write_text(found.read_text().splitlines(keepends=True)[1])  # all but the calibration of the second round
    journal.write_text(journal.read_text().replace(f'"accuracy": {first.accuracies[-1][1]}', '"accuracy": 0.25'))
    more = {"here": one, "more": replace(experiment("digits"), strategies=("margin", "random"), seeds=1)}
    assert study.lost(out, study.evaluators(tmp_path, out), {"here": ("ncal",)}) == {"here": []}
    again = study.lost(out, study.evaluators(tmp_path, out), dict.fromkeys(more, ()))
    assert [(run.seed, number) for run, number in again["here"]] == [(0, 2), (0, 1)]
    before = len((out / "slices.jsonl").read_text().splitlines())
    capsys.readouterr()
    slices.train({"here": one}, tmp_path, out, 0.0, 2, None, again)
    assert not models[0].exists(), "there is no time"
    capsys.readouterr()
    slices.train(more, tmp_path, out, 5.0, 2, None, again)
    assert [path.exists() for path in models] == [True, True, False, False]
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-1] == "again" for line in said[-3:]] == [False, True, True], "behind what is new"
    assert study.lost(out, study.evaluators(tmp_path, out), {"here": ()}) == {"here": []}, (
        "it is there, if not evaluated"
    )
    assert [len(run.accuracies) for run in read_runs(out / "more")] == [2, 2]
    assert [len(run.accuracies) for run in read_runs(out / "here")] == [2, 2]
    noted = [json.loads(line) for line in (out / "slices.jsonl").read_text().splitlines()[before:]]
    assert {line["experiment"]: (line["trainings"], line["images"]) for line in noted} == {
        "here again": (2, 2 * (45 + 30)),
        "more": (4, 2 * (30 + 45 + 45)),
    }
    now = json.loads((models[0] / "model.json").read_text())["record"]
    assert now["history"] == record["history"], "the same training"
    assert now["notes"] == [*record["notes"], "trained again"]
    assert study.evaluate_all(out, study.evaluators(tmp_path, out), "skip", []) == []
    *_, other, line = read_evaluations(first)
    assert (other["task"], other["round"], other["notes"]) == ("calibration", 1, [])
    assert (line["task"], line["round"]) == ("separation", 2)
    assert other["journal"] == other["accuracy"] == first.accuracies[0][1], "the same training"
    assert (line["accuracy"], line["journal"], line["notes"]) == (first.accuracies[-1][1], 0.25, [])
    assert study.lost(out, study.evaluators(tmp_path, out), dict.fromkeys(more, ())) == {"here": []}


STAND_IN = """
import glob, os, sys, time
here, words = os.path.dirname(__file__), [word for word in sys.argv[1:] if not word.replace(".", "").isdigit()]
kinds = {"--beside": "beside", "--again": "training", "cpu": "cpu", "ended": "behind"}
kind = next((kind for word, kind in kinds.items() if word in words), "rest")
dying = glob.glob(f"{here}/fails/dying.*")
if kind == "beside" and dying:
    os.rename(dying[0], dying[0].replace("dying", "dead"))
    sys.exit(9)
if kind == "training" and glob.glob(f"{here}/fails/d*.*"):
    while not glob.glob(f"{here}/fails/alive") and len(glob.glob(f"{here}/fails/dead.*")) < 3:
        time.sleep(0.01)
if kind == "beside":
    open(f"{here}/fails/alive", "w").close()
    sys.stdin.read()
    words += [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "NUMBA")]
with open(f"{here}/done", "a") as file:
    file.write(" ".join(words) + "\\n")
fails = glob.glob(f"{here}/fails/{kind}.*")
if fails:
    os.unlink(fails[0])
    sys.exit(7)
"""


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """The study with a stand-in for its own processes, which write down what they were asked for."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    study, script, done = benchmark("study"), tmp_path / "stand_in.py", tmp_path / "done"
    script.write_text(STAND_IN)
    monkeypatch.setattr(study, "__file__", str(script))
    monkeypatch.setattr(study.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(study, "LOOKS", 0.1)
    last, every = study.Evaluated(("tail",)), study.Evaluated(("probe",), ("ood",))
    known = {"mini_imagenet-tail": last, "mini_imagenet": every, "mini_imagenet-known": every}
    monkeypatch.setattr(study, "EVALUATED", known)

    def run(fails="", only=("mini_imagenet-tail:random", "mini_imagenet"), minutes="5", data=("--data", "D")):
        shutil.rmtree(tmp_path / "fails", ignore_errors=True)
        (tmp_path / "fails").mkdir()
        for number, kind in enumerate(fails.split()):
            (tmp_path / "fails" / f"{kind}.{number}").touch()
        done.write_text("")
        words = [word for name in only for word in ("--only", name)]
        words = ["study.py", "run", *data, "--out", "O", "--minutes", minutes, "--evaluate", *words]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            study.main()
        lines = [line.replace("--data D --out O ", "") for line in done.read_text().splitlines()]
        return end.value.code, lines

    return run


TRAINING = "run --again --together --minutes --only mini_imagenet-tail:random --only mini_imagenet"
BESIDE = "evaluate --beside --rounds all --only mini_imagenet"
BEHIND = "evaluate --rounds ended --only mini_imagenet-tail --only mini_imagenet"
REST = "evaluate --only mini_imagenet-tail --only mini_imagenet"
REST_CPU = "evaluate --arithmetic cpu --only mini_imagenet-tail --only mini_imagenet"


def test_a_slice_trains_and_evaluates_in_processes_of_their_own(processes):
    """Every round beside the training, on some of the cores, until its end; last rounds behind it."""
    code, (first, *others) = processes()
    assert (code, first) == (0, TRAINING)
    assert sorted(others) == [f"{BESIDE} 4 4", BEHIND]
    code, lines = processes(only=("mini_imagenet-tail",))
    assert (code, len(lines)) == (0, 2), "no round but the last is asked for: nothing is beside"
    assert [line.partition(" ")[0] for line in processes(only=())[1]].count("run") == 1
    code, lines = processes(data=())
    assert (code, [line for line in lines if "--data" in line]) == (0, []), "it is where NCALR_DATA says"


def test_a_training_that_dies_is_begun_again_and_what_was_trained_is_evaluated(processes):
    code, lines = processes("training")
    assert code == 0
    assert lines[:2] == [TRAINING] * 2
    assert BEHIND in lines
    code, lines = processes("training training training training")
    assert code == 7
    assert lines.count(TRAINING) == 3
    assert BEHIND in lines
    _, lines = processes("training training", minutes="0")
    assert lines.count(TRAINING) == 1, "there is no time for another"


def test_evaluations_that_die_beside_the_training_are_begun_again(processes):
    code, lines = processes("dying dying")
    assert (code, sorted(lines)) == (0, sorted([TRAINING, f"{BESIDE} 4 4", BEHIND]))
    code, lines = processes("dying dying dying")
    assert (code, lines) == (0, [TRAINING, BEHIND, REST]), "in the end, what it left"


def test_evaluations_that_failed_are_tried_again_elsewhere(processes):
    """In another process, which a broken card or a full memory of this one does not touch; then without the card."""
    for fails, more in (("behind", [REST]), ("beside", [REST]), ("behind rest", [REST, REST_CPU])):
        code, lines = processes(fails)
        assert (code, lines[3:]) == (0, more)
    code, lines = processes("behind beside rest cpu")
    assert (code, lines[3:]) == (7, [REST, REST_CPU])


def test_beside_a_training_evaluations_go_on_until_its_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    study = benchmark("study")
    passes = []
    monkeypatch.setattr(study, "evaluate_all", lambda *_: passes.append(1) or ["left out: this"])
    monkeypatch.setattr(study.select, "select", lambda *_: ([1] if len(passes) > 2 else [], [], []))
    assert study.evaluate_beside(tmp_path, None, "skip", []) == ["left out: this"]
    assert len(passes) == 4, "once more behind the end"
    assert capsys.readouterr().out == "left out: this\n", "told once"


def test_what_a_slice_took_is_added_to_what_is_kept(slices, tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out"
    one, two, three = (slices.spent(name, 2, 5.0, {"together": 6}) for name in ("one", "two", "three"))
    early, late = ({**one, "slice": "a", "trainings": many} for many in (1, 2))
    other = {**late, "slice": "b"}

    def merged(*lines):
        (out / "slices.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        slices.keep(out, kept)
        return [json.loads(line) for line in (kept / "slices.jsonl").read_text().splitlines()]

    out.mkdir()
    assert merged(one, early, two) == [one, early, two]
    assert merged(one, late, three) == [one, late, two, three], "the slice has grown"
    assert merged(late, other) == [one, late, two, three, other], "another slice"


def test_of_a_journal_that_was_copied_while_it_grew_whole_lines_are_kept(slices, tmp_path):
    run = tmp_path / "out" / "runs" / "random-0"
    run.mkdir(parents=True)
    (run / "journal.jsonl").write_text('{"round": 0, "ids": [4], "labels": [1], "scores": [1]}\n{"round": 1, "sco')
    slices.keep(tmp_path / "out", tmp_path / "kept")
    assert (
        tmp_path / "kept" / "runs" / "random-0" / "journal.jsonl"
    ).read_text() == '{"round":0,"ids":[4],"labels":[1]}\n'


def test_experiments_that_are_named_come_in_the_order_of_their_names(monkeypatch, capsys):
    """CIFAR-100 stands before them in the plan, and would leave them no place on the card."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    study, given = benchmark("study"), []
    some = []
    monkeypatch.setattr(study, "train", lambda wanted, *more: (given.append([*wanted]), some.append(more[-1])))
    names = ["cifar10-window-5", "cifar10-epochs-100", "cifar100"]
    monkeypatch.setattr(sys, "argv", ["study.py", "run", *(word for name in names for word in ("--only", name))])
    study.main()
    monkeypatch.setattr(sys, "argv", ["study.py", "run"])
    study.main()
    assert given == [names, [*study.plan()]]
    monkeypatch.setattr(sys, "argv", ["study.py", "run", "--only", "cifar100:random+ncal(fusion=rank)"])
    study.main()
    assert given[2:] == [["cifar100"]]
    assert some[2:] == [{"cifar100": ("random", "ncal(fusion=rank)")}]
    monkeypatch.setattr(sys, "argv", ["study.py", "run", "--only", "cifar100:random+sisom"])
    with pytest.raises(SystemExit):
        study.main()
    assert "cifar100 has no strategy sisom; its own are random+margin+" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["study.py", "run", "--only", "cifar10-window5"])
    with pytest.raises(SystemExit):
        study.main()
    assert "cifar10-window5" in capsys.readouterr().err


def test_of_an_experiment_some_strategies_alone(slices, tmp_path):
    one = replace(experiment("digits"), strategies=("random", "margin", "entropy"))
    group, out = {"one": one}, tmp_path / "out"
    for named, ended in ((("margin",), 1), (("random", "margin"), 2), ((), 3)):
        slices.train(group, tmp_path, out, 5.0, 2, strategies={"one": named})
        runs = read_runs(out / "one")
        assert sum(run.ended for run in runs) == ended
        assert all(run.ended for run in runs if run.strategy in named)


def test_where_all_that_is_named_has_ended_no_data_are_read(slices, tmp_path, monkeypatch):
    group, out = {"one": replace(experiment("digits"), strategies=("random", "margin"))}, tmp_path / "out"
    slices.train(group, tmp_path, out, 5.0, 2, strategies={"one": ("margin",)})
    monkeypatch.setattr(slices, "_found", lambda *_: pytest.fail("margin has ended"))
    slices.train(group, tmp_path, out, 5.0, 2, strategies={"one": ("margin",)})


def test_beside_a_training_the_arithmetic_is_the_processors(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    study, given = benchmark("study"), []
    monkeypatch.setattr(study, "evaluators", lambda *where: given.append(where))
    for name in ("evaluate_all", "evaluate_beside"):
        monkeypatch.setattr(study, name, lambda *_: [])
    for words in ((), ("--beside",)):
        monkeypatch.setattr(sys, "argv", ["study.py", "evaluate", "--out", str(tmp_path), *words])
        study.main()
    assert [where[-1] for where in given] == [None, "cpu"]
