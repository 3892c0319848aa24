"""Vectors and labels from the files people have."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ncalr.data.embeddings import read_embeddings, vector_pool
from ncalr.errors import BadInput, NotFinite
from ncalr.evaluate.audit import audit

VECTORS = np.arange(15, dtype=np.float32).reshape(5, 3) / 4


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "items.npy", VECTORS)
    return tmp_path


def table(path, head, rows, by=","):
    path.write_text("\n".join(by.join(map(str, row)) for row in [head, *rows]) + "\n", encoding="utf-8")
    return path


def test_an_array_and_a_table_of_labels(folder):
    """Labels in any order, names in alphabetical order, an empty one is none."""
    found = read_embeddings(
        folder / "items.npy", table(folder / "l.csv", ["id", "label"], [(3, "b"), (0, "a"), (4, "")])
    )
    assert found.pool.read(slice(None)).tolist() == VECTORS.tolist()
    assert found.labels.tolist() == [0, -1, -1, 1, -1]
    assert (found.classes, found.notes) == (["a", "b"], ())


def test_ids_of_an_array(folder):
    names = np.array(["p", "q", "r", "s", "t"])
    labels = table(folder / "l.csv", ["note", "label", "id"], [("x", "b", "q"), ("x", "a", "s")])
    assert read_embeddings(folder / "items.npy", labels, names).labels.tolist() == [-1, 1, -1, 0, -1]


def test_the_labels_that_a_labelling_project_exports(folder):
    """Its column of ids is called name; where there are both, id is meant."""
    names = np.array(["p", "q", "r", "s", "t"])
    labels = table(folder / "l.csv", ["name", "label", "votes"], [("q", "b", 1), ("s", "a", 2)])
    assert read_embeddings(folder / "items.npy", labels, names).labels.tolist() == [-1, 1, -1, 0, -1]
    both = table(folder / "b.csv", ["name", "id", "label"], [("q", "p", "b"), ("s", "t", "a")])
    assert read_embeddings(folder / "items.npy", both, names).labels.tolist() == [1, -1, -1, -1, 0]
    strangers = table(folder / "n.csv", ["name", "label"], [("x", "b")])
    with pytest.raises(BadInput, match="whether its column 'name' holds their ids"):
        read_embeddings(folder / "items.npy", strangers, names)


def test_ids_that_look_like_numbers_and_are_texts(folder):
    names = np.array(["1", "2", "3", "4", "x"])
    labels = table(folder / "l.csv", ["id", "label"], [(2, "b"), (4, "a")])
    assert read_embeddings(folder / "items.npy", labels, names).labels.tolist() == [-1, 1, -1, 0, -1]


def test_ids_of_more_than_64_bits_are_texts(folder):
    rows = [(10**24 + at, *row, "ab"[at % 2]) for at, row in enumerate(VECTORS)]
    found = read_embeddings(table(folder / "t.csv", ["id", "x", "y", "z", "label"], rows))
    assert found.pool.ids[0] == "1" + 24 * "0"


@pytest.mark.parametrize("by", [",", "\t", ";"])
def test_a_table_with_a_column_a_dimension(folder, by):
    rows = [(f"i{at}", "some text", *row, "cat" if at == 2 else "") for at, row in enumerate(VECTORS)]
    path = folder / ("t.tsv" if by == "\t" else "t.csv")
    found = read_embeddings(table(path, ["id", "text", "f0", "f1", "f2", "label"], rows, by))
    assert found.pool.read(slice(None)).tolist() == VECTORS.tolist()
    assert found.pool.ids.tolist() == ["i0", "i1", "i2", "i3", "i4"]
    assert found.labels.tolist() == [-1, -1, 0, -1, -1]
    assert found.classes == ["cat"]
    assert found.notes == ("columns that are no part of the vectors: text", "the vectors are 3 columns, f0 to f2")


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_row_numbers_of_pandas_are_no_dimension(folder, name):
    rows = [(at, *row) for at, row in enumerate(VECTORS)]
    found = read_embeddings(table(folder / "t.csv", [name, "x", "y", "z"], rows))
    assert found.pool.read(slice(None)).tolist() == VECTORS.tolist()
    assert found.notes[0] == f"columns that are no part of the vectors: {name or '(no name)'}"


def test_class_numbers_that_pandas_wrote_as_floats(folder):
    labels = table(folder / "l.csv", ["id", "label"], [(0, "10.0"), (1, "2.0"), (2, ""), (3, "0.0")])
    assert read_embeddings(folder / "items.npy", labels).labels.tolist() == [10, 2, -1, 0, -1]


def test_ids_that_pandas_wrote_as_floats(folder):
    """As it does of a column that had an empty cell once; where ids are texts they stay as they are."""
    labels = table(folder / "l.csv", ["id", "label"], [("2.0", "a"), ("0.0", "b")])
    assert read_embeddings(folder / "items.npy", labels).labels.tolist()[:3] == [1, -1, 0]
    names = np.array(["2.0", "2", "0.0", "0", "1"])
    assert read_embeddings(folder / "items.npy", labels, names).labels.tolist() == [0, -1, 1, -1, -1]
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    typed = folder / "l.parquet"
    parquet.write_table(pyarrow.table({"id": [2.0, 0.0], "label": ["a", "b"]}), typed)
    assert read_embeddings(folder / "items.npy", typed).labels.tolist()[:3] == [1, -1, 0]


def test_one_name_among_numbers(folder):
    labels = table(folder / "l.csv", ["id", "label"], [(3, "b"), ("extra_7", "a"), (0, "a")])
    found = read_embeddings(folder / "items.npy", labels)
    assert found.labels.tolist() == [0, -1, -1, 1, -1]
    assert found.notes == ("1 of 3 labels are of no item, ignored: 'extra_7'",)


def test_labels_of_later_rounds_come_on_top(folder):
    """Picks with a column of labels are labels; of an item that has two, the later file counts, and that is said."""
    first = table(folder / "l.csv", ["id", "label"], [(3, "b"), (0, "b")])
    picks = table(
        folder / "picks.csv", ["rank", "id", "score", "label"], [(1, 4, 0.5, "a"), (2, 3, 0.4, "c"), (3, 1, 0, "")]
    )
    found = read_embeddings(folder / "items.npy", [first, picks])
    assert (found.labels.tolist(), found.classes) == ([1, -1, -1, 2, 0], ["a", "b", "c"])
    assert found.notes == (f"{picks} labels 1 items again, 1 of them as another class: the later file counts",)
    again = read_embeddings(folder / "items.npy", [picks, first])
    assert (again.labels.tolist(), again.classes) == ([1, -1, -1, 1, 0], ["a", "b", "c"])


def test_numbers_of_several_files_stay_and_names_are_not_mixed_with_them(folder):
    np.save(folder / "l.npy", np.array([2, -1, -1, 0, -1]))
    more = table(folder / "l.csv", ["id", "label"], [(1, 10), (0, 1), (2, 0)])
    found = read_embeddings(folder / "items.npy", [folder / "l.npy", more])
    assert (found.labels.tolist(), len(found.classes)) == ([1, 10, 0, 0, -1], 11)
    names = table(folder / "n.csv", ["id", "label"], [(1, "cat")])
    with pytest.raises(BadInput, match=r"n.csv has the classes 'cat', the labels before it '0', '1', .*give names in"):
        read_embeddings(folder / "items.npy", [folder / "l.npy", names])


def test_a_file_with_no_labels_yet(folder):
    empty = table(folder / "l.csv", ["id", "label"], [])
    found = read_embeddings(folder / "items.npy", empty)
    assert (found.labels.tolist(), found.classes) == ([-1] * 5, [])
    assert found.notes == (f"{empty} has no labels yet",)
    more = table(folder / "m.csv", ["id", "label"], [(2, "a")])
    for files in ([empty, more], [more, empty]):
        assert read_embeddings(folder / "items.npy", files).labels.tolist() == [-1, -1, 0, -1, -1]


def test_classes_that_may_be_one(tmp_path):
    """Blanks around a name are no part of it; what is written in two ways is told."""
    np.save(tmp_path / "items.npy", np.zeros((20, 2), np.float32))
    rows = [(at, ["cat", "dog "][at % 2]) for at in range(16)]
    found = read_embeddings(tmp_path / "items.npy", table(tmp_path / "l.csv", ["id", "label"], [*rows, (16, " dog")]))
    assert (found.classes, found.notes) == (["cat", "dog"], ())
    odd = table(tmp_path / "l.csv", ["id", "label"], [*rows, (16, "Cat"), (17, "dgo"), (18, " ")])
    found = read_embeddings(tmp_path / "items.npy", odd)
    assert found.labels[18] == -1
    assert found.notes == (
        "classes with a single label: 'Cat', 'dgo'; look whether they are spelt as meant",
        "classes that differ in capital letters alone: 'Cat', 'cat'; write each in one way",
    )


def test_array_labels_that_count_from_one_are_noticed(folder):
    np.save(folder / "l.npy", np.array([1, 2, -1, 3, 1]))
    (note,) = read_embeddings(folder / "items.npy", folder / "l.npy").notes
    assert note.startswith("the labels lie in 1..3, and classes count from 0")


def test_a_table_with_one_column_of_lists_and_numbers_beside(folder):
    """Where there are lists, a number beside them is no dimension."""
    lines = [{"id": at, "vector": row.tolist(), "age": 7} for at, row in enumerate(VECTORS)]
    path = folder / "t.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_embeddings(path)
    assert found.pool.read(slice(None)).tolist() == VECTORS.tolist()
    assert found.notes == ("columns that are no part of the vectors: age",)
    assert (found.labels.tolist(), found.classes) == ([-1] * 5, [])


def test_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    columns = {"id": list("pqrst"), "v": VECTORS.tolist(), "label": ["b", None, "a", None, None]}
    parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    found = read_embeddings(folder / "t.parquet")
    assert found.pool.read(slice(None)).tolist() == VECTORS.tolist()
    assert (found.pool.ids.tolist(), found.labels.tolist(), found.classes) == (
        list("pqrst"),
        [1, -1, 0, -1, -1],
        ["a", "b"],
    )


def test_labels_beside_a_table_that_has_some_come_on_top(folder):
    """Those of the table are the first round: a later file does not take them away."""
    rows = [(at, *row, "old" if at < 3 else "") for at, row in enumerate(VECTORS)]
    path = table(folder / "t.csv", ["id", "x", "y", "z", "label"], rows)
    later = table(folder / "l.csv", ["id", "label"], [(1, "new"), (3, "old")])
    found = read_embeddings(path, later)
    assert (found.labels.tolist(), found.classes) == ([1, 0, 1, 1, -1], ["new", "old"])
    assert f"{later} labels 1 items again, 1 of them as another class: the later file counts" in found.notes


def test_labels_of_an_array_file(folder):
    np.save(folder / "l.npy", np.array([2, -1, 0, -1, -1]))
    found = read_embeddings(folder / "items.npy", folder / "l.npy")
    assert (found.labels.tolist(), found.classes) == ([2, -1, 0, -1, -1], ["0", "1", "2"])


def test_labels_of_other_items_are_ignored_and_said(folder):
    labels = table(folder / "l.csv", ["id", "label"], [(1, "a"), (77, "a"), (2, "b"), (99, "b")])
    found = read_embeddings(folder / "items.npy", labels)
    assert found.labels.tolist() == [-1, 0, 1, -1, -1]
    assert found.notes == ("2 of 4 labels are of no item, ignored: 77, 99",)


@pytest.mark.parametrize("ids", [(77, 99), ("a", "b")])
def test_labels_of_nobody_are_refused(folder, ids):
    labels = table(folder / "l.csv", ["id", "label"], [(one, "x") for one in ids])
    with pytest.raises(
        BadInput, match=r"none of the 2 ids in .*l\.csv is an item's: they are .*, the items' are 0, 1, 2, "
    ):
        read_embeddings(folder / "items.npy", labels)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(5, np.int64)[:4], r"int64 of shape \(4,\); expected a class number for each of the 5 items"),
        (np.zeros(5), "float64"),
        (np.full(5, -2), "counted from 0, -1 where there is no label yet"),
    ],
)
def test_arrays_that_are_no_labels(folder, array, words):
    np.save(folder / "l.npy", array)
    with pytest.raises(BadInput, match=words):
        read_embeddings(folder / "items.npy", folder / "l.npy")


def test_what_is_no_table_of_vectors(folder):
    np.save(folder / "whole.npy", np.zeros((5, 3), np.int64))
    with pytest.raises(BadInput, match=r"int64 of shape \(5, 3\); expected vectors"):
        read_embeddings(folder / "whole.npy")
    with pytest.raises(BadInput, match="there is no file"):
        read_embeddings(folder / "missing.npy")
    (folder / "broken.npy").write_bytes(b"no array")
    with pytest.raises(BadInput, match=r"cannot be read as \.npy"):
        read_embeddings(folder / "broken.npy")
    with pytest.raises(BadInput, match="no column holds numbers; it has id, text"):
        read_embeddings(table(folder / "t.csv", ["id", "text"], [(1, "a")]))
    for numbers in (("0,5", "1,25"), ("2", "1,25")):
        with pytest.raises(BadInput, match=r"t\.csv: (0,5 in column 'x'|1,25 in column 'y') has a comma where numbers"):
            read_embeddings(table(folder / "t.csv", ["id", "x", "y"], [(1, *numbers)], by=";"))
    with pytest.raises(BadInput, match="has no rows"):
        read_embeddings(table(folder / "t.csv", ["id", "x"], []))
    (folder / "t.jsonl").write_text('{"a": [1], "b": [2]}\n')
    with pytest.raises(BadInput, match=r"several columns hold vectors \(a, b\)"):
        read_embeddings(folder / "t.jsonl")
    (folder / "t.jsonl").write_text("[1, 2\n")
    with pytest.raises(BadInput, match=r"line 1, cannot be read as JSON"):
        read_embeddings(folder / "t.jsonl")
    with pytest.raises(BadInput, match="name its rows in a column 'id'"):
        read_embeddings(table(folder / "t.csv", ["x"], [(1,)]), ids=np.arange(1))


@pytest.mark.parametrize(("word", "told"), [("NaN", True), ("n/a", True), ("-1", True), ("nap", False)])
def test_a_class_that_looks_like_no_label_is_told(folder, word, told):
    labels = table(folder / "l.csv", ["id", "label"], [(0, "cat"), (1, "dog"), (2, word), (3, "")])
    notes = read_embeddings(folder / "items.npy", labels).notes
    assert any(f"{word!r} counts as a class; where it stands for no label" in note for note in notes) == told


def test_a_negative_number_is_no_class(folder):
    labels = table(folder / "l.csv", ["id", "label"], [(0, 0), (1, 1), (2, -1)])
    with pytest.raises(BadInput, match=r"-1 is no class; .* where there is none, leave the cell empty"):
        read_embeddings(folder / "items.npy", labels)


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
def test_labels_of_an_unsigned_kind_are_read(folder, kind):
    labels = np.array([0, 2, 1, 1, 0], kind)
    np.save(folder / "l.npy", labels)
    found = read_embeddings(folder / "items.npy", folder / "l.npy")
    assert found.labels.dtype == np.int64
    assert found.labels.tolist() == labels.tolist()
    assert found.classes == ["0", "1", "2"]


def test_numbers_that_are_codes_are_no_class_numbers(folder):
    """A list of all classes up to a product's code is larger than the memory."""
    told = "the label 9999999999 is too large for a class number, 65535 at most; .* as names .'n9999999999'"
    labels = table(folder / "l.csv", ["id", "label"], [(0, 3), (1, 9_999_999_999)])
    with pytest.raises(BadInput, match=rf"l\.csv, column 'label': {told}"):
        read_embeddings(folder / "items.npy", labels)
    codes = np.array([0, 9_999_999_999, -1, -1, -1])
    np.save(folder / "l.npy", codes)
    with pytest.raises(BadInput, match=rf"l\.npy: {told}"):
        read_embeddings(folder / "items.npy", folder / "l.npy")
    with pytest.raises(BadInput, match=r"labels must be class numbers in 0\.\.65535.*, got -1\.\.9999999999"):
        audit(VECTORS, codes)
    labels = table(folder / "l.csv", ["id", "label"], [(0, 3), (1, 65_535)])
    assert len(read_embeddings(folder / "items.npy", labels).classes) == 65_536


