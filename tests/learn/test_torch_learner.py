"""TorchLearner on real digits: what it gives, that it repeats, that it goes on where it was killed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import ncalr
from ncalr.data import ArrayPool
from ncalr.errors import BadInput
from ncalr.geometry import measure_collapse
from ncalr.learn import Job, TorchLearner, feeds, gather, needs_of, recipe, torch_learner
from ncalr.learn.measures import Sums, read
from ncalr.learn.ranks import Ranks
from ncalr.learn.slot import Slot, TrainingFailed
from ncalr.learn.torch_learner import _to_host, side_by_side
from ncalr.testing.learners import LEARNER_CHECKS, LearnerCase

QUICK = {"epochs": 6, "checkpoints": 3, "batch": 32, "rate": 0.05}


def learner(**changes):
    """A small network, trained briefly."""
    return TorchLearner(changes.pop("net", "resnet8"), "digits", device="cpu", progress=False, **{**QUICK, **changes})


def job(pool, labels, m=80, **changes):
    """The first m items are labelled."""
    return Job(pool, pool.ids[:m], labels[:m], **{"classes": 10, "needs": needs_of("ncal"), **changes})


CASE = LearnerCase(lambda: learner(net="mlp(widths=32)", epochs=6, checkpoints=3), random=True)


@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
def test_conforms(check):
    check(CASE)


def test_digits_collapse_and_are_told_apart(pool, labels, digits):
    model = TorchLearner("resnet8", "digits", device="cpu", progress=False).fit(job(pool, labels, 300))
    record = model.record
    window = [check for check in record.history if check["epoch"] in record.checkpoints]
    assert len(record.checkpoints) >= 10
    assert window[-1]["accuracy"] == 1
    assert window[-1]["nc1"] < 0.95 * window[0]["nc1"]
    assert record.rule in ("accuracy", "plateau", "fallback")
    assert record.flipping > 0
    test = ArrayPool(digits[0][600:1000])
    assert (model.predict(test).argmax(1) == digits[1][600:1000]).mean() > 0.93


def test_dropout_repeats_and_leaves_everybody_else_s_dice_alone(pool, labels):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, other = (learner(dropout=0.4).fit(job(pool, labels)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(one.evidence()["features"], other.evidence()["features"])
    third = learner(dropout=0.4).fit(job(pool, labels, seed=1))
    assert not np.array_equal(one.evidence()["features"], third.evidence()["features"])


def test_every_step_has_dice_of_its_own_and_every_seed(pool, labels, monkeypatch):
    step, thrown = Slot._step, []

    def watched(slot):
        thrown.append(float(torch.rand(1)))
        step(slot)

    monkeypatch.setattr(Slot, "_step", watched)
    for seed in (0, 0, 1):
        learner().fit(job(pool, labels, seed=seed))
    first, again, other = np.array(thrown).reshape(3, -1)
    assert len(set(first)) == len(first) >= 12
    assert first.tolist() == again.tolist()
    assert not set(first) & set(other)


def test_evidence_is_what_the_network_says(pool, labels):
    """Features and logits by hand: the saved weights in a fresh network, evaluation mode, the pool's own scale."""
    trained = learner()
    model = trained.fit(job(pool, labels))
    net = trained._maker(10, (8, 8, 1))()
    net.load_state_dict(model.state)
    net.eval()
    scale = model.scales
    x = (torch.from_numpy(pool.items[80:]).float() - scale["mean"][0]) / scale["deviation"][0]
    with torch.no_grad():
        inner = net.stages(net.norm(net.stem(x.permute(0, 3, 1, 2)))).mean((2, 3))
        logits = net.head(inner)
    evidence = model.evidence()
    torch.testing.assert_close(evidence["features"], inner, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(evidence["logits"], logits, rtol=1e-4, atol=1e-4)
    assert (evidence["checkpoint_predictions"][-1] == logits.argmax(1).numpy()).all()
    assert scale["mean"][0] == pytest.approx(pool.items.mean(), rel=1e-5)


def test_side_by_side_is_one_after_the_other(pool, labels):
    jobs = [job(pool, labels, seed=seed) for seed in (0, 1)]
    both = learner(together=2).fit_all(jobs)
    for one, alone in zip(both, [learner().fit(j) for j in jobs], strict=True):
        assert all(torch.equal(one.state[name], alone.state[name]) for name in alone.state)


class Event:
    """Of a device that needs so many looks."""

    def __init__(self, looks):
        self.looks = looks

    def query(self):
        self.looks -= 1
        return self.looks < 0


def test_where_all_wait_the_first_that_can_go_on_does(monkeypatch):
    order, done, naps = [], [], []
    monkeypatch.setattr("ncalr.learn.torch_learner.time.sleep", naps.append)

    class AfterTheOther:
        def query(self):
            return bool(done)

    def slow():
        yield AfterTheOther()
        order.append("slow")

    def quick():
        yield Event(3)
        order.append("quick")
        done.append(True)

    list(side_by_side(iter([slow(), quick()]), 2))
    assert order == ["quick", "slow"]
    assert 0 < len(naps) < 5, "the host rests where nobody can go on, and only there"


@pytest.mark.parametrize("together", [2, 4])
def test_the_next_training_begins_as_soon_as_there_is_room(together):
    """Five trainings; the last two are known only after the first has ended, and four places have to ask again."""
    begun, ended, alive, most = [], [], set(), []

    def training(name, steps):
        begun.append(name)
        alive.add(name)
        for step in range(steps):
            most.append(len(alive))
            yield Event(step % 3) if step % 2 else None
        alive.remove(name)
        return name.upper()

    def source():
        yield from (training("a", 2), training("b", 9), training("c", 2))
        while "A" not in ended:
            yield None
        yield training("d", 1)
        while "D" not in ended:
            yield None
        yield training("e", 1)

    numbers = []
    for at, result in side_by_side(source(), together):
        numbers.append(at)
        ended.append(result)
    assert begun == ["a", "b", "c", "d", "e"]
    assert sorted(ended) == ["A", "B", "C", "D", "E"]
    assert ended.index("A") < ended.index("B"), "the short one does not wait for the long one"
    assert [result.lower() for result in ended] == ["abcde"[at] for at in numbers]
    assert max(most) == min(together, 3)
    assert list(side_by_side(iter([]), 3)) == []
    assert list(side_by_side(iter([None, training("f", 1)]), 3)) == [], "nothing under way, and nothing to be had"


def test_a_larger_job_finds_room_in_the_same_tables(pool, labels):
    """Their addresses are in a captured graph."""
    used = learner()
    used.fit(job(pool, labels, 40))
    ((slot,),) = used._slots.values()
    tables, steps = slot.order.data_ptr(), slot.steps
    used.fit(job(pool, labels, 80))
    assert [*used._slots.values()] == [[slot]]
    assert slot.steps > steps
    assert slot.order.data_ptr() == tables


def test_a_learner_used_twice_forgets_the_first_job(pool, labels):
    used = learner()
    used.fit(job(pool, labels, seed=5))
    again, fresh = used.fit(job(pool, labels)), learner().fit(job(pool, labels))
    assert all(torch.equal(again.state[name], fresh.state[name]) for name in fresh.state)


@pytest.mark.parametrize(
    ("killed_after", "loss"), [(2, "cross_entropy"), (4, "cross_entropy"), (5, "elr"), (4, "small_loss(share=0.5)")]
)
def test_a_killed_training_goes_on_to_the_same_picks(pool, labels, tmp_path, monkeypatch, killed_after, loss):
    """The checkpoint of some epoch is all that is left; the picks are those of a training that was never killed."""
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SHARE", float("inf"))
    whole = learner(loss=loss).fit(job(pool, labels, classes=11))
    given = job(pool, labels, folder=tmp_path, classes=11)
    dying = learner(loss=loss)
    saves = []

    def save(*arguments):
        TorchLearner._save(dying, *arguments)
        saves.append(arguments[-1])
        if arguments[-1] == killed_after:
            raise KeyboardInterrupt

    monkeypatch.setattr(dying, "_save", save)
    with pytest.raises(KeyboardInterrupt):
        dying.fit(given)
    assert saves[-1] == killed_after
    resumed = learner(loss=loss).fit(given)
    assert resumed.record.notes == ["1 of 11 classes have no label yet", f"went on after epoch {killed_after}"]
    assert all(torch.equal(resumed.state[name], whole.state[name]) for name in whole.state)
    assert resumed.record.checkpoints == whole.record.checkpoints
    picks = [ncalr.query("ncal", 20, ids=m.watched, **m.evidence()) for m in (whole, resumed)]
    assert picks[0].ids.tolist() == picks[1].ids.tolist()
    assert not list(tmp_path.glob("training*"))


def test_a_checkpoint_of_another_training_is_not_touched(pool, labels, tmp_path, monkeypatch):
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("ncalr.learn.torch_learner.SAVE_SHARE", float("inf"))
    (tmp_path / "training.json").write_text(json.dumps({"belongs": "somebody", "arrays": "x"}))
    with pytest.raises(BadInput, match="another training"):
        learner().fit(job(pool, labels, folder=tmp_path))
    assert (tmp_path / "training.json").exists()
    learner().fit(job(pool, labels, folder=tmp_path, own=True))
    facts = json.loads((tmp_path / "training.json").read_text())
    assert facts["belongs"] != "somebody", "in a folder of its own it is not minded; whoever gave it clears it"


def test_a_streamed_pool_gives_what_one_in_memory_gives(pool, labels):
    streamed, held = (learner(data=data, workers=0).fit(job(pool, labels)) for data in ("stream", "device"))
    assert all(torch.equal(streamed.state[name], held.state[name]) for name in held.state)
    torch.testing.assert_close(streamed.evidence()["features"], held.evidence()["features"])


EVERY_KIND = frozenset({"features", "enhanced", "checkpoint_predictions", "mean_probs", "labelled_features"})


def test_evidence_of_a_streamed_pool_goes_to_the_host_chunk_by_chunk(pool, labels, monkeypatch):
    """Nothing is put together on the device, and what is there is what a pool on the device gives."""
    asked = job(pool, labels, needs=EVERY_KIND)
    expected = learner(data="device").fit(asked).evidence()
    placed, real = [], gather.Placed.add
    monkeypatch.setattr(gather.Placed, "add", lambda s, place, chunk: placed.append(place) or real(s, place, chunk))
    monkeypatch.setattr(gather.Joined, "add", lambda *_: pytest.fail("a chunk stays on the device"))
    monkeypatch.setattr("ncalr.learn.torch_learner._to_host", _only_small(_to_host))
    found = learner(data="stream", workers=0).fit(asked).evidence()
    assert placed == [slice(0, 256), slice(256, 512), slice(512, 520), slice(0, 80)]
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(array))


