"""The noise study: real wrong labels (CIFAR-10N) as oracles and under audit, in slices of GPU time that add up.

    python3 benchmarks/noise_study.py run   --data ROOT --out DIR --minutes 9    as many trainings as fit
    python3 benchmarks/noise_study.py audit --data ROOT --out DIR --minutes 9    all 50,000 labels, worst and aggregate
    python3 benchmarks/noise_study.py cleanlab --data ROOT --out DIR             its rival, where that is installed
    python3 benchmarks/noise_study.py wrong --data ROOT --out DIR                how many of the labels learnt are wrong
    python3 benchmarks/noise_study.py status --out DIR                           what is done, what is missing
    python3 benchmarks/noise_study.py keep   --out DIR                           its journals into results/noise

ROOT holds cifar10 and cifar10n_labels.npz (row-aligned with it). The experiments:

* the three annotators of each image as the oracle, 2,000 to 12,000 answers by 2,500: random and ncal with single
  labels, ncal with three votes an item, ncal with our policy (learning the posterior behind its labels); with plain and
  with noise-tolerant training. `TRIED` are forms of our policy that came before (docs/log.md has how they differ): kept
  as they were measured, not to be run again;
* the same on seeds that nobody had seen when the policy got its last form, all of it in one process: single labels, our
  policy, and its posterior without the least share of second opinions;
* the worst label of each image (40.2 % wrong) as a single noisy oracle: random, margin, badge, ncal, and ncal with
  robust class means; with plain and with noise-tolerant training;
* the audit: how well wrong labels are found, by ours and by its rivals (`audit_scores`).

`ncalr report DIR/a DIR/b` makes one report of the experiments of one training; no GPU is needed for that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

from slices import Clock, keep, note, spent, status, train  # noqa: E402

from ncalr.data.dataset import Dataset, load  # noqa: E402
from ncalr.dynamics import aum  # noqa: E402
from ncalr.dynamics.scores import softmax  # noqa: E402
from ncalr.evaluate.audit import audit  # noqa: E402
from ncalr.evaluate.crossfit import crossfit_jobs, cut, gather  # noqa: E402
from ncalr.evaluate.ood_metrics import aupr_out, auroc  # noqa: E402
from ncalr.kernels import to_numpy  # noqa: E402
from ncalr.lab.experiment import Experiment  # noqa: E402
from ncalr.lab.noise import learnt, truth_of  # noqa: E402
from ncalr.lab.report import named_runs  # noqa: E402
from ncalr.lab.runner import Run  # noqa: E402
from ncalr.learn.learner import Job, Model  # noqa: E402

FILE = "cifar10n_labels.npz"
PEOPLE = f"annotators(file='{FILE}', labels=[random_label1, random_label2, random_label3])"
WORST = f"given(file='{FILE}', labels=worse_label)"
TRAININGS = {"plain": "strong(epochs=100)", "elr": "strong(epochs=100, loss=elr)"}
POLICIES = {
    "single": ("single", ("random", "ncal")),
    "votes": ("votes(n=3)", ("ncal",)),
    "ours": ("doubts(soft=True)", ("ncal",)),
}
FRESH = {"single": "single", "ours": "doubts(soft=True)", "soft": "doubts(soft=True, again=0)"}
TRIED = {  # how it was written then, and which form it was
    "posterior": ("doubts(method=bayes, soft=True)", "first form"),
    "bayes": ("doubts(method=bayes)", "first form"),
    "few": ("doubts(method=bayes, again=0.03)", "first form"),
    "fewsoft": ("doubts(method=bayes, soft=True, again=0.03)", "first form"),
    "judged": ("doubts(soft=True)", "second form"),
}
ALONE = ("random", "margin", "badge", "ncal", "ncal(means=trimmed)")

AUDITED = {"worst": "worse_label", "aggregate": "aggre_label"}
SEEDS = 3
STEP = 2_500
FOLDS = 3
LEAST = 1e-12


def plan() -> dict[str, Experiment]:
    """Every experiment, in the order in which they are wanted."""
    found = {}
    for training, recipe in TRAININGS.items():
        for name, (answers, strategies) in POLICIES.items():
            found[f"people-{name}-{training}"] = _experiment(strategies, recipe, PEOPLE, answers)
    worst = {f"worst-{training}": _experiment(ALONE, recipe, WORST, "single") for training, recipe in TRAININGS.items()}
    fresh = {
        f"fresh-{name}-{training}": replace(_experiment(("ncal",), recipe, PEOPLE, answers), first_seed=SEEDS)
        for training, recipe in TRAININGS.items()
        for name, answers in FRESH.items()
    }
    return found | worst | fresh


def tried() -> dict[str, Experiment]:
    """Earlier forms of our policy."""
    return {
        f"people-{name}-{training}": _experiment(("ncal",), recipe, PEOPLE, answers)
        for training, recipe in TRAININGS.items()
        for name, (answers, _) in TRIED.items()
    }


def runs_of(folder: Path, experiment: Experiment) -> list[Run]:
    """The runs of an experiment under the names that tables give them."""
    form = TRIED.get(folder.name.split("-")[1], ("", ""))[1]
    return [
        replace(run, strategy=", ".join(filter(None, [run.strategy, form]))) for run in named_runs(folder, experiment)
    ]


def _experiment(strategies: tuple[str, ...], recipe: str, noise: str, answers: str) -> Experiment:
    sizes = (SEEDS, 2_000, STEP, 12_000)
    return Experiment("cifar10", strategies, *sizes, "resnet18", recipe, noise, answers=answers)


# -- active learning ----------------------------------------------------------------------------------------------


def run(data: Path, out: Path, minutes: float, together: int, only: list[str], seeds: int = SEEDS) -> None:
    """Train until the slice is over: all experiments side by side, in their order, seed by seed."""
    first = {one.first_seed for one in plan().values()}
    wanted = {name: one for name, one in plan().items() if not only or name.startswith(tuple(only))}
    train(wanted, data, out, minutes, together, {start + seed for start in first for seed in range(seeds)})


def wrong(data: Path, out: Path) -> None:
    """How many of the labels that each training learnt are wrong: wrong.jsonl, a line a training."""
    lines: list[dict[str, Any]] = []
    truths: dict[str, Any] = {}
    for name, one in {**plan(), **tried()}.items():
        if not (out / name / "experiment.json").exists():
            continue
        if one.dataset not in truths:
            dataset = load(one.dataset, data)
            truths[one.dataset] = truth_of(dataset.pool, dataset.labels)
        for run in runs_of(out / name, one):
            here = {"experiment": name, "strategy": run.strategy, "seed": run.seed}
            lines += [here | row._asdict() for row in learnt(run, truths[one.dataset])]
    (out / "wrong.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


# -- the audit ----------------------------------------------------------------------------------------------------


PLAIN = "strong(epochs=30, opens=0.3, fallback=0.3)"
PARTS = {"ours": "strong(epochs=30, loss=elr)", "plain": PLAIN, "in sample": PLAIN}  # parts of the audit, their recipes


def audit_all(data: Path, out: Path, minutes: float, together: int) -> None:
    """Every set of labels with every seed, as far as the slice allows; a line for each score in audit.jsonl."""
    from ncalr.learn import TorchLearner

    clock, dataset, took = Clock(minutes), load("cifar10", data), 0.0
    labels = read_labels(data / FILE, dataset)
    out.mkdir(parents=True, exist_ok=True)
    for (seed, recipe), wanted in audit_parts(out).items():
        if clock.after(1.2 * took):
            print("the slice is over", flush=True)
            return
        began = time.perf_counter()
        learner = TorchLearner("resnet18", recipe, together=together, progress=False)
        jobs = [audit_jobs(part, dataset, labels[name], seed) for name, part in wanted]
        models = iter(learner.fit_all([job for some in jobs for job in some]))
        for (name, part), some in zip(wanted, jobs, strict=True):
            scores = audit_scores(part, [next(models) for _ in some], dataset, labels[name], seed)
            here = {"labels": name, "seed": seed, "part": part}
            if "probs" in scores:  # for cleanlab, where it is installed
                probs = scores.pop("probs").astype(np.float32)
                np.savez_compressed(out / f"probs-{name}-{seed}.npz", probs=probs, labels=labels[name])
            for score, doubt in scores.items():
                line = here | {"score": score, **found(doubt, labels[name], dataset)}
                _append(out / "audit.jsonl", line)
                print(
                    f"{name:<10}{seed}  {score:<42}{line['auroc']:>8.4f}{line['average precision']:>8.4f}", flush=True
                )
            _append(out / "audit.jsonl", here | {"done": True})
        took = time.perf_counter() - began
        note(out, spent(f"audit {seed} {recipe}", sum(map(len, jobs)), took, {"together": together}))


def audit_parts(out: Path) -> dict[tuple[int, str], list[tuple[str, str]]]:
    """What of the audit is not done yet, (labels, part) by (seed, recipe): what one learner trains side by side."""
    done = {(line["labels"], line["seed"], line["part"]) for line in _lines(out / "audit.jsonl") if line.get("done")}
    wanted: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for seed in range(SEEDS):
        for part, recipe in PARTS.items():
            for name in AUDITED:
                if (name, seed, part) not in done:
                    wanted.setdefault((seed, recipe), []).append((name, part))
    return wanted


def audit_jobs(part: str, dataset: Dataset, labels: Any, seed: int) -> list[Job]:
    """The trainings of a part of the audit."""
    pool, classes = dataset.pool, len(dataset.classes)
    if part == "in sample":
        return [Job(pool, pool.ids, labels, classes, seed=seed, needs=frozenset({"labelled_log"}), watch=[])]
    jobs = crossfit_jobs(pool, pool.ids, labels, classes, folds=FOLDS, seed=seed)
    return jobs if part == "ours" else jobs[:FOLDS]


def audit_scores(part: str, models: list[Model], dataset: Dataset, labels: Any, seed: int) -> dict[str, Any]:
    """Doubts (n,) about all labels, higher = more doubtful, by name.

    ours        cross-fitted with the noise-tolerant loss: the audit, each of its signs, and the rivals' formulas on the
                same probabilities, to tell what is due to the training
    plain       cross-fitted with cross-entropy, as most people would: confident learning's scores on the out-of-sample
                probabilities of the last checkpoint, by formula; and these probabilities themselves (n, c)
    in sample   one network on all labels with cross-entropy: AUM (Pleiss et al. 2020) over all checks, the loss at the
                end, and the mean loss before the terminal phase
    """
    if part == "in sample":
        return in_sample(models[0], labels)
    classes = len(dataset.classes)
    if part == "plain":
        probs = np.empty((len(labels), classes))
        fold = cut(labels, FOLDS, seed, dataset.pool.ids)
        for number, model in enumerate(models[:FOLDS]):
            probs[fold == number] = to_numpy(model.evidence()["sampled_probs"])[-1]
        probs /= probs.sum(axis=1, keepdims=True)
        return {**confident(probs, labels), "probs": probs}
    fitted = gather(models, dataset.pool.ids, labels, classes, folds=FOLDS, seed=seed)
    probs = np.exp(fitted.logits)
    judged = audit(fitted.features, labels, logits=fitted.logits, log=fitted.log, folds=fitted.folds)
    signs = {f"ours, {name} alone": judged.details[name] for name in ("confidence", "geometry", "dynamics")}
    on_ours = {f"{name}, on our probabilities": doubt for name, doubt in confident(probs, labels).items()}
    return {"ours": judged.wrong, **signs, **on_ours}


def confident(probs: Any, labels: Any) -> dict[str, Any]:
    """Confident learning's scores (Northcutt et al. 2021): self-confidence p_y, margin p_y - max of the others."""
    rows = np.arange(len(labels))
    own = probs[rows, labels]
    others = probs.copy()
    others[rows, labels] = -np.inf
    return {"self-confidence": 1 - own, "normalised margin": (1 - own + others.max(axis=1)) / 2}


