"""The report's pictures, as SVG text."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from textwrap import wrap
from typing import Any

import numpy as np

from ncalr.errors import Note
from ncalr.extras import check_installed

COLOURS = ("#1f5fa8", "#8a8f98", "#c2582e", "#2f8f6b", "#8a4fa3", "#b8922a", "#3aa0b5", "#a33a5c", "#5a6b2a", "#444444")

KNOWN = ("ncal", "random", "margin", "badge", "coreset", "cdal")
"""Whose colours are the first."""
FEW = 7
"""So many strategies have colours that can be told apart; more of them get a panel each."""

MARKED = 10
"""So many budgets have a mark each on an axis."""

_KEEP: ContextVar[dict[str, Any] | None] = ContextVar("keep", default=None)


def colours(strategies: list[str]) -> dict[str, str]:
    """One colour a strategy; the best known ones have theirs in every figure."""
    own = {name: colour for name, colour in zip(KNOWN, COLOURS, strict=False) if name in strategies}
    others = iter([colour for colour in COLOURS[2:] if colour not in own.values()] * len(strategies))
    return {name: own.get(name) or next(others) for name in strategies}


def learning_curves(summary: Mapping[str, Any]) -> str:
    """Mean accuracy against what was spent, with the 95 % interval as a band.

    The axis follows the means: a band of two seeds can be wider than everything else.
    """
    if len(summary["strategies"]) > FEW:
        return _one_each(summary, summary["accuracy"], "test accuracy, %")
    figure, axes = _figure(7.2, 4.2)
    _curves([axes], [summary])
    axes.set_xlabel(summary.get("unit", "labels"))
    axes.set_ylabel("test accuracy, %")
    axes.legend(frameon=False, fontsize=9)
    return _svg(figure)


def curves_by_noise(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """Learning curves, a panel a noise, all on one scale."""
    columns = 2 if len(summaries) in (1, 2, 4) else 3
    figure, grid = _figure(7.2, 0.7 + 2.3 * -(-len(summaries) // columns), (-(-len(summaries) // columns), columns))
    for axes in grid.flat[len(summaries) :]:
        axes.set_visible(False)
    _curves(list(grid.flat), list(summaries.values()))
    for axes, (noise, summary) in zip(grid.flat, summaries.items(), strict=False):
        axes.set_title(_short(noise, 90 // columns), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_xlabel(summary.get("unit", "labels"), fontsize=9)
    for axes in grid[:, 0]:
        axes.set_ylabel("test accuracy, %", fontsize=9)
    lines, names = grid.flat[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=min(len(names), 5), frameon=False, fontsize=9)
    return _svg(figure)


def wrong_by_noise(noises: list[str], strategies: list[str], shares: Mapping[str, Any], pool: Mapping[str, Any]) -> str:
    """Share of wrong labels of each strategy by noise, with its interval; the share in the whole pool as a line."""
    if not any(shares.values()):
        return ""
    figure, axes = _figure(7.2, 3.6)
    shown = colours(strategies)
    for place, (name, colour) in enumerate(shown.items()):
        rows = [shares[noise].get(name, {}) for noise in noises]
        mean, low, high = (100 * np.array([_number(row.get(side)) for row in rows]) for side in ("mean", "low", "high"))
        at = np.arange(len(noises)) + (place - (len(shown) - 1) / 2) * 0.6 / max(len(shown), 2)
        spread = [mean - np.maximum(low, 0), np.minimum(high, 100) - mean]
        axes.errorbar(at, mean, spread, color=colour, label=name, fmt="o", markersize=4, linewidth=1.2)
    for place, noise in enumerate(noises):
        if pool.get(noise) is not None:
            said = "answers about the whole pool" if place == 0 else None
            axes.hlines(100 * pool[noise], place - 0.4, place + 0.4, color="#1d2329", linewidth=1, label=said)
    axes.set_xticks(range(len(noises)), [_short(noise, 66 // len(noises)) for noise in noises], fontsize=8)
    axes.set_xlim(-0.5, len(noises) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("wrong labels, %")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return _svg(figure)


def differences(summary: Mapping[str, Any]) -> str:
    """Difference to random, paired by seed, with its interval."""
    if not summary.get("to_random"):
        return ""
    if len(summary["strategies"]) > FEW:
        effects = {name: found["per_budget"] for name, found in summary["to_random"].items()}
        return _one_each(summary, effects, "difference to random, points")
    figure, axes = _figure(7.2, 3.6)
    axes.axhline(0, color="#8a8f98", linewidth=1)
    shown = colours(summary["strategies"])
    for place, (name, found) in enumerate(summary["to_random"].items()):
        effect = found["per_budget"]
        at = (
            np.array(summary["budgets"])
            + (place - (len(summary["to_random"]) - 1) / 2) * 0.06 * np.ptp(summary["budgets"]) / 5
        )
        mean = 100 * np.array([_number(v) for v in effect["mean"]])
        low, high = (100 * np.array([_number(v) for v in effect[side]]) for side in ("low", "high"))
        axes.errorbar(
            at, mean, [mean - low, high - mean], color=shown[name], label=name, fmt="o", markersize=4, linewidth=1.2
        )
    axes.set_xlabel(summary.get("unit", "labels"))
    _whole(axes)
    if len(summary["budgets"]) <= MARKED:
        axes.set_xticks(summary["budgets"])
    axes.set_ylabel("difference to random, points")
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    return _svg(figure)


def forest(own: str, rivals: Mapping[str, Any]) -> str:
    """The difference of one strategy to each other one, with its interval; right of 0 it is better."""
    figure, axes = _figure(7.2, 0.9 + 0.26 * len(rivals))
    axes.axvline(0, color=COLOURS[1], linewidth=1)
    for place, effect in enumerate(rivals.values()):
        mean, low, high = (100 * _number(effect[side]) for side in ("mean", "low", "high"))
        axes.plot([low, high], [place, place], color=COLOURS[0], linewidth=1.6)
        axes.plot(mean, place, color=COLOURS[0], marker="o", markersize=5)
    axes.set_yticks(range(len(rivals)), list(rivals), fontsize=9)
    axes.set_ylim(len(rivals) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.grid(axis="x", color="#e6e8eb", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"{own} less the other, points of area")
    return _svg(figure)


def by_data_set(strategies: list[str], found: Mapping[str, Mapping[str, Any]]) -> str:
    """The difference of each strategy to random with its interval, a row an experiment; right of 0 it is better."""
    compared = [name for name in strategies if any(name in gaps for gaps in found.values())]
    if not compared:
        return ""
    figure, axes = _figure(7.2, 1.1 + (0.16 * len(compared) + 0.1) * len(found))
    axes.axvline(0, color=COLOURS[1], linewidth=1)
    of = {}
    for place, name in enumerate(compared):
        rows = [gaps.get(name, {}) for gaps in found.values()]
        of[name] = [100 * np.array([_number(row.get(side)) for row in rows]) for side in ("mean", "low", "high")]
        mean, low, high = of[name]
        at = np.arange(len(rows)) + (place - (len(compared) - 1) / 2) * 0.75 / len(compared)
        colour = colours(strategies)[name]
        axes.errorbar(
            mean, at, xerr=[mean - low, high - mean], color=colour, label=name, fmt="o", markersize=3.5, linewidth=1.2
        )
    for place in range(1, len(found)):
        axes.axhline(place - 0.5, color="#e6e8eb", linewidth=0.8)
    left, right = _limits(of.values())
    axes.set_xlim(min(left, -0.02 * right), max(right, -0.02 * left))
    axes.set_yticks(range(len(found)), [_short(name, 30) for name in found], fontsize=9)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.grid(axis="x", color="#e6e8eb", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference to random, points of area")
    figure.legend(loc="outside lower center", ncols=min(len(compared), 6), frameon=False, fontsize=9)
    return _svg(figure)


def class_histogram(counts: Mapping[str, Any], names: list[str]) -> str:
    """How often each class was picked, by strategy."""
    figure, axes = _figure(7.2, 3.2)
    width = 0.8 / max(len(counts), 1)
    shown = colours(list(counts))
    for place, (name, values) in enumerate(counts.items()):
        axes.bar(np.arange(len(values)) + place * width, values, width, color=shown[name], label=name)
    if len(names) <= 20:
        axes.set_xticks(np.arange(len(names)) + 0.4 - width / 2, names, fontsize=8)
    axes.set_ylabel("picked, a run")
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)  # bars are everywhere else
    return _svg(figure)


def collapse(measures: Mapping[str, Mapping[str, list[tuple[int, float]]]]) -> str:
    """NC1 to NC4 on the labelled set at the end of each training; nothing where no learner measured them."""
    return by_budget(measures, bottom=0)


def by_budget(
    measures: Mapping[str, Mapping[str, list[tuple[int, float]]]], unit: str = "labels", bottom: float | None = None
) -> str:
    """A panel a measure, a line a strategy; nothing where there are none."""
    if not measures:
        return ""
    height = -(-len(measures) // 2)
    figure, grid = _figure(7.2, 0.4 + 2.1 * height, (height, 2))
    shown = colours(list(dict.fromkeys(name for rows in measures.values() for name in rows)))
    for axes in grid.flat[len(measures) :]:
        axes.set_visible(False)
    for axes, (measure, rows) in zip(grid.flat, measures.items(), strict=False):
        for name in rows:
            axes.plot(*zip(*rows[name], strict=True), color=shown[name], label=name, linewidth=1.6, marker="o", ms=3)
        axes.set_ylim(bottom=bottom)
        axes.set_title(measure, fontsize=9)
        axes.tick_params(labelsize=8)
        _whole(axes)
    for axes in grid[-1]:
        axes.set_xlabel(unit, fontsize=9)
    lines = {line.get_label(): line for axes in grid.flat for line in axes.get_lines()}
    figure.legend(
        lines.values(), lines, loc="outside lower center", ncols=min(len(lines), 5), frameon=False, fontsize=9
    )
    return _svg(figure)


def coverage(found: Mapping[str, list[Mapping[str, Any]]]) -> str:
    """Accuracy against the share of the items that is answered, the most certain first; mean over the seeds."""
    figure, axes = _figure(7.2, 3.2)
    for name, colour in colours(list(found)).items():
        if found[name]:
            means = 100 * np.mean([curve["accuracy"] for curve in found[name]], axis=0)
            axes.plot(100 * np.array(found[name][0]["coverage"]), means, color=colour, label=name, linewidth=1.6)
    axes.set_xlabel("coverage, % of the test items")
    axes.set_ylabel("accuracy, %")
    axes.legend(frameon=False, fontsize=9)
    return _svg(figure)


def savings(budgets: Any, found: Mapping[str, Any], unit: str = "labels") -> str:
    """Labels that random needs for the accuracy each strategy has; the line of no saving in grey."""
    figure, axes = _figure(7.2, 3.2)
    axes.plot(budgets, budgets, color=COLOURS[1], linewidth=1, linestyle="--", label="random itself")
    for name, colour in colours(list(found)).items():
        needed = [_number(value) for value in found[name]["needed"]]
        axes.plot(budgets, needed, color=colour, label=name, linewidth=1.6, marker="o", markersize=3)
    _whole(axes, both=True)
    axes.set_xlabel(f"{unit} the strategy has")
    axes.set_ylabel(f"{unit} random needs")
    axes.legend(frameon=False, fontsize=9)
    return _svg(figure)


def separation(quantiles: Mapping[str, list[Any]]) -> str:
    """Histogram of the distances between class means, by strategy; all seeds of a strategy together."""
    if not quantiles:
        return ""
    grid = np.linspace(0, 1, 201)
    drawn = {}
    for name, runs in quantiles.items():
        drawn[name] = np.concatenate([np.interp(grid, np.linspace(0, 1, len(run)), run) for run in runs])
    everything = np.concatenate(list(drawn.values()))
    edges = np.linspace(everything.min(), everything.max() + 1e-9, 25)
    figure, axes = _figure(7.2, 3.2)
    for name, colour in colours(list(drawn)).items():
        heights, _ = np.histogram(drawn[name], edges)
        axes.stairs(100 * heights / heights.sum(), edges, color=colour, label=name, linewidth=1.6)
    axes.set_xlabel("distance between two class means")
    axes.set_ylabel("share of the pairs, %")
    axes.legend(frameon=False, fontsize=9)
    return _svg(figure)


def penalties(found: Mapping[str, Any]) -> str:
    """Who beats whom: the share of budgets at which the row is better than the column, by a paired test."""
    names, matrix = found["strategies"], np.array([[_number(v) for v in row] for row in found["matrix"]])
    if np.isnan(matrix[~np.eye(len(names), dtype=bool)]).all():  # one strategy, or one seed
        return ""
    figure, axes = _figure(1.6 + 0.75 * len(names), 1.2 + 0.5 * len(names))
    axes.grid(visible=False)
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i in range(len(names)):
        for j in range(len(names)):
            if i != j and not np.isnan(matrix[i, j]):
                colour = "white" if matrix[i, j] > 0.6 else "#1d2329"
                axes.text(j, i, f"{matrix[i, j]:.0%}", ha="center", va="center", color=colour, fontsize=9)
    beaten = [_number(value) for value in found.get("column_means", [np.nan] * len(names))]
    below = [name if np.isnan(share) else f"{name}\n{share:.0%}" for name, share in zip(names, beaten, strict=True)]
    axes.set_xticks(range(len(names)), below, fontsize=9)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    return _svg(figure)


def critical_difference(average: Mapping[str, float], reach: float, joined: list[list[str]]) -> str:
    """Average ranks on a line, the best on the left, strategies that are not told apart joined by a bar.

    The diagram of Demšar 2006, section 3.2.4: names of the better half stand on the left, of the others on the right.
    """
    names = sorted(average, key=lambda name: average[name])
    half = -(-len(names) // 2)
    top = 0.7 + 0.45 * len(joined)  # the first line of names, below the bars
    depth = top + half
    figure, axes = _figure(7.2, 0.9 + 0.25 * depth)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    lowest, highest = 1, max(len(names), 2)
    step = 0.02 * (highest - lowest)
    axes.set_xlim(lowest - 15 * step, highest + 15 * step)
    axes.set_ylim(depth, -1.9)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.hlines(0, lowest, highest, color="#1d2329", linewidth=1)
    for rank in range(lowest, highest + 1):
        axes.vlines(rank, -0.2, 0, color="#1d2329", linewidth=1)
        axes.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize=9)
    axes.errorbar(lowest + reach / 2, -1.4, xerr=reach / 2, color="#1d2329", capsize=3, linewidth=1)
    axes.text(lowest + reach + step, -1.4, f"critical difference {reach:.2f}", va="center")
    for name, colour in colours(list(average)).items():
        at = names.index(name)
        left = at < half
        edge, way = (lowest - 2 * step, -1) if left else (highest + 2 * step, 1)
        line = top + (at if left else len(names) - 1 - at)
        axes.plot([average[name], average[name], edge], [0, line, line], color=colour, linewidth=1.2)
        words = f"{name}, {average[name]:.2f}"
        axes.text(edge + way * step / 2, line, words, ha="right" if left else "left", va="center")
    for place, group in enumerate(joined):
        ends = [average[group[0]] - step / 2, average[group[-1]] + step / 2]
        axes.hlines(0.45 + 0.45 * place, *ends, color="#1d2329", linewidth=4)
    return _svg(figure)


def overlap(matrix: Any, names: list[str]) -> str:
    """How many picks two strategies have in common."""
    if len(names) < 2:
        return ""
    return penalties({"strategies": names, "matrix": np.asarray(matrix).tolist()})


def _one_each(summary: Mapping[str, Any], found: Mapping[str, Any], title: str, columns: int = 4) -> str:
    """A panel a strategy: its mean and interval before the means of all others, on one scale; random is dashed."""
    budgets, shown = summary["budgets"], colours(list(found))
    of = {
        name: [100 * np.array([_number(v) for v in rows[side]]) for side in ("mean", "low", "high")]
        for name, rows in found.items()
    }
    names = [name for name in found if name != "random"]
    height = -(-len(names) // columns)
    figure, grid = _figure(7.2, 0.6 + 1.35 * height, (height, columns))
    bottom, top = _limits(of.values())
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, names, strict=False):
        for other, (mean, _, _) in of.items():
            dashes = {"color": COLOURS[1], "linestyle": "--"} if other == "random" else {"color": "#d5d8dc"}
            axes.plot(budgets, mean, linewidth=0.8, **dashes)
        if "random" not in of:
            axes.axhline(0, color=COLOURS[1], linewidth=0.8, linestyle="--")
        mean, low, high = of[name]
        axes.fill_between(budgets, low, high, color=shown[name], alpha=0.2, linewidth=0)
        axes.plot(budgets, mean, color=shown[name], linewidth=1.8)
        axes.set_title(name, fontsize=8)
        axes.set_ylim(bottom, top)
        axes.locator_params(axis="both", nbins=4)
        _whole(axes)
        below = [other for other in grid[:, list(grid.flat).index(axes) % columns] if other.get_visible()]
        axes.tick_params(labelsize=7, labelleft=axes in grid[:, 0], labelbottom=axes is below[-1])
    figure.supxlabel(summary.get("unit", "labels"), fontsize=9)
    figure.supylabel(title, fontsize=9)
    return _svg(figure)


def _limits(found: Iterable[Sequence[Any]]) -> tuple[float, float]:
    """An axis that shows all means and their intervals, but no farther off than the means are apart."""
    means, lows, highs = (np.concatenate(side) for side in zip(*found, strict=True))
    bottom, top = np.nanmin(means), np.nanmax(means)
    room = max(top - bottom, 1e-9)
    low = np.nanmin([*lows[np.isfinite(lows)], bottom])
    high = np.nanmax([*highs[np.isfinite(highs)], top])
    return max(low, bottom - room) - 0.08 * room, min(high, top + room) + 0.08 * room


def _curves(panels: list[Any], summaries: list[Mapping[str, Any]]) -> None:
    """Means with bands in each panel; all of them on the scale of the means."""
    shown = colours(list(dict.fromkeys(name for summary in summaries for name in summary["strategies"])))
    drawn = [
        (axes, summary, name)
        for axes, summary in zip(panels, summaries, strict=False)
        for name in summary["strategies"]
    ]
    for axes, summary, name in drawn:
        means = 100 * np.array([_number(v) for v in summary["accuracy"][name]["mean"]])
        axes.set_ymargin(0.15)
        axes.plot(summary["budgets"], means, color=shown[name], label=name, linewidth=1.8, marker="o", markersize=3)
    limits = np.array([axes.get_ylim() for axes, _, _ in drawn])
    for axes, summary, name in drawn:
        low, high = (100 * np.array([_number(v) for v in summary["accuracy"][name][side]]) for side in ("low", "high"))
        axes.fill_between(summary["budgets"], low, high, color=shown[name], alpha=0.12, linewidth=0)
        axes.set_ylim(*np.clip([limits[:, 0].min(), limits[:, 1].max()], 0, 100))
        _whole(axes)


def _whole(axes: Any, *, both: bool = False) -> None:
    """Marks at whole numbers alone, on the axis below or on both: 12.5 would be called 12."""
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis))[: 1 + both]:
        axes.locator_params(axis=name, integer=True)
        axis.set_major_formatter("{x:,.0f}")


def _short(noise: str, width: int) -> str:
    """A noise in three lines at most: its name, and as much of its options as there is room for."""
    name, bracket, options = noise.partition("(")
    lines = wrap(bracket + options, width)
    if len(name + bracket + options) <= width or not lines:
        return noise
    return "\n".join([name, *lines[:2]]) + ("..." if len(lines) > 2 else "")


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def check_plots() -> None:
    """Raise where pictures cannot be drawn, before the work that they would show."""
    check_installed("matplotlib", "lab", "a report")


def _figure(width: float, height: float, shape: tuple[int, int] = (1, 1)) -> tuple[Any, Any]:
    check_plots()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "ncalr", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 10})
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(*shape, squeeze=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e8eb", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure, grid if shape != (1, 1) else grid[0, 0]


def _svg(figure: Any) -> str:
    """The picture as text; names in signs that the usual font lacks get an installed font that has them."""
    from matplotlib.text import Text

    picture, missing = _drawn(figure)
    fonts = _fonts_with(missing) if missing else ()
    if fonts:
        for label in figure.findobj(Text):
            label.set_fontfamily([*label.get_fontfamily(), *fonts])
        picture, missing = _drawn(figure)
    if missing:
        _note_missing()
    keep = _KEEP.get()
    if keep is not None:
        keep[picture.strip()] = figure
    return picture


@contextmanager
def kept() -> Iterator[dict[str, Any]]:
    """The figures that are drawn meanwhile, by their SVG: for whoever wants them in another format too."""
    found: dict[str, Any] = {}
    token = _KEEP.set(found)
    try:
        yield found
    finally:
        _KEEP.reset(token)


def _drawn(figure: Any) -> tuple[str, frozenset[int]]:
    """The picture, and the signs that no font in use has."""
    out = io.StringIO()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        figure.savefig(out, format="svg", metadata={"Date": None})
    missing = set()
    for each in said:
        sign = re.match(r"Glyph (\d+) .*missing from", str(each.message))
        if sign is None:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        else:
            missing.add(int(sign[1]))
    text = out.getvalue()
    return text[text.index("<svg") :], frozenset(missing)


@cache
def _fonts_with(signs: frozenset[int]) -> tuple[str, ...]:
    """Installed fonts that have these signs between them, the one with most of them first."""
    from matplotlib.font_manager import fontManager, get_font

    files = {font.name: font.fname for font in fontManager.ttflist if not font.name.startswith("Last Resort")}
    has = {name: signs & get_font(file).get_charmap().keys() for name, file in sorted(files.items())}
    chosen: list[str] = []
    left = set(signs)
    while best := max(has, key=lambda name: len(has[name] & left), default=""):
        if not has[best] & left:
            break
        chosen.append(best)
        left -= has[best]
    return tuple(chosen)


@cache
def _note_missing() -> None:
    """Once a process: whoever opens the report has fonts of his own."""
    warnings.warn(
        "no font of this machine has all signs of the names in the report's pictures; a browser draws them with its "
        "own, perhaps a little wide. For Chinese and Japanese: install Noto Sans CJK (fonts-noto-cjk)",
        Note,
        stacklevel=2,
    )
