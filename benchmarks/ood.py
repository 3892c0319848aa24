"""OOD scores: time and memory of all nine together and of each, beside pytorch-ood and faiss, in one run.

    python benchmarks/ood.py              everything: results/ood.json and results/ood.md (about ten minutes)
    python benchmarks/ood.py --quick      a tenth of the size, into runs/, to check that it runs
    python benchmarks/ood.py --table      the table again, from the JSON

A measurement is a process of its own that fits on the labelled features and scores the ID and the OOD items, after a
small problem that warms up imports and thread pools. The peers live in `.venv-ood`, which is made here. pytorch-ood is
imported without its package's `__init__`, which imports torchvision, whose wheel does not load beside a CPU build of
torch; its detectors do not need it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from acquisition_contenders import DISTURBED, Others, PeakMemory, repeated, typical

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = ROOT / ".venv-ood"
PEER_PYTHON = PEERS / "bin" / "python"
PINS = ("torch==2.13.0", "numba==0.68.1", "scikit-learn==1.9.1", "faiss-cpu==1.15.1", "pytorch-ood==0.4.0")
"""torch first and alone, so that its CPU build is taken; numba because the measuring code is shared."""
PACKAGES = {"faiss": "faiss-cpu"}

SEED = 20261120
SIZES = {"labelled": 50_000, "inside": 10_000, "outside": 10_000}
DIMENSIONS, CLASSES, NEIGHBOURS, VIM_DIMENSIONS = 512, 100, 50, 256
WARM = 1500
LONGEST, FEWEST = 20.0, 3
"""Three calls, or as many as begin within twenty seconds."""
TIMEOUT = 600
MOST_SECONDS, MOST_MB = 60.0, 2000.0
ALL = "all nine"

Data = dict[str, Any]
Scores = Any
"""Of the ID items and then of the OOD items (20,000,), higher = more in-distribution."""


# -- the problem ----------------------------------------------------------------------------------------------


def write_data(folder: Path, scale: int) -> None:
    """ReLU of a Gaussian mixture, a component a class; OOD centres lie half-way to the labelled classes' centres."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(CLASSES, DIMENSIONS)).astype(np.float32)
    strange = 0.5 * (centres + rng.normal(size=centres.shape).astype(np.float32))
    labels = rng.integers(0, CLASSES, SIZES["labelled"] // scale)
    for name, size in SIZES.items():
        own = labels if name == "labelled" else rng.integers(0, CLASSES, size // scale)
        noise = rng.normal(size=(len(own), DIMENSIONS)).astype(np.float32)
        rows = np.maximum((strange if name == "outside" else centres)[own] + 2 * noise, 0)
        np.save(folder / f"{name}.npy", rows)
        if name == "labelled":
            means = np.stack([rows[labels == c].mean(axis=0) for c in range(CLASSES)])
    np.save(folder / "labels.npy", labels)
    weight = 0.05 * (means - means.mean(axis=0))
    np.save(folder / "weight.npy", weight)
    np.save(folder / "bias.npy", -(weight * means).sum(axis=1) / 2)


def read_data(folder: Path) -> Data:
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


def small(data: Data) -> Data:
    """The same with few rows, for the warm-up."""
    return {name: array if name in ("weight", "bias") else array[:WARM] for name, array in data.items()}


# -- the contenders -------------------------------------------------------------------------------------------


def ours(specs: list[str] | None, data: Data) -> Scores:
    from ncalr.evaluate.ood import fit

    detectors = fit(data["labelled"], data["labels"], weight=data["weight"], bias=data["bias"], scores=specs)
    inside, outside = detectors.score(data["inside"]), detectors.score(data["outside"])
    return np.concatenate([next(iter(inside.values())), next(iter(outside.values()))])


def faiss_knn(data: Data) -> Scores:
    import faiss

    def unit(rows: Any) -> Any:
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    index = faiss.IndexFlatL2(DIMENSIONS)
    index.add(unit(data["labelled"]))
    k = min(NEIGHBOURS, len(data["labelled"]))
    return -np.concatenate([index.search(unit(data[name]), k)[0][:, -1] for name in ("inside", "outside")])


def torch_ood(name: str, data: Data) -> Scores:
    import torch

    detector = _torch_ood_module()
    tensors = {key: torch.from_numpy(array) for key, array in data.items()}
    weight, bias = tensors["weight"], tensors["bias"]
    if name in ("msp", "max_logit", "energy"):
        made = {"msp": detector.MaxSoftmax, "max_logit": detector.MaxLogit, "energy": detector.EnergyBased}[name](None)
        parts = [made.predict_logits(tensors[key] @ weight.T + bias) for key in ("inside", "outside")]
    else:
        made = _torch_ood_made(name, detector, weight, bias)
        made.fit_features(tensors["labelled"], tensors["labels"])
        parts = [made.predict_features(tensors[key]) for key in ("inside", "outside")]
    return -torch.cat(parts).detach().numpy()


def _torch_ood_made(name: str, detector: Any, weight: Any, bias: Any) -> Any:
    import torch

    head = torch.nn.Linear(DIMENSIONS, CLASSES)
    head.weight.data, head.bias.data = weight, bias
    makers: dict[str, Callable[[], Any]] = {
        "mahalanobis": lambda: detector.Mahalanobis(None),
        "relative_mahalanobis": lambda: detector.RMD(None),
        "knn": lambda: detector.KNN(None, k=NEIGHBOURS),
        "vim": lambda: detector.ViM(None, VIM_DIMENSIONS, weight, bias),
        "nci": lambda: detector.NCI(None, head, alpha=1e-4),
    }
    return makers[name]()


def _torch_ood_module() -> Any:
    """pytorch_ood.detector without the imports of the package around it."""
    if "pytorch_ood" not in sys.modules:
        import importlib.util

        found = importlib.util.find_spec("pytorch_ood")
        bare = types.ModuleType("pytorch_ood")
        bare.__path__ = list(found.submodule_search_locations or [])  # type: ignore[union-attr]
        sys.modules["pytorch_ood"] = bare
    import pytorch_ood.detector

    return pytorch_ood.detector


NINE = ("msp", "max_logit", "energy", "mahalanobis", "relative_mahalanobis", "knn", "vim", "neco", "nci")
SPECS = {"knn": f"knn(k={NEIGHBOURS})", "vim": f"vim(dimensions={VIM_DIMENSIONS})"}
"""What is asked of ours where the default might differ from what the peers are asked for."""


def contender(score: str, library: str) -> Callable[[Data], Scores] | None:
    """The call to be timed, or None where the library has no such score."""
    if library == "ncalr":
        return partial(ours, [SPECS.get(score, score)] if score != ALL else [SPECS.get(name, name) for name in NINE])
    if library == "faiss":
        return faiss_knn if score == "knn" else None
    return partial(torch_ood, score) if score not in (ALL, "neco") else None


# -- measuring ------------------------------------------------------------------------------------------------


def measure(score: str, library: str, folder: Path) -> Data:
    """Time and memory of one contender, in this process; its scores go into a file beside the data."""
    call = contender(score, library)
    assert call is not None
    data = read_data(folder)
    call(small(data))
    seconds: list[float] = []
    used: list[float] = []
    others, memory = Others(), PeakMemory()
    while not seconds or (len(seconds) < FEWEST and sum(seconds) < LONGEST):
        start, before = time.perf_counter(), time.process_time()
        found = call(data)
        seconds.append(time.perf_counter() - start)
        used.append(time.process_time() - before)
        if len(seconds) == 1:
            extra = memory.stop()
    np.save(folder / "scores" / f"{score}, {library}.npy", found)
    return {
        **typical(seconds, others),
        "runs": [round(s, 4) for s in seconds],
        "processor_seconds": round(min(used), 4),
        "extra_mb": round(extra / 1e6, 1),
        "version": version(PACKAGES.get(library, library)),
    }


def measured(score: str, library: str, folder: Path, patience: float) -> Data:
    """The same in a process of its own, after waiting for the machine to be still."""
    from acquisition import wait_for_quiet, without_paths

    wait_for_quiet(patience)
    python = sys.executable if library == "ncalr" else PEER_PYTHON
    command = [python, __file__, "--measure", score, library, folder]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"> {TIMEOUT} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": without_paths(f"ended with {done.returncode}: {last}")}
    row: Data = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def floor(patience: float) -> Data:
    """How fast one large product in single precision is: KNN is made of such products."""
    from acquisition import wait_for_quiet

    wait_for_quiet(patience)
    left = np.ones((4096, DIMENSIONS), np.float32)
    found = repeated(lambda: left @ left.T)
    speed = 2.0 * 4096 * 4096 * DIMENSIONS / found["seconds"]
    return {"flops_a_second": speed, "others_cores": found["others_cores"]}


def all_rows(missing: dict[str, str], scale: int, patience: float) -> dict[str, dict[str, Data]]:
    """Every score by every library that has it."""
    rows: dict[str, dict[str, Data]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scores").mkdir()
        write_data(folder, scale)
        for score in (ALL, *NINE):
            rows[score] = {}
            for library in ("ncalr", "pytorch-ood", "faiss"):
                if contender(score, library) is None:
                    continue
                why = missing.get(PACKAGES.get(library, library))
                row = {"failed": why} if why else measured(score, library, folder, patience)
                rows[score][library] = row
                print(f"{score}, {library}: {row.get('failed') or row['seconds']}", flush=True)
            if score != ALL:
                _compare(score, rows[score], folder / "scores", SIZES["inside"] // scale)
    return rows


def _compare(score: str, rows: dict[str, Data], folder: Path, inside: int) -> None:
    """Each row's AUROC, and how its scores rank with ours."""
    from scipy.stats import spearmanr

    from ncalr.evaluate.ood_metrics import auroc

    mine = np.load(folder / f"{score}, ncalr.npy") if "failed" not in rows["ncalr"] else None
    for library, row in rows.items():
        if "failed" not in row:
            found = np.load(folder / f"{score}, {library}.npy")
            row["auroc"] = auroc(found[:inside], found[inside:])
            if library != "ncalr" and mine is not None:
                row["rank_correlation"] = float(spearmanr(mine, found).statistic)


# -- the peers' environment -----------------------------------------------------------------------------------


def install_peers() -> dict[str, str]:
    """Make or complete the environment; the packages that could not be installed, with the reason."""
    from acquisition import without_paths

    if not PEER_PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    missing = {}
    for pin in PINS:
        package, wanted = pin.split("==")
        ask = f"from importlib.metadata import version; print(version({package!r}))"
        found = subprocess.run([PEER_PYTHON, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
        if found.split("+")[0] != wanted:
            limits = [] if package == "torch" else ["-c", str(ROOT / "constraints.txt")]
            command = [PEER_PYTHON, "-m", "pip", "install", "--quiet", *limits, pin]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
                missing[package] = without_paths(f"does not install: {errors[-1]}")
    return missing


# -- the table ------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# OOD scores: time and memory, side by side

Made by `python benchmarks/ood.py` from `ood.json`; not to be edited by hand.

{machine}.

Fitted on {labelled:,} × {dimensions} float32 features of {classes} classes, then {inside:,} ID and {outside:,} OOD
items scored; features are the ReLU of a Gaussian mixture, from seed {seed}. Every figure comes from a process of its
own, after a small problem that warms up imports.

- *time*: fitting and scoring, median of three calls, or of as many as begin within {longest:g} s. † other processes had
  more than {disturbed} cores meanwhile, and the time is that of the fastest call.
- *processor*: time that all its threads together had a core, the least of the calls; other processes hardly change it.
- *extra*: the most memory resident during the first call, less what was resident (the inputs) before it.
- *rank correlation*: Spearman's, of its scores with ours.

KNN has k = {neighbours}; its products alone take {floor:.1f} s at the speed of one large product ({speed:.0f} GFLOP/s
in this run{busy}). ViM keeps {vim} directions. pytorch-ood's Mahalanobis adds 1e-6 to the diagonal of the scatter,
ours shrinks by the rule of Ledoit and Wolf. pytorch-ood has no NECO.
"""


def render(results: Data) -> str:
    """The whole page."""
    facts, sizes = results["machine"], results["sizes"]
    found = [pair for rows in results["rows"].values() for pair in rows.items()]
    versions = {library: row["version"] for library, row in found if "version" in row}
    flops = 2.0 * sizes["labelled"] * (sizes["inside"] + sizes["outside"]) * DIMENSIONS
    speed = results["floor"]["flops_a_second"]
    libraries = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    text = INTRODUCTION.format(
        machine=f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gb']} GB, {facts['system']}, "
        f"Python {facts['python']}; {libraries}; measured {results['date']}",
        **sizes,
        dimensions=DIMENSIONS,
        classes=CLASSES,
        seed=results["seed"],
        longest=LONGEST,
        disturbed=DISTURBED,
        neighbours=NEIGHBOURS,
        vim=VIM_DIMENSIONS,
        floor=flops / speed,
        speed=speed / 1e9,
        busy=", with other processes beside it" if results["floor"]["others_cores"] > DISTURBED else "",
    )
    return "\n".join([text, _table(results["rows"]), _targets(results["rows"][ALL]["ncalr"])])


def _table(rows: dict[str, dict[str, Data]]) -> str:
    head = ["score", "library", "time", "processor", "extra MB", "AUROC", "rank correlation"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for score, libraries in rows.items():
        for number, (library, row) in enumerate(libraries.items()):
            cells = [score if number == 0 else "", f"**{library}**" if library == "ncalr" else library]
            lines.append(f"| {' | '.join([*cells, *_figures(row)])} |")
    return "\n".join(lines) + "\n"


def _figures(row: Data) -> list[str]:
    if "failed" in row:
        return [row["failed"], "", "", "", ""]
    mark = " †" * (row["others_cores"] > DISTURBED)
    common = f"{row['rank_correlation']:.4f}" if "rank_correlation" in row else ""
    auroc = f"{row['auroc']:.4f}" if "auroc" in row else ""
    times = [_time(row["seconds"]) + mark, _time(row["processor_seconds"])]
    return [*times, f"{row['extra_mb']:,.0f}", auroc, common]


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def _targets(row: Data) -> str:
    lines = ["## Targets", "", "| target | found | met |", "| --- | --- | --- |"]
    for words, key, most, unit in (
        ("all nine in under 60 s on two cores", "seconds", MOST_SECONDS, "s"),
        ("all nine in under 2 GB beyond the inputs", "extra_mb", MOST_MB, "MB"),
    ):
        lines.append(f"| {words} | {row[key]:,.1f} {unit} | {'yes' if row[key] < most else 'no'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, into runs/")
    parser.add_argument("--table", action="store_true", help="measure nothing, write the table from the JSON")
    parser.add_argument("--patience", type=float, default=20, metavar="SECONDS", help="how long to wait for quiet")
    parser.add_argument("--measure", nargs=3, metavar=("SCORE", "LIBRARY", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        score, library, folder = given.measure
        print(json.dumps(measure(score, library, Path(folder))))
        return
    path = ROOT / ("runs" if given.quick else "results") / "ood.json"
    path.parent.mkdir(exist_ok=True)
    if not given.table:
        from acquisition import machine

        scale = 10 if given.quick else 1
        results = {
            "machine": machine(),
            "date": str(date.today()),
            "seed": SEED,
            "sizes": {name: size // scale for name, size in SIZES.items()},
            "floor": floor(given.patience),
            "rows": all_rows(install_peers(), scale, given.patience),
        }
        path.write_text(json.dumps(results, indent=1) + "\n")
    write(path)


def write(path: Path = ROOT / "results" / "ood.json") -> None:
    """The table, from the JSON."""
    path.with_suffix(".md").write_text(render(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
