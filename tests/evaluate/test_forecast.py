"""What more labels are expected to bring."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import ncalr
from ncalr.acquire.control import draws
from ncalr.errors import BadInput
from ncalr.evaluate.forecast import quantiles
from ncalr.learn.linear import fit_linear

N, M, C = 3000, 200, 4


@cache
def problem():
    """Four overlapping bunches; labels of the first items are given, random ones and hard ones."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, C, N)
    vectors = (1.5 * np.eye(12)[truth] + rng.normal(size=(N, 12))).astype(np.float32)
    return vectors, truth


def in_order(seed=0):
    return np.argsort(draws(np.arange(N), seed))


def labelled(control=40):
    """M labels: control items, and items between bunches."""
    vectors, truth = problem()
    chosen = in_order()[:control]
    edge = np.argsort(np.diff(np.sort(vectors[:, :C], axis=1)[:, -2:], axis=1)[:, 0])
    rest = edge[~np.isin(edge, chosen)][: M - control]
    return np.where(np.isin(np.arange(N), np.concatenate([chosen, rest])), truth, -1)


def accuracy(labels, wanted=None):
    """Of a logistic regression on the items without a label."""
    vectors, truth = problem()
    kept = labels >= 0
    fitted = fit_linear(vectors[kept], labels[kept], 0.1, standardise=False)
    return float((fitted.predict(vectors[~kept]) == (truth if wanted is None else wanted)[~kept]).mean())


def test_control_items_show_the_accuracy_that_hard_labels_hide():
    vectors, truth = problem()
    labels = labelled()
    found = ncalr.forecast(vectors, labels, [M, 5 * M], classes=C)
    assert found.control == 40
    assert found.now.low <= accuracy(labels) <= found.now.high
    assert found.now.high - found.now.low < 0.25
    random = in_order()[: 6 * M]
    assert found.ahead[1].low <= accuracy(np.where(np.isin(np.arange(N), random), truth, -1)) <= found.ahead[1].high
    assert [line.labels for line in found.ahead] == [2 * M, 6 * M]
    assert found.ahead[1].gain_low < found.ahead[1].gain < found.ahead[1].gain_high
    assert found == ncalr.forecast(vectors, labels, [M, 5 * M], classes=C)
    assert ncalr.forecast(vectors, labels, M).now == found.now


def test_control_items_are_those_that_suggest_drew():
    vectors, truth = problem()
    labels = np.where(np.arange(N) < 60, truth, -1)
    for _ in range(2):
        picks = ncalr.suggest(vectors, labels, 60, "coreset", control=0.25, seed=3)
        assert picks.control.sum() == 15
        assert (labels[picks.ids] == -1).all()
        labels[picks.ids] = truth[picks.ids]
    found = ncalr.forecast(vectors, labels, control=0.25, seed=3)
    assert 30 <= found.control <= 36  # some of the first sixty stand at the start of the order
    assert ncalr.forecast(vectors, labels, control=0.25, seed=4).control == 0


@pytest.mark.parametrize("strategy", ["coreset", "margin"])
def test_labels_of_control_items_have_no_say_in_what_is_picked(strategy, monkeypatch):
    monkeypatch.setattr("ncalr.learn.suggest.installed", lambda name: name == "sklearn")  # the quicker head
    vectors, _ = problem()
    labels = labelled()
    picks = ncalr.suggest(vectors, labels, 30, strategy, control=0.1)
    others = np.where(np.isin(np.arange(N), in_order()[:40]), (labels + 1) % C, labels)
    again = ncalr.suggest(vectors, others, 30, strategy, control=0.1)
    assert picks.ids.tolist() == again.ids.tolist()
    assert (labels[picks.ids] == -1).all()
    assert (draws(picks.ids, 0) < 0.1).tolist() == picks.control.tolist()
    assert ncalr.suggest(vectors, labels, 30, strategy).control is None


def test_control_items_belong_to_ids_and_the_last_items_are_picked():
    vectors, _ = problem()
    names = np.array([f"item {at}" for at in range(N)])
    drawn = ncalr.suggest(vectors, None, 40, "coreset", control=0.2, ids=names)
    again = ncalr.suggest(vectors[::-1], None, 40, "random", control=0.2, ids=names[::-1])
    assert drawn.ids[drawn.control].tolist() == again.ids[again.control].tolist()
    open_ = in_order()[:5]
    last = ncalr.suggest(vectors, np.where(np.isin(np.arange(N), open_), -1, 0), 5, "margin", control=0.1)
    assert set(last.ids.tolist()) == set(open_.tolist())
    assert last.control.all()


def test_without_control_items_the_interval_is_wide_and_a_note_says_why():
    vectors, _ = problem()
    labels = labelled()
    known = ncalr.forecast(vectors, labels, M)
    unknown = ncalr.forecast(vectors, labels, M, control=[])
    assert ncalr.forecast(vectors, labels, M, control=0) == unknown
    assert unknown.control == 0
    assert known.notes == ()
    assert "no control items" in unknown.notes[0]
    assert unknown.now.high - unknown.now.low > 1.5 * (known.now.high - known.now.low)
    assert unknown.now.low <= accuracy(labels) <= unknown.now.high


