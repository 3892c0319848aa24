"""Datasets of the Hub from disk: what `save_to_disk` writes, and folders of Parquet and Arrow files."""

from __future__ import annotations

import io
import json
import pickle
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.data import hub, load
from ncalr.data.encoded import EncodedPool
from ncalr.errors import BadInput, MissingExtra, Note, UnknownName

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import ipc, parquet  # noqa: E402

RNG = np.random.default_rng(0)
CLASS = {"names": ["cat", "dog"], "_type": "ClassLabel"}
TEXTS = {"text": ["a", "b", "c", "d"], "label": [0, 1, 1, 0]}


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def cells(n, size=6, shade=None):
    """Images as the Hub keeps them."""
    images = RNG.integers(0, 256, (n, size, size, 3), np.uint8) if shade is None else np.array(shade, np.uint8)
    return images, [{"bytes": png(image), "path": None} for image in images]


def table(columns, features=None):
    """A table with what `datasets` writes into its schema."""
    found = pyarrow.table(columns)
    if features is None:
        return found
    return found.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write_stream(path, found):
    path.parent.mkdir(parents=True, exist_ok=True)
    with ipc.new_stream(path, found.schema) as file:
        file.write_table(found, max_chunksize=2)


def save_to_disk(folder, columns, features=None, shards=1, split="train"):
    """What `Dataset.save_to_disk` leaves: Arrow streams, state.json, dataset_info.json."""
    found = table(columns)
    names = [f"data-{shard:05}-of-{shards:05}.arrow" for shard in range(shards)]
    bounds = np.linspace(0, len(found), shards + 1).astype(int)
    for name, begin, end in zip(names, bounds[:-1], bounds[1:], strict=True):
        write_stream(folder / name, found.slice(begin, end - begin))
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": split}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}, "license": ""}))
    return folder


def save_splits(folder, **splits):
    """What `DatasetDict.save_to_disk` leaves."""
    for name, columns in splits.items():
        save_to_disk(folder / name, columns, {"label": CLASS}, split=name)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return folder


def write_parquet(path, columns=TEXTS, features=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table(columns, features), path)
    return path


def test_texts_saved_to_disk(tmp_path):
    found = load(str(save_splits(tmp_path, train=TEXTS, test={"text": ["x"], "label": [1]})))
    assert (found.pool.texts, found.labels.tolist()) == (["a", "b", "c", "d"], [0, 1, 1, 0])
    assert (found.test.texts, found.test_labels.tolist()) == (["x"], [1])
    assert found.classes == ["cat", "dog"]
    assert found.pool.ids.tolist() == [0, 1, 2, 3]
    assert str(tmp_path) in found.facts.source


@pytest.mark.parametrize("shards", [1, 3])
def test_images_saved_to_disk(tmp_path, shards):
    images, column = cells(7)
    columns = {"image": column, "label": [0, 1, 0, 1, 0, 1, 1], "key": [f"k{at}" for at in range(7)]}
    folder = save_to_disk(tmp_path, columns, {"label": CLASS, "image": {"_type": "Image"}}, shards)
    found = load(f"folder:{folder}(ids=key, test_share=0.3)")
    assert sorted([*found.pool.ids, *found.test.ids]) == columns["key"]
    place = {key: at for at, key in enumerate(columns["key"])}
    for pool, labels in ((found.pool, found.labels), (found.test, found.test_labels)):
        rows = [place[key] for key in pool.ids]
        np.testing.assert_array_equal(pool.read(slice(None)), images[rows])
        assert labels.tolist() == [columns["label"][row] for row in rows]
    assert np.bincount(found.test_labels).tolist() == [1, 1]
    assert load(f"{folder}(size=4, channels=1)").pool.shape == (4, 4, 1)


def test_a_pool_of_images_goes_to_a_worker_without_its_images(tmp_path):
    images, column = cells(30, size=40)
    save_splits(tmp_path, train={"image": column, "label": [0, 1] * 15}, test={"image": column[:2], "label": [0, 1]})
    pool = load(str(tmp_path)).pool
    sent = pickle.dumps(pool)
    assert len(sent) < 4000 < len(column[0]["bytes"])
    np.testing.assert_array_equal(pickle.loads(sent).read(slice(None)), images)


