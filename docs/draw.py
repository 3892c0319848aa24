"""The pictures of the method page: `python docs/draw.py` writes docs/pictures/method_*.svg. Needs matplotlib.

The geometry is computed, not drawn by hand: CMAP over the plane by `ncalr.geometry.cmap`, flips by `ncalr.dynamics`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ncalr.dynamics import flips
from ncalr.geometry import ClassStatistics, cmap

PICTURES = Path(__file__).parent / "pictures"
COLOURS = ("#1f5fa8", "#c2582e", "#2f8f6b")
SOFT = "#5b6570"


def alignment() -> Figure:
    """Three classes in the plane: their means, and what an item at each place would do to their alignment."""
    rng = np.random.default_rng(4)
    angles = np.radians([80, 200, 335])
    means = np.stack([np.cos(angles), np.sin(angles)], 1) * np.array([[2.0], [2.2], [1.9]])
    labels = np.repeat(np.arange(3), 14)
    features = means[labels] + rng.normal(size=(42, 2)) * 0.22
    statistics = ClassStatistics.from_labelled(features, labels, 3)
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _labelled(left, features, labels, statistics)
    left.set_title("labelled features gather at their class means", fontsize=10)
    axis = np.linspace(-3.4, 3.4, 241)
    plane = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    predicted = (plane @ statistics.directions.T).argmax(1)
    values = cmap(plane, predicted, statistics).reshape(241, 241)
    most = np.abs(values).max()
    shade = right.imshow(
        values, extent=(-3.4, 3.4, -3.4, 3.4), origin="lower", cmap="RdBu_r", vmin=-most, vmax=most, alpha=0.85
    )
    bar = figure.colorbar(shade, ax=right, shrink=0.8)
    bar.set_label("CMAP", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    _labelled(right, features, labels, statistics)
    right.set_title("what one more item there would do to their alignment", fontsize=10)
    return figure


def fluctuation() -> Figure:
    """Predictions of some pool items over the checkpoints of the window, and how often each flips."""
    rng = np.random.default_rng(2)
    settled = np.repeat(rng.integers(0, 3, 9)[None], 10, 0)
    unsure = rng.random((10, 9)) < np.array([0, 0, 0.15, 0, 0.3, 0, 0.5, 0.1, 0.7])
    predictions = np.where(unsure, (settled + rng.integers(1, 3, (10, 9))) % 3, settled)
    counts = flips(predictions)
    order = np.argsort(counts, kind="stable")
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    for row, item in enumerate(order):
        for place in range(10):
            axes.add_patch(_square(place, row, COLOURS[predictions[place, item]]))
        axes.text(10.35, row + 0.44, f"FF {counts[item]}", va="center", fontsize=9, color=SOFT)
    axes.set_xlim(0, 11.6)
    axes.set_ylim(0, 9)
    axes.set_xticks(np.arange(10) + 0.44, [str(n) for n in range(1, 11)], fontsize=8)
    axes.set_yticks([])
    axes.set_xlabel("checkpoint of the window", fontsize=9)
    axes.set_ylabel("pool items", fontsize=9)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _square(x: float, y: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 0.88, 0.88, color=colour, alpha=0.85, linewidth=0)


def _labelled(axes: Any, features: Any, labels: Any, statistics: ClassStatistics) -> None:
    for label, colour in enumerate(COLOURS):
        axes.scatter(*features[labels == label].T, s=14, color=colour, edgecolor="white", linewidth=0.5, zorder=3)
        x, y = statistics.means[label]
        axes.annotate(
            "", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2.2, "shrinkB": 0}
        )
    axes.set_aspect("equal")
    axes.set_xlim(-3.4, 3.4)
    axes.set_ylim(-3.4, 3.4)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_color("#e1e5e9")


def main() -> None:
    """Write them all."""
    mpl.rcParams.update({"svg.hashsalt": "ncalr", "svg.fonttype": "none"})
    for name, figure in (("alignment", alignment()), ("fluctuation", fluctuation())):
        figure.savefig(PICTURES / f"method_{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
