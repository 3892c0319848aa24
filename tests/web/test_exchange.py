"""Exports and imports, figures and agreement, the commands."""

from __future__ import annotations

import csv
import doctest
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from office import Office, StoppedClock
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.errors import BadInput, NcalrError, UnknownName
from ncalr.web import audit, exchange, figures, shares, sources
from ncalr.web.exchange import Opinion, Record
from ncalr.web.folder import Folder
from ncalr.web.store import people, projects, schema

FORMS = sorted(exchange.WRITERS)
NASTY = [
    "=cmd()",
    "+1",
    "-1",
    "@x",
    "\tx",
    "\rx",
    "'quoted",
    "\uff1d1",
    "a,b",
    'say "hi"',
    "line\nbreak",
    "<script>",
    "日本",
    "",
]


def busy(desk, votes=2):
    desk.project(items=12, classes=("cat", "=dog", "bird"), votes=votes)
    desk.rank(range(1, 13), score=0.25, predicted=1)
    desk.person("rae", "reviewer")
    for at in range(8):
        desk.label("ann", at % 3)
        desk.label("ben", at % 2, kind="none" if at == 5 else "label")
    desk.label("ann", kind="unsure")
    [lease] = desk.next("rae", purpose="adjudicate")
    desk.say("rae", lease.item, 2, lease=lease.token)
    return desk


def all_records(desk):
    return desk.store.read(lambda conn: list(exchange.records(conn)))


@pytest.mark.parametrize("form", FORMS)
def test_what_goes_out_comes_in_again_the_same(office, tmp_path, form):
    busy(office)
    before = all_records(office)
    assert {record.status for record in before} >= {"labelled", "disputed", "open"}
    path = tmp_path / f"labels.{exchange.ENDINGS[form]}"
    with path.open("wb") as file:
        exchange.write(before, form, file)
    assert exchange.read(path) == before
    other = Office(str(tmp_path / "other.db"), StoppedClock())
    other.project(items=12, classes=("cat", "=dog", "bird"), votes=2)
    assert exchange.take_in(other.store, exchange.read(path)) == sum(len(record.votes) for record in before)
    assert all_records(other) == before
    assert exchange.take_in(other.store, exchange.read(path)) == 0  # the same file twice
    other.store.close()


@pytest.mark.parametrize("form", FORMS)
@given(name=st.text(max_size=8), label=st.sampled_from(NASTY), note=st.one_of(st.none(), st.text(max_size=8)))
@settings(max_examples=25, deadline=None)
def test_any_text_survives_any_form(tmp_path_factory, form, name, label, note):
    if any(0xD800 <= ord(letter) < 0xE000 for letter in name + (note or "")):
        return
    record = Record(
        name, "labelled", label, 0.5, "control", 3, -1.5, 1e-9, 2, (Opinion("a", "label", label, 1.5),), note
    )
    path = tmp_path_factory.mktemp("x") / f"x.{exchange.ENDINGS[form]}"
    with path.open("wb") as file:
        exchange.write([record], form, file)
    assert exchange.read(path) == [record]


def test_no_cell_of_the_csv_is_run_by_a_spreadsheet(tmp_path):
    out = io.BytesIO()
    exchange.write([Record(text, "open", text, text=text) for text in NASTY], "csv", out)
    for row in list(csv.reader(io.StringIO(out.getvalue().decode(), newline="")))[1:]:
        for cell in (row[0], row[2], row[-1]):
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20"))


def test_the_image_folder(tmp_path):
    from PIL import Image

    root = tmp_path / "photos"
    (root / "deep").mkdir(parents=True)
    for name in ("a.png", "deep/b.png"):
        Image.new("L", (8, 8)).save(root / name)
    desk = Office(str(tmp_path / "s.db"), StoppedClock())
    projects.create(
        desk.store, "p", "image", ["../cat", "dog"], [projects.NewItem("a.png"), projects.NewItem("deep/b.png")]
    )
    desk.label("ann", 0)
    desk.label("ann", 0)
    assert exchange.write_folder(desk.store, root, tmp_path / "out").classes == {"../cat": 2}
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.png"))
    assert found == ["__cat/a.png", "__cat/deep__b.png"]
    assert (tmp_path / "out" / "labels.jsonl").exists()
    with pytest.raises(BadInput, match="not empty"):
        exchange.write_folder(desk.store, root, tmp_path / "out")
    desk.store.close()


CLASSES = ["C#", "C+", "C?", "C*", "positive 😀", "positive 😡", "labels.jsonl", "nul"]
FILES = ["a!.png", "a?.png", "a*.png", "x/y.png", "x__y.png", "A!.PNG", f"{'l' * 220}1.png", f"{'l' * 220}2.png"]


def test_no_picture_of_the_image_folder_lies_over_another(tmp_path):
    root = tmp_path / "photos"
    (root / "x").mkdir(parents=True)
    for at, name in enumerate(FILES):
        (root / name).write_bytes(bytes([at]))
    desk = Office(str(tmp_path / "s.db"), StoppedClock())
    projects.create(desk.store, "p", "image", CLASSES, [projects.NewItem(name) for name in FILES])
    said = {}
    for at in range(len(FILES)):
        lease, _ = desk.label("ann", at)
        said[FILES[desk.names([lease])[0] - 1]] = CLASSES[at]
    (root / "x" / "y.png").unlink()
    copied = exchange.write_folder(desk.store, root, tmp_path / "out")
    assert (copied.count, list(copied.missing)) == (len(FILES) - 1, ["x/y.png"])
    written = [path for path in (tmp_path / "out").rglob("*") if path.suffix.lower() == ".png"]
    assert sorted(path.read_bytes()[0] for path in written) == [0, 1, 2, 4, 5, 6, 7]
    folders = exchange.file_names(CLASSES, taken=["labels.jsonl"])
    assert len({name.casefold() for name in folders.values()}) == len(CLASSES)
    assert (folders["C#"], folders["positive 😀"]) == ("C#", "positive 😀")
    for path in written:
        name = FILES[path.read_bytes()[0]]
        assert path.parent.name == folders[said[name]]
    assert len(exchange.read(tmp_path / "out" / "labels.jsonl")) == len(FILES)
    desk.store.close()


@given(st.lists(st.text(max_size=5), unique=True))
@settings(max_examples=100, deadline=None)
def test_names_of_files_are_as_many_as_the_names(names):
    names = [name for name in names if name.isprintable()]
    made = exchange.file_names(names)
    assert len({name.casefold() for name in made.values()}) == len(names)
    for name in made.values():
        assert not set(name) & set('/\\:*?"<>|')
        assert not name.startswith(".")
    assert exchange.file_names(names) == made


def test_a_plain_table_of_names_and_labels(small, tmp_path):
    small.project(items=4)
    (tmp_path / "plain.csv").write_text("name,label\nitem0000000,cat\nitem0000001,dog\nitem0000002,\n")
    assert exchange.take_in(small.store, exchange.read(tmp_path / "plain.csv")) == 2
    (tmp_path / "files.csv").write_text("filename,label\nitem0000000,cat\n")
    assert exchange.take_in(small.store, exchange.read(tmp_path / "files.csv")) == 0  # the same, by another column
    (tmp_path / "who.tsv").write_text("by\tname\tlabel\nzoe\titem0000003\tbird\n")
    assert exchange.take_in(small.store, exchange.read(tmp_path / "who.tsv")) == 1
    said = [(record.label, record.votes[0].by) for record in all_records(small)]
    assert said == [("cat", "import"), ("dog", "import"), ("bird", "zoe")]


