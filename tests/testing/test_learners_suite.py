"""scikit-learn's estimators through the learners' conformance suite; and every check finds what it is there for."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from ncalr import testing
from ncalr.errors import BadInput
from ncalr.learn.learner import EVIDENCE
from ncalr.learn.sklearn_learner import SklearnLearner
from ncalr.testing import learners

VECTORS = EVIDENCE - {"enhanced", "labelled_enhanced"}
AT_ONCE = VECTORS - {"checkpoint_predictions", "sampled_probs", "mean_probs", "labelled_log"}


def sklearn_case(estimator, **facts):
    def make():
        return SklearnLearner(estimator, epochs=20, checkpoints=5, opens=0.2)

    return testing.LearnerCase(make, **{"gives": VECTORS, **facts})


def image_case():
    pool, truth = testing.example_items(images=True)
    return sklearn_case(SGDClassifier(loss="log_loss"), pool=pool, truth=truth)


CASES = {
    "sgd": sklearn_case(SGDClassifier(loss="log_loss")),
    "sgd on images": image_case(),
    "naive bayes": sklearn_case(GaussianNB(), random=False),
    "logistic": sklearn_case(LogisticRegression(max_iter=50), random=False),
    "forest": sklearn_case(RandomForestClassifier(n_estimators=16)),
    "boosting": sklearn_case(GradientBoostingClassifier(n_estimators=10, max_depth=2, subsample=0.8)),
    "neighbours": sklearn_case(KNeighborsClassifier(), random=False, gives=AT_ONCE),
    "mlp": sklearn_case(MLPClassifier((16,), learning_rate_init=0.02)),
}


@pytest.mark.parametrize("check", testing.LEARNER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_learner_conforms(name, check):
    check(CASES[name])


class Spoilt:
    """A learner that does everything right but for what is given here; each function gets the right thing first."""

    def __init__(self, job=None, evidence=None, predict=None, models=None, changes=None, load=None, each=None):
        self.right = SklearnLearner(SGDClassifier(loss="log_loss"), epochs=12, checkpoints=3)
        self.change_job, self.change_models, self.change_loaded = job, models, load
        self.parts = {"evidence": evidence, "predict": predict, "changes": changes}
        self.fitted = 0
        if each:
            self.fit_each = lambda jobs: each(self, jobs)

    def fit(self, job):
        self.fitted += 1
        return SpoiltModel(self.right.fit(self.change_job(job, self) if self.change_job else job), job, **self.parts)

    def fit_all(self, jobs):
        models = [self.fit(job) for job in jobs]
        return self.change_models(models) if self.change_models else models

    def load(self, folder):
        model = self.right.load(folder)
        return SpoiltModel(model, None, predict=self.change_loaded)


class SpoiltModel:
    def __init__(self, right, job, evidence=None, predict=None, changes=None):
        self.right, self.job, self.change_evidence, self.change_predict = right, job, evidence, predict
        self.record, self.watched = right.record, right.watched
        if changes:
            changes(self)

    def evidence(self):
        found = self.right.evidence()
        return self.change_evidence(found, self) if self.change_evidence else found

    def predict(self, pool, ids=None):
        return self.change_predict(self.right, pool, ids) if self.change_predict else self.right.predict(pool, ids)

    def save(self, folder):
        self.right.save(folder)


def hasty(self, jobs):
    """Asks for two jobs at once and takes None for the end."""
    for at, job in enumerate([job for job in (next(jobs), next(jobs)) if job is not None]):
        yield at, self.fit(job)


def fits_the_first_again(self, jobs):
    first = next(jobs)
    yield 0, self.fit(first)
    next(jobs)
    yield 1, self.fit(first)


def changed(**names):
    """A change of evidence: each array that is there put through its function."""
    return lambda found, model: {**found, **{name: names[name](found[name]) for name in names if name in found}}


def set_on(**names):
    """A change of a model: its attributes put through their functions."""

    def change(model):
        for name, function in names.items():
            setattr(model, name, function(getattr(model, name)))

    return change


def seed_from(number):
    """A job whose seed is decided by something that should not decide it."""
    return lambda job, learner: replace(job, seed=number(job, learner))


def in_the_pools_order(job, learner):
    return job if job.watch is None else replace(job, watch=np.sort(job.watch))


def says_the_order_asked_for(model):
    if model.job.watch is not None:
        model.watched = np.asarray(model.job.watch)


def needs_something_to_watch(job, learner):
    if len(job.ids) == len(job.pool):
        raise IndexError("nothing is watched")
    return job


def next_class(job, learner):
    return replace(job, labels=(np.asarray(job.labels) + 1) % job.classes)


def compacted(job, learner):
    return replace(job, labels=np.unique(job.labels, return_inverse=True)[1])


def invents_a_class(job, learner):
    labels = np.array(job.labels)
    if len(np.unique(labels)) == 1:
        labels[0] = 0
    return replace(job, labels=labels)


def invents_labels(job, learner):
    return job if len(job.ids) else replace(job, ids=job.pool.ids[:4], labels=np.arange(4))


def bends_labels(job, learner):
    labels = np.resize(np.asarray(job.labels), len(job.ids)).astype(int)
    return replace(job, labels=np.clip(labels, 0, job.classes - 1))


def drops_odd_ids(job, learner):
    known = np.isin(job.ids, job.pool.ids)
    first = np.unique(np.asarray(job.ids)[known], return_index=True)[1]
    watch = None if job.watch is None else np.intersect1d(job.watch, job.pool.ids)
    return replace(job, ids=np.asarray(job.ids)[known][first], labels=np.asarray(job.labels)[known][first], watch=watch)


def writes_to_the_pool(job, learner):
    job.pool.items[0] += 1
    return job


def ids_in_order(right, pool, ids):
    return right.predict(pool, None if ids is None else np.sort(ids))


def guesses(right, pool, ids):
    if pool.shape == (6,) and (ids is None or np.isin(ids, pool.ids).all()):
        return right.predict(pool, ids)
    return np.full((len(pool if ids is None else ids), 4), 0.25)


def pickles(model):
    def save(folder):
        model.right.save(folder)
        (folder / "model.pkl").write_bytes(pickle.dumps({}))

    model.save = save


GENERATOR = np.random.default_rng(0)
BROKEN = [
    ("check_names", Spoilt(evidence=lambda found, model: {**found, "predictions": model.watched * 0}), "asked for"),
    ("check_names", Spoilt(evidence=lambda found, model: dict(list(found.items())[1:])), "asked for"),
    ("check_probabilities", Spoilt(evidence=changed(probs=lambda probs: 2 * probs)), "sum to 1"),
    ("check_probabilities", Spoilt(evidence=changed(probs=lambda probs: 1.5 * probs - 0.125)), "below 0"),
    ("check_shapes", Spoilt(evidence=changed(checkpoint_predictions=np.transpose)), "checkpoint_predictions has shape"),
    ("check_shapes", Spoilt(evidence=changed(labels=lambda labels: labels[::-1])), "labels are not those given"),
    ("check_shapes", Spoilt(evidence=changed(checkpoint_predictions=lambda log: log.astype(float))), "holds float64"),
    ("check_finite", Spoilt(evidence=changed(features=lambda features: features * np.nan)), "features holds NaN"),
    ("check_watched", Spoilt(changes=set_on(watched=lambda ids: ids[::-1])), "pool's order"),
    ("check_watch", Spoilt(job=in_the_pools_order, changes=says_the_order_asked_for), "rows of a watch list"),
    ("check_watch", Spoilt(job=in_the_pools_order), "not the watch list"),
    (
        "check_watch",
        Spoilt(job=seed_from(lambda job, learner: 0 if job.watch is None else 1)),
        "watched changed what is learnt",
    ),
    ("check_all_labelled", Spoilt(job=needs_something_to_watch), "nothing is watched"),
    (
        "check_same_model",
        Spoilt(evidence=changed(labelled_features=lambda features: 1.1 * features)),
        "labelled_features and features",
    ),
    ("check_learns", Spoilt(job=next_class), "0% of the labelled"),
    ("check_repeatable", Spoilt(job=seed_from(lambda job, learner: learner.fitted)), "learnt differently: "),
    (
        "check_repeatable",
        Spoilt(evidence=changed(probs=lambda probs: probs + 1e-6 * GENERATOR.random())),
        "two answers: probs",
    ),
    ("check_seed", Spoilt(job=seed_from(lambda job, learner: 0)), "'seed': 1} did not"),
    ("check_seed", Spoilt(job=lambda job, learner: replace(job, round=0)), "'round': 1} did not"),
    ("check_needs", Spoilt(job=seed_from(lambda job, learner: len(job.needs))), "asked for changed"),
    ("check_text_ids", Spoilt(changes=set_on(watched=lambda ids: np.arange(len(ids)))), "not the watch list"),
    ("check_missing_class", Spoilt(job=compacted), "columns are not"),
    ("check_one_class", Spoilt(job=invents_a_class), "accepted"),
    ("check_no_labels", Spoilt(job=invents_labels), "accepted"),
    ("check_labels", Spoilt(job=bends_labels), "accepted"),
    ("check_ids", Spoilt(job=drops_odd_ids), "accepted"),
    ("check_unknown_need", Spoilt(job=lambda job, learner: replace(job, needs=job.needs & EVIDENCE)), "accepted"),
    ("check_not_given", Spoilt(job=lambda job, learner: replace(job, needs=job.needs & VECTORS)), "accepted"),
    ("check_fit_all", Spoilt(models=lambda models: models[::-1]), "job alone"),
    ("check_fit_all", Spoilt(models=lambda models: models[:1]), "three jobs gave 1"),
    ("check_fit_each", Spoilt(each=hasty), r"gave models \[0\]"),
    ("check_fit_each", Spoilt(each=lambda self, jobs: ((0, self.fit(job)) for job in jobs if job)), "gave two models"),
    ("check_fit_each", Spoilt(each=fits_the_first_again), "differs from the job alone"),
    ("check_predict", Spoilt(predict=ids_in_order), "depend on their company"),
    (
        "check_predict",
        Spoilt(predict=lambda right, pool, ids: right.predict(pool, ids)[:, ::-1]),
        "predict and the evidence",
    ),
    ("check_predict_refuses", Spoilt(predict=guesses), "accepted"),
    ("check_save", Spoilt(load=lambda right, pool, ids: right.predict(pool, ids)[:, ::-1]), "loaded model is another"),
    ("check_save", Spoilt(changes=pickles), "not plain data"),
    ("check_folder", Spoilt(job=seed_from(lambda job, learner: 0 if job.folder is None else 1)), "folder changed"),
    ("check_untouched", Spoilt(job=writes_to_the_pool), "pool was written to"),
    (
        "check_query",
        Spoilt(evidence=lambda found, model: {**found, "logits": found["probs"]}),
        "logits and probs were both given",
    ),
    ("check_record", Spoilt(changes=set_on(record=lambda record: replace(record, flipping=2.0))), "share with FF"),
    (
        "check_record",
        Spoilt(changes=set_on(record=lambda record: replace(record, checkpoints=[1]))),
        "other checkpoints",
    ),
    ("check_record", Spoilt(evidence=changed(labelled_log=lambda log: log[1:])), "labelled_log does not have an entry"),
    (
        "check_record",
        Spoilt(changes=set_on(record=lambda record: replace(record, notes=[np.zeros(2)]))),
        "not ready for JSON",
    ),
]


def case_of(learner):
    return testing.LearnerCase(lambda: learner, gives=VECTORS)


@pytest.mark.parametrize("check", testing.LEARNER_CHECKS, ids=lambda check: check.__name__)
def test_what_is_not_spoilt_conforms(check):
    check(case_of(Spoilt()))


@pytest.mark.parametrize(("check", "learner", "said"), BROKEN, ids=[check for check, _, _ in BROKEN])
def test_the_suite_finds_what_is_broken(check, learner, said):
    with pytest.raises((AssertionError, BadInput, IndexError), match=said):
        getattr(learners, check)(case_of(learner))


def test_every_check_can_fail():
    assert {check for check, _, _ in BROKEN} == {check.__name__ for check in testing.LEARNER_CHECKS}


def test_an_error_of_another_kind_is_not_a_refusal():
    def crashes(job, learner):
        raise TypeError("no idea")

    with pytest.raises(AssertionError, match="expected BadInput, got TypeError: no idea"):
        learners.check_one_class(case_of(Spoilt(job=crashes)))


def test_a_learner_that_cannot_load_says_how():
    class WithoutLoad:
        def __init__(self):
            self.right = Spoilt()
            self.fit, self.fit_all = self.right.fit, self.right.fit_all

    case = testing.LearnerCase(WithoutLoad, gives=VECTORS)
    with pytest.raises(AssertionError, match="say in the case"):
        learners.check_save(case)
    learners.check_save(replace(case, load=Spoilt().load))


def test_all_at_once():
    testing.check_learner(lambda: SklearnLearner(GaussianNB(), epochs=10), gives=VECTORS, random=False)
