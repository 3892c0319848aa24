"""The yardstick writes strategies out in NumPy; here they are compared with those of the package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import ncalr


@pytest.fixture(scope="module")
def yardstick():
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("yardstick")
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("strategy", ["ncal_coverage", "uherding", "maxherding", "margin"])
def test_the_same_picks_as_the_package(yardstick, strategy):
    """The package covers the open items alone and bounds the density, so single picks may differ."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(12, 16))
    rows = centres[rng.integers(0, 12, 900)] + rng.normal(size=(900, 16))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    labels = (rows @ rng.normal(size=(16, 4))).argmax(axis=1)
    labelled = np.arange(40) * 20
    open_ = np.setdiff1d(np.arange(900), labelled)
    state = yardstick.State(rows=rows, k=20, labelled=labelled, classes=4, density=None)
    state.squares = np.maximum(2 - 2 * rows @ rows.T, 0)
    state.given = labels[labelled]
    state.probs = yardstick.chances(yardstick.regression(rows[labelled], state.given, 10.0), rows, 4)
    wanted = ncalr.query(
        strategy,
        20,
        features=rows[open_],
        probs=state.probs[open_],
        labelled_features=rows[labelled],
        labels=state.given,
        ids=open_,
    ).ids
    found = yardstick.STRATEGIES[strategy](state)
    assert len(np.intersect1d(found, wanted)) >= 18


def test_replays_are_repeatable_and_paired(yardstick, monkeypatch):
    """The same case gives the same figures; without wrong labels no pick has one."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    rows = (rng.normal(size=(3, 8))[labels] + rng.normal(size=(400, 8))).astype(np.float32)
    monkeypatch.setattr(yardstick, "load", lambda _: (rows, labels, np.arange(400) < 300, 3))
    chosen = {name: yardstick.STRATEGIES[name] for name in ("random", "ncal_coverage", "typiclust", "badge", "cdal")}
    found = yardstick.replay("made-up", "clean", "few", 1, chosen)
    assert found == yardstick.replay("made-up", "clean", "few", 1, chosen)
    assert all(one["wrong"] == 0 and one["distinct"] == 1 for one in found.values())
    noisy = yardstick.replay("made-up", "u20", "few", 1, {"random": chosen["random"]})
    assert 5 < noisy["random"]["wrong"] < 40
