"""From a finished run to evaluations in its report: digits, with two classes held out."""

from __future__ import annotations

import fcntl
import io
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data import load
from ncalr.errors import BadInput, UnknownName
from ncalr.evaluate import driver
from ncalr.evaluate.driver import evaluate
from ncalr.evaluate.strangers import examples, resized, strangers
from ncalr.evaluate.subjects import places, subjects_at
from ncalr.evaluate.tasks import TASKS, Evaluation, Wishes
from ncalr.lab.evaluations import EVALUATIONS, VERSION, evaluation_groups, read_evaluations
from ncalr.lab.experiment import Experiment
from ncalr.lab.report import write_report
from ncalr.lab.runner import read_experiment, read_runs
from ncalr.lab.session import carry_out
from ncalr.learn import TorchLearner

RECIPE = "digits(epochs=5, checkpoints=2)"
EXPERIMENT = Experiment("digits(known=8, share=0.5)", ("ncal", "random"), 2, 30, 20, 50, "resnet8", RECIPE, keep="all")


def subjects(experiment, runs, dataset, learner, **which):
    return subjects_at(places(runs, **which), experiment, dataset, learner)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("experiment")
    carry_out(EXPERIMENT, out, device="cpu", live=False)
    return out


@pytest.fixture(scope="module")
def unkept(folder, tmp_path_factory):
    """The same experiment, whose models were not kept."""
    out = tmp_path_factory.mktemp("unkept") / "experiment"
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("models", EVALUATIONS))
    return out


def learner():
    return TorchLearner("resnet8", RECIPE, device="cpu", progress=False)


def test_every_round_keeps_its_model_and_it_is_the_one_of_the_journal(folder):
    runs = read_runs(folder)
    dataset = load(EXPERIMENT.dataset)
    found = list(subjects(EXPERIMENT, runs, dataset, learner(), rounds="all"))
    assert [(s.run.strategy, s.run.seed, s.round) for s in found[:3]] == [
        ("ncal", 0, 1),
        ("ncal", 0, 2),
        ("random", 0, 1),
    ]
    for subject in found:
        accuracy = (subject.tested.logits.argmax(1) == dataset.test_labels).mean()
        assert accuracy == subject.accuracy
        assert len(subject.labelled.features) == len(subject.ids) == (30, 50)[subject.round - 1]
        weight, bias = subject.head
        assert subject.tested.features @ weight.T + bias == pytest.approx(subject.tested.logits, abs=1e-3)


def test_a_model_that_was_not_kept_is_trained_again_and_is_the_same(folder, unkept):
    dataset = load(EXPERIMENT.dataset)
    with pytest.raises(BadInput, match=r"4 of 4 models were not kept; run with --keep last"):
        list(subjects(EXPERIMENT, read_runs(unkept), dataset, learner()))
    again = next(subjects(EXPERIMENT, read_runs(unkept), dataset, learner(), missing="retrain"))
    kept = next(subjects(EXPERIMENT, read_runs(folder), dataset, learner()))
    assert (again.again, kept.again) == (again.first_accuracy, None)
    assert again.tested.features == pytest.approx(kept.tested.features, abs=1e-5)


def test_a_model_that_comes_out_otherwise_is_said_to(unkept):
    run = read_runs(unkept)[0]
    run.lines[-1]["accuracy"] = 0.123
    dataset = load(EXPERIMENT.dataset)
    subject = next(subjects(EXPERIMENT, [run], dataset, learner(), missing="retrain"))
    assert subject.accuracy == (subject.tested.logits.argmax(1) == dataset.test_labels).mean() != 0.123
    assert subject.first_accuracy == 0.123


