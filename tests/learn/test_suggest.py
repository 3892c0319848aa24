"""From vectors and some labels to the next items, a head trained on the way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import softmax as _softmax

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


@pytest.mark.parametrize("strategy", ["ncal", "ff", "ncal(fusion=rank)"])
def test_checkpoints_come_from_a_training(problem, head, strategy):
    picks = suggest(*problem, 12, strategy)
    assert len(set(picks.ids.tolist())) == 12
    assert picks.ids.min() >= M
    name = {"torch": "a perceptron", "sklearn": "a logistic regression"}[head]
    assert picks.notes[0].startswith(f"{name} learnt {M} labels of 3 classes")
    assert any("take strategy margin" in note for note in picks.notes) == (head == "sklearn")
    assert picks.ids.tolist() == suggest(*problem, 12, strategy).ids.tolist()


@pytest.mark.parametrize("strategy", ["ncal_coverage", "margin", "badge", "cdal", "uherding"])
def test_predictions_come_from_a_logistic_regression(problem, strategy, monkeypatch):
    """No optional package is needed, and the labelled rows alone are fitted."""
    monkeypatch.setattr(module, "installed", lambda name: pytest.fail(f"{name} was looked for"))
    picks = suggest(*problem, 12, strategy)
    assert len(set(picks.ids.tolist())) == 12
    assert picks.ids.min() >= M
    assert picks.notes[0] == f"Trained a logistic regression on {M} labels of 3 classes (training accuracy 100.0%)."
    assert picks.ids.tolist() == suggest(*problem, 12, strategy).ids.tolist()


def test_the_logistic_regression_is_that_of_scikit_learn(problem):
    """On centred vectors of mean squared length 1, whatever their scale."""
    from sklearn.linear_model import LogisticRegression

    vectors, labels = problem[0][:M], problem[1][:M]
    centred = vectors - vectors.mean(axis=0)
    scaled = centred / np.sqrt((centred**2).sum(axis=1).mean())
    wanted = LogisticRegression(C=module.STRENGTH, tol=1e-8, max_iter=1000).fit(scaled, labels).predict_proba(scaled)
    for scale in (1, 1000):
        logits = module.LinearHead.fit(vectors * scale, labels, 4).logits(vectors * scale)
        np.testing.assert_allclose(_softmax(logits, axis=1)[:, :3], wanted, atol=5e-3)
        assert (_softmax(logits, axis=1)[:, 3] == 0).all()


def test_doubtful_items_come_first(problem):
    """The most doubtful items of the margin strategy lie between the bunches."""
    vectors, labels = problem
    picks = suggest(vectors, labels, 20, "margin")
    nearest = np.sort(np.linalg.norm(vectors[:, None] - 3 * np.eye(6)[None, :3], axis=2), axis=1)
    gap = nearest[:, 1] - nearest[:, 0]
    assert gap[picks.ids].mean() < 0.6 * gap[M:].mean()


def test_ids_and_what_is_excluded(problem):
    vectors, labels = problem
    names = np.array([f"item {at}" for at in range(N)])
    first = suggest(vectors, labels, 5, "margin", ids=names)
    again = suggest(vectors, labels, 5, "margin", ids=names, exclude=[names[0], *first.ids[:2]])
    assert again.ids[:3].tolist() == first.ids[2:].tolist()
    assert suggest(vectors, labels, 5, "margin", ids=names, exclude=names[:M]).ids.tolist() == first.ids.tolist()
    assert (
        suggest(vectors, labels, 5, "margin", ids=names, exclude={*first.ids[:2].tolist()}).ids[:3].tolist()
        == first.ids[2:].tolist()
    )


@pytest.mark.parametrize("strategy", ["typiclust", "coreset", "random"])
def test_strategies_that_look_at_vectors_alone_train_nothing(problem, strategy, monkeypatch):
    monkeypatch.setattr(module, "_head", lambda *_: pytest.fail("a head was made"))
    vectors, labels = problem
    picks = suggest(vectors, labels, 6, strategy)
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
    assert len(suggest(vectors, none, 7, "typiclust")) == 7
    with pytest.raises(BadInput, match="ncal needs a model, and no item has a label"):
        suggest(vectors, none, 7, "ncal")
    picks = suggest(vectors, none, 7)
    assert picks.ids.tolist() == ncalr.query("ncal_coverage", 7, features=vectors).ids.tolist()
    assert picks.notes[0].startswith("No item has a label")
    of_one_class = np.where(np.arange(N) == 5, 1, -1)
    picks = suggest(vectors, of_one_class, 7)
    assert 5 not in picks.ids
    assert picks.notes[0].startswith("All labels are of one class")


def test_what_cannot_be(problem):
    vectors, labels = problem
    with pytest.raises(BadInput, match="`features` must be an array"):
        suggest(5, vectors, labels)
    with pytest.raises(BadInput, match="nothing left to suggest"):
        suggest(vectors, np.zeros(N, int), 1)
    for wrong in (labels[:-1], labels[:, None]):
        with pytest.raises(BadInput, match=r"labels must be .*class.*, got "):
            suggest(vectors, wrong, 1)
    with pytest.raises(BadInput, match=r"labels must be class numbers.*, got -2"):
        suggest(vectors, np.where(labels == -1, -2, labels), 3)
    with pytest.raises(BadInput, match="labels are of one class: a classifier needs two"):
        suggest(vectors, np.where(labels == 1, 1, -1), 1, "ncal")


def test_labels_by_name_and_by_id(problem):
    """An item each, empty in any of the usual ways, or those that there are."""
    vectors, labels = problem
    names = np.array(["ape", "bee", "cow", ""])[labels]
    numbers = [float("nan") if label < 0 else float(label) for label in labels.tolist()]  # a column of pandas
    ways = [[None, float("nan"), "", " "], [None], [float("nan")], [""]]
    missing = [[name or way[at % len(way)] for at, name in enumerate(names.tolist())] for way in ways]
    known = {f"i{at}": str(name) for at, name in enumerate(names) if name}
    wanted = suggest(vectors, labels, 5, "margin").ids
    for given in (
        names,
        names.astype(object),
        *missing,
        numbers,
        dict(enumerate(missing[2])),
        dict(enumerate(numbers)),
    ):
        assert suggest(vectors, given, 5, "margin").ids.tolist() == wanted.tolist()
    ids = np.array([f"i{at}" for at in range(N)], object)
    assert suggest(vectors, known, 5, "margin", ids=ids).ids.tolist() == [f"i{at}" for at in wanted]
    assert len(suggest(vectors, {}, 5, "typiclust")) == 5
    with pytest.raises(BadInput, match="1 ids are not in the pool, the first is 'j'"):
        suggest(vectors, {**known, "j": "ape"}, 5, ids=ids)
    with pytest.raises(BadInput, match=r"labels of some items are given by id: \{id: class, ...\}"):
        suggest(vectors, names[:M], 5)
    for given, other in (
        ([name or -1 for name in names.tolist()], "int, str, .* is '"),
        (labels + 0.5, "float, .* is "),
    ):
        with pytest.raises(BadInput, match=f"or names of classes, .* got {other}"):
            suggest(vectors, given, 5)


def test_what_can_be_known_before_the_training_is_said_before_it(problem, monkeypatch):
    monkeypatch.setattr(module, "_evidence", lambda *_: pytest.fail("a model was trained"))
    vectors, labels = problem
    with pytest.raises(BadInput, match=rf"k must lie in 1\.\.{N - M}, the items that can be picked; got {N}"):
        suggest(vectors, labels, N)
    with pytest.raises(BadInput, match=rf"k must lie in 1\.\.{N - M - 2}, .*\(2 are excluded\); got {N - M}"):
        suggest(vectors, labels, N - M, exclude=[M, M + 1, 0])
    with pytest.raises(BadInput, match="the pool's ids are whole numbers"):
        suggest(vectors, labels, 3, exclude=["a"])


@pytest.mark.parametrize("strategy", ["ncal", "coreset"])
def test_whole_numbers_are_no_vectors(problem, strategy):
    vectors, labels = problem
    with pytest.raises(BadInput, match=r"the array holds int64 .* expected vectors, .* np\.float32\) makes them so"):
        suggest(np.round(vectors).astype(int), labels, 3, strategy)
    with pytest.raises(BadInput, match="the array holds int64"):
        ncalr.audit(np.round(vectors).astype(int), labels)


def test_picks_are_shown_in_a_few_words(problem):
    picks = suggest(*problem, 30, "ncal")
    assert repr(picks).startswith(f"Picks: 30 ids by ncal(copies=drop), {picks.ids[0]} (")
    first, note, *_ = repr(picks).splitlines()
    assert first.endswith(", ...")
    assert "still changed" in note
    assert len(first) < 120


def test_labels_that_count_from_one_are_noticed(problem):
    vectors, labels = problem
    shifted = np.where(labels >= 0, labels + 1, -1)
    assert not any("count from 1" in note for note in suggest(vectors, labels, 3).notes)
    assert sum("count from 1" in note for note in suggest(vectors, shifted, 3).notes) == 1


def test_without_anything_that_learns(problem, monkeypatch):
    monkeypatch.setattr(module, "installed", lambda name: False)
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[torch\]'"):
        suggest(*problem, 3, "ncal")
    assert len(suggest(*problem, 3)) == 3


def test_progress_is_shown_beside_the_picks_and_not_among_them(problem, monkeypatch, capsys):
    """What is asked for goes to stdout, and may be a CSV in a pipe."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    suggest(*problem, 3, "ncal", device="cpu")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "epoch" in shown.err