def test_chunks_are_placed_along_the_axis_of_the_items():
    samples, features = torch.rand(3, 10, 4), torch.rand(10, 2)
    placed, joined = gather.Placed(10), gather.Joined(10, Ranks())
    for start in (0, 4, 8):
        place = slice(start, min(start + 4, 10))
        for one in (placed, joined):
            one.add(place, {"samples": samples[:, place], "features": features[place]})
    for one in (placed, joined):
        assert torch.equal(one.whole()["samples"], samples)
        assert torch.equal(one.whole()["features"], features)


def _only_small(to_host):
    """What goes to the host at once are the sums of a check, never rows of the pool."""

    def watched(tensor):
        assert len(tensor) < 200 or tensor.ndim == 0, f"{tuple(tensor.shape)} wait for the end of the sweep"
        return to_host(tensor)

    return watched


def test_mean_probabilities_over_the_window(pool, labels):
    needs = frozenset({"mean_probs", "sampled_probs", "checkpoint_predictions"})
    evidence = learner().fit(job(pool, labels, needs=needs)).evidence()
    mean = evidence["mean_probs"]
    assert (mean.shape, mean.dtype) == ((520, 10), np.float32)
    np.testing.assert_allclose(mean, evidence["sampled_probs"].mean(axis=0), atol=2e-3)
    assert (evidence["sampled_probs"].argmax(2) == evidence["checkpoint_predictions"]).mean() > 0.99
    alone = learner().fit(job(pool, labels, needs=frozenset({"mean_probs"}))).evidence()
    assert alone.keys() == {"mean_probs"}
    np.testing.assert_array_equal(alone["mean_probs"], mean)
    assert len(ncalr.query("entropy", 20, probs=mean).ids) == 20


