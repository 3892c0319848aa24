"""Fuzz every door for as many inputs as asked, and count how they ended.

    python tests/fuzz/long_run.py --inputs 100000 --out build/fuzz --jobs 2

Each door is fuzzed in child processes of some thousand inputs each, so that an abort of a process or a hang is noticed
and ends one of them alone. What is finished is a line of `runs.jsonl`; the same command goes on after an interruption.
At the end `figures.json` and `figures.md` have the table. `--door NAME,NAME` takes these doors only; `--child` is a
child.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

PIECE = 8000  # inputs of one child
PATIENCE = 600  # seconds for one input, after which the child ends itself: nothing moves any more
FAULTS = ("crash", "wrong", "refused", "hang", "memory", "outside", "abort")


def child(name: str, examples: int, seed: int) -> None:
    """Fuzz one door and print a line of JSON."""
    import doors_arrays  # noqa: F401
    import doors_files  # noqa: F401
    from harness import DOORS, Fault, arena, fuzz

    counts: Counter[str] = Counter()
    faults: dict[str, list[Any]] = {}
    slowest = 0.0

    def told(ended: Any, seconds: float) -> None:
        nonlocal slowest
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        slowest = max(slowest, seconds)
        if isinstance(ended, Fault):
            counts[ended.kind] += 1
            seen = faults.setdefault(f"{ended.kind} {ended.where}", [0, str(ended)[:400]])
            seen[0] += 1
        else:
            counts[ended] += 1

    began = time.time()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with arena() as here:
        fuzz(DOORS[name], 10, here, lambda *_: None, seed=0)  # what is compiled or loaded on first use
        began = time.time()
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        fuzz(DOORS[name], examples, here, told, seed=seed)
    faulthandler.cancel_dump_traceback_later()
    print(
        json.dumps(
            {
                "door": name,
                "seed": seed,
                "asked": examples,
                **counts,
                "inputs": counts.total(),
                "slowest": round(slowest, 3),
                "seconds": round(time.time() - began, 1),
                "faults": faults,
            }
        )
    )


def one_piece(work: tuple[str, int, int], out: Path) -> None:
    """Run a child, and note what it counted, or that it ended otherwise."""
    name, examples, seed = work
    command = [sys.executable, __file__, "--child", "--door", name, "--inputs", str(examples), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        line = lines[-1]
    else:
        kind = "hang" if "Timeout" in done.stderr else "abort"
        if done.returncode == 1 and kind == "abort":
            raise SystemExit(f"the door {name} itself fails with the seed {seed}:\n{done.stderr[-3000:]}")
        words = done.stderr.strip()[-3000:]
        line = json.dumps(
            {"door": name, "seed": seed, "asked": examples, "inputs": 1, kind: 1, "faults": {kind: [1, words]}}
        )
    with (out / "runs.jsonl").open("a") as file:
        file.write(line + "\n")
    found = json.loads(line)
    bad = {kind: found[kind] for kind in FAULTS if found.get(kind)}
    print(f"{name} {seed}: {found['inputs']} inputs in {found.get('seconds')} s {bad or ''}", flush=True)


def table(out: Path) -> None:
    """Write the figures of all that is finished."""
    from importlib.metadata import version

    sums: dict[str, Counter[str]] = {}
    slowest: dict[str, float] = {}
    faults: dict[str, list[Any]] = {}
    for line in map(json.loads, (out / "runs.jsonl").read_text().splitlines()):
        counts = sums.setdefault(line["door"], Counter())
        counts.update({kind: line.get(kind, 0) for kind in ("inputs", "result", "refusal", *FAULTS)})
        slowest[line["door"]] = max(slowest.get(line["door"], 0.0), line.get("slowest", 0.0))
        for where, (count, words) in line["faults"].items():
            faults.setdefault(f"{line['door']}: {where}", [0, words])[0] += count
    sums["all"] = sum(sums.values(), Counter())
    slowest["all"] = max(slowest.values())
    rows = [
        {
            "door": name,
            **{kind: counts[kind] for kind in ("inputs", "result", "refusal", *FAULTS)},
            "slowest": slowest[name],
        }
        for name, counts in sums.items()
    ]
    about = {name: version(name) for name in ("numpy", "torch", "pyarrow", "pillow", "hypothesis")}
    python = sys.version.split()[0]
    whole = {"versions": {"python": python, **about}, "doors": rows, "faults": faults}
    (out / "figures.json").write_text(json.dumps(whole, indent=1) + "\n")
    head = ["door", "inputs", "result", "refusal", *FAULTS, "slowest"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [f"{row[name]:.1f} s" if name == "slowest" else row[name] for name in head]
        lines.append("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |")
    (out / "figures.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    for where, (count, words) in sorted(faults.items(), key=lambda item: -item[1][0]):
        print(f"{count} x {where}\n    {words[-600:]}")


def main() -> None:
    """Read the options, run what is not finished yet, write the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--inputs", type=int, default=100_000, help="Number of inputs of all doors (default: 100000).")
    options.add_argument("--out", type=Path, default=Path("build/fuzz"), help="Folder for the results.")
    options.add_argument("--door", default="", help="Names of doors, with commas (default: all).")
    options.add_argument("--jobs", type=int, default=1, help="Number of children side by side (default: 1).")
    options.add_argument("--seed", type=int, default=1, help="First random seed (default: 1).")
    options.add_argument("--child", action="store_true", help="Run one piece in this process and print its counts.")
    given = options.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if given.child:
        child(given.door, given.inputs, given.seed)
        return
    import doors_arrays  # noqa: F401
    import doors_files  # noqa: F401
    from harness import DOORS

    given.out.mkdir(parents=True, exist_ok=True)
    runs = given.out / "runs.jsonl"
    done = (
        {(line["door"], line["seed"]) for line in map(json.loads, runs.read_text().splitlines())}
        if runs.exists()
        else set()
    )
    doors = [DOORS[name] for name in given.door.split(",")] if given.door else list(DOORS.values())
    shares = sum(one.share for one in doors)
    work = []
    for one in doors:
        left, seed = round(given.inputs * one.share / shares), given.seed
        while left > 0:
            if (one.name, seed) not in done:
                work.append((one.name, min(left, PIECE), seed))
            left, seed = left - PIECE, seed + 1
    with ThreadPoolExecutor(given.jobs) as threads:
        list(threads.map(lambda piece: one_piece(piece, given.out), work))
    table(given.out)


if __name__ == "__main__":
    main()
