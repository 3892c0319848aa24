"""Sets that travel in pieces arrive as they were."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def pieces(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("pieces")


@pytest.fixture
def one(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "root" / "small"
    folder.mkdir(parents=True)
    np.save(folder / "masks.npy", rng.integers(0, 2, (5, 9, 7, 1), np.uint8))
    for split, n in (("train", 250), ("test", 30)):
        np.save(folder / f"{split}_images.npy", rng.integers(0, 256, (n, 9, 7, 3), np.uint8))
        np.save(folder / f"{split}_labels.npy", rng.integers(0, 3, n))
    (folder / "classes.json").write_text(json.dumps(["a", "b", "c"]))
    return folder


def test_there_and_back(pieces, one, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "TALLEST", 900)
    paths = pieces.cut(one, tmp_path / "pieces", 25_000)
    assert len(paths) > 2
    assert all(path.stat().st_size < 27_000 for path in paths)
    assert pieces.join(tmp_path / "pieces", tmp_path / "there") == ["small"]
    for path in sorted(one.iterdir()):
        assert (tmp_path / "there" / "small" / path.name).read_bytes() == path.read_bytes()


def test_a_missing_piece_is_waited_for_and_a_broken_one_is_told(pieces, one, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pieces, "TALLEST", 900)
    *_, last = pieces.cut(one, tmp_path / "pieces", 25_000)
    data = bytearray(last.read_bytes())
    last.unlink()
    assert pieces.join(tmp_path / "pieces", tmp_path / "there") == []
    assert "small: waits for 1 of" in capsys.readouterr().out
    data[-1] ^= 1  # in the labels of the training images, the last array
    last.write_bytes(bytes(data))
    with pytest.raises(SystemExit, match="train_labels is not what was cut"):
        pieces.join(tmp_path / "pieces", tmp_path / "there")
