"""Audits: planted wrong labels are found, the share is covered, no model judges a label that it was shown."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier

import ncalr
from ncalr.data import ArrayPool
from ncalr.errors import BadInput, MissingExtra, NotFinite, UnknownName
from ncalr.evaluate.audit import PLAUSIBLE, _cosines, audit
from ncalr.evaluate.crossfit import crossfit, cut, gather
from ncalr.evaluate.noise_share import calibrate, fit_coin, log_softmax, noise_share
from ncalr.evaluate.ood_metrics import aupr_out, auroc
from ncalr.evaluate.out_of_sample import _logistic_path, _ridge_path, _standard, out_of_sample
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


GIVEN = [("features",), ("logits",), ("log",), ("features", "logits"), ("features", "logits", "log")]


@pytest.mark.parametrize("given", GIVEN)
def test_planted_wrong_labels_come_first(given):
    features, logits, labels, truth = world()
    arrays = {"features": features, "logits": logits, "log": log_of(logits, labels)}
    chosen = {"features": None, **{name: arrays[name] for name in given}}
    found = audit(labels=labels, classes=5, **chosen)
    bad = labels != truth
    assert auroc(-found.wrong[~bad], -found.wrong[bad]) > 0.9
    top = found.order[:100]
    assert bad[top].mean() > 0.9
    assert (found.suggested[top] == truth[top]).mean() > 0.8
    assert (found.share is None) == (given == ("log",))


def test_score_suggestion_and_reason_come_from_one_posterior():
    for seed in range(3):
        features, _, labels, _ = world(seed, n=400)
        found = audit(features, labels)
        share, places = found.share, np.arange(400)
        assert found.wrong.mean() == pytest.approx(share.share)
        assert found.expected == round(400 * share.share)
        changed = found.suggested != labels
        assert changed.any()
        assert (share.posterior[places, found.suggested] >= share.posterior[places, labels]).all()
        assert (share.probs[places, found.suggested][changed] >= PLAUSIBLE).all()
        for at in found.order[:20]:
            said = f"class {found.suggested[at]} has {share.probs[at, found.suggested[at]]:.0%}"
            assert said in found.reasons[at] or not changed[at]
            assert f"the label {share.probs[at, labels[at]]:.0%}" in found.reasons[at]


def test_no_implausible_class_is_suggested():
    """Nothing of five classes is likely; the confusion alone would name one."""
    logits = np.log(np.tile([0.9, 0.04, 0.03, 0.02, 0.01], (200, 1)))
    found = audit(None, np.where(np.arange(200) < 100, 0, 1), logits=logits)
    places = np.arange(200)
    changed = found.suggested != found.labels
    assert (found.share.probs[places, found.suggested][changed] >= PLAUSIBLE).all()


@pytest.mark.parametrize("labels", [3, 10])
def test_names_of_items_and_order_of_rows_change_nothing(labels):
    features, _, given, _ = world(1, n=300, classes=labels)
    order = np.random.default_rng(5).permutation(300)
    found = audit(features, given)
    other = audit(features[order], given[order], ids=[f"item {at}" for at in order])
    np.testing.assert_allclose(other.wrong, found.wrong[order], atol=1e-3)
    assert other.share.high == pytest.approx(found.share.high, abs=1e-3)
    assert other.ids[other.order[0]] == f"item {found.order[0]}"
    renamed = audit(features, given, ids=np.arange(300) + 1000)
    np.testing.assert_array_equal(renamed.wrong, found.wrong)


def test_labels_of_some_items_by_name_number_or_id():
    features, _, numbers, _ = world(n=300)
    names = np.array(["ant", "bee", "cat", "dog", "elk"])[numbers].astype(object)
    names[200:] = None
    some = np.where(np.arange(300) < 200, numbers, -1)
    by_number = audit(features, some)
    assert by_number.ids.tolist() == list(range(200))
    for given in (names, {at: names[at] for at in range(200)}):
        by_name = audit(features, given)
        np.testing.assert_array_equal(by_name.wrong, by_number.wrong)
        row, numbered = by_name.rows(1)[0], by_number.rows(1)[0]
        assert row["label"] in {"ant", "bee", "cat", "dog", "elk"}
        assert row["suggested"] in row["reason"]
        assert numbered["label"] in range(5)


def test_arguments_in_the_wrong_order_are_pointed_out():
    features, logits, labels, _ = world(n=60)
    for given in ((labels, features), (labels, logits), (features, logits), (features[:, 0], labels)):
        with pytest.raises(BadInput, match=r"audit\(features, labels\)"):
            audit(*given)


def test_vectors_are_judged_better_than_by_a_logistic_regression():
    features, _, labels, truth = world(2, n=600)
    bad = labels != truth
    fold = cut(labels, 5)
    probs = np.empty((600, 5))
    for number in range(5):
        here = fold == number
        probs[here] = LogisticRegression().fit(features[~here], labels[~here]).predict_proba(features[here])
    theirs = probs[np.arange(600), labels]
    ours = audit(features, labels).wrong
    assert aupr_out(-ours[~bad], -ours[bad]) > aupr_out(theirs[~bad], theirs[bad])


def test_leave_one_out_scores_are_those_of_models_that_were_not_shown_the_item():
    features, _, labels, _ = world(n=40)
    rows = _standard(features)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    kernel = np.exp(unit.astype(float) @ unit.T - 1)
    kernel = kernel - kernel.mean(axis=0)
    kernel = kernel - kernel.mean(axis=1, keepdims=True)
    answers, at, ridge = np.eye(5)[labels], 7, 1e-1
    first = next(_ridge_path(rows, labels, np.arange(40)))
    for _ in range(500):  # what the others say of the item takes the place of its own answer, until it is the same
        mean = answers.mean(axis=0)
        fitted = kernel[at] @ np.linalg.solve(kernel + 40 * ridge * np.eye(40), answers - mean) + mean
        answers[at] = fitted
    np.testing.assert_allclose(first[at], fitted, atol=1e-6)


def test_each_label_is_scored_by_a_regression_without_its_fold():
    features, _, labels, _ = world(n=300)
    rows, fold = _standard(features), np.arange(300) % 5
    *_, scores = (scores for scores, _ in zip(_logistic_path(rows, labels, fold), range(4), strict=False))
    here = fold == 2
    penalty = np.geomspace(1e-1, 1e-4, 7)[3]
    model = LogisticRegression(C=1 / (240 * penalty), max_iter=1000).fit(rows[~here], labels[~here])
    theirs = model.predict_proba(rows[here])
    np.testing.assert_allclose(np.exp(log_softmax(scores[here])), theirs, atol=0.02)


def test_many_rows_and_wide_ones_are_approximated_closely(monkeypatch):
    features, _, labels, _ = world(n=500)
    exact = out_of_sample(features, labels, 5)
    monkeypatch.setattr("ncalr.evaluate.out_of_sample.LANDMARKS", 200)
    assert np.abs(np.exp(out_of_sample(features, labels, 5)) - np.exp(exact)).mean() < 0.02
    wide = np.hstack([features, np.zeros((500, 600))])  # more columns than rows
    assert np.abs(np.exp(out_of_sample(wide, labels, 5)) - np.exp(exact)).mean() < 0.02  # in other folds


def test_a_class_of_one_label_and_constant_vectors():
    features, _, labels, _ = world(n=100)
    labels[labels == 4] = 3
    labels[0] = 4
    assert np.isfinite(audit(features, labels).wrong).all()
    assert np.isfinite(audit(np.ones((40, 3)), np.arange(40) % 2).wrong).all()


@pytest.mark.parametrize("given", [("features", "logits"), ("logits",)])
def test_a_log_that_has_learnt_the_labels_by_heart_is_left_out(given):
    """The log agrees with every label, and its margins are as wide as vectors are long: they say nothing."""
    features, logits, labels, _ = world()
    log = np.stack([12.0 * np.eye(5)[labels] * np.linalg.norm(features, axis=1)[:, None]] * 6)
    arrays = {"features": features if "features" in given else None, "logits": logits}
    found, without = audit(labels=labels, log=log, **arrays), audit(labels=labels, **arrays)
    np.testing.assert_array_equal(found.wrong, without.wrong)
    assert any("by heart" in note for note in found.notes)
    assert "dynamics" in found.rows(1)[0], "it is shown all the same"
    refused = audit(labels=labels, log=log_of(logits, labels), **arrays)
    assert not any("by heart" in note for note in refused.notes)
    assert not np.array_equal(refused.wrong, without.wrong)


def test_a_log_changes_the_order_and_not_the_share():
    _, logits, labels, _ = world(3)
    rough = logits + np.random.default_rng(1).normal(size=logits.shape) * 3
    alone, beside = audit(None, labels, logits=rough), audit(None, labels, logits=rough, log=log_of(logits, labels))
    assert beside.share.share == alone.share.share
    assert beside.wrong.mean() == pytest.approx(alone.share.share, abs=1e-4)
    bad = labels != world(3)[3]
    assert auroc(-beside.wrong[~bad], -beside.wrong[bad]) > auroc(-alone.wrong[~bad], -alone.wrong[bad])


def test_geometry_counts_only_where_it_makes_the_labels_likelier():
    features, logits, labels, truth = world()
    noise = np.random.default_rng(0).normal(size=features.shape)
    alone = audit(None, labels, logits=logits)
    assert np.abs(audit(noise, labels, logits=logits).wrong - alone.wrong).mean() < 0.01
    rough = 0.2 * logits + np.random.default_rng(1).normal(size=logits.shape) * 2
    bad = labels != truth
    less, more = audit(None, labels, logits=rough), audit(features, labels, logits=rough)
    assert auroc(-more.wrong[~bad], -more.wrong[bad]) > auroc(-less.wrong[~bad], -less.wrong[bad]) + 0.02


def test_an_item_does_not_vouch_for_its_own_label():
    """Three labels a class: the mean of its class without the item, by hand, and nothing of an item that is alone."""
    rng = np.random.default_rng(4)
    features = rng.normal(size=(10, 4))
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    found = _cosines(features, labels, 5)
    statistics = robust_statistics(features, labels, 5, method="trimmed")
    centre = statistics.means[:4].mean(axis=0)

    def cosine(row, mean):
        row, mean = row - centre, mean - centre
        return row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)

    for at, (row, label) in enumerate(zip(features[:9], labels, strict=False)):
        own = np.flatnonzero(labels == label)
        near = own[np.argsort(np.linalg.norm(features[own] - statistics.means[label], axis=1))[:2]]
        rest = [other for other in near if other != at]  # trimmed means are of the two that are nearest to them
        assert found[at, label] == pytest.approx(cosine(row, features[rest].mean(axis=0)), abs=1e-9)
        other = (label + 1) % 3
        assert found[at, other] == pytest.approx(cosine(row, statistics.means[other]), abs=1e-9)
    assert np.isnan(found[9, 3])


def test_features_of_several_networks_are_compared_inside_their_folds():
    features, logits, labels, truth = world()
    folds = np.arange(len(labels)) % 3
    turned = features.copy()
    turned[folds == 1] = -turned[folds == 1][:, ::-1] * 5
    turned[folds == 2] += 100
    bad = labels != truth
    rough = 0.1 * logits + np.random.default_rng(1).normal(size=logits.shape)
    apart = audit(turned, labels, logits=rough, folds=folds).details["geometry"]
    mixed = audit(turned, labels, logits=rough).details["geometry"]
    assert auroc(-apart[~bad], -apart[bad]) > 0.9 > auroc(-mixed[~bad], -mixed[bad])
    with pytest.raises(BadInput, match="folds"):
        audit(features, labels, logits=logits, folds=folds[:5])


def test_rows_are_plain():
    features, logits, labels, _ = world(n=200)
    found = ncalr.audit(features, labels, logits=logits, log=log_of(logits, labels), ids=np.arange(1000, 1200))
    rows = found.rows(200)
    assert [row["rank"] for row in rows[:3]] == [1, 2, 3]
    assert rows[0]["wrong"] >= rows[1]["wrong"]
    assert rows[0]["id"] >= 1000
    assert found.rows(2)[0]["id"] == int(found.ids[found.order[0]])
    for name, values in found.details.items():
        assert rows[0][name] == values[found.order[0]]
    assert {"confidence", "geometry", "dynamics", "forgotten", "disagreement"} <= rows[0].keys()
    assert all("late checkpoints agree" in row["reason"] for row in rows)


def test_logits_of_a_network_that_learnt_the_labels_by_heart_are_pointed_out():
    _, logits, labels, truth = world(n=200)
    by_heart = audit(None, labels, logits=logits + 100 * np.eye(5)[labels])
    assert by_heart.share.share < 0.01 < (labels != truth).mean()
    assert "trained on them" in by_heart.notes[0]
    assert audit(None, labels, logits=logits).notes == ()


def test_labels_counted_from_1_are_noticed_where_nothing_counts_the_classes():
    rows, labels = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3 + 1
    assert audit(rows, labels).notes[0].startswith("the labels lie in 1..3, and classes count from 0")
    assert audit(rows, labels, classes=4).notes == ()
    assert audit(rows, labels - 1).notes == ()


def test_all_labels_of_a_class_wrong():
    features, logits, labels, truth = world()
    labels = truth.copy()
    labels[truth == 2] = 3
    found = audit(features, labels, logits=logits, classes=5)
    assert np.isnan(found.share.by_class[2])
    assert found.share.by_class[3] > 0.3
    assert (found.suggested[truth == 2] == 2).mean() > 0.5


# -- the share ------------------------------------------------------------------------------------------------------


def calibrated(rng, n, classes, skill):
    """Logits that are right about themselves, and the truth drawn by them."""
    logits = rng.normal(0, skill, (n, classes))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return logits, (chances.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


@pytest.mark.parametrize(("skill", "rate"), [(1.5, 0.0), (3.0, 0.0), (3.0, 0.05), (3.0, 0.3), (6.0, 0.2)])
def test_the_share_of_wrong_labels_is_covered(skill, rate):
    inside, zero = 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        logits, truth = calibrated(rng, 600, 10, skill)
        labels = np.where(rng.random(600) < rate, rng.integers(0, 10, 600), truth)
        found = noise_share(logits, labels)
        inside += found.low <= (labels != truth).mean() <= found.high
        zero += found.low == 0
    assert inside >= 9
    assert zero == 10 or rate


def test_vectors_with_right_labels_have_a_low_end_of_0():
    """Classes that overlap: the models contradict many labels, and all are right."""
    for seed in range(4):
        features, _, _, truth = world(seed, n=400, wrong=0.0)
        rough = features + np.random.default_rng(seed).normal(size=features.shape) * 1.5
        found = audit(rough, truth).share
        assert found.low == 0
        assert found.high > 0.1
        assert "between 0 and" in found.words
        assert f"check {found.recheck} labels" in found.words


def test_mistakes_that_the_model_has_learnt_are_inside_the_interval():
    """One label in five is the next class, and the model says so: 0.8 and 0.2. Likelihood finds nothing wrong."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 4000)
    chances = 0.8 * np.eye(4)[truth] + 0.2 * np.eye(4)[(truth + 1) % 4]
    labels = np.where(rng.random(4000) < 0.2, (truth + 1) % 4, truth)
    found = noise_share(np.log(chances + 1e-6), labels)
    assert found.share < 0.05
    assert found.low == 0
    assert (labels != truth).mean() < found.high < 0.45


