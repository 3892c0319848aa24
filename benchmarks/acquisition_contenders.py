"""One measurement in one process: `python acquisition_contenders.py CASE LIBRARY FOLDER`, JSON on the last line.

A contender prepares its input in the layout its library likes and returns the call to be timed. It runs first on a
few items (imports, compiled kernels, thread pools), then on the case. Peers that want a classifier get one that hands
out the stored probabilities.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import resource
import statistics
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
from acquisition_cases import CASES, COVER_RADIUS, REGISTRY, SPREAD_CLUSTERS, Case, first_rows, read_data, smaller

Data = dict[str, Any]
Call = Callable[[], Any]
Contender = Callable[[Data, int], Call]

MEMORY_LIMIT = 12 << 30
DISTURBED = 0.2
"""Cores that other processes had during a measurement, from which on it counts as disturbed."""
WARM_ITEMS, WARM_PICKS = 6000, 20
FEWEST, SHORTEST, LONGEST = 5, 2.0, 10.0
"""Five calls and at least two seconds of them, unless ten seconds are over before."""
PACKAGES = {"apricot": "apricot-select", "modAL": "modAL-python"}
BLOCK, ROW_BLOCK = 8192, 1024


# -- ours -----------------------------------------------------------------------------------------------------


def ours(strategy: str, **options: Any) -> Contender:
    """`ncalr.query` with everything the case has; it reads what the strategy needs."""

    def prepare(data: Data, k: int) -> Call:
        import ncalr

        given = dict(data)
        if "logits" in given:  # the case of every strategy: SISOM is given the features as its enhanced features
            given |= {"enhanced": data["features"], "labelled_enhanced": data["labelled_features"]}
        return lambda: ncalr.query(strategy, k, **given, **options).ids

    return prepare


# -- plain NumPy ----------------------------------------------------------------------------------------------


def numpy_coreset(data: Data, k: int) -> Call:
    """One matrix-vector pass a pick."""

    def run() -> Any:
        features, labelled = data["features"], data["labelled_features"]
        norms = np.einsum("nd,nd->n", features, features)
        labelled_norms = np.einsum("nd,nd->n", labelled, labelled)
        nearest = np.empty_like(norms)
        for start in range(0, len(features), BLOCK):
            rows = slice(start, start + BLOCK)
            nearest[rows] = norms[rows] + (labelled_norms - 2 * (features[rows] @ labelled.T)).min(axis=1)
        picks = []
        for _ in range(k):
            at = int(nearest.argmax())
            picks.append(at)
            distance = features @ features[at]
            distance *= -2
            distance += norms
            distance += norms[at]
            np.minimum(nearest, distance, out=nearest)
            nearest[at] = -np.inf
        return np.array(picks)

    return run


def numpy_badge(data: Data, k: int) -> Call:
    """k-means++ seeding on factored gradients: <g, g'> = <q, q'><z, z'>."""

    def run() -> Any:
        features, q = data["features"], data["probs"].copy()
        q[np.arange(len(q)), q.argmax(axis=1)] -= 1
        norms = np.einsum("nd,nd->n", features, features) * np.einsum("nc,nc->n", q, q)
        random = np.random.default_rng(0)
        at = int(norms.argmax())
        picks, nearest = [at], np.full(len(norms), np.inf, np.float32)
        while len(picks) < k:
            distance = features @ features[at]
            distance *= q @ q[at]
            distance *= -2
            distance += norms
            distance += norms[at]
            np.minimum(nearest, np.maximum(distance, 0), out=nearest)
            nearest[at] = 0
            total = np.cumsum(nearest, dtype=np.float64)
            at = int(np.searchsorted(total, random.random() * total[-1], side="right"))
            picks.append(at)
        return np.array(picks)

    return run


def numpy_cdal(data: Data, k: int) -> Call:
    """Farthest-first under the symmetric divergence, two matrix-vector passes (p and log p) a pick."""

    def run() -> Any:
        p, q = (np.maximum(data[name], 1e-8) for name in ("probs", "labelled_probs"))
        log_p, log_q = np.log(p), np.log(q)
        own, labelled_own = np.einsum("nc,nc->n", p, log_p), np.einsum("nc,nc->n", q, log_q)
        nearest = np.empty_like(own)
        for start in range(0, len(p), BLOCK):
            rows = slice(start, start + BLOCK)
            cross = p[rows] @ log_q.T + log_p[rows] @ q.T
            nearest[rows] = own[rows] + (labelled_own - cross).min(axis=1)
        picks = []
        for _ in range(k):
            at = int(nearest.argmax())
            picks.append(at)
            np.minimum(nearest, own + own[at] - p @ log_p[at] - log_p @ p[at], out=nearest)
            nearest[at] = -np.inf
        return np.array(picks)

    return run


