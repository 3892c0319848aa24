"""The training beside the labelling: when it runs, what it writes, what if it dies; and people as an oracle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from browserless import Server, say, take
from office import Office

from ncalr import testing
from ncalr.data.pool import ArrayPool
from ncalr.errors import BadInput
from ncalr.learn.learner import Job, needs_of
from ncalr.loop.journal import Journal
from ncalr.loop.state import replay
from ncalr.oracles.oracle import LATER, REFUSED
from ncalr.web import audit, figures, serve, sources
from ncalr.web.child import command
from ncalr.web.folder import Folder, Source
from ncalr.web.models import Choice
from ncalr.web.oracle import People
from ncalr.web.store import projects, reserve, schema
from ncalr.web.worker import Worker, order

CLASSES = ("sport", "food")
WORDS = {"sport": "goal match team ball win", "food": "bread soup cake taste salt"}


def texts(count):
    rng = np.random.default_rng(0)
    for at in range(count):
        kind = CLASSES[at % 2]
        yield f"t{at}", kind, " ".join(rng.choice(WORDS[kind].split(), 4))


@pytest.fixture
def shop(tmp_path, clock):
    """A project of texts with their truth, and its worker."""
    rows = list(texts(80))
    table = tmp_path / "notes.csv"
    table.write_text("id,text\n" + "".join(f"{name},{text}\n" for name, _, text in rows))
    folder = Folder(tmp_path / "notes.ncalr")
    found = sources.find(table)
    folder.create(found)
    desk = Office(folder.database(), clock)
    projects.create(desk.store, "notes", "text", list(CLASSES), sources.take_stock(found).items)
    truth = {name: CLASSES.index(kind) for name, kind, _ in rows}
    names = {row["key"]: row["name"] for row in desk.rows(schema.item)}
    yield desk, Worker(folder, desk.store), lambda lease: truth[names[lease.item]]
    desk.store.close()


def label(desk, truth, count, wrong=()):
    for at in range(count):
        [lease] = desk.next("ann")
        desk.say("ann", lease.item, 1 - truth(lease) if at in wrong else truth(lease), lease=lease.token)


def test_it_waits_until_there_is_something_to_learn(shop):
    desk, worker, truth = shop
    assert not worker.step()
    assert "the first training is when 10 items are labelled; 0 are" in desk.rows(schema.worker)[0]["message"]
    for _ in range(10):
        desk.label("ann", 0)
    assert not worker.step()
    assert "two classes" in desk.rows(schema.worker)[0]["message"]
    label(desk, truth, 10)
    assert worker.step()
    assert not worker.step()
    assert "10 answers after" in desk.rows(schema.worker)[0]["message"]


def test_a_training_swaps_the_queue_and_says_why_and_how_likely(shop):
    desk, worker, truth = shop
    label(desk, truth, 20)
    assert worker.step()
    rows = sorted((row for row in desk.rows(schema.ranking) if row["epoch"] == 1), key=lambda row: row["rank"])
    assert len(rows) == 60
    assert {row["arm"] for row in rows} == {"strategy", "control"}
    assert all(0 < row["probability"] <= 1 for row in rows)
    assert {(row["arm"], row["probability"]) for row in rows} == {("strategy", 0.9), ("control", 0.1)}
    why = json.loads(next(row["why"] for row in rows if row["arm"] == "strategy"))
    assert {"dynamics", "balance", "near"} <= set(why)
    assert {place[0] for place in why["near"]} == {0, 1}
    label(desk, truth, 40)
    found = figures.control(desk.store.read(figures.curve))
    assert found["total"] >= 1
    assert found["share"] > 0.5
    assert found["of"] == "folder"
    [model] = desk.rows(schema.model)
    assert (model["labels"], model["seq"]) == (20, 20)
    facts = json.loads(model["facts"])
    assert facts["covered"] == 2
    assert -1 <= facts["redundancy"] <= 1


def test_what_a_training_noted_is_told_in_words_for_people_who_label(shop):
    desk, worker, truth = shop
    label(desk, truth, 20)
    worker.step()
    [model] = desk.rows(schema.model)
    assert "try a smaller opens" in json.loads(model["facts"])["notes"][0], "advice for whoever sets the learner"
    [told] = desk.store.read(lambda conn: figures.team(conn, desk.clock.now()))["notes"]
    assert told.startswith("No guess changed any more at the end of the training")
    notes = ["2 of 3 classes have no label yet", "not converged after max_iter=9 iterations; raise max_iter"]
    told = figures.noted([{"facts": {"notes": ["an older one"]}}, {"facts": {"notes": notes}}])
    assert told[0] == "2 of 3 classes have no label yet."
    assert "may be a little worse" in told[1]
    assert figures.noted([{"facts": {"by": "the loop"}}]) == figures.noted([]) == []


def test_scores_fall_along_the_strategys_arm(shop):
    desk, worker, truth = shop
    label(desk, truth, 20)
    worker.step()
    rows = sorted((row for row in desk.rows(schema.ranking) if row["epoch"] == 1), key=lambda row: row["rank"])
    scores = [row["score"] for row in rows if row["arm"] == "strategy"]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("strategy", ["margin", "badge"])
def test_control_items_are_reserved_by_lot_and_the_strategy_never_gets_one(strategy):
    """Round after round, to the end: whatever is chosen otherwise, the control items are the lottery's."""
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3
    pool = ArrayPool((np.eye(3)[truth] * 2 + rng.normal(size=(300, 3))).astype(np.float32))
    rules = projects.Settings(strategy=strategy)
    kept = set(pool.ids[reserve.reserved(pool.ids, rules)].tolist())
    assert 15 <= len(kept) <= 50
    known, controls = list(range(12)), []
    needs = needs_of(strategy) | {"logits", "features", "labelled_features", "labels"}
    for epoch in range(1, 20):
        rest = np.setdiff1d(pool.ids, known)
        if not len(rest):
            break
        job = Job(pool, np.array(known), truth[known], 3, round=epoch, needs=needs, watch=rest)
        ranked = order(Choice.of(rules, pool).learner().fit(job), strategy, rules, epoch, 3)
        assert len({place.item_id for place in ranked}) == len(ranked) == len(rest)
        assert {place.item_id for place in ranked if place.arm == "control"} == kept - set(known)
        near = [place.arm for place in ranked[:20]]
        assert near.count("control") <= 3 or "strategy" not in {place.arm for place in ranked[30:]}
        controls += [place.item_id for place in ranked[:20] if place.arm == "control"]
        known += [place.item_id for place in ranked[:20]]
    assert set(controls) == kept - set(range(12))


