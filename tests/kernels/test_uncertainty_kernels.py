"""Least confidence, margin and entropy: on the host and in torch, against extended precision.

The other probabilities are summed, never taken from 1, so the reference is the sum as well: for rows that do not
quite add up to 1 (half precision) that is the definition.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.kernels import Backend
from ncalr.kernels.device import Device
from ncalr.kernels.host import KINDS, Host

steady = settings(deadline=None, derandomize=True, max_examples=30)
each_backend = pytest.mark.parametrize("backend", [Host(), Device(torch.device("cpu"))], ids=["host", "device"])
each_kind = pytest.mark.parametrize("kind", KINDS)
each_type = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
from_either = pytest.mark.parametrize("logits", [True, False], ids=["logits", "probs"])
TOLERANCE = {np.float16: 5e-6, np.float32: 5e-6, np.float64: 1e-12}


def score(backend: Backend, outputs: np.ndarray, kind: str, logits: bool) -> np.ndarray:
    return backend.numpy(backend.uncertainty(backend.asarray(outputs), kind, logits))


def reference(outputs: np.ndarray, kind: str, logits: bool) -> np.ndarray:
    probs = outputs.astype(np.longdouble)
    if logits:
        probs = np.exp(probs - probs.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
    if kind == "entropy":
        return -(probs * np.log(np.where(probs > 0, probs, 1))).sum(axis=1)
    probs = np.sort(probs, axis=1)
    rest = probs[:, :-1].sum(axis=1)
    return rest + probs[:, -2] if kind == "margin" else rest


def draw_outputs(seed: int, n: int, classes: int, logits: bool, scale: float = 3.0) -> np.ndarray:
    outputs = np.random.default_rng(seed).normal(0, scale, (n, classes))
    return outputs if logits else np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)


@each_backend
@each_kind
@each_type
@from_either
def test_against_extended_precision(backend: Backend, kind: str, dtype: type, logits: bool) -> None:
    for classes in (2, 3, 10, 1001):
        outputs = draw_outputs(classes, 50, classes, logits).astype(dtype)
        found = score(backend, outputs, kind, logits)
        assert found.dtype == (np.float64 if dtype == np.float64 else np.float32)
        np.testing.assert_allclose(found, reference(outputs, kind, logits).astype(float), rtol=TOLERANCE[dtype])


@each_backend
@each_kind
@from_either
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 13))
@steady
def test_ties(backend: Backend, kind: str, logits: bool, seed: int, classes: int) -> None:
    """Rows of few different numbers: the largest often comes twice, or more often, in any place."""
    whole = np.random.default_rng(seed).integers(0, 3, (9, classes)).astype(np.float32)
    outputs = whole if logits else (whole + 1) / (whole + 1).sum(axis=1, keepdims=True)
    expected = reference(outputs, kind, logits).astype(float)
    np.testing.assert_allclose(score(backend, outputs, kind, logits), expected, rtol=2e-6)


@each_backend
@each_type
@pytest.mark.parametrize("classes", [2, 4, 5, 8, 64])
def test_knowing_nothing(backend: Backend, dtype: type, classes: int) -> None:
    for logits, row in ((True, np.full(classes, 7.0)), (False, np.full(classes, 1 / classes))):
        outputs = row[None].astype(dtype)
        step = 1e-3 if dtype == np.float16 and not logits else 1e-6  # 1/5 is not a half-precision number
        assert score(backend, outputs, "least_confidence", logits)[0] == pytest.approx(1 - 1 / classes, rel=step)
        assert score(backend, outputs, "margin", logits)[0] == pytest.approx(1, rel=step)
        assert score(backend, outputs, "entropy", logits)[0] == pytest.approx(np.log(classes), rel=step)


@each_backend
@each_kind
@each_type
def test_saturated_logits_keep_their_order(backend: Backend, kind: str, dtype: type) -> None:
    gaps = np.array([20, 40, 60, 80])
    rows = np.stack([0 * gaps, -gaps, -gaps - 1, -gaps - 3], axis=1).astype(dtype)
    found = score(backend, rows, kind, logits=True)
    assert (np.diff(found) < 0).all()
    assert (found > 0).all()
    np.testing.assert_allclose(found[:1], reference(rows[:1], kind, True).astype(float), rtol=1e-5)


@each_backend
@pytest.mark.parametrize("gap", [20, 40, 60, 80])
def test_saturated_pairs_have_a_closed_form(backend: Backend, gap: float) -> None:
    outputs = np.array([[gap, 0.0]], np.float32)
    small = np.exp(-gap)
    assert score(backend, outputs, "least_confidence", True)[0] == pytest.approx(small, rel=1e-5, abs=0)
    assert score(backend, outputs, "margin", True)[0] == pytest.approx(2 * small, rel=1e-5, abs=0)
    assert score(backend, outputs, "entropy", True)[0] == pytest.approx((1 + gap) * small, rel=1e-5, abs=0)


@each_backend
@each_kind
def test_saturated_probs_keep_their_order(backend: Backend, kind: str) -> None:
    small = np.array([1e-8, 1e-12, 1e-20, 1e-30])
    rows = np.stack([0 * small + 1, small, small / 2], axis=1).astype(np.float32)
    found = score(backend, rows, kind, logits=False)
    assert (np.diff(found) < 0).all()
    assert (found > 0).all()


@each_backend
@each_kind
@each_type
def test_a_certain_row_scores_zero(backend: Backend, kind: str, dtype: type) -> None:
    certain = np.array([[0, 1, 0, 0, 0]], dtype)
    assert score(backend, certain, kind, logits=False)[0] == pytest.approx(0, abs=1e-35)


@each_backend
@each_kind
@from_either
def test_one_class_leaves_no_doubt(backend: Backend, kind: str, logits: bool) -> None:
    for dtype in (np.float16, np.float32, np.float64):
        assert score(backend, np.ones((2, 1), dtype), kind, logits) == pytest.approx([0, 0], abs=1e-37)


@each_backend
@each_kind
@each_type
@from_either
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_shows(backend: Backend, kind: str, dtype: type, logits: bool, wrong: float) -> None:
    """Whatever its place in the row; strategies rely on this instead of a pass of their own."""
    outputs = draw_outputs(1, 8, 7, logits).astype(dtype)
    clean = score(backend, outputs, kind, logits)
    for place in range(7):
        outputs[place, place] = wrong
    found = score(backend, outputs, kind, logits)
    assert not np.isfinite(found[:7]).any()
    assert found[7] == clean[7]


@each_backend
@each_kind
@from_either
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_without_one_finite_number_shows(backend: Backend, kind: str, logits: bool, wrong: float) -> None:
    assert not np.isfinite(score(backend, np.full((1, 5), wrong, np.float32), kind, logits)).any()


@each_kind
@each_type
@from_either
def test_host_and_device_agree(kind: str, dtype: type, logits: bool) -> None:
    outputs = draw_outputs(2, 200, 17, logits, scale=8.0).astype(dtype)
    on_host = score(Host(), outputs, kind, logits)
    on_device = score(Device(torch.device("cpu")), outputs, kind, logits)
    np.testing.assert_allclose(on_host, on_device, rtol=TOLERANCE[dtype], atol=1e-36)
