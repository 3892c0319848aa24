"""Probes against scikit-learn at the same C, the choice of C, and what cannot be probed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from ncalr.errors import BadInput, NotFinite
from ncalr.evaluate import probe as module
from ncalr.evaluate.probe import GRID, probe, search_grid
from ncalr.kernels.device import Device
from ncalr.learn import linear
from ncalr.learn.linear import fit_linear

steady = settings(deadline=None, derandomize=True, max_examples=40)
Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def overlapping(n: int, test: int, d: int, classes: int, seed: int = 0) -> Four:
    """ReLU features of classes that overlap, with directions of very different variance."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0] * (np.arange(1, d + 1) ** -0.5)
    labels = rng.integers(0, classes, n + test)
    drawn = 0.5 * rng.normal(size=(classes, d))[labels] + rng.normal(size=(n + test, d))
    features = np.maximum(drawn @ turn.T + 0.1, 0).astype(np.float32)
    return features[:n], labels[:n], features[n:], labels[n:]


def digits() -> Four:
    """The handwritten digits; some columns never change."""
    images = load_digits()
    order = np.random.default_rng(0).permutation(len(images.target))
    x, y = images.data[order], images.target[order]
    return x[:797], y[:797], x[797:], y[797:]


def theirs(data: Four, C: float) -> tuple[float, float]:
    """Accuracy and objective (as ours: a mean) of scikit-learn's solution, carried on to its end."""
    x, y, test, truth = data
    scaler = StandardScaler().fit(x.astype(np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its L-BFGS says so where float64 ends before the tolerance
        model = LogisticRegression(C=C, tol=1e-9, max_iter=20_000).fit(scaler.transform(x.astype(np.float64)), y)
    log_probs = model.predict_log_proba(scaler.transform(x.astype(np.float64)))
    loss = -log_probs[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean()
    accuracy = float((model.predict(scaler.transform(test.astype(np.float64))) == truth).mean())
    return accuracy, float(loss + (model.coef_**2).sum() / (2 * C * len(y)))


@pytest.fixture
def small() -> Four:
    return overlapping(300, 200, 12, 4)


# -- against scikit-learn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0])
def test_digits_at_the_same_strength(C: float) -> None:
    data = digits()
    accuracy, objective = theirs(data, C)
    ours, found = probe(*data, C=C), fit_linear(*data[:2], C)
    assert found.objective == pytest.approx(objective, rel=3e-6)
    assert abs(ours.top1 - accuracy) <= 0.001
    assert ours.converged
    assert (ours.C, ours.at_edge, ours.grid, ours.classes, ours.unseen) == (C, False, (), 10, ())


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0])
def test_overlapping_classes_at_the_same_strength(C: float) -> None:
    data = overlapping(2000, 2000, 40, 15)
    accuracy, objective = theirs(data, C)
    assert 0.2 < accuracy < 0.9
    assert fit_linear(*data[:2], C).objective == pytest.approx(objective, rel=3e-6)
    assert abs(probe(*data, C=C).top1 - accuracy) <= 0.001


@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_two_classes_have_one_vector(C: float) -> None:
    """scikit-learn fits w; ours has (-w/2, w/2), and the objective that it reports is theirs."""
    x, y, test, truth = overlapping(400, 400, 10, 2)
    accuracy, objective = theirs((x, y, test, truth), C)
    found = fit_linear(x, y, C)
    assert found.objective == pytest.approx(objective, rel=3e-6)
    np.testing.assert_allclose(found.weights[0], -found.weights[1], atol=1e-6)
    assert abs(probe(x, y, test, truth, C=C).top1 - accuracy) <= 0.001


@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_more_dimensions_than_items(C: float) -> None:
    data = overlapping(80, 500, 150, 5)
    accuracy, objective = theirs(data, C)
    assert fit_linear(*data[:2], C).objective == pytest.approx(objective, rel=3e-6)
    assert abs(probe(*data, C=C).top1 - accuracy) <= 0.002  # one of 500


def test_too_wide_for_principal_axes(small: Four, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = fit_linear(*small[:2], 0.1)
    monkeypatch.setattr(linear, "_WIDEST", 5)
    plain = fit_linear(*small[:2], 0.1)
    assert plain.objective == pytest.approx(turned.objective, rel=1e-6)
    np.testing.assert_allclose(plain.weights, turned.weights, atol=0.01)


# -- the objective --------------------------------------------------------------------------------------------


@steady
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
def test_loss_gradient_and_curvature(classes: int, d: int, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = (
        rng.normal(size=(30, d)).astype(np.float32),
        np.r_[np.arange(classes), rng.integers(0, classes, 30 - classes)],
    )
    parameters = size * rng.normal(size=(classes, d + 1))
    problem = linear.LinearProblem(
        linear.choose("cpu"), x, y, np.ones(d), np.arange(classes), np.zeros(d), np.ones(d), None
    )
    logits = x.astype(np.float64) @ parameters[:, :-1].T + parameters[:, -1]
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    found = problem.loss(parameters)
    residual = probs - np.eye(classes)[y]
    expected = np.c_[residual.T @ x, residual.sum(axis=0)] / 30
    value = (np.logaddexp.reduce(logits, axis=1) - logits[np.arange(30), y]).mean()
    assert found.value == pytest.approx(value, rel=1e-5, abs=1e-6)
    np.testing.assert_allclose(found.gradient, expected, atol=1e-5 * max(size, 1))
    assert found.curvature == pytest.approx((probs * (1 - probs)).mean(), rel=1e-3, abs=1e-6)


def test_a_confident_item_keeps_its_digits() -> None:
    """One item, margin 30: its loss is e^-30, which 1 - p in single precision cannot hold."""
    problem = linear.LinearProblem(
        linear.choose("cpu"), np.ones((1, 1), np.float32), np.array([1]), np.ones(1), np.arange(2),
        np.zeros(1), np.ones(1), None,
    )  # fmt: skip
    found = problem.loss(np.array([[0.0, 0.0], [30.0, 0.0]]))
    assert found.value == pytest.approx(np.exp(-30), rel=1e-5)
    np.testing.assert_allclose(found.gradient, np.exp(-30) * np.array([[1, 1], [-1, -1]]), rtol=1e-5)
    assert found.curvature == pytest.approx(np.exp(-30), rel=1e-5)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = overlapping(1500, 700, 8, 5)
    whole = probe(*data, C=1.0)
    monkeypatch.setattr(linear, "_CACHE_BYTES", 1)
    monkeypatch.setattr(linear, "_ROOM_BYTES", 1)
    cut = probe(*data, C=1.0)
    assert cut.top1 == whole.top1
    backend = linear.choose("cpu")
    monkeypatch.setattr(type(backend), "chunk_bytes", 1 << 12)
    assert probe(*data, C=1.0).top1 == whole.top1


def test_a_line_search_that_must_go_further_and_back() -> None:
    """x^4 / 4 from 3 in its own units: along -1 the first step is too short, along -100 far too long."""

    class Quartic:
        backend = linear.choose("cpu")
        spread = np.zeros(0)

        def loss(self, parameters: np.ndarray) -> linear._Loss:
            return linear._Loss(float(parameters[0, -1] ** 4 / 4), parameters**3, 1.0)

    here = linear._point(Quartic(), np.array([[3.0]]), 0.0)
    for towards in (-0.01, -100.0):
        slope = 27 * towards
        there = linear._line_search(Quartic(), here, np.array([[towards]]), slope, 0.0)
        assert there is not None
        assert there.value < here.value
        assert abs(float(there.gradient[0, 0]) * towards) <= 0.9 * abs(slope)
    assert linear._line_search(Quartic(), here, np.array([[1.0]]), -27.0, 0.0) is None  # uphill, whatever is said


def test_a_search_that_finds_nothing_lower_ends_the_fit(small: Four, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_line_search", lambda *_: None)
    found = fit_linear(*small[:2], 1.0)
    assert (found.iterations, found.converged) == (0, False)


def test_iterations_run_out(small: Four) -> None:
    found = probe(*small, C=10.0, max_iterations=3)
    assert (found.iterations, found.converged) == (3, False)
    assert probe(*small, C=10.0).converged


# -- features as they come ------------------------------------------------------------------------------------


def test_scale_and_offset_of_columns_do_not_matter(small: Four) -> None:
    x, y, test, _ = small
    scale, offset = np.geomspace(1e-6, 1e6, 12), np.linspace(-1e3, 1e3, 12)
    plain, moved = fit_linear(x, y, 0.1), fit_linear((x + offset) * scale, y, 0.1)
    assert moved.objective == pytest.approx(plain.objective, rel=1e-6)
    assert (plain.predict(test) == moved.predict((test + offset) * scale)).mean() > 0.99


def test_constant_columns_have_no_weight(small: Four) -> None:
    x, y, test, _ = small
    wide = np.c_[x, np.full(len(x), 0.1), np.zeros(len(x))]
    found = fit_linear(wide, y, 1.0)
    np.testing.assert_allclose(found.weights[:, -2:], 0, atol=1e-7)
    assert found.objective == pytest.approx(fit_linear(x, y, 1.0).objective, rel=1e-6)
    strange = np.c_[test, np.full(len(test), 9.0), np.full(len(test), -5.0)]
    assert (found.predict(strange) == fit_linear(x, y, 1.0).predict(test)).mean() > 0.99


def test_features_that_say_nothing_give_the_largest_class() -> None:
    found = probe(np.ones((10, 3)), [0] * 3 + [4] * 7, np.ones((4, 3)), [4, 4, 0, 4], C=1.0)
    assert (found.top1, found.mean_per_class) == (0.75, 0.5)


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int32, "tensor", "bfloat16", "list"])
def test_kinds_of_numbers(small: Four, kind: object) -> None:
    x, y, test, truth = (np.round(8 * array) if array.ndim == 2 else array for array in small)
    expected = probe(x, y, test, truth, C=0.1).top1
    if kind == "list":
        x, y, test, truth = x.tolist(), y.tolist(), test.tolist(), truth.tolist()
    elif isinstance(kind, str):
        turn = torch.bfloat16 if kind == "bfloat16" else torch.float32
        x, test, y = torch.from_numpy(x).to(turn), torch.from_numpy(test).to(turn), torch.from_numpy(y)
    else:
        x, test = x.astype(kind), test.astype(kind)
    assert probe(x, y, test, truth, C=0.1).top1 == expected


def test_torch_gives_the_same_as_numpy(small: Four, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = probe(*small)
    monkeypatch.setattr(module, "choose", lambda *_: Device(torch.device("cpu")))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        found = probe(*small)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert (found.top1, found.C) == (ours.top1, ours.C)
    wide = overlapping(30, 50, 60, 3)
    assert fit_linear(*wide[:2], 1.0).converged


def test_input_is_left_as_it_was(small: Four) -> None:
    x, y, test, truth = (array.astype(np.float64) if array.ndim == 2 else array for array in small)
    copies = [array.copy() for array in (x, y, test, truth)]
    probe(x, y, test, truth, C=1.0)
    assert all((a == b).all() for a, b in zip((x, y, test, truth), copies, strict=True))


# -- the choice of C ------------------------------------------------------------------------------------------


def test_the_search_finds_a_good_strength() -> None:
    data = overlapping(1500, 3000, 60, 10)
    found = probe(*data)
    tried = dict(found.grid)
    assert set(GRID) <= set(tried)
    assert tried[found.C] == max(tried.values())
    assert not found.at_edge
    best = max(probe(*data, C=C).top1 for C in GRID)
    assert found.top1 >= best - 0.015
    logs = np.sort(np.log10(list(tried)))
    assert np.diff(logs)[np.abs(logs[:-1] - np.log10(found.C)) < 1e-9] <= 1 / 8 + 1e-9


def test_the_grid_is_refined_to_an_eighth_of_a_decade() -> None:
    """With a single peak at 10^0.4 the search comes within half of an eighth."""
    scores = {C: -abs(np.log10(C) - 0.4) for C in GRID}
    rounds = 0
    while todo := search_grid(scores):
        assert len(todo) == 2
        scores |= {C: -abs(np.log10(C) - 0.4) for C in todo}
        rounds += 1
    best = max(scores, key=scores.__getitem__)
    assert rounds == 4
    assert len(scores) == len(GRID) + 8
    assert np.log10(best) == pytest.approx(0.375)


def test_at_the_edge_there_is_one_side() -> None:
    assert search_grid({1.0: 3, 100.0: 2, 1e4: 1}) == [10.0]
    assert search_grid({1.0: 1, 100.0: 2}) == [10.0]
    assert search_grid({1.0: 1}) == []
    assert search_grid({1.0: 5, 4.0: 5, 16.0: 5}, finest=0.1) == [pytest.approx(2)]  # of equals the smallest


def test_an_edge_is_said(small: Four) -> None:
    found = probe(*small, grid=(1e-7, 1e-3))
    assert (found.C, found.at_edge) == (1e-3, True)
    assert probe(*small, grid=[0.1]).at_edge
    assert not probe(*small, C=0.1).at_edge


def test_the_split_is_of_its_seed_and_stratified() -> None:
    labels = np.repeat([5, 2, 9, 7], [50, 10, 2, 1])
    held = module._held_out(labels, 0.2, 3)
    assert [int(held[labels == c].sum()) for c in (5, 2, 9, 7)] == [10, 2, 1, 0]
    assert (held == module._held_out(labels, 0.2, 3)).all()
    assert (held != module._held_out(labels, 0.2, 4)).any()
    most = module._held_out(labels, 0.99, 3)
    assert [int(most[labels == c].sum()) for c in (5, 2, 9, 7)] == [49, 9, 1, 0]


def test_seeds_and_the_whole_probe(small: Four) -> None:
    assert probe(*small, seed=1) == probe(*small, seed=1)
    assert probe(*small, seed=1).grid != probe(*small, seed=2).grid


def test_one_item_a_class_needs_its_strength_said() -> None:
    x, y = np.eye(4), np.arange(4)
    with pytest.raises(BadInput, match=r"no class has two items.*pass C="):
        probe(x, y, x, y)
    assert probe(x, y, x, y, C=1.0).top1 == 1


# -- accuracies -----------------------------------------------------------------------------------------------


def test_mean_per_class_and_classes_that_were_not_trained(small: Four) -> None:
    x, y, test, truth = small
    found = fit_linear(x, y, 0.1).predict(test)
    part = np.flatnonzero((truth == 0) | (np.arange(200) < 60))
    by_class = [(found[part][truth[part] == c] == c).mean() for c in range(4)]
    result = probe(x, y, test[part], truth[part], C=0.1)
    assert result.mean_per_class == pytest.approx(np.mean(by_class))
    assert result.top1 == pytest.approx((found[part] == truth[part]).mean())
    strange = truth[part].copy()
    strange[strange == 3] = 8
    result = probe(x, y, test[part], strange, C=0.1)
    assert result.unseen == (8,)
    assert result.mean_per_class == pytest.approx(np.mean([*by_class[:3], 0]))


def test_labels_may_be_any_whole_numbers(small: Four) -> None:
    x, y, test, truth = small
    names = np.array([70, -3, 12, 5])
    assert probe(x, names[y], test, names[truth], C=0.1).top1 == probe(x, y, test, truth, C=0.1).top1


# -- what cannot be probed ------------------------------------------------------------------------------------


def test_nothing_to_tell_apart(small: Four) -> None:
    x, _, test, truth = small
    with pytest.raises(BadInput, match="needs two classes or more to tell apart, got 1"):
        probe(x, np.full(300, 3), test, truth)
    with pytest.raises(BadInput, match="needs two classes or more to tell apart, got 0"):
        fit_linear(x[:0], [], 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 2])
def test_features_that_are_not_finite(small: Four, bad: float, where: int) -> None:
    data = list(small)
    data[where] = data[where].copy()
    data[where][150, 3] = bad
    name = ("train_features", "", "test_features")[where]
    with pytest.raises(NotFinite, match=f"^{name} hold NaN or infinity, first in row 150, column 3"):
        probe(*data, C=1.0)
    with pytest.raises(NotFinite, match=r"^features hold NaN or infinity, first in row 150, column 3"):
        fit_linear(*small[:2], 1.0).predict(data[where])


@pytest.mark.parametrize("C", [0, -1.0, float("nan"), float("inf")])
def test_strengths_that_are_none(small: Four, C: float) -> None:
    with pytest.raises(BadInput, match="C must be a number above 0"):
        probe(*small, C=C)
    with pytest.raises(BadInput, match="C must be a number above 0"):
        probe(*small, grid=(1.0, C))
    with pytest.raises(BadInput, match="C must be a number above 0"):
        fit_linear(*small[:2], C)


def test_other_arguments_that_cannot_be_used(small: Four) -> None:
    x, y, test, truth = small
    with pytest.raises(BadInput, match="grid is empty"):
        probe(*small, grid=())
    with pytest.raises(BadInput, match="held_out is a share between 0 and 1, got 1"):
        probe(*small, held_out=1)
    with pytest.raises(BadInput, match="train_features have 12 columns and test_features 11; they must come from"):
        probe(x, y, test[:, 1:], truth)
    with pytest.raises(BadInput, match="the test set is empty"):
        probe(x, y, test[:0], truth[:0])
    with pytest.raises(BadInput, match="test_labels must be one whole number for each of 200 items, got float64"):
        probe(x, y, test, truth.astype(float))
    with pytest.raises(BadInput, match="features have 11 columns, but the classifier was fitted on 12"):
        fit_linear(x, y, 1.0).predict(test[:, 1:])
    for wrong in (x[0], x[:, :0], x.astype(str)):
        with pytest.raises(BadInput, match=r"train_features must be numbers of shape \(items, d\), got"):
            probe(wrong, y, test, truth)


def test_no_items_to_predict(small: Four) -> None:
    assert fit_linear(*small[:2], 1.0).predict(small[2][:0]).shape == (0,)
