"""The journal: whole lines, torn lines, full disks, second writers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import ncalr
from ncalr.errors import BadInput, NcalrError, Note
from ncalr.loop.environment import environment, read_environments
from ncalr.loop.journal import Busy, Journal, without_times


def test_lines_come_back(tmp_path):
    journal = Journal(tmp_path / "run")
    journal.begin({"strategy": "ncal"})
    assert journal.lines() == []
    for number in range(3):
        journal.append({"round": number, "ids": ["ä", number], "labels": [0, 1]})
    assert [line["round"] for line in Journal(tmp_path / "run").lines()] == [0, 1, 2]
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["versions"]["numpy"]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_torn_last_line_is_dropped_with_a_word(tmp_path, cut):
    journal = Journal(tmp_path)
    journal.append({"round": 0})
    journal.append({"round": 1})
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-cut])
    again = Journal(tmp_path)
    assert again.lines() == [{"round": 0}]
    with pytest.warns(Note, match=rf"journal.jsonl was torn \({len(whole) // 2 - cut} bytes\): written again"):
        again.append({"round": 1})
    assert journal.path.read_bytes() == whole


def test_to_read_a_journal_that_is_being_written_changes_nothing(tmp_path):
    """A report may be made while a run goes on: what it finds of a line that is half written is not torn."""
    journal = Journal(tmp_path)
    journal.append({"round": 0})
    with journal.path.open("ab") as file:
        file.write(b'{"round": ')
        file.flush()
        assert Journal(tmp_path).lines() == [{"round": 0}]
        file.write(b"1}\n")
    assert Journal(tmp_path).lines() == [{"round": 0}, {"round": 1}]


def test_a_spoilt_line_in_the_middle_is_an_error(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"round": 0}\nnonsense\n{"round": 2}\n')
    with pytest.raises(BadInput, match="line 2 of"):
        Journal(tmp_path).lines()
    assert "nonsense" in (tmp_path / "journal.jsonl").read_text()


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.append({"round": 0})
    before = journal.path.read_bytes()

    def full(_number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NcalrError, match=r"No space left on device.*nothing is lost"):
        journal.append({"round": 1})
    monkeypatch.undo()
    assert journal.path.read_bytes() == before


def test_not_a_number_does_not_get_in(tmp_path):
    with pytest.raises(ValueError, match=r"not JSON compliant|Out of range"):
        Journal(tmp_path).append({"accuracy": float("nan")})
    assert not (tmp_path / "journal.jsonl").exists()


def test_another_experiment_is_left_alone(tmp_path):
    Journal(tmp_path).begin({"strategy": "ncal", "seed": 3})
    Journal(tmp_path).begin({"strategy": "ncal", "seed": 1})  # nothing was written yet
    Journal(tmp_path).append({"round": 0})
    Journal(tmp_path).begin({"strategy": "ncal", "seed": 1})
    with pytest.raises(BadInput, match="different: seed"):
        Journal(tmp_path).begin({"strategy": "ncal", "seed": 2})


def test_a_second_process_is_turned_away(tmp_path):
    code = (
        "import sys\nfrom ncalr.loop.journal import Journal, Busy\n"
        "try:\n    with Journal(sys.argv[1]).locked(): print('in')\n"
        "except Busy as error: print('busy', error)"
    )
    with Journal(tmp_path).locked():
        other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        assert other.stdout.startswith("busy")
        assert str(os.getpid()) in other.stdout
    after = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert after.stdout.startswith("in")


def test_what_differs_between_runs_is_known():
    assert without_times({"round": 1, "seconds": {"train": 2}}) == {"round": 1}
    assert {"python", "versions", "cores"} <= set(environment())
    assert issubclass(Busy, NcalrError)


def test_the_environment_has_the_version_and_the_code_installed_or_not(monkeypatch):
    from importlib import metadata

    def not_installed(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    found = environment()
    assert found["versions"] == {"ncalr": ncalr.__version__}
    assert len(found["code"]) == 12
    assert found["code"] == environment()["code"]


def test_a_run_that_goes_on_elsewhere_says_from_which_round_on(tmp_path, monkeypatch):
    def going_on(number, **other):
        with monkeypatch.context() as changed:
            changed.setattr("ncalr.loop.environment.environment", lambda: {**here, **other})
            journal = Journal(tmp_path)
            journal.begin({"strategy": "ncal"})
            journal.append({"round": number})

    here = environment()
    going_on(0)
    going_on(1, threads=99)
    assert "later" not in json.loads((tmp_path / "environment.json").read_text()), "threads are those it began with"
    going_on(2, code="0123456789ab")
    going_on(3, code="0123456789ab")
    going_on(4)
    found = read_environments(tmp_path)
    assert [one.get("round") for one in found] == [None, 2, 4]
    assert [one["code"] for one in found] == [here["code"], "0123456789ab", here["code"]]
    assert json.loads((tmp_path / "environment.json").read_text())["versions"] == here["versions"]
    Journal(tmp_path).begin({"strategy": "ncal"})
    assert len(read_environments(tmp_path)) == 3, "to look at a run is not to go on with it"


def test_to_know_the_environment_starts_no_program(monkeypatch):
    """One that is starting when the run is killed holds its lock a little longer, and the next run finds it busy."""

    def started(*_, **__):
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr("platform._uname_cache", None)
    assert environment()["processor"]
