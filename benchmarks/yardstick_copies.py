"""Near-copies in the pool: what they cost each strategy, and what `copies=drop` brings back.

python benchmarks/yardstick_copies.py              replays and groups: results/yardstick/copies.json (NCALR_YARDSTICK)
python benchmarks/yardstick_copies.py --table      the table of the JSON

A replay labels 30 items at a time among ITEMS different ones, each in the pool 1, 5 or 20 times: copies are the vector
plus noise of a share of its length. Its own 1x curve has the same items, first labels and test items. The threshold was
chosen on cifar10, oxford_pets and sst2_minilm; the other sets had no part in it.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from yardstick_data import SETS, load

import ncalr
from ncalr.acquire.copies import Copies
from ncalr.acquire.spec import with_defaults
from ncalr.data.pool import ArrayPool
from ncalr.learn import Job, needs_of
from ncalr.learn.sklearn_learner import SklearnLearner
from ncalr.learn.suggest import LinearHead

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "results" / "yardstick" / "copies.json"
REPLAYED = ("cifar10", "oxford_pets", "flowers102")
STRATEGIES = ("ncal", "margin", "random", "ncal_coverage")
POOLS = ((1, 0.0), *product((5, 20), (0.01, 0.05, 0.1)))
KEPT = ((1, 0.0), (5, 0.01), (20, 0.01))  # also replayed with copies=keep
ITEMS, TEST, FIRST, STEP, ROUNDS = 400, 1500, 30, 30, 4


def replay(name: str, strategy: str, times: int, noise: float, copies: str, seed: int) -> tuple[float, float]:
    """Return the mean accuracy after each batch, and the share of picks that are new items."""
    features, labels, train, classes = load(name)
    rng = np.random.default_rng([seed, 11])
    chosen, test = rng.permutation(np.flatnonzero(train))[:ITEMS], rng.permutation(np.flatnonzero(~train))[:TEST]
    vectors = np.repeat(features[chosen], times, axis=0)
    if noise:
        more = rng.normal(size=vectors.shape)
        lengths = np.linalg.norm(vectors, axis=1) / np.linalg.norm(more, axis=1)
        vectors = (vectors + noise * lengths[:, None] * more).astype(np.float32)
    item, truth = np.repeat(np.arange(ITEMS), times), np.repeat(labels[chosen], times)
    known = np.full(len(vectors), -1)
    first = np.arange(FIRST) * times
    known[first] = truth[first]
    accuracies, new = [], []
    for number in range(ROUNDS):
        rule = with_defaults(strategy, copies=copies)
        picks = _picks(vectors, known, rule, classes, [seed, number])
        new.append(len(set(item[picks]) - set(item[known >= 0])) / STEP)
        known[picks] = truth[picks]
        rows = np.flatnonzero(known >= 0)
        head = LinearHead.fit(vectors[rows], known[rows], classes)
        accuracies.append(float((head.logits(features[test]).argmax(axis=1) == labels[test]).mean()))
    return float(np.mean(accuracies)), float(np.mean(new))


def _picks(vectors: Any, known: Any, rule: Any, classes: int, seed: list[int]) -> Any:
    """Return the next items, by a logistic regression; `ncal` sees the iterations of its training."""
    rows = np.flatnonzero(known >= 0)
    needs = needs_of(rule)
    if "checkpoint_predictions" in needs:
        learner = SklearnLearner(LogisticRegression(max_iter=30))
        job = Job(ArrayPool(vectors), rows, known[rows], classes, seed[0], needs=needs)
        model = learner.fit(job)
        given = {"ids": model.watched, **model.evidence()}
        return ncalr.query(rule, STEP, classes=classes, seed=seed, **given).ids
    given = {"features": vectors, "labelled_features": vectors[rows], "labels": known[rows]}
    given["logits"] = LinearHead.fit(vectors[rows], known[rows], classes).logits(vectors)
    return ncalr.query(rule, STEP, exclude=rows, classes=classes, seed=seed, **given).ids


def groups(name: str) -> dict[str, Any]:
    """Return the share of a set's items with a near-copy, and how many such pairs have the same label."""
    features, labels, _, _ = load(name)
    n = len(features)
    sample = np.sort(np.random.default_rng(0).permutation(n)[:1024])
    copies = Copies(lambda rows: features[rows], sample, n)
    rows = features - features.mean(axis=0)
    squares = (rows * rows).sum(axis=1)
    pairs: list[Any] = []
    for start in range(0, n, 1024):
        near = squares[start : start + 1024, None] + squares - 2 * rows[start : start + 1024] @ rows.T
        a, b = np.nonzero(near <= copies.distance**2)
        pairs.append(np.stack([a + start, b])[:, a + start < b])
    a, b = np.concatenate(pairs, axis=1)
    inside = len(np.unique(np.concatenate([a, b])))
    same = float((labels[a] == labels[b]).mean()) if len(a) else None
    return {
        "items": n,
        "distance": round(copies.distance, 4),
        "share_in_groups": round(inside / n, 5),
        "pairs": len(a),
        "pairs_of_one_class": None if same is None else round(same, 3),
    }