def test_a_project_without_a_reserve_says_whose_accuracy_it_is(shop):
    """What the strategy took before there was a reserve is counted, and the accuracy not called the folder's."""
    desk, worker, truth = shop
    label(desk, truth, 20)
    worker.step()
    rules = projects.Settings()
    ids = np.array([row["id"] for row in desk.rows(schema.item)])
    kept = ids[reserve.reserved(ids, rules)]
    assert desk.store.read(lambda conn: reserve.touched(conn, ids, rules)) == {"items": len(kept), "picked": 0}
    done = {row["item_id"] for row in desk.rows(schema.event)}
    desk.rank([item for item in kept.tolist() if item not in done], arm="strategy")  # as an older version did
    label(desk, truth, 2)
    assert desk.store.read(lambda conn: reserve.touched(conn, ids, rules))["picked"] == 2


def test_without_a_control_arm_the_order_is_the_strategys(shop):
    desk, worker, truth = shop
    label(desk, truth, 20)
    rules = projects.Settings(control=0.0)
    project, labels, _names, _ = desk.store.read(worker._look)
    pool = worker.pool(project.settings)
    needs = needs_of("badge") | {"logits", "features", "labelled_features", "labels"}
    open_ids = pool.ids[~np.isin(pool.ids, list(labels.closed))]
    job = Job(pool, labels.ids, labels.labels, 2, needs=needs, watch=open_ids)
    model = Choice.of(rules, pool).learner().fit(job)
    ranked = order(model, "badge", rules, 1, 2)
    assert {place.arm for place in ranked} == {"strategy"}
    assert {place.probability for place in ranked} == {1.0}
    assert "badge_rank" not in (ranked[0].why or {})