@pytest.mark.parametrize(("data", "most"), [("device", 5), ("stream", 2)])
def test_few_streamed_batches_wait_in_the_hosts_memory(pool, labels, monkeypatch, data, most):
    """How many marks are set before the first one is waited for: two steps a mark here."""
    monkeypatch.setattr("ncalr.learn.torch_learner.STEPS", 2)
    monkeypatch.setattr("ncalr.learn.torch_learner.AHEAD", 4)
    set_, waited = [], []
    monkeypatch.setattr(Slot, "mark", lambda slot: set_.append(1) or len(set_))
    trainer = learner(data=data, workers=0, batch=4, epochs=30)
    for event in trainer.training(job(pool, labels).checked()):
        if not waited:
            waited.append((event, len(set_)))
    assert waited == [(1, most)]


def test_worker_processes_read_the_pool(pool, labels):
    model = learner(data="stream", workers=1, epochs=2, checkpoints=2).fit(job(pool, labels, 40))
    assert len(model.evidence()["features"]) == 560


def test_warm_start_begins_where_the_last_one_ended(pool, labels):
    warm = learner(warm=True, epochs=4)
    warm.fit(job(pool, labels))
    again = warm.fit(job(pool, labels, round=1))
    cold = learner(epochs=4).fit(job(pool, labels, round=1))
    assert again.record.history[0]["accuracy"] > cold.record.history[0]["accuracy"] + 0.2


