"""Audits: planted wrong labels are found, the share is covered, cross-fitting never shows a network its own items."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import ncalr
from ncalr.data import ArrayPool
from ncalr.errors import BadInput, MissingExtra, NotFinite, UnknownName
from ncalr.evaluate.audit import audit, normal_scores
from ncalr.evaluate.crossfit import crossfit, cut, gather
from ncalr.evaluate.noise_share import _contradicted, noise_share
from ncalr.evaluate.ood_metrics import auroc
from ncalr.geometry.robust import robust_statistics
from ncalr.learn import SklearnLearner
from ncalr.learn.learner import Record


def world(seed=0, n=900, classes=5, wrong=0.25, sharp=1.7):
    """Gaussian classes, their exact posterior made too certain, and labels of which a share is wrong."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 6)) * 1.6
    truth = rng.integers(0, classes, n)
    features = centres[truth] + rng.normal(size=(n, 6))
    logits = -0.5 * sharp * ((features[:, None] - centres) ** 2).sum(2)
    labels = truth.copy()
    bad = rng.random(n) < wrong
    labels[bad] = (truth[bad] + rng.integers(1, classes, bad.sum())) % classes
    return features, logits, labels, truth


def log_of(logits, labels, steps=8, seed=0):
    """A training that first learns what is regular and at the end leans towards the labels."""
    rng = np.random.default_rng(seed)
    own = np.eye(logits.shape[1])[labels]
    return np.stack([logits * 0.5 + rng.normal(size=logits.shape) + 1.5 * own * t / steps for t in range(steps)])


@pytest.mark.parametrize("given", [("features",), ("logits",), ("log",), ("features", "logits", "log")])
def test_planted_wrong_labels_come_first(given):
    features, logits, labels, truth = world()
    arrays = {"features": features, "logits": logits, "log": log_of(logits, labels)}
    found = audit(labels=labels, classes=5, draws=0, **{name: arrays[name] for name in given})
    bad = labels != truth
    assert auroc(-found.doubt[~bad], -found.doubt[bad]) > 0.9
    assert set(found.signs) == {{"features": "geometry", "logits": "confidence", "log": "dynamics"}[n] for n in given}
    top = found.order[:100]
    assert bad[top].mean() > 0.9
    assert (found.suggested[top] == truth[top]).mean() > 0.8


def test_the_signs_together_are_no_worse_than_each():
    features, logits, labels, truth = world(3, n=1500)
    bad = labels != truth
    found = audit(
        features, logits + np.random.default_rng(1).normal(size=logits.shape) * 3, labels, log_of(logits, labels)
    )
    alone = [auroc(-sign[~bad], -sign[bad]) for sign in found.signs.values()]
    assert auroc(-found.doubt[~bad], -found.doubt[bad]) > np.mean(alone)
    both = normal_scores(found.signs["geometry"]) + normal_scores(found.signs["dynamics"])
    np.testing.assert_allclose(found.doubt, both / 2)
    assert found.details["forgotten"].max() > 0
    assert 0 <= found.details["disagreement"].min() < found.details["disagreement"].max() <= 1


@pytest.mark.parametrize("given", [("features", "logits"), ("features",), ("logits",)])
def test_margins_of_labels_that_were_learnt_by_heart_are_left_out(given):
    """The log agrees with every label, and its margins are as wide as vectors are long: they say nothing."""
    features, logits, labels, truth = world()
    bad = labels != truth
    log = np.stack([12.0 * np.eye(5)[labels] * np.linalg.norm(features, axis=1)[:, None]] * 6)
    arrays = {name: {"features": features, "logits": logits}[name] for name in given}
    found = audit(labels=labels, log=log, classes=5, draws=0, **arrays)
    rest = [normal_scores(found.signs[name]) for name in ("geometry", "confidence") if name in found.signs]
    np.testing.assert_allclose(found.doubt, np.mean(rest, axis=0))
    assert any("learnt them by heart" in note for note in found.notes)
    assert "dynamics" in found.rows(1)[0], "it is shown all the same"
    assert (found.suggested[found.order[:100]] == truth[found.order[:100]]).mean() > 0.8, "nor has it a veto"
    assert not any("late checkpoints" in reason for reason in found.reasons)
    assert auroc(-found.doubt[~bad], -found.doubt[bad]) > 0.9
    refused = audit(labels=labels, log=log_of(logits, labels), classes=5, draws=0, **arrays)
    assert not any("by heart" in note for note in refused.notes)
    one = normal_scores(refused.signs[given[0].replace("features", "geometry").replace("logits", "confidence")])
    np.testing.assert_allclose(refused.doubt, (one + normal_scores(refused.signs["dynamics"])) / 2)


