"""Reliability cards: every figure from the journal, and advice by its rule."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ncalr.lab.card import advice, card_section, cards, control
from ncalr.lab.evaluations import EVALUATIONS, VERSION
from ncalr.lab.runner import Run


def run(tmp_path, strategy="ncal", accuracies=(0.5, 0.6, 0.7), audits=()):
    folder = tmp_path / strategy
    folder.mkdir()
    lines = [{"round": 0, "ids": [0, 1], "labels": [0, 1]}]
    for number, accuracy in enumerate(accuracies, start=1):
        item = 10 * number
        lines.append(
            {
                "round": number, "labelled": 2 * number, "accuracy": accuracy, "rule": "plateau",
                "collapse": {"nc1": 0.25}, "ids": [item, item + 1], "labels": [2, -1], "redundancy": 0.5,
                "control": {"ids": [item, item + 1], "predicted": [2, 0]},
            }
        )  # fmt: skip
    (folder / EVALUATIONS).write_text(
        "".join(
            json.dumps(
                {
                    "version": VERSION,
                    "task": "audit",
                    "round": n,
                    "accuracy": 0.5,
                    "shown": [],
                    "notes": [],
                    "wishes": {},
                    "values": {"estimated share wrong": s, "low": s / 2, "high": 2 * s},
                }
            )
            + "\n"
            for n, s in audits
        )
    )
    return Run(strategy, 0, SimpleNamespace(folder=folder), lines)


def test_figures_come_from_the_journal(tmp_path):
    random = run(tmp_path, "random", (0.5, 0.55))
    made = cards(run(tmp_path, audits=[(2, 0.08)]), 4, random)
    assert [card["labels"] for card in made] == [2, 4, 6]
    assert [card["covered"] for card in made] == [2, 3, 3]  # the labels a model had, not those asked after it
    assert made[1]["wrong"] == [0.08, 0.04, 0.16]
    assert made[0]["wrong"] is None
    assert made[1]["gain"] == pytest.approx(0.05)
    assert made[2]["gain"] is None
    assert made[0]["control"][0] == 1.0  # one refusal does not count


def test_the_gain_is_over_random_with_as_many_answers(tmp_path):
    """Where several answers make a label, 4 labels may be 10 answers: random with 4 answers is another budget."""
    own, random = run(tmp_path), run(tmp_path, "random", (0.5, 0.55, 0.58))
    for line, answers in zip(own.lines[1:], (2, 6, 10), strict=True):
        line["answers"] = answers
    for line, answers in zip(random.lines[1:], (2, 4, 10), strict=True):
        line["answers"] = answers
    assert [card["gain"] for card in cards(own, 4, random)] == [0.0, None, pytest.approx(0.12)]


def test_the_control_arm_of_a_round():
    line = {"ids": [1, 2, 3], "labels": [0, 1, 1], "control": {"ids": [1, 2, 3], "predicted": [0, 0, 1]}}
    share, low, high = control(line)
    assert share == pytest.approx(2 / 3)
    assert 0 < low < share < high < 1
    assert control({"ids": []}) is None
    assert control({"ids": [1], "labels": [-1], "control": {"ids": [1], "predicted": [0]}}) is None


def test_advice_by_its_rule():
    card = {"wrong": None, "accuracy": 0.5}
    assert advice([card]) == "go on"
    assert advice([{**card, "wrong": [0.1, 0.06, 0.2]}]) == "check labels"
    assert advice([{**card, "wrong": [0.1, 0.04, 0.2]}]) == "go on"
    assert advice([card, card, {**card, "accuracy": 0.504}]) == "stop"
    assert advice([card, card, {**card, "accuracy": 0.506}]) == "go on"


def test_the_section_of_the_report(tmp_path):
    own, random = run(tmp_path, audits=[(3, 0.2)]), run(tmp_path, "random")
    text = card_section([own, random], 4)
    assert "Reliability of ncal, seed 0: check labels" in text
    assert "20.0 % (10.0 to 40.0)" in text
    assert "3 of 4" in text
    assert "not estimated yet" not in text
    assert "not estimated yet" in card_section([random], 4)
    assert card_section([Run("ncal", 0, own.journal, own.lines[:1])], 4) == ""