def test_labels_to_check_settle_the_share():
    """As many as a random sample of them needs for 5 points to either side, and no more than there are."""
    logits, labels = calibrated(np.random.default_rng(0), 4000, 5, 1.5)
    assert 300 < noise_share(logits, labels).recheck < 400
    assert noise_share(logits[:30], labels[:30]).recheck <= 30
    assert noise_share(12 * np.eye(4)[np.arange(4000) % 4], np.arange(4000) % 4).recheck == 0


def test_nothing_found_among_few_labels_may_be_chance():
    labels = np.arange(130) % 3
    found = noise_share(12 * np.eye(3)[labels], labels)
    assert found.low == 0
    assert 0.02 < found.high < 0.06


def test_class_by_class_and_the_confusion_behind_it():
    rng = np.random.default_rng(0)
    _, logits, _, truth = world(2, n=6000, sharp=1.0)
    labels = truth.copy()
    labels[(truth == 0) & (rng.random(6000) < 0.4)] = 1  # only class 0 is mistaken, and always for class 1
    found = noise_share(logits, labels)
    assert found.model == "full"
    assert found.confusion[0, 1] == pytest.approx(0.4, abs=0.06)
    assert found.confusion.sum(axis=1) == pytest.approx(np.ones(5))
    assert found.by_class[1] == pytest.approx((truth[labels == 1] != 1).mean(), abs=0.05)
    assert found.by_class[2:].max() < 0.08
    assert found.low_by_class[1] > 0
    assert (found.low_by_class <= found.high_by_class).all()


