"""The study: the paper's experiments on real data, in slices of GPU time, each going on where the last one stopped.

    python3 benchmarks/study.py run --data ROOT --out DIR --minutes 9     as many trainings as fit, in the plan's order
    python3 benchmarks/study.py run ... --evaluate                        and evaluate their models, beside and behind
    python3 benchmarks/study.py evaluate --data ROOT --out DIR            OOD, probes and more, on the models in DIR
    python3 benchmarks/study.py status --out DIR                          what is done, what is missing
    python3 benchmarks/study.py keep   --out DIR                          its journals into results/study, compactly

DIR holds one folder an experiment with the journals of its runs; give the folder of the last slice back and it is
continued. Experiments on the same data share seeds and initial pools, so their runs can be compared with each other.
With `--only NAME`, once or several times, those experiments alone, in the order in which they are named; with
`--only NAME:random+ncal`, of that experiment these strategies alone.
Models are not brought along from slice to slice: a slice evaluates those that it has trained (`EVALUATED`). Those that
went with their machine unevaluated are trained again by `run --evaluate` where the rest leaves room. It trains and
evaluates in processes of their own, so that one which dies takes nothing with it. No report is written here:
`ncalr report DIR/EXPERIMENT` does that, without a GPU.
"""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

from slices import keep, status, train  # noqa: E402

from ncalr.errors import NcalrError  # noqa: E402
from ncalr.evaluate.driver import Evaluator  # noqa: E402
from ncalr.evaluate.subjects import Place  # noqa: E402
from ncalr.evaluate.tasks import Wishes  # noqa: E402
from ncalr.lab.evaluations import read_evaluations  # noqa: E402
from ncalr.lab.experiment import Experiment  # noqa: E402
from ncalr.lab.protocols import PROTOCOLS  # noqa: E402
from ncalr.lab.runner import read_runs  # noqa: E402

MAIN = ("random", "margin", "badge", "coreset", "cdal", "ncal")
REST = ("entropy", "sisome", "label_dispersion", "cmap", "ff")
VARIANTS = (
    "ncal(fusion=rank)",
    "ncal(select=filtered)",
    "ncal(select=sequential)",
    "ncal(sign=-1)",
    "ncal(counts=neutral)",
)


EDITION = (
    "random",
    "margin",
    "cdal",
    "uherding",
    "ncal_coverage",
    "ncal_coverage(weights=geometry)",
    "badge",
    "ncal",
    "coreset",
)
TAIL = (*MAIN, "ncal(counts=neutral)")
SMALL = (*MAIN, "typiclust", "cmap", "ff")
KNOWN = ("random", "coreset", "cdal", "ncal")
SPREAD = ("ncal(select=filtered)", "ncal(select=filtered(then=k_center(space=probabilities)))")
RECIPE = "strong(epochs=120)"  # in full, so that a later change of `strong` does not mix two studies
LARGER = "strong(epochs=100, stop=true)"  # where the smallest training has 5,000 labels, and so as many steps
SHORTER = "strong(epochs=120, stop=true)"
TRAINERS = {  # what was tried on the first labels of CIFAR-100; then `stop` without the larger batch was taken
    "usual": "strong(epochs=100)",
    "batch-256": "strong(epochs=100, batch=256, rate=0.2)",
    "stop": "strong(epochs=100, batch=256, rate=0.2, stop=true)",
}
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {  # of ncal, beside the variants: what is changed of an experiment
    "cifar10": {
        "window-5": {"recipe": "strong(epochs=120, checkpoints=5)"},
        "window-30": {"recipe": "strong(epochs=120, checkpoints=30, opens=0.6, fallback=0.6)"},
        "stride-1": {"recipe": "strong(epochs=120, opens=0.92, fallback=0.92)"},
        "stop": {"recipe": "strong(epochs=120, stop=true)"},
        "cosine": {"recipe": "strong(epochs=120, schedule=cosine)"},
        "epochs-50": {"recipe": "strong(epochs=50)"},
        "epochs-100": {"recipe": "strong(epochs=100)"},
        "epochs-200": {"recipe": "strong(epochs=200)"},
        "paper": {"recipe": "paper"},
        "query-250": {"step": 250, "end": 4_000},
        "query-5000": {"step": 5_000, "end": 11_000},
    },
    "digits": {
        "window-5": {"recipe": "digits(checkpoints=5)"},
        "window-17": {"recipe": "digits(checkpoints=17)"},
        "stride-1": {"recipe": "digits(opens=0.775, fallback=0.775)"},
        "cosine": {"recipe": "digits(schedule=cosine)"},
        "epochs-20": {"recipe": "digits(epochs=20)"},
        "epochs-80": {"recipe": "digits(epochs=80)"},
        "query-10": {"step": 10},
        "query-80": {"step": 80},
    },
    "digits-wrong": {},
    "digits-tail": {},
    "sst2": {
        "window-5": {"recipe": "head(checkpoints=5)"},
        "window-26": {"recipe": "head(checkpoints=26, opens=0.5, fallback=0.5)"},
        "stride-1": {"recipe": "head(opens=0.82, fallback=0.82)"},
        "cosine": {"recipe": "head(schedule=cosine)"},
        "epochs-25": {"recipe": "head(epochs=25)"},
        "epochs-100": {"recipe": "head(epochs=100)"},
        "query-50": {"step": 50},
        "query-300": {"step": 300},
    },
}