@pytest.mark.parametrize("strategy", ["margin", "badge", "margin(copies=keep)"])
def test_near_copies_come_behind_the_first_places(strategy):
    """Label Studio gets the same order. All items stay in the queue."""
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(200), 4)
    rows = np.repeat(rng.normal(size=(200, 12)), 4, axis=0) + 0.01 * rng.normal(size=(800, 12))
    pool, truth = ArrayPool(rows.astype(np.float32)), (rows[:, 0] > 0).astype(int)
    rules = projects.Settings(strategy=strategy, control=0.0)
    needs = needs_of(strategy) | {"logits", "features", "labelled_features", "labels"}
    job = Job(pool, pool.ids[:80:4], truth[:80:4], 2, needs=needs)
    ranked = [place.item_id for place in order(Choice(freedom=1.0).learner().fit(job), strategy, rules, 1, 2)]
    assert len(set(ranked)) == len(ranked)
    assert strategy == "badge" or len(ranked) == 780
    first = set(item[ranked[:100]].tolist())
    assert (len(first) == 100 and min(first) >= 20) == ("keep" not in strategy)


def test_the_journal_replays_to_what_people_decided(shop):
    desk, worker, truth = shop
    label(desk, truth, 19)
    desk.label("ann", kind="none")
    worker.step()
    label(desk, truth, 11)
    worker.step()
    state = replay(Journal(worker.folder.path).lines())
    names = {row["id"]: row["name"] for row in desk.rows(schema.item)}
    decided = {names[row["item_id"]]: row["answer"] for row in desk.rows(schema.state) if row["status"] == "labelled"}
    assert state.labels == decided
    assert len(state.labels) == 30
    assert len(state.refused) == 1
    assert [line["round"] for line in state.rounds] == [0, 1]
    assert set(state.rounds[0]["by"]) == {"ann"}


def test_wrong_labels_come_up_for_a_second_look(shop):
    desk, worker, truth = shop
    label(desk, truth, 70, wrong=(3, 17))
    worker.step()
    rows = desk.rows(schema.review)
    wrong = {row["item_id"] for row in desk.rows(schema.event) if row["seq"] in (4, 18)}
    doubtful = {row["item_id"] for row in rows if row["doubtful"]}
    assert wrong <= doubtful
    assert len(rows) == 2 * len(doubtful)


def test_a_training_that_fails_is_told_and_labelling_goes_on(shop, monkeypatch):
    desk, worker, truth = shop
    label(desk, truth, 20)
    turns = iter([False, False, True])
    monkeypatch.setattr("ncalr.web.worker.POLL", 0.01)
    monkeypatch.setattr("ncalr.web.worker.BEAT", 0.01)

    def broken(*_):
        raise ValueError("the network exploded")

    monkeypatch.setattr("ncalr.web.worker.order", broken)
    said = []
    real = worker.say
    monkeypatch.setattr(worker, "say", lambda *words: (said.append(words), real(*words)))
    worker.run(lambda: next(turns))
    assert [words[0] for words in said] == ["training", "scoring", "failed", "stopped"]
    assert "exploded" in said[2][1]
    assert desk.label("ann", 0)


def test_a_model_that_cannot_be_kept_is_told_and_its_order_is_used(shop):
    desk, worker, truth = shop
    label(desk, truth, 20)
    (worker.folder.path / "model").write_text("a file where the folder should be")
    assert worker.step()
    assert desk.rows(schema.project)[0]["epoch"] == 1
    assert {row["epoch"] for row in desk.rows(schema.ranking)} == {schema.BASE, 1}
    assert not worker.step()  # nothing new
    assert worker.state == "failed"
    assert "its order is in use, but the model cannot be kept" in worker.message
    (worker.folder.path / "model").unlink()
    label(desk, truth, 10)
    assert worker.step()
    assert (worker.state, worker.message) == ("waiting", "")


def test_where_no_wrong_label_is_found_among_few_the_team_hears_how_many_there_may_be(shop):
    desk, worker, truth = shop
    label(desk, truth, 38)
    worker.step()
    [line] = desk.store.read(lambda conn: figures.team(conn, desk.clock.now()))["card"]
    share, low, high = line["wrong"]
    assert low <= share < 0.01
    assert 0.03 < high < 0.15, "38 labels without a fault leave about 3 / 38 open"


def test_the_new_order_does_not_wait_for_the_audit(shop, monkeypatch):
    desk, worker, truth = shop
    label(desk, truth, 70)
    real, epochs = worker.audit, []

    def watched(*given):
        epochs.append(desk.rows(schema.project)[0]["epoch"])
        return real(*given)

    monkeypatch.setattr(worker, "audit", watched)
    worker.step()
    assert epochs == [1]
    assert "wrong" in json.loads(desk.rows(schema.model)[0]["facts"])["audit"]


