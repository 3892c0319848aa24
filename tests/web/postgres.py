"""A PostgreSQL of one's own: a cluster in a temporary folder, on loopback, never run by root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest


def programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    known = shutil.which("initdb")
    return Path(known).parent if known else None


class Cluster:
    def __init__(self, folder: Path, *settings: str):
        self.bin, self.folder, self.port = programs(), folder, free_port()
        if self.bin is None:
            pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
        self.user = self._other_user(folder) if os.getuid() == 0 else None
        self._run("initdb", "-D", str(folder / "data"), "-U", "ncalr", "--auth=trust", "--no-sync")
        self.settings = settings
        self.start()

    def start(self) -> None:
        options = [f"-p {self.port}", "-h 127.0.0.1", f"-k {self.folder}", *(f"-c {each}" for each in self.settings)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.bin / "postgres"), "-D", str(self.folder / "data"), *" ".join(options).split()],
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=self.user,
                cwd=self.folder,
            )
        import psycopg

        for _ in range(200):
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    pytest.skip(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-300:]}")
                time.sleep(0.05)
        pytest.skip("PostgreSQL did not answer within ten seconds")

    def url(self, database: str) -> str:
        return f"postgresql://ncalr@127.0.0.1:{self.port}/{database}"

    def database(self, name: str) -> str:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)  # fast: does not wait for clients
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:  # a busy disk: nothing of it is needed any more
            self.process.kill()
            self.process.wait()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.bin / program), *arguments], user=self.user, capture_output=True, cwd=self.folder, text=True
        )
        if done.returncode:
            pytest.skip(f"{program} failed here: {done.stderr[-300:]}")

    def _other_user(self, folder: Path) -> str:
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            for place in (folder, *folder.parents[:2]):
                if place.stat().st_uid == 0 and place != Path("/tmp"):
                    os.chmod(place, 0o755)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            return name
        pytest.skip("PostgreSQL does not run as root, and there is no other user")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
