"""The paper's protocols: dataset, budgets, network. `ncalr reproduce NAME` runs one of them.

Goel et al. (2025): ResNet-18, three runs, the first cycle shared by all strategies; CIFAR-10 from 2 to 20 % of its
labels by 2 %, CIFAR-100 from 10 to 45 % by 5 %, ImageNet-100 (130,000 images) from 10 to 40 % by 5 %. mini-ImageNet at
64 pixels is a stand-in for ImageNet-100 where that is not at hand: other classes, smaller images.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncalr.errors import check_known
from ncalr.lab.experiment import Experiment


@dataclass(frozen=True)
class Protocol:
    """One of the paper's active-learning experiments."""

    dataset: str
    items: int  # in the pool
    first: float  # share of the pool that is labelled at the beginning
    step: float
    last: float
    network: str = "resnet18"
    about: str = ""

    def experiment(self, strategies: tuple[str, ...], seeds: int = 3, recipe: str = "strong") -> Experiment:
        """The experiment, its budgets in labels."""
        start, step, end = (round(share * self.items) for share in (self.first, self.step, self.last))
        return Experiment(self.dataset, strategies, seeds, start, step, end, self.network, recipe)


PROTOCOLS = {
    "cifar10": Protocol("cifar10", 50_000, 0.02, 0.02, 0.20, about="2 % to 20 % of CIFAR-10 by 2 %"),
    "cifar100": Protocol("cifar100", 50_000, 0.10, 0.05, 0.45, about="10 % to 45 % of CIFAR-100 by 5 %"),
    "imagenet100": Protocol(
        "imagenet100(size=224)",
        130_000,
        0.10,
        0.05,
        0.40,
        "resnet18(stem=imagenet)",
        "10 % to 40 % of ImageNet-100 by 5 %",
    ),
    "mini_imagenet": Protocol(
        "mini_imagenet",
        50_000,
        0.10,
        0.05,
        0.40,
        "resnet18(stem=strided)",
        "stand-in for ImageNet-100: other classes, 64 pixels",
    ),
}
STRATEGIES = ("ncal", "random", "margin", "coreset", "cdal", "badge")


def protocol(name: str) -> Protocol:
    """A protocol by name."""
    check_known("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