def cleanlab(data: Path, out: Path) -> None:
    """cleanlab's own scores on the probabilities that the audit left in `out`, as further lines of audit.jsonl."""
    from cleanlab.rank import get_label_quality_scores

    dataset = load("cifar10", data)
    for path in sorted(out.glob("probs-*.npz")):
        _, name, seed = path.stem.split("-")
        with np.load(path) as arrays:
            probs, labels = arrays["probs"].astype(np.float64), arrays["labels"]
        for method in ("self_confidence", "normalized_margin"):
            adjusted = method == "normalized_margin"
            quality = get_label_quality_scores(labels, probs, method=method, adjust_pred_probs=adjusted)
            score = f"cleanlab, {method.replace('_', ' ')}{', adjusted' if adjusted else ''}"
            here = {"labels": name, "seed": int(seed), "part": "plain", "score": score}
            _append(out / "audit.jsonl", here | found(-quality, labels, dataset))


def in_sample(model: Any, labels: Any) -> dict[str, Any]:
    """What a training says about the labels that it was given."""
    log, record = model.evidence()["labelled_log"], model.record
    rows = np.arange(len(labels))
    losses = [-np.log(np.maximum(softmax(step)[rows, labels], LEAST)) for step in log]
    early = [at for at, check in enumerate(record.history) if check["epoch"] < record.began] or list(range(len(log)))
    return {
        "AUM": -aum(log, labels),
        "loss at the end": losses[-1],
        "mean loss, early": np.mean([losses[at] for at in early], axis=0),
    }


