"""Prediction with folded normalisation: the same numbers as without, and nobody else sees the folded weights.

cuDNN's convolution is replaced by plain operations in float32, so that the way there can be seen without a GPU.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ncalr.learn import Job, TorchLearner
from ncalr.learn.enhance import Enhancer
from ncalr.learn.nets import fold, network
from ncalr.learn.nets.fold import Folding
from ncalr.learn.nets.norm import NormAct
from ncalr.learn.nets.resnet import Basic, Bottleneck, ResNet, Wide
from ncalr.learn.slot import timed

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture
def calls(monkeypatch):
    """Folding as on a GPU; a list with the input of every fused convolution."""
    seen = []

    def plain(x, weight, bias, residual, stride, padding, dilation):
        seen.append(x)
        try:
            y = F.conv2d(x, weight, bias, stride, padding, dilation)
            return F.relu(y if residual is None else y + residual)
        except RuntimeError as error:
            raise AssertionError("would be taken for a refusal") from error

    monkeypatch.setattr(fold, "fused", plain)
    monkeypatch.setattr(fold, "suits", lambda _: True)
    return seen


@pytest.fixture
def folds(monkeypatch):
    """A list that gets longer with every layer that is folded."""
    seen, real = [], fold.fold
    monkeypatch.setattr(fold, "fold", lambda conv, norm: seen.append(norm) or real(conv, norm))
    return seen


def shake(net, seed=0):
    """Normalisations as after a training: no two channels alike, some turned round."""
    generator = torch.Generator().manual_seed(seed)
    for norm in net.modules():
        if isinstance(norm, NormAct):
            with torch.no_grad():
                for tensor, low, high in (
                    (norm.weight, -0.5, 1.5),
                    (norm.bias, -1, 1),
                    (norm.running_mean, -1, 1),
                    (norm.running_var, 0.3, 3),
                ):
                    tensor.uniform_(low, high, generator=generator)
    return net


def make(block=Basic, stem="cifar", channels=8):
    """A small network with shortcuts of both kinds."""
    torch.manual_seed(1)
    net = ResNet(5, channels, block=block, blocks=(1, 2), widths=(16, 24), stem=stem)
    return shake(net).to(memory_format=torch.channels_last)


def predict(net, x, made=None):
    """Logits, with folded weights if there is a place for them."""
    net.eval()
    with torch.no_grad():
        if made is None:
            return net(x)
        with Folding(net.modules()).lent(made):
            return net(x)


@pytest.fixture
def slot(pool, labels):
    """ResNet-8 in the middle of a training on digits, chunks of 20."""
    return started(pool, labels)


def started(pool, labels, **options):
    learner = TorchLearner("resnet8", "digits", device="cpu", batch=16, dropout=0.3, progress=False, **options)
    slot = learner._new_slot(10, pool.shape, 16, learner._feed(pool))
    slot.chunk = 20
    slot.start(0, np.arange(64), labels[:64], 10)
    train(slot, 1)
    return slot


def train(slot, epoch):
    torch.manual_seed(epoch)  # dropout
    slot.begin(epoch)
    for place in range(slot.steps):
        slot.step(place, epoch)


def swept(slot, forward=None, count=70):
    """What a sweep gives, in one piece."""
    found = [part for _, part in slot.sweep(slot.feed, np.arange(count), forward)]
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


def lent(net):
    """Whether any layer could compute with folded weights."""
    return any(getattr(module, "folding", None) is not None for module in net.modules())


# -- the numbers ------------------------------------------------------------------------------------------------


def test_one_layer_as_in_float64():
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(8, 16, 3, 2, 1, bias=False), shake(NormAct(16)).eval()
    weight, bias = fold.fold(conv, norm)
    x = torch.randn(4, 8, 9, 9)
    exact = copy.deepcopy(norm).double()(copy.deepcopy(conv).double()(x.double()))
    torch.testing.assert_close(F.relu(F.conv2d(x, weight, bias, 2, 1)).double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize("block", [Basic, Bottleneck, Wide])
def test_networks_give_the_same(calls, block, stem, channels):
    net, x, made = make(block, stem, channels), torch.randn(6, channels, 20, 20), {}
    expected = predict(net, x)
    assert not calls
    torch.testing.assert_close(predict(net, x, made), expected, **CLOSE)
    inner = {Basic: 2, Bottleneck: 3, Wide: 1}[block] * 3  # of three blocks
    assert len(calls) == inner + (block is not Wide and channels == 8)
    assert len(calls) == sum(each is not None for each in made.values())
    again = len(calls)
    torch.testing.assert_close(predict(net, x, made), expected, **CLOSE)
    assert len(calls) == 2 * again


def test_every_convolution_is_folded_but_a_stem_of_three_channels(calls, monkeypatch):
    net, convolved = make(channels=3), []
    predict(net, torch.randn(2, 3, 12, 12), {})
    assert all(x.shape[1] % 8 == 0 for x in calls)
    for module in net.modules():
        if isinstance(module, nn.Conv2d | NormAct):
            module.register_forward_hook(lambda module, *_: convolved.append(module))
    monkeypatch.setattr(fold, "does_its_own", lambda _: True)
    predict(net, torch.randn(2, 3, 12, 12), {})
    assert convolved == [net.stem, net.norm]


def test_folded_in_float32_and_rounded_once():
    net = make()
    block = net.stages[1][0]
    weight, bias, across = fold._made(block.conv2, block.norm2, block.short, torch.bfloat16)
    wide, first = fold.fold(block.conv2, block.norm2)
    beside, second = fold.fold(*block.short)
    assert torch.equal(weight, wide.bfloat16())
    assert torch.equal(across, beside.bfloat16())
    assert torch.equal(bias, (first + second).bfloat16())
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert across.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("where", ["stages.1.0.norm1", "stages.1.1.conv2", "stages.1.0.short", "stages.1.0.short.1"])
def test_whoever_listens_to_a_layer_hears_it(calls, where):
    net, x, heard = make(), torch.randn(3, 8, 12, 12), []
    net.get_submodule(where).register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    torch.testing.assert_close(predict(net, x, {}), predict(net, x), **CLOSE)
    assert calls
    torch.testing.assert_close(*heard, **CLOSE)


def test_a_layer_that_does_more_is_left_alone(calls):
    class Standard(nn.Conv2d):
        def forward(self, x):
            return self._conv_forward(x, F.normalize(self.weight, dim=0), None)

    net, x = make(), torch.randn(3, 8, 12, 12)
    net.stages[0][0].conv1 = Standard(16, 16, 3, padding=1, bias=False)
    net.stages[1][1].conv1 = nn.Conv2d(24, 24, 3, padding=1, padding_mode="circular", bias=False)
    net.stages[1][1].conv2 = nn.Conv2d(24, 24, 3, padding=1, groups=2, bias=False)
    net.stages[1][0].conv2 = nn.Conv2d(24, 24, 3, padding=1)
    torch.testing.assert_close(predict(net, x, {}), predict(net, x), **CLOSE)
    assert len(calls) == 3


@pytest.mark.parametrize("odd", ["inside", "outside", "padding", "forward"])
def test_what_cudnn_or_we_do_not_take(odd):
    inside, outside = 12 if odd == "inside" else 8, 12 if odd == "outside" else 8
    conv = nn.Conv2d(inside, outside, 3, padding="same" if odd == "padding" else 1, bias=False)
    if odd == "forward":
        conv.forward = lambda x: x
    assert fold._made(conv, NormAct(outside), None, torch.float32) is None
    assert fold._made(nn.Conv2d(8, 8, 3, padding=1, bias=False), NormAct(8), None, torch.float32) is not None


def test_a_shortcut_that_does_more_is_left_alone(calls):
    net, x = make(), torch.randn(3, 8, 12, 12)
    net.stages[1][0].short.append(nn.Tanh())
    torch.testing.assert_close(predict(net, x, {}), predict(net, x), **CLOSE)
    net.stages[1][0].short = nn.Sequential(net.stages[1][0].short[0], NormAct(24))
    torch.testing.assert_close(predict(net, x, {}), predict(net, x), **CLOSE)
    assert len(calls) == 2 * 7


def test_without_a_relu_nothing_is_fused(calls):
    torch.manual_seed(0)
    conv, norm, x = nn.Conv2d(8, 8, 1, bias=False), shake(NormAct(8, relu=False)).eval(), torch.randn(2, 8, 3, 3)
    with torch.no_grad(), Folding([norm]).lent({}):
        assert torch.equal(fold.joined(conv, norm, x), norm(conv(x)))
    assert not calls


# -- who sees them, and when ------------------------------------------------------------------------------------


def test_a_sweep_gives_the_same_and_folds_once(slot, calls, folds, monkeypatch):
    found = swept(slot)
    assert len(calls) == 6 * 4  # of three blocks, in four chunks
    assert len(folds) == 6 + 2  # and the shortcuts
    monkeypatch.setattr(slot.folding, "norms", [])
    for ours, plain in zip(found, swept(slot), strict=True):
        torch.testing.assert_close(ours, plain, **CLOSE)
    assert len(calls) == 24


@pytest.mark.parametrize("change", ["training", "state", "statistics"])
def test_weights_that_changed_between_two_sweeps_are_seen(slot, calls, monkeypatch, change):
    before = swept(slot)
    if change == "training":
        train(slot, 2)
    elif change == "state":
        slot.load(slot._fresh(5).state_dict())
    else:
        slot.net.stages[0][0].norm1.running_mean += 0.3
    found = swept(slot)
    assert calls
    monkeypatch.setattr(slot.folding, "norms", [])
    for ours, plain, old in zip(found, swept(slot), before, strict=True):
        assert not torch.allclose(ours, old, **CLOSE)
        torch.testing.assert_close(ours, plain, **CLOSE)


def test_nothing_is_lent_between_chunks_or_after(slot, calls):
    seen = []
    for _ in slot.sweep(slot.feed, np.arange(70), lambda x: seen.append(lent(slot.net)) or slot.look(x)):
        assert not lent(slot.net)
    assert seen == [True] * 4
    assert not lent(slot.net)
    assert not slot.folding.made
    abandoned = slot.sweep(slot.feed, np.arange(70))
    next(abandoned)
    assert not lent(slot.net)
    before = len(calls)
    slot.look(torch.zeros(2, 1, 8, 8))
    assert len(calls) == before
    abandoned.close()

    def fails(x):
        slot.look(x)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        swept(slot, fails)
    assert not lent(slot.net)
    assert not slot.folding.made


def test_two_sweeps_in_turn_each_have_their_own(slot, calls):
    first = slot.sweep(slot.feed, np.arange(40))
    (_, (_, old)), state = next(first), slot.state()
    slot.load(slot._fresh(5).state_dict())
    swept(slot)
    slot.load(state)
    _, (_, rest) = next(first)
    for ours, plain in zip((old, rest), swept(slot, count=40)[1].split(20), strict=True):
        assert torch.equal(ours, plain)
    assert calls


@pytest.mark.parametrize(("training", "slopes"), [(True, True), (True, False), (False, True)])
def test_training_and_gradients_never_see_them(calls, training, slopes):
    net, plain, x = make().train(training), make().train(training), torch.randn(6, 8, 12, 12)
    with Folding(net.modules()).lent({}), torch.set_grad_enabled(slopes):
        found, expected = net(x), plain(x)
    assert torch.equal(found, expected)
    assert not calls
    assert all(torch.equal(p, q) for p, q in zip(net.buffers(), plain.buffers(), strict=True))
    if slopes:
        for logits in (found, expected):
            logits.square().sum().backward()
        assert all(torch.equal(p.grad, q.grad) for p, q in zip(net.parameters(), plain.parameters(), strict=True))


def test_a_training_goes_on_as_if_nothing_had_been_predicted(pool, labels, calls):
    ours, plain = started(pool, labels), started(pool, labels)
    swept(ours)
    next(ours.sweep(ours.feed, np.arange(70)))
    assert calls
    for slot in (ours, plain):
        train(slot, 2)
    first, second = ours.state(), plain.state()
    assert first.keys() == second.keys() == network("resnet8", 10, (8, 8, 1)).state_dict().keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_enhanced_features_are_as_they_were(slot, calls):
    enhance = Enhancer(slot, (1.0,) * 4)

    def forward(x):
        before = len(calls)
        found = enhance(x)
        assert len(calls) == before
        return slot.look(x)[0], found.detach()

    found = swept(slot, forward)[1]
    assert calls
    assert torch.equal(found, torch.cat([enhance(part) for part in inputs(slot, 70).split(20)]).detach())


def inputs(slot, count):
    return slot.feed.normalise(next(iter(slot.feed.read([np.arange(count)]))), slot.dtype)


def test_draws_with_dropout_are_the_same(slot, calls):
    found = torch.cat([p for _, p in slot.sweep(slot.feed, np.arange(70), lambda x: slot.sample(x, 3))], 1)
    assert len(calls) == 3 * 24
    plain = torch.cat([slot.sample(part, 3) for part in inputs(slot, 70).split(20)], 1)
    assert len(calls) == 3 * 24
    assert not torch.equal(plain[0], plain[1])
    torch.testing.assert_close(found, plain, **CLOSE)


# -- where it is not to be had ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("plain_kernels")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_on_the_cpu_everything_is_as_it_was(pool, labels, monkeypatch, folds, precision):
    slot = started(pool, labels, precision=precision)
    found = swept(slot)
    assert slot.folding.norms
    assert not folds
    monkeypatch.setattr(slot.folding, "norms", [])
    assert all(torch.equal(ours, plain) for ours, plain in zip(found, swept(slot), strict=True))


def test_compiled_networks_are_left_to_the_compiler(pool, labels, calls, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda net: net)
    swept(started(pool, labels, compiled=True))
    net, x = make(), torch.randn(3, 8, 12, 12)
    monkeypatch.setattr(NormAct, "is_traced", staticmethod(lambda: True))
    predict(net, x, {})
    assert not calls


def test_a_refusal_is_taken_once(slot, calls, monkeypatch):
    expected = swept(slot)
    tried = []

    def refuses(x, *_):
        tried.append(x)
        if len(tried) == 1:
            raise RuntimeError("unable to find an engine to execute this computation")
        raise AssertionError("tried again")

    monkeypatch.setattr(fold, "fused", refuses)
    for _ in range(2):
        for ours, folded in zip(swept(slot), expected, strict=True):
            torch.testing.assert_close(ours, folded, **CLOSE)
    assert len(tried) == 1


def test_short_memory_is_no_refusal(slot, calls, monkeypatch):
    expected, real = swept(slot), fold.fused

    def scarce(x, *others):
        if len(x) > 10:
            raise torch.OutOfMemoryError("no more")
        return real(x, *others)

    monkeypatch.setattr(fold, "fused", scarce)
    before = len(calls)
    for ours, folded in zip(swept(slot), expected, strict=True):
        torch.testing.assert_close(ours, folded, **CLOSE)
    assert slot.chunk == 10
    assert len(calls) == before + 6 * 7
    assert not slot.folding.refused


def test_a_finished_model_predicts_so_too(calls, pool, labels):
    learner = TorchLearner("resnet8", "digits", device="cpu", epochs=2, checkpoints=2, progress=False)
    model = learner.fit(Job(pool, pool.ids[:40], labels[:40], 10))
    calls.clear()
    model.predict(pool, pool.ids[:40])
    assert calls


# -- which algorithms cuDNN takes -------------------------------------------------------------------------------


def test_algorithms_are_timed_for_whole_chunks(slot, monkeypatch):
    seen = []

    def forward(x):
        seen.append((len(x), torch.backends.cudnn.benchmark))
        return slot.look(x)

    swept(slot, forward, 50)
    assert seen == [(20, False), (20, False), (10, False)], "there is no cuDNN on the CPU"
    seen.clear()
    monkeypatch.setattr(slot, "cuda", True)
    monkeypatch.setattr(slot, "on", nullcontext)
    swept(slot, forward, 50)
    assert seen == [(20, True), (20, True), (10, False)]
    assert not torch.backends.cudnn.benchmark


def test_whoever_wants_timed_algorithms_keeps_them(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with timed():
        pass
    assert torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    with pytest.raises(ValueError, match="inside"), timed():
        raise ValueError("inside")
    assert not torch.backends.cudnn.benchmark