def test_tables_of_excel_are_taken_in(small, tmp_path):
    small.project(items=4)
    (tmp_path / "plain.csv").write_text("\ufeffname; label\r\nitem0000000;cat\r\nitem0000001;dog\r\n")
    assert exchange.take_in(small.store, exchange.read(tmp_path / "plain.csv")) == 2
    assert [record.label for record in all_records(small)] == ["cat", "dog"]
    (tmp_path / "odd.csv").write_text('name;"label, mine"\r\nitem0000000;cat\r\n')
    with pytest.raises(BadInput, match=r"line 2 has not as many cells .*If ; or tabs stand between the cells"):
        exchange.read(tmp_path / "odd.csv")
    (tmp_path / "odd.csv").write_text('name;"label,\tmine"\r\nitem0000000;c,at\r\n')
    with pytest.raises(BadInput, match=r"name and label.*If ; or tabs stand between the cells"):
        exchange.read(tmp_path / "odd.csv")


@pytest.fixture
def texts(small):
    items = [projects.NewItem(name, text) for name, text in (("0", "good"), ("1", "bad"), ("2", "same"), ("3", "same"))]
    projects.create(small.store, "p", "text", ["a", "b"], items)
    return small


def labels_there(desk):
    return {record.name: record.label for record in all_records(desk)}


def write_lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_doccano_exports_is_taken_in(texts, tmp_path):
    """Its ids are its own: where one of them is the name of another text, the text decides."""
    rows = [{"id": 1, "text": "good", "label": ["b"]}, {"id": 7, "text": "bad", "label": ["a"]}]
    nothing = {"id": 2, "text": "same", "label": []}
    path = write_lines(tmp_path / "d.jsonl", *rows, nothing)
    assert exchange.take_in(texts.store, exchange.read(path)) == 2
    assert labels_there(texts) == {"0": "b", "1": "a"}
    with pytest.raises(BadInput, match="'2' has 2 labels, a, b; an item has one"):
        exchange.read(write_lines(tmp_path / "two.jsonl", {"id": 2, "text": "same", "label": ["a", "b"]}))
    for row, words in (
        ({"id": 9, "text": "same", "label": "a"}, "no item '9', and 2 items have its text"),
        ({"id": 1, "text": "other", "label": "a"}, "'1' has another text here: 'bad', and in the file 'other'"),
        ({"id": 9, "text": "other", "label": "a"}, "there is no item '9'"),
    ):
        with pytest.raises(BadInput, match=words):
            exchange.take_in(texts.store, exchange.read(write_lines(tmp_path / "x.jsonl", row)))
    path = write_lines(
        tmp_path / "named.jsonl", {"id": 3, "text": "same", "label": "b"}, {"review": "good", "label": "b"}
    )
    assert exchange.take_in(texts.store, exchange.read(path)) == 1  # by its id, and by its text once more
    assert labels_there(texts) == {"0": "b", "1": "a", "3": "b"}


def test_texts_of_label_studio_go_by_their_id_or_their_text(texts, tmp_path):
    def task(label, **data):
        choice = {"from_name": "x", "to_name": "y", "type": "choices", "value": {"choices": [label]}}
        return {"id": 55, "data": data, "annotations": [{"completed_by": 7, "result": [choice]}]}

    tasks = [task("b", id=0, text="good"), task("a", text="bad"), task("b", id="3", text="same")]
    (tmp_path / "ls.json").write_text(json.dumps(tasks))
    assert exchange.take_in(texts.store, exchange.read(tmp_path / "ls.json")) == 3
    assert labels_there(texts) == {"0": "b", "1": "a", "3": "b"}
    (tmp_path / "no.json").write_text(json.dumps([task("b", audio="x")]))
    with pytest.raises(BadInput, match="ncalr, image, id or text; there are audio"):
        exchange.read(tmp_path / "no.json")


def test_files_that_are_torn_or_written_in_another_alphabet(small, tmp_path):
    small.project(items=3)
    small.label("ann")
    with (tmp_path / "whole.csv").open("wb") as file:
        exchange.write(all_records(small), "csv", file)
    torn = (tmp_path / "whole.csv").read_bytes()
    for name, content, words in (
        ("torn.csv", torn[:-30], "whole"),
        ("short.csv", torn[: torn.rindex(b",", 0, -40)], "whole"),
        ("latin.csv", "name,label\nü,cat\n".encode("latin-1"), "UTF-8"),
        ("other.csv", b"file,class\na,b\n", "name and label"),
        ("torn.parquet", b"PAR1 and no more", "whole"),
        ("torn.json", b"[{", "whole"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=words):
            exchange.read(tmp_path / name)


def test_imports_that_cannot_be(small, tmp_path):
    small.project(items=2)

    def vote(name="item0000000", **said):
        return Record(name, "open", votes=(Opinion(**{"by": "zoe", "kind": "label", "label": "cat", **said}),))

    with pytest.raises(BadInput, match="no item"):
        exchange.take_in(small.store, [vote("nowhere")])
    with pytest.raises(BadInput, match="no class here; add it first, in the team view or with ncalr label"):
        exchange.take_in(small.store, [vote(label="fish")])
    assert exchange.take_in(small.store, [vote()]) == 1
    with pytest.raises(BadInput, match="'zoe' says something else about 'item0000000' in the project already: 'cat'"):
        exchange.take_in(small.store, [vote(label="dog")])
    with pytest.raises(BadInput, match=r"in what is taken in skip\. With --replace \(in Python replace=True\)"):
        exchange.take_in(small.store, [vote(kind="skip", label=None)])
    assert [row["name"] for row in small.rows(schema.person)] == ["zoe"]
    assert not small.rows(schema.person)[0]["active"]
    with pytest.raises(UnknownName):
        exchange.write([], "pickle", io.BytesIO())
    for name, content in (("x.pkl", ""), ("x.csv", "a,b\n1,2\n"), ("x.jsonl", "{}\n"), ("x.json", "[1]")):
        (tmp_path / name).write_text(content)
        with pytest.raises(BadInput):
            exchange.read(tmp_path / name)
    with pytest.raises(BadInput, match="no file"):
        exchange.read(tmp_path / "none.csv")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "json"])
def test_a_file_that_contradicts_itself_is_told_by_its_rows(tmp_path, ending):
    """The project has no part in it, and none of the two labels is taken."""
    rows = [{"id": name, "label": label} for name, label in (("r1", "a"), ("r2", "b"), ("r1", "a"), ("r1", "c"))]
    path, where = tmp_path / f"x.{ending}", ("line 3", "line 6")
    if ending == "csv":
        path.write_text("id,label\n\n" + "".join(f"{row['id']},{row['label']}\n" for row in rows))
    elif ending == "jsonl":
        path.write_text("\n\n" + "\n".join(map(json.dumps, rows)))
    elif ending == "parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist(rows), path)
        where = ("row 1", "row 4")
    else:
        said = [
            {"completed_by": {"email": exchange.UNNAMED}, "result": [{"value": {"choices": [row["label"]]}}]}
            for row in rows
        ]
        tasks = [{"data": {"id": row["id"]}, "annotations": [one]} for row, one in zip(rows, said, strict=True)]
        path.write_text(json.dumps(tasks))
        where = ("task 1", "task 4")
    with pytest.raises(BadInput) as error:
        exchange.read(path)
    told = f"{path}: 'r1' is 'a' in {where[0]} and 'c' in {where[1]}; leave one of the two, or say in a column by who"
    assert str(error.value).startswith(told)