@pytest.mark.parametrize(
    "changes", [{"mixup": 0.4}, {"smoothing": 0.1}, {"schedule": "cosine"}, {"crop": 0, "flip": True}]
)
def test_every_way_of_training_learns(pool, labels, changes):
    model = learner(epochs=15, **changes).fit(job(pool, labels, 200))
    assert model.record.history[-1]["accuracy"] > 0.8


def test_balanced_draws_every_class_equally(pool, labels):
    rare = np.concatenate([np.flatnonzero(labels == 0)[:40], np.flatnonzero(labels == 1)[:2]])
    trained = learner(balanced=True)
    task = Job(pool, rare, labels[rare], 2).checked()
    slot = trained._borrow(task, trained._feed(pool), trained.recipe)
    slot.start(0, task.positions, task.labels, 2)
    drawn = []
    for epoch in range(1, 21):
        slot.begin(epoch)
        drawn.append(slot.target[: slot.steps].flatten())
    assert 0.4 < float(torch.cat(drawn).float().mean()) < 0.6


def test_an_epoch_sees_every_item(pool, labels):
    trained = learner()
    task = job(pool, labels, 75).checked()
    slot = trained._borrow(task, trained._feed(pool), trained.recipe)
    slot.start(0, task.positions, task.labels, 10)
    slot.begin(1)
    first = slot.order[: slot.steps].flatten().clone()
    assert set(first.tolist()) == set(range(75))
    assert (slot.target[: slot.steps].flatten().numpy() == labels[first]).all()
    slot.begin(2)
    assert not torch.equal(first, slot.order[: slot.steps].flatten())


def test_images_move_and_mirror_as_said():
    from ncalr.learn.feeds import cut

    image = torch.arange(1, 17, dtype=torch.uint8).reshape(1, 4, 4, 1)
    rows = torch.zeros(3, dtype=torch.int64)
    shift = torch.tensor([[1, 0], [0, -1], [0, 0]])
    mirror = torch.tensor([False, False, True])
    down, right, mirrored = cut(image, rows, shift, mirror)[..., 0]
    assert down.tolist() == [[5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [0, 0, 0, 0]]
    assert right.tolist() == [[0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11], [0, 13, 14, 15]]
    assert mirrored.tolist() == image[0, :, :, 0].flip(1).tolist()


def test_collapse_sums_agree_with_a_pass_in_float64():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), [1, 5, 50, 0, 30, 9])
    means = rng.normal(size=(6, 12))
    means[2] *= 0.01  # near the origin, where the mean of the class without labels would be
    features = (means[labels] + 0.2 * rng.normal(size=(len(labels), 12))).astype(np.float32)
    logits, weights = np.eye(6)[labels] + 0.4 * rng.normal(size=(len(labels), 6)), rng.normal(size=(6, 12))
    sums = Sums(*(torch.from_numpy(a) for a in (features, logits, labels)), 6)
    ours, accuracy, _ = read(sums.tensors(), weights)
    slow = measure_collapse(features, labels, 6, weights=weights, predictions=logits.argmax(1))
    for name, value in vars(slow).items():
        assert getattr(ours, name) == pytest.approx(value, rel=1e-9), name
    assert accuracy == (logits.argmax(1) == labels).mean()