def test_control_items_by_id_and_all():
    vectors, truth = problem()
    names = np.array([f"item {at}" for at in range(N)])
    labels = np.where(np.arange(N) < M, truth, -1)  # the order of the items is random
    some = ncalr.forecast(vectors, labels, M, ids=names, control=names[:50])
    every = ncalr.forecast(vectors, labels, M, ids=names, control="all")
    assert (some.control, every.control) == (50, M)
    assert every.now.low <= accuracy(labels) <= every.now.high
    assert every.now.high - every.now.low < some.now.high - some.now.low


def test_wrong_labels_cap_agreement_and_a_known_share_of_them_is_undone():
    vectors, truth = problem()
    rng = np.random.default_rng(1)
    given = np.where(rng.random(N) < 0.2, (truth + rng.integers(1, C, N)) % C, truth)
    labels = np.where(np.arange(N) < 2 * M, given, -1)
    agreement = ncalr.forecast(vectors, labels, M, control="all")
    right = ncalr.forecast(vectors, labels, M, control="all", wrong=0.2)
    assert agreement.now.low <= accuracy(labels, given) <= agreement.now.high
    assert right.now.low <= accuracy(labels) <= right.now.high
    assert right.now.accuracy > agreement.now.accuracy + 0.05


def test_labels_to_a_target():
    vectors, _ = problem()
    labels = labelled()

    def needed(target):
        return ncalr.forecast(vectors, labels, M, target=target)

    easy, middle, hard = (needed(target).needed for target in (0.2, 0.75, 0.999))
    assert (easy.low, easy.labels, easy.high, easy.reachable) == (0, 0, 0, pytest.approx(1))
    assert (hard.low, hard.labels, hard.high) == (None, None, None)
    assert easy.reachable >= middle.reachable >= hard.reachable
    assert middle.left == N - M
    assert "out of reach" in needed(0.999).words()[-1]
    assert "75.0 %" in needed(0.75).words()[-1]


def test_ids_that_are_no_part_of_the_pool():
    """Control items that nobody can label are excluded, as in suggest."""
    vectors, truth = problem()
    order = in_order()
    labels = np.where(np.isin(np.arange(N), np.concatenate([order[5:80], order[-80:]])), truth, -1)
    assert ncalr.forecast(vectors, labels, M).control == 0
    assert ncalr.forecast(vectors, labels, M, exclude=order[:5]).control == 75


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"labels": np.full(N, -1)}, "`labels`"),
        ({"labels": np.where(np.arange(N) < 50, 0, -1)}, "`labels`"),
        ({"k": N}, "`k`"),
        ({"k": 0}, "k"),
        ({"control": "some"}, "`control`"),
        ({"control": 1.5}, "`control`"),
        ({"target": 90}, "`target`"),
        ({"wrong": 0.9}, "`wrong`"),
        ({"confidence": 95}, "`confidence`"),
    ],
)
def test_arguments_out_of_range(change, name):
    vectors, _ = problem()
    given = {"labels": labelled(), "k": M, **change}
    with pytest.raises(BadInput, match=name):
        ncalr.forecast(vectors, **given)


def test_few_labels_of_many_classes_and_control_items_that_are_all_right():
    vectors, truth = problem()
    few = ncalr.forecast(vectors, np.where(np.arange(N) < 20, np.arange(N) % 18, -1), 10, control="all")
    assert 0 <= few.now.low < few.now.high <= 1
    easy = (20 * np.eye(12)[truth] + np.random.default_rng(0).normal(size=(N, 12))).astype(np.float32)
    sure = ncalr.forecast(easy, np.where(np.arange(N) < 40, truth, -1), 100, control="all")
    assert sure.now.accuracy > 0.9
    assert sure.now.low < 0.985
    ten = ncalr.forecast(easy, np.where(np.arange(N) < M, truth, -1), 100, control=np.arange(10))
    assert ten.now.low < 0.93, "ten right answers prove little"


def test_everything_is_labelled():
    vectors, truth = problem()
    found = ncalr.forecast(vectors[:M], truth[:M], target=0.5, control="all")
    assert (found.control, found.ahead, found.needed.left) == (M, (), 0)


def test_weighted_quantiles():
    assert quantiles(np.array([3.0, 1.0, 2.0]), np.array([0.0, 1.0, 9.0]), [0.05, 0.5, 1.0]) == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("name", "odd"), [("target", [0.9]), ("wrong", "x"), ("confidence", None), ("seed", 0.5), ("classes", 2.5)]
)
def test_arguments_of_a_wrong_kind_are_refused_by_name(name, odd):
    labels = np.where(np.arange(60) < 30, np.arange(60) % 2, -1)
    with pytest.raises(BadInput, match=name):
        ncalr.forecast(np.random.default_rng(0).normal(size=(60, 3)), labels, **{name: odd})
