"""The report's part about evaluations, from journals and evaluations that are made up."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ncalr.lab.evaluation_report import evaluations, evaluations_as_markdown, group_tables
from ncalr.lab.evaluations import EVALUATIONS, VERSION, evaluation_groups, read_evaluations
from ncalr.lab.runner import Run
from ncalr.lab.statistics import estimate
from ncalr.loop.journal import Journal

SHARE = {"auroc": [0, 1]}


def line_of(number, values, task="ood", wishes=None, limits=None, accuracy=0.5, **more):
    return {
        "version": VERSION,
        "task": task,
        "round": number,
        "labelled": 10 * number,
        "accuracy": accuracy,
        "values": values,
        "shown": list(values),
        "notes": [],
        "limits": limits or {},
        "wishes": wishes or {},
        **more,
    }


def run_of(tmp_path, strategy, seed, lines, spent=(10, 20, 30), unit="labelled"):
    """A run that has trained after so many labels or answers; a line's round says after which of them."""
    journal = Journal(tmp_path / f"{strategy}-{seed}")
    journal.folder.mkdir()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (journal.folder / EVALUATIONS).write_text(text)
    rounds = [{"round": at + 1, "labelled": 10, unit: each, "accuracy": 0.5} for at, each in enumerate(spent)]
    return Run(strategy, seed, journal, [{"round": 0, "ids": []}, *rounds])


def cell(numbers, form=".4g"):
    found = estimate(np.array(numbers))
    return f"{found.mean:{form}} ({found.low:{form}} to {found.high:{form}})"


def rows_of(table):
    return {row[0]: row[1:] for row in table.rows}


def test_other_sets_and_other_options_have_tables_of_their_own(tmp_path):
    near, far = {"ood": ["near:a"], "scores": []}, {"ood": ["far:b"], "scores": []}
    runs = [
        run_of(tmp_path, "random", 0, [line_of(3, {"auroc": 0.7}, wishes=near), line_of(3, {"auroc": 0.9}, wishes=far)])
    ]
    one, other = evaluation_groups(runs)
    assert rows_of(group_tables(one)[0]) == {"auroc": ["0.7"]}
    assert rows_of(group_tables(other)[0]) == {"auroc": ["0.9"]}
    page = evaluations(runs)
    assert page.count("<h2>Out-of-distribution detection</h2>") == 1
    assert re.findall("<h3>(.*?)</h3>", page) == ["OOD sets: near:a", "OOD sets: far:b"]
    text = evaluations_as_markdown(runs)
    assert text.index("### OOD sets: near:a") < text.index("| auroc | 0.7 |") < text.index("### OOD sets: far:b")


def test_one_way_of_asking_has_no_heading_and_is_said_below(tmp_path):
    page = evaluations([run_of(tmp_path, "random", 0, [line_of(3, {"all": 0.3}, "discovery", {"variant": "A"})])])
    assert "<h3>" not in page
    assert "At 30 labels; mean and 95 % interval over the seeds. variant: A." in page


def test_models_that_were_trained_again_are_told(tmp_path):
    """One sentence about all of them, whatever their number; and their own accuracy counts."""
    lines = [line_of(2, {"auroc": 0.7}), line_of(3, {"auroc": 0.8}, accuracy=0.512, journal=0.5)]
    runs = [run_of(tmp_path, "random", 0, lines)]
    said = "1 of 2 models were trained again; in accuracy they are +1.2 to +1.2 points from the first ones, +1.2"
    assert said in evaluations(runs)
    assert "trained again" not in evaluations([run_of(tmp_path, "margin", 0, [line_of(3, {"auroc": 0.7})])])
    same = [line_of(at, {"auroc": 0.7}, journal=0.5) for at in (2, 3)]
    text = evaluations_as_markdown([run_of(tmp_path, "ncal", 0, same)])
    assert "2 of 2 models were trained again, and are as accurate as the first ones." in text


