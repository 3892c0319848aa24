"""Named datasets: digits for real, the others from small files of the same layouts; clear words where nothing is."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ncalr
from ncalr.data import catalog, folders
from ncalr.data.catalog import DATASETS, Archive, Parts, data_root, dataset
from ncalr.data.dataset import Dataset, Facts, load, placed
from ncalr.data.fetch import download
from ncalr.data.pool import ArrayPool
from ncalr.data.tables import TextPool
from ncalr.errors import BadInput, MissingExtra, NcalrError, Note, UnknownName

RNG = np.random.default_rng(0)


def pixels(n, *shape):
    return RNG.integers(0, 256, (n, *shape), np.uint8)


def write_arrays(folder, *, test="test", classes=("a", "b"), shape=(4, 4, 3)):
    folder.mkdir(parents=True)
    arrays = {"train": pixels(6, *shape), test: pixels(4, *shape)}
    for split, images in arrays.items():
        np.save(folder / f"{split}_images.npy", images)
        np.save(folder / f"{split}_labels.npy", np.arange(len(images)) % 2)
    if classes:
        (folder / "classes.json").write_text(json.dumps(classes))
    return arrays


def save_image(path, shade=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((6, 6, 3), shade, np.uint8)).save(path)


def test_digits():
    digits = load("digits")
    assert (len(digits.pool), len(digits.test), digits.pool.shape) == (1297, 500, (8, 8, 1))
    assert digits.classes == [str(i) for i in range(10)]
    assert digits.labels.dtype == np.int64
    assert not set(digits.pool.ids) & set(digits.test.ids)
    assert sorted([*digits.pool.ids, *digits.test.ids]) == list(range(1797))
    assert digits.pool.ids[:5].tolist() == load("digits").pool.ids[:5].tolist()
    assert np.bincount(digits.test_labels, minlength=10).min() > 35
    # The split is part of every result on digits: it must never change.
    assert hashlib.sha256(digits.test.ids.astype("<i8").tobytes()).hexdigest()[:16] == DIGITS_SPLIT


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtra, match=r"ncalr\[sklearn\]"):
        load("digits")


def test_the_list_says_what_there_is():
    assert set(DATASETS) == {
        "digits",
        "fashion_mnist",
        "cifar10",
        "cifar100",
        "mini_imagenet",
        "tiny_imagenet",
        "imagenet100",
        "sst2",
    }
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert min(entry.items, entry.test_items, entry.classes) > 0
        assert entry.licence
        assert entry.source
        for archive in entry.archives:
            assert len(archive.checksum) == hashlib.new(archive.algorithm).digest_size * 2


@pytest.mark.parametrize(
    ("name", "folder", "test"),
    [
        ("cifar10", "cifar10", "test"),
        ("cifar100", "cifar100", "test"),
        ("mini_imagenet", "mini_imagenet", "val"),
        ("mini_imagenet", "mini_imagenet64", "val"),
        ("mini_imagenet64", "mini_imagenet", "val"),
        ("mini-imagenet", "mini_imagenet64", "val"),
        ("imagenet100", "imagenet100", "val"),
        ("tiny_imagenet", "tiny_imagenet", "val"),
        ("fashion_mnist", "fashion_mnist", "test"),
    ],
)
def test_plain_arrays(tmp_path, name, folder, test):
    arrays = write_arrays(tmp_path / folder, test=test)
    found = load(name, tmp_path)
    np.testing.assert_array_equal(found.pool.read(slice(None)), arrays["train"])
    np.testing.assert_array_equal(found.test.read(slice(None)), arrays[test])
    assert found.labels.tolist() == [0, 1] * 3
    assert (found.name, found.classes) == (name, ["a", "b"])
    assert found.facts.licence


def test_large_arrays_are_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_MAPPED_FROM", 350)
    write_arrays(tmp_path / "cifar10", shape=(4, 4, 3))
    found = load("cifar10", tmp_path)
    assert isinstance(found.pool.items, np.memmap)
    assert not isinstance(found.test.items, np.memmap)  # 320 bytes with its header


def test_class_names(tmp_path):
    write_arrays(tmp_path / "cifar10", classes=None)
    assert load("cifar10", tmp_path).classes[2] == "bird"
    write_arrays(tmp_path / "cifar100", classes=None)
    assert load("cifar100", tmp_path).classes == ["0", "1"]
    path = tmp_path / "cifar100" / "classes.json"
    path.write_text('[{"wnid": "n01", "name": "house finch"}, {"wnid": "n02", "name": "robin"}]')
    found = load("cifar100", tmp_path)
    assert found.classes == ["house finch", "robin"]
    assert found.kinds == [("house finch", "n01"), ("robin", "n02")]
    assert load("cifar100(known=1, view_seed=4)", tmp_path).kinds == [("robin", "n02")]
    path.write_text('[{"wnid": "n01"}]')
    with pytest.raises(BadInput, match=r"classes\.json cannot be read as a list of class names"):
        load("cifar100", tmp_path)
    path.write_text('["one"]')
    with pytest.raises(BadInput, match="a label 1, there are 1 classes"):
        load("cifar100", tmp_path)


def test_arrays_that_are_not_whole(tmp_path):
    folder = tmp_path / "cifar10"
    write_arrays(folder)
    np.save(folder / "train_labels.npy", np.zeros(5, int))
    with pytest.raises(BadInput, match="6 train images and 5 labels"):
        load("cifar10", tmp_path)
    np.save(folder / "train_labels.npy", np.zeros(6))
    with pytest.raises(BadInput, match="whole number an item"):
        load("cifar10", tmp_path)
    (folder / "test_labels.npy").unlink()
    np.save(folder / "train_labels.npy", np.zeros(6, int))
    with pytest.raises(BadInput, match=r"test_labels\.npy"):
        load("cifar10", tmp_path)
    whole = (folder / "train_images.npy").read_bytes()
    (folder / "train_images.npy").write_bytes(whole[:-5])
    with pytest.raises(BadInput, match=r"train_images\.npy"):
        load("cifar10", tmp_path)


def cifar_files(labels=1):
    """Files of CIFAR's binary version, and the images and the labels that are in them."""
    names = (
        [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"] if labels == 1 else ["train.bin", "test.bin"]
    )
    files, truth = {}, {}
    for name in names:
        images, numbers = pixels(3, 32, 32, 3), RNG.integers(0, 10, (3, labels), np.uint8)
        rows = np.concatenate([numbers, images.transpose(0, 3, 1, 2).reshape(3, -1)], axis=1)
        files[name], truth[name] = rows.tobytes(), (images, numbers[:, -1])
    files["batches.meta.txt" if labels == 1 else "fine_label_names.txt"] = b"\n".join(b"class%d" % i for i in range(10))
    return files, truth


def pack(path, files, inside):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"{inside}/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "labels", "archive", "inside"),
    [
        ("cifar10", 1, "cifar-10-binary.tar.gz", "cifar-10-batches-bin"),
        ("cifar100", 2, "cifar-100-binary.tar.gz", "cifar-100-binary"),
    ],
)
def test_cifar_binary(tmp_path, name, labels, archive, inside, packed):
    files, truth = cifar_files(labels)
    if packed:
        pack(tmp_path / name / archive, files, inside)
    else:
        (tmp_path / name / inside).mkdir(parents=True)
        for file, data in files.items():
            (tmp_path / name / inside / file).write_bytes(data)
    found = load(name, tmp_path)
    *train, test = truth.values()
    np.testing.assert_array_equal(found.pool.read(slice(None)), np.concatenate([images for images, _ in train]))
    np.testing.assert_array_equal(found.labels, np.concatenate([numbers for _, numbers in train]))
    np.testing.assert_array_equal(found.test.read(slice(None)), test[0])
    assert found.classes[3] == "class3"


