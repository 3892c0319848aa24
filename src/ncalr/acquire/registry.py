"""Strategies and selectors as data, found by name.

A strategy is one function and one decorator:

    @strategy("doubt", needs={"outputs"}, rowwise=True, cites="…", cost="one pass over the outputs")
    def doubt(evidence, *, power=1.0):
        outputs = evidence["outputs"]
        return evidence.backend.uncertainty(outputs.values, "margin", outputs.are_logits) ** power

It returns one number an item (higher = label first), or several by name, which `fuse` turns into one, or it is `None`
and the strategy only selects. Keyword arguments after the star are its options. A selector is the same thing for
choosing among scored items. Other packages offer theirs through the entry point `ncalr.strategies`, whose value is a
module to import.
"""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from ncalr.acquire.evidence import EVIDENCE, SHAPES
from ncalr.acquire.options import check_options
from ncalr.acquire.spec import Spec, parse
from ncalr.errors import BadInput, Note, check_known, unknown

Needs = Iterable[str] | Callable[[Mapping[str, Any]], Iterable[str]]


@dataclass(frozen=True)
class Strategy:
    """A way to say what to label next: what it needs, how it scores, how it selects."""

    name: str
    needs: frozenset[str]
    score: Callable[..., Any] | None
    summary: str
    wants: frozenset[str] = frozenset()  # used where given
    fuse: Callable[..., Any] | None = None  # parts of the whole pool -> one number an item
    by_moments: Callable[..., bool] | None = None  # do the parts' moments say all of the pool that `fuse` must know?
    select: str = "top_k"
    rowwise: bool = False  # an item's parts depend on that item alone: chunks and shards give the same
    spots: frozenset[str] = frozenset()  # evidence in which NaN or infinity always gives a score that is not finite
    cites: str = ""
    cost: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Its options and their defaults."""
        return {**options_of(self.score), **options_of(self.fuse)}


@dataclass(frozen=True)
class Selector:
    """A way to choose k among scored items."""

    name: str
    run: Callable[..., Any]
    summary: str
    needs: Needs = ()
    wants: Needs = ()
    options: dict[str, Any] = field(default_factory=dict)
    best_only: bool = False  # takes the highest scores, ties by the lottery, and looks at nothing else
    holds_pool: bool = False  # copies all rows of its evidence: a pool on disk is cut to some candidates first
    spreads: bool = False  # a copy of an earlier pick is the last that it takes
    blind: bool = False  # does not look at scores, so that what they are made of is no reason for a pick


@dataclass(frozen=True)
class Bound:
    """A selector with its options."""

    selector: Selector
    options: dict[str, Any]

    @property
    def needs(self) -> frozenset[str]:
        """Evidence it cannot do without."""
        return _names(self.selector.needs, {**self.selector.options, **self.options})

    @property
    def wants(self) -> frozenset[str]:
        """Evidence it uses where given."""
        return _names(self.selector.wants, {**self.selector.options, **self.options})

    def __call__(self, scored: Any, evidence: Any, k: int, lottery: Any) -> Any:
        """Choose k."""
        return self.selector.run(scored, evidence, k, lottery, **self.options)


@dataclass(frozen=True)
class Plan:
    """A strategy with its options and its selector: all that a query needs to know of it."""

    spec: Spec
    strategy: Strategy
    options: dict[str, Any]
    select: Bound
    means: str = "mean"
    copies: str = "keep"

    @property
    def needs(self) -> frozenset[str]:
        """Evidence that must be there."""
        return self.strategy.needs | self.select.needs

    @property
    def wants(self) -> frozenset[str]:
        """Evidence that is used where given."""
        found = {"features", "labelled_features"} if self.copies == "drop" else set()
        return self.strategy.wants | self.select.wants | found

    @property
    def unheard(self) -> bool:
        """Whether the strategy scores and the selector does not look at that."""
        return self.strategy.score is not None and self.select.selector.blind


MEANS = ("mean", "trimmed", "median")
"""How class means are found: plainly, or so that wrong labels cannot drag them away (`ncalr.geometry.robust`)."""

COPIES = ("keep", "drop")
"""What to do with near-copies of picks and of labelled items (`ncalr.acquire.copies`)."""

FILES = "NCALR_STRATEGIES"
"""The variable that names files with strategies of one's own: workers of an experiment inherit it."""