def test_several_people_may_say_what_they_like(small, tmp_path):
    small.project(items=2)
    path = tmp_path / "x.csv"
    path.write_text("name,label,by\nitem0000000,cat,ann\nitem0000000,dog,ben\nitem0000000,cat,ann\n")
    assert exchange.take_in(small.store, exchange.read(path)) == 2
    path.write_text(path.read_text() + "item0000000,dog,ann\nitem0000000,cat,ben\n")
    with pytest.raises(BadInput, match=r"'cat' by 'ann' in line 2 and 'dog' in line 5; .* two \(2 rows are so\)$"):
        exchange.read(path)


def test_one_item_under_two_names_is_no_fault_of_the_project(texts, tmp_path):
    rows = [{"id": name, "text": "good", "label": label} for name, label in (("x1", "a"), ("x2", "b"))]
    for one, other in (rows, rows[::-1], [rows[0], {"id": "0", "label": "b"}]):
        with pytest.raises(BadInput) as error:
            exchange.take_in(texts.store, exchange.read(write_lines(tmp_path / "x.jsonl", one, other)))
        told = f"about one item: {one['label']!r} of {one['id']!r} and {other['label']!r} of {other['id']!r};"
        assert told in str(error.value)


def test_items_that_two_lists_call_the_same_are_told_apart_by_their_texts(texts, tmp_path):
    rows = [{"id": 1, "text": text, "label": label} for text, label in (("good", "a"), ("bad", "b"))]
    assert exchange.take_in(texts.store, exchange.read(write_lines(tmp_path / "x.jsonl", *rows))) == 2


def test_blank_rows_of_a_spreadsheet_hold_no_labels(small, tmp_path):
    small.project(items=2)
    (tmp_path / "x.csv").write_text("name,label\nitem0000000,cat\n,\n , ,\nitem0000001,dog\n,,\n")
    assert exchange.take_in(small.store, exchange.read(tmp_path / "x.csv")) == 2


def test_label_studios_own_tasks(small, tmp_path):
    small.project(items=3)
    choice = {"from_name": "x", "to_name": "y", "type": "choices", "value": {"choices": ["dog"]}}
    tasks = [
        {"data": {"id": "item0000000", "text": "text 0"}, "annotations": [{"completed_by": 7, "result": [choice]}]},
        {
            "data": {"ncalr": "item0000001"},
            "annotations": [{"completed_by": {"email": "a@b"}, "result": [], "was_cancelled": True}],
        },
    ]
    (tmp_path / "ls.json").write_text(json.dumps(tasks))
    assert exchange.take_in(small.store, exchange.read(tmp_path / "ls.json")) == 2
    said = [(record.name, record.votes[0].by, record.votes[0].kind, record.label) for record in all_records(small)]
    assert said == [
        ("item0000000", "label studio user 7", "label", "dog"),
        ("item0000001", "a@b", "skip", None),
    ]


