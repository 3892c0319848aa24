"""Which items to label next, from arrays alone: the smallest use of ncalr.

Handwritten digits: 1,200 in the pool, 60 labelled, the rest for testing. Any framework will do; here it is
scikit-learn's small network. Its predictions on the pool are recorded while it trains on, well past the point where it
knows its training set by heart, and `ncalr.query` says which images to label next and why.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import ncalr


def split(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels, and the positions of pool and test."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    return (images / 16).astype(np.float32), labels, order[:1200], order[1200:]


def hidden(network: MLPClassifier, images: np.ndarray) -> np.ndarray:
    """The penultimate features: the input of the last layer."""
    return np.maximum(images @ network.coefs_[0] + network.intercepts_[0], 0)


def train(images: np.ndarray, labels: np.ndarray, pool: np.ndarray) -> tuple[MLPClassifier, ncalr.Recorder]:
    """200 epochs; the pool's predictions are recorded over the last 40 of them."""
    network = MLPClassifier((128,), learning_rate_init=0.01, random_state=0)
    recorder = ncalr.Recorder(items=len(pool), classes=10)
    for epoch in range(200):
        network.partial_fit(images, labels, classes=np.arange(10))
        if epoch >= 160 and epoch % 2 == 0:
            recorder.record(network.predict(pool))
    return network, recorder


def main() -> None:
    images, labels, pool, test = split(seed=0)
    chosen = {"ncal": pool[:60], "random": pool[:60]}
    print("labels   " + "".join(f"{name:>9}" for name in chosen))
    for round_number in range(6):
        accuracy = {}
        for strategy, labelled in chosen.items():
            network, recorder = train(images[labelled], labels[labelled], images[pool])
            accuracy[strategy] = network.score(images[test], labels[test])
            picks = ncalr.query(
                strategy,
                20,
                features=hidden(network, images[pool]),
                predictions=recorder.predictions,
                flips=recorder.flips(),
                labelled_features=hidden(network, images[labelled]),
                labels=labels[labelled],
                ids=pool,
                exclude=labelled,
                seed=round_number,
            )
            chosen[strategy] = np.concatenate([labelled, picks.ids])
            if strategy == "ncal":
                reasons = picks
        print(f"{len(labelled):>6}   " + "".join(f"{100 * value:>8.1f}%" for value in accuracy.values()))
    print("\nThe next five by ncal, and why:")
    for row in reasons.rows()[:5]:
        print(f"  image {row['id']:>4}   score {row['score']:5.2f}   CMAP {row['cmap']:.4f}   flips {row['ff']:.0f}")


if __name__ == "__main__":
    main()
