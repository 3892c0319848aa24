"""What somebody who means harm may try: with a folder of data, as one of the team, and after being sent away."""

from __future__ import annotations

import subprocess

import pytest
from browserless import Server

from ncalr.web import serve
from ncalr.web.folder import Folder
from ncalr.web.media import Decoder


@pytest.fixture
def server(small):
    small.project(items=100)
    return Server(small)


# -- data from elsewhere


def test_nothing_that_lies_among_the_data_is_run(tmp_path, monkeypatch):
    for name in ("resource", "sqlalchemy", "numpy", "PIL", "ncalr"):  # what the processes beside the server import
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    decoder = Decoder()
    process = decoder.start()
    process.stdin.close()
    assert process.wait(60) == 0
    decoder.stop()
    monkeypatch.setattr(serve, "REST", 3600.0)
    with serve.training(Folder(tmp_path / "none.ncalr")) as supervisor:
        done = subprocess.run(supervisor.command, capture_output=True, text=True, timeout=120, check=False)
    assert "holds no labelling project" in done.stderr
    assert not (tmp_path / "ran").exists()
