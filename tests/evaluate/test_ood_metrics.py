"""Detection measures by hand and against scikit-learn, the table of sets and groups, and classes that overlap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from ncalr.errors import BadInput, NotFinite
from ncalr.evaluate.ood import MEAN, detect, fit
from ncalr.evaluate.ood_metrics import (
    METRICS,
    at_matched_accuracy,
    aupr_in,
    aupr_out,
    auroc,
    detection_metrics,
    fpr95_id_pos,
    fpr95_ood_pos,
)
from ncalr.evaluate.ood_overlap import without_overlap

steady = settings(deadline=None, derandomize=True, max_examples=150)
scores = st.lists(st.integers(-6, 6), min_size=1, max_size=70)  # few values: ties everywhere


# -- measures -------------------------------------------------------------------------------------------------


@steady
@given(inside=scores, outside=scores)
def test_the_areas_are_those_of_scikit_learn(inside: list[int], outside: list[int]) -> None:
    is_inside = np.repeat([1, 0], [len(inside), len(outside)])
    score = np.array(inside + outside) / 7
    found = detection_metrics(np.array(inside) / 7, np.array(outside) / 7)
    assert found["auroc"] == pytest.approx(sklearn_metrics.roc_auc_score(is_inside, score), abs=1e-12)
    precision, recall, _ = sklearn_metrics.precision_recall_curve(is_inside, score)
    assert found["aupr_in"] == pytest.approx(sklearn_metrics.auc(recall, precision), abs=1e-12)
    precision, recall, _ = sklearn_metrics.precision_recall_curve(1 - is_inside, -score)
    assert found["aupr_out"] == pytest.approx(sklearn_metrics.auc(recall, precision), abs=1e-12)


@steady
@given(inside=scores, outside=scores)
def test_fpr95_is_the_first_point_of_the_curve_that_reaches_it(inside: list[int], outside: list[int]) -> None:
    is_inside = np.repeat([1, 0], [len(inside), len(outside)])
    score = np.array(inside + outside)
    wrong, right, _ = sklearn_metrics.roc_curve(is_inside, score, drop_intermediate=False)
    assert fpr95_id_pos(inside, outside) == wrong[np.argmax(right >= 0.95)]
    wrong, right, _ = sklearn_metrics.roc_curve(1 - is_inside, -score, drop_intermediate=False)
    assert fpr95_ood_pos(inside, outside) == wrong[np.argmax(right >= 0.95)]


def test_auroc_with_ties_by_hand() -> None:
    # of 3 x 2 pairs: 3 beats both, 2 beats one and ties with one, 1 loses to one and beats one
    assert auroc([3, 2, 1], [2, 0]) == (2 + 1.5 + 1) / 6
    assert auroc([1, 1], [1, 1, 1]) == 0.5
    assert auroc([1], [2]) == 0


def test_the_two_conventions_differ() -> None:
    """20 ID items at 1..20, 20 OOD items at 0.5 but for one at 19.5 and one at 20.5."""
    inside = np.arange(1.0, 21.0)
    outside = np.array([0.5] * 18 + [19.5, 20.5])
    assert fpr95_id_pos(inside, outside) == 0.1  # 19 of 20 ID items are at 2 or more, and so are two OOD items
    assert fpr95_ood_pos(inside, outside) == 0.95  # 19 of 20 OOD items are at 19.5 or less, and so are 19 ID items
    assert auroc(inside, outside) == pytest.approx((18 * 20 + 1 + 0) / 400)


def test_precision_and_recall_by_hand() -> None:
    # ID positive, from the top: 4 is ID (1/1), 3 OOD (1/2), 2 ID (2/3): trapezoids over recall 0, 1/2, 1/2, 1
    assert aupr_in([4, 2], [3]) == pytest.approx(0.5 * (1 + 1) / 2 + 0.5 * (1 / 2 + 2 / 3) / 2)
    # OOD positive: 2 is ID (0/1), 3 OOD (1/2)
    assert aupr_out([4, 2], [3]) == pytest.approx((0 + 1 / 2) / 2)


def test_all_measures_by_name() -> None:
    inside, outside = np.array([0.9, 0.8, 0.8, 0.4]), torch.tensor([0.8, 0.1], dtype=torch.float64)
    found = detection_metrics(inside, outside)
    assert tuple(found) == METRICS
    assert found["auroc"] == auroc(inside, outside)
    assert (found["fpr95_ood_pos"], found["fpr95_id_pos"]) == (0.75, 0.5)
    assert (found["aupr_in"], found["aupr_out"]) == (aupr_in(inside, outside), aupr_out(inside, outside))


def test_many_items_do_not_overflow() -> None:
    many = np.zeros(70_000, np.float32)
    assert auroc(many, many) == 0.5


@pytest.mark.parametrize("measure", [auroc, aupr_in, aupr_out, fpr95_id_pos, fpr95_ood_pos])
@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([], [1], r"ID scores must be a list of at least one number, got float64 of shape \(0,\)"),
        ([1], [], "OOD scores must be a list of at least one number"),
        ([[1]], [1], r"ID scores must be .* of shape \(1, 1\)"),
        (["a"], [1], "ID scores must be"),
        ([1, math.nan], [1], "ID scores hold 1 values that are NaN or infinite, the first at 1"),
        ([1], [math.inf, 0, math.nan], "OOD scores hold 2 values that are NaN or infinite, the first at 0"),
    ],
)
def test_scores_that_cannot_be(measure: Any, inside: Any, outside: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        measure(inside, outside)


# -- at matched accuracy --------------------------------------------------------------------------------------


def test_the_measure_where_all_runs_are_equally_accurate() -> None:
    runs = {
        "quick": ([0.5, 0.7, 0.9], [0.60, 0.70, 0.90]),
        "slow": ([0.4, 0.6, 0.8], [0.50, 0.60, 0.70]),
    }
    found = at_matched_accuracy(runs)
    assert found.accuracy == 0.8  # the most that both reach
    assert found.values == pytest.approx({"quick": 0.80, "slow": 0.70})
    assert at_matched_accuracy(runs, 0.6).values == pytest.approx({"quick": 0.65, "slow": 0.60})


def test_the_first_time_counts() -> None:
    wavering = {"run": ([0.5, 0.7, 0.6, 0.8], [0.1, 0.3, 0.5, 0.9])}
    assert at_matched_accuracy(wavering, 0.65).values["run"] == pytest.approx(0.25)
    assert at_matched_accuracy(wavering, 0.7).values["run"] == pytest.approx(0.3)


def test_nothing_is_said_beyond_a_run() -> None:
    found = at_matched_accuracy({"a": ([0.5, 0.6], [1, 2]), "b": ([0.7, 0.8], [3, 4])}, 0.7)
    assert math.isnan(found.values["a"])
    assert found.values["b"] == 3
    assert math.isnan(at_matched_accuracy({"b": ([0.7, 0.8], [3, 4])}, 0.6).values["b"])


def test_one_round() -> None:
    assert at_matched_accuracy({"a": ([0.5], [0.9])}).values == {"a": 0.9}


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({}, "no runs given"),
        ({"a": ([0.5, 0.6], [1])}, "'a' has 2 accuracies and 1 values; give one of each a round"),
        ({"a": ([0.5, math.nan], [1, 2])}, "accuracies of 'a' hold 1 values that are NaN"),
        (
            {"a": ([0.5, 0.6], [1, 2]), "b": ([0.7, 0.8], [3, 4])},
            "no accuracy that all runs pass through: 'b' starts at 0.7 and another run reaches 0.6 at most",
        ),
    ],
)
def test_runs_that_cannot_be_matched(runs: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        at_matched_accuracy(runs)


# -- sets and groups ------------------------------------------------------------------------------------------

LABELLED = np.array([[4.0, 0], [5, 0], [0, 4], [0, 5]])
LABELS = [0, 0, 1, 1]
TEST = np.array([[4.5, 0.1], [0.1, 4.5], [3.0, 0.2]])
AWAY, AMONG = np.array([[-4.0, -4], [-1, -3]]), np.array([[4.5, 0.05], [0.1, 4.4], [-2, -2], [-1, 0]])


def test_rows_and_means_of_groups() -> None:
    detectors = fit(LABELLED, LABELS, weight=np.eye(2), scores=["max_logit", "knn(k=1)"])
    found = detect(detectors, TEST, {"near": {"among": AMONG, "away": AWAY}, "far": {"away": AWAY}, "none": {}})
    shown = [(row["score"], row["set"], row["group"], row["items"]) for row in found.rows]
    assert shown == [
        ("max_logit", "among", "near", 4),
        ("max_logit", "away", "near", 2),
        ("max_logit", MEAN, "near", 6),
        ("max_logit", "away", "far", 2),
        ("max_logit", MEAN, "far", 2),
        ("knn(k=1)", "among", "near", 4),
        ("knn(k=1)", "away", "near", 2),
        ("knn(k=1)", MEAN, "near", 6),
        ("knn(k=1)", "away", "far", 2),
        ("knn(k=1)", MEAN, "far", 2),
    ]
    inside, outside = TEST.max(axis=1), AMONG.max(axis=1)
    assert {name: found.rows[0][name] for name in METRICS} == detection_metrics(inside, outside)
    for name in METRICS:  # every set counts the same, whatever its size
        assert found.rows[2][name] == pytest.approx((found.rows[0][name] + found.rows[1][name]) / 2)
    assert found.rows[3]["auroc"] == 1
    assert found.rows[0]["auroc"] < found.rows[2]["auroc"] < 1


def test_notes_come_with_the_rows() -> None:
    detectors = fit(LABELLED, LABELS, scores=["knn"])
    found = detect(detectors, TEST, {"far": {"away": AWAY}})
    assert found.notes == ("knn: k = 2, the mean number of labels a class, instead of 50",)


def test_sets_with_logits() -> None:
    detectors = fit(LABELLED, LABELS, scores=["max_logit"])
    inside, outside = (TEST, [[1.0, 0], [2, 0], [3, 0]]), (AWAY, [[1.5, 0], [0, 2.5]])
    row = detect(detectors, inside, {"far": {"away": outside}}).rows[0]
    assert row["auroc"] == auroc([1, 2, 3], [1.5, 2.5])


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (TEST, {}, "no OOD sets given: pass {'near': {name: features}, 'far': {...}}"),
        (TEST, {"near": {}, "far": {}}, "no OOD sets given"),
        (TEST, {"far": {"svhn": np.ones((0, 2))}}, "OOD set 'svhn': no items; a set needs at least one"),
        (
            TEST,
            {"far": {"svhn": np.ones((5, 3))}},
            "features of OOD set 'svhn' have 3 dimensions, those of",
        ),
        (TEST[:0], {"far": {"svhn": AWAY}}, "the ID test set: no items"),
        (TEST, {"far": {"svhn": (AWAY, AWAY, AWAY)}}, r"a pair \(features, logits\), got 3 things"),
        (TEST, {"far": {"svhn": (AWAY, np.ones((3, 2)))}}, "logits of OOD set 'svhn' must have shape"),
    ],
)
def test_sets_that_cannot_be(inside: Any, outside: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        detect(fit(LABELLED, LABELS, scores=["knn"]), inside, outside)


def test_nan_in_an_ood_set_is_named() -> None:
    bad = AWAY.copy()
    bad[1, 0] = np.nan
    with pytest.raises(NotFinite, match=r"features of OOD set 'svhn': 1 values are NaN .* first at \[1, 0\]"):
        detect(fit(LABELLED, LABELS, scores=["knn"]), TEST, {"far": {"svhn": bad}})


# -- classes that overlap -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("maple_tree", "Maple tree"),
        ("SPORTS-CAR", "sports_car"),
        ("sea lion", "sealion"),
        ("tench, Tinca tinca", "Tench"),
        ("n01440764", "N01440764"),
        (("tench", "n01440764"), "n01440764"),
        (("fish", "n01440764"), ("tench", "n01440764")),
        (("crane", "n02012849"), "crane"),
        ("Straße", "STRASSE"),
    ],
)
def test_the_same_class_under_other_spellings(name: Any, twin: Any) -> None:
    found = without_overlap([0, 1, 0], [name, "something else"], ["a bus", twin])
    assert found.keep.tolist() == [False, True, False]
    assert len(found.removed) == 1


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (("crane", "n02012849"), ("crane", "n03126707")),  # the bird and the machine
        ("maple", "maple_tree"),
        ("n01440764", "n01440765"),
        ("beagle", "dog"),
    ],
)
def test_classes_that_are_not_the_same(name: Any, other: Any) -> None:
    found = without_overlap([0, 0], [name], [other])
    assert found.keep.all()
    assert (found.removed, found.note) == ({}, "")


def test_what_was_removed_is_said() -> None:
    names = [f"class_{number}" for number in range(9)] + ["new"]
    found = without_overlap(torch.arange(10), names, [f"Class {number}" for number in range(9)])
    assert found.keep.tolist() == [False] * 9 + [True]
    assert found.removed["class_3"] == "Class 3"
    assert found.note.startswith("removed 9 of 10 items, of 9 classes that are trained on: 'class_0' ('Class 0'), ")
    assert found.note.endswith("'class_4' ('Class 4') and 4 more")


def test_a_class_without_items_is_reported_too() -> None:
    found = without_overlap([1], ["cat", "dog"], ["cat"])
    assert found.note == "removed 0 of 1 items, of 1 class that is trained on: 'cat' ('cat')"
    assert without_overlap([], ["cat"], ["cat"]).keep.tolist() == []


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 2], ["a", "b"], r"labels must lie in 0..1 for 2 names, got 0..2"),
        ([-1], ["a"], r"labels must lie in 0..0 for 1 names, got -1..-1"),
        ([0.0], ["a"], "labels must be a list of class numbers, got float64"),
        ([[0]], ["a"], r"labels must be a list of class numbers, got int64 of shape \(1, 1\)"),
        ([0], [" _-"], "a class needs a name or a WordNet id, got ' _-'"),
        ([0], [()], r"a class needs a name or a WordNet id, got \(\)"),
    ],
)
def test_classes_that_cannot_be_told(labels: Any, names: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        without_overlap(labels, names, ["train"])


def test_labels_counted_from_1_are_noticed() -> None:
    def notes(**more) -> str:
        return " ".join(fit(LABELLED, np.array(LABELS) + 1, scores=["knn"], **more).notes)

    assert "the labels lie in 1.." in notes()
    assert "the labels lie in" not in notes(classes=max(LABELS) + 2)