def test_all_tasks_go_through_and_the_report_shows_them(folder):
    tasks = list(TASKS)
    wishes = Wishes(
        ood=("near:novel",),
        scores=("energy", "knn(k=5)"),
        probes=("digits",),
        network="resnet8(stem=imagenet)",
        inits=2,
        estimate=12,
    )
    lines = evaluate(folder, tasks, wishes=wishes, device="cpu")
    assert len(lines) == 4 * len(tasks)
    assert {line["task"] for line in lines} == set(TASKS)
    for line in lines:
        assert set(line["shown"]) <= set(line["values"])
        assert all(np.isfinite(value) for value in line["values"].values()), line
    assert all(0 <= line["values"]["low"] <= line["values"]["high"] <= 1 for line in lines if line["task"] == "audit")
    ood = next(line for line in lines if line["task"] == "ood")
    assert ood["values"]["energy, near, auroc"] == ood["values"]["energy, novel, auroc"]
    assert 0 < ood["values"]["energy, novel, auroc"] < 1  # five epochs: no more can be said
    found = next(line["values"] for line in lines if line["task"] == "discovery")
    assert min(found["old"], found["new"]) <= found["all"] <= max(found["old"], found["new"])
    assert 8 <= found["estimated classes"] <= 12
    for line in lines:
        for name, (low, high) in line["limits"].items():
            assert low is None or low <= line["values"][name], name
            assert high is None or line["values"][name] <= high, name
    page = write_report(folder).read_text()
    for title in ("Out-of-distribution detection", "Category discovery", "Calibration on the test set"):
        assert f"<h2>{title}</h2>" in page
    group = next(group for group in evaluation_groups(read_runs(folder)) if group.task == "ood")
    assert group.budgets == [50]
    assert set(group.final["ncal"]) == {0, 1}
    assert "coverage, % of the test items" in page
    assert "## Category discovery" in (folder / "report.md").read_text()


def test_what_was_found_is_not_computed_again(folder, monkeypatch):
    evaluate(folder, ["calibration"], device="cpu")
    before = [(run.journal.folder / EVALUATIONS).read_bytes() for run in read_runs(folder)]
    monkeypatch.setitem(TASKS, "calibration", lambda *_: pytest.fail("computed again"))
    evaluate(folder, ["calibration"], device="cpu")
    assert [(run.journal.folder / EVALUATIONS).read_bytes() for run in read_runs(folder)] == before


def test_data_and_learner_are_read_for_the_first_model_and_kept_for_later_passes(folder, tmp_path, monkeypatch):
    out = tmp_path / "experiment"
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(EVALUATIONS))
    first, *_ = read_runs(out)
    later = first.journal.folder / "models" / "round-02"
    later.rename(tmp_path / "later")
    read = []
    for name in ("load", "fingerprint"):
        usual = getattr(driver, name)
        spy = lambda *given, name=name, usual=usual: read.append(name) or usual(*given)  # noqa: E731
        monkeypatch.setattr(driver, name, spy)
    monkeypatch.setattr("ncalr.evaluate.tasks.strangers", lambda *given: read.append("strangers") or strangers(*given))
    evaluator = driver.Evaluator(out, Wishes(scores=("msp",)), device="cpu")
    assert evaluator.run(["ood"], rounds="all", missing="skip") == 7
    assert read == ["load", "fingerprint", "strangers"]
    learner = evaluator._read[2]
    later.parent.mkdir(exist_ok=True)
    (tmp_path / "later").rename(later)
    assert evaluator.run(["ood"], rounds="all", missing="skip") == 1
    assert read == ["load", "fingerprint", "strangers"]
    assert evaluator._read[2] is learner
    fresh = driver.Evaluator(out, Wishes(scores=("msp",)), device="cpu")
    assert fresh.run(["ood"], rounds="all", missing="skip") == 0
    assert read == ["load", "fingerprint", "strangers"], "nothing new: journals alone are read"


