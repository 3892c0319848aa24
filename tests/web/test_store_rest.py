"""People, projects, verdicts, migrations, copies, the second queue."""

from __future__ import annotations

import doctest
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from ncalr.errors import BadInput, UnknownName
from ncalr.web import figures
from ncalr.web.store import again, copying, open_store, people, projects, review, schema, verdict
from ncalr.web.store.clock import SteadyClock
from ncalr.web.store.database import open_engine
from ncalr.web.store.migrate import NewerDatabase, downgrade, upgrade, versions
from ncalr.web.store.people import NotAllowed
from ncalr.web.store.projects import NewItem
from ncalr.web.store.verdict import Vote, judge

# -- verdicts


def test_the_examples_of_the_verdict_run():
    assert doctest.testmod(verdict).failed == 0


@pytest.mark.parametrize(
    ("votes", "needed", "status", "answer"),
    [
        ([], 1, "open", None),
        ([Vote("skip")], 1, "open", None),
        ([Vote("unsure")] * 2, 1, "open", None),
        ([Vote("unsure")] * 3, 1, "unclear", None),
        ([Vote("unsure")] * 3 + [Vote("label", 1)], 1, "labelled", 1),
        ([Vote("label", 1), Vote("none")], 2, "disputed", None),
        ([Vote("none"), Vote("none"), Vote("label", 1)], 3, "none", None),
        ([Vote("broken")], 1, "broken", None),
        ([Vote("label", 0), Vote("label", 1), Vote("broken", None, "adjudicate")], 2, "broken", None),
    ],
)
def test_verdicts(votes, needed, status, answer):
    found = judge(votes, needed)
    assert (found.status, found.answer) == (status, answer)


# -- people


def test_a_link_works_once_and_for_a_day(office, clock):
    office.project(items=1)
    ann = office.person("ann")
    link = office.store.write(lambda conn: people.issue(conn, clock.time, "link", person=ann))
    who, session = office.store.write(lambda conn: people.enter(conn, clock.time, link))
    assert who.name == "ann"
    assert office.store.read(lambda conn: people.by_session(conn, clock.time, session))[0].name == "ann"
    with pytest.raises(NotAllowed, match="used already"):
        office.store.write(lambda conn: people.enter(conn, clock.time, link))
    late = office.store.write(lambda conn: people.issue(conn, clock.time, "link", person=ann))
    clock.time += 24 * 3600 + 1
    with pytest.raises(NotAllowed, match="expired"):
        office.store.write(lambda conn: people.enter(conn, clock.time, late))


def test_an_invitation_makes_a_person_with_its_role(small, clock):
    small.project(items=1)
    link = small.store.write(lambda conn: people.issue(conn, clock.time, "invitation", role="reviewer"))
    assert small.store.read(lambda conn: people.token_kind(conn, clock.time, link)) == "invitation"
    with pytest.raises(BadInput, match="needs a name"):
        small.store.write(lambda conn: people.enter(conn, clock.time, link))
    who, _ = small.store.write(lambda conn: people.enter(conn, clock.time, link, " Rae  Smith "))
    assert (who.name, who.role) == ("Rae Smith", "reviewer")
    assert (who.may("annotator"), who.may("reviewer"), who.may("owner")) == (True, True, False)


def test_sessions_end_when_idle_when_left_and_when_somebody_is_sent_away(small, clock):
    small.project(items=1)
    small.person("own", "owner")
    ann = small.person("ann")

    def come_in():
        link = small.store.write(lambda conn: people.issue(conn, clock.time, "link", person=ann))
        return small.store.write(lambda conn: people.enter(conn, clock.time, link))[1]

    idle = come_in()
    clock.time += people.IDLE_SECONDS - 10
    small.store.write(lambda conn: people.touch(conn, clock.time, idle))
    clock.time += 100
    small.store.read(lambda conn: people.by_session(conn, clock.time, idle))
    clock.time += people.IDLE_SECONDS
    left, sent = come_in(), come_in()
    small.store.write(lambda conn: people.leave(conn, clock.time, left))
    token = small.store.write(lambda conn: people.issue(conn, clock.time, "access", person=ann, seconds=None))
    assert small.store.read(lambda conn: people.by_access_token(conn, clock.time, token)).name == "ann"
    small.store.write(lambda conn: people.change(conn, clock.time, ann, active=False))
    for session in (idle, left, sent, "unknown"):
        with pytest.raises(NotAllowed):
            small.store.read(lambda conn, session=session: people.by_session(conn, clock.time, session))
    with pytest.raises(NotAllowed):
        small.store.read(lambda conn: people.by_access_token(conn, clock.time, token))


