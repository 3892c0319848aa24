"""What a training step makes smaller: cross-entropy, and losses that stand wrong labels.

    strong(loss=gce)                         generalised cross-entropy (Zhang and Sabuncu, 2018): (1 - p_y^q) / q
    strong(loss=elr(weight=3, memory=0.7))   early-learning regularisation (Liu et al., 2020): cross-entropy
                                             + weight * log(1 - <p, t>), t a running mean of the item's predictions
    strong(loss=small_loss(share=0.8))       only the share of each class's labels that the network finds easiest
                                             counts (small losses, Han et al., 2018, with one network)
    strong(smoothing=0.1)                    label smoothing, with cross-entropy

A network learns what is regular first and the wrong labels later, one by one. Cross-entropy pulls hardest at the items
it has most wrong; the losses here let go of them. Under wrong labels the training accuracy then stays below 1, so the
terminal phase begins by the plateau rule, or by the fallback (`phase.py`).

Soft targets (`Job.soft`, a distribution an item, for instance the posterior of several annotators' answers) take the
place of the labels in every loss.

All state lives in tables at fixed addresses, since a step may be a CUDA graph; it is part of a checkpoint.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.nn import functional as F

from ncalr.acquire.options import check_options
from ncalr.acquire.spec import Spec, parse
from ncalr.errors import BadInput, check_known

ROUNDING = 1e-9  # a share of a number of labels that should be whole is
SURE = 1e-4  # probabilities are kept this far from 0 and 1 where their logarithm is taken


class CrossEntropy:
    """Cross-entropy with the given labels, or with soft targets."""

    mixes = True  # whether mixup goes with it
    remembers = False  # whether it keeps something of every item
    memory = 0.0  # of a running mean

    def __init__(self, *, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing
        self.tables: dict[str, Any] = {}
        self.soft = False

    def start(self, labels: Any, classes: int, soft: Any) -> bool:
        """Prepare for a job. True if tables were allocated anew: a captured graph would read the old ones."""
        moved = self.soft != (soft is not None)
        self.soft = soft is not None
        if soft is not None:
            moved |= self._room("soft", len(labels), classes, labels.device)
            self.tables["soft"][: len(labels)] = torch.as_tensor(soft, dtype=torch.float32, device=labels.device)
        return moved

    def begin(self, labels: Any, done: float) -> None:
        """Between epochs: `done` is the share of the training that lies behind."""

    def __call__(self, logits: Any, y: Any, who: Any) -> Any:
        """The loss of a batch; `who` says which labelled items it holds."""
        if self.soft:
            target = self.tables["soft"].index_select(0, who)
            return F.cross_entropy(logits, target, label_smoothing=self.smoothing)
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing)

    def state(self, items: int) -> dict[str, Any]:
        """What a training on so many items needs to go on."""
        return {name: table[:items] for name, table in self.tables.items() if name != "soft"}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for name, value in state.items():
            self.tables[name][: len(value)] = value.to(self.tables[name].device)

    def _room(self, name: str, items: int, width: int, device: Any) -> bool:
        found = self.tables.get(name)
        if found is not None and found.shape[0] >= items and found.shape[1] == width:
            return False
        rows = items if found is None else max(items, 2 * found.shape[0])
        self.tables[name] = torch.zeros((rows, width), device=device)
        return True

    def _remember(self, table: Any, now: Any, who: Any) -> None:
        """Move a running mean on. An item that is in the batch several times moves by the mean of its copies."""
        copies = torch.zeros(table.shape[0], device=table.device).index_add_(0, who, torch.ones_like(now[:, 0]))
        step = (1 - self.memory) * (now - table.index_select(0, who)) / copies.index_select(0, who)[:, None]
        table.index_add_(0, who, step)

    def _of_classes(self, per_class: Any, y: Any, who: Any) -> Any:
        """Each item's loss from the loss it would have under every class (n, c)."""
        if self.soft:
            return (self.tables["soft"].index_select(0, who) * per_class).sum(1)
        return per_class.gather(1, y[:, None])[:, 0]


class Generalised(CrossEntropy):
    """Between cross-entropy (q near 0) and the absolute error (q = 1), which noise cannot move."""

    mixes = False

    def __init__(self, *, q: float = 0.7, smoothing: float = 0.0) -> None:
        super().__init__(smoothing=_no_smoothing("gce", smoothing))
        if not 0 < q <= 1:
            raise BadInput(f"gce needs q in (0, 1], got {q!r}")
        self.q = q

    def __call__(self, logits: Any, y: Any, who: Any) -> Any:
        """The loss of a batch."""
        powers = (self.q * F.log_softmax(logits, 1)).exp()
        return self._of_classes((1 - powers) / self.q, y, who).mean()