def test_two_evaluations_at_once_lose_no_line(tmp_path):
    """One that comes while another is in the middle of its line waits for it."""
    run = SimpleNamespace(journal=SimpleNamespace(folder=tmp_path), lines=[{"round": 0, "accuracy": 0.5}])
    line = {"version": VERSION, "at": 0, "task": "x", "round": 0, "accuracy": 0.5, "values": {}, "wishes": {}}
    lines = [json.dumps({**line, "shown": [], "notes": [], "at": at}) + "\n" for at in range(2)]
    with ThreadPoolExecutor() as pool, (tmp_path / EVALUATIONS).open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(lines[0][:9])
        other.flush()
        waits = pool.submit(driver._append, run, json.loads(lines[1]))
        wait([waits], timeout=0.2)  # long enough to do harm, where it did not wait
        other.write(lines[0][9:])
        other.flush()
        fcntl.flock(other, fcntl.LOCK_UN)
        waits.result()
    assert (tmp_path / EVALUATIONS).read_text() == "".join(lines)
    assert [line["at"] for line in read_evaluations(run)] == [0, 1]


def test_a_torn_line_is_computed_again(folder):
    evaluate(folder, ["collapse"], device="cpu")
    run = read_runs(folder)[0]
    path = run.journal.folder / EVALUATIONS
    whole = path.read_text()
    path.write_text(whole + '{"task": "col')
    assert len(read_evaluations(run)) == whole.count("\n")
    evaluate(folder, ["collapse"], rounds="all", device="cpu")
    assert all(line["task"] for line in read_evaluations(read_runs(folder)[0]))


def test_other_rounds_and_other_wishes_are_lines_of_their_own(unkept):
    lines = evaluate(unkept, ["separation"], rounds="all", missing="retrain", device="cpu")
    assert [line["labelled"] for line in lines] == [30, 50] * 4
    assert len(lines[0]["histogram"]["quantiles"]) == 21
    asked = {"missing": "retrain", "device": "cpu"}
    same = evaluate(unkept, ["separation"], wishes=Wishes(seed=1, ood=("novel",), inits=3), **asked)
    assert len(same) == 8, "it reads none of these"
    assert len(evaluate(unkept, ["ood"], wishes=Wishes(scores=("msp",)), **asked)) == 12
    assert len(evaluate(unkept, ["ood"], wishes=Wishes(scores=("energy",)), **asked)) == 16
    assert "<h3>scores: msp</h3>" in write_report(unkept).read_text()


