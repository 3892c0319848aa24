"""What the distributed path costs on one GPU: the same training plainly, and as the only member of a process group.

    python3 benchmarks/ranks_gpu.py                  needs one GPU; some 40 seconds; results/ranks_gpu.json
    python3 benchmarks/ranks_gpu.py --device cpu     a small one, to see that it runs

Three ways, each in a process of its own: `graphs` (one CUDA graph a step, as `ncalr run` trains), `plain` (the same
without graphs) and `ranks` (a group of one: every message is sent, and graphs are off). `ranks` against `plain` is the
overhead of the messages, `ranks` against `graphs` what a second GPU has to make up for first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
WAYS = ("graphs", "plain", "ranks")


def train(way: str, device: str) -> dict[str, Any]:
    """Images a second of the second of two trainings."""
    import numpy as np

    if way == "ranks":
        from torch import distributed

        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
        distributed.init_process_group("gloo" if device == "cpu" else "nccl", rank=0, world_size=1)
    from ncalr.data import ArrayPool
    from ncalr.learn import Job, TorchLearner, needs_of
    from ncalr.learn.ranks import stop

    items, labels, epochs, net = (20_000, 5_000, 20, "resnet18") if device != "cpu" else (600, 256, 2, "resnet8")
    rng = np.random.default_rng(0)
    pool = ArrayPool(rng.integers(0, 256, (items, 32, 32, 3), dtype=np.uint8))
    recipe = f"strong(epochs={epochs}, checkpoints=2)"
    learner = TorchLearner(net, recipe, device=device, graphs=way == "graphs", progress=False)
    job = Job(pool, np.arange(labels), rng.integers(0, 10, labels), classes=10, needs=needs_of("ncal"))
    learner.fit(job)
    began = time.perf_counter()
    model = learner.fit(job)
    model.evidence()
    seconds = time.perf_counter() - began
    stop()
    return {"way": way, "seconds": seconds, "images a second": labels * epochs / seconds}


def main() -> None:
    """Each way in its own process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "ranks_gpu.json")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(train(given.way, given.device)))
        return
    rows = []
    for way in WAYS:
        words = [sys.executable, __file__, "--way", way, "--device", given.device]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{way:<8}{rows[-1]['images a second']:>10,.0f} images a second", flush=True)
    speed = {row["way"]: row["images a second"] for row in rows}
    print(f"the messages cost {100 * (1 - speed['ranks'] / speed['plain']):.1f} % of the training's speed")
    if given.device != "cpu":
        given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
