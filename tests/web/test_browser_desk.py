"""The page as a desk: undo beyond a reload, room beside the guidelines, tabs on a phone, what owners can change."""

from __future__ import annotations

import pytest
from chromium import visit

from ncalr.web.store import projects, ranking, review, schema

SMALL = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


def box(page, selector):
    return page.locator(selector).bounding_box()


def test_undo_goes_on_behind_a_reload(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site).ready()
    seen = []
    for key in "123":
        seen.append(me.item)
        me.press(key)
    me.saved()
    me.page.reload()
    me.ready()
    me.page.wait_for_selector("#undo:enabled")
    for left, item in zip((2, 1, 0), reversed(seen), strict=True):
        me.page.keyboard.press("z")
        me.page.wait_for_selector(f"body[data-item='{item}']")
        me.saved()
        assert len(site.desk.rows(schema.vote)) == left
    me.page.keyboard.press("z")
    me.page.wait_for_selector("#announce:has-text('Nothing to undo.')", state="attached")
    assert not me.page.is_visible("#history")
    me.press("3")
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.vote)] == [2]
    assert me.troubles == []


def test_undo_behind_a_reload_waits_for_answers_that_are_on_their_way(browser, site):
    site.desk.project(items=30)
    me = visit(browser, site).ready()
    me.press("1")
    me.saved()
    me.page.reload()
    me.ready()
    me.page.wait_for_selector("#undo:enabled")
    me.page.route("**/api/answers/*", lambda route: route.abort())
    me.press("2")
    me.page.keyboard.press("z")
    me.page.wait_for_selector("#announce:has-text('Taken back.')", state="attached")
    shown = me.item
    me.page.keyboard.press("z")  # what was said before is not to be had yet
    me.page.wait_for_selector("#announce:has-text('Cannot undo now')", state="attached")
    assert me.item == shown
    me.page.unroute("**/api/answers/*")
    me.page.evaluate("window.dispatchEvent(new Event('online'))")
    me.saved()
    assert [row["kind"] for row in site.desk.rows(schema.event)] == ["label", "label", "undo"]
    assert me.page.is_enabled("#undo")


def test_undo_behind_a_reload_brings_back_what_a_changed_answer_was(browser, site):
    site.desk.project(items=5)
    lease, first = site.desk.label("ann", 0)
    site.desk.say("ann", lease.item, 1, based_on=first.id, lease=lease.token)
    me = visit(browser, site).ready()
    me.page.keyboard.press("z")
    me.page.wait_for_selector(f"body[data-item='{lease.item}']")
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.vote)] == [0]
    me.press("3")
    me.saved()
    assert [row["answer"] for row in site.desk.rows(schema.vote)] == [2]
    assert me.troubles == []


@pytest.mark.parametrize("width", [1280, 1024])
def test_the_guidelines_stand_beside_the_answers(browser, site, width):
    site.desk.project(items=5)
    site.desk.store.write(lambda conn: projects.write_guideline(conn, 1.0, "# What is what\n\nLook twice."))
    me = visit(browser, site, viewport={"width": width, "height": 800}).ready()
    me.page.wait_for_selector("#guide:not([hidden])")
    guide = box(me.page, "#guide")
    for selector in ("#stage", "#answers", "#foot", "#others button:last-child"):
        part = box(me.page, selector)
        assert part["x"] + part["width"] <= guide["x"] + 1
    assert guide["y"] >= box(me.page, "#bar")["height"] - 1  # the tools in the bar can be reached
    me.press("1")
    me.page.keyboard.press("Escape")
    assert box(me.page, "#answers")["width"] == width


def test_every_tab_is_on_a_small_screen(browser, site):
    site.desk.project(items=60, votes=2)
    for name, answer in (("ann", 0), ("ben", 1)):
        for _ in range(24):
            site.desk.label(name, answer)
    for name in ("ann", "ben"):
        for _ in range(24):
            site.desk.label(name, 0)
    numbers = [row["item_id"] for row in site.desk.rows(schema.state) if row["status"] == "labelled"]
    doubts = [review.Doubt(number, 1.0, None, "why") for number in numbers]
    site.desk.store.write(lambda conn: review.enqueue(conn, 1, doubts, [], 0))
    me = visit(browser, site, "own", "owner", **SMALL)
    me.page.wait_for_selector("#view-adjudicate:not([hidden])")
    me.page.wait_for_selector("#view-review:not([hidden])")
    team = box(me.page, "#view-team")
    assert team["x"] + team["width"] <= SMALL["viewport"]["width"]
    assert me.page.inner_text("#view-review").split() == ["Second", "24"]
    assert me.page.inner_text("#view-adjudicate").split() == ["Decide", "24"]


def test_an_owner_changes_the_rules_adds_a_class_and_takes_items_back(browser, site):
    site.desk.project(items=30)
    site.desk.next("ann", 3)
    me = visit(browser, site, "own", "owner").ready()
    me.page.click("#view-team")
    me.page.click("#team summary")
    for name, value in (("strategy", "margin"), ("control", "20"), ("step", "5"), ("lease", "60")):
        me.page.fill(f"#{name}", value)
    me.page.check("#hide-names")
    me.page.click("text=Save rules")
    me.page.wait_for_selector("text=Saved. What chooses")
    rules = site.desk.store.read(projects.load).settings
    assert (rules.strategy, rules.control, rules.step, rules.lease_seconds, rules.hide_names) == (
        "margin",
        0.2,
        5,
        60,
        True,
    )
    sent = []
    me.page.on("request", lambda request: sent.append(request.post_data) if request.method == "PATCH" else None)
    me.page.click("text=Save rules")
    me.page.wait_for_selector("text=Nothing was changed.")
    me.page.fill("#step", "6")
    me.page.click("text=Save rules")
    me.page.wait_for_selector("text=Saved. What chooses")
    assert sent == ['{"step":6}']  # no more than what was changed
    me.page.fill("#strategy", "margn")
    me.page.click("text=Save rules")
    me.page.wait_for_selector("text=Did you mean")
    me.page.click("text=Take all items back")
    me.page.wait_for_selector("text=items are free again")
    assert {row["status"] for row in site.desk.rows(schema.lease)} == {"released"}
    me.page.fill("#new-class", "fish")
    me.page.click("text=Add the class")
    me.page.wait_for_selector("text=“fish” is added")
    assert site.desk.store.read(projects.classes)[-1] == "fish"
    me.page.click("#banner >> text=Reload")
    me.page.wait_for_selector("#classes button >> text=fish", state="attached")
    assert me.troubles == []


def test_a_model_that_is_no_better_than_a_constant_is_told_to_the_owner(browser, site):
    site.desk.project(items=30)
    worth = {"labels": 40, "right": 25, "commonest": 27, "always": "dog", "better": False}
    epoch = ranking.prepare(site.desk.store, [ranking.Ranked(1, "strategy", 1.0)])
    ranking.swap(site.desk.store, epoch, ranking.Trained(40, 0, 0.0, {"worth": worth}))
    ann = visit(browser, site).ready()
    ann.page.wait_for_selector("#fresh:has-text('no better than a constant')")
    assert not ann.page.is_visible("#banner")
    own = visit(browser, site, "own", "owner").ready()
    own.page.wait_for_selector("text=right on 62% of 40 labels it was not shown, against 68%")
    own.page.click("#banner >> text=Hide")
    own.page.reload()
    own.ready()
    own.page.wait_for_selector("#fresh:has-text('no better than a constant')")
    assert not own.page.is_visible("#banner")
