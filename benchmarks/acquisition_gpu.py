"""Acquisition on one GPU: the NCAL pass against the bandwidth, k-centre against its floor, parity with the CPU.

    python benchmarks/acquisition_gpu.py --expect picks.json     on any machine: the CPU's picks, to compare with
    python benchmarks/acquisition_gpu.py --compare picks.json    on the GPU machine

Needs torch (with Triton), NumPy and SciPy only. Times are medians of device-timed repeats after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import ncalr
from ncalr.geometry import ClassStatistics, cmap_table

RESULT = Path(__file__).resolve().parents[1] / "results" / "acquisition_gpu.json"
PARITY = ["ncal", "cmap", "ff", "margin", "entropy", "least_confidence", "coreset", "cdal", "badge", "bald"]
PARITY += ["variation_ratio", "label_dispersion", "sisom", "sisome", "typiclust", "probcover", "maxherding", "uherding"]
PARITY += [
    "ncal_coverage",
    "cluster_margin",
    "random",
    "ncal(fusion=rank)",
    "ncal(select=filtered)",
    "ncal(select=sequential)",
    "ncal(select=quota)",
]


def small_pool() -> dict[str, Any]:
    """A pool that both machines make alike: ReLU of a Gaussian mixture, 10 classes."""
    rng = np.random.default_rng(7)
    n, m, d, c = 20_000, 500, 128, 10
    centres = rng.standard_normal((c, d)).astype(np.float32)
    kinds, labels = rng.integers(0, c, n), rng.integers(0, c, m)
    features = np.maximum(centres[kinds] + 1.5 * rng.standard_normal((n, d)).astype(np.float32), 0)
    labelled = np.maximum(centres[labels] + 1.5 * rng.standard_normal((m, d)).astype(np.float32), 0)
    logits, labelled_logits = features @ centres.T / 4, labelled @ centres.T / 4
    noise = rng.standard_normal((12, n, c)).astype(np.float32)
    sampled = np.exp(logits + noise)
    return {
        "features": features,
        "logits": logits,
        "labelled_features": labelled,
        "labels": labels,
        "labelled_logits": labelled_logits,
        "checkpoint_predictions": (logits + 2 * noise).argmax(axis=2).astype(np.uint8),
        "sampled_probs": (sampled / sampled.sum(axis=2, keepdims=True))[:5],
        "enhanced": features,
        "labelled_enhanced": labelled,
    }


def picks_of(device: str, strategies: list[str], k: int = 200) -> dict[str, list[int]]:
    """What each strategy picks on the small pool."""
    pool = small_pool()
    return {name: ncalr.query(name, k, device=device, **pool).ids.tolist() for name in strategies}


def compare(expected: dict[str, list[int]]) -> list[dict[str, Any]]:
    """The GPU's picks beside the CPU's: how many in common, and how many at the same place."""
    found = picks_of("cuda", list(expected))
    return [
        {
            "strategy": name,
            "k": len(ids),
            "in_common": len(set(ids) & set(found[name])),
            "same_place": sum(a == b for a, b in zip(ids, found[name], strict=True)),
        }
        for name, ids in expected.items()
    ]


def timed(work: Callable[[], Any], repeats: int = 10) -> float:
    """Seconds of device time, median, after two warm-ups."""
    import torch

    times = []
    for turn in range(repeats + 2):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        if turn >= 2:
            times.append(start.elapsed_time(stop) / 1e3)
    return statistics.median(times)


def wall(work: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds on the clock, median, after a warm-up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def card() -> dict[str, Any]:
    """What the card is, and the rate that bounds a streaming pass (bytes read and written by a copy)."""
    import torch

    source = torch.randn(1 << 30, device="cuda", dtype=torch.float32).to(torch.bfloat16)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / timed(lambda: target.copy_(source))
    return {"name": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_bytes_per_s": copy}


def big_pool(n: int, classes: int) -> tuple[Any, Any, Any, ClassStatistics]:
    """Features in bf16, predictions, 20 checkpoints of predictions, and statistics of 2,000 labelled items."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    features = torch.empty((n, 512), dtype=torch.bfloat16, device="cuda")
    for start in range(0, n, 1 << 20):
        block = torch.randn((min(1 << 20, n - start), 512), generator=generator, device="cuda")
        features[start : start + len(block)] = block.clamp_min(0)
    log = torch.randint(0, classes, (1, n), generator=generator, device="cuda", dtype=torch.uint8).repeat(20, 1)
    jitter = torch.rand((20, n), generator=generator, device="cuda") < 0.02
    log[jitter] = 0
    rng = np.random.default_rng(0)
    labelled = np.maximum(rng.standard_normal((2000, 512)) + rng.standard_normal(512), 0)
    statistics_ = ClassStatistics.from_labelled(labelled, np.arange(2000) % classes, classes)
    return features, log[-1].clone(), log, statistics_