def test_lines_of_before_are_not_computed_again(unkept, monkeypatch):
    """They hold every wish there was, and not those that came later."""
    evaluate(unkept, ["discovery"], wishes=Wishes(inits=1), missing="retrain", device="cpu")
    before = {"ood": [], "scores": [], "probes": [], "network": "", "inits": 1, "variant": "B", "seed": 0}
    for run in read_runs(unkept):
        lines = [
            {**line, "wishes": before if line["task"] == "discovery" else line["wishes"]}
            for line in read_evaluations(run)
        ]
        (run.journal.folder / EVALUATIONS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setitem(TASKS, "discovery", lambda *_: pytest.fail("computed again"))
    evaluate(unkept, ["discovery"], wishes=Wishes(inits=1), device="cpu")


def test_a_value_that_is_no_number_is_null_in_the_file_and_for_programs(folder, monkeypatch):
    found = Evaluation({"known": 0.5, "unknown": float("nan")}, ("unknown", "known"))
    monkeypatch.setitem(TASKS, "nothing", lambda *_: found)
    done = CliRunner().invoke(app, ["evaluate", str(folder), "--tasks", "nothing", "--device", "cpu"])
    assert "nothing known 0.5" in done.output
    assert "nan" not in done.output
    done = CliRunner().invoke(app, ["evaluate", str(folder), "--tasks", "nothing", "--device", "cpu", "--json"])

    def refuse(constant):
        raise AssertionError(constant)

    lines = [line for line in json.loads(done.output, parse_constant=refuse) if line["task"] == "nothing"]
    assert lines[0]["values"] == {"known": 0.5, "unknown": None}
    for run in read_runs(folder):
        for text in (run.journal.folder / EVALUATIONS).read_text().splitlines():
            json.loads(text, parse_constant=refuse)
        kept = [line for line in read_evaluations(run) if line["task"] != "nothing"]
        (run.journal.folder / EVALUATIONS).write_text("".join(json.dumps(line) + "\n" for line in kept))


def test_the_tail_counts_what_was_picked_after_the_initial_pool(folder, monkeypatch):
    import ncalr.evaluate.tail as tail

    runs, dataset = read_runs(folder), load(EXPERIMENT.dataset)
    given = []
    monkeypatch.setattr(tail, "tail_picks", lambda labels, _: given.append(labels.tolist()) or {})
    first, last = [s for s in subjects(EXPERIMENT, runs, dataset, learner(), rounds="all") if s.run is runs[0]]
    truth = dict(zip(dataset.pool.ids.tolist(), dataset.labels.tolist(), strict=True))
    TASKS["tail"](first, Wishes())
    TASKS["tail"](last, Wishes())
    assert given == [[], [truth[item] for item in runs[0].lines[1]["ids"]]]
    assert len(given[1]) == 20


def test_probes_and_discovery_are_computed_where_the_learner_is(folder, monkeypatch):
    import ncalr.evaluate.discovery as discovery
    import ncalr.evaluate.probe as probe

    class Stop(Exception):
        pass

    def spy(*_, **options):
        raise Stop(options["device"])

    for module, name in ((probe, "probe"), (discovery, "discover")):
        monkeypatch.setattr(module, name, spy)
    subject = next(subjects(EXPERIMENT, read_runs(folder), load(EXPERIMENT.dataset), learner()))
    elsewhere = replace(subject, learner=SimpleNamespace(device="cuda:1"))
    for task in ("probe", "discovery"):
        with pytest.raises(Stop, match="cuda:1"):
            TASKS[task](elsewhere, Wishes(probes=("digits",)))
    assert replace(subject, learner=object()).device is None


def test_a_card_is_asked_for_nothing_but_features_where_the_arithmetic_is_elsewhere(folder):
    """There is no such card: whoever computed anything there would fail."""
    away = SimpleNamespace(device="cuda:7", load=learner().load)
    tasks = [task for task in TASKS if task not in ("transfer", "audit")]  # these train networks
    wishes = Wishes(ood=("near:novel",), scores=("msp", "knn(k=3)"), probes=("digits",), inits=1, estimate=9, seed=3)
    with pytest.raises(BadInput, match="device 'cuda:7' cannot be used here"):
        evaluate(folder, tasks, wishes=wishes, learner=away)
    lines = evaluate(folder, tasks, wishes=wishes, learner=away, arithmetic="cpu")
    done = [(line["task"], line["wishes"]) for line in lines if line["round"] == 2]
    assert all(done.count((task, wishes.of(task))) == 4 for task in tasks)
    seen = next(subjects(EXPERIMENT, read_runs(folder), load(EXPERIMENT.dataset), away))
    assert {type(array) for array in (*seen.labelled, *seen.tested)} == {np.ndarray}


def test_the_number_of_classes_is_estimated_where_the_learner_is_and_the_older_assignment_is_there(folder, monkeypatch):
    import ncalr.evaluate.discovery as discovery

    seen = []
    monkeypatch.setattr(
        discovery, "estimate_classes", lambda *_, **how: seen.append(how) or discovery.Estimate(9, ((9, 1.0),))
    )
    subject = next(subjects(EXPERIMENT, read_runs(folder), load(EXPERIMENT.dataset), learner()))
    older = TASKS["discovery"](subject, Wishes(inits=2, assignment="v1", estimate=11))
    usual = TASKS["discovery"](subject, Wishes(inits=2))
    assert seen == [{"most": 11, "seed": 0, "device": subject.learner.device}]
    assert older.values["estimated classes"] == 9
    assert "estimated classes" not in usual.values
    assert older.values["old"] >= usual.values["old"], "an assignment of its own is optimistic"
    with pytest.raises(UnknownName, match="v3"):
        TASKS["discovery"](subject, Wishes(assignment="v3"))


def test_models_that_were_not_kept_can_be_left_out(folder, tmp_path):
    out = tmp_path / "experiment"
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(EVALUATIONS))
    for run in read_runs(out)[1:]:
        shutil.rmtree(run.journal.folder / "models" / "round-02")
    lines = evaluate(out, ["collapse"], missing="skip", device="cpu")
    assert [line["labelled"] for line in lines] == [50]
    both = evaluate(out, ["collapse"], rounds="all", missing="skip", device="cpu")
    assert sorted(line["labelled"] for line in both) == [30] * 4 + [50]
    with pytest.raises(UnknownName, match="missing models"):
        evaluate(out, ["collapse"], missing="ignore", device="cpu")


