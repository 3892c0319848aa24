"""When the terminal phase begins, and which epochs are checkpoints."""

from __future__ import annotations

from pathlib import Path

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


def noisy(epoch, before=0.6, after=0.85):
    """Accuracy under wrong labels: up and down at the high rate, a jump where it falls (120 epochs: 84), then flat."""
    return before + 0.03 * (epoch % 3) if epoch <= 84 else min(after, before + 0.05 * (epoch - 84))


def test_plateau_where_labels_are_noisy():
    phase = Phase(recipe("strong", fallback=0.95))
    play(phase, noisy, lambda e: 1.3 if e <= 84 else max(0.6, 1.3 - 0.2 * (e - 84)), 0.98)
    assert phase.rule == "plateau"
    assert 93 <= phase.began < 108, "the jump is forgotten, and then three checks"
    phase = Phase(recipe("strong"))
    play(phase, noisy, lambda e: 0.6, 0.98)
    assert (phase.rule, phase.began) == ("fallback", 90), "no room behind the first step"


@pytest.mark.parametrize(("schedule", "drops"), [("cosine", (0.7, 0.9)), ("constant", (0.7, 0.9)), ("step", ())])
def test_plateau_where_no_step_is_to_come(schedule, drops):
    phase = Phase(recipe("strong", opens=0.2, fallback=0.9, schedule=schedule, drops=drops))
    play(phase, lambda e: min(0.6, e / 100), lambda e: max(0.2, 1 - e / 80))
    assert phase.rule == "plateau"
    assert 60 <= phase.began < 90


def test_no_plateau_before_the_rate_falls():
    phase = Phase(recipe("strong", opens=0.2, fallback=0.75))
    play(phase, lambda e: 0.6, lambda e: 0.2)
    assert phase.rule == "fallback"
    phase = Phase(recipe("strong", opens=0.2, fallback=0.95))
    play(phase, lambda e: 0.6, lambda e: 0.2)
    assert (phase.rule, phase.began > 84) == ("plateau", True)


def test_a_second_step_starts_the_count_again():
    phase = Phase(recipe("strong", opens=0.2, fallback=0.95, drops=(0.5, 0.7)))
    play(phase, lambda e: 0.6 if e <= 84 and e % 2 else 0.7, lambda e: 0.2)
    assert phase.rule == "plateau"
    assert phase.began > 84 + 5


@pytest.mark.parametrize("near", [0.3, 1.0, 1.05])
def test_near_one_a_quotient_that_hardly_moves_is_flat(near):
    """Its log is near 0, and 5 % of that nearer still."""
    phase = Phase(recipe("strong", fallback=0.95))
    play(phase, lambda e: 0.8, lambda e: near * (1 + 0.01 * (e % 2)), 0.97)
    assert phase.rule == "plateau"


def test_no_plateau_while_features_still_collapse_or_disagree():
    falling, still = (lambda e: 2.0**-e), (lambda e: 0.5)
    for accuracy, quotient, agreement in (
        (lambda e: 0.8, falling, 1.0),
        (lambda e: 0.8, still, 0.94),
        (lambda e: 0.8 + 0.01 * (e % 4), still, 1.0),
        (lambda e: 0.8, lambda e: 0.9**e, 1.0),
    ):
        phase = Phase(recipe("strong", opens=0.2, fallback=0.95))
        play(phase, accuracy, quotient, agreement)
        assert phase.rule == "fallback"


def test_few_labels_may_move_by_two_standard_errors():
    for items, rule in ((0, "fallback"), (20_000, "fallback"), (1_000, "plateau")):
        phase = Phase(recipe("strong", fallback=0.95))
        for epoch in range(1, 115):
            if phase.wants_check(epoch):
                phase.add(Check(epoch, 0.8 + 0.015 * (len(phase.checks) % 2), 0.5, 0.98, items))
        assert phase.rule == rule


def test_no_plateau_while_agreement_falls():
    phase = Phase(recipe("strong", fallback=0.95))
    for epoch in range(1, 115):
        if phase.wants_check(epoch):
            phase.add(Check(epoch, 0.8, 0.5, 1.0 - 0.002 * max(epoch - 84, 0)))
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
    assert (phase.rule, watched) == ("accuracy", list(range(85, 95))), "the rate falls after 84 of 120 epochs"
    early = Phase(recipe("strong", fallback=0.6, stop=True))
    assert play(early, lambda e: 0.5, lambda e: 2.0**-e)[0] == 85 == early.latest, "a fallback waits for it too"
    usual, same = (Phase(recipe("strong", epochs=100, stop=stop)) for stop in (False, True))
    assert [usual.wants_check(e) for e in range(1, 76)] == [same.wants_check(e) for e in range(1, 76)]
    for steady in ({"schedule": "constant"}, {"drops": ()}):
        constant = Phase(recipe("strong", opens=0.2, stop=True, **steady))
        assert play(constant, lambda e: 1.0, lambda e: 1 / e)[-1] < 50


def test_how_long_a_training_is_at_most():
    assert Phase(recipe("strong", epochs=100)).longest == 100
    stops = Phase(recipe("strong", epochs=100, stop=True))
    play(stops, lambda e: 0.5, lambda e: 2.0**-e)
    assert stops.longest == stops.last == 84
    assert Phase(recipe("strong", epochs=12, checkpoints=10, stop=True)).longest == 12


def test_never_before_it_may_open():
    phase = Phase(recipe("strong", opens=0.5))
    play(phase, lambda e: 1.0, lambda e: 1 / e)
    assert phase.began >= 50


def opened(text, accuracy, quotient):
    """The rule and the epoch that open the window of a recipe, with these measures."""
    phase = Phase(recipe(text))
    play(phase, lambda e: accuracy, quotient)
    return phase.rule, phase.began


@pytest.mark.parametrize(
    ("text", "plateau"),
    [
        ("strong", None),
        ("paper", 50),
        ("digits", None),
        ("head", None),
        ("strong(fallback=0.9)", 96),
        ("digits(fallback=0.9, epochs=80)", 58),
        ("head(fallback=0.9, epochs=100)", 81),
    ],
)
def test_which_rule_can_open_the_window_stands_in_the_docs(text, plateau):
    by_accuracy, flat, moving = (
        opened(text, 1.0, lambda e: 0.5),
        opened(text, 0.6, lambda e: 0.5),
        opened(text, 0.6, lambda e: 2.0**-e),
    )
    assert (by_accuracy[0], moving[0]) == ("accuracy", "fallback")
    assert flat == (moving if plateau is None else ("plateau", plateau))
    row = [f"`{text}`", recipe(text).epochs, by_accuracy[1], plateau or "never", moving[1]]
    page = Path(__file__).parents[2] / "docs" / "learning.md"
    assert f"| {' | '.join(map(str, row))} |" in page.read_text(encoding="utf-8").splitlines()
