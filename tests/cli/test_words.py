"""What the commands say unasked, and in whose words."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from ncalr.acquire import selectors, strategies
from ncalr.cli.app import app
from ncalr.cli.run import _print_table
from ncalr.errors import BadInput
from ncalr.kernels import choose
from ncalr.lab.experiment import Experiment
from ncalr.lab.plots import learning_curves
from ncalr.lab.session import carry_out
from ncalr.learn import TorchLearner


def invoke(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


def test_strategies_fit_eighty_columns_and_show_every_option():
    shown = invoke("strategies", env={"COLUMNS": "80", "NO_COLOR": "1"}).output
    assert max(map(len, shown.splitlines())) <= 80
    flat = " ".join(shown.split())
    for known in (strategies(), selectors()):
        for name, kind in known.items():
            assert any(line.startswith(f"{name}  ") for line in shown.splitlines()), name
            for option in kind.options:
                assert f"{option}=" in flat, (name, option)
    words = set(flat.replace(",", " ").replace(";", " ").split())
    assert {"labelled_outputs", "sampled_probs", "checkpoint_predictions"} <= words  # not cut in two


def test_help_fills_its_lines():
    shown = invoke("report", "--help", env={"COLUMNS": "80", "NO_COLOR": "1"}).output
    assert "who beats whom, in across.html" in shown  # the source's line ends in between


def test_missing_arrays_are_named_as_flags(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros((4, 2), np.float32))
    said = str(invoke("query", "-k", 1, "--strategy", "margin", "--features", tmp_path / "f.npy").exception)
    assert "pass --logits or --probs" in said
    said = str(invoke("query", "-k", 1, "--strategy", "cmap", "--features", tmp_path / "f.npy").exception)
    assert "--labelled-features and --labels" in said


def test_a_device_that_is_none_is_one_clause():
    with pytest.raises(BadInput, match=r"device 'gpu' cannot be used here .there is no such kind") as error:
        choose("gpu")
    assert len(str(error.value)) < 120
    with pytest.raises(BadInput, match="there is no device 'gpu': cpu and cuda are"):
        TorchLearner(device="gpu")


def small(tmp_path, **changes):
    facts = {"strategies": ("random",), "seeds": 1, "start": 20, "step": 10, "end": 30}
    experiment = Experiment(**{**facts, "recipe": "digits(epochs=2, checkpoints=2)", **changes})
    carry_out(experiment, tmp_path, device="cpu")


def test_a_log_has_a_line_for_every_training(tmp_path, capsys):
    assert not sys.stdout.isatty()
    small(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" %")[2] for line in lines] == [" (training 1 of 2)", " (training 2 of 2)"]
    assert lines[0].startswith("random, seed 0: 20 labels, ")
    small(tmp_path)
    assert "went on after 2 of 2" in capsys.readouterr().err


def test_a_budget_beyond_the_pool_is_said(tmp_path, capsys):
    small(tmp_path, start=1290, step=700, end=2000, recipe="digits(epochs=2, checkpoints=2, batch=512)")
    note, *said = capsys.readouterr().err.splitlines()
    assert note == "note: the pool has 1,297 items: the curves end there, not at 2,000"
    assert [line.partition(" %")[2] for line in said] == [" (training 1 of 2)", " (training 2 of 2)"]
    assert (
        "1290 to 1297 labels by 700 (all of the pool; the plan went to 2,000)" in (tmp_path / "report.html").read_text()
    )
    small(tmp_path, start=1290, step=700, end=2000, recipe="digits(epochs=2, checkpoints=2, batch=512)")
    assert "1,297 labels" in (said := capsys.readouterr().err)
    assert "went on after 2 of 2" in said


def test_the_size_of_images_is_said_where_nobody_chose_it(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    photos = tmp_path / "photos"
    for at in range(60):
        (photos / "ab"[at % 2]).mkdir(parents=True, exist_ok=True)
        image.new("L", (12, 9), 3 * at).save(photos / "ab"[at % 2] / f"{at:02}.png")
    for spec, words in {"photos": "a/00.png has 12 x 9; for another size", "photos(size=8)": ""}.items():
        small(tmp_path / f"out {spec}", dataset=str(tmp_path / spec))
        said = capsys.readouterr().err
        assert ("note: images are brought to 64 x 64 pixels" in said) == bool(words)
        assert words in said
    (photos / "a" / "00.png").write_bytes(b"no image")
    with pytest.raises(BadInput, match=r"00\.png cannot be read as an image .* skip_broken=true"):
        small(tmp_path / "broken", dataset=str(photos))


def test_no_accuracy_is_drawn_below_nothing(monkeypatch):
    from ncalr.lab import plots

    kept = []
    monkeypatch.setattr(plots, "_svg", lambda figure: kept.append(figure) or "")
    for mean, limits in (([0.02, 0.99], (0, 100)), ([0.2, 0.4], (17, 43))):
        rows = {"mean": mean, "low": [-0.3, -0.1], "high": [0.7, 1.4]}
        learning_curves({"strategies": ["random"], "budgets": [20, 40], "accuracy": {"random": rows}})
        assert kept[-1].axes[0].get_ylim() == pytest.approx(limits), "the axis follows the means, not wide bands"


def test_long_names_of_strategies_are_told_apart(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    names = ["ncal(fusion=rank, means=trimmed)", "ncal(fusion=rank, means=median)"]
    _print_table(
        ["strategy", *["a wide column of numbers"] * 4], [[name, *["97.7 (95.5 to 100.0)"] * 4] for name in names]
    )
    shown = "".join(capsys.readouterr().out.split())
    assert "…" not in shown
    assert shown.count("ncal(") == 2
