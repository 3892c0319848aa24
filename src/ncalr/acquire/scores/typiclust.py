"""TypiClust: the most typical item of each cluster that has no label yet.

Hacohen, Dekel and Weinshall, "Active Learning on a Budget: Opposite Strategies Suit High and Low Budgets" (2022),
for small budgets and self-supervised features. Features of pool and labelled set are scaled to length 1 and
clustered by k-means into min(labelled + k, 500) clusters; clusters are visited by fewest labels, then by size, in
turn; from each the item with the highest typicality, 1 / (mean squared distance to its 20 nearest in the cluster,
at most half of it, + 1e-5), is taken. Typicality is computed once a cluster, over all its items. Clusters of five
items or fewer are left for last.

The first few labels make few clusters, and typicality is quadratic in the size of a cluster: it is computed over all
items of a cluster of up to `limit` (32,768), and on a random sample of so many beyond, which the result says. Clusters
that are not visited cost nothing.
"""

from ncalr.acquire.registry import add

typiclust = add(
    "typiclust",
    None,
    needs={"features"},
    wants={"labelled_features"},
    select="typical",
    summary="TypiClust: typical items of clusters without labels; for a cold start.",
    cites="Hacohen et al. 2022",
    cost="k-means, then distances inside the clusters that are visited",
)