def test_runs_that_go_on_can_be_left_out(folder, tmp_path):
    out = tmp_path / "experiment"
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(EVALUATIONS))
    first, *others = read_runs(out)
    for run in others:
        path = run.journal.folder / "journal.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    lines = evaluate(out, ["collapse"], rounds="ended", device="cpu")
    assert [(line["round"], line["labelled"]) for line in lines] == [(2, 50)]
    assert len(read_evaluations(first)) == 1
    assert [line["round"] for line in evaluate(out, ["collapse"], rounds="last", device="cpu")] == [2, 1, 1, 1]
    path = first.journal.folder / "journal.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(BadInput, match="no run has ended yet"):
        evaluate(out, ["collapse"], rounds="ended", device="cpu")


def test_only_what_is_left_is_trained_again(unkept, monkeypatch):
    evaluate(unkept, ["calibration"], missing="retrain", device="cpu")
    trained = []
    fit_all = TorchLearner.fit_all
    monkeypatch.setattr(TorchLearner, "fit_all", lambda self, jobs: trained.extend(jobs) or fit_all(self, jobs))
    evaluate(unkept, ["calibration"], rounds="all", missing="retrain", device="cpu")
    assert [job.round for job in trained] == [1] * 4


def test_a_dataset_is_read_for_the_first_model_alone(folder, monkeypatch):
    from ncalr.evaluate import tasks

    read = []
    monkeypatch.setattr(tasks, "strangers", lambda *of: read.append(of[0]) or strangers(*of))
    evaluate(folder, ["ood"], wishes=Wishes(ood=("novel",), scores=("energy",), seed=3), device="cpu")
    assert read == ["novel"]


def test_from_the_command_line(folder):
    done = CliRunner().invoke(
        app, ["evaluate", str(folder), "--tasks", "ood", "--ood", "novel", "--scores", "msp", "--device", "cpu"]
    )
    assert done.exit_code == 0, done.output
    assert re.search(r"ncal, seed 0, 50 labels: ood msp, other, auroc 0\.\d+", done.output)
    assert "report:" in done.output
    done = CliRunner().invoke(app, ["evaluate", str(folder), "--tasks", "ood", "--scores", "msp", "--json"])
    assert {line["task"] for line in json.loads(done.output)} >= {"ood"}
    options = {"variant": "A", "inits": 1, "assignment": "v1", "estimate": 9}
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    asked = ["evaluate", str(folder), "--tasks", "discovery", *flags, "--device", "cpu", "--json"]
    last = json.loads(CliRunner().invoke(app, asked).output)[-1]
    assert last["wishes"] == {**options, "seed": 0}
    assert "estimated classes" in last["shown"]


