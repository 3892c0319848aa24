"""The Ray engine: the answers of one process, also when workers are killed. Two nodes on loopback addresses."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from engine_pool import EVERYTHING, assert_same, evidence, split, write

import ncalr
from ncalr.acquire import Strategy, resolve
from ncalr.engine.cluster import RayEngine
from ncalr.engine.local import WorkersLost
from ncalr.errors import Damaged

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'ncalr[ray]')")

POOL, LABELLED = split(evidence())


@pytest.fixture(scope="module")
def cluster():
    """A head at 127.0.0.2 and a second node at 127.0.0.3, two cores each."""
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ["RAY_AUTH_TOKEN"], os.environ["RAY_AUTH_MODE"] = "0123456789abcdef" * 4, "token"
    ray._raylet.Config.initialize("")
    made = Cluster()
    for address in ("127.0.0.2", "127.0.0.3"):
        made.add_node(node_ip_address=address, num_cpus=2, object_store_memory=100 << 20, include_dashboard=False)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR", _node_ip_address="127.0.0.2")
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def engines(cluster):
    return {workers: RayEngine(workers) for workers in (1, 4)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("pools")
    for shards in (1, 2, 7):
        write(root / str(shards), POOL, shards)
    return root


@pytest.fixture(scope="module")
def wanted():
    return {strategy: ncalr.query(strategy, 30, **POOL, **LABELLED, seed=5) for strategy in EVERYTHING}


@pytest.mark.parametrize(("workers", "shards"), [(1, 2), (4, 1), (4, 7)])
@pytest.mark.parametrize("strategy", EVERYTHING)
def test_ray_gives_what_one_process_gives(engines, folders, wanted, strategy, workers, shards):
    found = ncalr.query_pool(strategy, 30, folders / str(shards), **LABELLED, seed=5, engine=engines[workers])
    assert_same(found, wanted[strategy])


def test_both_nodes_are_on_loopback_addresses(cluster):
    assert {node["NodeManagerAddress"] for node in ray.nodes()} == {"127.0.0.2", "127.0.0.3"}


def killing(mark):
    """Margin that kills its worker process, once, in the middle of the pool."""
    margin = resolve("margin").strategy

    def score(evidence):
        if evidence.n and not os.path.exists(mark) and float(evidence["outputs"].values[0, 0]) == middle:
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return margin.score(evidence)

    middle = float(POOL["logits"][387, 0])  # the first item of the fourth shard
    return Strategy("killing", margin.needs, score, "", rowwise=True)


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, folders, tmp_path):
    mark = str(tmp_path / "mark")
    found = ncalr.query_pool(killing(mark), 30, folders / "7", **LABELLED, seed=5, engine=RayEngine(2))
    assert os.path.exists(mark)
    np.testing.assert_array_equal(found.ids, ncalr.query("margin", 30, **POOL, **LABELLED, seed=5).ids)


def test_workers_killed_again_and_again_are_an_error(cluster, folders):
    def dies(_evidence):
        os.kill(os.getpid(), signal.SIGKILL)

    strategy = Strategy("dies", frozenset({"outputs"}), dies, "", rowwise=True)
    with pytest.raises(WorkersLost, match="lost more than 1 times"):
        ncalr.query_pool(strategy, 3, folders / "1", engine=RayEngine(1, retries=1))


@pytest.mark.parametrize("strategy", ["coreset", "badge"])
def test_an_actor_killed_between_two_sweeps_is_made_again(cluster, folders, wanted, strategy, monkeypatch):
    from ncalr.engine import cluster as module

    plain, killed = module.RayCrew.ask, []

    def ask(self, *args):
        yield from plain(self, *args)
        if self.actors and not killed:
            killed.append(ray.get(self.actors[0].process.remote()))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(module.RayCrew, "ask", ask)
    monkeypatch.setattr("ncalr.acquire.select.spaces.CHUNK", 200)
    here = ncalr.query(strategy, 30, **POOL, **LABELLED, seed=5)
    found = ncalr.query_pool(strategy, 30, folders / "7", **LABELLED, seed=5, engine=RayEngine(2))
    assert killed
    assert_same(found, here)


def test_damage_is_named_by_workers_too(cluster, tmp_path):
    write(tmp_path, POOL, 7)
    path = tmp_path / "features-00003.npy"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    for strategy in ("ncal", "coreset"):
        with pytest.raises(Damaged, match=r"features-00003\.npy, rows 0\.\.128 \(items 387\.\.515 of the pool\)"):
            ncalr.query_pool(strategy, 30, tmp_path, **LABELLED, engine=RayEngine(2))


def test_no_more_under_way_than_twice_the_workers(cluster):
    under_way, most = 0, 0

    def hint():
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)

    done = []
    for result in RayEngine(2).map(lambda unit, _hint: unit, range(20), hint):
        under_way -= 1
        done.append(result)
    assert sorted(done) == list(range(20))
    assert most <= 4


def test_clusters_of_its_own_are_closed_with_a_token_and_leave_no_trace(folders, tmp_path):
    """In a process of its own: this one is in a cluster already."""
    import subprocess
    import sys

    code = (
        "import os, ray, ncalr\n"
        "from ncalr.engine import open_engine\n"
        "from ncalr.cli.app import app\n"
        "engine = open_engine('ray', 1)\n"
        "print(ray.nodes()[0]['NodeManagerAddress'], len(os.environ['RAY_AUTH_TOKEN']))\n"
        f"print(ncalr.query_pool('random', 3, {str(folders / '2')!r}, engine=engine).ids.tolist())\n"
        "engine.close(); engine.close()\n"
        "print(ray.is_initialized(), 'RAY_AUTH_TOKEN' in os.environ)\n"
        "second = open_engine('ray', 1)\n"  # with a token of its own: Ray reads one once a process
        "print(list(second.map(lambda unit, _hint: 2 * unit, [21])))\n"
        "second.close()\n"
    )
    before = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**before, "HOME": str(tmp_path)}, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ids = ncalr.query("random", 3, **POOL).ids.tolist()
    assert done.stdout.splitlines()[-4:] == ["127.0.0.2 64", str(ids), "False False", "[42]"]
    assert not (tmp_path / ".ray").exists()
