"""Strategies compared across data sets: which folders are one, what is in common, what may be said of how many."""

from __future__ import annotations

import csv
import json
import shlex
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from quick_learner import Quick
from scipy import stats
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data.dataset import load
from ncalr.data.fingerprint import fingerprint
from ncalr.errors import BadInput
from ncalr.lab import plots
from ncalr.lab.across import compare, names_of, read_rows, write_across
from ncalr.lab.alike import data_apart, groups_of, why_apart
from ncalr.lab.experiment import Experiment
from ncalr.lab.report import write_report
from ncalr.lab.runner import pairs, read_runs, slug
from ncalr.lab.session import carry_out, report_again
from ncalr.lab.statistics import Curves, penalties
from ncalr.loop.journal import DATA

STRATEGIES = ("ncal", "random", "margin")
BUDGETS = (20, 40, 60)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def accuracy(strategy, seed, budget, better, shift):
    """A seed's own level, a gain after the first budget, and a little that no two runs share."""
    odd = 0.001 * ((7 * seed + 3 * len(strategy) + budget // 20) % 5)
    return 0.4 + shift + 0.003 * budget + 0.02 * seed + (budget > 20) * (better.get(strategy, 0) + odd)


def made(folder, better=None, shift=0.0, unfinished=(), **values):
    """An experiment whose runs are made up; an unfinished one lacks its last training."""
    experiment = Experiment(**{"strategies": STRATEGIES, "seeds": 3, "start": 20, "step": 20, "end": 60, **values})
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text(json.dumps(experiment.as_dict()))
    for strategy, seed in pairs(experiment):
        run = folder / "runs" / slug(strategy, seed)
        run.mkdir(parents=True)
        budgets = experiment.budgets[:-1] if (strategy, seed) in unfinished else experiment.budgets
        lines = [
            {
                "round": at,
                "labelled": budget,
                "accuracy": accuracy(strategy, seed, budget, better or {}, shift),
                "stop": "budget" if budget == experiment.end else "",
            }
            for at, budget in enumerate(budgets)
        ]
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def several(tmp_path, count, **values):
    """So many data sets; in the last one the order is another."""
    folders = []
    for at in range(count):
        gains = {"ncal": 0.05 + 0.01 * at, "margin": 0.02 if at < count - 1 else 0.2}
        folders.append(made(tmp_path / f"d{at}", gains, 0.02 * at, dataset=f"set{at}", **values))
    return folders


def compared(folders):
    return compare(read_rows(groups_of(folders)))


def area(strategy, seed, better, shift=0.0):
    first, middle, last = (accuracy(strategy, seed, budget, better, shift) for budget in BUDGETS)
    return (first + 2 * middle + last) / 4


# -- which are one -------------------------------------------------------------------------------------------------


def test_folders_that_are_one_experiment_are_one_row(tmp_path):
    one = made(tmp_path / "one", dataset="digits", strategies=("ncal", "random"))
    more = made(tmp_path / "more", dataset="digits", strategies=("margin",))
    other = made(tmp_path / "other", dataset="cifar10")
    assert groups_of([one, other, more]) == [[one, more], [other]]
    assert compared([one, other, more])["strategies"] == ["ncal", "random", "margin"]
    assert why_apart(one, more) == ""
    assert why_apart(one, other) == "dataset is 'digits' in one and 'cifar10' in the other"


def test_the_same_data_elsewhere_are_the_same_data(tmp_path):
    one, moved = (made(tmp_path / name, dataset=f"folder:/{name}/photos") for name in ("one", "moved"))
    noisy = made(tmp_path / "noisy", dataset="folder:/one/photos", noise="pairs(rate=0.2)")
    assert "dataset is" in why_apart(one, moved), "nothing is known of them but their names"
    data = json.dumps(fingerprint(load("digits")))
    for folder in (one, moved, noisy):
        (folder / DATA).write_text(data)
    assert groups_of([one, moved, noisy]) == [[one, moved], [noisy]]
    assert data_apart(moved, noisy) == ""
    (noisy / DATA).write_text(data.replace('"items": 1297', '"items": 7'))
    assert "dataset is" in data_apart(moved, noisy)
    assert data_apart(one, noisy) == f"their data differ (items in the pool: 1297 in {one}, 7 in {noisy})"


def test_rows_are_named_by_what_differs(tmp_path):
    plain = Experiment("folder:/data/photos(size=96)")
    noisy = replace(plain, noise="pairs(rate=0.2)", end=160)
    elsewhere = replace(plain, dataset="folder:/other/photos(size=96)")
    folders = [tmp_path / name for name in "abc"]
    assert names_of([plain, Experiment("digits")], folders[:2]) == ["photos(size=96)", "digits"]
    assert names_of([plain, noisy], folders[:2]) == [
        "photos(size=96), end 140, noise none",
        "photos(size=96), end 160, noise pairs(rate=0.2)",
    ]
    assert names_of([plain, elsewhere], folders[:2]) == [plain.dataset, elsewhere.dataset]
    assert names_of([plain, plain], folders[:2]) == [f"photos(size=96), in {folder}" for folder in folders[:2]]


# -- figures -------------------------------------------------------------------------------------------------------


def test_areas_and_differences_are_those_of_the_shared_seeds(tmp_path):
    better = {"ncal": 0.05, "margin": -0.02}
    one = made(tmp_path / "one", better, dataset="digits", unfinished=[("margin", 1)])
    other = made(tmp_path / "other", better, dataset="cifar10", strategies=("margin", "ncal", "entropy", "random"))
    found = compared([one, other])
    assert found["strategies"] == ["ncal", "random", "margin"], "in the order of the first"
    digits, cifar10 = found["experiments"]
    assert (digits["seeds"], cifar10["seeds"]) == ([0, 2], [0, 1, 2])
    for experiment, seeds in ((digits, [0, 2]), (cifar10, [0, 1, 2])):
        areas = {name: np.array([area(name, seed, better) for seed in seeds]) for name in STRATEGIES}
        for name in STRATEGIES:
            assert experiment["aubc"][name]["mean"] == pytest.approx(areas[name].mean())
        gap = stats.ttest_rel(areas["ncal"], areas["random"]).confidence_interval()
        shown = experiment["to_random"]["ncal"]
        assert shown["mean"] == pytest.approx((areas["ncal"] - areas["random"]).mean())
        assert (shown["low"], shown["high"]) == (pytest.approx(gap.low), pytest.approx(gap.high))
        assert "random" not in experiment["to_random"]
    assert found["notes"] == [
        "Left out, as not every experiment has them: entropy (1 of 2).",
        "Not all seeds are finished by all of these strategies: digits 2 of 3.",
    ]


def test_random_need_not_be_common_for_the_differences_of_those_that_have_it(tmp_path):
    one = made(tmp_path / "one", {"ncal": 0.05}, dataset="digits", unfinished=[("random", 0)])
    other = made(tmp_path / "other", dataset="cifar10", strategies=("ncal", "margin"))
    found = compared([one, other])
    assert found["strategies"] == ["ncal", "margin"]
    assert found["experiments"][0]["to_random"]["ncal"]["seeds"] == 2
    assert len(found["experiments"][0]["seeds"]) == 3, "random has no say in which seeds count"
    assert found["experiments"][1]["to_random"] is None
    page = write_across([[one], [other]], tmp_path / "out").read_text()
    assert page.count("<span class=soft>+") == 2


def test_a_run_that_only_seems_whole_is_not(tmp_path):
    """All runs were killed at the same round: what they have in common is not the curve that was planned."""
    everything = [(name, seed) for name in STRATEGIES for seed in range(3)]
    one = made(tmp_path / "my one", dataset="digits", unfinished=everything)
    other = made(tmp_path / "other", dataset="cifar10")
    with pytest.raises(BadInput) as error:
        compared([one, other])
    assert str(error.value) == (
        "digits: no seed is finished by all strategies that are compared (finished seeds: ncal 0, random 0, margin 0). "
        f"Go on with `ncalr resume '{one}'`, or leave it out. Runs that a rule stopped early have no whole curve"
    )
    for path in one.glob("runs/*/journal.jsonl"):
        path.write_text(path.read_text().replace('"stop": ""', '"stop": "target: accuracy is enough"'))
    with pytest.raises(BadInput, match="no seed is finished by all"):
        compared([one, other])
    none_shared = made(tmp_path / "apart", dataset="digits", unfinished=[("ncal", 0), ("random", 1), ("margin", 2)])
    with pytest.raises(BadInput, match="finished seeds: ncal 2, random 2, margin 2"):
        compared([none_shared, other])


def test_a_rule_that_holds_at_the_last_budget_stopped_nothing(tmp_path):
    folders = several(tmp_path, 2, stops="target=0.1")
    for path in folders[0].glob("runs/*/journal.jsonl"):
        path.write_text(path.read_text().replace('"budget"', '"target: accuracy is enough"'))
    assert [one["seeds"] for one in compared(folders)["experiments"]] == [[0, 1, 2]] * 2


def test_a_rule_that_holds_where_the_pool_ends_stopped_nothing(tmp_path):
    """The plan goes to 80, and there are 60 items."""
    everything = [(name, seed) for name in STRATEGIES for seed in range(3)]
    folders = [made(tmp_path / name, dataset=name, end=80, unfinished=everything) for name in ("one", "two")]
    for folder in folders:
        for path in folder.glob("runs/*/journal.jsonl"):
            *rest, last = path.read_text().splitlines()
            path.write_text("\n".join([*rest, last.replace('"stop": ""', '"stop": "target: it is enough"')]) + "\n")
    with pytest.raises(BadInput, match="no seed is finished by all"):
        compared(folders)
    data = fingerprint(load("digits"))
    for at, folder in enumerate(folders):
        (folder / DATA).write_text(json.dumps({**data, "pool": {**data["pool"], "items": 60, "ids": f"{at}"}}))
    found = compared(folders)["experiments"]
    assert [one["seeds"] for one in found] == [[0, 1, 2]] * 2
    assert found[0]["about"].startswith("20 to 60 labels by 20 (all of the pool; the plan went to 80)")


def test_ranks_and_average_ranks(tmp_path):
    found = compared(several(tmp_path, 3))
    assert [one["ranks"] for one in found["data_sets"]] == [
        {"ncal": 1, "random": 3, "margin": 2},
        {"ncal": 1, "random": 3, "margin": 2},
        {"ncal": 2, "random": 3, "margin": 1},
    ]
    assert found["average_ranks"] == {"ncal": pytest.approx(4 / 3), "random": 3, "margin": pytest.approx(5 / 3)}


def test_experiments_on_the_same_data_count_once(tmp_path):
    """Six protocols are no six data sets: nothing is tested, and their areas are averaged before they are ranked."""
    gains = [{"ncal": 0.01}, {"ncal": 0.01}, {"margin": 0.3}]
    noises = ["", "pairs(rate=0.2)", "symmetric(rate=0.2)"]
    folders = [
        made(tmp_path / str(at), gain, dataset="digits", noise=noise)
        for at, (gain, noise) in enumerate(zip(gains, noises, strict=True))
    ]
    folders += several(tmp_path, 4)
    found = compared(folders)
    assert [one["name"] for one in found["data_sets"]] == ["digits (3 experiments)", "set0", "set1", "set2", "set3"]
    assert found["data_sets"][0]["experiments"][2] == "digits, noise symmetric(rate=0.2)"
    assert found["data_sets"][0]["ranks"]["margin"] == 1, "two of three rank ncal first, the mean does not"
    areas = [one["aubc"]["ncal"]["mean"] for one in found["experiments"][:3]]
    assert found["data_sets"][0]["areas"]["ncal"] == pytest.approx(np.mean(areas))
    assert found["tests"]["data_sets"] == 5
    assert found["penalties"]["experiments"] == 7, "every experiment has a penalty matrix"


def test_views_of_one_source_are_data_sets_with_a_word(tmp_path):
    one = made(tmp_path / "one", dataset="digits")
    tail = made(tmp_path / "tail", dataset="digits(tail=0.1)")
    found = compared([one, tail])
    (note,) = found["notes"]
    assert note.startswith("From one source, and yet counted as 2 data sets: digits; digits(tail=0.1). Tests take")


def test_other_data_under_the_same_name_are_another_data_set(tmp_path):
    """The folder of the data was changed between the two: they are told apart by where their runs lie."""
    one, two = (made(tmp_path / name, dataset="folder:/data/photos") for name in ("one", "two"))
    data = json.dumps(fingerprint(load("digits")))
    (one / DATA).write_text(data)
    (two / DATA).write_text(data.replace('"items": 1297', '"items": 7'))
    found = compared([one, two])
    assert [set_["name"] for set_ in found["data_sets"]] == [f"photos, in {one}", f"photos, in {two}"]
    assert "From one source, and yet counted as 2 data sets" in found["notes"][0]
    assert report_again([one, two], out=tmp_path / "out").name == "across.html"


def test_penalties_of_all_experiments_are_added(tmp_path):
    folders = [*several(tmp_path, 3), made(tmp_path / "one seed", dataset="digits", seeds=1)]
    found = compared(folders)
    matrices = []
    for folder in folders[:3]:
        table = {name: [] for name in STRATEGIES}
        for run in read_runs(folder):
            table[run.strategy].append([value for _, value in run.accuracies])
        matrices.append(penalties(Curves(BUDGETS, table)).matrix)
    total = np.sum(matrices, axis=0)
    assert total.max() > 1
    assert found["penalties"]["experiments"] == 3
    assert np.allclose(found["penalties"]["matrix"], total)
    assert np.allclose(found["penalties"]["share"], total / 3)
    assert np.allclose(found["penalties"]["column_means"], total.sum(axis=0) / 2)
    assert "One seed, so no interval, and no part in who beats whom: digits." in found["notes"]


def test_policies_of_answers_belong_to_the_strategies(tmp_path):
    """A name means the same everywhere: with votes on one data set alone, ncal there is not ncal here."""
    one = made(tmp_path / "one", dataset="digits")
    votes = made(tmp_path / "votes", dataset="cifar10", answers="votes(n=3)")
    assert compared([one, made(tmp_path / "two", dataset="cifar10")])["strategies"] == list(STRATEGIES)
    with pytest.raises(BadInput, match=r"got none \(digits has ncal, random, margin; cifar10 has ncal, votes\(n=3\)"):
        compared([one, votes])


# -- what so many data sets allow ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4, 5, 6, 7])
def test_tests_begin_with_enough_data_sets(tmp_path, count):
    folders = several(tmp_path, count)
    page = unescape(write_across(groups_of(folders), tmp_path / "out").read_text())
    found = json.loads((tmp_path / "out" / "across.json").read_text())
    tests = found["tests"]
    few = f"Too few data sets to test: {count} of 5." in page
    assert "<h2>Difference to random" in page
    assert (few, "Friedman's test over" in page, "<h2>Critical difference" in page) == (
        (True, False, False) if count < 5 else (False, True, True)
    )
    assert (tests["friedman"] is None, tests["nemenyi"] is None) == (count < 5, count < 5)
    assert ("Too few data sets to test pairs by Wilcoxon's signed ranks: 5 of 6" in page) == (count == 5)
    assert ("<h2>ncal against each" in page) == (count >= 6)
    if count >= 5:
        areas = [[one["areas"][name] for one in found["data_sets"]] for name in STRATEGIES]
        assert tests["friedman"]["chi_square"] == pytest.approx(stats.friedmanchisquare(*areas).statistic)
        assert tests["friedman"]["degrees"] == [2, 2 * (count - 1)]
    if count >= 6:
        ours = {one["rival"]: one for one in tests["wilcoxon"]}
        assert ours["random"]["p"] == pytest.approx(stats.wilcoxon(areas[0], areas[1]).pvalue)
        assert ours["margin"]["p"] == pytest.approx(stats.wilcoxon(areas[0], areas[2]).pvalue)
        assert ours["random"]["p_holm"] == pytest.approx(2 * ours["random"]["p"])
    least = "with 6 data sets Wilcoxon's test cannot give a p below 0.031, which is 0.062 once corrected for 2"
    assert (least in page) == (count == 6)


def test_pairs_are_not_read_where_the_ranks_do_not_differ(tmp_path):
    """Two strategies, five data sets that agree: by chance so in one of sixteen cases, whatever the difference says."""
    folders = [
        made(tmp_path / str(at), {"ncal": 0.1}, dataset=f"set{at}", strategies=("ncal", "random")) for at in range(5)
    ]
    page = write_across(groups_of(folders), tmp_path / "out").read_text()
    tests = json.loads((tmp_path / "out" / "across.json").read_text())["tests"]
    assert (tests["friedman"]["f"], tests["friedman"]["p"]) == (None, 1 / 16)
    assert tests["nemenyi"]["critical_difference"] < 1, "the average ranks are 1 and 2"
    assert tests["nemenyi"]["joined"] == [["ncal", "random"]]
    assert "F = infinite" in page
    assert "No difference between the strategies is shown" in page


def test_the_diagram_has_every_strategy_and_bar(monkeypatch):
    kept = []
    monkeypatch.setattr(plots, "_svg", lambda figure: kept.append(figure) or "")
    average = {"random": 3.0, "ncal": 1.2, "margin": 1.8}
    plots.critical_difference(average, 0.9, [["ncal", "margin"]])
    (axes,) = kept[0].axes
    said = {text.get_text(): text for text in axes.texts}
    assert {"ncal, 1.20", "margin, 1.80", "random, 3.00", "critical difference 0.90", "1", "2", "3"} == set(said)
    assert said["ncal, 1.20"].get_position()[0] < 1
    assert said["random, 3.00"].get_position()[0] > 3
    (bar,) = [lines for lines in axes.collections if lines.get_linewidth()[0] == 4]
    (ends,) = bar.get_segments()
    assert 1.1 < ends[0, 0] < 1.2
    assert 1.8 < ends[1, 0] < 1.9


# -- from the command line -----------------------------------------------------------------------------------------


def table(folder, seed):
    """A small folder of arrays."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 160)
    items = ((rng.normal(size=(3, 5)) * 2)[truth] + rng.normal(size=(160, 5))).astype(np.float32)
    folder.mkdir()
    for name, rows in (("train", slice(100)), ("test", slice(100, None))):
        np.save(folder / f"{name}_images.npy", items[rows])
        np.save(folder / f"{name}_labels.npy", truth[rows])
    return folder


@pytest.fixture
def run_twice(tmp_path, monkeypatch):
    """The same experiment on two data sets, really run."""
    Quick.install(monkeypatch)
    folders = []
    for seed, name in enumerate(("tables", "chairs")):
        data = table(tmp_path / name, seed)
        plan = Experiment(f"folder:{data}", ("margin", "random"), 2, 12, 8, 28)
        carry_out(plan, tmp_path / "my runs" / name, live=False)
        folders.append(tmp_path / "my runs" / name)
    return folders


def test_the_command_compares_what_is_not_one(run_twice, tmp_path):
    out = tmp_path / "out"
    done = invoke("report", *run_twice, "--out", out)
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"report: {out / 'across.html'}\n", "")
    page = unescape((out / "across.html").read_text())
    assert "<h1>2 strategies on 2 data sets</h1>" in page
    assert "Too few data sets to test: 2 of 5." in page
    assert "<script" not in page
    assert "src=" not in page
    assert "href='../my%20runs/tables/report.html'" in page
    again = shlex.join(["ncalr", "report", *map(str, run_twice), "--out", str(out)])
    assert f"<pre>{again}</pre>" in page
    figures = json.loads((out / "across.json").read_text())
    assert figures["again"] == again
    with (out / "across.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["experiment"], line["strategy"]) for line in lines] == [
        (name, strategy) for name in ("tables", "chairs") for strategy in ("margin", "random")
    ]
    for line, experiment in zip(lines[::2], figures["experiments"], strict=True):
        assert float(line["aubc"]) == experiment["aubc"]["margin"]["mean"]
        assert float(line["to_random"]) == experiment["to_random"]["margin"]["mean"]
        alone = json.loads((tmp_path / "my runs" / line["experiment"] / "summary.json").read_text())
        assert float(line["aubc"]) == pytest.approx(alone["aubc"]["margin"]["mean"]), "that of its own report"
        for side in ("mean", "low", "high"):
            assert experiment["to_random"]["margin"][side] == alone["to_random"]["margin"]["aubc"][side]
    words = (out / "across.md").read_text()
    assert "| average rank |" in words
    assert "| tables, 2 seeds |" in words
    assert json.loads(invoke("report", *run_twice, "--out", out, "--json").stdout) == figures


def test_without_a_place_it_goes_to_the_first_folder_and_leaves_its_report_alone(run_twice):
    before = (run_twice[0] / "report.html").read_text()
    done = invoke("report", *run_twice)
    assert done.stdout == f"report: {run_twice[0] / 'across.html'}\n"
    assert (run_twice[0] / "report.html").read_text() == before
    assert (run_twice[0] / "across.csv").exists()
    assert not (run_twice[1] / "across.html").exists()


def test_what_is_one_stays_one_report(run_twice, tmp_path):
    more = Experiment(f"folder:{tmp_path / 'tables'}", ("entropy",), 2, 12, 8, 28)
    carry_out(more, tmp_path / "more", live=False)
    page = report_again([run_twice[0], tmp_path / "more"], out=tmp_path / "both")
    assert page == tmp_path / "both" / "report.html"
    with pytest.raises(BadInput, match=r"cannot be compared: dataset is .*; report them apart, or let `ncalr report`"):
        write_report(run_twice)


def test_strategies_that_no_two_have_are_an_error(run_twice, tmp_path):
    for strategies, said in ((("entropy",), "got none"), (("margin", "entropy"), "got margin")):
        out = tmp_path / strategies[0]
        carry_out(Experiment(f"folder:{tmp_path / 'tables'}", strategies, 1, 12, 8, 20), out, live=False)
        done = invoke("report", run_twice[1], out, "--out", tmp_path / "out")
        assert isinstance(done.exception, BadInput)
        assert f"expected two or more, {said} (chairs has margin, random; tables has" in str(done.exception)
    assert not (tmp_path / "out").exists()
