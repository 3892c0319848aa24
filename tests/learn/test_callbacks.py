"""Watching the pool from somebody's own training."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from optional import needed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import ncalr
from ncalr import extras
from ncalr.errors import BadInput, MissingExtra, NotFinite, NotRecorded, UnknownName
from ncalr.learn import callbacks
from ncalr.learn.callbacks import PoolWatcher, lightning_callback, trainer_callback

ITEMS, CLASSES = 50, 3


def net(seed=0):
    """Batch normalisation and dropout: what a pass in the wrong mode would disturb."""
    torch.manual_seed(seed)
    layers = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, CLASSES)
    return nn.Sequential(*layers)


@pytest.fixture
def pool():
    return torch.randn(ITEMS, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def labelled():
    """Clusters that can be learnt, so that predictions move while training."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(CLASSES, (30,), generator=generator)
    return torch.randn(30, 4, generator=generator) + F.one_hot(labels, 4), labels


def loader(pool, **options):
    return DataLoader(TensorDataset(pool), batch_size=16, **options)


def epoch(model, labelled, rate=0.5):
    x, y = labelled
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True):
        optimiser.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimiser.step()


def by_hand(model, pool):
    """Logits of the pool, from a copy in evaluation mode."""
    with torch.no_grad():
        return copy.deepcopy(model).eval()(pool).numpy()


def flips_by_hand(log):
    return [sum(int(a != b) for a, b in itertools.pairwise(column)) for column in zip(*log, strict=True)]


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


# -- plain PyTorch ------------------------------------------------------------------------------------------------


def test_what_is_recorded_is_what_a_pass_by_hand_gives(pool, labelled):
    model, log = net(), []
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS)
    for _ in range(6):
        epoch(model, labelled)
        assert watcher.checkpoint()
        log.append(by_hand(model, pool).argmax(1).tolist())
    assert watcher.recorder.checkpoint_predictions().tolist() == log
    flips = flips_by_hand(log)
    assert max(flips) > 0
    assert watcher.recorder.flips().tolist() == flips


def test_a_watched_training_ends_with_the_weights_of_an_unwatched_one(pool, labelled):
    ends = []
    for watched in (False, True):
        model = net()
        watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS)
        for _ in range(3):
            epoch(model, labelled)
            if watched:
                watcher.checkpoint()
        if watched:
            watcher.evidence(DataLoader(TensorDataset(*labelled), batch_size=7, shuffle=True))
        epoch(model, labelled)
        ends.append(model.state_dict())
    assert same(*ends)


def test_modes_gradients_and_statistics_are_left_alone(pool):
    model = net()
    model.train()
    model[1].eval()  # somebody froze this layer's statistics and not the others
    model(pool[:10]).sum().backward()
    modes = [module.training for module in model.modules()]
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    state = copy.deepcopy(model.state_dict())
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS)
    watcher.checkpoint()
    watcher.checkpoint()
    watcher.evidence()
    assert [module.training for module in model.modules()] == modes
    assert len(set(modes)) == 2
    assert same(state, model.state_dict())
    for parameter, before in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, before)
        assert parameter.requires_grad


def test_modes_come_back_after_a_failure_and_the_recorder_is_as_it_was(pool):
    model = net()
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS)
    watcher.checkpoint()
    good = watcher.batches
    watcher.batches = loader(torch.cat([pool[:40], torch.full((10, 4), torch.nan)]))
    with pytest.raises(NotFinite, match=r"NaN or infinity for 8 of 16 items"):
        watcher.checkpoint()
    assert all(module.training for module in model.modules())
    watcher.batches = good
    watcher.checkpoint()
    assert watcher.recorder.checkpoints == 2
    assert not watcher.recorder.flips().any()


@pytest.mark.parametrize(
    ("start", "every", "recorded"),
    [(0, 1, [1, 2, 3, 4, 5, 6]), (3, 1, [4, 5, 6]), (0, 2, [2, 4, 6]), (1, 2, [3, 5]), (6, 1, [])],
)
def test_start_and_every_choose_the_epochs(pool, start, every, recorded):
    watcher = PoolWatcher(net(), loader(pool), CLASSES, ITEMS, start=start, every=every)
    assert [done for done in range(1, 7) if watcher.checkpoint()] == recorded
    assert watcher.recorder.checkpoints == len(recorded)