def found(doubt: Any, labels: Any, dataset: Dataset) -> dict[str, float]:
    """How well a score finds the wrong labels."""
    wrong = labels != dataset.labels
    right, other = -np.asarray(doubt, np.float64)[~wrong], -np.asarray(doubt, np.float64)[wrong]
    return {
        "wrong": float(wrong.mean()),
        "auroc": float(auroc(right, other)),
        "average precision": float(aupr_out(right, other)),
    }


def read_labels(path: Path, dataset: Dataset) -> dict[str, Any]:
    """The audited labels, after a look whether they are about these items in this order."""
    with np.load(path, allow_pickle=False) as arrays:
        if "clean_label" in arrays and not np.array_equal(arrays["clean_label"], dataset.labels):
            sys.exit(f"{path.name} is about other items than {dataset.name}, or in another order")
        return {name: arrays[key].astype(np.int64) for name, key in AUDITED.items()}


# -- what is there --------------------------------------------------------------------------------------------------


def table(out: Path) -> str:
    """The audit as Markdown: mean over the seeds, and their number."""
    lines = [line for line in _lines(out / "audit.jsonl") if "auroc" in line]
    rows = ["| labels | score | AUROC | average precision | seeds |", "| --- | --- | --- | --- | --- |"]
    for name, score in dict.fromkeys((line["labels"], line["score"]) for line in lines):
        mine = {line["seed"]: line for line in lines if (line["labels"], line["score"]) == (name, score)}
        cells = [_spread([line[key] for line in mine.values()]) for key in ("auroc", "average precision")]
        rows.append(f"| {name} | {score} | {cells[0]} | {cells[1]} | {len(mine)} |")
    return "\n".join(rows)