def test_runs_that_have_other_numbers_of_labels_stay_in_the_table(tmp_path):
    """Where a policy asks twice, or a rule stops, the last models have not learnt from as many labels."""
    runs = [
        run_of(tmp_path, "ncal", 0, [line_of(2, {"auroc": 0.8})], spent=(10, 20)),
        run_of(tmp_path, "ncal", 1, [line_of(3, {"auroc": 0.9})]),
        run_of(tmp_path, "random", 0, [line_of(3, {"auroc": 0.7})]),
    ]
    [group] = evaluation_groups(runs)
    table, less = group_tables(group)
    assert rows_of(table)["labels"] == ["25 (20 to 30)", "30"]
    assert rows_of(table)["auroc"] == [cell([0.8, 0.9]), "0.7, 1 of 2 seeds"]
    assert table.words.startswith("The last evaluated model of each run")
    assert rows_of(less) == {"auroc": ["+0.1, 1 of 2 seeds"]}, "both are at the end of their runs"


def test_budgets_are_answers_where_the_run_counts_them(tmp_path):
    runs = [
        run_of(tmp_path, name, 0, [line_of(3, {"auroc": 0.8})], unit="answers", spent=(15, 25, 40))
        for name in ("ncal", "random")
    ]
    assert "At 40 answers" in evaluations(runs, "answers")


def test_differences_are_paired_by_seed_and_need_the_same_budget(tmp_path):
    own, rival = [0.8, 0.6, 0.7], [0.75, 0.58, 0.66]
    runs = [run_of(tmp_path, "ncal", seed, [line_of(3, {"auroc": value})]) for seed, value in enumerate(own)]
    runs += [run_of(tmp_path, "random", seed, [line_of(3, {"auroc": value})]) for seed, value in enumerate(rival)]
    runs += [run_of(tmp_path, "margin", 0, [line_of(2, {"auroc": 0.9})])]
    [group] = evaluation_groups(runs)
    _, less = group_tables(group)
    assert less.title == "Less random, paired by seed"
    assert less.head == ["", "ncal", "margin"]
    assert rows_of(less) == {"auroc": [cell(np.subtract(own, rival), "+.3g"), ""]}
    assert "+0.0367" in evaluations(runs)
    assert "+0.0367" in evaluations_as_markdown(runs)


def test_without_random_there_is_nothing_to_be_less_than(tmp_path):
    [group] = evaluation_groups([run_of(tmp_path, "ncal", 0, [line_of(3, {"auroc": 0.8})])])
    assert len(group_tables(group)) == 1


def test_intervals_end_where_a_share_does_and_nothing_is_nan(tmp_path):
    values = {"auroc": 0.9, "length": 0.9, "nothing": float("nan")}
    other = {"auroc": 0.99, "length": 0.99, "nothing": float("nan")}
    runs = [run_of(tmp_path, "ncal", seed, [line_of(3, v, limits=SHARE)]) for seed, v in enumerate((values, other))]
    [group] = evaluation_groups(runs)
    rows = rows_of(group_tables(group)[0])
    assert rows["auroc"] == ["0.945 (0.3732 to 1)"]
    assert rows["length"] == [cell([0.9, 0.99])]
    assert rows["nothing"] == [""]
    assert "nan" not in evaluations(runs) + evaluations_as_markdown(runs)


def test_the_difference_of_two_shares_is_no_more_than_one(tmp_path):
    runs = [run_of(tmp_path, "ncal", seed, [line_of(3, {"auroc": v}, limits=SHARE)]) for seed, v in enumerate((1, 0))]
    runs += [run_of(tmp_path, "random", seed, [line_of(3, {"auroc": 0.5}, limits=SHARE)]) for seed in (0, 1)]
    [group] = evaluation_groups(runs)
    assert rows_of(group_tables(group)[1]) == {"auroc": ["+0 (-1 to +1)"]}


