"""The command line, run in process as a person would type it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import ncalr
from ncalr import testing
from ncalr.acquire import selectors, strategies
from ncalr.cli import main
from ncalr.cli.app import app

runner = CliRunner()


@pytest.fixture
def files(tmp_path):
    """The example pool as .npy files, and the arguments that name them."""
    arguments = []
    for name, array in testing.example_pool().items():
        np.save(tmp_path / f"{name}.npy", array)
        arguments += [f"--{name.replace('_', '-')}", str(tmp_path / f"{name}.npy")]
    return arguments


def run(*words):
    """Output, errors and exit code of `ncalr WORDS`, as `main` ends it."""
    done = subprocess.run(
        [sys.executable, "-c", "from ncalr.cli import main; main()", *map(str, words)], capture_output=True, text=True
    )
    return done.stdout, done.stderr, done.returncode


def test_help_is_the_manual():
    shown = runner.invoke(app, ["query", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for option in ("--features", "--checkpoint-predictions", "--labelled-features", "--exclude", "--seed", "--out"):
        assert option in shown


def test_version():
    assert runner.invoke(app, ["--version"]).output == f"ncalr {ncalr.__version__}\n"


def test_query_writes_csv(files, tmp_path):
    out = tmp_path / "picks.csv"
    done = runner.invoke(app, ["query", "-k", "9", "--strategy", "ncal", *files, "--out", str(out)])
    assert done.exit_code == 0, done.output
    with out.open() as file:
        rows = list(csv.DictReader(file))
    wanted = ncalr.query("ncal", 9, **testing.example_pool())
    assert [int(row["id"]) for row in rows] == wanted.ids.tolist()
    assert [float(row["cmap"]) for row in rows] == wanted.parts["cmap"].tolist()
    assert list(rows[0]) == ["rank", "id", "score", "cmap", "ff"]


def test_query_prints_csv(files):
    done = runner.invoke(app, ["query", "-k", "2", "--strategy", "margin", *files])
    assert done.output.splitlines()[0] == "rank,id,score,margin"
    assert len(done.output.splitlines()) == 3


def test_query_writes_json_and_npy(files, tmp_path):
    for name in ("picks.json", "picks.npy"):
        runner.invoke(
            app, ["query", "-k", "5", "--strategy", "ncal(fusion=rank)", *files, "--out", str(tmp_path / name)]
        )
    found = json.loads((tmp_path / "picks.json").read_text())
    assert found["strategy"] == "ncal(fusion=rank)"
    assert [row["id"] for row in found["picks"]] == np.load(tmp_path / "picks.npy").tolist()


def test_ids_and_exclude_from_text(files, tmp_path):
    (tmp_path / "ids.txt").write_text("\n".join(f"item-{i}" for i in range(240)) + "\n")
    first = ncalr.query("ncal", 3, ids=[f"item-{i}" for i in range(240)], **testing.example_pool()).ids
    (tmp_path / "done.txt").write_text("\n".join(first) + "\n")
    done = runner.invoke(
        app, ["query", "-k", "240", *files, "--ids", str(tmp_path / "ids.txt"), "--exclude", str(tmp_path / "done.txt")]
    )
    assert "237" in str(done.exception)
    done = runner.invoke(
        app, ["query", "-k", "237", *files, "--ids", str(tmp_path / "ids.txt"), "--exclude", str(tmp_path / "done.txt")]
    )
    assert not set(first) & {line.split(",")[1] for line in done.stdout.splitlines()}


def test_picks_of_one_round_are_left_out_of_the_next(files, tmp_path):
    names = [f"item, {i}" for i in range(240)]  # with a comma: quoted in a CSV file
    np.save(tmp_path / "ids.npy", np.array(names))
    ask = ["query", *files, "--ids", str(tmp_path / "ids.npy")]
    runner.invoke(app, [*ask, "-k", "3", "--out", str(tmp_path / "picks.csv")])
    done = runner.invoke(app, [*ask, "-k", "237", "--exclude", str(tmp_path / "picks.csv")])
    assert done.exit_code == 0, done.exception
    left = [row["id"] for row in csv.DictReader(done.stdout.splitlines())]
    assert set(names) - set(left) == set(ncalr.query("ncal_coverage", 3, ids=names, **testing.example_pool()).ids)
    (tmp_path / "plain.csv").write_text("\n".join(f"item-{i}" for i in range(240)))
    assert runner.invoke(app, ["query", "-k", "3", *files, "--ids", str(tmp_path / "plain.csv")]).exit_code == 0


def test_an_exclude_list_of_a_larger_pool_is_used_with_a_note(files, tmp_path):
    (tmp_path / "blocked.txt").write_text("3\n1003\n5\n1005\n")
    done = runner.invoke(app, ["query", "-k", "238", *files, "--exclude", str(tmp_path / "blocked.txt")])
    assert done.exit_code == 0, done.exception
    assert not {3, 5} & {int(row["id"]) for row in csv.DictReader(done.stdout.splitlines())}
    assert "note: 2 of 4 ids to exclude are not in the pool, ignored: 1003, 1005" in done.stderr
    (tmp_path / "wrong.txt").write_text("1003\n1005\n")
    done = runner.invoke(app, ["query", "-k", "238", *files, "--exclude", str(tmp_path / "wrong.txt")])
    assert "none of the 2 ids to exclude is in the pool: they are 1003, 1005, the pool's are 0" in str(done.exception)


def test_ids_saved_as_objects_say_what_to_do(files, tmp_path):
    np.save(tmp_path / "ids.npy", np.array([f"item-{i}" for i in range(240)], object))
    done = runner.invoke(app, ["query", "-k", "3", *files, "--ids", str(tmp_path / "ids.npy")])
    assert "ids.astype(str)" in str(done.exception)


def test_the_package_is_the_command():
    done = subprocess.run([sys.executable, "-m", "ncalr", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ncalr {ncalr.__version__}\n"


def test_whole_number_ids_from_text_and_npy(files, tmp_path):
    (tmp_path / "ids.txt").write_text("\n".join(str(i + 1000) for i in range(240)))
    np.save(tmp_path / "ids.npy", np.arange(240) + 1000)
    outputs = {
        runner.invoke(app, ["query", "-k", "4", *files, "--ids", str(tmp_path / name)]).output
        for name in ("ids.txt", "ids.npy")
    }
    assert len(outputs) == 1


def test_notes_are_said(files):
    _, said, _ = run("query", "-k", "4", "--strategy", "maxherding", *files)
    assert "note: radius" in said


def test_errors_are_one_line(files, tmp_path):
    for words, text in [
        (["query", "-k", "4", "--strategy", "ncall", *files], "Did you mean 'ncal'"),
        (["query", "-k", "4", "--features", tmp_path / "nothing.npy"], "there is no file"),
        (["query", "-k", "4", *files, "--out", tmp_path / "picks.xls"], ".csv, .json or .npy"),
        (["query", "-k", "4", *files, "--out", tmp_path / "no" / "picks.csv"], "there is no folder"),
        (["query", "-k", "4", *files, "--ids", tmp_path / "none.txt"], "cannot read ids"),
        (
            ["query", "-k", "4", "--features", __file__],
            "cannot be read as .npy",
        ),
    ]:
        printed, said, code = run(*words)
        assert code == 2
        assert printed == ""
        assert text in said
        assert len(said.splitlines()) == 1


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ncalr", "strategies"])
    monkeypatch.setattr("ncalr.acquire.strategies", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main()


def test_strategies_as_json():
    found = json.loads(runner.invoke(app, ["strategies", "--json"]).output)
    assert [s["name"] for s in found["strategies"]] == list(strategies())
    assert [s["name"] for s in found["selectors"]] == list(selectors())
    assert all(s["cost"] and s["summary"] for s in found["strategies"])


def test_strategies_as_tables():
    shown = runner.invoke(app, ["strategies"], env={"COLUMNS": "160"}).output
    for name in (*strategies(), *selectors()):
        assert name in shown


# -- suggest ----------------------------------------------------------------------------------------------------


@pytest.fixture
def embeddings(tmp_path):
    """Vectors of three bunches and a table with the labels of thirty."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 150)
    np.save(tmp_path / "items.npy", (3 * np.eye(5)[truth] + rng.normal(size=(150, 5))).astype(np.float32))
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *((at, "abc"[truth[at]]) for at in range(30))])
    return tmp_path / "items.npy", tmp_path / "labels.csv"


