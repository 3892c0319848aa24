"""The reliability card: what is known about the labels and the model after each round, and what to do next.

One card a round, from the journal (and from `ncalr evaluate --tasks audit`, where it was run):

    labels        how many, over how many of the classes
    wrong         the estimated share of wrong labels, with its interval
    collapse      NC1, and by which rule the terminal phase began
    redundancy    how alike the items of the batch are: mean cosine of each to the nearest other one
    accuracy      on the control items of the round: how often the model's guess was the answer, with an interval. Needs
                  no test set; unbiased for what is still open, where a strategy has left the easier items once much of
                  the pool is labelled, and for agreement with answers, which may be wrong
    gain          over random with as many answers, paired by seed, where random was run

and one word of advice, by a rule that can be read:

    check labels   the interval of the wrong share lies above `WRONG` (5 %): second opinions pay more than new labels
    stop           over the last two rounds the accuracy rose by less than `FLAT` (half a point) in all
    go on          otherwise
"""

from __future__ import annotations

from html import escape
from typing import Any

from scipy.stats import binomtest

from ncalr.lab.evaluations import read_evaluations
from ncalr.lab.runner import Run
from ncalr.lab.tables import html_table
from ncalr.loop.state import spent

WRONG = 0.05
FLAT = 0.005
Card = dict[str, Any]


def cards(run: Run, classes: int, random: Run | None = None) -> list[Card]:
    """One card for each training of a run; `random` is the run of random sampling with the same seed."""
    audits = {line["round"]: line["values"] for line in read_evaluations(run) if line["task"] == "audit"}
    beside = dict(random.accuracies) if random is not None else {}
    known: dict[Any, int] = {}
    made: list[Card] = []
    for number, line in enumerate(run.lines):
        if "accuracy" in line:
            found = audits.get(number)
            made.append(
                {
                    "labels": line["labelled"],
                    "covered": len(set(known.values())),
                    "classes": classes,
                    "wrong": None if found is None else [found[n] for n in ("estimated share wrong", "low", "high")],
                    "nc1": line.get("collapse", {}).get("nc1"),
                    "rule": line.get("rule", ""),
                    "redundancy": line.get("redundancy"),
                    "control": control(line),
                    "accuracy": line["accuracy"],
                    "gain": line["accuracy"] - beside[spent(line)] if spent(line) in beside else None,
                }
            )
            made[-1]["advice"] = advice(made)
        for source in (line.get("changes", {}), line):
            pairs = zip(source.get("ids", []), source.get("labels", []), strict=True)
            known |= {item: label for item, label in pairs if label >= 0}
    return made


def control(line: dict[str, Any]) -> list[float] | None:
    """Accuracy on the control items of a round, and Wilson's interval; None where there are none."""
    hits, count = control_hits(line)
    if not count:
        return None
    between = binomtest(hits, count).proportion_ci(method="wilson")
    return [hits / count, float(between.low), float(between.high)]


def control_hits(line: dict[str, Any]) -> tuple[int, int]:
    """How many control items of a round were predicted right, and how many there were; refused ones do not count."""
    if "control" not in line:
        return 0, 0
    answers = dict(zip(line["ids"], line["labels"], strict=True))
    pairs = zip(line["control"]["ids"], line["control"]["predicted"], strict=True)
    right = [guess == answers[item] for item, guess in pairs if answers[item] >= 0]
    return sum(right), len(right)


def advice(made: list[Card]) -> str:
    """What to do after the last of these cards."""
    now = made[-1]
    if now["wrong"] is not None and now["wrong"][1] > WRONG:
        return "check labels"
    if len(made) > 2 and now["accuracy"] - made[-3]["accuracy"] < FLAT:
        return "stop"
    return "go on"


def card_section(runs: list[Run], classes: int) -> str:
    """The cards of the first strategy's first seed, as a table with the last advice in words."""
    run = runs[0]
    beside = next((other for other in runs if other.strategy == "random" and other.seed == run.seed), None)
    made = cards(run, classes, None if beside is run else beside)
    if not made:
        return ""
    head = [
        "labels",
        "classes",
        "wrong labels",
        "NC1",
        "phase by",
        "redundancy",
        "control arm",
        "over random",
        "advice",
    ]
    rows = [
        [
            f"{card['labels']:,}",
            f"{card['covered']} of {card['classes']}",
            _shares(card["wrong"]),
            "" if card["nc1"] is None else f"{card['nc1']:.3g}",
            str(card["rule"]),
            "" if card["redundancy"] is None else f"{card['redundancy']:.2f}",
            _shares(card["control"]),
            "" if card["gain"] is None else f"{100 * card['gain']:+.1f}",
            card["advice"],
        ]
        for card in made
    ]
    missing = "" if any(card["wrong"] for card in made) else (
        " Wrong labels are not estimated yet: ncalr evaluate DIR --tasks audit --round all --missing retrain."
    )  # fmt: skip
    return (
        f"<h2>Reliability of {escape(run.strategy)}, seed {run.seed}: {escape(made[-1]['advice'])}</h2>"
        f"<div class=scroll>{html_table(head, rows)}</div>"
        f"<p class=soft>One card a round. Check labels: the share of wrong labels is estimated above {WRONG:.0%}, with "
        f"its whole interval. Stop: less than {100 * FLAT:g} points gained in two rounds. Otherwise go on.{missing}</p>"
        "<p class=soft>NC1: how far features have collapsed onto their class means, 0 is all the way. Phase by: what "
        "began the terminal phase, training accuracy, a plateau, or the schedule (fallback). Redundancy: the mean "
        "cosine of each item of the batch to the nearest other one, 1 is the same item twice; blank where a strategy "
        "reads no features.</p>"
    )


def _shares(found: list[float] | None) -> str:
    if found is None:
        return ""
    return f"{100 * found[0]:.1f} % ({100 * found[1]:.1f} to {100 * found[2]:.1f})"
