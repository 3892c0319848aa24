"""What every learner must do. Each check takes a `LearnerCase` and raises AssertionError.

    case = testing.LearnerCase(lambda: MyLearner(), random=True)

    @pytest.mark.parametrize("check", testing.LEARNER_CHECKS, ids=lambda check: check.__name__)
    def test_my_learner(check):
        check(case)

One case serves all checks: what most of them look at is trained once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.acquire import strategies
from ncalr.acquire.door import WHOLE_NUMBERS
from ncalr.acquire.evidence import POOL_AXIS, SHAPES
from ncalr.acquire.query import query
from ncalr.data.pool import ArrayPool, Pool, positions_of
from ncalr.dynamics import flips
from ncalr.errors import BadInput
from ncalr.kernels import to_numpy
from ncalr.learn.learner import EVIDENCE, SUBSTITUTES, Job, Learner, Model, fit_each, needs_of

SHAPES_ALL = {**SHAPES, "labelled_log": ("h", "m", "c")}  # h: checks, more than checkpoints
AXIS = POOL_AXIS
OVER_CHECKPOINTS = ("sampled_probs", "mean_probs")
PLAIN_FILES = {".json", ".npy", ".safetensors"}


def example_items(
    n: int = 96, *, classes: int = 4, seed: int = 0, images: bool = False
) -> tuple[ArrayPool, npt.NDArray[np.int64]]:
    """A made-up pool of vectors (or 8 x 8 images) of some classes that overlap a little, and the class of each item."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % classes)
    shape = (8, 8, 1) if images else (6,)
    centres = 2 * rng.standard_normal((classes, *shape))
    items = centres[truth] + rng.standard_normal((n, *shape))
    if images:
        items = np.clip(127.5 + 20 * items, 0, 255).astype(np.uint8)
    return ArrayPool(items if images else items.astype(np.float32), ids=100 + np.arange(n)), truth


@dataclass(frozen=True)
class LearnerCase:
    """A learner to be checked, and a pool to check it on.

    The pool needs ids that are whole numbers, and three classes or more with twelve items each that can be told apart;
    `truth` are the classes of its items. `gives` is the evidence that can be had from the learner, with logits where
    `SUBSTITUTES` are given for them; the rest it must refuse. `random` says whether the seed changes what is learnt.
    `load` reads a saved model: the learner's own method if None.
    """

    make: Callable[[], Learner]
    pool: Pool = field(default_factory=lambda: example_items()[0])
    truth: Any = field(default_factory=lambda: example_items()[1])
    gives: frozenset[str] = EVIDENCE
    random: bool = True
    load: Callable[[Path], Model] | None = None

    @cached_property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.truth.max()) + 1

    @cached_property
    def labelled(self) -> npt.NDArray[np.intp]:
        """Positions of eight items of each class, in no order."""
        chosen = [np.flatnonzero(self.truth == kind)[:8] for kind in range(self.classes)]
        return np.asarray(np.random.default_rng(1).permutation(np.concatenate(chosen)), np.intp)

    @cached_property
    def needs(self) -> frozenset[str]:
        """All the learner gives; logits rather than probabilities, as no strategy takes both."""
        return self.gives - frozenset(instead for name, instead in SUBSTITUTES.items() if name in self.gives)

    @cached_property
    def model(self) -> Model:
        """The model that most checks look at."""
        return self.fit()

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """Its evidence."""
        return arrays(self.model)

    def job(self, **changes: Any) -> Job:
        """The job that most checks give, with some of it changed."""
        plain = {
            "pool": self.pool,
            "ids": self.pool.ids[self.labelled],
            "labels": self.truth[self.labelled],
            "classes": self.classes,
            "needs": self.needs,
        }
        return Job(**{**plain, **changes})

    def fit(self, **changes: Any) -> Model:
        """A new learner, trained on that job."""
        return self.make().fit(self.job(**changes))


def check_learner(make: Callable[[], Learner], **facts: Any) -> None:
    """Every check at once; `facts` are those of a `LearnerCase`."""
    case = LearnerCase(make, **facts)
    for check in LEARNER_CHECKS:
        check(case)


def arrays(model: Model) -> dict[str, Any]:
    """The evidence of a model as NumPy arrays."""
    return {name: to_numpy(array) for name, array in model.evidence().items()}