ROUNDS = ("all", "ended")
"""Which rounds evaluations are asked of: every one, and the last of a run that has ended."""
CHEAP_FIRST = ("calibration", "separation", "tail", "ood", "discovery", "probe")
"""Tasks by what they take: a slice that is cut has lost the least."""
TRIES = 3
"""How often what dies in a slice is begun, the first time counted in."""
LOOKS = 1.0
"""Seconds between two looks at whether it has."""


@dataclass(frozen=True)
class Evaluated:
    """What is asked of the models of an experiment: tasks of every round, and tasks of the last one."""

    last: tuple[str, ...] = ()
    every: tuple[str, ...] = ()
    wishes: dict[str, Any] = field(default_factory=dict)

    def of(self, rounds: str) -> tuple[str, ...]:
        """The tasks of these rounds."""
        return {"all": self.every, "ended": self.last}[rounds]

    @property
    def keep(self) -> str:
        """The models that this needs."""
        return "all" if self.every else "last"


EVALUATED = {
    "mini_imagenet": Evaluated(
        ("calibration", "probe"),
        ("ood",),
        {
            "ood": ("near:tiny_imagenet_ood", "far:dtd10", "far:svhn10k(size=64)"),
            "probes": ("cifar100(size=64)", "flowers102", "cub200", "oxford_pets"),
        },
    ),
    "mini_imagenet-known": Evaluated(("discovery",), wishes={"inits": 20}),
    "cifar100-tail": Evaluated(("tail",)),
    "mini_imagenet-tail": Evaluated(("tail",)),
}


def plan() -> dict[str, Experiment]:
    """Every experiment, in the order in which they are wanted."""
    ten, hundred, mini = (PROTOCOLS[name] for name in ("cifar10", "cifar100", "mini_imagenet"))
    everything = {
        "cifar10": ten.experiment(MAIN, 3, RECIPE),
        "cifar10-rest": ten.experiment(REST, 3, RECIPE),
        **{
            f"cifar100-trainer-{name}": replace(hundred.experiment(("random",), 3, how), step=5_000, end=10_000)
            for name, how in TRAINERS.items()
        },
        "cifar100": hundred.experiment((*MAIN, "ncal(fusion=rank)"), 3, LARGER),
        "mini_imagenet": mini.experiment((*MAIN, "ncal(fusion=rank)"), 3, LARGER),
        "mini_imagenet-known": Experiment(
            "mini_imagenet(known=60, share=0.5)", KNOWN, 3, 1_500, 1_500, 6_000, mini.network, SHORTER
        ),
        "cifar100-tail": Experiment("cifar100(tail=0.05)", TAIL, 3, 2_000, 1_500, 8_000, hundred.network, SHORTER),
        "mini_imagenet-tail": Experiment(
            "mini_imagenet(tail=0.05)", TAIL, 3, 2_000, 1_500, 8_000, mini.network, SHORTER
        ),
        "mini_imagenet-spread": mini.experiment(SPREAD, 3, LARGER),  # where ncal is below cdal and coreset
        **ablations("cifar10", ten.experiment(MAIN, 3, RECIPE)),
        **small(),
        "mini_imagenet-coverage": replace(mini.experiment(EDITION, 5, LARGER), end=12_500),
        "cifar10-coverage": replace(ten.experiment(EDITION, 5, RECIPE), end=5_000),
        "cifar10-five": replace(ten.experiment(MAIN, 2, RECIPE), first_seed=3),
        "cifar100-five": replace(hundred.experiment((*MAIN, "ncal(fusion=rank)"), 2, LARGER), first_seed=3),
    }
    return {
        name: replace(one, keep=EVALUATED[name].keep) if name in EVALUATED else one for name, one in everything.items()
    }


