"""The log of the labelled set: what a learner said about each item at every check, before and after it knew it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import SGDClassifier
from sklearn.neighbors import KNeighborsClassifier

from ncalr.dynamics.scores import softmax
from ncalr.errors import BadInput
from ncalr.learn import Job, SklearnLearner, TorchLearner
from ncalr.learn.torch_learner import _halved
from ncalr.testing import example_items

NEEDS = frozenset({"labelled_log", "labelled_logits"})
POOL, TRUTH = example_items()


def network(**changes):
    options = {"epochs": 8, "checkpoints": 3, "batch": 16, "rate": 0.05, **changes}
    return TorchLearner("mlp(widths=16)", "digits", device="cpu", progress=False, **options)


def job(**changes):
    return Job(POOL, POOL.ids[:60], TRUTH[:60], 4, **{"needs": NEEDS, **changes})


def test_a_network_says_more_and_more_what_it_was_told():
    model = network().fit(job())
    found = model.evidence()
    log = found["labelled_log"]
    assert log.dtype == np.float16
    assert log.shape == (len(model.record.history), 60, 4)
    assert np.allclose(log[-1], found["labelled_logits"].numpy(), rtol=1e-3, atol=1e-2)
    right = [(step.argmax(1) == TRUTH[:60]).mean() for step in log]
    assert right == pytest.approx([check["accuracy"] for check in model.record.history], abs=0.02)
    assert right[-1] > right[0]


def test_a_killed_training_has_the_whole_log(tmp_path, monkeypatch):
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SHARE", float("inf"))
    whole = network().fit(job()).evidence()["labelled_log"]
    dying = network()

    def save(*arguments):
        TorchLearner._save(dying, *arguments)
        if arguments[-1] == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(dying, "_save", save)
    with pytest.raises(KeyboardInterrupt):
        dying.fit(job(folder=tmp_path))
    resumed = network().fit(job(folder=tmp_path))
    assert resumed.record.notes == ["went on after epoch 5"]
    assert np.array_equal(resumed.evidence()["labelled_log"], whole)


def test_it_is_kept_only_where_it_is_asked_for():
    assert set(network().fit(job(needs=frozenset({"logits"}))).evidence()) == {"logits"}


def test_half_precision_has_an_end():
    large = torch.tensor([[1e6, -1e6, 3.0]])
    assert _halved(large).tolist() == [[65504.0, -65504.0, 3.0]]


def test_an_estimator_with_checkpoints_has_a_log():
    learner = SklearnLearner(SGDClassifier(loss="log_loss"), epochs=6, checkpoints=3)
    model = learner.fit(job(needs=frozenset({"labelled_log", "labelled_probs"})))
    found = model.evidence()
    assert found["labelled_log"].shape == (3, 60, 4)
    assert len(model.record.history) == 3
    assert model.record.flipping is None
    assert np.allclose(softmax(found["labelled_log"][-1]), found["labelled_probs"], atol=2e-3)


def test_one_without_has_none():
    with pytest.raises(BadInput, match="labelled_log"):
        SklearnLearner(KNeighborsClassifier()).fit(job(needs=frozenset({"labelled_log"})))