def check_names(case: LearnerCase) -> None:
    """Evidence is what was asked for, all of it and nothing else, or the substitute of what is not known."""
    names = sorted(case.needs)
    for asked in (case.needs, frozenset(names[::2]), frozenset(names[1::2]), frozenset[str]()):
        found = case.evidence if asked == case.needs else case.fit(needs=asked).evidence()
        assert _names_match(found, asked), f"asked for {sorted(asked)}, got {sorted(found)}"


def check_probabilities(case: LearnerCase) -> None:
    """Probabilities are given where they are asked for: none below 0, each row summing to 1."""
    asked = frozenset({"probs", "labelled_probs"}) & case.gives
    found = arrays(case.fit(needs=asked))
    assert set(found) == asked, f"asked for {sorted(asked)}, got {sorted(found)}"
    both = {**found, **{name: array for name, array in case.evidence.items() if name in (*asked, *OVER_CHECKPOINTS)}}
    for name, array in both.items():
        assert (array >= 0).all(), f"{name} has values below 0"
        assert np.allclose(array.sum(axis=-1), 1, atol=1e-3), f"{name} does not sum to 1"


def check_shapes(case: LearnerCase) -> None:
    """Every array has the shape `ncalr.query` expects, class numbers are whole numbers, labels are those given."""
    sizes = {"n": len(case.model.watched), "m": len(case.labelled), "c": case.classes}
    for name, array in case.evidence.items():
        letters = SHAPES_ALL[name]
        assert array.ndim == len(letters), f"{name} has shape {array.shape}, expected {letters}"
        for letter, size in zip(letters, array.shape, strict=True):
            assert sizes.setdefault(letter, size) == size, f"{name} has shape {array.shape}, with {letter} {sizes}"
        assert array.dtype.kind in ("iu" if name in WHOLE_NUMBERS else "f"), f"{name} holds {array.dtype}"
    assert sizes.get("t", 2) >= 2, "FF needs two checkpoints"
    log = case.evidence.get("checkpoint_predictions", np.zeros(1))
    assert 0 <= log.min() <= log.max() < case.classes, "checkpoint_predictions are not classes"
    labels = case.truth[case.labelled]
    assert np.array_equal(case.evidence.get("labels", labels), labels), "labels are not those given, in their order"


def check_finite(case: LearnerCase) -> None:
    """No NaN and no infinity."""
    for name, array in case.evidence.items():
        assert np.isfinite(array).all(), f"{name} holds NaN or infinity"


def check_watched(case: LearnerCase) -> None:
    """Without a watch list, every item that has no label is watched, in the pool's order."""
    expected = np.delete(case.pool.ids, case.labelled)
    assert np.array_equal(to_numpy(case.model.watched), expected), "not the unlabelled items in the pool's order"


def check_watch(case: LearnerCase) -> None:
    """Some items in any order: rows follow the list, and watching others changes nothing in what is learnt."""
    order = np.random.default_rng(2).permutation(len(case.model.watched))[:11]
    watch = to_numpy(case.model.watched)[order]
    model = case.fit(watch=watch)
    assert np.array_equal(to_numpy(model.watched), watch), "not the watch list in its order"
    _assert_same(_outputs(case, model), _outputs(case, case.model), "what is watched changed what is learnt")
    expected = {name: _rows(name, array, order) for name, array in case.evidence.items()}
    _assert_same(arrays(model), expected, "the rows of a watch list are not those of its items")


def check_all_labelled(case: LearnerCase) -> None:
    """A pool whose every item has a label can still be learnt from; there is nothing to watch."""
    model = case.fit(ids=case.pool.ids, labels=case.truth)
    assert len(model.watched) == 0, "labelled items are watched"
    for name, array in arrays(model).items():
        if name in AXIS:
            assert array.shape[AXIS[name]] == 0, f"{name} has shape {array.shape} where nothing is watched"
    assert _accuracy(case, model) > 0.5, "most labelled items do not get their labels"


def check_same_model(case: LearnerCase) -> None:
    """What is said about a labelled item is what the same model says about it where it is watched."""
    found = arrays(case.fit(watch=case.pool.ids[case.labelled]))
    for name, array in found.items():
        twin = name.removeprefix("labelled_")
        if name.startswith("labelled_") and twin in found:
            _assert_same({name: array}, {name: found[twin]}, f"{name} and {twin} are not of the same model")


def check_learns(case: LearnerCase) -> None:
    """Labelled items get their labels: at least half way from guessing to perfect."""
    share = float(np.bincount(case.truth[case.labelled]).max() / len(case.labelled))
    accuracy = _accuracy(case, case.model)
    assert accuracy >= (1 + share) / 2, f"{accuracy:.0%} of the labelled items get their labels"