def highest(scores: Any, k: int) -> Any:
    """Positions of the k highest scores."""
    return np.argpartition(-scores, k - 1)[:k]


def numpy_margin(data: Data, k: int) -> Call:
    """Sorting small blocks: NumPy's vectorised sort is quicker than its partition for a hundred classes."""

    def run() -> Any:
        probs = data["probs"]
        scores = np.empty(len(probs), np.float32)
        for start in range(0, len(probs), ROW_BLOCK):
            ordered = np.sort(probs[start : start + ROW_BLOCK], axis=1)
            scores[start : start + ROW_BLOCK] = ordered[:, -2] - ordered[:, -1]
        return highest(scores, k)

    return run


def numpy_entropy(data: Data, k: int) -> Call:
    """Small blocks: the logarithms stay in the cache."""

    def run() -> Any:
        probs = data["probs"]
        scores = np.empty(len(probs), np.float32)
        for start in range(0, len(probs), ROW_BLOCK):
            block = probs[start : start + ROW_BLOCK]
            scores[start : start + ROW_BLOCK] = -np.einsum("nc,nc->n", block, np.log(block))
        return highest(scores, k)

    return run


def numpy_bald(data: Data, k: int) -> Call:
    def run() -> Any:
        probs = data["sampled_probs"]
        mean = probs.mean(axis=0)
        inside = np.einsum("snc,snc->n", probs, np.log(probs)) / len(probs)
        return highest(inside - np.einsum("nc,nc->n", mean, np.log(mean)), k)

    return run


def unit_rows(features: Any) -> Any:
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def numpy_probcover(data: Data, k: int) -> Call:
    """The whole table of who lies in whose ball, and counts that fall as items are covered."""

    def run() -> Any:
        rows = unit_rows(data["features"])
        inside = np.empty((len(rows), len(rows)), bool)
        for start in range(0, len(rows), 1024):
            inside[start : start + 1024] = 2 - 2 * (rows[start : start + 1024] @ rows.T) < COVER_RADIUS**2
        counts, covered, picks = inside.sum(axis=1), np.zeros(len(rows), bool), []
        for _ in range(k):
            at = int(counts.argmax())
            picks.append(at)
            fresh = inside[at] & ~covered
            covered |= fresh
            counts -= inside[fresh].sum(axis=0)
            counts[at] = -1
        return np.array(picks)

    return run


def gaussian_kernel(features: Any) -> Any:
    """exp(-|a - b|^2) of unit-length rows, the whole table."""
    rows = unit_rows(features)
    kernel = rows @ rows.T
    kernel -= 1
    kernel *= 2
    return np.exp(kernel, out=kernel)


def numpy_maxherding(data: Data, k: int) -> Call:
    """Lazy greedy on the whole table of the kernel."""

    def run() -> Any:
        kernel = gaussian_kernel(data["features"])
        bounds, best, picks = kernel.sum(axis=1), np.zeros(len(kernel), np.float32), []
        while len(picks) < k:
            at = int(bounds.argmax())
            bounds[at] = np.maximum(kernel[at] - best, 0).sum()
            if bounds.argmax() == at:
                picks.append(at)
                bounds[at] = -np.inf
                np.maximum(best, kernel[at], out=best)
        return np.array(picks)

    return run


def numpy_ncal(data: Data, k: int) -> Call:
    """The paper's printed formula for CMAP, in blocks; FF by comparing neighbouring checkpoints."""

    def run() -> Any:
        features, log = data["features"], data["checkpoint_predictions"]
        labels = data["labels"]
        counts = np.bincount(labels)
        means = np.stack([data["labelled_features"][labels == c].mean(axis=0) for c in range(len(counts))])
        unit = unit_rows(means)
        others = unit.sum(axis=0) - unit
        cmap = np.empty(len(features), np.float32)
        for start in range(0, len(features), BLOCK):
            rows = slice(start, start + BLOCK)
            c = log[-1, rows]
            moved = unit_rows(counts[c, None].astype(np.float32) * means[c] + features[rows])
            cmap[rows] = ((moved - unit[c]) * others[c]).sum(axis=1)
        flips = sum((before != after).astype(np.float32) for before, after in itertools.pairwise(log))
        return highest((cmap - cmap.mean()) / cmap.std() + (flips - flips.mean()) / flips.std(), k)

    return run


