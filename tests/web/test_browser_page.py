"""What the page shows and what its keys and buttons do, one thing at a time, in headless Chromium."""

from __future__ import annotations

import pytest
from chromium import Site, visit

from ncalr.web.store import projects, schema
from ncalr.web.store.projects import NewItem

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture
def gallery(tmp_path):
    """A server with pictures of these sizes, or with these bytes."""
    from PIL import Image

    from ncalr.web.media import Media

    made = []

    def build(files, classes=("a", "b")):
        root = tmp_path / "gallery" / "photos"
        root.mkdir(parents=True)
        for name, what in files.items():
            if isinstance(what, bytes):
                (root / name).write_bytes(what)
            else:
                Image.new("RGB", what, (90, 120, 160)).save(root / name)
        made.append(Site(root.parent, Media(root, tmp_path / "cache", 1)))
        projects.create(made[0].desk.store, "p", "image", list(classes), [NewItem(name) for name in files])
        return made[0]

    yield build
    for site in made:
        site.stop()


# -- the stage


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_picture_of_any_shape_is_shown_whole(browser, gallery, options):
    shapes = {"wide.jpg": (4000, 1500), "tall.jpg": (1500, 4000), "strip.jpg": (60, 1800), "small.png": (120, 100)}
    me = visit(browser, gallery(shapes), **options).ready()
    for at in range(len(shapes)):
        if at:
            me.press("a")
        me.page.wait_for_selector("#picture-frame:not([hidden])")
        seen = me.page.evaluate(
            "() => { const box = (id) => document.getElementById(id).getBoundingClientRect().toJSON();"
            "const image = document.getElementById('picture');"
            "return { frame: box('picture-frame'), picture: box('picture'), wide: image.naturalWidth,"
            "tall: image.naturalHeight }; }"
        )
        frame, picture = seen["frame"], seen["picture"]
        assert picture["top"] >= frame["top"] - 1
        assert picture["left"] >= frame["left"] - 1
        assert picture["bottom"] <= frame["bottom"] + 1
        assert picture["right"] <= frame["right"] + 1
        assert picture["width"] / picture["height"] == pytest.approx(seen["wide"] / seen["tall"], rel=0.05)
        if seen["tall"] == 100:
            assert picture["width"] == pytest.approx(120)  # what is small stays as it is


# -- keys


def said(site):
    """Kind and class of every event, in order."""
    return [(row["kind"], row["answer"]) for row in site.desk.rows(schema.event)]


def test_zero_is_a_class_where_one_has_it_and_fit_says_its_true_key(browser, site, gallery):
    pictures = gallery({"a.png": (900, 700), "b.png": (900, 700)}, [f"k{at}" for at in range(10)])
    me = visit(browser, pictures).ready()
    assert me.page.get_attribute("#zoom-reset", "title") == "Fit (Backspace)"
    me.page.keyboard.press("+")
    assert me.page.evaluate("() => document.getElementById('picture').style.transform")
    me.page.keyboard.press("Backspace")
    assert not me.page.evaluate("() => document.getElementById('picture').style.transform")
    me.page.keyboard.press("?")
    assert "Backspace" in me.page.inner_text("#keys")
    me.page.keyboard.press("Escape")
    me.press("0")
    me.saved()
    assert said(pictures) == [("label", 9)]
    site.desk.project(items=3)
    assert visit(browser, site).ready().page.get_attribute("#zoom-reset", "title") == "Fit (0)"


def test_classes_of_one_sign_have_it_as_their_key_and_commands_make_room(browser, site):
    site.desk.project(items=20, classes=["a", "b", "n", "d", "+", "two words"])
    me = visit(browser, site).ready()
    shown = me.page.locator("#others kbd").all_inner_texts()
    assert shown == ["u", "Shift+n", "Shift+b", "s", "z"]
    assert me.page.get_attribute("#theme-button", "title") == "Light or dark (Shift+d)"
    assert me.page.get_attribute("#zoom-in", "title") == "Larger"
    assert me.page.inner_text("[data-answer='5'] kbd") == "1"
    for key in ("b", "n", "d", "+", "1", "Shift+N", "Shift+B", "u"):
        me.press(key)
    me.saved()
    assert said(site) == [
        *(("label", at) for at in (1, 2, 3, 4, 5)),
        *((kind, None) for kind in ("none", "broken", "unsure")),
    ]


