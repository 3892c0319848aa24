"""A row that is no distribution is an error wherever it stands, not the first pick."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from acquire_bundle import bundle

from ncalr.acquire.query import query
from ncalr.errors import BadInput, NotFinite
from ncalr.kernels.device import Device
from ncalr.kernels.host import Host

pytestmark = pytest.mark.usefixtures("one_thread")
WRONG = {
    "large": [5, -3, 2, 9],
    "sums to one": [0.9, 0.4, -0.3, 0],
    "absolute values sum to one": [0.5, -0.5, 0, 0],
    "too little": [0.2, 0.2, 0.2, 0.2],
    "zeros": [0, 0, 0, 0],
}


def given(n=1000):
    found = bundle(np.random.default_rng(5), n, 20)
    logits = found.pop("logits")
    return {**found, "probs": np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("strategy", ["margin", "least_confidence", "entropy", "badge", "cdal", "uherding"])
def test_every_row_is_looked_at(strategy, case):
    arrays = given()
    arrays["probs"][1] = WRONG[case]
    with pytest.raises(
        BadInput, match=r"rows of probs must be probabilities.*1 are not: probs\[1\] has least"
    ) as error:
        query(strategy, 2, **arrays)
    assert "pass them as logits" in str(error.value)
    arrays["probs"][1] = [0.25, 0.25, 0.25, 0.25]
    assert len(query(strategy, 2, **arrays).ids) == 2


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_every_sample_is_looked_at(layer, case):
    samples = np.stack([given()["probs"]] * 3)
    samples[layer, 7] = WRONG[case]
    with pytest.raises(BadInput, match=rf"sampled_probs\[{layer}, 7\] has least"):
        query("bald", 2, sampled_probs=samples)


def test_bald_finds_what_is_not_finite_too():
    samples = np.stack([given()["probs"]] * 3)
    samples[2, 7, 1] = np.nan
    with pytest.raises(NotFinite, match=re.escape("the first at sampled_probs[2, 7, 1]")):
        query("bald", 2, sampled_probs=samples)


@pytest.mark.parametrize("backend", [Host(), Device(torch.device("cpu"))], ids=["host", "device"])
@pytest.mark.parametrize("kind", ["least_confidence", "margin", "entropy"])
@pytest.mark.parametrize("classes", [2, 4, 40])
def test_rounded_probabilities_are_some(backend, kind, classes):
    rows = np.random.default_rng(2).dirichlet(np.ones(classes), 200)
    for dtype in (np.float16, np.float32, np.float64):
        found = backend.numpy(backend.uncertainty(backend.asarray(rows.astype(dtype)), kind, False))
        assert np.isfinite(found).all()
    wrong = rows.copy()
    wrong[3] *= 1.1
    found = backend.numpy(backend.uncertainty(backend.asarray(wrong), kind, False))
    assert np.flatnonzero(~np.isfinite(found)).tolist() == [3]


def test_every_checkpoint_lies_in_the_classes():
    arrays = given()
    log = arrays["checkpoint_predictions"].copy()
    for wrong in (-5, 10**6):
        log[0, 3] = wrong
        with pytest.raises(BadInput, match=r"checkpoint_predictions must lie in 0\.\.3"):
            query("ncal", 2, **{**arrays, "checkpoint_predictions": log})
