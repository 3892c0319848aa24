"""NCAL coverage: cover the pool, each item weighed by doubt, class size and density. ncalr's own edition of NCAL-R.

The published rule (`ncal`) scores items one by one, so its picks are hard and alike. This edition keeps what it looks
at, the training dynamics and the class means, and uses it as the weights of greedy coverage:

    P(x)    = mean over the window's checkpoints of softmax(logits_t(x))                  dynamics: FF without ties
    d(x)    = 1 - (P_(1) - P_(2))
    b(x)    = (n_c + 1)^(-balance), n_c the labels of the predicted class                  CMAP's factor 1 / (n_c + 1)
    rho(x)  = 1 / mean squared distance to 10 of 2,500 random pool items                  typical items first
    gain(i) = sum over j of d_j b_j rho_j max(0, K(i, j) - c_j)
    c_j     = max of K(l, j) over labelled and picked items l

`select/coverage.py` has the kernel K and rho. Its radius shrinks as labels come, so the rule moves from covering the
pool to resolving doubt by itself. Without predictions d = b = 1: the first picks are the most typical items.

`weights="geometry"` takes the doubt from the class means instead, `weights="both"` the geometric mean of the two:

    g(x)    = clip(1 - (s_(1) - s_(2)), 0, 1),  s_c(x) = cos(z(x) - G, mu_c - G),  G the mean of the class means mu_c

On vectors of pretrained networks that was worse (docs/results/yardstick.md). Related: UHerding (Bae et al. 2025) has
the weights 1 - (p_(1) - p_(2)) of one checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ncalr.acquire.evidence import Evidence
from ncalr.acquire.registry import strategy
from ncalr.errors import BadInput, check_known
from ncalr.kernels import Array, Backend

WEIGHTS = ("dynamics", "geometry", "both")


def fuse(parts: Mapping[str, Array], backend: Backend) -> Array:
    """Return the weight of each item: the geometric mean of its doubts times the balance of its class."""
    values = {name: backend.xp.clip(backend.asarray(part, "float32"), 0, None) for name, part in parts.items()}
    doubts = [values[name] for name in ("dynamics", "geometry") if name in values]
    if not doubts:
        return next(iter(values.values()))
    weight = doubts[0] if len(doubts) == 1 else backend.xp.sqrt(doubts[0] * doubts[1])
    return weight * values["balance"] if "balance" in values else weight


@strategy(
    "ncal_coverage",
    needs={"features"},
    wants={"mean_probs", "statistics", "labelled_features"},
    fuse=fuse,
    select="coverage(density=1, limit=32768)",
    rowwise=True,
    cites="ncalr; after Goel et al. 2025 and Bae et al. 2025",
    cost="kernel values of near items, for n up to 32,768 (a sample beyond)",
)
def ncal_coverage(evidence: Evidence, *, weights: str = "dynamics", balance: float = 0.5) -> dict[str, Any]:
    """NCAL coverage: greedy coverage of the pool, weighed by doubt, class size and density."""
    check_known("weights", weights, WEIGHTS)
    if not 0 <= balance <= 10:
        raise BadInput(f"balance must lie in 0..10, got {balance}")
    backend, parts = evidence.backend, {}
    predicted, labelled = "mean_probs" in evidence, "statistics" in evidence
    if predicted and weights != "geometry":
        probs, are_logits = evidence["mean_probs"]
        parts["dynamics"] = backend.uncertainty(probs, "margin", are_logits)
    if labelled and weights != "dynamics" and evidence["statistics"].present.sum() > 1:
        parts["geometry"] = class_mean_doubt(evidence)
    if predicted and labelled and balance:
        counts = backend.asarray((evidence["statistics"].counts + 1.0) ** -balance, "float32")
        parts["balance"] = counts[backend.argmax(evidence["mean_probs"].values)]
    return parts or {"typical": backend.wide(evidence["features"])[:, 0] * 0 + 1}


def class_mean_doubt(evidence: Evidence) -> Array:
    """Return 1 minus the lead of the nearest class mean, by cosine from the mean of the class means, in 0..1."""
    backend = evidence.backend
    means, centre = evidence["statistics"].centred()
    features = backend.wide(evidence["features"])
    kind = str(features.dtype).removeprefix("torch.")
    directions = backend.asarray(means.directions[means.present], kind)
    features = features - backend.asarray(centre, kind)
    norms = backend.xp.sqrt(backend.xp.einsum("nd,nd->n", features, features))
    cosines = (features @ directions.T) / backend.xp.where(norms > 0, norms, norms * 0 + 1)[:, None]
    top = backend.xp.amax(cosines, 1)
    is_top = cosines == top[:, None]
    second = backend.xp.amax(backend.xp.where(is_top, cosines * 0 - 2, cosines), 1)
    second = backend.xp.where(is_top.sum(1) > 1, top, second)
    return backend.xp.clip(1 - (top - second), 0, 1)
