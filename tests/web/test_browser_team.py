"""The team view as an owner meets it: what it counts, what it gives away, and the items themselves."""

from __future__ import annotations

import pytest
from chromium import visit

from ncalr.web.store import projects

BREEDS = [f"{a}_{b}_terrier" for a in ("american", "staffordshire", "west_highland") for b in ("bull", "white", "toy")]
BREEDS += [f"shepherd_{at}" for at in range(12)]


@pytest.mark.parametrize("width", [390, 1440])
def test_labels_by_class_can_be_read_and_none_is_left_out(browser, site, width):
    site.desk.project(items=20, classes=BREEDS)
    for answer in (0, 0, 20):
        site.desk.label("ann", answer)
    own = visit(browser, site, "own", "owner", viewport={"width": width, "height": 900}).ready()
    own.page.click("#view-team")
    own.page.wait_for_selector("#team .bars")
    names = own.page.locator("#team .bars .name")
    assert sorted(names.all_inner_texts()) == sorted(BREEDS)
    assert names.first.bounding_box()["height"] > 14
    own.page.wait_for_selector("text=19 of 21 classes have none yet.")


def test_an_owner_copies_a_link(browser, site):
    site.desk.project(items=5)
    own = visit(browser, site, "own", "owner", permissions=["clipboard-read", "clipboard-write"]).ready()
    own.page.click("#view-team")
    own.page.click("text=Make a link")
    link = own.page.inner_text(".link-box")
    own.page.wait_for_selector("text=It is on the clipboard.")
    own.page.evaluate("navigator.clipboard.writeText('something else')")
    own.page.click("text=Copy")
    own.page.wait_for_timeout(200)
    assert own.page.evaluate("navigator.clipboard.readText()") == link


def test_the_team_view_goes_on_saying_what_is_so_and_leaves_what_is_written(browser, site):
    site.desk.project(items=20)
    own = visit(browser, site, "own", "owner").ready()
    own.page.click("#view-team")
    own.page.wait_for_selector("#team >> text=0 of 20")
    own.page.fill("#team textarea", "# Half a sentence")
    own.page.click("text=Make a link")
    link = own.page.inner_text(".link-box")
    for _ in range(3):
        site.desk.label("ann")
    own.page.wait_for_selector("#team >> text=3 of 20", timeout=30000)
    own.page.wait_for_selector("#people tr:has-text('ann') td:text-is('3')")
    assert own.page.input_value("#team textarea") == "# Half a sentence"
    assert own.page.inner_text(".link-box") == link
    own.page.focus("select[aria-label='Role of ann']")
    own.page.select_option("select[aria-label='Role of ann']", "reviewer")  # and what is new can be used
    own.page.wait_for_selector("#people tr:has-text('ann') option[selected]:text-is('reviewer')", state="attached")
    own.page.wait_for_selector("select[aria-label='Role of ann']:focus")
    own.page.click("#view-label")
    own.page.click("#view-team")
    own.page.wait_for_selector("#team textarea")
    assert own.page.input_value("#team textarea") == "# Half a sentence"  # not saved, and not lost
    own.page.click("text=Save guidelines")
    own.page.wait_for_selector("text=Saved as version 2")
    assert site.desk.store.read(projects.guideline) == "# Half a sentence"
    assert own.troubles == []


def test_guidelines_that_are_saved_while_the_view_is_drawn_anew(browser, site):
    """The answer comes to a view that is no more: what was saved is shown and said, until somebody writes anew."""
    site.desk.project(items=4)
    own = visit(browser, site, "own", "owner").ready()
    page, waiting = own.page, []

    def again():
        page.click("#view-label")
        page.evaluate("document.querySelector('#team textarea').dataset.old = 'yes'")
        page.click("#view-team")
        page.wait_for_selector("#team textarea:not([data-old])")

    page.click("#view-team")
    page.fill("#team textarea", "# Mine")
    page.route("**/api/guideline", lambda route: waiting.append(route))
    page.click("text=Save guidelines")
    again()
    assert page.input_value("#team textarea") == "# Mine"
    waiting[0].continue_()
    page.wait_for_selector("text=Saved as version 2")
    assert page.input_value("#team textarea") == "# Mine"
    again()
    assert "Saved as version 2" in page.inner_text("#team")
    page.click("text=Save guidelines")
    page.fill("#team textarea", "# Written on")  # before the answer is there
    waiting[1].continue_()
    page.wait_for_selector("text=Saved as version 3")
    again()
    assert page.input_value("#team textarea") == "# Written on"
    assert "Saved as version" not in page.inner_text("#team"), "of this nothing is"
    assert site.desk.store.read(projects.guideline) == "# Mine"
    assert own.troubles == []


def test_an_owner_looks_through_the_items_of_a_class_changes_one_and_has_one_asked_again(browser, site):
    site.desk.project(items=8)
    site.desk.person("own", "owner")
    site.desk.label("ann", 0)
    mine, _ = site.desk.label("own", 0)
    site.desk.label("ann", 1)
    own = visit(browser, site, "own", "owner").ready()
    own.page.click("#view-team")
    own.page.click("#items-button")
    cards = own.page.locator("#items-list li")
    own.page.wait_for_selector("#items-list li")
    assert cards.count() == 2
    own.page.click("#items-list >> text=Ask again")
    own.page.wait_for_selector("#items-list button:disabled >> text=Asked")
    own.page.select_option("#items-choice", label="dog")
    own.page.wait_for_selector("#items-list li:only-child")
    own.page.select_option("#items-choice", label="cat")
    own.page.click("#items-list li:only-child >> text=Change")  # the other one is open again
    own.page.wait_for_selector(f"body[data-item='{mine.item}']")
    own.page.wait_for_selector("text=Changing an old answer: you said cat")
    own.page.keyboard.press("3")
    own.page.wait_for_selector("#changing[hidden]", state="attached")
    own.saved()
    assert site.desk.state(mine.item)["answer"] == 2
    assert site.desk.counter("closed") == 2
    assert own.troubles == []


def test_the_items_are_for_owners(browser, site):
    site.desk.project(items=8)
    site.desk.label("ann", 0)
    eve = visit(browser, site, "eve", "reviewer").ready()
    eve.page.click("#view-team")
    eve.page.wait_for_selector("#team .bars")
    assert eve.page.locator("#items-button").count() == 0