def test_suggest_from_vectors_and_labels(embeddings, tmp_path):
    out = tmp_path / "picks.csv"
    done = runner.invoke(app, ["suggest", *map(str, embeddings), "-k", "7", "--out", str(out)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [list(row) for row in rows[:1]] == [["rank", "id", "score", "dynamics", "balance"]]
    assert len({int(row["id"]) for row in rows} - set(range(30))) == 7
    assert "on 30 labels of 3 classes" in done.stderr
    again = runner.invoke(app, ["suggest", *map(str, embeddings), "-k", "3", "--exclude", str(out)])
    assert not {row["id"] for row in csv.DictReader(again.stdout.splitlines())} & {row["id"] for row in rows}


ODD = ["=1+1", "+a", "-b", "@c", "\uff20q", "'e", "\uff1df", "plain", 'a,"b"', "x=1"]
SHOWN = ["'=1+1", "'+a", "'-b", "'@c", "'\uff20q", "''e", "'\uff1df", "plain", 'a,"b"', "x=1"]


@pytest.mark.parametrize(("options", "expected"), [((), ODD), (("--spreadsheet",), SHOWN)])
def test_what_a_spreadsheet_would_run_is_escaped_on_request(embeddings, tmp_path, options, expected):
    ids, few, out = tmp_path / "ids.npy", tmp_path / "few.csv", tmp_path / "picks.csv"
    np.save(ids, np.array([*ODD, *(f"n{at}" for at in range(10, 150))]))
    few.write_text("id,label\n" + "".join(f"n{at},{'ab'[at % 2]}\n" for at in range(10, 150)))
    ask = ["suggest", embeddings[0], few, "--strategy", "random", "--ids", ids]
    done = runner.invoke(app, [*map(str, ask), *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["id"] for row in rows} == set(expected)
    with out.open("w", newline="") as file:  # labelled there, the table is read back: the ids are the items' again
        csv.writer(file).writerows([("id", "label"), *((row["id"], "a") for row in rows)])
    again = runner.invoke(app, [*map(str, ask[:3]), str(out), *map(str, ask[3:])])
    assert "all 150 items have a label" in str(again.exception)


def test_picks_of_a_query_are_escaped_on_request(tmp_path):
    np.save(tmp_path / "ids.npy", np.array(ODD))
    ask = ["query", "-k", "10", "--strategy", "random", "--ids", str(tmp_path / "ids.npy")]
    for options, expected in (((), ODD), (("--spreadsheet",), SHOWN)):
        done = runner.invoke(app, [*ask, *options])
        assert {row["id"] for row in csv.DictReader(done.stdout.splitlines())} == set(expected)


def test_control_items_and_a_forecast(embeddings, tmp_path):
    items, labels = embeddings
    out = tmp_path / "picks.csv"
    assert run("suggest", items, labels, "-k", 10, "--strategy", "coreset", "--control", 0.3, "--out", out)[2] == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert sorted(row["why"] for row in rows) == ["control"] * 3 + ["strategy"] * 7
    assert {row["score"] for row in rows if row["why"] == "control"} == {""}
    found, _, code = run("forecast", items, labels, "-k", "5,10", "--target", 0.9, "--control", "all")
    assert code == 0
    assert len(found.splitlines()) == 4
    listed = tmp_path / "random.csv"
    listed.write_text("id\n" + "\n".join(str(at) for at in range(10)))
    found, _, _ = run("forecast", items, labels, "-k", 5, "--control", listed, "--json")
    told = json.loads(found)
    assert (told["control"], len(told["ahead"]), told["ahead"][0]["labels"] - told["now"]["labels"]) == (10, 1, 5)
    _, errors, code = run("forecast", items, labels, "-k", "5,ten")
    assert code
    assert "`-k`" in errors


@pytest.mark.parametrize(("items", "excluded", "expected"), [(150, 0, 100), (39, 0, 39), (150, 70, 80)])
def test_suggest_picks_a_hundred_or_what_is_left(tmp_path, items, excluded, expected):
    np.save(tmp_path / "items.npy", np.random.default_rng(0).normal(size=(items, 3)).astype(np.float32))
    np.save(tmp_path / "others.npy", np.arange(excluded))
    more = ["--exclude", tmp_path / "others.npy"] if excluded else []
    found, errors, code = run("suggest", tmp_path / "items.npy", "--strategy", "random", *more)
    assert (len(found.splitlines()) - 1, code) == (expected, 0), errors


def test_suggest_where_nothing_is_left_says_so(tmp_path):
    np.save(tmp_path / "items.npy", np.zeros((3, 2), np.float32))
    np.save(tmp_path / "all.npy", np.arange(3))
    _, errors, code = run("suggest", tmp_path / "items.npy", "--strategy", "random", "--exclude", tmp_path / "all.npy")
    assert (code, "all 3 items are excluded: none is left to pick" in errors) == (2, True)


def test_blank_rows_that_a_spreadsheet_leaves_behind_are_no_labels(embeddings):
    items, labels = embeddings
    ask = ["suggest", items, labels, "-k", 2, "--strategy", "random"]
    before = run(*ask)
    labels.write_text(labels.read_text().rstrip() + "\n,\n,,\n")
    assert run(*ask) == before


def test_what_people_wrote_is_not_replaced(embeddings, tmp_path):
    """The same line again, from the history of the shell, would write picks over the labels of those before."""
    items, labels = embeddings
    picks = tmp_path / "picks.csv"
    ask = ["suggest", items, labels, "-k", 2, "--strategy", "random", "--out"]
    for _ in range(2):  # nobody has labelled them yet
        assert run(*ask, picks)[2] == 0
    for out in (labels, tmp_path / "." / labels.name):
        before = labels.read_bytes()
        _, errors, code = run(*ask, out)
        assert (code, labels.read_bytes()) == (2, before)
        assert "is read here, and --out would replace it" in errors
    for head, told in (("id,label", True), ("ID;Label", True), ("id,labelled", False)):
        by = ";" if ";" in head else ","
        written = f"{head}\n1{by}cat\n2{by} \n3{by}\n"
        picks.write_text(written)
        _, errors, code = run(*ask, picks)
        assert (code, "holds 1 labels, which would be lost" in errors) == ((2, True) if told else (0, False))
        assert (picks.read_text() == written) == told
    np.save(tmp_path / "probs.npy", np.full((4, 2), 0.5))
    picks.write_text("id,label\n1,cat\n")
    assert run("query", "-k", 1, "--strategy", "margin", "--probs", tmp_path / "probs.npy", "--out", picks)[2] == 2


def test_probabilities_passed_as_logits_are_told(tmp_path):
    np.save(tmp_path / "p.npy", np.random.default_rng(0).dirichlet(np.ones(3), 20))
    _, errors, code = run("query", "-k", 3, "--strategy", "entropy", "--logits", tmp_path / "p.npy")
    assert code == 0
    assert "note: the rows of logits look like probabilities" in errors
    assert run("query", "-k", 3, "--strategy", "entropy", "--probs", tmp_path / "p.npy")[1] == ""


def test_the_default_strategy_is_ncal_coverage(files, embeddings):
    done = runner.invoke(app, ["query", "-k", "9", *files])
    wanted = ncalr.query("ncal_coverage", 9, **testing.example_pool()).ids.tolist()
    assert [int(row["id"]) for row in csv.DictReader(done.stdout.splitlines())] == wanted
    done = runner.invoke(app, ["suggest", *map(str, embeddings), "-k", "9"])
    assert "Trained a logistic regression" in done.stderr


def test_query_without_a_model_names_suggest(embeddings):
    assert run("query", "-k", 3, "--features", embeddings[0])[2] == 0
    _, errors, code = run("query", "-k", 3, "--strategy", "ncal", "--features", embeddings[0])
    assert code == 2
    assert errors.rstrip().endswith("ncalr suggest trains one on the way")
    assert run("suggest", embeddings[0], "-k", 3)[2] == 0
    _, errors, code = run("suggest", embeddings[0], "-k", 3, "--strategy", "ncal")
    assert code == 2
    assert "no item has a label" in errors
    assert run("suggest", embeddings[0], "-k", 3, "--strategy", "random")[2] == 0


# -- packages that are not there --------------------------------------------------------------------------------


MISSING = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name == {module!r} else PathFinder.find_spec(name, *where)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def without(module, program, *words):
    """Output, errors and exit code of a program where a module cannot be found."""
    command = [sys.executable, "-c", MISSING.format(module=module) + program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout, done.stderr, done.returncode


MAIN = "from ncalr.cli import main; main()"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "digits", "--out", "there"],
        ["pool", "create", "there", "--images", "here", "--network", "resnet8", "--untrained"],
    ],
)
def test_without_torch_the_line_that_installs_it(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    _, errors, code = without("torch", MAIN, *words)
    assert code == 2
    assert errors.splitlines()[-1].endswith("pip install 'ncalr[torch]'")
    assert "Traceback" not in errors
    assert not (tmp_path / "there").exists()


def test_without_matplotlib_nothing_is_trained_in_vain(tmp_path):
    _, errors, code = without("matplotlib", MAIN, "run", "digits", "--out", tmp_path / "there")
    assert (code, errors) == (2, "ncalr: a report needs matplotlib; install it with: pip install 'ncalr[lab]'\n")
    assert not (tmp_path / "there").exists()


def test_a_module_that_nobody_knows_is_a_fault_of_ours():
    _, errors, code = without("ncalr.acquire.query", MAIN, "query", "-k", 1)
    assert code == 1
    assert "Traceback" in errors


def test_a_learner_without_torch():
    program = """
from ncalr.errors import MissingExtra
from ncalr.learn import Job, SklearnLearner
try:
    from ncalr.learn import TorchLearner
except MissingExtra as error:
    print(error)
"""
    said = "TorchLearner needs torch; install it with: pip install 'ncalr[torch]'\n"
    assert without("torch", program) == (said, "", 0)
