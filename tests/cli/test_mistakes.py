"""Commands as they are mistyped, files as they are not there: one line that says what to do, and nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ncalr.cli.app import app
from ncalr.cli.query import check_out, read_array, read_ids
from ncalr.errors import BadInput, NcalrError
from ncalr.lab.experiment import Experiment
from ncalr.lab.runner import read_experiment
from ncalr.lab.session import carry_out
from ncalr.lab.study import Study

SMALL = [
    "--seeds",
    "1",
    "--start",
    "20",
    "--end",
    "20",
    "--recipe",
    "digits(epochs=2, checkpoints=2)",
    "--device",
    "cpu",
]


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def run(*words):
    """Errors and exit code of `ncalr WORDS`, as `main` ends it."""
    done = subprocess.run(
        [sys.executable, "-c", "from ncalr.cli import main; main()", *map(str, words)], capture_output=True, text=True
    )
    return done.stderr, done.returncode


# -- flags beside a file -----------------------------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch, tmp_path):
    """What `ncalr run` would carry out, and a file with an experiment."""
    found = []

    def stop(experiment, *_, **__):
        found.append(experiment)
        raise KeyboardInterrupt

    monkeypatch.setattr("ncalr.lab.session.carry_out", stop)
    config = tmp_path / "e.toml"
    config.write_text('dataset = "cifar10"\nstrategies = ["margin", "random"]\nseeds = 1\nfirst_seed = 4\n')

    def ask(*words):
        done = invoke("run", *words)
        assert done.exit_code == 130, done.output
        return found[-1]

    return ask, config


def test_several_noises_by_flags_or_by_a_file(planned, tmp_path):
    ask, config = planned
    wanted = Study(Experiment("cifar10", ("margin", "random"), 1, first_seed=4), ("none", "pairs(rate=0.5)"))
    assert ask("--config", config, "--noise", "none", "--noise", "pairs(rate=0.5)") == wanted
    several = tmp_path / "several.toml"
    several.write_text(config.read_text() + 'noise = ["none", "pairs(rate=0.5)"]\n')
    assert ask("--config", several) == wanted
    assert ask("--config", several, "--seeds", 2) == replace(wanted, experiment=replace(wanted.experiment, seeds=2))
    assert ask("--config", several, "--noise", "pairs(rate=0.5)") == wanted.members["pairs-rate=0.5"]
    assert ask("--config", several, "--noise", "none") == ask("--config", config) == wanted.experiment
    several.write_text("noise = 3\n")
    with pytest.raises(BadInput, match=r"noise must be a text such as .*, got 3"):
        raise invoke("run", "--config", several).exception


def test_flags_come_on_top_of_the_file(planned):
    ask, config = planned
    assert ask("--config", config) == Experiment("cifar10", ("margin", "random"), 1, first_seed=4)
    noisy = ask("--config", config, "--seeds", 3, "--noise", "symmetric(rate=0.5)")
    assert noisy == Experiment("cifar10", ("margin", "random"), 3, noise="symmetric(rate=0.5)", first_seed=4)
    assert ask("digits", "--config", config).dataset == "digits"
    assert ask("--config", config, "--first-seed", 0, "--stratified") == Experiment(
        "cifar10", ("margin", "random"), 1, stratified=True
    )
    assert ask("--config", config, "--strategy", "ncal").strategies == ("ncal", "random")
    assert ask("--config", config, "--against", "entropy,ff").strategies == ("margin", "entropy", "ff")


def test_without_a_file_the_flags_are_all(planned):
    ask, _ = planned
    assert ask("digits", "--strategy", "margin", "--against", "random,margin").strategies == ("margin", "random")
    assert ask().strategies == ("ncal", "random")


# -- ids ---------------------------------------------------------------------------------------------------------

IDS = {
    "leading zeros": (["00090", "00486"], "U"),
    "underscores": (["1_090", "2"], "U"),
    "beyond 64 bits": ([str(2**63), "1"], "U"),
    "a plus": (["+1", "2"], "U"),
    "other digits": (["٣", "2"], "U"),
    "numbers": (["90", "-3", "0", str(2**63 - 1)], "i"),
}


@pytest.mark.parametrize("case", IDS)
def test_ids_are_as_they_are_written(tmp_path, case):
    words, kind = IDS[case]
    (tmp_path / "ids.txt").write_text("\n".join(words) + "\n")
    found = read_ids(tmp_path / "ids.txt")
    assert found.dtype.kind == kind
    assert [str(name) for name in found.tolist()] == words


def test_ids_in_the_tables_people_have(tmp_path):
    (tmp_path / "a.csv").write_text("id;path\n7;x\n9;y\n")
    (tmp_path / "a.tsv").write_text("path\tid\nx\t07\ny\t9\n")
    (tmp_path / "a.jsonl").write_text('{"id": "7"}\n{"id": "9"}\n')
    (tmp_path / "b.csv").write_text("7\n9\n")
    assert read_ids(tmp_path / "a.csv").tolist() == read_ids(tmp_path / "b.csv").tolist() == [7, 9]
    assert read_ids(tmp_path / "a.tsv").tolist() == ["07", "9"]
    assert read_ids(tmp_path / "a.jsonl").tolist() == ["7", "9"]
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    parquet.write_table(pyarrow.table({"id": [7, 9], "path": ["x", "y"]}), tmp_path / "a.parquet")
    assert read_ids(tmp_path / "a.parquet").tolist() == [7, 9]
    assert read_ids(tmp_path / "a.parquet", texts=True).tolist() == ["7", "9"]
    parquet.write_table(pyarrow.table({"path": ["x", "y"]}), tmp_path / "p.parquet")
    with pytest.raises(BadInput, match=r"no column 'id'\. Known: path"):
        read_ids(tmp_path / "p.parquet")


def test_what_is_excluded_is_read_as_the_ids_are(tmp_path):
    np.save(tmp_path / "p.npy", np.full((3, 2), 0.5))
    (tmp_path / "ids.txt").write_text("007\n12\n13\n")
    (tmp_path / "not.txt").write_text("12\n13\n")
    done = invoke(
        "query",
        "-k",
        1,
        "--strategy",
        "margin",
        "--probs",
        tmp_path / "p.npy",
        "--ids",
        tmp_path / "ids.txt",
        "--exclude",
        tmp_path / "not.txt",
    )
    assert done.exit_code == 0, done.exception
    assert "1,007," in done.stdout


# -- a folder is claimed by what can be run -----------------------------------------------------------------------

WRONG = {
    "keep": ["--keep", "lst"],
    "control": ["--control", "2"],
    "noise": ["--noise", "symetric(rate=0.2)"],
    "rate": ["--noise", "symmetric(rate=2)"],
    "network": ["--network", "resnet9"],
    "network option": ["--network", "resnet18(stem=other)"],
    "loss": ["--recipe", "digits(loss=elrr, epochs=2, checkpoints=2)"],
    "engine": ["--engine", "procs"],
    "address": ["--address", "auto"],
    "second opinions of one": ["--answers", "votes(n=3)"],
    "second opinions of a file": ["--answers", "doubts", "--noise", "given(file='people.npz', labels=ann)"],
    "one of several noises": ["--noise", "none", "--noise", "symetric(rate=0.2)"],
    "the same noise twice": ["--noise", "symmetric(rate=0.2)", "--noise", "symmetric(rate = 0.2)"],
    "engine of several noises": ["--noise", "none", "--noise", "pairs(rate=0.2)", "--engine", "procs"],
    "selector": ["--strategy", "margin(select=quota(cap=abc))"],
}


@pytest.mark.parametrize("case", WRONG)
def test_a_refused_experiment_leaves_the_folder_free(tmp_path, case):
    out = tmp_path / "out"
    refused = invoke("run", "digits", *SMALL, *WRONG[case], "--out", out)
    assert isinstance(refused.exception, NcalrError), refused.output
    assert not out.exists()


def test_a_folder_in_which_nothing_was_written_may_be_claimed_anew(tmp_path):
    (tmp_path / "experiment.json").write_text(json.dumps(Experiment(keep="all").as_dict()))
    wanted = Experiment(strategies=("random",), seeds=1, start=20, end=20, recipe="digits(epochs=2, checkpoints=2)")
    carry_out(wanted, tmp_path, device="cpu", live=False)
    assert read_experiment(tmp_path) == wanted
    with pytest.raises(BadInput, match="holds another experiment"):
        carry_out(Experiment(strategies=("margin",)), tmp_path, device="cpu", live=False)


def test_a_recipe_that_is_none_is_found_in_a_dry_run():
    assert (
        "no recipe 'strng'. Did you mean 'strong'"
        in f"{invoke('reproduce', 'cifar10', '--dry-run', '--recipe', 'strng').exception}"
    )


# -- files that cannot be used -------------------------------------------------------------------------------------


def test_files_that_cannot_be_used_are_one_line(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "experiment.json").write_text('{"dataset": ')
    np.save(tmp_path / "f.npy", np.zeros((3, 2), np.float32))
    cases = [
        (["run", "digits", *SMALL, "--out", tmp_path / "file"], "a file is in the way; choose another place"),
        (["run", "--config", tmp_path / "nope.toml"], "cannot read the experiment file"),
        (["resume", tmp_path / "broken"], "experiment.json cannot be read"),
        (["pool", "create", tmp_path / "file", f"features={tmp_path / 'f.npy'}"], "a file is in the way"),
    ]
    for words, said in cases:
        errors, code = run(*words)
        assert code == 2, (words, errors)
        assert said in errors
        assert errors.count("\n") == 1
        assert errors.startswith("ncalr: ")


def test_an_error_that_nobody_foresaw_keeps_its_traceback(monkeypatch):
    from ncalr import cli

    def fail():
        raise OSError("something else")

    monkeypatch.setattr("ncalr.cli.app.app", fail)
    with pytest.raises(OSError, match="something else"):
        cli.main()


def test_an_audit_looks_at_its_file_before_it_trains(tmp_path, monkeypatch):
    monkeypatch.setattr("ncalr.evaluate.audit_run.audit_run", lambda *_, **__: pytest.fail("it trained"))
    for out in (tmp_path / "no" / "x.csv", tmp_path / "x.txt"):
        assert isinstance(invoke("audit", tmp_path, "--out", out).exception, BadInput)
    assert invoke("audit", tmp_path, "--top", -1).exit_code == 2


def test_where_to_write_is_looked_at(tmp_path):
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(BadInput, match="is a folder, and --out is the file to write"):
        check_out(tmp_path / "d.csv", ".csv")
    with pytest.raises(BadInput, match=r"must end in \.csv or \.json, got 'x\.txt'"):
        check_out(tmp_path / "x.txt", ".csv", ".json")
    check_out(tmp_path / "x.csv", ".csv")


def test_picks_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    np.save(tmp_path / "p.npy", np.full((3, 2), 0.5))

    def full(_):
        raise OSError(28, "No space left on device")

    for name in ("p.csv", "p.json", "p.ids.npy"):
        out = tmp_path / name
        out.write_text("the old ones")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            done = invoke("query", "-k", 2, "--strategy", "margin", "--probs", tmp_path / "p.npy", "--out", out)
        assert isinstance(done.exception, OSError)
        assert out.read_text() == "the old ones"
    assert not list(tmp_path.glob("*.part"))


def test_files_of_other_kinds_are_told_where_they_belong(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    for name, said in (
        ("a.npz", "ncalr pool create POOL .*a.npz"),
        ("t.parquet", "--ids COLUMN"),
        ("o.npy", "objects"),
        ("none.npy", "there is no file"),
        (".", "is a folder"),
    ):
        with pytest.raises(BadInput, match=said) as error:
            read_array(Path(tmp_path / name))
        assert "pickle" not in str(error.value)


def test_what_is_for_pools_alone_is_not_ignored(tmp_path):
    np.save(tmp_path / "p.npy", np.full((3, 2), 0.5))
    for flag in (["--engine", "ray"], ["--workers", "3"], ["--address", "auto"]):
        done = invoke("query", "-k", 1, "--strategy", "margin", "--probs", tmp_path / "p.npy", *flag)
        assert f"{flag[0]}: for --pool alone" in str(done.exception)


# -- labels counted from 1 ---------------------------------------------------------------------------------------


def test_labels_counted_from_1_are_noted_in_one_line(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"features": rng.random((9, 2)), "predictions": np.full(9, 1), "labelled_features": rng.random((4, 2))}
    words = []
    for name, array in {**arrays, "labels": np.array([1, 2, 1, 2])}.items():
        np.save(tmp_path / f"{name}.npy", array)
        words += [f"--{name.replace('_', '-')}", tmp_path / f"{name}.npy"]
    done = invoke("query", "-k", 2, "--strategy", "cmap", *words)
    assert "note: the labels lie in 1..2, and classes count from 0: class 0 has no label." in done.stderr
    assert "count from" not in invoke("query", "-k", 2, "--strategy", "cmap", *words, "--classes", 3).stderr


def test_a_folder_of_arrays_with_labels_counted_from_1_is_noted_in_one_line(tmp_path):
    for split in ("train", "test"):
        np.save(tmp_path / f"{split}_images.npy", np.zeros((6, 8, 8, 1), np.uint8))
        np.save(tmp_path / f"{split}_labels.npy", np.array([1, 2, 3, 1, 2, 3]))
    ask = ("run", f"{tmp_path}/", "--recipe", "no-such-recipe", "--out", tmp_path / "out")
    words, code = run(*ask)
    assert code == 2
    assert words.startswith(f"note: {tmp_path}: the labels lie in 1..3, and classes count from 0: class 0 has no label")
    assert f"save labels - 1; if class 0 has none yet, write the names of all into {tmp_path}/classes.json" in words
    (tmp_path / "classes.json").write_text('["none", "a", "b", "c"]')
    assert "note:" not in run(*ask)[0]