# -- scikit-activeml ------------------------------------------------------------------------------------------


def _scikit_classifier(probs: Any) -> Any:
    from skactiveml.base import SkactivemlClassifier

    class Stored(SkactivemlClassifier):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: ARG002 (their signature)
            return self

        def predict_proba(self, X: Any) -> Any:  # noqa: ARG002
            return probs

    made = Stored(classes=list(range(probs.shape[1])))
    made.classes_ = np.arange(probs.shape[1])
    return made


def _no_labels(rows: Any) -> Any:
    return np.full(len(rows), np.nan)


def scikit_coreset(data: Data, k: int) -> Call:
    from skactiveml.pool import CoreSet

    rows = np.concatenate([data["features"], data["labelled_features"]])
    labels = np.concatenate([_no_labels(data["features"]), data["labels"]])
    return lambda: CoreSet(random_state=0).query(rows, labels, batch_size=k)


def scikit_badge(data: Data, k: int) -> Call:
    from skactiveml.pool import Badge

    classifier = _scikit_classifier(data["probs"])
    features = data["features"]
    return lambda: Badge(random_state=0).query(features, _no_labels(features), classifier, fit_clf=False, batch_size=k)


def _scikit_uncertainty(method: str) -> Contender:
    def prepare(data: Data, k: int) -> Call:
        from skactiveml.pool import UncertaintySampling

        classifier = _scikit_classifier(data["probs"])
        names = np.arange(len(data["probs"]), dtype=np.float32)[:, None]
        strategy = UncertaintySampling(method=method, random_state=0)
        return lambda: strategy.query(names, _no_labels(names), classifier, fit_clf=False, batch_size=k)

    return prepare


def scikit_bald(data: Data, k: int) -> Call:
    from skactiveml.pool import GreedyBALD

    ensemble = [_scikit_classifier(sample) for sample in data["sampled_probs"]]
    names = np.arange(data["sampled_probs"].shape[1], dtype=np.float32)[:, None]
    strategy = GreedyBALD(random_state=0)
    return lambda: strategy.query(names, _no_labels(names), ensemble, fit_ensemble=False, batch_size=k)


def scikit_typiclust(data: Data, k: int) -> Call:
    from skactiveml.pool import TypiClust

    features = data["features"]
    return lambda: TypiClust(random_state=0).query(features, _no_labels(features), batch_size=k)


def scikit_probcover(data: Data, k: int) -> Call:
    from skactiveml.pool import ProbCover

    rows = unit_rows(data["features"])
    return lambda: ProbCover(deltas=[COVER_RADIUS], random_state=0).query(rows, _no_labels(rows), batch_size=k)


def scikit_maxherding(data: Data, k: int) -> Call:
    from skactiveml.pool import MaxHerding

    features = data["features"]
    strategy = MaxHerding(metric="rbf", metric_dict={"gamma": 1.0}, random_state=0)
    return lambda: strategy.query(features, _no_labels(features), batch_size=k)


# -- small-text, modAL, baal, apricot -------------------------------------------------------------------------


class Stored:
    """A classifier that hands out what it holds."""

    on_transformed = False

    def __init__(self, probs: Any, training: Any = None) -> None:
        self.probs, self.X_training = probs, training

    def predict_proba(self, dataset: Any, **options: Any) -> Any:  # noqa: ARG002 (their signature)
        return self.probs


def small_coreset(data: Data, k: int) -> Call:
    from small_text import greedy_coreset

    n = len(data["features"])
    rows = np.concatenate([data["features"], data["labelled_features"]])
    pool, labelled = np.arange(n), np.arange(n, len(rows))
    return lambda: greedy_coreset(rows, pool, labelled, k, distance_metric="euclidean")


def small_badge(data: Data, k: int) -> Call:
    from small_text.integrations.pytorch.query_strategies import BADGE

    strategy, pool = BADGE(data["probs"].shape[1]), np.arange(len(data["probs"]))
    return lambda: strategy.sample(None, None, pool, [], [], k, data["features"], data["probs"])


def _small_query(name: str, layout: Callable[[Data], Any]) -> Contender:
    def prepare(data: Data, k: int) -> Call:
        import small_text

        probs = layout(data)
        pool = np.arange(len(probs))
        return lambda: getattr(small_text, name)().query(Stored(probs), pool, pool, pool[:0], pool[:0], n=k)

    return prepare


def modal_coreset(data: Data, k: int) -> Call:
    """Ranked batches with nothing but distance: the uncertainty of every item is 0."""
    from modAL.batch import ranked_batch

    learner = Stored(None, data["labelled_features"])
    flat = np.zeros(len(data["features"]))
    return lambda: ranked_batch(learner, data["features"], flat, k, "euclidean", None)[0]


