"""How fast and in how much memory: ours, the peers and plain NumPy on the same acquisition problems, in one run.

    python benchmarks/acquisition.py                     all cases: results/acquisition.*, README (half an hour)
    python benchmarks/acquisition.py --only margin       one case, merged into the JSON
    python benchmarks/acquisition.py --quick             everything at a tenth of the size, to check that it runs
    python benchmarks/acquisition.py --table             the table again, from the JSON

Each measurement is a process of its own (`acquisition_contenders.py`). The peers live in `.venv-peers`, which is made
here from `peers.txt`; what does not install is in the table with the reason. A measurement during which other
processes had a part of the machine is repeated, and marked where that did not help.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from acquisition_cases import CASES, LABELLED, REGISTRY, SEED, Case, smaller, write_data
from acquisition_contenders import DISTURBED, PACKAGES, busy_seconds
from acquisition_table import render, summary
from marks import fill

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = ROOT / ".venv-peers"
PEER_PYTHON = PEERS / "bin" / "python"
OURS = {"ncalr", "numpy", "floor"}
TIMEOUT = 300
ATTEMPTS = 3
REPEAT_BELOW = 30.0
"""A disturbed measurement is repeated where it takes less than this many seconds."""


def main() -> None:
    given = _arguments()
    path = ROOT / ("runs" if given.quick else "results") / "acquisition.json"
    path.parent.mkdir(exist_ok=True)
    if not given.table:
        chosen = [case for case in [*CASES, REGISTRY] if not given.only or case.name in given.only]
        missing = install_peers()
        for case in chosen:
            case = smaller(case) if given.quick else case
            print(case.title, flush=True)
            merge(path, case, measure_case(case, missing, given.quick, given.patience))
    write(path)


def write(path: Path = ROOT / "results" / "acquisition.json") -> None:
    """The table of all cases and the README's, from the JSON."""
    results = json.loads(path.read_text())
    path.with_suffix(".md").write_text(render(results))
    if path.parent.name == "results":
        fill(ROOT / "README.md", "acquisition", summary(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in [*CASES, REGISTRY]]
    parser.add_argument("--only", action="append", choices=names, metavar="CASE", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, into runs/")
    parser.add_argument("--table", action="store_true", help="measure nothing, write the table from the JSON")
    parser.add_argument(
        "--patience",
        type=float,
        default=20,
        metavar="SECONDS",
        help="how long to wait before each measurement for other processes to be still; 0: do not wait, do not repeat",
    )
    return parser.parse_args()


# -- the peers' environment -----------------------------------------------------------------------------------


def install_peers() -> dict[str, str]:
    """Make or complete the environment; the peers that could not be installed, with the reason."""
    if not PEER_PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    missing = {}
    for pin in (HERE / "peers.txt").read_text().splitlines():
        if pin and not pin.startswith("#"):
            package = pin.split("==")[0]
            why = _install(pin)
            if why:
                missing[package] = why
    return missing


def _install(pin: str) -> str:
    """Install one pin, or say why not. torch goes first, by itself: as a dependency it would pull its CUDA build."""
    package, wanted = pin.split("==")
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([PEER_PYTHON, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
    if found.split("+")[0] == wanted:
        return ""
    limits = [] if package == "torch" else ["-c", str(ROOT / "constraints.txt")]
    done = subprocess.run(
        [PEER_PYTHON, "-m", "pip", "install", "--quiet", *limits, pin], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
    return without_paths(errors[-1])


def without_paths(text: str) -> str:
    """Messages go into published files: no addresses, no folders of this machine."""
    return re.sub(r"\S*/\S*", "…", text)


# -- measuring ------------------------------------------------------------------------------------------------


def measure_case(case: Case, missing: dict[str, str], quick: bool, patience: float) -> dict[str, Any]:
    """The floor and every library's row."""
    if case.name == REGISTRY.name:
        from ncalr.acquire.registry import strategies

        case = replace(case, libraries=dict.fromkeys(strategies()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(case, folder)
        floor = undisturbed(case, "floor", folder, quick, patience) if case.floor else {}
        rows = {}
        for library in case.libraries:
            package = PACKAGES.get(library, library)
            rows[library] = (
                {"failed": f"does not install: {missing[package]}"}
                if package in missing
                else undisturbed(case, library, folder, quick, patience)
            )
            print(f"    {library}: {rows[library].get('failed') or rows[library]['seconds']}", flush=True)
    _compare(case, rows)
    return {"floor": floor, "rows": rows}


def undisturbed(case: Case, library: str, folder: Path, quick: bool, patience: float) -> dict[str, Any]:
    """The least disturbed of a few attempts."""
    attempts: list[dict[str, Any]] = []
    for _ in range(ATTEMPTS if patience else 1):
        wait_for_quiet(patience)
        row = measure(case, library, folder, quick)
        attempts.append(row)
        if "failed" in row or row["others_cores"] <= DISTURBED or row["seconds"] > REPEAT_BELOW:
            break
    return min(attempts, key=lambda row: row.get("others_cores", math.inf))


def wait_for_quiet(patience: float) -> None:
    """Until the machine has been idle for half a second, or patience ends."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        before = busy_seconds()
        time.sleep(0.5)
        if busy_seconds() - before < 0.1:
            return


def measure(case: Case, library: str, folder: Path, quick: bool) -> dict[str, Any]:
    """One row, from a process of its own."""
    ours = case.name == REGISTRY.name or library.split(",")[0] in OURS
    python = sys.executable if ours else PEER_PYTHON
    command = [python, HERE / "acquisition_contenders.py", case.name, library, folder, *["--quick"] * quick]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"> {TIMEOUT} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": without_paths(f"ended with {done.returncode}: {last}")}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if "failed" in row:
        row["failed"] = without_paths(row["failed"])
    return row


def _compare(case: Case, rows: dict[str, dict[str, Any]]) -> None:
    """Replace each row's picks by the share of them that ours has too: the first of ours, where it gave fewer."""
    mine = rows.get("ncalr", {}).get("picks")
    for library, row in rows.items():
        picks = row.pop("picks", None)
        if case.compare and mine and picks and library != "ncalr":
            row["in_common"] = len(set(picks) & set(mine[: len(picks)])) / len(picks)


# -- results --------------------------------------------------------------------------------------------------


def merge(path: Path, case: Case, found: dict[str, Any]) -> None:
    """Put a case's rows into the JSON, with what they were measured on."""
    known = json.loads(path.read_text()) if path.exists() else {"cases": {}}
    facts = {"title": case.title, "items": case.items, "classes": case.classes, "k": case.k, "date": str(date.today())}
    if case.floor:
        facts |= {"floor_words": case.floor.words, "passes": case.floor.passes, "flops": case.floor.flops}
    known["cases"][case.name] = {**facts, **found}
    order = [c.name for c in [*CASES, REGISTRY]]
    known["cases"] = {name: known["cases"][name] for name in order if name in known["cases"]}
    known |= {"machine": machine(), "seed": SEED, "labelled": LABELLED}
    path.write_text(json.dumps(known, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """What the figures belong to; nothing that names this computer."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": model.group(1) if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