MANY = [f"kind {at:02d}" for at in range(30)]


def test_with_many_classes_commands_are_a_key_with_alt_while_the_field_has_the_letters(browser, site):
    site.desk.project(items=30, classes=MANY)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    assert me.page.locator("#others kbd").all_inner_texts() == [f"Alt+{key}" for key in "unbsz"]
    first = me.item
    for key in ("Alt+u", "Alt+n", "Alt+b"):
        me.press(key)
        assert me.page.input_value("#filter") == ""
    for _ in range(3):
        me.page.keyboard.press("Alt+z")
    me.page.wait_for_selector(f"body[data-item='{first}']")
    me.page.keyboard.press("?")  # an empty field does not want it
    me.page.wait_for_selector("#help[open]")
    me.page.keyboard.press("Escape")
    me.page.keyboard.type("u?")
    assert me.page.input_value("#filter") == "u?"
    me.page.keyboard.press("Escape")
    me.page.keyboard.press("Escape")  # out of the field: letters are commands again
    me.press("s")
    me.saved()
    assert [kind for kind, _ in said(site)] == ["unsure", "none", "broken", "undo", "undo", "undo", "skip"]


@pytest.mark.parametrize(
    ("typed", "keys", "chosen"),
    [
        ("iphone 12", [], "iPhone 12"),
        ("iphone 12", ["ArrowRight"], "iPhone 12 Pro"),
        ("phone", [], "phone case"),
        ("case", [], "case"),
        ("cafe", [], "Café"),
        ("", ["ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"], "iPhone 12"),
    ],
)
def test_typing_finds_the_class_that_is_meant(browser, site, typed, keys, chosen):
    names = ["iPhone 12 Pro", "iPhone 12", "telephone", "my phone", "phone case", "case", "Café", *MANY]
    site.desk.project(items=3, classes=names)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    me.page.keyboard.type(typed)
    for key in keys:
        me.page.keyboard.press(key)
    marked = me.page.get_attribute("#filter", "aria-activedescendant")
    assert me.page.inner_text(f"#{marked}") == chosen
    me.press("Enter")
    me.saved()
    assert said(site) == [("label", names.index(chosen))]


def test_enter_labels_nothing_where_nothing_was_found_or_typed(browser, site):
    site.desk.project(items=3, classes=MANY)
    me = visit(browser, site).ready()
    me.page.wait_for_selector("#filter:focus")
    before = me.item
    me.page.keyboard.press("Enter")
    me.page.keyboard.type("nothing like it")
    assert me.page.is_visible("text=No class matches")
    me.page.keyboard.press("Enter")
    me.page.wait_for_timeout(150)
    assert me.item == before


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_long_class_name_takes_no_clicks_of_others_and_buttons_stay_where_they_are(browser, site, options):
    names = [*MANY]
    names[7] = "a long name " * 12
    site.desk.project(items=10, classes=names)
    me = visit(browser, site, **options).ready()
    where = (
        "() => [...document.querySelectorAll('#classes button')].map(b => { const r = b.getBoundingClientRect();"
        "return [Number(b.dataset.answer), r.left, r.top, r.height]; })"
    )
    covered = me.page.evaluate(
        "() => [...document.querySelectorAll('#classes button')].filter(b => { const r = b.getBoundingClientRect();"
        "const hit = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);"
        "const area = document.getElementById('classes').getBoundingClientRect();"
        "return r.bottom < area.bottom && !b.contains(hit); }).map(b => b.innerText)"
    )
    assert covered == []
    places = me.page.evaluate(where)
    assert max(height for *_, height in places) < 60
    for at in (12, 3, 8):
        before = me.item
        me.page.locator(f"[data-answer='{at}']").click()
        me.page.wait_for_selector(f"body:not([data-item='{before}'])")
    assert sorted(me.page.evaluate(where)) == sorted(places)
    assert me.page.locator("#recent button span").all_inner_texts() == [names[at] for at in (12, 3, 8)]
    if not options:
        me.press("Alt+2")
        me.saved()
        assert said(site)[-1] == ("label", 3)