def test_parquet_without_pyarrow(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    from ncalr.errors import MissingExtra

    with pytest.raises(MissingExtra, match=r"ncalr\[parquet\]"):
        exchange.write([], "parquet", io.BytesIO())


# -- figures


def test_the_examples_run():
    for module in (shares, audit, exchange):
        assert doctest.testmod(module, extraglobs={"np": np}).failed == 0


def test_intervals_cover():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        low, high = shares.wilson(int(rng.binomial(30, 0.8)), 30)
        inside += low <= 0.8 <= high
    assert inside >= 180
    assert shares.wilson(0, 0) == (0.0, 1.0)


def test_the_team_view_counts_what_happened(office):
    busy(office)
    found = office.store.read(lambda conn: figures.team(conn, office.clock.now()))
    assert found["progress"]["closed"] == office.counter("closed")
    assert found["agreement"]["items"] == 8
    [pair] = found["agreement"]["pairs"]
    assert pair["people"] == ["ann", "ben"]
    assert pair["items"] == 8
    by_name = {person["name"]: person for person in found["people"]}
    assert by_name["ann"]["answers"] == 9
    assert by_name["ann"]["agrees"]["total"] == 8
    assert by_name["ann"]["accuracy"] is None  # of two who differ nobody knows which is right
    both = sum(a % 3 == a % 2 and a != 5 for a in range(8))
    assert by_name["ann"]["agrees"]["right"] == by_name["ben"]["agrees"]["right"] == both
    assert found["advice"]["do"] == "decide"
    json.dumps(found, allow_nan=False)


def test_control_items_count_once_and_by_the_verdict(small):
    small.project(items=10)
    small.rank([1, 2, 3, 4], arm="control", predicted=1)
    for answer in (1, 1, 0, 1):
        lease, receipt = small.label("ann", answer)
    small.say("ann", lease.item, 2, based_on=receipt.id)  # the last one is changed
    [point] = small.store.read(figures.curve)
    assert (point["epoch"], point["right"], point["total"]) == (1, 2, 4)
    found = figures.control([point])
    assert (found["right"], found["total"]) == (2, 4)


def test_the_effect_of_suggestions(small):
    small.project(items=60, suggestions=True)
    small.rank(range(1, 61), predicted=1)
    for _ in range(60):
        [lease] = small.next("ann")
        small.say("ann", lease.item, 1 if lease.suggestion is not None else 0, lease=lease.token)
    found = small.store.read(figures.suggestions)
    assert found["shift"] == 1.0
    assert found["low"] > 0.7


def test_only_what_a_lottery_decided_is_the_effect_of_suggestions(small):
    """Answers from before the rule, and those taken back, are no part of the experiment."""
    small.project(items=60)
    small.rank(range(1, 61), predicted=1)
    for _ in range(10):
        small.label("ann", 1)  # no suggestion was shown, and by no lottery
    assert small.store.read(figures.suggestions)["hidden"]["total"] == 0
    small.store.write(lambda conn: projects.change_settings(conn, suggestions=True))
    for at in range(20):
        lease, receipt = small.label("ann", 1)
        if at < 5:
            small.say("ann", lease.item, kind="undo", based_on=receipt.id)
    found = small.store.read(figures.suggestions)
    assert found["shown"]["total"] + found["hidden"]["total"] == 15
    small.store.write(lambda conn: projects.change_settings(conn, suggestions=False))
    small.label("ben", 1)
    assert small.store.read(figures.suggestions) == found


def test_figures_count_what_stands(small):
    small.project(items=40)
    small.rank(range(1, 41))
    for at in range(10):
        [lease] = small.next("ann")
        receipt = small.say(
            "ann", lease.item, kind="unsure" if at % 2 else "none", lease=lease.token, answered=10.0 * at
        )
        small.say("ann", lease.item, kind="undo", based_on=receipt.id, answered=10.0 * at + 5)
        small.say("ann", lease.item, 1, lease=lease.token, answered=10.0 * at + 6)
    found = small.store.read(lambda conn: figures.team(conn, small.clock.now()))
    [ann] = found["people"]
    assert (ann["answers"], ann["unsure"], ann["an_hour"]) == (10, 0.0, pytest.approx(360))
    assert found["model"]["answers_since"] == 10
    assert (found["progress"]["answers"], found["progress"]["wanted"]) == (10, 40)


def test_what_is_said_about_the_training(small):
    small.project(items=4)
    started = small.clock.time + 10

    def said(seconds, beat=None, state="waiting", wanted=True):
        if beat is not None:
            row = {"beat": started + beat, "state": state}
            small.store.write(lambda conn: conn.execute(schema.worker.update().values(**row)))
        known = figures.Training(wanted, started)
        return small.store.read(lambda conn: figures.freshness(conn, started + seconds, known))["worker"]

    assert said(1) == "starting"  # the last beat is from before
    assert said(59, beat=-500, state="failed") == "starting"
    assert said(61) == "gone"
    assert said(10, beat=6) == "waiting"
    assert said(40) == "gone"
    assert said(20, beat=15, state="stopped") == "stopped"
    assert said(1, beat=-500, wanted=False) == said(5000, wanted=False) == "off"
    assert said(20, beat=15, state="training", wanted=False) == "training"  # somebody else does it
    assert said(20, beat=15, state="stopped", wanted=False) == "off"


def test_speed_leaves_pauses_out():
    assert figures._speed([1000.0, 990.0, 980.0, 100.0])["an_hour"] == pytest.approx(360)
    assert figures._speed([5.0])["an_hour"] is None


def test_agreement_is_that_of_the_votes_room(small):
    """None of these and broken are answers like any other; kappa and alpha by hand."""
    small.project(items=4, votes=2)
    said = {"ann": ["label", "none", "label", "none"], "ben": ["label", "none", "label", "label"]}
    for name, kinds in said.items():
        for kind in kinds:
            small.label(name, 0, kind=kind)
    found = small.store.read(lambda conn: figures.team(conn, small.clock.now()))["agreement"]
    [pair] = found["pairs"]
    assert (pair["people"], pair["items"]) == (["ann", "ben"], 4)
    assert pair["kappa"] == pytest.approx((0.75 - 0.5) / 0.5)
    assert found["alpha"] == pytest.approx(1 - 2 / (2 * 15 / 7))
    assert found["low"] <= found["alpha"] <= found["high"]


def test_three_people_have_an_estimated_accuracy(small):
    small.project(items=60, votes=3)
    for at in range(60):
        for name in ("ann", "ben", "carl"):
            [lease] = small.next(name)
            truth = small.names([lease])[0] % 3
            small.say(name, lease.item, (truth + 1) % 3 if name == "carl" and at % 3 == 0 else truth, lease=lease.token)
    team = small.store.read(lambda conn: figures.team(conn, small.clock.now()))["people"]
    found = {person["name"]: person["accuracy"] for person in team}
    assert found["ann"]["share"] > 0.97
    assert found["carl"]["low"] < 2 / 3 < found["carl"]["high"] < 0.85


def point(labels, right, total, wrong=None, **facts):
    known = {"rule": "flips", "audit": {"wrong": wrong}, **facts}
    return {"labels": labels, "facts": known, **shares.share(right, total)}


def test_the_reliability_card_and_its_advice():
    facts = {"covered": 2, "nc1": 0.25, "redundancy": 0.5}
    made = figures.cards([point(10, 5, 10), point(20, 9, 10, [0.1, 0.06, 0.2], **facts)], 3)
    assert [card["control"]["total"] for card in made] == [10, 20]
    assert [card["advice"] for card in made] == ["go on", "check labels"]
    assert made[1]["control"]["share"] == 0.7
    assert [(card["covered"], card["nc1"], card["redundancy"]) for card in made] == [(None,) * 3, (2, 0.25, 0.5)]
    assert made[1]["classes"] == 3


def test_shares_of_wrong_labels_from_before_the_audit_was_tested_are_left_out():
    old = {"labels": 20, "facts": {"wrong": [0.6, 0.4, 0.9]}, **shares.share(9, 10)}
    [card] = figures.cards([old], 2)
    assert card["wrong"] is None
    assert card["advice"] == "go on"


def test_advice():
    def advise(closed=5, disputed=0, doubtful=(0, 0), control=(0, 0), curve=()):
        return figures.advice(
            {
                "progress": {"status": {"disputed": disputed, "unclear": 0}, "closed": closed, "items": 10},
                "review": {"doubtful": shares.share(*doubtful), "control": shares.share(*control)},
                "curve": list(curve),
            }
        )

    assert advise()["do"] == "go on"
    assert advise(disputed=2)["do"] == "decide"
    assert advise(doubtful=(36, 40), control=(0, 40))["do"] == "check labels"
    assert advise(closed=10)["do"] == "stop"
    assert "10% of the labels" in advise(curve=[point(20, 9, 10, [0.1, 0.06, 0.2])])["why"]
    flat = [point(at, 800, 1000) for at in (10, 20, 30)]
    assert advise(curve=flat)["do"] == "stop"
    few = [point(at, 8, 10) for at in (10, 20, 30, 40)]
    assert "cannot tell" in advise(curve=few)["why"]
    assert "too few control items" in advise(curve=[point(at, 0, 0) for at in (10, 20, 30)])["why"]
    rising = [point(at, right, 100) for at, right in ((10, 30), (20, 60), (30, 99))]
    assert advise(curve=rising)["do"] == "go on"


@pytest.mark.parametrize("right", [0, 1])
def test_the_card_and_the_tile_never_differ_and_a_handful_of_control_items_stops_nobody(right):
    """One control item a model, as by default: no word but go on, in either place."""
    made = [point(10 * at, right, 1) for at in range(1, 9)]
    found = {"progress": {"status": {"disputed": 0, "unclear": 0}, "closed": 5, "items": 500}, "curve": made}
    found["review"] = {"doubtful": shares.share(0, 0), "control": shares.share(0, 0)}
    assert figures.advice(found)["do"] == "go on"
    assert [card["advice"] for card in figures.cards(made, 2)] == ["go on"] * 8


def test_an_accuracy_nobody_knows_is_unknown():
    made = [point(10 * at, 0, 0) for at in range(1, 5)]
    assert all(card["control"]["share"] is None for card in figures.cards(made, 2))
    assert figures.control(made)["share"] is None


def test_points_of_the_curve_are_pooled(small):
    """By lot one item a model is right or wrong: what is shown reaches back to twenty items."""
    made = [point(10 * at, at % 2, 1) for at in range(1, 31)]
    start, found = figures._pool(made, 30)
    assert (start, found["right"], found["total"]) == (10, 10, 20)
    many = [point(10 * at, 30, 30) for at in range(1, 9)]
    assert figures._pool(many, 8)[1]["total"] == 30 * figures.POOLED
    assert figures._pool(many, 2)[1]["total"] == 60


def test_whose_accuracy_it_is():
    """The folder's, unless the strategy had picked from what is reserved, or nothing was reserved at the time."""
    clean, late = {"items": 10, "picked": 0}, {"items": 10, "picked": 2}
    assert figures.control([point(10, 9, 10, reserved=clean)])["of"] == "folder"
    assert figures.control([point(10, 9, 10, reserved=clean), point(20, 9, 10, reserved=late)])["of"] == "open"
    assert figures.control([point(10, 9, 10)])["of"] == "open"


# -- commands


@pytest.fixture
def notes(tmp_path):
    (tmp_path / "notes.csv").write_text("id,text\n" + "".join(f"n{at},word {at}\n" for at in range(6)))
    return tmp_path / "notes.csv"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def started(monkeypatch, *words):
    """`ncalr label` up to the moment at which it would serve."""
    seen = {}

    def stand_in(folder, store, address, ready, limits=None, training=True):
        seen.update(folder=folder, address=address, training=training)
        ready()

    monkeypatch.setattr("ncalr.web.serve.serve", stand_in)
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    result = run("label", *words, "--no-training")
    return result, {**seen, "opened": opened}


def test_label_makes_a_project_and_opens_the_browser(notes, monkeypatch):
    result, seen = started(monkeypatch, notes, "--classes", "a,b", "--guidelines", notes)
    assert result.exit_code == 0, result.output
    assert "6 texts, 2 classes" in result.output
    assert seen["opened"][0].startswith(f"http://127.0.0.1:{seen['address'].port}/#enter=")
    assert Folder.beside(notes).exists
    result, seen = started(monkeypatch, notes, "--resume", "--no-browser")
    assert "going on" in result.output
    assert seen["opened"] == []
    assert not seen["training"]  # the page is told that none is wanted
    assert started(monkeypatch, Folder.beside(notes).path)[0].exit_code == 0
    again, _ = started(monkeypatch, notes, "--classes", "a,b")
    assert isinstance(again.exception, BadInput)
    assert "--resume" in str(again.exception)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("t.csv", "id,text,label\n7,x,a\n8,y,b\n9,z,\n", []),
        ("t.csv", "review;label\nx;a\ny;b\nz;\n", []),
        ("t.jsonl", '{"text": "x", "label": "a"}\n{"text": "y", "label": "b"}\n{"text": "z", "label": ""}\n', []),
    ],
)
def test_labels_that_a_table_has_already_are_named_and_can_be_taken_in(tmp_path, monkeypatch, name, content, options):
    (tmp_path / name).write_text(content)
    result, _ = started(monkeypatch, tmp_path / name, "--classes", "a,b", *options)
    assert f"the column 'label' of {name} is not read. To take its labels in: ncalr labels import" in result.output
    line = result.output.partition("take its labels in: ncalr ")[2].splitlines()[0]
    assert "2 votes taken in" in run(*line.split()).output


