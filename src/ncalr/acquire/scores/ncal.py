"""NCAL-R: how much an item would perturb the alignment of the class means, and how often its prediction flips.

Goel, Agarwal, Anand and Arora, "Reliable Active Learning from Unreliable Labels via Neural Collapse Geometry" (2025).
On a network trained into its terminal phase,

    score(x) = ( z(CMAP(x)) + z(FF(x)) ) / 2        z: less the pool's mean, over its (population) standard deviation

and the k highest are labelled. CMAP is in `ncalr.geometry.alignment`, FF in `ncalr.dynamics`.

Where the paper is unclear we take its Algorithm 1: flips of the predicted class (not the variance of logits),
z-scores (not ranks, not raw sums), high CMAP first. The other readings are options: `fusion="rank"` averages the
ranks, `fusion="winsor"` clips the z-scores at ±3 first (FF is 0 for most of the pool, so that a single flip can be
worth five standard deviations), `sign=-1` prefers low CMAP, `select=sequential` updates the class means after each
pick. A part that is the same for all items counts 0. `means="trimmed"` or `"median"` finds the class means so that
wrong labels cannot drag them away (`ncalr.geometry.robust`); ready-made `statistics` are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.acquire.scores.cmap import cmap
from ncalr.acquire.scores.ff import ff
from ncalr.errors import BadInput
from ncalr.geometry.moments import Moments
from ncalr.kernels import Array, Backend

WINSOR_LIMIT = 3.0


def fuse(
    parts: Mapping[str, Array],
    backend: Backend,
    moments: Mapping[str, Moments] | None = None,
    *,
    fusion: str = "zscore",
) -> Array:
    """Each part on a common scale, averaged. `moments` are those of a pool that the parts are a piece of."""
    if fusion == "rank":
        scaled = [backend.asarray(rankdata(backend.numpy(part)) / len(part)) for part in parts.values()]
    elif fusion in ("zscore", "winsor"):
        scaled = [zscore(part, backend, moments[name] if moments else None) for name, part in parts.items()]
        if fusion == "winsor":
            scaled = [backend.xp.clip(part, -WINSOR_LIMIT, WINSOR_LIMIT) for part in scaled]
    else:
        raise BadInput(f"fusion must be 'zscore', 'rank' or 'winsor', got {fusion!r}")
    total = scaled[0]
    for part in scaled[1:]:
        total += part
    total /= len(scaled)
    return total


def by_moments(*, fusion: str = "zscore") -> bool:
    """Ranks need every value of the pool; z-scores need its moments, and never fall where a part rises."""
    return fusion != "rank"


def zscore(part: Array, backend: Backend, moments: Moments | None = None) -> Array:
    """Less the mean, over the population standard deviation, in float64; 0 where all are equal."""
    values = backend.asarray(part, "float64")
    if moments is not None or backend.xp is np:
        moments = moments or Moments.of(values)
        return (values - moments.mean) / moments.spread if moments.spread else values * 0
    mean = values.mean()
    values = values - mean
    spread = float(backend.xp.einsum("n,n->", values, values) / len(values)) ** 0.5
    if spread <= 1e-6 * abs(float(mean)) and bool(part.max() == part.min()):  # what is left is rounding
        return values * 0
    if spread < 1e-150:  # squares of numbers this small vanish
        values /= float(abs(values).max())
        spread = float(backend.xp.einsum("n,n->", values, values) / len(values)) ** 0.5
    values /= spread
    return values


@strategy(
    "ncal",
    needs={"features", "predictions", "flips", "statistics"},
    fuse=fuse,
    by_moments=by_moments,
    rowwise=True,
    spots={"features"},
    cites="Goel et al. 2025",
    cost="one pass over the features",
)
def ncal(evidence: Evidence, *, sign: int = 1, center: bool = False, counts: str = "paper") -> dict[str, Any]:
    """NCAL-R: class-mean alignment perturbation and feature fluctuation, standardised and averaged."""
    return {
        "cmap": cmap(evidence, sign=sign, center=center, counts=counts),
        "ff": evidence.backend.asarray(ff(evidence), "float32"),
    }
