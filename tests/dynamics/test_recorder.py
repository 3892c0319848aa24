"""The recorder: the same as the pure functions on the whole log, in three bytes an item."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr import dynamics
from ncalr.dynamics import Recorder
from ncalr.dynamics.scores import softmax
from ncalr.errors import BadInput, NotRecorded, UnknownName

EVERYTHING = ("flips", "predictions", "probs", "logits")
steady = settings(deadline=None, derandomize=True, max_examples=40)


def draw_logits(seed: int = 0, t: int = 6, n: int = 40, c: int = 5) -> np.ndarray:
    """A log in which items flip now and then; exact in half precision, so that keeping it loses nothing."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, c)) + 0.7 * rng.normal(size=(t, n, c))).astype(np.float16).astype(np.float32)


def whole(log, keep=EVERYTHING, classes: int = 5) -> Recorder:
    recorder = Recorder(len(log[0]), classes, keep)
    for step in log:
        recorder.record(step)
    return recorder


def in_pieces(log, keep=EVERYTHING, classes: int = 5, seed: int = 0) -> Recorder:
    """Every checkpoint in another random order, cut at random places."""
    rng = np.random.default_rng(seed)
    n = len(log[0])
    recorder = Recorder(n, classes, keep)
    for step in log:
        cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 5)))
        for rows in np.split(rng.permutation(n), cuts):
            recorder.add(rows, step[rows])
        recorder.close()
    return recorder


# -- the same as the pure functions ---------------------------------------------------------------------------