def _shuffled(pool):
    order = torch.randperm(ITEMS, generator=torch.Generator().manual_seed(3))
    return [(rows, pool[rows]) for rows in order.split(9)]


BATCHES = {
    "a list of tensors": lambda pool: list(pool.split(16)),
    "NumPy arrays": lambda pool: [(part.numpy(),) for part in pool.split(16)],
    "a loader": loader,
    "a function": lambda pool: lambda: ((part,) for part in pool.split(16)),
    "rows in any order": _shuffled,
    "rows as lists": lambda pool: [(rows.tolist(), x) for rows, x in _shuffled(pool)],
    "slices": lambda pool: [(slice(25, 50), pool[25:]), (slice(0, 25), pool[:25])],
    "a shuffling loader with rows": lambda pool: DataLoader(
        TensorDataset(torch.arange(ITEMS), pool), batch_size=8, shuffle=True
    ),
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES.keys())
def test_batches_come_in_many_forms(pool, make):
    model = net()
    watcher = PoolWatcher(model, make(pool), CLASSES, ITEMS, keep="logits")
    watcher.checkpoint()
    watcher.checkpoint()
    expected = by_hand(model, pool)
    np.testing.assert_allclose(watcher.recorder.checkpoint_logits()[1], expected.astype(np.float16), atol=2e-3)
    np.testing.assert_allclose(watcher.evidence()["logits"], expected, atol=1e-6)


class Two(nn.Module):
    """Takes two inputs by name and gives a dictionary."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, left, right):
        return {"loss": None, "logits": self.head(self.body(left) * right)}


@pytest.mark.parametrize("by_name", [True, False])
def test_several_inputs_and_outputs_with_logits(pool, by_name):
    torch.manual_seed(0)
    model = Two()
    right = torch.randn(ITEMS, 1)
    expected = model(pool, right)["logits"].detach().numpy()
    parts = list(zip(pool.split(20), right.split(20), strict=True))
    if by_name:
        batches = [{"left": a, "right": b, "labels": torch.full((len(a),), -1)} for a, b in parts]
    else:
        batches = [((a, b),) for a, b in parts]
    watcher = PoolWatcher(model, batches, CLASSES, ITEMS)
    watcher.checkpoint()
    assert watcher.recorder.predictions.tolist() == expected.argmax(1).tolist()


def test_forward_says_how_to_get_logits(pool):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, x):
            return x.sum(), self.inner(x)

    model = Odd()
    with pytest.raises(BadInput, match=r"the model gave tuple: .*forward=lambda model, x: model\(x\)\[0\]"):
        PoolWatcher(model, loader(pool), CLASSES, ITEMS).checkpoint()
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS, forward=lambda model, x: model(x)[1])
    watcher.checkpoint()
    assert watcher.recorder.predictions.tolist() == by_hand(model.inner, pool).argmax(1).tolist()


def test_evidence_is_what_a_query_takes(pool, labelled):
    model = net()
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS, start=1)
    for _ in range(4):
        epoch(model, labelled)
        watcher.checkpoint()
    x, y = labelled
    found = watcher.evidence([(x[:20], y[:20]), {"input": x[20:], "labels": y[20:]}])
    body = copy.deepcopy(model[:-1]).eval()
    with torch.no_grad():
        np.testing.assert_allclose(found["features"], body(pool), atol=1e-6)
        np.testing.assert_allclose(found["labelled_features"], body(x), atol=1e-6)
    np.testing.assert_allclose(found["logits"], by_hand(model, pool), atol=1e-6)
    np.testing.assert_allclose(found["labelled_logits"], by_hand(model, x), atol=1e-6)
    assert found["labels"].tolist() == y.tolist()
    assert found["checkpoint_predictions"].shape == (3, ITEMS)
    assert found["checkpoint_predictions"][-1].tolist() == found["logits"].argmax(1).tolist()
    picks = ncalr.query("ncal", 5, **found)
    assert picks.parts["ff"].tolist() == watcher.recorder.flips()[picks.ids].tolist()


def test_flips_alone_are_evidence_too(pool, labelled):
    model = net()
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS, keep="flips")
    for _ in range(3):
        epoch(model, labelled)
        watcher.checkpoint()
    found = watcher.evidence([labelled])
    assert "checkpoint_predictions" not in found
    assert found["flips"].tolist() == watcher.recorder.flips().tolist()
    assert len(ncalr.query("ncal", 5, **found).ids) == 5


def test_another_layer_can_give_the_features(pool):
    model = net()
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS, layer="0")
    watcher.checkpoint()
    watcher.checkpoint()
    np.testing.assert_array_equal(watcher.evidence()["features"], pool)


def test_half_precision_outputs_are_recorded(pool):
    model = net().to(torch.bfloat16)
    watcher = PoolWatcher(model, loader(pool.to(torch.bfloat16)), CLASSES, ITEMS, keep=("logits", "probs"))
    watcher.checkpoint()
    with torch.no_grad():
        expected = copy.deepcopy(model).eval()(pool.to(torch.bfloat16)).float()
    assert watcher.recorder.predictions.tolist() == expected.argmax(1).tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_inputs_follow_the_model_to_the_gpu(pool):
    model = net().cuda()
    watcher = PoolWatcher(model, loader(pool), CLASSES, ITEMS)
    watcher.checkpoint()
    watcher.checkpoint()
    np.testing.assert_allclose(watcher.evidence()["logits"], by_hand(model.cpu(), pool), atol=1e-4)


def test_inputs_follow_the_model_to_its_device(pool):
    class Elsewhere(nn.Module):
        """Says where it was called; a device that every machine has and that is not the CPU."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4, CLASSES, device="meta"))

        def forward(self, x):
            self.seen = x.device
            return torch.zeros(len(x), CLASSES)

    model = Elsewhere()
    PoolWatcher(model, loader(pool), CLASSES, ITEMS).checkpoint()
    assert model.seen == torch.device("meta")


