"""ProbCover: cover as much of the pool as possible with balls around the picks.

Yehuda, Dekel, Hacohen and Weinshall, "Active Learning Through a Covering Lens" (2022), for a cold start on self-
supervised features: pick the item whose ball holds the most uncovered items, cover them, repeat. The radius is the
authors' rule, the largest at which 95 % of the balls hold one pseudo-label, unless given. `select/coverage.py` has
the algorithm.
"""

from ncalr.acquire.registry import add

probcover = add(
    "probcover",
    None,
    needs={"features"},
    wants={"labelled_features"},
    select="coverage(kernel=ball)",
    summary="ProbCover: greedy covering of the pool by balls of one radius; for a cold start.",
    cites="Yehuda et al. 2022",
    cost="n^2 distances for n up to 65,536 (a sample beyond)",
)
