"""SISOM and SISOMe against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
from slow_references import energy, sisom, sisom_ratio, sisome

from ncalr.acquire.query import query
from ncalr.acquire.scores import sisom as scores
from ncalr.errors import MissingEvidence

pytestmark = pytest.mark.usefixtures("one_thread")


def problem(seed, n=120, m=50, classes=4, d=7, kind=np.float64):
    rng = np.random.default_rng(seed)
    return {
        "enhanced": rng.normal(size=(n, d)).astype(kind),
        "predictions": rng.integers(0, classes, n),
        "labelled_enhanced": rng.normal(size=(m, d)).astype(kind),
        "labels": rng.permutation(np.arange(m) % classes),
    }


def with_logits(given, seed, classes=4):
    rng = np.random.default_rng(seed)
    n, m = len(given["enhanced"]), len(given["labels"])
    return {**given, "logits": 5 * rng.normal(size=(n, classes)), "labelled_logits": 5 * rng.normal(size=(m, classes))}


def looped(given):
    return sisom(given["enhanced"], given["predictions"], given["labelled_enhanced"], given["labels"])


def looped_with_energy(given):
    return sisome(
        given["enhanced"],
        given["predictions"],
        given["labelled_enhanced"],
        given["labels"],
        given["logits"],
        given["labelled_logits"],
    )


def check(name, given, expected, **tolerance):
    picks = query(name, len(expected), **given)
    np.testing.assert_allclose(picks.scores, expected[picks.ids], **tolerance)
    assert (np.diff(picks.scores) <= 0).all()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_sisom(kind, backend):
    given = problem(0, kind=kind)
    wide = {name: a.astype(np.float64) if a.dtype == kind else a for name, a in given.items()}
    check("sisom", given, looped(wide), rtol=1e-9 if kind == np.float64 else 1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_sisome(seed, backend):
    given = with_logits(problem(seed), seed)
    check("sisome", given, looped_with_energy(given), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strategy", ["sisom", "sisome"])
def test_memory_does_not_grow_with_the_labelled_set(strategy, backend, monkeypatch):
    """No table of distances is larger than a block, however many labelled items there are; the scores are the same."""
    given = with_logits(problem(1, n=60, m=200), 1)
    whole = query(strategy, 60, **given)
    monkeypatch.setattr(scores, "_BLOCK_BYTES", 8 * 200 * 7)
    seen = []
    monkeypatch.setattr(scores, "check_range", lambda _, squares: seen.append(tuple(squares.shape)) or squares)
    again = query(strategy, 60, **given)
    assert again.ids.tolist() == whole.ids.tolist()
    np.testing.assert_allclose(again.scores, whole.scores, rtol=1e-12)
    assert seen[:29] == [(7, 200)] * 28 + [(4, 200)]
    assert max(rows * width for rows, width in seen) <= 7 * 200


def test_sisome_of_separate_classes_is_mostly_the_ratio(backend):
    """Tight classes far apart: R is near 0, and the energy hardly counts."""
    given = with_logits(problem(3), 3)
    given["labelled_enhanced"] = np.eye(4, 7)[given["labels"]] * 100 + given["labelled_enhanced"] / 100
    expected = looped_with_energy(given)
    check("sisome", given, expected, rtol=1e-6, atol=1e-6)
    assert np.corrcoef(expected, looped(given))[0, 1] > 0.99


def test_sisome_of_overlapping_classes_is_energy_alone(backend):
    """Whole classes further apart inside than to each other: R is above 1."""
    bank = np.array([[0.0], [10], [1], [11]])
    given = {
        "enhanced": np.array([[3.0], [4.0], [9.0]]),
        "predictions": [0, 1, 0],
        "labelled_enhanced": bank,
        "labels": [0, 0, 1, 1],
        "logits": np.array([[1.0, 2], [3, 0], [0, 0]]),
        "labelled_logits": np.array([[1.0, 0], [2, 0], [3, 0], [4, 0]]),
    }
    warm = energy(given["labelled_logits"])
    check("sisome", given, (energy(given["logits"]) - warm.mean()) / warm.std(), rtol=1e-9)


def test_a_predicted_class_without_labels_has_ratio_one(backend):
    given = problem(4)
    given["labels"][given["labels"] == 2] = 1
    expected = looped(given)
    assert (expected[given["predictions"] == 2] == 1).all()
    check("sisom", given, expected, rtol=1e-9)


def test_a_single_labelled_class_has_ratio_one(backend):
    given = problem(5)
    given["labels"][:] = 0
    check("sisom", {**given, "classes": 4}, np.ones(120))
    given = with_logits(given, 5)
    warm = energy(given["labelled_logits"])
    check("sisome", given, (energy(given["logits"]) - warm.mean()) / warm.std(), rtol=1e-9)


def test_a_class_with_one_labelled_item(backend):
    """It has no other item of its class to be compared with; the pool has it to be compared with."""
    given = with_logits(problem(6), 6)
    given["labels"] = np.array([3] + [0, 1, 2] * 16 + [0])
    check("sisom", given, looped(given), rtol=1e-9)
    check("sisome", given, looped_with_energy(given), rtol=1e-9, atol=1e-9)


def test_one_labelled_item_in_all(backend):
    given = with_logits(problem(7, m=1, classes=4), 7)
    given["labels"] = np.array([2])
    check("sisom", {**given, "classes": 4}, np.ones(120))
    check("sisome", given, energy(given["logits"]) - energy(given["labelled_logits"]).mean(), rtol=1e-9)


def test_nothing_between_two_classes_scores_a_millionth(backend):
    """Whole numbers: the distance of two twins is 0 exactly. The released code sets r to 1e-6 here."""
    given = {
        "enhanced": np.array([[1.0, 0], [9, 9]]),
        "predictions": [0, 0],
        "labelled_enhanced": np.array([[2.0, 0], [2, 0]]),
        "labels": [0, 1],
    }
    assert query("sisom", 2, **given).scores.tolist() == [1e-6, 1e-6]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_twins_with_different_labels_score_a_millionth_whatever_their_numbers(kind, backend):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 96)).astype(kind)
    picks = query(
        "sisom",
        40,
        enhanced=rng.normal(size=(40, 96)).astype(kind),
        predictions=rng.integers(0, 2, 40),
        labelled_enhanced=np.concatenate([rows, rows]),
        labels=np.repeat([0, 1], 20),
    )
    np.testing.assert_allclose(picks.scores, 1e-6, rtol=1e-3)


def test_a_labelled_item_found_again_in_the_pool_scores_zero(backend):
    rows = np.random.default_rng(0).normal(3, 1, size=(20, 96)).astype(np.float32)
    classes = np.arange(20) % 2
    picks = query("sisom", 20, enhanced=rows, predictions=classes, labelled_enhanced=rows, labels=classes)
    assert picks.scores.tolist() == [0] * 20


def test_blocks_change_nothing(backend, monkeypatch):
    given = with_logits(problem(8), 8)
    whole = query("sisome", 120, **given)
    monkeypatch.setattr("ncalr.acquire.scores.sisom._BLOCK", 7)
    parts = query("sisome", 120, **given)
    assert parts.ids.tolist() == whole.ids.tolist()
    np.testing.assert_allclose(parts.scores, whole.scores, rtol=1e-9)


def test_constant_energies_count_nothing(backend):
    given = with_logits(problem(9), 9)
    given["labelled_logits"] = np.zeros((50, 4))
    given["logits"] = np.zeros((120, 4))
    at_home = looped_at_home(given)
    ratio = (looped(given) - at_home.mean()) / at_home.std()
    check("sisome", given, max(1 - at_home.mean(), 0) * ratio, rtol=1e-9, atol=1e-12)


def looped_at_home(given):
    bank, labels = given["labelled_enhanced"], given["labels"]
    return np.array([sisom_ratio(bank[i], labels[i], bank, labels, skip=i) for i in range(len(bank))])


def test_sisome_needs_logits_of_both_sets():
    given = with_logits(problem(0), 0)
    del given["labelled_logits"]
    with pytest.raises(MissingEvidence, match=r"needs labelled_logits: pass labelled_logits="):
        query("sisome", 1, **given)


def test_a_large_common_offset_does_not_change_the_ratios():
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    pool, bank = rng.normal(size=(300, 8)), rng.normal(size=(30, 8)) + np.eye(3, 8)[labels]
    given = {"labels": labels, "predictions": rng.integers(0, 3, 300)}
    plain = query("sisom", 300, enhanced=pool, labelled_enhanced=bank, **given)
    moved = [(rows + 1000).astype(np.float32) for rows in (pool, bank)]
    found = query("sisom", 300, enhanced=moved[0], labelled_enhanced=moved[1], **given)
    scores = [dict(zip(picks.ids.tolist(), picks.scores.tolist(), strict=True)) for picks in (plain, found)]
    assert all(scores[1][item] == pytest.approx(score, rel=5e-3) for item, score in scores[0].items())