def test_a_column_of_numbers_may_not_begin_with_an_empty_cell(folder):
    """It was left out of the vectors, where one that is empty further down is an error; of words it is all the same."""
    rows = [(1, "", 2, ""), (2, 0.5, 3, "fine")]
    with pytest.raises(BadInput, match="line 2: expected a number in column 'x', got ''"):
        read_embeddings(table(folder / "t.csv", ["id", "x", "y", "z"], rows))
    (folder / "t.jsonl").write_text('{"x": null, "y": 2, "z": null}\n{"x": 0.5, "y": 3, "z": "fine"}\n')
    with pytest.raises(NotFinite, match="line 1: a number is missing"):
        read_embeddings(folder / "t.jsonl")
    found = read_embeddings(table(folder / "t.csv", ["id", "x", "y", "z"], [(1, 1, 2, ""), rows[1]]))
    assert found.pool.items.tolist() == [[1, 2], [0.5, 3]]
    assert "columns that are no part of the vectors: z" in found.notes


def test_a_label_that_only_later_records_have_is_not_overlooked(folder):
    (folder / "t.jsonl").write_text('\n{"x": 1}\n{"x": 2, "label": "a"}\n')
    with pytest.raises(BadInput, match=r"t\.jsonl, line 2: no column 'label'"):
        read_embeddings(folder / "t.jsonl")


