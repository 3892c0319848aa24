"""What is scikit-learn's own about its learner; what every learner does is in tests/testing/test_learners_suite.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import ncalr
from ncalr.data import ArrayPool
from ncalr.errors import BadInput, MissingExtra, NotFinite, NotRecorded
from ncalr.learn.learner import Job, needs_of
from ncalr.learn.sklearn_learner import SklearnLearner, vectors
from ncalr.learn.sklearn_steps import Schedule, rule_of
from ncalr.testing import example_items

LOGISTIC_SGD = SGDClassifier(loss="log_loss")


@pytest.fixture
def items():
    return example_items()


def job_of(items, **changes):
    pool, truth = items
    labelled = np.arange(0, len(pool), 3)
    plain = {"pool": pool, "ids": pool.ids[labelled], "labels": truth[labelled], "classes": 4}
    return Job(**{**plain, **changes})


def rounded(items):
    """The job with vectors that may stand for categories."""
    pool = items[0]
    return job_of((ArrayPool(np.abs(pool.items).round(), pool.ids), items[1]))


def labelled_set(job):
    rows = np.flatnonzero(np.isin(job.pool.ids, job.ids))
    return job.pool.read(rows), np.asarray(job.labels)


class Counted(ClassifierMixin, BaseEstimator):
    """Predicts the frequencies of the labels, and keeps what it was given."""

    seen: list = []  # noqa: RUF012 (one list for all clones, on purpose)

    def __init__(self, drift=0.0, random_state=None):
        self.drift, self.random_state = drift, random_state

    def partial_fit(self, x, y, classes):
        self.classes_ = np.asarray(classes)
        self.share_ = np.array([np.mean(y == kind) for kind in classes]) + self.drift * len(self.seen)
        self.seen.append((np.array(x), np.array(y), self.random_state))
        return self

    def fit(self, x, y):
        raise AssertionError("partial_fit comes first")

    def predict_proba(self, x):
        return np.tile(self.share_ / self.share_.sum(), (len(x), 1))


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(Counted, "seen", [])
    return Counted.seen


# -- how checkpoints are made ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "rule"),
    [
        (LOGISTIC_SGD, "partial_fit"),
        (GaussianNB(), "partial_fit"),
        (MLPClassifier(), "partial_fit"),
        (MLPClassifier(solver="lbfgs"), "warm_start"),
        (MLPClassifier(early_stopping=True), "warm_start"),
        (SGDClassifier(loss="log_loss", class_weight="balanced"), "warm_start"),
        (GradientBoostingClassifier(), "staged"),
        (HistGradientBoostingClassifier(), "staged"),
        (AdaBoostClassifier(), "staged"),
        (RandomForestClassifier(), "warm_start"),
        (BaggingClassifier(), "warm_start"),
        (LogisticRegression(), "warm_start"),
        (LogisticRegression(solver="liblinear"), ""),
        (make_pipeline(StandardScaler(), LogisticRegression()), "warm_start"),
        (make_pipeline(StandardScaler(), GaussianNB()), ""),
        (KNeighborsClassifier(), ""),
        (DecisionTreeClassifier(), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_rule_is_the_first_that_works(estimator, rule):
    assert rule_of(estimator) == rule


def test_checkpoints_lie_evenly_behind_the_opening_and_end_with_the_training():
    assert Schedule(checkpoints=5, opens=0.5).window(20) == (12, 14, 16, 18, 20)
    assert Schedule(checkpoints=5, opens=0.0).window(5) == (1, 2, 3, 4, 5)
    assert Schedule(checkpoints=3, opens=1.0).window(9) == (7, 8, 9)
    assert Schedule(checkpoints=10).window(4) == (1, 2, 3, 4)
    assert Schedule(checkpoints=10).window(1) == (1,)


def test_passes_are_shuffled_by_seed_round_and_epoch(items, seen):
    learner = SklearnLearner(Counted(), epochs=3, checkpoints=3)
    x, _ = labelled_set(job_of(items))
    orders = {}
    for seed, round_ in ((0, 0), (0, 0), (1, 0), (0, 1)):
        seen.clear()
        learner.fit(job_of(items, seed=seed, round=round_))
        places = [tuple(int(np.flatnonzero((x == row).all(axis=1))[0]) for row in given) for given, _, _ in seen]
        assert all(sorted(order) == list(range(len(x))) for order in places)
        assert len(set(places)) == 3
        assert orders.setdefault((seed, round_), places) == places
    assert len({tuple(places) for places in orders.values()}) == 3


def test_labels_are_shuffled_with_their_items(items, seen):
    SklearnLearner(Counted(), epochs=2, checkpoints=2).fit(job_of(items))
    x, y = labelled_set(job_of(items))
    for given, labels, _ in seen:
        places = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in given]
        assert np.array_equal(y[places], labels)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(n_estimators=12),
        BaggingClassifier(n_estimators=12),
        GradientBoostingClassifier(n_estimators=12, subsample=0.7),
        HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=3),
        make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=3)),
    ],
    ids=["forest", "bagging", "boosting", "histogram boosting", "in a pipeline"],
)
def test_growing_in_steps_gives_what_one_fit_gives(estimator, items):
    job = job_of(items, seed=3)
    model = SklearnLearner(estimator, checkpoints=4).fit(job)
    assert model.record.checkpoints == [6, 8, 10, 12]
    whole = model.estimator.__sklearn_clone__()  # with the random states that were set
    whole.fit(*labelled_set(job))
    assert np.allclose(model.predict(job.pool), whole.predict_proba(job.pool.items), atol=1e-12)


@pytest.mark.parametrize("scaled", [False, True])
def test_iterating_in_steps_ends_where_one_fit_ends(scaled, items):
    # The scaler works in place: were it given the same array at each step, it would scale what it had scaled.
    plain = LogisticRegression(max_iter=200)
    estimator = make_pipeline(StandardScaler(copy=False), plain) if scaled else plain
    job = job_of(items)
    model = SklearnLearner(estimator).fit(job)
    assert model.record.checkpoints[-1] == 200
    x, y = labelled_set(job)
    whole = estimator.__sklearn_clone__().fit(x.copy(), y).predict_proba(job.pool.items.copy())
    assert np.allclose(model.predict(job.pool), whole, atol=1e-3)
    assert not any("converged after" in note for note in model.record.notes)


def test_the_last_checkpoint_is_the_model(items):
    for estimator in (LOGISTIC_SGD, GradientBoostingClassifier(n_estimators=8), RandomForestClassifier(n_estimators=8)):
        job = job_of(items, needs=frozenset({"checkpoint_predictions", "sampled_probs", "mean_probs", "probs"}))
        found = SklearnLearner(estimator, epochs=10, checkpoints=4).fit(job).evidence()
        assert found["sampled_probs"].shape == (4, 64, 4)
        assert np.allclose(found["mean_probs"], found["sampled_probs"].mean(axis=0), atol=1e-6)
        assert np.allclose(found["sampled_probs"][-1], found["probs"], atol=1e-6)
        assert np.array_equal(found["checkpoint_predictions"], found["sampled_probs"].argmax(axis=2))


def test_a_training_cut_short_says_so_in_its_notes_and_not_by_warnings(items):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SklearnLearner(LogisticRegression(max_iter=4, tol=1e-9), checkpoints=3, opens=0).fit(job_of(items))
    assert model.record.checkpoints == [2, 3, 4]
    assert any("not converged after max_iter=4" in note for note in model.record.notes)


def test_other_warnings_come_through(items):
    class Worried(LogisticRegression):
        def fit(self, x, y):
            warnings.warn("something else", UserWarning, stacklevel=2)
            return super().fit(x, y)

    with pytest.warns(UserWarning, match="something else"):
        SklearnLearner(Worried()).fit(job_of(items))


def test_where_nothing_is_cut_short_its_warnings_come_through(items):
    binary = job_of(items, labels=job_of(items).labels % 2, classes=2)
    with pytest.warns(ConvergenceWarning):
        SklearnLearner(LogisticRegression(solver="liblinear", max_iter=1)).fit(binary)


def test_a_training_with_too_few_steps_says_how_many_checkpoints_it_has(items):
    learner = SklearnLearner(RandomForestClassifier(n_estimators=3))
    record = learner.fit(job_of(items, needs=needs_of("ff"))).record
    assert record.checkpoints == [1, 2, 3]
    assert record.notes[0] == "3 of 10 checkpoints: the training has 3 steps"


def test_labels_counted_from_1_are_noticed(items):
    job = job_of(items)
    for classes, noticed in ((0, True), (job.classes + 1, False)):
        record = SklearnLearner(GaussianNB()).fit(job_of(items, labels=job.labels + 1, classes=classes)).record
        assert [note for note in record.notes if "classes count from 0" in note] == record.notes[:noticed]


def test_counting_again_flips_nothing_and_the_notes_say_so(items):
    record = SklearnLearner(GaussianNB()).fit(job_of(items, needs=needs_of("ff"))).record
    assert record.flipping == 0
    assert "FF is 0 everywhere" in record.notes[0]


# -- evidence -------------------------------------------------------------------------------------------------------


def test_from_evidence_to_picks(items):
    model = SklearnLearner(LOGISTIC_SGD, opens=0.0).fit(job_of(items, needs=needs_of("ncal", "badge", "bald")))
    assert model.record.flipping > 0
    for strategy in ("ncal", "badge", "bald"):
        picks = ncalr.query(strategy, 5, ids=model.watched, **model.evidence())
        assert set(picks.ids) <= set(model.watched)


def test_probabilities_are_given_for_logits(items):
    found = SklearnLearner(GaussianNB()).fit(job_of(items, needs=frozenset({"logits", "labelled_logits"}))).evidence()
    assert sorted(found) == ["labelled_probs", "probs"]
    assert found["labelled_probs"].shape == (32, 4)


def test_features_are_the_vectors(items):
    found = (
        SklearnLearner(GaussianNB()).fit(job_of(items, needs=frozenset({"features", "labelled_features"}))).evidence()
    )
    assert np.array_equal(found["features"], np.delete(items[0].items, np.arange(0, 96, 3), axis=0))
    assert np.array_equal(found["labelled_features"], items[0].items[::3])


def test_images_are_flattened_and_scaled():
    images = np.array([[[0, 255], [51, 102]]], np.uint8)
    found = vectors(ArrayPool(images), np.array([0]))
    assert found.dtype == np.float32
    assert np.allclose(found, [[0, 1, 0.2, 0.4]])


def test_half_precision_is_widened_and_the_rest_is_as_it_is():
    kinds = {np.float16: np.float32, np.float32: np.float32, np.float64: np.float64}
    for given, expected in kinds.items():
        assert vectors(ArrayPool(np.zeros((2, 3), given)), np.array([1])).dtype == expected


@pytest.mark.parametrize("estimator", [GaussianNB(), LOGISTIC_SGD, RandomForestClassifier(9), KNeighborsClassifier()])
def test_a_class_without_labels_has_probability_0(estimator, items):
    pool, truth = items
    rows = np.flatnonzero(truth != 2)[::2]
    model = SklearnLearner(estimator).fit(job_of(items, ids=pool.ids[rows], labels=truth[rows]))
    probs = model.predict(pool)
    assert (probs[:, 2] == 0).all()
    assert np.allclose(probs.sum(axis=1), 1)


def test_a_large_pool_is_predicted_in_blocks(items, monkeypatch):
    model = SklearnLearner(GaussianNB()).fit(job_of(items))
    whole = model.predict(items[0])
    monkeypatch.setattr("ncalr.learn.sklearn_learner.BLOCK", 7)
    assert np.allclose(model.predict(items[0]), whole)


def test_the_record_tells_the_training(items):
    record = SklearnLearner(LOGISTIC_SGD, epochs=20, checkpoints=5).fit(job_of(items)).record
    assert (record.rule, record.began, record.epochs, record.images) == ("partial_fit", 12, 20, 20 * 32)
    assert [entry["epoch"] for entry in record.history] == [12, 14, 16, 18, 20]
    assert all(0.5 < entry["accuracy"] <= 1 for entry in record.history)
    assert record.flipping is None  # nobody asked for checkpoints, so nobody looked at the pool


# -- the estimator --------------------------------------------------------------------------------------------------


def test_the_callers_estimator_is_never_changed(items):
    for estimator in (LogisticRegression(), RandomForestClassifier(7), SGDClassifier(loss="log_loss", random_state=5)):
        before = dict(vars(estimator))
        SklearnLearner(estimator).fit(job_of(items))
        assert vars(estimator) == before


def test_changes_of_the_estimator_after_the_learner_was_made_are_not_seen(items):
    estimator = RandomForestClassifier(6)
    learner = SklearnLearner(estimator)
    estimator.n_estimators = 3
    assert learner.fit(job_of(items)).record.epochs == 6


def test_every_random_state_is_set_from_seed_and_round(items):
    estimator = BaggingClassifier(DecisionTreeClassifier(splitter="random", random_state=1), 4, random_state=2)
    states = set()
    for seed, round_ in ((0, 0), (0, 0), (1, 0), (0, 1), (-1, 0)):
        fitted = SklearnLearner(estimator).fit(job_of(items, seed=seed, round=round_)).estimator
        assert fitted.random_state != fitted.estimator.random_state
        states |= {fitted.random_state, fitted.estimator.random_state}
    assert len(states) == 8


@pytest.mark.parametrize("strategy", ["ff", "bald", "ncal"])
def test_ff_is_not_to_be_had_from_every_estimator(strategy, items):
    with pytest.raises(BadInput, match=r"FF is not to be had from KNeighborsClassifier.*Take SGDClassifier"):
        SklearnLearner(KNeighborsClassifier()).fit(job_of(items, needs=needs_of(strategy)))


def test_one_step_is_no_checkpoints(items):
    for estimator in (RandomForestClassifier(1), GradientBoostingClassifier(n_estimators=1)):
        learner = SklearnLearner(estimator)
        assert learner.fit(job_of(items, needs=needs_of("margin"))).record.checkpoints == [1]
        with pytest.raises(BadInput, match="needs 2 or more, ten are better, and this training has 1; raise"):
            learner.fit(job_of(items, needs=needs_of("ff")))


def test_enhanced_features_need_a_network(items):
    with pytest.raises(BadInput, match=r"enhanced, labelled_enhanced: SISOM's .* which GaussianNB does not have"):
        SklearnLearner(GaussianNB()).fit(job_of(items, needs=needs_of("sisom")))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"estimator": SGDClassifier()}, "SGDClassifier as it is set has no predict_proba"),
        ({"estimator": SGDClassifier}, r"got the class SGDClassifier: write SGDClassifier\(\)"),
        ({"estimator": "sgd"}, "got str without get_params, set_params, fit"),
        ({"checkpoints": 1}, "checkpoints must be a whole number of at least 2, got 1"),
        ({"epochs": 2.0}, "epochs must be a whole number of at least 1, got 2.0"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"epochs": 5}, "10 checkpoints need as many epochs, got epochs=5"),
        ({"opens": 1.5}, r"opens must lie in 0\.\.1, got 1.5"),
    ],
)
def test_what_cannot_be_used_is_refused(given, said):
    with pytest.raises(BadInput, match=said):
        SklearnLearner(**{"estimator": LOGISTIC_SGD, **given})


def test_probabilities_that_are_none_are_an_error(items, seen):
    with pytest.raises(NotFinite, match="Counted predicts NaN or infinity for 32 of 32 items"):
        SklearnLearner(Counted(drift=np.nan), epochs=2, checkpoints=2).fit(job_of(items))


def test_a_pipeline_is_named_by_its_steps(items):
    estimator = make_pipeline(StandardScaler(), GaussianNB())
    with pytest.raises(BadInput, match=r"not to be had from StandardScaler \+ GaussianNB"):
        SklearnLearner(estimator).fit(job_of(items, needs=needs_of("ff")))


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtra, match=r"needs scikit-learn; install it with: pip install 'ncalr\[sklearn\]'"):
        SklearnLearner(LOGISTIC_SGD)


def test_the_module_loads_neither_scikit_learn_nor_torch():
    program = "import sys, ncalr.learn.sklearn_learner; print({'sklearn', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_model_knows_what_it_was_fitted_on(items):
    model = SklearnLearner(GaussianNB()).fit(job_of(items))
    with pytest.raises(
        BadInput, match=r"fitted on vectors of shape \(6,\), this pool has uint8 items of shape \(2, 3, 1\)"
    ):
        model.predict(ArrayPool(np.zeros((4, 2, 3), np.uint8)))


# -- saving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        LOGISTIC_SGD,
        RandomForestClassifier(9),
        GradientBoostingClassifier(n_estimators=5),
        HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3),
        make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=20)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_loaded_model_is_the_same_to_the_last_digit(estimator, items, tmp_path):
    model = SklearnLearner(estimator).fit(job_of(items, seed=4, round=2))
    model.save(tmp_path / "new" / "folder")
    loaded = SklearnLearner(estimator).load(tmp_path / "new" / "folder")
    assert np.array_equal(loaded.predict(items[0]), model.predict(items[0]))
    assert {**loaded.record.as_dict(), "flipping": 0} == {**model.record.as_dict(), "flipping": 0}
    assert loaded.record.flipping is None
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.json").read_text() == (tmp_path / "new" / "folder" / "model.json").read_text()


def test_what_is_saved_is_plain(items, tmp_path):
    SklearnLearner(LOGISTIC_SGD).fit(job_of(items)).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "labels.npy",
        "model.json",
        "outputs.npy",
        "vectors.npy",
    ]

    def not_json(name):
        raise AssertionError(f"{name} is not JSON")

    about = json.loads((tmp_path / "model.json").read_text(), parse_constant=not_json)
    assert about["settings"]["estimator"].endswith("SGDClassifier")
    assert about["settings"]["estimator.loss"] == "log_loss"
    assert np.array_equal(np.load(tmp_path / "vectors.npy", allow_pickle=False), items[0].items[::3])


def test_a_loaded_model_has_no_evidence_and_says_so(items, tmp_path):
    SklearnLearner(GaussianNB()).fit(job_of(items)).save(tmp_path)
    loaded = SklearnLearner(GaussianNB()).load(tmp_path)
    assert len(loaded.watched) == 0
    with pytest.raises(NotRecorded, match="this model was loaded"):
        loaded.evidence()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (SklearnLearner(SGDClassifier(loss="log_loss", alpha=0.1)), r"estimator.alpha 0.0001 \(now 0.1\)"),
        (SklearnLearner(LOGISTIC_SGD, epochs=50), r"epochs 100 \(now 50\)"),
        (SklearnLearner(GaussianNB()), r"SGDClassifier\" \(now \"sklearn.naive_bayes.GaussianNB\"\)"),
    ],
)
def test_another_learner_does_not_load_the_model(other, said, items, tmp_path):
    SklearnLearner(LOGISTIC_SGD).fit(job_of(items)).save(tmp_path)
    with pytest.raises(BadInput, match=said):
        other.load(tmp_path)


def test_parameters_that_do_not_matter_may_differ(items, tmp_path):
    SklearnLearner(RandomForestClassifier(5, random_state=1)).fit(job_of(items)).save(tmp_path)
    SklearnLearner(RandomForestClassifier(5, random_state=2, n_jobs=1)).load(tmp_path)


def test_parameters_of_every_kind_are_compared(items, tmp_path):
    def metric(a, b):
        return float(np.abs(a - b).sum())

    def make(weights):
        return SklearnLearner(make_pipeline(StandardScaler(), KNeighborsClassifier(metric=metric, weights=weights)))

    def even(distances):
        return np.ones_like(distances)

    make(even).fit(job_of(items)).save(tmp_path)
    make(even).load(tmp_path)
    with pytest.raises(BadInput, match=r"weights \".*even\" \(now \"uniform\"\)"):
        make("uniform").load(tmp_path)
    for estimator in (
        GaussianNB(priors=np.full(4, 0.25)),
        HistGradientBoostingClassifier(max_iter=2, class_weight={0: 2.0}, categorical_features=[True] + 5 * [False]),
    ):
        learner = SklearnLearner(estimator)
        learner.fit(rounded(items)).save(tmp_path)
        learner.load(tmp_path)


def test_an_estimator_that_is_not_decided_by_its_seed_is_found_out(items, tmp_path, seen):
    learner = SklearnLearner(Counted(drift=0.01), epochs=2, checkpoints=2)
    learner.fit(job_of(items)).save(tmp_path)
    with pytest.raises(BadInput, match=r"gives other probabilities, by up to .* saved with scikit-learn"):
        learner.load(tmp_path)


SAVE_OR_LOAD = """
import sys
import numpy as np
from sklearn.linear_model import LogisticRegression
from ncalr.data import ArrayPool
from ncalr.learn.learner import Job
from ncalr.learn.sklearn_learner import SklearnLearner

