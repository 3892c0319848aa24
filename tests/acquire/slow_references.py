"""The methods as their papers print them: loops, float64, no care for speed. What the tests compare with."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist


def unit(vector):
    return vector / np.linalg.norm(vector)


def zscore(values):
    """Population standard deviation; 0 where all values are equal."""
    values = np.asarray(values, np.float64)
    return np.zeros(len(values)) if values.std() == 0 else (values - values.mean()) / values.std()


def printed_cmap(features, predictions, labelled, labels, counts=None):
    """Lines 3 to 11 of Algorithm 1 of the NCAL-R paper; `counts` replaces the sizes of the classes."""
    mean = {c: labelled[labels == c].mean(axis=0) for c in np.unique(labels)}
    size = counts or {c: (labels == c).sum() for c in mean}
    bar = {c: unit(mean[c]) for c in mean}
    M = np.sum(list(bar.values()), axis=0)
    moved = [unit((size[c] * mean[c] + z) / (size[c] + 1)) for z, c in zip(features, predictions, strict=True)]
    return np.array([(new - bar[c]) @ (M - bar[c]) for new, c in zip(moved, predictions, strict=True)])


def printed_ff(checkpoints):
    """Lines 12 to 17 of Algorithm 1."""
    return np.array(
        [sum(a != b for a, b in zip(item[1:], item[:-1], strict=True)) for item in np.transpose(checkpoints)]
    )


def algorithm_1(features, predictions, labelled, labels, checkpoints):
    """The NCAL-R score of each pool item."""
    delta, phi = printed_cmap(features, predictions, labelled, labels), printed_ff(checkpoints)
    return (zscore(delta) + zscore(phi)) / 2


def one_at_a_time(features, predictions, labelled, labels, checkpoints, k):
    """NCAL-R where each pick joins the labelled set under its predicted label before the next is scored."""
    picked = []
    while len(picked) < k:
        scores = algorithm_1(features, predictions, labelled, labels, checkpoints)
        scores[picked] = -np.inf
        picked.append(int(scores.argmax()))
        labelled = np.vstack([labelled, features[picked[-1]]])
        labels = np.append(labels, predictions[picked[-1]])
    return picked


def farthest_first(distance_to, n, nearest, k, first=None):
    """k-centre greedy: `distance_to(i)` gives all distances to item i, `nearest` those to the labelled items."""
    nearest, picked, values = nearest.copy(), [], []
    while len(picked) < k:
        at = first if first is not None and not picked else int(nearest.argmax())
        picked.append(at)
        values.append(nearest[at])
        nearest = np.minimum(nearest, distance_to(at))
        nearest[picked] = -np.inf
    return picked, values


def coreset(features, k, labelled=None, first=None):
    """Sener and Savarese's greedy algorithm by k passes over the pool."""
    features = np.asarray(features, np.float64)
    start = np.full(len(features), np.inf)
    if labelled is not None:
        start = cdist(features, np.asarray(labelled, np.float64)).min(axis=1)
    return farthest_first(lambda i: cdist(features, features[i : i + 1])[:, 0], len(features), start, k, first)


def coreset_shortfall(features, picks, labelled):
    """How far each pick is from being the farthest item, as a share of that distance: 0 but for rounding."""
    features = np.asarray(features, np.float64)
    nearest = cdist(features, np.asarray(labelled, np.float64)).min(axis=1)
    missed = []
    for at in picks:
        missed.append(1 - nearest[at] / nearest.max())
        nearest = np.minimum(nearest, cdist(features, features[at : at + 1])[:, 0])
        nearest[at] = -np.inf
    return np.array(missed)


def softmax(logits):
    shifted = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def symmetric_kl(p, q):
    """(KL(p|q) + KL(q|p)) / 2 with probabilities kept above 1e-8."""
    p, q = np.maximum(p, 1e-8), np.maximum(q, 1e-8)
    return ((p - q) * (np.log(p) - np.log(q))).sum(axis=-1) / 2


def cdal(probs, k, labelled=None, first=None):
    """CDAL-CS: the same greedy algorithm under the symmetric KL divergence."""
    start = np.full(len(probs), np.inf)
    if labelled is not None:
        start = np.array([symmetric_kl(p, labelled).min() for p in probs])
    return farthest_first(lambda i: symmetric_kl(probs, probs[i]), len(probs), start, k, first)