_STRATEGIES: dict[str, Strategy] = {}
_SELECTORS: dict[str, Selector] = {}


def strategy(name: str, *, needs: Iterable[str], **facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the score of strategy `name`."""

    def register(score: Callable[..., Any]) -> Callable[..., Any]:
        add(name, score, needs=needs, **facts)
        return score

    return register


def add(name: str, score: Callable[..., Any] | None, *, needs: Iterable[str], **facts: Any) -> Strategy:
    """Register a strategy; `score` is None for one that only selects."""
    summary = facts.pop("summary", "") or _first_line(score)
    wants, spots = frozenset(facts.pop("wants", ())), frozenset(facts.pop("spots", ()))
    made = Strategy(name=name, needs=frozenset(needs), score=score, summary=summary, wants=wants, spots=spots, **facts)
    for word in sorted(made.needs | wants):
        check_known(f"evidence that strategy {name!r} could need called", word, EVIDENCE)
    known = _STRATEGIES.get(name)
    if known is not None and (not _is_again(known.score, score) or (score is None and known != made)):
        raise BadInput(f"there is a strategy {name!r} already; choose another name")
    _STRATEGIES[name] = made
    return made


def selector(
    name: str, *, needs: Needs = (), wants: Needs = (), **facts: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as selector `name`."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        if name in _SELECTORS and not _is_again(_SELECTORS[name].run, run):
            raise BadInput(f"there is a selector {name!r} already; choose another name")
        _SELECTORS[name] = Selector(name, run, _first_line(run), needs, wants, options_of(run), **facts)
        return run

    return register


def _is_again(known: Callable[..., Any] | None, new: Callable[..., Any] | None) -> bool:
    """Whether it is the same function, or a newer one of the same place: a cell that was run again, a reload."""
    return known is new or (
        known is not None
        and new is not None
        and not new.__module__.startswith("ncalr.")
        and (known.__module__, known.__qualname__) == (new.__module__, new.__qualname__)
    )


def strategies() -> dict[str, Strategy]:
    """All strategies by name, in alphabetical order."""
    _load()
    return dict(sorted(_STRATEGIES.items()))


def selectors() -> dict[str, Selector]:
    """All selectors by name, in alphabetical order."""
    _load()
    return dict(sorted(_SELECTORS.items()))


def resolve(spec: str | Spec | Strategy, options: Mapping[str, Any] | None = None) -> Plan:
    """The plan for a strategy given by name, by spec or as an object; `options` come on top of the spec's.

    An option that the strategy does not have goes to its selector: `probcover(radius=0.5)`. Every strategy that uses
    class statistics takes `means`, which says how the class means are found (`MEANS`), and every strategy takes
    `copies`, which says what to do with near-copies (`COPIES`). Values of options are tried on a made-up pool
    (`rehearsal.py`).
    """
    if isinstance(spec, Strategy):
        made, given = spec, dict(options or {})
    elif not isinstance(spec, str | Spec):
        raise BadInput(f"a strategy is given by its name, a spec or a Strategy, got {spec!r}")
    else:
        parsed = parse(spec) if isinstance(spec, str) else spec
        known = strategies()
        if parsed.name not in known:
            more = f"({len(known)} available: run `ncalr strategies`; one of your own: {FILES}=FILE.py)"
            raise unknown("strategy", parsed.name, known, more)
        made, given = known[parsed.name], {**parsed.options, **(options or {})}
    whole = Spec(made.name, dict(given))
    means = given.pop("means", "mean") if "statistics" in made.needs else "mean"
    check_known("way to find class means", means, MEANS)
    copies = given.pop("copies", "keep")
    check_known("value of copies called", copies, COPIES)
    select = bind(given.pop("select", None) or made.select)
    mine = {name: value for name, value in given.items() if name in made.options}
    rest = {name: value for name, value in given.items() if name not in mine}
    for name in rest:
        if name not in select.selector.options:
            shared = ["select", "copies", *(["means"] if "statistics" in made.needs else [])]
            known_options = [*made.options, *select.selector.options, *shared]
            arrays = sorted({*SHAPES, "statistics"})
            raise unknown(f"option of strategy {made.name!r} called", name, known_options, also=arrays)
    for function in (made.score, made.fuse):
        own = options_of(function)
        check_options(f"strategy {made.name!r}", function, {n: v for n, v in mine.items() if n in own}, own)
    select = _bound(select.selector, {**select.options, **rest})
    if means != "mean" and "statistics" in select.needs:
        raise BadInput(
            f"means={means} does not go with select={select.selector.name}: that adds its picks to the class "
            f"statistics one by one, and {means} statistics cannot be merged or updated; leave one of the two out"
        )
    return Plan(whole, made, mine, select, means, copies)


def bind(spec: str | Spec | Bound) -> Bound:
    """A selector with its options, from its name or spec."""
    if isinstance(spec, Bound):
        return spec
    if not isinstance(spec, str | Spec):
        raise BadInput(f"a selector is given by its name or a spec such as 'filtered(multiple=3)', got {spec!r}")
    parsed = parse(spec) if isinstance(spec, str) else spec
    known = selectors()
    check_known("selector", parsed.name, known)
    chosen = known[parsed.name]
    for name in parsed.options:
        check_known(f"option of selector {chosen.name!r} called", name, chosen.options)
    return _bound(chosen, dict(parsed.options))


def _bound(chosen: Selector, options: dict[str, Any]) -> Bound:
    """A selector with options of the right kinds; what it needs may hang on them."""
    check_options(f"selector {chosen.name!r}", chosen.run, options, chosen.options)
    bound = Bound(chosen, options)
    bound.needs, bound.wants  # noqa: B018 (a wrong one is found here)
    return bound


@cache
def options_of(function: Callable[..., Any] | None) -> dict[str, Any]:
    """The keyword-only arguments of a function and their defaults."""
    if function is None:
        return {}
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def call(function: Callable[..., Any], *args: Any, options: Mapping[str, Any]) -> Any:
    """Call with those of the options that the function has."""
    mine = options_of(function)
    return function(*args, **{name: value for name, value in options.items() if name in mine})


@cache
def _load() -> None:
    """Import every file of `scores` and `select`, and what other packages offer; one that is broken stops no other."""
    for folder in ("ncalr.acquire.select", "ncalr.acquire.scores"):
        for module in iter_modules(import_module(folder).__path__):
            import_module(f"{folder}.{module.name}")
    for entry in entry_points(group="ncalr.strategies"):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            warnings.warn(
                f"strategies of the package {package} are left out: {entry.value} cannot be loaded "
                f"({type(error).__name__}: {error}); mend the package or uninstall it",
                Note,
                stacklevel=2,
            )
    for name in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        _load_file(Path(name).absolute())


def _load_file(path: Path) -> None:
    """Import a file of somebody's own strategies, unless it is there already, as the script that runs perhaps."""
    for name in ("__main__", path.stem):
        there = getattr(sys.modules.get(name), "__file__", None)
        if there is not None and Path(there).absolute() == path:
            return
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise BadInput(f"{FILES} names {path}, expected a Python file with strategies")
    module = module_from_spec(spec)
    mine = sys.modules.setdefault(path.stem, module) is module  # where a dataclass, for one, looks for its module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if mine:
            del sys.modules[path.stem]
        raise BadInput(f"{FILES}: {path} cannot be loaded ({type(error).__name__}: {error})") from error


def _first_line(function: Callable[..., Any] | None) -> str:
    return (inspect.getdoc(function) or "").split("\n")[0] if function else ""


def _names(names: Needs, options: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(names(options) if callable(names) else names)
