"""Tables as pools: three formats, the same pool; errors name file and row."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from ncalr.data import tables
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.tables import TextPool, ids_from, open_table, read_labels, read_table
from ncalr.errors import BadInput, MissingExtra, Note, NotFinite

ROWS = [
    {"key": "a", "text": 'one, "two"', "x": 1.5, "y": 2, "v": [1, 2, 3], "label": "cat"},
    {"key": "b", "text": "línea\nzwei", "x": -1, "y": 1e3, "v": [4, 5, 6], "label": "dog"},
    {"key": "c", "text": "", "x": 0, "y": 0, "v": [7, 8, 9.5], "label": "cat"},
]


def write(path, rows=ROWS):
    """The rows in the format of the suffix."""
    if path.suffix == ".csv":
        cells = [list(rows[0])] + [
            [json.dumps(value) if isinstance(value, list) else str(value) for value in row.values()] for row in rows
        ]
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in line) for line in cells]
        path.write_text("\n".join(quoted) + "\n", encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def table(tmp_path, request):
    return write(tmp_path / f"table.{request.param}")


def test_texts(table):
    pool = read_table(table, text="text", id_column="key")
    assert isinstance(pool, TextPool)
    assert isinstance(pool, Pool)
    assert pool.texts == [row["text"] for row in ROWS]
    assert pool.ids.tolist() == ["a", "b", "c"]
    assert read_table(table, text="text").ids.tolist() == [0, 1, 2]
    assert pool.read(np.array([2, 0])).tolist() == ["", 'one, "two"']


def test_vectors(table):
    pool = read_table(table, vectors=["y", "x"], id_column="key")
    assert isinstance(pool, ArrayPool)
    assert pool.dtype == np.float32
    assert pool.items.tolist() == [[2, 1.5], [1000, -1], [0, 0]]
    assert read_table(table, vectors="v").items.tolist() == [row["v"] for row in ROWS]
    assert read_table(table, vectors=["x"]).shape == (1,)


def test_labels(table):
    labels, classes = read_labels(table, "label")
    assert (labels.tolist(), classes, labels.dtype) == ([0, 1, 0], ["cat", "dog"], np.int64)
    assert read_labels(table, "label", classes=["dog", "bird", "cat"])[0].tolist() == [2, 0, 2]
    assert read_labels(table, "label", id_column="key", ids=["c", "b"])[0].tolist() == [0, 1]
    assert read_labels(table, "label", id_column="key", ids=["b", "z"], missing=-1)[0].tolist() == [1, -1]
    with pytest.raises(BadInput, match="no label for 1 of 2 ids, the first is 'z'"):
        read_labels(table, "label", id_column="key", ids=["b", "z"])
    with pytest.raises(BadInput, match="'dog' is no class; expected one of cat, or its number"):
        read_labels(table, "label", classes=["cat"])
    with pytest.raises(BadInput, match="give both"):
        read_labels(table, "label", id_column="key")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_true_and_false_are_classes(tmp_path, suffix):
    path = write(tmp_path / f"t.{suffix}", [{"label": True}, {"label": False}])
    assert read_labels(path, "label") == (pytest.approx([1, 0]), ["False", "True"])


def test_numbers_that_are_no_labels(tmp_path):
    path = write(tmp_path / "t.jsonl", [{"label": 1.5}])
    with pytest.raises(BadInput, match=r"the label 1\.5 is no class; expected texts, or whole numbers from 0 on"):
        read_labels(path, "label")


@pytest.mark.parametrize("sign", [";", "\t"])
def test_a_csv_as_excel_writes_it(tmp_path, sign):
    path = tmp_path / "t.csv"
    path.write_text(
        "\ufeff" + "\r\n".join(["id;text;label", 'a;"one; two, three";x', "b;four;y", ""]).replace(";", sign)
    )
    pool = read_table(path, text="text", id_column="id")
    assert (pool.texts, pool.ids.tolist()) == ([f"one{sign} two, three", "four"], ["a", "b"])
    assert read_labels(path, "label") == (pytest.approx([0, 1]), ["x", "y"])
    with pytest.raises(BadInput, match=r"no column 'txt'\. Did you mean 'text'"):
        read_table(path, text="txt")
    path.write_text("a;b\nx;y\n")
    assert read_table(path, text="a;b").texts == ["x;y"]  # one column, of this name
    path.write_text('id;"text, long"\n1;x\n')
    with pytest.raises(BadInput, match="If ; or tabs stand between the cells, save the file with commas"):
        read_table(path, text="text, long")


def test_more_rows_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 4)
    rows = [{"n": at, "v": [at, at + 1], "label": at % 3} for at in range(11)]
    for suffix in ("csv", "jsonl"):
        path = write(tmp_path / f"t.{suffix}", rows)
        pool = read_table(path, vectors="v", id_column="n")
        assert pool.ids.tolist() == list(range(11))
        assert pool.items[:, 0].tolist() == list(range(11))
        assert read_labels(path, "label")[0].tolist() == [at % 3 for at in range(11)]
    rows[9]["v"] = [1, 2, 3]
    with pytest.raises(BadInput, match=r"t\.csv, line 11: the vector has 3 numbers, those before it 2"):
        read_table(write(tmp_path / "t.csv", rows), vectors="v")
    with pytest.raises(BadInput, match=r"t\.jsonl, line 10: the vector has 3 numbers, those before it 2"):
        read_table(write(tmp_path / "t.jsonl", rows), vectors="v")


def test_parquet_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 4)
    rows = [{"n": at, "v": [at, at + 0.5]} for at in range(11)]
    path = write(tmp_path / "t.parquet", rows)
    assert read_table(path, vectors="v", id_column="n").items.tolist() == [row["v"] for row in rows]
    rows[9]["v"] = [1.0]
    with pytest.raises(BadInput, match=r"t\.parquet, row 10: the vector has 1 numbers, those before it 2"):
        read_table(write(path, rows), vectors="v")
    rows[9]["v"] = [1.0, None]
    with pytest.raises(NotFinite, match=r"t\.parquet, row 10"):
        read_table(write(path, rows), vectors="v")
    rows[9]["v"] = None
    with pytest.raises(BadInput, match=r"t\.parquet, row 10: expected a list of numbers, got None"):
        read_table(write(path, rows), vectors="v")


def test_parquet_lists_of_fixed_size(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    column = pyarrow.array([[1, 2], [3, 4]], pyarrow.list_(pyarrow.float16(), 2))
    parquet.write_table(pyarrow.table({"v": column}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", vectors="v").items.tolist() == [[1, 2], [3, 4]]


def test_half_a_parquet_file(tmp_path):
    path = write(tmp_path / "t.parquet")
    whole = path.read_bytes()
    for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :], b""):
        path.write_bytes(part)
        with pytest.raises(BadInput, match=r"t\.parquet cannot be read as Parquet .* is the file whole\?"):
            read_table(path, text="text")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[parquet\]'"):
        read_table(tmp_path / "t.parquet", text="text")


def test_missing_columns(table):
    with pytest.raises(BadInput, match=r"no column 'texts'. Did you mean 'text'\?") as caught:
        read_table(table, text="texts")
    assert str(table) in str(caught.value)
    with pytest.raises(BadInput, match="no column 'nothing'"):
        read_labels(table, "nothing")


@pytest.mark.parametrize(
    ("text", "options", "error", "words"),
    [
        ("", {"text": "a"}, BadInput, "is empty; expected a first line"),
        ("a,b\n", {"text": "a"}, BadInput, "has no rows"),
        ("a,b\n1,2\n3\n", {"text": "a"}, BadInput, "line 3: 1 cells, the first line has 2"),
        ('a,b\n"x\ny",2\n3,4,5\n', {"text": "a"}, BadInput, "line 4: 3 cells"),
        ('a,b\n1,"2\n', {"text": "a"}, BadInput, "line 2: cannot be read"),
        ("a,a\n1,2\n", {"text": "a"}, BadInput, "'a' is there more than once"),
        ("a,b\n1,2\n1,x\n", {"vectors": ["a", "b"]}, BadInput, "line 3: expected a number in column 'b', got 'x'"),
        ("a,b\n1,2\n1,\n", {"vectors": ["a", "b"]}, BadInput, "line 3: expected a number in column 'b', got ''"),
        ("a,b\n1,2\n1,nan\n", {"vectors": ["a", "b"]}, NotFinite, "line 3: a number is missing, NaN or infinite"),
        ("a,b\n1,1e39\n", {"vectors": ["a", "b"]}, NotFinite, "line 2"),
        ("a\nx\n", {"vectors": "a"}, BadInput, "line 2: expected a list of numbers, got 'x'"),
        ("a\n[]\n", {"vectors": "a"}, BadInput, "line 2: expected a list of numbers"),
        ("a,b\n1,x\n1,y\n", {"text": "b", "id_column": "a"}, BadInput, "line 3: the id 1 is already in line 2"),
        ("a,b\n1,x\n,y\n", {"text": "b", "id_column": "a"}, BadInput, "line 3: the column 'a' is empty in this row"),
        ("a,b\n1,x\n", {}, BadInput, "one of the two"),
        ("a,b\n1,x\n", {"text": "a", "vectors": "b"}, BadInput, "one of the two"),
        ("a,b\n1,x\n", {"vectors": []}, BadInput, "names no column"),
    ],
)
def test_csv_files_that_are_no_pool(tmp_path, text, options, error, words):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(error, match=words):
        read_table(path, **options)


@pytest.mark.parametrize(
    ("text", "options", "error", "words"),
    [
        ('{"a": "x"}\n{"a": "y', {"text": "a"}, BadInput, "line 2, cannot be read as JSON"),
        ('{"a": "x"}\n\n[1]\n', {"text": "a"}, BadInput, r"line 3: expected an object"),
        ('{"a": "x"}\n{"b": "y"}\n', {"text": "a"}, BadInput, "line 2: no column 'a'"),
        ('{"a": "x"}\n{"a": 5}\n', {"text": "a"}, BadInput, "line 2: 'a' is 5, expected a text"),
        ('{"a": [1, 2]}\n{"a": [1, "x"]}\n', {"vectors": "a"}, BadInput, "line 2: expected a number, got 'x'"),
        ('{"a": [1, 2]}\n{"a": [1, null]}\n', {"vectors": "a"}, NotFinite, "line 2"),
        ('{"a": [1]}\n{"a": [1' + "0" * 400 + "]}\n", {"vectors": "a"}, BadInput, "line 2: expected a number, got 10"),
        ('{"a": "x", "i": 1}\n{"a": "y", "i": "1"}\n', {"text": "a", "id_column": "i"}, BadInput, "two kinds"),
        ('{"a": "x", "i": 9223372036854775808}\n', {"text": "a", "id_column": "i"}, BadInput, "does not fit 64 bits"),
        ('{"a": "x", "i": 1.5}\n', {"text": "a", "id_column": "i"}, BadInput, "the column 'i' holds 1.5; expected"),
        ('{"a": "x", "i": true}\n', {"text": "a", "id_column": "i"}, BadInput, "the column 'i' holds True; expected"),
        ('{"a": "x", "i": null}\n', {"text": "a", "id_column": "i"}, BadInput, "line 1: the column 'i' is empty"),
        ("", {"text": "a"}, BadInput, "has no rows"),
    ],
)
def test_jsonl_files_that_are_no_pool(tmp_path, text, options, error, words):
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(error, match=words):
        read_table(path, **options)


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (["1", "-2"], [1, -2]),
        (["1", "007"], ["1", "007"]),
        (["1", "b"], ["1", "b"]),
        (["٣"], ["٣"]),
        (["1_0", "2"], ["1_0", "2"]),
    ],
)
def test_numbers_in_a_csv(tmp_path, written, ids):
    path = tmp_path / "t.csv"
    path.write_text("\ufeffi,t\n" + "".join(f"{value},x\n" for value in written), encoding="utf-8")
    assert read_table(path, text="t", id_column="i").ids.tolist() == ids


def test_numbered_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("i,l\n0,2\n1,\n\n2,0\n")
    with pytest.raises(
        BadInput, match=r"line 3: no label in 'l' \(1 of \d rows have none\); fill them, or pass missing=-1"
    ):
        read_labels(path, "l")
    labels, classes = read_labels(path, "l", missing=-1)
    assert (labels.tolist(), classes) == ([2, -1, 0], ["0", "1", "2"])
    path.write_text("l\n-1\n")
    with pytest.raises(BadInput, match="line 2: the label -1 is no class"):
        read_labels(path, "l")
    path.write_text("l\n")
    with pytest.raises(BadInput, match="no rows"):
        read_labels(path, "l")


def test_labels_counted_from_1_are_noticed_unless_the_classes_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("stars\n1\n5\n\n2\n")
    with pytest.warns(Note, match=r"t\.csv, column 'stars': the labels lie in 1\.\.5, .* subtract 1, .* name"):
        labels, classes = read_labels(path, "stars", missing=-1)
    assert (labels.tolist(), len(classes)) == ([1, 5, 2], 6)
    assert read_labels(path, "stars", classes=list("12345"))[0].tolist() == [0, 4, 1]
    path.write_text("stars\none\nfive\n")
    assert read_labels(path, "stars")[0].tolist() == [1, 0]


def test_tabs_without_quotes(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('sentence\tlabel\nhe said " no\t1\n')
    assert read_table(path, text="sentence").texts == ['he said " no']


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(BadInput, match=r"ends in \.csv, \.tsv, \.jsonl.*; save the sheet as CSV"):
        read_table(tmp_path / "t.xlsx", text="a")
    with pytest.raises(BadInput, match=r"\.parquet$"):
        read_table(tmp_path / "t.pdf", text="a")
    with pytest.raises(BadInput, match="there is no file"):
        read_table(tmp_path / "t.csv", text="a")
    (tmp_path / "t.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(BadInput, match=r"t\.csv, line 2, is not UTF-8 \(byte 0xff\); save the file as UTF-8"):
        read_table(tmp_path / "t.csv", text="a")
    (tmp_path / "t.csv").write_text('a\n"b\nc\n')
    with pytest.raises(BadInput, match=r"line 3: cannot be read \(a quote \" is not closed\)"):
        read_table(tmp_path / "t.csv", text="a")
    (tmp_path / "f.csv").mkdir()
    with pytest.raises(BadInput, match=r"f\.csv is a folder, expected a table"):
        read_table(tmp_path / "f.csv", text="a")


def test_the_first_line_as_people_write_it(tmp_path):
    """Blanks around names go; another case and a line that holds no names are told."""
    path = tmp_path / "t.csv"
    path.write_text("id, text ,label\na,good,1\nb,bad,0\n")
    assert read_table(path, text="text", id_column="id").texts == ["good", "bad"]
    path.write_text("ID,Label\na,1\n")
    with pytest.raises(BadInput, match=r"no column 'label'\. Did you mean 'Label'\?"):
        read_labels(path, "label")
    path.write_text("0.5,x\n1,8\n")
    with pytest.raises(
        BadInput, match=r"Known: 0\.5, x\. If the first line has no names of columns, write them above it"
    ):
        read_labels(path, "label")


@pytest.mark.parametrize(("texts", "words"), [([], "at least one text"), (["a", 5], "item 1 is int")])
def test_texts_that_are_no_pool(texts, words):
    with pytest.raises(BadInput, match=words):
        TextPool(texts)
    with pytest.raises(BadInput, match="repeat"):
        TextPool(["a", "b"], ids=[1, 1])


def test_blanks_around_ids_are_no_part_of_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text, id\nx, 7\ny,8 \n")
    assert read_table(path, text="text", id_column="id").ids.tolist() == [7, 8]
    path.write_text("text, id\nx, a\ny,a\n")
    with pytest.raises(BadInput, match=r"line 3: the id 'a' is already in line 2"):
        read_table(path, text="text", id_column="id")
    path.write_text("text, id\nx, a\ny, \n")
    with pytest.raises(BadInput, match=r"line 3: the column 'id' is empty in this row; fill it, or take the row out"):
        read_table(path, text="text", id_column="id")


def test_numbers_beyond_64_bits_are_names_as_they_are_among_ids(tmp_path):
    """A number and a sign fit 64 bits; NumPy makes floats of [-1, 2**63], and 2**63 + 1 would be another's id."""
    for names, kind in ((["-1", str(2**63 - 1)], "i"), (["-1", str(2**63)], "U"), (["1", str(2**63 + 1)], "U")):
        (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"{name},x\n" for name in names))
        pool = read_table(tmp_path / "a.csv", text="text", id_column="id")
        assert pool.ids.dtype.kind == kind
        assert [str(name) for name in pool.ids.tolist()] == names


