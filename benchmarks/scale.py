"""Pools larger than the memory: time a row, peak memory, and the share of a plain sequential read of the same files.

    python benchmarks/scale.py                 1M, 4M and 16M x 256 float16: results/scale.* (minutes; 9 GB of disk)
    python benchmarks/scale.py --sizes 1       one million alone
    python benchmarks/scale.py --merge         the merge of 10,000 shards with 10^11 items alone, into the JSON
    python benchmarks/scale.py --table         the table and the curve again, from the JSON

Every query is a process of its own, compiled and warmed on a small pool first. "disk": the files are put out of the
page cache before (`posix_fadvise`), the plain read as well as the query. "cache": they were read just before. A plain
read is `readinto` one buffer of 8 MB, file after file, on one thread. Plain reads and queries take turns; the ratio is
that of the best of each, and what other processes took of the machine meanwhile is in the JSON.
`margin` runs on the same 256 columns taken as logits.

The merge is simulated: the best k of ten million normal scores are drawn as order statistics, for each of 10,000
shards, and merged as a query does it; the result is compared with one sort of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from marks import fill

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
D, CLASSES, K, TURNS = 256, 100, 1000, int(os.environ.get("TURNS", "3"))
MILLION = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1,4,16", help="millions of rows")
    parser.add_argument("--folder", help="where the pools are written; a temporary folder if not given")
    parser.add_argument("--table", action="store_true", help="the table and the curve from the JSON")
    parser.add_argument("--merge", action="store_true", help="the merge of 10,000 shards alone")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_query(*options.one)))
        return
    if options.merge:
        facts = json.loads((RESULTS / "scale.json").read_text())
        (RESULTS / "scale.json").write_text(json.dumps({**facts, "merge": merge()}, indent=1) + "\n")
    elif not options.table:
        sizes = [int(size) for size in options.sizes.split(",")]
        folder = Path(options.folder or tempfile.mkdtemp(prefix="scale-"))
        try:
            rows = [row for size in sizes for row in measure(folder, size)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        facts = {
            "date": str(date.today()),
            "cores": os.cpu_count(),
            "machine": cpu(),
            "k": K,
            "rows": rows,
            "merge": merge(),
        }
        (RESULTS / "scale.json").write_text(json.dumps(facts, indent=1) + "\n")
    write()


def measure(folder: Path, millions: int) -> list[dict[str, Any]]:
    """All strategies on one size."""
    pools = {name: folder / name for name in ("features", "logits")}
    write_pools(pools, millions * MILLION)
    rows = []
    for strategy in ("ncal", "cmap", "margin"):
        pool = pools["logits" if strategy == "margin" else "features"]
        for place in ("disk", "cache"):
            plain, found = [], []
            for _ in range(TURNS):
                ready(pool, place)
                plain.append(plain_read(pool))
                ready(pool, place)
                found.append(in_a_process(strategy, pool))
            best = min(found, key=lambda one: one["seconds"])
            row = {
                "strategy": strategy,
                "rows": millions * MILLION,
                "from": place,
                "bytes": size_of(pool),
                "plain_seconds": min(plain),
                "all_plain": plain,
                "all_seconds": [one["seconds"] for one in found],
                **best,
            }
            rows.append(row)
            print(
                f"{strategy:>7} {millions:>3}M {place:>5}: {1e9 * row['seconds'] / row['rows']:6.1f} ns a row, "
                f"{row['plain_seconds'] / row['seconds']:.0%} of a plain read, {row['peak_mb']} MB",
                flush=True,
            )
    for pool in pools.values():
        shutil.rmtree(pool)
    return rows


def write_pools(pools: dict[str, Path], n: int) -> None:
    """One pool of features, predictions and flips, and the same files under the name of logits."""
    from ncalr.data.manifest import Manifest, Shard
    from ncalr.data.shards import ShardedPool, write_shards

    rng = np.random.default_rng(0)

    features = np.maximum(rng.standard_normal((1 << 18, D), np.float32), 0).astype(np.float16)

    def blocks() -> Any:
        for _ in range(0, n, 1 << 18):  # the same features with other predictions: what they say costs no time
            flips = rng.poisson(0.5, 1 << 18).clip(0, 9).astype(np.uint8)
            yield {
                "features": features,
                "predictions": rng.integers(0, CLASSES, 1 << 18, np.uint8),
                "flips": flips,
            }

    write_shards(pools["features"], blocks())
    manifest = ShardedPool(pools["features"]).manifest
    pools["logits"].mkdir()
    for shard in manifest.shards:
        os.link(pools["features"] / shard.files["features"].file, pools["logits"] / shard.files["features"].file)
    shards = tuple(Shard(shard.rows, {"logits": shard.files["features"]}) for shard in manifest.shards)
    Manifest({"logits": manifest.columns["features"]}, shards).write(pools["logits"])


def files(pool: Path) -> list[Path]:
    """What a query reads."""
    return sorted(pool.glob("*.npy"))


def size_of(pool: Path) -> int:
    return sum(path.stat().st_size for path in files(pool))


def ready(pool: Path, place: str) -> None:
    """The files in the page cache, or none of them."""
    if place == "cache":
        plain_read(pool)
        return
    os.sync()
    for path in files(pool):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_read(pool: Path) -> float:
    """Seconds to read the files from start to end."""
    buffer = memoryview(bytearray(8 << 20))
    began = time.perf_counter()
    for path in files(pool):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - began


def in_a_process(strategy: str, pool: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as small:
        done = subprocess.run(
            [sys.executable, __file__, "--one", strategy, str(pool), small], capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def one_query(strategy: str, pool: str, small: str) -> dict[str, Any]:
    """Seconds, processor seconds and peak memory of one query, after one on a small pool."""
    import ncalr
    from ncalr.data.shards import write_shards

    rng = np.random.default_rng(1)
    features = np.maximum(rng.standard_normal((4096, D), np.float32), 0)
    labels = np.arange(2000) % CLASSES
    known = {} if strategy == "margin" else {"labelled_features": features[:2000], "labels": labels, "classes": CLASSES}
    half = features.astype(np.float16)
    columns = {"features": half, "predictions": np.zeros(4096, np.uint8), "flips": np.zeros(4096, np.uint8)}
    write_shards(small, {"logits": half} if strategy == "margin" else columns)
    ncalr.query_pool(strategy, 10, small, **known)
    used, began, busy = os.times(), time.perf_counter(), busy_seconds()
    picks = ncalr.query_pool(strategy, K, pool, **known)
    seconds, after = time.perf_counter() - began, os.times()
    mine = after.user + after.system - used.user - used.system
    return {
        "seconds": seconds,
        "processor_seconds": mine,
        "others_seconds": busy_seconds() - busy - mine,
        "peak_mb": peak_mb(),
        "first": int(picks.ids[0]),
    }


def peak_mb() -> int:
    """The most memory this process had: not what its parent had, which `getrusage` would count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def merge(shards: int = 10_000, items: int = 10_000_000) -> list[dict[str, Any]]:
    """The merge of so many shards, with and without telling them what is too low already."""
    from scipy.stats import norm

    from ncalr.engine.tally import Tally

    rng = np.random.default_rng(0)
    tail = np.cumsum(rng.standard_exponential((shards, K)), axis=1) / items  # of the k largest uniform numbers
    values = norm.isf(tail).astype(np.float32)
    keys = rng.integers(0, 2**63, (shards, K)).astype(np.uint64)
    order = np.lexsort((keys.ravel(), -values.ravel()))[:K]
    rows = []
    for told in (False, True):
        whole, sent, began = Tally(K, names=("score",)), 0, time.perf_counter()
        for at in range(shards):
            kept = values[at] >= whole.bars[0] if told else slice(None)
            mine = values[at][kept].astype(np.float64)
            part = Tally(K, names=("score",), value=mine, key=keys[at][kept], parts=mine[:, None])
            part.position, part.group = at * K + np.arange(K)[kept], np.zeros(len(mine), np.int16)
            sent += 34 * len(mine)  # value, key, position, part, group
            whole.merge(part)
        whole.settle()
        seconds = time.perf_counter() - began
        if not np.array_equal(whole.position[whole.best()], order):
            raise SystemExit("the merge is not the sort")
        rows.append({"shards": shards, "items": shards * items, "told": told, "seconds": seconds, "bytes": sent})
    return rows


