"""Linear probes on 50k x 512 features of 100 classes: ours beside scikit-learn's LogisticRegression.

    python benchmarks/probe.py                          on the CPU: one C, and the search for C
    python benchmarks/probe.py --device cuda --out F    on a GPU: the same; scikit-learn at one C, on that machine's CPU
    python benchmarks/probe.py --add F                  take the section of another machine into results/probe.json

Needs torch, NumPy, SciPy and scikit-learn only; the GPU's part takes less than three minutes. `results/probe.md` is
written again whenever `results/probe.json` is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from ncalr.evaluate.probe import probe
from ncalr.learn.linear import fit_linear

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "results" / "probe.json"
TABLE = ROOT / "results" / "probe.md"
SIZES = {"train": 50_000, "test": 10_000, "d": 512, "classes": 100}
SEED = 20261101
C = 0.1
LOOSE = 1e-4  # of ours: about as far from the minimum as scikit-learn ends with its own default
THEIRS = {"tol": 1e-4, "max_iter": 1000}  # scikit-learn's default tolerance, and as many iterations as that takes
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")
Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def made() -> Four:
    """ReLU of a Gaussian mixture whose classes overlap, with a spectrum that falls as one over the square root."""
    rng = np.random.default_rng(SEED)
    n, d = SIZES["train"] + SIZES["test"], SIZES["d"]
    spread = 4 * np.arange(1, d + 1, dtype=np.float32) ** -0.5
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0].astype(np.float32)
    labels = rng.integers(0, SIZES["classes"], n)
    x = rng.standard_normal((n, d), np.float32)
    x += 0.2 * rng.standard_normal((SIZES["classes"], d), np.float32)[labels]
    x = np.maximum((x * spread) @ turn + np.float32(0.1), 0)
    at = SIZES["train"]
    return x[:at], labels[:at], x[at:], labels[at:]


def standardised(data: Four) -> Four:
    """What scikit-learn is given: it does not standardise, and is not timed doing so. float32 is its faster kind."""
    x, y, test, truth = data
    mean, scale = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    return ((x - mean) / scale).astype(np.float32), y, ((test - mean) / scale).astype(np.float32), truth


def objective(weights: np.ndarray, intercept: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """The mean loss with its penalty, in float64."""
    total = 0.0
    for start in range(0, len(y), 10_000):
        rows = slice(start, start + 10_000)
        logits = x[rows].astype(np.float64) @ weights.T.astype(np.float64) + intercept
        top = logits.max(axis=1)
        own = logits[np.arange(len(top)), y[rows]]
        total += float((top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - own).sum())
    return total / len(y) + float((weights.astype(np.float64) ** 2).sum()) / (2 * C * len(y))


class Clock:
    """Seconds on the clock and seconds of processor since it was made."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self.wall, "processor": time.process_time() - self.processor}


def ours(data: Four, device: str, tolerance: float = 1e-7) -> dict[str, Any]:
    """One fit and its test, standardising and all."""
    x, y, test, truth = data
    clock = Clock()
    found = fit_linear(x, y, C, device=device, tolerance=tolerance)
    accuracy = float((found.predict(test, device) == truth).mean())
    times = clock.read()
    mean, scale = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    value = objective(found.weights * scale, found.intercept + found.weights @ mean, standardised(data)[0], y)
    return {**times, "top1": accuracy, "objective": value, "iterations": found.iterations}


def theirs(ready: Four) -> dict[str, Any]:
    """scikit-learn's fit and its test."""
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")  # that a fit did not reach the tolerance is seen from its objective
    x, y, test, truth = ready
    clock = Clock()
    model = LogisticRegression(C=C, **THEIRS).fit(x, y)
    accuracy = float(model.score(test, truth))
    times = clock.read()
    value = objective(model.coef_, model.intercept_, x, y)
    return {**times, "top1": accuracy, "objective": value, "iterations": int(model.n_iter_[0])}