def _spread(values: list[float]) -> str:
    more = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{more}"


def audit_status(out: Path) -> None:
    """How far the audit is, and what it has found."""
    whole, missing = SEEDS * len(AUDITED) * len(PARTS), sum(map(len, audit_parts(out).values()))
    print(f"{'audit':<24}{whole - missing:>6} of {whole} parts")
    if (out / "audit.jsonl").exists():
        print(table(out))


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file; one that was torn will be made again."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(line).encode() + b"\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "audit", "cleanlab", "wrong", "status", "keep"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "noise")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--together", type=int, default=6)
    parser.add_argument("--only", action="append", default=[], help="experiments whose names begin so")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="the first so many of them")
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.data, arguments.out, arguments.minutes, arguments.together, arguments.only, arguments.seeds)
    elif arguments.what == "audit":
        audit_all(arguments.data, arguments.out, arguments.minutes, arguments.together)
    elif arguments.what == "cleanlab":
        cleanlab(arguments.data, arguments.out)
    elif arguments.what == "wrong":
        wrong(arguments.data, arguments.out)
    elif arguments.what == "keep":
        keep(arguments.out, ROOT / "results" / "noise")
    else:
        status(arguments.out, plan())
        audit_status(arguments.out)


if __name__ == "__main__":
    main()