@pytest.mark.parametrize(
    "end",
    ["", ",\n", ",,\n", " , \n,", ",\n\n" + 5000 * ",,,\n"],
    ids=["none", "one", "wider", "blanks", "more than a block"],
)
def test_blank_rows_at_the_end_are_no_rows(tmp_path, end):
    """Spreadsheets save rows that were once filled, or coloured, and the columns beside them."""
    path = tmp_path / "t.csv"
    path.write_text("id,label\n1,a\n2,\n" + end)
    assert read_labels(path, "label", missing=-1)[0].tolist() == [0, -1]
    assert ids_from(open_table(path), "id").tolist() == [1, 2]
    path.with_suffix(".tsv").write_text(path.read_text().replace(",", "\t"))
    assert ids_from(open_table(path.with_suffix(".tsv")), "id").tolist() == [1, 2]


def test_blank_rows_between_others_are_rows(tmp_path):
    """Items without ids go by their place, which is the one that pandas gives them; and lines are counted as ever."""
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,x\n,\n\nb,y\n,\n")
    assert read_table(path, text="text").texts == ["a", "", "b"]
    assert read_labels(path, "label", missing=-1)[0].tolist() == [0, -1, 1]
    with pytest.raises(BadInput, match="line 3: no label"):
        read_labels(path, "label")
    path.write_text("id,text\n1,x\n,\n2,y\n")
    with pytest.raises(BadInput, match="line 3: the column 'id' is empty"):
        read_table(path, text="text", id_column="id")
    path.write_text("id,text\n1,x\n,,\n2,y\n")
    with pytest.raises(BadInput, match="line 3: 3 cells, the first line has 2"):
        read_table(path, text="text", id_column="id")


def test_texts_alone_in_their_table_may_be_empty_at_its_end_too(tmp_path):
    """As pandas writes them; a line with nothing in it is none."""
    path = tmp_path / "t.csv"
    path.write_text('text\na\n\n""\nb\n""\n \n\n')
    assert read_table(path, text="text").texts == ["a", "", "b", "", " "]