def test_a_session_lasts_over_the_night_and_not_for_ever(small, clock):
    small.project(items=1)
    ann = small.person("ann")
    link = small.store.write(lambda conn: people.link(conn, clock.time, ann))
    session = small.store.write(lambda conn: people.enter(conn, clock.time, link))[1]
    began = clock.time
    for _ in range(30):  # in use now and then
        clock.time += 3 * 24 * 3600
        if clock.time <= began + people.LONGEST_SECONDS:
            small.store.read(lambda conn: people.by_session(conn, clock.time, session))
            small.store.write(lambda conn: people.touch(conn, clock.time, session))
    clock.time = began + people.LONGEST_SECONDS + 1
    with pytest.raises(NotAllowed, match="ended"):
        small.store.read(lambda conn: people.by_session(conn, clock.time, session))


def test_secrets_are_not_stored(small, clock):
    small.project(items=1)
    ann = small.person("ann")
    secret = small.store.write(lambda conn: people.issue(conn, clock.time, "link", person=ann))
    _, session = small.store.write(lambda conn: people.enter(conn, clock.time, secret))
    small.store.close()
    content = b"".join(path.read_bytes() for path in Path(small.url).parent.iterdir())
    assert secret.encode() not in content
    assert session.encode() not in content


def test_the_last_owner_stays(small, clock):
    small.project(items=1)
    own = small.person("own", "owner")
    for change in ({"active": False}, {"role": "annotator"}):
        with pytest.raises(BadInput, match="only owner"):
            small.store.write(lambda conn, change=change: people.change(conn, 1.0, own, **change))
    ann = small.person("ann")
    small.store.write(lambda conn: people.change(conn, 1.0, ann, role="owner"))
    small.store.write(lambda conn: people.change(conn, 1.0, own, role="annotator"))
    assert [p.role for p in small.store.read(people.everyone)] == ["annotator", "owner"]


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "a\x00b"])
def test_names_nobody_can_go_by(small, name):
    small.project(items=1)
    with pytest.raises(BadInput, match="visible"):
        small.store.write(lambda conn: people.add(conn, 1.0, name, "annotator"))


def test_strange_people(small):
    small.project(items=1)
    small.person("ann")
    with pytest.raises(BadInput, match="already"):
        small.store.write(lambda conn: people.add(conn, 1.0, "ann", "annotator"))
    with pytest.raises(UnknownName):
        small.store.write(lambda conn: people.add(conn, 1.0, "bob", "king"))
    with pytest.raises(UnknownName):
        small.store.write(lambda conn: people.issue(conn, 1.0, "invitation", role="king"))
    with pytest.raises(BadInput, match="no such person"):
        small.store.read(lambda conn: people.by_key(conn, "x"))
    ann = small.store.read(lambda conn: people.by_name(conn, "ann"))
    assert small.store.read(lambda conn: people.by_key(conn, ann.key)) == ann
    assert small.store.read(lambda conn: people.by_name(conn, "zoe")) is None


# -- projects


def test_a_store_holds_one_project(small):
    with pytest.raises(BadInput, match="no project"):
        small.store.read(projects.load)
    small.project(items=3)
    with pytest.raises(BadInput, match="already"):
        small.project(items=3)