def check_cmap() -> float:
    """Largest error of the GPU's CMAP against float64, relative to the largest value, over shapes and precisions."""
    import torch

    from ncalr.geometry import cmap

    worst = 0.0
    for seed, (n, d, classes) in enumerate([(1000, 512, 10), (777, 100, 37), (513, 960, 200), (64, 2048, 1000)]):
        rng = np.random.default_rng(seed)
        labelled = np.maximum(rng.standard_normal((3 * classes, d)), 0)
        statistics_ = ClassStatistics.from_labelled(labelled, np.arange(3 * classes) % classes, classes)
        for kind in (torch.bfloat16, torch.float16, torch.float32):
            for center in (False, True):
                features = torch.from_numpy(np.maximum(rng.standard_normal((n, d)), 0)).to(kind)
                predictions = rng.integers(0, classes, n)
                found = cmap(features.cuda(), torch.from_numpy(predictions).cuda(), statistics_, center=center)
                wanted = _reference(features.double().numpy(), predictions, statistics_, center)
                error = np.abs(found.cpu().numpy() - wanted).max() / np.abs(wanted).max()
                worst = max(worst, float(error))
    return worst


def _reference(features: Any, predictions: Any, statistics_: ClassStatistics, center: bool) -> Any:
    """The printed formula in float64."""
    centre = statistics_.means.mean(axis=0) if center else 0.0
    means = statistics_.means - centre
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    moved = statistics_.counts[predictions, None] * means[predictions] + (features - centre)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return np.einsum("nd,nd->n", moved - unit[predictions], unit.sum(axis=0) - unit[predictions])


def ncal_pass(n: int, classes: int, copy: float) -> list[dict[str, Any]]:
    """The CMAP pass alone, and the whole query, as shares of the copy bandwidth."""
    import torch

    from ncalr.kernels import CmapTable, triton_kernels

    features, predictions, log, statistics_ = big_pool(n, classes)
    table = CmapTable(None, *(torch.from_numpy(t).float().cuda() for t in cmap_table(statistics_)[1:]))
    floor = features.nbytes / copy
    seconds = timed(lambda: triton_kernels.cmap(features, predictions, table))
    rows = [{"what": "cmap pass", "classes": classes, "ms": seconds * 1e3, "share": floor / seconds}]
    bytes_read = features.nbytes + log.nbytes
    seconds = timed(lambda: torch.sort(predictions, stable=True))
    rows.append({"what": "sort by class", "ms": seconds * 1e3, "share": 0.0})
    seconds = timed(lambda: triton_kernels.flips(log))
    rows.append({"what": "ff pass", "ms": seconds * 1e3, "share": log.nbytes / copy / seconds})
    whole = wall(
        lambda: ncalr.query("ncal", 1000, features=features, checkpoint_predictions=log, statistics=statistics_)
    )
    rows.append({"what": "ncal query", "classes": classes, "ms": whole * 1e3, "share": bytes_read / copy / whole})
    return rows


def k_centre(copy: float) -> dict[str, Any]:
    """50k x 512, k = 2500, from 2,000 labelled: time a pick, and the floor of one pass a pick."""
    import torch

    generator = torch.Generator("cuda").manual_seed(1)
    centres = torch.randn((100, 512), generator=generator, device="cuda")
    kinds = torch.randint(0, 100, (52_000,), generator=generator, device="cuda")
    points = (centres[kinds] + torch.randn((52_000, 512), generator=generator, device="cuda")).clamp_min(0)
    pool, labelled = points[:50_000].contiguous(), points[50_000:].contiguous()
    found = ncalr.query("coreset", 2500, features=pool, labelled_features=labelled).ids
    seconds = wall(lambda: ncalr.query("coreset", 2500, features=pool, labelled_features=labelled))
    plain, seconds_plain = _plain_k_centre(pool, labelled, 2500)
    return {
        "what": "k-centre 50k x 512, k = 2500",
        "ms": seconds * 1e3,
        "us_per_pick": seconds / 2500 * 1e6,
        "floor_us_per_pick": pool.nbytes / copy * 1e6,
        "plain_us_per_pick": seconds_plain / 2500 * 1e6,
        "in_common_with_plain": len(set(found.tolist()) & set(plain)),
    }


