"""`ncalr audit`, as a person would type it: on labels of which a fifth is wrong."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import ncalr
from ncalr.cli.app import app
from ncalr.errors import BadInput
from ncalr.evaluate.audit_run import audit_file, audit_run, tolerant_learner
from ncalr.lab.experiment import Experiment
from ncalr.lab.session import carry_out

SMALL = "digits(epochs=4, checkpoints=2)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One finished run and one that has not begun."""
    out = tmp_path_factory.mktemp("audited")
    experiment = Experiment(
        strategies=("random",), seeds=1, start=200, step=50, end=200, recipe=SMALL, noise="symmetric(rate=0.2)"
    )
    carry_out(experiment, out, device="cpu", live=False)
    return out


def audit(*words):
    return CliRunner().invoke(
        app, ["audit", *map(str, words), "--device", "cpu", "--recipe", "digits(epochs=8, checkpoints=3)"]
    )


def test_doubtful_labels_are_listed(folder, tmp_path):
    done = audit(folder, "--top", 5, "--folds", 2, "--out", tmp_path / "doubts.csv")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert "random, seed 0: 200 labels; " in lines[0]
    assert "look at the first" in lines[1]
    assert "most doubtful classes" in lines[2]
    assert "agree with" in lines[3]
    assert "the truth is known here: 2" in lines[4]
    assert [line.split()[0] for line in lines[5:10]] == ["1", "2", "3", "4", "5"]
    assert "all 200 labels" in lines[10]
    assert lines[11].startswith("note: A log of 3 checkpoints is short")
    rows = list(csv.DictReader((tmp_path / "doubts.csv").read_text().splitlines()))
    assert len(rows) == 200
    assert float(rows[0]["wrong"]) > float(rows[-1]["wrong"])
    assert float(rows[0]["geometry"]) > float(rows[-1]["geometry"])
    assert float(rows[0]["disagreement"]) >= float(rows[-1]["disagreement"])
    assert float(lines[4].split("AUROC of ")[1].split()[0]) > 0.85


def test_for_programs(folder):
    done = audit(folder, "--json", "--top", 2, "--folds", 2)
    found = json.loads(done.output)
    assert found["strategy"] == "random"
    assert 0 <= found["low"] <= found["wrong"] <= found["high"] <= 1
    assert len(found["rows"]) == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [(["--strategy", "randon"], "random"), (["--seed", "7"], "no run with seed 7; there are [0]")],
)
def test_what_is_not_there(folder, words, text):
    done = audit(folder, *words)
    assert done.exit_code
    assert text in " ".join(str(done.exception or done.output).split())


def test_a_run_without_labels(tmp_path):
    (tmp_path / "experiment.json").write_text(json.dumps(Experiment(strategies=("random",), seeds=1).as_dict()))
    with pytest.raises(BadInput, match="has no labels yet"):
        audit_run(tmp_path)


def test_the_folds_learn_with_a_loss_that_stands_noise():
    assert tolerant_learner("resnet8", "digits", "cpu").recipe.loss == "elr"
    assert tolerant_learner("resnet8", "digits", "cpu", change=False).recipe.loss == "cross_entropy"
    assert tolerant_learner("resnet8", "digits(loss=gce)", "cpu").recipe.loss == "gce"


def test_a_rival_beside(folder, tmp_path):
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    done = audit(folder, "--folds", 2, "--rival", "cleanlab", "--out", tmp_path / "doubts.csv")
    assert done.exit_code == 0, done.output
    assert "cleanlab on the same models: 0." in done.output
    with (tmp_path / "doubts.csv").open() as file:
        assert all(0 <= float(row["cleanlab"]) <= 1 for row in csv.DictReader(file))


def test_an_unknown_rival_is_said_before_anything_is_trained(folder, monkeypatch):
    monkeypatch.setattr("ncalr.evaluate.audit_run.crossfit", None)
    done = audit(folder, "--rival", "cleanlap")
    assert "no rival 'cleanlap'. Did you mean 'cleanlab'?" in str(done.exception)