def test_the_process_runs_by_itself_and_is_started_again_when_killed(shop, tmp_path):
    desk, worker, truth = shop
    label(desk, truth, 20)
    log = tmp_path / "log"
    supervisor = serve.Supervisor(command("ncalr.web.worker", str(worker.folder.path)), log, 0.1)
    supervisor.start()
    try:
        wait(lambda: desk.rows(schema.model), 60)
        os.kill(supervisor.process.pid, signal.SIGKILL)
        label(desk, truth, 12)  # nobody notices
        journal = worker.folder.path / "journal.jsonl"
        # the first line may be missing: the kill may have come between the order and the journal
        wait(lambda: len(desk.rows(schema.model)) == 2 and journal.exists() and b"t" in journal.read_bytes(), 60)
        wait(lambda: desk.rows(schema.worker)[0]["state"] == "waiting", 60)
        assert supervisor.starts == 2
    finally:
        supervisor.stop()
    assert supervisor.process.poll() is not None
    assert len(replay(Journal(worker.folder.path).lines()).labels) == 32


def test_a_worker_whose_server_is_gone_before_it_looks_ends(shop, monkeypatch):
    monkeypatch.setattr(serve, "REST", 3600.0)
    with serve.training(shop[1].folder) as supervisor:
        *work, server = supervisor.command
    assert int(server) == os.getpid()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert subprocess.run([*work, str(gone.pid)], timeout=60, check=False).returncode == 0


def test_a_worker_waits_for_one_whose_server_was_killed(shop):
    """It ends the training it is at, and nobody clears its order away."""
    desk, worker, truth = shop
    label(desk, truth, 20)
    code = "import sys\nfrom ncalr.loop.journal import Journal\nwith Journal(sys.argv[1]).locked():\n"
    code += "    print('in', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(worker.folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "in\n"
        assert not worker.step()
        [told] = desk.rows(schema.worker)
        assert told["state"] == "training"
        assert f"in use by process {other.pid}" in told["message"]
        assert not desk.rows(schema.model)
        other.kill()
    assert worker.step()
    assert len(desk.rows(schema.model)) == 1


def test_a_training_that_another_made_meanwhile_is_not_made_again(shop, monkeypatch):
    desk, worker, truth = shop
    label(desk, truth, 20)
    real = Journal.locked
    others = Worker(worker.folder, desk.store)

    def late(journal):
        monkeypatch.setattr(Journal, "locked", real)
        assert others.step()
        return real(journal)

    monkeypatch.setattr(Journal, "locked", late)
    assert not worker.step()
    assert len(desk.rows(schema.model)) == 1


def wait(ready, seconds):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.1)


# -- what is labelled


def test_pictures_as_the_model_reads_them(tmp_path):
    from PIL import Image

    root = tmp_path / "pics"
    (root / "deep").mkdir(parents=True)
    (root / ".hidden").mkdir()
    Image.new("L", (8, 8), 200).save(root / "b.PNG")
    Image.new("RGB", (300, 100), (10, 20, 30)).save(root / "deep" / "a.jpg")
    Image.new("L", (8, 8)).save(root / ".hidden" / "c.png")
    (root / "notes.txt").write_text("x")
    (root / "torn.png").write_bytes(b"\x89PNG torn")
    source = sources.find(root)
    found = [item.name for item in sources.take_stock(source).items]
    assert found == ["b.PNG", "torn.png", "deep/a.jpg"]
    pool = sources.vectors(source, [1, 2, 3], found, [None] * 3, 16)
    assert pool.ids.tolist() == [1, 3]
    assert pool.shape == (16, 16, 3)
    assert pool.read(np.array([0]))[0, 0, 0].tolist() == [200, 200, 200]
    with pytest.raises(BadInput, match="none of the pictures"):
        sources.vectors(source, [2], ["torn.png"], [None], 16)
    assert type(Choice.of(projects.Settings(), pool).learner()).__name__ == "TorchLearner"


@pytest.mark.parametrize("said", ["a\\u0000b", "a\\ud800"])
def test_a_text_that_no_database_takes_is_refused_by_name(tmp_path, said):
    table = tmp_path / "notes.jsonl"
    table.write_text('{"id": "n1", "text": "fine"}\n{"id": "n2", "text": "' + said + '"}\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r"notes\.jsonl: 'n2' has a sign in it that no text has"):
        sources.take_stock(sources.find(table))


def test_what_is_no_source(tmp_path):
    with pytest.raises(BadInput, match="no pictures"):
        sources.take_stock(sources.find(tmp_path))
    with pytest.raises(BadInput, match="there is no"):
        sources.find(tmp_path / "nowhere")
    (tmp_path / "x.pdf").write_text("x")
    with pytest.raises(BadInput, match="no folder and no table"):
        sources.find(tmp_path / "x.pdf")
    (tmp_path / "x.xlsx").write_text("x")
    with pytest.raises(BadInput, match="save the sheet as CSV"):
        sources.find(tmp_path / "x.xlsx")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="--text-column"):
        sources.find(tmp_path / "x.csv")


