"""The page of ablations: what becomes of ncal when one thing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import journals
import numpy as np
from beyond import alike
from curves_pages import PAGES_OF, chance
from journals import card_seconds, finished, on_a_card, slices_of
from study import ABLATIONS, SPREAD, VARIANTS, plan, small_sets
from verdicts import NEAR, corrected, could_show, gap, place, signed, table

from ncalr.lab.comparison import passes_of
from ncalr.lab.runner import Run
from ncalr.lab.statistics import Curves, Difference, against_each, estimate
from ncalr.lab.tables import p_value
from ncalr.learn.learner import needs_of
from ncalr.learn.recipes import recipe


def write_ablations() -> str:
    """What becomes of ncal when one thing is changed, set by set, and that in short."""
    found = {name: _ablations(name) for name in ABLATIONS}
    compared = [one for changes, _ in found.values() for one in changes if one.found.seeds >= 3]
    for one, mended in zip(compared, corrected([one.found for one in compared]), strict=True):
        one.found = mended
    wanted = sum(len(VARIANTS) + len(changes) for changes in ABLATIONS.values())
    text = "# Ablations of ncal\n\nMade by `make results` from `results/study`; not to be edited by hand.\n\n"
    text += (
        "One thing is changed at a time. Areas under the curve over the numbers of labels that both have, and accuracies at the largest of them, in points, paired by seed, "
        "with 95 % intervals for each alone. *Could show*: the true difference of areas that so many seeds would have found four times out of five, if it were the only one looked at. "
        f"*Above* and *below*: a paired t-test at 5 %, corrected by Holm's method for all {len(compared)} changes on this page; *level*: the interval lies within "
        f"{100 * NEAR:.0f} point either way; below three seeds nothing is said.\n"
    )
    head = ["changed", "labels", "accuracy", "reference", "area less the reference's", "at the end", "could show"]
    told: dict[str, list[str]] = {"above": [], "below": []}
    for name, (changes, runs) in found.items():
        usual = plan()[name]
        title = next(page.title for page in PAGES_OF if name in page.experiments)
        timed = all(one.cost[1:] for one in changes)  # by a card
        rows = [[*one.row(), *one.cost[: 1 + timed]] for one in changes]
        costs = "".join(f", {cell} {head}" for cell, head in zip(_cost(name, "ncal"), COSTS, strict=False) if rows)
        text += (
            f"\n## {title}\n\nThe reference is `ncal` with `{usual.recipe}`, {usual.step:,} labels a round{costs}.\n\n"
        )
        ends = ["p (Holm)", "seeds", "ncal so changed is", *COSTS[: 1 + timed]]
        text += table([*head, *ends], rows) if rows else "No run has finished yet."
        text += f"\n{chance(runs) if rows else ''}"
        for where, names in told.items():
            stand = [one.change for one in changes if one.where == where]
            names += [f"{', '.join(stand)} ({name})"] if stand else []
    spread, beside = _spread_out()
    text += _on_fresh_seeds() + spread
    (journals.PAGES / "ablations.md").write_text(text)
    done = "; ".join(f"{where} ncal as it is: {', '.join(names)}" for where, names in told.items() if names)
    done = f"{done[:1].upper()}{done[1:]}." if done else "None can be told from ncal as it is."
    said = f"{len(compared)} of {wanted} changes are measured with three seeds or more. {done}{beside}"
    return f"[Ablations of ncal](ablations.md): {said}"


def _on_fresh_seeds() -> str:
    """A lead of the tables above, on seeds of its own: one comparison, so that nothing is to be corrected for."""
    runs = finished(["digits-fresh"])
    own, usual = ([run for run in runs if (run.strategy == "ncal") == which] for which in (False, True))
    one = _ablation(own[0].strategy, own, usual) if own else None
    if one is None or one.found.seeds < plan()["digits-fresh"].seeds:
        return ""
    effect, both = one.found.aubc, alike({"changed": own, "usual": usual}, 2)[0]
    return (
        f"\n## On seeds that nobody had seen\n\nOn the first ten seeds `{one.change}` looked better than ncal on digits. It was asked again, as the only comparison, with "
        f"{one.found.seeds} other seeds: {gap(one.found)} by area (p: {p_value(float(effect.p))}; {could_show(one.found)} could have been shown), {one.row()[5]} at the end. "
        f"ncal so changed is {one.where}. How alike the picks of a round are (the mean cosine of each to the nearest other one): {both['usual']} with ncal, "
        f"{both['changed']} so changed.\n"
    )


def _spread_out() -> tuple[str, str]:
    """Whether spreading its picks out helps ncal: fresh seeds of the small sets, with cdal beside it; and in short."""
    planned = {name: plan()[f"{name}-spread"] for name in small_sets()}
    found: list[tuple[str, Ablation, list[str]]] = []
    for name, wanted in planned.items():
        by: dict[str, list[Run]] = {}
        for run in finished([f"{name}-spread"]):
            by.setdefault(run.strategy, []).append(run)
        for change in (*SPREAD, "cdal") if "ncal" in by else ():
            one = _ablation(change, by.get(change, []), by["ncal"])
            if one and one.found.seeds == wanted.seeds:  # nothing is read before all have run
                both, rounds = alike({which: by[which] for which in (change, "ncal")})
                found.append((name, one, [*both.values(), rounds]))
    asked = [one for _, one, _ in found if one.change in SPREAD]
    if not asked:
        return "", ""
    family = len(SPREAD) * len(planned)  # whether they have run or not
    for one, mended in zip(asked, corrected([one.found for one in asked], family), strict=True):
        one.found = mended
    rows = [[name, one.change, *one.row()[2:9], *both, one.where] for name, one, both in found]
    ways = [(name, one) for name, one, _ in found if one.change in SPREAD]
    stand = [f"{one.change} ({name}) is {one.where}" for name, one in ways if one.where in ("above", "below")]
    short = f" Picks that are spread out, on fresh seeds: {'; '.join(stand) or 'neither above nor below'}."
    head = ["set", "strategy", "accuracy", "ncal", "area less ncal's", "at the end", "could show", "p", "seeds"]
    text = (
        "\n## Picks that are spread out\n\nThe picks of cdal are spread out in the predictions, and over all data sets it has the better rank ([together](together.md)). Does it help "
        "ncal to spread its picks: of the best three times as many by score those that are farthest from each other, in the features or in the predictions? Asked of seeds that nobody had "
        f"seen, and written down before the first of them ran. *p* is corrected by Holm's method for the {family} comparisons of ncal so changed; those of cdal are beside the question, "
        "each by itself. *Alike*: the mean cosine of each pick to the nearest other one of its round, over the rounds of which both have it (cdal needs no features, so that the journals have it of the first alone).\n\n"
        f"{table([*head, 'alike', 'of ncal alike', 'of rounds', 'it is'], rows)}\n"
    )
    return text, short


@dataclass
class Ablation:
    """A change of ncal against the reference, over the budgets that both have."""

    change: str
    budget: float
    rows: Mapping[str, Any]
    found: Difference
    cost: list[str] = field(default_factory=list)
    """Its cells under `COSTS`."""

    @property
    def where(self) -> str:
        """Where it stands to the reference."""
        return place(self.found).rsplit(" ", 1)[0] if self.found.seeds >= 3 else "too early"

    def row(self) -> list[str]:
        """Its row of the table."""
        last = {name: values[:, -1] for name, values in self.rows.items()}
        cells = [f"{100 * values.mean():.1f}" for values in last.values()]
        apart = signed(estimate(last["changed"] - last["reference"]))
        p = p_value(float(self.found.aubc.p_holm)) if self.found.seeds >= 3 else ""
        told = [gap(self.found), apart, could_show(self.found), p, str(self.found.seeds), self.where]
        return [self.change, f"{self.budget:,.0f}", *cells, *told]


def _ablations(name: str) -> tuple[list[Ablation], list[Run]]:
    """The changes of ncal on one set, and the runs among them that were trained as the reference is."""
    usual = [run for run in finished([name]) if run.strategy == "ncal"]
    runs = [*usual]
    found = []
    for experiment in (f"{name}-variants", *(f"{name}-{change}" for change in ABLATIONS[name])):
        mine = finished([experiment])
        runs += mine if plan()[experiment].recipe == plan()[name].recipe else []
        for strategy in dict.fromkeys(run.strategy for run in mine):
            change = strategy if strategy != "ncal" else _change(experiment, name)
            one = _ablation(change, [run for run in mine if run.strategy == strategy], usual)
            found += [replace(one, cost=_cost(experiment, strategy))] if one else []
    return found, runs


COSTS = ("passes over the pool a round", "GPU s a run")


def _cost(name: str, strategy: str) -> list[str]:
    """Passes over the pool a round, and what a run took of the card where it was on one."""
    slices = slices_of(name)
    runs = [run for run in finished([name]) if run.strategy == strategy]
    passes = str(passes_of(needs_of(strategy), recipe(plan()[name].recipe).checkpoints))
    return [passes, f"{np.mean(card_seconds(runs, slices)):.0f}"] if runs and on_a_card(slices) else [passes]


def _ablation(change: str, runs: list[Run], usual: list[Run]) -> Ablation | None:
    """A change against the reference, where they have budgets in common."""
    pairs = [(one, other) for one in runs for other in usual if one.seed == other.seed]
    budgets = set.intersection(*({b for b, _ in run.accuracies} for pair in pairs for run in pair)) if pairs else set()
    if not budgets:
        return None
    shared = np.array(sorted(budgets), np.float64)
    rows = {
        name: np.array([[dict(pair[which].accuracies)[budget] for budget in sorted(budgets)] for pair in pairs])
        for which, name in enumerate(("changed", "reference"))
    }
    return Ablation(change, shared[-1], rows, against_each(Curves(shared, rows), "changed")["reference"])


def _change(name: str, reference: str) -> str:
    changed, usual = plan()[name], plan()[reference]
    return f"`{changed.recipe}`" if changed.recipe != usual.recipe else f"{changed.step:,} labels a round"