def measure(sets: list[str], strategies: list[str], seeds: int) -> None:
    """Replay what is missing, and write the results after each seed."""
    found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"groups": {}, "replays": []}
    for name in SETS:
        found["groups"][name] = found["groups"].get(name) or groups(name)
    cases = [(*pool, "drop") for pool in POOLS] + [(*pool, "keep") for pool in KEPT]
    there = {tuple(row[:6]) for row in found["replays"]}
    for seed, name in product(range(seeds), sets):
        for strategy, (times, noise, copies) in product(strategies, cases):
            case = (name, strategy, times, noise, copies, seed)
            if case not in there:
                began = time.process_time()
                area, new = replay(*case)
                found["replays"].append([*case, round(area, 4), round(new, 4)])
                print(*case, f"{area:.4f} {new:.3f} {time.process_time() - began:.1f} s", flush=True)
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"groups": found["groups"]}, indent=1)[:-2]
        rows = ",\n".join(f"  {json.dumps(row)}" for row in found["replays"])
        RESULT.write_text(f'{head},\n "replays": [\n{rows}\n ]\n}}\n', encoding="utf-8")


def table() -> None:
    """Print the means over sets and seeds: area less that of the strategy's own 1x curve, and new items."""
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["replays"]
    areas = {tuple(row[:6]): row[6:] for row in rows}
    print("| strategy | copies | pool | area - 1x, points (95 %) | worst set | new items |\n|---|---|---|---|---|---|")
    for strategy, copies, (times, noise) in product(STRATEGIES, ("keep", "drop"), POOLS):
        cases = [key for key in areas if key[1:5] == (strategy, times, noise, copies)]
        if not cases:
            continue
        ones = [(key[0], strategy, 1, 0.0, copies, key[5]) for key in cases]
        gaps = np.array([100 * (areas[key][0] - areas[one][0]) for key, one in zip(cases, ones, strict=True)])
        by_set = [gaps[[key[0] == name for key in cases]].mean() for name in sorted({key[0] for key in cases})]
        half = 1.96 * gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
        new = np.mean([areas[key][1] for key in cases])
        pool = f"{times}x, noise {noise:g}" if noise else "1x"
        print(f"| {strategy} | {copies} | {pool} | {gaps.mean():+.2f} ± {half:.2f} | {min(by_set):+.2f} | {new:.1%} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(REPLAYED), help="Sets to replay, separated by commas.")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="Strategies, separated by commas.")
    parser.add_argument("--seeds", type=int, default=5, help="Number of seeds.")
    parser.add_argument("--table", action="store_true", help="Print the table of the results.")
    args = parser.parse_args()
    if not args.table:
        measure(args.sets.split(","), args.strategies.split(","), args.seeds)
    table()
