"""Any classifier with scikit-learn's interface as a learner.

    from sklearn.linear_model import SGDClassifier

    learner = SklearnLearner(SGDClassifier(loss="log_loss"))
    model = learner.fit(Job(pool, ids, labels, needs=needs_of("ncal")))
    picks = ncalr.query("ncal", 100, ids=model.watched, **model.evidence())

The pool holds vectors, and the vectors are the features. Images (uint8) are taken as vectors too: flattened, and
scaled to 0..1; and so are texts, by their words (`ncalr.data.words`). What the estimator is given is in float32 where
the pool is half precision or images, else as it is.

FF needs checkpoints: the same model at several moments of its training. `ncalr.learn.sklearn_steps` says how they are
made, and from which estimators they are not to be had. The training is the same whatever is asked of the model, so
strategies that need checkpoints and those that need none see the same model.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.fields import Fits, check_fields, dict_of, is_count, is_text, list_of
from ncalr.data.pool import Pool, positions_of
from ncalr.data.received import read_npy, read_object
from ncalr.dynamics import flips
from ncalr.dynamics.recorder import MOST_CLASSES
from ncalr.errors import BadInput, NotFinite, NotRecorded
from ncalr.learn.learner import SUBSTITUTES, UNCHANGED, UNSETTLED, Job, Record, Task
from ncalr.learn.sklearn_steps import (
    Array,
    Predict,
    Schedule,
    Training,
    clone,
    last_word,
    name_of,
    rule_of,
    seeded,
    sklearn_part,
    steps,
    stopped_short,
)
from ncalr.learn.texts import TextReader, TextReaders

BLOCK = 16384  # rows of the pool that are predicted at a time
NEED_CHECKPOINTS = frozenset({"checkpoint_predictions", "sampled_probs", "mean_probs", "labelled_log"})
NEED_LAYERS = frozenset({"enhanced", "labelled_enhanced"})
SET_ASIDE = {"random_state", "n_jobs", "verbose"}  # parameters that are set here, or do not change what is learnt
ARRAYS = ("vectors", "labels", "outputs")
WEIGHTS = ("coef_", "intercept_", "classes_")  # all that a linear model predicts with
FORMAT = "ncalr sklearn model 1"
LEAST = 1e-12  # probabilities below count as this one where their logarithm is taken
AGREEMENT = 1e-6  # how far probabilities may move when a saved model is fitted again


class SklearnLearner:
    """Learns with clones of an estimator that has `predict_proba`; the estimator itself is never changed.

    `checkpoints` are spread evenly over the training behind the share `opens` of it, and the last one is the end of
    it. `epochs` counts the passes of an estimator that has `partial_fit`; the others bring their own n_estimators or
    max_iter. Every parameter `random_state`, also those of parts of the estimator, is set from the job's seed and
    round, whatever it was. Trainings are short here: a job's folder is not used.

    Evidence: `features` are the pool's vectors. Where logits are asked for, probabilities are given, under the name
    `probs` (and `labelled_probs`): these estimators know no logits, and `ncalr.query` takes either. A class that is
    not among the labels has probability 0.
    """

    def __init__(self, estimator: Any, *, checkpoints: int = 10, epochs: int = 100, opens: float = 0.5) -> None:
        self.schedule = Schedule(checkpoints, epochs, opens)
        self.estimator = clone(estimator)
        self.rule = rule_of(self.estimator)
        self._readers = TextReaders()
        if self.rule == "partial_fit" and checkpoints > epochs:
            raise BadInput(
                f"{checkpoints} checkpoints need as many epochs, got epochs={epochs}; "
                "train longer or ask for fewer checkpoints"
            )

    def fit(self, job: Job) -> SklearnModel:
        """Train on one job."""
        reader = self._readers.of(job.pool)
        job = replace(job, pool=reader(job.pool))
        task = job.checked()
        if job.recipe is not None:
            raise BadInput(f"recipes are for networks, not for scikit-learn's estimators; got recipe={job.recipe!r}")
        if task.soft is not None:
            raise BadInput("scikit-learn's estimators take one label an item, not soft targets; use a TorchLearner")
        self._check_needs(job.needs)
        start = time.perf_counter()
        training = Training(
            vectors(job.pool, task.positions),
            task.labels,
            task.classes,
            (int(job.seed), int(job.round)),
            (tuple(job.pool.shape), job.pool.dtype == np.uint8),
        )
        log = _Log(job.needs & NEED_CHECKPOINTS)
        look = (lambda fitted: log.add(fitted, job.pool, task.watch, training.x)) if log.wanted else None
        fitted, record = self._train(training, look)
        record.flipping = log.flipping()
        record.notes = [*task.notes, *self._notes(fitted.estimator, record)]
        record.seconds = time.perf_counter() - start
        return SklearnModel(self, training, fitted, record, reader, task, log)

    def fit_all(self, jobs: Sequence[Job]) -> list[SklearnModel]:
        """Train on several jobs, one after the other: estimators that can use several cores have `n_jobs`."""
        return [self.fit(job) for job in jobs]

    def load(self, folder: Path | str) -> SklearnModel:
        """A model that was saved by a learner with the same estimator and settings; it predicts, and has no evidence.

        Nothing that could run is read from the folder. A logistic regression is put together from its weights. Of
        other estimators the labelled vectors are there, and the model is fitted on them again: that gives the same
        model where the estimator depends on nothing but its parameters, its random state and its data; what it
        predicts for the labelled items is compared with what was saved.
        """
        folder = Path(folder)
        about = _read_about(folder)
        _compare(about["settings"], self.settings())
        x, y, outputs = (_array(folder, name) for name in ARRAYS)
        shape, images = about["items"]
        training = Training(x, y, about["classes"], (about["seeds"][0], about["seeds"][1]), (tuple(shape), images))
        if _is_linear(self.estimator) and all((folder / f"{name}.npy").exists() for name in WEIGHTS):
            fitted = _weighted(self.estimator, training, folder)
        else:
            fitted, _ = self._train(training)
            _check_agreement(float(np.abs(fitted.outputs(x) - outputs).max()), self, folder, about["scikit_learn"])
        known = {field.name for field in fields(Record)}
        kept = {name: value for name, value in about["record"].items() if name in known and value is not None}
        return SklearnModel(self, training, fitted, Record(**kept), self._readers.saved(folder))

    def settings(self) -> dict[str, Any]:
        """The learner in plain data: which estimator, every parameter that matters, and its own settings."""
        parameters = {name: _described(value) for name, value in self.estimator.get_params().items()}
        return {
            "estimator": _described(type(self.estimator)),
            **{f"estimator.{name}": value for name, value in parameters.items() if last_word(name) not in SET_ASIDE},
            **asdict(self.schedule),
        }

    def _check_needs(self, needs: frozenset[str]) -> None:
        name = name_of(self.estimator)
        layers = sorted(needs & NEED_LAYERS)
        if layers:
            raise BadInput(
                f"{', '.join(layers)}: SISOM's enhanced features are made of a network's layers, which {name} does not "
                "have; use a torch learner, or another strategy"
            )
        checkpoints = sorted(needs & NEED_CHECKPOINTS)
        if checkpoints and not self.rule:
            raise BadInput(
                f"{', '.join(checkpoints)}: FF is not to be had from {name}, which has no checkpoints: neither "
                "partial_fit, nor staged_predict_proba, nor warm_start with n_estimators or max_iter. Take "
                "SGDClassifier(loss='log_loss'), MLPClassifier, LogisticRegression, RandomForestClassifier or "
                "GradientBoostingClassifier, or a strategy without checkpoints (margin, coreset, badge, cmap)"
            )

    def _train(self, training: Training, look: Callable[[_Fitted], None] | None = None) -> tuple[_Fitted, Record]:
        """Fit a clone; at each checkpoint its accuracy on the labelled set is recorded, and `look` may look at it."""
        estimator = seeded(self.estimator, training.seeds)
        record = Record(rule=self.rule)
        for epoch, predict in steps(estimator, self.rule, self.schedule, training, least=1 if look is None else 2):
            fitted = _Fitted(estimator, predict, training)
            accuracy = float(np.mean(fitted.outputs(training.x).argmax(axis=1) == training.y))
            record.history.append({"epoch": epoch, "accuracy": accuracy})
            record.checkpoints.append(epoch)
            if look is not None:
                look(fitted)
        record.began, record.epochs = record.checkpoints[0], record.checkpoints[-1]
        record.images = len(training.y) * (record.epochs if self.rule == "partial_fit" else 1)
        return _Fitted(estimator, estimator.predict_proba, training), record

    def _notes(self, estimator: Any, record: Record) -> list[str]:
        notes = []
        taken = len(record.checkpoints)
        if self.rule and taken < self.schedule.checkpoints:
            notes.append(f"{taken} of {self.schedule.checkpoints} checkpoints: the training has {record.epochs} steps")
        if record.flipping == 0:
            notes.append(
                f"{UNCHANGED} over {taken} checkpoints, so FF is 0 everywhere and says nothing: the "
                "estimator had converged, or a further pass changes nothing in it (naive Bayes); try a smaller opens"
            )
        if self.rule == "warm_start" and stopped_short(estimator):
            notes.append(f"{UNSETTLED} after max_iter={record.epochs} iterations; raise max_iter, or scale the data")
        return notes


class SklearnModel:
    """A fitted clone of the estimator, and the job it was fitted for; no job where it was loaded."""

    def __init__(
        self,
        learner: SklearnLearner,
        training: Training,
        fitted: _Fitted,
        record: Record,
        reader: TextReader,
        task: Task | None = None,
        log: _Log | None = None,
    ) -> None:
        self.record, self.reader = record, reader
        self.watched: Any = np.zeros(0, np.int64) if task is None else task.job.pool.ids[task.watch]
        self._learner, self._training, self._fitted, self._task, self._log = learner, training, fitted, task, log

    @property
    def estimator(self) -> Any:
        """The fitted estimator; its columns are the classes it saw."""
        return self._fitted.estimator

    def evidence(self) -> dict[str, Any]:
        """What the job's needs named, with probabilities in the place of logits; features are read from the pool."""
        if self._task is None:
            raise NotRecorded(
                "this model was loaded, and evidence is about the pool it was fitted on, which is not saved; "
                "use predict, or fit again"
            )
        names = {SUBSTITUTES.get(need, need) for need in self._task.job.needs}
        return {name: self._evidence(name, self._task) for name in sorted(names)}

    def predict(self, pool: Pool, ids: Any = None) -> Array:
        """Probabilities (n, c) for these items of a pool, or for all of them."""
        pool = self.reader(pool)
        shape, images = self._training.items
        if tuple(pool.shape) != shape or (pool.dtype == np.uint8) != images:
            raise BadInput(
                f"the model was fitted on {'images' if images else 'vectors'} of shape {shape}, this pool has "
                f"{pool.dtype} items of shape {tuple(pool.shape)}; give it the same kind"
            )
        positions = np.arange(len(pool)) if ids is None else positions_of(pool, ids)
        return self._fitted.outputs_of(pool, positions)

    def save(self, folder: Path | str) -> None:
        """Write what it takes to have the model again: the labelled vectors and labels (.npy), the rest as JSON.

        A fitted estimator can only be written as it is by pickle, which runs whatever is in the file when it is read.
        Of a logistic regression the weights are written, too: fitted with another count of threads they come out
        otherwise, by far more than a rounding where the vectors are long.
        """
        folder, training = Path(folder), self._training
        folder.mkdir(parents=True, exist_ok=True)
        record = self.record.as_dict()
        about = {
            "format": FORMAT,
            "scikit_learn": sklearn_part("").__version__,
            "settings": self._learner.settings(),
            "seeds": list(training.seeds),
            "classes": training.classes,
            "items": [list(training.items[0]), bool(training.items[1])],
            "record": {name: None if value != value else value for name, value in record.items()},  # JSON has no NaN
        }
        arrays = (training.x, training.y, self._fitted.outputs(training.x))
        for name, array in zip(ARRAYS, arrays, strict=True):
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        for name in WEIGHTS if _is_linear(self.estimator) else ():
            np.save(folder / f"{name}.npy", getattr(self.estimator, name), allow_pickle=False)
        (folder / "model.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
        self.reader.save(folder)

    def _evidence(self, name: str, task: Task) -> Array:
        pool, labelled, log = task.job.pool, name.startswith("labelled_"), self._log
        if name == "labels":
            return np.array(task.labels)
        if name in NEED_CHECKPOINTS and log is not None:
            return log.of(name)
        if name.endswith("features"):
            return vectors(pool, task.positions if labelled else task.watch)
        return self._fitted.outputs(self._training.x) if labelled else self._fitted.outputs_of(pool, task.watch)


class _Fitted:
    """An estimator at one moment, with its columns spread over all the classes."""

    def __init__(self, estimator: Any, predict: Predict, training: Training) -> None:
        self.estimator, self.predict, self.classes = estimator, predict, training.classes
        self.columns = np.asarray(getattr(estimator, "classes_", training.kinds)).astype(np.intp)

    def outputs(self, x: Array) -> Array:
        """Probabilities (n, c) of vectors."""
        probs = np.zeros((len(x), self.classes))
        if len(x):  # estimators refuse an empty array
            probs[:, self.columns] = self.predict(x.copy())  # a copy, as a step of a pipeline may work in place
        bad = int((~np.isfinite(probs)).any(axis=1).sum())
        if bad:
            raise NotFinite(
                f"{name_of(self.estimator)} predicts NaN or infinity for {bad} of {len(x)} items; scale the vectors, "
                "or lower its learning rate"
            )
        return probs

    def outputs_of(self, pool: Pool, positions: npt.NDArray[np.intp]) -> Array:
        """Probabilities (n, c) of items of a pool, read a block at a time."""
        starts = range(0, max(len(positions), 1), BLOCK)
        return np.concatenate([self.outputs(vectors(pool, positions[start : start + BLOCK])) for start in starts])


class _Log:
    """What the checkpoints said about the watched items and the labelled ones, as far as it was asked for."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.predictions: list[Array] = []
        self.probs: list[Array] = []
        self.sums: Array = np.zeros((0, 0))  # of the probabilities
        self.labelled: list[Array] = []  # logarithms of probabilities, which are logits as good as any

    def add(self, fitted: _Fitted, pool: Pool, watch: npt.NDArray[np.intp], x: Array) -> None:
        """One checkpoint."""
        if self.wanted - {"labelled_log"}:
            probs = fitted.outputs_of(pool, watch)
            self.predictions.append(probs.argmax(axis=1).astype(np.min_scalar_type(probs.shape[1] - 1)))
            if "sampled_probs" in self.wanted:
                self.probs.append(probs.astype(np.float32))
            if "mean_probs" in self.wanted:
                self.sums = self.sums + probs if len(self.predictions) > 1 else probs
        if "labelled_log" in self.wanted:
            self.labelled.append(np.log(np.maximum(fitted.outputs(x), LEAST)).astype(np.float16))

    def of(self, name: str) -> Array:
        """A piece of evidence."""
        if name == "mean_probs":
            return (self.sums / len(self.predictions)).astype(np.float32)
        logs = {"checkpoint_predictions": self.predictions, "sampled_probs": self.probs, "labelled_log": self.labelled}
        return np.stack(logs[name])

    def flipping(self) -> float | None:
        """Share of the watched items whose prediction changed; None where none were watched."""
        if not self.predictions or not len(self.predictions[0]):
            return None
        return float((flips(np.stack(self.predictions)) > 0).mean())


def vectors(pool: Pool, positions: npt.NDArray[np.intp]) -> Array:
    """Items as vectors (n, d): images flattened and scaled to 0..1, half precision widened, others as they are."""
    items = pool.read(positions)
    if items.dtype == np.uint8:
        flat = items.reshape(len(items), math.prod(items.shape[1:]))
        return np.asarray(flat / np.float32(255), np.float32)
    return items.astype(np.float32) if items.dtype == np.float16 else items


def _described(value: Any) -> Any:
    """A parameter in plain data: as it is where it is plain, else by the name of its class or function."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_described(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _described(part) for key, part in value.items()}
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _is_linear(estimator: Any) -> bool:
    """Whether its weights are the whole model. A class that is derived from it may predict in another way."""
    return type(estimator) is sklearn_part("linear_model").LogisticRegression


def _weighted(estimator: Any, training: Training, folder: Path) -> _Fitted:
    """A linear model with the weights that were saved."""
    copy = seeded(estimator, training.seeds)
    for name in WEIGHTS:
        setattr(copy, name, _array(folder, name))
    copy.n_features_in_ = copy.coef_.shape[1]
    return _Fitted(copy, copy.predict_proba, training)


def _check_agreement(gap: float, learner: SklearnLearner, folder: Path, then: str) -> None:
    """An error where a model that was fitted again is another one."""
    if gap > AGREEMENT:
        now = sklearn_part("").__version__
        raise BadInput(
            f"{name_of(learner.estimator)} fitted again on what {folder} holds gives other probabilities, by up to "
            f"{gap:.2g}. It was saved with scikit-learn {then}, this is {now}; where the versions are the same, the "
            "estimator is not decided by its random_state and data, and such a model cannot be kept"
        )


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    missing = [name for name in ("model.json", *(f"{name}.npy" for name in ARRAYS)) if not (folder / name).exists()]
    if missing:
        raise BadInput(f"there is no model in {folder} ({', '.join(missing)} not there); write one with model.save")
    about = read_object(path, "save the model again")
    if about.get("format") != FORMAT:
        raise BadInput(f"{path} does not hold a {FORMAT!r}; load it with the learner that saved it")
    check_fields(about, _KINDS, str(path), needed=tuple(_KINDS))
    return about


def _is_pair(fits: Fits, other: Fits) -> Fits:
    return lambda value: isinstance(value, list) and len(value) == 2 and fits(value[0]) and other(value[1])


_KINDS = {
    "settings": dict_of(lambda _: True),
    "seeds": _is_pair(is_count, is_count),
    "classes": lambda value: is_count(value) and 0 < value <= MOST_CLASSES,
    "items": _is_pair(list_of(is_count), lambda value: isinstance(value, bool)),
    "record": dict_of(lambda _: True),
    "scikit_learn": is_text,
}


def _array(folder: Path, name: str) -> Array:
    found: Array = read_npy(folder / f"{name}.npy", "save the model again", mapped=False)
    return found


def _compare(saved: dict[str, Any], own: dict[str, Any]) -> None:
    """An error where the settings differ; compared as texts, in which NaN equals itself."""
    differ = [
        f"{name} {json.dumps(saved.get(name))} (now {json.dumps(own.get(name))})"
        for name in sorted(saved.keys() | own.keys())
        if json.dumps(saved.get(name), sort_keys=True) != json.dumps(own.get(name), sort_keys=True)
    ]
    if differ:
        raise BadInput(
            f"the model was saved by a learner with {', '.join(differ)}; make the learner with what was saved"
        )
