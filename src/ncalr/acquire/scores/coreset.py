"""CoreSet: k-centre greedy on the features.

Sener and Savarese, "Active Learning for Convolutional Neural Networks: A Core-Set Approach" (2018): choose the batch
that minimises the largest distance of a pool item to the nearest labelled one, by the greedy 2-approximation. The
picks, in order, are those of the plain algorithm; `select/k_center.py` says how k passes over the pool are avoided.
The mixed-integer refinement of the paper is not implemented. Picked items can never return, so duplicates are harmless.
"""

from ncalr.acquire.registry import add

coreset = add(
    "coreset",
    None,
    needs={"features"},
    wants={"labelled_features"},
    select="k_center",
    summary="CoreSet: farthest-first on the features, from everything labelled or picked.",
    cites="Sener and Savarese 2018",
    cost="a few matrix products instead of k passes",
)
