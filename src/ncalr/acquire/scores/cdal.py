"""CDAL-CS: contextual diversity, k-centre greedy under the symmetric KL divergence of softmax vectors.

Agarwal, Arora, Anand and Arora, "Contextual Diversity for Active Learning" (2020), for image classification, where an
image is one region and its mixture is its softmax vector: D(p, q) = (KL(p|q) + KL(q|p)) / 2. Unlike the released code,
the first pick is the farthest item from the labelled ones and not a random one, and a probability of 0 is kept at 1e-8
so that a saturated pair is far apart (there it counts as identical).
"""

from ncalr.acquire.registry import add

cdal = add(
    "cdal",
    None,
    needs={"outputs"},
    wants={"labelled_outputs"},
    select="k_center(space=probabilities)",
    summary="CDAL-CS: farthest-first under the symmetric KL divergence of the predictions.",
    cites="Agarwal et al. 2020",
    cost="a few matrix products instead of k passes",
)
