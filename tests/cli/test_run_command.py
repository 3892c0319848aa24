"""`ncalr run`, `ncalr resume`, `ncalr report` on digits."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
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
    done = invoke("report", out, "--figures", tmp_path / "figures")
    assert done.exit_code == 0
    page = (out / "report.html").read_text()
    assert f"{page.count('<svg')} figures, as SVG and PDF: {tmp_path / 'figures'}" in done.output.replace("\n", "")
    curves = (tmp_path / "figures" / "learning-curves.svg").read_text()
    assert ET.fromstring(curves).tag.endswith("svg")
    assert curves.split("\n", 1)[1].strip() in page
    assert (tmp_path / "figures" / "learning-curves.pdf").read_bytes().startswith(b"%PDF")
    assert page.count("<figure class=card><img") == 10 + 12
    assert "before the network had settled on its own labels" in page, "three epochs are not enough"
    assert "What ncal wanted most" in page
    assert "What ncal wanted least" in page
    assert "Distances between class means" in page
    assert "cmap " in page


def test_a_wrong_value_of_a_strategy_s_option_is_said_before_anything_is_claimed_or_trained(tmp_path):
    out = tmp_path / "out"
    refused = invoke("run", "digits", "--against", "margin,ncal(fusion=rnk)", *SMALL, "--device", "cpu", "--out", out)
    assert "fusion must be 'zscore', 'rank' or 'winsor', got 'rnk'" in str(refused.exception)
    assert not out.exists()


def test_a_folder_of_texts(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for split, count in (("train", 60), ("test", 20)):
        labels = [at % 2 for at in range(count)]
        texts = [f"a {('dull', 'great')[label]} film {at % 7}" for at, label in enumerate(labels)]
        (tmp_path / "texts").mkdir(exist_ok=True)
        parquet.write_table(arrow.table({"text": texts, "label": labels}), tmp_path / "texts" / f"{split}.parquet")
    out = tmp_path / "out"
    refused = invoke("run", tmp_path / "texts", *SMALL, "--device", "cpu", "--out", out)
    assert "network 'resnet8' takes images, the pool holds texts; take 'mlp'" in str(refused.exception)
    assert not out.exists()
    done = invoke(
        "run", tmp_path / "texts", *SMALL, "--network", "mlp", "--keep", "last", "--device", "cpu", "--out", out
    )
    assert done.exit_code == 0, done.output
    assert (out / "report.html").exists()
    looked = invoke("evaluate", out, "--tasks", "calibration", "--device", "cpu")
    assert looked.exit_code == 0, looked.output


def test_a_table_of_texts(tmp_path):
    rows = [f"a {('dull', 'great')[at % 2]} film {at % 7},{('no', 'yes')[at % 2]}" for at in range(100)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    out = tmp_path / "out"
    done = invoke("run", tmp_path / "texts.csv", *SMALL, "--network", "mlp", "--device", "cpu", "--out", out)
    assert done.exit_code == 0, done.output
    assert invoke("resume", out, "--device", "cpu").exit_code == 0


def test_from_a_file(tmp_path):
    config = tmp_path / "e.toml"
    config.write_text(
        'strategies = ["random"]\nseeds = 1\nstart = 30\nend = 30\nrecipe = "digits(epochs=3, checkpoints=2)"\n'
    )
    done = invoke("run", "--config", config, "--device", "cpu", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "experiment.json").read_text())["strategies"] == ["random"]


def test_the_papers_budgets():
    """2 to 20 % of 50,000 by 2; 10 to 45 % by 5; 10 to 40 % of 130,000 by 5."""
    expected = {
        "cifar10": [1000 * i for i in range(1, 11)],
        "cifar100": [5000 + 2500 * i for i in range(8)],
        "imagenet100": [13000 + 6500 * i for i in range(7)],
        "mini_imagenet": [5000 + 2500 * i for i in range(7)],
    }
    for name, budgets in expected.items():
        done = invoke("reproduce", name, "--dry-run")
        assert done.exit_code == 0, done.output
        line = next(line for line in done.output.splitlines() if line.startswith("labels: "))
        assert [int(part.replace(",", "")) for part in line[8:].split(", ")] == budgets
    assert "cifar10" in f"{invoke('reproduce', 'cifar', '--dry-run').exception}"


def test_doctor_says_what_is_missing(tmp_path, monkeypatch):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "mini_imagenet64").mkdir()
    facts = json.loads(invoke("doctor", "--root", tmp_path, "--json").output)
    assert facts["datasets"]["digits"]
    assert facts["datasets"]["cifar10"]
    assert not facts["datasets"]["cifar100"]
    assert facts["datasets"]["mini_imagenet"], "under its other name"
    assert facts["devices"][0] == "cpu"
    assert facts["extras"]["torch"]["here"]
    monkeypatch.setitem(
        __import__("ncalr.cli.doctor", fromlist=["EXTRAS"]).EXTRAS, "no_such_module", ("lab", "nothing")
    )
    text = invoke("doctor", "--root", tmp_path).output
    assert "no_such_module" in text
    assert "pip install 'ncalr[lab]'" in text
    lines = text.splitlines()
    at = next(place for place, line in enumerate(lines) if line.strip().startswith("cifar100 "))
    assert "not there; 50,000 items and 10,000 for the test, 100 classes; licence: none stated" in lines[at]
    assert f"download('cifar100', '{tmp_path}')" in lines[at + 1]
    assert any("It comes from https://image-net.org" in line and f"{tmp_path}/imagenet100" in line for line in lines)
    assert "download('cifar10'" not in text, "what is here need not be fetched"


def test_a_wrong_dataset_is_named(tmp_path):
    done = invoke("run", "digts", "--out", tmp_path / "out")
    assert done.exit_code != 0
    assert "digits" in f"{done.output}{done.exception}"
    assert not (tmp_path / "out").exists()


def test_a_rule_stops_it_by_flag_and_by_file(tmp_path):
    words = ["--against", "", "--strategy", "random", *SMALL, "--device", "cpu"]
    done = invoke("run", "digits", *words, "--stops", "target=0.01", "--out", tmp_path / "flag")
    assert done.exit_code == 0, done.output
    (tmp_path / "experiment.toml").write_text('stops = "target=0.01"')
    done = invoke("run", "--config", tmp_path / "experiment.toml", *words, "--out", tmp_path / "file")
    assert done.exit_code == 0, done.output
    for name in ("flag", "file"):
        assert json.loads((tmp_path / name / "experiment.json").read_text())["stops"] == "target=0.01"
        assert "When they stopped" in (tmp_path / name / "report.html").read_text()
    wrong = invoke("run", "digits", "--stops", "targt=0.9", "--out", tmp_path / "other")
    assert "Did you mean 'target'?" in str(wrong.exception)
    assert not (tmp_path / "other").exists()


def test_several_answers(tmp_path):
    out = tmp_path / "out"
    noise = ["--noise", "symmetric(rate=0.3)", "--answers", "votes(n=2)"]
    done = invoke(
        "run", "digits", "--against", "", *SMALL, *noise, "--strategy", "random", "--device", "cpu", "--out", out
    )
    assert done.exit_code == 0, done.output
    assert "Answers and wrong labels" in (out / "report.html").read_text()
    assert json.loads((out / "experiment.json").read_text())["answers"] == "votes(n=2)"
    wrong = invoke("run", "digits", "--answers", "dubts", "--out", tmp_path / "other")
    assert wrong.exit_code != 0
    assert "doubts" in str(wrong.output) + str(wrong.exception)
