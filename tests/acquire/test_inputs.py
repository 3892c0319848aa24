"""What arrays may be: any precision, order, place and library give the same ids, and nothing is copied or changed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from acquire_bundle import bundle

from ncalr.acquire import strategies
from ncalr.acquire.query import query
from ncalr.kernels.device import Device

pytestmark = pytest.mark.usefixtures("one_thread")

ALL = sorted(strategies())
POOL = ("features", "logits", "predictions", "enhanced")
POOL_SECOND = ("checkpoint_predictions", "sampled_probs")


def floats(given, change):
    """The evidence with its floating-point arrays changed."""
    return {name: change(a) if a.dtype.kind == "f" else a for name, a in given.items()}


def ids_of(strategy, given, k=15, **options):
    return query(strategy, k, seed=3, **given, **options).ids.tolist()


# -- the same ids ----------------------------------------------------------------------------------------------


PLAIN = {  # where the defaults leave items tied but for rounding: a tiny radius, clusters of two, mutual neighbours
    "maxherding": "maxherding(select=coverage(radius=1))",
    "ncal_coverage": "ncal_coverage(select=coverage(radius=1))",
    "uherding": "uherding(select=coverage(radius=1))",
    "typiclust": "typiclust(select=typical(clusters=5))",
}


@pytest.mark.parametrize("strategy", ALL)
def test_precision(strategy, everything, backend):
    """The values are those of half precision in all three."""
    strategy = PLAIN.get(strategy, strategy)
    k = 8 if "coverage" in strategy else 15
    wide = ids_of(strategy, everything, k)
    for kind in (np.float16, np.float32):
        assert ids_of(strategy, floats(everything, lambda a, kind=kind: a.astype(kind)), k) == wide


@pytest.mark.parametrize("strategy", ALL)
def test_order_in_memory(strategy, everything, backend):
    plain = ids_of(strategy, everything)
    assert ids_of(strategy, {name: np.asfortranarray(a) for name, a in everything.items()}) == plain
    assert ids_of(strategy, {name: every_second(a) for name, a in everything.items()}) == plain


@pytest.mark.parametrize("strategy", ALL)
def test_arrays_seen_backwards(strategy, everything, backend):
    backwards = {name: np.flip(np.flip(a).copy()) for name, a in everything.items()}
    assert ids_of(strategy, backwards) == ids_of(strategy, everything)


def every_second(array):
    """The same values with gaps between them."""
    roomy = np.zeros(tuple(2 * size for size in array.shape), array.dtype)
    view = roomy[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


@pytest.mark.parametrize("strategy", ALL)
def test_tensors(strategy, everything, backend):
    plain = ids_of(strategy, everything)
    tensors = {name: torch.from_numpy(a) for name, a in everything.items()}
    assert ids_of(strategy, tensors) == plain
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.requires_grad_(True)
    assert ids_of(strategy, tensors) == plain
    assert ids_of(strategy, {**everything, "features": tensors["features"]}) == plain


@pytest.mark.parametrize("strategy", ALL)
def test_brain_floats(strategy, backend):
    """bfloat16 has no NumPy type; the same values in float32 must give the same."""
    rounded = {}
    for name, array in bundle(np.random.default_rng(1), n=40, m=16).items():
        tensor = torch.from_numpy(array)
        rounded[name] = tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
    wide = {name: t.float().numpy() if t.is_floating_point() else t.numpy() for name, t in rounded.items()}
    assert ids_of(strategy, rounded) == ids_of(strategy, wide)


@pytest.mark.parametrize("strategy", ALL)
def test_lists(strategy, everything):
    lists = {name: array.tolist() for name, array in everything.items()}
    assert ids_of(strategy, lists) == ids_of(strategy, everything)


@pytest.mark.parametrize("strategy", ALL)
def test_files_mapped_into_memory(strategy, everything, tmp_path, backend):
    mapped = {}
    for name, array in everything.items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    assert ids_of(strategy, mapped) == ids_of(strategy, everything)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_whole_numbers_of_any_width(kind, everything, backend):
    narrow = {name: a.astype(kind) if a.dtype.kind == "i" else a for name, a in everything.items()}
    for strategy in ("ncal", "ff", "label_dispersion", "sisom", "ncal(select=quota)", "ncal(select=sequential)"):
        assert ids_of(strategy, narrow) == ids_of(strategy, everything)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32])
def test_tensors_of_whole_numbers_of_any_width(kind, everything, backend):
    narrow = {name: torch.from_numpy(a.astype(kind)) if a.dtype.kind == "i" else a for name, a in everything.items()}
    for strategy in ("ncal", "ff", "label_dispersion", "sisom", "ncal(select=quota)"):
        assert ids_of(strategy, narrow) == ids_of(strategy, everything)


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_tensors_of_unsigned_numbers(kind, everything):
    """What torch.from_numpy makes of a Recorder's predictions with more than 256 classes."""
    narrow = {name: torch.from_numpy(a.astype(kind)) if a.dtype.kind == "i" else a for name, a in everything.items()}
    assert ids_of("ncal", narrow) == ids_of("ncal", everything)


@pytest.mark.parametrize("strategy", ALL)
def test_both_backends_pick_the_same(strategy, everything, monkeypatch):
    strategy = PLAIN.get(strategy, strategy)
    k = 8 if "coverage" in strategy else 20
    here = ids_of(strategy, everything, k)
    monkeypatch.setattr("ncalr.acquire.query.choose", lambda *_: Device(torch.device("cpu")))
    assert ids_of(strategy, everything, k) == here


