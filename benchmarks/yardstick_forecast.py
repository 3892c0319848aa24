"""Measure how often the intervals of `ncalr.forecast` hold the accuracy that further labels brought in replays.

    python benchmarks/yardstick_forecast.py --sets cifar10 oxford_pets sst2_minilm --seeds 0 10     # development
    python benchmarks/yardstick_forecast.py --out results/yardstick/forecast.json                   # the report
    make results                                                                 # its page docs/results/forecast.md

A replay labels a random 65 % of a set step by step, half as many again at a time, asks for a forecast at one number of
labels, and goes on to two and four times as many. Accuracy is measured on the other 35 %, against labels with the same
share of wrong ones. The model is the one of the forecast: logistic regression, its strength chosen on a fifth held out.

Three cases: `margin` with one pick in ten drawn as a control item, the same labels without saying so (`none`), and
labels drawn at random (`random`). Beside the forecast, two rules that people use: `slope` draws the line, in the
logarithm of the number of labels, through the last two points of the control items' curve, with its interval moved
along; `agreement`, the rule that this replaces, takes agreement with all labels out of fold and its interval for the
accuracy, and says stop where that rose by less than the width of its interval.

The environment variable NCALR_YARDSTICK names the data (see `yardstick_data.py`). Numbers of development sets and seeds
chose the constants of `ncalr.evaluate.forecast`; the report uses other sets and seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest
from yardstick_data import load, noisy

import ncalr
from ncalr.acquire.control import draws
from ncalr.evaluate import forecast as module
from ncalr.learn.linear import fit_linear

ROOT = Path(__file__).resolve().parents[1]

SIZES = {
    "cifar10": (100, 400, 1500),
    "oxford_pets": (150, 300, 900),
    "sst2_minilm": (100, 400, 1200),
    "flowers102": (300, 1000),
    "cub200": (500, 1500),
    "cifar100": (500, 1500),
    "mini_imagenet64": (500, 1500),
    "digits": (100, 250),
}
REPORT = ("flowers102", "cub200", "cifar100", "mini_imagenet64")
SHARE = 0.1
POOL = 0.65
GRID = module.GRID
CASES = {
    "margin": "forecast, picks by margin, a tenth control items",
    "random": "forecast, all labels at random",
    "none": "forecast, picks by margin, without control items",
    "slope": "last slope of the control items' curve",
    "agreement": "agreement out of fold with all labels",
}


def strength(x: Any, y: Any, start: int, rng: np.random.Generator) -> int:
    """Return the place in `GRID` whose loss on a fifth of the labels is least, found by steps from `start`."""
    held = rng.permutation(len(y)) < max(len(y) // 5, 10)
    losses: dict[int, float] = {}

    def loss(at: int) -> float:
        if not 0 <= at < len(GRID):
            return np.inf
        if at not in losses:
            chances, classes = probabilities(fit(x[~held], y[~held], GRID[at]), x[held])
            own = np.where(classes[None] == y[held][:, None], chances, 0).sum(axis=1)
            losses[at] = float(-np.log(module.LEAST + (1 - module.LEAST) * own).mean())
        return losses[at]

    while True:
        best = min((start, start - 1, start + 1), key=loss)
        if best == start:
            return start
        start = best


def fit(x: Any, y: Any, strength: float) -> Any:
    return fit_linear(x, y, strength, standardise=False, tolerance=1e-5)


def probabilities(model: Any, x: Any) -> tuple[Any, Any]:
    scores = x @ model.weights.T.astype(np.float32) + model.intercept.astype(np.float32)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True), model.classes


class Replay:
    """One set, one seed, one way to pick."""

    def __init__(self, name: str, seed: int, wrong: float, strategy: str, labels: int) -> None:
        features, truth, _, self.classes = load(name)
        self.rng = np.random.default_rng([seed, labels])
        self.seed, self.strategy, self.first = seed, strategy, labels
        self.y = noisy(truth, "uniform", wrong, seed) if wrong else truth
        spread = np.sqrt(((features - features.mean(axis=0)) ** 2).mean())
        self.x = np.asarray((features - features.mean(axis=0)) / spread, np.float32)
        order = self.rng.permutation(len(truth))
        cut = int(POOL * len(truth))
        self.pool, self.test = order[:cut], order[cut:]
        self.ids = np.arange(cut)
        numbers = draws(self.ids, seed)
        self.control = np.argsort(numbers)
        self.reserved = (numbers < SHARE) & (strategy != "random")
        self.known = np.zeros(cut, bool)
        self.strength = 2

    def label(self, more: int, model: Any) -> None:
        """Label control items and picks of the strategy, as `suggest(control=…)` does."""
        count = more if self.strategy == "random" else max(round(SHARE * more), 1)
        self.known[[at for at in self.control if not self.known[at]][:count]] = True
        left = np.flatnonzero(~self.known & ~self.reserved)
        if model is None:
            picked = self.rng.permutation(left)
        else:
            best = np.sort(probabilities(model, self.x[self.pool[left]])[0], axis=1)
            picked = left[np.argsort(best[:, -1] - best[:, -2])]
        self.known[picked[: more - count]] = True

    def given(self) -> Any:
        return np.where(self.known, self.y[self.pool], -1)

    def head(self, chosen: Any, choose: bool = True) -> Any:
        """Return the logistic regression on some of the labels, its strength as before or chosen anew."""
        rows = self.pool[chosen]
        if choose:
            self.strength = strength(self.x[rows], self.y[rows], self.strength, self.rng)
        return fit(self.x[rows], self.y[rows], GRID[self.strength])

    def run(self) -> dict[str, Any]:
        """Return the forecasts, and what came true."""
        wanted = [self.first, 2 * self.first, 4 * self.first]
        self.label(max(min(2 * self.classes, 100), self.first // 4) if self.classes < 50 else self.first // 2, None)
        found: dict[str, Any] = {"truth": [], "cases": {}, "agreement": []}
        while True:
            labels = int(self.known.sum())
            model = None
            if self.strategy != "random":
                model = self.head(self.known & ~self.reserved, choose=not found["truth"] and not found["agreement"])
            if labels < self.first <= 1.5 * labels + 1:
                found["agreement"].append(agreed(self)[0])
            if labels == wanted[0]:
                if labels == self.first:
                    found |= forecasts(self)
                right = self.head(self.known).predict(self.x[self.test]) == self.y[self.test]
                found["truth"].append(float(right.mean()))
                wanted.pop(0)
                if not wanted:
                    return found
            self.label(min(wanted[0] - labels, labels // 2), model)


def agreed(replay: Replay) -> tuple[float, float, float]:
    """Return agreement out of fold with all labels, and its interval."""
    labels = replay.given()
    kept = labels >= 0
    data = module._Data(
        replay.x[replay.pool[kept]], labels[kept], kept[kept], replay.x[:0], len(labels), replay.classes
    )
    return between(module._Model(data, np.random.default_rng(replay.seed)).right)


def between(right: Any) -> tuple[float, float, float]:
    ends = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return float(right.mean()), float(ends.low), float(ends.high)


def forecasts(replay: Replay) -> dict[str, Any]:
    """Return what the forecast and the two rules say."""
    kept: dict[str, Any] = {}
    measured, model = module._measured, module._Model

    def measure(*given: Any) -> Any:
        kept["curve"] = measured(*given)
        return kept["curve"]

    def once(*given: Any) -> Any:  # the same labels with and without control items
        kept["model"] = kept.get("model") or model(*given)
        return kept["model"]

    random = replay.strategy == "random"
    how: dict[str, Any] = {"classes": replay.classes, "seed": replay.seed, **({"control": "all"} if random else {})}
    x, labels = replay.x[replay.pool], replay.given()
    more = (replay.first, 3 * replay.first)
    module._measured, module._Model = measure, once
    began = time.process_time()
    main = module.forecast(x, labels, more, **how)
    found: dict[str, Any] = {"control": main.control, "seconds": time.process_time() - began}
    found["cases"] = {replay.strategy: rows_of(main)}
    if not random:
        found["cases"]["none"] = rows_of(module.forecast(x, labels, more, **{**how, "control": ()}))
        found["cases"] |= rules(*kept["curve"], kept["model"].right)
    module._measured, module._Model = measured, model
    return found


def rules(sizes: Any, means: Any, covariance: Any, right: Any) -> dict[str, Any]:
    """Return what the two rules say, now and with two and four times as many labels."""
    slope = (means[0] - means[1]) / np.log2(sizes[0] / sizes[1])
    half = 1.96 * float(np.sqrt(covariance[0, 0]))
    line = [float(means[0] + slope * np.log2(times / sizes[0])) for times in (1, 2, 4)]
    share, low, high = between(right)
    return {"slope": [[at - half, at, at + half] for at in line], "agreement": [[low, share, high]] * 3}


def rows_of(found: Any) -> list[list[float]]:
    """Return low, middle and high for now and ahead; ahead those of the gain, too."""
    return [
        [line.low, line.accuracy, line.high, line.gain_low, line.gain, line.gain_high]
        for line in (found.now, *found.ahead)
    ]


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return coverage and width by case."""
    lines = []
    groups = [("all", rows)]
    groups += [
        (f"{100 * wrong:g} % wrong labels", [row for row in rows if row["wrong"] == wrong]) for wrong in (0.0, 0.2)
    ]
    groups += [(name, [row for row in rows if row["set"] == name]) for name in dict.fromkeys(r["set"] for r in rows)]
    for name, group in groups:
        for case in CASES:
            by = "random" if case == "random" else "margin"
            having = [row for row in group if case in row["cases"] and row["picks"] == by]
            for at, more in enumerate(("now", "+100 %", "+300 %")):
                if not having:
                    continue
                said = np.array([row["cases"][case][at] for row in having])
                true = np.array([row["truth"][at] for row in having])
                line = {"group": name, "case": case, "labels": more, "replays": len(having)}
                line |= {"holds": float(((said[:, 0] <= true) & (true <= said[:, 2])).mean())}
                line |= {"width": float(np.median(said[:, 2] - said[:, 0])), "error": float(np.mean(said[:, 1] - true))}
                if at and said.shape[1] > 3:
                    gain = true - np.array([row["truth"][0] for row in having])
                    line |= {
                        "gain holds": float(((said[:, 3] <= gain) & (gain <= said[:, 5])).mean()),
                        "gain width": float(np.median(said[:, 5] - said[:, 3])),
                        "gain error": float(np.abs(said[:, 4] - gain).mean()),
                    }
                lines.append(line)
    return lines