@pytest.mark.parametrize("kind", [pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.float64(), 2)])
def test_vectors(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(hub, "BLOCK", 3)
    vectors = RNG.normal(size=(10, 2)).round(2)
    columns = {"embedding": pyarrow.array(vectors.tolist(), kind), "label": [0, 1] * 5}
    found = load(str(save_splits(tmp_path, train=columns, validation=columns)))
    np.testing.assert_allclose(found.pool.read(slice(None)), vectors, rtol=1e-6)
    assert found.pool.dtype == np.float32
    assert len(found.test) == 10


def test_columns_of_numbers(tmp_path):
    columns = {"height": [1.0, 2.0, 3.0], "weight": [4, 5, 6], "label": ["b", "a", "b"]}
    write_parquet(tmp_path / "train.parquet", columns)
    write_parquet(tmp_path / "test.parquet", columns)
    found = load(f"{tmp_path}/(items=['weight', 'height'])")
    assert found.pool.read(slice(None)).tolist() == [[4, 1], [5, 2], [6, 3]]
    assert (found.classes, found.labels.tolist()) == (["a", "b"], [1, 0, 1])


LAYOUTS = {
    "shards": [
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
        "data/test-00000-of-00001.parquet",
    ],
    "hashes": [
        "train-00000-of-00002-ab12.parquet",
        "train-00001-of-00002-cd34.parquet",
        "test-00000-of-00001-ef.parquet",
    ],
    "converted": ["default/train/0000.parquet", "default/train/0001.parquet", "default/test/0000.parquet"],
    "words": ["latest_train_1.arrow", "latest_train_2.arrow", "latest_dev.arrow"],
    "a word in the folder": ["train_test/train-1.parquet", "train_test/train-2.parquet", "train_test/b.parquet"],
    "no word": ["one.parquet", "two.parquet", "my-test.parquet"],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_the_hub(tmp_path, layout):
    parts = [{"text": ["a", "b"], "label": [0, 1]}, {"text": ["c"], "label": [1]}, {"text": ["t"], "label": [0]}]
    for path, columns in zip(LAYOUTS[layout], parts, strict=True):
        write = write_parquet if path.endswith("parquet") else lambda path, c, f: write_stream(path, table(c, f))
        write(tmp_path / path, columns, {"label": CLASS})
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "train.parquet").write_bytes(b"not for us")
    found = load(str(tmp_path))
    assert (found.pool.texts, found.test.texts) == (["a", "b", "c"], ["t"])
    assert (found.labels.tolist(), found.classes) == ([0, 1, 1], ["cat", "dog"])


def test_a_folder_of_the_cache(tmp_path):
    """NAME-SPLIT.arrow, and dataset_info.json says which splits there are."""
    for split, columns in (("train", TEXTS), ("unsupervised", {"text": ["u"], "label": [-1]})):
        write_stream(tmp_path / f"imdb-{split}.arrow", table(columns))
    write_stream(tmp_path / "imdb-test-00000-of-00001.arrow", table(TEXTS))
    info = {"features": {"label": CLASS}, "splits": {"train": {}, "test": {}, "unsupervised": {}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    found = load(str(tmp_path))
    assert (len(found.pool), len(found.test), found.classes) == (4, 4, ["cat", "dog"])


def test_splits_by_name(tmp_path):
    for name, text in (("train", "a"), ("test", "b"), ("validation", "c"), ("extra", "d")):
        write_parquet(tmp_path / f"{name}-00000-of-00001.parquet", {"text": [text], "label": [0]}, {"label": CLASS})
    assert load(f"{tmp_path}").test.texts == ["b"]
    found = load(f"{tmp_path}(split=extra, test=validation)")
    assert (found.pool.texts, found.test.texts) == (["d"], ["c"])
    assert load(f"{tmp_path}(split=test)").test.texts == ["c"]
    with pytest.raises(BadInput, match=r"has no split 'dev'; it has: extra, test, train, validation"):
        load(f"{tmp_path}(test=dev)")
    (tmp_path / "train-00000-of-00001.parquet").unlink()
    with pytest.raises(BadInput, match=r"no split 'train'; say split=NAME, one of: extra, test, validation"):
        load(str(tmp_path))


def test_one_split_alone(tmp_path):
    folder = save_to_disk(tmp_path, {"text": ["a"] * 10, "label": [0, 1] * 5}, {"label": CLASS}, split="test")
    assert (len(load(str(folder)).pool), len(load(str(folder)).test)) == (8, 2)


def test_an_arrow_file_with_a_footer(tmp_path):
    for split in ("train", "test"):
        with ipc.new_file(tmp_path / f"{split}.arrow", table(TEXTS).schema) as file:
            file.write_table(table(TEXTS))
    assert load(str(tmp_path)).pool.texts == ["a", "b", "c", "d"]
    whole = (tmp_path / "train.arrow").read_bytes()
    (tmp_path / "train.arrow").write_bytes(whole[:-20])
    with pytest.raises(BadInput, match=r"train\.arrow cannot be read as Arrow"):
        load(str(tmp_path))


def test_images_by_their_paths(tmp_path):
    images, column = cells(3)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "0.png").write_bytes(column[0]["bytes"])
    (tmp_path / "1.png").write_bytes(column[1]["bytes"])
    paths = ["photos/0.png", "1.png", None]
    rows = [{"bytes": None if path else cell["bytes"], "path": path} for path, cell in zip(paths, column, strict=True)]
    folder = save_splits(
        tmp_path / "set", train={"image": rows, "label": [0, 1, 0]}, test={"image": rows[1:], "label": [0, 1]}
    )
    with pytest.raises(BadInput, match=r"train \(train\), row 1 cannot be read as an image .*No such file"):
        load(str(folder))
    (folder / "train" / "photos").mkdir()
    (folder / "train" / "photos" / "0.png").write_bytes(column[0]["bytes"])
    for split in ("train", "test"):
        (folder / split / "1.png").write_bytes(column[1]["bytes"])
    np.testing.assert_array_equal(load(str(folder)).pool.read(slice(None)), images)


@pytest.mark.parametrize("out", ["../1.png", "ABSOLUTE", "link.png"])
def test_pictures_outside_the_dataset_are_not_read(tmp_path, out):
    _, column = cells(2)
    (tmp_path / "1.png").write_bytes(column[1]["bytes"])
    path = str(tmp_path / "1.png") if out == "ABSOLUTE" else out
    rows = [column[0], {"bytes": None, "path": path}]
    folder = save_splits(
        tmp_path / "set", train={"image": rows, "label": [0, 1]}, test={"image": rows, "label": [0, 1]}
    )
    (folder / "train" / "link.png").symlink_to(tmp_path / "1.png")
    with pytest.raises(BadInput, match="picture"):
        load(str(folder))


@pytest.mark.parametrize("name", ["../other/data.arrow", "/etc/passwd", 7])
def test_data_files_outside_the_dataset_are_not_read(tmp_path, name):
    folder = save_to_disk(tmp_path / "saved", TEXTS, {"label": CLASS})
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(BadInput, match="data file"):
        load(str(folder))
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [str(name)]}))
    with pytest.raises(BadInput):
        load(str(folder))