# -- what is refused ------------------------------------------------------------------------------------------------


def test_a_loader_that_shuffles_is_refused(pool):
    watcher = PoolWatcher(net(), loader(pool, shuffle=True), CLASSES, ITEMS)
    with pytest.raises(BadInput, match=r"the pool's loader shuffles .* shuffle=False"):
        watcher.checkpoint()


def test_an_iterator_is_refused_at_once(pool):
    with pytest.raises(BadInput, match=r"generator can be gone through only once: give a list, a DataLoader"):
        PoolWatcher(net(), ((part,) for part in pool.split(16)), CLASSES, ITEMS)


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        (lambda pool: loader(pool, drop_last=True), r"each of the 50 pool items exactly once; they held 48 rows"),
        (lambda pool: loader(pool[:0]), r"exactly once; they held 0 rows"),
        (lambda pool: loader(torch.cat([pool, pool])), r"more than the 50 pool items there should be"),
        (lambda pool: [(torch.zeros(50, dtype=int), pool)], r"they held 50 rows, 1 different"),
        (lambda pool: [(torch.arange(1, 51), pool)], r"rows must lie in 0\.\.49, got 1\.\.50"),
        (lambda pool: [(torch.arange(49), pool)], r"a batch has 49 rows and 50 outputs"),
        (lambda pool: [(pool, torch.zeros(50))], r"got 2 things, the first torch.float32 of shape \(50, 4\)\. Leave"),
    ],
)
def test_batches_that_are_not_the_pool_are_refused(pool, batches, text):
    watcher = PoolWatcher(net(), batches(pool), CLASSES, ITEMS)
    with pytest.raises(BadInput, match=text):
        watcher.checkpoint()
    assert watcher.recorder.checkpoints == 0


def test_a_model_with_other_classes_is_refused(pool):
    with pytest.raises(BadInput, match=r"the model must give logits \(n, 7\), got \(16, 3\)"):
        PoolWatcher(net(), loader(pool), 7, ITEMS).checkpoint()


def test_start_and_every_are_looked_at(pool):
    with pytest.raises(BadInput, match=r"every at least 1, got 0 and 0"):
        PoolWatcher(net(), loader(pool), CLASSES, ITEMS, every=0)


