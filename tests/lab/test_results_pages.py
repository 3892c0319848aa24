"""The pages of results from journals and evaluations that are made up: every part says what the numbers say."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncalr.lab.evaluations import VERSION
from ncalr.lab.runner import Run, pairs, slug
from ncalr.lab.statistics import Curves
from ncalr.loop.journal import Journal

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = module("results")
    for name in ("STUDY", "NOISE", "PAGES"):
        monkeypatch.setattr(found.journals, name, tmp_path / name)
        (tmp_path / name).mkdir()
    return found


def module(name):
    """One of those that write the pages."""
    return importlib.import_module(name)


def finish(results, name, better, evaluations=None):
    """All runs of an experiment, `better` by strategy above the others; each seed a little apart."""
    experiment = results.plan()[name]
    folder = results.journals.STUDY / name
    folder.mkdir()
    (folder / "experiment.json").write_text(json.dumps(experiment.as_dict()))
    for strategy, seed in pairs(experiment):
        run = folder / "runs" / slug(strategy, seed)
        run.mkdir(parents=True)
        gain = better.get(strategy, 0) * (1 + 0.1 * seed)
        lines = [
            {
                "round": number,
                "labelled": labels,
                "accuracy": 0.4 + labels / 1e5 + 0.001 * seed + gain * (labels > experiment.start),
                "began": 90,
                "redundancy": 0.9 - gain,
                "collapse": {"cma": 0.5},
                "separation": {"quantiles": [1.0, 2.0 + 2 * gain, 3.0], "norm": 2.0},
                "seconds": {"round": 0.5, "train": 60},
                "stop": "budget" if labels == experiment.end else "",
            }
            for number, labels in enumerate(experiment.budgets)
        ]
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if evaluations:
            said = [
                {
                    **line,
                    **evaluation,
                    "version": VERSION,
                    "values": {key: value + gain for key, value in evaluation["values"].items()},
                }
                for line in lines
                for evaluation in evaluations
            ]
            (run / "evaluations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))


def page_of(results, name):
    page = next(page for page in results.PAGES_OF if page.name == name)
    row = results.write_page(page)
    return row, (results.journals.PAGES / f"{name}.md").read_text()


def ood_line():
    values = {f"{score}, {group}, auroc": 0.7 for score in ("msp", "energy") for group in ("near", "far")}
    values["energy, far, auroc"] = 0.75
    return {"task": "ood", "values": values, "shown": list(values), "notes": []}


EVALUATIONS = (
    ood_line(),
    {"task": "probe", "values": {"cifar100(size=64), top1": 0.4, "cub200, top1": 0.2, "mean of top1": 0.3}},
    {"task": "calibration", "values": {"ece": 0.2, "nll": 2.5, "brier": 0.7, "aurc": 0.3}},
)


def test_a_page_with_every_part(results):
    finish(results, "mini_imagenet", {"ncal": 0.02, "margin": 0.01}, EVALUATIONS)
    slices = results.journals.STUDY / "slices.jsonl"
    slices.write_text(
        '{"experiment": "mini_imagenet", "trainings": 147, "seconds": 1470, "together": 6, "gpu": "H200"}\n'
    )
    row, text = page_of(results, "mini_imagenet")
    said = "Holds: ncal is above random, coreset and cdal. Of the others it is above margin and badge."
    assert row[4:] == [said, said], "by area, and at the end"
    assert "| random | +2.0 (+1.6 to +2.5) | 0.6 | 0.008 | above | +2.2 (+1.7 to +2.7) |" in text, "by area, at the end"
    assert "| margin | +1.0 (+0.8 to +1.2) | 0.3 | 0.005 | above | +1.1 (" in text
    assert "| the paper: ImageNet-100, presumably at 40 % |" in text
    assert (results.journals.PAGES / "mini_imagenet_forest.svg").exists()
    assert "147 trainings took 24.5 minutes of one H200, scoring included" in text
    with slices.open("a") as more:
        for seconds, images in ((70, 3_500_000), (150, 10_500_000), (50, 3_500_000)):
            facts = {"experiment": "mini_imagenet", "trainings": 3, "seconds": seconds, "images": images}
            more.write(json.dumps({**facts, "gpu": "H200"}) + "\n")
    found = module("curves_pages").spent(["mini_imagenet"])
    assert found.startswith("156 of 147 trainings, those whose time was noted, took 29.0 minutes")
    assert "The last large slice: 70,000 images a second, so 105 s for the 7 rounds of a run." in found, "84 epochs"
    assert module("curves_pages").spent(["cifar100"]) == ""
    ncal = next(line for line in text.splitlines() if line.startswith("| ncal |"))
    assert "| +1.0 (+0.8 to +1.2) to margin |" in ncal, "the best rival, and the difference to it"
    assert "| 72.11 | 3 | 11 | 0.50 | 74 |" in ncal, "the paper's figure, seeds, passes over the pool, seconds"
    assert "| random | 45.1 ± 0.2 | 47.6 ± 0.2 |" in text, "mean and interval at every budget"
    assert any(line.endswith("| 69.51 | 3 | 0 | 0.50 | 74 |") for line in text.splitlines() if "| random |" in line)
    assert (
        "By budget, with `energy`, at 20,000 labels the best of the scores on the mean over all strategies, ch" in text
    )
    assert "goes from 75.5 to 75.5; the paper's, on its set, from 77.2 to 89.5." in text
    assert "ncal against random +2.2 (+1.7 to +2.7)" in text
    assert "At equal accuracy of the classifiers, ncal against random: +" in text
    assert "| the paper, OpenImage-O: ncal | 77.18 | 82.49 | 85.55 | 87.89 | 89.15 | 90.53 | 91.53 |" in text
    assert "| random | 40.0 | 20.0 | 30.0 | 41.64, 58.69, 37.84, 42.34, 45.13 |" in text
    assert "43.78, 60.87, 40.01, 44.70, 47.34 |" in text
    assert (results.journals.PAGES / "mini_imagenet_separation.svg").exists()
    assert "| random | 2.000 | 1.000 | 0.500 | 0.500 | 15.114 |" in text
    assert f"**Verdict (raw distance).** {said} ncal against random +0.022" in text, "from the journals"
    assert "| random | 0.200 | 2.500 | 0.700 | 0.300 |" in text
    assert text.count("over these seeds: 0, 1 and 2.\n") == 4


def test_models_that_were_not_evaluated_are_told_and_seeds_are_not_mixed(results):
    finish(results, "mini_imagenet", {"ncal": 0.02}, EVALUATIONS)

    def forget(strategy, seed, task, labels):
        path = results.journals.STUDY / "mini_imagenet" / "runs" / slug(strategy, seed) / "evaluations.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        left = [line for line in lines if (line["task"], line["labelled"]) != (task, labels)]
        assert len(left) == len(lines) - 1
        path.write_text("".join(json.dumps(line) + "\n" for line in left))

    forget("coreset", 1, "ood", 7_500)
    for seed in range(3):
        forget("badge", seed, "ood", 10_000)
    forget("random", 0, "probe", 20_000)
    forget("ncal(fusion=rank)", 2, "probe", 20_000)
    _, text = page_of(results, "mini_imagenet")
    head = "| strategy | 5,000 (0, 1, 2) | 7,500 (0, 2) | 10,000 (0, 1, 2) |"
    assert text.count(head) == 2, "near and far"
    [row] = (line for line in text.splitlines() if line.startswith("| badge | 70.0 | 70.0 |  | 70.0 |"))
    assert len(row.split("|")) == 10, "as many cells as budgets, and none of a mean over other seeds"
    probes = text[text.index("## Linear probes") : text.index("## Separation")]
    assert "over these seeds: 1 and 2. Models that were evaluated, one a seed: random 2 of 3, margin 3 of 3," in probes
    assert "Not shown, for want of these seeds: ncal(fusion=rank)." in probes
    assert "| ncal(fusion=rank) |" not in probes
    assert "| ncal | 42.3 | 22.3 | 32.3 |" in probes, "of the seeds that random has too; too few for an interval"
    assert "Holds so far: ncal is above coreset and cdal; too early for random (2 of 3 seeds)." in probes
    assert "ncal against coreset +2.2 (+1.7 to +2.7)" in probes, "random has too few seeds"
    assert text.count("Models that were evaluated") == 1


def test_equal_accuracy_needs_no_rounds_but_those_around_it(results):
    finish(results, "mini_imagenet", {"ncal": 0.02}, EVALUATIONS)

    def said(labels):
        for path in results.journals.STUDY.glob("mini_imagenet/runs/*-1/evaluations.jsonl"):
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(line for line in lines if json.loads(line)["labelled"] not in labels))
        found = page_of(results, "mini_imagenet")[1]
        return "".join(found.partition("At equal accuracy")[1:]).partition("\n")[0]

    whole = said([])
    assert whole.startswith("At equal accuracy of the classifiers, ncal against random: +2.2 (+1.7 to +2.7), 3 seeds.")
    assert said([7_500, 10_000]) == whole
    assert said([17_500]) == "", "in one of the seeds ncal's accuracy lies between two that were not both evaluated"


def test_a_page_of_runs_that_have_begun(results):
    """What is there so far and of how many seeds, what faster recipes cost, and no verdict."""
    finish(results, "cifar100", {"ncal": 0.02})
    for name, gain in {"usual": 0.0, "batch-256": -0.01, "stop": -0.005}.items():
        finish(results, f"cifar100-trainer-{name}", {"random": gain})
    for run in results.read_runs(results.journals.STUDY / "cifar100"):
        path = run.journal.folder / "journal.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[: 3 if run.seed == 1 else 1]))
    row, text = page_of(results, "cifar100")
    assert row[:3] == ["[CIFAR-100, 5,000 to 22,500 labels](cifar100.md)", "a figure without numbers", "begun"]
    assert "Verdict" not in text
    assert "| strategy | 5,000 (3) | 7,500 (1) | 10,000 (1) |" in text
    assert "| random | 45.1 | 47.6 | 50.1 |" in text
    assert "| ncal | 45.1 | 49.8 | 52.3 |" in text
    lines = text.splitlines()
    faster = next(line for line in lines if line.startswith("| `strong(epochs=100, batch=256, rate=0.2)` |"))
    assert "| 100 | 45.1 (3) | +0.0 | 49.0 (3) | -1.1 (-1.3 to -0.9) |" in faster
    taken = next(line for line in lines if line.startswith("| `strong(epochs=100, stop=true)` |"))
    assert taken.endswith("| 84 | 45.1 (3) | +0.0 |  |  |"), "later labels of its runs are others"
    assert "with batches of 256: +0.0 at 5,000 labels; +0.5 (+0.4 to +0.7) at 10,000 labels." in text


def test_what_only_some_strategies_have_reached_is_not_shown(results):
    """One row would be a mean of other seeds than the next."""
    finish(results, "cifar100", {})
    for run in results.read_runs(results.journals.STUDY / "cifar100"):
        path = run.journal.folder / "journal.jsonl"
        kept = 3 - (run.strategy == "ncal") - (run.seed == 1)
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:kept]))
    assert "| strategy | 5,000 (3) | 7,500 (2) |" in page_of(results, "cifar100")[1]


def test_what_a_run_of_100_epochs_takes(results):
    slices = results.journals.STUDY / "slices.jsonl"
    noted = {"experiment": "cifar10-epochs-100", "seconds": 150, "images": 8250000, "together": 6, "gpu": "H200"}
    slices.write_text(json.dumps({**noted, "trainings": 12}) + "\n")
    assert module("curves_pages")._hundred_epochs() == ""
    finish(results, "cifar10-epochs-100", {})
    assert module("curves_pages")._hundred_epochs() == "", "18 of 30 trainings were not noted"
    slices.write_text(json.dumps({**noted, "trainings": 18}) + "\n" + slices.read_text())
    found = module("curves_pages")._hundred_epochs()
    assert "a run of 10 rounds comes to 100 s of the card" in found
    assert "By the journals (scoring, and training over the number of runs side by side) it is 105 s." in found


def test_the_plan_counts_the_epochs_that_a_training_has_and_a_shared_one_once(results, monkeypatch, tmp_path):
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(results, "ROOT", tmp_path)
    votes = replace(results.plan()["cifar10-window-30"], seeds=1, answers="votes(n=3)")
    monkeypatch.setattr(results, "noise", lambda: {"votes": votes})
    run = results.journals.NOISE / "votes" / "runs" / slug("ncal", 0)
    run.mkdir(parents=True)
    (results.journals.NOISE / "votes" / "experiment.json").write_text(json.dumps(votes.as_dict()))
    lines = [{"labelled": b // 3, "answers": b, "accuracy": 0.5, "began": 72} for b in votes.budgets]
    (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    slices = results.journals.STUDY / "slices.jsonl"
    facts = {"experiment": "cifar100", "trainings": 1, "seconds": 60, "images": 3600000, "together": 6, "gpu": "H200"}
    slices.write_text(json.dumps(facts) + "\n")
    finish(results, "cifar10-window-5", {})
    results.write_plan()
    rows = (tmp_path / "results" / "PLAN.md").read_text().splitlines()
    budgets = results.plan()["cifar100"].budgets
    minutes = 84 * 3 * (budgets[0] + 7 * sum(budgets[1:])) / 60_000 / 60
    assert f"| cifar100 | 7 | 3 | 0 | 168 | {minutes:.0f} |" in rows
    assert "| cifar10-window-5 | 1 | 3 | 30 | 0 | 0 |" in rows
    assert "| votes | 1 | 1 | 10 | 0 | 0 |" in rows, "with three answers a label"
    assert "trained again" not in "".join(rows)
    finish(results, "mini_imagenet-known", {})
    results.write_plan()
    again = 12 * 6_000 * (90 + 9) / 60_000 / 60  # the last model of each of 12 runs, that nobody evaluated
    text = (tmp_path / "results" / "PLAN.md").read_text()
    assert f"trained again for them (12 of mini_imagenet-known: {again:.0f} minutes)" in text


def test_no_gain_is_said_as_plainly(results):
    finish(results, "mini_imagenet", {"random": 0.02}, EVALUATIONS)
    row, text = page_of(results, "mini_imagenet")
    assert "Does not hold: ncal is below random, level with coreset and cdal." in row
    assert "**Verdict (near).** Does not hold: ncal is below random, level with coreset and cdal." in text
    assert "ncal against random -2.2" in text


def test_no_difference_at_all_is_no_gain(results):
    finish(results, "mini_imagenet", {}, EVALUATIONS)
    _, text = page_of(results, "mini_imagenet")
    level = "Does not hold: ncal is level with random, coreset and cdal."
    assert text.count(level) == 5
    assert f"**Verdict.** By area: d{level[1:]} At the end: d{level[1:]}\n" in text
    assert "| random | +0.0 (+0.0 to +0.0) |  | 1.000 | level | +0.0 |" in text
    assert "nan" not in text


def test_a_rival_above_is_named(results):
    finish(results, "mini_imagenet", {"ncal": 0.01, "badge": 0.02}, EVALUATIONS)
    row, text = page_of(results, "mini_imagenet")
    said = "Holds: ncal is above random, coreset and cdal. Of the others it is above margin, below badge."
    assert said in row, "badge is no rival of the claim"
    assert f"**Verdict.** By area: h{said[1:]} At the end: h{said[1:]}\n" in text
    assert f"**Verdict (mean).** {said} ncal against random +1.1" in text, "of the probes"


def test_a_page_says_how_far_the_networks_got_and_on_how_many_items(results):
    finish(results, "cifar100", {})
    facts = {"pool": {"items": 50_000}, "test": {"items": 10_000}}
    (results.journals.STUDY / "cifar100" / "data.json").write_text(json.dumps(facts))
    assert "terminal" not in page_of(results, "cifar100")[1], "journals that do not say it"
    experiment = results.plan()["cifar100"]
    for strategy, seed in pairs(experiment):
        path = results.journals.STUDY / "cifar100" / "runs" / slug(strategy, seed) / "journal.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            own = strategy == "ncal"
            line |= {"rule": "fallback", "began": 75 if own else 10, "flipping": 0.3 if own and seed else None}
            line["collapse"] = {"cma": 0.5, "accuracy": 0.9999 - 0.01 * seed if own else 0.5}
            line["collapse"]["nc1_quotient"] = line["labelled"] / 10_000 if own else 9.0
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, text = page_of(results, "cifar100")
    assert "50,000 items in the pool and 10,000 in the test set" in text
    said = text.partition("In ncal's ")[2].partition("\n")[0]
    assert said.startswith("24 trainings the network came to give at least 97.9 % of its items the label that it was")
    assert "(median 98.9)" in said, "rounded down: all would be more than was measured"
    assert "times 0.5 at 5,000 labels and 2.2 at 22,500 labels (tr" in said
    assert "began after epoch 75 of 84 in all of them; in it the prediction of 30 % of the unlabelled" in said


def test_wrong_labels_among_the_picks_are_compared_with_those_of_random_ones(results, monkeypatch):
    """What all began with is taken out: 2,000 labels, half of them wrong."""
    shares = {"random": 0.40, "margin": 0.45, "badge": 0.40, "ncal": 0.46}
    lines = [
        {
            "experiment": "worst-plain",
            "strategy": name,
            "seed": seed,
            "answers": answers,
            "items": answers,
            "wrong": 0.5
            if answers == 2_000
            else (1_000 + 10_000 * (share + 0.001 * seed * (name != "random"))) / 12_000,
        }
        for name, share in shares.items()
        for seed in range(3)
        for answers in (2_000, 12_000)
    ]
    (results.journals.NOISE / "wrong.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = module("wrong_labels").wrong_picks(["worst-plain"], "margin")
    assert found == pytest.approx({0: 0.45, 1: 0.451, 2: 0.452})
    begun = {**lines[0], "strategy": "margin", "seed": 3}
    (results.journals.NOISE / "wrong.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, begun]))
    assert module("wrong_labels").wrong_picks(["worst-plain"], "margin") == found, "not before it has ended"
    gains = {"random": 0.0, "margin": 0.02, "badge": 0.02, "ncal": 0.04}

    def run(name, gain, seed):
        first, last = (
            {"labelled": n, "answers": n, "accuracy": 0.5 + gain + 0.001 * seed * gain} for n in (2_000, 12_000)
        )
        return Run(name, seed, None, [first, {**last, "stop": "budget"}])

    runs = [run(name, gain, seed) for name, gain in gains.items() for seed in range(3)]
    monkeypatch.setattr(results, "noise_runs", lambda names: runs)
    amplified, mitigated = results._claims_of_noise("plain")
    assert "random 40.0 %, margin 45.1 %, badge 40.1 %, ncal 46.1 %" in amplified[1]
    assert "margin +5.1 (+4.9 to +5.3), badge +0.1 (" in amplified[1]
    assert amplified[3] == (
        "Holds in part: of the picks those of margin and ncal are wrong more often than random's; "
        "those of badge as often as random's."
    )
    assert mitigated[3] == "Holds: ncal is above random, margin and badge."
    assert results._claims_of_noise("elr") == [], "nothing was measured"


def test_sisome_is_compared_with_all_that_the_paper_has_above_it(results):
    finish(results, "cifar10", {"ncal": 0.02})
    assert results.claims_of_curves() == []
    finish(results, "cifar10-rest", {"sisome": -0.03})
    [row] = results.claims_of_curves()
    assert row[3] == "Holds: sisome is below random, coreset, cdal and ncal."
    assert "areas of sisome less random -3.1 (" in row[1]


def test_others_than_the_rivals_of_the_claim_are_corrected_among_themselves(results):
    """Of four looked at one is below by chance: 2 % alone, 8 % after correction."""
    own = {0: 0.500, 1: 0.511, 2: 0.522, 3: 0.530}
    lower = {seed: value - 0.02 - 0.0001 * seed for seed, value in own.items()}
    spread = dict(zip(own, (0.006, 0.012, 0.005, 0.016), strict=True))
    others = {"margin": {seed: value + spread[seed] for seed, value in own.items()}}
    alone = {"ncal": own, **dict.fromkeys(("random", "coreset", "cdal"), lower), **others}
    assert results.verdict(alone)[0].endswith("Of the others it is below margin (by less than a point).")
    apart = {seed: value + 0.03 * (seed - 1.5) for seed, value in own.items()}
    short, found = results.verdict({**alone, **dict.fromkeys(("badge", "entropy", "ff"), apart)})
    assert short == "Holds: ncal is above random, coreset and cdal."
    assert found["margin"][1] == "not told apart from"


def test_a_difference_of_less_than_a_point_is_told_as_that(results):
    own = {0: 0.50, 1: 0.51, 2: 0.52}
    little = {seed: value - 0.004 - 0.0001 * seed for seed, value in own.items()}
    much = {seed: value - 0.02 - 0.001 * seed for seed, value in own.items()}
    short, _ = results.verdict({"ncal": own, "random": much, "coreset": little, "cdal": little})
    assert short == ("Holds: ncal is above random, coreset (by less than a point) and cdal (by less than a point).")
    more = {seed: 2 * value - less for (seed, value), less in zip(own.items(), little.values(), strict=True)}
    short, _ = results.verdict({"ncal": own, "random": much, "coreset": more, "cdal": more})
    assert short == "Does not hold: ncal is above random, below coreset and cdal (each by less than a point)."


def test_a_claim_does_not_hold_where_one_rival_is_better_and_holds_in_part_where_none_is(results):
    finish(results, "mini_imagenet", {"ncal": 0.01, "cdal": 0.02})
    row, _ = page_of(results, "mini_imagenet")
    others = "Of the others it is above margin and badge."
    assert f"Does not hold: ncal is above random and coreset, below cdal. {others}" in row
    finish(results, "cifar100", {"ncal": 0.01, "cdal": 0.01})
    row, _ = page_of(results, "cifar100")
    assert f"Holds in part: ncal is above random and coreset, level with cdal. {others}" in row


def test_one_rival_within_a_point_is_no_finding_against_a_claim(results):
    own = {0: 0.50, 1: 0.51, 2: 0.52}
    far = {0: 0.50, 1: 0.52, 2: 0.54}
    short, _ = results.verdict({"ncal": own, "random": far, "coreset": far, "cdal": own})
    assert short == "Could not be shown here: ncal is level with cdal, not told apart from random and coreset."
    lengths = {name: {seed: 20 * value for seed, value in seeds.items()} for name, seeds in (("ncal", own),)}
    near = {seed: value * (1 + 0.001 * (seed - 1)) for seed, value in lengths["ncal"].items()}
    rivals = dict.fromkeys(("random", "coreset", "cdal"), near)
    assert results.verdict({**lengths, **rivals}, 1)[0].startswith("Does not hold: ncal is level with random,")
    wide = {seed: value * (1 + 0.01 * (seed - 1)) for seed, value in lengths["ncal"].items()}
    rivals = dict.fromkeys(rivals, wide)
    assert results.verdict({**lengths, **rivals}, 1)[0].startswith("Could not be shown here: ncal is not told apart")


def test_models_that_were_trained_again_are_told_once(results):
    evaluations = [{**one, "notes": [], "journal": 0.4} for one in EVALUATIONS]
    finish(results, "mini_imagenet", {}, evaluations)
    _, text = page_of(results, "mini_imagenet")
    assert (
        text.count("over these seeds: 0, 1 and 2. 147 of 147 models were trained again; in accuracy they are +5.0") == 3
    )
    assert "+20.2 points from the first ones, +12.6 on average.\n" in text


def test_strategies_with_too_few_seeds_wait(results):
    finish(results, "cifar10", {"ncal": 0.01})
    finish(results, "cifar10-rest", {"entropy": 0.05})
    for seed in (1, 2):
        (results.journals.STUDY / "cifar10-rest" / "runs" / f"entropy-{seed}" / "journal.jsonl").unlink()
    row, text = page_of(results, "cifar10")
    assert "Not shown, since too few of their seeds are finished (their number in brackets): entropy (1)." in text
    assert "| entropy |" not in text
    assert "to entropy" not in text, "it is nobody's best rival yet"
    assert "| sisome |" in text
    assert row[4].startswith(
        "Holds: ncal is above random, coreset and cdal. Of the others it is above margin, badge, s"
    )
    assert (results.journals.PAGES / "cifar10_differences.svg").read_text().count("<svg") == 1


def test_a_rival_of_the_claim_that_has_only_begun_is_named(results):
    finish(results, "mini_imagenet-tail", {"ncal": 0.01})
    for strategy in ("cdal", "ncal(counts=neutral)"):
        for seed in range(3):
            journal = results.journals.STUDY / "mini_imagenet-tail" / "runs" / slug(strategy, seed) / "journal.jsonl"
            journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    row, text = page_of(results, "mini_imagenet_tail")
    assert row[4].startswith(
        "Holds so far: ncal is above random and coreset (each by less than a point); too early for c"
    )
    assert "| coreset | +1.0 (" in text, "what can be compared is"
    assert (results.journals.PAGES / "mini_imagenet_tail_forest.svg").exists()
    assert "Not shown, since too few of their seeds are finished (their number in brackets): cdal (0), ncal(" in text
    assert "| cdal |" not in text


def test_others_are_not_compared_before_ncal_has_as_many_seeds(results):
    finish(results, "cifar100", {"ncal": 0.01})
    page_of(results, "cifar100")
    assert list(results.journals.PAGES.glob("cifar100_*.svg"))
    for seed in (1, 2):
        journal = results.journals.STUDY / "cifar100" / "runs" / slug("ncal", seed) / "journal.jsonl"
        journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    row, text = page_of(results, "cifar100")
    assert row[1:] == ["a figure without numbers", "begun", "", "", ""]
    assert "runs have finished, too few of ncal" in text
    assert "p (Holm)" not in text
    assert not list(results.journals.PAGES.glob("cifar100_*.svg")), "those of a page that is no more"


def test_what_the_same_training_differs_by_is_said(results):
    finish(results, "cifar10", {"ncal": 0.05})
    assert "points apart" not in page_of(results, "cifar10")[1]
    journal = results.journals.STUDY / "cifar10" / "runs" / slug("margin", 1) / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[0]["accuracy"] += 0.013
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "the same training came out up to 1.3 points apart" in page_of(results, "cifar10")[1]


def test_the_readme_has_what_is_measured(results, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "README", tmp_path / "README.md")
    monkeypatch.setattr(results, "noise_summary", lambda: "noise")
    mark = "<!-- {}: made by make results -->\nstale\n<!-- end -->\n"
    names = ("study", "wrong labels")
    results.README.write_text("a\n" + "b\n".join(mark.format(name) for name in names) + "c\n")
    finish(results, "cifar100", {"ncal": 0.01})
    claims = [["It is faster", "a second", "0.5", "Does not hold."]]
    together = "[All](together.md): nothing"
    results.write_readme([results.write_page(page) for page in results.PAGES_OF], together, claims)
    text = results.README.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| [CIFAR-100, 5,000 to 22,500 labels](docs/res"))
    assert "(docs/results/cifar100.md) | a figure without numbers | 63.7 % (63.2 to 64.2) | 62.6 % (62.4 to 6" in row
    assert "| Holds: ncal is above random, coreset and cdal." in row
    assert "| random | 1 | 0 | 0 | 0 |\n| coreset | 1 | 0 | 0 | 0 |" in text
    assert "\n[All](docs/results/together.md): nothing\n" in text
    assert "| the paper also says | here | could have been shown |" in text
    assert "| It is faster | Does not hold. | 0.5 |" in text
    assert f"Not measured yet: {len(results.PAGES_OF) - 1} of the study's experiments." in text
    assert text.endswith("<!-- wrong labels: made by make results -->\nnoise\n<!-- end -->\nc\n")
    assert "stale" not in text


def test_discovery_and_tail(results):
    values = {"all": 0.33, "old": 0.5, "new": 0.2}
    notes = ["variant B", "20 initialisations"]
    finish(results, "mini_imagenet-known", {"ncal": 0.02}, [{"task": "discovery", "values": values, "notes": notes}])
    _, text = page_of(results, "discovery")
    assert "33.20, 50.34, 20.35, 36.20 |" in text
    assert "(variant B; 20 initialisations)" in text
    for value in ("all", "old", "new"):
        assert f"**Verdict ({value}).** Holds: ncal is above random, coreset and cdal. ncal against random +2.2" in text
    tail = {"accuracy, head": 0.6, "accuracy, tail": 0.1, "picked over expected, tail": 1.5}
    finish(results, "cifar100-tail", {}, [{"task": "tail", "values": tail}])
    _, text = page_of(results, "cifar100_tail")
    assert "| random | 60.0 | 10.0 | 1.500 |" in text


def test_what_the_paper_says_of_evaluations_has_a_verdict_of_its_own(results):
    finish(results, "mini_imagenet", {"ncal": 0.02}, EVALUATIONS)
    rows = results.claims_of_evaluations()
    assert [measured.split("`")[1] for _, measured, _, _ in rows] == ["energy, far, auroc", "mean of top1", "distance"]
    assert (
        "](mini_imagenet.md): `mean of top1` at 20,000 labels, ncal against random +2.2 (+1.7 to +2.7), c" in rows[1][1]
    )
    said = "Holds: ncal is above random, coreset and cdal. Of the others it is above margin and badge."
    assert {short for *_, short in rows} == {said}
    assert rows[1][2] == "0.7", "what could have been shown"
    for path in results.journals.STUDY.glob("mini_imagenet/runs/*-[12]/evaluations.jsonl"):
        path.unlink()
    assert results.claims_of_evaluations() == rows[2:], "of one seed nothing is said; journals have the distances"


def test_what_was_not_run_and_not_evaluated_is_said(results):
    row, text = page_of(results, "mini_imagenet")
    assert row[2] == "not measured yet"
    assert "No run has finished yet" in text
    finish(results, "mini_imagenet", {})
    _, text = page_of(results, "mini_imagenet")
    assert "## Linear probes on the frozen features\n\nNot evaluated yet." in text


def test_ablations_are_paired_with_the_reference(results):
    finish(results, "cifar10", {})
    finish(results, "cifar10-window-5", {"ncal": -0.01})
    finish(results, "cifar10-query-5000", {"ncal": 0.01})
    finish(results, "cifar10-variants", {"ncal(fusion=rank)": 0.02})
    finish(results, "digits", {})
    finish(results, "digits-query-80", {"ncal": 0.01})
    line = results.write_ablations()
    assert "8 of 52 changes are measured with three seeds or more" in line
    above = "ncal(fusion=rank), 5,000 labels a round (cifar10), 80 labels a round (digits)"
    assert f"Above ncal as it is: {above}; below ncal as it is: `strong(epochs=120, checkpoints=5)` (cifar10)." in line
    text = (results.journals.PAGES / "ablations.md").read_text()
    assert "| 80 labels a round | 200 | 42.1 | 40.7 |" in text, "against the reference of its own set"
    changed = "| `strong(epochs=120, checkpoints=5)` | 10,000 | 49.0 | 50.1 |"
    assert f"{changed} -1.0 (-1.3 to -0.8) | -1.1 (-1.3 to -0.9) | 0.3 | 0.019 | 3 | below | 6 |" in text
    assert "| 5,000 labels a round | 6,000 |" in text, "the last budget that both have"
    better = "| +2.1 (+1.6 to +2.5) | +2.2 (+1.7 to +2.7) | 0.6 | 0.019 | 3 | above | 11 |"
    assert f"| ncal(fusion=rank) | 10,000 | 52.3 | 50.1 {better}" in text
    for seed in (1, 2):
        (results.journals.STUDY / "cifar10-window-5" / "runs" / slug("ncal", seed) / "journal.jsonl").unlink()
    assert "7 of 52 changes are measured with three seeds or more" in results.write_ablations()
    assert "|  | 1 | too early | 6 |" in (results.journals.PAGES / "ablations.md").read_text()


def test_an_ablation_has_its_costs_where_it_ran_on_a_card(results):
    finish(results, "cifar10", {})
    finish(results, "cifar10-variants", {})
    facts = [{"experiment": name, "trainings": 9, "gpu": "H200"} for name in ("cifar10", "cifar10-variants")]
    lines = [json.dumps({**facts[0], "together": 6}), json.dumps({**facts[1], "together": 3})]
    (results.journals.STUDY / "slices.jsonl").write_text("\n".join(lines))
    results.write_ablations()
    text = (results.journals.PAGES / "ablations.md").read_text()
    assert "1,000 labels a round, 11 passes over the pool a round, 105 GPU s a run.\n" in text
    assert "| ncal so changed is | passes over the pool a round | GPU s a run |" in text
    assert "| 3 | level | 11 | 205 |" in text, "ten rounds of half a second, and 600 s of training, three at a time"
    finish(results, "cifar10-window-5", {})
    results.write_ablations()
    text = (results.journals.PAGES / "ablations.md").read_text()
    assert "| passes over the pool a round |\n" in text, "the time of one was not noted"
    assert "| 3 | level | 11 |\n" in text


def test_what_stands_out_among_many_changes_is_corrected_for_all_of_them(results):
    finish(results, "digits", {})
    finish(results, "digits-variants", {})
    chance = {0: 0.02, 1: 0.002, 2: 0.012, 3: 0.004, 4: -0.006, 5: 0.014, 6: 0.016, 7: -0.004, 8: 0.01, 9: 0.012}
    for seed, more in chance.items():  # 5 % alone, and no longer among five
        path = (
            results.journals.STUDY / "digits-variants" / "runs" / slug("ncal(select=filtered)", seed) / "journal.jsonl"
        )
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**one, "accuracy": one["accuracy"] + more}) + "\n" for one in lines))
    line = results.write_ablations()
    text = (results.journals.PAGES / "ablations.md").read_text()
    assert "None can be told from ncal as it is." in line
    [row] = (one for one in text.splitlines() if one.startswith("| ncal(select=filtered)"))
    assert "+0.8 (+0.2 to +1.4)" in row
    assert row.endswith("| 10 | not told apart | 11 |")
    assert "seeds that nobody had seen" not in text


def test_a_lead_is_asked_again_on_fresh_seeds(results):
    finish(results, "digits-fresh", {"ncal(select=filtered)": 0.02})  # 0.06 on average
    results.write_ablations()
    text = (results.journals.PAGES / "ablations.md").read_text()
    assert "with 20 other seeds: +" in text
    assert "ncal so changed is above." in text
    assert "to the nearest other one): 0.90 with ncal, 0.84 so changed." in text
    run = results.journals.STUDY / "digits-fresh" / "runs" / slug("ncal", 12) / "journal.jsonl"
    run.unlink()
    results.write_ablations()
    assert "other seeds" not in (results.journals.PAGES / "ablations.md").read_text(), "not before all have ended"


def test_another_recipe_is_no_chance(results):
    finish(results, "digits", {})
    finish(results, "digits-epochs-20", {})
    journal = results.journals.STUDY / "digits-epochs-20" / "runs" / slug("ncal", 0) / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"accuracy": 0.4004', '"accuracy": 0.2'))
    results.write_ablations()
    assert "the same training came out" not in (results.journals.PAGES / "ablations.md").read_text()
    finish(results, "digits-query-80", {})
    journal = results.journals.STUDY / "digits-query-80" / "runs" / slug("ncal", 0) / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"accuracy": 0.4004', '"accuracy": 0.39'))
    results.write_ablations()
    assert "came out up to 1.0 points apart" in " ".join((results.journals.PAGES / "ablations.md").read_text().split())


def test_a_difference_within_chance_is_not_told_apart_and_few_seeds_are_not_compared(results):
    own = {0: 0.50, 1: 0.51, 2: 0.52}
    values = {
        "ncal": own,
        "random": {seed: value - 0.02 - 0.001 * seed for seed, value in own.items()},
        "coreset": {0: 0.50, 1: 0.50, 2: 0.50},  # above by a point in the mean, within chance
        "cdal": {0: 0.50, 1: 0.52, 2: 0.54},  # below by a point, within chance
        "badge": {0: 0.30, 1: 0.30},
        "ncal(sign=-1)": own,
    }
    short, gaps = results.verdict(values)
    assert short == "Holds in part: ncal is above random, not told apart from coreset and cdal."
    assert [*gaps] == ["random", "coreset", "cdal"], "badge has too few seeds"
    assert [results.gap(one) for one, _ in gaps.values()][:2] == ["+2.1 (+1.9 to +2.3)", "+1.0 (-1.5 to +3.5)"]
    values["margin"] = {seed: value + 0.001 * (seed - 1) for seed, value in own.items()}
    assert results.verdict(values)[1]["margin"][1] == "level with", "within a point, either way"
    values["entropy"] = {seed: value + 0.01 * (seed + 1) for seed, value in own.items()}
    assert results.verdict(values)[1]["entropy"][1] == "not told apart from", "perhaps below by four points"
    del values["cdal"][2]
    said = "ncal is above random, not told apart from coreset; too early for cdal (2 of 3 seeds)."
    assert results.verdict(values)[0] == f"Holds in part: {said}"
    one = {"ncal": own, "random": values["random"]}
    short, gaps = results.verdict(one)
    assert short == (
        "Holds so far: ncal is above random; too early for coreset (0 of 3 seeds) and cdal (0 of 3 seeds)."
    )
    assert [*gaps] == ["random"]
    assert results.verdict({**one, "random": own})[0].startswith("Does not hold so far: ncal is level with random;")
    apart = {seed: value + 0.04 * (seed - 1) for seed, value in own.items()}
    assert results.verdict({**one, "random": apart})[0].startswith(
        "Could not be shown here so far: ncal is not told apart from random;"
    )
    early = "Too early for random (2 of 3 seeds), coreset (0 of 3 seeds) and cdal (0 of 3 seeds)."
    assert results.verdict({"ncal": own, "random": {1: 0.5, 2: 0.5}}) == (early, {})


def policies(gain: float, spread: float = 0.001):
    """Accuracies of three seeds: our policy is `gain` above single answers from the second budget on."""
    seeds = np.array([[0.0], [0.01], [-0.01]])
    single = 0.5 + 0.1 * np.arange(3) + seeds
    apart = gain * np.array([0, 1, 1]) + spread * np.array([[1], [0], [-1]]) * np.array([0, 1, -1])
    rows = {"random": single - 0.03 + seeds / 5, "ncal": single, "ncal, doubts(soft=True)": single + apart}
    return Curves(np.array([100.0, 200, 300]), rows)


def test_the_verdict_on_wrong_labels_is_by_area(results):
    said = module("wrong_labels")._noise_verdict(policies(0.02), "cross-entropy")
    assert said.startswith("With cross-entropy: our policy is above ncal with one answer an item by area, +1.5 (")
    assert ", at the end +2.0 (" in said
    assert "above at 200, 300; ncal is above random by area, +3.0 (" in said
    assert "level with ncal" in module("wrong_labels")._noise_verdict(policies(0.0), "elr")
    assert "is not told apart from ncal" in module("wrong_labels")._noise_verdict(policies(0.0, 0.02), "elr")
    few = Curves(np.array([1.0]), {"random": [[0.5], [0.6]], "ncal": [[0.5], [0.6]]})
    assert module("wrong_labels")._noise_verdict(few, "elr") == "Too early: not every row has three seeds."


def test_second_opinions_are_counted_and_other_processes_told(results, tmp_path):
    def run(strategy, first, news):
        lines = [{"round": 0, "ids": [1, 2], "labels": [0, 1]}]
        for at, new in enumerate(news):
            lines.append({"answers": 100 * (at + 1), "labelled": 1, "accuracy": first + at / 10, "ids": [0] * new})
        return Run(strategy, 0, Journal(tmp_path / strategy), lines)

    runs = [run("ncal", 0.5, (100, 100, 0)), run("ncal, doubts(soft=True)", 0.48, (90, 80, 0))]
    said = module("wrong_labels")._asked_again(runs)
    assert "Second opinions: 10 of a round's 2,500 answers" in said
    assert "in 1 of 2 rounds, and at most 20;" in said
    assert module("wrong_labels")._asked_again(runs[:1]) == ""
    curves = policies(0.02)
    assert "at 100 answers both have learnt the same labels" in module("wrong_labels")._same_labels(curves, runs)
    assert module("wrong_labels")._same_labels(curves, [runs[0], run("ncal, doubts(soft=True)", 0.5, (90,))]) == ""


def test_what_was_trained_on_a_processor_is_not_counted_as_gpu_time(results, tmp_path, monkeypatch):
    finish(results, "digits", {"ncal": 0.02})
    slices = results.journals.STUDY / "slices.jsonl"
    facts = {"experiment": "digits", "trainings": 90, "seconds": 600, "images": 1000, "together": 1, "gpu": ""}
    card = {"experiment": "cifar10", "trainings": 2, "seconds": 60, "images": 3_600_000, "together": 6, "gpu": "H200"}
    slices.write_text(json.dumps(facts) + "\n" + json.dumps(card) + "\n")
    _, text = page_of(results, "digits")
    assert "Network `resnet8`, recipe `digits`" in text
    assert "took 10.0 minutes by the clock on one core" in text
    assert "GPU" not in text
    assert results.write_speed().startswith("2 trainings whose time was noted took 1.0 GPU minutes")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / "results").mkdir()
    results.write_plan()
    assert "at 60,000 a second" in (tmp_path / "results" / "PLAN.md").read_text()


SETS = ("cifar10", "cifar100", "mini_imagenet", "cifar100-tail", "digits", "digits-tail", "sst2")


def together(results):
    row = results.write_together(
        results.journals.STUDY, results.journals.PAGES, {name: name.replace("-", "_") for name in results.plan()}
    )
    page = results.journals.PAGES / "together.md"
    return row, page.read_text() if page.exists() else ""


def test_all_data_sets_together(results):
    for name in (*SETS[:3], "digits-wrong"):
        finish(results, name, {"ncal": 0.02, "cdal": 0.01})
    assert together(results) == ("", ""), "four are too few"
    for name in SETS[3:]:
        finish(results, name, {"ncal": 0.02, "cdal": 0.01})
    row, text = together(results)
    said = (
        "holds: over 7 data sets (from 5 sources) ncal is above random, coreset and cdal. With each source once p is "
        "0.062 for random, 0.062 for coreset and 0.062 for cdal; 5 sources can give no less than 0.062. It has the "
        "best average rank, 1.00."
    )
    assert row == f"[All data sets together](together.md): {said}"
    assert "6 strategies on 7 data sets in 8 experiments" in text
    assert "| [cifar10](cifar10.md), 3 seeds | 47.7 +2.1 (+1.6 to +2.5) | 45.6 | 45.6 +0.0" in text
    assert "| average rank | 1.00 | 4.50 | 4.50 | 4.50 | 4.50 | 2.00 |" in text, "ncal first, four that are equal"
    assert "| cdal | +1." in text
    assert "| 7, 0, 0 | 0.016 | 0.047 |" in text
    assert "| ncal | +2.1 | 11 |\n| cdal | +1.0 | 1 |" in text, "the median of what is above random, and the passes"
    assert "| [cifar10](cifar10.md) | 0.878 | 0.900 |" in text, "how alike the picks are"
    assert "With each of the 5 sources once (mean of its areas), ncal less random +2." in text
    assert "better on 5 of 5, p 0.062, coreset" in text
    assert "the least p that 5 can give is 0.062." in text
    assert (results.journals.PAGES / "together_gaps.svg").read_text().startswith("<svg")


def test_who_has_the_best_rank_is_told_whoever_it_is(results):
    for at, name in enumerate(SETS):
        finish(results, name, {"cdal": 0.03, "margin": 0.02, "badge": 0.01, "ncal": -0.01 - 0.001 * at})
    row, _ = together(results)
    assert "does not hold: over 7 data sets (from 5 sources) ncal is below random, coreset and cdal." in row
    assert "cdal has the best average rank, 1.00; ncal has 6.00, told apart from it by Nemenyi's test." in row
    run = results.journals.STUDY / "sst2" / "runs" / slug("badge", 3) / "journal.jsonl"
    run.write_text("".join(run.read_text().splitlines(keepends=True)[:-1]))
    assert "over 7 data sets" in together(results)[0], "nine seeds of ten are enough"
    for seed in range(8):
        run = results.journals.STUDY / "sst2" / "runs" / slug("badge", seed) / "journal.jsonl"
        run.write_text("".join(run.read_text().splitlines(keepends=True)[:-1]))
    assert (
        "over 6 data sets (from 4 sources) ncal is not told apart from random, coreset and cdal" in together(results)[0]
    )


def test_picks_that_are_spread_out_are_told_when_all_have_run(results, monkeypatch):
    for name in ("digits", "cifar10"):
        finish(results, name, {"ncal": 0.01})
    filtered, predicted = module("study").SPREAD
    finish(results, "digits-spread", {filtered: 0.01, "cdal": 0.02})
    families, holm = [], module("verdicts").holm
    monkeypatch.setattr(module("verdicts"), "holm", lambda p: (families.append(len(p)), holm(p))[1])
    text = spread_part(results)
    assert "corrected by Holm's method for the 8 comparisons" in text
    assert families[-1] == 8, "those that have not run among them"
    row = next(line for line in text.splitlines() if line.startswith(f"| digits | {filtered} |"))
    assert row.endswith("| 20 | 0.850 | 0.900 | 0 to 4 | above |"), "alike: 0.9 less what it gains"
    assert "| < 0.001 |" in row
    assert "| 1.000 | 20 | 0.900 | 0.900 | 0 to 4 | level |" in next(
        line for line in text.splitlines() if predicted in line
    )
    finish(results, "digits-wrong-spread", {filtered: 0.02})
    run = results.journals.STUDY / "digits-wrong-spread" / "runs" / slug("ncal", 41) / "journal.jsonl"
    run.write_text("".join(run.read_text().splitlines(keepends=True)[:-1]))
    assert "digits-wrong" not in spread_part(results), "nothing is read before all have run"
    assert f"on fresh seeds: {filtered} (digits) is above." in results.write_ablations()


def test_how_alike_picks_are_is_compared_over_the_same_rounds(results, tmp_path):
    """The second round's are more alike whoever picks: a strategy that has the first alone is no better by that."""

    def run(strategy, figures, seed=0):
        lines = [{"round": at, "redundancy": one} for at, one in enumerate(figures, 1)]
        return Run(strategy, seed, Journal(tmp_path / strategy), [{"round": 0}, *lines])

    rows = {"ncal": [run("ncal", (0.5, 0.9)), run("ncal", (0.7, 0.9), 1)], "cdal": [run("cdal", (0.6,))], "ff": []}
    assert module("beyond").alike(rows) == ({"ncal": "0.500", "cdal": "0.600", "ff": ""}, "1")
    del rows["cdal"]
    assert module("beyond").alike(rows, 2) == ({"ncal": "0.75", "ff": ""}, "1 to 2")
    assert module("beyond").alike({"ff": []}) == ({"ff": ""}, "")


def spread_part(results):
    results.write_ablations()
    return (results.journals.PAGES / "ablations.md").read_text().partition("## Picks that are spread out")[2]