@pytest.mark.parametrize("record", [whole, in_pieces])
def test_everything_is_what_the_pure_functions_say(record) -> None:
    logits = draw_logits()
    predictions = logits.argmax(axis=2)
    labels = np.arange(40) % 5
    recorder = record(logits)
    assert recorder.checkpoints == 6
    assert recorder.flips().sum() > 0
    assert np.array_equal(recorder.flips(), dynamics.flips(predictions))
    assert np.array_equal(recorder.predictions, predictions[-1])
    assert np.array_equal(recorder.checkpoint_predictions(), predictions)
    assert np.array_equal(recorder.label_dispersion(), dynamics.label_dispersion(predictions))
    assert np.array_equal(recorder.forgetting_events(labels), dynamics.forgetting_events(predictions, labels))
    assert np.array_equal(recorder.checkpoint_logits(), logits)
    assert np.array_equal(recorder.variance(), dynamics.variance(logits))
    assert np.array_equal(recorder.aum(labels), dynamics.aum(logits, labels))
    for back in (1, 3):
        assert np.array_equal(recorder.temporal_discrepancy(back), dynamics.temporal_discrepancy(logits, back))
    np.testing.assert_allclose(recorder.sampled_probs(), softmax(logits), rtol=0, atol=1e-7)
    np.testing.assert_allclose(recorder.mean_probs(), softmax(logits).mean(axis=0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("classes", [5, 300])
@pytest.mark.parametrize("keep", ["flips", "predictions"])
@given(seed=st.integers(0, 10_000))
@steady
def test_predictions_in_pieces(keep: str, classes: int, seed: int) -> None:
    log = np.random.default_rng(seed).integers(0, classes, (4, 11))
    recorder = in_pieces(log, keep, classes, seed)
    assert np.array_equal(recorder.flips(), dynamics.flips(log))
    assert np.array_equal(recorder.predictions, log[-1])
    if keep == "predictions":
        assert np.array_equal(recorder.checkpoint_predictions(), log)
        assert np.array_equal(recorder.label_dispersion(), dynamics.label_dispersion(log))


def test_logits_and_their_predictions_record_the_same() -> None:
    logits = draw_logits(1)
    for kind in (logits, torch.from_numpy(logits), logits.argmax(axis=2), torch.from_numpy(logits).argmax(2)):
        recorder = whole(kind, ["flips", "predictions"])
        assert np.array_equal(recorder.flips(), dynamics.flips(logits.argmax(axis=2)))
        assert np.array_equal(recorder.checkpoint_predictions(), logits.argmax(axis=2))


def test_bfloat16_logits() -> None:
    logits = torch.from_numpy(draw_logits(2)).to(torch.bfloat16)
    assert np.array_equal(whole(logits).flips(), dynamics.flips(logits.float().numpy().argmax(axis=2)))


@pytest.mark.parametrize("keep", [["probs"], ["logits"]])
def test_mean_probs_from_either_record(keep: list[str]) -> None:
    logits = draw_logits(3)
    found = in_pieces(logits, keep).mean_probs()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, softmax(logits).mean(axis=0), rtol=0, atol=1e-6)


def test_mean_probs_are_summed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = draw_logits(3)
    monkeypatch.setattr("ncalr.dynamics.recorder._BLOCK", 3 * logits.shape[2])
    found = whole(logits, ["probs"]).mean_probs()
    np.testing.assert_allclose(found, softmax(logits).mean(axis=0), rtol=0, atol=1e-6)


def test_slices_may_be_rows() -> None:
    log = np.random.default_rng(4).integers(0, 5, (3, 10))
    recorder = Recorder(10, 5)
    for step in log:
        recorder.add(slice(None, 4), step[:4])
        recorder.add(slice(9, 3, -1), step[9:3:-1])
        recorder.close()
    assert np.array_equal(recorder.flips(), dynamics.flips(log))


def test_predictions_are_the_models_even_where_half_precision_ties() -> None:
    """10.001 and 10.002 are one number in half precision; FF and dispersion must still tell of one story."""
    logits = np.array([[[10.001, 10.002]], [[10.002, 10.001]]], np.float32)
    assert (logits.astype(np.float16)[..., 0] == logits.astype(np.float16)[..., 1]).all()
    recorder = whole(logits, ["logits"], classes=2)
    assert recorder.flips().tolist() == [1]
    assert recorder.checkpoint_predictions().tolist() == [[1], [0]]
    assert recorder.label_dispersion().tolist() == [0.5]


@pytest.mark.parametrize("keep", [["predictions"], ["logits"]])
def test_an_empty_piece_is_nothing(keep: list[str]) -> None:
    logits = draw_logits(5, t=2, n=4)
    recorder = Recorder(4, 5, keep)
    nothing = np.zeros(0, np.int64), np.zeros((0, 5))
    for step in logits:
        recorder.add(*nothing)
        recorder.add([2, 0], step[[2, 0]])
        recorder.add(*nothing)
        recorder.add(slice(2, 2), nothing[1])
        recorder.add([1, 3], step[[1, 3]])
        recorder.close()
    assert np.array_equal(recorder.checkpoint_predictions(), logits.argmax(axis=2))
    assert np.array_equal(recorder.flips(), dynamics.flips(logits.argmax(axis=2)))


def test_what_was_handed_out_does_not_change_later() -> None:
    recorder = Recorder(3, 4)
    recorder.record([0, 1, 2])
    recorder.record([1, 1, 2])
    flips, predictions = recorder.flips(), recorder.predictions
    recorder.record([3, 3, 3])
    assert flips.tolist() == [1, 0, 0]
    assert predictions.tolist() == [1, 1, 2]
    flips[:] = 9
    assert recorder.flips().tolist() == [2, 1, 1]


# -- size -----------------------------------------------------------------------------------------------------


def state_bytes(recorder: Recorder) -> int:
    return sum(value.nbytes for value in vars(recorder).values() if isinstance(value, np.ndarray))


@pytest.mark.parametrize(("classes", "label", "count"), [(2, "u1", "u2"), (256, "u1", "u2"), (257, "u2", "u1")])
def test_three_bytes_an_item(classes: int, label: str, count: str) -> None:
    recorder = Recorder(1000, classes)
    for shift in range(3):
        recorder.record((np.arange(1000) + shift) % classes)
    assert state_bytes(recorder) == 3000
    assert recorder.predictions.dtype == label
    assert recorder.flips().dtype == count
    assert recorder.predictions.tolist() == [(i + 2) % classes for i in range(1000)]


def test_the_largest_class_numbers_fit() -> None:
    for classes in (256, 257, 65536):
        recorder = Recorder(1, classes)
        recorder.record([classes - 1])
        assert recorder.predictions.tolist() == [classes - 1]


def test_counts_stop_at_the_largest_they_can_hold() -> None:
    many, few = Recorder(2, 257), Recorder(2, 256)
    for step in range(301):
        many.record([step % 2, 0])
        few.record([step % 2, 0])
    assert many.flips().tolist() == [255, 0]
    assert few.flips().tolist() == [300, 0]


def test_adding_small_pieces_allocates_little() -> None:
    """100 000 items: not even a byte an item while pieces of 100 are added, and three bytes before that."""
    items, piece = 100_000, 100
    recorder = Recorder(items, 10)
    predictions = np.zeros(piece, np.int64)
    recorder.record(np.zeros(items, np.int64))
    tracemalloc.start()
    for start in range(0, items, piece):
        recorder.add(slice(start, start + piece), predictions)
    recorder.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < items


# -- checkpoints that are not whole ---------------------------------------------------------------------------


def test_incomplete_checkpoint_can_be_finished() -> None:
    recorder = Recorder(4, 3)
    recorder.add([0, 2, 3], [1, 1, 1])
    with pytest.raises(BadInput, match=r"each of the 4 items exactly once; 3 rows were added: add the rest"):
        recorder.close()
    recorder.add([1], [2])
    recorder.close()
    assert recorder.predictions.tolist() == [1, 2, 1, 1]


def test_closing_nothing() -> None:
    with pytest.raises(BadInput, match="0 rows were added"):
        Recorder(4, 3).close()


@pytest.mark.parametrize("rows", [[0, 1, 2, 2], [0, 0, 0, 0], [3, 3, 1, 2], [0, 1, 2, 3, 3]])
def test_an_item_twice(rows: list[int]) -> None:
    recorder = Recorder(4, 3)
    recorder.add(rows, [0] * len(rows))
    with pytest.raises(BadInput, match=rf"{len(rows)} rows were added, some twice: drop the repeats .* new recorder"):
        recorder.close()


@given(st.lists(st.integers(0, 5), min_size=6, max_size=6))
@steady
def test_only_a_permutation_closes(rows: list[int]) -> None:
    recorder = Recorder(6, 2)
    recorder.add(rows, [0] * 6)
    if sorted(rows) == list(range(6)):
        recorder.close()
    else:
        with pytest.raises(BadInput, match="some twice"):
            recorder.close()


def test_an_open_checkpoint_gives_nothing_out() -> None:
    recorder = whole(draw_logits(6))
    recorder.add([0, 1], np.zeros((2, 5)))
    readers = [
        lambda: recorder.predictions,
        recorder.flips,
        recorder.checkpoint_predictions,
        recorder.label_dispersion,
        recorder.mean_probs,
        recorder.checkpoint_logits,
        recorder.sampled_probs,
        recorder.variance,
        recorder.temporal_discrepancy,
        lambda: recorder.aum([0] * 40),
        lambda: recorder.forgetting_events([0] * 40),
    ]
    for read in readers:
        with pytest.raises(NotRecorded, match=r"a checkpoint is open \(2 of 40 rows\): call close\(\) first"):
            read()


def test_too_few_checkpoints() -> None:
    recorder = Recorder(2, 3, EVERYTHING)
    with pytest.raises(NotRecorded, match=r"1 checkpoint\(s\) are needed, 0 recorded"):
        _ = recorder.predictions
    recorder.record(np.zeros((2, 3)))
    assert recorder.predictions.tolist() == [0, 0]
    with pytest.raises(NotRecorded, match=r"2 checkpoint\(s\) are needed, 1 recorded"):
        recorder.flips()


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, -1, 1.5, float("nan"), "3", None, True, 10**18, 2**64])
@pytest.mark.parametrize("argument", ["items", "classes"])
def test_sizes_out_of_range(argument: str, wrong: Any) -> None:
    with pytest.raises(BadInput, match=argument):
        Recorder(**{"items": 3, "classes": 3, argument: wrong})
    with pytest.raises(BadInput, match="classes"):
        Recorder(3, 65537)