@pytest.mark.parametrize(
    ("classes", "message"),
    [(["a"], "2 to 1000"), (["a", "A"], "twice"), (["a", ""], "visible"), (["a", "b\x07"], "visible")],
)
def test_classes_that_cannot_be(small, classes, message):
    with pytest.raises(BadInput, match=message):
        projects.create(small.store, "p", "text", classes, [])


def test_other_things_that_cannot_be(small):
    with pytest.raises(UnknownName):
        projects.create(small.store, "p", "sound", ["a", "b"], [])
    with pytest.raises(BadInput, match="votes"):
        projects.create(small.store, "p", "text", ["a", "b"], [], votes=0)
    for wrong in ({"control": 1.0}, {"lease_seconds": 1}, {"first_training": 1}, {"check_share": 2}):
        with pytest.raises(BadInput):
            projects.Settings(**wrong)
    small.project(items=1)
    with pytest.raises(UnknownName):
        small.store.write(lambda conn: projects.change_settings(conn, user__password=1))
    with pytest.raises(BadInput, match="characters"):
        small.store.write(lambda conn: projects.write_guideline(conn, 1.0, "x" * 100_001))


def test_rules_classes_and_guidelines_change(small):
    small.project(items=1)
    small.store.write(lambda conn: projects.change_settings(conn, suggestions=True))
    assert small.store.read(projects.load).settings.suggestions
    assert small.store.write(lambda conn: projects.add_class(conn, "  fish\t")) == 3
    assert small.store.read(projects.classes) == ["cat", "dog", "bird", "fish"]
    assert small.store.write(lambda conn: projects.write_guideline(conn, 1.0, "# Look")) == 2
    assert small.store.read(projects.guideline) == "# Look"
    small.label("ann", 3)


# -- the database itself


def test_every_sqlite_connection_is_durable(small):
    with small.store.engine.connect() as one, small.store.engine.connect() as two:
        for connection in (one, two):
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_postgresql_that_forgets_is_refused(cluster):
    url = cluster.database("forgetful") + "?options=-csynchronous_commit%3Doff"
    with pytest.raises(BadInput, match="synchronous_commit=off"):
        open_store(url)
    open_store(url, unsafe=True).close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y"])
def test_databases_that_will_not_do(url):
    with pytest.raises(Exception, match=r"file|must be sqlite|No module"):
        open_engine(url)


def test_a_clock_that_jumps_does_not_move_ours(monkeypatch):
    clock = SteadyClock()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: before + 86400)
    assert abs(clock.now() - before) < 5
    monkeypatch.setattr(time, "time", lambda: before - 86400)
    assert clock.now() >= before
    assert SteadyClock(floor=before).now() >= before  # set back between two starts


def test_a_store_opened_after_the_clock_was_set_back_goes_on_from_its_last_event(small, monkeypatch):
    small.project(items=2)
    small.clock.time = time.time() + 86400
    small.label("ann")
    again = open_store(small.url)
    assert again.clock.now() >= small.clock.time
    again.close()


# -- migrations


def test_the_migrations_make_exactly_the_tables_we_use(office):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with office.store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_down_and_up_again(office):
    engine = office.store.engine
    downgrade(engine, "base")
    assert versions(engine)[0] is None
    upgrade(engine)
    upgrade(engine)
    assert versions(engine)[0] == versions(engine)[1]
    office.project(items=2)
    office.label("ann")