def ablations(name: str, usual: Experiment) -> dict[str, Experiment]:
    """ncal with one thing changed at a time: its own options in one experiment, all else in one each."""
    changes = {"variants": {"strategies": VARIANTS}}
    changes |= {change: {"strategies": ("ncal",), **values} for change, values in ABLATIONS[name].items()}
    return {f"{name}-{change}": replace(usual, **values) for change, values in changes.items()}


def small_sets() -> dict[str, Experiment]:
    """Small sets with ten seeds, on a processor: enough seeds to tell apart what three leave open."""
    digits = Experiment("digits", SMALL, 10, 40, 40, 200, "resnet8", "digits")
    return {
        "digits": digits,
        "digits-wrong": replace(digits, noise="symmetric(rate=0.3)"),
        "digits-tail": replace(digits, dataset="digits(tail=0.1)"),
        "sst2": Experiment("sst2", SMALL, 10, 100, 100, 1_000, "mlp(widths=128)", "head"),
    }


def small() -> dict[str, Experiment]:
    """The small sets, and what was asked of them later."""
    sets = small_sets()
    fresh = replace(sets["digits"], strategies=("ncal", "ncal(select=filtered)"), seeds=20, first_seed=10)
    changed = {name: one for usual in sets for name, one in ablations(usual, sets[usual]).items()}
    spread = {
        f"{name}-spread": replace(one, strategies=("ncal", *SPREAD, "cdal"), seeds=20, first_seed=30)
        for name, one in sets.items()
    }
    return {
        **sets,
        **changed,
        "digits-fresh": fresh,  # a lead of the first ten seeds, on seeds that nobody had seen
        # cdal, which spreads its picks out in the predictions, has a better rank than ncal over all data sets: does it
        # help ncal to spread them, in the features or in the predictions? Written down before the first run, and asked
        # of seeds that nobody had seen: each of the two ways against ncal on each set, eight comparisons.
        **spread,
    }


def evaluators(data: Path, out: Path, arithmetic: str | None = None) -> Callable[[str], Evaluator]:
    """What evaluates an experiment, by its name: one and the same whenever it is asked for."""

    @cache
    def of(name: str) -> Evaluator:
        return Evaluator(out / name, Wishes(**EVALUATED[name].wishes, root=data), arithmetic=arithmetic)

    return of


def evaluate_all(
    out: Path, of: Callable[[str], Evaluator], missing: str, only: list[str], rounds: Collection[str] = ROUNDS
) -> list[str]:
    """The evaluations that are wanted and not there yet, those of the last round where a run has ended; what failed.

    What is quick comes first, whatever experiment it is of. What fails for one model fails for no other.
    """
    failed: list[str] = []
    names = [name for name in EVALUATED if (not only or name in only) and (out / name / "experiment.json").exists()]
    runs = {name: read_runs(out / name) for name in names}
    ready = {
        name: {"all": any(run.accuracies for run in some), "ended": any(run.ended for run in some)}
        for name, some in runs.items()
    }
    wanted = [
        (task, which, name)
        for name in names
        for which in rounds
        if ready[name][which]
        for task in EVALUATED[name].of(which)
    ]
    for task, which, name in sorted(wanted, key=lambda one: CHEAP_FIRST.index(one[0])):
        began, done = time.perf_counter(), 0

        def left_out(error: Exception, what: str = f"{task} of {name}") -> None:
            known = isinstance(error, NcalrError)  # data of one task may be missing, for instance
            why = str(error) if known else "".join(traceback.format_exception(error)).rstrip()
            failed.append(f"left out: {what}: {why}")

        try:
            done = of(name).run([task], rounds=which, missing=missing, say=_say, runs=runs[name], failed=left_out)
        except Exception as error:  # nor may what nobody thought of take the models of the others with it
            left_out(error)
        if done:
            _say(f"{task} of {name}: {done} models in {time.perf_counter() - began:.0f} s")
    return [*dict.fromkeys(failed)]


