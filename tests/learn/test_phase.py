"""When the terminal phase begins, and which epochs are checkpoints."""

from __future__ import annotations

import pytest

from ncalr.learn import recipe
from ncalr.learn.phase import Check, Phase


def play(phase, accuracy, quotient, agreement=1.0):
    """Go through the epochs as a training does, with these measures as functions of the epoch."""
    watched = []
    for epoch in range(1, phase.recipe.epochs + 1):
        if phase.wants_check(epoch):
            phase.add(Check(epoch, accuracy(epoch), quotient(epoch), agreement))
        if epoch in phase.window:
            watched.append(epoch)
        if epoch >= phase.last:
            break
    return watched


def test_accuracy_three_checks_in_a_row():
    phase = Phase(recipe("strong", opens=0.2, fallback=0.9))
    watched = play(phase, lambda e: 0.995 if e >= 41 else 0.9, lambda e: 1 / e)
    assert phase.rule == "accuracy"
    assert sum(check.accuracy >= 0.99 for check in phase.checks if check.epoch <= phase.began) == 3
    assert watched == list(phase.window)
    assert len(watched) == 10
    assert watched[-1] == 120


def test_one_bad_check_starts_the_count_again():
    phase = Phase(recipe("strong", opens=0.2, fallback=0.9))
    play(phase, lambda e: 0.9 if len(phase.checks) % 3 == 0 else 1.0, lambda e: 2.0**-e)
    assert phase.rule == "fallback"


def test_plateau_where_labels_are_noisy():
    phase = Phase(recipe("strong", opens=0.2, fallback=0.9))
    play(phase, lambda e: min(0.6, e / 100), lambda e: max(0.2, 1 - e / 80))
    assert phase.rule == "plateau"
    assert 60 <= phase.began < 90


def test_no_plateau_while_features_still_collapse_or_disagree():
    for quotient, agreement in ((lambda e: 2.0**-e, 1.0), (lambda e: 0.5, 0.9)):
        phase = Phase(recipe("strong", opens=0.2, fallback=0.9))
        play(phase, lambda e: 0.8, quotient, agreement)
        assert phase.rule == "fallback"


def test_fallback_leaves_room_for_the_window():
    phase = Phase(recipe("strong", epochs=12, checkpoints=10, fallback=0.9))
    watched = play(phase, lambda e: 0.5, lambda e: 2.0**-e)
    assert (phase.rule, phase.began, watched) == ("fallback", 3, list(range(3, 13)))


@pytest.mark.parametrize("epochs", [2, 3, 10, 37, 100])
@pytest.mark.parametrize("checkpoints", [2, 7, 10])
def test_the_window_is_always_full(epochs, checkpoints):
    if checkpoints > epochs:
        return
    for accuracy in (lambda e: 1.0, lambda e: 0.3):
        phase = Phase(recipe("strong", epochs=epochs, checkpoints=checkpoints))
        watched = play(phase, accuracy, lambda e: 2.0**-e)
        assert len(set(watched)) == checkpoints
        assert watched[-1] == epochs


def test_stop_ends_the_training_when_the_window_is_full():
    phase = Phase(recipe("strong", opens=0.2, stop=True))
    watched = play(phase, lambda e: 1.0, lambda e: 1 / e)
    assert watched == list(range(phase.began, phase.began + 10))
    assert watched[-1] < 50


def test_never_before_it_may_open():
    phase = Phase(recipe("strong", opens=0.5))
    play(phase, lambda e: 1.0, lambda e: 1 / e)
    assert phase.began >= 50