def test_a_recorder_larger_than_the_memory_is_refused() -> None:
    with pytest.raises(BadInput, match="items=20000000000 and classes=60000"):
        Recorder(20_000_000_000, 60_000, keep="probs")


@pytest.mark.parametrize("kind", [complex, bool, "M8[s]", "U1", "S1", object])
@pytest.mark.parametrize("keep", ["flips", "logits"])
def test_outputs_that_are_no_numbers(keep: str, kind: Any) -> None:
    with pytest.raises(BadInput, match="logits of shape"):
        Recorder(3, 2, keep=keep).record(np.zeros((3, 2)).astype(kind))


@pytest.mark.parametrize("outputs", [torch.ones(3, 2, device="meta"), torch.ones(3, 2).to_sparse(), [[1, 2], [1]]])
def test_outputs_and_rows_that_are_no_arrays(outputs: Any) -> None:
    with pytest.raises(BadInput, match="outputs"):
        Recorder(3, 2).record(outputs)
    with pytest.raises(BadInput, match="rows"):
        Recorder(3, 2).add(outputs, np.zeros((3, 2)))


def test_unknown_thing_to_keep() -> None:
    with pytest.raises(UnknownName, match=r"no thing to keep 'logit'\. Did you mean 'logits'"):
        Recorder(3, 3, keep=["logit"])