def lost(out: Path, of: Callable[[str], Evaluator], names: Mapping[str, Collection[str]]) -> dict[str, list[Place]]:
    """Models that have still to be evaluated and went with their machine, by experiment; in the order of `by_worth`.

    Of the strategies that are named with it, where any are.
    """
    found: dict[str, list[Place]] = {}
    for name, some in names.items():
        if name not in EVALUATED or not (out / name / "experiment.json").exists():
            continue
        last, every = (of(name).lost(EVALUATED[name].of(which), which) for which in reversed(ROUNDS))
        known = {(run.journal.path, number) for run, number in last}
        rest = [(run, number) for run, number in every if (run.journal.path, number) not in known]
        found[name] = [place for place in (*by_worth(last), *by_worth(rest)) if not some or place[0].strategy in some]
    return found


def by_worth(places: Sequence[Place]) -> list[Place]:
    """As tables gain most where the time runs out: a verdict needs ncal and the paper's rivals, and all their seeds.

    So these come first, and of them few labels before more, which are more tables for the same time; then seed by seed,
    first the one of which the least is missing.
    """

    def group(place: Place) -> tuple[bool, int, int]:
        run, number = place
        return run.strategy not in KNOWN, run.lines[number]["labelled"], run.seed

    missing = Counter(map(group, places))

    def worth(place: Place) -> tuple[bool, int, int, int]:
        other, labelled, seed = group(place)
        return other, labelled, missing[other, labelled, seed], seed

    return sorted(places, key=worth)


def train_and_evaluate(where: list[str], texts: list[str], minutes: float, together: int) -> int:
    """Train, evaluate every round beside it and last rounds behind it, with the card to themselves; how that ended.

    Each in a process of its own, and nothing in this one: what dies, or leaves a card that answers it no longer, takes
    nothing with it. A training that dies with time left is begun again, from its journals. Where an evaluation failed,
    what is still missing is tried again in a new process, then with the card for forward passes alone.
    """
    end, trained = time.perf_counter() + 60 * minutes, 0
    names = [text.partition(":")[0] for text in texts]
    only = _only(names)
    with Beside(where, names) as beside:
        for _ in range(TRIES):
            left = max(end - time.perf_counter(), 0) / 60
            how = ["--again", "--together", str(together), "--minutes", f"{left:.2f}"]
            with _begun("run", *where, *how, *_only(texts)) as training:
                while training.poll() is None:
                    beside.look()
                    time.sleep(LOOKS)
            trained = training.returncode
            if not trained or end < time.perf_counter():
                break
            _say(f"the training died ({trained})")
        beside.close()  # once more over what was trained last, while the last rounds are evaluated
        failed = _process("evaluate", *where, "--rounds", "ended", *only)
        failed |= beside.wait()
    for how in ([], ["--arithmetic", "cpu"]):
        failed = failed and _process("evaluate", *where, *how, *only)
    return trained or failed


class Beside:
    """Evaluate what is trained meanwhile, by the tasks of every round, in a process of its own.

    It asks nothing of the card but forward passes, and goes on until its input ends, and once more over what was
    trained last. Tasks of last rounds are not for it: a probe is a thousand matrix products one after the other, a
    minute or more of a processor that others use too, and seconds of a card that nobody else does.
    """

    def __init__(self, where: list[str], only: list[str]) -> None:
        names = [name for name in EVALUATED if (not only or name in only) and EVALUATED[name].every]
        self.words = ["evaluate", *where, "--beside", "--rounds", "all", *_only(names)] if names else []
        self.begun: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Beside:
        self.look()
        return self

    def look(self) -> None:
        """Begin it, and again where it has died."""
        if self.words and len(self.begun) < TRIES and (not self.begun or self.begun[-1].poll() is not None):
            few = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(spare_cores()))
            self.begun.append(_begun(*self.words, before=["nice"], stdin=subprocess.PIPE, env={**os.environ, **few}))

    def close(self) -> None:
        """Let it end."""
        for one in self.begun:
            if one.stdin is not None:
                one.stdin.close()

    def wait(self) -> int:
        """What it ended with."""
        return self.begun[-1].wait() if self.begun else 0

    def __exit__(self, *_: object) -> None:
        self.close()
        self.wait()


def _begun(*words: str, before: Sequence[str] = (), **how: Any) -> subprocess.Popen[bytes]:
    """The study once more, in a process of its own."""
    return subprocess.Popen([*before, sys.executable, __file__, *words], **how)


