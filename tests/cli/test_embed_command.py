"""`ncalr embed`: a row an item, in the order the labelling has them."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from ncalr.cli.app import app

pytest.importorskip("torch", reason="the extra torch is not installed")
pytest.importorskip("sqlalchemy", reason="the extra web is not installed")
images = pytest.importorskip("PIL.Image")

NETWORK = ["--network", "resnet8", "--untrained", "--size", "8"]


def embed(*words):
    return CliRunner().invoke(app, ["embed", *map(str, words)])


@pytest.fixture
def photos(tmp_path):
    """Pictures in folders, whose order by path is not that of a walk: files of a folder come before its folders."""
    root = tmp_path / "photos"
    for at, name in enumerate(("z.png", "a/1.png", "b/2.png")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(at).integers(0, 255, (9, 9, 3)).astype(np.uint8)
        images.fromarray(pixels).save(root / name)
    return root


def test_the_rows_are_in_the_order_of_the_items(photos, tmp_path):
    from ncalr.web import sources

    done = embed(photos, *NETWORK, "--out", tmp_path / "v.npy")
    assert done.exit_code == 0, done.exception
    assert "3 vectors of 64 dimensions" in done.output
    rows = np.load(tmp_path / "v.npy")
    names = [item.name for item in sources.take_stock(sources.find(photos)).items]
    assert names == ["z.png", "a/1.png", "b/2.png"]
    (photos / "a" / "1.png").write_bytes(b"torn")
    done = embed(photos, *NETWORK, "--out", tmp_path / "w.npy")
    assert "1 pictures could not be read (the first is 'a/1.png')" in done.output
    again = np.load(tmp_path / "w.npy")
    np.testing.assert_allclose(again[1], again[[0, 2]].mean(axis=0), rtol=1e-5)
    assert rows.shape == again.shape


def test_a_projects_items_come_in_its_own_order(photos, tmp_path):
    from ncalr.web import sources, start
    from ncalr.web.folder import Folder
    from ncalr.web.store import projects

    project = Folder(tmp_path / "p.ncalr")
    store, _ = start.begin(project, sources.find(photos), ["x", "y"], projects.Settings())
    images.fromarray(np.full((9, 9, 3), 7, np.uint8)).save(photos / "0.png")
    start.go_on(project, store, None, {}, add=True)
    store.close()
    assert embed(project.path, *NETWORK, "--out", tmp_path / "mine.npy").exit_code == 0
    assert embed(photos, *NETWORK, "--out", tmp_path / "new.npy").exit_code == 0
    mine, new = np.load(tmp_path / "mine.npy"), np.load(tmp_path / "new.npy")
    np.testing.assert_allclose(mine[3], new[0], rtol=1e-4)  # what was added comes last
    assert sources.check_embeddings(tmp_path / "mine.npy", 4) == 64


def test_texts_go_through_a_network_that_reads_tokens(tmp_path, monkeypatch):
    import torch

    from ncalr.learn import embed as room
    from ncalr.learn import texts

    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.last = torch.nn.EmbeddingBag(50, 6), torch.nn.Linear(6, 2)

        def forward(self, x):
            return self.last(self.table(x))

    monkeypatch.setattr(texts, "_tokens", lambda _, said: np.array([[len(each), 1] for each in said], np.int32))
    monkeypatch.setattr(room, "network", lambda *_: Bag())
    (tmp_path / "t.csv").write_text("id,text\na,one\nb,three\nc,one\n")
    done = embed(tmp_path / "t.csv", "--network", "hf:some/encoder", "--out", tmp_path / "v.npy")
    assert done.exit_code == 0, done.exception
    rows = np.load(tmp_path / "v.npy")
    assert rows.shape == (3, 6)
    assert (rows[0] == rows[2]).all()
    refused = embed(tmp_path / "t.csv", "--network", "resnet8", "--untrained", "--out", tmp_path / "v.npy")
    assert "a network of hf:" in str(refused.exception)


def test_random_weights_and_other_files_are_refused(photos, tmp_path):
    for words, message in (
        (["--network", "resnet18"], "resnet18 has no trained weights"),
        (["--network", "timm:resnet18"], "'timm:resnet18(pretrained=true)'"),
    ):
        assert message in str(embed(photos, *words, "--out", tmp_path / "v.npy").exception)
    assert "a .npy file in a folder that is there" in str(
        embed(photos, *NETWORK, "--out", tmp_path / "v.csv").exception
    )
    assert not (tmp_path / "v.npy").exists()