def test_texts_without_words_and_embeddings(tmp_path):
    source = Source("x", "text")
    assert sources.vectors(source, [1, 2, 3], "abc", ["?", "!", "?!"], 8).shape[0] >= 1
    assert sources.vectors(source, [1, 2], "ab", ["same", "same"], 8).shape[0] >= 1
    np.save(tmp_path / "e.npy", np.eye(4, dtype=np.float32))
    pool = sources.vectors(Source("x", "text", embeddings=str(tmp_path / "e.npy")), [2, 4], "ab", [None, None], 8)
    assert pool.read(slice(None)).argmax(axis=1).tolist() == [1, 3]
    with pytest.raises(BadInput, match="has 4 rows, too few for 5 items"):
        sources.vectors(Source("x", "text", embeddings=str(tmp_path / "e.npy")), [5], "a", [None], 8)
    with pytest.raises(BadInput, match="there is no file"):
        sources.vectors(Source("x", "text", embeddings=str(tmp_path / "no.npy")), [5], "a", [None], 8)


def test_a_pool_too_large_for_the_model_is_a_random_part_and_all_that_is_answered(small, monkeypatch):
    from ncalr.web import worker

    small.project(items=30)
    monkeypatch.setattr(worker, "POOL", 5)
    answered = small.names([small.label("ann")[0] for _ in range(3)])
    rows = small.store.read(worker._first_items)
    assert len(rows) == 8
    assert set(answered) <= {row.id for row in rows}


def test_the_audit_finds_planted_errors():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    vectors = np.eye(3)[labels] * 6 + rng.normal(size=(120, 3))
    given = labels.copy()
    wrong = rng.choice(120, 8, replace=False)
    given[wrong] = (given[wrong] + 1) % 3
    found = audit.doubts(vectors, given, 3)
    assert set(np.argsort(-found.suspicion)[:8]) == set(wrong)
    sure = wrong[found.suspicion[wrong] > 0.5]
    assert len(sure) >= 4
    assert (found.suggestion[sure] == labels[sure]).all()
    assert found.share[1] <= 8 / 120 <= found.share[2]
    assert all(found.reasons)


@pytest.mark.parametrize("count", [20, 60, 200])
@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_the_audit_is_silent_where_vectors_say_little_about_right_labels(count, strength):
    """No label is wrong here; what a poor guesser contradicts is not."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, count)
        vectors = strength * np.random.default_rng(7).normal(size=(3, 300))[labels] + rng.normal(size=(count, 300))
        found = audit.doubts(vectors, labels, 3)
        assert found.share is None
        assert not found.suspicion.any()
        assert found.agrees < found.asked


def test_classes_that_overlap_are_no_wrong_labels():
    """A guesser that is right five times in six, by the nature of things: the interval reaches down to nothing."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, 400)
        vectors = np.c_[2.0 * labels - 1 + rng.normal(size=400), rng.normal(size=(400, 5))]
        found = audit.doubts(vectors, labels, 2)
        assert found.share is not None
        assert found.share[1] < 0.05


def test_the_audit_still_tells_many_wrong_labels_among_good_vectors():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 100)
    vectors = np.eye(3)[labels] * 6 + rng.normal(size=(300, 3))
    wrong = rng.choice(300, 45, replace=False)
    given = labels.copy()
    given[wrong] = (given[wrong] + rng.integers(1, 3, 45)) % 3
    found = audit.doubts(vectors, given, 3)
    assert 0.05 < found.share[1] <= 0.15 <= found.share[2]
    assert (found.suspicion[wrong] > 0.25).mean() > 0.9


def test_long_vectors_and_folds_of_one_class():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 150)
    found = audit.doubts(labels[:, None] + 0.1 * rng.normal(size=(300, 400)), labels, 2)
    assert found.agrees == 1.0
    lonely = np.eye(20, dtype=np.int64)[0]  # one label of its class: where it is left out there is one class to guess
    assert audit.doubts(rng.normal(size=(20, 4)), lonely, 2).share is None


