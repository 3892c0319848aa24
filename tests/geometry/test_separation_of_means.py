"""Distances between class means: by hand, by pairs, and as quantiles."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ncalr.geometry import ClassStatistics, class_distances, separation_of


def test_every_pair_once_and_only_of_classes_with_labels():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6, 4)) + 100
    counts = np.array([3, 1, 0, 2, 5, 0])
    found = class_distances(ClassStatistics(counts, means, np.zeros(6)))
    expected = [np.linalg.norm(means[a] - means[b]) for a, b in combinations(np.flatnonzero(counts), 2)]
    assert found == pytest.approx(expected, rel=1e-10)


def test_quantiles_run_from_the_nearest_pair_to_the_farthest():
    means = np.array([[0.0, 0], [3, 4], [0, 1]])
    found = separation_of(ClassStatistics(np.array([1, 1, 1]), means, np.zeros(3)))
    assert len(found["quantiles"]) == 21
    assert found["quantiles"][0] == 1.0
    assert found["quantiles"][10] == pytest.approx(np.sqrt(18), abs=1e-3)
    assert found["quantiles"][-1] == 5.0
    assert found["norm"] == 2.0


def test_one_class_has_no_distances():
    found = separation_of(ClassStatistics(np.array([2, 0]), np.ones((2, 3)), np.zeros(2)))
    assert found == {"quantiles": [], "norm": 0.0}
