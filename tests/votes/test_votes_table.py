"""Votes: ids of any kind, items without answers, annotators without answers, and what is refused at the door."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncalr.errors import BadInput
from ncalr.votes import NO_ANSWER, Votes

steady = settings(deadline=None, derandomize=True, max_examples=60)


def long_form(votes: Votes) -> list[tuple]:
    return list(
        zip(
            votes.items[votes.item].tolist(),
            votes.annotators[votes.annotator].tolist(),
            votes.label.tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("items", "annotators"),
    [
        ([30, 10, 30, 20], ["bob", "ann", "ann", "bob"]),
        (np.array([30, 10, 30, 20], np.uint64), np.array(["bob", "ann", "ann", "bob"])),
        (["z", "a", "z", "é"], [7, -1, -1, 7]),
        ([("x", 1), ("x", 0), ("x", 1), ("y", 1)], [b"bob", "ann", "ann", b"bob"]),
        ([1, "1", 1, None], [2.5, 1.5, 1.5, 2.5]),
        (np.array([3.5, 1.5, 3.5, 2.5]), np.array(["2026-01-02", "2026-01-01", "2026-01-01", "2026-01-02"], "M8[D]")),
        ([2**70, 3, 2**70, 2**71], ["b", "a", "a", "b"]),
    ],
)
def test_ids_of_any_kind_keep_their_value_and_order_of_coming(items, annotators) -> None:
    votes = Votes.from_long(items, annotators, [0, 1, 2, 0], 3)
    listed = items.tolist() if hasattr(items, "tolist") else items
    people = annotators.tolist() if hasattr(annotators, "tolist") else annotators
    assert votes.items.tolist() == [listed[0], listed[1], listed[3]]
    assert votes.annotators.tolist() == [people[0], people[1]]
    assert long_form(votes) == list(zip(listed, people, [0, 1, 2, 0], strict=True))
    assert [votes.position(who) for who in (people[0], people[1])] == [0, 1]


def test_a_number_and_its_text_are_two_ids() -> None:
    votes = Votes.from_long([1, 1], ["1", "2"], [0, 0], 2, known_items=["1", 1])
    assert votes.answers.tolist() == [0, 2]


def test_large_signed_and_unsigned_ids_do_not_run_together() -> None:
    known = np.array([2**53, 2**53 + 1], np.int64)
    votes = Votes.from_long(np.array([2**53 + 1], np.uint64), ["a"], [0], 2, known_items=known)
    assert votes.answers.tolist() == [0, 1]


def test_table_and_long_form_are_the_same_votes() -> None:
    table = np.array([[0, -1, 2], [-1, -1, -1], [1, 1, 1]])
    dense = Votes.from_matrix(table, 3, items=["a", "b", "c"], annotators=["x", "y", "z"])
    items, annotators = np.repeat(["a", "b", "c"], 3), np.tile(["x", "y", "z"], 3)
    long = Votes.from_long(items, annotators, table.ravel(), 3)
    assert (
        long_form(dense)
        == long_form(long)
        == [("a", "x", 0), ("a", "z", 2), ("c", "x", 1), ("c", "y", 1), ("c", "z", 1)]
    )
    assert dense.items.tolist() == long.items.tolist()
    assert dense.annotators.tolist() == long.annotators.tolist()
    assert dense.answers.tolist() == [2, 0, 3]
    assert dense.given.tolist() == [2, 1, 2]
    assert dense.counts.tolist() == [[1, 0, 1], [0, 0, 0], [0, 3, 0]]
    np.testing.assert_allclose(dense.shares, [[0.5, 0, 0.5], [1 / 3] * 3, [0, 1, 0]])
    assert len(dense) == 5


def test_ids_of_a_table_are_its_places() -> None:
    votes = Votes.from_matrix(torch.tensor([[0, 1], [1, -1]]), 2)
    assert votes.items.tolist() == [0, 1]
    assert votes.annotators.tolist() == [0, 1]
    assert votes.label.tolist() == [0, 1, 1]


def test_tensors_of_ids() -> None:
    votes = Votes.from_long(torch.tensor([5, 4]), torch.tensor([1, 1]), torch.tensor([0, 1]), 2)
    assert votes.items.tolist() == [5, 4]


def test_known_items_and_annotators_come_first_and_may_be_silent() -> None:
    votes = Votes.from_long(["b"], ["y"], [1], 2, known_items=["a", "b", "c"], known_annotators=["x", "y"])
    assert votes.items.tolist() == ["a", "b", "c"]
    assert votes.annotators.tolist() == ["x", "y"]
    assert (votes.answers.tolist(), votes.given.tolist()) == ([0, 1, 0], [0, 1])
    assert votes.answered.items.tolist() == ["b"]
    assert votes.answered.item.tolist() == [0]


def test_no_answers_at_all() -> None:
    votes = Votes.from_long([], [], [], 2, known_items=["a"])
    assert (len(votes), votes.answers.tolist(), votes.given.tolist()) == (0, [0], [])
    assert len(Votes.from_long([], [], [], 2).items) == 0
    assert votes.latest().items.tolist() == ["a"]
    assert votes.opinions.tolist() == [0]


def test_no_answer_in_long_form_names_the_item_and_the_annotator() -> None:
    votes = Votes.from_long([4, 5], ["a", "b"], [NO_ANSWER, 1], 2)
    assert votes.items.tolist() == [4, 5]
    assert votes.annotators.tolist() == ["a", "b"]
    assert long_form(votes) == [(5, "b", 1)]


def test_the_same_annotator_twice_counts_twice_and_latest_takes_the_last() -> None:
    votes = Votes.from_long([0, 1, 0, 0, 1], ["a", "a", "b", "a", "a"], [0, 1, 1, 2, 1], 3)
    assert votes.answers.tolist() == [3, 2]
    assert votes.counts.tolist() == [[1, 1, 1], [0, 2, 0]]
    assert votes.opinions.tolist() == [2, 1]
    assert votes.checked.tolist() == [True, False, True, True, False]
    assert long_form(votes.latest()) == [(0, "b", 1), (0, "a", 2), (1, "a", 1)]


@given(st.integers(0, 10_000), st.integers(0, 40))
@steady
def test_readings_and_latest_against_a_dictionary(seed: int, v: int) -> None:
    rng = np.random.default_rng(seed)
    item, who, label = rng.integers(0, 6, v), rng.integers(0, 3, v), rng.integers(0, 4, v)
    votes = Votes.from_long(item, who, label, 4, known_items=np.arange(6), known_annotators=np.arange(3))
    table = np.zeros((6, 12))
    np.add.at(table, (item, who * 4 + label), 1)
    assert np.array_equal(votes.readings.toarray(), table)
    last = {(i, w): c for i, w, c in zip(item.tolist(), who.tolist(), label.tolist(), strict=True)}
    assert {(i, w): c for i, w, c in long_form(votes.latest())} == last
    assert len(votes.latest()) == len(last)
    assert votes.opinions.tolist() == [sum(i == j for j, _ in last) for i in range(6)]


# -- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [2, 99, -2])
def test_labels_out_of_range(label: int) -> None:
    message = rf"labels must lie in 0..1 for 2 classes, or be -1 for no answer; 1 do not, the first is {label}"
    with pytest.raises(BadInput, match=message):
        Votes.from_long([0, 1], [0, 0], [0, label], 2)
    with pytest.raises(BadInput, match=message):
        Votes.from_matrix([[0, label]], 2)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [True, False], ["a", "b"], [0, None]])
def test_labels_that_are_not_whole_numbers(labels: list) -> None:
    with pytest.raises(BadInput, match=r"labels must be whole numbers 0..1, or -1 for no answer; got"):
        Votes.from_long([0, 1], [0, 0], labels, 2)


@pytest.mark.parametrize("classes", [1, 0, True, 2.0, "2", 2**16 + 1, 2**62, 10**30])
def test_classes_from_two_on(classes: object) -> None:
    with pytest.raises(BadInput, match="classes must be a whole number"):
        Votes.from_long([0], [0], [0], classes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("items", "who", "labels"), [([0], [0, 1], [0, 1]), ([0, 1], [0], [0, 1]), ([0, 1], [0, 1], [0])]
)
def test_lists_of_one_length(items: list, who: list, labels: list) -> None:
    with pytest.raises(BadInput, match="lists of one length, one row an answer; got"):
        Votes.from_long(items, who, labels, 2)


def test_ids_in_a_table() -> None:
    with pytest.raises(BadInput, match=r"items must be a list of ids, got shape \(1, 2\)"):
        Votes.from_long(np.zeros((1, 2)), [0, 1], [0, 1], 2)


def test_ids_that_cannot_be_hashed() -> None:
    with pytest.raises(BadInput, match="annotator ids must be whole numbers, texts or hashable objects: unhashable"):
        Votes.from_long([0, 1], [{}, {}], [0, 1], 2)


def test_an_annotator_who_is_not_known() -> None:
    message = "2 answers are of an annotator not among the 2 known, the first is 'eve'; add it to known_annotators"
    with pytest.raises(BadInput, match=message):
        Votes.from_long([0, 1, 2], ["ann", "eve", "eve"], [0, 0, 0], 2, known_annotators=["ann", "bob"])


def test_an_item_that_is_not_known() -> None:
    with pytest.raises(BadInput, match="1 answers are of an item not among the 2 known, the first is 9"):
        Votes.from_long([0, 9], ["ann", "eve"], [0, 0], 2, known_items=[0, 1])


def test_asking_for_an_annotator_never_seen() -> None:
    votes = Votes.from_matrix([[0, 1]], 2, annotators=["ann", "bob"])
    with pytest.raises(BadInput, match=r"annotator 'eve' was never seen; there are 2, the first \['ann', 'bob'\]"):
        votes.position("eve")


def test_known_ids_that_repeat() -> None:
    with pytest.raises(BadInput, match="item ids must not repeat; 3 were named, 2 of them different"):
        Votes.from_long([0], ["a"], [0], 2, known_items=[0, 1, 0])
    with pytest.raises(BadInput, match="annotator ids must not repeat; 2 were named, 1 of them different"):
        Votes.from_matrix([[0, 1]], 2, annotators=["a", "a"])


def test_tables_of_other_shapes() -> None:
    with pytest.raises(BadInput, match=r"two dimensions \(items, annotators\), got shape \(2,\)"):
        Votes.from_matrix([0, 1], 2)
    with pytest.raises(BadInput, match="the table of answers has 1 items, got 2 item ids"):
        Votes.from_matrix([[0, 1]], 2, items=["a", "b"])
