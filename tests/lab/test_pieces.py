"""Sets that travel in pieces arrive as they were."""

from __future__ import annotations

import importlib
import io
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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


def pack(folder, images, labels, splits, strip=1, parts=3):
    """A set as others pack it: encoded images, or strips of them, one behind the other, in several files."""
    blobs = []
    for at in range(0, len(images), strip):
        out = io.BytesIO()
        some = images[at : at + strip]
        Image.fromarray(some.reshape(-1, *images.shape[2:])).save(out, "PNG")
        blobs.append(out.getvalue())
    folder.mkdir(parents=True)
    for part, some in enumerate(np.array_split(np.arange(len(blobs)), parts)):
        (folder / f"images.part{part}.bin").write_bytes(b"".join(blobs[at] for at in some))
    counts = [len(images[at : at + strip]) for at in range(0, len(images), strip)]
    facts = {"length": [len(blob) for blob in blobs], "images_per_blob": counts, "size": images.shape[1:3]}
    np.savez(folder / "index.npz", labels=labels, split=splits, **facts)
    (folder / "classes.json").write_text('["a", "b"]')


@pytest.mark.parametrize("strip", [1, 7])
def test_a_packed_set_travels_as_it_is_and_appears_whole(pieces, tmp_path, capsys, strip):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (150, 6, 5, 3), np.uint8)
    labels, splits = rng.integers(0, 2, 150), np.where(np.arange(150) % 3, "train", "test")
    pack(tmp_path / "pieces" / "small", images, labels, splits, strip, parts=12)
    late = tmp_path / "pieces" / "small" / "images.part10.bin"
    data = late.read_bytes()
    late.unlink()
    there = tmp_path / "there"
    assert pieces.join(tmp_path / "pieces", there) == []
    assert f"small: waits for {len(data):,} of" in capsys.readouterr().out
    assert not there.exists()
    late.write_bytes(data)
    assert pieces.join(tmp_path / "pieces", there) == ["small"]
    assert [path.name for path in there.iterdir()] == ["small"], "nothing half"
    for split in ("train", "test"):
        assert np.array_equal(np.load(there / "small" / f"{split}_images.npy"), images[splits == split])
        assert np.array_equal(np.load(there / "small" / f"{split}_labels.npy"), labels[splits == split])
    (there / "small" / "train_labels.npy").unlink()
    assert pieces.join(tmp_path / "pieces", there) == [], "what is there is not made again"
    index = dict(np.load(tmp_path / "pieces" / "small" / "index.npz"))
    np.savez(tmp_path / "pieces" / "small" / "index.npz", **{**index, "labels": labels[:-1], "split": splits[:-1]})
    with pytest.raises(SystemExit, match="150 images, 149 expected"):
        pieces.join(tmp_path / "pieces", tmp_path / "elsewhere")


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


def test_packed_sets_are_shared_out_in_folders_that_may_travel(pieces, tmp_path, monkeypatch, capsys):
    """In the order of their names, each folder as full as it may be; together they are what they were."""
    rng = np.random.default_rng(0)
    root, there = tmp_path / "root", tmp_path / "there"
    for name, items in (("second", 90), ("first", 150)):
        images = rng.integers(0, 256, (items, 12, 12, 3), np.uint8)
        pack(root / name, images, np.arange(items) % 2, np.repeat("train", items), parts=12)
    sizes = {name: sum(path.stat().st_size for path in (root / name).iterdir()) for name in ("first", "second")}
    most = sum(sizes.values()) // 3
    folders = pieces.share(root, tmp_path / "shares", ["first", "second"], most)
    found = [sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in folders]
    assert sum(found) == sum(sizes.values())
    assert max(found) <= most
    assert [path.name for path in folders[0].iterdir()] == ["first"]
    for number, folder in enumerate(folders):
        assert (there / "first").exists() == (sum(found[:number]) >= sizes["first"]), "as soon as it can be"
        shutil.copytree(folder, tmp_path / "pieces", dirs_exist_ok=True)
        pieces.join(tmp_path / "pieces", there)
    assert pieces.join(root, tmp_path / "plain") == ["first", "second"]
    for path in (tmp_path / "plain").rglob("*.*"):
        assert path.read_bytes() == (there / path.relative_to(tmp_path / "plain")).read_bytes()
    with pytest.raises(SystemExit, match="no packed set third"):
        pieces.share(root, tmp_path / "more", ["first", "third"], most)
    with pytest.raises(SystemExit, match="is there already"):
        pieces.share(root, tmp_path / "shares", ["first"], most)


def test_what_may_travel_is_what_the_repository_leaves(pieces, tmp_path, monkeypatch):
    for name, size in (("known", 1_000), ("new", 200), ("ignored", 5_000)):
        (tmp_path / name).write_bytes(bytes(size))
    (tmp_path / ".gitignore").write_text("ignored\n")
    for words in (["init", "-q"], ["add", "known"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setattr(pieces, "LIMIT", 3_000)
    monkeypatch.setattr(pieces, "MARGIN", 500)
    assert pieces.room(tmp_path) == 3_000 - 500 - 1_000 - 200 - len("ignored\n")
    monkeypatch.setattr(pieces, "LIMIT", 1_600)
    with pytest.raises(SystemExit, match="nothing can travel"):
        pieces.room(tmp_path)