def test_labels_that_cannot_be_taken_in_as_they_are(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("words,label\nx,a\n")
    result, _ = started(monkeypatch, tmp_path / "t.csv", "--classes", "a,b", "--text-column", "words")
    assert "bring them into a table with the columns id and label, and ncalr labels import" in result.output
    (tmp_path / "v.csv").write_text("id,text,body,label\n1,t,x,a\n")  # an import would compare with the column text
    result, _ = started(monkeypatch, tmp_path / "v.csv", "--classes", "a,b", "--text-column", "body")
    assert "bring them into a table with the columns id and label" in result.output
    (tmp_path / "u.csv").write_text("text,id\nx,a\n")
    assert "labels import" not in started(monkeypatch, tmp_path / "u.csv", "--classes", "a,b")[0].output


def test_label_with_nothing_to_go_by(notes, monkeypatch, tmp_path):
    for words, message in (
        ([notes], "which classes"),
        ([notes, "--resume"], "no project"),
        ([notes, "--classes", "a,b", "--host", "0.0.0.0"], "without TLS"),
        ([notes, "--classes", "a,b", "--host", "0.0.0.0", "--insecure"], "that people type into their browsers"),
        ([tmp_path / "nowhere", "--classes", "a,b"], "there is no"),
    ):
        result, _ = started(monkeypatch, *words)
        assert message in str(result.exception)
        assert not Folder.beside(notes).exists
    (tmp_path / "classes.txt").write_text("cat\ndog\n\n")
    result, _ = started(monkeypatch, notes, "--classes", tmp_path / "classes.txt")
    assert "2 classes" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--votes", "0"], "votes must be"),
        (["--strategy", "ncall"], "Did you mean 'ncal'"),
        (["--network", "resnet81"], "no network"),
        (["--network", "resnet8"], "takes images"),
        (["--recipe", "nope"], "no recipe"),
        (["--embeddings", "short.npy"], "short.npy has 5 rows and there are 6 items"),
        (["--embeddings", "long.npy"], "long.npy has 7 rows and there are 6 items"),
        (["--embeddings", "nan.npy"], "the first in row 4"),
        (["--embeddings", "huge.npy"], "the first in row 5"),
        (["--embeddings", "flat.npy"], "one row of numbers an item, got float64 of shape (6,)"),
        (["--embeddings", "nope.npy"], "nope.npy"),
        (["--guidelines", "nope.md"], "No such file"),
        (["--guidelines", "latin.txt"], "not UTF-8"),
        (["--classes", "clases.txt"], "no file clases.txt"),
        (["--classes", "latin.txt"], "not UTF-8"),
        (["--control", "3"], "shares"),
        (["--host", "203.0.113.7", "--insecure"], "type into their browsers"),
        (["--host", "203.0.113.7", "--public-url", "https://x.org"], "no address of this machine"),
        (["--database", "postgresql://nobody:secret@127.0.0.1:1/none"], "cannot be opened"),
        (["--database", "postgresql://host:port/name"], "URL of a database"),
        (["--database", "mysql://x/y"], "sqlite or postgresql"),
        (["--resume"], "no project"),
    ],
    ids=lambda value: "=".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_started_leaves_nothing_behind(notes, monkeypatch, options, message):
    if "postgresql" in options[-1]:
        pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    monkeypatch.chdir(notes.parent)
    np.save("short.npy", np.zeros((5, 3)))
    np.save("long.npy", np.zeros((7, 3)))
    np.save("nan.npy", np.where(np.arange(6)[:, None] < 4, 0.0, np.full((6, 3), np.nan)))
    np.save("huge.npy", np.where(np.arange(6)[:, None] < 5, 0.0, np.full((6, 3), 1e300)))
    np.save("flat.npy", np.zeros(6))
    (notes.parent / "latin.txt").write_bytes("größe\nübel\n".encode("latin-1"))
    words = [notes, *([] if "--classes" in options else ["--classes", "a,b"]), *options]
    result, seen = started(monkeypatch, *words)
    assert message in str(result.exception)
    assert isinstance(result.exception, NcalrError)  # a sentence, no traceback
    assert "secret" not in str(result.exception)
    assert "folder" not in seen
    assert not Folder.beside(notes).path.exists()
    assert started(monkeypatch, notes, "--classes", "a,b")[0].exit_code == 0


def test_a_port_in_use_leaves_nothing_behind(notes, monkeypatch):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result, _ = started(monkeypatch, notes, "--classes", "a,b", "--port", taken.getsockname()[1])
    assert "in use" in str(result.exception)
    assert not Folder.beside(notes).path.exists()


def test_a_project_that_was_never_begun_can_be_begun(notes, monkeypatch):
    folder = Folder.beside(notes)
    folder.create(sources.find(notes))
    folder.open().close()
    for words in (["--resume"], []):
        assert "did not come to an end" in str(started(monkeypatch, notes, *words)[0].exception)
    assert "no project" in str(run("labels", "export", folder.path, notes.parent / "x.csv").exception)
    assert "6 texts" in started(monkeypatch, notes, "--classes", "a,b")[0].output


def test_labels_without_a_project_file_are_not_removed(notes, monkeypatch):
    started(monkeypatch, notes, "--classes", "a,b")
    folder = Folder.beside(notes)
    (folder.path / "project.json").unlink()
    result, _ = started(monkeypatch, notes, "--classes", "a,b")
    assert "already" in str(result.exception)
    assert (folder.path / "labels.db").stat().st_size > 0


def settings_of(notes):
    store = Folder.beside(notes).open()
    found = store.read(lambda conn: (projects.load(conn), projects.guideline(conn), projects.classes(conn)))
    store.close()
    return found


