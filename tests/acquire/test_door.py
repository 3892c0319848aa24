"""The door: every bad input is refused before any work, with what was given, what was expected and what to do."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from acquire_bundle import bundle
from scipy.sparse import csr_array

from ncalr.acquire import door, strategies
from ncalr.acquire.query import query
from ncalr.acquire.select import k_center
from ncalr.errors import BadInput, MissingEvidence, MissingExtra, NcalrError, NotFinite, UnknownName
from ncalr.geometry import ClassStatistics

pytestmark = pytest.mark.usefixtures("one_thread")

N, M, C, D = 12, 8, 4, 8


@pytest.fixture
def given():
    """Evidence for every strategy about 12 pool items and 8 labelled ones."""
    return bundle(np.random.default_rng(0), n=N, m=M)


def refused(*parts, kind=BadInput):
    """The block must raise an error whose message holds all the parts."""
    pattern = "".join(f"(?=[\\s\\S]*{part})" for part in parts)
    return pytest.raises(kind, match=pattern)


def test_the_bundle_is_good(given):
    for name in strategies():
        assert len(query(name, 3, **given)) == 3


# -- shapes ----------------------------------------------------------------------------------------------------

WRONG_SHAPES = {
    "features": (np.zeros(N), r"features must have shape \(n, d\), got \(12,\)"),
    "logits": (np.zeros((N, C, 1)), r"logits must have shape \(n, c\), got \(12, 4, 1\)"),
    "probs": (np.zeros(N), r"probs must have shape \(n, c\), got \(12,\)"),
    "predictions": (np.zeros((N, 1), int), r"predictions must have shape \(n,?\), got \(12, 1\)"),
    "flips": (np.zeros((2, N), int), r"flips must have shape \(n,?\), got \(2, 12\)"),
    "checkpoint_predictions": (np.zeros(N, int), r"checkpoint_predictions must have shape \(t, n\), got \(12,\)"),
    "sampled_probs": (np.zeros((N, C)), r"sampled_probs must have shape \(s, n, c\), got \(12, 4\)"),
    "enhanced": (np.zeros(N), r"enhanced must have shape \(n, e\), got \(12,\)"),
    "labelled_features": (np.zeros(M), r"labelled_features must have shape \(m, d\), got \(8,\)"),
    "labelled_logits": (np.zeros(M), r"labelled_logits must have shape \(m, c\), got \(8,\)"),
    "labelled_probs": (np.zeros(M), r"labelled_probs must have shape \(m, c\), got \(8,\)"),
    "labelled_enhanced": (np.zeros(M), r"labelled_enhanced must have shape \(m, e\), got \(8,\)"),
    "labels": (np.zeros((M, C), int), r"labels must have shape \(m,?\), got \(8, 4\)"),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_wrong_shapes(name, given, no_work):
    value, message = WRONG_SHAPES[name]
    given.pop("logits" if name == "probs" else name, None)
    with refused(message):
        query("random", 3, **{name: value, **given})


MISMATCHED = {
    "pool items": ("logits", np.zeros((N + 1, C)), "logits has 13 pool items, features has 12; they must agree"),
    "checkpoints along the pool": (
        "checkpoint_predictions",
        np.zeros((3, N - 1), int),
        "checkpoint_predictions has 11 pool items, features has 12",
    ),
    "samples along the pool": ("sampled_probs", np.zeros((2, 5, C)), "sampled_probs has 5 pool items, features has 12"),
    "labels": ("labels", np.zeros(M - 1, int), "(labels|labelled_features) has [78] labelled items"),
    "feature dimensions": (
        "labelled_features",
        np.zeros((M, D - 1)),
        "labelled_features has 7 feature dimensions, features has 8; they must agree",
    ),
    "classes": ("labelled_logits", np.zeros((M, C + 1)), "labelled_logits has 5 classes, logits has 4"),
    "enhanced": ("labelled_enhanced", np.zeros((M, 3)), "labelled_enhanced has 3 enhanced dimensions, enhanced has 8"),
}


@pytest.mark.parametrize("case", MISMATCHED)
def test_mismatched_lengths_name_both_arrays(case, given, no_work):
    name, value, message = MISMATCHED[case]
    with refused(message):
        query("random", 3, **{**given, name: value})


def test_no_columns(given, no_work):
    with refused(r"features has shape \(12, 0\): no feature dimensions"):
        query("coreset", 1, features=np.zeros((N, 0)))
    with refused(r"checkpoint_predictions has shape \(0, 12\): no checkpoints"):
        query("ff", 1, checkpoint_predictions=np.zeros((0, N), int))


def test_ragged_rows(no_work):
    with refused("features"):
        query("coreset", 1, features=[[1.0, 2.0], [3.0]])


# -- kinds of numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels", "predictions", "flips", "checkpoint_predictions"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.bool_, "U3"])
def test_classes_and_counts_are_whole_numbers(name, kind, given, no_work):
    value = given.get(name, np.zeros(N, int)).astype(kind)
    with refused(f"{name} must be whole numbers, got {np.dtype(kind)}"):
        query("random", 3, **{**given, name: value})
    if kind in (np.float32, np.float64):
        with refused(f"{name} must be whole numbers, got torch.float"):
            query("random", 3, **{**given, name: torch.from_numpy(value)})


@pytest.mark.parametrize("name", ["features", "logits", "labelled_features", "sampled_probs"])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_, np.complex128, object])
def test_features_and_outputs_are_floating_point(name, kind, given, no_work):
    with refused(f"{name} must be floating-point numbers", "float16, float32 or float64", f"got {np.dtype(kind)}"):
        query("random", 3, **{**given, name: given[name].astype(kind)})


def test_tensors_of_whole_numbers_are_no_features(no_work):
    with refused(r"features must be floating-point numbers.*got torch.int64"):
        query("coreset", 1, features=torch.ones((3, 2), dtype=torch.int64))


@pytest.mark.parametrize("kind", [np.longdouble, ">f4"])
def test_floats_the_kernels_cannot_read_are_refused_or_work(kind, given):
    plain = query("margin", 3, logits=given["logits"].astype(np.float32)).ids.tolist()
    try:
        picks = query("margin", 3, logits=given["logits"].astype(kind))
    except BadInput:
        return
    assert picks.ids.tolist() == plain


def test_tensors_of_truth_values_are_no_labels(given, no_work):
    with refused("labels must be whole numbers, got torch.bool"):
        query("random", 1, **{**given, "labels": torch.ones(M, dtype=torch.bool)})


# -- NaN and infinity ------------------------------------------------------------------------------------------

SPOTTED = {  # strategy -> the arrays it reads
    "ncal": ("features", "labelled_features"),
    "cmap": ("features", "labelled_features"),
    "margin": ("logits",),
    "entropy": ("logits",),
    "least_confidence": ("logits",),
    "coreset": ("features", "labelled_features"),
    "cdal": ("logits", "labelled_logits"),
    "badge": ("features", "logits"),
    "bald": ("sampled_probs",),
    "variation_ratio": ("sampled_probs",),
    "sisom": ("enhanced", "labelled_enhanced"),
    "sisome": ("enhanced", "labelled_enhanced", "logits", "labelled_logits"),
    "typiclust": ("features", "labelled_features"),
    "probcover": ("features", "labelled_features"),
    "maxherding": ("features", "labelled_features"),
    "ncal_coverage": ("features", "labelled_features"),
    "uherding": ("features", "labelled_features", "logits"),
    "cluster_margin": ("features", "logits"),
    "ncal(select=sequential)": ("features", "labelled_features"),
    "margin(select=filtered)": ("logits", "features", "labelled_features"),
}
CASES = [(strategy, name) for strategy, names in SPOTTED.items() for name in names]


def spoil(array, value):
    """Two bad numbers, the first of them in row 2 (of the last sample), and the place of the first."""
    array = array.copy()
    at = (len(array) - 1, 2, 1) if array.ndim == 3 else (2, 1)
    array[at] = value
    array[(*at[:-2], 5, 3)] = np.nan
    return array, ", ".join(map(str, at))


@pytest.mark.parametrize(("strategy", "name"), CASES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_bad_numbers_are_counted_and_the_first_is_shown(strategy, name, value, kind, given):
    narrow = {key: a.astype(kind) if a.dtype.kind == "f" else a for key, a in given.items()}
    narrow[name], at = spoil(narrow[name], value)
    where = f"the first at {name}\\[{at}\\]"
    with refused(f"{name} holds 2 values that are NaN or infinite", where, "drop those items", kind=NotFinite):
        query(strategy, 3, **narrow)


@pytest.mark.parametrize("strategy", ["ncal", "margin", "coreset", "cdal", "sisom", "uherding", "bald"])
def test_bad_numbers_on_the_torch_backend(strategy, given, backend):
    name = SPOTTED[strategy][0]
    given[name], _ = spoil(given[name].astype(np.float32), np.inf)
    if strategy == "ncal":
        given["labelled_features"] = given["labelled_features"].astype(np.float32)
    with refused(f"{name} holds 2 values that are NaN or infinite", kind=NotFinite):
        query(strategy, 3, **given)


def test_bad_numbers_in_tensors(given):
    features = torch.tensor(given["features"]).to(torch.bfloat16)
    features[4, 0] = float("nan")
    with refused(r"features holds 1 values", r"features\[4, 0\]", kind=NotFinite):
        query("coreset", 3, features=features)


@pytest.mark.parametrize("strategy", ["ncal", "coreset", "margin"])
def test_bad_numbers_far_down_a_long_pool(strategy):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40_000, 256)).astype(np.float32)
    rows[39_999, 255] = np.nan
    given = {"features": rows} if strategy != "margin" else {"logits": rows}
    if strategy == "ncal":
        given |= {"labelled_features": rows[:10], "labels": np.arange(10) % 2, "predictions": np.zeros(40_000, int)}
        given |= {"flips": np.zeros(40_000, int)}
    with refused(r"holds 1 values", r"\[39999, 255\]", kind=NotFinite):
        query(strategy, 3, **given)


@pytest.mark.parametrize("strategy", ["ncal", "cmap"])
@pytest.mark.parametrize("name", ["logits", "probs"])
def test_bad_outputs_are_spotted_where_only_predictions_are_read(strategy, name, given):
    del given["predictions"]
    outputs = np.abs(given.pop("logits"))
    outputs, _ = spoil(outputs / outputs.sum(axis=1, keepdims=True), np.nan)
    with refused(f"{name} holds 2 values", kind=NotFinite):
        query(strategy, 3, **{name: outputs}, **given)


@pytest.mark.parametrize("strategy", ["margin", "least_confidence", "entropy"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_an_infinite_probability_is_spotted(strategy, kind, backend):
    probs = np.random.default_rng(0).dirichlet(np.ones(C), N).astype(kind)
    probs[2, 1] = np.inf
    with refused(r"probs holds 1 values", r"probs\[2, 1\]", kind=NotFinite):
        query(strategy, 3, probs=probs)


def test_the_place_of_a_bad_number_counts_excluded_rows_too(given):
    """Places are those of the array that was given, so that they can be looked up."""
    given["features"][[5, 9], 2] = np.inf
    with refused(r"features holds 1 values", r"features\[9, 2\]", kind=NotFinite):
        query("coreset", 3, features=given["features"], exclude=[0, 5])
    with refused(r"features holds 1 values", r"features\[9, 2\]", kind=NotFinite):
        query("ncal", 3, exclude=[0, 5], **given)
    given["sampled_probs"][3, 7, 1] = np.nan
    with refused(r"sampled_probs holds 1 values", r"sampled_probs\[3, 7, 1\]", kind=NotFinite):
        query("bald", 3, sampled_probs=given["sampled_probs"], exclude=[0, 5])


def test_what_is_not_read_may_hold_anything(given):
    given["enhanced"][:] = np.nan
    given["sampled_probs"][:] = np.inf
    assert len(query("coreset", 3, **given)) == 3


def test_an_excluded_item_may_hold_anything(given, backend):
    given["features"][3] = np.nan
    expected = query("coreset", 3, features=np.delete(given["features"], 3, 0), ids=np.delete(np.arange(N), 3))
    assert query("coreset", 3, features=given["features"], exclude=[3]).ids.tolist() == expected.ids.tolist()


def test_numbers_too_large_for_single_precision_are_explained(given):
    given["features"] = (given["features"] * 1e25).astype(np.float32)
    with refused("'ncal' gave 12 scores", "cmap", "the first for item 0", "scale them or pass float64", kind=NotFinite):
        query("ncal", 3, **given)
    given["features"] = given["features"].astype(np.float64)
    assert len(query("ncal", 3, **given)) == 3


SELECTING = ["coreset", "badge", "typiclust", "probcover", "maxherding", "sisom", "margin(select=filtered)"]


@pytest.mark.parametrize("strategy", SELECTING)
def test_numbers_whose_squares_overflow_are_refused_by_strategies_that_measure_distances(strategy, given, monkeypatch):
    huge = dict(given)
    for name in ("features", "labelled_features", "enhanced", "labelled_enhanced"):
        huge[name] = (given[name] * 1e25).astype(np.float32)
    advance, calls = k_center._State.advance, []

    def counted(*args):
        calls.append(1)
        assert len(calls) < 100, "no progress"
        return advance(*args)

    monkeypatch.setattr(k_center._State, "advance", counted)
    with np.errstate(all="ignore"), pytest.raises(NotFinite):
        query(strategy, 3, **huge)


# -- labels and classes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels", "predictions"])
def test_classes_out_of_range(name, given, no_work):
    given[name] = given[name].copy()
    given[name][1] = C
    with refused(rf"{name} must lie in 0..3 \(logits has 4 classes\)", r"got 0..4"):
        query("random", 3, **given)


@pytest.mark.parametrize("name", ["labels", "predictions"])
def test_negative_classes(name, given, no_work):
    given[name] = given[name].copy()
    given[name][1] = -1
    with refused(f"{name} must lie in 0..3", r"got -1..3"):
        query("random", 3, **given)
    del given["logits"], given["labelled_logits"], given["sampled_probs"]
    with refused(f"{name} must lie in 0..", "classes count from 0", r"got -1..3"):
        query("random", 3, **given)


def test_the_last_checkpoint_out_of_range(given, no_work):
    given["checkpoint_predictions"] = given["checkpoint_predictions"].copy()
    given["checkpoint_predictions"][-1, 0] = 9
    with refused(r"checkpoint_predictions must lie in 0..3", r"got \d..9"):
        query("random", 3, **given)


def test_classes_that_contradict_the_outputs(given, no_work):
    with refused("classes=7 was said, but logits has 4"):
        query("random", 3, classes=7, **given)
    chosen = {name: given[name] for name in ("features", "labelled_features", "labels")}
    with refused(r"labels must lie in 0..1 \(classes has 2 classes\)", r"got 0..3"):
        query("cmap", 3, classes=2, predictions=[0] * N, **chosen)


@pytest.mark.parametrize("classes", [0, -3, 2.5, "ten"])
def test_a_number_of_classes_that_is_none(classes, no_work):
    with refused("classes"):
        query("random", 1, features=np.eye(3), classes=classes)


def test_more_classes_than_were_seen_may_be_said(given):
    given = {name: given[name] for name in ("features", "predictions", "labelled_features", "labels")}
    assert len(query("cmap", 3, classes=9, **given)) == 3


def test_predictions_beyond_the_labels_are_classes_without_labels(given):
    given = {name: given[name] for name in ("features", "labelled_features", "labels")}
    assert len(query("cmap", 3, predictions=np.arange(N), **given)) == 3


def test_labels_counted_from_1_are_noticed():
    rng = np.random.default_rng(0)
    known = {"features": rng.random((20, 3)), "labelled_features": rng.random((10, 3))}
    from_1 = np.arange(10) % 4 + 1

    def noticed(labels=from_1, strategy="cmap", **more):
        notes = query(strategy, 2, **known, labels=labels, **more).notes
        return [note for note in notes if note.startswith("the labels lie in 1..4, and classes count from 0")]

    (note,) = noticed(predictions=np.full(20, 2))
    assert note.endswith("If the labels count from 1, pass labels - 1; if class 0 has none yet, say classes=5")
    assert noticed(predictions=np.arange(20) % 4)  # a model that knows 0..3, and labels 1..4
    assert noticed(torch.tensor(from_1), predictions=torch.full((20,), 2))
    assert noticed(checkpoint_predictions=np.full((3, 20), 2))
    assert not noticed(predictions=np.arange(20) % 5)  # the model knows class 0: it has no label yet
    assert not noticed(predictions=np.full(20, 2), classes=5)
    assert not noticed(logits=rng.random((20, 5)))
    assert not noticed(from_1 - 1, predictions=np.full(20, 2))
    assert not noticed(from_1 + 1, predictions=np.full(20, 2))
    assert not noticed(np.ones(10, int), predictions=np.zeros(20, int))  # the second of two classes, perhaps
    assert not noticed(strategy="random")  # reads no labels


# -- ids, exclude and k ----------------------------------------------------------------------------------------


def test_bad_ids(given, no_work):
    with refused(r"ids must have shape \(12,\), one for each pool item, got \(11,\)"):
        query("random", 3, ids=range(N - 1), **given)
    with refused(r"ids must have shape \(12,\)", r"got \(12, 1\)"):
        query("random", 3, ids=np.arange(N)[:, None], **given)
    with refused("ids must not repeat; 2 do, the first is .*4"):
        query("random", 3, ids=[0, 1, 2, 3, 4, 4, 6, 7, 7, 7, 10, 11], **given)
    with refused("ids must not repeat; 1 do, the first is .*'b'"):
        query("random", 3, ids=list("abcdefghijkb"), **given)
    for ids in (np.arange(N) / 2, np.ones(N, bool), [None] * N, [b"x"] * N):
        with refused("ids must be whole numbers or texts, got dtype"):
            query("random", 3, ids=ids, **given)


def test_ids_in_messages_look_as_they_were_given(no_work):
    with pytest.raises(BadInput) as error:
        query("random", 1, features=np.eye(3), ids=["a", "b", "b"])
    assert "np." not in str(error.value)
    with pytest.raises(BadInput) as error:
        query("random", 1, features=np.eye(3), exclude=[9])
    assert "np." not in str(error.value)


def test_bad_exclusions(given, no_work):
    with refused("none of the 2 ids to exclude is in the pool: they are 99, 100, the pool's are 0, 1, 2, ...; look"):
        query("random", 3, exclude=[100, 99, 99], **given)
    with refused("they are '0', '1', the pool's are 'item-0', 'item-1', 'item-2', ...; .*the right column"):
        query("random", 3, exclude=["0", "1"], ids=[f"item-{i}" for i in range(N)], **given)
    with refused(r"exclude must be a list of ids, got shape \(\)"):
        query("random", 3, exclude=3, **given)
    with refused("exclude holds <U1 and the pool's ids are whole numbers: give the same kind of ids"):
        query("random", 3, exclude=["a"], **given)
    with refused("exclude holds int64 and the pool's ids are texts"):
        query("random", 3, exclude=[1], ids=[str(i) for i in range(N)], **given)


def test_ids_to_exclude_that_are_not_in_the_pool_are_ignored_with_a_note(given):
    plain = query("margin", 3, exclude=[1], **given)
    picks = query("margin", 3, exclude=[99, 1, -4, 100, 99, 101], **given)
    assert picks.ids.tolist() == plain.ids.tolist()
    assert picks.notes == ("4 of 5 ids to exclude are not in the pool, ignored: -4, 99, 100, ...", *plain.notes)
    with refused(r"k must lie in 1..11", r"\(1 are excluded\)"):
        query("margin", 12, exclude=[1, 99], **given)


def test_everything_excluded(given, no_work):
    with refused("all 12 items are excluded"):
        query("random", 1, exclude=np.arange(N), **given)


def test_excluding_nothing_is_fine(given):
    for nothing in (None, [], np.array([], int), np.array([], "U1")):
        assert len(query("random", N, exclude=nothing, **given)) == N


def test_bad_k(given, no_work):
    for k in (0, -1, N + 1):
        with refused(rf"k must lie in 1..12, the items that can be picked; got {k}"):
            query("random", k, **given)
    with refused(r"k must lie in 1..10", r"2 are excluded", "got 11"):
        query("random", 11, exclude=[0, 5], **given)
    for k in (2.0, "3", None, True, [1]):
        with refused("k must be a whole number, got "):
            query("random", k, **given)


def test_k_may_be_a_numpy_integer(given):
    assert len(query("random", np.int32(3), **given)) == 3


def test_an_empty_pool(no_work):
    with refused(r"the pool is empty: features has shape \(0, 3\)"):
        query("coreset", 1, features=np.zeros((0, 3)))
    with refused(r"the pool is empty: checkpoint_predictions has shape \(5, 0\)"):
        query("ff", 1, checkpoint_predictions=np.zeros((5, 0), int))


def test_nothing_about_the_pool(given, no_work):
    with refused("nothing about the pool was given; pass features="):
        query("random", 1)
    with refused("nothing about the pool was given"):
        query("cmap", 1, labelled_features=given["labelled_features"], labels=given["labels"])


# -- evidence that is missing ----------------------------------------------------------------------------------

NEEDED = {
    "ncal": ("features", "features: pass features="),
    "margin": ("logits", "outputs: pass logits= or probs="),
    "cdal": ("logits", "outputs: pass logits= or probs="),
    "badge": ("features", "features: pass features="),
    "bald": ("sampled_probs", "sampled_probs: pass sampled_probs="),
    "ff": ("checkpoint_predictions", "flips: pass flips= or checkpoint_predictions="),
    "label_dispersion": ("checkpoint_predictions", "checkpoint_predictions: pass checkpoint_predictions="),
    "sisom": ("labelled_enhanced", "labelled_enhanced: pass labelled_enhanced="),
    "sisome": ("labelled_logits", "labelled_logits: pass labelled_logits="),
    "cmap": ("labels", "statistics: pass statistics= or labelled_features= and labels="),
    "ff(select=quota)": ("predictions", "predictions: pass predictions= or logits= or probs= or checkpoint_pred"),
}


@pytest.mark.parametrize("strategy", NEEDED)
def test_missing_evidence_is_named_with_its_arguments(strategy, given, no_work):
    missing, message = NEEDED[strategy]
    del given[missing]
    if strategy == "ff(select=quota)":
        given = {"features": given["features"], "flips": np.zeros(N, int)}
    name = strategy.split("(")[0]
    with refused(f"strategy '{name}' needs {message}", kind=MissingEvidence):
        query(strategy, 1, **given)


def test_several_missing_pieces_are_all_named(no_work):
    ways = ("pass flips=", "pass predictions=", "pass statistics=")
    with refused("needs flips, predictions, statistics: ", *ways, kind=MissingEvidence):
        query("ncal", 1, features=np.eye(3))


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        ("ncal", ["labelled_features", "labels"]),
        ("cmap", ["labelled_features", "labels"]),
        ("sisom", ["labelled_enhanced", "labels"]),
        ("sisome", ["labelled_enhanced", "labels", "labelled_logits"]),
    ],
)
def test_an_empty_labelled_set(strategy, names, given, no_work):
    for name in ("labelled_features", "labelled_logits", "labelled_enhanced", "labels"):
        given[name] = given[name][:0]
    with refused("the labelled set is empty", "|".join(names), f"'{strategy}' needs one", "label a few items first"):
        query(strategy, 1, **given)


NO_LABELS = [
    "random",
    "margin",
    "coreset",
    "cdal",
    "badge",
    "typiclust",
    "probcover",
    "maxherding",
    "uherding",
    "ncal_coverage",
]


@pytest.mark.parametrize("strategy", NO_LABELS)
def test_strategies_that_need_no_labels_take_an_empty_labelled_set(strategy, given):
    for name in ("labelled_features", "labelled_logits", "labelled_enhanced", "labels"):
        given[name] = given[name][:0]
    without = {name: a for name, a in given.items() if not name.startswith("label")}
    assert query(strategy, 4, **given).ids.tolist() == query(strategy, 4, **without).ids.tolist()


def test_empty_statistics(given, no_work):
    del given["labels"], given["labelled_features"]
    with refused("the statistics hold no labelled item and strategy 'ncal' needs some"):
        query("ncal", 1, statistics=ClassStatistics.empty(C, D), **given)


# -- names -----------------------------------------------------------------------------------------------------


def test_unknown_names_come_with_the_nearest(given, no_work):
    with refused("no strategy 'ncall'. Did you mean 'ncal'", "ncalr strategies", kind=UnknownName):
        query("ncall", 1, **given)
    with refused("no strategy 'least_confident'. Did you mean 'least_confidence'", kind=UnknownName):
        query("least-confident", 1, **given)
    with refused("no strategy 'xyzzy'. Known: .*margin", kind=UnknownName):
        query("xyzzy", 1, **given)
    with refused("no option of strategy 'ncal' called 'singn'. Did you mean 'sign'", kind=UnknownName):
        query("ncal(singn=1)", 1, **given)
    with refused("no option of strategy 'margin' called 'selct'. Did you mean 'select'", kind=UnknownName):
        query("margin", 1, selct="top_k", **given)
    with refused("no selector 'top'. Did you mean 'top_k'", kind=UnknownName):
        query("margin", 1, select="top", **given)


def test_unknown_names_are_also_key_errors_and_bad_input_a_value_error(given):
    with pytest.raises(KeyError):
        query("ncall", 1, **given)
    with pytest.raises(ValueError):
        query("margin", 0, **given)
    assert issubclass(BadInput, NcalrError)


@pytest.mark.parametrize("strategy", [3, None, ["ncal"]])
def test_a_strategy_that_is_none(strategy, given, no_work):
    with refused("strategy", kind=NcalrError):
        query(strategy, 1, **given)


# -- the rest --------------------------------------------------------------------------------------------------


def test_logits_and_probs_together(given, no_work):
    with refused("logits and probs were both given; pass one of them"):
        query("margin", 1, probs=np.full((N, C), 0.25), **given)


@pytest.mark.parametrize("device", ["cuda:99", "nonsense", "mps" if not torch.backends.mps.is_available() else "xla"])
def test_a_device_that_cannot_be_used(device, given, no_work):
    with refused(f"device '{device}' cannot be used here", "choose cpu, or name no device"):
        query("margin", 1, device=device, **given)


def test_torch_that_is_not_installed(given, no_work, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    with refused("device 'cuda' needs torch: pip install 'ncalr\\[torch\\]'", kind=MissingExtra):
        query("margin", 1, device="cuda", logits=given["logits"])


def test_the_cpu_may_be_named(given):
    plain = query("ncal", 5, **given).ids.tolist()
    assert query("ncal", 5, device="cpu", **given).ids.tolist() == plain
    assert query("ncal", 5, device=torch.device("cpu"), **given).ids.tolist() == plain


def test_statistics_of_a_wrong_kind(given, no_work):
    with refused("statistics must be a ncalr.geometry.ClassStatistics, got dict"):
        query("ncal", 1, statistics={"counts": [1]}, **given)


def test_statistics_of_a_wrong_dimension(given, no_work):
    statistics = ClassStatistics.from_labelled(np.ones((4, 3)), np.arange(4), C)
    with refused("features have 8 dimensions, the statistics 3"):
        query("ncal", 1, statistics=statistics, **given)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_statistics_that_are_not_finite(value, given):
    statistics = ClassStatistics.from_labelled(given["labelled_features"], given["labels"], C)
    statistics.means[0, 0] = value
    with refused("statistics", kind=NotFinite), np.errstate(all="ignore"):
        query("cmap", 3, features=given["features"], predictions=np.zeros(N, int), statistics=statistics)


def test_statistics_that_contradict_the_number_of_classes(given, no_work):
    statistics = ClassStatistics.from_labelled(given["labelled_features"], given["labels"], C)
    with refused("classes=9 was said, but statistics has 4"):
        query("ncal", 1, classes=9, statistics=statistics, **given)
    given["predictions"] = np.full(N, 7)
    with refused(r"predictions must lie in 0..3 \(statistics has 4 classes\)", r"got 7..7"):
        query("ncal", 1, statistics=statistics, **given)


def test_statistics_with_fewer_classes_than_the_outputs(given, no_work):
    statistics = ClassStatistics.from_labelled(given["labelled_features"], given["labels"] % 2, 2)
    chosen = {name: given[name] for name in ("features", "logits")}
    with refused("statistics are of 2 classes, logits has 4; they must agree"):
        query("cmap", 1, statistics=statistics, **chosen)


def test_a_seed_may_be_a_numpy_integer(given):
    picks = query("random", 3, seed=np.int64(5), **given)
    assert picks.ids.tolist() == query("random", 3, seed=5, **given).ids.tolist()


@pytest.mark.parametrize("seed", [[1, "a"], [None], "ab"])
def test_seeds_that_hold_no_whole_numbers(seed, given):
    with refused("seed must be a whole number or a list of them, got "):
        query("random", 1, seed=seed, **given)


@pytest.mark.parametrize("seed", [1.5, None])
def test_seeds_that_are_no_list_and_no_whole_number(seed, given):
    with refused("seed must be a whole number or a list of them, got "):
        query("random", 1, seed=seed, **given)


def test_options_that_no_strategy_could_take(given, no_work):
    with refused("cannot read 'ncal\\(' ", "write it as name or name\\(option=value, ...\\)"):
        query("ncal(", 1, **given)


# -- values that are numbers and still wrong -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["probs", "labelled_probs", "sampled_probs"])
def test_logits_given_as_probabilities(name, given, no_work):
    probs = np.full((N, C), 1 / C)
    good = {"probs": probs, "labelled_probs": np.full((M, C), 1 / C), "sampled_probs": probs[None]}
    spoiled = {**good, name: good[name] * 20 - 3}
    strategy = "bald" if name == "sampled_probs" else "cdal"
    with refused(f"rows of {name} must be probabilities", "if they are logits, pass them as logits"):
        query(strategy, 3, **spoiled)


def test_negative_counts_of_flips(no_work):
    with refused("flips count changes and cannot be negative, got -2"):
        query("ff", 1, flips=[3, -2, 0])


def test_one_checkpoint_has_no_flips(given, no_work):
    given["checkpoint_predictions"] = given["checkpoint_predictions"][-1:]
    given.pop("flips", None)
    with refused("flips need at least two checkpoints, checkpoint_predictions has one"):
        query("ncal", 3, **given)


def test_ids_of_python_texts_are_texts():
    ids = np.array(["a", "b", "c"], dtype=object)
    assert query("random", 3, features=np.eye(3), ids=ids).ids.dtype.kind == "U"


def test_the_least_wanted_come_lowest_first_with_their_parts():
    rng = np.random.default_rng(0)
    flips = rng.integers(0, 9, 50).astype(np.uint8)
    picks = query("ff", 3, flips=flips, ids=np.arange(100, 150), exclude=[100, 101], least=4)
    assert picks.least is not None
    at = picks.least.ids - 100
    assert flips[at].tolist() == sorted(flips[2:])[:4]
    assert picks.least.parts["ff"].tolist() == flips[at].tolist()
    assert not set(at) & {0, 1}
    assert query("ff", 3, flips=flips).least is None
    assert len(query("ff", 3, flips=flips[:5], least=9).least) == 5
    assert query("coreset", 3, features=rng.normal(size=(9, 2)), least=4).least is None


def test_a_mask_is_not_taken_for_ids():
    given = {"probs": np.full((6, 2), 0.5)}
    mask = np.arange(6) < 3
    with refused("exclude holds ids, got a mask of the pool: pass ids"):
        query("margin", 2, **given, exclude=mask)
    with refused("exclude holds float64 and the pool's ids are whole numbers"):
        query("margin", 2, **given, exclude=[1.0, 2.0])
    wanted = query("margin", 3, **given, exclude=[0, 1, 2]).ids.tolist()
    assert query("margin", 3, **given, exclude={0, 1, 2}).ids.tolist() == wanted
    named = query("margin", 3, **given, ids=list("abcdef"), exclude=np.array(["a", "b", "c"], object))
    assert set(named.ids.tolist()) == {"d", "e", "f"}


def test_a_misspelt_array_is_recognised():
    for name, meant in (("prob", "probs"), ("logit", "logits"), ("feature", "features")):
        with pytest.raises(UnknownName, match=f"Did you mean '{meant}'"):
            query("margin", 3, **{name: np.zeros((4, 2))})
    with pytest.raises(UnknownName, match=r"called 'quantity'\. Known: copies, select\."):
        query("margin", 3, probs=np.full((4, 2), 0.5), quantity=1)


LOGITS = np.random.default_rng(0).normal(size=(N, C)).astype(np.float32)
STRANGE = {
    "sparse matrix": csr_array(LOGITS),
    "sparse tensor": torch.tensor(LOGITS).to_sparse(),
    "meta tensor": torch.ones(N, C, device="meta"),
    "eight bits": torch.tensor(LOGITS).to(torch.float8_e4m3fn),
    "complex": LOGITS.astype(complex),
    "texts": np.full((N, C), "a"),
    "bytes": np.full((N, C), b"a"),
    "objects": np.full((N, C), None),
    "dates": np.zeros((N, C), "M8[s]"),
    "records": np.zeros(N, [("a", "f4")]),
    "different lengths": [[1, 2], [1]],
    "a text": "abc",
    "a dictionary": {"a": 1},
    "an object": object(),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("argument", ["logits", "ids", "exclude"])
def test_what_is_no_array_of_numbers(argument, name):
    with pytest.raises(BadInput, match=argument):
        query("margin", 3, **{"logits": LOGITS, argument: STRANGE[name]})


@pytest.mark.parametrize("argument", ["classes", "labels", "predictions"])
@pytest.mark.parametrize("large", [2**16 + 1, 2**40, 2**63, 10**30])
def test_class_numbers_far_too_large_are_refused_before_anything_is_allocated(argument, large):
    given = {"features": LOGITS, "predictions": [0] * N, "labelled_features": LOGITS, "labels": [0] * N}
    given[argument] = large if argument == "classes" else [large] * N
    with pytest.raises(BadInput, match=argument):
        query("cmap", 3, **given)


def test_masked_values_are_not_taken_for_numbers():
    features = np.ma.masked_array(np.arange(6.0).reshape(3, 2), mask=[[0, 0], [0, 1], [0, 0]])
    with pytest.raises(BadInput, match="`features` has 1 masked values"):
        query("coreset", 1, features=features)
    assert len(query("coreset", 1, features=np.ma.masked_array(features.data, mask=False))) == 1


def test_ids_of_two_kinds_are_refused():
    with pytest.raises(BadInput, match="all whole numbers or all texts, got both"):
        query("coreset", 1, features=np.eye(3), ids=[1, "2", 3])


def test_what_to_do_is_said_where_it_is_known():
    features, labels = np.zeros((N, 8), np.float32), np.zeros(N, int)
    with refused("got int8; write features.astype"):
        query("coreset", 2, features=features.astype(np.int8))
    with refused("got >f4; write features.astype"):
        query("coreset", 2, features=features.astype(">f4"))
    with refused("got torch.int64; write features.float"):
        query("coreset", 2, features=torch.zeros((N, 8), dtype=torch.int64))
    with refused("return_inverse=True"):
        query("cmap", 2, features=features, labelled_features=features, labels=np.array(["cat"] * N))
    log = np.zeros((N, 5), int)
    given = {"features": features, "labelled_features": features, "labels": labels}
    with refused("checkpoint_predictions has 5 pool items", r"expected \(t, n\), got \(12, 5\), so transpose it"):
        query("ncal", 2, checkpoint_predictions=log, **given)


def test_picks_that_nothing_tells_apart_say_so():
    alike = np.tile([[0.75, 0.25]], (20, 1))
    said = query("margin", 5, probs=alike).notes
    assert len(said) == 1
    assert said[0].startswith("all 5 picks have the same score")
    assert said[0].endswith("drawn at random")
    assert query("margin", 20, probs=alike).notes == ()
    assert query("margin", 1, probs=alike).notes == ()
    alike[3] = 0.5
    assert query("margin", 5, probs=alike).notes == ()


LOOKS = "the rows of logits look like probabilities, none negative and their sum 1; if they are, pass them as probs"


def shares(n, c=4):
    return np.random.default_rng(3).dirichlet(np.ones(c), n)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("classes", [2, 4, 200])
def test_probabilities_given_as_logits_are_noticed(classes, dtype):
    rows = torch.tensor(shares(1000, classes)).to(getattr(torch, dtype))
    assert query("entropy", 3, logits=rows).notes[0] == LOOKS
    if dtype != "bfloat16":
        assert query("entropy", 3, logits=rows.numpy()).notes[0] == LOOKS
    assert query("entropy", 3, logits=np.eye(5)[np.arange(300) % 5]).notes[0] == LOOKS  # hard ones too
    assert LOOKS not in query("entropy", 3, probs=rows).notes


@pytest.mark.parametrize(
    "rows",
    [
        np.log(shares(100)),
        np.random.default_rng(0).normal(size=(1000, 2)),
        np.abs(np.random.default_rng(0).normal(size=(1000, 3))),
        np.vstack([shares(9), [[0.5, 0.7, -0.1, -0.1]]]),  # a linear model's, fitted to zeros and ones
        np.zeros((30, 4)),
        np.ones((30, 1)),
    ],
    ids=["log", "normal", "none negative", "sum 1", "zeros", "one column"],
)
def test_logits_are_not_taken_for_probabilities(rows):
    assert not [note for note in query("entropy", 3, logits=rows).notes if "look like" in note]


def test_only_what_is_read_is_looked_at_for_probabilities(given):
    """A sample of it: what stands between is not touched."""
    given = {**given, "logits": shares(N), "labelled_logits": shares(M)}
    assert LOOKS not in query("coreset", 3, **given).notes
    needed = {name: given[name] for name in ("features", "logits", "labelled_features", "labels", "labelled_logits")}
    said = query("cdal", 3, **needed).notes
    assert LOOKS in said
    assert LOOKS.replace("logits", "labelled_logits").replace("probs", "labelled_probs") in said
    read = []

    class Rows(np.ndarray):
        def __getitem__(self, which):
            found = super().__getitem__(which)
            read.append(len(found))
            return found

    assert door.note_logits({"logits": shares(100_000).view(Rows)}) == (LOOKS,)
    assert read[0] < 300


def test_a_random_sample_needs_ids_alone():
    names = np.array(["a", "b", "c", "d"])
    assert set(query("random", 3, ids=names, exclude=["b"]).ids) == {"a", "c", "d"}
    with refused("strategy 'margin' needs", kind=MissingEvidence):
        query("margin", 3, ids=names)
    with refused(r"the pool is empty: ids has shape \(0,\)"):
        query("random", 3, ids=[])


def test_all_rows_with_bad_values_are_counted_and_some_named():
    features = np.ones((50, 3))
    features[[4, 9, 9, 17, 30, 31], [0, 1, 2, 0, 1, 2]] = np.nan
    with refused(
        "features holds 6 values",
        r"the first at features\[4, 0\]",
        "drop those items: 5, at 4, 9, 17, ...",
        kind=NotFinite,
    ):
        query("coreset", 3, features=features)