def test_cifar_archives_that_are_not_whole(tmp_path):
    path = tmp_path / "cifar10" / "cifar-10-binary.tar.gz"
    files, _ = cifar_files()
    pack(path, files, "x")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"cifar-10-binary\.tar\.gz cannot be read"):
        load("cifar10", tmp_path)
    pack(path, {name: data for name, data in files.items() if name != "data_batch_3.bin"}, "x")
    with pytest.raises(BadInput, match=r"holds no data_batch_3\.bin"):
        load("cifar10", tmp_path)
    pack(path, {**files, "test_batch.bin": files["test_batch.bin"][:-1]}, "x")
    with pytest.raises(BadInput, match=r"test_batch\.bin has 9218 bytes, expected records of 3073"):
        load("cifar10", tmp_path)


def idx(array):
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def write_fashion(folder):
    folder.mkdir(parents=True)
    splits = {
        split: (pixels(n, 28, 28), (np.arange(n) % 10).astype(np.uint8)) for split, n in (("train", 12), ("t10k", 5))
    }
    for split, (images, labels) in splits.items():
        (folder / f"{split}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"{split}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return splits


def test_fashion_mnist(tmp_path):
    splits = write_fashion(tmp_path / "fashion_mnist")
    found = load("fashion_mnist", tmp_path)
    np.testing.assert_array_equal(found.pool.read(slice(None))[..., 0], splits["train"][0])
    assert found.test_labels.tolist() == [0, 1, 2, 3, 4]
    assert found.classes[9] == "Ankle boot"
    path = tmp_path / "fashion_mnist" / "t10k-images-idx3-ubyte.gz"
    for bad in (
        path.read_bytes()[:-20],
        b"no gzip",
        gzip.compress(b""),
        idx(pixels(5, 28)),
        idx(splits["t10k"][0])[:0],
    ):
        path.write_bytes(bad)
        with pytest.raises(BadInput, match=r"t10k-images-idx3-ubyte\.gz"):
            load("fashion_mnist", tmp_path)
    path.unlink()
    with pytest.raises(BadInput, match=r"t10k-images-idx3-ubyte\.gz"):
        load("fashion_mnist", tmp_path)


def test_sst2_json(tmp_path):
    folder = tmp_path / "sst2"
    folder.mkdir()
    for split, n in (("train", 4), ("test", 2)):
        texts = [f"{split} {at}" for at in range(n)]
        (folder / f"{split}.json").write_text(json.dumps({"text": texts, "label": [0, 1] * (n // 2)}))
    found = load("sst2", tmp_path)
    assert isinstance(found.pool, TextPool)
    assert found.pool.texts[3] == "train 3"
    assert (found.test_labels.tolist(), found.classes) == ([0, 1], ["negative", "positive"])
    for text, words in (
        ("{", "cannot be read"),
        ('{"text": []}', r"test\.json"),
        ('{"text": ["a"], "label": []}', "1 texts and 0"),
    ):
        (folder / "test.json").write_text(text)
        with pytest.raises(BadInput, match=words):
            load("sst2", tmp_path)


TSV = {"train": "sentence\tlabel\nit 's \" good \t1\nbad \t0\n", "dev": "sentence\tlabel\nso so\t0\n"}


@pytest.mark.parametrize("packed", [True, False])
def test_sst2_tables(tmp_path, packed):
    folder = tmp_path / "sst2"
    folder.mkdir()
    if packed:
        with zipfile.ZipFile(folder / "SST-2.zip", "w") as archive:
            for split, text in TSV.items():
                archive.writestr(f"SST-2/{split}.tsv", text)
    else:
        for split, text in TSV.items():
            (folder / f"{split}.tsv").write_text(text)
    for _ in range(2):
        found = load("sst2", tmp_path)
        assert (found.pool.texts, found.labels.tolist()) == (["it 's \" good ", "bad "], [1, 0])
        assert (found.test.texts, found.test_labels.tolist()) == (["so so"], [0])


def test_sst2_torn_archive(tmp_path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "SST-2.zip").write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"SST-2\.zip cannot be read"):
        load("sst2", tmp_path)


@pytest.mark.parametrize("test", ["test", "val"])
def test_class_folders(tmp_path, test):
    for split, n in (("train", 3), (test, 2)):
        for shade, kind in enumerate(("cat", "dog")):
            for at in range(n):
                save_image(tmp_path / split / kind / f"{at}.png", 100 * shade)
    found = load(f"folder:{tmp_path}(size=5)")
    assert (len(found.pool), len(found.test), found.pool.shape, found.classes) == (6, 4, (5, 5, 3), ["cat", "dog"])
    assert found.pool.ids[3] == "dog/0.png"
    assert (found.pool.read(slice(None))[:, 0, 0, 0] == 100 * found.labels).all()
    assert load(f"folder:{tmp_path}", size=(4, 6), channels=1).test.shape == (4, 6, 1)
    assert str(tmp_path) in found.facts.source
    save_image(tmp_path / test / "bird" / "0.png")
    with pytest.raises(BadInput, match="has a class 'bird' that"):
        load(f"folder:{tmp_path}")
    save_image(tmp_path / "train" / "stray.png")
    with pytest.raises(BadInput, match=r"stray\.png is in no class folder"):
        load(f"folder:{tmp_path}")


def test_broken_images_are_left_out_only_if_asked(tmp_path):
    for kind in ("cat", "dog"):
        for at in range(5):
            save_image(tmp_path / kind / f"{at}.png")
    (tmp_path / "dog" / "3.png").write_bytes(b"torn")
    found = load(f"folder:{tmp_path}(size=5)")
    with pytest.raises(BadInput, match=r"dog/3\.png cannot be .*'folder:[^']*\(skip_broken=true\)'$") as error:
        [part.read(slice(None)) for part in (found.pool, found.test)]
    advised = str(error.value).rpartition("as in ")[2].strip("'")
    with pytest.warns(Note, match=r"1 files cannot be read as images and are left out, the first is dog/3\.png"):
        found = load(advised)
    assert len(found.pool) + len(found.test) == 9


def test_a_folder_by_its_name_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("my pictures", "photos", "digits"):
        for kind in ("cat", "dog"):
            for at in range(5):
                save_image(tmp_path / name / kind / f"{at}.png")
    assert load("my pictures(size=5)").pool.shape == (5, 5, 3)
    assert load("my pictures").classes == ["cat", "dog"]
    assert len(load("photos").pool) == 8
    assert len(load("digits").pool) == 1297  # a name of ours comes first
    assert len(load("./digits").pool) == 8
    for name in ("no such", "no such(size=5)", "nowhere"):
        with pytest.raises(UnknownName, match=r"no dataset '(no such|nowhere)'.* Nor is there such a folder here"):
            load(name)
    with pytest.raises(BadInput, match="never closed"):
        load("digits(")


def test_class_folders_alone_are_divided(tmp_path):
    for kind, n in (("cat", 20), ("dog", 10)):
        for at in range(n):
            save_image(tmp_path / kind / f"{at:02}.png")
    found = load(f"folder:{tmp_path}")
    assert np.bincount(found.test_labels).tolist() == [4, 2]
    assert sorted([*found.pool.ids, *found.test.ids]) == sorted(
        f"{p.parent.name}/{p.name}" for p in tmp_path.rglob("*.png")
    )
    assert [name.split("/")[0] == "dog" for name in found.pool.ids] == found.labels.astype(bool).tolist()
    assert load(f"folder:{tmp_path}").test.ids.tolist() == found.test.ids.tolist()
    assert load(f"folder:{tmp_path}(seed=1)").test.ids.tolist() != found.test.ids.tolist()
    assert len(load(f"folder:{tmp_path}(test_share=0.5)").test) == 15
    for share, words in ((1.5, "between 0 and 1"), (0.001, "too few")):
        with pytest.raises(BadInput, match=words):
            load(f"folder:{tmp_path}", test_share=share)


def test_folders_that_are_no_sets(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"a dataset is not in .*empty; expected there: .*CLASS"):
        load(f"folder:{tmp_path / 'empty'}")
    save_image(tmp_path / "half" / "train" / "cat" / "0.png")
    with pytest.raises(BadInput, match="has train/ but no test/ or val/"):
        load(f"folder:{tmp_path / 'half'}")
    with pytest.raises(BadInput, match="write folder:PATH"):
        load("folder:")
    with pytest.raises(UnknownName, match=r"no option of the dataset folder 'sizes'\. Did you mean 'size'"):
        load(f"folder:{tmp_path}(sizes=3)")


@pytest.mark.parametrize("options", ["", "(items=text)", "(sizes=3)"])
def test_a_folder_that_is_not_there_is_said_before_anything_else(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=rf"^no folder {tmp_path}/reviews; look at how it is written, or give the path"):
        load(f"./reviews{options}")
    (tmp_path / "reviews").write_text("a table")
    with pytest.raises(BadInput, match=r"^reviews is a file that no dataset is read from; expected a folder"):
        load(f"folder:reviews{options}")


@pytest.mark.parametrize("name", ["own.npz", "own.npy", "./own.npz", "folder:own.npy", "own.xlsx", "own"])
def test_a_file_that_is_there_is_not_called_unknown(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name.removeprefix("folder:")).write_bytes(b"x")
    with pytest.raises(BadInput) as error:
        load(name)
    told, file = str(error.value), Path(name.removeprefix("folder:"))
    assert f"{file} is a file that no dataset is read from; expected a folder, or" in told
    assert "a table, which ends in .csv, .tsv, .jsonl, .ndjson, .parquet" in told
    assert ("save the sheet as CSV" in told) == name.endswith(".xlsx")


def test_arrays_are_run_as_that_error_says(tmp_path):
    """Vectors in a folder, or a Dataset of pools."""
    pytest.importorskip("torch", reason="the extra torch is not installed")
    rng = np.random.default_rng(0)
    (tmp_path / "own.npz").write_bytes(b"x")
    with pytest.raises(BadInput) as error:
        load(str(tmp_path / "own.npz"))
    names = re.findall(r"\w+\.npy", str(error.value))
    arrays = [rng.normal(size=(60, 4)), np.arange(60) % 3, rng.normal(size=(30, 4)), np.arange(30) % 3]
    for name, array in zip(names, arrays, strict=True):
        np.save(tmp_path / name, array.astype(np.float32) if array.ndim == 2 else array)
    found = load(str(tmp_path))
    pools = [ArrayPool(np.load(tmp_path / name)) for name in names[::2]]
    own = Dataset("own", pools[0], arrays[1], pools[1], arrays[3], found.classes, found.facts)
    for at, given in enumerate((str(tmp_path), own)):
        how = {"network": "mlp", "recipe": "head(epochs=2, checkpoints=2)", "device": "cpu"}
        state = ncalr.run(given, "random", budgets=(10,), folder=tmp_path / f"run{at}", **how)
        assert len(state.labels) == 10


def test_a_name_that_means_the_same_from_everywhere(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    for text in ("folder:photos(size=96)", "folder:./photos/(size=96)", "folder:below/../photos(size=96)"):
        assert placed(text) == f"folder:{tmp_path}/photos(size=96)"
    assert placed("./photos") == f"{tmp_path}/photos" == placed(placed("./photos"))
    assert placed("~/photos") == str(Path("~/photos").expanduser())
    assert [placed(name) for name in ("digits", "digits(known=8)", "nothing")] == [
        "digits",
        "digits(known=8)",
        "nothing",
    ]


def test_arrays_by_folder(tmp_path):
    write_arrays(tmp_path / "mine")
    assert len(load(f"folder:{tmp_path / 'mine'}").pool) == 6


def test_tiny_imagenet_as_it_is_packed(tmp_path):
    folder = tmp_path / "tiny_imagenet"
    folder.mkdir()
    (folder / "tiny-imagenet-200.zip").write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"still packed; unpack it: python -m zipfile -e"):
        load("tiny_imagenet", tmp_path)
    base = folder / "tiny-imagenet-200"
    for wnid in ("n02", "n01"):
        save_image(base / "train" / wnid / "images" / f"{wnid}_0.JPEG")
    for at in range(3):
        save_image(base / "val" / "images" / f"val_{at}.JPEG")
    save_image(base / "test" / "images" / "test_0.JPEG")
    listed = base / "val" / "val_annotations.txt"
    listed.write_text("val_0.JPEG\tn02\t0\t0\t62\t57\nval_1.JPEG\tn01\t0\t0\t1\t1\nval_2.JPEG\tn02\t0\t0\t1\t1\n")
    assert load("tiny_imagenet", tmp_path).classes == ["n01", "n02"]
    (base / "words.txt").write_text("n01\tgoldfish\nn03\tnothing\n")
    found = load("tiny_imagenet", tmp_path)
    assert found.kinds == [("goldfish", "n01"), ("n02", "n02")]
    assert (found.labels.tolist(), found.test_labels.tolist()) == ([0, 1], [1, 0, 1])
    assert found.pool.shape == (64, 64, 3)
    listed.write_text("val_0.JPEG\tn02\n")
    with pytest.raises(BadInput, match="does not say the class of 2 images"):
        load("tiny_imagenet", tmp_path)


def test_where_data_lies(tmp_path, monkeypatch):
    monkeypatch.delenv("NCALR_DATA", raising=False)
    assert data_root() == Path("~/.cache/ncalr").expanduser()
    monkeypatch.setenv("NCALR_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root("/other") == Path("/other")
    write_arrays(tmp_path / "cifar10")
    assert len(load("cifar10").pool) == 6


def test_missing_data_says_where_and_what_and_how(tmp_path):
    with pytest.raises(BadInput) as caught:
        load("cifar10", tmp_path)
    text = str(caught.value)
    for part in (
        str(tmp_path / "cifar10"),
        "cifar-10-binary.tar.gz",
        "_{images,labels}.npy",
        "https://www.cs.toronto.edu",
    ):
        assert part in text
    assert f"download('cifar10', '{tmp_path}')" in text
    with pytest.raises(
        BadInput, match=r"cifar10 is not in .*nowhere/cifar10 \(there is no folder .*nowhere: give the root"
    ):
        load("cifar10", tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(BadInput, match=r"sst2 is not in .*; expected there: \{train,dev\}\.tsv of GLUE"):
        load("sst2", tmp_path)
    with pytest.raises(BadInput, match=r"imagenet100 is not in .*train/CLASS.*NCALR_DATA"):
        load("imagenet100", tmp_path)


def test_names_that_are_not_known():
    with pytest.raises(UnknownName, match=r"no dataset 'cifar11'\. Did you mean 'cifar10'\?.*folder:PATH"):
        load("cifar11")
    with pytest.raises(UnknownName, match="no option of the dataset digits 'size'"):
        load("digits(size=3)")
    with pytest.raises(UnknownName, match="no dataset"):
        download("nothing")


def test_a_set_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "DATASETS", dict(DATASETS))

    @dataset("mine", items=3, test_items=3, classes=2, licence="mine", source="me")
    def mine(folder, *, width=2):
        pool = ArrayPool(np.zeros((3, width)))
        return Parts(pool, [0, 1, 0], pool, [0, 0, 1], ["no", "yes"]) if folder.exists() else None

    (tmp_path / "mine").mkdir()
    assert load("mine(width=5)", tmp_path).pool.shape == (5,)
    assert catalog.DATASETS["mine"].options == {"width": 2}
    with pytest.raises(BadInput, match="'mine' already"):
        dataset("mine")(mine)
    with pytest.raises(BadInput, match="cannot be downloaded: no official file"):
        download("mine", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.array([0, 1])}, "the pool has 3 items and 2 labels"),
        ({"test_labels": np.array([0, 1, 2])}, "the test set has a label 2, there are 2 classes"),
        ({"labels": np.array([0, 1, -1])}, "class numbers from 0"),
        ({"test": ArrayPool(np.zeros((3, 5)))}, r"items of shape \(2,\), in the test set \(5,\)"),
    ],
)
def test_datasets_that_cannot_be(change, words):
    pool = ArrayPool(np.zeros((3, 2)))
    right = Dataset("x", pool, np.array([0, 1, 0]), pool, np.array([0, 1, 1]), ["a", "b"], Facts("", ""))
    with pytest.raises(BadInput, match=words):
        replace(right, **change)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """CIFAR-10 from a file on this machine, with its true checksum."""
    source = tmp_path / "server" / "cifar-10-binary.tar.gz"
    pack(source, cifar_files()[0], "cifar-10-batches-bin")
    archive = Archive(source.as_uri(), hashlib.sha256(source.read_bytes()).hexdigest(), "sha256")
    monkeypatch.setattr(catalog, "DATASETS", {**DATASETS, "cifar10": replace(DATASETS["cifar10"], archives=(archive,))})
    return source


def test_download(tmp_path, served):
    said = []
    folder = download("cifar10", tmp_path / "root", say=said.append)
    assert folder == tmp_path / "root" / "cifar10"
    assert [path.name for path in folder.iterdir()] == ["cifar-10-binary.tar.gz"]
    assert len(load("cifar10", tmp_path / "root").pool) == 15
    served.unlink()  # what is there and right is not fetched again
    download("cifar10", tmp_path / "root", say=said.append)
    assert "is there already" in said[-1]
    (folder / "cifar-10-binary.tar.gz").write_bytes(b"torn")
    with pytest.raises(NcalrError, match=r"cannot fetch file://.* or put the file there"):
        download("cifar10", tmp_path / "root", say=said.append)
    assert [path.name for path in folder.iterdir()] == ["cifar-10-binary.tar.gz"]


def test_a_wrong_download_is_not_kept(tmp_path, served):
    whole = served.read_bytes()
    with pytest.raises(BadInput, match=r"came with the sha256 \w+, expected \w+; it was not kept"):
        download("cifar10", tmp_path / "root", opener=lambda url: io.BytesIO(whole[:-1]), say=len)
    assert list((tmp_path / "root" / "cifar10").iterdir()) == []


def test_a_download_that_breaks_off_leaves_nothing(tmp_path, served):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise TimeoutError("the line is dead")
            return super().read(10)

    with pytest.raises(NcalrError, match="the line is dead"):
        download("cifar10", tmp_path / "root", opener=lambda url: Broken(b"x" * 100), say=len)
    assert list((tmp_path / "root" / "cifar10").iterdir()) == []


def test_odd_addresses_are_refused(tmp_path, monkeypatch):
    odd = replace(DATASETS["cifar10"], archives=(Archive("ftp://x/cifar-10-binary.tar.gz", "0" * 32),))
    monkeypatch.setattr(catalog, "DATASETS", {"cifar10": odd})
    with pytest.raises(BadInput, match="expected http, https or file"):
        download("cifar10", tmp_path, say=len)


DIGITS_SPLIT = "b49402f692a7fbf8"


def flat_images(folder, rows, head="file,label"):
    from PIL import Image

    folder.mkdir()
    for at in range(20):
        Image.new("RGB", (8, 8), (at * 10, 0, 0)).save(folder / f"p{at:02d}.png")
    (folder / "labels.csv").write_text("\n".join([head, *rows]) + "\n")


def test_flat_images_with_their_labels_in_a_file(tmp_path):
    rows = [f"p{at:02d}.png,{('cat', 'dog')[at % 2]}" for at in range(20)]
    flat_images(tmp_path / "photos", reversed(rows))
    found = load(f"{tmp_path}/photos(size=8)")
    assert found.classes == ["cat", "dog"]
    assert (len(found.pool), len(found.test)) == (16, 4)
    named = dict(row.split(",") for row in rows)
    for pool, labels in ((found.pool, found.labels), (found.test, found.test_labels)):
        assert [named[name] for name in pool.ids.tolist()] == [found.classes[label] for label in labels]
        assert pool.read(np.arange(1)).shape == (1, 8, 8, 3)
    assert np.bincount(found.test_labels).tolist() == [2, 2]
    again = load(f"{tmp_path}/photos(size=8)")
    assert again.test.ids.tolist() == found.test.ids.tolist()
    assert load(f"{tmp_path}/photos(size=8, seed=1)").test.ids.tolist() != found.test.ids.tolist()


@pytest.mark.parametrize("head", ["file,label", "ClassId,Name"])
def test_a_list_beside_train_and_test_folders_moves_nothing(tmp_path, head):
    from PIL import Image

    for place in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (tmp_path / "pets" / place).mkdir(parents=True)
        for at in range(4 if "train" in place else 2):
            Image.new("RGB", (8, 8), (at * 10, 0, 0)).save(tmp_path / "pets" / place / f"{at}.png")
    before = load(f"{tmp_path}/pets(size=8)")
    (tmp_path / "pets" / "labels.csv").write_text(f"{head}\ntest/cat/0.png,cat\n")
    after = load(f"{tmp_path}/pets(size=8)")
    assert (after.pool.ids.tolist(), after.test.ids.tolist()) == (before.pool.ids.tolist(), before.test.ids.tolist())


def test_what_is_wrong_with_a_file_of_labels(tmp_path):
    rows = [f"p{at:02d}.png,{('cat', 'dog')[at % 2]}" for at in range(18)]
    flat_images(tmp_path / "fewer", rows)
    with pytest.warns(Note, match="2 of 20 items have no label and are left out"):
        assert len(load(f"{tmp_path}/fewer").pool) == 14
    flat_images(tmp_path / "more", [*rows, "p99.png,cat"])
    with pytest.raises(BadInput, match=r"names 1 files that are no images below .*, the first is 'p99.png'"):
        load(f"{tmp_path}/more")
    flat_images(tmp_path / "other", rows, "picture,kind")
    with pytest.raises(BadInput, match=r"has the columns picture, kind; expected file, .* and label"):
        load(f"{tmp_path}/other")


def test_a_table_of_texts_and_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"m{at},a {('dull', 'great')[at % 2]} film {at},{('no', 'yes')[at % 2]}" for at in range(30)]
    (tmp_path / "mails.csv").write_text("\n".join(["id,text,label", *rows]))
    found = load("mails.csv")
    assert (found.classes, len(found.pool), len(found.test)) == (["no", "yes"], 24, 6)
    assert found.pool.ids[0].startswith("m")
    assert found.test.ids.tolist() == load(str(tmp_path / "mails.csv")).test.ids.tolist()
    assert placed("mails.csv(seed=1)") == f"{tmp_path}/mails.csv(seed=1)"
    (tmp_path / "others.csv").write_text("\n".join(["key,words,kind", *rows, "m30,nothing,"]))
    with pytest.raises(BadInput, match=r"which column of others.csv holds the labels\? Say .*\(label=COLUMN\)'"):
        load("others.csv")
    with pytest.raises(BadInput, match=r"which column of others.csv holds the texts"):
        load("others.csv(label=kind)")
    with pytest.raises(BadInput, match=r"1 of 31 rows have no label in 'kind'.*skip_unlabelled=true"):
        load("others.csv(text=words, label=kind, ids=key)")
    with pytest.warns(Note, match="1 of 31 items have no label"):
        assert len(load("others.csv(text=words, label=kind, ids=key, skip_unlabelled=true)").pool) == 24
    with pytest.raises(BadInput, match=r"no table .*nothere.csv; look at how it is written"):
        load("nothere.csv")


def test_a_table_of_vectors_and_labels(tmp_path):
    rows = [f"{at}.5,{-at}.25,{at % 3}" for at in range(30)]
    (tmp_path / "points.csv").write_text("\n".join(["x,y,label", *rows]))
    with pytest.warns(Note, match="the vectors are 2 columns, x to y"):
        found = load(f"{tmp_path}/points.csv")
    assert (found.pool.shape, found.classes, len(found.test)) == ((2,), ["0", "1", "2"], 6)
