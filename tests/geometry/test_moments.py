"""Moments: exact, whatever the order and the cuts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.geometry.moments import Moments
from ncalr.kernels import compiled

NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30)


@settings(deadline=None)  # the first call compiles
@given(NUMBERS, st.integers(0, 30))
def test_moments_are_those_of_fractions_and_add(values, cut):
    exact = [Fraction(v) for v in values]
    whole = Moments.of(values)
    assert Fraction(whole.total, 2**1074) == sum(exact)
    assert Fraction(whole.squares, 2**2148) == sum(v * v for v in exact)
    assert Moments.of(values[:cut]) + Moments.of(values[cut:]) == whole == Moments.of(values[::-1])
    assert whole.mean == float(sum(exact) / len(exact))


@settings(deadline=None)  # the first call compiles
@given(NUMBERS)
def test_equal_values_have_no_spread_and_others_have(values):
    assert (Moments.of(values).spread == 0) == (len(set(values)) == 1)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200])
def test_the_spread_is_the_standard_deviation_at_every_scale(scale):
    values = np.random.default_rng(0).normal(size=1000) + 3
    assert Moments.of(values * scale).spread == pytest.approx(values.std() * scale, rel=1e-12)


def test_the_plain_body_of_the_kernel_agrees():
    values = np.array([0.0, -0.0, 1.5, -3.25, 5e-324, -1e300])
    tables = np.zeros((2, 2048, 8), np.int64)
    compiled.exact_sums.py_func(values, tables[0])
    compiled.exact_sums(values, tables[1])
    np.testing.assert_array_equal(tables[0], tables[1])


def test_one_changed_word_changes_the_checksum():
    words = np.random.default_rng(0).integers(0, 2**63, 64).astype(np.uint64)
    before = compiled.checksum(words)
    with np.errstate(over="ignore"):
        assert compiled.checksum.py_func(words) == before
    for at in range(64):
        changed = words.copy()
        changed[at] ^= np.uint64(1) << np.uint64(at)
        assert compiled.checksum(changed) != before
