"""What was measured once, written again from the JSON that it left in results/: a part of `make results`.

Nothing is measured here. Every benchmark writes its own table; this file calls them all, and writes the sentences of
README and docs that have figures of several of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import acquisition
import acquisition_gpu
import collapse_digits
import heads
import numpy as np
import ood
import photos
import probe
import reliability
import scale
import training_gpu
import yardstick
import yardstick_audit
import yardstick_forecast
from marks import fill

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS, README = ROOT / "results", ROOT / "docs", ROOT / "README.md"


def write() -> None:
    """All of it."""
    for module in (
        acquisition,
        acquisition_gpu,
        training_gpu,
        scale,
        ood,
        probe,
        reliability,
        collapse_digits,
        photos,
        heads,
        yardstick,
        yardstick_audit,
        yardstick_forecast,
    ):
        module.write()
    fill(README, "gpu", picks_on_a_gpu())
    fill(README, "training", training_on_a_gpu())
    fill(DOCS / "learning.md", "warm-up", warm_up())
    fill(DOCS / "scale.md", "ranks", ranks())


def kept(name: str) -> Any:
    """What a benchmark left."""
    return json.loads((RESULTS / name).read_text())


def accuracies(**wanted: Any) -> list[float]:
    """Test accuracies of trainings on a GPU, in percent, one a seed."""
    lines = map(json.loads, (RESULTS / "training_gpu_accuracy.jsonl").read_text().splitlines())
    return [100 * line["accuracy"] for line in lines if wanted.items() <= line["run"].items()]


def with_all(data: str) -> float:
    """Test accuracy with all labels, in percent."""
    return float(np.mean(accuracies(data=data, labels=50_000, recipe="strong(epochs=100)")))


def picks_on_a_gpu() -> str:
    """The README's sentence on choosing on a GPU."""
    found = kept("acquisition_gpu.json")
    shares = {
        what: sorted(100 * one["share"] for one in found["passes"] if one["what"] == what)
        for what in ("cmap pass", "ncal query")
    }
    between = {what: f"{values[0]:.0f} to {values[-1]:.0f} %" for what, values in shares.items()}
    centre = found["k_centre"]
    return (
        f"On one {_card(found['card']['name'])} the CMAP pass over 8M × 512 bf16 runs at {between['cmap pass']} of the card's copy bandwidth, a whole query of `ncal` at "
        f"{between['ncal query']}, and 2,500 k-centre\npicks out of 50,000 take {centre['us_per_pick']:.1f} µs each, where one pass over the pool takes "
        f"{centre['floor_us_per_pick']:.0f} ([results](results/acquisition_gpu.md))."
    )


def training_on_a_gpu() -> str:
    """The README's sentence on training on a GPU."""
    found = kept("training_gpu_speed.json")
    rows: Mapping[str, float] = found["rows"]
    plain_loop = max(rows["plain loop, float32, batch 128"], rows["plain loop, bfloat16, batch 128"])
    one, four = rows["ours, 1 runs, batch 128"], rows["ours, 4 runs, batch 128"]
    return (
        f"On one {_card(found['machine']['gpu'])} a ResNet-18 trains at {one:,.0f} images a second in batches of 128, {one / plain_loop:.1f} times a plain PyTorch "
        f"loop, and four runs share the card at {four:,.0f}\n({four / plain_loop:.1f} times one such loop); with all of CIFAR-10 it reaches {with_all('cifar10'):.2f} % in 100 epochs "
        "([learning](docs/learning.md), [all of it](results/training_gpu.md))."
    )


def _card(name: str) -> str:
    return name.removeprefix("NVIDIA ")


def warm_up() -> str:
    """What the beginning of a training and its length are worth with few labels."""
    few = {"data": "cifar10", "labels": 5000, "path": "graphs"}
    without = "strong(epochs=100, warm_up=0.0, drops=[0.6, 0.85], fallback=0.65)"
    cold, *lengths = (
        float(np.mean(accuracies(recipe=name, **few)))
        for name in (without, *(f"strong(epochs={epochs})" for epochs in (100, 120, 150)))
    )
    return (
        f"Without the warm-up, and with the drops of the rate at 60 and 85 %, a small labelled set came to {cold:.1f} % against {lengths[0]:.1f} % at 5,000 labels of CIFAR-10 "
        f"(100 epochs each).\nThere, 120 epochs give {lengths[1]:.1f} % and 150 give {lengths[2]:.1f} %."
    )


def ranks() -> str:
    """What a group of processes costs where one GPU would do."""
    names = {
        "graphs": "one process, a CUDA graph per step",
        "plain": "one process, no graphs",
        "ranks": "the only member of a process group, normalisation sending three messages each way per layer (it sends one now)",
    }
    rows = [f"| {names[row['way']]} | {row['images a second']:,.0f} |" for row in kept("ranks_gpu.json")]
    return "\n".join(["| way | images per second |", "| --- | --- |", *rows])