def test_bytes_alone_are_images_too(tmp_path):
    images, column = cells(4)
    columns = {"img": [cell["bytes"] for cell in column], "name": ["a", "b", "c", "d"], "labels": [0, 1, 0, 1]}
    write_parquet(tmp_path / "train.parquet", columns)
    write_parquet(tmp_path / "test.parquet", columns)
    found = load(str(tmp_path))
    np.testing.assert_array_equal(found.pool.read(np.array([3, 0])), images[[3, 0]])
    assert found.classes == ["0", "1"]


def test_images_of_many_sizes(tmp_path):
    column = [*cells(2, 6)[1], *cells(1, 9)[1]]
    folder = save_to_disk(tmp_path, {"image": column, "label": [0, 1, 0]}, {"label": CLASS})
    with pytest.raises(BadInput, match=r"\(train\), row 1 is .* 6 x 6 pixels, .* row 3 one of 9 x 9; .* size=6"):
        load(str(folder))
    assert load(f"{folder}(size=6)").pool.shape == (6, 6, 3)
    save_splits(
        tmp_path / "two", train={"image": column[:2], "label": [0, 1]}, test={"image": column[2:], "label": [0]}
    )
    with pytest.raises(BadInput, match=r"items of shape \(6, 6, 3\), in the test set \(9, 9, 3\)"):
        load(str(tmp_path / "two"))


def test_broken_images(tmp_path):
    _, column = cells(3)
    column[1]["bytes"] = column[1]["bytes"][:-40]
    folder = save_to_disk(tmp_path, {"image": column, "label": [0, 1, 0]}, {"label": CLASS})
    pool = load(f"{folder}").pool  # its beginning is there
    with pytest.raises(BadInput, match=r"\(train\), row 2 cannot be read as an image .*; mend it or leave it out"):
        pool.read(slice(None))
    column[1]["bytes"] = None
    with pytest.raises(BadInput, match=r"\(train\), row 2 has no image"):
        load(str(save_to_disk(tmp_path, {"image": column, "label": [0, 1, 0]}, {"label": CLASS})))
    with pytest.raises(BadInput, match="at least one image"):
        EncodedPool([])
    with pytest.raises(BadInput, match=r"image 0 cannot be read as an image \(cannot identify image file\)"):
        EncodedPool([b"nothing"])


