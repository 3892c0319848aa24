"""Our queue in a real Label Studio: `python benchmarks/labelstudio.py PROGRAM`; figures in results/labelstudio.json.

PROGRAM is a `label-studio` in an environment of its own (python -m venv ls; ls/bin/pip install label-studio), which
takes minutes to install and is therefore no part of the tests. It is started on loopback with an empty folder; a
project of texts is pushed, annotated through its own API as a person's browser would, and pulled, twice over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))
TOKEN = "0123456789abcdef0123456789abcdef01234567"


def main(program):
    from office import Office
    from postgres import free_port

    from ncalr.web.labelstudio import LabelStudio, pull, push
    from ncalr.web.store import schema
    from ncalr.web.store.clock import SteadyClock

    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        process = start(program, Path(folder), port)
        try:
            url = f"http://127.0.0.1:{port}"
            version = wait(url)
            desk = Office(str(Path(folder) / "ours.db"), SteadyClock())
            desk.project(items=40)
            desk.rank(range(40, 0, -1))
            remote = LabelStudio(url, TOKEN)
            number = remote.project("ncalr bench", ["cat", "dog", "bird"], "text")
            rounds = []
            for _ in range(2):
                sent = push(desk.store, remote, number, 15)
                annotated = annotate(number, remote)
                rounds.append({"sent": sent, "annotated": annotated, "taken_in": pull(desk.store, remote, number)})
            rounds.append({"sent": 0, "annotated": 0, "taken_in": pull(desk.store, remote, number)})
            order = [task["data"]["ncalr"] for task in sorted(remote._tasks(number), key=lambda task: task["id"])]
            found = {
                "label_studio": version,
                "rounds": rounds,
                "tasks": len(order),
                "tasks_twice": len(order) - len(set(order)),
                "in_our_order": order[:15] == [f"item{at:07d}" for at in range(39, 24, -1)],
                "labelled_here": desk.counter("status:labelled"),
                "people": [row["name"] for row in desk.rows(schema.person)],
            }
            remote.close()
            desk.store.close()
        finally:
            process.terminate()
            process.wait(30)
    print(json.dumps(found, indent=1))
    (ROOT / "results" / "labelstudio.json").write_text(json.dumps(found, indent=1) + "\n")


def start(program, folder, port):
    settings = {
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    words = [
        "start",
        "--no-browser",
        "--internal-host",
        "127.0.0.1",
        "--port",
        str(port),
        "--username",
        "kim@example.org",
    ]
    words += ["--password", "a long password 1", "--user-token", TOKEN, "--enable-legacy-api-token"]
    log = (ROOT / "runs").joinpath("labelstudio.log")
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen([program, *words], env={**os.environ, **settings}, stdout=file, stderr=file)


def wait(url):
    end = time.time() + 400
    while time.time() < end:
        try:
            reply = httpx.get(f"{url}/api/version", timeout=5)
            if reply.status_code == 200:
                return reply.json().get("release")
        except httpx.HTTPError:
            pass
        time.sleep(1)
    raise SystemExit("Label Studio did not start; see runs/labelstudio.log")


def annotate(number, remote):
    """As a person would: every task without an annotation gets one."""
    count = 0
    for task in list(remote._tasks(number)):
        if task.get("total_annotations", 0) or task.get("annotations"):
            continue
        choice = {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["dog"]}}
        remote._ask("POST", f"/api/tasks/{task['id']}/annotations", json={"result": [choice]})
        count += 1
    return count


if __name__ == "__main__":
    main(sys.argv[1])