def stops(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how often the agreement rule stops, and what +300 % labels would have brought there."""
    margin = [row for row in rows if "margin" in row["cases"] and row["agreement"]]
    said = [row for row in margin if row["cases"]["agreement"][0][1] - row["agreement"][-1] <= width(row)]
    lost = [row["truth"][2] - row["truth"][0] for row in said]
    return {
        "replays": len(margin),
        "stops": len(said),
        "mean gain lost": float(np.mean(lost or [0.0])),
        "5 points or more": int(np.sum(np.array(lost) >= 0.05)),
    }


def width(row: dict[str, Any]) -> float:
    low, _, high = row["cases"]["agreement"][0][:3]
    return float(high - low)


def page(rows: list[dict[str, Any]]) -> str:
    """Return the summary as Markdown."""
    seeds = sorted({row["seed"] for row in rows})
    found = stops(rows)
    lines = [
        "# How often the intervals of the forecast hold",
        "",
        f"Made by `benchmarks/yardstick_forecast.py`: {len(rows)} replays, seeds {seeds[0]} to {seeds[-1]}. A replay "
        "asks for a forecast at one number of labels and goes on to two and four times as many; accuracy is measured "
        "on items outside the pool. Half of the replays have 20 % wrong labels, and accuracy is then agreement with "
        "such labels. Intervals are of 95 %; widths are medians and errors means, in points. The constants of the "
        "forecast were chosen on other sets (CIFAR-10, Oxford Pets, SST-2, digits) and seeds (0 to 9).",
        "",
    ]
    head = "| | labels | replays | intervals hold | width | mean error | gains hold | width | mean absolute error |"
    for group in dict.fromkeys(line["group"] for line in summary(rows)):
        lines += [f"## {group[:1].upper()}{group[1:]}", "", head, "|---|---|---|---|---|---|---|---|---|"]
        for line in (line for line in summary(rows) if line["group"] == group):
            gain = ["", "", ""]
            if "gain holds" in line:
                gain = [
                    f"{line['gain holds']:.0%}",
                    f"{100 * line['gain width']:.1f}",
                    f"{100 * line['gain error']:.1f}",
                ]
            cells = [CASES[line["case"]], line["labels"], str(line["replays"]), f"{line['holds']:.0%}"]
            cells += [f"{100 * line['width']:.1f}", f"{100 * line['error']:+.1f}", *gain]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += [
        "## The rule that the forecast replaces",
        "",
        f"Stop when agreement with the labels rises by no more than the width of its interval. It stops in "
        f"{found['stops']} of {found['replays']} replays with picks by margin. Four times as many labels would have "
        f"brought {100 * found['mean gain lost']:.1f} points there on average, and 5 points or more in "
        f"{found['5 points or more']}.",
    ]
    return "\n".join(lines) + "\n"


def save(rows: list[dict[str, Any]], out: Path) -> None:
    """Write the rows."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"version": ncalr.__version__, "rows": rows}, separators=(",", ":")) + "\n")


def write() -> None:
    """Write docs/results/forecast.md."""
    rows = json.loads((ROOT / "results" / "yardstick" / "forecast.json").read_text())["rows"]
    (ROOT / "docs" / "results" / "forecast.md").write_text(page(rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=REPORT)
    parser.add_argument("--seeds", nargs=2, type=int, default=(100, 104), help="first, and one past the last")
    parser.add_argument("--part", nargs=2, type=int, default=(0, 1), help="which part of how many, to run several")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--merge", type=Path, nargs="+", help="make the page of these files, without a run")
    given = parser.parse_args()
    if given.merge:
        rows = [row for path in given.merge for row in json.loads(path.read_text())["rows"]]
        rows = sorted((row for row in rows if row["seed"] in range(*given.seeds)), key=lambda row: row["seed"])
        print(page(rows))
        if given.out:
            save(rows, given.out)
        return
    jobs = [
        (name, seed, wrong, strategy, labels)
        for seed in range(*given.seeds)
        for name in given.sets
        for labels in SIZES[name]
        for wrong in (0.0, 0.2)
        for strategy in ("margin", "random")
    ]
    rows = []
    part, parts = given.part
    for at, (name, seed, wrong, strategy, labels) in enumerate(jobs):
        if at // 2 % parts != part:
            continue
        found = Replay(name, seed, wrong, strategy, labels).run()
        about = {"set": name, "seed": seed, "wrong": wrong, "picks": strategy, "labels": labels}
        rows.append({**about, **rounded(found)})
        print(about, [round(share, 3) for share in found["truth"]], round(found["seconds"], 1), flush=True)
        if given.out:
            save(rows, given.out)
    print(page(rows))


def rounded(value: Any) -> Any:
    """Return plain data with four digits behind the point."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