COLUMNS = {
    "no label": (
        {"text": ["a"], "stars": [5]},
        "",
        r"no column of labels .* say label=COLUMN. It has: text \(text\), stars \(int64\)",
    ),
    "a wrong label": ({"text": ["a"], "stars": [5]}, "label=star", r"no column 'star'. It has: text \(text\), stars"),
    "wrong ids": ({"text": ["a"], "label": [0]}, "ids=key", "no column 'key'. It has: text"),
    "wrong items": ({"text": ["a"], "label": [0]}, "items=['text', 'x']", "no column 'x'"),
    "two labels": (
        {"text": ["a"], "label": [0], "labels": [0]},
        "",
        "several columns can be meant, label and labels; say label=label",
    ),
    "two texts": ({"question": ["a"], "answer": ["b"], "label": [0]}, "", "question and answer; say items=question"),
    "text or vectors": ({"text": ["a"], "v": [[1.0]], "label": [0]}, "", "text and v; say items=text"),
    "no items": (
        {"x": [1], "label": [0]},
        "",
        r"no images, texts or vectors in any column. It has: x \(int64\), label",
    ),
    "no such items": ({"x": [1], "t": ["a"], "label": [0]}, "items=x", "no images, texts or vectors in x"),
    "sound": ({"x": [{"bytes": b"", "path": ""}], "label": [0]}, "", r"It has: x \(audio\)"),
    "nested": ({"x": [[["a"]]], "label": [0]}, "", r"It has: x \(list\)"),
    "an empty text": ({"x": ["a", None], "label": [0, 1]}, "", r"row 2: 'x' is None, expected a text"),
    "no class": ({"x": ["a", "b"], "label": [0, 2]}, "", r"row 2: the label 2 is no class; expected one of cat, dog"),
    "hidden labels": ({"x": ["a", "b"], "label": [-1, -1]}, "", r"has no labels: 'label' is -1 .* test=validation"),
    "ids that repeat": (
        {"x": ["a", "b"], "k": [1, 1], "label": [0, 1]},
        "ids=k",
        r"row 2: the id 1 is already in row 1",
    ),
    "no rows": ({"x": pyarrow.array([], "string"), "label": pyarrow.array([], "int64")}, "", "has no rows"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_are_not_there_or_not_clear(tmp_path, name):
    columns, options, words = COLUMNS[name]
    features = {"x": {"_type": "Audio" if name == "sound" else "Value"}}
    known = {**features, "label": CLASS} if "label" in columns and "labels" not in columns else {}
    folder = save_to_disk(tmp_path, columns, known if name != "nested" else {"label": CLASS, "x": [[{}]]})
    with pytest.raises(BadInput, match=words) as caught:
        load(f"{folder}({options})" if options else str(folder))
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "labels", [[0, None, 1, 0, None, 1], ["a", None, "b", "a", None, "b"], [0.0, np.nan, 1, 0, None, 1]]
)
def test_rows_without_a_label_are_left_out_only_if_asked(tmp_path, labels):
    columns = {"text": list("uvwxyz"), "key": list("UVWXYZ"), "label": labels}
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", columns)
    asked = f"{tmp_path}(ids=key, items=text)"
    words = r"row 2: no label in 'label' \(2 of 6 rows have none\); .*'folder:.*\(skip_unlabelled=true\)'"
    with pytest.raises(BadInput, match=words):
        load(asked)
    with pytest.warns(Note, match="2 of 6 rows have no label and are left out"):
        found = load(asked, skip_unlabelled=True)
    assert (found.pool.ids.tolist(), found.labels.tolist()) == (list("UWXZ"), [0, 1, 0, 1])
    assert found.test.read(slice(None)).tolist() == list("uwxz")
    assert len(found.classes) == 2


def test_a_column_of_ids_is_not_taken_for_the_items(tmp_path):
    write_parquet(
        tmp_path / "v" / "train.parquet", {"id": list("abcde"), "v": [[1.0, 2.0]] * 5, "label": [0, 1, 0, 1, 0]}
    )
    assert load(str(tmp_path / "v")).pool.shape == (2,)
    write_parquet(tmp_path / "t" / "train.parquet", {"ID": list("abcde"), "label": [0, 1, 0, 1, 0]})
    assert len(load(str(tmp_path / "t")).pool) == 4  # where there is nothing else, it is
    both = {"id": list("abcde"), "v": [[1.0]] * 5, "text": list("abcde"), "label": [0, 1, 0, 1, 0]}
    write_parquet(tmp_path / "b" / "train.parquet", both)
    with pytest.raises(BadInput, match="several columns can be meant, v and text; say items=v"):
        load(str(tmp_path / "b"))


def test_two_class_labels(tmp_path):
    columns = {"text": ["a", "b"], "fine": [0, 1], "coarse": [1, 1]}
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", columns, {"fine": CLASS, "coarse": {**CLASS, "names": ["x", "y"]}})
    with pytest.raises(BadInput, match="several columns can be meant, fine and coarse; say label=fine, or another"):
        load(str(tmp_path))
    found = load(f"{tmp_path}(label=coarse)")
    assert (found.classes, found.labels.tolist()) == (["x", "y"], [1, 1])


def test_a_label_that_only_the_test_has(tmp_path):
    write_parquet(tmp_path / "train.parquet", {"text": ["a", "b"], "label": ["no", "yes"]})
    write_parquet(tmp_path / "test.parquet", {"text": ["a"], "label": ["maybe"]})
    with pytest.raises(BadInput, match=r"\(test\), row 1: the label 'maybe' is no class; expected one of no, yes"):
        load(str(tmp_path))


def test_categories_are_texts(tmp_path):
    kinds = pyarrow.array(["no", "yes", "no"]).dictionary_encode()
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", {"text": ["a", "b", "c"], "label": kinds})
    found = load(f"{tmp_path}(items=text)")
    assert (found.classes, found.labels.tolist()) == (["no", "yes"], [0, 1, 0])


@pytest.mark.parametrize("cut", [0, 1, 100, -300, -9, -8, -1])
def test_half_an_arrow_file(tmp_path, cut):
    """Also where it is cut between two pieces, or only the mark of its end is gone."""
    folder = save_to_disk(tmp_path, TEXTS, {"label": CLASS})
    path = folder / "data-00000-of-00001.arrow"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BadInput, match=r"data-00000-of-00001\.arrow cannot be read as Arrow .*is the file whole\?"):
        load(str(folder))


