"""`ncalr run`, `ncalr resume`, `ncalr report` on digits."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from ncalr.cli.app import app

SMALL = ["--seeds", "1", "--start", "30", "--step", "10", "--end", "40", "--recipe", "digits(epochs=3, checkpoints=2)"]


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_run_resume_report(tmp_path):
    out = tmp_path / "out"
    done = invoke("run", "digits", "--against", "random,margin", *SMALL, "--device", "cpu", "--out", out)
    assert done.exit_code == 0, done.output
    assert "report:" in done.output
    assert "margin" in done.output
    assert (out / "report.html").exists()
    before = {path: path.read_bytes() for path in out.rglob("journal.jsonl")}
    assert len(before) == 3
    again = invoke("resume", out, "--device", "cpu")
    assert again.exit_code == 0, again.output
    assert {path: path.read_bytes() for path in out.rglob("journal.jsonl")} == before
    (out / "report.html").unlink()
    assert invoke("report", out).exit_code == 0
    assert (out / "report.html").exists()


def test_from_a_file(tmp_path):
    config = tmp_path / "e.toml"
    config.write_text(
        'strategies = ["random"]\nseeds = 1\nstart = 30\nend = 30\nrecipe = "digits(epochs=3, checkpoints=2)"\n'
    )
    done = invoke("run", "--config", config, "--device", "cpu", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "experiment.json").read_text())["strategies"] == ["random"]


def test_a_wrong_dataset_is_named(tmp_path):
    done = invoke("run", "digts", "--out", tmp_path / "out")
    assert done.exit_code != 0
    assert "digits" in f"{done.output}{done.exception}"
    assert not (tmp_path / "out").exists()