def test_going_on_applies_what_is_said(notes, monkeypatch, tmp_path):
    started(monkeypatch, notes, "--classes", "a,b", "--suggestions")
    (tmp_path / "rules.md").write_text("# Rules")
    np.save(tmp_path / "e.npy", np.zeros((6, 3)))
    words = ["--votes", "3", "--no-suggestions", "--strategy", "margin", "--first", "7", "--control", "0.2"]
    more = ["--guidelines", tmp_path / "rules.md", "--embeddings", tmp_path / "e.npy", "--classes", "a,b,c"]
    result, _ = started(monkeypatch, notes, "--resume", *words, *more)
    assert result.exit_code == 0, result.exception
    project, text, names = settings_of(notes)
    rules = project.settings
    assert (project.votes, project.guideline, text, names) == (3, 2, "# Rules", ["a", "b", "c"])
    assert (rules.suggestions, rules.strategy, rules.first_training, rules.control) == (False, "margin", 7, 0.2)
    assert Folder.beside(notes).source().embeddings == str(tmp_path / "e.npy")
    started(monkeypatch, notes, "--resume", "--guidelines", tmp_path / "rules.md")
    assert settings_of(notes)[0].guideline == 2  # the same words are no new version
    assert settings_of(notes)[0] == project  # what is not named stays


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "nope"], "no strategy"),
        (["--network", "nope"], "no network"),
        (["--embeddings", "nope.npy"], "nope.npy"),
        (["--seed", "4"], "--seed 4 cannot be changed"),
        (["--database", "postgresql://x/y"], "labels move"),
        (["--text-column", "other"], "--text-column other cannot"),
        (["--classes", "a,c"], "leaves out b"),
        (["--votes", "0"], "votes must be"),
    ],
    ids=lambda value: "=".join(value) if isinstance(value, list) else "",
)
def test_going_on_refuses_what_cannot_be_and_changes_nothing(notes, monkeypatch, options, message):
    started(monkeypatch, notes, "--classes", "a,b")
    before = settings_of(notes)
    result, _ = started(monkeypatch, notes, "--resume", "--step", "3", *options)
    assert message in str(result.exception)
    assert settings_of(notes) == before
    same = ["--seed", "0", "--text-column", "text", "--classes", "a,b"]
    assert started(monkeypatch, notes, "--resume", *same)[0].exit_code == 0


@pytest.fixture
def photos(tmp_path):
    from PIL import Image

    root = tmp_path / "my photos ü"
    root.mkdir()
    for name in "abcd":
        Image.new("L", (8, 8)).save(root / f"{name}.png")
    return root


def test_files_that_are_no_pictures_are_counted(photos, monkeypatch):
    for name in ("a.pdf", "b.PDF", "c.ico", "notes", ".hidden.heic"):
        (photos / name).write_text("x")
    result, _ = started(monkeypatch, photos, "--classes", "a,b")
    assert "4 images" in result.output
    assert "4 files left out (1 .ico, 2 .pdf, 1 without an ending)" in result.output
    assert "HEIC" not in result.output


def test_rows_without_a_text_are_told(tmp_path, monkeypatch):
    """They are items all the same: embeddings have a row for each."""
    (tmp_path / "t.csv").write_text("id,text\na,hello\nb,\nc, \nd,bye\n")
    result, _ = started(monkeypatch, tmp_path / "t.csv", "--classes", "a,b")
    assert "no text in 2 of 4 rows, the first is 'b'" in result.output


def test_tiff_and_bmp_are_pictures_and_heic_is_none(photos, monkeypatch, tmp_path):
    for name in ("a.bmp", "b.TIF", "c.tiff", "d.heic"):
        (photos / name).write_text("x")
    result, _ = started(monkeypatch, photos, "--classes", "a,b")
    assert "7 images" in result.output
    assert "1 file left out (1 .heic); HEIC is not read: save such pictures as JPEG or PNG first" in result.output
    for name in ("phone/x.HEIC", "phone/y.heif"):
        (tmp_path / "phone").mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    result, _ = started(monkeypatch, tmp_path / "phone", "--classes", "a,b")
    assert "looked for .png, " in str(result.exception)
    assert "2 files left out (1 .heic, 1 .heif); HEIC is not read" in str(result.exception)


def test_new_files_are_noticed_and_taken_in_where_that_is_said(photos, monkeypatch):
    started(monkeypatch, photos, "--classes", "a,b")
    (photos / "e.png").write_bytes((photos / "a.png").read_bytes())
    (photos / "b.png").unlink()
    result, seen = started(monkeypatch, photos, "--resume")
    assert "1 item in" in result.output
    assert "--add" in result.output
    assert "any more: 1 item of the project, the first is 'b.png'" in result.output
    result, seen = started(monkeypatch, photos, "--resume", "--add")
    assert "1 item added" in result.output
    store = seen["folder"].open()
    assert store.read(projects.counters)["items"] == 5
    store.close()
    assert "--add" not in started(monkeypatch, photos, "--resume")[0].output


def test_new_rows_of_a_table_are_noticed(notes, monkeypatch):
    import os

    started(monkeypatch, notes, "--classes", "a,b")
    notes.write_text(notes.read_text() + "n6,one more\n")
    os.utime(notes, (4e9, 4e9))
    assert "1 item in" in started(monkeypatch, notes, "--resume")[0].output
    assert "1 item added" in started(monkeypatch, notes, "--resume", "--add")[0].output
    notes.unlink()  # the texts are in the database
    for source in (notes, Folder.beside(notes).path):
        assert started(monkeypatch, source, "--resume")[0].exit_code == 0


def test_a_folder_that_was_moved(photos, monkeypatch, tmp_path):
    import shlex

    project = tmp_path / "p q.ncalr"
    result, _ = started(monkeypatch, photos, "--classes", "a,b", "--project", project)
    line = next(line for line in result.output.splitlines() if "Go on another day" in line)
    assert shlex.split(line.partition(": ")[2]) == [
        *("ncalr", "label", str(photos), "--resume", "--project", str(project))
    ]
    moved = photos.rename(tmp_path / "elsewhere")
    result, _ = started(monkeypatch, project, "--resume")
    assert "say where they are now" in str(result.exception)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.png").write_bytes((moved / "a.png").read_bytes())
    result, _ = started(monkeypatch, tmp_path / "other", "--resume", "--project", project)
    assert "another source" in str(result.exception)
    assert Folder(project).source().path == str(photos)
    result, _ = started(monkeypatch, moved, "--resume", "--project", project)
    assert "from now on" in result.output
    assert Folder(project).source().path == str(moved)
    assert started(monkeypatch, project)[0].exit_code == 0


def test_two_tables_of_one_name_have_a_project_each(notes, monkeypatch):
    other = notes.with_suffix(".jsonl")
    other.write_text('{"id": "j1", "text": "x"}\n{"id": "j2", "text": "y"}\n')
    started(monkeypatch, notes, "--classes", "a,b")
    assert "no project" in str(started(monkeypatch, other, "--resume")[0].exception)
    assert "2 texts" in started(monkeypatch, other, "--classes", "a,b")[0].output
    assert "going on" in started(monkeypatch, other, "--resume")[0].output
    assert Folder.beside(notes).path.name == "notes.ncalr"
    assert Folder.beside(other).path.name == "notes.jsonl.ncalr"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.csv", "id,text\n1,ü\n".encode("latin-1"), "UTF-8"),
        ("latin2.csv", "id,größe\n1,ü\n".encode("latin-1"), "UTF-8"),
        ("x.jsonl", b"not json\n", "whole"),
        ("x.parquet", b"PAR1", "whole"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, monkeypatch, name, content, message):
    (tmp_path / name).write_bytes(content)
    result, _ = started(monkeypatch, tmp_path / name, "--classes", "a,b")
    assert message in str(result.exception)
    assert isinstance(result.exception, BadInput)