def test_clear_errors(folder, tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'separation'"):
        evaluate(folder, ["seperation"])
    with pytest.raises(BadInput, match="no tasks given"):
        evaluate(folder, [])
    with pytest.raises(BadInput, match="no experiment in"):
        evaluate(tmp_path, ["ood"])
    with pytest.raises(UnknownName, match="no rounds 'first'"):
        evaluate(folder, ["ood"], rounds="first", device="cpu", wishes=Wishes(seed=5))
    with pytest.raises(BadInput, match="a probe needs datasets"):
        evaluate(folder, ["probe"], device="cpu")
    with pytest.raises(BadInput, match="needs another network"):
        evaluate(folder, ["transfer"], device="cpu")
    with pytest.raises(BadInput, match="variant must be A"):
        evaluate(folder, ["discovery"], wishes=Wishes(variant="C"), device="cpu")


def test_a_dataset_that_holds_nothing_out_has_no_strangers():
    with pytest.raises(BadInput, match=r"holds no classes out.*digits\(known=8\)"):
        strangers("novel", load("digits"))


def test_strangers_from_arrays_and_folders(tmp_path):
    digits = load("digits")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (5, 16, 16), dtype=np.uint8)
    np.save(tmp_path / "grey.npy", images)
    with pytest.raises(
        BadInput, match=r"items of shape \(16, 16, 1\), the model takes \(8, 8, 1\).*grey.npy\(size=8\)"
    ):
        strangers(str(tmp_path / "grey.npy"), digits)
    np.save(tmp_path / "coloured.npy", rng.integers(0, 255, (5, 8, 8, 3), dtype=np.uint8))
    with pytest.raises(BadInput, match=r"of shape \(8, 8, 3\), the model takes \(8, 8, 1\); take another set"):
        strangers(str(tmp_path / "coloured.npy"), digits)
    found = strangers(f"{tmp_path / 'grey.npy'}(size=8)", digits)
    assert found.pool.read(slice(None)).shape == (5, 8, 8, 1)
    (tmp_path / "odd").mkdir()
    np.save(tmp_path / "odd" / "test_images.npy", images[:, :8, :8, None])
    np.save(tmp_path / "odd" / "test_labels.npy", np.arange(5))
    (tmp_path / "odd" / "classes.json").write_text('["a", "b", "c", "d", "e"]')
    found = strangers("odd", digits, tmp_path)
    assert [kind.name for kind in found.kinds] == ["a", "b", "c", "d", "e"]
    assert strangers(f"folder:{tmp_path / 'odd'}", digits).kinds == found.kinds
    np.save(tmp_path / "odd" / "test_labels.npy", np.arange(4))
    with pytest.raises(BadInput, match="5 test images and 4 labels; save one label an image"):
        strangers("odd", digits, tmp_path)
    np.save(tmp_path / "odd" / "test_images.npy", images[:0, :8, :8, None])
    with pytest.raises(BadInput, match="empty"):
        strangers("odd", digits, tmp_path)
    (tmp_path / "bad.npy").write_bytes(b"no array")
    with pytest.raises(BadInput, match=r"bad\.npy"):
        strangers(str(tmp_path / "bad.npy"), digits)
    assert len(strangers("digits", digits).pool) == len(digits.test)


def test_examples_by_name_below_the_root_as_arrays_or_class_folders(tmp_path):
    from PIL import Image

    digits, colours = load("digits"), np.random.default_rng(0).integers(0, 255, (6, 16, 16, 1), dtype=np.uint8)
    (tmp_path / "flowers").mkdir()
    for split in ("train", "test"):
        np.save(tmp_path / "flowers" / f"{split}_images.npy", colours)
        np.save(tmp_path / "flowers" / f"{split}_labels.npy", np.arange(6) % 2)
    with pytest.raises(BadInput, match=r"shape \(16, 16, 1\).*write flowers\(size=8\)"):
        examples("flowers", digits, tmp_path)
    found = examples("flowers(size=8)", digits, tmp_path)
    assert found.pool.shape == found.test.shape == (8, 8, 1)
    assert np.array_equal(found.test.read(slice(None)), resized(colours, 8))
    for at, image in enumerate(colours):
        place = tmp_path / "birds" / f"class{at % 2}" / f"{at}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[:, :, 0]).save(place)
    birds = examples("birds(size=8, channels=1, test_share=0.5)", digits, tmp_path)
    assert birds.classes == ["class0", "class1"]
    assert birds.pool.shape == (8, 8, 1)
    assert examples("digits(size=8)", digits).pool.shape == (8, 8, 1)
    np.save(tmp_path / "birds" / "all_images.npy", colours[:, :8, :8])
    assert len(strangers("birds", digits, tmp_path).pool) == 6


