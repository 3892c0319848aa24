"""The study: the paper's experiments on real data, in slices of GPU time, each going on where the last one stopped.

    python3 benchmarks/study.py run --data ROOT --out DIR --minutes 9     as many trainings as fit, in the plan's order
    python3 benchmarks/study.py status --out DIR                          what is done, what is missing

DIR holds one folder an experiment with the journals of its runs; give the folder of the last slice back and it is
continued. Experiments on the same data share seeds and initial pools, so their runs can be compared with each other.
No report is written here: `ncalr report DIR/EXPERIMENT` does that from the journals, without a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ncalr.data.dataset import load  # noqa: E402
from ncalr.lab.experiment import Experiment  # noqa: E402
from ncalr.lab.protocols import PROTOCOLS  # noqa: E402
from ncalr.lab.runner import Run, conduct, read_runs  # noqa: E402
from ncalr.lab.session import settings_of  # noqa: E402
from ncalr.loop.journal import claim  # noqa: E402

MAIN = ("random", "margin", "badge", "coreset", "cdal", "ncal")
REST = ("entropy", "sisome", "label_dispersion", "cmap", "ff")
VARIANTS = (
    "ncal(fusion=rank)",
    "ncal(select=filtered)",
    "ncal(select=sequential)",
    "ncal(sign=-1)",
    "ncal(counts=neutral)",
)


def plan() -> dict[str, Experiment]:
    """Every experiment, in the order in which they are wanted."""
    ten, hundred, mini = (PROTOCOLS[name] for name in ("cifar10", "cifar100", "mini_imagenet"))
    return {
        "cifar10": ten.experiment(MAIN, 3),
        "cifar10-rest": ten.experiment(REST, 3),
        "cifar10-variants": ten.experiment(VARIANTS, 3),
        "cifar100": hundred.experiment((*MAIN, "ncal(fusion=rank)"), 3),
        "mini_imagenet": mini.experiment((*MAIN, "ncal(fusion=rank)"), 3),
    }


class TimeUp(Exception):
    """The slice is over."""


def run(data: Path, out: Path, minutes: float, together: int, only: list[str]) -> None:
    """Train until the slice is over."""
    from ncalr.learn import TorchLearner

    deadline = time.perf_counter() + 60 * minutes

    def watch(one: Run) -> None:
        if one.accuracies:
            labels, accuracy = one.accuracies[-1]
            print(f"{one.strategy:<26}{one.seed}{labels:>8,}{100 * accuracy:>8.2f}", flush=True)
        if time.perf_counter() > deadline:
            raise TimeUp

    for name, experiment in plan().items():
        if only and name not in only:
            continue
        claim(out / name, experiment.as_dict())
        found = read_runs(out / name)
        if all(one.lines and one.lines[-1].get("stop") for one in found):
            continue
        print(name, flush=True)
        dataset = load(experiment.dataset, data)
        learner = TorchLearner(experiment.network, experiment.recipe, together=together, progress=False)
        try:
            conduct(experiment, learner, settings_of(experiment, dataset), len(dataset.classes), out / name, watch)
        except TimeUp:
            print("the slice is over", flush=True)
            return


def status(out: Path) -> None:
    """How far each experiment is."""
    for name, experiment in plan().items():
        wanted = len(experiment.strategies) * experiment.seeds * len(experiment.budgets)
        runs = read_runs(out / name) if (out / name / "experiment.json").exists() else []
        done = sum(len(one.accuracies) for one in runs)
        print(f"{name:<20}{done:>6} of {wanted} trainings")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "status"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "study")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--together", type=int, default=6)
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.data, arguments.out, arguments.minutes, arguments.together, arguments.only)
    else:
        status(arguments.out)


if __name__ == "__main__":
    main()