def test_few_labels_get_one_chance_of_a_wrong_one():
    _, logits, labels, truth = world(1, n=120)
    found = noise_share(logits, labels)
    assert found.model == "one_coin"
    assert found.confusion.sum(axis=1) == pytest.approx(np.ones(5))
    assert found.share == pytest.approx((labels != truth).mean(), abs=0.12)


def test_the_likeliest_chance_of_a_wrong_label():
    """By a fine grid, with half a wrong label and one and a half right ones beside."""
    own = np.random.default_rng(0).beta(0.6, 0.3, 500)
    grid = np.linspace(0.001, 0.999, 999)
    each = np.log((1 - grid[:, None]) * own + grid[:, None] * (1 - own) / 3).sum(axis=1)
    best = grid[np.argmax(each + 0.5 * np.log(grid) + 1.5 * np.log(1 - grid))]
    assert fit_coin(own, 4)[1] == pytest.approx(best, abs=0.01)


def test_temperatures_are_found_beside_wrong_labels():
    rng = np.random.default_rng(0)
    logits, truth = calibrated(rng, 4000, 5, 3.0)
    labels = np.where(rng.random(4000) < 0.25, (truth + rng.integers(1, 5, 4000)) % 5, truth)
    found = calibrate(3 * logits, labels)
    assert found.temperature == pytest.approx(3.0, rel=0.25)
    assert found.least <= found.wrong == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize(
    "given",
    [
        {"confidence": 95},
        {"labels": np.array([0, 7, 1])},
        {"labels": np.array([0, 1])},
        {"logits": np.zeros(3)},
    ],
)
def test_bad_input_to_the_share(given):
    with pytest.raises(BadInput, match=next(iter(given))):
        noise_share(**({"logits": np.zeros((3, 2)), "labels": np.array([0, 1, 0])} | given))