def _modal_uncertainty(name: str) -> Contender:
    def prepare(data: Data, k: int) -> Call:
        from modAL import uncertainty

        learner = Stored(data["probs"])
        return lambda: getattr(uncertainty, name)(learner, data["probs"], n_instances=k)[0]

    return prepare


def _baal_heuristic(name: str, layout: Callable[[Data], Any]) -> Contender:
    def prepare(data: Data, k: int) -> Call:
        from baal.active import heuristics

        probs = layout(data)
        return lambda: getattr(heuristics, name)()(probs)[:k]

    return prepare


def apricot_maxherding(data: Data, k: int) -> Call:
    from apricot import FacilityLocationSelection

    def run() -> Any:
        kernel = gaussian_kernel(data["features"]).astype(np.float64)  # their compiled loop takes nothing else
        return FacilityLocationSelection(k, metric="precomputed").fit(kernel).ranking

    return run


def _probs(data: Data) -> Any:
    return data["probs"]


def _samples_last(data: Data) -> Any:
    return np.ascontiguousarray(data["sampled_probs"].transpose(1, 2, 0))


def _samples_second(data: Data) -> Any:
    return np.ascontiguousarray(data["sampled_probs"].transpose(1, 0, 2))


CONTENDERS: dict[tuple[str, str], Contender] = {
    ("coreset", "numpy"): numpy_coreset,
    ("coreset", "scikit-activeml"): scikit_coreset,
    ("coreset", "small-text"): small_coreset,
    ("coreset", "modAL"): modal_coreset,
    ("badge", "numpy"): numpy_badge,
    ("badge", "scikit-activeml"): scikit_badge,
    ("badge", "small-text"): small_badge,
    ("cdal", "numpy"): numpy_cdal,
    ("margin", "numpy"): numpy_margin,
    ("margin", "scikit-activeml"): _scikit_uncertainty("margin_sampling"),
    ("margin", "small-text"): _small_query("BreakingTies", _probs),
    ("margin", "modAL"): _modal_uncertainty("margin_sampling"),
    ("margin", "baal"): _baal_heuristic("Margin", _probs),
    ("entropy", "numpy"): numpy_entropy,
    ("entropy", "scikit-activeml"): _scikit_uncertainty("entropy"),
    ("entropy", "small-text"): _small_query("PredictionEntropy", _probs),
    ("entropy", "modAL"): _modal_uncertainty("entropy_sampling"),
    ("entropy", "baal"): _baal_heuristic("Entropy", _probs),
    ("bald", "numpy"): numpy_bald,
    ("bald", "scikit-activeml"): scikit_bald,
    ("bald", "small-text"): _small_query("BALD", _samples_second),
    ("bald", "baal"): _baal_heuristic("BALD", _samples_last),
    ("typiclust", "ncalr, 1000 clusters"): ours("typiclust", select=SPREAD_CLUSTERS),
    ("typiclust", "scikit-activeml"): scikit_typiclust,
    ("probcover", "ncalr"): ours("probcover", select=f"coverage(kernel=ball, radius={COVER_RADIUS})"),
    ("probcover", "numpy"): numpy_probcover,
    ("probcover", "scikit-activeml"): scikit_probcover,
    ("maxherding", "ncalr"): ours("maxherding", select="coverage(radius=1)"),
    ("maxherding", "numpy"): numpy_maxherding,
    ("maxherding", "scikit-activeml"): scikit_maxherding,
    ("maxherding", "apricot"): apricot_maxherding,
    ("ncal", "numpy"): numpy_ncal,
}


def contender(case: Case, library: str) -> Contender:
    """How a library solves a case; in the case of every strategy, the library is the strategy."""
    if case.name == REGISTRY.name:
        return ours(library)
    return CONTENDERS.get((case.method, library)) or ours(case.spec)


# -- measuring ------------------------------------------------------------------------------------------------


class PeakMemory:
    """The largest resident memory since it was made, less what was resident then, in bytes."""

    def __init__(self) -> None:
        self.exact = _forget_peak()
        self.before = self.highest = _status("VmRSS")
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self._watch)
        if not self.exact:  # the kernel does not let us reset its own record: look every 5 ms
            self.watcher.start()

    def _watch(self) -> None:
        while not self.done.wait(0.005):
            self.highest = max(self.highest, _status("VmRSS"))

    def stop(self) -> int:
        self.done.set()
        if self.exact:
            self.highest = _status("VmHWM")
        else:
            self.watcher.join()
        return max(self.highest - self.before, 0)


