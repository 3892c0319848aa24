"""Experiments: run, killed, resumed, reported."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import fields, replace
from html import unescape

import numpy as np
import pytest
import torch
from sklearn.linear_model import SGDClassifier
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data import ArrayPool
from ncalr.data.dataset import load
from ncalr.errors import BadInput, UnknownName
from ncalr.lab.comparison import _needed
from ncalr.lab.experiment import Experiment, read_toml
from ncalr.lab.live import Board
from ncalr.lab.report import command, control_estimates, curves_of, result_rows, words_of, write_report
from ncalr.lab.runner import Part, Run, conduct, conduct_together, read_experiment, read_runs, slug
from ncalr.lab.session import carry_out, settings_of
from ncalr.learn import SklearnLearner, TorchLearner
from ncalr.loop.journal import Busy, Journal, without_times
from ncalr.loop.run import Setting
from ncalr.oracles import REFUSED, Annotators, Noisy, Refusing, Truth

EXPERIMENT = Experiment(strategies=("ncal", "random", "margin"), seeds=2, start=12, step=8, end=28)


class Counting(SklearnLearner):
    """Knows how often it was asked to train, and dies after so many."""

    def __init__(self, limit=None):
        super().__init__(SGDClassifier(loss="log_loss", alpha=0.01), epochs=4, checkpoints=2)
        self.trained, self.limit = 0, limit

    def fit(self, job):
        if self.trained == self.limit:
            raise KeyboardInterrupt
        self.trained += 1
        return super().fit(job)


class Abreast(Counting):
    """Several at a time; of those under way the last begun is ready first."""

    def __init__(self, together):
        super().__init__()
        self.together, self.most = together, 0

    def fit_each(self, jobs):
        begun, under_way = 0, []
        while True:
            while len(under_way) < self.together and (job := next(jobs, None)) is not None:
                under_way.append((begun, job))
                begun += 1
            self.most = max(self.most, len(under_way))
            if not under_way:
                return
            at, job = under_way.pop()
            yield at, self.fit(job)


def setting(seed):
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 280)
    items = (rng.normal(size=(4, 6)) * 2)[truth] + rng.normal(size=(280, 6))
    pool = ArrayPool(items[:200])
    first = np.random.default_rng([seed, 5]).permutation(200)[:12].tolist()
    return Setting(pool, Truth(pool.ids, truth[:200], 4), ArrayPool(items[200:]), truth[200:], first)


def journals(out):
    return {run.journal.folder.name: [without_times(line) for line in run.lines] for run in read_runs(out)}


def asked(out):
    """Questions, answers and accuracies alone: a shared first model has evidence for all who share it."""
    names = ("ids", "labels", "accuracy")
    return {name: [[line.get(key) for key in names] for line in lines] for name, lines in journals(out).items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    learner = Counting()
    conduct(EXPERIMENT, learner, setting, 4, out)
    return out, learner.trained


def test_every_run_ends_and_the_first_round_is_shared(whole):
    out, trained = whole
    runs = read_runs(out)
    assert len(runs) == 6
    assert all([budget for budget, _ in run.accuracies] == [12, 20, 28] for run in runs)
    assert trained == 2 + 6 * 2  # one first training a seed, then each its own
    for seed in (0, 1):
        firsts = [without_times(run.lines[1])["accuracy"] for run in runs if run.seed == seed]
        assert len(set(firsts)) == 1
        assert len({json.dumps(run.lines[0]["ids"]) for run in runs if run.seed == seed}) == 1


@pytest.mark.parametrize("limit", [0, 1, 3, 7, 12])
def test_killed_and_started_again_it_ends_the_same(whole, tmp_path, limit):
    with pytest.raises(KeyboardInterrupt):
        conduct(EXPERIMENT, Counting(limit), setting, 4, tmp_path)
    conduct(EXPERIMENT, Counting(), setting, 4, tmp_path)
    assert journals(tmp_path) == journals(whole[0])


@pytest.mark.parametrize("together", [1, 4])
def test_told_that_it_is_enough_it_ends_what_it_began_and_goes_on_later(whole, tmp_path, together):
    seen = []
    learner = Abreast(together)
    runs = conduct(EXPERIMENT, learner, setting, 4, tmp_path, enough=lambda job: seen.append(job) or len(seen) > 7)
    assert any(run.job is not None for run in runs)
    assert learner.trained == 7, "what was begun is trained to its end"
    done = sum(len(run.accuracies) for run in read_runs(tmp_path))
    assert 0 < done < 18
    assert all(job.round >= 1 for job in seen)
    conduct(EXPERIMENT, Counting(), setting, 4, tmp_path, enough=lambda job: False)
    assert journals(tmp_path) == journals(whole[0])


@pytest.mark.parametrize("together", [1, 4])
def test_a_training_that_is_too_large_leaves_its_place_to_smaller_ones(tmp_path, together):
    runs = conduct(EXPERIMENT, Abreast(together), setting, 4, tmp_path, enough=lambda job: job.round > 2)
    assert {len(run.accuracies) for run in runs} == {2}, "every run of every seed comes as far as it may"
    assert all(run.job is not None and run.job.round == 3 for run in runs)


def test_resumed_where_torch_has_other_threads_it_ends_with_the_same_bytes(tmp_path):
    """Sums on a CPU come out otherwise with another number of threads: a run keeps the one it began with."""
    experiment = Experiment(
        strategies=("margin", "random"), seeds=1, start=20, step=20, end=60, recipe="digits(epochs=2,checkpoints=2)"
    )
    dataset, before = load("digits"), torch.get_num_threads()

    def started(out, threads, rounds):
        torch.set_num_threads(threads)
        learner, asked = TorchLearner(experiment.network, experiment.recipe, device="cpu", progress=False), []
        settings = settings_of(experiment, dataset)
        conduct(experiment, learner, settings, 10, out, enough=lambda job: asked.append(1) or len(asked) > rounds)
        assert torch.get_num_threads() == threads

    try:
        started(tmp_path / "whole", 1, 9)
        started(tmp_path / "stopped", 1, 2)
        started(tmp_path / "stopped", 2, 9)
    finally:
        torch.set_num_threads(before)
    assert json.dumps(journals(tmp_path / "stopped")) == json.dumps(journals(tmp_path / "whole"))
    assert all(run.accuracies[-1][0] == 60 for run in read_runs(tmp_path / "stopped"))


def test_a_finished_experiment_trains_nothing(whole):
    learner = Counting()
    conduct(EXPERIMENT, learner, setting, 4, whole[0])
    assert learner.trained == 0


def test_the_report_says_what_the_journals_say(whole):
    out = whole[0]
    page = write_report(out, ["a", "b", "c", "d"]).read_text()
    found = json.loads((out / "summary.json").read_text())
    runs = read_runs(out)
    last = np.mean([run.accuracies[-1][1] for run in runs if run.strategy == "ncal"])
    assert found["accuracy"]["ncal"]["mean"][-1] == pytest.approx(last)
    head, rows = result_rows(found)
    assert head[1] == "accuracy at 28 labels"
    assert [row[0] for row in rows] == ["ncal", "random", "margin"]
    assert rows[0][1].startswith(f"{100 * last:.1f}")
    assert page.count("<svg") == 7  # scikit-learn's models have no features that collapse
    assert "<h2>ncal against each</h2>" in page
    assert "<h2>What it cost</h2>" in page
    assert "First trainings of a seed" not in page  # they are shared
    assert "<script" not in page
    assert "src=" not in page  # one file, nothing to fetch
    assert (out / "curves.csv").read_text().count("\n") == 1 + 6 * 3
    assert "| ncal |" in (out / "report.md").read_text()


def test_experiments_conducted_together_are_those_conducted_alone(whole, tmp_path):
    """Equal first trainings are made once, and one on other labels is not taken for equal."""

    def mistaken(seed):
        one = setting(seed)
        return replace(one, oracle=Noisy(one.oracle, "symmetric(rate=0.5)", seed=1))

    again = Experiment(**{**EXPERIMENT.as_dict(), "strategies": ["entropy"]})
    other = Experiment(**{**EXPERIMENT.as_dict(), "strategies": ["margin"], "noise": "symmetric(rate=0.5)"})
    parts = {
        "whole": Part(EXPERIMENT, setting, 4, tmp_path / "whole"),
        "again": Part(again, setting, 4, tmp_path / "again"),
        "other": Part(other, mistaken, 4, tmp_path / "other"),
    }
    learner = Counting()
    conduct_together([*parts.values()], learner)
    assert learner.trained == 2 * (2 + 5 * 2), "each seed: two first trainings, then two rounds of five runs"
    for name, part in parts.items():
        alone = whole[0] if name == "whole" else tmp_path / f"{name} alone"
        conduct(part.experiment, Counting(), part.settings, 4, alone)
        assert asked(part.out) == asked(alone)


def test_some_strategies_of_an_experiment_first_and_the_others_another_time(whole, tmp_path):
    out, some = tmp_path / "whole", EXPERIMENT.strategies[1:3]
    runs = conduct_together([Part(EXPERIMENT, setting, 4, out, strategies=some)], Counting())
    assert [(run.strategy, run.seed) for run in runs] == [(name, seed) for seed in range(2) for name in some]
    assert all(run.ended == (run.strategy in some) for run in read_runs(out)), "the others have not begun"
    conduct(EXPERIMENT, Counting(), setting, 4, out)
    assert asked(out) == asked(whole[0])


def test_policies_share_a_first_training_whoever_comes_first(tmp_path):
    """One that asks a model more than the others do, when trainings run one by one."""

    def several(seed):
        one = setting(seed)
        people = {f"person {n}": Noisy(one.oracle, "symmetric(rate=0.2)", seed=n) for n in range(3)}
        return replace(one, oracle=Annotators(people))

    small = {**EXPERIMENT.as_dict(), "strategies": ["random"], "seeds": 1}
    for answers in ("single", "doubts"):
        parts = [
            Part(Experiment(**{**small, "answers": one}), several, 4, tmp_path / answers / one)
            for one in sorted(("single", "doubts"), key=lambda one: one != answers)
        ]
        learner = Counting()
        conduct_together(parts, learner)
        assert learner.trained == 1 + 2 * 2
    assert journals(tmp_path / "single" / "doubts") == journals(tmp_path / "doubts" / "doubts")


def test_parts_with_recipes_of_their_own_share_no_training_and_say_how_to_train(tmp_path):
    given = []

    class Noting(Counting):
        def fit(self, job):
            given.append((job.recipe, job.round))
            return super().fit(replace(job, recipe=None))

    small = Experiment(**{**EXPERIMENT.as_dict(), "strategies": ["random", "entropy"], "seeds": 1})
    recipes = (None, "strong(epochs=50)")
    conduct_together([Part(small, setting, 4, tmp_path / str(one), one) for one in recipes], Noting())
    assert given == [(one, number) for one in recipes for number in (1, 2, 2, 3, 3)]
    assert asked(tmp_path / "None") == asked(tmp_path / "strong(epochs=50)")


def test_parts_with_other_data_share_no_training_and_ask_for_nothing_of_each_other(tmp_path):
    """The same ids and labels of other items: another model; and what it is asked for is written down."""

    def otherwise(seed):
        one = setting(seed)
        return replace(one, pool=ArrayPool(-np.asarray(one.pool.read(np.arange(200)))))

    small = {**EXPERIMENT.as_dict(), "seeds": 1}
    one = Part(Experiment(**{**small, "strategies": ["random"]}), setting, 4, tmp_path / "one")
    other = Experiment(**{**small, "strategies": ["coreset"], "dataset": "mirrored"})
    learner = Counting()
    conduct_together([one, Part(other, otherwise, 4, tmp_path / "other")], learner)
    assert learner.trained == 2 * 3
    for name, part in (("one", one), ("other", Part(other, otherwise, 4, tmp_path))):
        conduct(part.experiment, Counting(), part.settings, 4, tmp_path / f"{name} alone")
        assert journals(tmp_path / name) == journals(tmp_path / f"{name} alone")


@pytest.mark.parametrize("together", [1, 2, 6, 40])
def test_what_is_trained_side_by_side_changes_nothing(whole, tmp_path, together):
    learner = Abreast(together)
    conduct(EXPERIMENT, learner, setting, 4, tmp_path)
    assert journals(tmp_path) == journals(whole[0])
    assert learner.trained == whole[1]
    assert learner.most == min(together, 4), "one seed's first training beside all runs of the other: nobody waits"


def test_the_first_part_comes_first_then_seed_by_seed_with_the_strategies_in_step(tmp_path):
    order = []

    class Noting(Counting):
        def fit(self, job):
            order.append((job.pool is other, job.seed, job.round))
            return super().fit(job)

    first = setting(0)
    other = ArrayPool(np.asarray(first.pool.read(np.arange(200))))
    parts = [
        Part(EXPERIMENT, lambda seed: replace(first, first=setting(seed).first), 4, tmp_path / "one"),
        Part(EXPERIMENT, lambda seed: replace(first, pool=other, first=range(12)), 4, tmp_path / "two"),
    ]
    conduct_together(parts, Noting())
    assert order == sorted(order)
    assert {which for which, _, _ in order} == {False, True}


def test_one_seed_alone(whole, tmp_path):
    conduct(EXPERIMENT, Counting(), setting, 4, tmp_path, seeds=[1])
    found = journals(tmp_path)
    assert {name for name, lines in found.items() if lines} == {name for name in found if name.endswith("-1")}
    assert all(lines == journals(whole[0])[name] for name, lines in found.items() if lines)


def test_the_control_arm_is_counted(tmp_path):
    experiment = Experiment(**{**EXPERIMENT.as_dict(), "control": 0.5, "strategies": ["ncal"]})
    runs = conduct(experiment, Counting(), setting, 4, tmp_path)
    hits = count = 0
    for run in runs:
        line = run.lines[1]
        answers = dict(zip(line["ids"], line["labels"], strict=True))
        count += len(line["control"]["ids"])
        hits += sum(answers[i] == p for i, p in zip(line["control"]["ids"], line["control"]["predicted"], strict=True))
    assert control_estimates(runs)["ncal"][12] == (hits, count)
    assert count == 2 * 4
    assert "control arm" in write_report(tmp_path).read_text()


def test_the_report_says_how_to_run_it_again(whole, tmp_path):
    page = write_report(whole[0], out=tmp_path).read_text()
    line = f"ncalr run digits --against random,margin --seeds 2 --start 12 --step 8 --end 28 --out {whole[0]}"
    assert line in page
    assert "--noise &#x27;symmetric(rate=0.2)&#x27;" not in page
    other = command(Experiment("digits(known=8)", noise="symmetric(rate=0.2)", keep="last"), tmp_path)
    assert "'digits(known=8)'" in other
    assert "--noise 'symmetric(rate=0.2)' --keep last" in other
    assert "--control 0.1 --answers 'votes(n=3)'" in command(Experiment(answers="votes(n=3)", control=0.1), tmp_path)


OTHER = {
    "dataset": "folder:/data/my photos(size=96)",
    "strategies": ("margin",),
    "seeds": 1,
    "start": 10,
    "step": 7,
    "end": 200,
    "network": "mlp(widths=[32, 32])",
    "recipe": "digits(epochs=2, checkpoints=2)",
    "noise": "given(file='some labels.npz', labels=ann)",
    "stratified": True,
    "control": 0.1,
    "first_seed": -5,
    "keep": "last",
    "answers": "votes(n=3)",
    "stops": "plateau=2, gain=0.005",
}
"""A value other than the default for every field of an experiment."""


@pytest.mark.parametrize("changed", [[], *([name] for name in OTHER), [*OTHER]], ids=lambda names: ",".join(names))
def test_the_line_of_the_report_is_the_experiment(changed, monkeypatch, tmp_path):
    assert list(OTHER) == [field.name for field in fields(Experiment)]
    experiment = Experiment(**{name: OTHER[name] for name in changed})
    assert all(getattr(experiment, name) != getattr(Experiment(), name) for name in changed)
    found = []
    monkeypatch.setattr("ncalr.cli.run._carry_out", lambda plan, out, *_: found.append((plan, out)))
    name, *words = shlex.split(command(experiment, tmp_path / "my runs"))
    done = CliRunner().invoke(app, words)
    assert (name, done.exit_code) == ("ncalr", 0), done.output
    assert found == [(experiment, tmp_path / "my runs")]


def test_lines_to_copy_stand_a_space_in_a_path(whole, tmp_path, monkeypatch):
    shutil.copytree(whole[0], tmp_path / "my runs")
    page = unescape(write_report([tmp_path / "my runs", whole[0]], out=tmp_path / "out").read_text())
    assert f"ncalr resume '{tmp_path}/my runs'\nncalr resume {whole[0]}\n" in page
    assert f"ncalr report '{tmp_path}/my runs' {whole[0]}" in page

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("ncalr.lab.session.carry_out", stop)
    done = CliRunner().invoke(app, ["run", "--out", str(tmp_path / "my runs")])
    assert f"Go on with: ncalr resume '{tmp_path}/my runs'\n" in done.output
    done = CliRunner().invoke(app, ["run", "--out", str(tmp_path / "new")])
    assert "stopped; nothing was begun yet\n" in done.output  # there is nothing to resume


def test_runs_stop_by_a_rule_and_the_report_says_where(whole, tmp_path):
    accuracies = {slug(run.strategy, run.seed): dict(run.accuracies) for run in read_runs(whole[0])}
    target = np.median([rows[20] for rows in accuracies.values()])
    stopping = replace(EXPERIMENT, stops=f"target={target}")
    conduct(stopping, Counting(), setting, 4, tmp_path)
    assert read_experiment(tmp_path) == stopping
    runs = read_runs(tmp_path)
    for run in runs:
        mine = accuracies[slug(run.strategy, run.seed)]
        wanted = next((budget for budget in (12, 20, 28) if mine[budget] >= target), 28)
        assert dict(run.accuracies) == {budget: mine[budget] for budget in mine if budget <= wanted}
        assert run.lines[-1]["stop"].startswith("target") == (mine[wanted] >= target)
    early = [run for run in runs if run.accuracies[-1][0] < 28]
    assert 0 < len(early) < len(runs)
    page = write_report(tmp_path).read_text()
    assert f"{len(early)} of 6 runs stopped before 28 by a rule (target)" in page
    assert "not finished" not in page
    assert "<h2>When they stopped</h2>" in page
    assert f"stopped by target={target}." in page
    ncal = [run.accuracies[-1] for run in runs if run.strategy == "ncal" and ":" in run.lines[-1]["stop"]]
    assert f"<td>ncal</td><td>{len(ncal)} of 2</td><td>{np.mean([n for n, _ in ncal]):,.0f}" in page
    assert "When they stopped" not in write_report(whole[0], out=tmp_path / "other").read_text()
    with pytest.raises(BadInput, match="cannot be compared: stops is"):
        write_report([whole[0], tmp_path])
    with pytest.raises(BadInput, match="different: stops"):
        conduct(EXPERIMENT, Counting(), setting, 4, tmp_path)


def test_a_strategy_that_always_stopped_is_not_unfinished(tmp_path):
    conduct(replace(EXPERIMENT, stops="target=0.01"), Counting(), setting, 4, tmp_path)
    page = write_report(tmp_path).read_text()
    assert all([budget for budget, _ in run.accuracies] == [12] for run in read_runs(tmp_path))
    assert "not finished" not in page
    path = next((tmp_path / "runs" / "margin-1").glob("journal.jsonl"))
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    lines = [json.dumps({**line, "stop": ""}) + "\n" for line in Journal(tmp_path / "runs" / "ncal-0").lines()]
    (tmp_path / "runs" / "ncal-0" / "journal.jsonl").write_text("".join(lines))
    write_report(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["ended"] == ["random"]


def test_a_stratified_initial_pool_is_said():
    assert "stratified initial pools" in words_of(Experiment(stratified=True))
    assert "stratified" not in words_of(Experiment())


def test_the_report_names_its_tests(whole, tmp_path):
    page = write_report(whole[0], out=tmp_path).read_text()
    assert "by Student's t" in page
    assert "paired t-test) is corrected for all of them by Holm's method" in page
    assert "by a paired t-test at 5 %, not corrected" in page


def test_labels_that_random_needs_are_said_with_what_other_seeds_would_say():
    saving = {
        "needed": [52.4, None, None, 40.0],
        "low": [48.0, 108.0, None, 40.0],
        "high": [60.0, None, None, 40.0],
        "beyond": [False, True, True, False],
        "low_beyond": [False, False, True, False],
        "high_beyond": [False, True, True, False],
        "at_most": [False, False, False, True],
    }
    assert [_needed(saving, place, 140) for place in range(4)] == [
        "52 (48 to 60)",
        "more than 140 (108 to more than 140)",
        "more than 140",
        "at most 40",
    ]


def test_the_log_counts_answers_where_budgets_do(capsys):
    board = Board(EXPERIMENT, wanted=False, lines=True)
    for line in (
        {"round": 1, "labelled": 12, "accuracy": 0.5},
        {"round": 1, "answers": 12, "labelled": 6, "accuracy": 0.5},
    ):
        board.show(Run("ncal", 0, None, [{"round": 0}, line]))
        board.found.clear()
    said = capsys.readouterr().err.splitlines()
    assert ["12 labels" in said[0], "12 answers" in said[1]] == [True, True]


def test_several_experiments_on_the_same_data_become_one_report(whole, tmp_path):
    other = Experiment(**{**EXPERIMENT.as_dict(), "strategies": ["entropy"]})
    conduct(other, Counting(), setting, 4, tmp_path / "other")
    page = write_report([whole[0], tmp_path / "other"], out=tmp_path / "both")
    assert page == tmp_path / "both" / "report.html"
    found = json.loads((tmp_path / "both" / "summary.json").read_text())
    assert found["strategies"] == ["ncal", "random", "margin", "entropy"]
    assert "4 strategies, 2 seeds" in page.read_text()
    conduct(Experiment(**{**other.as_dict(), "end": 20}), Counting(), setting, 4, tmp_path / "short")
    with pytest.raises(BadInput, match="cannot be compared: end is 28 in one and 20"):
        write_report([whole[0], tmp_path / "short"])


def test_runs_that_two_experiments_have_in_common_are_one(whole, tmp_path):
    other = replace(EXPERIMENT, strategies=("entropy", "random"))
    with pytest.raises(KeyboardInterrupt):
        conduct(other, Counting(8), setting, 4, tmp_path / "other")
    conducted = {run.journal.folder.name: len(run.lines) for run in read_runs(tmp_path / "other")}
    assert min(conducted["random-0"], 4) > conducted["random-1"], "one of the two is behind"
    for order in ([whole[0], tmp_path / "other"], [tmp_path / "other", whole[0]]):
        write_report(order, out=tmp_path / "both")
        found = json.loads((tmp_path / "both" / "summary.json").read_text())
        assert sorted(found["strategies"]) == ["entropy", "margin", "ncal", "random"]
        assert found["accuracy"]["random"]["mean"][-1] is not None, "the one that is farther counts"
    write_report(whole[0], out=tmp_path / "alone")
    alone = json.loads((tmp_path / "alone" / "summary.json").read_text())
    assert found["accuracy"]["random"] == alone["accuracy"]["random"]


@pytest.mark.parametrize(
    ("key", "said"), [("accuracy", "accuracy: 0.125 and "), ("ids", "ids"), ("labels", "labels"), ("again", "again")]
)
def test_runs_that_differ_are_not_one(whole, tmp_path, key, said):
    shutil.copytree(whole[0], tmp_path / "other")
    path = tmp_path / "other" / "runs" / "random-1" / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    line, first = lines[2], lines[0]["ids"][0]
    others = {
        "accuracy": 0.125,
        "ids": line["ids"][::-1],
        "labels": [1 - min(label, 1) for label in line["labels"]],
        "again": [{"ids": [first], "labels": [0], "by": ""}],
    }
    line[key] = others[key]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadInput, match=r"random with seed 1 is in .* and is not the same run in both") as error:
        write_report([tmp_path / "other", whole[0]], out=tmp_path / "both")
    assert f"from round 2 on ({said}" in str(error.value)
    assert "add the strategies of one to the other" in str(error.value)


def test_an_unfinished_experiment_can_be_reported(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        conduct(EXPERIMENT, Counting(5), setting, 4, tmp_path)
    curves, notes = curves_of(read_runs(tmp_path))
    assert "not finished" in notes[0]
    assert np.isnan(curves.accuracies["margin"]).any()
    assert write_report(tmp_path).exists()


def test_nothing_to_report_yet(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        conduct(EXPERIMENT, Counting(0), setting, 4, tmp_path)
    with pytest.raises(BadInput, match="nothing to report"):
        write_report(tmp_path)
    with pytest.raises(BadInput, match="no experiment in"):
        read_experiment(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="is a single run, of ncal; expected the folder of an experiment"):
        read_experiment(tmp_path / "runs" / slug("ncal", 0))


def test_another_experiment_and_another_process(whole):
    out = whole[0]
    with pytest.raises(BadInput, match="different: end"):
        conduct(Experiment(**{**EXPERIMENT.as_dict(), "end": 36}), Counting(), setting, 4, out)
    with Journal(out / "runs" / slug("ncal", 0)).locked(), pytest.raises(Busy):
        conduct(EXPERIMENT, Counting(), setting, 4, out)


@pytest.mark.parametrize("more", [{"seeds": 3}, {"strategies": ("entropy", *EXPERIMENT.strategies)}])
def test_seeds_and_strategies_may_be_added(whole, tmp_path, more):
    shutil.copytree(whole[0], tmp_path / "out")
    before = journals(tmp_path / "out")
    grown = replace(EXPERIMENT, **more)
    learner = Counting()
    conduct(grown, learner, setting, 4, tmp_path / "out")
    assert learner.trained == (1 + 3 * 2 if "seeds" in more else 2 * 3), "what is done is not done again"
    assert read_experiment(tmp_path / "out") == grown
    after = journals(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    conduct(grown, Counting(), setting, 4, tmp_path / "alone")
    assert asked(tmp_path / "out") == asked(tmp_path / "alone")
    with pytest.raises(BadInput, match=r"holds another experiment .*(3 there, 2 here|entropy.* there, \['ncal')"):
        conduct(EXPERIMENT, Counting(), setting, 4, tmp_path / "out")
    with pytest.raises(BadInput, match="different: end, seeds"):
        conduct(replace(grown, seeds=4, end=36), Counting(), setting, 4, tmp_path / "out")
    assert read_experiment(tmp_path / "out") == grown


def test_killed_while_seeds_are_added_nothing_is_lost(whole, tmp_path, monkeypatch):
    shutil.copytree(whole[0], tmp_path / "out")
    grown = replace(EXPERIMENT, seeds=3)

    def full(self, *_):
        raise OSError(28, f"no room for {self}")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", full)
        with pytest.raises(OSError, match="no room"):
            conduct(grown, Counting(), setting, 4, tmp_path / "out")
    assert read_experiment(tmp_path / "out") == EXPERIMENT
    assert journals(tmp_path / "out") == journals(whole[0])
    with pytest.raises(KeyboardInterrupt):
        conduct(grown, Counting(0), setting, 4, tmp_path / "out")
    assert write_report(tmp_path / "out", out=tmp_path / "report").exists()
    conduct(read_experiment(tmp_path / "out"), Counting(), setting, 4, tmp_path / "out")
    assert [len(run.accuracies) for run in read_runs(tmp_path / "out")] == 9 * [3]


def test_experiments_from_text(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text('dataset = "digits"\nstrategies = ["ncal(fusion=rank)", "random"]\nseeds = 5\n')
    found = Experiment.from_dict(read_toml(path))
    assert (found.strategies, found.seeds, found.budgets) == (
        ("ncal(fusion=rank)", "random"),
        5,
        (40, 60, 80, 100, 120, 140),
    )
    assert Experiment.from_dict(json.loads(json.dumps(found.as_dict()))) == found
    assert Experiment(start=10, step=7, end=20).budgets == (10, 17, 20)
    path.write_text("seedz = 3\n")
    with pytest.raises(UnknownName, match="Did you mean 'seeds'"):
        Experiment.from_dict(read_toml(path))
    path.write_text("seeds = [\n")
    with pytest.raises(BadInput, match="not TOML"):
        Experiment.from_dict(read_toml(path))
    with pytest.raises(UnknownName, match="Did you mean 'ncal'"):
        carry_out(Experiment(strategies=("nclal",)), tmp_path / "out", live=False)
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="ncal"):
        Experiment(strategies=("ncal(",))
    for changes in ({"strategies": ()}, {"strategies": ("ncal", "ncal")}, {"seeds": 0}, {"end": 1}):
        with pytest.raises(BadInput):
            Experiment(**changes)
    assert slug("ncal(select=filtered(multiple=3))", 2) == "ncal-select=filtered-multiple=3-2"


def test_a_strategy_of_ones_own_is_reported_where_its_file_is_not(whole, tmp_path):
    """Who is sent the folder has the journals, and no need of the function."""
    shutil.copytree(whole[0], tmp_path / "sent")
    for path in (tmp_path / "sent").rglob("*.json*"):
        path.write_text(path.read_text().replace('"margin"', '"doubt"'))
    for run in (tmp_path / "sent" / "runs").glob("margin-*"):
        run.rename(run.with_name(run.name.replace("margin", "doubt")))
    text = write_report(tmp_path / "sent").read_text()
    assert "<td>doubt</td><td></td>" in text, "its passes over the pool are not known"
    assert isinstance(CliRunner().invoke(app, ["resume", str(tmp_path / "sent")]).exception, UnknownName)


def test_a_strategy_that_is_not_known_is_found_before_a_folder_is_claimed(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'margin'"):
        conduct(replace(EXPERIMENT, strategies=("random", "margn")), Counting(), setting, 4, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="by its name or a spec, got None"):
        replace(EXPERIMENT, strategies=("random", None))


def test_the_board_shows_means(whole):
    board = Board(EXPERIMENT, wanted=False)
    assert board.live is None
    for run in read_runs(whole[0]):
        board.show(run)
    table = board.table()
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["ncal", "random", "margin"]
    assert cells[-1] == ["6/6"] * 3
    with Board(EXPERIMENT, wanted=True) as shown:
        shown.show(read_runs(whole[0])[0])
    assert len(Board(Experiment(start=10, step=1, end=40), wanted=False).table().columns) <= 11


def test_the_board_shows_trainings_under_way(whole, monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("ncalr.lab.live.time.perf_counter", lambda: now[0])
    board = Board(EXPERIMENT, wanted=False, lines=True)
    runs = [replace(run, lines=[]) for run in read_runs(whole[0])]
    for run in runs:
        board.show(run)
    board.trainings.start(0, 10)
    board.began(0, runs[:3])
    board.began(1, runs[3:4])
    for epoch in range(1, 6):
        now[0] += 4.0
        board.trainings.step(0, epoch, 120)
    assert [row.plain for row in board.picture().renderables[1:]] == [
        "3 runs together, seed 0, training 1 of 3: epoch 5 of 10, 30 items/s, 0:00:20 left",
        "ncal, seed 1, training 1 of 3: epoch 0 of 10",
        "all trainings: about 0:01:28 left",
    ]
    assert not capsys.readouterr().err, "a log hears nothing of short trainings"
    for epoch in range(6, 11):
        now[0] += 25.0
        board.trainings.step(0, epoch, 120)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2, "at most a line a minute"
    assert said[0].startswith("3 runs together, seed 0, training 1 of 3: epoch 7 of 10, ")
    board.trainings.done(0)
    assert len(board.picture().renderables) == 3


@pytest.mark.parametrize(
    ("answers", "budgets"),
    [("single", (150, 190, 200)), ("votes(n=2)", (150, 190, 230, 270, 310, 350, 390, 400))],
)
def test_the_board_counts_no_training_that_the_pool_has_no_items_for(tmp_path, capsys, answers, budgets):
    plan = {**EXPERIMENT.as_dict(), "strategies": ["random"], "seeds": 1, "start": 150, "step": 40, "end": 900}
    experiment = Experiment(**plan, answers=answers)

    def several(seed):
        one = setting(seed)
        people = Annotators({name: Truth(one.pool.ids, one.oracle.answer(one.pool.ids).labels, 4) for name in "ab"})
        first = np.random.default_rng(seed).permutation(200)[:150].tolist()
        return replace(one, oracle=people if answers != "single" else one.oracle, first=first)

    board = Board(experiment, wanted=False, lines=True, items=200)
    [run] = conduct(experiment, Counting(), several, 4, tmp_path, board.show)
    assert tuple(budget for budget, _ in run.accuracies) == experiment.within(200) == budgets
    said, many = capsys.readouterr().err.splitlines(), len(budgets)
    assert [line.partition("% ")[2] for line in said] == [f"(training {n} of {many})" for n in range(1, many + 1)]
    cells = [list(column.cells) for column in board.table().columns]
    assert cells[-1] == [f"{many}/{many}"]
    assert cells[-2] != ["·"], "the last budget is one that there is"
    assert experiment.within(None) == experiment.within(900) == experiment.budgets


def test_the_board_awaits_nothing_of_runs_that_a_rule_ended(tmp_path, monkeypatch, capsys):
    experiment = replace(EXPERIMENT, stops="target=0.01")
    board = Board(experiment, wanted=False, lines=True)
    conduct(experiment, Counting(), setting, 4, tmp_path, board.show)
    said = capsys.readouterr().err.splitlines()
    assert all("(training 1 of 3; ended, target: accuracy 0." in line for line in said)
    monkeypatch.setattr("ncalr.lab.live.SURE", 0.0)
    board.trainings.start(0, 10)
    board.trainings.began, board.trainings.images = -1.0, 100
    assert board.left() == 0


def test_settings_are_the_same_for_all_strategies_of_a_seed():
    from ncalr.data import load

    dataset = load("digits")
    make = settings_of(Experiment(noise="symmetric(rate=0.3)"), dataset)
    one, again, other = make(0), make(0), make(1)
    assert one.first == again.first != other.first
    answers = one.oracle.answer(dataset.pool.ids)
    assert (answers.labels == again.oracle.answer(dataset.pool.ids).labels).all()
    assert (answers.labels != dataset.labels).mean() == pytest.approx(0.3, abs=0.01)
    stratified = settings_of(Experiment(stratified=True), dataset)(0)
    places = np.searchsorted(dataset.pool.ids, stratified.first)
    assert np.bincount(dataset.labels[places], minlength=10).min() >= 3


def refusing(rate):
    """What a seed works on, with an oracle that cannot tell what some items are."""

    def found(seed):
        work = setting(seed)
        return replace(work, oracle=Refusing(work.oracle, rate, seed=seed))

    return found


def test_runs_in_which_items_are_refused_are_compared_on_their_budgets(tmp_path):
    learner = Counting()
    conduct(EXPERIMENT, learner, refusing(0.2), 4, tmp_path)
    assert learner.trained == 2 + 2 * 3 * 2, "the first of a seed is shared, and there is one a budget"
    runs = read_runs(tmp_path)
    assert any(label == REFUSED for run in runs for line in run.lines for label in line.get("labels", []))
    curves, notes = curves_of(runs)
    assert curves.budgets.tolist() == [12, 20, 28]
    assert not notes
    write_report(tmp_path)
    found = json.loads((tmp_path / "summary.json").read_text())
    assert all(area["mean"] is not None for area in found["aubc"].values())


def test_trainings_that_are_short_of_answers_count_at_their_budget(tmp_path):
    conduct(replace(EXPERIMENT, seeds=1), Counting(), refusing(0.93), 4, tmp_path)
    runs = read_runs(tmp_path)
    assert all(run.lines[-1]["stop"] for run in runs)
    _, notes = curves_of(runs)
    assert any("trainings had another number of answers than planned (-" in note for note in notes), notes
    assert any("Each counts at its planned budget" in note for note in notes)