def check_repeatable(case: LearnerCase) -> None:
    """The same seed and round give the same, from a new learner and from one that learnt something else before."""
    _assert_same(arrays(case.model), case.evidence, "asking twice for the evidence gave two answers", exact=True)
    learner = case.make()
    learner.fit(case.job(seed=5, ids=case.job().ids[::2], labels=case.job().labels[::2]))
    for again in (learner.fit(case.job()), case.fit()):
        _assert_same(arrays(again), case.evidence, "the same job was learnt differently", exact=True)


def check_seed(case: LearnerCase) -> None:
    """Seed and round each change what is learnt, where the learner is random; nothing does where it is not."""
    for change in ({"seed": 1}, {"round": 1}):
        moved = not _same(arrays(case.fit(**change)), case.evidence)
        assert moved == case.random, f"{change} {'changed' if moved else 'did not change'} what is learnt"


def check_needs(case: LearnerCase) -> None:
    """What is asked for does not change what is learnt."""
    plain = case.fit(needs=frozenset())
    _assert_same(_outputs(case, plain), _outputs(case, case.model), "what was asked for changed what is learnt")


def check_text_ids(case: LearnerCase) -> None:
    """Ids may be texts, in lists."""
    names = [f"item-{place:04d}" for place in np.random.default_rng(3).permutation(len(case.pool))]
    pool = ArrayPool(case.pool.read(np.arange(len(case.pool))), names)
    watch = names[::5]
    labelled = [names[place] for place in case.labelled]
    model = case.fit(pool=pool, ids=labelled, labels=case.truth[case.labelled].tolist(), watch=watch)
    assert [str(name) for name in model.watched] == watch, "not the watch list in its order"
    some, whole = to_numpy(model.predict(pool, watch)), to_numpy(model.predict(pool))
    _assert_same({"outputs": some}, {"outputs": whole[::5]}, "texts were not found where they are")


def check_missing_class(case: LearnerCase) -> None:
    """A class without a label keeps its place: as many outputs as classes, each in its own column."""
    rows = case.labelled[case.truth[case.labelled] != 1]
    model = case.fit(ids=case.pool.ids[rows], labels=case.truth[rows])
    for name, array in arrays(model).items():
        assert np.isfinite(array).all(), f"{name} holds NaN or infinity"
        if SHAPES_ALL[name][-1] == "c":
            assert array.shape[-1] == case.classes, f"{name} has {array.shape[-1]} columns"
    found = to_numpy(model.predict(case.pool, case.pool.ids[rows])).argmax(axis=1)
    assert np.mean(found == case.truth[rows]) > 0.5, "the columns are not those of the classes"


def check_one_class(case: LearnerCase) -> None:
    """One class among the labels is refused."""
    rows = case.labelled[case.truth[case.labelled] == 1]
    _refused(case, ids=case.pool.ids[rows], labels=case.truth[rows])


def check_no_labels(case: LearnerCase) -> None:
    """An empty labelled set is refused."""
    _refused(case, ids=case.pool.ids[:0], labels=case.truth[:0])


def check_labels(case: LearnerCase) -> None:
    """Labels that are no classes, no whole numbers, or too few are refused."""
    labels = case.truth[case.labelled]
    for bad in (labels - 1, labels + 1, labels.astype(float), labels[:-1]):
        _refused(case, labels=bad)


def check_ids(case: LearnerCase) -> None:
    """Ids that are not in the pool, or are there twice, are refused, to learn from and to watch."""
    ids = case.pool.ids[case.labelled]
    stranger = ids.copy()
    stranger[3] = case.pool.ids.max() + 1
    twice = ids.copy()
    twice[3] = twice[4]
    for bad in (stranger, twice):
        _refused(case, ids=bad)
        _refused(case, watch=bad)


def check_unknown_need(case: LearnerCase) -> None:
    """Evidence that does not exist is refused by name."""
    _refused(case, "entropy_of_the_moon", needs=case.needs | {"entropy_of_the_moon"})


def check_not_given(case: LearnerCase) -> None:
    """Evidence that cannot be had from this learner is refused by name, before any strategy asks for it."""
    for name in sorted(EVIDENCE - case.gives):
        _refused(case, name, needs=frozenset({name}))