def _forget_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def busy_seconds() -> float:
    """Processor time that all processes of the machine have had so far, stolen time included."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


class Others:
    """How many cores other processes had since it was made."""

    def __init__(self) -> None:
        self.busy, self.own, self.began = busy_seconds(), time.process_time(), time.perf_counter()

    def cores(self) -> float:
        wall = time.perf_counter() - self.began
        if wall < 0.3:  # the kernel counts in hundredths of a second
            return 0.0
        return max(0.0, busy_seconds() - self.busy - (time.process_time() - self.own)) / wall


def measure(call: Call) -> dict[str, Any]:
    """Median time of the calls that fit, the least processor time of a call, and the memory of the first."""
    seconds: list[float] = []
    processor: list[float] = []
    others, memory = Others(), PeakMemory()
    while not seconds or sum(seconds) < (LONGEST if len(seconds) < FEWEST else SHORTEST):
        start, busy = time.perf_counter(), time.process_time()
        picks = call()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
        if len(seconds) == 1:
            extra = memory.stop()
    return {
        **typical(seconds, others),
        "runs": [round(s, 6) for s in seconds],
        "processor": min(processor),
        "extra_mb": extra / 1e6,
        "picks": np.asarray(picks).tolist(),
    }


def typical(seconds: list[float], others: Others) -> dict[str, float]:
    """The median; where other processes were in the way, the fastest, which they disturbed least."""
    cores = others.cores()
    return {
        "seconds": min(seconds) if cores > DISTURBED else statistics.median(seconds),
        "others_cores": cores,
    }


@numba.njit(parallel=True, fastmath=True)
def sum_rows(rows: Any, sums: Any) -> None:
    """The sum of each row: the floor is one of these over everything that must be read."""
    for i in numba.prange(rows.shape[0]):
        total = rows[i, 0] * 0
        for j in range(rows.shape[1]):
            total += rows[i, j]
        sums[i] = total


def measure_floor(arrays: list[Any]) -> dict[str, Any]:
    """Seconds of one two-thread sum over the arrays, and the speed of a matrix product."""
    seconds, size, most = 0.0, 0, 0.0
    for array in arrays:
        flat = array.reshape(-1)
        if flat.dtype.itemsize < 4:  # halves and bytes are summed as the 32-bit words they lie in
            flat = flat.view(np.uint32)
        rows = flat[: len(flat) // 1024 * 1024].reshape(-1, 1024)
        found = repeated(partial(sum_rows, rows, np.empty(len(rows), rows.dtype)))
        seconds += found["seconds"]
        most = max(most, found["others_cores"])
        size += rows.nbytes
    left = np.ones((4096, 512), np.float32)
    product = repeated(lambda: left @ left.T)
    return {
        "seconds": seconds,
        "bytes": size,
        "flops_a_second": 2.0 * 4096 * 4096 * 512 / product["seconds"],
        "others_cores": max(most, product["others_cores"]),
    }


def repeated(call: Call) -> dict[str, float]:
    """The time of a short call, from as many as fill two seconds."""
    call()
    seconds: list[float] = []
    others = Others()
    while len(seconds) < FEWEST or sum(seconds) < SHORTEST:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return typical(seconds, others)


def run(case: Case, library: str, folder: Path) -> dict[str, Any]:
    """One measurement, or why there is none."""
    data = read_data(case, folder)
    if library == "floor":
        return measure_floor([data[name] for name in case.floor.arrays] if case.floor else [])
    k = case.libraries.get(library) or case.k
    solve = contender(case, library)
    few = min(WARM_PICKS, k)
    solve(first_rows(data, WARM_ITEMS), few)()
    call = solve(data, k)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # or the call would be served from what the warm-up left, and look frugal
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + MEMORY_LIMIT,) * 2)
    return {"k": k, **measure(call)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("library")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    case = next(case for case in [*CASES, REGISTRY] if case.name == given.case)
    if given.quick:
        case = smaller(case)
    try:
        row = run(case, given.library, given.folder)
    except MemoryError:
        row = {"failed": f"out of memory (> {MEMORY_LIMIT >> 30} GB)"}
    except Exception as error:
        small = "can't allocate memory" in str(error)
        row = {"failed": "out of memory" if small else f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    if given.library != "floor" and case.name != REGISTRY.name:
        package = given.library.split(",")[0]
        row["version"] = version(PACKAGES.get(package, package))
    print(json.dumps(row))


if __name__ == "__main__":
    main()