def their_search(ready: Four, strengths: list[float], chosen: float) -> dict[str, Any]:
    """The C that ours tried, on a fifth held out, each fit begun from the last, and the fit on everything."""
    from sklearn.linear_model import LogisticRegression

    x, y, test, truth = ready
    cut = len(y) // 5
    clock = Clock()
    model = LogisticRegression(warm_start=True, **THEIRS)
    for strength in strengths:
        model.set_params(C=strength).fit(x[cut:], y[cut:]).score(x[:cut], y[:cut])
    accuracy = float(model.set_params(C=chosen).fit(x, y).score(test, truth))
    return {**clock.read(), "top1": accuracy, "fits": len(strengths) + 1}


def our_search(data: Four, device: str) -> dict[str, Any]:
    """The whole probe."""
    clock = Clock()
    found = probe(*data, device=device)
    times = clock.read()
    strengths = [strength for strength, _ in found.grid]
    return {
        **times, "top1": found.top1, "mean_per_class": found.mean_per_class, "C": found.C,
        "at_edge": found.at_edge, "grid": found.grid, "fits": len(strengths) + 1,
    }  # fmt: skip


def repeated(*works: Callable[[], dict[str, Any]], repeats: int, patience: float) -> list[dict[str, Any]]:
    """Each in turn, so many times: the seconds (see `ABOUT`), those of each run, and what others took meanwhile."""
    runs: list[list[dict[str, Any]]] = [[] for _ in works]
    for _ in range(repeats):
        for work, found in zip(works, runs, strict=True):
            wait_for_quiet(patience)
            busy, clock = busy_elsewhere(), time.perf_counter()
            found.append(work())
            found[-1]["others_cores"] = round((busy_elsewhere() - busy) / (time.perf_counter() - clock), 2)
            print(f"{work.__name__}: {found[-1]}"[:200], file=sys.stderr, flush=True)
    return [summed(found) for found in runs]


def summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs as one."""
    others = statistics.median(run["others_cores"] for run in runs)
    pick = min if others > 0.2 else statistics.median
    return {
        **runs[-1],
        **{name: pick([run[name] for run in runs]) for name in ("seconds", "processor")},
        "runs": [round(run["seconds"], 3) for run in runs],
        "others_cores": others,
    }


def wait_for_quiet(patience: float) -> None:
    """On a shared machine: until others have had less than 0.2 cores for three seconds, or the patience ends."""
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        before = busy_elsewhere()
        time.sleep(3)
        if busy_elsewhere() - before < 0.6:
            return


def busy_elsewhere() -> float:
    """Seconds of processor that all other processes have had."""
    try:
        words = Path("/proc/stat").read_text().split()[1:9]
    except OSError:
        return 0.0
    ticks = sum(int(words[i]) for i in (0, 1, 2, 5, 6))
    return ticks / os.sysconf("SC_CLK_TCK") - sum(os.times()[:2])


def named(name: str, work: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    work.__name__ = name
    return work


def measure_fit(data: Four, device: str, repeats: int, patience: float) -> dict[str, Any]:
    """One C: ours, ours less exact, scikit-learn's; this last once only where there is a GPU."""
    ready = standardised(data)
    works = [
        named("ours", lambda: ours(data, device)),
        named(f"ours, tolerance {LOOSE:g}", lambda: ours(data, device, LOOSE)),
        named("scikit-learn", lambda: theirs(ready)),
    ]
    take = partial(repeated, patience=patience)
    if device == "cpu":
        rows = take(*works, repeats=repeats)
    else:
        rows = take(*works[:2], repeats=repeats) + take(works[2], repeats=1)
    return {work.__name__: row for work, row in zip(works, rows, strict=True)}


def measure_search(data: Four, device: str, repeats: int, patience: float) -> dict[str, Any]:
    """The search for C; scikit-learn's on the CPU only."""
    take = partial(repeated, patience=patience)
    found = {"ours": take(named("our search", lambda: our_search(data, device)), repeats=repeats)[0]}
    if device == "cpu":
        strengths = [strength for strength, _ in found["ours"]["grid"]]
        ready = standardised(data)
        peer = named("scikit-learn's search", lambda: their_search(ready, strengths, found["ours"]["C"]))
        found["scikit-learn"] = take(peer, repeats=1)[0]
    return found


PARTS = {"fit": measure_fit, "search": measure_search}