def test_one_name_may_be_kept_without_a_list() -> None:
    assert Recorder(3, 3, keep="probs").keep == {"probs"}


@pytest.mark.parametrize("rows", [[-1, 0], [0, 4], [99, 0]])
def test_rows_out_of_range(rows: list[int]) -> None:
    with pytest.raises(BadInput, match=r"rows must lie in 0..3, got"):
        Recorder(4, 3).add(rows, [0, 0])


@pytest.mark.parametrize("rows", [[0.0, 1.0], [[0, 1]], [True, False], 0])
def test_rows_that_are_not_positions(rows: object) -> None:
    with pytest.raises(BadInput, match="rows must be a slice or a list of positions, got"):
        Recorder(4, 3).add(rows, [0, 0])


@pytest.mark.parametrize("predictions", [[0, 3], [-1, 0]])
def test_predictions_out_of_range(predictions: list[int]) -> None:
    with pytest.raises(BadInput, match=r"predictions must lie in 0..2, got"):
        Recorder(2, 3).record(predictions)


@pytest.mark.parametrize("outputs", [[0.0, 1.0], [0], [0, 1, 2], np.zeros((2, 4)), np.zeros((3, 3)), [[0], [1]]])
def test_outputs_of_another_shape(outputs: object) -> None:
    with pytest.raises(
        BadInput, match=r"expected logits of shape \(2, 3\) or integer predictions of shape \(2,\), got"
    ):
        Recorder(2, 3).record(outputs)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite(wrong: float) -> None:
    logits = np.zeros((4, 3), np.float32)
    logits[1, 2] = logits[3, 0] = logits[3, 1] = wrong
    with pytest.raises(BadInput, match="2 of 4 rows of logits hold NaN or infinity"):
        Recorder(4, 3).record(logits)


@pytest.mark.parametrize("sign", [1, -1])
def test_logits_too_large_for_half_precision(sign: int) -> None:
    logits = np.array([[sign * 70000.0, 0.0]])
    with pytest.raises(BadInput, match="logits beyond 65504 cannot be kept in half precision"):
        Recorder(1, 2, keep="logits").record(logits)
    recorder = Recorder(1, 2, keep="probs")
    recorder.record(logits)
    assert recorder.mean_probs().tolist() == [[1, 0] if sign > 0 else [0, 1]]