@pytest.mark.parametrize("strategy", ALL)
def test_chunks_change_nothing(strategy, monkeypatch, backend):
    """1,300 items in chunks of at most 1,024."""
    given = bundle(np.random.default_rng(2), n=1300, m=40)
    whole = query(strategy, 12, **given)
    monkeypatch.setattr(backend, "chunk_bytes", 1)
    parts = query(strategy, 12, **given)
    assert parts.ids.tolist() == whole.ids.tolist()
    np.testing.assert_allclose(parts.scores, whole.scores, rtol=1e-5)


# -- ids and exclusions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ALL)
def test_excluding_is_dropping_the_rows(strategy, everything, backend):
    out = np.array([0, 7, 8, 31, 59])
    left = np.setdiff1d(np.arange(60), out)
    dropped = {name: a[left] if name in POOL else a for name, a in everything.items()}
    dropped |= {name: everything[name][:, left] for name in POOL_SECOND}
    excluded = query(strategy, 20, exclude=out, seed=3, **everything)
    plain = query(strategy, 20, ids=left, seed=3, **dropped)
    assert excluded.ids.tolist() == plain.ids.tolist()
    np.testing.assert_allclose(excluded.scores, plain.scores, rtol=1e-6)
    for name, part in excluded.parts.items():
        np.testing.assert_allclose(part, plain.parts[name], rtol=1e-6)


def test_all_but_the_excluded_can_be_picked(everything):
    picks = query("ncal", 57, exclude=[1, 2, 3], **everything)
    assert sorted(picks.ids.tolist()) == [0, *range(4, 60)]


def test_exclusions_may_repeat_and_be_tensors(everything):
    plain = ids_of("margin", everything, exclude=[5, 9])
    assert ids_of("margin", everything, exclude=[9, 5, 5]) == plain
    assert ids_of("margin", everything, exclude=torch.tensor([5, 9])) == plain


@pytest.mark.parametrize("strategy", ["ncal", "margin", "coreset", "badge", "typiclust"])
def test_texts_as_ids(strategy, everything, backend):
    names = np.array([f"img/{i:03}.png" for i in range(60)])
    picks = query(strategy, 10, ids=names, exclude=names[:5], **everything)
    assert picks.ids.dtype.kind == "U"
    assert set(picks.ids) <= set(names[5:])
    for same in (names.tolist(), names.astype("U40")):
        again = query(strategy, 10, ids=same, exclude=names[:5].tolist(), **everything)
        assert again.ids.tolist() == picks.ids.tolist()


def test_ids_are_answers_and_not_positions(everything):
    ids = np.arange(60) * 10 + 1_000_000
    plain = query("margin", 10, **everything)
    assert query("margin", 10, ids=ids, **everything).ids.tolist() == ids[plain.ids].tolist()
    assert query("margin", 10, ids=torch.from_numpy(ids), **everything).ids.tolist() == ids[plain.ids].tolist()


@pytest.mark.parametrize("strategy", ALL)
def test_one_seed_one_answer(strategy, everything, backend):
    assert ids_of(strategy, everything) == ids_of(strategy, everything)


@pytest.mark.parametrize("strategy", ALL)
def test_picks_are_k_distinct_ids_with_finite_scores(strategy, everything, backend):
    for k in (1, 7, 60):
        picks = query(strategy, k, **everything)
        assert len(picks) == len(set(picks.ids.tolist())) == k
        assert picks.scores.shape == (k,)
        assert picks.scores.dtype == np.float64
        assert np.isfinite(picks.scores).all()


# -- nothing is changed, nothing is copied ---------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [*ALL, "ncal(select=sequential)", "ncal(select=filtered)", "ff(select=quota)"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_inputs_are_never_modified(strategy, kind, everything, backend):
    given = floats(everything, lambda a: a.astype(kind))
    before = {name: a.copy() for name, a in given.items()}
    query(strategy, 10, exclude=[0], **given)
    for name, array in given.items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("strategy", ALL)
def test_read_only_inputs_will_do(strategy, everything, backend):
    for array in everything.values():
        array.setflags(write=False)
    assert len(query(strategy, 10, **everything)) == 10


@pytest.fixture(scope="module")
def large_files(tmp_path_factory):
    """128 MiB of features and of logits on disk."""
    folder = tmp_path_factory.mktemp("pool")
    rows = np.random.default_rng(0).normal(size=(1024, 256)).astype(np.float32)
    for name in ("features", "logits"):
        out = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=(131072, 256))
        for start in range(0, len(out), 1024):
            out[start : start + 1024] = rows + start * 1e-6
        out.flush()
    return folder


@pytest.mark.parametrize("strategy", ["ncal", "margin", "entropy", "coreset", "coreset(select=kmeans_pp)"])
def test_a_mapped_pool_is_never_copied_whole(strategy, large_files):
    features = np.load(large_files / "features.npy", mmap_mode="r")
    logits = np.load(large_files / "logits.npy", mmap_mode="r")
    given = {"features": features} if "coreset" in strategy else {"logits": logits}
    if strategy == "ncal":
        given |= {"features": features, "labelled_features": np.array(features[:512]), "labels": np.arange(512) % 256}
        given |= {"flips": np.zeros(len(features), np.uint8)}
    query(strategy, 3, **given)  # compile first
    tracemalloc.start()
    query(strategy, 3, **given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < features.nbytes / 2
