"""The noise study on digits with tiny networks: slices add up, the audit's scores find planted mistakes."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncalr.data import ArrayPool, load
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import Run, read_runs
from ncalr.learn import Job, TorchLearner
from ncalr.loop.state import replay

PATH = Path(__file__).parents[2] / "benchmarks" / "noise_study.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("noise_study", PATH)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def vectors(digits):
    """Some of them as vectors, for a network that trains in a second."""
    flat = {}
    for name in ("pool", "test"):
        pool = getattr(digits, name)
        items = pool.read(np.arange(450)).reshape(450, -1)
        flat[name] = ArrayPool((items / 255).astype(np.float32), ids=pool.ids[:450])
    return replace(digits, **flat, labels=digits.labels[:450], test_labels=digits.test_labels[:450])


def test_a_training_that_would_come_too_late_is_not_begun(study, monkeypatch):
    """By the slowest of the last six, for a label, and a tenth more."""
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    clock = study.Clock(10)  # until 700

    def ended(seconds, labelled):
        line = {"seconds": {"train": seconds, "round": 1.0}, "labelled": labelled}
        clock.watch(Run("ncal", 0, None, [{"round": 0}, line]))

    def too_late(labels):
        return clock.too_late(Job(None, np.arange(labels), None))

    assert not too_late(10**6), "nothing is known yet"
    clock.watch(Run("ncal", 0, None, [{"round": 0}]))
    ended(50.0, 10)  # the slowest by far
    now[0] = 600.0
    assert too_late(19)
    assert not too_late(18)
    for _ in range(6):
        ended(10.0, 1000)
    assert not too_late(9000)
    assert too_late(9100)
    assert not clock.after(99)
    assert clock.after(101)


def mistaken(digits, rate=0.2):
    rng = np.random.default_rng(0)
    return np.where(rng.random(len(digits.labels)) < rate, rng.integers(0, 10, len(digits.labels)), digits.labels)


@pytest.fixture
def root(tmp_path, digits):
    names = ("random_label1", "random_label2", "random_label3", "worse_label")
    np.savez(tmp_path / "cifar10n_labels.npz", **{name: mistaken(digits) for name in names})
    return tmp_path


def test_the_plan_is_what_must_be_shown(study):
    plan = study.plan()
    assert len(plan) == 14
    assert {e.budgets for e in plan.values()} == {(2000, 4500, 7000, 9500, 12000)}
    assert {e.seeds for e in plan.values()} == {3}
    people = {e.answers for name, e in plan.items() if name.startswith("people")}
    assert people == {"single", "votes(n=3)", "doubts(soft=True)"}
    assert not plan.keys() & study.tried().keys()
    fresh = {name: e for name, e in plan.items() if name.startswith("fresh")}
    assert len(fresh) == 6
    assert {e.first_seed for e in fresh.values()} == {3}, "seeds that no form of the policy was looked at with"
    assert {e.first_seed for name, e in plan.items() if name not in fresh} == {0}
    assert plan["worst-elr"].strategies == ("random", "margin", "badge", "ncal", "ncal(means=trimmed)")
    assert "/" not in plan["people-ours-elr"].noise, "no machine's path in a result"


def test_slices_add_up(study, root, capsys, monkeypatch):
    small = {"start": 30, "step": 15, "end": 45, "seeds": 1, "network": "resnet8"}
    recipe, longer = "digits(epochs=2, checkpoints=2)", "digits(epochs=3, checkpoints=2)"
    experiments = {
        "people-doubts-plain": Experiment(
            "digits", ("ncal",), recipe=recipe, noise=study.PEOPLE, answers="doubts", **small
        ),
        "people-single-plain": Experiment("digits", ("random",), recipe=recipe, noise=study.PEOPLE, **small),
        "worst-plain": Experiment("digits", ("random",), recipe=longer, noise=study.WORST, **small),
    }
    monkeypatch.setattr(study, "plan", lambda: experiments)
    study.run(root, root / "out", 0.0, 1, [], 1)
    assert "the slice is over" in capsys.readouterr().out
    study.run(root, root / "out", 5.0, 1, ["worst"], 1)
    for _ in range(2):
        study.run(root, root / "out", 5.0, 1, [], 1)
    for name in experiments:
        assert [answers for answers, _ in read_runs(root / "out" / name)[0].accuracies] == [30, 45]
    noted = [json.loads(line) for line in (root / "out" / "slices.jsonl").read_text().splitlines()]
    facts = [(line["experiment"], line["trainings"], line["images"]) for line in noted]
    runs = [read_runs(root / "out" / name)[0] for name in experiments]
    learnt = [line["labelled"] for run in runs for line in run.lines if "accuracy" in line]
    assert facts[0] == ("worst-plain", 2, 3 * (30 + 45)), "each with its own recipe"
    assert [fact[:2] for fact in facts[1:]] == [("people-doubts-plain", 2), ("people-single-plain", 2)]
    assert sum(fact[2] for fact in facts) == 2 * (sum(learnt) - 30) + 30 + 45, "two policies share the first"


def test_what_is_kept_is_enough_to_go_on(study, root, monkeypatch):
    """Scores of single picks and the machine's name are left out; a run that is continued from it ends the same."""
    small = {"start": 30, "step": 15, "seeds": 1, "network": "resnet8"}
    recipe = "digits(epochs=2, checkpoints=2)"

    def plan(end):
        soft = "doubts(soft=True)"
        one = Experiment("digits", ("ncal",), recipe=recipe, noise=study.PEOPLE, answers=soft, end=end, **small)
        return {"people-doubts-plain": one}

    monkeypatch.setattr(study, "plan", lambda: plan(45))
    study.run(root, root / "out", 5.0, 1, [], 1)
    study.keep(root / "out", root / "kept")
    (whole,), (kept,) = (read_runs(root / name / "people-doubts-plain") for name in ("out", "kept"))
    assert [replay(run.lines).votes for run in (whole, kept)] == [replay(whole.lines).votes] * 2
    assert kept.accuracies == whole.accuracies
    assert any("scores" in line for line in whole.lines)
    assert not any("scores" in line or "parts" in line for line in kept.lines)
    assert "system" not in json.loads((kept.journal.folder / "environment.json").read_text())
    assert "soft" in whole.lines[0]["consensus"]
    assert not any("soft" in line.get("consensus", {}) for line in kept.lines)
    study.wrong(root, root / "kept")
    first, last = (json.loads(line) for line in (root / "kept" / "wrong.jsonl").read_text().splitlines())
    assert (first["answers"], first["items"], last["answers"]) == (30, 30, 45)
    assert last["items"] == len(replay(whole.lines).labels) < 45
    assert 0 < first["wrong"] < 1