def test_a_log_alone_is_believed():
    _, _, labels, _ = world()
    found = audit(labels=labels, log=np.stack([np.eye(5)[labels]] * 6), classes=5, draws=0)
    np.testing.assert_array_equal(found.doubt, normal_scores(found.signs["dynamics"]))
    assert not found.notes


def test_an_item_does_not_vouch_for_its_own_label():
    """Three labels a class: the mean of its class without the item, by hand, and nothing of an item that is alone."""
    rng = np.random.default_rng(4)
    features = rng.normal(size=(10, 4))
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    found = audit(features, labels=labels, classes=5, draws=0).signs["geometry"]
    statistics = robust_statistics(features, labels, 5, method="trimmed")
    centre = statistics.means[:4].mean(axis=0)

    def cosine(row, mean):
        row, mean = row - centre, mean - centre
        return row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)

    for at, (row, label) in enumerate(zip(features[:9], labels, strict=False)):
        own = np.flatnonzero(labels == label)
        near = own[np.argsort(np.linalg.norm(features[own] - statistics.means[label], axis=1))[:2]]
        rest = [other for other in near if other != at]  # trimmed means are of the two that are nearest to them
        mean = features[rest].mean(axis=0)
        others = max(cosine(row, statistics.means[other]) for other in range(4) if other != label)
        assert found[at] == pytest.approx(others - cosine(row, mean), abs=1e-9)
    assert found[9] == pytest.approx(np.median(found[:9])), "no more doubtful than others"
    assert audit(features, labels=labels, classes=5, draws=0).reasons[9].startswith("the only label of its class")


def test_rows_are_plain_and_carry_reasons():
    features, logits, labels, _ = world(n=200)
    found = ncalr.audit(features, logits, labels, log_of(logits, labels), draws=20)
    rows = found.rows(200, ids=np.arange(1000, 1200), names=list("abcde"))
    assert [row["rank"] for row in rows[:3]] == [1, 2, 3]
    assert rows[0]["doubt"] >= rows[1]["doubt"]
    assert rows[0]["label"] in "abcde"
    assert rows[0]["id"] >= 1000
    words = " ".join(row["reason"] for row in rows)
    assert "out of sample " in words
    assert "in cosine" in words
    assert "late checkpoints agree" in words
    assert found.rows(2)[0]["id"] == int(found.order[0])
    for name, values in {**found.signs, **found.details}.items():
        assert rows[0][name] == values[found.order[0]]
    assert {"confidence", "geometry", "dynamics", "forgotten", "disagreement"} <= rows[0].keys()


def test_logits_of_a_network_that_learnt_the_labels_by_heart_are_pointed_out():
    _, logits, labels, truth = world(n=200)
    by_heart = audit(logits=logits + 100 * np.eye(5)[labels], labels=labels, draws=0)
    assert by_heart.share.share < 0.01 < (labels != truth).mean()
    assert "trained on them" in by_heart.notes[0]
    assert audit(logits=logits, labels=labels, draws=0).notes == ()


def test_labels_counted_from_1_are_noticed_where_nothing_counts_the_classes():
    rows, labels = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3 + 1
    assert audit(rows, labels=labels).notes[0].startswith("the labels lie in 1..3, and classes count from 0")
    assert audit(rows, labels=labels, classes=4).notes == ()
    assert audit(rows, labels=labels - 1).notes == ()


def test_features_of_several_networks_are_compared_inside_their_folds():
    features, _, labels, truth = world()
    folds = np.arange(len(labels)) % 3
    turned = features.copy()
    turned[folds == 1] = -turned[folds == 1][:, ::-1] * 5
    turned[folds == 2] += 100
    bad = labels != truth
    apart = audit(turned, labels=labels, folds=folds).doubt
    mixed = audit(turned, labels=labels).doubt
    assert auroc(-apart[~bad], -apart[bad]) > 0.9 > auroc(-mixed[~bad], -mixed[bad])
    with pytest.raises(BadInput, match="folds must name"):
        audit(features, labels=labels, folds=folds[:5])