def test_a_newer_database_is_left_alone(small):
    small.project(items=2)
    small.store.write(lambda conn: conn.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    small.store.close()
    before = Path(small.url).read_bytes()
    with pytest.raises(NewerDatabase, match="9999"):
        open_store(small.url)
    assert Path(small.url).read_bytes() == before


def test_an_older_database_is_copied_before_it_is_changed(small, monkeypatch):
    from ncalr.web.store import migrate

    small.project(items=2)
    small.label("ann")
    monkeypatch.setattr(migrate, "versions", lambda engine: ("0001", "0002", {"0001", "0002"}))
    upgrade(small.store.engine)
    [copied] = Path(small.url).parent.glob("store.before-0001-*.db")
    assert copying.check(copied) == copying.verify(small.store)


def test_what_a_project_of_the_first_version_has_is_counted(office):
    """Leases from before do not say whether a lottery decided; answers from before are counted."""
    office.project(items=6, votes=2, suggestions=True)
    office.rank(range(1, 7), predicted=1)
    for name in ("ann", "ben"):
        for _ in range(3):
            office.label(name, 1)
    office.label("ann", kind="unsure")
    found = office.store.read(figures.progress)
    assert (found["answers"], found["wanted"]) == (6, 12)
    assert found["closed"] == 3
    assert any(row["drawn"] for row in office.rows(schema.lease))
    chain = copying.verify(office.store)
    downgrade(office.store.engine, "0001")
    with office.store.engine.connect() as conn:
        assert "drawn" not in {column["name"] for column in inspect(conn).get_columns("lease")}
    upgrade(office.store.engine)
    assert office.store.read(figures.progress) == found
    assert not any(row["drawn"] for row in office.rows(schema.lease))
    assert copying.verify(office.store) == chain


# -- copies


def test_backup_and_restore_give_the_same_events(office, tmp_path):
    office.project(items=20, votes=2)
    for at in range(15):
        office.label(f"p{at % 3}", at % 3)
    found = copying.backup(office.store, tmp_path / "backup.db")
    office.label("p0", 1)
    assert sorted(path.name for path in tmp_path.glob("backup*")) == ["backup.db"]
    assert copying.check(tmp_path / "backup.db") == found
    fresh = open_store(tmp_path / "again.db")
    assert copying.restore(tmp_path / "backup.db", fresh) == found
    fresh.close()
    with pytest.raises(BadInput, match="never overwrites"):
        copying.backup(office.store, tmp_path / "backup.db")
    with pytest.raises(BadInput, match="no backup"):
        copying.check(tmp_path / "nowhere.db")
    with pytest.raises(BadInput, match="already"):
        copying.restore(tmp_path / "backup.db", office.store)


def test_from_sqlite_to_postgresql_and_back(small, cluster, tmp_path):
    small.project(items=10)
    for at in range(6):
        small.label("ann", at % 3, kind="label" if at else "none")
    before = copying.verify(small.store)
    there = open_store(cluster.database("moved"))
    back = open_store(tmp_path / "back.db")
    assert copying.copy(small.store, there) == before
    assert copying.copy(there, back) == before
    for table in schema.metadata.sorted_tables:
        ordered = table.select().order_by(*table.primary_key.columns)
        both = [s.read(lambda conn: conn.execute(ordered).mappings().all()) for s in (small.store, back)]  # noqa: B023
        assert both[0] == both[1], table
    there.close()
    back.close()


def test_a_damaged_backup_is_found(small, tmp_path):
    small.project(items=200)
    copying.backup(small.store, tmp_path / "b.db")
    content = bytearray((tmp_path / "b.db").read_bytes())
    content[8192:12288] = bytes(4096)
    (tmp_path / "b.db").write_bytes(content)
    with pytest.raises(Exception, match=r"damaged|malformed"):
        copying.check(tmp_path / "b.db")


# -- the second queue


def doubtful(office, count=6):
    office.project(items=20)
    for at in range(20):
        office.label("ann", at % 2)
    labels = {row["item_id"]: row["answer"] for row in office.rows(schema.state)}
    doubts = [review.Doubt(at, 1.0, 1 - labels[at], "near the other class") for at in sorted(labels)[:count]]
    sound = sorted(labels)[count:]
    places = office.store.write(lambda conn: review.enqueue(conn, 3, doubts, sound, 0))
    return labels, doubts, sound, places


def test_every_doubtful_label_has_a_control_of_its_class_and_nobody_is_asked_twice(office):
    labels, doubts, sound, places = doubtful(office)
    rows = office.rows(schema.review)
    assert places == len(rows) == 12
    assert sorted(row["item_id"] for row in rows if row["doubtful"]) == [doubt.item_id for doubt in doubts]
    controls = [row for row in rows if not row["doubtful"]]
    assert sorted(row["given"] for row in controls) == sorted(labels[doubt.item_id] for doubt in doubts)
    assert all(row["given"] == labels[row["item_id"]] for row in rows)
    assert [row["doubtful"] for row in sorted(rows, key=lambda row: row["id"])] != [True, False] * 6
    assert office.store.write(lambda conn: review.enqueue(conn, 4, doubts, sound, 0)) == 0


def test_controls_are_found_in_one_pass_over_the_labels(monkeypatch):
    """Others wait for the writer meanwhile: of 20,000 labels each doubtful one had gone through all sound ones."""
    looks, rows = 0, []

    class Counted(int):
        def __hash__(self):
            nonlocal looks
            looks += 1
            return int.__hash__(self)

    class Nothing:
        def execute(self, _what, given=()):
            rows.extend(given)
            return self

        def scalars(self):
            return []

        def scalar(self):
            return 0

    monkeypatch.setattr(review, "_labels", lambda _conn: {at: at % 3 for at in range(300)})
    doubts = [review.Doubt(at, 1.0, None, "why") for at in range(100)]
    assert review.enqueue(Nothing(), 1, doubts, [Counted(at) for at in range(100, 300)], 0) == 200
    assert len({row["item_id"] for row in rows}) == 200  # each is the control of one
    assert looks < 5 * 200


def test_the_second_look_goes_to_somebody_else_blind_and_its_precision_is_known(office):
    doubtful(office)
    ben = office.person("ben")
    assert office.next("ann", purpose="review") == []  # her own labels
    kinds = {row["item_id"]: row for row in office.rows(schema.review)}
    for _ in range(12):
        [lease] = office.next("ben", purpose="review")
        assert lease.suggestion is None
        place = kinds[office.names([lease])[0]]
        office.say("ben", lease.item, 1 - place["given"] if place["doubtful"] else place["given"], lease=lease.token)
    assert office.next("ben", purpose="review") == []
    found = office.store.read(review.precision)
    assert (found.doubtful, found.doubtful_differed, found.controls, found.controls_differed) == (6, 6, 6, 0)
    assert found.open == 0
    assert office.counter("status:disputed") == 6
    assert ben.role == "annotator"


def test_where_everybody_has_answered_the_longest_ago_looks_again_and_nobody_is_nagged(office):
    office.project(items=6, votes=2)
    for name in ("ann", "ben"):
        for _ in range(6):
            office.label(name, 0)
    doubts = [review.Doubt(at, 1.0, 1, "why") for at in (1, 2)]
    assert office.store.write(lambda conn: review.enqueue(conn, 1, doubts, [], 0)) == 2

    def waits(name):
        return office.store.read(lambda conn: again.waiting(conn, office.clock.now(), office.person(name)))["review"]

    assert (waits("ann"), waits("ben")) == (2, 0)
    assert office.next("ben", purpose="review") == []
    lease, _ = office.label("ann", 0, purpose="review")
    [number] = office.names([lease])
    assert [row["status"] for row in office.rows(schema.review) if row["item_id"] == number] == ["agreed"]
    cat = office.person("cat")  # somebody fresh: the rest is for her
    assert (waits("ann"), waits("cat")) == (0, 1)
    assert office.next("ann", purpose="review") == []
    office.store.write(lambda conn: people.change(conn, 1.0, cat, None, False))
    office.store.write(lambda conn: people.change(conn, 1.0, office.people["ben"], "reviewer", None))
    office.people["ben"] = office.store.read(lambda conn: people.by_name(conn, "ben"))
    assert (waits("ann"), waits("ben")) == (1, 1)  # a reviewer may as well


def test_a_second_look_does_not_wait_for_somebody_who_does_not_come(office, clock):
    office.project(items=1, votes=2)
    office.person("zoe")
    for name in ("ann", "ben"):
        office.label(name, 0)
    office.store.write(lambda conn: review.enqueue(conn, 1, [review.Doubt(1, 1.0, 1, "why")], [], 0))
    assert office.next("ben", purpose="review") == []
    clock.time += again.LATELY + 1
    assert len(office.next("ben", purpose="review")) == 1  # ann, who answered before, and zoe do not come


def test_a_second_look_that_was_put_off_comes_back_last(office):
    doubtful(office)
    office.person("ben")
    first = [office.label("ben", kind="skip", purpose="review")[0].item for _ in range(12)]
    assert len(set(first)) == 12
    assert [office.label("ben", kind="skip", purpose="review")[0].item for _ in range(12)] == first
    assert len(office.next("ben", 10, purpose="review")) == 10


def test_what_waits_is_counted_so_far_and_no_further(office, monkeypatch):
    doubtful(office)
    ben = office.person("ben")
    monkeypatch.setattr(again, "MOST", 5)
    assert office.store.read(lambda conn: again.waiting(conn, office.clock.now(), ben)) == {"review": 5, "decide": 0}


def test_somebody_alone_checks_their_own_labels(small):
    doubtful(small)
    lease, receipt = small.label("ann", 1, purpose="review")
    assert not receipt.late
    status = {row["item_id"]: row["status"] for row in small.rows(schema.review)}
    assert status[small.names([lease])[0]] in ("agreed", "differed")
    small.say("ann", lease.item, kind="undo", based_on=receipt.id, lease=lease.token)
    assert {row["status"] for row in small.rows(schema.review)} == {"open"}
    small.say("ann", lease.item, kind="unsure", lease=lease.token)
    assert sorted({row["status"] for row in small.rows(schema.review)}) == ["open", "unsure"]


def test_a_class_without_sound_labels_gets_no_control(small):
    small.project(items=2)
    small.label("ann", 0)
    number = small.rows(schema.state)[0]["item_id"]
    doubts = [review.Doubt(number, 1.0, None, "why"), review.Doubt(99, 1.0, None, "not labelled")]
    assert small.store.write(lambda conn: review.enqueue(conn, 1, doubts, [], 0)) == 1


def test_new_items_with_the_same_name_are_one(small):
    small.project(items=2)
    assert projects.add_items(small.store, [NewItem("x"), NewItem("x")]) == 1
    assert small.counter("items") == 3


def test_an_answer_is_synced_and_a_lease_need_not_be(office):
    """On PostgreSQL only what says so leaves out the sync; what stands in line with an answer is synced with it."""
    if office.store.engine.dialect.name != "postgresql":
        pytest.skip("SQLite syncs every commit")
    writer = office.store._writer

    def setting(conn):
        return conn.exec_driver_sql("SHOW synchronous_commit").scalar()

    assert writer.run(setting) == "on"
    assert writer.submit(setting, durable=False).result() == "off"
    assert writer.run(setting) == "on"
    gate = threading.Event()
    held = writer.submit(lambda conn: gate.wait(10))
    together = [writer.submit(setting, durable=False), writer.submit(setting)]
    gate.set()
    assert held.result()
    assert [each.result() for each in together] == ["on", "on"]


def test_the_writer_finds_a_new_connection_when_its_own_was_ended(office):
    if office.store.engine.dialect.name != "postgresql":
        pytest.skip("a file is not ended")
    mine = office.store.write(lambda conn: conn.exec_driver_sql("SELECT pg_backend_pid()").scalar())
    office.store.read(lambda conn: conn.exec_driver_sql(f"SELECT pg_terminate_backend({mine})").scalar())
    assert office.store.write(lambda conn: conn.exec_driver_sql("SELECT 1").scalar()) == 1


def test_whoever_gives_up_waiting_is_left_out_and_the_line_goes_on(office):
    writer, gate, done = office.store._writer, threading.Event(), []
    busy = writer.submit(lambda conn: gate.wait(10))
    while not busy.running():
        time.sleep(0.001)
    gone = writer.submit(lambda conn: done.append("gone"))
    assert gone.cancel()
    assert not busy.cancel()
    gate.set()
    assert writer.run(lambda conn: done.append("after")) is None
    assert done == ["after"]