class Frame:
    """Of a DataFrame or a Series of pandas, what is looked at."""

    iloc = None

    def __init__(self, values, index):
        self.values, self.index, self.ndim = np.asarray(values), np.asarray(index), np.ndim(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __len__(self):
        return len(self.values)

    def tolist(self):
        return self.values.tolist()


def test_the_index_of_a_table_names_its_rows(problem):
    """Of a table that was filtered or sorted, positions would be other rows, and labels those of others."""
    vectors, labels = problem
    rows, order = np.arange(N) * 3 + 7, np.random.default_rng(1).permutation(N)
    expected = rows[suggest(vectors, labels, 5).ids].tolist()
    table = Frame(vectors, rows)
    for given in (labels, Frame(labels, rows), Frame(labels[order], rows[order]), Frame(labels[:M], rows[:M])):
        assert suggest(table, given, 5).ids.tolist() == expected
    assert suggest(table, Frame(labels, np.arange(N)), 5, ids=rows).ids.tolist() == expected  # rows in their order
    doubts = ncalr.audit(table, Frame(labels[order], rows[order])).rows()
    assert doubts == ncalr.audit(vectors, labels, ids=rows).rows()
    with pytest.raises(BadInput, match=r"labels are of no row .*: 0, 1, 2, .* have 7, 10, 13, .*labels\.to_numpy\(\)"):
        suggest(table, Frame(labels, np.arange(N)), 5)
    with pytest.raises(BadInput, match=r"the index of the vectors names them, and ids must not repeat.*reset_index"):
        suggest(Frame(vectors, rows // 9), labels, 5)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_tensors_as_a_network_leaves_them(problem, kind):
    vectors, labels = problem
    tensor = torch.tensor(vectors).to(getattr(torch, kind)).requires_grad_()
    same = suggest(tensor.detach().float().numpy(), labels, 5)
    assert suggest(tensor, torch.tensor(labels), 5).ids.tolist() == same.ids.tolist()


def test_no_labels_yet_need_not_be_written_down(problem):
    vectors, labels = problem
    none = np.full_like(labels, -1)
    assert (
        suggest(vectors, k=5, strategy="typiclust").ids.tolist() == suggest(vectors, none, 5, "typiclust").ids.tolist()
    )
    assert suggest(vectors, k=5).ids.tolist() == suggest(vectors, none, 5).ids.tolist()


def test_what_holds_no_vectors_is_told_how_to_get_them(problem):
    with pytest.raises(BadInput, match=r"read the file first \(numpy\.load"):
        suggest("vectors.npy", problem[1], 5)
    with pytest.raises(BadInput, match=r"features.*toarray"):
        suggest(csr_array(problem[0]), problem[1], 5)


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
def test_labels_of_an_unsigned_kind(problem, kind):
    vectors, labels = problem
    known = {at: np.dtype(kind).type(label) for at, label in enumerate(labels.tolist()) if label >= 0}
    assert suggest(vectors, known, 3, "coreset").ids.tolist() == suggest(vectors, labels, 3, "coreset").ids.tolist()
    with pytest.raises(BadInput, match="labels"):  # -1 became the largest number of its kind
        suggest(vectors, labels.astype("u8"), 3, "coreset")


@pytest.mark.parametrize("wrong", [2**16, 2**40, 2**63, 10**30])
def test_class_numbers_far_too_large(problem, wrong):
    vectors, labels = problem
    for given in ({0: wrong, 1: 0}, [wrong, *labels.tolist()[1:]]):
        with pytest.raises(BadInput, match="labels"):
            suggest(vectors, given, 3)
    with pytest.raises(BadInput, match="classes"):
        suggest(vectors, labels, 3, classes=wrong + 1)


@pytest.mark.parametrize("argument", ["features", "ids", "exclude"])
@pytest.mark.parametrize("strange", [csr_array(np.eye(3)), torch.ones(3, 2, device="meta"), [[1, 2], [1]]])
def test_what_is_no_array(problem, argument, strange):
    given = {"features": problem[0], "labels": problem[1], argument: strange}
    with pytest.raises(BadInput, match=argument):
        suggest(given.pop("features"), given.pop("labels"), 3, "typiclust", **given)


@pytest.mark.parametrize("seed", [None, 1.5, float("nan"), "3"])
def test_a_seed_is_a_whole_number(problem, seed):
    with pytest.raises(BadInput, match="seed"):
        suggest(*problem, 3, seed=seed)


def test_large_unsigned_ids_are_compared_exactly(problem):
    """As floats, as NumPy compares int64 with uint64, 256 neighbours of such ids are one."""
    vectors, labels = problem
    base = 2**60
    ids = (np.arange(N) + base).astype(np.uint64)
    ids[-1] = 5  # over a wide range NumPy compares otherwise
    known = {base + at: int(label) for at, label in enumerate(labels[:-1].tolist()) if label >= 0}
    free = N - len(known)
    picks = suggest(vectors, known, free - 1, "coreset", ids=ids, exclude=[base + N - 2])
    left = {base + at for at in range(N - 2) if labels[at] < 0} | {5}
    assert set(picks.ids.tolist()) == left
    found = ncalr.query("random", N - 1, ids=ids, exclude=[base + 3, -1])
    assert set(found.ids.tolist()) == set(ids.tolist()) - {base + 3}
    assert "1 of 2 ids to exclude are not in the pool" in found.notes[0]


@pytest.mark.parametrize("strategy", ["typiclust", "coreset", "margin"])
def test_the_order_of_the_rows_changes_no_pick(strategy):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        classes = np.arange(24) % 2
        vectors = (rng.normal(size=(24, 3)) + 2 * classes[:, None]).astype(np.float32)
        labels, ids = np.where(rng.permutation(24) < 9, classes, -1), np.arange(50, 74)
        turn = rng.permutation(24)
        picks = suggest(vectors, labels, 5, strategy, ids=ids)
        turned = suggest(vectors[turn], labels[turn], 5, strategy, ids=ids[turn])
        assert turned.ids.tolist() == picks.ids.tolist()
