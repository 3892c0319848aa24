"""BADGE: diverse and uncertain at once, by k-means++ seeding on hallucinated gradients.

Ash, Zhang, Krishnamurthy, Langford and Agarwal, "Deep Batch Active Learning by Diverse, Uncertain Gradient Lower
Bounds" (2020). g(x) = (p - onehot(prediction)) x z is the gradient of the last layer if the prediction were the label;
the first pick has the longest gradient, each further one is drawn with probability proportional to its squared
distance to the picks. g has c * d entries and is never built: distances come from <q, q'><z, z'>.
"""

from ncalr.acquire.registry import add

badge = add(
    "badge",
    None,
    needs={"features", "outputs"},
    select="kmeans_pp(space=gradients, first=largest)",
    summary="BADGE: k-means++ seeding on the gradients of the last layer.",
    cites="Ash et al. 2020",
    cost="about k / 64 passes of matrix products",
)
