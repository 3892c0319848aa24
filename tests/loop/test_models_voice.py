"""The model as a voter: early words for labelled items, the last word for others, both tempered."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from ncalr.learn.learner import Record
from ncalr.loop.answers import Doubts
from ncalr.loop.labels import agreed, doubted
from ncalr.loop.run import Plan, _heard
from ncalr.loop.state import State
from ncalr.loop.voice import FEW, Voice, voice_of, votes_of
from ncalr.votes import bayes, gains

ONE = State()
ONE.take({"ids": [1], "labels": [0], "by": "a"})
LOG = np.log(np.array([[[0.6, 0.4]], [[0.8, 0.2]], [[0.01, 0.99]]]))


def model(*accuracies, log=LOG, **evidence):
    history = [{"epoch": 2 * at, "accuracy": accuracy} for at, accuracy in enumerate(accuracies)]
    return SimpleNamespace(
        record=Record(history=history),
        watched=np.array([7, 8]),
        evidence=lambda: {"labelled_log": log, **evidence},
    )


def test_what_was_said_last_before_it_knew_the_labels_by_heart_counts():
    logits = np.array([[0.0, np.log(3)], [0.0, 0.0]])
    voice = voice_of(model(0.5, 0.9, 1.0, logits=logits), ONE)
    assert voice.of([1, 7, 8, 9]) == pytest.approx(np.array([[0.8, 0.2], [0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]))
    four = np.concatenate([LOG[:1], LOG])
    mean = voice_of(model(0.2, 0.5, 0.8, 0.9, log=four, logits=logits), ONE)
    assert mean.of([1]) == pytest.approx(np.array([[0.405, 0.595]])), "it never did: the last third of all checks"
    whole = voice_of(model(0.99, 1.0, 1.0, probs=np.array([[0.1, 0.9], [0.3, 0.7]])), ONE)
    assert whole.of([1]) == pytest.approx(np.array([[0.6, 0.4]])), "it always did: the first check"
    assert whole.of([8]) == pytest.approx(np.array([[0.3, 0.7]]))


def test_one_label_in_twenty_contradicted_is_not_yet_by_heart():
    voice = voice_of(model(0.5, 0.95, 1.0, logits=np.zeros((2, 2))), ONE)
    assert voice.of([1]) == pytest.approx(np.array([[0.8, 0.2]]))


def answered(count, right):
    """So many items of class 0, called 0 at this rate."""
    labels = [0 if at < right * count else 1 for at in range(count)]
    state = State()
    state.take({"ids": list(range(count)), "labels": labels, "by": "a"})
    return state


def test_each_voice_is_made_as_sure_as_it_is_right():
    sure = np.tile([0.99, 0.01], (100, 1))
    labelled, watched = dict(enumerate(sure[:50])), dict(enumerate(sure[50:], 50))
    state = answered(100, 0.75)  # the first fifty all right, the others every second time
    voice = Voice(labelled, watched, 2).at(state, None)
    assert voice.temperatures[0] == pytest.approx(voice.temperatures[1], rel=0.02)
    assert voice.temperatures[0] < 1
    last = voice.last_word(state)
    assert last == pytest.approx(20, rel=0.01), "as good as a coin: as hot as may be"
    then = voice.at(state, last)
    assert then.of([0])[0, 0] > 0.999
    assert then.of([60])[0, 0] == pytest.approx(0.557, abs=0.001)


def echoing(agree, seed=0):
    """A model that repeats the first answers about 300 items, and states before and after second ones."""
    rng = np.random.default_rng(seed)
    told = rng.integers(0, 3, 300)
    said = np.full((300, 3), 0.02) + 0.94 * np.eye(3)[told]
    ids, other = list(range(300)), np.where(rng.random(300) < agree, told, (told + 1) % 3).tolist()
    before, after = State(), State()
    before.take({"ids": ids, "labels": told.tolist(), "by": "a"})
    again = [{"ids": ids, "labels": other, "by": "b"}]
    after.take({"ids": ids, "labels": told.tolist(), "by": "a", "again": again})
    return Voice(dict(enumerate(said)), dict(enumerate(said, 1000)), 3, dict.fromkeys(ids, 1)), before, after


def test_second_opinions_say_how_far_to_believe_it_about_labelled_items_alone():
    voice, before, after = echoing(agree=0.5)
    first = voice.at(before, 1.5)
    assert first.of([0])[0].max() > 0.99
    then = voice.at(after, 1.5, first.heard)
    assert then.of([0])[0].max() < 0.8
    assert then.heard < 0.5 < first.heard
    assert then.temperatures[1] == first.temperatures[1] == 1.5
    unknown = voice.at(after, None)
    assert unknown.temperatures[0] > 5 * unknown.temperatures[1], "nobody has checked new items"


def test_second_opinions_that_it_was_trained_on_say_nothing():
    """What was found out before holds; where nothing was, it is no surer than it foretells answers."""
    voice, _, after = echoing(agree=1.0)
    knew = replace(voice, shown=dict.fromkeys(range(300), 2))
    assert knew.at(after, None, 0.25).heard == 0.25
    assert knew.at(after, None).heard == pytest.approx(1.0)


def test_labels_and_doubts_take_the_voice_as_it_is():
    """It was trained on the second opinions too: by those another fit would not hear it."""
    voice, _, after = echoing(agree=0.7)
    ids = list(after.labels)
    soft = {item: row for item, row in voice.labelled.items() if item < 300}
    voice = replace(voice, labelled={item: (row + 1) / 4 for item, row in soft.items()}, shown=dict.fromkeys(ids, 2))
    votes = votes_of(after, ids, 3)
    expected = bayes(votes, voice.of(ids), temperature=1.0)
    assert not np.allclose(bayes(votes, voice.of(ids)).posterior, expected.posterior, atol=1e-3)
    line = agreed(Doubts(soft=True), after, voice, 3, 0)
    np.testing.assert_allclose(line["consensus"]["soft"], expected.posterior, atol=1e-4)
    seen = []
    with patch("ncalr.loop.labels.gains", lambda votes, found: seen.append(found) or gains(votes, found)):
        doubted(Doubts(), 10, [1000], after, voice, [0, 1])
    np.testing.assert_allclose(seen[0].posterior[:300], expected.posterior, atol=1e-9)


def test_a_model_that_is_not_heard_keeps_the_order_of_its_opinions():
    voice, before, _ = echoing(agree=0.5)
    deaf = voice.at(before, None, 0.0)
    assert deaf.of([0])[0] == pytest.approx(np.full(3, 1 / 3), abs=1e-3)
    assert deaf.of([0])[0].argmax() == voice.of([0])[0].argmax()


def test_a_round_with_few_new_items_hears_its_second_opinions():
    voice, before, after = echoing(agree=0.5)
    plan = Plan("ncal", (300, 600, 900), 0, 3, answers="doubts(soft=True)")
    line = _heard(plan, after, voice.at(before, None))
    assert line["heard"] < 0.5
    assert "temperature" not in line
    torn = [row for row, item in enumerate(after.labels) if len({label for _, label in after.votes[item]}) == 2]
    assert np.array(line["consensus"]["soft"])[torn].max() < 0.8


def test_a_few_answers_give_no_temperature():
    watched = dict(enumerate(np.tile([0.9, 0.1], (FEW, 1))))
    assert Voice({}, watched, 2).last_word(answered(FEW - 1, 0.9)) is None
    assert Voice({}, watched, 2).last_word(answered(FEW, 0.9)) == pytest.approx(1, abs=0.01)


def test_votes_of_items_in_their_order():
    state = State()
    state.take({"ids": [5, 6], "labels": [1, 0], "by": ["a", "b"], "again": [{"ids": [5], "labels": [0], "by": "b"}]})
    votes = votes_of(state, [9, 5, 6], 2)
    assert votes.answers.tolist() == [0, 2, 1]
    assert votes.annotators.tolist() == ["a", "b"]
    assert len(votes_of(State(), [9], 2)) == 0


def test_second_opinions_are_about_what_is_doubted_most():
    """Item 3 was called 1 and the model says 0; new items that the model knows are not worth an answer."""
    sure = np.tile([0.95, 0.05], (20, 1))
    state = State()
    state.take({"ids": list(range(10)), "labels": [int(at == 3) for at in range(10)], "by": ["a", "b"] * 5})
    voice = Voice(dict(enumerate(sure[:10])), dict(enumerate(sure[10:], 10)), 2)
    assert doubted(Doubts(new=0, again=0.1), 5, [10, 11, 12, 13, 14], state, voice, [0, 1])[0] == 3
    unsure = Voice(voice.labelled, dict.fromkeys(range(10, 20), np.array([0.5, 0.5])), 2)
    assert doubted(Doubts(new=0, again=0), 5, [10, 11, 12, 13, 14], state, unsure, [0, 1]) in ([], [3])
    state.settled.add(3)
    assert 3 not in doubted(Doubts(new=0, again=1), 9, [10], state, voice, [0, 1])
    assert doubted(Doubts(most=2), 1, [], State(), Voice({}, {}, 2), [0, 1]) == []


def test_by_bayes_answers_go_where_they_gain_most():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.01, 0.99, 100)
    ids = list(range(100))
    state = State()
    state.take({"ids": ids, "labels": (rng.random(100) > sure).astype(int).tolist(), "by": "a"})
    voice = Voice(dict(zip(ids, np.stack([sure, 1 - sure], 1), strict=True)), {100: np.array([0.999, 0.001])}, 2)
    votes = votes_of(state, ids, 2)
    most = np.argsort(-gains(votes, bayes(votes, voice.of(ids))))[:5]
    found = doubted(Doubts(new=0, again=0.5, method="bayes"), 10, [100], state, voice, [0, 1])
    assert len(found) >= 5
    assert set(found[:5]) == set(most.tolist())