def test_no_value_is_read_as_nan_however_it_was_written(tmp_path):
    run = run_of(tmp_path, "ncal", 0, [line_of(2, {"auroc": float("nan")}), line_of(3, {"auroc": None})])
    assert "NaN" in (run.journal.folder / EVALUATIONS).read_text()
    assert all(np.isnan(line["values"]["auroc"]) for line in read_evaluations(run))


def rising(strength, gain=0.0):
    return [
        line_of(number, {"auroc": 0.5 + strength * number / 10 + gain}, accuracy=0.4 + strength * number / 10)
        for number in (1, 2, 3)
    ]


def test_all_rounds_are_a_curve_and_detection_is_compared_at_equal_accuracy(tmp_path):
    """ncal learns faster, and detects better by no more than that: at equal accuracy nothing is left."""
    runs = [run_of(tmp_path, "ncal", seed, rising(1.2 + 0.01 * seed)) for seed in range(3)]
    runs += [run_of(tmp_path, "margin", seed, rising(1.2, 0.02 + 0.01 * seed)) for seed in range(3)]
    runs += [run_of(tmp_path, "random", seed, rising(1.0)) for seed in range(3)]
    [group] = evaluation_groups(runs)
    table, less, matched = group_tables(group)
    assert table.words.startswith("At 30 labels")
    assert rows_of(less)["auroc"][0].startswith("+0.063 (")
    assert matched.title == "Less random at equal accuracy"
    nothing, something = rows_of(matched)["auroc"]
    assert abs(float(nothing.partition(" ")[0])) < 1e-9
    assert something == cell([0.02, 0.03, 0.04], "+.3g")
    page = evaluations(runs)
    assert page.count("<svg") == 1
    assert "Means over the seeds of every round" in page
    text = evaluations_as_markdown(runs)
    assert "| auroc | random | 0.6 | 0.7 | 0.8 |" in text


def test_accuracies_that_never_meet_are_not_compared(tmp_path):
    high = [line_of(number, {"auroc": 0.9}, accuracy=0.8 + number / 100) for number in (2, 3)]
    low = [line_of(number, {"auroc": 0.7}, accuracy=0.3 + number / 100) for number in (2, 3)]
    runs = [run_of(tmp_path, "ncal", 0, high), run_of(tmp_path, "random", 0, low)]
    [group] = evaluation_groups(runs)
    assert [table.title for table in group_tables(group)] == ["", "Less random, paired by seed"]


def test_accuracy_against_coverage_is_drawn(tmp_path):
    curve = {"coverage": [0.5, 1.0], "accuracy": [0.9, 0.8]}
    page = evaluations([run_of(tmp_path, "ncal", 0, [line_of(3, {"ece": 0.1}, "calibration", coverage=curve)])])
    assert "coverage, % of the test items" in page
    assert "most certain of" in page


def test_many_notes_are_counted(tmp_path):
    line = line_of(3, {"auroc": 0.8}) | {"notes": [f"note {number}" for number in range(8)]}
    page = evaluations([run_of(tmp_path, "ncal", 0, [line])])
    assert "note 5. And 2 more notes in evaluations.jsonl." in page


@pytest.mark.parametrize("write", [evaluations, evaluations_as_markdown])
def test_no_evaluations_are_no_text(tmp_path, write):
    assert write([run_of(tmp_path, "ncal", 0, [])]) == ""


def test_lines_of_another_meaning_are_left_out_and_a_budget_has_its_last_model(tmp_path):
    old = {**line_of(3, {"auroc": 0.1}), "version": VERSION - 1}
    run = run_of(
        tmp_path, "random", 0, [old, line_of(2, {"auroc": 0.7}), line_of(3, {"auroc": 0.9})], spent=(10, 20, 20)
    )
    assert [line["values"]["auroc"] for line in read_evaluations(run)] == [0.7, 0.9]
    [group] = evaluation_groups([run])
    assert [(point.spent, point.line["values"]["auroc"]) for point in group.every] == [(20, 0.9)]
