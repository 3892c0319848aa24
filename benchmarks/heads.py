"""Ready-made vectors: which model gives NCAL-R something to choose by.

python benchmarks/heads.py           measure, some ten minutes on one core: results/heads.json
python benchmarks/heads.py --write   write the table in docs/labelling.md again, from the JSON

The vectors are scikit-learn's digits (as pixels, and as 512 random features of them), its breast cancer, and Gaussian
classes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from marks import fill

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "results" / "heads.json"
LABELLING = ROOT / "docs" / "labelling.md"
START, STEP, END, CHOICES = 20, 20, 200, 5
MODELS = {"linear": "linear model", "head": "head of `ncalr suggest`"}
CHOSEN = ("random", "margin", "ncal")


def sets() -> Iterator[tuple[str, Any, Any]]:
    """Vectors and their classes."""
    from sklearn.datasets import load_breast_cancer, load_digits

    digits, cancer = load_digits(), load_breast_cancer()
    pixels = digits.data / 16
    features = np.maximum(pixels @ np.random.default_rng(5).normal(size=(64, 512)), 0)
    yield "digits, pixels", pixels, digits.target
    yield "digits, 512 random features", features, digits.target
    order = np.random.default_rng(0).permutation(len(pixels))[:300]
    yield "300 digits, pixels", pixels[order], digits.target[order]
    yield "300 digits, 512 random features", features[order], digits.target[order]
    yield "breast cancer", (cancer.data - cancer.data.mean(0)) / cancer.data.std(0), cancer.target
    for classes, items, size, apart in ((10, 600, 256, 0.55), (10, 2000, 256, 0.14), (50, 1500, 128, 0.35)):
        rng = np.random.default_rng(classes + items)
        centres, labels = rng.normal(size=(classes, size)) * apart, rng.integers(0, classes, items)
        name = f"{classes} Gaussian classes, {items:,} items, {apart:g} apart"
        yield name, centres[labels] + rng.normal(size=(items, size)), labels


def choices() -> Iterator[dict[str, Any]]:
    """The mean test accuracy from `START` to `END` labels, by model and strategy."""
    import ncalr
    from ncalr.data import ArrayPool
    from ncalr.learn import Job, needs_of
    from ncalr.web.models import Choice
    from ncalr.web.store.projects import Settings

    for name, vectors, truth in sets():
        if len(truth) < 500:  # too few for a test set and two hundred labels
            continue
        for seed in range(CHOICES):
            order = np.random.default_rng(seed).permutation(len(truth))
            rest, test = order[len(order) // 3 :], order[: len(order) // 3]
            pool, testing = (ArrayPool(vectors[some].astype(np.float32)) for some in (rest, test))
            labels = truth[rest]
            for model in MODELS:
                learner = Choice.of(Settings(), pool, embedded=model == "head").learner()
                for strategy in CHOSEN:
                    known = np.arange(START)
                    accuracies = []
                    while True:
                        others = np.setdiff1d(np.arange(len(rest)), known)
                        needs = needs_of(strategy) if strategy != "random" else frozenset[str]()
                        job = Job(
                            pool, known, labels[known], int(truth.max()) + 1, seed, len(accuracies), needs, others
                        )
                        fitted = learner.fit(job)
                        said = np.asarray(fitted.predict(testing)).argmax(axis=1)
                        accuracies.append(float((said == truth[test]).mean()))
                        if len(known) >= END:
                            break
                        evidence = (
                            {"ids": others} if strategy == "random" else {"ids": fitted.watched, **fitted.evidence()}
                        )
                        picks = ncalr.query(strategy, STEP, **evidence, seed=seed * 1000 + len(accuracies))
                        known = np.append(known, picks.ids)
                    yield {
                        "set": name,
                        "model": model,
                        "strategy": strategy,
                        "seed": seed,
                        "area": float(np.mean(accuracies)),
                    }


def write(path: Path = RESULT) -> None:
    """The tables in the docs."""
    from ncalr.lab.tables import markdown_table

    found = json.loads(path.read_text())
    rows = []
    for name in dict.fromkeys(one["set"] for one in found["choices"]):
        row = [name]
        for model in MODELS:
            areas = {
                strategy: np.array(
                    [
                        one["area"]
                        for one in found["choices"]
                        if (one["set"], one["model"], one["strategy"]) == (name, model, strategy)
                    ]
                )
                for strategy in CHOSEN
            }
            row.append(f"{100 * areas['random'].mean():.1f} %")
            row += [_apart(areas[strategy] - areas["random"]) for strategy in CHOSEN[1:]]
        rows.append(row)
    head = [
        f"{words}{', less random' * (strategy != 'random')}: {strategy}"
        for words in MODELS.values()
        for strategy in CHOSEN
    ]
    fill(
        LABELLING,
        "heads",
        f"{markdown_table(['vectors', *head], rows)}\nMean test accuracy from {START} to {END} labels, {STEP} a round; differences to random in points, with 95 % intervals over {CHOICES} seeds.",
    )


def _apart(differences: Any) -> str:
    """A mean difference in points and its interval."""
    from verdicts import signed

    from ncalr.lab.statistics import estimate

    return signed(estimate(differences))


def main() -> None:
    """Measure, or write again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        import torch

        torch.set_num_threads(1)
        found: dict[str, Any] = {"choices": []}
        for line in choices():
            print(line, flush=True)
            rounded = {key: round(one, 4) if isinstance(one, float) else one for key, one in line.items()}
            found["choices"].append(rounded)
        RESULT.write_text(json.dumps(found, indent=0) + "\n")
    write()


if __name__ == "__main__":
    main()
