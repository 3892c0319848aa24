"""From vectors and some labels to the next items, a head trained on the way."""

from __future__ import annotations

import numpy as np
import pytest

import ncalr
from ncalr.errors import BadInput, MissingExtra
from ncalr.learn import suggest as module
from ncalr.learn.suggest import suggest

N, M = 240, 40


@pytest.fixture(scope="module")
def problem():
    """Three bunches; the first items are labelled."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, N)
    vectors = (3 * np.eye(6)[truth] + rng.normal(size=(N, 6))).astype(np.float32)
    return vectors, np.where(np.arange(N) < M, truth, -1)


@pytest.fixture(params=["torch", "sklearn"])
def head(request, monkeypatch):
    monkeypatch.setattr(module, "installed", lambda name: name == request.param)
    return request.param


@pytest.mark.parametrize("strategy", ["ncal", "margin", "badge", "ncal(fusion=rank)"])
def test_picks_are_open_items_and_the_head_is_told_of(problem, head, strategy):
    picks = suggest(12, *problem, strategy)
    assert len(set(picks.ids.tolist())) == 12
    assert picks.ids.min() >= M
    name = {"torch": "a perceptron", "sklearn": "a logistic regression"}[head]
    assert picks.notes[0].startswith(f"{name} learnt {M} labels of 3 classes")
    assert picks.ids.tolist() == suggest(12, *problem, strategy).ids.tolist()


def test_doubtful_items_come_first(problem, head):
    """The most doubtful items of the margin strategy lie between the bunches."""
    vectors, labels = problem
    picks = suggest(20, vectors, labels, "margin")
    nearest = np.sort(np.linalg.norm(vectors[:, None] - 3 * np.eye(6)[None, :3], axis=2), axis=1)
    gap = nearest[:, 1] - nearest[:, 0]
    assert gap[picks.ids].mean() < 0.6 * gap[M:].mean()


def test_ids_and_what_is_excluded(problem):
    vectors, labels = problem
    names = np.array([f"item {at}" for at in range(N)])
    first = suggest(5, vectors, labels, ids=names)
    again = suggest(5, vectors, labels, ids=names, exclude=[names[0], *first.ids[:2]])
    assert again.ids[:3].tolist() == first.ids[2:].tolist()
    assert suggest(5, vectors, labels, ids=names, exclude=names[:M]).ids.tolist() == first.ids.tolist()
    assert (
        suggest(5, vectors, labels, ids=names, exclude={*first.ids[:2].tolist()}).ids[:3].tolist()
        == first.ids[2:].tolist()
    )


@pytest.mark.parametrize("strategy", ["typiclust", "coreset", "random"])
def test_strategies_that_look_at_vectors_alone_train_nothing(problem, strategy, monkeypatch):
    monkeypatch.setattr(module, "_head", lambda *_: pytest.fail("a head was made"))
    vectors, labels = problem
    picks = suggest(6, vectors, labels, strategy)
    assert picks.ids.min() >= M
    known = {
        "typiclust": {"labelled_features": vectors[:M]},
        "coreset": {"labelled_features": vectors[:M]},
        "random": {},
    }
    direct = ncalr.query(strategy, 6, features=vectors[M:], ids=np.arange(M, N), **known[strategy])
    assert picks.ids.tolist() == direct.ids.tolist()


def test_the_very_first_items(problem):
    vectors, none = problem[0], np.full(N, -1)
    assert len(suggest(7, vectors, none, "typiclust")) == 7
    with pytest.raises(
        BadInput, match="ncal needs a model, and no item has a label: take strategy typiclust or random"
    ):
        suggest(7, vectors, none)


def test_what_cannot_be(problem):
    vectors, labels = problem
    with pytest.raises(BadInput, match="nothing left to suggest"):
        suggest(1, vectors, np.zeros(N, int))
    for wrong in (labels[:-1], labels.astype(float), labels[:, None]):
        with pytest.raises(BadInput, match=f"a class number for each of the {N} items, -1 where there is none, got "):
            suggest(1, vectors, wrong)
    with pytest.raises(BadInput, match="a classifier needs two classes"):
        suggest(1, vectors, np.where(labels == 1, 1, -1))


def test_labels_that_count_from_one_are_noticed(problem):
    vectors, labels = problem
    shifted = np.where(labels >= 0, labels + 1, -1)
    assert not any("count from 1" in note for note in suggest(3, vectors, labels).notes)
    assert sum("count from 1" in note for note in suggest(3, vectors, shifted).notes) == 1


def test_without_anything_that_learns(problem, monkeypatch):
    monkeypatch.setattr(module, "installed", lambda name: False)
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[torch\]'"):
        suggest(3, *problem)
