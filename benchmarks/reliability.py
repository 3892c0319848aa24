"""What the labelling server promises, tried at full size: kills, crowds, writers, a million items, a bad network, a browser.

    python benchmarks/reliability.py SECTION ...        each writes its figures into results/reliability.json
    python benchmarks/reliability.py report             and this makes results/reliability.md of them

Sections, and about how long each takes at full size on two quiet cores: start (1 min), kills (15), crowd (5), writers
(10), million (5), training (5), lossy (2), move (1), keys (2), memory (6); `all` runs them one after the other. PostgreSQL
is started from Debian's packages on loopback. `--scale 0.1` makes everything ten times smaller.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))
OUT = ROOT / "results" / "reliability.json"
CLASSES = ["cat", "dog", "bird"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="+")
    parser.add_argument("--scale", type=float, default=1.0)
    chosen = parser.parse_args()
    names = list(SECTIONS) if chosen.sections == ["all"] else chosen.sections
    for name in names:
        if name == "report":
            write()
            continue
        began = time.time()
        for key, figures in SECTIONS[name](chosen.scale):
            figures = {**figures, "seconds": round(time.time() - began, 1), "load": round(os.getloadavg()[0], 1)}
            figures["measured"] = moment()
            if os.nice(0):
                figures["niceness"] = os.nice(0)  # before other work on the machine, or behind it
            keep(key, figures)
            print(key, json.dumps(figures), flush=True)


def moment():
    """The day, and the commit of the code that was measured."""
    said = subprocess.run(["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True)
    return f"{time.strftime('%Y-%m-%d')}, commit {said.stdout.strip() or 'unknown'}"


def keep(key, figures):
    import fcntl

    with open(OUT.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(OUT.read_text()) if OUT.exists() else {}
        known[key] = figures
        known["machine"] = {
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        }
        OUT.write_text(json.dumps(known, indent=1, sort_keys=True))
    OUT.with_suffix(".lock").unlink(missing_ok=True)


# -- servers and people


def databases(folder):
    """A fresh store on each database: its name and its URL."""
    yield "sqlite", str(folder / f"{uuid.uuid4().hex}.db")
    from postgres import Cluster

    place = Path(tempfile.mkdtemp(prefix="ncalr-pg-"))
    cluster = Cluster(place)
    try:
        yield "postgresql", cluster.database("bench")
    finally:
        cluster.stop()


def prepare(url, items, votes=1, people_count=20):
    """A project and access tokens for its people."""
    from ncalr.web.store import open_store, people, projects

    store = open_store(url)
    made = (projects.NewItem(f"item{at:08d}", f"text {at}") for at in range(items))
    projects.create(store, "bench", "text", CLASSES, made, votes=votes)
    now = store.clock.now()

    def issue(conn):
        everyone = [people.add(conn, now, f"person{at}", "annotator") for at in range(people_count)]
        return [people.issue(conn, now, "access", person=person, seconds=None) for person in everyone]

    tokens = store.write(issue)
    store.close()
    return tokens


def serve(url, port):
    """A server, in a forked process that has everything imported."""
    import uvicorn

    from ncalr.web.app import Limits, Office, create_app
    from ncalr.web.guard import Address
    from ncalr.web.store import open_store

    plenty = Limits((10**9, 1.0), (10**9, 1.0), (10**9, 1.0))
    app = create_app(Office(open_store(url), Address(port=port), b"k" * 32, None, plenty))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical", access_log=False)


def start(url, port):
    import uvicorn  # noqa: F401 (what is imported here, the forked server has already)

    import ncalr.web.app  # noqa: F401

    process = multiprocessing.get_context("fork").Process(target=serve, args=(url, port), daemon=True)
    process.start()
    return process


def client(port, token):
    import httpx

    headers = {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=10)


class Person:
    """A client that costs next to nothing: the server is measured, and both share the cores."""

    def __init__(self, port, token):
        import http.client

        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.line.connect()
        self.line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def ask(self, method, path, body):
        """The reply, and the seconds from the first byte sent to the last received."""
        content = json.dumps(body)
        began = time.perf_counter()
        self.line.request(method, path, content, self.headers)
        reply = self.line.getresponse()
        content = reply.read()
        seconds = time.perf_counter() - began
        if reply.status != 200:
            raise RuntimeError(f"{reply.status}: {content[:200]}")
        return json.loads(content), seconds

    def label(self, truth=None):
        """Take an item and answer it; how long each took."""
        found, taking = self.ask("POST", "/api/next", {"tab": "t", "want": 1})
        item = found["items"][0]
        said = 1 if truth is None else truth[item["item"]]
        body = {"item": item["item"], "lease": item["token"], "kind": "label", "answer": said, "answered": 1.0}
        _, answering = self.ask("PUT", f"/api/answers/{uuid.uuid4()}", body)
        return taking, answering


def percentile(times, share):
    return round(1000 * sorted(times)[min(int(share * len(times)), len(times) - 1)], 1) if times else None


# -- R1, R3: kills


def kills(scale):
    import httpx
    from postgres import free_port

    count = max(2, round(200 * scale))
    with tempfile.TemporaryDirectory() as folder:
        for name, url in databases(Path(folder)):
            tokens = prepare(url, 60_000)
            port, stop = free_port(), threading.Event()
            acknowledged, lock = {}, threading.Lock()

            def work(token, port=port, stop=stop, acknowledged=acknowledged, lock=lock):
                rng = random.Random(token)
                session, waiting = client(port, token), None
                while not stop.is_set() or waiting:
                    try:
                        if waiting is None:
                            items = session.post("/api/next", json={"tab": "t", "want": 1}).json()["items"]
                            body = {
                                "item": items[0]["item"],
                                "lease": items[0]["token"],
                                "kind": "label",
                                "answer": rng.randrange(3),
                                "answered": time.time(),
                            }
                            waiting = (str(uuid.uuid4()), body)
                        reply = session.put(f"/api/answers/{waiting[0]}", json=waiting[1])
                        if reply.status_code == 200:
                            with lock:
                                acknowledged[waiting[0]] = waiting[1]["answer"]
                            waiting = None
                    except (httpx.HTTPError, KeyError, IndexError, ValueError):
                        time.sleep(0.02)

            server = start(url, port)
            threads = [threading.Thread(target=work, args=(token,), daemon=True) for token in tokens]
            for thread in threads:
                thread.start()
            rng = random.Random(1)
            for _ in range(count):
                first_item(port, tokens[0])
                time.sleep(rng.random())
                os.kill(server.pid, signal.SIGKILL)
                server.join()
                server = start(url, port)
            stop.set()
            for thread in threads:
                thread.join(60)
            os.kill(server.pid, signal.SIGKILL)
            server.join()
            yield f"kills.{name}", compare(url, acknowledged, {"kills": count, "clients": len(tokens)})


def compare(url, acknowledged, figures):
    from sqlalchemy import select

    from ncalr.web.store import copying, open_store, schema

    store = open_store(url)
    rows = store.read(lambda conn: conn.execute(select(schema.event.c.id, schema.event.c.answer)).all())
    stored = Counter(row.id for row in rows)
    answers = {row.id: row.answer for row in rows}
    whole = "ok"
    if store.engine.dialect.name == "sqlite":
        whole = store.read(lambda conn: conn.exec_driver_sql("PRAGMA integrity_check").scalar())
    copying.verify(store)
    store.close()
    return {
        **figures,
        "acknowledged": len(acknowledged),
        "stored": len(rows),
        "missing": sum(id_ not in stored for id_ in acknowledged),
        "doubled": sum(n > 1 for n in stored.values()),
        "changed": sum(answers.get(id_) != said for id_, said in acknowledged.items()),
        "integrity": whole,
        "chain": "verified",
    }


# -- R8: crowd


def crowd(scale):
    from sqlalchemy import select

    from ncalr.web.store import answers, open_store, people, queue, schema

    items, clients = round(5000 * scale), 50
    with tempfile.TemporaryDirectory() as folder:
        for votes in (1, 3):
            for name, url in databases(Path(folder)):
                prepare(url, items, votes, clients)
                store = open_store(url)
                crew = store.read(people.everyone)
                out, failures, lock = Counter(), [], threading.Lock()
                most = Counter()

                def work(person, store=store, failures=failures, out=out, most=most, lock=lock):
                    try:
                        while True:
                            now = store.clock.now()
                            leases = store.write(lambda conn: queue.hand_out(conn, now, person, "t", 1))
                            if not leases:
                                rest = store.read(lambda conn: queue.emptiness(conn, now, person, "t"))
                                if rest.open - rest.for_others <= rest.elsewhere and not rest.elsewhere:
                                    return
                                time.sleep(0.05)
                                if rest.done:
                                    return
                                continue
                            [lease] = leases
                            with lock:
                                out[lease.item] += 1
                                most[lease.item] = max(most[lease.item], out[lease.item])
                            said = answers.Answer(str(uuid.uuid4()), lease.item, "label", now, 0, None, lease.token)
                            with lock:
                                out[lease.item] -= 1
                            store.write(lambda conn: answers.submit(conn, now, person, said))
                    except Exception as error:
                        failures.append(repr(error))

                began = time.time()
                threads = [threading.Thread(target=work, args=(person,)) for person in crew]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                took = time.time() - began
                query = select(schema.vote.c.item_id, schema.vote.c.person_id)
                rows = store.read(lambda conn: conn.execute(query).all())
                late = store.read(lambda conn: sum(conn.execute(select(schema.event.c.late)).scalars()))
                per_item = Counter(Counter(row.item_id for row in rows).values())
                people_ = Counter(len(set(p)) for p in _by_item(rows).values())
                store.close()
                yield (
                    f"crowd.{name}.k{votes}",
                    {
                        "clients": clients,
                        "items": items,
                        "votes": votes,
                        "answers": len(rows),
                        "answers_an_item": dict(per_item),
                        "people_an_item": dict(people_),
                        "at_once_at_most": max(most.values()),
                        "late": int(late),
                        "failures": failures[:3],
                        "answers_a_second": round(len(rows) / took, 1),
                    },
                )


def _by_item(rows):
    found = {}
    for row in rows:
        found.setdefault(row.item_id, []).append(row.person_id)
    return found


# -- R17: writers and a trainer


def trainer(url, seconds, counts):
    from ncalr.web.store import open_store, ranking
    from ncalr.web.store.ranking import Ranked, Trained

    store, end = open_store(url), time.time() + seconds
    rng = random.Random(0)
    while time.time() < end:
        order = [Ranked(at, "strategy", 1.0, rng.random()) for at in rng.sample(range(1, 40_001), 10_000)]
        epoch = ranking.prepare(store, order)
        ranking.swap(store, epoch, Trained(0, 0, time.time(), {}))
        counts.value += 1


def writers(scale):
    from postgres import free_port

    seconds = 600 * scale
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "w.db")
        tokens = prepare(url, 200_000)
        port = free_port()
        server = start(url, port)
        counts = multiprocessing.get_context("fork").Value("i", 0)
        training = multiprocessing.get_context("fork").Process(target=trainer, args=(url, seconds, counts))
        training.start()
        statuses, times, words, lock = Counter(), [], Counter(), threading.Lock()
        end = time.time() + seconds

        def work(token):
            session = client(port, token)
            while time.time() < end:
                try:
                    item = session.post("/api/next", json={"tab": "t", "want": 1}).json()["items"][0]
                    body = {"item": item["item"], "lease": item["token"], "kind": "label", "answer": 1, "answered": 1.0}
                    began = time.perf_counter()
                    reply = session.put(f"/api/answers/{uuid.uuid4()}", json=body)
                    with lock:
                        times.append(time.perf_counter() - began)
                        statuses[reply.status_code] += 1
                        words["locked"] += "locked" in reply.text
                except Exception as error:
                    with lock:
                        statuses[type(error).__name__] += 1
                        time.sleep(0.1)

        threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
        time.sleep(1)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        training.join()
        os.kill(server.pid, signal.SIGKILL)
        yield (
            "writers.sqlite",
            {
                "writers": len(tokens),
                "ran_s": seconds,
                "statuses": {str(k): v for k, v in statuses.items()},
                "locked": words["locked"],
                "swaps_of_10000": counts.value,
                "submit_p50_ms": percentile(times, 0.5),
                "submit_p95_ms": percentile(times, 0.95),
            },
        )


# -- R13, R15: a million items while a training runs


def burn():
    """As much as a core gives, with the priority of the real training (`ncalr.web.worker.main`)."""
    import numpy as np

    from ncalr.web.courtesy import step_back

    step_back()

    a = np.random.default_rng(0).random((600, 600))
    while True:
        a = a @ a / np.linalg.norm(a)


def settle(name, url):
    """The disk has what was loaded before anybody is measured: a bulk load's last writes are not part of labelling."""
    if name == "postgresql":
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
    os.sync()


