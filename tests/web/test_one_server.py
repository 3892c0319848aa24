"""One server trains a project: a second one is turned away, a killed one is in nobody's way."""

from __future__ import annotations

import os
import re
import signal
from urllib.request import urlopen

import pytest
from command import label, start

from ncalr.errors import BadInput
from ncalr.web.folder import Folder
from ncalr.web.guard import Address
from ncalr.web.serve import alone
from ncalr.web.store import projects


@pytest.fixture
def notes(tmp_path):
    (tmp_path / "notes.csv").write_text("id,text\n" + "".join(f"n{at},word {at}\n" for at in range(6)))
    return tmp_path / "notes.csv"


@pytest.fixture
def served(notes):
    """Starts servers, and ends them with the test."""
    running = []

    def begin(*words):
        process, link = start(notes, *words)
        running.append(process)
        return process, link.partition("/#")[0]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def refused(notes, *words):
    process = label(notes, *words)
    try:
        said, _ = process.communicate(timeout=60)
    finally:  # where it serves, against what is expected
        process.kill()
    assert process.returncode
    return " ".join(said.split())


def test_a_second_server_is_turned_away_and_a_killed_one_is_in_nobodys_way(notes, served):
    first, address = served("--classes", "a,b")
    folder = Folder.beside(notes)
    said = refused(notes, "--resume", "--votes", "3")
    assert f"another server has {folder.path} open (process {first.pid}, {address}): go on there" in said
    assert f"kill {first.pid}" in said
    assert re.search(rf"ncalr labels invite {re.escape(str(folder.path))} --person \S+ --url {address}\. ", said)
    assert f"process {first.pid}, {address}" in refused(notes, "--classes", "a,b"), "whatever else is wrong"
    store = folder.open()
    assert store.read(projects.load).votes == 1, "nothing was changed"
    store.close()
    _, beside = served("--resume", "--no-training")  # one that only serves may stand beside it
    for one in (address, beside):
        assert urlopen(f"{one}/api/health").status == 200
    first.send_signal(signal.SIGKILL)
    first.wait()
    _, again = served("--resume")
    assert urlopen(f"{again}/api/health").status == 200


def test_two_of_one_process_are_two(small, tmp_path):
    small.project()
    folder = Folder(tmp_path)
    with alone(folder, small.store, Address(port=1)):
        with pytest.raises(BadInput, match=rf"process {os.getpid()}, http://127.0.0.1:1") as error:
            alone(folder, small.store, Address(port=2)).__enter__()
        assert "invite" not in str(error.value), "nobody to let in"
        (tmp_path / "server.lock").write_text("")  # it is just about to say where it is
        with pytest.raises(BadInput, match=r"another server has .* open; go on there, or stop it"):
            alone(folder, small.store, Address(port=2)).__enter__()
    with alone(folder, small.store, Address(port=2)):
        pass