def _process(*words: str) -> int:
    """What such a process ends with."""
    return _begun(*words).wait()


def _only(names: Collection[str]) -> list[str]:
    return [word for name in names for word in ("--only", name)]


def spare_cores() -> int:
    """How many cores evaluations may have beside a training: a quarter. With nearly all of them it slowed down."""
    return max((os.cpu_count() or 2) // 4, 1)


def evaluate_beside(
    out: Path, of: Callable[[str], Evaluator], missing: str, only: list[str], rounds: Collection[str] = ROUNDS
) -> list[str]:
    """Evaluate again and again until the standard input ends; what failed the last time."""
    told: set[str] = set()
    ended = False
    while True:
        failed = evaluate_all(out, of, missing, only, rounds)
        for line in sorted({*failed} - told):
            _say(line)
        told |= {*failed}
        if ended:
            return failed
        ended = bool(select.select([sys.stdin], [], [], 5.0)[0])


def evaluations_of(out: Path) -> list[tuple[str, str, int, int]]:
    """Experiment, task, how many models were evaluated, and how many are to be in the end."""
    found = []
    for name, asked in EVALUATED.items():
        one = plan()[name]
        runs = read_runs(out / name) if (out / name / "experiment.json").exists() else []
        lines = [(line["task"], line["labelled"]) for run in runs for line in read_evaluations(run)]
        models = len(one.strategies) * one.seeds
        found += [(name, task, sum(t == task for t, _ in lines), models * len(one.budgets)) for task in asked.every]
        found += [(name, task, lines.count((task, one.end)), models) for task in asked.last]
    return found


def named(texts: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Experiments as `--only` names them, and the strategies that are named of each: none where all are meant."""
    everything, found = plan(), {}
    for text in texts:
        name, _, some = text.partition(":")
        if name not in everything:
            raise ValueError(f"there is no experiment {name!r}; choose among {', '.join(everything)}")
        found[name] = tuple(some.split("+")) if some else ()
        strangers = set(found[name]) - set(everything[name].strategies)
        if strangers:
            known = "+".join(everything[name].strategies)
            raise ValueError(f"{name} has no strategy {' or '.join(sorted(strangers))}; its own are {known}")
    return found


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "evaluate", "status", "keep"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "study")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--together", type=int, default=6)
    parser.add_argument("--only", action="append", default=[], metavar="NAME[:STRATEGY+...]", help="in this order")
    parser.add_argument("--missing", default="skip", help="models that are not there: skip, retrain or error")
    parser.add_argument("--evaluate", action="store_true", help="evaluate beside the training, and behind it")
    parser.add_argument("--again", action="store_true", help="train lost models again, behind the rest")
    parser.add_argument("--beside", action="store_true", help="evaluate again and again until the standard input ends")
    parser.add_argument("--arithmetic", help="where to compute from features, such as cpu; else where the network runs")
    parser.add_argument("--rounds", choices=ROUNDS, help="tasks of every round alone, or of the last of ended runs")
    arguments = parser.parse_args()
    try:
        only = named(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    failed: list[str] = []
    where = (arguments.data, arguments.out)
    if arguments.what == "run" and arguments.evaluate:
        data = [] if arguments.data is None else ["--data", str(arguments.data)]  # it may be in NCALR_DATA
        words = [*data, "--out", str(arguments.out)]
        raise SystemExit(train_and_evaluate(words, arguments.only, arguments.minutes, arguments.together))
    if arguments.what == "run":
        everything = plan()
        chosen = {name: everything[name] for name in only or everything}
        again = lost(arguments.out, evaluators(*where), only or dict.fromkeys(chosen, ())) if arguments.again else {}
        train(chosen, *where, arguments.minutes, arguments.together, None, again, only)
    elif arguments.what == "evaluate":
        evaluate, arithmetic = (evaluate_beside, "cpu") if arguments.beside else (evaluate_all, arguments.arithmetic)
        rounds = [arguments.rounds] if arguments.rounds else ROUNDS
        failed = evaluate(arguments.out, evaluators(*where, arithmetic), arguments.missing, [*only], rounds)
    elif arguments.what == "keep":
        keep(arguments.out, ROOT / "results" / "study")
    else:
        status(arguments.out, plan())
        for name, task, done, wanted in evaluations_of(arguments.out):
            print(f"{name:<24}{done:>6} of {wanted} models: {task}")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
