"""The datasets that have a name, and how their official files are read."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncalr.data.catalog import Archive, Labels, Parts, dataset
from ncalr.data.fields import check_fields, list_of
from ncalr.data.files import write_whole
from ncalr.data.folders import IMAGE_FOLDERS, arrays_in, class_folders, read_classes
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.received import check_file, inside, limited, read_object, reading
from ncalr.data.splits import class_labels, drawn
from ncalr.data.tables import TextPool, read_labels, read_table
from ncalr.errors import BadInput
from ncalr.extras import load as load_package

LARGEST = 1 << 28
"""Bytes of a file in an official archive, unpacked; the largest, of CIFAR-100, has 154 million."""


@dataset(
    "digits",
    items=1297,
    test_items=500,
    classes=10,
    licence="CC BY 4.0",
    source="scikit-learn's load_digits, from Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998, UCI)",
    notes="8 x 8 pixels; which 500 are for the test is fixed; ids are scikit-learn's rows",
    arrays=False,
)
def _digits(folder: Path) -> Parts:  # noqa: ARG001 (it ships with scikit-learn)
    found = load_package("sklearn.datasets", "sklearn", "the dataset digits").load_digits()
    images, truth = (found.images * 15).astype(np.uint8), found.target.astype(np.int64)
    order = drawn(len(truth), 0, "digits")
    test, pool = np.sort(order[:500]), np.sort(order[500:])
    return Parts(
        ArrayPool(images[pool], pool),
        truth[pool],
        ArrayPool(images[test], test),
        truth[test],
        [str(i) for i in range(10)],
    )


_CIFAR = {
    "licence": "none stated; cite Krizhevsky 2009",
    "source": "https://www.cs.toronto.edu/~kriz/cifar.html",
    "items": 50_000,
    "test_items": 10_000,
}


@dataset(
    "cifar10",
    classes=10,
    files="cifar-10-binary.tar.gz, or cifar-10-batches-bin/ unpacked from it",
    archives=(Archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
    notes="32 x 32 pixels, colour",
    **_CIFAR,
)
def _cifar10(folder: Path) -> Parts | None:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    train = [f"data_batch_{i}.bin" for i in range(1, 6)]
    return arrays_in(folder, names) or _cifar(
        folder, "cifar-10-binary.tar.gz", train, "test_batch.bin", "batches.meta.txt"
    )


@dataset(
    "cifar100",
    classes=100,
    files="cifar-100-binary.tar.gz, or cifar-100-binary/ unpacked from it",
    archives=(Archive("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
    notes="32 x 32 pixels, colour; the 100 fine classes",
    **_CIFAR,
)
def _cifar100(folder: Path) -> Parts | None:
    found = arrays_in(folder)
    return found or _cifar(folder, "cifar-100-binary.tar.gz", ["train.bin"], "test.bin", "fine_label_names.txt")


def _cifar(folder: Path, archive: str, train: list[str], test: str, names: str) -> Parts | None:
    """CIFAR's binary version: records of one or two label bytes, of which the last counts, and 3 x 32 x 32 bytes."""
    wanted = [*train, test, names]
    files = _unpacked(folder, wanted) or _packed(folder / archive, wanted)
    if files is None:
        return None
    classes = files[names].decode().split()
    label_bytes = 1 if len(train) > 1 else 2
    images, labels = zip(*(_records(folder, name, files[name], label_bytes) for name in train), strict=True)
    test_images, test_labels = _records(folder, test, files[test], label_bytes)
    return Parts(
        ArrayPool(np.concatenate(images)), np.concatenate(labels), ArrayPool(test_images), test_labels, classes
    )


def _records(folder: Path, name: str, data: bytes, label_bytes: int) -> tuple[npt.NDArray[np.uint8], Labels]:
    record = label_bytes + 3072
    if not data or len(data) % record:
        raise BadInput(f"{folder}: {name} has {len(data)} bytes, expected records of {record}; fetch it again")
    rows = np.frombuffer(data, np.uint8).reshape(-1, record)
    planes = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, label_bytes - 1].astype(np.int64)