@pytest.mark.parametrize("size", ["big", "2.5", "0", "-3", "[8]"])
def test_a_size_that_is_none(size, tmp_path):
    from PIL import Image

    digits = load("digits")
    np.save(tmp_path / "grey.npy", np.zeros((4, 16, 16), np.uint8))
    (tmp_path / "birds" / "class0").mkdir(parents=True)
    Image.new("L", (16, 16)).save(tmp_path / "birds" / "class0" / "a.png")
    for name in ("grey.npy", "birds", "folder:birds"):
        before, _, path = name.rpartition(":")
        with pytest.raises(BadInput, match="size must be pixels"):
            strangers(f"{before}{':' if before else ''}{tmp_path / path}(size={size})", digits)
    with pytest.raises(BadInput, match="size must be pixels"):
        examples(f"digits(size={size})", digits)
    with pytest.raises(BadInput, match="size must be pixels"):
        load(f"folder:{tmp_path / 'birds'}(size={size}, test_share=0.5)")


def test_a_size_leaves_the_other_options_of_a_set_that_has_none():
    digits = load("digits")
    assert len(examples("digits(size=8, known=4)", digits).classes) == 4
    assert examples("digits(size=[8, 8])", digits).pool.shape == (8, 8, 1)


def test_classes_that_are_trained_on_are_removed(folder, tmp_path):
    np.save(tmp_path / "test_images.npy", np.zeros((4, 8, 8, 1), np.uint8))
    np.save(tmp_path / "test_labels.npy", np.array([0, 0, 1, 1]))
    (tmp_path / "classes.json").write_text('["3", "tree"]')
    subject = next(subjects(EXPERIMENT, read_runs(folder), load(EXPERIMENT.dataset), learner()))
    found = TASKS["ood"](subject, Wishes(ood=(f"far:{tmp_path}",), scores=("msp",)))
    assert any("removed 2 of 4 items" in note for note in found.notes)
    (tmp_path / "classes.json").write_text('["3", "4"]')
    subject.shelf.clear()
    with pytest.raises(BadInput, match=r"every class of .* is trained on"):
        TASKS["ood"](subject, Wishes(ood=(f"far:{tmp_path}",), scores=("msp",)))


def test_a_trained_class_is_known_by_its_wordnet_id(folder, tmp_path):
    """The same class under another name goes, another class of the same name stays: both lists have ids."""
    np.save(tmp_path / "all_images.npy", np.zeros((4, 8, 8, 1), np.uint8))
    np.save(tmp_path / "all_labels.npy", np.array([0, 1, 1, 2]))
    names = [("the figure three", "n00000003"), ("4", "n00000014"), ("tree", "n00000015")]
    (tmp_path / "classes.json").write_text(json.dumps([{"name": name, "wnid": wnid} for name, wnid in names]))
    dataset = replace(load(EXPERIMENT.dataset), wnids=[f"n{number:08d}" for number in range(8)])
    subject = next(subjects(EXPERIMENT, read_runs(folder), dataset, learner()))
    found = TASKS["ood"](subject, Wishes(ood=(f"near:{tmp_path}",), scores=("msp",)))
    removed = [note for note in found.notes if "removed" in note]
    assert removed == [f"{tmp_path}: removed 1 of 4 items, of 1 class that is trained on: 'the figure three' ('3')"]


def save_images(folder, names):
    from PIL import Image

    for at, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 20 * at, np.uint8)).save(folder / name)


