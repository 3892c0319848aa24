"""Half-precision copies made in one go: the same numbers as autocast's, whatever the network does with its weights."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ncalr.learn import Job, TorchLearner, needs_of
from ncalr.learn.halves import Halves
from ncalr.learn.nets import network

pytestmark = pytest.mark.usefixtures("plain_kernels")


class Tied(nn.Module):
    """An embedding whose weights are also a linear layer's, which is used twice; one layer unused, one frozen."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(12, 6), nn.Linear(6, 12)
        self.out.weight = self.embed.weight
        self.back, self.unused, self.fixed = nn.Linear(12, 6, bias=False), nn.Linear(6, 6), nn.Linear(6, 6)
        self.fixed.requires_grad_(False)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        h = self.back(self.out(self.embed(x).mean(1)))
        h = self.back(self.out(h.tanh()))
        return self.head(self.fixed(h)) + self.head.weight.square().mean()


class Island(nn.Module):
    """A layer in full precision between others, a subclass that works on its weights, a transposed convolution."""

    class Standard(nn.Conv2d):
        def forward(self, x):
            return self._conv_forward(x, F.normalize(self.weight, dim=0), self.bias)

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"), self.Standard(4, 4, 3)
        self.wide, self.middle = nn.ConvTranspose2d(4, 4, 2, 2), nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        h = self.wide(self.second(self.first(input=x)).relu()).mean((2, 3))
        with torch.autocast("cpu", enabled=False):
            h = self.middle(h.float())
        return self.head(h)


CASES = {
    "resnet8": (lambda: network("resnet8", 3, (8, 8, 1)), lambda: torch.randn(6, 1, 8, 8)),
    "tied": (Tied, lambda: torch.randint(0, 12, (6, 5))),
    "island": (Island, lambda: torch.randn(6, 1, 8, 8)),
    "checkpointed": (lambda: Checkpointed(), lambda: torch.randn(6, 5)),
    "no such layer": (lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(5)), lambda: torch.randn(6, 5)),
}


class Checkpointed(nn.Module):
    """Computes its inner layers again in the backward pass."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 5)), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False))


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_autocasts_to_the_last_bit(case):
    torch.manual_seed(0)
    make, draw = CASES[case]
    plain = make().to(memory_format=torch.channels_last)
    ours = copy.deepcopy(plain)
    halves = Halves(ours.modules())
    for _ in range(3):
        x = draw()
        with torch.autocast("cpu", torch.bfloat16):
            expected = plain(x)
        with torch.autocast("cpu", torch.bfloat16), halves.lent():
            found = ours(x)
        assert torch.equal(found, expected)
        for net, out in ((plain, expected), (ours, found)):
            net.zero_grad(set_to_none=True)
            F.cross_entropy(out.float(), torch.arange(len(out)) % 3).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0 if p.grad is None else 0.1 * p.grad
        for p, q in zip(plain.parameters(), ours.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            assert p.grad is None or (q.grad.dtype == torch.float32 and torch.equal(p.grad, q.grad))
            assert torch.equal(p, q)


def test_all_copies_are_made_at_once_and_all_gradients_turned_back():
    net = network("resnet8", 3, (8, 8, 1)).to(memory_format=torch.channels_last)
    halves = Halves(net.modules())
    assert len(halves.weights) == sum(p.ndim != 1 for p in net.parameters()) + 1  # and the head's bias
    with torch.profiler.profile() as seen, torch.autocast("cpu", torch.bfloat16), halves.lent():
        net(torch.randn(6, 1, 8, 8)).float().sum().backward()
    names = [event.name for event in seen.events()]
    assert names.count("aten::_foreach_copy_") == 2
    assert names.count("autograd::engine::evaluate_function: ToCopyBackward0") == 1  # the logits
    assert "aten::clone" not in names


def test_copies_are_gone_afterwards_even_if_the_network_fails():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4))
    halves = Halves(net.modules())
    with (
        pytest.raises(RuntimeError, match="shapes"),
        torch.autocast("cpu", torch.bfloat16),
        halves.lent(),
    ):
        net(torch.randn(2, 4))
    for layer in net:
        assert "forward" not in vars(layer)
        assert isinstance(layer.weight, nn.Parameter)


def test_somebody_elses_forward_is_left_alone():
    layer = nn.Linear(2, 2)
    layer.forward = lambda x: x
    assert not Halves(layer.modules()).layers
    assert not Halves([nn.Linear(2, 2).double(), nn.Linear(2, 2).bfloat16()]).weights


@pytest.mark.parametrize("changes", [{}, {"mixup": 0.4, "dropout": 0.3}])
def test_a_training_is_the_same_with_and_without(pool, labels, monkeypatch, changes):
    def train():
        learner = TorchLearner(
            "resnet8",
            "strong",
            precision="bfloat16",
            device="cpu",
            epochs=2,
            batch=16,
            checkpoints=2,
            progress=False,
            **changes,
        )
        job = Job(pool, np.arange(32), labels[:32], 10, seed=3, needs=needs_of("margin"), watch=np.arange(40))
        torch.manual_seed(5)
        return learner.fit(job)

    ours = train()
    monkeypatch.setattr(Halves, "__init__", lambda self, modules: vars(self).update(layers=[], weights=[]))
    plain = train()
    assert ours.state.keys() == plain.state.keys()
    for name, value in plain.state.items():
        assert value.dtype in (torch.float32, torch.int64)
        assert torch.equal(ours.state[name], value)
    for name, value in plain.evidence().items():
        assert np.array_equal(np.asarray(ours.evidence()[name]), np.asarray(value))


def test_state_and_momenta_are_all_it_takes_to_go_on(pool, labels):
    learner = TorchLearner("resnet8", "digits", precision="bfloat16", device="cpu", batch=16, progress=False)
    slots = [learner._new_slot(10, pool.shape, 16, learner._feed(pool)) for _ in range(2)]
    for seed, slot in enumerate(slots):
        slot.start(seed, np.arange(32), labels[:32], 10)

    def train(slot, epoch):
        slot.begin(epoch)
        for place in range(slot.steps):
            slot.step(place, epoch)

    train(slots[0], 1)
    slots[1].seed = slots[0].seed
    slots[1].load(slots[0].state())
    for ours, theirs in zip(slots[1].momenta(), slots[0].momenta(), strict=True):
        ours.copy_(theirs)
    for slot in slots:
        train(slot, 2)
    first, second = (slot.state() for slot in slots)
    assert all(torch.equal(first[name], second[name]) for name in first)