def _unpacked(folder: Path, wanted: list[str]) -> dict[str, bytes] | None:
    """The wanted files, if all of them lie in the folder or in one folder below."""
    for place in [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]:
        if all((place / name).is_file() for name in wanted):
            return {name: (place / name).read_bytes() for name in wanted}
    return None


def _packed(path: Path, wanted: list[str]) -> dict[str, bytes] | None:
    """The wanted files of an archive, in one pass; None if there is no archive."""
    if not path.exists():
        return None
    found: dict[str, bytes] = {}
    with reading(path, "an archive", "fetch it again"), tarfile.open(path) as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            file = archive.extractfile(member) if name in wanted and member.isreg() else None
            if file is not None:
                found[name] = limited(file, LARGEST, path)
    absent = [name for name in wanted if name not in found]
    if absent:
        raise BadInput(f"{path} holds no {absent[0]}; expected the official binary version")
    return found


_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


@dataset(
    "fashion_mnist",
    items=60_000,
    test_items=10_000,
    classes=10,
    licence="MIT",
    source="https://github.com/zalandoresearch/fashion-mnist (Xiao et al. 2017)",
    files="{train,t10k}-images-idx3-ubyte.gz, {train,t10k}-labels-idx1-ubyte.gz",
    archives=(
        Archive(_FASHION + "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        Archive(_FASHION + "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        Archive(_FASHION + "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        Archive(_FASHION + "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    notes="28 x 28 pixels, grey",
)
def _fashion_mnist(folder: Path) -> Parts | None:
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    arrays = arrays_in(folder, names)
    if arrays or not (folder / "train-images-idx3-ubyte.gz").exists():
        return arrays
    train, test = (
        (_idx(folder / f"{split}-images-idx3-ubyte.gz", 3), _idx(folder / f"{split}-labels-idx1-ubyte.gz", 1))
        for split in ("train", "t10k")
    )
    return Parts(ArrayPool(train[0]), train[1], ArrayPool(test[0]), test[1], names)


def _idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """An array of bytes in the idx format: two zeros, 8, the number of dimensions, their sizes, the bytes."""
    check_file(path)
    with reading(path, "gzip", "fetch it again"), gzip.open(path) as file:
        data = limited(file, LARGEST, path)
    start = 4 + 4 * dimensions
    shape = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4")) if len(data) >= start else ()
    if data[:4] != bytes([0, 0, 8, dimensions]) or len(data) - start != np.prod(shape, dtype=np.int64):
        raise BadInput(f"{path} is not an idx file of bytes in {dimensions} dimensions, or is torn; fetch it again")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


_IMAGENET = {
    "licence": "ImageNet's terms of access: non-commercial research and education",
    "files": IMAGE_FOLDERS,
}


@dataset(
    "imagenet100",
    items=126_689,
    test_items=5_000,
    classes=100,
    source="https://image-net.org, 100 of its classes (Tian et al. 2020)",
    notes="the paper's has 1,300 images in every class, which is another selection; class folders, sorted by name",
    **_IMAGENET,
)
@dataset(
    "mini_imagenet",
    items=50_000,
    test_items=10_000,
    classes=100,
    source="https://image-net.org, 100 of its classes (Vinyals et al. 2016; Ravi and Larochelle 2017)",
    aliases=("mini_imagenet64",),
    notes="100 classes of ImageNet, 500 images each and 100 for the test; not the class list of ImageNet-100",
    **_IMAGENET,
)
def _imagenet(folder: Path, *, size: Any = 64, skip_broken: bool = False) -> Parts | None:
    return arrays_in(folder) or class_folders(folder, size=size, skip_broken=skip_broken)


@dataset(
    "tiny_imagenet",
    items=100_000,
    test_items=10_000,
    classes=200,
    source="http://cs231n.stanford.edu/tiny-imagenet-200.zip (Le and Yang 2015)",
    archives=(Archive("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"),),
    notes="64 x 64 pixels; the test set is the official val, as the official test has no labels",
    licence=_IMAGENET["licence"],
    files="tiny-imagenet-200/ unpacked from tiny-imagenet-200.zip",
)
def _tiny_imagenet(folder: Path, *, size: Any = 64, skip_broken: bool = False) -> Parts | None:
    arrays = arrays_in(folder)
    if arrays:
        return arrays
    packed, inside = folder / "tiny-imagenet-200.zip", folder / "tiny-imagenet-200"
    if packed.exists() and not inside.is_dir():
        raise BadInput(f"{packed} is still packed; unpack it: python -m zipfile -e {packed} {folder}")
    base = inside if inside.is_dir() else folder
    found = class_folders(base, size=size, skip_broken=skip_broken, tests=("val",))
    return found and found._replace(classes=_words(base / "words.txt", found.classes), wnids=found.classes)


def _words(path: Path, classes: list[str]) -> list[str]:
    """WordNet's words for its numbers, where the list is there."""
    if not path.exists():
        return classes
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    words = {row[0]: row[1] for row in rows if len(row) == 2}
    return [words.get(name, name) for name in classes]


@dataset(
    "sst2",
    items=67_349,
    test_items=872,
    classes=2,
    licence="none stated; cite Socher et al. 2013",
    source="https://nlp.stanford.edu/sentiment, as packed for GLUE",
    files="{train,dev}.tsv of GLUE, or SST-2.zip; or {train,test}.json with the lists text and label",
    archives=(Archive("https://dl.fbaipublicfiles.com/glue/data/SST-2.zip", "9f81648d4199384278b86e315dac217c"),),
    notes="texts. GLUE: phrases, its dev is the test set here; the JSON: 6,920 whole sentences, 1,821 for the test",
    arrays=False,
)
def _sst2(folder: Path) -> Parts | None:
    classes = ["negative", "positive"]
    if (folder / "train.json").exists():
        train, test = _texts_json(folder / "train.json"), _texts_json(folder / "test.json")
        named = folder / "classes.json"
        return Parts(*train, *test, [kind.name for kind in read_classes(named)] if named.exists() else classes)
    _unzip_tables(folder)
    places = [place for place in (folder, folder / "SST-2") if (place / "train.tsv").exists()]
    if not places:
        return None
    train, test = (_texts_tsv(places[0] / f"{split}.tsv") for split in ("train", "dev"))
    return Parts(*train, *test, classes)


def _unzip_tables(folder: Path) -> None:
    """The two tables of SST-2.zip, written beside it once."""
    packed = folder / "SST-2.zip"
    if not packed.exists() or (folder / "SST-2" / "dev.tsv").exists():
        return
    with reading(packed, "GLUE's archive", "fetch it again"), zipfile.ZipFile(packed) as archive:
        tables = {name: limited(archive.open(f"SST-2/{name}"), LARGEST, packed) for name in ("train.tsv", "dev.tsv")}
    place = inside(folder, "SST-2")
    place.mkdir(exist_ok=True)
    for name, table in tables.items():  # dev last: it says that both are there
        write_whole(place / name, table)


def _texts_tsv(path: Path) -> tuple[Pool, Labels]:
    pool = read_table(path, text="sentence")
    return pool, read_labels(path, "label", classes=["0", "1"])[0]


def _texts_json(path: Path) -> tuple[Pool, Labels]:
    found = read_object(path, "expected the lists text and label")
    check_fields(found, dict.fromkeys(("text", "label"), list_of(lambda _: True)), str(path), needed=("text", "label"))
    texts, labels = found["text"], found["label"]
    if len(texts) != len(labels):
        raise BadInput(f"{path}: {len(texts)} texts and {len(labels)} labels")
    return TextPool(texts), class_labels(labels)