def test_every_image_of_a_folder_is_a_stranger(tmp_path):
    digits = load("digits")
    save_images(tmp_path / "flat", [f"{at}.png" for at in range(7)])
    save_images(tmp_path / "classes", [f"{kind}/{at}.png" for kind in "ab" for at in range(5)])
    save_images(tmp_path / "mixed", ["0.png", "tree/1.png"])
    flat = strangers(f"folder:{tmp_path / 'flat'}(size=8)", digits)
    assert (len(flat.pool), flat.kinds, set(flat.labels.tolist())) == (7, [], {-1})
    for name in (f"folder:{tmp_path / 'classes'}(size=8)", f"{tmp_path / 'classes'}(size=8)", "classes(size=8)"):
        found = strangers(name, digits, tmp_path)
        assert (len(found.pool), found.kinds) == (10, [("a", ""), ("b", "")])
        assert found.labels.tolist() == [0] * 5 + [1] * 5
    assert strangers("mixed(size=8)", digits, tmp_path).labels.tolist() == [-1, 0]
    with pytest.raises(UnknownName, match=r"no option of a folder of images 'sise'\. Did you mean 'size'"):
        strangers("flat(sise=8)", digits, tmp_path)
    with pytest.raises(BadInput, match="no folder"):
        strangers(f"folder:{tmp_path / 'nothing'}", digits)


def test_of_a_folder_that_somebody_divided_the_test_images_are_strangers(tmp_path):
    save_images(tmp_path, ["train/a/0.png", "train/a/1.png", "test/a/2.png"])
    found = strangers(f"folder:{tmp_path}(size=8, channels=1)", load("digits"))
    assert found.pool.ids.tolist() == ["a/2.png"]


def test_every_row_of_a_table_without_a_test_split_is_a_stranger(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    buffers = []
    for at in range(6):
        buffer = io.BytesIO()
        Image.fromarray(np.full((8, 8), 20 * at, np.uint8)).save(buffer, "png")
        buffers.append({"bytes": buffer.getvalue(), "path": f"{at}.png"})
    pq.write_table(pa.table({"image": buffers, "label": [0, 1] * 3}), tmp_path / "train.parquet")
    found = strangers(f"folder:{tmp_path}(size=8, channels=1)", load("digits"))
    assert (len(found.pool), found.labels.tolist()) == (6, [0, 1] * 3)


def test_resizing_keeps_means_and_refuses_what_is_no_image():
    images = np.random.default_rng(1).integers(0, 255, (3, 8, 8, 3), dtype=np.uint8)
    small = resized(images, 4)
    blocks = images.reshape(3, 4, 2, 4, 2, 3).mean(axis=(2, 4))
    assert np.abs(small.astype(float) - blocks).max() <= 1
    assert resized(images[..., :1], 16).shape == (3, 16, 16, 1)
    with pytest.raises(BadInput, match="uint8"):
        resized(images.astype(float), 4)


def test_the_experiment_says_what_it_keeps(folder):
    assert read_experiment(folder).keep == "all"
    assert "keep" not in Experiment().as_dict()  # experiments of before do not change
    with pytest.raises(UnknownName, match="'last'"):
        carry_out(Experiment(keep="lats", end=40), folder / "x", device="cpu", live=False)


def test_keep_last_keeps_one(tmp_path):
    experiment = Experiment("digits", ("random",), 1, 20, 10, 40, "resnet8", RECIPE, keep="last")
    carry_out(experiment, tmp_path, device="cpu", live=False)
    assert [p.name for p in (tmp_path / "runs" / "random-0" / "models").iterdir()] == ["round-03"]


def test_what_was_written_before_a_model_failed_is_counted(tmp_path, monkeypatch):
    def lines(*_):
        yield {}
        yield {}
        raise BadInput("the third")

    monkeypatch.setattr(driver, "places", lambda *_, **__: ["one", "two", "three"])
    evaluator, told = driver.Evaluator(tmp_path), []
    monkeypatch.setattr(evaluator, "_lines", lines)
    assert evaluator.run(["calibration"], missing="retrain", runs=[], failed=told.append) == 2
    assert [str(error) for error in told] == ["the third"]
