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