def _plain_k_centre(pool: Any, labelled: Any, k: int) -> tuple[list[int], float]:
    """One matrix-vector pass a pick, in torch, without waiting for the host inside."""
    import torch

    def run() -> Any:
        squares = (pool * pool).sum(1)
        least = (squares[:, None] + (labelled * labelled).sum(1)[None, :] - 2 * pool @ labelled.T).amin(1)
        picked = torch.empty(k, dtype=torch.int64, device="cuda")
        for turn in range(k):
            at = least.argmax()
            picked[turn] = at
            row = pool.index_select(0, at[None])[0]
            torch.minimum(least, squares + row @ row - 2 * (pool @ row), out=least)
            least.index_fill_(0, at[None], -1.0)
        return picked.cpu()

    seconds = wall(run, 2)
    return run().tolist(), seconds


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    card_, centre = result["card"], result["k_centre"]
    lines = [
        f"# Acquisition on one {card_['name']}",
        "",
        f"torch {card_['torch']}; device-to-device copy {card_['copy_bytes_per_s'] / 1e12:.2f} TB/s (read and",
        "written), measured in the same run. Made by `benchmarks/acquisition_gpu.py`.",
        "",
        f"Largest error of CMAP against float64, as a share of the largest: {result['cmap_worst_relative_error']:.1e}.",
        "",
        "| over 8M x 512 bf16 | classes | ms | share of the copy bandwidth |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row['what']} | {row.get('classes', '')} | {row['ms']:.2f} | {row['share']:.0%} |"
        for row in result["passes"]
        if row["what"] != "sort by class"
    ]
    lines += [
        "",
        "The CMAP pass includes sorting the items by predicted class. The query includes FF, fusion, top-k, all",
        "checks, and every launch and wait on the host.",
        "",
        "| k-centre, 50k x 512, k = 2500, from 2,000 labelled | us a pick |",
        "| --- | --- |",
        f"| ncalr ({centre['in_common_with_plain']} of 2500 picks as by plain passes) | {centre['us_per_pick']:.1f} |",
        f"| floor of one pass a pick at the copy bandwidth | {centre['floor_us_per_pick']:.1f} |",
        f"| plain torch, one matrix-vector pass a pick | {centre['plain_us_per_pick']:.1f} |",
        "",
        "| strategy, 20k x 128, k = 200 | picks in common with the CPU | at the same rank |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {row['strategy']} | {row['in_common']} | {row['same_place']} |" for row in result.get("parity", [])]
    return "\n".join(lines) + "\n"


def write(path: Path = RESULT) -> None:
    """The table, from the JSON."""
    path.with_suffix(".md").write_text(table(json.loads(path.read_text())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expect", type=Path, help="write the CPU's picks here and stop")
    parser.add_argument("--compare", type=Path, help="the CPU's picks, to compare with")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--table", action="store_true", help="only write the table again from the results in --out")
    parser.add_argument("--items", type=int, default=8_000_000)
    args = parser.parse_args()
    if args.table:
        write(args.out)
        return
    if args.expect:
        args.expect.write_text(json.dumps(picks_of("cpu", PARITY)))
        return
    result: dict[str, Any] = {"card": card(), "cmap_worst_relative_error": check_cmap()}
    print(json.dumps(result, indent=1), flush=True)
    copy = result["card"]["copy_bytes_per_s"]
    result["passes"] = [row for classes in (10, 100) for row in ncal_pass(args.items, classes, copy)]
    for row in sorted(result["passes"], key=lambda r: r["ms"]):
        print(row)
    result["k_centre"] = k_centre(copy)
    print(result["k_centre"], flush=True)
    if args.compare:
        result["parity"] = compare(json.loads(args.compare.read_text()))
        for row in result["parity"]:
            print(row)
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    write(args.out)


if __name__ == "__main__":
    main()