def test_evidence_without_checkpoints_says_so(pool):
    watcher = PoolWatcher(net(), loader(pool), CLASSES, ITEMS, start=5)
    for _ in range(6):
        watcher.checkpoint()
    with pytest.raises(NotRecorded, match=r"flips need 2 checkpoints and 1 were recorded in 6 epochs .* start=5"):
        watcher.evidence()


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (lambda x, y: (x,), r"a labelled batch is \(inputs, labels\)"),
        (lambda x, y: {"input": x}, r"got the keys \['input'\]"),
        (lambda x, y: (x, y[:5]), r"30 labelled items need as many whole-number labels, got int64 of shape \(5,\)"),
        (lambda x, y: (x, y.float()), r"whole-number labels, got float32"),
    ],
)
def test_labelled_batches_are_looked_at(pool, labelled, batch, text):
    watcher = PoolWatcher(net(), loader(pool), CLASSES, ITEMS)
    watcher.checkpoint()
    watcher.checkpoint()
    with pytest.raises(BadInput, match=text):
        watcher.evidence([batch(*labelled)])
    with pytest.raises(BadInput, match="the labelled batches are empty"):
        watcher.evidence([])


def test_a_missing_package_is_named_with_the_line_that_installs_it(pool, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"Lightning needs lightning; .* pip install 'ncalr\[lightning\]'"):
        lightning_callback(loader(pool), CLASSES, ITEMS)
    with pytest.raises(MissingExtra, match=r"Trainer needs transformers; install it with: pip install 'ncalr\[hf\]'"):
        trainer_callback(loader(pool), CLASSES, ITEMS)


def test_a_package_that_does_not_import_is_not_called_missing(monkeypatch):
    def broken(name):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    monkeypatch.setattr(extras, "import_module", broken)
    with pytest.raises(MissingExtra, match=r"timm is installed and does not import \(RuntimeError: operator torchvis"):
        extras.load("timm", "timm", "this")


def test_the_time_to_record_is_looked_at(pool):
    with pytest.raises(UnknownName, match=r"no time to record 'step'\. Known: training, validation"):
        lightning_callback(loader(pool), CLASSES, ITEMS, at="step")
    with pytest.raises(UnknownName, match=r"no time to record 'epochs'\. Did you mean 'epoch'"):
        trainer_callback(loader(pool), CLASSES, ITEMS, at="epochs")


# -- Lightning ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request, monkeypatch):
    """Either package, as if the other had not been imported."""
    module = needed(request.param, "lightning")
    other = {"lightning.pytorch", "pytorch_lightning"} - {request.param}
    monkeypatch.delitem(callbacks.sys.modules, other.pop(), raising=False)
    return module


def module_of(lightning, labelled, log=None, pool=None):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.net(batch[0])

        def on_train_epoch_end(self):
            if log is not None:
                log.append(by_hand(self.net, pool).argmax(1).tolist())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

        def train_dataloader(self):
            return DataLoader(TensorDataset(*labelled), batch_size=10, shuffle=True)

        def val_dataloader(self):
            return DataLoader(TensorDataset(*labelled), batch_size=10)

    return Module()