def check_fit_all(case: LearnerCase) -> None:
    """Several jobs at once give what each gives alone, in their order; no jobs give no models."""
    few = case.labelled[: len(case.labelled) // 2 + 1]
    jobs = [case.job(), case.job(seed=3), case.job(ids=case.pool.ids[few], labels=case.truth[few], round=2)]
    together = case.make().fit_all(jobs)
    assert len(together) == 3, f"three jobs gave {len(together)} models"
    _assert_same(arrays(together[0]), case.evidence, "the first of several jobs differs from the same job alone")
    for job, model in zip(jobs[1:], together[1:], strict=True):
        _assert_same(arrays(model), arrays(case.make().fit(job)), "a job differs from the same job alone")
    assert list(case.make().fit_all([])) == [], "no jobs gave models"


def check_fit_each(case: LearnerCase) -> None:
    """Jobs that come one by one, the second only after a model, give what each gives alone, under their numbers."""
    jobs = [case.job(), case.job(seed=3)]
    found: dict[int, Any] = {}

    def source() -> Iterator[Job | None]:
        yield jobs[0]
        while not found:
            yield None
        yield jobs[1]

    for at, model in fit_each(case.make(), source()):
        assert at not in found, f"job {at} gave two models"
        found[at] = arrays(model)
    assert sorted(found) == [0, 1], f"two jobs that came one by one gave models {sorted(found)}"
    for at, job in enumerate(jobs):
        _assert_same(found[at], arrays(case.make().fit(job)), "a job that came by itself differs from the job alone")


def check_predict(case: LearnerCase) -> None:
    """Predictions are those of the evidence, for any items, in the order asked for, and for a pool not seen before."""
    whole = to_numpy(case.model.predict(case.pool))
    assert whole.shape == (len(case.pool), case.classes), f"predictions have shape {whole.shape}"
    watched = positions_of(case.pool, to_numpy(case.model.watched))
    if "logits" in case.gives:
        name = "logits" if "logits" in case.evidence else "probs"
        _assert_same({name: whole[watched]}, {name: case.evidence[name]}, "predict and the evidence differ")
    some = np.random.default_rng(4).permutation(len(case.pool))[:13]
    stranger = ArrayPool(case.pool.read(some), [f"new-{place}" for place in range(13)])
    for found in (case.model.predict(case.pool, case.pool.ids[some]), case.model.predict(stranger)):
        _assert_same({"outputs": to_numpy(found)}, {"outputs": whole[some]}, "predictions depend on their company")


def check_predict_refuses(case: LearnerCase) -> None:
    """Predictions about ids that are not there, and about items of another shape, are refused."""
    small = ArrayPool(case.pool.read(np.arange(len(case.pool)))[:, :-1])
    for action in (lambda: case.model.predict(case.pool, case.pool.ids[:2] + 10**6), lambda: case.model.predict(small)):
        _raises(action)


def check_save(case: LearnerCase) -> None:
    """A saved model predicts the same; it is saved as plain data, without pickle."""
    load = case.load or getattr(case.make(), "load", None)
    assert load is not None, "the learner has no load; say in the case how a model is loaded"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        case.model.save(folder)
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files, "nothing was written"
        assert {path.suffix for path in files} <= PLAIN_FILES, f"not plain data: {files}"
        for path in files:
            assert path.suffix != ".npy" or np.load(path, allow_pickle=False) is not None
        _assert_same(_outputs(case, load(folder)), _outputs(case, case.model), "the loaded model is another")


def check_folder(case: LearnerCase) -> None:
    """A folder to keep checkpoints in changes nothing, empty or with the training of the same job in it."""
    with tempfile.TemporaryDirectory() as name:
        for _ in range(2):
            found = arrays(case.fit(folder=Path(name) / "job"))
            _assert_same(found, case.evidence, "a folder changed what is learnt")


def check_untouched(case: LearnerCase) -> None:
    """Pool, ids and labels stay as they are, also where the evidence is written to."""
    job = case.job()
    before = [np.array(array) for array in (case.pool.read(np.arange(len(case.pool))), job.ids, job.labels)]
    model = case.make().fit(job)
    model.predict(case.pool)
    for array in arrays(model).values():
        if array.flags.writeable:
            array[...] = 0
    after = [case.pool.read(np.arange(len(case.pool))), job.ids, job.labels]
    for name, old, new in zip(("pool", "ids", "labels"), before, after, strict=True):
        assert np.array_equal(old, new), f"the {name} was written to"


def check_query(case: LearnerCase) -> None:
    """Every strategy whose needs the learner can serve picks from its evidence."""
    ran = 0
    for strategy in strategies():
        needs = needs_of(strategy)
        if needs & set(POOL_AXIS) and needs <= case.gives:
            given = {name: array for name, array in case.evidence.items() if _wanted(name, needs)}
            picks = query(strategy, 5, ids=case.model.watched, classes=case.classes, **given)
            assert set(picks.ids.tolist()) <= set(to_numpy(case.model.watched).tolist()), "a pick is not watched"
            ran += 1
    assert ran, "no strategy can work with what the learner gives"


def check_record(case: LearnerCase) -> None:
    """The record is plain data that says what happened: checkpoints, epochs, seconds, the share that flips."""
    record = case.model.record
    log = case.evidence.get("checkpoint_predictions")
    try:
        json.dumps(record.as_dict(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the record is not ready for JSON: {error}") from error
    assert record.seconds > 0, "no time was taken"
    assert record.epochs >= 1, "no epochs"
    assert record.history, "the history is empty"
    checks = len(case.evidence.get("labelled_log", record.history))
    assert checks == len(record.history), "labelled_log does not have an entry for each of the history"
    assert all(0 <= entry["accuracy"] <= 1 for entry in record.history), "accuracy lies in 0..1"
    if log is not None:
        assert len(record.checkpoints) == len(log), "the record has other checkpoints than the evidence"
        assert record.checkpoints == sorted(set(record.checkpoints)), "checkpoints are not in order"
        assert record.rule, "no rule says how the checkpoints were chosen"
        share = -1.0 if record.flipping is None else record.flipping
        assert abs(share - float(np.mean(flips(log) > 0))) < 1e-6, "flipping is not the share with FF > 0"


LEARNER_CHECKS: list[Callable[[LearnerCase], None]] = [
    check_names,
    check_probabilities,
    check_shapes,
    check_finite,
    check_watched,
    check_watch,
    check_all_labelled,
    check_same_model,
    check_learns,
    check_repeatable,
    check_seed,
    check_needs,
    check_text_ids,
    check_missing_class,
    check_one_class,
    check_no_labels,
    check_labels,
    check_ids,
    check_unknown_need,
    check_not_given,
    check_fit_all,
    check_fit_each,
    check_predict,
    check_predict_refuses,
    check_save,
    check_folder,
    check_untouched,
    check_query,
    check_record,
]


def _names_match(found: Any, asked: frozenset[str]) -> bool:
    """Whether each name that was asked for is there, by itself or by its substitute, and no other."""
    return len(found) == len(asked) and all(name in found or SUBSTITUTES.get(name) in found for name in asked)


def _wanted(name: str, needs: frozenset[str]) -> bool:
    return name in needs or any(SUBSTITUTES.get(need) == name for need in needs)


def _rows(name: str, array: Any, order: Any) -> Any:
    """The evidence of some of the watched items."""
    return np.take(array, order, axis=AXIS[name]) if name in AXIS else array


def _outputs(case: LearnerCase, model: Model) -> dict[str, Any]:
    """What a model predicts for the whole pool."""
    return {"outputs": to_numpy(model.predict(case.pool))}


def _accuracy(case: LearnerCase, model: Model) -> float:
    found = to_numpy(model.predict(case.pool, case.pool.ids[case.labelled])).argmax(axis=1)
    return float(np.mean(found == case.truth[case.labelled]))


def _same(a: dict[str, Any], b: dict[str, Any], exact: bool = False) -> bool:
    """Whether two sets of evidence agree: class numbers exactly, the rest to single precision after a training."""
    if a.keys() != b.keys() or any(a[name].shape != b[name].shape for name in a):
        return False
    close = np.array_equal if exact else _close
    return all((np.array_equal if a[name].dtype.kind in "iu" else close)(a[name], b[name]) for name in a)


def _close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-4))


def _assert_same(a: dict[str, Any], b: dict[str, Any], what: str, exact: bool = False) -> None:
    differ = [name for name in a.keys() | b.keys() if not _same(_only(a, name), _only(b, name), exact)]
    assert not differ, f"{what}: {', '.join(sorted(differ))}"


def _only(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: given[name]} if name in given else {}


def _refused(case: LearnerCase, *words: str, **changes: Any) -> None:
    """The job with these changes is BadInput, alone and among others, with these words in the message."""
    _raises(lambda: case.fit(**changes), *words)
    _raises(lambda: case.make().fit_all([case.job(**changes)]), *words)


def _raises(action: Callable[[], Any], *words: str) -> None:
    try:
        action()
    except BadInput as error:
        assert all(word in str(error) for word in words), f"the error does not name {words}: {error}"
    except Exception as error:
        raise AssertionError(f"expected BadInput, got {type(error).__name__}: {error}") from error
    else:
        raise AssertionError("what cannot be used was accepted")