@pytest.mark.parametrize("half", [slice(0, 0), slice(0, 300), slice(300, None)])
def test_half_a_parquet_file_of_the_hub(tmp_path, half):
    path = write_parquet(tmp_path / "train-00000-of-00001.parquet")
    path.write_bytes(path.read_bytes()[half])
    with pytest.raises(
        BadInput, match=r"train-00000-of-00001\.parquet cannot be read as Parquet .*is the file whole\?"
    ):
        load(str(tmp_path))


def test_files_that_are_missing(tmp_path):
    folder = save_to_disk(tmp_path / "saved", TEXTS, {"label": CLASS}, shards=2)
    (folder / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(BadInput, match=r"lacks 1 of its data files, the first is .*data-00001-of-00002\.arrow"):
        load(str(folder))
    write_parquet(tmp_path / "hub" / "train-00001-of-00003.parquet")
    with pytest.raises(BadInput, match=r"hub has 1 of the 3 files of 'train'; fetch the others"):
        load(str(tmp_path / "hub"))
    save_splits(tmp_path / "splits", train=TEXTS, test=TEXTS)
    (tmp_path / "splits" / "test" / "state.json").unlink()
    with pytest.raises(BadInput, match=r"state\.json"):
        load(str(tmp_path / "splits"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"state\.json cannot be read .* is the file whole"),
        ("[]", "must hold a JSON object"),
        ("{}", r"not what save_to_disk writes: it has no list '_data_files'"),
        ('{"_data_files": [5]}', "name no files"),
        ('{"_data_files": []}', "lacks all of its data files"),
        ('{"_data_files": [], "_indices_data_files": [{}]}', r"save it once more after flatten_indices\(\)"),
    ],
)
def test_a_state_that_is_none(tmp_path, text, words):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(BadInput, match=words):
        load(str(tmp_path))


def test_several_configurations(tmp_path):
    for language in ("de", "en"):
        write_parquet(tmp_path / language / "train-00000-of-00001.parquet")
    with pytest.raises(BadInput, match=r"'train' is in several places: .*/de/\*\.parquet, .*/en/\*\.parquet; give one"):
        load(str(tmp_path))
    assert len(load(f"{tmp_path}/de(test_share=0.5)").pool) == 2