def test_without_logits_a_suggestion_needs_the_signs_to_agree():
    features, logits, labels, _ = world()
    found = audit(features, labels=labels, log=log_of(logits, labels), classes=5)
    assert found.share is None
    assert found.rows(1)[0]["wrong"] is None
    changed = found.suggested != labels
    assert 0 < changed.sum() < len(labels)


def test_without_logits_right_labels_are_left_as_they_are():
    truth = np.arange(60) % 3
    features = np.eye(3)[truth] + np.random.default_rng(0).normal(0, 0.01, (60, 3))
    assert audit(features, labels=truth).suggested.tolist() == truth.tolist()
    assert audit(log=np.stack([features * 5] * 6), labels=truth).suggested.tolist() == truth.tolist()


def test_reasons_are_true_and_speak_for_the_suggested_class():
    features, logits, labels, _ = world(n=400)
    found = audit(features, logits, labels, log_of(logits, labels), draws=20)
    for at, reason in enumerate(found.reasons):
        if found.suggested[at] != labels[at]:
            assert f"class {found.suggested[at]}" in reason
        if "is seen more" in reason:
            assert found.signs["dynamics"][at] > 0
        if "comes second" in reason:
            assert found.signs["dynamics"][at] <= 0
        if reason.startswith("nearest to the mean of its own class"):
            assert found.signs["geometry"][at] <= -0.1


def test_a_log_in_half_precision_is_summed_in_full():
    rng = np.random.default_rng(0)
    log = (rng.normal(0, 3, (96, 200, 5)) + 1000).astype(np.float16)
    labels = rng.integers(0, 5, 200)
    wide = audit(log=log.astype(np.float64), labels=labels)
    assert audit(log=log, labels=labels).reasons == wide.reasons


def test_all_labels_of_a_class_wrong():
    features, logits, labels, truth = world()
    labels = truth.copy()
    labels[truth == 2] = 3
    found = audit(features, logits, labels, classes=5, draws=20)
    assert np.isnan(found.share.by_class[2])
    assert found.share.by_class[3] > 0.3
    assert (found.suggested[truth == 2] == 2).mean() > 0.5


def test_the_share_of_wrong_labels_is_covered_at_the_stated_rate():
    inside = 0
    for seed in range(24):
        _, logits, labels, truth = world(seed, n=700, wrong=0.05 + 0.02 * (seed % 12))
        found = noise_share(logits, labels, draws=40, confidence=0.9, seed=seed)
        inside += found.low <= (labels != truth).mean() <= found.high
    assert inside >= 18  # 90 % of 24 is 21.6; fewer than 18 has a chance below 1 %