def test_monte_carlo_dropout(pool, labels):
    needs = frozenset({"sampled_probs", "logits"})
    model = learner(samples="dropout", draws=7, dropout=0.5).fit(job(pool, labels, needs=needs))
    samples = model.evidence()["sampled_probs"]
    assert samples.shape == (7, 520, 10)
    torch.testing.assert_close(samples.sum(2), torch.ones(7, 520))
    assert float(samples.std(0).max()) > 1e-3
    with pytest.raises(BadInput, match="dropout"):
        learner(samples="dropout")


def test_checkpoints_as_samples(pool, labels):
    model = learner().fit(job(pool, labels, needs=frozenset({"sampled_probs", "checkpoint_predictions", "probs"})))
    evidence = model.evidence()
    assert evidence["sampled_probs"].shape == (3, 520, 10)
    assert (evidence["sampled_probs"].argmax(2) == evidence["checkpoint_predictions"]).mean() > 0.99
    np.testing.assert_allclose(evidence["sampled_probs"][-1], evidence["probs"], atol=2e-3)


def test_enhanced_features_by_hand(pool, labels):
    """The gradient of the uniform cross-entropy at the features, from the head alone, worked out by hand."""
    needs = frozenset({"enhanced", "features", "labelled_enhanced", "logits"})
    trained = learner(steepness=(2.0, 1.0, 1.0, 1.0))
    model = trained.fit(job(pool, labels, needs=needs))
    evidence = model.evidence()
    assert evidence["enhanced"].shape == (520, 16 + 32 + 64 + 64)
    assert evidence["labelled_enhanced"].shape == (80, 176)
    features, weights = evidence["features"].double(), model.state["head.weight"].double()
    slope = (torch.softmax(evidence["logits"].double(), 1) - 0.1) @ weights
    expected = torch.sigmoid(2.0 * features * slope)
    torch.testing.assert_close(evidence["enhanced"][:, -64:].double(), expected, rtol=1e-4, atol=1e-5)


def test_a_recipe_says_how_steep_sisoms_sigmoids_are(pool, labels, monkeypatch):
    """As an experiment gives it, by text. The training is the same, and a list too short is refused before it."""
    needs = frozenset({"enhanced", "logits"})
    plain, steep, short = (
        TorchLearner("resnet8", f"digits(epochs=2, checkpoints=2{more})", device="cpu", progress=False)
        for more in ("", ", steepness=[3, 1, 1, 1]", ", steepness=[3, 1]")
    )
    before, after = (one.fit(job(pool, labels, needs=needs)).evidence() for one in (plain, steep))
    torch.testing.assert_close(before["logits"], after["logits"], rtol=0, atol=0)
    inside = [torch.logit(found["enhanced"][:, -64:].double()) for found in (before, after)]
    torch.testing.assert_close(inside[1], 3 * inside[0], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(before["enhanced"][:, :-64], after["enhanced"][:, :-64], rtol=0, atol=0)
    monkeypatch.setattr(Slot, "begin", lambda *_: pytest.fail("the training has begun"))
    with pytest.raises(BadInput, match="steepness needs 4 numbers for this network, last layer first, got 2"):
        short.fit(job(pool, labels, needs=needs))


def test_save_and_load(pool, labels, tmp_path):
    model = learner().fit(job(pool, labels))
    model.save(tmp_path / "m")
    assert {p.name for p in (tmp_path / "m").iterdir()} == {"model.safetensors", "model.json"}
    loaded = learner().load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(pool), model.predict(pool))
    assert loaded.record.history == json.loads(json.dumps(model.record.history))
    with pytest.raises(BadInput, match="no model in"):
        learner().load(tmp_path)


def test_somebodys_own_network(pool, labels):
    def make(classes, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, classes))

    model = learner(net=make).fit(job(pool, labels))
    assert model.evidence()["features"].shape == (520, 20)
    deeper = learner(net=make, layer="1").fit(job(pool, labels))
    assert deeper.evidence()["features"].shape == (520, 64)
    with pytest.raises(BadInput, match="no linear layer"):
        learner(net=lambda c, s: nn.Sequential(nn.Conv2d(1, c, 8), nn.Flatten())).fit(job(pool, labels))