def test_files_that_do_not_belong_together(tmp_path):
    write_parquet(tmp_path / "train-1.parquet")
    write_parquet(tmp_path / "train-2.parquet", {"words": ["a"], "label": [0]})
    with pytest.raises(BadInput, match=r"train-2\.parquet has no column 'text', other files of its split have one"):
        load(str(tmp_path))


def test_folders_that_are_none(tmp_path):
    with pytest.raises(BadInput, match=r"a dataset is not in .*CLASS.*; or a dataset of the Hugging Face Hub: .*arrow"):
        load(str(tmp_path))
    with pytest.raises(BadInput, match=r"no folder .*no; look at how it is written"):
        load(f"{tmp_path / 'no'}(items=text)")
    write_parquet(tmp_path / "train.parquet")
    with pytest.raises(UnknownName, match=r"no option of the dataset folder 'lable'\. Did you mean 'label'"):
        load(f"{tmp_path}(lable=x)")


def test_the_hub_without_pyarrow(tmp_path, monkeypatch):
    write_parquet(tmp_path / "train.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[parquet\]'"):
        load(str(tmp_path))


def test_class_folders_are_still_class_folders(tmp_path):
    for kind in ("cat", "dog"):
        for at in range(5):
            (tmp_path / kind).mkdir(exist_ok=True)
            (tmp_path / kind / f"{at}.png").write_bytes(png(np.zeros((4, 4, 3), np.uint8)))
    assert load(f"{tmp_path}(size=4)").classes == ["cat", "dog"]


def test_from_the_command_line(tmp_path):
    """`ncalr run PATH`: dark and bright squares, from files of the Hub to a report."""
    labels = np.arange(80) % 2
    shades = RNG.integers(0, 60, (80, 8, 8, 3)) + 150 * labels[:, None, None, None]
    _, column = cells(80, shade=shades)
    train = {"image": column[:60], "label": labels[:60].tolist()}
    save_splits(tmp_path / "set", train=train, test={"image": column[60:], "label": labels[60:].tolist()})
    options = ["--against", "", "--strategy", "margin", "--seeds", "1", "--start", "20", "--end", "20"]
    recipe = ["--recipe", "digits(epochs=3, checkpoints=2)", "--device", "cpu", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["run", str(tmp_path / "set"), *options, *recipe])
    assert done.exit_code == 0, done.output
    report = (tmp_path / "out" / "report.html").read_text()
    assert "dog" in report


@pytest.mark.filterwarnings("ignore")
def test_what_datasets_itself_writes(tmp_path):
    """The real thing, where it is installed."""
    datasets = pytest.importorskip(
        "datasets", reason="the package datasets is not installed; the layouts are made by hand"
    )
    images = RNG.integers(0, 256, (9, 5, 5, 3), np.uint8)
    labels = [0, 1, 0, 1, 0, 1, 0, 1, 1]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    columns = {"image": [Image.fromarray(image) for image in images], "label": labels}
    whole = datasets.Dataset.from_dict(columns, features=features)
    parts = datasets.DatasetDict({"train": whole.select(range(6)), "test": whole.select([8, 7])})
    parts.save_to_disk(str(tmp_path / "saved"), num_shards={"train": 2, "test": 1})
    for name, part in parts.items():
        (tmp_path / "files").mkdir(exist_ok=True)
        part.to_parquet(str(tmp_path / "files" / f"{name}-00000-of-00001.parquet"))
    for folder in ("saved", "files"):
        found = load(str(tmp_path / folder))
        np.testing.assert_array_equal(found.pool.read(slice(None)), images[:6])
        np.testing.assert_array_equal(found.test.read(slice(None)), images[[8, 7]])
        assert (found.labels.tolist(), found.test_labels.tolist()) == (labels[:6], [1, 1])
        assert found.classes == ["cat", "dog"]
    texts = {"text": ["a", "b", "c", "d"], "label": [0, 1, 0, 1], "v": [[1.0, 2.0]] * 4}
    whole = datasets.Dataset.from_dict(texts)
    whole.filter(lambda row: row["text"] != "b").save_to_disk(str(tmp_path / "some"))
    found = load(f"{tmp_path / 'some'}(items=text, test_share=0.4)")
    assert sorted([*found.pool.read(slice(None)), *found.test.read(slice(None))]) == ["a", "c", "d"]
    assert load(f"{tmp_path / 'some'}(items=v, test_share=0.4)").pool.shape == (2,)