def calibrated(rng, n, classes, skill):
    """Logits that are right about themselves, and the truth drawn by them."""
    logits = rng.normal(0, skill, (n, classes))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return logits, (chances.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_a_weak_model_does_not_find_noise_in_clean_labels():
    for seed in range(4):
        logits, truth = calibrated(np.random.default_rng(seed), 1000, 10, 1.5)
        found = noise_share(logits, truth, draws=40, seed=seed)
        assert found.model == "one_coin"
        assert found.share < 0.06
        assert found.low < 0.03  # the card says "check labels" from 0.05 on


def test_no_noise_at_all_is_inside_the_interval_too():
    """Resamples of an estimate at the edge lie on one side of it: without reflection none would reach 0."""
    low = []
    for seed in range(6):
        logits, truth = calibrated(np.random.default_rng(seed), 600, 5, 3.0)
        low.append(noise_share(logits, truth, model="one_coin", draws=40, seed=seed).low)
    assert np.sum(np.array(low) == 0) >= 3


def test_a_little_noise_among_ten_classes_is_covered():
    inside = 0
    for seed in range(16):
        rng = np.random.default_rng(seed)
        logits, truth = calibrated(rng, 600, 10, 3.0)
        labels = np.where(rng.random(600) < 0.05, rng.integers(0, 10, 600), truth)
        found = noise_share(logits, labels, draws=40, seed=seed)
        inside += found.low <= (labels != truth).mean() <= found.high
    assert inside >= 13


def test_a_model_that_learnt_the_same_mistakes_cannot_exclude_them():
    """All mistakes go one way, and the model is calibrated to the labels: the interval must not end below the truth."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 600)
    labels = np.where(rng.random(600) < 0.28, (truth + 1) % 4, truth)
    chances = np.full((600, 4), 0.005)
    chances[np.arange(600), truth] += 0.72
    chances[np.arange(600), (truth + 1) % 4] += 0.26
    found = noise_share(np.log(chances) + rng.normal(0, 0.05, (600, 4)), labels, draws=40)
    assert found.high >= (labels != truth).mean() - 0.03


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"confidence": 95}, r"confidence must lie between 0 and 1, got 95"),
        ({"draws": -1}, r"draws must be a whole number of resamples from 0 \(no interval\) on, got -1"),
        ({"labels": np.array([0, 7, 1])}, r"labels must lie in 0\.\.1.*got 0\.\.7"),
        ({"labels": np.array([0, 1])}, r"got shapes \(3, 2\) and \(2,\)"),
    ],
)
def test_bad_input_to_the_share(given, words):
    with pytest.raises(BadInput, match=words):
        noise_share(**({"logits": np.zeros((3, 2)), "labels": np.array([0, 1, 0])} | given))


def test_an_audit_without_labels_or_with_too_few_columns():
    with pytest.raises(BadInput, match="no labels were given"):
        audit(logits=np.zeros((3, 2)))
    with pytest.raises(BadInput, match="classes=5, but logits or log have 3 columns"):
        audit(logits=np.zeros((3, 3)), labels=np.array([0, 1, 2]), classes=5)
    assert audit(logits=[[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]], labels=[0, 1, 1], draws=2).order[0] == 2


def test_class_by_class_and_the_confusion_behind_it():
    rng = np.random.default_rng(0)
    _, logits, _, truth = world(2, n=6000, sharp=1.0)
    labels = truth.copy()
    labels[(truth == 0) & (rng.random(6000) < 0.4)] = 1  # only class 0 is mistaken, and always for class 1
    found = noise_share(logits, labels, draws=0)
    assert found.model == "full"
    assert found.confusion[0, 1] == pytest.approx(0.4, abs=0.06)
    assert found.by_class[1] == pytest.approx((truth[labels == 1] != 1).mean(), abs=0.05)
    assert found.by_class[2:].max() < 0.05
    assert np.isnan(found.low)


def test_few_labels_a_class_get_one_accuracy_each():
    _, logits, labels, truth = world(1, n=120)
    found = noise_share(logits, labels, draws=10)
    assert found.model == "one_coin"
    assert found.confusion.sum(axis=1) == pytest.approx(np.ones(5))
    assert found.share == pytest.approx((labels != truth).mean(), abs=0.12)
    with pytest.raises(BadInput, match="model must be"):
        noise_share(logits, labels, model="two_coins")


def test_mistakes_that_the_model_has_learnt_are_inside_the_interval():
    """One label in five is the next class, and the model says so: 0.8 and 0.2. Likelihood finds nothing wrong."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 4000)
    chances = 0.8 * np.eye(4)[truth] + 0.2 * np.eye(4)[(truth + 1) % 4]
    labels = np.where(rng.random(4000) < 0.2, (truth + 1) % 4, truth)
    found = noise_share(np.log(chances + 1e-6), labels, draws=20)
    assert found.share < 0.05
    assert found.low < 0.05 < (labels != truth).mean() < found.high < 0.25
    assert (found.high_by_class > 0.15).all()


def test_a_full_table_of_confusions_is_not_believed_where_one_accuracy_a_class_says_less():
    """The model takes a third of class 0 for class 1, and is unsure of everything; people make no mistakes."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 3000)
    seen = np.where((truth == 0) & (rng.random(3000) < 1 / 3), 1, truth)
    logits = np.eye(3)[seen] + rng.normal(0, 1.5, (3000, 3))
    found, one = (noise_share(logits, truth, model=model, draws=20) for model in ("auto", "one_coin"))
    assert found.model == "full"
    assert found.share > 0.15
    assert found.low <= one.share < 0.06


def test_the_confident_joint_by_hand():
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.4, 0.6], [0.3, 0.7], [0.45, 0.55]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    # thresholds 0.6 and 0.617: the third item is surely 1, the fourth and the last are neither
    shares = _contradicted(np.column_stack([probs, np.zeros(6)]), labels, 0.95)
    for high, share, many in zip(shares, (1 / 6, 1 / 3, 0.0), (6, 3, 3), strict=False):
        assert high > share
        assert (high - share) ** 2 == pytest.approx(1.959964**2 * high * (1 - high) / many, rel=1e-6), "Wilson's"
    assert np.isnan(shares[3]), "a class without labels"


def test_nothing_found_among_few_labels_may_be_chance():
    labels = np.arange(130) % 3
    found = noise_share(8 * np.eye(3)[labels], labels)
    assert found.share == found.low == 0
    assert found.high == pytest.approx(1.959964**2 / (130 + 1.959964**2), rel=1e-6)


def test_networks_that_were_not_shown_the_items_may_agree_with_all_labels():
    labels = np.arange(60) % 3
    logits = 8 * np.eye(3)[labels]
    assert any("an audit needs logits" in note for note in audit(logits=logits, labels=labels, draws=0).notes)
    apart = audit(features=np.eye(3)[labels], logits=logits, labels=labels, draws=0, folds=np.arange(60) // 20)
    assert not any("an audit needs logits" in note for note in apart.notes)


def test_reasons_speak_of_classes_by_their_names():
    features, logits, labels, _ = world()
    found = audit(features, logits, labels, log_of(logits, labels), draws=0)
    names = ["ant", "bee", "cat", "dog", "elk"]
    numbered, named = found.rows(200), found.rows(200, names=names)
    assert all("class " in row["reason"] for row in numbered)
    for one, other in zip(numbered, named, strict=True):
        said = re.search(r"class (\d)", one["reason"])
        assert names[int(said[1])] in other["reason"]
        assert not re.search(r"class \d", other["reason"])


def test_cleanlab_is_heard_beside_and_changes_nothing():
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    _, logits, labels, _ = world()
    labels = np.where(labels == 4, 0, labels)  # a class without labels
    alone, beside = (audit(logits=logits, labels=labels, draws=0, rivals=rivals) for rivals in ((), ("cleanlab",)))
    np.testing.assert_array_equal(beside.doubt, alone.doubt)
    np.testing.assert_allclose(beside.details["cleanlab"], beside.signs["confidence"], atol=1e-9)
    assert beside.rows(1)[0]["cleanlab"] == pytest.approx(beside.details["cleanlab"][beside.order[0]])
    assert "cleanlab" not in alone.rows(1)[0]


def test_rivals_that_cannot_be_heard(monkeypatch):
    _, logits, labels, _ = world()
    with pytest.raises(UnknownName, match="rival"):
        audit(logits=logits, labels=labels, draws=0, rivals=("cleanlap",))
    with pytest.raises(BadInput, match="pass logits="):
        audit(features=logits, labels=labels, rivals=("cleanlab",))
    monkeypatch.setattr("ncalr.extras.installed", lambda module: False)
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[cleanlab\]'"):
        audit(logits=logits, labels=labels, draws=0, rivals=("cleanlab",))


def test_normal_scores_share_ties():
    assert normal_scores([1.0, 1.0, 5.0])[0] == normal_scores([1.0, 1.0, 5.0])[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": None}, "one class number an item"),
        ({"labels": np.array([0.5, 1.0])}, "one class number an item"),
        ({"labels": np.zeros(900, int)}, "needs at least two"),
        ({"labels": np.full(900, 9)}, r"must lie in 0..4"),
        ({"features": np.zeros((3, 2))}, r"features must have shape \(900, ...\)"),
        ({"log": np.zeros((2, 3, 5))}, r"log must have shape \(checkpoints, 900, classes\)"),
        ({"log": np.zeros((2, 900, 6))}, "logits have 5 columns and log 6; both must have one a class"),
        ({"features": None, "logits": None}, "nothing to judge labels by"),
    ],
)
def test_bad_input(change, words):
    features, logits, labels, _ = world()
    arguments = {"features": features, "logits": logits, "labels": labels, "draws": 0}
    with pytest.raises(BadInput, match=words):
        audit(**{**arguments, **change})


def test_nan_is_named_and_a_short_log_is_said():
    features, logits, labels, _ = world()
    features[7, 2] = np.nan
    with pytest.raises(NotFinite, match=r"1 values are NaN or infinite, the first at \[7, 2\]"):
        audit(features, labels=labels)
    assert "short" in audit(labels=labels, log=log_of(logits, labels, 3)).notes[0]


class Watching(SklearnLearner):
    """Knows what it was shown and what it was asked about."""

    def fit(self, job):
        assert not set(np.asarray(job.ids).tolist()) & set(np.asarray(job.watch).tolist())
        self.jobs = [*getattr(self, "jobs", []), job]
        return super().fit(job)


def test_cross_fitting_judges_every_label_by_a_model_that_did_not_see_it():
    features, _, labels, truth = world(n=300)
    pool = ArrayPool(features.astype(np.float32), ids=np.arange(500, 800))
    learner = Watching(SGDClassifier(loss="log_loss", alpha=0.01), epochs=10, checkpoints=4)
    ids = pool.ids[::2]
    found = crossfit(learner, pool, ids, labels[::2], 5, folds=3)
    assert found.logits.shape == (150, 5)
    assert found.log.shape[1:] == (150, 5)
    last = super(Watching, learner).fit(learner.jobs[-1]).evidence()["labelled_log"][-1]
    assert np.asarray(learner.jobs[-1].ids).tolist() == ids.tolist()
    np.testing.assert_allclose(found.log[-1], last, rtol=1e-6)
    assert sorted(np.concatenate([job.watch for job in learner.jobs]).tolist()) == ids.tolist()
    assert np.exp(found.logits).sum(axis=1) == pytest.approx(np.ones(150), abs=1e-3)
    accuracy = (found.logits.argmax(1) == truth[::2]).mean()
    assert accuracy > 0.6


def test_only_what_is_said_while_the_window_is_open_counts():
    ids, labels = np.arange(6), np.array([0, 1, 0, 1, 0, 1])
    log = np.random.default_rng(0).normal(size=(4, 6, 2))
    apart = {"features": np.ones((3, 2)), "sampled_probs": np.full((2, 3, 2), 0.5)}
    models = [SimpleNamespace(evidence=lambda: apart)] * 2
    for began, count in ((0, 4), (5, 2), (99, 4)):  # never open: everything
        record = Record(history=[{"epoch": epoch} for epoch in (1, 3, 5, 7)], began=began)
        whole = SimpleNamespace(evidence=lambda: {"labelled_log": log}, record=record)
        found = gather([*models, whole], ids, labels, 2, folds=2)
        np.testing.assert_array_equal(found.log, log[-count:])


def test_folds_spread_every_class_and_do_not_depend_on_the_order():
    labels = np.repeat([0, 1, 2], [30, 9, 6])
    fold = cut(labels, 3, seed=1, ids=np.arange(45))
    for kind in range(3):
        counts = np.bincount(fold[labels == kind], minlength=3)
        assert counts.max() - counts.min() <= 1
    order = np.random.default_rng(0).permutation(45)
    assert (cut(labels[order], 3, seed=1, ids=order) == fold[order]).all()
    with pytest.raises(BadInput, match="folds must lie in"):
        cut(labels, 1)


def test_too_few_labels_for_the_folds():
    pool = ArrayPool(np.zeros((4, 2), np.float32))
    with pytest.raises(BadInput, match="too few"):
        crossfit(SklearnLearner(SGDClassifier(loss="log_loss")), pool, [0, 1], [0, 1], 2, folds=2)


def test_an_audit_shows_itself_in_a_line():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    found = ncalr.audit(logits=3 * np.eye(3)[labels] + rng.normal(size=(300, 3)), labels=labels, draws=20)
    first, *notes = repr(found).splitlines()
    assert first.startswith(f"Audit: 300 labels, an estimated {found.share.share:.1%} wrong (")
    assert first.endswith(f"look first at {found.order[0]}, {found.order[1]}, {found.order[2]}, ...")
    assert len(notes) == len(found.notes)