def test_networks_that_were_not_shown_the_items_may_agree_with_all_labels():
    labels = np.arange(60) % 3
    logits = 8 * np.eye(3)[labels]
    assert any("An audit needs logits" in note for note in audit(None, labels, logits=logits).notes)
    apart = audit(np.eye(3)[labels], labels, logits=logits, folds=np.arange(60) // 20)
    assert not any("An audit needs logits" in note for note in apart.notes)


def test_cleanlab_is_reported_beside_and_changes_nothing():
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    _, logits, labels, _ = world()
    labels = np.where(labels == 4, 0, labels)  # a class without labels
    alone, beside = (audit(None, labels, logits=logits, rivals=rivals) for rivals in ((), ("cleanlab",)))
    np.testing.assert_array_equal(beside.wrong, alone.wrong)
    assert beside.rows(1)[0]["cleanlab"] == pytest.approx(beside.details["cleanlab"][beside.order[0]])
    assert "cleanlab" not in alone.rows(1)[0]


def test_rivals_that_are_missing(monkeypatch):
    _, logits, labels, _ = world()
    with pytest.raises(UnknownName, match="rival"):
        audit(None, labels, logits=logits, rivals=("cleanlap",))
    with pytest.raises(BadInput, match="rivals"):
        audit(None, labels, log=log_of(logits, labels), rivals=("cleanlab",))
    monkeypatch.setattr("ncalr.extras.installed", lambda module: False)
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[cleanlab\]'"):
        audit(None, labels, logits=logits, rivals=("cleanlab",))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": None}, "`labels`"),
        ({"labels": np.linspace(0.5, 1, 900)}, "labels"),
        ({"labels": np.zeros(900, int)}, "`labels`"),
        ({"labels": np.full(900, 9) - (np.arange(900) < 9)}, "`labels`"),
        ({"features": np.zeros((3, 2))}, "900"),
        ({"logits": np.zeros((3, 5))}, "`logits`"),
        ({"log": np.zeros((2, 3, 5))}, "`log`"),
        ({"log": np.zeros((2, 900, 6))}, "log"),
        ({"classes": 7}, "classes"),
        ({"features": None, "logits": None}, "`features`"),
    ],
)
def test_bad_input(change, words):
    features, logits, labels, _ = world()
    arguments = {"features": features, "logits": logits, "labels": labels}
    with pytest.raises(BadInput, match=words):
        audit(**{**arguments, **change})