def million(scale):
    from postgres import free_port

    items = round(1_000_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        for name, url in databases(Path(folder)):
            began = time.time()
            tokens = prepare(url, items, people_count=10)
            made = time.time() - began
            settle(name, url)
            port = free_port()
            server = start(url, port)
            burners = [multiprocessing.get_context("fork").Process(target=burn, daemon=True) for _ in range(2)]
            for burner in burners:
                burner.start()
            first = first_item(port, tokens[0])
            nexts, submits, lock = [], [], threading.Lock()
            end = time.time() + max(60 * scale, 15)

            def work(token, port=port, end=end, nexts=nexts, submits=submits, lock=lock):
                person, rng = Person(port, token), random.Random(token)
                time.sleep(rng.random())
                while time.time() < end:
                    taking, answering = person.label()
                    with lock:
                        nexts.append(taking)
                        submits.append(answering)
                    time.sleep(0.5 + rng.random())  # faster than anybody labels

            threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            memory = int(Path(f"/proc/{server.pid}/status").read_text().split("VmRSS:")[1].split()[0]) // 1024
            for process in (server, *burners):
                os.kill(process.pid, signal.SIGKILL)
            yield (
                f"million.{name}",
                {
                    "items": items,
                    "made_s": round(made, 1),
                    "first_item_s": round(first, 2),
                    "people": len(tokens),
                    "answers": len(submits),
                    "next_p50_ms": percentile(nexts, 0.5),
                    "next_p95_ms": percentile(nexts, 0.95),
                    "submit_p50_ms": percentile(submits, 0.5),
                    "submit_p95_ms": percentile(submits, 0.95),
                    "memory_mb": memory,
                },
            )


# -- R13: the real training, killed halfway


def training(scale):
    """Ten people label pictures for five minutes while the real worker trains a network again and again."""
    from sqlalchemy import func, select

    from ncalr.web.folder import Folder, Source
    from ncalr.web.store import people, projects, schema

    seconds = max(300 * scale, 20)
    with tempfile.TemporaryDirectory() as name:
        from postgres import free_port

        place = Path(name)
        photos(place / "photos", 1797)
        folder = Folder(place / "photos.ncalr")
        folder.create(Source(str(place / "photos"), "image"))
        store = folder.open()
        items = [projects.NewItem(f"{at:05d}.jpg") for at in range(1797)]
        rules = projects.Settings(step=1)  # as soon as one training ends the next begins
        projects.create(store, "digits", "image", list("0123456789"), items, settings=rules)
        now = store.clock.now()

        def issue(conn):
            crew = [people.add(conn, now, f"person{at}", "annotator") for at in range(10)]
            return [people.issue(conn, now, "access", person=person, seconds=None) for person in crew]

        tokens = store.write(issue)
        truth = digit_of(store)
        port = free_port()
        server = start(folder.database(), port)
        first_item(port, tokens[0])
        worker = train(folder)
        times, lock, end = ([], []), threading.Lock(), time.time() + seconds

        def work(token):
            person, rng = Person(port, token), random.Random(token)
            while time.time() < end:
                found = person.label(truth)
                with lock:
                    for kept, each in zip(times, found, strict=True):
                        kept.append(each)
                time.sleep(1 + 2 * rng.random())

        threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
        for thread in threads:
            thread.start()
        busy = 0.0
        while time.time() < end - seconds / 2:
            time.sleep(1)
        busy += used(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        at_kill = len(times[1])
        time.sleep(min(10, seconds / 6))
        meanwhile = len(times[1]) - at_kill
        worker = train(folder)
        for thread in threads:
            thread.join()
        busy += used(worker.pid)
        worker.terminate()
        worker.wait()
        os.kill(server.pid, signal.SIGKILL)
        models = store.read(lambda conn: conn.execute(select(func.count()).select_from(schema.model)).scalar_one())
        store.close()
        yield (
            "training",
            {
                "ran_s": seconds,
                "people": len(tokens),
                "answers": len(times[1]),
                "models_trained": models,
                "cores_the_training_took": round(busy / (seconds - 10), 2),
                "answers_while_it_was_dead": meanwhile,
                "next_p50_ms": percentile(times[0], 0.5),
                "next_p95_ms": percentile(times[0], 0.95),
                "submit_p50_ms": percentile(times[1], 0.5),
                "submit_p95_ms": percentile(times[1], 0.95),
            },
        )


def train(folder):
    """The worker process as the server starts it."""
    from ncalr.web.child import command

    environment = {**os.environ, "OMP_NUM_THREADS": str(max((os.cpu_count() or 1) - 1, 1))}
    return subprocess.Popen(command("ncalr.web.worker", str(folder.path)), env=environment)


def digit_of(store):
    """The digit on each picture, by the item's opaque key."""
    from sklearn.datasets import load_digits
    from sqlalchemy import select

    from ncalr.web.store import schema

    names = store.read(lambda conn: conn.execute(select(schema.item.c.key, schema.item.c.name)).all())
    digits = load_digits().target
    return {row.key: int(digits[int(row.name[:5]) % len(digits)]) for row in names}


def used(pid):
    """Seconds of processor time."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def first_item(port, token):
    import httpx

    began = time.time()
    while True:
        try:
            client(port, token).post("/api/next", json={"tab": "first", "want": 1}).json()["items"][0]
            return time.time() - began
        except (httpx.HTTPError, KeyError, IndexError):
            time.sleep(0.01)


# -- R4: replies that get lost


def lossy(scale):
    from postgres import free_port

    count = round(10_000 * scale)
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "l.db")
        tokens = prepare(url, count)
        port = free_port()
        server = start(url, port)
        first_item(port, tokens[0])
        acknowledged, sent, lock = {}, Counter(), threading.Lock()

        def work(token):
            person, rng = Person(port, token), random.Random(token)
            while True:
                items = person.ask("POST", "/api/next", {"tab": "t", "want": 1})[0]["items"]
                if not items:
                    return
                id_, said = str(uuid.uuid4()), rng.randrange(3)
                body = {
                    "item": items[0]["item"],
                    "lease": items[0]["token"],
                    "kind": "label",
                    "answer": said,
                    "answered": 1.0,
                }
                lost = True
                while lost:
                    person.ask("PUT", f"/api/answers/{id_}", body)
                    lost = rng.random() < 0.3  # the reply never came: the same is sent again
                    with lock:
                        sent["sent"] += 1
                        sent["lost"] += lost
                with lock:
                    acknowledged[id_] = said

        threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.kill(server.pid, signal.SIGKILL)
        yield "lossy.sqlite", compare(url, acknowledged, dict(sent))


# -- R18, R20: backup under load, and the move between databases


def move(scale):
    from ncalr.web.store import answers, copying, open_store, people, queue

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        generator = databases(place)
        _, lite = next(generator)
        prepare(lite, round(20_000 * scale), people_count=5)
        store = open_store(lite)
        crew, stop = store.read(people.everyone), threading.Event()

        def work(person):
            while not stop.is_set():
                now = store.clock.now()
                for lease in store.write(lambda conn: queue.hand_out(conn, now, person, "t", 1)):
                    said = answers.Answer(str(uuid.uuid4()), lease.item, "label", now, 0, None, lease.token)
                    store.write(lambda conn: answers.submit(conn, now, person, said))

        threads = [threading.Thread(target=work, args=(person,)) for person in crew]
        for thread in threads:
            thread.start()
        time.sleep(max(10 * scale, 1))
        saved = copying.backup(store, place / "backup.db")
        time.sleep(1)
        stop.set()
        for thread in threads:
            thread.join()
        again = open_store(place / "again.db")
        restored = copying.restore(place / "backup.db", again)
        _, url = next(generator)
        postgres, back = open_store(url), open_store(place / "back.db")
        there = copying.copy(store, postgres)
        home = copying.copy(postgres, back)
        events = store.read(answers.last)[0]
        yield (
            "move",
            {
                "events": events,
                "backup_equals_restore": saved == restored,
                "backup_under_load": True,
                "sqlite_postgresql_sqlite_equal": copying.verify(store) == there == home,
            },
        )
        for each in (store, again, postgres, back):
            each.close()
        generator.close()


# -- the browser


def photos(folder, count):
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    folder.mkdir()
    for at in range(count):
        Image.fromarray((data.images[at % len(data.images)] * 15.9).astype(np.uint8)).resize((256, 256)).save(
            folder / f"{at:05d}.jpg"
        )


def browse(scale, count, pause):
    from chromium import Site, Visit, chromium

    from ncalr.web.media import Media
    from ncalr.web.store import projects

    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        photos(folder / "photos", count + 10)
        site = Site(folder, Media(folder / "photos", folder / "cache"))
        items = [projects.NewItem(f"{at:05d}.jpg") for at in range(count + 10)]
        projects.create(site.desk.store, "p", "image", CLASSES, items)
        me = Visit(browser.new_context()).open(site.link("ann")).ready()
        time.sleep(2)
        session = me.page.context.new_cdp_session(me.page)
        session.send("HeapProfiler.collectGarbage")
        before = session.send("Runtime.getHeapUsage")["usedSize"]
        times = []
        for _ in range(count):
            times.append(me.press("1"))
            time.sleep(pause)
        me.saved()
        session.send("HeapProfiler.collectGarbage")
        grown = session.send("Runtime.getHeapUsage")["usedSize"] - before
        site.stop()
    return times, grown


def start_up(scale):
    """From a folder of pictures to the first of them on the screen: the command as a person types it, each time anew."""
    from chromium import chromium

    tries, marks = max(3, round(5 * scale)), {"command_to_link_s": [], "link_to_item_s": [], "command_to_item_s": []}
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        photos(Path(name) / "photos", 500)
        page = browser.new_context().new_page()
        page.goto("about:blank")
        for at in range(tries):
            project = Path(name) / f"project{at}"
            command = ["label", str(Path(name) / "photos"), "--classes", "cat,dog,bird", "--no-browser"]
            began = time.perf_counter()
            running = subprocess.Popen(
                [sys.executable, "-c", "from ncalr.cli import main; main()", *command, "--project", str(project)],
                stdout=subprocess.PIPE,
                text=True,
            )
            link = next(line.strip() for line in running.stdout if "#enter=" in line)
            linked = time.perf_counter()
            page.goto(link)
            page.wait_for_selector("body[data-item]:not([data-item=''])")
            page.wait_for_function("document.getElementById('picture').naturalWidth > 0")
            there = time.perf_counter()
            for key, seconds in zip(marks, (linked - began, there - linked, there - began), strict=True):
                marks[key].append(seconds)
            page.goto("about:blank")
            page.context.clear_cookies()
            running.terminate()
            running.wait()
    worst = {key.replace("_s", "_worst_s"): round(max(times), 2) for key, times in marks.items()}
    middle = {key: round(statistics.median(times), 2) for key, times in marks.items()}
    yield "start", {"pictures": 500, "tries": tries, **middle, **worst}


def keys(scale):
    times, _ = browse(scale, max(20, round(120 * scale)), 0.5)
    yield (
        "keys",
        {
            "items": len(times),
            "p50_ms": percentile(times, 0.5),
            "p95_ms": percentile(times, 0.95),
            "items_a_minute": round(60 / (0.5 + statistics.mean(times))),
        },
    )


def memory(scale):
    times, grown = browse(scale, max(50, round(5000 * scale)), 0.0)
    yield (
        "memory",
        {"pictures": len(times), "heap_growth_mb": round(grown / 2**20, 2), "p95_ms": percentile(times, 0.95)},
    )


SECTIONS = {
    "start": start_up,
    "kills": kills,
    "crowd": crowd,
    "writers": writers,
    "million": million,
    "training": training,
    "lossy": lossy,
    "move": move,
    "keys": keys,
    "memory": memory,
}


# -- the report


def write():
    import reliability_report

    (ROOT / "results" / "reliability.md").write_text(reliability_report.text(json.loads(OUT.read_text())))


if __name__ == "__main__":
    main()