def machine(device: str, threads: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    found |= {"threads": threads} if threads else {}
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found["processor"] = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        found["processor"] = platform.machine()
    if device != "cpu":
        import torch

        found["gpu"] = torch.cuda.get_device_name()
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def save(result: dict[str, Any], out: Path) -> None:
    out.write_text(json.dumps(result, indent=1) + "\n")
    if out.resolve() == RESULT:
        write()


def write() -> None:
    """The table, from the JSON."""
    TABLE.write_text(table(json.loads(RESULT.read_text())))


ABOUT = """# Linear probes: time and accuracy beside scikit-learn

Made by `python benchmarks/probe.py` from `probe.json`; not to be edited by hand.

{train:,} training and {test:,} test items, {d} features, {classes} classes that overlap (ReLU of a Gaussian mixture,
seed {seed}). One fit is at C = {C}. scikit-learn's LogisticRegression (L-BFGS, tol = {tol:g},
max_iter = {max_iter}) is given standardised float32 features and is not timed making them; ours begins from the
features as they are, and its time includes everything. Both include the prediction of the test set.

- *above the least*: the objective in float64, relative to the lowest on that machine. Each side ends by its own rule;
  the smaller number is nearer to the minimum.
- *search*: the same values of C for both, on a fifth held out, each fit begun from another's solution, and the last
  fit on everything.
- *processor*: seconds of processor, over all threads.
- *others*: how many cores other processes had meanwhile. Times are medians; where others had more than 0.2 cores, they
  are those of the fastest run. On a machine as busy as that, threads wait for each other, and the seconds of processor
  with one thread are what can be compared."""


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [ABOUT.format(**SIZES, **THEIRS, seed=SEED, C=C)]
    for section in result.values():
        about = section["machine"]
        where = f"{about['cores']} cores ({about['processor']})" + (f", {about['gpu']}" if "gpu" in about else "")
        tools = ", ".join(f"{name} {about[name]}" for name in PACKAGES if name in about)
        lines += [
            "",
            f"## {about.get('gpu', 'CPU')}" + (f", threads: {about['threads']}" if "threads" in about else ""),
            "",
        ]
        lines += [f"{where}, Python {about['python']}; {tools}; measured {section['date']}.", ""]
        lines += [
            "| | time | processor | runs | iterations | top-1 | above the least | others |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        least = min((row["objective"] for row in section["fit"].values()), default=1.0)
        for kind, rows in (("one C", section["fit"]), ("search", section["search"])):
            peer = rows.get("scikit-learn", {}).get("seconds")
            for name, row in rows.items():
                ratio = f" ({peer / row['seconds']:.1f}× faster)" if name != "scikit-learn" and peer else ""
                above = f"{row['objective'] / least - 1:.1e}" if kind == "one C" else ""
                steps = row["iterations"] if kind == "one C" else f"{row['fits']} fits"
                chosen = f", C = {row['C']:.3g}" if "C" in row else ""
                cells = [
                    f"{kind}, {name}{chosen}",
                    f"{row['seconds']:.2f} s{ratio}",
                    f"{row['processor']:.1f} s" if "processor" in row else "",
                    *(len(row["runs"]), steps, f"{row['top1']:.2%}", above, f"{row['others_cores']:.1f}"),
                ]
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--device", default="cpu")
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--patience", type=float, default=0, help="seconds to wait before each run for a quiet machine")
    words.add_argument("--out", type=Path, default=RESULT)
    words.add_argument("--add", type=Path, help="a result from another machine, to be taken in; nothing is measured")
    words.add_argument("--threads", type=int, help="of the linear algebra, on both sides")
    words.add_argument("--only", choices=list(PARTS), help="one part, the other as it was")
    given = words.parse_args()
    result = json.loads(given.out.read_text()) if given.out.exists() else {}
    if given.add:
        save(result | json.loads(given.add.read_text()), given.out)
        return
    key = given.device if given.threads is None else f"{given.device}, threads: {given.threads}"
    section = result.setdefault(key, {part: {} for part in PARTS})
    section |= {"machine": machine(given.device, given.threads), "date": time.strftime("%Y-%m-%d")}
    data = made()
    with threadpool_limits(given.threads):
        ours(tuple(part[:2000] for part in data), given.device)  # compile, start the device
        for part in [given.only] if given.only else PARTS:
            section[part] = PARTS[part](data, given.device, given.repeats, given.patience)
            save(result, given.out)


if __name__ == "__main__":
    main()
