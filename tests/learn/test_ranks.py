"""Two processes train as one does: the same batches, gradients, measures and record, up to the order of sums."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ncalr.errors import BadInput
from ncalr.learn import TorchLearner, ranks
from ncalr.learn.measures import Sums
from ncalr.learn.ranks import Ranks

SCRIPT = Path(__file__).with_name("rank_script.py")


def train(processes, out, net="resnet8"):
    """What the training gave, on so many processes."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    done = subprocess.run(
        [sys.executable, *words, str(SCRIPT), str(out), net],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(Path(out).read_text())


def test_two_processes_train_as_one(tmp_path):
    one, two = train(1, tmp_path / "one.json"), train(2, tmp_path / "two.json")
    assert (one["size"], two["size"]) == (1, 2)
    for ours, theirs in zip(one["history"][:2], two["history"][:2], strict=True):  # before a rounding crosses a ReLU
        assert theirs == pytest.approx(ours, rel=1e-4, abs=1e-5)
    assert np.shape(two["labelled"]) == (101, 10)
    np.testing.assert_allclose(two["labelled"], one["labelled"], atol=1e-4)  # of the first check
    assert two["weight"] == pytest.approx(one["weight"], rel=1e-2)
    assert (np.array(one["log"]) == np.array(two["log"])).mean() > 0.85
    assert len(set(one["ids"]) & set(two["ids"])) >= 15


def test_alone_everything_stays_as_it_is():
    alone = ranks.start()
    rows, tensor = np.arange(5), torch.ones(3)
    assert (alone, alone.share(rows) is rows, alone.part(5)) == (Ranks(), True, slice(0, 5))
    assert alone.add(tensor) is alone.least(tensor) is alone.join(tensor, 3) is tensor
    alone.wait()
    ranks.stop()


def test_shares_are_runs_and_cover_everything():
    for size in (1, 2, 3, 7):
        parts = [Ranks(rank, size).part(5) for rank in range(size)]
        assert [at for part in parts for at in range(5)[part]] == list(range(5))
        assert sum(len(Ranks(rank, size).share(np.arange(5))) for rank in range(size)) == 5


def test_sums_of_shares_add():
    """The hook is called for what adds, and the rest follows from the sums."""
    rng = torch.Generator().manual_seed(0)
    features, logits = torch.randn(30, 4, generator=rng), torch.randn(30, 3, generator=rng)
    labels = torch.arange(30) % 3
    whole = Sums(features, logits, labels, 3)
    seen = []
    Sums(features, logits, labels, 3, lambda sums: seen.append(sums.clone()) or sums)
    assert len(seen) == 5
    np.testing.assert_array_equal(seen[0], whole.counts)


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone: every message is sent, and answered by itself."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield ranks.current()
    ranks.stop()


@pytest.mark.filterwarnings("ignore")
def test_the_distributed_path_of_one_process_is_the_plain_one(group, digits, tmp_path):
    from ncalr.learn.nets.norm import NormAct

    torch.manual_seed(0)
    x = torch.randn(6, 4, 3, 3)
    ours, plain = NormAct(4), NormAct(4)
    residual = torch.randn(6, 4, 3, 3)
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    together = ours(inputs[0], residual)
    ranks.stop()
    alone = plain(inputs[1], residual)
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(ours.running_var, plain.running_var)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/again", rank=0, world_size=1)
    (together**2).sum().backward()
    (alone**2).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    torch.testing.assert_close(ours.weight.grad, plain.weight.grad)
    assert group.together
    learner = TorchLearner("resnet8", "digits(epochs=2, checkpoints=2)", device="cpu", progress=False)
    assert learner.ranks.together


def test_mixup_does_not_go_over_processes(pool, labels, monkeypatch):
    from ncalr.learn import Job

    monkeypatch.setattr("ncalr.learn.slot.current", lambda: Ranks(0, 2))
    learner = TorchLearner("resnet8", "digits(epochs=2, checkpoints=2, mixup=0.2)", device="cpu", progress=False)
    with pytest.raises(BadInput, match="mixup pairs"):
        learner.fit(Job(pool, np.arange(30), labels[:30]))


@pytest.mark.parametrize(("loss", "goes"), [("elr", False), ("small_loss", False), ("gce", True)])
def test_a_loss_that_remembers_does_not_go_over_processes(pool, labels, monkeypatch, loss, goes):
    from ncalr.learn import Job

    monkeypatch.setattr("ncalr.learn.slot.current", lambda: Ranks(0, 2))
    learner = TorchLearner("resnet8", f"digits(epochs=2, checkpoints=2, loss={loss})", device="cpu", progress=False)
    if goes:
        learner.fit(Job(pool, np.arange(30), labels[:30]))
    else:
        with pytest.raises(BadInput, match="remembers what it saw"):
            learner.fit(Job(pool, np.arange(30), labels[:30]))


def test_messages_of_a_group(group):
    assert group == Ranks(0, 1, True)
    assert group.add(torch.ones(2)).tolist() == group.least(torch.ones(2)).tolist() == [1, 1]
    group.wait()


def test_parts_are_joined_in_order(monkeypatch):
    """Rank 0 of two, with five rows: three here, two there; what is sent has one length."""

    def all_gather(parts, mine):
        parts[0].copy_(mine)
        parts[1].copy_(torch.tensor([[3.0], [4.0], [0.0]]))

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    mine = torch.tensor([[0.0], [1.0], [2.0]])
    assert Ranks(0, 2, True).join(mine, 5).flatten().tolist() == [0, 1, 2, 3, 4]
    assert Ranks(0, 2, True).join(mine.T, 5, 1).tolist() == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(("cuda", "backend"), [(False, "gloo"), (True, "nccl")])
def test_joining_what_torchrun_started(monkeypatch, cuda, backend):
    opened, chosen = [], []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.distributed, "init_process_group", opened.append)
    assert ranks.start() == Ranks()
    assert (opened, chosen) == ([backend], [1] if cuda else [])