def test_labels_nobody_can_judge_get_no_second_look_and_no_advice(small, tmp_path):
    """Texts of which each has words of its own: nothing can be learnt, and nothing is said against their labels."""
    table = tmp_path / "odd.csv"
    table.write_text("id,text\n" + "".join(f"o{at},word{at} thing{at}\n" for at in range(60)))
    folder = Folder(tmp_path / "odd.ncalr")
    found = sources.find(table)
    folder.create(found)
    projects.create(small.store, "odd", "text", list(CLASSES), sources.take_stock(found).items)
    rng = np.random.default_rng(0)
    for _ in range(40):
        small.label("ann", int(rng.integers(2)))
    assert Worker(folder, small.store).step()
    assert not small.rows(schema.review)
    team = small.store.read(lambda conn: figures.team(conn, small.clock.now()))
    assert team["card"][-1]["wrong"] is None
    assert team["advice"]["do"] == "go on"


# -- people as an oracle


def test_people_are_an_oracle(small):
    small.project(items=14)
    for at in range(14):
        small.label("ann", at % 3, kind="none" if at == 5 else "label")
    names = [row["name"] for row in small.rows(schema.item)]
    testing.check_oracle(lambda: People(small.store), np.array(names), 3)


def test_people_answer_later_refuse_and_are_named(small):
    small.project(items=4)
    small.rank([1, 2, 3])
    small.label("ann", 2)
    small.label("ben", kind="broken")
    found = People(small.store).answer(np.array(["item0000000", "item0000001", "item0000003", "item0000000"]))
    assert found.labels.tolist() == [2, REFUSED, LATER, 2]
    assert found.by.tolist() == ["ann", "ben", "", "ann"]
    assert len(People(small.store).answer([])) == 0


def test_the_loop_waits_for_people_and_its_wishes_come_first(small, monkeypatch):
    import threading

    monkeypatch.setattr("ncalr.web.oracle.POLL", 0.02)
    small.project(items=9)
    got = []
    oracle = People(small.store, wait=20)
    asking = threading.Thread(target=lambda: got.append(oracle.answer(np.array(["item0000007", "item0000002"]))))
    asking.start()
    wait(lambda: small.rows(schema.model), 10)
    assert small.names([small.label("ann", at)[0] for at in (1, 2)]) == [8, 3]
    asking.join()
    assert got[0].labels.tolist() == [1, 2]
    late = People(small.store, wait=0.05).answer(np.array(["item0000000"]))
    assert late.labels.tolist() == [LATER]


def test_answers_over_the_wire_reach_the_model(shop):
    desk, worker, truth = shop
    server = Server(desk)
    client = server.person("ann")
    for _ in range(4):
        for item in take(client, 5):
            say(client, item, truth(type("Lease", (), {"item": item["item"]})))
    assert worker.step()
    state = client.get("/api/state").json()["model"]
    assert (state["epoch"], state["labels"], state["answers_since"]) == (1, 20, 0)


# -- stepping back


def stepped_back(setting=None):
    """The niceness and the scheduling class of a process that stepped back, and of one of its threads from before."""
    said = """
import os, threading
from ncalr.web.courtesy import step_back
go, out = threading.Event(), []
early = threading.Thread(target=lambda: (go.wait(), out.append(os.sched_getscheduler(0))), daemon=True)
early.start()
step_back()
go.set()
early.join()
above = os.getpriority(os.PRIO_PROCESS, os.getppid())
print(os.getpriority(os.PRIO_PROCESS, 0) - above, os.sched_getscheduler(0), *out)
"""
    environment = {**os.environ, "NCALR_TRAINING_PRIORITY": setting} if setting else os.environ
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, env=environment, check=False)
    return [int(word) for word in done.stdout.split()] if not done.returncode else done.stderr


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux only")
def test_a_training_steps_back_and_what_writes_does_not(monkeypatch):
    monkeypatch.delenv("NCALR_TRAINING_PRIORITY", raising=False)
    assert stepped_back()[1:] == [os.SCHED_IDLE, os.SCHED_OTHER]
    assert stepped_back("low") == [10, os.SCHED_OTHER, os.SCHED_OTHER]
    assert stepped_back("normal") == [0, os.SCHED_OTHER, os.SCHED_OTHER]
    assert "did you mean" in stepped_back("idel").lower()