class EarlyLearning(CrossEntropy):
    """Cross-entropy, held to what the network believed early on."""

    mixes = False
    remembers = True

    def __init__(self, *, weight: float = 3.0, memory: float = 0.7, smoothing: float = 0.0) -> None:
        super().__init__(smoothing=smoothing)
        if weight < 0 or not 0 <= memory < 1:
            raise BadInput(f"elr needs weight >= 0 and memory in [0, 1), got weight={weight!r}, memory={memory!r}")
        self.weight, self.memory = weight, memory

    def start(self, labels: Any, classes: int, soft: Any) -> bool:
        """Forget."""
        moved = super().start(labels, classes, soft) | self._room("believed", len(labels), classes, labels.device)
        self.tables["believed"].zero_()
        return moved

    def __call__(self, logits: Any, y: Any, who: Any) -> Any:
        """The loss of a batch; the memory of its items moves on."""
        loss = super().__call__(logits, y, who)
        p = logits.softmax(1).clamp(SURE, 1 - SURE)
        believed = self.tables["believed"]
        with torch.no_grad():
            now = p / p.sum(1, keepdim=True)
            self._remember(believed, now, who)
            target = believed.index_select(0, who)
        held = (1 - (target * p).sum(1)).clamp_min(SURE).log().mean()
        return loss + self.weight * held


class SmallLoss(CrossEntropy):
    """Cross-entropy over the labels of each class that the network finds easiest."""

    mixes = False
    remembers = True

    def __init__(self, *, share: float = 0.8, after: float = 0.2, memory: float = 0.9, smoothing: float = 0.0) -> None:
        super().__init__(smoothing=_no_smoothing("small_loss", smoothing))
        if not 0 < share <= 1 or not 0 <= after < 1 or not 0 <= memory < 1:
            raise BadInput(
                f"small_loss needs share in (0, 1], after and memory in [0, 1), got {share!r}, {after!r}, {memory!r}"
            )
        self.share, self.after, self.memory = share, after, memory

    def start(self, labels: Any, classes: int, soft: Any) -> bool:
        """Trust everything."""
        moved = super().start(labels, classes, soft)
        moved |= self._room("losses", len(labels), 1, labels.device)
        moved |= self._room("trusted", len(labels), 1, labels.device)
        self.tables["losses"].zero_()
        self.tables["trusted"].fill_(1)
        return moved

    def begin(self, labels: Any, done: float) -> None:
        """Choose anew which labels count: inside each class, those with the smallest losses."""
        if done < self.after or self.share == 1:
            return
        losses = self.tables["losses"][: len(labels), 0]
        order = torch.argsort(losses)
        order = order[torch.argsort(labels[order], stable=True)]
        sorted_labels = labels[order]
        first = torch.searchsorted(sorted_labels, sorted_labels)
        after = torch.searchsorted(sorted_labels, sorted_labels, right=True)
        rank = torch.arange(len(labels), device=labels.device) - first
        kept = rank < (self.share * (after - first).double() - ROUNDING).ceil()
        self.tables["trusted"][order, 0] = kept.float()

    def __call__(self, logits: Any, y: Any, who: Any) -> Any:
        """The loss of a batch."""
        each = self._of_classes(-F.log_softmax(logits, 1), y, who)
        with torch.no_grad():
            self._remember(self.tables["losses"], each.detach()[:, None], who)
        weight = self.tables["trusted"].index_select(0, who)[:, 0]
        return (weight * each).sum() / weight.sum().clamp_min(1)


LOSSES: dict[str, type[CrossEntropy]] = {
    "cross_entropy": CrossEntropy,
    "gce": Generalised,
    "elr": EarlyLearning,
    "small_loss": SmallLoss,
}
"""Losses by name."""


def make_loss(named: str | Spec, smoothing: float = 0.0, mixup: float = 0.0) -> CrossEntropy:
    """The loss that a recipe names."""
    spec = parse(named) if isinstance(named, str) else named
    check_known("loss", spec.name, LOSSES)
    kind = LOSSES[spec.name]
    known = [name for name in inspect.signature(kind).parameters if name != "smoothing"]
    for name in spec.options:
        check_known(f"option of the loss {spec.name}", name, known)
    check_options(f"loss {spec.name!r}", kind.__init__, spec.options, {})
    made = kind(**spec.options, smoothing=smoothing)
    if mixup and not made.mixes:
        raise BadInput(
            f"mixup blends the labels of two items, which the loss {spec.name} has no use for; leave one out"
        )
    return made


def _no_smoothing(name: str, smoothing: float) -> float:
    if smoothing:
        raise BadInput(f"label smoothing does not go with the loss {name}; leave it at 0")
    return smoothing