rng = np.random.default_rng(0)
truth = rng.integers(0, 10, 1000)
rows = (0.1 * rng.normal(size=(10, 512))[truth] + rng.normal(size=(1000, 512))).astype(np.float32)
pool = ArrayPool(rows / np.linalg.norm(rows, axis=1, keepdims=True))
learner, out = SklearnLearner(LogisticRegression(C=100.0, max_iter=200)), sys.argv[2]
if sys.argv[1] == "save":
    model = learner.fit(Job(pool, np.arange(500), truth[:500], 10))
    model.save(out)
else:
    model = learner.load(out)
np.save(f"{out}-{sys.argv[1]}.npy", model.predict(pool))
"""


def test_a_linear_model_is_loaded_whatever_the_count_of_threads(tmp_path):
    """Fitted again with other threads, long vectors give other weights: 4e-5 in a probability here, 0.03 elsewhere."""
    out = tmp_path / "model"
    for what, threads in (("save", "1"), ("load", "2")):
        settings = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        subprocess.run([sys.executable, "-c", SAVE_OR_LOAD, what, str(out)], env=settings, check=True)
    saved, loaded = np.load(f"{out}-save.npy"), np.load(f"{out}-load.npy")
    np.testing.assert_allclose(loaded, saved, atol=1e-5)


@pytest.mark.parametrize("labels", [4, 2])
def test_a_linear_model_is_its_weights_and_is_not_fitted_again(labels, items, tmp_path, monkeypatch):
    pool, truth = items
    model = SklearnLearner(LogisticRegression()).fit(job_of((pool, truth % labels)))
    model.save(tmp_path)
    monkeypatch.setattr(LogisticRegression, "fit", None)
    loaded = SklearnLearner(LogisticRegression()).load(tmp_path)
    assert np.array_equal(loaded.predict(pool), model.predict(pool))


def test_a_linear_model_of_an_earlier_version_is_fitted_again(items, tmp_path):
    model = SklearnLearner(LogisticRegression()).fit(job_of(items))
    model.save(tmp_path)
    (tmp_path / "coef_.npy").unlink()
    loaded = SklearnLearner(LogisticRegression()).load(tmp_path)
    np.testing.assert_allclose(loaded.predict(items[0]), model.predict(items[0]), atol=1e-6)


def test_a_folder_without_a_model_is_refused(tmp_path):
    learner = SklearnLearner(GaussianNB())
    with pytest.raises(BadInput, match=r"no model in .*model.json, vectors.npy"):
        learner.load(tmp_path)
    for name in ("vectors.npy", "labels.npy", "outputs.npy"):
        np.save(tmp_path / name, np.zeros(1))
    (tmp_path / "model.json").write_text('{"format": "another"}')
    with pytest.raises(BadInput, match="does not hold a 'ncalr sklearn model 1'"):
        learner.load(tmp_path)


def test_a_recipe_is_refused():
    pool = ArrayPool(np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32))
    job = Job(pool, pool.ids[:6], np.arange(6) % 2, recipe="strong")
    with pytest.raises(BadInput, match="recipes are for networks"):
        SklearnLearner(LogisticRegression()).fit(job)
