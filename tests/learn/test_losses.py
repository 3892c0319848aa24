"""Losses that stand wrong labels: by hand, in their tables, and on digits with wrong labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ncalr.errors import BadInput, UnknownName
from ncalr.learn import Job, SklearnLearner, TorchLearner, recipe
from ncalr.learn.losses import SURE, make_loss

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 0.0], [-1.0, 3.0, 0.0]])
Y = torch.tensor([0, 2, 1])
WHO = torch.tensor([0, 1, 2])


def ready(name, labels=Y, soft=None, **options):
    loss = make_loss(name, **options)
    loss.start(labels, 3, soft)
    return loss


def test_cross_entropy_is_torchs_own():
    assert ready("cross_entropy")(LOGITS, Y, WHO) == F.cross_entropy(LOGITS, Y)
    smooth = ready("cross_entropy", smoothing=0.2)(LOGITS, Y, WHO)
    assert smooth == F.cross_entropy(LOGITS, Y, label_smoothing=0.2)


@pytest.mark.parametrize("q", [0.3, 1.0])
def test_generalised_cross_entropy_by_its_formula(q):
    p = LOGITS.softmax(1)[[0, 1, 2], Y]
    assert ready(f"gce(q={q})")(LOGITS, Y, WHO).item() == pytest.approx(((1 - p**q) / q).mean().item(), rel=1e-5)


def test_generalised_cross_entropy_goes_to_cross_entropy_and_lets_go_of_lost_items():
    near = ready("gce(q=0.0001)")(LOGITS, Y, WHO)
    assert near.item() == pytest.approx(F.cross_entropy(LOGITS, Y).item(), rel=1e-2)
    lost = torch.tensor([[9.0, 0.0, 0.0]], requires_grad=True)
    ready("gce")(lost, Y[1:2], WHO[:1]).backward()
    assert lost.grad.abs().max() < 0.01


def test_early_learning_remembers_and_holds_on():
    loss = ready("elr(weight=2, memory=0.5)")
    p = LOGITS.softmax(1).clamp(SURE, 1 - SURE)
    first = loss(LOGITS, Y, WHO)
    believed = 0.5 * p / p.sum(1, keepdim=True)
    expected = F.cross_entropy(LOGITS, Y) + 2 * torch.log(1 - (believed * p).sum(1)).mean()
    assert first.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.tables["believed"][:3] == pytest.approx(believed, rel=1e-5)
    loss(LOGITS, Y, WHO)
    assert loss.tables["believed"][:3] == pytest.approx(0.75 * p / p.sum(1, keepdim=True), rel=1e-5)
    loss.start(Y, 3, None)
    assert loss.tables["believed"].abs().max() == 0


def test_small_losses_count_inside_each_class():
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    loss = ready("small_loss(share=0.5, after=0.2, memory=0)", labels)
    logits = torch.tensor([[5.0, 0, 0], [0, 5.0, 0], [4.0, 0, 0], [0, 4.0, 0], [0, 1.0, 0], [9.0, 0, 0]])
    who = torch.arange(6)
    whole = loss(logits, labels, who)
    assert whole.item() == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-6)
    loss.begin(labels, 0.1)
    assert loss.tables["trusted"][:, 0].tolist() == [1] * 6  # too early to choose
    loss.begin(labels, 0.2)
    assert loss.tables["trusted"][:, 0].tolist() == [1, 0, 1, 0, 1, 0]
    kept = loss(logits, labels, who)
    assert kept.item() == pytest.approx(F.cross_entropy(logits[[0, 2, 4]], labels[[0, 2, 4]]).item(), rel=1e-6)


@pytest.mark.parametrize("name", ["cross_entropy", "gce", "elr", "small_loss"])
def test_soft_targets_take_the_labels_place(name):
    certain = np.eye(3, dtype=np.float32)[Y]
    hard, soft = ready(name), ready(name, soft=certain)
    assert soft(LOGITS, 0 * Y, WHO).item() == pytest.approx(hard(LOGITS, Y, WHO).item(), rel=1e-5)
    even = ready(name, soft=np.full((3, 3), 1 / 3))
    assert even(LOGITS, Y, WHO).item() != pytest.approx(hard(LOGITS, Y, WHO).item(), rel=1e-3)


def test_tables_grow_and_say_when_they_moved():
    loss = make_loss("elr")
    assert loss.start(Y, 3, None)
    assert not loss.start(Y[:2], 3, None)
    assert loss.start(torch.zeros(9, dtype=torch.int64), 3, None)
    assert loss.start(Y, 3, np.full((3, 3), 1 / 3))
    assert loss.start(Y, 3, None)  # another kind of step


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: make_loss("gce(q=2)"), r"q in \(0, 1\]"),
        (lambda: make_loss("elr(memory=1)"), r"memory in \[0, 1\)"),
        (lambda: make_loss("small_loss(share=0)"), r"share in \(0, 1\]"),
        (lambda: make_loss("gce", smoothing=0.1), "smoothing does not go with"),
        (lambda: make_loss("elr", mixup=0.2), "mixup"),
        (lambda: make_loss("gce(power=2)"), "no option of the loss gce 'power'. Known: q."),
        (lambda: make_loss("elr(wieght=1)"), "no option of the loss elr 'wieght'. Did you mean 'weight'?"),
        (lambda: make_loss("elr(smoothing=0.1)"), "no option of the loss elr 'smoothing'"),
        (lambda: make_loss("gce(q=a)"), "loss 'gce': q must be a finite number, got 'a'"),
    ],
)
def test_bad_options(make, words):
    with pytest.raises((BadInput, UnknownName), match=words):
        make()


def test_an_unknown_loss():
    with pytest.raises(UnknownName, match="Did you mean 'small_loss'"):
        make_loss("smal_loss")


def test_a_recipe_names_its_loss():
    assert recipe("strong(loss=elr(weight=2))").loss == "elr(weight=2)"
    assert recipe("strong").loss == "cross_entropy"


@pytest.mark.parametrize("name", ["elr", "small_loss(after=0.9)"])
def test_an_item_that_stands_often_in_a_batch_counts_by_the_mean_of_its_copies(name):
    loss = make_loss(name)
    labels = torch.tensor([0, 1])
    loss.start(labels, 2, None)
    logits = torch.tensor([[2.0, 0.0]] * 25 + [[0.0, 1.0]])
    for _ in range(30):
        loss(logits, torch.tensor([0] * 25 + [1]), torch.tensor([0] * 25 + [1]))
    table = loss.tables["believed" if name == "elr" else "losses"]
    wanted = logits[0].softmax(0)[0] if name == "elr" else -logits[0].log_softmax(0)[0]
    assert table[0, 0].item() == pytest.approx(wanted.item() * (1 - loss.memory**30), rel=1e-4)


@pytest.mark.parametrize(("share", "labels", "wanted"), [(0.3, 50, 15), (0.15, 100, 15), (0.27, 200, 54)])
def test_a_share_of_the_labels_that_is_whole_is_not_rounded_up(share, labels, wanted):
    loss = make_loss(f"small_loss(share={share}, after=0)")
    classes = torch.zeros(labels, dtype=torch.int64)
    loss.start(classes, 2, None)
    loss.tables["losses"][:, 0] = torch.arange(labels)
    loss.begin(classes, 0.5)
    assert int(loss.tables["trusted"].sum()) == wanted


def test_soft_targets_are_looked_at(pool, labels):
    job = Job(pool, pool.ids[:20], labels[:20], 10)
    for soft, words in (
        (np.full((20, 9), 1 / 9), "shape"),
        (np.full((20, 10), 0.2), "sum to 1"),
        (np.full((20, 10), np.nan), "distributions"),
    ):
        with pytest.raises(BadInput, match=words):
            Job(**{**job.__dict__, "soft": soft}).checked()
    from sklearn.naive_bayes import GaussianNB

    with pytest.raises(BadInput, match="one label an item"):
        SklearnLearner(GaussianNB()).fit(Job(**{**job.__dict__, "soft": np.full((20, 10), 0.1)}))


def test_a_network_learns_from_soft_targets(pool, labels):
    """Labels that are all wrong, soft targets that are right: the targets are what is learnt."""
    learner = TorchLearner("resnet8", "digits", device="cpu", progress=False, epochs=12, checkpoints=2)
    wrong = (labels[:200] + 1) % 10
    model = learner.fit(Job(pool, pool.ids[:200], wrong, 10, soft=np.eye(10)[labels[:200]]))
    assert (model.predict(pool).argmax(1)[200:] == labels[200:]).mean() > 0.7


@pytest.fixture(scope="module")
def learnt(pool, labels):
    """Forty per cent of the labels wrong: the share of them a loss learns by heart, and its accuracy elsewhere."""
    rng = np.random.default_rng(0)
    given = labels[:300].copy()
    wrong = rng.permutation(300)[:120]
    given[wrong] = (given[wrong] + rng.integers(1, 10, 120)) % 10
    found, threads = {}, torch.get_num_threads()
    torch.set_num_threads(1)
    for name in ("cross_entropy", "gce", "elr(weight=3)", "small_loss(share=0.6)"):
        learner = TorchLearner("resnet8", "digits", device="cpu", progress=False, loss=name, epochs=50)
        outputs = learner.fit(Job(pool, pool.ids[:300], given, 10, watch=[])).predict(pool).argmax(1)
        found[name] = (float((outputs[wrong] == given[wrong]).mean()), float((outputs[300:] == labels[300:]).mean()))
    torch.set_num_threads(threads)
    return found


@pytest.mark.parametrize("loss", ["gce", "elr(weight=3)", "small_loss(share=0.6)"])
def test_wrong_labels_are_not_learnt_by_heart(learnt, loss):
    assert learnt[loss][0] < 0.6 * learnt["cross_entropy"][0], learnt
    assert learnt[loss][1] > learnt["cross_entropy"][1], learnt


def test_a_small_job_after_a_large_one_finds_nothing_of_it(pool, labels, monkeypatch):
    """A graph is captured by running a step: what the last job left in the tables must not lie outside the new ones."""
    from ncalr.learn.slot import Slot

    learner = TorchLearner("resnet8", "digits(epochs=2, checkpoints=2, loss=elr)", device="cpu", progress=False)
    learner.fit(Job(pool, pool.ids[:300], labels[:300], 10))
    (slot,) = next(iter(learner._slots.values()))
    assert slot.who.max() > 100
    seen = []
    monkeypatch.setattr(
        Slot, "_capture", lambda self: seen.append((int(self.who.max()), len(self.loss.tables["soft"])))
    )
    slot.build = type(slot.build)(**{**slot.build.__dict__, "graphs": True})
    slot.graph = object()
    learner.fit(Job(pool, pool.ids[:100], labels[:100], 10, soft=np.eye(10)[labels[:100]]))
    assert seen[0] == (0, 100)