@pytest.mark.parametrize("part", ["ours", "plain", "in sample"])
def test_the_audits_scores_find_mistakes(study, vectors, part):
    labels = mistaken(vectors)
    recipe = f"digits(epochs=10, checkpoints=3{', loss=elr' if 'elr' in study.PARTS[part] else ''})"
    learner = TorchLearner("mlp(widths=32)", recipe, device="cpu", progress=False)
    models = learner.fit_all(study.audit_jobs(part, vectors, labels, 0))
    scores = study.audit_scores(part, models, vectors, labels, 0)
    if part == "plain":
        np.testing.assert_allclose(scores.pop("probs").sum(axis=1), 1)
    measured = {name: study.found(doubt, labels, vectors) for name, doubt in scores.items()}
    for name, values in measured.items():
        assert values["auroc"] > 0.8, name
        assert values["average precision"] > 0.5, name
        assert values["wrong"] == pytest.approx((labels != vectors.labels).mean())
    assert {"ours": "ours", "plain": "self-confidence", "in sample": "AUM"}[part] in measured


def test_what_is_done_is_not_done_again(study, tmp_path):
    assert sum(map(len, study.audit_parts(tmp_path).values())) == 18
    line = {"labels": "worst", "seed": 0, "part": "ours"}
    study._append(tmp_path / "audit.jsonl", {**line, "score": "ours", "auroc": 0.9, "average precision": 0.8})
    assert sum(map(len, study.audit_parts(tmp_path).values())) == 18
    study._append(tmp_path / "audit.jsonl", {**line, "done": True})
    assert study.audit_parts(tmp_path)[0, study.PARTS["ours"]] == [("aggregate", "ours")]
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"torn')
    study._append(
        tmp_path / "audit.jsonl", {**line, "seed": 1, "score": "ours", "auroc": 0.8, "average precision": 0.7}
    )
    assert "| worst | ours | 0.8500 ± 0.0707 | 0.7500 ± 0.0707 | 2 |" in study.table(tmp_path)


def test_labels_in_another_order_are_found(study, digits, tmp_path):
    for clean, fits in ((digits.labels, True), (digits.labels[::-1], False)):
        np.savez(tmp_path / "l.npz", clean_label=clean, worse_label=digits.labels, aggre_label=digits.labels)
        if fits:
            assert set(study.read_labels(tmp_path / "l.npz", digits)) == {"worst", "aggregate"}
        else:
            with pytest.raises(SystemExit, match="another order"):
                study.read_labels(tmp_path / "l.npz", digits)