def gradients(probs, features):
    """BADGE's embeddings (p - onehot) x z, written out: (n, c * d)."""
    residual = np.asarray(probs, np.float64).copy()
    residual[np.arange(len(probs)), probs.argmax(axis=1)] -= 1
    return (residual[:, :, None] * np.asarray(features, np.float64)[:, None, :]).reshape(len(probs), -1)


def race(points, first, k, lottery):
    """k-means++ seeding where pick number j is the item with the largest D^2 / E, E exponential from the lottery."""
    picked = [first]
    while len(picked) < k:
        weight = cdist(points, points[picked], "sqeuclidean").min(axis=1)
        weight[picked] = 0
        picked.append(int((weight / -np.log(lottery.uniform(1000 + len(picked)))).argmax()))
    return picked


def normalised(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def greedy_coverage(features, k, kernel, worth=None, labelled=None):
    """Generalised coverage with the whole kernel in memory; `kernel` turns distances into closeness."""
    features = normalised(np.asarray(features, np.float64))
    table = kernel(cdist(features, features))
    worth = np.ones(len(features)) if worth is None else worth
    covered = np.zeros(len(features))
    if labelled is not None:
        covered = kernel(cdist(normalised(np.asarray(labelled, np.float64)), features)).max(axis=0)
    picked, gains = [], []
    while len(picked) < k:
        gain = (worth * np.maximum(table - covered, 0)).mean(axis=1)
        gain[picked] = -np.inf
        picked.append(int(gain.argmax()))
        gains.append(gain[picked[-1]])
        covered = np.maximum(covered, table[picked[-1]])
    return picked, gains


def typicality(points, neighbours=20):
    """1 / (mean squared distance to the nearest other points of the cluster + 1e-5)."""
    if len(points) == 1:
        return np.array([1e5])
    near = min(neighbours, len(points) // 2)
    squared = np.sort(cdist(points, points, "sqeuclidean"), axis=1)[:, 1 : near + 1]
    return 1 / (squared.sum(axis=1) / near + 1e-5)


def typiclust(features, labelled, cluster_of, k):
    """TypiClust given the clusters of pool and labelled items (in that order)."""
    rows = normalised(np.vstack([features, labelled]))
    clusters = [np.flatnonzero(cluster_of == c) for c in np.unique(cluster_of)]
    clusters.sort(key=lambda items: ((items >= len(features)).sum(), -len(items)))
    large = [items for items in clusters if len(items) > 5]
    small = [items for items in clusters if len(items) <= 5]
    picked = []
    for group in (large, small):
        waiting = []
        for items in group:
            order = items[np.argsort(-typicality(rows[items]), kind="stable")]
            waiting.append([int(i) for i in order if i < len(features)])
        while any(waiting):
            picked += [queue.pop(0) for queue in waiting if queue]
    return picked[:k]


def sisom_ratio(item, predicted, bank, labels, skip=None):
    """r of one item: to the nearest labelled item of its class, over that one's distance to another class."""
    own = [j for j in np.flatnonzero(labels == predicted) if j != skip]
    if not own:
        return 1.0
    near = min(own, key=lambda j: np.linalg.norm(item - bank[j]))
    others = np.flatnonzero(labels != predicted)
    if not len(others):
        return 1.0
    outside = min(np.linalg.norm(bank[near] - bank[j]) for j in others)
    return np.linalg.norm(item - bank[near]) / outside if outside > 0 else 1e-6


def sisom(enhanced, predictions, bank, labels):
    return np.array([sisom_ratio(e, c, bank, labels) for e, c in zip(enhanced, predictions, strict=True)])


def energy(logits):
    return np.array([-np.log(np.sum(np.exp(row - row.max()))) - row.max() for row in np.asarray(logits, np.float64)])


def sisome(enhanced, predictions, bank, labels, logits, bank_logits):
    at_home = np.array([sisom_ratio(bank[i], labels[i], bank, labels, skip=i) for i in range(len(bank))])
    overlap = at_home.mean()
    warm = energy(bank_logits)
    calm = (energy(logits) - warm.mean()) / warm.std()
    ratio = (sisom(enhanced, predictions, bank, labels) - overlap) / (at_home.std() or 1)
    return min(overlap, 1) * calm + max(1 - overlap, 0) * ratio
