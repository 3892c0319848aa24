"""The pages of results from journals and evaluations that are made up: every part says what the numbers say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from ncalr.lab.runner import pairs, slug

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("results")
    for name in ("STUDY", "NOISE", "PAGES"):
        monkeypatch.setattr(module, name, tmp_path / name)
        (tmp_path / name).mkdir()
    return module


def finish(results, name, better, evaluations=None):
    """All runs of an experiment, `better` by strategy above the others; each seed a little apart."""
    experiment = results.plan()[name]
    folder = results.STUDY / name
    folder.mkdir()
    (folder / "experiment.json").write_text(json.dumps(experiment.as_dict()))
    for strategy, seed in pairs(experiment):
        run = folder / "runs" / slug(strategy, seed)
        run.mkdir(parents=True)
        gain = better.get(strategy, 0) * (1 + 0.1 * seed)
        lines = [
            {
                "labelled": labels,
                "accuracy": 0.4 + labels / 1e5 + 0.001 * seed + gain * (labels > experiment.start),
                "began": 90,
                "seconds": {"round": 0.5},
                "stop": "budget" if labels == experiment.end else "",
            }
            for labels in experiment.budgets
        ]
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if evaluations:
            said = [
                {**line, **evaluation, "values": {key: value + gain for key, value in evaluation["values"].items()}}
                for line in lines
                for evaluation in evaluations
            ]
            (run / "evaluations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))


def page_of(results, name):
    page = next(page for page in results.PAGES_OF if page.name == name)
    row = results.write_page(page)
    return row, (results.PAGES / f"{name}.md").read_text()


def ood_line():
    values = {f"{score}, {group}, auroc": 0.7 for score in ("msp", "energy") for group in ("near", "far")}
    values["energy, far, auroc"] = 0.75
    return {"task": "ood", "values": values, "shown": list(values), "notes": []}


EVALUATIONS = (
    ood_line(),
    {"task": "probe", "values": {"cifar100(size=64), top1": 0.4, "cub200, top1": 0.2, "mean of top1": 0.3}},
    {
        "task": "separation",
        "values": dict.fromkeys(
            ("distance", "distance over feature norm", "nearest distance over feature norm", "cosine, centred"), 2.0
        ),
        "histogram": {"quantiles": [1.0, 2.0, 3.0]},
    },
)


def test_a_page_with_every_part(results):
    finish(results, "mini_imagenet", {"ncal": 0.02, "margin": 0.01}, EVALUATIONS)
    (results.STUDY / "slices.jsonl").write_text('{"experiment": "mini_imagenet", "trainings": 147, "seconds": 1470}\n')
    row, text = page_of(results, "mini_imagenet")
    assert "| Holds: above random and above every rival measured. |" in row
    images = 100 * (3 * 5_000 + 21 * sum(range(7_500, 20_001, 2_500)))  # a first training a seed, then each its own
    assert (
        f"side by side: {images / 1470:,.0f} images a second, so {8_750_000 * 1470 / images:.0f} s for the 7 ro" in text
    )
    with (results.STUDY / "slices.jsonl").open("a") as more:
        more.write('{"experiment": "mini_imagenet", "trainings": 3, "seconds": 50, "images": 3500000}\n')
    found = results.spent(["mini_imagenet"])
    assert found.startswith("150 trainings in 25.3 minutes of one H200, scoring included, several runs side by side")
    assert found.endswith("70,000 images a second since images are noted, so 125 s for the 7 rounds of a run.")
    assert results.spent(["cifar100"]) == ""
    ncal = next(line for line in text.splitlines() if line.startswith("| ncal |"))
    assert "| 72.11 | 3 | 11 | 0.50 |" in ncal, "the paper's figure, seeds, passes over the pool, seconds of scoring"
    assert next(line for line in text.splitlines() if line.startswith("| random |")).endswith(
        "| 69.51 | 3 | 0 | 0.50 |"
    )
    assert "with `energy`, the best of the scores" in text
    assert "ncal against random +2.2 (+1.7 to +2.7)" in text
    assert "At equal accuracy of the classifiers:" in text
    assert "| random | 40.0 | 20.0 | 30.0 | 41.64, 58.69, 37.84, 42.34 |" in text
    assert "43.78, 60.87, 40.01, 44.70 |" in text
    assert (results.PAGES / "mini_imagenet_separation.svg").exists()
    assert (
        "**Verdict (raw distance).** Holds: above random and every other strategy here; ncal against random +0.022"
        in text
    )


def test_no_gain_is_said_as_plainly(results):
    finish(results, "mini_imagenet", {"random": 0.02}, EVALUATIONS)
    row, text = page_of(results, "mini_imagenet")
    assert "Does not hold: no reliable gain over random" in row
    assert "**Verdict (near).** Does not hold: no reliable gain over random; ncal against random -2.2" in text


def test_no_difference_at_all_is_no_gain(results):
    finish(results, "mini_imagenet", {}, EVALUATIONS)
    _, text = page_of(results, "mini_imagenet")
    assert text.count("Does not hold: no reliable gain over random; ncal against random +0.0 (") == 3


def test_a_rival_above_is_named(results):
    finish(results, "mini_imagenet", {"ncal": 0.01, "badge": 0.02}, EVALUATIONS)
    row, text = page_of(results, "mini_imagenet")
    assert "Holds in part: above random, not above badge." in row
    assert "**Verdict.** Holds in part: above random, not above badge; ncal against random +1.1" in text


def test_discovery_and_tail(results):
    values = {"all": 0.33, "old": 0.5, "new": 0.2}
    notes = ["variant B", "20 initialisations"]
    finish(results, "mini_imagenet-known", {"ncal": 0.02}, [{"task": "discovery", "values": values, "notes": notes}])
    _, text = page_of(results, "discovery")
    assert "33.20, 50.34, 20.35, 36.20 |" in text
    assert "(variant B, 20 initialisations)" in text
    tail = {"accuracy, head": 0.6, "accuracy, tail": 0.1, "picked over expected, tail": 1.5}
    finish(results, "cifar100-tail", {}, [{"task": "tail", "values": tail}])
    _, text = page_of(results, "cifar100_tail")
    assert "| random | 60.0 | 10.0 | 1.500 |" in text


def test_what_was_not_run_and_not_evaluated_is_said(results):
    row, text = page_of(results, "mini_imagenet")
    assert "not measured yet" in row
    assert "No run has finished yet" in text
    finish(results, "mini_imagenet", {})
    _, text = page_of(results, "mini_imagenet")
    assert "## Linear probes on the frozen features\n\nNot evaluated yet." in text


def test_ablations_are_paired_with_the_reference(results):
    finish(results, "cifar10", {})
    finish(results, "cifar10-window-5", {"ncal": -0.01})
    finish(results, "cifar10-query-5000", {"ncal": 0.01})
    finish(results, "cifar10-variants", {"ncal(fusion=rank)": 0.02})
    assert "7 of 13 changes are measured" in results.write_ablations()
    text = (results.PAGES / "ablations.md").read_text()
    assert "| `strong(epochs=120, checkpoints=5)` | 10,000 | 49.0 | 50.1 | -1.1 (-1.3 to -0.9) | 3 |" in text
    assert "| 5,000 labels a round | 6,000 |" in text, "the last budget that both have"
    assert "| ncal(fusion=rank) | 10,000 | 52.3 | 50.1 | +2.2 (+1.7 to +2.7) | 3 |" in text
