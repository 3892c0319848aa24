"""Starting: the server in this process, the training in another that is started again when it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection

from ncalr.data.files import Held, held
from ncalr.errors import BadInput
from ncalr.web.app import Limits, Office, create_app
from ncalr.web.child import command
from ncalr.web.folder import Folder
from ncalr.web.guard import Address
from ncalr.web.media import Media
from ncalr.web.store import Store, answers, people

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LONGEST = 60.0
SWITCH = 0.001  # a team view that counts lets an answer through five times as soon as Python's usual 5 ms would
REST = 5.0  # the first seconds belong to the person who wants to see the first item


def check_exposure(host: str, public_url: str, insecure: bool) -> None:
    """Other machines may only come in where somebody said how: by TLS, or knowingly without."""
    if host not in LOOPBACK and not public_url.startswith("https://") and not insecure:
        raise BadInput(
            f"--host {host} lets other machines in without TLS: whoever is on the way can read answers and sessions. "
            "Put a reverse proxy with TLS before it and say --public-url https://…, or --insecure if you must"
        )
    if host not in LOOPBACK and not public_url:
        raise BadInput(
            f"--host {host} lets other machines in, but requests are answered under one address alone: give the one "
            "that people type into their browsers, as in --public-url http://labels.local:8765 --port 8765"
        )


def free_port(host: str, wanted: int, fixed: bool) -> int:
    """The port wanted, or the next free one where it may be another."""
    for port in range(wanted, wanted + (1 if fixed else 20)):
        with contextlib.closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise BadInput(_unusable(host, port, error)) from None
            return port
    raise BadInput(f"port {wanted} of {host} is in use; choose another with --port")


def _unusable(host: str, port: int, error: OSError) -> str:
    """Why an address cannot be listened on, where it is not that somebody else does."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} may not be used by this account ({error.strerror}); choose one above 1023 with --port"
    return (
        f"{host} is no address of this machine ({error.strerror}); --host is 127.0.0.1, 0.0.0.0, or an address "
        "this machine has. The name people type is --public-url"
    )


def entrance(store: Store, name: str) -> str:
    """A link for the owner of the project, who is made where there is none."""
    now = store.clock.now()

    def issue(conn: Connection) -> str:
        owners = [person for person in people.everyone(conn) if person.role == "owner" and person.active]
        known = people.by_name(conn, name)
        person = owners[0] if owners else known or people.add(conn, now, name, "owner")
        if not owners and known is not None:  # somebody of that name came by an import
            people.change(conn, now, known, "owner", True)
        answers.reconsider(conn)  # a project of an older version, or one more person
        return people.issue(conn, now, "link", person=person)

    return store.write(issue)


@contextlib.contextmanager
def alone(folder: Folder, store: Store, address: Address) -> Iterator[None]:
    """Be the only server that trains this project; a second one is told where the first is."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(folder.path / "server.lock", f"{os.getpid()} {address.url}"))
        except Held as other:
            raise BadInput(_open_already(folder, store, other.by)) from None
        yield


def _open_already(folder: Folder, store: Store, by: str) -> str:
    """Where a project is open, and what to do."""
    process, _, url = by.partition(" ")
    if not url:  # it is just about to say
        return f"another server has {folder.path} open; go on there, or stop it"
    owners = [person.name for person in store.read(people.everyone) if person.role == "owner" and person.active]
    line = ["ncalr", "labels", "invite", str(folder.path), "--person", *owners[:1], "--url", url]
    link = f". A new link to it: {shlex.join(line)}" if owners else ""
    return (
        f"another server has {folder.path} open (process {process}, {url}): go on there, or stop it with Ctrl+C in its "
        f"terminal or by: kill {process}{link}. A second server beside it needs --no-training"
    )


@contextlib.contextmanager
def training(folder: Folder) -> Iterator[Supervisor]:
    """The worker process, for as long as this lasts."""
    work = command("ncalr.web.worker", str(folder.path), str(os.getpid()))
    supervisor = Supervisor(work, folder.path / "worker.log", rest=REST)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


class Supervisor:
    """Keeps a process running: started again when it dies, later and later while it keeps dying."""

    def __init__(self, command: list[str], log: Path, first_pause: float = 1.0, rest: float = 0.0) -> None:
        self.command, self.log, self.first_pause, self.rest = command, log, first_pause, rest
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the process and the watching."""
        self._ended.set()
        if self.process is not None:
            self.process.terminate()
        self._thread.join()

    def _watch(self) -> None:
        pause = self.first_pause
        cores = os.cpu_count() or 1
        threads = str(max(cores - 1, 1))  # one is left to those who label
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        self._ended.wait(self.rest)
        while not self._ended.is_set():
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=environment)  # noqa: S603
            self.starts += 1
            lasted = self._wait(self.process)
            pause = self.first_pause if lasted > LONGEST else min(pause * 2, LONGEST)
            self._ended.wait(pause)

    def _wait(self, process: subprocess.Popen[bytes]) -> float:
        """Until it ends; for how long it ran, about."""
        seconds = 0.0
        while process.poll() is None:
            if self._ended.wait(0.2):
                process.terminate()
                process.wait(10)
                return seconds
            seconds += 0.2
        return seconds


def serve(
    folder: Folder,
    store: Store,
    address: Address,
    ready: Callable[[], None],
    limits: Limits | None = None,
    training: bool = True,
) -> None:
    """Answer until interrupted; `ready` is called when the first request would be answered.

    `training` says whether there is to be a worker, so that one that is missing is told and one that is not wanted not.
    """
    import uvicorn

    source = folder.source()
    media = Media(Path(source.path), folder.path / "cache") if source.kind == "image" else None
    app = create_app(Office(store, address, folder.secret(), media, limits, training, folder))
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
        proxy_headers=False,
    )
    sys.setswitchinterval(SWITCH)
    server = uvicorn.Server(config)
    threading.Thread(target=_when_started, args=(server, ready), daemon=True).start()
    server.run()


def _when_started(server: object, ready: Callable[[], None]) -> None:
    import time

    while not getattr(server, "started", False):
        time.sleep(0.01)
    ready()