def lightning_trainer(lightning, folder, *recorders, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    where = {"accelerator": "cpu", "devices": 1, "default_root_dir": str(folder)}
    return lightning.Trainer(callbacks=list(recorders), **{"enable_checkpointing": False, **quiet, **where, **options})


# Lightning's advice on how many workers a loader should have, and its use of torch's own deprecated tree functions.
advice = pytest.mark.filterwarnings(
    "ignore:The '.*_dataloader' does not have many workers",
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated",
)


@advice
def test_lightning_records_the_ends_of_epochs(lightning, tmp_path, pool, labelled):
    log = []
    recorder = lightning_callback(loader(pool), CLASSES, ITEMS, start=2, every=2)
    assert isinstance(recorder, lightning.Callback)
    module = module_of(lightning, labelled, log, pool)
    lightning_trainer(lightning, tmp_path, recorder, max_epochs=8).fit(module)
    assert len(log) == 8
    expected = log[3::2]  # after epochs 4, 6 and 8
    assert recorder.recorder.checkpoint_predictions().tolist() == expected
    flips = flips_by_hand(expected)
    assert max(flips) > 0
    found = recorder.evidence([labelled])
    assert recorder.recorder.flips().tolist() == flips
    np.testing.assert_allclose(found["logits"], by_hand(module.net, pool), atol=1e-6)
    assert len(ncalr.query("ncal", 5, **found).ids) == 5


@advice
@pytest.mark.parametrize("sanity", [0, 2])
def test_lightning_records_validations_but_not_the_sanity_check(lightning, tmp_path, pool, labelled, sanity):
    recorder = lightning_callback(loader(pool), CLASSES, ITEMS, at="validation")
    module = module_of(lightning, labelled)
    trainer = lightning_trainer(
        lightning, tmp_path, recorder, max_epochs=3, num_sanity_val_steps=sanity, val_check_interval=1
    )
    trainer.fit(module)
    assert recorder.recorder.checkpoints == 3 * 3  # three batches an epoch, a validation after each
    assert recorder.recorder.predictions.tolist() == by_hand(module.net, pool).argmax(1).tolist()
    trainer.validate(module, verbose=False)
    assert recorder.recorder.checkpoints == 3 * 3


@advice
def test_lightning_trains_as_if_unwatched(lightning, tmp_path, pool, labelled):
    ends = []
    for recorders in ([], [lightning_callback(loader(pool), CLASSES, ITEMS)]):
        module = module_of(lightning, labelled)
        torch.manual_seed(0)
        lightning_trainer(lightning, tmp_path, *recorders, max_epochs=3).fit(module)
        ends.append(module.state_dict())
    assert same(*ends)


@advice
def test_lightning_sees_the_pool_in_the_precision_of_the_training(lightning, tmp_path, pool, labelled):
    recorder = lightning_callback(loader(pool), CLASSES, ITEMS)
    module = module_of(lightning, labelled)
    lightning_trainer(lightning, tmp_path, recorder, max_epochs=2, precision="bf16-true").fit(module)
    assert next(module.parameters()).dtype == torch.bfloat16
    with torch.no_grad():
        expected = copy.deepcopy(module.net).eval()(pool.to(torch.bfloat16)).float()
    assert recorder.recorder.predictions.tolist() == expected.argmax(1).tolist()
    np.testing.assert_allclose(recorder.evidence()["logits"], expected, atol=1e-2)


@advice
def test_lightning_goes_on_after_a_resume(lightning, tmp_path, pool, labelled):
    log = []
    first = lightning_callback(loader(pool), CLASSES, ITEMS, keep=("predictions", "logits"))
    trainer = lightning_trainer(lightning, tmp_path, first, max_epochs=3)
    trainer.fit(module_of(lightning, labelled, log, pool))
    trainer.save_checkpoint(tmp_path / "three.ckpt")
    assert torch.load(tmp_path / "three.ckpt", weights_only=True)["callbacks"]  # without pickle
    again = lightning_callback(loader(pool), CLASSES, ITEMS, keep=("predictions", "logits"))
    trainer = lightning_trainer(lightning, tmp_path, again, max_epochs=5)
    trainer.fit(module_of(lightning, labelled, log, pool), ckpt_path=tmp_path / "three.ckpt")
    assert len(log) == 5
    assert again.recorder.checkpoint_predictions().tolist() == log
    np.testing.assert_array_equal(again.recorder.checkpoint_logits()[:3], first.recorder.checkpoint_logits())


@advice
def test_lightning_with_several_processes_is_refused(lightning, tmp_path, pool, labelled):
    recorder = lightning_callback(loader(pool), CLASSES, ITEMS)
    trainer = lightning_trainer(lightning, tmp_path, recorder, devices=2, strategy="ddp")
    with pytest.raises(BadInput, match=r"watched in one process and this training runs in 2"):
        recorder.setup(trainer, module_of(lightning, labelled), "fit")


@advice
def test_lightning_with_another_model_is_refused(lightning, tmp_path, pool, labelled):
    recorder = lightning_callback(loader(pool), CLASSES, ITEMS)
    with pytest.raises(NotRecorded, match="nothing was trained with this callback yet"):
        recorder.evidence()
    lightning_trainer(lightning, tmp_path, recorder, max_epochs=1).fit(module_of(lightning, labelled))
    with pytest.raises(BadInput, match="watched another model: make a new one"):
        lightning_trainer(lightning, tmp_path, recorder, max_epochs=1).fit(module_of(lightning, labelled))


# -- the Hugging Face Trainer -----------------------------------------------------------------------------------------


@pytest.fixture
def transformers():
    needed("accelerate", "hf")  # by the Trainer
    return needed("transformers", "hf")


def texts(count, seed):
    """Token ids with padding 0 at the end, their mask, and whether the first is even."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 20, (count, 6), generator=generator)
    labels = ids[:, 0] % 2
    ids[::3, 4:] = 0
    return [
        {"input_ids": row, "attention_mask": (row != 0).long(), "labels": y} for row, y in zip(ids, labels, strict=True)
    ]


def bert(transformers):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=20, max_position_embeddings=8, initializer_range=0.5, **sizes)
    return transformers.BertForSequenceClassification(config)


def hugging_trainer(transformers, model, folder, *recorders, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
        **options,
    )
    return transformers.Trainer(model, arguments, train_dataset=texts(32, 0), callbacks=list(recorders))


class Alongside:
    """Predictions by hand at every step and at the end of every epoch."""

    def __new__(cls, transformers, pool):
        class Log(transformers.TrainerCallback):
            def __init__(self):
                self.steps, self.epochs = [], []

            def look(self, model):
                inputs = {name: torch.stack([item[name] for item in pool]) for name in ("input_ids", "attention_mask")}
                with torch.no_grad():
                    return copy.deepcopy(model).eval()(**inputs).logits.argmax(1).tolist()

            def on_step_end(self, args, state, control, model=None, **_):
                self.steps.append(self.look(model))

            def on_epoch_end(self, args, state, control, model=None, **_):
                self.epochs.append(self.look(model))

        return Log()


@pytest.mark.parametrize(("at", "start", "every"), [("epoch", 1, 1), ("epoch", 0, 2), ("step", 2, 3)])
def test_the_trainer_is_recorded(transformers, tmp_path, at, start, every):
    pool = texts(40, 1)
    recorder = trainer_callback(DataLoader(pool, batch_size=16), 2, 40, at=at, start=start, every=every)
    model, log = bert(transformers), Alongside(transformers, pool)
    hugging_trainer(transformers, model, tmp_path, recorder, log, num_train_epochs=4).train()
    assert len(log.steps) == 16
    assert len(log.epochs) == 4
    by_hand = log.epochs if at == "epoch" else log.steps
    expected = by_hand[start + every - 1 :: every]
    assert recorder.recorder.checkpoint_predictions().tolist() == expected
    flips = flips_by_hand(expected)
    assert max(flips) > 0
    assert recorder.recorder.flips().tolist() == flips
    found = recorder.evidence(DataLoader(texts(32, 0), batch_size=10))
    assert found["features"].shape == (40, 16)
    assert found["logits"].argmax(1).tolist() == log.epochs[-1]
    weights = model.classifier.weight.detach().numpy()
    again = found["features"] @ weights.T + model.classifier.bias.detach().numpy()
    np.testing.assert_allclose(again, found["logits"], atol=1e-5)
    assert len(ncalr.query("ncal", 5, **found).ids) == 5


def test_the_trainer_trains_as_if_unwatched(transformers, tmp_path):
    ends = []
    for recorders in ([], [trainer_callback(DataLoader(texts(40, 1), batch_size=16), 2, 40)]):
        model = bert(transformers)
        hugging_trainer(transformers, model, tmp_path, *recorders, num_train_epochs=2).train()
        ends.append(model.state_dict())
        assert not recorders or recorders[0].recorder.checkpoints == 2
    assert same(*ends)


def test_a_trainer_that_stops_inside_an_epoch_is_recorded_at_its_end(transformers, tmp_path):
    recorder = trainer_callback(DataLoader(texts(40, 1), batch_size=16), 2, 40)
    hugging_trainer(transformers, bert(transformers), tmp_path, recorder, max_steps=6).train()
    assert recorder.recorder.checkpoints == 2  # four steps an epoch
    assert recorder.watcher.done == 2


def test_a_trainer_of_several_processes_is_refused(transformers):
    class Arguments:
        world_size = 4

    recorder = trainer_callback([], 2, 40)
    with pytest.raises(BadInput, match=r"watched in one process and this training runs in 4"):
        recorder.on_train_begin(Arguments(), None, None, model=bert(transformers))