# -- vectors in a file ----------------------------------------------------------------------------------------------


@pytest.fixture
def vectors(tmp_path):
    """Three bunches, a hundred labels, of which every tenth is wrong, and items without one."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 160)
    np.save(tmp_path / "items.npy", (3 * np.eye(6)[truth] + rng.normal(size=(160, 6))).astype(np.float32))
    wrong = np.arange(0, 100, 10)
    given = truth[:100].copy()
    given[wrong] = (given[wrong] + 1) % 3
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *((at, "abc"[label]) for at, label in enumerate(given))])
    return tmp_path / "items.npy", tmp_path / "labels.csv", set(wrong.tolist())


def test_labels_of_vectors(vectors, tmp_path):
    items, labels, wrong = vectors
    out = tmp_path / "doubts.csv"
    done = CliRunner().invoke(app, ["audit", str(items), str(labels), "--out", str(out), "--top", "3"])
    assert done.exit_code == 0, done.output
    assert f"{items}, seed 0: 100 labels; " in done.output.splitlines()[0]
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 100
    assert len({int(row["id"]) for row in rows[:12]} & wrong) >= 8
    assert {row["label"] for row in rows} == {"a", "b", "c"}


def test_the_list_does_not_replace_what_people_wrote(vectors, tmp_path):
    """Neither into another file nor into the list of an earlier audit; untouched, that one is written again."""
    items, labels, _ = vectors
    out = tmp_path / "doubts.csv"

    def again(*files):
        return CliRunner().invoke(app, ["audit", *map(str, (items, *files, "--out", out))])

    def refused(told, *files):
        before = out.read_bytes()
        assert told in str(again(*files).exception)
        assert out.read_bytes() == before

    for _ in range(2):
        assert again(labels).exit_code == 0
    more = tmp_path / "more.csv"
    more.write_text("id,label\n120,a\n121,b\n")
    assert again(labels, more).exit_code == 0  # the labels of another round beside those of the list
    found = out.read_text()
    refused("doubts.csv holds 2 labels that are not those audited, which would be lost; write the list to", labels)
    head, first, *rest = found.splitlines()
    cells = first.split(",")
    for label, expected in (("dog", 1), ("", 1), (f" {cells[2]} ", 0)):
        cells[2] = label
        out.write_text("\n".join([head, ",".join(cells), *rest]))
        if expected:
            refused("holds 1 labels that are not those audited", labels, more)
        else:
            assert again(labels, more).exit_code == 0
    out.write_text("\n".join([found.splitlines()[0] + ",seen", *(line + ",yes" for line in found.splitlines()[1:])]))
    refused("holds 102 labels, which would be lost", labels, more)
    for written, told in (
        ("id,Label\n7,a\n8,\n", "holds 1 labels, which would be lost; write the list to another file"),
        (head + "\n1,2\n", "line 2: 2 cells, the first line has 7. So it is not known whether"),
    ):
        out.write_text(written)
        refused(told, labels)
    out.write_text("id,score\n7,1\n")
    assert again(labels).exit_code == 0


def test_the_list_for_a_spreadsheet_runs_nothing_there_and_is_written_again(vectors, tmp_path):
    items, labels, _ = vectors
    out = tmp_path / "doubts.csv"
    labels.write_text(labels.read_text().replace(",a", ",=a"))
    for options, label in ((("--spreadsheet",), "'=a"), (("--spreadsheet",), "'=a"), ((), "=a")):
        done = CliRunner().invoke(app, ["audit", *map(str, (items, labels, "--out", out, *options))])
        assert done.exit_code == 0, done.output
        rows = list(csv.DictReader(out.read_text().splitlines()))
        assert {row["label"] for row in rows} == {label, "b", "c"}
        assert {row["suggested"] for row in rows} <= {label, "b", "c"}


def test_the_list_of_a_run_is_written_again(folder, tmp_path):
    out = tmp_path / "doubts.csv"
    assert audit(folder, "--folds", 2, "--out", out).exit_code == 0
    assert audit(folder, "--folds", 2, "--out", out).exit_code == 0
    out.write_text("id,label\n7,a\n")
    assert "holds 1 labels" in str(audit(folder, "--folds", 2, "--out", out).exception)


def test_arrays_are_audited_as_files_are(vectors):
    """Names or numbers, an item each or by id; the report has a line for all labels, not thousands of numbers."""
    items, labels, _ = vectors
    by_file = audit_file(items, labels)
    named = {int(row["id"]): row["label"] for row in csv.DictReader(labels.read_text().splitlines())}
    names = [named.get(at) for at in range(160)]
    numbers = np.array(["abc".index(name) if name else -1 for name in names])
    for given in (named, names, numbers):
        found = ncalr.audit(np.load(items), given)
        assert [row["id"] for row in found.rows()] == [row["id"] for row in by_file.rows]
        assert [row["wrong"] for row in found.rows()] == [row["wrong"] for row in by_file.rows]
    agreed = by_file.summary["agreement"]
    assert 0.7 < agreed["low"] < agreed["share"] == found.agreement < agreed["high"] < 1
    assert f"agree with {agreed['share']:.1%} of the labels" in by_file.words[3]
    assert by_file.words[1].startswith(f"look at the first {found.expected}:")
    assert repr(by_file).splitlines()[1].strip() == by_file.words[0]


def test_a_label_is_kept_only_where_it_is_more_likely_right():
    from ncalr.cli.audit import _advice

    assert _advice({"suggested": "a", "label": "b", "wrong": 0.9}) == "a"
    assert _advice({"suggested": "b", "label": "b", "wrong": 0.4}) == "keep"
    assert _advice({"suggested": "b", "label": "b", "wrong": 0.6}) == "check"


def test_ids_of_vectors_and_labels_in_two_files(vectors, tmp_path):
    """What `ncalr suggest` takes is audited: names from a table, and the labels of a later round."""
    items, labels, wrong = vectors
    (tmp_path / "ids.csv").write_text("id,path\n" + "".join(f"the-image-{at},p{at}\n" for at in range(160)))
    rows = [f"the-image-{line}" for line in labels.read_text().split()[1:]]
    (tmp_path / "first.csv").write_text("\n".join(["id,label", *rows[:50]]))
    (tmp_path / "later.csv").write_text("\n".join(["id,label", *rows[50:]]))
    given = [tmp_path / "first.csv", tmp_path / "later.csv", "--ids", tmp_path / "ids.csv", "--out", tmp_path / "o.csv"]
    done = CliRunner().invoke(app, ["audit", *map(str, (items, *given))])
    assert done.exit_code == 0, done.output
    listed = [line for line in done.output.splitlines() if " -> " in line]
    assert len({line.index(" -> ") for line in listed}) == 1, "columns"
    found = [row["id"] for row in csv.DictReader((tmp_path / "o.csv").read_text().splitlines())]
    assert len(found) == 100
    assert len({*found[:12]} & {f"the-image-{at}" for at in wrong}) >= 8


def test_files_and_folders_are_not_mixed_up(vectors, folder):
    items, labels, _ = vectors
    for words, said in (
        ([folder, labels], "is no file"),
        ([folder, "--ids", labels], "is no file"),
        ([items, labels, "--strategy", "random"], "is a file of vectors"),
        ([items, labels, "--folds", "3"], "is a file of vectors"),
        ([items, labels, "--device", "cpu"], "is a file of vectors"),
        ([items], "0 of 160 items have a label"),
    ):
        done = CliRunner().invoke(app, ["audit", *map(str, words)])
        assert isinstance(done.exception, BadInput)
        assert said in str(done.exception)
    for given, said in (
        ((items, np.zeros(160, int)), "come from files, got ndarray; to give both as arrays, read the vectors first"),
        ((items, {0: "a"}), "come from files, got dict"),
    ):
        with pytest.raises(BadInput, match=said):
            audit_file(*given)
    for given in ((items, labels), (np.load(items), {0: "a"}), (np.load(items), ["a"] * 160)):
        with pytest.raises(BadInput):
            ncalr.audit(*given)
