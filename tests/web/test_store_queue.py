"""Leases, orders and emptiness, on both databases."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from ncalr.errors import BadInput
from ncalr.web.store import again, answers, open_store, people, projects, queue, ranking, schema


def test_two_people_never_hold_one_item(office):
    office.project(items=4)
    first, second = office.next("ann", 2), office.next("ben", 2)
    assert len({lease.item for lease in [*first, *second]}) == 4
    assert office.next("eve") == []


def test_two_tabs_of_one_person_hold_different_items_and_each_keeps_its_own(office):
    office.project(items=4, votes=3)
    one, two = office.next("ann", 2, "one"), office.next("ann", 2, "two")
    assert len({lease.item for lease in [*one, *two]}) == 4
    assert office.next("ann", 2, "one") == one
    assert office.next("ann", 3, "one") == one  # nothing more is to be had


def test_with_three_votes_an_item_goes_to_three_people_and_not_to_a_fourth(office):
    office.project(items=1, votes=3)
    items = {office.next(name)[0].item for name in ("ann", "ben", "cat")}
    assert len(items) == 1
    assert office.next("dan") == []


def test_a_silent_client_loses_the_item_one_second_after_the_lease_and_its_late_answer_is_kept(office, clock):
    office.project(items=1, lease_seconds=300)
    [lease] = office.next("ann")
    clock.time += 299
    assert office.next("ben") == []
    clock.time += 2
    [other] = office.next("ben")
    assert other.item == lease.item
    receipt = office.say("ann", lease.item, 1, lease=lease.token)
    assert receipt.late
    assert not office.say("ben", other.item, 1, lease=other.token).late
    assert office.state(lease.item)["votes"] == 2


def test_a_heartbeat_keeps_the_lease(office, clock):
    office.project(items=1, lease_seconds=300)
    [lease] = office.next("ann")
    for _ in range(5):
        clock.time += 200
        ann = office.person("ann")
        held = office.store.write(lambda conn, ann=ann: queue.renew(conn, clock.time, ann, "tab"))
        assert held == [lease.token]
    assert office.next("ben") == []


def test_released_items_are_free_at_once_and_an_owner_can_clear_all(office):
    office.project(items=2)
    leases = office.next("ann", 2)
    ann = office.person("ann")
    assert office.store.write(lambda conn: queue.release(conn, ann, [leases[0].token])) == 1
    assert office.next("ben")[0].item == leases[0].item
    assert office.store.write(queue.clear) == 2


@pytest.mark.parametrize("count", [1, 2, 10])
def test_the_order_is_the_same_for_one_person_and_for_ten(office, count):
    office.project(items=60)
    order = [(at * 37) % 60 + 1 for at in range(60)]
    office.rank(order)
    served = []
    for turn in range(60):
        lease, _ = office.label(f"person{turn % count}")
        served.append(lease)
    assert office.names(served) == order


def test_behind_the_ranked_items_the_first_order_goes_on(office):
    office.project(items=6)
    first_order = office.names(office.next("ann", 6))
    office.store.write(queue.clear)
    office.rank([3, 1])
    assert office.names(office.next("ben", 6)) == [3, 1, *[at for at in first_order if at not in (3, 1)]]


def test_a_swap_changes_the_whole_order_at_once_and_leaves_no_rows_behind(office):
    office.project(items=9)
    office.rank([1, 2, 3])
    office.label("ann")
    epoch = office.rank([1, 9, 8, 7])  # item 1 was closed meanwhile
    assert office.names(office.next("ann", 3)) == [9, 8, 7]
    assert {row["epoch"] for row in office.rows(schema.ranking)} == {0, epoch}
    assert [row["epoch"] for row in office.rows(schema.model)] == [epoch - 1, epoch]


def test_no_request_sees_a_mix_of_two_orders(office):
    office.project(items=40)
    orders = [list(range(1, 41)), list(range(40, 0, -1))]
    office.rank(orders[0])
    ann, seen, stop = office.person("ann"), [], threading.Event()

    def look():
        while not stop.is_set():
            leases = office.store.write(lambda conn: queue.hand_out(conn, 1.0, ann, "tab", 5))
            seen.append(office.names(leases))
            office.store.write(queue.clear)

    thread = threading.Thread(target=look)
    thread.start()
    for turn in range(6):
        office.rank(orders[(turn + 1) % 2])
    stop.set()
    thread.join()
    assert len(seen) > 3
    assert all(found in ([1, 2, 3, 4, 5], [40, 39, 38, 37, 36]) for found in seen)


def test_what_was_skipped_comes_back_when_nothing_else_is_left(office):
    office.project(items=3)
    skipped, _ = office.label("ann", kind="skip")
    others = [office.label("ann")[0].item for _ in range(2)]
    assert skipped.item not in others
    assert not office.empty("ann").done
    again, receipt = office.label("ann", 2)
    assert again.item == skipped.item
    assert not receipt.late
    assert office.empty("ann").done


def test_unsure_sends_the_item_to_somebody_else_and_three_unsure_people_to_an_adjudicator(office):
    office.project(items=1)
    for name in ("ann", "ben", "cat", "rae"):
        office.person(name, "reviewer" if name == "rae" else "annotator")
    for name in ("ann", "ben"):
        lease, _ = office.label(name, kind="unsure")
        assert office.next(name) == []
    found = office.empty("ann")
    assert (found.open, found.for_others, found.done) == (1, 1, False)
    office.label("cat", kind="unsure")
    assert office.state(lease.item)["status"] == "unclear"
    [lease] = office.next("rae", purpose="adjudicate")
    office.say("rae", lease.item, 1, lease=lease.token)
    assert (office.state(lease.item)["status"], office.state(lease.item)["answer"]) == ("labelled", 1)


def test_one_who_is_alone_and_unsure_can_come_to_an_end(office):
    office.project(items=2, votes=2)
    office.person("own", "owner")
    for _ in range(2):
        lease, _ = office.label("own", kind="unsure")
        assert office.state(lease.item)["status"] == "unclear"
    assert office.empty("own").done
    [lease] = office.next("own", purpose="adjudicate")
    office.say("own", lease.item, 1, lease=lease.token)
    assert office.state(lease.item)["status"] == "labelled"
    assert office.counter("status:unclear") == 1


def test_whoever_comes_or_goes_changes_whom_an_item_waits_for(office):
    office.project(items=4, votes=2)
    office.person("own", "owner")
    for kind in ("unsure", "unsure", "label"):
        office.label("own", kind=kind)
    assert office.counter("status:unclear") == 2
    ann = office.person("ann")
    assert office.store.write(answers.reconsider) == 2
    assert (office.counter("status:unclear"), office.counter("closed")) == (0, 0)
    assert len(office.next("ann", 4)) == 4  # all of them are to be had, what waited before the rest
    office.store.write(queue.clear)
    office.store.write(lambda conn: people.change(conn, 1.0, ann, active=False))
    assert office.store.write(answers.reconsider) == 2
    assert office.store.write(answers.reconsider) == 0
    assert office.counter("status:unclear") == 2
    office.store.write(lambda conn: people.change(conn, 1.0, ann, active=True))
    office.store.write(answers.reconsider)
    for _ in range(2):
        office.label("ann", kind="unsure")  # both of them were asked, and one is unsure
    assert office.counter("status:unclear") == 2


def test_what_somebody_said_who_is_not_here_leaves_an_item_to_those_who_are(small):
    from ncalr.web.exchange import Opinion, Record, take_in

    small.project(items=1)
    small.person("own", "owner")
    take_in(small.store, [Record("item0000000", "open", votes=(Opinion("zoe", "unsure"),))])
    small.store.write(answers.reconsider)
    assert len(small.next("own")) == 1


def test_the_answers_given_and_wanted_are_counted(office):
    import random

    draws = random.Random(0)
    office.project(items=12, votes=2)
    names = [office.person(name, "reviewer").name for name in ("ann", "ben", "cat")]
    keys = {row["id"]: row["key"] for row in office.rows(schema.item)}
    numbers = {key: number for number, key in keys.items()}
    who = {office.person(name).id: name for name in names}
    for _ in range(120):
        name, purpose = draws.choice(names), draws.choice(["label"] * 4 + ["adjudicate"])
        standing = office.rows(schema.vote)
        if standing and draws.random() < 0.3:
            vote = draws.choice(standing)
            office.say(who[vote["person_id"]], keys[vote["item_id"]], kind="undo", based_on=vote["event"])
        elif draws.random() < 0.2:
            number, more = draws.choice([*keys]), draws.randint(1, 4)
            office.store.write(lambda conn, number=number, more=more: answers.need(conn, number, more))
        elif leases := office.next(name, purpose=purpose):
            item, kind = leases[0].item, draws.choice(["label", "label", "none", "unsure", "skip"])
            mine = [vote for vote in standing if (who[vote["person_id"]], vote["item_id"]) == (name, numbers[item])]
            before = next((vote["event"] for vote in mine if vote["purpose"] == purpose), None)
            office.say(name, item, draws.randrange(3) if kind == "label" else None, kind, leases[0].token, before)
        check_counters(office)
    office.store.write(lambda conn: answers.change_votes(conn, 3))
    check_counters(office)
    office.store.write(lambda conn: answers.change_votes(conn, 1))
    check_counters(office)


def check_counters(office):
    """The counters are what the tables say."""
    from ncalr.web import figures

    state = {row["item_id"]: row for row in office.rows(schema.state)}
    given = [vote for vote in office.rows(schema.vote) if vote["purpose"] == "label"]
    given = [vote["item_id"] for vote in given if vote["kind"] in ("label", "none", "broken")]
    votes = office.rows(schema.project)[0]["votes"]
    open_ = [
        row["id"] for row in office.rows(schema.item) if state.get(row["id"], {"status": "open"})["status"] == "open"
    ]
    found = office.store.read(figures.progress)
    assert found["answers"] == len(given)
    wanted = sum(state.get(item, {}).get("needed") or votes for item in open_)
    assert found["wanted"] == max(sum(item not in open_ for item in given) + wanted, len(given))
    assert found["undecided"] == sum(row["status"] in ("disputed", "unclear") for row in state.values())
    assert found["items"] - found["closed"] == len(open_)


def test_hands_full_of_second_looks_are_a_reason_too(office):
    office.project(items=40)
    for tab in "abc":
        office.next("ann", 10, tab)
    office.store.write(lambda conn: conn.execute(schema.lease.update().values(purpose="review")))
    assert office.next("ann", 1, "labels") == []
    assert office.empty("ann", "labels").own_tabs == 30
    office.store.write(lambda conn: conn.execute(schema.lease.delete().where(schema.lease.c.tab == "a")))
    assert office.empty("ann", "labels").own_tabs == 0, "they are not in the way of labelling any more"


def test_emptiness_says_who_has_the_rest_and_until_when(office, clock):
    office.project(items=3, lease_seconds=300)
    office.next("ann", 2)
    clock.time += 10
    office.next("ben", 1, "other")
    found = office.empty("ben", "tab")
    assert (found.open, found.elsewhere, found.people, found.own_tabs) == (3, 2, 1, 1)
    assert found.until == clock.time + 290
    assert not found.done


def test_done_means_that_nothing_is_open(office):
    office.project(items=2)
    office.label("ann")
    assert not office.empty("ann").done
    office.label("ann", kind="none")
    assert office.empty("ann").done
    assert office.empty("ben").done


def test_ties_go_to_a_reviewer_and_not_to_an_annotator(office):
    office.project(items=1, votes=2)
    lease, _ = office.label("ann", 0)
    office.label("ben", 1)
    assert office.state(lease.item)["status"] == "disputed"
    [asked] = office.next("ann", purpose="adjudicate")
    with pytest.raises(BadInput, match="for reviewers"):
        office.say("ann", asked.item, 0, lease=asked.token)


def test_whoever_took_part_in_a_dispute_decides_it_only_where_nobody_else_can(office):
    office.project(items=2, votes=2)
    office.person("rae", "owner")
    roy = office.person("roy", "reviewer")
    for _ in range(2):
        office.label("rae", 0)
        office.label("ann", 1)

    def waits(name):
        return office.store.read(lambda conn: again.waiting(conn, office.clock.now(), office.person(name)))["decide"]

    assert (waits("rae"), waits("roy"), waits("ann")) == (0, 2, 0)
    assert office.next("rae", purpose="adjudicate") == []
    office.label("roy", 0, purpose="adjudicate")
    assert (waits("rae"), waits("roy")) == (0, 1)
    office.store.write(lambda conn: people.change(conn, 1.0, roy, None, False))
    assert waits("rae") == 1
    lease, _ = office.label("rae", 0, purpose="adjudicate")
    assert office.state(lease.item)["status"] == "labelled"


def test_a_dispute_does_not_wait_for_somebody_who_does_not_come(office, clock):
    office.project(items=1, votes=2)
    office.person("rae", "reviewer")
    roy = office.person("roy", "reviewer")
    office.label("rae", 0)
    office.label("ann", 1)
    clock.time += again.LATELY - 1
    assert office.next("rae", purpose="adjudicate") == []
    clock.time += 2
    link = office.store.write(lambda conn: people.link(conn, clock.now(), roy))
    assert len(office.next("rae", purpose="adjudicate")) == 1
    office.store.write(queue.clear)
    office.store.write(lambda conn: people.enter(conn, clock.now(), link))  # there he is
    assert office.next("rae", purpose="adjudicate") == []


def test_an_owner_decides_in_the_end(office, clock):
    office.project(items=2, votes=2)
    office.person("own", "owner")
    office.person("roy", "reviewer")
    office.label("own", 0)
    office.label("ann", 1)
    clock.time += again.LATELY + 1
    office.label("roy", 0)  # he works, and does not decide
    assert len(office.next("own", purpose="adjudicate")) == 1


def test_whoever_was_unsure_about_a_decision_decides_it_later(office):
    office.project(items=1, votes=2)
    office.person("rae", "owner")
    office.label("rae", 0)
    office.label("ann", 1)
    for _ in range(2):
        office.label("rae", kind="unsure", purpose="adjudicate")
    lease, _ = office.label("rae", 1, purpose="adjudicate")
    assert office.state(lease.item)["answer"] == 1
    with pytest.raises(answers.Conflict):
        office.say("rae", lease.item, 0, lease=lease.token)


def test_more_votes_open_the_items_again_and_fewer_close_them(office):
    office.project(items=3)
    for _ in range(3):
        office.label("ann", 1)
    office.store.write(lambda conn: answers.change_votes(conn, 2))
    assert office.counter("closed") == 0
    assert office.counter("class:1") == 0
    assert office.next("ann") == []  # her own answers stand
    office.label("ben", 1)
    assert office.counter("closed") == 1
    office.store.write(lambda conn: answers.change_votes(conn, 1))
    assert office.counter("closed") == 3
    assert office.counter("class:1") == 3


def test_the_number_of_votes_there_is_already_changes_nothing(office):
    office.project(items=10)
    for _ in range(5):
        office.label("ann", 1)
    before = office.rows(schema.state)
    office.store.write(lambda conn: answers.change_votes(conn, 1))
    assert office.rows(schema.state) == before


def test_after_other_numbers_of_votes_items_come_back_in_order_and_answers_are_still_taken_back(office):
    office.project(items=12)
    given = [office.label("ann", 1) for _ in range(6)]
    for votes in (2, 1, 2):
        office.store.write(lambda conn, votes=votes: answers.change_votes(conn, votes))
    assert max(row["seq"] for row in office.rows(schema.state)) == 6
    assert [lease.item for lease in office.next("ben", 6)] == [lease.item for lease, _ in given]
    office.store.write(lambda conn: answers.change_votes(conn, 1))
    for lease, receipt in given:
        office.say("ann", lease.item, kind="undo", based_on=receipt.id, lease=lease.token)
    assert office.counter("closed") == 0
    ranks = [(row["epoch"], row["rank"]) for row in office.rows(schema.ranking)]
    assert len(set(ranks)) == len(ranks) == 12


def test_two_items_that_need_more_votes_between_two_answers(office):
    office.project(items=3)
    given = [office.label("ann", 1)[0] for _ in range(2)]
    for number in office.names(given):
        office.store.write(lambda conn, number=number: answers.need(conn, number, 2))
    assert len(office.next("ben", 3)) == 3


def test_an_order_that_was_numbered_too_high_does_not_stop_an_undo(office):
    office.project(items=3)
    given = [office.label("ann", 1) for _ in range(2)]
    [left] = {1, 2, 3} - set(office.names([lease for lease, _ in given]))
    row = {"epoch": schema.BASE, "rank": -3, "item_id": left, "arm": "again", "probability": 1.0}
    office.store.write(lambda conn: conn.execute(schema.ranking.insert(), row))
    lease, receipt = given[0]
    office.say("ann", lease.item, kind="undo", based_on=receipt.id, lease=lease.token)
    assert min(row["rank"] for row in office.rows(schema.ranking)) == -4


def test_one_item_may_need_more_votes_than_the_others(office):
    office.project(items=1)
    lease, _ = office.label("ann", 1)
    number = office.names([lease])[0]
    office.store.write(lambda conn: answers.need(conn, number, 3))
    assert office.names(office.next("ben")) == [number]
    assert office.names(office.next("cat")) == [number]
    assert office.next("dan") == []


def test_need_of_an_item_nobody_has_answered(small):
    small.project(items=1)
    small.store.write(lambda conn: answers.need(conn, 1, 2))
    small.label("ann")
    assert small.counter("closed") == 0
    small.label("ben")
    assert small.counter("closed") == 1


def test_suggestions_are_shown_on_a_random_half_and_never_in_a_review(office):
    office.project(items=120, suggestions=True)
    office.rank(range(1, 121), predicted=2)
    shown = [office.label("ann")[0].suggestion for _ in range(120)]
    assert set(shown) == {None, 2}
    assert 40 < shown.count(2) < 80
    stored = [row["suggested"] for row in office.rows(schema.event)]
    assert [bool(each) for each in stored] == [each is not None for each in shown]
    assert {row["predicted"] for row in office.rows(schema.event)} == {2}


def test_without_the_setting_nothing_is_suggested(small):
    small.project(items=5)
    small.rank(range(1, 6), predicted=2)
    assert {lease.suggestion for lease in small.next("ann", 5)} == {None}


def test_the_reason_is_told_after_the_answer_only(small):
    small.project(items=2)
    small.rank([2, 1], score=0.5, why={"cmap": 0.1})
    [lease] = small.next("ann")
    ann, ben = small.person("ann"), small.person("ben")
    with pytest.raises(BadInput, match="after the answer"):
        small.store.read(lambda conn: queue.why(conn, lease.token, ann))
    small.say("ann", lease.item, 0, lease=lease.token)
    told = small.store.read(lambda conn: queue.why(conn, lease.token, ann))
    assert (told["arm"], told["score"], told["cmap"]) == ("strategy", 0.5, 0.1)
    with pytest.raises(BadInput, match="no such item"):
        small.store.read(lambda conn: queue.why(conn, lease.token, ben))


def test_the_reason_names_the_projects_own_strategy_and_share(small):
    small.project(items=4, strategy="margin", control=0.25)
    small.rank([1, 2])
    lease, _ = small.label("ann")
    told = small.store.read(lambda conn: queue.why(conn, lease.token, small.person("ann")))
    assert (told["strategy"], told["control"]) == ("margin", 0.25)


def test_nothing_is_kept_back_before_there_is_a_model(small):
    """The first order is at random over everything: all its items are as likely, and that is what an export says."""
    small.project(items=4)
    for _ in range(4):
        small.label("ann")
    assert [(row["arm"], row["probability"]) for row in small.rows(schema.event)] == [("random", 1.0)] * 4


def test_a_tab_may_not_hoard(small):
    small.project(items=30)
    with pytest.raises(BadInput, match="1 to 10"):
        small.next("ann", 11)


def test_a_person_who_answered_thousands_of_open_items_does_not_search_them_again(small):
    small.project(items=60, votes=2)
    for _ in range(60):
        small.label("ann")
    rank = next(row["rank"] for row in small.rows(schema.cursor))
    first = min(row["rank"] for row in small.rows(schema.ranking))
    assert rank > first
    assert small.next("ann") == []


def test_items_that_come_later_are_shuffled_among_the_others(small):
    small.project(items=200)
    added = projects.add_items(small.store, [projects.NewItem(f"late{at}") for at in range(200)])
    assert added == 200
    assert projects.add_items(small.store, [projects.NewItem("late0")]) == 0
    head = small.names([small.label("ann")[0] for _ in range(100)])
    assert 25 < sum(at > 200 for at in head) < 75


@pytest.mark.parametrize("votes", [1, 3])
def test_many_clients_collect_exactly_the_votes_asked_for(office, votes):
    """The full size (50 clients, 5,000 items) is in benchmarks/reliability.py."""
    office.project(items=60, votes=votes)
    names = [f"person{at}" for at in range(8)]
    for name in names:
        office.person(name)
    failures = []

    def work(name):
        try:
            while office.next(name):
                office.label(name)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert Counter(Counter(row["item_id"] for row in office.rows(schema.vote)).values()) == {votes: 60}
    assert not any(row["late"] for row in office.rows(schema.event))
    assert office.counter("closed") == 60


def test_two_servers_on_one_database_agree(office):
    office.project(items=40)
    ann, ben = office.person("ann"), office.person("ben")
    second = open_store(office.url, clock=office.clock)
    found = {}

    def work(store, who):
        found[who.name] = []
        for _ in range(20):
            [lease] = store.write(lambda conn: queue.hand_out(conn, 1.0, who, "tab", 1))
            said = answers.Answer(lease.token, lease.item, "label", 1.0, 0, None, lease.token)
            store.write(lambda conn, said=said: answers.submit(conn, 1.0, who, said))
            found[who.name].append(lease.item)

    threads = [threading.Thread(target=work, args=pair) for pair in ((office.store, ann), (second, ben))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.close()
    assert len({*found["ann"], *found["ben"]}) == 40
    assert sorted(row["seq"] for row in office.rows(schema.event)) == list(range(1, 41))


def test_the_queue_reads_by_index(small):
    """No statement of the path from next to submit scans a table that grows with the items."""
    from sqlalchemy import event

    small.project(items=50, votes=2)
    small.rank(range(1, 40))
    small.label("ann")
    plans = []

    @event.listens_for(small.store.engine, "before_cursor_execute")
    def explain(conn, cursor, statement, parameters, context, many):
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
            raw = conn.connection.driver_connection.execute("EXPLAIN QUERY PLAN " + statement, parameters)
            plans.extend((row[3], statement) for row in raw.fetchall())

    small.label("ann")
    small.label("ben")
    few = ("project", "counter", "label_class", "person", "CONSTANT ROW")
    scans = [plan for plan in plans if plan[0].startswith("SCAN") and not any(name in plan[0] for name in few)]
    scans = [plan for plan in scans if "USING INDEX" not in plan[0] and "event" not in plan[0]]
    assert plans
    assert not scans


def test_people_have_to_exist_for_a_lease(office):
    office.project(items=1)
    nobody = people.Person(99, "key", "nobody", "annotator")
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        office.store.write(lambda conn: queue.hand_out(conn, 1.0, nobody, "tab", 1))


def test_an_order_that_was_left_half_written_does_not_show(office):
    office.project(items=5)
    ranking.prepare(office.store, [ranking.Ranked(at, "strategy", 1.0) for at in (5, 4)])  # the worker died here
    epoch = office.rank([3, 2])
    assert office.names(office.next("ann", 2)) == [3, 2]
    assert {row["epoch"] for row in office.rows(schema.ranking)} == {schema.BASE, epoch}


def test_orders_that_were_never_used_do_not_pile_up(office):
    office.project(items=5)
    in_use = office.rank([3, 2])
    for _ in range(3):
        ready = ranking.prepare(office.store, [ranking.Ranked(at, "strategy", 1.0) for at in (5, 4)])
    assert {row["epoch"] for row in office.rows(schema.ranking)} == {schema.BASE, in_use, ready}
