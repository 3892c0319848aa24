"""Arrays and texts as callers pass them: `query`, `suggest`, audits, `Recorder`, votes, specs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from harness import Attempt, Draw, door, odd_value, rng_of
from hypothesis import strategies as st

import ncalr
from ncalr import votes
from ncalr.acquire import spec
from ncalr.acquire.rehearsal import rehearsed

Arrays = dict[str, Any]


class Liar:
    """Says that it is an array and fails when it is read."""

    shape, dtype, ndim = (5, 3), np.dtype(np.float32), 2

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot be read")

    def __len__(self) -> int:
        return 5


def _torch(array: Any, how: str) -> Any:
    import torch

    try:
        made = torch.from_numpy(np.ascontiguousarray(array))
    except TypeError:
        return array
    match how:
        case "meta":
            return made.to("meta")
        case "sparse":
            return made.to_sparse()
        case "grad" if made.is_floating_point():
            return made.requires_grad_()
        case "bfloat16" if made.is_floating_point():
            return made.to(torch.bfloat16)
        case "complex" if made.is_floating_point():
            return made.to(torch.complex64)
    return made


DTYPES = (
    "float16", "float32", "float64", "longdouble", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64",
    "bool",
    "complex64", "object", "U", "S", "datetime64[s]", ">f4", ">i8", "V8",
)  # fmt: skip
NUMBERS = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-320, 65504.0, 2.0**31, -1, -2, 255, 256, 65536, 2**40, 0)


def _placed(array: Any, value: Any, at: int) -> Any:
    changed = np.array(array)
    if changed.size:
        try:
            with np.errstate(all="ignore"):
                changed.reshape(-1)[at % changed.size] = value
        except (ValueError, OverflowError, TypeError):
            return changed.astype(object)
    return changed


def _cast(array: Any, dtype: str) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(array).astype(dtype)
    except (ValueError, TypeError):
        return array


def _pandas(array: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(array) if np.ndim(array) == 2 else pd.Series(np.ravel(array))


CHANGES: tuple[Callable[[Any, Any], Any], ...] = (
    *(lambda a, rng, dtype=dtype: _cast(a, dtype) for dtype in DTYPES),
    *(lambda a, rng, value=value: _placed(a, value, rng.randrange(10**6)) for value in NUMBERS),
    *(lambda a, rng, how=how: _torch(a, how) for how in ("plain", "meta", "sparse", "grad", "bfloat16", "complex")),
    lambda a, rng: np.asarray(a).T,
    lambda a, rng: np.ravel(a),
    lambda a, rng: np.asarray(a)[None],
    lambda a, rng: np.asarray(a)[..., None],
    lambda a, rng: np.asarray(a)[:0],
    lambda a, rng: np.asarray(a)[..., :0],
    lambda a, rng: np.asarray(a)[:-1],
    lambda a, rng: np.asarray(a)[..., :-1],
    lambda a, rng: np.concatenate([a, a]) if np.ndim(a) else a,
    lambda a, rng: np.asarray(a)[:1],
    lambda a, rng: np.zeros_like(a),
    lambda a, rng: np.asarray(a)[::-1],
    lambda a, rng: np.asfortranarray(a),
    lambda a, rng: np.broadcast_to(np.float32(0), (10**9, *np.shape(a)[1:])),
    lambda a, rng: np.broadcast_to(np.asarray(a).ravel()[:1], (2**62,)) if np.size(a) else a,
    lambda a, rng: np.asarray(a).tolist(),
    lambda a, rng: tuple(np.asarray(a).tolist()) if np.ndim(a) else a,
    lambda a, rng: [*np.asarray(a).tolist(), [1]] if np.ndim(a) else [a],
    lambda a, rng: iter(np.asarray(a).tolist()) if np.ndim(a) else iter([]),
    lambda a, rng: set(np.ravel(a).tolist()),
    lambda a, rng: dict(enumerate(np.ravel(a).tolist())),
    lambda a, rng: {f"x{i}": value for i, value in enumerate(np.ravel(a).tolist())},
    lambda a, rng: range(len(np.ravel(a))),
    lambda a, rng: np.ma.masked_array(a, mask=np.arange(np.size(a)).reshape(np.shape(a)) % 3 == 0),
    lambda a,
    rng: scipy.sparse.csr_matrix(np.atleast_2d(a)) if np.ndim(a) < 3 and np.asarray(a).dtype.kind in "fiu" else a,
    lambda a,
    rng: scipy.sparse.coo_array(np.atleast_2d(a)) if np.ndim(a) < 3 and np.asarray(a).dtype.kind in "fiu" else a,
    lambda a, rng: np.asmatrix(a) if np.ndim(a) < 3 else a,
    lambda a, rng: _pandas(a) if np.ndim(a) < 3 else a,
    lambda a, rng: [Decimal(1)] * len(np.ravel(a)),
    lambda a, rng: [2**70] * len(np.ravel(a)),
    lambda a, rng: [None] * len(np.ravel(a)),
    lambda a, rng: ["cat", "dog"] * len(np.ravel(a)),
    lambda a, rng: Liar(),
    lambda a, rng: np.float32(1.0),
    lambda a, rng: memoryview(np.ascontiguousarray(a)),
    lambda a, rng: b"bytes",
    lambda a, rng: lambda: None,
    lambda a, rng: np.random.default_rng(0),
    lambda a, rng: odd_value(rng, Path("/nowhere/inside")),
)  # fmt: skip
COUNTS = (
    0,
    -1,
    1,
    3,
    True,
    2.0,
    2.5,
    np.int64(2),
    np.uint8(2),
    np.float64(2),
    "3",
    None,
    float("nan"),
    10**30,
    [3],
    np.array(2),
    np.array([2]),
)
SEEDS = (0, 1, -1, 2**64, 10**30, 1.5, "a", None, [1, 2], [], [[1]], True, np.int64(3), float("nan"))


def _odd_argument(name: str, value: Any, rng: Any, place: Path) -> Any:
    """What a caller may pass by mistake in the place of a valid argument."""
    if name in ("k", "classes", "least", "folds", "draws", "items", "level", "confidence"):
        return rng.choice(COUNTS)
    if name == "seed":
        return rng.choice(SEEDS)
    if name in ("strategy", "recipe"):
        return rng.choice((odd_value(rng, place), odd_spec(rng), "", "no_such", 3, None))
    if name == "device":
        return rng.choice(("cpu", "cuda", "cuda:99", "tpu", "", 3, odd_value(rng, place)))
    if value is None:
        return odd_value(rng, place)
    try:
        return rng.choice(CHANGES)(value, rng)
    except Exception:  # there is no such change of what was changed before
        return None


def _some_odd(draw: Draw, given: Arrays, place: Path, most: int = 2) -> bool:
    """Replace some arguments by odd ones; whether any was."""
    edits = draw(st.integers(0, most))
    rng = rng_of(draw)
    for _ in range(edits):
        name = draw(st.sampled_from(sorted(given)))
        given[name] = _odd_argument(name, given[name], rng, place)
    return bool(edits)


# Picks


EVIDENCE = ("features", "logits", "checkpoint_predictions", "sampled_probs", "enhanced")


def _evidence(numbers: Any, n: int, m: int, d: int, c: int) -> tuple[Arrays, Arrays]:
    """What is known of a pool and of its labelled items."""
    pool = {
        "features": numbers.normal(size=(n, d)),
        "logits": numbers.normal(size=(n, c)),
        "checkpoint_predictions": numbers.integers(0, c, (4, n)),
        "sampled_probs": numbers.dirichlet(np.ones(c), (3, n)),
        "enhanced": numbers.normal(size=(n, d)),
    }
    labelled = {
        "labelled_features": numbers.normal(size=(m, d)),
        "labels": np.arange(m) % c,
        "labelled_logits": numbers.normal(size=(m, c)),
        "labelled_enhanced": numbers.normal(size=(m, d)),
    }
    as_kind = numbers.choice(["float32", "float64", "float16"])
    return tuple(
        {k: v.astype(as_kind) if v.dtype.kind == "f" else v for k, v in one.items()} for one in (pool, labelled)
    )  # type: ignore[return-value]


VARIANTS = (
    "ncal(fusion=rank)", "ncal(fusion=winsor)", "ncal(sign=-1, center=True, counts=neutral)", "ncal(means=trimmed)",
    "ncal(select=quota)", "ncal(select=stochastic_top_k)", "ncal(select=filtered(then=kmeans_pp))",
    "ncal(select=sequential(shortlist=2))", "coreset(select=kmeans_pp)",
)  # fmt: skip


def strategy_of(draw: Draw) -> str:
    return str(draw(st.sampled_from([*ncalr.strategies(), *VARIANTS])))


def _listed(values: Any) -> list[Any] | None:
    try:
        return np.asarray(values).ravel().tolist() if hasattr(values, "dtype") else list(values)
    except Exception:
        return None


def check_picks(found: Any, k: Any, ids: Any, excluded: Any) -> None:
    """Distinct ids of the pool, k of them, none of those that are excluded, each with a finite score."""
    got = found.ids.tolist()
    assert len(got) == len(found) == k, f"{len(got)} picks instead of {k!r}"
    assert len(set(got)) == len(got), "an id was picked twice"
    known, out = _listed(ids), _listed([] if excluded is None else excluded)
    assert known is None or {str(one) for one in got} <= {str(one) for one in known}, "an id that is not of the pool"
    assert out is None or not {str(one) for one in got} & {str(one) for one in out}, "an excluded id was picked"
    assert np.isfinite(found.scores).all(), "a score is not finite"
    assert len(found.rows()) == len(got)
    repr(found)


@door(examples=40, share=0.03)
def query(draw: Draw, place: Path) -> Attempt:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(4, 14)), draw(st.integers(3, 8))
    d, c = draw(st.integers(2, 4)), draw(st.integers(2, 3))
    pool, labelled = _evidence(numbers, n, m, d, c)
    names = draw(st.sampled_from([None, np.arange(100, 100 + n), np.array([f"item {i}" for i in range(n)])]))
    known = np.arange(n) if names is None else names
    out = draw(st.sampled_from([None, known[:1], known[-2:].tolist()]))
    given: Arrays = {**pool, **labelled, "ids": names, "exclude": out, "seed": draw(st.integers(0, 9)), "classes": None}
    given |= {"strategy": strategy_of(draw), "k": draw(st.integers(1, n - 2)), "least": 0}
    odd = _some_odd(draw, given, place)
    if odd and draw(st.integers(0, 4)) == 0:
        option = draw(st.sampled_from(("select", "fusion", "sign", "x", "space", "multiple")))
        given[option] = odd_value(rng_of(draw), place)

    def holds(found: Any) -> None:
        check_picks(
            found,
            given["k"],
            known if odd and given["ids"] is None else given["ids"] if odd else known,
            given["exclude"],
        )
        if odd:
            return
        again = ncalr.query(**given)
        assert again.ids.tolist() == found.ids.tolist(), "the same call gives other ids"
        if names is not None:
            turn = numbers.permutation(n)
            moved = {
                name: a[:, turn] if name in ("checkpoint_predictions", "sampled_probs") else a[turn]
                for name, a in pool.items()
            }
            turned = ncalr.query(**{**given, **moved, "ids": names[turn]})
            assert turned.ids.tolist() == found.ids.tolist(), "rows in another order give other ids"

    return Attempt(lambda: ncalr.query(**given), holds, must=not odd)


PLAIN = ("random", "coreset", "typiclust", "probcover", "maxherding")
TRAINED = ("ncal_coverage", "ncal", "margin", "badge", "entropy", "cdal", "bald", "ncal(select=quota)")


@door(examples=20, share=0.006)
def suggest(draw: Draw, place: Path) -> Attempt:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, c = draw(st.integers(8, 20)), draw(st.integers(2, 3))
    labelled = draw(st.integers(0, n - 3 - c))
    classes = np.arange(n) % c
    features = (numbers.normal(size=(n, 3)) + 2 * classes[:, None]).astype(
        numbers.choice(["float32", "float64", "float16"])
    )
    known = (numbers.permutation(n) < labelled) | (np.arange(n) < c)  # some of each class
    plain = draw(st.integers(0, 6)) > 0
    names = draw(st.sampled_from([None, np.arange(50, 50 + n), np.array([f"item {i}" for i in range(n)])]))
    ids = np.arange(n) if names is None else names
    form = draw(st.sampled_from(("numbers", "unsigned", "names", "by id", "none")))
    labels: Any = np.where(known, classes, -1)
    match form:
        case "names":
            labels = ["abc"[one] if one >= 0 else "" for one in labels]
        case "by id":
            labels = {one: int(label) for one, label in zip(ids.tolist(), labels, strict=True) if label >= 0}
        case "unsigned":
            labels = {one: np.uint64(label) for one, label in zip(ids.tolist(), labels, strict=True) if label >= 0}
        case "none" if plain:
            labels, known = None, np.zeros(n, bool)
    free = ids[~known]
    out = draw(st.sampled_from([None, free[:1]]))
    given: Arrays = {
        "features": features,
        "labels": labels,
        "ids": names,
        "exclude": out,
        "classes": None,
        "device": None,
    }
    given |= {"k": draw(st.integers(1, len(free) - 1)), "seed": draw(st.integers(0, 9))}
    given["strategy"] = draw(st.sampled_from(PLAIN if plain else TRAINED))
    odd = _some_odd(draw, given, place)

    def holds(found: Any) -> None:
        check_picks(
            found,
            given["k"] if given["k"] is not None else len(found),
            ids if given["ids"] is names else given["ids"],
            given["exclude"],
        )
        if odd:
            return
        assert not set(found.ids.tolist()) & set(ids[known].tolist()), "an item that has a label was picked"
        assert ncalr.suggest(**given).ids.tolist() == found.ids.tolist(), "the same call gives other ids"
        if plain and names is not None:  # a training adds its sums up in another order
            turn = numbers.permutation(n)
            moved = labels if isinstance(labels, dict) or labels is None else np.asarray(labels, object)[turn].tolist()
            turned = ncalr.suggest(**{**given, "features": features[turn], "labels": moved, "ids": names[turn]})
            assert turned.ids.tolist() == found.ids.tolist(), "rows in another order give other ids"

    return Attempt(lambda: ncalr.suggest(**given), holds, must=not odd)


# Audits


def _check_audit(found: Any, ids: list[Any]) -> None:
    assert found.ids.tolist() == ids, "other ids than those of the labels"
    assert sorted(found.order.tolist()) == list(range(len(ids))), "the order is not one of all labels"
    assert ((found.wrong >= 0) & (found.wrong <= 1)).all(), "a chance of being wrong is none"
    assert (np.diff(found.wrong[found.order]) <= 0).all(), "not the most doubtful first"
    share = found.share
    assert share is None or 0 <= share.low <= share.high <= 1, "the share is not an interval"
    assert [row["rank"] for row in found.rows()] == list(range(1, len(ids) + 1)), "not one row a label"
    repr(found)


@door(examples=40, share=0.025)
def audit(draw: Draw, place: Path) -> Attempt:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, c, d = draw(st.integers(12, 30)), draw(st.integers(2, 3)), draw(st.integers(2, 4))
    labels = np.arange(n) % c
    vectors = draw(st.integers(0, 9)) == 0
    given: Arrays = {
        "features": numbers.normal(size=(n, d)) + labels[:, None],
        "labels": labels,
        "logits": None if vectors else numbers.normal(size=(n, c)) + 2 * np.eye(c)[labels],
        "log": draw(st.sampled_from((None, numbers.normal(size=(6, n, c))))),
        "ids": draw(st.sampled_from((None, np.array([f"item {at}" for at in range(n)])))),
        "seed": 0,
        "classes": draw(st.sampled_from((None, c))),
        "folds": draw(st.sampled_from((None, np.repeat([0, 1], n)[:n]))),
        "confidence": 0.9,
        "rivals": (),
    }
    form = draw(st.sampled_from(("numbers", "names", "unsigned", "some")))
    if form == "names":
        given["labels"] = ["abc"[one] for one in labels]
    elif form == "unsigned":
        given["labels"] = labels.astype("uint64")
    elif form == "some":
        given["labels"] = np.where(np.arange(n) == n - 1, -1, labels)
    odd = _some_odd(draw, given, place)

    def holds(found: Any) -> None:
        if odd:
            repr(found)
            assert np.isfinite(found.wrong).all(), "a chance is not finite"
            return
        ids = (np.arange(n) if given["ids"] is None else given["ids"])[: n - (form == "some")]
        _check_audit(found, ids.tolist())
        again = ncalr.audit(**given)
        assert (again.wrong == found.wrong).all(), "the same call gives other chances"

    return Attempt(lambda: ncalr.audit(**given), holds, must=not odd)


@door(examples=10, share=0.003)
def forecast(draw: Draw, place: Path) -> Attempt:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, labelled = draw(st.integers(40, 60)), draw(st.integers(24, 30))
    classes = np.arange(n) % 2
    given: Arrays = {
        "features": (numbers.normal(size=(n, 3)) + 2 * classes[:, None]).astype(np.float32),
        "labels": np.where(numbers.permutation(n) < labelled, classes, -1),
        "k": draw(st.sampled_from((None, 5, [2, 8]))),
        "control": 1.0,
        "ids": None,
        "classes": None,
        "exclude": None,
        "target": draw(st.sampled_from((None, 0.8))),
        "wrong": 0.0,
        "confidence": 0.9,
        "seed": 0,
    }
    _some_odd(draw, given, place)

    def holds(found: Any) -> None:
        repr(found)
        assert 0 <= found.now.low <= found.now.accuracy <= found.now.high <= 1, "the accuracy is not in its interval"

    return Attempt(lambda: ncalr.forecast(**given), holds)


# Checkpoints


@door(examples=60, share=0.06)
def recorder(draw: Draw, place: Path) -> Attempt:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, c, t = draw(st.integers(1, 12)), draw(st.sampled_from((2, 3, 300))), draw(st.integers(2, 5))
    keep = draw(st.sampled_from((("flips",), ("predictions",), ("probs",), ("logits",), ("flips", "logits"))))
    log = numbers.normal(size=(t, n, c)).astype(np.float32)
    given: Arrays = {"items": n, "classes": c, "keep": keep, "rows": slice(None), "labels": np.arange(n) % c}
    given |= {f"step{at}": step for at, step in enumerate(log)}
    odd = _some_odd(draw, given, place, most=1)
    order = numbers.permutation(n)

    def call() -> Any:
        made = ncalr.Recorder(given["items"], given["classes"], given["keep"])
        for at in range(t):
            step = given[f"step{at}"]
            if at % 2 and not odd:
                made.add(order[: n // 2], step[order[: n // 2]])
                made.add(order[n // 2 :], step[order[n // 2 :]])
            else:
                made.add(given["rows"], step)
            made.close()
        found: Arrays = {"flips": made.flips(), "predictions": made.predictions, "repr": repr(made)}
        if "logits" in keep:
            found |= {"aum": made.aum(given["labels"]), "variance": made.variance(), "mean": made.mean_probs()}
        if {"logits", "predictions"} & set(keep):
            found["forgotten"] = made.forgetting_events(given["labels"])
        other = ncalr.Recorder(given["items"], given["classes"], given["keep"])
        other.restore(made.state())
        assert (other.flips() == found["flips"]).all(), "a restored recorder knows other flips"
        return found

    def holds(found: Any) -> None:
        if odd:
            return
        predicted = log.argmax(axis=2)
        assert found["predictions"].tolist() == predicted[-1].tolist(), "other predictions than the largest logits"
        assert found["flips"].tolist() == (np.diff(predicted, axis=0) != 0).sum(axis=0).tolist(), (
            "another count of flips"
        )

    return Attempt(call, holds, must=not odd)


# Annotators


METHODS = ("majority", "dawid_skene", "one_coin", "glad")


@door(examples=60, share=0.08)
def annotators(draw: Draw, place: Path) -> Attempt:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, a, c = draw(st.integers(2, 8)), draw(st.integers(2, 4)), draw(st.integers(2, 3))
    table = numbers.integers(-1, c, (n, a))
    table[0, :2] = 0
    given: Arrays = {
        "labels": table,
        "classes": c,
        "items": [f"i{at}" for at in range(n)],
        "annotators": None,
        "seed": 0,
    }
    given["probs"] = numbers.dirichlet(np.ones(c), n)
    method = draw(st.sampled_from((*METHODS, "crowdlab", "fleiss", "krippendorff", "long")))
    odd = _some_odd(draw, given, place)

    def call() -> Any:
        if method == "long":
            rows, columns = np.nonzero(table >= 0)
            return (
                votes.Votes.from_long(np.asarray(given["items"])[rows], columns, table[rows, columns], given["classes"])
                if not odd
                else votes.Votes.from_long(given["items"], given["annotators"], given["labels"], given["classes"])
            )
        said = votes.Votes.from_matrix(
            given["labels"], given["classes"], items=given["items"], annotators=given["annotators"]
        )
        if method == "crowdlab":
            return votes.crowdlab(said, given["probs"], seed=given["seed"])
        if method in ("fleiss", "krippendorff"):
            return getattr(votes, method)(said, draws=20, seed=given["seed"])
        return votes.aggregate(said, method, seed=given["seed"])

    def holds(found: Any) -> None:
        repr(found)
        if odd or method in ("long", "fleiss", "krippendorff"):
            return
        np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0, atol=1e-6)
        answered = (table >= 0).any(axis=1)
        assert ((found.labels >= 0) == answered).all(), "a label without an answer, or none with one"
        assert found.labels.max() < c
        found.rows()

    return Attempt(call, holds, must=not odd and method != "crowdlab")


# Texts that name something with options


WORDS = (
    "ncal", "random", "filtered", "fusion", "rank", "select", "then", "sign", "multiple", "quota", "size", "file",
    "(", ")", "(",
    ")", "=", ",", "[", "]", "'", '"', "1", "-1", "1e999", "0x10", "1_000", "true", "none", "None", "nan", "**x",
    "*x", "\\", "\0",
    "\n", " ", "#", "lambda: 0", "f'{x}'", "a.b", "__import__('os')", "ª", "\ud800", "\u202e", "1j", "...", "b'x'",
    "{1: 2}", "{1}",
    "1+2j", "9" * 5000, "symmetric", "rate=0.2", "annotators(file='x.npz', labels=[a])", "given", "repeated",
    "doubts", "digits",
)  # fmt: skip


def odd_spec(rng: Any) -> str:
    """A text that is nearly a spec, or far from one."""
    match rng.randrange(6):
        case 0:
            return "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12)))
        case 1:
            depth = rng.choice((5, 90, 500, 20_000))
            return "ncal(select=" * depth + "random" + ")" * depth
        case 2:
            return f"ncal(x={rng.choice(('[', '(', '-', '1+', 'not ', 'a.')) * rng.choice((5, 90, 500, 20_000))})"
        case 3:
            return f"{rng.choice(WORDS)}({rng.choice(WORDS)}={rng.choice(WORDS)})"
        case 4:
            return f"ncal(fusion={rng.choice(WORDS)}, sign={rng.choice(WORDS)}, center={rng.choice(WORDS)})"
    return "ncal(select=filtered(multiple=3))"[: rng.randrange(34)] + rng.choice(WORDS)


VALUES = st.recursive(
    st.one_of(st.integers(-(2**63), 2**63), st.floats(allow_nan=False), st.booleans(), st.none(), st.text(max_size=6)),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@door(examples=100, share=0.11)
def specs(draw: Draw, place: Path) -> Attempt:
    from ncalr.lab.experiment import Experiment
    from ncalr.learn.recipes import recipe
    from ncalr.loop.answers import policy
    from ncalr.loop.stopping import stops_of
    from ncalr.oracles import Truth, oracle_of

    if draw(st.integers(0, 2)) == 0:
        made = spec.Spec("name", draw(st.dictionaries(st.sampled_from(("a", "b", "select")), VALUES, max_size=3)))

        def same(found: Any) -> None:
            assert repr(found) == repr(made), f"{made} is read as {found}"

        return Attempt(lambda: spec.parse(str(made)), same, must=True)
    text: Any = odd_spec(rng_of(draw)) if draw(st.integers(0, 20)) else odd_value(rng_of(draw), place)
    truth = Truth(np.arange(6), np.arange(6) % 2, 2)
    doors: dict[str, Callable[[], Any]] = {
        "parse": lambda: spec.parse(text),
        "rehearsed": lambda: rehearsed(text, {}),
        "split": lambda: [spec.cut(part) for part in spec.split(text)] if isinstance(text, str) else None,
        "query": lambda: ncalr.query(text, 1, features=np.eye(3)),
        "suggest": lambda: ncalr.suggest(np.eye(6), None, 1, text),
        "noise": lambda: oracle_of(text, truth, 0, place),
        "policy": lambda: policy(text),
        "stops": lambda: stops_of(text),
        "recipe": lambda: recipe(text),
        "experiment": lambda: Experiment(strategies=("random", text)),
        "answers": lambda: Experiment(answers=text, noise=text),
    }
    which = draw(st.sampled_from(sorted(doors)))
    return Attempt(doors[which])
