"""The door: features, logits and some labels in, the next k ids out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ncalr.acquire import door
from ncalr.acquire.copies import UNSEEN, Copies, distinct, note_kept
from ncalr.acquire.evidence import Evidence
from ncalr.acquire.lottery import Lottery
from ncalr.acquire.registry import Plan, Strategy
from ncalr.acquire.rehearsal import rehearsed
from ncalr.acquire.remarks import idle, unheard
from ncalr.acquire.scoring import score
from ncalr.acquire.select.top_k import best
from ncalr.acquire.spec import Spec
from ncalr.errors import whole_number
from ncalr.geometry.robust import robust_statistics
from ncalr.geometry.statistics import ClassStatistics
from ncalr.kernels import choose, to_numpy
from ncalr.types import Picks, Scored, Selection


def query(
    strategy: str | Spec | Strategy,
    k: int,
    *,
    features: Any = None,
    logits: Any = None,
    probs: Any = None,
    predictions: Any = None,
    checkpoint_predictions: Any = None,
    flips: Any = None,
    sampled_probs: Any = None,
    mean_probs: Any = None,
    enhanced: Any = None,
    labelled_features: Any = None,
    labels: Any = None,
    labelled_logits: Any = None,
    labelled_probs: Any = None,
    labelled_enhanced: Any = None,
    statistics: Any = None,
    classes: int | None = None,
    ids: Any = None,
    exclude: Any = None,
    seed: int | Sequence[int] = 0,
    device: Any = None,
    least: int = 0,
    **options: Any,
) -> Picks:
    """The k pool items to label next, most wanted first.

    `strategy` is a name (`ncalr strategies` lists them) or a spec such as `"ncal(fusion=rank)"`; options may also be
    given as keywords, `select=` among them. Arrays are NumPy or torch, in memory, memory-mapped or on a GPU; the table
    in `ncalr.acquire.evidence` says what each is, and only what the strategy needs is read. `copies="drop"` picks at
    most one of a group of near-copies, and none of a labelled item, by `features` and `labelled_features`
    (`ncalr.acquire.copies`). `ids` name the pool items (positions if none are given), `exclude` lists ids not to pick
    (a note says how many are of no pool item), `seed` decides ties and draws. `device` is where to compute ("cpu",
    "cuda"); without it, where the arrays are. `least` asks for so many of the least wanted items too, for somebody who
    wants to see the other end.

    >>> import numpy as np
    >>> probs = np.array([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]])
    >>> query("margin", 2, probs=probs, ids=["a", "b", "c"]).ids.tolist()
    ['b', 'c']
    """
    given = {
        "features": features,
        "logits": logits,
        "probs": probs,
        "predictions": predictions,
        "checkpoint_predictions": checkpoint_predictions,
        "flips": flips,
        "sampled_probs": sampled_probs,
        "mean_probs": mean_probs,
        "enhanced": enhanced,
        "labelled_features": labelled_features,
        "labels": labels,
        "labelled_logits": labelled_logits,
        "labelled_probs": labelled_probs,
        "labelled_enhanced": labelled_enhanced,
        "statistics": statistics,
    }
    plan = rehearsed(strategy, options)
    arrays = door.as_arrays(given, named=ids is not None)
    n = door.pool_size(arrays, ids)
    class_count = door.count_classes(arrays, classes)
    names = door.read_ids(ids, n)
    rows, notes = door.open_positions(names, exclude)
    open_ids = names if isinstance(rows, slice) else names[rows]
    k = door.check_k(k, len(open_ids), n - len(open_ids))
    least = whole_number("least", least, 0)
    door.check_needs(plan, arrays)
    door.check_labelled(arrays, plan.needs)
    backend = choose(device, arrays.values())
    kept = {name: arrays[name] for name in door.used(plan, arrays)}
    for name, array in kept.items():
        door.check_values(name, array)
    if plan.means != "mean" and "statistics" not in kept:
        kept["statistics"] = statistics_of(plan, kept["labelled_features"], kept["labels"], class_count)
    evidence = Evidence(kept, backend, len(open_ids), class_count, rows)
    door.check_finite(plan, evidence)
    picks = pick(plan, evidence, k, open_ids, seed, least)
    notes += (*door.note_logits(kept), *door.note_labels(plan, arrays, classes))
    return replace(picks, notes=(*notes, *picks.notes))


def statistics_of(plan: Plan, features: Any, labels: Any, classes: int) -> ClassStatistics:
    """Class statistics of the labelled items, their means found as the plan says."""
    if plan.means == "mean":
        return ClassStatistics.from_labelled(features, labels, classes)
    return robust_statistics(to_numpy(features), to_numpy(labels), classes, method=plan.means)  # type: ignore[arg-type]


def pick(plan: Plan, evidence: Evidence, k: int, ids: Any, seed: int | Sequence[int], least: int = 0) -> Picks:
    """Score, select, and turn positions into ids."""
    if not plan.strategy.rowwise or plan.select.needs:
        held = {name: a if name == "statistics" else evidence.backend.hold(a) for name, a in evidence.given.items()}
        evidence = evidence.changed(**held)
    return picks_of(plan, evidence, score(plan, evidence), k, ids, seed, least)


def picks_of(
    plan: Plan, evidence: Evidence, scored: Scored, k: int, ids: Any, seed: int | Sequence[int], least: int = 0
) -> Picks:
    """Select among scored items: the one place where positions become ids."""
    lottery = Lottery(seed, ids)
    chosen = _chosen(plan, evidence, scored, k, lottery)
    if plan.unheard:
        scored = Scored(None)
    chosen = replace(chosen, notes=(*chosen.notes, *_notes(plan, evidence, scored)))
    picks = _picks(plan, evidence, scored, chosen, ids)
    if not least or scored.scores is None:
        return picks
    other_end = Selection(best(0.0 - scored.scores, min(least, len(ids)), evidence, lottery))
    return replace(picks, least=_picks(plan, evidence, scored, other_end, ids))


def _chosen(plan: Plan, evidence: Evidence, scored: Scored, k: int, lottery: Lottery) -> Selection:
    """Select, without near-copies where the plan says so; where it does not, a note counts them."""
    seen = evidence.only(plan.select.needs | plan.select.wants)

    def select(rest: Any, count: int) -> Selection:
        if len(rest) == evidence.n:
            return plan.select(scored, seen, count, lottery)  # type: ignore[no-any-return]
        part: Selection = plan.select(scored.at(rest), seen.at(rest), count, lottery.at(rest))
        return replace(part, positions=rest[part.positions])

    drops = plan.copies == "drop"
    if "features" not in evidence.given:
        chosen = select(range(evidence.n), k)
        return replace(chosen, notes=(*chosen.notes, UNSEEN)) if drops else chosen
    copies = Copies.of(evidence, lottery, labelled=drops and "labelled_features" in evidence.given)
    if drops:
        return distinct(select, evidence.n, k, copies)
    chosen = select(range(evidence.n), k)
    return replace(chosen, notes=(*chosen.notes, *note_kept(copies, chosen.positions)))


def _notes(plan: Plan, evidence: Evidence, scored: Scored) -> tuple[str, ...]:
    """What to say about scores that had no part in it, and parts of them that tell nothing."""
    deaf = unheard(plan.strategy.name, plan.select.selector.name) if plan.unheard else ()
    several = len(scored.parts) > 1 and evidence.n > 1
    flat = [name for name, part in scored.parts.items() if several and bool(part.max() == part.min())]
    return (*deaf, *idle(flat, scored.parts))


def _picks(plan: Plan, evidence: Evidence, scored: Scored, chosen: Selection, ids: Any) -> Picks:
    values = {name: _at(evidence, part, chosen) for name, part in scored.parts.items()}
    scores = chosen.values if chosen.values is not None else _at(evidence, scored.scores, chosen)
    return Picks(ids[chosen.positions], scores, values, str(plan.spec), chosen.notes)


def _at(evidence: Evidence, values: Any, chosen: Selection) -> Any:
    if values is None:
        return np.zeros(len(chosen.positions))
    return evidence.backend.numpy(values[chosen.positions]).astype(np.float64)
