"""The fingerprint of a dataset: what changes it, what does not, and what it costs."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from ncalr.data import ArrayPool, EncodedPool, Subset, TextPool, load
from ncalr.data import images as image_files
from ncalr.data.dataset import Dataset, Facts
from ncalr.data.fingerprint import ITEMS, differences, fingerprint
from ncalr.errors import BadInput

RNG = np.random.default_rng(0)
ITEMS_ = RNG.normal(size=(40, 3)).astype(np.float32)
LABELS = np.arange(40) % 2


def vectors(items=ITEMS_, labels=LABELS, ids=None, classes=("cat", "dog")):
    pool, test = ArrayPool(items[:30], ids), ArrayPool(items[30:])
    return Dataset("mine", pool, labels[:30], test, labels[30:], list(classes), Facts("", ""))


def apart(one, other):
    return differences(fingerprint(one), fingerprint(other))


def photos(folder, count=30):
    rng = np.random.default_rng(1)
    for at in range(count):
        place = folder / ("cat", "dog")[at % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(place / f"{at:04}.png")
    return f"folder:{folder}(size=8)"


def changed(array, at, value):
    array = np.array(array)
    array[at] = value
    return array


def test_the_same_data_have_the_same():
    assert apart(vectors(), vectors()) == []
    assert apart(vectors(), vectors(ids=np.arange(30, dtype=np.int32))) == [], "an id is as wide as it is"
    assert apart(vectors(), vectors(ITEMS_.astype(">f4"))) == []
    assert apart(load("digits"), load("digits")) == []


def test_it_is_that_of_every_version():
    """As it was when it was first written: another NumPy and another machine give these."""
    small = vectors(np.arange(120, dtype=np.float32).reshape(40, 3))
    assert fingerprint(small) == {
        "version": 1,
        "classes": {"count": 2, "names": "c2e8ff749b9e33c4bf457f72ca4e63a0"},
        "pool": {
            "items": 30,
            "shape": [3],
            "ids": "05b391243a70d936df422101d1d6b681",
            "labels": "f2c5e3866e7d9d71ae1a574564d3888d",
            "contents": "aa8ae7f41ebc8a0a01f5302c249a660d",
        },
        "test": {
            "items": 10,
            "shape": [3],
            "ids": "ac49ef13301475d63344d424238148ad",
            "labels": "f742821123712ad9f7d0fe180ce4d051",
            "contents": "7d3604332a22dc593a1ab08ef1be95a8",
        },
    }


def test_an_id_is_permanent_wherever_it_stands():
    order, ids = RNG.permutation(30), np.array([f"id {at:02}" for at in range(30)])
    one = vectors(ids=ids)
    other = replace(one, pool=Subset(one.pool, order), labels=one.labels[order])
    assert apart(one, other) == []
    assert apart(one, replace(one, pool=ArrayPool(ITEMS_[:30][order], ids), labels=one.labels[order])) == [
        "other labels in the pool",
        "other contents of items in the pool",
    ]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (vectors(changed(ITEMS_, 29, 0)), ["other contents of items in the pool"]),
        (vectors(changed(ITEMS_, 30, 0)), ["other contents of items in the test set"]),
        (vectors(labels=changed(LABELS, 3, 0)), ["other labels in the pool"]),
        (vectors(labels=changed(LABELS, 31, 0)), ["other labels in the test set"]),
        (vectors(ids=np.arange(1, 31)), ["other ids in the pool"]),
        (vectors(classes=("cat", "fox")), ["other names of classes, or in another order"]),
        (vectors(classes=("cat", "dog", "fox")), ["classes: 2 then, 3 now"]),
        (vectors(ITEMS_[:39], LABELS[:39]), ["items in the test set: 10 then, 9 now"]),
        (
            vectors(ITEMS_[:, :2]),
            ["shape of an item in the pool: [3] then, [2] now", "shape of an item in the test set: [3] then, [2] now"],
        ),
    ],
)
def test_what_differs_is_said(other, said):
    assert apart(vectors(), other) == said


def test_texts():
    texts = [f"text {at}" for at in range(40)]

    def made(items):
        return replace(vectors(), pool=TextPool(items[:30]), test=TextPool(items[30:]))

    assert apart(made(texts), made(list(texts))) == []
    assert apart(made(texts), made([*texts[:-1], "else"])) == ["other contents of items in the test set"]


def test_image_files_are_not_decoded(tmp_path, monkeypatch):
    name = photos(tmp_path)
    before = fingerprint(load(name))
    monkeypatch.setattr(image_files, "decoded", None)
    assert fingerprint(load(name)) == before
    victim = tmp_path / "cat" / "0006.png"
    Image.new("RGB", (8, 8)).save(victim)
    assert len(differences(before, fingerprint(load(name)))) == 1
    photos(tmp_path)
    assert fingerprint(load(name)) == before
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "more.png")
    assert any(
        words.startswith("items in the pool: 24 then, ") for words in differences(before, fingerprint(load(name)))
    )


def test_a_file_that_is_not_in_the_sample_is_known_by_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("ncalr.data.fingerprint.ITEMS", 2)
    name = photos(tmp_path, 60)
    before = fingerprint(load(name))
    for path in sorted(tmp_path.rglob("*.png"))[20:24]:
        path.write_bytes(path.read_bytes() + b"more")
    assert differences(before, fingerprint(load(name)))


def test_encoded_images_are_not_decoded(tmp_path):
    def encoded(colour, where=None):
        out = io.BytesIO()
        Image.new("RGB", (4, 4), colour).save(out, "png")
        if where is None:
            return out.getvalue()
        where.write_bytes(out.getvalue())
        return where

    def made(images):
        pool = EncodedPool(images)
        one, other = Subset(pool, np.arange(2)), Subset(pool, np.arange(2, 4))
        return replace(vectors(), pool=one, labels=LABELS[:2], test=other, test_labels=LABELS[2:4])

    colours = ["red", "green", "blue", "white"]
    inside = made([encoded(colour) for colour in colours])
    inside.pool.pool._decode = None
    assert apart(inside, made([encoded(colour, tmp_path / colour) for colour in colours])) == []
    assert apart(inside, made([encoded(c) for c in ("red", "black", "blue", "white")])) == [
        "other contents of items in the pool"
    ]


def test_a_file_that_cannot_be_read_is_told_by_whoever_needs_it(tmp_path):
    data = load(photos(tmp_path / "photos"))
    before = fingerprint(data)
    (tmp_path / "photos" / str(data.pool.ids[0])).unlink()
    assert differences(before, fingerprint(data)) == ["other contents of items in the pool"]
    with pytest.raises(BadInput, match="cannot be read as an image"):
        data.pool.read(np.array([0]))
    assert EncodedPool([str(tmp_path / "no.png")], size=4).encoded(0) == b""


def test_of_a_large_pool_little_is_read():
    read = []

    class Counting(ArrayPool):
        def read(self, positions):
            read.extend(np.atleast_1d(positions).tolist())
            return super().read(positions)

    labels = np.arange(5000) % 2
    large = replace(vectors(), pool=Counting(np.zeros((5000, 3), np.float32)), labels=labels)
    fingerprint(large)
    assert len(set(read)) == ITEMS
    assert (min(read), max(read)) == (0, 4999)


def test_one_of_another_version_says_nothing():
    assert differences({"version": 0}, fingerprint(vectors())) == []
