"""A small real problem: scikit-learn's digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from ncalr.data import ArrayPool


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny networks: a second thread costs more than it gives, and the tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def plain_kernels():
    """oneDNN's bfloat16 needs instructions that a virtual machine may report and not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about TF32, by the switch itself
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@pytest.fixture(scope="session")
def digits():
    """Images (uint8), labels, in a shuffled order."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return (found.images[order] * 15).astype(np.uint8), found.target[order]


@pytest.fixture(scope="session")
def pool(digits):
    """Six hundred of them."""
    return ArrayPool(digits[0][:600])


@pytest.fixture(scope="session")
def labels(digits):
    """Their labels."""
    return digits[1][:600]