def test_texts_as_tokens():
    """Sentences that hold word 7 or word 8; a network of one embedding tells them apart, from uint16 as from int64."""

    class Bag(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.words, self.head = nn.EmbeddingBag(20, 16), nn.Linear(16, classes)

        def forward(self, tokens):
            assert tokens.dtype == torch.int64
            return self.head(self.words(tokens))

    rng = np.random.default_rng(0)
    tokens, truth = rng.integers(10, 20, (120, 6)), np.arange(120) % 2
    tokens[:, 2] = 7 + truth
    for data in ("device", "stream"):
        trained = learner(net=lambda c, s: Bag(c), epochs=30, rate=0.3, data=data, workers=0)
        model = trained.fit(Job(ArrayPool(tokens.astype(np.uint16)), np.arange(40), truth[:40], needs=needs_of("ncal")))
        assert (model.evidence()["logits"].argmax(1).numpy() == truth[40:]).mean() > 0.95
    with pytest.raises(BadInput, match="enhanced"):
        learner(net="mlp").fit(Job(ArrayPool(tokens), np.arange(40), truth[:40], needs=frozenset({"enhancd"})))


def test_a_loss_that_is_not_finite_says_when_and_what_to_try(pool, labels):
    with pytest.raises(TrainingFailed, match=r"not finite at step \d+ of 18 .*learning rate of 1e\+\d+; try a lower"):
        learner(rate=1e30, net="mlp").fit(
            Job(ArrayPool(pool.items.reshape(600, 64) / 1.0), pool.ids[:80], labels[:80], 10)
        )


def test_evaluation_in_smaller_chunks_when_memory_is_short(pool, labels, monkeypatch):
    trained = learner()
    model = trained.fit(job(pool, labels))
    slot = next(iter(trained._slots.values()))[0]
    slot.chunk = 64
    looked, refused = slot.look, []

    def scarce(x):
        if len(x) > 20:
            refused.append(len(x))
            raise torch.OutOfMemoryError("no more")
        return looked(x)

    monkeypatch.setattr(slot, "look", scarce)
    found = torch.cat([z for _, (_, z) in slot.sweep(slot.feed, np.arange(80, 600))])
    assert refused == [64, 32]
    torch.testing.assert_close(found, model.evidence()["logits"], rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(slot, "look", lambda x: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(TrainingFailed, match="not enough memory"):
        list(slot.sweep(slot.feed, np.arange(10)))


def test_labels_counted_from_1_are_noticed(pool, labels):
    some = np.arange(40)
    notes = learner(epochs=3).fit(Job(pool, some, labels[some] + 1)).record.notes
    assert notes[0].startswith("the labels lie in 1..10, and classes count from 0")
    assert notes[0].endswith("pass labels - 1; if class 0 has none yet, say classes=11")
    for counted in (Job(pool, some, labels[some] + 1, 11), Job(pool, some, labels[some])):
        assert not any("count from" in note for note in learner(epochs=3).fit(counted).record.notes)


def test_classes_without_labels_and_with_one(pool, labels):
    few = np.concatenate([np.flatnonzero(labels == 0)[:20], np.flatnonzero(labels == 3)[:1]])
    model = learner().fit(Job(pool, few, labels[few], 10, needs=needs_of("ncal")))
    assert any("8 of 10 classes have no label yet" in note for note in model.record.notes)
    assert any("1 of 10 classes have a single label" in note for note in model.record.notes)
    assert len(ncalr.query("ncal", 5, ids=model.watched, classes=10, **model.evidence())) == 5


def test_options_that_cannot_be(pool, labels):
    for options, words in (
        ({"precision": "half"}, "precision"),
        ({"data": "disk"}, "data"),
        ({"samples": "x"}, "samples"),
    ):
        with pytest.raises(BadInput, match=words):
            TorchLearner("resnet8", **options)
    if not torch.cuda.is_available():
        with pytest.raises(BadInput, match="no GPU"):
            TorchLearner("resnet8", device="cuda")
    model = learner(net="mlp").fit(
        Job(ArrayPool(np.random.default_rng(0).normal(size=(50, 4))), np.arange(20), np.arange(20) % 2)
    )
    with pytest.raises(BadInput, match="trained on items of shape"):
        model.predict(pool)


def test_progress_tells_what_happens(pool, labels):
    from ncalr.learn.progress import Progress, Terminal, progress_for

    class Listener(Progress):
        def __init__(self):
            self.heard = []

        def start(self, runs, epochs):
            self.heard.append(("start", runs, epochs))

        def step(self, run, epoch, images):
            self.heard.append(("step", epoch, images))

        def check(self, run, round_, facts):
            self.heard.append(("check", facts["epoch"]))

        def stop(self):
            self.heard.append(("stop",))

    listener = Listener()
    TorchLearner("mlp", "digits", progress=listener, **QUICK).fit(
        Job(ArrayPool(pool.items.reshape(600, 64) / 1.0), pool.ids[:64], labels[:64], 10)
    )
    assert listener.heard[0] == ("start", 1, 6)
    assert [e for e in listener.heard if e[0] == "step"] == [("step", epoch, 64) for epoch in range(1, 7)]
    assert listener.heard[-1] == ("stop",)
    assert type(progress_for(False)) is Progress
    assert type(progress_for(None)) is Progress  # tests have no terminal
    shown = progress_for(True)
    assert isinstance(shown, Terminal)
    for runs in (2, 1):
        shown.start(runs, 10)
        shown.step(0, 3, 128)
        shown.check(0, 2, {"accuracy": 0.5, "nc1": 1.0})
        shown.step(0, 4, 128)
        text = shown.bars.tasks[0].fields["facts"]
        assert "round" not in text  # who trains several folds counts them so
        assert "right on 50.0%" in text
        assert "items/s" in text  # images, texts or vectors
        assert shown.bars.tasks[0].description == ("training 1 of 2" if runs == 2 else "training")
        shown.stop()


def test_needs_of_strategies():
    assert needs_of("ncal") == {"features", "logits", "checkpoint_predictions", "labelled_features", "labels"}
    assert needs_of("random") == frozenset()
    assert "enhanced" in needs_of("sisom", "margin")
    assert "sampled_probs" in needs_of("bald")


def test_under_wrong_labels_the_terminal_phase_begins_where_nothing_moves_any_more(digits):
    """A loss that stands them never learns all labels, and comes to rest before the schedule says so."""
    rng, labels = np.random.default_rng(0), digits[1]
    pool = ArrayPool((digits[0] / 240).astype(np.float32).reshape(len(labels), -1))
    wrong = np.where(rng.random(len(labels)) < 0.2, (labels + rng.integers(1, 10, len(labels))) % 10, labels)
    tolerant = learner(
        net="mlp(widths=64)", **{**QUICK, "loss": "gce", "epochs": 80, "checkpoints": 10, "fallback": 0.95}
    )
    record = tolerant.fit(job(pool, wrong, 400, needs=frozenset())).record
    assert max(check["accuracy"] for check in record.history) < 0.95
    assert record.rule == "plateau"
    assert record.began > 48, "behind the first step of the rate"


@pytest.mark.parametrize("workers", [0, 2])
def test_runs_that_read_the_same_pool_by_turns_have_their_own_batches(pool, workers):
    """Two epochs under way, and a third run that sweeps over the pool in between."""
    one = learner(data="stream", workers=workers)
    feed = one._feed(pool)
    slots = [one._new_slot(10, tuple(pool.shape), 16, feed) for _ in range(3)]
    for seed, slot in enumerate(slots[:2]):
        slot.start(seed, np.arange(64), np.arange(64) % 10, 10)
        slot.begin(1)
    for place in range(4):
        for slot in slots[:2]:
            slot.step(place, 1)
            wanted = pool.read(slot.order[place].numpy())
            assert torch.equal(slot.raw, torch.from_numpy(np.array(wanted)))
        seen = sum(len(result[1]) for _, result in slots[2].sweep(feed, np.arange(100)))
        assert seen == 100


def test_jobs_with_recipes_of_their_own_use_the_same_slot_and_learn_as_alone(pool, labels):
    """Another number of epochs, another schedule: one captured step serves all; another loss needs one of its own."""
    texts = ["digits(epochs=4, checkpoints=2)", "digits(epochs=6, checkpoints=3, schedule=cosine)"]
    mixed = learner(epochs=9, checkpoints=2)
    jobs = [replace(job(pool, labels, 60), recipe=one) for one in (*texts, None)]
    models = mixed.fit_all(jobs)
    assert [model.record.epochs for model in models] == [4, 6, 9]
    assert len(models[1].record.checkpoints) == 3
    assert [len(slots) for slots in mixed._slots.values()] == [1]
    for text, model in zip(texts, models, strict=False):
        alone = TorchLearner("resnet8", text, device="cpu", progress=False).fit(job(pool, labels, 60))
        assert all(torch.equal(value, alone.state[name]) for name, value in model.state.items())
    mixed.fit(replace(jobs[0], recipe="digits(epochs=4, checkpoints=2, loss=gce)"))
    assert [len(slots) for slots in mixed._slots.values()] == [1, 1]


def test_a_model_is_saved_with_the_recipe_that_it_was_trained_by(pool, labels, tmp_path):
    own = recipe("digits(epochs=3, checkpoints=2)")
    learner(epochs=9).fit(replace(job(pool, labels, 60), recipe=own)).save(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["recipe"]["epochs"] == 3


def test_pools_that_were_used_lately_stay_ready(pool, labels):
    one = learner(epochs=2, checkpoints=2, pools=2)
    first, second, third = (ArrayPool(np.asarray(pool.read(np.arange(80)))) for _ in range(3))
    ready = one._feed(first)
    one._feed(second)
    assert one._feed(first) is ready
    one.fit(job(third, labels, 60))
    one._feed(first)
    assert [known for known, _ in one._feeds] == [third, first], "the one that was not asked for longest went"
    slots = [slot for found in one._slots.values() for slot in found]
    assert len(slots) == 1
    one._feed(second)
    assert not one._slots, "a slot goes with the pool that it reads"


def test_a_pool_that_is_only_predicted_is_not_asked_for_its_scales(pool, labels, monkeypatch):
    """A look at thousands of images, a second each time on large ones: a model brings the scales of its own pool."""
    model = learner(epochs=2, checkpoints=2).fit(job(pool, labels, 60))
    looked, usual = [], feeds.Normaliser.of.__func__
    spy = lambda cls, pool, device, scales=None: looked.append(scales) or usual(cls, pool, device, scales)  # noqa: E731
    monkeypatch.setattr(feeds.Normaliser, "of", classmethod(spy))
    other = ArrayPool(np.asarray(pool.read(np.arange(80))))
    assert model.predict(other) == pytest.approx(model.predict(pool, pool.ids[:80]), abs=1e-5)
    assert looked == [model.scales] * 2


@pytest.mark.parametrize(
    ("net", "images", "light", "expected"),
    [("mlp(widths=32)", False, 2e8, 1), ("mlp(widths=32)", False, 0, 2), ("resnet8", True, 2e8, 2)],
)
def test_little_work_on_vectors_has_one_thread(digits, net, images, light, expected, monkeypatch):
    """Several wait for each other at every layer, and for whoever else computes; more work and images have all."""
    monkeypatch.setattr("ncalr.learn.slot.LIGHT", light)
    seen, step, look = {"steps": set(), "looks": set(), "sums": set()}, Slot._step, Slot.look
    note = lambda what: seen[what].add(torch.get_num_threads())  # noqa: E731
    monkeypatch.setattr(Slot, "_step", lambda slot, *rest: (note("steps"), step(slot, *rest))[1])
    monkeypatch.setattr(Slot, "look", lambda slot, x: (note("looks"), look(slot, x))[1])
    monkeypatch.setattr(torch_learner, "Sums", lambda *given: (note("sums"), Sums(*given))[1])
    items = digits[0][:200] if images else digits[0][:200].reshape(200, -1).astype(np.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        learner(net=net, epochs=2, checkpoints=2).fit(job(ArrayPool(items), digits[1]))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {"steps": {expected}, "looks": {expected}, "sums": {expected}}


def test_steps_on_the_processor_leave_every_other_generator_alone(digits, monkeypatch):
    """Torch writes down who asked, at every step, where it has no card: milliseconds, and memory that is kept."""
    asked = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", asked.append)
    for epochs in (3, 9):
        learner(net="mlp(widths=32)", epochs=epochs).fit(
            job(ArrayPool(digits[0].reshape(len(digits[0]), -1).astype(np.float32)), digits[1])
        )
    assert len(asked) <= 2 * 2  # once or twice a training