@pytest.mark.parametrize(("names", "told"), [(["0.25", "-1e-3"], True), (["0", "1"], False), (["a", "b"], False)])
def test_a_first_line_that_may_be_an_item_is_told(folder, names, told):
    notes = read_embeddings(table(folder / "t.csv", names, [(1, 2)])).notes
    assert any("if these are numbers of the first item, write names above them" in note for note in notes) == told


@pytest.mark.parametrize("kind", [">f4", np.longdouble])
def test_numbers_that_torch_does_not_know_are_no_vectors(folder, kind):
    np.save(folder / "strange.npy", VECTORS.astype(kind))
    with pytest.raises(
        BadInput, match=r"strange\.npy holds .* of 16, 32 or 64 bits; np\.asarray\(vectors, np\.float32\)"
    ):
        read_embeddings(folder / "strange.npy")


def test_vectors_of_torch(folder):
    torch = pytest.importorskip("torch")
    for given in (torch.tensor(VECTORS).bfloat16(), torch.tensor(VECTORS, requires_grad=True)):
        assert vector_pool(given).items == pytest.approx(VECTORS, rel=0.01)


def test_files_that_hold_no_vectors(folder):
    np.save(folder / "whole.npy", VECTORS.astype(int))
    with pytest.raises(
        BadInput, match=r"int64 of shape \(5, 3\); .* np\.asarray\(vectors, np\.float32\) makes them so"
    ):
        read_embeddings(folder / "whole.npy")
    with pytest.raises(BadInput, match=r"items\.npz cannot be read; expected a file that ends in \.npy, \.csv"):
        read_embeddings(folder / "items.npz")
