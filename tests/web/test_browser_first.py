"""The page as somebody meets it who is new: on a phone, with long names, with guidelines, with a hasty hand."""

from __future__ import annotations

import pytest
from chromium import visit

from ncalr.web.store import projects, review, schema
from ncalr.web.store.projects import NewItem

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
TABLET = {"viewport": {"width": 820, "height": 1180}}
BREEDS = [f"{a}_{b}_terrier" for a in ("american", "staffordshire", "west_highland") for b in ("bull", "white", "toy")]
BREEDS += [f"shepherd_{at}" for at in range(12)]


def box(page, selector):
    return page.locator(selector).bounding_box()


@pytest.mark.parametrize("options", [PHONE, TABLET], ids=["phone", "tablet"])
def test_the_classes_used_last_make_the_page_no_wider_than_the_window(browser, site, options):
    site.desk.project(items=20, classes=BREEDS)
    me = visit(browser, site, **options).ready()
    for at in range(6):
        before = me.item
        me.page.click(f"#class-{at}")
        me.page.wait_for_selector(f"body:not([data-item='{before}'])")
    width = options["viewport"]["width"]
    for selector in ("#answers", "#stage", "#foot", "#undo", "#classes"):
        part = box(me.page, selector)
        assert part["x"] >= 0, selector
        assert part["x"] + part["width"] <= width, selector


def test_a_long_name_of_joined_words_is_shown_whole(browser, site):
    site.desk.project(items=5, classes=BREEDS)
    me = visit(browser, site, viewport={"width": 1440, "height": 900}).ready()
    name = BREEDS.index("staffordshire_white_terrier")
    assert me.page.inner_text(f"#class-{name}") == "staffordshire_white_terrier"
    cut = f"(() => {{ const name = document.querySelector('#class-{name} span');"
    assert me.page.evaluate(cut + "return name.scrollWidth <= name.clientWidth; })()")


def test_a_button_that_was_tapped_is_not_lit_on_the_next_item(browser, site):
    site.desk.project(items=5)
    me = visit(browser, site, **PHONE).ready()
    before = me.item
    me.page.tap("#classes button >> nth=1")
    me.page.wait_for_selector(f"body:not([data-item='{before}'])")
    me.page.wait_for_selector("#classes:not(:has(.pressed))")
    looks = "[...document.querySelectorAll('#classes button')].map(each => getComputedStyle(each).backgroundColor)"
    assert len(set(me.page.evaluate(looks))) == 1


def test_a_double_click_answers_one_item(browser, site):
    site.desk.project(items=5)
    me = visit(browser, site).ready()
    first = me.item
    me.page.dblclick("#classes button >> nth=1")
    me.page.wait_for_selector(f"body:not([data-item='{first}'])")
    me.page.wait_for_timeout(500)
    me.page.click("#classes button >> nth=1")
    me.page.wait_for_timeout(300)
    me.saved()
    assert [row["kind"] for row in site.desk.rows(schema.event)] == ["label", "label"]


def test_guidelines_are_open_at_the_first_visit_and_not_again(browser, site):
    items = [NewItem(str(at), str(at)) for at in range(5)]
    projects.create(site.desk.store, "p", "text", ["x", "y"], items, guideline="# Look twice")
    me = visit(browser, site)
    me.page.wait_for_selector("#guide:not([hidden]) >> text=Look twice")
    me.page.keyboard.press("Escape")
    me.ready()
    me.press("x")
    me.page.reload()
    me.ready()
    me.page.wait_for_selector("#progress-text:has-text('1 of 5')")
    assert not me.page.is_visible("#guide")


def test_no_guidelines_open_no_panel(browser, site):
    site.desk.project(items=5)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#progress-text:has-text('0 of 5')")
    assert not me.page.is_visible("#guide")


def test_on_a_phone_a_button_leads_from_the_guidelines_to_the_items(browser, site):
    items = [NewItem(str(at), str(at)) for at in range(5)]
    projects.create(site.desk.store, "p", "text", ["x", "y"], items, guideline="# Look twice")
    me = visit(browser, site, **PHONE)
    me.page.tap("#guide >> text=Go on")
    assert me.page.is_hidden("#guide")
    me.ready()


def test_a_second_look_and_a_decision_say_what_is_asked(browser, site):
    site.desk.project(items=3, votes=2)
    site.desk.person("own", "owner")
    lease, _ = site.desk.label("ann", 0)
    site.desk.say("ben", lease.item, 1)
    lease, _ = site.desk.label("ann", 0)
    site.desk.say("ben", lease.item, 0)
    [number] = [row["item_id"] for row in site.desk.rows(schema.state) if row["status"] == "labelled"]
    site.desk.store.write(lambda conn: review.enqueue(conn, 1, [review.Doubt(number, 1.0, None, "why")], [], 0))
    own = visit(browser, site, "own", "owner").ready()
    assert own.page.is_hidden("#said")
    own.page.click("#view-review")
    own.page.wait_for_selector("#said:has-text('Somebody has labelled this already')")
    own.page.click("#view-adjudicate")
    own.page.wait_for_selector("#said:has-text('You decide.') >> text=1 says: cat")
    own.page.click("#view-label")
    own.page.wait_for_selector("#said", state="hidden")
    assert own.troubles == []