def test_databases_that_cannot_be_opened(notes, monkeypatch, tmp_path):
    assert "no database of labels" in str(run("labels", "restore", notes, "--check").exception)
    started(monkeypatch, notes, "--classes", "a,b")
    project = Folder.beside(notes).path
    (project / "labels.db").write_bytes(b"SQLite format 3\x00" + b"broken" * 500)
    for words in (["labels", "verify", project], ["label", notes, "--resume"]):
        assert "restore BACKUP PROJECT" in str(run(*words).exception)
    (project / "project.json").write_text("{")
    assert "project.json" in str(run("labels", "verify", project).exception)


def test_the_other_commands(notes, monkeypatch, tmp_path):
    started(monkeypatch, notes, "--classes", "a,b", "--no-browser")
    project = Folder.beside(notes).path
    votes = [Record(f"n{at}", "open", votes=(Opinion("zoe", "label", "a", 1.0),)) for at in range(3)]
    with (tmp_path / "in.jsonl").open("wb") as file:
        exchange.write(votes, "jsonl", file)
    assert "3 votes" in run("labels", "import", project, tmp_path / "in.jsonl").output
    assert run("labels", "export", project, tmp_path / "out.csv").exit_code == 0
    assert len(exchange.read(tmp_path / "out.csv")) == 3
    assert "texts" in str(run("labels", "export", project, tmp_path / "folder").exception)
    assert run("labels", "export", project, tmp_path / "OUT.CSV").output.startswith("3 items")
    assert (tmp_path / "OUT.CSV").read_bytes() == (tmp_path / "out.csv").read_bytes()
    assert "no folder" in str(run("labels", "export", project, tmp_path / "none" / "out.csv").exception)
    (tmp_path / "taken.csv").mkdir()
    assert "is a folder" in str(run("labels", "export", project, tmp_path / "taken.csv").exception)
    assert "chain" in run("labels", "verify", project).output
    assert run("labels", "backup", project, tmp_path / "b.db").exit_code == 0
    assert "no folder" in str(run("labels", "backup", project, tmp_path / "none" / "b.db").exception)
    assert "whole" in run("labels", "restore", tmp_path / "b.db", "--check").output
    assert "where to" in str(run("labels", "restore", tmp_path / "b.db").exception)
    (project / "labels.db").unlink()
    assert "restored" in run("labels", "restore", tmp_path / "b.db", project).output
    assert "moved" in run("labels", "move", project, tmp_path / "moved.db").output
    assert "chain" in run("labels", "verify", project).output
    link = run("labels", "invite", project, "--role", "reviewer", "--url", "https://x.org/").output
    assert link.startswith("https://x.org/#enter=")
    assert len(run("labels", "invite", project, "--token", "zoe").output.strip()) == 43
    assert "nobody" in str(run("labels", "invite", project, "--token", "max").exception)
    assert "there are" in str(run("labels", "invite", project, "--person", "max").exception)
    link = run("labels", "invite", project, "--person", "zoe", "--role", "reviewer").output.strip()
    store = Folder(project).open()
    secret, now = link.partition("=")[2], store.clock.now()
    who, _ = store.write(lambda conn: people.enter(conn, now, secret))
    assert (who.name, who.role, who.active) == ("zoe", "reviewer", True)  # she came by an import, and is herself
    store.close()
    assert "nobody" in str(run("labels", "revoke", project, "--person", "max").exception)
    assert run("labels", "revoke", project, "--person", "zoe").output.startswith("1 sessions and 1 links")
    assert run("labels", "revoke", project).output.startswith(
        "0 sessions and 2 links"
    )  # the owner's, and an invitation


@pytest.fixture
def labelled(notes, monkeypatch, tmp_path):
    """A project in which three of six notes have a label."""
    started(monkeypatch, notes, "--classes", "a,=b", "--no-browser")
    (tmp_path / "in.csv").write_text("id,label\nn0,a\nn1,=b\nn2,a\n")
    project = Folder.beside(notes).path
    assert run("labels", "import", project, tmp_path / "in.csv").exit_code == 0
    return project


def refused(words, *told):
    """The command ends with an error that says this, and what it would have written to is as it was."""
    out = words[-1]
    before = out.read_bytes() if out.is_file() else None
    error = run(*words).exception
    assert isinstance(error, BadInput)
    assert all(word in str(error) for word in told), error
    assert (out.read_bytes() if out.is_file() else None) == before


def test_an_import_replaces_where_that_is_said(labelled, tmp_path):
    file = tmp_path / "later.csv"
    file.write_text("id,label\nn0,=b\nn3,a\n")
    result = run("labels", "import", labelled, file)
    assert "about 'n0' in the project already: 'a', and in what is taken in '=b'. With --replace" in str(
        result.exception
    )
    for expected in (2, 0):
        assert run("labels", "import", labelled, file, "--replace").output == f"{expected} votes taken in\n"
    run("labels", "export", labelled, tmp_path / "out.csv")
    found = {record.name: record.label for record in exchange.read(tmp_path / "out.csv")}
    assert found == {"n0": "=b", "n1": "=b", "n2": "a", "n3": "a"}


@pytest.mark.parametrize("command", ["export", "predict"])
def test_an_export_does_not_replace_what_is_labelled(notes, labelled, tmp_path, command):
    (tmp_path / "link.csv").symlink_to(notes)
    for out in (notes, tmp_path / "." / notes.name, tmp_path / "link.csv"):
        refused(("labels", command, labelled, out), f"is what {labelled} labels", "give it another name")
    for name in ("out.csv", "cache/out.csv"):
        refused(("labels", command, labelled, labelled / name), "lies in the project's own folder")
    if command == "export":
        refused(("labels", command, labelled, labelled / "folder"), "lies in the project's own folder")


@pytest.mark.parametrize("command", ["export", "predict"])
def test_an_export_does_not_replace_labels_that_people_wrote(labelled, tmp_path, command):
    """Nor does it where the project knows all of them."""
    out = tmp_path / "hand.csv"
    for written in ("id,label\nn0,a\nn1,\nn2,=b\n", "ID;Label\nn0;a\nn1; \nn2;a\n"):
        out.write_text(written)
        refused(("labels", command, labelled, out), "hand.csv holds 2 labels, which would be lost", "to another file")
    out.write_text("name,label\nn0,a,b\n")
    refused(("labels", command, labelled, out), "line 2: 3 cells", "it is not known whether", "holds labels")


@pytest.mark.parametrize("form", ["tsv", "jsonl", "parquet", "json"])
def test_labels_that_people_wrote_into_other_forms_are_safe_too(labelled, tmp_path, form):
    rows = [{"id": "n0", "text": "x"}, {"id": "n1", "label": "a"}]
    out = tmp_path / f"hand.{form}"
    if form == "parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist([{"label": None, **row} for row in rows]), out)
    elif form == "json":
        out.write_text(json.dumps([{"data": {"text": "x"}}, {"data": {"text": "y"}, "annotations": [{"result": []}]}]))
    else:
        lines = {"tsv": ["id\tlabel", "n0\t", "n1\ta"], "jsonl": map(json.dumps, rows)}[form]
        out.write_text("\n".join(lines))
    refused(("labels", "export", labelled, out), "holds 1 labels, which would be lost")
    out.write_bytes(b"{")
    if form != "tsv":
        refused(("labels", "export", labelled, out), "it is not known whether")


