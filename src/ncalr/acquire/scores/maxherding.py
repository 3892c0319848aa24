"""MaxHerding: cover the pool under a smooth kernel.

Bae, Oliveira and Sutherland, "Generalized Coverage for More Robust Low-Budget Active Learning" (2024): greedily
maximise the mean over the pool of the largest kernel value with a pick or a labelled item. `select/coverage.py` has
the algorithm.
"""

from ncalr.acquire.registry import add

maxherding = add(
    "maxherding",
    None,
    needs={"features"},
    wants={"labelled_features"},
    select="coverage(kernel=rbf)",
    summary="MaxHerding: greedy coverage of the pool under a Gaussian kernel.",
    cites="Bae et al. 2024",
    cost="n^2 kernel values for n up to 65,536 (a sample beyond)",
)