def test_a_refused_piece_leaves_the_record_as_it_was() -> None:
    recorder = Recorder(2, 3, "predictions")
    recorder.record([0, 1])
    with pytest.raises(BadInput):
        recorder.record([0, 7])
    recorder.record([2, 1])
    assert recorder.checkpoint_predictions().tolist() == [[0, 1], [2, 1]]
    assert recorder.flips().tolist() == [1, 0]


@pytest.mark.parametrize(("keep", "named"), [("probs", "probs"), (("logits", "probs"), "logits and probs")])
def test_predictions_where_outputs_are_to_be_kept(keep: object, named: str) -> None:
    with pytest.raises(BadInput, match=f"this recorder keeps {named}: give it logits, not predictions"):
        Recorder(2, 3, keep).record([0, 1])


@pytest.mark.parametrize(
    ("ask", "what", "how"),
    [
        (Recorder.checkpoint_predictions, "checkpoint predictions", r"keep=\['predictions'\] or keep=\['logits'\]"),
        (Recorder.label_dispersion, "checkpoint predictions", r"keep=\['predictions'\] or keep=\['logits'\]"),
        (lambda r: r.forgetting_events([0, 0]), "checkpoint predictions", r"keep=\['predictions'\]"),
        (Recorder.mean_probs, "mean probabilities", r"keep=\['probs'\] or keep=\['logits'\]"),
        (Recorder.checkpoint_logits, "checkpoint logits", r"keep=\['logits'\]"),
        (Recorder.sampled_probs, "checkpoint logits", r"keep=\['logits'\]"),
        (Recorder.variance, "checkpoint logits", r"keep=\['logits'\]"),
        (Recorder.temporal_discrepancy, "checkpoint logits", r"keep=\['logits'\]"),
        (lambda r: r.aum([0, 0]), "checkpoint logits", r"keep=\['logits'\]"),
    ],
)
def test_what_was_not_kept(ask, what: str, how: str) -> None:
    recorder = whole([[0, 1], [1, 1]], "flips")
    with pytest.raises(NotRecorded, match=rf"{what} were not kept: make the recorder with {how}.*it has \['flips'\]"):
        ask(recorder)


@pytest.mark.parametrize("keep", ["flips", "predictions", "probs", "logits"])
def test_a_recorder_goes_on_from_the_state_of_another(keep):
    rng = np.random.default_rng(0)
    steps = [rng.normal(size=(30, 4)) for _ in range(5)]
    whole, first, second = (Recorder(30, 4, keep) for _ in range(3))
    for step in steps:
        whole.record(step)
    for step in steps[:3]:
        first.record(step)
    second.restore(first.state())
    for step in steps[3:]:
        second.record(step)
    assert second.state().keys() == whole.state().keys()
    for name, value in whole.state().items():
        np.testing.assert_array_equal(second.state()[name], value)
    np.testing.assert_array_equal(second.flips(), whole.flips())


def test_a_state_of_other_items_is_refused():
    kept = Recorder(3, 4).state()
    for other in (Recorder(4, 4), Recorder(3, 300), Recorder(3, 4, "probs")):
        with pytest.raises(BadInput, match="other items, classes or keep"):
            other.restore(kept)


def test_a_recorder_says_what_it_has_heard() -> None:
    record = Recorder(2000, 3)
    record.record(np.zeros(2000, int))
    assert repr(record) == "Recorder: 1 checkpoints of 2,000 items, 3 classes"


@pytest.mark.parametrize("keep", [3, [["flips"]], np.broadcast_to(np.float32(0), (2**40,))])
def test_things_to_keep_that_are_no_names_are_refused_at_once(keep):
    with pytest.raises(BadInput, match="keep"):
        Recorder(3, 2, keep)