def busy_seconds() -> float:
    """Processor seconds that all processes of the machine have used."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write() -> None:
    """The table and the curve."""
    facts = json.loads((RESULTS / "scale.json").read_text())
    lines = [
        "# Pools on disk, measured",
        "",
        f"{facts['machine']}, {facts['cores']} cores, {facts['date']}; {D} x float16 a row, k = {facts['k']}. One "
        "command: `python benchmarks/scale.py`, which says how. Others: the share of the cores that other processes of "
        "the machine had during the query (the plain read is one thread).",
        "",
        "| strategy | rows | from | ns a row | GB/s | of a plain read | processor ns a row | peak MB | others |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in facts["rows"]:
        n, seconds = row["rows"], row["seconds"]
        others = max(row["others_seconds"], 0) / (seconds * facts["cores"])
        lines.append(
            f"| {row['strategy']} | {n / MILLION:.0f}M | {row['from']} | {1e9 * seconds / n:.0f} | "
            f"{row['bytes'] / seconds / 1e9:.2f} | {row['plain_seconds'] / seconds:.0%} | "
            f"{1e9 * row['processor_seconds'] / n:.0f} | {row['peak_mb']} | {others:.0%} |"
        )
    lines += ["", "What that means for larger pools, from the slowest of the largest runs above:", ""]
    lines += ["| items | bytes | from the cache, 2 cores | from the disk, 2 cores | from the disk, 100 such machines |"]
    lines += ["|---:|---:|---:|---:|---:|"]
    largest = max(row["rows"] for row in facts["rows"])
    slowest = {
        place: max(
            row["seconds"] / row["rows"] for row in facts["rows"] if (row["rows"], row["from"]) == (largest, place)
        )
        for place in ("cache", "disk")
    }
    for power in (8, 9, 10, 11):
        hours = {place: seconds * 10**power / 3600 for place, seconds in slowest.items()}
        lines.append(
            f"| 10^{power} | {2 * D * 10**power / 1e12:.2g} TB | {hours['cache']:.2g} h | {hours['disk']:.2g} h | "
            f"{hours['disk'] / 100:.2g} h |"
        )
    lines += ["", "The merge (simulated), on one core:", ""]
    lines += [
        "| shards | items | shards are told the bar | seconds | sent to the driver |",
        "|---:|---:|---|---:|---:|",
    ]
    for row in facts["merge"]:
        lines.append(
            f"| {row['shards']:,} | {row['items']:.0e} | {'yes' if row['told'] else 'no'} | {row['seconds']:.1f} | "
            f"{row['bytes'] / 1e6:.1f} MB |"
        )
    (RESULTS / "scale.md").write_text("\n".join(lines) + "\n")
    fill(HERE.parent / "docs" / "scale.md", "scale", "\n".join(lines[2:]))
    plot(facts)


def plot(facts: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "ncalr", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    from ncalr.lab.plots import colours

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for strategy, colour in colours(list(dict.fromkeys(row["strategy"] for row in facts["rows"]))).items():
        for place, style in (("disk", "--"), ("cache", "-")):
            mine = [row for row in facts["rows"] if (row["strategy"], row["from"]) == (strategy, place)]
            sizes = [row["rows"] / MILLION for row in mine]
            look = {"linestyle": style, "color": colour, "marker": "o", "label": f"{strategy}, {place}"}
            left.plot(sizes, [1e9 * row["seconds"] / row["rows"] for row in mine], **look)
            right.plot(sizes, [row["peak_mb"] for row in mine], **look)
    for axes, name in ((left, "ns a row"), (right, "peak memory, MB")):
        axes.set(
            xscale="log",
            xlabel="million rows",
            ylabel=name,
            ylim=(0, 1.12 * max(max(line.get_ydata()) for line in axes.get_lines())),  # the highest line is seen whole
            xticks=[1, 4, 16],
            xticklabels=["1", "4", "16"],
        )
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False, fontsize=9, ncols=3, loc="center")
    figure.savefig(HERE.parent / "docs" / "pictures" / "scale.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
