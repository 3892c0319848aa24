"""Digits on two cores: 300 labels, ResNet-8, to the terminal phase; time, collapse, flips, over five seeds.

python benchmarks/collapse_digits.py          results/collapse_digits.json and docs/pictures/collapse_digits.svg
python benchmarks/collapse_digits.py --draw   the picture again, and its sentence in docs/learning.md, from the JSON
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from marks import fill

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "results" / "collapse_digits.json"
PICTURE = ROOT / "docs" / "pictures" / "collapse_digits.svg"
SEEDS = 5


def measure() -> None:
    """Train once for each seed."""
    import torch
    from sklearn.datasets import load_digits

    from ncalr.data import ArrayPool
    from ncalr.learn import Job, TorchLearner, needs_of

    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target
    runs: list[dict[str, Any]] = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(labels))
        train, test = order[:1297], order[1297:]
        pool = ArrayPool(images[train])
        start = time.perf_counter()
        learner = TorchLearner("resnet8", "digits", device="cpu", progress=False)
        model = learner.fit(Job(pool, np.arange(300), labels[train][:300], 10, seed=seed, needs=needs_of("ncal")))
        seconds = time.perf_counter() - start
        accuracy = float((model.predict(ArrayPool(images[test])).argmax(1) == labels[test]).mean())
        runs.append({"seed": seed, "seconds": seconds, "test_accuracy": accuracy, "record": model.record.as_dict()})
        print(f"seed {seed}: {seconds:.1f} s, test {accuracy:.3f}, FF > 0 in {model.record.flipping:.1%} of the pool")
    machine = {"torch": torch.__version__, "threads": torch.get_num_threads(), "python": platform.python_version()}
    RESULT.write_text(json.dumps({"machine": machine, "runs": runs}, indent=1))


def write() -> None:
    """NC1 and training accuracy over the epochs, the window shaded."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "ncalr", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    runs = json.loads(RESULT.read_text())["runs"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    window = runs[0]["record"]["checkpoints"]
    for axes in (left, right):
        axes.axvspan(window[0], window[-1], color="#e8eef7", label="checkpoint window")
        axes.set_xlabel("epoch")
        axes.spines[["top", "right"]].set_visible(False)
    for run in runs:
        history = run["record"]["history"]
        epochs = [check["epoch"] for check in history]
        left.plot(epochs, [check["nc1"] for check in history], color="#1f5fa8", alpha=0.6, linewidth=1.4)
        right.plot(epochs, [100 * check["accuracy"] for check in history], color="#b5482a", alpha=0.6, linewidth=1.4)
    left.set_yscale("log")
    left.set_yticks([0.1, 0.2, 0.5], ["0.1", "0.2", "0.5"])
    left.minorticks_off()
    left.set_title("NC1: spread inside the classes, against that between them", fontsize=10)
    right.set_title("Accuracy on the labelled set, %", fontsize=10)
    left.legend(frameon=False, fontsize=9)
    figure.savefig(PICTURE, metadata={"Date": None})
    fill(ROOT / "docs" / "learning.md", "collapse", _in_words(runs))


def _in_words(runs: list[dict[str, Any]]) -> str:
    """What all of them have in common, for the page on learning."""
    flipping = [100 * run["record"]["flipping"] for run in runs]
    fit = [100 * run["record"]["history"][-1]["accuracy"] for run in runs]
    return (
        f"Digits, 300 labels, ResNet-8, {len(runs)} seeds (`python benchmarks/collapse_digits.py`). All fit {min(fit):.0f} % of their labels, NC1 falls over the window,\n"
        f"and the predictions of {min(flipping):.0f} to {max(flipping):.0f} % of the pool still flip there."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    if not parser.parse_args().draw:
        measure()
    write()