def test_few_labels_are_refused_and_numbers_that_are_codes():
    with pytest.raises(BadInput, match="labels"):
        audit(np.zeros((9, 2)), np.arange(9) % 2)
    with pytest.raises(BadInput, match="class number"):
        audit(np.zeros((30, 2)), np.arange(30) + 9_999_999)


def test_nan_is_named_and_a_short_log_is_pointed_out():
    features, logits, labels, _ = world()
    features[7, 2] = np.nan
    with pytest.raises(NotFinite, match="row 7"):
        audit(features, labels)
    assert "short" in audit(None, labels, log=log_of(logits, labels, 3)).notes[0]


def test_an_audit_shows_itself_in_a_line():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    found = ncalr.audit(None, labels, logits=3 * np.eye(3)[labels] + rng.normal(size=(300, 3)))
    first, *notes = repr(found).splitlines()
    assert first.startswith(f"Audit: 300 labels; {found.share.words}; look first at {found.order[0]}")
    assert len(notes) == len(found.notes)


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


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("logits", np.float32(1)),
        ("logits", [["a", "b"]] * 12),
        ("log", np.zeros((0, 12, 2))),
        ("log", np.broadcast_to(np.float32(0), (10**12, 12, 2))),
        ("features", [[1.0], [1.0, 2.0]] * 6),
        ("classes", 2.0),
        ("folds", [None] * 12),
        ("seed", 1.5),
        ("confidence", [0.9]),
        ("rivals", np.array([])),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused_by_name(name, odd):
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 2
    given = {"features": rng.normal(size=(12, 3)), "logits": rng.normal(size=(12, 2)), "labels": labels}
    with pytest.raises(BadInput, match=name):
        audit(**{**given, name: odd})


def test_a_log_beside_logits_that_contradict_no_label():
    labels = np.arange(12) % 2
    found = audit(None, labels, logits=6.0 * np.eye(2)[labels], log=np.tile(3.0 * np.eye(2)[labels], (6, 1, 1)))
    assert np.isfinite(found.wrong).all()


def test_an_item_that_is_alone_in_its_class_and_fold_is_judged_by_its_logits():
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 3
    folds = np.where(np.arange(12) == 0, 1, 0)
    found = audit(rng.normal(size=(12, 3)), labels, logits=rng.normal(size=(12, 3)), folds=folds)
    assert np.isfinite(found.wrong).all()