@pytest.mark.parametrize("form", sorted(exchange.ENDINGS.values()))
def test_an_export_replaces_an_earlier_one_unless_somebody_wrote_into_it(labelled, tmp_path, form):
    out = tmp_path / f"out.{form}"
    again = ("labels", "export", labelled, out)
    assert run(*again).exit_code == 0
    (tmp_path / "more.csv").write_text("id,label\nn3,a\n")
    run("labels", "import", labelled, tmp_path / "more.csv")
    for _ in range(2):
        assert run(*again).output.startswith("4 items written")
    records = exchange.read(out)
    with out.open("wb") as file:
        changed = replace(records[0], label="=b")
        exchange.write([changed, *records[1:]], exchange.form_of(out), file)
    refused(again, "holds 1 labels that nobody gave in this project, which would be lost")
    others = [replace(record, name=f"another {record.name}") for record in records]
    with out.open("wb") as file:  # as one looks whose project is gone
        exchange.write(others, exchange.form_of(out), file)
    refused(again, "holds 4 labels that nobody gave in this project")
    if form == "json":  # labelled further in Label Studio
        assert out.unlink() is None
        assert run(*again).exit_code == 0
        tasks = json.loads(out.read_text())
        tasks[0]["annotations"].append({"id": 7, "result": []})
        out.write_text(json.dumps(tasks))
        refused(again, "holds 4 labels, which would be lost")


@pytest.mark.parametrize("found", [{"n0": "a"}, [["n0", "a"]], {"annotations": [{"category_id": 1}]}, {}, [1]])
def test_json_that_is_no_tasks_may_hold_labels(labelled, tmp_path, found):
    out = tmp_path / "hand.json"
    out.write_text(json.dumps(found))
    refused(("labels", "export", labelled, out), "holds no tasks of Label Studio", "it is not known whether")


def test_predictions_are_told_by_their_form_too(labelled, tmp_path):
    """They are written as CSV alone: the same columns elsewhere are somebody else's, whatever their values are."""
    out = tmp_path / "predicted.jsonl"
    row = {"name": 7, "label": None, "class": "a", "probability": 0.5}
    out.write_text(json.dumps(row))
    assert run("labels", "export", labelled, out).output.startswith("3 items written"), "no label is at stake"
    out.write_text(json.dumps({**row, "label": "a"}))
    refused(("labels", "export", labelled, out), "holds 1 labels, which would be lost")


@pytest.mark.parametrize("replace_", [False, True])
def test_one_item_under_two_names_has_one_answer(notes, monkeypatch, replace_):
    started(monkeypatch, notes, "--classes", "a,=b", "--no-browser")
    store = Folder.beside(notes).open()
    both = [
        Record(name, "open", votes=(Opinion("ann", "label", said),), text="word 3")
        for name, said in (("x", "a"), ("y", "=b"))
    ]
    with pytest.raises(BadInput, match="'ann' says two things about one item"):
        exchange.take_in(store, both, replace=replace_)
    assert store.read(lambda conn: conn.execute(schema.vote.select()).all()) == [], "nothing is taken in"
    store.close()


def test_what_holds_no_labels_is_replaced_by_an_export(labelled, tmp_path):
    for name, content in (
        ("a.csv", ""),
        ("b.csv", "id,label\nn0,\nn1, \n"),
        ("c.csv", "rank,id,score\n1,n0,0.5\n"),
        ("d.jsonl", ""),
        ("e.jsonl", '{"id": "n0"}\n'),
    ):
        (tmp_path / name).write_text(content)
        assert run("labels", "export", labelled, tmp_path / name).output.startswith("3 items written"), name


def test_an_owner_whose_name_came_by_an_import_is_the_owner(small):
    from ncalr.web.serve import entrance

    small.project(items=1)
    exchange.take_in(small.store, [Record("item0000000", "open", votes=(Opinion("ann", "label", "cat"),))])
    secret = entrance(small.store, "ann")
    who, _ = small.store.write(lambda conn: people.enter(conn, small.clock.time, secret))
    assert (who.name, who.role) == ("ann", "owner")


def test_the_export_as_a_folder_says_what_it_wrote(tmp_path, monkeypatch):
    from PIL import Image

    root = tmp_path / "photos"
    root.mkdir()
    for name in "abc":
        Image.new("L", (8, 8)).save(root / f"{name}.png")
    started(monkeypatch, root, "--classes", "x,y", "--no-browser")
    project = Folder.beside(root).path
    (tmp_path / "in.csv").write_text("name,label\na.png,x\nb.png,y\nc.png,y\n")
    assert run("labels", "import", project, tmp_path / "in.csv").exit_code == 0
    (root / "b.png").unlink()
    told = run("labels", "export", project, tmp_path / "out").output
    assert "2 pictures of 2 classes" in told
    assert "b.png: No such file" in told
    for name, words in (("labels.txt", "not written as .txt"), ("file", "is a file"), ("out", "not empty")):
        (tmp_path / "file").write_text("x")
        assert words in str(run("labels", "export", project, tmp_path / name).exception)
    assert not (tmp_path / "labels.txt").exists()


def test_label_without_the_extra(notes, monkeypatch):
    monkeypatch.setattr("ncalr.extras.find_spec", lambda name: None if name == "fastapi" else object())
    assert "ncalr[web]" in str(run("label", notes, "--classes", "a,b").exception)


def test_ports(monkeypatch):
    import socket

    from ncalr.web.serve import free_port

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match="in use"):
            free_port("127.0.0.1", port, fixed=True)
        assert free_port("127.0.0.1", port, fixed=False) > port


ODD_VOTES = [
    {"by": None},
    {"by": {}},
    {"by": "\ud800"},
    {"kind": ["label"]},
    {"label": 10**30},
    {"at": "yesterday"},
    {"purpose": 1.5},
]
ODD_RECORDS = [{"name": {}}, {"arm": "a" * 17}, {"epoch": -1}, {"score": {}}, {"guideline": "x"}, {"votes": [7]}]


@pytest.mark.parametrize("odd", [*ODD_VOTES, *ODD_RECORDS])
def test_fields_of_a_wrong_type_in_labels_are_refused_with_their_line(tmp_path, odd):
    vote = {"by": "ann", "kind": "label", "label": "cat", "at": 1.5, "purpose": "label"}
    whole = {"name": "item0000001", "status": "labelled", "votes": [{**vote, **odd} if odd in ODD_VOTES else vote]}
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({**whole, **(odd if odd in ODD_RECORDS else {})}) + "\n")
    with pytest.raises(BadInput, match=r"labels\.jsonl.*line 1" if odd != {"votes": [7]} else "labels"):
        exchange.read(path)


def test_a_name_that_a_database_cannot_hold_is_refused(office):
    office.project(items=2)
    said = Opinion("ann", "label", "cat")
    with pytest.raises(BadInput):
        exchange.take_in(office.store, [Record("item\0", "open", votes=(said,))])


def test_a_secret_that_is_none_is_refused(tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "secret").write_text("no hex digits")
    (tmp_path / "secret").chmod(0o600)
    with pytest.raises(BadInput, match="secret"):
        folder.secret()
